"""The operations that exist in this library, and in torch if the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

# The namespaces of the functions and torch nodes that an event may name; torch.ops.aten has the dispatcher's entries.
_PLACES = ("", "Tensor", "linalg", "fft", "special", "nn.functional", "ops.aten", "_C._nn", "_C._functions")


def is_operation(name: str) -> bool:
    """Whether an operation, or a Function that the program has defined, goes by this name."""
    from retrograd.anomaly.operation_names import stem
    from retrograd.core.registry import operations

    short = stem(name)
    parts = {name, short, f"_{short}", f"{short}_", f"_{short}_", short.lower()}
    return (
        any(callable(_found(place, part)) for place in _places() for part in parts)
        or any(each.__name__ in parts for each in _functions())
        or short in {stem(op.node_name) for op in operations.values()}
    )


def functions_known() -> set[str]:
    """The names of this library's operations, and of the Functions that the program has defined."""
    from retrograd.core.registry import composites, operations

    return {op.name for op in operations.values()} | {*composites} | {each.__name__ for each in _functions()}


def _places() -> Iterator[Any]:
    for library in _libraries():
        for path in _PLACES:
            place: Any = library
            for part in path.split(".") if path else ():
                place = _found(place, part)
            if place is not None:
                yield place


def _found(place: Any, name: str) -> Any:
    try:
        return getattr(place, name, None)
    except Exception:  # names that torch.ops cannot read, and advice about absent ones
        return None


def _libraries() -> Iterator[Any]:
    import retrograd
    import retrograd.nn.functional

    yield retrograd
    if "torch" in sys.modules:
        yield sys.modules["torch"]


def _functions() -> Iterator[type]:
    """The Functions that the program and the libraries have defined."""
    for library in _libraries():
        waiting = [_found(_found(library, "autograd"), "Function")]
        while waiting:
            each = waiting.pop()
            if each is not None:
                waiting += each.__subclasses__()
                yield each
