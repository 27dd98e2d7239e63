"""Linear algebra beyond single calls: NumPy's forms, Hermitian matrices, edge cases, layouts of gradients."""
# ruff: noqa: N806 (matrices have capital letters)

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import as_array, assert_same, flatten
from tests.parity import parity

NAN, INF = np.nan, np.inf

RNG = np.random.default_rng(5)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def spd(n: int) -> np.ndarray:
    a = real(n, n)
    return a @ a.T + n * np.eye(n)


SQUARE, TALL, VECTOR, BATCH = real(4, 4) + 4 * np.eye(4), real(5, 3), real(4), real(2, 3, 4)
COMPLEX = real(3, 3) + 1j * real(3, 3)

NUMPY_CALLS: list[Callable[..., Any]] = [
    lambda: (np.dot, SQUARE, SQUARE),
    lambda: (np.dot, BATCH, VECTOR),
    lambda: (np.dot, BATCH, real(2, 4, 5)),
    lambda: (np.dot, VECTOR, real(2, 4, 5)),
    lambda: (np.dot, SQUARE, np.asarray(2.0)),
    lambda: (np.vdot, COMPLEX, COMPLEX.T),
    lambda: (np.inner, BATCH, SQUARE),
    lambda: (np.outer, SQUARE, VECTOR),
    lambda: (np.linalg.outer, VECTOR, VECTOR),
    lambda: (np.tensordot, BATCH, real(3, 4, 2), 2),
    lambda: (np.tensordot, BATCH, real(4, 2), ([2, 0], [0, 1])),
    lambda: (np.tensordot, BATCH, VECTOR, 0),
    lambda: (np.kron, TALL, SQUARE),
    lambda: (np.cross, real(5, 3), real(3)),
    lambda: (np.cross, real(3, 5), real(5, 3), 0, 1, 0),
    lambda: (np.linalg.cross, real(5, 3), real(5, 3)),
    lambda: (np.trace, BATCH, 1),
    lambda: (np.trace, BATCH, -1, 2, 0),
    lambda: (np.linalg.trace, BATCH),
    lambda: (np.linalg.diagonal, BATCH),
    lambda: (np.linalg.matrix_transpose, BATCH),
    lambda: (np.matmul, BATCH, SQUARE),
    lambda: (np.linalg.matmul, BATCH, SQUARE),
    lambda: (np.vecdot, COMPLEX, COMPLEX.T.copy()),
    lambda: (np.linalg.vecdot, BATCH, VECTOR),
    lambda: (np.linalg.multi_dot, [TALL, TALL.T, TALL]),
    lambda: (np.linalg.inv, SQUARE),
    lambda: (np.linalg.det, SQUARE),
    lambda: (np.linalg.slogdet, SQUARE),
    lambda: (np.linalg.solve, SQUARE, VECTOR),
    lambda: (np.linalg.solve, SQUARE, SQUARE),
    lambda: (np.linalg.solve, np.stack([SQUARE] * 4), SQUARE),  # a matrix, not four vectors
    lambda: (np.linalg.lstsq, TALL, real(5)),
    lambda: (np.linalg.lstsq, TALL, real(5, 2)),
    lambda: (np.linalg.pinv, TALL),
    lambda: (np.linalg.pinv, spd(3), 1e-12, True),
    lambda: (np.linalg.tensorinv, real(2, 3, 6)),
    lambda: (np.linalg.tensorsolve, real(2, 3, 6), real(2, 3)),
    lambda: (np.linalg.matrix_power, SQUARE, 3),
    lambda: (np.linalg.matrix_power, SQUARE, -2),
    lambda: (np.linalg.matrix_rank, TALL),
    lambda: (np.linalg.cholesky, spd(4)),
    lambda: (np.linalg.qr, TALL),
    lambda: (np.linalg.qr, TALL, "r"),
    lambda: (np.linalg.qr, TALL.T, "complete"),
    lambda: (np.linalg.svd, TALL),
    lambda: (np.linalg.svd, TALL, False),
    lambda: (np.linalg.svd, TALL, False, False),
    lambda: (np.linalg.svdvals, TALL),
    lambda: (np.linalg.eigh, spd(4)),
    lambda: (np.linalg.eigh, spd(4), "U"),
    lambda: (np.linalg.eigvalsh, spd(4)),
    lambda: (np.linalg.eig, COMPLEX),
    lambda: (np.linalg.eigvals, COMPLEX),
    lambda: (np.linalg.norm, BATCH),
    lambda: (np.linalg.norm, BATCH, None, (1, 2)),
    lambda: (np.linalg.norm, BATCH, 1, (0, 1), True),
    lambda: (np.linalg.norm, BATCH, np.inf, 1),
    lambda: (np.linalg.norm, SQUARE, "nuc"),
    lambda: (np.linalg.vector_norm, BATCH),
    lambda: (np.linalg.matrix_norm, BATCH),
    lambda: (np.linalg.cond, SQUARE),
    lambda: (np.linalg.cond, SQUARE, 1),
    lambda: (np.vander, VECTOR),
    lambda: (np.vander, VECTOR, 3, True),
    lambda: (np.polyval, [3.0, 0.5, 1.0], VECTOR),
    lambda: (np.einsum, "ij,jk", SQUARE, SQUARE),
]
if hasattr(np, "matvec"):
    NUMPY_CALLS += [
        lambda: (np.matvec, COMPLEX, COMPLEX[0]),
        lambda: (np.vecmat, COMPLEX[0], COMPLEX),
    ]


