"""What is said of data that came in bad: where in it, in how many samples, and what may have made it."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.anomaly.adapters.extent import extent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, only_event, run, runs

MODEL = "w = torch.tensor([[1.0], [2.0]], requires_grad=True)\n"


@pytest.mark.parametrize(
    ("places", "shape", "expected"),
    [
        ([(0, 2, 1), (1, 2, 0)], (2, 3, 2), {"slice": "[:, 2]", "every": True}),
        ([(1, 0, 0), (1, 1, 1)], (3, 2, 2), {"slice": "[1]"}),
        ([(0, 0), (1, 1)], (3, 2), {}),
        ([(0, 0), (1, 1)], (2, 2), {"every": True}),
        ([(0, 1)], (2, 2), {}),
        ([(0,), (1,)], (2,), {"every": True}),
        ([(0,), (1,)], (3,), {}),
    ],
)
def test_extent(places: list[tuple[int, ...]], shape: tuple[int, ...], expected: dict[str, object]) -> None:
    bad = np.zeros(shape, bool)
    for place in places:
        bad[place] = True
    assert extent(bad) == expected


@libraries
@runs
def test_a_feature_that_is_bad_in_all_samples_is_named(library: str, steps: bool) -> None:
    """Dropping the samples would leave none."""
    text = (
        f"{MODEL}x = torch.tensor([[1.0, float('nan')], [2.0, float('nan')], [3.0, float('nan')]])\n"
        "loss = (x @ w).mean()\nloss.backward()"
    )
    event = only_event(run(library, text, steps))
    assert "all of them in [:, 1]," in (event.cause or "")
    assert "Every sample has one." in (event.cause or "")
    assert event.remedy is None


@libraries
def test_a_sample_that_is_bad_may_be_dropped(library: str) -> None:
    text = f"{MODEL}x = torch.tensor([[1.0, float('nan')], [2.0, 1.0]])\nloss = (x @ w).mean()\nloss.backward()"
    event = only_event(run(library, text))
    assert "The line drops such samples" in (event.cause or "")
    assert "Put the line above before line" in " ".join(format_event(event).split())


BUFFER = """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(2))
    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(x.std(0))  # born here
        return x / self.scale
net = nn.Sequential(Scale(), nn.Linear(2, 1))
x = torch.ones(1, 2)
net(x).sum().backward()
"""


def test_a_buffer_spoilt_in_this_step_is_traced_to_the_birth() -> None:
    event = only_event(run("retrograd", BUFFER))
    assert (event.op, event.lineno) == ("std", 8)
    assert "without a gradient" in (event.note or "")


@pytest.mark.filterwarnings("ignore:std")
def test_a_buffer_spoilt_without_a_gradient_is_pointed_at() -> None:
    event = only_event(run("torch", BUFFER))
    assert "the buffer 0.scale" in (event.cause or "")
    assert "came in with data that has no gradient" in format_event(event)
    assert event.remedy is None


@libraries
def test_a_parameter_is_called_by_its_own_name(library: str) -> None:
    """A state dict shares the memory of the parameters, under a name that nobody can use."""
    text = (
        "net = nn.Linear(2, 1)\nstate = net.state_dict()\nstate['weight'][0, 1] = float('nan')\n"
        "net(torch.ones(3, 2)).sum().backward()"
    )
    event = only_event(run(library, text))
    assert event.operands.keys() == {"weight"}
    assert "after the model was made and loaded" in " ".join(format_event(event).split())
