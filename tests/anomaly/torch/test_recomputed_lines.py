"""Data that was computed without a gradient: the line that made it is computed again, if what it reads is unchanged."""

from __future__ import annotations

import pytest

from retrograd.anomaly import NaNEvent
from tests.anomaly.both import line, mended, only_event, run

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

SETUP = """\
w = torch.ones(3, requires_grad=True)
zero = torch.tensor([1.0, 0.0, 2.0])
same = torch.full((3,), 2.0)
"""

FOUND = {
    "adv = (same - same.mean()) / same.std()": ("div", (0,), {"input": 0.0, "other": 0.0}),
    "adv = zero / zero": ("div", (1,), {"input": 0.0, "other": 0.0}),
    "adv = torch.log(zero)": ("log", (1,), {"input": 0.0}),
    "adv = torch.nn.functional.relu(zero / zero)": ("div", (1,), {"input": 0.0, "other": 0.0}),
    "adv = (zero - 1).sqrt()": ("sqrt", (1,), {"input": -1.0}),
    "adv = same * (100 * zero).exp()": ("exp", (0,), {"input": 100.0}),
    "adv = (-same).sqrt()": ("sqrt", (0,), {"input": -2.0}),
    "adv = (zero + -2).log()": ("log", (0,), {"input": -1.0}),
    "adv = same / (zero - zero.max(0).values)": ("div", (2,), {"input": 2.0, "other": 0.0}),
    "adv = 1 / zero**2": ("div", (1,), {"input": 1, "other": 0.0}),
    "adv = same / zero if w.requires_grad else same": ("div", (1,), {"input": 2.0, "other": 0.0}),
    "adv = same if not w.requires_grad else zero.log()": ("log", (1,), {"input": 0.0}),
    "adv = torch.log(zero) if w.requires_grad else zero / zero": ("log", (1,), {"input": 0.0}),  # no condition known
    "adv = same if w.is_sparse else 1 - (zero if w.is_sparse else zero / zero)": (
        "div",
        (1,),
        {"input": 0.0, "other": 0.0},
    ),
    "adv = torch.where(zero < 5, zero - 2, same).log()": ("log", (0,), {"input": -1.0}),
    "adv = torch.erfinv(torch.minimum(zero, same / 2))": ("erfinv", (0,), {"input": 1.0}),
}


END = "loss = (w * adv).sum()\nloss.backward()"


def event_of(*lines: str) -> NaNEvent:
    return only_event(run("torch", text_of(*lines)))


def text_of(*lines: str) -> str:
    return SETUP + "\n".join((*lines, END))


@pytest.mark.parametrize("made", FOUND)
def test_the_operation_that_made_bad_data_is_found(made: str) -> None:
    event = event_of(made)
    op, index, operands = FOUND[made]
    assert (event.op, event.index, event.operands, event.is_backward) == (op, index, operands, False)
    assert (event.lineno, event.code_line, event.harmed) == (4, made, "loss")
    assert made[event.col : event.end_col] in made[6:]
    assert event.rerun is None
    if min(operands.values()) < 0:
        assert "more than rounding" in (event.cause or "")
        assert event.remedy is None
    else:
        assert not run("torch", mended(text_of(made), event)).events


def test_the_first_bad_line_of_several_is_named() -> None:
    event = event_of("table = same / zero", "adv = table[:3].reshape(3)")
    assert (event.op, event.lineno, event.index) == ("div", 4, (1,))


def test_python_numbers_among_the_variables_are_used() -> None:
    event = event_of("scale = 0.0", "adv = same / scale")
    assert (event.op, event.lineno, event.operands) == ("div", 5, {"input": 2.0, "other": 0.0})


@pytest.mark.parametrize(
    "lines",
    [
        ("adv = zero / zero", "zero.add_(1)"),  # what it reads has changed
        ("adv = same.clone().mul_(1)", "adv = adv / (adv - 2)"),  # it has overwritten what it read
        ("adv = torch.nn.functional.dropout(zero / zero, 0.0)",),  # one that draws numbers
        ("adv = zero.add_(0) / zero",),  # one that writes
        ("adv = torch.nn.functional.relu(zero, inplace=True) / zero",),
        ("adv = torch.nn.functional.relu(zero, True) / zero",),
        ("adv = torch.div(same, zero, out=torch.empty(3))",),
        ("adv = torch.rand(3) / 0",),
        ("adv = same.clone()", "adv /= 0"),
    ],
)
def test_data_whose_line_cannot_be_computed_again_is_called_data(lines: tuple[str, ...]) -> None:
    event = event_of(*lines)
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})
    assert event.rerun is not None


