"""What scripts ask ``torch.distributed`` before they use it; the answer is that there is one process.

torch built without support for several processes answers in the same way. What scripts import before they ask can be
imported, and refuses to be called.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any, NoReturn

from retrograd.missing_names import missing

__all__ = ["ProcessGroup", "ReduceOp", "group", "is_available", "is_initialized", "is_torchelastic_launched"]

__path__: list[str] = []  # a package, so that imports from it get advice

_OF_GROUPS = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "barrier", "broadcast"),
    *("broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend", "get_rank"),
    *("get_world_size", "init_process_group", "irecv", "isend", "monitored_barrier", "new_group", "recv", "reduce"),
    *("reduce_scatter", "reduce_scatter_tensor", "scatter", "send"),
)


class ProcessGroup:
    """The class of groups of processes, for annotations: there are none."""


class ReduceOp(Enum):
    """How numbers of several processes are joined, for the defaults of parameters: ``op=dist.ReduceOp.SUM``."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class group:  # noqa: N801 (torch's name)
    """The groups that there are: not even one of all processes."""

    WORLD: ProcessGroup | None = None


def is_available() -> bool:
    """Whether several processes can train together: no.

    Examples
    --------
    >>> import retrograd.distributed as dist
    >>> dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    0
    """
    return False


def is_initialized() -> bool:
    """Whether this process belongs to a group: no."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether this process was started together with others: no."""
    return False


def __getattr__(name: str) -> Any:
    if name in _OF_GROUPS:
        return partial(_refuse, name)
    raise missing(__name__, name)


def _refuse(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError(
        f"{name}: Default process group has not been initialized: training runs in one process; call it only where "
        "is_available() and is_initialized() are True"
    )
