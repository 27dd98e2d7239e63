"""Conjugate and negative views share memory as in torch, and every operation accepts them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.conjugate_views import UnresolvedArray
from tests.ops.harness import TOLERANCE, Bound, Row, Sample, are_close, as_array, to_ours
from tests.ops.test_table import CASES, GRADIENT_CASES, gradients, samples
from tests.parity import parity

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")

# --- the table of operations ----------------------------------------------------------------------------------------


def unresolved(array: np.ndarray) -> rg.Tensor:
    """Return the same numbers as a view of their conjugates or negatives, if possible."""
    if array.dtype.kind == "c":
        return rg.from_numpy(np.asarray(np.conjugate(array))).conj()
    if array.dtype in (np.float32, np.float64):
        stored = np.empty(array.shape, np.result_type(array.dtype, np.complex64))
        stored.imag = -array
        return rg.from_numpy(stored).conj().imag.detach()
    return rg.from_numpy(array)


# operations on the memory rather than the numbers
VIEWS_OF_MEMORY = ("as_strided", "view_as_complex", "view_as_real")
OF_MEMORY = {"is_conj", "is_neg"} | {f"{name}{kind}" for name in VIEWS_OF_MEMORY for kind in ("", "_copy")}


def wide(case: Any) -> bool:
    row, dtype = case.values
    return row.name not in OF_MEMORY and dtype in ("float64", "complex128")


WIDE = [case for case in CASES if wide(case)]
WIDE_GRADIENTS = [case for case in GRADIENT_CASES if wide(case)]


def assert_equal(a: Any, b: Any, sample: Sample, what: Any) -> None:
    x, y = as_array(a), as_array(b)
    assert (x.dtype, x.shape) == (y.dtype, y.shape), what
    # resolved numbers may have another memory order, in which sums are rounded differently
    given = [each.dtype for each in sample.args if isinstance(each, np.ndarray)]  # one may be narrower than the result
    tolerance = 100 * max(TOLERANCE.get(str(dtype), 0) for dtype in (x.dtype, *given)) * (x.dtype.kind in "fc")
    if not are_close(x, y, tolerance):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=str(what))


@pytest.mark.parametrize(("row", "dtype"), WIDE)
def test_forward_of_unresolved_views(row: Row, dtype: str) -> None:
    for sample in samples(row, dtype):
        plain, lazy = (Bound(row, sample, make, rg, False).run(row.function) for make in (to_ours, unresolved))
        if row.post is not None:
            plain, lazy = row.post(plain), row.post(lazy)
        for a, b in zip(lazy, plain, strict=True):
            assert_equal(a, b, sample, (row.name, sample))


@pytest.mark.parametrize(("row", "dtype"), WIDE_GRADIENTS)
def test_gradients_of_unresolved_views(row: Row, dtype: str) -> None:
    for sample in samples(row, dtype)[:3]:
        found = []
        for make in (to_ours, unresolved):
            bound = Bound(row, sample, make, rg, True)
            _, grads = gradients(rg, bound, row.function, row, make, row.second)
            grads = [grad for grad in grads if grad is not None]
            second = [grad for grad in grads if grad.requires_grad]
            if second:
                weights = [rg.ones_like(grad) for grad in second]
                grads = [*grads, *rg.autograd.grad(second, bound.leaves, weights, materialize_grads=True)]
            found.append(grads)
        for a, b in zip(*found, strict=True):
            assert_equal(a, b, sample, (row.name, sample))


@pytest.mark.parametrize(("row", "dtype"), [case for case in WIDE if case.values[0].inplace])
def test_in_place_forms_on_unresolved_views(row: Row, dtype: str) -> None:
    """The write reaches the memory, which holds the conjugates or negatives."""
    for sample in samples(row, dtype):
        results = []
        for make in (to_ours, unresolved):
            bound = Bound(row, sample, make, rg, False)
            target = bound.args[0]
            stored = getattr(target._data, "array", None)
            target._data = target._data if stored is None else UnresolvedArray(stored.copy(), target._data.ufunc)
            if stored is None:
                target = target.clone()
            try:
                out = getattr(rg.Tensor, f"{row.name}_")(target, *bound.args[1:], **bound.kwargs)
            except Exception as error:
                results.append(type(error).__name__)
                continue
            assert out is target
            assert (type(target._data) is UnresolvedArray) == (make is unresolved)
            results.append(target)
        if isinstance(results[0], str):
            assert results[1] == results[0], f"{row.name}_{sample}"
        else:
            assert_equal(results[1], results[0], sample, (f"{row.name}_", sample))


# --- compared with torch --------------------------------------------------------------------------------------------


def states(lib: Any, x: Any, *tensors: Any) -> list[Any]:
    """Return the flags and values of each tensor, and whether it starts at the same address as ``x``."""
    return [
        (t.is_conj(), t.is_neg(), t.data_ptr() == x.data_ptr(), lib.resolve_neg(lib.resolve_conj(t))) for t in tensors
    ]


def matrix(lib: Any) -> Any:
    return lib.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])


@parity
def test_which_results_are_conjugate_or_negative_views(lib: Any) -> Any:
    x = matrix(lib)
    y = x.conj()
    views = [
        *(
            y,
            lib.conj(x),
            lib.conj(y),
            y.detach(),
            y.data,
            y.contiguous(),
            y.resolve_neg(),
            y.T,
            y.mT,
            y.H,
            y.mH,
            y.real,
        ),
        *(x.H, x.mH, x.adjoint(), lib.adjoint(x), y.adjoint(), y[0], y[:, 1:], y[None].expand(3, 2, 2), y.view(4)),
        *(y.imag, y.imag.detach(), y.imag[1], y.chunk(2)[0], y.unbind()[1], y.split(1)[1], y.diagonal(), y.squeeze()),
        *(y.unfold(0, 2, 1), y.as_strided((2,), (1,), 1), y.to(lib.complex64), lib.positive(y), copy.copy(y)),
    ]
    copies = [
        *(y.clone(), y.resolve_conj(), y.conj_physical(), y.neg(), y.imag.neg(), y.imag.clone(), y.imag.contiguous()),
        *(y.T.reshape(-1), y[[0, 1]], lib.cat([y, y]), y * 2, y.to(lib.complex128), y.flip(0), y.sum(), y.abs()),
        *(lib.zeros_like(y), y.imag.resolve_neg(), lib.where(y.real > 1, y, x)),
    ]
    real = lib.ones(2)
    same = [lib.conj(real) is real, real.resolve_conj() is real, real.is_conj(), real.is_neg(), x.resolve_neg() is x]
    return states(lib, x, *views, *copies), [view._base is x for view in views if view._is_view()], same


@parity
def test_writes_to_a_conjugate_view_reach_its_base_and_back(lib: Any) -> Any:
    x = matrix(lib)
    y, minus = x.conj(), x.conj().imag
    report = [x._version]
    y[0, 0] = 5 - 7j
    y[:, 1] *= 2j
    y.add_(1j)
    minus[1].fill_(3.0)
    minus.mul_(2)
    y.diagonal().mul_(3)
    y.as_strided((2,), (1,), 1).sub_(1 - 1j)
    y.T[0].copy_(minus[0])
    report += [x.clone(), y.clone(), minus.clone(), x._version, y._version]
    x.zero_()
    x[1] = 1 + 1j
    lib.mul(x, 3j, out=y)
    return [*report, x, y, minus, x._version]


@parity
def test_gradients_through_writes_to_conjugate_views(lib: Any) -> Any:
    """A write through the view affects the gradient of the base, and the other way round."""
    a = matrix(lib).requires_grad_()
    report = []
    for write in (
        lambda x, y: y.mul_(2 - 1j),
        lambda x, y: x[0].mul_(3j),
        lambda x, y: y.imag.mul_(2),
        lambda x, y: y[0].zero_(),
    ):
        x = a.clone()
        y = x.conj()
        write(x, y)
        loss = (x * (1 + 2j)).real.sum() + (y * y).imag.sum()
        (grad,) = lib.autograd.grad(loss, a)
        report.append([grad, y.grad_fn.name(), x.grad_fn.name().split("::")[-1]])
    return report


@parity
def test_forward_mode_of_conjugate_views(lib: Any) -> Any:
    ad = lib.autograd.forward_ad
    with ad.dual_level():
        x = ad.make_dual(matrix(lib), matrix(lib) * 1j)
        y = x.conj()
        outputs = [y, y.imag, y.real, y.mH @ x, y.resolve_conj(), y.imag.resolve_neg()]
        return [ad.unpack_dual(output).tangent.resolve_conj().resolve_neg() for output in outputs]


@parity
def test_vmap_of_conjugate_views(lib: Any) -> Any:
    x = matrix(lib)
    inner = lib.func.vmap(lambda row: (row.conj() * row, row.conj().real, row.conj()))(x)
    return [
        part.resolve_conj().resolve_neg() for part in (*inner, *lib.func.vmap(lambda row: row * 2)(x.conj()).unbind())
    ]


@pytest.mark.parametrize(
    "write",
    [
        lambda w, b: w.conj().mul_(b),
        lambda w, b: w.conj().__setitem__(1, b[0]),
        lambda w, b: w.mH.mul_(b),
        lambda w, b: w.conj().imag.mul_(b.real),
        lambda w, b: w.conj().copy_(b),
        lambda w, b: w[:, 1].conj().add_(b[0]),
        lambda w, b: w.conj().imag.neg_(),
        lambda w, b: w.conj().conj().mul_(1j),
        lambda w, b: w.T.conj().real.add_(1.0),
        lambda w, b: w.conj()[0].zero_(),
        lambda w, b: w.conj().diagonal().mul_(b[0]),
    ],
)
def test_writes_to_conjugate_views_inside_vmap(write: Callable[[Any, Any], Any]) -> None:
    """Values and gradients are the same as for each sample alone."""
    rng = np.random.default_rng(0)
    x, b = (rg.tensor(rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))) for _ in range(2))

    def written(x: Any, b: Any) -> Any:
        w = x.clone()
        write(w, b)
        return w

    def norm(x: Any, b: Any) -> Any:
        return (written(x, b).abs() ** 3).sum()

    for f in (written, rg.func.grad(norm)):
        batched = rg.func.vmap(f)(x, b)
        one_by_one = rg.stack([f(*sample) for sample in zip(x, b, strict=True)])
        rg.testing.assert_close(batched.resolve_conj(), one_by_one.resolve_conj())


@parity
def test_flags_of_conjugate_views_inside_vmap(lib: Any) -> Any:
    x = matrix(lib)
    seen = []

    def f(x: Any) -> Any:
        seen.extend([x.conj().is_conj(), x.conj().conj().is_conj(), x.conj().resolve_conj().is_conj()])
        with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
            lib.view_as_real(x.conj())
        with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
            x.conj().view(lib.float64)
        return x.conj()

    result = lib.func.vmap(f)(x)
    return [seen, result.is_conj(), result.resolve_conj()]


@parity
def test_overwriting_a_saved_conjugate_view_is_noticed(lib: Any) -> Any:
    x = matrix(lib).requires_grad_().clone()
    y = x.conj()
    product = y * y
    x.mul_(2)
    try:
        product.real.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return "not noticed"


@parity
def test_writing_to_a_conjugate_view_of_a_leaf_is_refused(lib: Any) -> Any:
    x = matrix(lib).requires_grad_()
    try:
        x.conj().mul_(2)
    except RuntimeError as error:
        return "a view of a leaf Variable that requires grad is being used in an in-place operation" in str(error)
    return "allowed"


@parity
def test_printing_conjugate_views_and_taking_numbers(lib: Any) -> Any:
    y = matrix(lib).conj()
    return [repr(y), repr(y.imag), y.tolist(), y[0, 0].item(), bool(y[0, 0]), complex(y[1, 0]), float(y.imag[0, 0])]


@pytest.mark.parametrize(
    "leave",
    [
        lambda t: t.conj().numpy(),
        lambda t: np.asarray(t.conj()),
        lambda t: t.conj().imag.numpy(),
        lambda t: t.conj().__dlpack__(),
        lambda t: t.conj().view(t.real.dtype),
        lambda t: t.conj().imag.view(t.dtype),
    ],
)
def test_exporting_unresolved_memory_is_refused(leave: Callable[[Any], Any]) -> None:
    errors = []
    for lib in (torch, rg):
        with pytest.raises(Exception, match=r"conj|neg") as raised:
            leave(matrix(lib))
        errors.append(raised.type)
    assert errors[0] is errors[1]


def test_numpy_force_resolves_conjugate_views() -> None:
    x = matrix(rg)
    np.testing.assert_array_equal(x.conj().numpy(force=True), np.conj(x.numpy()))
    np.testing.assert_array_equal(x.conj().imag.numpy(force=True), -x.numpy().imag)


def test_error_of_view_as_real_suggests_resolve_conj() -> None:
    with pytest.raises(RuntimeError, match=r"resolve_conj\(\)"):
        rg.view_as_real(matrix(rg).conj())


def test_copies_of_a_conjugate_view_and_its_base_share_memory() -> None:
    x = matrix(rg)
    for copied in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        a, b = copied((x, x.conj()))
        assert b.is_conj()
        a[0, 0] = 9 + 1j
        assert b[0, 0].item() == 9 - 1j
        assert x[0, 0].item() == 1 + 2j


def test_saving_and_loading_conjugate_views(tmp_path: Any) -> None:
    x = matrix(rg)
    for name in ("a.npz", "a.pt"):
        rg.save({"x": x, "y": x.conj(), "minus": x.conj().imag}, tmp_path / name)
        found = rg.load(tmp_path / name)
        assert rg.equal(found["y"], x.conj())
        assert rg.equal(found["minus"], x.conj().imag)


def test_birth_after_a_conjugate_view_is_found() -> None:
    x = rg.tensor([1 + 1j, 0j], requires_grad=True)
    with pytest.raises(rg.anomaly.AnomalyError) as raised, rg.anomaly.watch():
        y = x.conj()
        (1 / y).abs().sum().backward()
    event = raised.value.event
    assert event.op in ("div", "reciprocal")
    assert event.index == (1,)


def test_numpy_conj_returns_a_copy() -> None:
    x = matrix(rg)
    assert not np.conj(x).is_conj()
    np.testing.assert_array_equal(np.conj(x).numpy(), np.conj(x.numpy()))


# --- behind NumPy's protocols ---------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> tuple[UnresolvedArray, np.ndarray]:
    """Return an unresolved array and a NumPy array with the same numbers."""
    stored = matrix(rg).numpy()
    return UnresolvedArray(stored, np.conjugate), np.conjugate(stored)


@pytest.mark.parametrize(
    "write",
    [
        lambda a: np.add.at(a, (0, [1, 1]), 2j),
        lambda a: np.copyto(a, 3j, where=[True, False]),
        lambda a: np.fill_diagonal(a, 1j),
        lambda a: np.put(a, [1, 2], [1j, 2j]),
        lambda a: np.putmask(a, [[True, False], [False, True]], 4j),
        lambda a: np.place(a, [[True, False], [False, True]], [4j, 5j]),
        lambda a: np.put_along_axis(a, np.array([[0], [1]]), 5j, 1),
        lambda a: np.multiply(a, 2j, out=a),
        lambda a: np.multiply(a, 2j, out=a, where=[True, False]),
        lambda a: np.cumsum(a, 0, out=a),
        lambda a: np.matmul(a.copy(), a.copy(), out=a),
        lambda a: a.fill(2 + 1j),
        lambda a: a.sort(0),
        lambda a: setattr(a, "imag", 3.0),
        lambda a: setattr(a, "real", 3.0),
        lambda a: a.imag.__setitem__(0, 8.0),
        lambda a: np.moveaxis(a, 0, 1).__setitem__(0, [1j, 2]),
    ],
)
def test_numpy_writes_to_unresolved_arrays(
    pair: tuple[UnresolvedArray, np.ndarray], write: Callable[[Any], Any]
) -> None:
    lazy, plain = pair
    stored = lazy.array
    write(lazy)
    write(plain)
    np.testing.assert_array_equal(np.asarray(lazy), plain)
    np.testing.assert_array_equal(stored, np.conjugate(plain))


def test_ufunc_with_several_unresolved_outputs() -> None:
    stored = np.array([1.5, -2.5])
    fraction, whole = UnresolvedArray(stored, np.negative), np.empty(2)
    results = np.modf(np.array([3.25, -1.75]), out=(fraction, whole))
    assert results == (fraction, whole)
    np.testing.assert_array_equal(stored, [-0.25, 0.75])
    np.testing.assert_array_equal(whole, [3.0, -1.0])


def test_array_of_an_unresolved_array_needs_a_copy(pair: tuple[UnresolvedArray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="are not in memory"):
        np.array(pair[0], copy=False)
