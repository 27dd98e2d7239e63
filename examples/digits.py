"""Learn to read handwritten digits: a small network, written with tensors and nothing else.

A perceptron with one hidden layer is trained on four fifths of 1,797 images of 8x8 pixels and tested on the fifth that
it has never seen. Parameters, loss and optimizer are spelled out below, so that every use of the library is in sight.

    python examples/digits.py
    python examples/digits.py --epochs 30 --hidden 64 --seed 3
"""

import argparse
import sys
import time

import numpy as np

import retrograd as rg
from retrograd.demo import load_digits

SIDE = 8
CLASSES = 10
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
SHIFT_ODDS = (0.15, 0.7, 0.15)  # one pixel back, none, one on; for each axis


def split(images, labels, rng):
    """A random four fifths to train on, and the rest to test on."""
    order = rng.permutation(len(images))
    cut = len(order) * 4 // 5
    train, test = order[:cut], order[cut:]
    return (images[train], labels[train]), (images[test], labels[test])


def shift_randomly(images, rng):
    """Move about half of the images by one pixel, along either axis or both.

    Where a digit sits in its frame says nothing about which digit it is; images moved at random teach the network that.
    """
    count = len(images)
    framed = np.pad(images.reshape(count, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    down, right = rng.choice(3, size=(2, count, 1, 1), p=SHIFT_ODDS)
    rows = down + np.arange(SIDE).reshape(1, SIDE, 1)
    columns = right + np.arange(SIDE).reshape(1, 1, SIDE)
    return framed[np.arange(count).reshape(-1, 1, 1), rows, columns].reshape(count, -1)


def init_parameters(hidden):
    """Weights scaled for ReLU (He et al., 2015), and biases of zero."""
    pixels = SIDE * SIDE
    w1 = rg.randn(pixels, hidden) * (2 / pixels) ** 0.5
    w2 = rg.randn(hidden, CLASSES) * (2 / hidden) ** 0.5
    return [p.requires_grad_() for p in (w1, rg.zeros(hidden), w2, rg.zeros(CLASSES))]


def forward(parameters, images):
    w1, b1, w2, b2 = parameters
    return rg.matmul(rg.relu(rg.matmul(images, w1) + b1), w2) + b2


def cross_entropy(logits, labels):
    """Mean negative log-likelihood of the right class."""
    return -rg.log_softmax(logits, 1).gather(1, labels.reshape(-1, 1)).mean()


def update(parameters, velocities, lr):
    """One step of gradient descent with momentum; drops the gradients that it has used."""
    with rg.no_grad():
        for p, velocity in zip(parameters, velocities, strict=True):
            velocity.mul_(MOMENTUM).add_(p.grad + WEIGHT_DECAY * p)
            p.sub_(lr * velocity)
            p.grad = None


def train_epoch(parameters, velocities, images, labels, batch_size, lr, rng):
    """One pass over the training images in random order; returns the mean loss."""
    order = rng.permutation(len(images))
    images = shift_randomly(images, rng)
    total = 0.0
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        loss = cross_entropy(forward(parameters, rg.tensor(images[batch])), rg.tensor(labels[batch]))
        loss.backward()
        update(parameters, velocities, lr)
        total += loss.item() * len(batch)
    return total / len(order)


def accuracy(parameters, images, labels):
    with rg.no_grad():
        logits = forward(parameters, rg.tensor(images))
    return float((logits.numpy().argmax(1) == labels).mean())


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description="Train a small network on 8x8 images of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.15, help="learning rate at the start; it falls linearly to 0")
    parser.add_argument("--hidden", type=int, default=128, help="width of the hidden layer")
    parser.add_argument("--seed", type=int, default=0, help="for the split, the first weights and the order of images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--min-accuracy", type=float, default=0.96, help="exit with status 1 when held-out accuracy ends below this"
    )
    args = parser.parse_args(argv)
    if min(args.epochs, args.batch_size, args.hidden, args.threads) < 1:
        parser.error("--epochs, --batch-size, --hidden and --threads must be at least 1")
    return args


def train(args, train_set, test_set, rng):
    """Train for `args.epochs`, reporting each; returns the last held-out accuracy."""
    parameters = init_parameters(args.hidden)
    velocities = [rg.zeros_like(p) for p in parameters]
    print("epoch    loss   train    test  seconds", flush=True)
    test_accuracy = 0.0
    for epoch in range(args.epochs):
        start = time.perf_counter()
        lr = args.lr * (1 - epoch / args.epochs)
        loss = train_epoch(parameters, velocities, *train_set, args.batch_size, lr, rng)
        train_accuracy, test_accuracy = accuracy(parameters, *train_set), accuracy(parameters, *test_set)
        seconds = time.perf_counter() - start
        print(f"{epoch + 1:5d} {loss:7.4f} {train_accuracy:7.2%} {test_accuracy:7.2%} {seconds:8.2f}", flush=True)
    return test_accuracy


def main(argv=None):
    args = parse_arguments(argv)
    rg.set_num_threads(args.threads)
    rg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    train_set, test_set = split(*load_digits(), rng)
    start = time.perf_counter()
    reached = train(args, train_set, test_set, rng)
    seconds = time.perf_counter() - start
    print(f"read {reached:.2%} of {len(test_set[1])} held-out digits after {args.epochs} epochs in {seconds:.1f} s")
    if reached < args.min_accuracy:
        print(f"held-out accuracy {reached:.2%} is below the required {args.min_accuracy:.2%}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
