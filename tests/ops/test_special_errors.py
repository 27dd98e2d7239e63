"""Special functions, Fourier transforms and activations: torch's errors, and forms beyond the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

functional = torch.nn.functional


def ours(*shape: int, dtype: str = "float32") -> rg.Tensor:
    return rg.from_numpy(np.ones(shape, dtype))


def theirs(*shape: int, dtype: str = "float32") -> torch.Tensor:
    return torch.ones(shape, dtype=getattr(torch, dtype))


Call = Callable[[Any, Any], Any]


def cases(module: str, *calls: tuple[str, Call]) -> list[Any]:
    return [pytest.param(module, name, call, id=f"{name}-{nr}") for nr, (name, call) in enumerate(calls)]


# a function of a module and a maker of tensors of ones, and the operation that its message should name
SPECIAL = cases(
    "",
    ("polygamma", lambda m, ones: m.polygamma(-1, ones(2))),
    ("polygamma", lambda m, ones: m.polygamma(1.5, ones(2))),
    ("polygamma", lambda m, ones: m.polygamma(1)),
    ("polygamma", lambda m, ones: ones(2).polygamma(-2)),
    ("mvlgamma", lambda m, ones: m.mvlgamma(ones(2), 0)),
    ("mvlgamma", lambda m, ones: m.mvlgamma(ones(2), 1.5)),
    ("erf", lambda m, ones: m.erf(3)),
    ("erfinv", lambda m, ones: m.erfinv("x")),
    ("xlogy", lambda m, ones: m.xlogy(2, 3)),
    ("xlogy", lambda m, ones: m.xlogy(ones(2), ones(3))),
    ("igamma", lambda m, ones: m.igamma(ones(2, 3), ones(2))),
    ("lgamma", lambda m, ones: m.lgamma(ones(2, dtype="complex64"))),
    ("erfinv", lambda m, ones: m.erfinv(ones(2, dtype="complex64"))),
    ("i0", lambda m, ones: m.i0(ones(2, dtype="complex64"))),
    ("bessel_j0", lambda m, ones: m.special.bessel_j0(ones(2, dtype="complex64"))),
    ("result type", lambda m, ones: ones(2, dtype="int64").erf_()),
    ("lgamma_", lambda m, ones: ones(2).requires_grad_().lgamma_()),
    ("zeta", lambda m, ones: m.special.zeta(2, 3)),
    ("zeta", lambda m, ones: m.special.zeta(ones(2), ones(3))),
)

FFT = cases(
    "fft",
    ("fft", lambda m, ones: m.fft(ones(3), n=0)),
    ("fft", lambda m, ones: m.fft(ones(3), n=-1)),
    ("ifft", lambda m, ones: m.ifft(ones(3), norm="bad")),
    ("fft", lambda m, ones: m.fft(ones(3), dim=1)),
    ("fft", lambda m, ones: m.fft(ones())),
    ("fft", lambda m, ones: m.fft(ones(0, 3), dim=0)),
    ("fft", lambda m, ones: m.fft(ones(3, dtype="float16"))),
    ("rfft", lambda m, ones: m.rfft(ones(3, dtype="complex64"))),
    ("rfft", lambda m, ones: m.rfft(ones(3), n=0)),
    ("irfft", lambda m, ones: m.irfft(ones(1, dtype="complex64"))),
    ("hfft", lambda m, ones: m.hfft(ones(3), norm="x")),
    ("ihfft", lambda m, ones: m.ihfft(ones(3, dtype="complex64"))),
    ("fftn", lambda m, ones: m.fftn(ones(2, 3), dim=(0, 0))),
    ("fftn", lambda m, ones: m.fftn(ones(2, 3), s=(2,), dim=(0, 1))),
    ("fftn", lambda m, ones: m.fftn(ones(2, 3), s=(2, 2, 2))),
    ("fftn", lambda m, ones: m.fftn(ones(2, 3), s=(2, 0))),
    ("fftn", lambda m, ones: m.fftn(ones(2, 3), dim=(0, 5))),
    ("fftn", lambda m, ones: m.fft2(ones(3))),
    ("rfftn", lambda m, ones: m.rfftn(ones(2, 3), dim=())),
    ("rfftn", lambda m, ones: m.rfftn(ones(2, 3, dtype="complex64"))),
    ("irfftn", lambda m, ones: m.irfftn(ones(2, 3), dim=())),
    ("hfftn", lambda m, ones: m.hfftn(ones(2, 3), norm="bad")),
    ("ihfftn", lambda m, ones: m.ihfftn(ones(2, 3, dtype="complex64"))),
    ("fftshift", lambda m, ones: m.fftshift(ones(2, 3), dim=2)),
    ("fftfreq", lambda m, ones: m.fftfreq(-3)),
    ("fftfreq", lambda m, ones: m.fftfreq(2.5)),
    ("fft", lambda m, ones: m.fft(ones(3), 1, 2, 3, 4)),
    ("fft", lambda m, ones: m.fft(ones(3), wrong=1)),
)

FLOATS_ONLY = ["leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "logsigmoid", "hardsigmoid"]
FLOATS_ONLY += ["hardswish", "hardshrink", "softshrink", "glu"]

ACTIVATIONS = cases(
    "nn.functional",
    ("relu", lambda m, ones: m.relu(ones(2, dtype="bool"))),
    ("relu", lambda m, ones: m.relu(ones(2, dtype="complex64"))),
    ("relu6", lambda m, ones: m.relu6(ones(2, dtype="bool"))),
    ("hardtanh", lambda m, ones: m.hardtanh(ones(2, dtype="complex64"))),
    ("hardtanh", lambda m, ones: m.hardtanh(ones(2, dtype="uint8"))),
    ("hardtanh", lambda m, ones: m.hardtanh(ones(2), 1.0, -1.0)),
    ("hardtanh", lambda m, ones: m.hardtanh(ones(2), 1.0, -1.0, inplace=True)),
    ("softshrink", lambda m, ones: m.softshrink(ones(2), -1.0)),
    ("gelu", lambda m, ones: m.gelu(ones(2), approximate="exact")),
    ("celu", lambda m, ones: m.celu(ones(2), 0.0)),
    ("threshold", lambda m, ones: m.threshold(ones(2, dtype="bool"), 1, 2)),
    ("glu", lambda m, ones: m.glu(ones(3))),
    ("glu", lambda m, ones: m.glu(ones())),
    ("prelu", lambda m, ones: m.prelu(ones(2, 3), ones(2))),
    ("prelu", lambda m, ones: m.prelu(ones(3), ones(3))),
    ("prelu", lambda m, ones: m.prelu(ones(2, 3), ones(1, 3))),
    ("prelu", lambda m, ones: m.prelu(ones(2, 3), ones(3, dtype="float64"))),
    ("softmax", lambda m, ones: m.softmax(ones(2), 1)),
    ("softmax", lambda m, ones: m.softmax(ones(), 1)),
    ("softmax", lambda m, ones: m.softmax(ones(2), "x")),
    ("log_softmax", lambda m, ones: m.log_softmax(ones(2, 3), -3)),
    *((name, lambda m, ones, name=name: getattr(m, name)(ones(2, dtype="int64"))) for name in FLOATS_ONLY),
)

TOP = cases(
    "",
    ("softmax", lambda m, ones: m.softmax(ones(2))),
    ("softmax", lambda m, ones: m.softmax(ones(2), None)),
    ("softmax", lambda m, ones: m.softmax(ones(2, dtype="int64"), 0)),
    ("softmax", lambda m, ones: m.softmax(ones(2), 0, dtype=m.int64)),
    ("log_softmax", lambda m, ones: m.log_softmax(ones(2, dtype="complex64"), 0)),
    ("relu", lambda m, ones: m.relu(3)),
    ("sigmoid", lambda m, ones: m.sigmoid(None)),
    ("sigmoid", lambda m, ones: m.sigmoid(ones(2), 1)),
    ("relu_", lambda m, ones: ones(2).requires_grad_().relu_()),
)


@pytest.mark.parametrize(("module", "name", "call"), [*SPECIAL, *FFT, *ACTIVATIONS, *TOP])
def test_wrong_special_calls_are_refused_as_in_torch(module: str, name: str, call: Call) -> None:
    torch_module, our_module = {
        "": (torch, rg),
        "fft": (torch.fft, rg.fft),
        "nn.functional": (functional, rg.nn.functional),
    }[module]
    with pytest.raises(Exception) as expected:
        call(torch_module, theirs)
    with pytest.raises(expected.type, match=name) as got:
        call(our_module, ours)
    assert got.type in (expected.type, *expected.type.__subclasses__())


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("relu_", ()),
        ("selu_", ()),
        ("celu_", (0.5,)),
        ("threshold_", (0.1, 0.7)),
        ("elu_", (1.5,)),
        ("leaky_relu_", (0.2,)),
        ("hardtanh_", (-0.5, 0.5)),
    ],
)
def test_in_place_activation_functions(name: str, args: tuple[float, ...]) -> None:
    from retrograd.ops import activations

    values = np.linspace(-1.0, 1.0, 7)
    grads = []
    for function, make in (
        (getattr(activations, name), rg.from_numpy),
        (getattr(functional, name), torch.from_numpy),
    ):
        leaf = make(values.copy()).requires_grad_()
        target = leaf * 1
        assert function(target, *args) is target
        assert target._version == 1
        (target * target).sum().backward()
        grads.append(leaf.grad.numpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-12)


@pytest.mark.parametrize(("n", "p"), [(0, 1), (2, 3)])
def test_in_place_special_methods_with_arguments(n: int, p: int) -> None:
    x = np.array([3.0, 4.5])
    leaf = rg.from_numpy(x.copy()).requires_grad_()
    out = (leaf * 1).polygamma_(n)
    assert out.tolist() == pytest.approx(torch.polygamma(n, torch.from_numpy(x)).tolist(), rel=1e-9)
    out.sum().backward()
    assert leaf.grad.tolist() == pytest.approx(torch.polygamma(n + 1, torch.from_numpy(x)).tolist(), rel=1e-9)
    assert leaf.detach().polygamma(n).tolist() == pytest.approx(out.tolist())
    assert rg.from_numpy(x.copy()).mvlgamma_(p).tolist() == pytest.approx(torch.from_numpy(x).mvlgamma_(p).tolist())


def test_finite_results_do_not_overflow_internally() -> None:
    far = rg.from_numpy(np.array([-1e30, -1000.0, 0.0, 1000.0, 1e30], "float32"))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for name in ("sigmoid", "logsigmoid", "softplus", "silu", "elu", "selu", "celu", "relu6", "hardswish", "mish"):
            leaf = far.detach().requires_grad_()
            result = getattr(rg.nn.functional, name)(leaf)
            assert np.isfinite(result.detach().numpy()).all(), name
            assert np.isfinite(rg.autograd.grad(result.sum(), leaf)[0].numpy()).all(), name
        for function in (rg.softmax, rg.log_softmax):
            leaf = far.detach().requires_grad_()
            result = function(leaf, 0)
            assert np.isfinite(result.detach().numpy()).all()


def test_sigmoid_is_accurate_in_both_tails() -> None:
    x = np.array([-700.0, -50.0, -1.0, 0.0, 1.0, 50.0])
    np.testing.assert_allclose(rg.sigmoid(rg.from_numpy(x)).numpy(), torch.from_numpy(x).sigmoid().numpy(), rtol=1e-15)


def test_dead_units_get_zero_gradients_from_infinite_ones() -> None:
    for library, make in ((rg, rg.from_numpy), (torch, torch.from_numpy)):
        x = make(np.array([-1.0, 0.0, 2.0])).requires_grad_()
        library.relu(x).backward(make(np.array([np.inf, np.nan, 3.0])))
        assert x.grad.tolist() == [0, 0, 3]


def test_gradient_of_complex_silu_is_conjugated() -> None:
    z = np.array([0.3 + 0.4j, -1.2 + 0.1j])
    leaf = rg.from_numpy(z).requires_grad_()
    result = rg.nn.functional.silu(leaf)
    (gradient,) = rg.autograd.grad(result, leaf, rg.ones_like(result))
    step = 1e-6
    high, low = (rg.nn.functional.silu(rg.from_numpy(z + sign * step)).numpy() for sign in (1, -1))
    np.testing.assert_allclose(gradient.numpy(), np.conj((high - low) / (2 * step)), rtol=1e-8)


def test_fourier_transforms_of_empty_batches() -> None:
    x = rg.from_numpy(np.ones((0, 4))).requires_grad_()
    y = rg.fft.rfft(x)
    assert y.shape == (0, 3)
    y.abs().sum().backward()
    assert x.grad.shape == (0, 4)


def test_fourier_transforms_over_no_dimensions_are_complex_copies() -> None:
    for tensor, dim in ((rg.from_numpy(np.array(2.0)), None), (rg.from_numpy(np.array([2.0, 3.0])), ())):
        leaf = tensor.requires_grad_()
        result = rg.fft.fftn(leaf, dim=dim)
        assert result.dtype == rg.complex128
        assert not np.shares_memory(result.detach().numpy(), leaf.detach().numpy())
        rg.autograd.grad(result.real.sum(), leaf)


def test_fourier_round_trips_and_the_convolution_theorem() -> None:
    rng = np.random.default_rng(0)
    x, y = (rg.from_numpy(rng.normal(size=(3, 7))).requires_grad_() for _ in range(2))
    np.testing.assert_allclose(rg.fft.irfft(rg.fft.rfft(x), 7).detach().numpy(), x.detach().numpy(), atol=1e-14)
    np.testing.assert_allclose(rg.fft.hfftn(rg.fft.ihfftn(x), (3, 7)).detach().numpy(), x.detach().numpy(), atol=1e-14)
    product = rg.fft.irfft(rg.fft.rfft(x) * rg.fft.rfft(y), 7)
    (gradient,) = rg.autograd.grad((product * product).sum(), x)
    tx, ty = (torch.from_numpy(t.detach().numpy()).requires_grad_() for t in (x, y))
    expected = torch.fft.irfft(torch.fft.rfft(tx) * torch.fft.rfft(ty), 7)
    (oracle,) = torch.autograd.grad((expected * expected).sum(), tx)
    np.testing.assert_allclose(gradient.numpy(), oracle.numpy(), rtol=1e-12, atol=1e-12)


def test_fftfreq_with_options() -> None:
    freq = rg.fft.fftfreq(5, 0.5, dtype=rg.float64, requires_grad=True)
    assert freq.requires_grad
    assert freq.tolist() == np.fft.fftfreq(5, 0.5).tolist()
    assert rg.fft.rfftfreq(5, dtype=rg.complex64).dtype == rg.complex64
    assert rg.fft.fftfreq(0).shape == (0,)
    with pytest.raises(RuntimeError, match="fftfreq requires a floating point or complex dtype"):
        rg.fft.fftfreq(5, dtype=rg.int64)


def test_fourier_transforms_take_numpy_integers() -> None:
    x, one = ours(2, 3), np.int64(1)
    assert rg.softmax(x, one).shape == (2, 3)
    assert rg.polygamma(one, x).tolist() == rg.polygamma(1, x).tolist()
    assert rg.fft.fftn(x, dim=one).shape == (2, 3)
