"""``rg.optimize`` compared with SciPy's optimizers and SciPy's own derivatives of the Rosenbrock function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import retrograd as rg

X0 = np.array([1.2, 0.9, 1.1])
T = np.linspace(0.0, 1.0, 9)

WITHOUT_GRADIENT = ["Nelder-Mead", "Powell", "COBYLA", "COBYQA"]
WITH_GRADIENT = [None, "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP"]
WITH_HESSIAN = ["dogleg", "trust-exact"]
WITH_PRODUCTS = ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"]


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def exact(method: str | None) -> dict[str, Any]:
    """Return SciPy's derivatives that a method accepts."""
    if method in WITHOUT_GRADIENT:
        return {}
    more = {"hess": optimize.rosen_hess} if method in WITH_HESSIAN else {}
    more |= {"hessp": optimize.rosen_hess_prod} if method in WITH_PRODUCTS else {}
    return {"jac": optimize.rosen_der, **more}


@pytest.mark.parametrize("method", WITHOUT_GRADIENT + WITH_GRADIENT + WITH_HESSIAN + WITH_PRODUCTS)
def test_minimize_takes_the_same_steps_as_with_exact_derivatives(method: str | None) -> None:
    x0 = np.full(3, 0.9) if method == "dogleg" else X0  # the Hessian is positive definite there
    ours = rg.optimize.minimize(rosenbrock, x0, method=method)
    theirs = optimize.minimize(optimize.rosen, x0, method=method, **exact(method))
    assert type(ours.x) is np.ndarray
    assert (ours.nfev, ours.nit if "nit" in ours else 0) == (theirs.nfev, theirs.nit if "nit" in theirs else 0)
    assert_allclose(ours.x, theirs.x, rtol=1e-6)
    assert isinstance(ours.fun, float)


def test_minimize_passes_arguments_and_options() -> None:
    def shifted(x: Any, by: float, power: int) -> Any:
        return ((x - by) ** power).sum()

    found = rg.optimize.minimize(shifted, [0.0, 0.0], args=(3.0, 2), bounds=[(None, 1.0), (None, None)])
    assert_allclose(found.x, [1.0, 3.0])
    assert_allclose(rg.optimize.minimize(lambda x, by: (x - by) ** 2, 0.0, args=3.0).x, 3.0)
    seen: list[Any] = []
    rg.optimize.minimize(rosenbrock, X0, method="BFGS", callback=seen.append, options={"maxiter": 2})
    assert len(seen) == 2


