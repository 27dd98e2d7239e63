"""The model and the optimizer in a remedy are those of the program, under its names and with its options."""

from __future__ import annotations

import pytest
import torch

import retrograd as rg
from retrograd.anomaly.report import format_event
from tests.anomaly.both import only_event, run

RUNAWAY = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=5.0, momentum=0.9)
x, y = torch.randn(16, 4) * 10, torch.randn(16, 1)
for _ in range(30):
    if w.events:
        break
    opt.zero_grad()
    F.mse_loss(net(x), y).backward()
    opt.step()
"""


def test_the_remedy_changes_the_line_that_made_the_optimizer() -> None:
    event = run("torch", RUNAWAY).events[0]
    assert event.remedy == "opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)"
    assert event.remedy_lineno == 3


def test_the_rate_is_that_of_the_step_and_not_the_initial_one() -> None:
    """The rate of the step counts, not the one that the optimizer was made with."""
    schedule = "schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 0.25)\n"
    event = run("torch", RUNAWAY.replace("for _", schedule + "for _")).events[0]
    assert "than 1.25" in (event.cause or "")


def test_the_remedy_changes_the_line_with_the_rate() -> None:
    """The line with the rate is rewritten."""
    program = RUNAWAY.replace("SGD(net.parameters(), lr=5.0, momentum=0.9)", "SGD(\n    net.parameters(),\n    lr=5.0)")
    event = run("torch", program).events[0]
    assert (event.remedy, event.remedy_lineno) == ("lr=0.001)", 5)


OWN = """
class Scaled(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            p.sub_(0.1 * p.norm() / p.grad.norm() * p.grad)
net = nn.Linear(2, 1, bias=False)
opt = Scaled(net.parameters())
for _ in range(2):
    opt.zero_grad()
    (net(torch.ones(3, 2)) * 0).sum().backward()
    opt.step()
"""


def test_a_step_of_a_custom_optimizer_is_blamed() -> None:
    event = only_event(run("torch", OWN))
    assert "the step of Scaled, your own optimizer" in (event.cause or "")
    assert event.remedy is None
    assert event.rerun == "watch(..., from_step=1)"


BY_HAND = """
w = torch.ones(2, requires_grad=True)
for _ in range(2):
    (w * torch.tensor([1.0, 0.0])).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad / w.grad.abs()
        w.grad = None
"""


def test_a_weight_spoilt_by_hand_gets_no_remedy() -> None:
    """It was good when training began, and no other number would be better than NaN."""
    event = only_event(run("torch", BY_HAND))
    assert (event.kind, event.step, event.remedy) == ("leaf", 2, None)
    assert "after 1 step" in (event.cause or "")
    assert event.rerun == "watch(..., from_step=1)"
    report = format_event(event)
    assert "instead" not in report
    assert "Fix its source, then run again." in report


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_optimizers_of_torch_are_not_called_custom(optimizer: str) -> None:
    program = f"""
net = nn.Linear(2, 1)
opt = torch.optim.{optimizer}(net.parameters(), lr=0.1)
net(torch.ones(3, 2)).sum().backward()
opt.step()
net.weight.data.fill_(float("nan"))
net(torch.ones(3, 2)).sum().backward()
"""
    assert "your own" not in (run("torch", program).events[0].cause or "")


def test_operations_may_be_allowed_by_torchs_names() -> None:
    names = ("log", "LogBackward0", "aten::log", "aten.log.default", "torch.log", "_softmax", "addmm", "AddmmBackward0")
    watch = rg.anomaly.watch(torch.nn.Linear(2, 2), allow=names)
    assert {"log", "softmax", "linear"} <= watch.allow
    with pytest.raises(ValueError, match="no operation 'lgo'; did you mean 'log'"):
        rg.anomaly.watch(torch.nn.Linear(2, 2), allow=["lgo"])


def test_every_operation_of_torch_may_be_allowed() -> None:
    nodes = {name for name in dir(torch._C._functions) if "Backward" in name}
    schemas = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}
    rg.anomaly.watch(allow=[name for name in schemas if name.rpartition("::")[2] in dir(torch)])
    rg.anomaly.watch(allow=nodes)


BATCH = """
__name__ = "program"
class Store:
    def __init__(self, **given):
        self._mapping = given
class Batch:
    def __init__(self, **given):
        self._store = Store(**given)
    def __getattr__(self, name):
        return self._store._mapping[name]
    def __getitem__(self, name):
        return self._store._mapping[name]
model = nn.Linear(2, 1)
batches = [Batch(x=torch.tensor([[1.0, 2.0], [3.0, float("nan")]]), y=torch.ones(2, 1))]
for batch in w.steps(batches):
    model.zero_grad()
    F.mse_loss(model(BATCH_X), batch.y).backward()
"""


@pytest.mark.parametrize("x", ["batch.x", "batch['x']"])
def test_data_in_a_batch_object_has_its_full_name(x: str) -> None:
    event = only_event(run("torch", BATCH.replace("BATCH_X", x)))
    assert (event.kind, event.index) == ("leaf", (1, 1))
    assert list(event.operands) == [x]


class Rows:
    __slots__ = ("table",)


class Squares(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return (self.layer.weight * given).sum()


def test_data_given_by_keyword_has_its_full_name() -> None:
    model, rows = Squares(), Rows()
    rows.table = torch.tensor([[1.0, float("nan")]])
    with rg.anomaly.watch(model, policy="record") as w:
        model(given=rows.table).backward()
    event = only_event(w)
    assert (event.kind, list(event.operands)) == ("leaf", ["rows.table"])


@pytest.mark.parametrize("steps", [False, True])
def test_data_that_requires_grad_is_no_parameter(steps: bool) -> None:
    """Positions require grad if their forces are computed, and so do images that are to be explained."""
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = [torch.ones(4, 3), torch.ones(4, 3)]
    batches[1][2, 0] = torch.nan
    with rg.anomaly.watch(policy="record") as w:
        for positions in w.steps(batches) if steps else batches:
            positions.requires_grad_()
            energy = net(positions).sum()
            energy.backward()
            optimizer.step()
    event = w.events[0]
    assert (event.kind, event.index) == ("leaf", (2, 0))
    assert event.surroundings.context["leaf"] == "batch"
    assert event.remedy == "positions = positions[torch.isfinite(positions).reshape(len(positions), -1).all(1)]"


def test_a_tensor_that_an_optimizer_updates_is_a_parameter() -> None:
    weight = torch.tensor([1.0, torch.nan], requires_grad=True)
    other = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([other, weight], lr=0.1)
    with rg.anomaly.watch(policy="record") as w:
        (weight * other).sum().backward()
        optimizer.step()
    assert w.events[0].surroundings.context["leaf"] == "parameter"


AVERAGED = """
class EMA(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
ema = EMA(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
out = net(torch.ones(2, 4))
torch.sqrt(out - out.detach()).sum().backward()
opt.step()
"""


@pytest.mark.parametrize("copied", ["", "self.average = copy.deepcopy(model).requires_grad_(False)"])
def test_parameters_have_their_names_in_the_model_and_not_in_its_holder(copied: str) -> None:
    """An average of the weights holds the model, and is larger by one module, or by a copy of the model too."""
    text = AVERAGED.replace("self.model = model", f"self.model = model\n        {copied}")
    event = only_event(run("torch", f"import copy{text}"))
    assert event.harmed == "the gradient of 2.bias"


COPIED = """
import copy
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
average = copy.deepcopy(net)
net = copy.deepcopy(net)  # the average lies in front
opt = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.no_grad():
    net[2].weight[0, 1] = average[2].weight[0, 3] = torch.nan
net(torch.ones(2, 4)).sum().backward()
"""


def test_names_come_from_the_model_and_not_from_its_averaged_copy() -> None:
    event = only_event(run("torch", COPIED))
    assert (event.layer_name, event.index, event.operands) == (
        "2",
        (0, 1),
        {"2.weight": pytest.approx(float("nan"), nan_ok=True)},
    )
