"""Names of nodes: torch numbers the forms of a function, and the name says which form was called."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.op import Op
from tests.ops.harness import Bound, Make, Row, to_ours, to_torch, torch
from tests.ops.table import ROWS
from tests.parity import parity

CASES = [
    pytest.param(row, next(dtype for dtype in row.dtypes if np.dtype(dtype).kind in "fc"), id=row.name)
    for row in ROWS
    if row.gradients and any(np.dtype(dtype).kind in "fc" for dtype in row.dtypes)
]

# names depend on the classes of arguments, not on their values or whether they are given
BY_VALUE = {"div": "rounding_mode", "round": "decimals"}
# forms that torch's C++ functions call, with numbers and in place
ONLY_INSIDE = ("DivBackward1", "MulBackward1", "TransposeBackward1")
# the in-place form has a derivative of its own there
OWN_INPLACE = ("conj_physical",)


# Functions whose nodes have other names than torch's, by the reason. They are all deliberate.
_COMPOSED_HERE = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d affine_grid avg_pool1d bilinear
    block_diag cdist channel_shuffle cholesky_inverse cholesky_solve combinations cross_entropy ctc_loss
    cumulative_trapezoid diff dist einsum embedding_bag glu grid_sample index_reduce inner interpolate kron linalg.cond
    linalg.householder_product linalg.lstsq linalg.lu linalg.lu_solve linalg.matrix_norm linalg.matrix_power
    linalg.multi_dot chain_matmul linalg.norm linalg.solve linalg.solve_ex linalg.solve_triangular linalg.tensorinv
    linalg.vander lu_solve lu_unpack matrix_power max_pool1d max_unpool1d max_unpool2d max_unpool3d multi_margin_loss
    multilabel_margin_loss nanquantile nll_loss norm orgqr ormqr pad pairwise_distance pdist pixel_shuffle
    pixel_unshuffle quantile repeat_interleave rms_norm rsub segment_reduce soft_margin_loss std_mean stft istft
    sum_to_size svd tensordot trapezoid trapz triangular_solve unsafe_chunk unsafe_split unsafe_split_with_sizes vander
    var_mean
"""
_COMPOSED_IN_TORCH = """
    fft.fftshift fft.ifft fft.ifftshift fft.ihfft fft.ihfftn linalg.eigvals linalg.eigvalsh linalg.matmul linalg.svdvals
    linalg.vecdot linear matmul nanmean special.ndtr tanhshrink
"""
_COPIES = """
    alias_copy as_strided_copy diag diagonal_copy expand_copy permute_copy slice_copy split_copy split_with_sizes_copy
    squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_real_copy view_copy
"""
_VIEWS = "atleast_1d atleast_2d atleast_3d flatten imag movedim real reshape"
DELIBERATE = {
    **dict.fromkeys(_COMPOSED_HERE.split(), "composed of operations here, or of others than in torch: the last one's"),
    **dict.fromkeys(_COMPOSED_IN_TORCH.split(), "one operation here, composed of several in torch"),
    **dict.fromkeys(_COPIES.split(), "a clone of a view: the clone's"),
    **dict.fromkeys(_VIEWS.split(), "made by another view than in torch, which depends on shapes and strides"),
    **dict.fromkeys(("relu6", "selu"), "its own, which reports show; in torch it is that of hardtanh or elu"),
    **dict.fromkeys(("round", "special.round"), "torch's depends on whether decimals was given"),
    "cholesky": "another name of linalg.cholesky",
    "div": "torch's depends on whether rounding_mode was given, even as None",
    "fake_quantize_per_tensor_affine": "torch's depends on whether the scale is a tensor",
    "fft.fft": "of a real tensor, torch computes the half spectrum first",
}


def name(result: Any) -> str | None:
    node = getattr(result, "grad_fn", None)
    if node is None:
        return None
    assert node.name() in (type(node).__name__, f"torch::autograd::{type(node).__name__}")
    return str(node.name())


