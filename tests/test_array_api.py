"""The array API standard, compared with array-api-strict, which has exactly its definitions; and SciPy on top."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy

import retrograd as rg
from retrograd import array_api as xp

LEFT_OUT = {"uint16", "uint32", "uint64"}  # unsupported dtypes
OF_STRICT = {name for name in strict.__all__ if "flags" in name.lower()} | {"Device", "__version__"}

R = np.random.default_rng(0)
A = R.normal(size=(3, 4))
B = R.normal(size=(3, 4))
P = np.abs(A) + 0.5
U = np.tanh(A)
I = R.integers(-4, 5, size=(3, 4))  # noqa: E741
J = R.integers(1, 4, size=(3, 4))
T = A > 0
V = R.normal(size=7)
M = R.normal(size=(2, 3, 3)) + 3 * np.eye(3)
S = M @ M.swapaxes(-1, -2)
C = A + 1j * B

UNARY = {
    "abs": (A, I, C),
    "acos": (U,),
    "acosh": (P + 1,),
    "asin": (U,),
    "asinh": (A,),
    "atan": (A,),
    "atanh": (U,),
    "bitwise_invert": (I, T),
    "ceil": (A, I),
    "conj": (C,),
    "cos": (A, C),
    "cosh": (A,),
    "exp": (A, C),
    "expm1": (A,),
    "floor": (A, I),
    "imag": (C,),
    "isfinite": (A, I),
    "isinf": (A, I),
    "isnan": (A, I),
    "log": (P,),
    "log10": (P,),
    "log1p": (P,),
    "log2": (P,),
    "logical_not": (T,),
    "negative": (A, I),
    "positive": (A, I),
    "real": (C,),
    "reciprocal": (A,),
    "round": (A, I),
    "sign": (A, I),
    "signbit": (A,),
    "sin": (A,),
    "sinh": (A,),
    "sqrt": (P,),
    "square": (A, I),
    "tan": (A,),
    "tanh": (A,),
    "trunc": (A, I),
    "matrix_transpose": (A,),
    "nonzero": (I,),
    "unique_all": (I,),
    "unique_counts": (I,),
    "unique_inverse": (I,),
    "zeros_like": (A, I),
    "ones_like": (A, I),
}

BINARY = {
    "add": ((A, B), (I, J)),
    "atan2": ((A, B),),
    "bitwise_and": ((I, J), (T, ~T)),
    "bitwise_left_shift": ((J, J),),
    "bitwise_or": ((I, J),),
    "bitwise_right_shift": ((I, J),),
    "bitwise_xor": ((I, J),),
    "copysign": ((A, B),),
    "divide": ((A, B),),
    "equal": ((I, J),),
    "floor_divide": ((A, B), (I, J)),
    "greater": ((A, B),),
    "greater_equal": ((I, J),),
    "hypot": ((A, B),),
    "less": ((A, B),),
    "less_equal": ((I, J),),
    "logaddexp": ((A, B),),
    "logical_and": ((T, ~T),),
    "logical_or": ((T, ~T),),
    "logical_xor": ((T, T),),
    "maximum": ((A, B), (I, J)),
    "minimum": ((A, B),),
    "multiply": ((A, B), (I, J)),
    "nextafter": ((A, B),),
    "not_equal": ((I, J),),
    "pow": ((P, B), (J, J)),
    "remainder": ((A, B), (I, J)),
    "subtract": ((A, B), (I, J)),
    "vecdot": ((A, B),),
}

# How to call each function, given a namespace and a function that makes its arrays.
Call = Callable[[Any, Callable[[Any], Any]], Any]
CALLS: dict[str, list[Call]] = {
    "all": [lambda n, a: n.all(a(T), axis=1), lambda n, a: n.all(a(T), axis=(0, 1), keepdims=True)],
    "any": [lambda n, a: n.any(a(T)), lambda n, a: n.any(a(T), axis=0, keepdims=True)],
    "arange": [
        lambda n, a: n.arange(5),
        lambda n, a: n.arange(1, 7, 2),
        lambda n, a: n.arange(3, 1),
        lambda n, a: n.arange(4, 0, -1),
        lambda n, a: n.arange(0.0, 1.0, 0.25, dtype=n.float64),
    ],
    "argmax": [lambda n, a: n.argmax(a(A)), lambda n, a: n.argmax(a(A), axis=1, keepdims=True)],
    "argmin": [lambda n, a: n.argmin(a(A), axis=0)],
    "argsort": [lambda n, a: n.argsort(a(A)), lambda n, a: n.argsort(a(I), axis=0, descending=True)],
    "asarray": [
        lambda n, a: n.asarray([1, 2, 3]),
        lambda n, a: n.asarray([[1.0, 2.0]], dtype=n.float64),
        lambda n, a: n.asarray(a(A), copy=True),
        lambda n, a: n.asarray(True),
    ],
    "astype": [lambda n, a: n.astype(a(I), n.float64), lambda n, a: n.astype(a(A), n.float32, copy=False)],
    "broadcast_arrays": [lambda n, a: n.broadcast_arrays(a(A), a(A[0]))],
    "broadcast_shapes": [lambda n, a: n.broadcast_shapes((3, 1), (4,))],
    "broadcast_to": [lambda n, a: n.broadcast_to(a(A[0]), (2, 3, 4))],
    "can_cast": [
        lambda n, a: [n.can_cast(n.float32, n.float64), n.can_cast(n.float64, n.float32), n.can_cast(n.int8, n.int32)],
        lambda n, a: n.can_cast(a(A), n.float32),
    ],
    "clip": [
        lambda n, a: n.clip(a(A), -0.5, 0.5),
        lambda n, a: n.clip(a(A), min=0.0),
        lambda n, a: n.clip(a(A), max=a(B)),
        lambda n, a: n.clip(a(I), -1, 2),
        lambda n, a: n.clip(a(A)),
    ],
    "concat": [
        lambda n, a: n.concat([a(A), a(B)]),
        lambda n, a: n.concat([a(A), a(B)], axis=1),
        lambda n, a: n.concat([a(A), a(V)], axis=None),
        lambda n, a: n.concat([a(A.astype(np.float32)), a(B)]),
    ],
    "count_nonzero": [
        lambda n, a: n.count_nonzero(a(I)),
        lambda n, a: n.count_nonzero(a(I), axis=1, keepdims=True),
    ],
    "cumulative_prod": [
        lambda n, a: n.cumulative_prod(a(V)),
        lambda n, a: n.cumulative_prod(a(A), axis=-1, include_initial=True),
    ],
    "cumulative_sum": [
        lambda n, a: n.cumulative_sum(a(V), include_initial=True),
        lambda n, a: n.cumulative_sum(a(I), axis=0),
        lambda n, a: n.cumulative_sum(a(I), axis=0, dtype=n.float64),
    ],
    "diff": [
        lambda n, a: n.diff(a(V)),
        lambda n, a: n.diff(a(A), axis=0, n=2),
        lambda n, a: n.diff(a(A), axis=1, prepend=a(A[:, :1]), append=a(B)),
    ],
    "empty": [lambda n, a: n.zeros_like(n.empty((2, 3), dtype=n.float64))],
    "empty_like": [lambda n, a: n.zeros_like(n.empty_like(a(I)))],
    "expand_dims": [lambda n, a: n.expand_dims(a(A), axis=1), lambda n, a: n.expand_dims(a(A), axis=-1)],
    "eye": [
        lambda n, a: n.eye(3, dtype=n.float64),
        lambda n, a: n.eye(2, 4, k=1, dtype=n.int64),
        lambda n, a: n.eye(4, 2, k=-3, dtype=n.float64),
        lambda n, a: n.eye(2, k=5, dtype=n.float64),
    ],
    "flip": [lambda n, a: n.flip(a(A)), lambda n, a: n.flip(a(A), axis=(0,))],
    "from_dlpack": [lambda n, a: n.from_dlpack(a(A))],
    "full": [lambda n, a: n.full((2, 3), 7), lambda n, a: n.full(3, True), lambda n, a: n.full((), 1, dtype=n.float64)],
    "full_like": [lambda n, a: n.full_like(a(A), 2), lambda n, a: n.full_like(a(A), 2, dtype=n.int32)],
    "isin": [lambda n, a: n.isin(a(I), a(J)), lambda n, a: n.isin(a(I), 2)],
    "linspace": [
        lambda n, a: n.linspace(0, 1, 5, dtype=n.float64),
        lambda n, a: n.linspace(0.0, 1.0, 4, endpoint=False, dtype=n.float64),
        lambda n, a: n.linspace(2, 2, 0, dtype=n.float64),
    ],
    "matmul": [lambda n, a: n.matmul(a(A), a(B.T)), lambda n, a: n.matmul(a(M), a(M))],
    "max": [lambda n, a: n.max(a(A)), lambda n, a: n.max(a(A), axis=(0, 1), keepdims=True)],
    "mean": [lambda n, a: n.mean(a(A), axis=0, keepdims=True), lambda n, a: n.mean(a(A))],
    "meshgrid": [lambda n, a: n.meshgrid(a(V), a(A[0])), lambda n, a: n.meshgrid(a(V), a(A[0]), indexing="ij")],
    "min": [lambda n, a: n.min(a(I), axis=1)],
    "moveaxis": [lambda n, a: n.moveaxis(a(M), 0, -1), lambda n, a: n.moveaxis(a(M), (0, 1), (2, 0))],
    "ones": [lambda n, a: n.ones((2, 2), dtype=n.float64), lambda n, a: n.ones(3, dtype=n.int8)],
    "permute_dims": [lambda n, a: n.permute_dims(a(M), (2, 0, 1))],
    "prod": [lambda n, a: n.prod(a(A), axis=1), lambda n, a: n.prod(a(J))],
    "repeat": [
        lambda n, a: n.repeat(a(A), 2, axis=1),
        lambda n, a: n.repeat(a(V), 3),
        lambda n, a: n.repeat(a(A), a(np.array([1, 0, 2])), axis=0),
    ],
    "reshape": [
        lambda n, a: n.reshape(a(A), (4, 3)),
        lambda n, a: n.reshape(a(A), (-1,), copy=True),
        lambda n, a: n.reshape(a(A), (2, 6), copy=False),
    ],
    "result_type": [
        lambda n, a: n.zeros(1, dtype=n.result_type(n.float32, a(A))),
        lambda n, a: n.zeros(1, dtype=n.result_type(a(A.astype(np.float32)), 1.0)),
        lambda n, a: n.zeros(1, dtype=n.result_type(n.int8, n.int32, 3)),
        lambda n, a: n.zeros(1, dtype=n.result_type(n.complex64, n.float64)),
    ],
    "roll": [lambda n, a: n.roll(a(A), 1), lambda n, a: n.roll(a(A), (1, -1), axis=(0, 1))],
    "searchsorted": [
        lambda n, a: n.searchsorted(a(np.sort(V)), a(A[0])),
        lambda n, a: n.searchsorted(a(V), a(A[0]), side="right", sorter=a(np.argsort(V))),
    ],
    "sort": [lambda n, a: n.sort(a(A)), lambda n, a: n.sort(a(A), axis=0, descending=True)],
    "squeeze": [lambda n, a: n.squeeze(a(A[:, :1]), axis=1)],
    "stack": [lambda n, a: n.stack([a(A), a(B)]), lambda n, a: n.stack([a(A), a(B)], axis=-1)],
    "std": [lambda n, a: n.std(a(A), axis=0, correction=1), lambda n, a: n.std(a(A), keepdims=True)],
    "sum": [
        lambda n, a: n.sum(a(A), axis=(0, 1)),
        lambda n, a: n.sum(a(I), axis=0, keepdims=True),
        lambda n, a: n.sum(a(I.astype(np.int8))),
        lambda n, a: n.sum(a(A.astype(np.float32)), dtype=n.float64),
        lambda n, a: n.sum(a(A.astype(np.float32)), axis=1),
    ],
    "take": [
        lambda n, a: n.take(a(V), a(np.array([2, 0]))),
        lambda n, a: n.take(a(A), a(np.array([2, 0])), axis=1),
    ],
    "take_along_axis": [lambda n, a: n.take_along_axis(a(A), a(np.argsort(A)), axis=-1)],
    "tensordot": [
        lambda n, a: n.tensordot(a(A), a(B.T), axes=1),
        lambda n, a: n.tensordot(a(A), a(B), axes=((0, 1), (0, 1))),
    ],
    "tile": [lambda n, a: n.tile(a(A), (2, 1)), lambda n, a: n.tile(a(A), (2, 1, 3))],
    "tril": [lambda n, a: n.tril(a(A)), lambda n, a: n.tril(a(M), k=-1)],
    "triu": [lambda n, a: n.triu(a(A), k=1)],
    "unique_values": [lambda n, a: n.sort(n.unique_values(a(I)))],  # whose order is unspecified
    "unstack": [lambda n, a: n.unstack(a(A)), lambda n, a: n.unstack(a(A), axis=1)],
    "var": [lambda n, a: n.var(a(A), axis=1, correction=1.0), lambda n, a: n.var(a(A))],
    "where": [lambda n, a: n.where(a(T), a(A), a(B)), lambda n, a: n.where(a(T), a(A), 0.0)],
    "zeros": [lambda n, a: n.zeros((2, 0), dtype=n.float64), lambda n, a: n.zeros(3, dtype=n.bool)],
    "isdtype": [
        lambda n, a: [
            n.isdtype(n.float32, each) for each in ("real floating", "numeric", "bool", ("integral", "bool"))
        ],
        lambda n, a: n.isdtype(n.int8, n.int8),
    ],
    "finfo": [lambda n, a: [n.finfo(n.float32).eps, n.finfo(n.float64).max, n.finfo(n.float32).smallest_normal]],
    "iinfo": [lambda n, a: [n.iinfo(n.int8).min, n.iinfo(n.int64).max]],
    "linalg": [
        lambda n, a: n.linalg.cholesky(a(S)),
        lambda n, a: n.linalg.cholesky(a(S), upper=True),
        lambda n, a: n.linalg.cross(a(M[0]), a(M[1]), axis=-2),
        lambda n, a: n.linalg.det(a(M)),
        lambda n, a: n.linalg.diagonal(a(M), offset=1),
        lambda n, a: n.linalg.eigh(a(S)).eigenvalues,
        lambda n, a: n.linalg.eigvalsh(a(S)),
        lambda n, a: n.linalg.inv(a(M)),
        lambda n, a: n.linalg.matmul(a(M), a(M)),
        lambda n, a: n.linalg.matrix_norm(a(M), ord="nuc", keepdims=True),
        lambda n, a: n.linalg.matrix_power(a(M), 3),
        lambda n, a: n.linalg.matrix_rank(a(M), rtol=1e-3),
        lambda n, a: n.linalg.matrix_transpose(a(M)),
        lambda n, a: n.linalg.outer(a(V), a(V)),
        lambda n, a: n.linalg.pinv(a(A), rtol=1e-6),
        lambda n, a: n.linalg.qr(a(A), mode="reduced").R,
        lambda n, a: list(n.linalg.slogdet(a(M))),
        lambda n, a: n.linalg.solve(a(M), a(M)),
        lambda n, a: n.linalg.svd(a(A), full_matrices=False).S,
        lambda n, a: n.linalg.svdvals(a(A)),
        lambda n, a: n.linalg.tensordot(a(A), a(B.T), axes=1),
        lambda n, a: n.linalg.trace(a(M), offset=-1),
        lambda n, a: n.linalg.vecdot(a(A), a(B), axis=-2),
        lambda n, a: n.linalg.vector_norm(a(A), axis=1, ord=3),
        lambda n, a: n.linalg.vector_norm(a(A), keepdims=True),
    ],
    "fft": [
        lambda n, a: n.fft.fft(a(C)),
        lambda n, a: n.fft.ifft(a(C), n=6, axis=0, norm="ortho"),
        lambda n, a: n.fft.fftn(a(C), axes=(0, 1)),
        lambda n, a: n.fft.ifftn(a(C), s=(2, 4), axes=(0, 1)),
        lambda n, a: n.fft.rfft(a(V)),
        lambda n, a: n.fft.irfft(a(C), n=5),
        lambda n, a: n.fft.rfftn(a(A)),
        lambda n, a: n.fft.irfftn(a(C), s=(3, 4), axes=(0, 1)),
        lambda n, a: n.fft.hfft(a(C)),
        lambda n, a: n.fft.ihfft(a(V)),
        lambda n, a: n.astype(n.fft.fftfreq(5, d=0.5), n.float32),
        lambda n, a: n.astype(n.fft.rfftfreq(6), n.float32),
        lambda n, a: n.fft.fftshift(a(A)),
        lambda n, a: n.fft.ifftshift(a(A), axes=(0,)),
    ],
}
for name, arrays in UNARY.items():
    CALLS[name] = [lambda n, a, name=name, each=each: getattr(n, name)(a(each)) for each in arrays]
for name, pairs in BINARY.items():
    CALLS[name] = [lambda n, a, name=name, pair=pair: getattr(n, name)(*map(a, pair)) for pair in pairs]

CONSTANTS = {"e", "inf", "nan", "pi", "newaxis", "__array_api_version__", "__array_namespace_info__"}
DTYPES = {"bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"}


def same(ours: Any, theirs: Any) -> None:
    """Compare the values, shapes and dtypes of arrays, also inside containers."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other)
    elif isinstance(theirs, strict._array_object.Array):
        assert isinstance(ours, rg.Tensor)
        assert ours.dtype is getattr(rg, str(theirs.dtype).rpartition(".")[2])
        assert tuple(ours.shape) == theirs.shape
        np.testing.assert_allclose(ours.numpy(), np.asarray(theirs._array), rtol=1e-6, atol=1e-12)
    else:
        assert ours == pytest.approx(theirs)


