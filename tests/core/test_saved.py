"""Saved tensors: pack hooks, edges and versions, compared with torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity


@parity
def test_hooks_see_and_replace_saved_tensors(lib: Any) -> Any:
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
def test_innermost_saved_tensor_hooks_apply(lib: Any) -> Any:
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
def test_saved_tensor_hooks_in_double_backward(lib: Any) -> Any:
    x = leaf(lib, 0.5, 1.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (x.sin() * x).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x)
    return g, h


@parity
def test_wrong_saved_tensor_hooks_are_refused(lib: Any) -> Any:
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
def test_write_after_packing_a_copy(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        z = y.sin()
    y.add_(1)
    return [attempt(lambda: z.sum().backward()), x.grad]


@parity
def test_custom_function_saves_through_hooks(lib: Any) -> Any:
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
def test_gradient_edges_as_inputs_and_roots(lib: Any) -> Any:
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
def test_increment_version_invalidates_saved_tensors(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = y.exp()
    lib.autograd.graph.increment_version(z)
    return [z._version, attempt(lambda: z.sum().backward())]


@parity
def test_hooks_entered_or_left_during_backward_end_with_it(lib: Any) -> Any:
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
def test_error_of_a_pack_hook_inside_a_layer_is_not_reworded(name: str) -> None:
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
def test_error_about_an_inference_tensor_inside_a_layer_is_not_reworded(name: str) -> None:
    layer, shape = LAYERS[name](rg)
    with rg.inference_mode():
        input = rg.ones(shape)
    assert message(lambda: _called(layer, input)).startswith("Inference tensors cannot be saved for backward")


# --- SavedTensor: one tensor saved by a node --------------------------------------------------------------------------


def square(lib: Any) -> Any:
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result = x * x
            ctx.save_for_backward(x, None, result)
            return result

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, _, result = ctx.saved_tensors
            return g * 2 * x + 0 * result

    return Square.apply


@parity
def test_hooks_on_tensors_saved_by_a_custom_function(lib: Any) -> Any:
    log: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    y = square(lib)(x)

    def register(position: int, pack: Any, unpack: Any) -> Any:
        # fetched anew each time: torch crashes if one is kept until the graph is freed
        return attempt(lambda: y.grad_fn._raw_saved_tensors[position].register_hooks(pack, unpack))

    accepted = [
        register(0, lambda t: (log.append(t), t.detach() * 3)[1], lambda t: t),
        register(2, lambda t: t.detach(), lambda t: (log.append(t), t)[1]),
    ]
    refused = [register(1, lambda t: t, lambda t: t), register(0, lambda t: t, lambda t: t)]
    seen = y.grad_fn.saved_tensors
    places = [seen[0].is_leaf, seen[1] is None, seen[2].grad_fn is y.grad_fn]
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x, retain_graph=True)
    y.sum().backward()
    freed = [attempt(lambda: y.grad_fn._raw_saved_tensors), attempt(lambda: y.grad_fn.saved_tensors)]
    return log, accepted, refused, places, g, h, x.grad, freed


@parity
def test_saved_tensors_of_a_custom_function_that_saved_none(lib: Any) -> Any:
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    y = Same.apply(leaf(lib, 1.0))
    return y.grad_fn.saved_tensors, y.grad_fn._raw_saved_tensors


@parity
def test_hooks_of_a_saved_tensor_must_be_callable(lib: Any) -> Any:
    def attempts(saved: Any) -> list[Any]:
        return [
            attempt(lambda: saved().register_hooks(1, 2)),
            attempt(lambda: saved().register_hooks(lambda t: t, 1)),
            attempt(lambda: saved().register_hooks(lambda t: t, None)),
            attempt(lambda: saved().register_hooks(lambda t: t)),
            saved().register_hooks(lambda t: t, lambda t: t),  # the refused hooks were not registered
        ]

    x = leaf(lib, 1.0)
    y, z = x.exp(), square(lib)(x)
    return attempts(lambda: y.grad_fn._raw_saved_result), attempts(lambda: z.grad_fn._raw_saved_tensors[0])


@parity
def test_saved_tensor_cannot_be_constructed(lib: Any) -> Any:
    return attempt(lib.autograd.SavedTensor)


@pytest.mark.parametrize("leaf_itself", [False, True])
@pytest.mark.parametrize(
    "hooks",
    [
        (lambda x: x, lambda x: x),
        (lambda x: x.detach(), lambda x: x),
        (lambda x: x, lambda x: x.detach()),
        (lambda x: x.detach().clone(), lambda x: x),
        None,
    ],
    ids=["the same", "detached", "detached later", "a copy", "no hooks"],
)
def test_write_to_an_unpacked_tensor_is_noticed(hooks: Any, leaf_itself: bool) -> None:
    def program(lib: Any) -> Any:
        class Sine(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                result = x.sin()
                ctx.save_for_backward(x, result)
                return result

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                for saved in ctx.saved_tensors:
                    saved.mul_(2)
                return g

        x = leaf(lib, 1.0, 2.0)
        y = x if leaf_itself else x * 1
        square = y * y
        with lib.autograd.graph.saved_tensors_hooks(*hooks) if hooks else contextlib.nullcontext():
            z = Sine.apply(y)
        z.sum().backward(retain_graph=True)
        return y, y._version, z, z._version, attempt(square.sum().backward), x.grad

    parity(program)()


@parity
def test_unpacked_constant_is_the_tensor_the_hook_returned(lib: Any) -> Any:
    report: list[Any] = []

    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, *others: Any) -> Any:
            ctx.save_for_backward(*others)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            saved = ctx.saved_tensors
            report.append([each is other for each, other in zip(saved, others, strict=True)])
            report.append([(each.requires_grad, each.is_leaf) for each in saved])
            return g * 2, *[None] * len(saved)

    x, weight = leaf(lib, 1.0), leaf(lib, 2.0)
    others = (lib.ones(1), weight, weight.clone(), lib.tensor([1]))
    graph = lib.autograd.graph
    Scale.apply(x, *others).backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        Scale.apply(x, *others).backward()
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t.detach()):
        Scale.apply(x, *others).backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: leaf(lib, 5.0)):
        Scale.apply(x, *others).backward()
    with graph.save_on_cpu():
        Scale.apply(x, *others).backward()
    lib.utils.checkpoint.checkpoint(Scale.apply, x, *others, use_reentrant=False).backward()
    return report


@parity
def test_saved_indices_masks_and_weights_are_tensors(lib: Any) -> Any:
    x = lib.ones(2, 3, requires_grad=True)
    index, mask = lib.tensor([[0, 2], [1, 1]]), lib.tensor([[True, False, True]])
    target, weight = lib.tensor([2, 0]), lib.tensor([1.0, 2.0, 3.0])
    loss = lib.nn.functional.nll_loss(x, target, weight)
    saved = [
        x.gather(1, index).grad_fn._saved_index,
        x.index_select(1, target).grad_fn._saved_index,
        x.masked_fill(mask, 0.0).grad_fn._saved_mask,
        lib.where(mask, x, 0.0).grad_fn._saved_condition,
        loss.grad_fn._saved_target,
        loss.grad_fn._saved_weight,
        x[:, target].grad_fn._saved_indices[1],
        x[target - 1, target].grad_fn._saved_indices[0],
    ]
    report = [[type(each) is lib.Tensor, each, each.requires_grad] for each in saved]
    report.append(lib.nn.functional.nll_loss(x, target).grad_fn._saved_weight)
    loss.backward()
    return [*report, attempt(lambda: loss.grad_fn._saved_weight)]


@parity
def test_saved_indices_packed_by_hooks(lib: Any) -> Any:
    x, index = lib.ones(2, 3, requires_grad=True), lib.tensor([[0, 2], [1, 1]])
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), lib.tensor):
        node = x.gather(1, index).grad_fn
    return [node._saved_index]


@parity
def test_saved_leaf_has_its_current_requires_grad(lib: Any) -> Any:
    class Times(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            return g * b, g * a

    found = []
    for function in (lib.mul, lib.dot, Times.apply):
        for x in (lib.tensor([2.0, 3.0]), lib.tensor([2.0, 3.0]).add_(1), lib.arange(4.0)[1:3]):
            for later in (True, False):
                w = lib.tensor([5.0, 7.0], requires_grad=True)
                y = function(w, x.requires_grad_(not later)).sum()
                x.requires_grad_(later)
                (g,) = lib.autograd.grad(y, w, create_graph=True)
                found.append((g, g.requires_grad and lib.autograd.grad(g.square().sum(), x)))
    return found
