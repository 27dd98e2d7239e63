"""Writes to views that depend on the layout of their base, with gradients and tangents in another layout.

Whether a reshape is a view or a copy depends on the layout. The gradient goes through the same steps as the base did,
so it must have the same layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import parity

WRITES: dict[str, Callable[[Any], Any]] = {
    "row": lambda v: v[0].mul_(2),
    "view": lambda v: v.view(-1)[1:].tanh_(),
    "reshape": lambda v: v.reshape(-1)[1:].tanh_(),
    "transposed view": lambda v: v.t().view(-1)[1:].tanh_(),
    "transposed reshape": lambda v: v.t().reshape(-1)[1:].tanh_(),
    "transposed flatten": lambda v: v.t().flatten()[1:].tanh_(),
    "transposed ravel": lambda v: v.t().ravel()[1:].mul_(3),
    "transposed unflatten": lambda v: v.t().unflatten(0, (-1, 1))[1:].mul_(3),
    "as_strided": lambda v: v.as_strided((4,), (1,), 1).mul_(3),
}
BASES: dict[str, Callable[[Any], Any]] = {"by rows": lambda x: x.clone(), "by columns": lambda x: x.t().clone()}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "by rows": lambda lib, v: v.contiguous() ** 2,
    "by columns": lambda lib, v: v.t().contiguous() ** 2,
    "expanded": lambda lib, v: v.sum() * lib.ones(2, dtype=v.dtype),
    "with data": lambda lib, v: (v * lib.arange(6.0, dtype=v.dtype).reshape(v.shape[::-1]).t()) ** 2,
}
cases = pytest.mark.parametrize(
    ("write", "base", "use"),
    [
        (write, base, use)
        for write in WRITES
        for base in BASES
        for use in USES
        if (write, base) != ("view", "by columns") and not (write == "transposed view" and base == "by rows")
    ],
)


def function(lib: Any, write: str, base: str, use: str) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        v = BASES[base](x)
        WRITES[write](v)
        return USES[use](lib, v)

    return f


def start(lib: Any) -> Any:
    return lib.arange(6.0, dtype=lib.float64).reshape(2, 3) / 5


@cases
def test_gradients_through_writes_to_views_in_any_layout(write: str, base: str, use: str) -> None:
    @parity
    def compare(lib: Any) -> Any:
        f = function(lib, write, base, use)
        x = start(lib).requires_grad_()
        (first,) = lib.autograd.grad(f(x).sum(), x)
        (recorded,) = lib.autograd.grad(f(x).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((recorded.sin() * (x + 1)).sum(), x)
        return first, recorded, second

    compare()


@cases
def test_tangents_through_writes_to_views_in_any_layout(write: str, base: str, use: str) -> None:
    @parity
    def compare(lib: Any) -> Any:
        f, x = function(lib, write, base, use), start(lib)
        jvp = lib.func.jvp(f, (x,), (x.cos(),))[1]
        return jvp, lib.func.jacfwd(f)(x), lib.func.jacrev(f)(x)

    compare()


@cases
def test_second_derivatives_through_writes_to_views_in_any_layout(write: str, base: str, use: str) -> None:
    def hessian(outer: str, inner: str) -> Any:
        f = function(rg, write, base, use)
        return getattr(rg.func, outer)(getattr(rg.func, inner)(lambda x: f(x).sin().sum()))(start(rg))

    expected = hessian("jacrev", "jacrev")
    assert expected.any()
    for outer, inner in (("jacfwd", "jacrev"), ("jacrev", "jacfwd"), ("jacfwd", "jacfwd")):
        rg.testing.assert_close(hessian(outer, inner), expected)


@pytest.mark.parametrize("in_dims", [0, 1, 2])
@cases
def test_vmap_of_writes_to_views_in_any_layout(write: str, base: str, use: str, in_dims: int) -> None:
    """Along whichever dimension the samples lie, results are those of a loop over them."""
    f = function(rg, write, base, use)
    both = [f, rg.func.grad(lambda x: f(x).sin().sum()), rg.func.jacfwd(f)]
    samples = [start(rg), -start(rg), start(rg) + 0.1, start(rg) ** 2]
    for each in both:
        together = rg.vmap(each, in_dims=in_dims)(rg.stack(samples, in_dims))
        rg.testing.assert_close(together, rg.stack([each(sample) for sample in samples]))
