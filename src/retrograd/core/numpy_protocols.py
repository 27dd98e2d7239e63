"""NumPy's functions on Tensors: NEP 13 (ufuncs) and NEP 18 (functions).

A function is differentiable here, or declared not to be, or refused with the name of what to use instead. Nothing falls
back to object arrays and nothing silently leaves the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from retrograd.array_methods import outer
from retrograd.batching import BatchedArray
from retrograd.core.out import into, writable
from retrograd.core.registry import add_method, late, numpy_functions
from retrograd.core.tensor import Tensor

# Why a function, or every function of a module, is refused, and what to use instead.
refused: dict[Any, str] = {}


def refuse(reason: str, *functions: Any) -> None:
    """Declare that ``functions`` (or, given by name, modules) do not take Tensors, and say what to use instead."""
    for function in functions:
        refused[function] = reason


def reason_for_refusing(function: Any) -> str | None:
    """Why ``function`` does not take Tensors, if that was declared."""
    _register_late()
    return refused.get(function) or refused.get(getattr(function, "__module__", None))


# --- ufuncs -----------------------------------------------------------------------------------------------------------


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Implement ``np.exp(tensor)``, ``np.add.reduce(tensor)`` and the like."""
    if kwargs:
        _read_dtype(kwargs)
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(out, ufunc, method, inputs, kwargs)
    if method == "__call__":
        function = _find(ufunc)
        if function is not None:
            for operand in inputs:
                if type(operand) is list or type(operand) is tuple:
                    inputs = lists_as_arrays(*inputs)
                    break
            return _call(ufunc, function, inputs, kwargs) if kwargs else function(*inputs)
    elif method == "at" and isinstance(inputs[0], np.ndarray):
        if not any(map(_loses_derivative, inputs)):
            return ufunc.at(*(np.asarray(each) if isinstance(each, Tensor) else each for each in inputs))
        if _find((ufunc, "at")) is not None:
            raise TypeError(
                f"numpy.{ufunc.__name__}.at: an ndarray cannot hold the history of values added to it; add to a "
                "tensor, numpy.zeros_like(x, shape=...)"
            )
    elif method == "outer":
        return outer(ufunc, *inputs, **kwargs)
    else:
        function = _find((ufunc, method))
        if function is not None:
            return function(*inputs, **kwargs)
    if method in _METHODS:
        raise TypeError(f"numpy.{ufunc.__name__}.{method} does not take Tensors: {_METHODS[method]}")
    raise _refusal(ufunc, f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))


def _read_dtype(kwargs: dict[str, Any]) -> None:
    """Read ``dtype="f8"`` as NumPy does; to the functions of this package a string is torch's name of a dtype."""
    if isinstance(kwargs.get("dtype"), str):
        kwargs["dtype"] = np.dtype(kwargs["dtype"])


