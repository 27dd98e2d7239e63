"""Pruning, compared with torch; random methods are tested by properties of every draw."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import retrograd as rg
from tests.parity import attempt, parity


def layer_of(m: Any, *shape: int) -> Any:
    layer = m.nn.Linear(shape[1], shape[0])
    with m.no_grad():
        layer.weight.copy_(m.tensor(np.random.default_rng(shape).normal(size=shape)))
        layer.bias.zero_()
    return layer


def report(layer: Any) -> Any:
    return [layer.weight, sorted(layer.state_dict()), dict(layer.named_buffers()), len(layer._forward_pre_hooks)]


@parity
def test_l1_unstructured_prunes_the_smallest_elements(m: Any) -> Any:
    prune, found = m.nn.utils.prune, []
    for amount in (0, 1, 5, 0.25, 1.0):
        layer = layer_of(m, 4, 5)
        found += [prune.l1_unstructured(layer, "weight", amount) is layer, report(layer)]
    return found


@parity
def test_ln_structured_prunes_channels_of_the_smallest_norm(m: Any) -> Any:
    prune, found = m.nn.utils.prune, []
    for amount, n, dim in ((0.5, 2, 0), (2, 1, 1), (1, float("inf"), -1), (0, 2, 0), (3, -float("inf"), 0)):
        found.append(report(prune.ln_structured(layer_of(m, 4, 5), "weight", amount, n, dim)))
    return found


@parity
def test_pruning_with_given_masks_and_scores(m: Any) -> Any:
    prune = m.nn.utils.prune
    mask = m.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    scores = m.arange(6.0).reshape(2, 3)
    return [
        report(prune.custom_from_mask(layer_of(m, 2, 3), "weight", mask)),
        report(prune.l1_unstructured(layer_of(m, 2, 3), "weight", 2, importance_scores=scores)),
        report(prune.ln_structured(layer_of(m, 2, 3), "weight", 1, 2, 1, importance_scores=scores)),
        report(prune.identity(layer_of(m, 2, 3), "weight")),
    ]


@parity
def test_successive_pruning(m: Any) -> Any:
    prune, layer, found = m.nn.utils.prune, layer_of(m, 4, 6), []
    for step in (
        lambda: prune.l1_unstructured(layer, "weight", 0.25),
        lambda: prune.l1_unstructured(layer, "weight", 0.5),
        lambda: prune.ln_structured(layer, "weight", 1, 2, 0),
        lambda: prune.ln_structured(layer, "weight", 0.5, 1, 1),
        lambda: prune.custom_from_mask(layer, "weight", (m.arange(24).reshape(4, 6) % 3 > 0).float()),
    ):
        step()
        found.append(report(layer))
    prune.identity(layer, "bias")
    return [*found, report(layer), prune.is_pruned(layer)]


@parity
def test_global_unstructured_pruning(m: Any) -> Any:
    prune = m.nn.utils.prune
    net = m.nn.Sequential(layer_of(m, 3, 4), m.nn.ReLU(), layer_of(m, 2, 3))
    pairs = [(net[0], "weight"), (net[2], "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.3)
    found = [report(net[0]), report(net[2])]
    scores = {pairs[1]: m.arange(6.0).reshape(2, 3) * 10}
    prune.global_unstructured(pairs, prune.L1Unstructured, importance_scores=scores, amount=4)
    return [*found, report(net[0]), report(net[2]), prune.is_pruned(net), prune.is_pruned(net[1])]


@parity
def test_training_and_removing_pruned_weights(m: Any) -> Any:
    prune, layer = m.nn.utils.prune, layer_of(m, 2, 3)
    prune.l1_unstructured(layer, "weight", 3)
    optimizer = m.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(m.ones(2, 3)).square().sum().backward()
        optimizer.step()
    gradient = layer.weight_orig.grad
    layer(m.ones(2, 3))
    before = layer.weight.detach().clone()
    returned = prune.remove(layer, "weight") is layer
    return [gradient, before, returned, report(layer), isinstance(layer.weight, m.nn.Parameter), prune.is_pruned(layer)]


@parity
def test_pruning_plain_tensors(m: Any) -> Any:
    prune, t = m.nn.utils.prune, m.tensor([[3.0, -1.0], [0.5, 2.0]])
    return [
        prune.L1Unstructured(2).prune(t),
        prune.L1Unstructured(1).prune(t, default_mask=m.tensor([[0.0, 1.0], [1.0, 1.0]])),
        prune.LnStructured(1, 2, 0).prune(t, importance_scores=-t.abs() * m.tensor([[0.0], [1.0]])),
        prune.CustomFromMask(m.eye(2)).prune(t),
    ]


@pytest.mark.parametrize("amount", [0, 3, 0.5, 12])
def test_random_unstructured_prunes_the_right_number(amount: float) -> None:
    rg.manual_seed(0)
    masks = set()
    for _ in range(5):
        layer = rg.nn.utils.prune.random_unstructured(layer_of(rg, 3, 4), "weight", amount)
        count = round(12 * amount) if isinstance(amount, float) else amount
        assert int((layer.weight_mask == 0).sum()) == count
        masks.add(tuple(layer.weight_mask.flatten().tolist()))
    assert len(masks) > 1 or amount in (0, 12)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_random_structured_prunes_whole_channels(dim: int) -> None:
    rg.manual_seed(0)
    masks = set()
    for _ in range(8):
        layer = rg.nn.utils.prune.random_structured(layer_of(rg, 4, 6), "weight", 2, dim)
        channels = layer.weight_mask.movedim(dim, 0).flatten(1)
        assert int((channels == 0).all(1).sum()) == 2
        assert int((channels == 1).all(1).sum()) == channels.shape[0] - 2
        masks.add(tuple(layer.weight_mask.flatten().tolist()))
    assert len(masks) > 1


def test_repeated_random_pruning_prunes_remaining_elements() -> None:
    layer = layer_of(rg, 3, 4)
    rg.nn.utils.prune.random_unstructured(layer, "weight", 6)
    rg.nn.utils.prune.random_unstructured(layer, "weight", 0.5)
    assert int((layer.weight_mask == 0).sum()) == 9
    with pytest.raises(ValueError, match="amount=4 should be smaller than the number of parameters to prune=3"):
        rg.nn.utils.prune.random_unstructured(layer, "weight", 4)
    assert int((layer.weight_mask == 0).sum()) == 9  # the refused call has changed nothing
    rg.nn.utils.prune.random_unstructured(layer, "weight", 3)
    assert not layer.weight.any()


def test_state_dict_and_copies_of_pruned_layers() -> None:
    layer = rg.nn.utils.prune.l1_unstructured(layer_of(rg, 3, 4), "weight", 5)
    other = rg.nn.utils.prune.identity(layer_of(rg, 3, 4), "weight")
    other.load_state_dict(layer.state_dict())
    other(rg.ones(4))
    assert (other.weight == layer.weight).all()
    theirs = torch.nn.utils.prune.identity(layer_of(torch, 3, 4), "weight")
    theirs.load_state_dict({key: torch.tensor(value.numpy()) for key, value in layer.state_dict().items()})
    theirs(torch.ones(4))
    assert theirs.weight.tolist() == layer.weight.tolist()
    twin = copy.deepcopy(rg.nn.utils.prune.remove(layer, "weight"))
    assert (twin.weight == layer.weight).all()


@parity
def test_pruning_refuses_wrong_uses(m: Any) -> Any:
    prune = m.nn.utils.prune

    def calls(*which: Any) -> list[Any]:
        return [attempt(lambda c=call: c(layer_of(m, 3, 4))) for call in which]

    return calls(
        lambda k: prune.l1_unstructured(k, "weight", 1.5),
        lambda k: prune.l1_unstructured(k, "weight", -1),
        lambda k: prune.l1_unstructured(k, "weight", "1"),
        lambda k: prune.l1_unstructured(k, "weight", 13),
        lambda k: prune.ln_structured(k, "bias", 1, 2, 0),
        lambda k: prune.ln_structured(k, "weight", 1, 2, 2),
        lambda k: prune.random_structured(k, "weight", 5, 1),
        lambda k: prune.remove(k, "weight"),
        lambda k: prune.global_unstructured([(k, "weight")], prune.LnStructured, amount=1, n=2),
        lambda k: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
        lambda k: prune.global_unstructured([(k, "weight")], prune.L1Unstructured, [1], amount=1),
        lambda k: prune.l1_unstructured(k, "nothing", 1),
    )


@parity
def test_user_defined_pruning_methods(m: Any) -> Any:
    prune = m.nn.utils.prune

    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    class Unknown(EveryOther):
        PRUNING_TYPE = "diagonal"

    layer = layer_of(m, 3, 4)
    EveryOther.apply(layer, "weight")
    EveryOther.apply(layer, "weight")
    found = [report(layer), attempt(lambda: Unknown.apply(layer, "weight"))]
    method, other = EveryOther(), EveryOther()
    method._tensor_name, other._tensor_name = "weight", "bias"
    container = prune.PruningContainer(method)
    found += [len(container), container[0] is method, list(container) == [method]]
    found += [attempt(lambda: container.add_pruning_method(other)), attempt(lambda: container.add_pruning_method(1))]
    return found
