"""Rows, which say what to call an operation with, and helpers for the checks of all operations."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import retrograd as rg
import retrograd.nn.functional
import retrograd.special  # their operations are registered when they are first used
from retrograd.core.registry import composites, operations

torch.set_num_threads(1)

FLOATS = ("float32", "float64")
COMPLEX = ("float32", "float64", "complex64", "complex128")
INTS = ("uint8", "int8", "int16", "int32", "int64")
ALL_REAL = (*FLOATS, *INTS, "bool")

# relative and absolute tolerance of values by dtype; gradients get ten times as much
TOLERANCE = {"float16": 2e-3, "float32": 3e-5, "complex64": 3e-5, "float64": 1e-10, "complex128": 1e-10}


class Make:
    """Makes reproducible arrays of one dtype for the samples of a row."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(seed)

    @property
    def is_float(self) -> bool:
        return self.dtype.kind in "fc"

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Return standard normal numbers, small integers or booleans, depending on the dtype."""
        kind = self.dtype.kind
        if kind == "c":
            return (self.rng.normal(size=shape) + 1j * self.rng.normal(size=shape)).astype(
                self.dtype
            ) * self.dtype.type(scale)
        if kind == "f":
            return (self.rng.normal(size=shape) * scale).astype(self.dtype)
        if kind == "b":
            return self.rng.random(size=shape) < 0.5
        low = 0 if kind == "u" else -9
        return self.rng.integers(low, 10, size=shape).astype(self.dtype)

    def uniform(self, *shape: int, low: float = 0.1, high: float = 0.9) -> np.ndarray:
        """Return values from an interval (real and imaginary part, if complex)."""
        values = self.rng.uniform(low, high, size=shape)
        if self.dtype.kind == "c":
            return (values + 1j * self.rng.uniform(low, high, size=shape)).astype(self.dtype)
        if self.dtype.kind in "iu":
            return np.ceil(values).astype(self.dtype)
        return values.astype(self.dtype)

    def positive(self, *shape: int) -> np.ndarray:
        return self.uniform(*shape, low=0.3, high=2.5)

    def distinct(self, *shape: int) -> np.ndarray:
        """Return values that are all far apart, so that small steps change neither order nor maxima."""
        n = int(np.prod(shape))
        values = self.rng.permutation(n) - n // 2
        return (values * (0.37 if self.is_float else 1)).reshape(shape).astype(self.dtype)

    def integers(self, *shape: int, low: int = 0, high: int = 5) -> np.ndarray:
        """Return an int64 array, for indices."""
        return self.rng.integers(low, high, size=shape)

    def mask(self, *shape: int) -> np.ndarray:
        return self.rng.random(size=shape) < 0.5


@dataclass(frozen=True)
class Sample:
    """One call: arrays stand for tensors (also inside lists); everything else is passed unchanged."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Sample:
    """Return a sample, written like the call it stands for."""
    return Sample(args, kwargs)


@dataclass(frozen=True)
class Row:
    """How to test one operation.

    Parameters
    ----------
    name
        As in the registry, for example ``"exp"`` or ``"linalg.inv"``.
    samples
        A function of a :class:`Make` that yields samples.
    torch
        The equivalent torch function, or None for the function of the same name.
    dtypes
        Dtypes of the samples. Gradients are checked for the floating and complex ones.
    gradients
        Whether it is differentiable.
    second
        Whether second derivatives are compared (torch has none for a few operations).
    inplace
        Whether ``x.name_(...)`` exists and is checked.
    method
        Whether ``x.name(...)`` is checked too.
    grad_args
        Positions (or keywords) of the arguments to differentiate; None means every float or complex array.
    numpy
        NumPy-protocol forms: functions of tensors, such as ``np.exp``, that must agree with the operation on every
        sample; only given where the arguments are the same.
    view
        Whether torch's result shares memory with its input (None: not checked).
    numeric
        Whether finite differences are compared (not at kinks or for gauge-dependent results).
    post
        Applied to both results before comparing, where results are unique only up to something (signs of vectors).
    tolerance
        Factor on the tolerances.
    check_dtype
        Whether the result dtype must be torch's.
    """

    name: str
    samples: Callable[[Make], Iterable[Sample]]
    torch: Callable[..., Any] | None = None
    dtypes: tuple[str, ...] = FLOATS
    gradients: bool = True
    second: bool = True
    inplace: bool = False
    method: bool = True
    grad_args: tuple[int | str, ...] | None = None
    numpy: tuple[Callable[..., Any], ...] = ()
    view: bool | None = None
    numeric: bool = True
    post: Callable[[Any], Any] | None = None
    tolerance: float = 1.0
    check_dtype: bool = True

    @property
    def oracle(self) -> Callable[..., Any]:
        if self.torch is not None:
            return self.torch
        found: Any = torch
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found if found is not None else getattr(torch.Tensor, self.name)

    @property
    def function(self) -> Callable[..., Any]:
        found: Any = rg
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found or getattr(rg.Tensor, self.name, None) or getattr(rg.nn.functional, self.name)


def unary(
    name: str,
    values: str | Callable[[Make, tuple[int, ...]], np.ndarray] = "normal",
    *,
    dtypes: tuple[str, ...] = FLOATS,
    **more: Any,
) -> Row:
    """Return a row for an elementwise function of one tensor, with all layouts that matter."""

    def samples(make: Make) -> Iterator[Sample]:
        for array in layouts(make, values):
            yield call(array)

    return Row(name, samples, dtypes=dtypes, inplace=more.pop("inplace", True), **more)


