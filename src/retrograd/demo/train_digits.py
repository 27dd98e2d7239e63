"""Train a network on handwritten digits, with a loss that goes wrong once the network is sure of itself.

Nothing here knows of the watch. ``retrograd demo`` runs it as ``retrograd run`` would run any script.
"""

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.demo import load_digits

EPOCHS, BATCH, HIDDEN, LR, MOMENTUM = 40, 32, 128, 0.1, 0.9


def forward(parameters, images):
    w1, b1, w2, b2 = parameters
    return F.relu(images @ w1 + b1) @ w2 + b2


def cross_entropy(logits, y):
    p = rg.sigmoid(logits)
    return -(y * rg.log(p) + (1 - y) * rg.log(1 - p)).sum(1).mean()


def train():
    rg.manual_seed(0)
    rng = np.random.default_rng(0)
    images, labels = load_digits()
    targets = np.eye(10, dtype=np.float32)[labels]
    w1, w2 = rg.randn(64, HIDDEN) * 0.18, rg.randn(HIDDEN, 10) * 0.12
    parameters = [p.requires_grad_() for p in (w1, rg.zeros(HIDDEN), w2, rg.zeros(10))]
    velocities = [rg.zeros_like(p) for p in parameters]
    for epoch in range(EPOCHS):
        total = 0.0
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            loss = cross_entropy(forward(parameters, rg.tensor(images[batch])), rg.tensor(targets[batch]))
            loss.backward()
            with rg.no_grad():
                for p, velocity in zip(parameters, velocities, strict=True):
                    assert p.grad is not None
                    p -= LR * velocity.mul_(MOMENTUM).add_(p.grad)
                    p.grad = None
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1:2d}  loss {total / len(order):.4f}", flush=True)


if __name__ == "__main__":
    train()
