"""A learning rate that is too high, told from the first updates on by what they have done to the weights."""

from __future__ import annotations

import pytest

from retrograd.anomaly import AnomalyError, NaNEvent
from retrograd.anomaly.catalogue._learning_rates import first_rise
from tests.anomaly.both import libraries, mended, run

SGD = "torch.optim.SGD(net.parameters(), lr={})"
ADAM = "torch.optim.Adam(net.parameters(), lr={})"


def program(optimizer: str, *lines: str, outlier: bool = False) -> str:
    """A training loop that computes the loss so."""
    return "\n".join(
        (
            "net = nn.Linear(4, 1)",
            "nn.init.constant_(net.weight, 0.25)",
            "data = [torch.ones(3, 4) * (1 + 0.1 * step) for step in range(9)]",
            "data[2] = data[2] * 1e4" if outlier else "",
            f"optimizer = {optimizer}",
            "for x in data:",
            *(f"    {each}" for each in lines),
            "    optimizer.zero_grad()",
            "    loss.backward()",
            "    optimizer.step()",
        )
    )


EXP = ("y = net(x)", "loss = (torch.exp(y) - 30 * y).mean()")
SQUARE = ("loss = ((net(x) - 1e3) ** 2).mean()",)


def stopped(library: str, text: str) -> NaNEvent:
    """The event that has stopped a program."""
    with pytest.raises(AnomalyError) as error:
        run(library, text, policy="raise")
    event = error.value.event
    assert isinstance(event, NaNEvent)
    return event


@libraries
@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (program(SGD.format("20.0"), *EXP), 20.0),
        (program(ADAM.format("30.0"), *EXP), 30.0),
        (program(SGD.format("20.0"), *SQUARE), 20.0),
        (program(SGD.format("1e25"), *EXP), 1e25),
    ],
    ids=["sgd", "adam", "squares", "far too high"],
)
def test_a_too_large_update_is_blamed_and_the_remedy_lowers_the_rate(library: str, text: str, rate: float) -> None:
    event = stopped(library, text)
    cause = event.cause or ""
    assert "weights ran away" in cause
    assert "the norm of " in cause
    assert f"smaller learning rate than {rate:g}" in cause
    assert (event.remedy or "").startswith("optimizer = torch.optim.")
    assert not run(library, mended(text, event), policy="raise").events


@libraries
def test_a_too_large_update_by_hand_is_blamed(library: str) -> None:
    event = stopped(
        library,
        "w = torch.ones(4, 1, requires_grad=True)\n"
        "for step in range(3):\n"
        "    y = torch.ones(3, 4) @ w\n"
        "    loss = (torch.exp(y) - 70 * y).mean()\n"
        "    loss.backward()\n"
        "    with torch.no_grad():\n"
        "        w -= 100.0 * w.grad\n"
        "        w.grad = None\n",
    )
    assert "the norm of w went from 2 to " in (event.cause or "")
    assert "in one update" in (event.cause or "")


@libraries
def test_a_pole_reached_by_a_large_update_is_named_before_the_rate(library: str) -> None:
    text = program(
        SGD.format("1e4"), "p = torch.sigmoid(3 - net(x))", "loss = -(torch.log(p) + torch.log(1 - p)).mean()"
    )
    cause = stopped(library, text).cause or ""
    assert "sigmoid" in cause
    assert "Look at the learning rate of 10000 as well: the norm of " in cause


@libraries
def test_a_rate_of_one_is_too_high_for_adam(library: str) -> None:
    """Its first update moves each weight by 1, at the most."""
    lines = ("p = torch.sigmoid(40 * net(x))", "loss = -(torch.log(1 - p) + 0.001 * torch.log(p)).mean()")
    cause = stopped(library, program(ADAM.format("1.0"), *lines).replace("0.25)", "0.05)")).cause or ""
    assert "Look at the learning rate of 1 as well: the norm of weight went from 0.1 to 1.9 in one update" in cause


@libraries
def test_an_outlier_in_the_data_is_not_blamed_on_the_rate(library: str) -> None:
    cause = stopped(library, program(SGD.format("1e-3"), *EXP, outlier=True)).cause or ""
    assert "learning rate" not in cause
    assert "exp(" in cause


@libraries
def test_the_growth_of_small_weights_is_not_blamed_on_the_rate(library: str) -> None:
    text = program(ADAM.format("1e-2"), *EXP, outlier=True).replace("0.25)", "1e-6)")
    assert "learning rate" not in (stopped(library, text).cause or "")


