"""Elementwise operations beyond the table of rows: operators, aliases, NumPy functions, large tensors."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import assert_same

ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "clip": "clamp", "divide": "div", "fix": "trunc", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "subtract": "sub",
}  # fmt: skip

UPPER = "max" if "max" in inspect.signature(np.clip).parameters else "a_max"  # the only name until NumPy 2.0


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_are_the_same_function(alias: str, name: str) -> None:
    assert getattr(rg, alias) is getattr(rg, name)
    assert getattr(rg.Tensor, alias) is getattr(rg.Tensor, name)
    assert hasattr(rg.Tensor, f"{alias}_") == hasattr(torch.Tensor, f"{alias}_")


def names() -> list[str]:
    modules = ("arithmetic", "exponential", "trigonometric", "comparison", "rounding", "conditional", "complex")
    return sorted(
        name
        for name, value in vars(rg).items()
        if getattr(value, "__module__", "") in {f"retrograd.ops.{module}" for module in modules}
    )


@pytest.mark.parametrize("name", names())
def test_operations_have_the_same_forms_as_in_torch(name: str) -> None:
    """A function has a method and an in-place form exactly if torch's has."""
    extra = {"conjugate"}  # NumPy's name
    if name not in extra:
        assert hasattr(torch, name)
        assert hasattr(rg.Tensor, name) == hasattr(torch.Tensor, name)
        assert hasattr(rg.Tensor, f"{name}_") == hasattr(torch.Tensor, f"{name}_")


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge")
BITS = ("and_", "or_", "xor", "lshift", "rshift")


@pytest.mark.parametrize("name", (*BINARY, *BITS))
def test_binary_operators(name: str) -> None:
    """With tensors, numbers on either side, ndarrays on either side, and in place."""
    function = getattr(operator, name)
    for dtype in ("int64",) if name in BITS else ("float32", "float64", "int64"):
        a, b = np.array([[5, 2, 7]], dtype), np.array([[1], [3]], dtype)
        for number in (2,) if dtype == "int64" else (2, 1.5):
            assert_same(function(rg.tensor(a), number), function(torch.tensor(a), number))
            assert_same(function(number, rg.tensor(a)), function(number, torch.tensor(a)))
        expected = function(torch.tensor(a), torch.tensor(b))
        assert_same(function(rg.tensor(a), rg.tensor(b)), expected)
        for mixed in (function(rg.tensor(a), b), function(a, rg.tensor(b))):
            assert type(mixed) is rg.Tensor
            assert_same(mixed, expected)
        inplace = getattr(operator, "i" + name.rstrip("_"), None)
        if inplace is not None and not (name == "truediv" and dtype == "int64"):
            target = same = rg.tensor(a)
            target = inplace(target, 2)
            assert target is same
            assert_same(target, function(torch.tensor(a), 2))
            assert target._version == 1


def test_unary_operators() -> None:
    x = rg.tensor([-1.5, 2.0])
    assert_same(-x, torch.tensor([1.5, -2.0]))
    assert_same(abs(x), torch.tensor([1.5, 2.0]))
    assert +x is x
    assert x.positive() is x
    assert_same(~rg.tensor([True, False]), torch.tensor([False, True]))
    assert_same(~rg.tensor([0, 5]), torch.tensor([-1, -6]))


def test_gradients_of_reflected_operators() -> None:
    for function in (
        lambda x: 2 - x,
        lambda x: 2 / x,
        lambda x: 2**x,
        lambda x: 2 + x,
        lambda x: 3 * x,
    ):
        grads = []
        for library in (rg, torch):
            x = library.tensor([1.5, 2.25], requires_grad=True)
            grads.append(library.autograd.grad(function(x).sum(), x)[0])
        assert_same(*grads)


def test_operators_defer_to_foreign_operands() -> None:
    x = rg.tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True

    class Mine:
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert x + Mine() == "mine"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([44], "int8"), 300),
        (np.array([255], "uint8"), -1),
        (np.array([16777217]), 16777217.0),
        (np.array([1], "int8"), 0.5),
        (np.array(1.0, "float32"), 0.1),
        (np.array([0.1], "float32"), 0.1),
    ],
)
def test_operators_with_numbers_that_do_not_fit_the_dtype(a: np.ndarray, b: Any) -> None:
    for function in (operator.add, operator.mul, operator.eq, operator.lt, operator.ge):
        assert_same(function(rg.tensor(a), b), function(torch.tensor(a), b))


