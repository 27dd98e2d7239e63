"""``segment_reduce``: values, derivatives of any order, and refusals, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import check_both_refuse, message, run

REDUCTIONS = ("sum", "mean", "prod", "max", "min")  # amax and amin are further names
VECTOR = [1.0, 2.0, 2.0, 4.0, 0.5, -3.0]
MATRIX = np.round(np.random.default_rng(0).normal(size=(3, 6, 2)), 1).tolist()


def segments(lib: Any, data: Any, reduce: str, dtype: str = "float64", **options: Any) -> Any:
    options = {k: lib.tensor(v) if k in ("lengths", "offsets") else v for k, v in options.items()}
    x = lib.tensor(data, dtype=getattr(lib, dtype), requires_grad=True)
    result = lib.segment_reduce(x, reduce, **options)
    weight = lib.arange(1.0, 1 + result.numel(), dtype=result.dtype).reshape(result.shape)
    (result[result.isfinite()] * weight[result.isfinite()]).sum().backward()
    return result, x.grad


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("initial", [None, 2, -1.5])
@pytest.mark.parametrize(
    ("data", "options"),
    [
        (VECTOR, {"lengths": [2, 4]}),
        (VECTOR, {"lengths": [3, 0, 1, 2]}),
        (VECTOR, {"offsets": [0, 2, 2, 6]}),
        (VECTOR, {"lengths": [2, 1], "unsafe": True}),
        (MATRIX, {"lengths": [1, 2]}),
        (MATRIX, {"lengths": [[2, 4], [1, 5], [6, 0]], "axis": 1}),
        (MATRIX, {"lengths": [[1, 2, 3]] * 3, "axis": -2}),
        ([0.0, 2.0, 3.0, 0.0, 0.0], {"lengths": [3, 2]}),
    ],
)
def test_segment_reduce_values_and_gradients(reduce: str, initial: Any, data: Any, options: Any) -> None:
    for dtype in ("float64", "float32"):
        ours, theirs = (
            run(lambda lib, dtype=dtype: segments(lib, data, reduce, dtype, initial=initial, **options), lib)
            for lib in (rg, torch)
        )
        for (kind, mine), (other, expected) in zip(ours, theirs, strict=True):
            assert kind == other == dtype
            np.testing.assert_allclose(mine, expected, rtol=1e-4)


@pytest.mark.parametrize("lib", [torch, rg])
def test_other_names_of_segment_reductions(lib: Any) -> None:
    x, lengths = lib.tensor(VECTOR), lib.tensor([2, 4])
    for name in ("max", "min"):
        assert lib.equal(*(lib.segment_reduce(x, kind, lengths=lengths) for kind in (name, f"a{name}")))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segment_reduce_of_nan(reduce: str) -> None:
    for initial in (None, 1.0):
        ours, theirs = (
            lib.segment_reduce(lib.tensor([1.0, np.nan, 3.0]), reduce, lengths=lib.tensor([2, 1]), initial=initial)
            for lib in (rg, torch)
        )
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("initial", [None, 1.25])
def test_segment_reduce_derivatives_of_any_order(reduce: str, initial: float | None) -> None:
    x = rg.tensor(np.random.default_rng(1).normal(size=(2, 5, 2)) + 2, requires_grad=True)
    lengths = rg.tensor([[2, 3], [4, 1]])

    def f(x: rg.Tensor) -> rg.Tensor:
        return rg.segment_reduce(x * x, reduce, lengths=lengths, axis=1, initial=initial)

    assert rg.autograd.gradcheck(f, x, check_forward_ad=True)
    assert rg.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_vmap_of_segment_reduce(reduce: str) -> None:
    x = rg.tensor(MATRIX)
    lengths = rg.tensor([2, 4])
    each = rg.func.vmap(lambda x: rg.segment_reduce(x, reduce, lengths=lengths))(x)
    assert rg.equal(each, rg.stack([rg.segment_reduce(sample, reduce, lengths=lengths) for sample in x]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reduce": "median"}, "sum, mean, prod, max or min"),
        ({"lengths": None}, "either lengths or offsets"),
        ({"lengths": [2, 3]}, "must cover the whole dimension, of size 6"),
        ({"lengths": [7, -1]}, "must not be negative"),
        ({"lengths": [2.0, 4.0]}, "int32 or int64"),
        ({"lengths": [[2, 4]]}, "runs along axis 0"),
        ({"axis": 1}, "out of range"),
        ({"indices": [0, 1]}, "indices are not supported"),
        ({"data": [1, 2, 3, 4, 5, 6]}, "real floating-point"),
    ],
)
def test_segment_reduce_refuses_wrong_arguments(change: dict[str, Any], words: str) -> None:
    def program(lib: Any) -> Any:
        given: dict[str, Any] = {"data": VECTOR, "reduce": "sum", "lengths": [2, 4]} | change
        tensors = {k: v if v is None or k in ("reduce", "axis") else lib.tensor(v) for k, v in given.items()}
        data, reduce = tensors.pop("data"), tensors.pop("reduce")
        return lib.segment_reduce(data, reduce, **tensors)

    check_both_refuse(program)
    assert words in message(lambda: program(rg))


def test_segment_reduce_refuses_segments_beyond_the_end() -> None:
    with pytest.raises(RuntimeError, match="of size 6"):
        rg.segment_reduce(rg.tensor(VECTOR), "sum", lengths=rg.tensor([2, 5]), unsafe=True)
    with pytest.raises(TypeError, match="argument 'lengths'"):
        rg.segment_reduce(rg.tensor(VECTOR), "sum", lengths=[2, 4])
