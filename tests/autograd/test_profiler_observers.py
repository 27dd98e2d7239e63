"""Observers: the calls they receive, alone and together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import retrograd as rg
from retrograd.core.observer import Observer, active, pop, push
from retrograd.core.state import RECORD, local


class Diary(Observer):
    """Logs every call; its tokens say who logged what."""

    def __init__(self, name: str, pages: list[str]) -> None:
        self.name = name
        self.pages = pages

    def _begin(self, what: str) -> tuple[str, str]:
        self.pages.append(f"{self.name}: {what}")
        return self.name, what

    def _end(self, token: tuple[str, str], how: str) -> None:
        assert token[0] == self.name
        self.pages.append(f"{self.name}: {how} {token[1]}")

    def forward_begin(self, name: str, bound: Any) -> Any:
        return self._begin(f"{name}({len(bound)})")

    def forward_end(self, token: Any, made: Any) -> None:
        self._end(token, f"{type(made).__name__} from")

    def forward_failed(self, token: Any, error: BaseException) -> None:
        self._end(token, f"{type(error).__name__} from")

    def function_begin(self, name: str, args: Any) -> Any:
        return self._begin(f"function {name}")

    def region_begin(self, name: str, arguments: Any, user: bool) -> Any:
        return self._begin(f"region {name}")

    def region_end(self, token: Any) -> None:
        self._end(token, "end of")

    def evaluate_begin(self, node: Any) -> Any:
        return self._begin(f"at {node.name()}")

    def evaluate_end(self, token: Any, node: Any) -> None:
        self._end(token, f"{node.name()} done,")

    def backward_begin(self, node: Any, g: Any) -> Any:
        return self._begin(f"run {node.name()}")

    def backward_end(self, token: Any, node: Any, grads: Any) -> None:
        self._end(token, f"{len(grads or ())} from")

    def backward_failed(self, token: Any, error: BaseException) -> None:
        self._end(token, f"{type(error).__name__} from")


@pytest.fixture
def pages() -> Iterator[list[str]]:
    pages: list[str] = []
    yield pages
    for observer in active():
        pop(observer)


class Fails(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise KeyError


def test_observer_sees_operations_regions_and_nodes(pages: list[str]) -> None:
    x = rg.ones(3, requires_grad=True)
    push(Diary("A", pages))
    y = x.sin()
    y.mul_(2)
    rg.trapezoid(y, dim=0)
    y.sum().backward()
    text = "\n".join(pages)
    assert "A: sin(1)\nA: Tensor from sin(1)\nA: mul_(2)\nA: Tensor from mul_(2)\nA: region trapezoid" in text
    assert (
        "A: at SinBackward0\nA: run SinBackward0\nA: 1 from run SinBackward0\n"
        "A: SinBackward0 done, at SinBackward0\nA: at AccumulateGrad\nA: run AccumulateGrad" in text
    )


def test_observer_sees_failures(pages: list[str]) -> None:
    x = rg.ones(3, requires_grad=True)
    y = Fails.apply(x).sum()
    push(Diary("A", pages))
    with pytest.raises(RuntimeError):
        x @ rg.ones(4)
    with pytest.raises(RuntimeError):
        x.exp_()
    with pytest.raises(KeyError):
        y.backward()
    assert "A: RuntimeError from matmul(2)" in pages
    assert "A: RuntimeError from exp_(1)" in pages
    assert pages[-1] == "A: KeyError from run FailsBackward"


def test_observers_nest_in_the_order_they_were_pushed(pages: list[str]) -> None:
    first, second = Diary("A", pages), Diary("B", pages)
    push(first)
    push(second)
    assert active() == (first, second)
    rg.ones(3).exp()
    assert pages == ["A: exp(1)", "B: exp(1)", "B: Tensor from exp(1)", "A: Tensor from exp(1)"]
    x = rg.ones(3, requires_grad=True)
    y = Fails.apply(x).sum()
    with pytest.raises(KeyError):
        y.backward()
    rg.trapezoid(x, dim=0)
    with pytest.raises(RuntimeError):
        x @ rg.ones(4)
    assert sorted(page[3:] for page in pages if page[0] == "A") == sorted(page[3:] for page in pages if page[0] == "B")


def test_first_observer_may_leave_first(pages: list[str]) -> None:
    first, second = Diary("A", pages), Diary("B", pages)
    push(first)
    push(second)
    pop(first)
    rg.ones(3).exp()
    pop(second)
    rg.ones(3).exp()
    assert pages == ["B: exp(1)", "B: Tensor from exp(1)"]
    assert (local.observer, local.mode) == (None, RECORD)
    with pytest.raises(RuntimeError, match="Diary does not observe this thread: it was exited twice"):
        pop(first)


def test_observing_does_not_change_operations(pages: list[str]) -> None:
    x = rg.tensor([1, 2, 3])
    out = rg.empty(3)
    push(Diary("A", pages))
    y = rg.sin(x, out=out)
    assert y is out
    assert rg.div(x, 2).dtype is rg.float32
    assert x.reshape(3, 1)._is_view()
    with rg.inference_mode():
        assert rg.ones(2).exp().is_inference()
    assert [len(part) for part in rg.split(rg.ones(5), 2)] == [2, 2, 1]
    assert local.observer is not None


def test_saved_tensor_hooks_run_while_observed(pages: list[str]) -> None:
    packed: list[Any] = []
    x = rg.ones(3, requires_grad=True)
    push(Diary("A", pages))
    with rg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = x.exp()
    y.sum().backward()
    assert len(packed) == 1
    assert x.grad is not None
