"""In-place writes to dual tensors, with dual tensors, and to views of either, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from retrograd.utils.checkpoint import checkpoint
from tests.autograd.duals import module, tangent, vector
from tests.parity import attempt, parity


def dual(lib: Any) -> Any:
    return module(lib).make_dual(vector(lib, 1.0, 2.0, 3.0), vector(lib, 1.0, 10.0, 100.0))


WRITES = {
    "mul_": lambda w, d: w.mul_(2),
    "mul_ by a dual": lambda w, d: w.mul_(d),
    "exp_": lambda w, d: w.exp_(),
    "sigmoid_": lambda w, d: w.sigmoid_(),
    "zero_": lambda w, d: w.zero_(),
    "fill_": lambda w, d: w.fill_(3.0),
    "fill_ with a dual": lambda w, d: w.fill_(d[1]),
    "copy_ of a constant": lambda w, d: w.copy_(d.detach()),
    "copy_ of a dual": lambda w, d: w.copy_(d),
    "floor_": lambda w, d: w.floor_(),
    "eq_": lambda w, d: w.eq_(2),
    "uniform_": lambda w, d: w.uniform_(0, 0),
    "+=": lambda w, d: w.__iadd__(d),
    "item": lambda w, d: w.__setitem__(0, d[2]),
    "item of a constant": lambda w, d: w.__setitem__(0, 5.0),
    "slice": lambda w, d: w.__setitem__(slice(1, None), d[:2]),
    "mask": lambda w, d: w.__setitem__(w > 1.5, d[0]),
    "masked_fill_": lambda w, d: w.masked_fill_(w > 1.5, d[0]),
    "index_add_": lambda w, d: w.index_add_(0, (w > 1.5).long(), d),
    "clamp_": lambda w, d: w.clamp_(min=1.5, max=2.5),
    "unsqueeze_": lambda w, d: w.unsqueeze_(0),
    "detach_": lambda w, d: w.detach_(),
    "detach() and write": lambda w, d: w.detach().mul_(2),
    ".data and write": lambda w, d: w.data.mul_(d),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_dual_tensor(name: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        with module(lib).dual_level():
            d = dual(lib)
            target = d.clone()
            before = tangent(lib, target)
            WRITES[name](target, d)
            after = tangent(lib, target)
            # torch changes the old tangent's layout; here the tangent is a new tensor
            same = name == "unsqueeze_" or after is before
            return target, after, same, tangent(lib, d), target._version

    program()


@pytest.mark.parametrize("name", [name for name in WRITES if name not in ("unsqueeze_", "detach_")])
def test_writes_to_a_tensor_without_a_tangent(name: str) -> None:
    """And to a view of one: the base and its other views get their parts of the tangent."""

    @parity
    def program(lib: Any) -> Any:
        with module(lib).dual_level():
            d = dual(lib)
            plain, base = d.detach().clone(), lib.zeros(5, dtype=lib.float64)
            earlier, view = base[::2], base[1:4]
            view.copy_(d.detach())
            WRITES[name](plain, d)
            WRITES[name](view, d)
            return [tangent(lib, x) for x in (plain, view, base, earlier, base[2:])]

    program()


@parity
def test_views_share_the_tangent_of_their_base(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 1.0, 2.0, 3.0), vector(lib, 1.0, 10.0, 100.0)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        part = d[1:]
        d.mul_(2)
        report = [v.clone(), tangent(lib, part).clone(), tangent(lib, x), x.clone()]
        part.mul_(3)
        report += [v, tangent(lib, d), tangent(lib, part)._is_view(), tangent(lib, part)._base is v]
        first, _ = d.split([1, 2])
        with lib.no_grad():
            first.mul_(2)
        report += [tangent(lib, first), v, tangent(lib, d.t()), tangent(lib, d.expand(2, 3)).stride()]
        return report


@parity
def test_writes_to_an_unpacked_primal_leave_the_dual_tangent_alone(lib: Any) -> Any:
    fw = module(lib)
    with fw.dual_level():
        report = []
        for write in (lambda p, d: p.mul_(2), lambda p, d: p.mul_(d), lambda p, d: p[0].mul_(d[2])):
            d = dual(lib)
            target = d.clone()
            primal = fw.unpack_dual(target).primal
            part = primal[:2]
            write(primal, d)
            report += [target, tangent(lib, target), tangent(lib, primal), tangent(lib, part)]
        return report


@parity
def test_writes_refused_in_forward_mode(lib: Any) -> Any:
    fw = module(lib)
    leaf = vector(lib, 1.0, 2.0, 3.0, requires_grad=True)
    ints = lib.tensor([1, 2, 3])
    with fw.dual_level():
        d = dual(lib)
        of_leaf = fw.make_dual(vector(lib, 1.0, 2.0, 3.0), leaf)
        report = [
            attempt(lambda: of_leaf.mul_(2)),
            attempt(lambda: ints.mul_(d)),
            attempt(lambda: d.mul_(d.view(3, 1))),
        ]
        report += [tangent(lib, of_leaf), tangent(lib, ints.copy_(d)), ints]
        with lib.no_grad():
            of_leaf.mul_(2)
        report.append(tangent(lib, of_leaf))
        return report


@parity
def test_resize_and_set_are_refused_for_dual_tensors(lib: Any) -> Any:
    constant = vector(lib, 1.0, 2.0)

    def attempts() -> list[Any]:
        written = lib.zeros(3, dtype=lib.float64)
        written[:2].copy_(dual(lib)[:2])
        return [
            attempt(lambda: dual(lib).resize_(2)),
            attempt(lambda: dual(lib).resize_(3)),
            attempt(lambda: dual(lib).resize_as_(constant)),
            attempt(lambda: dual(lib)[:2].resize_(1)),
            attempt(lambda: written.resize_(5)),
            attempt(lambda: dual(lib).set_(constant)),
            attempt(lambda: vector(lib, 1.0).set_(dual(lib))),
            vector(lib, 1.0, 2.0).resize_(1),
            vector(lib, 1.0).set_(constant),
        ]

    with module(lib).dual_level():
        return attempts()


@parity
def test_gradients_of_tangents_through_in_place_writes(lib: Any) -> Any:
    """Reverse over forward through in-place operations, and forward over reverse through what they saved."""
    fw = module(lib)
    x, v = vector(lib, 0.3, 1.2, 0.7, requires_grad=True), vector(lib, 1.0, 10.0, 100.0, requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, v * 1)
        work = d * d
        work.sin_()
        work.add_(d)
        work[0] = d[1] * d[2]
        work[1:].exp_()
        moved = tangent(lib, work)
        grad = lib.autograd.grad(work.sum(), x, retain_graph=True)[0]
        report = [work, moved, grad, tangent(lib, grad)]
    return [*report, lib.autograd.grad(moved.sum(), [x, v])]


def test_write_whose_operands_are_the_same_dual_tensor() -> None:
    with module(rg).dual_level():
        d = dual(rg)
        d.mul_(d)
        assert tangent(rg, d).tolist() == [2, 40, 600]  # torch 2.13 reads the tangent after overwriting it


def test_failed_write_leaves_the_tangent_unchanged() -> None:
    with module(rg).dual_level():
        d = dual(rg)
        with pytest.raises(RuntimeError, match="shape"):
            d.mul_(rg.ones(2, 3))
        assert tangent(rg, d).tolist() == [1, 10, 100]


def test_resize_is_refused_inside_nested_transforms() -> None:
    def inner(y: Any, x: Any) -> Any:
        with pytest.raises(RuntimeError, match="forward grad"):
            x.resize_(2)
        return y * x

    def outer(x: Any) -> Any:
        return rg.func.jvp(lambda y: inner(y, x), (vector(rg, 1.0),), (vector(rg, 1.0),))[1]

    assert rg.func.jvp(outer, (vector(rg, 3.0),), (vector(rg, 1.0),))[1].tolist() == [1.0]


# --- tensors packed by hooks ------------------------------------------------------------------------------------------


def _square_and_write(x: Any) -> Any:
    y = x * 1
    z = y * y
    y.mul_(3)
    return z + y


def _exp_in_place_and_write(x: Any) -> Any:
    y = x.clone().exp_()
    z = y * 1
    y.mul_(x)
    return z + y


def _cube_and_write_to_a_part(x: Any) -> Any:
    y = x * 1
    z = y**3
    part = y[:1]
    part.mul_(3)
    return (z + y)[1:]


def _inside_of(block: Any, f: Any) -> Any:
    def call(x: Any) -> Any:
        with block:
            return f(x)

    return call


# functions that overwrite a saved tensor, each with an equivalent that does not write
WRITING_TO_SAVED = {
    "a result": (lambda x: x.exp().neg_().add_(x), lambda x: x - x.exp()),
    "an operand": (_square_and_write, lambda x: x * x + x * 3),
    "what an in-place operation gave": (_exp_in_place_and_write, lambda x: x.exp() + x.exp() * x),
    "a part": (_cube_and_write_to_a_part, lambda x: (x**3 + x)[1:]),
}
PACKING = {
    "a checkpoint": lambda f: lambda x: checkpoint(f, x, use_reentrant=False),
    "hooks that copy": lambda f: _inside_of(saved_tensors_hooks(lambda t: t.clone(), lambda t: t), f),
}


@pytest.mark.parametrize("packing", PACKING)
@pytest.mark.parametrize("written", WRITING_TO_SAVED)
def test_packed_tensor_keeps_its_tangent_when_overwritten(written: str, packing: str) -> None:
    writing, plain = WRITING_TO_SAVED[written]
    x, t = rg.tensor([0.3, 0.4, 0.5], dtype=rg.float64), rg.tensor([0.5, -2.0, 1.0], dtype=rg.float64)

    def second(f: Any) -> np.ndarray:
        return rg.func.jvp(rg.func.grad(lambda x: f(x).sin().sum()), (x,), (t,))[1].numpy()

    def third(f: Any) -> np.ndarray:
        return rg.func.jvp(lambda x: rg.func.jvp(rg.func.grad(lambda y: f(y).sin().sum()), (x,), (t,))[1], (x,), (t,))[
            1
        ].numpy()

    for derivative in (second, third):
        np.testing.assert_allclose(derivative(PACKING[packing](writing)), derivative(plain))
        with allow_mutation_on_saved_tensors():
            np.testing.assert_allclose(derivative(writing), derivative(plain))


@pytest.mark.parametrize("name", ["prod", "softmax", "amax", "cumprod", "logsumexp"])
def test_forward_mode_packs_no_tensors_of_its_own(name: str) -> None:
    """What a transposed rule saves is not part of the graph; a checkpoint could not recompute it."""
    x, packed = rg.tensor([0.3, 0.4, 0.5], dtype=rg.float64), []
    function = lambda x: getattr(x, name)(0) * x  # noqa: E731

    def pushed(f: Any) -> np.ndarray:
        return rg.func.jvp(f, (x,), (x * 2,))[1].numpy()

    np.testing.assert_array_equal(pushed(PACKING["a checkpoint"](function)), pushed(function))
    with saved_tensors_hooks(packed.append, lambda t: t):
        pushed(function)
    assert not packed


@parity
def test_multi_output_views_follow_a_write_to_their_base(lib: Any) -> Any:
    with module(lib).dual_level():
        base = vector(lib, 0.0, 0.0, 0.0)
        first, second = base.split(2)
        last = base.unbind(0)[2]
        with lib.no_grad():
            base.copy_(dual(lib))
        return [tangent(lib, view) for view in (first, second, last, first[1:])]
