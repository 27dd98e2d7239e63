"""Faults of scientific programs that are written for NumPy's arrays and are given tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent, watch
from tests.anomaly.both import executed, libraries, line, mended, only_event, run, runs


def event_of(text: str, steps: bool = False) -> NaNEvent:
    """The only event of a program, which must be born in the marked line."""
    event = only_event(run("retrograd", text, steps))
    assert event.lineno == line(text)
    return event


FILTER = """
import numpy as np
series = [0.3, 0.1, float("nan"), -0.4, 0.2]

def likelihood(log_q, log_r):
    mean, variance, total = 0.0, 1.0, 0.0
    for y in series:
        variance = variance + np.exp(log_q)
        spread = variance + np.exp(log_r)
        error = y - mean  # born here
        total = total + 0.5 * (np.log(spread) + error**2 / spread)
        mean = mean + variance / spread * error
        variance = variance - variance**2 / spread
    return total

likelihood(torch.tensor(-1.0, requires_grad=True), torch.tensor(-2.0, requires_grad=True)).backward()
"""


@runs
def test_a_missing_observation_in_a_loop_is_named_by_its_variable(steps: bool) -> None:
    """When the loss is checked, the variable of the loop holds another observation, and no node has kept this one."""
    event = event_of(FILTER, steps)
    assert "NaN (y)" in (event.cause or "")
    assert ("is an inference" in (event.note or "")) == (not steps)
    replaced = "for y in series:\n        if np.isnan(y): continue"
    assert not run("retrograd", FILTER.replace("for y in series:", replaced), steps).events


ARM = """
import numpy as np
lengths = torch.tensor([1.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
reach = lengths[0] + lengths[1]
cosine = (reach**2 - lengths[0] ** 2 - lengths[1] ** 2) / (2 * lengths[0] * lengths[1])
angle = np.arccos(np.clip(cosine, -1, 1))  # born here
angle.backward()
"""


def test_infinities_of_one_birth_that_meet_are_reported_where_they_were_born() -> None:
    """Their sum is NaN, but there is one fault, in one line."""
    event = only_event(run("retrograd", ARM))
    assert (event.op, event.index, event.operands) == ("AcosBackward0", (), {"input": 1.0})
    assert (event.lineno, event.harmed) == (line(ARM), "the gradient of lengths")
    assert not run("retrograd", mended(ARM, event)).events


def test_the_element_of_a_nan_is_reported_and_not_an_infinity_beside_it() -> None:
    x = rg.tensor([1.0, 1.0], requires_grad=True)
    with watch(policy="record") as w:
        (rg.sqrt(x - 1).sum() + rg.sqrt(1 - x[1])).backward()
    assert np.isinf(x.grad.numpy()[0])
    event = only_event(w)
    assert (event.op, event.index) == ("AccumulateGrad", (1,))
    assert sorted(event.operands.values()) == [-np.inf, np.inf]


SOLVE = """
import numpy as np
stiffness = np.diff(np.eye(4), axis=0)
A = stiffness.T @ (torch.ones(3, dtype=torch.float64, requires_grad=True).reshape((3, 1)) * stiffness)
u = np.linalg.solve(A, {})  # born here
u.sum().backward()
"""


@pytest.mark.parametrize("right", ["np.ones(4)", "np.ones((4, 2))"])
def test_the_note_on_a_singular_system_has_a_remedy_that_solves_it(right: str) -> None:
    program = SOLVE.format(right)
    with pytest.raises(rg.linalg.LinAlgError) as caught:
        run("retrograd", program)
    (note,) = caught.value.__notes__
    assert "The matrix given to solve is singular" in note
    remedy = note.splitlines()[-1].strip()
    assert not run("retrograd", program.replace(program.splitlines()[4], remedy)).events


TRIANGULAR = """
import numpy as np
L = torch.tensor([[1.0, 0.0], [2.0, 0.0]], requires_grad=True)
x = torch.linalg.solve_triangular(L, torch.ones(2, 1), upper=False)  # born here
x.sum().backward()
"""


def test_a_singular_triangular_system_is_mended() -> None:
    event = event_of(TRIANGULAR)
    assert "The matrix given to solve is singular" in (event.cause or "")
    assert not run("retrograd", mended(TRIANGULAR, event)).events


FORWARD = """
import numpy as np

def likelihood(A, E):
    A, E = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (A, E))
    alpha, log_p = np.ones(2) / 2, 0.0
    for symbol in [0, 1] * 600:
        alpha = (alpha @ A) * E[:, symbol]
    return -np.log(np.sum(alpha)) - log_p  # born here

likelihood(*(torch.zeros(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))).backward()
"""
DENSITIES = """
import numpy as np
mean = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
likelihood = 1.0
for x in np.linspace(-3, 3, 500):
    likelihood = likelihood * np.exp(-0.5 * (x - mean) ** 2) / np.sqrt(2 * np.pi)
loss = -np.log(likelihood)  # born here
loss.backward()
"""


def test_a_forward_algorithm_that_underflows_is_carried_on_in_log_space() -> None:
    event = event_of(FORWARD)
    assert "alpha is multiplied in line 8 by a factor below 1, step after step" in (event.cause or "")
    instead = FORWARD.replace("import numpy as np", "import numpy as np; import retrograd as rg")
    instead = instead.replace(
        "alpha, log_p = np.ones(2) / 2, 0.0", "log_alpha, log_p = torch.zeros(2) - np.log(2), 0.0"
    )
    instead = instead.replace("alpha = (alpha @ A) * E[:, symbol]", event.remedy or "")
    instead = instead.replace("-np.log(np.sum(alpha)) - log_p", "-torch.logsumexp(log_alpha, 0) - log_p")
    assert not run("retrograd", instead).events


def test_a_product_of_densities_becomes_a_sum_of_their_logarithms() -> None:
    """None of them does, and to clamp their product would leave no gradient."""
    event = event_of(DENSITIES)
    assert "likelihood is multiplied in line 6" in (event.cause or "")
    assert event.remedy == "log_likelihood = log_likelihood + -0.5 * (x - mean) ** 2 - np.log(np.sqrt(2 * np.pi))"
    instead = DENSITIES.replace("likelihood = 1.0", "log_likelihood = 0.0").replace(
        "-np.log(likelihood)", "-log_likelihood"
    )
    instead = instead.replace(
        "likelihood = likelihood * np.exp(-0.5 * (x - mean) ** 2) / np.sqrt(2 * np.pi)", event.remedy
    )
    scope: dict[str, Any] = {"torch": rg}
    exec(instead, scope)
    x = np.linspace(-3, 3, 500)
    np.testing.assert_allclose(scope["loss"].item(), (0.5 * (x - 0.1) ** 2 + 0.5 * np.log(2 * np.pi)).sum(), rtol=1e-12)
    np.testing.assert_allclose(scope["mean"].grad.item(), (0.1 - x).sum(), rtol=1e-9)


def test_one_density_that_underflows_is_not_blamed_on_the_product() -> None:
    event = event_of(DENSITIES.replace("linspace(-3, 3, 500)", "array([0.3, 90.0, 0.2])"))
    assert "exp(-4041.01) underflows to 0" in (event.cause or "")


UNREACHABLE = """
import numpy as np

def logsumexp(a, axis):
    m = np.max(a, axis=axis, keepdims=True)
    return np.squeeze(np.log(np.sum(np.exp(a - m), axis=axis, keepdims=True)) + m, axis=axis)  # born here

scores = torch.tensor([[0.5, 2.0], [1.0, -1.0]], requires_grad=True)
scores = np.where(np.array([[True, False], [True, False]]), scores, -np.inf)
loss = np.exp(logsumexp(scores, 0)).sum()
loss.backward()
"""


def test_a_logsumexp_written_out_over_minus_infinities_is_mended() -> None:
    event = event_of(UNREACHABLE)
    assert "the sum of their exponentials is 0" in (event.cause or "")
    assert not run("retrograd", mended(UNREACHABLE, event)).events


GROWTH = """
import numpy as np
rate = torch.tensor([50.0], dtype=torch.float64, requires_grad=True)
N = np.array([0.5])
for _ in range(20):
    N = N + 1.0 * rate * N * (1 - N)  # born here
N.sum().backward()
"""


def test_an_integration_with_too_long_steps_is_told_to_take_smaller_ones() -> None:
    """The last of three products in a line that takes its own result as input."""
    event = event_of(GROWTH)
    assert "takes its own result as input" in (event.cause or "")
    assert "take smaller steps" in (event.cause or "")
    assert event.remedy is None
    assert not run("retrograd", GROWTH.replace("1.0 * rate", "0.01 * rate")).events


REACTION = """
import numpy as np
rate = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
u = v = np.array([2.0])
for _ in range(20):
    gain = rate * v * v  # born here
    u, v = u - gain, v + gain
v.sum().backward()
"""


def test_an_exploding_reaction_is_not_squashed_by_tanh() -> None:
    """No weight of a recurrent layer has made it."""
    event = event_of(REACTION)
    assert "smaller steps" in (event.cause or "")
    assert "tanh" not in (event.remedy or "")


ARRAYS = """
import numpy as np
state = np.array([3.0, -2.0])
with np.errstate(over="ignore"):
    for _ in range(12):
        state = state + 0.5 * state**3
gain = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
loss = ({}).sum()
loss.backward()
"""


@pytest.mark.parametrize("text", ["gain * state", "2 * (gain * state) + 1", "np.where(state == 0, 0.0, gain * state)"])
def test_an_array_that_was_infinite_before_is_reported_as_bad_data(text: str) -> None:
    """The sum, in which infinities of both signs meet, is not to blame."""
    event = only_event(run("retrograd", ARRAYS.format(text)))
    assert (event.kind, event.lineno) == ("leaf", 8)
    assert "(state)" in (event.cause or "")


@pytest.mark.parametrize("text", ["y = a * b * a * b", "y = a * b * (a * b) * a", "y = (a * b) * (a * b)"])
def test_several_products_in_one_line_are_not_taken_for_a_loop(text: str) -> None:
    program = f"a, b = (torch.tensor(1e100, dtype=torch.float64, requires_grad=True) for _ in 'ab')\n{text}\n"
    event = only_event(run("retrograd", program.replace("1e100", "1e80") + "(y * y).backward()"))
    assert "own result" not in (event.cause or "")


DISTANCES = """
import numpy as np

def energy(x):
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    return (1.0 / squares**3).sum()  # born here

energy(torch.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)).backward()
"""


def test_the_remedy_uses_numpy_if_the_program_imports_nothing_else() -> None:
    event = event_of(DISTANCES)
    assert "np.where(" in (event.remedy or "")
    assert "rg." not in (event.remedy or "")


def test_the_remedy_for_torch_tensors_uses_torch_whatever_the_program_imports() -> None:
    """NumPy's functions refuse PyTorch's tensors."""
    event = only_event(run("torch", DISTANCES))
    assert "torch.where(" in (event.remedy or "")


DIRECTIONS = """
import numpy as np
vx = torch.tensor([3.0, 0.0], dtype=torch.float64, requires_grad=True)
vy = torch.tensor([4.0, 0.0], dtype=torch.float64, requires_grad=True)
speed = np.sqrt(vx**2 + vy**2)
loss = (vx / speed + 2 * vy / speed).sum()  # born here
loss.backward()
"""


def test_a_root_that_is_a_divisor_is_mended_in_its_own_line() -> None:
    """The root of 0 has no derivative either, which another denominator would leave."""
    event = event_of(DIRECTIONS)
    assert event.remedy == "speed = np.sqrt(vx**2 + vy**2 + 1e-12)"
    assert event.remedy_lineno == line(DIRECTIONS) - 1
    assert not run("retrograd", mended(DIRECTIONS, event)).events


HYPOT = """
x = torch.tensor([0.0, 3.0], dtype=torch.float64, requires_grad=True)
y = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
torch.hypot(x, y).sum().backward()  # born here
"""


@pytest.mark.parametrize("library", ["retrograd", "torch"])
def test_the_hypotenuse_of_zeros_gets_an_eps_under_the_root(library: str) -> None:
    event = only_event(run(library, HYPOT))
    assert (event.remedy or "").startswith("torch.sqrt(x ** 2 + y ** 2 + 1e-12).sum()")
    assert not run(library, mended(HYPOT, event)).events


ANGLE = """
import numpy as np
a = torch.tensor([0.0, 3.0], dtype=torch.float64, requires_grad=True)
b = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
np.arctan(a / b).sum().backward()  # born here
"""


def test_an_arctangent_becomes_atan2_in_numpys_spelling() -> None:
    assert (event_of(ANGLE).remedy or "").startswith("np.atan2(a, b).sum()")


ROTATION = """
import numpy as np
w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
angle = np.linalg.norm(w)
v = {} * w  # born here
(v * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
"""


@pytest.mark.parametrize(
    ("quotient", "limit"),
    [
        ("np.sin(angle) / angle", 1.0),
        ("np.sin(angle / 2) / angle", 0.5),
        ("np.tanh(3 * angle) / (angle * 2)", 1.5),
        ("np.expm1(angle) / angle", 1.0),
    ],
)
def test_the_remedy_gives_a_quotient_its_limit_at_zero(quotient: str, limit: float) -> None:
    text = ROTATION.format(quotient)
    event = event_of(text)
    assert event.op == "div"
    assert "tends to 1" in (event.cause or "")
    after = mended(text, event) + f"\nassert w.grad.tolist() == [{limit}, {limit} * 2, {limit} * 3]"
    assert not run("retrograd", after).events


def test_the_limit_of_a_quotient_is_found_through_another_line() -> None:
    text = ROTATION.format("np.sin(half) / angle").replace("v = ", "half = angle / 2\nv = ")
    after = mended(text, event_of(text)) + "\nassert w.grad.tolist() == [0.5, 1.0, 1.5]"
    assert not run("retrograd", after).events


def test_a_quotient_with_an_unknown_limit_leaves_the_limit_to_the_user() -> None:
    """The sine is of another variable, which a function has made."""
    text = ROTATION.format("np.sin(half) / angle").replace("v = ", "half = np.multiply(angle, 0.5)\nv = ")
    event = event_of(text)
    assert event.remedy == "y = np.where(angle == 0, limit, a / np.where(angle == 0, 1.0, angle))"


@pytest.mark.parametrize("number", ["inf", "-inf"])
def test_an_infinite_observation_is_found_behind_a_difference_of_infinities(number: str) -> None:
    """The first flag is raised by the difference of two infinities that it has made, an observation later."""
    text = FILTER.replace('"nan"', f'"{number}"').replace("1.0, 0.0", "torch.ones(()), 0.0")
    event = event_of(text)
    assert f"the number {number.replace('i', 'I')} (y)" in (event.cause or "")
    assert "is an inference" in (event.note or "")


TEMPERATURES = """
import numpy as np
counts = np.array([4.0, 0.0, 7.0])
shape = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
with np.errstate(divide="ignore"):
    terms = (shape[:, None] - 1) * np.log(counts) - counts  # born here
terms.sum(1).mean().backward()
"""


@runs
def test_the_logarithm_of_zero_counts_is_clamped_behind_a_difference_of_infinities(steps: bool) -> None:
    event = event_of(TEMPERATURES, steps)
    assert "It is -inf where counts is 0" in (event.cause or "")
    assert "(shape[:, None] - 1) * np.log(np.maximum(counts, 1e-12)) - counts" in (event.remedy or "")
    assert not run("retrograd", mended(TEMPERATURES, event)).events


HAZARD = """
import numpy as np
time = np.array([4.0, 0.0, 7.0])
log_k = torch.zeros((), dtype=torch.float64, requires_grad=True)
with np.errstate(divide="ignore"):
    log_hazard = log_k + (np.exp(log_k) - 1) * np.log(time)  # born here
log_hazard.sum().backward()
"""


def test_a_parameter_that_is_zero_is_not_taken_for_a_mask() -> None:
    event = event_of(HAZARD)
    assert event.op == "mul"
    assert "log_hazard = log_k + (np.exp(log_k) - 1) * np.log(np.maximum(time, 1e-12))" in (event.remedy or "")
    assert not run("retrograd", mended(HAZARD, event)).events


@libraries
def test_a_count_of_zero_is_made_one(library: str) -> None:
    text = """
counts = torch.tensor([3, 0, 5])
totals = torch.tensor([3.0, 0.0, 1.0], requires_grad=True)
(totals / counts).sum().backward()  # born here
"""
    event = only_event(run(library, text))
    assert "torch.where(counts == 0, 1, counts)" in (event.remedy or "").replace("rg.", "torch.")
    assert not run(library, mended(text, event)).events


COUNTED = """
index = torch.tensor([0, 0, 2, 3])
ones = torch.ones(4)
count = {}
x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
mean = torch.zeros(4).index_add(0, index, x) {}  # born here
mean.sum().backward()
"""


@libraries
@pytest.mark.parametrize("count", ["torch.zeros(4).scatter_add(0, index, ones)", "torch.bincount(index, minlength=4)"])
@pytest.mark.parametrize("quotient", ["/ count", "* count.float().pow(-0.5)"])
def test_a_count_of_an_unused_index_is_clamped_to_1(library: str, count: str, quotient: str) -> None:
    """A small number in the place of the count would make a large one of whatever it divides."""
    text = COUNTED.format(count, quotient)
    event = only_event(run(library, text, True))
    assert (event.index, event.lineno) == ((1,), line(text))
    assert "clamp(" in (event.remedy or "")
    assert "min=1)" in (event.remedy or "")
    assert not run(library, mended(text, event), True).events


@libraries
def test_a_sum_of_weights_is_not_clamped_to_1(library: str) -> None:
    text = COUNTED.format("torch.zeros(4).scatter_add(0, index, ones * 0.25)", "/ count")
    assert "min=1)" not in (only_event(run(library, text, True)).remedy or "")


def test_no_growth_is_reported_in_a_concatenation() -> None:
    text = """
x = torch.tensor([[1.0, 1e30]])
shift = torch.zeros(2, requires_grad=True)
a, b = (x + shift).chunk(2, 1)
z = torch.cat([b, a * 1], 1)
(z**2).sum().backward()  # born here
"""
    event = event_of(text)
    assert event.op == "pow"
    assert "grew in cat" not in (event.cause or "")


POWERS = """
A = torch.tensor([[3.0, 1.0], [1.0, 2.0]], requires_grad=True)
v = {start}
for _ in range(200):
    v = {product}  # born here
loss = (v.T @ A @ v / (v.T @ v)).sum()
loss.backward()
"""


@libraries
@pytest.mark.parametrize(
    ("start", "product"),
    [
        ("torch.ones(2, 1)", "A @ v"),
        ("torch.ones(2, 1)", "torch.mm(A, v)"),
        ("torch.tensor([[1.0], [0.5]])", "(v.T @ A).T"),
    ],
)
def test_a_power_iteration_is_normalised_and_finds_the_eigenvector(library: str, start: str, product: str) -> None:
    """To squash the state would give another vector."""
    text = POWERS.format(start=start, product=product)
    event = only_event(run(library, text, True))
    assert event.lineno == line(text)
    if product.startswith("("):
        assert "normalise the state" in (event.cause or "")
        return
    found = executed(library, mended(text, event))
    values, vectors = np.linalg.eigh([[3.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(found["loss"].item(), values[1], rtol=1e-5)
    np.testing.assert_allclose(found["A"].grad.numpy(), np.outer(vectors[:, 1], vectors[:, 1]), rtol=1e-4)


@libraries
def test_a_matrix_that_is_squared_again_and_again_is_normalised(library: str) -> None:
    text = (
        "A = torch.tensor([[3.0, 1.0], [1.0, 2.0]], requires_grad=True)\nB = A\nfor _ in range(10):\n"
        "    B = B @ B  # born here\nB.sum().backward()"
    )
    event = only_event(run(library, text, True))
    assert (event.remedy or "").startswith("B = (B := B @ B) / B.norm()")
    found = executed(library, mended(text, event))
    vector = np.linalg.eigh([[3.0, 1.0], [1.0, 2.0]])[1][:, 1]
    np.testing.assert_allclose(found["B"].detach().numpy(), np.outer(vector, vector), rtol=1e-4)
    assert found["A"].grad.isfinite().all()


@libraries
def test_a_product_over_a_loop_is_explained_without_tanh(library: str) -> None:
    text = "r = torch.tensor([10.0, 2.0], requires_grad=True)\nh = torch.ones(2)\nfor _ in range(60):\n    h = h * r\n"
    event = only_event(run(library, f"{text}h.sum().backward()", True))
    assert "It is a product of all the factors" in (event.cause or "")
    assert "tanh" not in (event.remedy or "")
