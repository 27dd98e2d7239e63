"""Devices, with torch as the oracle."""

import copy
import pickle
import sys
import types

import numpy as np
import pytest
import torch

from retrograd.device import array_module, as_device, cuda_is_available, device
from retrograd.nn import Linear

# In the package, the name of this module is that of the class.
module = sys.modules[device.__module__]


def outcome(make, *args, **kwargs):
    """Return the result of a constructor in a form that is the same for torch's device and ours."""
    try:
        d = make(*args, **kwargs)
    except (RuntimeError, TypeError) as error:
        return type(error)
    return d.type, d.index, repr(d), str(d)


STRINGS = ["cpu", "cuda", "cpu:0", "cpu:1", "cuda:0", "cuda:1", "cuda:7", "cuda:10", "cuda:99"]
BAD_STRINGS = ["cuda:", "cpu:", "cuda:-1", "cuda:+1", "cuda:01", "cuda:00", "cuda:a", "cuda:1:2", "cuda 1", " cpu"]
BAD_STRINGS += ["cpu ", "cpu\n", "cuda: 1", ":1", ":", "1", "cuda:1.0", "cuda:\u0661", "cuda:1\u0661", "foo:a", ""]
BAD_STRINGS += ["cuda:99999999999999", "cuda:" + "9" * 5000, "cuda:2147483648"]
UNKNOWN = ["foo", "foo:1", "CPU", "Cuda", "gpu", "c", "cpu_", "_"]


class FakeCupy(types.ModuleType):
    """A stand-in for CuPy with a given number of devices; None makes the driver fail."""

    def __init__(self, count):
        super().__init__("cupy")

        class CUDARuntimeError(RuntimeError):
            pass

        def get_device_count():
            if count is None:
                raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
            return count

        runtime = types.SimpleNamespace(getDeviceCount=get_device_count, CUDARuntimeError=CUDARuntimeError)
        self.cuda = types.SimpleNamespace(runtime=runtime)


@pytest.fixture
def install_cupy(monkeypatch):
    """Return a function that puts a module in CuPy's place; None makes the import fail."""
    module._cuda_array_module.cache_clear()

    def install(cupy):
        monkeypatch.setitem(sys.modules, "cupy", cupy)

    yield install
    module._cuda_array_module.cache_clear()


