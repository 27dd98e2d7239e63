"""Jacobians, Hessians and products with them, as ``torch.autograd.functional`` has them.

The functions take a function and the tensors to evaluate it at, and return plain tensors, or with ``create_graph=True``
tensors that can be differentiated further. :mod:`retrograd.func` has the same as function transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.autograd._functional import (
    Tensors,
    as_tuple,
    check_dependence,
    check_kept,
    check_one_element,
    check_scalar,
    checked_vector,
    filled,
    gradients,
    inside,
    outside,
    pulled,
    transposed,
    unpacked,
    zeros,
)
from retrograd.autograd.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops.joining import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

STRATEGIES = ("forward-mode", "reverse-mode")

# --- products ---------------------------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func`` and the product of the vector ``v`` with its Jacobian.

    Parameters
    ----------
    func
        A function of tensors that returns a tensor or a tuple of tensors.
    inputs
        A tensor or a tuple of tensors, the arguments of ``func``.
    v
        Shaped as the output. May be omitted if that is a single element.
    create_graph
        Record the computation, so that the results can be differentiated.
    strict
        Raise if an output does not depend on an input, instead of returning zeros.

    Returns
    -------
    output : Tensor or tuple of Tensor
    vjp : Tensor or tuple of Tensor
        Shaped as the inputs.

    Raises
    ------
    RuntimeError
        If ``v`` does not match the output, or in strict mode if something is independent of something.

    Examples
    --------
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0])
    >>> rg.autograd.functional.vjp(lambda x: x**2, x, v)
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    check_kept(create_graph, "vjp")
    with enable_grad():
        are_inputs, inputs = as_tuple(inputs, "inputs", "vjp")
        inputs = inside(inputs, create_graph)
        are_outputs, outputs = as_tuple(func(*inputs), "outputs of the user-provided function", "vjp")
        check_dependence(outputs, "outputs", strict)
        if v is None:
            check_one_element(outputs, True)
        else:
            v = checked_vector(v, outputs, are_outputs, create_graph, "vjp")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = gradients(outputs, inputs, v, create_graph)
        result = filled(found, inputs, strict, create_graph, "back")
    return unpacked(outside(outputs, create_graph), are_outputs), unpacked(outside(result, create_graph), are_inputs)


def _vector_for_inputs(v: Any, inputs: Tensors, are_inputs: bool, create_graph: bool, name: str) -> Any:
    """The vector ``v``, shaped as the inputs; 1 if it is not given."""
    if v is None:
        check_one_element(inputs, False)
        return (wrap(np.ones_like(inputs[0]._data)),)
    return checked_vector(v, inputs, are_inputs, create_graph, name)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func`` and the product of its Jacobian with the vector ``v``.

    The product is computed by differentiating a vector-Jacobian product once more, so that ``func`` may contain
    anything that has a second derivative. :func:`retrograd.func.jvp` goes forward instead.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for :func:`vjp`.
    v
        Shaped as the inputs. May be omitted if that is a single element.

    Returns
    -------
    output : Tensor or tuple of Tensor
    jvp : Tensor or tuple of Tensor
        Shaped as the output.

    Examples
    --------
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0])
    >>> rg.autograd.functional.jvp(lambda x: x.sum() ** 2, x, v)
    (tensor(9.), tensor(66.))
    """
    check_kept(create_graph, "jvp")
    with enable_grad():
        are_inputs, inputs = as_tuple(inputs, "inputs", "jvp")
        inputs = inside(inputs, create_graph)
        v = _vector_for_inputs(v, inputs, are_inputs, create_graph, "jvp")
        are_outputs, outputs = as_tuple(func(*inputs), "outputs of the user-provided function", "jvp")
        check_dependence(outputs, "outputs", strict)
        # the inputs' gradient is linear in the outputs' gradient, so the values of the latter do not matter
        vectors = tuple([zeros(out).requires_grad_() for out in outputs])
        products = pulled(outputs, inputs, vectors)
        check_dependence(products, "grad_inputs", strict)
        found = transposed(products, vectors, v, create_graph)
        result = filled(found, outputs, strict, create_graph, "back_trick")
    return unpacked(outside(outputs, create_graph), are_outputs), unpacked(outside(result, create_graph), are_outputs)


