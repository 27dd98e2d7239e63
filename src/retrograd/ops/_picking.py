"""Picking elements along one dimension, and putting gradients back where they came from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import kernel, op
from retrograd.ops._rules import normalize_dim


def lifted(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of an array and a ``dim`` take a 0-d array as torch does: as a vector of one element."""

    @functools.wraps(forward)
    def call(input: Any, *args: Any) -> Any:
        if input.ndim:
            return forward(input, *args)
        result = forward(input.reshape(1), *args)
        return tuple(item.reshape(()) for item in result) if isinstance(result, tuple) else result.reshape(())

    return call


@kernel(public=False, method=False, input=lambda g, input_shape, dim, index: place_along(g, input_shape, dim, index))
def take_along(input, dim, index):
    """The elements at ``index`` along ``dim``, each at most once."""
    return np.take_along_axis(input, index, dim) if input.ndim else input


@kernel(public=False, method=False, g=lambda G, dim, index: take_along(G, dim, index))
def place_along(g, shape, dim, index):
    """Zeros of ``shape`` with the elements of ``g`` at ``index`` along ``dim``."""
    if not shape:
        return g
    placed = np.zeros_like(g, shape=shape)
    np.put_along_axis(placed, index, g, dim)
    return placed


def pick(x: Any, dim: int, keepdim: bool, index: Any) -> tuple[Any, Any]:
    """The elements at ``index``, which has length 1 along ``dim``, and the index itself, shaped as ``keepdim`` says."""
    values, index = row_major(np.take_along_axis(x, index, dim)), row_major(index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _picked_rule(g, input_shape, dim, keepdim, indices):
    """The gradient of a picked element goes to that element."""
    (g, *_) = g
    if not keepdim and input_shape:
        dim = normalize_dim(dim, len(input_shape))
        kept = (*input_shape[:dim], 1, *input_shape[dim + 1 :])
        g, indices = g.reshape(kept), indices.reshape(kept)
    return place_along(g, input_shape, dim, indices)


def _arranged_rule(g, input_shape, dim, indices):
    """The gradient of an element that was moved goes back to its place."""
    return place_along(g[0], input_shape, dim, indices)


_VALUES_AND_INDICES: dict[str, Any] = {"outputs": ("values", "indices"), "differentiable_outputs": (0,)}

# An operation that picks one element along ``dim``, or arranges several; the results are its values and their indices.
picking = functools.partial(op, **_VALUES_AND_INDICES, input=_picked_rule)
arranging = functools.partial(op, **_VALUES_AND_INDICES, input=_arranged_rule)
