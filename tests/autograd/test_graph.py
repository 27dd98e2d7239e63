"""Nodes, edges, hooks on saved tensors, and hooks on several gradients, compared with torch."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity

# --- edges and nodes --------------------------------------------------------------------------------------------------


@parity
def test_edges_of_leaves_results_and_views(lib: Any) -> Any:
    edge_of = lib.autograd.graph.get_gradient_edge
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    edges = [edge_of(x), edge_of(y), edge_of(y[0]), edge_of(y.unbind()[1]), edge_of(y.view(2, 1))]
    return [(edge.node.name().split("::")[-1], edge.output_nr, edge.ownership_token) for edge in edges]


@parity
def test_edge_of_a_view_is_current_after_a_write_to_its_base(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    view = y[:1]
    y.mul_(2)
    edge = lib.autograd.graph.get_gradient_edge(view)
    return lib.autograd.grad(edge, x, lib.ones(1, dtype=lib.float64))


@parity
def test_grad_takes_an_edge_for_a_tensor(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x.exp()
    z = (y * y).sum()
    edge = lib.autograd.graph.get_gradient_edge(y)
    del y
    return lib.autograd.grad(z, [edge, lib.autograd.graph.get_gradient_edge(x)])


@parity
def test_backward_accumulates_at_edges(lib: Any) -> Any:
    edge_of = lib.autograd.graph.get_gradient_edge
    log: list[str] = []
    x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    z = x * y
    z.register_hook(lambda g: log.append("z"))
    a = z.unbind()[0]
    loss = z.sum() + a
    report: list[Any] = []
    for inputs in (edge_of(x), [edge_of(x), y], [edge_of(z)], [edge_of(a)], {"of y": edge_of(y)}):
        lib.autograd.backward(loss, inputs=inputs, retain_graph=True)
        report += [x.grad, y.grad, z.retains_grad, len(log)]
    return report


@parity
def test_materialize_grads_makes_no_zeros_for_an_edge(lib: Any) -> Any:
    x, unused = leaf(lib, 1.0, 2.0), leaf(lib, 3.0)
    edge_of = lib.autograd.graph.get_gradient_edge
    report = []
    for inputs in (edge_of(x), edge_of(unused), [edge_of(unused), x], [unused, edge_of(x)]):
        report.append(attempt(lambda i=inputs: lib.autograd.grad(x.sum(), i, materialize_grads=True)))
    return report


@parity
def test_edge_without_a_node_is_refused(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    edge = lib.autograd.graph.GradientEdge(None, 0)
    return [
        attempt(lambda: lib.autograd.grad(x.sum(), edge)),
        attempt(lambda: lib.autograd.backward(x.sum(), inputs=[edge])),
    ]


def test_error_about_an_edge_mentions_get_gradient_edge() -> None:
    edge, x = rg.autograd.graph.GradientEdge(None, 0), leaf(rg, 1.0, 2.0)  # type: ignore[arg-type]
    for call in (lambda: rg.autograd.grad(edge, x), lambda: rg.autograd.grad(x.sum(), edge)):
        assert "got NoneType; get_gradient_edge(tensor) makes one" in message(call)


@parity
def test_tensor_without_grad_has_no_gradient_edge(lib: Any) -> Any:
    return [message(lambda: lib.autograd.graph.get_gradient_edge(lib.ones(2)))]


@parity
def test_attributes_of_nodes(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x.exp() * 2
    node = y.grad_fn
    node.metadata["note"] = 1
    return [
        isinstance(node, lib.autograd.graph.Node),
        issubclass(type(node), lib.autograd.graph.Node),
        [(parent.name(), nr) for parent, nr in node.next_functions if parent is not None],
        y.grad_fn.metadata,
        attempt(lib.autograd.graph.Node),
    ]


@parity
def test_node_of_a_custom_function_is_a_node(lib: Any) -> Any:
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    return [isinstance(Twice.apply(leaf(lib, 1.0)).grad_fn, lib.autograd.graph.Node)]


@parity
def test_increment_version(lib: Any) -> Any:
    increment = lib.autograd.graph.increment_version
    x, y = leaf(lib, 1.0), lib.ones(2)
    increment(x)
    increment([x, y])
    increment(item for item in (y,))
    with lib.inference_mode():
        z = lib.ones(2)
    return [x._version, y._version, increment(z), attempt(lambda: increment(3)), attempt(lambda: increment([x, 3]))]


# --- saved tensors ----------------------------------------------------------------------------------------------------


@parity
def test_pack_hooks_run_under_no_grad_and_unpack_hooks_in_the_mode_of_backward(lib: Any) -> Any:
    log: list[Any] = []

    def pack(x: Any) -> Any:
        log.append(("pack", lib.is_grad_enabled(), (x * 2).requires_grad))
        return x.detach()

    def unpack(x: Any) -> Any:
        log.append(("unpack", lib.is_grad_enabled()))
        return x

    x = leaf(lib, 1.0, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x).sum()
    lib.autograd.grad(y, x, retain_graph=True)
    lib.autograd.grad(y, x, create_graph=True)
    log.append(lib.is_grad_enabled())
    return log


@pytest.mark.parametrize("name", ["div", "pow", "atan2", "maximum", "cat", "where", "std", "matmul"])
def test_saved_tensors_are_unpacked_once_per_backward(name: str) -> None:
    programs = {
        "div": lambda lib, x, y: x / y,
        "pow": lambda lib, x, y: x**y,
        "atan2": lambda lib, x, y: lib.atan2(x, y),
        "maximum": lambda lib, x, y: lib.maximum(x, y),
        "cat": lambda lib, x, y: lib.cat([x, y]) * 2,
        "where": lambda lib, x, y: lib.where(x > 1, x, y),
        "std": lambda lib, x, y: x.std(),
        "matmul": lambda lib, x, y: x.reshape(1, 2) @ y.reshape(2, 1),
    }

    @parity
    def check(lib: Any) -> Any:
        log = ["of " + name]
        x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)

        def pack(t: Any) -> Any:
            log.append("pack")
            return t.detach()

        def unpack(t: Any) -> Any:
            log.append("unpack")
            return t

        with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
            z = programs[name](lib, x, y).sum()
        z.backward(retain_graph=True)
        z.backward()
        return sorted(log)

    check()


@parity
def test_tensors_saved_by_in_place_operations_are_packed_once(lib: Any) -> Any:
    log: list[Any] = []
    x = leaf(lib, 0.5, 1.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append(t.detach().clone()), t.detach())[1], lambda t: t):
        y = (x * 1).exp_()
        z = (x * 1)[1:].tanh_()
        w = (x * 1).sin_().mul_(y)
    (y.sum() + z.sum() + w.sum()).backward()
    return [sorted(t.tolist() for t in log), x.grad]


@parity
def test_saved_tensor_hooks_must_be_callable(lib: Any) -> Any:
    def enter() -> None:
        with lib.autograd.graph.saved_tensors_hooks(1, 2):
            pass

    return [attempt(enter)]


@parity
def test_disable_saved_tensors_hooks(lib: Any) -> Any:
    graph = lib.autograd.graph

    def inner_message_counts() -> None:
        with (
            graph.disable_saved_tensors_hooks("outer"),
            graph.disable_saved_tensors_hooks("inner"),
            graph.save_on_cpu(),
        ):
            pass

    def outer_message_comes_back() -> None:
        with graph.disable_saved_tensors_hooks("outer"):
            with graph.disable_saved_tensors_hooks("inner"):
                pass
            with graph.save_on_cpu():
                pass

    def inside_hooks() -> None:
        with graph.save_on_cpu(), graph.disable_saved_tensors_hooks("inside"):
            pass

    with graph.disable_saved_tensors_hooks("over"):
        pass
    with graph.save_on_cpu():  # allowed again
        pass
    return [message(inner_message_counts), message(outer_message_comes_back), message(inside_hooks)]


@parity
def test_save_on_cpu(lib: Any) -> Any:
    report = []
    for pin_memory in (False, True):
        x = leaf(lib, 1.0, 2.0)
        with lib.autograd.graph.save_on_cpu(pin_memory=pin_memory, device_type="cuda"):
            y = (x.exp() * x).sin().sum()
        y.backward()
        report.append(x.grad)
    return report


@parity
def test_save_on_cpu_with_pinned_memory_keeps_a_copy(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    with lib.autograd.graph.save_on_cpu(pin_memory=True):
        z = y.sin()
    y.mul_(5)
    z.sum().backward()
    return x.grad


@parity
def test_hooks_on_one_saved_tensor(lib: Any) -> Any:
    log: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    y = x.exp()

    def pack(t: Any) -> Any:
        log.append(("pack", t))
        return t.detach() * 2

    def unpack(t: Any) -> Any:
        log.append(("unpack", t))
        return t / 4

    y.grad_fn._raw_saved_result.register_hooks(pack, unpack)
    z = x * y
    z.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach(), lambda t: t)
    twice = attempt(lambda: y.grad_fn._raw_saved_result.register_hooks(pack, unpack))
    y.sum().backward()
    return [log, x.grad, twice, attempt(lambda: y.grad_fn._raw_saved_result.register_hooks(pack, unpack))]


@parity
def test_unpacked_leaf_is_a_leaf(lib: Any) -> Any:
    seen: list[Any] = []

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            seen.append([x.is_leaf, x.requires_grad, x.grad_fn is None])
            return g * 2 * x

    x = lib.tensor([2.0, 3.0], requires_grad=True)
    with lib.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
        y, z = Square.apply(x), x * x
    saved = z.grad_fn._saved_self
    report = [saved.is_leaf, saved.requires_grad, saved.grad_fn is None]
    for result in (y, z):
        (g,) = lib.autograd.grad(result.sum(), x, create_graph=True)
        report.append(lib.autograd.grad(g.sum(), x))
    return [*report, seen, x.grad is None]


@parity
def test_hooks_on_a_slot_that_saved_nothing(lib: Any) -> Any:
    y = leaf(lib, 1.0) * lib.ones(1, dtype=lib.float64)
    return [attempt(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))]


# --- gradients that hooks keep ----------------------------------------------------------------------------------------


@parity
def test_gradient_kept_by_a_hook_does_not_change_later(lib: Any) -> Any:
    kept: list[Any] = []
    with_hook, with_prehook = leaf(lib, 1.0, 2.0), leaf(lib, 1.0, 2.0)
    node = lib.autograd.graph.get_gradient_edge(with_prehook).node
    with_hook.register_hook(lambda g: kept.append(g))
    node.register_prehook(lambda grads: kept.append(grads[0]))
    for _ in range(2):
        (with_hook * 2 + with_prehook * 3).sum().backward()
    return kept


def test_gradient_kept_by_a_post_hook_does_not_change_later() -> None:
    """In torch it does, because it becomes the leaf's ``grad``."""
    kept: list[Any] = []
    x = leaf(rg, 1.0, 2.0)
    node = rg.autograd.graph.get_gradient_edge(x).node
    node.register_hook(lambda inputs, outputs: kept.extend(outputs))
    for _ in range(2):
        (x * 4).sum().backward()
    assert [grad.tolist() for grad in kept] == [[4.0, 4.0]] * 2


