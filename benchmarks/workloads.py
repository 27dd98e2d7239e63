"""The workloads that `compare.py` measures: for each its inputs, and one builder per library.

To add a workload, write its builders (see `libraries.py`) and append a `Workload` to `WORKLOADS`.
"""

import importlib
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from libraries import SUBJECT, Inputs, Workload, from_forward
from models import (
    inputs_of,
    residual_block,
    small_convolutions,
    small_equation,
    small_perceptron,
    small_transformer,
    step_of,
    transformer_block,
)


def vectors(size: int) -> Callable[[bool], Inputs]:
    """An x of both signs, and factors c below 1, so that long chains stay tame."""

    def make(tiny=False):
        rng = np.random.default_rng(size)
        shape = min(size, 100) if tiny else size
        x, c = rng.random(shape, np.float32), rng.random(shape, np.float32)
        return {"x": 2 * x - 1, "c": 0.5 + 0.45 * c}

    return make


CHAIN_ROUNDS = 100


def chain(ops, x, c):
    y = x
    for _ in range(CHAIN_ROUNDS):
        y = y * c
        y = ops.sin(y)
        y = y + x
    return y.sum()


def chain_by_hand(np, given):
    x, c = given["x"], given["c"]

    def step():
        y, angles = x, []
        for _ in range(CHAIN_ROUNDS):
            angle = y * c
            y = np.sin(angle) + x
            angles.append(angle)
        y.sum()
        dy, dx = np.ones_like(x), np.zeros_like(x)
        for angle in reversed(angles):
            dx += dy
            dy *= np.cos(angle)
            dy *= c
        return [dx + dy]

    return step


AXPY_STEPS = 20


def axpy(ops, x, c):
    y = x
    for _ in range(AXPY_STEPS):
        y = y * c + x
    return y.sum()


def axpy_by_hand(np, given):
    x, c = given["x"], given["c"]

    def step():
        y = x.copy()
        for _ in range(AXPY_STEPS):
            y *= c
            y += x
        y.sum()
        dy, dx = np.ones_like(x), np.zeros_like(x)
        for _ in range(AXPY_STEPS):
            dx += dy
            dy *= c
        return [dx + dy]

    return step


def elementwise(ops, x, c):
    return (ops.exp(ops.sin(x)) * x + ops.tanh(x)).sum()


def elementwise_by_hand(np, given):
    x = given["x"]

    def step():
        e, t = np.exp(np.sin(x)), np.tanh(x)
        y = e * x
        y += t
        y.sum()
        # d/dx of exp(sin x) x + tanh x is exp(sin x) (x cos x + 1) + 1 - tanh(x)**2
        dx = np.cos(x)
        dx *= x
        dx += 1
        dx *= e
        dx += 1
        t *= t
        dx -= t
        return [dx]

    return step


LEARNING_RATE = 0.01


def perceptron(widths: Sequence[int], batch: int) -> Callable[[bool], Inputs]:
    def make(tiny=False):
        rng = np.random.default_rng(0)
        sizes = [min(width, 10) for width in widths] if tiny else widths
        count = min(batch, 8) if tiny else batch
        given = {
            "images": rng.uniform(0.0, 1.0, (count, sizes[0])).astype(np.float32),
            "labels": rng.integers(0, sizes[-1], count),
        }
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
            given[f"w{i}"] = (rng.standard_normal((fan_in, fan_out)) * (2 / fan_in) ** 0.5).astype(np.float32)
            given[f"b{i}"] = np.zeros(fan_out, np.float32)
        return given

    return make


PARAMETERS = ("w0", "b0", "w1", "b1", "w2", "b2")


def mlp(relu, parameters, images):
    w0, b0, w1, b1, w2, b2 = parameters
    return relu(relu(images @ w0 + b0) @ w1 + b1) @ w2 + b2


def mlp_like_torch(t, given):
    parameters = [t.tensor(given[name], requires_grad=True) for name in PARAMETERS]
    images, labels = t.tensor(given["images"]), t.tensor(given["labels"])
    cross_entropy = t.nn.functional.cross_entropy

    def step():
        logits = mlp(t.relu, parameters, images)
        cross_entropy(logits, labels).backward()
        gradients = [p.grad for p in parameters]
        with t.no_grad():
            for p in parameters:
                p -= LEARNING_RATE * p.grad
                p.grad = None
        return gradients

    return step


