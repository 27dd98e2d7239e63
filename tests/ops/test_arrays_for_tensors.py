"""NumPy arrays as arguments: beside tensors they count as such, or are refused; alone they are refused, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, flatten, to_ours
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FIRST_OF_EACH = {row.name: row for row in reversed(ROWS)}

# Functions of arrays that rules call, too, and that compute with arrays there.
FOR_RULES = {"constant_pad_nd", "gather", "index_select", "linalg.multi_dot", "chain_matmul", "tensordot"}


def arguments(row: Row) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call that begins with a tensor, with an array in its place."""
    sample = next(iter(row.samples(Make(row.dtypes[0]))))
    bound = Bound(row, sample, to_ours, rg, False)
    if not bound.args or not isinstance(bound.args[0], rg.Tensor):
        return None
    return [sample.args[0], *bound.args[1:]], bound.kwargs


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in FIRST_OF_EACH.items()])
def test_an_array_in_place_of_the_first_tensor(row: Row) -> None:
    found = arguments(row)
    if found is None or row.name in FOR_RULES:
        return
    args, kwargs = found
    beside = any(isinstance(x, rg.Tensor) for value in (*args[1:], *kwargs.values()) for x in flatten(value))
    try:
        results = flatten(row.function(*args, **kwargs))
    except TypeError as error:
        assert "must be" in str(error)
    else:
        assert beside, "no argument is a tensor"
        assert all(isinstance(result, (rg.Tensor, bool)) for result in results)


def test_gradients_reach_the_tensors_beside() -> None:
    x = rg.ones(3, requires_grad=True)
    rg.dist(np.zeros(3, np.float32), x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3**-0.5, rtol=1e-6)
