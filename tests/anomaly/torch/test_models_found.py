"""Models that the watch was not given, in unmodified scripts: found among the variables of the program."""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
import zipfile
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import retrograd as rg
from retrograd.anomaly.adapters.torch.models import Models, adds_copies
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCalls
from tests.anomaly.torch.training import line_of, state


def script(policy: str = "skip_step") -> Any:
    """The watch as `retrograd run` starts it."""
    w = rg.anomaly.watch(policy=policy)
    w.rerun_loaders = True
    return w


class Deep(nn.Module):
    """A fault in the middle, far from the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.rest = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(10)))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        size = (h * h).sum(-1, keepdim=True)
        h = torch.where(size > 0, h / torch.sqrt(size), h)  # the birth in the middle
        return self.rest(h)


def data(steps: int, bad: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 4, generator=generator) * (step != bad) for step in range(steps)]


class Trainer:
    """Holds its model as an attribute."""

    def __init__(self) -> None:
        self.model = Deep()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def train(self, batches: list[Tensor]) -> None:
        for x in batches:
            self.optimizer.zero_grad()
            self.model(x).pow(2).mean().backward()
            self.optimizer.step()


def test_the_model_is_run_again_without_a_loader() -> None:
    trainer = Trainer()
    with script() as w:
        trainer.train(data(4, bad=2))
    event = w.event
    assert (event.op, event.step, event.module_type) == ("DivBackward0", 3, "Deep")
    assert event.lineno == line_of("# the birth in the middle", Deep)
    assert event.rerun is None
    assert not trainer.model._forward_hooks, "nothing stays behind"


def test_the_model_is_run_again_in_the_first_step() -> None:
    """The model is found when its optimizer is made."""
    with script() as w:
        trainer = Trainer()
        trainer.train(data(2, bad=0))
    assert [(each.op, each.step, each.module_type) for each in w.events] == [("DivBackward0", 1, "Deep")]
    assert w.event.rerun is None
    assert not trainer.model._forward_hooks, "nothing stays behind"


def normalised() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def test_averages_are_restored_after_a_bad_first_step() -> None:
    """They may have been loaded after the optimizer was made."""
    with script() as w:
        model = normalised()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loaded = {name: torch.full_like(value, 2) for name, value in model.state_dict().items()}
        model.load_state_dict(loaded)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.full((3, 4), torch.nan)).sum().backward()
            optimizer.step()
    assert [each.step for each in w.events] == [1, 2]
    torch.testing.assert_close(state(model), loaded, rtol=0, atol=0)


def test_a_loop_over_a_loader_puts_no_hooks_on_models() -> None:
    """Its steps are run again."""
    with script():
        model = normalised()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in DataLoader(torch.randn(6, 4), 3):
            model(x).sum().backward()
            assert not (model._forward_hooks or model._forward_pre_hooks)
            optimizer.step()


def test_a_model_that_is_compiled_later_has_no_hooks(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(torch._dynamo.reset)
    with script() as w:
        model = Deep()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        assert model._forward_hooks
        run = torch.compile(model, backend="eager")
        assert not (model._forward_hooks or model._forward_pre_hooks)
        run(data(1, bad=1)[0]).sum().backward()
        optimizer.step()
    assert not w.events


class Replicated(nn.Module):
    """Goes around a model when its optimizer is there already."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x / x.abs().amax(-1, keepdim=True).detach())  # the birth around the model


@pytest.mark.parametrize("bad", [0, 2])
def test_a_module_around_a_model_is_run_again_instead(bad: int) -> None:
    with script() as w:
        inner = Deep()
        optimizer = torch.optim.SGD(inner.parameters(), 0.1)
        outer = Replicated(inner)
        for x in data(4, bad):
            optimizer.zero_grad()
            outer(x).pow(2).mean().backward()
            optimizer.step()
        assert bad == 0 or not inner._forward_hooks
    assert [each.step for each in w.events] == [bad + 1]
    if bad:
        assert (w.event.op, w.event.lineno) == ("div", line_of("# the birth around the model", Replicated))


