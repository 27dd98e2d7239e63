"""Parameters computed from others: a module's attribute becomes a function of what is learned instead of it.

The module's class is replaced by a subclass of its own, in which the attribute is a property.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.nn.modules.container import ModuleDict, ModuleList
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache(threading.local):
    """The results computed by a thread inside of :func:`cached`, by module and name."""

    depth = 0  # of nested blocks

    def __init__(self) -> None:
        self.tensors: dict[tuple[Module, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Inside this block, compute every parametrized tensor only once in this thread."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.tensors.clear()


# who returned a tensor, and what it must keep
_FORWARD = "A parametrization", "Registering a parametrization may not change the {} of the tensor"
_INVERSE = "parametrization.right_inverse", "The tensor returned by parametrization.right_inverse must have the same {}"


def _check_kept(rule: tuple[str, str], tensors: dict[str, Any]) -> None:
    """Raise unless the second value is a tensor with dtype and shape of the first; both by their names in errors."""
    (old_name, old), (new_name, new) = tensors.items()
    who, keeps = rule
    if not isinstance(new, Tensor):
        raise ValueError(f"{who} must return a tensor. Got {type(new).__name__}.")
    for what in ("dtype", "shape"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            raise ValueError(
                f"{keeps.format(what)}, unless the `unsafe` flag is enabled.\n"
                f"{old_name}{what}: {before}\n{new_name}{what}: {after}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, one after the other, and what is learned instead of it.

    Parameters
    ----------
    modules
        The parametrizations.
    original
        The parameter or buffer.
    unsafe
        Whether dtype and shape of the tensor may change.

    Attributes
    ----------
    original
        What is learned, if it is one tensor; otherwise ``original0``, ``original1``, ...
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.data
        new = self._inverted(original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if new.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            original.data = new.data  # the parameter itself stays, so that optimizers know it
            _register(self, "original", original, original)
        else:
            for number, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{number} of the sequence with type {type(part).__name__}."
                    )
                _register(self, f"original{number}", part, original)
        if not unsafe:
            try:
                _check_kept(_FORWARD, {"unparametrized ": before, "parametrized ": self()})
            except Exception:
                original.data = before  # the registration fails, so it is restored
                raise

    def _steps(self) -> list[Module]:
        """The parametrizations, without those of the original, which can be parametrized itself."""
        return [module for name, module in self._modules.items() if module is not None and name.isdigit()]

    def _inverted(self, value: Any) -> Any:
        """The originals from which the parametrizations give ``value``, as far as they have a ``right_inverse``."""
        for module in reversed(self._steps()):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    continue
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Overwrite the learned tensors so that the result is ``value``.

        Raises
        ------
        RuntimeError
            If a parametrization has no ``right_inverse``.
        ValueError
            If what it returns is not what was learned so far: a tensor or a sequence of as many, of the same dtypes.
        """
        with no_grad():
            new: Any = value
            for module in reversed(self._steps()):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            for name, part in self._named_parts(new).items():
                if is_parametrized(self, name):
                    setattr(self, name, part)  # assigning goes through its own inverse
                else:
                    getattr(self, name).data = part.data

    def _named_parts(self, new: Any) -> dict[str, Tensor]:
        """What the parametrizations' ``right_inverse`` returned, by the names of the learned tensors."""
        if self.is_tensor:
            if not isinstance(new, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
            parts = {"original": new}
        else:
            if isinstance(new, Tensor) or not isinstance(new, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
            if len(new) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(new)}."
                )
            parts = dict(zip(self._names(), new, strict=True))
        for number, (name, part) in enumerate(parts.items()):
            if not isinstance(part, Tensor):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {number} of type "
                    f"{type(part).__name__}."
                )
            dtype = getattr(self, name).dtype
            if part.dtype != dtype:
                which = "The tensor" if self.is_tensor else f"Tensor {number}"
                raise ValueError(
                    f"{which} returned by `right_inverse` has dtype {part.dtype} while `{name}` has dtype {dtype}"
                )
        return parts

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]

    def forward(self) -> Tensor:
        """Return the tensor, computed from what is learned."""
        first, *others = self._steps()
        result = first(*(getattr(self, name) for name in self._names()))
        for module in others:
            result = module(result)
        return result


