"""The arguments of a reduction, as the user wrote them."""

from __future__ import annotations

from retrograd.anomaly.catalogue._source_line import Site
from retrograd.anomaly.surroundings import Operand


def dims(site: Site, operand: Operand | None, *, numpy: bool = False) -> str:
    """The dimension arguments of a written reduction: ``"dim=-1, keepdim=True"``.

    A reduction over everything gives nothing, or, for functions that must be told (``operand`` is what is reduced), all
    dimensions.
    """
    dim = site.written.text(1, "dim", "axis")
    keep = site.written.text(2, "keepdim", "keepdims")
    if dim in (None, "None"):
        dim = None
        if operand is not None:
            count = len(operand.shape) if operand.shape is not None else None
            dim = "-1" if count is None else "0" if count == 1 else str(tuple(range(count)))
    names = ("axis", "keepdims") if numpy else ("dim", "keepdim")
    return ", ".join(f"{name}={text}" for name, text in zip(names, (dim, keep), strict=True) if text is not None)


def without_keepdim(where: str) -> str:
    """The arguments of :func:`dims`, without ``keepdim``."""
    return ", ".join(each for each in where.split(", ") if not each.startswith("keepdim"))
