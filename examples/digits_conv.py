"""Learn to read handwritten digits with a convolutional network: modules, an optimizer, a schedule, a data loader.

The same 1,797 images as in `digits.py`, where every line of the training loop is spelled out; here the library's
building blocks do the work, under the names that they have in PyTorch. The loop is under watch: should a NaN appear,
the run stops with its operation, line and cause, before a weight is touched.

    python examples/digits_conv.py
    python examples/digits_conv.py --epochs 40 --batch-size 128 --seed 3
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import retrograd as rg
from _progress import Progress
from digits import SIDE, shift_randomly, split
from retrograd import nn
from retrograd.demo import load_digits
from retrograd.nn import functional as F
from retrograd.utils.data import DataLoader, TensorDataset

SHOWN = 10  # mistakes at the end


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """A 3x3 convolution that keeps the size of the image, normalised over the batch."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Network(nn.Module):
    """Images of shape (n, 1, 8, 8) to scores of shape (n, 10)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolution(1, width),
            convolution(width, width),
            nn.MaxPool2d(2),  # 8x8 to 4x4
            convolution(width, 2 * width),
            nn.MaxPool2d(2),  # 4x4 to 2x2
        )
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width * 2 * 2, 10))

    def forward(self, images: rg.Tensor) -> rg.Tensor:
        return self.classify(self.features(images))


def as_images(pixels: np.ndarray) -> rg.Tensor:
    return rg.from_numpy(pixels.reshape(-1, 1, SIDE, SIDE))


@rg.no_grad()
def read(model: Network, pixels: np.ndarray) -> np.ndarray:
    """The digits that the model sees in the images."""
    model.eval()
    digits = model(as_images(pixels)).argmax(1).numpy()
    model.train()
    return digits


def train(
    model: Network, train_set: tuple, test_set: tuple, args: argparse.Namespace, rng: np.random.Generator
) -> None:
    """Train for `args.epochs`, with a line for each."""
    pixels, labels = train_set
    batches = DataLoader(
        TensorDataset(rg.from_numpy(pixels), rg.from_numpy(labels)), batch_size=args.batch_size, shuffle=True
    )
    optimizer = rg.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    schedule = rg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.epochs * len(batches))
    step = 0
    with rg.anomaly.watch(model, optimizer), Progress(args.epochs * len(batches)) as progress:
        progress.line("epoch    loss    test  seconds")
        for epoch in range(args.epochs):
            start = time.perf_counter()
            total = 0.0
            for images, digits in batches:
                loss = F.cross_entropy(model(as_images(shift_randomly(images.numpy(), rng))), digits)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item() * len(digits)
                step += 1
                progress.update(step, f"loss {loss.item():.4f}")
            accuracy = (read(model, test_set[0]) == test_set[1]).mean()
            seconds = time.perf_counter() - start
            progress.line(f"{epoch + 1:5d} {total / len(labels):7.4f} {accuracy:7.2%} {seconds:8.2f}")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a convolutional network on 8x8 images of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.005, help="highest learning rate; it rises, then falls to 0")
    parser.add_argument("--width", type=int, default=32, help="channels of the first convolutions")
    parser.add_argument("--seed", type=int, default=0, help="for the split, the first weights and the order of images")
    parser.add_argument(
        "--min-accuracy", type=float, default=0.985, help="exit with status 1 when held-out accuracy ends below this"
    )
    args = parser.parse_args(argv)
    if min(args.epochs, args.batch_size, args.width) < 1:
        parser.error("--epochs, --batch-size and --width must be at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    rg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    train_set, test_set = split(*load_digits(), rng)
    model = Network(args.width)
    start = time.perf_counter()
    train(model, train_set, test_set, args, rng)
    seconds = time.perf_counter() - start

    pixels, labels = test_set
    seen = read(model, pixels)
    accuracy = (seen == labels).mean()
    print(f"read {accuracy:.2%} of {len(labels)} held-out digits after {args.epochs} epochs in {seconds:.1f} s")
    wrong = np.flatnonzero(seen != labels)
    for k in wrong[:SHOWN]:
        print(f"  a {labels[k]} was read as {seen[k]}")
    if len(wrong) > SHOWN:
        print(f"  and {len(wrong) - SHOWN} more mistakes")
    if accuracy < args.min_accuracy:
        print(f"held-out accuracy {accuracy:.2%} is below the required {args.min_accuracy:.2%}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
