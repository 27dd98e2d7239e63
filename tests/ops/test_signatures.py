"""Every sample of the table called with torch's keywords and with ``out=``."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, as_array, assert_same, flatten, to_ours, to_torch
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

STUBS = Path(torch.__file__).parent / "_C"
NAMED_ROWS = [pytest.param(row, id=row.name) for row in ROWS if row.torch is None]


def overloads_in(body: list[ast.stmt]) -> dict[str, list[list[str]]]:
    """Return the positional parameters of functions."""
    found = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.args.vararg is None:
            found[node.name].append([argument.arg for argument in (*node.args.posonlyargs, *node.args.args)])
    return found


@functools.cache
def function_overloads() -> dict[str, list[list[str]]]:
    """Return the overloads of functions, except those with a number as first operand, which call it ``self``."""
    found = overloads_in(ast.parse((STUBS / "_VariableFunctions.pyi").read_text()).body)
    return {name: [names for names in some if "self" not in names] for name, some in found.items()}


@functools.cache
def method_overloads() -> dict[str, list[list[str]]]:
    module = ast.parse((STUBS / "__init__.pyi").read_text()).body
    return overloads_in(next(node for node in module if getattr(node, "name", "") == "TensorBase").body)  # type: ignore


def calls(row: Row) -> list[tuple[Bound, Bound]]:
    """Yield some samples, bound in both libraries."""
    dtype = "float64" if "float64" in row.dtypes else row.dtypes[0]
    return [
        (Bound(row, sample, to_ours, rg, False), Bound(row, sample, to_torch, torch, False))
        for sample in list(row.samples(Make(dtype)))[:4]
    ]


def accepted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a torch function, or None if it does not take such arguments."""
    try:
        return function(*args, **kwargs)
    except (TypeError, RuntimeError, IndexError, ValueError):
        return None


def compare(row: Row, got: Any, expected: Any) -> None:
    got, expected = flatten(got), flatten(expected)
    if row.post is not None:
        got, expected = row.post(got), row.post(expected)
    for a, b in zip(got, expected, strict=True):
        assert_same(a, b, row.tolerance, check_dtype=row.check_dtype)


@pytest.mark.parametrize("row", NAMED_ROWS)
def test_functions_take_torchs_keywords(row: Row) -> None:
    for names in function_overloads().get(row.name, []):
        for ours, theirs in calls(row):
            if len(theirs.args) > len(names) or set(names) & set(theirs.kwargs):
                continue
            expected = accepted(row.oracle, **dict(zip(names, theirs.args, strict=False)), **theirs.kwargs)
            if expected is not None:
                compare(row, row.function(**dict(zip(names, ours.args, strict=False)), **ours.kwargs), expected)


@pytest.mark.parametrize("row", [param for param in NAMED_ROWS if param.values[0].method])
def test_methods_take_torchs_keywords(row: Row) -> None:
    for _, *names in method_overloads().get(row.name, []):
        for ours, theirs in calls(row):
            if not 1 < len(theirs.args) <= len(names) + 1 or set(names) & set(theirs.kwargs):
                continue
            given = dict(zip(names, theirs.args[1:], strict=False)) | theirs.kwargs
            expected = accepted(getattr(torch.Tensor, row.name), theirs.args[0], **given)
            if expected is not None:
                given = dict(zip(names, ours.args[1:], strict=False)) | ours.kwargs
                compare(row, getattr(rg.Tensor, row.name)(ours.args[0], **given), expected)


def empty(result: Any, library: Any) -> Any:
    """Return an empty tensor for each result, to pass as ``out``, or None if not all results are tensors."""
    results = flatten(result)
    if not all(isinstance(item, torch.Tensor) for item in results):
        return None
    outs = tuple(library.empty(0, dtype=getattr(library, str(item.dtype).split(".")[-1])) for item in results)
    return outs[0] if isinstance(result, torch.Tensor) else outs


@pytest.mark.parametrize("row", NAMED_ROWS)
def test_functions_take_out_where_torchs_do(row: Row) -> None:
    for ours, theirs in calls(row):
        plain = accepted(row.oracle, *theirs.args, **theirs.kwargs)
        out = None if plain is None or "out" in theirs.kwargs else empty(plain, torch)
        if out is None or accepted(row.oracle, *theirs.args, **theirs.kwargs, out=out) is None:
            continue
        own = empty(plain, rg)
        returned = row.function(*ours.args, **ours.kwargs, out=own)
        compare(row, own, out)
        for a, b in zip(flatten(returned), flatten(own), strict=True):
            assert a is b


def test_out_is_not_recorded() -> None:
    x = rg.ones(3, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        rg.kron(x, x, out=rg.empty(0))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        rg.kron(x.detach(), x.detach(), out=rg.empty(0, requires_grad=True))
    out = rg.empty(0)
    with rg.no_grad():
        assert rg.kron(x, x, out=out) is out
    np.testing.assert_array_equal(as_array(out), np.ones((9, 9), np.float32))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda lib, x: lib.flip(x1=x, dims=(0,)), id="an operation"),
        pytest.param(lambda lib, x: lib.isclose(x1=x, x2=x), id="an operation of two operands"),
        pytest.param(lambda lib, x: lib.diff(x1=x, axis=0), id="a composite"),
        pytest.param(lambda lib, x: lib.kron(x1=x, x2=x), id="a composite of two operands"),
        pytest.param(lambda lib, x: lib.var(x, axis=0, keepdims=True), id="options"),
    ],
)
def test_numpy_keywords_are_accepted(call: Callable[[Any, Any], Any]) -> None:
    values = np.arange(4.0).reshape(2, 2)
    theirs = call(torch, torch.tensor(values))
    np.testing.assert_array_equal(as_array(call(rg, rg.tensor(values))), theirs.numpy())
