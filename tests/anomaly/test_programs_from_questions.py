"""Programs like those in questions about a loss that has become NaN."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, line, mended, only_event, run, runs


def found(library: str, program: str, steps: bool = False) -> NaNEvent:
    """The only event, at the marked line if there is one."""
    event = only_event(run(library, program, steps))
    if "# born here" in program:
        assert event.lineno == line(program)
    return event


def values(library: str, program: str) -> list[float]:
    """The loss, and the gradient of ``x`` after the program has run without a finding."""
    w = run(library, f"{program}\nw.result = [loss.item(), *x.grad.flatten().tolist()]")
    assert not w.events
    return w.result  # type: ignore[attr-defined, no-any-return]


MASKED_CLASSES = """
x = torch.zeros(3, 4, requires_grad=True)
mask = torch.full((3, 4), -float("inf"))
mask[0, :2] = 0.0
targets = torch.tensor([0, -1, -1])
loss = F.cross_entropy(x + mask, targets, ignore_index=-1)  # born here
loss.backward()
"""


@pytest.mark.parametrize(("library", "steps"), [("torch", False), ("torch", True), ("retrograd", True)])
def test_the_remedy_for_masked_rows_that_are_ignored_gives_the_gradient_of_the_others(
    library: str, steps: bool
) -> None:
    """The dimension of the classes is no argument of a cross entropy."""
    event = found(library, MASKED_CLASSES, steps)
    assert event.op in ("log_softmax", "CrossEntropyBackward0")
    assert "all of them are -inf" in (event.cause or "") or "row is -inf" in (event.cause or "")
    assert ".all(-1, keepdim=True)" in (event.remedy or "")
    assert values(library, mended(MASKED_CLASSES, event))[1:3] == pytest.approx([-0.5, 0.5])


@pytest.mark.parametrize("library", ["torch", "retrograd"])
def test_masked_rows_are_mended_along_the_dimension_of_the_classes(library: str) -> None:
    program = MASKED_CLASSES.replace("(3, 4", "(3, 4, 2").replace("mask[0, :2]", "mask[0, :2, :]")
    program = program.replace("torch.tensor([0, -1, -1])", "torch.tensor([[0, 1], [-1, -1], [-1, -1]])")
    event = found(library, program, steps=True)
    assert ".all(1, keepdim=True)" in (event.remedy or "")
    assert values(library, mended(program, event))[1] == pytest.approx(-0.25)


NO_POSITIVES = """
x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], requires_grad=True)
labels = torch.tensor([0, 0, 1])
def contrastive(features):
    similarities = features @ features.T / 0.5
    logits = similarities - similarities.max(1, keepdim=True).values.detach()
    others = 1 - torch.eye(3)
    same = (labels[:, None] == labels).float() * others
    log_probability = logits - torch.log((torch.exp(logits) * others).sum(1, keepdim=True))
    return -((same * log_probability).sum(1) / same.sum(1)).mean()  # born here
