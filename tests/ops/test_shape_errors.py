"""Errors of the shape, joining, indexing and copying families: torch's exception class, and words that help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import to_ours, to_torch


class Library:
    """The tensors that the calls below use, in one of the two libraries."""

    def __init__(self, module: Any, make: Callable[[np.ndarray], Any]) -> None:
        self.module = module
        self.pad = module.pad if module is rg else torch.nn.functional.pad
        self.make = make
        self.x = make(np.arange(6.0, dtype=np.float32).reshape(2, 3))
        self.v = make(np.arange(4.0, dtype=np.float32))
        self.s = make(np.array(3.0, dtype=np.float32))
        self.e = make(np.zeros((0, 3), np.float32))
        self.n = make(np.arange(6).reshape(2, 3))
        self.b = self.n > 2

    def index(self, *values: Any) -> Any:
        return self.make(np.array(values, dtype=np.int64))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    # shapes
    ("reshape", lambda t: t.x.reshape(5)),
    ("reshape", lambda t: t.x.reshape(-1, -1)),
    ("shape", lambda t: t.x.reshape(-2, 3)),
    ("reshape", lambda t: t.e.reshape(-1, 0)),
    ("float", lambda t: t.x.reshape(2.0)),
    ("reshape", lambda t: t.x.reshape()),
    ("view", lambda t: t.x.t().view(6)),
    ("view", lambda t: t.x.view(7)),
    ("view", lambda t: t.x.view(t.float64)),
    ("flatten", lambda t: t.x.flatten(1, 0)),
    ("flatten", lambda t: t.x.flatten(2)),
    ("unflatten", lambda t: t.x.unflatten(1, (2, 2))),
    ("unflatten", lambda t: t.x.unflatten(1, (-1, 2))),
    ("unflatten", lambda t: t.x.unflatten(1, ())),
    ("unflatten", lambda t: t.x.unflatten(1, 3)),
    ("unflatten", lambda t: t.x.unflatten(4, (3,))),
    ("expand", lambda t: t.x.expand(5)),
    ("expand", lambda t: t.x.expand(2, 5)),
    ("expand", lambda t: t.x.expand(-1, 2, 3)),
    ("expand", lambda t: t.x.expand_as(t.v)),
    ("broadcast_to", lambda t: t.broadcast_to(t.x, (3,))),
    ("broadcast_tensors", lambda t: t.broadcast_tensors(t.x, t.v)),
    ("broadcast_shapes", lambda t: t.broadcast_shapes((2,), (3,))),
    ("broadcast_shapes", lambda t: t.broadcast_shapes(1.5)),
    ("sum_to_size", lambda t: t.x.sum_to_size(2)),
    ("permute", lambda t: t.x.permute(0)),
    ("permute", lambda t: t.x.permute(0, 0)),
    ("permute", lambda t: t.x.permute(0, 5)),
    ("permute", lambda t: t.x.permute()),
    ("transpose", lambda t: t.x.transpose(0, 2)),
    ("transpose", lambda t: t.s.transpose(0, 1)),
    ("swapaxes", lambda t: t.x.swapaxes(-3, 0)),
    ("t()", lambda t: t.x[None].t()),
    ("mT", lambda t: t.v.mT),
    ("mH", lambda t: t.v.mH),
    ("H", lambda t: t.v.H),
    ("H", lambda t: t.x[None].H),
    ("adjoint", lambda t: t.v.adjoint()),
    ("movedim", lambda t: t.x.movedim(0, 2)),
    ("movedim", lambda t: t.x.movedim((0, 0), (0, 1))),
    ("movedim", lambda t: t.x.movedim((0, 1), (1, 1))),
    ("movedim", lambda t: t.x.movedim((0, 1), (1,))),
    ("squeeze", lambda t: t.x.squeeze(2)),
    ("squeeze", lambda t: t.x.squeeze((0, 0))),
    ("squeeze", lambda t: t.s.squeeze(1)),
    ("unsqueeze", lambda t: t.x.unsqueeze(3)),
    ("unsqueeze", lambda t: t.x.unsqueeze(-4)),
    # rearranging
    ("repeat", lambda t: t.x.repeat(2)),
    ("repeat", lambda t: t.x.repeat(-1, 2)),
    ("repeat_interleave", lambda t: t.x.repeat_interleave(-1)),
    ("repeat_interleave", lambda t: t.x.repeat_interleave(t.index(1, 2), 1)),
    ("range", lambda t: t.x.repeat_interleave(2, 2)),
    ("repeat_interleave", lambda t: t.x.repeat_interleave(t.v[:2], 0)),
    ("repeat_interleave", lambda t: t.x.repeat_interleave(t.index(1, 2), 0, output_size=5)),
    ("roll", lambda t: t.x.roll((1, 2))),
    ("roll", lambda t: t.x.roll(1, (0, 1))),
    ("roll", lambda t: t.x.roll(1, 5)),
    ("roll", lambda t: t.s.roll(1, 0)),
    ("flip", lambda t: t.x.flip(5)),
    ("flip", lambda t: t.x.flip(0, 0)),
    ("fliplr", lambda t: t.v.fliplr()),
    ("flipud", lambda t: t.s.flipud()),
    ("rot90", lambda t: t.x.rot90(1, (0, 0))),
    ("rot90", lambda t: t.x.rot90(1, (0, 1, 2))),
    ("rot90", lambda t: t.x.rot90(1, (0, 5))),
    ("rot90", lambda t: t.v.rot90()),
    ("pad", lambda t: t.pad(t.x, (1,))),
    ("pad", lambda t: t.pad(t.x, (1,) * 6)),
    ("pad", lambda t: t.pad(t.x, (-3, -3))),
    ("pad", lambda t: t.pad(t.x, (1, 1), "unknown")),
    ("pad", lambda t: t.pad(t.x, (3, 1), "reflect")),
    ("pad", lambda t: t.pad(t.x, (1, 1), "reflect", 1.0)),
    ("pad", lambda t: t.pad(t.x, (4, 1), "circular")),
    ("pad", lambda t: t.pad(t.v, (1, 1), "replicate")),
    ("pad", lambda t: t.pad(t.x, (1, 1, 1, 1), "reflect")),
    ("pad", lambda t: t.pad(t.x[None, None], (1, 1), "circular")),
    ("pad", lambda t: t.pad(t.x[:, :0], (1, 1), "replicate")),
    # diagonals and windows
    ("diagonal", lambda t: t.x.diagonal(0, 0, 0)),
    ("diagonal", lambda t: t.v.diagonal()),
    ("diag", lambda t: t.x[None].diag()),
    ("diag", lambda t: t.s.diag()),
    ("diag_embed", lambda t: t.diag_embed(t.v, 0, 1, 1)),
    ("diag_embed", lambda t: t.diag_embed(t.s)),
    ("diagonal_scatter", lambda t: t.x.diagonal_scatter(t.v)),
    ("tril", lambda t: t.v.tril()),
    ("triu", lambda t: t.s.triu()),
    ("unfold", lambda t: t.x.unfold(1, 4, 1)),
    ("unfold", lambda t: t.x.unfold(1, 2, 0)),
    ("unfold", lambda t: t.x.unfold(1, -1, 1)),
    ("unfold", lambda t: t.x.unfold(5, 1, 1)),
    ("as_strided", lambda t: t.x.as_strided((7,), (1,))),
    ("as_strided", lambda t: t.x.as_strided((2, 2), (1,))),
    ("as_strided", lambda t: t.x.as_strided((2,), (-1,))),
    ("diagonal_scatter", lambda t: t.v.diagonal_scatter(t.v)),
    ("identical", lambda t: t.x.diagonal_scatter(t.v, 0, 1, 1)),
    ("diagonal_scatter", lambda t: t.x.diagonal_scatter(t.v, 0, 0, 2)),
    ("searchsorted", lambda t: t.searchsorted(t.v + 1j, t.v + 1j)),
    ("bucketize", lambda t: t.bucketize(t.v, t.v + 1j)),
    # joining and taking apart
    ("cat", lambda t: t.cat([])),
    ("cat", lambda t: t.cat([t.x, t.v])),
    ("cat", lambda t: t.cat([t.x, t.x[:, :2]])),
    ("cat", lambda t: t.cat([t.s, t.s])),
    ("cat", lambda t: t.cat([t.x, 2])),
    ("cat", lambda t: t.cat(t.x)),
    ("cat", lambda t: t.cat([t.x], 2)),
    ("stack", lambda t: t.stack([])),
    ("stack", lambda t: t.stack([t.x, t.x[:1]])),
    ("stack", lambda t: t.stack([t.x, t.x], 3)),
    ("stack", lambda t: t.stack([t.x, None])),
    ("hstack", lambda t: t.hstack([])),
    ("vstack", lambda t: t.vstack([])),
    ("dstack", lambda t: t.dstack([])),
    ("column_stack", lambda t: t.column_stack([])),
    ("cat", lambda t: t.dstack([t.v, t.x])),
    ("block_diag", lambda t: t.block_diag(t.x[None])),
    ("meshgrid", lambda t: t.meshgrid(t.v, t.n[0])),
    ("meshgrid", lambda t: t.meshgrid()),
    ("meshgrid", lambda t: t.meshgrid(t.x, t.x)),
    ("meshgrid", lambda t: t.meshgrid(t.v, indexing="unknown")),
    ("cartesian_prod", lambda t: t.cartesian_prod(t.x)),
    ("combinations", lambda t: t.combinations(t.x)),
    ("combinations", lambda t: t.combinations(t.v, -1)),
    ("split", lambda t: t.x.split(-1)),
    ("split", lambda t: t.x.split(0)),
    ("split", lambda t: t.x.split([1, 5])),
    ("split", lambda t: t.x.split([1, -1, 2])),
    ("split", lambda t: t.x.split(1, 2)),
    ("split", lambda t: t.s.split(1)),
    ("chunk", lambda t: t.x.chunk(0)),
    ("chunk", lambda t: t.s.chunk(2)),
    ("tensor_split", lambda t: t.x.tensor_split(0)),
    ("tensor_split", lambda t: t.s.tensor_split(1)),
    ("tensor_split", lambda t: t.x.tensor_split(t.v)),
    ("hsplit", lambda t: t.x.hsplit(2)),
    ("hsplit requires a tensor with at least 1 dimension,", lambda t: t.s.hsplit(1)),
    ("unflatten", lambda t: t.s.unflatten(0, (1, 1))),
    ("vsplit", lambda t: t.v.vsplit(2)),
    ("dsplit", lambda t: t.x.dsplit(1)),
    ("unbind", lambda t: t.s.unbind()),
    ("unbind", lambda t: t.x.unbind(2)),
    # picking
    ("select", lambda t: t.x.select(0, 2)),
    ("select", lambda t: t.x.select(0, -3)),
    ("select", lambda t: t.x.select(2, 0)),
    ("select", lambda t: t.s.select(0, 0)),
    ("narrow", lambda t: t.x.narrow(0, 1, 2)),
    ("narrow", lambda t: t.x.narrow(0, 0, -1)),
    ("narrow", lambda t: t.x.narrow(0, 3, 1)),
    ("narrow", lambda t: t.s.narrow(0, 0, 1)),
    ("range", lambda t: t.x.narrow(2, 0, 1)),
    ("narrow", lambda t: t.x.narrow(0, t.s, 1)),
    ("narrow", lambda t: t.x.narrow(0, t.index(1), 1)),
    ("narrow", lambda t: t.x.narrow(0, 1.0, 1)),
    ("index_select", lambda t: t.x.index_select(1, t.index(3))),
    ("index_select", lambda t: t.x.index_select(1, t.index(-1))),
    ("index_select", lambda t: t.x.index_select(0, t.index(3))),
    ("index_select", lambda t: t.v.index_select(0, t.index(-1))),
    ("index_select", lambda t: t.s.index_select(0, t.index(3))),
    ("index_select", lambda t: t.x.index_select(0, t.index(2))),
    ("index_select", lambda t: t.x.index_select(-2, t.index(-1))),
    ("index_select", lambda t: t.index_select(t.v, 0, t.index(4))),
    ("index_select", lambda t: t.s.index_select(0, t.index(1))),
    ("index_select", lambda t: t.s.index_select(1, t.index(0))),
    ("index_select", lambda t: t.e.index_select(0, t.index(0))),
    ("index_select", lambda t: t.e.index_select(1, t.index(3))),
    ("index_select", lambda t: t.e.t().index_select(0, t.index(3))),
    ("index_select", lambda t: t.x.index_select(1, t.n)),
    ("index_select", lambda t: t.x.index_select(1, t.v)),
    ("index_select", lambda t: t.x.index_select(2, t.index(0))),
    ("index_select", lambda t: t.s.index_select(0, t.index(0, 0))),
    ("index_select", lambda t: t.x.index_select(0, 1)),
    ("gather", lambda t: t.x.gather(1, t.index([5]))),
    ("gather", lambda t: t.x.gather(1, t.index([-1]))),
    ("gather", lambda t: t.x.gather(1, t.index(0))),
    ("gather", lambda t: t.x.gather(1, t.index([0], [0], [0]))),
    ("gather", lambda t: t.x.gather(2, t.index([0]))),
    ("gather", lambda t: t.x.gather(1, t.x)),
    ("take_along_dim", lambda t: t.take_along_dim(t.x, t.index(0), 1)),
    ("take_along_dim", lambda t: t.take_along_dim(t.x, t.x, 1)),
    ("take_along_dim", lambda t: t.take_along_dim(t.x, t.index([0]), 2)),
    ("take", lambda t: t.x.take(t.index(6))),
    ("take", lambda t: t.x.take(t.index(-7))),
    ("take", lambda t: t.x.take(t.v)),
    ("masked_select", lambda t: t.x.masked_select(t.n)),
    ("masked_select", lambda t: t.x.masked_select(t.v > 0)),
    # placing
    ("scatter", lambda t: t.x.scatter(0, t.index([0, -1, 0]), 2.0)),
    ("scatter", lambda t: t.x.scatter(0, t.index([0, 1, 0]), t.x[:, :2])),
    ("scatter", lambda t: t.x.scatter(0, t.index([0, 1, 0]), t.n)),
    ("scatter", lambda t: t.x.scatter(0, t.index([0, 1, 0]), t.x, reduce="unknown")),
    ("scatter", lambda t: t.x.scatter(0, t.v, t.x)),
    ("scatter", lambda t: t.x.scatter(0, t.index([0, 1, 0]))),
    ("scatter_add", lambda t: t.x.scatter_add(0, t.index([0, 1, 0]), 2.0)),
    ("scatter_add", lambda t: t.x.scatter_add(0, t.index([0, 1, 0]), t.n)),
    ("scatter_add", lambda t: t.x.scatter_add(0, t.index([0, 2, 0]), t.x)),
    ("scatter_reduce", lambda t: t.x.scatter_reduce(0, t.index([0, 1, 0]), t.x, "unknown")),
    ("scatter_reduce", lambda t: t.x.scatter_reduce(0, t.index([0, 5, 0]), t.x, "sum")),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0), t.v)),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0), t.x[:1, :2])),
    ("index_add", lambda t: t.x.index_add(0, t.index(0), t.x)),
    ("index_add", lambda t: t.x.index_add(0, t.index(0, 2), t.x)),
    ("index_add", lambda t: t.x.index_add(0, t.index(0, 1), t.n)),
    ("index_add", lambda t: t.x.index_add(0, t.index(0, 1), t.x[:, :1])),
    ("index_add", lambda t: t.v.index_add(0, t.index(4), t.v[:1])),
    ("index_add", lambda t: t.s.index_add(0, t.index(-1), t.s)),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0, 1), t.n)),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0), t.x)),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0, 5), t.x)),
    ("index_copy", lambda t: t.x.index_copy(0, t.index(0, -1), t.x)),
    ("index_fill", lambda t: t.x.index_fill(0, t.index(5), 1.0)),
    ("index_fill", lambda t: t.x.index_fill(0, t.index(0), t.v[:1])),
    ("index_fill", lambda t: t.x.index_fill(0, t.index(0), 1j)),
    ("index_reduce", lambda t: t.x.index_reduce(0, t.index(0, 0), t.x, "sum")),
    ("index_reduce", lambda t: t.x.index_reduce(0, t.index(0, 5), t.x, "amax")),
    ("index_put", lambda t: t.x.index_put((t.index(0),), t.n[0])),
    ("index_put", lambda t: t.x.index_put((t.index(0), t.index(1)), t.v)),
    ("index_put", lambda t: t.x.index_put((t.index(0),), 2.0)),
    ("index", lambda t: t.x.index_put((t.index(0), t.index(3)), t.v[:1])),
    ("index", lambda t: t.x.index_put((t.index(0), t.index(3)), t.v[:1], accumulate=True)),
    ("index_put", lambda t: t.x.index_put((t.index(0, 1),), t.v, accumulate=True)),
    ("ind", lambda t: t.x.index_put((t.v > 0,), t.v, accumulate=True)),
    ("indices", lambda t: t.x.index_put((t.v,), t.v)),
    ("fill_diagonal_", lambda t: t.v.fill_diagonal_(1.0)),
    ("fill_diagonal_", lambda t: t.x[None].fill_diagonal_(1.0)),
    ("masked_fill", lambda t: t.x.masked_fill(t.n, 0)),
    ("masked_fill", lambda t: t.x.masked_fill(t.b, t.v[:1])),
    ("masked_fill", lambda t: t.n.masked_fill(t.b, 1j)),
    ("masked_fill", lambda t: t.x.masked_fill(t.b[:, :2], 1.0)),
    ("masked_fill", lambda t: t.v[:3].masked_fill_(t.b, 1.0)),
    ("masked_scatter", lambda t: t.x.masked_scatter(t.b, t.v[:2])),
    ("masked_scatter", lambda t: t.x.masked_scatter(t.b, t.n)),
    ("put", lambda t: t.x.put(t.index(0, 7), t.v[:2])),
    ("put", lambda t: t.x.put(t.index(0, 1, 2), t.v[:2])),
    ("put", lambda t: t.x.put(t.index(0), t.n[:1, :1])),
    ("select_scatter", lambda t: t.x.select_scatter(t.v, 0, 1)),
    ("select_scatter", lambda t: t.x.select_scatter(t.x[0], 0, 2)),
    ("slice_scatter", lambda t: t.x.slice_scatter(t.x, 0, 1)),
    ("slice_scatter", lambda t: t.x.slice_scatter(t.x, 0, 0, 2, 0)),
    # copying
    ("copy_", lambda t: t.x.copy_(t.v)),
    ("copy_", lambda t: t.v.copy_(t.x)),
    ("copy_", lambda t: t.v.copy_(t.v[None])),
    ("copy_", lambda t: t.v.copy_([1.0])),
    ("fill_", lambda t: t.x.fill_(t.v)),
    ("fill_", lambda t: t.x.fill_("a")),
    ("fill_", lambda t: t.n.fill_(1j)),
    ("dtype", lambda t: t.x.to(dtype="float64")),
    ("device", lambda t: t.x.to("float64")),
    ("to()", lambda t: t.x.to(unknown=1)),
    ("type", lambda t: t.x.type("float64")),
    ("requires_grad", lambda t: t.x.requires_grad_(1)),
    ("requires_grad", lambda t: t.x.requires_grad_(None)),
    ("requires_grad", lambda t: t.ones(2, requires_grad="False")),
    ("requires_grad", lambda t: t.tensor([2.0], requires_grad=t.b.any())),
]


@pytest.mark.parametrize(("name", "wrong"), CALLS, ids=[f"{name}-{k}" for k, (name, _) in enumerate(CALLS)])
def test_wrong_calls(name: str, wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        wrong(Library(torch, to_torch))
    with pytest.raises(type(expected.value)) as raised:
        wrong(Library(rg, to_ours))
    assert name in str(raised.value)
    if isinstance(raised.value, np.exceptions.AxisError):
        pytest.fail(f"NumPy's own complaint: {raised.value}")


def test_devices_that_are_not_there() -> None:
    with pytest.raises(RuntimeError, match=r"CuPy|GPU"):
        rg.zeros(2).cuda()
    with pytest.raises(RuntimeError, match=r"CuPy|GPU"):
        rg.zeros(2).to("cuda:0", rg.float64)
