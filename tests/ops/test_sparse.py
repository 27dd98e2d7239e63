"""Products and linear systems of SciPy's sparse matrices with tensors, compared with dense ones."""
# ruff: noqa: N806 (matrices have capital letters)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from scipy import sparse

import retrograd as rg
from retrograd.autograd import forward_ad, gradcheck, gradgradcheck
from retrograd.ops.sparse import System, _read, solution

FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


def some(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=shape)
    return (made + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else made).astype(dtype)


def dense(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    """Return a matrix with about half of its elements zero, but a nonzero diagonal."""
    keep = np.random.default_rng(7).random(shape) < 0.5
    return np.where(keep | np.eye(*shape, dtype=bool), some(*shape, seed=1, dtype=dtype), 0)


def leaf(array: np.ndarray) -> rg.Tensor:
    return rg.tensor(array, requires_grad=True)


class TestProducts:
    @pytest.mark.parametrize("kind", ["array", "matrix"])
    @pytest.mark.parametrize("format", FORMATS)
    def test_sparse_products_in_every_format(self, format: str, kind: str) -> None:
        D = dense(4, 3)
        A = getattr(sparse, f"{format}_{kind}")(D)
        for left, right in ((A, leaf(some(3))), (A, leaf(some(3, 2))), (leaf(some(4)), A), (leaf(some(2, 4)), A)):
            x = right if left is A else left
            y = left @ right
            assert isinstance(y, rg.Tensor)
            g = some(*y.shape, seed=2)
            (found,) = rg.autograd.grad(y, x, rg.tensor(g))
            exact = leaf(x.detach().numpy())
            wanted = rg.tensor(D) @ exact if left is A else exact @ rg.tensor(D)
            np.testing.assert_allclose(y.detach(), wanted.detach(), rtol=1e-14)
            np.testing.assert_allclose(found, rg.autograd.grad(wanted, exact, rg.tensor(g))[0], rtol=1e-14)

    def test_sparse_product_with_a_tensor_that_needs_no_gradient_is_a_tensor(self) -> None:
        y = sparse.csr_array(dense(4, 3)) @ rg.ones(3, dtype=rg.float64)
        assert isinstance(y, rg.Tensor) and not y.requires_grad

    def test_star_of_sparse_matrix_classes_is_a_matrix_product(self) -> None:
        A, x, y = sparse.csr_matrix(dense(4, 3)), leaf(some(3)), leaf(some(2, 4))
        np.testing.assert_allclose((A * x).detach(), (A @ x).detach())
        np.testing.assert_allclose((y * A).detach(), (y @ A).detach())

    def test_star_of_sparse_arrays_is_not_a_matrix_product(self) -> None:
        with pytest.raises(RuntimeError, match=r"scipy\.sparse takes arrays only: A @ x and x @ A take tensors"):
            sparse.csr_array(dense(3, 3)) * leaf(some(3))

    @pytest.mark.parametrize("A", ["float32", "float64", "complex64", "int64"])
    @pytest.mark.parametrize("x", ["float16", "float32", "float64", "complex128", "int32"])
    def test_sparse_products_have_numpys_dtypes(self, A: str, x: str) -> None:
        D, a = dense(4, 3).astype(A), (4 * some(3, 2)).astype(x)
        y = sparse.csr_array(D) @ rg.tensor(a)
        assert y.numpy().dtype == np.result_type(D, a)
        np.testing.assert_allclose(y, D @ a, rtol=1e-5)

    def test_sparse_products_of_float16_stay_float16(self) -> None:
        A, x = sparse.csr_array(dense(4, 3)), leaf(some(3, dtype=np.float16))
        v = leaf(A.data.astype(np.float16))
        y = rg.sparse.mm(A, x, values=v)
        y.sum().backward()
        assert y.dtype == x.grad.dtype == v.grad.dtype == rg.float16
        np.testing.assert_allclose(v.grad, x.detach().numpy()[A.indices])

    @pytest.mark.parametrize("dtype", [np.float64, np.complex128])
    @pytest.mark.parametrize("format", ["csr", "csc"])
    def test_derivatives_of_sparse_products(self, format: str, dtype: Any) -> None:
        A = getattr(sparse, f"{format}_array")(dense(4, 3, dtype=dtype))
        v, x, y = leaf(A.data), leaf(some(3, 2, dtype=dtype)), leaf(some(2, 4, dtype=dtype))
        for product in (
            lambda v, x, y: rg.sparse.mm(A, x, values=v),
            lambda v, x, y: rg.sparse.mm(y, A, values=v),
            lambda v, x, y: rg.sparse.mm(A, x[:, 0], values=v),
        ):
            assert gradcheck(product, (v, x, y), check_forward_ad=True, check_batched_grad=True)
            assert gradgradcheck(product, (v, x, y))

    def test_gradients_of_sparse_products_agree_with_torch(self) -> None:
        A = sparse.csr_array(dense(5, 4))
        places = torch.tensor(np.stack(A.nonzero()))
        theirs = torch.sparse_coo_tensor(
            places, torch.tensor(A.data), A.shape, requires_grad=True, is_coalesced=True, check_invariants=True
        )
        a = torch.tensor(some(4, 3), requires_grad=True)
        torch.sparse.mm(theirs, a).sin().sum().backward()
        v, x = leaf(A.data), leaf(some(4, 3))
        rg.sparse.mm(A, x, values=v).sin().sum().backward()
        np.testing.assert_allclose(x.grad, a.grad, rtol=1e-12)
        np.testing.assert_allclose(v.grad, theirs.grad.coalesce().values(), rtol=1e-12)

    def test_duplicate_entries_have_separate_gradients(self) -> None:
        A = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
        v, x = leaf(A.data), leaf(np.array([5.0, 7.0]))
        rg.sparse.mm(A, x, values=v).backward(rg.tensor([1.0, 10.0], dtype=rg.float64))
        assert v.grad.tolist() == [7, 7, 50] and x.grad.tolist() == [30, 3]

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3)])
    def test_sparse_product_without_entries(self, shape: tuple[int, int]) -> None:
        x = leaf(some(shape[1], 2))
        y = sparse.csr_array(shape) @ x
        y.sum().backward()
        assert y.shape == (shape[0], 2) and not y.any() and not x.grad.any()

    def test_sparse_product_of_many_entries_in_blocks(self) -> None:
        A = sparse.random_array((300, 400), density=0.3, format="csr", rng=3)
        v, x = leaf(A.data), leaf(some(400, 64))
        y = rg.sparse.mm(A, x, values=v)
        y.backward(rg.tensor(g := some(300, 64)))
        rows, columns = A.nonzero()
        assert len(rows) * 64 > 5 << 16
        np.testing.assert_allclose(v.grad, (g @ x.detach().numpy().T)[rows, columns], rtol=1e-10, atol=1e-12)

    def test_sparse_products_inside_transforms(self) -> None:
        D = dense(4, 3)
        A = sparse.csc_array(D)
        np.testing.assert_allclose(rg.func.jacrev(lambda x: A @ x)(rg.tensor(some(3))), D)
        np.testing.assert_allclose(rg.func.jacfwd(lambda x: A @ x)(rg.tensor(some(3))), D)
        np.testing.assert_allclose(rg.vmap(lambda x: A @ x)(rg.tensor(some(5, 3))), some(5, 3) @ D.T)
        np.testing.assert_allclose(rg.vmap(lambda x: x @ A)(rg.tensor(some(5, 4))), some(5, 4) @ D)
        H = rg.func.hessian(lambda x: ((A @ x) ** 2).sum())(rg.tensor(some(3)))
        np.testing.assert_allclose(H, 2 * D.T @ D)

    def test_sparse_products_of_dual_tensors(self) -> None:
        A = sparse.csr_array(dense(4, 3))
        with forward_ad.dual_level():
            y = A @ forward_ad.make_dual(rg.tensor(some(3)), rg.tensor(some(3, seed=5)))
            np.testing.assert_allclose(forward_ad.unpack_dual(y).tangent, A @ some(3, seed=5))

    def test_writing_to_sparse_entries_before_backward_is_noticed(self) -> None:
        A, x = sparse.csr_array(dense(4, 3)), leaf(some(3))
        v = rg.tensor(A.data)
        y = rg.sparse.mm(A, x, values=v)
        v.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    def test_invalid_sparse_products_raise(self) -> None:
        A, x = sparse.csr_array(dense(4, 3)), leaf(some(3))
        with pytest.raises(ValueError, match=r"shapes do not match: a sparse matrix of shape \[4, 3\] and .* \[5\]"):
            A @ leaf(some(5))
        with pytest.raises(ValueError, match=r"shapes do not match"):
            A @ leaf(some(3, 2, 2))
        with pytest.raises(ValueError, match=r"shapes do not match"):
            x @ A
        with pytest.raises(TypeError, match="exactly one operand"):
            rg.sparse.mm(x, x)
        with pytest.raises(TypeError, match="exactly one operand"):
            rg.sparse.mm(A, A.T)
        with pytest.raises(TypeError, match=r"'mat2' must be Tensor, not list"):
            rg.sparse.mm(A, [1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match=r"must be in csr or csc format, not coo: .*tocsr"):
            rg.sparse.mm(A.tocoo(), x, values=leaf(A.data))
        with pytest.raises(ValueError, match=rf"values must be of shape \[{A.nnz}\].*have shape \[2\]"):
            rg.sparse.mm(A, x, values=leaf(some(2)))
        with pytest.raises(ValueError, match="must have 2 dimensions, but has 1"):
            rg.sparse.mm(sparse.coo_array(np.ones(3)), x)


class TestSystems:
    @pytest.mark.parametrize("columns", [(), (2,)])
    @pytest.mark.parametrize("dtype", [np.float64, np.complex128])
    @pytest.mark.parametrize("format", ["csr", "csc"])
    def test_derivatives_of_sparse_systems(self, format: str, dtype: Any, columns: tuple[int, ...]) -> None:
        A = getattr(sparse, f"{format}_array")(dense(4, 4, dtype=dtype) + 2 * np.eye(4))
        v, b = leaf(A.data), leaf(some(4, *columns, dtype=dtype))

        def solve(v: rg.Tensor, b: rg.Tensor) -> rg.Tensor:
            return rg.sparse.spsolve(A, b, values=v)

        assert gradcheck(solve, (v, b), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(solve, (v, b))
        np.testing.assert_allclose(A @ solve(v, b).detach().numpy(), b.detach(), rtol=1e-12)

    @pytest.mark.parametrize("A", ["float32", "float64", "complex64", "int64"])
    @pytest.mark.parametrize("b", ["float16", "float32", "float64", "complex128", "int32"])
    def test_sparse_systems_have_numpys_dtypes(self, A: str, b: str) -> None:
        D, right = (10 * np.eye(4) + dense(4, 4)).astype(A), (4 * some(4)).astype(b)
        x = rg.sparse.spsolve(sparse.csc_array(D), rg.tensor(right))
        wanted = np.linalg.solve(D.astype(np.complex128), right.astype(np.complex128))
        assert x.numpy().dtype == np.result_type(D, right, np.float32)
        np.testing.assert_allclose(x, wanted, rtol=1e-4)

    @pytest.mark.parametrize("format", FORMATS)
    def test_sparse_systems_in_every_format(self, format: str) -> None:
        D = dense(4, 4) + 2 * np.eye(4)
        b = leaf(some(4))
        x = rg.sparse.spsolve(getattr(sparse, f"{format}_array")(D), b)
        x.sum().backward()
        np.testing.assert_allclose(x.detach(), np.linalg.solve(D, some(4)), rtol=1e-12)
        np.testing.assert_allclose(b.grad, np.linalg.solve(D.T, np.ones(4)), rtol=1e-12)

    def test_sparse_matrix_is_factorised_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = []
        splu = scipy.sparse.linalg.splu
        monkeypatch.setattr(scipy.sparse.linalg, "splu", lambda A: calls.append(A.shape) or splu(A))
        A = sparse.csr_array(dense(4, 4))
        v, b = leaf(A.data), leaf(some(4, 2))
        x = rg.sparse.spsolve(A, b, values=v)
        grads = rg.autograd.grad(x.sum(), (v, b), create_graph=True)
        sum(g.sum() for g in grads).backward()
        assert calls == [(4, 4)]

    def test_unsorted_sparse_indices_are_left_unsorted(self) -> None:
        A = sparse.csc_array((np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 0]), np.array([0, 2, 4])))
        v, b = leaf(A.data), leaf(some(2))
        x = rg.sparse.spsolve(A, b, values=v)
        x.sum().backward()
        assert A.indices.tolist() == [1, 0, 1, 0] and A.data.tolist() == [1, 2, 3, 4]
        np.testing.assert_allclose(A @ x.detach().numpy(), b.detach())
        assert gradcheck(lambda v: rg.sparse.spsolve(A, b.detach(), values=v), (v,))

    def test_factors_are_not_reused_for_other_entries(self) -> None:
        A = sparse.csc_array(np.diag([2.0, 4.0]))
        b = rg.ones(2, dtype=rg.float64)
        system = System(_read("", A, None)[0])
        for values in (A.data, A.data * 2, (A.data * 3).astype(np.float32)):
            np.testing.assert_allclose(solution(values, rg.tensor([1.0, 1.0]).numpy(), system, False), 1 / values)
            np.testing.assert_allclose(solution(values, b.numpy(), system, False), 1 / values)

    def test_singular_sparse_system_is_refused(self) -> None:
        with pytest.raises(rg.linalg.LinAlgError, match=r"the matrix of shape \[2, 2\] with 1 entries is singular"):
            rg.sparse.spsolve(sparse.csc_array(np.diag([1.0, 0.0])), leaf(some(2)))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_sparse_system_with_nonfinite_entries(self, bad: float) -> None:
        A = sparse.csc_array(np.diag([1.0, bad]))
        assert rg.sparse.spsolve(A, leaf(some(2))).isnan().all()

    def test_invalid_sparse_systems_raise(self) -> None:
        A, b = sparse.csc_array(dense(4, 3)), leaf(some(4))
        with pytest.raises(ValueError, match=r"A must be square, but is of shape \[4, 3\]"):
            rg.sparse.spsolve(A, b)
        with pytest.raises(
            TypeError, match=r"must be a SciPy sparse matrix, not retrograd.Tensor; .* use linalg\.solve"
        ):
            rg.sparse.spsolve(rg.eye(4), b)
        with pytest.raises(ValueError, match="shapes do not match"):
            rg.sparse.spsolve(sparse.csc_array(dense(4, 4)), leaf(some(3)))
        with pytest.raises(RuntimeError, match=r"retrograd\.sparse\.spsolve\(A, b\)"):
            scipy.sparse.linalg.spsolve(sparse.csc_array(dense(4, 4)), b)


def test_birth_in_a_sparse_product_is_reported() -> None:
    """SciPy does not expose its floating-point flags."""
    A, x = sparse.csr_array(np.diag([1e200, 1.0])), leaf(np.array([1e200, 1.0]))
    with pytest.raises(rg.anomaly.AnomalyError) as info, rg.anomaly.watch():
        (A @ x).sum().backward()
    event = info.value.event
    assert event.code_line == "(A @ x).sum().backward()" and event.index == (0,)