class Unready(nn.Module):
    """Makes the optimizer of another module before it is a module itself."""

    def __init__(self, part: nn.Module) -> None:
        self.optimizer = torch.optim.SGD(part.parameters(), 0.1)
        super().__init__()
        self.part = part


def test_a_module_under_construction_is_not_asked_for_its_parameters() -> None:
    with script():
        assert Unready(Deep()).part is not None


def test_a_watch_in_the_program_searches_no_models() -> None:
    with rg.anomaly.watch(policy="record") as w:
        Trainer().train(data(4, bad=2))
    assert w.event.op == "unknown"


def test_the_bad_one_of_several_models_is_run_again() -> None:
    """The fault lies in the model whose outputs go through another one."""
    front, back = Deep(), nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()) for _ in range(10)))
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (front, back)]
    with script() as w:
        for x in data(4, bad=2):
            for optimizer in optimizers:
                optimizer.zero_grad()
            back(front(x)).pow(2).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert (w.event.op, w.event.lineno) == ("DivBackward0", line_of("# the birth in the middle", Deep))


@pytest.mark.parametrize("policy", ["skip_step", "record"])
def test_the_second_run_begins_with_the_buffers_of_before(policy: str) -> None:
    norm = nn.Sequential(nn.BatchNorm1d(4))

    def train(loader: Any) -> dict[str, Tensor]:
        with script(policy) as w:
            for x in loader:
                before.append(state(norm))
                out = norm(x)
                (out.sum() if len(before) != 2 else torch.log(out.sum() * 0)).backward()
            seen.extend(w.events)
        return state(norm)

    before: list[Any] = []
    seen: list[Any] = []
    train(DataLoader(torch.randn(12, 4), 4))
    assert [each.reproducible for each in seen] == [False] if len(before) == 3 else [True]
    assert len(before) == 4, "one batch comes twice"
    torch.testing.assert_close(before[2], before[1], rtol=0, atol=0)
    torch.testing.assert_close(before[3], before[1], rtol=0, atol=0)


def test_models_that_look_for_hooks_get_none() -> None:
    layer = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with script():
        layer(torch.randn(2, 3, 4)).sum().backward()
        optimizer.step()
        assert not layer._forward_hooks


