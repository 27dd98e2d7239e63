"""Memory that one training step frees is kept for the next one."""

from __future__ import annotations

import sys

import numpy as np

# The largest block that moves glibc's threshold (DEFAULT_MMAP_THRESHOLD_MAX in malloc.c), less the room for its header.
_LARGEST = (1 << 25) - (1 << 13)


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, up to some tens of megabytes, instead of handing it back to the system.

    Memory from the system comes page by page, each with a fault that costs as much as reading it ten times; a training
    step frees and takes the same blocks over and over. glibc learns how much to keep from the largest block that was
    ever freed (mallopt(3), M_MMAP_THRESHOLD), and so comes to the same state in any program that works on large arrays
    for a while. One such block, which is never touched, brings it there at once.
    """
    if sys.platform == "linux":
        np.empty(_LARGEST, np.uint8)
