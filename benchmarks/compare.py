"""Compare retrograd with torch, HIPS autograd, MyGrad and NumPy by hand: time and memory of the same work.

    python benchmarks/compare.py                          # a few minutes
    python benchmarks/compare.py --quick --only axpy      # fewer and shorter samples of the axpy workloads
    python benchmarks/compare.py --markdown docs/performance.md

A ratio is retrograd's time divided by the rival's. Each library has a process of its own, as it has where it is used;
they take a sample in turn, round by round, so that whatever else the machine does meets them alike. Printed are the
median of the rounds' ratios and, in brackets, their quartiles. Rounds during which other processes were busy are left
out, as far as enough others can be had. Rivals that are not installed show "-". Progress goes to stderr; the tables go
to stdout, and into FILE with --markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from libraries import LIBRARIES, SUBJECT
from rounds import take_turns
from tables import machine, render, spread, verdict, write_markdown
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- compare:begin -->", "<!-- compare:end -->"
IMPORT = "import"
IMPORT_TARGET_MS = 60
IMPORT_CODE = "import time, numpy; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
NAMES = [library.name for library in LIBRARIES]
RIVALS = [name for name in NAMES if name != SUBJECT]
DISTURBED = " (!)"
NOISE_MIB = 2  # a smaller difference in memory is not significant


def environment(threads=1):
    """For child processes: the same number of threads for every library, and this checkout's own sources first."""
    limits = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    paths = [os.environ.get("PYTHONPATH"), str(HERE.parent / "src")]
    # an installed package is compiled once; the checkout's modules may be, too
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **limits, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_child(arguments, threads=1):
    """The last line that a Python process prints, read as JSON; None where it fails, with its error on stderr."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        print(f"    failed: {' '.join(arguments[1:])}: {reason}", file=sys.stderr, flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def time_workload(workload, args):
    """Seconds per step of each library, a list with one entry per round; and whether other processes interfered."""
    libraries = [library for library in LIBRARIES if library.name in workload.builders and library.can_be_had()]
    setting = environment(workload.threads)
    samples, failures, disturbed = take_turns(workload, libraries, setting, args.rounds, args.sample)
    for name, reason in failures.items():
        print(f"    failed: {name}: {reason}", file=sys.stderr, flush=True)
    return samples, disturbed


def time_imports(args):
    """Seconds that an import takes after NumPy's, in fresh processes, library by library in turn."""
    modules = {library.name: library.module for library in LIBRARIES if library.can_be_had()}
    del modules["numpy"]
    samples = {}
    for i in range(-1, args.import_rounds):
        for name, module in modules.items():
            seconds = run_child(["-c", IMPORT_CODE.format(module)])
            # The first round is not counted: it reads from disk, and may have to compile.
            if seconds is not None and i >= 0:
                samples.setdefault(name, []).append(seconds)
    return samples


def measure_memory(workload, args):
    """MiB that a step adds to the peak, by library: the least of a few processes, as heaps differ by luck."""
    added = {}
    for library in LIBRARIES:
        wanted = library.name in (SUBJECT, "torch") or not args.quick
        if not wanted or library.name not in workload.builders or not library.can_be_had():
            continue
        command = [str(HERE / "measure.py"), "memory", workload.name, library.name]
        outcomes = [run_child(command, workload.threads) for _ in range(args.memory_runs)]
        if all(outcomes):
            added[library.name] = min(outcome["mib"] for outcome in outcomes)
    return added


def ratios(samples, rival):
    """retrograd / rival, round by round."""
    return [ours / theirs for ours, theirs in zip(samples.get(SUBJECT, []), samples.get(rival, []), strict=False)]


def verdicts(samples, targets):
    medians = {rival: ratios(samples, rival) for rival in targets}
    found = (verdict(statistics.median(v) if (v := medians[r]) else None, limit, r) for r, limit in targets.items())
    return ", ".join(found)


def time_row(name, threads, samples, targets_text):
    ours = samples.get(SUBJECT)
    absolute = f"{statistics.median(ours) * 1e3:.3g}" if ours else "failed"
    return [name, str(threads), absolute, *(spread(ratios(samples, rival)) for rival in RIVALS), targets_text]


def import_row(samples):
    ours = samples.get(SUBJECT)
    milliseconds = statistics.median(ours) * 1e3 if ours else None
    return time_row(IMPORT, 1, samples, verdict(milliseconds, IMPORT_TARGET_MS, unit="ms"))


def memory_row(name, added):
    ours, theirs = added.get(SUBJECT, 0), added.get("torch", 0)
    ratio = f"{ours / theirs:.2f}" if min(ours, theirs) >= NOISE_MIB else "-"
    return [name, *(f"{added[library]:.1f}" if library in added else "-" for library in NAMES), ratio]


def announce(text):
    print(text, end="", file=sys.stderr, flush=True)


def measure_everything(args):
    """Rows of the two tables, with a line of progress for each."""
    times, memory = [], []
    total = len(args.workloads) + args.with_import
    for i, workload in enumerate(args.workloads, 1):
        announce(f"[{i}/{total}] {workload.name}: {workload.what}\n")
        start = time.perf_counter()
        samples, disturbed = time_workload(workload, args)
        name = workload.name + DISTURBED * disturbed
        times.append(time_row(name, workload.threads, samples, verdicts(samples, workload.targets)))
        memory.append(memory_row(workload.name, measure_memory(workload, args)))
        announce(f"    {time.perf_counter() - start:.1f} s\n")
    if args.with_import:
        announce(f"[{total}/{total}] {IMPORT}: fresh processes\n")
        times.append(import_row(time_imports(args)))
    return times, memory


def report(times, memory, markdown=False):
    time_header = ["workload", "threads", "ms", *(f"/ {rival}" for rival in RIVALS), "targets"]
    memory_header = ["workload", *NAMES, f"{SUBJECT} / torch"]
    parts = [
        machine(),
        [f"Time of {SUBJECT}, and its ratio to others: median (quartiles); below 1, {SUBJECT} is the faster."],
        render(time_header, times, markdown),
    ]
    if any(row[0].endswith(DISTURBED) for row in times):
        parts.append([f"{DISTURBED.strip()} Other processes kept the machine busy meanwhile: do not rely on this row."])
    if memory:
        parts += [["Peak memory added by one step, in MiB."], render(memory_header, memory, markdown)]
    return "\n\n".join("\n".join(part) for part in parts)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer, shorter samples; memory without the other rivals")
    parser.add_argument("--only", action="append", metavar="NAME", help="workloads with NAME in their name; repeatable")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables into FILE")
    args = parser.parse_args(argv)
    wanted = args.only or [""]
    names = [*(workload.name for workload in WORKLOADS), IMPORT]
    unknown = [name for name in wanted if not any(name in known for known in names)]
    if unknown:
        parser.error(f"no workload has {' or '.join(map(repr, unknown))} in its name; there are {', '.join(names)}")
    args.workloads = [workload for workload in WORKLOADS if any(name in workload.name for name in wanted)]
    args.with_import = any(name in IMPORT for name in wanted)
    args.rounds, args.import_rounds, args.memory_runs = (7, 5, 2) if args.quick else (21, 11, 4)
    args.sample = 0.02 if args.quick else 0.05
    return args


def main(argv=None):
    args = parse_arguments(argv)
    times, memory = measure_everything(args)
    print(report(times, memory))
    if args.markdown:
        write_markdown(args.markdown, report(times, memory, markdown=True), BEGIN, END)
    return 1 if any("failed" in row for row in times) else 0


if __name__ == "__main__":
    sys.exit(main())
