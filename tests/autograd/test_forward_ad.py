"""Dual levels and dual tensors, and which results carry a tangent, compared with torch."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.autograd import forward_ad
from tests.autograd.duals import module, tangent, vector
from tests.parity import attempt, message, parity

# --- operations -------------------------------------------------------------------------------------------------------


@parity
def test_values_and_tangents_of_operations(lib: Any) -> Any:
    fw = module(lib)
    x, v, c = vector(lib, 0.3, 1.2, 0.7), vector(lib, 1.0, -0.5, 2.0), vector(lib, 2.0, 3.0, 4.0)
    report = []
    with fw.dual_level():
        d = fw.make_dual(x, v)
        for result in (
            d * c,
            d.sin() * d.exp(),
            c / d,
            (d @ c),
            d.softmax(0),
            lib.cat([c, d, d * 2]),
            lib.stack([d, c]).amax(1),
            d.max(0).values,
            d[1:] ** 2,
            lib.where(c > 2.5, d, d * d),
            d.cumsum(0).norm(),
            lib.linalg.inv(lib.diag(d)),
            d.reshape(3, 1).expand(3, 2).sum(0),
            lib.addmm(d.reshape(3, 1), d.reshape(3, 1), c.reshape(1, 3), beta=2, alpha=0.5),
            lib.addmm(d.reshape(3, 1), c.reshape(3, 1), c.reshape(1, 3), beta=2),
            lib.nn.functional.linear(d, lib.outer(c, d), d),
            lib.einsum("i,j->ij", d, d * 2),
            c * 2,
        ):
            primal, moved = fw.unpack_dual(result)
            report += [primal, moved]
        report.append(fw.unpack_dual(x).tangent)
    report.append(fw.unpack_dual(d).tangent)
    return report


@parity
def test_tangents_of_complex_operations(lib: Any) -> Any:
    fw = module(lib)
    z, v = lib.tensor([0.3 + 0.4j, 1.0 - 2j]), lib.tensor([1.0 + 1j, -0.5j])
    real = lib.tensor([2.0, 3.0])
    with fw.dual_level():
        d, r = fw.make_dual(z, v), fw.make_dual(real, real)
        results = (d * d, d.exp(), d.abs(), d.conj() * d, d.real, r * z, r * d, d / r, lib.complex(r, real), d.angle())
        return [tangent(lib, result) for result in results]


@parity
def test_which_results_carry_a_tangent(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 1.5, 2.0, 3.0), vector(lib, 1.0, 10.0, 100.0)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        return [
            tangent(lib, result)
            for result in (
                d.clone(),
                d.to(lib.float32),
                d.contiguous(),
                d.requires_grad_(),
                d.floor(),
                d.sign(),
                d.detach(),
                d.data,
                d.long(),
                d.argmax(),
                d > 2,
                lib.ones_like(d),
                d.new_tensor([1.0]),
                copy.copy(d.detach()),
            )
        ]


def test_copies_and_pickles_have_no_tangent() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(rg.ones(2), rg.ones(2))
        for twin in (copy.copy(dual), copy.deepcopy(dual), pickle.loads(pickle.dumps(dual))):
            assert tangent(rg, twin) is None
            assert twin.tolist() == [1, 1]


@parity
def test_printing_dual_tensors(lib: Any) -> Any:
    fw = module(lib)
    with fw.dual_level():
        dual = fw.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0]))
        wide = fw.make_dual(lib.arange(20.0), lib.arange(20.0)) * 1.5
        return [repr(dual), repr(wide), repr(dual.requires_grad_().exp().detach())]


# --- levels -----------------------------------------------------------------------------------------------------------


@parity
def test_entering_and_leaving_dual_levels(lib: Any) -> Any:
    fw = module(lib)
    x = vector(lib, 1.0, 2.0)

    @fw.dual_level()
    def square(x: Any) -> Any:
        return fw.unpack_dual(fw.make_dual(x, x) ** 2).tangent

    def nested() -> None:
        with fw.dual_level(), fw.dual_level():
            pass

    report = [square(x), square(x), attempt(nested), attempt(fw.exit_dual_level), fw.enter_dual_level()]
    dual = fw.make_dual(x, x)
    report += [tangent(lib, dual), attempt(lambda: fw.exit_dual_level(level=1)), fw.exit_dual_level(level=0)]
    report += [tangent(lib, dual), attempt(lambda: fw.make_dual(x, x))]
    with fw.dual_level():
        report.append(tangent(lib, dual))
    return report


def test_dual_level_ends_when_its_block_raises() -> None:
    with pytest.raises(KeyError), forward_ad.dual_level():
        raise KeyError
    with forward_ad.dual_level() as level:
        assert level == 0


@parity
def test_forward_mode_under_no_grad_and_inference_mode(lib: Any) -> Any:
    """no_grad does not stop forward mode; inference mode and forward mode's own switch do."""
    fw = module(lib)
    x = vector(lib, 1.0, 2.0)
    with fw.dual_level():
        d = fw.make_dual(x, x)
        with lib.no_grad():
            report = [tangent(lib, d * d)]
        with lib.inference_mode():
            made = d * d
            report += [tangent(lib, d), tangent(lib, made), tangent(lib, fw.make_dual(x, x)), d.view(2) * 1]
            with lib.inference_mode(False):
                report.append(tangent(lib, d * d))
        report += [tangent(lib, made), tangent(lib, made * d), fw._is_fwd_grad_enabled()]
        with fw._set_fwd_grad_enabled(False):
            later = fw.make_dual(x, x)
            report += [fw._is_fwd_grad_enabled(), tangent(lib, d), tangent(lib, later), tangent(lib, d * d)]
        report += [fw._is_fwd_grad_enabled(), tangent(lib, later), tangent(lib, d * d)]
    return report