def is_another_form(ours: str | None, theirs: str | None) -> bool:
    """Whether the nodes belong to different forms of one function; functions that torch composes have other names."""
    if ours is None or theirs is None or ours == theirs or theirs in ONLY_INSIDE:
        return False
    return re.sub(r"\d+$", "", ours) == re.sub(r"\d+$", "", theirs)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_node_names_number_forms_as_in_torch(row: Row, dtype: str) -> None:
    wrong = []
    for sample in row.samples(Make(dtype)):
        if row.name == "special.round" or BY_VALUE.get(row.name) in sample.kwargs:
            continue
        ours, theirs = (Bound(row, sample, *library, True) for library in ((to_ours, rg), (to_torch, torch)))
        rg.manual_seed(0)
        for mine, other in zip(ours.run(row.function), theirs.run(row.oracle), strict=True):
            if is_another_form(name(mine), name(other)):
                wrong.append(f"{name(mine)} is {name(other)} in torch: {sample}")
        if row.inplace and row.name not in OWN_INPLACE and not any(step < 0 for step in sample.args[0].strides):
            ours, theirs = (Bound(row, sample, *library, True) for library in ((to_ours, rg), (to_torch, torch)))
            written = []
            for bound, tensor_type in ((ours, rg.Tensor), (theirs, torch.Tensor)):
                target = bound.args[0] * 1
                try:
                    getattr(tensor_type, f"{row.name}_")(target, *bound.args[1:], **bound.kwargs)
                except (RuntimeError, TypeError, IndexError):
                    break
                written.append(name(target))
            if len(written) == 2 and is_another_form(*written):
                wrong.append(f"in place, {written[0]} is {written[1]} in torch: {sample}")
    assert wrong == []


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_node_names_are_those_of_torch_or_differ_deliberately(row: Row, dtype: str) -> None:
    differing = []
    for sample in row.samples(Make(dtype)):
        ours, theirs = (Bound(row, sample, *library, True) for library in ((to_ours, rg), (to_torch, torch)))
        rg.manual_seed(0)
        for mine, other in zip(ours.run(row.function), theirs.run(row.oracle), strict=True):
            if name(mine) != name(other):
                differing.append(f"{name(mine)} is {name(other)} in torch: {sample}")
    assert row.name in DELIBERATE or differing == []


def test_deliberate_names_do_differ() -> None:
    """A function that has torch's names by now is to be taken from the list."""
    same = set(DELIBERATE)
    for row, dtype in (case.values for case in CASES):
        if row.name not in same:
            continue
        for sample in row.samples(Make(str(dtype))):
            ours, theirs = (Bound(row, sample, *library, True) for library in ((to_ours, rg), (to_torch, torch)))
            pairs = zip(ours.run(row.function), theirs.run(row.oracle), strict=True)
            if any(name(mine) != name(other) for mine, other in pairs):
                same.discard(row.name)
                break
    assert same == set()


@parity
def test_node_names_of_filling_and_sorting(m: Any) -> list[str | None]:
    x = m.ones(3, requires_grad=True)
    results = [
        *(m.fill(x, 2.0), m.fill(x, m.tensor(2.0)), (x * 1).fill_(2.0), (x * 1).fill_(m.tensor(2.0))),
        *(x.sort()[0], x.sort(stable=True)[0], x.sort(dim=0, stable=False)[0], x.sort(descending=True)[0]),
    ]
    return list(map(name, results))


