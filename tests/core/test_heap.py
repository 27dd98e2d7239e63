"""Memory freed by one step is reused by the next."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig

import pytest

STEPS = """
from resource import RUSAGE_SELF, getrusage

import numpy as np
import {imported}

def step():
    arrays = [np.ones(4_000_000, np.float32) for _ in range(8)]  # 122 MiB, more than glibc keeps by itself
    return sum(array[0] for array in arrays)

np.empty((1 << 25) - (1 << 13), np.uint8)  # moves glibc's own threshold as far as it goes
for _ in range(3):
    step()
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""

pytestmark = [
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc" or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < 1 << 32,
        reason="needs glibc and 4 GiB of memory",
    ),
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="without a GIL, Python uses another allocator"
    ),
]


def faults(imported: str, **settings: str) -> int:
    """Return the page faults of ten steps: some for each step unless memory is reused."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(imported=imported)],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_steps_reuse_memory_once_retrograd_is_imported() -> None:
    assert faults("math") > 100, "without retrograd, memory should not be reused"
    assert faults("retrograd") < 20


def test_malloc_settings_of_the_environment_are_kept() -> None:
    assert faults("retrograd", MALLOC_TRIM_THRESHOLD_=str(1 << 26), MALLOC_MMAP_THRESHOLD_=str(1 << 25)) > 100
