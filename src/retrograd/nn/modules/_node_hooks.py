"""Backward hooks of the older kind: those of the node that made a module's output.

torch deprecates them, because one node is seldom the whole module: the gradients that a hook sees are those of the
node, and they are those of the module's inputs and outputs only where that is all the module did.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor


def hook_last_node(module: Any, hooks: list[Callable[..., Any]], inputs: tuple[Any, ...], result: Any) -> None:
    """Have ``hook(module, grad_input, grad_output)`` called after the node of the first tensor in ``result``.

    Warns
    -----
    FutureWarning
        If the gradients that the hooks will see are not those of all inputs and outputs.
    """
    node = _first_tensor(result).grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_of_module(hook, module))
    missing = _what_is_missed(inputs, result, node)
    if missing:
        warn_user(
            f"register_backward_hook of {type(module).__name__}: its hooks are deprecated, and do not get the complete "
            f"{missing}. Use register_full_backward_hook, whose hooks do.",
            FutureWarning,
        )


def _of_module(hook: Callable[..., Any], module: Any) -> Callable[..., Any]:
    @functools.wraps(hook)  # errors about its return value name it
    def of_node(grad_input: Any, grad_output: Any) -> Any:
        return hook(module, grad_input, grad_output)

    return of_node


def _first_tensor(result: Any) -> Any:
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(value for value in result.values() if isinstance(value, Tensor))
        else:
            result = result[0]
    return result


def _what_is_missed(inputs: tuple[Any, ...], result: Any, node: Any) -> str:
    """Which gradients hooks of ``node`` do not see, and why; empty if they see those of the module.

    As torch has it, inputs that no node has made are among those that are missed: the node gives their gradients to
    nodes that accumulate them.
    """
    results = (result,) if isinstance(result, Tensor) else result
    if not isinstance(results, tuple) or not all(isinstance(value, Tensor) for value in results):
        return "grad_output, because the module does not return a tensor or a tuple of tensors"
    if not all(isinstance(value, Tensor) for value in inputs):
        return "grad_input, because the module is called with something that is not a tensor"
    makers = {value.grad_fn for value in results} - {None}
    if len(makers) > 1:
        return "grad_output, because the outputs are made by several nodes of the graph"
    if {value.grad_fn for value in inputs} - {None} != {edge[0] for edge in node.next_functions}:
        return "grad_input, because the module's inputs are not the inputs of its last node"
    return ""