@parity
def test_node_names_of_typical_calls(m: Any) -> list[str | None]:
    x = (m.arange(12.0).reshape(3, 4) + 1).requires_grad_()
    row, half, number = m.ones(1, 3, 1, requires_grad=True), x.to(m.float16), m.tensor(0.5)
    results = [
        *(x.sum(), x.sum(1), x.sum(dim=1), x.sum((0, 1)), x.sum(dtype=m.float64), x.sum(-1, keepdim=True)),
        *(x.mean(), x.mean(0), x.mean(dim=(0, 1)), x.prod(), x.prod(0), m.sum(x, 1), m.mean(x, dim=-1), m.prod(x, 1)),
        *(x**2, x**0.5, 2**x, x**x, x**number, m.pow(2, x), m.pow(x, x), x.pow(3), x.square(), m.float_power(2, x)),
        *(half**2, 2**half, half**half, half.sum(1), half.mean(), half % half, half % 2),
        *(row.squeeze(), row.squeeze(0), row.squeeze(-1), row.squeeze((0, 2)), m.squeeze(row, dim=2)),
        *(x % 2, x % x, x.fmod(2), x.fmod(x), 2 - x, m.rsub(x, x), x.copysign(x), x.copysign(-1)),
        *(x.clamp(0), x.clamp(max=0), x.clamp(0, 1), x.clamp(number), x.clamp(max=number), x.clamp(x, x * 2)),
        *(x.clamp_min(0), x.clamp_min(number), x.clamp_max(0), x.clamp_max(number)),
        *(x.masked_fill(x > 3, 0), x.masked_fill(x > 3, number), x.lerp(x, 0.5), x.lerp(x, x)),
        *(x.index_fill(0, m.tensor([0]), 1), x.index_fill(0, m.tensor([0]), number)),
        *(x.scatter(0, m.tensor([[0]]), 1.0), x.scatter(0, m.tensor([[0]]), x)),
        *(m.div(x, 2, rounding_mode="floor"), m.div(x, x, rounding_mode="trunc"), x / 2, x / x),
        *(x.sort()[0], x.round(), x.max(), x.max(0)[0], x.median()),
        *(x.split(2)[0], x.split([1, 2])[0], x.chunk(2)[0], m.split(x, [1, 2])[1]),
        *(m.xlogy(x, x), m.xlogy(2, x), m.xlogy(x, 2), m.normal(x, 1.0), m.normal(1.0, x), m.normal(x, x)),
    ]
    for write in (
        lambda y: y.pow_(2),
        lambda y: y.pow_(x),
        lambda y: y.masked_fill_(x > 1, 0),
        lambda y: y.masked_fill_(x > 1, number),
        lambda y: y.clamp_(0),
        lambda y: y.clamp_(x),
        lambda y: y.fmod_(2),
        lambda y: y.remainder_(x),
    ):
        results.append(write(x * 1))
    return list(map(name, results))


@parity
def test_errors_name_the_numbered_node(m: Any) -> list[str]:
    x = m.tensor([0.0, 1.0], requires_grad=True)
    messages = []
    for function in (lambda: (x**x * m.nan).sum(dim=0), lambda: (x**2).sum(0), lambda: (x % x).mean(0)):
        loss = function()
        with m.autograd.detect_anomaly(check_nan=True), pytest.warns(UserWarning):
            try:
                m.autograd.grad(loss, x, grad_outputs=m.tensor(m.nan))
            except RuntimeError as error:
                messages.append(str(error).splitlines()[0])
    return messages


def test_each_node_name_has_one_class() -> None:
    x = rg.ones(2, 2, requires_grad=True)
    one, other, whole = x.sum(0).grad_fn, x.sum(1).grad_fn, x.sum().grad_fn
    assert type(one) is type(other) is not type(whole)
    assert type((x**x).grad_fn) is type((x.clone() ** x).grad_fn) is not type((x**2).grad_fn)


def test_node_name_function_must_use_parameters_of_the_operation() -> None:
    with pytest.raises(TypeError, match=r"nodes are named by .*axis"):
        Op(lambda input: input, {}, kind="general", name="f", node_name=lambda axis: f"FBackward{axis}")


VIEWS_IN_PLACE: dict[str, Any] = {
    "squeeze_()": lambda x: x.squeeze_(),
    "squeeze_(0)": lambda x: x.squeeze_(0),
    "squeeze_((0, 1))": lambda x: x.squeeze_((0, 1)),
    "unsqueeze_": lambda x: x.unsqueeze_(-1),
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "as_strided_": lambda x: x.as_strided_((2,), (1,)),
}


@pytest.mark.parametrize("form", VIEWS_IN_PLACE)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_views_in_place_are_counted_after_the_other_forms(form: str, whole: bool, dtype: str) -> None:
    @parity
    def names(lib: Any) -> Any:
        leaf = lib.ones(2, 1, dtype=getattr(lib, dtype), requires_grad=True)
        x = leaf * 2
        x = VIEWS_IN_PLACE[form](x if whole else x[:])
        first = name(x)
        x.sum().backward()
        return first, name(VIEWS_IN_PLACE[form](lib.ones(2, 1))), leaf.grad

    names()