@pytest.mark.parametrize("call", NUMPY_CALLS, ids=[f"{k}-{call()[0].__name__}" for k, call in enumerate(NUMPY_CALLS)])
def test_numpy_linear_algebra_on_tensors(call: Callable[..., Any]) -> None:
    function, *args = call()
    expected = flatten(function(*args))

    def tensor(value: Any) -> Any:
        if isinstance(value, list) and isinstance(value[0], np.ndarray):
            return [tensor(item) for item in value]
        return rg.from_numpy(value).requires_grad_() if isinstance(value, np.ndarray) else value

    got = flatten(function(*map(tensor, args)))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert isinstance(a, rg.Tensor)
        np.testing.assert_allclose(as_array(a), b, rtol=1e-10, atol=1e-12)
    if function is not np.linalg.matrix_rank:
        assert any(a.requires_grad for a in got)


def test_numpy_linear_algebra_refuses_unsupported_arguments() -> None:
    x = rg.from_numpy(SQUARE)
    with pytest.raises(TypeError, match="ndarray"):
        np.dot(x.clone().requires_grad_(), x, np.empty((4, 4)))
    with pytest.raises(TypeError, match="raw"):
        np.linalg.qr(x, "raw")
    with pytest.raises(TypeError, match="dtype"):
        np.einsum("ij,jk", x, x, dtype=np.float32)
    out = rg.from_numpy(np.empty((4, 4)))
    assert np.dot(x, x, out) is out
    np.testing.assert_allclose(out.numpy(), SQUARE @ SQUARE)


# --- functions that read one triangle, behind a function that makes a Hermitian matrix --------------------------------


def made_hermitian(x: Any) -> Any:
    return x @ x.conj().mT + 0.1 * x + 0.1 * x.conj().mT


