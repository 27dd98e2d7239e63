"""Programs with two or three faults in one step, and others in which one fault stands beside what is legal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A step: what it begins with, its text, and how many faults it has.

    ``loss`` is the true one, where that is finite, and ``ops`` are the operations of which one is to be told.
    """

    name: str
    setup: str
    code: str
    faults: int = 1
    loss: float | None = None
    ops: tuple[str, ...] = ("sqrt",)

    def __str__(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        return f"import math\n{self.setup.strip()}\n# the step\n{self.code.strip()}\nloss.backward()\n"


def leaf(name: str, values: str) -> str:
    return f"{name} = torch.tensor({values}, dtype=torch.float64, requires_grad=True)"


P, D, Q, R = leaf("p", "[0.5, 0.0]"), leaf("d", "[4.0, -0.0001]"), leaf("q", "[4.0, 0.0]"), leaf("r", "[0.5, 1.0]")

PROGRAMS = [
    Program(
        "two terms of the loss",
        f"{P}\n{D}",
        """
a = -torch.log(p).mean()
b = torch.sqrt(d).sum()
loss = a + b
""",
        2,
    ),
    Program(
        "three terms of the loss",
        f"{P}\n{D}\n{leaf('u', '[1.0, 0.0]')}",
        """
a = -torch.log(p).mean()
b = torch.sqrt(d).sum()
c = (1 / u).sum()
loss = a + b + c
""",
        3,
    ),
    Program(
        "helper functions",
        f"{P}\n{D}",
        """
def entropy(p):
    return -torch.log(p).mean()
def length(d):
    return torch.sqrt(d).sum()
def total(p, d):
    return entropy(p) + length(d)
loss = total(p, d)
""",
        2,
    ),
    Program(
        "a pole in forward and one in backward",
        f"{P}\n{Q}",
        """
a = -torch.log(p).mean()
b = torch.sqrt(q).sum()
loss = a + b
""",
        2,
    ),
    Program(
        "two poles in backward",
        f"{Q}\n{R}",
        """
a = torch.sqrt(q).mean()
b = torch.acos(r).sum()
loss = a + b
""",
        2,
        loss=1.0 + 1.0471975511965979,
    ),
    Program(
        "three poles in backward of one leaf",
        leaf("x", "[0.25, 0.0, 1.0]"),
        """
a = torch.sqrt(x).sum()
b = torch.asin(x).sum()
c = (x ** 0.5).mean()
loss = a + b + c
""",
        3,
        loss=1.5 + 0.25268025514207865 + 1.5707963267948966 + 0.5,
    ),
    Program(
        "different elements of one line",
        f"{P}\n{leaf('s', '[-0.0001, 4.0]')}",
        """
loss = (torch.sqrt(s) - torch.log(p)).sum()
""",
        2,
    ),
    Program(
        "a logarithm of a root in one line",
        f"{P}\n{D}",
        """
loss = (torch.log(p).sum() + torch.sqrt(d).sum()) * 0.5
""",
        2,
    ),
    Program(
        "layers one after the other, in other rows",
        leaf("x", "[[1.0, 0.0], [2.0, 4.0], [0.5, 0.3678]]"),
        """
h = torch.log(x)
y = torch.sqrt(h + 1)
loss = y.sum()
""",
        2,
    ),
    Program(
        "modules",
        leaf("x", "[[1.0, 0.0], [-0.0001, 4.0]]"),
        """
class Log(nn.Module):
    def forward(self, x):
        return torch.log(x)
class Root(nn.Module):
    def forward(self, x):
        return torch.sqrt(x)
log, root = Log(), Root()
loss = log(x[0]).sum() + root(x[1]).sum()
""",
        2,
    ),
    Program(
        "a division and an overflow",
        f"{leaf('n', '[1.0, 2.0]')}\n{leaf('m', '[1.0, 0.0]')}\n{leaf('z', '[1.0, 800.0]')}",
        """
ratio = n / m
growth = torch.log(1 + torch.exp(z))
loss = ratio.sum() + growth.sum()
""",
        2,
    ),
    Program(
        "softmax and its logarithm beside a root",
        f"{leaf('z', '[1.0, 900.0]')}\n{D}",
        """
w = torch.softmax(z, dim=-1)
nll = -torch.log(w)[0]
b = torch.sqrt(d).sum()
loss = nll + b
""",
        2,
    ),
    Program(
        "entropy beside a pole in backward",
        f"{P}\n{Q}",
        """
h = -(p * torch.log(p)).sum()
b = torch.sqrt(q).mean()
loss = h + b
""",
        2,
        loss=0.34657359027997264 + 1.0,
    ),
    Program(
        "a masked logarithm and a masked root",
        f"{P}\n{D}",
        """
a = torch.where(p > 0, torch.log(p), 0.0).sum()
b = torch.where(d > 0, torch.sqrt(d), 0.0).sum()
loss = a + b
""",
        2,
        loss=-0.6931471805599453 + 2.0,
    ),
    Program(
        "a loop over terms",
        f"{P}\n{D}",
        """
terms = []
for t in (p, p + 0.5):
    terms.append(torch.log(t).sum())
terms.append(torch.sqrt(d).sum())
loss = sum(terms)
""",
        2,
    ),
    Program(
        "a power and a logarithm of a negative number",
        f"{D}\n{leaf('e', '[-0.0001, 0.5]')}",
        """
a = (d ** 1.5).sum()
b = torch.log(e).sum()
loss = a - b
""",
        2,
    ),
    Program(
        "a length in forward and its pole",
        f"{leaf('v', '[[3.0, 4.0], [0.0, 0.0]]')}\n{P}",
        """
n = torch.sqrt((v ** 2).sum(-1))
a = torch.log(p).sum()
loss = n.sum() - a
""",
        2,
    ),
    Program(
        "infinite gradients of opposite sign",
        Q,
        """
a = torch.sqrt(q).sum()
b = torch.sqrt(q * 4).sum()
loss = a - b
""",
        2,
        loss=-2.0,
    ),
    Program(
        "five faults",
        f"{P}\n{D}\n{Q}\n{leaf('u', '[1.0, 0.0]')}\n{leaf('e', '[-0.0001, 0.5]')}",
        """
a = torch.log(p).sum()
b = torch.sqrt(d).sum()
c = (1 / u).sum()
g = torch.log(e).sum()
h = torch.sqrt(q).sum()
loss = a + b + c + g + h
""",
        5,
    ),
]

ONE_FAULT = [
    Program(
        "a mask made by a logarithm before a softmax",
        f"{D}\n{leaf('s', '[[1.0, 2.0], [3.0, 4.0]]')}",
        """
mask = torch.log(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
w = torch.softmax(s + mask, dim=-1)
b = torch.sqrt(d).sum()
loss = w[:, 0].sum() + b
""",
    ),
    Program(
        "a mask before a softmax of rows one of which is NaN",
        f"{D}\n{leaf('s', '[[1.0, 2.0], [3.0, 4.0]]')}",
        """
mask = torch.log(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
t = torch.sqrt(d)
w = torch.softmax(s * t.flip(0)[:, None] + mask, dim=-1)
loss = w[:, 0].sum()
""",
    ),
    Program(
        "a NaN that is stacked with other numbers into a matrix",
        f"{D}\n{leaf('m', '[[1.0, 2.0], [3.0, 4.0]]')}",
        """
t = d / torch.sqrt(d.sum() * 0)
z = torch.zeros((), dtype=torch.float64)
h = torch.stack([torch.stack([z, -t[1]]), torch.stack([t[1], z])])
loss = (m @ (h @ h)).sum()
""",
        ops=("div",),
    ),
    Program(
        "what follows from an infinity",
        P,
        """
a = torch.log(p)
b = a * 0.0
c = a - a
loss = (a + b + torch.exp(-a) / torch.exp(-a) + torch.sqrt(-c)).sum()
""",
        ops=("log",),
    ),
    Program(
        "what follows from a NaN, and passes through a matrix product",
        f"{D}\n{leaf('m', '[[1.0, 2.0], [3.0, 4.0]]')}",
        """
t = torch.sqrt(d)
h = m @ t
loss = torch.log(h.abs() + 1).sum() + torch.sqrt(h).sum()
""",
    ),
    Program(
        "one line that is called twice",
        f"{P}\n{leaf('o', '[0.0, 1.0]')}",
        """
def surprise(t):
    return -torch.log(t).sum()
loss = surprise(p) + surprise(o)
""",
        ops=("log",),
    ),
    Program(
        "a guarded logarithm",
        f"{D}\n{P}",
        """
safe = torch.where(p > 0, p, 1.0)
a = torch.where(p > 0, torch.log(safe), 0.0).sum()
b = torch.sqrt(d).sum()
loss = a + b
""",
    ),
    Program(
        "a statistic that nobody differentiates",
        f"{D}\n{P}",
        """
with torch.no_grad():
    seen = torch.log(p).sum()
    ratio = 1 / p
b = torch.sqrt(d).sum()
loss = b
""",
    ),
    Program(
        "a number that is not used",
        f"{D}\n{P}",
        """
unused = torch.log(p).sum()
b = torch.sqrt(d).sum()
loss = b
""",
    ),
    Program(
        "logsumexp over a row that is masked",
        f"{D}\n{leaf('s', '[[1.0, 2.0], [3.0, 4.0]]')}",
        """
hidden = s.masked_fill(torch.tensor([[False, True], [False, False]]), float("-inf"))
a = torch.logsumexp(hidden, dim=-1).sum()
b = torch.sqrt(d).sum()
loss = a + b
""",
    ),
    Program(
        "the largest of logarithms",
        f"{D}\n{P}",
        """
a = torch.log(p).amax()
b = torch.sqrt(d).sum()
loss = a + b
""",
    ),
    Program(
        "a branch that where leaves out, in a result that is bad elsewhere",
        f"{P}\n{D}",
        """
a = torch.log(p)
with torch.no_grad():
    b = torch.sqrt(d.flip(0))
loss = torch.where(p > 0, b.flip(0) * 0 + 1, a).sum()
""",
        ops=("log",),
    ),
    Program(
        "a number in the data that is NaN",
        leaf("x", "[1.0, 2.0]"),
        """
batch = torch.tensor([1.0, float('nan')], dtype=torch.float64)
h = torch.log(x * batch)
loss = (torch.sqrt(h + 1) / h.sum()).sum()
""",
        ops=("leaf",),
    ),
    Program(
        "a weight that is NaN already",
        f"{leaf('x', '[1.0, math.nan]')}\n{P}",
        """
a = torch.log(p).sum()
loss = (x * 2).sum() + a
""",
        ops=("leaf", "log"),
    ),
    Program(
        "a pole whose gradient goes nowhere",
        f"{P}\n{Q}",
        """
b = torch.sqrt(q.detach()).sum()
c = torch.where(q > 0, torch.sqrt(torch.where(q > 0, q, 1.0)), 0.0).sum()
loss = torch.log(p).sum() + b + c
""",
        ops=("log",),
    ),
]
