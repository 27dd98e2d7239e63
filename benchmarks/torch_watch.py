"""The cost of watching a PyTorch training step, in several ways, as ratios of the whole step.

The ways take turns on one model, block by block, so that all meet the same machine; a block begins with some steps
that are not measured. On a CPU one thread is used and its processor time counted, so that other programs on the machine
do not. Run as::

    python benchmarks/torch_watch.py [--device cuda] [--rounds 9] [--markdown docs/performance.md]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import retrograd as rg
from tables import publish, spread, verdict

BEGIN, END = "<!-- torch-watch:begin -->", "<!-- torch-watch:end -->"
WARM_UP = 4  # steps; the watch notes the lines of the first three
FEW = 100  # steps in a block of a large workload are fewer
Workload = tuple[nn.Module, Callable[[], Tensor]]


def mlp(depth: int, width: int, batch: int, device: str) -> Workload:
    """A plain network and its loss on one random batch."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 10)).to(device)
    x = torch.randn(batch, width, device=device)
    y = torch.randint(10, (batch,), device=device)
    return model, lambda: nn.functional.cross_entropy(model(x), y)


def transformer(depth: int, width: int, batch: int, device: str) -> Workload:
    """An encoder with a causal mask and the loss of the next position."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).to(device)
    x = torch.randn(batch, 64, width, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(64).to(device)
    return model, lambda: nn.functional.mse_loss(model(x, mask=mask)[:, :-1], x[:, 1:])


WORKLOADS: dict[str, tuple[Callable[[str], Workload], int]] = {  # with the number of steps in a block
    "MLP 3 x 64, batch 32": (lambda device: mlp(3, 64, 32, device), 300),
    "MLP 12 x 512, batch 256": (lambda device: mlp(12, 512, 256, device), 8),
    "transformer 4 x 256, batch 8 of 64": (lambda device: transformer(4, 256, 8, device), 3),
}


class EveryLayer:
    """The usual detector of NaNs in layers, as people write it: hooks on all leaves that ask twice for each tensor."""

    def __init__(self, model: nn.Module) -> None:
        self._leaves = [module for module in model.modules() if not list(module.children())]
        self._handles: list[Any] = []

    def __enter__(self) -> None:
        self._handles = [leaf.register_forward_hook(self._look) for leaf in self._leaves]

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()

    @staticmethod
    def _look(module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in (*inputs, output):
            if isinstance(tensor, Tensor) and (torch.isnan(tensor).any() or torch.isinf(tensor).any()):
                raise ArithmeticError(f"{type(module).__name__} has taken or made a NaN or an infinity")


Way = Callable[[nn.Module, torch.optim.Optimizer], AbstractContextManager[Any]]

WAYS: dict[str, Way] = {
    "nothing": lambda model, optimizer: nullcontext(),
    "the watch": lambda model, optimizer: rg.anomaly.watch(model, optimizer),
    "the watch with `steps`": lambda model, optimizer: rg.anomaly.watch(model, optimizer),
    "`NaNDetector`": lambda model, optimizer: rg.anomaly.NaNDetector(model, verbose=False),
    "two tests per layer": lambda model, optimizer: EveryLayer(model),
    "torch's anomaly mode": lambda model, optimizer: torch.autograd.detect_anomaly(check_nan=True),
}
TARGETS = {"the watch": 1.02, "`NaNDetector`": 1.05}  # on the two larger steps


def measure(make: Callable[[str], Workload], steps: int, rounds: int, device: str) -> dict[str, list[float]]:
    """The seconds of a step, for each way of watching it and each round."""
    torch.manual_seed(0)
    model, loss_of = make(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()

    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(rounds):
        ways = list(WAYS.items())
        for name, context in ways[number % len(ways) :] + ways[: number % len(ways)]:
            with context(model, optimizer) as entered:
                turns = entered.steps(range(steps)) if name.endswith("`steps`") else range(steps)
                for _ in range(WARM_UP):
                    step()
                began = clock(device)
                for _ in turns:
                    step()
                times[name].append((clock(device) - began) / steps)
    return times


def clock(device: str) -> float:
    if device == "cpu":
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def rows(rounds: int, device: str) -> Iterator[list[str]]:
    """One row for each step and way: the ratio to the step without, the median of the rounds and their quartiles."""
    for workload, (make, steps) in WORKLOADS.items():
        print(f"{workload} ...", file=sys.stderr, flush=True)
        times = measure(make, steps, rounds, device)
        plain = times.pop("nothing")
        for way, seconds in times.items():
            ratios = [time / base for time, base in zip(seconds, plain, strict=True)]
            target = TARGETS.get(way) if steps < FEW else None
            reached = "" if target is None else verdict(statistics.median(ratios), target)
            yield [workload, way, f"{statistics.median(plain) * 1e3:.3g}", spread(ratios, 3), reached]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, help="a file whose marked part is replaced by the table")
    arguments = parser.parse_args()
    where = "one thread" if arguments.device == "cpu" else torch.cuda.get_device_name()
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
    header = ["step", "watched by", "ms without", "with / without", "target"]
    table = header, list(rows(arguments.rounds, arguments.device))
    publish(table, arguments.markdown, BEGIN, END, f"; {where}")


if __name__ == "__main__":
    main()
