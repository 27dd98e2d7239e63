"""Warnings point to the user's line, however deep inside the package they arise."""

from __future__ import annotations

import ast
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.autograd import gradcheck, gradgradcheck, profiler
from retrograd.nn import functional as F
from retrograd.optim import lr_scheduler
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential
from retrograd.utils.data import DataLoader, default_collate

PACKAGE = Path(rg.__file__).parent


def leaf(*shape: int) -> rg.Tensor:
    return rg.ones(shape, requires_grad=True)


def hooked() -> rg.Tensor:
    x = leaf(2)
    x.register_hook(lambda grad: None)
    return x


def scheduler(kind: Any = lr_scheduler.ExponentialLR, *args: Any) -> Any:
    return kind(optim.SGD([leaf(2)], lr=0.1), *(args or (0.9,)))


def chained(kind: Any) -> Any:
    inner = scheduler()
    return kind([inner]) if kind is lr_scheduler.ChainedScheduler else kind(inner.optimizer, [inner], [])


class Nothing(nn.Module):
    """A module whose output is not a tensor."""

    def forward(self, x: rg.Tensor) -> dict[str, rg.Tensor]:
        return {"x": x}


def watched(module: nn.Module) -> nn.Module:
    module.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    return module


def weighted(x: rg.Tensor) -> rg.Tensor:
    return x * x.detach()


ATTENTION = nn.MultiheadAttention(2, 1)
ENCODER = nn.TransformerEncoderLayer(2, 1, 2)
MASKS = {"attn_mask": rg.zeros(3, 3), "key_padding_mask": rg.zeros(1, 3, dtype=rg.bool)}
PAIR = rg.ones(2, 1), rg.ones(2, 2)
SAMPLES = [{"x": 1.0}, {"x": leaf()}]
TWICE = [leaf(2)] * 2
COMPLEX = rg.ones(2, 2) * 1j