# --- hooks on several gradients ---------------------------------------------------------------------------------------


@parity
def test_multi_grad_hook_all_waits_for_every_gradient_that_arrives(lib: Any) -> Any:
    log: list[Any] = []
    a, b = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    c, d = a * b, a * b
    handle = lib.autograd.graph.register_multi_grad_hook((a, b, c, d), lambda grads: log.append(list(grads)))
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c + d).sum().backward(retain_graph=True)
    lib.autograd.grad(c.sum(), c, retain_graph=True)
    handle.remove()
    c.sum().backward()
    return log


@parity
def test_multi_grad_hook_any_runs_on_the_first_gradient(lib: Any) -> Any:
    log: list[Any] = []
    a, b = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    c = a * b
    with lib.autograd.graph.register_multi_grad_hook((a, c, b, lib.ones(1)), log.append, mode="any"):
        c.sum().backward(retain_graph=True)
        lib.autograd.grad((a * 2).sum(), a)
    c.sum().backward()
    return log


@parity
def test_multi_grad_hooks_do_not_change_gradients(lib: Any) -> Any:
    a = leaf(lib, 1.0, 2.0)
    lib.autograd.graph.register_multi_grad_hook((a,), lambda grads: grads[0] * 100)
    lib.autograd.graph.register_multi_grad_hook((a,), lambda grad: grad * 100, mode="any")
    (a * 2).sum().backward()
    return a.grad