class TestConstructor:
    @pytest.mark.parametrize("text", STRINGS)
    def test_strings(self, text):
        expected = outcome(torch.device, text)
        assert isinstance(expected, tuple)
        assert outcome(device, text) == expected
        assert outcome(device, type=text) == expected

    @pytest.mark.parametrize("text", BAD_STRINGS)
    def test_bad_strings(self, text):
        with pytest.raises(RuntimeError) as expected:
            torch.device(text)
        with pytest.raises(RuntimeError) as error:
            device(text)
        # torch's message may go on with a C++ stack trace.
        assert f"{expected.value}\n".startswith(f"{error.value}\n")

    @pytest.mark.parametrize("text", UNKNOWN)
    def test_unknown_types(self, text):
        with pytest.raises(RuntimeError) as expected:
            torch.device(text)
        start, end = "Expected one of ", " device type at start of device string: "
        named = str(expected.value).split("\n")[0].split(end)[1]
        with pytest.raises(RuntimeError) as error:
            device(text)
        assert str(error.value) == f"{start}cpu, cuda{end}{named}"

    @pytest.mark.parametrize("text", ["mps", "meta", "xla", "xpu", "hip"])
    def test_device_types_that_only_torch_has(self, text):
        torch.device(text)
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda device type"):
            device(text)

    def test_meta_device_raises_with_advice(self):
        """torch's tutorial on ensembles puts the base model there."""
        with pytest.raises(RuntimeError, match=r"string: meta; .* omit it: functional_call takes a module"):
            Linear(1, 1).to("meta")

    @pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:0", "cpu:2"])
    @pytest.mark.parametrize("index", [0, 1, 100, np.int64(2), np.uint8(3), -1, -2], ids=repr)
    def test_string_and_index(self, text, index):
        expected = outcome(torch.device, text, index)
        assert outcome(device, text, index) == expected
        assert outcome(device, text, index=index) == expected
        assert outcome(device, type=text, index=index) == expected
        if isinstance(expected, tuple):
            assert type(device(text, index).index) is int

    @pytest.mark.parametrize("text", STRINGS)
    def test_index_none_means_no_index(self, text):
        # torch refuses it next to a string that has an index and accepts it otherwise.
        assert outcome(device, text, None) == outcome(torch.device, text)

    @pytest.mark.parametrize("index", [0, -1])
    def test_messages_with_index(self, index):
        for text in ("cuda", "cuda:0"):
            if (text, index) == ("cuda", 0):
                continue
            with pytest.raises(RuntimeError) as expected:
                torch.device(text, index)
            with pytest.raises(RuntimeError) as error:
                device(text, index)
            assert str(error.value) == str(expected.value).split("\n")[0]

    @pytest.mark.parametrize("index", ["1", 1.0, True, False, [], object()])
    def test_index_must_be_an_integer(self, index):
        with pytest.raises(TypeError) as expected:
            torch.device("cuda", index)
        with pytest.raises(TypeError) as error:
            device("cuda", index)
        assert str(error.value) == str(expected.value).split("\n")[0]

    @pytest.mark.parametrize("x", [None, 1.0, True, False, np.float32(1), [], ("cuda", 1), object()])
    def test_type_must_be_a_device(self, x):
        with pytest.raises(TypeError):
            torch.device(x)
        with pytest.raises(TypeError, match="device"):
            device(x)

    def test_wrong_combinations(self):
        for make in (torch.device, device):
            for args in ((), (0, 1), (make("cpu"), 1), (None, 1), ("cuda", 1, 2)):
                with pytest.raises(TypeError):
                    make(*args)

    @pytest.mark.parametrize("text", STRINGS)
    def test_from_device(self, text):
        d = device(text)
        assert device(d) == d
        assert repr(device(d)) == repr(torch.device(torch.device(text)))

    @pytest.mark.parametrize("number", [0, 1, np.int64(2)], ids=repr)
    def test_integer_is_a_cuda_device(self, number, install_cupy):
        install_cupy(FakeCupy(4))
        d = device(number)
        assert d == device("cuda", int(number))
        assert type(d.index) is int

    @pytest.mark.skipif(torch.version.cuda is not None, reason="this build of torch makes CUDA devices without a GPU")
    @pytest.mark.parametrize("number", [0, 1, -1])
    def test_integer_without_cuda(self, number, install_cupy):
        install_cupy(None)
        with pytest.raises(RuntimeError) as expected:
            torch.device(number)
        with pytest.raises(RuntimeError) as error:
            device(number)
        assert str(error.value) == str(expected.value).split("\n")[0]


class TestObject:
    @pytest.mark.parametrize("x", STRINGS)
    @pytest.mark.parametrize("y", STRINGS)
    def test_equality_and_hash(self, x, y):
        a, b = device(x), device(y)
        assert (a == b) is (torch.device(x) == torch.device(y))
        assert (a != b) is (torch.device(x) != torch.device(y))
        assert len({a, b}) == len({torch.device(x), torch.device(y)})

    @pytest.mark.parametrize("other", ["cpu", None, 0, torch.device("cpu"), object(), np.float32])
    def test_unequal_to_anything_else(self, other):
        assert (device("cpu") == other) is False
        assert (device("cpu") != other) is True

    def test_no_order(self):
        with pytest.raises(TypeError):
            _ = device("cpu") < device("cuda")

    @pytest.mark.parametrize("text", STRINGS)
    def test_pickle_and_copy(self, text, install_cupy):
        install_cupy(None)  # a device is only a name, and travels to where it does not exist
        d = device(text)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            back = pickle.loads(pickle.dumps(d, protocol))
            assert type(back) is device
            assert back == d
            assert repr(back) == repr(d)
        assert copy.copy(d) == copy.deepcopy(d) == d

    def test_immutable(self):
        for make in (torch.device, device):
            d = make("cuda:1")
            for name in ("type", "index", "brand_new"):
                with pytest.raises(AttributeError):
                    setattr(d, name, "cpu")
            with pytest.raises(AttributeError):
                del d.type
            assert str(d) == "cuda:1"


