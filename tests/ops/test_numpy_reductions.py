"""NumPy's reductions, sorts and differences on Tensors: NumPy's results, and gradients where they exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

rng = np.random.default_rng(0)
X = rng.permutation(24).reshape(2, 3, 4) * 0.37 - 3.1
M = X[0]
V = np.array([0.5, -1.0, 3.0, 2.0, 2.5])
W = np.array([0.1, 2.0, 0.7, 1.3, 0.9])
HOLES = X.copy()
HOLES[0, 1, 2] = HOLES[0, 0, 0] = HOLES[1, 2, 0] = HOLES[1, 0, 3] = np.nan
MASK = np.random.default_rng(5).random((2, 3, 4)) < 0.7
MASK[..., 0] = True
POINTS = np.array([0.0, 0.5, 1.5, 1.75, 3.0])


def case(function: Any, *args: Any, **kwargs: Any) -> Any:
    label = f"{function.__name__}-{len(args)}-{'-'.join(f'{key}={value}' for key, value in kwargs.items())}"
    return pytest.param(function, args, kwargs, id=label.replace("\n", "")[:80])


METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest"),
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf"),
    *("hazen", "weibull", "median_unbiased", "normal_unbiased"),
)
AXES = ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": (), "keepdims": False})
ONE_AXIS = ({}, {"axis": 0}, {"axis": -1})

CASES = [
    *(case(f, X, **more) for f in (np.sum, np.prod, np.mean, np.max, np.min, np.ptp) for more in AXES),
    *(case(f, X, **more) for f in (np.amax, np.amin) for more in ({}, {"axis": 1})),
    *(case(f, X, **more, ddof=d) for f in (np.var, np.std) for more in AXES[:4] for d in (0, 1)),
    case(np.var, X, 1, None, None, 1, True),
    case(np.var, X, correction=2),
    case(np.sum, X, 1, None, None, True),
    *(case(f, X, axis=1, where=MASK) for f in (np.sum, np.prod, np.mean, np.var, np.std)),
    *(case(f, X, axis=1, initial=2.0) for f in (np.sum, np.prod, np.max, np.min)),
    case(np.max, X, axis=1, initial=-9.0, where=MASK),
    case(np.min, X, axis=1, initial=9.0, where=MASK),
    case(np.average, X),
    case(np.average, X, 1),
    case(np.average, V, weights=W),
    case(np.average, M, axis=0, weights=W[:3]),
    case(np.average, M, weights=M + 9, axis=1, keepdims=True),
    case(np.average, V, weights=W, returned=True),
    *(case(np.average, X, axis=(k, 0), weights=rng.random((X.shape[k], 2))) for k in (1, -1)),
    *(case(f, X, **more) for f in (np.median,) for more in (*AXES[:4], {"axis": 1, "keepdims": True})),
    *(case(np.quantile, X, q, **more) for q in (0.3, [0.1, 0.6], [[0.2], [0.9]]) for more in AXES[:4]),
    *(case(np.quantile, X, 0.37, axis=1, method=m) for m in METHODS),
    *(case(np.nanquantile, HOLES, [0.2, 0.7], axis=0, method=m) for m in METHODS),
    case(np.percentile, X, 30),
    case(np.percentile, X, [10, 60.5], axis=(0, 1), keepdims=True),
    *(
        case(f, HOLES, **more)
        for f in (np.nansum, np.nanprod, np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd, np.nanmedian)
        for more in AXES[:4]
    ),
    case(np.nanvar, HOLES, axis=0, ddof=0.5),
    case(np.nansum, HOLES, axis=1, where=MASK),
    case(np.nanmean, HOLES, axis=1, where=MASK),
    case(np.nanquantile, HOLES, 0.3, axis=(0, 1)),
    case(np.nanpercentile, HOLES, [30, 40]),
    *(case(f, X, **more) for f in (np.cumsum, np.cumprod) for more in ONE_AXIS),
    *(case(f, HOLES, **more) for f in (np.nancumsum, np.nancumprod) for more in ONE_AXIS),
    *(case(f, X, **more) for f in (np.sort, np.argsort) for more in (*ONE_AXIS, {"axis": None}, {"kind": "stable"})),
    case(np.partition, X, 1),
    case(np.partition, X, (0, 2), axis=1),
    case(np.diff, X),
    case(np.diff, X, 2, 1),
    case(np.diff, X, axis=0, prepend=0.5),
    case(np.diff, X, axis=1, prepend=X[:, :1], append=1),
    case(np.diff, V, prepend=[1.0, 2.0]),
    case(np.ediff1d, V),
    case(np.ediff1d, M, to_end=1.5, to_begin=[1.0, 2.0]),
    case(np.trapezoid, X),
    case(np.trapezoid, V, POINTS),
    case(np.trapezoid, X, dx=0.5, axis=1),
    case(np.trapezoid, X, POINTS[:3], axis=1),
    *(case(np.gradient, V, *spacing, edge_order=e) for spacing in ((), (0.5,), (POINTS,)) for e in (1, 2)),
    case(np.gradient, X[:, :, :3], 2.0, axis=1),
    case(np.gradient, M, 2.0, POINTS[:4]),
    case(np.gradient, M, axis=(0, 1)),
    case(np.interp, np.array([-1.0, 0.2, 0.6, 2.0, 7.0]), POINTS, V),
    case(np.interp, np.array([-1.0, 0.2, 7.0]), POINTS, V, left=-5.0, right=6.0),
    case(np.interp, 0.7, POINTS, V),
    case(np.interp, np.array([-1.0, 0.3, 7.0, 5.1]), POINTS + 3.2, V, period=-4.5),
    case(np.interp, np.array([-1.0, 0.2, 7.0]), POINTS[:4] + 3.2, V[:4], left=2.0, period=2.5),
    case(np.cov, M),
    case(np.cov, M, rowvar=False),
    case(np.cov, V, W),
    case(np.cov, M, bias=True),
    case(np.cov, M, ddof=0, aweights=W[:4], fweights=[1, 2, 1, 3]),
    case(np.corrcoef, np.array([V, W])),
    case(np.corrcoef, V, W),
    *(
        case(getattr(ufunc, method), X, **more)
        for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp)
        for method, options in (("reduce", ({}, {"axis": 1, "keepdims": True})), ("accumulate", ({}, {"axis": 2})))
        for more in options
    ),
    case(np.add.reduce, X, axis=(0, 1)),
    case(np.add.reduce, X, axis=None),
    case(np.add.reduce, X, 1, initial=3.0),
    case(np.fmax.reduce, HOLES, axis=1),
]
if hasattr(np, "cumulative_sum"):
    CASES += [
        case(function, x, axis=axis, include_initial=initial)
        for function in (np.cumulative_sum, np.cumulative_prod)
        for initial in (False, True)
        for x, axis in ((X, 1), (X[0, 0, 0, ...], None))
    ]

A = np.array([[3, 1, 2, 1], [5, 1, 2, 2]])
WITHOUT_GRADIENT = [
    *(case(f, X > 0, **more) for f in (np.all, np.any) for more in (*AXES[:4], {"where": MASK})),
    *(case(f, X, **more) for f in (np.argmax, np.argmin) for more in (*ONE_AXIS, {"axis": 1, "keepdims": True})),
    *(case(f, HOLES, **more) for f in (np.nanargmax, np.nanargmin) for more in ({}, {"axis": 0})),
    case(np.argmax, X > 0, axis=1),
    case(np.max, X[:0], axis=0, initial=1.5),
    case(np.count_nonzero, X > 0),
    case(np.count_nonzero, X > 0, axis=(0, 1), keepdims=True),
    case(np.argpartition, V, 2),
    case(np.lexsort, (A[0], A[1])),
    case(np.unique, A),
    case(np.unique, A, return_index=True, return_inverse=True, return_counts=True),
    case(np.unique, A, axis=1),
    case(np.unique_all, A),
    case(np.unique_counts, A),
    case(np.unique_inverse, A),
    case(np.unique_values, A),
    case(np.searchsorted, POINTS, V),
    case(np.searchsorted, POINTS, V, "right"),
    case(np.digitize, V, POINTS),
    case(np.digitize, V, POINTS[::-1], right=True),
    case(np.bincount, A[1]),
    case(np.bincount, A[1], V[:4], 9),
    case(np.histogram, V),
    case(np.histogram, V, bins=3, range=(0, 2)),
    case(np.histogram, V, bins=POINTS, weights=W),
    case(np.histogram2d, V, W, 2),
    case(np.histogram_bin_edges, V, 4),
    case(np.isin, A, [1, 5]),
    case(np.union1d, A[0], A[1]),
    case(np.intersect1d, A[0], A[1]),
    case(np.setdiff1d, A[0], A[1]),
    case(np.setxor1d, A[0], A[1]),
    case(np.logical_and.reduce, X > 0, axis=1),
    case(np.logical_or.reduce, X > 0),
]


def on_tensors(value: Any, leaves: list[rg.Tensor], grad: bool) -> Any:
    if isinstance(value, np.ndarray):
        tensor = rg.from_numpy(value.copy())
        if grad and value.dtype.kind == "f":
            leaves.append(tensor.requires_grad_())
        return tensor
    return tuple(on_tensors(item, leaves, grad) for item in value) if isinstance(value, tuple) else value


def run(function: Any, args: Any, kwargs: Any, grad: bool) -> tuple[list[Any], list[rg.Tensor]]:
    leaves: list[rg.Tensor] = []
    args = [on_tensors(arg, leaves, grad) for arg in args]
    kwargs = {key: on_tensors(value, leaves, grad) if key != "axis" else value for key, value in kwargs.items()}
    result = function(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result], leaves


@pytest.mark.parametrize(("function", "args", "kwargs"), [*CASES, *WITHOUT_GRADIENT])
def test_numpy_reductions_of_tensors_agree_with_numpy(function: Any, args: Any, kwargs: Any) -> None:
    got, _ = run(function, args, kwargs, False)
    expected = function(*args, **kwargs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert type(a) is rg.Tensor
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)
        assert a.numpy().dtype.kind == np.asarray(b).dtype.kind


@pytest.mark.parametrize(("function", "args", "kwargs"), CASES)
def test_gradients_of_numpy_reductions(function: Any, args: Any, kwargs: Any) -> None:
    """The derivative along a random direction, compared with central differences of NumPy's function."""
    results, leaves = run(function, args, kwargs, True)
    results = [result for result in results if result.requires_grad]
    if function is np.argsort:
        assert not results
        return
    assert results
    step, local = 1e-6, np.random.default_rng(1)
    weights = [local.normal(size=result.shape) for result in results]
    directions = [local.normal(size=leaf.shape) for leaf in leaves]
    grads = rg.autograd.grad(results, leaves, [rg.from_numpy(w) for w in weights], allow_unused=True)
    predicted = sum(
        float((grad.numpy() * direction).sum())
        for grad, direction in zip(grads, directions, strict=True)
        if grad is not None
    )

    def moved(sign: float) -> float:
        rest = iter(directions)

        def move(value: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                return value + sign * step * next(rest)
            return tuple(map(move, value)) if isinstance(value, tuple) else value

        there = [move(arg) for arg in args]
        outcome = function(*there, **{key: move(value) if key != "axis" else value for key, value in kwargs.items()})
        outcome = list(outcome) if isinstance(outcome, (tuple, list)) else [outcome]
        return sum(float((w * o).sum()) for w, o in zip(weights, outcome, strict=False))

    measured = (moved(1) - moved(-1)) / (2 * step)
    assert predicted == pytest.approx(measured, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "median", "cumsum", "all", "ptp"])
