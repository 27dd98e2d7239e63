"""Which kernel computes attention. There is one here, so that the choice is accepted and changes nothing."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """The kernels that torch has for ``scaled_dot_product_attention``."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[dict[str, object]]:
    """Say which kernels ``scaled_dot_product_attention`` may choose from. A context manager and a decorator.

    All of them compute the same. There is one kernel here, which is used whatever ``backends`` says.

    Parameters
    ----------
    backends
        A kernel, or several.
    set_priority
        Whether the first is to be preferred.

    Raises
    ------
    TypeError
        If ``backends`` is something else.

    Examples
    --------
    >>> from retrograd.nn.attention import SDPBackend, sdpa_kernel
    >>> x = rg.ones(1, 1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     y = rg.nn.functional.scaled_dot_product_attention(x, x, x)
    """
    given = backends if isinstance(backends, list | tuple) else [backends]
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise TypeError(
                "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                f"{type(backend).__name__}"
            )
    yield {}
