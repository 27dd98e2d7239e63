"""SciPy's special functions: imported when one is first needed, and differentiable on Tensors.

Rules use them as they use NumPy's, through :data:`sc`: on arrays ``sc.psi(x)`` is SciPy's; on Tensors SciPy's ufunc
asks ``Tensor.__array_ufunc__``, which finds the operation that answers for it here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from retrograd.core.op import elementwise, without_flags
from retrograd.core.registry import late, numpy_functions
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, wrap
from retrograd.gpu import computed_on_cpu
from retrograd.ops._rules import not_implemented


@functools.cache
def installed(name: str) -> ModuleType | None:
    """The module of SciPy's of this name; None where SciPy is not installed, and there is a slower way."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


class _Special:
    """``scipy.special``, imported at the first use of one of its functions."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            special = importlib.import_module("scipy.special")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f'this needs scipy.special.{name}, and SciPy is not installed: pip install "retrograd[scipy]"',
                name="scipy",
            ) from None
        function = getattr(special, name)
        ufunc = inspect.unwrap(function)  # under SCIPY_ARRAY_API, the module has functions around its ufuncs
        function = ufunc if isinstance(ufunc, np.ufunc) else computed_on_cpu(function)  # these are not dispatched
        setattr(self, name, function)  # cached, so that the next lookup does not get here
        return function


sc = _Special()

scipy_elementwise = without_flags(elementwise)

# The operations that implement SciPy's ufuncs on Tensors, by name.
answers: dict[str, Callable[..., Any]] = {}


def answers_for(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an operation implement the functions of ``scipy.special`` with these names on Tensors."""

    def register(operation: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            answers[name] = operation
        return operation

    return register


def narrowed(result: Any, input: Any) -> Any:
    """Cast a floating result to the precision of a floating input: not all of SciPy's ufuncs have float32 loops."""
    same = result.dtype == input.dtype or result.dtype.kind != input.dtype.kind
    return result if same else result.astype(input.dtype)


def scipy_ufunc(
    name: str, *, compute: Callable[..., Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An elementwise operation that is the ufunc ``scipy.special.<name>``; the body is only the docstring.

    ``compute`` calls the ufunc where more is to be done than to pass on the operands.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*operands: Any) -> Any:
            result = getattr(sc, name)(*operands) if compute is None else compute(*operands)
            if type(result) is tuple:
                return tuple(narrowed(part, operands[0]) for part in result)
            return narrowed(result, operands[0])

        functools.update_wrapper(forward, function)
        return answers_for(name)(scipy_elementwise(int_to_float=True, heavy=True, **options)(forward))

    return register


# In torch.special, but neither at torch's top level nor among its methods.
special_ufunc = functools.partial(scipy_ufunc, namespace="special", method=False)


def hidden_ufunc(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A ufunc that torch does not have, reached through SciPy's own name.

    A parameter without a rule has no derivative in closed form: asking for one raises.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        missing = {parameter: not_implemented(name, parameter) for parameter in inspect.signature(function).parameters}
        return scipy_ufunc(name, namespace="scipy", method=False, public=False, **(missing | options))(function)

    return register


def of_order(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A hidden ufunc of real parameters, promoted together with the last argument, which may be complex."""

    def compute(*operands: Any) -> Any:
        *parameters, argument = operands
        return getattr(sc, name)(*map(np.real, parameters), argument)

    return hidden_ufunc(name, compute=compute, **options)


def _without_derivative(ufunc: np.ufunc) -> Callable[..., Any]:
    """The implementation of a ufunc that has no rule: its values, if no gradient is required."""

    def answer(*operands: Any, **kwargs: Any) -> Any:
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
        if local.grad_enabled and any(tensor.requires_grad for tensor in tensors):
            raise TypeError(
                f"scipy.special.{ufunc.__name__} has no derivative rule for Tensors: "
                "detach its operands first, with x.detach(), if no gradient is needed"
            )
        result = ufunc(*(operand._data if isinstance(operand, Tensor) else operand for operand in operands), **kwargs)
        if ufunc.nout == 1:
            return wrap(np.asarray(result))
        return tuple(wrap(np.asarray(item)) for item in result)

    return answer


def _register(special: ModuleType) -> None:
    """Register an implementation of every ufunc of ``scipy.special``, once SciPy is imported."""
    for family in ("scipy_bessel", "scipy_polynomials", "scipy_special"):
        importlib.import_module(f"retrograd.ops.{family}")  # those that nobody can reach without SciPy
    found = {name: value for name, value in vars(special._ufuncs).items() if isinstance(value, np.ufunc)}
    found |= {name: value for name, value in vars(special).items() if isinstance(value, np.ufunc)}
    for name, ufunc in found.items():
        twin = numpy_functions.get(_NUMPY_TWINS.get(name))
        answer = answers.get(name) or answers.get(ufunc.__name__) or twin
        numpy_functions[ufunc] = answer or _without_derivative(ufunc)


# SciPy has ufuncs of its own for functions that NumPy has, too.
_NUMPY_TWINS = {"cbrt": np.cbrt, "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "round": np.rint}

late["scipy.special"] = _register
