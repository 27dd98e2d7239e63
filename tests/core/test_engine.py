"""The graph, its traversal, its hooks and its limits, compared with torch."""

from __future__ import annotations

import collections
import gc
import itertools
import math
import os
import re
import signal
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import engine, observer, state
from retrograd.core.monitor import Monitor
from retrograd.core.tensor import leaf_lock
from tests.parity import attempt, leaf, message, parity


@parity
def test_derivatives_of_order_four(lib: Any) -> Any:
    x = leaf(lib, 0.3, 1.2, -0.7)
    y = (lib.sin(x) * lib.exp(x) + x * x * x / (x + 5) - lib.tanh(x)).sum()
    report = [y]
    for _ in range(4):
        (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        report.append(y)
    return report


@parity
def test_powers_have_as_many_derivatives_as_in_torch(lib: Any) -> Any:
    report: list[Any] = []
    for power in (lambda x: x**0, lambda x: x**1, lambda x: x**2, lambda x: x**3.0, lambda x: x.square()):
        x = leaf(lib, 2.0, -3.0)
        y = power(x).sum()
        while y.requires_grad:  # until the derivative is a constant
            (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
            report.append(y)
    return report


def test_long_chain_is_differentiated_and_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(rg, 1.0)
        y = x
        for _ in range(100_000):
            y = y + x
        node = weakref.ref(y.grad_fn)
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 100_001
        del y
        assert node() is None, "the chain is kept alive by a cycle"
    finally:
        gc.enable()


def test_long_chain_of_operations_that_save_tensors() -> None:
    x = leaf(rg, 1.0)
    y = x
    for _ in range(20_000):
        y = (y * 1.00001).sin()
    y.backward(retain_graph=True)
    assert np.isfinite(x.grad.item())
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    assert g.requires_grad
    del y, g


def test_threads_can_accumulate_into_one_leaf() -> None:
    x = rg.ones(1000, requires_grad=True)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                (x * 2).sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert (x.grad == 400).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_child_can_run_backward_while_the_parent_holds_the_lock() -> None:
    holding, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with leaf_lock:
            holding.set()
            ended.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        leaf(rg, 1.0).sum().backward()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.set()
    thread.join()
    assert code == 0


def test_interrupt_at_the_start_of_backward_or_profiling_restores_the_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KeyboardInterrupt may come at any point, so one is raised where the modes are switched."""

    def interrupted(module: Any) -> None:
        refresh = module.refresh

        def interrupt() -> None:
            monkeypatch.setattr(module, "refresh", refresh)
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "refresh", interrupt)

    x = leaf(rg, 1.0)
    y = x * x
    interrupted(state)
    with pytest.raises(KeyboardInterrupt):
        y.backward()
    assert rg.is_grad_enabled()
    assert (x * 2).requires_grad
    with rg.autograd.profiler.profile() as profile:
        interrupted(observer)
        with pytest.raises(KeyboardInterrupt):
            x.sin()
        x.cos()
    assert [event.name for event in profile.function_events] == ["aten::sin", "aten::cos"]


def test_grad_mode_is_local_to_its_thread() -> None:
    seen: list[bool] = []
    with rg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(rg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_interrupt_before_the_first_node_restores_the_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large graph, counting the dependencies of all nodes takes a while before the first node runs."""

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    y = leaf(rg, 1.0).exp()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "dependencies", interrupted)
        with pytest.raises(KeyboardInterrupt):
            y.backward()
    assert rg.is_grad_enabled()
    with pytest.raises(RuntimeError, match="during backward pass"):
        rg.autograd.Variable._execution_engine.queue_callback(print)


@parity
def test_order_of_all_kinds_of_hooks(lib: Any) -> Any:
    log: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    y.retain_grad()

    def times(k: float, what: str) -> Any:
        def hook(g: Any) -> Any:
            log.append((what, g.clone()))
            return g * k

        return hook

    y.register_hook(times(2, "first tensor hook"))
    y.register_hook(times(3, "second tensor hook"))
    node = y.grad_fn
    node.register_prehook(lambda gs: log.append(("pre", [g.clone() for g in gs])) or (gs[0] * 5,))
    node.register_hook(
        lambda gi, go: log.append(("post", [g if g is None else g.clone() for g in gi], [g.clone() for g in go]))
    )
    x.register_hook(times(7, "leaf hook"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.clone())))
    (y * y).sum().backward()
    return log, y.grad, x.grad


