"""Operations do not warn about overflow and division by zero, as in torch, wherever in NumPy they happen."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, Sample, differentiable, to_ours
from tests.ops.table import ROWS

AWKWARD = {"zero": 0.0, "infinite": np.inf, "nan": np.nan, "huge": 1e38, "tiny": 1e-45, "negative": -1.0}


def awkward(value: Any, number: float) -> Any:
    """Put ``number`` into every other place of every array."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        value = value.copy()
        value.flat[::2] = number
    elif isinstance(value, (list, tuple)):
        value = type(value)(awkward(item, number) for item in value)
    return value


def differentiate_twice(row: Row, sample: Sample) -> None:
    bound = Bound(row, sample, to_ours, rg, True)
    outputs = differentiable(bound.run(row.function))
    if not outputs or not bound.leaves:
        return
    ones = [rg.ones_like(output) for output in outputs]
    rg.autograd.grad(outputs, bound.leaves, ones, retain_graph=True, allow_unused=True)
    grads = rg.autograd.grad(outputs, bound.leaves, ones, create_graph=True, allow_unused=True)
    grads = [grad for grad in grads if grad is not None and grad.requires_grad]
    if grads and row.second:
        rg.autograd.grad(grads, bound.leaves, [rg.ones_like(grad) for grad in grads], allow_unused=True)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_operations_do_not_warn_about_awkward_numbers(row: Row, capfd: pytest.CaptureFixture[str]) -> None:
    dtypes = [dtype for dtype in row.dtypes if dtype in ("float32", "complex64")]
    for dtype in dtypes:
        for sample in list(row.samples(Make(dtype)))[:4]:
            for number in AWKWARD.values():
                odd = Sample(
                    tuple(awkward(value, number) for value in sample.args),
                    {key: awkward(value, number) for key, value in sample.kwargs.items()},
                )
                with warnings.catch_warnings(record=True) as said:
                    # as in a program that shows all warnings
                    warnings.simplefilter("always")
                    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"retrograd\.")
                    # a singular matrix, a refused argument and the like
                    with contextlib.suppress(RuntimeError, ValueError):
                        differentiate_twice(row, odd)
                assert [str(warning) for warning in said if warning.category is RuntimeWarning] == []
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "")


HUGE = 3e38


def test_distances_by_a_matrix_product_do_not_warn() -> None:
    x = rg.full((26, 2), 1.5e19, requires_grad=True)  # the squares are finite, but their sums are not
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"retrograd\.")
        rg.cdist(x, -x).sum().backward()
    assert [str(warning) for warning in said] == []


BORN = {
    "linalg_cross": (lambda x: rg.linalg.cross(x, x.flip(0)), [HUGE, 1.0, 1.0]),
    "linalg_vecdot": (lambda x: rg.linalg.vecdot(x, x), [HUGE, HUGE]),
    "fft_fft": (lambda x: rg.fft.fft(x).abs(), [HUGE, HUGE]),
    "trace": (lambda x: rg.trace(x.expand(2, 2)), [HUGE, HUGE]),
    "linalg_det": (lambda x: rg.linalg.det(rg.diag(x)), [HUGE, HUGE]),
    "mul": (lambda x: x.half() * 1e5, [1.0, 0.0]),
    "add": (lambda x: rg.add(x.half(), x.half(), alpha=1e5), [1.0, 0.0]),
}


@pytest.mark.parametrize("name", BORN)
def test_watch_still_sees_births_of_quiet_operations(name: str) -> None:
    function, values = BORN[name]
    x = rg.tensor(values, requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        function(x).sum().backward()
    assert [event.op for event in watch.events] == [name]
    assert watch.events[0].filename == __file__