def test_numpy_reductions_with_out(name: str) -> None:
    x = rg.from_numpy(M.copy())
    expected = getattr(np, name)(M, axis=1)
    out = rg.from_numpy(np.zeros_like(expected))
    assert getattr(np, name)(x, axis=1, out=out) is out
    np.testing.assert_allclose(out.numpy(), expected)
    array = np.zeros_like(expected)
    assert getattr(np, name)(x, axis=1, out=array) is array
    np.testing.assert_allclose(array, expected)
    if name != "all":  # has no gradient
        with pytest.raises(TypeError, match="out="):
            getattr(np, name)(x.requires_grad_(), axis=1, out=array)


def test_numpy_means_of_integers_have_the_default_dtype() -> None:
    x = rg.from_numpy(np.arange(6).reshape(2, 3))
    for function in (np.mean, np.var, np.std, np.median, np.average):
        assert function(x).dtype is rg.float32
        np.testing.assert_allclose(function(x).numpy(), function(x.numpy()), rtol=1e-6)
    assert np.sum(x).dtype is rg.int64
    assert np.percentile(x, 30).dtype is rg.float32
    assert np.mean(x, dtype=np.float64).dtype is rg.float64
    assert np.sum(x, dtype="float32").dtype is rg.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: np.quantile(x, 0.5, method="other"), ValueError, "quantile.*'other' is not one of linear,.* hazen"),
        (lambda x: np.quantile(x, 0.5, weights=np.ones(5)), TypeError, "quantile.*weights"),
        (lambda x: np.var(x, mean=1.0), TypeError, "var.*mean"),
        (lambda x: np.average(x, weights=[1.0, 2.0]), TypeError, "average.*axis"),
        (lambda x: np.average(x, 0, weights=[1.0, 2.0]), ValueError, "average.*shape"),
        (lambda x: np.sort(x, order="f"), TypeError, "sort.*order"),
        (lambda x: np.interp(x, [0.0, 1.0], [0.0, 1.0], period=0.0), ValueError, "interp.*period"),
        (lambda x: np.max(x, where=x > 0), ValueError, "max.*initial"),
        (lambda x: np.gradient(x[:1]), ValueError, "gradient"),
        (lambda x: np.gradient(x, 1.0, 2.0), TypeError, "gradient"),
        (lambda x: np.unique(x.requires_grad_()), TypeError, "unique.*detach"),
        (lambda x: np.histogram(x.requires_grad_()), TypeError, "histogram.*detach"),
        (lambda x: np.sum(x, axis=3), IndexError, "sum"),
    ],
)
def test_numpy_reductions_refuse_unsupported_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(rg.from_numpy(V.copy()))


