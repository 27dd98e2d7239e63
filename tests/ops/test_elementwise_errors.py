"""Errors of elementwise operations: torch's exception classes, and messages that name the operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg


def tensors(library: Any) -> dict[str, Any]:
    """Return the operands that the cases below name."""
    return {
        "rg": library,
        "f": library.tensor([1.0, 2.0]),
        "f3": library.tensor([1.0, 2.0, 3.0]),
        "g": library.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "d": library.tensor([1.0, 2.0], dtype=library.float64),
        "i": library.tensor([1, 2]),
        "z": library.tensor([1, 0]),
        "b": library.tensor([True, False]),
        "c": library.tensor([1j, 2.0]),
    }


CASES = [
    # shapes
    ("add", "f + f3"),
    ("mul", "rg.mul(g, f3)"),
    ("pow", "f ** f3"),
    ("where", "rg.where(b, f, f3)"),
    ("lerp", "rg.lerp(f, f3, 0.5)"),
    ("maximum", "rg.maximum(f, f3)"),
    ("clamp", "rg.clamp(f, f3, f3)"),
    ("eq", "f == f3"),
    ("atan2", "rg.atan2(f, f3)"),
    ("complex", "rg.complex(f, f3)"),
    ("add_", "f.add_(g)"),
    ("mul_", "f.mul_(f3)"),
    # alpha
    ("add", "rg.add(f, f, alpha=True)"),
    ("add", "rg.add(i, i, alpha=1.0)"),
    ("add", "f.add_(f, alpha=1 + 0j)"),
    ("sub", "rg.sub(i, i, alpha=1.0)"),
    ("sub", "f.sub_(f, alpha=False)"),
    ("sub", "rg.rsub(f, f, alpha=True)"),
    # not a tensor
    ("add", "rg.add(f, 'a')"),
    ("add", "rg.add(f, None)"),
    ("mul", "rg.mul(f, [1, 2])"),
    ("exp", "rg.exp(2.0)"),
    ("exp", "rg.exp([1.0])"),
    ("square", "rg.square('a')"),
    ("pow", "rg.pow(2, 3)"),
    ("float_power", "rg.float_power(1, 2)"),
    ("lt", "rg.lt(f, None)"),
    ("clamp", "rg.clamp(f, 'a')"),
    ("equal", "rg.equal(f, 1.0)"),
    ("isclose", "rg.isclose(f, 1.0)"),
    ("where", "rg.where(True, f, f)"),
    # missing and unexpected arguments
    ("abs", "rg.abs()"),
    ("add", "rg.add(f)"),
    ("sub", "rg.sub(f, 1, beta=2)"),
    ("exp", "rg.exp(f, foo=1)"),
    ("lerp", "rg.lerp(f, f)"),
    ("clamp", "rg.clamp(f, lowest=1)"),
    ("round", "rg.round(f, digits=2)"),
    # dtypes without the operation
    *((name, f"rg.{name}(b)") for name in ("ceil", "floor", "trunc", "round", "frac", "neg", "positive")),
    *((name, f"rg.{name}(c)") for name in ("ceil", "floor", "trunc", "round", "frac", "sign", "signbit")),
    *((name, f"rg.{name}(c)") for name in ("isposinf", "isneginf", "deg2rad", "rad2deg", "frexp")),
    *((name, f"rg.{name}(i)") for name in ("frac", "frexp", "imag", "view_as_real", "view_as_complex")),
    *((name, f"rg.{name}(c, c)") for name in ("lt", "le", "gt", "ge", "maximum", "minimum", "fmax", "fmin", "atan2")),
    *((name, f"rg.{name}(c, c)") for name in ("remainder", "fmod", "floor_divide", "copysign", "hypot", "heaviside")),
    *((name, f"rg.{name}(i, i)") for name in ("hypot", "logaddexp", "logaddexp2", "nextafter", "polar", "complex")),
    *((name, f"rg.{name}(b, b)") for name in ("sub", "floor_divide", "remainder", "fmod", "pow", "gcd", "lcm")),
    *((name, f"rg.bitwise_{name}(f, f)") for name in ("and", "or", "xor", "left_shift", "right_shift")),
    *((name, f"rg.bitwise_{name}(b, b)") for name in ("left_shift", "right_shift")),
    ("bitwise_not", "rg.bitwise_not(f)"),
    ("invert", "~f"),
    ("bitwise_and", "f & 1"),
    ("bitwise_left_shift", "f << 1"),
    ("gcd", "rg.gcd(f, f)"),
    ("lt", "c < 1"),
    ("lt", "f < 1j"),
    ("clamp", "rg.clamp(c, 0)"),
    ("lerp", "rg.lerp(i, i, 1)"),
    ("addcmul", "rg.addcmul(b, b, b)"),
    ("addcdiv", "rg.addcdiv(i, i, i)"),
    ("logaddexp2", "rg.logaddexp2(c, c)"),
    # incompatible dtypes
    ("heaviside", "rg.heaviside(i, f)"),
    ("isclose", "rg.isclose(f, d)"),
    ("allclose|isclose", "rg.allclose(f, d)"),
    ("polar", "rg.polar(f, d)"),
    ("complex", "rg.complex(f, d)"),
    ("where", "rg.where(f, f, f)"),
    # integers divided by zero
    ("floor_divide", "i // 0"),
    ("floor_divide", "i // z"),
    ("remainder", "i % 0"),
    ("remainder", "i % z"),
    ("fmod", "rg.fmod(i, 0)"),
    ("div", "rg.div(i, 0, rounding_mode='floor')"),
    ("div", "rg.div(i, z, rounding_mode='trunc')"),
    # results that do not fit
    ("Long|int64", "i.add_(0.5)"),
    ("Long|int64", "i.div_(2)"),
    ("Long|int64", "i.pow_(0.5)"),
    ("long|int64", "i.clamp_(min=0.5)"),
    ("Long|int64", "i.exp_()"),
    ("Float|float32", "f.mul_(1j)"),
    ("abs", "c.abs_()"),
    ("float_power", "f.float_power_(2)"),
    # values of arguments
    ("pow", "i ** -1"),
    ("pow", "i.pow_(-1)"),
    ("negative integer powers", "i.to(rg.uint8) ** -1"),
    ("add", "rg.add(i, i, alpha=0.5)"),
    ("add", "rg.add(f, f, alpha=1j)"),
    ("sub", "rg.sub(i, i, alpha=0.5)"),
    ("add", "i.add_(i, alpha=0.5)"),
    ("div", "rg.div(f, f, rounding_mode='round')"),
    ("div", "f.div_(f, rounding_mode='up')"),
    ("clamp", "rg.clamp(f, None, None)"),
    ("isclose", "rg.isclose(f, f, rtol=-1.0)"),
    ("isclose", "rg.isclose(f, f, atol=-1.0)"),
    ("is_nonzero|Boolean", "rg.is_nonzero(f)"),
    ("view_as_complex", "rg.view_as_complex(f3)"),
    ("view_as_complex", "rg.view_as_complex(rg.tensor(1.0))"),
    ("view_as_complex", "rg.view_as_complex(g.T)"),
    ("view_as_complex", "rg.view_as_complex(rg.ones(3, 5)[:, :2])"),
    # Python's own messages
    (r"\+", "f + None"),
    (r"\+", "f + [1, 2]"),
    ("<", "f < None"),
    ("round", "round(f)"),
    # gradients that do not exist
    ("floor_divide", "rg.autograd.grad((f.requires_grad_() // 2).sum(), f)"),
    ("heaviside", "rg.autograd.grad(rg.heaviside(f.requires_grad_(), f).sum(), f)"),
]


@pytest.mark.parametrize(("words", "expression"), CASES, ids=[expression for _, expression in CASES])
def test_wrong_elementwise_calls_are_refused_as_in_torch(words: str, expression: str) -> None:
    """The exception has torch's class or a subclass of it, and names the operation."""
    theirs = outcome(lambda: eval(expression, tensors(torch) | {"rg": torch}))
    assert theirs is not None, "torch accepts this"
    with pytest.raises(type(theirs), match=f"(?i){words.rstrip('_')}"):
        eval(expression, tensors(rg))


