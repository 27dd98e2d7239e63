"""On a GPU, autograd runs backward passes in a thread of its own; what is told is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import torch

from retrograd.anomaly import AnomalyError, NaNDetector, watch
from tests.anomaly.torch.device_thread import backward_elsewhere
from tests.threads import in_threads

FIELDS = (
    "kind", "op", "is_backward", "filename", "lineno", "function", "code_line", "index", "operands", "nan_count",
    "posinf_count", "neginf_count", "output_shape", "step", "thread", "path", "harmed", "cause", "remedy",
)  # fmt: skip
STEPS = 4
BAD = 2


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x / 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * torch.log(x.detach() * 0 if bad_now else x.detach() ** 2 + 1)


bad_now = False


def forward(w: torch.Tensor) -> torch.Tensor:
    return torch.log(w[:1] * (0 if bad_now else 1)).sum()


def backward(w: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(w[:1] - w[:1].detach() + (0 if bad_now else 1)).sum()


def in_a_function(w: torch.Tensor) -> torch.Tensor:
    return Halved.apply(w).sum()


def in_a_hook(w: torch.Tensor) -> torch.Tensor:
    y = w * 2
    y.register_hook(lambda g: g / (0 if bad_now else 1))
    return y.sum()


def in_a_gradient_of_a_gradient(w: torch.Tensor) -> torch.Tensor:
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    return torch.sqrt(g[:1] - g[:1].detach() + (0 if bad_now else 1)).sum()


def in_the_operations_of_a_derivative(w: torch.Tensor) -> torch.Tensor:
    h = torch.log(w * (0 if bad_now else 1))
    (g,) = torch.autograd.grad((h * w).sum(), w, create_graph=True)
    return (g + 1).sum()


def in_those_of_a_transform(w: torch.Tensor) -> torch.Tensor:
    return (torch.func.grad(lambda w: (torch.log(w * (0 if bad_now else 1)) * w).sum())(w) + 1).sum()


def in_a_part(w: torch.Tensor) -> torch.Tensor:
    y = w * 1
    y[:2] = torch.sqrt(y[:2] - y[:2].detach() + (0 if bad_now else 1))
    return y.sum()


LOSSES = [
    forward, backward, in_a_function, in_a_hook, in_a_gradient_of_a_gradient, in_the_operations_of_a_derivative,
    in_those_of_a_transform, in_a_part,
]  # fmt: skip


def by_optimizer(loss: Callable[[torch.Tensor], torch.Tensor], w: torch.Tensor, optimizer: Any) -> None:
    optimizer.zero_grad()
    loss(w).backward()
    optimizer.step()


def by_hand(loss: Callable[[torch.Tensor], torch.Tensor], w: torch.Tensor, optimizer: Any) -> None:
    (g,) = torch.autograd.grad(loss(w), w)
    with torch.no_grad():
        w -= 0.1 * g


def told(program: Callable[..., None], loss: Callable[..., torch.Tensor], way: dict[str, Any], elsewhere: bool) -> Any:
    global bad_now
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    rerun = way.get("rerun", False)
    options = {key: value for key, value in way.items() if key != "rerun"}
    with backward_elsewhere() if elsewhere else contextlib.nullcontext(), watch(policy="raise", **options) as watching:
        try:
            for step in watching.steps(range(STEPS)) if rerun else range(STEPS):
                bad_now = step == BAD
                program(loss, w, optimizer)
        except AnomalyError:
            pass
        finally:
            bad_now = False
    assert watching.event is not None
    assert torch.isfinite(w).all()
    event = asdict(watching.event)
    return {name: event[name] for name in FIELDS}


@pytest.mark.parametrize("way", [{}, {"rerun": True}, {"from_step": 1}], ids=["once", "rerun", "from_step"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("program", [by_optimizer, by_hand])
def test_the_event_is_the_same_from_a_thread_of_the_device(
    program: Callable[..., None], loss: Any, way: dict[str, Any]
) -> None:
    found: list[Any] = []
    # in a new thread, whose sequence numbers begin at 0: those of nodes of all tests before would have to be used up
    errors = in_threads(lambda: found.extend(told(program, loss, way, elsewhere) for elsewhere in (False, True)))
    assert not errors
    assert found[0] == found[1]


def test_the_detector_names_the_same_layer_from_a_thread_of_the_device() -> None:
    found = []
    for elsewhere in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        with backward_elsewhere() if elsewhere else contextlib.nullcontext(), NaNDetector(model, verbose=False) as det:
            y = model(torch.ones(2, 3))
            torch.sqrt(y - y.detach()).sum().backward()
        assert det.event is not None
        found.append((det.event.op, det.event.lineno, det.event.layer_name, det.event.is_backward, det.event.thread))
    assert found[0] == found[1]