class TestAsDevice:
    @pytest.mark.parametrize("text", STRINGS)
    def test_accepts(self, text):
        d = device(text)
        assert as_device(d) is d
        assert as_device(text) == d

    def test_none_is_the_cpu(self):
        assert as_device(None) == as_device() == device("cpu")
        assert str(as_device(None)) == str(torch.zeros(1, device=None).device)

    def test_integer(self, install_cupy):
        install_cupy(FakeCupy(2))
        assert as_device(1) == as_device(np.int32(1)) == device("cuda:1")

    @pytest.mark.parametrize("x", [1.5, True, [], object(), np.float32(0), ("cuda", 1)])
    def test_wrong_type(self, x):
        with pytest.raises(TypeError):
            torch.zeros(1, device=x)
        with pytest.raises(TypeError, match=type(x).__name__):
            as_device(x)

    @pytest.mark.parametrize("text", [*BAD_STRINGS, *UNKNOWN])
    def test_bad_strings(self, text):
        with pytest.raises(RuntimeError):
            as_device(text)


class TestArrayModule:
    @pytest.mark.parametrize("text", ["cpu", "cpu:0"])
    def test_cpu(self, text, install_cupy):
        install_cupy(None)
        assert array_module(device(text)) is np

    @pytest.mark.parametrize("text", ["cuda", "cuda:0", "cuda:3"])
    def test_without_cupy(self, text, install_cupy):
        install_cupy(None)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r'CUDA tensors need CuPy: pip install "retrograd\[cuda\]"$'):
                array_module(device(text))

    @pytest.mark.parametrize("count", [0, None])
    def test_without_gpu(self, count, install_cupy):
        install_cupy(FakeCupy(count))
        for text in ("cuda", "cuda:0"):
            with pytest.raises(RuntimeError, match="No CUDA device is available"):
                array_module(device(text))

    @pytest.mark.parametrize("count", [1, 3])
    def test_with_gpu(self, count, install_cupy):
        cupy = FakeCupy(count)
        install_cupy(cupy)
        assert array_module(device("cuda")).cuda is cupy.cuda
        for index in range(count):
            assert array_module(device("cuda", index)).cuda is cupy.cuda
        with pytest.raises(RuntimeError, match=f"cuda:{count}"):
            array_module(device("cuda", count))

    def test_cupy_is_found_after_a_failed_attempt(self, install_cupy):
        install_cupy(None)
        with pytest.raises(RuntimeError):
            array_module(device("cuda"))
        cupy = FakeCupy(1)
        install_cupy(cupy)
        assert array_module(device("cuda")).cuda is cupy.cuda


class TestCudaIsAvailable:
    @pytest.mark.parametrize(("count", "expected"), [(None, False), (0, False), (1, True), (2, True)])
    def test_with_cupy(self, count, expected, install_cupy):
        install_cupy(FakeCupy(count))
        assert cuda_is_available() is expected

    def test_without_cupy(self, install_cupy):
        install_cupy(None)
        assert cuda_is_available() is False

    def test_broken_cupy(self, install_cupy):
        install_cupy(types.ModuleType("cupy"))
        assert cuda_is_available() is False

    def test_agrees_with_array_module(self):
        """Holds with and without a GPU."""
        if cuda_is_available():
            assert array_module(device("cuda")).__name__ == "cupy"
        else:
            with pytest.raises(RuntimeError):
                array_module(device("cuda"))