def scheduled(optimizer: str, *schedule: str) -> str:
    """A training loop in which something else than the optimizer's own line says what the learning rate is."""
    lines = [*program(optimizer, *EXP).splitlines()]
    first = lines.index("for x in data:")
    return "\n".join(("rate = 40.0", *lines[: first + 1], *(f"    {each}" for each in schedule), *lines[first + 1 :]))


NAMED = "torch.optim.SGD(net.parameters(), lr=rate)"
EACH = "for group in optimizer.param_groups:"


@libraries
@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        ((f'{EACH} group["lr"] = rate / 2',), f'{EACH} group["lr"] = min(rate / 2, '),
        ((EACH, '    group["lr"] = 0.5 * rate'), 'group["lr"] = min(0.5 * rate, '),
        ((EACH, '    group["lr"] = 20.0  # for a start'), 'group["lr"] = 1e-'),
    ],
    ids=["in a line", "in a block", "a number"],
)
def test_a_rate_written_into_the_groups_is_lowered_there(library: str, schedule: tuple[str, ...], line: str) -> None:
    """Training loops of GPT do this. No step uses the rate with which the optimizer was made."""
    text = scheduled(NAMED, *schedule)
    event = stopped(library, text)
    assert "weights ran away" in (event.cause or "")
    assert (event.remedy or "").startswith(line)
    assert not run(library, mended(text, event), policy="raise").events


@libraries
def test_a_rate_in_a_parameter_group_is_lowered_in_general_form(library: str) -> None:
    event = stopped(library, scheduled('torch.optim.SGD([{"params": net.parameters(), "lr": 20.0}], lr=rate)'))
    assert "smaller learning rate than 20" in (event.cause or "")
    assert (event.remedy or "").startswith("lr = ")


LAYERS = """
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr={rate})
schedule = torch.optim.lr_scheduler.{schedule}
first = None
for step in range(40):
    loss = ((net(x * {scale}) - y) ** 2).{reduced}()
    first = first or loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
assert loss.item() < 0.7 * first
"""
STEADY = "ConstantLR(optimizer, 1.0, 1)"


@libraries
@pytest.mark.parametrize(
    ("rate", "schedule", "scale", "reduced"),
    [
        ("5.0", "LambdaLR(optimizer, lambda step: step / 20)", 1, "mean"),
        ("4.0", "LinearLR(optimizer, start_factor=0.01, total_iters=30)", 1, "mean"),
        ("0.01", "OneCycleLR(optimizer, max_lr=50.0, total_steps=40)", 1, "mean"),
        ("1e6", STEADY, 1, "mean"),
        ("3.0", STEADY, 1, "mean"),
        ("0.5", STEADY, 100, "mean"),
        ("0.1", STEADY, 1, "sum"),
    ],
    ids=["from zero", "from little", "one cycle", "absurd", "high", "large data", "sum"],
)
def test_one_correction_lowers_the_rate_far_enough(
    library: str, rate: str, schedule: str, scale: int, reduced: str
) -> None:
    """By how gradients or losses grew when they began to, and not a thousandfold in each round."""
    text = LAYERS.format(rate=rate, schedule=schedule, scale=scale, reduced=reduced)
    assert not run(library, mended(text, stopped(library, text)), policy="raise").events


@pytest.mark.parametrize(
    ("history", "after", "factor"),
    [
        ([1.0, 3.0, 9.0, 100.0, None], 0, 3.0),
        ([None, 5.0, 4.0, 4.4, 44.0], 3, 10.0),  # what the noise of batches does is left out
        ([2.0, 2.2, 2.64], 1, 1.2),
    ],
)
def test_first_rise_gives_the_place_and_the_factor_of_a_rise(
    history: list[float | None], after: int, factor: float
) -> None:
    assert first_rise(history) == (after, pytest.approx(factor))


def test_a_rise_that_ends_is_no_rise() -> None:
    assert first_rise([1.0, 5.0, 4.0]) is None
    assert first_rise([None, 3.0, None]) is None


@libraries
@pytest.mark.parametrize("runs", [True, False])
def test_an_optimizer_in_a_branch_that_did_not_run_is_not_changed(library: str, runs: bool) -> None:
    """The program has no variable of the one that steps, as of a trainer's."""
    text = program(SGD.format("2 * half"), *EXP)
    made = next(each for each in text.splitlines() if each.startswith("optimizer = "))
    hidden = "half = 50.0\nstep = (lambda kind: kind(net.parameters(), lr=2 * half))(torch.optim.SGD).step"
    text = text.replace(made, f"{hidden}\nif {runs}:\n    {made}")
    event = stopped(library, text.replace("optimizer.zero_grad", "net.zero_grad").replace("optimizer.step", "step"))
    assert "smaller learning rate" in (event.cause or "")
    assert (event.remedy or "").startswith("optimizer = ") is runs
