"""Finite numbers whose result is beyond the range of their type: rows 52 and 53."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from operator import itemgetter
from typing import TypeGuard

from retrograd.anomaly.catalogue._expression import first, size_of
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import atom
from retrograd.anomaly.catalogue.incomplete_records import is_unkept
from retrograd.anomaly.event import was_given_bad
from retrograd.anomaly.operation_names import TRANSPARENT, is_normalisation
from retrograd.anomaly.surroundings import Operand

_LARGEST = (65504.0, 3.4e38, sys.float_info.max)  # in half, single and double precision


def _largest(scene: Scene) -> float:
    return _LARGEST[scene.precision]


@cause(52, "normalisation of numbers whose squares overflow")
def overflowing_variance(scene: Scene) -> Finding | None:
    if not is_normalisation(scene.op) or scene.kind not in ("invalid", "overflow"):
        return None
    operand = first(scene.birth)
    size = size_of(operand)
    if size is None or not math.isfinite(size) or size < 0.1 * math.sqrt(_largest(scene)):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)

    per_row = scene.op in ("layer_norm", "rms_norm")

    def scaled(x: str) -> str:
        largest = f"{atom(x)}.detach().abs().{'amax(-1, keepdim=True)' if per_row else 'max()'}.clamp(min=1)"
        return f"{atom(x)} / {largest}"

    name = scene.called(operand, "x")
    functional = spelling.functional(scene.op, scaled(name), "shape")
    general = f"y = {functional}" if per_row else f"{name} = {scaled(name)}"
    silent = _IN_SILENCE if scene.event.harmed is None else ""
    return Finding(
        f"{scene.op} squares its input to compute the variance, and the input is up to {size:.3g} here: the square is "
        f"beyond {scene.dtype}. {silent}Find where it grew in the layers before; normalise earlier, or use a smaller "
        f"learning rate. Dividing {'each row' if per_row else 'everything'} by its largest value first does not change "
        "the result.",
        scene.replaced(site, 0, lambda text, _: scaled(text), "input") if per_row else None,
        general,
    )


_IN_SILENCE = (
    "Dividing by an infinite standard deviation gives 0 for any input, and no gradient flows back through it: training "
    "stalls without a NaN. "
)


_ARITHMETIC = frozenset(
    (
        *("add", "einsum", "linear", "matmul", "mul", "pow", "square"),
        "convolution",
        "cosh",
        "cumprod",
        "cumsum",
        "det",
        "div",
        "dot",
        "hypot",
        "kron",
        "lgamma",
        "mean",
        "norm",
        "outer",
        "prod",
        "round",
        "scaled_dot_product_attention",
        "sub",
        "sum",
        "to",
    )
)
_NUMBERS = ("input", "other", "exponent", "decimals", "value")  # the parameters in which a plain number counts


def have_cancelled(scene: Scene) -> bool:
    """Whether sums of finite numbers went beyond their type's range on both sides, and inf - inf made them NaN.

    Whether a product of matrices ends so or in an infinity depends on the order of its sums, and so on the processor.
    """
    if scene.kind != "invalid" or scene.op not in _SUMS or scene.backward or was_given_bad(scene.event):
        return False
    return max((size for size, _ in _finite_sizes(scene)), default=0) >= 1e-3 * math.sqrt(_largest(scene))


def _finite_sizes(scene: Scene) -> list[tuple[float, Operand]]:
    """The operands that a birth calculates with, and how large each is, as far as that is known and finite."""
    operands = [each for each in scene.birth.args if each.shape is not None or each.name in _CALCULATED]
    return [(size, each) for each in operands if (size := size_of(each)) is not None and math.isfinite(size)]


@cause(53, "numbers too large for their type")
def too_large(scene: Scene) -> Finding | None:
    cancelled = have_cancelled(scene)
    if not (scene.kind == "overflow" or cancelled) or scene.op not in _ARITHMETIC:
        return None
    if was_given_bad(scene.event) or (scene.context.get("unkept") and any(map(is_unkept, scene.birth.args[:2]))):
        return None
    sizes = _finite_sizes(scene)
    if not sizes:
        return None
    told = [f"{_called(operand)} is {'' if _is_one(operand) else 'up to '}{size:.3g}" for size, operand in sizes]
    if scene.backward and scene.grad is not None:
        told.append(f"the incoming gradient is {scene.grad:.3g}")
    what = "the gradient of " if scene.backward else "the result of "
    grew = _where_it_grew(scene, max(sizes, key=itemgetter(0))[1])
    end = f"the largest {scene.dtype}, {_largest(scene):.3g}"
    happened = (
        f"sums in {scene.op} went beyond {end}, to inf and to -inf, which add up to NaN"
        if cancelled
        else f"{what}{scene.op} is beyond {end}"
    )
    return Finding(
        f"All numbers were finite, but {happened}: {', '.join(told)} here. {grew}",
    )


_SUMS = ("matmul", "linear", "convolution", "dot", "einsum", "sum", "mean", "scaled_dot_product_attention")


def _called(operand: Operand) -> str:
    return operand.leaf_name or operand.text or operand.name


def _is_one(operand: Operand) -> bool:
    return operand.min is None and operand.max is None


def _where_it_grew(scene: Scene, largest: Operand) -> str:
    """Where to look for the reason of a large number: what it was made from, as far as that was as large."""
    operand, place = largest, ""
    while (made := operand.producer) is not None and made.op != "argument":  # where a transformed function begins
        size = size_of(operand)
        place = made.op if made.place is None else f"{made.op} in {scene.line_of(made)}"
        joined = [size_of(each) for each in made.args if each.shape is not None]
        if _grows_steadily(joined):
            return (
                f"The {len(joined)} tensors that {place} puts together grow from one to the next, from {joined[0]:.3g} "
                f"to {joined[-1]:.3g}: a state is multiplied by the same weights at every step. Keep the largest "
                "singular value of these weights at 1 or below (orthogonal initialisation), bound the state (tanh, "
                "normalisation), or take fewer steps."
            )
        numbers = [each for each in made.args if not each.constant or each.name in _NUMBERS]
        decisive = max(numbers, key=lambda each: size_of(each) or 0.0, default=None)
        if size is None or decisive is None or (size_of(decisive) or 0.0) < _AS_LARGE * size:
            went = "was already this large before" if made.op in _HANDING_ON else "grew in"
            return f"It {went} {place}: look at what went in there."
        operand = decisive
    name = _called(operand)
    if operand.requires_grad and operand.leaf_name is None:
        before = f"It was already this large before {place}" if place else f"{name} was already this large earlier"
        return f"{before}: follow it back to where it grew."  # beyond the depth that is known
    if operand.requires_grad:
        return (
            f"{name} was already this large at the beginning of the step: look at how it was initialised, and at what "
            "the last updates did to it (use a smaller learning rate, or clip the gradients before the step)."
        )
    return f"If {name} is data, scale it (zero mean, unit variance); if it was computed, look for where it grew."


_HANDING_ON = TRANSPARENT | {"cat", "flip", "roll", "split", "stack", "unbind"}


def _grows_steadily(sizes: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Whether numbers go up all the time, and not by little."""
    known = [each for each in sizes if each is not None]
    if len(known) < _MANY or len(known) < len(sizes) or not 0 < known[0] < _AS_LARGE * known[-1]:
        return False
    return all(before < after for before, after in itertools.pairwise(known))


_MANY = 4  # numbers needed to judge a series of steps
_CALCULATED = ("input", "other", "exponent", "value")  # other plain arguments are options, such as the end of a slice
_AS_LARGE = 0.01  # relative to its result


@cause(None, "sum that contains an infinity")
def infinite_operand(scene: Scene) -> Finding | None:
    if scene.kind != "invalid" or scene.backward or scene.op not in _SUMS or scene.event.input_has_nan:
        return None
    infinite = next((each for each in scene.birth.args if size_of(each) == math.inf and not each.constant), None)
    if infinite is None:
        return None
    held = "inf" if math.inf in (infinite.value, infinite.max) else "-inf"
    name = _called(infinite)
    return Finding(
        f"{name} holds {held}. That is harmless until it enters arithmetic: {scene.op} adds up, and inf - inf is NaN, "
        "as is inf * 0. Find what wrote it there (a padding value, a mask, a log of 0), and put a finite number in "
        "such places first.",
    )


CAUSES = (overflowing_variance,)
FALLBACK = (too_large, infinite_operand)
