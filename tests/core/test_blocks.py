"""Large elementwise work, split into blocks and among threads, gives NumPy's results."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import blas, blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make small arrays count as large, so that all block borders are tested."""
    before = rg.get_num_threads()
    monkeypatch.setattr(blocks, "BLOCK", 64)
    yield
    rg.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [65, 128, 129, 1000, 1024, 4097])
def test_run_blocked_of_ufuncs_and_compositions(threads: int, size: int) -> None:
    rg.set_num_threads(threads)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=size), rng.normal(size=size).astype(np.float32)
    for function, operands in [
        (np.sin, (a,)),
        (np.multiply, (a, a)),
        (np.multiply, (b, 2.0)),
        (np.subtract, (b, np.array(3.0, np.float32))),
        (lambda g, x: g * np.cos(x) - 1, (a, a)),
        (lambda x: np.where(x > 0, x, 0), (b,)),
    ]:
        got = blocks.run_blocked(function, *operands)
        expected = function(*operands)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


LAYOUTS = {
    "matrix": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
    "row": lambda x: x[0],
    "column": lambda x: x[:, :1],
    "number": lambda x: x[:1, :1],
    "expanded row": lambda x: np.broadcast_to(x[0], x.shape),
    "expanded number": lambda x: np.broadcast_to(x[0, 0], x.shape),
    "every other": lambda x: np.concatenate([x, x], 1)[:, ::2],
    "deeper": lambda x: x[None],
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_run_blocked_of_operands_in_any_layout(left: str, right: str, threads: int) -> None:
    rg.set_num_threads(threads)
    rng = np.random.default_rng(0)
    operands = [LAYOUTS[left](rng.normal(size=(30, 30))), LAYOUTS[right](rng.normal(size=(30, 30)))]
    for function in (np.add, lambda x, y: x * y - x):
        got, expected = blocks.run_blocked(function, *operands), function(*operands)
        np.testing.assert_array_equal(got, expected)
        assert got.strides == expected.strides


def test_rows_and_columns_are_split_along_with_the_matrix() -> None:
    rng = np.random.default_rng(0)
    calls = []

    def function(x: Any, y: Any) -> Any:
        calls.append((x.shape, y.shape))
        return x + y

    image = rng.normal(size=(3, 20, 10))
    for other in (image[:, :, :1], image[:1, :1, :]):
        calls.clear()
        np.testing.assert_array_equal(blocks.run_blocked(function, image, other), image + other)
        assert len(calls) > 3
        assert all(x[0] == 3 and x[2] == 10 and x[1] <= 2 for x, _ in calls)  # 64 elements at most
        assert all(y[1] in (1, x[1]) for x, y in calls)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_run_blocked_with_out(threads: int) -> None:
    rg.set_num_threads(threads)
    rng = np.random.default_rng(0)
    for shape, other_shape in [((1000,), (1000,)), ((1000,), ()), ((40, 25), (25,)), ((40, 25), (40, 1))]:
        x, y = rng.normal(size=shape), rng.normal(size=other_shape)
        for out in (x.copy(), np.empty((*shape, 2))[..., 0], np.empty(shape[::-1]).T):
            out[...] = x
            assert blocks.run_blocked(np.multiply, out, y, out=out) is out
            np.testing.assert_array_equal(out, x * y)


@pytest.mark.parametrize("shift", [1, 500, 999])
def test_run_blocked_with_out_that_overlaps_an_operand(shift: int) -> None:
    rg.set_num_threads(3)
    memory = np.random.default_rng(0).normal(size=2000)
    expected = memory.copy()
    np.add(expected[shift : shift + 1000], expected[:1000], out=expected[shift : shift + 1000])
    there = memory[shift : shift + 1000]
    blocks.run_blocked(np.add, there, memory[:1000], out=there)
    np.testing.assert_array_equal(memory, expected)


def test_run_blocked_refuses_an_out_of_the_wrong_shape() -> None:
    rg.set_num_threads(2)
    with pytest.raises(ValueError, match="non-broadcastable output"):
        blocks.run_blocked(np.add, np.ones((30, 30)), np.ones((30, 30)), out=np.ones((1, 30)))


@pytest.mark.parametrize("kind", ["warn", "raise"])
def test_floating_point_errors_are_raised_after_all_blocks_are_written(kind: Any) -> None:
    rg.set_num_threads(3)
    x = np.full(1000, 3.0)
    y = np.where(np.arange(1000) % 300 == 0, 0.0, 2.0)
    with warnings.catch_warnings(), np.errstate(divide=kind):
        warnings.simplefilter("error")
        with pytest.raises((RuntimeWarning, FloatingPointError), match="divide by zero"):
            blocks.run_blocked(np.divide, x, y, out=x)
    np.testing.assert_array_equal(x, np.where(y == 0, np.inf, 1.5))


def test_in_place_operations_on_large_tensors() -> None:
    n = blocks.LARGE + 1000
    data = np.random.default_rng(0).normal(size=n).astype(np.float32)
    x, y = rg.tensor(data), rg.tensor(data)
    x += y
    x.mul_(y)
    x[1:] += x[:-1]
    expected = (data + data) * data
    expected[1:] += expected[:-1].copy()
    np.testing.assert_array_equal(x.numpy(), expected)


def test_large_gradients_are_accumulated() -> None:
    n = blocks.LARGE + 1000
    data = np.random.default_rng(0).normal(size=n).astype(np.float32)
    x = rg.tensor(data, requires_grad=True)
    for _ in range(2):
        (x * x + 3 * x + x.exp().detach() * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (2 * data + 3 + np.exp(data)), rtol=1e-5, atol=1e-5)


def test_operand_expanded_from_a_number_is_passed_as_a_number() -> None:
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(30, 30))
    ones = np.broadcast_to(np.float64(1), whole.shape)
    calls = []

    def function(g: Any, x: Any) -> Any:
        calls.append((np.shape(g), x.shape))
        return g * np.cos(x)

    for threads in (1, 2):
        rg.set_num_threads(threads)
        result = blocks.run_blocked(function, ones, whole)
        np.testing.assert_array_equal(result, np.cos(whole))
        assert len(calls) > 10, "the work was not split"
        assert {shape for shape, _ in calls} == {()}
        assert result.base is None, "the result is a view, so a leaf could not keep it"
        calls.clear()


