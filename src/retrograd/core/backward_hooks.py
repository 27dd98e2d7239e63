"""Running hooks in backward: on the gradients of tensors, before and after a node; and what they may return."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.node import AccumulateGrad, Extras, Node
from retrograd.core.tensor import Tensor, wrap


def as_tensor(grad: Any, on_tensors: bool) -> Any:
    """A gradient as users see it."""
    if on_tensors or grad is None:
        return grad
    return wrap(np.asarray(grad) if isinstance(grad, np.generic) else grad)


def as_carried(grad: Any, on_tensors: bool) -> Any:
    """A gradient as the engine carries it: an array, or a Tensor if gradients are recorded."""
    return grad if on_tensors or grad is None else grad._data


def run_tensor_hooks(node: Node, extras: Extras | None, g: Any, owned: set[Node], on_tensors: bool) -> Any:
    """Run the hooks of the tensors that ``node`` computed, then fill the ``.grad`` of those that retain it."""
    if type(node) is AccumulateGrad:
        meta = node.variable._meta
        by_output = {0: meta.hooks} if meta is not None and meta.hooks else {}
        if extras is not None:
            by_output |= extras.tensor_hooks
    else:
        by_output = extras.tensor_hooks  # type: ignore[union-attr]
    single = node.outputs == 1
    for nr, hooks in by_output.items():
        if hooks:
            owned.discard(node)  # a hook may keep the gradient
        for hook in list(hooks.values()):
            grad = as_tensor(g if single or g is None else g[nr], on_tensors)
            replaced = hook(grad)  # ``grad`` is None if no gradient arrived; torch calls hooks all the same
            if replaced is None:
                continue
            check_result(hook, replaced, grad)
            replaced = as_carried(replaced, on_tensors)
            if single:
                g = replaced
            else:
                g = [None] * node.outputs if g is None else list(g)
                g[nr] = replaced
    if extras is not None and g is not None:
        for nr, ref in extras.retained.items():
            tensor = ref()
            grad = g if single else g[nr]
            if tensor is not None and grad is not None:
                owned.discard(node)
                # a copy, in index order as in torch: writing to it changes no other gradient, nor what the user passed
                grad = as_tensor(grad, on_tensors).copy(order="C")
                tensor._grad = grad if tensor._grad is None else tensor._grad + grad
    return g


def check_result(hook: Any, result: Any, grad: Tensor | None) -> None:
    """Raise if what a hook returned cannot take the place of a gradient."""
    if result is None:
        return
    if grad is None:
        raise RuntimeError(
            f"can't replace a None gradient with a non-None value (returned by hook '{_name_of(hook)}'): no gradient "
            "arrived there, so return None"
        )
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Tensor or None, but hook '{_name_of(hook)}' returned '{type(result).__name__}'")
    if result.shape != grad.shape:
        raise RuntimeError(
            f"hook '{_name_of(hook)}' has changed the size of value: from {list(grad.shape)} to {list(result.shape)}"
        )
    if result._data.dtype != grad._data.dtype:
        raise RuntimeError(
            f"hook '{_name_of(hook)}' has changed the type of value (was {grad.dtype} got {result.dtype})"
        )


def _checked_results(hook: Any, results: Any, grads: tuple[Any, ...], on_tensors: bool) -> list[Any]:
    """The gradients that a node's hook returned in place of ``grads``, as they are carried."""
    if not isinstance(results, tuple):
        raise TypeError(
            f"expected tuple, but hook '{_name_of(hook)}' returned '{type(results).__name__}'; it must return None, or "
            f"a tuple of {len(grads)}, one for each of the gradients"
        )
    if len(results) != len(grads):
        raise RuntimeError(
            f"hook '{_name_of(hook)}' has returned an incorrect number of values (got {len(results)}, but expected "
            f"{len(grads)})"
        )
    for result, grad in zip(results, grads, strict=True):
        check_result(hook, result, grad)
    return [as_carried(result, on_tensors) for result in results]


def _name_of(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def run_prehooks(node: Node, extras: Extras, g: Any, on_tensors: bool) -> Any:
    for hook in list(extras.prehooks.values()):
        grads = tuple([as_tensor(grad, on_tensors) for grad in node.each(g)])
        replaced = hook(grads)
        if replaced is not None:
            carried = _checked_results(hook, replaced, grads, on_tensors)
            g = carried[0] if node.outputs == 1 else carried
    return g


def run_posthooks(node: Node, extras: Extras, g: Any, grads: Any, on_tensors: bool) -> Any:
    for hook in list(extras.posthooks.values()):
        outputs = tuple([as_tensor(grad, on_tensors) for grad in node.each(g)])
        inputs = tuple(as_tensor(grad, on_tensors) for grad in grads or [None] * len(node.next))
        replaced = hook(inputs, outputs)
        if replaced is not None:
            grads = _checked_results(hook, replaced, inputs, on_tensors)
    return grads
