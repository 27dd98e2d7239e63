"""Complex numbers: parts, conjugates, angles and views as pairs of real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching.array import unbatched
from retrograd.conjugate_views import UnresolvedArray, apply_lazily, resolve
from retrograd.core.calls import inplace
from retrograd.core.in_place import check_writable
from retrograd.core.layout import unexpanded
from retrograd.core.op import elementwise, kernel, linear, op, view
from retrograd.core.registry import add_method, composite, implements
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.ops._checks import check_tensor
from retrograd.ops._rules import conj as conjugated
from retrograd.ops._rules import keep, zero

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand


# --- parts ------------------------------------------------------------------------------------------------------------


@kernel(name="complex", public=False, method=False, real=lambda g: np.real(g), imag=lambda g: np.imag(g))
def from_parts(real, imag):
    # real + 1j * imag would make NaN of infinities
    dtype = np.result_type(real.dtype, np.complex64)
    result = np.empty_like(unexpanded(real), dtype, shape=np.broadcast_shapes(real.shape, imag.shape))
    result.real = real
    result.imag = imag
    return result


@view(name="real", method=False, input=lambda g: g)
def _real(input):
    return input.real


@composite(method=False, reported=False)
def real(input: Tensor) -> Tensor:
    """Return the real part, a view; a real tensor is returned itself."""
    return _real(input) if check_tensor("real", input).is_complex() else input


@view(method=False, input=lambda g: from_parts(np.zeros_like(g), g))
def imag(input):
    """Return the imaginary part of a complex tensor, a view.

    Raises
    ------
    RuntimeError
        If the tensor is real.
    """
    if input.dtype.kind != "c":
        raise RuntimeError(f"imag is not implemented for tensors with non-complex dtypes, such as {input.dtype}")
    return input.imag


def _set_real(input: Tensor, value: Operand) -> None:
    real(input)[...] = value


def _set_imag(input: Tensor, value: Operand) -> None:
    imag(input)[...] = value


add_method("real", property(real, _set_real))
add_method("imag", property(imag, _set_imag))


@implements(np.real)
def _numpy_real(val: Any) -> Tensor:
    return real(val)


@implements(np.imag)
def _numpy_imag(val: Any) -> Tensor:
    return imag(val) if val.is_complex() else wrap(np.zeros_like(val._data))


@implements(np.real_if_close)
def _real_if_close(a: Any, tol: float = 100) -> Tensor:
    return real(a) if np.isrealobj(np.real_if_close(a._data, tol)) else a


def _check_parts(name: str, first: Any, second: Any) -> None:
    if first.dtype != second.dtype or first.dtype.kind != "f":
        raise RuntimeError(
            f"{name}: Expected both inputs to be Half, Float or Double tensors of one dtype, "
            f"but got {first.dtype} and {second.dtype}"
        )


@linear(method=False, real=lambda g: np.real(g), imag=lambda g: np.imag(g))
def complex(real, imag):
    """Return complex numbers with the given real and imaginary parts.

    Raises
    ------
    RuntimeError
        If the parts are not of one floating-point dtype.

    Examples
    --------
    >>> rg.complex(rg.tensor([1., 2.]), rg.tensor([0., -1.]))
    tensor([1.+0.j, 2.-1.j])
    """
    _check_parts("complex", real, imag)
    return from_parts(real, imag)


@op(
    method=False,
    abs=lambda g, result: np.real(conjugated(g) * np.sign(result)),
    angle=lambda g, result: np.real(conjugated(g) * (1j * result)),
)
def polar(abs, angle):
    """Return complex numbers with the given absolute values and angles, ``abs * exp(1j * angle)``.

    Raises
    ------
    RuntimeError
        If the two are not of one floating-point dtype.
    """
    _check_parts("polar", abs, angle)
    return from_parts(abs * np.cos(angle), abs * np.sin(angle))


# --- conjugates -------------------------------------------------------------------------------------------------------


@view(name="conj", method=False, input=lambda g: conjugated(g))
def _conj(input):
    return apply_lazily(np.conjugate, input)


@elementwise(np.conjugate, name="conj_physical", method=False, input=lambda g: conjugated(g))
def _conj_physical(input):
    """Return the complex conjugate."""


@composite("conjugate", reported=False)
def conj(input: Tensor) -> Tensor:
    """Return the complex conjugate, a view whose numbers are computed when they are needed; a real tensor itself."""
    return _conj(input) if check_tensor("conj", input).is_complex() else input


@composite(reported=False)
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the complex conjugate; a real tensor is returned itself."""
    if out is None and not check_tensor("conj_physical", input).is_complex():
        return input
    return _conj_physical(input, out=out)


