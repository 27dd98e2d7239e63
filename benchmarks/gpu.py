"""Training steps on a GPU: their time next to torch's, and their calls of CuPy.

    python benchmarks/gpu.py                 # times, on a machine with a GPU (less than a minute)
    python benchmarks/gpu.py --count         # calls in a step, on any machine: on a stand-in that computes with NumPy
    python benchmarks/gpu.py --count --callers --only mlp    # the same with who calls what

A call costs some microseconds of the computer, a copy from its memory more, and a copy to it waits until the GPU has
done all that it was given.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, STEPS = 5, 30


# --- steps: functions of a library that return a function of no arguments ---------------------------------------------


def perceptron(width, batch):
    """Three layers, cross entropy, Adam."""

    def build(lib):
        nn = lib.nn
        layers = [nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
        model = nn.Sequential(*layers).to("cuda")
        optimizer = lib.optim.Adam(model.parameters(), lr=1e-4)
        x, target = lib.randn(batch, 784, device="cuda"), lib.randint(0, 10, (batch,), device="cuda")

        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), target).backward()
            optimizer.step()

        return step

    return build


def with_squares(lib, model, x, residual=False):
    """A model that is trained towards 0 by SGD."""
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        y = (model(x) + x).relu() if residual else model(x)
        (y**2).mean().backward()
        optimizer.step()

    return step


def residual_block(batch, channels, size):
    """Two convolutions with batch norm."""

    def build(lib):
        nn = lib.nn
        layers = [
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        ]
        x = lib.randn(batch, channels, size, size, device="cuda")
        return with_squares(lib, nn.Sequential(*layers).to("cuda"), x, residual=True)

    return build


def transformer_layer(batch, length, width):
    """An encoder layer without dropout."""

    def build(lib):
        layer = lib.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0).to("cuda")
        return with_squares(lib, layer, lib.randn(batch, length, width, device="cuda"))

    return build


def chain(size):
    """Fifty elementwise operations."""

    def build(lib):
        x = lib.rand(size, device="cuda").requires_grad_()

        def step():
            y = x
            for _ in range(10):
                y = (y * 1.01 + 0.1).sin().exp().tanh()
            x.grad = None
            y.sum().backward()

        return step

    return build


CASES = {
    "mlp 256x128": perceptron(256, 128),
    "mlp 4096x4096": perceptron(4096, 4096),
    "residual block": residual_block(16, 64, 32),
    "transformer layer": transformer_layer(8, 64, 256),
    "chain 1k": chain(1000),
    "chain 4M": chain(4_000_000),
}


# --- counts -----------------------------------------------------------------------------------------------------------


def count(names, with_callers):
    """Print how many calls of each kind there are in the third step of each case."""
    sys.path.insert(0, str(ROOT))
    from tests.strict_cupy import installed
    from tests.strict_cupy.counting import KINDS, counted, totals

    import retrograd as rg

    with installed():
        print(f"{'':20}", *(f"{kind:>10}" for kind in KINDS))
        for name in names:
            step = CASES[name](rg)
            for _ in range(2):
                step()
            with counted() as counts:
                step()
            found = totals(counts)
            print(f"{name:20}", *(f"{found[kind]:10}" for kind in KINDS), flush=True)
            if with_callers:
                show(counts)


def show(counts):
    for call, number in sorted(counts.items(), key=lambda item: (item[0].kind, -item[1])):
        print(f"    {call.kind:10} {number:5} {call.function:20} {call.caller}")


# --- times ------------------------------------------------------------------------------------------------------------


def times(names, with_callers):
    """Print the time of a step of each case and of torch's, measured alternately, and where the CPU time goes."""
    import torch

    import retrograd as rg

    libraries = {"torch": torch, "retrograd": rg}
    for name in names:
        steps = {library: CASES[name](module) for library, module in libraries.items()}
        samples = {library: [] for library in libraries}
        for number in range(ROUNDS + 1):
            for library, step in steps.items():
                start = time.perf_counter()
                for _ in range(STEPS if number else 3):
                    step()
                asked = time.perf_counter()
                libraries[library].cuda.synchronize()
                if number:
                    samples[library].append(((time.perf_counter() - start) / STEPS, (asked - start) / STEPS))
        whole = {library: statistics.median(each for each, _ in sample) for library, sample in samples.items()}
        asked = statistics.median(each for _, each in samples["retrograd"])
        print(
            f"{name:20} torch {whole['torch'] * 1e3:8.3f} ms   retrograd {whole['retrograd'] * 1e3:8.3f} ms, of which "
            f"{asked * 1e3:.3f} ms until all was asked for   ratio {whole['retrograd'] / whole['torch']:.2f}",
            flush=True,
        )
        if with_callers:
            profile(steps["retrograd"])


def profile(step):
    """Print the functions that take the most CPU time, and the kernels that take the most GPU time."""
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as kernels_of  # of CuPy's as well

    with kernels_of(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    kernels = sorted(found.key_averages(), key=lambda event: -event.device_time_total)
    print(f"    on the GPU {sum(each.device_time_total for each in kernels) / STEPS:.0f} us a step")
    for each in kernels[:12]:
        print(f"    {each.device_time_total / STEPS:9.1f} us  {each.count / STEPS:6.1f} times  {each.key[:100]}")
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(STEPS):
        step()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="calls instead of times, on a stand-in for CuPy")
    parser.add_argument("--callers", action="store_true", help="with the functions that are called, and their callers")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    (count if args.count else times)([name for name in CASES if name.startswith(args.only)], args.callers)


if __name__ == "__main__":
    main()
