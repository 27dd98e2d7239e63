"""The methods and operators of tensors that operations add. Written by ``python -m tools.stubs``; do not edit."""

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from builtins import type as _type
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, Literal, Unpack, overload

from numpy import ndarray

from retrograd import return_types
from retrograd.core.annotations import DTypeLike, Index, Number, Operand, TensorOrArray
from retrograd.core.array_interface import ArrayInterface
from retrograd.core.tensor import Tensor
from retrograd.core.tensor_types import TensorType
from retrograd.creation.options import Options, ShapedOptions, memory_format
from retrograd.creation.options import layout as _layout
from retrograd.creation.storage import UntypedStorage
from retrograd.device import device
from retrograd.random.generator import Generator

class Methods(ArrayInterface):
    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
    @property
    def T(self) -> Tensor:
        """A view with the dimensions reversed."""
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __array_function__(self, function: Any, types: Iterable[_type], args: Any, kwargs: Any) -> Any:
        """Implement ``np.sum(tensor)`` and the like."""
    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return the namespace with the functions of the array API standard.

        Raises
        ------
        ValueError
            For a version of the standard that it does not follow.
        """
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Implement ``np.exp(tensor)``, ``np.add.reduce(tensor)`` and the like."""
    def __copy__(self) -> Tensor:
        """Return a leaf on the same memory, without ``.grad`` and hooks, but with the attributes attached to this one."""
    def __deepcopy__(self, memo: dict[_int, Any]) -> Tensor:
        """Return a copy of a leaf and of everything that belongs to it: ``.grad``, and the attributes attached to it.

        A parameter is copied without these, as torch does: its copy is for another model, which has no gradients yet.

        Raises
        ------
        RuntimeError
            If it was computed, since the graph behind it cannot be copied.
        """
    def __delitem__(self, index: Any) -> None: ...
    def __divmod__(self, x2: Any) -> tuple[Tensor, Tensor]: ...
    def __eq__(self, other: Operand) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Index) -> Tensor:
        """Return what ``index`` picks: a view for integers, slices, None and ..., a copy for tensors, lists and masks."""
    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Tensor: ...
    def __iand__(self, other: Operand) -> Tensor: ...
    def __ifloordiv__(self, other: Operand) -> Tensor: ...
    def __ilshift__(self, other: Operand) -> Tensor: ...
    def __imod__(self, other: Operand) -> Tensor: ...
    def __imul__(self, other: Operand) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Operand) -> Tensor: ...
    def __ipow__(self, other: Operand) -> Tensor: ...
    def __irshift__(self, other: Operand) -> Tensor: ...
    def __isub__(self, other: Operand) -> Tensor: ...
    def __itruediv__(self, other: Operand) -> Tensor: ...
    def __ixor__(self, other: Operand) -> Tensor: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: TensorOrArray) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: Operand) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
    def __reversed__(self) -> Tensor:
        """The result of ``reversed()``: a copy in reverse order along dimension 0."""
    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: TensorOrArray) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Index, value: Operand) -> None:
        """Write ``value``, broadcast and converted, to what ``index`` picks. Gradients flow to it and to what stays."""
    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def abs(self) -> Tensor:
        """Return the absolute value; of complex numbers it is real. Its derivative at 0 is 0."""
    def abs_(self) -> Tensor:
        """In-place form of :func:`retrograd.abs`."""
    def absolute(self) -> Tensor:
        """Return the absolute value; of complex numbers it is real. Its derivative at 0 is 0."""
    def absolute_(self) -> Tensor:
        """In-place form of :func:`retrograd.abs`."""
    def acos(self) -> Tensor:
        """Return the arccosine, an angle from 0 to π; NaN outside of [-1, 1]."""
    def acos_(self) -> Tensor:
        """In-place form of :func:`retrograd.acos`."""
    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine; NaN below 1."""
    def acosh_(self) -> Tensor:
        """In-place form of :func:`retrograd.acosh`."""
    def add(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """Return ``input + alpha * other``. Older programs write ``add(input, alpha, other)``.

        >>> rg.add(rg.tensor([1., 2.]), rg.tensor([10., 20.]), alpha=0.5)
        tensor([ 6., 12.])
        """
    def add_(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """In-place form of :func:`retrograd.add`."""
    def addbmm(self, batch1: TensorOrArray, batch2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * input + alpha * (batch1 @ batch2).sum(0)`` for batches of matrices."""
    def addbmm_(self, batch1: TensorOrArray, batch2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addbmm`."""
    def addcdiv(self, tensor1: Operand, tensor2: Operand, value: complex = 1) -> Tensor:
        """Return ``input + value * tensor1 / tensor2``.

        Raises
        ------
        RuntimeError
            For integers; use ``input + value * (tensor1 / tensor2)``.
        """
    def addcdiv_(self, tensor1: Operand, tensor2: Operand, value: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addcdiv`."""
    def addcmul(self, tensor1: Operand, tensor2: Operand, value: complex = 1) -> Tensor:
        """Return ``input + value * tensor1 * tensor2``."""
    def addcmul_(self, tensor1: Operand, tensor2: Operand, value: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addcmul`."""
    def addmm(self, mat1: TensorOrArray, mat2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * input + alpha * (mat1 @ mat2)`` for matrices; ``input`` is broadcast to the product."""
    def addmm_(self, mat1: TensorOrArray, mat2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addmm`."""
    def addmv(self, mat: TensorOrArray, vec: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * input + alpha * (mat @ vec)`` for a matrix and a vector."""
    def addmv_(self, mat: TensorOrArray, vec: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addmv`."""
    def addr(self, vec1: TensorOrArray, vec2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * input + alpha * outer(vec1, vec2)`` for vectors, which are promoted to a common dtype."""
    def addr_(self, vec1: TensorOrArray, vec2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.addr`."""
    def adjoint(self) -> Tensor:
        """Return the conjugate transpose of the matrices in the last two dimensions, a view."""
    @overload
    def all(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Return whether all elements over ``dim`` are non-zero."""
    @overload
    def all(self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def all(self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False) -> Tensor: ...
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Return whether all elements are close; see :func:`isclose`."""
    @overload
    def amax(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Return the largest elements over ``dim``. Equal ones share the gradient.

        Raises
        ------
        IndexError
            If one of the dimensions has no elements.
        """
    @overload
    def amax(self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def amax(self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def amin(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Return the smallest elements over ``dim``. Equal ones share the gradient."""
    @overload
    def amin(self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def amin(self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def aminmax(self, dim: _int | None = None, keepdim: _bool = False) -> return_types.aminmax:
        """Return the smallest and the largest elements over ``dim``, as a named tuple ``(min, max)``."""
    @overload
    def aminmax(self, dim: _int | None = None, *, keepdims: _bool) -> return_types.aminmax: ...
    @overload
    def aminmax(self, *, axis: _int | None, keepdims: _bool = False) -> return_types.aminmax: ...
    def angle(self) -> Tensor:
        """Return the angle of complex numbers in radians, from -π to π; 0 or π for real numbers."""
    @overload
    def any(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Return whether any element over ``dim`` is non-zero."""
    @overload
    def any(self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def any(self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False) -> Tensor: ...
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Replace every element by what a Python function returns for it, one by one and slowly.

        >>> rg.tensor([1.0, 4.0]).apply_(lambda value: value + 1)
        tensor([2., 5.])
        """
    def arccos(self) -> Tensor:
        """Return the arccosine, an angle from 0 to π; NaN outside of [-1, 1]."""
    def arccos_(self) -> Tensor:
        """In-place form of :func:`retrograd.acos`."""
    def arccosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine; NaN below 1."""
    def arccosh_(self) -> Tensor:
        """In-place form of :func:`retrograd.acosh`."""
    def arcsin(self) -> Tensor:
        """Return the arcsine, an angle from -π/2 to π/2; NaN outside of [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """In-place form of :func:`retrograd.asin`."""
    def arcsinh(self) -> Tensor:
        """Return the inverse hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """In-place form of :func:`retrograd.asinh`."""
    def arctan(self) -> Tensor:
        """Return the arctangent, an angle from -π/2 to π/2."""
    def arctan2(self, other: Operand) -> Tensor:
        """Return the angle, from -π to π, of the point at ``x = other`` and ``y = input``.

        >>> rg.atan2(rg.tensor([1., -1.]), rg.tensor([-1., -1.]))
        tensor([ 2.3562, -2.3562])
        """
    def arctan2_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.atan2`."""
    def arctan_(self) -> Tensor:
        """In-place form of :func:`retrograd.atan`."""
    def arctanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent; NaN outside of [-1, 1]."""
    def arctanh_(self) -> Tensor:
        """In-place form of :func:`retrograd.atanh`."""
    @overload
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """Return the index of the largest element along ``dim``, the first if several are equal; without ``dim``, in the
        flattened tensor.
        """
    @overload
    def argmax(self, dim: _int | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def argmax(self, *, axis: _int | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """Return the index of the smallest element along ``dim``, the first if several are equal; without ``dim``, in the
        flattened tensor.
        """
    @overload
    def argmin(self, dim: _int | None = None, *, keepdims: _bool) -> Tensor: ...
    @overload
    def argmin(self, *, axis: _int | None, keepdims: _bool = False) -> Tensor: ...
    def argpartition(self, kth: Any, axis: _int | None = -1) -> Tensor:
        """Return the indices that would put the elements on the right side of the ``kth`` in order along ``axis``."""
    @overload
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
        """Return the indices that sort the elements along ``dim``. Equal elements always keep their order."""
    @overload
    def argsort(self, *, axis: _int, descending: _bool = False, stable: _bool = False) -> Tensor: ...
    def argwhere(self) -> Tensor:
        """Return the indices of the elements that are not zero, one row each."""
    def as_strided(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """Return a view of the storage of ``input``: element ``i, j`` is at ``storage_offset + i*stride[0] + j*stride[1]``.

        Parameters
        ----------
        storage_offset
            By default that of ``input``.
        """
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """In-place form of :func:`retrograd.as_strided`: only the shape, the strides and the offset change."""
    def as_strided_scatter(
        self, src: TensorOrArray, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
    ) -> Tensor:
        """Return ``input`` with ``src`` where :func:`as_strided` with these arguments would look."""
    def asin(self) -> Tensor:
        """Return the arcsine, an angle from -π/2 to π/2; NaN outside of [-1, 1]."""
    def asin_(self) -> Tensor:
        """In-place form of :func:`retrograd.asin`."""
    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine."""
    def asinh_(self) -> Tensor:
        """In-place form of :func:`retrograd.asinh`."""
    def astype(
        self, dtype: DTypeLike, order: str = "K", casting: str = "unsafe", subok: _bool = True, copy: _bool = True
    ) -> Tensor:
        """Return ``input`` in another dtype, a copy unless ``copy`` is False; NumPy's name for :meth:`to`.

        Raises
        ------
        TypeError
            If ``casting`` forbids the conversion.
        """
    def atan(self) -> Tensor:
        """Return the arctangent, an angle from -π/2 to π/2."""
    def atan2(self, other: Operand) -> Tensor:
        """Return the angle, from -π to π, of the point at ``x = other`` and ``y = input``.

        >>> rg.atan2(rg.tensor([1., -1.]), rg.tensor([-1., -1.]))
        tensor([ 2.3562, -2.3562])
        """
    def atan2_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.atan2`."""
    def atan_(self) -> Tensor:
        """In-place form of :func:`retrograd.atan`."""
    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent; NaN outside of [-1, 1]."""
    def atanh_(self) -> Tensor:
        """In-place form of :func:`retrograd.atanh`."""
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: _bool | None = None,
        create_graph: _bool = False,
        inputs: Tensor | Iterable[Tensor] | dict[Any, Tensor] | None = None,
    ) -> None:
        """Add the gradients of this tensor to the leaves' ``.grad``; see :func:`retrograd.autograd.backward`."""
    def baddbmm(self, batch1: TensorOrArray, batch2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * input + alpha * (batch1 @ batch2)`` for batches of matrices."""
    def baddbmm_(self, batch1: TensorOrArray, batch2: TensorOrArray, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """In-place form of :func:`retrograd.baddbmm`."""
    def bernoulli(self, p: _float | Tensor | None = None, *, generator: Generator | None = None) -> Tensor:
        """Return 1 with the probabilities in ``input``, and 0 otherwise, in the dtype of ``input``.

        With ``p``, that is the probability, and only the shape and dtype of ``input`` count.

        Raises
        ------
        RuntimeError
            If a probability is not between 0 and 1.
        """
    def bernoulli_(self, p: Any = 0.5, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with 1, with probability ``p`` (a number or a tensor of them), or 0.

        Raises
        ------
        RuntimeError
            If a probability is not between 0 and 1.
        """
    def bfloat16(self, memory_format: memory_format | None = None) -> Tensor:
        """Not available: raises TypeError, as NumPy has no such dtype."""
    def bincount(self, weights: TensorOrArray | None = None, minlength: _int = 0) -> Tensor:
        """Return how often each of 0, 1, ... occurs in the vector ``input``, or the sum of the ``weights`` of each."""
    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bits set in both, of integers or bools."""
    def bitwise_and_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_and`."""
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """Return ``input * 2 ** other`` for integers, without regard to overflow."""
    def bitwise_left_shift_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_left_shift`."""
    def bitwise_not(self) -> Tensor:
        """Return the bits inverted, of integers or bools."""
    def bitwise_not_(self) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_not`."""
    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bits set in one or both, of integers or bools."""
    def bitwise_or_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_or`."""
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """Return ``floor(input / 2 ** other)`` for integers."""
    def bitwise_right_shift_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_right_shift`."""
    def bitwise_xor(self, other: Operand) -> Tensor:
        """Return the bits set in exactly one, of integers or bools."""
    def bitwise_xor_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.bitwise_xor`."""
    def bmm(self, mat2: TensorOrArray) -> Tensor:
        """Return the products of two batches of matrices, ``(b, n, k) @ (b, k, m) -> (b, n, m)``, without broadcasting."""
    def bool(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as bool; itself if it is that already."""
    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor:
        """Repeat ``input`` along dimensions of length 1 and along new leading ones, without copying."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor: ...
    def byte(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as uint8; itself if it is that already."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with samples from the Cauchy distribution of scale ``sigma``.

        Raises
        ------
        RuntimeError
            If the scale is not positive.
        """
    def cdouble(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as complex128; itself if it is that already."""
    def ceil(self) -> Tensor:
        """Return the smallest integer not below ``input``, in the same dtype."""
    def ceil_(self) -> Tensor:
        """In-place form of :func:`retrograd.ceil`."""
    def cfloat(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as complex64; itself if it is that already."""
    def char(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as int8; itself if it is that already."""
    def cholesky(self, upper: _bool = False) -> Tensor:
        """Return the lower triangle L with ``A = L Lᴴ``, or the ``upper`` one U with ``A = Uᴴ U``.

        Only that triangle of the symmetric (Hermitian) matrix ``A`` is read. Raises
        :class:`retrograd.linalg.LinAlgError` if it is not positive definite.
        """
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """Return the inverse of ``L Lᴴ`` (``Uᴴ U`` for an ``upper`` factor in place of ``L``)."""
    def cholesky_solve(self, L: TensorOrArray, upper: _bool = False) -> Tensor:
        """Return the solution X of ``L Lᴴ X = B`` (``Uᴴ U X = B`` for an ``upper`` factor in place of ``L``)."""
    def choose(self, choices: Any, mode: str = "raise") -> Tensor:
        """Return at every index the element of the one of ``choices`` that this tensor of integers selects there."""
    @overload
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Cut a tensor into at most ``chunks`` views of equal length along ``dim``; the last may be shorter."""
    @overload
    def chunk(self, chunks: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return ``input`` limited to the range from ``min`` to ``max``, which are numbers or tensors; None is no limit.

        The gradient passes at the limits, too. If ``min > max``, the result is ``max``.

        Raises
        ------
        RuntimeError
            If both limits are None, or a number among them does not fit into the dtype of the result.

        Examples
        --------
        >>> rg.clamp(rg.tensor([-1., 0.5, 2.]), 0, 1)
        tensor([0.0000, 0.5000, 1.0000])
        """
    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """In-place form of :func:`retrograd.clamp`."""
    def clamp_max(self, max: Operand) -> Tensor:
        """Return ``input``, or ``max`` where that is smaller. The gradient passes to ``input`` if they are equal."""
    def clamp_max_(self, max: Operand) -> Tensor:
        """In-place form of :func:`retrograd.clamp_max`."""
    def clamp_min(self, min: Operand) -> Tensor:
        """Return ``input``, or ``min`` where that is larger. The gradient passes to ``input`` if they are equal."""
    def clamp_min_(self, min: Operand) -> Tensor:
        """In-place form of :func:`retrograd.clamp_min`."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return ``input`` limited to the range from ``min`` to ``max``, which are numbers or tensors; None is no limit.

        The gradient passes at the limits, too. If ``min > max``, the result is ``max``.

        Raises
        ------
        RuntimeError
            If both limits are None, or a number among them does not fit into the dtype of the result.

        Examples
        --------
        >>> rg.clamp(rg.tensor([-1., 0.5, 2.]), 0, 1)
        tensor([0.0000, 0.5000, 1.0000])
        """
    def clip_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """In-place form of :func:`retrograd.clamp`."""
    def clone(self, memory_format: memory_format | None = None) -> Tensor:
        """Return a copy, through which gradients flow, with the order of the elements in memory kept."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """Return the rows of all combinations of ``r`` elements of a vector, as :mod:`itertools` orders them."""
    def compress(self, condition: Any, axis: _int | None = None) -> Tensor:
        """Return the slices along ``axis`` for which ``condition`` is true."""
    def conj(self) -> Tensor:
        """Return the complex conjugate, a view whose numbers are computed when they are needed; a real tensor itself."""
    def conj_physical(self) -> Tensor:
        """Return the complex conjugate; a real tensor is returned itself."""
    def conj_physical_(self) -> Tensor:
        """In-place form of :func:`retrograd.conj_physical`."""
    def conjugate(self) -> Tensor:
        """Return the complex conjugate, a view whose numbers are computed when they are needed; a real tensor itself."""
    def contiguous(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` if its elements lie in memory in index order, otherwise a copy whose elements do."""
    def copy(self, order: str = "C") -> Tensor:
        """Return a copy, through which gradients flow; NumPy's name for :meth:`clone`."""
    def copy_(self, other: Operand, non_blocking: _bool = False) -> Tensor:
        """Copy ``other`` over the elements of this tensor, broadcast and converted, from whatever device it is on."""
    def copysign(self, other: Operand) -> Tensor:
        """Return ``|input|`` with the sign of ``other``; integers give the default float dtype."""
    def copysign_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.copysign`."""
    def corrcoef(self) -> Tensor:
        """Return the correlation coefficients of the variables in the rows of ``input``: :func:`cov` scaled to 1."""
    def cos(self) -> Tensor:
        """Return the cosine of ``input`` in radians."""
    def cos_(self) -> Tensor:
        """In-place form of :func:`retrograd.cos`."""
    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """In-place form of :func:`retrograd.cosh`."""
    @overload
    def count_nonzero(self, dim: _int | Sequence[_int] | None = None) -> Tensor:
        """Return the number of non-zero elements over ``dim``."""
    @overload
    def count_nonzero(self, *, axis: _int | Sequence[_int] | None) -> Tensor: ...
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Return the covariance matrix of the variables in the rows of ``input``, whose columns are observations.

        ``fweights`` says how often each observation was made, ``aweights`` how much each counts.
        """
    def cpu(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` in CPU memory; itself if it is there."""
    @overload
    def cross(self, other: TensorOrArray, dim: _int | None = None) -> Tensor:
        """Return the cross products of the 3-vectors along ``dim``, by default the first dimension of length 3."""
    @overload
    def cross(self, other: TensorOrArray, *, axis: _int | None) -> Tensor: ...
    def cuda(
        self,
        device: device | str | _int | None = None,
        non_blocking: _bool = False,
        memory_format: memory_format | None = None,
    ) -> Tensor:
        """Return ``input`` on a GPU (the current one by default); itself if it is there."""
    @overload
    def cummax(self, dim: _int) -> return_types.cummax:
        """Return the largest elements up to each one along ``dim`` and their indices, the last if several are equal.

        The result is a named tuple ``(values, indices)``.
        """
    @overload
    def cummax(self, *, axis: _int) -> return_types.cummax: ...
    @overload
    def cummin(self, dim: _int) -> return_types.cummin:
        """Return the smallest elements up to each one along ``dim`` and their indices, the last if several are equal.

        The result is a named tuple ``(values, indices)``.
        """
    @overload
    def cummin(self, *, axis: _int) -> return_types.cummin: ...
    @overload
    def cumprod(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """Return the products of the elements up to each one along ``dim``. Integers are multiplied in int64.

        The derivative is exact with zeros among the elements, and so are the higher ones.
        """
    @overload
    def cumprod(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    @overload
    def cumprod_(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """In-place form of :func:`retrograd.cumprod`."""
    @overload
    def cumprod_(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    @overload
    def cumsum(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """Return the sums of the elements up to each one along ``dim``. Integers are summed in int64.

        >>> rg.cumsum(rg.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([1., 3., 6.])
        """
    @overload
    def cumsum(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    @overload
    def cumsum_(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """In-place form of :func:`retrograd.cumsum`."""
    @overload
    def cumsum_(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    def deg2rad(self) -> Tensor:
        """Return angles in degrees as radians."""
    def deg2rad_(self) -> Tensor:
        """In-place form of :func:`retrograd.deg2rad`."""
    def det(self) -> Tensor:
        """Return the determinant of a square matrix, or of every matrix of a batch."""
    def diag(self, diagonal: _int = 0) -> Tensor:
        """Return the matrix with the vector ``input`` on its diagonal, or a copy of the diagonal of a matrix."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Return zeros with the vectors in the last dimension of ``input`` on the diagonals of ``dim1`` and ``dim2``."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """Return the matrix with the elements of ``input`` on its diagonal."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """Return the diagonal of dimensions ``dim1`` and ``dim2`` as a view, in a new last dimension.

        >>> rg.diagonal(rg.arange(6).reshape(2, 3), offset=1).tolist()
        [1, 5]
        """
    def diagonal_scatter(self, src: TensorOrArray, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """Return ``input`` with ``src`` on a diagonal."""
    @overload
    def diff(
        self, n: _int = 1, dim: _int = -1, prepend: TensorOrArray | None = None, append: TensorOrArray | None = None
    ) -> Tensor:
        """Return the ``n``-th differences of neighbours along ``dim``, with ``prepend`` and ``append`` attached first.

        >>> rg.diff(rg.tensor([1.0, 4.0, 9.0]))
        tensor([3., 5.])
        """
    @overload
    def diff(
        self, n: _int = 1, *, axis: _int, prepend: TensorOrArray | None = None, append: TensorOrArray | None = None
    ) -> Tensor: ...
    def digamma(self) -> Tensor:
        """Return the logarithmic derivative of the gamma function."""
    def digamma_(self) -> Tensor:
        """In-place form of :func:`retrograd.digamma`."""
    def dim_order(self, *, ambiguity_check: _bool | Sequence[Any] = False) -> tuple[_int, ...]:
        """Return the dimensions in the order of their strides, the largest first.

        Parameters
        ----------
        ambiguity_check
            Whether to raise if another order would be just as valid: dimensions of length 1, expanded or of equal strides
            can be swapped. Given memory formats, the order is taken for unique if the tensor is in exactly one of these.

        Raises
        ------
        RuntimeError
            If the order is not unique.
        """
    def dist(self, other: TensorOrArray, p: _float = 2) -> Tensor:
        """Return the p-norm of ``input - other``."""
    def div(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return ``input / other``, rounded if ``rounding_mode`` is given.

        Parameters
        ----------
        rounding_mode
            None for the true quotient (integers give the default float dtype), ``"trunc"`` to round it towards zero, or
            ``"floor"`` to round it down. A rounded quotient has the operands' dtype and the derivative 0.

        Examples
        --------
        >>> rg.div(rg.tensor([-7, 7]), 2, rounding_mode="trunc")
        tensor([-3,  3])
        """
    def div_(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """In-place form of :func:`retrograd.div`."""
    def divide(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return ``input / other``, rounded if ``rounding_mode`` is given.

        Parameters
        ----------
        rounding_mode
            None for the true quotient (integers give the default float dtype), ``"trunc"`` to round it towards zero, or
            ``"floor"`` to round it down. A rounded quotient has the operands' dtype and the derivative 0.

        Examples
        --------
        >>> rg.div(rg.tensor([-7, 7]), 2, rounding_mode="trunc")
        tensor([-3,  3])
        """
    def divide_(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """In-place form of :func:`retrograd.div`."""
    def dot(self, tensor: TensorOrArray) -> Tensor:
        """Return the sum of the products of the elements of two vectors; nothing is conjugated."""
    def double(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as float64; itself if it is that already."""
    def dsplit(self, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]:
        """Cut a tensor into views along its third dimension."""
    def eq(self, other: Operand) -> Tensor:
        """Return where ``input == other``."""
    def eq_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.eq`."""
    def equal(self, other: Tensor) -> _bool:
        """Return whether two tensors have the same shape and the same elements."""
    def erf(self) -> Tensor:
        """Return the error function ``2 / sqrt(pi) * integral of exp(-t**2) from 0 to input``.

        It works without SciPy, too: :func:`gelu` needs it.
        """
    def erf_(self) -> Tensor:
        """In-place form of :func:`retrograd.erf`."""
    def erfc(self) -> Tensor:
        """Return ``1 - erf(input)``, accurate where ``erf`` is close to 1."""
    def erfc_(self) -> Tensor:
        """In-place form of :func:`retrograd.erfc`."""
    def erfinv(self) -> Tensor:
        """Return the ``x`` with ``erf(x) == input``: infinite at -1 and 1, NaN outside."""
    def erfinv_(self) -> Tensor:
        """In-place form of :func:`retrograd.erfinv`."""
    def exp(self) -> Tensor:
        """Return e raised to ``input``.

        >>> rg.exp(rg.tensor([0., 1.]))
        tensor([1.0000, 2.7183])
        """
    def exp2(self) -> Tensor:
        """Return 2 raised to ``input``."""
    def exp2_(self) -> Tensor:
        """In-place form of :func:`retrograd.exp2`."""
    def exp_(self) -> Tensor:
        """In-place form of :func:`retrograd.exp`."""
    @overload
    def expand(self, size: Sequence[_int]) -> Tensor:
        """Repeat ``input`` along dimensions of length 1 and along new leading ones, without copying; -1 keeps a length."""
    @overload
    def expand(self, *size: _int) -> Tensor: ...
    def expand_as(self, other: TensorOrArray) -> Tensor:
        """Repeat ``input`` to the shape of ``other``, without copying."""
    def expm1(self) -> Tensor:
        """Return ``exp(input) - 1``, accurate for ``input`` near 0."""
    def expm1_(self) -> Tensor:
        """In-place form of :func:`retrograd.expm1`."""
    def exponential_(self, lambd: _float = 1.0, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with samples from the exponential distribution of rate ``lambd``; none of them is 0.

        Raises
        ------
        RuntimeError
            If the rate is not positive.
        """
    def fill(self, value: Number) -> None:
        """Write ``value`` everywhere, in place; NumPy's name for :meth:`fill_`."""
    def fill_(self, value: Number) -> Tensor:
        """In-place form of :func:`retrograd.fill`."""
    def fill_diagonal_(self, fill_value: complex, wrap: _bool = False) -> Tensor:
        """Put ``fill_value`` on the main diagonal, in place; with ``wrap`` a tall matrix gets several, one below the other.

        Raises
        ------
        RuntimeError
            If there are fewer than two dimensions, or more of different lengths.
        """
    def fix(self) -> Tensor:
        """Return ``input`` rounded towards zero, in the same dtype."""
    def fix_(self) -> Tensor:
        """In-place form of :func:`retrograd.trunc`."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """Join the dimensions from ``start_dim`` to ``end_dim`` into one; a view where possible, or the tensor itself."""
    @overload
    def flip(self, dims: _int | Sequence[_int]) -> Tensor:
        """Return a copy with the order of the elements reversed along ``dims``.

        >>> rg.flip(rg.arange(3), (0,)).tolist()
        [2, 1, 0]
        """
    @overload
    def flip(self, *, axes: _int | Sequence[_int]) -> Tensor: ...
    @overload
    def flip(self, *dims: _int) -> Tensor: ...
    def fliplr(self) -> Tensor:
        """Return a copy with the columns in reverse order."""
    def flipud(self) -> Tensor:
        """Return a copy with the rows in reverse order."""
    def float(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as float32; itself if it is that already."""
    def float_power(self, exponent: Operand) -> Tensor:
        """Return ``input ** exponent`` in double precision, as ``float64`` or ``complex128``."""
    def float_power_(self, exponent: Operand) -> Tensor:
        """In-place form of :func:`retrograd.float_power`, for tensors in double precision."""
    def floor(self) -> Tensor:
        """Return the largest integer not above ``input``, in the same dtype."""
    def floor_(self) -> Tensor:
        """In-place form of :func:`retrograd.floor`."""
    def floor_divide(self, other: Operand) -> Tensor:
        """Return the quotient rounded down, ``floor(input / other)``.

        As in torch it cannot be differentiated; ``div(..., rounding_mode="floor")`` can, and its derivative is 0.

        Raises
        ------
        RuntimeError
            If an integer is divided by zero.
        """
    def floor_divide_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.floor_divide`."""
    def fmax(self, other: Operand) -> Tensor:
        """Return the larger of the two, and the other one if one is NaN. Of equal operands ``input`` gets the gradient."""
    def fmin(self, other: Operand) -> Tensor:
        """Return the smaller of the two, and the other one if one is NaN. Of equal operands ``input`` gets the gradient."""
    def fmod(self, other: Operand) -> Tensor:
        """Return the remainder of division rounded towards zero, which has the sign of ``input``.

        >>> rg.fmod(rg.tensor([-7., 7.]), 3)
        tensor([-1.,  1.])
        """
    def fmod_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.fmod`."""
    def frac(self) -> Tensor:
        """Return ``input - trunc(input)``, which has the sign of ``input``."""
    def frac_(self) -> Tensor:
        """In-place form of :func:`retrograd.frac`."""
    def frexp(self) -> return_types.frexp:
        """Return ``(mantissa, exponent)`` with ``input = mantissa * 2 ** exponent`` and ``0.5 <= |mantissa| < 1``.

        Raises
        ------
        RuntimeError
            If the dtype is not real floating point.
        """
    @overload
    def gather(self, dim: _int, index: TensorOrArray, sparse_grad: _bool = False) -> Tensor:
        """Pick an element of ``dim`` for each entry of ``index``; ``out[i, j] = input[i, index[i, j]]`` for ``dim=1``."""
    @overload
    def gather(self, *, axis: _int, index: TensorOrArray, sparse_grad: _bool = False) -> Tensor: ...
    def gcd(self, other: Operand) -> Tensor:
        """Return the greatest common divisor of integers, which is not negative."""
    def gcd_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.gcd`."""
    def ge(self, other: Operand) -> Tensor:
        """Return where ``input >= other``. Complex numbers have no order."""
    def ge_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.ge`."""
    def geometric_(self, p: _float, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with how many trials of success probability ``p`` it takes until the first succeeds.

        Raises
        ------
        RuntimeError
            If ``p`` is not between 0 and 1, exclusive.
        """
    def geqrf(self) -> return_types.geqrf:
        """Return the QR decomposition as LAPACK keeps it: R, below its diagonal the vectors vᵢ, and the τᵢ.

        :func:`ormqr` multiplies by Q. It cannot be differentiated; :func:`linalg.qr` can. Shapes: ``(..., m, n)`` gives
        ``(..., m, n)`` and ``(..., k)`` with ``k = min(m, n)``.
        """
    def ger(self, vec2: TensorOrArray) -> Tensor:
        """Return the outer product of two vectors, ``input[i] * vec2[j]``."""
    def get_device(self) -> _int:
        """Return the number of the GPU that a tensor is on, and -1 for the CPU."""
    @property
    def grad_dtype(self) -> Tensor:
        """The dtype of ``.grad``, which is that of the tensor. There is no other to choose; only leaves have it."""
    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None: ...
    def greater(self, other: Operand) -> Tensor:
        """Return where ``input > other``. Complex numbers have no order."""
    def greater_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.gt`."""
    def greater_equal(self, other: Operand) -> Tensor:
        """Return where ``input >= other``. Complex numbers have no order."""
    def greater_equal_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.ge`."""
    def gt(self, other: Operand) -> Tensor:
        """Return where ``input > other``. Complex numbers have no order."""
    def gt_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.gt`."""
    def half(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as float16; itself if it is that already."""
    def hardshrink(self, lambd: _float = 0.5) -> Tensor:
        """Return ``input``, and 0 where it is between ``-lambd`` and ``lambd``."""
    def heaviside(self, values: Operand) -> Tensor:
        """Return 0 where ``input`` is negative, 1 where it is positive, and ``values`` where it is 0.

        As in torch it cannot be differentiated.

        Raises
        ------
        RuntimeError
            If the dtypes differ.
        """
    def heaviside_(self, values: Operand) -> Tensor:
        """In-place form of :func:`retrograd.heaviside`."""
    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0) -> Tensor:
        """Return how many elements fall into each of ``bins`` intervals of equal width from ``min`` to ``max``.

        If these are equal, they are the extremes of the elements.
        """
    def histogram(
        self,
        bins: _int | Tensor | ndarray | Sequence[Any] = 100,
        range: tuple[_float, _float] | None = None,
        weight: TensorOrArray | None = None,
        density: _bool = False,
    ) -> return_types.histogram:
        """Return how many elements fall into each bin, and the edges of the bins, as a named tuple ``(hist, bin_edges)``.

        ``bins`` is the number of bins of equal width (over ``range``, if given) or a sorted vector of their edges.
        """
    def hsplit(self, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]:
        """Cut a tensor into views along its second dimension (a vector along its only one)."""
    def hypot(self, other: Operand) -> Tensor:
        """Return ``sqrt(input² + other²)`` without intermediate overflow."""
    def hypot_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.hypot`."""
    def i0(self) -> Tensor:
        """Return the modified Bessel function of the first kind of order 0."""
    def i0_(self) -> Tensor:
        """In-place form of :func:`retrograd.i0`."""
    def igamma(self, other: Operand) -> Tensor:
        """Return the regularised lower incomplete gamma function of order ``input`` at ``other``; DLMF 8.2."""
    def igamma_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.igamma`."""
    def igammac(self, other: Operand) -> Tensor:
        """Return the regularised upper incomplete gamma function, ``1 - igamma(input, other)``."""
    def igammac_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.igammac`."""
    @property
    def imag(self) -> Tensor:
        """Return the imaginary part of a complex tensor, a view.

        Raises
        ------
        RuntimeError
            If the tensor is real.
        """
    @imag.setter
    def imag(self, value: Operand) -> None: ...
    @overload
    def index_add(self, dim: _int, index: TensorOrArray, source: TensorOrArray, alpha: _float = 1) -> Tensor:
        """Add ``alpha`` times each position of ``source`` to the position of ``dim`` given by ``index``."""
    @overload
    def index_add(self, *, axis: _int, index: TensorOrArray, source: TensorOrArray, alpha: _float = 1) -> Tensor: ...
    @overload
    def index_add_(self, dim: _int, index: TensorOrArray, source: TensorOrArray, alpha: _float = 1) -> Tensor:
        """In-place form of :func:`retrograd.index_add`."""
    @overload
    def index_add_(self, *, axis: _int, index: TensorOrArray, source: TensorOrArray, alpha: _float = 1) -> Tensor: ...
    @overload
    def index_copy(self, dim: _int, index: TensorOrArray, source: TensorOrArray) -> Tensor:
        """Put each position of ``source`` at the position of ``dim`` given by ``index``."""
    @overload
    def index_copy(self, *, axis: _int, index: TensorOrArray, source: TensorOrArray) -> Tensor: ...
    @overload
    def index_copy_(self, dim: _int, index: TensorOrArray, source: TensorOrArray) -> Tensor:
        """In-place form of :func:`retrograd.index_copy`."""
    @overload
    def index_copy_(self, *, axis: _int, index: TensorOrArray, source: TensorOrArray) -> Tensor: ...
    @overload
    def index_fill(self, dim: _int, index: TensorOrArray, value: Operand) -> Tensor:
        """Put ``value``, a number or a 0-d tensor, at the positions ``index`` of ``dim``."""
    @overload
    def index_fill(self, *, axis: _int, index: TensorOrArray, value: Operand) -> Tensor: ...
    @overload
    def index_fill_(self, dim: _int, index: TensorOrArray, value: Operand) -> Tensor:
        """In-place form of :func:`retrograd.index_fill`."""
    @overload
    def index_fill_(self, *, axis: _int, index: TensorOrArray, value: Operand) -> Tensor: ...
    def index_put(
        self, indices: Sequence[TensorOrArray | None], values: TensorOrArray, accumulate: _bool = False
    ) -> Tensor:
        """Return ``input`` with ``values`` at the indices, or added to the values there.

        Parameters
        ----------
        indices
            A tuple of integer tensors or masks, as in ``input[indices]``.
        """
    def index_put_(
        self, indices: Sequence[TensorOrArray | None], values: TensorOrArray, accumulate: _bool = False
    ) -> Tensor:
        """In-place form of :func:`retrograd.index_put`."""
    @overload
    def index_reduce(
        self, dim: _int, index: TensorOrArray, source: TensorOrArray, reduce: str, *, include_self: _bool = True
    ) -> Tensor:
        """Reduce each position of ``source`` into the position of ``dim`` given by ``index``, by :func:`scatter_reduce`."""
    @overload
    def index_reduce(
        self, *, axis: _int, index: TensorOrArray, source: TensorOrArray, reduce: str, include_self: _bool = True
    ) -> Tensor: ...
    def index_reduce_(
        self, dim: _int, index: TensorOrArray, source: TensorOrArray, reduce: str, *, include_self: _bool = True
    ) -> Tensor:
        """In-place form of :func:`retrograd.index_reduce`."""
    @overload
    def index_select(self, dim: _int, index: TensorOrArray) -> Tensor:
        """Return the positions ``index``, a vector, of dimension ``dim``."""
    @overload
    def index_select(self, *, axis: _int, index: TensorOrArray) -> Tensor: ...
    def inner(self, other: TensorOrArray) -> Tensor:
        """Return the sums of the products over the last dimensions of ``input`` and ``other``.

        Shapes: ``(..., k)`` and ``(*, k)`` give ``(..., *)``. If one of them is 0-d, they are multiplied.
        """
    def int(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as int32; itself if it is that already."""
    def inverse(self) -> Tensor:
        """Return the inverse of a square matrix, or of every matrix of a batch.

        Raises :class:`retrograd.linalg.LinAlgError` if one of them is singular.
        """
    def is_conj(self) -> _bool:
        """Whether ``input`` is a view on the conjugates of its numbers, as ``conj()`` makes it."""
    @property
    def is_cpu(self) -> _bool:
        """Whether the elements are in the computer's memory."""
    @property
    def is_meta(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_mkldnn(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_mps(self) -> _bool:
        """False: there are no such tensors here."""
    def is_neg(self) -> _bool:
        """Whether ``input`` is a view on the negatives of its numbers, as ``conj().imag`` is."""
    @property
    def is_nested(self) -> _bool:
        """False: there are no such tensors here."""
    def is_nonzero(self) -> _bool:
        """Return whether the only element of ``input`` is not 0."""
    def is_pinned(self, device: device | str | _int | None = None) -> _bool:
        """Return False: memory is not pinned."""
    @property
    def is_quantized(self) -> _bool:
        """False: there are no such tensors here."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether two tensors have the same shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both tensors are the same elements of the same storage, in the same order."""
    @property
    def is_sparse(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_sparse_csr(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_vulkan(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_xla(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_xpu(self) -> _bool:
        """False: there are no such tensors here."""
    def isclose(self, other: Operand, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """Return where ``|input - other| <= atol + rtol * |other|``, or both are the same infinity.

        Parameters
        ----------
        equal_nan
            Whether NaN is close to NaN.

        Raises
        ------
        RuntimeError
            If the dtypes differ, or a tolerance is negative.
        """
    def isfinite(self) -> Tensor:
        """Return where ``input`` is neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Return where ``input`` is infinite; of complex numbers, where a part is."""
    def isnan(self) -> Tensor:
        """Return where ``input`` is NaN; of complex numbers, where a part is."""
    def isneginf(self) -> Tensor:
        """Return where ``input`` is negative infinity."""
    def isposinf(self) -> Tensor:
        """Return where ``input`` is positive infinity."""
    def isreal(self) -> Tensor:
        """Return where the imaginary part is 0; everywhere, for real dtypes."""
    def istft(
        self,
        n_fft: _int,
        hop_length: _int | None = None,
        win_length: _int | None = None,
        window: Tensor | None = None,
        center: _bool = True,
        normalized: _bool = False,
        onesided: _bool | None = None,
        length: _int | None = None,
        return_complex: _bool = False,
    ) -> Tensor:
        """Return the signal whose short-time Fourier transform is nearest to ``input``: the inverse of :func:`stft`.

        The parameters are those of :func:`stft`, and should be the same. After D. Griffin and J. Lim, "Signal estimation
        from modified short-time Fourier transform" (1984): the frames are multiplied by the window, added where they were,
        and divided by the sum of the squared windows there.

        Parameters
        ----------
        length
            The length of the signal, for one that does not end with a frame.
        return_complex
            Whether the signal is complex.

        Raises
        ------
        RuntimeError
            If a shape does not fit, or the windows leave a gap.
        """
    def kron(self, other: TensorOrArray) -> Tensor:
        """Return the Kronecker product: ``input`` with every element replaced by that element times ``other``.

        The shorter shape is filled up with ones in front; the shape of the result is the product of the two.
        """
    @overload
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> return_types.kthvalue:
        """Return the ``k``-th smallest values along ``dim``, counted from 1, as a named tuple ``(values, indices)``."""
    @overload
    def kthvalue(self, k: _int, dim: _int = -1, *, keepdims: _bool) -> return_types.kthvalue: ...
    @overload
    def kthvalue(self, k: _int, *, axis: _int, keepdims: _bool = False) -> return_types.kthvalue: ...
    @property
    def layout(self) -> _layout:
        """How the elements are kept: ``retrograd.strided``."""
    def lcm(self, other: Operand) -> Tensor:
        """Return the least common multiple of integers, which is not negative."""
    def lcm_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.lcm`."""
    def ldexp(self, other: Operand) -> Tensor:
        """Return ``input * 2 ** other``; integers give the default float dtype."""
    def ldexp_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.ldexp`."""
    def le(self, other: Operand) -> Tensor:
        """Return where ``input <= other``. Complex numbers have no order."""
    def le_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.le`."""
    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """Return ``input + weight * (end - input)``: ``input`` for the weight 0 and ``end`` for the weight 1."""
    def lerp_(self, end: Operand, weight: Operand) -> Tensor:
        """In-place form of :func:`retrograd.lerp`."""
    def less(self, other: Operand) -> Tensor:
        """Return where ``input < other``. Complex numbers have no order."""
    def less_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.lt`."""
    def less_equal(self, other: Operand) -> Tensor:
        """Return where ``input <= other``. Complex numbers have no order."""
    def less_equal_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.le`."""
    def lgamma(self) -> Tensor:
        """Return the logarithm of the absolute value of the gamma function."""
    def lgamma_(self) -> Tensor:
        """In-place form of :func:`retrograd.lgamma`."""
    def log(self) -> Tensor:
        """Return the natural logarithm.

        >>> rg.log(rg.tensor([1., 10.]))
        tensor([0.0000, 2.3026])
        """
    def log10(self) -> Tensor:
        """Return the logarithm to base 10."""
    def log10_(self) -> Tensor:
        """In-place form of :func:`retrograd.log10`."""
    def log1p(self) -> Tensor:
        """Return ``log(1 + input)``, accurate for ``input`` near 0."""
    def log1p_(self) -> Tensor:
        """In-place form of :func:`retrograd.log1p`."""
    def log2(self) -> Tensor:
        """Return the logarithm to base 2."""
    def log2_(self) -> Tensor:
        """In-place form of :func:`retrograd.log2`."""
    def log_(self) -> Tensor:
        """In-place form of :func:`retrograd.log`."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with e raised to samples from a normal distribution.

        Raises
        ------
        RuntimeError
            If the standard deviation is not positive.
        """
    @overload
    def log_softmax(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """Return ``log(softmax(input, dim))``, without overflow or loss of small probabilities."""
    @overload
    def log_softmax(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    def logaddexp(self, other: Operand) -> Tensor:
        """Return ``log(exp(input) + exp(other))`` without overflow.

        >>> rg.logaddexp(rg.tensor([-1000.]), rg.tensor([-1000.]))
        tensor([-999.3068])
        """
    def logaddexp2(self, other: Operand) -> Tensor:
        """Return ``log2(2 ** input + 2 ** other)`` without overflow."""
    @overload
    def logcumsumexp(self, dim: _int) -> Tensor:
        """Return ``log(cumsum(exp(input)))`` along ``dim``, safe from overflow."""
    @overload
    def logcumsumexp(self, *, axis: _int) -> Tensor: ...
    def logdet(self) -> Tensor:
        """Return the logarithm of the determinant; NaN where that is negative, ``-inf`` where it is 0."""
    def logical_and(self, other: Operand) -> Tensor:
        """Return where both are true. Numbers are true if they are not 0; NaN is."""
    def logical_and_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.logical_and`."""
    def logical_not(self) -> Tensor:
        """Return where ``input`` is false, that is, 0."""
    def logical_not_(self) -> Tensor:
        """In-place form of :func:`retrograd.logical_not`."""
    def logical_or(self, other: Operand) -> Tensor:
        """Return where one or both are true."""
    def logical_or_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.logical_or`."""
    def logical_xor(self, other: Operand) -> Tensor:
        """Return where exactly one is true."""
    def logical_xor_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.logical_xor`."""
    def logit(self, eps: _float | None = None) -> Tensor:
        """Return ``log(input / (1 - input))``, with ``input`` first clamped to ``[eps, 1 - eps]`` if ``eps`` is given."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """In-place form of :func:`retrograd.logit`."""
    @overload
    def logsumexp(self, dim: _int | Sequence[_int], keepdim: _bool = False) -> Tensor:
        """Return ``log(sum(exp(input)))`` over ``dim``, safe from overflow."""
    @overload
    def logsumexp(self, dim: _int | Sequence[_int], *, keepdims: _bool) -> Tensor: ...
    @overload
    def logsumexp(self, *, axis: _int | Sequence[_int], keepdims: _bool = False) -> Tensor: ...
    def long(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as int64; itself if it is that already."""
    def lt(self, other: Operand) -> Tensor:
        """Return where ``input < other``. Complex numbers have no order."""
    def lt_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.lt`."""
    @overload
    def lu(self, pivot: _bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]:
        """Return ``(LU, pivots)``, and with ``get_infos`` also ``info``; :func:`linalg.lu_factor` is newer."""
    @overload
    def lu(self, pivot: _bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]: ...
    def lu_solve(self, LU_data: TensorOrArray, LU_pivots: TensorOrArray) -> Tensor:
        """Return the solution X of ``A X = b`` from the factors of ``A``; :func:`linalg.lu_solve` is newer."""
    @property
    def mH(self) -> Tensor:
        """The matrices' conjugate transposes."""
    @property
    def mT(self) -> Tensor:
        """The matrices transposed, as a view."""
    def map_(self, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Replace every element by what a Python function returns for it and the element of ``other``, slowly."""
    def masked_fill(self, mask: TensorOrArray, value: Operand) -> Tensor:
        """Put ``value``, a number or a 0-d tensor, where ``mask`` (broadcast with ``input``) is true."""
    def masked_fill_(self, mask: TensorOrArray, value: Operand) -> Tensor:
        """In-place form of :func:`retrograd.masked_fill`."""
    def masked_scatter(self, mask: TensorOrArray, source: TensorOrArray) -> Tensor:
        """Put the elements of ``source``, one after the other, where ``mask`` (broadcast with ``input``) is true."""
    def masked_scatter_(self, mask: TensorOrArray, source: TensorOrArray) -> Tensor:
        """In-place form of :func:`retrograd.masked_scatter`."""
    def masked_select(self, mask: TensorOrArray) -> Tensor:
        """Return the elements where ``mask`` (broadcast with ``input``) is true, as a vector."""
    def matmul(self, other: TensorOrArray) -> Tensor:
        """Return the matrix product ``input @ other``.

        Matrices in the last two dimensions are multiplied, the dimensions before them are broadcast. A vector on the left
        counts as a row, one on the right as a column; that dimension is missing from the result.

        Shapes: ``(..., n, k) @ (..., k, m) -> (..., n, m)``. Raises RuntimeError if the shapes do not fit or the dtypes
        differ.

        >>> rg.matmul(rg.ones(2, 3), rg.ones(3, 4)).shape
        retrograd.Size([2, 4])
        """
    def matrix_exp(self) -> Tensor:
        """Return the matrix exponential, ``I + A + A²/2! + A³/3! + ...``."""
    def matrix_power(self, n: _int) -> Tensor:
        """Return the ``n``-th power of a square matrix, by repeated squaring; of the inverse, if ``n`` is negative."""
    @overload
    def max(self) -> Tensor:
        """Return the largest element; or those along ``dim`` with their indices; or, of two tensors, the larger elements.

        ``max(x)`` shares the gradient among equal elements; ``max(x, dim)`` gives it to the one it picked and returns a
        named tuple ``(values, indices)``; ``max(x, y)`` is ``maximum(x, y)``.

        >>> rg.max(rg.tensor([[1.0, 3.0], [4.0, 2.0]]), dim=1).indices
        tensor([1, 0])
        """
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> return_types.max: ...
    @overload
    def max(self, dim: _int, *, keepdims: _bool) -> return_types.max: ...
    @overload
    def max(self, *, axis: _int, keepdims: _bool = False) -> return_types.max: ...
    @overload
    def max(self, other: TensorOrArray, /) -> Tensor: ...
    @overload
    def max(self, *, other: TensorOrArray) -> Tensor: ...
    def maximum(self, other: Operand) -> Tensor:
        """Return the larger of the two, and NaN if one is NaN. Equal operands share the gradient."""
    @overload
    def mean(
        self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the mean of the elements over ``dim``.

        Raises
        ------
        RuntimeError
            If the dtype is neither floating point nor complex; give another one with ``dtype=``.
        """
    @overload
    def mean(
        self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def mean(
        self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def median(self) -> Tensor:
        """Return the median, the lower one of two; or those along ``dim``, as a named tuple ``(values, indices)``.

        It is NaN if there is a NaN among the elements. Without ``dim``, equal elements share the gradient.
        """
    @overload
    def median(self, dim: _int, keepdim: _bool = False) -> return_types.median: ...
    @overload
    def median(self, dim: _int, *, keepdims: _bool) -> return_types.median: ...
    @overload
    def median(self, *, axis: _int, keepdims: _bool = False) -> return_types.median: ...
    @overload
    def min(self) -> Tensor:
        """Return the smallest element; or those along ``dim`` with their indices; or, of two tensors, the smaller elements.

        See :func:`max`.
        """
    @overload
    def min(self, dim: _int, keepdim: _bool = False) -> return_types.min: ...
    @overload
    def min(self, dim: _int, *, keepdims: _bool) -> return_types.min: ...
    @overload
    def min(self, *, axis: _int, keepdims: _bool = False) -> return_types.min: ...
    @overload
    def min(self, other: TensorOrArray, /) -> Tensor: ...
    @overload
    def min(self, *, other: TensorOrArray) -> Tensor: ...
    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller of the two, and NaN if one is NaN. Equal operands share the gradient."""
    def mm(self, mat2: TensorOrArray) -> Tensor:
        """Return the product of two matrices, ``(n, k) @ (k, m) -> (n, m)``."""
    @overload
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> return_types.mode:
        """Return the most frequent values along ``dim``, the smallest if several are, and the last index of each.

        The result is a named tuple ``(values, indices)``.
        """
    @overload
    def mode(self, dim: _int = -1, *, keepdims: _bool) -> return_types.mode: ...
    @overload
    def mode(self, *, axis: _int, keepdims: _bool = False) -> return_types.mode: ...
    def moveaxis(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Return a view with the dimensions ``source`` moved to the positions ``destination``, the others in order."""
    def movedim(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Return a view with the dimensions ``source`` moved to the positions ``destination``, the others in order."""
    def msort(self) -> Tensor:
        """Return the elements sorted along the first dimension."""
    def mul(self, other: Operand) -> Tensor:
        """Return ``input * other``."""
    def mul_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.mul`."""
    def multinomial(
        self, num_samples: _int, replacement: _bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Return ``num_samples`` indices into each row of ``input``, drawn with the weights in it.

        Parameters
        ----------
        input
            Weights, non-negative but not necessarily of sum 1: a vector or a matrix.
        replacement
            Whether the same index may be drawn from a row more than once.

        Raises
        ------
        RuntimeError
            If a row has negative, infinite or NaN weights or only zeros, or fewer weights than there are indices to be
            drawn without replacement.
        """
    def multiply(self, other: Operand) -> Tensor:
        """Return ``input * other``."""
    def multiply_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.mul`."""
    def mv(self, vec: TensorOrArray) -> Tensor:
        """Return the product of a matrix and a vector, ``(n, k) @ (k,) -> (n,)``."""
    def mvlgamma(self, p: _int) -> Tensor:
        """Return the logarithm of the ``p``-variate gamma function; elements should exceed ``(p - 1) / 2``.

        ``p * (p - 1) / 4 * log(pi)`` plus the sum of ``lgamma(input - k / 2)`` for ``k = 0 ... p - 1``.
        """
    def mvlgamma_(self, p: _int) -> Tensor:
        """In-place form of :func:`retrograd.mvlgamma`."""
    def nan_to_num(
        self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
    ) -> Tensor:
        """Return ``input`` with NaN and infinities replaced; the gradient does not pass there.

        Parameters
        ----------
        nan
            What NaN becomes; 0 if None.
        posinf, neginf
            What the infinities become; the largest and the smallest finite number of the dtype if None.
        """
    def nan_to_num_(
        self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
    ) -> Tensor:
        """In-place form of :func:`retrograd.nan_to_num`."""
    @overload
    def nanmean(
        self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the mean over ``dim`` of the elements that are not NaN; NaN where there are none."""
    @overload
    def nanmean(
        self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def nanmean(
        self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def nanmedian(self) -> Tensor:
        """Return the median of the elements that are not NaN; see :func:`median`."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> return_types.nanmedian: ...
    @overload
    def nanmedian(self, dim: _int, *, keepdims: _bool) -> return_types.nanmedian: ...
    @overload
    def nanmedian(self, *, axis: _int, keepdims: _bool = False) -> return_types.nanmedian: ...
    @overload
    def nanquantile(
        self,
        q: _float | TensorOrArray,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles of the elements that are not NaN; see :func:`quantile`."""
    @overload
    def nanquantile(
        self, q: _float | TensorOrArray, dim: _int | None = None, *, keepdims: _bool, interpolation: str = "linear"
    ) -> Tensor: ...
    @overload
    def nanquantile(
        self, q: _float | TensorOrArray, *, axis: _int | None, keepdims: _bool = False, interpolation: str = "linear"
    ) -> Tensor: ...
    @overload
    def nansum(
        self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the sum over ``dim`` of the elements that are not NaN."""
    @overload
    def nansum(
        self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def nansum(
        self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def narrow(self, dim: _int, start: _int | Tensor, length: _int) -> Tensor:
        """Return the view of ``length`` positions of dimension ``dim``, beginning with ``start``."""
    @overload
    def narrow(self, *, axis: _int, start: _int | Tensor, length: _int) -> Tensor: ...
    @overload
    def narrow_copy(self, dim: _int, start: _int | Tensor, length: _int) -> Tensor:
        """Return what :func:`narrow` returns, as a copy."""
    @overload
    def narrow_copy(self, *, axis: _int, start: _int | Tensor, length: _int) -> Tensor: ...
    def ne(self, other: Operand) -> Tensor:
        """Return where ``input != other``."""
    def ne_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.ne`."""
    def neg(self) -> Tensor:
        """Return ``-input``. Bool tensors have no negative; use ``logical_not``."""
    def neg_(self) -> Tensor:
        """In-place form of :func:`retrograd.neg`."""
    def negative(self) -> Tensor:
        """Return ``-input``. Bool tensors have no negative; use ``logical_not``."""
    def negative_(self) -> Tensor:
        """In-place form of :func:`retrograd.neg`."""
    def new(self, *args: Any) -> Tensor:
        """Return a tensor of the dtype and on the device of this one: of the given sizes, or with a copy of a sequence.

        New programs say :meth:`new_empty` and :meth:`new_tensor`.
        """
    def new_empty(self, *shape: _int | Sequence[_int], **options: Unpack[ShapedOptions]) -> Tensor:
        """Return whatever was in memory with the dtype and device of this tensor."""
    def new_empty_strided(
        self, size: _int | Sequence[_int], stride: Sequence[_int], **options: Unpack[Options]
    ) -> Tensor:
        """Return a tensor of given strides with the dtype and device of this tensor."""
    def new_full(self, size: _int | Sequence[_int], fill_value: Tensor | Number, **options: Unpack[Options]) -> Tensor:
        """Return ``fill_value`` everywhere with the dtype and device of this tensor."""
    def new_ones(self, *shape: _int | Sequence[_int], **options: Unpack[ShapedOptions]) -> Tensor:
        """Return ones with the dtype and device of this tensor."""
    def new_tensor(
        self,
        data: Any,
        *,
        dtype: DTypeLike | None = None,
        device: device | str | _int | None = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Return a new tensor with a copy of ``data`` and the dtype and device of this one; see :func:`tensor`."""
    def new_zeros(self, *shape: _int | Sequence[_int], **options: Unpack[ShapedOptions]) -> Tensor:
        """Return zeros with the dtype and device of this tensor."""
    def nextafter(self, other: Operand) -> Tensor:
        """Return the next floating-point number from ``input`` towards ``other``."""
    def nextafter_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.nextafter`."""
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        """Return the indices of the nonzero elements: one row each, or with ``as_tuple`` one vector per dimension."""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> Tensor:
        """Return the first ``size`` rows of :func:`nonzero`, with rows of ``fill_value`` where it has fewer."""
    @overload
    def norm(
        self,
        p: _float | str | None = "fro",
        dim: _int | Sequence[_int] | None = None,
        keepdim: _bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Return the p-norm of the elements over ``dim``: ``sum(|x|^p)^(1/p)``, also for ``inf``, ``-inf`` and 0.

        ``"fro"`` is the 2-norm, ``"nuc"`` the sum of the singular values of a matrix. The derivative at 0 is 0.
        """
    @overload
    def norm(
        self,
        p: _float | str | None = "fro",
        dim: _int | Sequence[_int] | None = None,
        *,
        keepdims: _bool,
        dtype: DTypeLike | None = None,
    ) -> Tensor: ...
    @overload
    def norm(
        self,
        p: _float | str | None = "fro",
        *,
        axis: _int | Sequence[_int] | None,
        keepdims: _bool = False,
        dtype: DTypeLike | None = None,
    ) -> Tensor: ...
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with samples from the normal distribution.

        In a complex dtype, the variance is shared by the real and the imaginary part.

        Raises
        ------
        RuntimeError
            If the standard deviation is negative.
        """
    def not_equal(self, other: Operand) -> Tensor:
        """Return where ``input != other``."""
    def not_equal_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.ne`."""
    def orgqr(self, tau: TensorOrArray) -> Tensor:
        """Return the first columns of the product of the reflections I - τᵢ vᵢ vᵢᴴ.

        vᵢ is the i-th column of ``A`` below the diagonal, with a one on it. Shapes: ``(..., m, n)`` and ``(..., k)`` with
        ``m >= n >= k`` give ``(..., m, n)``.
        """
    def ormqr(self, tau: TensorOrArray, other: TensorOrArray, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Return Q @ ``other``, with Q the product of the reflections that :func:`geqrf` returned as ``input`` and ``tau``.

        Parameters
        ----------
        left
            Whether Q is on the left; otherwise the result is ``other`` @ Q.
        transpose
            Take the conjugate transpose of Q.

        Shapes: ``(..., m, n)``, ``(..., k)`` with ``k = min(m, n)``, and ``(..., m, p)``, or ``(..., p, m)`` if Q is on the
        right, of which the result has the shape.

        Raises
        ------
        RuntimeError
            If the shapes do not fit or the dtypes differ.

        Examples
        --------
        >>> A, B = rg.tensor([[3.0, 1.0], [4.0, 2.0]]), rg.ones(2, 1)
        >>> a, tau = rg.geqrf(A)
        >>> solution = rg.linalg.solve_triangular(a.triu(), rg.ormqr(a, tau, B, transpose=True), upper=True)
        >>> (A @ solution).round(decimals=5)
        tensor([[1.],
                [1.]])
        """
    def outer(self, vec2: TensorOrArray) -> Tensor:
        """Return the outer product of two vectors, ``input[i] * vec2[j]``."""
    @overload
    def permute(self, dims: Sequence[_int]) -> Tensor:
        """Return a view with the dimensions in another order: dimension ``k`` of the result is ``dims[k]`` of ``input``."""
    @overload
    def permute(self, *, axes: Sequence[_int]) -> Tensor: ...
    @overload
    def permute(self, *dims: _int) -> Tensor: ...
    def pin_memory(self, device: device | str | _int | None = None) -> Tensor:
        """Return the tensor itself: memory is not pinned, and ``.to("cuda")`` copies from it nevertheless."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """Return the Moore-Penrose pseudo-inverse; :func:`linalg.pinv` is newer and has a safer default."""
    def polygamma(self, n: _int) -> Tensor:
        """Return the ``n``-th derivative of digamma; see :func:`retrograd.polygamma`."""
    def polygamma_(self, n: _int) -> Tensor:
        """In-place form of :func:`retrograd.polygamma`."""
    def positive(self) -> Tensor:
        """Return ``input`` itself."""
    def pow(self, exponent: Operand) -> Tensor:
        """Return ``input ** exponent``. Either may be a number.

        The derivative by ``input`` is 0 where ``exponent`` is 0, and the one by ``exponent`` is 0 where ``input`` is 0.

        Raises
        ------
        RuntimeError
            If ``input`` consists of integers and ``exponent`` is a negative one; :func:`float_power` has the result.

        Examples
        --------
        >>> rg.pow(2, rg.tensor([1., 2., 3.]))
        tensor([2., 4., 8.])
        """
    def pow_(self, exponent: Operand) -> Tensor:
        """In-place form of :func:`retrograd.pow`."""
    def prelu(self, weight: TensorOrArray) -> Tensor:
        """Return ``input`` where it is positive, ``weight * input`` elsewhere, with one weight or one per channel.

        Raises
        ------
        RuntimeError
            If there are neither one nor as many weights as channels, or if the dtypes differ.
        """
    @overload
    def prod(self, dim: _int | None = None, keepdim: _bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """Return the product of the elements over ``dim``. Integers are multiplied in int64.

        The derivative is exact with zeros among the elements, and so are the higher ones.
        """
    @overload
    def prod(self, dim: _int | None = None, *, keepdims: _bool, dtype: DTypeLike | None = None) -> Tensor: ...
    @overload
    def prod(self, *, axis: _int | None, keepdims: _bool = False, dtype: DTypeLike | None = None) -> Tensor: ...
    def put(self, index: TensorOrArray, source: TensorOrArray, accumulate: _bool = False) -> Tensor:
        """Put the elements of ``source`` at positions ``index`` of the flattened tensor, or add them there."""
    def put_(self, index: TensorOrArray, source: TensorOrArray, accumulate: _bool = False) -> Tensor:
        """In-place form of :func:`retrograd.put`."""
    def qr(self, some: _bool = True) -> return_types.linalg_qr:
        """Return the reduced (``some``) or complete QR decomposition; :func:`linalg.qr` is newer."""
    @overload
    def quantile(
        self,
        q: _float | TensorOrArray,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles ``q`` (a number or a vector of numbers from 0 to 1) along ``dim``.

        The dimension of ``q`` comes first in the result. Between two elements, ``interpolation`` is ``"linear"``, or the
        ``"lower"``, the ``"higher"``, the ``"midpoint"`` or the ``"nearest"`` of the two. The result is NaN where there is
        a NaN among the elements.

        >>> rg.quantile(rg.tensor([0.0, 1.0, 2.0, 3.0]), 0.4)
        tensor(1.2000)
        """
    @overload
    def quantile(
        self, q: _float | TensorOrArray, dim: _int | None = None, *, keepdims: _bool, interpolation: str = "linear"
    ) -> Tensor: ...
    @overload
    def quantile(
        self, q: _float | TensorOrArray, *, axis: _int | None, keepdims: _bool = False, interpolation: str = "linear"
    ) -> Tensor: ...
    def rad2deg(self) -> Tensor:
        """Return angles in radians as degrees."""
    def rad2deg_(self) -> Tensor:
        """In-place form of :func:`retrograd.rad2deg`."""
    def random_(self, from_: Any = ..., to: Any = ..., generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with integers, all equally likely.

        The forms are ``random_(to)`` and ``random_(from, to)``, where ``to`` is exclusive, and ``random_()``, which reaches
        up to the largest integer (in a floating dtype, the last one before gaps), inclusive; as does ``to=None``.

        Raises
        ------
        RuntimeError
            If there are no integers between the bounds, or if the dtype does not have them.
        """
    def ravel(self) -> Tensor:
        """Return the elements in one dimension, one after the other in memory; a view where they are already."""
    @property
    def real(self) -> Tensor:
        """Return the real part, a view; a real tensor is returned itself."""
    @real.setter
    def real(self, value: Operand) -> None: ...
    def reciprocal(self) -> Tensor:
        """Return ``1 / input``; integers give the default float dtype."""
    def reciprocal_(self) -> Tensor:
        """In-place form of :func:`retrograd.reciprocal`."""
    def relu(self) -> Tensor:
        """Return ``max(input, 0)``; the derivative at 0 is 0."""
    def relu_(self) -> Tensor:
        """In-place form of :func:`retrograd.relu`."""
    def remainder(self, other: Operand) -> Tensor:
        """Return the remainder of division rounded down, which has the sign of ``other``.

        >>> rg.remainder(rg.tensor([-7., 7.]), 3)
        tensor([2., 1.])
        """
    def remainder_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.remainder`."""
    @overload
    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Scale down the slices of ``input`` along ``dim`` whose p-norm exceeds ``maxnorm`` so that it is ``maxnorm``."""
    @overload
    def renorm(self, p: _float, *, axis: _int, maxnorm: _float) -> Tensor: ...
    @overload
    def renorm_(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """In-place form of :func:`retrograd.renorm`."""
    @overload
    def renorm_(self, p: _float, *, axis: _int, maxnorm: _float) -> Tensor: ...
    @overload
    def repeat(self, repeats: Sequence[_int]) -> Tensor:
        """Repeat a tensor as often along each dimension as ``repeats`` says, which may name new leading dimensions."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor: ...
    @overload
    def repeat_interleave(
        self, repeats: _int | TensorOrArray | None = None, dim: _int | None = None, *, output_size: _int | None = None
    ) -> Tensor:
        """Repeat every element (every position of ``dim``) the given number of times, or each its own number of times.

        ``repeat_interleave(repeats)`` returns each index as often as ``repeats`` says.

        >>> rg.repeat_interleave(rg.tensor([1, 2]), rg.tensor([2, 1])).tolist()
        [1, 1, 2]
        """
    @overload
    def repeat_interleave(
        self, repeats: _int | TensorOrArray | None = None, *, axis: _int | None, output_size: _int | None = None
    ) -> Tensor: ...
    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor:
        """Return the elements of ``input`` in the given shape, of which one length may be -1; a view where possible.

        >>> rg.reshape(rg.arange(6), (2, -1)).shape
        retrograd.Size([2, 3])
        """
    @overload
    def reshape(self, *shape: _int) -> Tensor: ...
    def reshape_as(self, other: TensorOrArray) -> Tensor:
        """Return ``input`` in the shape of ``other``."""
    def resize_(self, *size: _int | Sequence[_int], memory_format: memory_format | None = None) -> Tensor:
        """Give the tensor another shape, in place: the same memory as far as it goes, new memory where there is too little.

        Other tensors on its memory keep the old one. New elements have no particular values.

        Raises
        ------
        RuntimeError
            If the tensor requires grad, or if it has a tangent.

        Examples
        --------
        >>> rg.arange(6).resize_(2, 2)
        tensor([[0, 1],
                [2, 3]])
        """
    def resize_as_(self, tensor: Tensor, memory_format: memory_format | None = None) -> Tensor:
        """Give the tensor the shape of another one, in place; see :meth:`Tensor.resize_`."""
    def resolve_conj(self) -> Tensor:
        """Return ``input`` with its numbers in memory: a copy of a conjugate view, any other tensor itself."""
    def resolve_neg(self) -> Tensor:
        """Return ``input`` with its numbers in memory: a copy of a negative view, any other tensor itself."""
    @overload
    def roll(self, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = None) -> Tensor:
        """Shift the elements along ``dims`` (of the flattened tensor, if none are given), the last ones coming in first.

        >>> rg.roll(rg.arange(4), 1).tolist()
        [3, 0, 1, 2]
        """
    @overload
    def roll(self, shifts: _int | Sequence[_int], *, axes: _int | Sequence[_int] | None) -> Tensor: ...
    @overload
    def rot90(self, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
        """Return a copy turned by ``k`` quarters from the first towards the second of two dimensions."""
    @overload
    def rot90(self, k: _int = 1, *, axes: Sequence[_int]) -> Tensor: ...
    def round(self, decimals: _int = 0) -> Tensor:
        """Return ``input`` rounded to ``decimals`` digits after the point (before it, if negative); halves become even.

        >>> rg.round(rg.tensor([0.5, 1.5, 2.75]))
        tensor([0., 2., 3.])
        >>> rg.round(rg.tensor([0.25, 1234.5]), decimals=-2)
        tensor([   0., 1200.])
        """
    def round_(self, decimals: _int = 0) -> Tensor:
        """In-place form of :func:`retrograd.round`."""
    def rsqrt(self) -> Tensor:
        """Return ``1 / sqrt(input)``."""
    def rsqrt_(self) -> Tensor:
        """In-place form of :func:`retrograd.rsqrt`."""
    @overload
    def scatter(
        self,
        dim: _int,
        index: TensorOrArray,
        src: Operand | None = None,
        *,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Tensor:
        """Place ``src``, a tensor or a number, where ``index`` says: ``out[i, index[i, j]] = src[i, j]`` for ``dim=1``.

        Parameters
        ----------
        reduce
            ``"add"`` or ``"multiply"`` to combine with the elements there.
        """
    @overload
    def scatter(
        self,
        *,
        axis: _int,
        index: TensorOrArray,
        src: Operand | None = None,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Tensor: ...
    def scatter_(
        self,
        dim: _int,
        index: TensorOrArray,
        src: Operand | None = None,
        *,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Tensor:
        """In-place form of :func:`retrograd.scatter`."""
    @overload
    def scatter_add(self, dim: _int, index: TensorOrArray, src: TensorOrArray) -> Tensor:
        """Add ``src`` where ``index`` says: ``out[i, index[i, j]] += src[i, j]`` for ``dim=1``."""
    @overload
    def scatter_add(self, *, axis: _int, index: TensorOrArray, src: TensorOrArray) -> Tensor: ...
    @overload
    def scatter_add_(self, dim: _int, index: TensorOrArray, src: TensorOrArray) -> Tensor:
        """In-place form of :func:`retrograd.scatter_add`."""
    @overload
    def scatter_add_(self, *, axis: _int, index: TensorOrArray, src: TensorOrArray) -> Tensor: ...
    @overload
    def scatter_reduce(
        self, dim: _int, index: TensorOrArray, src: TensorOrArray, reduce: str, include_self: _bool = True
    ) -> Tensor:
        """Reduce all of ``src`` that ``index`` sends to the same place, as :func:`scatter_add` does for the sum.

        Parameters
        ----------
        reduce
            ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``, whose gradient is shared by elements that tie.
        include_self
            Whether the elements of ``input`` take part.
        """
    @overload
    def scatter_reduce(
        self, *, axis: _int, index: TensorOrArray, src: TensorOrArray, reduce: str, include_self: _bool = True
    ) -> Tensor: ...
    @overload
    def scatter_reduce_(
        self, dim: _int, index: TensorOrArray, src: TensorOrArray, reduce: str, include_self: _bool = True
    ) -> Tensor:
        """In-place form of :func:`retrograd.scatter_reduce`."""
    @overload
    def scatter_reduce_(
        self, *, axis: _int, index: TensorOrArray, src: TensorOrArray, reduce: str, include_self: _bool = True
    ) -> Tensor: ...
    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
        """Return where the values ``v`` would have to be inserted into this sorted vector to keep it sorted."""
    @overload
    def select(self, dim: _int, index: _int) -> Tensor:
        """Return the view at position ``index`` of dimension ``dim``."""
    @overload
    def select(self, *, axis: _int, index: _int) -> Tensor: ...
    @overload
    def select_scatter(self, src: TensorOrArray, dim: _int, index: _int) -> Tensor:
        """Return ``input`` with ``src`` at position ``index`` of ``dim``."""
    @overload
    def select_scatter(self, src: TensorOrArray, *, axis: _int, index: _int) -> Tensor: ...
    def set_(
        self,
        source: Tensor | UntypedStorage | None = None,
        storage_offset: _int = 0,
        size: Sequence[_int] | None = None,
        stride: Sequence[_int] | None = None,
    ) -> Tensor:
        """Let the tensor lie in the memory of another one, in place; without ``source``, let it be empty.

        Parameters
        ----------
        source
            A tensor of the same dtype, or a storage.
        storage_offset, size, stride
            Which part of it, as in :func:`retrograd.as_strided`; by default all.

        Raises
        ------
        RuntimeError
            If the dtypes differ, or if gradients would have to flow: neither the old elements nor ``source`` may require
            grad while recording.
        NotImplementedError
            If one of them has a tangent.

        Examples
        --------
        >>> x, y = rg.zeros(2), rg.tensor([1.0, 2.0])
        >>> x.set_(y).mul_(10)
        tensor([10., 20.])
        >>> y
        tensor([10., 20.])
        """
    def sgn(self) -> Tensor:
        """Return ``input / |input|``, and 0 for 0: the sign, for complex numbers too."""
    def sgn_(self) -> Tensor:
        """In-place form of :func:`retrograd.sgn`."""
    def short(self, memory_format: memory_format | None = None) -> Tensor:
        """Return ``input`` as int16; itself if it is that already."""
    def sigmoid(self) -> Tensor:
        """Return the logistic function ``1 / (1 + exp(-input))``."""
    def sigmoid_(self) -> Tensor:
        """In-place form of :func:`retrograd.sigmoid`."""
    def sign(self) -> Tensor:
        """Return -1, 0 or 1 with the sign of ``input``; see :func:`sgn` for complex numbers. NaN has the sign 0."""
    def sign_(self) -> Tensor:
        """In-place form of :func:`retrograd.sign`."""
    def signbit(self) -> Tensor:
        """Return where ``input`` is negative or -0.0."""
    def sin(self) -> Tensor:
        """Return the sine of ``input`` in radians.

        >>> rg.sin(rg.tensor([0., 1.]))
        tensor([0.0000, 0.8415])
        """
    def sin_(self) -> Tensor:
        """In-place form of :func:`retrograd.sin`."""
    def sinc(self) -> Tensor:
        """Return ``sin(πx) / (πx)``, and 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place form of :func:`retrograd.sinc`."""
    def sinh(self) -> Tensor:
        """Return the hyperbolic sine."""
    def sinh_(self) -> Tensor:
        """In-place form of :func:`retrograd.sinh`."""
    @overload
    def slice_scatter(
        self, src: TensorOrArray, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1
    ) -> Tensor:
        """Return ``input`` with ``src`` at a slice of ``dim``."""
    @overload
    def slice_scatter(
        self, src: TensorOrArray, *, axis: _int, start: _int | None = None, end: _int | None = None, step: _int = 1
    ) -> Tensor: ...
    def slogdet(self) -> return_types.linalg_slogdet:
        """Return the sign (of modulus 1, if complex) and the logarithm of the modulus of the determinant.

        The determinant is ``sign * exp(logabsdet)``; of a singular matrix they are 0 and ``-inf``.
        """
    @overload
    def softmax(self, dim: _int, dtype: DTypeLike | None = None) -> Tensor:
        """Return ``exp(input)``, scaled so that it sums to 1 along ``dim``; ``dtype`` converts the input first.

        Where all elements along ``dim`` are minus infinity, the result is NaN.

        >>> rg.softmax(rg.tensor([0.0, 0.0]), 0)
        tensor([0.5000, 0.5000])
        """
    @overload
    def softmax(self, *, axis: _int, dtype: DTypeLike | None = None) -> Tensor: ...
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool | None = None) -> return_types.sort:
        """Return the elements sorted along ``dim`` and the indices they had, as a named tuple ``(values, indices)``.

        Equal elements always keep their order.

        >>> rg.sort(rg.tensor([3.0, 1.0, 2.0])).values
        tensor([1., 2., 3.])
        """
    @overload
    def sort(self, *, axis: _int, descending: _bool = False, stable: _bool | None = None) -> return_types.sort: ...
    def split(self, split_size: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Cut a tensor into views of length ``split_size`` along ``dim``, or of the given lengths; :func:`split`."""
    @overload
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Cut a tensor into views of the given lengths along ``dim``."""
    @overload
    def split_with_sizes(self, split_sizes: Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
    def sqrt(self) -> Tensor:
        """Return the square root. Its derivative at 0 is infinite."""
    def sqrt_(self) -> Tensor:
        """In-place form of :func:`retrograd.sqrt`."""
    def square(self) -> Tensor:
        """Return ``input * input``."""
    def square_(self) -> Tensor:
        """In-place form of :func:`retrograd.square`."""
    @overload
    def squeeze(self, dim: _int | Sequence[_int] | None = None) -> Tensor:
        """Return a view without the dimensions of length 1: all of them, or those among ``dim``."""
    @overload
    def squeeze(self, *, axis: _int | Sequence[_int] | None) -> Tensor: ...
    @overload
    def squeeze_(self, dim: _int | Sequence[_int] | None = None) -> Tensor:
        """In-place form of :func:`retrograd.squeeze`: only the shape and the strides change."""
    @overload
    def squeeze_(self, *, axis: _int | Sequence[_int] | None) -> Tensor: ...
    @overload
    def std(
        self,
        dim: _int | Sequence[_int] | _bool | None = None,
        unbiased: _bool | None = None,
        keepdim: _bool = False,
        *,
        correction: _float | None = None,
    ) -> Tensor:
        """Return the standard deviation over ``dim``, the root of :func:`var`. Where it is 0, its derivative is 0."""
    @overload
    def std(
        self,
        dim: _int | Sequence[_int] | _bool | None = None,
        unbiased: _bool | None = None,
        *,
        keepdims: _bool,
        correction: _float | None = None,
    ) -> Tensor: ...
    @overload
    def std(
        self,
        *,
        axis: _int | Sequence[_int] | _bool | None,
        unbiased: _bool | None = None,
        keepdims: _bool = False,
        correction: _float | None = None,
    ) -> Tensor: ...
    def stft(
        self,
        n_fft: _int,
        hop_length: _int | None = None,
        win_length: _int | None = None,
        window: Tensor | None = None,
        center: _bool = True,
        pad_mode: str = "reflect",
        normalized: _bool = False,
        onesided: _bool | None = None,
        return_complex: _bool | None = None,
        align_to_window: _bool | None = None,
    ) -> Tensor:
        """Return the Fourier transforms of the frames of a signal: the short-time Fourier transform.

        Shapes: ``(T,)`` or ``(B, T)`` gives ``(F, N)`` or ``(B, F, N)``, for N frames with F frequencies each, which are
        ``n_fft // 2 + 1`` if ``onesided`` and ``n_fft`` otherwise.

        Parameters
        ----------
        n_fft
            The length of a frame.
        hop_length
            The distance of frames; ``n_fft // 4`` by default.
        win_length
            The length of the window, ``n_fft`` by default. A shorter one is in the middle of the frame.
        window
            The factors of every frame, such as :func:`retrograd.hann_window`.
        center
            Whether frame k is around position ``k * hop_length``, for which the signal is padded at both ends as
            ``pad_mode`` says; otherwise it begins there.
        normalized
            Whether to divide by ``sqrt(n_fft)``.
        onesided
            Whether to leave out the frequencies that mirror others: by default for a real signal and window.
        return_complex
            Whether the result is complex; otherwise real and imaginary parts are in one more dimension. A real signal
            needs it said.
        align_to_window
            Whether the first window, where it is shorter than the frame, begins with the signal and the last one ends
            within it, beyond which frames are filled up with zeros; only for ``center=False``, where it is False by
            default.

        Raises
        ------
        RuntimeError
            If a length or a shape does not fit, ``return_complex`` is not given for a real signal, or ``align_to_window``
            is given together with ``center``.

        Examples
        --------
        >>> x = rg.sin(rg.arange(64) * 0.5)
        >>> rg.stft(x, 16, window=rg.hann_window(16), return_complex=True).shape
        retrograd.Size([9, 17])
        """
    def sub(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """Return ``input - alpha * other``. There is no difference of bool tensors; use ``logical_xor``."""
    def sub_(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """In-place form of :func:`retrograd.sub`."""
    def subtract(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """Return ``input - alpha * other``. There is no difference of bool tensors; use ``logical_xor``."""
    def subtract_(self, other: Operand, *scaled: Operand, alpha: Number = 1) -> Tensor:
        """In-place form of :func:`retrograd.sub`."""
    @overload
    def sum(
        self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the sum of the elements over ``dim``. Integers are summed in int64.

        >>> rg.sum(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([4., 6.])
        """
    @overload
    def sum(
        self, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    @overload
    def sum(
        self, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, dtype: DTypeLike | None = None
    ) -> Tensor: ...
    def sum_to_size(self, *sizes: _int | Sequence[_int], size: Sequence[_int] | None = None) -> Tensor:
        """Sum ``input`` over the dimensions that broadcasting from ``size`` would add; the adjoint of :func:`expand`."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> return_types.svd:
        """Return U, S and V (not its adjoint); U and V are zeros without ``compute_uv``. :func:`linalg.svd` is newer."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """Return a view with two dimensions swapped; NumPy's name for :func:`transpose`."""
    def swapaxes_(self, dim0: _int, dim1: _int) -> Tensor:
        """In-place form of :func:`retrograd.transpose`: only the shape and the strides change."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Return a view with two dimensions swapped."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """In-place form of :func:`retrograd.transpose`: only the shape and the strides change."""
    def t(self) -> Tensor:
        """Return the transposed matrix as a view; a tensor of fewer dimensions as it is.

        Raises
        ------
        RuntimeError
            If there are more than two dimensions.
        """
    def t_(self) -> Tensor:
        """In-place form of :func:`retrograd.t`: only the shape and the strides change."""
    def take(self, index: TensorOrArray) -> Tensor:
        """Return the elements at positions ``index`` of the flattened tensor, in the shape of ``index``."""
    @overload
    def take_along_dim(self, indices: TensorOrArray, dim: _int | None = None) -> Tensor:
        """Pick elements along ``dim`` (of the flattened tensor, by default) as :func:`gather`, broadcasting the other ones.

        >>> x = rg.tensor([[3, 1, 2]])
        >>> rg.take_along_dim(x, x.argsort(1), 1).tolist()
        [[1, 2, 3]]
        """
    @overload
    def take_along_dim(self, indices: TensorOrArray, *, axis: _int | None) -> Tensor: ...
    def tan(self) -> Tensor:
        """Return the tangent of ``input`` in radians."""
    def tan_(self) -> Tensor:
        """In-place form of :func:`retrograd.tan`."""
    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """In-place form of :func:`retrograd.tanh`."""
    @overload
    def tensor_split(self, indices_or_sections: _int | Sequence[_int] | Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
        """Cut a tensor along ``dim`` into that many views of nearly equal length, or at the given positions."""
    @overload
    def tensor_split(
        self, indices_or_sections: _int | Sequence[_int] | Tensor, *, axis: _int
    ) -> tuple[Tensor, ...]: ...
    @overload
    def tile(self, dims: Sequence[_int]) -> Tensor:
        """Repeat a tensor as :func:`repeat` does; if ``dims`` has too few entries, along its last dimensions."""
    @overload
    def tile(self, *, axes: Sequence[_int]) -> Tensor: ...
    @overload
    def tile(self, *dims: _int) -> Tensor: ...
    @overload
    def to(
        self,
        dtype: DTypeLike,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        device: device | str | _int | None = None,
        memory_format: memory_format | None = None,
    ) -> Tensor:
        """Return ``input`` in another dtype or on another device; ``input`` itself if nothing changes.

        The forms are ``x.to(dtype)``, ``x.to(device, dtype)`` and ``x.to(other)``, for the dtype and the device of another
        tensor. Gradients come back in the dtype and on the device of ``input``. Integer tensors carry no gradient.

        Parameters
        ----------
        copy
            Copy even if nothing changes.
        """
    @overload
    def to(
        self,
        device: device | str | _int | None = None,
        dtype: DTypeLike | None = None,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        memory_format: memory_format | None = None,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        other: Tensor,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        memory_format: memory_format | None = None,
    ) -> Tensor: ...
    def to_dense(self, dtype: DTypeLike | None = None, *, masked_grad: _bool | None = None) -> Tensor:
        """Return the tensor itself, in ``dtype`` if that is given: all tensors are dense."""
    def to_device(self, device: device | str | _int | None, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on ``device``, as the array API standard calls it; ``stream`` must be None."""
    @overload
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> return_types.topk:
        """Return the ``k`` largest (or smallest) elements along ``dim`` and their indices, in order if ``sorted``.

        The result is a named tuple ``(values, indices)``.
        """
    @overload
    def topk(self, k: _int, *, axis: _int, largest: _bool = True, sorted: _bool = True) -> return_types.topk: ...
    def trace(self) -> Tensor:
        """Return the sum of the diagonal of a matrix."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Return a view with two dimensions swapped."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """In-place form of :func:`retrograd.transpose`: only the shape and the strides change."""
    def triangular_solve(
        self, A: TensorOrArray, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False
    ) -> return_types.triangular_solve:
        """Return the solution of ``A X = b`` for triangular ``A``, and a copy of ``A``.

        :func:`linalg.solve_triangular` is newer.
        """
    def tril(self, diagonal: _int = 0) -> Tensor:
        """Return the lower triangles of matrices, up to a diagonal, and zeros elsewhere."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """In-place form of :func:`retrograd.tril`."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """Return the upper triangles of matrices, from a diagonal on, and zeros elsewhere."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """In-place form of :func:`retrograd.triu`."""
    def true_divide(self, other: Operand) -> Tensor:
        """Return ``input / other``; integers give the default float dtype."""
    def true_divide_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.div`."""
    def trunc(self) -> Tensor:
        """Return ``input`` rounded towards zero, in the same dtype."""
    def trunc_(self) -> Tensor:
        """In-place form of :func:`retrograd.trunc`."""
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> str:
        """Return the name of the tensor type, such as ``'retrograd.FloatTensor'``, or ``input`` converted to ``dtype``."""
    @overload
    def type(self, dtype: TensorType | _type[Tensor] | DTypeLike, non_blocking: _bool = False) -> Tensor: ...
    def type_as(self, other: Tensor) -> Tensor:
        """Return ``input`` in the dtype and on the device of ``other``."""
    @overload
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """Return the views at every position of dimension ``dim``, as a tuple."""
    @overload
    def unbind(self, *, axis: _int) -> tuple[Tensor, ...]: ...
    @overload
    def unflatten(self, dim: _int, sizes: Sequence[_int]) -> Tensor:
        """Split dimension ``dim`` into several of lengths ``sizes``, of which one may be -1."""
    @overload
    def unflatten(self, *, axis: _int, sizes: Sequence[_int]) -> Tensor: ...
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Return a view of all windows of ``size`` positions of ``dimension``, ``step`` apart, in a new last dimension.

        >>> rg.arange(5).unfold(0, 3, 2).tolist()
        [[0, 1, 2], [2, 3, 4]]
        """
    def uniform_(self, from_: _float = 0.0, to: _float = 1.0, generator: Generator | None = None) -> Tensor:
        """Overwrite this tensor with samples from the uniform distribution on [from, to).

        Raises
        ------
        RuntimeError
            If ``from`` is above ``to``, or if the dtype does not have such numbers.
        """
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> Tensor:
        """Return the distinct elements, sorted; or the distinct slices along ``dim``.

        With ``return_inverse``, also the index of each element among them, and with ``return_counts``, how often each
        occurs: then the result is a tuple. There is no derivative.
        """
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        *,
        axis: _int | None,
    ) -> Tensor: ...
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: Literal[False] = False,
        *,
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: Literal[False] = False,
        *,
        return_counts: Literal[True],
        axis: _int | None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool, return_inverse: Literal[False], return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool, return_inverse: Literal[False], return_counts: Literal[True], *, axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        axis: _int | None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: _bool,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool, return_inverse: Literal[True], return_counts: Literal[False] = False, *, axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], axis: _int | None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool, return_inverse: Literal[True], return_counts: Literal[True], *, axis: _int | None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(
        self, sorted: _bool = True, *, return_inverse: _bool, return_counts: _bool = False, dim: _int | None = None
    ) -> Any: ...
    @overload
    def unique(
        self, sorted: _bool = True, *, return_inverse: _bool, return_counts: _bool = False, axis: _int | None
    ) -> Any: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None = None
    ) -> Tensor:
        """Return the elements without those equal to the one before; or the slices along ``dim``. See :func:`unique`."""
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, *, axis: _int | None
    ) -> Tensor: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, *, return_counts: Literal[True], axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False], return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False], return_counts: Literal[True], *, axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, *, return_inverse: Literal[True], return_counts: Literal[False] = False, axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: Literal[False] = False, *, axis: _int | None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, *, return_inverse: Literal[True], return_counts: Literal[True], axis: _int | None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: Literal[True], *, axis: _int | None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self, *, return_inverse: _bool, return_counts: _bool = False, dim: _int | None = None
    ) -> Any: ...
    @overload
    def unique_consecutive(self, *, return_inverse: _bool, return_counts: _bool = False, axis: _int | None) -> Any: ...
    @overload
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Return what :func:`chunk` does as tensors of their own, which may be written to in place."""
    @overload
    def unsafe_chunk(self, chunks: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
    @overload
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Return what :func:`split` does as tensors of their own, which may be written to in place."""
    @overload
    def unsafe_split(self, split_size: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
    @overload
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Return what :func:`split_with_sizes` does as tensors of their own, which may be written to in place."""
    @overload
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
    @overload
    def unsqueeze(self, dim: _int) -> Tensor:
        """Return a view with a new dimension of length 1 at position ``dim``."""
    @overload
    def unsqueeze(self, *, axis: _int) -> Tensor: ...
    @overload
    def unsqueeze_(self, dim: _int) -> Tensor:
        """In-place form of :func:`retrograd.unsqueeze`: only the shape and the strides change."""
    @overload
    def unsqueeze_(self, *, axis: _int) -> Tensor: ...
    def untyped_storage(self) -> UntypedStorage:
        """Return the memory that the tensor lies in, to ask where it is and how large; views share that of their base."""
    @overload
    def var(
        self,
        dim: _int | Sequence[_int] | _bool | None = None,
        unbiased: _bool | None = None,
        keepdim: _bool = False,
        *,
        correction: _float | None = None,
    ) -> Tensor:
        """Return the variance over ``dim``: ``sum(|x - mean|^2) / (n - correction)``, with ``correction=1`` by default.

        ``unbiased=False`` is another way to say ``correction=0``.
        """
    @overload
    def var(
        self,
        dim: _int | Sequence[_int] | _bool | None = None,
        unbiased: _bool | None = None,
        *,
        keepdims: _bool,
        correction: _float | None = None,
    ) -> Tensor: ...
    @overload
    def var(
        self,
        *,
        axis: _int | Sequence[_int] | _bool | None,
        unbiased: _bool | None = None,
        keepdims: _bool = False,
        correction: _float | None = None,
    ) -> Tensor: ...
    def vdot(self, other: TensorOrArray) -> Tensor:
        """Return the inner product of two vectors, with the elements of ``input`` conjugated."""
    def view(
        self,
        *shape: _int | Sequence[_int] | DTypeLike,
        size: Sequence[_int] | None = None,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Return a view in another shape, or one that reads the same memory as another dtype (without gradient).

        Raises
        ------
        RuntimeError
            If the strides of the tensor allow no such view; ``reshape`` copies then.
        """
    def view_as(self, other: TensorOrArray) -> Tensor:
        """Return a view of ``input`` in the shape of ``other``."""
    def vsplit(self, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]:
        """Cut a tensor into views along its first dimension."""
    def where(self, condition: TensorOrArray, other: Operand) -> Tensor:
        """Return ``input`` where ``condition`` is true and ``other`` elsewhere."""
    def xlogy(self, other: Operand) -> Tensor:
        """Return ``input * log(other)``, 0 where ``input`` is 0 (and NaN where ``other`` is)."""
    def xlogy_(self, other: Operand) -> Tensor:
        """In-place form of :func:`retrograd.xlogy`."""
    def zero_(self) -> Tensor:
        """In-place form of :func:`retrograd.zero`."""
