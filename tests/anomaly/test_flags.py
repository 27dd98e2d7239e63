"""NumPy code that is none of a watch's business behaves under it as it does without."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly.flags import Flags

ZERO, LARGE, NEGATIVE = np.array([0.0]), np.array([1e300]), np.array([-1.0])
INFINITE = np.array([np.inf, -np.inf])


def _augmented() -> None:
    a = LARGE.copy()
    a *= 1e300


class Multiplied:
    def __init__(self) -> None:
        self.product = LARGE * LARGE


CALLS: dict[str, Callable[[], Any]] = {
    "log of zero": lambda: np.log(ZERO),
    "log of both": lambda: np.log(np.array([0.0, -1.0])),
    "sqrt": lambda: np.sqrt(NEGATIVE),
    "arccos": lambda: np.arccos(np.array([2.0])),
    "exp": lambda: np.exp(LARGE),
    "power": lambda: ZERO ** (-1.0),
    "quotient": lambda: ZERO / ZERO,
    "quotient of scalars": lambda: np.float64(1.0) / np.float64(0.0),
    "product": lambda: LARGE * LARGE,
    "product of scalars": lambda: np.float64(1e300) * np.float64(1e300),
    "augmented product": _augmented,
    "sum": lambda: INFINITE.sum(),
    "cumulative sum": lambda: np.cumsum(INFINITE),
    "difference": lambda: np.diff(INFINITE),
    "mean of nothing": lambda: np.array([LARGE[0], LARGE[0]]).prod(),
    "spread": lambda: np.std(INFINITE),
    "matrix product": lambda: np.full((2, 2), 1e300) @ np.full((2, 2), 1e300),
    "dot": lambda: np.dot(np.full(3, 1e300), np.full(3, 1e300)),
    "einsum": lambda: np.einsum("i,i->i", LARGE, LARGE),
    "remainder": lambda: np.remainder(1.0, ZERO),
    "floor division": lambda: ZERO // ZERO,
    "integer division": lambda: np.array([1]) // np.array([0]),
    "reciprocal": lambda: np.reciprocal(ZERO),
    "cast to float32": lambda: LARGE.astype(np.float32),
    "cast to int": lambda: np.array([np.nan]).astype(np.int64),
    "assignment": lambda: np.zeros(1, np.float32).__setitem__(0, 1e300),
    "norm": lambda: np.linalg.norm(np.full(3, 1e300)),
    "variance in a comprehension": lambda: [np.var(np.array([1e300, -1e300])) for _ in range(2)],
    "in a method": Multiplied,
    "ldexp": lambda: np.ldexp(1.0, 5000),
    "nan to int comparison": lambda: np.maximum.reduce(INFINITE - INFINITE),
}

Said = list[tuple[type[Warning], str, str, int]]


def said_by(call: Callable[[], Any]) -> Said:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(each.category, str(each.message), each.filename, each.lineno) for each in caught]


@pytest.mark.parametrize("name", CALLS)
def test_numpy_code_warns_as_without_a_watch(name: str) -> None:
    expected = said_by(CALLS[name])
    with rg.anomaly.watch():
        actual = said_by(CALLS[name])
    assert actual == expected


def test_at_least_25_of_the_calls_warn() -> None:
    assert sum(bool(said_by(call)) for call in CALLS.values()) >= 25


@pytest.mark.parametrize("name", CALLS)
def test_numpy_code_raises_as_without_a_watch(name: str) -> None:
    def outcome() -> str:
        try:
            CALLS[name]()
        except FloatingPointError as error:
            return str(error)
        return ""

    with np.errstate(all="raise"):
        expected = outcome()
        with rg.anomaly.watch():
            actual = outcome()
    assert actual == expected


@pytest.mark.parametrize("name", CALLS)
def test_a_callback_of_errstate_is_called_as_without_a_watch(name: str) -> None:
    told: list[tuple[str, int]] = []
    with np.errstate(all="call", call=lambda error, flag: told.append((error, flag))):
        CALLS[name]()
        expected = told.copy()
        told.clear()
        with rg.anomaly.watch():
            CALLS[name]()
    assert told == expected


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("name", CALLS)
def test_a_log_of_errstate_is_written_as_without_a_watch(name: str) -> None:
    expected, actual = Log(), Log()
    with np.errstate(all="log", call=expected):
        CALLS[name]()
    with np.errstate(all="log", call=actual), rg.anomaly.watch():
        CALLS[name]()
    assert actual.lines == expected.lines


def test_numpy_prints_as_without_a_watch(capfd: pytest.CaptureFixture[str]) -> None:
    with np.errstate(all="print"):
        np.log(ZERO)
        expected = capfd.readouterr()
        with rg.anomaly.watch():
            np.log(ZERO)
    assert capfd.readouterr() == expected
    assert "divide by zero encountered in log" in expected.out + expected.err


@pytest.mark.parametrize("name", CALLS)
def test_ignored_errors_stay_ignored(name: str) -> None:
    with np.errstate(all="ignore"), rg.anomaly.watch():
        assert said_by(CALLS[name]) == []


def test_each_kind_of_error_keeps_its_own_mode() -> None:
    with np.errstate(divide="raise", invalid="ignore", over="warn"), rg.anomaly.watch():
        with pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
            np.log(ZERO)
        assert said_by(lambda: np.sqrt(NEGATIVE)) == []
        assert len(said_by(lambda: np.exp(LARGE))) == 1


def test_an_errstate_within_the_watch_is_respected() -> None:
    with rg.anomaly.watch():
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            np.log(ZERO)
        with np.errstate(all="ignore"):
            assert said_by(lambda: np.log(ZERO)) == []
        assert len(said_by(lambda: np.log(ZERO))) == 1


def test_the_error_state_is_restored_after_the_watch() -> None:
    def listener(error: str, flag: int) -> None:
        """Not called."""

    with np.errstate(divide="call", over="raise", call=listener):
        before = np.geterr(), np.geterrcall()
        with rg.anomaly.watch():
            assert (np.geterr(), np.geterrcall()) != before
        assert (np.geterr(), np.geterrcall()) == before


def test_numpy_warns_once_under_nested_watches() -> None:
    expected = said_by(CALLS["log of both"])
    with rg.anomaly.watch(), rg.anomaly.watch():
        assert said_by(CALLS["log of both"]) == expected


@pytest.mark.parametrize("first", [0, 1])
def test_nested_watches_may_stop_in_any_order(first: int) -> None:
    before = np.geterr(), np.geterrcall()
    watches = [rg.anomaly.watch(rg.nn.Linear(1, 1)).start() for _ in range(2)]
    watches[first].stop()
    assert np.geterrcall() is not None
    watches[1 - first].stop()
    assert (np.geterr(), np.geterrcall()) == before
    assert rg.core.state.monitor is None


def test_numpy_warns_in_other_threads() -> None:
    said: Said = []
    with rg.anomaly.watch():
        thread = threading.Thread(target=lambda: said.extend(said_by(CALLS["exp"])))
        thread.start()
        thread.join()
    assert len(said) == 1


def test_on_flag_gets_the_kind_the_frame_and_the_function() -> None:
    told: list[tuple[str, str, str]] = []

    def on_flag(kind: str, frame: FrameType, function: str) -> bool:
        told.append((kind, frame.f_code.co_name, function))
        return True

    with Flags(on_flag, underflow=True).errstate():
        np.log(ZERO)
        np.sqrt(NEGATIVE)
        np.exp(LARGE)
        np.exp(-LARGE)
    here = "test_on_flag_gets_the_kind_the_frame_and_the_function"
    expected = [("divide", "log"), ("invalid", "sqrt"), ("overflow", "exp"), ("underflow", "exp")]
    assert told == [(kind, here, function) for kind, function in expected]


def test_on_flag_gets_no_function_if_errstate_calls_back() -> None:
    told: list[str] = []

    def on_flag(kind: str, frame: FrameType, function: str) -> bool:
        told.append(function)
        return True

    with np.errstate(all="call", call=lambda error, flag: None):
        flags = Flags(on_flag)
        flags.set_in_this_thread()
        np.log(ZERO)
        flags.restore()
    assert told == [""]


def test_operations_of_retrograd_do_not_warn() -> None:
    x = rg.tensor([0.0, -1.0, 1e38])
    with rg.anomaly.watch():
        assert said_by(lambda: (rg.log(x), x / 0, x.exp(), x.half(), x.double().float(), x.mean(), rg.sqrt(x))) == []
