"""Births in the backward of a loss function, without a second run."""

from __future__ import annotations

import gc
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import retrograd as rg
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records import saved_tensor_hooks
from tests.anomaly.torch.training import Net, Root, batches, line_of, train


def rmse(out: Tensor) -> Tensor:
    return torch.sqrt(((out - out.detach()) ** 2).mean())  # rmse


def library(out: Tensor) -> Tensor:
    return F.mse_loss(out, out.detach()).sqrt()  # library


def distances(out: Tensor) -> Tensor:
    return ((out - out.detach()) ** 2).sum(-1).sqrt().sum()  # distances


def own(out: Tensor) -> Tensor:
    return Root.apply((out - out.detach()) * torch.ones(2)).sum()  # own


def masked(out: Tensor) -> Tensor:
    gap = out - out.detach()
    return torch.where(gap > 0, torch.log(gap), 0.0).sum()  # masked


def quotient(out: Tensor) -> Tensor:
    gap = out - out.detach()
    return torch.where(gap > 0, gap / gap.abs(), 0.0).sum()  # quotient


LOSSES: list[tuple[Callable[[Tensor], Tensor], str, tuple[int, ...]]] = [
    (rmse, "SqrtBackward0", ()),
    (library, "SqrtBackward0", ()),
    (distances, "SqrtBackward0", (0,)),
    (own, "RootBackward", (0, 0)),
    (masked, "LogBackward0", (0, 0)),
    (quotient, "DivBackward0", (0, 0)),
]


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize(("loss", "op", "index"), LOSSES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_birth_in_the_loss_has_operation_line_and_element(
    loss: Any, op: str, index: tuple[int, ...], model: bool, lag: int
) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net if model else None, optimizer, "skip_step", lag=lag, budget=1e9) as w:
        train(net, optimizer, batches(4))
        optimizer.zero_grad()
        loss(net(batches(1)[0])).backward()
        optimizer.step()
    (event,) = w.events
    assert (event.op, event.index, event.is_backward) == (op, index, True)
    assert event.harmed is not None
    assert event.harmed.startswith("the gradient of ")
    if loss is own and sys.version_info < (3, 12):  # a Function's call is no function of torch's
        assert event.function is not None
        assert event.function.endswith("Root.backward")
    else:
        assert event.lineno == line_of(f"# {loss.__name__}", loss)


def logarithm(out: Tensor) -> Tensor:
    return torch.log((out - out.detach()) ** 2).sum()  # logarithm


def test_a_bad_loss_without_a_graph_has_its_birth() -> None:
    """On a GPU, losses are read with the gradients."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1, budget=1e9) as w:
        logarithm(net(batches(1)[0])).backward()
        optimizer.step()
    assert w.event is not None
    assert (w.event.op, w.event.index, w.event.harmed) == ("log", (0, 0), "loss")
    assert w.event.lineno == line_of("# logarithm", logarithm)


def test_an_unknown_operand_is_not_taken_for_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.anomaly.adapters.torch.records.loss_tail._MOST_NODES", 2)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(None, optimizer, "skip_step", lag=1, budget=1e9) as w:
        out = net(batches(1)[0]) * math.nan
        (out * 2.0).sum().backward()
        optimizer.step()
    assert w.event is not None
    assert w.event.harmed == "loss"
    assert "steps(loader)" in (w.event.note or "")


def test_a_birth_in_the_loss_has_operands_and_a_remedy() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "record", budget=1e9) as w:
        rmse(net(batches(1)[0])).backward()
        optimizer.step()
    event = w.event
    assert event is not None
    assert event.operands == {"input": 0.0}
    assert event.remedy == "return torch.sqrt(torch.clamp(((out - out.detach()) ** 2).mean(), min=1e-30))  # rmse"


def test_a_birth_in_the_model_is_not_blamed_on_the_loss() -> None:
    """The loss's own backward is finite; a parameter's way through it is not looked for elsewhere."""
    net = Net(lambda out: torch.sqrt(out - out.detach()))  # in the model
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "record", budget=1e9) as w:
        rmse(net(batches(1)[0]) + torch.randn(5, 2)).backward()
        optimizer.step()
    assert w.event is not None
    assert w.event.lineno in (
        line_of("# in the model", test_a_birth_in_the_model_is_not_blamed_on_the_loss),
        line_of("# rmse", rmse),
    )


@pytest.fixture(params=[True, False])
def hooks_told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whether torch tells of a saved tensor by which hooks it was packed, as 2.9 does not."""
    patches = Patches()
    if not request.param:
        monkeypatch.setattr(saved_tensor_hooks, "_TOLD", False)
        saved_tensor_hooks.note_hooks(patches)
    yield
    patches.undo()


