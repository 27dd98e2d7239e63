"""Ordinary numbers for the programs of the catalogue, with which nothing goes wrong in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.anomaly.programs import PROGRAMS, Program

# Between 0 and 1, because many programs take a logarithm, a root or an inverse function of their leaves.
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "evenly spaced": lambda rng, count: np.linspace(0.25, 0.75, count),
    "normal": lambda rng, count: np.clip(rng.normal(0.5, 0.15, count), 0.05, 0.95),
    "eighths": lambda rng, count: rng.permutation(np.arange(count) % 5 + 1) / 8,  # some of them are equal
}

# Larger numbers for programs that select these, have a logarithm of the excess, or get a softplus for their relu.
BEYOND = {2: 1.0, 18: 10.0, 35: 10.0}
SPREAD = {29: 20.0}  # the eps that float16 can hold is small only beside a spread of at least 1

BROKEN_ROWS = (40, 41)  # the setup stays broken whatever the leaves hold
BROKEN_CODES = (  # so does the code
    "y = torch.special.logit(x * 0)",
    "s = torch.where(mask, float('-inf'), x)\ny = s.softmax(dim=-1).sum()",
)
OTHER_DENOMINATOR = (17,)  # the remedy divides by n and not by n - 1, on purpose

# The programs that a remedy must not change where all is well.
UNCHANGED = [
    each for each in PROGRAMS if each.row not in (*BROKEN_ROWS, *OTHER_DENOMINATOR) and each.code not in BROKEN_CODES
]


def numbers(shape: tuple[int, ...], kind: str, program: Program) -> np.ndarray:
    """Return numbers of a kind for a leaf of a program; they are the same in every call."""
    found = KINDS[kind](np.random.default_rng(0), int(np.prod(shape))).reshape(shape)
    found = found * SPREAD.get(program.row or 0, 1.0)
    found = found + (1.0 if "acosh" in program.code else BEYOND.get(program.row or 0, 0.0))
    if shape[-2:] == (3, 3):
        found = found + np.diag([0.1, 0.2, 0.4])  # no matrix with equal eigenvalues
    return found
