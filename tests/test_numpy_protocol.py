"""NumPy on Tensors: every overridable function is differentiable, declared constant, or refused by name."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import overrides

import retrograd as rg
from retrograd.core.numpy_protocols import reason_for_refusing
from tests.numpy_calls import CALLS, Call, Fixed

pytestmark = pytest.mark.filterwarnings("ignore:`in1d` is deprecated:DeprecationWarning")

# --- the overridable functions ----------------------------------------------------------------------------------------

PLACES = ("", "linalg.", "fft.", "lib.scimath.", "lib.stride_tricks.", "_core.umath.")


def name_of(function: Any) -> str:
    """Return the path of a NumPy function: ``linalg.inv``, or ``_core.umath.clip`` for a private ufunc."""
    for place in PLACES:
        if find(place + function.__name__) is function:
            return place + function.__name__
    return f"{function.__module__}.{function.__name__}".removeprefix("numpy.")


def find(name: str) -> Any:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# NumPy imports these on demand; only then are their functions among the overridable ones
for lazy in ("char", "lib.recfunctions", "ma", "polynomial", "rec", "strings"):
    importlib.import_module(f"numpy.{lazy}")

OVERRIDABLE = overrides.get_overridable_numpy_array_functions() | overrides.get_overridable_numpy_ufuncs()
NAMES = {name_of(function) for function in OVERRIDABLE}
REFUSED = {function for function in OVERRIDABLE if reason_for_refusing(function)}
# functions that this version of NumPy lacks have no calls
KNOWN = [call for call in CALLS if find(call.name) is not None]


def of_kind(*kinds: str, where: Callable[[Call], bool] = lambda call: True) -> Any:
    calls = [call for call in KNOWN if call.kind in kinds and where(call)]
    return pytest.mark.parametrize("call", calls, ids=[f"{call.name}-{nr}" for nr, call in enumerate(calls)])


@pytest.mark.parametrize("name", sorted({name_of(function) for function in OVERRIDABLE - REFUSED}))
def test_every_overridable_function_has_a_call(name: str) -> None:
    assert any(call.name == name for call in KNOWN), f"numpy.{name} is neither refused nor in tests/numpy_calls"


def test_every_call_is_of_an_overridable_function() -> None:
    methods = {f"{name}.{method}" for name in NAMES for method in ("reduce", "accumulate", "outer")}
    by_like = {call.name for call in KNOWN if call.kind == "made"}  # not every version of NumPy lists it
    assert {call.name for call in KNOWN} <= NAMES | methods | by_like


@pytest.mark.parametrize("function", sorted(REFUSED, key=name_of), ids=name_of)
def test_refused_functions_name_the_alternative(function: Any) -> None:
    """No call succeeds, whatever the number of arguments, and the error says what to do."""
    x = rg.ones(2, 2, dtype=rg.float64, requires_grad=True)
    messages = []
    for count in range(1, 7):
        with pytest.raises(TypeError) as caught:
            function(*[x] * count)
        messages.append(str(caught.value))
    assert any(re.search(rf"{function.__name__} has no derivative rule.*; use ", message) for message in messages)


# --- calling them -----------------------------------------------------------------------------------------------------

Convert = Callable[[Any], Any]


def substitute(value: Any, main: Convert, other: Convert) -> Any:
    """Replace float arrays in an argument of a call with ``main`` and other arrays with ``other``."""
    if isinstance(value, Fixed):
        return other(value.value)
    if isinstance(value, np.ndarray):
        return main(value) if value.dtype.kind in "fc" else other(value)
    if isinstance(value, (list, tuple)):
        return type(value)(substitute(item, main, other) for item in value)
    return value


def invoke(call: Call, main: Convert = np.copy, other: Convert = np.copy, **more: Any) -> Any:
    args = [substitute(arg, main, other) for arg in call.args]
    kwargs = {key: substitute(value, main, other) for key, value in call.kwargs.items()} | more
    function = find(call.name)
    if call.kind == "writes":
        if isinstance(args[0], rg.Tensor):
            args[0] = args[0].clone()
        assert function(*args, **kwargs) is None
        return args[0]
    return function(*args, **kwargs) if call.via is None else call.via(function, *args, **kwargs)


def main_arrays(call: Call) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    substitute((call.args, tuple(call.kwargs.values())), arrays.append, lambda array: None)
    return arrays


def tensor(array: Any, grad: bool = False) -> rg.Tensor:
    return rg.from_numpy(np.array(array)).requires_grad_(grad)


def listed(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [part for item in result for part in listed(item)]
    return [result]


def assert_numpys(got: Any, expected: Any) -> None:
    """Check that tensors have NumPy's values and are in NumPy's containers."""
    assert isinstance(got, list) is isinstance(expected, list)
    assert isinstance(got, tuple) is isinstance(expected, tuple)
    if hasattr(expected, "_fields"):
        assert got._fields == expected._fields
    assert len(listed(got)) == len(listed(expected))
    for result, value in zip(listed(got), listed(expected), strict=True):
        assert type(result) is rg.Tensor
        array = result.detach().numpy()
        assert array.dtype.kind in "biufc"
        assert array.dtype == np.asarray(value).dtype
        assert array.shape == np.shape(value)
        np.testing.assert_allclose(array, value, rtol=1e-9, atol=1e-12)


# --- values -----------------------------------------------------------------------------------------------------------


@of_kind("differentiable", "constant", "undetached", "writes")
def test_values_equal_numpy(call: Call) -> None:
    """All arrays among the arguments are Tensors that do not require grad."""
    result = invoke(call, tensor, tensor)
    assert_numpys(result, invoke(call))
    assert not any(part.requires_grad for part in listed(result))


def parameters(call: Call) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the function if NumPy documents them and the call is a plain one."""
    try:
        return inspect.signature(find(call.name)).parameters if call.via is None and "like" not in call.kwargs else {}
    except ValueError:
        return {}