def test_where_as_a_method() -> None:
    for library in (rg, torch):
        x = library.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.where(library.tensor([True, False, True]), 0)
        y.sum().backward()
        assert_same(y, torch.tensor([1.0, 0.0, 3.0]))
        assert_same(x.grad, torch.tensor([1.0, 0.0, 1.0]))


def test_where_and_clamp_stop_infinite_gradients() -> None:
    """A masked element gets 0, not 0 * inf, when the incoming gradient is infinite or NaN."""
    x = rg.tensor([0.0, 4.0, -1.0], requires_grad=True)
    rg.where(x > 0, x, 1.0).backward(rg.tensor([np.inf, 1.0, np.nan]))
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    x.grad = None
    x.clamp(1.0, 5.0).backward(rg.tensor([np.inf, 1.0, np.nan]))
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    x.grad = None
    rg.maximum(x, rg.tensor(1.0)).backward(rg.tensor([np.inf, 1.0, np.nan]))
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_masked_gradients_of_every_dtype(dtype: str) -> None:
    x = rg.tensor(np.array([1, 2, 3], dtype), requires_grad=True)
    y = rg.where(rg.tensor([True, False, True]), x, 0)
    g = rg.tensor(np.array([np.inf, np.nan, -0.0], dtype))
    (gx,) = rg.autograd.grad(y, x, g, create_graph=True)
    assert_same(gx, np.array([np.inf, 0, 0], dtype))
    x.grad = None
    y.backward(g)
    assert_same(x.grad, np.array([np.inf, 0, 0], dtype))


