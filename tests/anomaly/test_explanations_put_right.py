"""Programs as users write them that an earlier version explained wrongly or not at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import retrograd as rg
from retrograd.anomaly import diagnose
from retrograd.anomaly.report import format_event
from tests.anomaly.both import libraries, line, mended, only_event, run, runs

RECURRENCE = """
u = (torch.eye(2) * 1e9).requires_grad_()
h = torch.ones(3, 2)
inputs = [torch.ones(3, 2) for _ in range(12)]
for x in inputs:
    h = h @ u + x  # born here
head = torch.ones(2, 1, requires_grad=True)
loss = (h @ head).mean()
loss.backward()
"""


@libraries
def test_an_overflowing_product_is_blamed_and_not_the_finite_summand(library: str) -> None:
    """The inputs are finite, but the summands of an infinite sum cannot be recovered from it."""
    event = only_event(run(library, RECURRENCE))
    assert (event.op, event.lineno) == ("matmul", line(RECURRENCE))


def test_finite_data_is_not_reported_as_bad() -> None:
    program = RECURRENCE.replace("x in inputs", "x in [None] * 12").replace("+ x", "+ torch.ones(3, 2)")
    assert only_event(run("retrograd", program)).kind != "leaf"


FORWARD_ALGORITHM = """
e = torch.zeros(3, 2, requires_grad=True)
block = torch.tensor([[0.0, -float("inf")], [0.0, 0.0]])
a = torch.tensor([0.0, -float("inf")]) + e[0]
for t in range(1, 3):
    a = torch.logsumexp(a[:, None] + block, 0) + e[t]  # born here
