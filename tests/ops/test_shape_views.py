"""Writing through views: histories of the base, the view and its siblings, compared with torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import assert_same, to_ours, to_torch
from tests.parity import attempt, parity, run

VALUES = np.random.default_rng(0).normal(size=(4, 6))

VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(3, 8),
    "view": lambda x: x.view(-1),
    "view_as": lambda x: x.view_as(x),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "ravel": lambda x: x.ravel(),
    "expand": lambda x: x[None].expand(1, 4, 6),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "squeeze dim": lambda x: x.unsqueeze(1).squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "select": lambda x: x.select(1, 2),
    "element": lambda x: x[1],
    "number": lambda x: x[1, 2],
    "slice": lambda x: x[1:3],
    "slices": lambda x: x[::2, 1:-1:2],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "None": lambda x: x[:, None, 1],
    "dots": lambda x: x[...],
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "unfold gaps": lambda x: x.unfold(0, 1, 3),
    "as_strided": lambda x: x.as_strided((2, 2), (7, 2), 3),
    "as_strided of a view": lambda x: x[1:].as_strided((2, 2), (7, 2)),
    "tensor_split": lambda x: x.tensor_split(2)[1],
    "hsplit": lambda x: x.hsplit(2)[0],
    "chain": lambda x: x[1:].t()[2:4].reshape(2, 3).unsqueeze(0)[0, :, 1],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("write", ["mul_", "copy_", "zero_", "setitem"])
def test_write_through_a_view(name: str, write: str) -> None:
    results = []
    for library, make in ((rg, to_ours), (torch, to_torch)):
        x = make(VALUES.copy()).requires_grad_()
        base = x * 1
        sibling = base[1:, 1:]
        view = VIEWS[name](base)
        assert view._is_view()
        new = make(np.arange(1.0, view.numel() + 1).reshape(tuple(view.shape))).requires_grad_()
        if write == "mul_":
            view.mul_(new)
        elif write == "copy_":
            view.copy_(new)
        elif write == "zero_":
            view.zero_()
        else:
            view[...] = new * 2
        assert view._version == base._version == sibling._version == 1
        weight = make(np.arange(24.0).reshape(4, 6))
        total = (base**2 * weight).sum() + (sibling**3).sum() + (view * 5).sum()
        grads = library.autograd.grad(total, [x, new], allow_unused=True)
        results.append([base, sibling, view, *grads])
    for got, expected in zip(*results, strict=True):
        if expected is None:
            assert got is None or not got.any()
        else:
            assert_same(got, expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.unbind(0)[1],
        lambda x: x.split(2)[0],
        lambda x: x.split([1, 3])[1],
        lambda x: x.chunk(2)[0],
        lambda x: next(iter(x)),
    ],
)
def test_writing_to_multi_output_views_is_refused(view: Callable[[Any], Any]) -> None:
    for make in (to_ours, to_torch):
        base = make(VALUES.copy()).requires_grad_() * 1
        with pytest.raises(RuntimeError, match="function that returns multiple views"):
            view(base).mul_(2)


@pytest.mark.parametrize("view", [lambda x: x.expand(3, 4, 6), lambda x: x.broadcast_to((2, 4, 6))])
def test_writing_to_overlapping_views_is_refused(view: Callable[[Any], Any]) -> None:
    for make in (to_ours, to_torch):
        with pytest.raises(RuntimeError, match="single memory location"):
            view(make(VALUES.copy())).mul_(2)


def test_writing_to_overlapping_windows_is_refused() -> None:
    """torch allows it, with a result that depends on the order of the writes."""
    with pytest.raises(RuntimeError, match="single memory location"):
        rg.zeros(4, 6).unfold(1, 2, 1).mul_(2)


@pytest.mark.parametrize("name", VIEWS)
def test_views_under_no_grad(name: str) -> None:
    x = rg.from_numpy(VALUES.copy()).requires_grad_()
    with rg.no_grad():
        view = VIEWS[name](x)
        assert not view.requires_grad
        assert view._is_view()
        view.zero_()
        assert x._version == 1
    assert x.is_leaf
    base = x * 1
    with rg.no_grad():
        view = VIEWS[name](base)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        view.mul_(2)
    with rg.inference_mode():
        view = VIEWS[name](rg.from_numpy(VALUES.copy()) * 1)
        assert view.is_inference()


@pytest.mark.parametrize("name", VIEWS)
def test_writing_to_views_of_a_leaf_is_refused(name: str) -> None:
    x = rg.from_numpy(VALUES.copy()).requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        VIEWS[name](x).mul_(2)


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_the_same_under_saved_tensor_hooks(name: str) -> None:
    """The short path and the general one agree."""
    x = rg.from_numpy(VALUES.copy()).requires_grad_()
    plain = VIEWS[name](x * 1)
    with rg.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        watched = VIEWS[name](x * 1)
    assert plain.grad_fn.name() == watched.grad_fn.name()
    assert plain._is_view() == watched._is_view()
    for view in (plain, watched):
        (grad,) = rg.autograd.grad((view**2).sum(), x)
        view._base.detach().zero_()
        assert_same(grad, rg.autograd.grad((VIEWS[name](x) ** 2).sum(), x)[0])


def test_as_strided_of_reversed_arrays() -> None:
    """NumPy arrays may have negative strides; torch tensors may not."""
    x = rg.from_numpy(np.arange(5.0)[::-1]).requires_grad_()
    (x.as_strided((1,), (1,)) * 3).sum().backward()
    assert x.grad.tolist() == [3, 0, 0, 0, 0]
    assert rg.autograd.grad(x.as_strided((0,), (1,)).sum(), x)[0].tolist() == [0] * 5


@parity
def test_flatten_of_a_vector_is_the_vector_itself(lib: Any) -> Any:
    x = lib.ones(2, 3, requires_grad=True)
    dims = [(0, 0), (1, 1), (-1, 1), (-2, 0), (1, -1), (0, 1), (1, 0), (2, 2), (-3, 0)]
    flattened = [attempt(lambda pair=pair: x.flatten(*pair)) for pair in dims]
    return [
        *(item if isinstance(item, str) else [item is x, item.is_leaf, item.shape] for item in flattened),
        lib.tensor(1.0).flatten().shape,
        attempt(lambda: lib.tensor(1.0).flatten(0, 1)),
    ]


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "adjoint", "t"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_transposes_of_any_number_of_dimensions(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(math.prod(shape)).reshape(shape) * (1 + 2j) if dtype == "complex128" else np.ones(shape)

    def transposed(library: Any) -> Any:
        x = library.tensor(values.tolist(), dtype=getattr(library, dtype), requires_grad=True)
        result = getattr(x, name)
        result = result() if callable(result) and name in ("adjoint", "t") else result
        (result * result).real.sum().backward()
        return result, result.is_conj(), x.grad

    assert run(lambda m: attempt(lambda: transposed(m)), rg) == run(lambda m: attempt(lambda: transposed(m)), torch)


@pytest.mark.parametrize("name", ["mT", "H", "mH", "adjoint"])
def test_transpose_of_a_scalar_is_deprecated(name: str) -> None:
    torch.set_warn_always(True)
    try:
        texts = []
        for m in (torch, rg):
            with pytest.warns(UserWarning, match="is deprecated on 0-D tensors") as warned:
                result = getattr(m.tensor(2.0), name)
                assert (result() if name == "adjoint" else result).item() == 2
            texts.append(str(warned[0].message).partition(" (Triggered")[0])
        assert texts[0] == texts[1]
    finally:
        torch.set_warn_always(False)


@parity
def test_split_takes_all_kinds_of_integers(lib: Any) -> Any:
    x, two = lib.arange(6.0).reshape(2, 3), lib.tensor(2)
    parts = [x.split(two, 1), x.chunk(two, 1), x.tensor_split(two, 1), x.chunk(np.int64(2), 1)]
    return [parts, x.tensor_split(np.int64(2), 1), attempt(lambda: x.chunk(2.0)), attempt(lambda: x.hsplit(two))]


@parity
def test_select_by_a_tensor_is_a_view(lib: Any) -> Any:
    """A later write to the index has no effect."""
    w = lib.ones(2, 3, requires_grad=True)
    x, index = w * 2, lib.tensor(1)
    view = x.select(0, index)
    index.zero_()
    view.mul_(5)
    x.sum().backward()
    return [x, view, view._is_view(), w.grad, attempt(lambda: x.select(0, lib.tensor(1.0)))]
