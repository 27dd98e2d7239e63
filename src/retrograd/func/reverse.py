"""Gradients, vector-Jacobian products and Jacobians row by row: reverse mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.autograd import returned_gradients
from retrograd.core.jvp import zeros_like
from retrograd.core.tensor import Tensor, wrap
from retrograd.func._scope import (
    Argnums,
    Scope,
    as_tensors,
    check_differentiable,
    check_real,
    check_tensors,
    chosen,
    replaced,
    split_aux,
    without_history,
)
from retrograd.ops.joining import stack
from retrograd.tree import Structure, flatten, tree_map, unflatten
from retrograd.vectorize import vmap


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that computes the gradient of ``func``, which must return a scalar tensor.

    Parameters
    ----------
    func
        A function of tensors (or of tuples, lists and dictionaries of tensors) that returns a 0-d tensor; with
        ``has_aux``, a pair of that and anything else.
    argnums
        Which positional argument to differentiate by, or a tuple of several.
    has_aux
        Whether ``func`` returns something beside the value.

    Returns
    -------
    callable
        Takes the arguments of ``func`` and returns the gradient, structured as the argument (a tuple, if ``argnums`` is
        one); with ``has_aux`` a pair of that and the auxiliary output.

    Raises
    ------
    RuntimeError
        If the value is no 0-d tensor, if ``argnums`` does not fit the arguments, or if an argument to differentiate is
        not of a floating-point or complex dtype.

    Notes
    -----
    Inside of ``no_grad`` and ``inference_mode``, the gradient is computed all the same, but has no history itself. A
    ``no_grad`` inside of ``func`` has its usual effect.

    Examples
    --------
    >>> rg.func.grad(lambda x: (x**3).sum())(rg.tensor([1.0, 2.0]))
    tensor([ 3., 12.])

    For every sample of a batch:

    >>> loss = lambda w, x: (w * x).sum() ** 2
    >>> w, batch = rg.tensor([1.0, 2.0]), rg.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> rg.vmap(rg.func.grad(loss), in_dims=(None, 0))(w, batch)
    tensor([[2., 0.],
            [6., 6.]])
    """
    both = _both(func, argnums, has_aux, "grad")

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that computes the gradient of ``func`` and its value, in this order.

    Parameters
    ----------
    func, argnums, has_aux
        As for :func:`grad`.

    Returns
    -------
    callable
        Takes what ``func`` takes and returns ``(gradient, value)``, with ``has_aux`` ``(gradient, (value, aux))``.

    Raises
    ------
    RuntimeError
        As :func:`grad`.

    Examples
    --------
    >>> rg.func.grad_and_value(lambda x: (x**2).sum())(rg.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    return _both(func, argnums, has_aux, "grad_and_value")


def _both(func: Callable[..., Any], argnums: Argnums, has_aux: bool, transform: str) -> Callable[..., Any]:
    """The function of :func:`grad_and_value`, whose errors name the transform that the program calls."""
    name = f"{transform}(f)(*args)"

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        args = as_tensors(args)
        with Scope() as scope:
            arguments = tree_map(scope.argument, chosen(argnums, args))
            value, aux = split_aux(func(*replaced(argnums, args, arguments), **kwargs), has_aux, name)
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a Tensor, got {type(value)}{without_history(value, has_aux)}"
                )
            if value.ndim:
                advice = (
                    "It has one element: return that, value.sum()."
                    if value.numel() == 1
                    else "Reduce it first, for example with .sum() or .mean(), or use vjp or jacrev instead."
                )
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {value.ndim} dims, of shape "
                    f"{list(value.shape)}. {advice}"
                )
            leaves, structure = flatten(arguments)
            further = scope.depends_on_outside([value])
            gradients = pulled_back(scope, [value], leaves, None, further, False)
            result = unflatten(structure, gradients)
            value, aux = scope.released(value), scope.released_tree(aux)
        return result, ((value, aux) if has_aux else value)

    return differentiated


