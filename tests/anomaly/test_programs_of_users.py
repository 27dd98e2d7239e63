"""Programs as people write them, with what a report must say: operation, line, element, and row of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, NaNEvent, diagnose
from tests.anomaly.disguises import HERE, marked_line, watched

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")


@dataclass(frozen=True)
class Found:
    """A program, and the event that must be found in it."""

    op: str
    index: tuple[int, ...] | None
    row: int | str
    remedy: str | None  # what the remedy must hold
    code: str
    setup: str = ""


def x(values: str, name: str = "x", dtype: str = "float32") -> str:
    return f"{name} = torch.tensor({values}, requires_grad=True, dtype=torch.{dtype})"


HALF = "float16"

PROGRAMS = [
    # generative models
    Found("log", (0, 0), 7, "logsigmoid", """
d = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Sigmoid())
d[2].bias.data.fill_(-200.0)
loss = -torch.log(d(torch.randn(4, 2))).mean()  # born here
"""),
    Found("log", (0, 0), 8, "logsigmoid(-", """
real, fake = torch.sigmoid(x), torch.sigmoid(x * 100)
loss = -(torch.log(real) + torch.log(1 - fake)).mean()  # born here
""", x("[[2.0]]")),
    Found("exp", (0, 0), 27, "logvar.clamp(max=80.0)", """
mu = torch.randn(2, 2)
loss = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())  # born here
""", x("[[100.0, 0.0], [1.0, 2.0]]", "logvar")),
    Found("log", (0,), "log taken too late, after an underflow or overflow", "where(h < -40, h, ", """
sigma = F.softplus(h)
loss = (sigma**2 - 2 * torch.log(sigma) - 1).sum() / 2  # born here
""", x("[-300.0, 1.0]", "h")),
    Found("SqrtBackward0", (0,), 13, "rg.linalg.vector_norm(g, dim=1)", """
d = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
d[0].bias.data.fill_(-100.0)
points = torch.randn(3, 2, requires_grad=True)
(g,) = torch.autograd.grad(d(points).sum(), points, create_graph=True)
loss = ((g.pow(2).sum(1).sqrt() - 1) ** 2).mean()  # born here
"""),
    # classification
    Found("log", (0, 0), 4, "log_softmax(logits, dim=-1)", """
probs = F.softmax(logits, dim=-1)
chosen = torch.log(probs.gather(1, torch.tensor([[1], [0]])))  # born here
loss = -chosen.mean()
""", x("[[0.0, -500.0], [1.0, 2.0]]", "logits")),
    Found("log", (0, 1), 4, "log_softmax(logits, dim=-1)", """
p = F.softmax(logits, dim=-1)
loss = (p * p.log()).sum(-1).mean()  # born here
""", x("[[0.0, -500.0], [1.0, 2.0]]", "logits")),
    Found("log", (0,), 4, "log_softmax", """
e = z.exp()
p = e / e.sum(-1, keepdim=True)
loss = -p[:, 0].log().mean()  # born here
""", x("[[1.0, 200.0]]", "z")),
    Found("exp", (0, 0), 5, "amax", """
sim = torch.exp(z @ z.T / 1e-3)  # born here
loss = -torch.log(sim.diag() / sim.sum(1)).mean()
""", x("[[1.0, 0.0], [0.0, 1.0]]", "z")),
    Found("log", (1,), 1, "clamp(p", """
loss = -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()  # born here
""", x("[1.0, 0.0]", "p") + "; t = torch.tensor([0.0, 1.0])"),
    Found("log", (0,), 7, "logsigmoid(logit)", """
p = torch.sigmoid(logit)
loss = (-((1 - p) ** 2) * torch.log(p)).mean()  # born here
""", x("[-120.0, 2.0]", "logit")),
    Found("PowBackward0", (0,), 21, "+ 1e-12", """
p = torch.sigmoid(logit)
loss = ((1 - p) ** 0.5 * F.softplus(-logit)).mean()  # born here
""", x("[40.0, 2.0]", "logit")),
    Found("div", (0,), 32, "== 0", """