def test_numpy_functions_without_a_derivative_refuse_tensors_that_require_grad() -> None:
    """Sets and histograms have no derivative; they work if nothing is recorded."""
    x = rg.from_numpy(V.copy()).requires_grad_()
    with rg.no_grad():
        assert type(np.unique(x)) is rg.Tensor
    assert not np.argsort(x).requires_grad
    assert np.partition(x, 2).requires_grad


def test_ndarray_methods_of_tensors() -> None:
    x = rg.from_numpy(V.copy())
    assert x.argpartition(1).tolist()[:2] == V.argpartition(1).tolist()[:2]
    sorted_vector = rg.from_numpy(POINTS.copy())
    for side in ("left", "right"):
        assert sorted_vector.searchsorted(x, side).tolist() == POINTS.searchsorted(V, side).tolist()
    assert sorted_vector.searchsorted(1.5).item() == 2
    assert sorted_vector.searchsorted([0.1, 9.0]).tolist() == [1, 5]


# --- dtypes and shapes at the edges -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
def test_differences_of_small_integers_do_not_wrap(dtype: str) -> None:
    samples = np.array([[3, 1, 0], [0, 2, 5]], dtype)
    for ours, numpys in zip(np.gradient(rg.from_numpy(samples)), np.gradient(samples), strict=True):
        np.testing.assert_allclose(ours.numpy(), numpys)


