"""detect_anomaly and its companions: what they share with torch, and what they add."""

from __future__ import annotations

import gc
import inspect
import re
import threading
import warnings
import weakref

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.autograd import detect_anomaly, set_detect_anomaly


def line_of(text: str) -> int:
    """Return the number of the one line of this file that ends in the given comment."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))
    return number


def hidden_nan(library, x):
    """Finite in the forward pass; sqrt's derivative at 0 is 0 / 0."""
    return library.where(x > 0, library.sqrt(x), library.zeros_like(x)).sum()


def error_of(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError) as info:
            function()
    return info.value


def first_line(library, mode):
    x = library.tensor([4.0, 0.0], requires_grad=True)

    def run():
        with mode():
            hidden_nan(library, x).backward()

    return str(error_of(run)).splitlines()[0]


def test_first_line_the_error_is_torchs():
    expected = first_line(torch, torch.autograd.detect_anomaly)
    assert (
        first_line(rg, detect_anomaly) == expected == "Function 'SqrtBackward0' returned nan values in its 0th output."
    )


@pytest.mark.parametrize("position", [0, 1])
def test_error_numbers_the_output_as_torch_does(position):
    def run(library, mode):
        base = library.tensor([-1.0], requires_grad=position == 0)
        exponent = library.tensor([0.5], requires_grad=position == 1)
        other = library.tensor([1.0], requires_grad=True)

        def step():
            with mode():
                library.where(base > 0, base**exponent, other).sum().backward()

        return re.sub(r"Backward\d", "Backward", str(error_of(step)).splitlines()[0])

    assert run(rg, detect_anomaly) == run(torch, torch.autograd.detect_anomaly)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("sums_over", [(), (1,), (1, 2)])
@pytest.mark.parametrize("operation", ["add", "mul", "div"])
def test_nan_from_summing_a_broadcast_gradient_is_blamed_on_the_node(operation, sums_over, create_graph):
    def sentence(library, mode):
        x = library.ones(2, 2, requires_grad=True)
        y = library.ones(sums_over, requires_grad=True)
        g = library.tensor([[float("inf"), 1.0], [-float("inf"), 1.0]])

        def run():
            with mode():
                library.autograd.grad(getattr(library, operation)(x, y), (x, y), g, create_graph=create_graph)

        return str(error_of(run)).splitlines()[0]

    assert sentence(rg, detect_anomaly) == sentence(torch, torch.autograd.detect_anomaly)


def test_overflow_in_the_dtype_of_the_operand_is_blamed_on_the_node():
    x = rg.tensor([1.0], dtype=rg.float16, requires_grad=True)
    scale = rg.tensor([1e6])

    def run():
        with detect_anomaly():
            (x * scale).sum().backward()

    assert str(error_of(run)).startswith(
        "Function 'MulBackward0' returned inf values in its 0th output, which made the accumulated gradient of a leaf"
    )


def test_nan_that_arrived_is_distinguished_from_nan_made_by_the_node():
    x = rg.ones(1, requires_grad=True)

    def used_twice():
        y = x.exp()
        with detect_anomaly():
            (y * float("inf") - y * float("inf")).sum().backward()

    def made_by_the_node():
        with detect_anomaly():
            (x - 1).sqrt().mul(0).sum().backward()

    text = str(error_of(used_twice))
    assert text.startswith(
        "Function 'ExpBackward0' returned nan values in its 0th output.\nIts incoming gradient already held a NaN"
    )
    assert str(error_of(made_by_the_node)).splitlines()[1].startswith("The first is")


def test_error_names_the_first_nan_even_after_infinities():
    x = rg.tensor([1.0, 0.0, -2.0, 0.0], requires_grad=True)
    with detect_anomaly():
        error = error_of(lambda: x.sqrt().sum().backward())
    assert "\nThe first is nan at index (2,), 3 of 4 elements are not finite.\n" in str(error)


