"""Batched arrays: NumPy functions give the same results as for each sample alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.batching import BatchedArray, Level, hide, lift, reveal, total
from retrograd.batching.dispatch import RULES

OUTER, INNER = Level(2), Level(3)

SQUARE = (3, 3)
POSITIVE = 2 * np.eye(3)

# Calls on one sample: the shapes of its arrays, and a function of them.
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., Any]]] = {
    # arithmetic and broadcasting
    "operators": (((2, 3), (3,)), lambda a, b: (a + b * 2 - 1) / (abs(b) + 1) ** 2 % 3),
    "broadcasting": (((2, 1), (4,), ()), lambda a, b, c: a * b + c),
    "comparison": (((2, 3), (2, 3)), lambda a, b: (a > b) & ~(a == b)),
    "unary ufuncs": (((2, 3),), lambda a: np.exp(np.sin(-a)) + np.sign(a)),
    "several results": (((2, 3),), lambda a: np.modf(a)),
    "where": (((2, 3), (3,)), lambda a, b: np.where(a > 0, a, b)),
    "clip": (((2, 3), (3,)), lambda a, b: (np.clip(a, -0.5, None), np.clip(a, b, b + 1))),
    "elementwise functions": (
        ((4,),),
        lambda a: (np.nan_to_num(a), np.round(a, 1), np.around(a), np.angle(a), np.sinc(a), np.i0(a)),
    ),
    "infinities": (((4,),), lambda a: (np.isposinf(a / 0), np.isneginf(a / 0), np.real_if_close(a))),
    "isclose": (((4,), (4,)), lambda a, b: np.isclose(a, a + 1e-9 * b)),
    "real and imaginary part": (((2,),), lambda a: (np.real(a * 1j), np.imag(a * 1j), (a * 1j).imag, a.real)),
    "outer": (((2,), (3,)), lambda a, b: (np.multiply.outer(a, b), np.outer(a, b))),
    # shape
    "reshape": (((2, 6),), lambda a: (a.reshape(3, 4), np.reshape(a, (-1,)), a.ravel(), a.flatten(), np.ravel(a))),
    "reshape in Fortran order": (((2, 6),), lambda a: (a.reshape((3, 4), order="F"), a.reshape(-1, order="F"))),
    "transpose": (((2, 3, 4),), lambda a: (a.T, a.transpose(1, 2, 0), np.transpose(a, (2, 0, 1)), np.permute_dims(a))),
    "moving axes": (((2, 3, 4),), lambda a: (np.moveaxis(a, 0, -1), np.swapaxes(a, 0, 2), np.rot90(a), a.mT)),
    "matrix_transpose": (((2, 3),), lambda a: np.matrix_transpose(a)),
    "expand_dims and squeeze": (((1, 3, 1),), lambda a: (np.expand_dims(a, (0, 2)), np.squeeze(a), a.squeeze(0))),
    "broadcast_to": (((3,), (2, 1)), lambda a, b: (np.broadcast_to(a, (2, 3)), np.broadcast_arrays(a, b))),
    "atleast": (
        ((), (3,)),
        lambda a, b: (np.atleast_1d(a), np.atleast_2d(b), np.atleast_1d(a, b), np.atleast_2d(a, b)),
    ),
    "shape, ndim, size": (((2, 3),), lambda a: np.zeros((*np.shape(a), np.ndim(a), np.size(a), np.size(a, 0)))),
    "descriptions": (((4,),), lambda a: np.array(_descriptions(a))),
    "equality": (((3,), (3,)), lambda a, b: [np.logical_not(np.array_equal(a, x)) for x in (b, +a, b[1:])]),
    "like": (((2, 3),), lambda a: (np.zeros_like(a), np.ones_like(a, shape=(2,)), np.full_like(a, 7.0, dtype=int))),
    "like, in index order": (((2, 3),), lambda a: [_written_flat(make, a) for make in (np.zeros_like, np.ones_like)]),
    "made like it": (((2, 3),), lambda a: np.zeros_like(np.empty_like(a)) + np.zeros(3, like=a) + np.arange(3, like=a)),
    "copies and casts": (((2, 3),), lambda a: (a.copy(), np.copy(a), a.astype("f4"), np.astype(a, np.float32))),
    # joining and splitting
    "concatenate": (((2, 3), (1, 3)), lambda a, b: (np.concatenate((a, b)), np.concatenate((a, b), None))),
    "stack": (((2, 3), (2, 3)), lambda a, b: (np.stack((a, b)), np.stack((a, b), -1), np.vstack((a, b)))),
    "split": (((6, 2),), lambda a: (np.split(a, 3), np.array_split(a, [1, 4]), np.split(a, 2, -1))),
    "tile and repeat": (((2, 3),), lambda a: (np.tile(a, (2, 1, 2)), np.repeat(a, 2), np.repeat(a, [1, 2], 0))),
    "pad": (((2, 3),), lambda a: (np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), "edge"))),
    "flip and roll": (((2, 3),), lambda a: (np.flip(a), np.flip(a, 0), np.roll(a, 1), np.roll(a, (1, 2), (0, 1)))),
    "diagonals": (((3, 3),), lambda a: (np.diagonal(a, 1), np.trace(a), np.tril(a), np.triu(a, 1))),
    # reductions
    "sums": (((2, 3),), lambda a: (a.sum(), a.sum(0), np.sum(a, axis=(0, 1), keepdims=True), np.prod(a, -1))),
    "moments": (((2, 3),), lambda a: (a.mean(1), np.std(a), np.var(a, 0, ddof=1), np.median(a, 0))),
    "extremes": (((2, 3),), lambda a: (a.max(), a.min(0), np.ptp(a, 1), np.amax(a), np.amin(a, 0), np.nanmax(a))),
    "truth": (((2, 3),), lambda a: ((a > 0).any(1), (a > 0).all(), np.count_nonzero(a > 0, 0))),
    "without NaN": (
        ((2, 3),),
        lambda a: [
            f(np.where(np.arange(3) == 1, np.nan, a), 1)
            for f in (np.nansum, np.nanprod, np.nanmean, np.nanstd, np.nanvar)
        ],
    ),
    "more without NaN": (((2, 3),), lambda a: (np.nanmin(a, 0), np.nanmedian(a), np.nancumsum(a), np.nancumprod(a, 0))),
    "positions of extremes": (((2, 3),), lambda a: (a.argmax(), a.argmin(0), np.nanargmax(a, 1), np.nanargmin(a))),
    "sums at places": (((3,),), lambda a: np.bincount(np.array([1, 4, 1]), a, 3)),
    "running": (((2, 3),), lambda a: (np.cumsum(a), np.cumprod(a, 1), np.maximum.accumulate(a, 1), np.diff(a, axis=0))),
    "reductions of ufuncs": (
        ((2, 3),),
        lambda a: (np.add.reduce(a), np.multiply.reduce(a, (0, 1)), np.add.reduceat(a, [0])),
    ),
    "sorting": (((2, 5),), lambda a: (np.sort(a), np.argsort(a, 0), np.partition(a, 2)[..., 2], np.sort(a, None))),
    "partitions": (((5,),), lambda a: np.take_along_axis(a, np.argpartition(a, 2), 0)[2]),
    "windows": (((5,),), lambda a: np.lib.stride_tricks.sliding_window_view(a, 3)),
    # indexing
    "basic indices": (((3, 4),), lambda a: (a[0], a[..., 1], a[:, None], a[1:, ::2], a[-1, -1], a[()], a[..., ::-1])),
    "arrays of indices": (((3, 4),), lambda a: (a[[0, 2]], a[:, [1, 0]], a[[0, 1], [2, 3]], a[[[0], [2]], [1, 3]])),
    "masks": (((3, 4),), lambda a: (a[np.arange(3) > 0], a[np.eye(3, 4) > 0])),
    "separated indices": (((3, 4, 5),), lambda a: (a[[0, 1], :, [2, 3]], a[0, :, [2, 3]], a[:, [1], [[0], [4]]])),
    "indices that differ": (((5, 4), (3,)), lambda a, i: _with(a, i)[_whole(i, 5)]),
    "indices in the middle": (
        ((2, 5, 4), (3,)),
        lambda a, i: [
            _with(a, i)[index] for index in ((slice(None), _whole(i, 5)), (1, _whole(i, 5)), (..., _whole(i, 4)))
        ],
    ),
    "separated indices that differ": (
        ((3, 4, 5), (2,)),
        lambda a, i: _with(a, i)[_whole(i, 3), :, _whole(i, 5)],
    ),
    "take": (
        ((5, 4), (2, 3)),
        lambda a, i: (np.take(a, [1, 2], 1), _with(a, i).take(_whole(i, 4), 1), np.take(_with(a, i), _whole(i, 20))),
    ),
    "take_along_axis": (((5, 4), (2, 4)), lambda a, i: np.take_along_axis(a, _whole(i, 5), 0)),
    # products
    "matmul": (((2, 3), (3, 4)), lambda a, b: (a @ b, np.matmul(a, b), np.dot(a, b), np.inner(a, b.T))),
    "matmul of vectors": (((3,), (3, 4), (4,)), lambda a, b, c: (a @ b, b @ c, a @ a, np.vdot(a, a), np.dot(c, c))),
    "matmul of stacks": (((2, 3, 4), (4, 5), (3,)), lambda a, b, c: (a @ b, c @ a, np.vecdot(a, a))),
    "tensordot": (((2, 3, 4), (4, 3, 5)), lambda a, b: (np.tensordot(a, b, ((1, 2), (1, 0))), np.tensordot(a, b, 1))),
    "einsum": (((2, 3), (3, 4), (3,)), lambda a, b, c: (np.einsum("ij,jk", a, b), np.einsum("...j,j->...", a, c))),
    "kron and cross": (((2, 3), (4, 3)), lambda a, b: (np.kron(a, b), np.cross(a[:, None], b, axis=-1))),
    # linear algebra
    "inverse": ((SQUARE, (3,)), lambda a, b: (np.linalg.inv(_pd(a)), np.linalg.solve(_pd(a), b), np.linalg.pinv(a))),
    "solve": ((SQUARE, (3, 2)), lambda a, b: (np.linalg.solve(_pd(a), b), np.linalg.det(a), np.linalg.slogdet(a))),
    "decompositions": (
        (SQUARE,),
        lambda a: (np.linalg.cholesky(_pd(a)), np.linalg.eigvalsh(_pd(a)), np.linalg.svdvals(a)),
    ),
    "factors": (
        (SQUARE,),
        lambda a: (_product(*np.linalg.svd(a)), np.multiply(*_qr_signs(a)), np.linalg.matrix_power(a, 3)),
    ),
    "eigenvectors": (
        (SQUARE,),
        lambda a: (_eigen(*np.linalg.eigh(_pd(a))), _eigen(*np.linalg.eig(_pd(a))), np.linalg.eigvals(_pd(a)).sum()),
    ),
    "vecdot": (((2, 3), (2, 3)), lambda a, b: (np.linalg.vecdot(a, b), np.linalg.vecdot(a, b, axis=0))),
    # Fourier transforms
    "fft": (
        ((4, 6),),
        lambda a: (np.fft.fft(a), np.fft.ifft(a, axis=0), np.fft.rfft(a, 4), np.fft.irfft(a), np.fft.hfft(a)),
    ),
    "fftn": (
        ((4, 6),),
        lambda a: (np.fft.fftn(a), np.fft.ifftn(a, axes=(0,)), np.fft.rfftn(a, (2, 3), (0, 1)), np.fft.irfftn(a)),
    ),
    "shifts": (((4, 6),), lambda a: (np.fft.fftshift(a), np.fft.ifftshift(a, 0), np.fft.ihfft(a))),
    "products with a number": (((), (3,)), lambda a, b: (np.dot(a, b), np.dot(b, a), np.inner(b, a), np.inner(a, 2.0))),
    "products along other axes": (
        ((2, 3), (2, 3)),
        lambda a, b: (np.vecdot(a, b, axis=0), np.matmul(a, b, axes=[(-1, -2), (0, 1), (0, 1)])),
    ),
    "sums under a condition": (
        ((2, 3), (3,)),
        lambda a, b: (np.sum(a, 0, where=b > 0), np.add.reduce(a, 1, where=b > 0)),
    ),
    "elements of all": (((5, 4), (3,)), lambda a, i: np.take_along_axis(a, _whole(i, 20), None)),
    "a mask beside indices that differ": (
        ((3, 4), (2,)),
        lambda a, i: _with(a, i)[np.arange(3) > 0, _whole(i, 4)],
    ),
    "pseudoinverse": (
        (SQUARE, ()),
        lambda a, b: (np.linalg.pinv(a, 0.5), np.linalg.pinv(_whole_batch(a, b), _below(b))),
    ),
    # functions without a rule
    "sample by sample": (
        ((4,), (3,)),
        lambda a, b: (np.convolve(a, b), np.linalg.norm(a), np.interp(b, np.arange(4), a)),
    ),
    "nested arguments": (((2, 2), (2, 2)), lambda a, b: np.block([[a, b], [b, a]])),
}


def _whole(a: Any, n: int) -> Any:
    """Turn any numbers into indices below ``n``."""
    return (abs(a) * 100).astype(np.int64) % n


def _below(b: Any) -> Any:
    """Turn any number into one between 0 and 1."""
    return 1 / (1 + abs(b))


def _whole_batch(a: Any, b: Any) -> Any:
    """Return ``a``, batched if ``b`` is, in addition to its own levels."""
    return a if type(a) is BatchedArray else _with(a, b)


def _with(a: Any, i: Any) -> Any:
    """Return ``a``, batched if ``i`` is, because an ordinary array does not take batched indices."""
    return a + 0 * i.sum()


def _pd(a: Any) -> Any:
    """Return a positive definite matrix."""
    return a @ a.mT + POSITIVE


def _product(u: Any, s: Any, vh: Any) -> Any:
    return (u * s[..., None, :]) @ vh


def _descriptions(a: Any) -> list[bool]:
    return [
        *(np.can_cast(a, "i4"), np.can_cast(a, "c16"), np.can_cast(a, "i4", casting="unsafe")),
        *(np.min_scalar_type(a) == a.dtype, np.result_type(a, 1j) == "c16", np.result_type(a, np.float32(1)) == "f8"),
        *(np.shares_memory(a[::2], a[1::2]), np.shares_memory(a, a[1:]), np.shares_memory(a, a + 1)),
        *(np.may_share_memory(a, a[1:]), np.may_share_memory(a, a + 1)),
        *(np.iscomplexobj(a), np.iscomplexobj(a * 1j), np.isrealobj(a), np.isrealobj(a * 1j)),
    ]


def _written_flat(make: Any, a: Any) -> Any:
    """Return an array made like ``a`` and written through a flat view."""
    made = make(a.T, order="C")
    made.reshape(-1)[:2] = a[0, :2]
    return made


def _eigen(values: Any, vectors: Any) -> Any:
    return (vectors * values[..., None, :]) @ np.linalg.inv(vectors)


def _qr_signs(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    return q @ r, np.ones_like(a)


def flat(result: Any) -> list[Any]:
    return [part for item in result for part in flat(item)] if isinstance(result, (tuple, list)) else [result]


def operands(shapes: Any, levels: Any, seed: int) -> list[Any]:
    """Return random arrays with the hidden axes of their levels; a lifted level has an axis of length 1."""
    rng = np.random.default_rng(seed)
    made = []
    for shape, (own, lifted) in zip(shapes, levels, strict=True):
        array = rng.normal(size=(*(level.size for level in own), *shape))
        batched: Any = BatchedArray(array, own) if own else array
        made.append(lift(batched, lifted) if lifted else batched)
    return made


def sample(operand: Any, at: dict[Level, int]) -> Any:
    if type(operand) is not BatchedArray:
        return operand
    index = [at[level] if n > 1 else 0 for level, n in zip(operand.levels, operand.hidden, strict=True)]
    return operand.array[(*index, ...)]


# the levels on which an array varies, and those on which it is lifted
LEVELS = st.sampled_from(
    [
        ((), ()),
        ((OUTER,), ()),
        ((INNER,), ()),
        ((OUTER, INNER), ()),
        ((), (OUTER,)),
        ((OUTER,), (INNER,)),
        ((INNER,), (OUTER,)),
    ]
)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=12, deadline=None)
def test_numpy_functions_on_batched_arrays(name: str, data: Any, seed: int) -> None:
    shapes, function = CALLS[name]
    arrays = operands(shapes, [data.draw(LEVELS) for _ in shapes], seed)
    result = flat(function(*arrays))
    for index in np.ndindex(OUTER.size, INNER.size):
        at = {OUTER: index[0], INNER: index[1]}
        expected = flat(function(*[sample(array, at) for array in arrays]))
        assert len(result) == len(expected)
        for got, wanted in zip(result, expected, strict=True):
            own = sample(got, at)
            assert np.shape(got) == np.shape(wanted)
            assert own.dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(own, wanted, rtol=1e-9, atol=1e-9)


def test_every_batching_rule_is_tested() -> None:
    """Only rules for writing and for refusals are not reached by the calls above."""
    reached: set[Any] = set()
    originals = dict(RULES)
    try:
        for function, answer in originals.items():
            RULES[function] = lambda *args, function=function, answer=answer, **kwargs: (
                reached.add(function),  # type: ignore[func-returns-value]
                answer(*args, **kwargs),
            )[1]
        with np.errstate(all="ignore"):
            for shapes, call in CALLS.values():
                call(*operands(shapes, [((OUTER, INNER), ())] * len(shapes), 0))
    finally:
        RULES.update(originals)
    writing = {np.copyto, np.put_along_axis, np.fill_diagonal, np.put, np.place, np.putmask}
    refused = {function for function in originals if originals[function].__qualname__.startswith("_dynamic")}
    missing = set(originals) - reached - writing - refused
    assert sorted(function.__name__ for function in missing) == []


# --- writing ----------------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[Any, Any], None]] = {
    "a slice": lambda x, v: x.__setitem__((slice(None), 1), v[0, :3]),
    "everything": lambda x, v: x.__setitem__(..., v),
    "a mask that is the same": lambda x, v: x.__setitem__(np.eye(3, 4) > 0, v[0, :3]),
    "a mask that differs": lambda x, v: x.__setitem__(x > 0, 7.0),
    "elements": lambda x, v: x.__setitem__(([0, 2], [1, 3]), v[0, :2]),
    "elements that differ": lambda x, v: x.__setitem__(_whole(v[:, 0], 3), v[0]),
    "separated elements": lambda x, v: x.__setitem__((slice(None), _whole(v[0, :2], 4)), 5.0),
    "in-place operators": lambda x, v: (x.__iadd__(v), x.__imul__(v[0]), x.__isub__(1.0), x.__itruediv__(2.0), None)[
        -1
    ],
    "out of a ufunc": lambda x, v: _exp_where(x, v),
    "at positions of a vector": lambda x, v: np.add.at(x.reshape(-1), _whole(v[0], 12), v[1]),
    "at positions of a matrix": lambda x, v: np.add.at(x, _whole(v[0, :2], 3), v[1]),
    "matmul": lambda x, v: np.matmul(v[:3, :3], v, out=x),
    "several results": lambda x, v: np.divmod(v, 0.5, out=(x, None)),
    "one of several results where a condition holds": lambda x, v: np.divmod(v, 0.5, out=(x, None), where=v > 0),
    "sums": lambda x, v: (np.add.reduce(v, 0, out=x[0]), np.sum(v[:, :3], 1, out=x[:, 1]), None)[-1],
    "running sums": lambda x, v: (np.add.accumulate(v, 1, out=x), np.cumsum(v[:2], 0, out=x[1:]), None)[-1],
    "a row from a matrix of one row": lambda x, v: x.__setitem__(0, v[1:2]),
    "elements of all": lambda x, v: np.put_along_axis(x, _whole(v[0], 12), v[1], None),
    "copyto": lambda x, v: np.copyto(x, v[0], where=x > 0),
    "put_along_axis": lambda x, v: np.put_along_axis(x, _whole(v[:1], 3), v[1:2], 0),
    "fill_diagonal": lambda x, v: np.fill_diagonal(x, 3.0),
    "put": lambda x, v: np.put(x, [0, 5], v[0, :2]),
    "fill and sort": lambda x, v: (x[0].fill(3.0), x.sort(0), None)[-1],
}


def _exp_where(x: Any, v: Any) -> None:
    np.exp(v, out=x, where=v > 0)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("levels", [((OUTER,), (OUTER,)), ((OUTER, INNER), (INNER,)), ((OUTER,), ())])
def test_writing_to_batched_arrays(name: str, levels: Any) -> None:
    x, v = operands(((3, 4), (3, 4)), [(own, ()) for own in levels], 3)
    before = x.copy()
    WRITES[name](x, v)
    for index in np.ndindex(OUTER.size, INNER.size):
        at = {OUTER: index[0], INNER: index[1]}
        alone = sample(before, at).copy()
        WRITES[name](alone, sample(v, at))
        np.testing.assert_allclose(sample(x, at), alone)


def test_writing_a_batch_into_an_array_without_its_axis_is_refused() -> None:
    x, v = operands(((3,), (3,)), [((), ()), ((OUTER,), ())], 0)
    for write in (
        lambda: np.add(x, v, out=x),
        lambda: np.copyto(lift(x, (OUTER,)), v),
        lambda: np.add.at(x, [0], v[0]),
    ):
        with pytest.raises(RuntimeError, match=r"inplace arithmetic.*not being vmapped over"):
            write()
    with pytest.raises(RuntimeError, match="written into a tensor that is not batched"):
        x[...] = v


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.zeros_like(x, order="C"),
        lambda x: np.ones_like(x, shape=(4, 3), order="C"),
        lambda x: np.empty_like(x, order="C"),
        lambda x: np.full_like(x, 2.0, order="C"),
        lambda x: np.full_like(1.0 * x, x[0, 0], order="C"),
        lambda x: np.copy(x, order="C"),
        lambda x: x.copy(),
    ],
)
def test_new_row_major_arrays_can_be_written_to_as_vectors(make: Any) -> None:
    x = hide(np.ones((3, 2, 4)), 1, OUTER)
    made = make(x)
    made.reshape(-1)[5] = 7.0
    np.testing.assert_array_equal(made.array[:, *np.unravel_index(5, made.shape)], [7.0, 7.0])


# --- borders ----------------------------------------------------------------------------------------------------------


@given(st.permutations([OUTER, INNER]), st.integers(-3, 2), st.integers(-2, 1), st.integers(-3, 2))
def test_hide_and_reveal_are_inverse(order: list[Level], first: int, second: int, back: int) -> None:
    sizes = {OUTER: 2, INNER: 3}
    shape = [5]
    shape.insert(second % 2, sizes[order[1]])
    shape.insert(first % 3, sizes[order[0]])
    x = np.arange(30.0).reshape(shape)
    hidden = hide(hide(x, first, order[0]), second, order[1])
    assert hidden.shape == (5,)
    assert [level.number for level in hidden.levels] == sorted(level.number for level in order)
    once = reveal(hidden, second, order[1])
    np.testing.assert_array_equal(reveal(once, first, order[0]), x)
    other = reveal(once, back, order[0])
    np.testing.assert_array_equal(np.moveaxis(other, back, first), x)


def test_total_is_the_adjoint_of_lift() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=4), BatchedArray(rng.normal(size=(2, 3, 4)), (OUTER, INNER))
    lifted = lift(x, (OUTER, INNER))
    assert lifted.array.shape == (1, 1, 4)
    np.testing.assert_allclose(total(g, (OUTER, INNER)), g.array.sum((0, 1)))
    assert (lifted * g).array.sum() == pytest.approx((x * total(g, (OUTER, INNER))).sum())
    np.testing.assert_allclose(total(lifted, (OUTER, INNER)), 6 * x)
    np.testing.assert_allclose(total(g, (OUTER,)).array, g.array.sum(0))
    np.testing.assert_allclose(total(x, (INNER,)), 3 * x)


def test_truth_value_needs_agreement_of_all_samples() -> None:
    assert BatchedArray(np.array([True, True]), (OUTER,))
    assert not BatchedArray(np.array([False, False]), (OUTER,))
    with pytest.raises(RuntimeError, match=r"differs between the samples of the batch.*where\(condition, a, b\)"):
        bool(BatchedArray(np.array([True, False]), (OUTER,)))


def test_errors_about_batched_arrays_describe_one_sample() -> None:
    x = BatchedArray(np.zeros((2, 3, 4)), (OUTER,))
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        np.sum(x, axis=2)
    with pytest.raises(ValueError, match=r"size 12 into shape \(5,\)"):
        x.reshape(5)
    with pytest.raises(IndexError):
        x[3]
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(3, 4\) do not match"):
        x @ x
    with pytest.raises(TypeError, match="unsized"):
        len(x[0, 0])
