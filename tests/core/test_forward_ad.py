"""Forward mode: against torch, and against reverse mode over the whole table of operations."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import forward_ad
from tests.ops.harness import Bound, Make, Row, as_array, flatten, to_ours
from tests.ops.table import ROWS
from tests.parity import attempt, parity


def module(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.autograd.forward_ad")


def vector(lib: Any, *values: float, requires_grad: bool = False) -> Any:
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=requires_grad)


@parity
def test_values_and_tangents(lib: Any) -> Any:
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
            c * 2,
        ):
            primal, tangent = fw.unpack_dual(result)
            report += [primal, tangent]
        report.append(fw.unpack_dual(x).tangent)
    report.append(fw.unpack_dual(d).tangent)
    return report


@parity
def test_reverse_over_forward(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 0.3, 1.2, requires_grad=True), vector(lib, 1.0, -0.5, requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual((fw.make_dual(x, v).sin() * x).sum()).tangent
    report = [tangent, tangent.requires_grad, lib.autograd.grad(tangent, [x, v])]
    with fw.dual_level(), lib.no_grad():
        report.append(fw.unpack_dual(fw.make_dual(x, v) ** 2).tangent.requires_grad)
    with fw.dual_level():
        report.append(fw.unpack_dual(fw.make_dual(x.detach(), v.detach()) ** 2).tangent.requires_grad)
    return report


@parity
def test_complex_tangents(lib: Any) -> Any:
    fw = module(lib)
    z, v = lib.tensor([0.3 + 0.4j, 1.0 - 2j]), lib.tensor([1.0 + 1j, -0.5j])
    with fw.dual_level():
        d = fw.make_dual(z, v)
        return [fw.unpack_dual(result).tangent for result in (d * d, d.exp(), d.abs(), d.conj() * d, d.real)]


@parity
def test_function_with_jvp(lib: Any) -> Any:
    fw = module(lib)
    log: list[Any] = []

    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, k: float) -> Any:
            ctx.k = k
            ctx.save_for_forward(x, y)
            return x * y * k

        @staticmethod
        def jvp(ctx: Any, tx: Any, ty: Any, tk: Any) -> Any:
            log.append((tx is None, ty is None, tk is None))
            x, y = ctx.saved_for_forward
            return (tx * y + x * ty) * ctx.k

    x, y, v = vector(lib, 1.0, 2.0), vector(lib, 3.0, 4.0), vector(lib, 1.0, -1.0)
    with fw.dual_level():
        out = Scaled.apply(fw.make_dual(x, v), y, 10.0)
        report = [fw.unpack_dual(out * 2).tangent]
    return report, log


@parity
def test_misuse(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 1.0, 2.0), vector(lib, 1.0, 1.0)

    class NoJvp(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    def nested() -> None:
        with fw.dual_level(), fw.dual_level():
            pass

    report = [attempt(lambda: fw.make_dual(x, v)), attempt(nested), attempt(fw.exit_dual_level)]
    with fw.dual_level():
        report.append(attempt(lambda: fw.make_dual(x, vector(lib, 1.0))))
        report.append(attempt(lambda: fw.make_dual(lib.tensor([1]), lib.tensor([1]))))
        report.append(attempt(lambda: NoJvp.apply(fw.make_dual(x, v))))
    return report


def test_in_place_is_refused() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(rg.ones(2), rg.ones(2))
        with pytest.raises(NotImplementedError, match="in-place"):
            (dual * 1).mul_(2)
    assert rg.ones(2).mul_(2).tolist() == [2, 2]


# as_strided of overlapping memory is no function of its elements
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name)
        for row in ROWS
        if row.gradients and row.second and "float64" in row.dtypes and row.name != "as_strided"
    ],
)
def test_forward_mode_is_the_adjoint_of_reverse_mode(row: Row) -> None:
    """``<w, J t> = <Jᴴ w, t>`` for random ``w`` and ``t``."""
    rng = np.random.default_rng(5)
    compared = skipped = 0
    for sample in list(row.samples(Make("float64")))[:6]:
        bound = Bound(row, sample, to_ours, rg, True)
        outputs = flatten(bound.run(row.function))
        outputs = row.post(outputs) if row.post is not None else outputs
        live = [k for k, output in enumerate(outputs) if isinstance(output, rg.Tensor) and output.requires_grad]
        if not live or not bound.leaves:
            continue
        weights = [random_like(rng, outputs[k]) for k in live]
        directions = [random_like(rng, leaf) for leaf in bound.leaves]
        grads = rg.autograd.grad([outputs[k] for k in live], bound.leaves, weights, allow_unused=True)
        involved = [*bound.leaves, *(outputs[k] for k in live), *(g for g in grads if g is not None)]
        if not all(np.isfinite(as_array(x)).all() and as_array(x).dtype.itemsize >= 8 for x in involved):
            skipped += 1  # samples of edge values, and mixtures with half precision
            continue
        expected = sum(inner(g, d) for g, d in zip(grads, directions, strict=True) if g is not None)
        with forward_ad.dual_level():
            replacements = {
                id(leaf): forward_ad.make_dual(leaf.detach(), direction)
                for leaf, direction in zip(bound.leaves, directions, strict=True)
            }
            bound.args = [substitute(value, replacements) for value in bound.args]
            bound.kwargs = {key: substitute(value, replacements) for key, value in bound.kwargs.items()}
            results = flatten(bound.run(row.function))
            results = row.post(results) if row.post is not None else results
            tangents = [forward_ad.unpack_dual(results[k]).tangent for k in live]
        got = sum(inner(w, t) for w, t in zip(weights, tangents, strict=True) if t is not None)
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-7), f"{row.name}{sample}"
        compared += 1
    assert compared or skipped, "no sample has a gradient"


def substitute(value: Any, replacements: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(substitute(item, replacements) for item in value)
    return replacements.get(id(value), value)


def random_like(rng: np.random.Generator, tensor: Any) -> rg.Tensor:
    array = as_array(tensor)
    values = rng.normal(size=array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.normal(size=array.shape)
    return to_ours(np.asarray(values, dtype=array.dtype))


def inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(as_array(a)) * as_array(b))))