loss = -torch.logsumexp(a, 0)
loss.backward()
"""


@pytest.mark.parametrize("library", ["retrograd"])
@runs
def test_the_gradient_of_logsumexp_is_nan_where_all_operands_are_minus_infinity(library: str, steps: bool) -> None:
    """The index is that of the operand, which has more dimensions than the result."""
    event = only_event(run(library, FORWARD_ALGORITHM, steps))
    assert (event.op, event.index, event.lineno) == ("LogsumexpBackward0", (0, 1), line(FORWARD_ALGORITHM))
    assert "Replace -inf by a number" in (event.cause or "")
    assert "torch.clamp(a[:, None] + block, min=-1e30)" in (event.remedy or "")
    assert not run(library, mended(FORWARD_ALGORITHM, event), steps).events


def test_logsumexp_of_clamped_operands_has_no_event() -> None:
    fixed = FORWARD_ALGORITHM.replace("a[:, None] + block,", "(a[:, None] + block).clamp(min=-1e30),")
    assert not run("retrograd", fixed).events


@libraries
def test_a_birth_written_through_a_view_has_its_index_in_the_view(library: str) -> None:
    """The index does not depend on the shape of the base."""
    program = (
        "w = torch.ones(4, 2, requires_grad=True)\na = w * torch.tensor([[1.0], [1.0], [1.0], [0.0]])\n"
        "total = a.sum(1, keepdim=True)\ntop = a[1:]\ntop.div_(total[1:])  # born here\n"
        "loss = (a.T @ a).sum()\nloss.backward()"
    )
    event = only_event(run(library, program, steps=True))
    assert (event.op, event.index, event.lineno) == ("div", (2, 0), 5)
    assert event.operands["other"] == 0


def test_an_infinite_score_is_blamed_on_its_log_and_not_on_a_mask() -> None:
    program = (
        "x = torch.zeros(1, 3, requires_grad=True)\nnoise = -torch.log(torch.tensor([[0.5, 0.0, 0.5]]))\n"
        "loss = torch.softmax(x + noise, -1)[0, 0]\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert (event.op, event.lineno) == ("log", 2)
    assert "log(0) is -inf" in (event.cause or "")


@pytest.mark.parametrize("steps", [False, True])
def test_a_target_class_that_is_masked_is_blamed_on_the_mask(steps: bool) -> None:
    program = (
        "x = torch.zeros(1, 3, requires_grad=True)\nscores = x.masked_fill(torch.tensor([True, False, False]), "
        '-float("inf"))\nloss = F.cross_entropy(scores, torch.tensor([0]))\nloss.backward()'
    )
    event = only_event(run("torch", program, steps))
    assert (event.op, event.lineno) == ("masked_fill", 2)
    assert "a class that is masked" in (event.cause or "")


@pytest.mark.parametrize("masked", ["x.masked_fill({}, -float('inf'))", "torch.where({}, -float('inf'), x)"])
@pytest.mark.parametrize("steps", [False, True])
def test_a_masked_target_has_its_index_on_a_graph_of_retrograd(steps: bool, masked: str) -> None:
    """The graph does not keep the fill value, but the result holds it wherever the mask is true."""
    scores = masked.format("torch.tensor([[True, False, False], [False, True, False]])")
    program = (
        "x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]], requires_grad=True)\n"
        f"scores = {scores}\nloss = F.cross_entropy(scores, torch.tensor([0, 2]))\nloss.backward()"
    )
    event = only_event(run("retrograd", program, steps))
    assert (event.op, event.lineno, event.index) == ("where" if "where" in masked else "masked_fill", 2, (0, 0))
    assert "a class that is masked for it" in (event.cause or "")
    assert event.remedy is None


def test_a_mask_that_leaves_the_target_alone_is_legal() -> None:
    program = (
        "x = torch.zeros(1, 3, requires_grad=True)\nscores = x.masked_fill(torch.tensor([True, False, False]), "
        '-float("inf"))\nloss = F.cross_entropy(scores, torch.tensor([1]))\nloss.backward()'
    )
    assert not run("retrograd", program).events


def test_an_error_in_the_catalogue_is_told_in_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(event: object) -> None:
        raise KeyError("a row")

    monkeypatch.setattr("retrograd.anomaly.monitor.explain", broken)
    program = "x = torch.zeros(1, requires_grad=True)\nloss = x.log().sum()\nloss.backward()"
    event = only_event(run("retrograd", program))
    assert (event.op, event.lineno) == ("log", 2)
    assert event.cause == "The search for the cause failed (KeyError: 'a row')."


@libraries
def test_layer_norm_with_an_eps_of_zero_gets_the_usual_eps(library: str) -> None:
    program = (
        "x = torch.ones(2, 3, requires_grad=True)\nloss = F.layer_norm(x, (3,), eps=0.0).pow(2).sum()\nloss.backward()"
    )
    event = only_event(run(library, program))
    assert event.op == "layer_norm"
    assert "Give it the usual eps" in (event.cause or "")
    assert "eps=1e-5" in (event.remedy or "")


def test_a_hook_of_the_leaf_is_named_if_no_operation_explains_its_gradient() -> None:
    net = nn.Linear(2, 1)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 0.0 * 0.0

    net.weight.register_hook(spoil)
    with rg.anomaly.watch(policy="record") as w:
        net(torch.ones(3, 2)).sum().backward()
        torch.optim.SGD(net.parameters(), 0.1).step()
    assert w.event is not None
    assert f"spoil ({__file__}:{spoil.__code__.co_firstlineno})" in (w.event.cause or "")


def test_gradients_from_autograd_grad_belong_to_the_step_that_they_begin() -> None:
    x = rg.tensor([0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        rg.autograd.grad(rg.sqrt(x).sum(), x)
    assert w.event is not None
    assert w.event.step == 1


def test_a_number_close_to_1_is_shown_with_all_digits() -> None:
    program = "x = torch.tensor([1.0000001], requires_grad=True)\ntorch.acos(x).sum().backward()"
    assert "input = 1.00000012" in format_event(only_event(run("retrograd", program)))


def test_a_call_that_returns_nan_is_named_as_the_factor() -> None:
    program = (
        "x = torch.tensor([1.0], requires_grad=True)\ndef difficulty():\n    return float('nan')\n"
        "(x * difficulty()).sum().backward()"
    )
    event = only_event(run("retrograd", program))
    assert "NaN (difficulty())" in (event.cause or "")
    assert event.remedy is None


GRADIENT_IN_HALF = """
h = torch.tensor([0.25, 0.5], dtype=torch.float16, requires_grad=True)
out = h * 2
loss = (out.float() * torch.tensor([1.0, 1e6])).sum()  # born here
loss.backward()
"""


@libraries
def test_a_gradient_that_overflows_in_float16_gets_no_remedy_for_the_forward_pass(library: str) -> None:
    """The gradient is too large and not the number of the forward pass, so a bound on that number would not help."""
    event = only_event(run(library, GRADIENT_IN_HALF, steps=True))
    assert (event.is_backward, event.index, event.lineno) == (True, (1,), line(GRADIENT_IN_HALF))
    assert "the gradient, 1e+06, is converted to float16" in (event.cause or "")
    assert event.remedy is None


SQUARE = """
a = torch.tensor([[1.0, 3e38], [2.0, 5.0]], requires_grad=True)
b = torch.tensor([[7.0, 11.0], [1e3, 2.0]], requires_grad=True)
loss = {line}.sum()  # born here
loss.backward()
"""


@libraries
@runs
@pytest.mark.parametrize(
    "line",
    [
        "(a @ b)",
        "F.linear(a, b)",
        "torch.bmm(a[None], b[None])",
        "torch.addmm(b[0], a, b)",
        "(a.T @ b).T",
        "torch.einsum('ij,jk->ik', a, b)",
        "torch.tensordot(a, b, 1)",
    ],
)
def test_a_matrix_product_shows_no_single_element_of_its_operands(library: str, steps: bool, line: str) -> None:
    """The element of a square matrix at the index of the birth has nothing to do with the birth."""
    event = only_event(run(library, SQUARE.format(line=line), steps))
    assert not {"mat1", "mat2", "other"} & set(event.operands)
    assert event.operands.get("input") in (None, 7.0, 11.0)  # the summand of addmm
    assert "up to 3e+38" in (event.cause or "")
    assert "a was already this large at the beginning" in (event.cause or "")


CELL = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Linear(3, 3, bias=False)
        self.u.weight.data.fill_(4e5)

    def forward(self, x, h):
        {line}


cell = Cell()
h = torch.ones(3, 3)
for _ in range(20):
    h = cell(torch.ones(3, 3), h)
loss = h.mean()
loss.backward()
"""


