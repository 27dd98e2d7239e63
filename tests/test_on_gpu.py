"""Programs give the same results on a GPU as on the CPU, and their tensors stay there.

Where CuPy finds a GPU, they run on that; everywhere else on :mod:`tests.strict_cupy`, which computes with NumPy and
refuses what CuPy refuses. What is right on the CPU is for the other tests to say.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional as F
from tests.ops.harness import Bound, Make, Row, differentiable
from tests.ops.table import ROWS
from tests.ops.test_table import weights_for
from tests.strict_cupy import installed


@pytest.fixture(scope="module", autouse=True)
def cupy() -> Iterator[Any]:
    """Return CuPy if there is a GPU, else the stand-in."""
    with contextlib.ExitStack() as stack:
        if not rg.cuda.is_available():
            stack.enter_context(installed())
        yield sys.modules["cupy"]


def arrays_of(value: Any, device: str) -> Any:
    """Return the tensors in a result as NumPy arrays; they must be on the device."""
    if isinstance(value, rg.Tensor):
        assert value.device.type == device, f"a tensor of shape {list(value.shape)} is on {value.device}"
        return value.detach().cpu().numpy(force=True)
    if isinstance(value, dict):
        return {key: arrays_of(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [arrays_of(item, device) for item in value]
    return value


def assert_equal(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol, atol)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        assert_equal(list(a.values()), list(b.values()), rtol, atol)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right, rtol, atol)
    else:
        assert a == b


def same_on_gpu(program: Callable[[str], Any]) -> Callable[[], None]:
    """Turn a program that takes the device into a test."""

    def test() -> None:
        results = []
        for device in ("cpu", "cuda"):
            rg.manual_seed(0)
            results.append(arrays_of(program(device), device))
        assert isinstance(results[0], np.ndarray) or results[0], "the program reports nothing"
        assert_equal(*results)

    test.__doc__ = program.__doc__
    return test


def trained(model: Any, optimizer: Any, loss_of: Callable[[], Any], steps: int = 3) -> list[Any]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *model.state_dict().values(), *[p.grad for p in model.parameters() if p.grad is not None]]


def made(build: Callable[[], Any], device: str) -> Any:
    """Return a module with the same parameters on every device."""
    rg.manual_seed(1)
    return build().to(device)


# --- operations -------------------------------------------------------------------------------------------------------

# without tensor arguments they create tensors on the CPU
_MAKERS = {"fft.fftfreq", "fft.rfftfreq"}
# eigenvectors have an arbitrary phase, and CuPy computes in a different order than LAPACK
_DTYPES = ("float64", "complex128", "float32", "int64")
_EVERY_SAMPLE = bool(os.environ.get("RETROGRAD_EVERY_SAMPLE"))  # this says something only on a GPU
_TOLERANCE = {"float16": (2e-2, 1e-2), "float32": (2e-3, 1e-4), "complex64": (2e-3, 1e-4)}


def on(device: str, array: Any) -> Any:
    """Makes tensors for :class:`Bound`."""
    return rg.from_numpy(array).to(device)


def reported(row: Row, sample: Any, device: str) -> Any:
    """Return the results of an operation, its first and second derivatives, and the results of in-place forms."""
    bound = Bound(row, sample, lambda array: on(device, array), rg, row.gradients)
    outputs = bound.run(row.function)
    if row.post is not None:
        outputs = row.post([each.cpu() for each in outputs])
        return [each if isinstance(each, np.ndarray) else each.detach().numpy() for each in outputs]
    report: list[Any] = [outputs]
    followed = differentiable(outputs)
    if followed and bound.leaves:
        weights = [on(device, weight) for weight in weights_for([each.detach().cpu() for each in followed])]
        grads = rg.autograd.grad(followed, bound.leaves, weights, create_graph=row.second, allow_unused=True)
        report.append(grads)
        again = differentiable(list(grads))
        if again:
            report.append(rg.autograd.grad(again, bound.leaves, [g.detach() for g in again], allow_unused=True))
    if row.inplace and sample.args[0].flags.c_contiguous and bound.args[0].shape == outputs[0].shape:
        target = bound.args[0].detach().clone()
        with contextlib.suppress(RuntimeError):  # a result of another kind does not fit in place
            report.append(getattr(target, f"{row.name}_")(*bound.args[1:], **bound.kwargs))
    return report


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS if row.name not in _MAKERS])
def test_operations_on_a_gpu(row: Row) -> None:
    """Check one dtype and some samples of a row of the table; an option selects all samples."""
    if _EVERY_SAMPLE:
        pairs = [(dtype, sample) for dtype in row.dtypes for sample in row.samples(Make(dtype))]
    else:
        dtype = next((each for each in _DTYPES if each in row.dtypes), row.dtypes[0])
        pairs = [(dtype, sample) for sample in list(row.samples(Make(dtype)))[:3]]
    for dtype, sample in pairs:
        results = [arrays_of(reported(row, sample, device), device) for device in ("cpu", "cuda")]
        assert_equal(*results, *_TOLERANCE.get(dtype, ()))


def or_error(row: Row, sample: Any, device: str) -> Any:
    try:
        return arrays_of(reported(row, sample, device), device)
    except Exception as error:
        return [type(error).__name__]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name) for row in ROWS if _EVERY_SAMPLE and row.name not in _MAKERS]
)
def test_nan_and_inf_propagate_as_on_the_cpu(row: Row) -> None:
    """In particular, NaN appears in the same places."""
    dtype = next((each for each in _DTYPES if each in row.dtypes and each != "int64"), None)
    if dtype is None:
        return
    different = []
    for number in (np.nan, np.inf, -np.inf):
        for place in range(3):
            sample = copy.deepcopy(next(iter(row.samples(Make(dtype)))))
            arrays = [each for each in sample.args if isinstance(each, np.ndarray) and each.dtype.kind in "fc"]
            if place >= len(arrays) or not arrays[place].size or not arrays[place].flags.writeable:
                continue
            arrays[place].flat[arrays[place].size // 2] = number
            with np.errstate(all="ignore"):
                results = [or_error(row, sample, device) for device in ("cpu", "cuda")]
            try:
                assert_equal(*results)
            except AssertionError as error:
                different.append(f"{number} in argument {place}: {' '.join(str(error).split())[:600]}")
    assert not different, "\n".join(different)


# --- modules ----------------------------------------------------------------------------------------------------------

MODULES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)),
            lambda: rg.randn(5, 6)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2),
                              nn.ConvTranspose2d(4, 2, 2, stride=2), nn.AvgPool2d(2), nn.Flatten()),
        lambda: rg.randn(3, 2, 8, 8),
    ),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2, padding=1), lambda: rg.randn(2, 4, 11)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), lambda: rg.randn(2, 2, 4, 4, 4)),
    "norms": (
        lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True), nn.LayerNorm(6), nn.RMSNorm(6),
                              nn.BatchNorm1d(4), nn.LocalResponseNorm(2)),
        lambda: rg.randn(3, 4, 6),
    ),
    "pools": (
        lambda: nn.Sequential(nn.AdaptiveAvgPool2d((5, 4)), nn.AdaptiveMaxPool2d(3), nn.LPPool2d(2, 2)),
        lambda: rg.randn(2, 3, 7, 9),
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), lambda: rg.randn(2, 5, 8)
    ),
    "lstm": (lambda: nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True), lambda: rg.randn(3, 5, 4)),
    "gru": (lambda: nn.GRU(4, 6), lambda: rg.randn(5, 3, 4)),
    "rnn": (lambda: nn.RNN(4, 6, nonlinearity="relu"), lambda: rg.randn(5, 3, 4)),
    "cells": (lambda: nn.LSTMCell(4, 6), lambda: rg.randn(3, 4)),
    "embedding": (lambda: nn.Embedding(10, 4, padding_idx=0), lambda: rg.randint(0, 10, (3, 5))),
    "bags": (lambda: nn.EmbeddingBag(10, 4, mode="max"), lambda: rg.randint(0, 10, (3, 5))),
    "upsampling": (lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)),
                   lambda: rg.randn(1, 4, 3, 3)),
    "activations": (
        lambda: nn.Sequential(nn.PReLU(), nn.SiLU(), nn.Softplus(), nn.Softmax(-1), nn.LogSoftmax(-1), nn.ELU(),
                              nn.Hardswish(), nn.GLU()),
        lambda: rg.randn(4, 6),
    ),
    "parametrized": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), lambda: rg.randn(3, 6)),
    "spectral": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)), lambda: rg.randn(3, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_training_modules_on_a_gpu(name: str) -> None:
    """Training steps give the same losses, parameters, gradients and buffers."""

    @same_on_gpu
    def test(device: str) -> Any:
        build, make_input = MODULES[name]
        model = made(build, device)
        x = make_input().to(device)
        if x.is_floating_point():
            x.requires_grad_()
        parameters = list(model.parameters())

        def loss_of() -> Any:
            output = model(x)
            output = output[0] if isinstance(output, tuple) else output
            return (output * output.detach().cos()).sum()

        if not parameters:
            loss_of().backward()
            return x.grad
        steps = trained(model, rg.optim.SGD(parameters, lr=0.01, momentum=0.9), loss_of)
        return [*steps, x.grad]

    test()


@pytest.mark.parametrize("is_relative", [True, False])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_initialization_on_a_gpu(kind: str, is_relative: bool) -> None:
    @same_on_gpu
    def test(device: str) -> Any:
        layer = made(lambda: nn.Linear(3, 5), device)
        nn.utils.parametrizations.orthogonal(layer, "weight", kind, use_trivialization=is_relative)
        layer(rg.ones(2, 3, device=device)).sum().backward()
        return [layer.weight, layer.parametrizations.weight.original.grad]

    test()


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, "Adam": {"amsgrad": True}, "AdamW": {},
    "NAdam": {}, "RAdam": {}, "Adamax": {}, "Adagrad": {}, "Adadelta": {},
    "RMSprop": {"centered": True, "momentum": 0.5}, "Rprop": {}, "ASGD": {}, "Adafactor": {}, "LBFGS": {"max_iter": 3},
    "Muon": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_on_a_gpu(name: str) -> None:
    """Parameters after some steps are equal, and the state is on their device."""

    @same_on_gpu
    def test(device: str) -> Any:
        model = made(lambda: nn.Linear(5, 4, bias=name != "Muon"), device)
        x = rg.randn(6, 5).to(device)
        optimizer = getattr(rg.optim, name)(model.parameters(), **OPTIMIZERS[name])

        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).tanh().square().sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        restored = getattr(rg.optim, name)(model.parameters(), **OPTIMIZERS[name])
        restored.load_state_dict(optimizer.state_dict())
        restored.step(closure)
        return list(model.parameters())

    test()


@same_on_gpu
def test_optimizing_a_parameter_that_is_not_contiguous(device: str) -> Any:
    """Some code copies it into a vector and back."""
    w = rg.randn(3, 4).to(device).t().requires_grad_()
    optimizer = rg.optim.Adam([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return w


@same_on_gpu
def test_losses_on_a_gpu(device: str) -> Any:
    x = rg.randn(6, 4).to(device).requires_grad_()
    classes = rg.randint(0, 4, (6,)).to(device)
    other = rg.rand(6, 4).to(device)
    signs = classes.sign() * 2 - 1
    log_probs = x.reshape(6, 1, 4).log_softmax(-1)
    losses = [
        F.cross_entropy(x, classes), F.cross_entropy(x, classes, weight=other[0], label_smoothing=0.1),
        F.nll_loss(x.log_softmax(1), classes), F.mse_loss(x, other), F.l1_loss(x, other), F.smooth_l1_loss(x, other),
        F.huber_loss(x, other), F.binary_cross_entropy(x.sigmoid(), other),
        F.kl_div(x.log_softmax(1), other, reduction="batchmean"),
        F.binary_cross_entropy_with_logits(x, other), F.multi_margin_loss(x, classes), F.poisson_nll_loss(x, other),
        F.gaussian_nll_loss(x, other, other), F.hinge_embedding_loss(x[:, 0], signs),
        F.soft_margin_loss(x[:, 0], signs), F.cosine_embedding_loss(x, other, signs),
        F.triplet_margin_loss(x, other, other + 1),
        F.multilabel_margin_loss(x, classes[:4].expand(6, 4)), F.multilabel_soft_margin_loss(x, other.round()),
        F.margin_ranking_loss(x[:, 0], x[:, 1], signs),
        F.ctc_loss(log_probs, rg.tensor([[1, 2]]).to(device), [6], [2]),
    ]  # fmt: skip
    rg.stack(losses).sum().backward()
    return [*losses, x.grad]


# --- tensors ----------------------------------------------------------------------------------------------------------


@same_on_gpu
def test_creation_on_a_gpu(device: str) -> Any:
    on = {"device": device}
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]], **on)
    return [
        x, rg.zeros(2, **on), rg.ones(2, dtype=rg.int64, **on), rg.full((2,), 7, **on), rg.eye(3, 2, **on),
        rg.arange(1, 7, 2, **on), rg.linspace(0, 1, 5, **on), rg.logspace(0, 1, 3, **on), rg.empty(2, **on).zero_(),
        rg.as_tensor(np.arange(3), **on), rg.asarray([1, 2], **on), rg.tril_indices(3, 3, **on),
        rg.scalar_tensor(2, **on), rg.zeros_like(x), rg.ones_like(x.T), rg.full_like(x, 3), x.new_tensor([1]),
        x.new_zeros(2),
        x.new_full((2,), 5), rg.rand(3, **on), rg.randn(3, dtype=rg.float64, **on), rg.randint(0, 9, (4,), **on),
        rg.randperm(5, **on),
        rg.rand_like(x), rg.bernoulli(x / 5), rg.normal(0.0, x), rg.poisson(x), rg.multinomial(x, 2),
        rg.empty(5, **on).exponential_(), rg.empty(5, **on).uniform_(-1, 1), rg.empty(5, **on).random_(10),
        rg.empty_strided((2, 2), (1, 2), **on).zero_(), rg.complex(x, x), rg.hann_window(4, **on),
        rg.tensor(1.5, **on), rg.tensor([], **on), rg.from_numpy(np.float64([1, 2])).to(device),
    ]  # fmt: skip


@same_on_gpu
def test_indexing_on_a_gpu(device: str) -> Any:
    x = rg.arange(24.0, device=device).reshape(2, 3, 4).requires_grad_()
    rows, mask = rg.tensor([1, 0, -1], device=device), x.detach() > 5
    y = x.clone()
    y[0, 1:] = 7
    y[:, rg.tensor([0, 2])] *= 2  # indices may be on the CPU
    y[mask] = 0.5
    y[rows[:2], rows[:2]] = rg.ones(4, device=device)
    picked = [
        x[0], x[..., -1], x[:, None], x[rows[:2]], x[:, rows], x[mask], x[[0, 1], [2, 0]], x[rows[0]], x[1, :, ::2],
        x.gather(1, rows.reshape(1, 3, 1) % 3), x.index_select(2, rows % 4), x.masked_fill(mask, -1), x.take(rows % 24),
        x.scatter(2, rows.reshape(1, 3, 1) % 4, 9.0), x.masked_select(mask), rg.where(mask, x, 0.0), x[np.array([0])],
        x.index_add(0, rows[:2], x), x.unfold(2, 2, 1), x.roll(1, 0), x.flip(1), x.sort(-1).values, x.topk(2).values,
    ]  # fmt: skip
    loss = sum((part * part).sum() for part in [y, *picked])
    loss.backward()
    return [
        y,
        *picked,
        x.grad,
        loss,
        x.tolist(),
        x[0, 0, 0].item(),
        len(x),
        [float(e) for e in x.detach()[0, 0]],
        3.0 in x,
    ]


@same_on_gpu
def test_in_place_writes_on_a_gpu(device: str) -> Any:
    x = rg.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    y = x * 2
    y[0].mul_(3).add_(1)
    y.T[1].exp_()
    y = y + 1
    y += 1
    y.diagonal().fill_(2)
    y.clamp_(max=5)[0].copy_(rg.arange(3.0))  # from another device
    z = x.clone().masked_fill_(x.detach() > 3, 0).index_fill_(0, rg.tensor([0], device=device), 4)
    (y * z).sum().backward()
    out = rg.empty(2, 3, device=device)
    rg.add(x.detach(), 1, out=out)
    return [y, z, x.grad, out]


@same_on_gpu
def test_linear_algebra_on_a_gpu(device: str) -> Any:
    A = rg.randn(3, 3, dtype=rg.float64).to(device).requires_grad_()  # noqa: N806
    S = A @ A.T + 3 * rg.eye(3, dtype=rg.float64, device=device)  # noqa: N806
    b = rg.ones(3, 2, dtype=rg.float64, device=device)
    parts = [
        rg.linalg.inv(S), rg.linalg.solve(S, b), rg.linalg.det(S), rg.linalg.slogdet(S).logabsdet,
        rg.linalg.cholesky(S), rg.linalg.eigvalsh(S), rg.linalg.svdvals(A), rg.linalg.qr(S).R.abs(), rg.linalg.norm(A),
        rg.linalg.pinv(S),
        rg.linalg.matrix_exp(A), rg.linalg.lu(S).U, rg.linalg.lstsq(S, b).solution, rg.linalg.matrix_power(A, 3),
        rg.linalg.cond(S), rg.linalg.vector_norm(A, 3), rg.einsum("ij,jk->ik", A, b),
        rg.linalg.solve_triangular(S, b, upper=True),
    ]  # fmt: skip
    sum(part.sum() for part in parts).backward()
    return [*parts, A.grad, rg.linalg.matrix_rank(S)]


@same_on_gpu
def test_fft_and_special_functions_on_a_gpu(device: str) -> Any:
    x = rg.randn(4, 6).to(device).requires_grad_()
    parts = [
        rg.fft.rfft(x).abs(), rg.fft.ifftn(rg.fft.fftn(x)).real, rg.fft.irfft(rg.fft.rfft(x)), rg.fft.fftshift(x),
        rg.special.erf(x), rg.special.gammaln(x.abs() + 1), rg.special.digamma(x.abs() + 1), rg.special.i1(x),
        rg.special.airy_ai(x), rg.special.chebyshev_polynomial_t(x, 3), rg.special.logit(x.sigmoid()),
    ]  # fmt: skip
    sum(part.sum() for part in parts).backward()
    return [*parts, x.grad]


# --- derivatives ------------------------------------------------------------------------------------------------------


@same_on_gpu
def test_higher_derivatives_on_a_gpu(device: str) -> Any:
    x = rg.rand(2, 3, dtype=rg.float64).to(device).requires_grad_()

    def f(x: Any) -> Any:
        return (x.sin() * x.exp()).cumsum(0).prod(1).sum() + x.max() + x.std()

    (g,) = rg.autograd.grad(f(x), x, create_graph=True)
    (h,) = rg.autograd.grad(g.pow(2).sum(), x)
    assert rg.autograd.gradcheck(f, (x,))
    assert rg.autograd.gradgradcheck(f, (x,))
    hessian = rg.func.hessian(f)(x)
    batched = rg.func.vmap(rg.func.grad(lambda row: (row.tanh() * row[0]).sum()))(x)
    value, tangent = rg.func.jvp(f, (x,), (rg.ones_like(x),))
    jacobian = rg.autograd.functional.jacobian(lambda x: x.softmax(0), x)
    return [g, h, hessian, batched, value, tangent, jacobian]


@same_on_gpu
def test_hooks_checkpoints_and_custom_functions_on_a_gpu(device: str) -> Any:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    x = rg.rand(4).to(device).requires_grad_()
    seen: list[Any] = []
    with rg.autograd.graph.save_on_cpu():
        y = Cube.apply(x) * x.exp()
    y.register_hook(lambda g: seen.append(g.clone()))
    y.retain_grad()
    z = rg.utils.checkpoint.checkpoint(lambda x: F.dropout(x.tanh(), 0.5) * x, y, use_reentrant=False)
    with rg.autograd.detect_anomaly(check_nan=True), rg.autograd.profiler.profile() as record:
        z.sum().backward()
    assert len(record.function_events) > 0
    return [z, x.grad, y.grad, seen]


def test_anomaly_mode_on_a_gpu() -> None:
    x = rg.zeros(2, device="cuda", requires_grad=True)
    with rg.autograd.detect_anomaly(), pytest.warns(UserWarning, match="forward call"):
        y = (x / x.detach()).sum()
        with pytest.raises(RuntimeError, match="nan values"):
            (y * 0).backward()


def test_watch_on_a_gpu() -> None:
    """GPUs set no floating-point flags, so the birth is searched once the loss is not finite."""
    model = nn.Linear(3, 1).cuda()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    x = rg.zeros(2, 3, device="cuda")
    with rg.anomaly.watch(model, optimizer, policy={"nan": "skip_step", "inf": "skip_step"}) as watch:
        (model(x) * 0 + x).log().sum().backward()
        optimizer.step()
    assert [event.op for event in watch.events] == ["log"]
    assert all(bool((a == b).all()) for a, b in zip(before, model.parameters(), strict=True))


def test_grad_scaler_on_a_gpu() -> None:
    model = nn.Linear(3, 1).cuda()
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    scaler = rg.amp.GradScaler("cuda", init_scale=4.0)
    before = model.weight.detach().clone()
    scaler.scale(model(rg.full((2, 3), float("inf"), device="cuda")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    assert bool((model.weight == before).all())
    optimizer.zero_grad()
    scaler.scale(model(rg.ones(2, 3, device="cuda")).sum()).backward()
    scaler.step(optimizer)
    assert not bool((model.weight == before).all())


@same_on_gpu
def test_scatter_reduce_extrema_are_exact_on_a_gpu(device: str) -> Any:
    """CuPy's own kernels round float64 to float32 and ignore NaN."""
    x = rg.tensor([1.0, -2.0, 0.1, float("inf"), -0.0], dtype=rg.float64, device=device)
    values = rg.tensor([1 + 1e-12, float("nan"), -3.0, 0.1, 1e300, 7.0, -1e-300], dtype=rg.float64, device=device)
    places = rg.tensor([0, 1, 1, 2, 3, 0, 4], device=device)
    made = [
        x.scatter_reduce(0, places, values, way, include_self=own) for way in ("amax", "amin") for own in (True, False)
    ]
    return [*made, made[0] == x, made[2] == x, *(part.float() for part in made)]


