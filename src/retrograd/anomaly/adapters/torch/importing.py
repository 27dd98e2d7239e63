"""Watching torch from the moment when the program imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor
    from retrograd.anomaly.event import NaNEvent
    from retrograd.anomaly.monitor import Watch


class WhenImported:
    """Connects a watch to PyTorch as soon as torch is imported; does nothing until then.

    It stands in the watch for a :class:`~retrograd.anomaly.adapters.torch.monitor.TorchMonitor` and becomes one.

    Parameters
    ----------
    watch
        Whose policies hold, and who takes over the events.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._finder = ImportHook("torch", lambda module: self._attach())
        self._monitor: TorchMonitor | None = None
        self._running = False

    def start(self) -> None:
        self._running = True
        if "torch" in sys.modules:
            self._attach()
        else:
            sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        self._running = False
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def snapshot(self) -> Any:
        return None if self._monitor is None else self._monitor.snapshot()

    def restore(self, snapshot: Any) -> None:
        if self._monitor is not None and snapshot is not None:
            self._monitor.restore(snapshot)

    def record_everything(self) -> None:
        if self._monitor is not None:
            self._monitor.record_everything()

    def stop_recording(self) -> None:
        if self._monitor is not None:
            self._monitor.stop_recording()

    def explain(self, error: BaseException) -> NaNEvent | None:
        return None if self._monitor is None else self._monitor.explain(error)

    def settle(self) -> None:
        if self._monitor is not None:
            self._monitor.settle()

    def _attach(self) -> None:
        from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self._running and self._monitor is None:
            self._monitor = TorchMonitor(self._watch)  # before it starts, so that it is stopped if that fails
            self._monitor.start()


class ImportHook:
    """Finds one module where everybody finds it, and tells when it has been loaded; to be put into ``sys.meta_path``.

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