def _scalar_and_gradient(func: Callable[..., Any], inputs: Tensors, strict: bool, name: str) -> tuple[Tensors, Any]:
    """The output, which must be a scalar, and its gradients, with a history."""
    are_outputs, outputs = as_tuple(func(*inputs), "outputs of the user-provided function", name)
    check_dependence(outputs, "outputs", strict)
    check_scalar(outputs, are_outputs, name)
    found = gradients(outputs, inputs, create_graph=True)
    check_dependence(found, "jacobian", strict)
    return outputs, found


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func``, which must be a scalar, and the product of the vector ``v`` with its Hessian.

    The Hessian is symmetric, so this is :func:`hvp` at a smaller cost.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for :func:`vjp`.
    v
        Shaped as the inputs. May be omitted if that is a single element.

    Returns
    -------
    output : Tensor
    vhp : Tensor or tuple of Tensor
        Shaped as the inputs.

    Examples
    --------
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 1.0])
    >>> rg.autograd.functional.vhp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([ 6., 12.]))
    """
    check_kept(create_graph, "vhp")
    with enable_grad():
        are_inputs, inputs = as_tuple(inputs, "inputs", "vhp")
        inputs = inside(inputs, create_graph)
        v = _vector_for_inputs(v, inputs, are_inputs, create_graph, "vhp")
        outputs, first = _scalar_and_gradient(func, inputs, strict, "vhp")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = gradients(first, inputs, v, create_graph)
        result = filled(found, inputs, strict, create_graph, "double_back")
    return outside(outputs, create_graph)[0], unpacked(outside(result, create_graph), are_inputs)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func``, which must be a scalar, and the product of its Hessian with the vector ``v``.

    It is computed by differentiating :func:`vhp` by its vector; where the Hessian is symmetric, :func:`vhp` gives the
    same faster.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        As for :func:`vhp`.

    Returns
    -------
    output : Tensor
    hvp : Tensor or tuple of Tensor
        Shaped as the inputs.

    Examples
    --------
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 1.0])
    >>> rg.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([ 6., 12.]))
    """
    check_kept(create_graph, "hvp")
    with enable_grad():
        are_inputs, inputs = as_tuple(inputs, "inputs", "hvp")
        inputs = inside(inputs, create_graph)
        v = _vector_for_inputs(v, inputs, are_inputs, create_graph, "hvp")
        outputs, first = _scalar_and_gradient(func, inputs, strict, "hvp")
        vectors = tuple([zeros(x).requires_grad_() for x in inputs])
        products = pulled(first, inputs, vectors)
        check_dependence(products, "hessian", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = transposed(products, vectors, v, create_graph)
        result = filled(found, inputs, strict, create_graph, "double_back_trick")
    return outside(outputs, create_graph)[0], unpacked(outside(result, create_graph), are_inputs)


# --- matrices ---------------------------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of ``func`` at ``inputs``.

    Parameters
    ----------
    func
        A function of tensors that returns a tensor or a tuple of tensors.
    inputs
        A tensor or a tuple of tensors, the arguments of ``func``.
    create_graph
        Record the computation, so that the Jacobian can be differentiated.
    strict
        Raise if an output does not depend on an input, instead of returning zeros.
    vectorize
        Compute all rows in one backward, as a batch, instead of one after the other. Much faster, and takes memory for
        as many gradients as there are rows.
    strategy
        ``"reverse-mode"``, row by row, or ``"forward-mode"``, column by column, which is the better choice if there are
        fewer inputs than outputs; only with ``vectorize=True``.

    Returns
    -------
    Tensor or nested tuple of Tensor
        ``J[i][j]`` of shape ``(*outputs[i].shape, *inputs[j].shape)``, without the index of what is no tuple.

    Raises
    ------
    RuntimeError
        If ``strict`` is combined with ``vectorize``; in strict mode if something is independent of an input.
    NotImplementedError
        If ``strategy="forward-mode"`` is combined with ``create_graph`` or used without ``vectorize``.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0])
    >>> rg.autograd.functional.jacobian(lambda x: x**2, x, vectorize=True)
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        _refuse_forward_mode(create_graph, strict, vectorize)
        check_kept(create_graph, "jacobian", "use retrograd.func.jacfwd")
        return _forward_jacobian(func, inputs)
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    check_kept(create_graph, "jacobian")
    with enable_grad():
        are_inputs, inputs = as_tuple(inputs, "inputs", "jacobian")
        inputs = inside(inputs, create_graph)
        are_outputs, outputs = as_tuple(func(*inputs), "outputs of the user-provided function", "jacobian")
        check_dependence(outputs, "outputs", strict)
        if vectorize:
            result = _rows_together(outputs, inputs, create_graph)
        else:
            result = tuple([_rows(i, out, inputs, create_graph, strict) for i, out in enumerate(outputs)])
    return unpacked(outside(result, create_graph), are_outputs, are_inputs)


