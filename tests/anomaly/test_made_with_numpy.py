"""Bad data that the program has computed with NumPy from plain arrays: its line is to blame, without any tensor."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd.array_births import ArrayBirth
from retrograd.anomaly.adapters.retrograd.births import size_of
from tests.anomaly.both import executed, line, mended, only_event, run, runs

LEAF = "import numpy as np\nx = torch.tensor(np.array([1.0, 2.0]), requires_grad=True)\ngood = np.array([0.0, 2.0])\n"
USE = "\nloss = np.sum(x * weight)\nloss.backward()"


@pytest.fixture(autouse=True)
def _numpy_warns() -> Iterator[None]:
    """As it does without a watch: the program's own code is left alone."""
    with pytest.warns(RuntimeWarning, match="divide by zero|invalid value|overflow"):
        yield


MADE = {
    "by its own line": ("log", "weight = 1 + np.log(good)  # born here"),
    "by a line before": ("log", "scale = np.log(good)  # born here\nscale = scale * 2\nweight = -scale"),
    "by an operator": ("div", "weight = 1 + 2.0 / good  # born here"),
    "by a power": ("pow", "weight = (good - 1) ** 0.5  # born here"),
    "by an overflow": ("exp", "weight = np.exp(1000.0 * good)  # born here"),
    "by a product": ("mul", "weight = good * np.array([1.0, 1e308])  # born here"),
    "in a branch": ("log", "if len(good):\n    weight = np.log(good)  # born here\nelse:\n    weight = good"),
    "in a function": (
        "log",
        "def scores(given):\n    return np.log(given) * 2  # born here\nweight = scores(good)",
    ),
    "in a method": (
        "log",
        "class Buffer:\n"
        "    def __init__(self):\n        self.held = good\n"
        "    def weight(self):\n        return 1 - np.log(self.held)  # born here\n"
        "weight = Buffer().weight()",
    ),
    "of items": ("log", "table = np.stack([good, good])\nweight = np.log(table[1, :])  # born here"),
    "of a method": ("div", "weight = good / (good - good.mean(axis=0) + 1.0)  # born here"),
    "of a function": ("div", "weight = good / np.minimum(good, 0.0)  # born here"),
    "of what is overwritten later": ("log", "weight = np.log(good)  # born here\ngood[:] = 7.0"),
    "as a tensor": ("log", "weight = torch.from_numpy(np.log(good))  # born here"),
}


@runs
@pytest.mark.parametrize("name", MADE)
def test_the_line_that_made_bad_data_is_named(name: str, steps: bool) -> None:
    op, made = MADE[name]
    text = LEAF + made + USE
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.lineno, event.harmed) == (op, line(text), "loss")
    assert event.kind != "leaf"
    assert "plain arrays" in (event.note or "")
    assert (event.remedy or "").count("torch.") in (0, made.count("torch."))


def test_the_operands_are_those_of_the_first_bad_element() -> None:
    text = f"{LEAF}weight = (good - 2.0) / (good[::-1] - 2.0){USE}"
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.operands) == ("div", (0,), {"input": -2.0, "other": 0.0})


REMEDIES = {
    "a logarithm": "weight = 1 + np.log(good)",
    "a quotient": "weight = np.array([0.0, 3.0]) / good",
    "a root": "weight = np.sqrt(good - 1e-17)",
    "an exponential": "weight = np.exp(1000.0 * good)",
}


@pytest.mark.parametrize("name", REMEDIES)
def test_the_remedy_is_for_plain_arrays(name: str) -> None:
    text = LEAF + REMEDIES[name] + USE
    better = mended(text, only_event(run("retrograd", text)))
    assert np.isfinite(executed("retrograd", better)["loss"].item())


def test_an_argument_of_a_differentiated_function_is_traced_to_its_line() -> None:
    text = (
        "import numpy as np\n"
        "slope = torch.func.grad(lambda v: np.sum(v**2))\n"
        "v, steepness = np.array([1.0, 2.0]), np.array([1.0, 0.0])\n"
        "for k in range(2):\n"
        "    g = slope(v)\n"
        "    v = v - 0.1 / steepness  # born here"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.lineno) == ("div", (1,), line(text))


