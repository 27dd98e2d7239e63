"""Data with NaN or infinities that no node has kept, or that a mask has hidden from the loss."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.anomaly import diagnose
from tests.anomaly.both import executed, libraries, line, mended, only_event, run, runs

LEAF = "x = torch.tensor([1.0, 2.0], requires_grad=True)\n"
BAD = 'bad = torch.tensor([1.0, float("{}")])\n'

LOST = {
    "multiplied": "loss = (x * bad + 1).sum()  # born here",
    "added": "y = x + torch.tensor([1.0, 2.0])\nloss = (y + bad).sum()  # born here",
    "subtracted": "loss = ((torch.exp(x) - bad) ** 2).mean()  # born here",
    "subtracted from": "loss = (bad - x).square().sum()  # born here",
    "chosen": "loss = torch.where(x > 1.5, bad, x).sum()  # born here",
    "joined": "loss = torch.cat([bad, x]).sum()  # born here",
}


@libraries
@runs
@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("name", LOST)
def test_bad_data_that_no_node_kept_is_named(name: str, value: str, library: str, steps: bool) -> None:
    text = f"{LEAF}{BAD.format(value)}good = torch.tensor([1.0, 2.0])\n{LOST[name]}\nloss.backward()"
    event = only_event(run(library, text, steps))
    assert (event.kind, event.index, event.harmed, event.lineno) == ("leaf", (1,), "loss", line(text))
    assert [*event.operands] == ["bad"]
    assert diagnose(event).number == 48


@libraries
def test_a_bad_variable_that_the_line_does_not_read_is_not_blamed(library: str) -> None:
    """One that the line does not read is named only if there is no other of its shape."""
    text = (
        f'{LEAF}{BAD.format("nan")}other = torch.tensor([float("nan"), 1.0])\n'
        "def step():\n    data = torch.tensor([3.0, float('nan')])\n    return (x + data).sum()"
    )
    event = only_event(run(library, text, function=True))
    assert (event.op, event.lineno) == ("add", 6)
    assert "bad" not in event.operands


def test_an_infinite_best_loss_is_not_blamed() -> None:
    """Data that no node kept is named as it is written in the line that takes it."""
    text = (
        f'{LEAF}best = torch.tensor(float("inf"))\n'
        "def step():\n    data = torch.tensor([3.0, float('inf')])\n    return (x + data).sum()"
    )
    event = only_event(run("retrograd", text, function=True))
    assert (event.op, event.operands["other"]) == ("add", float("inf"))
    assert "That data was not finite is an inference" in (event.note or "")


def test_a_variable_that_is_only_likely_is_called_likely() -> None:
    text = f"def layer(h):\n    return x + h\n{LEAF}{BAD.format('nan')}loss = layer(bad).sum()\nloss.backward()"
    event = only_event(run("retrograd", text))
    assert (event.kind, event.lineno, [*event.operands]) == ("leaf", 2, ["bad"])
    assert "the only variable with such numbers that fits" in (event.note or "")


@libraries
def test_a_mask_that_no_node_kept_is_not_blamed(library: str) -> None:
    text = (
        "x = torch.tensor([[1.0, 2.0]], requires_grad=True)\n"
        'mask = torch.tensor([[float("-inf"), float("-inf")]])\n'
        "scores = x + mask\n"
        "loss = scores.softmax(-1).square().sum()  # born here\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert (event.op, event.lineno, diagnose(event).number) == ("softmax", line(text), 19)


@libraries
@runs
def test_a_target_of_minus_infinity_is_blamed_and_not_taken_for_a_mask(library: str, steps: bool) -> None:
    """It may be a mask, but subtracting it makes no mask."""
    text = f'{LEAF}target = torch.tensor([1.0, float("-inf")])\nloss = ((x - target) ** 2).mean()\nloss.backward()'
    event = only_event(run(library, text, steps))
    assert (event.kind, event.index, event.lineno, [*event.operands]) == ("leaf", (1,), 3, ["target"])


HIDDEN = {
    "where": """
