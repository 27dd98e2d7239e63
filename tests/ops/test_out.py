"""``out=`` writes, resizes and raises as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

SIX_TO_WRITE_TO = {
    "the right shape": lambda lib: lib.zeros(2, 3),
    "transposed": lambda lib: lib.zeros(3, 2).t(),
    "empty": lambda lib: lib.empty(0),
    "too small": lambda lib: lib.zeros(3),
    "too large": lambda lib: lib.zeros(4, 3),
    "an empty view": lambda lib: lib.zeros(4)[:0],
    "a view that grows within its base": lambda lib: lib.zeros(9)[2:3],
    "a view that outgrows its base": lambda lib: lib.zeros(4)[2:3],
    "expanded": lambda lib: lib.zeros(3).expand(2, 3),
}

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda lib, out: lib.add(lib.arange(6.0).reshape(2, 3), 1, out=out),
    "exp": lambda lib, out: lib.exp(lib.arange(6.0).reshape(2, 3), out=out),
    "cumsum": lambda lib, out: lib.cumsum(lib.arange(6.0).reshape(2, 3), 0, out=out),
    "cat": lambda lib, out: lib.cat([lib.zeros(1, 3), lib.ones(1, 3)], out=out),
    "matmul": lambda lib, out: lib.matmul(lib.ones(2, 2), lib.arange(6.0).reshape(2, 3), out=out),
}


@pytest.mark.filterwarnings("ignore:.*out:UserWarning")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("target", SIX_TO_WRITE_TO)
def test_out_of_operations(name: str, target: str) -> None:
    @parity
    def compare(lib: Any) -> Any:
        out = SIX_TO_WRITE_TO[target](lib)
        return [attempt(lambda: CALLS[name](lib, out) is out), out]

    compare()


@pytest.mark.filterwarnings("ignore:.*out:UserWarning")
@parity
def test_out_of_another_dtype_and_out_that_is_a_view(lib: Any) -> Any:
    x = lib.arange(6.0).reshape(2, 3)
    base = lib.zeros(9)
    lib.add(x, 1, out=base[2:3])
    return [
        base,
        lib.add(x, 1, out=lib.zeros(2, 3, dtype=lib.float64)),
        lib.add(x, 1, out=lib.zeros(3, dtype=lib.float64)),
        attempt(lambda: lib.add(x, 1, out=lib.zeros(2, 3, dtype=lib.int64))),
        attempt(lambda: lib.add(x, 1, out=lib.zeros(3, dtype=lib.int64))),
    ]


def test_out_is_resized_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"add\(\): out= has shape \[3\], but the result has shape \[2\].*deprecated"):
        rg.add(rg.ones(2), 1, out=rg.zeros(3))
    rg.add(rg.ones(2), 1, out=rg.empty(0))  # quietly


@pytest.mark.filterwarnings("ignore:.*out:UserWarning")
@parity
def test_creation_functions_with_out(lib: Any) -> Any:
    base = lib.ones(6)
    return [
        lib.zeros(3, out=lib.ones(2)),
        lib.zeros(4, out=base[1:3]),
        base,
        lib.arange(5, out=lib.zeros(2, dtype=lib.int64)),
        lib.linspace(0, 1, 3, out=lib.ones(6)[1:3]),
        lib.eye(2, out=lib.ones(3)),
        attempt(lambda: lib.rand(2, out=lib.ones(1).expand(2))),
    ]


@pytest.mark.filterwarnings("ignore:.*out:UserWarning")
@parity
def test_out_of_several_results(lib: Any) -> Any:
    x = lib.tensor([3.0, 1.0, 2.0])
    out = lib.zeros(3), lib.zeros(2, dtype=lib.int64)
    result = lib.sort(x, out=out)
    return [
        result.values is out[0],
        result.indices is out[1],
        *out,
        attempt(lambda: lib.sort(x, out=lib.zeros(3))),
        attempt(lambda: lib.sort(x, out=(lib.zeros(3),))),
        attempt(lambda: lib.aminmax(x, out=lib.zeros(()))),
    ]


REDUCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    name: lambda lib, x, out, name=name: getattr(lib, name)(x, 0, out=out)  # type: ignore[misc]
    for name in ("sum", "mean", "nansum", "nanmean", "prod", "cumsum", "cumprod")
}


@pytest.mark.filterwarnings("ignore:.*discards the imaginary part:UserWarning")
@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "float64"), ("float64", "float32"), ("int32", "int32"), ("int64", "int32"), ("bool", "int16")],
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_dtype_of_out_is_the_dtype_of_computation(name: str, source: str, target: str) -> None:
    def computed(lib: Any) -> Any:
        values = [0.1, 0.2, 0.7] if source.startswith("float") else [2**30, 2**30, 7]
        x = lib.tensor(values, dtype=lib.float64).to(getattr(lib, source))
        out = lib.zeros((3,) if name.startswith("cum") else (), dtype=getattr(lib, target))
        return attempt(lambda: REDUCTIONS[name](lib, x, out).tolist())

    assert computed(rg) == computed(torch)


@parity
def test_dtype_that_differs_from_out_is_refused(lib: Any) -> Any:
    out = lib.zeros(())
    return [
        attempt(lambda: lib.sum(lib.ones(3), 0, dtype=lib.float64, out=out)),
        lib.sum(lib.ones(3, dtype=lib.float64), 0, dtype=lib.float32, out=out),
    ]


@parity
def test_numbers_wrap_around_in_out(lib: Any) -> Any:
    return lib.add(lib.tensor(2**40), 1, out=lib.tensor(0, dtype=lib.int32))
