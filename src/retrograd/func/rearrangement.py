"""Dimensions reordered, split, joined, added and taken away by a pattern, as in einops."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd.core.tensor import Tensor
from retrograd.ops.joining import stack

__all__ = ["rearrange"]

_ELLIPSIS = "..."  # in parentheses; one dimension
_REST = "*"  # by itself; as many dimensions as there are
# one dimension of a side: its axes, outer ones first; none where the length is 1
Group = tuple[str, ...]


class _Pattern(NamedTuple):
    left: tuple[Group, ...]
    right: tuple[Group, ...]


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Return a tensor with the dimensions that the right side of ``pattern`` names; a view where that can be.

    Parameters
    ----------
    tensor
        A tensor; or several of one shape, which are stacked in a new first dimension.
    pattern
        ``"left -> right"``: on the left a name for every dimension, on the right the same names in the wanted order.
        On either side names in parentheses are a dimension that consists of several, ``1`` or ``()`` is one of
        length 1, and ``...`` stands for all dimensions that have no name.
    **axes_lengths
        Lengths that cannot be known from the shape: all but one of those in one pair of parentheses.

    Raises
    ------
    ValueError
        If the pattern cannot be read, or does not fit the shape or the lengths.

    Examples
    --------
    >>> images = rg.zeros(2, 6, 4, 3)
    >>> rg.func.rearrange(images, "b h w c -> b c h w").shape
    retrograd.Size([2, 3, 6, 4])
    >>> rg.func.rearrange(images, "b (h p) w c -> b h (p w c)", p=2).shape
    retrograd.Size([2, 3, 24])
    >>> rg.func.rearrange(images, "b ... c -> (b c) 1 ...").shape
    retrograd.Size([6, 1, 6, 4])
    """
    if isinstance(tensor, Tensor):
        x = tensor
    elif isinstance(tensor, (list, tuple)) and all(isinstance(item, Tensor) for item in tensor):
        x = stack(tensor)
    else:
        raise TypeError(f"rearrange(): expected a tensor, or a list of tensors, not {type(tensor).__name__}")
    left, right = _expanded(_parsed(pattern), x.ndim, pattern)
    lengths = _lengths(left, tuple(x.shape), axes_lengths, pattern)
    axes = [axis for group in left for axis in group]
    x = x.reshape([lengths[axis] for axis in axes])
    x = x.permute([axes.index(axis) for group in right for axis in group])
    return x.reshape([math.prod(lengths[axis] for axis in group) for group in right])


@functools.lru_cache(maxsize=1024)
def _parsed(pattern: str) -> _Pattern:
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange(): pattern must be a str, not {type(pattern).__name__}")
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange(): the pattern {pattern!r} must contain '->' once")
    left, right = (_groups(side, pattern) for side in sides)
    if any(_ELLIPSIS in group for group in left):
        raise ValueError(f"rearrange(): '...' cannot be in parentheses on the left of {pattern!r}")
    names, wanted = ({axis.replace(_REST, _ELLIPSIS) for group in side for axis in group} for side in (left, right))
    for axis in sorted(names ^ wanted):
        side, other = ("left", "right") if axis in names else ("right", "left")
        raise ValueError(
            f"rearrange(): {axis!r} is only on the {side} side of {pattern!r}, and must also be on the {other}"
        )
    return _Pattern(left, right)


def _groups(side: str, pattern: str) -> tuple[Group, ...]:
    """The dimensions of one side."""
    groups: list[Group] = []
    inside: list[str] | None = None  # the axes since an opening parenthesis
    seen = set()
    for token in re.findall(r"\.\.\.|\w+|\S", side):
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(tuple(inside))
            inside = None
        elif token == _ELLIPSIS or (token.isidentifier() and not token.startswith("_") and not token.endswith("_")):
            if token in seen:
                raise ValueError(f"rearrange(): {token!r} appears twice on one side of {pattern!r}")
            seen.add(token)
            if inside is None:
                groups.append((_REST if token == _ELLIPSIS else token,))
            else:
                inside.append(token)
        elif token == "1":
            if inside is None:
                groups.append(())
        else:
            raise ValueError(f"rearrange(): cannot parse {token!r} in {pattern!r}")
    if inside is not None:
        raise ValueError(f"rearrange(): a parenthesis is not closed in {pattern!r}")
    return tuple(groups)


@functools.lru_cache(maxsize=1024)
def _expanded(pair: _Pattern, ndim: int, pattern: str) -> _Pattern:
    """The pattern with a name for each dimension that the ellipsis stands for."""
    given, has_rest = len(pair.left), (_REST,) in pair.left
    if ndim < given - 1 if has_rest else ndim != given:
        named = f"{given - 1} or more dimensions" if has_rest else f"{given} dimensions"
        raise ValueError(f"rearrange(): {pattern!r} is for a tensor of {named}, but this one has {ndim}")
    rest = tuple(f"...{k}" for k in range(ndim - given + 1)) if has_rest else ()

    def expand(groups: tuple[Group, ...]) -> tuple[Group, ...]:
        found: list[Group] = []
        for group in groups:
            if group == (_REST,):
                found += [(axis,) for axis in rest]
            else:
                found.append(tuple(a for axis in group for a in (rest if axis == _ELLIPSIS else (axis,))))
        return tuple(found)

    return _Pattern(expand(pair.left), expand(pair.right))


def _lengths(left: tuple[Group, ...], shape: tuple[int, ...], given: dict[str, Any], pattern: str) -> dict[str, int]:
    """The length of every axis."""
    known = {axis for group in left for axis in group}
    for axis, length in given.items():
        if axis not in known:
            raise ValueError(f"rearrange(): {axis}={length} is given, but there is no {axis!r} in {pattern!r}")
        if not isinstance(length, int) or isinstance(length, bool):
            raise TypeError(f"rearrange(): {axis} must be int, not {type(length).__name__}")
    lengths: dict[str, int] = {}
    for dim, (group, size) in enumerate(zip(left, shape, strict=True)):
        unknown = [axis for axis in group if axis not in given]
        product = math.prod(given[axis] for axis in group if axis in given)
        if len(unknown) > 1:
            raise ValueError(
                f"rearrange(): the lengths of {', '.join(unknown)} in {pattern!r} cannot be inferred from dimension "
                f"{dim}, of size {size}; pass all but one, as in {unknown[0]}=2"
            )
        if (size % product if unknown and product else size != product) or (unknown and not product):
            wanted = " x ".join(str(given.get(axis, axis)) for axis in group) or "1"
            raise ValueError(f"rearrange(): dimension {dim}, of size {size}, does not match {wanted} in {pattern!r}")
        lengths.update({axis: given[axis] if axis in given else size // product for axis in group})
    return lengths