def test_every_name_of_the_standard_exists() -> None:
    assert {name for name in strict.__all__ if not hasattr(xp, name)} == LEFT_OUT | OF_STRICT
    assert [name for name in strict.linalg.__all__ if not hasattr(xp.linalg, name)] == []
    assert [name for name in strict.fft.__all__ if not hasattr(xp.fft, name)] == []
    assert set(xp.__all__) >= set(strict.__all__) - LEFT_OUT - OF_STRICT


def test_every_function_of_the_standard_has_a_call() -> None:
    assert set(CALLS) == set(strict.__all__) - LEFT_OUT - OF_STRICT - CONSTANTS - DTYPES


@pytest.mark.parametrize(
    ("name", "number"), [(name, each) for name in sorted(CALLS) for each in range(len(CALLS[name]))]
)
def test_results_equal_those_of_array_api_strict(name: str, number: int) -> None:
    call = CALLS[name][number]
    same(call(xp, xp.asarray), call(strict, strict.asarray))


@pytest.mark.parametrize("space", ["", "linalg", "fft"])
def test_every_keyword_parameter_of_the_standard_exists(space: str) -> None:
    """Every parameter that the standard lets callers pass by name exists."""
    ours, theirs = (getattr(xp, space), getattr(strict, space)) if space else (xp, strict)
    for name in theirs.__all__:
        function = getattr(ours, name, None)
        wanted = getattr(theirs, name)
        if name in OF_STRICT or not inspect.isfunction(wanted) or isinstance(function, np.ufunc):
            continue
        has = inspect.signature(function).parameters
        kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [each for each, kind in inspect.signature(wanted).parameters.items() if kind.kind is kinds[0]]
        assert [each for each in named if each not in has] == [], name