loss = contrastive(x)
loss.backward()
"""


@libraries
@runs
def test_a_divisor_of_zero_explains_a_quotient_whose_numerator_was_not_kept(library: str, steps: bool) -> None:
    """Whatever was divided, the quotient is not finite: no other operation has to be suspected."""
    event = found(library, NO_POSITIVES, steps)
    assert (event.op, event.index) == ("div", (2,))
    assert event.operands["other"] == 0
    assert event.rerun is None
    assert "was computed without a gradient" not in (event.cause or "")
    assert all(-2 < each < 2 for each in values(library, mended(NO_POSITIVES, event)))


EXPONENTIAL_LOSS = """
x = torch.tensor([[-60.0, 60.0]], requires_grad=True)
loss = torch.exp(F.cross_entropy(x, torch.tensor([0])) / 0.5)  # born here
loss.backward()
"""


@libraries
def test_an_exponential_loss_is_replaced_by_its_logarithm_and_not_bounded(library: str) -> None:
    """A bound would leave no gradient at all; the exponent has its minimum at the same place."""
    event = found(library, EXPONENTIAL_LOSS)
    assert event.remedy == "loss = F.cross_entropy(x, torch.tensor([0])) / 0.5  # born here"
    assert "minimise that instead" in (event.cause or "")
    assert values(library, mended(EXPONENTIAL_LOSS, event)) == pytest.approx([240.0, -2.0, 2.0])


OPPOSED = [
    (
        "loss = -0.5 * torch.sum(1 + x - m.pow(2) - x.exp())",
        "1 + x.clamp(max=36.0) - m.pow(2) - x.clamp(max=36.0).exp()",
    ),
    (
        "loss = (x + (m - 3) ** 2 * torch.exp(-x)).mean()",
        "torch.clamp(x, min=-36.0) + (m - 3) ** 2 * torch.exp(-torch.clamp(",
    ),
    (
        "loss = 0.5 * torch.sum(torch.exp(2 * x) - 2 * x - 1 + m)",
        "torch.exp(2 * torch.clamp(x, max=18.0)) - 2 * torch.clamp(",
    ),
]


@libraries
@pytest.mark.parametrize(("code", "bounded"), OPPOSED)
def test_a_term_that_opposes_an_exponential_is_bounded_with_it(code: str, bounded: str, library: str) -> None:
    """With a bound in the exponential alone, the term would drive the variable on."""
    sign = "-" if "(-x)" in code else ""
    program = f"x = torch.tensor([{sign}100.0, 0.5], requires_grad=True); m = torch.zeros(2)\n{code}\nloss.backward()"
    event = found(library, program)
    assert event.op == "exp"
    assert bounded.split("36")[0].split("18")[0] in (event.remedy or "")
    _, bad, good = values(library, mended(program, event))
    assert bad == 0
    assert good != 0


@libraries
def test_a_term_of_the_same_sign_as_the_exponential_is_not_bounded(library: str) -> None:
    event = found(
        library, "x = torch.tensor([100.0, 0.5], requires_grad=True)\nloss = (x + torch.exp(x)).sum()\nloss.backward()"
    )
    assert event.remedy == "loss = (x + torch.exp(torch.clamp(x, max=80.0))).sum()"
    assert "outside of the exponential" not in (event.cause or "")


@libraries
@runs
def test_one_by_zero_is_called_infinite_where_its_derivative_is_nan(library: str, steps: bool) -> None:
    """1 / 0 is infinite, not NaN, also where the derivative is NaN."""
    program = (
        "x = torch.tensor([1.0], requires_grad=True)\nd = torch.tensor([[0.0], [1.0]], requires_grad=True)\n"
        "loss = (F.softplus(1 - x / d) * d.abs()).mean()  # born here\nloss.backward()"
    )
    event = found(library, program, steps)
    assert "is NaN, and so is" not in (event.cause or "")
    assert "1 / 0 is infinite" in (event.cause or "")


UNSCALED = """
area = torch.linspace(100.0, 3000.0, 32).reshape(-1, 1)
price = area * 0.2
layer = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for _ in range(12):
    optimizer.zero_grad()
    loss = F.mse_loss(layer(area), price)
    loss.backward()
    optimizer.step()
