"""What is computed again from a live graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from retrograd.anomaly.adapters.torch.graph import calls_of, nodes_behind, saved_by

RECOMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "diag": torch.diag,
    "avg_pool2d": lambda x: F.avg_pool2d(x[None], 2),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "grid_sample": lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
    "rfft": torch.fft.rfft,
    "log1p": torch.log1p,
    "softmax": lambda x: x.softmax(0),
    "index_add": lambda x: x.index_add(0, torch.tensor([1]), x[:1]),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_a_result_that_nothing_has_kept(name: str) -> None:
    x = torch.rand(4, 4, requires_grad=True)
    result = RECOMPUTED[name](x * 2)
    calls = calls_of({node: saved_by(node) for node in nodes_behind([result.grad_fn])}, {}, lambda seq: None)
    torch.testing.assert_close(calls[result.grad_fn].outputs[0], result.detach())
