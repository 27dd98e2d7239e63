"""Every layer gives torch's outputs, gradients and second gradients for the same weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, twins
from tests.parity import attempt, parity


def x(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def p(*shape: int, seed: int = 1) -> np.ndarray:
    """Return numbers between 0 and 1."""
    return np.random.default_rng(seed).uniform(0.05, 0.95, size=shape)


def k(*shape: int, below: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, size=shape)


def signs(*shape: int) -> np.ndarray:
    return np.where(x(*shape, seed=3) > 0, 1.0, -1.0)


LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear(4, 3)": (x(5, 4),),
    "Linear(4, 3, bias=False)": (x(2, 5, 4),),
    "Linear(4, 3, True)": (x(4),),
    "Bilinear(3, 4, 2)": (x(5, 3), x(5, 4, seed=1)),
    "Bilinear(3, 4, 2, bias=False)": (x(2, 5, 3), x(2, 5, 4, seed=1)),
    "Identity(7)": (x(2, 3),),
    "Flatten()": (x(2, 3, 4),),
    "Flatten(0, 1)": (x(2, 3, 4),),
    "Unflatten(1, (2, 3))": (x(2, 6),),
    "ReLU()": (x(3, 4),),
    "ReLU6()": (4 * x(3, 4),),
    "SELU()": (x(3, 4),),
    "SiLU()": (x(3, 4),),
    "Mish()": (x(3, 4),),
    "Hardswish()": (3 * x(3, 4),),
    "Hardsigmoid()": (3 * x(3, 4),),
    "ELU(0.7)": (x(3, 4),),
    "CELU(0.7)": (x(3, 4),),
    "LeakyReLU(0.2)": (x(3, 4),),
    "Hardtanh(-0.5, 0.7)": (x(3, 4),),
    "Threshold(0.1, 2.0)": (x(3, 4),),
    "Sigmoid()": (x(3, 4),),
    "LogSigmoid()": (x(3, 4),),
    "Tanh()": (x(3, 4),),
    "Tanhshrink()": (x(3, 4),),
    "Softsign()": (x(3, 4),),
    "Softplus(2.0, 1.0)": (x(3, 4),),
    "Softshrink(0.3)": (x(3, 4),),
    "Hardshrink(0.3)": (x(3, 4),),
    "GELU()": (x(3, 4),),
    "GELU('tanh')": (x(3, 4),),
    "PReLU()": (x(3, 4),),
    "PReLU(4)": (x(3, 4, 2),),
    "GLU()": (x(3, 4),),
    "GLU(0)": (x(4, 3),),
    "Softmax(1)": (x(3, 4),),
    "Softmin(0)": (x(3, 4),),
    "LogSoftmax(-1)": (x(3, 4),),
    "Softmax2d()": (x(2, 3, 2, 2),),
    "CosineSimilarity()": (x(3, 4), x(3, 4, seed=1)),
    "PairwiseDistance(3.0)": (x(3, 4), x(3, 4, seed=1)),
    "ZeroPad1d((1, 2))": (x(2, 3, 4),),
    "ZeroPad2d(1)": (x(2, 3, 4, 4),),
    "ConstantPad3d(1, 2.5)": (x(1, 2, 3, 3, 3),),
    "ReflectionPad1d(2)": (x(2, 3, 4),),
    "ReflectionPad2d((1, 0, 2, 1))": (x(2, 3, 4, 4),),
    "ReplicationPad2d(2)": (x(2, 3, 4, 4),),
    "CircularPad1d((1, 2))": (x(2, 3, 4),),
    # kernels
    "Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)": (x(2, 4, 9),),
    "Conv2d(3, 4, (3, 5), padding='same', dilation=2)": (x(2, 3, 9, 9),),
    "Conv2d(3, 4, 3, padding=1, padding_mode='reflect')": (x(2, 3, 5, 6),),
    "Conv2d(3, 4, 3, padding='same', padding_mode='circular', bias=False)": (x(3, 5, 6),),
    "Conv2d(3, 4, 3, padding=[1])": (x(2, 3, 5, 6),),  # a list of one number
    "Conv2d(3, 4, 3, padding='valid', padding_mode='circular')": (x(2, 3, 5, 6),),
    "Conv3d(2, 3, 2)": (x(1, 2, 3, 4, 3),),
    "ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)": (x(2, 4, 5),),
    "ConvTranspose2d(3, 2, 3, dilation=2)": (x(2, 3, 4, 4),),
    "ConvTranspose3d(2, 3, 2, stride=2)": (x(1, 2, 2, 3, 2),),
    "MaxPool1d(2)": (x(2, 3, 6),),
    "MaxPool2d(3, 2, 1)": (x(2, 3, 6, 7),),
    "MaxPool2d(2, return_indices=True)": (x(2, 3, 6, 6),),
    "MaxPool3d(2)": (x(1, 2, 4, 4, 4),),
    "AvgPool1d(3, 2)": (x(2, 3, 7),),
    "AvgPool2d(3, 2, 1, count_include_pad=False)": (x(2, 3, 6, 7),),
    "AvgPool3d(2)": (x(1, 2, 4, 4, 4),),
    "LPPool1d(2.0, 2)": (p(2, 3, 6),),
    "LPPool2d(3.0, 2)": (p(2, 3, 6, 6),),
    "AdaptiveAvgPool1d(3)": (x(2, 3, 7),),
    "AdaptiveAvgPool2d((3, None))": (x(2, 3, 7, 5),),
    "AdaptiveMaxPool1d(3)": (x(2, 3, 7),),
    "AdaptiveMaxPool2d(2, return_indices=True)": (x(2, 3, 5, 5),),
    "BatchNorm1d(4)": (x(5, 4),),
    "BatchNorm1d(4, momentum=None)": (x(5, 4, 3),),
    "BatchNorm2d(3, affine=False)": (x(4, 3, 2, 2),),
    "BatchNorm3d(3, track_running_stats=False)": (x(2, 3, 2, 2, 2),),
    "InstanceNorm1d(3, affine=True)": (x(2, 3, 5),),
    "InstanceNorm2d(3, track_running_stats=True)": (x(2, 3, 4, 4),),
    "InstanceNorm3d(3)": (x(3, 2, 3, 2),),
    "LayerNorm(4)": (x(5, 4),),
    "LayerNorm([3, 4], bias=False)": (x(2, 3, 4),),
    "RMSNorm(4)": (x(5, 4),),
    "RMSNorm((3, 4), eps=0.1, elementwise_affine=False)": (x(2, 3, 4),),
    "GroupNorm(2, 4)": (x(3, 4, 5),),
    "LocalResponseNorm(2)": (x(2, 5, 3),),
    "SyncBatchNorm(3)": (x(4, 3, 2),),
    "SyncBatchNorm(3, bias=False, momentum=None)": (x(4, 3),),
    "Embedding(6, 3)": (k(2, 4, below=6),),
    "Embedding(6, 3, padding_idx=1, scale_grad_by_freq=True)": (k(2, 4, below=6),),
    "EmbeddingBag(6, 3, mode='sum')": (k(2, 4, below=6),),
    "EmbeddingBag(6, 3)": (k(8, below=6), np.array([0, 3, 5])),
    "PixelShuffle(2)": (x(2, 8, 3, 3),),
    "PixelUnshuffle(2)": (x(2, 2, 4, 6),),
    "ChannelShuffle(2)": (x(2, 6, 3, 3),),
    "Unfold(2, padding=1)": (x(2, 3, 4, 4),),
    "Fold((4, 5), 2)": (x(2, 8, 12),),
    "Upsample(scale_factor=2)": (x(2, 3, 3, 3),),
    "Upsample(size=(5, 4), mode='bilinear')": (x(2, 3, 3, 3),),
    "UpsamplingBilinear2d(scale_factor=2)": (x(2, 3, 3, 3),),
    # losses
    "L1Loss()": (x(3, 4), x(3, 4, seed=1)),
    "MSELoss(reduction='sum')": (x(3, 4), x(3, 4, seed=1)),
    "SmoothL1Loss(beta=0.5)": (x(3, 4), x(3, 4, seed=1)),
    "HuberLoss(delta=0.5)": (x(3, 4), x(3, 4, seed=1)),
    "PoissonNLLLoss()": (x(3, 4), p(3, 4)),
    "GaussianNLLLoss(full=True)": (x(3, 4), x(3, 4, seed=1), p(3, 4)),
    "LinearCrossEntropyLoss(4, 3, bias=True, ignore_index=1)": (x(5, 4), k(5, below=3)),
    "LinearCrossEntropyLoss(4, 3, out_features=(2,), label_smoothing=0.1)": (x(5, 4), k(5, 2, below=3)),
    "LinearCrossEntropyLoss(4, 3, bias=True, reduction='none')": (x(4), p(3)),
    "CrossEntropyLoss(label_smoothing=0.1)": (x(5, 3), k(5, below=3)),
    "CrossEntropyLoss(ignore_index=1, reduction='none')": (x(5, 3, 2), k(5, 2, below=3)),
    "NLLLoss()": (x(5, 3), k(5, below=3)),
    "BCELoss()": (p(3, 4), p(3, 4, seed=5)),
    "BCEWithLogitsLoss()": (x(3, 4), p(3, 4)),
    "KLDivLoss(reduction='batchmean')": (x(3, 4), p(3, 4)),
    "SoftMarginLoss()": (x(3, 4), signs(3, 4)),
    "MultiLabelMarginLoss()": (x(2, 4), np.array([[3, 0, -1, 1], [0, -1, 1, 2]])),
    "MultiLabelSoftMarginLoss()": (x(3, 4), (p(3, 4) > 0.5).astype(float)),
    "MultiMarginLoss(p=2)": (x(5, 3), k(5, below=3)),
    "HingeEmbeddingLoss()": (x(3, 4), signs(3, 4)),
    "CosineEmbeddingLoss(0.2)": (x(3, 4), x(3, 4, seed=1), signs(3)),
    "MarginRankingLoss(0.5)": (x(4), x(4, seed=1), signs(4)),
    "TripletMarginLoss(swap=True)": (x(3, 4), x(3, 4, seed=1), x(3, 4, seed=2)),
    "TripletMarginWithDistanceLoss()": (x(3, 4), x(3, 4, seed=1), x(3, 4, seed=2)),
}

# Positions of arguments that are not differentiable in torch.
CONSTANT = {
    "SoftMarginLoss()": (1,),
    "HingeEmbeddingLoss()": (1,),
    "CosineEmbeddingLoss(0.2)": (2,),
    "MarginRankingLoss(0.5)": (2,),
    "MultiLabelSoftMarginLoss()": (1,),
    "BCELoss()": (1,),
    "BCEWithLogitsLoss()": (1,),
}
# Layers without a second derivative in torch, or with a different computation for it.
ONCE = {
    "Hardsigmoid()",
    "Embedding(6, 3, padding_idx=1, scale_grad_by_freq=True)",  # torch forgets the scale
    "EmbeddingBag(6, 3, mode='sum')",
    "EmbeddingBag(6, 3)",
    "MultiLabelMarginLoss()",
    "MultiMarginLoss(p=2)",
}
# Layers for which torch rounds a constant to float32.
IN_SINGLE_PRECISION = {"Hardsigmoid()", "CELU(0.7)"}


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_agrees_with_torch(layer: str) -> None:
    options: dict[str, Any] = {"constant": CONSTANT.get(layer, ()), "second": layer not in ONCE}
    if layer in IN_SINGLE_PRECISION:
        options["tolerance"] = 1e-7
    assert_alike(lambda nn: eval(f"nn.{layer}", {"nn": nn}), *LAYERS[layer], **options)


def test_deprecated_arguments_of_hardtanh() -> None:
    def ends(nn: Any) -> list[Any]:
        with pytest.warns(FutureWarning) as seen:
            layer = nn.Hardtanh(min_value=-2.0, max_value=3.0)
        return [layer.min_val, layer.max_val, *(str(warning.message) for warning in seen)]

    assert ends(rg.nn) == ends(torch.nn)


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if "Norm" in layer and "ocal" not in layer])
def test_normalisation_layers_in_evaluation_mode(layer: str) -> None:
    assert_alike(lambda nn: eval(f"nn.{layer}", {"nn": nn}), *LAYERS[layer], train=False)


INPLACE = ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "ELU", "CELU", "LeakyReLU", "Hardtanh")


@pytest.mark.parametrize("name", INPLACE)
def test_in_place_activations_overwrite_their_input(name: str) -> None:
    def program(library: Any) -> Any:
        leaf = library.tensor(x(3, 4).tolist(), dtype=library.float64, requires_grad=True)
        y = leaf * 1.0
        z = getattr(library.nn, name)(inplace=True)(y)
        z.sum().backward()
        return z is y, y.detach().numpy(), leaf.grad.numpy()

    ours, theirs = program(rg), program(torch)
    assert ours[0] is theirs[0] is True
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-12)
    np.testing.assert_allclose(ours[2], theirs[2], atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "inputs", "words"),
    [
        ("Linear(4, 2)", (x(3, 5),), ("Linear(in_features=4, out_features=2, bias=True)", "[..., 4]", "[3, 5]")),
        ("Linear(4, 2)", ("text",), ("Linear(", "str")),
        ("Linear(4, 2)", (x(3, 4).astype(np.float32),), ("[..., 4] and dtype float64", "[3, 4] of dtype float32")),
        ("Bilinear(3, 4, 2)", (x(5, 3), x(5, 3)), ("Bilinear(", "[..., 4]", "[5, 3]")),
        ("PReLU(3)", (x(2, 5),), ("PReLU(num_parameters=3)", "[N, 3, ...]", "[2, 5]")),
        ("Softmax2d()", (x(2, 5),), ("Softmax2d", "2D")),
        ("ReflectionPad1d(2)", (x(2, 2),), ("ReflectionPad1d((2, 2))", "[2, 2]")),
        ("RNN(3, 4)", (x(5, 2, 4),), ("RNN(3, 4)", "Expected 3", "got 4")),
        ("RNN(3, 4)", (x(5),), ("RNN(3, 4)", "1D")),
        ("LSTM(3, 4)", (x(5, 2, 3), (x(1, 2, 5), x(1, 2, 4))), ("LSTM(3, 4)", "(1, 2, 4)", "[1, 2, 5]")),
        ("GRUCell(3, 4)", (x(2, 4),), ("GRUCell(3, 4)", "got 4 expected 3")),
        ("MultiheadAttention(4, 2)", (x(5, 2, 3),) * 3, ("MultiheadAttention(embed_dim=4, num_heads=2)", "4", "3")),
        ("BatchNorm2d(3)", (x(2, 3, 4),), ("BatchNorm2d(3", "4D", "3D")),
    ],
)
def test_errors_name_the_layer(layer: str, inputs: tuple[Any, ...], words: tuple[str, ...]) -> None:
    theirs, ours = twins(lambda nn: eval(f"nn.{layer}", {"nn": nn}))

    def as_tensors(library: Any, values: Any) -> Any:
        if isinstance(values, np.ndarray):
            return library.tensor(values)
        return tuple(as_tensors(library, value) for value in values) if isinstance(values, tuple) else values

    with pytest.raises(Exception) as expected:
        theirs(*as_tensors(torch, inputs))
    with pytest.raises(type(expected.value)) as got:
        ours(*as_tensors(rg, inputs))
    said = "\n".join([str(got.value), *getattr(got.value, "__notes__", [])])
    for word in words:
        assert word in said


def _set(name: str, value: Any) -> Any:
    return lambda library, layer: setattr(layer, name, value(library))


@pytest.mark.parametrize(
    ("layer", "shape", "breaks"),
    [
        ("Linear(3, 2)", (2, 3), _set("weight", lambda library: None)),
        ("Linear(3, 2)", (2, 3), _set("weight", lambda library: library.nn.Parameter(library.ones(2, 2)))),
        ("Linear(3, 2)", (2, 3), _set("bias", lambda library: library.nn.Parameter(library.ones(7)))),
        ("Bilinear(3, 3, 2)", (2, 3), _set("bias", lambda library: library.nn.Parameter(library.ones(7)))),
        ("BatchNorm1d(3)", (4, 3), _set("running_mean", lambda library: library.ones(5))),
        ("BatchNorm1d(3)", (4, 3), _set("momentum", lambda library: "much")),
        ("BatchNorm1d(3)", (1, 3), lambda library, layer: None),
        ("GroupNorm(1, 3)", (4, 3), _set("weight", lambda library: library.nn.Parameter(library.ones(5)))),
        ("LayerNorm(3)", (4, 3), _set("weight", lambda library: library.nn.Parameter(library.ones(5)))),
        ("Conv1d(1, 1, 3)", (1, 1, 4), _set("stride", lambda library: (0,))),
        ("Conv1d(1, 1, 5)", (1, 1, 4), lambda library, layer: None),
        ("MaxPool1d(5)", (1, 1, 4), lambda library, layer: None),
        ("PReLU(3)", (4, 3), _set("weight", lambda library: None)),
        ("ReflectionPad1d(2)", (1, 1, 2), lambda library, layer: None),
    ],
)
def test_error_of_a_layer_does_not_blame_an_input_of_the_right_shape(
    layer: str, shape: tuple[int, ...], breaks: Any
) -> None:
    theirs, ours = (module.float() for module in twins(lambda nn: eval(f"nn.{layer}", {"nn": nn})))
    breaks(torch, theirs)
    breaks(rg, ours)
    operands = 2 if layer.startswith("Bilinear") else 1
    with pytest.raises(Exception) as expected:
        theirs(*[torch.ones(shape)] * operands)
    with pytest.raises(type(expected.value)) as got:
        ours(*[rg.ones(shape)] * operands)
    assert "expects" not in str(got.value)
    (note,) = got.value.__notes__
    assert note.startswith(f"in {layer.split('(')[0]}(") and str(list(shape)) in note


def test_error_of_a_parametrization_is_not_reworded() -> None:
    class Broken(rg.nn.Module):
        def forward(self, weight: Any) -> Any:
            if self.training:
                return weight
            raise ValueError("the weight is gone")

    layer = rg.nn.Linear(3, 2)
    rg.nn.utils.parametrize.register_parametrization(layer, "weight", Broken())
    layer.eval()
    with pytest.raises(ValueError, match="the weight is gone") as error:
        layer(rg.ones(2, 3))
    assert str(error.value) == "the weight is gone"


def test_error_about_integer_input_names_the_dtype_of_the_layer() -> None:
    with pytest.raises(RuntimeError, match=r"expects an input of shape \[\.\.\., 3\] and dtype float32, got .* int64"):
        rg.nn.Linear(3, 2)(rg.ones(2, 3, dtype=rg.int64))


def test_error_inside_sequential_names_the_module() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(4, 3), rg.nn.Sequential(rg.nn.ReLU(), rg.nn.Linear(4, 2)))
    with pytest.raises(RuntimeError, match="in_features=4, out_features=2") as error:
        model(rg.ones(2, 4))
    assert error.value.__notes__ == ["in module '1' of Sequential: Linear", "in module '1' of Sequential: Sequential"]


@pytest.mark.parametrize("name", ["Softmax", "Softmin", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 2), (2, 3, 2, 2)])
def test_softmax_guesses_a_missing_dim_as_torch_does(name: str, shape: tuple[int, ...]) -> None:
    values = x(*shape)
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        expected = getattr(torch.nn, name)()(torch.tensor(values))
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        got = getattr(rg.nn, name)()(rg.tensor(values))
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        "Bilinear(0, 3, 2)",
        "Hardtanh(1.0, 0.0)",
        "Dropout(1.5)",
        "Unflatten(1, 3.5)",
        "GroupNorm(3, 4)",
        "Conv2d(3, 4, 3, groups=2)",
        "Conv2d(3, 4, 3, padding='same', stride=2)",
        "Conv2d(3, 4, 3, padding='full')",
        "Conv2d(3, 4, 3, padding_mode='mirror')",
        "ConvTranspose2d(3, 4, 3, padding_mode='reflect')",
        "MultiheadAttention(5, 2)",
        "MultiheadAttention(0, 2)",
        "LSTM(3, 4, proj_size=4)",
        "RNN(3, 4, proj_size=2)",
        "GRU(3, 4, proj_size=0)",
        "LSTM(3, 4, dropout=2.0)",
        "RNN(3, 4, nonlinearity='sin')",
        "GRU(3.0, 4)",
        "GRU(0, 4)",
        "TripletMarginLoss(margin=0)",
        "MultiMarginLoss(p=3)",
        "Embedding(4, 3, padding_idx=4)",
        "TransformerEncoderLayer(4, 2, activation='tanh')",
        "Linear(-1, 2)",
        "FractionalMaxPool2d(3)",
        "FractionalMaxPool2d(3, 2, 0.5)",
        "FractionalMaxPool2d(3, output_ratio=1.5)",
        "FractionalMaxPool3d(0, 2)",
        "AdaptiveLogSoftmaxWithLoss(8, 10, [])",
        "AdaptiveLogSoftmaxWithLoss(8, 10, [5, 2])",
        "AdaptiveLogSoftmaxWithLoss(8, 10, [2, 10])",
        "AdaptiveLogSoftmaxWithLoss(8, 10, [0, 2])",
        "LinearCrossEntropyLoss(3, 4, label_smoothing=2.0)",
    ],
)
def test_layer_constructors_refuse_wrong_arguments(layer: str) -> None:
    with pytest.raises(Exception) as expected:
        eval(f"nn.{layer}", {"nn": torch.nn})
    with pytest.raises(type(expected.value)):
        eval(f"nn.{layer}", {"nn": rg.nn})


@parity
def test_subclasses_of_convolution_layers(m: Any) -> Any:
    class Standardized(m.nn.Conv2d):  # type: ignore[misc]
        """Calls the convolution with its own weight."""

        def forward(self, input: Any) -> Any:
            weight = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
            return self._conv_forward(input, weight, self.bias)

    class Doubled(m.nn.Conv1d):  # type: ignore[misc]
        """Replaces the convolution."""

        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            padded = m.nn.functional.pad(input, self._reversed_padding_repeated_twice)
            return m.nn.functional.conv1d(padded, 2 * weight, bias, self.stride, 0, self.dilation, self.groups)

    layers = [
        Standardized(2, 3, (2, 3), padding=(0, 1), padding_mode="circular", dtype=m.float64),
        Standardized(2, 3, 3, padding="same", bias=False, dtype=m.float64),
        Doubled(2, 3, 4, padding="same", dilation=3, dtype=m.float64),
    ]
    report = []
    for layer in layers:
        with m.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(m.linspace(-1, 1, parameter.numel(), dtype=m.float64).reshape(parameter.shape))
        shape = (2, 2, 5, 6)[: layer.weight.ndim]
        input = m.linspace(-1, 2, math.prod(shape), dtype=m.float64).reshape(shape).requires_grad_()
        output = layer(input)
        output.square().sum().backward()
        report += [layer._reversed_padding_repeated_twice, output, input.grad, layer.weight.grad]
    return report


@parity
def test_subclasses_of_the_base_class_of_convolutions(m: Any) -> Any:
    class Scaled(m.nn.modules.conv._ConvNd):  # type: ignore[misc]
        """Passes eleven arguments to the base class, as layers with weight standardisation do."""

        def __init__(self, channels: int, kernel_size: tuple[int, ...]) -> None:
            one = (1,) * len(kernel_size)
            super().__init__(channels, 3, kernel_size, one, one, one, False, (0,) * len(one), 1, True, "zeros")
            self.gain = m.nn.Parameter(m.ones(1))

        def forward(self, input: Any) -> Any:
            convolution = m.nn.functional.conv1d if len(self.kernel_size) == 1 else m.nn.functional.conv2d
            return convolution(input, self.gain * self.weight, self.bias, self.stride, self.padding)

    layers = [Scaled(2, (3,)), Scaled(1, (2, 3))]
    outputs = [layers[0](m.ones(2, 2, 5)), layers[1](m.ones(2, 1, 4, 4))]
    return [[output.shape for output in outputs], [repr(layer) for layer in layers], layers[1].weight.shape]


@parity
def test_subclasses_of_the_base_class_of_batch_norms(m: Any) -> Any:
    class Anything(m.nn.modules.batchnorm._BatchNorm):  # type: ignore[misc]
        def _check_input_dim(self, input: Any) -> None:
            pass

    layer = Anything(3, dtype=m.float64)
    return [
        layer(m.arange(24, dtype=m.float64).reshape(2, 3, 2, 1, 2, 1)),
        attempt(lambda: layer(m.ones(2, 4, dtype=m.float64))),
    ]