@libraries
@runs
def test_a_recurrence_through_a_module_is_recognised(library: str, steps: bool) -> None:
    program = CELL.format(line="return torch.relu(x + self.u(h))  # born here")
    event = only_event(run(library, program, steps))
    assert event.lineno == line(program)
    assert "This line takes its own result as input" in (event.cause or "")


@libraries
def test_a_large_operand_with_an_unknown_history_is_not_said_to_be_large_from_the_beginning(library: str) -> None:
    """Only the last few operations that made an operand are known. The value before them need not be a weight."""
    loop = "return (x + h * 1.5).relu().clamp(min=0).relu().clamp(min=0).relu().clamp(min=0).relu() @ self.u.weight"
    event = only_event(run(library, CELL.format(line=f"{loop}  # born here")))
    assert "at the beginning" not in (event.cause or "")


@runs
def test_weight_norm_names_the_row_of_zeros_and_its_remedy_mends_the_model(steps: bool) -> None:
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), nn.ReLU())
    with torch.no_grad():
        net[0].parametrizations.weight.original1[1].zero_()
    with rg.anomaly.watch(net, policy="record") as w:
        for _ in w.steps([0]) if steps else [0]:
            net(torch.ones(2, 3)).sum().backward()
    event = only_event(w)
    assert "A row of v (row 1 here) is all zeros" in (event.cause or "")
    assert "Run the line above once" in " ".join(format_event(event).split())
    exec(event.remedy or "", {"net": net})
    assert net(torch.ones(2, 3)).isfinite().all(), "the remedy does not help"