@same_on_gpu
def test_floor_division_on_a_gpu(device: str) -> Any:
    """CuPy's own kernels round the quotient before taking the floor; 1 // 0.1 is 9, not 10."""
    special = [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 2.5, 1e300, 1e-310, float("inf"), -float("inf"), float("nan")]
    a = rg.tensor(special, dtype=rg.float64, device=device)
    b = a[:, None]
    return [a // b, a % b, a.float() // b.float(), a.float() % b.float(), a // 0.1, 1.0 % a, rg.signbit(a % b)]


@same_on_gpu
def test_scaled_bessel_functions_do_not_overflow_on_a_gpu(device: str) -> Any:
    x = rg.tensor([0.0, 1.0, 714.0, -1e4, 1e300], dtype=rg.float64, device=device)
    scaled = [rg.special.scaled_modified_bessel_k0, rg.special.scaled_modified_bessel_k1]
    return [rg.special.i0e(x), rg.special.i1e(x), *(f(x.abs()) for f in scaled), *(f(x.abs().float()) for f in scaled)]


@same_on_gpu
def test_functions_that_differ_in_cupy_equal_numpy(device: str) -> Any:
    large = rg.tensor([2**63 - 1, -(2**62) - 1, 7, -7], device=device)
    small = rg.tensor([0.0, 1.0, float("nan"), -float("inf"), float("inf")], dtype=rg.float64, device=device)
    tiny = rg.tensor([-104.0, -714.0, 1.0, -float("inf"), float("inf")], dtype=rg.float64, device=device)
    signal = rg.tensor([1.0, float("nan"), 2.0, 3.0], dtype=rg.float64, device=device)
    return [
        rg.fmod(large, 3), rg.fmod(large, -31), rg.logaddexp2(small, tiny), rg.logaddexp2(tiny * 0, tiny),
        rg.special.xlog1py(small[:1], small), np.convolve(signal, rg.ones_like(signal)[:2]),
        rg.zeros_like(small).new_zeros(()), np.zeros_like(small, shape=()), np.ones_like(small, shape=0),
    ]  # fmt: skip


@same_on_gpu
def test_linear_algebra_with_nan_on_a_gpu(device: str) -> Any:
    """As in LAPACK, a solution is NaN, and singular values raise."""
    a = rg.eye(3, dtype=rg.float64, device=device)
    b = a.clone()
    b[1, 1] = float("nan")
    for refused in (rg.linalg.svdvals, rg.linalg.svd, rg.linalg.cholesky, rg.linalg.pinv):
        with pytest.raises(rg.linalg.LinAlgError):
            refused(b)
    return [rg.linalg.solve(b, a).isnan(), rg.linalg.inv(b).isnan(), rg.linalg.det(b), rg.linalg.solve(a, b)]


# --- between devices --------------------------------------------------------------------------------------------------


def test_copies_between_devices() -> None:
    x = rg.rand(3, requires_grad=True)
    y = x.to("cuda")
    assert (y.device, y.is_cuda, y.get_device()) == (rg.device("cuda:0"), True, 0)
    (y * y).sum().cpu().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert y.to("cuda") is y
    assert y.cuda() is y
    assert y.cpu().device == rg.device("cpu")
    np.testing.assert_array_equal(y.detach().numpy(force=True), x.detach().numpy())
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("cuda")
    assert {str(t.device) for t in model.state_dict().values()} == {"cuda:0"}
    model.load_state_dict(model.cpu().state_dict())
    assert {str(t.device) for t in model.state_dict().values()} == {"cpu"}


MIXED = {
    "add": lambda a, b: a + b,
    "in place": lambda a, b: a.add_(b),
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: rg.cat([a, b]),
    "where": lambda a, b: rg.where(a > 0, a, b),
    "gather": lambda a, b: a.gather(0, b.long()),
    "linear": lambda a, b: F.linear(a, b),
    "loss": lambda a, b: F.mse_loss(a, b),
    "embedding": lambda a, b: F.embedding(b.long(), a),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_on_two_devices_raise(name: str) -> None:
    a, b = rg.ones(2, 2, device="cuda"), rg.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        MIXED[name](a, b)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        MIXED[name](b, a)


def test_tensors_on_two_gpus_raise() -> None:
    if rg.cuda.device_count() < 2:
        pytest.skip("there is only one GPU")
    a, b = rg.rand(3, device="cuda:0"), rg.rand(3, device="cuda:1")
    assert str((b * 2).exp().device) == "cuda:1"
    assert str(a.to("cuda:1").device) == "cuda:1"
    assert (a.to(b.device) + b).shape == (3,)
    with pytest.raises(RuntimeError, match="two devices, cuda:0 and cuda:1"):
        a + b


def test_zero_dimensional_cpu_tensor_with_a_gpu_tensor() -> None:
    assert (rg.ones(2, device="cuda") * rg.tensor(2.0)).tolist() == [2, 2]


def test_gradient_on_the_cpu_for_a_gpu_tensor_raises() -> None:
    y = rg.ones(2, device="cuda", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="device"):
        y.backward(rg.ones(2))


def test_converting_a_gpu_tensor_to_numpy_raises() -> None:
    x = rg.ones(2, device="cuda")
    for convert in (rg.Tensor.numpy, np.asarray):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            convert(x)


def test_numpy_functions_on_gpu_tensors() -> None:
    x = rg.ones(2, 2, device="cuda", requires_grad=True)
    y = np.sum(np.sin(x) + np.arange(2))
    y.backward()
    assert x.grad.is_cuda
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.cos(np.ones((2, 2))), rtol=1e-6)


def test_errors_on_a_gpu_name_the_value() -> None:
    x = rg.arange(3.0, device="cuda")
    with pytest.raises(rg.linalg.LinAlgError, match="leading minor of order 2"):
        rg.linalg.cholesky(rg.diag(1 - x))
    with pytest.raises(IndexError, match="index out of range: 7"):
        F.embedding(rg.tensor([1, 7], device="cuda"), x.reshape(3, 1))
    with pytest.raises(RuntimeError, match="2"):
        F.binary_cross_entropy(x, x)


def test_out_of_bounds_indices_raise_on_a_gpu() -> None:
    """CuPy takes them modulo the length."""
    x, far = rg.arange(3.0, device="cuda"), rg.tensor([3], device="cuda")
    for pick in (lambda: x[far], lambda: x.take(far), lambda: x.gather(0, far), lambda: x.index_select(0, far)):
        with pytest.raises((IndexError, RuntimeError), match=r"index|bounds"):
            pick()


def test_stand_in_refuses_what_cupy_refuses(cupy: Any) -> None:
    """The package must never need this; a real GPU gives the same errors."""
    x = cupy.asarray(np.ones(3))
    refused: list[Callable[[], Any]] = [
        lambda: x + np.ones(3), lambda: cupy.where(x > 0, np.ones(3), x), lambda: cupy.sum(x, initial=1),
        lambda: np.linalg.svdvals(x), lambda: cupy.matmul(x, np.ones(3)), lambda: cupy.sort(x, stable=True),
    ]  # fmt: skip
    for ask in refused:
        with pytest.raises(TypeError):
            ask()
    with pytest.raises(NotImplementedError):
        cupy.maximum.reduce(x)
    with pytest.raises(np.exceptions.AxisError):
        cupy.sum(x[0], axis=0)
    with pytest.raises(ValueError, match="non-scalar"):
        x[:] = np.zeros(3)
    assert cupy.arange(3)[cupy.asarray([4])].tolist() == [1]


def test_printing_gpu_tensors() -> None:
    assert repr(rg.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"


def test_saving_gpu_tensors(tmp_path: Any) -> None:
    x = rg.arange(3.0, device="cuda", requires_grad=True)
    rg.save({"x": x}, tmp_path / "x.pt")
    back = rg.load(tmp_path / "x.pt")["x"]
    assert back.tolist() == x.tolist()
    assert rg.load(tmp_path / "x.pt", map_location="cpu")["x"].device == rg.device("cpu")
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


@same_on_gpu
def test_data_loader_with_pinned_memory(device: str) -> Any:
    data = rg.utils.data.TensorDataset(rg.arange(6.0), rg.arange(6))
    loader = rg.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=device == "cuda")
    return [part.to(device, non_blocking=True) for batch in loader for part in batch]


@same_on_gpu
def test_distributions_on_a_gpu(device: str) -> Any:
    loc = rg.rand(3).to(device).requires_grad_()
    families = [rg.distributions.Normal(loc, loc), rg.distributions.Gamma(loc, loc), rg.distributions.Beta(loc, loc),
                rg.distributions.Categorical(logits=loc), rg.distributions.Bernoulli(loc)]  # fmt: skip
    report = [f.log_prob(f.sample()) for f in families]
    sum(part.sum() for part in report).backward()
    return [*report, families[0].rsample(), families[1].rsample(), loc.grad]


@same_on_gpu
def test_gradients_of_samples_on_a_gpu(device: str) -> Any:
    d = rg.distributions
    a = rg.tensor([0.5, 2.0, 30.0]).to(device).requires_grad_()  # a series, and an integral
    samples = [d.Gamma(a, a).rsample(), d.Beta(a, a).rsample(), d.Dirichlet(a).rsample()]
    sum(sample.square().sum() for sample in samples).backward()
    return [*samples, a.grad]


@same_on_gpu
def test_less_common_distributions_on_a_gpu(device: str) -> Any:
    d = rg.distributions
    a = (rg.rand(3) + 0.5).to(device).requires_grad_()
    matrix = (2 * rg.eye(3)).to(device)
    families = [
        d.ContinuousBernoulli(logits=a), d.GeneralizedPareto(a, a, a - 1), d.HalfCauchy(a), d.Kumaraswamy(a, a),
        d.LKJCholesky(3, a), d.LogisticNormal(a, a), d.LowRankMultivariateNormal(a, matrix, a),
        d.Multinomial(4, logits=a), d.NegativeBinomial(a, logits=-a), d.Pareto(a, a), d.RelaxedBernoulli(0.5, logits=a),
        d.RelaxedOneHotCategorical(a[0], logits=a), d.VonMises(a, a), d.Weibull(a, a), d.Wishart(a + 4, matrix),
    ]  # fmt: skip
    report = [family.log_prob(family.sample()) for family in families]
    sum(part.sum() for part in report).backward()
    divergences = [d.kl_divergence(d.Uniform(0.1 * a, a), d.Gamma(a, a)), d.kl_divergence(d.Normal(a, a), d.Beta(a, a))]
    free = [d.transform_to(constraint)(a) for constraint in (d.constraints.simplex, d.constraints.corr_cholesky)]
    return [*(part.shape for part in report), *divergences, *free, a.grad.isfinite()]
