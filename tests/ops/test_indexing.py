"""``x[index]`` and ``x[index] = value``, compared with torch: values, gradients, views, histories, errors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import as_array, assert_same, to_ours, to_torch
from tests.parity import attempt, parity, run

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using a non-tuple:UserWarning", "ignore:indexing with dtype:UserWarning"
)

SHAPE = (3, 4, 5)
MASK = np.arange(12).reshape(3, 4) % 5 < 2

# In an index, NumPy arrays stand for tensors.
BASIC = [
    0,
    -1,
    np.int64(2),
    slice(None),
    slice(1, 3),
    slice(-2, None),
    slice(None, None, 2),
    slice(5, 1),
    (0, 1),
    (0, 1, 2),
    (slice(1), -1),
    (..., 0),
    (0, ...),
    (1, ..., slice(2)),
    (slice(None), slice(1, 4, 2), 3),
    None,
    ...,
    (),
    (None, 0, None),
    (slice(None), None, 0),
    (..., None),
    (..., ...),
    np.array(1),
    (slice(None), np.array(-1)),
    (np.array(0, dtype=np.int32), np.array(2), np.array(3)),
    [0, slice(1, 3)],
    [None, 0],
]
ADVANCED = [
    [0, 2],
    [2, 2, 0],
    [],
    [-1],
    range(2),
    (0,) and ([0, 1],),
    np.array([0, 2, 2]),
    np.array([[0, 1], [2, 0]]),
    np.array([1], dtype=np.int32),
    (slice(None), [0, 3]),
    (slice(None), slice(None), [4, 4, 0]),
    (..., [1, 0]),
    ([0, 2], [1, 3]),
    ([0, 2], slice(None), [1, 3]),
    (np.array([[0], [2]]), [1, 3]),
    (slice(None), [0, 1], [[2], [3]]),
    (0, slice(None), [1, 2]),
    (slice(None), 0, [1, 2]),
    ([0, 1], 0),
    ([0, 1], slice(1, 3), 2),
    ([0, 1], None, [1, 2]),
    (None, [0, 1]),
    ([0, 1], np.array(0)),
    (np.array([0, 1]), ..., np.array([1, 2])),
    [[0, 1], [1, 2]],
    [np.array([0, 1]), np.array([1, 2])],
    np.array([True, False, True]),
    [True, False, True],
    MASK,
    (slice(None), np.array([True, False, True, True])),
    (MASK, slice(1, 3)),
    (MASK, 2),
    (0, np.array([True, False, True, True])),
    (np.array([True, False, True]), [0, 1]),
    (np.array([True, False, True]), slice(None), [0, 1]),
    (..., np.array([True, False, True, False, False])),
    np.zeros(3, bool),
    np.arange(60).reshape(SHAPE) % 7 == 0,
    True,
    False,
    (slice(None), True),
    (True, 0),
    np.array(True),
    np.array(False),
    np.array([1, 0, 1], dtype=np.uint8),
    np.array(1, dtype=np.uint8),
]


def label(index: Any) -> str:
    return str(index).replace("\n", "")


def translated(index: Any, make: Any) -> Any:
    """Return the index with tensors of a library in place of arrays."""
    if isinstance(index, np.ndarray):
        return make(index)
    if isinstance(index, (tuple, list)):
        return type(index)(translated(item, make) for item in index)
    return index


def pair(shape: tuple[int, ...] = SHAPE, dtype: str = "float64") -> tuple[rg.Tensor, torch.Tensor]:
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    return rg.from_numpy(values), torch.from_numpy(values.copy())


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=label)
def test_indexing_agrees_with_torch(index: Any) -> None:
    ours, theirs = pair()
    ours.requires_grad_()
    theirs.requires_grad_()
    got, expected = ours[translated(index, to_ours)], theirs[translated(index, to_torch)]
    assert_same(got, expected)
    assert got._is_view() == expected._is_view()
    weight = np.random.default_rng(1).normal(size=expected.shape)
    (grad,) = rg.autograd.grad(got, ours, rg.from_numpy(weight), create_graph=True)
    (expected_grad,) = torch.autograd.grad(expected, theirs, torch.tensor(weight))
    assert_same(grad, expected_grad)


@pytest.mark.parametrize("index", ADVANCED, ids=label)
def test_second_derivatives_of_indexing(index: Any) -> None:
    ours, theirs = pair()
    seconds = []
    for tensor, library, make in ((ours, rg, to_ours), (theirs, torch, to_torch)):
        tensor.requires_grad_()
        picked = tensor[translated(index, make)]
        (grad,) = library.autograd.grad((picked**3).sum(), tensor, create_graph=True)
        seconds.append(library.autograd.grad((grad**2).sum(), tensor)[0])
    assert_same(*seconds)


@pytest.mark.parametrize("index", BASIC, ids=label)
def test_basic_indexing_returns_views(index: Any) -> None:
    ours, _ = pair()
    part = ours[translated(index, to_ours)]
    assert part._is_view()
    assert part._base is ours
    if part.numel():
        assert np.shares_memory(part.numpy(), ours.numpy())
        before = ours._version
        part += 1
        assert ours._version == before + 1


@pytest.mark.parametrize("index", ADVANCED, ids=label)
def test_advanced_indexing_copies(index: Any) -> None:
    ours, _ = pair()
    assert not np.shares_memory(ours[translated(index, to_ours)].numpy(), ours.numpy())


def test_node_names_of_indexing() -> None:
    x = rg.ones(3, 4, requires_grad=True)
    assert x[0].grad_fn.name() == "SelectBackward0"
    assert x[0:2].grad_fn.name() == "SliceBackward0"
    assert x[[0, 1]].grad_fn.name() == "IndexBackward0"


def test_numpy_arrays_and_scalars_as_indices() -> None:
    x = rg.arange(12).reshape(3, 4)
    assert x[np.array([2, 0])].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[np.int32(1), np.uint8(2)].item() == 6
    assert x[np.array(1)]._is_view()
    assert x[np.True_].shape == (1, 3, 4)
    assert x[rg.tensor(1), rg.tensor(2)].item() == 6


@pytest.mark.parametrize(
    "index",
    [
        7,
        -4,
        (0, 9),
        (0, 0, 0, 0),
        (..., 0, 0, 0, 0),
        slice(None, None, -1),
        slice(None, None, 0),
        (0, slice(2, 0, -1)),
        1.0,
        "a",
        np.array(1.0),
        np.array([0.5]),
        np.array([1], dtype=np.int16),
        np.array([9]),
        np.array([-4]),
        np.array([True, False]),
        (slice(None), np.array([True])),
        MASK.T,
        ([0, 1], [0, 1, 2]),
        ([0], [9]),
        {},
        len,
    ],
    ids=label,
)
def test_wrong_indices_are_refused_as_in_torch(index: Any) -> None:
    ours, theirs = pair()
    with pytest.raises(Exception) as expected:
        theirs[translated(index, to_torch)]
    with pytest.raises(type(expected.value)):
        ours[translated(index, to_ours)]
    with pytest.raises(type(expected.value)):
        ours[translated(index, to_ours)] = 1.0
    with pytest.raises(type(expected.value)):
        ours.requires_grad_()[translated(index, to_ours)]


@pytest.mark.parametrize("index", [0, (0, 0), [0], slice(1), np.array([0])], ids=label)
def test_wrong_indices_of_scalars_are_refused(index: Any) -> None:
    with pytest.raises(IndexError):
        torch.tensor(1.0)[translated(index, to_torch)]
    with pytest.raises(IndexError):
        rg.tensor(1.0)[translated(index, to_ours)]


@pytest.mark.parametrize("index", [..., None, (), True, False, np.array(True), (..., None)], ids=label)
def test_indices_of_scalars(index: Any) -> None:
    ours, theirs = rg.tensor(2.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    got, expected = ours[translated(index, to_ours)], theirs[translated(index, to_torch)]
    assert_same(got, expected)
    got.sum().backward()
    expected.sum().backward()
    assert_same(ours.grad, theirs.grad)


def test_element_of_a_vector_is_a_view() -> None:
    x = rg.zeros(3)
    x[1].add_(2)
    x[rg.tensor(2)].fill_(3)
    assert x.tolist() == [0, 2, 3]


# --- assignment ---------------------------------------------------------------------------------------------------

# Assignment to repeated places has no defined result.
UNIQUE = [
    index
    for index in BASIC + ADVANCED
    if label(index)
    not in map(
        label,
        (
            [2, 2, 0],
            np.array([0, 2, 2]),
            np.array([[0, 1], [2, 0]]),
            (slice(None), slice(None), [4, 4, 0]),
        ),
    )
]


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("index", UNIQUE, ids=label)
def test_assignment_agrees_with_torch(index: Any, recorded: bool) -> None:
    ours, theirs = pair()
    shape = theirs[translated(index, to_torch)].shape
    value = np.random.default_rng(2).normal(size=shape)
    results = []
    for start, make, library in ((ours, to_ours, rg), (theirs, to_torch, torch)):
        new = make(value)
        leaves = [start, new]
        if recorded:
            start.requires_grad_()
            new.requires_grad_()
        x = start * 1
        before = x._version
        x[translated(index, make)] = new
        assert x._version == before + (index is not False) or library is torch
        grads = []
        if recorded:
            weight = make(np.random.default_rng(3).normal(size=SHAPE))
            grads = library.autograd.grad((x * x * weight).sum(), leaves, allow_unused=True)
        results.append([x, *grads])
    for got, expected in zip(*results, strict=True):
        if expected is None:  # nothing was written
            assert got is None or not got.numel() or not got.any()
        else:
            assert_same(got, expected)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 2),
        (0, 2.5),
        (slice(1, 3), True),
        (([0, 1], [1, 2]), 7),
        (MASK, 0),
        (0, np.arange(5.0)),
        ((slice(None), 0), np.arange(3.0)[:, None]),
        ([0, 2], np.arange(5.0)),
        ([0, 2], np.ones((1, 1, 4, 5))),
        (0, np.arange(5)),
        (MASK, np.arange(5, dtype=np.float32)),
        ([0], np.array(3)),
        (..., np.array(1.5, dtype=np.float32)),
        ((0, 0, 0), np.array(3.0)),
        ((0, 0, 0), np.array([3.0])),
        (slice(0, 0), 3),
        (np.zeros(3, bool), 3),
    ],
    ids=label,
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
def test_assigned_values_are_broadcast_and_converted(index: Any, value: Any, dtype: str, recorded: bool) -> None:
    ours, theirs = pair(dtype=dtype)
    if recorded and dtype.startswith("float"):
        ours, theirs = ours.requires_grad_() * 1, theirs.requires_grad_() * 1
    our_value, their_value = translated(value, to_ours), translated(value, to_torch)
    try:
        theirs[translated(index, to_torch)] = their_value
    except RuntimeError as error:  # values are converted for views and for a mask, but not for other elements
        assert "dtypes match" in str(error)
        with pytest.raises(RuntimeError, match="dtypes match"):
            ours[translated(index, to_ours)] = our_value
        our_value, their_value = our_value.to(ours.dtype), their_value.to(theirs.dtype)
        theirs[translated(index, to_torch)] = their_value
    ours[translated(index, to_ours)] = our_value
    assert_same(ours, theirs)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int8", "bool"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool", "complex64"])
def test_which_values_of_another_dtype_can_be_written(dtype: str, kind: str, recorded: bool) -> None:
    mask = np.array([True, False, True])

    @parity
    def compare(lib: Any) -> Any:
        report = []
        make = to_ours if lib is rg else to_torch
        for number in (1, 0, 100, 2.5, -1.5, 300, 1e30, float("nan")):
            if kind[0] != "f" and number not in (1, 0, 100):
                continue
            value = lib.tensor(number).to(getattr(lib, kind))
            for index in (True, False, mask, (None, mask), [0, 2], np.array([1]), (slice(2), None), ([0],), 1):
                for given in (value, value.reshape(1), value.expand(3), value.expand(0)):
                    x = lib.zeros(3, dtype=getattr(lib, dtype))
                    if recorded and dtype in ("float32", "complex64"):
                        x = x.requires_grad_() * 1
                    report.append(attempt(functools.partial(x.__setitem__, translated(index, make), given)))
                    report.append(str(x.tolist()))
                for accumulate in (False, True):
                    if isinstance(index, np.ndarray):
                        x = lib.zeros(3, dtype=getattr(lib, dtype))
                        put = functools.partial(x.index_put_, (make(index),), value, accumulate=accumulate)
                        report += [attempt(lambda put=put: put() is None), str(x.tolist())]
            x = lib.zeros(3, dtype=getattr(lib, dtype))
            report.append(attempt(lambda x=x, value=value: str(x.masked_fill(make(mask), value).tolist())))
            report.append(attempt(lambda x=x, value=value: str(x.index_fill(0, make(np.array([0])), value).tolist())))
        return report

    compare()


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, np.ones(4)),
        (slice(2), np.ones((3, 4, 5))),
        ([0, 1], np.ones((3, 4, 5))),
        (MASK, np.ones((9, 9))),
        (0, np.ones((2, 4, 5))),
        (0, [1.0]),
        (0, "a"),
        (0, None),
    ],
    ids=label,
)
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
def test_assigned_values_of_wrong_shape_are_refused(index: Any, value: Any, recorded: bool) -> None:
    ours, theirs = pair()
    if recorded:
        ours, theirs = ours.requires_grad_() * 1, theirs.requires_grad_() * 1
    with pytest.raises(Exception) as expected:
        theirs[translated(index, to_torch)] = translated(value, to_torch)
    with pytest.raises(type(expected.value)):
        ours[translated(index, to_ours)] = translated(value, to_ours)


def test_assigning_arrays_and_numpy_scalars() -> None:
    x = rg.zeros(3)
    x[:2] = np.array([1.0, 2.0])
    x[2] = np.float64(3)
    x[[0]] = np.array(5)
    assert x.tolist() == [5, 2, 3]


def test_assigning_complex_values_to_real_tensors_warns() -> None:
    x = rg.zeros(2)
    with pytest.warns(UserWarning, match="imaginary"):
        x[0] = rg.tensor(1 + 2j)
    assert x.tolist() == [1, 0]


@parity
def test_deleting_items_is_refused(lib: Any) -> Any:
    x = lib.ones(3)

    def delete() -> None:
        del x[0]

    return [attempt(delete), x]


def test_assigning_to_a_leaf_that_requires_grad_is_refused() -> None:
    x = rg.ones(3, requires_grad=True)
    for index in (0, slice(2), [0], ...):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            x[index] = 1.0
    with rg.no_grad():
        x[0] = 5.0
        x[[1]] = 6.0
    assert x.tolist() == [5, 6, 1]
    assert x.is_leaf


def test_assigning_to_an_expanded_tensor_is_refused() -> None:
    x = rg.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:, 0] = 1.0
    with pytest.raises(RuntimeError, match="single memory location"):
        x[[0]] = 1.0
    x[0] = 1.0  # no element occurs twice
    assert x.all()


def test_history_after_assignments() -> None:
    grads = []
    for library in (rg, torch):
        x = library.ones(4, dtype=library.float64, requires_grad=True)
        v = library.full((2,), 3.0, dtype=library.float64, requires_grad=True)
        buffer = library.zeros(4, dtype=library.float64)
        buffer[0] = x[1] * 2
        view = buffer[1:3]
        view[:] = v * x[:2]
        buffer[library.tensor([3])] = x[3] ** 2
        assert buffer.requires_grad
        assert view.requires_grad
        (buffer**2).sum().backward()
        grads += [(x.grad, v.grad)]
    for got, expected in zip(*grads, strict=True):
        assert_same(got, expected)


def test_assignment_between_overlapping_parts() -> None:
    x = rg.arange(5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    y = rg.arange(5)
    y[[0, 1, 2]] = y[[2, 1, 0]]
    assert y.tolist() == [2, 1, 0, 3, 4]


PLACING = {
    "masked_scatter": lambda to, of: to.masked_scatter_(to.detach() % 2 == 0, of),
    "put": lambda to, of: to.put_(rg.arange(to.numel()).flip(0), of),
    "index_reduce": lambda to, of: to.index_reduce_(0, rg.tensor([1, 1, 0]), of, "mean", include_self=False),
    "scatter_reduce": lambda to, of: to.scatter_reduce_(0, rg.ones(3, 3, dtype=int), of, "sum", include_self=False),
    "index_add": lambda to, of: to.index_add_(0, rg.tensor([1, 1, 0]), of),
    "index_put": lambda to, of: to.index_put_((rg.tensor([1, 1, 0]),), of, accumulate=True),
}


@pytest.mark.parametrize("name", PLACING)
@pytest.mark.parametrize("source", [lambda y: y[:3], lambda y: y[1:], lambda y: y[1:].T], ids=["same", "next", "T"])
def test_scattered_values_may_overlap_the_target(name: str, source: Any) -> None:
    """torch refuses most of these; here the values are read before any is overwritten."""
    results = []
    for separate in (False, True):
        x = rg.arange(12.0, dtype=rg.float64).reshape(4, 3).requires_grad_("reduce" not in name)  # saved
        y = x * 1
        PLACING[name](y[:3], source(y).clone() if separate else source(y))
        if y.requires_grad:
            (y * rg.arange(1.0, 13.0).reshape(4, 3)).sum().backward()
        results.append((y.tolist(), x.grad is not None and x.grad.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["put", "index_copy", "scatter", "scatter_reduce"])
def test_index_may_overlap_the_target(name: str) -> None:
    source = rg.arange(4)
    results = []
    for separate in (False, True):
        x = rg.tensor([1, 0, 3, 2])
        index = x.clone() if separate else x
        if name == "put":
            x.put_(index, source)
        elif name == "scatter_reduce":
            x.scatter_reduce_(0, index, source, "mean", include_self=False)
        else:
            getattr(x, name + "_")(0, index, source)
        results.append(x.tolist())
    assert results[0] == results[1]


def test_writing_to_a_saved_index_is_noticed() -> None:
    x = rg.ones(3, requires_grad=True)
    index = rg.tensor([0, 1])
    y = x[index]
    index.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_augmented_assignment_to_indexed_elements() -> None:
    x = rg.ones(3, requires_grad=True)
    y = x * 2
    y[0] *= 5
    y[[1, 2]] += 1
    y.sum().backward()
    assert y.tolist() == [10, 3, 3]
    assert x.grad.tolist() == [10, 2, 2]


def test_legacy_sequences_of_indices_warn() -> None:
    x = rg.arange(12).reshape(3, 4)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 2]]].tolist() == [1, 6]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[rg.tensor([1, 0, 0], dtype=rg.uint8)].tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed"])
def test_layouts_of_indexed_results(layout: str) -> None:
    values = np.random.default_rng(0).normal(size=(6, 8))
    array = {"transposed": values.T, "strided": values[::2, 1::3], "reversed": values[::-1, ::-1]}[layout]
    for index in (1, (slice(1, 3), 1), [0, 2], ([0, 1], [1, 0]), (slice(None), [1, 0, 1])):
        x = rg.from_numpy(array).requires_grad_()
        picked = x[index]
        np.testing.assert_array_equal(as_array(picked), array[index])
        (picked * 2).sum().backward()
        expected = np.zeros_like(array)
        np.add.at(expected, index, 2)
        np.testing.assert_array_equal(as_array(x.grad), expected)
        y = x * 1
        y[index] = 7.0
        assert np.all(as_array(y)[index] == 7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128", "int64", "bool"])
def test_indexing_of_every_dtype(dtype: str) -> None:
    ours, theirs = pair((3, 4), "float64")
    ours, theirs = ours.to(getattr(rg, dtype)), theirs.to(getattr(torch, dtype))
    for index in (0, slice(1), [0, 2, 2], ([0, 1], [1, 1]), np.array([True, False, True])):
        assert_same(ours[translated(index, to_ours)], theirs[translated(index, to_torch)])


# --- found by random programs -------------------------------------------------------------------------------------


@parity
def test_arrays_of_small_integers_as_indices(lib: Any) -> Any:
    x = lib.arange(12.0).reshape(3, 4)
    small = ("int8", "int16", "uint16", "uint32", "uint64")
    report = [x[np.array([0, 2], dtype)] for dtype in small] + [x[1:, np.array(3, dtype)] for dtype in small]
    report += [x[lib.tensor(2, dtype=lib.int8)], attempt(lambda: x[lib.tensor([2], dtype=lib.int8)])]
    x[np.array([0, 2], "int16"), lib.tensor(1, dtype=lib.int16)] = -1.0
    return [*report, x]


VALUES_WITH_LEADING_ONES = [
    ((1, 2), lambda lib: lib.tensor([True, False, True])),
    ((1, 1, 2), lambda lib: lib.tensor([True, False, True])),
    ((1, 1, 1), lambda lib: (0, lib.tensor(True))),
    ((1, 2), lambda lib: lib.tensor([0, 2])),
    ((1, 1, 2, 1), lambda lib: lib.tensor([[0], [2]])),
    ((1, 2, 1, 1), lambda lib: [[[-2], [-2]]]),
    ((1, 3), lambda lib: slice(None)),
    ((2, 1), lambda lib: lib.tensor([True, False, True])),
    ((2, 3), lambda lib: lib.tensor([True, False, True])),
    ((1, 3), lambda lib: lib.tensor([True, False, True])),
]


@pytest.mark.filterwarnings("ignore:Using a non-tuple:UserWarning")
@pytest.mark.parametrize("shape_and_index", VALUES_WITH_LEADING_ONES)
@pytest.mark.parametrize("recorded", [True, False])
def test_assigning_values_with_leading_dimensions_of_one(shape_and_index: Any, recorded: bool) -> None:
    shape, index = shape_and_index

    @parity
    def compare(lib: Any) -> Any:
        values = lib.linspace(1, 2, int(np.prod(shape)), dtype=lib.float64).reshape(shape).requires_grad_(recorded)
        x = lib.zeros(3, dtype=lib.float64)

        def assign() -> None:
            x[index(lib)] = values

        failed = attempt(assign)
        if failed is None and recorded:
            (x * x).sum().backward()
        return [failed, x, values.grad]

    compare()


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (0, 0, 0), (0, 9)], ids=str)
@pytest.mark.parametrize("of", [(3, 4), ()], ids=str)
def test_empty_indices(of: Any, shape: Any) -> None:
    """They gather and scatter nothing, whatever their shape."""

    @parity
    def compare(lib: Any) -> Any:
        index = lib.zeros(shape, dtype=lib.int64)
        x = lib.ones(of, dtype=lib.float64, requires_grad=True)
        made = [x.gather(0, index), x.scatter(0, index, x.detach()), x.scatter_add(0, index, x.detach())]
        gradients = [lib.autograd.grad((item * item).sum(), x)[0] for item in made]
        reduced = [x.scatter_reduce(0, index, x, name, include_self=False) for name in ("sum", "mean", "prod", "amax")]
        placed = [lib.ones(of).scatter_(0, index, 5.0), lib.ones(of).scatter(0, index, lib.ones(0))]
        return [made, gradients, reduced, placed]

    compare()
    # torch's gradients of the source have the shape of the index, and it refuses most of them
    index = rg.zeros(shape, dtype=rg.int64)
    for reduce in ("sum", "mean", "prod", "amax"):
        x, src = (rg.ones(of, dtype=rg.float64, requires_grad=True) for _ in range(2))
        gradients = rg.autograd.grad(x.scatter_reduce(0, index, src, reduce).sum(), (x, src), create_graph=True)
        assert [item.tolist() for item in gradients] == [rg.ones(of).tolist(), rg.zeros(of).tolist()]


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_overwritten_elements_get_no_gradient(reduce: str, value: float) -> None:
    """Even if the new value is not finite."""

    def gradient(library: Any) -> Any:
        x = library.tensor([2.0, 5.0, -1.0], requires_grad=True)
        src, index = library.tensor([value, 1.0]), library.tensor([0, 0])
        x.scatter_reduce(0, index, src, reduce, include_self=False).sum().backward()
        return x.grad.tolist()

    assert gradient(rg) == gradient(torch) == [0.0, 1.0, 1.0]


@parity
def test_infinite_gradient_elsewhere_does_not_reach_the_fill_value(lib: Any) -> Any:
    value, x = lib.tensor(2.0, requires_grad=True), lib.zeros(3)
    weights = lib.tensor([1.0, float("inf"), 3.0])
    (x.index_fill(0, lib.tensor([0, 2]), value) * weights).sum().backward()
    return value.grad


@pytest.mark.parametrize(("index", "source"), [((2,), ()), ((0,), ()), ((), (2,))], ids=str)
@pytest.mark.parametrize("name", ["index_add", "index_copy", "index_reduce"])
def test_scattering_several_elements_into_a_scalar_is_refused(
    name: str, index: tuple[int, ...], source: tuple[int, ...]
) -> None:
    more = ["mean"] if name == "index_reduce" else []
    for library in (torch, rg):
        x = library.ones(())
        with pytest.raises((RuntimeError, IndexError)):
            getattr(x, name)(0, library.zeros(index, dtype=library.int64), library.ones(source), *more)


def test_as_strided_scatter_gradients() -> None:
    input = rg.arange(12.0, dtype=rg.float64).reshape(3, 4).requires_grad_()
    src = rg.ones(2, 3, dtype=rg.float64, requires_grad=True)

    def scatter(input: rg.Tensor, src: rg.Tensor) -> rg.Tensor:
        return rg.as_strided_scatter(input, src, (2, 3), (1, 4), 1).square()

    assert rg.autograd.gradcheck(scatter, (input, src))
    assert rg.autograd.gradgradcheck(scatter, (input, src))
    with pytest.raises(RuntimeError, match=r"src size = \[2, 3\], slice size = \[3, 3\]"):
        rg.as_strided_scatter(input, src, (3, 3), (4, 1))


@pytest.mark.parametrize("indices", [(), (None,), (None, None)], ids=str)
def test_index_put_without_indices_writes_all_elements(indices: Any) -> None:
    x, values = rg.arange(6.0).reshape(2, 3).requires_grad_(), rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    added = x.index_put(indices, values, accumulate=True)
    assert added.tolist() == (x + values).tolist()
    assert x.index_put(indices, values).tolist() == values.expand(2, 3).tolist()
    added.sum().backward()
    assert x.grad.tolist() == rg.ones(2, 3).tolist()
    assert values.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("shape", [(2, 2.0), 2.5, "ab", [[2], [3]], None], ids=str)
def test_unravel_index_takes_only_integer_shapes(shape: Any) -> None:
    for lib in (torch, rg):
        with pytest.raises(TypeError, match="shape"):
            lib.unravel_index(lib.tensor([1]), shape)
    with pytest.raises(TypeError, match=r"'shape' .* must be int or a sequence of ints, not retrograd\.Tensor"):
        rg.unravel_index(rg.tensor([1]), rg.tensor([2, 3]))


@pytest.mark.parametrize(
    "shapes", [((), (1,), ()), ((), (), (2,)), ((1,), (1,), ()), ((3,), (1,), ()), ((3,), (2,), ())], ids=str
)
@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_reduce"])
def test_scalar_tensor_counts_as_a_vector_of_one_element(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    more = ["prod"] if name == "scatter_reduce" else []

    def placed(library: Any) -> Any:
        x, src = (library.full(shape, 3.0, dtype=library.float64) for shape in (shapes[0], shapes[2]))
        return attempt(lambda: getattr(x, name)(0, library.zeros(shapes[1], dtype=library.int64), src, *more))

    assert run(placed, rg) == run(placed, torch)
    if shapes[1] != (2,):
        index = rg.zeros(shapes[1], dtype=rg.int64)
        operands = [rg.full(shape, 3.0, dtype=rg.float64, requires_grad=True) for shape in (shapes[0], shapes[2])]
        assert rg.autograd.gradcheck(lambda x, src: getattr(x, name)(0, index, src, *more), operands)
