"""The times of optimizer steps compared with torch's, for models of small, medium and large parameters.

    python benchmarks/optimizers.py                                # about a minute
    python benchmarks/optimizers.py --markdown docs/performance.md

Each library runs in a process of its own, with its defaults; they take a sample in turn, round by round. Printed are
the medians of the rounds' ratios: below 1, retrograd is the faster.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tables import publish, spread

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- optimizers:begin -->", "<!-- optimizers:end -->"
THREADS = 2
LEAST = 0.1  # seconds of a sample

MODELS = {
    "6 of up to 8 x 8": [(8, 8), (8,)] * 3,
    "80 of up to 64 x 64": [(64, 64), (64,)] * 40,
    "12 of up to 256 x 256": [(256, 256), (256,)] * 6,
    "6 of up to 2048 x 1024": [(2048, 1024), (1024,)] * 3,
}
OPTIMIZERS = {
    "SGD": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {},
    "AdamW": {},
    "NAdam": {},
    "RMSprop": {},
    "Adagrad": {},
}


def step_of(library, name, shapes):
    """Return a function that does a step."""
    import numpy as np

    rng = np.random.default_rng(0)
    parameters = [library.tensor(rng.standard_normal(shape, np.float32), requires_grad=True) for shape in shapes]
    for parameter in parameters:
        parameter.grad = parameter.detach() * 0.1
    return getattr(library.optim, name)(parameters, **OPTIMIZERS[name]).step


def answer(name):
    """Be the process of a library: for each line that names an optimizer and a model, print the seconds of a step."""
    library = importlib.import_module(name)
    library.set_num_threads(THREADS)
    # A large block that is freed, as in any large program sooner or later: without it, glibc would hand the temporaries
    # of each step back to the system, and torch's Adam would take three times as long for large parameters.
    bytearray(1 << 24)
    steps = {}
    for line in sys.stdin:
        optimizer, model = line.rstrip("\n").split(",")
        if (optimizer, model) not in steps:
            steps = {(optimizer, model): step_of(library, optimizer, MODELS[model])}
        step = steps[optimizer, model]
        times = []
        end = time.perf_counter() + LEAST
        while time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


def start(name):
    """Start the process of a library."""
    environment = {**os.environ, **{f"{each}_NUM_THREADS": str(THREADS) for each in ("OMP", "OPENBLAS", "MKL")}}
    command = [sys.executable, str(HERE / "optimizers.py"), "--answer", name]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def sample(process, optimizer, model):
    """Seconds of a step."""
    process.stdin.write(f"{optimizer},{model}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def rows(rounds):
    processes = [start("retrograd"), start("torch")]
    try:
        for optimizer in OPTIMIZERS:
            row = [optimizer]
            for model in MODELS:
                found = [[sample(process, optimizer, model) for process in processes] for _ in range(rounds + 1)][1:]
                row.append(spread([own / theirs for own, theirs in found]))
            print(*row, file=sys.stderr, flush=True)
            yield row
    finally:
        for process in processes:
            process.communicate()


def main(argv=None):
    parser = argparse.ArgumentParser(description="Measure the steps of optimizers beside torch's.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, help="a file whose marked part is replaced by the table")
    parser.add_argument("--answer", metavar="LIBRARY", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    sys.path.insert(0, str(HERE.parent / "src"))  # this checkout's own sources first
    if args.answer:
        answer(args.answer)
        return
    publish((["a step / torch's", *MODELS], list(rows(args.rounds))), args.markdown, BEGIN, END)


if __name__ == "__main__":
    main()
