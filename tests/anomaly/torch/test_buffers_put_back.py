"""A step that is left out leaves no NaN in a batch norm's averages, also where it cannot be run again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch, watch

BAD = 2


def batches(bad: int = BAD) -> list[Tensor]:
    torch.manual_seed(0)
    made = [torch.randn(6, 3) for _ in range(4)]
    made[bad][1, 2] = float("nan")
    return made


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def state_of(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def train(model: Any, data: list[Tensor], w: Watch | None = None, gathered: int = 1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, batch in enumerate(data):
        model(batch).square().mean().backward()
        if number % gathered == gathered - 1:
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("given", [True, False], ids=["model given", "plain"])
def test_a_skipped_batch_does_not_change_the_averages(given: bool) -> None:
    model, expected = network(), network()
    with watch(model if given else None, policy="skip_step") as w:
        train(model, batches())
    train(expected, [batch for number, batch in enumerate(batches()) if number != BAD])
    assert [event.step for event in w.events] == [BAD + 1]
    for name, value in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_the_averages_are_restored_before_the_error_is_raised() -> None:
    model, expected = network(), network()
    with pytest.raises(AnomalyError), watch(model):
        train(model, batches())
    train(expected, batches()[:BAD])
    assert all(torch.equal(model.state_dict()[name], value) for name, value in expected.state_dict().items())


def test_all_batches_of_an_accumulated_update_are_undone() -> None:
    model, expected = network(), network()
    with watch(model, policy="skip_step"):
        train(model, batches(bad=2), gathered=2)
    train(expected, batches()[:2], gathered=2)
    model.eval()
    assert bool(model(torch.ones(1, 3)).isfinite())
    assert torch.equal(model[0].weight, expected[0].weight)  # type: ignore[index]


def test_another_loss_of_the_same_forward_pass_can_be_differentiated() -> None:
    model = network()
    head = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    with watch(model, policy="skip_step") as w:
        for batch in batches():
            made = model(batch)
            made.square().mean().backward(retain_graph=True)
            head(made.nan_to_num()).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(w.events) == 1


def test_averages_without_copies_are_named_in_the_note() -> None:
    model = network()
    with watch(policy="skip_step") as w:  # the model is found at the first update
        train(model, batches(bad=0))
    note = w.events[0].note or ""
    assert "1.running_mean and 1.running_var hold NaN" in note and "reset_running_stats()" in note


def test_infinite_constant_buffers_are_not_changed() -> None:
    model = network()
    model.register_buffer("mask", torch.full((3,), float("-inf")))
    version = model.get_buffer("mask")._version
    with watch(model, policy="skip_step") as w:
        train(model, batches())
    assert model.get_buffer("mask")._version == version and "mask" not in (w.events[0].note or "")


def test_moved_and_deleted_models_do_no_harm() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, policy="skip_step"), suppress(RuntimeError):
        for number, batch in enumerate(batches()):
            if number == 1:
                model.double()
            loss = model(batch.to(model[0].weight.dtype)).square().mean()  # type: ignore[index]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert all(bool(buffer.isfinite().all()) for buffer in model.buffers())


def strided(norm: torch.nn.Module) -> None:
    norm.running_mean = torch.zeros(4, 2)[:, 0]


def elsewhere(norm: torch.nn.Module) -> None:
    norm.get_buffer("running_mean").data = torch.ones(4)


def of_other_kinds(norm: torch.nn.Module) -> None:
    norm.register_buffer("sparse", torch.eye(4).to_sparse())
    norm.register_buffer("shared", norm.running_mean)  # type: ignore[arg-type]
    norm.register_buffer("none", None)
    norm.register_buffer("eighths", torch.ones(2, dtype=torch.float8_e5m2))
    norm.register_buffer("empty", torch.ones(0))


@pytest.mark.parametrize("change", [strided, elsewhere, of_other_kinds])
@pytest.mark.parametrize("when", [-1, 0])
def test_buffers_of_all_kinds_are_restored(change: Any, when: int) -> None:
    """They may be registered while the watch is on."""
    model, expected = network(), network()
    hook = [when]

    def changing(module: torch.nn.Module, args: Any) -> None:
        if hook[0] == 0:
            change(module[1])  # type: ignore[index]
        hook[0] -= 1

    for each in (model, expected):
        hook[0] = when
        if when < 0:
            change(each[1])  # type: ignore[index]
        handle = each.register_forward_pre_hook(changing)
        if each is model:
            with watch(model, policy="skip_step"):
                train(model, batches())
        else:
            train(expected, [batch for number, batch in enumerate(batches()) if number != BAD])
        handle.remove()
    for (name, found), (_, value) in zip(model.named_buffers(), expected.named_buffers(), strict=True):
        assert torch.equal(found.to_dense().float(), value.to_dense().float()), name


def test_nothing_is_copied_where_no_update_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cat", None)
    with rg.anomaly.watch(network(), policy="warn"):
        train(network(), [batches()[0]] * 3)
