"""Run the same program on torch and on retrograd and compare what it reports."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import retrograd as rg

torch.set_num_threads(1)

Program = Callable[[Any], Any]


def attempt(function: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of the exception it raises."""
    try:
        return function()
    except Exception as error:
        return f"raises {_family(error)}"


def _family(error: Exception) -> str:
    """Return the name of the built-in exception class that a user would catch."""
    for family in (NotImplementedError, IndexError, TypeError, ValueError, KeyError, AttributeError, RuntimeError):
        if isinstance(error, family):
            return family.__name__
    return type(error).__name__


def message(function: Callable[[], Any]) -> str:
    """Return the text of the exception that a call raises."""
    try:
        function()
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was raised")


def check_both_refuse(program: Program) -> None:
    """Check that a program raises in both libraries, and exceptions of one class."""
    theirs, ours = attempt(lambda: program(torch)), attempt(lambda: program(rg))
    assert str(theirs).startswith("raises")
    assert ours == theirs


def check_message(function: Callable[[], Any], words: list[str]) -> None:
    """Check that the text of the exception that a call raises contains all these words."""
    text = message(function)
    assert [word for word in words if word not in text] == [], text


def leaf(lib: Any, *values: Any) -> Any:
    """Return a float64 vector that requires grad, in either library."""
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=True)


def plain(value: Any) -> Any:
    """Return a report without library types: tensors become dtypes and rounded nested lists."""
    if isinstance(value, (torch.Tensor, rg.Tensor)):
        name = str(value.dtype).split(".")[-1]
        array = np.asarray(value.detach().cpu().resolve_conj().resolve_neg().numpy())
        if array.dtype.kind in "fc":
            array = np.round(array.astype(complex if array.dtype.kind == "c" else float), 5) + 0.0
        return name, array.tolist()
    if isinstance(value, (torch.Size, rg.Size)):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (torch.dtype, rg.dtype)):
        return str(value).split(".")[-1]
    return value


def run(program: Program, library: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(program(library))


def parity(program: Program) -> Callable[[], None]:
    """Turn a program that takes the library and returns a report into a test that both libraries report the same."""

    @functools.wraps(program)
    def test() -> None:
        expected = run(program, torch)
        assert expected not in (None, [], ()), "the program reports nothing"
        assert run(program, rg) == expected

    del test.__wrapped__  # type: ignore[attr-defined]  # pytest would take the program's parameter for a fixture
    return test