REAL = {name: pairs[0] for name, pairs in BINARY.items() if pairs[0][0].dtype == np.float64 and name != "vecdot"}


@pytest.mark.parametrize("name", sorted(REAL))
def test_zero_dimensional_operands_take_part_in_promotion(name: str) -> None:
    first, second = REAL[name]
    for one, other in ((first.astype(np.float32), second[0, 0]), (first[0, 0].astype(np.float32), second)):
        call = getattr(xp, name)(xp.asarray(one), xp.asarray(other))
        same(call, getattr(strict, name)(strict.asarray(one), strict.asarray(other)))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow", "maximum", "less", "hypot", "atan2"])
def test_python_scalars_on_either_side(name: str) -> None:
    ours, theirs = xp.asarray(P.astype(np.float32)), strict.asarray(P.astype(np.float32))
    same(getattr(xp, name)(ours, 2.0), getattr(strict, name)(theirs, 2.0))
    same(getattr(xp, name)(2.0, ours), getattr(strict, name)(2.0, theirs))


def test_isin_with_invert() -> None:
    mine = xp.isin(xp.asarray(I), xp.asarray(J), invert=True)
    assert (mine.numpy() == ~np.isin(I, J)).all()


def test_functions_of_the_standard_are_differentiable() -> None:
    def program(x: Any, y: Any) -> Any:
        n = x.__array_namespace__()
        parts = [n.sort(x, axis=0, descending=True), n.clip(x, -0.5, 0.5), n.where(x > y, x, y), n.hypot(x, y)]
        joined = n.concat([n.cumulative_sum(each, axis=1, include_initial=True) for each in parts], axis=1)
        return n.linalg.vector_norm(n.astype(n.asarray(joined), n.float64), axis=1) + n.std(x, axis=1, correction=1)

    points = [rg.tensor(A, requires_grad=True), rg.tensor(B, requires_grad=True)]
    assert rg.autograd.gradcheck(program, points)
    assert rg.autograd.gradgradcheck(program, points)


