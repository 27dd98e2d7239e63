"""Saved tensors: hooks that pack them, edges, versions; compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, message, parity


def leaf(lib: Any, *values: Any) -> Any:
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=True)


@parity
def test_hooks_see_and_replace_what_is_saved(lib: Any) -> Any:
    log: list[Any] = []

    def pack(x: Any) -> Any:
        log.append(("pack", x.detach().clone()))
        return x.detach() * 2

    def unpack(x: Any) -> Any:
        log.append(("unpack", x))
        return x

    x = leaf(lib, 1.0, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
        z = y * 3
        w = z.sum()
    w.backward()
    return log, x.grad


@parity
def test_hooks_nest_and_end(lib: Any) -> Any:
    log: list[str] = []

    def hooks(name: str) -> Any:
        return lib.autograd.graph.saved_tensors_hooks(lambda x: (log.append(name), x.detach())[1], lambda x: x)

    x = leaf(lib, 1.0, 2.0)
    with hooks("outer"):
        y = x.exp()
        with hooks("inner"):
            y = y.exp()
        y = y.exp()
    y.exp().sum().backward()
    return log, x.grad


@parity
def test_hooks_in_double_backward(lib: Any) -> Any:
    x = leaf(lib, 0.5, 1.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (x.sin() * x).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x)
    return g, h


@parity
def test_bad_hooks(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)

    def writes() -> Any:
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.data.mul_(2), lambda t: t):
            return (x * 1).exp()

    def returns_none() -> Any:
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: None):
            y = x.exp()
        y.sum().backward()

    def forbidden() -> Any:
        with (
            lib.autograd.graph.disable_saved_tensors_hooks("not here"),
            lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        ):
            return x.exp()

    return [attempt(writes), attempt(returns_none), attempt(forbidden)]


@parity
def test_written_to_after_packing(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        z = y.sin()
    y.add_(1)
    return [attempt(lambda: z.sum().backward()), x.grad]


@parity
def test_function_saves_through_hooks(lib: Any) -> Any:
    log: list[Any] = []

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            log.append(y)
            return 2 * x * g

    x = leaf(lib, 1.0, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append("pack"), t.detach())[1], lambda t: t):
        y = Square.apply(x)
    y.sum().backward()
    return log, x.grad


@parity
def test_gradient_edges(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    z = (y * y).sum()
    edge = lib.autograd.graph.get_gradient_edge(y)
    (g,) = lib.autograd.grad(z, edge, retain_graph=True)
    leaf_edge = lib.autograd.graph.get_gradient_edge(x)
    (h,) = lib.autograd.grad(z, leaf_edge, retain_graph=True)
    one = lib.ones(2, dtype=lib.float64)
    lib.autograd.backward(edge, one)
    return g, h, x.grad, attempt(lambda: lib.autograd.graph.get_gradient_edge(x.detach()))


@parity
def test_increment_version(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = y.exp()
    lib.autograd.graph.increment_version(z)
    return [z._version, attempt(lambda: z.sum().backward())]


@parity
def test_hooks_that_a_hook_enters_or_leaves_end_with_the_backward(lib: Any) -> Any:
    def packed(function: Any) -> list[str]:
        log: list[str] = []

        def pack(x: Any) -> Any:
            log.append("packed")
            return x

        hooks = lib.autograd.graph.saved_tensors_hooks(pack, lambda x: x)
        x = leaf(lib, 1.0, 2.0)
        y = x.exp()
        function(y, hooks)
        return [*log, lib.is_grad_enabled()]

    def entered(y: Any, hooks: Any) -> None:
        y.register_hook(lambda g: hooks.__enter__())
        y.sum().backward()
        y.exp()

    def left(y: Any, hooks: Any) -> None:
        y.register_hook(lambda g: hooks.__exit__())
        with hooks:
            y.sum().backward()
            y.exp()

    return [packed(entered), packed(left)]


LAYERS: dict[str, Callable[[Any], tuple[Any, tuple[int, ...]]]] = {
    "Linear": lambda lib: (lib.nn.Linear(4, 2), (2, 4)),
    "Bilinear": lambda lib: (lib.nn.Bilinear(4, 4, 1), (2, 4)),
    "Conv1d": lambda lib: (lib.nn.Conv1d(4, 2, 1), (1, 4, 2)),
    "MaxPool1d": lambda lib: (lib.nn.MaxPool1d(2), (2, 4)),
    "BatchNorm1d": lambda lib: (lib.nn.BatchNorm1d(4), (2, 4)),
    "LayerNorm": lambda lib: (lib.nn.LayerNorm(4), (2, 4)),
    "PReLU": lambda lib: (lib.nn.PReLU(), (2, 4)),
}


def _called(layer: Any, input: Any) -> Any:
    return layer(input, input) if type(layer).__name__ == "Bilinear" else layer(input)


@pytest.mark.parametrize("name", LAYERS)
def test_what_a_hook_raises_inside_of_a_layer_is_not_about_its_input(name: str) -> None:
    class DiskFullError(RuntimeError):
        pass

    def pack(tensor: Any) -> Any:
        raise DiskFullError("no space left")

    @parity
    def check(lib: Any) -> Any:
        layer, shape = LAYERS[name](lib)
        with (
            pytest.raises(DiskFullError) as raised,
            lib.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        ):
            _called(layer, lib.ones(shape, requires_grad=True))
        return str(raised.value)

    check()


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"MaxPool1d"}))
def test_an_inference_tensor_is_not_a_wrong_input_of_a_layer(name: str) -> None:
    layer, shape = LAYERS[name](rg)
    with rg.inference_mode():
        input = rg.ones(shape)
    assert message(lambda: _called(layer, input)).startswith("Inference tensors cannot be saved for backward")
