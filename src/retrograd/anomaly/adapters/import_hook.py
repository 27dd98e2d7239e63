"""Hearing of a module when the program imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class ImportHook:
    """Finds one module where everybody finds it, and tells when it has been loaded.

    Parameters
    ----------
    name
        Of the module.
    on_load
        Called with the module.
    """

    def __init__(self, name: str, on_load: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._on_load = on_load
        self._finding = False

    def put(self) -> None:
        """Be asked before all others, from here on."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Be asked no more; the program may have seen to that already."""
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
