"""Random numbers for arrays on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.gpu.fallback import on_cpu


class DeviceDraws:
    """NumPy's generator, its numbers copied to the GPU: a seed gives the same numbers on every device.

    Parameters
    ----------
    generator
        What draws them.
    asarray
        Copies an array to the GPU.
    """

    def __init__(self, generator: np.random.Generator, asarray: Callable[[Any], Any]) -> None:
        self._generator = generator
        self._asarray = asarray

    def __getattr__(self, name: str) -> Callable[..., Any]:
        draw = getattr(self._generator, name)

        def drawn(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if out is not None:
                out[...] = draw(out.shape, **kwargs)
                return out
            return self._asarray(draw(*map(on_cpu, args), **kwargs))

        return drawn