@parity
def test_multi_grad_hook_on_repeated_tensors_and_outputs_of_one_node(lib: Any) -> Any:
    log: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    first, second = (x * 2).unbind()
    lib.autograd.graph.register_multi_grad_hook([first, second, x, x], lambda grads: log.append(list(grads)))
    (first * 3).backward()
    return log


@parity
def test_multi_grad_hook_counts_a_nested_backward_separately(lib: Any) -> Any:
    log: list[Any] = []
    a, b = leaf(lib, 1.0), leaf(lib, 2.0)
    c = a * b

    def inner(grad: Any) -> None:
        if not log:
            log.append("inner starts")
            with lib.enable_grad():
                other = (a * b * 10).sum()
            other.backward()

    c.register_hook(inner)
    lib.autograd.graph.register_multi_grad_hook((a, b), lambda grads: log.append(list(grads)))
    c.sum().backward()
    return log


@parity
def test_multi_grad_hook_arguments(lib: Any) -> Any:
    register = lib.autograd.graph.register_multi_grad_hook
    x = leaf(lib, 1.0)
    return [
        message(lambda: register([x], print, mode="some")),
        type(register([], print).remove()).__name__,
        type(register([lib.ones(1)], print, mode="any").remove()).__name__,
    ]


def test_multi_grad_hook_all_needs_tensors_that_require_grad() -> None:
    x = leaf(rg, 1.0)
    with pytest.raises(RuntimeError, match=r"tensors\[1\], of shape \[3\]"):
        rg.autograd.graph.register_multi_grad_hook([x, rg.ones(3)], print)
    assert not x._backward_hooks  # no hook was left on the other tensor


