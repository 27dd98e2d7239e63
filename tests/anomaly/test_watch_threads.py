"""Programs of several threads under one watch."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, NaNEvent, Watch
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import bad_gradient, bad_loss, leaf
from tests.threads import in_threads

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def test_a_bad_gradient_in_another_thread_is_reported_with_that_thread() -> None:
    with rg.anomaly.watch() as watch:
        errors = in_threads(lambda: bad_gradient(leaf(1.0)))
    assert [type(error) for error in errors] == [AnomalyError]
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("SqrtBackward0", "worker 0")


def test_a_bad_loss_in_another_thread_is_reported() -> None:
    with rg.anomaly.watch() as watch:
        errors = in_threads(lambda: bad_loss(leaf(1.0)))
    assert [type(error) for error in errors] == [AnomalyError]
    assert watch.event is not None
    assert (watch.event.op, watch.event.index) == ("log", (0,))


def test_the_flag_of_a_birth_in_another_thread_is_noticed_at_once() -> None:
    """No graph keeps the operand, so only the flag can show the birth."""
    x = leaf(1.0, 2.0)
    made: list[Tensor] = []
    with rg.anomaly.watch() as watch:
        in_threads(lambda: made.append(rg.log(rg.zeros(2)) * 0))
        with pytest.raises(AnomalyError):
            (x + made[0]).sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("log", "worker 0")


def test_a_birth_in_the_thread_of_the_harm_is_blamed_before_one_of_another_thread() -> None:
    """Only the result of a square root is kept: its operand might be the NaN of the other thread."""
    made: list[Tensor] = []
    with rg.anomaly.watch() as watch:
        in_threads(lambda: made.append(rg.acos(leaf(3.0, 3.0))))
        root = rg.sqrt(leaf(0.0, 0.0) - 1)
        with pytest.raises(AnomalyError):
            root.sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.thread) == ("sqrt", "MainThread")


def test_each_of_several_training_threads_gets_the_error_of_its_own_birth() -> None:
    births = {"log": rg.log, "sqrt": lambda x: rg.sqrt(x - 1), "div": lambda x: x / x, "acos": lambda x: rg.acos(x + 3)}
    begin = threading.Barrier(len(births))
    heard: dict[str, tuple[str, str]] = {}

    def train(name: str) -> None:
        w = leaf(1.0, 1.0)
        begin.wait()
        for step in range(12):
            loss = (w + births[name](leaf(0.0, 0.0))).sum() if step == 8 else (w * w).sum()
            try:
                loss.backward()
            except AnomalyError as error:
                assert isinstance(error.event, NaNEvent)
                heard[name] = error.event.op, error.event.thread
                assert step == 8

    with rg.anomaly.watch() as watch:
        errors = in_threads(*[functools.partial(train, name) for name in births])
    assert not errors
    assert heard == {name: (name, f"worker {k}") for k, name in enumerate(births)}
    assert len(watch.events) == len(births)


def test_a_thread_started_before_the_watch_is_watched_after_its_first_backward() -> None:
    begin, end = threading.Barrier(2), threading.Barrier(2)
    watches: list[Watch] = []

    def work() -> None:
        leaf(1.0).sum().backward()
        for _ in range(2):  # a second watch follows
            begin.wait()
            leaf(1.0).sum().backward()
            with contextlib.suppress(AnomalyError):
                rg.where(leaf(1.0) > 0, rg.log(rg.zeros(1)) * leaf(0.0), 1.0).sum().backward()
            end.wait()

    thread = threading.Thread(target=work, name="early")
    thread.start()
    for _ in range(2):
        with rg.anomaly.watch() as watch:
            begin.wait()
            end.wait()
            watches.append(watch)
    thread.join()
    assert [(each.event.op, each.event.thread) for each in watches if each.event] == [("log", "early")] * 2


def test_a_thread_warns_as_before_when_the_watch_has_stopped() -> None:
    worked, stopped = threading.Event(), threading.Event()
    said: list[str] = []

    def work() -> None:
        leaf(1.0).sum().backward()
        worked.set()
        stopped.wait()
        try:
            np.log(np.zeros(1))
        except RuntimeWarning as warning:
            said.append(str(warning))

    thread = threading.Thread(target=work)
    with rg.anomaly.watch():
        thread.start()
        worked.wait()
    stopped.set()
    thread.join()
    assert said == ["divide by zero encountered in log"]


def test_a_bad_thread_does_not_disturb_a_healthy_one() -> None:
    def good() -> None:
        x = leaf(1.0, 0.0)
        for _ in range(200):
            safe = rg.where(x > 0, x, 1.0)
            rg.where(x > 0, rg.log(safe), 0.0).sum().backward()
            x.grad = None

    def bad() -> None:
        x = leaf(1.0)
        for _ in range(100):
            (x * 2).sum().backward()
        bad_gradient(x)

    with rg.anomaly.watch() as watch:
        errors = in_threads(good, bad)
    assert [type(error) for error in errors] == [AnomalyError]
    assert [(event.op, event.thread) for event in watch.events] == [("SqrtBackward0", "worker 1")]


def test_two_threads_can_check_gradients_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor

    look = RetrogradMonitor._look_at_gradients
    others: list[threading.Thread] = []
    failed: list[BaseException] = []

    def backward() -> None:
        try:
            (leaf(1.0, 2.0) ** 2).sum().backward()
        except BaseException as error:
            failed.append(error)

    def look_with_another(*args: Any) -> bool:
        if not others:
            others.append(threading.Thread(target=backward))
            others[0].start()
            others[0].join()
        return look(*args)

    monkeypatch.setattr(RetrogradMonitor, "_look_at_gradients", look_with_another)
    with rg.anomaly.watch() as w:
        backward()
    assert others
    assert not failed
    assert w.step == 2


def test_the_scale_of_a_thread_that_has_ended_hides_no_bad_gradient() -> None:
    """The system reuses the numbers of threads."""
    found = []

    def bad() -> None:
        with pytest.raises(AnomalyError, match="sqrt") as info:
            bad_gradient(leaf(1.0))
        found.append(info.value.event)

    with rg.anomaly.watch():
        for run in (lambda: rg.amp.GradScaler("cpu").scale(leaf(1.0).sum()), bad):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert len(found) == 1