def test_a_birth_that_reaches_only_gradients_is_named() -> None:
    text = (
        f"{LEAF}weight = np.sqrt(good - 1)  # born here\n"
        "product = x * weight\nloss = np.sum(np.where(np.isnan(product), 0.0, product))\nloss.backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.harmed) == ("sqrt", line(text), "the gradient of x")


def test_of_several_births_in_one_line_the_one_with_these_numbers_is_named() -> None:
    text = (
        f"{LEAF}weight = 1\nloss = np.sum(x * np.nan_to_num(np.log(2 - good), neginf=0.0) + x * np.log1p(good / 2 - 1))"
    )
    text += "\nloss.backward()"
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.operands) == ("log1p", (0,), {"input": -1.0})


def test_an_infinity_that_reaches_only_gradients_is_named() -> None:
    """The logistic of an infinite argument is 1, but its derivative is 0 times infinity."""
    text = (
        f"{LEAF}def loss(q):\n    s = np.log(good)  # born here\n    z = q[1] * (s - q[0])\n"
        "    return np.sum(1 / (1 + np.exp(-z)))\ntorch.func.grad(loss)(np.ones(2))"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.index) == ("log", line(text), (0,))


def test_a_difference_of_infinities_is_traced_to_plain_arrays() -> None:
    text = f"{LEAF}weight = np.log(good)  # born here\nloss = np.sum(weight - x * weight)\nloss.backward()"
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.index) == ("log", line(text), (0,))


HARMLESS = {
    "another variable": "mask = np.log(good)\nweight = np.array([1.0, np.nan])",
    "one that was cleaned": "mask = np.log(good)\nraw = np.array([1.0, np.nan])\n"
    "weight = raw + np.nan_to_num(mask, neginf=0.0)",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_data_that_was_bad_from_the_start_is_blamed_on_no_line(name: str) -> None:
    event = only_event(run("retrograd", LEAF + HARMLESS[name] + USE))
    assert (event.kind, event.index) == ("leaf", (1,))


UNTOUCHED = {
    "an array that it writes to": "held, zeros = np.ones(10_000), np.zeros(10_000)\n"
    "np.log(zeros, out=held)\nheld[:] = 7.0\nweight = np.log(good)",
    "a function of the program": "@np.vectorize\ndef halved(value):\n    calls.append(value)\n"
    "    return value / 2\nweight = np.log(halved(good))",
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_an_expression_with_effects_is_not_computed_again(name: str) -> None:
    text = f"{LEAF}calls, held = [], np.array([7.0])\n{UNTOUCHED[name]}\nbefore = len(calls){USE}"
    w = run("retrograd", f"{text}\nw.found = before, len(calls), held")
    assert only_event(w).kind != "unknown"
    before, after, held = w.found
    assert before == after
    assert (held == 7.0).all()


def test_what_is_declared_as_meant_is_not_named() -> None:
    text = (
        f"{LEAF}import retrograd\nwith retrograd.anomaly.expect_nonfinite('no counts'):\n    weight = np.log(good){USE}"
    )
    assert only_event(run("retrograd", text)).kind == "leaf"


def test_what_does_no_harm_is_not_reported() -> None:
    text = f"{LEAF}weight = np.where(good > 0, np.log(good), 0.0){USE}"
    assert run("retrograd", text).events == ()


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_few_births_are_kept(size: int) -> None:
    """The last one of each place, and no more than a few MiB."""
    x = rg.tensor([1.0], requires_grad=True)
    zeros = np.zeros(size)
    with rg.anomaly.watch() as w:
        for _ in range(20):
            np.log(zeros + 0.0 * x.detach().numpy())
        (x * 2).sum().backward()
        gc.collect()
        kept = [each for each in gc.get_objects() if type(each) is ArrayBirth]
    assert w.events == ()
    assert len({each.places for each in kept}) == len(kept)
    assert sum(map(size_of, kept)) <= 16 << 20


def test_numpy_warns_as_without_a_watch() -> None:
    with rg.anomaly.watch(), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        np.log(np.zeros(1))
    assert [str(each.message) for each in found] == ["divide by zero encountered in log"]
    np.log(np.zeros(1))  # for the fixture
