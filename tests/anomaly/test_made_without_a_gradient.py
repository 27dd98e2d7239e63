"""Data that the program itself has made of good numbers, without a gradient: the line that made it is to blame."""

from __future__ import annotations

import gc

import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd.births import Birth, size_of
from retrograd.anomaly.event import context_of
from retrograd.anomaly.operation_names import canonical
from tests.anomaly.both import libraries, line, only_event, run, runs

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

LEAF = "x = torch.tensor([1.0, 2.0], requires_grad=True)\ngood = torch.tensor([0.0, 2.0])\n"
SUM = "\nloss = x.sum() + cost.sum()\nloss.backward()"
USE = "\nloss = (x * weight).sum()\nloss.backward()"

MADE = {
    "by its own line": ("log", "weight = 1 + torch.log(good)  # born here"),
    "by a line before": ("log", "scale = torch.log(good)  # born here\nscale = scale * 2\nweight = -scale"),
    "in a branch": ("log", "if len(good):\n    weight = torch.log(good)  # born here\nelse:\n    weight = good"),
    "in a loop": ("log", "weight = good\nfor k in (1.0, 2.0):\n    weight = weight + k * torch.log(good)  # born here"),
    "by NaN": ("std", "weight = (good - 1) / good[:1].std()  # born here"),
    "in a function": (
        "log",
        "def scores(given):\n    return torch.log(given) * 2  # born here\nweight = scores(good)",
    ),
    "in a method": (
        "log",
        "class Buffer:\n"
        "    def fill(self):\n"
        "        self.weight = 1 - torch.log(good)  # born here\n"
        "buffer = Buffer()\nbuffer.fill()\nweight = buffer.weight",
    ),
    "in a list": ("log", "parts = []\nparts.append(torch.log(good[0]))  # born here\nweight = parts[0] + good"),
    "in place": ("div", "weight = good + 1\nweight /= good  # born here"),
    "with a name of its own": ("log", "a, (b, weight) = 1, (2, 3 * torch.log(good))  # born here"),
    "in a call": ("log", "def pick(given):\n    return given\nweight = pick(given=torch.log(good))  # born here"),
}


@runs
@pytest.mark.parametrize("name", MADE)
def test_the_line_that_made_bad_data_is_named(name: str, steps: bool) -> None:
    op, made = MADE[name]
    text = LEAF + made + USE
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.lineno, event.harmed) == (op, line(text), "loss")
    assert event.kind != "leaf"


@libraries
@runs
def test_the_path_begins_with_the_operation_that_made_the_data(library: str, steps: bool) -> None:
    """Although no node of the graph stands for it."""
    event = only_event(run(library, f"{LEAF}weight = torch.log(good)  # born here{USE}", steps))
    assert [canonical(each) for each in event.path] == ["log", "mul", "sum"]


@pytest.mark.parametrize("name", MADE)
def test_the_line_that_made_an_argument_of_the_step_is_named(name: str) -> None:
    op, made = MADE[name]
    text = f"{LEAF}{made}\ndef train(batch):\n    return (x * batch).sum()\nloss = train(weight)\nloss.backward()"
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.harmed) == (op, line(text), "loss")


@runs
def test_a_birth_in_a_subexpression_without_a_gradient_has_its_line(steps: bool) -> None:
    """The argument of the logarithm has a name, but its result has none."""
    text = f"{LEAF}loss = ((1 - torch.log(good)) / x).sum()  # born here\nloss.backward()"
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.index, event.lineno) == ("log", (0,), line(text))


