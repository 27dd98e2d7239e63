"""The table of rules for NumPy's functions (NEP 18), by the function itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# The rule for each function, with the same parameters; NotImplemented means: sample by sample.
RULES: dict[Any, Callable[..., Any]] = {}


def rule(*functions: Any) -> Callable[[F], F]:
    """Answer for NumPy's ``functions``, with their parameters."""

    def register(answer: F) -> F:
        for function in functions:
            RULES[function] = answer
        return answer

    return register
