"""Programs like those in reports of a NaN to the projects in which it was born."""

from __future__ import annotations

import pytest

from retrograd.anomaly import AnomalyError
from retrograd.anomaly.event import NaNEvent
from tests.anomaly.both import libraries, line, mended, only_event, run, runs


def found(library: str, program: str, steps: bool = False) -> NaNEvent:
    """The only event, at the marked line."""
    event = only_event(run(library, program, steps))
    assert event.lineno == line(program)
    return event


TWO_BRANCHES = """
x = torch.tensor([-95.0, 1.0], requires_grad=True)
low = torch.cos(-x) * 0.5 + 0.5 * x
high = torch.exp(-x) * (1.0 - x.detach()) + 0.5 * x  # born here
loss = torch.where(x < -100.0, low, high).mean()
loss.backward()
"""


@libraries
@runs
def test_a_branch_that_where_takes_is_not_called_discarded(library: str, steps: bool) -> None:
    """Both branches end with the same operation."""
    event = found(library, TWO_BRANCHES, steps)
    assert "is beyond the largest float32" in (event.cause or "")
    assert "discards" not in (event.cause or "")
    assert not run(library, mended(TWO_BRANCHES, event)).events


def test_the_second_branch_is_guarded_where_the_condition_does_not_hold() -> None:
    program = TWO_BRANCHES.replace("-95.0", "-105.0").replace(" * (1.0 - x.detach())", "")
    event = found("retrograd", program)
    assert "where discards exp(105)" in (event.cause or "")
    assert "torch.where(x < -100.0, 0.0, -x)" in (event.remedy or "").replace("rg.", "torch.")
    assert not run("retrograd", mended(program, event)).events


ONE_LARGE_BATCH = """
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
for i in range(24):
    x = torch.randn(8, 4)
    if i == 20:
        x = x * 400
    h = net(x)
    loss = torch.where(h <= 10.0, torch.exp(h), 1 + h).pow(2).mean()  # born here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@libraries
def test_one_batch_of_large_numbers_is_not_taken_for_weights_that_ran_away(library: str) -> None:
    with pytest.raises(AnomalyError) as error:
        run(library, ONE_LARGE_BATCH, policy="raise")
    event = error.value.event
    assert isinstance(event, NaNEvent)
    assert "ran away" not in (event.cause or "")
    assert "where discards exp" in (event.cause or "")
    assert not run(library, mended(ONE_LARGE_BATCH, event), policy="raise").events


NFW = """
scale, strength = (torch.tensor(each, requires_grad=True) for each in (1.3, 0.5))
r = torch.linspace(0.1, 3, 40)
x = r / scale
f = torch.zeros_like(x)
f = torch.where(x > 1, 1 - 2 / torch.sqrt(x**2 - 1) * torch.arctan(torch.sqrt((x - 1) / (x + 1))), f)
f = torch.where(x < 1, 1 - 2 / torch.sqrt(1 - x**2) * torch.arctanh(torch.sqrt((1 - x) / (1 + x))), f)
loss = (2 * strength * f / (x**2 - 1) - 0.3 / r).pow(2).mean()
loss.backward()
"""


@libraries
@runs
def test_a_number_from_before_the_recorded_operations_is_not_called_data(library: str, steps: bool) -> None:
    """No module's call tells where a model would begin, so that only the last operations are recorded."""
    event = only_event(run(library, NFW, steps))
    assert (event.kind, event.op) == ("invalid", "sqrt")
    assert event.lineno in (6, 7)


POSE = """
q = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.9, 0.1, 0.2, 0.3]], requires_grad=True)
vector, scalar = q[..., 1:], q[..., :1]
norm = torch.linalg.vector_norm(vector, dim=-1, keepdim=True).clamp(min=1e-8)
angle = torch.acos(torch.clamp(scalar, {}))  # born here
loss = (vector * angle / norm - 0.2).pow(2).sum()
loss.backward()
"""


