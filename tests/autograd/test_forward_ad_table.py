"""Forward mode over the whole table of operations: against torch and reverse mode, in place, and both modes mixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core.registry import operations
from tests.autograd.duals import module
from tests.ops.harness import Bound, Make, Row, Sample, as_array, assert_same, differentiable, to_ours, to_torch
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore:`torch.jit:DeprecationWarning")

DTYPES = ("float64", "complex128")
CASES = [
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS
    if row.gradients
    for dtype in DTYPES
    if dtype in row.dtypes
]
# with overlapping memory, as_strided is not a function of its elements
SMOOTH = [case for case in CASES if case.values[0].second and case.values[0].name != "as_strided"]
# The second derivative is not symmetric: the mixed one of pow is 0 at exponent 0, as in torch, and pinv of a matrix of
# deficient rank is differentiated within the matrices of that rank.
NOT_SYMMETRIC = ("pow", "linalg.pinv")
INPLACE = [case for case in CASES if case.values[0].inplace]


def random_like(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    values = rng.normal(size=array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.normal(size=array.shape)
    if array.ndim > 1 and array.size > 1 and array.shape[-1] == array.shape[-2]:
        transposed = np.conj(np.swapaxes(array, -1, -2))
        if np.array_equal(array, transposed):  # torch wants tangents of symmetric matrices to be symmetric
            values = (values + np.conj(np.swapaxes(values, -1, -2))) / 2
    return np.asarray(values, dtype=array.dtype)


class Dual(Bound):
    """A sample in one library whose leaves have random tangents, the same in both. Make it in a dual level."""

    def __init__(self, row: Row, sample: Sample, library: Any) -> None:
        self.library = library
        self.make_tensor = to_ours if library is rg else to_torch
        self.rng = np.random.default_rng(11)
        self.directions: list[np.ndarray] = []
        super().__init__(row, sample, self.make_tensor, library, True)

    def _leaf(self, value: Any) -> Any:
        before = len(self.leaves)
        value = super()._leaf(value)
        if isinstance(value, (list, tuple)) or len(self.leaves) == before:
            return value
        self.directions.append(random_like(as_array(value), self.rng))
        # in-place operations write to the tangent, so it gets its own memory
        return module(self.library).make_dual(value, self.make_tensor(self.directions[-1].copy()))

    def tangent(self, tensor: Any) -> np.ndarray | None:
        found = module(self.library).unpack_dual(tensor).tangent
        return None if found is None else as_array(found)


def run(row: Row, sample: Sample, library: Any, function: Callable[..., Any]) -> list[np.ndarray | None]:
    """Return the tangents of the results of one call."""
    with module(library).dual_level():
        bound = Dual(row, sample, library)
        outputs = bound.run(function)
        outputs = row.post(outputs) if row.post is not None else outputs
        return [bound.tangent(output) for output in outputs if hasattr(output, "dtype")]


def weights_for(outputs: list[Any]) -> list[np.ndarray]:
    return [random_like(as_array(output), np.random.default_rng(5)) for output in outputs]


def inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(as_array(a)) * as_array(b))))


def products(row: Row, sample: Sample, gradients_of: Any, tangents: list[np.ndarray | None]) -> tuple[float, float]:
    """Return ``<w, J t>`` from the given tangents and ``<Jᴴ w, t>`` from one library's gradients."""
    function = row.function if gradients_of is rg else row.oracle
    with module(gradients_of).dual_level():
        bound = Dual(row, sample, gradients_of)
    leaves = Bound(row, sample, bound.make_tensor, gradients_of, True)
    outputs = leaves.run(function)
    outputs = row.post(outputs) if row.post is not None else outputs
    outputs = [output for output in outputs if hasattr(output, "dtype")]
    live = [k for k, output in enumerate(outputs) if output.requires_grad]
    if not live or not all(np.isfinite(as_array(output)).all() for output in outputs):
        return 0.0, 0.0
    weights = weights_for([outputs[k] for k in live])
    grads = gradients_of.autograd.grad(
        [outputs[k] for k in live], leaves.leaves, [bound.make_tensor(w) for w in weights], allow_unused=True
    )
    pushed = sum(inner(w, tangents[k]) for k, w in zip(live, weights, strict=True) if tangents[k] is not None)
    pulled = sum(inner(g, d) for g, d in zip(grads, bound.directions, strict=True) if g is not None)
    return pushed, pulled


def is_precise(sample: Sample, tangents: list[np.ndarray | None]) -> bool:
    """Whether everything is computed in double precision."""
    arrays = [*sample.args, *sample.kwargs.values(), *tangents]
    return all(array.dtype.kind not in "fc" or array.dtype in DTYPES for array in arrays if hasattr(array, "dtype"))


def agree(a: np.ndarray | None, b: np.ndarray | None, tolerance: float) -> bool:
    """Whether two tangents agree where torch's, ``b``, is finite; None counts as zeros."""
    if a is None or b is None:
        rest = b if a is None else a
        return rest is None or not np.any(rest)
    finite = np.isfinite(b)
    if b.dtype not in DTYPES:
        tolerance = np.finfo(b.dtype).eps * 10
    return a.shape == b.shape and np.allclose(a[finite], b[finite], rtol=tolerance, atol=tolerance)


