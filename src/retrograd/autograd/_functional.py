"""What the functions of :mod:`retrograd.autograd.functional` share: arguments, results, and strict mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.autograd import grad, returned_gradients
from retrograd.core import state
from retrograd.core.engine import run
from retrograd.core.tensor import Tensor, wrap

Tensors = tuple[Tensor, ...]

# --- what comes in and goes out ---------------------------------------------------------------------------------------


def as_tuple(value: Any, argument: str, name: str) -> tuple[bool, Tensors]:
    """Whether the argument is a tuple, and that tuple (or a tuple of one); an error unless it holds tensors."""
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for position, item in enumerate(values):
        if not isinstance(item, Tensor):
            found = f"value at index {position} has" if is_tuple else f"given {argument} has"
            raise TypeError(
                f"The {argument} given to {name} must be either a Tensor or a tuple of Tensors but the {found} type "
                f"{type(item)}."
            )
    return is_tuple, values


def inside(inputs: Sequence[Tensor], create_graph: bool, requires_grad: bool = True) -> Tensors:
    """Stand-ins for the inputs: connected to them if the result is to be differentiable, detached otherwise."""
    stand_ins = []
    for x in inputs:
        if create_graph and x.requires_grad:
            stand_in = x.view_as(x)
        else:
            stand_in = x.detach().requires_grad_(requires_grad)
            if create_graph and state.local.dual_level is not None:
                state.local.dual_level.move(x, stand_in)
        stand_ins.append(stand_in)
    return tuple(stand_ins)


def check_kept(create_graph: bool, name: str, remedy: str = "pass create_graph=True, or use retrograd.func") -> None:
    """Raise where a transform would treat the derivative of a result without a history as zero.

    Under ``no_grad``, as in the forward of a custom function, nothing is to be differentiated.
    """
    local = state.local
    if local.transforms and not create_graph and (local.grad_enabled or local.tangents is not None):
        raise RuntimeError(
            f"autograd.functional.{name}: the result has no history, so the enclosing retrograd.func transform would "
            f"compute a derivative of zero; {remedy}"
        )


def outside(values: Any, create_graph: bool) -> Any:
    """The tensors to return: detached, unless their history is wanted."""
    if create_graph:
        return values
    if isinstance(values, Tensor):
        return values.detach()
    return tuple([outside(value, create_graph) for value in values])


def unpacked(values: Any, *are_tuples: bool) -> Any:
    """Nested tuples without the levels where the user gave or returned a single tensor."""
    first, *rest = are_tuples
    if rest:
        values = tuple([unpacked(value, *rest) for value in values])
    return values if first else values[0]


def checked_vector(v: Any, inputs: Sequence[Tensor], is_tuple: bool, create_graph: bool, name: str) -> Tensors:
    """The vector to multiply with, which must match the tensors it belongs to."""
    _, vector = as_tuple(v, "v", name)
    vector = inside(vector, create_graph, False)
    if len(vector) != len(inputs):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(inputs)} but got {len(vector)}."
            if is_tuple
            else "The given v should contain a single Tensor."
        )
    for position, (given, other) in enumerate(zip(vector, inputs, strict=True)):
        if given.shape != other.shape:
            which = f"Entry {position} in " if is_tuple else ""
            raise RuntimeError(f"{which}v has invalid size: should be {other.shape} but got {given.shape}.")
    return vector


def check_one_element(tensors: Sequence[Tensor], of_outputs: bool) -> None:
    if len(tensors) != 1 or tensors[0].numel() != 1:
        what = "the user-provided function returns" if of_outputs else "the input to the user-provided function is"
        raise RuntimeError(f"The vector v can only be None if {what} a single Tensor with a single element.")


def check_scalar(outputs: Sequence[Tensor], is_tuple: bool, name: str) -> None:
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")


def gradients(
    outputs: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    vectors: Sequence[Any] | None = None,
    create_graph: bool = False,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """``autograd.grad`` of those outputs that have a history; None for inputs that none of them depends on."""
    given = [None] * len(outputs) if vectors is None else vectors
    live = [(out, v) for out, v in zip(outputs, given, strict=True) if out is not None and out.requires_grad]
    if not live:
        return (None,) * len(inputs)
    return grad(
        [out for out, _ in live],
        inputs,
        [v for _, v in live],
        allow_unused=True,
        create_graph=create_graph,
        **options,
    )


def pulled(
    outputs: Sequence[Tensor | None], inputs: Sequence[Tensor], vectors: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """The products of vectors with the Jacobian, which are linear in the vectors, so that they can be transposed.

    The vectors are zero, and the products are not results: their values do not matter.
    """
    given = zip(outputs, vectors, strict=True)
    live = [(out._resolve_edge(), v) for out, v in given if out is not None and out.requires_grad]
    roots = [(edge, v) for edge, v in live if edge is not None]
    if not roots:
        return (None,) * len(inputs)
    edges = [edge for each in inputs if (edge := each._resolve_edge()) is not None]
    return tuple(run(roots, retain_graph=True, create_graph=True, inputs=edges, accumulate=False, values_matter=False))


def transposed(
    products: Sequence[Tensor | None], vectors: Sequence[Tensor], given: Sequence[Any], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """The products of the Jacobian with ``given``, by the derivative of what :func:`pulled` returned."""
    live = [(each, v) for each, v in zip(products, given, strict=True) if each is not None and each.requires_grad]
    if not live:
        return (None,) * len(vectors)
    outputs, cotangents = zip(*live, strict=True)
    return returned_gradients(
        outputs, tuple(vectors), cotangents, create_graph, create_graph, allow_unused=True, values_matter=False
    )


def zeros(tensor: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    return wrap(np.zeros_like(tensor._data, shape=None if shape is None else tuple(shape)))


# --- strict mode ------------------------------------------------------------------------------------------------------

_INDEPENDENT = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
    "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {i} is independent of the input. This is not allowed in strict mode. You should ensure that your function "
    "is twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function "
    "for example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent of the input. This "
    "is not allowed in strict mode. You should ensure that your function is thrice differentiable and that the hessian "
    "depends on the inputs.",
}
_MISSING = {
    "back": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "rows": "Output {output} of the user-provided function is independent of input {i}. This is not allowed in strict "
    "mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}


def check_dependence(tensors: Sequence[Tensor | None], kind: str, strict: bool) -> None:
    """In strict mode, raise for what does not depend on the inputs."""
    if not strict:
        return
    for i, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(_MISSING["back"].format(i=i))
        if not tensor.requires_grad:
            raise RuntimeError(_INDEPENDENT[kind].format(i=i))


def filled(
    found: Sequence[Tensor | None],
    like: Sequence[Tensor],
    strict: bool,
    create_graph: bool,
    stage: str,
    output: int | None = None,
) -> Tensors:
    """The gradients, of one ``output`` or of all, with zeros for missing ones, which strict mode does not allow."""
    filled = []
    for i, (tensor, other) in enumerate(zip(found, like, strict=True)):
        if tensor is None:
            if strict:
                raise RuntimeError(_MISSING[stage].format(i=i, output=output))
            tensor = zeros(other)
        elif strict and create_graph and not tensor.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. "
                "This is not allowed in strict mode when create_graph=True."
            )
        filled.append(tensor)
    return tuple(filled)
