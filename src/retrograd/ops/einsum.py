"""Contractions: sums of products over indices that two or more tensors share."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import kernel
from retrograd.core.registry import composite
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor
from retrograd.dtypes import promote_types
from retrograd.ops._matrices import check_same_dtype
from retrograd.ops._rules import conj
from retrograd.ops.matmul import product

# --- two tensors ------------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """How two tensors become batches of matrices whose product is their contraction."""

    left: tuple[int, ...]  # the order of the dimensions: batch, own, contracted
    right: tuple[int, ...]  # batch, contracted, own
    batch: int  # how many of each there are
    own_left: int
    contracted: int
    out: tuple[int, ...]  # from the order batch, left's own, right's own to the requested one
    swapped: bool  # whether the requested order begins with right's own: then the product is the other way round


@functools.lru_cache(maxsize=1024)
def _layout(left: str, right: str, out: str) -> _Layout:
    # in the order of the result, which then lies in memory as it is wanted, if that is possible at all
    batch = [index for index in out if index in left and index in right]
    contracted = [index for index in left if index in right and index not in out]
    own_left = [index for index in out if index not in right]
    own_right = [index for index in out if index not in left]
    made = [*batch, *own_left, *own_right]
    return _Layout(
        tuple(map(left.index, [*batch, *own_left, *contracted])),
        tuple(map(right.index, [*batch, *contracted, *own_right])),
        len(batch),
        len(own_left),
        len(contracted),
        tuple(map(made.index, out)),
        bool(own_left and own_right) and out.index(own_right[0]) < out.index(own_left[0]),
    )


@kernel(
    public=False,
    method=False,
    node_name="EinsumBackward0",
    input=lambda g, other, left, right, out: contract(g, conj(other), out, right, left),
    other=lambda g, input, left, right, out: contract(conj(input), g, left, out, right),
    factors=("input", "other"),
)
def contract(input, other, left: str, right: str, out: str):
    """Sum the products of two tensors over the indices that ``out`` lacks.

    ``left``, ``right`` and ``out`` name the dimensions by one letter each. No letter occurs twice in one of them, and
    every letter occurs in at least two of the three, so that the derivatives are contractions, too.
    """
    plan = _layout(left, right, out)
    if not plan.contracted:
        return _stretched(input, left, out) * _stretched(other, right, out)
    if plan.swapped:
        input, other, plan = other, input, _layout(right, left, out)
    a, b = input.transpose(plan.left), other.transpose(plan.right)
    batch, own = a.shape[: plan.batch], a.shape[plan.batch : plan.batch + plan.own_left]
    inner, own_right = a.shape[plan.batch + plan.own_left :], b.shape[plan.batch + plan.contracted :]
    k = math.prod(inner)
    result = product("einsum", a.reshape((*batch, math.prod(own), k)), b.reshape((*batch, k, math.prod(own_right))))
    return row_major(result).reshape((*batch, *own, *own_right)).transpose(plan.out)


def _stretched(x: Any, term: str, out: str) -> Any:
    """``x`` with its dimensions in the order of ``out``, and others of length 1 for those it lacks."""
    x = x.transpose([term.index(index) for index in out if index in term])
    lengths = iter(x.shape)
    return x.reshape([next(lengths) if index in term else 1 for index in out])


@composite(method=False, out=True)
def tensordot(a, b, dims: int | Sequence[Any] = 2) -> Tensor:
    """Return the sums of products of ``a`` and ``b`` over some dimensions of both.

    Parameters
    ----------
    dims
        How many of the last dimensions of ``a`` to contract with as many of the first of ``b``; or a pair of lists,
        the dimensions of ``a`` and those of ``b``.

    >>> rg.tensordot(rg.ones(2, 3, 4), rg.ones(4, 3), dims=([1, 2], [1, 0])).shape
    retrograd.Size([2])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot(): dims must be between 0 and the smaller number of dimensions, {min(a.ndim, b.ndim)}, "
                f"but got {dims}"
            )
        dims = range(a.ndim - dims, a.ndim), range(dims)
    dims_a, dims_b = (_contracted_dims(some, x.ndim) for some, x in zip(dims, (a, b), strict=True))
    if len(dims_a) != len(dims_b):
        raise RuntimeError(f"tensordot(): both dimension lists should have same length, but got {dims_a} and {dims_b}")
    for i, j in zip(dims_a, dims_b, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"tensordot(): contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} "
                f"and second has size {b.shape[j]} in dim {j}"
            )
    check_same_dtype("tensordot", a, b)
    left = [_letter(i) for i in range(a.ndim)]
    right = [_letter(a.ndim + j) for j in range(b.ndim)]
    for i, j in zip(dims_a, dims_b, strict=True):
        right[j] = left[i]
    out = "".join(index for index in [*left, *right] if (index in left) != (index in right))
    result = _evaluate([a, b], _plan(("".join(left), "".join(right)), out, (tuple(a.shape), tuple(b.shape))))
    return result.to(a.dtype)  # sums over dimensions of length 1 in the other tensor are of int64