def test_a_birth_that_reaches_only_gradients_is_named() -> None:
    text = (
        f"{LEAF}weight = 1 + torch.log(-good - 1)  # born here\n"
        "product = x * weight\nloss = torch.where(torch.isnan(product), 0.0, product).sum()\nloss.backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.harmed) == ("log", line(text), "the gradient of x")


HARMLESS = {
    "another variable": "mask = torch.log(good)\nweight = torch.tensor([1.0, float('nan')])",
    "one that was used": "mask = torch.log(good)\nraw = torch.tensor([1.0, float('nan')])\n"
    "weight = raw + torch.where(torch.isfinite(mask), mask, 0.0)",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_data_that_was_bad_from_the_start_is_blamed_on_no_line(name: str) -> None:
    event = only_event(run("retrograd", LEAF + HARMLESS[name] + USE))
    assert (event.kind, event.index) == ("leaf", (1,))


def test_data_made_in_an_earlier_step_is_named_with_its_line() -> None:
    text = (
        f"{LEAF}weight = later = good[1:]\nfor k in range(4):\n    loss = (x * weight).sum()\n    loss.backward()\n"
        "    weight = later\n    later = 1 - torch.log(good[:1] + 1 - k)  # born here"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.lineno, event.harmed, event.step) == ("log", line(text), "loss", 4)
    assert "in an earlier step" in (event.note or "")


def births() -> list[Birth]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Birth]


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_few_births_of_earlier_steps_are_kept(size: int) -> None:
    """The last one of each place, and no more than a few MiB."""
    x = rg.tensor([1.0], requires_grad=True)
    others = births()
    with rg.anomaly.watch() as w:
        for _ in range(3):
            for _ in range(10):
                rg.log(rg.zeros(size))
            exec("\n".join(["rg.log(rg.zeros(size))"] * 80))
            (x * 2).sum().backward()
        kept = [each for each in births() if each not in others]
    assert w.events == ()
    assert 4 <= len(kept) <= 64
    assert sum(size_of(each) for each in kept) <= 16 << 20
    assert len({each.places for each in kept}) == len(kept)
    del kept
    assert births() == others


def test_a_birth_under_vmap_has_its_line() -> None:
    """Where nothing of what the samples were given can be computed again."""
    text = (
        "def loss(w, x):\n    return (w - x).norm() + 0 * torch.log(x.abs()).sum()  # born here\n"
        "x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])\n"
        "torch.func.vmap(torch.func.grad(loss), (None, 0))(torch.ones(2) * 3, x)"
    )
    event = only_event(run("retrograd", text))
    assert (event.op, event.index, event.lineno) == ("log", (0, 1), line(text))


@runs
@pytest.mark.parametrize(
    "other",
    ["unused = torch.log(torch.zeros(2))", "unused = (x - x).detach() / 0", "spread = (good - good) / (good - good)"],
)
def test_a_birth_that_nothing_used_is_not_blamed(other: str, steps: bool) -> None:
    """It could be what the sum was given, as far as shapes tell; the lines of the program know better."""
    text = f"{LEAF}{other}\nweight = 1 / good  # born here\nloss = torch.cat([weight, x]).sum()\nloss.backward()"
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.index, event.lineno) == ("div", (0,), line(text))


@runs
def test_bad_data_is_not_blamed_on_an_unrelated_birth(steps: bool) -> None:
    text = (
        f"{LEAF}unused = (x - 5).detach().sqrt()\nraw = torch.tensor([1.0, -float('inf')])\n(x + raw).sum().backward()"
    )
    event = only_event(run("retrograd", text, steps))
    assert (event.kind, event.operands) == ("leaf", {"raw": -float("inf")})


def test_a_value_made_later_is_not_taken_for_the_operand() -> None:
    text = "def shifted(x, by):\n    return x + by * 1.0\n" + LEAF
    text += "loss = shifted(x, float('nan')).sum()\nlate = torch.sqrt(good - 1)\nloss.backward()"
    event = only_event(run("retrograd", text))
    assert event.operands.keys() != {"late"}
    assert event.op != "sqrt"


@runs
def test_the_infinity_behind_a_nan_is_named(steps: bool) -> None:
    """The sum is born NaN of two infinities; without a gradient only the lines tell where they come from."""
    text = f"{LEAF}cost = torch.log(good * 0) * torch.tensor([1.0, -1.0])  # born here" + SUM
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.index, event.lineno) == ("log", (0,), line(text))


def test_a_fill_value_without_a_gradient_is_named_at_its_call() -> None:
    """Under a second run: not data that came in, but a number that an operation was given."""
    text = f"{LEAF}cost = good.masked_fill(good > 0, -float('inf'))  # born here" + SUM
    event = only_event(run("retrograd", text, steps=True))
    assert (event.op, event.index, event.lineno) == ("masked_fill", (1,), line(text))


@runs
def test_the_softmax_of_a_masked_row_without_a_gradient_is_named(steps: bool) -> None:
    text = f"{LEAF}cost = good.masked_fill(good > -1, -float('inf')).softmax(0)  # born here" + SUM
    event = only_event(run("retrograd", text, steps))
    assert (event.op, event.index, event.lineno) == ("softmax", (0,), line(text))


UNKEPT = "p = torch.tensor([0.5, 0.5], requires_grad=True)\nt = torch.tensor([1.0, 0.0])\nq = p * 1\n"


@pytest.mark.parametrize(
    "statement",
    [
        "loss = (t * (t.log() - q.log())).sum()  # born here",
        "loss = torch.mean(t * (torch.log(t) - torch.log(q)))  # born here",
    ],
)
def test_an_operand_is_named_although_the_result_was_not_kept_either(statement: str) -> None:
    text = UNKEPT + statement + "\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.index, event.lineno) == ("log", (1,), line(text))
    assert event.operands["input"] == 0
    assert not context_of(event).get("unkept")


def test_an_operand_that_has_changed_since_is_not_computed_from_what_it_is_now() -> None:
    text = UNKEPT + "loss = (t * (t.log() - q.log())).sum()  # born here\nt = torch.tensor([0.0, 1.0])\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.index, event.lineno) == ("log", (1,), line(text))
