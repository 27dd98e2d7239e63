"""A parameter for a bool, an integer or a number refuses what torch refuses, and takes what torch takes.

What it takes is read off its annotation; here every function of the table is called with wrong values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core.kinds import Kind, kind_of
from tests.ops.harness import Bound, Make, Row, assert_same, flatten, to_ours, to_torch
from tests.ops.table import ROWS
from tests.parity import check_message

VALUES: dict[str, Any] = {
    "None": lambda m: None, "True": lambda m: True, "1": lambda m: 1, "1.5": lambda m: 1.5, "'a'": lambda m: "a",
    "[]": lambda m: [], "[1.5]": lambda m: [1.5], "[True]": lambda m: [True], "a class": lambda m: object,
    "np.int64(1)": lambda m: np.int64(1), "np.float64(1.5)": lambda m: np.float64(1.5),
    "tensor(1)": lambda m: m.tensor(1),
    "tensor(1.5)": lambda m: m.tensor(1.5), "tensor(True)": lambda m: m.tensor(True),
    "tensor([1, 1])": lambda m: m.tensor([1, 1]),
}  # fmt: skip

# torch looks at norm_type only together with max_norm; None for requires_grad counts as False there
TAKEN_IN_TORCH = {("embedding", "norm_type"), ("embedding_bag", "norm_type")}
TAKEN_IN_TORCH |= {("fft.fftfreq", "requires_grad"), ("fft.rfftfreq", "requires_grad")}
# taken here whatever the form of the call: torch's overloads have them only together with certain others
OF_OVERLOADS = {"correction", "dim", "dx", "keepdim", "spacing", "unbiased", "value"}
# lengths are taken one by one here, and in torch by methods only; or as any sequence
SIZES = {"dims", "kernel_size", "dilation", "padding", "stride", "shape", "shapes", "split_size_or_sections"}


def kinds_of(row: Row) -> dict[str, Kind]:
    """Return the kinds of the parameters that have one."""
    function = inspect.unwrap(row.function)
    annotations = getattr(function, "__annotations__", {})
    return {name: kind for name in annotations if name != "return" and (kind := kind_of(str(annotations[name])))}


CASES = [pytest.param(row, id=row.name) for row in ROWS if row.torch is None and kinds_of(row)]


def calls(row: Row, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each wrong value of a parameter with the calls in torch and here."""
    dtype = "float64" if "float64" in row.dtypes else row.dtypes[0]
    sample = next(iter(row.samples(Make(dtype))))
    position = list(inspect.signature(inspect.unwrap(row.function)).parameters).index(name)
    for text, value in VALUES.items():
        made = []
        for library, make_tensor, function in ((torch, to_torch, row.oracle), (rg, to_ours, row.function)):
            bound = Bound(row, sample, make_tensor, library, False)
            if position < len(bound.args):
                bound.args[position] = value(library)
            else:
                bound.kwargs[name] = value(library)
            made.append(lambda function=function, bound=bound: function(*bound.args, **bound.kwargs))
        yield text, *made


def is_type_error(call: Any) -> bool | None:
    """Whether a call raises a TypeError; None for another exception."""
    try:
        call()
    except TypeError:
        return True
    except Exception:
        return None
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", CASES)
def test_parameters_take_the_kinds_of_values_that_torch_takes(row: Row) -> None:
    wrong = []
    for name, kind in kinds_of(row).items():
        for text, theirs, ours in calls(row, name):
            if kind.several and text == "tensor(True)":
                continue  # torch takes it for a 1
            expected, got = is_type_error(theirs), is_type_error(ours)
            if name in SIZES and ("1" in text or "True" in text):
                continue
            if expected is True and got is False and name not in OF_OVERLOADS and not kind.tensors:
                wrong.append(f"{name}={text} is taken, but not in torch")
            if expected is False and got is True and (row.name, name) not in TAKEN_IN_TORCH:
                wrong.append(f"{name}={text} is taken in torch")
    assert wrong == []