def check_against_torch(row: Row, dtype: str) -> None:
    for sample in row.samples(Make(dtype)):
        got = run(row, sample, rg, row.function)
        try:
            expected = run(row, sample, torch, row.oracle)
        except (NotImplementedError, IndexError):
            continue  # torch has no forward mode for this, or none for empty tensors
        assert len(got) == len(expected)
        if not all(agree(a, b, 1e-9 * row.tolerance) for a, b in zip(got, expected, strict=True)):
            # at ties, kinks and infinities torch's two modes disagree; our forward mode agrees with torch's gradients
            pushed, pulled = products(row, sample, torch, got)
            assert not np.isfinite(pulled) or pushed == pytest.approx(pulled, rel=1e-6, abs=1e-7), (
                f"{row.name}{sample}: {got}, torch has {expected}"
            )


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_tangents_agree_with_torch(row: Row, dtype: str) -> None:
    check_against_torch(row, dtype)


@pytest.mark.parametrize(("row", "dtype"), SMOOTH)
def test_forward_mode_is_the_adjoint_of_reverse_mode(row: Row, dtype: str) -> None:
    """``<w, J t> = <Jᴴ w, t>``, even where torch has no forward mode."""
    for sample in list(row.samples(Make(dtype)))[:6]:
        tangents = run(row, sample, rg, row.function)
        pushed, pulled = products(row, sample, rg, tangents)
        if np.isfinite(pulled) and is_precise(sample, tangents):
            assert pushed == pytest.approx(pulled, rel=1e-6, abs=1e-7), f"{row.name}{sample}"


def run_in_place(row: Row, sample: Sample, library: Any) -> list[np.ndarray | None] | None:
    """Return the tangents of ``x`` and of its base after ``x.name_(...)``, or None if that is refused."""
    with module(library).dual_level(), library.no_grad():
        bound = Dual(row, sample, library)
        base = library.stack([bound.args[0], bound.args[0]])
        target = base[1]
        try:
            getattr(library.Tensor, f"{row.name}_")(target, *bound.args[1:], **bound.kwargs)
        except (RuntimeError, TypeError, IndexError):
            return None
        return [bound.tangent(target), bound.tangent(base)]


@pytest.mark.parametrize(("row", "dtype"), INPLACE)
def test_in_place_writes_to_a_view_update_both_tangents(row: Row, dtype: str) -> None:
    """Writing to a view of a dual tensor updates the tangents of the view and of its base."""
    for sample in row.samples(Make(dtype)):
        got, expected = run_in_place(row, sample, rg), run_in_place(row, sample, torch)
        if got is None:
            assert expected is None, f"{row.name}_{sample}: torch allows it"
            continue
        whole, part = got[1], got[0]
        assert whole is not None
        assert part is not None
        np.testing.assert_array_equal(whole[1], part)
        (tangent,) = run(row, sample, rg, row.function)
        same = np.allclose(part, 0 if tangent is None else tangent, equal_nan=True)
        assert same or agree(part, expected[0] if expected else None, 1e-9 * row.tolerance), f"{row.name}_{sample}"


@pytest.mark.parametrize(("row", "dtype"), [case for case in SMOOTH if case.values[0].name not in NOT_SYMMETRIC])
def test_forward_over_reverse_is_reverse_over_forward(row: Row, dtype: str) -> None:
    """The tangent of ``Jᴴ w`` in the direction ``t`` is the gradient of ``<w, J t>``."""
    for sample in list(row.samples(Make(dtype)))[:2]:
        if not is_precise(sample, []):
            continue
        with module(rg).dual_level():
            bound = Dual(row, sample, rg)
            outputs = bound.run(row.function)
            outputs = differentiable(row.post(outputs) if row.post is not None else outputs)
            if not outputs:
                continue
            weights = [to_ours(weight) for weight in weights_for(outputs)]
            grads = rg.autograd.grad(outputs, bound.leaves, weights, retain_graph=True, allow_unused=True)
            over_reverse = [None if grad is None else bound.tangent(grad) for grad in grads]
            tangents = [module(rg).unpack_dual(output).tangent for output in outputs]
        pushed = [
            (weight.conj() * tangent).real.sum() if tangent.is_complex() else (weight * tangent).sum()
            for weight, tangent in zip(weights, tangents, strict=True)
            if tangent is not None and tangent.requires_grad
        ]
        over_forward: Any = [None] * len(grads)
        if pushed:
            over_forward = rg.autograd.grad(sum(pushed), bound.leaves, allow_unused=True)
        for a, b in zip(over_reverse, over_forward, strict=True):
            if b is None or a is None:
                assert agree(a, None if b is None else as_array(b), 0)
            elif np.isfinite(as_array(b)).all():
                assert_same(a, b, 1e4 * row.tolerance, what=(row.name, sample))


@pytest.mark.parametrize("name", ["exp", "mul", "sum", "matmul", "softmax"])
def test_error_planted_in_a_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = operations[name]
    node_class = op.node_class  # the class is made on first access, with the rules that the operation has then
    (rule, slots), *others = op.rules
    monkeypatch.setattr(op, "rules", ((lambda g, *values: rule(g, *values) * 1.01, slots), *others))
    monkeypatch.setattr(node_class, "rules", op.rules)
    if op.factors or op.kind == "linear":  # forward mode does not use the rule, so the two modes disagree
        check = test_forward_mode_is_the_adjoint_of_reverse_mode
    else:
        check = test_tangents_agree_with_torch
    row = next(row for row in ROWS if row.name == name)
    with pytest.raises(AssertionError):
        check(row, "float64")
