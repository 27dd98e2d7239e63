"""Several threads that train PyTorch models at once, under one watch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from retrograd.anomaly import AnomalyError, watch
from tests.threads import in_threads

THREADS, STEPS, BAD = 4, 8, 5


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns within every step."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def forward(w: torch.Tensor) -> torch.Tensor:
    return torch.log(w[:1] * 0).sum()


def backward(w: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(w[:1] - w[:1].detach()).sum()


def in_each_thread(train: Callable[[int], None]) -> None:
    for error in in_threads(*[functools.partial(train, number) for number in range(THREADS)]):
        raise error


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("bad", [forward, backward])
@pytest.mark.parametrize("policy", ["raise", "skip_step"])
def test_every_thread_gets_its_own_event_and_keeps_its_weights(policy: str, bad: Any, make: Any) -> None:
    told: dict[int, list[int]] = {number: [] for number in range(THREADS)}
    weights = [torch.ones(3, requires_grad=True) for _ in range(THREADS)]
    alone = torch.ones(3, requires_grad=True)

    def train(weight: torch.Tensor, number: int | None) -> None:
        optimizer = make([weight], lr=0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = (weight**2).sum()
            if step == BAD:
                if number is None:
                    continue
                loss = loss + bad(weight)
            try:
                loss.backward()
                optimizer.step()
            except AnomalyError:
                assert number is not None
                told[number].append(step)

    train(alone, None)
    with watch(policy=policy) as w:
        in_each_thread(lambda number: train(weights[number], number))
    if policy == "raise":
        assert told == {number: [BAD] for number in range(THREADS)}
    assert len(w.events) == THREADS
    operation = "log" if bad is forward else "SqrtBackward0"
    assert {event.op for event in w.events} == {operation}
    for weight in weights:
        torch.testing.assert_close(weight, alone)


class Root(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x * self.scale) + 1


def test_a_model_is_run_again_with_the_inputs_of_its_thread() -> None:
    model = Root()
    told: list[tuple[int, Any]] = []

    def train(number: int) -> None:
        for _ in range(STEPS):
            x = torch.full((3,), float(number), requires_grad=True)
            try:
                model(x).sum().backward()
            except AnomalyError as error:
                told.append((number, error.event))

    with watch(model):
        in_each_thread(train)
    assert [number for number, _ in told] == [0] * STEPS
    assert {event.op for _, event in told} == {"SqrtBackward0"}
    assert {value for _, event in told for value in event.operands.values()} == {0.0}
