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


ROOT = """
def magnitude(spectrum, power=1.0):
    squares = spectrum.pow(2).sum(-1)
    return squares ** {}  # born here

x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
loss = magnitude(x, power=0.5).sum()
loss.backward()
"""


@libraries
@pytest.mark.parametrize("exponent", ["power", "0.5", "(1 / 2)"])
def test_a_power_becomes_a_norm_only_if_its_exponent_is_written(library: str, exponent: str) -> None:
    """Another call of the function may ask for another power."""
    program = ROOT.format(exponent)
    event = found(library, program, steps=True)
    assert ("norm" in (event.remedy or "")) == (exponent != "power")
    assert ("power" in (event.remedy or "")) == (exponent == "power")
    assert not run(library, mended(program, event)).events


@libraries
def test_another_root_of_a_sum_of_squares_is_no_norm(library: str) -> None:
    program = "x = torch.zeros(3, requires_grad=True)\nloss = (x ** 2).sum() ** 0.25  # born here\nloss.backward()"
    event = found(library, program, steps=True)
    assert "norm" not in (event.remedy or "")
    assert not run(library, mended(program, event)).events


TANH = """
def squash(x):
    return torch.tanh(x)

def unsquash(y):
    return torch.atanh(y)  # born here

x = torch.tensor([0.5, 12.0], requires_grad=True)
loss = unsquash(squash(x)).sum()
loss.backward()
"""


@libraries
def test_an_inverse_in_another_function_is_clamped(library: str) -> None:
    """The name of what the tanh was taken of means nothing there."""
    event = found(library, TANH, steps=True)
    assert "input of tanh" in (event.cause or "")
    assert "clamp(y" in (event.remedy or "")
    assert not run(library, mended(TANH, event)).events


RATIO = """
x = torch.tensor([0.1, 0.2, 0.21], requires_grad=True)
def density(x, loc):
    return torch.exp(-((x - loc) ** 2) / 0.02)
ratio = density(x, 0.2) / density(x.detach(), torch.tensor([3.0, 1.565, 1.0]))  # born here
loss = ratio.clamp(0.8, 1.2).sum() + ratio.mean()
loss.backward()
"""


@libraries
@runs
def test_densities_that_are_divided_by_are_kept_away_from_0_even_if_not_quite_0(library: str, steps: bool) -> None:
    event = found(library, RATIO, steps)
    assert "== 0" not in (event.remedy or "")
    assert not run(library, mended(RATIO, event)).events


DISKS = """
def lens(d, r, s):
    cosine = (d ** 2 + s ** 2 - r ** 2) / (2 * d * s)
    angle = torch.acos(torch.clamp(cosine, -1.0, 1.0))  # born here
    disjoint = d >= r + s
    contained = d <= torch.abs(r - s)
    return torch.where(disjoint, 0.0, torch.where(contained, 1.0, angle))

x = torch.tensor([1.0, 1.5, 0.5, 0.75], requires_grad=True)
loss = lens(x, torch.ones(4), 0.5 * torch.ones(4)).sum()
loss.backward()
"""


@libraries
@runs
def test_a_branch_inside_two_wheres_is_guarded_by_both_conditions(library: str, steps: bool) -> None:
    event = found(library, DISKS, steps)
    assert "discards acos" in (event.cause or "")
    assert not run(library, mended(DISKS, event)).events


LAB = """
def lightness(image):
    relative = image / 0.95
    power = torch.pow(relative, 1 / 3.0)  # born here
    line = 7.787 * relative + 4.0 / 29.0
    value = torch.where(relative > 0.008856, power, line)
    first, second = value.unbind(-1)
    return torch.stack([116.0 * first - 16.0, 500.0 * (first - second)], -1)

x = torch.tensor([[0.0, 0.5], [0.3, 0.0]], requires_grad=True)
loss = (lightness(x) - 3.0).pow(2).sum()
loss.backward()
"""


@libraries
@runs
def test_a_power_that_a_later_where_discards_gets_a_double_where(library: str, steps: bool) -> None:
    event = found(library, LAB, steps)
    assert "discards pow" in (event.cause or "")
    assert "where(relative > 0.008856, relative, 1.0)" in (event.remedy or "")
    assert not run(library, mended(LAB, event)).events


@libraries
@runs
@pytest.mark.parametrize("tiny", ["1e-26", "1e-20"])
def test_the_angle_of_a_tiny_complex_number_is_left_out(library: str, steps: bool, tiny: str) -> None:
    program = (
        f"x = torch.tensor([{tiny}, 1.0], requires_grad=True)\nz = torch.complex(-x, 0.1 * x)\n"
        "loss = torch.cos(torch.angle(z) - 0.3).sum()  # born here\nloss.backward()"
    )
    event = only_event(run(library, program, steps))
    assert event.lineno == line(program)
    assert "square" in (event.cause or "") and "underflow" in (event.cause or "")
    assert "where(torch.abs(z) < 1e-18, 1.0, z)" in (event.remedy or "").replace("rg.", "torch.")
    assert not run(library, mended(program, event)).events


NORMALISED = """
def probabilities(scores):
    p = torch.exp(scores)
    return p / p.sum(-1, keepdim=True)  # born here

x = torch.tensor([[-200.0, -190.0], [0.5, 1.0]], requires_grad=True)
p = probabilities(x)
loss = -torch.log(p[torch.arange(2), torch.tensor([1, 0])]).mean()
loss.backward()
"""


@libraries
@runs
def test_a_variable_of_another_function_with_the_same_name_is_not_meant(library: str, steps: bool) -> None:
    event = found(library, NORMALISED, steps)
    assert "log_p" not in (event.remedy or "")
    assert not run(library, mended(NORMALISED, event)).events
