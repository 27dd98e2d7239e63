"""Hooks on what is saved for backward, and on the gradients of several tensors at once."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NoReturn

from retrograd.core import state
from retrograd.core.engine import GraphTask
from retrograd.core.hooks import RemovableHandle
from retrograd.core.node import Node
from retrograd.core.tensor import Tensor, accumulator_of
from retrograd.device import device


class saved_tensors_hooks:  # noqa: N801 (torch's name)
    """Inside this block, store what ``pack_hook`` makes of a tensor saved for backward, and unpack it when needed.

    It concerns what operations save, and what ``ctx.save_for_backward`` keeps. Of nested blocks the innermost counts.
    What is packed is not checked for writes between forward and backward: that the content is still right is up to
    the hooks.

    Parameters
    ----------
    pack_hook
        Called with each tensor that an operation saves, with recording off; it must not write to it. Whatever it
        returns is kept, and should not hold the tensor itself if that is a result: ``x.detach()`` rather than ``x``.
    unpack_hook
        Called in backward (once per saved tensor and backward) with what ``pack_hook`` returned; must return a tensor
        of the same content.

    Raises
    ------
    RuntimeError
        On entering it inside :class:`disable_saved_tensors_hooks`; on saving, if ``pack_hook`` wrote to its argument.
    TypeError
        On entering, if a hook cannot be called; in backward, if ``unpack_hook`` did not return a tensor.

    Examples
    --------
    >>> names = []
    >>> def pack(x):
    ...     names.append(tuple(x.shape))
    ...     return x.numpy(force=True)
    >>> x = rg.ones(5, requires_grad=True)
    >>> with rg.autograd.graph.saved_tensors_hooks(pack, rg.from_numpy):
    ...     y = (x * x).sum()
    >>> names
    [(5,), (5,)]
    >>> y.backward()
    >>> x.grad
    tensor([2., 2., 2., 2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        local = state.local
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: a hook must be callable, but got {type(hook).__name__}")
        if local.saved_hooks_disabled is not None:
            raise RuntimeError(local.saved_hooks_disabled)
        hooks = *(local.saved_hooks or ()), (self.pack_hook, self.unpack_hook)
        local.saved_hooks, local.mode = hooks, state.WATCHED  # without a call, during which an interrupt could arrive

    def __exit__(self, *exc: object) -> None:
        local = state.local
        local.saved_hooks = (local.saved_hooks or ())[:-1] or None
        state.refresh()


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 (torch's name)
    """Inside this block, keep what is saved for backward in main memory, and bring it back to its device for backward.

    For graphs that do not fit the memory of a GPU. What is on the CPU anyway is kept as it is, without a copy.

    Parameters
    ----------
    pin_memory
        Always keep a copy, also of what is on the CPU. (In torch the copy is in pinned memory; NumPy has none.)
    device_type
        Accepted because torch has it; devices are taken from the tensors.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> with rg.autograd.graph.save_on_cpu():
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[device, Tensor]:
            kept = tensor.cpu()
            return tensor.device, kept.clone() if pin_memory and kept is tensor else kept

        def unpack(packed: tuple[device, Tensor]) -> Tensor:
            origin, kept = packed
            return kept.to(origin)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside this block, refuse :class:`saved_tensors_hooks` with the message given.

    Parameters
    ----------
    error_message
        What the RuntimeError says.

    Raises
    ------
    RuntimeError
        With that message, on entering the block inside hooks, or hooks inside the block.

    Examples
    --------
    >>> with rg.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     with rg.autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: no hooks here
    """
    local = state.local
    if local.saved_hooks is not None:
        raise RuntimeError(error_message)
    previous, local.saved_hooks_disabled = local.saved_hooks_disabled, error_message
    try:
        yield
    finally:
        local.saved_hooks_disabled = previous


class _Handles(RemovableHandle):
    """One handle for several hooks."""

    __slots__ = ("_handles",)

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self._handles

    def __setstate__(self, state: Any) -> None:
        self._handles = state


class _Arrivals:
    """The gradients of one backward that have arrived so far, and how many are still to come."""

    __slots__ = ("grads", "missing")

    def __init__(self, total: int, missing: int) -> None:
        self.grads: list[Tensor | None] = [None] * total
        self.missing = missing


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Call ``fn`` when the gradients of several tensors have been computed.

    Counting starts anew with every backward. What ``fn`` returns is ignored, and it must not write to gradients.

    Parameters
    ----------
    tensors
        Tensors that require grad (with ``"any"``, others among them are ignored).
    fn
        With ``"all"``: called as ``fn(grads)`` once the gradients of all ``tensors`` that this backward reaches are
        there; those that it does not reach, or does not need for its ``inputs``, have None. With ``"any"``: called as
        ``fn(grad)`` with the first gradient of one of them.
    mode
        ``"all"`` or ``"any"``.

    Returns
    -------
    RemovableHandle
        ``remove()`` takes the hook away.

    Raises
    ------
    ValueError
        If ``mode`` is another one.
    RuntimeError
        If, with ``"all"``, a tensor does not require grad.

    Examples
    --------
    >>> a = rg.rand(2, 3, requires_grad=True)
    >>> b = rg.rand(2, 3, requires_grad=True)
    >>> c, d = a * b, a * b
    >>> def fn(grads):
    ...     print([grad is not None for grad in grads])
    >>> handle = rg.autograd.graph.register_multi_grad_hook((a, b, c, d), fn)
    >>> c.sum().backward(retain_graph=True)
    [True, True, True, False]
    >>> c.sum().backward(inputs=(a,), retain_graph=True)
    [True, False, True, False]
    >>> handle.remove()
    """
    if mode == "all":
        return _register_all(tensors, fn)
    if mode == "any":
        return _register_any(tensors, fn)
    raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")


def _register_all(tensors: Sequence[Tensor], fn: Callable[..., None]) -> RemovableHandle:
    for position, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            raise RuntimeError(
                "register_multi_grad_hook: cannot register a hook on a tensor that doesn't require gradient: "
                f"tensors[{position}], of shape {list(tensor.shape)}"
            )
    places = [_place_of(tensor) for tensor in tensors]
    arrivals: weakref.WeakKeyDictionary[GraphTask, _Arrivals] = weakref.WeakKeyDictionary()
    lock = threading.RLock()

    def hook_of(position: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            task = _current_task()
            with lock:
                arrived = arrivals.get(task)
                if arrived is None:
                    expected = [node for place in places if (node := place()) is not None and task.reaches(node)]
                    arrived = arrivals[task] = _Arrivals(len(places), len(expected))
                arrived.grads[position] = grad
                arrived.missing -= 1
                complete = arrived.missing == 0
                if complete:
                    del arrivals[task]
            if complete:
                fn(arrived.grads)

        return hook

    return _Handles([tensor.register_hook(hook_of(position)) for position, tensor in enumerate(tensors)])


def _register_any(tensors: Sequence[Tensor], fn: Callable[..., None]) -> RemovableHandle:
    called: weakref.WeakSet[GraphTask] = weakref.WeakSet()
    lock = threading.RLock()

    def hook(grad: Tensor) -> None:
        task = _current_task()
        with lock:
            first = task not in called
            called.add(task)
        if first:
            fn(grad)

    return _Handles([tensor.register_hook(hook) for tensor in tensors if tensor.requires_grad])


def _current_task() -> GraphTask:
    task = state.local.graph_task
    if task is None:
        raise RuntimeError("expected this hook to be called inside a backward call")
    return task


def _place_of(tensor: Tensor) -> Callable[[], Node | None]:
    """A function that finds the node where the gradient of ``tensor`` arrives, without keeping it alive."""
    if not tensor.is_leaf:
        edge = tensor._resolve_edge()
        assert edge is not None
        return weakref.ref(edge[0])
    leaf = weakref.ref(tensor)  # its node may be freed and made again

    def accumulator() -> Node | None:
        living = leaf()
        return None if living is None else accumulator_of(living)

    return accumulator


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing: backward uses one stream, so there is no mismatch between streams to warn about."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Do nothing: no CUDA graphs are captured here, so there is no stale stream to override."""


def region_activation_memory_budget(budget: float) -> NoReturn:
    """Refuse, as torch does outside of a compiled region: nothing is compiled here.

    To save less in a region and compute it again in backward, use :func:`retrograd.utils.checkpoint.checkpoint`.

    Raises
    ------
    TypeError, ValueError
        If ``budget`` is not a number from 0 to 1.
    RuntimeError
        Otherwise.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"region_activation_memory_budget: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"region_activation_memory_budget: must be in [0, 1], got {budget}")
    raise RuntimeError(
        "region_activation_memory_budget can only be used inside a compiled region; it has no effect in eager mode. "
        "Use retrograd.utils.checkpoint.checkpoint to recompute a region in backward."
    )
