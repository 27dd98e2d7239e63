"""Hooks of modules: their registration, for one module and for all of them, and a call of a module that has some.

What runs when, as in torch: forward pre-hooks, ``forward``, forward hooks; in backward, backward pre-hooks when the
gradients of the outputs are there, backward hooks when those of the inputs are. Hooks of all modules come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from retrograd.core.hooks import Hooks, RemovableHandle, register
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.nn.modules._backward_hooks import BackwardHooks
from retrograd.nn.modules._node_hooks import hook_last_node


class ForwardHook:
    """A forward hook or forward pre-hook with options, and how to call it.

    Hooks without options are registered as they are, so that programs that go through a module's hooks find their own.
    """

    def __init__(self, hook: Callable[..., Any], with_kwargs: bool, always_call: bool) -> None:
        self.hook = hook
        self.with_kwargs = with_kwargs
        self.always_call = always_call

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *result: Any) -> Any:
        if self.with_kwargs:
            return self.hook(module, args, kwargs, *result)
        return self.hook(module, args, *result)


def _with_options(hook: Callable[..., Any], with_kwargs: bool = False, always_call: bool = False) -> Callable[..., Any]:
    return ForwardHook(hook, with_kwargs, always_call) if with_kwargs or always_call else hook


def _run(hook: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *result: Any) -> Any:
    """Run a forward hook or forward pre-hook and return its result."""
    if isinstance(hook, ForwardHook):
        return hook(module, args, kwargs, *result)
    return hook(module, args, *result)


# hooks for all modules: on calls, and on registrations
forward_pre, forward, backward_pre, backward = Hooks(), Hooks(), Hooks(), Hooks()
parameter_registration, buffer_registration, module_registration = Hooks(), Hooks(), Hooks()
_backward_are_full: bool | None = None  # None before the first of them


def registered(hooks: Hooks, *registration: Any) -> Any:
    """The last argument, the object to register, as the registration hooks return it."""
    *context, thing = registration
    for hook in hooks.values():
        replaced = hook(*context, thing)
        if replaced is not None:
            thing = replaced
    return thing


def _check_kind(hooks: Hooks, are_full: bool | None, is_full: bool, where: str) -> None:
    """Raise if there are backward hooks of the other kind; like torch, refuse a mix, whose gradients would differ."""
    if hooks and are_full is (not is_full):
        raise RuntimeError(
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
        )


# --- for all modules --------------------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the ``forward`` of every module; what it returns replaces the arguments.

    Meant for debugging and profiling. Hooks of all modules run before those of one.
    """
    return forward_pre.register(hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the ``forward`` of every module; what it returns replaces the output.

    Parameters
    ----------
    with_kwargs
        Call ``hook(module, args, kwargs, output)`` instead.
    always_call
        Call it even if ``forward`` raises; the output is None then.
    """
    return forward.register(_with_options(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` whenever the gradients of a module's outputs are computed, for every module.

    What it returns replaces ``grad_output``.
    """
    return backward_pre.register(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` whenever the gradients of a module's inputs are computed.

    For every module. What it returns replaces ``grad_input``.
    """
    return _register_backward_hook(hook, is_full=True)


def _register_backward_hook(hook: Callable[..., Any], is_full: bool) -> RemovableHandle:
    global _backward_are_full
    _check_kind(backward, _backward_are_full, is_full, "as a global Module hook")
    _backward_are_full = is_full
    return backward.register(hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the node that made a module's output, for every module.

    Deprecated, as in torch: see :meth:`Module.register_backward_hook`. A program has hooks of one of the two kinds.
    """
    return _register_backward_hook(hook, is_full=False)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a module gets a parameter; what it returns replaces it."""
    return parameter_registration.register(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module gets a buffer; what it returns replaces it."""
    return buffer_registration.register(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module gets a child; what it returns replaces it."""
    return module_registration.register(hook)


# --- for one module ---------------------------------------------------------------------------------------------------


class Hooked:
    """The hooks of a module."""

    _forward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks
    _is_full_backward_hook: bool | None = None  # None before the first of them
    forward: Callable[..., Any]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; what it returns replaces the positional arguments.

        Parameters
        ----------
        prepend
            Run it before the hooks that are there already.
        with_kwargs
            Call ``hook(module, args, kwargs)`` instead, which may return a pair ``(args, kwargs)``.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.
        """
        return register(self._forward_pre_hooks, _with_options(hook, with_kwargs), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; what it returns replaces the output.

        Parameters
        ----------
        prepend
            Run it before the hooks that are there already.
        with_kwargs
            Call ``hook(module, args, kwargs, output)`` instead.
        always_call
            Call it even if ``forward`` raises; the output is None then.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.

        Examples
        --------
        >>> layer = rg.nn.Linear(2, 3)
        >>> with layer.register_forward_hook(lambda module, args, output: print(output.shape)):
        ...     y = layer(rg.ones(4, 2))
        retrograd.Size([4, 3])
        """
        return register(self._forward_hooks, _with_options(hook, with_kwargs, always_call), prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are computed.

        ``grad_output`` is a tuple, with None for anything but tensors; what the hook returns replaces it.
        """
        return register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are computed.

        Both are tuples, with None for anything but tensors; what the hook returns replaces
        ``grad_input``. Keyword arguments of the call have no part in it.

        Inputs and outputs of a module with such hooks cannot be written to in place.
        """
        _check_kind(self._backward_hooks, self._is_full_backward_hook, True, "on a single Module")
        self._is_full_backward_hook = True
        return register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` after the node of the graph that made the output.

        Deprecated, as in torch, because the gradients are those of that node, and not of the module: of several
        outputs it is the node of the first one, and ``grad_input`` goes to whatever that node was given, parameters
        among it. What the hook returns replaces ``grad_input``. Use :meth:`register_full_backward_hook`. A module has
        hooks of one of the two kinds.

        Warns
        -----
        FutureWarning
            In a call whose inputs and outputs are not those of one node.
        """
        _check_kind(self._backward_hooks, self._is_full_backward_hook, False, "on a single Module")
        self._is_full_backward_hook = False
        return register(self._backward_hooks, hook)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = _Call(args, kwargs)
        try:
            return self._run_with_hooks(state)
        except Exception:
            self._run_remaining_hooks(state)
            raise

    def _run_with_hooks(self, call: _Call) -> Any:
        for pre_hook in (*forward_pre.values(), *self._forward_pre_hooks.values()):
            call.replace_arguments(pre_hook, _run(pre_hook, self, call.args, call.kwargs))
        gradients = None
        pre_hooks = [*backward_pre.values(), *self._backward_pre_hooks.values()]
        hooks, of_node = self._backward_hooks_by_kind()
        if pre_hooks or hooks:
            gradients = BackwardHooks(self, pre_hooks, hooks)
            call.args = gradients.watch_inputs(call.args)
        call.result = self.forward(*call.args, **call.kwargs)
        for key, hook, _ in self._hooks_after_forward():
            call.ran.add(key)
            call.replace_result(_run(hook, self, call.args, call.kwargs, call.result))
        if gradients is not None:
            if not isinstance(call.result, (Tensor, tuple)):
                warn_user(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                    f"but received {type(call.result)}"
                )
            call.result = gradients.watch_outputs(call.result)
        if of_node:
            hook_last_node(self, of_node, call.args, call.result)
        return call.result

    def _backward_hooks_by_kind(self) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
        """The full backward hooks, and those of the node that makes the output; those of all modules first."""
        full: list[Callable[..., Any]] = []
        of_node: list[Callable[..., Any]] = []
        for hooks, are_full in ((backward, _backward_are_full), (self._backward_hooks, self._is_full_backward_hook)):
            (of_node if are_full is False else full).extend(hooks.values())
        return full, of_node

    def _hooks_after_forward(self) -> Iterator[tuple[int, Callable[..., Any], str]]:
        for scope, hooks in (("global module", forward), ("module", self._forward_hooks)):
            for key, hook in list(hooks.items()):
                yield key, hook, scope

    def _run_remaining_hooks(self, call: _Call) -> None:
        """After an error, run those always-called forward hooks that have not run yet."""
        for key, hook, scope in self._hooks_after_forward():
            if isinstance(hook, ForwardHook) and hook.always_call and key not in call.ran:
                try:
                    call.replace_result(hook(self, call.args, call.kwargs, call.result))
                except Exception as error:
                    warn_user(
                        f"{scope} forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}"
                    )


class _Call:
    """A call of a module while hooks look at it."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.ran: set[int] = set()

    def replace_arguments(self, hook: Any, returned: Any) -> None:
        if returned is None:
            return
        if not isinstance(hook, ForwardHook):
            self.args = returned if isinstance(returned, tuple) else (returned,)
        elif isinstance(returned, tuple) and len(returned) == 2:
            self.args, self.kwargs = returned
        else:
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {returned}."
            )

    def replace_result(self, returned: Any) -> None:
        if returned is not None:
            self.result = returned
