"""The adapters between the anomaly watch and tensor libraries; each is imported only when its library is in use."""

from __future__ import annotations

from typing import Any


def adapters_for(watch: Any) -> list[Any]:
    """The adapters that a watch needs: the one for its model or optimizer, or both if it was given neither."""
    from retrograd.anomaly.adapters.torch.runtime.late_import import WhenImported

    libraries = {_library(each) for each in (watch.model, watch.optimizer) if each is not None}
    if libraries == {"torch"}:
        from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

        return [TorchMonitor(watch)]
    own = _own_monitor(watch)
    return [own] if libraries else [own, WhenImported(watch)]


def _own_monitor(watch: Any) -> Any:
    """The adapter between a watch and retrograd's own engine."""
    if watch.from_step is None:
        from retrograd.anomaly.adapters.retrograd import RetrogradMonitor

        return RetrogradMonitor(watch)
    from retrograd.anomaly.adapters.retrograd.from_step import FromStepMonitor

    return FromStepMonitor(watch)


def _library(thing: Any) -> str:
    """The library that a model or an optimizer belongs to, by its base classes or those of a parameter it updates."""
    groups = getattr(thing, "param_groups", None) or ()
    classes = [base for each in (thing, *_first_of(groups)) for base in type(each).__mro__]
    roots = {each.__module__.partition(".")[0] for each in classes}
    return "torch" if "torch" in roots else "retrograd"


def _first_of(groups: Any) -> Any:
    """The first parameter of an optimizer, whose own class need not derive from one of the library's."""
    return next((group["params"][:1] for group in groups if group["params"]), ())


def adapter_of(model: Any) -> Any:
    """The adapter by which the layer detector accesses a model.

    See :class:`retrograd.anomaly.layer_detector.adapter.ModelAdapter`.

    Raises
    ------
    TypeError
        If it is not a module of a known library.
    """
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(model).__mro__}
    if "retrograd.Module" in names:
        from retrograd.anomaly.adapters.retrograd.layers import RetrogradLayers

        return RetrogradLayers(model)
    if "torch.Module" in names:
        from retrograd.anomaly.adapters.torch.layers import TorchLayers

        return TorchLayers(model)
    raise TypeError(f"the model must be a retrograd.nn.Module or a torch.nn.Module, but got {type(model).__name__}")
