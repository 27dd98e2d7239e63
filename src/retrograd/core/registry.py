"""The one place where operations and methods are registered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from numpy import ndarray

from retrograd.core.state import local
from retrograd.core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op

F = TypeVar("F", bound=Callable[..., Any])

# Every differentiable or declared non-differentiable operation by name; the table of operation tests must cover it.
operations: dict[str, Op] = {}

# Functions composed of operations, by name; they need no rule of their own.
composites: dict[str, Callable[..., Any]] = {}

# NumPy's functions, by the function itself, and what answers for them on Tensors.
numpy_functions: dict[Any, Callable[..., Any]] = {}

# Libraries that this package does not import: by module name, what registers answers for their ufuncs once imported.
late: dict[str, Callable[[ModuleType], None]] = {}


def add_method(name: str, function: Any) -> None:
    """Make ``function``, or a property, a member of Tensor."""
    setattr(Tensor, name, function)


def method(function: F) -> F:
    """Make a function whose first parameter is a tensor a method of Tensor too."""
    add_method(function.__name__, function)
    return function


def composite(*aliases: str, method: bool = True, name: str | None = None, reported: bool = True) -> Callable[[F], F]:
    """Register a function composed of operations: a public function and, by default, a method.

    Parameters
    ----------
    *aliases
        Further names for the same function.
    method
        Whether it is a method of Tensor as well.
    name
        The public name, if it differs from that of the Python function.
    reported
        Whether observers are told of it around its parts; not worth the time for one that does little more than to pick
        an operation.
    """

    def register(function: F) -> F:
        label = (name or function.__name__).replace(".", "_")
        function = _entrance(function, label, reported)
        for public in (name or function.__name__, *aliases):
            composites[public] = function
            if method:
                add_method(public, function)
        return function

    return register


def _entrance(function: F, label: str, reported: bool) -> F:
    """What users call: with a parameter ``dim`` it takes ``axis`` too, and so on, and observers are told of it."""
    if hasattr(function, "op") or hasattr(function, "__wrapped__"):
        return function  # an operation, which does so anyway, or one that has been here before
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    renamed = {theirs: ours for theirs, ours in _NUMPYS_KEYWORDS if ours in known and theirs not in known}
    if not renamed and not reported:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and renamed:
            kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        if args and type(args[0]) is ndarray:
            args = _with_tensors(label, known, args, kwargs)
        observer = local.observer
        if observer is None or not reported:
            return function(*args, **kwargs)
        token = observer.region_begin(label, args, False)
        try:
            return function(*args, **kwargs)
        finally:
            observer.region_end(token)

    return call  # type: ignore[return-value]


def _with_tensors(label: str, known: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call that begin with an array: beside tensors arrays count as such, and alone they do not."""
    if not any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
        first = f"argument '{known[0]}' (position 1)" if known else "argument 1"
        raise TypeError(
            f"{label}(): {first} must be Tensor, not ndarray; make it a tensor first with retrograd.as_tensor"
        )
    return tuple(wrap(value) if type(value) is ndarray else value for value in args)


_NUMPYS_KEYWORDS = (("axis", "dim"), ("keepdims", "keepdim"), ("axes", "dims"))


def implements(*functions: Any) -> Callable[[F], F]:
    """Answer for NumPy's ``functions`` when they are called on Tensors, with NumPy's own parameters."""

    def register(function: F) -> F:
        for numpy_function in functions:
            numpy_functions[numpy_function] = function
        return function

    return register