class Averages(nn.Module):
    """Computes with its inputs, before any weight has met them."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 1)

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        means = x / counts[:, None]  # the birth without a gradient
        return self.out(torch.cat([x, means], dim=-1))


def train_averages(counts: list[Tensor], spoil: bool = False) -> Any:
    model = Averages()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with script() as w:
        for each in counts:
            x = torch.ones(3, 4).div_(each[:, None] if spoil else 1)  # in place, which is not computed again
            optimizer.zero_grad()
            model(x, each.clamp(min=1) if spoil else each).sum().backward()
            optimizer.step()
    return w.event


def test_a_birth_without_a_gradient_in_a_model_is_found() -> None:
    """The graph knows nothing of it; the model run again does."""
    event = train_averages([torch.ones(3), torch.tensor([1.0, 0.0, 1.0])])
    assert (event.op, event.index, event.lineno) == ("div", (1, 0), line_of("# the birth without a gradient", Averages))
    assert event.operands == {"input": 1.0, "other": 0.0}
    assert event.rerun is None


def test_data_that_was_bad_before_the_model_is_reported_as_data() -> None:
    event = train_averages([torch.ones(3), torch.tensor([1.0, 0.0, 1.0])], spoil=True)
    assert event.kind == "leaf"
    assert event.surroundings.context["name"] == "x"


def test_a_parameter_of_a_second_module_has_its_name() -> None:
    backbone, head = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], 0.1)
    with script() as w:
        for scale in (1.0, 0.0):
            optimizer.zero_grad()
            (head(backbone(torch.ones(2, 4)).detach()) * scale).square().sum().sqrt().backward()
            optimizer.step()
    assert w.event.harmed == "the gradient of head.weight"


def test_a_gradient_without_a_backward_is_not_blamed_on_a_loss() -> None:
    """No backward has run, so there is no loss to blame."""
    net = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with script() as w:
        grads = torch.func.grad(lambda given: torch.func.functional_call(net, given, torch.zeros(1, 2)).sqrt().sum())(
            {name: each.detach() for name, each in net.named_parameters()}
        )
        net.weight.grad = grads["weight"]
        optimizer.step()
    assert "no backward pass since the last update" in w.event.cause
    assert "loss" not in w.event.cause


def test_the_gradients_of_a_second_optimizer_are_explained() -> None:
    """The second one's gradients are explained as well as the first one's."""
    backbone, head = nn.Linear(4, 4), nn.Linear(4, 1, bias=False)
    first = torch.optim.SGD(backbone.parameters(), 0.1)
    second = torch.optim.SGD(head.parameters(), 0.1)
    with script() as w:
        for scale in (1.0, 0.0):
            first.zero_grad()
            second.zero_grad()
            own = backbone(torch.ones(2, 4))
            wrong = (head(own.detach()) * scale).square().sum().sqrt()  # the birth for the second one
            (own.sum() + wrong).backward()
            first.step()
            second.step()
    assert (w.event.op, w.event.lineno) == (
        "SqrtBackward0",
        line_of("# the birth for the second one", test_the_gradients_of_a_second_optimizer_are_explained),
    )
    assert backbone.weight.isfinite().all()
    assert head.weight.isfinite().all()


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))


def some_steps(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def pickled(model: nn.Module) -> list[Any]:
    """The names in a pickle; of tensors it has addresses."""
    return [(op.name, arg) for op, arg, _ in pickletools.genops(pickle.dumps(model)) if isinstance(arg, str)]


def saved(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.save(model, file)
    with zipfile.ZipFile(file) as archive:
        return archive.read("archive/data.pkl")


def used(model: nn.Module) -> str:
    """A model whose outputs are still in use."""
    output = model(torch.ones(2, 4, requires_grad=True) * 2)
    return str(vars(copy.deepcopy(model))) + str(output.shape)


class Reducible:
    def __reduce_ex__(self, protocol: Any) -> Any:
        return str, ("its own way",)


class TwoBases(nn.Linear, Reducible):
    """Pickles in a way of its own, by a base that is no module."""


WAYS = {
    "pickle": pickled,
    "copy.deepcopy": lambda model: str(vars(copy.deepcopy(model))),
    "copy.copy": lambda model: str(vars(copy.copy(model))),
    "in use": used,
    "torch.save": saved,
    "torch.jit.script": lambda model: torch.jit.script(model).code,
    "torch.jit.trace": lambda model: torch.jit.trace(model, torch.ones(2, 4)).code,
    "torch.export": lambda model: torch.export.export(model, (torch.ones(2, 4),)).graph_module.code,
    "torch.fx": lambda model: torch.fx.symbolic_trace(model).code,
}


@pytest.mark.filterwarnings("error::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_copying_and_scripting_work_as_without_the_watch(way: str) -> None:
    model = plain()
    some_steps(model)
    expected = WAYS[way](model)
    model = plain()
    with script() as w:
        some_steps(model)
        hooks = dict(model._forward_hooks)
        assert hooks, "the model has been found"
        assert WAYS[way](model) == expected
        assert model._forward_hooks == hooks, "it still is"
    assert not w.events


def _leave_alone(*args: Any) -> None:
    """A hook of the program's."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_copies_of_a_model_keep_the_programs_hooks() -> None:
    model = plain()
    model.register_forward_hook(_leave_alone)
    with script():
        some_steps(model)
        model.register_forward_hook(_leave_alone)
        before = list(model._forward_hooks)
        copied = copy.deepcopy(model)
        assert [*copied._forward_hooks.values()] == [_leave_alone, _leave_alone]
        assert list(model._forward_hooks) == before
        with pytest.raises(torch.jit.frontend.NotSupportedError):  # those of the program cannot be scripted
            torch.jit.script(model)
        assert list(model._forward_hooks) == before