def test_multi_grad_hook_runs_for_the_inputs_of_grad() -> None:
    """torch does not support this and raises."""
    log: list[Any] = []
    a, b = leaf(rg, 1.0, 2.0), leaf(rg, 3.0, 4.0)
    rg.autograd.graph.register_multi_grad_hook((a, b), log.append)
    rg.autograd.grad((a * b).sum(), a)
    assert [[None if grad is None else grad.tolist() for grad in grads] for grads in log] == [[[3.0, 4.0], None]]


def test_multi_grad_hook_counts_each_thread_separately() -> None:
    log: list[int] = []
    a = leaf(rg, 1.0, 2.0)
    parts = [a * factor for factor in range(1, 9)]
    rg.autograd.graph.register_multi_grad_hook((a, *parts), lambda grads: log.append(sum(g is not None for g in grads)))
    threads = [threading.Thread(target=part.sum().backward) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log == [2] * 8


def test_multi_grad_hooks_keep_no_graph_alive() -> None:
    gc.disable()
    try:
        a = leaf(rg, 1.0, 2.0)
        b = a.exp()
        node, tensor = weakref.ref(b.grad_fn), weakref.ref(a)
        handle = rg.autograd.graph.register_multi_grad_hook((a, b), print)
        del a, b
        assert node() is None
        assert tensor() is None
        handle.remove()
    finally:
        gc.enable()


def test_stream_mismatch_setting_is_accepted() -> None:
    assert rg.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True) is None


@parity
def test_settings_for_compiled_and_captured_graphs(lib: Any) -> Any:
    budget = lib.autograd.graph.region_activation_memory_budget
    refused = [attempt(lambda value=value: budget(value)) for value in (0.5, 0, 2.0, -1, "half", True)]
    return [*refused, lib.autograd.graph.set_override_stale_capture_stream(False)]
