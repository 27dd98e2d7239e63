"""Layers with random options: results in both modes, gradients, buffers and optimizer steps agree with torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retrograd as rg
from tests.nn.twins import close, flat, floats, tensors

Draw = st.DrawFn
Case = tuple[str, tuple[Any, ...]]


def text(name: str, *args: Any, **options: Any) -> str:
    """Return a call as source code for either library's ``nn``."""
    arguments = [repr(argument) for argument in args] + [f"{key}={value!r}" for key, value in options.items()]
    return f"nn.{name}({', '.join(arguments)})"


def some(draw: Draw, **options: Any) -> dict[str, Any]:
    """Draw some of the options, each with one of its values or drawn from its strategy."""
    chosen = {key: draw(v if isinstance(v, st.SearchStrategy) else st.sampled_from(v)) for key, v in options.items()}
    return {key: value for key, value in chosen.items() if draw(st.booleans())}


def array(draw: Draw, *shape: int) -> Any:
    return np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)


def batch(draw: Draw) -> tuple[int, ...]:
    return draw(st.sampled_from([(2,), (1,), (3,)]))


def per_dimension(n: int, low: int, high: int) -> Any:
    return st.integers(low, high) | st.tuples(*[st.integers(low, high)] * n)


@st.composite
def linear(draw: Draw) -> Case:
    if draw(st.booleans()):
        lead = draw(st.sampled_from([(), (2,), (2, 3)]))
        return text("Linear", 4, 3, **some(draw, bias=[False, True])), (array(draw, *lead, 4),)
    lead = draw(st.sampled_from([(2,), (2, 3)]))
    return text("Bilinear", 3, 4, 2, **some(draw, bias=[False])), (array(draw, *lead, 3), array(draw, *lead, 4))


@st.composite
def convolution(draw: Draw) -> Case:
    n = draw(st.integers(1, 3))
    transposed = draw(st.booleans())
    groups = draw(st.sampled_from([1, 2, 4]))
    channels, out = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    size = tuple(draw(st.integers(3, 7 - n)) for _ in range(n))
    options = some(draw, stride=per_dimension(n, 1, 3), dilation=per_dimension(n, 1, 2), bias=[False])
    options |= some(draw, padding=per_dimension(n, 0, 2))
    if transposed:
        options |= some(draw, output_padding=per_dimension(n, 0, 1))
    else:
        options |= some(draw, padding_mode=["zeros", "reflect", "replicate", "circular"])
        if draw(st.booleans()):
            options["padding"] = draw(st.sampled_from(["same", "valid"]))
    name = f"Conv{'Transpose' * transposed}{n}d"
    lead = () if draw(st.integers(0, 4)) == 0 else batch(draw)
    kernel = draw(per_dimension(n, 1, 3))
    return text(name, channels, out, kernel, groups=groups, **options), (array(draw, *lead, channels, *size),)


@st.composite
def pooling(draw: Draw) -> Case:
    n = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["Max", "Avg", "LP", "AdaptiveAvg", "AdaptiveMax"]))
    lead = (2,) if draw(st.integers(0, 4)) == 0 else (2, 3)
    x = array(draw, *lead, *(draw(st.integers(3, 7)) for _ in range(n)))
    if kind.startswith("Adaptive"):
        size = draw(st.integers(1, 4) | st.tuples(*[st.integers(1, 4)] * n))
        return text(f"{kind}Pool{n}d", size), (x,)
    kernel = draw(per_dimension(n, 1, 3))
    options = some(draw, stride=per_dimension(n, 1, 3), ceil_mode=[True, False])
    if kind == "LP":
        if n == 1 and isinstance(kernel, tuple):  # torch multiplies a tensor by it
            kernel = kernel[0]
        return text(f"LPPool{n}d", draw(st.sampled_from([1.0, 2.0, 3.0])), kernel, **options), (np.abs(x) + 0.1,)
    options |= some(draw, padding=per_dimension(n, 0, 1))
    if kind == "Max":
        options |= some(draw, dilation=per_dimension(n, 1, 2), return_indices=[True])
    else:
        options |= some(draw, count_include_pad=[False])
        if n > 1:
            options |= some(draw, divisor_override=[3])
    return text(f"{kind}Pool{n}d", kernel, **options), (x,)