def _loses_derivative(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.loses_derivative()


_METHODS = {
    "at": "use x.index_put_(indices, values, accumulate=True) or x.scatter_reduce_(dim, index, values, reduce)",
    "reduceat": "reduce the slices x[i:j] one by one and join the results with numpy.stack",
}
_MISSING = object()
_UFUNC_DEFAULTS = {"where": True, "subok": True, "casting": "same_kind", "order": "K", "dtype": None, "signature": None}


def _call(ufunc: Any, function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the implementation of a ufunc with the keywords that ufuncs take."""
    kwargs = {key: value for key, value in kwargs.items() if value is not _UFUNC_DEFAULTS.get(key, _MISSING)}
    if "where" in kwargs:
        raise TypeError(
            f"numpy.{ufunc.__name__}: where= without out= leaves elements of the result undefined; pass an out= "
            "Tensor, or use numpy.where"
        )
    for key in ("order", "signature", "axes"):
        if key in kwargs:
            raise TypeError(f"numpy.{ufunc.__name__}: {key}= is not supported for Tensors; leave it out")
    kwargs.pop("subok", None)
    casting = kwargs.pop("casting", "same_kind")
    dtype = kwargs.pop("dtype", None)
    if dtype is None:
        return function(*inputs, **kwargs)
    wanted = np.dtype(dtype)
    if wanted.kind != "b" and all(np.can_cast(_dtype_of(x, wanted), wanted, casting) for x in inputs):
        # it is the dtype to compute in, too
        inputs = tuple([x.astype(wanted) if isinstance(x, (Tensor, np.ndarray)) else x for x in inputs])
    result = function(*inputs, **kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    for part in parts:
        if not np.can_cast(_dtype_of(part, wanted), wanted, casting):
            raise TypeError(
                f"numpy.{ufunc.__name__}: the result has dtype {part.dtype} and cannot be converted to dtype={wanted} "
                f"by the rule casting='{casting}'; convert it, with .astype(numpy.{wanted})"
            )
    return tuple([part.to(wanted) for part in parts]) if isinstance(result, tuple) else result.to(wanted)


def _dtype_of(operand: Any, otherwise: np.dtype) -> np.dtype:
    """The dtype of a Tensor or an array; numbers have none of their own."""
    if isinstance(operand, Tensor):
        return operand._data.dtype
    return operand.dtype if isinstance(operand, np.ndarray) else otherwise


def lists_as_arrays(*operands: Any) -> tuple[Any, ...]:
    """The operands with lists converted to arrays, of the dtype of the other Tensors if the elements fit into it."""
    if not any(isinstance(operand, (list, tuple)) for operand in operands):
        return operands
    dtype = next((operand._data.dtype for operand in operands if isinstance(operand, Tensor)), None)

    def convert(operand: Any) -> Any:
        if not isinstance(operand, (list, tuple)):
            return operand
        array = np.asarray(operand)
        return array if dtype is None or not np.can_cast(array.dtype, dtype, "same_kind") else array.astype(dtype)

    return tuple(map(convert, operands))


def _find(function: Any) -> Callable[..., Any] | None:
    """The implementation of a function or of a ufunc's method, or None."""
    answer = numpy_functions.get(function)
    if answer is None:
        _register_late()
        answer = numpy_functions.get(function)
    return answer


def _register_late() -> None:
    """Register the deferred implementations for those libraries that are imported by now."""
    for name, register_answers in list(late.items()):
        if name in sys.modules:
            register_answers(sys.modules[name])
            late.pop(name, None)


# --- out= -------------------------------------------------------------------------------------------------------------


def _into(out: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = f"numpy.{ufunc.__name__}"
    if method == "__call__" and kwargs.get("where", True) is not True:
        return _into_where(name, ufunc, inputs, out[0], **kwargs)
    return _written(name, out, getattr(ufunc, method)(*inputs, **kwargs), kwargs.get("casting", "same_kind"))


def _into_where(name: str, ufunc: Any, inputs: tuple[Any, ...], target: Any, where: Any, **kwargs: Any) -> Any:
    """Compute the elements that ``where`` selects, and no others: neither a NaN nor its gradient comes from those."""
    casting = kwargs.get("casting", "same_kind")
    mask = np.broadcast_to(where, target.shape)
    if not mask.ndim or type(getattr(mask, "_data", mask)) is BatchedArray:  # unselected elements cannot be left out
        tame = [np.where(mask, x, 0.5 if x.dtype.kind in "fc" else 1) if hasattr(x, "dtype") else x for x in inputs]
        return into(target, np.where(mask, ufunc(*tame, **kwargs), target), name, casting)
    chosen = [np.broadcast_to(x, target.shape)[mask] if np.ndim(x) else x for x in inputs]
    result = writable(target, ufunc(*chosen, **kwargs), name, casting)
    target[mask] = result if isinstance(target, np.ndarray) else result.to(target.dtype)
    return target


def _written(name: str, out: Any, result: Any, casting: str = "same_kind") -> Any:
    if not isinstance(result, tuple):
        return into(out[0] if isinstance(out, tuple) else out, result, name, casting)
    return tuple(into(target, each, name, casting) for target, each in zip(out, result, strict=True))


# --- functions --------------------------------------------------------------------------------------------------------


def answer_for(function: Any) -> Callable[..., Any] | None:
    """The implementation of one of NumPy's functions; those with ``like=`` have a twin of the same name."""
    answer = _find(function)
    if answer is None and function.__module__ == "numpy":
        answer = numpy_functions.get(getattr(np, function.__name__, None))
    return answer


def array_function(self: Tensor, function: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
    """Implement ``np.sum(tensor)`` and the like."""
    answer = answer_for(function)
    if kwargs:
        _read_dtype(kwargs)
    if answer is not None and kwargs.get("out") is None:
        return answer(*args, **kwargs)
    name = f"{function.__module__}.{function.__name__}"
    if answer is None:
        raise _refusal(function, name)
    return _written(name, kwargs["out"], answer(*args, **{key: value for key, value in kwargs.items() if key != "out"}))


def _refusal(function: Any, name: str) -> TypeError:
    reason = reason_for_refusing(function)
    if reason is None:
        reason = "detach first, with x.detach().numpy(), if no gradient is needed"
    return TypeError(f"{name} has no derivative rule for Tensors: {reason}")


add_method("__array_ufunc__", array_ufunc)
add_method("__array_function__", array_function)
