"""Measures one library in a process of its own, for `compare.py`; prints lines of JSON.

    python benchmarks/measure.py times WORKLOAD LIBRARY FILE
    python benchmarks/measure.py memory WORKLOAD LIBRARY

A process of its own, because that is how a library is used: in one process, each would share processors and caches with
the idle threads of all others. And because the number of BLAS's threads is read when NumPy is imported, and the peak of
a process's memory covers its whole life.

`times` gets ready, writes the gradients into FILE.npz, says so, and then answers every line on its input,
SECONDS_OF_WARM_UP REPEATS, with one sample.
"""

import contextlib
import ctypes
import gc
import itertools
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np


def find_workload(name):
    from workloads import WORKLOADS

    return next(workload for workload in WORKLOADS if workload.name == name)


def find_library(name):
    from libraries import LIBRARIES

    return next(library for library in LIBRARIES if library.name == name)


def to_numpy(gradient):
    return gradient.detach().numpy() if hasattr(gradient, "detach") else gradient


def sample(step, repeats, warm_up):
    """Seconds per step over `repeats` of them, warmed up, and without the garbage collector as in timeit."""
    warm = time.perf_counter() + warm_up
    step()
    while time.perf_counter() < warm:
        step()
    gc.disable()
    start = time.perf_counter()
    for _ in itertools.repeat(None, repeats):
        step()
    seconds = time.perf_counter() - start
    gc.enable()
    gc.collect()
    return seconds / repeats


def answer_requests(name, library_name, file):
    """Report readiness or an error; then take samples on request until the input ends."""
    workload = find_workload(name)
    try:
        module = find_library(library_name).load(workload.threads)
        step = workload.builders[library_name](module, workload.make_inputs(False))
        np.savez(file, *map(to_numpy, step()))
    except Exception as error:
        say({"failed": f"{type(error).__name__}: {error}"})
        return
    gc.collect()
    gc.freeze()  # otherwise every collection between samples would traverse all imported modules
    say({"ready": library_name})
    used = time.process_time()
    for line in sys.stdin:
        warm_up, repeats = line.split()
        seconds = sample(step, int(repeats), float(warm_up))
        # since the last answer, because idle workers of BLAS and OpenMP have gone on spinning for a while after it
        before, used = used, time.process_time()
        say({"seconds": seconds, "used": used - before})


def say(outcome):
    print(json.dumps(outcome), flush=True)


def peak_kib():
    """The largest resident size so far."""
    for line in read_status():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def read_status():
    status = Path("/proc/self/status")
    return status.read_text().splitlines() if status.exists() else []


def forget_peak():
    """Where the system can (Linux), let the peak start again from the present size: importing has peaks of its own."""
    forget = Path("/proc/self/clear_refs")
    with contextlib.suppress(OSError):
        forget.write_text("5")


def trim_heap():
    """Where the C library can (glibc), return free memory: a step that could reuse it would seem to need less."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def measure_memory(name, library_name):
    """What a step adds to the peak of resident memory, beyond library, inputs and a warm-up on tiny arrays.

    It is the first step, whose peak is that of the arrays alive together; later on the heap may also be fragmented.
    """
    workload = find_workload(name)
    module = find_library(library_name).load(workload.threads)
    build = workload.builders[library_name]
    build(module, workload.make_inputs(True))()
    step = build(module, workload.make_inputs(False))
    gc.collect()
    trim_heap()
    forget_peak()
    before = peak_kib()
    step()
    say({"mib": (peak_kib() - before) / 1024})


def main(what, *arguments):
    {"times": answer_requests, "memory": measure_memory}[what](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
