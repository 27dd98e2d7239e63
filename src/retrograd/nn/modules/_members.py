"""The members of a module: parameters, buffers and child modules; assigning, finding and iterating over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from retrograd.core.tensor import Tensor
from retrograd.nn.modules._errors import no_module
from retrograd.nn.modules._hooks import buffer_registration, module_registration, parameter_registration, registered
from retrograd.nn.parameter import Buffer, Parameter
from retrograd.queries import typename

if TYPE_CHECKING:
    from retrograd.nn.modules.module import Module


class Members:
    """A module as the owner of parameters, buffers and child modules."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]

    # --- attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        hint = ""
        if "_parameters" in state:
            members = state["_parameters"]
            if name in members:
                return members[name]
            for members in (state["_modules"], state["_buffers"]):
                if name in members:
                    return members[name]
        else:
            hint = "; call super().__init__() before anything else in __init__"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if isinstance(value, Tensor) and isinstance(value, Parameter):
            self._clear(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif name in state.get("_parameters", ()):
            self._check_cleared(name, value, "parameter", "retrograd.nn.Parameter or None expected")
            state["_parameters"][name] = None
        elif isinstance(value, Members):
            self._clear(name, "_modules", "module")
            state["_modules"][name] = registered(module_registration, self, name, value)
        elif isinstance(value, Tensor) and isinstance(value, Buffer) and name not in state.get("_modules", ()):
            self._clear(name, "_buffers", "buffer")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" not in state:
            object.__setattr__(self, name, value)
        elif name in state["_modules"]:
            self._check_cleared(name, value, "child module", "retrograd.nn.Module or None expected")
            state["_modules"][name] = None
        elif name in state["_buffers"]:
            if not isinstance(value, Tensor):
                self._check_cleared(name, value, "buffer", "retrograd.nn.Buffer, retrograd.Tensor or None expected")
            self.register_buffer(name, value, name not in self._non_persistent_buffers_set)
        else:
            object.__setattr__(self, name, value)

    @staticmethod
    def _check_cleared(name: str, value: Any, what: str, expected: str) -> None:
        if value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as {what} '{name}' ({expected})")

    def _clear(self, name: str, members: str, what: str) -> None:
        """Remove whatever has that name, unless it is one of ``members``."""
        state = self.__dict__
        if "_parameters" not in state:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call; call super().__init__() before assigning '{name}'"
            )
        state.pop(name, None)
        for other in ("_parameters", "_buffers", "_modules"):
            if other != members:
                state[other].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> Iterable[str]:
        names = {*object.__dir__(self), *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())  # children of Sequential are not attributes

    # --- registration ---------------------------------------------------------------------------------------------

    def _check_name(self, name: Any, what: str, members: str) -> None:
        """Raise unless something can be registered under ``name``."""
        if members not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call; call super().__init__() first")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in self.__dict__[members] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; ``None`` reserves the name, and the state dict leaves it out.

        Raises
        ------
        KeyError
            If the name is taken, empty, or contains a dot.
        TypeError
            If ``param`` is not a :class:`Parameter`.
        ValueError
            If it was computed.
        """
        self._check_name(name, "parameter", "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(retrograd.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            param = registered(parameter_registration, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: a tensor that belongs to the module's state but is not a parameter, such as a running mean.

        Parameters
        ----------
        name
            It can be read as the attribute of that name.
        tensor
            ``None`` reserves the name.
        persistent
            Whether it is part of the state dict.

        Raises
        ------
        KeyError
            If the name is taken, empty, or contains a dot.
        TypeError
            If ``tensor`` is not a tensor.
        """
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(tensor)}' object to buffer '{name}' (retrograd.Tensor or None required)"
                )
            tensor = registered(buffer_registration, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name.

        Raises
        ------
        KeyError
            If the name is taken, empty, or contains a dot.
        TypeError
            If ``module`` is not a :class:`Module`.
        """
        if module is not None and not isinstance(module, Members):
            raise no_module(module)
        self._check_name(name, "module", "_modules")
        self._modules[name] = registered(module_registration, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Do as :meth:`add_module`."""
        self.add_module(name, module)

    # --- by dotted name -------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted name, such as ``"encoder.layers.0"``; this one for the empty name.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Members):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of the one at a dotted name.

        Parameters
        ----------
        strict
            Raise, instead of adding one, if there is no module at that name.

        Raises
        ------
        ValueError
            If the name is empty or ``module`` is not a module.
        AttributeError
            If there is no such place.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Members):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if hasattr(parent, name):
            if not isinstance(getattr(parent, name), Members):
                raise AttributeError(f"`{name}` is not an nn.Module")
        elif strict:
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted name.

        Raises
        ------
        AttributeError
            If there is none.
        """
        _, name, found = self._at(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted name.

        Raises
        ------
        AttributeError
            If there is none.
        """
        owner, name, found = self._at(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _at(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    # --- walks ----------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all modules in it, parents first, with their dotted names.

        Parameters
        ----------
        memo
            The modules to leave out; filled while iterating.
        prefix
            Prepended to the names.
        remove_duplicate
            Whether a module found at several places comes only once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]  # every Members is a Module
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all modules in it, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the modules directly in this one, each once, with their names."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Iterate over the modules directly in this one, each once."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over what ``get_members_fn`` finds in the modules, with dotted names."""
        seen = set()
        owners: Iterable[tuple[str, Any]] = [(prefix, self)]
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, owner in owners:
            for name, member in get_members_fn(owner):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over the parameters with their dotted names.

        Parameters
        ----------
        prefix
            Prepended to the names.
        recurse
            Whether those of the modules in this one come, too.
        remove_duplicate
            Whether a parameter found at several places comes only once.

        Examples
        --------
        >>> model = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.ReLU())
        >>> [(name, tuple(p.shape)) for name, p in model.named_parameters()]
        [('0.weight', (3, 2)), ('0.bias', (3,))]
        """
        return self._named_members(lambda owner: owner._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once, as an optimizer wants them."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers with their dotted names; the arguments are those of :meth:`named_parameters`."""
        return self._named_members(lambda owner: owner._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer
