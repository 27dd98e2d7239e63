"""vmap: dimensions, nested structures, gradients through it, randomness and errors."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, check_both_refuse, message, parity

RNG = np.random.default_rng(1)
A = RNG.normal(size=(5, 3))
B = RNG.normal(size=(3, 5, 2))


class Pair(NamedTuple):
    x: Any
    y: Any


# --- dimensions and structures ----------------------------------------------------------------------------------------


@parity
def test_in_dims_and_out_dims(lib: Any) -> Any:
    a, b = lib.tensor(A), lib.tensor(B)

    def f(x: Any, y: Any) -> Any:
        return (x[:, None] * y).sum(-1) if y.ndim == 2 else x.sum() * y

    return [
        lib.vmap(f, in_dims=(0, 1))(a, b),
        lib.vmap(f, in_dims=(0, -2), out_dims=1)(a, b),
        lib.vmap(f, in_dims=(0, None), out_dims=-1)(a, b[:, 0]),
        lib.vmap(f, in_dims=(None, 2))(a[0], b),
        lib.vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(a),
        lib.vmap(lambda x: {"u": x, "v": [x * 2]}, out_dims={"u": 1, "v": [0]})(a),
        lib.vmap(lambda x: (x, 3), out_dims=(0, None))(a),
        lib.vmap(lambda x: x)(a),
    ]


@parity
def test_vmap_over_nested_arguments(lib: Any) -> Any:
    a = lib.tensor(A)

    def f(first: Any, second: Any) -> Any:
        return first["p"][0] + first["q"] * second[1]

    tree = {"p": [a, 1.5], "q": a[0]}
    return lib.vmap(f, in_dims=({"p": [0, None], "q": None}, (None, 0)))(tree, (3, a))


@parity
def test_vmap_and_grad_keep_default_dictionaries_and_deques(lib: Any) -> Any:
    a = lib.tensor(A)
    made = lib.vmap(lambda d: defaultdict(list, {"p": d["p"] * 2, "q": d["q"][1]}))(
        defaultdict(int, p=a, q=deque([a, a]))
    )
    gradient = lib.func.grad(lambda d: (d[0] * d[1]).sum())(deque([a, a[0]], maxlen=3))
    return [type(made).__name__, made.default_factory.__name__, dict(made), gradient.maxlen, list(gradient)]


def test_vmap_keeps_named_tuples() -> None:
    made = rg.vmap(lambda pair: Pair(pair.x + pair.y, pair.x))(Pair(rg.tensor(A), rg.tensor(A)))
    assert isinstance(made, Pair)
    np.testing.assert_allclose(made.x.numpy(), 2 * A)


@parity
def test_output_shared_by_all_samples_is_repeated(lib: Any) -> Any:
    return lib.vmap(lambda x: (lib.ones(2), x.sum()))(lib.tensor(A))


@parity
def test_keyword_arguments_are_not_mapped(lib: Any) -> Any:
    return lib.vmap(lambda x, w=None: x * w)(lib.tensor(A), w=lib.tensor(A[0]))


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_vmap_with_chunk_size(size: int) -> None:
    def program(lib: Any) -> Any:
        f = lib.vmap(lambda x, y: (x * y.sum(), {"s": x.sum()}), in_dims=(0, 1), out_dims=(1, 0), chunk_size=size)
        return f(lib.tensor(A), lib.tensor(B))

    parity(program)()


def test_samples_have_the_shape_of_one_sample() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append((x.shape, x.ndim, x.numel(), len(x), x.dtype, x.device.type, x.size(0), x.is_contiguous()))
        return x

    rg.vmap(f)(rg.tensor(B))
    assert seen == [((5, 2), 2, 10, 5, rg.float64, "cpu", 5, True)]


@parity
def test_in_place_writes_reach_the_batch(lib: Any) -> Any:
    a = lib.tensor(A)

    def f(x: Any) -> Any:
        x[0] = 7
        x[1:].mul_(2)
        return x.clone().add_(x.sum())

    return [lib.vmap(f)(a), a]


@parity
def test_contiguous_inside_vmap(lib: Any) -> Any:
    pairs = lib.tensor(A[:2], requires_grad=True)
    made = [
        lib.vmap(lambda x: x.contiguous().view(-1), in_dims=2)(lib.tensor(B)),
        lib.vmap(lambda x: x.T.clone(memory_format=lib.contiguous_format).view(-1), in_dims=1)(lib.tensor(B)),
        lib.vmap(lambda x: lib.view_as_complex(x.contiguous()), in_dims=1)(pairs),
    ]
    made[-1].abs().sum().backward()
    return [*made, pairs.grad]


def test_iteration_and_indexing_inside_vmap() -> None:
    def f(x: Any) -> Any:
        first, *rest = x
        return first + sum(rest) - x[-1] * 2 + x[[0, 1]].sum()

    expected = np.stack([row.sum() - row[-1] * 2 + row[:2].sum() for row in A])
    np.testing.assert_allclose(rg.vmap(f)(rg.tensor(A)).numpy(), expected)


PICKS = {
    "a[i]": lambda lib, a, i: a[i],
    "a[..., i]": lambda lib, a, i: a[..., i],
    "a[None, i]": lambda lib, a, i: a[None, i],
    "a[i, 0]": lambda lib, a, i: a[i, 0],
    "a[:, i]": lambda lib, a, i: a[:, i],
    "a[i, 1:, i]": lambda lib, a, i: a[i, 1:, i],
    "a[i, :, list]": lambda lib, a, i: a[i, :, [0, 1]],
    "a[[1, 0], i]": lambda lib, a, i: a[lib.tensor([1, 0]), i],
    "a captured": lambda lib, a, i: lib.tensor(C)[i] * a,
    "a captured, and i not first": lambda lib, a, i: lib.tensor(C)[0, :, i],
    "a[i - 1]": lambda lib, a, i: a[i - 1],
    "int32": lambda lib, a, i: a[i.int()],
    "a[i] = number": lambda lib, a, i: assigned(a * 1, i, 0.5),
    "a[i] = a[0]": lambda lib, a, i: assigned(a * 1, i, a[0] * 2),
    "a[..., i] = number": lambda lib, a, i: assigned(a * 1, (..., i), 0.5),
    "a[0, i] = a[0, 0]": lambda lib, a, i: assigned(a * 1, (0, i), a[0, 0]),
}
C = RNG.normal(size=(2, 2, 2))


def assigned(a: Any, index: Any, value: Any) -> Any:
    a[index] = value
    return a


@pytest.mark.parametrize("name", PICKS)
def test_indices_that_differ_by_sample(name: str) -> None:
    def program(lib: Any) -> Any:
        a, i = lib.tensor(np.stack([C, C + 1, C * 2]), requires_grad=True), lib.tensor([0, 1, 1])
        made = lib.vmap(lambda a, i: PICKS[name](lib, a, i))(a, i)
        if made.requires_grad:
            (made**2).sum().backward()
        return [made, a.grad]

    parity(program)()


def test_derivatives_at_indices_that_differ_by_sample() -> None:
    a, i = rg.tensor(A), rg.tensor([0, 2, 1, 1, 0])
    expected = np.zeros((5, 3))
    expected[range(5), i.numpy()] = 2 * A[range(5), i.numpy()]
    for derivative in (rg.func.grad, rg.func.jacfwd):
        np.testing.assert_allclose(rg.vmap(derivative(lambda a, i: a[i] ** 2))(a, i).numpy(), expected)


@parity
def test_wrong_shapes_and_dims_of_a_sample_are_refused(lib: Any) -> Any:
    a, other = lib.tensor(A), lib.ones(2, dtype=lib.float64)
    mistakes: list[Any] = [
        lambda x: x + other,
        lambda x: x == other,
        lambda x: lib.where(x > 0, x, other),
        lambda x: lib.addcmul(x, x, other),
        lambda x: x.clone().mul_(other),
        lambda x: x.sum(3),
        lambda x: x.cumsum(2),
        lambda x: x.logsumexp(1),
        lambda x: lib.linalg.inv(lib.zeros(2, 2) * x.sum()),
    ]
    return [attempt(lambda mistake=mistake: lib.vmap(mistake)(a)) for mistake in mistakes]


def test_broadcasting_error_inside_vmap_names_the_shapes_of_a_sample() -> None:
    text = message(lambda: rg.vmap(lambda x: x + rg.ones(2))(rg.tensor(A)))
    assert text.startswith("The size of tensor a (3) must match the size of tensor b (2)")
    assert "in add" in text


@pytest.mark.parametrize("indices", [[5], [[5]] * 5, [[5], [6], [7], [5], [5]], [[0], [1], [7], [0], [0]]])
def test_error_inside_vmap_names_the_index_out_of_bounds(indices: Any) -> None:
    index = rg.tensor(indices)
    dims = (0, None if index.ndim == 1 else 0)
    picks: list[Any] = [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i),
        lambda x, i: x.take(i),
        lambda x, i: x.index_add(0, i, rg.ones(1, dtype=rg.float64)),
    ]
    for pick in picks:
        text = message(lambda pick=pick: rg.vmap(pick, in_dims=dims)(rg.tensor(A), index))
        assert "index 5" in text or "index 7" in text
        assert "Batched" not in text


def test_index_out_of_bounds_in_one_sample_is_refused() -> None:
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        rg.vmap(lambda a, i: a[i])(rg.tensor(A), rg.tensor([0, 1, 9, 0, 0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.searchsorted(np.linspace(-2, 2, 9), x),
        lambda x: np.digitize(x, np.linspace(-2, 2, 9)),
        lambda x: np.histogram(x, np.linspace(-2, 2, 9))[0],
        lambda x: np.histogram_bin_edges(x, 4),
        lambda x: np.argpartition(x, 1),
        lambda x: np.lexsort((x, x > 0)),
        lambda x: np.isin(x, A[:, 0]),
        lambda x: np.nanargmax(x),
    ],
)
def test_numpy_functions_without_a_derivative_inside_vmap(function: Any) -> None:
    made = rg.vmap(function)(rg.tensor(A))
    np.testing.assert_allclose(made.numpy(), np.stack([function(row) for row in A]))


def test_differentiable_numpy_functions_inside_vmap() -> None:
    made = rg.vmap(lambda x: np.where(x > 0, np.exp(x), 0).sum() + np.linalg.norm(x))(rg.tensor(A))
    np.testing.assert_allclose(made.numpy(), np.where(A > 0, np.exp(A), 0).sum(1) + np.linalg.norm(A, axis=1))


INTERPOLATED = {
    "at": lambda x: np.interp(x, [-1.0, 0.0, 0.5], [1.0, 2.0, 5.0]),
    "between": lambda x: np.interp([0.2, 0.7], np.sort(x), [1.0, 2.0, 5.0], right=0.0),
    "partition": lambda x: np.partition(x, 1) * np.arange(3),
    "piecewise": lambda x: np.piecewise(x, [x < 0, x > 1], [2.0, -1.0, 0.5]) * x,
    "poly": np.poly,
    "take": lambda x: np.take(np.outer(x, x), np.argmax(x), axis=1),
}


@pytest.mark.parametrize("name", INTERPOLATED)
def test_numpy_functions_that_depend_on_values_inside_vmap(name: str) -> None:
    function = INTERPOLATED[name]
    np.testing.assert_allclose(rg.vmap(function)(rg.tensor(A)).numpy(), np.stack([function(row) for row in A]))
    jacobians = [rg.func.jacrev(function)(row).numpy() for row in A]
    for derivative in (rg.func.jacrev, rg.func.jacfwd):
        np.testing.assert_allclose(rg.vmap(derivative(function))(A).numpy(), np.stack(jacobians))


def test_piecewise_functions_that_differ_by_sample_suggest_where() -> None:
    """Each function receives the elements in its piece, whose number may differ between samples."""
    for edge in (0.0, 9.0):
        with pytest.raises(RuntimeError, match=r"where\("):
            rg.vmap(lambda x, edge=edge: np.piecewise(x, [x < edge], [np.exp, np.sin]))(A)


def test_indexing_an_array_with_a_batched_index_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"index one.*from_numpy\(array\)"):
        rg.vmap(lambda i: np.arange(3.0)[i])(np.array([0, 2]))


def test_bincount_of_weights_at_shared_places() -> None:
    """The length of the result depends on the places, not on the weights."""
    places, weights = np.array([0, 2, 2]), np.array([1.0, -2.0, 0.5])

    def counts(w: Any) -> Any:
        return np.bincount(places, weights=w)

    expected = np.eye(3)[places].T
    np.testing.assert_allclose(rg.vmap(counts)(A).numpy(), A @ expected.T)
    for jacobian in (rg.func.jacfwd, rg.func.jacrev):
        np.testing.assert_allclose(jacobian(counts)(weights).numpy(), expected)
    second = rg.func.hessian(lambda w: (counts(w) ** 2).sum())(weights)
    np.testing.assert_allclose(second.numpy(), 2 * expected.T @ expected)
    nested = rg.vmap(rg.vmap(lambda w: np.bincount(places, w, minlength=4)))(np.stack([A, -A]))
    np.testing.assert_allclose(nested.numpy()[1, :, :3], -A @ expected.T)
    assert nested.shape == (2, 5, 4)
    assert rg.vmap(counts)(A[:0]).shape == (0, 3)
    with pytest.raises(RuntimeError, match="shape of the result of bincount depends on the data"):
        rg.vmap(np.bincount)(np.array([[0, 1, 1], [2, 0, 0]]))
    with pytest.raises(RuntimeError, match="shape of the result of bincount depends on the data"):
        rg.vmap(lambda x: rg.bincount(x, minlength=4))(rg.tensor([[0, 1, 1]])[:0])


@parity
def test_bincount_of_places_that_differ_by_sample(lib: Any) -> Any:
    places, weights = lib.tensor([[0, 1, 1], [2, 0, 0]]), lib.tensor(A[:2])
    counts = lambda x, w: lib.bincount(x, w, minlength=4)  # noqa: E731
    return [
        lib.vmap(lambda x: lib.bincount(x, minlength=4))(places),
        lib.vmap(lambda x: lib.bincount(x, minlength=3), in_dims=1)(places),
        lib.vmap(counts)(places, weights),
        lib.vmap(counts, in_dims=(0, None))(places, weights[0]),
        attempt(lambda: lib.vmap(lib.bincount)(places)),
    ]


@parity
def test_vmap_of_embedding_bag(lib: Any) -> Any:
    bag, table = lib.nn.functional.embedding_bag, lib.tensor(A)
    bags = lib.tensor([[[0, 1], [4, 4]], [[2, 2], [3, 0]]])
    tables = lib.stack([table, table * 2])
    loss = lambda table, bags: (bag(bags, table) ** 2).sum()  # noqa: E731
    return [
        lib.vmap(bag, in_dims=(0, None))(bags, table),
        lib.vmap(bag)(bags, tables),
        lib.vmap(bag, in_dims=(None, 0))(bags[0], tables),
        lib.vmap(lambda x: bag(x, table, mode="sum"), in_dims=1)(bags),
        lib.vmap(lambda x: bag(x.reshape(-1), table, lib.tensor([0, 3])))(bags),
        lib.vmap(lib.func.grad(loss), in_dims=(None, 0))(table, bags),
        attempt(lambda: lib.vmap(bag, in_dims=(0, None))(bags + 1, table)),
    ]


@parity
def test_vmap_of_embedding_bag_with_all_options(lib: Any) -> Any:
    bag, tables = lib.nn.functional.embedding_bag, lib.stack([lib.tensor(A), lib.tensor(A) * 2])
    bags, vectors = lib.tensor([[[0, 1], [4, 4]], [[2, 4], [3, 0]]]), lib.tensor([[0, 1, 4, 4], [2, 4, 3, 0]])
    offsets, weights = lib.tensor([[0, 1], [0, 3]]), lib.tensor(A[:2, :2])
    loss = lambda table, bags, **options: (bag(bags, table, **options) ** 2).sum()  # noqa: E731
    report = []
    for options in (
        {"mode": "max"},
        {"padding_idx": 4},
        {"mode": "sum", "padding_idx": 4},
        {"mode": "max", "padding_idx": 4},
    ):
        for dims in ((0, 0), (0, None), (None, 0)):
            args = [x if dim == 0 else x[0] for x, dim in zip((tables, bags), dims, strict=True)]
            report += [
                lib.vmap(lambda table, bags: bag(bags, table, **options), in_dims=dims)(*args),  # noqa: B023
                lib.vmap(lambda *args: lib.func.grad(loss)(*args, **options), in_dims=dims)(*args),  # noqa: B023
            ]
    with_offsets = lambda x, offsets: bag(x, tables[0], offsets, mode="sum", include_last_offset=True)  # noqa: E731
    return [
        report,
        lib.vmap(with_offsets, in_dims=(None, 0))(vectors[0], offsets),
        lib.vmap(with_offsets)(vectors, offsets),
        lib.vmap(lambda x, w: bag(x, tables[0], mode="sum", per_sample_weights=w, padding_idx=4))(
            bags, weights.expand(2, 2, 2)
        ),
        attempt(lambda: lib.vmap(with_offsets)(vectors, offsets + 1)),
        attempt(lambda: lib.vmap(with_offsets)(vectors, offsets.flip(1))),
    ]


@parity
def test_vmap_of_embeddings_with_max_norm(lib: Any) -> Any:
    f, tables = lib.nn.functional, lib.stack([lib.tensor(A), lib.tensor(A) * 2])
    indices = lib.tensor([[0, 1, 1], [4, 4, 2]])
    report = []
    for dims in ((0, 0), (0, None), (None, 0)):
        for look_up in (
            lambda table, x: f.embedding(x, table, max_norm=1.0),
            lambda table, x: f.embedding_bag(x[None], table, max_norm=1.0, norm_type=1.0),
        ):
            written = tables.clone() if dims[0] == 0 else tables[0].clone()
            args = (written, indices if dims[1] == 0 else indices[0])
            report += [attempt(lambda: lib.vmap(look_up, in_dims=dims)(*args)), written]  # noqa: B023
    return report


def ctc(x: rg.Tensor, targets: rg.Tensor, frames: rg.Tensor, lengths: rg.Tensor) -> rg.Tensor:
    losses = rg.nn.functional.ctc_loss(x.log_softmax(-1), targets, frames, lengths, reduction="none")
    return (losses * rg.tensor([1.0, 2.0], dtype=rg.float64)).sum()


@pytest.mark.parametrize("dims", [dims for dims in itertools.product((0, None), repeat=4) if 0 in dims])
def test_vmap_of_ctc_loss(dims: tuple[int | None, ...]) -> None:
    """Frames, labels and their lengths, each batched or not, with first and second derivatives."""
    x = rg.tensor(np.random.default_rng(0).normal(size=(2, 5, 2, 4)))
    targets, frames = rg.tensor([[[1, 2], [3, 3]], [[2, 2], [3, 1]]]), rg.tensor([[5, 4], [3, 5]])
    every = (x, targets, frames, rg.tensor([[2, 1], [2, 0]]))
    args = [value if dim == 0 else value[0] for value, dim in zip(every, dims, strict=True)]
    squares = lambda *args: (rg.func.grad(ctc)(*args) ** 2).sum()  # noqa: E731
    for function in (ctc, rg.func.grad(ctc), rg.func.grad(squares)):
        got = rg.vmap(function, in_dims=dims)(*args)
        for k in range(2):
            expected = function(*[value if dim is None else value[k] for value, dim in zip(args, dims, strict=True)])
            np.testing.assert_allclose(got[k].numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@parity
def test_vmap_of_repeat_interleave(lib: Any) -> Any:
    x, times = lib.tensor(A[:2, :3]), lib.tensor([[1, 0, 2], [0, 3, 0]])
    repeat = lib.repeat_interleave
    weights = lib.tensor([1.0, 2.0, 3.0])
    return [
        lib.vmap(repeat)(x, times),
        lib.vmap(repeat)(times),
        lib.vmap(lambda x, times: repeat(x, times, dim=1, output_size=3))(lib.stack([x, x * 2]), times),
        lib.vmap(lambda times: repeat(x, times, dim=1))(times),
        lib.vmap(lambda x, times: repeat(x, times, dim=0))(x, lib.tensor([[2], [2]])),
        lib.vmap(lib.func.grad(lambda x, times: (repeat(x, times) ** 2 * weights).sum()))(x, times),
        attempt(lambda: lib.vmap(repeat)(x, times - 1)),
        attempt(lambda: lib.vmap(repeat)(x, times[:, :2])),
        attempt(lambda: lib.vmap(lambda x, times: repeat(x, times, output_size=4))(x, times)),
        attempt(lambda: lib.vmap(repeat)(x, times.double())),
    ]


def test_vmap_of_repeat_interleave_with_results_of_different_lengths() -> None:
    with pytest.raises(RuntimeError, match="shape of the result of repeat depends on the data"):
        rg.vmap(rg.repeat_interleave)(rg.tensor(A[:2, :2]), rg.tensor([[1, 0], [1, 1]]))
    with pytest.raises(RuntimeError, match="shape of the result of repeat depends on the data"):
        rg.vmap(rg.repeat_interleave)(rg.ones(0, 2), rg.ones(0, 2).long())


@parity
def test_vmap_of_linspace_and_logspace(lib: Any) -> Any:
    starts, ends = lib.tensor([0.0, 1.5, -3.0]), lib.tensor([2.0, -1.0, 4.5])
    report = []
    for options in ({}, {"dtype": lib.float64}):
        for steps in (1, 2, 5):  # for 0 steps, torch returns integers
            for dims in ((0, 0), (0, None), (None, 0)):
                args = [x if dim == 0 else x[1] for x, dim in zip((starts, ends), dims, strict=True)]
                report += [
                    lib.vmap(lambda a, b: lib.linspace(a, b, steps, **options), in_dims=dims)(*args),  # noqa: B023
                    lib.vmap(lambda a, b: lib.logspace(a, b, steps, 2.0, **options), in_dims=dims)(*args),  # noqa: B023
                ]
    return [
        report,
        lib.vmap(lambda a: lib.linspace(a, 1, 3))(lib.tensor([3, 7])),
        lib.vmap(lambda a: lib.linspace(0, a, 3))(lib.tensor([1 + 2j, 3j])),
        lib.vmap(lambda a: lib.vmap(lambda b: lib.linspace(a, b, 3))(ends))(starts),
        lib.vmap(lambda a: lib.linspace(a, 1.0, 3))(lib.tensor([3.0, 7.0], requires_grad=True)).requires_grad,
        attempt(lambda: lib.vmap(lambda a: lib.linspace(a, 1, 3))(lib.ones(2, 1))),
    ]


def test_vmap_of_linspace_of_integers() -> None:
    """The bounds are truncated as without vmap; torch truncates them only without vmap."""
    starts, ends = rg.tensor([0.0, 1.5, -3.0]), rg.tensor([2.0, 4.5, 4.5])
    for function in (rg.linspace, lambda a, b, **options: rg.logspace(a, b, base=2.0, **options)):
        got = rg.vmap(lambda a, b: function(a, b, steps=5, dtype=rg.int64))(starts, ends)  # noqa: B023
        assert got.tolist() == [
            function(a, b, steps=5, dtype=rg.int64).tolist() for a, b in zip(starts, ends, strict=True)
        ]


def test_vmap_of_linspace_refuses_bounds_that_do_not_fit() -> None:
    assert rg.vmap(lambda a: rg.linspace(a, 1, 0))(rg.ones(3)).shape == (3, 0)
    with pytest.raises(RuntimeError, match=r"start=300\.0 does not fit into uint8"):
        rg.vmap(lambda a: rg.linspace(a, 1, 3, dtype=rg.uint8))(rg.tensor([3.0, 300.0]))


def test_positive_and_negative_indices_in_one_batch() -> None:
    """Samples that count from the end do not conflict with samples that do not."""
    i = np.array([0, -1, 1, -3, 2])
    expected = A[range(5), i]
    picks: list[Any] = [np.take, lambda x, i: rg.take_along_dim(x, i[None], 0)[0]]
    for pick in picks:
        np.testing.assert_allclose(rg.vmap(pick)(A, i).numpy(), expected)
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            rg.vmap(pick)(A, np.array([0, -1, 7, 1, 0]))


@parity
def test_vmap_of_class_losses_with_ignored_targets(lib: Any) -> Any:
    x, target = lib.tensor(B), lib.tensor([[0, 1, -100, 1, 0], [1, 1, 0, 0, 1], [-100] * 4 + [1]])
    made = []
    for reduction in ("mean", "sum", "none"):
        for loss in (lib.nn.functional.nll_loss, lib.nn.functional.cross_entropy):

            def total(x: Any, target: Any, loss: Any = loss, reduction: str = reduction) -> Any:
                return loss(x, target, reduction=reduction).sum()

            made.append(lib.func.vmap(lib.func.grad_and_value(total))(x, target))
    return made


def test_copying_samples_into_new_tensors() -> None:
    x = rg.tensor(A)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        made = rg.vmap(lambda x: (rg.tensor(x), rg.tensor(x, dtype=rg.float32), rg.ones(1).new_tensor(x)))(x)
    copies = [*made, rg.vmap(lambda x: rg.asarray(x, copy=True).mul_(1))(x)]
    assert [copy.dtype for copy in copies] == [rg.float64, rg.float32, rg.float32, rg.float64]
    for copy in copies:
        np.testing.assert_allclose(copy.numpy(), A, rtol=1e-6)
        assert not np.shares_memory(copy.numpy(), x.numpy())


@pytest.mark.parametrize("compare", [rg.equal, rg.allclose, np.array_equal, np.allclose, np.array_equiv])
def test_comparisons_of_whole_samples_must_agree(compare: Any) -> None:
    x = rg.tensor(A)
    assert rg.vmap(lambda a, b: compare(a, b), out_dims=None)(x, x) is True
    assert rg.vmap(lambda a, b: compare(a, b), out_dims=None)(x, x + 1) is False
    with pytest.raises(RuntimeError, match="condition differs"):
        rg.vmap(lambda a, b: compare(a, b), out_dims=None)(x, rg.cat([x[:1], x[1:] + 1]))


def test_printing_a_sample_shows_the_batch() -> None:
    shown = []
    rg.vmap(lambda x: shown.append(repr(x)) or x)(rg.ones(2, 3))
    assert shown[0].startswith("BatchedTensor(shape=[3], batch=[2], values=\n    tensor([[1., 1., 1.],")


def test_vmap_of_no_samples() -> None:
    assert rg.vmap(lambda x: x.sum())(rg.zeros(0, 3)).shape == (0,)


WITHOUT_RULE = {
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, x.shape),
    "interpolate": lambda lib, x: lib.nn.functional.interpolate(x[None], scale_factor=2),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "view_as_complex": lambda lib, x: lib.view_as_complex(x),
    "argmax": lambda lib, x: x.argmax(-1),
    "gather": lambda lib, x: x.gather(0, x.long()),
}


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_vmap_of_no_samples_of_operations_without_a_rule(name: str) -> None:
    parity(lambda lib: lib.vmap(lambda x: WITHOUT_RULE[name](lib, x))(lib.zeros(0, 3, 2)))()


def test_vmap_of_no_samples_with_unknown_result_shape_is_refused() -> None:
    factors, pivots, right = rg.zeros(0, 2, 2), rg.zeros(0, 2, dtype=rg.int32), rg.zeros(0, 2, 1)
    error = message(lambda: rg.vmap(rg.linalg.ldl_solve)(factors, pivots, right))
    assert (
        "with a batch of 0 samples the shape of its result cannot be determined: linalg.ldl_solve: the pivots" in error
    )


def test_error_names_the_sample_with_a_singular_matrix() -> None:
    matrices = rg.stack([rg.eye(2), rg.zeros(2, 2)])
    for factor in (rg.linalg.lu_factor, rg.linalg.ldl_factor):
        assert "(Batch element 1): " in message(lambda: rg.vmap(factor)(matrices))  # noqa: B023
        assert rg.vmap(factor)(matrices[:0])[0].shape == (0, 2, 2)


def test_lapack_gets_only_arrays() -> None:
    """An argument that LAPACK's wrapper cannot convert loses a reference to the dtype; in the end Python crashes."""
    before = sys.getrefcount(np.dtype("float32"))
    for _ in range(300):
        rg.vmap(rg.linalg.ldl_factor_ex)(rg.ones(2, 1, 1))
    assert sys.getrefcount(np.dtype("float32")) > before - 150


