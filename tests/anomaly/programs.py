"""Programs that give birth to a NaN or an infinity, by the row of the catalogue that explains them.

Each defines ``y`` from leaves that its setup makes; the same pattern is written in several ways.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A pattern: its row, what it starts from, and its text."""

    row: int | None
    setup: str
    code: str

    def __str__(self) -> str:
        return f"{self.row}: {self.code}"


def leaf(values: str, dtype: str = "float32", name: str = "x") -> str:
    return f"{name} = torch.tensor({values}, dtype=torch.{dtype}, requires_grad=True)"


def ways(row: int | None, setup: str, *codes: str) -> list[Program]:
    """One pattern in several ways of writing it."""
    return [Program(row, setup, code) for code in codes]


ZERO = leaf("[1.0, 0.0]")
ZEROS = leaf("[0.0, 0.0]")
LARGE = leaf("[1.0, 100.0]")
ROWS = leaf("[[1.0, 100.0], [2.0, 3.0]]")
PAIR = f"{leaf('[1.0, 0.0]', name='p')}; {leaf('[0.5, 0.0]', name='q')}"
HALF = "float16"

PROGRAMS = [
    # Logarithms
    *ways(
        1,
        ZERO,
        "y = torch.log(x)",
        "y = x.log().sum()",
        "y = -torch.log(x * 2).mean()",
        "h = x * 3\nz = h.log2()\ny = z * 0.5 + 1",
        "for _ in range(3):\n    y = (torch.log(x) + torch.exp(x)).sum()",
    ),
    *ways(1, leaf("[-1.0, 0.5]"), "y = torch.log1p(x)"),
    *ways(1, leaf("[1.0, 0.5]"), "y = (-x + 1).log()"),
    *ways(1, leaf("[1.0, 0.0]", "float64"), "if x.sum() > 0: y = torch.log10(x)"),
    *ways(1, leaf("[1.0, 0.0]", HALF), "y = torch.log(x)"),
    *ways(2, leaf("[3.0, -0.0001]"), "y = torch.log(x)"),
    *ways(2, leaf("[3.0, 0.9999]"), "y = (x - 1).log().sum()"),
    *ways(2, leaf("[1.0, -1.0001]"), "y = torch.log1p(x)"),
    *ways(
        3,
        ZERO,
        "y = x * torch.log(x)",
        "y = -(x * x.log()).sum()",
        "y = torch.log(x) * x",
        "l = torch.log(x)\ny = -(x * l).sum(-1)",
        "y = torch.xlogy(x, x)",
        "y = torch.special.entr(x)",
    ),
    *ways(
        4,
        leaf("[200.0, 0.0]"),
        "y = torch.log(torch.softmax(x, -1))",
        "y = x.softmax(dim=-1).log()",
        "y = -torch.log(F.softmax(x, dim=-1)[1])",
        "p = torch.softmax(x, dim=-1)\ny = -(torch.log(p) * 0.5).sum()",
        "p = x.softmax(-1)\nl = p[1].log()\ny = -l",
    ),
    *ways(
        5,
        ROWS,
        "y = torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)",
        "y = x.exp() / x.exp().sum(dim=-1, keepdim=True)",
        "e = torch.exp(x)\ny = e / e.sum(-1, keepdim=True)",
        "e = torch.exp(x)\ns = torch.sum(e, 1, keepdim=True)\ny = (e / s).mean()",
        "y = torch.exp(x) / torch.exp(x).sum()",
    ),
    *ways(5, LARGE, "e = x.exp()\ny = e / e.sum()", "y = torch.exp(x) / torch.sum(torch.exp(x))"),
    *ways(
        6,
        LARGE,
        "y = torch.log(1 + torch.exp(x))",
        "y = (x.exp() + 1).log().sum()",
        "y = torch.log1p(torch.exp(x))",
        "e = torch.exp(x)\ny = torch.log(1.0 + e) * 2",
    ),
    *ways(
        7,
        leaf("[1.0, -200.0]"),
        "y = torch.log(torch.sigmoid(x))",
        "y = -x.sigmoid().log().mean()",
        "p = torch.sigmoid(x)\ny = torch.log(p)",
        "y = F.relu(-torch.log(torch.sigmoid(x[1]))) + 1",
    ),
    *ways(
        8,
        leaf("[1.0, 200.0]"),
        "y = -torch.log(1 - torch.sigmoid(x))",
        "y = (1.0 - x.sigmoid()).log().sum()",
        "p = torch.sigmoid(x)\ny = -torch.log(1 - p)",
        "p = torch.sigmoid(x)\nq = 1 - p\ny = q.log()",
    ),
    *ways(
        9,
        ROWS,
        "y = torch.log(torch.sum(torch.exp(x), dim=-1))",
        "y = x.exp().sum(-1, keepdim=True).log()",
        "s = torch.exp(x).sum(1)\ny = s.log()",
        "y = torch.log(torch.exp(x).sum())",
    ),
    *ways(9, leaf("[-200.0, -300.0]"), "y = torch.log(torch.exp(x).sum(-1))"),
    *ways(  # the density of a mixture
        9,
        f"{leaf('[[-200.0, -300.0], [0.0, 1.0]]')}; w = torch.tensor([0.25, 0.75])",
        "y = torch.log(torch.sum(w * torch.exp(x), dim=1))",
        "y = (x.exp() * w).sum(-1).log()",
    ),
    *ways(
        38,
        leaf("[1e-20, 1e-20, 1e-20]"),
        "y = torch.log(torch.prod(x))",
        "y = x.prod(-1).log()",
        "p = x.prod()\ny = -torch.log(p)",
    ),
    *ways(
        39,
        leaf("[0.5, 20.0]"),
        "y = torch.log(1 - torch.tanh(x) ** 2)",
        "y = -(1 - x.tanh().pow(2)).log().sum()",
        "a = torch.tanh(x)\ny = torch.log(1 - a**2)",
        "a = x.tanh()\ny = torch.log(1 - a * a)",
        "y = torch.log(1.0 - torch.square(torch.tanh(x)))",
    ),
    *ways(
        34,
        f"{leaf('[1.0, 0.5]', name='p')}; {leaf('[0.5, 0.0]', name='q')}",
        "y = p * torch.log(p / q)",
        "y = (p * (p / q).log()).sum()",
        "r = torch.log(p / q)\ny = (r * p).sum()",
    ),
    *ways(34, PAIR, "y = torch.sum(p * torch.log(p / q))"),
    *ways(
        34,
        f"{leaf('[0.0, 0.5]', name='p')}; even = 0.25",
        "y = p * torch.log(p / 0.25)",
        "y = (p * (p / even).log()).sum()",
    ),
    *ways(
        35,
        f"x = torch.tensor([1.0, 2.0]); {leaf('[1.0, 2.5]', name='mu')}; {leaf('[0.0, 0.5]', name='var')}",
        "y = 0.5 * (torch.log(var) + (x - mu) ** 2 / var)",
        "y = (0.5 * var.log() + (x - mu).pow(2) / (2 * var)).mean()",
    ),
    *ways(
        35,
        f"x = torch.tensor([1.0, 2.0]); {leaf('[1.0, 2.5]', name='mu')}; {leaf('[-2.0, 0.5]', name='w')}",
        "var = torch.relu(w)\nn = torch.log(var)\ny = 0.5 * (n + (x - mu) ** 2 / var)",
    ),
    # Roots
    *ways(
        10,
        ZERO,
        "y = torch.sqrt(x)",
        "y = x.sqrt().sum()",
        "h = x * 2\ny = (torch.sqrt(h) + 1).mean()",
        "for _ in range(2):\n    y = 3 * torch.sqrt(x)",
    ),
    *ways(10, leaf("[1.0, 0.0]", HALF), "y = torch.sqrt(x)"),
    *ways(
        13,
        ZEROS,
        "y = torch.sqrt(torch.sum(x**2))",
        "y = (x * x).sum().sqrt()",
        "y = torch.sqrt(torch.square(x).sum(-1, keepdim=True)) * 2",
        "s = (x**2).sum()\ny = torch.sqrt(s)",
        "y = (x**2).sum() ** 0.5",
    ),
    *ways(21, ZERO, "y = x**0.5", "y = torch.pow(x, 0.5).sum()", "y = (2 * x) ** 0.25", "y = x.pow(0.5)"),
    *ways(21, f"{ZERO}; {leaf('[0.5, 0.5]', name='p')}", "y = x**p"),
    *ways(
        33,
        leaf("[1000.1, 1000.1, 1000.1, 1000.1, 1000.1]"),
        "y = torch.sqrt((x**2).mean() - x.mean() ** 2)",
        "y = ((x * x).mean(-1) - x.mean(-1).pow(2)).sqrt()",
        "m = x.mean()\ny = torch.sqrt(torch.mean(x**2) - m**2)",
        "m = x.mean()\ns = (x**2).mean()\nv = s - m * m\ny = v.sqrt() + 1",
    ),
    *ways(
        36,
        f"{leaf('[1e20, 1.0]', name='a')}; {leaf('[1e19, 2.0]', name='b')}",
        "y = torch.sqrt(a**2 + b**2)",
        "y = (a * a + b * b).sqrt()",
        "s = a.pow(2) + b.pow(2)\ny = torch.sqrt(s)",
        "y = (a**2 + b**2) ** 0.5",
    ),
    *ways(
        36, leaf("[1e20, 1.0]"), "y = torch.sqrt(torch.sum(x**2))", "y = torch.linalg.vector_norm(x)", "y = x.norm()"
    ),
    *ways(
        36,
        leaf("[[1e20, 1.0], [3e20, 2.0], [1.0, 1.0]]"),
        "y = torch.pdist(x)",
        "y = torch.cdist(x, x[1:] + 1, p=2.0)",
        "y = torch.cdist(2 * x, x).amax(1)",
    ),
    *ways(
        37,
        leaf("[[1.0, 2.0], [1.0, 2.0]]"),
        "y = torch.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))",
        "d = x.unsqueeze(1) - x.unsqueeze(0)\ny = (d * d).sum(-1).sqrt()",
        "d = x[0] - x[1]\ny = (d**2).sum() ** 0.5",
    ),
    # Masks
    *ways(
        11,
        ZERO,
        "y = torch.where(x > 0, torch.sqrt(x), 0.0)",
        "y = torch.where(x <= 0, 0.0, x.sqrt()).sum()",
        "s = torch.sqrt(x)\ny = torch.where(x > 0, s, 0.0)",
        "s = 2 * torch.sqrt(x)\nmask = x > 0\ny = torch.where(mask, s + 1, x)",
        "y = x.sqrt().masked_fill(x == 0, 0.0)",
        "y = torch.where(x > 0, torch.log(x), 0.0)",
        "y = torch.where(x > 0, x**0.5, 0.0)",
    ),
    *ways(11, leaf("[0.5, 2.0]"), "y = torch.where(x.abs() < 1, torch.acos(x), 0.0)"),
    *ways(
        12,
        ZERO,
        "y = torch.where(x == 0, 0.0, torch.sin(x) / x)",
        "y = torch.where(x != 0, x.sin() / x, 1.0).sum()",
        "q = torch.sin(x) / x\ny = torch.where(x == 0, 1.0, q)",
        "y = (torch.sin(x) / x).masked_fill(x == 0, 1.0)",
        "y = torch.where(x == 0, 0.0, 1 / x)",
    ),
    *ways(
        30,
        f"{ZERO}; mask = torch.tensor([1.0, 0.0])",
        "y = torch.log(x) * mask",
        "y = (mask * x.log()).sum()",
        "l = torch.log(x)\ny = -(l * mask).sum()",
        "y = (1 / x) * mask",
    ),
    # Quotients
    *ways(
        14,
        ZEROS,
        "y = x / x.norm()",
        "y = x / torch.linalg.norm(x)",
        "n = torch.linalg.vector_norm(x, dim=-1, keepdim=True)\ny = (x / n).sum()",
        "y = x / torch.sqrt(torch.sum(x**2))",
        "n = (x * x).sum().sqrt()\ny = x / n",
    ),
    *ways(
        15,
        f"{leaf('[0.0, 0.0]', name='a')}; {leaf('[1.0, 2.0]', name='b')}",
        "y = torch.dot(a, b) / (a.norm() * b.norm())",
        "y = (a * b).sum() / (torch.linalg.norm(a) * torch.linalg.norm(b))",
        "n = a.norm() * b.norm()\ny = (a * b).sum(-1) / n",
        "y = (a * b).sum(-1, keepdim=True) / (a.norm(dim=-1, keepdim=True) * b.norm(dim=-1, keepdim=True))",
        "y = (a @ b) / (torch.sqrt((a**2).sum()) * torch.sqrt((b**2).sum()))",
    ),
    *ways(
        16,
        leaf("[2.0, 2.0, 2.0]"),
        "y = (x - x.mean()) / x.std()",
        "y = (x - x.mean(-1, keepdim=True)) / torch.std(x, -1, keepdim=True)",
        "s = x.std(dim=0)\ny = (x - x.mean(dim=0)) / s",
        "y = (x - x.mean()) / x.var().sqrt()",
    ),
    *ways(
        17,
        leaf("[2.0]"),
        "y = x.std()",
        "y = torch.std(x, dim=0)",
        "y = x.var()",
        "s = x.std(0, True)\ny = x / (s + 1)",
    ),
    *ways(17, leaf("[[2.0, 3.0]]"), "y = x.std(dim=0) + 1", "y = torch.var(x, 0, unbiased=True)"),
    *ways(
        18,
        leaf("[2.0, 3.0]"),
        "y = x[x > 9].mean()",
        "s = x[x > 9]\ny = torch.mean(s)",
        "m = (x > 9).float()\ny = (x * m).sum() / m.sum()",
        "m = x > 9\ny = x[m].sum() / m.sum()",
        "s = x[x > 9]\ny = s.sum() / len(s)",
        "y = x[x > 9].var() + 1",
        "s = x[x > 9]\ny = torch.std(s) * 2",
    ),
    *ways(
        19,
        f"{leaf('[[1.0, 2.0], [3.0, 4.0]]')}; mask = torch.tensor([[True, True], [False, True]])",
        "y = torch.softmax(x.masked_fill(mask, float('-inf')), dim=-1)",
        "s = x.masked_fill(mask, float('-inf'))\ny = F.softmax(s, -1)",
        "s = torch.where(mask, float('-inf'), x)\ny = s.softmax(dim=-1).sum()",
        "s = x.masked_fill(mask, float('-inf'))\nz = s - s.amax(-1, keepdim=True)\n"
        "e = z.exp()\ny = e / e.sum(-1, keepdim=True)",
    ),
    # Half precision
    *ways(
        20,
        f"{leaf('[[1.0, 2.0], [3.0, 4.0]]', HALF)}; mask = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float16)",
        "y = torch.softmax(x + mask * -1e5, dim=-1)",
        "s = x + mask * -1e9\ny = s.softmax(-1)",
        "b = (mask - 0.0) * -100000.0\ny = F.softmax(x + b, -1)",
    ),
    *ways(
        28,
        leaf("[300.0, 1.0]", HALF),
        "y = (x**2).mean()",
        "y = torch.mean(x * x)",
        "y = F.mse_loss(x, torch.zeros_like(x))",
        "s = torch.square(x)\ny = s.sum()",
    ),
    *ways(28, leaf("[60000.0, 60000.0]", HALF), "y = x.sum()"),
    *ways(28, f"{leaf('[100.0, 1.0]', HALF)}; scale = 1000.0", "y = x * scale"),
    *ways(28, leaf("[200.0, 200.0]", HALF), "y = torch.dot(x, x)", "y = (x @ x) * 2"),
    *ways(
        29,
        leaf("[2.0, 2.0, 2.0]", HALF),
        "y = (x - x.mean()) / (x.std() + 1e-8)",
        "s = x.std() + 1e-8\ny = (x - x.mean()) / s",
        "v = x.var() + 1e-9\ny = (x - x.mean()) * torch.rsqrt(v)",
    ),
    # Single functions
    *ways(22, leaf("[4.0, -8.0]"), "y = x**0.5", "y = torch.pow(x, 1.5)", "y = (x.pow(1 / 3) * 2).sum()"),
    *ways(24, leaf("[0.5, 1.0]"), "y = torch.acos(x)", "y = x.asin().sum()", "y = 2 * torch.arccos(x)"),
    *ways(24, leaf("[1.5, 1.0]"), "y = torch.acosh(x)"),
    *ways(
        25,
        leaf("[0.5, 1.0000001]"),
        "y = torch.acos(x)",
        "y = torch.asin(-x)",
        "c = x * 1\ny = c.acos().sum()",
    ),
    *ways(
        26,
        leaf("[0.5, 1.0]"),
        "y = torch.atanh(x)",
        "y = torch.logit(x)",
        "y = x.logit().sum()",
        "y = torch.erfinv(x)",
        "y = torch.special.logit(x * 0)",
    ),
    *ways(27, LARGE, "y = torch.exp(x)", "y = (x * 2).exp().sum()", "y = torch.expm1(x) + 1", "y = torch.sinh(x)"),
    *ways(27, leaf("[1.0, 12.0]", HALF), "y = torch.exp(x)"),
    *ways(27, leaf("[1.0, 800.0]", "float64"), "y = x.exp()"),
    *ways(
        31,
        f"{leaf('[1.0, 100.0]')}; {leaf('[1.0, 99.0]', name='z')}",
        "y = torch.exp(x) - torch.exp(z)",
        "y = (x.exp() - z.exp()).sum()",
        "a = torch.exp(x)\nb = torch.exp(z)\ny = a - b",
    ),
    *ways(
        32,
        ZERO,
        "y = 1 / x",
        "y = torch.rsqrt(x)",
        "y = x.reciprocal().sum()",
        "y = (2.0 / x).mean()",
        "y = torch.div(x + 1, x)",
        "y = x**-1.0",
    ),
    # Library functions
    *ways(
        40,
        "torch.manual_seed(0); x = torch.randn(2, 1, 3, requires_grad=True); lp = x.log_softmax(-1)\n"
        "t = torch.tensor([[1, 2, 1]]); il = torch.tensor([2]); tl = torch.tensor([3])",
        "y = F.ctc_loss(lp, t, il, tl)",
        "z = torch.nn.functional.ctc_loss(lp, t, il, tl, reduction='sum')\ny = z * 2",
    ),
    *ways(
        41,
        f"{leaf('[[1.0, 2.0], [3.0, 4.0]]')}; t = torch.tensor([-100, -100])",
        "y = F.cross_entropy(x, t)",
        "y = torch.nn.functional.cross_entropy(x, t, ignore_index=-100) + 1",
        "y = F.nll_loss(x.log_softmax(-1), t)",
    ),
    *ways(
        43,
        "x = torch.eye(3, requires_grad=True)",
        "w, v = torch.linalg.eigh(x)\ny = v[0, 1] + v.sum()",
        "u, s, vh = torch.linalg.svd(x)\ny = u.sum()",
    ),
]
