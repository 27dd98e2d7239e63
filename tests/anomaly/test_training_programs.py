"""Short training programs with a fault, in retrograd and in PyTorch: what is found, element and remedy with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from retrograd.anomaly import diagnose
from tests.anomaly.both import libraries, line, run, runs


@dataclass(frozen=True)
class Fault:
    """A program, and what is to be found in it with either library."""

    op: str
    index: tuple[int, ...] | None
    row: int | str
    remedy: str
    code: str


LATE = "log taken too late, after an underflow or overflow"
PROGRAMS = {
    # generative models
    "variational autoencoder": Fault("exp", (0, 0), 27, "torch.exp(torch.clamp(0.5 * logvar, max=", """
encoder = nn.Linear(4, 6)
encoder.bias.data[3:] += 200.0
mu, logvar = encoder(torch.randn(5, 4)).chunk(2, dim=1)
std = torch.exp(0.5 * logvar)  # born here
z = mu + std * torch.randn(5, 3)
divergence = -0.5 * (1 + logvar - mu**2 - torch.exp(logvar)).sum(1).mean()
(z.pow(2).mean() + divergence).backward()
"""),
    "adversarial loss": Fault("log", (0, 0), 8, "logsigmoid(-", """
critic = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())
critic[0].bias.data += 100.0
fake = torch.randn(3, 2)
loss = -(torch.log(critic(fake)) + torch.log(1 - critic(fake))).mean()  # born here
loss.backward()
"""),
    "gradient penalty": Fault("SqrtBackward0", (0,), 13, "linalg.vector_norm(g, dim=1)", """
critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
critic[0].bias.data.fill_(-1.0)
x = torch.zeros(3, 2, requires_grad=True)
(g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
size = torch.sqrt((g**2).sum(1))  # born here
loss = ((size - 1) ** 2).mean()
loss.backward()
"""),
    "flow whose scale underflows": Fault(
        "div", (0, 1), "division by an exponential that underflowed", "torch.exp(torch.clamp(s, min=-80.0))", """
s = torch.tensor([[1.0, -200.0], [0.5, 0.3]], requires_grad=True)
x = torch.ones(2, 2)
scale = torch.exp(s)
z = x / scale  # born here
loss = (0.5 * z.pow(2).sum(1) + torch.log(scale).sum(1)).mean()
loss.backward()
"""),
    "flow whose matrix turns over": Fault(
        "logdet", (1,), "logarithm of a negative determinant", "torch.linalg.slogdet(w).logabsdet.sum()", """
w = torch.tensor([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
loss = -torch.logdet(w).sum()  # born here
loss.backward()
"""),
    "the log of a determinant": Fault("log", (), "logarithm of a negative determinant", "torch.linalg.slogdet(w)", """
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
loss = torch.log(torch.linalg.det(w))  # born here
loss.backward()
"""),
    "sign and log put together": Fault("log", (), "logarithm of a negative determinant", "torch.linalg.slogdet(w)", """
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
sign, size = torch.linalg.slogdet(w)
loss = torch.log(sign * torch.exp(size))  # born here
loss.backward()
"""),
    # classification and retrieval
    "focal loss": Fault("log", (0,), 4, "torch.log_softmax(logits, dim=-1)", """
logits = torch.tensor([[90.0, -90.0]], requires_grad=True)
p = torch.softmax(logits, dim=-1)
chosen = p[torch.arange(1), torch.tensor([1])]
loss = (-((1 - chosen) ** 2) * torch.log(chosen)).mean()  # born here
loss.backward()
"""),
    "contrastive loss at a low temperature": Fault("exp", (0,), 4, "- torch.logsumexp(similar, dim=1)", """
z = torch.randn(4, 3, requires_grad=True)
similar = F.cosine_similarity(z[:, None], z[None], dim=-1) / 0.001
positive = torch.exp(similar.diagonal())  # born here
loss = -torch.log(positive / torch.exp(similar).sum(1)).mean()
loss.backward()
"""),
    "cosine of a zero vector": Fault("div", (0,), 15, "cosine_similarity(a, b, dim=1)", """
a = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
b = torch.tensor([[1.0, 1.0], [1.0, 2.0]])
similar = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))  # born here
(1 - similar).mean().backward()
"""),
    "expectation of a softmax by hand": Fault("exp", (0, 2), 5, "w = torch.softmax(x, dim=1)", """
x = torch.tensor([[1.0, 2.0, 300.0]], requires_grad=True)
w = torch.exp(x) / torch.exp(x).sum(1, keepdim=True)  # born here
(w * torch.arange(3.0)).sum().backward()
"""),
    "divergence with zeros": Fault("div", (0, 2), 34, "q.clamp(min=1e-12)", """
p = torch.tensor([[0.5, 0.5, 0.0]])
q = torch.tensor([[0.5, 0.5, 0.0]], requires_grad=True)
loss = (p * (p / q).log()).sum()  # born here
loss.backward()
"""),
    "probability above one": Fault("log", (0,), 2, "clamp(1 - p, min=1e-12)", """
p = torch.tensor([1.0001, 0.5], requires_grad=True)
y = torch.tensor([1.0, 0.0])
loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # born here
loss.backward()
"""),
    "log of an odds ratio": Fault("log", (0,), 8, "logsigmoid(-", """
logits = torch.tensor([50.0, 0.0], requires_grad=True)
p = torch.sigmoid(logits)
loss = (torch.log(p) - torch.log(1 - p)).sum()  # born here
loss.backward()
"""),
    # counts and selections
    "no valid sample": Fault("div", (), 18, "clamp(valid.sum(), min=1)", """
losses = torch.tensor([1.0, 2.0], requires_grad=True)
valid = torch.tensor([False, False])
loss = losses[valid].sum() / valid.sum()  # born here
loss.backward()
"""),
    "pooling of padding alone": Fault("div", (1, 0), 18, "min=1)", """
embedding = nn.Embedding(10, 4, padding_idx=0)
tokens = torch.tensor([[1, 2, 0], [0, 0, 0]])
mask = (tokens != 0).float()
pooled = (embedding(tokens) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)  # born here
pooled.pow(2).sum().backward()
"""),
    "coefficient of determination of a constant": Fault("div", (), "relative error where the data are zero", "== 0", """
y = torch.tensor([1.0, 2.0], requires_grad=True)
target = torch.tensor([2.0, 2.0])
loss = ((y - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()  # born here
loss.backward()
"""),
    "log of the mean of nothing": Fault("mean", (), 18, "max(chosen.numel(), 1)", """
scores = torch.tensor([0.2, 0.7], requires_grad=True)
chosen = scores[scores > 0.9]
loss = torch.log(chosen.mean())  # born here
loss.backward()
"""),
    # geometry
    "distances to oneself": Fault("SqrtBackward0", (0, 0), 37, "+ 1e-12).sqrt()", """
x = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], requires_grad=True)
d = (x[:, None] - x[None]).pow(2).sum(-1).sqrt()  # born here
torch.exp(-d).sum().backward()
"""),
    "angle between equal vectors": Fault("AcosBackward0", (), 24, "min=-1 + 1e-6, max=1 - 1e-6", """
a = torch.tensor([1.0, 0.0, 0.0], requires_grad=True)
b = torch.tensor([1.0, 0.0, 0.0])
angle = torch.acos((a * b).sum())  # born here
angle.backward()
"""),
    "gamma correction that is learned": Fault("pow", (1,), 22, "** gamma", """
x = torch.tensor([2.0, -1.0], requires_grad=True)
gamma = torch.tensor(1 / 2.2, requires_grad=True)
(x**gamma).mean().backward()  # born here
"""),
    "anchor of zeros": Fault("div", (0, 0), 14, "+ 1e-12)", """
anchor = torch.zeros(2, 3, requires_grad=True)
unit = anchor / torch.sqrt((anchor**2).sum(1, keepdim=True))  # born here
unit.sum().backward()
"""),
    # weights, steps, sizes
    "spectral norm by hand": Fault("div", (0, 0), 32, "(sigma == 0, 1.0, sigma)", """
w = torch.zeros(3, 3, requires_grad=True)
u = torch.ones(3)
v = F.normalize(w.T @ u, dim=0)
sigma = u @ (w @ v)
(w / sigma).sum().backward()  # born here
"""),
    "quantised weights": Fault("div", (0,), 32, "(step == 0, 1e-12, step)", """
w = torch.randn(4, requires_grad=True)
step = w.detach().abs().max() * 0
q = torch.round(w / step) * step  # born here
(q - w).pow(2).sum().backward()
"""),
    "mixture with a narrow component": Fault("DivBackward0", (0, 1), 32, "torch.abs(sigma) < 1e-12", """
sigma = torch.tensor([[1.0, 1e-25], [1.0, 1.0]], requires_grad=True)
y = torch.ones(2, 1)
density = torch.exp(-0.5 * (y / sigma) ** 2)  # born here
loss = -torch.log(density.sum(1)).mean()
loss.backward()
"""),
    "vmap over samples": Fault("log", (0, 1), 1, "torch.clamp(x * w1, min=1e-12)", """
w1 = torch.tensor([1.0, 0.0], requires_grad=True)
def f(x):
    return torch.log(x * w1).sum()  # born here
torch.func.vmap(f)(torch.ones(3, 2)).sum().backward()
"""),
    "closure of an optimizer": Fault("log", (0,), 1, "torch.clamp(x - 1, min=1e-12)", """
x = torch.tensor([1.0], requires_grad=True)
optimizer = torch.optim.LBFGS([x], lr=1.0, max_iter=1)
def closure():
    optimizer.zero_grad()
    loss = torch.log(x - 1).sum() + x.sum()  # born here
    loss.backward()
    return loss
optimizer.step(closure)
"""),
}  # fmt: skip


@libraries
@runs
@pytest.mark.parametrize("name", PROGRAMS)
def test_operation_line_element_row_and_remedy_are_exact(name: str, library: str, steps: bool) -> None:
    program = PROGRAMS[name]
    event = run(library, program.code, steps).events[0]
    found = diagnose(event)
    assert (event.op, found.number or found.title) == (program.op, program.row), f"{event}\n{found}"
    assert event.lineno == line(program.code), f"{event}\n{found}"
    assert event.index == program.index
    assert program.remedy in (found.remedy or "").replace("rg.", "torch."), found.remedy


PACKED = """
rnn = nn.GRU(2, 3, batch_first=True)
x = torch.tensor([[[1.0, 2.0]] * 4, [[3.0, 4.0], [5.0, 6.0]] + [[float("nan"), 0.0]] * 2])
packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 3]), batch_first=True)
out, h = rnn(packed)  # born here
h.sum().backward()
"""


@libraries
def test_a_nan_in_a_packed_sequence_is_reported_as_data(library: str) -> None:
    event = run(library, PACKED).events[0]
    assert (event.kind, event.index, event.lineno) == ("leaf", (5, 0), line(PACKED))
    assert [*event.operands] == ["packed.data"]
    again = run(library, PACKED, True).events[0]  # which has seen how it was packed
    assert (again.kind, again.index, [*again.operands]) == ("leaf", (1, 2, 0), ["x"])


THROUGH = """
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
best = x.masked_fill(torch.tensor([[False, True], [True, True]]), float("-inf")).max(1).values  # born here
best.sum().backward()
"""


@libraries
def test_an_infinity_of_a_mask_that_reaches_the_loss_is_explained(library: str) -> None:
    event = run(library, THROUGH, True).events[0]
    assert (event.op, event.lineno) == ("masked_fill", line(THROUGH))
    assert diagnose(event).title == "infinity of a mask that came through"
    assert "masked_fill(torch.tensor([[False, True], [True, True]]), -1e30)" in (event.remedy or "")


MASKED = """
q = torch.randn(2, 3, 4, requires_grad=True)
mask = torch.tensor([[True, True, False], [False, False, False]])
scores = q @ q.transpose(1, 2) / 2.0
scores = scores + torch.where(mask, 0.0, float("-inf"))[:, None, :]
weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)  # born here
weights = weights / weights.sum(-1, keepdim=True)
(weights @ q).sum().backward()
"""


@libraries
@runs
def test_a_masked_row_in_a_softmax_written_out_is_explained(library: str, steps: bool) -> None:
    event = run(library, MASKED, steps).events[0]
    assert (event.lineno, event.index, diagnose(event).number) == (line(MASKED), (1, 0, 0), 19)
    assert "isneginf" in (event.remedy or "")


OVERWRITTEN = """
x = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
h = x * 1
h[1] = (h[1] / h[1]).detach()  # born here
h.sum().backward()
"""


def test_an_operand_overwritten_by_the_result_is_not_shown_as_nan() -> None:
    """The element of ``h`` is NaN by now; it was not when it was divided."""
    event = run("retrograd", OVERWRITTEN).events[0]
    assert (event.op, event.lineno) == ("div", line(OVERWRITTEN))
    assert "nan" not in map(str, event.operands.values())


TIED = """
embedding = nn.Embedding(5, 3)
head = nn.Linear(3, 5, bias=False)
head.weight = embedding.weight
embedding.weight.data[2] = float("inf")
tokens = torch.tensor([0, 1])
F.cross_entropy(head(embedding(tokens)), tokens).backward()
"""


@libraries
def test_a_nan_in_a_shared_weight_is_reported_as_a_weight(library: str) -> None:
    event = run(library, TIED).events[0]
    assert (event.kind, event.index, diagnose(event).number) == ("leaf", (2, 0), 50)


SCHEDULE = """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).pow(2).mean().backward()
    optimizer.step()
