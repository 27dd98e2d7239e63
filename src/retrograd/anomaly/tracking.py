"""Numbers for TensorBoard, Weights & Biases and their like, which choke on NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from retrograd.anomaly.layer_detector.detector import NaNDetector
from retrograd.anomaly.monitor import Watch


def scalars(source: Watch | NaNDetector, prefix: str = "anomaly/") -> dict[str, float]:
    """Return what is known of the last step as finite Python floats, ready to be logged.

    Parameters
    ----------
    source : Watch or NaNDetector
        What observes the training; of a detector also what the watch along with it knows.
    prefix : str
        Begins every name.

    Returns
    -------
    dict of str to float
        Whatever is known of ``loss``, ``grad_norm``, ``update_ratio`` and ``overhead`` (the share of the time that the
        watch took); the number of ``events`` and ``grad_events`` so far; of a detector ``overhead_ms`` and, for each
        layer, ``absmax/layer`` and ``absmin/layer``. Values that are not finite are left out; ``not_finite`` says how
        many.

    Raises
    ------
    TypeError
        If ``source`` is neither of these.

    Examples
    --------
    With TensorBoard's ``SummaryWriter`` and with Weights & Biases::

        for name, value in rg.anomaly.scalars(w).items():
            writer.add_scalar(name, value, step)

        wandb.log(rg.anomaly.scalars(w), step=step)

    >>> model = rg.nn.Sequential(rg.nn.ReLU())
    >>> with rg.anomaly.NaNDetector(model, verbose=False) as det:
    ...     y = model(rg.tensor([-1.0, 5.0]))
    >>> found = rg.anomaly.scalars(det)
    >>> found["anomaly/absmax/0"], found["anomaly/events"], found["anomaly/not_finite"]
    (5.0, 0.0, 0.0)
    """
    if not isinstance(source, (Watch, NaNDetector)):
        raise TypeError(
            f"source must be a watch or a NaNDetector, but got {source!r}; pass the w of "
            "`with retrograd.anomaly.watch() as w:`"
        )
    known = {name: float(value) for name, value in _known(source) if value is not None}
    found = {prefix + name: value for name, value in known.items() if math.isfinite(value)}
    found[f"{prefix}not_finite"] = float(len(known) - len(found))
    return found


def _known(source: Watch | NaNDetector) -> Iterator[tuple[str, Any]]:
    if isinstance(source, Watch):
        yield from _of_watch(source)
        yield "events", len(source.events)
        yield "grad_events", len(source.grad_events)
        return
    if source.watch is not None:
        yield from _of_watch(source.watch)
    if source.grad_norm is not None:
        yield "grad_norm", source.grad_norm
    yield "events", len(source.all_events)
    yield "grad_events", len(source.grad_events)
    yield "overhead_ms", source.overhead_ms
    for layer, frames in source.history.items():
        last = frames[-1]
        yield f"absmax/{layer}", last.absmax
        if not math.isnan(last.absmin):  # it is not measured in every step
            yield f"absmin/{layer}", last.absmin


def _of_watch(watch: Watch) -> Iterator[tuple[str, Any]]:
    for name, history in zip(("loss", "grad_norm"), watch.histories(), strict=True):
        yield name, next((value for value in reversed(history) if value is not None), None)
    yield "update_ratio", watch.update_ratio
    yield "overhead", watch.overhead