def _register(module: Module, name: str, value: Tensor, like: Tensor) -> None:
    """Register a tensor in a module as the same kind as another one: a parameter or a buffer."""
    if isinstance(like, Parameter):
        parameter = value if isinstance(value, Parameter) else Parameter(value, like.requires_grad)
        module.register_parameter(name, parameter)
    else:
        module.register_buffer(name, value)


def tensor_of(module: Module, name: str) -> Tensor:
    """The tensor of a name that is to be parametrized."""
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


def _own_class(module: Module) -> None:
    """Give a module a class of its own, a subclass of its class, that can have properties."""
    kind = type(module)

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return replica

    def reduce(self: Any, protocol: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). "
            "Save that, or call remove_parametrizations first."
        )

    members = {"__reduce_ex__": reduce, "__module__": kind.__module__}
    if "__deepcopy__" not in dir(kind):
        members["__deepcopy__"] = deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _add_property(module: Module, name: str) -> None:
    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cache.depth:
            return parametrization()
        key = self, name
        if key not in _cache.tensors:
            _cache.tensors[key] = parametrization()
        return _cache.tensors[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer the result of a module, which is computed whenever it is asked for.

    Parameters
    ----------
    module
        Whose tensor it is.
    tensor_name
        The name of the parameter or buffer. What is learned is ``module.parametrizations.<name>.original``.
    parametrization
        Computes the tensor. Its method ``right_inverse``, if it has one, says what the tensor is computed from at
        first, and on assignment; it may return several tensors.
    unsafe
        Whether dtype and shape may change.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        If there is no such tensor, or if dtype or shape would change.

    Examples
    --------
    >>> class Symmetric(rg.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = rg.nn.utils.parametrize.register_parametrization(rg.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        entry: Any = module.parametrizations[tensor_name]
        entry.unsafe |= unsafe
        if not unsafe:
            current = getattr(module, tensor_name)
            result = parametrization(current)
            _check_kept(
                _FORWARD, {f"module.{tensor_name}.": current, f"parametrization(module.{tensor_name}).": result}
            )
            if hasattr(parametrization, "right_inverse"):
                try:
                    inverse = parametrization.right_inverse(result)
                except NotImplementedError:
                    pass
                else:
                    _check_kept(_INVERSE, {f"module.{tensor_name}.": current, "returned ": inverse})
        entry.append(parametrization)
        return module
    members = module._parameters if tensor_name in module._parameters else module._buffers
    if members.get(tensor_name) is None:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = members[tensor_name]
    assert original is not None
    entry = ParametrizationList([parametrization], original, unsafe=unsafe)
    del members[tensor_name]
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    _add_property(module, tensor_name)
    module.parametrizations[tensor_name] = entry
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrized tensors, or the one of that name is parametrized."""
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor an ordinary parameter or buffer again.

    Parameters
    ----------
    leave_parametrized
        Whether it keeps the value that the parametrizations give it, or gets back what was learned.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        If it is not parametrized, or if ``leave_parametrized`` is False and it was computed from several tensors.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    entry: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and not entry.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    originals = [entry.original] if entry.is_tensor else [getattr(entry, f"original{i}") for i in range(entry.ntensors)]
    original = kept = next((each for each in originals if each.requires_grad), originals[0])  # one that is learned
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        if entry.is_tensor:
            original.data = value.data
        else:
            kept = value
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    _register(module, tensor_name, kept, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize a module as another one is: both share the parametrizations and what is learned.

    Parameters
    ----------
    from_module, to_module
        The one that is, and the one that will be.
    tensor_name
        Of which tensor; all by default.

    Returns
    -------
    Module
        ``to_module``.
    """
    if not is_parametrized(from_module, tensor_name):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if (
            name not in to_module._parameters
            and name not in to_module._buffers
            and not is_parametrized(to_module, name)
        ):
            value = getattr(from_module, name).detach().clone()
            if any(isinstance(getattr(source, part), Parameter) for part in source._names()):
                to_module.register_parameter(name, Parameter(value))
            else:
                to_module.register_buffer(name, value)
        for parametrization in source._steps():
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        for part in source._names():
            setattr(to_module.parametrizations[name], part, getattr(source, part))
    return to_module
