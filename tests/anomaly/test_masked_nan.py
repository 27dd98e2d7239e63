"""A NaN that a mask hides from the loss, but not from the gradient, was in the data, or in a weight."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent, Watch, diagnose, watch
from tests.anomaly.both import executed, libraries, line, mended, only_event, run, runs

HOLES = [float("nan"), 2.0]


def observed(data: rg.Tensor, weight: rg.Tensor, *, again: bool) -> NaNEvent:
    w: Watch = watch(policy="record")
    with w:
        for _ in w.steps([0]) if again else [0]:
            rg.where(rg.isnan(data), 0.0, data * weight).sum().backward()
    assert w.event is not None
    return w.event


def test_the_second_run_finds_bad_data_that_the_loss_masks() -> None:
    event = observed(rg.tensor(HOLES), rg.ones(2, requires_grad=True), again=True)
    assert (event.kind, event.index, event.harmed) == ("leaf", (0,), "the gradient of weight")
    assert event.operands == {"data": pytest.approx(float("nan"), nan_ok=True)}


def test_the_second_run_finds_a_birth_without_a_gradient_that_the_loss_masks() -> None:
    w: Watch = watch(policy="record")
    weight = rg.ones(2, requires_grad=True)
    with w:
        for _ in w.steps([0]):
            data = rg.log(rg.tensor([-1.0, 2.0]))
            rg.where(rg.isnan(data), 0.0, data * weight).sum().backward()
    assert w.event is not None
    assert (w.event.op, w.event.index, w.event.operands) == ("log", (0,), {"input": -1.0})


def test_masked_bad_data_is_found_among_the_variables() -> None:
    event = observed(rg.tensor(HOLES), rg.ones(2, requires_grad=True), again=False)
    assert (event.kind, event.index, event.harmed) == ("leaf", (0,), "the gradient of weight")
    assert event.operands == {"data": pytest.approx(float("nan"), nan_ok=True)}
    assert (event.nan_count, event.size, event.output_stats) == (1, 2, {"min": 2.0, "max": 2.0, "mean": 2.0})


def test_a_bad_variable_of_another_shape_is_named_in_the_note() -> None:
    """The data itself is gone; what it was made from has another shape."""
    raw = rg.tensor([[1.0, float("nan")]])
    weight = rg.ones(2, requires_grad=True)
    w: Watch = watch(policy="record")
    with w:
        rg.where(weight > 5, raw.T.reshape(-1) * weight, 0.0).sum().backward()
    assert w.event is not None
    assert w.event.op == "unknown"
    assert (w.event.note or "").startswith("NaN in raw: check that first")


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
def test_a_masked_nan_in_a_weight_is_found(again: bool) -> None:
    weight = rg.tensor(HOLES, requires_grad=True)
    w: Watch = watch(policy="record")
    with w:
        for _ in w.steps([0]) if again else [0]:
            rg.where(weight > 0, rg.sqrt(weight), 0.0).sum().backward()
    assert w.event is not None
    assert (w.event.kind, w.event.index, w.event.harmed) == ("leaf", (0,), "the gradient of weight")


EXPLODED = """
net = torch.nn.Linear(1, 1)
def drift(y):
    return 50 * y**3 + net(y)  # born here
y = torch.full((2, 1), 1e14, requires_grad=True) * 1
for step in range(2):
    earlier, y = y, y + drift(y) * 0.1
    reached = torch.tensor([[0.0], [0.5]])
    between = reached * earlier + (1 - reached) * y
loss = (between * (reached != 1)).mean() + (0.0 * y).mean()
loss.backward()
"""


@libraries
@runs
def test_an_explosion_beside_a_sum_is_not_explained_by_a_mask(library: str, steps: bool) -> None:
    event = only_event(run(library, EXPLODED, steps))
    assert (event.op, event.lineno) == ("pow", line(EXPLODED))
    assert "mask" not in f"{event.cause} {event.remedy}"
    assert diagnose(event).number == 53


@libraries
@runs
@pytest.mark.parametrize(
    "code",
    ["s = (b * w).sum() / ((b ** 2 * w).sum().sqrt() + 1e-3)", "s = 1 / (1 + torch.exp(b) * w)", "s = 1 / (b * b * w)"],
)
def test_an_infinite_divisor_is_not_called_discarded(code: str, library: str, steps: bool) -> None:
    """A zero in its place would make another loss."""
    text = f"""
b = torch.tensor([3e20, 1.0])
w = torch.tensor([0.5, 0.25], requires_grad=True)
{code}
s.sum().backward()
"""
    event = only_event(run(library, text, steps))
    assert "discards" not in (event.cause or "")
    assert "isfinite" not in (event.remedy or "")


def test_an_infinity_discarded_before_the_division_is_called_discarded() -> None:
    text = """
b = torch.tensor([3e20, 1.0])
w = torch.tensor([0.5, 0.25], requires_grad=True)
s = b * b * w
(1 / torch.where(b > 2, 1.0, s)).sum().backward()
"""
    event = only_event(run("retrograd", text))
    assert "discards" in (event.cause or "")


def test_a_weight_of_zero_is_not_taken_for_a_mask() -> None:
    """It will be another number in the next step, so that no condition on it stands for what the infinity was."""
    text = """
price, w = torch.tensor([100.0, 0.0, 98.0]), torch.zeros(2, requires_grad=True)
r = torch.log(price)
loss = ((w[0] + w[1] * r) ** 2).mean()
loss.backward()
"""
    event = only_event(run("torch", text))
    assert "where(w[1]" not in (event.remedy or "")
    assert "0 times an infinity is NaN" in (event.cause or "")


TOO_LATE = {
    "where": "loss = torch.where(torch.isnan(data), 0.0, (data - w) ** 2).sum()",
    "selection": "error = (w * data) ** 2\nloss = error[~torch.isnan(data)].sum()",
    "nansum": "loss = torch.nansum(torch.exp(w) * data)",
}


@libraries
@runs
@pytest.mark.parametrize("name", TOO_LATE)
def test_the_remedy_for_a_mask_that_comes_too_late_replaces_the_data_before_it_is_used(
    name: str, library: str, steps: bool
) -> None:
    text = "data = torch.tensor([1.0, float('nan'), 3.0])\nw = torch.ones(3, requires_grad=True)\n"
    text += TOO_LATE[name] + "\nloss.backward()\ntorch.optim.SGD([w], lr=0.0).step()"
    event = only_event(run(library, text, steps))
    assert (event.kind, event.index, event.harmed) == ("leaf", (1,), "the gradient of w")
    assert "0 * NaN is NaN" in (event.cause or "")
    before, after = executed(library, text), executed(library, mended(text, event))
    assert after["loss"].item() == pytest.approx(before["loss"].item())
    good = [0, 2]
    assert after["w"].grad[good].tolist() == pytest.approx(before["w"].grad[good].tolist())
    assert after["w"].grad.tolist()[1] == 0.0
