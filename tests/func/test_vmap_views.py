"""Views of the memory of samples inside vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import parity

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "values": lambda m, x: m.vmap(lambda a: a.as_strided((2, 3), (4, 1), 1))(x),
    "of a part": lambda m, x: m.vmap(lambda a: a[1:].as_strided((2, 2), (1, 2)))(x),
    "of a transposed sample": lambda m, x: m.vmap(lambda a: a.t().as_strided((2, 2), (1, 3)))(x),
    "nested": lambda m, x: m.vmap(m.vmap(lambda a: a.as_strided((2, 2), (1, 1))))(x),
    "the same for all samples": lambda m, x: m.vmap(lambda a: a * x.as_strided((4,), (2,), 3))(x),
    "repeated elements": lambda m, x: m.vmap(lambda a: a.as_strided((2, 2), (0, 1)))(x),
    "vmap of grad": lambda m, x: m.vmap(m.func.grad(lambda a: (a.as_strided((2, 2), (1, 1), 2) ** 3).sum()))(x),
    "vmap of hessian": lambda m, x: m.vmap(m.func.hessian(lambda a: (a.as_strided((2, 2), (1, 1)) ** 3).sum()))(x),
    "jacrev of vmap": lambda m, x: m.func.jacrev(m.vmap(lambda a: (a.as_strided((2, 2), (1, 1)) ** 3).sum()))(x),
    "jacfwd of vmap": lambda m, x: m.func.jacfwd(m.vmap(lambda a: (a.as_strided((2, 2), (1, 1)) ** 3).sum()))(x),
}


def _written_to(a: Any) -> Any:
    a = a * 1
    a.as_strided((2,), (2,), a.storage_offset()).mul_(10)
    return a


PROGRAMS["written to"] = lambda m, x: m.vmap(_written_to)(x)
PROGRAMS["gradient of a write"] = lambda m, x: m.vmap(m.func.grad(lambda a: (_written_to(a) ** 2).sum()))(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_strided_inside_vmap(name: str) -> None:
    @parity
    def program(m: Any) -> Any:
        return PROGRAMS[name](m, m.arange(24.0).reshape(2, 3, 4))

    program()


def test_as_strided_inside_vmap_cannot_reach_other_samples() -> None:
    x = rg.arange(24.0).reshape(3, 4, 2)
    with pytest.raises(RuntimeError, match=r"contiguous in memory.*contiguous\(\)"):
        rg.vmap(lambda a: a.as_strided((2, 2), (4, 1)), in_dims=2)(x)
    assert rg.vmap(lambda a: a.contiguous().as_strided((2, 2), (4, 1)), in_dims=2)(x).equal(x[:2, :2].permute(2, 0, 1))
    with pytest.raises(RuntimeError, match="out of bounds for a sample of 8 elements"):
        rg.vmap(lambda a: a.as_strided((3, 3), (4, 1)))(x)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "product": lambda x: x * x,
    "float": lambda x: x.float(),
    "clone": lambda x: x.clone(),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(-1),
    "cat": lambda x: rg.cat([x, x]),
    "stack": lambda x: rg.stack([x, x], 1),
    "sum": lambda x: rg.stack([x, x]).sum(0),
    "where": lambda x: rg.where(x > 0, x, -x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "tril": lambda x: x.tril(),
    "sort": lambda x: x.sort(-1)[0],
    "roll": lambda x: x.roll(1, 0),
    "matmul": lambda x: x @ x.T,
}


@pytest.mark.parametrize("in_dims", [0, 1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_new_tensors_inside_vmap_can_be_viewed_for_any_in_dims(name: str, in_dims: int) -> None:
    x = rg.arange(24.0, dtype=rg.float64).reshape(2, 3, 4) / 7
    one = OPERATIONS[name]
    parts = rg.vmap(lambda x: one(x).view(-1).sin(), in_dims=in_dims)(x)
    for part, sample in zip(parts, x.unbind(in_dims), strict=True):
        rg.testing.assert_close(part, one(sample.contiguous()).view(-1).sin())


def test_write_to_a_view_of_a_new_tensor_inside_vmap() -> None:
    @parity
    def compare(lib: Any) -> Any:
        def f(x: Any) -> Any:
            y = lib.cat([x, x * x]).clone()
            y.view(-1)[1:].tanh_()
            return y

        x = lib.arange(6.0, dtype=lib.float64).reshape(2, 3) / 5
        return lib.func.jacfwd(lambda x: lib.func.vmap(f, in_dims=1)(lib.stack([x, x * 0.5], 1)))(x)

    compare()


@parity
def test_is_contiguous_inside_vmap_ignores_the_batch_dimension(m: Any) -> Any:
    def told(a: Any) -> Any:
        return m.tensor(a.is_contiguous())

    x = m.arange(30.0).reshape(3, 2, 5)
    return [
        *[m.vmap(told, in_dims=dim)(x) for dim in (0, 1, 2)],
        *[m.vmap(m.vmap(told, in_dims=inner), in_dims=outer)(x) for inner in (0, 1) for outer in (0, 1, 2)],
        m.vmap(told, in_dims=1)(x[:, :, ::2]),
        m.vmap(told)(x.movedim(1, 0)),
        m.vmap(told, in_dims=1)(x[:0]),
        m.vmap(lambda a: told(a.T))(x[:, :, :1]),
    ]