def outcome(function: Callable[[], Any]) -> Exception | None:
    try:
        function()
    except Exception as error:
        return error
    return None


LIMITS = {
    "clamp": lambda library, x, number: library.clamp(x, 0, number),
    "clamp_min": lambda library, x, number: library.clamp_min(x, number),
    "clamp_max": lambda library, x, number: library.clamp_max(x, number),
    "clamp_": lambda library, x, number: x.clamp_(max=number),
    "where": lambda library, x, number: library.where(x > 0, x, number),
    "where()": lambda library, x, number: library.where(x > 0, number, x),
    "hardtanh": lambda library, x, number: library.nn.functional.hardtanh(x, 0, number),
    "threshold": lambda library, x, number: library.nn.functional.threshold(x, 0, number),
    "add": lambda library, x, number: x + number,
    "ge": lambda library, x, number: x >= number,
    "pow": lambda library, x, number: x**number,
    "pow_": lambda library, x, number: x.pow_(number),
    "rpow": lambda library, x, number: number**x,
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("number", [100, 300, 2**31, -1, 1.5, 1e30])
def test_scalar_arguments_that_do_not_fit_the_dtype(name: str, dtype: str, number: float) -> None:
    """They are refused where torch refuses them and wrap around elsewhere."""

    def result(library: Any) -> Any:
        try:
            made = LIMITS[name](library, library.tensor([1, 0, 1], dtype=getattr(library, dtype)), number)
        except (RuntimeError, ValueError):  # for limits in the wrong order, torch raises its only ValueError here
            return "refused"
        return str(made.dtype).rpartition(".")[2], made.tolist()

    with np.errstate(invalid="ignore"):
        assert result(rg) == result(torch)


def test_elementwise_errors_say_what_is_accepted() -> None:
    with pytest.raises(NotImplementedError, match=r'"floor" not implemented for \'complex64\', only for integers'):
        rg.floor(rg.tensor([1j]))
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
        rg.tensor([1.0, 2.0]) * rg.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="'trunc', or 'floor' but found 'up'"):
        rg.div(rg.tensor(1.0), 2, rounding_mode="up")
    with pytest.raises(RuntimeError, match="float_power"):
        rg.tensor([1.0]).float_power_(2)


def test_numpy_functions_refuse_unsupported_arguments() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    for function in (np.add, np.exp, np.maximum, np.power):
        arguments = (x, x)[: function.nin]
        with pytest.raises(TypeError, match="where"):
            function(*arguments, where=np.array([True, False]))
        with pytest.raises(TypeError, match="ndarray"):
            function(*arguments, out=np.zeros(2))
    with pytest.raises(TypeError, match="isnat"):
        np.isnat(x)


def test_broadcasting_error_of_numpy_is_followed_by_the_operands() -> None:
    with pytest.raises(RuntimeError, match=r"powers are not allowed; operands: int64\[1\], int64\[\]$"):
        rg.pow(rg.tensor([2]), rg.tensor(-1))