CLIPPING_BY_HAND = """
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
torch.relu(w - 500).sum().backward()
total = torch.sqrt((w.grad ** 2).sum())
w.grad.mul_(1.0 / total)  # born here
optimizer.step()
"""


@libraries
def test_clipping_by_hand_with_a_norm_of_zero_is_mended_without_a_mask(library: str) -> None:
    event = only_event(run(library, CLIPPING_BY_HAND, steps=True))
    assert (event.lineno, event.born) == (line(CLIPPING_BY_HAND), "Inf")
    assert "where w.grad is 0" not in (event.cause or "")
    remedy = (event.remedy or "").removesuffix("  # born here").replace("rg.", "torch.")
    fixed = CLIPPING_BY_HAND.replace("w.grad.mul_(1.0 / total)", remedy)
    assert fixed != CLIPPING_BY_HAND
    assert not run(library, fixed, steps=True).events


def test_zero_infinity_is_set_in_the_line_that_makes_the_ctc_layer() -> None:
    """The line of the birth only calls the layer."""
    text = (
        "torch.manual_seed(0)\nx = torch.randn(2, 1, 4, requires_grad=True)\n"
        "class Model:\n    pass\nmodel = Model()\nmodel.ctc = torch.nn.CTCLoss(blank=3)\n"
        "t, il, tl = torch.tensor([[1, 2, 1]]), torch.tensor([2]), torch.tensor([3])\n"
        "loss = model.ctc(x.log_softmax(-1), t, il, tl)  # born here\nloss.backward()"
    )
    for steps in (False, True):
        event = only_event(run("torch", text, steps))
        assert event.op == "ctc_loss"
        assert event.remedy == "model.ctc = torch.nn.CTCLoss(blank=3, zero_infinity=True)"
        assert "Change line 6 as above" in format_event(event)
    mended = text.replace("model.ctc = torch.nn.CTCLoss(blank=3)", event.remedy)
    assert run("torch", mended).event is None


@libraries
@pytest.mark.parametrize("steps", [False, True])
def test_zero_by_zero_before_dropout_is_not_blamed_on_the_dropped_elements(library: str, steps: bool) -> None:
    """0/0 is NaN with and without the dropout, and the user's line has no mask."""
    text = (
        "x = torch.tensor([[1.0, 2.0], [0.0, 0.0]], requires_grad=True)\n"
        "keep = torch.tensor([2.0, 0.0, 2.0, 2.0])\n"
        "q = x / x.abs().sum(1, keepdim=True)  # born here\n"
        "h = q.reshape(-1) * keep\nloss = h.sum()\nloss.backward()"
    )
    event = only_event(run(library, text, steps))
    assert (event.op, event.index) == ("div", (1, 0))
    assert diagnose(event).number != 30


@libraries
@pytest.mark.parametrize("product", ["d[:, None] * adjacency * d[None]", "d[:, None] * (adjacency * d)"])
@pytest.mark.parametrize("power", ["degree.pow(-0.5)", "degree.rsqrt()", "1 / degree.sqrt()"])
def test_the_remedy_for_a_degree_of_zero_has_the_shape_of_the_degrees(library: str, product: str, power: str) -> None:
    """The factor that is 0 is a matrix, and may depend on the number that the remedy changes."""
    text = (
        "w = torch.ones(4, 4, requires_grad=True)\nscale = torch.ones(4, requires_grad=True)\n"
        "adjacency = torch.tensor([[0.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])\n"
        f"degree = adjacency.sum(1) * scale\nd = {power}  # born here\n"
        f"loss = (({product}) @ w).pow(2).sum()\nloss.backward()"
    )
    event = only_event(run(library, text, steps=True))
    assert event.lineno == line(text)
    remedy = (event.remedy or "").removesuffix("  # born here").replace("rg.", "torch.")
    mended = text.replace(f"d = {power}  # born here", remedy)
    assert mended != text
    assert not run(library, mended, steps=True).events, remedy