@st.composite
def normalization(draw: Draw) -> Case:
    kind = draw(
        st.sampled_from(["BatchNorm", "InstanceNorm", "LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm"])
    )
    eps = some(draw, eps=[1e-3, 0.1])
    n = draw(st.integers(1, 3))
    shape = (draw(st.integers(2, 4)), 4, *(draw(st.integers(3, 4)) for _ in range(n)))
    if kind in ("BatchNorm", "InstanceNorm"):
        momenta = [0.3, None] if kind == "BatchNorm" else [0.3]
        options = eps | some(draw, momentum=momenta, affine=[True, False], track_running_stats=[True, False])
        if kind == "BatchNorm" and n == 1 and draw(st.booleans()):
            shape = shape[:2]
        return text(f"{kind}{n}d", 4, **options), (array(draw, *shape),)
    if kind == "GroupNorm":
        return text(kind, draw(st.sampled_from([1, 2, 4])), 4, **eps, **some(draw, affine=[False])), (
            array(draw, *shape),
        )
    if kind == "LocalResponseNorm":
        options = some(draw, alpha=[0.1, 1.0], beta=[0.5, 1.0], k=[0.5, 2.0])
        return text(kind, draw(st.integers(1, 5)), **options), (array(draw, *shape),)
    options = eps | some(draw, elementwise_affine=[False])
    if kind == "LayerNorm":
        options |= some(draw, bias=[False])
    own = shape[draw(st.integers(1, len(shape) - 1)) :]
    return text(kind, own[0] if len(own) == 1 else own, **options), (array(draw, *shape),)


ACTIVATIONS: dict[str, dict[str, Any]] = {
    "CELU": {"alpha": [0.5, 2.0]},
    "ELU": {"alpha": [0.5, 2.0]},
    "GELU": {"approximate": ["none", "tanh"]},
    "GLU": {"dim": [0, 1, -1]},
    "Hardshrink": {"lambd": [0.1, 1.0]},
    "Hardsigmoid": {},
    "Hardswish": {},
    "Hardtanh": {"min_val": [-0.5], "max_val": [0.5]},
    "LeakyReLU": {"negative_slope": [0.3, 0.0, -0.5, 2.0]},
    "LogSigmoid": {},
    "LogSoftmax": {"dim": [0, 1, -1]},
    "Mish": {},
    "PReLU": {"num_parameters": [1, 4], "init": [0.4]},
    "ReLU": {},
    "ReLU6": {},
    "RReLU": {"lower": [0.1]},
    "SELU": {},
    "SiLU": {},
    "Sigmoid": {},
    "Softmax": {"dim": [0, 1, -1]},
    "Softmin": {"dim": [0, 1, -1]},
    "Softplus": {"beta": [0.5, 3.0], "threshold": [1.0]},
    "Softshrink": {"lambd": [0.1, 1.0]},
    "Softsign": {},
    "Tanh": {},
    "Tanhshrink": {},
    "Threshold": {"threshold": [0.2], "value": [-1.0]},
}


@st.composite
def activation(draw: Draw) -> Case:
    name = draw(st.sampled_from(sorted(ACTIVATIONS)))
    options = {key: draw(st.sampled_from(values)) for key, values in ACTIVATIONS[name].items()}
    if name not in ("Threshold", "LogSoftmax", "Softmax", "Softmin"):
        options = {key: value for key, value in options.items() if draw(st.booleans())}
    code = text(name, **options)
    if draw(st.booleans()) and name in ("ReLU", "SiLU", "ELU", "Hardtanh", "LeakyReLU", "Mish", "Threshold"):
        code = f"nn.Sequential(nn.Linear(6, 6), {code[:-1]}{', ' if options else ''}inplace=True))"
    return code, (3 * array(draw, 2, 4, 6),)


