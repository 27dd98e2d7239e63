"""Random shapes: broadcasting, reductions, reshaping and indexing with gradients, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import retrograd as rg

torch.set_num_threads(1)
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FULL_SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return distinct positive numbers away from kinks and poles."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) * 0.37 + 0.51)


def compare(program: Any, *arrays: np.ndarray) -> None:
    """Check value and gradients of a program that takes the library and tensors."""
    outcomes = []
    for library, make in ((rg, rg.tensor), (torch, torch.tensor)):
        leaves = [make(array, requires_grad=True) for array in arrays]
        try:
            result = program(library, *leaves)
        except Exception as error:
            outcomes.append(error)
            continue
        weight = make(np.random.default_rng(9).normal(size=tuple(result.shape)))
        result.backward(weight)
        outcomes.append([result.detach().numpy(), *(None if x.grad is None else x.grad.numpy() for x in leaves)])
    ours, theirs = outcomes
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"torch refuses this: {theirs}"
        return
    assert not isinstance(ours, Exception), f"torch allows this: {ours!r}"
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "hypot", "where", "lerp"]
)
@SETTINGS
@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0, max_side=4))
def test_broadcasting_of_random_shapes(name: str, shapes: Any) -> None:
    a, b, c = (values(shape, k) for k, shape in enumerate(shapes.input_shapes))
    programs = {
        "where": lambda lib, x, y, z: lib.where(z.detach() > 1, x, y) + 0 * z,
        "lerp": lambda lib, x, y, z: lib.lerp(x, y, z),
        "pow": lambda lib, x, y, z: lib.pow(x / 8, y / 8) * z,
    }
    compare(programs.get(name, lambda lib, x, y, z: getattr(lib, name)(x, y) * z), a, b, c)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "std", "norm", "nansum"])
@SETTINGS
@given(data=st.data())
def test_reductions_of_random_shapes(name: str, data: st.DataObject) -> None:
    shape = data.draw(FULL_SHAPES)
    one_only = name == "prod"
    dims = data.draw(
        st.integers(-len(shape), len(shape) - 1)
        if one_only
        else st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True).map(tuple)
    )
    keepdim = data.draw(st.booleans())
    if name in ("var", "std"):
        reduced = np.prod([shape[d] for d in dims])
        if reduced < 2:
            return
    x = values(shape, 0) / 16
    if name == "norm":
        compare(lambda lib, t: lib.norm(t, 2, dims, keepdim), x)
    else:
        compare(lambda lib, t: getattr(lib, name)(t, dims, keepdim=keepdim), x)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax", "flip", "roll"])
@SETTINGS
@given(shape=FULL_SHAPES, data=st.data())
def test_operations_along_a_random_dimension(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    shift = data.draw(st.integers(-5, 5))
    programs = {
        "flip": lambda lib, t: lib.flip(t, (dim,)),
        "roll": lambda lib, t: lib.roll(t, shift, dim),
    }
    compare(programs.get(name, lambda lib, t: getattr(lib, name)(t, dim)), values(shape, 1) / 16)


@SETTINGS
@given(shape=FULL_SHAPES, data=st.data())
def test_random_basic_indexing(shape: tuple[int, ...], data: st.DataObject) -> None:
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        return
    compare(lambda lib, t: t[index] * 2, values(shape, 2))


@SETTINGS
@given(shape=FULL_SHAPES, data=st.data())
def test_random_assignment(shape: tuple[int, ...], data: st.DataObject) -> None:
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=False, allow_ellipsis=True))
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        return

    def program(lib: Any, t: Any, v: Any) -> Any:
        y = t * 1
        y[index] = v
        return y * y

    compare(program, values(shape, 3), values((), 4))


@SETTINGS
@given(shape=FULL_SHAPES, data=st.data())
def test_random_integer_array_indexing(shape: tuple[int, ...], data: st.DataObject) -> None:
    index = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3)))
    compare(lambda lib, t: t[tuple(lib.tensor(part) for part in index)], values(shape, 5))


@SETTINGS
@given(shape=SHAPES, data=st.data())
def test_random_permutations_and_reshapes(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    compare(lambda lib, t: t.permute(*order).reshape(-1) if shape else t.permute(()).reshape(-1), values(shape, 6))


@SETTINGS
@given(
    batch=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3),
    sizes=st.tuples(*[st.integers(1, 4)] * 3),
    vectors=st.tuples(st.booleans(), st.booleans()),
)
def test_matmul_of_random_shapes(batch: Any, sizes: tuple[int, int, int], vectors: tuple[bool, bool]) -> None:
    n, m, k = sizes
    left, right = batch.input_shapes
    a = values((m,) if vectors[0] else (*left, n, m), 7)
    b = values((m,) if vectors[1] else (*right, m, k), 8)
    compare(lambda lib, x, y: lib.matmul(x, y), a, b)


@SETTINGS
@given(shape=FULL_SHAPES, data=st.data())
def test_joining_and_splitting_random_shapes(shape: tuple[int, ...], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = data.draw(st.integers(1, 3))

    def program(lib: Any, t: Any) -> Any:
        parts = t.split(size, dim)
        return lib.cat([*parts[::-1], t * 2], dim) + 1

    compare(program, values(shape, 9))
