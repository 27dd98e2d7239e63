"""Saved tensors: hooks that pack them, edges, versions; compared with torch."""

from __future__ import annotations

from typing import Any

from tests.parity import attempt, parity


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
def test_a_constant_that_is_unpacked_is_the_tensor_that_the_hook_returned(lib: Any) -> Any:
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
    loss.backward()
    return [*report, attempt(lambda: loss.grad_fn._saved_weight)]


@parity
def test_saved_indices_that_hooks_have_packed(lib: Any) -> Any:
    x, index = lib.ones(2, 3, requires_grad=True), lib.tensor([[0, 2], [1, 1]])
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), lib.tensor):
        node = x.gather(1, index).grad_fn
    return [node._saved_index]
