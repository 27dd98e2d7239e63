"""Shape: the same elements under another arrangement of dimensions. The results are views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from retrograd.batching.array import unbatched
from retrograd.conjugate_views import UnresolvedArray
from retrograd.core.errors import mention_numpy, no_tensor
from retrograd.core.in_place import check_writable
from retrograd.core.layout import row_major
from retrograd.core.op import view as view_op
from retrograd.core.registry import add_method, composite
from retrograd.core.sites import warn_user
from retrograd.core.size import Size
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, bump
from retrograd.core.unbroadcast import sum_to
from retrograd.core.views import Moves, Step, move_retained, shares_memory
from retrograd.dtypes import as_dtype
from retrograd.ops._positions import along
from retrograd.ops._rules import normalize_dim, normalize_dims
from retrograd.ops.complex import conj

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


# --- reshape and view ---------------------------------------------------------------------------------------------


def _reshaped(name: str, input: Any, shape: Sequence[int]) -> Any:
    try:
        if not shape or min(shape) >= -1:
            return input.reshape(shape)
    except ValueError:
        pass
    raise RuntimeError(f"{name}: {_misfit(input, shape)}")


def _misfit(input: Any, shape: Sequence[int]) -> str:
    """torch's error message for a shape that does not fit."""
    if min(shape, default=0) < -1:
        return f"invalid shape dimension {min(shape)} in shape {_text(shape)}; only -1 stands for a length"
    if list(shape).count(-1) > 1:
        return f"only one dimension can be inferred, but shape {_text(shape)} leaves several open"
    if -1 in shape and 0 in shape and input.size == 0:
        return (
            f"cannot reshape tensor of 0 elements into shape {_text(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous"
        )
    return f"shape '{_text(shape)}' is invalid for input of size {input.size}, of shape {_text(input.shape)}"


def _text(shape: Sequence[int]) -> str:
    return str([int(n) for n in shape])


@view_op(variadic="shape", node_name="ViewBackward0", input=lambda g, input_shape: g.reshape(input_shape))
def reshape(input, shape: Sequence[int]):
    """Return the elements of ``input`` in the given shape, of which one length may be -1; a view where possible.

    >>> rg.reshape(rg.arange(6), (2, -1)).shape
    retrograd.Size([2, 3])
    """
    return _reshaped("reshape", input, shape)