def test_a_model_with_its_own_pickling_is_pickled() -> None:
    model = TwoBases(4, 1)
    with script():
        some_steps(model)
        assert pickle.loads(pickle.dumps(model)) == "its own way"


class Objective(nn.Module):
    """A model that answers with a statistic beside its loss, which leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(4, 1)

    def forward(self, x: Tensor, returns: Tensor) -> dict[str, Tensor]:
        value = self.value(x).squeeze(-1)
        unexplained = torch.var(returns - value.detach())
        return {"unexplained": unexplained, "loss": (value - returns).pow(2).mean()}


def test_a_bad_statistic_beside_the_loss_is_not_blamed() -> None:
    model = Objective()
    rewards = torch.tensor([1.0, 0.0, 2.0])
    with rg.anomaly.watch(model, policy="record") as w:
        model(torch.ones(3, 4), torch.log(rewards))["loss"].backward()
    assert w.event is not None
    assert (w.event.kind, w.event.index, [*w.event.operands.values()]) == ("leaf", (1,), [float("-inf")])
    assert "var" not in w.event.path


class Holder(nn.Module):
    """Holds the model whose weights it averages, and is not called in a step."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.online = model


class Average(Holder):
    """Keeps the averages in a copy, which it calls."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.average = copy.deepcopy(model).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.average(x)


@pytest.mark.parametrize("holder", [Holder, Average])
def test_the_model_is_run_again_and_not_its_average(holder: type[Holder]) -> None:
    trainer = Trainer()
    average = holder(trainer.model)
    with script() as w:
        trainer.train(data(4, bad=2))
    assert average.online is trainer.model
    assert (w.event.op, w.event.lineno) == ("DivBackward0", line_of("# the birth in the middle", Deep))


def met(optimizer: torch.optim.Optimizer) -> tuple[Models, list[nn.Module]]:
    """The models that are known once an optimizer has been met, and those among them whose calls are remembered."""
    calls = ModelCalls(lambda: True)
    models = Models(script(), None, calls)
    models.meet(optimizer, steps=True)
    followed = list(calls._models)
    calls.stop()
    return models, followed


def test_a_model_of_two_towers_is_run_again_as_a_whole() -> None:
    """It holds what looks like a copy of one that a variable has, but all of it learns."""
    one, other = nn.Linear(4, 4), nn.Linear(4, 4)
    towers = nn.ModuleList([one, other])
    optimizer = torch.optim.SGD(towers.parameters(), 0.1)
    assert adds_copies(towers, [one], set())
    assert met(optimizer)[1] == [towers]


def test_the_buffers_of_an_average_are_restored() -> None:
    model = nn.Linear(4, 4)
    average = Average(model)
    average.register_buffer("updates", torch.tensor(0))
    models, followed = met(torch.optim.SGD(model.parameters(), 0.1))
    assert followed == [model]
    assert any(each is average.updates for each in models.buffers())


class Quantised(torch.autograd.Function):
    """Rounds to steps between the smallest and the largest number of each column."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        scale = (x.amax(0) - x.amin(0)) / 255
        return torch.round(x / scale) * scale  # the birth in forward

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad


class WithRounding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return Quantised.apply(torch.relu(self.first(x)))  # type: ignore[no-any-return]


def test_the_model_is_run_again_to_look_into_a_function_of_the_programs_own() -> None:
    torch.manual_seed(0)
    model = WithRounding()
    with torch.no_grad():
        model.first.bias[1] = -100.0  # so that its column is all zeros
    with rg.anomaly.watch(model, policy="skip_step") as w:
        model(torch.randn(4, 3)).pow(2).mean().backward()
    assert (w.event.op, w.event.lineno) == ("div", line_of("# the birth in forward", Quantised.forward))
    assert w.event.operands == {"input": 0.0, "other": 0.0}
