"""pickle, copy.copy and copy.deepcopy of tensors and generators, compared with torch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops.in_place import IN_PLACE
from tests.parity import parity

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")


def through_pickle(thing, protocol=pickle.DEFAULT_PROTOCOL):
    return pickle.loads(pickle.dumps(thing, protocol))


WAYS = {"pickle": through_pickle, "copy": copy.copy, "deepcopy": copy.deepcopy}


def ways(*names):
    return pytest.mark.parametrize("way", [WAYS[name] for name in names], ids=names)


class Sub(rg.Tensor):
    """A subclass with an attribute in a slot, too."""

    __slots__ = ("inside",)


class Private(rg.Tensor):
    """A subclass that defines its own state."""

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept = state["kept"] + 1


def as_subclass(kind, tensor):
    made = kind.__new__(kind)
    rg.Tensor.__init__(made, tensor)
    return made


# --- values -------------------------------------------------------------------------------------------------------


@ways("pickle", "copy", "deepcopy")
@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x[0],
        lambda x: x[0, 0, 0],
        lambda x: x[:0],
        lambda x: x[1:, ::2],
        lambda x: x.permute(2, 0, 1),
        lambda x: x[:1].expand(5, 3, 4),
        lambda x: rg.from_numpy(x.numpy()[::-1]),
        lambda x: rg.from_numpy(np.asfortranarray(x.numpy())),
        lambda x: rg.from_numpy(np.asfortranarray(x.numpy()))[:, 1],
    ],
    ids=[str(k) for k in range(10)],
)
def test_values_and_layout_survive(way, dtype, make):
    x = make(rg.from_numpy(np.arange(24).reshape(2, 3, 4).astype(dtype)))
    y = way(x)
    assert type(y) is rg.Tensor
    assert y.dtype is x.dtype
    assert y.shape == x.shape
    assert y.tolist() == x.tolist()
    assert y.numel() == 0 or y.stride() == x.stride()
    # operations compare dtypes by identity
    assert y._data.dtype is x._data.dtype


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(protocol):
    x = rg.rand(3, 4, requires_grad=True)
    for part in (x, x.detach()[1:, ::2]):
        y = through_pickle(part, protocol)
        assert (y.tolist(), y.requires_grad) == (part.tolist(), part.requires_grad)


def test_pickling_with_out_of_band_buffers():
    x = rg.rand(100, 100)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert pickle.loads(data, buffers=buffers).tolist() == x.tolist()


@ways("copy")
def test_copy_shares_memory(way):
    x = rg.zeros(3)
    y = way(x)
    y.fill_(1)
    assert y is not x
    assert x.tolist() == [1, 1, 1]


@ways("pickle", "deepcopy")
def test_deepcopy_and_pickle_do_not_share_memory(way):
    x = rg.zeros(3)
    way(x).fill_(1)
    assert x.tolist() == [0, 0, 0]


def test_copies_of_expanded_tensors_stay_unwritable():
    for way in WAYS.values():
        y = way(rg.ones(1).expand(3))
        with pytest.raises(RuntimeError, match="more than one element"):
            y.add_(1)


# --- storage ------------------------------------------------------------------------------------------------------


@ways("pickle", "deepcopy")
def test_tensors_copied_together_share_storage_as_before(way):
    x = rg.zeros(6)
    y, z, other = way([x, x[2:], rg.zeros(6)])
    z.fill_(1)
    assert y.tolist() == [0, 0, 1, 1, 1, 1]
    assert other.tolist() == [0] * 6
    first, second = way([x, x])
    assert first is second


@ways("pickle", "deepcopy")
def test_copy_of_a_part_of_a_tensor(way):
    x = rg.arange(6)
    part = way(x[2:4])
    assert part.tolist() == [2, 3]
    assert part.storage_offset() == 2


def test_copies_are_not_views():
    x = rg.zeros(6)
    for way in WAYS.values():
        assert not way(x[2:])._is_view()


# --- the graph ----------------------------------------------------------------------------------------------------


@parity
def test_copies_of_leaves(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    x.grad = lib.ones(2)
    report = {}
    for name, way in WAYS.items():
        y = way(x)
        report[name] = [y, y.requires_grad, y.is_leaf, y is x]
        (y * 3).sum().backward()
        report[name].append(y.grad)
    report["grad"] = [way(x).grad for way in WAYS.values()]
    report["untouched"] = x.grad
    return report


@parity
def test_copies_of_computed_tensors(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    report = [[way(y), way(y).requires_grad, way(y).is_leaf] for way in (through_pickle, copy.copy)]
    try:
        copy.deepcopy(y)
    except RuntimeError as error:
        report.append(str(error).startswith("Only Tensors created explicitly by the user (graph leaves) support"))
    report.append(copy.deepcopy(y.detach()).requires_grad)
    return report


def test_error_about_deepcopy_describes_the_tensor():
    with pytest.raises(RuntimeError, match=r"shape \[2\], was computed by MulBackward0"):
        copy.deepcopy([rg.ones(2, requires_grad=True) * 2])


def test_deepcopy_of_a_view_of_a_computed_tensor_raises():
    base = rg.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(base[:1])


@parity
def test_deepcopy_copies_grad(lib):
    x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    x.grad = y.grad = lib.zeros(2)
    a, b = copy.deepcopy([x, y])
    return [a.grad, a.grad is b.grad, a.grad is x.grad]


def test_copies_have_no_hooks():
    x = rg.ones(2, requires_grad=True)
    x.register_hook(print)
    with pytest.warns(UserWarning, match="hooks"):
        assert not through_pickle(x)._backward_hooks
    assert not copy.deepcopy(x)._backward_hooks


def test_deepcopy_gets_its_own_gradient():
    x = rg.ones(2, requires_grad=True)
    y = copy.deepcopy(x)
    (x * y * y).sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert y.grad.tolist() == [2, 2]


def test_copies_of_inference_tensors_are_ordinary():
    with rg.inference_mode():
        x = rg.ones(2)
    assert not any(way(x).is_inference() for way in WAYS.values())


# --- attributes ---------------------------------------------------------------------------------------------------


@ways("pickle", "copy", "deepcopy")
@pytest.mark.parametrize("kind", [rg.Tensor, Sub])
def test_attributes_of_subclasses_survive(way, kind):
    x = as_subclass(kind, rg.zeros(2)).requires_grad_()
    x.tag = ["a"]
    y = way(x)
    assert type(y) is kind
    assert y.requires_grad
    assert y.tag == ["a"]
    assert (y.tag is x.tag) == (way is copy.copy)
    if kind is Sub:
        assert not hasattr(y, "inside")
        x.inside = [1]
        assert way(x).inside == [1]
        assert (way(x).inside is x.inside) == (way is copy.copy)


def test_copying_a_tensor_that_refers_to_itself():
    x = rg.zeros(2)
    x.me = x
    y = copy.deepcopy(x)
    assert y.me is y
    z = through_pickle(x)
    assert z.me is z


def test_subclass_with_its_own_state():
    x = as_subclass(Private, rg.zeros(2))
    x.kept, x.lost = 1, 2
    y = through_pickle(x)
    assert y.kept == 2
    assert not hasattr(y, "lost")


# --- others -------------------------------------------------------------------------------------------------------


@ways("pickle", "deepcopy")
def test_dtypes_sizes_devices_and_containers_survive(way):
    for thing in (rg.float32, rg.Size([2, 3]), rg.device("cuda:1"), rg.strided, rg.preserve_format):
        assert way(thing) == thing
        assert type(way(thing)) is type(thing)
    assert way(rg.float32) is rg.float32
    assert way(rg.strided) is rg.strided
    nested = way({"weights": [rg.ones(2), (rg.zeros(1), 3)]})
    assert nested["weights"][0].tolist() == [1, 1]


@ways("pickle", "copy", "deepcopy")
def test_copies_of_generators(way):
    g = rg.Generator().manual_seed(4)
    rg.rand(3, generator=g)
    h = way(g)
    assert h is not g
    assert (h.initial_seed(), h.device) == (4, g.device)
    expected = rg.rand(5, generator=g).tolist()
    assert rg.rand(5, generator=h).tolist() == expected


def test_pickle_is_as_small_as_the_array():
    x = rg.rand(1000)
    assert len(pickle.dumps(x)) < 4000 + 400
    assert len(pickle.dumps(x)) < len(pickle.dumps(torch.rand(1000))) + 100


def test_functions_and_methods_are_pickled_by_name() -> None:
    """As in torch, a copy of a function is the function itself."""
    in_place = [getattr(rg, name) for name in sorted(IN_PLACE)]
    functional = [getattr(rg.nn.functional, name) for name in rg.nn.functional.__all__]
    methods = [
        getattr(rg.Tensor, name) for name in ("exp", "exp_", "add_", "float", "t_", "uniform_", "__add__", "__radd__")
    ]
    for function in (*in_place, *functional, *methods):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function


def test_pickling_a_module_that_holds_a_function() -> None:
    for function in (rg.relu_, rg.nn.functional.elu_, rg.exp_, rg.Tensor.sigmoid_):
        model = rg.nn.Linear(2, 2)
        model.activation = function
        assert copy.deepcopy(model).activation is function
        assert pickle.loads(pickle.dumps(model)).activation is function