dice = 2 * (p * t).sum(1) / (p.sum(1) + t.sum(1))  # born here
loss = (1 - dice).mean()
""", x("[[0.0, 0.0], [1.0, 0.0]]", "p") + "; t = torch.tensor([[0.0, 0.0], [1.0, 1.0]])"),
    Found("div", (0, 0), 32, "where(tau == 0", """
loss = F.cross_entropy(z / tau, torch.tensor([0, 1]))  # born here
""", x("[[1.0, 2.0], [3.0, 4.0]]", "z") + "; " + x("[0.0]", "tau")),
    Found("cross_entropy", (), 54, "clamp(w", """
loss = F.cross_entropy(z, torch.tensor([0, 0]), weight=w)  # born here
""", x("[[1.0, 2.0], [3.0, 4.0]]", "z") + "; w = torch.tensor([0.0, 1.0])"),
    Found("exp", (0,), 31, "clamp(a, max=80.0)", """
loss = (a.exp() - b.exp()).sum()  # born here
""", x("[100.0, 1.0]", "a") + "; " + x("[99.0, 1.0]", "b")),
    # reinforcement learning
    Found("log", (0,), 39, "softplus(-2 * mu)", """
a = torch.tanh(mu)
loss = -torch.log(1 - a.pow(2)).sum()  # born here
""", x("[30.0, 0.1]", "mu")),
    Found("div", (0, 0), 16, "rg.sqrt(adv.var(0) + 1e-5)", """
norm = (adv - adv.mean(0)) / adv.std(0)  # born here
loss = (norm * w).sum()
""", x("[1.0, 2.0]", "w") + "; adv = torch.tensor([[1.0, 2.0], [1.0, 3.0]])"),
    Found("std", (0, 0), 17, "correction=0", """
y = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)  # born here
loss = y.sum()
""", x("[[1.0], [2.0]]")),
    # likelihoods
    Found("div", (0,), 35, "where(s == 0, ", """
loss = (0.5 * ((1.0 - mu) / s) ** 2 + torch.log(s)).mean()  # born here
""", x("[0.0, 0.0]", "mu") + "; " + x("[0.0, 1.0]", "s")),
    Found("div", (0,), 35, None, """
d = torch.distributions.Normal(mu, log_sigma.exp())
loss = -d.log_prob(torch.tensor([1e3, 1e3])).mean()  # born here
""", x("[0.0, 0.0]", "mu") + "; " + x("[-60.0, 0.0]", "log_sigma")),
    Found("lgamma", (0, 0), 55, "lgamma", """
d = torch.distributions.Beta(a, torch.ones(2), validate_args=False)
loss = -d.log_prob(torch.tensor([0.5, 0.5])).sum()  # born here
""", x("[0.0, 1.0]", "a")),
    Found("log", (0, 0), 30, None, """
q = torch.tensor([[0.0, 1.0]])
logp = torch.log(p)  # born here
loss = F.kl_div(logp, q, reduction="batchmean")
""", x("[[0.0, 1.0]]", "p")),
    # geometry and physics
    Found("SqrtBackward0", (0, 0), 37, "+ 1e-12", """
diff = pos[:, None] - pos[None, :]
r = torch.sqrt((diff**2).sum(-1))  # born here
loss = (r - 1.0).pow(2).sum()
""", x("[[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]", "pos")),
    Found("DivBackward0", (0, 0), "division by the distance of equal points", "rg.clamp(r, min=1e-12)", """
r = torch.cdist(pos, pos)
loss = (1.0 / r).triu(1).sum()  # born here
""", x("[[0.0, 0.0], [1.0, 1.0]]", "pos")),
    Found("div", (0, 0), 14, "norm(dim=-1, keepdim=True) == 0, 1.0", """
unit = q / q.norm(dim=-1, keepdim=True)  # born here
loss = unit.sum()
""", x("[[0.0, 0.0, 0.0, 0.0]]", "q")),
    Found("div", (0,), 15, "cosine_similarity(a, b, dim=-1)", """
sim = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))  # born here
loss = (1 - sim).mean()
""", x("[[0.0, 0.0], [1.0, 2.0]]", "a") + "; b = torch.tensor([[1.0, 2.0], [3.0, 4.0]])"),
    Found("acos", (0,), 25, "clamp(c", """