w1 = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.tensor([1.0, float("nan")])
loss = torch.where(torch.isnan(data), 0.0, data * w1).sum()  # born here
loss.backward()
""",
    "selection": """
net = nn.Linear(2, 1)
other = torch.tensor([[float("nan"), 1.0, 2.0]])
data = torch.tensor([[1.0, 2.0], [float("nan"), 1.0]])
loss = net(data)[torch.tensor([True, False])].sum()  # born here
loss.backward()
""",
}


@libraries
@runs
@pytest.mark.parametrize("name", HIDDEN)
def test_bad_data_masked_in_the_loss_is_found_by_the_gradient(name: str, library: str, steps: bool) -> None:
    event = only_event(run(library, HIDDEN[name], steps))
    assert (event.kind, event.lineno, [*event.operands]) == ("leaf", line(HIDDEN[name]), ["data"])
    assert (event.harmed or "").startswith("the gradient of ")


DEEP = """
net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
def step():
    data = torch.tensor([[1.0, 2.0], [float("nan"), 1.0]])
    return net(data)[torch.tensor([True, False])].sum()  # born here
"""


def test_data_of_a_local_variable_is_found_in_the_second_run() -> None:
    event = only_event(run("retrograd", DEEP, True, function=True))
    assert (event.kind, event.index, event.lineno) == ("leaf", (1, 0), line(DEEP))


def test_without_a_second_run_the_note_advises_to_check_the_data() -> None:
    event = only_event(run("retrograd", DEEP, function=True))
    assert "check the data first" in (event.note or "")


NUMBER = """
x = torch.tensor([1.0, 2.0], requires_grad=True)
scale = float("nan")
loss = (x * scale).sum()  # born here
loss.backward()
"""


@libraries
@runs
def test_a_python_number_that_is_nan_is_named(library: str, steps: bool) -> None:
    event = only_event(run(library, NUMBER, steps))
    assert (event.lineno, diagnose(event).title) == (line(NUMBER), "number that is NaN")


UNTRACED = """
x = torch.tensor([1.0, 2.0], requires_grad=True)
returns = torch.tensor([3.0, 3.0])
advantage = (returns - returns.mean()) / returns.std()
loss = (x * advantage).sum()
loss.backward()
"""


def test_a_tensor_computed_without_a_gradient_is_not_called_data() -> None:
    """PyTorch keeps nothing of it: where the line cannot be computed again, it is shown instead."""
    event = only_event(run("torch", UNTRACED.replace("loss =", "returns.add_(torch.tensor([0.0, 1.0]))\nloss =")))
    assert event.cause is not None
    assert "no operation that was watched made them" not in event.cause
    assert "line 4, `advantage = (returns" in event.cause
    for steps in (False, True):
        again = only_event(run("torch", UNTRACED, steps))
        assert (again.op, again.lineno, diagnose(again).number) == ("div", 4, 16)


LIKELIHOOD = """\
def gap(value, mean):
    return value - mean
def likelihood(value, mean, matrix):
    half = torch.linalg.solve_triangular(torch.linalg.cholesky(matrix), gap(value, mean).unsqueeze(-1), upper=False)
    return half.square().sum()
