"""vmap: a function of one sample becomes a function of a batch.

The samples' axis is hidden in a :class:`~retrograd.batching.BatchedArray` inside the tensors, so that operations and
rules compute all samples at once without knowing. Four operations say where a batch begins and ends: :func:`hide` and
:func:`reveal` at the border of the mapped function, and :func:`lift` and :func:`total` where a tensor that is the same
for every sample meets one that is not. They are each other's derivatives.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd import batching
from retrograd.batching import BatchedArray, Level
from retrograd.core.errors import check_plain
from retrograd.core.op import kernel, view
from retrograd.core.state import local, refresh
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpy_dtype
from retrograd.random.generator import get_rng_state, set_rng_state
from retrograd.tree import Structure, flatten, spread, unflatten

# --- the borders of a batch -------------------------------------------------------------------------------------------


def _revealed(g: Any, dim: int, level: Level) -> Any:
    return reveal(g, dim, level) if isinstance(g, Tensor) else batching.reveal(g, dim, level)


def _hidden(g: Any, dim: int, level: Level) -> Any:
    return hide(g, dim, level) if isinstance(g, Tensor) else batching.hide(g, dim, level)


@view(public=False, method=False, input=_revealed)
def hide(input, dim: int, level: Level):
    """``input`` without its dimension ``dim``, whose positions are the samples of ``level``."""
    return batching.hide(input, dim, level)


@view(public=False, method=False, input=_hidden)
def reveal(input, dim: int, level: Level):
    """``input`` with the samples of ``level`` as dimension ``dim``."""
    return batching.reveal(input, dim, level)


def _total_when_ended(g: Any, levels: tuple[Level, ...]) -> Any:
    # a gradient asked for inside the mapped function is that of one sample
    ended = tuple([level for level in levels if not level.active])
    return total(g, ended) if ended else g


# forward mode must not transpose this rule, which gives back its argument while the batch is mapped over: by
# ``factors``, a tangent is lifted as well
@kernel(public=False, method=False, factors=("input",), input=_total_when_ended)
def lift(input, levels: tuple[Level, ...]):
    """The same ``input`` for every sample of ``levels``."""
    return batching.lift(input, levels)


@kernel(public=False, method=False, factors=("input",), input=lambda g, levels: lift(g, levels))
def total(input, levels: tuple[Level, ...]):
    """The sum over all samples of ``levels``."""
    return batching.total(input, levels)


_BORDERS = frozenset([hide.op, reveal.op, lift.op, total.op])


def _lift_operands(op: Any, bound: list[Any], result: Any) -> list[Any]:
    """Put a :func:`lift` before operands that are the same for every sample, if the result is not.

    The gradients that come back for them have a batch, which is summed there.
    """
    if op in _BORDERS:
        return bound
    levels = _active_levels(result if isinstance(result, (tuple, list)) else (result,))
    if not levels:
        return bound
    bound = list(bound)
    for position in op.edge_positions:
        value = bound[position]
        if position == op.sequence_position:
            bound[position] = [_lifted(item, levels) for item in value]
        else:
            bound[position] = _lifted(value, levels)
    return bound


def lift_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a user-written Function, with a :func:`lift` before those that are the same for every sample."""
    levels = levels_of(args)
    return tuple([_lifted(arg, levels) for arg in args]) if levels else args


def levels_of(args: tuple[Any, ...]) -> list[Level]:
    """The active levels in which tensors in ``args``, also nested ones, differ; the innermost last."""
    return _active_levels([leaf._data for leaf in flatten(args)[0] if isinstance(leaf, Tensor)])


def _active_levels(arrays: Sequence[Any]) -> list[Level]:
    found = {level for array in arrays if type(array) is BatchedArray for level in array.levels}
    return [level for level in local.vmaps if level in found]


def _lifted(value: Any, levels: list[Level]) -> Any:
    if not isinstance(value, Tensor) or not value.requires_grad:
        return value
    missing = tuple([level for level in levels if not _has(value, level)])
    return lift(value, missing) if missing else value


@contextlib.contextmanager
def mapping(level: Level) -> Iterator[Level]:
    """Within the block, ``level`` is being mapped over."""
    previous = local.vmaps
    try:
        local.vmaps, local.lift = (*previous, level), _lift_operands
        level.active = True
        refresh()
        yield level
    finally:
        level.active = False
        local.vmaps = previous
        local.lift = _lift_operands if previous else None
        refresh()


@contextlib.contextmanager
def mapping_again(levels: tuple[Level, ...]) -> Iterator[None]:
    """Within the block, exactly ``levels`` are being mapped over, as they were during their calls."""
    before = local.vmaps, local.lift
    try:
        local.vmaps, local.lift = levels, _lift_operands if levels else None
        refresh()
        yield
    finally:
        local.vmaps, local.lift = before
        refresh()