def test_elementwise_operations_on_large_tensors() -> None:
    """Large work is split into blocks and threads, along with broadcast and 0-d operands."""
    n = 1 << 19
    x, row, scale = np.linspace(-3, 3, 2 * n).reshape(2, n), np.linspace(1, 2, n), np.array(2.0)
    for function in (
        lambda lib, x, row, scale: x * row + scale,
        lambda lib, x, row, scale: lib.where(x > 0, row, scale * x),
        lambda lib, x, row, scale: lib.clamp(x, -row, scale),
        lambda lib, x, row, scale: lib.maximum(x, row) ** 2,
        lambda lib, x, row, scale: lib.lerp(x, row, scale),
        lambda lib, x, row, scale: lib.addcmul(x, row, scale, value=0.5),
        lambda lib, x, row, scale: lib.atan2(x, row) / scale + x.abs(),
    ):
        results = []
        for library in (rg, torch):
            leaves = [library.tensor(value, requires_grad=True) for value in (x, row, scale)]
            y = function(library, *leaves)
            grads = library.autograd.grad(y.sum(), leaves, allow_unused=True)
            results.append([y, *grads])
        for ours, theirs in zip(*results, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert_same(ours, theirs, 10)


def test_real_and_imag_are_views() -> None:
    x = rg.tensor([1 + 2j, 3 - 1j])
    for part in (x.real, x.imag, rg.real(x), rg.imag(x), rg.view_as_real(x)):
        assert part._is_view()
        assert np.shares_memory(part.numpy(), x.numpy())
    x.real[0] = 5
    x.imag = rg.tensor([7.0, 8.0])
    x.real[1:].mul_(2)
    assert x.tolist() == [5 + 7j, 6 + 8j]
    assert x._version == 3
    y = rg.tensor([1.0])
    assert y.real is y
    assert y.conj() is y
    with pytest.raises(RuntimeError, match="imag"):
        _ = y.imag


@pytest.mark.parametrize("part", ["real", "imag"])
def test_writing_to_real_or_imag_rewrites_history(part: str) -> None:
    grads = []
    for library in (rg, torch):
        z = library.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        scale = library.tensor([2.0, 3.0], requires_grad=True)
        w = z * (1 + 1j)
        getattr(w, part).mul_(scale)
        grads.append(library.autograd.grad((w * w.conj()).real.sum(), (z, scale)))
    for ours, theirs in zip(*grads, strict=True):
        assert_same(ours, theirs)


def test_complex_with_an_infinite_part() -> None:
    """``real + 1j * imag`` would give NaN."""
    re, im = rg.tensor([np.inf, 1.0], requires_grad=True), rg.tensor([1.0, np.inf], requires_grad=True)
    z = rg.complex(re, im)
    assert z.tolist() == [complex(np.inf, 1), complex(1, np.inf)]
    rg.view_as_real(z).backward(rg.tensor([[1.0, np.inf], [np.inf, 2.0]]))
    assert re.grad.tolist() == [1.0, np.inf]
    assert im.grad.tolist() == [np.inf, 2.0]


SAVING = {
    "mul": lambda x, y: x * y,
    "mul by a number": lambda x, y: x * 2,
    "add": lambda x, y: x + y,
    "add scaled": lambda x, y: x.add(y, alpha=2),
    "div": lambda x, y: x / y,
    "reflected div": lambda x, y: y / x,
    "remainder": lambda x, y: x % y,
    "square": lambda x, y: x**2,
    "exponential": lambda x, y: 2**x,
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.log(),
    "sqrt": lambda x, y: x.sqrt(),
    "rsqrt": lambda x, y: x.rsqrt(),
    "reciprocal": lambda x, y: x.reciprocal(),
    "sin": lambda x, y: x.sin(),
    "tan": lambda x, y: x.tan(),
    "tanh": lambda x, y: x.tanh(),
    "abs": lambda x, y: x.abs(),
    "floor": lambda x, y: x.floor(),
    "maximum": lambda x, y: x.maximum(y),
    "clamp": lambda x, y: x.clamp(0, 2),
    "lerp": lambda x, y: x.lerp(y, 0.5),
    "addcmul": lambda x, y: x.addcmul(y, y),
    "addcmul, factors": lambda x, y: y.addcmul(x, y),
    "atan2": lambda x, y: x.atan2(y),
    "hypot": lambda x, y: x.hypot(y),
}


@pytest.mark.parametrize("written", ["input", "other", "result"])
@pytest.mark.parametrize("name", SAVING)
def test_operations_save_the_same_tensors_as_torch(name: str, written: str) -> None:
    """Writing to a tensor is an error only if a rule that will run needs it."""
    outcomes = []
    for library in (rg, torch):
        leaf = library.tensor([1.5, 2.5], requires_grad=True)
        x, y = leaf * 1, library.tensor([2.0, 3.0])
        z = SAVING[name](x, y)
        {"input": x, "other": y, "result": z}[written].mul_(1)
        try:
            library.autograd.grad(z.sum(), leaf)
            outcomes.append("fine")
        except RuntimeError as error:
            outcomes.append("modified" if "modified by an inplace operation" in str(error) else str(error))
    assert outcomes[0] == outcomes[1]


NUMPY_ONLY = [
    (np.cbrt, ([-8.0, 2.0],)),
    (np.fabs, ([-8.0, 2.0],)),
    (np.positive, ([-8.0, 2.0],)),
    (np.sign, ([-8.0, 0.0, np.nan],)),
    (np.spacing, ([1.0, 1e10],)),
    (np.rint, ([0.5, 1.7],)),
    (np.fix, ([0.5, -1.7],)),
    (np.round, ([0.55, -1.77], 1)),
    (np.modf, ([0.5, -1.7, np.inf, -np.inf, np.nan],)),
    (np.divmod, ([7.0, -7.0], [3.0, 3.0])),
    (np.floor_divide, ([7.0, -7.0], [3.0, 3.0])),
    (np.unwrap, ([0.0, 3.0, 7.0, -5.0],)),
    (np.angle, ([1.0 + 1j, -1.0],)),
    (np.real, ([1.0 + 1j, -1.0],)),
    (np.real, ([1.0, -1.0],)),
    (np.imag, ([1.0, -1.0],)),
    (np.imag, ([1.0 + 1j, -1.0],)),
    (np.real_if_close, ([1.0 + 1e-16j, -1.0],)),
    (np.real_if_close, ([1.0 + 1j, -1.0],)),
    (np.conjugate, ([1.0 + 1j, -1.0],)),
    (np.iscomplex, ([1.0 + 1j, -1.0],)),
    (np.isreal, ([1.0 + 1j, -1.0],)),
    (np.bitwise_count, ([7, 8],)),
    (np.float_power, ([2.0, 3.0], 2)),
    (np.ldexp, ([2.0, 3.0], [1, -1])),
    (np.hypot, ([3.0], [4.0])),
    (np.isclose, ([1.0, 2.0], [1.0 + 1e-9, 3.0])),
    (np.clip, ([1.0, 2.0, 3.0], 1.5, 2.5)),
    (np.clip, ([1.0, 2.0, 3.0], None, 2.5)),
    (np.where, ([1, 0, 2], [1.0, 2.0, 3.0], 0.0)),
    (np.nan_to_num, ([np.nan, np.inf, 1.0],)),
    (np.heaviside, ([-1.0, 0.0, 2.0], [0.5])),
]


@pytest.mark.parametrize(("function", "args"), NUMPY_ONLY, ids=[function.__name__ for function, _ in NUMPY_ONLY])
def test_numpy_functions_return_numpys_values_as_tensors(function: Any, args: tuple[Any, ...]) -> None:
    """For functions that only NumPy has."""
    arrays = [np.array(value) if isinstance(value, list) else value for value in args]
    tensors = [rg.tensor(value) if isinstance(value, np.ndarray) else value for value in arrays]
    got, expected = function(*tensors), function(*arrays)
    for a, b in zip(*((value if isinstance(value, tuple) else (value,)) for value in (got, expected)), strict=True):
        assert type(a) is rg.Tensor
        assert_same(a, b, check_dtype=function is not np.bitwise_count)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (np.cbrt, lambda x: x ** (-2 / 3) / 3),
        (np.fabs, np.sign),
        (np.positive, np.ones_like),
        (np.spacing, np.zeros_like),
        (np.rint, np.zeros_like),
        (lambda x: np.modf(x)[0], np.ones_like),
        (lambda x: np.divmod(x, 0.7)[1], np.ones_like),
        (lambda x: np.floor_divide(x, 0.7), np.zeros_like),
        (np.unwrap, np.ones_like),
        (lambda x: np.clip(x, 1.0, **{UPPER: 2.0}), lambda x: (x >= 1) * (x <= 2) * 1.0),
        (lambda x: np.where([True, False, True], x, 2 * x), lambda x: np.array([1.0, 2.0, 1.0])),
    ],
)
def test_gradients_of_numpy_functions(function: Any, slope: Any) -> None:
    x = np.array([0.3, 1.2, 2.9])
    leaf = rg.tensor(x, requires_grad=True)
    function(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), slope(x))


