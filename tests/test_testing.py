"""``assert_close`` accepts what torch's accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import message, parity


def verdict(m: Any, *args: Any, **kwargs: Any) -> str:
    try:
        m.testing.assert_close(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "close"


@parity
def test_verdicts(m: Any) -> Any:
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
def test_options(m: Any) -> Any:
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
def test_messages(mistake: Any) -> None:
    import torch

    assert message(lambda: mistake(rg)) == message(lambda: mistake(torch))


@pytest.mark.parametrize("tolerances", [{"rtol": -1e-3, "atol": 0.0}, {"rtol": 0.0, "atol": float("nan")}])
def test_tolerances_that_nothing_can_be_within(tolerances: dict[str, float]) -> None:
    wrong = next(name for name, value in tolerances.items() if value != 0)
    with pytest.raises(ValueError, match=f"{wrong} must be a number from 0, but got {tolerances[wrong]}"):
        rg.testing.assert_close(1.0, 1.0, **tolerances)
