"""The description of bad data: its place, the number of samples, and the line that may have made it."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.anomaly.adapters.elements.extent import extent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, line, only_event, run, runs
from tests.anomaly.disguises import HERE

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

# What the advice calls the remedy; for PyTorch a command to record the step is shown as well.
WHERE = {"retrograd": "line above", "torch": 'line at "instead"'}

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
def test_extent_describes_the_places_of_bad_elements(
    places: list[tuple[int, ...]], shape: tuple[int, ...], expected: dict[str, object]
) -> None:
    bad = np.zeros(shape, bool)
    for place in places:
        bad[place] = True
    assert extent(bad) == expected


@libraries
@runs
def test_a_feature_that_is_bad_in_all_samples_is_named(library: str, steps: bool) -> None:
    """Without the bad samples none would be left."""
    text = (
        f"{MODEL}x = torch.tensor([[1.0, float('nan')], [2.0, float('nan')], [3.0, float('nan')]])\n"
        "loss = (x @ w).mean()\nloss.backward()"
    )
    event = only_event(run(library, text, steps))
    assert "all of them in [:, 1]," in (event.cause or "")
    assert "Every sample is affected." in (event.cause or "")
    assert event.remedy is None


@libraries
def test_the_remedy_for_one_bad_sample_drops_it(library: str) -> None:
    text = f"{MODEL}x = torch.tensor([[1.0, float('nan')], [2.0, 1.0]])\nloss = (x @ w).mean()\nloss.backward()"
    event = only_event(run(library, text))
    assert "The line below drops such samples" in (event.cause or "")
    assert f"Put the {WHERE[library]} before line" in " ".join(format_event(event).split())


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


def test_a_buffer_spoilt_in_this_step_is_blamed_on_the_birth() -> None:
    event = only_event(run("retrograd", BUFFER))
    assert (event.op, event.lineno) == ("std", 8)
    assert "without a gradient" in (event.note or "")


@pytest.mark.filterwarnings("ignore:std")
def test_a_buffer_spoilt_without_a_gradient_is_named() -> None:
    event = only_event(run("torch", BUFFER))
    assert "the buffer 0.scale" in (event.cause or "")
    assert "came in with data that has no gradient" in format_event(event)
    assert event.remedy is None


@libraries
def test_a_parameter_has_its_own_name_and_not_that_of_the_state_dict(library: str) -> None:
    """A state dict shares the memory of the parameters, under a name that is of no use in a remedy."""
    text = (
        "net = nn.Linear(2, 1)\nstate = net.state_dict()\nstate['weight'][0, 1] = float('nan')\n"
        "net(torch.ones(3, 2)).sum().backward()"
    )
    event = only_event(run(library, text))
    assert event.operands.keys() == {"weight"}
    assert "Fix its source, then run again." in " ".join(format_event(event).split())


LOADED = """
w = torch.tensor([[1.0], [2.0]], requires_grad=True)
x = torch.tensor([[1.0, 2.0], [1.0, float("nan")], [3.0, 1.0]])
y = torch.tensor([[1.0], [2.0], [3.0]])
for x, y in [(x, y)]:
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
"""


@libraries
@pytest.mark.parametrize("loop", ["for x, y in [(x, y)]:", "for i, (x, y) in enumerate([(x, y)]):"])
def test_the_remedy_drops_the_targets_of_a_bad_sample_too(library: str, loop: str) -> None:
    text = LOADED.replace("for x, y in [(x, y)]:", loop)
    event = only_event(run(library, text))
    assert "drops such samples and what belongs to them (y)." in (event.cause or "")
    lines = text.splitlines()
    remedy = (event.remedy or "").replace("rg.", "torch.")  # as the programs call either
    lines.insert((event.lineno or 0) - 1, f"    {remedy}")
    mended = "\n".join(lines)
    assert not run(library, f"{mended}\n    assert len(x) == len(y) == 2 and y.tolist() == [[1.0], [3.0]]").events


GIVEN_ON = """
w = torch.tensor([[1.0], [2.0]], requires_grad=True)
def predict(inputs):
    return inputs @ w
x = torch.tensor([[1.0, 2.0], [1.0, float("nan")], [3.0, 1.0]])
y = torch.tensor([[1.0], [2.0], [3.0]])
"""
LOOP = f"""
def train(batches):
    for a, b in batches:
        loss = ((predict(a) - b) ** 2).mean()  {HERE}
        loss.backward()
        assert len(a) == len(b)
train([(x, y)])
"""
STEP = f"""
def step(a, b):
    "Do one step."
    loss = ((predict(a) - b) ** 2).mean()  {HERE}
    loss.backward()
step(x, y)
"""
BY_HAND = f"""
for batch in [(x, y)]:
    a = batch[0] * 1
    loss = ((predict(a) - batch[1]) ** 2).mean()  {HERE}
    loss.backward()