@of_kind(
    *("differentiable", "constant", "undetached", "writes", "described"),
    where=lambda call: call.name != "where" and bool(parameters(call)),
)
def test_default_values_can_be_passed_explicitly(call: Call) -> None:
    """Every parameter accepts NumPy's name and default."""
    function = find(call.name)
    bound = inspect.signature(function).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    kinds = {parameter.kind for parameter in bound.signature.parameters.values()}
    by_position = inspect.Parameter.VAR_POSITIONAL in kinds or call.kind == "writes" or call.name.startswith("unique_")
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for key, parameter in bound.signature.parameters.items():
        value = bound.arguments[key]
        if value is np._NoValue or (isinstance(function, np.ufunc) and key in ("signature", "keepdims")):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.kind is parameter.POSITIONAL_ONLY or (by_position and parameter.default is parameter.empty):
            args.append(value)
        else:
            kwargs[key] = value
    kwargs.pop("like", None)
    complete = Call(call.name, call.kind, tuple(args), kwargs)
    expected = invoke(complete)
    if call.kind == "described":
        assert invoke(complete, tensor, tensor) == expected
    else:
        assert_numpys(invoke(complete, tensor, tensor), expected)


# NumPy computes these in double precision, torch would not
STAY_SINGLE = {"nanquantile", "nanpercentile", "cov", "corrcoef", "interp", "bincount", "vander", "geomspace"}
STAY_SINGLE |= {"polyder", "polyfit", "polyint", "lib.scimath.power"}


@of_kind("differentiable", "constant", "writes")
def test_single_precision_is_kept(call: Call) -> None:
    """Dtypes are NumPy's, and single precision stays single apart from NumPy's own exceptions."""

    def single(array: np.ndarray) -> np.ndarray:
        return array.astype({"d": np.float32, "D": np.complex64}.get(array.dtype.char, array.dtype))

    expected = listed(invoke(call, single))
    results = listed(invoke(call, lambda array: tensor(single(array)), tensor))
    for result, value in zip(results, expected, strict=True):
        wanted = single(np.asarray(value)) if call.name in STAY_SINGLE else np.asarray(value)
        assert result.numpy().dtype == wanted.dtype
        np.testing.assert_allclose(result.numpy(), value, rtol=2e-3, atol=2e-4)


@of_kind("described")
def test_functions_describing_arrays_return_plain_values(call: Call) -> None:
    """Shapes, truth values and texts do not depend on gradients."""
    for main in (tensor, lambda array: tensor(array, grad=array.dtype.kind in "fc")):
        result = invoke(call, main, tensor)
        assert result == invoke(call)
        assert not isinstance(result, (rg.Tensor, np.ndarray))


@of_kind("made")
def test_creation_functions_with_like(call: Call) -> None:
    assert_numpys(invoke(call, like=tensor(1.0, grad=True)), invoke(call))
    assert not invoke(call, like=tensor(1.0, grad=True)).requires_grad


@of_kind("constant")
def test_constant_functions_have_no_gradient(call: Call) -> None:
    result = invoke(call, lambda array: tensor(array, grad=True), tensor)
    assert_numpys(result, invoke(call))
    assert not any(part.requires_grad for part in listed(result))