def test_forward_mode_switched_off_by_a_decorator() -> None:
    @forward_ad._set_fwd_grad_enabled(False)
    def square(x: Any) -> Any:
        return x * x

    with forward_ad.dual_level():
        x = forward_ad.make_dual(rg.ones(2), rg.ones(2))
        assert forward_ad.unpack_dual(square(x)).tangent is None
        assert forward_ad.unpack_dual(x * x).tangent.tolist() == [2.0, 2.0]


@parity
def test_views_made_in_inference_mode_share_memory_and_version(lib: Any) -> Any:
    x = vector(lib, 1.0, 2.0)
    with lib.inference_mode():
        view, inner = x.view(2), lib.ones(2)
        part = inner[:1]
    report = [view.is_inference(), view, view._version, part.is_inference(), inner[:1].is_inference()]
    view.mul_(2)
    return [*report, x, x._version]


def test_tangents_are_local_to_their_thread() -> None:
    seen = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(rg.ones(1), rg.ones(1))
        thread = threading.Thread(target=lambda: seen.append(tangent(rg, dual * 2)))
        thread.start()
        thread.join()
        assert tangent(rg, dual * 2).tolist() == [2]
    assert seen == [None]


def test_tangents_are_freed_with_their_tensors() -> None:
    """Freeing a tensor frees its tangent, without help from the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(rg.ones(3), rg.ones(3))
            middle = dual.exp()
            of_middle = tangent(rg, middle)
            refs = [weakref.ref(middle), weakref.ref(of_middle)]
            result = (middle * dual)[1:]
            del middle, of_middle
            assert [ref() for ref in refs] == [None, None]
            kept = weakref.ref(tangent(rg, result))
        assert kept() is None
    finally:
        gc.enable()


# --- making and unpacking ---------------------------------------------------------------------------------------------


@parity
def test_make_dual_returns_a_view_with_the_given_tangent(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 1.0, 2.0), vector(lib, 1.0, 10.0)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        primal, moved = fw.unpack_dual(d)
        report = [d._is_view(), d._base is x, moved is v, primal._is_view(), primal is d, primal._base is x]
        report += [tangent(lib, primal), tangent(lib, primal[0] * 2), tangent(lib, fw.unpack_dual(d * 2).primal[0])]
        columns = fw.make_dual(lib.ones(2, 3), lib.arange(6.0).reshape(3, 2).t())
        report += [tangent(lib, columns).stride(), tangent(lib, columns.view(6))]
        rows = fw.make_dual(lib.ones(3, 2).t(), lib.ones(2, 3))
        report += [tangent(lib, rows).stride(), tangent(lib, rows * 2).stride()]
    return report


@parity
def test_gradients_flow_to_primal_and_tangent(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 1.0, 2.0, requires_grad=True), vector(lib, 1.0, 10.0, requires_grad=True)
    with fw.dual_level():
        primal, moved = fw.unpack_dual(fw.make_dual(x, v) ** 2)
    return lib.autograd.grad(primal.sum() + moved.sum(), [x, v])


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_forward_ad_errors_are_worded_as_in_torch() -> None:
    def errors(lib: Any) -> list[str]:
        fw = module(lib)
        x, ints = lib.ones(3), lib.tensor([1, 2, 3])
        found = [message(lambda: fw.make_dual(x, x))]
        with fw.dual_level():
            d = fw.make_dual(x, x.clone())
            calls = [
                lambda: fw.enter_dual_level(),
                lambda: fw.make_dual(x, lib.ones(2)),
                lambda: fw.make_dual(ints, x),
                lambda: fw.make_dual(x, ints),
                lambda: fw.make_dual(d, x),
                lambda: fw.exit_dual_level(level=2),
                lambda: lib.mul(d, 2, out=lib.empty(3)),
                lambda: lib.mul(x, 2, out=d),
            ]
            return found + [message(call) for call in calls]

    for ours, theirs in zip(errors(rg), errors(torch), strict=True):
        assert ours.startswith(theirs.replace("torch.", "retrograd.").rstrip("."))


def test_forward_ad_refuses_wrong_arguments() -> None:
    with forward_ad.dual_level():
        x = rg.ones(2)
        with pytest.raises(TypeError, match="the primal must be a Tensor, not list"):
            forward_ad.make_dual([1.0], x)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            forward_ad.unpack_dual(3)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            forward_ad.make_dual(x, forward_ad.make_dual(x, x))
        with pytest.raises(ValueError, match="Expected tangent to be real"):
            forward_ad.make_dual(x, x.to(rg.complex64))
        with pytest.raises(RuntimeError, match="Invalid level given: 1"):
            forward_ad.unpack_dual(x, level=1)


def test_numpy_functions_propagate_tangents() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(rg.tensor([0.0, 1.0]), rg.tensor([1.0, 2.0]))
        np.testing.assert_allclose(tangent(rg, np.exp(x)).numpy(), np.exp([0.0, 1.0]) * [1, 2], rtol=1e-6)
        assert tangent(rg, np.concatenate([x, np.ones(1, np.float32)])).tolist() == [1, 2, 0]


def test_tangent_of_a_large_tensor_computed_in_blocks() -> None:
    x = rg.linspace(0, 1, 1 << 20, dtype=rg.float64)
    with forward_ad.dual_level():
        moved = tangent(rg, forward_ad.make_dual(x, x.clone()).sin())
    np.testing.assert_allclose(moved.numpy(), np.cos(x.numpy()) * x.numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_infinite_tangents_do_not_warn() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(rg.tensor([0.0, 4.0]), rg.ones(2))
        assert tangent(rg, x.log()).tolist() == [np.inf, 0.25]
        assert tangent(rg, x.sqrt()).tolist() == [np.inf, 0.25]