"""


@libraries
def test_a_runaway_with_data_far_from_1_advises_to_scale_the_data(library: str) -> None:
    """A smaller learning rate keeps the loss finite, but it hardly falls."""
    event = run(library, UNSCALED).events[0]
    assert "ran away" in (event.cause or "")
    assert "(area) are as large as 3e+03" in (event.cause or "")
    scaled = UNSCALED.replace("reshape(-1, 1)\n", "reshape(-1, 1) / 1000\n").replace("lr=0.01", "lr=1e3")
    assert "as large as" not in (run(library, scaled).events[0].cause or "")


@libraries
@runs
def test_a_pole_times_several_factors_is_not_blamed_on_a_mask(library: str, steps: bool) -> None:
    """Samples along rays at distances whose inverses are evenly spaced, from 0 on."""
    program = (
        "x = torch.ones(12, requires_grad=True)\nnear, far = torch.zeros(4, 1), torch.full((4, 1), 6.0)\n"
        "t = torch.linspace(0, 1, 12)\nz = 1.0 / (1.0 / near * (1 - t) + 1.0 / far * t)  # born here\n"
        "loss = (z * x).mean()\nloss.backward()"
    )
    event = found(library, program, steps)
    assert "is 0, but 0 * inf" not in (event.cause or "")
    assert "0 is infinite" in (event.cause or "")
    assert all(each < 7 for each in values(library, mended(program, event)))


@libraries
def test_a_row_of_logits_without_an_allowed_action_is_named_in_the_error(library: str) -> None:
    """The NaN is made by the distribution, of logits that hold none."""
    program = (
        "x = torch.zeros(2, 3, requires_grad=True)\n"
        "legal = torch.tensor([[True, False, True], [False, False, False]])\n"
        "logits = x.masked_fill(~legal, -float('inf'))\nd = torch.distributions.Categorical(logits=logits)  # born here"
    )
    with pytest.raises(ValueError, match="Expected parameter logits") as caught:
        run(library, program)
    said = "".join(caught.value.__notes__)
    assert "NaN born in sub" in said
    assert "All logits of this row are -inf" in said
    assert "Categorical(logits=" in said
    assert ".isneginf(logits).all(-1, keepdim=True)" in said


ALL_UNDERFLOW = """
x = torch.tensor([[0.0, -500.0], [-500.0, 0.0]], requires_grad=True)
others = ~torch.eye(2, dtype=torch.bool)
terms = torch.exp(x) * others
loss = -torch.log(terms.sum(1, keepdim=True)).mean()  # born here
loss.backward()
"""


@libraries
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_the_remedy_for_a_masked_sum_of_exponentials_keeps_the_mask(library: str, dtype: str) -> None:
    """The mask stays one in the sum of logarithms: without it, the terms that it leaves out would outweigh the rest."""
    program = (
        ALL_UNDERFLOW.replace("~torch.eye(2, dtype=torch.bool)", "1 - torch.eye(2)")
        if dtype != "bool"
        else ALL_UNDERFLOW
    )
    event = found(library, program)
    assert values(library, mended(program, event)) == pytest.approx([500.0, 0.0, -0.5, -0.5, 0.0])


@libraries
@runs
@pytest.mark.parametrize("loss", ["smooth_l1_loss", "mse_loss", "binary_cross_entropy_with_logits", "huber_loss"])
def test_the_mean_of_no_elements_becomes_zero(library: str, steps: bool, loss: str) -> None:
    """An image without objects."""
    program = (
        "x = torch.zeros(5, 4, requires_grad=True); boxes = torch.rand(5, 4)\nm = torch.zeros(5, dtype=torch.bool)\n"
        f"loss = F.{loss}(x[m], boxes[m]) + x.pow(2).sum()  # born here\nloss.backward()"
    )
    event = found(library, program, steps)
    assert "the mean of nothing" in (event.cause or "")
    assert values(library, mended(program, event)) == [0.0] * 21


RETURNS = """
x = torch.tensor([1.0], requires_grad=True)
rewards = [2.0]
returns = torch.tensor(rewards, dtype=torch.float32)
returns = (returns - returns.mean()) / (returns.std() + 1e-8)
loss = -(x * returns).sum()
loss.backward()
"""


@pytest.mark.filterwarnings("ignore:std.* degrees of freedom:UserWarning")
@libraries
@pytest.mark.parametrize("lost", [False, True])
def test_the_spread_of_a_single_return_is_named_and_mended(library: str, lost: bool) -> None:
    """The list is still there, or has been given up: then the line and the size tell."""
    program = RETURNS.replace("returns.std() + 1e-8)", "returns.std() + 1e-8)\nrewards.clear()") if lost else RETURNS
    event = only_event(run(library, program))
    assert "n - 1 = 0" in (event.cause or "")
    assert event.remedy_lineno == 5
    assert values(library, mended(program, event))[0] == 0.0


@libraries
def test_an_exponential_inside_a_loss_of_the_library_is_bounded_at_its_input(library: str) -> None:
    """No form can be written into a call of a library."""
    program = (
        "x = torch.tensor([100.0, 1.0], requires_grad=True)\n"
        "loss = torch.nn.PoissonNLLLoss()(x, torch.ones(2))  # born here\nloss.backward()"
    )
    event = found(library, program)
    assert event.op == "exp"
    assert (event.remedy_lineno, (event.remedy or "")[:4]) == (None, "x = ")
    assert "inside of what the line calls" in (event.cause or "")


def test_noise_that_the_step_computed_is_not_reported_as_data() -> None:
    """The noise has no gradient, and is gone; what it was added to has one."""
    program = """
x = torch.zeros(4, 3, requires_grad=True)
decoder = torch.nn.Linear(3, 2)
w.model = decoder
def sample(logits, u):
    noise = -(-torch.log(u)).log_()
    return torch.softmax(logits + noise, -1)  # born here
loss = decoder(sample(x, torch.tensor([[0.5, 1.0, 0.5]]))).pow(2).mean()
loss.backward()
"""
    event = found("torch", program)
    assert event.op == "softmax"
    assert event.rerun is not None


NAMED = """
x = torch.tensor([[200.0], [1.0]], requires_grad=True)
def network(given):
    return 2 * given
