"""A KeyboardInterrupt at any point leaves the modes of the thread unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor
from retrograd.core import state
from tests.interrupting import interrupted, name_of, places_in


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @rg.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def leaf() -> Tensor:
    return rg.ones(2, requires_grad=True)


def plain_backward() -> None:
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: g * 1)
    (y * x).exp().sum().backward()


def double_backward() -> None:
    x = leaf()
    (g,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()


def function() -> None:
    Square.apply(leaf()).sum().backward()


def view_written_to() -> None:
    x = leaf().clone()
    view = x[:1]
    x.mul_(2)
    assert view.requires_grad


def forward_mode() -> None:
    rg.func.jvp(lambda x: (x * x).sin().cumprod(0), (rg.ones(2),), (rg.ones(2),))


def batched() -> None:
    rg.func.vmap(lambda x: (x * x).sum())(rg.ones(3, 2))


def packed() -> None:
    (leaf() * 2).exp()


def blocks() -> None:
    with rg.no_grad(), rg.enable_grad(), rg.set_grad_enabled(False), rg.inference_mode():
        leaf()
    with rg.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x), rg.autograd.graph.save_on_cpu():
        leaf()


def modes() -> dict[str, Any]:
    fields = [name for name in vars(state._Local) if not name.startswith("_") and name not in ("outside", "within")]
    return {name: getattr(state.local, name) for name in fields} | {"floating point": np.geterr()}


@pytest.mark.parametrize(
    "run", [plain_backward, double_backward, function, view_written_to, forward_mode, batched, packed, blocks]
)
def test_interrupts_leave_the_modes_unchanged(run: Callable[[], None]) -> None:
    hooks = rg.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x)
    with hooks if run is packed else rg.enable_grad():
        run()
        before = modes()
        for place in places_in(
            run, 60, ("run", "pack", "_apply", "_entered", "mapping", "set_grad_enabled", "refresh")
        ):
            interrupted(run, place)
            # a mode with too many flags set only costs time
            assert modes() == before | {"mode": modes()["mode"]}, name_of(place)
            assert (leaf() * 2).requires_grad, name_of(place)