@libraries
def test_the_loss_of_an_empty_batch_does_not_advise_ignored_targets(library: str) -> None:
    """An empty batch has no target that could be ignored."""
    text = (
        "x = torch.ones(4, 3, requires_grad=True)[4:]\n"
        "loss = F.cross_entropy(x, torch.zeros(0, dtype=torch.int64))  # born here\nloss.backward()"
    )
    event = only_event(run(library, text))
    assert (event.lineno, diagnose(event).number) == (line(text), 41)
    assert "batch is empty" in event.cause
    assert "ignore" not in event.cause


NUMBERS = ["count = 1", "count = 1.0", "count = torch.tensor(1)"]


@libraries
@pytest.mark.parametrize("number", NUMBERS)
def test_the_remedy_for_a_divisor_that_is_a_python_number_runs(number: str, library: str) -> None:
    """``where`` does not take a Python number as its condition."""
    leaf = "x = torch.ones(2, requires_grad=True)"
    text = f"{number}\n{leaf}\nloss = (x * 2 / (count - 1)).sum()  # born here\nloss.backward()"
    event = only_event(run(library, text))
    assert (event.op.removesuffix("Backward0").lower(), event.lineno) == ("div", line(text))
    lines = text.splitlines()
    lines[2] = (event.remedy or "").replace("rg.", "torch.")
    assert run(library, "\n".join(lines)).events == ()
    healthy = "\n".join(lines).replace(" 1\n", " 3\n").replace("1.0", "3.0").replace("tensor(1)", "tensor(3)")
    assert run(library, f"{healthy}\nassert loss.item() == 2\nassert x.grad.tolist() == [1, 1]").events == ()


ATTENTION_IN_HALF = """
q = torch.full((2, 4), 200.0, dtype=torch.float16, requires_grad=True)
v = torch.ones(2, 3, dtype=torch.float16)
scores = q @ q.T  # born here
weights = torch.softmax(scores, 1)
loss = (weights @ v).sum()
loss.backward()
"""


@libraries
def test_the_remedy_in_float32_says_where_to_return_to_float16(library: str) -> None:
    """The product that follows refuses operands of different dtypes."""
    event = only_event(run(library, ATTENTION_IN_HALF))
    assert event.remedy is not None
    assert event.code_line is not None
    better = ATTENTION_IN_HALF.replace(event.code_line, event.remedy)
    with pytest.raises(RuntimeError, match="dtype"):
        run(library, better)
    assert "back to float16 (.half())" in (event.cause or "")
    assert not run(library, better.replace("(scores, 1)", "(scores, 1).half()")).events


SOFTMAX_PICKED = """
logits = torch.tensor([[1.0, 200.0, 2.0]], requires_grad=True)
e = torch.exp(logits)  # born here
p = e / e.sum(1, keepdim=True)
loss = -torch.log(p[0, 0] + 1e-8)
loss.backward()
"""


@libraries
def test_a_nan_in_the_gradient_of_a_quotient_is_blamed_on_the_exponential(library: str) -> None:
    """The loss is finite. The quotient kept the infinity for its derivative, and so its gradient is NaN."""
    event = only_event(run(library, SOFTMAX_PICKED))
    assert (event.op, event.lineno) == ("exp", line(SOFTMAX_PICKED))
    assert "Subtracting the largest x first" in (event.cause or "")
    assert event.remedy is not None
    assert event.code_line is not None
    assert not run(library, SOFTMAX_PICKED.replace(event.code_line, event.remedy)).events