@st.composite
def recurrent(draw: Draw) -> Case:
    kind = draw(st.sampled_from(["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"]))
    options = some(draw, bias=[False])
    if kind.startswith("RNN"):
        options |= some(draw, nonlinearity=["relu", "tanh"])
    if kind.endswith("Cell"):
        lead = draw(st.sampled_from([(), (3,)]))
        return text(kind, 3, 4, **options), (array(draw, *lead, 3),)
    options |= some(draw, num_layers=[2, 3], bidirectional=[True], batch_first=[True])
    if kind == "LSTM":
        options |= some(draw, proj_size=[2])
    shape = draw(st.sampled_from([(4, 3), (4, 2, 3), (1, 2, 3), (2, 1, 3)]))
    arrays: tuple[Any, ...] = (array(draw, *shape),)
    if draw(st.booleans()):
        states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        several = len(shape) == 3
        samples = (shape[0 if options.get("batch_first") else 1],) if several else ()
        own = array(draw, states, *samples, options.get("proj_size", 4))
        arrays += ((own, array(draw, states, *samples, 4)),) if kind == "LSTM" else (own,)
    return text(kind, 3, 4, **options), arrays


@st.composite
def attention(draw: Draw) -> Case:
    batch_first = draw(st.booleans())
    options = {"batch_first": batch_first} | some(draw, bias=[False])
    kind = draw(st.sampled_from(["MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"]))
    shape = draw(st.sampled_from([(3, 4), (3, 2, 4)]))
    other = array(draw, *((5, 4) if len(shape) == 2 else (3, 5, 4) if batch_first else (5, 2, 4)))
    if kind == "MultiheadAttention":
        options |= some(draw, add_bias_kv=[True], add_zero_attn=[True])
        if draw(st.booleans()):
            return text(kind, 4, 2, **options), (array(draw, *shape),) * 3
        return text(kind, 4, 2, kdim=4, vdim=4, **options), (array(draw, *shape), other, other)
    options |= some(draw, activation=["gelu", "relu"], norm_first=[True], layer_norm_eps=[1e-3])
    inputs = (array(draw, *shape), other) if kind == "TransformerDecoderLayer" else (array(draw, *shape),)
    return text(kind, 4, 2, 6, dropout=0.0, **options), inputs


@st.composite
def embedding(draw: Draw) -> Case:
    indices = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 6, (3, 4))
    options = some(draw, padding_idx=[0, -1, 2], max_norm=[1.0], norm_type=[1.0, 3.0], scale_grad_by_freq=[True])
    if draw(st.booleans()):
        return text("Embedding", 6, 3, **options), (indices,)
    options |= some(draw, mode=["sum", "mean", "max"])
    options.pop("scale_grad_by_freq", None)  # torch divides by the count of another index
    if draw(st.booleans()):
        return text("EmbeddingBag", 6, 3, **options), (indices,)
    return text("EmbeddingBag", 6, 3, **options, **some(draw, include_last_offset=[True])), (
        indices.reshape(-1),
        np.array([0, 5, 5, 12]),
    )


@st.composite
def shaping(draw: Draw) -> Case:
    n = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["Pad", "Upsample", "Fold", "Unfold", "Shuffle"]))
    if kind == "Pad":
        mode = draw(st.sampled_from(["Constant", "Reflection", "Replication", "Circular", "Zero"]))
        padding = draw(
            st.integers(0, 2) | st.tuples(*[st.integers(-1 if mode in ("Constant", "Zero") else 0, 2)] * 2 * n)
        )
        x = array(draw, 2, 3, *(draw(st.integers(3, 5)) for _ in range(n)))
        return text(f"{mode}Pad{n}d", padding, *((1.5,) if mode == "Constant" else ())), (x,)
    if kind == "Upsample":
        modes = [["nearest", "linear"], ["nearest", "bilinear", "bicubic"], ["nearest", "trilinear"]][n - 1]
        options: dict[str, Any] = {"mode": draw(st.sampled_from([*modes, "nearest-exact"]))}
        if "linear" in options["mode"] or options["mode"] == "bicubic":
            options |= some(draw, align_corners=[True, False])
        key, values = draw(st.sampled_from([("scale_factor", [0.5, 2, 1.7, 2.5]), ("size", [2, 4, 7])]))
        options[key] = draw(st.sampled_from(values))
        x = array(draw, 2, 2, *(draw(st.integers(3, 5)) for _ in range(n)))
        return text("Upsample", **options), (x,)
    if kind == "Shuffle":
        name = draw(st.sampled_from(["PixelShuffle", "PixelUnshuffle", "ChannelShuffle"]))
        return text(name, 2), (array(draw, 2, 8, 4, 4),)
    options = some(draw, dilation=per_dimension(2, 1, 2), padding=per_dimension(2, 0, 1), stride=per_dimension(2, 1, 2))
    kernel = draw(per_dimension(2, 1, 3))
    unfold = text("Unfold", kernel, **options)
    if kind == "Unfold":
        return unfold, (array(draw, 2, 2, 5, 6),)
    return f"nn.Sequential({unfold}, {text('Fold', (5, 6), kernel, **options)})", (array(draw, 2, 2, 5, 6),)