@of_kind("undetached")
def test_gradients_are_not_lost(call: Call) -> None:
    with pytest.raises(TypeError, match=rf"numpy\.{call.name} has no derivative rule.*detach"):
        invoke(call, lambda array: tensor(array, grad=True))
    with rg.no_grad():
        assert_numpys(invoke(call, lambda array: tensor(array, grad=True)), invoke(call))


# --- derivatives ------------------------------------------------------------------------------------------------------


def inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(a) * b)))


class Slope:
    """The derivative of a function of a call's results in a random direction of some of its float arrays.

    The function is ``sum(w * y + y**2 / 2)`` with random weights, so that its second derivative is not 0 even if the
    call is linear. The other float arrays stay what they are, or become lists.
    """

    def __init__(self, call: Call, chosen: range, others: Convert = np.copy) -> None:
        self.call, self.chosen, self.others = call, set(chosen), others
        rng = np.random.default_rng(1)
        self.directions = [self.normal(rng, array) for array in main_arrays(call)]
        self.weights = [self.normal(rng, np.asarray(part)) for part in listed(invoke(call))]

    @staticmethod
    def normal(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
        real = rng.normal(size=array.shape)
        return real + 1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else np.asarray(real)

    def evaluate(self, move: float, make: Convert | None) -> Any:
        """Return the result at a distance from the arguments, computed with Tensors if ``make`` makes them."""
        positions = iter(range(len(self.directions)))

        def main(array: np.ndarray) -> Any:
            nr = next(positions)
            if nr not in self.chosen:
                return self.others(array)
            array = array + move * self.directions[nr]
            return np.array(array) if make is None else make(array)

        return invoke(self.call, main)

    def value(self, move: float) -> float:
        results = [np.asarray(part) for part in listed(self.evaluate(move, None))]
        return sum(
            inner(weight, result) + inner(result, result) / 2
            for weight, result in zip(self.weights, results, strict=True)
            if result.dtype.kind in "fc"
        )

    def gradients(self, move: float, create_graph: bool = False) -> tuple[Any, list[Any], list[Any]]:
        leaves: list[rg.Tensor] = []

        def make(array: np.ndarray) -> rg.Tensor:
            leaves.append(tensor(array, grad=True))
            return leaves[-1]

        result = self.evaluate(move, make)
        pairs = [
            (part, weight) for part, weight in zip(listed(result), self.weights, strict=True) if part.requires_grad
        ]
        assert pairs, "the result has lost its history"
        outputs = [part for part, _ in pairs]
        seeds = [tensor(weight) + (part if create_graph else part.detach()) for part, weight in pairs]
        grads = rg.autograd.grad(outputs, leaves, seeds, create_graph=create_graph, allow_unused=True)
        return result, leaves, list(grads)

    def along(self, grads: list[Any]) -> float:
        directions = [self.directions[nr] for nr in sorted(self.chosen)]
        return sum(
            inner(grad.detach().numpy(), direction)
            for grad, direction in zip(grads, directions, strict=True)
            if grad is not None
        )

    def check_first(self) -> None:
        result, _, grads = self.gradients(0.0)
        assert_numpys(result, invoke(self.call))
        measured = (self.value(1e-6) - self.value(-1e-6)) / 2e-6
        assert self.along(grads) == pytest.approx(measured, rel=2e-6, abs=2e-7)

    def check_second(self) -> None:
        _, leaves, grads = self.gradients(0.0, create_graph=True)
        directions = [tensor(self.directions[nr]) for nr in sorted(self.chosen)]
        pairs = [(g, d) for g, d in zip(grads, directions, strict=True) if g is not None and g.requires_grad]
        predicted = 0.0
        if pairs:
            outputs, weights = zip(*pairs, strict=True)
            predicted = self.along(list(rg.autograd.grad(outputs, leaves, weights, allow_unused=True)))
        step = 1e-5
        measured = (self.along(self.gradients(step)[2]) - self.along(self.gradients(-step)[2])) / (2 * step)
        assert predicted == pytest.approx(measured, rel=1e-5, abs=1e-6)


@of_kind("differentiable", "writes")
def test_first_and_second_derivatives_match_differences(call: Call) -> None:
    """The direction covers all arguments; the differences are central."""
    slope = Slope(call, range(len(main_arrays(call))))
    slope.check_first()
    slope.check_second()


def has_several_arrays(call: Call) -> bool:
    return len(main_arrays(call)) > 1 and "like" not in call.kwargs


@of_kind("differentiable", "writes", where=has_several_arrays)
@pytest.mark.parametrize("others", [np.copy, np.ndarray.tolist], ids=["arrays", "lists"])
def test_one_tensor_among_arrays_or_lists(call: Call, others: Convert) -> None:
    """The Tensor may be any argument."""
    if call.name == "block" and others is not np.copy:
        return  # its lists have a special meaning
    for nr in range(len(main_arrays(call))):
        slope = Slope(call, range(nr, nr + 1), others)
        if call.kind == "writes" and nr > 0:
            with pytest.raises((TypeError, RuntimeError, AttributeError), match=r"ndarray|numpy\(\)|list"):
                slope.gradients(0.0)
        else:
            slope.check_first()


@of_kind("differentiable", where=has_several_arrays)
def test_object_arrays_are_refused_or_converted(call: Call) -> None:
    """An object array among the arguments raises or counts as the numbers in it."""
    for nr in range(len(main_arrays(call))):
        try:
            result = Slope(call, range(nr, nr + 1), lambda array: array.astype(object)).gradients(0.0)[0]
        except (TypeError, ValueError, RuntimeError):
            continue
        assert all(part.detach().numpy().dtype.kind in "biufc" for part in listed(result))


@of_kind("differentiable", "constant", where=lambda call: "out" in parameters(call))
def test_out_of_a_function_is_a_recorded_write(call: Call) -> None:
    """``out=`` writes into a Tensor in place and is recorded; an ndarray raises if a gradient would get lost."""
    expected = invoke(call)
    several = isinstance(expected, tuple)

    def leaf(array: np.ndarray) -> rg.Tensor:
        return tensor(array, grad=call.kind == "differentiable")

    targets = [np.zeros_like(part) for part in listed(expected)]
    into = tuple(targets) if several else targets[0]
    if call.kind == "differentiable":
        with pytest.raises(TypeError, match=r"ndarray|out="):
            invoke(call, leaf, tensor, out=into)
    made = invoke(call, tensor, tensor, out=into)
    assert all(a is b for a, b in zip(listed(made), targets, strict=True))
    for target, value in zip(targets, listed(expected), strict=True):
        np.testing.assert_allclose(target, value, rtol=1e-9, atol=1e-12)
    outs = [tensor(target) for target in targets]
    result = invoke(call, leaf, tensor, out=tuple(outs) if several else outs[0])
    assert all(a is b for a, b in zip(listed(result), outs, strict=True))
    assert_numpys(result, expected)
    assert any(part.requires_grad for part in outs) == (call.kind == "differentiable")


# --- arrays of other classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, masked: x * masked,
        lambda x, masked: masked * x,
        lambda x, masked: rg.cat([x, masked]),
        lambda x, masked: rg.where(x > 0, x, masked),
        lambda x, masked: x.mul_(masked),
        lambda x, masked: np.multiply(masked, x),
        lambda x, masked: np.ma.sqrt(x),
        lambda x, masked: np.ma.add(x, 1.0),
    ],
)
def test_functions_of_masked_arrays_raise(compute: Callable[..., Any]) -> None:
    """numpy.ma would drop the graph, and retrograd would ignore the mask."""
    x = rg.ones(3, dtype=rg.float64, requires_grad=True) * 1
    with pytest.raises((TypeError, RuntimeError), match=r"(its own arithmetic|takes arrays only).*x\[~mask\]"):
        compute(x, np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]))


