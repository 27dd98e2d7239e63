"""Data that autocast makes float16 of, of which no graph has the conversion."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg
from tests.anomaly.both import only_event, run


class Given:
    """A batch that keeps its tensors to itself."""

    def __init__(self, x: Tensor) -> None:
        self.data = {"x": x}


def trained(x: Any, layer: nn.Module, read: Any = lambda x: x) -> rg.anomaly.Watch:
    with rg.anomaly.watch(policy="record") as w:
        with torch.autocast("cpu", torch.float16):
            loss = layer(read(x)).float().mean()
        loss.backward()
    return w


@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.Sequential(nn.Flatten(), nn.Linear(3, 2))])
def test_data_beyond_float16_is_blamed_on_the_conversion_by_autocast(layer: nn.Module) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 7e4, 6.0]])
    event = only_event(trained(x, layer))
    assert (event.op, event.kind, event.index) == ("to", "overflow", (1, 1))
    assert event.operands == {"input": 7e4}
    assert event.cause.startswith("Autocast converts the input of the layer")


def test_infinite_data_under_autocast_is_reported_as_data() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, torch.inf, 6.0]])
    event = only_event(trained(x, nn.Linear(3, 2)))
    assert (event.op, event.kind, event.index) == ("leaf", "leaf", (1, 1))


def test_a_conversion_by_the_program_has_its_own_line() -> None:
    text = "wide = torch.tensor([[1.0, 1e300]], dtype=torch.float64)\nx = wide.float()\n"
    event = only_event(run("torch", f"{text}nn.Linear(2, 1)(x).sum().backward()"))
    assert (event.lineno, event.code_line) == (2, "x = wide.float()")


def test_without_a_variable_the_cause_mentions_autocast() -> None:
    event = only_event(trained(Given(torch.full((1, 3), 7e4)), nn.Linear(3, 2), lambda batch: batch.data["x"] * 1.0))
    assert event.kind == "leaf"
    assert "or autocast converted them to float16" in event.cause
