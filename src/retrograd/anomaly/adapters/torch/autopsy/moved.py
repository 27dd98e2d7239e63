"""Which elements of what went in an operation has handed on: where it moves or chooses values, and in products."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import Argument, Call
from retrograd.anomaly.adapters.torch.records.entries import arguments_for
from retrograd.anomaly.names import TRANSPARENT, canonical, stem

_MOVING = frozenset(("cat", "constant_pad_nd", "flip", "repeat", "roll", "rot90", "stack", "unfold")) | TRANSPARENT - {
    "to"
}
_BY_STRIDES = ("as_strided", "_reshape_alias", "reshape_alias")  # which are about the memory of just this tensor
_PRODUCTS = ("addmm", "baddbmm", "bmm", "mm")
_LARGEST = 1 << 26  # elements


def handed_on(call: Call, argument: Argument, output: int, mask: Tensor) -> Tensor | None:
    """The elements of an argument that have come to those of a result that ``mask`` says; None if that is not known.

    The operation tells it by itself: it is given the numbers of the elements in place of these.
    """
    if call.entry is None or call.is_backward or argument.tensor is None or argument.tensor.numel() > _LARGEST:
        return None
    name = canonical(call.name)
    if name == "nll_loss":
        return _at_targets(call, argument.tensor, mask)
    if name == "to" and mask.shape == argument.tensor.shape:
        return mask
    if name in ("sort", "topk") and output == 0:
        return _chosen(call, argument.tensor, mask)
    if stem(call.name).lower() in _PRODUCTS:
        return _in_product(argument, argument.tensor, mask)
    if name not in _MOVING or stem(call.name) in _BY_STRIDES:
        return None
    numbered = [replace(each, value=_numbers_in_place(each, argument)) for each in call.args]
    try:
        with torch.no_grad():
            made = call.entry(**arguments_for(call.entry, numbered))
    except Exception:  # it takes floating-point numbers only, or something that nothing has kept
        return None
    numbers = made[output] if isinstance(made, (list, tuple)) else made
    if numbers.shape != mask.shape:
        return None
    found = torch.zeros(argument.tensor.numel() + 1, dtype=torch.bool, device=numbers.device)
    found[numbers[mask.to(numbers.device)]] = True
    return found[1:].view(argument.tensor.shape)


def _numbers_in_place(each: Argument, argument: Argument) -> object:
    """The numbers of an argument's elements, from 1 on; 0 for whatever else is handed on."""
    if each.name == "value":
        return 0
    if each is argument:
        assert each.tensor is not None
        return torch.arange(1, each.tensor.numel() + 1, device=each.tensor.device).view(each.tensor.shape)
    if each.tensor is None or each.name.partition("[")[0] != argument.name.partition("[")[0]:
        return each.value
    return torch.zeros(each.tensor.shape, dtype=torch.int64, device=each.tensor.device)


def _at_targets(call: Call, scores: Tensor, mask: Tensor) -> Tensor | None:
    """The scores of the targets, which are all that a negative log-likelihood looks at."""
    known = {each.name: each.value for each in call.args}
    target, ignored = known.get("target"), known.get("ignore_index", -100)
    dim = 1 if scores.dim() > 1 else 0
    if not isinstance(target, Tensor) or target.dim() != scores.dim() - 1:
        return None
    counts = (target != ignored) & mask if mask.shape == target.shape else target != ignored
    place = torch.where(target == ignored, 0, target).unsqueeze(dim)
    return torch.zeros(scores.shape, dtype=torch.bool, device=scores.device).scatter_(dim, place, counts.unsqueeze(dim))


def _chosen(call: Call, values: Tensor, mask: Tensor) -> Tensor | None:
    """The elements that an operation has chosen, which tells their places as well when it is run once more."""
    dim = next((each.value for each in call.args if each.name == "dim"), -1)
    try:
        with torch.no_grad():
            indices = call.entry(**arguments_for(call.entry, call.args))[1]
            return torch.zeros(values.shape, dtype=torch.bool, device=values.device).scatter_(dim, indices, mask)
    except Exception:  # something that nothing has kept
        return None


def _in_product(argument: Argument, factor: Tensor, mask: Tensor) -> Tensor | None:
    """The rows of the first factor of a matrix product, or the columns of the second one, that went into elements."""
    if argument.name in ("input", "mat1", "batch1") and factor.dim() == mask.dim() > 1:
        return mask.any(-1, keepdim=True).expand(factor.shape) if factor.shape[:-1] == mask.shape[:-1] else None
    if argument.name in ("mat2", "batch2") and factor.shape[-1:] == mask.shape[-1:]:
        return mask.any(-2, keepdim=True).expand(factor.shape)
    return None
