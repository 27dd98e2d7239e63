"""Events are complete, immutable, and survive JSON in every detail."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograd import anomaly
from retrograd.anomaly.event import GradEvent, NaNEvent, event_from_json
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.report.contents import path
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings


def exactly(a: Any, b: Any) -> bool:
    """Compare so that 0.0 differs from -0.0, 1 from True and a tuple from a list, and NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return all(exactly(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, dict):
        return list(a) == list(b) and all(exactly(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(exactly, a, b))
    if isinstance(a, (complex, np.complexfloating)):
        return exactly(a.real, b.real) and exactly(a.imag, b.imag)
    if isinstance(a, (float, np.floating)):
        return bool(a == b and np.signbit(a) == np.signbit(b)) or bool(np.isnan(a) and np.isnan(b))
    return bool(a == b)


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    FLOATS,
    st.complex_numbers(allow_nan=True, allow_infinity=True),
    st.text(),
    st.floats(width=16).map(np.float16),
    st.floats(width=32).map(np.float32),
    FLOATS.map(np.float64),
    st.complex_numbers(width=64).map(np.complex64),
    st.complex_numbers().map(np.complex128),
    st.integers(0, 255).map(np.uint8),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.booleans().map(np.bool_),
    FLOATS.map(np.longdouble),
)
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=2),
    ),
    max_leaves=6,
)
SHAPES = st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3).map(tuple))
TEXT = st.one_of(st.none(), st.text())
LEAVES = st.builds(Operand, name=st.text(), value=VALUES, shape=SHAPES, dtype=TEXT, constant=st.booleans())
OPERATIONS = st.builds(Operation, op=st.text(), args=st.lists(LEAVES, max_size=2).map(tuple), code_line=TEXT)
OPERANDS = st.builds(
    Operand, name=st.text(), value=VALUES, producer=OPERATIONS, key=st.one_of(st.none(), st.integers())
)
SURROUNDINGS = st.builds(
    Surroundings,
    operation=st.builds(Operation, op=st.text(), args=st.lists(OPERANDS, max_size=2).map(tuple)),
    consumers=st.lists(st.one_of(OPERATIONS, st.text()), max_size=2).map(tuple),
    grad_value=NUMBERS,
    context=st.dictionaries(st.text(), VALUES, max_size=2),
)
EVENTS = st.builds(
    NaNEvent,
    kind=st.text(),
    op=st.text(),
    is_backward=st.booleans(),
    code_line=TEXT,
    index=SHAPES,
    operands=st.dictionaries(st.text(), VALUES, max_size=3),
    size=st.integers(0),
    output_shape=SHAPES,
    output_stats=st.one_of(st.none(), st.dictionaries(st.sampled_from(["min", "max", "mean"]), FLOATS)),
    path=st.lists(st.text(), max_size=3).map(tuple),
    surroundings=st.one_of(st.none(), SURROUNDINGS),
    reproducible=st.one_of(st.none(), st.booleans()),
)


@given(EVENTS)
def test_an_event_survives_json_unchanged(event: NaNEvent) -> None:
    text = event.to_json()
    assert "\n" not in text
    assert text.isascii()
    back = NaNEvent.from_json(text)
    assert exactly(back, event)
    assert back == event
    assert hash(back) == hash(event)


def test_the_json_of_an_event_is_strict_json() -> None:
    event = NaNEvent(kind="invalid", op="log", operands={"input": math.nan}, output_stats={"min": -math.inf})

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(event.to_json(), parse_constant=refuse)
    assert data["op"] == "log"
    assert data["batch_idx"] is None
    assert set(data) == {"$record"} | {field.name for field in dataclasses.fields(NaNEvent)}


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    event = NaNEvent(kind="leaf", op="leaf", surroundings=Surroundings(operation=Operation(op="log")))
    data = json.loads(event.to_json())
    data["from_the_future"] = {"$record": "Unheard", "of": 1}
    data["surroundings"]["operation"]["colour"] = "red"
    data["version"] = 7
    back = NaNEvent.from_json(json.dumps(data))
    assert back.version == 7
    assert dataclasses.replace(back, version=1) == event


