"""Parametrizations: parameters computed from others."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, twins
from tests.parity import attempt, parity


def symmetric(m: Any, invertible: bool = False) -> Any:
    class Symmetric(m.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).T

    class Invertible(Symmetric):
        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    return Invertible() if invertible else Symmetric()


def square(m: Any) -> Any:
    net = m.nn.Linear(2, 2, bias=False)
    with m.no_grad():
        net.weight.copy_(m.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return net


@parity
def test_register_parametrization(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    weight = net.weight
    same = p.register_parametrization(net, "weight", symmetric(m, invertible=True)) is net
    net(m.ones(1, 2)).sum().backward()
    return [
        same,
        repr(net),
        type(net).__name__,
        isinstance(net, m.nn.Linear),
        net.weight.detach(),
        net.parametrizations.weight.original is weight,
        weight,
        weight.grad,
        list(net.state_dict()),
        [name for name, _ in net.named_parameters()],
        [p.is_parametrized(net), p.is_parametrized(net, "weight"), p.is_parametrized(net, "bias")],
        p.type_before_parametrizations(net).__name__,
    ]


@parity
def test_assigning_a_parametrized_weight_uses_right_inverse(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", symmetric(m, invertible=True))
    net.weight = m.tensor([[5.0, 6.0], [6.0, 7.0]])
    other = square(m)
    p.register_parametrization(other, "weight", symmetric(m))
    return [
        net.weight.detach(),
        net.parametrizations.weight.original,
        attempt(lambda: setattr(other, "weight", m.ones(2, 2))),
    ]


@parity
def test_chained_parametrizations(m: Any) -> Any:
    class Shift(m.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

        def right_inverse(self, x: Any) -> Any:
            return x - 1

    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", Shift())
    p.register_parametrization(net, "weight", symmetric(m, invertible=True))
    return [net.weight.detach(), net.parametrizations.weight.original, repr(net), list(net.state_dict())]


def split(m: Any) -> Any:
    class Sum(m.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

        def right_inverse(self, x: Any) -> Any:
            return x * 0.25, x * 0.75

    return Sum()


@parity
def test_parametrization_with_several_originals(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", split(m))
    report = [net.weight.detach(), list(net.state_dict()), net.parametrizations.weight.original0]
    report.append(attempt(lambda: p.remove_parametrizations(net, "weight", leave_parametrized=False)))
    p.remove_parametrizations(net, "weight")
    return [*report, net.weight, type(net).__name__, repr(net)]


@parity
def test_removed_parametrization_requires_grad_if_any_original_did(m: Any) -> Any:
    report = []
    for part in ("original0", "original1"):
        net = m.nn.utils.parametrizations.weight_norm(m.nn.Linear(3, 2))
        getattr(net.parametrizations.weight, part).requires_grad_(False)
        m.nn.utils.parametrize.remove_parametrizations(net, "weight")
        report.append([net.weight.requires_grad, [name for name, _ in net.named_parameters()]])
    return report


@parity
def test_remove_parametrizations(m: Any) -> Any:
    p, report = m.nn.utils.parametrize, []
    for leave in (True, False):
        net = square(m)
        weight = net.weight
        p.register_parametrization(net, "weight", symmetric(m))
        p.remove_parametrizations(net, "weight", leave_parametrized=leave)
        report.append([net.weight, net.weight is weight, list(net.state_dict()), p.is_parametrized(net), repr(net)])
    return [report, attempt(lambda: p.remove_parametrizations(net, "weight"))]


@parity
def test_parametrized_buffers(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, m.nn.BatchNorm1d(2)
    p.register_parametrization(net, "running_var", m.nn.Softplus())
    report = [list(net.state_dict()), [name for name, _ in net.named_buffers()], net.running_var]
    p.remove_parametrizations(net, "running_var")
    return [*report, [name for name, _ in net.named_buffers()]]


@parity
def test_wrong_parametrizations_are_refused(m: Any) -> Any:
    class Wrong(m.nn.Module):
        def __init__(self, change: Any) -> None:
            super().__init__()
            self.change = change

        def forward(self, x: Any) -> Any:
            return self.change(x)

    register = m.nn.utils.parametrize.register_parametrization
    changes = [lambda x: x[:1], lambda x: x.to(m.float64), lambda x: 3]
    report: list[Any] = [attempt(lambda c=c: register(square(m), "weight", Wrong(c))) for c in changes]
    report += [attempt(lambda: register(square(m), "missing", Wrong(abs)))]
    net = register(square(m), "weight", Wrong(lambda x: x[:1]), unsafe=True)
    return [*report, tuple(net.weight.shape), attempt(lambda: register(net, "weight", Wrong(lambda x: x[:, :1])) and 0)]


class Given:
    """A mixin for the Module of either library: a parametrization by given functions."""

    def __init__(self, forward: Any, right_inverse: Any = None) -> None:
        super().__init__()
        self.compute = forward
        if right_inverse is not None:
            self.right_inverse = right_inverse

    def forward(self, *originals: Any) -> Any:
        return self.compute(*originals)


def given(m: Any, forward: Any, right_inverse: Any = None) -> Any:
    return type("Given", (Given, m.nn.Module), {})(forward, right_inverse)


@parity
def test_first_parametrization_must_keep_shape_and_dtype(m: Any) -> Any:
    cases: list[tuple[Any, ...]] = [
        (lambda a, b: (a + b)[:1], lambda x: (x, x)),
        (lambda a, b: (a + b).to(m.float64), lambda x: (x, x)),
        (lambda x: x, lambda x: x[:1]),
        (lambda x: x, lambda x: x.to(m.float64)),
        (lambda x: x, lambda x: 3),
        (lambda x: x, lambda x: "ab"),
        (lambda x: (x, x),),
    ]
    register, report = m.nn.utils.parametrize.register_parametrization, []
    for case in cases:
        net = square(m)
        refused = attempt(lambda case=case, net=net: register(net, "weight", given(m, *case)))
        report.append([refused, type(net).__name__, list(net._parameters)])
    return report


def test_refused_parametrization_changes_nothing() -> None:
    net = square(rg)
    with pytest.raises(ValueError, match=r"shape: retrograd.Size\(\[2, 2\]\)\n.*shape: retrograd.Size\(\[1, 2\]\)"):
        rg.nn.utils.parametrize.register_parametrization(net, "weight", given(rg, lambda x: x, lambda x: x[:1]))
    assert net.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def refusals_of_another(m: Any) -> list[str]:
    """Return the errors about second parametrizations that do not match the result of the first."""

    def right_inverse(x: Any) -> Any:
        raise NotImplementedError

    texts = []
    for case in [
        (lambda x: (x, x),),
        (lambda x: 2,),
        (lambda x: x.double(),),
        (lambda x: x, lambda x: (x, x)),
        (lambda x: x, lambda x: None),
        (lambda x: x, lambda x: x.double()),
        (lambda x: x, lambda x: x[:1]),
    ]:
        p, net = m.nn.utils.parametrize, square(m)
        p.register_parametrization(net, "weight", given(m, lambda x: x * 2))
        with pytest.raises(ValueError) as caught:
            p.register_parametrization(net, "weight", given(m, *case))
        texts.append(re.match(r".* must return a tensor|.* (dtype|shape)", str(caught.value))[0])
        assert len(net.parametrizations.weight) == 1
    p.register_parametrization(net, "weight", given(m, lambda x: x + 1, right_inverse))
    assert net.weight.tolist() == [[3.0, 5.0], [7.0, 9.0]]
    return texts


def test_second_parametrization_must_keep_shape_and_dtype() -> None:
    assert refusals_of_another(rg) == refusals_of_another(torch)


def refused_assignments(m: Any) -> list[Any]:
    big = m.full((2, 2), 100.0)
    inverses: list[Any] = [
        lambda x: x if x.sum() < 100 else x.double(),
        lambda x: x if x.sum() < 100 else 3,
        lambda x: x if x.sum() < 100 else (x, x),
        lambda x: (x, x) if x.sum() < 100 else (x, x, x),
        lambda x: (x, x) if x.sum() < 100 else (x, x.double()),
        lambda x: (x, x) if x.sum() < 100 else (x, 3),
        lambda x: (x, x) if x.sum() < 100 else x,
    ]
    report = []
    for inverse in inverses:
        net = square(m)
        parametrization = given(m, lambda *parts: sum(parts), inverse)
        m.nn.utils.parametrize.register_parametrization(net, "weight", parametrization)
        before = net.weight
        report.append(attempt(lambda net=net: setattr(net, "weight", big)))
        assert m is torch or (net.weight == before).all()  # by then torch has overwritten the first of two originals
    return report


def test_assignment_must_keep_the_structure_of_the_originals() -> None:
    assert refused_assignments(rg) == refused_assignments(torch) == ["raises ValueError"] * 7


def test_error_names_the_dtype_that_assignment_would_change() -> None:
    net = rg.nn.utils.parametrize.register_parametrization(square(rg), "weight", symmetric(rg, invertible=True))
    with pytest.raises(ValueError, match=r"dtype \w+.float64 while `original` has dtype \w+.float32"):
        net.weight = rg.ones(2, 2, dtype=rg.float64)
    assert net.weight.dtype == rg.float32


@parity
def test_parametrized_original(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", given(m, lambda x: x + 1, lambda x: x - 1))
    inner = net.parametrizations.weight
    p.register_parametrization(inner, "original", given(m, lambda x: 2 * x, lambda x: x / 2))
    net.weight.sum().backward()
    report = [net.weight.detach(), list(net.state_dict()), [value.grad for value in net.parameters()]]
    p.remove_parametrizations(inner, "original")
    return [*report, net.weight.detach(), list(net.state_dict()), type(inner) is p.ParametrizationList]


def test_assignment_through_a_parametrized_original() -> None:
    p, net = rg.nn.utils.parametrize, square(rg)
    p.register_parametrization(net, "weight", given(rg, lambda x: x + 1, lambda x: x - 1))
    p.register_parametrization(net.parametrizations.weight, "original", given(rg, lambda x: 2 * x, lambda x: x / 2))
    net.weight = rg.full((2, 2), 5.0)
    assert (net.weight == 5).all()


@parity
def test_cached_parametrizations(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", symmetric(m))
    with p.cached():
        same = net.weight is net.weight
        with p.cached():
            pass
        still = net.weight is net.weight
    return [same, still, net.weight is net.weight]


def parametrized_by(value: float) -> Any:
    net = rg.nn.utils.parametrize.register_parametrization(rg.nn.Linear(2, 2), "weight", symmetric(rg))
    with rg.no_grad():
        net.parametrizations.weight.original.fill_(value)
    return net


def test_parametrization_cache_is_local_to_its_thread() -> None:
    net, seen = parametrized_by(1.0), []

    def elsewhere() -> None:
        seen.append(net.weight[0, 0].item())
        with rg.no_grad():
            net.parametrizations.weight.original.fill_(2.0)
        seen.append(net.weight[0, 0].item())

    with rg.nn.utils.parametrize.cached():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == [1.0, 2.0]


def test_parametrization_cache_distinguishes_short_lived_modules() -> None:
    with rg.nn.utils.parametrize.cached():
        for number in range(50):
            assert parametrized_by(number).weight[0, 0].item() == number


@parity
def test_copies_of_parametrized_modules(m: Any) -> Any:
    p, net = m.nn.utils.parametrize, square(m)
    p.register_parametrization(net, "weight", symmetric(m))
    twin = copy.deepcopy(net)
    with m.no_grad():
        twin.parametrizations.weight.original.fill_(5)
    return [net.weight.detach(), twin.weight.detach(), attempt(lambda: pickle.dumps(net)), p.is_parametrized(twin)]


@parity
def test_state_dicts_of_parametrized_modules(m: Any) -> Any:
    p = m.nn.utils.parametrize
    first, second = (p.register_parametrization(square(m), "weight", split(m)) for _ in range(2))
    with m.no_grad():
        first.parametrizations.weight.original0.fill_(1)
    return [repr(second.load_state_dict(first.state_dict())), second.weight.detach()]


@parity
def test_transfer_parametrizations_and_params(m: Any) -> Any:
    p, source, target = m.nn.utils.parametrize, square(m), m.nn.Linear(2, 2, bias=False)
    p.register_parametrization(source, "weight", symmetric(m))
    same = p.transfer_parametrizations_and_params(source, target) is target
    return [same, target.weight.detach(), repr(target), p.is_parametrized(target, "weight")]


@parity
def test_transferred_parameters_are_shared(m: Any) -> Any:
    """An optimizer made before the transfer also trains the new module."""

    class Scaled(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = m.nn.Parameter(m.tensor(3.0))

        def forward(self, x: Any) -> Any:
            return self.factor * x

    p, source, target = m.nn.utils.parametrize, square(m), square(m)
    p.register_parametrization(source, "weight", Scaled())
    optimizer = m.optim.SGD(source.parameters(), lr=0.125)
    p.transfer_parametrizations_and_params(source, target)
    target.weight.sum().backward()
    optimizer.step()
    shared = [a is b for a, b in zip(source.parameters(), target.parameters(), strict=True)]
    return [shared, source.weight.detach(), target.weight.detach()]


@parity
def test_transfer_with_several_originals(m: Any) -> Any:
    p, source, target = m.nn.utils.parametrize, square(m), m.nn.Linear(2, 2, bias=False)
    p.register_parametrization(source, "weight", split(m))
    p.transfer_parametrizations_and_params(source, target)
    shared = [a is b for a, b in zip(source.parameters(), target.parameters(), strict=True)]
    return [shared, [name for name, _ in target.named_parameters()], target.weight.detach()]


def test_transferred_buffer_stays_a_buffer() -> None:
    p, source, target = rg.nn.utils.parametrize, rg.nn.BatchNorm1d(2), rg.nn.Module()
    p.register_parametrization(source, "running_mean", rg.nn.Tanh())
    p.transfer_parametrizations_and_params(source, target)
    assert target.parametrizations.running_mean.original is source.parametrizations.running_mean.original
    assert not list(target.parameters())


# --- weight and spectral normalisation --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Linear(4, 3)", "Conv2d(2, 3, 2)", "ConvTranspose2d(2, 3, 2)"])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(form: str, dim: int | None) -> None:
    def build(nn: Any) -> Any:
        return nn.utils.parametrizations.weight_norm(eval(f"nn.{form}", {"nn": nn}), dim=dim)

    theirs, ours = twins(build)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {k: v.shape for k, v in theirs.state_dict().items()}
    weights = np.random.default_rng(0).normal(size=theirs.weight.shape)
    (theirs.weight * torch.tensor(weights)).sum().backward()
    (ours.weight * rg.tensor(weights)).sum().backward()
    for got, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        if expected.grad is not None:
            np.testing.assert_allclose(got.grad.numpy(), expected.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_weight_norm_in_a_layer() -> None:
    # not the second derivative: that of torch's fused operation does not pass torch's own gradgradcheck
    values = np.random.default_rng(0).normal(size=(5, 4))
    assert_alike(lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), values, second=False)


def test_weight_norm_keeps_the_initial_weight() -> None:
    net = rg.nn.Linear(4, 3)
    before = net.weight.detach().clone()
    rg.nn.utils.parametrizations.weight_norm(net)
    assert rg.allclose(net.weight, before)


@pytest.mark.parametrize("train", [True, False])
def test_spectral_norm_agrees_with_torch(train: bool) -> None:
    assert_alike(
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=2),
        np.random.default_rng(0).normal(size=(5, 4)),
        train=train,
    )


@pytest.mark.parametrize("form", ["Linear(4, 3)", "Conv2d(2, 3, 2)", "ConvTranspose2d(2, 3, 2)"])
def test_spectral_norm_makes_the_largest_singular_value_one(form: str) -> None:
    net = eval(f"nn.{form}", {"nn": rg.nn}).double()
    rg.nn.utils.parametrizations.spectral_norm(net, n_power_iterations=200)
    first = 1 if "Transpose" in form else 0
    matrix = np.moveaxis(net.weight.detach().numpy(), first, 0).reshape(net.weight.shape[first], -1)
    assert np.linalg.svd(matrix)[1][0] == pytest.approx(1, rel=1e-6)


@parity
def test_spectral_norm_structure(m: Any) -> Any:
    norm = m.nn.utils.parametrizations.spectral_norm
    net = norm(m.nn.Linear(4, 3))
    return [
        [(name, tuple(value.shape)) for name, value in net.state_dict().items()],
        attempt(lambda: norm(m.nn.Linear(4, 3), n_power_iterations=0)),
        attempt(lambda: norm(m.nn.Linear(4, 3), "missing")),
        attempt(lambda: norm(m.nn.Linear(4, 3), dim=5)),
        norm(m.nn.LayerNorm(3)).weight.detach(),
    ]