def _contracted_dims(dims: Any, ndim: int) -> list[int]:
    counted = [checked_dim("tensordot", dim, ndim) for dim in ([dims] if isinstance(dims, int) else dims)]
    for dim in counted:
        if counted.count(dim) > 1:
            raise RuntimeError(f"tensordot(): dim {dim} appears multiple times in the list of dims")
    return counted


def _letter(position: int) -> str:
    return chr(ord("a") + position)


@composite(out=True)
def inner(input, other) -> Tensor:
    """Return the sums of the products over the last dimensions of ``input`` and ``other``.

    Shapes: ``(..., k)`` and ``(*, k)`` give ``(..., *)``. If one of them is 0-d, they are multiplied.
    """
    if isinstance(input, Tensor) and isinstance(other, Tensor) and 0 in (input.ndim, other.ndim):
        return input * other
    check_same_dtype("inner", input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner(): the last dimension must match on both input tensors, "
            f"but got shapes {list(input.shape)} and {list(other.shape)}"
        )
    return tensordot(input, other, dims=([-1], [-1]))


# --- the equation -----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _parse(equation: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The letters of every operand and of the result; the dimensions of an ellipsis get capital Greek ones."""
    text = equation.replace(" ", "")
    lhs, arrow, rhs = text.partition("->")
    terms = lhs.split(",")
    if len(terms) != len(ndims):
        few = len(ndims) < len(terms)
        raise RuntimeError(
            f"einsum(): {'fewer' if few else 'more'} operands were provided than specified in the equation "
            f"'{equation}': {len(ndims)} instead of {len(terms)}"
        )
    covered = []
    for position, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        named = _check_term(term, f"operand {position}")
        if named != ndim if "..." not in term else named > ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
                f"({ndim}) for operand {position}" + ("" if "..." in term else " and no ellipsis was given")
            )
        covered.append(ndim - named)
    inputs = tuple(term.replace("...", _ellipsis(n)) for term, n in zip(terms, covered, strict=True))
    widest = _ellipsis(max((n for term, n in zip(terms, covered, strict=True) if "..." in term), default=0))
    letters = [letter for term in terms for letter in term.replace("...", "")]
    if not arrow:
        return inputs, widest + "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    _check_term(rhs, "the output")
    for letter in rhs.replace("...", ""):
        if letter not in letters:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any input operand"
            )
        if rhs.count(letter) > 1:
            raise RuntimeError(f"einsum(): output subscript {letter} appears more than once in the output")
    return inputs, rhs.replace("...", widest)


def _check_term(term: str, what: str) -> int:
    """How many dimensions a term names, besides its ellipsis."""
    if "." in term.replace("...", "", 1):
        raise RuntimeError(f"einsum(): found '.' for {what} that is not part of any ellipsis, or a second ellipsis")
    letters = term.replace("...", "")
    for letter in letters:
        if not ("a" <= letter <= "z" or "A" <= letter <= "Z"):
            raise RuntimeError(f"einsum(): invalid subscript '{letter}' for {what}; subscripts must be in [a-zA-Z]")
    return len(letters)


def _ellipsis(n: int) -> str:
    """Letters for ``n`` dimensions, counted from the last because that is how they are broadcast."""
    return "".join(chr(ord("\u0391") + i) for i in reversed(range(n)))


# --- the plan ---------------------------------------------------------------------------------------------------------


class _Preparation(NamedTuple):
    """What to do with an operand before it meets another."""

    diagonals: tuple[tuple[int, int], ...]  # pairs of dimensions with the same index
    summed: tuple[int, ...]  # dimensions whose index is gone afterwards


class _Step(NamedTuple):
    """Contract the operands ``i`` and ``j``; the result becomes the last of those that remain."""

    i: int
    j: int
    left: str
    right: str
    out: str


class _Plan(NamedTuple):
    preparations: tuple[_Preparation | None, ...]
    steps: tuple[_Step, ...]
    order: tuple[int, ...] | None  # how to arrange the dimensions at the end


@functools.lru_cache(maxsize=1024)
def _plan(terms: tuple[str, ...], out: str, shapes: tuple[tuple[int, ...], ...]) -> _Plan:
    """Work out a contraction for operands of these shapes."""
    sizes = _sizes(terms, shapes)
    # an operand that is broadcast along an index drops it
    own = [
        {letter for letter, n in zip(term, shape, strict=True) if n == sizes[letter]}
        for term, shape in zip(terms, shapes, strict=True)
    ]
    preparations = []
    left = []
    for position, term in enumerate(terms):
        elsewhere = set(out).union(*own[:position], *own[position + 1 :])
        preparation, rest = _prepare(term, own[position] & elsewhere)
        preparations.append(preparation)
        left.append(rest)
    steps = []
    while len(left) > 1:
        step = _cheapest(left, out, sizes)
        left = [term for k, term in enumerate(left) if k not in (step.i, step.j)] + [step.out]
        steps.append(step)
    order = None if left[0] == out and steps else tuple(map(left[0].index, out))
    return _Plan(tuple(preparations), tuple(steps), order)


