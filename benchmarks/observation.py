"""The cost of being watched: the same training step with and without the anomaly watch and anomaly mode.

    python benchmarks/observation.py                                # about a minute
    python benchmarks/observation.py --markdown docs/performance.md

A ratio is the time of a step under observation divided by the time of the same step of the same library without. The
ways take a sample in turn, round by round; printed are the median of the rounds' ratios and, in brackets, their
quartiles.
"""

import argparse
import contextlib
import gc
import importlib
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- observation:begin -->", "<!-- observation:end -->"
THREADS = {"small chain": 1, "mlp_step": 2}
RATE = 1e-6
SETTLE = 0.02  # seconds of untimed steps after a change: the watch looks more often at the beginning

# workload, way: the largest ratio aimed at
TARGETS = {
    ("small chain", "watch"): 1.03,
    ("small chain", "detect_anomaly"): 1.5,
    ("mlp_step", "watch"): 1.01,
    ("mlp_step", "detect_anomaly"): 1.1,
}


def chain_step(library):
    """300 operations on 10 elements, forward and backward, and an update."""
    from workloads import chain, vectors

    given = vectors(10)()
    x, c = library.tensor(given["x"], requires_grad=True), library.tensor(given["c"])

    def step():
        chain(library, x, c).backward()
        with library.no_grad():
            x.sub_(RATE * x.grad)
        x.grad = None

    return step


def mlp_step(library):
    from workloads import mlp_like_torch, perceptron

    return mlp_like_torch(library, perceptron((784, 512, 256, 10), 128)())


WORKLOADS = {"small chain": chain_step, "mlp_step": mlp_step}


def ways_of(name, library):
    """For each way of running a step, a function that gives a context manager to run it in."""
    ways = {"plain": contextlib.nullcontext, "detect_anomaly": library.autograd.detect_anomaly}
    if name == "retrograd":
        ways["watch"] = library.anomaly.watch
    return ways


def sample(step, context, repeats):
    """Seconds per step inside a context, after it has settled."""
    with context():
        settled = time.perf_counter() + SETTLE
        while time.perf_counter() < settled:
            step()
        gc.disable()
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        seconds = time.perf_counter() - start
        gc.enable()
    return seconds / repeats


def measure(workload, rounds, seconds):
    """For each library and way, the ratios of its rounds to the plain ones, and the plain time."""
    found = {}
    for name in ("retrograd", "torch"):
        library = importlib.import_module(name)
        library.set_num_threads(THREADS[workload])
        step = WORKLOADS[workload](library)
        ways = list(ways_of(name, library).items())
        repeats = max(1, round(seconds / sample(step, contextlib.nullcontext, 10)))
        samples = {way: [] for way, _ in ways}
        for i in range(rounds):
            for way, context in ways[i % len(ways) :] + ways[: i % len(ways)]:
                samples[way].append(sample(step, context, repeats))
        plain = samples.pop("plain")
        for way, times in samples.items():
            ratios = [time / base for time, base in zip(times, plain, strict=True)]
            found[name, way] = statistics.median(plain), ratios
    return found


def rows(args):
    from tables import spread, verdict

    for workload in WORKLOADS:
        print(f"{workload} ...", file=sys.stderr, flush=True)
        for (name, way), (plain, ratios) in measure(workload, args.rounds, args.sample).items():
            target = TARGETS.get((workload, way)) if name == "retrograd" else None
            reached = "" if target is None else verdict(statistics.median(ratios), target)
            yield [workload, f"{name}, {way}", f"{plain * 1e3:.3g}", spread(ratios, 3), reached]


def main(argv=None):
    parser = argparse.ArgumentParser(description="Measure what the anomaly watch and anomaly mode cost.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--sample", type=float, default=0.05, help="seconds per sample")
    parser.add_argument("--markdown", type=Path, help="a file whose marked part is replaced by the table")
    args = parser.parse_args(argv)
    sys.path.insert(0, str(HERE.parent / "src"))  # this checkout's own sources first
    from tables import publish

    warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
    header = ["step", "observed by", "ms without", "with / without", "target"]
    publish((header, list(rows(args))), args.markdown, BEGIN, END)


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "2")
    main()