@pytest.mark.usefixtures("hooks_told")
@pytest.mark.parametrize("bad", [False, True])
def test_packed_tensors_are_unpacked_once(bad: bool) -> None:
    """A hook may be good for one call only: it takes the tensor out of a store, or deletes its file."""
    store: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> int:
        number = next(numbers)
        store[number] = tensor.detach().clone()
        return number

    numbers = iter(range(1000))
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(policy="record") as w:
        for number, x in enumerate(batches(3)):
            optimizer.zero_grad()
            with torch.autograd.graph.saved_tensors_hooks(pack, store.pop):
                loss = torch.log(net(x).square() * (number < 2 or not bad)).sum()
            loss.backward()
            optimizer.step()
    assert not store
    assert len(w.events) == bad


@pytest.mark.usefixtures("hooks_told")
def test_a_checkpoint_is_recomputed_once_with_its_random_numbers() -> None:
    def layer(x: Tensor) -> Tensor:
        calls.append(1)
        return torch.dropout(x.exp(), 0.5, True).log1p()

    calls: list[int] = []
    net = Net()
    for watched in (False, True):
        torch.manual_seed(0)
        with rg.anomaly.watch() if watched else nullcontext():
            checkpoint(layer, net(torch.ones(2, 4)), use_reentrant=False, preserve_rng_state=False).sum().backward()
        if not watched:
            expected = len(calls), torch.rand(1)
            calls.clear()
    assert (len(calls), torch.rand(1)) == expected


def test_no_tensor_is_kept_after_the_step() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    kept = []
    with rg.anomaly.watch(net, optimizer):
        out = net(batches(1)[0])
        loss = F.mse_loss(out, target := torch.zeros(5, 2))
        kept.append(weakref.ref(target))
        loss.backward()
        del loss, out, target
        optimizer.step()
        gc.collect()
        assert kept[0]() is None


def test_large_tensors_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.anomaly.adapters.torch.records.loss_tail._MOST_BYTES", 100)
    x = torch.ones(100, requires_grad=True)
    kept = []
    with rg.anomaly.watch(None, torch.optim.SGD([x], 0.1)):
        y = x * 2.0
        kept.append(weakref.ref(y))
        z = (y**2).sum()
        del y
        z.backward()
        gc.collect()
        assert kept[0]() is None


def test_hooks_on_the_end_of_the_graph_are_removed() -> None:
    """A graph that is kept goes through backward again and again."""
    x = torch.ones(3, requires_grad=True)
    loss = (x**2).sum()
    with rg.anomaly.watch(None, torch.optim.SGD([x], 0.1)) as w:
        for _ in range(3):
            loss.backward(retain_graph=True)
            assert len(w._adapters[0].now.tail._work) == 1  # type: ignore[attr-defined]
    gradient = torch.autograd.grad(loss, x)[0]
    assert gradient.tolist() == [2.0, 2.0, 2.0]


def test_gradients_are_the_same_with_and_without_the_watch() -> None:
    def train_once(watched: bool) -> list[Tensor]:
        torch.manual_seed(0)
        net = nn.Linear(4, 3)
        w = rg.anomaly.watch(net).start() if watched else None
        F.cross_entropy(net(batches(1)[0]), torch.tensor([0, 1, 2, 0, 1])).backward()
        if w is not None:
            w.stop()
        return [each.grad for each in net.parameters() if each.grad is not None]

    torch.testing.assert_close(train_once(True), train_once(False), rtol=0, atol=0)


def test_a_custom_function_of_torch_has_no_line_of_its_own() -> None:
    """A checkpoint that is a Function: what it runs again in backward is known only where that can be run once more."""
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    calls = iter(range(2))  # of the program's own: in its forward pass and in its backward pass

    def root(each: torch.Tensor) -> torch.Tensor:
        next(calls)
        return torch.sqrt(each)

    with rg.anomaly.watch(policy="record") as w:
        checkpoint(root, x * 1.0, use_reentrant=True).sum().backward()
    event = w.event
    assert event is not None
    assert event.op == "CheckpointFunctionBackward"
    assert event.filename in (None, __file__)
    assert "user's own" not in (event.note or "")
    assert event.rerun is not None


@pytest.mark.parametrize("terms", [4, 20])
def test_a_birth_far_from_the_end_of_a_long_loss_is_found(terms: int) -> None:
    """A loss of many terms: the one with the fault lies furthest from the end."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", budget=1e9) as w:
        out = net(batches(1)[0])
        loss = rmse(out)
        for _ in range(terms):
            loss = loss + out.pow(2).mean()
        loss.backward()
        optimizer.step()
    (event,) = w.events
    assert (event.op, event.is_backward) == ("SqrtBackward0", True)
    assert event.lineno == line_of("# rmse", rmse)
