"""NumPy arrays as arguments: accepted beside tensors, refused alone, as in torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, flatten, to_ours
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# These are only methods, so their first argument is a tensor anyway.
METHODS = {"expand_as", "reshape_as", "view_as", "set_"}

FIRST_OF_EACH = {row.name: row for row in reversed(ROWS)}


def with_arrays(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value with the tensor at a path (through lists) replaced by an array."""
    if not path:
        return value.numpy(force=True)
    return type(value)(with_arrays(item, path[1:]) if k == path[0] else item for k, item in enumerate(value))


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the tensors in a value."""
    if isinstance(value, rg.Tensor):
        yield ()
    elif isinstance(value, (tuple, list)):
        for k, item in enumerate(value):
            yield from ((k, *path) for path in paths(item))


def bound_to_tensors(row: Row) -> Bound:
    return Bound(row, next(iter(row.samples(Make(row.dtypes[0])))), to_ours, rg, row.gradients)


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in FIRST_OF_EACH.items()])
def test_array_beside_a_tensor_counts_as_a_tensor(row: Row) -> None:
    """The result is the same, and gradients reach the remaining tensors."""
    bound = bound_to_tensors(row)
    arguments = [*bound.args, *bound.kwargs.values()]
    places = list(paths(arguments))
    if len(places) < 2 or row.name in METHODS:
        return
    expected = flatten(row.function(*bound.args, **bound.kwargs))
    for place in places:
        replaced = with_arrays(arguments, place)
        kwargs = dict(zip(bound.kwargs, replaced[len(bound.args) :], strict=True))
        results = flatten(row.function(*replaced[: len(bound.args)], **kwargs))
        left = any(x.requires_grad for x in flatten(replaced) if isinstance(x, rg.Tensor))
        for a, b in zip(results, expected, strict=True):
            assert type(a) is type(b)
            if isinstance(b, rg.Tensor):
                np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
        if left and any(isinstance(b, rg.Tensor) and b.requires_grad for b in expected):
            assert any(a.requires_grad for a in results), f"{place}: no gradient would reach the tensors"


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in FIRST_OF_EACH.items()])
def test_arrays_alone_are_refused(row: Row) -> None:
    bound = bound_to_tensors(row)
    arguments = [*bound.args, *bound.kwargs.values()]
    places = list(paths(arguments))
    if not places:
        return
    for place in places:
        arguments = with_arrays(arguments, place)
    kwargs = dict(zip(bound.kwargs, arguments[len(bound.args) :], strict=True))
    with pytest.raises(
        TypeError, match=r"must be (Tensor, not ndarray|tuple of Tensors, not (of ndarrays|list|tuple))"
    ):
        row.function(*arguments[: len(bound.args)], **kwargs)


def test_gradients_reach_the_tensor_beside_an_array() -> None:
    x = rg.ones(3, requires_grad=True)
    rg.dist(np.zeros(3, np.float32), x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3**-0.5, rtol=1e-6)