def test_numpy_predicates_agree_with_numpy() -> None:
    x, z = rg.tensor([1.0, 2.0]), rg.tensor([1j])
    assert np.iscomplexobj(z) is True
    assert np.iscomplexobj(x) is False
    assert np.isrealobj(x) is True
    assert np.allclose(x, [1.0, 2.0 + 1e-9]) is True
    assert np.array_equal(x, x) is True
    assert np.array_equal(x, np.array([1.0, 3.0])) is False
    assert np.array_equiv(x, rg.tensor([[1.0, 2.0]])) is True


def test_every_ufunc_has_a_rule_or_a_reason_for_none() -> None:
    from retrograd.core.numpy_protocols import refused
    from retrograd.core.registry import numpy_functions

    ufuncs = {getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    assert {ufunc.__name__ for ufunc in ufuncs - set(numpy_functions) - set(refused)} == set()


def test_comparisons_are_elementwise_and_hashing_by_identity() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    assert not (x > 1).requires_grad
    assert not x.isnan().requires_grad
    assert len({x, x, rg.tensor([1.0, 2.0])}) == 2


def test_square_and_float_power_of_other_dtypes() -> None:
    x = rg.tensor([2.0, 3.0], dtype=rg.float64)
    assert_same(x.float_power_(2), torch.tensor([4.0, 9.0], dtype=torch.float64))
    assert rg.tensor([True]).square().dtype is rg.int64


def test_alpha_and_rounding_mode_in_place() -> None:
    results = []
    for library in (rg, torch):
        x, y = library.tensor([1.0, 2.0], requires_grad=True), library.tensor([3.0, 5.0], requires_grad=True)
        z = (x * 1).add_(y, alpha=2).sub_(y, alpha=0.5).div_(y).add_(1)
        results.append([z, *library.autograd.grad(z.sum(), (x, y))])
        results[-1].append((x * 7).div_(y, rounding_mode="trunc"))
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours, theirs)