@view_op(name="view", public=False, method=False, input=lambda g, input_shape: g.reshape(input_shape))
def _view_shape(input, shape: Sequence[int]):
    result = _reshaped("view", input, shape)
    if not shares_memory(result, input):
        raise RuntimeError(
            f"view size {_text(shape)} is not compatible with input tensor's size {_text(input.shape)} and stride (at "
            "least one dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


def _view_dtype(input: Tensor, dtype: Any) -> Tensor:
    """A view of the same memory; not a view to autograd, because no gradient can pass through it."""
    wanted = as_dtype(dtype).numpy
    data: Any = input._data
    stored = unbatched(data)
    if type(stored) is UnresolvedArray and stored.dtype != wanted:
        state, resolve = stored.torch_names
        raise RuntimeError(
            f"Tensor.view is not supported for {state} view tensors when converting to a different dtype "
            f"({input.dtype} to {wanted}); use {resolve}() first"
        )
    result = input.detach()
    try:
        result._data = data.view(wanted)
    except (ValueError, TypeError) as error:
        raise RuntimeError(
            f"view: cannot see a {input.dtype} tensor of shape {_text(input.shape)} as {wanted}: {error}"
        ) from None
    return result


@composite(reported=False)
def view(input, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """Return a view in another shape, or one that reads the same memory as another dtype (without gradient).

    Raises
    ------
    RuntimeError
        If the strides of the tensor allow no such view; ``reshape`` copies then.
    """
    if size is not None:
        shape = size
    elif not shape and dtype is None:
        raise mention_numpy(TypeError("view() needs the lengths of the dimensions, or a dtype"), "view")
    elif len(shape) == 1 and not isinstance(shape[0], int):
        (shape,) = shape
        if not isinstance(shape, (tuple, list)):
            dtype = shape
    if dtype is None:
        return _view_shape(input, shape)
    return _view_dtype(input, dtype)


@composite(reported=False)
def reshape_as(input, other) -> Tensor:
    """Return ``input`` in the shape of ``other``."""
    return reshape(input, _shape_of("reshape_as", other))


@composite(reported=False)
def view_as(input, other) -> Tensor:
    """Return a view of ``input`` in the shape of ``other``."""
    return _view_shape(input, _shape_of("view_as", other))


def _shape_of(name: str, other: Any) -> Any:
    if not hasattr(other, "shape"):
        raise no_tensor(name, "argument 'other' (position 1)", other)
    return other.shape


@view_op(
    name="flatten",
    public=False,
    method=False,
    node_name="ViewBackward0",
    input=lambda g, input_shape: g.reshape(input_shape),
)
def _flatten(input, start_dim: int, end_dim: int):
    shape = input.shape or (1,)
    start, end = normalize_dim(start_dim, input.ndim), normalize_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return input.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


@composite()
def flatten(input, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the dimensions from ``start_dim`` to ``end_dim`` into one; a view where possible, or the tensor itself."""
    dims = range(-input.ndim, input.ndim)
    is_one = start_dim in dims and end_dim in dims and (start_dim - end_dim) % input.ndim == 0
    return input if is_one and type(start_dim) is type(end_dim) is int else _flatten(input, start_dim, end_dim)


@view_op(node_name="ViewBackward0", input=lambda g, input_shape: g.reshape(input_shape))
def unflatten(input, dim: int, sizes: Sequence[int]):
    """Split dimension ``dim`` into several of lengths ``sizes``, of which one may be -1."""
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"unflatten(): argument 'sizes' (position 2) must be tuple of ints, not {type(sizes).__name__}")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not input.ndim:
        raise RuntimeError(f"unflatten: dimension {dim} is given, but the tensor has no dimensions")
    dim = normalize_dim(dim, input.ndim)
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1:
        raise RuntimeError(f"unflatten: only one of the sizes {_text(sizes)} may be -1")
    if -1 in sizes and known:
        sizes = [input.shape[dim] // known if size == -1 else size for size in sizes]
    if math.prod(sizes) != input.shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {_text(sizes)} don't multiply up to the size of dim {dim} ({input.shape[dim]}) "
            "in the input tensor"
        )
    return input.reshape(*input.shape[:dim], *sizes, *input.shape[dim + 1 :])


@view_op(node_name="ViewBackward0", input=lambda g, input_shape: g.reshape(input_shape))
def ravel(input):
    """Return the elements in one dimension, one after the other in memory; a view where they are already."""
    return row_major(input.reshape(-1))


# --- expand -------------------------------------------------------------------------------------------------------


def _expanded(name: str, input: Any, size: Sequence[int]) -> Any:
    """Repeat along dimensions of length 1 and along new leading ones, without copying."""
    shape = input.shape
    new = len(size) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(size)}, in {_text(size)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(shape)}, of shape {_text(shape)})"
        )
    if -1 in size:
        if -1 in size[:new]:
            raise RuntimeError(
                f"{name}: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension "
                f"{list(size).index(-1)}"
            )
        size = [*size[:new], *(m if n == -1 else n for n, m in zip(size[new:], shape, strict=True))]
    for dim, (n, m) in enumerate(zip(size[new:], shape, strict=True), new):
        if n != m and m != 1:
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({n}) must match the existing size ({m}) at non-singleton "
                f"dimension {dim}. Target sizes: {_text(size)}. Tensor sizes: {_text(shape)}"
            )
    if math.prod(size) == input.size:  # nothing repeats, so the result may be written to
        return input.reshape(size)
    return np.broadcast_to(input, size)


@view_op(variadic="size", input=lambda g: g)
def expand(input, size: Sequence[int]):
    """Repeat ``input`` along dimensions of length 1 and along new leading ones, without copying; -1 keeps a length."""
    return _expanded("expand", input, size)


@view_op(variadic="size", node_name="ExpandBackward0", input=lambda g: g)
def broadcast_to(input, size: Sequence[int]):
    """Repeat ``input`` along dimensions of length 1 and along new leading ones, without copying."""
    return _expanded("broadcast_to", input, size)


@composite(reported=False)
def expand_as(input, other) -> Tensor:
    """Repeat ``input`` to the shape of ``other``, without copying."""
    return expand(input, _shape_of("expand_as", other))


@composite(method=False)
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape that tensors of the given shapes broadcast to."""
    try:
        sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    except TypeError:
        raise RuntimeError(
            f"broadcast_shapes: shapes must be ints, or tuples or lists of ints, but got {shapes}"
        ) from None
    try:
        return Size(np.broadcast_shapes(*sizes))
    except ValueError:
        raise RuntimeError(
            f"broadcast_shapes: Shape mismatch: objects cannot be broadcast to a single shape: {sizes}"
        ) from None


@composite()
def sum_to_size(input, *sizes: Any, size: Sequence[int] | None = None) -> Tensor:
    """Sum ``input`` over the dimensions that broadcasting from ``size`` would add; the adjoint of :func:`expand`."""
    if size is None:
        size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    shape = tuple(size)
    extra = input.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, input.shape[extra:], strict=True)):
        raise RuntimeError(f"sum_to_size: size {_text(shape)} is not expandable to size {_text(input.shape)}.")
    return sum_to(input, shape)


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand all tensors to the one shape they broadcast to."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        (tensors,) = tensors
    for k, tensor in enumerate(tensors):
        if not hasattr(tensor, "shape"):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(tensor).__name__}")
    try:
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        raise RuntimeError(
            "broadcast_tensors: the shapes "
            + ", ".join(_text(tensor.shape) for tensor in tensors)
            + " do not broadcast"
        ) from None
    return tuple(tensor if tensor.shape == shape else expand(tensor, shape) for tensor in tensors)