def _sizes(terms: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    """The length of every index."""
    sizes: dict[str, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[str, int] = {}
        for letter, n in zip(term, shape, strict=True):
            if own.setdefault(letter, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {letter} is repeated for operand {position} but the sizes don't match, "
                    f"{n} != {own[letter]}"
                )
        for letter, n in own.items():
            before = sizes.setdefault(letter, n)
            if before == 1:
                sizes[letter] = n
            elif n not in (1, before):
                name = f"subscript {letter}" if letter.isascii() else "a dimension covered by an ellipsis"
                raise RuntimeError(
                    f"einsum(): {name} has size {n} for operand {position} "
                    f"which does not broadcast with previously seen size {before}"
                )
    return sizes


def _prepare(term: str, kept: set[str]) -> tuple[_Preparation | None, str]:
    """How to bring an operand to the indices in ``kept``, once each, and the order in which these are then."""
    diagonals = []
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            diagonals.append((first, second))
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter  # as np.diagonal does
    summed = tuple(dim for dim, letter in enumerate(term) if letter not in kept)
    rest = "".join(letter for letter in term if letter in kept)
    return (_Preparation(tuple(diagonals), summed) if diagonals or summed else None), rest


def _cheapest(terms: list[str], out: str, sizes: dict[str, int]) -> _Step:
    """The pair whose contraction shrinks the operands most, with the order of indices that costs no copy."""

    def volume(letters: str) -> int:
        return math.prod(sizes[letter] for letter in letters)

    best: tuple[int, int, _Step] | None = None
    for i, j in itertools.combinations(range(len(terms)), 2):
        left, right = terms[i], terms[j]
        kept = set(out).union(*(term for k, term in enumerate(terms) if k not in (i, j)))
        made = [letter for letter in left if letter in right and letter in kept]
        made += [letter for letter in left if letter not in right]
        made += [letter for letter in right if letter not in left]
        result = out if len(terms) == 2 else "".join(made)
        key = volume(result) - volume(left) - volume(right), volume("".join({*left, *right}))
        if best is None or key < best[:2]:
            best = (*key, _Step(i, j, left, right, result))
    assert best is not None
    return best[2]


def _evaluate(operands: list[Any], plan: _Plan) -> Any:
    """Carry out a plan, on Tensors or arrays."""
    for position, preparation in enumerate(plan.preparations):
        if preparation is None:
            continue
        operand = operands[position]
        for first, second in preparation.diagonals:
            operand = np.diagonal(operand, 0, first, second)
        operands[position] = np.sum(operand, axis=preparation.summed) if preparation.summed else operand
    for step in plan.steps:
        right, left = operands.pop(step.j), operands.pop(step.i)
        if left.dtype != right.dtype and set(step.left) & set(step.right) <= set(step.out):
            # as torch does, promote only where nothing is summed
            dtype = promote_types(left.dtype, right.dtype)
            left, right = left.astype(dtype), right.astype(dtype)
        operands.append(contract(left, right, step.left, step.right, step.out))
    return operands[0] if plan.order is None else np.transpose(operands[0], plan.order)


# --- the function -----------------------------------------------------------------------------------------------------


@composite(method=False)
def einsum(*equation_and_operands: Any) -> Tensor:
    """Return a sum of products of the elements of ``operands``, in Einstein's notation.

    An index that the output lacks is summed over; one that occurs twice in an operand takes its diagonal; ``...``
    stands for any number of broadcast dimensions. Without ``->`` the output has the indices that occur once, in
    alphabetical order. Three and more operands are contracted pair by pair, the pair that shrinks most first.

    Either ``einsum(equation, *operands)`` or ``einsum(op1, [0, 1], op2, [1, 2], [0, 2])``.

    Raises RuntimeError if the equation is malformed or does not fit the shapes.

    >>> a, b = rg.ones(2, 3), rg.ones(3, 4)
    >>> rg.einsum("ij,jk->ik", a, b).shape
    retrograd.Size([2, 4])
    """
    if len(equation_and_operands) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, "
            "or at least one operand and its subscripts list"
        )
    equation, *operands = equation_and_operands
    if not isinstance(equation, str):
        equation, operands = _from_sublists(equation_and_operands)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    for position, operand in enumerate(operands):
        if not hasattr(operand, "ndim"):
            raise TypeError(f"einsum(): expected Tensor as operand {position}, but got {type(operand).__name__}")
    terms, out = _parse(equation, tuple(operand.ndim for operand in operands))
    return _evaluate(operands, _plan(terms, out, tuple(tuple(operand.shape) for operand in operands)))


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """``op1, [0, 1], op2, [1, 2], [0, 2]`` as an equation and its operands."""
    operands, sublists = list(args[: len(args) // 2 * 2 : 2]), args[1::2]
    equation = ",".join(map(_term, sublists))
    return f"{equation}->{_term(args[-1])}" if len(args) % 2 else equation, operands


def _term(sublist: Any) -> str:
    return "".join("..." if item is Ellipsis else _subscript(item) for item in sublist)


def _subscript(number: int) -> str:
    if not 0 <= number < 52:
        raise ValueError(f"einsum(): subscript {number} in subscript list is not within the valid range [0, 52)")
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)