def mlp_autograd(ag, given):
    anp = ag.numpy
    parameters = [given[name].copy() for name in PARAMETERS]
    images = given["images"]
    # Picking with a mask is faster here than with an index, whose gradient has to be scattered.
    chosen = np.eye(given["b2"].size, dtype=np.float32)[given["labels"]]

    def loss(parameters):
        logits = mlp(lambda y: anp.maximum(y, 0), parameters, images)
        shifted = logits - anp.max(logits, axis=1, keepdims=True)
        log_p = shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))
        return -anp.sum(log_p * chosen) / len(images)

    gradient = ag.grad(loss)

    def step():
        gradients = gradient(parameters)
        for p, g in zip(parameters, gradients, strict=True):
            p -= LEARNING_RATE * g
        return gradients

    return step


def mlp_mygrad(mg, given):
    nnet = importlib.import_module("mygrad.nnet")
    parameters = [mg.tensor(given[name], constant=False) for name in PARAMETERS]
    images, labels = given["images"], given["labels"]

    def step():
        logits = mlp(nnet.activations.relu, parameters, mg.tensor(images, constant=True, copy=False))
        nnet.losses.softmax_crossentropy(logits, labels).backward()
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.data -= LEARNING_RATE * p.grad
            p.null_grad()
        return gradients

    return step


def mlp_by_hand(np, given):
    parameters = [given[name].copy() for name in PARAMETERS]
    images, labels = given["images"], given["labels"]
    rows = np.arange(len(labels))

    def backward(inputs, weights, dy):
        return inputs.T @ dy, dy.sum(0), dy @ weights.T

    def step():
        w0, b0, w1, b1, w2, b2 = parameters
        h0 = np.maximum(images @ w0 + b0, 0)
        h1 = np.maximum(h0 @ w1 + b1, 0)
        logits = h1 @ w2 + b2
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        (np.log(total[:, 0]) - logits[rows, labels]).mean()
        p /= total
        p[rows, labels] -= 1
        p /= len(rows)
        dw2, db2, dh1 = backward(h1, w2, p)
        dh1 *= h1 > 0
        dw1, db1, dh0 = backward(h0, w1, dh1)
        dh0 *= h0 > 0
        gradients = [images.T @ dh0, dh0.sum(0), dw1, db1, dw2, db2]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= LEARNING_RATE * gradient
        return gradients

    return step


JACOBIAN_WIDTHS = (100, 200, 200, 500)


def jacobian_inputs(tiny=False):
    rng = np.random.default_rng(0)
    widths = [10] * 4 if tiny else JACOBIAN_WIDTHS
    given = {
        f"w{i}": (rng.standard_normal((n, m)) / m**0.5).astype(np.float32)
        for i, (m, n) in enumerate(itertools.pairwise(widths))
    }
    given["x"] = rng.standard_normal(widths[0]).astype(np.float32)
    return given


def jacobian_like_torch(vectorize: bool):
    def build(t, given):
        w0, w1, w2 = [t.tensor(given[name]) for name in ("w0", "w1", "w2")]
        x = t.tensor(given["x"])
        jacobian = importlib.import_module(f"{t.__name__}.autograd.functional").jacobian
        return lambda: [jacobian(lambda x: w2 @ t.tanh(w1 @ t.tanh(w0 @ x)), x, vectorize=vectorize)]

    return build


def jacobian_row_like_torch(t, given):
    w0, w1, w2 = [t.tensor(given[name]) for name in ("w0", "w1", "w2")]
    x = t.tensor(given["x"], requires_grad=True)
    ones = t.ones(len(given["w2"]))
    return lambda: t.autograd.grad(w2 @ t.tanh(w1 @ t.tanh(w0 @ x)), x, ones)


def jacobian_by_hand(np, given):
    w0, w1, w2, x = [given[name] for name in ("w0", "w1", "w2", "x")]

    def step():
        a = np.tanh(w0 @ x)
        b = np.tanh(w1 @ a)
        rows = (w2 * (1 - b * b)) @ w1
        rows *= 1 - a * a
        return [rows @ w0]

    return step


def jacobian_row_by_hand(np, given):
    w0, w1, w2, x = [given[name] for name in ("w0", "w1", "w2", "x")]
    ones = np.ones(len(w2), np.float32)

    def step():
        a = np.tanh(w0 @ x)
        b = np.tanh(w1 @ a)
        w2 @ b
        return [((((ones @ w2) * (1 - b * b)) @ w1) * (1 - a * a)) @ w0]

    return step