def test_missing_fields_of_an_older_version_have_defaults() -> None:
    assert NaNEvent.from_json('{"$record": "NaNEvent", "kind": "divide", "op": "log"}') == NaNEvent(
        kind="divide", op="log"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"kind": "divide"', "[1, 2]", "3", '{"kind": "divide", "op": "log"}'),
        *('{"$record": "NaNEvent", "kind": "a", "op": "b", "index": 3}', '{"$record": [1]}', "[" * 100_000),
        *('{"$float": [1]}', '{"$complex": 3}', '{"$numpy": "float3", "value": 1}', '{"$dict": [[{"$list": []}, 1]]}'),
        *('{"$record": "NaNEvent"}', '{"$record": "NaNEvent", "kind": "divide"}', '{"$record": "GradEvent"}'),
    ],
)
def test_text_that_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|not an|Expecting|this one has"):
        NaNEvent.from_json(text)
    with pytest.raises(ValueError, match=r"not a|not an|Expecting|this one has"):
        event_from_json(text)


def test_births_and_spikes_are_distinguished() -> None:
    grad = GradEvent(batch_idx=3, layer_name="encoder.0", param_name="weight", grad_norm=math.inf, threshold=10.0)
    birth = NaNEvent(kind="divide", op="log")
    assert exactly(event_from_json(grad.to_json()), grad)
    assert exactly(event_from_json(birth.to_json()), birth)
    with pytest.raises(ValueError, match="not a NaNEvent"):
        NaNEvent.from_json(grad.to_json())
    assert str(grad) == "gradient norm of encoder.0.weight is inf, above the threshold 10, at batch 3"


def test_a_value_without_a_json_form_is_named_in_the_error() -> None:
    with pytest.raises(TypeError, match="not ndarray"):
        NaNEvent(kind="leaf", op="leaf", operands={"input": np.ones(2)}).to_json()


def test_events_are_immutable_and_normalised() -> None:
    event = NaNEvent(kind="divide", op="log", index=[np.int64(1), 2], output_shape=[3, 4], path=["log", "sum"])  # type: ignore[arg-type]
    assert exactly(event.index, (1, 2))
    assert exactly(event.output_shape, (3, 4))
    assert event.path == ("log", "sum")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.op = "exp"  # type: ignore[misc]


def test_events_are_equal_if_they_say_the_same() -> None:
    def born(value: Any) -> NaNEvent:
        return NaNEvent(kind="divide", op="log", operands={"input": value})

    assert born(math.nan) == born(float("nan"))
    assert born(0.0) != born(-0.0)
    assert born(1) != born(1.0)
    assert len({born(math.nan), born(math.nan), born(0.0)}) == 2
    assert born(0.0) != "log"


@pytest.mark.parametrize(
    ("known", "born"),
    [
        ({"nan_count": 2, "posinf_count": 1}, "NaN"),
        ({"neginf_count": 1}, "-Inf"),
        ({"posinf_count": 1, "neginf_count": 1}, "Inf"),
        ({"output_has_nan": True}, "NaN"),
        ({"output_has_inf": True}, "Inf"),
        ({"kind": "invalid"}, "NaN"),
        ({"kind": "overflow"}, "Inf"),
    ],
)
def test_the_counts_decide_what_was_born(known: dict[str, Any], born: str) -> None:
    assert NaNEvent(**{"kind": "divide", "op": "log", **known}).born == born


def test_an_infinity_beside_nans_of_the_input_is_the_birth() -> None:
    known = {"nan_count": 2, "posinf_count": 1, "size": 3, "output_has_nan": True, "output_has_inf": True}
    assert NaNEvent(kind="overflow", op="exp", input_has_nan=True, **known).born == "Inf"
    assert NaNEvent(kind="invalid", op="div", input_has_nan=True, **known).born == "NaN"
    assert NaNEvent(kind="overflow", op="exp", **known).born == "NaN"


