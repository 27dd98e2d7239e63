"""SciPy's optimizers with exact derivatives.

The functions take tensors, are written with NumPy's or retrograd's functions, and need no derivatives of their own:
gradients, Hessians and Jacobians that a method asks for are those of :mod:`retrograd.func`. SciPy gets arrays.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd import creation, dtypes
from retrograd.autograd import no_grad
from retrograd.core.tensor import Tensor
from retrograd.func import grad, hessian, jacfwd, jacrev, value_and_grad, vjp
from retrograd.ops.joining import stack
from retrograd.tree import flatten, unflatten

__all__ = ["curve_fit", "least_squares", "minimize", "root"]

# SciPy's methods, by the derivatives that they ask for beside the gradient; all others ask for no more than that.
_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_WITH_HESSIAN = ("dogleg", "trust-exact")
_WITH_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_WITH_JACOBIAN = ("hybr", "lm")  # of those of `root`


def minimize(fun: Callable[..., Any], x0: Any, args: Any = (), method: Any = None, **options: Any) -> Any:
    """Minimize a function of one or more variables by :func:`scipy.optimize.minimize`.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` returns one number. ``x`` has the shape of ``x0``, and is nested like it: tensors in the dtype
        and on the device of those in ``x0``, and of dtype float64 in place of arrays and numbers.
    x0
        Where to begin: an array, a tensor or numbers, or a dictionary or another nesting of arrays and tensors.
    args
        What else ``fun`` is given.
    method
        One of SciPy's, or None for its choice. Gradients are given to all that take them; Hessians to ``"dogleg"`` and
        ``"trust-exact"``; products of the Hessian with vectors, which are never more than two passes, to
        ``"Newton-CG"``, ``"trust-ncg"``, ``"trust-krylov"`` and ``"trust-constr"``.
    **options
        SciPy's further parameters: ``bounds``, ``constraints``, ``tol``, ``callback``, ``options``. Bounds are those of
        the numbers in ``x0``, in their order. Constraints are functions of ``x`` as well, and get their Jacobians:
        dictionaries with ``"type"`` and ``"fun"``, and ``NonlinearConstraint``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Its ``x`` is like ``x0``: arrays in place of arrays and numbers, tensors in place of tensors.

    Raises
    ------
    TypeError
        For derivatives among the options, which are made here.
    ValueError
        If ``fun`` returns more than one number.

    Examples
    --------
    >>> found = rg.optimize.minimize(lambda x: ((x - rg.tensor([1.0, 2.0])) ** 2).sum(), [0.0, 0.0])
    >>> found.x.round(6)
    array([1., 2.])
    """
    _refuse_derivatives("minimize", options)
    point = _Point(x0)
    objective = point.function(fun, _arguments(args), _one_number)
    options |= _constraints(point, options)
    name = method.lower() if isinstance(method, str) else ""
    if name in _WITHOUT_GRADIENT:
        return point.result(_scipy().minimize(_values(objective), point.start, method=method, **options))
    if name in _WITH_HESSIAN:
        options["hess"] = _arrays(hessian(objective))
    elif name in _WITH_PRODUCTS:
        options["hessp"] = _products(objective)
    return point.result(_scipy().minimize(_both(objective), point.start, method=method, jac=True, **options))


def least_squares(fun: Callable[..., Any], x0: Any, args: Any = (), **options: Any) -> Any:
    """Minimize the sum of the squares of residuals by :func:`scipy.optimize.least_squares`.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` returns the residuals, in any shape.
    x0, args
        As for :func:`minimize`.
    **options
        SciPy's further parameters: ``kwargs`` for ``fun``, ``bounds``, ``method``, ``loss``, ``f_scale`` and so on.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Its ``x`` is like ``x0``.

    Examples
    --------
    >>> t = np.linspace(0, 1, 9)
    >>> found = rg.optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * t) - 2 * np.exp(-3 * t), [1.0, 1.0])
    >>> found.x.round(6)
    array([2., 3.])
    """
    _refuse_derivatives("least_squares", options)
    point = _Point(x0)
    fun = functools.partial(fun, **options.pop("kwargs", None) or {})
    residuals = point.function(fun, _arguments(args), _flat)
    return point.result(_scipy().least_squares(_values(residuals), point.start, jac=_jacobian(residuals), **options))


def root(fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """Find where functions are zero by :func:`scipy.optimize.root`.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` returns as many numbers as there are in ``x0``, in any shape.
    x0, args
        As for :func:`minimize`.
    method
        One of SciPy's; the Jacobian is given to ``"hybr"`` and ``"lm"``, and the others ask for none.
    **options
        SciPy's further parameters: ``tol``, ``callback``, ``options``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Its ``x`` is like ``x0``.

    Examples
    --------
    >>> rg.optimize.root(lambda x: np.cos(x) - x, [1.0]).x.round(6)
    array([0.739085])
    """
    _refuse_derivatives("root", options)
    point = _Point(x0)
    functions = point.function(fun, _arguments(args), _flat)
    if method in _WITH_JACOBIAN:
        options["jac"] = _jacobian(functions)
    return point.result(_scipy().root(_values(functions), point.start, method=method, **options))


def curve_fit(f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, **options: Any) -> Any:
    """Fit a function to data by :func:`scipy.optimize.curve_fit`.

    Parameters
    ----------
    f
        ``f(xdata, *params)`` returns what ``ydata`` should be; each parameter is a tensor of one number.
    xdata, ydata
        The data, as SciPy takes them.
    p0
        Where to begin; ones if it is None.
    **options
        SciPy's further parameters: ``sigma``, ``absolute_sigma``, ``bounds``, ``method`` and so on.

    Returns
    -------
    popt, pcov : ndarray
        The parameters and their covariance, and more with ``full_output=True``.

    Examples
    --------
    >>> t = np.linspace(0, 1, 9)
    >>> params, covariance = rg.optimize.curve_fit(lambda t, a, b: a * np.exp(-b * t), t, 2 * np.exp(-3 * t))
    >>> params.round(6)
    array([2., 3.])
    """
    _refuse_derivatives("curve_fit", options)

    def fitted(params: Tensor) -> Tensor:
        return _flat(f(xdata, *params.unbind()), "f")

    @functools.wraps(f)  # SciPy counts its parameters
    def values(xdata: Any, *params: float) -> np.ndarray:
        return _values(fitted)(np.array(params))

    def jacobian(xdata: Any, *params: float) -> np.ndarray:
        return _arrays(jacfwd(fitted))(np.array(params))

    return _scipy().curve_fit(values, xdata, ydata, p0, jac=jacobian, **options)


class _Point:
    """How a point of a search is nested, which for SciPy is a vector.

    Attributes
    ----------
    start
        Where the search begins, as a vector.
    """

    def __init__(self, x0: Any) -> None:
        self._given, self._structure = flatten(x0 if _is_nested(x0) else np.asarray(x0))
        arrays = [np.asarray(_plain(each)) for each in self._given]
        wrong = next((each for each in arrays if each.dtype.kind not in "biuf"), None)
        if wrong is not None:
            raise TypeError(f"x0 must be real, but got {wrong.dtype}")
        self._shapes = [each.shape for each in arrays]
        self._ends = np.cumsum([each.size for each in arrays]).tolist()
        self.start = np.concatenate([each.astype(float).ravel() for each in arrays])

    def function(self, fun: Callable[..., Any], args: tuple[Any, ...], ending: Callable[..., Tensor]) -> Any:
        """``fun`` as a function of a vector; ``ending`` makes of its result what SciPy wants, or says what is wrong."""

        def of_vector(vector: Tensor) -> Tensor:
            return ending(fun(self._nested(vector), *args), "fun")

        return of_vector

    def _nested(self, vector: Tensor) -> Any:
        parts = []
        for given, begin, end, shape in zip(self._given, [0, *self._ends], self._ends, self._shapes, strict=False):
            part = vector[begin:end].reshape(shape)
            if isinstance(given, Tensor):
                part = part.to(given.device, given.dtype if given.is_floating_point() else None)
            parts.append(part)
        return unflatten(self._structure, parts)

    def result(self, result: Any) -> Any:
        """SciPy's result, with the point as it was given."""
        with no_grad():
            nested = flatten(self._nested(_vector(result.x)))[0]
        leaves = [
            each if isinstance(given, Tensor) else each.numpy() for given, each in zip(self._given, nested, strict=True)
        ]
        result.x = unflatten(self._structure, leaves)
        return result


def _is_nested(x0: Any) -> bool:
    """Whether it is tensors or arrays, or these in containers; numbers in a list are an array."""
    return isinstance(x0, dict) or any(isinstance(each, (Tensor, np.ndarray)) for each in flatten(x0)[0])


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _arguments(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _refuse_derivatives(name: str, options: dict[str, Any]) -> None:
    given = [each for each in ("jac", "hess", "hessp") if options.get(each) is not None]
    if given:
        raise TypeError(
            f"{name}() computes the derivatives of the function itself; to pass your own {given[0]}=, call "
            f"scipy.optimize.{name}"
        )


def _one_number(result: Any, name: str) -> Tensor:
    result = _tensor(result, name)
    if result.numel() != 1:
        raise ValueError(
            f"{name} returned a tensor of shape {tuple(result.shape)}, but only a single number can be minimized: take "
            "its sum or mean, or use least_squares() for its sum of squares"
        )
    return result.reshape(())


def _flat(result: Any, name: str) -> Tensor:
    if isinstance(result, (list, tuple)):  # a list of numbers, as equations are often written
        return stack([_tensor(each, name).reshape(()) for each in result])
    return _tensor(result, name).reshape(-1)


def _tensor(result: Any, name: str) -> Tensor:
    if not isinstance(result, Tensor):
        raise TypeError(
            f"{name} returned {type(result).__name__}, not a tensor, so there is no derivative: compute it from x with "
            "functions of NumPy or retrograd, without float(), .item() or the math module"
        )
    return result


def _vector(array: np.ndarray) -> Tensor:
    """A copy, because SciPy writes to its vectors; in float64, because it may pass integers."""
    return creation.tensor(array, dtype=dtypes.float64)


def _values(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A function of a vector, in arrays."""

    def values(vector: np.ndarray) -> Any:
        with no_grad():
            return np.array(_plain(function(_vector(vector))), float)

    return values


def _both(objective: Callable[[Tensor], Tensor]) -> Callable[..., tuple[float, np.ndarray]]:
    """Value and gradient of one pass."""
    transformed = value_and_grad(objective)

    def both(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = transformed(_vector(vector))
        return value.item(), np.array(_plain(gradient))  # SciPy may write to it

    return both


def _arrays(function: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda vector: np.array(_plain(function(_vector(vector))))


def _products(objective: Callable[[Tensor], Tensor]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Products of the Hessian, which is symmetric, with vectors: reverse over reverse takes less than forward does."""
    gradient = grad(objective)

    def products(vector: np.ndarray, p: np.ndarray) -> np.ndarray:
        _, pull = vjp(gradient, _vector(vector))
        return np.array(_plain(pull(_vector(p))[0]))

    return products


def _jacobian(function: Callable[[Tensor], Tensor]) -> Callable[..., np.ndarray]:
    """The Jacobian by columns or by rows, whichever are fewer, as the first result shows."""
    chosen: list[Callable[[np.ndarray], np.ndarray]] = []

    def jacobian(vector: np.ndarray) -> np.ndarray:
        if not chosen:
            by_columns = vector.size <= _values(function)(vector).size
            chosen.append(_arrays(jacfwd(function) if by_columns else jacrev(function)))
        return chosen[0](vector)

    return jacobian


def _constraints(point: _Point, options: dict[str, Any]) -> dict[str, Any]:
    given = options.get("constraints") or ()
    several = given if isinstance(given, (list, tuple)) else [given]
    return {"constraints": [_constraint(point, each) for each in several]} if several else {}


def _constraint(point: _Point, given: Any) -> Any:
    """A constraint with its Jacobian, if it is a function."""
    if isinstance(given, dict):
        _refuse_derivatives("a constraint of minimize", given)
        functions = point.function(given["fun"], _arguments(given.get("args", ())), _flat)
        return {"type": given["type"], "fun": _values(functions), "jac": _jacobian(functions)}
    nonlinear = _scipy().NonlinearConstraint
    if not isinstance(given, nonlinear):
        return given
    functions = point.function(given.fun, (), _flat)
    kept = {"hess": given.hess, "keep_feasible": given.keep_feasible}
    return nonlinear(_values(functions), given.lb, given.ub, jac=_jacobian(functions), **kept)


def _scipy() -> Any:
    try:
        return importlib.import_module("scipy.optimize")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'retrograd.optimize calls SciPy\'s optimizers, and SciPy is not installed: pip install "retrograd[scipy]"',
            name="scipy",
        ) from None
