"""Code written for NumPy works on Tensors without changes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.integrate
import scipy.linalg
import scipy.sparse
import scipy.spatial
import scipy.special
import scipy.stats

import retrograd as rg
from retrograd.autograd import forward_ad

V = np.array([0.5, -1.2, 3.1])
M = np.array([[0.3, 1.7, -0.8], [2.9, -1.2, 0.45]])


def tensor(array: Any, grad: bool = True) -> rg.Tensor:
    return rg.from_numpy(np.array(array)).requires_grad_(grad)


def slope(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[float, float]:
    """Return the derivative in a random direction by the gradient and by central differences."""
    rng = np.random.default_rng(3)
    directions = [rng.normal(size=array.shape) for array in arrays]
    leaves = [tensor(array) for array in arrays]
    result = function(*leaves)
    assert type(result) is rg.Tensor
    np.testing.assert_allclose(result.item(), function(*arrays), rtol=1e-12)
    grads = rg.autograd.grad(result, leaves)
    predicted = sum((grad.numpy() * direction).sum() for grad, direction in zip(grads, directions, strict=True))
    high, low = (
        function(*(array + step * direction for array, direction in zip(arrays, directions, strict=True)))
        for step in (1e-6, -1e-6)
    )
    return float(predicted), float(high - low) / 2e-6


# --- whole functions --------------------------------------------------------------------------------------------------


def logistic_loss(w: Any, b: Any, x: np.ndarray, y: np.ndarray) -> Any:
    z = x @ w + b
    return np.mean(np.logaddexp(0, -y * z)) + 0.01 * np.sum(w**2)


def rbf_kernel(x: Any, y: Any, length: Any) -> Any:
    squares = np.sum(x**2, axis=1)[:, np.newaxis] + np.sum(y**2, axis=1)[np.newaxis, :] - 2 * np.dot(x, y.T)
    return np.exp(-0.5 * squares / length**2)


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def euler(rates: Any, start: Any, steps: int = 20, dt: float = 0.05) -> Any:
    """Solve the predator-prey equations."""
    path = np.zeros_like(start, shape=(steps + 1, 2))
    path[0] = start
    x, y = start
    for k in range(steps):
        x, y = x + dt * x * (rates[0] - rates[1] * y), y + dt * y * (rates[2] * x - rates[3])
        path[k + 1, 0], path[k + 1, 1] = x, y
    return path


def gaussian_log_likelihood(x: Any, mean: Any, factor: Any) -> Any:
    covariance = factor @ factor.T + 0.1 * np.eye(len(mean))
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, (x - mean).T)
    log_det = 2 * np.sum(np.log(np.diag(lower)))
    return -0.5 * (np.sum(white**2) + len(x) * (log_det + len(mean) * np.log(2 * np.pi)))


def k_means_energy(centres: Any, points: np.ndarray) -> Any:
    distances = np.linalg.norm(points[:, None] - centres, axis=-1)
    return np.take_along_axis(distances, np.argmin(distances, axis=1)[:, None], axis=1).sum()


def welch_power(signal: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(signal, 8)[::4] * np.hanning(8)
    return np.mean(np.abs(np.fft.rfft(windows, axis=-1)) ** 2, axis=0)


def heat(u: Any, steps: int = 10) -> Any:
    """Take explicit steps that write arrays in place."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        np.multiply(u, 0.99, out=u)
    return u


rng = np.random.default_rng(0)
X, Y = rng.normal(size=(6, 3)), np.array([1.0, -1, 1, 1, -1, -1])
F = rng.normal(size=(3, 3)) + 2 * np.eye(3)
W = np.linspace(-1, 1, 18)
CODE: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "logistic regression": (lambda w, b: logistic_loss(w, b, X, Y), (V, np.array(0.3))),
    "rbf kernel": (lambda x, y, length: rbf_kernel(x, y, length).sum(), (X, M, np.array(1.3))),
    "softmax": (lambda x: -np.log(softmax(x)[np.arange(6), [0, 2, 1, 1, 0, 2]]).mean(), (X,)),
    "Euler steps": (lambda r, s: euler(r, s)[-1] @ np.array([1.0, 2.0]), (np.array([1.1, 0.4, 0.1, 0.4]), V[[0, 2]])),
    "Gaussian likelihood": (lambda m, f: gaussian_log_likelihood(X, m, f), (V, F)),
    "k-means": (lambda c: k_means_energy(c, X), (M,)),
    "Welch": (lambda s: np.log(welch_power(s)).sum(), (rng.normal(size=24),)),
    "heat": (lambda u: (heat(u) ** 2).sum(), (rng.normal(size=9),)),
    "polynomial": (lambda c: np.trapezoid(np.polyval(c, np.linspace(0, 1, 9)) ** 2, dx=1 / 8), (V,)),
    "Chebyshev series": (
        lambda x, c: np.stack([np.polynomial.chebyshev.chebval(x, e) for e in np.eye(3)], -1).reshape((-1, 3)) @ c @ W,
        (X, V),
    ),
    "polynomial class": (lambda x: np.polynomial.chebyshev.chebval(x, [1.0, -2.0, 0.5, 3.0]).sum(), (X,)),
    "huber": (lambda r: np.where(np.abs(r) < 1, 0.5 * r**2, np.abs(r) - 0.5).sum(), (X,)),
    "einsum attention": (lambda q, k: np.einsum("qk,kd->qd", softmax(q @ k.T), k).mean(axis=0) @ V, (X, F)),
}
if not hasattr(np, "trapezoid"):
    del CODE["polynomial"]