def test_a_reassigned_variable_is_computed_again_from_its_source() -> None:
    made = "adv = (adv - adv.mean()) / adv.std()"
    event = event_of("import numpy as np", "rows = np.array([2, 0, 1])", "adv = same[rows]", made)
    assert (event.op, event.code_line, event.operands) == ("div", made, {"input": 0.0, "other": 0.0})
    assert event.rerun is None


def test_torch_may_have_another_name() -> None:
    event = event_of("import torch as th", "adv = th.log(zero)")
    assert (event.op, event.code_line, event.operands) == ("log", "adv = th.log(zero)", {"input": 0.0})


def test_the_branch_of_a_condition_is_computed_again() -> None:
    event = event_of("import math", "turn = 0.0", "adv = math.pi / (zero if turn < 1 else same)", "adv = -adv")
    assert (event.op, event.lineno, event.index) == ("div", 6, (1,))
    assert event.operands == {"input": pytest.approx(3.14159265), "other": 0.0}


@pytest.mark.parametrize("layer", ["SiLU", "Tanh"])
def test_minus_infinity_given_to_a_layer_is_not_taken_for_a_mask(layer: str) -> None:
    """Whatever the next one makes of it: a NaN, or a number whose derivative is one."""
    text = (
        f"{SETUP}net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.{layer}())\nlevel = torch.log(zero) / 4\n"
        "loss = net(torch.stack([w.detach(), level], dim=1)).pow(2).mean()\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert (event.op, event.lineno, event.operands) == ("log", 5, {"input": 0.0})


def test_a_leaf_made_by_a_line_is_mended_there() -> None:
    made = "scale = (-torch.log(zero)).requires_grad_(True)"
    text = f"{SETUP}{made}\nloss = (w * torch.exp(scale)).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.code_line, event.index) == ("log", made, (1,))
    assert not run("torch", mended(text, event)).events


def test_a_birth_in_an_earlier_line_is_named() -> None:
    event = event_of("adv = same / zero", "adv = 2 * adv")
    assert (event.op, event.code_line, event.index) == ("div", "adv = same / zero", (1,))


def test_the_first_of_two_births_in_an_expression_is_named() -> None:
    made = "adv = (same - same.mean()) / same.std()"
    text = SETUP + f"{made}\nloss = (-adv * w).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.code_line, event.index) == ("div", made, (0,))
    assert not run("torch", mended(text, event)).events


def test_a_birth_in_a_subexpression_has_its_columns() -> None:
    text = SETUP + "loss = (w * (1 / zero)).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.lineno, event.operands) == ("div", 4, {"input": 1, "other": 0.0})
    assert event.code_line is not None
    assert event.code_line[event.col : event.end_col] == "1 / zero"


def test_a_variable_without_a_known_origin_is_called_data() -> None:
    text = SETUP + "adv = torch.nn.functional.dropout(zero / zero, 0.0)\nloss = (-adv * w).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.kind, event.op, event.operands.keys()) == ("leaf", "leaf", {"adv"})
    assert event.rerun is not None


BRANCHES = """
def normalised(given, divides):
    adv = given * 1
    if divides:
        adv = adv / adv.std(correction=0)
    else:
        adv = (adv - adv.mean()) / (adv.std(correction=0) + eps)
    loss = (-adv * w).sum()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("call", "lineno"),
    [
        ("eps = 0.0\nnormalised(same, False)", 10),
        ("eps = 1e-8\nnormalised(same * 0, True)", 8),
        ("eps = 0.0\nnormalised(same * 0, True)", 8),  # by the condition, as both give the same numbers
        ("eps = 0.0\nnormalised(same * 0, False)", 10),
    ],
)
def test_the_branch_that_gives_the_numbers_is_found(call: str, lineno: int) -> None:
    event = only_event(run("torch", SETUP + BRANCHES + call))
    assert (event.op, event.lineno, event.operands) == ("div", lineno, {"input": 0.0, "other": 0.0})


def test_two_possible_branches_leave_it_at_data() -> None:
    unknown = BRANCHES.replace("if divides:", "if divides.pop():")
    event = only_event(run("torch", SETUP + unknown + "eps = 0.0\nnormalised(same * 0, [True])"))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})


def test_a_branch_that_cannot_be_computed_may_have_made_numbers_that_are_all_nan() -> None:
    text = SETUP + BRANCHES.replace("if divides:", "if divides.pop():").replace(
        "adv = (adv - adv.mean()) / (adv.std(correction=0) + eps)", "adv = torch.special.zeta(adv, adv)"
    )
    event = only_event(run("torch", text + "normalised(same * 0, [True])"))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})


CONDITIONS = """
class Settings:
    kind, eps = "std", None

settings = Settings()

def scaled(given, scale=None, kind="std"):
    if scale is not None and kind in ("std", "var"):
        given = given * scale
    if given.dim() > 1 or not kind:
        given = given.flatten()
    if kind == settings.kind:
        spread = given.std()
    elif kind == "var":
        spread = given.var()
    else:
        spread = given.abs().max()
    if settings.eps is None:
        return given / spread  # born here
    return given / (spread + settings.eps)

"""


@pytest.mark.parametrize(
    "call",
    [
        "scaled(same - 2)",
        "scaled(same - 2, scale=same)",
        "scaled(same.reshape(1, 3) - 2, kind='var')",
        "scaled(zero * 0, kind='max')",
    ],
)
def test_a_function_with_branches_is_computed_as_far_as_its_conditions_are_known(call: str) -> None:
    text = SETUP + CONDITIONS + f"adv = {call}\nloss = (w * adv).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.operands, event.lineno) == ("div", {"input": 0.0, "other": 0.0}, line(text))
    assert [each["code_line"] for each in event.callers] == [f"adv = {call}"]


def test_a_function_with_an_unknown_condition_is_not_computed() -> None:
    text = SETUP + CONDITIONS.replace("settings.eps is None", "not globals().get('eps')") + "adv = scaled(same - 2)\n"
    event = only_event(run("torch", text + "loss = (w * adv).sum()\nloss.backward()"))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})


TEACHER = """
class Teacher(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = torch.nn.Linear(3, 3), 0

    def forward(self, x):
        for _ in range(1):
            x = self.linear(x)
        self.calls += self.training
        return x

torch.manual_seed(0)
teacher = Teacher().requires_grad_(False){mode}
adv = (teacher(same) * 0 - 1).log()  # born here
loss = (w * adv).sum()
loss.backward()
"""


def test_a_module_in_evaluation_mode_is_called_again() -> None:
    text = SETUP + TEACHER.format(mode=".eval()")
    event = only_event(run("torch", text))
    assert (event.op, event.operands, event.lineno) == ("log", {"input": -1.0}, line(text))


def test_a_module_with_a_step_of_an_unknown_kind_is_called_as_a_whole() -> None:
    text = SETUP + TEACHER.format(mode=".eval()").replace("for _ in range(1):", "if True:").replace(
        "x = self.linear(x)", "x = torch.special.entr(self.linear(x).abs())"
    ).replace("        self.calls += self.training\n", "")
    event = only_event(run("torch", text))
    assert (event.op, event.operands, event.lineno) == ("log", {"input": -1.0}, line(text))


@pytest.mark.parametrize("layer", ["Dropout(0.5)", "RReLU()", "LSTM(3, 3, 2, dropout=0.5)"])
def test_a_layer_that_draws_random_numbers_is_not_called_again(layer: str) -> None:
    result = "[0]" if "LSTM" in layer else ""
    text = f"layer = torch.nn.{layer}\nadv = (layer(same[None]){result}.detach() * 0 - 1).log()[0]\n"
    event = only_event(run("torch", SETUP + text + END))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})


@pytest.mark.parametrize("mode", ["", ".eval()\nteacher.linear.register_forward_hook(lambda *_: None)"])
def test_a_module_that_a_call_may_change_is_not(mode: str) -> None:
    event = only_event(run("torch", SETUP + TEACHER.format(mode=mode)))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})


def test_a_variable_assigned_below_in_the_loop_is_called_data() -> None:
    text = (
        SETUP
        + """
adv = same
for step in range(2):
    loss = (-adv * w).sum()
    loss.backward()
    adv, rest = torch.split(torch.nn.functional.relu(torch.cat([zero, same]) / zero[1]), 3)
"""
    )
    event = only_event(run("torch", text))
    assert (event.kind, event.operands.keys()) == ("leaf", {"adv"})
    assert "adv = same" not in (event.cause or "")


GROUPED = """\
def advantages(rewards, size):
    grouped = rewards.view(-1, size)
    mean, std = grouped.mean(dim=1), grouped.std(dim=1)
    return (rewards - mean.repeat_interleave(size)) / std.repeat_interleave(size)  # born here


w = torch.ones(4, requires_grad=True)
rewards = torch.tensor([1.0, 2.0, 5.0, 5.0])
adv = advantages(rewards, 2)
loss = (w * adv).sum()
loss.backward()
"""


def test_a_function_of_the_program_is_computed_step_by_step() -> None:
    event = only_event(run("torch", GROUPED))
    assert (event.op, event.lineno, event.function, event.index) == ("div", line(GROUPED), "advantages", (2,))
    assert event.operands == {"input": 0.0, "other": 0.0}
    assert [(each["lineno"], each["code_line"]) for each in event.callers] == [(9, "adv = advantages(rewards, 2)")]
    assert event.rerun is None
    assert not run("torch", mended(GROUPED, event)).events


NESTED = """\
class Scaler:
    def __init__(self):
        self.low = torch.zeros(3)

    def span(self, x, *, eps=0.0):
        return x.amax(0) - self.low + eps

    def scaled(self, x):
        return torch.log(x / self.span(x))  # born here


w = torch.ones(3, requires_grad=True)
scaler = Scaler()
data = torch.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 4.0]])
z = scaler.scaled(data)
loss = (w * z).sum()
loss.backward()
"""


def test_methods_and_what_they_call_are_computed_too() -> None:
    event = only_event(run("torch", NESTED))
    assert (event.op, event.lineno, event.function) == ("log", line(NESTED), "Scaler.scaled")
    assert event.index == (0, 2)
    assert event.callers[0]["code_line"] == "z = scaler.scaled(data)"


@pytest.mark.parametrize(
    "body",
    [
        "    x = torch.rand(3) * 0\n    return x / x",  # draws random numbers
        "    calls.append(1)\n    return zero / zero",  # has a side effect
        "    if len(calls):\n        return zero\n    return zero / zero",  # has branches
    ],
)
def test_a_function_that_does_more_is_not_run_again(body: str) -> None:
    text = f"calls = []\n{SETUP}def made():\n{body}\n\nadv = made()\nloss = (w * adv).sum()\nloss.backward()"
    event = only_event(run("torch", text))
    assert event.kind == "leaf"
    assert event.code_line == "loss = (w * adv).sum()"


OF_MORE_KINDS = {
    "by the remainder of a label": "adv = same / (torch.tensor([3, 4, 5]) % 4).float()  # born here",
    "by a floor": "adv = same / (zero // 2 * zero + 0.0)  # born here",
    "by a mask of both": "adv = same / ((zero > 0) & (same > 0)).float()  # born here",
    "by a constructed tensor": "adv = same / torch.arange(3, dtype=zero.dtype)  # born here",
    "by an identity": "adv = torch.ones(3) / torch.eye(3)[0]  # born here",
    "after a conversion": "adv = same / zero.to(torch.float64).to(same.dtype)  # born here",
    "by a norm": (
        "rows = zero.unsqueeze(1) * same\nadv = (rows / torch.linalg.norm(rows, dim=1, keepdim=True))[1]  # born here"
    ),
    "by the norm of a vector": "adv = same / torch.linalg.vector_norm(zero[1:2])  # born here",
    "by a cross product": (
        "a = torch.stack([same, same])\nn = torch.cross(a, 2 * a, dim=-1)\n"
        "adv = (n / n.norm(dim=-1, keepdim=True))[0]  # born here"
    ),
    "by a sum of products": 'adv = same / torch.einsum("i,i->i", zero, same)  # born here',
    "by a count": "adv = same / torch.bincount(torch.tensor([0, 0, 2]), minlength=3)  # born here",
    "of sorted numbers": "adv = same / zero.sort().values  # born here",
}


@pytest.mark.parametrize("name", OF_MORE_KINDS)
def test_lines_of_more_functions_are_computed_again(name: str) -> None:
    text = text_of(OF_MORE_KINDS[name])
    event = only_event(run("torch", text))
    assert (event.op, event.lineno, event.rerun) == ("div", line(text), None)


def test_a_function_of_the_program_that_takes_a_tuple_apart_is_computed_again() -> None:
    text = (
        f"{SETUP}def scaled(given):\n    low, high = given.aminmax()\n    first, rest = given[:1], given[1:]\n"
        "    return (given - low) / (high - low)  # born here\n"
        "loss = (w * scaled(same)).sum()\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert (event.op, event.lineno, event.operands) == ("div", line(text), {"input": 0.0, "other": 0.0})


def test_a_mesh_that_another_function_made_is_computed_again() -> None:
    """The normals of its faces, one of which has no area."""
    text = (
        f"{SETUP}faces = torch.tensor([[0, 1, 2], [0, 1, 1]])\n"
        "corners = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])\n"
        "def normals(verts, faces):\n"
        "    tri = verts[:, faces]\n"
        "    n = torch.cross(tri[:, :, 1] - tri[:, :, 0], tri[:, :, 2] - tri[:, :, 0], dim=-1)\n"
        "    length = torch.linalg.norm(n, dim=-1, keepdim=True)\n"
        "    return n / length  # born here\n"
        "loss = (w * normals(corners, faces)).sum()\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert (event.op, event.lineno) == ("div", line(text))
    assert not run("torch", mended(text, event)).events


NORMALISED = "def normalised(given):\n    return (given - given.mean()) / given.std()  # born here\n"
LOSSES = {
    "a variable": (
        "adv = normalised(same)\nloss = policy_loss(w, adv)",
        "def policy_loss(w, adv):\n    return (w * adv).sum()\n",
    ),
    "no name": ("loss = policy_loss(w, normalised(same))", "def policy_loss(w, adv):\n    return (w * adv).sum()\n"),
    "another name": (
        "adv = normalised(same)\nloss = outer(w, adv)",
        "def inner(w, weights):\n    return (w * weights).sum()\ndef outer(w, given):\n    return inner(w, given)\n",
    ),
    "a module's argument": (
        "adv = normalised(same)\nloss = criterion(w, adv)",
        "class Weighted(torch.nn.Module):\n    def forward(self, w, adv):\n        return (w * adv).sum()\n"
        "criterion = Weighted()\n",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_data_given_to_a_function_that_has_returned_is_computed_again(name: str) -> None:
    used, defined = LOSSES[name]
    text = f"{SETUP}{NORMALISED}{defined}{used}\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.op, event.lineno, event.operands) == ("div", line(text), {"input": 0.0, "other": 0.0})
    assert event.rerun is None
    assert not run("torch", mended(text, event)).events


RETURNED = {
    "a loss module": (
        "class Corrected(torch.nn.Module):\n"
        "    def __init__(self, freq):\n        super().__init__()\n        self.register_buffer('freq', freq)\n"
        "    def forward(self, scores, items):\n"
        "        log_q = torch.log(self.freq[items])  # born here\n"
        "        logits = scores - log_q\n"
        "        return torch.nn.functional.cross_entropy(logits[None], items[:1])\n"
        "criterion = Corrected(zero)\n",
        "criterion(w * 2, torch.arange(3))",
    ),
    "a function": (
        "def weighted(scores, counts):\n"
        "    weights = 1 / counts  # born here\n"
        "    return torch.softmax(scores * weights, 0)[0]\n",
        "weighted(w * 2, zero)",
    ),
    "an object given to it": (
        "class Schedule:\n    def __init__(self):\n        self.level = torch.tensor([0.5, 0.0, 0.9])\n"
        "    def ratio(self, t):\n        return self.level[t] / (1 - self.level[t])\n"
        "schedule = Schedule()\nt = torch.tensor([0, 1, 2])\n"
        "def weights(schedule, t):\n"
        "    ratio = schedule.ratio(t)\n"
        "    return torch.minimum(ratio, torch.ones(3)) / ratio  # born here\n",
        "(w * weights(schedule, t)).sum()",
    ),
    "a value taken out of the graph": (
        "def overlap(boxes, targets):\n"
        "    ratio = torch.atan(targets / (zero * targets)) - torch.atan(boxes)  # born here\n"
        "    v = ratio ** 2\n"
        "    alpha = (v / (1 + v)).detach()\n"
        "    return (alpha * v).sum()\n",
        "overlap(w * 2, zero)",
    ),
    "a module of an object": (
        "class Scaled(torch.nn.Module):\n"
        "    def forward(self, scores, given):\n"
        "        share = given / given.sum()  # born here\n"
        "        return torch.logsumexp(scores + share, 0)\n"
        "class Trainer:\n    def __init__(self):\n        self.criterion = Scaled()\n"
        "    def loss(self, scores):\n        return self.criterion(scores, zero - 1)\n"
        "trainer = Trainer()\n",
        "trainer.loss(w * 2)",
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_birth_in_data_of_a_function_that_has_returned_is_found(name: str) -> None:
    """Nothing has kept its variables, but its arguments are known."""
    defined, used = RETURNED[name]
    text = f"{SETUP}{defined}loss = {used}\nloss.backward()"
    event = only_event(run("torch", text))
    assert (event.lineno, event.rerun) == (line(text), None)
    assert not run("torch", mended(text, event)).events


def test_a_mask_of_infinities_in_a_function_that_has_returned_is_not_blamed() -> None:
    text = (
        f"{SETUP}def loss_of(scores, hidden):\n"
        "    bias = torch.zeros(3).masked_fill(hidden, -float('inf'))\n"
        "    return torch.softmax(scores + bias, 0)[0]\n"
        "loss = loss_of(w * 2, zero < 5)\nloss.backward()"
    )
    event = only_event(run("torch", text))
    assert "softmax" in event.op
