"""Programs with infinities that are meant: no event; and nothing that is kept from step to step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import retrograd as rg

INF = float("inf")
LEGAL: dict[str, Callable[[Tensor], Tensor]] = {
    "masked softmax": lambda x: x.masked_fill(torch.tensor([False, True, False]), -INF).softmax(0).square().sum(),
    "masked log softmax": lambda x: x.masked_fill(torch.tensor([False, True, False]), -INF).log_softmax(0)[0],
    "double where": lambda x: torch.where(x > 5, torch.log(torch.where(x > 5, x - 5, 1.0)), 0.0).sum(),
    "logsumexp with -inf": lambda x: torch.cat([x, torch.tensor([-INF])]).logsumexp(0),
    "initial minimum": lambda x: torch.minimum(torch.tensor(INF), x).sum(),
    "a clamped infinity": lambda x: (torch.tensor([INF, 1.0, 1.0]).clamp(max=3.0) * x).sum(),
    "nan_to_num of a constant": lambda x: (x * torch.tensor([INF, 1.0, 1.0]).nan_to_num(0.0, 0.0, 0.0)).sum(),
    "an unused branch": lambda x: [torch.log(x * 0), x.sum()][1],
    "detached statistics": lambda x: x.sum() + 0 * (x.detach() / 0).isnan().sum(),
    "norm at zero": lambda x: (x - x).norm() + x.sum(),
    "entropy": lambda x: -torch.xlogy(x.clamp(min=1e-6), x.clamp(min=1e-6)).sum(),
    "boolean choice of scores": lambda x: torch.where(torch.tensor([True, False, True]), x, -INF)[::2].sum(),
    "top of masked scores": lambda x: x.masked_fill(x < 2, -INF).max(),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 3, 1)] * 3, is_causal=True).sum(),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", LEGAL)
def test_legal_infinities_give_no_event(name: str, again: bool) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with rg.anomaly.watch() as w:
        for _ in w.steps([0]) if again else [0]:
            LEGAL[name](x).backward()
    assert (w.step, w.events) == (1, ())
    assert x.grad is not None and bool(x.grad.isfinite().all()), "the program is not healthy"


def test_the_watch_keeps_the_same_amount_in_every_step() -> None:
    """It keeps the lines and the calls of one step."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with rg.anomaly.watch(model, optimizer, budget=1.0) as w:
        (monitor,) = w._adapters
        sizes = []
        for _ in range(200):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            sizes.append(len(monitor.sites._noted) + len(monitor.calls._here.calls))  # type: ignore[attr-defined]
    assert 0 < max(sizes) == sizes[0]


def test_calls_without_gradients_are_not_kept() -> None:
    model = nn.Linear(3, 1)
    with rg.anomaly.watch(model) as w:
        calls = w._adapters[0].calls  # type: ignore[attr-defined]
        with torch.no_grad():
            model(torch.ones(2, 3))
        assert not calls._here.calls
        model(torch.ones(2, 3))
        assert calls._here.calls
