"""Making tensors, with torch as the oracle."""

from __future__ import annotations

import sys
import threading
import types

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.outcomes import NAMES, cases, compare

# --- of one value -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zeros", "ones"])
@cases(
    lambda f, lib: f(2, 3),
    lambda f, lib: f((2, 3)),
    lambda f, lib: f([2, 3]),
    lambda f, lib: f(lib.Size([2, 3])),
    lambda f, lib: f(size=(2, 3)),
    lambda f, lib: f(()),
    lambda f, lib: f([]),
    lambda f, lib: f(4),
    lambda f, lib: f(0, 3),
    lambda f, lib: f(np.int64(2), 3),
    lambda f, lib: f((np.int32(2), 3)),
    lambda f, lib: f(lib.tensor(2), 3),
    lambda f, lib: f((lib.tensor(2), 3)),
    lambda f, lib: f(2, dtype=float),
    lambda f, lib: f(2, dtype=int),
    lambda f, lib: f(2, dtype=lib.float64, device="cpu", layout=lib.strided, pin_memory=False, requires_grad=True),
    lambda f, lib: f(2, device=lib.device("cpu"), dtype=None, out=None),
    lambda f, lib: f(2, out=lib.empty(2, dtype=lib.int16)),
    lambda f, lib: f(2, 3, out=lib.empty(0)),
    lambda f, lib: f(2, out=lib.empty(5)),
    lambda f, lib: f(2, dtype=lib.int16, out=lib.empty(2, dtype=lib.int16)),
    lambda f, lib: f(2, dtype=lib.float32, out=lib.empty(2, dtype=lib.int16)),
    lambda f, lib: f(2, out=lib.ones(2, requires_grad=True)),
    lambda f, lib: f(2, out=[1]),
    lambda f, lib: f(),
    lambda f, lib: f(-1),
    lambda f, lib: f((2, -3)),
    lambda f, lib: f(2.0),
    lambda f, lib: f(True),
    lambda f, lib: f((True, 2)),
    lambda f, lib: f((2.5, 2)),
    lambda f, lib: f("a"),
    lambda f, lib: f(None),
    lambda f, lib: f(2, None),
    lambda f, lib: f(range(3)),
    lambda f, lib: f(np.array([2, 3])),
    lambda f, lib: f(lib.tensor([2, 3])),
    lambda f, lib: f((2, 3), 4),
    lambda f, lib: f(2**62, 8),
    lambda f, lib: f(2, size=(3,)),
    lambda f, lib: f(size=2),
    lambda f, lib: f(2, foo=1),
    lambda f, lib: f(2, dtype="x"),
    lambda f, lib: f(2, device="foo"),
    lambda f, lib: f(2, device=1.5),
    lambda f, lib: f(2, layout="strided"),
    lambda f, lib: f(2, pin_memory=True),
    lambda f, lib: f(2, dtype=lib.int64, requires_grad=True),
)
def test_zeros_and_ones_match_torch(name, call):
    compare(lambda lib: call(getattr(lib, name), lib))


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_creation_in_every_dtype(dtype, requires_grad):
    for call in (
        lambda lib, **keywords: lib.zeros(2, 3, **keywords),
        lambda lib, **keywords: lib.ones(2, 3, **keywords),
        lambda lib, **keywords: lib.full((2,), 1, **keywords),
        lambda lib, **keywords: lib.eye(2, 3, **keywords),
        lambda lib, **keywords: lib.scalar_tensor(1, **keywords),
        lambda lib, **keywords: lib.zeros_like(lib.zeros(2), **keywords),
        lambda lib, **keywords: lib.zeros(2).new_ones(3, **keywords),
        lambda lib, **keywords: lib.tensor([0, 1], **keywords),
        lambda lib, **keywords: lib.arange(4, **keywords),
    ):
        compare(lambda lib, call=call: call(lib, dtype=getattr(lib, dtype), requires_grad=requires_grad))