noise = torch.tensor([1.0, 2.0], requires_grad=True)
"""


@libraries
def test_bad_data_is_found_behind_a_well_conditioned_system(library: str) -> None:
    """A graph keeps neither what was subtracted from nor the right side of a system of equations."""
    text = LIKELIHOOD + (
        f"{LEAF}targets = torch.tensor([1.0, float('nan')])\n"
        "loss = likelihood(targets, x, torch.diag(noise))\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert (event.kind, event.index, [*event.operands]) == ("leaf", (1,), ["targets"])


def test_an_infinity_in_a_system_of_equations_is_not_taken_for_a_mask() -> None:
    text = LIKELIHOOD + (
        f"{LEAF}times = torch.tensor([0.0, 1.0])\n"
        "mean = x * torch.log(times)  # born here\n"
        "loss = likelihood(torch.tensor([1.0, 2.0]), mean, torch.diag(noise))\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert (event.kind, event.op, event.lineno, event.index) == ("divide", "log", line(text), (0,))


def test_a_matrix_is_not_blamed_if_the_right_side_is_unknown() -> None:
    text = LIKELIHOOD + (
        f"{LEAF}def step():\n    targets = torch.tensor([1.0, float('nan')])\n"
        "    return likelihood(targets, x, torch.diag(noise))"
    )
    event = only_event(run("torch", text, function=True))
    assert "singular" not in (event.cause or "")
    assert "already non-finite" in (event.cause or "")


@pytest.mark.parametrize("target", ["y[0:2]", "y[:]", "y[1:3]", "y[[0, 2]]"])
@pytest.mark.parametrize("data", ["torch.tensor([float('nan'), 1.0])", "np.array([1.0, np.nan], 'f')"])
def test_bad_data_written_to_a_part_of_a_tensor_is_named(target: str, data: str) -> None:
    if target == "y[:]":
        data = data.replace("1.0", "1.0, 2.0")
    elif "np." in data and target == "y[[0, 2]]":
        data = f"torch.from_numpy({data})"
    begin = f"import numpy as np\nx = torch.ones(3, requires_grad=True)\nd = {data}\ny = x * 1\n"
    event = only_event(run("retrograd", f"{begin}{target} = d\n(y * 2).sum().backward()\n"))
    assert (event.kind, event.lineno, event.code_line) == ("leaf", 5, f"{target} = d")
    assert list(event.operands) == ["d"]


ITEMS = {
    "of a loop": "for seen in series:\n    error = seen - level  # born here",
    "of a counted loop": "for k, seen in enumerate(series[1:]):\n    error = seen - level  # born here",
    "of several": "for seen, weight in zip(series, [1.0, 1.0, 1.0]):\n    error = seen - level  # born here",
    "by position": "for k in range(3):\n    error = series[k] - level  # born here",
    "with a name": "for k in range(3):\n    seen = series[k]\n    error = seen - level  # born here",
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ITEMS)
def test_bad_items_of_an_array_are_found(name: str, masked: bool) -> None:
    """They are used one by one: by the end of the loop, the last one is good, and the array has another shape."""
    text = (
        "import numpy as np\nseries = np.array([1.0, float('nan'), 3.0])\n"
        "level = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)\nterms = []\n"
        f"{ITEMS[name]}\n    terms.append({'np.where(np.isnan(error), 0.0, error**2)' if masked else 'error**2'})\n"
        "loss = torch.stack(terms).sum()\nloss.backward()"
    )
    event = only_event(run("retrograd", text))
    assert (event.kind, event.index, event.lineno) == ("leaf", (1,), line(text))
    assert list(event.operands) == ["series"]
    assert event.harmed == ("the gradient of level" if masked else "loss")
    if masked:
        mended_loss = executed("retrograd", mended(text, event))["level"].grad
        assert np.isfinite(mended_loss.item())


def test_a_masked_number_that_no_variable_holds_is_found_where_values_are_kept() -> None:
    program = (
        "def step(q):\n    total = 0.0\n    for seen in [1.0, float('nan'), 2.0]:\n"
        "        error = seen - q * 2.0  # born here\n"
        "        total = total + torch.where(torch.isnan(error), 0.0, error**2)\n    return total\n"
        "q = torch.tensor(1.0, requires_grad=True)\nstep(q).backward(retain_graph=True)"
    )
    event = only_event(run("retrograd", program))
    assert (event.op, event.lineno, event.harmed) == ("sub", line(program), "the gradient of q")
    assert "NaN (seen)" in (event.cause or "")
    assert "is an inference" in (event.note or "")
