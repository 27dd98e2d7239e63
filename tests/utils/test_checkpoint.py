"""Checkpointing, compared with torch: gradients, number of calls, random numbers, memory, errors."""

from __future__ import annotations

import gc
import importlib
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.utils import checkpoint as rg_checkpoint
from tests.parity import attempt, leaf, message, parity


def module_of(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.utils.checkpoint")


class Counted:
    """A function that logs when it is called and when it finishes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.log: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.log.append("called")
        result = self.function(*args, **kwargs)
        self.log.append("done")
        return result


def block(x: Any) -> Any:
    return (x.sin() * x).exp().cos()


@parity
def test_reversible_layers_repeat_their_random_numbers(lib: Any) -> Any:
    """As they are written for torch: the state of the generator is kept, and set again to compute the input anew."""
    states = module_of(lib)

    class Reversible(lib.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.state = lib.get_rng_state()
            ctx.on_gpus = states.get_device_states(x) if lib.cuda._initialized else ([], [])
            with lib.no_grad():
                y = x + lib.nn.functional.dropout(lib.ones(8), 0.5)
            ctx.y = y.detach()
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with lib.random.fork_rng(devices=[], enabled=True):
                lib.set_rng_state(ctx.state)
                states.set_device_states(*ctx.on_gpus)
                x = ctx.y - lib.nn.functional.dropout(lib.ones(8), 0.5)
            (x,) = states.detach_variable((x.requires_grad_(),))
            with lib.enable_grad():
                states.check_backward_validity((x, 1))
                return g * lib.autograd.grad((x**2).sum(), x)[0]

    lib.manual_seed(0)
    x = leaf(lib, *range(8))
    Reversible.apply(x).sum().backward()
    return [
        x.grad,
        states.get_device_states(x),
        attempt(lambda: states.detach_variable([x])),
        [value.requires_grad for value in states.detach_variable((x, lib.ones(1)))],
    ]


@parity
def test_functions_ask_whether_they_may_call_backward(lib: Any) -> Any:
    answers = []

    class Asking(lib.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            answers.append(lib.autograd._is_checkpoint_valid())
            return g * 2

    x = leaf(lib, 1.0)
    Asking.apply(x).backward()
    lib.autograd.grad(Asking.apply(x), x)
    Asking.apply(x).backward(inputs=[x])
    return answers


VARIANTS = {
    "reentrant": {"use_reentrant": True},
    "non-reentrant": {"use_reentrant": False},
    "to the end": {"use_reentrant": False, "early_stop": False},
    "unchecked": {"use_reentrant": False, "determinism_check": "none"},
    "without random state": {"use_reentrant": False, "preserve_rng_state": False},
    "debug": {"use_reentrant": False, "debug": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_checkpoint_gradients_and_calls(variant: str) -> None:
    @parity
    def check(lib: Any) -> Any:
        x = leaf(lib, 0.5, 1.0)
        function = Counted(block)
        y = module_of(lib).checkpoint(function, x * 1, **VARIANTS[variant])
        y.sum().backward()
        return [y, x.grad, function.log]

    check()


def test_checkpoint_does_not_change_gradients() -> None:
    x, z = leaf(rg, 0.5, 1.0), leaf(rg, 0.5, 1.0)
    for variant in VARIANTS.values():
        x.grad = z.grad = None
        rg_checkpoint.checkpoint(block, x, **variant).sum().backward()
        block(z).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), z.grad.numpy())


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_every_backward_recomputes(use_reentrant: bool) -> None:
    @parity
    def check(lib: Any) -> Any:
        x = leaf(lib, 0.5, 1.0)
        function = Counted(block)
        y = module_of(lib).checkpoint(function, x, use_reentrant=use_reentrant).sum()
        y.backward(retain_graph=True)
        y.backward()
        return [x.grad, function.log, attempt(y.backward)]

    check()


@parity
def test_checkpoint_with_grad_inputs_and_double_backward(lib: Any) -> Any:
    x, w = leaf(lib, 0.5, 1.0), leaf(lib, 2.0, 3.0)

    def run() -> Any:
        return module_of(lib).checkpoint(lambda a: block(a * w), x, use_reentrant=False).sum()

    (g,) = lib.autograd.grad(run(), x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x)
    run().backward(inputs=[w])
    return [g, h, x.grad, w.grad]


@parity
def test_reentrant_checkpoint_needs_a_plain_backward(lib: Any) -> Any:
    x = leaf(lib, 0.5, 1.0)
    checkpoint = module_of(lib).checkpoint

    def run() -> Any:
        return checkpoint(block, x, use_reentrant=True).sum()

    def outer(a: Any) -> Any:
        return checkpoint(block, a * 2, use_reentrant=True) * a

    nested = checkpoint(outer, x, use_reentrant=True).sum()
    texts = [
        message(lambda: lib.autograd.grad(run(), x)),
        message(lambda: run().backward(inputs=[x])),
        message(lambda: checkpoint(lambda a: a.detach(), x, use_reentrant=True).sum().backward()),
    ]
    nested.backward()
    return [[text.replace("retrograd", "torch") for text in texts], x.grad]


@parity
def test_checkpoint_with_several_arguments_and_results(lib: Any) -> Any:
    x, y = leaf(lib, 0.5, 1.0), leaf(lib, 2.0, 3.0)
    report = []
    for use_reentrant in (True, False):
        first, second = module_of(lib).checkpoint(
            lambda a, factor, b, none: (a.exp() * b * factor, b.sin()), x, 3, y, None, use_reentrant=use_reentrant
        )
        (first * second).sum().backward()
        report += [first, second, x.grad, y.grad]
    return report


@parity
def test_checkpoint_with_keywords_and_nested_structures(lib: Any) -> Any:
    x, y = leaf(lib, 0.5, 1.0), leaf(lib, 2.0, 3.0)

    def function(pair: Any, *, scale: Any) -> Any:
        return {"out": (pair["x"] * pair["y"]).exp() * scale}

    out = module_of(lib).checkpoint(function, {"x": x, "y": y}, scale=y, use_reentrant=False)
    out["out"].sum().backward()
    return [x.grad, y.grad]


@parity
def test_nested_checkpoints(lib: Any) -> Any:
    x = leaf(lib, 0.5, 1.0)
    checkpoint = module_of(lib).checkpoint
    inner, middle = Counted(block), Counted(lambda a: checkpoint(inner, a.exp() * 1, use_reentrant=False).sin())
    outer = Counted(lambda a: checkpoint(middle, a.cos(), use_reentrant=False).tanh())
    checkpoint(outer, x, use_reentrant=False).sum().backward()
    return [x.grad, outer.log, middle.log, inner.log]


@parity
def test_backward_inside_a_checkpointed_function(lib: Any) -> Any:
    report = []
    for early_stop in (True, False):
        for retain_graph in (True, False):
            x = leaf(lib, 0.5, 1.0)

            def function(a: Any, keep: bool = retain_graph) -> Any:
                z = a.sin().cos()
                (g,) = lib.autograd.grad(z.sum(), a, retain_graph=keep)
                return a.cos() * g

            counted = Counted(function)
            out = module_of(lib).checkpoint(counted, x, use_reentrant=False, early_stop=early_stop)
            out.sum().backward()
            report.append([x.grad, counted.log])
    return report


@parity
def test_set_checkpoint_early_stop(lib: Any) -> Any:
    report = []
    for enabled, argument in ((True, False), (False, True)):
        function = Counted(block)
        with module_of(lib).set_checkpoint_early_stop(enabled):
            y = module_of(lib).checkpoint(function, leaf(lib, 0.5), use_reentrant=False, early_stop=argument)
        y.sum().backward()
        report.append(function.log)
    return report


def test_early_stop_passes_through_except_clauses() -> None:
    caught = []

    def careful(x: Any) -> Any:
        try:
            return block(x)
        except Exception as error:
            caught.append(error)
            raise

    x = leaf(rg, 0.5)
    rg_checkpoint.checkpoint(careful, x, use_reentrant=False).sum().backward()
    assert not caught


@parity
def test_reading_a_saved_tensor_of_a_checkpoint(lib: Any) -> Any:
    function = Counted(lambda a: a.exp())
    y = module_of(lib).checkpoint(function, leaf(lib, 0.5), use_reentrant=False)
    return [y.grad_fn._saved_result, y.grad_fn._saved_result, function.log]


@parity
def test_checkpoint_under_no_grad_is_a_plain_call(lib: Any) -> Any:
    contexts = Counted(lambda: module_of(lib).noop_context_fn())
    with lib.no_grad():
        y = module_of(lib).checkpoint(block, leaf(lib, 0.5), use_reentrant=False, context_fn=contexts)
    return [y, y.requires_grad]


@parity
def test_context_fn(lib: Any) -> Any:
    log: list[str] = []

    class Context:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            log.append(f"{self.name} entered")

        def __exit__(self, *exc: object) -> None:
            log.append(f"{self.name} left")

    x = leaf(lib, 0.5)
    y = module_of(lib).checkpoint(
        lambda a: (log.append("called"), a.exp())[1],
        x,
        use_reentrant=False,
        context_fn=lambda: (Context("forward"), Context("again")),
    )
    y.sum().backward()
    return log


def test_context_that_suppresses_exceptions_is_refused() -> None:
    import contextlib

    def fails(x: Any) -> Any:
        raise KeyError("in the function")

    def contexts() -> Any:
        return contextlib.suppress(KeyError), contextlib.nullcontext()

    with pytest.raises(RuntimeError, match="suppressed an exception"):
        rg_checkpoint.checkpoint(fails, leaf(rg, 0.5), use_reentrant=False, context_fn=contexts)
    with pytest.raises(KeyError, match="in the function"):
        rg_checkpoint.checkpoint(fails, leaf(rg, 0.5), use_reentrant=False)


# --- random numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recomputation_draws_the_same_random_numbers(use_reentrant: bool) -> None:
    masks = []

    def dropout(x: Any) -> Any:
        masks.append(rg.bernoulli(rg.full((100,), 0.5, dtype=rg.float64)))
        return (x * masks[-1]).exp()

    x = rg.ones(100, dtype=rg.float64, requires_grad=True)
    y = rg_checkpoint.checkpoint(dropout, x, use_reentrant=use_reentrant)
    outside = rg.rand(3)
    state = rg.get_rng_state()
    y.sum().backward()
    assert len(masks) == 2
    np.testing.assert_array_equal(masks[0].numpy(), masks[1].numpy())
    np.testing.assert_allclose(x.grad.numpy(), (masks[0] * y).detach().numpy())
    assert rg.get_rng_state().equal(state), "the recomputation changed the generator"
    assert not rg.rand(3).equal(outside)


def test_preserve_rng_state_false_draws_new_numbers() -> None:
    drawn = []

    def function(x: Any) -> Any:
        drawn.append(rg.rand(4))
        return (x * drawn[-1]).exp()

    x = rg.ones(4, requires_grad=True)
    rg_checkpoint.checkpoint(function, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
    assert not drawn[0].equal(drawn[1])


# --- memory -----------------------------------------------------------------------------------------------------------


def deep(x: Any) -> Any:
    for _ in range(20):
        x = x.sin()
    return x


def test_checkpoint_holds_less_memory_until_backward() -> None:
    x = rg.ones(100_000, dtype=rg.float64, requires_grad=True)

    def held(run: Callable[[], Any]) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            y = run()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            del y

    plain = held(lambda: deep(x))
    checkpointed = held(lambda: rg_checkpoint.checkpoint(deep, x, use_reentrant=False))
    reentrant = held(lambda: rg_checkpoint.checkpoint(deep, x, use_reentrant=True))
    assert plain > 20 * 800_000
    assert checkpointed < 2 * 800_000
    assert reentrant < 2 * 800_000


def test_recomputed_tensors_are_freed_after_use_even_with_retain_graph() -> None:
    made: list[weakref.ref[Any]] = []

    def function(x: Any) -> Any:
        for _ in range(5):
            x = x.sin()
            made.append(weakref.ref(x._data))
        return x

    def alive() -> int:
        return sum(ref() is not None for ref in made)

    y = rg_checkpoint.checkpoint(function, rg.ones(4, requires_grad=True), use_reentrant=False)
    assert alive() == 1  # the result
    y.sum().backward(retain_graph=True)
    assert len(made) > 5
    assert alive() == 1


def test_checkpoint_leaves_no_reference_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        x = rg.ones(4, requires_grad=True)
        y = rg_checkpoint.checkpoint(lambda a: block(a) * x, x, use_reentrant=False)
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


# --- errors -----------------------------------------------------------------------------------------------------------


class Changing:
    """Computes one function the first time and another one the second time."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        self.functions = iter(functions)

    def __call__(self, x: Any) -> Any:
        return next(self.functions)(x)


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "fewer": (lambda x: x.sin().cos(), lambda x: x.exp() * 1),
    "more": (lambda x: x.sin().cos(), lambda x: x.sin().cos().exp()),
    "other shape": (lambda x: x.sin().cos(), lambda x: x.sin()[:1].cos()),
    "other dtype": (lambda x: x.sin().cos(), lambda x: x.to(x.sin().half().dtype).sin().cos()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_recomputation_that_differs_is_refused(change: str) -> None:
    @parity
    def check(lib: Any) -> Any:
        def texts(**options: Any) -> list[str]:
            x = leaf(lib, 0.5, 1.0)
            y = module_of(lib).checkpoint(Changing(*CHANGES[change]), x, use_reentrant=False, **options).sum()
            try:
                y.backward()
            except RuntimeError as error:
                first = str(error).replace("retrograd", "torch").splitlines()[0]
                numbers = [line.rstrip(".") for line in str(error).splitlines() if line.startswith("Number of")]
                return [type(error).__name__, first.rstrip(".").partition(", which saved")[0], *numbers]
            return ["no error"]

        return [texts(), texts(determinism_check="none"), texts(early_stop=False)]

    check()


def test_checkpoint_debug_shows_where_the_calls_differ() -> None:
    x = leaf(rg, 0.5, 1.0)
    function = Changing(lambda a: a.sin().cos().exp() * 2, lambda a: a.sin().tanh())
    y = rg_checkpoint.checkpoint(function, x, use_reentrant=False, debug=True).sum()
    text = message(y.backward)
    assert "The two calls diverge at operation 1." in text
    forward, again = text.partition("Forward pass, ")[2].split("Recomputation, ")
    assert forward.startswith("4 operations:")
    assert again.startswith("2 operations:")
    assert [line.split()[2] for line in (forward + again).splitlines() if line.strip().startswith(">")] == [
        "cos([2])",
        "tanh([2])",
    ]
    assert "test_checkpoint.py:" in text
    assert "debug=True" not in text


def test_set_checkpoint_debug_enabled() -> None:
    def text(argument: bool, enabled: bool | None) -> str:
        with rg_checkpoint.set_checkpoint_debug_enabled(enabled):
            y = rg_checkpoint.checkpoint(
                Changing(*CHANGES["fewer"]), leaf(rg, 0.5), use_reentrant=False, debug=argument
            )
        return message(y.sum().backward)

    assert "pass debug=True" in text(False, None)
    assert "Forward pass, 2 operations" in text(True, None)
    assert "Forward pass, 2 operations" in text(False, True)
    assert "pass debug=True" in text(True, False)


def test_backward_can_be_retried_after_an_error_in_recomputation() -> None:
    x = leaf(rg, 0.5, 1.0)
    calls = []

    def function(a: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("for once")
        return a.sin().cos()

    y = rg_checkpoint.checkpoint(function, x, use_reentrant=False).sum()
    with pytest.raises(OSError, match="for once"):
        y.backward()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), -np.sin(np.sin([0.5, 1.0])) * np.cos([0.5, 1.0]))


@parity
def test_overwritten_checkpoint_argument_is_refused(lib: Any) -> Any:
    report = []
    for use_reentrant in (True, False):
        h = leaf(lib, 0.5, 1.0) * 1
        y = module_of(lib).checkpoint(block, h, use_reentrant=use_reentrant)
        h.add_(1)
        report.append(message(y.sum().backward).partition(":")[0])
    return report


def test_write_to_a_saved_tensor_inside_a_checkpoint_is_noticed() -> None:
    """torch uses the new values."""

    def function(x: Any) -> Any:
        y = x * 1
        z = y.sin()
        y.mul_(100)
        return z.cos()

    y = rg_checkpoint.checkpoint(function, leaf(rg, 0.5), use_reentrant=False).sum()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*in a checkpointed function"):
        y.backward()


@parity
def test_saved_tensors_of_a_checkpoint_can_be_read_once(lib: Any) -> Any:
    class Greedy(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.saved_tensors[0] * ctx.saved_tensors[0] * g

    y = module_of(lib).checkpoint(lambda a: Greedy.apply(a.sin()), leaf(lib, 0.5), use_reentrant=False)
    return [message(y.sum().backward).partition(". If")[0].replace("retrograd", "torch")]


@parity
def test_checkpoint_refuses_incompatible_arguments(lib: Any) -> Any:
    x = leaf(lib, 0.5)
    checkpoint = module_of(lib).checkpoint
    return [
        message(lambda: checkpoint(block, x, use_reentrant=True, foo=1, bar=2)),
        message(lambda: checkpoint(block, x, use_reentrant=True, debug=True)),
        message(lambda: checkpoint(block, x, use_reentrant=True, context_fn=lambda: None)),
        message(lambda: checkpoint(block, x, use_reentrant=False, debug=True, context_fn=lambda: None)),
        message(lambda: checkpoint(block, x, use_reentrant=False, determinism_check="all")),
        message(lambda: module_of(lib).checkpoint_sequential([block], 1, x, foo=1)),
    ]


@pytest.mark.parametrize("library", ["torch", "retrograd"])
def test_checkpoint_warnings(library: str) -> None:
    lib = importlib.import_module(library)
    x = leaf(lib, 0.5)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        y = module_of(lib).checkpoint(block, x)
    assert y.grad_fn.name().startswith("CheckpointFunction")
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        module_of(lib).checkpoint_sequential([block, block], 1, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        module_of(lib).checkpoint(block, x.detach(), use_reentrant=True)


# --- in sequence, in groups -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint_sequential(use_reentrant: bool) -> None:
    @parity
    def check(lib: Any) -> Any:
        report = []
        for segments in (1, 2, 3, 5):
            x = leaf(lib, 0.5, 1.0)
            functions = [Counted(function) for function in (lib.sin, lib.exp, lib.tanh, lib.cos, lib.sin)]
            y = module_of(lib).checkpoint_sequential(functions, segments, x, use_reentrant=use_reentrant)
            y.sum().backward()
            report.append([y, x.grad, [function.log for function in functions]])
        return report

    check()


def test_checkpoint_sequential_takes_a_module() -> None:
    class Module:
        def children(self) -> Any:
            return iter([rg.sin, rg.exp])

    x = leaf(rg, 0.5)
    y = rg_checkpoint.checkpoint_sequential(Module(), 2, x, use_reentrant=False)
    assert y.equal(x.sin().exp())


@pytest.mark.parametrize("segments", [0, 3])
def test_checkpoint_sequential_refuses_wrong_segments(segments: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and the number of functions, 2, but got {segments}"):
        rg_checkpoint.checkpoint_sequential([rg.sin, rg.exp], segments, leaf(rg, 0.5), use_reentrant=False)


@parity
def test_group_of_backwards_recomputes_once(lib: Any) -> Any:
    x = leaf(lib, 0.5)
    function = Counted(lambda a: (a.sin(), a.exp()))
    with module_of(lib).GraphExecGroup():
        first, second = module_of(lib).checkpoint(function, x, use_reentrant=False)
        first.sum().backward(retain_graph=True)
        second.sum().backward()
        overlap = message(first.sum().backward)

    def nested() -> None:
        with module_of(lib).GraphExecGroup(), module_of(lib).GraphExecGroup():
            pass

    with module_of(lib).GraphExecGroup():  # the outer block has ended nevertheless
        pass
    return [
        x.grad,
        function.log,
        overlap.partition(". ")[0].replace("retrograd", "torch"),
        message(nested).partition(" Already")[0],
    ]
