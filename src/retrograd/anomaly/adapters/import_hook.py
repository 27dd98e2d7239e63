"""A callback for when the program imports a module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class ImportHook:
    """Finds one module as the other finders do, and calls back when it has been loaded.

    Parameters
    ----------
    name
        The name of the module.
    on_load
        Called with the module.
    """

    def __init__(self, name: str, on_load: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._on_load = on_load
        self._finding = False

    def put(self) -> None:
        """Install the hook before all other finders."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Uninstall the hook, unless the program has done so already."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._finding:
            return None
        self._finding = True
        try:
            spec = importlib.util.find_spec(self._name)
        finally:
            self._finding = False
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._on_load(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
