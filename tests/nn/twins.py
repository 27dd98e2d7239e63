"""The same module in torch and in retrograd, with the same weights and the same input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import retrograd as rg

torch.set_num_threads(1)

Build = Callable[[Any], Any]


def twins(build: Build) -> tuple[Any, Any]:
    """Return a module of each library in float64, both with torch's initial weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = build(torch.nn).double(), build(rg.nn).double()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return theirs, ours


def tensors(library: Any, arrays: tuple[Any, ...], constant: tuple[int, ...] = ()) -> list[Any]:
    """Return tensors for arrays, requiring grad if they are floats and not constant, and other values unchanged."""
    made: list[Any] = []
    for position, array in enumerate(arrays):
        if isinstance(array, np.ndarray):
            tensor = library.tensor(array)
            made.append(tensor.requires_grad_() if array.dtype.kind == "f" and position not in constant else tensor)
        elif isinstance(array, tuple):
            made.append(tuple(tensors(library, array)))
        else:
            made.append(array)
    return made


def flat(value: Any) -> list[Any]:
    """Return the tensors in a nested result, in order."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [] if value is None else [value]


def floats(values: list[Any]) -> list[Any]:
    return [value for value in values if value.dtype.is_floating_point]


def close(ours: Any, theirs: Any, what: str, tolerance: float = 1e-9) -> None:
    if theirs is None or ours is None:
        assert ours is theirs, what
        return
    expected = theirs.detach().numpy()
    got = ours.detach().numpy()
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def run(module: Any, inputs: list[Any], **kwargs: Any) -> tuple[list[Any], Any]:
    """Return the outputs and a loss that weights each of their elements differently."""
    outputs = flat(module(*inputs, **kwargs))
    loss = sum((output * output.detach().cos() + output.sin()).sum() for output in floats(outputs))
    return outputs, loss


def assert_alike(
    build: Build,
    *arrays: Any,
    second: bool = True,
    train: bool = True,
    constant: tuple[int, ...] = (),
    tolerance: float = 1e-9,
    **kwargs: Any,
) -> None:
    """Check that outputs, gradients of inputs and parameters, second gradients, and buffers agree."""
    theirs, ours = twins(build)
    theirs.train(train)
    ours.train(train)
    their_inputs, our_inputs = tensors(torch, arrays, constant), tensors(rg, arrays, constant)
    their_outputs, their_loss = run(theirs, their_inputs, **_of(torch, kwargs))
    our_outputs, our_loss = run(ours, our_inputs, **_of(rg, kwargs))
    assert len(our_outputs) == len(their_outputs)
    for number, (got, expected) in enumerate(zip(our_outputs, their_outputs, strict=True)):
        close(got, expected, f"output {number}", tolerance)
    for (name, got), (_, expected) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        close(got, expected, f"buffer {name}", tolerance)
    names = [f"input {number}" for number, leaf in enumerate(flat(our_inputs)) if leaf.requires_grad]
    names += [name for name, _ in ours.named_parameters()]
    their_leaves = [leaf for leaf in (*flat(their_inputs), *theirs.parameters()) if leaf.requires_grad]
    our_leaves = [leaf for leaf in (*flat(our_inputs), *ours.parameters()) if leaf.requires_grad]
    their_grads = torch.autograd.grad(their_loss, their_leaves, create_graph=second, allow_unused=True)
    our_grads = rg.autograd.grad(our_loss, our_leaves, create_graph=second, allow_unused=True)
    for name, got, expected in zip(names, our_grads, their_grads, strict=True):
        close(got, expected, f"gradient of {name}", tolerance)
    if second:
        their_norm = sum((g * g).sum() for g in their_grads if g is not None)
        our_norm = sum((g * g).sum() for g in our_grads if g is not None)
        their_second = torch.autograd.grad(their_norm, their_leaves, allow_unused=True)
        our_second = rg.autograd.grad(our_norm, our_leaves, allow_unused=True)
        for name, got, expected in zip(names, our_second, their_second, strict=True):
            if got is None or expected is None:  # one library may know that it is zero
                rest = expected if got is None else got
                assert rest is None or abs(rest).max() <= 10 * tolerance, f"second gradient of {name}"
            else:
                close(got, expected, f"second gradient of {name}", 10 * tolerance)


def _of(library: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: library.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
