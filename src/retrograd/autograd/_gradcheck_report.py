"""What gradcheck says about two Jacobians that differ: which, where, by how much, and what that looks like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from retrograd.autograd._gradcheck_point import Array, Point, displaced, units, values
from retrograd.core.tensor import wrap


class Tolerance(NamedTuple):
    """How much two entries may differ: ``|analytical - numerical| <= atol + rtol * |numerical|``."""

    atol: float
    rtol: float
    nondet: float

    def excess(self, numerical: Array | float, analytical: Array | float) -> Array:
        """Where two Jacobians differ by more than is allowed."""
        return ~np.isclose(analytical, numerical, rtol=self.rtol, atol=self.atol)


class Pair(NamedTuple):
    """An output and an input, by position, and the sentence that says what was compared."""

    output: int
    input: int
    sentence: str


def pair(point: Point, output: int, input: int, unit: complex, *, forward: bool) -> Pair:
    """The pair with torch's sentence, which says what part of complex numbers is meant."""
    side, tensor = ("inputs", point.leaves[input]) if forward else ("outputs", point.outputs[output])
    start = "Jacobian"
    if tensor.is_complex():
        name = "imaginary" if unit == 1j else "real"
        start = f"While considering the {name} part of complex {side} only, Jacobian"
    mode = " computed with forward mode" if forward else ""
    return Pair(output, input, f"{start}{mode} mismatch for output {output} with respect to input {input},")


def difference(point: Point, which: Pair, tolerance: Tolerance, numerical: Array, analytical: Array) -> str | None:
    """Say how two Jacobians differ, or None if they agree."""
    numerical, analytical = numerical + 0.0, analytical + 0.0  # no negative zeros
    excess = tolerance.excess(numerical, analytical)
    if not excess.any():
        return None
    with np.errstate(all="ignore"):
        distance = np.abs(analytical - numerical)
        allowed = tolerance.atol + tolerance.rtol * np.abs(numerical)
    # a NaN difference counts as the largest
    ranked = np.where(excess, np.where(np.isnan(distance), np.inf, distance), -1.0)
    row, column = (int(k) for k in np.unravel_index(np.argmax(ranked), ranked.shape))
    leaf, output = point.leaves[which.input], point.outputs[which.output]
    source = tuple(int(k) for k in np.unravel_index(row, leaf.shape))
    target = tuple(int(k) for k in np.unravel_index(column, output.shape))
    lines = [
        which.sentence,
        f"numerical:{wrap(numerical)!r}",
        f"analytical:{wrap(analytical)!r}",
        "",
        f"Largest difference: {distance[row, column]:.6g} at [{row}, {column}], "
        f"d {_element('output', which.output, target)} / d {_element('input', which.input, source)}: "
        f"numerical {_number(numerical[row, column])}, analytical {_number(analytical[row, column])}.",
        f"{np.count_nonzero(excess)} of {excess.size} entries differ by more than is allowed "
        f"({allowed[row, column]:.3g} there, with atol={tolerance.atol:g} and rtol={tolerance.rtol:g}).",
    ]
    if point.note is not None:
        lines.append(point.note(which.output, which.input))
    hint = _at_the_point(point, which, source, target, tolerance) or _pattern(numerical, analytical, tolerance)
    if hint is not None:
        lines.append(hint)
    return "\n".join(lines)


def _element(kind: str, position: int, index: tuple[int, ...]) -> str:
    return f"{kind} {position}" + (f"[{', '.join(map(str, index))}]" if index else "")


def _number(value: complex) -> str:
    return f"{value:.6g}"


def _at_the_point(
    point: Point, which: Pair, source: tuple[int, ...], target: tuple[int, ...], tolerance: Tolerance
) -> str | None:
    """Why finite differences may not give the derivative at this point."""
    leaf, output = point.leaves[which.input], point.outputs[which.output]

    name = _element("output", which.output, target)
    for position, other in point.leaves.items():
        if other is not leaf and np.may_share_memory(other._data, leaf._data):
            return (
                f"Inputs {which.input} and {position} share memory, so changing one changes the other. Check with a "
                "clone() of each."
            )

    def value() -> complex:
        return values(point, [which.output])[0][target].item()

    here, again = value(), value()
    if here != again and not (np.isnan(here) and np.isnan(again)):
        return (
            f"func is not deterministic: for the same inputs {name} was {_number(here)} and then {_number(again)}. "
            "Seed its random numbers inside func."
        )
    precision = np.finfo(output._data.dtype).eps
    for unit in units(leaf):
        with displaced(leaf, source, point.eps * unit):
            above = value()
        with displaced(leaf, source, -point.eps * unit):
            below = value()
        if not np.isfinite([above, here, below]).all():
            return (
                f"func is not finite there: {name} is {_number(here)}; it is {_number(below)} a step of {point.eps:g} "
                f"below and {_number(above)} a step above. Check at another point."
            )
        right, left = (above - here) / point.eps, (here - below) / point.eps
        noise = 8 * precision * max(abs(above), abs(here), abs(below)) / point.eps
        if abs(right - left) > 0.1 * max(abs(right), abs(left)) + 100 * tolerance.atol + noise:
            return (
                f"func has a kink, a jump or a sharp bend there: its slope is {_number(left)} from below and "
                f"{_number(right)} from above. Finite differences mean nothing at such a point. Check at another point."
            )
    if max(precision, np.finfo(leaf._data.dtype).eps) > 1e-10:
        return (
            f"Input {which.input} is {leaf.dtype} and output {which.output} {output.dtype}, too coarse for "
            f"eps={point.eps:g}. Check in double precision, or with larger eps, atol and rtol."
        )
    return None


def _pattern(numerical: Array, analytical: Array, tolerance: Tolerance) -> str | None:
    """A simple description of what the analytical Jacobian is instead, if there is one."""

    def same(other: Array) -> bool:
        return bool(np.all(np.abs(analytical - other) <= 10 * tolerance.atol + 10 * tolerance.rtol * np.abs(other)))

    if not (np.isfinite(numerical).all() and np.isfinite(analytical).all()):
        return None
    if not analytical.any():
        return "The analytical Jacobian is zero: the gradient of this input is missing, or was detached on the way."
    if np.iscomplexobj(numerical) and (same(np.conj(numerical)) or same(-np.conj(numerical))):
        return "Up to sign, the analytical Jacobian is the complex conjugate of the numerical one: a conj() is missing."
    scale = np.vdot(numerical, numerical).real
    if scale:
        factor = np.vdot(numerical, analytical).real / scale
        if numerical.size > 1 and same(factor * numerical):
            return f"The analytical Jacobian is {factor:.4g} times the numerical one throughout: a wrong factor."
    return None
