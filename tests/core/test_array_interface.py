"""Tensors passed to Python's own functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

TENSORS: dict[str, Callable[[Any], Any]] = {
    "number": lambda lib: lib.tensor(2.5),
    "one element": lambda lib: lib.tensor([[3]]),
    "truth": lambda lib: lib.tensor([True]),
    "two elements": lambda lib: lib.tensor([1.0, 2.0]),
    "empty": lambda lib: lib.tensor([]),
    "complex": lambda lib: lib.tensor(1 + 2j),
    "complex but real": lambda lib: lib.tensor([1 + 0j]),
    "infinity": lambda lib: lib.tensor(float("inf")),
    "matrix": lambda lib: lib.tensor([[1, 2], [3, 4]]),
}

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": lambda x: repr(float(x)),
    "complex": lambda x: repr(complex(x)),
    "bool": bool,
    "index": lambda x: [10, 11, 12, 13][x],
    "item": lambda x: repr(x.item()),
    "sqrt": lambda x: repr(math.sqrt(x)),
    "round": lambda x: round(x, 1),
    "reversed": reversed,
    "list": list,
    "len": len,
    "sum": sum,
    "contains": lambda x: 3 in x,
    "contains a tensor": lambda x: x.new_tensor(3) in x,
    "format": lambda x: f"{x:.2f}",
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("tensor", TENSORS)
def test_python_functions_on_tensors(tensor: str, function: str) -> None:
    @parity
    def compare(lib: Any) -> Any:
        return [attempt(lambda: FUNCTIONS[function](TENSORS[tensor](lib)))]

    compare()


def test_layouts_and_memory_formats_print_their_names() -> None:
    import retrograd as rg

    assert f"{rg.strided} {rg.strided!r} {rg.contiguous_format}" == (
        "retrograd.strided retrograd.strided retrograd.contiguous_format"
    )


@parity
def test_requires_grad_attribute_takes_only_a_bool(lib: Any) -> Any:
    x = lib.ones(2)
    attempts = [attempt(functools.partial(setattr, x, "requires_grad", value)) for value in (1, None, "yes", True)]
    return attempts, x.requires_grad


@parity
def test_requires_grad_arguments_take_only_a_bool(lib: Any) -> Any:
    x = lib.ones(2)
    answers = [attempt(functools.partial(x.requires_grad_, value)) for value in (1, None, "no")]
    for create in (lib.ones, lib.tensor, lib.asarray, lib.rand):
        answers += [attempt(functools.partial(create, 2, requires_grad=value)) for value in (1, "no")]
    return answers, x.requires_grad, lib.ones(2, requires_grad=None).requires_grad


def test_tensor_class_names_the_public_module() -> None:
    assert str(type(rg.ones(1))) == "<class 'retrograd.Tensor'>"


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[None],
        lambda x: x[:, None],
        lambda x: x[None, :, None, :, None],
        lambda x: x[:, :1, None],
        lambda x: x.unsqueeze(1).unsqueeze(-1),
        lambda x: x.mT[None],
        lambda x: x[:, None].expand(2, 4, 3),
        lambda x: x[0].expand(1, 3),
        lambda x: x[0, 0][None],
    ],
)
def test_strides_of_new_dimensions_are_torchs(view: Any) -> None:
    ours, theirs = view(rg.ones(2, 3)), view(torch.ones(2, 3))
    assert ours.stride() == theirs.stride()
    assert [ours.stride(dim) for dim in range(ours.ndim)] == list(theirs.stride())
