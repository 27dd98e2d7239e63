"""Full backward hooks: what happens at the gradients of a module's inputs and outputs.

The tensors among inputs and outputs pass through an operation that does nothing. When its backward runs, their
gradients are all there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.autograd.function import Function
from retrograd.core.backward_hooks import check_result
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor


class BackwardHookFunction(Function):
    """The identity on tensors."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Return the tensors as they are."""
        ctx.mark_non_differentiable(*(arg for arg in args if not arg.requires_grad))
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        """Return the gradients as they are."""
        return args


class _Places:
    """The positions of the tensors among some values."""

    def __init__(self, values: tuple[Any, ...], positions: list[int]) -> None:
        self.length = len(values)
        self.positions = positions

    def spread(self, gradients: Any) -> tuple[Any, ...]:
        """The gradients of the tensors, with None for the other values."""
        values: list[Any] = [None] * self.length
        for position, gradient in zip(self.positions, gradients, strict=True):
            values[position] = gradient
        return tuple(values)

    def pick(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """From one value for each position, those for the tensors."""
        return tuple(values[position] for position in self.positions)


class BackwardHooks:
    """The backward hooks of one call of a module.

    Parameters
    ----------
    module
        What the hooks get as their first argument.
    pre_hooks
        Called with the gradients of the outputs.
    hooks
        Called with the gradients of the inputs and of the outputs.
    """

    def __init__(self, module: Any, pre_hooks: list[Callable[..., Any]], hooks: list[Callable[..., Any]]) -> None:
        self.module = module
        self.pre_hooks = pre_hooks
        self.hooks = hooks
        self.n_inputs = -1
        self.inputs: _Places | None = None  # None while no input requires grad
        self.grad_outputs: tuple[Any, ...] | None = None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, passed through the identity."""
        self.n_inputs = len(args)
        args, places, node = _pass_through(args)
        if node is not None:
            self.inputs = places
            node.register_hook(self._at_inputs)
        return args

    def watch_outputs(self, result: Any) -> Any:
        """The results, passed through the identity."""
        is_tensor = isinstance(result, Tensor)
        results, places, node = (
            _pass_through((result,) if is_tensor else result)
            if is_tensor or isinstance(result, tuple)
            else (result, None, None)
        )
        if node is not None:
            node.register_prehook(lambda gradients: self._at_outputs(places, gradients))
        return results[0] if is_tensor else results

    def _at_outputs(self, places: Any, gradients: tuple[Any, ...]) -> Any:
        grads = places.spread(gradients)
        for hook in self.pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                grads = _checked(hook, replaced, grads, places, "Backward pre hook", "grad_output")
        self.grad_outputs = grads
        if self.inputs is None:  # no gradient will arrive there, so the other hooks run now
            if self.hooks:
                warn_user(
                    f"Full backward hook of {type(self.module).__name__}: it is called when the gradients of the "
                    "outputs are computed, with None for the gradients of the inputs, because no input requires grad."
                )
            nothing = (None,) * self.n_inputs
            for hook in self.hooks:
                replaced = hook(self.module, nothing, grads)
                if replaced is not None and not (
                    isinstance(replaced, tuple) and all(gradient is None for gradient in replaced)
                ):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or "
                        "None for all gradients."
                    )
            self.grad_outputs = None
        return places.pick(grads) if self.pre_hooks else None

    def _at_inputs(self, gradients: tuple[Any, ...], _: Any) -> Any:
        if self.grad_outputs is None:  # it did not come through the outputs, as in a second backward
            return None
        assert self.inputs is not None
        grads = self.inputs.spread(gradients)
        for hook in self.hooks:
            replaced = hook(self.module, grads, self.grad_outputs)
            if replaced is not None:
                grads = _checked(hook, replaced, grads, self.inputs, "Backward hook", "grad_input")
        self.grad_outputs = None
        return self.inputs.pick(grads)


def _checked(
    hook: Callable[..., Any], returned: Any, grads: tuple[Any, ...], places: _Places, what: str, name: str
) -> tuple[Any, ...]:
    """What a hook returned, as a tuple that can replace ``grads``."""
    replaced = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"{what} returned an invalid number of {name}, got {len(replaced)}, but expected {len(grads)}"
        )
    for result, grad in zip(places.pick(replaced), places.pick(grads), strict=True):
        check_result(hook, result, grad)
    return replaced


def _pass_through(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], _Places, Any]:
    """The values with their tensors passed through the identity, and its node; None if nothing requires grad."""
    positions = [position for position, value in enumerate(values) if isinstance(value, Tensor)]
    places = _Places(values, positions)
    tensors = places.pick(values)
    if not any(tensor.requires_grad for tensor in tensors):
        return values, places, None
    passed = BackwardHookFunction.apply(*tensors)
    node = next((tensor.grad_fn for tensor in passed if tensor.grad_fn is not None), None)
    if node is None:  # in no_grad
        return values, places, None
    whole = list(values)
    for position, tensor in zip(positions, passed, strict=True):
        whole[position] = tensor
    return (type(values)(*whole) if hasattr(values, "_fields") else tuple(whole)), places, node
