"""Errors of products and linear algebra: torch's exception classes, and messages that name the operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core.errors import LinAlgError

# an operation and a call that torch refuses, of the library and a maker of tensors of ones
CASES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("matmul", lambda lib, x: x(2, 3) @ x(4, 5)),
    ("matmul", lambda lib, x: lib.matmul(x(2, 3), x(4))),
    ("matmul", lambda lib, x: lib.matmul(x(3), x(4))),
    ("matmul", lambda lib, x: lib.matmul(x(2, 3, 4), x(5, 4, 2))),
    ("matmul", lambda lib, x: lib.matmul(x(), x(3))),
    ("matmul", lambda lib, x: lib.matmul(x(2, 2), x(2, 2, dtype="float64"))),
    ("matmul", lambda lib, x: lib.matmul(x(2, 2, dtype="int64"), x(2, 2))),
    ("matmul", lambda lib, x: lib.matmul(x(2, 2, dtype="bool"), x(2, 2, dtype="bool"))),
    ("matmul", lambda lib, x: lib.matmul(x(2, 2), 2)),
    ("mm", lambda lib, x: lib.mm(x(2), x(2, 2))),
    ("mm", lambda lib, x: lib.mm(x(2, 2), x(1, 2, 2))),
    ("mm", lambda lib, x: lib.mm(x(2, 3), x(2, 2))),
    ("mm", lambda lib, x: lib.mm(x(2, 2), x(2, 2, dtype="float64"))),
    ("bmm", lambda lib, x: lib.bmm(x(2, 2), x(2, 2, 2))),
    ("bmm", lambda lib, x: lib.bmm(x(2, 2, 3), x(2, 2, 2))),
    ("bmm", lambda lib, x: lib.bmm(x(1, 2, 3), x(2, 3, 2))),
    ("mv", lambda lib, x: lib.mv(x(2, 3), x(2))),
    ("mv", lambda lib, x: lib.mv(x(2), x(2))),
    ("mv", lambda lib, x: lib.mv(x(2, 2), x(2, dtype="float64"))),
    ("dot", lambda lib, x: lib.dot(x(2, 3), x(2))),
    ("dot", lambda lib, x: lib.dot(x(3), x(2))),
    ("dot", lambda lib, x: lib.dot(x(3), x(3, dtype="float64"))),
    ("dot", lambda lib, x: lib.dot(x(3, dtype="bool"), x(3, dtype="bool"))),
    ("vdot", lambda lib, x: lib.vdot(x(3), x(2))),
    ("vdot", lambda lib, x: lib.vdot(x(3), x(3, dtype="float64"))),
    ("vecdot", lambda lib, x: lib.linalg.vecdot(x(2, 3), x(2))),
    ("vecdot", lambda lib, x: lib.linalg.vecdot(x(2, 3), x(3, dtype="float64"))),
    ("vecdot", lambda lib, x: lib.linalg.vecdot(x(3, dtype="int64"), x(3, dtype="int64"))),
    ("vecdot", lambda lib, x: lib.linalg.vecdot(x(2, 3), x(2, 3), dim=2)),
    ("inner", lambda lib, x: lib.inner(x(2, 3), x(2))),
    ("inner", lambda lib, x: lib.inner(x(2, 3), x(3, dtype="float64"))),
    ("outer", lambda lib, x: lib.outer(x(2, 3), x(2))),
    ("outer", lambda lib, x: lib.outer(x(3), x())),
    ("addmm", lambda lib, x: lib.addmm(x(2, 2), x(2, 3), x(2, 2))),
    ("addmm", lambda lib, x: lib.addmm(x(5), x(2, 3), x(3, 2))),
    ("addmm", lambda lib, x: lib.addmm(x(2, 2, 2), x(2, 3), x(3, 2))),
    ("addmm", lambda lib, x: lib.addmm(x(2, 2, dtype="float64"), x(2, 3), x(3, 2))),
    ("addmm", lambda lib, x: lib.addmm(x(2, 2), x(2, 3, 2), x(2, 2))),
    ("addmv", lambda lib, x: lib.addmv(x(3), x(2, 3), x(2))),
    ("addmv", lambda lib, x: lib.addmv(x(2, dtype="float64"), x(2, 3), x(3))),
    ("addr", lambda lib, x: lib.addr(x(4), x(2), x(3))),
    ("addr", lambda lib, x: lib.addr(x(3), x(2, 2), x(3))),
    ("addr", lambda lib, x: lib.addr(x(3, dtype="int64"), x(2, dtype="int64"), x(3, dtype="int64"), alpha=0.5)),
    ("addr: beta", lambda lib, x: lib.addr(x(3), x(3), x(3), beta=1j)),
    ("addmv: alpha", lambda lib, x: lib.addmv(x(2), x(2, 3), x(3), alpha=1j)),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2), 3)),
    ("bilinear", lambda lib, x: lib.nn.functional.bilinear(x(2, 3), x(3, 3), x(1, 3, 3))),
    ("addbmm", lambda lib, x: lib.addbmm(x(3, 3), x(2, 3, 5), x(2, 5, 4))),
    ("baddbmm", lambda lib, x: lib.baddbmm(x(2, 3, 3), x(2, 3, 5), x(2, 5, 4))),
    ("baddbmm", lambda lib, x: lib.baddbmm(x(2, 3, 4), x(2, 3, 5), x(2, 4, 4))),
    ("multi_dot", lambda lib, x: lib.linalg.multi_dot([x(2, 3)])),
    ("multi_dot", lambda lib, x: lib.linalg.multi_dot([x(2, 3), x(2, 3)])),
    ("multi_dot", lambda lib, x: lib.linalg.multi_dot([x(2, 3), x(3, 3, 3)])),
    ("multi_dot", lambda lib, x: lib.linalg.multi_dot([x(2, 3), x(3), x(3)])),
    ("chain_matmul", lambda lib, x: lib.chain_matmul(x(3), x(3, 2))),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 3), x(3))),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 4), x(2, 4))),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 3), x(5, 3))),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 3), x(2, 3), dim=5)),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 3), x(2, 3, dtype="float64"))),
    ("cross", lambda lib, x: lib.linalg.cross(x(2, 3, dtype="bool"), x(2, 3, dtype="bool"))),
    ("cross", lambda lib, x: lib.cross(x(2, 4), x(2, 4))),
    ("trace", lambda lib, x: lib.trace(x(2, 3, 4))),
    ("trace", lambda lib, x: lib.trace(x(2, 3, dtype="bool"))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk->iz", x(2, 3), x(3, 4))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk->ii", x(2, 3), x(3, 4))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk", x(2, 3))),
    ("einsum", lambda lib, x: lib.einsum("ij", x(2, 3), x(2))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk", x(2, 3), x(4, 4))),
    ("einsum", lambda lib, x: lib.einsum("ij", x(2, 3, 4))),
    ("einsum", lambda lib, x: lib.einsum("ijk", x(2, 3))),
    ("einsum", lambda lib, x: lib.einsum("ijk...", x(2, 3))),
    ("einsum", lambda lib, x: lib.einsum("ii", x(2, 3))),
    ("einsum", lambda lib, x: lib.einsum("ii", x(1, 3))),
    ("einsum", lambda lib, x: lib.einsum("i1", x(1, 3))),
    ("einsum", lambda lib, x: lib.einsum("...ij,...jk", x(2, 3, 4), x(5, 4, 1))),
    ("einsum", lambda lib, x: lib.einsum(".ij", x(2, 3, 4))),
    ("einsum", lambda lib, x: lib.einsum("...ij...", x(2, 3, 4))),
    ("einsum", lambda lib, x: lib.einsum("ij->ij->i", x(3, 4))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk", x(2, 3), x(3, 4, dtype="float64"))),
    ("einsum", lambda lib, x: lib.einsum("ij,jk", x(2, 3, dtype="bool"), x(3, 4, dtype="bool"))),
    ("einsum", lambda lib, x: lib.einsum(x(2, 3), [0, 60])),
    ("einsum", lambda lib, x: lib.einsum("ij,jk")),
    ("einsum", lambda lib, x: lib.einsum("ij", "jk")),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=3)),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=-1)),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=([1], [1]))),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=([1], [0, 1]))),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=([0, 0], [1, 1]))),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2), dims=([5], [0]))),
    ("tensordot", lambda lib, x: lib.tensordot(x(2, 3), x(3, 2, dtype="float64"), dims=1)),
    ("inv", lambda lib, x: lib.linalg.inv(x(2, 3))),
    ("inv", lambda lib, x: lib.linalg.inv(x(2))),
    ("inv", lambda lib, x: lib.linalg.inv(x(2, 2, dtype="int64"))),
    ("inv", lambda lib, x: lib.linalg.inv(x(2, 2, dtype="float16"))),
    ("inv", lambda lib, x: lib.linalg.inv(x(2, 2))),
    ("inv", lambda lib, x: lib.inverse(x(2, 2, 2))),
    ("inv_ex", lambda lib, x: lib.linalg.inv_ex(x(2, 2), check_errors=True)),
    ("det", lambda lib, x: lib.linalg.det(x(2, 3))),
    ("det", lambda lib, x: lib.linalg.det(x(2, 2, dtype="int64"))),
    ("logdet", lambda lib, x: lib.logdet(x(2, 3))),
    ("slogdet", lambda lib, x: lib.linalg.slogdet(x(2, 3))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2), x(2))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2, 2), x(2, 2))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2), x(3))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2), x(2, dtype="float64"))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 3), x(2))),
    ("solve", lambda lib, x: lib.linalg.solve(x(5, 2, 2), x(3, 2, 3))),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 2), x(2), left=False)),
    ("solve", lambda lib, x: lib.linalg.solve(x(2, 3, 3), x(2, 3), left=False)),
    ("solve", lambda lib, x: lib.linalg.solve(x(3, 3, 3), x(3, 3), left=False)),
    ("lu_solve", lambda lib, x: lib.linalg.lu_solve(x(3, 4), x(3, dtype="int32"), x(3, 4), left=False)),
    ("pivots", lambda lib, x: lib.linalg.lu_solve(x(2, 2), x(3, dtype="int32"), x(2, 2))),
    ("solve_triangular", lambda lib, x: lib.linalg.solve_triangular(x(2, 2), x(2), upper=True)),
    ("solve_triangular", lambda lib, x: lib.linalg.solve_triangular(x(2, 2), x(2, 3))),
    ("solve_triangular", lambda lib, x: lib.linalg.solve_triangular(x(2, 3), x(2, 3), upper=True)),
    ("solve_triangular", lambda lib, x: lib.linalg.solve_triangular(x(2, 2), x(3, 3), upper=True)),
    ("cholesky", lambda lib, x: lib.linalg.cholesky(x(2, 3))),
    ("cholesky", lambda lib, x: lib.linalg.cholesky(-x(2, 2))),
    ("cholesky", lambda lib, x: lib.linalg.cholesky(-x(2, 2, 2))),
    ("cholesky", lambda lib, x: lib.linalg.cholesky(x(2, 2, dtype="int64"))),
    ("cholesky_ex", lambda lib, x: lib.linalg.cholesky_ex(-x(2, 2), check_errors=True)),
    ("cholesky_inverse", lambda lib, x: lib.cholesky_inverse(x(2, 3))),
    ("cholesky_solve", lambda lib, x: lib.cholesky_solve(x(2, 3), x(3, 3))),
    ("cholesky_solve", lambda lib, x: lib.cholesky_solve(x(2), x(2, 2))),
    ("qr", lambda lib, x: lib.linalg.qr(x(2))),
    ("qr", lambda lib, x: lib.linalg.qr(x(2, 3), "some")),
    ("qr", lambda lib, x: lib.linalg.qr(x(2, 2, dtype="int64"))),
    ("svd", lambda lib, x: lib.linalg.svd(x(2))),
    ("svd", lambda lib, x: lib.linalg.svd(x(2, 2, dtype="int64"))),
    ("svd", lambda lib, x: lib.linalg.svd(x(2, 2) * float("nan"))),
    ("svd", lambda lib, x: lib.linalg.svdvals(x(2, 2) * float("nan"))),
    ("svd", lambda lib, x: lib.linalg.svd(x(2, 2), driver="gesvd")),
    ("eigh", lambda lib, x: lib.linalg.eigh(x(2, 3))),
    ("eigh", lambda lib, x: lib.linalg.eigh(x(2, 2), "X")),
    ("eig", lambda lib, x: lib.linalg.eig(x(2, 3))),
    ("eig", lambda lib, x: lib.linalg.eig(x(2, 2) * float("nan"))),
    ("lstsq", lambda lib, x: lib.linalg.lstsq(x(4, 2), x(3, 3))),
    ("lstsq", lambda lib, x: lib.linalg.lstsq(x(4, 2), x(4, 3, dtype="float64"))),
    ("lstsq", lambda lib, x: lib.linalg.lstsq(x(4), x(4))),
    ("lstsq", lambda lib, x: lib.linalg.lstsq(x(4, 2), x(4, 3), driver="qr")),
    ("pinv", lambda lib, x: lib.linalg.pinv(x(2))),
    ("pinv", lambda lib, x: lib.linalg.pinv(x(2, 3), hermitian=True)),
    ("pinv", lambda lib, x: lib.linalg.pinv(x(2, 3, dtype="int64"))),
    ("matrix_exp", lambda lib, x: lib.linalg.matrix_exp(x(2, 3))),
    ("matrix_exp", lambda lib, x: lib.linalg.matrix_exp(x(2, 2, dtype="int64"))),
    ("matrix_power", lambda lib, x: lib.linalg.matrix_power(x(2, 3), 2)),
    ("matrix_power", lambda lib, x: lib.linalg.matrix_power(x(2, 2), 0.5)),
    ("inv", lambda lib, x: lib.linalg.matrix_power(x(2, 2), -1)),
    ("matrix_rank", lambda lib, x: lib.linalg.matrix_rank(x(3))),
    ("eigh", lambda lib, x: lib.linalg.matrix_rank(x(2, 3), hermitian=True)),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, 4), 2)),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, 4), "nuc")),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, 4), 3, dim=(1, 2))),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, 4), "fro", dim=1)),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, 4), dim=(0, 1, 2))),
    ("norm", lambda lib, x: lib.linalg.norm(x(2, 3, dtype="int64"))),
    ("norm", lambda lib, x: lib.linalg.norm(x(), 2)),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(3), dtype=lib.int64)),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(3), dtype=lib.complex64)),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(3, dtype="float64"), dtype=lib.float32)),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(3), "fro")),
    ("norm", lambda lib, x: lib.linalg.vector_norm(x(2, 3), dim=4)),
    ("norm", lambda lib, x: lib.linalg.vector_norm(x(2, 3), dim=(0, 0))),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(2, 3), -1, dim=(0, 4))),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(0), float("inf"))),
    ("vector_norm", lambda lib, x: lib.linalg.vector_norm(x(0, 3), -1, dim=0)),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2))),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2, 3, 4), dim=(0, 0))),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2, 3, 4), dim=(0,))),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2, 3, 4), dim=0)),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2, 3), 3)),
    ("matrix_norm", lambda lib, x: lib.linalg.matrix_norm(x(2, 3, dtype="int64"))),
    ("cond", lambda lib, x: lib.linalg.cond(x(2, 3), 1)),
    ("cond", lambda lib, x: lib.linalg.cond(x(3))),
    ("cond", lambda lib, x: lib.linalg.cond(x(2, 2), 3)),
    ("lu_factor", lambda lib, x: lib.linalg.lu_factor(x(2, 2))),
    ("lu_factor", lambda lib, x: lib.linalg.lu_factor(x(2, 2), pivot=False)),
    ("lu_factor", lambda lib, x: lib.linalg.lu_factor(x(2))),
    ("tensorinv", lambda lib, x: lib.linalg.tensorinv(x(4, 6, 8, 3), ind=1)),
    ("tensorinv", lambda lib, x: lib.linalg.tensorinv(x(4, 6, 8, 3), ind=0)),
    ("tensorsolve", lambda lib, x: lib.linalg.tensorsolve(x(2, 3), x(2))),
    ("vander", lambda lib, x: lib.linalg.vander(x(2, 3), N=0)),
    ("vander", lambda lib, x: lib.linalg.vander(x(2, dtype="bool"))),
    ("vander", lambda lib, x: lib.vander(x(2, 3))),
    ("vander", lambda lib, x: lib.vander(x(3), -1)),
    ("householder_product", lambda lib, x: lib.linalg.householder_product(x(4, 3), x(4))),
    ("householder_product", lambda lib, x: lib.linalg.householder_product(x(3, 4), x(3))),
    ("geqrf", lambda lib, x: lib.geqrf(x(3))),
    ("ormqr", lambda lib, x: lib.ormqr(x(4, 3), x(3), x(3, 2))),
    ("ormqr", lambda lib, x: lib.ormqr(x(4, 3), x(3), x(4, 2), left=False)),
    ("ormqr", lambda lib, x: lib.ormqr(x(4, 3), x(2), x(4, 2))),
    ("ormqr", lambda lib, x: lib.ormqr(x(2, 4, 3), x(2, 3), x(4, 2))),
    ("ormqr", lambda lib, x: lib.ormqr(x(4, 3), x(3), x(4, 2, dtype="float64"))),
    ("cdist", lambda lib, x: lib.cdist(x(2, 3), x(4, 2))),
    ("cdist", lambda lib, x: lib.cdist(x(2), x(4, 2))),
    ("cdist", lambda lib, x: lib.cdist(x(2, 3), x(4, 3, dtype="float64"))),
    ("cdist", lambda lib, x: lib.cdist(x(2, 3, dtype="int64"), x(4, 3, dtype="int64"))),
    ("cdist", lambda lib, x: lib.cdist(x(2, 3), x(4, 3), p=-1)),
    ("cdist", lambda lib, x: lib.cdist(x(2, 3), x(4, 3), compute_mode="fast")),
    ("cosine_similarity", lambda lib, x: lib.cosine_similarity(x(2, dtype="int64"), x(2, dtype="int64"), dim=0)),
    ("norm", lambda lib, x: lib.cosine_similarity(x(3), x(3))),
]


def ones(library: Any) -> Callable[..., Any]:
    def make(*shape: int, dtype: str = "float32") -> Any:
        return library.from_numpy(np.ones(shape, dtype))

    return make


@pytest.mark.parametrize(("name", "call"), CASES, ids=[f"{k}-{name}" for k, (name, _) in enumerate(CASES)])
def test_wrong_linalg_calls_are_refused_as_in_torch(name: str, call: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(Exception) as theirs:
        call(torch, ones(torch))
    with pytest.raises(Exception) as ours:
        call(rg, ones(rg))
    expected = LinAlgError if theirs.type is torch.linalg.LinAlgError else theirs.type
    if expected is NotImplementedError or expected is LinAlgError:
        assert ours.type is expected
    assert issubclass(ours.type, expected), f"{ours.value!r}, torch raises {theirs.value!r}"
    assert name in str(ours.value).lower(), str(ours.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: rg.linalg.inv(x), ["(Batch element 1)", "diagonal element 2 is zero", "singular"]),
        (lambda x: rg.linalg.cholesky(x), ["(Batch element 1)", "leading minor of order 2", "positive-definite"]),
        (lambda x: rg.linalg.solve(x, x), ["(Batch element 1)", "singular"]),
        (lambda x: rg.linalg.lu_factor(x), ["(Batch element 1)", "U[2,2] is zero"]),
    ],
)
def test_error_names_the_singular_matrix_of_a_batch(call: Callable[[Any], Any], words: list[str]) -> None:
    matrices = rg.from_numpy(np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0]), np.zeros((3, 3))]))
    with pytest.raises(LinAlgError) as error:
        call(matrices)
    assert all(word in str(error.value) for word in words), str(error.value)
    alone = matrices[1]
    with pytest.raises(LinAlgError) as error:
        call(alone)
    assert "Batch" not in str(error.value)
    assert all(word in str(error.value) for word in words[1:])


def test_linalg_errors_name_dtype_and_shape() -> None:
    with pytest.raises(RuntimeError, match=r"float32 and float64"):
        rg.mm(ones(rg)(2, 2), ones(rg)(2, 2, dtype="float64"))
    with pytest.raises(RuntimeError, match=r"\[2, 3\] and \[4, 5\]"):
        rg.matmul(ones(rg)(2, 3), ones(rg)(4, 5))


def test_linalg_gradients_that_do_not_exist_raise() -> None:
    x = rg.from_numpy(np.arange(12.0).reshape(4, 3)).requires_grad_()
    with pytest.raises(RuntimeError, match="mode='r'"):
        rg.linalg.qr(x, "r").R.sum().backward()
    with pytest.raises(RuntimeError, match="mode='complete'"):
        rg.linalg.qr(x, "complete").R.sum().backward()
    rng = np.random.default_rng(0)
    z = rg.from_numpy(rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))).requires_grad_()
    for function, name in ((rg.linalg.svd, "svd"), (rg.linalg.eig, "eig")):
        with pytest.raises(RuntimeError, match=f"{name}.*phase"):
            function(z)[0 if name == "svd" else 1].sum().real.backward()
    with pytest.raises(RuntimeError, match=r"eigh.*phase"):
        rg.linalg.eigh(z + z.conj().mT)[1].sum().real.backward()