# --- the order of dimensions --------------------------------------------------------------------------------------


def _permute_back(g: Any, dims: Sequence[int]) -> Any:
    inverse = [0] * g.ndim
    for position, dim in enumerate(dims):
        inverse[dim] = position
    return np.transpose(g, inverse)


@view_op(variadic="dims", input=lambda g, dims: _permute_back(g, dims))
def permute(input, dims: Sequence[int]):
    """Return a view with the dimensions in another order: dimension ``k`` of the result is ``dims[k]`` of ``input``."""
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    return input.transpose(dims)


def _swapped(input: Any, dim0: int, dim1: int) -> Any:
    if not input.ndim:  # a 0-d tensor has a dimension 0 to swap with itself
        return input if normalize_dim(dim0, 0) == normalize_dim(dim1, 0) else None
    return np.swapaxes(input, dim0, dim1)


@view_op(aliases=("swapdims",), forms=1, input=lambda g, dim0, dim1: _swapped(g, dim0, dim1))
def transpose(input, dim0: int, dim1: int):
    """Return a view with two dimensions swapped."""
    return _swapped(input, dim0, dim1)


swapdims = transpose


@view_op(node_name="TransposeBackward0", input=lambda g, axis0, axis1: _swapped(g, axis0, axis1))
def swapaxes(input, axis0: int, axis1: int):
    """Return a view with two dimensions swapped; NumPy's name for :func:`transpose`."""
    return _swapped(input, axis0, axis1)


