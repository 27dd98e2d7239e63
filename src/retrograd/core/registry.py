"""The one place where operations and methods are registered."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy import ndarray

from retrograd.core.errors import (
    explain,
    is_torchs,
    mention_numpy,
    no_derivative,
    no_keepdim,
    no_tensor,
    taken_for_tensor,
)
from retrograd.core.in_place import check_out, write_out
from retrograd.core.kinds import Kind, kind_of
from retrograd.core.parameter_aliases import OF_OPERANDS, synonyms
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, wrap
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.op import Op

F = TypeVar("F", bound=Callable[..., Any])

# Every differentiable or declared non-differentiable operation by name; the table of operation tests must cover it.
operations: dict[str, Op] = {}

# Functions composed of operations, by name; they need no rule of their own.
composites: dict[str, Callable[..., Any]] = {}

# The implementations on Tensors of NumPy's functions, by the function itself.
numpy_functions: dict[Any, Callable[..., Any]] = {}

# By a library's name, what registers implementations of more of its functions when one without is first called: few
# programs need them, and this package does not import some of the libraries.
late: dict[str, Callable[[ModuleType], object]] = {}


_OR_BOOL = " | bool"


def add_method(name: str, function: Any) -> None:
    """Make ``function``, or a property, a member of Tensor."""
    written = function
    while hasattr(written, "__wrapped__"):
        written = written.__wrapped__
    if isinstance(written, FunctionType) and (
        "<locals>" in written.__code__.co_qualname or written.__name__.startswith("_")  # made for this, by whatever
    ):
        found_in_tensor(function, name)
    setattr(Tensor, name, function)


def found_in_tensor(function: Any, name: str) -> None:
    """Record where a method is to be found that no module has under its name: pickle looks there."""
    function.__module__, function.__qualname__ = Tensor.__module__, f"Tensor.{name}"


class LateMethod:
    """A method of Tensor whose module is imported on first access, and then replaces this placeholder."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> Any:
        importlib.import_module(self.module)
        return getattr(owner if tensor is None else tensor, self.name)


def add_late_methods(module: str, *names: str) -> None:
    """Add placeholders for the methods that ``module`` registers under these names once it is imported."""
    for name in names:
        add_method(name, LateMethod(module, name))


def method(function: F) -> F:
    """Make a function whose first parameter is a tensor a method of Tensor too."""
    add_method(function.__name__, function)
    return function


