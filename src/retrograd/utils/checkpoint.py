"""Trade time for memory: recompute in backward what is not kept until then, as ``torch.utils.checkpoint``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from retrograd.autograd import _is_checkpoint_valid, backward
from retrograd.autograd.function import Function
from retrograd.autograd.grad_mode import enable_grad, no_grad
from retrograd.core import state
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.missing_names import missing
from retrograd.random import fork_rng, get_rng_state, set_rng_state
from retrograd.utils._recomputation import CheckpointError, Facts, GraphExecGroup, Region

T = TypeVar("T")

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_FACTS: dict[str, Facts] = {
    "default": lambda tensor: {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device},
    "none": lambda tensor: None,
}

_early_stop: ContextVar[bool | None] = ContextVar("_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("_debug", default=None)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside this block, let recomputation end with the last tensor that is needed (or not), whatever calls ask for.

    The block counts where :func:`checkpoint` is called; backward may come later.

    Parameters
    ----------
    enable
        False lets it go on to the end of the function.
    """
    token = _early_stop.set(enable)
    try:
        yield
    finally:
        _early_stop.reset(token)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside this block, keep lists of operations for error messages (or not), whatever calls ask for.

    Parameters
    ----------
    enabled
        As ``debug`` of :func:`checkpoint`; None leaves it to the calls.
    """
    token = _debug.set(enabled)
    try:
        yield
    finally:
        _debug.reset(token)


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., T],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> T:
    """Call ``function(*args, **kwargs)`` without keeping what it saves for backward; backward calls it again.

    Only the arguments are kept. The function must do the same when it is called again, or the gradients are wrong;
    where that can be seen from what it saves, backward raises. Calls may be nested.

    Parameters
    ----------
    function
        What to call.
    args, kwargs
        Its arguments. Keyword arguments need ``use_reentrant=False``.
    use_reentrant
        Which of two ways. False is recommended: it works with :func:`retrograd.autograd.grad`, with ``inputs=``, with
        tensors in lists and dictionaries, and recomputes no more than needed. True runs the function without
        recording and calls ``backward`` inside backward: it supports ``backward`` without ``inputs`` only, sees only
        tensors that are arguments themselves, and one of them must require grad. None warns and means True, as in
        torch.
    context_fn
        Returns two context managers, one for the call and one for its recomputation.
    determinism_check
        ``"default"`` compares shapes, dtypes and devices of what is saved the second time with the first; ``"none"``
        does not.
    debug
        Keep a list of the operations of both calls (it costs time), so that an error shows where they part.
    early_stop
        Stop recomputing as soon as everything is there. :func:`set_checkpoint_early_stop` overrides it.
    preserve_rng_state
        Let the recomputation draw the same random numbers, as dropout needs.

    Returns
    -------
    object
        What the function returned.

    Raises
    ------
    ValueError
        If arguments do not go together.
    CheckpointError
        In backward, if the recomputation saved other tensors than the call.

    Examples
    --------
    >>> calls = []
    >>> def block(x):
    ...     calls.append("called")
    ...     return (x.sin() * x).exp()
    >>> x = rg.tensor([0.5, 1.0], requires_grad=True)
    >>> y = rg.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
    >>> y.sum().backward()
    >>> calls
    ['called', 'called']
    >>> x.grad
    tensor([1.1669, 3.2054])
    """
    if use_reentrant is None:
        _warn_about_default("checkpoint")
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    override = _debug.get()
    debug = debug if override is None else override
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in _FACTS:
        raise ValueError(f"determinism_check should be one of {list(_FACTS)}, but got {determinism_check}")
    if not state.local.grad_enabled:
        return function(*args, **kwargs)
    stop = _early_stop.get()
    region = Region(
        function,
        args,
        kwargs,
        contexts=context_fn(),
        preserve_rng_state=preserve_rng_state,
        facts=_FACTS[determinism_check],
        early_stop=early_stop if stop is None else stop,
        debug=debug,
    )
    return region.call(args)


def _warn_about_default(name: str) -> None:
    warn_user(
        f"retrograd.utils.checkpoint.{name}: the use_reentrant parameter should be passed explicitly. "
        "use_reentrant=False is recommended; without it, True is assumed, as in torch."
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if none of the inputs of a function requires grad."""
    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
        warn_user("None of the inputs have requires_grad=True. Gradients will be None")


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs of a function with leaves for tensors, which require grad as the tensors do.

    Examples
    --------
    >>> x = rg.ones(2, requires_grad=True) * 2
    >>> rg.utils.checkpoint.detach_variable((x, "mean"))
    (tensor([2., 2.], requires_grad=True), 'mean')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: expected a tuple of inputs, but got {type(inputs).__name__}")
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value for value in inputs
    )


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the GPUs that tensors among the arguments are on, and for each the state of the generator.

    Numbers for GPUs come from the generator whose state :func:`retrograd.get_rng_state` returns.

    Examples
    --------
    >>> rg.utils.checkpoint.get_device_states(rg.ones(2))
    ([], [])
    """
    tensors = [value for value in args if isinstance(value, Tensor) and value.device.type == "cuda"]
    devices = sorted({value.device.index or 0 for value in tensors})
    return devices, [get_rng_state()] * len(devices)


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set the state of the generator to what :func:`get_device_states` returned."""
    for _, saved in zip(devices, states, strict=True):
        set_rng_state(saved)


class CheckpointFunction(Function):
    """The way of ``use_reentrant=True``: no recording in forward, a backward inside backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [position for position, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(arg for arg in args if isinstance(arg, Tensor)))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, retrograd.utils.checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or "
                "call .backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for position, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[position] = tensor.detach().requires_grad_(tensor.requires_grad)
        with enable_grad(), fork_rng(enabled=ctx.rng_state is not None):
            if ctx.rng_state is not None:
                set_rng_state(ctx.rng_state)
            outputs = ctx.run_function(*args)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        recorded = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not recorded:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([output for output, _ in recorded], [grad for _, grad in recorded])
        return None, None, *(arg.grad if isinstance(arg, Tensor) else None for arg in args)


def checkpoint_sequential(
    functions: Sequence[Callable[[Any], Any]] | Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call functions one after the other, in segments that are checkpointed, all but the last.

    Parameters
    ----------
    functions
        The functions, or a module that has them as children (``Sequential``).
    segments
        Into how many to divide them.
    input
        What the first function is called with.
    use_reentrant, preserve_rng_state
        As in :func:`checkpoint`.

    Returns
    -------
    object
        What the last function returned.

    Raises
    ------
    ValueError
        If there are fewer functions than ``segments``, or for unknown keywords.

    Examples
    --------
    >>> x = rg.tensor([0.5, 1.0], requires_grad=True)
    >>> functions = [rg.sin, rg.exp, rg.tanh, rg.cos]
    >>> y = rg.utils.checkpoint.checkpoint_sequential(functions, 2, x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad
    tensor([-0.1656, -0.0395])
    """
    if use_reentrant is None:
        _warn_about_default("checkpoint_sequential")
        use_reentrant = True
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(f"segments must be between 1 and the number of functions, {len(steps)}, but got {segments}")
    length = len(steps) // segments
    for start in range(0, length * (segments - 1), length):
        input = checkpoint(
            _chain(steps[start : start + length]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return _chain(steps[length * (segments - 1) :])(input)


def _chain(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def call(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return call


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "GraphExecGroup",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


if not TYPE_CHECKING:  # for type checkers

    def __getattr__(name):
        raise missing(__name__, name)