LOSSES = """CrossEntropy NLL MSE L1 SmoothL1 Huber BCE BCEWithLogits KLDiv PoissonNLL SoftMargin HingeEmbedding
    MultiLabelSoftMargin MultiLabelMargin MultiMargin GaussianNLL MarginRanking TripletMargin CosineEmbedding"""


@st.composite
def loss(draw: Draw) -> Case:
    name = draw(st.sampled_from(LOSSES.split()))
    options = some(draw, reduction=["none", "sum", "mean"])
    x, y = array(draw, 3, 4), array(draw, 3, 4)
    if name in ("CrossEntropy", "NLL"):
        target = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 4, 3)
        options |= some(draw, ignore_index=[1])
        if name == "CrossEntropy":
            options |= some(draw, label_smoothing=[0.1])
            if draw(st.booleans()):
                return text("CrossEntropyLoss", **{k: v for k, v in options.items() if k != "ignore_index"}), (
                    x,
                    np.exp(y) / np.exp(y).sum(1, keepdims=True),
                )
        return text(f"{name}Loss", **options), (x, target)
    if name == "BCE":
        x = 1 / (1 + np.exp(-x))
    if name.startswith("BCE"):
        y = 1 / (1 + np.exp(-y))
    if name == "SmoothL1":
        options |= some(draw, beta=[0.0, 0.3, 2.0])
    if name == "Huber":
        options |= some(draw, delta=[0.3, 2.0])
    if name == "KLDiv":
        options |= some(draw, log_target=[True])
        y = y if options.get("log_target") else np.exp(y)
    if name == "PoissonNLL":
        options |= some(draw, log_input=[False], full=[True], eps=[0.1])
        x, y = (x, np.exp(y)) if options.get("log_input", True) else (np.exp(x), np.exp(y))
    if name in ("SoftMargin", "HingeEmbedding"):
        y = np.sign(y)
    if name in ("HingeEmbedding", "MarginRanking", "CosineEmbedding", "MultiMargin", "TripletMargin"):
        options |= some(draw, margin=[0.3, 2.0] if name != "CosineEmbedding" else [0.3])
    if name == "MultiLabelSoftMargin":
        y = (y > 0).astype(float)
    if name == "MultiLabelMargin":
        y = np.array([[0, 2, -1, 1], [-1, 0, 1, 2], [3, 2, 1, 0]])
    if name == "MultiMargin":
        options |= some(draw, p=[2])
        y = np.array([0, 3, 1])
    if name == "GaussianNLL":
        options |= some(draw, full=[True], eps=[0.1])
        return text("GaussianNLLLoss", **options), (x, y, np.exp(array(draw, 3, 4)))
    if name in ("MarginRanking", "CosineEmbedding"):
        return text(f"{name}Loss", **options), (
            x,
            y,
            np.sign(array(draw, *((3, 4) if name == "MarginRanking" else (3,)))),
        )
    if name == "TripletMargin":
        options |= some(draw, p=[1.0, 3.0], swap=[True])
        return text(f"{name}Loss", **options), (x, y, array(draw, 3, 4))
    return text(f"{name}Loss", **options), (x, y)


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": [0.9], "dampening": [0.3], "nesterov": [True]},
    "Adam": {"betas": [(0.5, 0.9)], "eps": [1e-3], "amsgrad": [True], "decoupled_weight_decay": [True]},
    "AdamW": {"betas": [(0.5, 0.9)], "amsgrad": [True]},
    "NAdam": {"momentum_decay": [0.1], "decoupled_weight_decay": [True]},
    "RAdam": {"betas": [(0.5, 0.9)], "decoupled_weight_decay": [True]},
    "Adamax": {"betas": [(0.5, 0.9)]},
    "RMSprop": {"alpha": [0.5], "momentum": [0.9], "centered": [True]},
    "Adagrad": {"lr_decay": [0.1], "initial_accumulator_value": [0.5]},
    "Adadelta": {"rho": [0.5], "eps": [1e-2]},
    "ASGD": {"lambd": [0.1], "alpha": [0.5], "t0": [1]},
    "Rprop": {"etas": [(0.3, 1.5)], "step_sizes": [(1e-3, 0.02)]},
    "Adafactor": {"beta2_decay": [-0.5], "d": [0.5]},
}


