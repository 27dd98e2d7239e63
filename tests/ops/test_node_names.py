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
BY_VALUE = {"div": "rounding_mode", "round": "decimals", "sort": "stable"}
# forms that Python programs cannot reach: torch's C++ functions call them, with numbers and in place
ONLY_INSIDE = ("DivBackward1", "MulBackward1", "TransposeBackward1")
# the in-place form has a derivative of its own there
OWN_INPLACE = ("conj_physical",)


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
