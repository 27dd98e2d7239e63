"""What the watch costs a PyTorch training step, beside torch's own anomaly mode, as ratios of the whole step.

The variants take turns on one model, block by block, so that all meet the same machine; a block begins with some
steps that are not measured. On a CPU one thread is used and its processor time counted, so that other programs on the
machine do not. Run as::

    python benchmarks/torch_watch.py [--device cuda] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

import retrograd as rg

WARM_UP = 4  # steps; the watch notes the lines of the first three
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


def measure(make: Callable[[str], Workload], steps: int, rounds: int, device: str) -> dict[str, list[float]]:
    """The seconds of a step, for each variant and round."""
    torch.manual_seed(0)
    model, loss_of = make(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()

    variants: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "nothing": nullcontext,
        "the watch": lambda: rg.anomaly.watch(model, optimizer),
        "the watch with steps": lambda: rg.anomaly.watch(model, optimizer),
        "torch's anomaly mode": lambda: torch.autograd.detect_anomaly(check_nan=True),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, context in variants.items():
            with context() as entered:
                turns = entered.steps(range(steps)) if name == "the watch with steps" else range(steps)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    print("| step | nothing, ms | the watch | the watch with `steps` | torch's anomaly mode |")
    print("|---|---|---|---|---|")
    for name, (make, steps) in WORKLOADS.items():
        times = measure(make, steps, arguments.rounds, arguments.device)
        cells = [f"{statistics.median(times['nothing']) * 1e3:.2f}"]
        for variant in list(times)[1:]:
            ratios = sorted(a / b for a, b in zip(times[variant], times["nothing"], strict=True))
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[1]:.2f}-{ratios[-2]:.2f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