@pytest.mark.parametrize("left", [(900,), (1, 900), (30, 30), (1, 30, 30)])
@pytest.mark.parametrize("right", [(), (1,), (1, 1), (1, 1, 1), (1, 1, 1, 1), (900,), (3, 900)])
@pytest.mark.parametrize("swap", [False, True])
def test_run_blocked_broadcasts_as_numpy_does(left: tuple[int, ...], right: tuple[int, ...], swap: bool) -> None:
    operands = [np.arange(900.0).reshape(left), np.broadcast_to(np.float64(2), right)]
    fit = left in ((900,), (1, 900)) or right != (3, 900)
    fit = fit and (right != (900,) or 30 not in left)
    for function in (np.add, lambda x, y: x + y):
        if not fit:
            with pytest.raises(ValueError, match="could not be broadcast"):
                blocks.run_blocked(function, *(operands[::-1] if swap else operands))
            continue
        got, expected = blocks.run_blocked(function, *(operands[::-1] if swap else operands)), np.add(*operands)
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


def test_gradient_of_a_large_tensor() -> None:
    n = blocks.LARGE + 1000
    rng = np.random.default_rng(0)
    data = rng.normal(size=n).astype(np.float32)
    x = rg.tensor(data, requires_grad=True)
    ((x.exp() * x).tanh() + x).sum().backward()
    inner = np.exp(data) * data
    expected = (1 - np.tanh(inner) ** 2) * (np.exp(data) * (1 + data)) + 1
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_errstate_applies_in_the_threads() -> None:
    rg.set_num_threads(2)
    data = np.ones(1000)
    data[-1] = -1
    seen = []
    with np.errstate(invalid="call", call=lambda kind, flag: seen.append(kind)):
        blocks.run_blocked(np.sqrt, data)
    assert seen == ["invalid value"]


