"""Errors of reductions, cumulative operations and sorts: torch's exception classes, and messages that help."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import to_ours, to_torch

X = np.arange(6, dtype=np.float32).reshape(2, 3)
I = np.arange(6).reshape(2, 3)  # noqa: E741
B = I > 2
C = X + 1j * X
Z = np.array(3, np.float32)
E = np.zeros((0, 3), np.float32)
V = np.array([1.0, 3.0, 5.0], np.float32)
N = np.array([0, 3, 6])

SUMS = ["sum", "mean", "nansum", "nanmean", "prod", "logsumexp", "all", "any", "count_nonzero"]
EXTREMES = ["amax", "amin", "max", "min", "argmax", "argmin"]
STATISTICS = ["median", "nanmedian", "mode", "var", "std", "var_mean", "std_mean"]
ALONG = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "argsort"]

DIMS = [
    *((name, (X, 5)) for name in [*SUMS, *EXTREMES, *STATISTICS]),
    *((name, (X, -3)) for name in ALONG),
    *(
        (name, (Z, 1))
        for name in ["sum", "mean", "prod", "logsumexp", "amax", "max", "argmin", "median", "var", "mode"]
    ),
    *((name, (Z, 1)) for name in ["cumsum", "cummin", "sort"]),
    ("norm", (X, 2, 5)),
    ("norm", (X, 2, (0, 0))),
    ("sum", (X, (0, 0))),
    ("mean", (X, (0, -2))),
    ("amax", (X, (1, 1))),
    ("var", (X, (0, 0))),
    ("topk", (X, 2, 5)),
    ("topk", (Z, 1, 1)),
    ("kthvalue", (X, 1, 5)),
    ("quantile", (X, 0.5, 5)),
    ("quantile", (Z, 0.5, 1)),
    ("renorm", (X, 2, 5, 1.0)),
    ("unique", (X,), {"dim": 4}),
    ("unique", (Z,), {"dim": 0}),
    ("unique_consecutive", (X,), {"dim": 4}),
    ("diff", (X,), {"dim": 4}),
    ("trapezoid", (X,), {"dim": 4}),
    ("trapezoid", (Z,)),
    ("gradient", (X,), {"dim": 4}),
    ("aminmax", (X,), {"dim": 4}),
]

EMPTY = [
    *((name, (E,)) for name in [*EXTREMES, "aminmax"]),
    *((name, (E, 0)) for name in [*EXTREMES, "median", "nanmedian", "mode"]),
    ("aminmax", (E,), {"dim": 0}),
    ("kthvalue", (E, 1, 0)),
    ("topk", (E, 1, 0)),
    ("quantile", (E, 0.5)),
    ("norm", (E, float("inf"))),
    ("norm", (E, float("-inf"), 0)),
    ("unique", (E,), {"dim": 1}),
    ("unique_consecutive", (E,), {"dim": 1}),
]

DTYPES = [
    *((name, (C,)) for name in [*EXTREMES, "aminmax", "nansum", "nanmean", "median", "mode", "histc"]),
    *((name, (C,)) for name in ["sort", "argsort", "msort", "unique", "unique_consecutive"]),
    *((name, (C, 1)) for name in ["max", "min", "cummax", "cummin", "topk", "kthvalue", "nanmedian"]),
    *((name, (I,)) for name in ["mean", "var", "std", "var_mean", "norm", "nanmean", "histc"]),
    *((name, (B,)) for name in ["argmax", "argmin", "median", "mean", "var", "std", "norm", "cov", "histc"]),
    *((name, (B, 1)) for name in ["topk", "kthvalue", "median"]),
    ("logcumsumexp", (I, 0)),
    ("quantile", (I, 0.5)),
    ("quantile", (X.astype(np.float16), 0.5)),
    ("histogram", (I, 3)),
    ("isin", (C, C)),
    ("dist", (I, I)),
    ("bincount", (V,)),
    ("bincount", (B[0],)),
]

VALUES = [
    ("sum", (3,)),
    ("max", (X, (0, 1))),
    ("max", (X, 1.5)),
    ("max", (X,), {"keepdim": True}),
    ("min", (X, (0, 1))),
    ("prod", (X, (0, 1))),
    ("std", (X, 0, True), {"correction": 0}),
    ("var", (X, 0, True), {"correction": 0}),
    ("norm", (X, "foo")),
    ("norm", (X, "nuc", 0)),
    ("norm", (X[None], "nuc")),
    ("renorm", (V, 2, 0, 1.0)),
    ("renorm", (X, -2, 0, 1.0)),
    ("renorm", (X, 2, 0, -1.0)),
    ("renorm", (X, 2, 0, float("nan"))),
    ("dist", (X, V[:2])),
    ("topk", (X, 5)),
    ("topk", (X, -1)),
    ("kthvalue", (X, 0)),
    ("kthvalue", (X, 4)),
    ("quantile", (X, 1.5)),
    ("quantile", (X, V)),
    ("quantile", (X, V[None] / 9)),
    ("quantile", (X, np.array(0.5))),
    ("quantile", (X, [0.5])),
    ("quantile", (X, 0.5), {"interpolation": "foo"}),
    ("nanquantile", (X, 0.5), {"interpolation": "foo"}),
    ("diff", (Z,)),
    ("diff", (X, -1)),
    ("diff", (X,), {"prepend": V}),
    ("trapezoid", (X, V[:2])),
    ("trapezoid", (X, X), {"dx": 2}),
    ("cumulative_trapezoid", (X, V[:2])),
    ("gradient", (X,), {"edge_order": 3}),
    ("gradient", (X.astype(np.uint8),)),
    ("gradient", (X,), {"edge_order": 2}),
    ("gradient", (X,), {"spacing": (2.0,)}),
    ("gradient", (X,), {"dim": (0, 0)}),
    ("searchsorted", (V, V), {"side": "foo"}),
    ("searchsorted", (V, V), {"side": "left", "right": True}),
    ("searchsorted", (X, V)),
    ("searchsorted", (X, 3)),
    ("searchsorted", (Z, V)),
    ("searchsorted", (V, V), {"sorter": np.array([0, 1])}),
    ("searchsorted", (V, V), {"sorter": V - 1}),
    ("searchsorted", (V, V), {"sorter": np.array([0, 1, 2], np.int32)}),
    ("searchsorted", (V, V), {"sorter": np.array([0, 1, 5])}),
    ("bucketize", (V, X)),
    ("isin", (1, 1)),
    ("bincount", (-N,)),
    ("bincount", (I,)),
    ("bincount", (N,), {"minlength": -1}),
    ("bincount", (N, V[:2])),
    ("histc", (X, 0)),
    ("histc", (X,), {"bins": 3, "min": 4, "max": 1}),
    ("histc", (np.array([1, np.nan], np.float32), 3)),
    ("histogram", (X, X)),
    ("histogram", (X, 3), {"range": (4.0, 1.0)}),
    ("histogram", (X, 3), {"weight": X.astype(np.float64)}),
    ("cov", (X[None],)),
    ("cov", (X,), {"fweights": V}),
    ("cov", (X,), {"aweights": N}),
    ("cov", (X,), {"fweights": N[:2]}),
    ("cov", (X,), {"fweights": -N}),
    ("cov", (X,), {"aweights": -V}),
    ("cov", (X,), {"aweights": V[None]}),
    ("cov", (X,), {"aweights": V * 0}),
    ("corrcoef", (X[None],)),
    ("logsumexp", (X,)),
    ("cumsum", (X,)),
    ("cumsum", (X, 0), {"nonsense": 1}),
]

CASES = [
    pytest.param(name, args, more[0] if more else {}, id=f"{name}-{position}")
    for position, (name, args, *more) in enumerate([*DIMS, *EMPTY, *DTYPES, *VALUES])
]


def attempt(library: Any, convert: Any, name: str, args: Any, kwargs: Any) -> Exception | None:
    def tensors(value: Any) -> Any:
        return convert(value.copy()) if isinstance(value, np.ndarray) else value

    try:
        getattr(library, name)(*map(tensors, args), **{key: tensors(value) for key, value in kwargs.items()})
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_wrong_reductions_are_refused_as_in_torch(name: str, args: Any, kwargs: Any) -> None:
    theirs = attempt(torch, to_torch, name, args, kwargs)
    ours = attempt(rg, to_ours, name, args, kwargs)
    assert theirs is not None, "torch accepts this"
    assert isinstance(ours, type(theirs)), f"{ours!r}, but torch has {theirs!r}"
    assert name in str(ours).replace("linalg.", "") or name in ("dist", "msort", "var_mean", "std_mean"), str(ours)
    assert len(str(ours)) < 600


def test_missing_derivative_is_reported_in_backward() -> None:
    x = rg.from_numpy(X.copy()).requires_grad_()
    for function in (rg.unique, rg.unique_consecutive):
        result = function(x)
        assert result.requires_grad
        with pytest.raises(NotImplementedError, match=function.__name__):
            result.sum().backward()


def test_sorted_values_may_be_overwritten() -> None:
    """Only the indices are saved, as in torch."""
    for library, convert in ((rg, to_ours), (torch, to_torch)):
        x = convert(V.copy()).requires_grad_()
        for results in (
            library.sort(x),
            library.topk(x, 2),
            library.max(x, 0),
            library.median(x, 0),
            library.cummax(x, 0),
        ):
            results.values.mul_(2)
            results.values.sum().backward()
        assert x.grad is not None


def test_bincount_is_differentiable_in_its_weights() -> None:
    weights = rg.from_numpy(V.copy()).requires_grad_()
    counts = rg.bincount(rg.from_numpy(np.array([2, 0, 2])), weights)
    (counts * rg.from_numpy(np.array([1, 2, 3], np.float32))).sum().backward()
    assert weights.grad.tolist() == [3.0, 1.0, 3.0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("correction", [3, 4])
def test_cov_without_degrees_of_freedom_warns(correction: int) -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert not np.isfinite(rg.cov(rg.from_numpy(X.copy()), correction=correction).numpy()).any()


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (1, 3), (3, 1), (0, 3)])
@pytest.mark.parametrize("given", [{}, {"dim": 0}, {"dim": -1, "correction": 0}, {"correction": 2}, {"correction": -3}])
def test_var_and_std_without_degrees_of_freedom_warn_as_in_torch(
    name: str, shape: tuple[int, ...], given: dict[str, int]
) -> None:
    """They warn exactly where torch does, and the warning points to the caller's line."""

    def warnings_of(library: Any) -> list[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            getattr(library, name)(library.ones(shape), **given)
        return caught

    ours = warnings_of(rg)
    assert len(ours) == len(warnings_of(torch))
    for warning in ours:
        assert str(warning.message).startswith(f"{name}(): degrees of freedom is <= 0")
        assert warning.filename == __file__


@pytest.mark.parametrize(
    ("function", "kwargs"),
    [
        (rg.sum, {"dim": 0}),
        (rg.amax, {"dim": (0, 1)}),
        (rg.var, {"dim": 0}),
        (rg.norm, {"dim": 0}),
        (rg.cumsum, {"dim": 0}),
        (rg.msort, {}),
        (rg.quantile, {"q": 0.5, "dim": 0}),
        (rg.median, {}),
        (rg.max, {}),
    ],
)
def test_reductions_with_out(function: Any, kwargs: Any) -> None:
    x = rg.from_numpy(X.copy())
    expected = function(x, **kwargs)
    out = rg.from_numpy(np.zeros(tuple(expected.shape), np.float32))
    assert function(x, **kwargs, out=out) is out
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("name", sorted({*SUMS, *EXTREMES, *STATISTICS} - {"count_nonzero"}))
@pytest.mark.parametrize("second", [0, 1, 2, None], ids=str)
def test_several_positional_dimensions_are_refused(name: str, second: Any) -> None:
    """``x.sum(0, 1)`` neither sums over two dimensions nor keeps one."""
    if second is None and name in ("var", "std", "var_mean", "std_mean"):
        return  # torch refuses a None that stands for a missing argument
    with pytest.raises(TypeError):
        getattr(torch, name)(to_torch(X), 0, second)
    for x in (to_ours(X), to_ours(X).requires_grad_()):
        for call in (getattr(rg, name), getattr(rg.Tensor, name, getattr(rg, name))):
            with pytest.raises(TypeError, match=rf"{name}\(\): argument '(keepdim|unbiased)'.* dim=\(0, 1\)"):
                call(x, 0, second)


def test_keepdim_is_accepted_by_name_or_as_a_bool() -> None:
    x = to_ours(X)
    for kept in (
        rg.sum(x, 0, True),
        np.sum(x, axis=0, keepdims=1),
        np.max(x, 0, None, 1),
    ):
        assert kept.shape == (1, 3)


def test_out_of_reductions_with_several_results() -> None:
    x = rg.from_numpy(X.copy())
    for function in (rg.max, rg.sort, rg.median, rg.cummin):
        expected = function(x, 1)
        out = tuple(rg.from_numpy(np.zeros_like(item.numpy())) for item in expected)
        function(x, 1, out=out)
        assert [item.tolist() for item in out] == [item.tolist() for item in expected]
