"""Compare the outcome of a call in torch and retrograd: dtype, shape, graph, values, or the exception class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")

Call = Callable[..., Any]


def outcome(call: Call, library: Any) -> Any:
    """Return everything about the result of a call, in a form that both libraries share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = attempt(lambda: call(library))
    if not isinstance(result, (torch.Tensor, rg.Tensor)):
        return result
    values = np.asarray(result.detach().numpy())
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag])
    if values.dtype.kind == "f":
        values = values.astype(float)
    return {
        "dtype": str(result.dtype).rpartition(".")[2],
        "shape": tuple(result.shape),
        "requires_grad": result.requires_grad,
        "is_leaf": result.is_leaf,
        "values": values,
    }


def compare(call: Call, tolerance: float = 0.0) -> None:
    """Check that outcomes agree, values within a tolerance."""
    expected, got = outcome(call, torch), outcome(call, rg)
    if isinstance(expected, dict) and isinstance(got, dict):
        np.testing.assert_allclose(got.pop("values"), expected.pop("values"), rtol=tolerance, atol=tolerance)
    assert got == expected


def compare_but_values(call: Call) -> None:
    """Check that outcomes agree, except for the values."""
    expected, got = outcome(call, torch), outcome(call, rg)
    for result in (expected, got):
        if isinstance(result, dict):
            del result["values"]
    assert got == expected


def cases(*calls: Call) -> Any:
    """Parametrise a test by calls of a library."""
    return pytest.mark.parametrize("call", calls, ids=[str(k) for k in range(len(calls))])