def _refuse_forward_mode(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please '
            'either set `create_graph=False` or `strategy="reverse-mode"`, or use retrograd.func.jacfwd.'
        )
    if strict:
        raise RuntimeError(
            'jacobian: `strict=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
            '`strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def _rows(position: int, output: Tensor, inputs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobian of one output, by one backward for each of its elements."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    elements = output.reshape(-1)
    for k in range(len(elements)):
        found = gradients([elements[k]], inputs, create_graph=create_graph, retain_graph=True)
        for row, gradient in zip(rows, filled(found, inputs, strict, create_graph, "rows", position), strict=True):
            row.append(gradient)
    return tuple(
        [
            stack(of_input).reshape((*output.shape, *x.shape)) if of_input else zeros(x, (*output.shape, *x.shape))
            for of_input, x in zip(rows, inputs, strict=True)
        ]
    )


def _rows_together(outputs: Tensors, inputs: Tensors, create_graph: bool) -> tuple[Tensors, ...]:
    """The Jacobians of all outputs in one backward, for a batch of vectors each of which picks one element."""
    from retrograd.func.reverse import one_hot_basis

    sizes = [out.numel() for out in outputs]
    found = (
        gradients(outputs, inputs, one_hot_basis(outputs), create_graph, is_grads_batched=True)
        if sum(sizes)
        else (None,) * len(inputs)
    )
    parts = [
        [zeros(x, (size, *x.shape)) for size in sizes] if gradient is None else gradient.split(sizes)
        for gradient, x in zip(found, inputs, strict=True)
    ]
    return tuple(
        [
            tuple([part[i].reshape((*out.shape, *x.shape)) for part, x in zip(parts, inputs, strict=True)])
            for i, out in enumerate(outputs)
        ]
    )


def _forward_jacobian(func: Callable[..., Any], inputs: Any) -> Any:
    """The Jacobian by forward mode, for a batch of tangents in each of which one element is 1."""
    from retrograd.func.forward import by_columns

    are_inputs, values = as_tuple(inputs, "inputs", "jacobian")
    are_outputs: list[bool] = []

    def checked(*args: Tensor) -> Tensors:
        is_tuple, outputs = as_tuple(func(*args), "outputs of the user-provided function", "jacobian")
        are_outputs[:] = [is_tuple]
        return outputs

    detached = tuple([value.detach() for value in values])
    found = by_columns(checked, tuple(range(len(detached))))(*detached)
    return unpacked(outside(found, False), are_outputs[0], are_inputs)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of ``func``, which must return a scalar, at ``inputs``.

    Parameters
    ----------
    func, inputs, create_graph, strict, vectorize
        As for :func:`jacobian`.
    outer_jacobian_strategy
        How to differentiate the gradient: the ``strategy`` of :func:`jacobian`. ``"forward-mode"``, only with
        ``vectorize=True``, is forward over reverse.

    Returns
    -------
    Tensor or nested tuple of Tensor
        ``H[i][j]`` of shape ``(*inputs[i].shape, *inputs[j].shape)``; a tensor, if there is a single input that is no
        tuple.

    Raises
    ------
    RuntimeError
        If ``func`` does not return a single element, and as :func:`jacobian`.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0])
    >>> rg.autograd.functional.hessian(lambda x: (x**3).sum(), x)
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    are_inputs, inputs = as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    @functools.wraps(func)
    def scalar(*args: Tensor) -> Tensor:
        is_tuple, outputs = as_tuple(func(*args), "outputs of the user-provided function", "hessian")
        check_dependence(outputs, "outputs", strict)
        check_scalar(outputs, is_tuple, "hessian")
        return outputs[0].reshape(())

    def gradient(*args: Tensor) -> Tensors:
        found = jacobian(scalar, args, create_graph=True)
        check_dependence(found, "jacobian", strict)
        return found

    found = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return unpacked(found, are_inputs, are_inputs)