HERMITIAN: list[Callable[[Any, Any], Any]] = [
    lambda lib, a: lib.linalg.cholesky(a @ a),
    lambda lib, a: lib.linalg.cholesky(a @ a, upper=True),
    lambda lib, a: lib.linalg.cholesky_ex(a @ a).L,
    lambda lib, a: lib.linalg.eigh(a).eigenvalues,
    lambda lib, a: lib.linalg.eigh(a).eigenvectors.abs(),
    lambda lib, a: lib.linalg.eigvalsh(a, UPLO="U"),
    lambda lib, a: lib.linalg.pinv(a @ a, hermitian=True),
]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("function", HERMITIAN)
def test_gradients_through_hermitian_matrices(function: Callable[[Any, Any], Any], dtype: str) -> None:
    x = (COMPLEX if dtype == "complex128" else COMPLEX.real).copy()
    grads = []
    for library in (rg, torch):
        leaf = library.from_numpy(x.copy()).requires_grad_()
        out = function(library, made_hermitian(leaf))
        weight = np.random.default_rng(1).normal(size=out.shape)
        loss = (out * library.from_numpy(weight)).sum()
        (first,) = library.autograd.grad(loss.real if loss.is_complex() else loss, leaf, create_graph=True)
        second = library.autograd.grad((first.abs() ** 2).sum(), leaf)[0]
        grads.append((first, second))
    for a, b in zip(*grads, strict=True):
        assert_same(a, b, 100)

    def value(at: np.ndarray) -> float:
        out = as_array(function(rg, made_hermitian(rg.from_numpy(at))))
        return float(np.sum(out * np.random.default_rng(1).normal(size=out.shape)).real)

    direction = np.random.default_rng(2).normal(size=x.shape)
    measured = (value(x + 1e-6 * direction) - value(x - 1e-6 * direction)) / 2e-6
    assert measured == pytest.approx(float(np.sum(as_array(grads[0][0]).real * direction)), rel=1e-5)


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((1, 1)),
        np.zeros((2, 2)),
        np.diag([1.0, 2.0, 0.0]),
        np.arange(9.0).reshape(3, 3),
        np.diag([3.0, 0, 0, 1]),
    ],
    ids=["zero-1", "zero-2", "rank-2-of-3", "rank-2-full", "rank-2-of-4"],
)
def test_gradient_of_det_is_exact_for_singular_matrices(matrix: np.ndarray) -> None:
    x = rg.from_numpy(matrix.copy()).requires_grad_()
    (grad,) = rg.autograd.grad(rg.linalg.det(x), x)
    n = len(matrix)
    minors = np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1)) for j in range(n)]
            for i in range(n)
        ]
    )
    np.testing.assert_allclose(grad.numpy(), minors, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("batch", [(), (2,)])
def test_second_derivative_of_det_equals_that_of_nearby_matrices(dtype: str, rank: int, batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(rank)

    def draw(*shape: int) -> np.ndarray:
        values = rng.integers(-3, 4, shape)
        return (values + 1j * rng.integers(-3, 4, shape) if dtype == "complex128" else values).astype(dtype)

    singular = draw(*batch, 4, rank) @ draw(*batch, rank, 4)
    weights, direction = draw(*batch, 4, 4), draw(4, 4)

    def second(matrix: np.ndarray) -> np.ndarray:
        x = rg.from_numpy(matrix).requires_grad_()
        (grad,) = rg.autograd.grad(rg.linalg.det(x).real.sum(), x, create_graph=True)
        (by_matrix,) = rg.autograd.grad((grad * rg.from_numpy(weights)).real.sum(), x)
        return by_matrix.numpy()

    step = 1e-4  # the determinant is a polynomial, so the mean of both sides is close
    nearby = (second(singular + step * direction) + second(singular - step * direction)) / 2
    np.testing.assert_allclose(second(singular), nearby, atol=1e-2 * max(1, np.abs(nearby).max()) * step**0.5)


def test_second_derivative_of_det_of_zeros() -> None:
    """d = a11 a22 - a12 a21."""
    x = rg.zeros(2, 2, dtype=rg.float64, requires_grad=True)
    hessian = rg.func.hessian(rg.linalg.det)(x)
    assert hessian.tolist() == [[[[0, 0], [0, 1]], [[0, 0], [-1, 0]]], [[[0, -1], [0, 0]], [[1, 0], [0, 0]]]]


def test_second_derivative_of_det_has_a_tangent_for_complex_singular_matrices() -> None:
    x = rg.tensor([[1 + 1j, 2, 1], [2 + 2j, 4, 0], [0, 1j, 3]], dtype=rg.complex128)
    x[1, 2] = 2  # twice the first row
    assert rg.autograd.gradgradcheck(rg.linalg.det, (x.requires_grad_(),), check_fwd_over_rev=True)


@pytest.mark.parametrize("diagonal", [(1.0, 2.0, 3.0), (1.0, 2.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)], ids=str)
def test_third_derivative_of_det_is_right_or_refused(diagonal: tuple[float, ...]) -> None:
    """d contains a11 a22 a33, -a11 a23 a32 and a12 a23 a31."""
    x = rg.tensor(np.diag(diagonal), requires_grad=True)
    (first,) = rg.autograd.grad(rg.linalg.det(x), x, create_graph=True)
    (second,) = rg.autograd.grad(first[0, 0] + first[0, 1], x, create_graph=True)
    if diagonal[1]:
        (third,) = rg.autograd.grad(second[1, 1] + second[1, 2], x)
        np.testing.assert_allclose(third.numpy(), [[0, 0, 0], [0, 0, 0], [1, -1, 1]], atol=1e-12)
    else:
        with pytest.raises(RuntimeError, match="third derivative"):
            rg.autograd.grad(second[1, 1] + second[1, 2], x)


def test_singular_matrix_does_not_affect_others_of_its_batch() -> None:
    matrices = np.stack([np.diag([2.0, 4.0]), np.ones((2, 2))])
    x = rg.from_numpy(matrices).requires_grad_()
    inverse, info = rg.linalg.inv_ex(x)
    assert info.tolist() == [0, 2]
    np.testing.assert_allclose(inverse.detach().numpy()[0], np.diag([0.5, 0.25]))
    sign, logabsdet = rg.linalg.slogdet(x)
    assert sign.tolist() == [1.0, 0.0]
    assert logabsdet.tolist()[1] == -np.inf
    (grad,) = rg.autograd.grad(logabsdet.sum(), x)
    np.testing.assert_allclose(grad.numpy()[0], np.diag([0.5, 0.25]))
    assert np.isnan(grad.numpy()[1]).all()
    factor, info = rg.linalg.cholesky_ex(rg.from_numpy(np.stack([np.eye(2), np.diag([1.0, -1.0])])))
    assert info.tolist() == [0, 2]
    np.testing.assert_array_equal(factor.numpy()[0], np.eye(2))


# for some of these matrices LAPACK finds a zero among the pivots and reports them as singular
WITH_NAN = [
    np.array(entries).reshape(2, 2)
    for entries in itertools.product([np.nan, 0.0, 1.0], repeat=4)
    if np.isnan(entries).any()
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_det_of_a_matrix_with_nan_is_nan(dtype: str) -> None:
    matrices = np.stack([*WITH_NAN, np.ones((2, 2)), np.diag([2.0, 3.0])]).astype(dtype)
    for x in (matrices, *matrices):
        for library in (rg, torch):
            A = library.from_numpy(x)
            for value in (library.linalg.det(A), library.linalg.slogdet(A)[1]):
                assert value.isnan().tolist() == np.isnan(x).any((-2, -1)).tolist()
    ours, theirs = (library.linalg.slogdet(library.from_numpy(matrices[-2:])) for library in (rg, torch))
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b)
    each = rg.vmap(rg.linalg.det)(rg.from_numpy(matrices))
    np.testing.assert_array_equal(each.numpy(), rg.linalg.det(rg.from_numpy(matrices)).numpy())


@pytest.mark.parametrize(
    ("library", "matrices"),
    [(rg, WITH_NAN), (torch, [matrix for matrix in WITH_NAN if matrix[0, 0]])],  # torch may report a zero, too
)
def test_matrix_with_nan_is_not_reported_as_singular(library: Any, matrices: list[np.ndarray]) -> None:
    for matrix in matrices:
        A = library.from_numpy(np.stack([matrix, np.diag([2.0, 4.0])])).requires_grad_()
        inverse, info = library.linalg.inv_ex(A)
        assert info.tolist() == [0, 0]
        results = [inverse, library.linalg.inv(A), library.linalg.solve(A, library.ones(2, 2, 1).double())]
        for result in (*results, library.linalg.det(A)):
            (grad,) = library.autograd.grad(result.sum(), A)
            for x in (result, grad):
                assert x[0].isnan().any()
                assert not x[1].isnan().any()
        assert results[0][1].tolist() == results[1][1].tolist() == [[0.5, 0.0], [0.0, 0.25]]
        assert results[2][1].tolist() == [[0.5], [0.25]]


def test_vmap_factorises_sample_by_sample() -> None:
    matrices = np.stack([np.eye(2), np.diag([1.0, -1.0]), 4 * np.eye(2), [[np.nan, 0.0], [0.0, 1.0]]])
    infos = []
    for library in (rg, torch):
        factors, info = library.vmap(library.linalg.cholesky_ex)(library.from_numpy(matrices))
        assert factors[[0, 2]].tolist() == [np.eye(2).tolist(), (2 * np.eye(2)).tolist()]
        infos.append(info.tolist())
        with pytest.raises(library.linalg.LinAlgError, match="leading minor of order 2 "):
            library.vmap(library.linalg.cholesky)(library.from_numpy(matrices))
    assert infos[0] == infos[1] == [0, 2, 0, 1]


@pytest.mark.parametrize("p", [None, 1, "fro", "nuc", -2])
def test_cond_of_matrices_without_elements_is_real(p: Any) -> None:
    for shape in ((0, 0), (2, 0, 0)):
        got, expected = (lib.linalg.cond(lib.zeros(shape, dtype=lib.complex64), p) for lib in (rg, torch))
        assert_same(got, expected)


def test_tensorsolve_and_tensorinv_without_elements() -> None:
    for function in (
        lambda lib, A: lib.linalg.tensorinv(A, ind=1),
        lambda lib, A: lib.linalg.tensorinv(A, ind=3),
        lambda lib, A: lib.linalg.tensorsolve(A, lib.zeros(0, 2)),
    ):
        got, expected = (function(lib, lib.zeros(0, 2, 1, 3, 0)) for lib in (rg, torch))
        assert got.shape == tuple(expected.shape)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(
    "matrix",
    [
        [[NAN, 0.0], [0.0, 1.0]],
        [[1.0, NAN], [NAN, 1.0]],
        [[4.0, 2.0, 0.0], [2.0, 5.0, NAN], [0.0, NAN, 9.0]],
        [[INF, INF], [INF, INF]],
        [[1.0, INF], [INF, 1.0]],
        [[1.0, 0.0], [0.0, INF]],
        [[1.0, NAN], [0.0, 1.0]],
    ],
)
@pytest.mark.parametrize("other", [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]], ids=["positive", "negative"])
def test_cholesky_of_matrices_with_nan_is_refused(matrix: Any, upper: bool, other: list[float]) -> None:
    batch = np.array([matrix, np.diag(other[: len(matrix)])])
    ours = rg.linalg.cholesky_ex(rg.from_numpy(batch), upper=upper)
    theirs = torch.linalg.cholesky_ex(torch.from_numpy(batch), upper=upper)
    assert ours.info.tolist() == theirs.info.tolist()
    for factor, info, expected in zip(ours.L.numpy(), theirs.info.tolist(), theirs.L.numpy(), strict=True):
        np.testing.assert_array_equal(factor, np.full_like(factor, NAN) if info else expected)
    assert rg.linalg.cholesky_ex(rg.from_numpy(batch[0]), upper=upper).info.item() == theirs.info[0].item()
    for m, error in ((torch, torch.linalg.LinAlgError), (rg, rg.linalg.LinAlgError)):
        first = next(filter(None, theirs.info.tolist()), None)
        with pytest.raises(error, match=f"leading minor of order {first} ") if first else nullcontext():
            m.linalg.cholesky(m.from_numpy(batch), upper=upper)


def test_logdet_of_matrices_without_one() -> None:
    for matrix in ([[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        ours = rg.logdet(rg.from_numpy(np.array(matrix)))
        assert_same(ours, torch.logdet(torch.tensor(matrix, dtype=torch.float64)))


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals"])
def test_repeated_eigenvalues_and_singular_values_have_derivatives(name: str) -> None:
    grads = []
    for library in (rg, torch):
        x = library.from_numpy(np.diag([2.0, 2.0, 1.0])).requires_grad_()
        (grad,) = library.autograd.grad((getattr(library.linalg, name)(x) ** 2).sum(), x)
        grads.append(grad)
    assert_same(*grads)
    x = rg.from_numpy(np.diag([2.0, 2.0, 1.0])).requires_grad_()
    (grad,) = rg.autograd.grad((rg.linalg.eigh(x).eigenvalues ** 2).sum(), x)
    np.testing.assert_allclose(grad.numpy(), 2 * np.diag([2.0, 2.0, 1.0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_least_squares_of_deficient_rank(dtype: str) -> None:
    A, B = (real(6, 2) @ real(2, 4)).astype(dtype), real(6, 3).astype(dtype)
    grads = []
    for library in (rg, torch):
        a, b = (library.from_numpy(x.copy()).requires_grad_() for x in (A, B))
        solution, _, rank, _ = library.linalg.lstsq(a, b)
        assert int(rank) == 2
        grads.append((solution, *library.autograd.grad((solution**2).sum(), (a, b))))
    for ours, theirs in zip(*grads, strict=True):
        assert_same(ours, theirs, 1000)
    a, b = (rg.from_numpy(x).requires_grad_() for x in (A, B))
    recorded = rg.autograd.grad((rg.linalg.lstsq(a, b)[0] ** 2).sum(), (a, b), create_graph=True)
    for plain, graph in zip(grads[0][1:], recorded, strict=True):
        assert_same(plain, graph, 10)


def test_singular_triangular_systems_do_not_raise() -> None:
    A = np.array([[1.0, 0.0], [1.0, 0.0]])
    ours = rg.linalg.solve_triangular(rg.from_numpy(A), rg.from_numpy(np.array([[1.0], [2.0]])), upper=False)
    assert_same(
        ours, torch.linalg.solve_triangular(torch.tensor(A), torch.tensor([[1.0], [2.0]]).double(), upper=False)
    )


def test_other_triangle_is_not_read() -> None:
    A = np.array([[2.0, np.nan], [1.0, 4.0]])
    X = rg.linalg.solve_triangular(rg.from_numpy(A), rg.from_numpy(np.array([[2.0], [5.0]])), upper=False)
    np.testing.assert_allclose(X.numpy(), [[1.0], [1.0]])


def test_large_triangular_systems_agree_with_lapack() -> None:
    A = np.tril(real(150, 150)) + 20 * np.eye(150)
    B = real(150, 7)
    X = rg.linalg.solve_triangular(rg.from_numpy(A), rg.from_numpy(B), upper=False)
    np.testing.assert_allclose(X.numpy(), np.linalg.solve(A, B), rtol=1e-9, atol=1e-11)
    matrix = real(130, 100)
    P, L, U = (part.numpy() for part in rg.linalg.lu(rg.from_numpy(matrix)))
    np.testing.assert_allclose(P @ L @ U, matrix, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 30.0, 300.0])
def test_matrix_exp_for_many_norms(scale: float) -> None:
    x = scale * real(2, 5, 5)
    x[1] /= 100  # each matrix is scaled separately
    x -= np.swapaxes(x, -1, -2)
    assert_same(rg.linalg.matrix_exp(rg.from_numpy(x)), torch.linalg.matrix_exp(torch.from_numpy(x)), 1e3)


def test_matrix_exp_of_nonfinite_matrices() -> None:
    x = np.stack([np.full((2, 2), np.nan), np.zeros((2, 2))])
    result = rg.linalg.matrix_exp(rg.from_numpy(x)).numpy()
    assert np.isnan(result[0]).all()
    np.testing.assert_array_equal(result[1], np.eye(2))


def test_half_precision_products_are_summed_in_single() -> None:
    x = np.full((1, 5000), 0.1, np.float16)
    ours = rg.matmul(rg.from_numpy(x), rg.from_numpy(x.T.copy()))
    np.testing.assert_allclose(ours.numpy(), x.astype(np.float32) @ x.T.astype(np.float32), rtol=1e-3)
    assert ours.dtype is rg.float16
    exponential = rg.linalg.matrix_exp(rg.from_numpy(np.eye(2, dtype=np.float16)))
    np.testing.assert_allclose(exponential.numpy(), np.eye(2) * np.e, rtol=1e-3)


# --- gradients of products --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4), (2, 3, 6, 4)])
def test_weight_gets_its_own_contiguous_gradient(shape: tuple[int, ...]) -> None:
    x, w = rg.from_numpy(real(*shape)), rg.from_numpy(real(4, 5)).requires_grad_()
    (x @ w).sum().backward()
    assert w.grad is not None
    data = w.grad.numpy()
    assert data.flags.c_contiguous
    assert data.base is None


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (lambda x: x @ x, "MatmulBackward0"),
        (lambda x: rg.linalg.inv(x), "LinalgInvExBackward0"),
        (lambda x: rg.linalg.det(x), "LinalgDetBackward0"),
        (lambda x: rg.linalg.solve(x, x), "LinalgSolveExBackward0"),
        (lambda x: rg.linalg.svd(x).S, "LinalgSvdBackward0"),
        (lambda x: rg.linalg.matrix_exp(x), "LinalgMatrixExpBackward0"),
        (lambda x: rg.einsum("ij,jk", x, x), "EinsumBackward0"),
    ],
)
def test_node_names_of_linear_algebra(expression: Callable[[Any], Any], name: str) -> None:
    assert expression(rg.from_numpy(SQUARE).requires_grad_()).grad_fn.name() == name


def test_matmul_operator() -> None:
    x = rg.from_numpy(SQUARE).requires_grad_()
    for result in (x @ SQUARE, SQUARE @ x, x @ x.detach()):
        assert result.requires_grad
        np.testing.assert_allclose(result.detach().numpy(), SQUARE @ SQUARE)
    with pytest.raises(TypeError):
        x @ "matrix"  # type: ignore[operator]


def test_einsum_contracts_in_a_cheap_order() -> None:
    """Contracting from left to right would need an intermediate result of 10**15 elements."""
    vectors = [rg.from_numpy(real(1000)) for _ in range(5)]
    result = rg.einsum("a,b,c,d,e,a,b,c,d,e->", *vectors, *vectors)
    expected = np.prod([float((v.numpy() ** 2).sum()) for v in vectors])
    assert result.item() == pytest.approx(expected)


def test_einsum_promotes_only_where_nothing_is_summed() -> None:
    a, b = rg.from_numpy(np.ones((2, 3), np.int64)), rg.from_numpy(np.ones((2, 3), np.float32))
    assert rg.einsum("ij,ij->ij", a, b).dtype is rg.float32
    assert rg.einsum("ij->i", a > 0).dtype is rg.int64
    b.requires_grad_()
    (grad,) = rg.autograd.grad(rg.einsum("i,ij->ij", b[:, 0], a).sum(), b)
    assert grad.tolist() == [[3, 0, 0], [3, 0, 0]]
    assert rg.einsum("ij,ij->ij", a > 0, a > 0).dtype is rg.bool


def test_multi_dot_multiplies_in_the_cheapest_order() -> None:
    for shapes, first in (([(10, 100), (100, 5), (5, 50)], 0), ([(50, 5), (5, 100), (100, 10)], 1)):
        tensors = [rg.from_numpy(real(*shape)).requires_grad_() for shape in shapes]
        node = rg.linalg.multi_dot(tensors).grad_fn
        inner = [following.name() for following, _ in node.next_functions]
        assert inner[first] == "MatmulBackward0"
        assert inner[1 - first] == "AccumulateGrad"


def test_linalg_results_are_named_tuples() -> None:
    x = rg.from_numpy(SQUARE)
    assert rg.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert rg.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert rg.linalg.qr(x)._fields == ("Q", "R")
    assert rg.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert rg.linalg.lstsq(x, x)._fields == ("solution", "residuals", "rank", "singular_values")
    assert rg.linalg.lu(x)._fields == ("P", "L", "U")
    assert rg.linalg.lu_factor(x)._fields == ("LU", "pivots")
    assert rg.linalg.inv_ex(x)._fields == ("inverse", "info")


@pytest.mark.parametrize("dtypes", [("int64", "float32"), ("float64", "float32"), ("bool", "bool"), ("uint8", "int8")])
@pytest.mark.parametrize("shapes", [((), (3,)), ((3,), ()), ((), ())])
def test_inner_product_with_a_number_promotes_as_mul_does(dtypes: Any, shapes: Any) -> None:
    def program(lib: Any) -> Any:
        x, y = (lib.ones(shape, dtype=getattr(lib, dtype)) for shape, dtype in zip(shapes, dtypes, strict=True))
        return lib.inner(x, y)

    parity(program)()


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_many_householder_reflections_agree_with_torch(complex_: bool, transpose: bool) -> None:
    random = np.random.default_rng(0)
    matrix, other = random.normal(size=(2, 2, 90, 70)) + (1j * random.normal(size=(2, 2, 90, 70)) if complex_ else 0)
    packed, tau = (part.numpy().copy() for part in torch.geqrf(torch.from_numpy(matrix)))
    tau[:, 40] = 0  # no reflection at all
    ours = [rg.from_numpy(array.copy()).requires_grad_() for array in (packed, tau, other)]
    theirs = [torch.from_numpy(array.copy()).requires_grad_() for array in (packed, tau, other)]
    for tensors, lib in ((ours, rg), (theirs, torch)):
        product = lib.linalg.householder_product(*tensors[:2])
        (product * tensors[2]).abs().sum().backward()
    for mine, other_one in zip(ours, theirs, strict=True):
        assert_same(mine.grad, other_one.grad, 10)
    with torch.no_grad(), rg.no_grad():
        assert_same(rg.ormqr(*ours, transpose=transpose), torch.ormqr(*theirs, transpose=transpose), 10)
