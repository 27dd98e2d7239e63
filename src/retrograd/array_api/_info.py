"""What the namespace says of itself."""

from __future__ import annotations

from typing import Any

from retrograd import cuda, dtypes
from retrograd.array_api._dtypes import KINDS
from retrograd.creation.options import get_default_device
from retrograd.device import device as device_class
from retrograd.dtypes import get_default_dtype, promote_types

__all__ = ["Info", "__array_namespace_info__"]


class Info:
    """Capabilities, devices and dtypes, as the standard has them asked for."""

    def capabilities(self) -> dict[str, Any]:
        """What is optional and there: boolean masks, and shapes that depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device_class:
        """Where tensors are made."""
        return get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.dtype]:
        """The dtypes of tensors that are made of Python's numbers."""
        real = get_default_dtype()
        return {
            "real floating": real,
            "complex floating": promote_types(real, dtypes.complex64),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.dtype]:
        """The dtypes of the standard that there are, of some kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        unknown = [each for each in kinds if each not in KINDS]
        if unknown:
            raise ValueError(f"kind={unknown[0]!r} is not one of {', '.join(map(repr, KINDS))}")
        found = [each for name in kinds for each in KINDS[name] if each is not dtypes.float16]
        return {str(each).removeprefix("retrograd."): each for each in found}

    def devices(self) -> list[device_class]:
        """The CPU and the GPUs."""
        return [device_class("cpu"), *(device_class("cuda", number) for number in range(cuda.device_count()))]


def __array_namespace_info__() -> Info:  # noqa: N807 (the standard's name)
    """Return what can be asked about the namespace."""
    return Info()