def test_masked_array_of_a_tensor_without_gradients() -> None:
    """Plotting libraries convert all their arguments like this."""
    x = rg.tensor([1.0, 2.0, 4.0])
    masked = np.ma.masked_greater(np.ma.array(x), 3.0)
    assert masked.tolist() == [1.0, 2.0, None]
    assert (masked - x).tolist() == [0.0, 0.0, None]
    assert np.ma.ravel(x).tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("kind", [np.recarray, np.memmap])
def test_results_with_array_subclasses_are_plain_tensors(kind: Any, tmp_path: Any) -> None:
    if kind is np.memmap:
        other: Any = np.memmap(tmp_path / "numbers", dtype="f8", mode="w+", shape=(2, 2))
        other[:] = [[1.0, 2.0], [3.0, 4.0]]
    else:
        other = np.array([[1.0, 2.0], [3.0, 4.0]]).view(kind)
    x = rg.ones(2, 2, dtype=rg.float64, requires_grad=True)
    for result in (x * other, other * x, rg.mul(x, other), np.multiply(other, x), rg.cat([x, other])[2:] * x):
        assert "retrograd.float64" in repr(result)
        (gradient,) = rg.autograd.grad(result.sum(), x)
        assert type(gradient.numpy()) is np.ndarray
        assert gradient.tolist() == [[1.0, 2.0], [3.0, 4.0]]