"""


@libraries
def test_an_infinite_learning_rate_is_reported_before_it_is_used(library: str) -> None:
    event = run(library, SCHEDULE).events[0]
    assert (event.step, event.operands) == (1, {"lr": math.inf})
    assert diagnose(event).title == "learning rate that is not finite"
    assert "The learning rate of SGD is inf" in (event.cause or "")


EPS = """
w1 = torch.ones(2, requires_grad=True)
optimizer = torch.optim.Adam([w1], lr=0.1, eps=0.0)
(w1 * torch.tensor([1.0, 0.0])).sum().backward()
optimizer.step()
(w1 * 2).sum().backward()
"""


def test_an_update_of_torchs_adam_that_spoils_a_weight_is_explained() -> None:
    """Its weights are looked at after a step only where eps is zero."""
    event = run("torch", EPS).events[0]
    assert (event.kind, event.op, event.index) == ("invalid", "div", (1,))
    assert (event.harmed or "").startswith("the update of ")
    assert "Adam divides by the root" in (event.cause or "")


BY_HAND = """
w1 = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([w1], lr=0.1)
optimizer.step()
(w1 * 0).sum().backward()
with torch.no_grad():
    w1.grad.mul_(1.0 / w1.grad.norm())
optimizer.step()
"""


def test_a_gradient_spoilt_by_hand_is_reported_before_the_update() -> None:
    event = run("torch", BY_HAND).events[0]
    assert event.harmed == "the gradient of w1"
    assert "changed since backward made them" in (event.cause or "")
    assert "(line 7, `w1.grad.mul_(1.0 / w1.grad.norm())`)" in (event.cause or "")