p = torch.sigmoid(network(-x).squeeze(1))
entropy = -(1 - p) ** 2 * torch.log(p)  # born here
loss = entropy.mean()
loss.backward()
"""


@libraries
def test_the_report_says_which_name_the_remedy_needs(library: str) -> None:
    event = found(library, NAMED)
    assert "z" in (event.remedy or "")
    assert 'Give z a value as "why" says, and change line 6 as above' in " ".join(format_event(event).split())
    program = NAMED.replace(
        "p = torch.sigmoid(network(-x).squeeze(1))", "z = network(-x)\np = torch.sigmoid(z.squeeze(1))"
    )
    assert values(library, mended(program, replace(event, lineno=7)))


def test_the_cause_names_the_line_where_float32_meets_float16_again() -> None:
    program = (
        "x = torch.full((4, 8), 300.0, dtype=torch.float16, requires_grad=True)\nscores = x @ x.T / 3  # born here\n"
        "y = torch.softmax(scores, -1) @ x\nloss = y.float().mean()\nloss.backward()"
    )
    assert "where it meets float16, in line 3." in (found("torch", program).cause or "")


@libraries
def test_the_sigmoid_at_the_end_of_a_sequential_is_named(library: str) -> None:
    program = (
        "x = torch.tensor([[200.0], [1.0]], requires_grad=True)\n"
        "judge = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Sigmoid())\n"
        "loss = -torch.log(1 - judge(x)).mean()  # born here\nloss.backward()"
    )
    assert "The sigmoid is in judge: let it return what goes into its sigmoid" in (found(library, program).cause or "")


@libraries
@runs
@pytest.mark.parametrize("infinity", ['float("-inf")', "-torch.inf"])
def test_zero_times_infinity_in_a_mask_by_products_is_explained(library: str, steps: bool, infinity: str) -> None:
    program = (
        "x = torch.zeros(2, 3, requires_grad=True)\nkeep = torch.tensor([[1.0, 1.0, 0.0]])\nscores = x * 2\n"
        f"scores = scores + (1 - keep) * {infinity}  # born here\n"
        "loss = (torch.softmax(scores, -1) * torch.tensor([1.0, 2.0, 3.0])).sum()\nloss.backward()"
    )
    event = found(library, program, steps)
    assert event.op == "mul"
    assert "Multiplying by 0 does not switch an infinity off" in (event.cause or "")
    assert values(library, mended(program, event))[0] == pytest.approx(3.0)


@libraries
def test_the_remedy_for_a_mixture_treats_a_mask_as_a_weight(library: str) -> None:
    program = (
        "x = torch.tensor([-200.0, 1.0], requires_grad=True); m = torch.tensor([0.0, 1.0])\np = torch.sigmoid(x)\n"
        "loss = torch.log(p * (m > 2) + (1 - p) * torch.exp(-1000 * x**2)).sum()  # born here\nloss.backward()"
    )
    event = found(library, program)
    assert values(library, mended(program, event)) == pytest.approx([-4.0001e7, 4e5, -2000.731], rel=1e-5)


@libraries
def test_the_eps_of_a_logarithm_in_float16_becomes_1e_4(library: str) -> None:
    """The operations after the logarithm do not matter for the number that is added to its argument."""
    program = (
        "x = torch.tensor([0.0, 1.0], requires_grad=True, dtype=torch.float16)\n"
        "loss = torch.exp(-(x * torch.log(x + 1e-10)).sum())  # born here\nloss.backward()"
    )
    assert "torch.log(x + 1e-4)" in (found(library, program).remedy or "").replace("rg.", "torch.")


@libraries
@runs
def test_bad_targets_that_are_sliced_keep_their_name(library: str, steps: bool) -> None:
    program = (
        "import numpy as np\nwith np.errstate(all='ignore'):\n    returns = np.log(np.array([1.0, 0.0], 'float32'))\n"
        "targets = torch.from_numpy(returns)\nx = torch.zeros(2, requires_grad=True)\ntotal = x * 2\n"
        "loss = ((total - targets[0:2]) ** 2).mean()  # born here\nloss.backward()"
    )
    event = found(library, program, steps)
    assert event.kind == "leaf"
    assert "(targets" in (event.cause or "") or "(returns" in (event.cause or "")


@libraries
def test_label_smoothing_over_masked_classes_is_explained(library: str) -> None:
    program = (
        "x = torch.zeros(2, 3, requires_grad=True)\n"
        "scores = x.masked_fill(torch.tensor([False, False, True]), -torch.inf)\n"
        "loss = F.cross_entropy(scores, torch.tensor([0, 1]), label_smoothing=0.1)\nloss.backward()"
    )
    event = run(library, program, steps=True).events[0]
    assert event.op == "masked_fill"
    assert "Label smoothing" in (event.cause or "")


@libraries
def test_a_negative_scale_is_replaced_by_the_exponential_of_a_parameter(library: str) -> None:
    """A clamp would keep the loss finite, and the parameter negative."""
    program = (
        "sigma = torch.tensor([0.1], requires_grad=True)\noptimizer = torch.optim.SGD([sigma], lr=0.1)\n"
        "for _ in range(2):\n    loss = sigma.log().sum() + sigma.sum()  # born here\n    loss.backward()\n"
        "    optimizer.step()"
    )
    event = found(library, program)
    assert "nothing keeps it positive" in (event.cause or "")
    assert event.remedy_lineno is None
    assert (event.remedy or "").endswith(".exp(log_sigma)")


def test_zero_times_an_infinity_without_a_gradient_is_explained() -> None:
    """The value of a state without any action left is -inf, and is multiplied by 0 as the state is the last one."""
    program = """