GROWING_STATE = """
torch.manual_seed(0)
cell, head, h = torch.nn.Linear(12, 8), torch.nn.Linear(8, 1), torch.zeros(3, 8)
with torch.no_grad():
    cell.weight.mul_(20)
states = []
for x in torch.randn(40, 3, 4):
    h = cell(torch.cat([x, h], 1)).relu()
    states.append(h)
hidden = torch.stack(states)
loss = head(hidden)[-1].square().mean()  # born here
loss.backward()
"""


@libraries
def test_a_state_that_grows_over_a_loop_is_recognised_behind_stack(library: str) -> None:
    event = only_event(run(library, GROWING_STATE))
    assert event.lineno == line(GROWING_STATE)
    cause = event.cause or ""
    assert f"The 40 tensors that stack in line {event.lineno - 1} puts together" in cause
    assert "singular value" in cause


@pytest.mark.parametrize(
    ("text", "guilty", "remedy"),
    [
        (
            "x = torch.tensor([4.0, 0.0], requires_grad=True)\nloss = F.mse_loss(\n    torch.log(  # of a size\n"
            "        x.abs(),  # not negative\n    ),\n    torch.ones(2),\n)\nloss.backward()",
            "torch.log( x.abs(), )",
            "torch.log( torch.clamp(x.abs(), min=1e-12), )",
        ),
        (
            "x = torch.tensor([4.0, 0.0], requires_grad=True)\ny = (x\n     # 'in thousands', \"as it were\"\n"
            "     / x)\ny.sum().backward()",
            "x / x",
            "x / rg.where(x == 0, 1.0, x)",
        ),
    ],
    ids=["call", "quotient"],
)
def test_comments_within_a_statement_are_left_out_of_the_line_and_the_remedy(
    text: str, guilty: str, remedy: str
) -> None:
    """A comment would hide the rest of the statement once its lines are joined."""
    event = only_event(run("retrograd", text))
    assert event.code_line is not None
    assert "#" not in event.code_line
    assert event.code_line[event.col : event.end_col] == guilty
    assert remedy in (event.remedy or "")
    assert "#" not in (event.remedy or "")


SECOND = """
x = torch.linspace(0, 1, 5).requires_grad_()
a = torch.tensor(1.5, requires_grad=True)
u = UNKNOWN  # born here
(slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
(curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
(curvature - 1).pow(2).mean().backward()
"""


@runs
@pytest.mark.parametrize(("unknown", "op"), [("torch.sqrt(a * x)", "sqrt"), ("a * x**1.5", "pow")])
def test_a_second_derivative_is_mended_in_the_line_of_the_function(unknown: str, op: str, steps: bool) -> None:
    """The line that asks for the derivative is not at fault."""
    text = SECOND.replace("UNKNOWN", unknown)
    event = run("retrograd", text, steps).events[0]
    assert (event.op, event.index, event.lineno) == (f"{op.title()}Backward0", (0,), line(text))
    assert (event.remedy_lineno or event.lineno) == line(text)
    assert "+ 1e-12" in (event.remedy or "")
    assert "inside" not in (event.note or "")


def test_an_operation_of_a_second_derivative_is_described_as_one() -> None:
    text = SECOND.replace("UNKNOWN", "torch.sqrt(a * x)")
    event = run("retrograd", text).events[1]
    assert (event.op, event.lineno, event.remedy) == ("div", line(text), None)
    assert f"The derivative of what line {line(text)} computes" in (event.cause or "")
    assert "div of a derivative" in str(event)


def test_a_remedy_that_does_not_use_the_names_of_the_line_replaces_no_line() -> None:
    """The program calls the quotient under a name of its own."""
    text = """
def hook(grad):
    return quotient(grad, x.detach() * 0)
quotient = torch.true_divide
x = torch.tensor([1.0], requires_grad=True)
h = x * 2
h.register_hook(hook)
h.sum().backward()
"""
    event = only_event(run("retrograd", text))
    assert event.remedy is not None
    assert ("quotient" in event.remedy) == (event.remedy_lineno is not None)
