"""Copying, saving and scripting a model as if it had none of our hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from retrograd.anomaly.adapters.patches import Patches

_TABLES = {
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
}


class Hook:
    """One of our hooks on a module of the program.

    Parameters
    ----------
    function
        The function that is called.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        """For classes with their own way to copy hooks: a function that accepts anything, does nothing and exists
        without this package.
        """
        return getattr, (contextlib.nullcontext(), "__exit__")


def leave_out(patches: Patches) -> None:
    """Have ``copy``, ``pickle``, ``torch.save``, ``torch.jit.script`` and ``torch.cuda.make_graphed_callables`` see a
    model without these hooks.
    """
    patches.wrap(torch.nn.Module, "__reduce_ex__", _reduced)
    if hasattr(torch.jit, "_recursive"):
        patches.wrap(torch.jit._recursive, "create_script_module", _scripted)
    for owner in (torch.cuda, torch.cuda.graphs):
        patches.wrap(owner, "make_graphed_callables", _graphed)


def _reduced(original: Any, module: Any, protocol: Any) -> Any:
    if original is object.__reduce_ex__:  # the actual one may be that of another base of the module's class
        reduced = super(torch.nn.Module, module).__reduce_ex__(protocol)
    else:
        reduced = original(module, protocol)
    if not isinstance(reduced, tuple) or len(reduced) < 3 or not isinstance(reduced[2], dict):
        return reduced
    return (*reduced[:2], reduced[2] | _without_ours(reduced[2]), *reduced[3:])


def _scripted(original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    with _taken_off(model):
        return original(model, *args, **kwargs)


def _graphed(original: Any, callables: Any, *args: Any, **kwargs: Any) -> Any:
    with contextlib.ExitStack() as stack:
        for each in callables if isinstance(callables, tuple) else (callables,):
            if isinstance(each, torch.nn.Module):
                stack.enter_context(_taken_off(each))
        return original(callables, *args, **kwargs)


@contextlib.contextmanager
def _taken_off(model: torch.nn.Module) -> Iterator[None]:
    """A context in which a model has only the program's hooks, in the same order before and after."""
    before = [(vars(each), _without_ours(vars(each))) for each in model.modules()]
    kept = [(variables, {name: variables[name] for name in rest}) for variables, rest in before]
    for variables, rest in before:
        variables.update(rest)
    try:
        yield
    finally:
        for variables, tables in kept:
            variables.update(tables)


def _without_ours(variables: dict[str, Any]) -> dict[str, Any]:
    """The tables that contain our hooks, by name, without these."""
    found: dict[str, Any] = {}
    for hooks, others in _TABLES.items():
        ours = {number for number, hook in variables.get(hooks, {}).items() if isinstance(hook, Hook)}
        if not ours:
            continue
        for name in (hooks, *others):
            table = variables[name]
            found[name] = type(table)((number, each) for number, each in table.items() if number not in ours)
    return found