c = (a * a).sum(1) * 1.0000002
loss = torch.acos(c).sum()  # born here
""", x("[[1.0, 0.0]]", "a")),
    Found("pow", (1,), 22, "rg.sign(v) * rg.abs(v) ** 2.2", """
loss = (v**2.2).mean()  # born here
""", x("[1.0, -0.3]", "v")),
    Found("PowBackward0", (1,), 21, "+ 1e-12", """
loss = (image ** (1 / 2.2)).mean()  # born here
""", x("[0.5, 0.0]", "image")),
    Found("linalg_slogdet", (), 42, "eye(", """
centred = points - points.mean(0)
cov = centred.T @ centred / 2
sign, volume = torch.linalg.slogdet(cov)  # born here
loss = volume
""", x("[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]", "points")),
    Found("div", (1,), 32, "== 0", """
K = torch.exp(-cost * 1e4) * torch.tensor([[1.0, 1.0], [0.0, 0.0]])
v = torch.ones(2)
for _ in range(3):
    u = 0.5 / (K @ v)  # born here
    v = 0.5 / (K.T @ u)
loss = (u[:, None] * K * v).sum()
""", x("[[0.0, 1.0], [1.0, 0.0]]", "cost")),
    Found("div", (0,), 14, "where(v.norm() == 0, 1.0, v.norm())", """
v = torch.ones(2)
for _ in range(3):
    v = A @ v
    v = v / v.norm()  # born here
loss = v @ A @ v
""", x("[[0.0, 0.0], [0.0, 0.0]]", "A")),
    # recurrences, depth, size
    Found("matmul", (0,), 51, "h = (h := w @ h) / h.norm()", """
h = torch.ones(2)
for _ in range(60):
    h = w @ h  # born here
loss = h.sum()
""", x("[[1e3, 1e3], [1e3, 1e3]]", "w")),
    Found("matmul", (0,), 51, None, """
h = torch.ones(2)
for _ in range(60):
    h = torch.relu(w @ h + 1)  # born here
loss = h.sum()
""", x("[[1e3, 1e3], [1e3, 1e3]]", "w")),
    Found("MatmulBackward0", (0,), 51, "detach", """
h = torch.zeros(2)
for _ in range(60):
    h = w @ h  # born here
loss = h.sum()
""", x("[[1e3, 0.0], [0.0, 1e3]]", "w")),
    Found("pow", (1,), 51, "clamp(s", """
s = s0
for _ in range(12):
    s = s + 0.5 * s**2  # born here
loss = s.sum()
""", x("[2.0, 3.0]", "s0")),
    Found("rnn_relu", None, 51, 'rnn = torch.nn.RNN(input_size, hidden_size, nonlinearity="tanh")', """
rnn = torch.nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
rnn.weight_hh_l0.data.fill_(100.0)
out, _ = rnn(torch.rand(2, 80, 3))  # born here
loss = out.sum()
"""),
    Found("linear", (0, 0), 53, None, """
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
net[0].weight.data.mul_(1e38)
loss = net(torch.ones(3, 4) * 100).sum()  # born here
"""),
    Found("layer_norm", (0, 0), 52, "amax(-1, keepdim=True)", """
loss = F.layer_norm(h, (3,)).sum()  # born here
""", x("[[3e38, 3e38, 3e38]]", "h")),
    Found("scaled_dot_product_attention", (0, 0, 0, 0), 53, None, """
q = torch.ones(1, 1, 3, 4)
loss = F.scaled_dot_product_attention(q, q, v).sum()  # born here
""", "v = torch.full((1, 1, 3, 4), 3.4e38).requires_grad_()"),
    # masks and selections
    Found("softmax", (0, 2, 0), 19, "rg.isneginf(s)", """
keep = torch.tensor([[True, True, True], [True, True, True], [False, False, False]])
s = (q @ q.transpose(1, 2)).masked_fill(~keep, float("-inf"))
loss = s.softmax(-1).square().sum()  # born here
""", x("[[[1.0], [2.0], [3.0]]]", "q")),
    Found("softmax", (1, 0, 0, 0), 19, None, """
attention = torch.nn.MultiheadAttention(4, 1, batch_first=True)
h = torch.randn(2, 3, 4)
padding = torch.tensor([[False, False, True], [True, True, True]])
loss = attention(h, h, h, key_padding_mask=padding)[0].sum()  # born here
"""),
    Found("div", (), 18, "where(w.sum() == 0, 1.0, w.sum())", """
w = torch.zeros(3)
loss = (w * v).sum() / w.sum()  # born here
""", x("[1.0, 2.0, 3.0]", "v")),
    Found("div", (0, 0), 32, "shares.abs().sum() == 0, 1.0", """
shares = v.reshape(2, 2).sum(1, keepdim=True) * 0.0
shares = shares.sum(1, keepdim=True)
loss = (shares / shares.abs().sum()).sum()  # born here
""", x("[1.0, 2.0, 3.0, 4.0]", "v")),
    Found("div", (), 32, "gate.sum() == 0, 1.0", """
gate = torch.relu(v)
loss = (gate * v).sum() / gate.sum()  # born here
""", x("[-1.0, -2.0, -3.0]", "v")),
    Found("mean", (), 18, "max(", """
hard = losses[losses > 9]
loss = hard.mean()  # born here
""", x("[1.0, 2.0]", "losses")),
    # half precision
    Found("matmul", (0, 0), 28, "h.float()", """
scores = h @ h.T  # born here
loss = scores.softmax(-1).square().sum()
""", x("[[300.0, 1.0], [300.0, 2.0]]", "h", HALF)),
    Found("mul", (), 28, "float()", """
loss = (w * 10).sum() * 65504.0  # born here
""", x("[1.0, 1.0]", "w", HALF)),
    Found("div", (0, 0), 29, "1e-3", """
loss = (h / (h.norm(dim=1, keepdim=True) + 1e-8)).sum()  # born here
""", x("[[0.0, 0.0]]", "h", HALF)),
    Found("to_copy", (0,), 28, "clamp(min=-65504, max=65504)", """
loss = h.half().float().sum()  # born here
""", x("[1e6, 1.0]", "h")),
    # in-place, views, functions, threads, batches
    Found("log", (1,), 1, "clamp", """
h = v * 1
h.clamp_(min=0)
h.log_()  # born here
loss = h.sum()
""", x("[1.0, -1.0]", "v")),
    Found("div", (0, 0), 14, "h.norm(dim=1, keepdim=True).detach()", """
h = v * 0
h /= h.norm(dim=1, keepdim=True).detach()  # born here
loss = h.sum()
""", x("[[1.0, 2.0]]", "v")),
    Found("div", (0,), 32, None, """
h = v * 1
h[1] /= torch.zeros(2)  # born here
loss = h.sum()
""", x("[[1.0, 2.0], [3.0, 4.0]]", "v")),
    Found("log", (1,), 1, "clamp", """
loss = torch.vmap(lambda row: torch.log((row * w).sum()))(torch.tensor([[1.0, 2.0], [0.0, 0.0]])).sum()  # born here
""", x("[1.0, 1.0]", "w")),
    Found("log", (0, 0), 1, "clamp", """
def block(h):
    return torch.log(0 * torch.relu(h))  # born here
loss = torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False).sum()
""", x("[[1.0, 2.0]]", "h")),
    Found("log", (1,), 1, "clamp", """
import threading
found = {}
def work():
    found["loss"] = torch.log(v).sum()  # born here
thread = threading.Thread(target=work)
thread.start()
thread.join()
loss = found["loss"]
""", x("[1.0, 0.0]", "v")),
    Found("remainder", (0,), 32, "rg.where(", """
loss = (v % period).sum()  # born here
""", x("[5.0, 3.0]", "v") + "; period = torch.tensor([0.0, 2.0])"),
    Found("round", (0,), 53, None, """
loss = v.round(decimals=20).sum()  # born here
""", x("[1e30, 1.0]", "v")),
    Found("div", (0,), 32, "== 0", """
root = v
for _ in range(3):
    root = root - (root**3 - root) / (3 * root**2 - 3)  # born here
loss = root.sum()
""", x("[1.0]", "v")),
    Found("sqrt", (), "argument outside the function's domain", "clamp", """