@parity
def test_vmap_of_samples_without_elements(lib: Any) -> Any:
    return [lib.vmap(lambda x: x.long() % x.numel())(lib.zeros(3, 0)), lib.zeros(0, 3, dtype=lib.int64) // 0]


# --- gradients --------------------------------------------------------------------------------------------------------


@parity
def test_gradients_flow_through_vmap(lib: Any) -> Any:
    a, w = lib.tensor(A, requires_grad=True), lib.tensor(A[0], requires_grad=True)
    lib.vmap(lambda x: (x * w).sum() * w)(a).pow(2).sum().backward()
    return [a.grad, w.grad]


@parity
def test_captured_tensor_gets_the_sum_of_the_gradients(lib: Any) -> Any:
    w = lib.tensor(A[0], requires_grad=True)

    def f(x: Any) -> Any:
        hidden = w.exp()  # the same for all samples
        return hidden * x + hidden.sum(), hidden * 2

    first, second = lib.vmap(f)(lib.tensor(A))
    (first.sum() + (second * lib.tensor(A)).sum()).backward()
    return w.grad


@parity
def test_second_derivatives_through_vmap(lib: Any) -> Any:
    a, w = lib.tensor(A, requires_grad=True), lib.tensor(A[0], requires_grad=True)
    out = lib.vmap(lambda x: lib.tanh(x * w).sum() * w.sum())(a).sum()
    first = lib.autograd.grad(out, [a, w], create_graph=True)
    second = lib.autograd.grad(sum((g**2).sum() for g in first), [a, w], create_graph=True)
    third = lib.autograd.grad(sum((g**2).sum() for g in second), [a, w])
    return [first, second, third]


@parity
def test_second_derivatives_of_the_median(lib: Any) -> Any:
    """Its rule checks for NaN, which some samples may have and others not."""
    a = lib.tensor(A)
    return [lib.vmap(lib.func.hessian(lambda x: x.median() ** 2))(a), lib.vmap(lib.func.hessian(lambda x: x.max()))(a)]


@parity
def test_tangents_at_indices_that_differ_by_sample(lib: Any) -> Any:
    x, a = lib.tensor(A[0]), lib.tensor(A)
    picks = [lambda x, i: x[i], lambda x, i: x.take_along_dim(i, 0), lambda x, i: x.index_select(0, i)]
    return [lib.vmap(lambda y, f=f: lib.func.jvp(lambda x: f(x, (y > 0).long()), (x,), (x * 2,))[1])(a) for f in picks]


@parity
def test_is_grads_batched_through_vmap(lib: Any) -> Any:
    a, w = lib.tensor(A, requires_grad=True), lib.tensor(A[0], requires_grad=True)
    out = lib.vmap(lambda x: (x * w).sum() ** 2)(a)
    return lib.autograd.grad(out, [a, w], lib.eye(5, dtype=lib.float64), is_grads_batched=True)


def test_grad_inside_vmap_is_per_sample() -> None:
    w = rg.tensor(A[0], requires_grad=True)

    def f(x: Any) -> Any:
        return rg.autograd.grad((x * w).sum() ** 2, w)[0]

    expected = 2 * (A @ A[0])[:, None] * A
    np.testing.assert_allclose(rg.vmap(f)(rg.tensor(A)).numpy(), expected)


def test_backward_inside_vmap_is_refused() -> None:
    w = rg.tensor(A[0], requires_grad=True)

    def f(x: Any) -> Any:
        (x * w).sum().backward()
        return x

    with pytest.raises(RuntimeError, match=r"backward\(\) called inside of vmap.*func\.grad"):
        rg.vmap(f)(rg.tensor(A))
    assert w.grad is None


# --- randomness -------------------------------------------------------------------------------------------------------

RANDOM = {
    "rand": lambda lib, x: lib.rand(4),
    "randn": lambda lib, x: lib.randn(4),
    "rand_like": lambda lib, x: lib.rand_like(x),
    "randint": lambda lib, x: lib.randint(0, 1000, (4,)),
    "randperm": lambda lib, x: lib.randperm(50),
    "normal": lambda lib, x: lib.normal(0.0, 1.0, (4,)),
    "normal around": lambda lib, x: lib.normal(lib.zeros(4), 1.0),
    "bernoulli": lambda lib, x: lib.bernoulli(lib.full((50,), 0.5)),
    "poisson": lambda lib, x: lib.poisson(lib.full((20,), 9.0)),
    "multinomial": lambda lib, x: lib.multinomial(lib.ones(50), 20),
    "normal_": lambda lib, x: x.clone().normal_(),
    "uniform_": lambda lib, x: x.clone().uniform_(),
    "exponential_": lambda lib, x: x.clone().exponential_(),
    "geometric_": lambda lib, x: x.clone().geometric_(0.01),
}


@pytest.mark.parametrize("mode", ["same", "different"])
@pytest.mark.parametrize("name", RANDOM)
def test_random_operations_inside_vmap(name: str, mode: str) -> None:
    def program(lib: Any) -> Any:
        made = lib.vmap(lambda x: RANDOM[name](lib, x), randomness=mode)(lib.ones(3, 6))
        return [tuple(made.shape), str(made.dtype).split(".")[-1], bool((made == made[:1]).all())]

    parity(program)()


@pytest.mark.parametrize("name", RANDOM)
def test_random_operations_inside_vmap_are_refused_by_default(name: str) -> None:
    with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
        rg.vmap(lambda x: RANDOM[name](rg, x))(rg.ones(3, 6))


def test_random_samples_follow_their_own_parameters() -> None:
    rates = rg.tensor([[1.0], [100.0]]).expand(2, 4000)
    made = rg.vmap(rg.poisson, randomness="different")(rates)
    np.testing.assert_allclose(made.mean(1).numpy(), [1.0, 100.0], rtol=0.2)


@parity
def test_unsupported_combinations_of_randomness_are_refused(lib: Any) -> Any:
    return [
        attempt(lambda: lib.vmap(lambda x: lib.poisson(x), randomness="same")(lib.ones(3, 2))),
        attempt(lambda: lib.vmap(lambda x: lib.zeros(2).normal_(), randomness="different")(lib.ones(3, 2))),
        attempt(lambda: lib.vmap(lambda x: x, randomness="sometimes")(lib.ones(3, 2))),
    ]


@pytest.mark.parametrize("mode", ["same", "different"])
def test_dropout_of_attention_inside_vmap(mode: str) -> None:
    def f(q: Any) -> Any:
        return rg.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    made = rg.vmap(f, randomness=mode)(rg.ones(6, 4, 3)).numpy()
    assert (made == made[:1]).all() == (mode == "same")
    assert set(np.round(made, 4).reshape(-1)) <= {0.0, 0.5, 1.0, 1.5, 2.0}
    assert rg.vmap(rg.func.grad(lambda q: f(q).sum()), randomness=mode)(rg.ones(6, 4, 3)).shape == (6, 4, 3)
    assert "randomness error mode" in message(lambda: rg.vmap(f)(rg.ones(6, 4, 3)))


@parity
def test_same_randomness_in_all_chunks(lib: Any) -> Any:
    made = lib.vmap(lambda x: lib.randn(3) + lib.rand(3), randomness="same", chunk_size=2)(lib.ones(5))
    after = lib.rand(4)
    apart = lib.vmap(lambda x: lib.randn(3), randomness="different", chunk_size=2)(lib.ones(5))
    return [bool((made == made[0]).all()), bool((apart[:2] == apart[2:4]).any()), tuple(after.shape)]


def test_chunk_size_does_not_change_random_numbers() -> None:
    drawn = []
    for size in (None, 1, 2):
        rg.manual_seed(3)
        drawn.append((rg.vmap(lambda x: rg.randn(3), randomness="same", chunk_size=size)(rg.ones(5)), rg.rand(4)))
    for samples, after in drawn[1:]:
        np.testing.assert_array_equal(samples, drawn[0][0])
        np.testing.assert_array_equal(after, drawn[0][1])


def test_nested_vmap_with_different_randomness() -> None:
    def inner(x: Any) -> Any:
        return rg.vmap(lambda y: rg.rand(2), randomness="same")(rg.ones(4))

    made = rg.vmap(inner, randomness="different")(rg.ones(3)).numpy()
    assert made.shape == (3, 4, 2)
    assert (made == made[:, :1]).all()
    assert not (made == made[:1]).all()


# --- errors -----------------------------------------------------------------------------------------------------------

WRONG = {
    "no inputs": lambda lib: lib.vmap(lambda: 1)(),
    "no tensor": lambda lib: lib.vmap(lambda x: x)(3),
    "nothing to map": lambda lib: lib.vmap(lambda x: x, in_dims=None)(lib.tensor(A)),
    "in_dims a list": lambda lib: lib.vmap(lambda x: x, in_dims=[0])(lib.tensor(A)),
    "in_dims of another length": lambda lib: lib.vmap(lambda x: x, in_dims=(0, 0))(lib.tensor(A)),
    "in_dims no int": lambda lib: lib.vmap(lambda x: x, in_dims=("a",))(lib.tensor(A)),
    "in_dims too large": lambda lib: lib.vmap(lambda x: x, in_dims=2)(lib.tensor(A)),
    "sizes that differ": lambda lib: lib.vmap(lambda x, y: x)(lib.tensor(A), lib.tensor(B)),
    "an output that is no tensor": lambda lib: lib.vmap(lambda x: 3)(lib.tensor(A)),
    "out_dims of another length": lambda lib: lib.vmap(lambda x: x, out_dims=(0, 0))(lib.tensor(A)),
    "out_dims no int": lambda lib: lib.vmap(lambda x: x, out_dims="a")(lib.tensor(A)),
    "out_dims too large": lambda lib: lib.vmap(lambda x: x, out_dims=3)(lib.tensor(A)),
    "a batch without a place": lambda lib: lib.vmap(lambda x: x, out_dims=None)(lib.tensor(A)),
    "no chunks": lambda lib: lib.vmap(lambda x: x, chunk_size=0),
    "item": lambda lib: lib.vmap(lambda x: x.sum().item())(lib.tensor(A)),
    "float": lambda lib: lib.vmap(lambda x: float(x.sum()))(lib.tensor(A)),
    "a branch": lambda lib: lib.vmap(lambda x: x if x.sum() > 0 else -x)(lib.tensor(A)),
    "nonzero": lambda lib: lib.vmap(lambda x: x.nonzero())(lib.tensor(A)),
    "a mask": lambda lib: lib.vmap(lambda x: x[x > 0])(lib.tensor(A)),
    "masked_select": lambda lib: lib.vmap(lambda x: x.masked_select(x > 0))(lib.tensor(A)),
    "unique": lambda lib: lib.vmap(lambda x: x.unique())(lib.tensor(A)),
    "writing to a tensor that is not batched": lambda lib: lib.vmap(lambda x: lib.zeros(3, dtype=lib.float64).add_(x))(
        lib.tensor(A)
    ),
    "assigning to a tensor that is not batched": lambda lib: lib.vmap(lambda x: lib.zeros(3).__setitem__(0, x[0]))(
        lib.tensor(A)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_of_vmap_are_refused_as_in_torch(name: str) -> None:
    check_both_refuse(WRONG[name])


def test_errors_of_vmap_say_what_to_do() -> None:
    assert "where(condition, a, b)" in message(lambda: WRONG["a branch"](rg))
    assert "new_zeros" in message(lambda: WRONG["writing to a tensor that is not batched"](rg))
    assert "where(mask, x, 0)" in message(lambda: WRONG["a mask"](rg))
    assert "nonzero" in message(lambda: WRONG["nonzero"](rg))
    kept: list[rg.Tensor] = []
    rg.vmap(lambda x: (kept.append(x), x)[1])(rg.tensor(A))
    assert "return the tensor as one of its results" in message(lambda: kept[0][0].item())
    assert "one of its results" not in message(lambda: rg.vmap(lambda x: x[0].item())(rg.tensor(A)))
    assert "got sizes [5, 3]" in message(lambda: WRONG["sizes that differ"](rg))


def test_vmap_restores_its_state_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        rg.vmap(lambda x: 1 / 0)(rg.tensor(A))
    x = rg.tensor(A, requires_grad=True)
    x.sum().backward()
    assert rg.rand(2).shape == (2,)


def test_anomaly_mode_finds_an_operation_inside_vmap() -> None:
    with (
        rg.autograd.detect_anomaly(),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan"),
    ):
        rg.vmap(rg.func.grad(lambda x: (x.sqrt() * 0).sum()))(rg.tensor([[1.0, 0.0], [4.0, 1.0]]))
