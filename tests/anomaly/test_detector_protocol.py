"""The detector needs nothing but a ModelAdapter: fifty lines connect it to a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from retrograd.anomaly import NaNDetector, NaNEvent, train_with_nan_guard
from retrograd.anomaly.layer_detector import detector
from retrograd.anomaly.layer_detector.adapter import Handle, Look, ModelAdapter


class TorchLayers:
    """The least that an adapter can do: no explanations."""

    budget = 0.01

    def __init__(self, model: torch.nn.Module) -> None:
        self.layers = model.named_modules

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0

    def version(self, tensor: torch.Tensor) -> int:
        return tensor._version

    def look(self, tensor: torch.Tensor) -> Look:
        tensor = tensor.detach()
        return Look(bool(tensor.isnan().any()), bool(torch.isposinf(tensor).any()), bool(torch.isneginf(tensor).any()))

    def absmin(self, tensor: torch.Tensor) -> float:
        return tensor.detach().abs().min().item()

    def describe(self, tensor: torch.Tensor) -> dict[str, Any]:
        tensor = tensor.detach()
        nan, inf = int(tensor.isnan().sum()), int(tensor.isinf().sum())
        return {
            "output_shape": tuple(tensor.shape),
            "output_has_nan": nan > 0,
            "output_has_inf": inf > 0,
            "index": tuple((~tensor.isfinite()).nonzero()[0].tolist()),
        }

    def hook(
        self, module: Any, before: Callable[..., None] | None, after: Callable[..., None] | None
    ) -> Iterator[Handle]:
        if before is not None:
            yield module.register_forward_pre_hook(before, with_kwargs=True)
        if after is not None:
            yield module.register_forward_hook(after, with_kwargs=True, always_call=True)

    def hook_gradient(self, tensor: torch.Tensor, told: Callable[[Any], None]) -> None:
        if tensor.requires_grad:
            tensor.register_hook(told)

    def gradient_norms(self, model: torch.nn.Module) -> Mapping[tuple[str, str], float]:
        parameters = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
        norms = torch.stack(torch._foreach_norm(list(parameters.values()))).tolist() if parameters else []
        return {
            (layer, own): norm
            for name, norm in zip(parameters, norms, strict=True)
            for layer, _, own in [name.rpartition(".")]
        }

    def now(self) -> None:
        return None

    def explain(self, tensor: Any, since: Any, came_in: bool) -> NaNEvent | None:
        return None


@pytest.fixture(autouse=True)
def with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter: type[ModelAdapter] = TorchLayers
    monkeypatch.setattr(detector, "adapter_of", adapter)


@dataclass
class Output:
    logits: torch.Tensor


class Net(torch.nn.Module):
    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 1)
        self.between = between

    def forward(self, x: torch.Tensor) -> Output:
        return Output(logits=self.head(self.between(self.body(x))))


def test_the_layer_with_a_bad_weight_is_named() -> None:
    model = Net()
    with torch.no_grad():
        model.body[0].bias[1] = torch.nan
    with NaNDetector(model, verbose=False) as det:
        det.set_batch(4)
        model(torch.ones(2, 3))
    assert det.event is not None
    assert (det.event.layer_name, det.event.module_type, det.event.batch_idx) == ("body.0", "Linear", 4)
    assert (det.event.input_has_nan, det.event.output_has_nan, det.event.output_shape) == (False, True, (2, 4))
    assert det.event.index == (0, 1)


def test_a_birth_between_layers_is_reported_as_one() -> None:
    model = Net(between=lambda x: (x - x) / (x - x))
    with NaNDetector(model, verbose=False) as det:
        model(torch.ones(2, 3))
    assert det.event is not None
    assert det.event.harmed == "the input of head"
    assert "between layers, after body had ended and before head" in str(det.event.note)


def test_a_mask_that_becomes_finite_again_is_not_reported() -> None:
    model = Net(between=lambda x: torch.softmax(x.masked_fill(torch.arange(4) > 1, -torch.inf), -1))
    with NaNDetector(model, verbose=False) as det:
        model(torch.ones(2, 3))
    assert not det.triggered


def test_a_bad_gradient_is_reported_at_the_layer_that_it_reaches() -> None:
    model = Net(between=lambda x: torch.sqrt(x * 0))
    model.body.requires_grad_(False)
    x = torch.ones(2, 3, requires_grad=True)
    x.register_hook(torch.nan_to_num)  # so that no leaf shows it
    with NaNDetector(model, check_backward=True, verbose=False) as det:
        model(x).logits.sum().backward()
        assert det.check_grad_norms()
    assert det.event is not None
    assert det.event.is_backward
    assert det.event.layer_name in ("body.1", "body")


def test_training_stops_before_the_weights_are_spoilt() -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    good, bad = torch.ones(2, 3), torch.full((2, 3), torch.nan)
    losses, event = train_with_nan_guard(
        model,
        [(good, torch.zeros(2, 1)), (bad, torch.zeros(2, 1)), (good, torch.zeros(2, 1))],
        lambda output, target: torch.nn.functional.mse_loss(output.logits, target),
        optimizer,
        verbose=False,
    )
    assert event is not None
    assert (len(losses), event.batch_idx, event.harmed) == (2, 1, "the input of the model")
    assert all(bool(each.isfinite().all()) for each in model.parameters())
