"""NaN that a program reads while it computes no gradients, as of a validation loss."""

from __future__ import annotations

import pytest

from retrograd.anomaly import AnomalyWarning, Watch, watch
from retrograd.anomaly.event import NaNEvent
from tests.anomaly.both import libraries, line, mended, only_event, run

TRAINING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.norm(self.fc1(x)))
        if not self.training:
            h = {inside}
        return self.fc2(h)

def train():
    for _ in range(3):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = ((net(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()

net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
batches = [(torch.randn(16, 4), torch.rand(16, 1)) for _ in range(3)]
"""
EVALUATION = """
@torch.no_grad()
def evaluate():
    net.eval()
    total = 0.0
    for x, y in batches:
        out = net(x)
        loss = {loss}
        total += {read}
    net.train()
    return total

train()
{between}
{evaluations}
train()
"""


def program(
    loss: str = "((out - y) ** 2).mean()",
    *,
    inside: str = "h",
    read: str = "loss.item()",
    between: str = "",
    evaluations: str = "evaluate()",
) -> str:
    evaluation = EVALUATION.format(loss=loss, read=read, between=between, evaluations=evaluations)
    return TRAINING.format(inside=inside) + evaluation


def found(library: str, text: str) -> NaNEvent:
    """The only event, which is at the marked line, and after which training goes on."""
    w = run(library, text)
    assert w.step == 6
    event = only_event(w)
    assert (event.lineno, event.step, event.is_backward) == (line(text), 3, False)
    assert event.harmed == "a number that the program reads"
    return event


@libraries
@pytest.mark.parametrize("read", ["loss.item()", "float(loss)", "float(f'{loss:.3f}')", "loss.item() if True else 0"])
def test_a_birth_in_the_model(library: str, read: str) -> None:
    text = program(inside="h / (h - h).sum(1, keepdim=True)  # born here", read=read)
    event = found(library, text)
    assert (event.op, event.module_type, event.layer_name) == ("div", "Net", None)


@libraries
def test_an_evaluation_with_gradients_on(library: str) -> None:
    """Many programs forget ``no_grad``; that the model is in evaluation mode tells."""
    text = program(inside="h / (h - h).sum(1, keepdim=True)  # born here").replace("@torch.no_grad()\n", "")
    assert found(library, text).op == "div"


def test_a_number_that_is_read_after_the_evaluation() -> None:
    """Gradients are on again, and the model is in training mode: how it is called is looked at from then on."""
    reads = "for _ in range(2):\n    train()\n    float(evaluate())"
    text = program(inside="h / (h - h).sum(1, keepdim=True)  # born here", read="loss", evaluations=reads)
    event = only_event(run("torch", text))
    assert (event.op, event.lineno) == ("div", line(text))


@libraries
def test_in_training_mode_the_loss_tells(library: str) -> None:
    """The program may skip such a batch, or go backward: then the loss is reported."""
    text = TRAINING.format(inside="h").replace("loss.backward()", "loss = loss * float('nan')\n        loss.item()")
    assert not run(library, f"{text}\ntrain()\n").events
    events = run(library, f"{text}\nnet.eval()\ntrain()\n").events
    assert [each.code_line for each in events] == ["loss = loss * float('nan')"]


@libraries
def test_the_remedy_cures_the_evaluation(library: str) -> None:
    hidden = (
        "net.fc1.bias.data.fill_(-100.0); net.norm.running_mean.zero_(); net.norm.eval(); net.norm.bias.data.zero_()"
    )
    text = program(inside="h / h.sum(1, keepdim=True)  # born here", between=hidden)
    event = found(library, text)
    assert event.operands == {"input": 0.0, "other": 0.0}
    assert not run(library, mended(text, event)).events


@libraries
def test_a_birth_in_the_lines_of_the_evaluation(library: str) -> None:
    event = found(library, program("-(0.0 * y * torch.log(out * 0.0)).mean()  # born here"))
    assert event.op in ("log", "mul")


CRITERIA = """
def distance(a, b, reduction="mean"):
    d = torch.sqrt((a - b) * 0 - 1.0)
    if reduction == "mean":
        return d.mean()
    return d.sum()

class Distance(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, a, b):
        d = torch.sqrt((a - b) * 0 - 1.0)
        return d.mean() if self.reduction == "mean" else d.sum()

criterion = Distance()
"""


@libraries
@pytest.mark.parametrize("loss", ["distance(net(x), y)", "distance(out, y, reduction='sum')", "criterion(net(x), y)"])
def test_a_birth_in_a_loss_function(library: str, loss: str) -> None:
    event = only_event(run(library, CRITERIA + program(loss)))
    assert (event.op, event.operands) == ("sqrt", {"input": -1.0})
    assert event.code_line == "d = torch.sqrt((a - b) * 0 - 1.0)"


@libraries
@pytest.mark.parametrize("read", ["loss.item()", "float(loss)"])
def test_a_birth_in_a_line_that_calls_the_model_itself(library: str, read: str) -> None:
    event = found(library, program("torch.sqrt(net(x) * 0 - 1.0).mean()  # born here", read=read))
    assert (event.op, event.operands, event.layer_name) == ("sqrt", {"input": -1.0}, None)


BRANCHES = """
if kind == "root":
    loss = torch.sqrt(net(x) * 0 - 1.0).mean()
else:
    loss = nn.functional.nll_loss(torch.log(torch.relu(out) * 0), y.long()[:, 0] * 0)  # born here
"""


@libraries
@pytest.mark.parametrize("kind", ["log", "other"])
def test_the_branch_that_was_taken_is_told(library: str, kind: str) -> None:
    """Both branches give a number that is not finite; the condition tells which of them did."""
    branches = BRANCHES.replace("\n", "\n        ").rstrip()
    text = f"kind = {kind!r}\n" + program(f"0.0{branches}")
    assert found(library, text).op == "log"


@pytest.mark.parametrize(
    ("loss", "result"),
    [
        ("total = total + torch.sqrt(out * x.mean()).mean()  # born here", "total"),
        ("total += torch.sqrt(out * x.mean()).mean()  # born here", "total"),
        ("losses.append(torch.sqrt(out * x.mean()).mean())  # born here", "torch.stack(losses).mean()"),
    ],
)
@libraries
def test_a_birth_in_the_last_part_of_a_sum(library: str, loss: str, result: str) -> None:
    text = program(f"0.0\n        {loss}", read="0.0", between="net.fc2.bias.data.fill_(-100.0)")
    text = text.replace("total = 0.0", "total, losses = 0.0, []").replace("return total", f"return float({result})")
    text = text.replace("batches = [(torch.randn(16, 4)", "batches = [(torch.rand(16, 4) + 1.0")
    event = found(library, text)
    assert (event.op, event.kind) == ("sqrt", "invalid")


@libraries
def test_running_averages_that_are_nan(library: str) -> None:
    text = program(between="net.norm.running_var[3] = float('nan')")
    event = only_event(run(library, text))
    assert (event.kind, event.operands) == ("leaf", {"norm.running_var": pytest.approx(float("nan"), nan_ok=True)})
    assert "in training mode earlier" in (event.cause or "")
    assert "reset_running_stats" in (event.remedy or "")


@libraries
def test_data_that_came_in(library: str) -> None:
    event = only_event(run(library, program(between="batches[1][0][3] = float('nan')")))
    assert (event.index or ())[:1] == (3,)
    assert event.kind == "leaf" or library == "retrograd"


def test_a_sum_over_batches_is_explained_by_the_next_evaluation() -> None:
    """The latest call of the model has made no NaN: its outputs are looked at only once there is a reason to."""
    text = program(
        read="loss",
        inside="torch.log(h * x.amin())  # born here",
        between="batches = [(torch.rand(16, 4) + 1.0, y) for _, y in batches]; batches[0][0][0] = -1.0",
        evaluations="first = evaluate()\nwith torch.no_grad(): print(float(first))\ntrain()\n"
        "second = evaluate()\nwith torch.no_grad(): print(float(second))",
    )
    w = run("torch", text)
    event = only_event(w)
    assert (event.op, event.lineno, event.step) == ("log", line(text), 6)


@libraries
@pytest.mark.parametrize(
    "loss",
    [
        "(out.round() * 0).sum() / (y * 0).sum()",  # a score of a class that does not occur
        "out[y > 2].mean()",
    ],
)
def test_measures_that_are_undefined_are_not_reported(library: str, loss: str) -> None:
    assert not run(library, program(loss, read="loss.item()")).events


@libraries
@pytest.mark.parametrize(
    "score",
    [
        "iou = inter / union\n        total += iou[1].item()",
        "iou = torch.stack([inter[c] / union[c] for c in range(2)])\n        total += iou[1].item()",
        "total += (inter / union)[1].item()",
        "total += score_of(inter, union).item()",
        "f1 = 2 * inter / (inter + union)\n        f1 = f1 * 1.0\n        total += float(f1[1])",
    ],
)
def test_scores_of_classes_that_do_not_occur_are_not_reported(library: str, score: str) -> None:
    defined = "def score_of(a, b):\n    ratio = a / b\n    return ratio[1]\n"
    counts = "0.0\n        inter, union = torch.tensor([3.0, 0.0]), torch.tensor([4.0, 0.0])\n        "
    text = defined + program(read="0.0", loss=counts + score)
    assert not run(library, text).events


INFINITE = {
    "torch.exp((out - y).abs().mean() + 1000)  # born here": ("exp", "overflow"),
    "-torch.log(torch.relu(net(x) - 1000.0)).mean()  # born here": ("log", "divide"),
    "nn.functional.nll_loss(torch.log(torch.zeros(16, 2)), torch.zeros(16).long())  # born here": ("log", "divide"),
}


@libraries
@pytest.mark.parametrize("loss", INFINITE)
def test_an_infinite_loss(library: str, loss: str) -> None:
    event = found(library, program(loss))
    assert (event.op, event.kind) == INFINITE[loss]


@libraries
def test_an_infinite_loss_of_the_model(library: str) -> None:
    event = found(library, program(inside="h.abs() / 0.0 + 1.0  # born here"))
    assert (event.op, event.module_type) == ("div", "Net")


@libraries
@pytest.mark.parametrize(
    "loss",
    [
        "torch.tensor(float('inf'))",  # the best loss so far
        "torch.full((3,), float('inf')).amin() + 1.0",
        "10 * torch.log10(1 / ((out - out) ** 2).mean())",  # a perfect copy
        "-10 * torch.log10(((out - out) ** 2).mean())",
        "1 / (out - out).abs().sum()",
        "torch.log(out - out).max()",  # an impossible path in a search
    ],
)
def test_infinities_that_are_meant_are_not_reported(library: str, loss: str) -> None:
    assert not run(library, program(loss)).events


@libraries
def test_infinities_have_a_policy_of_their_own(library: str) -> None:
    text = program("torch.exp((out - y).abs().mean() + 1000)")
    assert not run(library, text, policy={"nan": "warn", "inf": "ignore"}).events


LAZY = """
later = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1))  # not called yet
with torch.no_grad():
    bound = (torch.ones(2) - 3.0).log().sum().item()  # born here
x = torch.tensor([1.0, -2.0], requires_grad=True)
x.log().sum().backward()
"""


@libraries
def test_models_without_numbers_yet_are_passed_over(library: str) -> None:
    read, trained = run(library, LAZY).events
    assert (read.op, read.lineno, trained.op) == ("log", line(LAZY), "log")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_traced_model_among_the_variables() -> None:
    """It takes no hooks, and its parts are no dict."""
    between = "traced = torch.jit.trace(net.eval(), torch.ones(2, 4))\nnet.train()"
    text = program("torch.sqrt(traced(x) * 0 - 1.0).mean()", between=between)
    assert run("torch", text).step == 6
    text = program("torch.sqrt(net(x) * 0 - 1.0).mean()  # born here", between=between)
    assert found("torch", text).op == "sqrt"


@libraries
def test_a_nan_that_is_expected_is_not_reported(library: str) -> None:
    text = program(
        inside="h / (h - h)",
        evaluations="from retrograd.anomaly import expect_nonfinite\nwith expect_nonfinite('a test'): evaluate()",
    )
    assert not run(library, text).events


@libraries
@pytest.mark.parametrize("policy", ["raise", "warn", "skip_step"])
def test_it_warns_and_training_goes_on(library: str, policy: str) -> None:
    text = program(inside="h / (h - h)", evaluations="evaluate(); evaluate()")
    with pytest.warns(AnomalyWarning, match="it reached a number that the program reads") as warned:
        w = run(library, text, policy=policy)
    assert (len(warned), len(w.events), w.step) == (1, 1, 6)


@libraries
def test_the_policy_ignore(library: str) -> None:
    assert not run(library, program(inside="h / (h - h)"), policy="ignore").events


@libraries
def test_a_policy_of_the_users_is_asked(library: str) -> None:
    seen: list[NaNEvent] = []
    assert len(run(library, program(inside="h / (h - h)"), policy=lambda event: seen.append(event)).events) == 1
    assert len(seen) == 1
    assert not run(library, program(inside="h / (h - h)"), policy=lambda event: "ignore").events


def recorded(text: str) -> Watch:
    """The watch under which a torch program has run with every operation recorded."""
    import torch

    variables = {"torch": torch, "nn": torch.nn}
    with watch(policy="record", from_step=1) as w:
        exec(text, variables)
    return w


def test_with_every_operation_recorded() -> None:
    event = only_event(recorded(program(inside="h / (h - h)", read="loss.item()")))
    assert (event.op, event.harmed) == ("div", "a number that the program reads")
    assert not recorded(program("out[y > 2].mean()")).events


AGAIN = """
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

def step(x):
    out = net(x)
    parts = []
    for column in range(1):
        parts.append({{"loss": {loss}}})
    return parts[0]

def validate():
    net.eval()
    with torch.no_grad():
        outputs = [step(x) for x, _ in batches]
        recorded.append(bool(_get_current_dispatch_mode_stack()))
        result = float(torch.stack([each["loss"] for each in outputs]).mean())
    net.train()
    return result

recorded, in_training = [], []
net.register_forward_hook(lambda *_: in_training.append(bool(net.training and _get_current_dispatch_mode_stack())))
results = []
for epoch in range({evaluations}):
    train()
    results.append(validate())
train()
"""


def of_several(loss: str, *, inside: str = "h", evaluations: int = 4, again: str = AGAIN) -> tuple[Watch, list[bool]]:
    """The watch of a program with some evaluations, and which of them were recorded; training never is."""
    import torch

    variables = {"torch": torch, "nn": torch.nn}
    text = TRAINING.format(inside=inside) + again.format(loss=loss, evaluations=evaluations)
    with watch(policy="record") as w:
        exec(compile(text, "<evaluations>", "exec"), variables)
    assert not any(variables["in_training"])
    assert not _modes_on()
    return w, variables["recorded"]


def _modes_on() -> bool:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return bool(_get_current_dispatch_mode_stack())


def test_an_evaluation_after_one_of_unknown_origin_is_recorded() -> None:
    w, recorded = of_several("torch.sqrt(out[:, column] * 0 - 1.0).mean()")
    event = only_event(w)
    assert (event.op, event.operands, event.step) == ("sqrt", {"input": -1.0}, 6)
    assert recorded == [False, True, False, False]


def test_a_birth_in_a_model_in_an_evaluation_that_is_recorded() -> None:
    """Models are not recorded: the call that has returned a NaN is run again."""
    inside = "torch.log(h + 1) if (x.sum() - batches[0][0].sum()).abs() > 1e-3 else torch.log(-h - 1)"
    w, recorded = of_several("out.mean() + column", inside=inside)
    event = only_event(w)
    assert (event.op, event.module_type) == ("log", "Net")
    assert recorded == [False, True, False, False]


def test_a_part_of_an_evaluation_is_not_enough() -> None:
    """What the model is called for after the number was read tells nothing of it."""
    last = "    net.train()\n    return result"
    more = f"    with torch.no_grad():\n        other = float(net(batches[0][0]).mean())\n{last}"
    w, recorded = of_several("torch.sqrt(out[:, column] * 0 - 1.0).mean()", again=AGAIN.replace(last, more))
    assert only_event(w).op == "sqrt"
    assert recorded == [False, True, False, False]


def test_no_more_than_two_evaluations_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here each is too long, so that no record of it is complete."""
    from retrograd.anomaly.adapters.torch.records import recorded_evaluation

    monkeypatch.setattr(recorded_evaluation, "_MOST_OPERATIONS", 0)
    w, recorded = of_several("torch.sqrt(out[:, column] * 0 - 1.0).mean()", evaluations=9)
    assert not w.events
    assert [number for number, is_recorded in enumerate(recorded) if is_recorded] == [1, 4]


@pytest.mark.parametrize(
    ("loss", "recorded"),
    [
        ("(out ** 2).mean()", [False] * 4),
        ("torch.full((), float('inf'))", [False, True, False, False]),
        ("torch.full((), float('nan'))", [False, True, False, False]),
    ],
)
def test_what_is_known_to_be_meant_is_not_recorded_again(loss: str, recorded: list[bool]) -> None:
    w, known = of_several(loss)
    assert not w.events
    assert known == recorded
