"""The values and derivatives that are recomputed from a live graph."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.torch.records.graph import calls_of, nodes_behind, saved_by
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from tests.anomaly.torch.training import Root

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
def test_a_result_that_no_node_kept_is_recomputed(name: str) -> None:
    x = torch.rand(4, 4, requires_grad=True)
    result = RECOMPUTED[name](x * 2)
    calls = calls_of({node: saved_by(node) for node in nodes_behind([result.grad_fn])}, {}, lambda seq: None)
    torch.testing.assert_close(calls[result.grad_fn].outputs[0], result.detach())


DERIVED: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "elu": F.elu,
    "logsigmoid": F.logsigmoid,
    "leaky_relu": F.leaky_relu,
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_derivative_with_a_graph_is_recomputed(name: str) -> None:
    """Its node saves results of the operation, as ``output``, which are none of its own."""
    x = torch.rand(4, requires_grad=True)
    weight = torch.rand(4, requires_grad=True)
    inner = DERIVED[name](x)
    (derivative,) = torch.autograd.grad((inner * weight).sum(), x, create_graph=True)
    result = derivative * 2
    calls = calls_of({node: saved_by(node) for node in nodes_behind([result.grad_fn])}, {}, lambda seq: None)
    read = calls[derivative.grad_fn].outputs[0]
    assert read is not None or name in ("softmax", "log_softmax", "logsigmoid", "leaky_relu")  # which save too little
    for found, true in ((read, derivative), (inner.grad_fn in calls and calls[inner.grad_fn].outputs[0], inner)):
        if isinstance(found, Tensor):
            torch.testing.assert_close(found, true.detach())


class Shell:
    """What torch keeps, up to version 2.12, of a user's Function whose result is gone: asked for more it may crash."""

    @property
    def next_functions(self) -> None:
        raise RuntimeError("Attribute 'next_functions' is invalid for this instance of _C._FunctionBase.")

    def _sequence_nr(self) -> int:
        raise AssertionError("torch would crash")


def test_remains_of_a_deleted_node_are_ignored() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert nodes_behind([Shell(), y.grad_fn]) == [y.grad_fn.next_functions[0][0], y.grad_fn]  # type: ignore[union-attr]


def test_nodes_to_be_read_later_are_kept_alive() -> None:
    loss = Root.apply(torch.ones(2, requires_grad=True))
    reference = weakref.ref(loss)
    tail = Tail([loss], set())
    loss.sum().backward()
    tail.backward_ended()
    del loss
    gc.collect()
    assert reference() is not None
    assert len(nodes_behind(root.grad_fn for root in tail.roots)) == 2


def test_nodes_of_module_hooks_are_left_out_of_the_path() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    for layer in layers.modules():
        layer.register_full_backward_hook(lambda module, given, got: None)
    with watch(policy="record") as w:
        zeros = torch.zeros(1, 2, requires_grad=True)
        layers(torch.log(layers(zeros) * 0.0)).sum().backward()
    assert w.event is not None
    assert w.event.path == ("LogBackward0", "AddmmBackward0", "ReluBackward0", "SumBackward0")
