"""A training step makes few calls to the GPU, whatever the batch size, and copies nothing to or from it.

These tests run on :mod:`tests.strict_cupy`, which counts calls; :mod:`tests.test_on_gpu` checks the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.blocks import ON_GPU, block_size, threads_for
from retrograd.gpu import put_within, take_within
from retrograd.gpu.fused import one_kernel
from retrograd.nn import functional as F
from tests.strict_cupy import ElementwiseKernel
from tests.strict_cupy.counting import COPY_IN, COPY_OUT, KERNEL, VIEW, Call, counted, totals
from tests.test_on_gpu import cupy as cupy

pytestmark = pytest.mark.skipif(rg.cuda.is_available(), reason="counts on the stand-in")


def training(model: Any, x: Any, loss: Callable[[Any], Any], optimizer: Any = rg.optim.SGD) -> Callable[[], None]:
    model = model.to("cuda")
    chosen = optimizer(model.parameters(), lr=0.01)

    def step() -> None:
        chosen.zero_grad()
        loss(model(x)).backward()
        chosen.step()

    return step


def counts_of(step: Callable[[], Any]) -> Counter[Call]:
    """Return the counts of the third step; earlier ones create things only once."""
    step()
    step()
    with counted() as counts:
        step()
    return counts


def squares(y: Any) -> Any:
    return (y**2).mean()


def perceptron(batch: int) -> Callable[[], None]:
    target = rg.randint(0, 5, (batch,), device="cuda")
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
    return training(model, rg.randn(batch, 8, device="cuda"), lambda y: F.cross_entropy(y, target), rg.optim.Adam)


def convolutions(batch: int) -> Callable[[], None]:
    layers = [
        nn.Conv2d(4, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, stride=2),
        nn.AvgPool2d(2),
    ]
    return training(nn.Sequential(*layers), rg.randn(batch, 4, 20, 20, device="cuda"), squares)


def transformer(batch: int) -> Callable[[], None]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    return training(layer, rg.randn(batch, 64, 32, device="cuda"), squares)


STEPS = [perceptron, convolutions, transformer]


@pytest.mark.parametrize("make", STEPS)
def test_training_step_copies_nothing_to_or_from_the_gpu(make: Callable[[int], Callable[[], None]]) -> None:
    found = totals(counts_of(make(3)))
    assert found[COPY_IN] == 0
    # one number says whether all targets are classes
    assert found[COPY_OUT] == (1 if make is perceptron else 0)


@pytest.mark.parametrize("make", STEPS)
def test_number_of_gpu_calls_does_not_depend_on_the_batch_size(make: Callable[[int], Callable[[], None]]) -> None:
    threads = rg.get_num_threads()
    rg.set_num_threads(4)
    try:
        assert totals(counts_of(make(2))) == totals(counts_of(make(64)))
    finally:
        rg.set_num_threads(threads)


def test_optimizer_step_takes_one_kernel_per_parameter() -> None:
    parameters = [rg.randn(n, device="cuda", requires_grad=True) for n in (3, 5)]
    for optimizer in (rg.optim.Adam(parameters), rg.optim.SGD(parameters)):
        for each in parameters:
            each.grad = rg.ones_like(each)
        assert totals(counts_of(optimizer.step))[KERNEL] == len(parameters)


def test_gpu_arrays_use_one_block_and_one_thread() -> None:
    on_gpu, on_cpu = rg.ones(3, device="cuda")._data, np.ones(3)
    assert (block_size(100, on_cpu), block_size(100, on_gpu)) == (100, ON_GPU)
    assert (threads_for(on_cpu), threads_for(on_gpu)) == (rg.get_num_threads(), 1)


def test_leaves_do_not_share_gradients() -> None:
    """A leaf keeps an array as its gradient only if nothing else refers to it."""
    a, b = (rg.ones(4, device="cuda", requires_grad=True) for _ in range(2))
    g = rg.full((4,), 2.0, device="cuda")
    (a + b).backward(g)
    assert a.grad is not None and b.grad is not None
    a.grad.add_(1)
    assert b.grad.cpu().tolist() == g.cpu().tolist() == [2.0] * 4

    factor = rg.full((4,), 3.0, device="cuda")
    c = rg.ones(4, device="cuda", requires_grad=True)
    c.backward(g)
    assert c.grad is not None
    c.grad.mul_(5)
    d = rg.ones(4, device="cuda", requires_grad=True)
    (d * factor).sum().backward()
    assert d.grad is not None
    d.grad.zero_()
    assert g.cpu().tolist() == [2.0] * 4
    assert factor.cpu().tolist() == [3.0] * 4


def test_take_within_and_put_within_copy_nothing_from_the_gpu() -> None:
    x, places = np.arange(6.0), np.array([4, 0])
    rows = x.reshape(3, 2)
    on_gpu, on_places = (rg.from_numpy(each).to("cuda")._data for each in (x, places))
    with counted() as counts:
        taken = take_within(on_gpu, on_places)
        put_within(on_gpu, on_places, taken + 1)
    assert totals(counts)[COPY_OUT] == 0
    np.testing.assert_array_equal(taken.get(), take_within(x, places))
    put_within(x, places, x[places] + 1)
    np.testing.assert_array_equal(on_gpu.get(), x)
    np.testing.assert_array_equal(take_within(rows, np.array([2, 0])), rows[[2, 0]])


@one_kernel("x * factor + sqrt(shift)")
def _combined(x: Any, factor: Any, shift: float, out: Any = None) -> Any:
    return np.add(np.multiply(x, factor, out=out), np.sqrt(shift), out=out)


def test_fused_function_is_one_kernel() -> None:
    x, factor = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[2], [3]], np.float32)
    expected = _combined(x, factor, 4.0)
    operands = [rg.from_numpy(each).to("cuda")._data for each in (x, factor)]
    out = np.empty_like(operands[0])
    with counted() as counts:
        made = _combined(*operands, 4.0)
        _combined(*operands, 4.0, out)
    assert [call.function for call in counts] == ["combined"] * 2
    assert totals(counts)[KERNEL] == 2
    for found in (made, out):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.get(), expected)


def test_elementwise_kernel_refuses_mixed_dtypes() -> None:
    kernel = ElementwiseKernel("T x", "T y", "y = x")
    single, double = (rg.ones(2, dtype=dtype, device="cuda")._data.array for dtype in (rg.float32, rg.float64))
    with pytest.raises(TypeError, match="mismatched"):
        kernel(single, double)
    with pytest.raises(NotImplementedError):
        ElementwiseKernel("float32 x", "T y", "y = x")


def test_counted_calls_of_the_stand_in() -> None:
    x = rg.ones(2, 3, device="cuda")._data
    with counted() as counts:
        np.exp(x)
        np.add(x, x, out=x)
        x[0] = 1
        x.reshape(3, 2)
        x[:, 1]
        np.empty_like(x)
        x + np.ones((2, 3))
        bool(x.any())
        x.get()
    found = totals(counts)
    assert found == {KERNEL: 5, VIEW: 3, COPY_IN: 1, COPY_OUT: 2}
    assert all(call.caller.startswith("test_gpu_calls.py") for call in counts)


def test_methods_run_on_the_gpu_of_their_array() -> None:
    x = rg.ones(2, 3, device="cuda:1")._data
    for made in (x.T.reshape(6), x.copy(), x.astype(np.float64), x[0], x[0].reshape(3, 1)):
        assert made.device.id == 1
    with pytest.raises(RuntimeError, match="cuda:1 and cuda:0"):
        x + rg.ones(2, 3, device="cuda:0")._data
