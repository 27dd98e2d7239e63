"""Gradients: ``backward``, ``grad``, and torch.autograd's modules under their own names."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from typing import overload as _overload

import numpy as np

from retrograd.autograd import anomaly_mode, function, grad_mode, variable
from retrograd.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from retrograd.autograd.function import Function
from retrograd.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from retrograd.autograd.gradcheck import gradcheck, gradgradcheck
from retrograd.autograd.variable import Variable
from retrograd.core import state
from retrograd.core.engine import run
from retrograd.core.errors import is_torchs, kind_name, to_be_made
from retrograd.core.node import Node
from retrograd.core.registry import add_method
from retrograd.core.saved import SavedTensor
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.autograd import forward_ad, functional, graph, profiler, profiler_util  # see __getattr__

TensorOrTensors = Tensor | Iterable[Tensor]
_Name = TypeVar("_Name")


def backward(
    tensors: TensorOrTensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: TensorOrTensors | dict[Any, Tensor] | None = None,
) -> None:
    """Add the gradients of ``tensors`` with respect to the leaves to the leaves' ``.grad``.

    Parameters
    ----------
    tensors
        What to differentiate.
    grad_tensors
        For each of them, the gradient of some later result with respect to it (the vector in the vector-Jacobian
        product), of its shape. None stands for 1, which only a scalar can have.
    retain_graph
        Keep what was saved for backward, so that a second backward is possible. ``create_graph`` by default.
    create_graph
        Record the computation of the gradients, too, so that they can be differentiated.
    grad_variables
        Deprecated name of ``grad_tensors``.
    inputs
        Accumulate into these tensors only; all leaves by default.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad; if it is no scalar and has no entry in ``grad_tensors``; if a shape does not
        fit; if a saved tensor was modified in place; if the graph was freed by an earlier backward.
    TypeError
        If what is to be differentiated is neither a tensor nor a place in the graph, or a gradient no tensor.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y, z = x.exp(), x**2
    >>> rg.autograd.backward([y, z.sum()], [rg.zeros(2), None])
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warn_user("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if state.local.vmaps:
        raise RuntimeError(
            "backward() called inside of vmap. This is not supported: a leaf has one .grad for all samples. Please use "
            "autograd.grad, func.grad or func.vjp instead, or call backward() outside."
        )
    targets = None if inputs is None else _targets(inputs)
    if targets is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _roots(_as_tuple(tensors), grad_tensors, create_graph)
    edges = None if targets is None else _edges_of_inputs(targets)
    for target in targets or ():
        if isinstance(target, Tensor):
            target.retain_grad()
    if create_graph:
        _warn_about_cycle()
    if state.monitor is not None and not state.monitor.before_backward(_as_tuple(tensors)):
        return
    run(
        roots,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=edges,
        accumulate=True,
    )


@_overload
def grad(  # type: ignore[overload-overlap]
    outputs: TensorOrTensors,
    inputs: dict[_Name, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[_Name, Tensor]: ...
@_overload
def grad(
    outputs: TensorOrTensors,
    inputs: TensorOrTensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
def grad(
    outputs: TensorOrTensors,
    inputs: TensorOrTensors | dict[Any, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of ``outputs`` with respect to ``inputs``, leaving every ``.grad`` alone.

    Parameters
    ----------
    outputs, grad_outputs, retain_graph, create_graph
        As ``tensors``, ``grad_tensors``, ``retain_graph`` and ``create_graph`` of :func:`backward`.
    inputs
        Tensors, leaves or not, to differentiate with respect to; or a dict of them, such as
        ``dict(model.named_parameters())``.
    only_inputs
        Deprecated and ignored.
    allow_unused
        Return None for inputs that the outputs do not depend on, instead of raising. ``materialize_grads`` by default.
    is_grads_batched
        ``grad_outputs`` have an additional first dimension, and so will the gradients: those for each of its entries,
        all computed in one backward.
    materialize_grads
        Return zeros instead of None.

    Returns
    -------
    tuple of Tensor or None
        One gradient for each of ``inputs``, with its shape and dtype. A dict with the same keys, if ``inputs`` is one.

    Raises
    ------
    RuntimeError
        As :func:`backward`, and if an input is unused and ``allow_unused`` is False.
    TypeError
        As :func:`backward`.
    ValueError
        If ``materialize_grads`` is True and ``allow_unused`` False.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> (g,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
    >>> rg.autograd.grad(g.sum(), x)
    (tensor([ 6., 12.]),)
    >>> rg.autograd.grad((x**3).sum(), {"x": x})
    {'x': tensor([ 3., 12.])}
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        warn_user(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use retrograd.autograd.backward.",
            FutureWarning,
        )
    if not isinstance(inputs, (Tensor, tuple, list)) and isinstance(inputs, Mapping):
        if type(inputs) is not dict:
            raise TypeError(f"`inputs` argument to `grad()` must be a dict, not {type(inputs).__name__}.")
        found = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
        return dict(zip(inputs, found, strict=True))
    targets = _targets(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(outputs, targets, grad_outputs, keep, create_graph, allow_unused, materialize_grads)
    return returned_gradients(outputs, targets, grad_outputs, keep, create_graph, allow_unused, materialize_grads)


def returned_gradients(
    outputs: Any,
    targets: tuple[Any, ...],
    grad_outputs: Any,
    keep: bool,
    create_graph: bool,
    allow_unused: bool,
    materialize_grads: bool = False,
    values_matter: bool = True,
    notify: bool = True,
) -> tuple[Any, ...]:
    """What :func:`grad` returns. A monitor also checks the outputs, unless their values do not matter.

    If ``notify`` is False, the monitor is not notified of the backward at all.
    """
    roots = _roots(_as_tuple(outputs), grad_outputs, create_graph)
    edges = _edges_of_inputs(targets)
    if state.monitor is not None and values_matter and notify:
        state.monitor.before_backward(_as_tuple(outputs), is_step=False)
    results = run(roots, retain_graph=keep, create_graph=create_graph, inputs=edges, accumulate=False, notify=notify)
    for position, (result, tensor) in enumerate(zip(results, targets, strict=True)):
        if result is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
        if result is None and materialize_grads:
            if not isinstance(tensor, Tensor):
                raise RuntimeError(
                    "materialize_grads cannot be used when the given input is a GradientEdge that no gradient reached "
                    f"(inputs[{position}])"
                )
            results[position] = wrap(np.zeros_like(tensor._data))
            if create_graph:
                results[position].requires_grad_()  # type: ignore[union-attr]
    return tuple(results)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor) or not isinstance(value, Iterable):
        return (value,)
    if isinstance(value, tuple) and type(value) is not tuple:  # a GradientEdge, not a tuple of tensors
        return (value,) if hasattr(value, "node") else tuple(value)
    return tuple(value)


def _holds_tensors(value: Any) -> bool:
    """Whether ``value`` may contain several tensors; a number or an array cannot."""
    return isinstance(value, Iterable) and not isinstance(value, np.ndarray) and not is_torchs(value)


def _targets(inputs: Any) -> tuple[Any, ...]:
    """What to differentiate with respect to, as a tuple."""
    if type(inputs) is dict:
        return tuple(inputs.values())
    if not isinstance(inputs, Tensor) and not _holds_tensors(inputs):
        raise TypeError(f"inputs have to be Tensors or GradientEdges, but got {kind_name(inputs)}")
    return _as_tuple(inputs)


def _edges_of_inputs(inputs: tuple[Any, ...]) -> list[Edge]:
    edges = []
    for position, value in enumerate(inputs):
        is_tensor = isinstance(value, Tensor)
        if not is_tensor and not hasattr(value, "node"):
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {kind_name(value)} (inputs[{position}])"
            )
        edge = value._resolve_edge() if is_tensor else _given_edge(value)
        if edge is None:
            raise RuntimeError(f"One of the differentiated Tensors does not require grad (inputs[{position}])")
        edges.append(edge)
    return edges


def _given_edge(edge: Any) -> Edge:
    """The place in the graph that a GradientEdge names."""
    if not isinstance(edge.node, Node):
        raise RuntimeError(
            f"GradientEdge's first object must be an autograd.graph.Node but got {type(edge.node).__name__}; "
            "get_gradient_edge(tensor) makes one"
        )
    return edge.node, edge.output_nr


def _roots(outputs: tuple[Any, ...], grads: Any, create_graph: bool) -> list[tuple[Edge, Tensor]]:
    """Pair every output's edge with the gradient that starts there."""
    given: tuple[Any, ...] = (None,) * len(outputs)
    if grads is not None:
        given = (grads,) if isinstance(grads, Tensor) or not _holds_tensors(grads) else tuple(grads)
    for gradient in given:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {kind_name(gradient)}{to_be_made(gradient)}"
            )
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    roots: list[tuple[Edge, Tensor]] = []
    for position, (output, gradient) in enumerate(zip(outputs, given, strict=True)):
        is_tensor = isinstance(output, Tensor)
        if not is_tensor and not hasattr(output, "node"):
            raise TypeError(f"element {position} of tensors must be a Tensor, but got {type(output).__name__}")
        edge = output._resolve_edge() if is_tensor else _given_edge(output)
        if edge is None:
            raise RuntimeError(
                f"element {position} of tensors does not require grad and does not have a grad_fn: it was computed "
                "from nothing that requires grad, under no_grad, or detached; make the tensors whose gradients you "
                "want with requires_grad=True, or call their requires_grad_(), before computing from them"
            )
        shape, dtype = edge[0].shape_and_dtype(edge[1])
        like = output._data if is_tensor else None
        roots.append((edge, _initial(gradient, shape, dtype, like, position, create_graph)))
    return roots


def _initial(
    gradient: Any, shape: tuple[int, ...], dtype: np.dtype, like: Any, position: int, create_graph: bool
) -> Tensor:
    if gradient is None:
        if math.prod(shape) != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs; this one has shape "
                f"{list(shape)}: reduce it, or pass its gradient"
            )
        if dtype.kind != "f":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
        if like is not None and type(like) is not np.ndarray:
            return wrap(np.ones_like(like))
        seed = np.empty(shape, dtype)
        seed.fill(1)
        return wrap(seed)
    if gradient._data.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {gradient.shape} and output[{position}] has a "
            f"shape of retrograd.Size({list(shape)})."
        )
    if DeviceArray in (type(like), type(gradient._data)) and wrap(like).device != gradient.device:
        raise RuntimeError(
            f"invalid gradient at index {position} - expected device {wrap(like).device} but got {gradient.device}"
        )
    if (gradient._data.dtype.kind == "c") != (dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{position}] has a dtype of {gradient.dtype} and output[{position}] has a dtype of {dtype}."
        )
    if gradient._data.dtype != dtype:
        gradient = gradient.to(dtype) if create_graph else wrap(gradient._data.astype(dtype))
    return gradient


def _batched(
    outputs: Any, targets: tuple[Any, ...], grad_outputs: Any, keep: bool, create_graph: bool, allow: bool, fill: bool
) -> tuple[Any, ...]:
    """The gradients for a batch of ``grad_outputs``, in one backward."""
    from retrograd.batching import Level
    from retrograd.vectorize import as_batch, hide, mapping

    given = _as_tuple(grad_outputs)
    if any(gradient is not None and not gradient.ndim for gradient in given):
        raise IndexError(
            "is_grads_batched: each of grad_outputs needs a batch as its first dimension, but one has no dimensions"
        )
    sizes = {len(gradient) for gradient in given if gradient is not None}
    if not sizes:
        raise RuntimeError(
            "is_grads_batched: it needs explicit grad_outputs; pass them, with the batch as their first dimension"
        )
    if len(sizes) != 1:
        raise ValueError(
            f"is_grads_batched: grad_outputs must agree in their first dimension, but have {sorted(sizes)}"
        )
    for position, (output, gradient) in enumerate(zip(_as_tuple(outputs), given, strict=False)):
        if gradient is not None and isinstance(output, Tensor) and gradient.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{position}] has a shape of {gradient.shape} and "
                f"output[{position}] has a shape of {output.shape}. "
                "If you only want some tensors in `grad_output` to be considered batched, consider using vmap."
            )
    with mapping(Level(sizes.pop())) as level:
        found = grad(
            outputs,
            targets,
            [None if gradient is None else hide(gradient, 0, level) for gradient in given],
            retain_graph=keep,
            create_graph=create_graph,
            allow_unused=allow,
            materialize_grads=fill,
        )
        return tuple([None if gradient is None else as_batch(gradient, 0, level) for gradient in found])


_cycle_warning_given = False


def _warn_about_cycle() -> None:
    global _cycle_warning_given
    if not _cycle_warning_given:
        _cycle_warning_given = True
        warn_user(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid "
            "this. If you have to use this function, make sure to reset the .grad fields of your parameters to None "
            "after use to break the cycle and avoid the leak."
        )


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorOrTensors | dict[Any, Tensor] | None = None,
) -> None:
    """Add the gradients of this tensor to the leaves' ``.grad``; see :func:`retrograd.autograd.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


add_method("backward", _tensor_backward)


def _is_checkpoint_valid() -> bool:
    """Whether a function may call backward in its own: not where ``grad`` or ``inputs`` asked for certain gradients."""
    task = state.local.graph_task
    return task is None or task.everything


def __getattr__(name: str) -> Any:
    # rarely needed, so imported when first used
    if name in ("forward_ad", "functional", "graph", "profiler", "profiler_util"):
        return importlib.import_module(f"retrograd.autograd.{name}")
    raise AttributeError(f"module 'retrograd.autograd' has no attribute {name!r}")


__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "profiler_util",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]
