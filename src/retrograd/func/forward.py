"""Jacobian-vector products, Jacobians column by column, and Hessians: forward mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd.autograd._functional import pulled
from retrograd.core import state
from retrograd.core.forward_mode import Level, check_dual, fit_tangent
from retrograd.core.jvp import zeros_like
from retrograd.core.tensor import Tensor
from retrograd.func._scope import (
    Argnums,
    Scope,
    as_tensors,
    check_real,
    check_tensors,
    chosen,
    replaced,
    split_aux,
    to_be_array,
)
from retrograd.func.reverse import jacrev, one_hot_basis, pulled_back
from retrograd.tree import flatten, tree_map, unflatten
from retrograd.vectorize import as_tensor_leaf, check_randomness, vmap


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return ``func(*primals)`` and the product of its Jacobian there with ``tangents``, in one pass forward.

    Parameters
    ----------
    func
        A function of tensors, or of nested tensors, that returns such; with ``has_aux``, a pair of that and anything
        else.
    primals
        A tuple of the arguments, all of which are differentiated.
    tangents
        Structured as ``primals``, of the same shapes.
    strict
        Raise if an output does not depend on the primals, instead of returning zeros.
    has_aux
        Whether ``func`` returns something beside the output.

    Returns
    -------
    output, tangents
        The output of ``func`` and its tangents, structured alike.
    aux
        With ``has_aux``: what came beside the output.

    Raises
    ------
    RuntimeError
        If ``primals`` is no tuple or holds no tensor, if the structures or shapes differ, or if ``func`` returns
        anything but tensors.

    Examples
    --------
    >>> rg.func.jvp(rg.sin, (rg.tensor([0.0, 1.0]),), (rg.tensor([1.0, 1.0]),))
    (tensor([0.0000, 0.8415]), tensor([1.0000, 0.5403]))
    """
    name = "jvp(f, primals, tangents)"
    primals = as_tensors(primals)
    values, vectors, structure = _checked_pair(name, primals, tangents)
    outer = state.local.dual_level
    with _entered(Level(outer)) as level:
        duals = [_dual(level, value, vector) for value, vector in zip(values, vectors, strict=True)]
        output, aux = split_aux(func(*unflatten(structure, duals)), has_aux, name)
        outputs, shape = flatten(output)
        check_tensors(outputs, name)
        found = [level.tangent(leaf) for leaf in outputs]
    if strict and any(tangent is None for tangent in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    if state.monitor is not None and outer is None and not state.local.transforms:
        state.monitor.after_forward(outputs, found)
    pushed = [zeros_like(leaf) if tangent is None else tangent for leaf, tangent in zip(outputs, found, strict=True)]
    result = (output, unflatten(shape, pushed))
    return (*result, aux) if has_aux else result


@contextmanager
def _entered(level: Level) -> Iterator[Level]:
    """A block in which tensors have tangents in ``level``; at its end they are forgotten."""
    local = state.local
    modes = local.forward_enabled, local.inference, local.transforms, local.mode
    levels = local.dual_level, local.tangents
    try:
        local.forward_enabled, local.inference, local.transforms = True, False, local.transforms + 1
        state.set_dual_level(level)
        yield level
    finally:
        local.forward_enabled, local.inference, local.transforms, local.mode = modes
        local.dual_level, local.tangents = levels
        state.refresh()
        level.leave()


def _dual(level: Level, value: Tensor, vector: Tensor) -> Tensor:
    dual = value.view_as(value)
    level.set(dual, fit_tangent(vector, dual))
    return dual


def _direction(given: Any, value: Any) -> Any:
    """A tangent as a tensor; an array of integers, as ``np.array([1, 0])`` is one, in the dtype of its primal."""
    vector = as_tensor_leaf(given)
    counted = vector is not given and vector.dtype.kind in "biu" and isinstance(value, Tensor)
    return vector.to(value.dtype) if counted else vector


def _checked_pair(name: str, primals: Any, tangents: Any) -> tuple[list[Tensor], list[Tensor], Any]:
    """The leaves of primals and tangents, which must match."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    values, structure = flatten(primals)
    vectors, own = flatten(tangents)
    if own != structure:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structure} and tangents with "
            f"structure {own}"
        )
    if not values:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor.")
    vectors = [_direction(vector, value) for value, vector in zip(values, vectors, strict=True)]
    for value, vector in zip(values, vectors, strict=True):
        for what, leaf in (("primals", value), ("tangents", vector)):
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{name}: Expected {what} to contain only Tensors, got {type(leaf)}{to_be_array(leaf)}"
                )
        check_dual(value, vector)
    return values, vectors, structure


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return ``func(*primals)`` and the linear function that approximates it there.

    ``func`` itself is run only once, however many tangents follow.

    Parameters
    ----------
    func
        The function; it returns a tensor, or a tuple, list or dictionary of some.
    *primals
        Its arguments.

    Returns
    -------
    output, jvp_fn
        ``func(*primals)``, and a function that takes tangents, one for each primal, and returns those of the output, as
        :func:`jvp` does.

    Raises
    ------
    RuntimeError
        If ``func`` returns anything but tensors; of ``jvp_fn``, if the tangents do not match the primals.

    Notes
    -----
    What happens to tangents is recorded, and is linear in them; transposed twice, it is the linear function.

    Examples
    --------
    >>> output, jvp_fn = rg.func.linearize(rg.sin, rg.tensor([0.0, 1.0]))
    >>> jvp_fn(rg.tensor([1.0, 0.0]))
    tensor([1., 0.])
    """
    name = "linearize(f, *primals)"
    primals = as_tensors(primals)
    # placeholders for the directions to come; their values do not matter
    still = tree_map(lambda leaf: zeros_like(leaf) if isinstance(leaf, Tensor) else leaf, primals)
    values, directions, nesting = _checked_pair(name, primals, still)
    with Scope() as scope:
        arguments = [scope.argument(direction) for direction in directions]
        with _entered(Level(state.local.dual_level, recorded=True)) as level:
            duals = [_dual(level, value, vector.clone()) for value, vector in zip(values, arguments, strict=True)]
            output = func(*unflatten(nesting, duals))
            outputs, structure = flatten(output)
            check_tensors(outputs, name)
            found = [level.tangent(leaf) for leaf in outputs]
        # the product of a vector with the Jacobian is linear in the vector: its transpose is what is wanted
        vectors = {
            nr: scope.argument(zeros_like(tangent))
            for nr, tangent in enumerate(found)
            if tangent is not None and tangent.requires_grad
        }
        products: Sequence[Any] = [None] * len(arguments)
        if vectors:
            products = pulled([found[nr] for nr in vectors], arguments, list(vectors.values()))
        released = scope.released_tree(output)

    def jvp_fn(*tangents: Any) -> Any:
        _, given, _ = _checked_pair(name, primals, tangents)
        pairs = [(product, tangent) for product, tangent in zip(products, given, strict=True) if product is not None]
        made, along = [product for product, _ in pairs], [tangent for _, tangent in pairs]
        with scope.resumed():
            further = scope.depends_on_outside([*made, *along])
            live = pulled_back(scope, made, list(vectors.values()), along, further, True, notify=False)
        if state.monitor is not None and not state.local.transforms:
            state.monitor.after_forward(outputs, live)
        pushed = dict(zip(vectors, live, strict=True))
        return unflatten(structure, [pushed.get(nr, zero) for nr, zero in enumerate(map(zeros_like, outputs))])

    return released, jvp_fn


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian of ``func`` by forward mode, all columns in one pass.

    It is the better choice where there are fewer inputs than outputs; :func:`jacrev` is for the opposite.

    Parameters
    ----------
    func, argnums, has_aux, chunk_size
        As for :func:`jacrev`; a chunk is a number of columns.
    randomness
        What random operations in ``func`` do, as in :func:`vmap`.

    Returns
    -------
    callable
        What :func:`jacrev` returns.

    Raises
    ------
    RuntimeError
        If a tensor among the arguments or outputs is complex.

    Examples
    --------
    >>> rg.func.jacfwd(lambda x: x**2)(rg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_randomness(randomness)
    return by_columns(func, argnums, has_aux, chunk_size, randomness, only_real=True)


def by_columns(
    func: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool = False,
    chunk_size: int | None = None,
    randomness: str = "error",
    only_real: bool = False,
) -> Callable[..., Any]:
    """The implementation of :func:`jacfwd`, which also allows complex arguments and outputs."""

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        args = as_tensors(args)
        if only_real:
            check_real(flatten(args)[0], "jacfwd", "inputs")
        argument = chosen(argnums, args)
        inputs, inside = flatten(argument)
        for leaf in inputs:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"jacfwd: Expected all inputs to be tensors, got {type(leaf)}{to_be_array(leaf)}")
        kept: list[Any] = []  # the structure of the outputs, and the auxiliary values

        def push(*vectors: Any) -> Any:
            def of_leaves(*leaves: Any) -> Any:
                return func(*replaced(argnums, args, unflatten(inside, list(leaves))), **kwargs)

            output, tangents, *aux = jvp(of_leaves, tuple(inputs), vectors, has_aux=has_aux)
            outputs, structure = flatten(output)
            if only_real:
                check_real(outputs, "jacfwd", "outputs")
            kept[:] = [structure, *aux]
            return flatten(tangents)[0]

        columns = vmap(push, randomness=randomness, chunk_size=chunk_size)(*one_hot_basis(inputs))
        structure, *aux = kept
        sizes = [leaf.numel() for leaf in inputs]
        blocks = []
        for column in columns:
            shape = tuple(column.shape[1:])
            parts = column.movedim(0, -1).split(sizes, -1)
            blocks.append(
                unflatten(
                    inside, [part.reshape((*shape, *leaf.shape)) for part, leaf in zip(parts, inputs, strict=True)]
                )
            )
        result = unflatten(structure, blocks)
        return (result, *aux) if has_aux else result

    return jacobian


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the Hessian of ``func``: ``jacfwd(jacrev(func))``.

    Parameters
    ----------
    func, argnums
        As for :func:`jacrev`; usually ``func`` returns a scalar.

    Returns
    -------
    callable
        Takes the arguments of ``func`` and returns tensors of shape ``(*output.shape, *input.shape, *input.shape)``,
        nested once by the outputs and twice by the arguments.

    Examples
    --------
    >>> rg.func.hessian(lambda x: (x**3).sum())(rg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
