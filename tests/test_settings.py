"""Names that torch scripts use around training: tensor types, switches, queries about GPUs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
import retrograd.backends.cudnn as cudnn
from retrograd.core.tensor_types import DTYPES
from retrograd.missing_names import ABSENT, OF_TENSORS
from tests.parity import attempt, parity

without_gpu = pytest.mark.skipif(rg.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    rg.set_default_dtype(rg.float32)
    rg.use_deterministic_algorithms(False)
    rg.set_float32_matmul_precision("highest")


# --- tensor types -----------------------------------------------------------------------------------------------------


@parity
def test_tensor_types_make_tensors(m: Any) -> Any:
    types = ("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ShortTensor", "CharTensor", "ByteTensor")
    makers = [*(getattr(m, name) for name in (*types, "HalfTensor", "BoolTensor")), m.Tensor]
    data = [[1, 0], [1, 1]]
    return [
        [
            make(data),
            make(np.array(data)),
            make([]),
            make(),
            make(2, 3).shape,
            make(4).shape,
            make(m.Size([1, 2])).shape,
            make(m.zeros(2, 3).shape).shape,
            make([make([1, 0]).tolist(), [0, 1]]),
            make(2, 3).dtype,
            attempt(lambda make=make: make(1.5)),
            attempt(lambda make=make: make("a")),
            attempt(lambda make=make: make(None)),
            attempt(lambda make=make: make(-1)),
            attempt(lambda make=make: make([[1, 2], [3]])),
            attempt(lambda make=make: make(2, "a")),
        ]
        for make in makers
    ]


@parity
def test_tensor_types_accept_and_describe_tensors(m: Any) -> Any:
    x = m.tensor([1.5, 2.5])
    again = m.FloatTensor(x)
    again[0] = 9
    return [
        x,
        attempt(lambda: m.LongTensor(x)),
        [isinstance(x, kind) for kind in (m.Tensor, m.FloatTensor, m.LongTensor, m.DoubleTensor)],
        isinstance(3, m.FloatTensor),
        x.type(m.LongTensor),
        x.long().type(m.DoubleTensor),
        x.type("torch.IntTensor"),
        m.nn.Linear(2, 1).type(m.DoubleTensor).weight.dtype,
        m.FloatTensor.dtype,
        m.FloatTensor([1, 2]).type_as(m.LongTensor([1])),
        [m.ones(2, dtype=m.int64).new(2, 3).dtype, x.new([1, 2]), x.new().shape, x.new(2, 3).zero_()],
    ]


def test_every_tensor_type_of_torch_exists() -> None:
    for name, dtype in DTYPES.items():
        if hasattr(torch, name):
            assert getattr(torch, name).dtype == getattr(torch, dtype.name)
        assert repr(getattr(rg, name)) == f"<class 'retrograd.{name}'>"
        assert rg.zeros(1, dtype=dtype).type() == f"retrograd.{name}"
        assert isinstance(rg.zeros(1, dtype=dtype), getattr(rg, name))


@parity
def test_tensor_class_follows_the_default_dtype(m: Any) -> Any:
    m.set_default_dtype(m.float64)
    made = [m.Tensor([1, 2]), m.Tensor(2).dtype, m.Tensor([1], device="cpu")]
    m.set_default_dtype(m.float32)
    return made


def test_errors_of_tensor_types_suggest_a_fix() -> None:
    with pytest.raises(TypeError, match=r"must be a sequence of numbers, but got float; .* use retrograd\.tensor\(\)"):
        rg.Tensor(1.5)
    with pytest.raises(TypeError, match=r"the tensor has dtype retrograd\.float32 on cpu; use \.to\(\)"):
        rg.LongTensor(rg.ones(2))


@parity
def test_tensor_types_refuse_values_that_are_not_numbers(m: Any) -> Any:
    """NumPy would convert None to NaN and words to True."""
    wrong = [[None], [1, None], {}, {1: 2}, np.array([None])]
    makers = [m.Tensor, m.BoolTensor, m.LongTensor]
    return [attempt(lambda make=make, data=data: make(data)) for make in makers for data in wrong], m.Tensor(
        [True, 2.5]
    )


def test_set_default_tensor_type() -> None:
    for kind in (rg.DoubleTensor, "torch.DoubleTensor", "retrograd.DoubleTensor"):
        rg.set_default_dtype(rg.float32)
        rg.set_default_tensor_type(kind)
        assert rg.ones(1).dtype == rg.float64
    for kind, words in ((rg.LongTensor, "LongTensor"), ("torch.Foo", "Foo"), (rg.float32, "float32")):
        with pytest.raises(TypeError, match=words):
            rg.set_default_tensor_type(kind)
    assert rg.ones(1).dtype == rg.float64


# --- switches ---------------------------------------------------------------------------------------------------------


def test_compile_is_the_identity() -> None:
    model = rg.nn.Linear(2, 1)
    assert rg.compile(model) is model
    assert rg.compile(model, backend="inductor", mode="reduce-overhead", fullgraph=True) is model

    @rg.compile
    def double(x: Any) -> Any:
        return 2 * x

    @rg.compile(dynamic=True)
    def triple(x: Any) -> Any:
        return 3 * x

    assert triple(double(1)) == 6
    with pytest.raises(TypeError, match="speed"):
        rg.compile(model, speed="fast")
    with pytest.raises(RuntimeError, match="int"):
        rg.compile(3)


@parity
def test_assert_function_raises_like_an_assertion(m: Any) -> Any:
    said = []
    for condition in (True, [3], m.ones(1), m.ones(2).sum() == 2, False, [], m.tensor([0.0]), m.tensor(False)):
        try:
            said.append(m._assert(condition, "image of 3 pixels"))
        except AssertionError as error:
            said.append(str(error))
    return said


def test_switches_without_effect_keep_their_value() -> None:
    rg.use_deterministic_algorithms(True, warn_only=True)
    assert rg.are_deterministic_algorithms_enabled()
    assert rg.is_deterministic_algorithms_warn_only_enabled()
    rg.set_float32_matmul_precision("high")
    assert rg.get_float32_matmul_precision() == "high"
    with pytest.warns(UserWarning, match="low"):
        rg.set_float32_matmul_precision("low")
    assert rg.get_float32_matmul_precision() == "high"
    cudnn.benchmark = True
    assert rg.backends.cudnn.benchmark
    cudnn.benchmark = False
    rg.backends.cuda.matmul.allow_tf32 = False
    assert not rg.backends.mps.is_available()
    assert not rg.mps.is_available()
    assert not rg.xpu.is_available()
    assert rg.mps.device_count() == rg.xpu.device_count() == 0
    assert not rg.backends.cudnn.is_available()


@parity
def test_debug_and_warning_switches_keep_their_value(m: Any) -> Any:
    report = []
    try:
        for mode in (0, 1, 2, "default", "warn", "error", 3, "always", None):
            report.append(attempt(lambda mode=mode: m.set_deterministic_debug_mode(mode)))
            report.append((m.get_deterministic_debug_mode(), m.are_deterministic_algorithms_enabled()))
        for wish in (True, False, 1):
            report.append(attempt(lambda wish=wish: m.set_warn_always(wish)))
            report.append(m.is_warn_always_enabled())
    finally:
        m.use_deterministic_algorithms(False)
        m.set_warn_always(False)
    return report


@parity
def test_safe_globals_are_kept(m: Any) -> Any:
    files = m.serialization
    files.clear_safe_globals()
    report = []
    files.add_safe_globals([dict, list])
    with files.safe_globals([set]):
        report.append(sorted(kind.__name__ for kind in files.get_safe_globals()))
    report.append(sorted(kind.__name__ for kind in files.get_safe_globals()))
    files.clear_safe_globals()
    return [*report, files.get_safe_globals(), files.save is m.save, files.load is m.load]


@pytest.mark.parametrize("place", [rg, rg.cuda])
def test_out_of_memory_error(place: Any) -> None:
    with pytest.raises(place.OutOfMemoryError):
        rg.empty(2**50)


@parity
def test_mathematical_constants(m: Any) -> Any:
    return [m.inf, m.nan != m.nan, m.pi, m.e, m.ones(3)[:, m.newaxis]]


# --- GPUs -------------------------------------------------------------------------------------------------------------


@without_gpu
def test_queries_about_gpus_without_a_gpu() -> None:
    cuda = rg.cuda
    assert (cuda.is_available(), cuda.device_count(), cuda.is_initialized()) == (False, 0, False)
    assert (cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved()) == (0, 0, 0)
    cuda.empty_cache()
    cuda.manual_seed(0)
    cuda.manual_seed_all(0)
    cuda.reset_peak_memory_stats()


@without_gpu
def test_using_a_gpu_without_one_raises() -> None:
    cuda = rg.cuda
    orders = [cuda.synchronize, cuda.current_device, cuda.get_device_name, lambda: cuda.set_device(0)]
    for order in orders:
        with pytest.raises(RuntimeError, match=r'CuPy: pip install "retrograd\[cuda\]"|accelerator|No CUDA device'):
            order()
    with pytest.raises(ValueError, match="cpu"):
        cuda.synchronize("cpu")


@pytest.mark.parametrize("module", ["amp", "cuda", "cuda.amp", "backends", "backends.cudnn", "backends.mps"])
def test_modules_have_only_names_of_torch(module: str) -> None:
    ours = importlib.import_module(f"retrograd.{module}")
    theirs = importlib.import_module(f"torch.{module}")
    additions = {"is_autocast_enabled"} if module == "amp" else set()
    assert {name for name in ours.__all__ if not hasattr(theirs, name)} == additions
    assert [name for name in ours.__all__ if not hasattr(ours, name)] == []


# --- missing names ----------------------------------------------------------------------------------------------------


OF_JAX_AND_AUTOGRAD = {"grad", "hessian", "jacobian", "numpy", "value_and_grad"}


@pytest.mark.parametrize("name", ABSENT)
def test_missing_names_raise_with_advice(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert has(torch, name) or hasattr(np, name) or name in OF_JAX_AND_AUTOGRAD
    package, _, last = f"retrograd.{name}".rpartition(".")
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute '{last}': ."):
        getattr(importlib.import_module(package), last)


@pytest.mark.parametrize("name", OF_TENSORS)
def test_missing_members_of_tensors_raise_with_advice(name: str) -> None:
    assert hasattr(torch.Tensor, name) or hasattr(np.ndarray, name)
    assert not hasattr(rg.Tensor, name)
    x = rg.ones(2)
    with pytest.raises(AttributeError, match=f"^'Tensor' object has no attribute '{name}': .") as caught:
        getattr(x, name)
    assert (caught.value.name, caught.value.obj) == (name, x)
    assert name not in dir(x)


def has(package: Any, path: str) -> bool:
    """Whether a package has the name at a path, perhaps a module that is not imported yet."""
    whole = f"{package.__name__}.{path}"
    parent, _, name = whole.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):  # if the parent is no package
        if importlib.util.find_spec(whole) is not None:
            return True
    return hasattr(importlib.import_module(parent), name)


def test_packages_are_imported_on_first_use() -> None:
    """As in torch, packages are attributes without an import by name."""
    code = "import retrograd as torch; print(torch.cuda.amp.GradScaler, torch.backends.cudnn.benchmark, torch.inf)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "<class 'retrograd.cuda.amp.GradScaler'> False inf\n"


# --- kernels and threads ----------------------------------------------------------------------------------------------


@parity
def test_attention_kernel_switches_match_torch(m: Any) -> Any:
    cuda = m.backends.cuda

    def state() -> list[bool]:
        return [
            cuda.flash_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
            cuda.math_sdp_enabled(),
            cuda.cudnn_sdp_enabled(),
        ]

    states = [state()]
    setters = (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_math_sdp, cuda.enable_cudnn_sdp)
    for enable in setters:
        enable(False)
        states.append(state())
    with cuda.sdp_kernel(enable_flash=False, enable_math=True, enable_mem_efficient=False):
        states.append(state())
    states.append(state())
    for enable in setters:
        enable(True)
    return [*states, state()]


def test_unused_backends_are_not_available() -> None:
    for library in (rg.backends.mkl, rg.backends.mkldnn, rg.backends.openmp, rg.backends.opt_einsum):
        assert not library.is_available()
        library.enabled = False


def test_number_of_interop_threads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.settings._interop_threads", 1)
    rg.set_num_interop_threads(3)
    assert rg.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="positive number, got 0"):
        rg.set_num_interop_threads(0)
    assert rg.set_flush_denormal(True) is False