@st.composite
def optimizer(draw: Draw) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(sorted(OPTIMIZERS)))
    options = some(draw, **OPTIMIZERS[name], lr=[0.1, 0.01], maximize=[True])
    if name != "Rprop":
        options |= some(draw, weight_decay=[0.1])
    if options.get("nesterov"):
        options = options | {"momentum": 0.9, "dampening": 0}
    return name, options


FAMILIES = (linear, convolution, pooling, normalization, activation, recurrent, attention, embedding, shaping, loss)
CASES = st.one_of([family() for family in FAMILIES])


def outcome(library: Any, code: str, arrays: tuple[Any, ...], steps: tuple[str, dict[str, Any]], state: Any) -> Any:
    """Return everything a module computes as named tensors in order, or the class of an error."""
    found: list[tuple[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = eval(code, {"nn": library.nn}).double()
            if state is not None:
                module.load_state_dict({name: value.numpy() for name, value in state.items()})
            start = {name: value.detach().clone() for name, value in module.state_dict().items()}
            parameters = [p for p in module.parameters() if p.requires_grad]
            update = getattr(library.optim, steps[0])(parameters, **steps[1]) if parameters else None
            for turn in range(4):
                module.train("RReLU" not in code and turn != 1)
                inputs = tensors(library, arrays)
                leaves = [leaf for leaf in flat(inputs) if leaf.requires_grad]
                outputs = flat(module(*inputs))
                found += [(f"output {k} of call {turn}", output) for k, output in enumerate(outputs)]
                total = sum((output * output.detach().cos() + output.sin()).sum() for output in floats(outputs))
                module.zero_grad()
                total.backward()
                found += [(f"gradient of input {k} in call {turn}", leaf.grad) for k, leaf in enumerate(leaves)]
                found += [(f"gradient of {name} in call {turn}", p.grad) for name, p in module.named_parameters()]
                if update is not None:
                    update.step()
                found += [(f"{name} after call {turn}", v.clone()) for name, v in module.state_dict().items()]
        except Exception as error:
            return type(error).__name__, found, None
    return None, found, start


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=CASES, steps=optimizer())
def test_random_layers_agree_with_torch(case: Case, steps: tuple[str, dict[str, Any]]) -> None:
    code, arrays = case
    if "Attention" in code or "Transformer" in code:
        steps = (
            "SGD",
            {"lr": 0.1},
        )  # the gradient of the keys' bias is only rounding error, and some optimizers divide by its size
    torch.manual_seed(0)
    expected, theirs, state = outcome(torch, code, arrays, steps, None)
    got, ours, _ = outcome(rg, code, arrays, steps, state)
    assert got == expected, code
    if expected is None:
        assert [name for name, _ in ours] == [name for name, _ in theirs]
        for (name, value), (_, reference) in zip(ours, theirs, strict=True):
            close(value, reference, f"{name} of {code}", 1e-7)