def binary(
    name: str,
    left: str | Callable[..., np.ndarray] = "normal",
    right: str | Callable[..., np.ndarray] = "normal",
    *,
    dtypes: tuple[str, ...] = FLOATS,
    scalars: Sequence[Any] = (2, 0.5),
    **more: Any,
) -> Row:
    """Return a row for an elementwise function of two tensors: layouts, broadcasting, Python numbers."""

    def samples(make: Make) -> Iterator[Sample]:
        for a, b in zip(layouts(make, left), layouts(make, right), strict=True):
            yield call(a, b)
        for shape_a, shape_b in (
            ((3, 4), (4,)),
            ((3, 1), (1, 4)),
            ((), (2, 3)),
            ((2, 3), ()),
            ((2, 0), (1, 1)),
            ((1,), (3, 2)),
        ):
            yield call(values_of(make, left, shape_a), values_of(make, right, shape_b))
        for scalar in scalars:
            if make.is_float or isinstance(scalar, int):
                yield call(values_of(make, left, (2, 3)), scalar)

    return Row(name, samples, dtypes=dtypes, inplace=more.pop("inplace", True), **more)


def values_of(
    make: Make, values: str | Callable[[Make, tuple[int, ...]], np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    return np.asarray(getattr(make, values)(*shape) if isinstance(values, str) else values(make, shape)).astype(
        make.dtype
    )


def layouts(make: Make, values: str | Callable[[Make, tuple[int, ...]], np.ndarray]) -> Iterator[np.ndarray]:
    """Yield a plain array, a vector, 0-d, empty, transposed, every other element, and a negative stride."""
    yield values_of(make, values, (3, 4))
    yield values_of(make, values, (5,))
    yield values_of(make, values, ())
    yield values_of(make, values, (0, 3))
    yield values_of(make, values, (4, 3)).T
    yield values_of(make, values, (3, 8))[:, ::2]
    yield values_of(make, values, (3, 4))[::-1]


# --- from samples to calls ----------------------------------------------------------------------------------------


def to_torch(array: np.ndarray) -> torch.Tensor:
    if any(step < 0 for step in array.strides):  # torch has no negative strides
        array = array.copy()
    return torch.from_numpy(array) if array.flags.writeable and array.ndim else torch.tensor(array)


def to_ours(array: np.ndarray) -> rg.Tensor:
    return rg.from_numpy(array)


def convert(value: Any, make_tensor: Callable[[np.ndarray], Any], module: Any) -> Any:
    """Convert arrays to tensors, and dtypes given by name (``"dtype:float64"``) to the library's own."""
    if isinstance(value, np.ndarray):
        return make_tensor(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        return type(value)(convert(item, make_tensor, module) for item in value)
    if isinstance(value, str) and value.startswith("dtype:"):
        return getattr(module, value.removeprefix("dtype:"))
    return value


class Bound:
    """A sample in one library, whose tensors to differentiate are leaves."""

    def __init__(
        self, row: Row, sample: Sample, make_tensor: Callable[[np.ndarray], Any], module: Any, grad: bool
    ) -> None:
        self.args = [convert(value, make_tensor, module) for value in sample.args]
        self.kwargs = {key: convert(value, make_tensor, module) for key, value in sample.kwargs.items()}
        self.leaves: list[Any] = []
        if grad:
            keys: Iterable[int | str] = range(len(self.args))
            keys = [*keys, *self.kwargs] if row.grad_args is None else row.grad_args
            for key in keys:
                holder: Any = self.args if isinstance(key, int) else self.kwargs
                if (isinstance(key, int) and key >= len(self.args)) or (
                    isinstance(key, str) and key not in self.kwargs
                ):
                    continue
                holder[key] = self._leaf(holder[key])

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._leaf(item) for item in value)
        if isinstance(value, (torch.Tensor, rg.Tensor)) and (value.is_floating_point() or value.is_complex()):
            # a computed tensor on top of the leaf, so that its strides stay as they are and in-place forms are legal
            value = value.detach()
            value.requires_grad_(True)
            self.leaves.append(value)
        return value

    def run(self, function: Callable[..., Any]) -> list[Any]:
        return flatten(function(*self.args, **self.kwargs))


def flatten(result: Any) -> list[Any]:
    if isinstance(result, (torch.Tensor, rg.Tensor)):
        return [result]
    if isinstance(result, (tuple, list)):
        return list(itertools.chain.from_iterable(flatten(item) for item in result))
    return [result]


def as_array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        return (value.clone() if value._is_zerotensor() else value).numpy()
    if isinstance(value, rg.Tensor):
        return value.detach().resolve_conj().resolve_neg().numpy()
    return np.asarray(value)


def are_close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether :func:`numpy.testing.assert_allclose` would pass; it takes more than twice as long."""
    return a.shape == b.shape and bool(np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True).all())


def assert_same(ours: Any, theirs: Any, factor: float = 1.0, *, check_dtype: bool = True, what: Any = "") -> None:
    """Check that values agree within the tolerance of their dtype, with NaN and infinities in the same places.

    ``what`` says what was compared. A tuple is formatted only on failure, because formatting arrays is slow.
    """
    a, b = as_array(ours), as_array(theirs)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, torch has {b.shape}"
    if check_dtype:
        assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, torch has {b.dtype}"
    tolerance = max(TOLERANCE.get(str(a.dtype), 0), TOLERANCE.get(str(b.dtype), 0)) * factor
    if not are_close(a, b, tolerance):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=str(what))


def differentiable(outputs: list[Any]) -> list[Any]:
    return [output for output in outputs if isinstance(output, (torch.Tensor, rg.Tensor)) and output.requires_grad]


def all_names() -> set[str]:
    """Return the names of everything that needs a row: operations and composites."""
    return set(operations) | set(composites)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
