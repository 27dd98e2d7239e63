"""Measures one thing in a process of its own, for `compare.py`, and prints the outcome as one line of JSON.

    python benchmarks/measure.py times WORKLOAD ROUNDS SECONDS_PER_SAMPLE
    python benchmarks/measure.py memory WORKLOAD LIBRARY

A process of its own, because the threads of BLAS are warm_upd when NumPy is imported, and because the peak of a
process's memory covers its whole life.
"""

import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import math
import os
import resource
import sys
import time
from pathlib import Path

TOLERANCE = 1e-3
# Before a sample on several threads, this long is spent on untimed steps: the idle workers of the library before go on
# spinning for a while (OpenBLAS's for 2**26 cycles), and those woken now may first need a processor of their own.
WARM_UP = 0.1
# A round is quiet while other processes use less than so many cores. Noisy rounds are done again, within limits.
QUIET = 0.15
MOST_ROUNDS = 4  # times the number asked for


def find_workload(name):
    from workloads import WORKLOADS

    return next(workload for workload in WORKLOADS if workload.name == name)


def find_libraries(names):
    from libraries import LIBRARIES

    return [library for library in LIBRARIES if library.name in names]


def to_numpy(gradient):
    return gradient.detach().numpy() if hasattr(gradient, "detach") else gradient


def check(gradients, expected):
    """Raise unless all gradients agree with the reference, relative to its largest element."""
    import numpy as np

    if len(gradients) != len(expected):
        raise ValueError(f"{len(gradients)} gradients instead of {len(expected)}")
    for i, (got, reference) in enumerate(zip(map(to_numpy, gradients), expected, strict=True)):
        if got.shape != reference.shape or got.dtype != reference.dtype:
            raise ValueError(f"gradient {i} is {got.dtype}{got.shape}, not {reference.dtype}{reference.shape}")
        error = np.abs(got - reference).max() / np.abs(reference).max()
        if not error <= TOLERANCE:
            raise ValueError(f"gradient {i} is off by {error:.1e}")


def build_steps(workload):
    """A step per installed library that gets the gradients right, and what was wrong with the others."""
    steps, failures, inputs = {}, {}, workload.make_inputs(False)
    by_hand = workload.builders["numpy"](importlib.import_module("numpy"), inputs)
    expected = [gradient.copy() for gradient in by_hand()]
    for library in find_libraries(workload.builders):
        if not library.can_be_had():
            continue
        # One library that cannot do a workload must not keep the others from being measured.
        try:
            step = workload.builders[library.name](library.load(workload.threads), inputs)
            check(step(), expected)
        except Exception as error:
            failures[library.name] = f"{type(error).__name__}: {error}"
        else:
            steps[library.name] = step
    return steps, failures


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


def repeats_for(step, least_seconds, warm_up):
    """How many steps it takes to fill a sample."""
    repeats = 1
    while (seconds := sample(step, repeats, warm_up) * repeats) < least_seconds / 4:
        repeats *= 4
    return max(1, math.ceil(repeats * least_seconds / seconds))


def measure_times(name, rounds, least_seconds):
    """Samples of every library from so many quiet rounds, or from all rounds where too few of them were quiet."""
    workload = find_workload(name)
    steps, failures = build_steps(workload)
    warm_up = WARM_UP if workload.threads > 1 else 0
    gc.collect()
    gc.freeze()  # or every collection between samples would walk through all the imported modules
    repeats = {library: repeats_for(step, least_seconds, warm_up) for library, step in steps.items()}
    quiet, noisy = [], []
    for i in range(rounds * MOST_ROUNDS):
        times, others = measure_round(i, steps, repeats, warm_up)
        (quiet if others < QUIET else noisy).append(times)
        if len(quiet) == rounds:
            break
    disturbed = len(quiet) < rounds / 2
    used = quiet + noisy if disturbed else quiet
    samples = {library: [times[library] for times in used] for library in steps}
    return {"samples": samples, "failures": failures, "disturbed": disturbed}


def measure_round(i, steps, repeats, warm_up):
    """One sample of every library, and the number of cores that other processes used meanwhile.

    The order rotates from round to round, and every other round is reversed.
    """
    names = list(steps)
    order = names[i % len(names) :] + names[: i % len(names)]
    busy, own, start = busy_seconds(), time.process_time(), time.perf_counter()
    times = {name: sample(steps[name], repeats[name], warm_up) for name in (reversed(order) if i % 2 else order)}
    others = (busy_seconds() - busy) - (time.process_time() - own)
    return times, others / (time.perf_counter() - start)


def busy_seconds():
    """Processor time spent so far by anything, other virtual machines included; 0 where the system does not tell."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, stat.read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


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
    """Where the C library can (glibc), hand free memory back: a step that found it there would seem to need less."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def measure_memory(name, library_name):
    """What a step adds to the peak of resident memory, beyond library, inputs and a warm-up on tiny arrays.

    It is the first step, whose peak is that of the arrays alive together; later on the heap may also be fragmented.
    """
    workload = find_workload(name)
    (library,) = find_libraries([library_name])
    module = library.load(workload.threads)
    build = workload.builders[library_name]
    build(module, workload.make_inputs(True))()
    step = build(module, workload.make_inputs(False))
    gc.collect()
    trim_heap()
    forget_peak()
    before = peak_kib()
    step()
    return {"mib": (peak_kib() - before) / 1024}


def main(what, *arguments):
    if what == "times":
        name, rounds, seconds = arguments
        outcome = measure_times(name, int(rounds), float(seconds))
    else:
        outcome = measure_memory(*arguments)
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