@libraries
@pytest.mark.parametrize("bounds", ["min=-1.0, max=1.0", "-1, 1", "-0.5, 1"])
def test_the_bounds_of_a_clamp_are_tightened_instead_of_clamping_twice(library: str, bounds: str) -> None:
    program = POSE.format(bounds)
    event = found(library, program)
    remedy = event.remedy or ""
    assert remedy.count("clamp") == 1
    assert ("min=-0.5" in remedy) == ("-0.5" in bounds)
    assert not run(library, mended(program, event)).events


UNPACKED = """
def axis_and_angle(q):
    length = torch.linalg.vector_norm(q[..., :3], dim=-1, keepdim=True)
    axis = q[..., :3] / length  # born here
    angle = 2 * torch.atan2(length, q[..., 3:])
    return axis, angle

x = torch.ones(2, 3, requires_grad=True)
targets = torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]])
axis, angle = axis_and_angle(targets)
loss = (x * 0.3 - axis * angle).pow(2).mean()
loss.backward()
"""


@libraries
@runs
def test_one_of_the_results_of_a_function_is_computed_again(library: str, steps: bool) -> None:
    event = found(library, UNPACKED, steps)
    assert (event.op, event.index) == ("div", (0, 0))
    assert list(event.operands.values()) == [0.0, 0.0]
    assert not run(library, mended(UNPACKED, event)).events


SQUASHED = """
x = torch.tensor([[2.0], [0.1]], requires_grad=True)
actions = x + 0.5
action = torch.tanh(actions) * torch.tensor({})
log_prob = -0.5 * (actions - x) ** 2
log_prob -= torch.log(1 - {} + 1e-6)  # born here
loss = log_prob.mean()
loss.backward()
"""


@libraries
@pytest.mark.parametrize("bound", ["2.0", "[2.0]"])
@pytest.mark.parametrize("square", ["action.pow(2)", "action ** 2"])
def test_the_jacobian_of_a_scaled_tanh_gets_the_tanh_itself(library: str, bound: str, square: str) -> None:
    """A factor that is a tensor is a factor as well."""
    program = SQUASHED.format(bound, square)
    event = found(library, program)
    assert "only for the tanh itself" in (event.cause or "")
    assert "tanh(actions)" in (event.remedy or "")
    assert not run(library, mended(program, event)).events


@libraries
@pytest.mark.parametrize("function", ["torch.sqrt(scale)", "torch.rsqrt(scale)", "torch.log(scale)"])
def test_a_parameter_that_updates_have_made_negative_is_to_be_learned_as_a_logarithm(
    library: str, function: str
) -> None:
    program = (
        "scale = torch.nn.Parameter(torch.tensor([0.05]))\noptimizer = torch.optim.Adam([scale], lr=0.03)\n"
        f"for _ in range(3):\n    loss = ({function} * 0.01 + 5 * scale).sum()  # born here\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    )
    event = found(library, program)
    assert "scale is a parameter, and nothing keeps it positive" in (event.cause or "")
    assert (event.remedy or "").replace("rg.", "torch.") == "scale = torch.exp(log_scale)"


@libraries
def test_no_signed_power_is_advised_for_an_inverse_root(library: str) -> None:
    program = (
        "weight = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)\nrow = torch.tensor([0, 0, 1])\n"
        "degree = torch.zeros(2).scatter_add(0, row, weight)\n"
        "loss = (degree.pow(-0.5) * degree).sum()  # born here\nloss.backward()"
    )
    event = found(library, program)
    assert "to the power -0.5 is not a real number" in (event.cause or "")
    assert event.remedy is None


@pytest.mark.filterwarnings("ignore:std")
@libraries
@pytest.mark.parametrize(("eps", "written"), [(" + 1e-8", "advantages.std(correction=0) + 1e-8"), ("", "sqrt(")])
def test_the_spread_of_one_advantage_needs_a_number_under_a_root_only_if_it_may_be_zero(
    library: str, eps: str, written: str
) -> None:
    program = (
        "advantages = torch.tensor([0.7])\nratio = torch.ones(1, requires_grad=True)\n"
        f"advantages = (advantages - advantages.mean()) / (advantages.std(){eps})  # born here\n"
        "loss = -(advantages * ratio).mean()\nloss.backward()"
    )
    event = only_event(run(library, program, steps=True))
    assert event.lineno == line(program)
    assert written in (event.remedy or "")
    assert not run(library, mended(program, event)).events
