"""Every operation in all its forms, compared with torch and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import (
    TOLERANCE,
    Bound,
    Make,
    Row,
    Sample,
    all_names,
    as_array,
    assert_same,
    differentiable,
    to_ours,
    to_torch,
)
from tests.ops.table import ROWS, WITHOUT_ROW

CASES = [pytest.param(row, dtype, id=f"{row.name}-{dtype}") for row in ROWS for dtype in row.dtypes]
GRADIENT_CASES = [
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS
    if row.gradients
    for dtype in row.dtypes
    if np.dtype(dtype).kind in "fc"
]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore:.*:UserWarning")


def samples(row: Row, dtype: str) -> list[Sample]:
    found = list(row.samples(Make(dtype)))
    assert found, f"the row of {row.name} has no samples for {dtype}"
    return found


def both(row: Row, sample: Sample, grad: bool) -> tuple[Bound, Bound]:
    return Bound(row, sample, to_ours, rg, grad), Bound(row, sample, to_torch, torch, grad)


def test_every_operation_has_a_row() -> None:
    covered = {row.name for row in ROWS} | set(WITHOUT_ROW)
    assert sorted(all_names() - covered) == []


def test_every_row_has_an_operation() -> None:
    assert sorted({row.name for row in ROWS} - all_names()) == []


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_forward_agrees_with_torch(row: Row, dtype: str) -> None:
    for sample in samples(row, dtype):
        ours, theirs = both(row, sample, False)
        got, expected = ours.run(row.function), theirs.run(row.oracle)
        if row.post is not None:
            got, expected = row.post(got), row.post(expected)
        assert len(got) == len(expected), f"{len(got)} results, torch has {len(expected)}"
        for a, b in zip(got, expected, strict=True):
            assert_same(a, b, row.tolerance, check_dtype=row.check_dtype, what=(row.name, sample))
        if row.method and isinstance(ours.args[0] if ours.args else None, rg.Tensor) and "." not in row.name:
            method = getattr(rg.Tensor, row.name)
            for a, b in zip(row.post(ours.run(method)) if row.post is not None else ours.run(method), got, strict=True):
                assert_same(a, b, row.tolerance, what=f"method {row.name}")


def weights_for(outputs: list[Any], seed: int = 7) -> list[np.ndarray]:
    made = []
    for output in outputs:
        array = as_array(output)
        rng = np.random.default_rng(seed)
        weight = rng.normal(size=array.shape)
        if array.dtype.kind == "c":
            weight = weight + 1j * rng.normal(size=array.shape)
        made.append(np.asarray(weight, dtype=array.dtype))
    return made


def gradients(
    library: Any, bound: Bound, function: Any, row: Row, make_tensor: Any, create_graph: bool
) -> tuple[list[Any], list[Any]]:
    outputs = bound.run(function)
    if row.post is not None:
        outputs = row.post(outputs)
    outputs = differentiable(outputs)
    if not outputs or not bound.leaves:
        return outputs, []
    weights = [make_tensor(weight) for weight in weights_for(outputs)]
    grads = library.autograd.grad(outputs, bound.leaves, weights, create_graph=create_graph, allow_unused=True)
    return outputs, list(grads)


@pytest.mark.parametrize(("row", "dtype"), GRADIENT_CASES)
def test_gradients_agree_with_torch(row: Row, dtype: str) -> None:
    compared = 0
    for sample in samples(row, dtype):
        ours, theirs = both(row, sample, True)
        got_outputs, got = gradients(rg, ours, row.function, row, to_ours, row.second)
        outputs, expected = gradients(torch, theirs, row.oracle, row, to_torch, row.second)
        assert len(got_outputs) == len(outputs), f"{len(got_outputs)} differentiable results, torch has {len(outputs)}"
        for position, (a, b) in enumerate(zip(got, expected, strict=True)):
            if b is None:
                assert a is None or not np.any(as_array(a)), f"argument {position}: a gradient where torch has none"
            elif a is None:
                assert not np.any(as_array(b)), f"argument {position}: no gradient where torch has one"
            else:
                compared += 1
                assert_same(a, b, 10 * row.tolerance, what=("gradient", position, "of", row.name, sample))
        if row.second:
            compare_second(row, sample, ours, theirs, got, expected)
    assert compared, "no gradient was compared: the row's samples exercise none"


def compare_second(row: Row, sample: Sample, ours: Bound, theirs: Bound, got: list[Any], expected: list[Any]) -> None:
    mine = [grad for grad in got if grad is not None and grad.requires_grad]
    other = [grad for grad in expected if grad is not None and grad.requires_grad]
    pairs = [
        (a, b)
        for a, b in zip(got, expected, strict=True)
        if a is not None and b is not None and a.requires_grad and b.requires_grad
    ]
    if not pairs:  # linear: only one of the libraries may build a graph, of zeros
        for grads, bound, library in ((mine, ours, rg), (other, theirs, torch)):
            if grads:
                seconds = library.autograd.grad(grads, bound.leaves, [g.detach() for g in grads], allow_unused=True)
                assert not any(np.any(np.abs(as_array(second)) > 1e-5) for second in seconds if second is not None)
        return
    weights = weights_for([a for a, _ in pairs], seed=8)
    seconds = rg.autograd.grad([a for a, _ in pairs], ours.leaves, list(map(to_ours, weights)), allow_unused=True)
    oracle = torch.autograd.grad([b for _, b in pairs], theirs.leaves, list(map(to_torch, weights)), allow_unused=True)
    for a, b in zip(seconds, oracle, strict=True):
        if a is None or b is None:
            rest = b if a is None else a
            assert rest is None or np.all(np.abs(as_array(rest)) < 1e-5), "second gradient: None against non-zero"
        else:
            assert_same(a, b, 30 * row.tolerance, what=("second gradient of", row.name, sample))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name)
        for row in ROWS
        if row.gradients and row.numeric and {"float64", "complex128"} & set(row.dtypes)
    ],
)
def test_finite_differences(row: Row) -> None:
    """The derivative along a random direction, by central differences in float64."""
    dtype = "float64" if "float64" in row.dtypes else "complex128"
    for sample in samples(row, dtype):
        bound = Bound(row, sample, to_ours, rg, True)
        outputs, grads = gradients(rg, bound, row.function, row, to_ours, False)
        if not grads:
            continue
        weights = weights_for(outputs)
        rng = np.random.default_rng(3)
        directions = [rng.normal(size=leaf.shape) for leaf in bound.leaves]
        predicted = sum(
            float(np.real(np.sum(np.conj(as_array(grad)) * direction)))
            for grad, direction in zip(grads, directions, strict=True)
            if grad is not None
        )
        step = 1e-6
        originals = [as_array(leaf).copy() for leaf in bound.leaves]

        def moved(sign: float) -> float:
            with rg.no_grad():
                for leaf, original, direction in zip(bound.leaves, originals, directions, strict=True):  # noqa: B023
                    leaf.data = to_ours(np.asarray(original + sign * step * direction, dtype=original.dtype))  # noqa: B023
            results = bound.run(row.function)  # noqa: B023
            results = differentiable(row.post(results) if row.post is not None else results)
            return sum(
                float(np.real(np.sum(np.conj(weight) * as_array(result))))
                for weight, result in zip(weights, results, strict=True)  # noqa: B023
            )

        measured = (moved(1) - moved(-1)) / (2 * step)
        assert measured == pytest.approx(predicted, rel=2e-4, abs=2e-5 * max(row.tolerance, 1)), f"{row.name}{sample}"


@pytest.mark.parametrize(
    ("row", "dtype"),
    [pytest.param(row, dtype, id=f"{row.name}-{dtype}") for row in ROWS if row.inplace for dtype in row.dtypes],
)
def test_in_place_form_agrees_with_torch(row: Row, dtype: str) -> None:
    """``x.name_(...)`` on a computed tensor: value, gradient, version and errors."""
    grad = row.gradients and np.dtype(dtype).kind in "fc"
    for sample in samples(row, dtype):
        if any(step < 0 for step in sample.args[0].strides):
            continue
        ours, theirs = both(row, sample, grad)
        results: list[Any] = []
        for bound, tensor_type in ((ours, rg.Tensor), (theirs, torch.Tensor)):
            target = bound.args[0].clone() if not grad else bound.args[0] * 1
            before = target._version
            try:
                out = getattr(tensor_type, f"{row.name}_")(target, *bound.args[1:], **bound.kwargs)
            except (RuntimeError, TypeError, IndexError) as error:
                results.append(error)
                continue
            assert out is target
            assert target._version == before + 1
            results.append(target)
        if isinstance(results[1], Exception):
            assert isinstance(results[0], Exception), f"{sample}: torch refuses this ({results[1]})"
            assert type(results[0]) in (type(results[1]), RuntimeError, NotImplementedError)
            continue
        assert not isinstance(results[0], Exception), f"{sample}: {results[0]!r}, but torch allows it"
        assert_same(results[0], results[1], row.tolerance, what=(f"{row.name}_", sample))
        if grad and results[1].requires_grad:
            weight = weights_for([results[1]])[0]
            try:
                expected = torch.autograd.grad(results[1], theirs.leaves, to_torch(weight), allow_unused=True)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    rg.autograd.grad(results[0], ours.leaves, to_ours(weight), allow_unused=True)
                continue
            got = rg.autograd.grad(results[0], ours.leaves, to_ours(weight), allow_unused=True)
            for a, b in zip(got, expected, strict=True):
                if a is None or b is None:
                    rest = b if a is None else a
                    assert rest is None or not np.any(as_array(rest))
                else:
                    assert_same(a, b, 10 * row.tolerance, what=("gradient of", f"{row.name}_", sample))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.inplace and row.gradients])
def test_in_place_form_on_a_view_agrees_with_torch(row: Row) -> None:
    """Writing to a view changes the gradient of the base as in torch."""
    make = Make("float64")
    for sample in list(row.samples(make))[:1]:
        if sample.args[0].ndim != 2:
            continue
        grads = []
        for library, make_tensor in ((rg, to_ours), (torch, to_torch)):
            bound = Bound(row, sample, make_tensor, library, True)
            base = library.stack([bound.args[0] * 1, bound.args[0] * 2])
            view = base[1]
            getattr(view, f"{row.name}_")(*bound.args[1:], **bound.kwargs)
            grads.append(library.autograd.grad((base * base).sum(), bound.leaves, allow_unused=True))
        for a, b in zip(*grads, strict=True):
            assert_same(a, b, 10 * row.tolerance, what=f"{row.name}_ on a view")


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name) for row in ROWS if row.gradients and {"float64", "complex128"} & set(row.dtypes)],
)
def test_accumulated_gradients_share_no_memory(row: Row) -> None:
    """Writing to a leaf or its gradient must not change another leaf, gradient or result."""
    dtype = "float64" if "float64" in row.dtypes else "complex128"
    for sample in samples(row, dtype):
        bound = Bound(row, sample, to_ours, rg, True)
        outputs = bound.run(row.function)
        outputs = differentiable(row.post(outputs) if row.post is not None else outputs)
        if not outputs:
            continue
        weights = [to_ours(weight) for weight in weights_for(outputs)]
        rg.autograd.backward(outputs, weights)
        arrays = [as_array(x) for x in (*bound.leaves, *outputs, *weights)]
        grads = [as_array(leaf.grad) for leaf in bound.leaves if leaf.grad is not None]
        for k, grad in enumerate(grads):
            assert grad.flags.writeable
            for other in (*arrays, *grads[k + 1 :]):
                assert not np.shares_memory(grad, other), f"{row.name}{sample}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.numpy])
def test_numpy_form_agrees_with_the_operation(row: Row) -> None:
    for sample in samples(row, row.dtypes[0]):
        for function in row.numpy:
            bound = Bound(row, sample, to_ours, rg, False)
            for a, b in zip(bound.run(function), bound.run(row.function), strict=True):
                assert isinstance(a, rg.Tensor)
                assert_same(a, b, what=f"{function.__name__} of {row.name}")


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.view is not None])
def test_views_share_memory_as_in_torch(row: Row) -> None:
    """Memory and version are shared exactly where torch shares them."""
    for sample in samples(row, "float32"):
        ours, theirs = both(row, sample, False)
        got, expected = ours.run(row.function), theirs.run(row.oracle)
        for a, b in zip(got, expected, strict=True):
            if b.numel() == 0:
                continue
            shared = np.shares_memory(as_array(a), as_array(ours.args[0]))
            assert shared == np.shares_memory(as_array(b), as_array(theirs.args[0])) == row.view, f"{row.name}{sample}"
            if shared:
                assert a._is_view() == b._is_view()
                before = ours.args[0]._version
                a._cell[0] += 1
                assert ours.args[0]._version == before + 1


def test_every_dtype_of_the_table_has_a_tolerance() -> None:
    assert {dtype for row in ROWS for dtype in row.dtypes if np.dtype(dtype).kind in "fc"} <= set(TOLERANCE)


def _name(tensor: Any) -> str:
    return type(tensor.grad_fn).__name__.rstrip("0123456789")


@pytest.mark.parametrize(("row", "dtype"), GRADIENT_CASES)
def test_node_names_have_torchs_spelling(row: Row, dtype: str) -> None:
    """Only equal names are compared: many operations are composed differently from torch's."""
    ours, theirs = both(row, samples(row, dtype)[0], True)
    for mine, other in zip(
        differentiable(ours.run(row.function)), differentiable(theirs.run(row.oracle)), strict=False
    ):
        if _name(mine).lower().removeprefix("linalg") == _name(other).lower().removeprefix("linalg"):
            assert _name(mine) == _name(other)