@pytest.mark.parametrize("name", CODE)
def test_gradients_of_plain_numpy_code(name: str) -> None:
    function, arrays = CODE[name]
    predicted, measured = slope(function, *arrays)
    assert predicted == pytest.approx(measured, rel=1e-6, abs=1e-8)


def test_second_derivatives_of_plain_numpy_code() -> None:
    w, b = tensor(V), tensor(0.3)
    (first,) = rg.autograd.grad(logistic_loss(w, b, X, Y), w, create_graph=True)
    rows = [rg.autograd.grad(part, w, retain_graph=True)[0].numpy() for part in first]
    p = 1 / (1 + np.exp(-(X @ V + 0.3)))
    np.testing.assert_allclose(np.stack(rows), X.T @ (X * (p * (1 - p))[:, None]) / 6 + 0.02 * np.eye(3))


# --- Tensors among arrays ---------------------------------------------------------------------------------------------

MIXED: dict[str, Callable[..., Any]] = {
    "np.add(array, x)": lambda a, x: np.add(a, x),
    "np.multiply(x, 2)": lambda a, x: np.multiply(x, 2),
    "array + x": lambda a, x: a + x,
    "array - x": lambda a, x: a - x,
    "array * x": lambda a, x: a * x,
    "array / x": lambda a, x: a / x,
    "array ** x": lambda a, x: np.abs(a) ** x,
    "array @ x": lambda a, x: a @ x,
    "x @ array": lambda a, x: x @ a.T,
    "array % x": lambda a, x: np.abs(a) % x,
    "array // x": lambda a, x: a // x,
    "array < x": lambda a, x: a < x,
    "np.float64 * x": lambda a, x: np.float64(2) * x,
    "x - np.float32": lambda a, x: x - np.float32(2),
    "np.int64 ** x": lambda a, x: np.int64(2) ** x,
    "x[array > 0]": lambda a, x: x[a[0] > 0],
    "np.sum": lambda a, x: np.sum(x, axis=0, keepdims=True),
    "np.concatenate": lambda a, x: np.concatenate([a, x[None]]),
    "np.where": lambda a, x: np.where(a > 0, a, x),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_among_arrays(name: str) -> None:
    result = MIXED[name](M, tensor(V))
    assert type(result) is rg.Tensor
    assert result.requires_grad == (result.dtype is not rg.bool)
    expected = MIXED[name](M, V)
    np.testing.assert_allclose(result.detach().numpy(), expected)
    assert result.detach().numpy().dtype == expected.dtype


DTYPES = ("bool", "int64", "float32", "float64", "complex128")
PRODUCTS: dict[str, Callable[..., Any]] = {
    "@": lambda a, b: a @ b,
    "np.matmul": np.matmul,
    "np.dot": np.dot,
    "np.dot of three dimensions": lambda a, b: np.dot(a[None], b),
    "np.inner": np.inner,
    "np.outer": np.outer,
    "np.vdot": np.vdot,
    "np.kron": np.kron,
    "np.vecdot": np.vecdot,
    "np.tensordot": lambda a, b: np.tensordot(a, b, 1),
    "np.einsum": lambda a, b: np.einsum("ij,jk->k", a, b),
    "np.linalg.multi_dot": lambda a, b: np.linalg.multi_dot([a, b, a]),
    "np.linalg.solve": np.linalg.solve,
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "int64") for name in PRODUCTS if name not in ("@", "np.linalg.solve")),
        *((name, "bool") for name in ("np.outer", "np.kron", "np.vecdot")),  # torch has no matrix products of these
    ],
)
def test_products_of_integers_and_booleans_equal_numpy(name: str, dtype: str) -> None:
    a, b = (np.array(rows, dtype=dtype) for rows in ([[2, 1], [0, 1]], [[1, 1], [3, 0]]))
    result, expected = PRODUCTS[name](rg.from_numpy(a), rg.from_numpy(b)).numpy(), PRODUCTS[name](a, b)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == expected.dtype


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    ("left", "right"), [pair for pair in itertools.permutations(DTYPES, 2) if {*pair} != {"bool", "int64"}]
)
def test_products_promote_as_in_numpy(name: str, left: str, right: str) -> None:
    """Examples are integer data times parameters, or a real matrix times a complex state."""
    product = PRODUCTS[name]
    a, b = (np.array([[2.0, 1.0], [0.0, 1.0]]).astype(dtype) for dtype in (left, right))
    # an integer never widens a floating type
    dtype = rg.promote_types(rg.from_numpy(a).dtype, rg.from_numpy(b).dtype)
    alike = [rg.from_numpy(array).to(dtype).requires_grad_() for array in (a, b)]
    product(*alike).abs().sum().backward()
    kinds = [(False, True)[: 1 + (array.dtype.kind in "fc")] for array in (a, b)]
    for differentiated in itertools.product(*kinds):
        if not any(differentiated) or (name == "@" and all(differentiated)):  # torch's operator does not promote
            continue
        x, y = (tensor(array) if grad else array for array, grad in zip((a, b), differentiated, strict=True))
        result = product(x, y)
        assert result.dtype is dtype
        np.testing.assert_allclose(result.detach().numpy(), product(a, b), rtol=1e-6)
        result.abs().sum().backward()
        for leaf, other in zip((x, y), alike, strict=True):
            if isinstance(leaf, rg.Tensor):
                assert leaf.grad.dtype is leaf.dtype
                wanted = other.grad if leaf.is_complex() else other.grad.real
                np.testing.assert_allclose(leaf.grad.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


class Column:
    """Like a column of a table: NumPy's functions return instances of its class."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.dtype, self.shape, self.ndim = self.values.dtype, self.values.shape, self.values.ndim

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, rg.Tensor) for x in inputs):
            return NotImplemented
        return Column(getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **kwargs))


COLUMNS: dict[str, Callable[[Any, Any], Any]] = {
    "power": lambda x, c: np.power(np.exp(x), c),
    "hypot": lambda x, c: np.hypot(c, x),
    "mul": lambda x, c: (rg.mul if isinstance(x, rg.Tensor) else np.multiply)(x, c),
    "where": lambda x, c: np.where(np.asarray(c) > 1.5, c, x),
    "integers": lambda x, c: np.multiply(x, Column(np.arange(3)) if isinstance(c, Column) else np.arange(3)),
    "dot": np.dot,
    "clip": lambda x, c: np.clip(x, None, c),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_tables_work_as_arrays(name: str) -> None:
    function, x = COLUMNS[name], tensor(V)
    values = np.array([1.0, 2.0, 0.5])
    result = function(x, Column(values))
    assert type(result.detach().numpy()) is np.ndarray
    np.testing.assert_allclose(result.detach().numpy(), function(V, values))
    (wanted,) = rg.autograd.grad(function(x, rg.from_numpy(values)).sum(), x)
    (got,) = rg.autograd.grad(result.sum(), x)
    np.testing.assert_allclose(got.numpy(), wanted.numpy())


PICKED_BY_COLUMNS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "groups": lambda x, groups, mask: x[groups],
    "mask": lambda x, groups, mask: x[mask] ** 2,
    "rows": lambda x, groups, mask: np.stack([x, 2 * x])[:, groups],
    "write": lambda x, groups, mask: _written_to(x, mask),
    "add": lambda x, groups, mask: _added_to(x, groups),
}


def _written_to(x: Any, mask: Any) -> Any:
    y = x.copy()
    y[mask] *= 3.0
    return y


def _added_to(x: Any, groups: Any) -> Any:
    y = np.zeros_like(x)
    np.add.at(y, groups, x[groups])
    return y


@pytest.mark.parametrize("name", PICKED_BY_COLUMNS)
def test_columns_of_tables_work_as_indices(name: str) -> None:
    """Hierarchical models pick the level of its group for every row of a table."""
    function = PICKED_BY_COLUMNS[name]
    groups, mask = np.array([2, 0, 0, 1]), V > 0
    x, y = tensor(V), tensor(V)
    picked, wanted = function(x, Column(groups), Column(mask)), function(y, groups, mask)
    np.testing.assert_array_equal(picked.detach().numpy(), function(V, groups, mask))
    (picked**2).sum().backward()
    (wanted**2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


def test_column_of_floats_as_an_index_raises() -> None:
    with pytest.raises(IndexError, match="float64"):
        tensor(V)[Column(V)]


def test_operators_defer_to_classes_that_opt_out_of_ufuncs() -> None:
    class Other:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> str:
            return "theirs"

    assert tensor(V) + Other() == "theirs"


def test_augmented_assignment_to_an_array_is_refused() -> None:
    array = V.copy()
    with pytest.raises(TypeError, match=r"numpy\.add.*ndarray.*detach"):
        array += tensor(V)
    np.testing.assert_array_equal(array, V)


@pytest.mark.parametrize(
    "write",
    [
        lambda array, x: array.__isub__(0.1 * x),
        lambda array, x: array.__imul__(x[0]),
        lambda array, x: np.add(array, x, out=array),
        lambda array, x: np.divide(array, x, out=array, where=np.array([True, False, True])),
        lambda array, x: np.add.reduce(np.outer(x, x), axis=0, out=array),
        lambda array, x: np.modf(x, out=(array, np.empty(3))),
        lambda array, x: np.sum(np.outer(x, x), axis=1, out=array),
        lambda array, x: np.cumsum(x, out=array),
        lambda array, x: np.dot(np.outer(x, x), x, out=array),
        lambda array, x: np.stack([x[0], x[1], x[2]], out=array),
        lambda array, x: np.add.at(array, [0, 2, 0], x),
        lambda array, x: np.copyto(array, x),
        lambda array, x: np.copyto(array, x, where=np.array([True, False, True])),
        lambda array, x: np.put(array, [2, 0], x),
        lambda array, x: np.put_along_axis(array, np.array([2, 0]), x[:2], 0),
    ],
)
def test_writing_into_an_array_is_allowed_if_no_gradient_is_lost(write: Callable[..., Any]) -> None:
    expected, array = np.array([2.0, 3.0, 5.0]), np.array([2.0, 3.0, 5.0])
    answer = write(expected, V)
    own = write(array, tensor(V).detach())
    np.testing.assert_allclose(array, expected, rtol=1e-15)
    assert (own is array) == (answer is expected)
    with pytest.raises(TypeError, match=r"ndarray|index_put_"):
        write(array, tensor(V))
    np.testing.assert_allclose(array, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "write",
    [
        lambda array, x: np.add(array, x, out=array),
        lambda array, x: np.add.at(array, [0, 1, 2], x),
        lambda array, x: np.copyto(array, x),
        lambda array, x: np.put(array, [0, 1, 2], x),
    ],
)
def test_writing_into_an_array_in_no_grad_is_allowed(write: Callable[..., Any]) -> None:
    array = np.zeros(3)
    with rg.no_grad():
        write(array, tensor(V))
    np.testing.assert_array_equal(array, V)
    with pytest.raises(TypeError, match=r"ndarray|index_put_"):
        rg.func.jvp(lambda x: write(array, x), (rg.ones(3, dtype=rg.float64),), (rg.ones(3, dtype=rg.float64),))
    np.testing.assert_array_equal(array, V)


def test_gradient_descent_on_a_numpy_array() -> None:
    def f(w: Any) -> Any:
        return ((w - 3.0) ** 2).sum()

    w = np.zeros(3)
    for _ in range(50):
        w -= 0.25 * rg.func.grad(f)(w)
    assert type(w) is np.ndarray
    np.testing.assert_allclose(w, 3.0)
    with pytest.raises(TypeError, match=r"numpy\.subtract.*int64"):
        np.zeros(3, int).__isub__(rg.ones(3))


def test_writing_into_an_array_inside_a_transform_raises() -> None:
    def f(w: Any) -> Any:
        array = np.ones(3)
        array += w
        return rg.from_numpy(array).sum()

    for transformed in (rg.func.grad(f), rg.vmap(f), lambda w: rg.func.jvp(f, (w,), (w,))):
        with pytest.raises((TypeError, RuntimeError), match=r"ndarray|NumPy array|numpy\(\)"):
            transformed(rg.ones(3, dtype=rg.float64))


# --- ufuncs: keywords and methods -------------------------------------------------------------------------------------


def test_ufunc_out_writes_in_place_and_is_recorded() -> None:
    x = tensor(V)
    out = rg.zeros(3, dtype=rg.float64)
    view = out[:2]
    assert np.exp(x, out=out) is out
    assert out._version == 1
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(V))
    assert view.requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        np.exp(x.detach(), out=x)
    with pytest.raises(TypeError, match=r"float64.*int64"):
        np.exp(x, out=rg.zeros(3, dtype=rg.int64))
    assert np.add(V, V, out=out) is out
    np.testing.assert_allclose(out.detach().numpy(), 2 * V)


def test_ufunc_where_masks_values_and_gradients() -> None:
    """The idiom against division by zero gives neither NaN nor a NaN gradient."""
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.0, 4.0, 5.0])
    x, y = tensor(a), tensor(b)
    result = np.divide(x, y, out=np.zeros_like(x), where=y != 0)
    np.testing.assert_allclose(result.detach().numpy(), [0, 0.5, 0.6])
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 1 / 4, 1 / 5])
    np.testing.assert_allclose(y.grad.numpy(), [0, -2 / 16, -3 / 25])
    assert np.divide(x, 2.0, out=rg.zeros(3), where=b != 0).dtype is rg.float32
    with pytest.raises(TypeError, match=r"numpy\.divide: where=.*out="):
        np.divide(x, y, where=b != 0)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_ufunc_out_and_where_inside_vmap(shape: tuple[int, ...]) -> None:
    """Samples select different elements, so all are computed, with harmless operands where nothing is selected."""
    b = np.array([[0.0, 4.0, 5.0], [1.0, 0.0, 2.0]])
    b = b if shape else b[0]
    expected = np.divide(2.0, b, out=np.zeros_like(b), where=b != 0)
    slopes = np.divide(-2.0, b * b, out=np.zeros_like(b), where=b != 0)

    def quotient(y: Any) -> Any:
        return np.divide(2.0, y, out=np.zeros_like(y), where=y != 0)

    with np.errstate(all="raise"):
        np.testing.assert_allclose(rg.vmap(quotient)(b).numpy(), expected)
        for derivative in (rg.func.jacrev, rg.func.jacfwd):
            made = rg.vmap(derivative(quotient))(b).numpy()
            np.testing.assert_allclose(np.diagonal(made, 0, -2, -1) if shape else made, slopes)


def test_ufunc_out_and_where_of_a_single_number() -> None:
    zero = tensor(0.0)
    with np.errstate(all="raise"):
        result = np.divide(1.0, zero, out=np.full_like(zero, 7.0), where=zero != 0)
    result.backward()
    assert result.item() == 7
    assert zero.grad.item() == 0


def test_ufunc_dtype_is_the_dtype_of_the_computation() -> None:
    x = rg.arange(1, 4)
    assert np.sin(x, dtype=np.float64).dtype is rg.float64
    np.testing.assert_array_equal(np.sin(x, dtype=np.float64).numpy(), np.sin(np.arange(1, 4), dtype=np.float64))
    assert np.add(x, x, dtype=np.float32).dtype is rg.float32
    leaf = tensor(V)
    np.multiply(leaf, leaf, dtype=np.complex128).real.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * V)


CASTING: dict[str, Callable[[Any], Any]] = {
    "into integers": lambda x: np.multiply(x, 1.5, out=np.zeros_like(x, dtype=int), casting="unsafe"),
    "into selected integers": lambda x: np.add(x, 1.5, out=np.zeros_like(x, dtype=int), where=x > 0, casting="unsafe"),
    "into integers, quietly": lambda x: np.add(x, 1.5, out=np.zeros_like(x, dtype=int)),
    "safely": lambda x: np.add(x, 1.5, casting="safe"),
    "to single": lambda x: np.add(x, 1.5, dtype=np.float32),
    "safely to single": lambda x: np.add(x, 1.5, dtype=np.float32, casting="safe"),
    "to integers": lambda x: np.add(x, x, dtype=int),
    "to integers by all means": lambda x: np.add(x, x, dtype=int, casting="unsafe"),
    "halves to integers by all means": lambda x: np.add(x / 2, x / 2, dtype=int, casting="unsafe"),
    "truth values to integers": lambda x: np.add(x > 0, x > 0, dtype=int),
    "complex to real": lambda x: np.abs(x + 1j, dtype=float),
    "complex to real, which stay complex": lambda x: np.add(x + 1j, x, dtype=float),
    "a comparison": lambda x: np.greater(x, x - 1, dtype=bool),
    "subok": lambda x: np.exp(x, subok=False),
}


@pytest.mark.parametrize("name", CASTING)
def test_ufuncs_convert_by_numpys_rules(name: str) -> None:
    x = np.array([1.0, -2.0, 3.0])  # a whole number, so that it matters not when it is rounded
    try:
        expected = CASTING[name](x)
    except TypeError:
        with pytest.raises(TypeError, match=r"float64.*float32|float64.*int64|complex128.*float64"):
            CASTING[name](tensor(x, False))
    else:
        got = CASTING[name](tensor(x, False))
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.numpy(), expected)


NAMED_DTYPES: dict[str, Callable[[Any, str], Any]] = {
    "astype": lambda x, dtype: x.astype(dtype),
    "np.astype": lambda x, dtype: np.astype(x, dtype),
    "ufunc": lambda x, dtype: np.square(np.ones_like(x, dtype=np.int8), dtype=dtype),
    "reduction": lambda x, dtype: np.sum(x, dtype=dtype),
    "reduce": lambda x, dtype: np.add.reduce(x, dtype=dtype),
    "running sum": lambda x, dtype: np.cumsum(x, dtype=dtype),
    "zeros_like": lambda x, dtype: np.zeros_like(x, dtype),
    "full_like": lambda x, dtype: np.full_like(x, 3, dtype=dtype),
    "stack": lambda x, dtype: np.stack([x, x], dtype=dtype, casting="unsafe"),
    "linspace": lambda x, dtype: np.linspace(x[0], x[1], 3, dtype=dtype),
    "full": lambda x, dtype: np.full((2,), x[0], dtype, like=x),
    "array": lambda x, dtype: np.array([1, 2], dtype, like=x),
    "asarray": lambda x, dtype: np.asarray([x[0], x[1]], dtype=dtype, like=x),
}


@pytest.mark.parametrize("name", NAMED_DTYPES)
@pytest.mark.parametrize("dtype", ["f8", "d", "float", "float32", "i4", "int", "half"])
def test_numpys_functions_take_numpys_names_of_dtypes(name: str, dtype: str) -> None:
    x = np.array([1.0, 4.0])
    expected = NAMED_DTYPES[name](x, dtype)
    got = NAMED_DTYPES[name](tensor(x, False), dtype)
    assert got.dtype == expected.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("name", NAMED_DTYPES)
def test_wrong_names_of_dtypes_are_refused(name: str) -> None:
    for wrong in ("f3", "no such type"):
        with pytest.raises(TypeError, match=wrong):
            NAMED_DTYPES[name](tensor(V, False), wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.multiply.at(x, [0], 1.0), r"numpy\.multiply\.at.*scatter_reduce_"),
        (lambda x: np.add.at(np.zeros(3), [0], x[0]), r"numpy\.add\.at.*numpy\.zeros_like\(x, shape="),
        (lambda x: np.maximum.at(np.zeros(3), [0], x[0]), r"numpy\.maximum\.at.*scatter_reduce_"),
        (lambda x: np.add.reduceat(x, [0, 1]), r"numpy\.add\.reduceat.*stack"),
        (lambda x: np.hypot.reduce(x), r"numpy\.hypot\.reduce.*detach"),
        (lambda x: np.arctan2.accumulate(x), r"numpy\.arctan2\.accumulate.*detach"),
        (lambda x: np.add(x, 1, order="C"), r"numpy\.add: order= is not supported for Tensors"),
        (lambda x: np.add(x, 1, signature="dd->d"), r"numpy\.add: signature= is not supported for Tensors"),
    ],
)
def test_unsupported_ufunc_arguments_raise(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(tensor(V))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
@pytest.mark.parametrize(
    "index",
    [
        1,
        -1,
        [0, 2, 0],
        np.array([[0, 1], [0, 0]]),
        (np.array([0, 0, 1]), np.array([3, 3, 2])),
        (np.array([0, 0]), slice(1, 3)),
        (..., [3, 3, 0]),
        np.arange(12).reshape(3, 4) % 5 == 0,
        slice(None, None, -1),
    ],
    ids=str,
)
def test_ufunc_at_with_repeated_indices(ufunc: Any, index: Any) -> None:
    rng = np.random.default_rng(0)
    start, weights = rng.random((3, 4)), rng.random((3, 4))
    values = rng.random(start[index].shape)
    expected = start.copy()
    ufunc.at(expected, index, values)
    x, v = tensor(start), tensor(values)
    y = x * 1.0
    assert ufunc.at(y, index, v) is None
    np.testing.assert_allclose(y.detach().numpy(), expected)
    (y * rg.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), weights)
    np.testing.assert_allclose(v.grad.numpy(), weights[index] if ufunc is np.add else -weights[index])
    plain = rg.from_numpy(start.copy())
    ufunc.at(plain, index, 2)
    ufunc.at(start, index, 2)
    np.testing.assert_allclose(plain.numpy(), start)


def test_unknown_ufuncs_raise() -> None:
    double = np.frompyfunc(lambda value: 2 * value, 1, 1)
    with pytest.raises(TypeError, match=r"no derivative rule.*detach"):
        double(tensor(V))


# --- into NumPy and back ----------------------------------------------------------------------------------------------


def test_arrays_of_tensors_share_memory() -> None:
    x = tensor(V, grad=False)
    array = np.asarray(x)
    assert np.shares_memory(array, x.numpy())
    array[0] = 7
    assert x[0].item() == 7
    assert np.array(x).base is None
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array([tensor(1.0, False), tensor(2.0, False)]).tolist() == [1.0, 2.0]


LEAKS: dict[str, Callable[..., Any]] = {
    "np.asarray": lambda x: np.asarray(x),
    "np.array": lambda x: np.array(x),
    "list": lambda x: np.array([x, x]),
    "list of elements": lambda x: np.array([x[0], x[1]]),
    "list in a function": lambda x: np.mean([x, x], axis=0),
    "list in a ufunc": lambda x: np.exp([x[0], x[1]]),
    "assignment": lambda x: np.zeros(3).__setitem__(slice(None), x),
    "method of ndarray": lambda x: np.zeros(3).dot(x),
    "np.r_": lambda x: np.r_[x, 0.0],
    "np.c_": lambda x: np.c_[x, x],
    "np.full": lambda x: np.full((2, 3), x),
    "np.full_like": lambda x: np.full_like(V, x),
    "np.copyto": lambda x: np.copyto(np.zeros(3), x),
    "np.put": lambda x: np.put(np.zeros(3), [0], x[0]),
    "np.vectorize": lambda x: np.vectorize(lambda value: value)(x),
    "np.nditer": lambda x: list(np.nditer(x)),
    "np.random": lambda x: np.random.default_rng(0).normal(x),
    "np.polynomial": lambda x: np.polynomial.polynomial.polyval(2.0, x),
    "np.arange": lambda x: np.arange(x[0], 3.0, like=x),
    "np.ma": lambda x: np.ma.masked_array(x),
}

CONVERSIONS: dict[str, Callable[..., Any]] = {
    "float": lambda x: float(x[0]),
    "complex": lambda x: complex(x[0]),
    "element": lambda x: np.zeros(3).__setitem__(0, x[0]),
    "np.fromiter": lambda x: np.fromiter(x, float),
    "np.fromiter, like": lambda x: np.fromiter(x, float, like=x),
    "np.interp": lambda x: np.interp([9.0], [0.0, 1.0], [2.0, 3.0], right=x[0]),
}


@pytest.mark.parametrize("name", LEAKS)
def test_converting_a_tensor_that_requires_grad_raises(name: str) -> None:
    """Functions that NumPy does not dispatch ask a Tensor for its array, and the Tensor refuses."""
    with pytest.raises((RuntimeError, TypeError), match=r"detach"):
        LEAKS[name](tensor(V))


@pytest.mark.parametrize("name", LEAKS)
def test_converting_a_dual_tensor_raises(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=r"detach"):
        rg.func.jvp(LEAKS[name], (tensor(V, False),), (tensor(V, False),))


@pytest.mark.parametrize("name", CONVERSIONS)
def test_converting_a_dual_tensor_to_a_number_warns(name: str) -> None:
    with pytest.warns(UserWarning, match=r"to a scalar.*\n.*detach\(\)"), forward_ad.dual_level():
        CONVERSIONS[name](forward_ad.make_dual(tensor(V, False), tensor(V, False)))


@pytest.mark.parametrize("function", [np.histogram, np.unique, np.histogram_bin_edges])
def test_functions_without_a_derivative_raise_in_forward_mode(function: Any) -> None:
    with pytest.raises(TypeError, match=r"no derivative rule.*detach"):
        rg.func.jvp(function, (tensor(V, False),), (tensor(V, False),))


def test_converting_tensors_without_a_tangent_in_forward_mode() -> None:
    x = tensor(V, False)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        assert np.asarray(x).tolist() == V.tolist()
        assert np.asarray(dual > 0).tolist() == (V > 0).tolist()
        assert np.asarray(dual.detach()).tolist() == V.tolist()
        with rg.no_grad():
            assert np.asarray(dual).tolist() == V.tolist()


ADVICE: dict[str, tuple[Callable[..., Any], str]] = {
    "special": (lambda x: scipy.special.logsumexp(x), r"scipy\.special takes arrays only.*retrograd\.logsumexp"),
    "linalg": (lambda x: scipy.linalg.expm(x), r"scipy\.linalg takes arrays only.*matrix_exp"),
    "stats": (lambda x: scipy.stats.norm.cdf(x), r"scipy\.stats takes arrays only.*retrograd\.distributions"),
    "sparse": (lambda x: scipy.sparse.eye(3).multiply(x), r"scipy\.sparse takes arrays only: A @ x and x @ A take"),
    "integrate": (lambda x: scipy.integrate.simpson(x), r"scipy\.integrate takes arrays only.*numpy\.trapezoid"),
    "spatial": (lambda x: scipy.spatial.distance.pdist(x[:, None]), r"scipy\.spatial takes arrays.*retrograd\.cdist"),
    "others": (lambda x: scipy.cluster.vq.whiten(x[:, None]), r"scipy takes arrays only.*autograd\.Function"),
    "pandas": (
        lambda x: eval("np.asarray(x)", {"np": np, "x": x, "__name__": "pandas.core.base"}),
        r"pandas takes arrays only.*to_numpy\(\)",
    ),
    "polynomial": (lambda x: np.polynomial.chebyshev.chebval(0.5, x), r"numpy\.polynomial takes.*chebvander\(x, n\)"),
    "points of one": (lambda x: np.polynomial.legendre.legvander(x, 3), r"numpy\.stack\(\[chebval\(x, e\) for e in"),
    "vectorize": (lambda x: np.vectorize(np.sin)(x), r"retrograd\.vmap"),
    "ndenumerate": (lambda x: list(np.ndenumerate(x)), r"numpy\.ndindex\(x\.shape\)"),
    "as_strided": (lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)), r"x\.as_strided\(size, stride\)"),
    "a list in r_": (lambda x: np.r_[x, 1.0], r"in place of a list of tensors use .*numpy\.concatenate"),
    "a list in diag": (lambda x: np.diag([x[0], x[1]]), r"in place of a list of tensors use numpy\.stack"),
    "rows": (lambda x: np.array([[x[0], x[1]], [0.0, 1.0]]), r"np\.block for rows of rows"),
    "random": (lambda x: np.random.default_rng().normal(x), r"mean \+ s \* rng\.normal\(size=n\)"),
    "dot": (lambda x: M.dot(x), r"array @ x in place of array\.dot\(x\)"),
    "array": (lambda x: np.array([x, x]), r"np\.stack\(\[a, b\]\) in place of np\.array\(\[a, b\]\)"),
    "write": (lambda x: np.zeros(3).__setitem__(slice(None), x), r"np\.zeros_like\(x\)"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_errors_suggest_replacements_that_accept_tensors(name: str) -> None:
    call, message = ADVICE[name]
    with pytest.raises(RuntimeError, match=message):
        call(tensor(V))


def test_errors_from_inside_scipy_suggest_replacements() -> None:
    with pytest.raises(TypeError, match="transpose") as caught:
        scipy.sparse.eye(3).__rmatmul__(tensor(V))
    (note,) = caught.value.__notes__
    assert re.search(r"called by a part of scipy\.sparse.*retrograd\.sparse\.spsolve", note)


class Table:
    """Looks like a pandas table and delegates the arithmetic to its arrays."""

    __module__ = "pandas.core.frame"
    ndim = 2

    def __rmul__(self, other: Any) -> Any:
        return "answered"

    def __mul__(self, other: Any) -> Any:
        return (np.ones((2, 2)) * other).view()


def test_arithmetic_with_pandas_tables_raises_with_advice() -> None:
    """pandas computes with vectors and raises unclear errors for anything else."""
    assert rg.ones(2) * Table() == "answered"
    for operand in (rg.tensor(2.0), rg.ones(2, 2), rg.tensor(2.0, requires_grad=True)):
        with pytest.raises(TypeError, match=r"pandas's Table takes arrays only: .*to_numpy\(\) \* x"):
            operand * Table()
    with pytest.raises(TypeError, match="view"):
        Table() * rg.tensor(2.0)


METHODS_OF_ARRAYS: dict[str, Callable[..., Any]] = {
    "std": lambda x: x.std(ddof=1),
    "var": lambda x: x.var(0, ddof=1),
    "cumsum": lambda x: x.cumsum(),
    "take": lambda x: x.take([0], axis=0),
    "repeat": lambda x: x.repeat(2, axis=0),
    "transpose": lambda x: x.transpose(),
    "reshape": lambda x: x.reshape((3, 1), order="F"),
    "ravel": lambda x: x.ravel("F"),
    "argsort": lambda x: x.argsort(kind="stable"),
}


@pytest.mark.parametrize("name", METHODS_OF_ARRAYS)
def test_numpy_arguments_of_methods_suggest_the_numpy_function(name: str) -> None:
    METHODS_OF_ARRAYS[name](V)
    with pytest.raises(TypeError) as caught:
        METHODS_OF_ARRAYS[name](tensor(V))
    assert f"numpy.{name}(x, ...)" in "".join(getattr(caught.value, "__notes__", ()))
    with pytest.raises(TypeError) as caught:
        tensor(V).sigmoid(axis=0)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("name", CONVERSIONS)
def test_converting_a_tensor_that_requires_grad_to_a_number_warns(name: str) -> None:
    """As in torch, the conversion works; without a gradient to lose there is no warning."""
    with pytest.warns(UserWarning, match=r"requires_grad=True to a scalar.*\n.*detach\(\)"):
        CONVERSIONS[name](tensor(V))
    CONVERSIONS[name](tensor(V, grad=False))


def test_warning_from_inside_scipy_points_to_the_calling_line() -> None:
    x = tensor(V)
    with pytest.warns(UserWarning, match=r"scipy\.integrate takes numbers only; numpy\.trapezoid") as caught:
        scipy.integrate.quad(lambda t: x[0] * t, 0, 1)
    assert {warning.filename for warning in caught} == {__file__}


def test_method_used_as_a_number_raises_with_advice() -> None:
    """In NumPy, ``x.size`` is a number."""
    x = tensor(V)
    for wrong in (lambda: x.sum() / x.size, lambda: x.size * x, lambda: np.sum(x) ** x.size):
        with pytest.raises(TypeError, match=r"x\.size is a method of tensors.*write x\.numel\(\)"):
            wrong()
    with pytest.raises(TypeError, match=r"x\.mean is a method of tensors.*write x\.mean\(\)"):
        x - x.mean


MASKED = np.ma.masked_array(V, [False, True, False])
OWN_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "x * masked": lambda x: x * MASKED,
    "masked * x": lambda x: MASKED * x,
    "masked / x": lambda x: MASKED / x,
    "x @ masked": lambda x: x @ MASKED,
    "np.add(x, masked)": lambda x: np.add(x, MASKED),
    "np.add(masked, x)": lambda x: np.add(MASKED, x),
    "np.ma.multiply": lambda x: np.ma.multiply(x, 2.0),
    "np.ma.sqrt": lambda x: np.ma.sqrt(x),
    "np.ma.dot": lambda x: np.ma.dot(MASKED, x),
    "np.where": lambda x: np.where(V > 0, x, MASKED),
    "np.concatenate": lambda x: np.concatenate([x, MASKED]),
    "matrix * x": lambda x: np.asmatrix(M) * x,
    "x * matrix": lambda x: x * np.asmatrix(M),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", OWN_ARITHMETIC)
def test_masked_arrays_as_operands_raise(name: str) -> None:
    """Masked values must not reappear, and the graph must not get lost."""
    with pytest.raises((RuntimeError, TypeError), match=r"x\[~?mask\]|numpy\.asarray|detach"):
        OWN_ARITHMETIC[name](tensor(V))


def test_masked_arrays_of_tensors_without_history() -> None:
    x = tensor(V, False)
    assert (np.ma.masked_array(V, [False, True, False]) * x).sum() == V[0] ** 2 + V[2] ** 2
    with pytest.raises(TypeError, match=r"MaskedArray has its own arithmetic.*x\[~mask\]"):
        rg.func.grad(lambda x: (x**2).sum())(MASKED)


def test_memory_mapped_and_big_endian_arrays(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "data", float, "w+", shape=(3,))
    mapped[:] = V
    assert rg.func.grad(lambda x: (x * mapped).sum() + mapped @ x)(np.ones(3)).tolist() == (2 * V).tolist()
    assert rg.func.grad(lambda x: (x**2).sum())(mapped).tolist() == (2 * V).tolist()
    big_endian = V.astype(">f8")
    for call in (lambda: tensor(V) * big_endian, lambda: rg.func.grad(lambda x: x.sum())(big_endian)):
        with pytest.raises(ValueError, match="byte order"):
            call()


def test_object_arrays_as_operands_raise() -> None:
    x = tensor(V)
    objects = np.array([1.0, 2.0, 3.0], dtype=object)
    for call in (
        lambda: np.add(x, objects),
        lambda: objects + x,
        lambda: np.concatenate([x, objects]),
        lambda: np.add(x, "text"),
        lambda: np.zeros(3, dtype=object, like=x),
        lambda: np.array([None], like=x),
        lambda: np.add(x, np.datetime64("2020-01-01")),
    ):
        with pytest.raises(TypeError, match=r"supported types|must be Tensor or number"):
            call()


# --- like= ------------------------------------------------------------------------------------------------------------


def test_array_creation_with_like_keeps_the_graph() -> None:
    x = tensor(V)
    joined = np.array([[x[0], 1.0], [x[1] * x[2], x[0]]], like=x)
    assert type(joined) is rg.Tensor
    np.testing.assert_allclose(joined.detach().numpy(), [[0.5, 1.0], [-3.72, 0.5]])
    filled = np.full((2, 3), x, like=x)
    (joined.sum() + filled.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 + 2, 3.1 + 2, -1.2 + 2])


def test_array_creation_with_like_copies_as_numpy_does() -> None:
    x = tensor(V, grad=False)
    assert np.asarray(x, like=x) is x
    assert not np.shares_memory(np.array(x, like=x), x)
    assert np.array(x, like=x, copy=False) is x
    assert np.array(x, dtype=np.float32, ndmin=2, like=x).shape == (1, 3)
    assert np.ascontiguousarray(tensor(M).T, like=x).is_contiguous()
    assert np.ascontiguousarray(tensor(1.0), like=x).shape == (1,)


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_linspace_between_tensors() -> None:
    start, stop = tensor(0.1), tensor(0.7)
    assert np.linspace(start, stop, 7)[-1].item() == 0.7
    assert np.linspace(start, stop, 7)[0].item() == 0.1
    assert np.linspace(start, stop, 0).shape == (0,)
    assert np.linspace(start, stop, 1).tolist() == [0.1]
    assert np.isnan(np.linspace(start, stop, 1, retstep=True)[1]).item()
    assert np.linspace(rg.tensor(-3.0), 3.0, 5, dtype=int).tolist() == np.linspace(-3.0, 3.0, 5, dtype=int).tolist()
    assert np.linspace(rg.tensor(0), rg.tensor(3), 3).dtype is rg.float64
    for call, message in (
        (lambda: np.linspace(start, stop, -1), "num must be non-negative, but is -1"),
        (lambda: np.geomspace(start, 0.0), "zero"),
        (lambda: np.meshgrid(start, stop, indexing="yx"), "indexing"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


class Doubled(rg.autograd.Function):
    """A custom function that computes with NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(2 * x.numpy())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Doubled.apply(g)


def test_hessian_through_a_custom_function_that_uses_numpy() -> None:
    """It would need forward mode and vmap; the errors suggest alternatives without them."""

    def energy(x: Any) -> Any:
        return np.sum(Doubled.apply(x) ** 3)

    with pytest.raises(NotImplementedError, match=r"jacrev\(grad\(f\), chunk_size=1\)"):
        rg.func.hessian(energy)(V)
    with pytest.raises(RuntimeError, match=r"needs a vmap method.*jacrev\(f, chunk_size=1\)"):
        rg.func.jacrev(rg.func.grad(energy))(V)
    hessian = rg.func.jacrev(rg.func.grad(energy), chunk_size=1)(V)
    np.testing.assert_allclose(hessian.numpy(), np.diag(48 * V))


AS_NUMPY_REFUSES: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: np.pad(x, 1, mode="sideways"),
    "polyder": lambda x: np.polyder(x[0], -1),
    "polyint": lambda x: np.polyint(x[0], -1),
    "roots": lambda x: np.roots(x),
    "reshape": lambda x: np.reshape(x.T, 6, copy=False),
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, (1, 1, 1)),
    "convolve": lambda x: np.convolve(x[0], x[1], mode="around"),
    "convolve of nothing": lambda x: np.convolve(x[0, :0], x[1]),
    "select": lambda x: np.select([x > 0], [x, x]),
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 1, x[:0]),
    "apply_over_axes": lambda x: np.apply_over_axes(lambda a, axis: a.sum(), x, (0, 1)),
    "cumulative_sum": lambda x: np.cumulative_sum(x),
}


@pytest.mark.parametrize("name", AS_NUMPY_REFUSES)
def test_invalid_calls_raise_the_error_of_numpy(name: str) -> None:
    array = np.arange(6.0).reshape(2, 3)
    with pytest.raises(Exception) as expected:
        AS_NUMPY_REFUSES[name](array)
    with pytest.raises(type(expected.value)):
        AS_NUMPY_REFUSES[name](rg.from_numpy(array))