def adam_like_torch(t, given):
    parameters = [t.tensor(given[name], requires_grad=True) for name in PARAMETERS]
    for p in parameters:
        p.grad = p.detach() * 0.1 + 0.01
    optimizer = t.optim.Adam(parameters)

    def step():
        optimizer.step()
        return parameters

    return step


def adam_by_hand(np, given, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8):
    parameters = [given[name].copy() for name in PARAMETERS]
    gradients = [p * np.float32(0.1) + np.float32(0.01) for p in parameters]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    count = 0

    def step():
        nonlocal count
        count += 1
        for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
            m += (1 - beta1) * (g - m)
            v += (1 - beta2) * (g * g - v)
            p -= lr / (1 - beta1**count) * m / (np.sqrt(v / (1 - beta2**count)) + eps)
        return parameters

    return step


def axpy_workload(label: str, size: int) -> Workload:
    what = f"20 steps of y = y*c + x on {label} elements"
    return Workload(f"axpy_{label}", what, 1, vectors(size), from_forward(axpy, axpy_by_hand), {"torch": 1.2})


def small_model(make, inputs) -> Workload:
    builder = step_of(make)
    return Workload(make.__name__, make.__doc__.rstrip("."), 1, inputs, {SUBJECT: builder, "torch": builder}, {})


WORKLOADS = [
    Workload(
        "small_chain",
        "300 operations (y*c, sin, y+x by turns) on 10 elements",
        1,
        vectors(10),
        from_forward(chain, chain_by_hand),
        {"torch": 1.0, "autograd": 0.4},
    ),
    axpy_workload("1k", 1_000),
    axpy_workload("10k", 10_000),
    axpy_workload("100k", 100_000),
    axpy_workload("1M", 1_000_000),
    Workload(
        "elementwise_4M",
        "exp(sin(x))*x + tanh(x) on 4M elements",
        2,
        vectors(4_000_000),
        from_forward(elementwise, elementwise_by_hand),
        {"torch": 1.2},
    ),
    Workload(
        "mlp_step",
        "a training step of a perceptron 784-512-256-10, batch 128: forward, backward, SGD",
        2,
        perceptron((784, 512, 256, 10), 128),
        {
            SUBJECT: mlp_like_torch,
            "torch": mlp_like_torch,
            "autograd": mlp_autograd,
            "mygrad": mlp_mygrad,
            "numpy": mlp_by_hand,
        },
        {"torch": 1.0},
    ),
    Workload(
        "jacobian_500",
        "a Jacobian of 500 by 100, of a perceptron 100-200-200-500 at one point: all rows in one backward",
        1,
        jacobian_inputs,
        {
            SUBJECT: jacobian_like_torch(True),
            "torch": jacobian_like_torch(True),
            "numpy": jacobian_by_hand,
        },
        {"torch": 1.0},
    ),
    Workload(
        "jacobian_500_loop",
        "the same, in 500 backwards",
        1,
        jacobian_inputs,
        {SUBJECT: jacobian_like_torch(False), "torch": jacobian_like_torch(False), "numpy": jacobian_by_hand},
        {},
    ),
    Workload(
        "jacobian_row",
        "the same function once, forward and backward",
        1,
        jacobian_inputs,
        {SUBJECT: jacobian_row_like_torch, "torch": jacobian_row_like_torch, "numpy": jacobian_row_by_hand},
        {},
    ),
    Workload(
        "adam_step",
        "a step of Adam on the parameters of that perceptron, half a million",
        2,
        perceptron((784, 512, 256, 10), 128),
        {SUBJECT: adam_like_torch, "torch": adam_like_torch, "numpy": adam_by_hand},
        {"torch": 0.7},
    ),
    Workload(
        "resnet_block",
        "a training step of a residual block: batch 16, 64 channels, 32 x 32",
        2,
        inputs_of((16, 64, 32, 32)),
        {SUBJECT: step_of(residual_block), "torch": step_of(residual_block)},
        {"torch": 1.5},
    ),
    Workload(
        "transformer_block",
        "a training step of a transformer encoder layer: batch 8, length 64, width 256, 4 heads",
        2,
        inputs_of((8, 64, 256)),
        {SUBJECT: step_of(transformer_block), "torch": step_of(transformer_block)},
        {"torch": 1.1},
    ),
    small_model(small_perceptron, inputs_of((32, 64), classes=10)),
    small_model(small_convolutions, inputs_of((16, 1, 8, 8), classes=10)),
    small_model(small_transformer, inputs_of((8, 16, 32))),
    small_model(small_equation, inputs_of((64, 1))),
]
