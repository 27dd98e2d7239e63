"""What connects the anomaly watch to a tensor library; each adapter is imported only when its library is in use."""

from __future__ import annotations

from typing import Any


def adapters_for(watch: Any) -> list[Any]:
    """The adapters that a watch needs: that of the model or optimizer it was given; without one, both."""
    from retrograd.anomaly.adapters.torch.runtime.importing import WhenImported

    libraries = {_library(each) for each in (watch.model, watch.optimizer) if each is not None}
    if libraries == {"torch"}:
        from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

        return [TorchMonitor(watch)]
    own = _own_monitor(watch)
    return [own] if libraries else [own, WhenImported(watch)]


def _own_monitor(watch: Any) -> Any:
    """What connects a watch to retrograd's own engine."""
    if watch.from_step is None:
        from retrograd.anomaly.adapters.retrograd import RetrogradMonitor

        return RetrogradMonitor(watch)
    from retrograd.anomaly.adapters.retrograd.recorded import RecordedMonitor

    return RecordedMonitor(watch)


def _library(thing: Any) -> str:
    """The library that a model or an optimizer belongs to, by its base classes and by those of what it updates."""
    groups = getattr(thing, "param_groups", None) or ()
    classes = [base for each in (thing, *_first_of(groups)) for base in type(each).__mro__]
    roots = {each.__module__.partition(".")[0] for each in classes}
    return "torch" if "torch" in roots else "retrograd"


def _first_of(groups: Any) -> Any:
    """The first parameter of an optimizer, which need not be of a class that the library knows."""
    return next((group["params"][:1] for group in groups if group["params"]), ())


def adapter_of(model: Any) -> Any:
    """What the detector of layers needs to know of a model; see :class:`retrograd.anomaly.layers.ModelAdapter`.

    Raises
    ------
    TypeError
        If it is no module of a library that is known.
    """
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(model).__mro__}
    if "retrograd.Module" in names:
        from retrograd.anomaly.adapters.retrograd.layers import RetrogradLayers

        return RetrogradLayers(model)
    if "torch.Module" in names:
        from retrograd.anomaly.adapters.torch.layers import TorchLayers

        return TorchLayers(model)
    raise TypeError(f"the model must be a retrograd.nn.Module or a torch.nn.Module, but got {type(model).__name__}")