class VmapInfo(NamedTuple):
    """The first argument of :meth:`retrograd.autograd.Function.vmap`."""

    batch_size: int
    randomness: str


def apply_batched(function: Any, args: tuple[Any, ...]) -> Any:
    """Call a user-written Function by the ``vmap`` that it has, with arguments at least one of which is batched."""
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity."
        )
    previous, level = local.vmaps, levels_of(args)[-1]
    inputs, nesting = flatten(args)
    in_dims = [0 if isinstance(leaf, Tensor) and _has(leaf, level) else None for leaf in inputs]
    local.vmaps = tuple([other for other in previous if other is not level])
    try:
        revealed = [leaf if dim is None else reveal(leaf, 0, level) for leaf, dim in zip(inputs, in_dims, strict=True)]
        info = VmapInfo(level.size, level.randomness)
        returned = function.vmap(info, unflatten(nesting, in_dims), *unflatten(nesting, revealed))
    finally:
        local.vmaps = previous
    if not isinstance(returned, tuple) or len(returned) != 2:
        what = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        raise RuntimeError(
            f"{function.__name__}.vmap returned {what}, but must return two values: the output, and out_dims, which "
            "give its sample dimension (an int, or None where all samples share the value, nested like the output)"
        )
    outputs, out_dims = returned
    leaves, structure = flatten(outputs)
    dims = spread(out_dims, structure)
    if dims is None:
        raise RuntimeError(
            f"{function.__name__}.vmap returned out_dims {out_dims} for outputs with structure {structure}"
        )
    return unflatten(
        structure, [_own_output(function, leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
    )


def _own_output(function: Any, output: Any, dim: Any, level: Level) -> Any:
    """What a Function's ``vmap`` returned, with the samples along dimension ``dim`` hidden."""
    if dim is None:
        return output
    name = f"{function.__name__}.vmap"
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{name} returned {type(output)} with the out_dim {dim!r}, but only Tensors have a sample dimension; for "
            "anything else the out_dim must be None"
        )
    if not isinstance(dim, int):
        raise ValueError(f"{name} returned the out_dim {dim!r}; it must be an int, or None")
    if not -output.ndim <= dim < output.ndim:
        raise IndexError(
            f"{name}: Dimension out of range: it returned the out_dim {dim} for a Tensor of shape {list(output.shape)}"
        )
    if output.shape[dim] != level.size:
        raise RuntimeError(
            f"{name} returned a Tensor of shape {list(output.shape)} with the out_dim {dim}, of size "
            f"{output.shape[dim]}, but there are {level.size} samples"
        )
    return hide(output, dim, level)


# --- vmap -------------------------------------------------------------------------------------------------------------

Dims = int | tuple[Any, ...] | list[Any] | dict[Any, Any] | None


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies ``func`` to every sample of a batch, all at once.

    ``func`` sees the tensors of one sample: shapes, ``dim=`` and indices are those it would have for a single sample.
    The operations inside are computed for all samples together, so that this is about as fast as code that was written
    for the batch, and much faster than a loop.

    Parameters
    ----------
    func
        A function of tensors, or of tuples, lists and dictionaries of tensors, that returns such.
    in_dims
        Which dimension of every input the samples lie along, and None for inputs that are the same for all samples. An
        int stands for all inputs; otherwise a tuple with an entry for each positional argument, nested as the argument
        is, where an entry stands for everything below it. Keyword arguments are the same for all samples.
    out_dims
        Where to put the samples in the outputs; nested as the output is. None for an output that is the same for all.
    randomness
        What random operations inside do: ``"error"``: raise; ``"same"``: draw once, for all samples; ``"different"``:
        draw for every sample.
    chunk_size
        Compute that many samples at a time, to save memory.

    Returns
    -------
    callable
        Takes the arguments of ``func`` with the additional dimension.

    Raises
    ------
    ValueError
        If ``in_dims`` or ``out_dims`` do not fit the inputs or outputs, if there is no tensor to map over, if the
        numbers of samples differ, or if ``func`` returns anything but tensors.
    RuntimeError
        If ``func`` does what cannot be done for all samples at once: branch on a value, take ``item()``, or compute
        something whose shape depends on the data; or something random with ``randomness="error"``.

    Notes
    -----
    It can be nested, differentiated, and used inside of functions that are differentiated. Tensors from outside that
    ``func`` uses are the same for all samples; the gradients that flow to them are summed.

    Examples
    --------
    >>> weight = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> batch = rg.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> rg.vmap(lambda x: weight @ x)(batch)
    tensor([[1., 3.],
            [2., 4.],
            [3., 7.]])

    Gradients sample by sample:

    >>> rg.vmap(rg.func.grad(lambda x: (x**3).sum()))(batch)
    tensor([[3., 0.],
            [0., 3.],
            [3., 3.]])
    """
    check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: `chunk_size` should be None or greater than 0. (got {chunk_size})")
    for dim in flatten(out_dims)[0]:
        if dim is not None and not isinstance(dim, int):
            raise ValueError(
                f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, structure, size = _inputs(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _map(func, leaves, dims, structure, size, out_dims, randomness, kwargs)
        start_of_draws = get_rng_state() if randomness == "same" else None
        chunks = []
        for start in range(0, size, chunk_size):
            if start_of_draws is not None:
                set_rng_state(start_of_draws)  # what is drawn once for all samples is drawn again for every chunk
            count = min(chunk_size, size - start)
            part = [
                leaf if dim is None else leaf.narrow(dim, start, count) for leaf, dim in zip(leaves, dims, strict=True)
            ]
            chunks.append(_map(func, part, dims, structure, count, out_dims, randomness, kwargs))
        return _joined(chunks, out_dims)

    return mapped


def check_randomness(randomness: str) -> None:
    """Raise unless it is one of the three modes."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def name_of(func: Any) -> str:
    """The name of a function for messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return getattr(func, "__name__", repr(func))


def as_tensor_leaf(leaf: Any) -> Any:
    """A tensor for an array, or for the scalar that NumPy's functions return in place of a 0-d one; or what it is."""
    if isinstance(leaf, np.ndarray):
        check_plain(leaf)
    elif not isinstance(leaf, np.inexact):
        return leaf
    from_numpy_dtype(leaf.dtype)  # which raises for what cannot be a tensor
    return wrap(np.asarray(leaf))


def _inputs(func: Any, in_dims: Dims, args: tuple[Any, ...]) -> tuple[list[Any], list[int | None], Structure, int]:
    """The leaves of the arguments, the dimensions to map over, how they are nested, and the number of samples."""
    name = name_of(func)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) "
            f"tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    dims = spread(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    leaves = [as_tensor_leaf(leaf) for leaf in leaves]
    for leaf, dim in zip(leaves, dims, strict=True):
        _check_in_dim(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for ", leaf, dim)
    dims = [None if dim is None else dim % leaf.ndim for leaf, dim in zip(leaves, dims, strict=True)]
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
    return leaves, dims, structure, sizes[0]


def _check_in_dim(where: str, leaf: Any, dim: Any) -> None:
    """Raise, in torch's words, if an argument does not have the dimension that is to be mapped over."""
    if dim is None:
        return
    if not isinstance(dim, int):
        raise ValueError(f"{where}an input but in_dim must be either an integer dimension or None.")
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}an input but the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, "
            "please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{where}some input, but that input is a Tensor of dimensionality {leaf.ndim} so expected in_dim to "
            f"satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )


def _map(
    func: Callable[..., Any],
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    size: int,
    out_dims: Dims,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    level = Level(size, randomness)
    inside = [leaf if dim is None else hide(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
    with mapping(level):
        outputs = func(*unflatten(structure, inside), **kwargs)
        found, shape = flatten(outputs)
        places = spread(out_dims, shape)
        if isinstance(outputs, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
            places = list(out_dims)
        if places is None:
            raise ValueError(
                f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
                f"structure of `outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure "
                f"{shape}."
            )
        return unflatten(shape, [_output(func, x, dim, level) for x, dim in zip(found, places, strict=True)])


def _output(func: Any, output: Any, dim: int | None, level: Level) -> Any:
    name = name_of(func)
    if dim is None:
        if isinstance(output, Tensor) and _has(output, level):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return output
    if not isinstance(output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. "
            "Did you mean to set out_dims= to None for output?"
        )
    if not -output.ndim - 1 <= dim <= output.ndim:
        raise IndexError(
            f"vmap({name}, ...): Dimension out of range: out_dim {dim} for an output of {output.ndim} dimensions; "
            f"expected it to be in range of [{-output.ndim - 1}, {output.ndim}]"
        )
    return as_batch(output, dim, level)


def as_batch(tensor: Tensor, dim: int, level: Level) -> Tensor:
    """``tensor`` with the samples of ``level`` as dimension ``dim``, also if it is the same for all of them."""
    return reveal(tensor if _has(tensor, level) else lift(tensor, (level,)), dim, level)


def _has(tensor: Tensor, level: Level) -> bool:
    return type(tensor._data) is BatchedArray and level in tensor._data.levels


def _joined(chunks: list[Any], out_dims: Dims) -> Any:
    """The outputs of the chunks, one after the other along their ``out_dims``."""
    from retrograd.ops.joining import cat

    columns = list(zip(*(flatten(chunk)[0] for chunk in chunks), strict=True))
    shape = flatten(chunks[0])[1]
    places = list(out_dims) if shape.kind is None and isinstance(out_dims, tuple) else spread(out_dims, shape)
    assert places is not None
    joined = [column[0] if dim is None else cat(list(column), dim) for column, dim in zip(columns, places, strict=True)]
    return unflatten(shape, joined)