"""


@libraries
@pytest.mark.parametrize("taking", [LOOP, STEP, BY_HAND])
def test_the_remedy_drops_samples_where_the_program_has_the_batch(library: str, taking: str) -> None:
    """A model's line calls it otherwise, and what belongs to it is not there."""
    text = GIVEN_ON + taking
    event = only_event(run(library, text))
    assert [*event.operands] == ["a"]
    assert event.code_line == "return inputs @ w"
    lineno = line(text)
    advice = " ".join(format_event(event).split())
    assert f"Put the {WHERE[library]} before line {lineno}, the first one that has the batch" in advice
    lines = text.splitlines()
    remedy = (event.remedy or "").replace("rg.", "torch.")
    together = "a, b = (each[" if taking is LOOP else "a = a["
    assert remedy.startswith(together)
    indent = " " * (len(lines[lineno - 1]) - len(lines[lineno - 1].lstrip()))
    lines.insert(lineno - 1, indent + remedy)
    mended = "\n".join(lines)
    if taking is not LOOP:
        assert "drop their counterparts too" in (event.cause or "")
        mended = mended.replace("batch[1]", "batch[1][[0, 2]]").replace("(predict(a) - b)", "(predict(a) - b[[0, 2]])")
    assert not run(library, mended).events


@libraries
@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in [(x, y[:2])]:\n    y = torch.ones(3, 1)\n    x, y = x, y[0]",  # a target for all
        "for x, y in [(x, y)]:\n    z = x\n    x = z[[1, 0, 2]]",  # in another order
    ],
)
def test_tensors_that_may_not_belong_to_a_sample_are_left_to_the_reader(library: str, loop: str) -> None:
    event = only_event(run(library, LOADED.replace("for x, y in [(x, y)]:", loop)))
    assert "drop their counterparts too" in (event.cause or "")
    assert (event.remedy or "").startswith("x = x[")


@libraries
def test_no_samples_of_a_computed_tensor_are_dropped(library: str) -> None:
    """There the formula is to be mended; the library of the graph may know nothing but that line."""
    text = (
        f"{MODEL}a = torch.tensor([[1.0, 0.0], [2.0, 1.0]])\nweight = (1 / a) / (1 / a)\n"
        "loss = (weight @ w).mean()\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert "isfinite" not in (event.remedy or "")
    assert event.lineno == 3


ENTRIES = """
w = torch.tensor([[1.0], [2.0]], requires_grad=True)
x = [[1.0, 2.0], [float("nan"), 1.0], [3.0, 1.0]]
for batch in [{"x": torch.tensor(x), "y": torch.tensor([[1.0], [2.0], [3.0]])}]:
    loss = ((batch["x"] @ w - batch["y"]) ** 2).mean()
    loss.backward()
"""


@libraries
def test_samples_are_dropped_from_all_entries_of_a_dictionary(library: str) -> None:
    event = only_event(run(library, ENTRIES))
    assert "drops such samples, with what belongs to them in batch." in (event.cause or "")
    lines = ENTRIES.splitlines()
    lines.insert((event.lineno or 0) - 1, f"    {(event.remedy or '').replace('rg.', 'torch.')}")
    mended = "\n".join(lines)
    assert not run(library, f"{mended}\n    assert batch['y'].tolist() == [[1.0], [3.0]]").events


@libraries
@pytest.mark.parametrize("other", ["torch.ones(4, 4)", "['a', 'b', 'c']"])  # boxes of the images; texts
def test_samples_are_not_dropped_from_entries_of_another_length(library: str, other: str) -> None:
    text = ENTRIES.replace('{"x"', f'{{"other": {other}, "x"')
    event = only_event(run(library, text))
    assert [*event.operands] == ["batch['x']"]
    assert event.remedy is None
    assert "The line below drops" not in (event.cause or "")


@libraries
def test_a_line_that_may_not_have_run_is_not_rewritten(library: str) -> None:
    text = (
        f"{MODEL}scaled = False\nx = torch.tensor([[1.0, float('nan')], [2.0, 1.0]])\n"
        "if scaled:\n    x = x / x.amax()\nloss = (x @ w).mean()\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert "Look at line 5, `x = x / x.amax()`, if it has run, and at how this sample was" in (event.cause or "")
    assert (event.remedy or "").startswith("x = x[")
    taken = only_event(run(library, text.replace("if scaled:\n    ", "")))
    assert "that line computes 0 / 0, which is NaN" in (taken.cause or "")


@libraries
@pytest.mark.parametrize("later", ["x, y = swapped(x, x)", "x *= 1.0", "for x in [x]:\n    pass"])
def test_an_assignment_before_later_ones_is_not_blamed(library: str, later: str) -> None:
    text = (
        f"{MODEL}def swapped(a, b):\n    return b, a\nx = torch.tensor([[1.0, float('nan')], [2.0, 1.0]])\n{later}\n"
        "loss = (x @ w).mean()\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert [*event.operands] == ["x"]
    assert "itself writes NaN" not in (event.cause or "")
    unpacked = "line 5, `x, y = swapped(x, x)`, and at " if "swapped" in later else ""
    assert f"Look at {unpacked}how this sample" in (event.cause or "")