def test_elementwise_functions_write_into_out() -> None:
    x = rg.tensor([1.0, 2.0])
    out = rg.zeros(2)
    assert rg.add(x, x, alpha=3, out=out) is out
    assert out.tolist() == [4.0, 8.0]
    for function in (rg.mul, rg.div, rg.sub, rg.maximum, rg.pow):
        assert function(x, x, out=out) is out
        assert_same(out, function(x, x))
    assert rg.eq(x, x, out=rg.zeros(2, dtype=rg.bool)).tolist() == [True, True]


def test_derivatives_of_sinc_near_zero() -> None:
    """The series of sin(πx)/(πx) is 1 - (πx)²/6 + (πx)⁴/120 - ...; torch's second derivative at 0 is 0."""
    slope = rg.func.grad(rg.sinc)
    for x in (0.0, 1e-12, -1e-7, 1e-3):
        expected = -((np.pi * x) ** 2) / 3 * (1 - (np.pi * x) ** 2 / 10)
        np.testing.assert_allclose(x * slope(np.float64(x)).numpy(), expected, rtol=1e-9)
    for x in (0.0, 1e-7, -1e-5):
        second = rg.func.grad(slope)
        np.testing.assert_allclose(second(np.float64(x)).numpy(), -(np.pi**2) / 3, rtol=1e-8)
        np.testing.assert_allclose(rg.func.jacfwd(slope)(np.float64(x)).numpy(), -(np.pi**2) / 3, rtol=1e-8)
        np.testing.assert_allclose(rg.func.grad(rg.func.grad(second))(np.float64(x)).numpy(), np.pi**4 / 5, rtol=1e-8)
    around = np.array([0.5 / np.pi - 1e-9, 0.5 / np.pi + 1e-9])  # the formula changes here
    for derivative in (slope, second):
        below, above = rg.vmap(derivative)(around).tolist()
        assert below == pytest.approx(above, rel=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ldexp_inverts_frexp(dtype: str) -> None:
    """Even for the largest number, whose power of two exceeds the dtype."""
    limits = np.finfo(dtype)
    values = rg.tensor([limits.max, -limits.max, limits.tiny, limits.tiny / 8, 1.0], dtype=getattr(rg, dtype))
    assert rg.equal(rg.ldexp(*rg.frexp(values)), values)
    shifts = [200, -200, 40] if dtype == "float32" else [1500, -1500, 40]
    numbers = [limits.tiny, limits.max, 3.0]
    ours, theirs = (m.ldexp(m.tensor(numbers, dtype=getattr(m, dtype)), m.tensor(shifts)).tolist() for m in (rg, torch))
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32"])
@pytest.mark.parametrize("name", ["atan2", "hypot", "pow", "copysign", "xlogy", "special.xlog1py", "special.zeta"])
def test_gradients_of_operations_with_integer_operands(name: str, dtype: str) -> None:
    """They equal the gradients with the same numbers as floats: no integer product wraps around or is truncated.

    In the derivative of atan2, torch squares 100 as an int8 and gets 16.
    """
    function = rg
    for part in name.split("."):
        function = getattr(function, part)
    numbers = {"bool": [0, 1, 1], "int32": [3, 50_000, 90_000]}.get(dtype, [3, 100, 120])
    integers = rg.tensor(numbers, dtype=getattr(rg, dtype))
    checked = 0
    for second in (False, True):
        gradients = []
        for operand in (integers, integers.double()):
            x = rg.tensor([0.3, 1.7, 2.4], dtype=rg.float64, requires_grad=True)
            try:
                y = function(operand, x) if second else function(x, operand)
                (plain,) = rg.autograd.grad(y.sum(), x, retain_graph=True)
                (first,) = rg.autograd.grad(y.sum(), x, create_graph=True)
            except NotImplementedError:  # of pow, truth values; of zeta, derivatives by the first parameter
                break
            again = rg.autograd.grad((first * first).sum(), x)[0] if first.requires_grad else first
            gradients.append((plain, first, again))
        else:
            rg.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9, equal_nan=True)
            checked += 1
    assert checked