def test_error_in_a_thread_is_raised_in_the_caller() -> None:
    rg.set_num_threads(2)
    begun = threading.Event()

    def work(task: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            raise KeyError("from the thread")
        assert begun.wait(10)  # until the helper thread has got a task

    with pytest.raises(KeyError, match="from the thread"):
        blocks.share_out(work, [(task,) for task in range(10)])


def test_helpers_stop_after_an_error_in_the_caller() -> None:
    """Once the caller sees the error, nothing is written any more."""
    rg.set_num_threads(2)
    begun, failing = threading.Event(), threading.Event()
    done: list[int] = []

    def work(task: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            failing.set()
            raise ValueError("from the caller")
        begun.set()
        assert failing.wait(10)
        threading.Event().wait(0.05)  # meanwhile the caller is leaving
        done.append(task)

    with pytest.raises(ValueError, match="from the caller"):
        blocks.share_out(work, [(task,) for task in range(10)])
    assert len(done) == 1


def test_every_helper_has_its_own_context() -> None:
    """Settings such as NumPy's error handling start as the caller's, and changes to them stay in the thread."""
    rg.set_num_threads(3)
    meeting = threading.Barrier(3, timeout=10)
    before, after = [], []

    def work(task: int) -> None:
        before.append(np.geterr()["over"])
        meeting.wait()
        np.seterr(over=("ignore", "warn", "print")[task])
        meeting.wait()
        after.append(np.geterr()["over"])

    with np.errstate(over="raise"):
        blocks.share_out(work, [(task,) for task in range(3)])
    assert before == ["raise"] * 3
    assert sorted(after) == ["ignore", "print", "warn"]


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("retrograd_")]


def test_surplus_threads_end_when_the_number_is_lowered() -> None:
    rg.set_num_threads(4)
    blocks.share_out(lambda task: None, [(task,) for task in range(8)])
    former = helpers()
    rg.set_num_threads(2)
    blocks.share_out(lambda task: None, [(task,) for task in range(8)])
    for thread in former:
        thread.join(10)
    assert len(helpers()) == 1


def test_all_threads_of_a_pool_end_however_many_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    rg.set_num_threads(2)
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "get_num_threads", lambda: 4)
        blocks.share_out(lambda task: None, [(task,) for task in range(8)])
    former = helpers()
    assert len(former) == 3
    rg.set_num_threads(3)
    for thread in former:
        thread.join(10)
    assert helpers() == []


def test_number_of_threads_can_change_while_work_is_shared() -> None:
    """No caller waits for a thread that has ended."""
    changing = threading.Event()

    def change() -> None:
        while not changing.is_set():
            for n in (2, 3):
                rg.set_num_threads(n)

    other = threading.Thread(target=change)
    other.start()
    done: list[int] = []
    for _ in range(200):
        blocks.share_out(done.append, [(task,) for task in range(4)])
    changing.set()
    other.join(10)
    assert sorted(done) == sorted([0, 1, 2, 3] * 200)


def test_set_num_threads_refuses_wrong_numbers() -> None:
    rg.set_num_threads(3)
    assert rg.get_num_threads() == 3
    for wrong, error in ((0, RuntimeError), (-1, RuntimeError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="set_num_threads"):
            rg.set_num_threads(wrong)  # type: ignore[arg-type]
    assert rg.get_num_threads() == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_child_starts_its_own_threads() -> None:
    rg.set_num_threads(2)
    data = np.ones(1000)
    blocks.run_blocked(np.sqrt, data)  # the parent's pool
    child = os.fork()
    if child == 0:
        ok = bool((blocks.run_blocked(np.sqrt, data) == 1).all())
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("given", [0, 1])
def test_work_is_done_when_threads_cannot_be_started(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rg.set_num_threads(4)
    left = given
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        nonlocal left
        if left == 0:
            raise RuntimeError("can't start new thread")
        left -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    data = np.arange(1000.0)
    for _ in range(2):
        np.testing.assert_array_equal(blocks.run_blocked(np.sqrt, data), np.sqrt(data))


def test_finalizers_can_compute_at_interpreter_exit() -> None:
    """At exit the pool's threads no longer run, so nothing may wait for them."""
    program = """
import builtins
import retrograd as rg

class Last:
    def __init__(self):
        self.x = rg.ones(2_000_000)

    def __del__(self, rg=rg):
        print(self.x.exp().numel())

rg.set_num_threads(2)
rg.ones(2_000_000).exp()
builtins.last = Last()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("2000000\n", "")


def test_signal_handlers_can_compute_whatever_they_interrupt() -> None:
    """Such as code that holds a lock while it shares out work or sets the number of BLAS threads."""
    rg.set_num_threads(2)
    x, w = rg.rand(4 * blocks.LARGE), rg.rand(600, 600)
    setting = blas.threads()
    before = None if setting is None else setting.get()
    results: list[Any] = []

    def handler() -> None:
        x.exp()
        w @ w
        rg.nn.functional.layer_norm(x.reshape(-1, 64), (64,))
        results.append(rg.rand(3).shape)

    def interrupted() -> None:
        for lock in (blocks._lock, blas._lock, rg.default_generator._lock):
            with lock:
                handler()

    thread = threading.Thread(target=interrupted, daemon=True)  # in the main thread, the test could only hang, not fail
    thread.start()
    thread.join(60)
    assert len(results) == 3
    assert setting is None or setting.get() == before