COUNTS = np.array([3, 1, 0, 2, 5])
BESIDE: dict[str, Any] = {
    "average": lambda x, y: np.average(x, weights=y),
    "total weight": lambda x, y: np.average(x, weights=y, returned=True)[1],
    "cov": np.cov,
    "corrcoef": np.corrcoef,
    "diff": lambda x, y: np.diff(x, prepend=y, append=0.5),
    "ediff1d": lambda x, y: np.ediff1d(x, to_begin=y),
    "trapezoid": np.trapezoid if hasattr(np, "trapezoid") else np.trapz,
    "interp": lambda x, y: np.interp(x, np.sort(y), y + W),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize(
    "pair", [(COUNTS, W), (V.astype("float32"), W), (V, W + 1j * V)], ids=["int", "single", "real"]
)
def test_array_arguments_keep_their_dtype(name: str, pair: Any) -> None:
    """Weights are not rounded to integers when the tensor has integers."""
    function = BESIDE[name]
    for x, y in (pair, pair[::-1]):
        if name == "ediff1d" and not np.can_cast(y.dtype, x.dtype, "same_kind"):
            continue  # NumPy refuses it
        if name == "interp" and np.iscomplexobj(x + y):
            continue  # which have no order
        expected = function(x, y)
        for mixed in (function(rg.from_numpy(x), y), function(x, rg.from_numpy(y))):
            np.testing.assert_allclose(mixed.numpy(), expected, rtol=1e-6)
            assert mixed.dtype.kind == expected.dtype.kind


def test_numbers_and_lists_get_the_dtype_of_the_tensor() -> None:
    x = rg.from_numpy(V.astype("float32"))
    for made in (
        np.diff(x, prepend=0.5),
        np.average(x, weights=W.tolist()),
        np.trapezoid(x, [0, 1, 2, 4, 5]) if hasattr(np, "trapezoid") else x,
        np.cov(x, W.tolist(), aweights=[1, 2, 1, 1, 1]),
        np.ediff1d(x, to_end=1.5),
    ):
        assert made.dtype is rg.float32


@pytest.mark.parametrize("method", ["lower", "higher", "linear"])
def test_percentile_at_an_element_is_that_element(method: str) -> None:
    """70 * 0.01 is more than 70 / 100 and would go past the right element of eleven."""
    for n in (11, 21, 101):
        samples = np.arange(float(n))
        expected = np.percentile(samples, range(101), method=method)
        np.testing.assert_allclose(np.percentile(rg.from_numpy(samples), range(101), method=method).numpy(), expected)
        np.testing.assert_allclose(np.nanpercentile(rg.from_numpy(samples), 70, method=method).numpy(), expected[70])


@pytest.mark.parametrize("samples", [[1.0, np.inf, np.inf], [np.inf, np.inf], [-np.inf, 0.0], [np.inf, np.nan]])
def test_median_of_infinities(samples: list[float]) -> None:
    x = rg.tensor(samples, dtype=rg.float64)
    np.testing.assert_array_equal(np.median(x).numpy(), np.median(samples))
    np.testing.assert_array_equal(np.nanmedian(x).numpy(), np.nanmedian(samples))


@pytest.mark.parametrize(
    "function", [np.sum, np.prod, np.mean, np.var, np.max, np.median, np.nanmean, np.all, np.argmax, np.count_nonzero]
)
def test_axis_may_be_a_numpy_integer(function: Any) -> None:
    for axis in np.arange(3):
        np.testing.assert_allclose(function(rg.from_numpy(X), axis=axis).numpy(), function(X, axis=axis))


def test_linear_algebra_takes_numpy_integers() -> None:
    x, one = rg.from_numpy(X), np.int64(1)
    for order in (None, 3, np.inf):
        np.testing.assert_allclose(np.linalg.norm(x, order, one).numpy(), np.linalg.norm(X, order, one))
    np.testing.assert_allclose(np.linalg.vector_norm(x, axis=one).numpy(), np.linalg.vector_norm(X, axis=one))
    np.testing.assert_allclose(np.linalg.matrix_power(x[:, :, :3], one + 1).numpy(), X[:, :, :3] @ X[:, :, :3])


def test_quantile_of_one_number() -> None:
    for function in (np.quantile, np.nanquantile, np.percentile):
        np.testing.assert_allclose(function(rg.tensor(2.5), [0.2, 0.7]).numpy(), function(np.array(2.5), [0.2, 0.7]))
        with pytest.raises(RuntimeError, match="non-empty"):
            function(rg.zeros(2, 0), 0.3, axis=0)


@pytest.mark.parametrize("left", [np.array([-1.5, 0.0, 2.0]), np.array([0, 3, -1]), 0, -2.5])
@pytest.mark.parametrize("right", [np.array([0.5, 0.5, 0.5], "float32"), np.array([7, 8, 9]), 2, 0.5])
def test_heaviside_promotes_as_numpy_does(left: Any, right: Any) -> None:
    expected = np.heaviside(left, right)
    for pair in ((left, rg.as_tensor(right)), (rg.as_tensor(left), right)):
        np.testing.assert_allclose(np.heaviside(*pair).numpy(), expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_quantiles_at_and_between_elements(method: str, dtype: Any) -> None:
    """At quantiles exactly on an element and halfway between two."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 11):
        x = rng.normal(size=(3, n)).astype(dtype)
        for q in (*np.linspace(0, 1, n + 1), *((np.arange(n) + 0.5) / n)):
            if dtype is np.float32 and method in ("lower", "higher", "midpoint", "nearest"):
                q = np.float32(q)  # as they are computed here
            np.testing.assert_allclose(
                np.quantile(rg.tensor(x), q, axis=1, method=method).numpy(),
                np.quantile(x, np.asarray(q), axis=1, method=method),  # a number is rounded to x's type before 2.4
                rtol=1e-5,
                atol=1e-6,
            )


def test_derivatives_of_numpys_heaviside() -> None:
    """0 by the operand, as where it is not 0, and 1 by the value where that is taken; torch has none."""
    x = rg.tensor([-1.0, 0.0, 2.0, 0.0], requires_grad=True)
    value = rg.tensor([0.5], requires_grad=True)
    np.heaviside(x, value).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 4
    assert value.grad is not None and value.grad.tolist() == [2.0]


def test_heaviside_of_nan() -> None:
    x, values = [np.nan, 0.0, 1.0, np.nan], [5.0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(np.heaviside(rg.tensor(x), rg.tensor(values)).numpy(), np.heaviside(x, values))
    expected = torch.heaviside(torch.tensor(x), torch.tensor(values)).numpy()
    np.testing.assert_array_equal(rg.heaviside(rg.tensor(x), rg.tensor(values)).numpy(), expected)


def test_heaviside_with_a_number_is_refused_as_in_torch() -> None:
    with pytest.raises(TypeError, match="argument 'values' must be Tensor, not int"):
        rg.heaviside(rg.zeros(2), 2)
    with pytest.raises(RuntimeError, match=r"float32 and int64; convert one of them with \.to\(\)"):
        rg.heaviside(rg.zeros(2), rg.tensor(2))