def test_minimize_over_nested_containers() -> None:
    """The result has the structure, shapes, dtypes and kinds of the starting point."""
    start = {"w": rg.ones(3), "b": [np.zeros((2, 2)), rg.tensor(1)]}

    def loss(p: Any) -> Any:
        assert p["w"].dtype is rg.float32
        assert isinstance(p["b"][0], rg.Tensor)
        return (p["w"] @ p["w"] - 2) ** 2 + ((p["b"][0] - 3) ** 2).sum() + (p["b"][1] + 1) ** 2

    found = rg.optimize.minimize(loss, start).x
    assert found["w"].dtype is rg.float32
    assert_allclose(found["w"].numpy(), np.sqrt(np.full(3, 2 / 3)), rtol=1e-4)
    assert type(found["b"][0]) is np.ndarray
    assert_allclose(found["b"][0], np.full((2, 2), 3.0), rtol=1e-5)
    assert found["b"][1].item() == pytest.approx(-1.0, abs=1e-5)
    assert start["w"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("x0", [[3.0, 2], (np.float64(3.0), np.int64(2)), [3, np.float32(2)], np.array([3, 2])])
def test_minimize_takes_a_list_of_numbers_as_one_array(x0: Any) -> None:
    """The list may contain NumPy scalars, as in ``[y.max(), 1.0]``."""
    found = rg.optimize.minimize(lambda x: np.sum((x - 1) ** 2), x0)
    assert type(found.x) is np.ndarray
    assert_allclose(found.x, [1.0, 1.0])


def test_minimize_accepts_a_starting_point_that_requires_grad() -> None:
    x0 = rg.zeros(2, requires_grad=True)
    found = rg.optimize.minimize(lambda x: ((x - 1) ** 2).sum(), x0).x
    assert isinstance(found, rg.Tensor)
    assert not found.requires_grad
    assert x0.grad is None


def objective(x: Any) -> Any:
    return (x[0] - 1) ** 2 + (x[1] - 2.5) ** 2


INEQUALITIES = (
    lambda x: x[0] - 2 * x[1] + 2,
    lambda x: -x[0] - 2 * x[1] + 6,
    lambda x: -x[0] + 2 * x[1] + 2,
)


def test_minimize_with_constraints_as_dictionaries() -> None:
    """This is the example in SciPy's documentation of ``minimize``."""
    constraints = [{"type": "ineq", "fun": each} for each in INEQUALITIES]
    bounds = ((0, None), (0, None))
    found = rg.optimize.minimize(objective, (2, 0), method="SLSQP", bounds=bounds, constraints=constraints)
    assert_allclose(found.x, [1.4, 1.7])
    one = {"type": "eq", "fun": lambda x, total: x.sum() - total, "args": (1.0,)}
    assert_allclose(rg.optimize.minimize(lambda x: x @ x, np.ones(4), constraints=one).x, np.full(4, 0.25))


@pytest.mark.parametrize("method", ["trust-constr", "SLSQP", "COBYQA"])
def test_minimize_with_constraint_objects(method: str) -> None:
    constraints = [
        optimize.NonlinearConstraint(lambda x: x[0] * x[1], 1.0, np.inf),
        optimize.LinearConstraint([[1.0, -1.0]], 0.0, 0.0),
    ]
    found = rg.optimize.minimize(lambda x: x @ x, [2.0, 1.5], method=method, constraints=constraints)
    assert_allclose(found.x, [1.0, 1.0], atol=1e-3)


def decay(p: Any) -> Any:
    return p[0] * np.exp(-p[1] * T) - 2 * np.exp(-3 * T)


def jacobian_of_decay(p: np.ndarray) -> np.ndarray:
    return np.stack([np.exp(-p[1] * T), -p[0] * T * np.exp(-p[1] * T)], axis=1)


@pytest.mark.parametrize("options", [{}, {"method": "lm"}, {"bounds": (0, [1.5, 9])}, {"loss": "soft_l1"}])
def test_least_squares(options: dict[str, Any]) -> None:
    ours = rg.optimize.least_squares(decay, [1.0, 1.0], **options)
    theirs = optimize.least_squares(decay, [1.0, 1.0], jac=jacobian_of_decay, **options)
    assert ours.nfev == theirs.nfev
    assert_allclose(ours.x, theirs.x)
    assert_allclose(ours.jac, theirs.jac)


def test_least_squares_with_more_parameters_than_residuals() -> None:
    def residuals(x: Any, by: float, factor: float = 1.0) -> Any:
        return (x.reshape(2, 3).sum(1) - by) * factor

    found = rg.optimize.least_squares(residuals, np.zeros(6), args=(3.0,), kwargs={"factor": 2.0})
    assert_allclose(found.x, np.ones(6))
    assert_allclose(found.jac[0], [2, 2, 2, 0, 0, 0])


def equations(x: Any) -> list[Any]:
    return [x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1.0, 0.5 * (x[1] - x[0]) ** 3 + x[1]]


@pytest.mark.parametrize("method", ["hybr", "lm", "df-sane"])
def test_root_of_a_system_of_equations(method: str) -> None:
    """This is the example in SciPy's documentation of ``root``."""
    found = rg.optimize.root(equations, [0.0, 0.0], method=method)
    assert_allclose(found.x, [0.8411639, 0.1588361], rtol=1e-5)
    assert ("njev" in found) == (method != "df-sane")


def test_curve_fit() -> None:
    noise = np.random.default_rng(0).normal(scale=0.1, size=T.size)
    sigma = np.linspace(0.1, 0.2, T.size)

    def model(t: Any, a: Any, b: Any = None) -> Any:
        return a * np.exp(-b * t)

    for options in ({}, {"p0": [2.0, 2.0], "sigma": sigma}, {"bounds": (0, [1.5, 9.0])}):
        ours = rg.optimize.curve_fit(model, T, 2 * np.exp(-3 * T) + noise, **options)
        theirs = optimize.curve_fit(model, T, 2 * np.exp(-3 * T) + noise, **options)
        assert_allclose(ours[0], theirs[0], rtol=1e-5)
        assert_allclose(ours[1], theirs[1], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rg.optimize.minimize(lambda x: x, [1.0, 2.0]), ValueError, r"fun returned a tensor of shape \(2,\)"),
        (lambda: rg.optimize.minimize(lambda x: 3.0, [1.0]), TypeError, "fun returned float, not a tensor"),
        (
            lambda: rg.optimize.minimize(rosenbrock, X0, jac="2-point"),
            TypeError,
            r"minimize\(\) computes the derivatives",
        ),
        (lambda: rg.optimize.curve_fit(decay, T, T, jac=decay), TypeError, "to pass your own jac=, call scipy"),
        (lambda: rg.optimize.minimize(rosenbrock, X0 + 0j), TypeError, "x0 must be real, but got"),
        (
            lambda: rg.optimize.minimize(objective, X0, constraints={"type": "eq", "fun": objective, "jac": objective}),
            TypeError,
            "a constraint of minimize",
        ),
    ],
)
def test_invalid_optimization_problems_raise(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_missing_scipy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ModuleNotFoundError, match=r"SciPy is not installed: pip install .retrograd\[scipy\]"):
        rg.optimize.minimize(rosenbrock, X0)


class Cube(rg.autograd.Function):
    """A custom function without ``jvp``, which forward mode would need."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 * x**2


def test_hessian_products_need_no_forward_mode() -> None:
    found = rg.optimize.minimize(lambda x: ((Cube.apply(x) - 8.0) ** 2).sum(), [1.5, 2.5], method="trust-ncg")
    assert_allclose(found.x, 2.0, atol=1e-5)
