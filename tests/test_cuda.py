"""``rg.cuda`` with a stand-in for CuPy that has two GPUs."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import pytest

import retrograd as rg
from tests.test_device import FakeCupy, install_cupy  # noqa: F401 (a fixture)


class TwoGpus(FakeCupy):
    """CuPy as far as :mod:`retrograd.cuda` knows it."""

    def __init__(self) -> None:
        super().__init__(2)
        cupy = self
        self.current, self.log, self.free = 0, [], {0: 100, 1: 200}

        class Device:
            def __init__(self, number: int | None = None) -> None:
                self.id = cupy.current if number is None else number
                self.compute_capability = "90"

            def use(self) -> None:
                cupy.current = self.id

            def synchronize(self) -> None:
                cupy.log.append(f"synchronize {self.id}")

            def __enter__(self) -> None:
                self.before, cupy.current = cupy.current, self.id

            def __exit__(self, *error: object) -> None:
                cupy.current = self.before

        def free_all_blocks() -> None:
            cupy.free[cupy.current] = 0

        self.cuda.Device = Device
        self.cuda.runtime.getDeviceProperties = lambda number: {"name": f"GPU {number}".encode()}
        self.get_default_memory_pool = lambda: types.SimpleNamespace(
            used_bytes=lambda: 1000 + cupy.current,
            total_bytes=lambda: 1000 + cupy.current + cupy.free[cupy.current],
            free_all_blocks=free_all_blocks,
        )


@pytest.fixture
def cupy(install_cupy: Any) -> TwoGpus:  # noqa: F811
    gpus = TwoGpus()
    install_cupy(gpus)
    return gpus


def test_current_gpu_and_its_properties(cupy: TwoGpus) -> None:
    cuda = rg.cuda
    assert (cuda.is_available(), cuda.device_count(), cuda.current_device()) == (True, 2, 0)
    assert cuda.get_device_name() == "GPU 0"
    assert cuda.get_device_name("cuda:1") == "GPU 1"
    assert cuda.get_device_capability(1) == (9, 0)
    with cuda.device(1):
        assert cuda.current_device() == 1
    with contextlib.suppress(KeyError), cuda.device("cuda:1"):
        raise KeyError
    assert cuda.current_device() == 0
    cuda.set_device(rg.device("cuda:1"))
    assert cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="No CUDA device cuda:2"):
        cuda.set_device(2)


def test_synchronize(cupy: TwoGpus) -> None:
    rg.cuda.synchronize()
    rg.cuda.synchronize(1)
    assert cupy.log == ["synchronize 0", "synchronize 1"]


def test_memory_statistics(cupy: TwoGpus) -> None:
    cuda = rg.cuda
    assert (cuda.memory_allocated(), cuda.memory_reserved(), cuda.max_memory_allocated()) == (1000, 1100, 1100)
    assert (cuda.memory_allocated(1), cuda.max_memory_reserved("cuda:1")) == (1001, 1201)
    cuda.empty_cache()
    assert cuda.memory_reserved() == 1000
    assert cuda.memory_reserved(1) == 1201


def test_grad_scaler_and_autocast_with_a_gpu(cupy: TwoGpus) -> None:
    assert rg.cuda.amp.GradScaler().is_enabled()
    with pytest.warns(UserWarning, match=r"computes in the dtypes of its tensors"):
        rg.autocast("cuda")