@parity
def test_removed_hooks_do_not_run(lib: Any) -> Any:
    log: list[str] = []
    x = leaf(lib, 1.0)
    handles = [x.register_hook(lambda g, k=k: log.append(f"hook {k}")) for k in range(3)]
    handles[1].remove()
    handles[1].remove()
    (x * 1).backward()
    with handles[0]:
        pass
    (x * 1).backward()
    return log


@parity
def test_hooks_with_wrong_results_or_on_wrong_tensors_are_refused(lib: Any) -> Any:
    report = []
    for result in (lib.ones(3, dtype=lib.float64), lib.ones(2, dtype=lib.float32), 3):
        x = leaf(lib, 1.0, 2.0)
        x.register_hook(lambda g, result=result: result)
        report.append(attempt(lambda x=x: (x * 1).sum().backward()))
    x = leaf(lib, 1.0)
    x.register_post_accumulate_grad_hook(lambda t: 3)
    report.append(attempt(lambda: (x * 1).backward()))
    y = leaf(lib, 1.0)
    y.register_post_accumulate_grad_hook(lambda t: t.grad)
    report.append(attempt(lambda: (y * 1).backward()))
    y = x * 1
    report.append(attempt(lambda: y.register_post_accumulate_grad_hook(print)))
    report.append(attempt(lambda: lib.ones(2).register_hook(print)))
    report.append(attempt(lambda: lib.ones(2).retain_grad()))
    return report


@parity
def test_post_accumulate_hook_may_update_and_return_its_tensor(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda p: p.add_(p.grad, alpha=-0.1))
    for _ in range(2):
        (x * lib.tensor([3.0, 4.0])).sum().backward()
    return x.detach(), x.grad


@parity
def test_order_of_nodes_and_leaves(lib: Any) -> Any:
    log: list[str] = []
    a, b, c = leaf(lib, 1.0), leaf(lib, 2.0), leaf(lib, 3.0)
    for name, tensor in zip("abc", (a, b, c), strict=True):
        tensor.register_hook(lambda g, name=name: log.append(name))
    p = a * b
    q = b * c
    r = p * q
    for name, tensor in zip("pqr", (p, q, r), strict=True):
        tensor.register_hook(lambda g, name=name: log.append(name))
    r.backward()
    return log, a.grad, b.grad, c.grad