@cases(
    lambda lib: lib.empty(2, 3),
    lambda lib: lib.empty((2, 3), dtype=lib.int8),
    lambda lib: lib.empty(2, memory_format=lib.contiguous_format),
    lambda lib: lib.empty(2, requires_grad=True),
    lambda lib: lib.empty_like(lib.zeros(2, 3, dtype=lib.int16)),
    lambda lib: lib.zeros(1, dtype=lib.int16).new_empty(2, 3),
    lambda lib: lib.zeros(1).new_empty((2, 3), dtype=lib.float16),
    lambda lib: lib.empty_permuted((2, 3, 5, 7), (0, 2, 3, 1)),
    lambda lib: lib.empty_permuted((2, 3), [1, 0], dtype=lib.int16, requires_grad=False),
    lambda lib: lib.empty_permuted((0, 3), (1, 0)),
    lambda lib: lib.empty_permuted((), ()),
    lambda lib: lib.empty_permuted((2, 3), (0,)),
    lambda lib: lib.empty_permuted((2, 3), (1, 1)),
    lambda lib: lib.empty_permuted((2, 3), (0, 2)),
    lambda lib: lib.empty_permuted((-2, 3), (0, 1)),
    lambda lib: lib.empty_strided((2, 3), (1, 2)),
    lambda lib: lib.empty_strided((2, 3), (0, 0)),
    lambda lib: lib.empty_strided((0, 3), (5, 7)),
    lambda lib: lib.empty_strided((), ()),
    lambda lib: lib.empty_strided((2, 3), (1,)),
    lambda lib: lib.empty_strided((2, 3), (-1, 2)),
    lambda lib: lib.zeros(1, dtype=lib.int16).new_empty_strided((2, 3), (1, 2)),
)
def test_empty_has_the_strides_of_torch(call):
    def described(lib):
        result = call(lib)
        if isinstance(result, rg.Tensor):  # it may be anything, so look at the strides in its place
            assert rg.is_tensor(result.fill_(0) if not result.requires_grad else result)
        return str(result.dtype)[-5:], tuple(result.shape), result.stride(), result.requires_grad

    compare(described)


@cases(
    lambda lib: lib.full((2,), 3),
    lambda lib: lib.full((2,), 3.0),
    lambda lib: lib.full((2,), True),
    lambda lib: lib.full((2,), 1j),
    lambda lib: lib.full((), 3),
    lambda lib: lib.full([2, 0], 3),
    lambda lib: lib.full(size=(2,), fill_value=3),
    lambda lib: lib.full((2,), 3, dtype=lib.float64),
    lambda lib: lib.full((2,), 3.0, requires_grad=True),
    lambda lib: lib.full((2,), 3.0, out=lib.empty(2, dtype=lib.int32)),
    lambda lib: lib.full((2,), lib.tensor(3.5)),
    lambda lib: lib.full((2,), lib.tensor(3.5, dtype=lib.float64)),
    lambda lib: lib.full((2,), lib.tensor(3, dtype=lib.int32)),
    lambda lib: lib.full((2,), np.float32(3)),
    lambda lib: lib.full((2,), np.float64(3)),
    lambda lib: lib.full((2,), np.int32(3)),
    lambda lib: lib.full((2,), 1.5, dtype=lib.int32),
    lambda lib: lib.full((2,), -1.5, dtype=lib.int32),
    lambda lib: lib.full((2,), -1, dtype=lib.uint8),
    lambda lib: lib.full((2,), -255, dtype=lib.uint8),
    lambda lib: lib.full((2,), 2, dtype=lib.bool),
    lambda lib: lib.full((2,), float("inf"), dtype=lib.float16),
    lambda lib: lib.full((2,), float("nan"), dtype=lib.float16),
    lambda lib: lib.full((2,), 2 + 0j, dtype=lib.float32),
    lambda lib: lib.full((2,), 2**53 + 1),
    # errors
    lambda lib: lib.full((2,), -256, dtype=lib.uint8),
    lambda lib: lib.full((2,), 300, dtype=lib.uint8),
    lambda lib: lib.full((2,), -1.5, dtype=lib.uint8),
    lambda lib: lib.full((2,), 2**40, dtype=lib.int32),
    lambda lib: lib.full((2,), 1e10, dtype=lib.int32),
    lambda lib: lib.full((2,), float("nan"), dtype=lib.int32),
    lambda lib: lib.full((2,), float("inf"), dtype=lib.int32),
    lambda lib: lib.full((2,), 1e300, dtype=lib.float32),
    lambda lib: lib.full((2,), 70000.0, dtype=lib.float16),
    lambda lib: lib.full((2,), 1e300j, dtype=lib.complex64),
    lambda lib: lib.full((2,), 1j, dtype=lib.float32),
    lambda lib: lib.full((2,), 2**70),
    lambda lib: lib.full((2,), lib.tensor([3])),
    lambda lib: lib.full((2,), lib.tensor(3.0, requires_grad=True)),
    lambda lib: lib.full((2,), "a"),
    lambda lib: lib.full((2,), None),
    lambda lib: lib.full((2,)),
    lambda lib: lib.full(2, 3),
    lambda lib: lib.full((-2,), 3),
    lambda lib: lib.full((2,), 3, requires_grad=True),
    lambda lib: lib.scalar_tensor(3),
    lambda lib: lib.scalar_tensor(True),
    lambda lib: lib.scalar_tensor(3, dtype=lib.int32),
    lambda lib: lib.scalar_tensor(lib.tensor(3.0)),
    lambda lib: lib.scalar_tensor(1j),
    lambda lib: lib.scalar_tensor("a"),
    lambda lib: lib.scalar_tensor(lib.tensor([3.0])),
)
def test_full_matches_torch(call):
    compare(call)


