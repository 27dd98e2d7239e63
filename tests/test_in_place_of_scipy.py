"""Errors of SciPy functions that do not accept tensors name replacements, and these give the same results."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy
import numpy as np
import pytest
import scipy.special
import scipy.stats

import retrograd
import retrograd.distributions
from retrograd.core.conversion_errors import IN_PLACE_OF_FUNCTIONS
from tests.test_numpy_code import tensor

A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.1]])
B = np.array([[1.0, 2.0]])
V = np.array([2.5, 3.5, 4.25])
ARGUMENTS: dict[str, dict[str, Any]] = {
    "cumulative_trapezoid": {"y": V, "x": np.array([0.0, 0.5, 2.0])},
    "trapezoid": {"y": V, "x": np.array([0.0, 0.5, 2.0])},
    "block_diag": {"A": A, "B": B},
    "cho_solve": {"A": A, "b": V},
    "solve_triangular": {"A": A, "b": V},
    "solve": {"A": A, "b": V},
    "lstsq": {"A": A, "b": V},
    "toeplitz": {"c": V},
    "convolve": {"x": V, "y": V},
    "fftconvolve": {"x": V, "y": V},
    "comb": {"N": V, "k": 2},
    "perm": {"N": V, "k": 2},
    "factorial": {"n": V},
    "multigammaln": {"a": V, "d": 2},
    "polygamma": {"n": 2, "x": V},
    "log_softmax": {"x": V, "axis": 0},
    "logsumexp": {"x": V, "axis": 0},
    "softmax": {"x": V, "axis": 0},
}
# replacements that give factors in another form or another number of values
OTHERWISE = {"cho_factor", "cho_solve", "ldl", "lu_factor", "lstsq", "eig", "eigvals", "norm", "qr"}


@pytest.mark.parametrize("function", IN_PLACE_OF_FUNCTIONS)
def test_suggested_replacements_equal_scipy(function: str) -> None:
    module, name = function.rsplit(".", 1)
    arguments = ARGUMENTS.get(name, {"A": A})
    tensors = {key: tensor(value) if isinstance(value, np.ndarray) else value for key, value in arguments.items()}
    call = getattr(importlib.import_module(module), name)
    given = [(tensors["A"], True), tensors["b"]] if name == "cho_solve" else list(tensors.values())
    instead = IN_PLACE_OF_FUNCTIONS[function]
    with pytest.raises(RuntimeError, match=re.escape(f"{module} takes arrays only")) as caught:
        call(*given)
    assert f"In place of {name}, {instead}." in str(caught.value)
    if name in OTHERWISE:
        return
    expression, _, definition = re.sub(", if .*", "", instead).partition(" with ")
    if expression.endswith(name):  # NumPy has the same name
        expression = f"{expression}({', '.join(arguments)})"
    names: dict[str, Any] = {"numpy": numpy, "retrograd": retrograd, "scipy": scipy, **tensors}
    exec(f"{definition}\nresult = {expression}", names)
    expected = call(*arguments.values())
    if isinstance(expected, tuple):
        for mine, theirs in zip(names["result"], expected, strict=True):
            np.testing.assert_allclose(np.abs(mine.detach()), np.abs(theirs), rtol=1e-9)  # vectors have either sign
    else:
        assert names["result"].requires_grad
        np.testing.assert_allclose(names["result"].detach(), expected, rtol=1e-9)


def test_scipy_optimize_suggests_retrograd_optimize() -> None:
    optimize = importlib.import_module("scipy.optimize")
    x = tensor(V)
    with pytest.raises(RuntimeError, match=r"scipy\.optimize takes arrays only: retrograd\.optimize has minimize"):
        optimize.minimize(lambda p: np.sum(x * p), V)


PAGE = Path(__file__).parent.parent / "docs" / "from-autograd.md"
_, _, _TABLE = PAGE.read_text().partition("| `scipy.stats` | `rg.distributions` |")
PAIRS = [
    pair
    for row in re.findall(r"^\| (`.*) \| (`.*) \|$", _TABLE.partition("```")[0], flags=re.MULTILINE)
    for pair in zip(*(re.findall(r"`(\w+\([^`]*\))`", side) for side in row), strict=True)
]
NUMBERS = {"m": 0.3, "s": 1.7, "df": 4.0, "r": 2.0, "a": 1.5, "b": 2.5, "k": 3.0, "p": 0.3}
VECTORS = {"m": np.array([1.0, 2.0]), "C": np.array([[2.0, 0.3], [0.3, 1.0]]), "a": np.array([1.0, 2.0, 3.0])}


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_densities_on_the_page_equal_scipy(theirs: str, ours: str) -> None:
    names: dict[str, Any] = NUMBERS if theirs[:5] not in ("multi", "diric") else VECTORS
    names = {**names, "n": 5, "np": np}
    density = eval(theirs, {**vars(scipy.stats), **names})
    tensors = {key: tensor(np.array(value)) for key, value in names.items() if key not in ("n", "np")}
    mine = eval(ours, {**vars(retrograd.distributions), **tensors, "n": 5})
    points = {"multi": [0.3, 0.4], "diric": [0.2, 0.3, 0.5], "bern": [0, 1]}
    point = np.array(next((at for name, at in points.items() if theirs.startswith(name)), [0.3, 0.7, 0.9]))
    if hasattr(density, "logpmf"):
        point = point if theirs.startswith("bern") else np.array([1, 2, 3])
        expected = density.logpmf(point)
    else:
        expected = density.logpdf(point)
    moved = point - 1 if theirs.startswith("geom") else point  # as the page says
    np.testing.assert_allclose(mine.log_prob(tensor(moved.astype(float))).detach(), expected, rtol=1e-7)


def test_the_page_lists_many_densities() -> None:
    assert len(PAIRS) > 15
