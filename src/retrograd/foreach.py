"""``torch._foreach_add_`` and its like, which optimizers and running means use: one operation on a list of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import linalg
from retrograd.core.tensor import Tensor

__all__ = ["foreach"]

_ELEMENTWISE = (
    *("abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh"),
    *("div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2"),
    *("maximum", "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh"),
    *("sqrt", "sub", "tan", "tanh", "trunc"),
)
_NAMES = {*_ELEMENTWISE, *(f"{name}_" for name in _ELEMENTWISE), "clone", "copy_", "max", "norm", "zero_"}


def foreach(name: str) -> Callable[..., Any] | None:
    """Return the function ``_foreach_...`` of a name, such as ``"add_"``; None if torch has none.

    It takes a list of tensors; where the operation takes a tensor or a number, one for all, or a list with one each.

    Examples
    --------
    >>> tensors = [rg.ones(2), rg.zeros(1)]
    >>> rg._foreach_add(tensors, 1), rg._foreach_mul_(tensors, [3.0, 4.0])
    ((tensor([2., 2.]), tensor([1.])), [tensor([3., 3.]), tensor([0.])])
    """
    if name not in _NAMES:
        return None

    def of_each(self: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        given = [_spread(value, len(self)) for value in args]
        named = {key: _spread(value, len(self)) for key, value in kwargs.items()}
        results = [
            _call(name, tensor, [values[k] for values in given], {key: values[k] for key, values in named.items()})
            for k, tensor in enumerate(self)
        ]
        return results if name.endswith("_") else tuple(results)

    of_each.__name__ = of_each.__qualname__ = f"_foreach_{name}"
    return of_each


def _spread(value: Any, count: int) -> Sequence[Any]:
    """The value for each of several tensors."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(f"lists must have the same number of tensors, got {count} and {len(value)}")
    return value


def _call(name: str, tensor: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    """An operation on one of the tensors, by the parameters of torch's function for lists."""
    operation = name.removesuffix("_")
    if operation == "norm":
        return linalg.vector_norm(tensor, *args, **kwargs)
    if operation in ("addcdiv", "addcmul") and len(args) == 3:
        args, kwargs = args[:2], {"value": args[2]}
    if operation in ("maximum", "minimum"):
        if not isinstance(args[0], Tensor):
            name = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
        elif name.endswith("_"):  # there are no such in-place methods
            return tensor.copy_(getattr(tensor, operation)(*args))
    result: Tensor = getattr(tensor, name)(*args, **kwargs)
    return result
