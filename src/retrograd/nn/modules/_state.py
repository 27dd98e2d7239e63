"""The state of a module as a dictionary of tensors by dotted name, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.hooks import Hooks, RemovableHandle, register
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import as_tensor
from retrograd.nn.parameter import Parameter

EXTRA_STATE = "_extra_state"


def _empty() -> Any:
    """A dictionary for tensors, whose ``_metadata`` is for the versions of the modules they come from."""
    destination: Any = OrderedDict()
    destination._metadata = OrderedDict()
    return destination


class _IncompatibleKeys(NamedTuple):
    """What :meth:`Module.load_state_dict` found missing, and what it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


class StateHook:
    """A hook of saving or loading, and how to call it."""

    def __init__(self, hook: Callable[..., Any], with_module: bool = True, may_return: bool = True) -> None:
        self.hook = hook
        self.with_module = with_module
        self.may_return = may_return

    def __call__(self, module: Any, *args: Any) -> Any:
        returned = self.hook(module, *args) if self.with_module else self.hook(*args)
        if returned is not None and not self.may_return:
            raise RuntimeError("state_dict post-hook must return None")
        return returned


def _advice_on_prefix(missing: Sequence[str], unexpected: Sequence[str]) -> Iterator[str]:
    """What to do where the names differ only by a prefix, such as the one that ``DataParallel`` adds."""
    for shorter, longer in ((missing, unexpected), (unexpected, missing)):
        ends = [key for key in longer if shorter and key.endswith(shorter[0])]
        for prefix in (key.removesuffix(shorter[0]) for key in ends):
            if prefix and {prefix + key for key in shorter} == set(longer):
                whose, others = "in state_dict", "of the module"
                renamed = f"key.removeprefix({prefix!r})"
                if longer is missing:
                    whose, others, renamed = others, whose, f"{prefix!r} + key"
                yield (
                    f"The names {whose} begin with {prefix!r}, those {others} do not: load "
                    f"{{{renamed}: value for key, value in state_dict.items()}}."
                )
                return


def _load(
    module: Any,
    local: dict[str, Any],
    prefix: str,
    assign: bool,
    metadata: dict[str, dict[str, Any]],
    report: _IncompatibleKeys,
    errors: list[str],
) -> None:
    """Load ``module`` and what is in it, each by its own method."""
    local_metadata = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    # strict: missing names are collected in any case and reported, if at all, at the end
    module._load_from_state_dict(local, prefix, local_metadata, True, *report, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            own = {key: value for key, value in local.items() if key.startswith(inner)}
            _load(child, own, inner, assign, metadata, report, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, report) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


class Stateful:
    """A module as the owner of a state that can be taken out and put back."""

    _version: int = 1  # version of the state dict's layout; a subclass that changes it increments it

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _state_dict_pre_hooks: Hooks
    _state_dict_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    # --- out ------------------------------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return parameters and persistent buffers by dotted name.

        The tensors are detached but share memory with those of the module.

        Parameters
        ----------
        destination
            A dictionary to fill instead of a new one.
        prefix
            Prepended to the names.
        keep_vars
            Give the parameters themselves instead of detached tensors.

        Examples
        --------
        >>> list(rg.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        if args:  # the parameter name used by overrides in older programs
            warn_user("state_dict: positional arguments are deprecated; pass them by keyword", FutureWarning)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = _empty()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for pre_hook in self._state_dict_pre_hooks.values():
            pre_hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is not None:
                destination = replaced
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put the state of this module, without its children's, into ``destination``. For subclasses to override."""
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers of this module itself."""
        buffers = {name: b for name, b in self._buffers.items() if name not in self._non_persistent_buffers_set}
        return {name: value for name, value in {**self._parameters, **buffers}.items() if value is not None}

    def get_extra_state(self) -> Any:
        """Return what the state dict should hold besides tensors. For subclasses, with :meth:`set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Override it in the subclass."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what :meth:`get_extra_state` returned. For subclasses."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Override it in the subclass."
        )

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Stateful, method)

    # --- in -------------------------------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of a state dict into the parameters and buffers of the same names.

        NumPy arrays and the tensors of other libraries will do, too. Either everything fits, or an error lists all that
        does not.

        Parameters
        ----------
        state_dict
            What :meth:`state_dict` returned.
        strict
            Whether all names must be there, and no others.
        assign
            Put the tensors themselves in the place of those of the module, instead of copying their elements. They
            keep their dtype and device; an optimizer must be made afterwards.

        Returns
        -------
        _IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        RuntimeError
            If names are missing or unexpected (if ``strict``), or if shapes differ.
        TypeError
            If ``state_dict`` is no mapping.

        Examples
        --------
        >>> model, other = rg.nn.Linear(2, 3), rg.nn.Linear(2, 3)
        >>> model.load_state_dict(other.state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", {})
        report = _IncompatibleKeys([], [])
        errors: list[str] = []
        _load(self, dict(state_dict), "", assign, metadata, report, errors)
        if strict:
            for what, keys in (("Unexpected", report.unexpected_keys), ("Missing", report.missing_keys)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
            errors += _advice_on_prefix(report.missing_keys, report.unexpected_keys)
        if errors:
            problems = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{problems}")
        return report

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the state of this module, without its children's, from ``state_dict``. For subclasses to override.

        Nothing is raised; what is wrong is added to the three lists.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = self._own_state()
        for name, current in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, key, current, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if self._has_extra_state("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                # names that begin with a child's name are handled by the child
                name, *inner = key.removeprefix(prefix).split(".")
                if key.startswith(prefix) and key != extra and name not in (self._modules if inner else own):
                    unexpected_keys.append(key)

    def _load_tensor(self, name: str, key: str, current: Tensor, value: Any, assign: bool) -> str | None:
        """Take over one tensor; return what is wrong with it, if anything."""
        if not isinstance(value, Tensor):
            if not hasattr(value, "__array__"):
                return (
                    f'While copying the parameter named "{key}", expected a Tensor or Tensor-like object from '
                    f"checkpoint but received {type(value)}"
                )
            value = as_tensor(value)
        if current.ndim == 0 and tuple(value.shape) == (1,):
            value = value[0]
        if value.shape != current.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                f"current model is {current.shape}."
            )
        try:
            with no_grad():
                if not assign:
                    current.copy_(value)
                    return None
            if isinstance(current, Parameter):
                value = value if isinstance(value, Parameter) else Parameter(value, current.requires_grad)
                value.requires_grad_(current.requires_grad)
            setattr(self, name, value)
        except Exception as error:
            action = "assigning" if assign else "copying"
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are {current.shape} and '
                f"whose dimensions in the checkpoint are {value.shape}, an exception occurred : {error.args}."
            )
        return None

    # --- hooks ----------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state of this module is taken out."""
        return register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` afterwards; it may change ``state_dict``."""
        return register(self._state_dict_hooks, StateHook(hook, may_return=False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As :meth:`register_state_dict_post_hook`, but what it returns replaces the state dict."""
        return register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before state is put into this module; it may change the state dict.

        Its arguments are ``module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs``.
        """
        return register(self._load_state_dict_pre_hooks, StateHook(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As :meth:`register_load_state_dict_pre_hook`, by default without the module."""
        return register(self._load_state_dict_pre_hooks, StateHook(hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after state was put into this module; it may change the lists."""
        return register(self._load_state_dict_post_hooks, hook)