def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that computes the value of ``func`` and its gradient: :func:`grad_and_value`, value first.

    Parameters
    ----------
    func, argnums, has_aux
        As for :func:`grad`.

    Returns
    -------
    callable
        Takes what ``func`` takes and returns ``(value, gradient)``, with ``has_aux`` ``((value, aux), gradient)``.

    Raises
    ------
    RuntimeError
        As :func:`grad`.

    Examples
    --------
    >>> value, gradient = rg.func.value_and_grad(lambda x: (x**2).sum())(rg.tensor([1.0, 2.0]))
    >>> value
    tensor(5.)
    """
    both = _both(func, argnums, has_aux, "value_and_grad")

    @functools.wraps(func)
    def reordered(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return reordered


def pulled_back(
    scope: Scope,
    outputs: Sequence[Tensor],
    arguments: Sequence[Tensor],
    cotangents: Any,
    further: bool,
    keep: bool,
    notify: bool = True,
) -> list[Tensor]:
    """The gradients of the arguments; zeros where an output does not depend on one."""
    pairs = [
        (output, None if cotangents is None else cotangents[position])
        for position, output in enumerate(outputs)
        if output.requires_grad
    ]
    if not pairs or not arguments:
        return [zeros_like(argument) for argument in arguments]
    found = returned_gradients(
        [output for output, _ in pairs],
        tuple(arguments),
        [cotangent for _, cotangent in pairs],
        keep or further,
        further,
        allow_unused=True,
        notify=notify,
    )
    return [
        zeros_like(argument) if gradient is None else scope.released(gradient)
        for gradient, argument in zip(found, arguments, strict=True)
    ]


# --- vector-Jacobian products -----------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``func(*primals)`` and a function that multiplies a vector with its Jacobian there.

    Parameters
    ----------
    func
        A function of tensors, or of nested tensors, that returns such; with ``has_aux``, a pair of that and anything
        else.
    *primals
        The arguments, all of which are differentiated.
    has_aux
        Whether ``func`` returns something beside the output.

    Returns
    -------
    output
        Of ``func``.
    vjp_fn : callable
        Takes cotangents, structured as the output, and returns a tuple with the product for every argument (the
        product itself, if there is one argument). It can be called any number of times.
    aux
        With ``has_aux``: what came beside the output.

    Raises
    ------
    RuntimeError
        If ``func`` returns anything but tensors, or if cotangents differ from the output in structure or shape.

    Examples
    --------
    >>> output, vjp_fn = rg.func.vjp(rg.sin, rg.tensor([0.0, 1.0]))
    >>> vjp_fn(rg.tensor([1.0, 1.0]))
    (tensor([1.0000, 0.5403]),)
    """
    output, pull, aux = _vjp(func, as_tensors(primals), has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return pull(as_tensors(cotangents), retain_graph, create_graph)

    return (output, vjp_fn, aux) if has_aux else (output, vjp_fn)


def _vjp(func: Callable[..., Any], primals: Any, has_aux: bool) -> tuple[Any, Callable[..., Any], Any]:
    name = "vjp(f, *primals)"
    with Scope() as scope:
        arguments = tree_map(scope.argument, primals)
        output, aux = split_aux(func(*arguments), has_aux, name)
        outputs, structure = flatten(output)
        check_tensors(outputs, name)
        check_differentiable(outputs, name)
        leaves, arguments_structure = flatten(arguments)
        outside = scope.reaches_outside(outputs)
        released, aux = scope.released_tree(output), scope.released_tree(aux)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, own = flatten(cotangents)
        _check_cotangents(given, own, outputs, structure)
        with scope.resumed():
            if create_graph is None:
                create_graph = scope.recording and (outside or scope.depends_on_outside(given))
            found = pulled_back(scope, outputs, leaves, given, create_graph, retain_graph)
        return unflatten(arguments_structure, found)

    return released, pull, aux


def _check_cotangents(given: list[Any], own: Structure, outputs: list[Tensor], structure: Structure) -> None:
    if own != structure:
        raise RuntimeError(
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
            f"cotangents: {own}, primal output: {structure}"
        )
    for position, (cotangent, output) in enumerate(zip(given, outputs, strict=True)):
        if not isinstance(cotangent, Tensor):
            raise TypeError(f"vjp_fn(cotangents): expected only tensors, got unsupported type {type(cotangent)}")
        if cotangent.shape != output.shape:
            raise RuntimeError(
                f"vjp_fn(cotangents): cotangent {position} has shape {list(cotangent.shape)}, but the output that it "
                f"belongs to has shape {list(output.shape)}"
            )


# --- Jacobians --------------------------------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian of ``func`` by reverse mode, all rows in one backward.

    It is the better choice where there are fewer outputs than inputs; :func:`jacfwd` is for the opposite.

    Parameters
    ----------
    func, argnums, has_aux
        As for :func:`grad`, except that ``func`` returns tensors of any shape, or nested ones.
    chunk_size
        Compute that many rows at a time, to save memory; all, if not given. One at a time is a loop without ``vmap``,
        and so without what that cannot do.

    Returns
    -------
    callable
        Takes the arguments of ``func`` and returns, for every output and every chosen argument, a tensor of shape
        ``(*output.shape, *input.shape)``, nested as the outputs are and within that as the arguments are.

    Raises
    ------
    ValueError
        If ``chunk_size`` is not positive.
    RuntimeError
        If a tensor among the arguments or outputs is complex, or an output an integer.

    Examples
    --------
    >>> rg.func.jacrev(lambda x: x**2)(rg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        args = as_tensors(args)
        check_real(flatten(args)[0], "jacrev", "inputs")

        def of_chosen(argument: Any) -> Any:
            return func(*replaced(argnums, args, argument), **kwargs)

        argument = chosen(argnums, args)
        output, pull, aux = _vjp(of_chosen, (argument,), has_aux)
        outputs, structure = flatten(output)
        check_real(outputs, "jacrev", "outputs")
        basis = one_hot_basis(outputs)
        count = sum(leaf.numel() for leaf in outputs)
        inputs, inside = flatten(argument)

        def row(*vectors: Tensor) -> list[Tensor]:
            return flatten(pull(unflatten(structure, list(vectors))))[0]

        if not count:
            rows = [wrap(np.zeros((0, *leaf.shape), leaf._data.dtype, like=leaf._data)) for leaf in inputs]
        elif chunk_size == 1:
            rows = list(map(stack, zip(*map(row, *basis), strict=True)))
        else:
            rows = vmap(row, chunk_size=chunk_size)(*basis)
        parts = [row.split([leaf.numel() for leaf in outputs]) for row in rows]
        blocks = [
            unflatten(
                inside,
                [parts[k][nr].reshape((*leaf.shape, *source.shape)) for k, source in enumerate(inputs)],
            )
            for nr, leaf in enumerate(outputs)
        ]
        result = unflatten(structure, blocks)
        return (result, aux) if has_aux else result

    return jacobian


def one_hot_basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """For tensors of n elements in all, a batch of n such tensors, each with a different element 1, the rest 0."""
    count = sum(tensor.numel() for tensor in tensors)
    basis, start = [], 0
    for tensor in tensors:
        rows = np.zeros((count, tensor.numel()), tensor._data.dtype, like=tensor._data)
        np.fill_diagonal(rows[start : start + tensor.numel()], 1)
        basis.append(wrap(rows.reshape((count, *tensor.shape))))
        start += tensor.numel()
    return basis
