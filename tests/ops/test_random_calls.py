"""Calls for which random testing once found a difference from torch."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, check_both_refuse, check_message, parity


@parity
def test_powers_of_negative_complex_numbers(lib: Any) -> Any:
    base = lib.tensor([-1.5, 2.0, -0.25], dtype=lib.float64, requires_grad=True)
    exponent = lib.tensor([2 + 1j, -0.5 - 1j, 2 + 1j], dtype=lib.complex128, requires_grad=True)
    report = []
    for power in (base**exponent, lib.pow(-1.5, exponent), lib.float_power(base[:2], exponent[:2])):
        (by_exponent,) = lib.autograd.grad(lib.view_as_real(power).sum(), exponent, create_graph=True)
        (second,) = lib.autograd.grad(lib.view_as_real(by_exponent)[:2].sum(), exponent)
        report += [by_exponent, second]
    return report


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("in_place", [False, True])
def test_index_reduce_of_scalars(reduce: str, in_place: bool) -> None:
    @parity
    def compare(lib: Any) -> Any:
        index = lib.tensor([0])
        calls = [
            (lib.tensor(3.0), -1, index, lib.tensor(2.0)),
            (lib.tensor(3.0), 0, index[0], lib.tensor(2.0)),
            (lib.tensor([3.0, 1.0]), 0, index, lib.tensor([2.0])),
            (lib.tensor([[3.0, 1.0]]), 1, index, lib.tensor([[2.0]])),
            (lib.tensor([[3.0, 1.0]]), 1, index, lib.tensor([2.0])),
        ]
        name = "index_reduce_" if in_place else "index_reduce"
        return [attempt(functools.partial(getattr(x, name), *rest, reduce)) for x, *rest in calls]

    compare()


@parity
def test_unfold_of_a_scalar(lib: Any) -> Any:
    x = lib.tensor(0.25, requires_grad=True)
    return [[windows := x.unfold(0, size, 1), *lib.autograd.grad(windows.sum(), x)] for size in (0, 1)] + [
        attempt(lambda: x.unfold(0, 2, 1))
    ]


@parity
def test_torchs_keyword_names_are_accepted(lib: Any) -> Any:
    x = lib.ones(2, 3)
    return [
        x.sum_to_size(size=(1, 3)),
        x.sum_to_size(2, 1),
        x.sum_to_size([3]),
        x.copy_(other=lib.zeros(3)),
        attempt(lambda: x.sum_to_size(size=(4,))),
    ]


@parity
def test_negative_factors_of_unsigned_integers(lib: Any) -> Any:
    x = lib.tensor([1, 2, 3], dtype=lib.uint8)
    calls = [
        lambda: x.add(x, alpha=-1),
        lambda: x.sub(x, alpha=2),
        lambda: x.sub(x, alpha=-3),
        lambda: x.add(x, alpha=300),
        lambda: x.clone().add_(x, alpha=-1),
        lambda: x.index_add(0, lib.tensor([0]), x[:1], alpha=-1),
        lambda: x.index_add(0, lib.tensor([0]), x[:1], alpha=0.5),
        lambda: lib.rsub(x, x, alpha=-2),
    ]
    return [attempt(call) for call in calls]


@parity
def test_wrong_arguments_found_by_random_calls(lib: Any) -> Any:
    x, number = lib.ones(2, 3), lib.tensor(2.0)
    calls = [
        lambda: number.select_scatter(number, 0, 0),
        lambda: number.slice_scatter(number),
        lambda: x.where(-2, x),
        lambda: x.all((0, 0)),
        lambda: x.sum((0, -2)),
        lambda: -lib.tensor([True]),
        lambda: x.index_reduce(-4, lib.tensor([0]), x[:1], "amax"),
        lambda: (x + 1j).index_reduce(0, lib.tensor([0]), x[:1] + 1j, "amax"),
        lambda: (x + 1j).scatter_reduce(0, lib.tensor([[0]]), x + 1j, "amin"),
    ]
    return [attempt(call) for call in calls]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.max(True),
        lambda x: x.min(True),
        lambda x: x.median(True),
        lambda x: x.mode(True),
        lambda x: x.sort(True),
        lambda x: x.argsort(True),
        lambda x: x.topk(1, True),
        lambda x: x.kthvalue(1, True),
        lambda x: x.squeeze(False),
        lambda x: x.flip(True),
        lambda x: x.unbind(True),
        lambda x: x.select(True, 0),
        lambda x: x.select(0, True),
        lambda x: x.unsqueeze(True),
        lambda x: x.unsqueeze_(True),
        lambda x: x.roll(True, 0),
        lambda x: x.roll(1, True),
        lambda x: x.diff(True),
        lambda x: x.diff(dim=True),
        lambda x: x.transpose(False, 1),
        lambda x: x.transpose_(0, True),
        lambda x: x.swapaxes(0, True),
        lambda x: x.movedim(0, True),
        lambda x: x.flatten(True),
        lambda x: x.flatten(False, True),
        lambda x: x.size(True),
        lambda x: x.stride(True),
        lambda x: x.narrow(0, True, 1),
        lambda x: x.narrow(0, 0, True),
        lambda x: x.topk(True),
        lambda x: x.chunk(True),
        lambda x: x.tril(True),
        lambda x: x.diagonal(True),
        lambda x: x.diag_embed(True),
        lambda x: x.rot90(True),
        lambda x: x.cumsum(True),
        lambda x: x.topk(True, largest=False),
        lambda x: x.sum(True),
        lambda x: x.mean(True),
        lambda x: x.amax(True),
        lambda x: x.logsumexp(True),
    ],
)
@pytest.mark.parametrize("inference", [False, True], ids=["short path", "general path"])
def test_a_bool_is_no_integer(call: Any, inference: bool) -> None:
    """``x.sort(True)`` reads as if it were descending, and ``x.max(True)`` as if it kept the dimension."""
    with rg.inference_mode(inference):
        check_both_refuse(lambda lib: call(lib.ones(2, 3)))
        check_message(lambda: call(rg.ones(2, 3)), ["must be int, not bool; pass ", " by keyword"])


def test_a_bool_given_by_keyword_is_not_said_to_be_meant_for_another_parameter() -> None:
    labels = [0, 1]
    check_both_refuse(
        lambda lib: lib.nn.functional.cross_entropy(lib.ones(2, 3), lib.tensor(labels), ignore_index=True)
    )
    with pytest.raises(TypeError, match=r"argument 'ignore_index' must be int, not bool \(True\)$"):
        rg.nn.functional.cross_entropy(rg.ones(2, 3), rg.tensor(labels), ignore_index=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.nn.functional.conv1d(lib.ones(1, 2, 4), lib.ones(1, 2, 2), stride=True),
        lambda lib: lib.nn.functional.conv1d(lib.ones(1, 2, 4), lib.ones(1, 2, 2), padding=True),
        lambda lib: lib.nn.functional.conv_transpose1d(lib.ones(1, 2, 4), lib.ones(2, 1, 2), stride=True),
        lambda lib: lib.nn.functional.max_pool2d(lib.ones(1, 2, 4, 4), True),
        lambda lib: lib.nn.functional.avg_pool2d(lib.ones(1, 2, 4, 4), True),
        lambda lib: lib.nn.functional.unfold(lib.ones(1, 2, 4, 4), True),
    ],
)
def test_a_bool_is_no_size_of_a_window(call: Any) -> None:
    check_both_refuse(call)


@pytest.mark.parametrize("dim", [True, np.True_, 1.0, np.float32(1), "1"], ids=repr)
def test_stack_and_the_like_take_integers_only(dim: Any) -> None:
    for call in (
        lambda lib: lib.stack([lib.ones(2, 3)], dim),
        lambda lib: lib.cat([lib.ones(2, 3)], dim),
        lambda lib: lib.ones(2, 3).unsqueeze(dim),
        lambda lib: lib.ones(2, 3).softmax(dim),
        lambda lib: lib.ones(2, 3).tril(dim),
        lambda lib: lib.nn.functional.one_hot(lib.tensor([0]), dim),
    ):
        check_both_refuse(call)


@parity
def test_a_numpy_integer_is_an_integer(lib: Any) -> Any:
    x, one = lib.arange(6.0).reshape(2, 3), np.int64(1)
    return [
        lib.linalg.matrix_power(x[:, :2], one),
        x.unsqueeze(one),
        x.roll(one, one),
        x.diff(one, one),
        x.narrow(one, one, one),
        x.chunk(one, one)[0],
        x.rot90(one),
        x.size(one),
        x.stride(one),
        x.transpose(0, one),
    ]