# every call has its own line, and each warns at that line
CASES: dict[str, Callable[[], Any]] = {
    # ops
    "cov": lambda: rg.cov(rg.ones(2, 1)),
    "np.cov": lambda: np.cov(leaf(2, 1)),
    "float()": lambda: float(leaf()),
    "array[0] = tensor": lambda: np.ones(2).__setitem__(0, leaf()),
    "cast": lambda: COMPLEX.to(rg.float32),
    "cast by a method": lambda: COMPLEX.float(),
    "cast by another tensor": lambda: COMPLEX.type_as(rg.ones(1)),
    "cast in a module": lambda: nn.ParameterList([COMPLEX]).to(rg.float32),
    "index": lambda: rg.ones(2, 2)[[[0], [1]]],
    "index of bytes": lambda: rg.ones(2)[rg.ones(2, dtype=rg.uint8)],
    "index of bytes in a tuple": lambda: rg.ones(2, 2)[0, rg.ones(2, dtype=rg.uint8)],
    "write at an index of bytes": lambda: rg.ones(2, 2).__setitem__((0, rg.ones(2, dtype=rg.uint8)), 1),
    "stft": lambda: rg.stft(rg.ones(8), 4, return_complex=True),
    "istft": lambda: rg.istft(rg.ones(3, 2) * (1 + 0j), 4, window=rg.ones(4), center=False, length=9),
    "grid_sample": lambda: F.grid_sample(rg.ones(1, 1, 2, 2), rg.zeros(1, 2, 2, 2)),
    "mse_loss": lambda: F.mse_loss(*PAIR),
    "MSELoss": lambda: nn.MSELoss()(*PAIR),
    "MSELoss in a container": lambda: nn.ModuleDict({"loss": nn.MSELoss()})["loss"](*PAIR),
    "kl_div": lambda: nn.KLDivLoss()(rg.zeros(2), rg.zeros(2)),
    "size_average": lambda: nn.L1Loss(size_average=False),
    "tensor": lambda: rg.tensor(rg.ones(2)),
    # nn
    "softmax": lambda: F.softmax(rg.ones(2)),
    "Softmax": lambda: nn.Softmax()(rg.ones(2)),
    "Softmax in a Sequential": lambda: nn.Sequential(nn.Sequential(nn.Softmax()))(rg.ones(2)),
    "dropout2d": lambda: F.dropout2d(rg.ones(2, 2, 2)),
    "Dropout2d": lambda: nn.Dropout2d()(rg.ones(2, 2)),
    "Dropout2d in a Sequential": lambda: nn.Sequential(nn.Dropout2d())(rg.ones(2, 2, 2)),
    "Dropout3d": lambda: nn.Dropout3d()(rg.ones(2, 2)),
    "upsample": lambda: F.upsample(rg.ones(1, 1, 2), 4),
    "LSTM": lambda: nn.LSTM(1, 1, dropout=0.5),
    "RNN": lambda: nn.RNN(1, 1, dropout=0.5),
    "MultiheadAttention": lambda: ATTENTION(*[rg.ones(3, 1, 2)] * 3, **MASKS),
    "TransformerEncoderLayer": lambda: ENCODER(rg.ones(3, 1, 2), MASKS["attn_mask"], MASKS["key_padding_mask"]),
    "backward hook": lambda: watched(Nothing())(rg.ones(2)),
    "backward hook inside": lambda: nn.Sequential(watched(Nothing()))(rg.ones(2)),
    "weight_norm": lambda: nn.utils.weight_norm(nn.Linear(1, 1)),
    "stateless": lambda: nn.utils.stateless.functional_call(nn.Linear(1, 1), {}, rg.ones(1)),
    "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_((p for p in ()), 1.0),
    "clip_grad_value_": lambda: nn.utils.clip_grad_value_((p for p in ()), 1.0),
    # init
    "kaiming_uniform_": lambda: nn.init.kaiming_uniform_(rg.empty(0, 2)),
    "kaiming_normal_": lambda: nn.init.kaiming_normal_(rg.empty(0, 2)),
    "Linear": lambda: nn.Linear(0, 2),
    "Linear in a Sequential": lambda: nn.Sequential(nn.Linear(0, 2)),
    # optim
    "SGD": lambda: optim.SGD(TWICE, lr=0.1),
    "AdamW": lambda: optim.AdamW([{"params": TWICE}]),
    "add_param_group": lambda: optim.SGD([leaf(1)], lr=0.1).add_param_group({"params": TWICE}),
    # schedulers
    "scheduler.step": lambda: scheduler().step(),
    "epoch": lambda: scheduler(lr_scheduler.ReduceLROnPlateau, "min").step(1.0, epoch=2),
    "get_lr": lambda: scheduler().get_lr(),
    "ChainedScheduler": lambda: chained(lr_scheduler.ChainedScheduler).step(),
    "SequentialLR": lambda: chained(lr_scheduler.SequentialLR).step(),
    # random
    "random_": lambda: rg.empty(2).random_(0, 2**30),
    "randint": lambda: rg.randint(0, 2**30, (2,), dtype=rg.float32),
    "randint_like": lambda: rg.randint_like(rg.ones(2), 2**30),
    # utils
    "default_collate": lambda: default_collate(SAMPLES),
    "DataLoader": lambda: next(iter(DataLoader(SAMPLES, batch_size=2))),
    "DataLoader in a loop": lambda: [batch["x"] for batch in DataLoader(SAMPLES, batch_size=2)],
    "checkpoint": lambda: checkpoint(weighted, leaf(2)),
    "checkpoint of constants": lambda: checkpoint(weighted, rg.ones(2), use_reentrant=True),
    "checkpoint_sequential": lambda: checkpoint_sequential([nn.ReLU(), nn.ReLU()], 2, leaf(2)),
    # autograd
    "grad of a result": lambda: (leaf(2) * 2).grad,
    "grad_variables": lambda: rg.autograd.backward(leaf(), grad_variables=rg.ones(())),
    "only_inputs": lambda: rg.autograd.grad(leaf(2).sum(), leaf(2), only_inputs=False, allow_unused=True),
    "create_graph": lambda: (leaf() * 2).backward(create_graph=True),
    "backward(create_graph)": lambda: rg.autograd.backward(leaf() * 2, create_graph=True),
    "gradcheck": lambda: gradcheck(weighted, leaf(2), raise_exception=False),
    "gradgradcheck": lambda: gradgradcheck(weighted, leaf(2), raise_exception=False),
    "Function": lambda: rg.autograd.Function(),
    "Variable": lambda: rg.autograd.Variable(rg.ones(2), volatile=True),
    "no_grad on a class": lambda: rg.no_grad()(type("Model", (), {})),
    "profile": lambda: profiler.profile(use_device="xpu"),
    "use_cuda": lambda: profiler.profile(use_cuda=True),
    # the rest
    "pickle": lambda: pickle.dumps(hooked()),
    "set_float32_matmul_precision": lambda: rg.set_float32_matmul_precision("low"),
    "autocast": lambda: rg.autocast("cpu"),
}


@pytest.mark.parametrize("name", CASES)
def test_warnings_point_to_the_line_of_the_user(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rg.autograd, "_cycle_warning_given", False)
    call = CASES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"retrograd\.")  # the filters of the package
        call()
    assert caught
    assert {(each.filename, each.lineno) for each in caught} == {(__file__, call.__code__.co_firstlineno)}


def depths() -> Iterator[str]:
    """Return the places where the package gives a number of frames for a warning."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                yield path.relative_to(PACKAGE).as_posix()


def test_warning_frames_are_counted_in_one_place() -> None:
    """The number depends on the call path; the detector imports nothing from the package and counts its own."""
    assert {path for path in depths() if not path.startswith("anomaly/")} == {"core/sites.py"}