@cases(
    lambda lib: lib.eye(3),
    lambda lib: lib.eye(2, 3),
    lambda lib: lib.eye(3, m=2),
    lambda lib: lib.eye(n=0),
    lambda lib: lib.eye(2, dtype=lib.int64),
    lambda lib: lib.eye(2, requires_grad=True),
    lambda lib: lib.eye(2, out=lib.empty(0)),
    lambda lib: lib.eye(-1),
    lambda lib: lib.eye(2, -1),
    lambda lib: lib.eye(2.0),
    lambda lib: lib.eye(),
    lambda lib: lib.eye(2, size=(2,)),
    lambda lib: lib.eye(2, foo=1),
)
def test_eye_matches_torch(call):
    compare(call)


def inputs(lib):
    return [
        lib.arange(6).reshape(2, 3),
        lib.arange(6.0).reshape(2, 3).t(),
        lib.zeros(4, 6)[::2, ::2],
        lib.zeros(4, 6).t()[::2, ::2],
        lib.zeros(1, 6).expand(4, 6),
        lib.zeros(2, 3, 4).permute(2, 0, 1),
        lib.zeros(()),
        lib.zeros(0, 3),
        lib.ones(2, requires_grad=True),
    ]


@pytest.mark.parametrize("which", range(9))
@cases(
    lambda lib, x: lib.zeros_like(x),
    lambda lib, x: lib.ones_like(x),
    lambda lib, x: lib.full_like(x, 2),
    lambda lib, x: lib.full_like(x, 2.5),
    lambda lib, x: lib.full_like(x, True),
    lambda lib, x: lib.full_like(x, 2.5, dtype=lib.float64),
    lambda lib, x: lib.full_like(x, fill_value=lib.tensor(3.0)),
    lambda lib, x: lib.zeros_like(x, dtype=lib.complex64),
    lambda lib, x: lib.zeros_like(x, dtype=lib.float64, requires_grad=True),
    lambda lib, x: lib.zeros_like(x, memory_format=lib.contiguous_format),
    lambda lib, x: lib.zeros_like(
        x, memory_format=lib.preserve_format, layout=lib.strided, device="cpu", pin_memory=False
    ),
    lambda lib, x: x.new_zeros(2, 3),
    lambda lib, x: x.new_zeros((2, 3), dtype=lib.bool),
    lambda lib, x: x.new_ones(size=(2,)),
    lambda lib, x: x.new_full((2,), 3),
    lambda lib, x: x.new_full((2,), 1.5, dtype=lib.float64, requires_grad=True),
    lambda lib, x: x.new_tensor([1.5, 2]),
    lambda lib, x: x.new_tensor([1, 2], dtype=lib.int8),
    lambda lib, x: x.new_tensor(3),
    lambda lib, x: x.new_tensor(np.array([1, 2])),
    lambda lib, x: x.new_tensor(lib.tensor(1)),
    # errors
    lambda lib, x: lib.full_like(x, 1j),
    lambda lib, x: lib.full_like(x, "a"),
    lambda lib, x: lib.full_like(x),
    lambda lib, x: lib.full_like(x, lib.tensor([3.0])),
    lambda lib, x: lib.zeros_like([1]),
    lambda lib, x: lib.zeros_like(x, dtype=lib.int64, requires_grad=True),
    lambda lib, x: x.new_zeros(),
    lambda lib, x: x.new_zeros(True),
    lambda lib, x: x.new_full(2, 3),
    lambda lib, x: x.new_full((2,), 1j),
    lambda lib, x: x.new_tensor("a"),
)
def test_creation_like_another_tensor(which, call):
    compare(lambda lib: call(lib, inputs(lib)[which]))


