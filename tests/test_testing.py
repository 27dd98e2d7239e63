"""``assert_close`` accepts what torch's accepts; ``make_tensor`` draws from the same intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def verdict(m: Any, *args: Any, **kwargs: Any) -> str:
    try:
        m.testing.assert_close(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "close"


@parity
def test_assert_close_agrees_with_torch(m: Any) -> Any:
    x = m.tensor([1.0, 2.0])
    nan = m.tensor([float("nan")])
    pairs = [
        (x, x),
        (x, x + 1e-6),
        (x, x + 1e-3),
        (x, x.double()),
        (x, x[:1]),
        (x, x.reshape(1, 2)),
        (x.double(), x.double() + 1e-8),
        (x.double(), x.double() + 1e-6),
        (x.half(), x.half() + 1e-3),
        (x.long(), x.long()),
        (x.long(), x.long() + 1),
        (x > 1, x > 1),
        (x > 1, x > 2),
        (nan, nan),
        (x * float("inf"), x * float("inf")),
        (x * float("inf"), x),
        (m.complex(x, x), m.complex(x, x + 1e-6)),
        (m.complex(x, x), m.complex(x, -x)),
        (m.zeros(0), m.zeros(0)),
        (1.0, 1.0 + 1e-9),
        (1.0, 1.0 + 1e-6),
        (1.0, 1.1),
        (1, 1.0),
        (1j, 1j + 1e-6),
        (np.float64(1), 1.0),
        (True, False),
        (float("nan"), float("nan")),
        ("a", "a"),
        (1, "a"),
        (x, 1.0),
        (m.tensor(1.0), 1.0),
        (x, [1.0, 2.0]),
        ([x], {"a": x}),
        ([1, 2], (1, 2)),
        (1, 1),
        (1, 2),
        (True, True),
        (None, None),
        (None, x),
        ([x, 1.0], [x, 1.0]),
        ([x, x], [x]),
        ({"a": x, "b": [x]}, {"b": [x], "a": x}),
        ({"a": x}, {"b": x}),
        ({"a": [x, x]}, {"a": [x, x + 1]}),
        (np.ones(2), np.ones(2)),
        (m.nn.Parameter(x), x),
    ]
    return [verdict(m, *pair) for pair in pairs]


@parity
def test_assert_close_options_agree_with_torch(m: Any) -> Any:
    x, nan = m.tensor([1.0, 2.0]), m.tensor([float("nan"), 1.0])
    return [
        verdict(m, x, x + 0.1, rtol=0.0, atol=0.2),
        verdict(m, x, x + 0.1, rtol=0.2, atol=0.0),
        verdict(m, x, x, rtol=0.2),
        verdict(m, nan, nan, equal_nan=True),
        verdict(m, x, x.double(), check_dtype=False),
        verdict(m, x.long(), x, check_dtype=False),
        verdict(m, 1, 1.0, check_dtype=False),
        verdict(m, 1, 3, rtol=0.0, atol=2.0),
        verdict(m, m.ones(2, 3), m.ones(3, 2).t(), check_stride=True),
        verdict(m, m.ones(2, 3), m.ones(3, 2).t()),
    ]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda m: m.testing.assert_close(m.tensor([1.0, 2.0, 3.0]), m.tensor([1.0, 2.5, 3.75])),
        lambda m: m.testing.assert_close(m.tensor([[1.0, 2.0]]), m.tensor([[1.0, 2.5]]), rtol=0.0, atol=0.0),
        lambda m: m.testing.assert_close(m.tensor([1, 2]), m.tensor([1, 4])),
        lambda m: m.testing.assert_close([m.ones(1), m.ones(1)], [m.ones(1), m.zeros(1)]),
        lambda m: m.testing.assert_close(1.5, 2.0),
        lambda m: m.testing.assert_close(1, 2),
        lambda m: m.testing.assert_close(1, 2.0),
        lambda m: m.testing.assert_close(True, False),
        lambda m: m.testing.assert_close("a", 1),
        lambda m: m.testing.assert_close(m.ones(1), m.zeros(1), msg="mine"),
        lambda m: m.testing.assert_close(m.ones(1), m.zeros(1), msg=lambda text: f"mine: {text}"),
    ],
)
def test_assert_close_messages_equal_those_of_torch(mistake: Any) -> None:
    import torch

    assert message(lambda: mistake(rg)) == message(lambda: mistake(torch))


@pytest.mark.parametrize("tolerances", [{"rtol": -1e-3, "atol": 0.0}, {"rtol": 0.0, "atol": float("nan")}])
def test_assert_close_refuses_invalid_tolerances(tolerances: dict[str, float]) -> None:
    wrong = next(name for name, value in tolerances.items() if value != 0)
    with pytest.raises(ValueError, match=f"{wrong} must be a non-negative number, but got {tolerances[wrong]}"):
        rg.testing.assert_close(1.0, 1.0, **tolerances)


# --- make_tensor ------------------------------------------------------------------------------------------------------

DTYPES = (
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
)


def make(m: Any, *shape: Any, dtype: str = "float32", **options: Any) -> Any:
    return m.testing.make_tensor(*shape, dtype=getattr(m, dtype), device="cpu", **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lib", [torch, rg])
def test_make_tensor_stays_within_its_bounds(lib: Any, dtype: str) -> None:
    for low, high in [(None, None), (-3, None), (None, 5), (0.5, 2.5), (1, 2), (-1e40, 1e40), (-float("inf"), 1)]:
        x = make(lib, 2000, dtype=dtype, low=low, high=high)
        assert str(x.dtype).endswith(dtype)
        array = x.numpy()
        if array.dtype.kind == "c":
            array = array.view(array.real.dtype)
        is_floating, is_unsigned = array.dtype.kind == "f", dtype in ("bool", "uint8")
        first = (0 if is_unsigned else -9) if low is None else low
        end = (2 if dtype == "bool" else 9 if is_floating else 10) if high is None else high
        assert np.isfinite(array).all()
        assert float(array.min()) >= first
        assert float(array.max()) < end or (float(array.max()) == end and is_floating)  # rounded
        if is_floating and end - first < 100:
            assert array.min() - first < (end - first) / 20
            assert end - array.max() < (end - first) / 20
        elif not is_floating and end - first < 20:
            inside = range(max(int(np.ceil(first)), 0 if is_unsigned else -20), int(np.ceil(end)))
            assert {int(value) for value in array} == {value for value in inside if dtype != "bool" or value < 2}


@parity
def test_make_tensor_shapes_and_layouts_match_torch(m: Any) -> Any:
    forms = [
        make(m, 2, 3),
        make(m, (2, 3)),
        make(m, [2, 3], dtype="int64"),
        make(m),
        make(m, ()),
        make(m, 2, 0, 3),
        make(m, m.Size([4])),
        make(m, 2, 3, noncontiguous=True),
        make(m, 1, noncontiguous=True),
        make(m, (), noncontiguous=True),
        make(m, 2, 3, dtype="bool", noncontiguous=True),
        make(m, 3, dtype="complex64", requires_grad=True),
        make(m, 3, 2, dtype="float16", requires_grad=True, noncontiguous=True),
        make(m, 3, memory_format=m.contiguous_format),
    ]
    return [(x.shape, x.dtype, x.requires_grad, x.is_leaf, x.stride() if x.numel() else ()) for x in forms]


@parity
def test_make_tensor_can_exclude_zeros(m: Any) -> Any:
    zeros = [make(m, 3, dtype=dtype, low=0, high=0, exclude_zero=True) for dtype in ("float32", "float64", "complex64")]
    return zeros, [make(m, 200, dtype=dtype, low=0, high=2, exclude_zero=True) for dtype in ("int64", "bool", "uint8")]


test_make_tensor_can_exclude_zeros = pytest.mark.filterwarnings("ignore::FutureWarning")(
    test_make_tensor_can_exclude_zeros
)


@parity
def test_invalid_make_tensor_arguments_raise(m: Any) -> Any:
    return [
        attempt(lambda: make(m, 3, low=4, high=3)),
        attempt(lambda: make(m, 3, dtype="int64", low=3, high=3)),
        attempt(lambda: make(m, 3, low=50)),
        attempt(lambda: make(m, 3, low=float("nan"))),
        attempt(lambda: make(m, 3, low=1j)),
        attempt(lambda: make(m, 3, dtype="uint8", low=300, high=400)),
        attempt(lambda: make(m, 3, dtype="int64", requires_grad=True)),
        attempt(lambda: make(m, 3, noncontiguous=True, memory_format=m.contiguous_format)),
        attempt(lambda: make(m, -1)),
        attempt(lambda: make(m, 2.5)),
        attempt(lambda: m.testing.make_tensor(3, dtype=3, device="cpu")),
        attempt(lambda: m.testing.make_tensor(3, dtype=m.float32)),
        attempt(lambda: m.testing.make_tensor(3, device="cpu")),
    ]
