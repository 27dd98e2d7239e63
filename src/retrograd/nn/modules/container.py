"""Modules and parameters in sequences and mappings."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Self

from retrograd.core.tensor import Tensor
from retrograd.nn.modules.module import Module, indented
from retrograd.nn.parameter import Parameter
from retrograd.queries import typename

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index: Any, length: int) -> int:
    """An index counted from the front.

    Raises
    ------
    IndexError
        If it is out of range.
    """
    place = operator.index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range for a container of {length}")
    return place % length


class _Listed(Module):
    """What :class:`Sequential` and :class:`ModuleList` share: modules numbered from 0."""

    def _values(self) -> list[Module]:
        return list(self._modules.values())  # type: ignore[arg-type]

    def _renumber(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        self._modules.clear()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, _position(index, len(self)), None))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        doomed = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in doomed:
            delattr(self, name)
        self._renumber(self._values())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before the one at ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = self._values()
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, such as a list of modules, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Remove the module at ``key`` and return it."""
        module = self[key]  # type: ignore[index]  # both subclasses have __getitem__
        del self[key]
        return module


class Sequential(_Listed):
    """Modules called one after the other, each with the output of the one before.

    Parameters
    ----------
    *args
        The modules; or one ``OrderedDict`` of them by name.

    Examples
    --------
    >>> model = rg.nn.Sequential(rg.nn.Linear(4, 3), rg.nn.ReLU(), rg.nn.Linear(3, 1))
    >>> model(rg.ones(2, 4)).shape
    retrograd.Size([2, 1])
    >>> model[1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def insert(self, index: int, module: Module) -> Self:  # type: ignore[override]  # torch's lists return None
        """Add a module before the one at ``index``; return this container.

        Raises
        ------
        IndexError
            If ``index`` is out of range.
        """
        if isinstance(module, Module) and not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}, for a container of {len(self)}")
        super().insert(index, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        return super().extend(sequential)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        _check_repeats(other)
        return Sequential(*(list(self) * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        _check_repeats(other)
        return self.extend(list(self) * (other - 1))

    def forward(self, input: Any) -> Tensor:
        """Call the modules one after the other."""
        for name, module in self._modules.items():
            try:
                input = module(input)  # type: ignore[misc]
            except Exception as error:
                # the traceback shows this line, but not which module it was at
                error.add_note(f"in module '{name}' of Sequential: {type(module).__name__}")
                raise
        return input


def _check_repeats(other: Any) -> None:
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {Sequential}")


class ModuleList(_Listed):
    """Modules in a list, so that the module they are in knows them.

    Parameters
    ----------
    modules
        What to begin with.

    Examples
    --------
    >>> layers = rg.nn.ModuleList([rg.nn.Linear(4, 4) for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=4, out_features=4, bias=True)
    )
    """

    _instead_of_forward = ": it only holds modules; call them one by one, or use a Sequential, which chains them"

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self._values()[index])
        return self._modules[self._name_at(index)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """As for any module, but with runs of equal children on one line."""
        runs: list[tuple[int, int, str]] = []  # first, last, text
        for number, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], number, text)
            else:
                runs.append((number, number, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(indented(line) for line in lines) + "\n)"


class _Keyed:
    """What :class:`ModuleDict` and :class:`ParameterDict` share: the interface of a dictionary."""

    def _add(self, entries: Any) -> None:
        """Add entries from a mapping or from an iterable of pairs; the name is that of the class in errors."""
        name = type(self).__name__
        if not isinstance(entries, Iterable):
            raise TypeError(
                f"{name}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
            )
        if isinstance(entries, (Mapping, _Keyed)):
            entries = entries.items()
        for number, pair in enumerate(entries):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}"
                )
            pair = list(pair)
            if len(pair) != 2:
                raise ValueError(f"{name} update sequence element #{number} has length {len(pair)}; 2 is required")
            self[pair[0]] = pair[1]  # type: ignore[index]

    def items(self) -> Any:
        """Return the pairs of keys and values."""
        raise NotImplementedError


class ModuleDict(_Keyed, Module):
    """Modules in a dictionary, so that the module they are in knows them.

    Parameters
    ----------
    modules
        What to begin with: a mapping or an iterable of pairs.
    """

    _instead_of_forward = ": it only holds modules; call them by name, as in modules['name'](x)"

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self._add(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from an iterable of pairs."""
        self._add(modules)

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        return self._modules.pop(key)  # type: ignore[return-value]

    def keys(self) -> Any:
        """Return the keys."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return the pairs of keys and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter; everything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _line_of(key: Any, value: Any, kind_of: Callable[[Tensor], Any]) -> str:
    """The line on a value in the text of its container; torch names the dtype in one and the type in the other."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    shape = "x".join(str(length) for length in value.shape)
    return f"  ({key}): {what} containing: [{kind_of(value)} of size {shape}{place}]"


class ParameterList(Module):
    """Parameters in a list, so that the module they are in knows them; tensors become parameters.

    Parameters
    ----------
    values
        What to begin with.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_position(index, self._size)))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(_position(index, self._size)), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[number] for number in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line per value."""
        return "\n".join(_line_of(number, value, attrgetter("dtype")) for number, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there is nothing to compute."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(_Keyed, Module):
    """Parameters in a dictionary, so that the module they are in knows them; tensors become parameters.

    Parameters
    ----------
    parameters
        What to begin with: a mapping or an iterable of pairs. The keys of a plain ``dict`` are sorted, as in torch, so
        that optimizers of both libraries number the parameters alike; those of an ``OrderedDict`` keep their order.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: Any) -> Any:
        if self._checked(key) not in self._keys:
            raise AttributeError(
                f"ParameterDict has no key {key!r}; it has {', '.join(map(repr, self._keys)) or 'none'}"
            )
        return getattr(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        setattr(self, self._checked(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: Any) -> None:
        del self._keys[self._checked(key)]
        delattr(self, key)

    @staticmethod
    def _checked(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: Any) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        union = self.copy()
        union.update(other)
        return union

    def __ror__(self, other: Any) -> Any:
        union = other.copy()
        union.update(self)
        return union

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def update(self, parameters: Any) -> None:
        """Add entries from a mapping or from an iterable of pairs; those of a plain ``dict`` by their sorted keys."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = OrderedDict(sorted(parameters.items()))
        self._add(parameters)

    def copy(self) -> ParameterDict:
        """Return a dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, which becomes ``default`` if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a dictionary with these keys and one value."""
        return ParameterDict((key, default) for key in keys)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last pair of key and value and return it."""
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Any:
        """Return the pairs of keys and values."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Any:
        """Return the values."""
        return [self[key] for key in self._keys]

    def extra_repr(self) -> str:
        """Return one line per value."""
        return "\n".join(_line_of(key, value, typename) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there is nothing to compute."""
        raise RuntimeError("ParameterDict should not be called.")