@pytest.mark.parametrize("which", [0, 1, 2, 3, 4, 5, 6, 8])  # the strides of an empty tensor mean nothing
def test_like_keeps_the_order_in_memory(which):
    for order in ({}, {"memory_format": "contiguous_format"}):
        ours, theirs = (
            lib.zeros_like(inputs(lib)[which], **{key: getattr(lib, value) for key, value in order.items()})
            for lib in (rg, torch)
        )
        assert ours.stride() == theirs.stride()
        assert rg.empty_like(inputs(rg)[which]).stride() == torch.empty_like(inputs(torch)[which]).stride()


# --- modes, devices -----------------------------------------------------------------------------------------------


def test_out_of_a_creation_function_is_returned_and_counts_the_write():
    out = rg.zeros(2)
    assert rg.ones(2, out=out) is out
    assert (out.tolist(), out._version) == ([1, 1], 1)
    assert rg.arange(3, out=out) is out
    assert (out.tolist(), out._version) == ([0, 1, 2], 2)
    with pytest.raises(RuntimeError, match="memory"):
        rg.ones(3, out=rg.zeros(1).expand(3))


def test_creation_in_inference_mode_makes_inference_tensors():
    with rg.inference_mode():
        made = [rg.zeros(2), rg.tensor([1.0]), rg.from_numpy(np.ones(2)), rg.rand(2), rg.as_tensor([1])]
        assert rg.zeros(2, requires_grad=True).requires_grad
    assert all(tensor.is_inference() for tensor in made)
    assert not rg.zeros(2).is_inference()


def test_requires_grad_argument_applies_in_no_grad():
    with rg.no_grad():
        assert rg.zeros(2, requires_grad=True).requires_grad


class FakeArray:
    """An array of the fake library: a NumPy array and a device."""

    def __init__(self, data, device):
        self.data, self.device = data, types.SimpleNamespace(id=device)
        self.dtype, self.shape, self.strides = data.dtype, data.shape, data.strides

    def get(self):
        return self.data


class FakeCupy(types.ModuleType):
    """The part of CuPy that shows on which of two devices arrays are made, and how."""

    def __init__(self):
        super().__init__("cupy")
        self.current = [0]
        self.seeds = []
        runtime = types.SimpleNamespace(getDeviceCount=lambda: 2, CUDARuntimeError=RuntimeError)
        self.cuda = types.SimpleNamespace(runtime=runtime, Device=self.device)
        self.random = types.SimpleNamespace(default_rng=self.rng)
        self.ndarray = FakeArray

    def device(self, index):
        module = self

        class Current:
            def __enter__(self):
                module.current.append(index)

            def __exit__(self, *exc):
                module.current.pop()

        return Current()

    def rng(self, seed):
        self.seeds.append(seed)
        return np.random.default_rng(seed)

    def zeros(self, *args):
        return FakeArray(np.zeros(*args), self.current[-1])

    def asarray(self, data):
        return FakeArray(np.asarray(data), self.current[-1])


@pytest.fixture
def cupy(monkeypatch):
    module = FakeCupy()
    devices = sys.modules["retrograd.device"]
    devices._cuda_array_module.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield module
    devices._cuda_array_module.cache_clear()
    rg.set_default_device(None)


def test_arrays_are_made_on_the_requested_device(cupy):
    assert str(rg.zeros(2, device="cuda").device) == "cuda:0"
    assert str(rg.zeros(2, device="cuda:1").device) == "cuda:1"
    assert str(rg.tensor([1, 2], device="cuda:1").device) == "cuda:1"
    assert str(rg.zeros(2, device="cpu:0").device) == "cpu"
    assert str(rg.as_tensor(np.ones(2), device="cuda").device) == "cuda:0"
    assert str(rg.zeros(2, device="cuda:1").new_zeros(3).device) == "cuda:1"
    with pytest.raises(RuntimeError, match="cuda:2"):
        rg.zeros(2, device="cuda:2")


def test_set_default_device(cupy):
    assert rg.get_default_device() == rg.device("cpu")
    rg.set_default_device("cuda:1")
    assert rg.get_default_device() == rg.device("cuda:1")
    assert str(rg.zeros(2).device) == "cuda:1"
    assert str(rg.tensor([1, 2]).device) == "cuda:1"
    assert str(rg.as_tensor(np.ones(2)).device) == "cuda:1"
    assert str(rg.zeros(2, device="cpu").device) == "cpu"
    assert str(rg.from_numpy(np.ones(2)).device) == "cpu"
    with pytest.raises(RuntimeError, match="cuda:5"):
        rg.set_default_device("cuda:5")
    rg.set_default_device(None)
    assert str(rg.zeros(2).device) == "cpu"


def made_in_blocks(library, there):
    """Return the devices of tensors made in and after the ``with`` block of a device."""
    found = []

    def note():
        made = library.zeros(2), library.tensor([1]), library.from_numpy(np.ones(2))
        found.extend([*(str(x.device) for x in made), str(library.get_default_device())])

    with library.device(there) as entered:
        found.append(str(entered))
        note()
        found.append(str(library.zeros(2, device="cpu").device))
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()
        with library.device("cpu"), entered:
            with library.device("cpu"):
                note()
            note()
    note()
    with pytest.raises(ZeroDivisionError), library.device(there):
        _ = 1 / 0
    note()
    return [name.replace(there, "there") for name in found]


def test_device_as_context_manager_sets_the_default(cupy):
    assert made_in_blocks(rg, "cuda:1") == made_in_blocks(torch, "meta")


# --- queries ------------------------------------------------------------------------------------------------------


@cases(
    lambda lib: lib.is_tensor(lib.zeros(2)),
    lambda lib: lib.is_tensor(1),
    lambda lib: lib.is_floating_point(lib.zeros(2)),
    lambda lib: lib.is_floating_point(lib.zeros(2, dtype=lib.complex64)),
    lambda lib: lib.is_complex(lib.zeros(2, dtype=lib.complex64)),
    lambda lib: lib.is_signed(lib.zeros(2, dtype=lib.uint8)),
    lambda lib: lib.is_inference(lib.zeros(2)),
    lambda lib: lib.numel(lib.zeros(2, 3)),
    lambda lib: lib.is_floating_point(1),
    lambda lib: lib.is_complex([1]),
    lambda lib: lib.numel([1]),
    lambda lib: lib.typename(1),
    lambda lib: lib.typename(lib.zeros(2)).rpartition(".")[2],
    lambda lib: lib.typename(lib.zeros(2, dtype=lib.int64)).rpartition(".")[2],
    lambda lib: lib.typename(np.zeros(2)),
    lambda lib: lib.typename(np.ndarray),
    lambda lib: lib.zeros(2).layout is lib.strided,
    lambda lib: lib.result_type(lib.zeros(2), 1),
    lambda lib: lib.result_type(lib.tensor(1), 1.5),
    lambda lib: lib.result_type(1, 1.5),
    lambda lib: lib.result_type(1, True),
    lambda lib: lib.result_type(1, lib.tensor([1], dtype=lib.int8)),
    lambda lib: lib.result_type(np.float64(1), lib.tensor([1], dtype=lib.float16)),
    lambda lib: lib.result_type(np.float32(1), lib.tensor([1], dtype=lib.int8)),
    lambda lib: lib.result_type(tensor=lib.tensor(1.0), other=lib.tensor(1, dtype=lib.complex64)),
    lambda lib: lib.result_type(lib.zeros(2), "a"),
    lambda lib: lib.result_type(lib.zeros(2)),
)
def test_queries_about_tensors_match_torch(call):
    def comparable(lib):
        result = call(lib)
        return str(result).rpartition(".")[2] if isinstance(result, (torch.dtype, rg.dtype)) else result

    compare(comparable)
