"""Memory that one training step frees is kept for the next one."""

from __future__ import annotations

import ctypes
import os
import sys

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# Up to this many bytes, a block comes from the heap, not from the system: the most that glibc allows on 64 bits.
_LARGEST_BLOCK = 1 << 25
# Free bytes at the end of the heap that are kept: this fraction of the machine's memory, and at most this many.
_PART, _MOST = 1 / 16, 1 << 30

# The variables by which users set this themselves: mallopt(3).
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def keep_freed_memory() -> None:
    """Have the C library keep freed memory, up to 1 GiB, instead of returning it to the system.

    Memory from the system comes page by page, each with a fault that costs as much as reading it ten times; a training
    step frees and takes the same blocks over and over. By itself, glibc keeps at most 64 MiB, and that only after a
    block of 32 MiB was freed. Settings in the environment are respected.
    """
    said = any(name in os.environ for name in _SETTINGS) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
    if sys.platform != "linux" or said:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, min(int(memory * _PART), _MOST))