@view_op(forms=1, input=lambda g: np.transpose(g))
def t(input):
    """Return the transposed matrix as a view; a tensor of fewer dimensions as it is.

    Raises
    ------
    RuntimeError
        If there are more than two dimensions.
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D; see Tensor.mT")
    return input.T


def _moved(input: Any, source: Any, destination: Any) -> Any:
    if not input.ndim:
        normalize_dims(source, 0), normalize_dims(destination, 0)
        return input
    return np.moveaxis(input, source, destination)


@view_op(
    aliases=("moveaxis",),
    node_name="PermuteBackward0",
    input=lambda g, source, destination: _moved(g, destination, source),
)
def movedim(input, source: int | Sequence[int], destination: int | Sequence[int]):
    """Return a view with the dimensions ``source`` moved to the positions ``destination``, the others in order."""
    return _moved(input, source, destination)


moveaxis = movedim


def _warn_of_a_number(name: str, advice: str) -> None:
    warn_user(f"{name} is deprecated on 0-D tensors. {advice}")


def _matrix_transpose(name: str, input: Any, advice: str = "Consider using x.conj().") -> Any:
    if not input.ndim:
        _warn_of_a_number(name if name.endswith(")") else f"Tensor.{name}", advice)
        return input
    if input.ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return transpose(input, -2, -1)


@composite()
def adjoint(input) -> Tensor:
    """Return the conjugate transpose of the matrices in the last two dimensions, a view."""
    return conj(_matrix_transpose("adjoint()", input))


def _hermitian(input: Any) -> Any:
    if not input.ndim:
        _warn_of_a_number("Tensor.H", "Consider using x.conj().")
        return conj(input)
    if input.ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor. "
            "For batches of matrices, consider using tensor.mH"
        )
    return conj(transpose(input, 0, 1))


add_method(
    "T",
    property(lambda input: permute(input, tuple(range(input.ndim))[::-1]), doc="A view with the dimensions reversed."),
)
add_method(
    "mT",
    property(
        lambda input: _matrix_transpose("mT", input, "This function is the identity in these cases."),
        doc="The matrices transposed, as a view.",
    ),
)
add_method("H", property(_hermitian, doc="The conjugate transpose of a matrix."))
add_method(
    "mH", property(lambda input: conj(_matrix_transpose("mH", input)), doc="The matrices' conjugate transposes.")
)


# --- dimensions of length 1 ---------------------------------------------------------------------------------------


def _squeeze_name(dim: Any) -> str:
    return "SqueezeBackward0" if dim is None else f"SqueezeBackward{2 if isinstance(dim, Sequence) else 1}"


@view_op(node_name=_squeeze_name, forms=3, input=lambda g, input_shape: g.reshape(input_shape))
def squeeze(input, dim: int | Sequence[int] | None = None):
    """Return a view without the dimensions of length 1: all of them, or those among ``dim``."""
    if dim is None:
        return input.squeeze()
    return input.squeeze(tuple(d for d in normalize_dims(dim, input.ndim) if input.ndim and input.shape[d] == 1))


@view_op(forms=1, input=lambda g, input_shape: g.reshape(input_shape))
def unsqueeze(input, dim: int):
    """Return a view with a new dimension of length 1 at position ``dim``."""
    return input[along(normalize_axis_index(dim, input.ndim + 1), None)]


def _each(function: Any, tensors: Any) -> Any:
    if len(tensors) == 1:
        (tensors,) = tensors
        if not isinstance(tensors, (tuple, list)):
            return function(tensors)
    return tuple(function(tensor) for tensor in tensors)


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
@composite(method=False)
def atleast_1d(*tensors: Any):
    """Return 0-d tensors as vectors of one element, others as they are; of several tensors a tuple."""
    return _each(lambda tensor: tensor if tensor.ndim else unsqueeze(tensor, 0), tensors)


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
@composite(method=False)
def atleast_2d(*tensors: Any):
    """Return 0-d tensors and vectors as matrices of one row, others as they are; of several tensors a tuple."""
    return _each(lambda tensor: tensor if tensor.ndim > 1 else tensor.reshape(1, -1), tensors)


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
@composite(method=False)
def atleast_3d(*tensors: Any):
    """Return tensors of fewer dimensions with three, ``(n,)`` as ``(1, n, 1)`` and ``(n, m)`` as ``(n, m, 1)``."""
    return _each(
        lambda tensor: (
            tensor if tensor.ndim > 2 else unsqueeze(tensor if tensor.ndim > 1 else tensor.reshape(1, -1), -1)
        ),
        tensors,
    )


# --- in place -----------------------------------------------------------------------------------------------------


def become_view(input: Tensor, name: str, look: Callable[[], Tensor], back: Callable[[Step], Step]) -> Tensor:
    """Make a tensor the view of it that ``look`` returns; ``back`` tells from the last step there how to undo it."""
    check_writable(input, name, elements=False)
    has_views = input._cell is not None
    result = look()
    input._data = result._data
    bump(input)
    if local.tangents is not None:
        local.tangents.move(result, input)
    view = None if result._meta is None else result._meta.view
    if view is not None and view.edge is not None:
        op, arguments, _ = view.steps[-1]
        view.edge[0].__class__ = op.class_for((input, *arguments), is_inplace=True)  # differs by name only
    former = None if input._meta is None else input._meta.view
    if view is not None and former is not None:
        input._meta.view = view  # type: ignore[union-attr]
        view.forbidden = former.forbidden
        # not recorded: the edge is recreated from the base when next requested
        unrecorded = view.edge is None and former.edge is not None
        view.version = -1 if unrecorded else input._version
        if view.edge is None:
            view.edge = former.edge
        else:
            move_retained(input, former.edge, view.edge)
    elif view is not None:
        if has_views:
            step = view.steps[-1]
            input._own_meta().moved = Moves.of(input).then(step, back(step))
        if view.edge is not None:
            move_retained(input, input._edge, view.edge)
            input._edge = view.edge
        elif input._meta is not None:
            input._meta.accumulator = None  # it would make gradients fit the old shape
    return input


def _in_place(function: Any, name: str) -> None:
    """Register ``x.t_()`` for ``t``: the tensor takes on the shape and strides of its view."""

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        shape = input.shape if isinstance(input, Tensor) else ()
        return become_view(
            input,
            name,
            lambda: function(*function.op.bind((input, *args), kwargs, name)),
            lambda step: step if function in (t, transpose) else (_view_shape.op, [shape], None),
        )

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"In-place form of :func:`retrograd.{function.op.name}`: only the shape and the strides change."
    add_method(name, call)


_in_place(squeeze, "squeeze_")
_in_place(unsqueeze, "unsqueeze_")
_in_place(t, "t_")
for _name in ("transpose_", "swapdims_", "swapaxes_"):
    _in_place(transpose, _name)