q = torch.nn.Linear(3, 2)
w.model = q
x = torch.zeros(2, requires_grad=True)
done, reward = torch.tensor([0.0, 1.0]), torch.ones(2)
legal = torch.tensor([[True, False], [False, False]])
with torch.no_grad():
    following = q(torch.ones(2, 3)).masked_fill(~legal, -float("inf")).max(1).values
    target = reward + 0.9 * following * (1 - done)  # born here
loss = ((x - target) ** 2).mean()
loss.backward()
"""
    event = found("torch", program)
    assert (event.op, event.index) == ("mul", (1,))
    assert "0 times an infinity is NaN" in (event.cause or "")


@libraries
@runs
def test_a_where_after_a_root_of_zero_is_said_not_to_help(library: str, steps: bool) -> None:
    program = (
        "x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)\nd = ((x[:, None] - x[None]) ** 2).sum(-1)\n"
        "d = torch.where(d > 0, d.sqrt(), torch.zeros_like(d))  # born here\nloss = d.mean()\nloss.backward()"
    )
    event = found(library, program, steps)
    assert "The where does not help" in (event.cause or "")
    assert not run(library, mended(program, event)).events


@libraries
@pytest.mark.parametrize("eps", ["", " + 1e-6"])
def test_the_formula_for_the_jacobian_of_tanh_is_limited_to_the_tanh_itself(library: str, eps: str) -> None:
    program = (
        "x = torch.tensor([2.0, 0.1], requires_grad=True)\naction = torch.tanh(x) * 2.0\n"
        f"loss = -torch.log(1 - action.pow(2){eps}).sum()  # born here\nloss.backward()"
    )
    event = found(library, program)
    assert "only for the tanh itself" in (event.cause or "")
    assert "1 - torch.tanh(x).pow(2)" in (event.remedy or "").replace("rg.", "torch.")
    assert not run(library, mended(program, event)).events


@libraries
@runs
def test_the_range_of_a_blank_image_is_not_taken_for_a_relative_error(library: str, steps: bool) -> None:
    program = (
        "x = torch.ones(3, requires_grad=True)\nimage = torch.full((3,), 0.25)\n"
        "rows = image.reshape(1, 3)\nrows = (rows - rows.min()) / (rows.max() - rows.min())\n"
        "loss = (x * rows).sum()\nloss.backward()"
    )
    event = only_event(run(library, program, steps))
    assert event.op == "div"
    assert "error relative" not in (event.cause or "")
    assert values(library, mended(program, event)) == [0.0] * 4


@libraries
def test_one_negative_scale_among_several_is_explained(library: str) -> None:
    program = (
        "sigma = torch.tensor([0.1, 1.0], requires_grad=True)\noptimizer = torch.optim.SGD([sigma], lr=0.1)\n"
        "for _ in range(2):\n    loss = sigma[0].log() + sigma.sum()  # born here\n    loss.backward()\n"
        "    optimizer.step()"
    )
    assert "nothing keeps it positive" in (found(library, program).cause or "")