def test_messages_name_function_parameter_and_value() -> None:
    x = rg.ones(2, 3)
    for call, words in (
        (lambda: x.sum(1, keepdim=1), ["sum()", "'keepdim'", "bool", "1"]),
        (lambda: x.sort(descending="yes"), ["sort()", "'descending'", "bool", "'yes'"]),
        (lambda: x.std(dim=1.5), ["std()", "'dim'", "int", "1.5"]),
        (lambda: x.std(dim=True), ["std()", "'dim'", "int", "True"]),
        (lambda: x.flip((0, 1.5)), ["flip()", "'dims'", "int", "1.5", "index 1"]),
        (lambda: rg.nn.functional.elu(x, [1.0]), ["elu()", "'alpha'", "float", "[1.0]"]),
        (lambda: rg.isclose(x, x, equal_nan=0), ["isclose()", "'equal_nan'", "bool", "0"]),
        (lambda: rg.histc(x, True), ["histc()", "'bins'", "int", "True"]),
        (lambda: rg.div(x, x, rounding_mode=[1]), ["div()", "'rounding_mode'", "str", "[1]"]),
        (lambda: rg.fft.fft(x, norm=["ortho"]), ["fft", "normalization mode", "ortho"]),
        (lambda: x.index_reduce_(0, "a", x, "mean"), ["index_reduce_()", "'index'", "Tensor", "str"]),
        (lambda: rg.addcmul(x, x, x, value="2"), ["addcmul()", "'value'", "number", "'2'"]),
    ):
        check_message(call, words)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda m, x: m.nn.functional.normalize(x, dim=(0, 1)), id="several dimensions of normalize"),
        pytest.param(lambda m, x: m.nn.functional.max_pool1d(x, 2, np.int64(1)), id="a NumPy number for a stride"),
        pytest.param(lambda m, x: m.nn.functional.max_pool1d(x, 2, return_indices=1), id="the truth of a number"),
        pytest.param(lambda m, x: m.nn.functional.gaussian_nll_loss(x, x, x + 9, full="a"), id="the truth of a string"),
        pytest.param(lambda m, x: x.sum(dim=m.tensor(1)), id="a tensor for a dimension"),
        pytest.param(lambda m, x: x.var(False), id="a bool in place of dimensions"),
    ],
)
def test_values_that_torch_takes_give_its_results(call: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    ours, theirs = call(rg, to_ours(values)), call(torch, to_torch(values))
    for a, b in zip(flatten(ours), flatten(theirs), strict=True):
        assert_same(a, b)


def test_numpys_bools_count_as_bools_by_position_and_by_keyword() -> None:
    x = rg.arange(6.0).reshape(2, 3)
    yes, no = np.True_, np.False_
    assert x.sum(1, yes).equal(x.sum(1, keepdim=yes)) and x.sum(1, yes).equal(x.sum(1, True))
    assert x.logsumexp(1, yes).equal(x.logsumexp(1, True))
    for function in (rg.var, rg.std):
        assert function(x, no).equal(function(x, False))
        assert function(x, 1, no).equal(function(x, 1, False))
        assert function(x, 1, no, yes).equal(function(x, 1, False, True))
        assert function(x, unbiased=no).equal(function(x, unbiased=False))
    with pytest.raises(TypeError, match=r"must be Tensor, not numpy\.bool"):
        rg.sum(yes)


@pytest.mark.parametrize("name", ["sum", "var", "std"])
def test_bools_in_tensors_are_no_dimensions_and_no_flags(name: str) -> None:
    with pytest.raises(TypeError, match=r"'dim' \(position 2\) must be int, not bool"):
        getattr(rg.ones(2, 3), name)(rg.tensor(True))


DROPOUTS = {
    "dropout": (2, 3), "dropout1d": (2, 3, 4), "dropout2d": (2, 3, 4, 4), "dropout3d": (2, 3, 4, 4, 4),
    "alpha_dropout": (2, 3), "feature_alpha_dropout": (2, 3, 4),
}  # fmt: skip
FLAGS: dict[str, Any] = {
    "is_causal": lambda m, v: m.nn.functional.scaled_dot_product_attention(*[m.ones(2, 3, 4)] * 3, is_causal=v),
    "enable_gqa": lambda m, v: m.nn.functional.scaled_dot_product_attention(*[m.ones(2, 3, 4)] * 3, enable_gqa=v),
    "replacement": lambda m, v: m.multinomial(m.ones(4), 2, v),
    "bidirectional": lambda m, v: m.nn.LSTM(2, 3, bidirectional=v)(m.ones(4, 2)),
    "batch_first": lambda m, v: m.nn.GRU(2, 3, batch_first=v)(m.ones(4, 2)),
    "bias": lambda m, v: m.nn.RNN(2, 3, bias=v)(m.ones(4, 2)),
    **{f"inplace of {name}": lambda m, v, name=name, shape=shape: getattr(m.nn.functional, name)(
        m.ones(shape), 0.5, True, v) for name, shape in DROPOUTS.items()},
    **{f"training of {name}": lambda m, v, name=name, shape=shape: getattr(m.nn.functional, name)(
        m.ones(shape), 0.5, v) for name, shape in DROPOUTS.items()},
}  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("value", [0, 1, 1.0, None, "a", True, False])
def test_flags_of_functions_outside_the_table_refuse_what_torch_refuses(flag: str, value: Any) -> None:
    assert is_type_error(lambda: FLAGS[flag](rg, value)) is is_type_error(lambda: FLAGS[flag](torch, value))