@parity
def test_accumulation_reuses_the_first_gradient(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    (x * 3).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    report = [x.grad, x.grad is first, first._version]
    x.grad.zero_()
    (x * x).sum().backward(create_graph=True)
    report += [x.grad, x.grad is first, x.grad.requires_grad]
    x.grad = None
    return report


def test_first_gradient_is_never_shared() -> None:
    x, y = leaf(rg, 1.0, 2.0), leaf(rg, 3.0, 4.0)
    start = rg.ones(2, dtype=rg.float64)
    z = x + y
    z.retain_grad()
    z.backward(start)
    grads = [x.grad, y.grad, z.grad, start]
    for k, a in enumerate(grads):
        for b in grads[k + 1 :]:
            assert not np.shares_memory(a.numpy(), b.numpy())
    x.grad.add_(1)
    assert start.tolist() == [1, 1]


@pytest.mark.parametrize("create_graph", [False, True])
def test_retained_gradients_share_no_memory(create_graph: bool) -> None:
    """Writing to one changes neither the other gradients, nor tensors kept by hooks, nor the one passed to backward."""

    @parity
    def report(lib: Any) -> Any:
        x = leaf(lib, 1.0, 2.0)
        start = leaf(lib, 1.0, 1.0).detach()
        y = x.clone()
        z = y.clone()
        kept = []
        for tensor in (y, z):
            tensor.retain_grad()
            tensor.register_hook(kept.append)
        z.backward(start, create_graph=create_graph)
        with lib.no_grad():
            z.grad.mul_(10)
            y.grad.mul_(100)
        return [start, *kept, x.grad, y.grad, z.grad]

    report()


def test_expanded_gradient_is_made_writable() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    x.sum().backward()
    x.grad.add_(1)
    x.sum().backward()
    assert (x.grad == 3).all()


@parity
def test_grad_with_overlapping_memory_cannot_be_accumulated_into(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    x.grad = lib.zeros(1, dtype=lib.float64).expand(2)  # both elements share one place in memory
    report = [attempt((x * 2).sum().backward), x.grad]
    x.grad = lib.ones(2, dtype=lib.float64).as_strided((2,), (1,))
    (x * 2).sum().backward()
    return [*report, x.grad]


def test_error_says_why_grad_cannot_be_accumulated_into() -> None:
    x = leaf(rg, 1.0, 2.0)
    x.grad = rg.zeros(1, dtype=rg.float64).expand(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        (x * 2).sum().backward()


@parity
def test_backward_to_a_leaf_reshaped_after_its_gradient(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    (x * 2).sum().backward()
    x.data = lib.ones(3, dtype=lib.float64)
    report = [attempt(lambda: (x * 3).sum().backward()), x.grad]
    x.grad = None
    (x * 3).sum().backward()
    return [*report, x.grad]


@parity
def test_arguments_and_results_of_grad(lib: Any) -> Any:
    x, w, unused = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0), leaf(lib, 5.0)
    y = x * w
    z = y.exp().sum()
    report = [lib.autograd.grad(z, [x, y, w], retain_graph=True), x.grad]
    report.append(attempt(lambda: lib.autograd.grad(z, unused, retain_graph=True)))
    report.append(lib.autograd.grad(z, [x, unused], retain_graph=True, allow_unused=True))
    report.append(lib.autograd.grad(z, [x, unused], retain_graph=True, materialize_grads=True))
    report.append(
        attempt(lambda: lib.autograd.grad(z, [x], allow_unused=False, materialize_grads=True, retain_graph=True))
    )
    report.append(attempt(lambda: lib.autograd.grad(z, lib.ones(2), retain_graph=True)))
    report.append(lib.autograd.grad([z, y], [x], [None, lib.ones(2, dtype=lib.float64)], retain_graph=True))
    report.append(lib.autograd.grad(y, y, lib.ones(2, dtype=lib.float64), retain_graph=True))
    report.append(lib.autograd.grad(x, x, lib.ones(2, dtype=lib.float64), retain_graph=True))
    report.append(lib.autograd.grad(y, x, lib.eye(2, dtype=lib.float64), is_grads_batched=True, retain_graph=True))
    lib.autograd.grad(z, x)
    report.append(attempt(lambda: lib.autograd.grad(z, x)))
    return report


@parity
def test_hooks_and_gradients_for_chosen_inputs(lib: Any) -> Any:
    """Which hooks run and which gradients result, for each choice of inputs among the tensors of a graph."""
    report = []
    for names, accumulate, create_graph in itertools.product(
        ["x", "y", "xy", "yx", "xx", "xz", "zx", "xyb", "bx", "o", "ox", "xyo"], [False, True], [False, True]
    ):
        heard: list[Any] = []

        def hears(name: str, heard: list[Any] = heard) -> Any:
            return lambda grad: heard.append((name, grad.clone()))

        values = {"x": leaf(lib, 0.5, 2.0), "y": leaf(lib, 3.0, -1.0), "b": leaf(lib, 1.5, 0.2)}
        values["z"] = lib.sin(values["x"]) * values["y"]
        several = values["z"].unbind()
        values["o"] = lib.stack([several[0] * several[1], several[1] * values["x"].sum()])
        if "b" in names:
            values["o"] = values["o"] * values["b"]
        for name, value in values.items():
            value.register_hook(hears(name))
            value.retain_grad()
        wanted = [values[name] for name in names]
        ones = lib.ones_like(values["o"])
        if accumulate:
            values["o"].backward(ones, inputs=wanted, create_graph=create_graph)
            report += [(name, value.grad) for name, value in values.items()]
        else:
            report += lib.autograd.grad(values["o"], wanted, ones, create_graph=create_graph)
        report.append(sorted(heard, key=lambda each: each[0]))
    return report


@parity
def test_backward_arguments(lib: Any) -> Any:
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    y = x * w
    z = y * y
    one = lib.ones(2, dtype=lib.float64)
    report = [
        attempt(lambda: z.backward()),
        attempt(lambda: lib.ones(2).sum().backward()),
        attempt(lambda: z.backward(lib.ones(3, dtype=lib.float64))),
        attempt(lambda: lib.autograd.backward([z, z], [one])),
        attempt(lambda: lib.autograd.backward(z, one, inputs=[])),
        attempt(lambda: z.backward(3.0)),
        attempt(lambda: (x + 1j).sum().backward()),
    ]
    lib.autograd.backward([z, y], [one, one * 2], retain_graph=True)
    report += [x.grad, w.grad]
    x.grad = w.grad = None
    z.backward(one, inputs=[x], retain_graph=True)
    report += [x.grad, w.grad]
    x.grad = None
    z.backward(one, inputs=[y], retain_graph=True)
    report += [x.grad, w.grad, y.grad]
    z.backward(one, inputs=[y, w], retain_graph=True)
    report += [x.grad, w.grad, y.grad]
    return report


@parity
def test_backward_from_repeated_roots_of_a_diamond(lib: Any) -> Any:
    x = leaf(lib, 2.0, 3.0)
    a = x * x
    b = a.sin() + a.cos()
    c = b * a + a
    lib.autograd.backward([c.sum(), a.sum(), c.sum()])
    return x.grad


@parity
def test_broadcasting_and_dtypes_of_gradients(lib: Any) -> Any:
    report = []
    shapes = [((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2, 3)), ((1,), (3,)), ((2, 3), (3,))]
    for dtype_a in (lib.float32, lib.float64):
        for dtype_b in (lib.float32, lib.float64):
            for shape_a, shape_b in shapes:
                a = lib.full(shape_a, 2.0, dtype=dtype_a, requires_grad=True)
                b = lib.full(shape_b, 3.0, dtype=dtype_b, requires_grad=True)
                (a * b + a).sum().backward()
                report += [a.grad, b.grad]
    z = lib.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    r = lib.tensor([1.0, 2.0], requires_grad=True)
    ((z * r) * (z * r).conj()).real.sum().backward()
    report += [z.grad, r.grad]
    return report


@parity
def test_assigning_grad(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    return [
        attempt(lambda: setattr(x, "grad", lib.ones(3, dtype=lib.float64))),
        attempt(lambda: setattr(x, "grad", lib.ones(2, dtype=lib.float32))),
        attempt(lambda: setattr(x, "grad", 3)),
        attempt(lambda: setattr(x, "grad", lib.ones(2, dtype=lib.float64))),
        x.grad,
    ]


@parity
def test_attributes_of_nodes(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = (x * 2).exp()
    node = y.grad_fn
    (producer, nr), *_ = node.next_functions
    (accumulate, _), *_ = producer.next_functions
    node.metadata["note"] = 1
    return [
        node.name(),
        type(node).__name__,
        producer.name(),
        nr,
        accumulate.name().split("::")[-1],  # torch qualifies some C++ names
        accumulate.variable is x,
        node.metadata,
        node._sequence_nr() > producer._sequence_nr(),
        node._saved_result,
        attempt(lambda: (y.sum().backward(), node._saved_result)),
    ]


@parity
def test_calling_a_node(lib: Any) -> Any:
    """No hooks run, nothing is freed, and the result has a history if grad mode is on."""
    x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    product, parts = x * y, x.exp().unbind()
    product.register_hook(lambda g: g * 100)
    g = lib.ones(2, dtype=lib.float64)
    report = [product.grad_fn(g), product.grad_fn(None), parts[0].grad_fn(None, g[0]), (x * 2).grad_fn(g)]
    (second,) = lib.autograd.grad(product.grad_fn(g)[1].sum(), x)
    with lib.no_grad():
        report += [second, product.grad_fn(g)[0].requires_grad, lib.cat([x, y]).grad_fn]
    report += [product.grad_fn.next_functions[0][0](g), x.grad, y.grad is None]
    report += [attempt(lambda: product.grad_fn()), attempt(lambda: product.grad_fn(g, g))]
    report += [attempt(lambda: product.grad_fn(3)), product.sum().backward(), attempt(lambda: product.grad_fn(g))]
    return report


@parity
def test_backward_and_grad_refuse_what_is_not_a_tensor(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    return [
        attempt(lambda: (x * 2).backward([1.0, 1.0])),
        attempt(lambda: (x * 2).backward(1.0)),
        attempt(lambda: lib.autograd.grad(x.sum(), [])),
        attempt(lambda: lib.autograd.grad(x.sum(), 3)),
        attempt(lambda: lib.autograd.grad(x.sum(), [3])),
        attempt(lambda: x.sum().backward(inputs=3)),
        attempt(lambda: x.sum().backward(inputs=[x, None])),
        attempt(lambda: x.sum().backward(inputs=[lib.ones(2)])),
        x.grad is None,
    ]


@parity
def test_grad_of_a_dict_of_inputs_is_a_dict(lib: Any) -> Any:
    x, w, unused = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0), leaf(lib, 5.0)
    grad = lib.autograd.grad

    def loss() -> Any:
        return (x * w * w).sum()

    report = [
        grad(loss(), {"x": x, "w": w}),
        grad(loss(), {"unused": unused, 2: w}, allow_unused=True),
        grad(loss(), {"unused": unused, "w": w}, materialize_grads=True),
        grad(loss(), {"w": w}, lib.tensor([1.0, 2.0], dtype=lib.float64), is_grads_batched=True),
        attempt(lambda: grad(loss(), {"unused": unused})),
        attempt(lambda: grad(loss(), {})),
        attempt(lambda: grad(loss(), {"x": [x]})),
        attempt(lambda: grad(loss(), collections.OrderedDict(x=x))),
    ]
    loss().backward(inputs={"w": w})
    return [*report, x.grad, w.grad]


@parity
def test_hooks_of_outputs_without_a_gradient_do_not_run(lib: Any) -> Any:
    log: list[str] = []
    x = leaf(lib, 1.0, 2.0)
    a, b = x.split(1)
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append("b"))
    b.sum().backward()
    return log, x.grad


@parity
def test_reentrant_backward(lib: Any) -> Any:
    x = leaf(lib, 2.0)
    y = leaf(lib, 3.0)
    inner = y * y

    class Inner(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with lib.enable_grad():
                inner.backward()
            return g * 2

    Inner.apply(x * 5).backward()
    return x.grad, y.grad


@parity
def test_grad_modes_as_context_managers_decorators_and_functions(lib: Any) -> Any:
    x = leaf(lib, 1.0)
    report: list[Any] = []

    @lib.no_grad()
    def decorated() -> bool:
        return (x * 2).requires_grad

    @lib.no_grad
    def bare() -> bool:
        return (x * 2).requires_grad

    @lib.no_grad()
    def generator() -> Any:
        for _ in range(2):
            sent = yield (x * 2).requires_grad
            report.append(sent)

    @lib.set_grad_enabled(False)
    def flagged() -> bool:
        return lib.is_grad_enabled()

    report += [decorated(), bare(), flagged(), lib.is_grad_enabled()]
    steps = generator()
    report += [next(steps), lib.is_grad_enabled(), steps.send("x"), lib.is_grad_enabled()]
    with lib.no_grad():
        report.append((x * 2).requires_grad)
        with lib.enable_grad():
            report.append((x * 2).requires_grad)
        report.append((x * 2).requires_grad)
    lib.set_grad_enabled(False)
    report.append(lib.is_grad_enabled())
    lib.set_grad_enabled(True)
    with lib.set_grad_enabled(False):
        report.append(lib.is_grad_enabled())
    try:
        with lib.no_grad():
            raise KeyError
    except KeyError:
        report.append(lib.is_grad_enabled())
    return report


def test_error_about_a_gradient_of_the_wrong_shape_names_both_shapes() -> None:
    x = leaf(rg, 1.0, 2.0)
    text = message(lambda: (x * 1).backward(rg.ones(3, dtype=rg.float64)))
    assert "Mismatch in shape" in text
    assert "[3]" in text
    assert "[2]" in text


def test_rule_with_an_unknown_name_is_refused_at_definition() -> None:
    from retrograd.core.op import elementwise

    with pytest.raises(TypeError, match="names 'outher'"):

        @elementwise(np.multiply, public=False, method=False, input=lambda g, outher: g * outher)
        def broken(input, other):  # type: ignore[no-untyped-def]
            """Never registered."""

    with pytest.raises(TypeError, match="a rule is given for"):

        @elementwise(np.multiply, public=False, method=False, inputt=lambda g: g)
        def broken_too(input, other):  # type: ignore[no-untyped-def]
            """Never registered."""


def nested(depth: int) -> float:
    """Return a gradient computed by backward calls nested ``depth`` levels deep."""

    class Nested(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, left: int) -> Any:
            ctx.left = left
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.left == 0:
                return g, None
            with rg.enable_grad():
                x = rg.ones(1, requires_grad=True)
                Nested.apply(x, ctx.left - 1).backward(g)
            return x.grad, None

    x = rg.ones(1, requires_grad=True)
    Nested.apply(x, depth).backward(rg.ones(1))
    assert x.grad is not None
    return x.grad.item()


def test_nested_backward_is_limited_by_the_recursion_limit() -> None:
    assert nested(20) == 1
    with pytest.raises(RecursionError) as caught:
        nested(10_000)
    (note,) = caught.value.__notes__
    assert re.search(r"backward\(\) was called inside of backward, \d+ levels deep.*setrecursionlimit", note)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        assert nested(500) == 1
    finally:
        sys.setrecursionlimit(limit)


def test_monitor_that_overrides_nothing_has_no_effect() -> None:
    def gradients() -> list[Any]:
        x = rg.tensor([0.0, 4.0], requires_grad=True)
        optimizer = rg.optim.SGD([x], lr=0.5)
        x.sqrt().sum().backward()
        optimizer.step()
        return [x.grad.tolist(), x.tolist()]

    expected = gradients()
    previous = state.set_monitor(Monitor())
    try:
        assert gradients() == expected == [[math.inf, 0.25], [-math.inf, 3.875]]
    finally:
        state.set_monitor(previous)
