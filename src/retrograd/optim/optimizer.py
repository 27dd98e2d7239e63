"""The base of all optimizers: parameter groups, state that can be saved, hooks."""

from __future__ import annotations

import copy
import functools
import itertools
import numbers
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import enable_grad
from retrograd.core import state
from retrograd.core.hooks import Hooks, RemovableHandle
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.core.tensor import Tensor
from retrograd.creation import as_tensor, tensor
from retrograd.dtypes import float32, float64, get_default_dtype
from retrograd.optim._names_for_copies import (  # noqa: F401 (copies of torch's optimizers import them from here)
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)
from retrograd.queries import typename
from retrograd.utils._foreach_utils import _group_tensors_by_device_and_dtype

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]  # for annotations
Group = dict[str, Any]
Closure = Callable[[], Any]

# the default of an option that every parameter group must give
required: Any = type("required", (), {"__repr__": lambda self: "<required parameter>"})()

_global_pre_hooks = Hooks()
_global_post_hooks = Hooks()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    It may return ``(args, kwargs)`` to be used instead; ``args`` begins with the optimizer.
    """
    return _global_pre_hooks.register(hook)


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return _global_post_hooks.register(hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` that runs the hooks around it and has a name in profiles."""

    @functools.wraps(step)
    def complete(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._in_step:  # super().step() of a subclass
            return step(self, *args, **kwargs)
        self._opt_called = True
        self._in_step = True
        try:
            if local.observer is None:
                return _run(step, self, args, kwargs)
            from retrograd.autograd.profiler import record_function

            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                return _run(step, self, args, kwargs)
        finally:
            self._in_step = False

    return complete


def _run(step: Callable[..., Any], optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
    args = (optimizer, *args)
    own = vars(optimizer)  # without hooks of its own where a wrapper around an optimizer has not called ``__init__``
    for hook in _all_of(_global_pre_hooks, own.get("_optimizer_step_pre_hooks", {})):
        result = hook(optimizer, args, kwargs)
        if result is not None:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
            args, kwargs = result
    monitor = state.monitor
    out = step(*args, **kwargs) if monitor is None else monitor.run_step(optimizer, lambda: step(*args, **kwargs))
    for hook in _all_of(own.get("_optimizer_step_post_hooks", {}), _global_post_hooks):
        hook(optimizer, args, kwargs)
    return out


def _all_of(some: dict[int, Any], others: dict[int, Any]) -> Iterable[Callable[..., Any]]:
    """A copy of the current hooks, since one of them may remove itself."""
    return (*some.values(), *others.values()) if some or others else ()


class Optimizer:
    """The base of all optimizers, which update parameters by their gradients.

    A subclass passes the default values of its options to this class's ``__init__`` and defines :meth:`step`.

    Parameters
    ----------
    params
        The parameters; or pairs of names and parameters, as from ``named_parameters()``; or groups of parameters with
        options of their own: dicts with the key ``"params"``.
    defaults
        The options that groups have unless they say otherwise.

    Attributes
    ----------
    param_groups : list of dict
        The groups with all their options, which may be changed between steps: ``group["lr"] = 0.01``.
    state : dict
        What the optimizer remembers of each parameter, such as running averages; a dict by parameter.
    defaults : dict
        As above.

    Raises
    ------
    TypeError
        If ``params`` is a single tensor, or contains something else than tensors.
    ValueError
        If there are no parameters, if one was computed by a recorded operation, or if one is in two groups.

    Examples
    --------
    >>> class SignDescent(rg.optim.Optimizer):
    ...     def __init__(self, params, lr=0.5):
    ...         super().__init__(params, {"lr": lr})
    ...     @rg.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad.sign()
    >>> w = rg.tensor([3.0, -4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> SignDescent([w]).step()
    >>> w
    tensor([ 2.5000, -3.5000], requires_grad=True)
    """

    _in_step = False
    _counts: tuple[str, ...] = ()  # the numbers in the state of a parameter that are tensors
    _opt_called = False  # whether a step was ever made; learning-rate schedulers ask

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor) or not hasattr(params, "__iter__"):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{typename(params)}{_advice(params)}"
            )
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"optimizer got an empty parameter list{_why_empty(params)}")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        self._optimizer_step_pre_hooks = Hooks()
        self._optimizer_step_post_hooks = Hooks()
        self._optimizer_state_dict_pre_hooks = Hooks()
        self._optimizer_state_dict_post_hooks = Hooks()
        self._optimizer_load_state_dict_pre_hooks = Hooks()
        self._optimizer_load_state_dict_post_hooks = Hooks()

    # what copies of torch's optimizers call
    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
    profile_hook_step = staticmethod(_with_hooks)

    def _patch_step_function(self) -> None:
        """Do nothing: ``step`` has its hooks since the class was made."""

    def _cuda_graph_capture_health_check(self) -> None:
        """Do nothing: no step is captured."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hooks()
        for group in self.param_groups:  # an option that did not exist in the program that saved
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        for kept in self.state.values():
            for name in self._counts:
                if isinstance(kept, dict) and isinstance(kept.get(name), numbers.Real):  # as older programs saved it
                    kept[name] = scalar(float(kept[name]))

    def __repr__(self) -> str:
        groups = []
        for number, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            groups.append("".join([f"\nParameter Group {number}\n", *options]))
        return f"{type(self).__name__} ({''.join(groups)})"

    # --- parameters -----------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, such as layers that are no longer frozen.

        Parameters
        ----------
        param_group
            A dict with the key ``"params"``, and with options where these differ from the defaults.

        Raises
        ------
        TypeError
            If it is not a dict, if the parameters are in a set, or if they are not tensors.
        KeyError
            If it has no parameters.
        ValueError
            If a parameter was computed by a recorded operation, if it is in another group already, if only some of the
            parameters have names, or if an option without a default is missing.

        Examples
        --------
        >>> w, b = rg.ones(2, requires_grad=True), rg.zeros(2, requires_grad=True)
        >>> optimizer = rg.optim.SGD([w], lr=0.1)
        >>> optimizer.add_param_group({"params": b, "lr": 0.2})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.2]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        if "params" not in param_group:
            raise KeyError(f"param_group must have the key 'params', but its keys are {list(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        found = [given] if isinstance(given, Tensor) else list(given)
        names = [item[0] for item in found if isinstance(item, tuple)]
        params = [item[1] if isinstance(item, tuple) else item for item in found]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        self._check_params(param_group)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self.param_groups.append(param_group)

    def _check_params(self, new: Group) -> None:
        for number, param in enumerate(new["params"]):
            if not isinstance(param, Tensor):
                advice = "; pass the module's parameters() instead" if hasattr(param, "parameters") else ""
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {typename(param)}{advice}"
                )
            if not (param.is_leaf or param.retains_grad):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: parameter number {number}, of shape {list(param.shape)}, was "
                    f"computed by {param.grad_fn.name()}; give the tensors that it was computed from, or make it a "  # type: ignore[union-attr]
                    "leaf with detach().requires_grad_()"
                )
        own = {id(param) for param in new["params"]}
        if len(own) != len(new["params"]):
            warn_user(
                "optimizer contains a parameter group with duplicate parameters; each is updated once per occurrence"
            )
        for group in self.param_groups:
            if ("param_names" in new) != ("param_names" in group):
                described = "with names" if "param_names" in new else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{described} to the optimizer"
                )
            if not own.isdisjoint(map(id, group["params"])):
                raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Parameters
        ----------
        set_to_none
            Set ``.grad`` to None; otherwise to zero, in place. A parameter whose gradient is None is left alone by
            :meth:`step`; one whose gradient is zero may still move, by its momentum or weight decay.
        """
        for group in self.param_groups:
            for param in group["params"]:
                grad = param._grad
                if grad is None:
                    continue
                if set_to_none:
                    param._grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # --- steps ----------------------------------------------------------------------------------------------------

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once, by their gradients. For subclasses to define.

        Parameters
        ----------
        closure
            A function that clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        Tensor or None
            What ``closure`` returned.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no step()")

    @staticmethod
    def _evaluate(closure: Closure | None) -> Any:
        """The loss, if there is a closure."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _is_withheld(self) -> bool:
        """Whether an anomaly watch rejects a step with these gradients; see :mod:`retrograd.anomaly`."""
        return state.monitor is not None and not state.monitor.before_step(self)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step of this optimizer.

        It may return ``(args, kwargs)`` to be used instead; ``args`` begins with the optimizer.
        """
        return self._optimizer_step_pre_hooks.register(hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step of this optimizer."""
        return self._optimizer_step_post_hooks.register(hook)

    # --- saving and loading ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options of all groups, with numbers in place of the parameters.

        The layout is torch's. Tensors are not copied.

        Returns
        -------
        dict
            ``"state"``: what is remembered of each parameter, by its number; ``"param_groups"``: the groups, in which
            ``"params"`` lists numbers.

        Examples
        --------
        >>> w = rg.ones(2, requires_grad=True)
        >>> optimizer = rg.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> optimizer.state_dict()["state"]
        {0: {'momentum_buffer': tensor([1., 1.])}}
        """
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        number_of: dict[int, int] = {}
        for number, param in enumerate(self._all_params()):
            number_of.setdefault(id(param), number)
        state_dict = {
            "state": {
                number_of[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()
            },
            "param_groups": [
                {
                    **{key: value for key, value in group.items() if key != "params"},
                    "params": [number_of[id(param)] for param in group["params"]],
                }
                for group in self.param_groups
            ],
        }
        for hook in self._optimizer_state_dict_post_hooks.values():
            returned = hook(self, state_dict)
            state_dict = state_dict if returned is None else returned
        return state_dict

    def _all_params(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(group["params"] for group in self.param_groups)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state and the options of groups, for parameters in the same order.

        Tensors get the dtype and the device of their parameter; those that have them already are not copied, so that a
        step changes them in ``state_dict``, too: load a ``copy.deepcopy`` of what is still needed. NumPy arrays and
        torch's tensors are copied: a state dict of torch's optimizer of the same name can be loaded.

        Parameters
        ----------
        state_dict
            What :meth:`state_dict` returned.

        Raises
        ------
        TypeError
            If it is no mapping.
        ValueError
            If the number of groups differs, or the number of parameters of a group.

        Examples
        --------
        >>> import torch  # doctest: +SKIP
        >>> optimizer.load_state_dict(torch.load("optimizer.pt"))  # doctest: +SKIP
        """
        if not isinstance(state_dict, Mapping):
            advice = "; pass its state_dict()" if hasattr(state_dict, "state_dict") else ""
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}{advice}.")
        loaded: Any = dict(state_dict)
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            returned = pre_hook(self, loaded)
            loaded = loaded if returned is None else returned
        saved_groups = [{**group, "params": list(group["params"])} for group in loaded["param_groups"]]
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, but the optimizer has {len(self.param_groups)}"
            )
        for number, (saved, own) in enumerate(zip(saved_groups, self.param_groups, strict=True)):
            theirs, ours = len(saved["params"]), len(own["params"])
            if theirs != ours:
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"group {number} has {theirs} parameters there, and {ours} here"
                )
        numbers_there = itertools.chain.from_iterable(group["params"] for group in saved_groups)
        param_of = dict(zip(numbers_there, self._all_params(), strict=True))
        new_state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in loaded["state"].items():
            param = param_of.get(key)
            new_state[key if param is None else param] = value if param is None else _fitted(param, value)
        for saved, own in zip(saved_groups, self.param_groups, strict=True):
            options = {key: _option(value) for key, value in saved.items()}
            if "param_names" in own:
                options.setdefault("param_names", own["param_names"])
            own_params = own["params"]
            own.clear()
            own.update(options, params=own_params)
        self.__setstate__({"state": new_state, "param_groups": self.param_groups})
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def register_state_dict_pre_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before :meth:`state_dict`; first of all hooks, if ``prepend``."""
        return self._optimizer_state_dict_pre_hooks.register(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after :meth:`state_dict`; what it returns replaces the state dict."""
        return self._optimizer_state_dict_post_hooks.register(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; what it returns replaces the state dict."""
        return self._optimizer_load_state_dict_pre_hooks.register(hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._optimizer_load_state_dict_post_hooks.register(hook, prepend=prepend)


def scalar(value: float) -> Tensor:
    """A number in the state, such as how many steps were made; float16 could not count beyond 2048."""
    return tensor(value, dtype=float64 if get_default_dtype() is float64 else float32)


def count_step(state: dict[str, Any]) -> float:
    """Count a step, and return the number of it."""
    array = state["step"]._data
    step = array.item() + 1
    array[()] = step
    return step


def _advice(params: Any) -> str:
    """What to pass instead of something that is not a list of parameters."""
    if isinstance(params, Tensor):
        return "; put it in a list"
    if hasattr(params, "parameters"):
        return "; pass its parameters()"
    return "; call it" if callable(params) else ""


def _why_empty(params: Any) -> str:
    """A possible reason why there are no parameters."""
    if not isinstance(params, types.GeneratorType):
        return ""
    return ": the generator is exhausted, or the layers are in a plain list, which hides them; use a ModuleList"


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or (hasattr(value, "__array__") and hasattr(value, "dtype"))


def _option(value: Any) -> Any:
    """An option of a loaded group: a copy, if it can be changed, and a tensor where it is another library's."""
    return as_tensor(value).clone() if _is_array(value) else copy.deepcopy(value)


def _fitted(param: Tensor, value: Any, key: Any = None) -> Any:
    """What was saved for a parameter, in the parameter's dtype and on its device."""
    if _is_array(value):
        kept = value if isinstance(value, Tensor) else as_tensor(value).detach().clone()
        # a number for all elements stays in its own dtype, where torch converts all but "step": so that training goes
        # on to the last bit as if it had never stopped, and float16 need not count
        if key in ("step", "mu_product", "eta", "mu"):
            return kept
        return kept.to(param.device, param.dtype if param.is_floating_point() else None)
    if isinstance(value, Mapping):
        return {name: _fitted(param, item, name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)([_fitted(param, item) for item in value])  # type: ignore[call-arg]
    return value