conjugate = conj
implements(np.conjugate)(conj_physical)
_conj_physical_ = inplace(_conj_physical.op, "conj_physical_")


def conj_physical_(input: Tensor) -> Tensor:
    """In-place form of :func:`retrograd.conj_physical`."""
    if input.dtype.numpy.kind != "b":  # which NumPy would make int8
        return _conj_physical_(input)
    check_writable(input, "conj_physical_")
    bump(input)
    return input


add_method("conj_physical_", conj_physical_)


@kernel(name="resolve", public=False, method=False, node_name="CloneBackward0", input=lambda g: g)
def _resolve(input):
    return resolve(input)


@composite(reported=False)
def resolve_conj(input: Tensor) -> Tensor:
    """Return ``input`` with its numbers in memory: a copy of a conjugate view, any other tensor itself."""
    return _resolve(input) if is_conj(input) else input


@composite(reported=False)
def resolve_neg(input: Tensor) -> Tensor:
    """Return ``input`` with its numbers in memory: a copy of a negative view, any other tensor itself."""
    return _resolve(input) if is_neg(input) else input


def _is_unresolved(name: str, input: Tensor, ufunc: np.ufunc) -> bool:
    data = unbatched(check_tensor(name, input)._data)
    return type(data) is UnresolvedArray and data.ufunc is ufunc


@composite(reported=False)
def is_conj(input: Tensor) -> bool:
    """Whether ``input`` is a view on the conjugates of its numbers, as ``conj()`` makes it."""
    return _is_unresolved("is_conj", input, np.conjugate)


@composite(reported=False)
def is_neg(input: Tensor) -> bool:
    """Whether ``input`` is a view on the negatives of its numbers, as ``conj().imag`` is."""
    return _is_unresolved("is_neg", input, np.negative)


# --- angles -----------------------------------------------------------------------------------------------------------


def _angle_rule(g: Any, input: Any) -> Any:
    if input.dtype.kind != "c":
        return zero(g)
    radius = np.abs(input)
    return keep(g * (1j * input / (radius * radius)), input != 0)


@elementwise(int_to_float=True, inplace=False, input=_angle_rule)
def angle(input):
    """Return the angle of complex numbers in radians, from -π to π; 0 or π for real numbers."""
    if input.dtype.kind == "c":
        return np.arctan2(input.imag, input.real)
    dtype = np.result_type(input.dtype, np.float16)  # that of floats; integers become floats
    return np.multiply(input < 0, np.pi, dtype=dtype) + keep(input, np.isnan(input))


@implements(np.angle)
def _numpy_angle(z: Any, deg: bool = False) -> Tensor:
    return np.rad2deg(angle(z)) if deg else angle(z)


# --- pairs of real numbers --------------------------------------------------------------------------------------------


@view(method=False, input=lambda g: from_parts(g[..., 0], g[..., 1]))
def view_as_real(input):
    """Return a view of a complex tensor as a real one, with real and imaginary part along a new last dimension.

    >>> rg.view_as_real(rg.tensor([1 + 2j, 3j]))
    tensor([[1., 2.],
            [0., 3.]])
    """
    if input.dtype.kind != "c":
        raise RuntimeError(f"view_as_real is only supported for complex tensors, not {input.dtype}")
    if type(unbatched(input)) is UnresolvedArray:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors. To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original."
        )
    return input[..., np.newaxis].view(input.real.dtype)


@view(method=False, input=lambda g: np.stack((np.real(g), np.imag(g)), axis=-1))
def view_as_complex(input):
    """Return a view of a real tensor, whose last dimension has length 2, as a complex one.

    Raises
    ------
    RuntimeError
        If pairs of numbers do not lie in memory side by side.
    """
    if input.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"view_as_complex is only supported for float32 and float64 tensors, not {input.dtype}")
    if input.ndim == 0:
        raise RuntimeError("view_as_complex: Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError(f"view_as_complex: Tensor must have a last dimension of size 2, not {list(input.shape)}")
    *outer, step = input.strides
    if step != input.itemsize:
        raise RuntimeError("view_as_complex: Tensor must have a last dimension with stride 1; use contiguous()")
    if any(stride % (2 * step) for stride in outer):
        raise RuntimeError(
            "view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension; use contiguous()"
        )
    return input.view(np.result_type(input.dtype, np.complex64))[..., 0]
