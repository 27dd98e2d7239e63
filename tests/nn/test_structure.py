"""The structure of modules, compared with torch: repr, and keys, shapes and order of the state dict."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from typing import Any

import pytest
import torch
import torch.nn.utils.prune

import retrograd as rg
from tests.parity import parity

MODULES = """
Linear(4, 2)
Linear(4, 2, bias=False)
Bilinear(2, 3, 4)
Identity(3)
Flatten(0, 1)
Unflatten(1, (2, 3))
ReLU()
ReLU(True)
ReLU6()
SELU(True)
SiLU()
Mish(True)
Hardswish(True)
Hardsigmoid()
ELU(0.5, True)
CELU()
LeakyReLU(0.2)
RReLU()
Hardtanh(-2.0, 2.0)
Threshold(0.1, 20)
Sigmoid()
LogSigmoid()
Tanh()
Tanhshrink()
Softsign()
Softplus(2)
Softshrink()
Hardshrink(0.3)
GELU('tanh')
PReLU(3)
GLU()
Softmax(1)
Softmin(1)
LogSoftmax(1)
Softmax2d()
Dropout(0.2)
Dropout1d()
Dropout2d()
Dropout3d()
AlphaDropout(0.1)
FeatureAlphaDropout()
RNN(3, 4)
RNN(3, 4, 2, nonlinearity='relu', bias=False, batch_first=True, dropout=0.5, bidirectional=True)
LSTM(3, 4, 2, proj_size=2)
GRU(3, 4, bidirectional=True)
RNNCell(3, 4)
RNNCell(3, 4, False, 'relu')
LSTMCell(3, 4)
GRUCell(3, 4, bias=False)
MultiheadAttention(4, 2)
MultiheadAttention(4, 2, bias=False, add_bias_kv=True, kdim=3, vdim=5)
TransformerEncoderLayer(4, 2, 8)
TransformerDecoderLayer(4, 2, 8, norm_first=True, bias=False)
TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)
Transformer(4, 2, 1, 1, 8)
Conv1d(2, 4, 3)
Conv2d(2, 4, (3, 2), padding=1, stride=2, dilation=2, groups=2, bias=False)
Conv3d(1, 2, 3, padding='same')
Conv2d(2, 4, 3, padding_mode='reflect', padding=1)
ConvTranspose1d(2, 4, 3)
ConvTranspose2d(2, 4, 3, stride=2, output_padding=1)
ConvTranspose3d(2, 4, 3)
MaxPool1d(2)
MaxPool2d(2, 1, 1)
MaxPool3d((2, 2, 2))
MaxUnpool2d(2)
AvgPool1d(2)
AvgPool2d(2)
LPPool2d(2, 3)
AdaptiveAvgPool2d((2, None))
AdaptiveMaxPool2d(2, True)
ZeroPad1d(1)
ZeroPad2d((1, 2, 3, 4))
FractionalMaxPool2d(2, (3, 4))
FractionalMaxPool3d(2, output_ratio=0.5, return_indices=True)
ConstantPad1d(1, 2.5)
ReflectionPad2d(1)
ReplicationPad3d(1)
CircularPad1d(2)
Embedding(5, 3)
Embedding(5, 3, padding_idx=-1, max_norm=2.0, norm_type=3.0, scale_grad_by_freq=True, sparse=True)
EmbeddingBag(5, 3)
EmbeddingBag(5, 3, mode='sum', padding_idx=1)
BatchNorm1d(3)
BatchNorm2d(3, affine=False)
BatchNorm3d(3, track_running_stats=False, momentum=None)
InstanceNorm1d(3)
InstanceNorm2d(3, affine=True, track_running_stats=True)
LayerNorm(3)
LayerNorm([2, 3], bias=False)
LayerNorm(3, elementwise_affine=False)
RMSNorm((2, 3), eps=1e-3)
GroupNorm(2, 4)
LocalResponseNorm(2)
CrossMapLRN2d(2)
DataParallel(nn.Linear(2, 3))
SyncBatchNorm(3, bias=False)
MSELoss(reduction='sum')
CrossEntropyLoss()
BCEWithLogitsLoss()
LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True, ignore_index=1)
AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0, head_bias=True)
TripletMarginWithDistanceLoss()
CosineSimilarity()
PixelShuffle(2)
PixelUnshuffle(2)
ChannelShuffle(2)
Unfold(2)
Fold((4, 4), 2)
Upsample(scale_factor=2)
Upsample(size=(3, 4), mode='bilinear')
UpsamplingBilinear2d(size=4)
Sequential(nn.Linear(2, 3), nn.ReLU())
Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Tanh())[1:]
Sequential()
ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.ModuleList([nn.ReLU(), nn.ReLU()])])
ModuleList()
ModuleDict({'a': nn.ReLU(), 'b': nn.Linear(2, 2)})
ModuleDict()
""".strip().splitlines()


def both(text: str) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(f"nn.{text}", {"nn": torch.nn}), eval(f"nn.{text}", {"nn": rg.nn})


def keys(module: Any) -> Any:
    state = [(name, tuple(value.shape), str(value.dtype).split(".")[-1]) for name, value in module.state_dict().items()]
    return state, [name for name, _ in module.named_parameters()], [name for name, _ in module.named_modules()]


@pytest.mark.parametrize("text", MODULES)
def test_modules_have_torchs_repr_and_state_dict_keys(text: str) -> None:
    theirs, ours = both(text)
    assert repr(ours) == repr(theirs)
    assert keys(ours) == keys(theirs)


@pytest.mark.parametrize("text", MODULES)
def test_every_module_survives_pickle_and_deepcopy(text: str) -> None:
    _, module = both(text)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(twin) == repr(module)
        assert keys(twin) == keys(module)
        for got, expected in zip(twin.parameters(), module.parameters(), strict=True):
            assert got is not expected
            assert got.requires_grad
            assert isinstance(got, rg.nn.Parameter)
            assert (got == expected).all()


def test_public_names_of_nn_exist_in_torch() -> None:
    for name in rg.nn.__all__:
        assert hasattr(torch.nn, name), name
    utils = ("fusion", "init", "parametrize", "parametrizations", "prune", "rnn", "stateless")
    for space in ("init", "parameter", "utils", *(f"utils.{name}" for name in utils)):
        ours: Any = rg.nn
        theirs: Any = torch.nn
        for part in space.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        for name in ours.__all__:
            assert hasattr(theirs, name), name
            assert hasattr(ours, name), name


def test_nn_is_imported_on_first_use() -> None:
    import subprocess
    import sys

    code = (
        "import sys, retrograd as rg; assert 'retrograd.nn' not in sys.modules; rg.nn.Linear; "
        "from retrograd import nn; import retrograd.nn as again; assert nn is again is rg.nn"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@parity
def test_one_number_stands_for_all_dimensions(m: Any) -> Any:
    utils = importlib.import_module(f"{m.__name__}.nn.modules.utils")
    made = [make(value) for make in (utils._single, utils._pair, utils._triple) for value in (2, (1, 2), [3])]
    return [*made, utils._quadruple(1), utils._ntuple(5)("ab"), utils._ntuple(2)(0.5)]


@pytest.mark.parametrize("name", ["_size_any_t", "_size_1_t", "_size_2_t", "_size_3_t", "_ratio_any_t", "_ratio_2_t"])
def test_common_types_are_torchs(name: str) -> None:
    assert getattr(rg.nn.common_types, name) == getattr(torch.nn.common_types, name)