def composite(
    *aliases: str, method: bool = True, name: str | None = None, reported: bool = True, out: bool = False
) -> Callable[[F], F]:
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
        Whether observers are notified of it around its parts; not worth the time for one that little more than picks
        an operation.
    out
        Whether it takes ``out=``, tensors that its results are written to.
    """

    def register(function: F) -> F:
        label = (name or function.__name__).replace(".", "_")
        function = _entrance(function, label, reported, method)
        if out:
            function = _writing(function, label)
        for public in (name or function.__name__, *aliases):
            composites[public] = function
            if method:
                add_method(public, function)
        return function

    return register


def _entrance(function: F, label: str, reported: bool, method: bool) -> F:
    """What users call: a function with a parameter ``dim`` also takes ``axis``, and so on, arrays become tensors, and
    observers are notified."""
    if hasattr(function, "op") or hasattr(function, "__wrapped__"):
        return function  # an operation, which does all that anyway, or an already wrapped function
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    renamed = synonyms(known, known[0] if code.co_argcount else None)
    if OF_OPERANDS.issuperset(renamed) and not reported and method:
        return function  # arrays get to the operation that it picks, which takes them
    # a bool for dimensions is given by position only: ``x.var(False)`` is short for ``unbiased=False``
    written = {name: str(function.__annotations__.get(name, "")) for name in known}
    found = {name: kind_of(annotation.removesuffix(_OR_BOOL)) for name, annotation in written.items()}
    kinds = {name: kind for name, kind in found.items() if kind is not None}
    # by position, up to the last argument that has one
    placed = [
        kinds[name]._replace(types=kinds[name].types.union((bool,) if written[name].endswith(_OR_BOOL) else ()))
        if name in kinds
        else None
        for name in known[: code.co_argcount]
    ]
    while placed and placed[-1] is None:
        placed.pop()
    # what follows the dimensions of a reduction: several dimensions one by one would get there
    after_dims = [known.index(name) for name in ("unbiased", "keepdim") if name in kinds and name in known]
    follows = min(after_dims, default=sys.maxsize)
    flags = {*kinds[known[follows]].types, np.bool_} if after_dims else set()  # classes of what is meant for it

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > follows and type(args[follows]) not in flags:
            raise no_keepdim(label, known[follows], follows, args[follows])
        if kwargs and renamed:
            kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        if holds_array(args) or (kwargs and holds_array(kwargs.values())):
            args, kwargs = _with_tensors(label, known, args, kwargs)
        for kind, value in zip(placed, args):  # noqa: B905 (stops with the shorter)
            if kind is not None and not kind.takes(value):
                given = [
                    _checked(label, kind, known[k], k, value)
                    for k, (kind, value) in enumerate(zip(placed, args))  # noqa: B905 (stops with the shorter)
                ]
                args = (*given, *args[len(given) :])
                break
        if kwargs and kinds:
            kwargs = {key: _checked(label, kinds.get(key), key, None, value) for key, value in kwargs.items()}
        observer = local.observer if reported else None
        token = None if observer is None else observer.region_begin(label, args, False)
        try:
            return function(*args, **kwargs)
        except np.exceptions.AxisError as error:
            raise explain(label, (*args, *kwargs.values()), error) from None
        except (AttributeError, TypeError) as error:
            culprit = next(filter(is_torchs, (*args, *kwargs.values())), taken_for_tensor(error))
            mistake = _mistake(label, known[: code.co_argcount], args, kwargs, culprit)
            if mistake is not None:
                raise mistake from None
            # if nothing was called yet, the arguments do not fit the signature
            if isinstance(error, TypeError) and error.__traceback__ and error.__traceback__.tb_next is None:
                mention_numpy(error, label)
            raise
        finally:
            if observer is not None:
                observer.region_end(token)

    return call  # type: ignore[return-value]


def _checked(label: str, kind: Kind | None, name: str, position: int | None, value: Any) -> Any:
    """An argument, with Python's number for NumPy's or for that in a tensor, if the parameter takes plain values."""
    if kind is None or kind.takes(value) or is_torchs(value):
        return value
    argument = f"argument '{name}'" if position is None else f"argument '{name}' (position {position + 1})"
    if not isinstance(value, Tensor):
        return kind.checked(label, argument, value)
    data = value._data
    if kind.tensors or type(data) is not ndarray:
        return value
    if value.requires_grad and kind.is_number:
        raise no_derivative(label, argument)
    return kind.in_tensor(label, argument, data)


def _writing(function: F, label: str) -> F:
    """A function that writes its results to ``out``, if that is given."""

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is None:
            return result
        several = isinstance(result, (tuple, list))
        results = result if several else (result,)
        check_out(label, out, any(item.requires_grad for item in results))
        return write_out(label, out, [item._data for item in results] if several else result._data)

    return call  # type: ignore[return-value]


def for_users(kernel: F) -> F:
    """A kernel as users call it: calls with arrays only, as rules make them, are refused."""
    op: Op = kernel.op  # type: ignore[attr-defined]

    @functools.wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Any:
        if holds_array(args) or (kwargs and holds_array(kwargs.values())):
            args, kwargs = _with_tensors(op.name, op.params, args, kwargs)
        return kernel(*args, **kwargs)

    if getattr(Tensor, op.name, None) is kernel:
        found_in_tensor(kernel, op.name)
    return call  # type: ignore[return-value]


def holds_array(values: Iterable[Any]) -> bool:
    """Whether there is an array among values, or among those in a list."""
    for value in values:
        kind = type(value)
        if kind is ndarray or ((kind is list or kind is tuple) and ndarray in map(type, value)):
            return True
    return False


def _with_tensors(
    label: str, known: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with arrays: together with tensors arrays count as tensors, but alone they do not."""
    values = [*args, *kwargs.values()]
    listed = [item for value in values if isinstance(value, (list, tuple)) for item in value]
    tensors = [value for value in (*values, *listed) if isinstance(value, Tensor)]
    if not tensors:
        array = next(value for value in (*values, *listed) if type(value) is ndarray)
        mistake = _mistake(label, known, args, kwargs, array)
        assert mistake is not None  # the array is among the arguments
        raise mistake
    on_device = next((tensor._data for tensor in tensors if type(tensor._data) is DeviceArray), None)
    return (
        tuple([_as_tensor(value, on_device) for value in args]),
        {key: _as_tensor(value, on_device) for key, value in kwargs.items()},
    )


def _as_tensor(value: Any, on_device: Any) -> Any:
    """Arrays converted to tensors, also in lists, on the GPU if there is one."""
    if type(value) is list or type(value) is tuple:
        return type(value)([_as_tensor(item, on_device) for item in value])
    if type(value) is not ndarray:
        return value
    return wrap(value if on_device is None else np.asarray(value, like=on_device))


def _mistake(
    label: str, known: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any], culprit: Any
) -> TypeError | None:
    """The error about what was given for a tensor; None if it is neither an argument nor in a list argument.

    Its ``obj`` is that value, as in an AttributeError, so that the function that the user called can be named instead.
    """
    if isinstance(culprit, Tensor):
        return None
    given = [*zip([*known, *[""] * len(args)], args, strict=False), *kwargs.items()]
    for place, (name, value) in enumerate(given):
        listed = isinstance(value, (list, tuple)) and any(item is culprit for item in value)
        if not (value is culprit or listed):
            continue
        position = f" (position {place + 1})" if place < len(args) else ""
        argument = f"argument '{name}'{position}" if name else f"argument {place + 1}"
        mistake = no_tensor(label, argument, culprit, listed=listed)
        mistake.obj = culprit  # type: ignore[attr-defined]
        return mistake
    return None


def implements(*functions: Any) -> Callable[[F], F]:
    """Register an implementation of NumPy's ``functions`` on Tensors, with NumPy's own parameters."""

    def register(function: F) -> F:
        for numpy_function in functions:
            numpy_functions[numpy_function] = function
        return function

    return register