def test_str_says_what_was_born_where_and_of_which_operands() -> None:
    event = NaNEvent(kind="invalid", op="log", filename="train.py", lineno=41, index=(3, 7), operands={"input": -1.0})
    assert str(event) == "NaN born in log at train.py:41, element [3, 7], input=-1.0"
    leaf = NaNEvent(kind="leaf", op="images", output_has_nan=True)
    assert str(leaf) == "NaN came in with images"
    known = {"kind": "leaf", "op": "leaf", "output_has_nan": True, "path": ("leaf", "mul"), "harmed": "loss"}
    weight = NaNEvent(**known, surroundings=Surroundings(context={"leaf": "parameter", "name": "fc.weight"}))
    assert str(weight) == "NaN came in with the parameter fc.weight"
    assert path(weight) == ("the parameter fc.weight", "mul", "loss")
    assert str(NaNEvent(**known, surroundings=Surroundings(context={"leaf": "batch"}))).endswith("no gradient")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("sqrt", "sqrt_", "SqrtBackward0", "aten::sqrt", "aten.sqrt_.default", "np.sqrt", "sqrt_backward"), "sqrt"),
        (
            ("aten::_softmax", "SoftmaxBackward0", "aten._softmax_backward_data.default", "nn.functional.softmax"),
            "softmax",
        ),
        (("LogSoftmaxBackward0", "_log_softmax"), "log_softmax"),
        (("aten.div.Tensor", "__truediv__", "__itruediv__", "true_divide", "divide", "DivBackward1"), "div"),
        (("__rtruediv__", "_rdiv"), "rdiv"),
        (("__rsub__", "aten.rsub.Scalar", "RsubBackward1"), "rsub"),
        (("pow.Tensor_Scalar", "__pow__", "np.power", "PowBackward1", "float_power"), "pow"),
        (("linalg_vector_norm", "LinalgVectorNormBackward0", "torch.linalg.norm", "frobenius_norm"), "norm"),
        (("Log1PBackward0", "log1p"), "log1p"),
        (("linalg_cholesky_ex", "LinalgCholeskyExBackward0", "cholesky"), "cholesky"),
        (("std_mean.correction", "StdBackward0"), "std"),
        (("torch::autograd::AccumulateGrad", "AccumulateGrad"), "accumulate_grad"),
        (("expit", "special_expit", "SigmoidBackward0"), "sigmoid"),
        (("arccos", "AcosBackward0"), "acos"),
        (("ScaledDotProductFlashAttentionForCpuBackward0",), "scaled_dot_product_attention"),
        (("MyFunctionBackward", "my_function"), "my_function"),
        (("BackwardHookFunctionBackward",), "backward_hook_function"),
        (("GeneratedBackwardFor_mylib_safe_rsqrt_defaultBackward",), "mylib_safe_rsqrt"),
    ],
)
def test_all_spellings_of_an_operation_have_one_canonical_name(names: tuple[str, ...], expected: str) -> None:
    assert {canonical(name) for name in names} == {expected}


def test_repr_shows_only_known_fields() -> None:
    event = NaNEvent(kind="divide", op="log", lineno=3, operands={"input": 0.0}, neginf_count=1)
    assert repr(event) == "NaNEvent(kind='divide', op='log', lineno=3, operands={'input': 0.0}, neginf_count=1)"
    assert eval(repr(event)) == event
    spike = GradEvent(batch_idx=None, layer_name="", param_name="w", grad_norm=3.0, threshold=1.0)
    assert eval(repr(spike)) == spike


def test_every_context_key_that_explanations_read_is_documented() -> None:
    files = Path(anomaly.__file__).parent.rglob("*.py")
    read = {key for file in files for key in re.findall(r'context(?:\.get\(|\[)"(\w+)"', file.read_text())}
    assert len(read) > 20
    assert [key for key in sorted(read) if f'``"{key}"``' not in (Surroundings.__doc__ or "")] == []


def test_options_of_an_optimizer_given_as_tensors_become_numbers() -> None:
    """PyTorch's optimizers accept tensors as options. The event holds their numbers and can be written as JSON."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
    optimizer = torch.optim.Adam([weight], torch.tensor(0.1), betas=(torch.tensor(0.5), torch.tensor(0.75)))
    with anomaly.watch(optimizer=optimizer, policy="record") as w:
        weight.sqrt().sum().backward()
        optimizer.step()
    event = NaNEvent.from_json(w.events[0].to_json())
    assert event.surroundings is not None
    options = event.surroundings.context["optimizer"]
    assert options["betas"] == (0.5, 0.75)
    assert options["lr"] == pytest.approx(0.1)


def test_values_without_a_json_form_in_the_context_are_refused() -> None:
    event = NaNEvent(kind="leaf", op="leaf", surroundings=Surroundings(context={"options": {object}}))
    with pytest.raises(TypeError, match=r"a record holds numbers, strings.*, not set"):
        event.to_json()
