"""Which elements of an operation's argument have gone into given elements of its result.

The derivative tells: numbers at the given elements are sent back through it like a gradient. An operation that moves
values passes each number to the element that it moved, a sum passes it to all its terms. All numbers differ, so that
they cannot cancel. They are sent back through the operation, called once more, or else through the node that it has
left in the graph.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import Argument, Call
from retrograd.anomaly.adapters.torch.records.dispatcher_entries import arguments_for
from retrograd.anomaly.adapters.torch.records.graph import may_be_called
from retrograd.anomaly.operation_names import TRANSPARENT, canonical, stem

_MOVING = TRANSPARENT | {
    *("cat", "constant_pad_nd", "flip", "index_add", "index_copy", "index_put", "masked_scatter", "nll_loss", "put"),
    *("repeat", "roll", "rot90", "scatter", "scatter_add", "select_scatter", "slice_scatter", "stack", "unfold"),
}
_CHOOSING = ("cummax", "cummin", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk")
_PRODUCTS = ("addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "convolution", "dot", "mm", "mv")
_BY_STRIDES = ("as_strided", "_reshape_alias", "reshape_alias")  # whose arguments refer to this tensor's memory
_BY_VALUES = (*_CHOOSING, "amax", "amin", "embedding_bag", "grid_sampler_2d", "grid_sampler_3d", "max", "min")
_LARGEST = 1 << 26  # elements


def source_elements(call: Call, argument: Argument, wrong: Tensor, output: int, mask: Tensor) -> Tensor | None:
    """The elements among ``wrong`` of an argument that have gone into the elements ``mask`` of a result.

    None if unknown. That no element has is known only of operations that move or select values, and of products:
    whether any other operation uses an element depends on the numbers.
    """
    if call.is_backward or max(wrong.numel(), mask.numel()) > _LARGEST:
        return None
    name = canonical(call.name)
    is_exact = name in _MOVING or name in _CHOOSING or stem(call.name).lower() in _PRODUCTS
    told = _by_entry(call, argument, wrong.shape, output, mask)
    if told is None:
        told, has_moved = _by_node(call, argument, output, mask)
        is_exact |= has_moved
    if told is None or told.shape != wrong.shape:
        return None
    found = wrong & told.to(wrong.device)
    return found if is_exact or bool(found.any()) else None


def _by_entry(call: Call, argument: Argument, shape: torch.Size, output: int, mask: Tensor) -> Tensor | None:
    """Where the derivative of the operation, called once more, is not zero."""
    entry = call.entry
    if entry is None or stem(call.name) in _BY_STRIDES or torch.Tag.nondeterministic_seeded in entry.tags:
        return None
    place = call.args.index(argument)
    try:
        with torch.enable_grad():
            given = [replace(each, value=value) for each, value in zip(call.args, _values(call), strict=True)]
            if given[place].value is None:
                given[place].value = torch.ones(shape, device=mask.device)
            leaf = given[place].value = given[place].value.requires_grad_()
            if entry._schema.is_mutable:
                target = given[0].value if given[0].name == "input" else mask.to(leaf.dtype)
                given = [Argument("input", target.clone()), *(each for each in given if each.name != "input")]
            made = entry(**arguments_for(entry, given))
            result = made[output] if isinstance(made, (list, tuple)) else made
            (grad,) = torch.autograd.grad(result, leaf, _numbers(mask.to(result.device), result.shape, result.dtype))
    except Exception:  # an argument was not kept, is no tensor to compute with, or is too large
        return None
    return _dense(grad) != 0


def _values(call: Call) -> Iterator[Any]:
    """Arguments to call the operation with again: ordinary numbers, unless the original ones decide its course."""
    name = canonical(call.name)
    as_it_was = name in _BY_VALUES or "max_pool" in name
    for number, each in enumerate(call.args):
        tensor = each.tensor
        if each.missing and each.name == "eps":  # which no node keeps
            yield 1e-5
        elif tensor is None or not (tensor.is_floating_point() or tensor.is_complex()):
            yield each.value
        elif as_it_was:
            yield tensor.detach().clone()
        else:
            generator = torch.Generator().manual_seed(number)
            made = 0.25 + 0.5 * torch.rand(tensor.shape, generator=generator)
            yield made.to(tensor.device, tensor.dtype)


def _by_node(call: Call, argument: Argument, output: int, mask: Tensor) -> tuple[Tensor | None, bool]:
    """Where the operation's node turns such a gradient into something nonzero, and whether it has only moved it.

    If so, its sum is preserved, also for the node of a write to a part, which hides the operation.
    """
    node = call.node
    if node is None or argument.edge is None or len(node._input_metadata) <= output:
        return None, False
    try:
        if not may_be_called(node):
            return None, False
        sent = [torch.zeros(meta.shape, dtype=meta.dtype, device=meta.device) for meta in node._input_metadata]
        meta = node._input_metadata[output]
        sent[output] = _numbers(mask.to(meta.device), meta.shape, meta.dtype)
        made = node(*sent)
        grads = [_dense(each) for each in (made if isinstance(made, tuple) else (made,))]
    except Exception:  # what it has saved is freed or overwritten, or memory has run out
        return None, False
    grad = grads[argument.edge]
    if not isinstance(grad, Tensor) or not bool(torch.isfinite(grad).all()):  # bad numbers have spread in it
        return None, False
    passed_on = sum(_total(each) for each in grads if isinstance(each, Tensor))
    return grad != 0, cmath.isclose(passed_on, _total(sent[output]), rel_tol=1e-6)


def _dense(grad: Any) -> Any:
    """A gradient with all its elements in memory, also if the node made a sparse one."""
    return grad.to_dense() if isinstance(grad, Tensor) and grad.layout is not torch.strided else grad


def _total(numbers: Tensor) -> complex:
    return complex(numbers.cpu().sum(dtype=torch.complex128))


def _numbers(mask: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """A different number at each element of ``mask``, and zero at all others."""
    numbers = torch.linspace(1, 2, mask.numel(), device=mask.device).view(mask.shape)
    return torch.where(mask, numbers, 0.0).to(dtype).reshape(shape)
