"""NumPy functions that reshape, join, index and assign: values on Tensors as on arrays, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.ops.harness import as_array, flatten

X = np.arange(12.0).reshape(3, 4) ** 1.5 + 1
V = np.linspace(1, 2, 5)
S = np.array(2.5)
T = np.arange(24.0).reshape(2, 3, 4) + 0.5
Z = np.array([0.0, 0.0, 1.5, 0.0, 2.5, 0.0])

# Functions of Tensors or arrays; results must agree, and gradients must match finite differences.
CALLS: list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]] = [
    ("reshape", lambda x: np.reshape(x, (4, 3)), (X,)),
    ("reshape -1", lambda x: np.reshape(x, -1), (X,)),
    ("reshape keyword", lambda x: np.reshape(x, shape=(2, 6)) if np.__version__ >= "2.1" else x.reshape(2, 6), (X,)),
    ("reshape F", lambda x: np.reshape(x, (2, -1), order="F"), (X,)),
    ("ravel", np.ravel, (X,)),
    ("ravel F", lambda x: np.ravel(x, order="F"), (T,)),
    ("resize", lambda x: np.resize(x, (2, 8)), (X,)),
    ("resize smaller", lambda x: np.resize(x, 3), (X,)),
    ("compress", lambda x: x.compress([True, False, True], 0), (X,)),
    ("trim_zeros of zeros", lambda x: np.trim_zeros(x - x), (V,)),
    ("pad no side of one axis", lambda x: np.pad(x, ((0, 0), (2, 1)), "reflect"), (X,)),
    ("transpose", np.transpose, (T,)),
    ("transpose axes", lambda x: np.transpose(x, (1, -1, 0)), (T,)),
    ("permute_dims", lambda x: np.permute_dims(x, axes=(1, 2, 0)), (T,)),
    ("matrix_transpose", np.matrix_transpose, (T,)),
    ("swapaxes", lambda x: np.swapaxes(x, 0, -1), (T,)),
    ("swapaxes keywords", lambda x: np.swapaxes(x, axis1=0, axis2=1), (T,)),
    ("moveaxis", lambda x: np.moveaxis(x, 0, -1), (T,)),
    ("moveaxis several", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (T,)),
    ("rollaxis", lambda x: np.rollaxis(x, 2), (T,)),
    ("rollaxis start", lambda x: np.rollaxis(x, 0, 3), (T,)),
    ("rollaxis back", lambda x: np.rollaxis(x, 2, 1), (T,)),
    ("squeeze", lambda x: np.squeeze(x[:, None, :, None]), (X,)),
    ("squeeze axis", lambda x: np.squeeze(x[:, None, :, None], axis=(1, -1)), (X,)),
    ("expand_dims", lambda x: np.expand_dims(x, 1), (X,)),
    ("expand_dims several", lambda x: np.expand_dims(x, (0, -1, 2)), (X,)),
    ("broadcast_to", lambda v: np.broadcast_to(v, (2, 5)), (V,)),
    ("broadcast_to int", lambda s: np.broadcast_to(s, 3), (S,)),
    ("broadcast_arrays", lambda x, s: np.broadcast_arrays(x, s), (X, S)),
    ("atleast_1d", lambda s, v: np.atleast_1d(s, v), (S, V)),
    ("atleast_2d", lambda s, v: np.atleast_2d(s, v), (S, V)),
    ("atleast_3d", lambda s, v, x: np.atleast_3d(s, v, x), (S, V, X)),
    ("concatenate", lambda x, y: np.concatenate([x, y]), (X, X[:1])),
    ("concatenate axis", lambda x, y: np.concatenate((x, y), axis=-1), (X, X[:, :2])),
    ("concatenate flat", lambda x, v: np.concatenate([x, v], axis=None), (X, V)),
    ("concatenate dtype", lambda x, y: np.concatenate([x, y], dtype="float32"), (X, X)),
    ("concatenate mixed", lambda x: np.concatenate([x, np.ones((1, 4))]), (X,)),
    ("concat", lambda x, y: np.concat([x, y], axis=1), (X, X)),
    ("stack", lambda x, y: np.stack([x, y]), (X, X)),
    ("stack axis", lambda x, y: np.stack([x, y], axis=-1), (X, X)),
    ("stack rows", lambda x: np.stack(x), (X,)),
    ("hstack", lambda x, y: np.hstack([x, y]), (X, X[:, :1])),
    ("hstack vectors", lambda v, s: np.hstack([v, s]), (V, S)),
    ("vstack", lambda x, y: np.vstack([x, y]), (X, X[0])),
    ("dstack", lambda x, y: np.dstack([x, y]), (X, X)),
    ("column_stack", lambda v, w: np.column_stack([v, w]), (V, V)),
    ("block", lambda x, y: np.block([[x, y], [y, x]]), (X, X)),
    ("block uneven", lambda x, s, v: np.block([[x, np.zeros((3, 1))], [v]]), (X, S, V)),
    ("block flat", lambda v, s: np.block([v, s, 1.0]), (V, S)),
    ("block single", lambda x: np.block(x), (X,)),
    ("append", lambda x, v: np.append(x, v), (X, V)),
    ("append axis", lambda x, y: np.append(x, y, axis=1), (X, X)),
    ("insert", lambda v: np.insert(v, 2, 7.0), (V,)),
    ("insert value", lambda v, s: np.insert(v, -1, s), (V, S)),
    ("insert many", lambda v: np.insert(v, [0, 3, 3], [7.0, 8.0, 9.0]), (V,)),
    ("insert axis", lambda x, v: np.insert(x, 1, v, axis=1), (X, V[:3])),
    ("insert rows", lambda x, y: np.insert(x, [0, 2], y, axis=0), (X, X[:2])),
    ("insert slice", lambda v: np.insert(v, slice(0, 4, 2), 9.0), (V,)),
    ("insert several at one place", lambda x, y: np.insert(x, 1, y, axis=0), (X, X[:2])),
    ("delete", lambda v: np.delete(v, 1), (V,)),
    ("delete flat", lambda x: np.delete(x, [0, 5]), (X,)),
    ("delete axis", lambda x: np.delete(x, [0, -1], axis=1), (X,)),
    ("delete slice", lambda x: np.delete(x, slice(None, None, 2), axis=0), (X,)),
    ("split", lambda x: np.split(x, 2, axis=1), (X,)),
    ("split at", lambda x: np.split(x, [1, 3], axis=1), (X,)),
    ("array_split", lambda v: np.array_split(v, 3), (V,)),
    ("hsplit", lambda x: np.hsplit(x, 2), (X,)),
    ("vsplit", lambda x: np.vsplit(x, [1]), (X,)),
    ("dsplit", lambda x: np.dsplit(x, 2), (T,)),
    ("unstack", lambda x: np.unstack(x, axis=1) if hasattr(np, "unstack") else [x], (X,)),
    ("tile", lambda x: np.tile(x, 2), (X,)),
    ("tile more", lambda x: np.tile(x, (2, 1, 2)), (X,)),
    ("repeat", lambda x: np.repeat(x, 2), (X,)),
    ("repeat axis", lambda x: np.repeat(x, 2, axis=1), (X,)),
    ("repeat each", lambda x: np.repeat(x, [2, 0, 1], axis=0), (X,)),
    ("roll", lambda x: np.roll(x, 2), (X,)),
    ("roll axis", lambda x: np.roll(x, -1, axis=1), (X,)),
    ("roll axes", lambda x: np.roll(x, (1, 2), axis=(0, 1)), (X,)),
    ("roll broadcast", lambda x: np.roll(x, 1, axis=(0, 1)), (X,)),
    ("flip", np.flip, (X,)),
    ("flip axis", lambda x: np.flip(x, 1), (X,)),
    ("flip axes", lambda x: np.flip(x, axis=(0, -1)), (T,)),
    ("fliplr", np.fliplr, (X,)),
    ("flipud", np.flipud, (X,)),
    ("rot90", np.rot90, (X,)),
    ("rot90 axes", lambda x: np.rot90(x, k=3, axes=(1, 2)), (T,)),
    ("pad", lambda x: np.pad(x, 1), (X,)),
    ("pad widths", lambda x: np.pad(x, ((1, 0), (2, 1))), (X,)),
    ("pad values", lambda x: np.pad(x, 1, constant_values=3), (X,)),
    ("pad values by side", lambda x: np.pad(x, ((1, 1), (2, 1)), constant_values=((1, 2), (3, 4))), (X,)),
    ("pad edge", lambda x: np.pad(x, ((1, 0), (2, 6)), mode="edge"), (X,)),
    ("pad reflect", lambda x: np.pad(x, (2, 5), mode="reflect"), (X,)),
    ("pad symmetric", lambda x: np.pad(x, 3, mode="symmetric"), (X,)),
    *(
        (f"pad {mode}", lambda x, mode=mode: np.pad(x, ((0, 2), (3, 0)), mode=mode, stat_length=(2, 9)), (X,))
        for mode in ("maximum", "minimum", "mean", "median")
    ),
    ("pad mean", lambda x: np.pad(x, (1, 2), mode="mean"), (X,)),
    ("pad linear ramp", lambda x: np.pad(x, ((3, 1), (0, 2)), mode="linear_ramp", end_values=((1, 2), (3, 4))), (X,)),
    ("pad reflect odd", lambda x: np.pad(x, (5, 9), mode="reflect", reflect_type="odd"), (X,)),
    ("pad symmetric odd", lambda x: np.pad(x, (9, 5), mode="symmetric", reflect_type="odd"), (X,)),
    ("pad wrap", lambda x: np.pad(x, (1, 7), mode="wrap"), (X,)),
    ("trim_zeros", np.trim_zeros, (Z,)),
    ("trim_zeros front", lambda z: np.trim_zeros(z, "f"), (Z,)),
    ("diag", np.diag, (X,)),
    ("diag k", lambda v: np.diag(v, k=-1), (V,)),
    ("diagflat", lambda x: np.diagflat(x, 1), (X,)),
    ("diagonal", lambda x: np.diagonal(x, offset=1, axis1=1, axis2=2), (T,)),
    ("tril", lambda x: np.tril(x, k=-1), (X,)),
    ("triu", lambda x: np.triu(x, 1), (T,)),
    # indexing
    ("take", lambda x: np.take(x, [0, -1, 5]), (X,)),
    ("take axis", lambda x: np.take(x, [[0, 1], [2, 2]], axis=1), (X,)),
    ("take one", lambda x: np.take(x, 1, axis=0), (X,)),
    ("take wrap", lambda x: np.take(x, [5, -7], axis=1, mode="wrap"), (X,)),
    ("take clip", lambda x: np.take(x, [50, -7], mode="clip"), (X,)),
    ("take_along_axis", lambda x: np.take_along_axis(x, np.array([[0], [3], [-1]]), axis=1), (X,)),
    ("take_along_axis flat", lambda x: np.take_along_axis(x, np.array([7, 0]), axis=None), (X,)),
    ("compress", lambda x: np.compress([True, False, True], x, axis=0), (X,)),
    ("extract", lambda x: np.extract(np.arange(12).reshape(3, 4) % 3 == 0, x), (X,)),
    ("choose", lambda x, y: np.choose(np.array([[0, 1, 1, 0]] * 3), [x, y]), (X, -X)),
    ("choose wrap", lambda v, w: np.choose(np.array([0, 3, -1, 1, 2]), [v, w], mode="wrap"), (V, -V)),
    ("select", lambda x, y: np.select([x > 20, x > 5], [x, y * 2], 1.0), (X, X)),
    ("argsort and take", lambda x: np.take_along_axis(x, np.argsort(-as_array(x), axis=1), axis=1), (X,)),
    ("copy", np.copy, (X.T,)),
    ("astype", lambda x: np.astype(x, np.float32) if hasattr(np, "astype") else x.astype(np.float32), (X,)),
]


def values(result: Any) -> list[np.ndarray]:
    return [as_array(item) for item in flatten(result)]


@pytest.mark.parametrize(("function", "arrays"), [pytest.param(f, a, id=name) for name, f, a in CALLS])
def test_numpy_shape_functions_values_and_gradients(
    function: Callable[..., Any], arrays: tuple[np.ndarray, ...]
) -> None:
    leaves = [rg.from_numpy(array.copy()).requires_grad_() for array in arrays]
    got = flatten(function(*leaves))
    assert all(isinstance(item, rg.Tensor) for item in got)
    expected = values(function(*arrays))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert as_array(a).dtype == b.dtype
        np.testing.assert_array_equal(as_array(a), b)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=b.shape).astype(b.dtype) for b in expected]
    used = [(a, w) for a, w in zip(got, weights, strict=True) if a.requires_grad]
    grads = rg.autograd.grad(
        [a for a, _ in used], leaves, [rg.from_numpy(w) for _, w in used], allow_unused=True, create_graph=True
    )
    # the functions are linear, up to constants
    for k, (array, grad) in enumerate(zip(arrays, grads, strict=True)):
        direction = rng.normal(size=array.shape) * 0.02 * (array != 0)
        moved = values(function(*arrays[:k], array + direction, *arrays[k + 1 :]))
        difference = sum(np.sum(w * (m - b)) for w, m, b in zip(weights, moved, expected, strict=True))
        predicted = 0.0 if grad is None else np.sum(as_array(grad) * direction)
        assert difference == pytest.approx(predicted, rel=1e-3, abs=1e-5)


PLACING: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("copyto", lambda x, v: np.copyto(x, v)),
    ("copyto where", lambda x, v: np.copyto(x, v, where=np.array([True, False, True, False]))),
    ("put_along_axis", lambda x, v: np.put_along_axis(x, np.array([[1], [-1], [0]]), v[0], axis=1)),
    ("put_along_axis flat", lambda x, v: np.put_along_axis(x, np.array([0, 5]), v[:2], axis=None)),
    ("put", lambda x, v: np.put(x, [0, -1, 3], v)),
    ("put few", lambda x, v: np.put(x, [0, 5, 3], v[:2])),
    ("put wrap", lambda x, v: np.put(x, [12], v[:1], mode="wrap")),
    ("place", lambda x, v: np.place(x, np.arange(12).reshape(3, 4) % 2 == 0, v)),
    ("putmask", lambda x, v: np.putmask(x, np.arange(12).reshape(3, 4) % 2 == 0, v)),
    ("fill_diagonal", lambda x, v: np.fill_diagonal(x, v[0])),
    ("fill_diagonal values", lambda x, v: np.fill_diagonal(x, v[:3])),
]


@pytest.mark.parametrize(("function"), [pytest.param(f, id=name) for name, f in PLACING])
def test_numpy_functions_that_assign_elements(function: Callable[[Any, Any], Any]) -> None:
    new = V[:4] * 10
    expected = X.copy()
    function(expected, new)
    x, v = rg.from_numpy(X.copy()).requires_grad_(), rg.from_numpy(new.copy()).requires_grad_()
    y = x * 1
    assert function(y, v) is None
    np.testing.assert_array_equal(as_array(y), expected)
    weight = np.random.default_rng(0).normal(size=X.shape)
    (y * rg.from_numpy(weight)).sum().backward()
    stays = expected == X
    np.testing.assert_allclose(as_array(x.grad), np.where(stays, weight, 0))
    assert as_array(v.grad).sum() == pytest.approx(weight[~stays].sum())


def test_assigning_a_tensor_that_requires_grad_to_an_array_is_refused() -> None:
    with pytest.raises(TypeError, match="ndarray"):
        np.copyto(np.zeros(2), rg.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="ndarray"):
        np.put(np.zeros(2), [0], rg.ones(1, requires_grad=True))
    with pytest.raises(TypeError, match="ndarray"):
        np.put_along_axis(np.zeros(2), np.array([0]), rg.ones(1, requires_grad=True), 0)


def test_numpy_index_functions_return_tensors() -> None:
    x = rg.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    for got, expected in (
        (np.nonzero(x), ([0, 1], [1, 0])),
        ([np.flatnonzero(x)], [[1, 2]]),
        ([np.argwhere(x)], [[[0, 1], [1, 0]]]),
        (np.tril_indices_from(x), ([0, 1, 1], [0, 0, 1])),
        (np.triu_indices_from(x, k=1), ([0], [1])),
        (np.diag_indices_from(x), ([0, 1], [0, 1])),
        (np.unravel_index(rg.tensor([1, 2]), (2, 2)), ([0, 1], [1, 0])),
        ([np.ravel_multi_index((rg.tensor([0, 1]), rg.tensor([1, 0])), (2, 2))], [[1, 2]]),
        (np.ix_(rg.tensor([0, 1]), rg.tensor([1])), ([[0], [1]], [[1]])),
    ):
        for a, b in zip(got, expected, strict=True):
            assert isinstance(a, rg.Tensor)
            assert a.dtype == rg.int64
            assert not a.requires_grad
            assert a.tolist() == b


def test_shape_ndim_and_size_are_numbers() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    assert np.shape(x) == (2, 3)
    assert np.ndim(x) == 2
    assert (np.size(x), np.size(x, 1)) == (6, 3)


def test_numpy_like_functions_return_tensors() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    for got, value in (
        (np.zeros_like(x), 0),
        (np.ones_like(x), 1),
        (np.full_like(x, 2), 2),
        (np.full_like(x, x[0, 0]), 1),
    ):
        assert isinstance(got, rg.Tensor)
        assert not got.requires_grad or value == 1
        assert got.dtype == rg.float32
        assert got.tolist() == [[value] * 3] * 2
    assert np.zeros_like(x, dtype=int, shape=4).tolist() == [0] * 4
    assert np.empty_like(x, dtype="float64").dtype == rg.float64


def test_which_numpy_functions_return_views() -> None:
    x = rg.zeros(2, 3)
    for view in (
        np.reshape(x, 6),
        np.ravel(x),
        np.transpose(x),
        np.swapaxes(x, 0, 1),
        np.expand_dims(x, 0),
        np.diagonal(x),
    ):
        assert view._is_view()
        assert view._base is x
    for fresh in (
        np.flip(x),
        np.roll(x, 1),
        np.copy(x),
        np.tile(x, 1),
        np.rot90(x),
        np.reshape(x, 6, copy=True) if np.__version__ >= "2.1" else np.copy(x),
    ):
        assert not np.shares_memory(fresh.numpy(), x.numpy())


def test_numpy_out_is_a_recorded_write() -> None:
    x = rg.from_numpy(X.copy()).requires_grad_()
    target = rg.zeros(2, 3, 4, dtype=rg.float64)
    assert np.stack([x, x * 2], out=target) is target
    target.sum().backward()
    assert x.grad.tolist() == [[3.0] * 4] * 3


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.reshape(x, (5,)), RuntimeError),
        (lambda x: np.ravel(x, order="X"), TypeError),
        (lambda x: np.squeeze(x, 0), ValueError),
        (lambda x: np.split(x, 2), ValueError),
        (lambda x: np.concatenate([x.requires_grad_(), x], out=np.zeros((6, 4))), TypeError),
        (lambda x: np.take(x, [0], None, x), TypeError),
        (lambda x: np.take(x, [12]), IndexError),
        (lambda x: np.pad(x, 1, mode=lambda vector, widths, axis, options: None), TypeError),
        (lambda x: np.pad(x, 1, mode="reflect", reflect_type="other"), ValueError),
        (lambda x: np.pad(x, 1, mode="mean", end_values=1), ValueError),
        (lambda x: np.pad(x, 1, mode="maximum", stat_length=0), ValueError),
        (lambda x: np.pad(x[:0], 1, mode="mean"), ValueError),
        (lambda x: np.trim_zeros(x), TypeError),
        (lambda x: np.choose(np.array([2]), [x, x]), ValueError),
        (lambda x: np.select([x > 0], [x, x]), ValueError),
        (lambda x: np.copyto(x, x > 0, casting="no"), TypeError),
        (lambda x: np.expand_dims(x, 5), IndexError),
    ],
)
def test_numpy_shape_functions_refuse_unsupported_arguments(call: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(rg.from_numpy(X.copy()))


@pytest.mark.parametrize("mode", ["maximum", "mean", "median", "linear_ramp", "edge", "reflect", "wrap", "empty"])
def test_padding_integers_agrees_with_numpy(mode: str) -> None:
    x = np.arange(12).reshape(3, 4) ** 2
    padded = np.pad(rg.tensor(x), ((2, 3), (5, 0)), mode).numpy()
    assert padded.dtype == x.dtype and padded.shape == (8, 9)
    if mode != "empty":
        np.testing.assert_array_equal(padded, np.pad(x, ((2, 3), (5, 0)), mode))


def test_broadcasting_none_beside_tensors() -> None:
    """Plotting libraries do this with settings that may be None."""
    heights, edges, widths = np.broadcast_arrays(rg.from_numpy(V), None, 0.8)
    assert type(heights) is type(widths) is rg.Tensor
    np.testing.assert_array_equal(heights.numpy(), V)
    np.testing.assert_array_equal(widths.numpy(), [0.8] * 5)
    assert edges.tolist() == [None] * 5


@pytest.mark.parametrize("function", [np.place, np.putmask], ids=lambda function: function.__name__)
def test_error_about_assigning_to_an_array_names_the_function(function: Any) -> None:
    with pytest.raises(TypeError, match=rf"^numpy\.{function.__name__}: .*ndarray"):
        function(np.zeros(3), np.array([True, False, True]), rg.ones(2, requires_grad=True))


def test_assigning_no_values() -> None:
    """As in NumPy, this is an error only if there are places to fill."""
    for target in (np.zeros(2), rg.zeros(2)):
        with pytest.raises(ValueError, match=r"(?i)cannot insert from an empty array"):
            np.place(target, np.array([True, False]), rg.tensor([]))
        np.place(target, np.array([False, False]), rg.tensor([]))
        assert target.tolist() == [0, 0]