def test_asarray_keeps_the_graph() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    assert xp.asarray(y) is y
    xp.asarray(y, copy=True).sum().backward()
    assert x.grad is not None


def test_array_namespace_of_a_tensor() -> None:
    x = rg.ones(2)
    assert xp.__array_api_version__ == strict.__array_api_version__
    assert x.__array_namespace__() is rg.array_api
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"'1999\.01' is not supported; the newest supported version"):
        x.__array_namespace__(api_version="1999.01")


def test_to_device() -> None:
    x = rg.ones(2, requires_grad=True)
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="stream=3"):
        x.to_device("cpu", stream=3)


def test_array_namespace_info() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() == rg.ones(1).device
    assert info.devices()[0] == rg.device("cpu")
    assert set(info.dtypes()) == DTYPES
    assert info.dtypes(kind="bool") == {"bool": rg.bool}
    assert info.dtypes(kind=("complex floating",)) == {"complex64": rg.complex64, "complex128": rg.complex128}
    assert info.default_dtypes()["real floating"] is rg.get_default_dtype()
    with pytest.raises(ValueError, match="kind='floating' is not one of"):
        info.dtypes(kind="floating")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xp.cumulative_sum(xp.asarray(A)), "axis: give one for a tensor with 2 dimensions"),
        (lambda: xp.reshape(xp.asarray(A).T, (12,), copy=False), "copy=False forbids one"),
        (lambda: xp.isdtype(rg.int8, "integer"), "kind='integer' is not one of"),
        (lambda: xp.result_type(1, 2.0), "at least one tensor or dtype"),
    ],
)
def test_invalid_arguments_of_the_standard_raise(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


SCIPY = """
import numpy as np
from scipy import fft, integrate, optimize, signal, special, stats
from scipy.spatial.transform import Rotation

import retrograd as rg

rg.set_default_dtype(rg.float64)  # in which SciPy takes numbers
R = np.random.default_rng(0)
A = R.normal(size=6)
B = R.normal(size=6) + A
P = np.abs(A) + 0.5
U = 1 / (1 + np.exp(-A))
PROGRAMS = {
    "beta": (lambda x, y: special.betaln(x, y), P, P[::-1].copy()),
    "cumulative_simpson": (lambda x: integrate.cumulative_simpson(x), A),
    "entropy": (lambda x: stats.entropy(x), P),
    "erf": (lambda x: special.erf(x), A),
    "fftconvolve": (lambda x, y: signal.fftconvolve(x, y), A, B),
    "gmean": (lambda x: stats.gmean(x), P),
    "kl_div": (lambda x, y: special.kl_div(x, y), P, U),
    "kurtosis": (lambda x: stats.kurtosis(x), A),
    "logsumexp": (lambda x: special.logsumexp(x), A),
    "ndtri": (lambda x: special.ndtri(x), U),
    "pearsonr": (lambda x, y: stats.pearsonr(x, y).pvalue, A, B),
    "rfft": (lambda x: abs(fft.rfft(x)), A),
    "rotation": (lambda q: Rotation.from_quat(q).as_matrix(), A[:4]),
    "rosenbrock": (lambda x: optimize.rosen(x), A),
    "sinc": (lambda x: special.sinc(x), A),
    "skew": (lambda x: stats.skew(x), A),
    "softmax": (lambda x: special.softmax(x), A),
    "ttest_ind": (lambda x, y: stats.ttest_ind(x, y).pvalue, A, B),
    "zscore": (lambda x: stats.zscore(x), A),
}

for name, (program, *arrays) in PROGRAMS.items():
    tensors = [rg.tensor(each, requires_grad=True) for each in arrays]
    np.testing.assert_allclose(program(*tensors).detach().numpy(), program(*arrays), rtol=1e-10, err_msg=name)
    assert rg.autograd.gradcheck(program, tensors), name
print(len(PROGRAMS))
"""


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 17), reason="older SciPy supports less of the standard"
)
def test_scipy_functions_using_the_standard_are_differentiable() -> None:
    """SciPy follows the standard if an environment variable says so before the import."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(rg.__file__).parent.parent)}
    ended = subprocess.run([sys.executable, "-c", SCIPY], env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert int(ended.stdout) == 19