var = (v**2).mean() - v.mean() ** 2 - 1e-4
loss = torch.sqrt(var)  # born here
""", x("[0.1, 0.1]", "v")),
]  # fmt: skip


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
@pytest.mark.parametrize("program", PROGRAMS, ids=[each.code.strip().splitlines()[-1][:60] for each in PROGRAMS])
def test_operation_line_row_and_remedy_are_exact(program: Found, steps: bool) -> None:
    rg.manual_seed(0)
    assert HERE in program.code
    event = watched(program.setup, program.code, steps=steps)[0]
    found = diagnose(event)
    assert (event.op, event.lineno) == (program.op, marked_line(program.code)), f"{event}\n{found}"
    assert (found.number or found.title) == program.row, f"{event}\n{found}"
    assert program.index is None or event.index == program.index
    assert program.remedy is None or program.remedy in (found.remedy or ""), found.remedy


def events_of(train: str, **options: object) -> tuple[NaNEvent, ...]:
    rg.manual_seed(0)
    with rg.anomaly.watch(policy="record") as w:
        exec(train, {"torch": rg, "F": rg.nn.functional, "w": w, **options})
    return w.events


SCHEDULE = """
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=3.0)
data = torch.randn(8, 2)
for _ in range(80):
    if w.events:
        break
    optimizer.zero_grad()
    (model(data) - 1).pow(2).mean().backward()
    optimizer.step()
    schedule.step()
"""


def test_a_learning_rate_raised_by_a_schedule_is_named_with_the_first_rate() -> None:
    """The optimizer is known although the watch was not given it, with the rate that it has now."""
    event = events_of(SCHEDULE)[0]
    assert diagnose(event).number == 47
    assert "(the schedule began with 0.01)" in (event.cause or "")
    assert "torch" not in (event.remedy or "")


SELECTION = """
weight = torch.tensor([1.0], requires_grad=True)
for step in range(5):
    (weight * 100.0**step).sum().backward()
    weight.grad = None
chosen = weight[weight > 5]
chosen.mean().backward()
"""


def test_a_nan_after_growth_is_not_always_taken_for_a_runaway() -> None:
    assert diagnose(events_of(SELECTION)[0]).number == 18


AVERAGES = """
layer = torch.nn.BatchNorm1d(2)
layer.running_var[1] = float("nan")
layer.eval()
layer(torch.randn(4, 2)).sum().backward()
"""


def test_a_nan_in_a_running_average_is_reset() -> None:
    event = events_of(AVERAGES)[0]
    assert (event.kind, event.index, diagnose(event).number) == ("leaf", (1,), 50)
    assert event.remedy == "layer.reset_running_stats()"


def test_state_carried_over_between_steps_does_not_hide_the_first_birth() -> None:
    w = rg.anomaly.watch(policy="record")
    state = rg.tensor([1.0, 0.0])
    weight = rg.ones(2, requires_grad=True)
    with w:
        for _ in w.steps([0]):
            state = state / (state * weight).sum() / rg.tensor([1.0, 0.0])
            state.sum().backward()
            state = state.detach()
    assert w.event is not None
    assert (w.event.op, w.event.reproducible) == ("div", False)
    assert "carries something" in (w.event.note or "")


def test_an_overwritten_operand_is_shown_as_it_was() -> None:
    """``norm`` has saved the array of ``h``, and that holds other numbers by now."""
    v = rg.tensor([[1.0, 2.0]], requires_grad=True)
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch():
        h = v * 0
        h /= h.norm(dim=1, keepdim=True)
        h.sum().backward()
    event = raised.value.event
    assert isinstance(event, NaNEvent)
    assert (event.op, event.operands) == ("div", {"input": 0.0, "other": 0.0})


MAKING = """
for _ in w.steps([0]):
    raw = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    batch = (raw - 1) / 2
    (batch @ weight).sum().backward()
"""


def test_data_prepared_within_the_step_is_reported_as_data() -> None:
    event = events_of(MAKING, weight=rg.ones(2, requires_grad=True))[0]
    assert (event.kind, event.index, event.reproducible) == ("leaf", (0, 1), True)