def test_the_forward_line_is_in_the_exception_and_in_a_warning():
    x = rg.tensor([4.0, 0.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Error detected in SqrtBackward0") as caught, detect_anomaly():
        y = rg.sqrt(x)  # the forward line
        with pytest.raises(RuntimeError) as info:
            rg.where(x > 0, y, 0.0).sum().backward()
    expected = f'{__file__}", line {line_of("the forward line")}, in test_the_forward_line'
    assert expected in str(info.value)
    assert expected in str(caught[0].message)
    assert "index (1,)" in str(info.value)


def test_traceback_shows_the_whole_call_stack():
    def inner(x):
        return x.sqrt()  # the inner call

    def outer(x):
        return inner(x) * 1.0  # the outer call

    x = rg.tensor([0.0], requires_grad=True)

    def run():
        with detect_anomaly():
            rg.where(x > 0, outer(x), 0.0).sum().backward()

    text = str(error_of(run))
    lines = [int(number) for number in re.findall(r"test_anomaly_mode.py\", line (\d+)", text)]
    outer_place = lines.index(line_of("the outer call"))
    assert lines[outer_place + 1] == line_of("the inner call")


def test_calls_after_a_loop_are_recorded_with_their_own_lines():
    x = rg.tensor([1.0], requires_grad=True)
    with detect_anomaly():
        y = x
        for _ in range(5):
            y = y * 1.0
        z = y.sqrt()  # the last call
        w = z * 1.0
    from retrograd.core.sites import site_of

    assert site_of(z.grad_fn).lineno == line_of("the last call")
    assert site_of(w.grad_fn).lineno == line_of("the last call") + 1


def test_graph_recorded_outside_the_block_has_no_traceback():
    x = rg.tensor([0.0], requires_grad=True)
    y = hidden_nan(rg, x)

    def run():
        with detect_anomaly():
            y.backward()

    assert "No forward pass information available" in str(error_of(run))


def test_double_backward_names_the_calculation_that_induced_it():
    def run():
        x = rg.tensor([0.0], requires_grad=True)
        with detect_anomaly():
            y = x**1.5  # the first calculation
            (g,) = rg.autograd.grad(y.sum(), x, create_graph=True)
            rg.where(x > 0, g, 0.0).sum().backward()

    text = str(error_of(run))
    assert text.startswith("Function 'PowBackward0' returned nan values")
    assert "Previous calculation was induced by PowBackward0. Traceback of forward call that induced" in text
    assert f"line {line_of('the first calculation')}," in text.split("Previous calculation")[1]


def test_infinite_leaf_gradient_raises_unless_check_inf_is_false():
    x = rg.tensor([0.0, 1.0], requires_grad=True)

    def run():
        with detect_anomaly():
            rg.sqrt(x).sum().backward()  # the pole

    text = str(error_of(run))
    assert text.startswith("Function 'SqrtBackward0' returned inf values in its 0th output")
    assert f"line {line_of('the pole')}," in text
    x.grad = None
    with detect_anomaly(check_inf=False):
        rg.sqrt(x).sum().backward()
    assert np.isinf(x.grad.numpy()[0])


def test_infinity_that_reaches_no_leaf_is_accepted():
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly():
        y = rg.sqrt(x)
        y.register_hook(lambda g: g)
        z = rg.where(x > 0.5, x, x * 2)
        z.register_hook(lambda g: None)
        (y.detach() * z).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_infinity_already_in_grad_is_reported_as_such():
    x = rg.tensor([1.0], requires_grad=True)
    x.grad = rg.tensor([float("inf")])

    def run():
        with detect_anomaly():
            (x * 2).sum().backward()

    assert "accumulated in a leaf" in str(error_of(run))
    assert "were already in .grad" in str(error_of(run))


def test_check_nan_false_lets_nan_pass():
    x = rg.tensor([0.0], requires_grad=True)
    with detect_anomaly(check_nan=False) as mode:
        assert isinstance(mode, detect_anomaly)
        assert mode.check_nan is False
        assert rg.is_anomaly_enabled()
        assert not rg.is_anomaly_check_nan_enabled()
        hidden_nan(rg, x).backward()
    assert np.isnan(x.grad.numpy()).all()


def test_entering_detect_anomaly_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with detect_anomaly():
            pass


def test_leaving_a_nested_block_restores_the_outer_mode():
    with detect_anomaly(check_nan=False):
        with detect_anomaly():
            assert rg.is_anomaly_check_nan_enabled()
        assert rg.is_anomaly_enabled()
        assert not rg.is_anomaly_check_nan_enabled()
        with set_detect_anomaly(False):
            assert not rg.is_anomaly_enabled()
        assert rg.is_anomaly_enabled()
    assert not rg.is_anomaly_enabled()


def test_mode_is_restored_when_the_block_raises():
    mode = detect_anomaly()
    for _ in range(2):  # the same object can be entered again
        with pytest.raises(KeyError), mode:
            raise KeyError
        assert not rg.is_anomaly_enabled()
        assert rg.core.state.local.mode == rg.core.state.RECORD


def test_detect_anomaly_as_a_decorator():
    @detect_anomaly()
    def step(x):
        assert rg.is_anomaly_enabled()
        hidden_nan(rg, x).backward()

    error = error_of(lambda: step(rg.tensor([0.0], requires_grad=True)))
    assert "SqrtBackward0" in str(error)
    assert not rg.is_anomaly_enabled()


def test_set_detect_anomaly_as_a_function():
    try:
        set_detect_anomaly(True)
        assert rg.is_anomaly_enabled()
        set_detect_anomaly(True, check_nan=False)
        assert not rg.is_anomaly_check_nan_enabled()
    finally:
        set_detect_anomaly(False)
    assert not rg.is_anomaly_enabled()


def test_mode_queries_answer_as_in_torch():
    def report(library, autograd):
        found = [library.is_anomaly_enabled(), library.is_anomaly_check_nan_enabled()]
        library.set_anomaly_enabled(True, False)
        found += [library.is_anomaly_enabled(), library.is_anomaly_check_nan_enabled()]
        library.set_anomaly_enabled(False)
        found += [library.is_anomaly_enabled(), library.is_anomaly_check_nan_enabled()]
        with autograd.set_detect_anomaly(True):
            found.append(library.is_anomaly_enabled())
        return [*found, library.is_anomaly_enabled()]

    assert report(rg, rg.autograd) == report(torch, torch.autograd)


def test_mode_that_is_not_a_bool_is_refused_in_torchs_words():
    with pytest.raises(TypeError) as theirs:
        torch.set_anomaly_enabled(3)
    with pytest.raises(TypeError) as ours:
        rg.set_anomaly_enabled(3)
    assert str(ours.value) == str(theirs.value)


class Failing(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise LookupError("the user's own words")


@pytest.mark.filterwarnings("ignore:Error detected")
def test_error_in_a_custom_backward_names_the_forward_call():
    x = rg.tensor([1.0], requires_grad=True)
    with pytest.raises(LookupError, match="the user's own words") as info, detect_anomaly():
        y = Failing.apply(x)  # the apply
        y.sum().backward()
    (note,) = info.value.__notes__
    assert "Error detected in FailingBackward. Traceback of forward call" in note
    assert f"line {line_of('the apply')}," in note


@pytest.mark.filterwarnings("ignore:Error detected")
def test_error_in_a_hook_names_the_forward_call():
    x = rg.tensor([1.0], requires_grad=True)
    with pytest.raises(LookupError) as info, detect_anomaly():
        y = x * 2  # the hooked
        y.register_hook(lambda g: [][1])
        y.sum().backward()
    assert f"line {line_of('the hooked')}," in info.value.__notes__[0]


def test_nan_from_a_custom_function_is_caught():
    class ToNan(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    def run():
        x = rg.tensor([1.0], requires_grad=True)
        with detect_anomaly():
            ToNan.apply(x).sum().backward()

    assert str(error_of(run)).startswith("Function 'ToNanBackward' returned nan values in its 0th output.")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_every_floating_dtype_is_checked(dtype):
    def run():
        x = rg.tensor([1.0, 0.0], dtype=getattr(rg, dtype), requires_grad=True)
        with detect_anomaly():
            (x / x).abs().sum().backward()

    assert "returned nan values" in str(error_of(run))


def test_huge_finite_gradients_are_accepted():
    x = rg.full((4,), 1e30).requires_grad_()
    with detect_anomaly():
        (x * 1e5).sum().backward()
        (x * 1e25).mean().backward()


def test_anomaly_mode_applies_only_to_its_own_thread():
    seen = []

    def other():
        seen.append(rg.is_anomaly_enabled())
        x = rg.tensor([0.0], requires_grad=True)
        hidden_nan(rg, x).backward()
        seen.append(bool(np.isnan(x.grad.numpy()).all()))

    with detect_anomaly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [False, True]


def test_anomaly_mode_does_not_change_gradients():
    def gradients():
        x = rg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = (x @ x).sin() + x
        y[0] *= 2.0
        (g,) = rg.autograd.grad((y * y.detach()).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return x.grad.numpy()

    plain = gradients()
    with detect_anomaly():
        assert np.array_equal(gradients(), plain)


def test_graph_in_anomaly_mode_is_freed_without_the_collector():
    gc.disable()
    try:
        with detect_anomaly():
            x = rg.ones(3).requires_grad_()
            y = (x * 2).sin()
            gone = weakref.ref(y.grad_fn)
            y.sum().backward()
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_frame_of_the_caller_is_not_kept_alive():
    class Local:
        pass

    def step():
        local = Local()
        x = rg.ones(3).requires_grad_()
        (x * 2).sum().backward()
        return weakref.ref(local)

    with detect_anomaly():
        gone = step()
        assert gone() is None
