"""The remedy for an optimizer with an eps of zero uses the names of the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent
from tests.anomaly.both import only_event

libraries = pytest.mark.parametrize("lib", [rg, torch], ids=["retrograd", "torch"])


def made(kind: Any, net: Any) -> Any:
    return kind(net.parameters(), lr=0.1, eps=0.0)


def stepped(lib: Any, net: Any, given: Any) -> NaNEvent:
    with rg.anomaly.watch(net, given, policy="record") as watch:
        (net(lib.zeros(1, 2)) * 0).sum().backward()
        given.step()
    return only_event(watch)


@libraries
def test_the_remedy_keeps_unpacked_options(lib: Any) -> None:
    net, options = lib.nn.Linear(2, 1), {"lr": 0.1, "eps": 0.0}
    optimizer = lib.optim.Adam(net.parameters(), **options)
    event = stepped(lib, net, optimizer)
    assert event.remedy == 'optimizer = lib.optim.Adam(net.parameters(), **(options | {"eps": 1e-8}))'
    namespace = {"lib": lib, "net": net, "options": options}
    exec(event.remedy, namespace)
    assert namespace["optimizer"].param_groups[0]["eps"] == 1e-8


@libraries
def test_without_the_line_the_remedy_uses_the_name_of_the_model(lib: Any) -> None:
    net = lib.nn.Linear(2, 1)
    chosen = made(lib.optim.Adam, net)
    event = stepped(lib, net, chosen)
    name = "rg" if lib is rg else "torch"
    assert event.remedy == f"optimizer = {name}.optim.Adam(net.parameters(), lr=0.1, eps=1e-8)"


def test_without_a_model_the_remedy_uses_the_parameters_of_the_optimizer() -> None:
    weight, bias = rg.ones(2, requires_grad=True), rg.zeros(2, requires_grad=True)
    optimizer = rg.optim.Adam([weight, bias], lr=0.1)
    with rg.anomaly.watch(policy="record") as watch:
        (weight * 1e30 + bias).sum().backward()
        optimizer.step()
    event = only_event(watch)
    assert event.remedy == "rg.nn.utils.clip_grad_norm_([weight, bias], 1.0)\noptimizer.step()"
