"""Every optimizer, with every option, takes the same steps as torch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.optim._blockwise import BLOCK, LARGE
from tests.optim.problems import assert_same, bowl, start, train, values

# The variants of options of each optimizer; {} means the defaults.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True, "momentum": 0.5},
    ],
    "Adam": [
        {},
        {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3},
        {"lr": 0.05, "weight_decay": 0.2, "amsgrad": True},
        {"lr": 0.05, "maximize": True, "weight_decay": 0.2},
        {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True},
    ],
    "AdamW": [
        {},
        {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True},
        {"betas": (0.5, 0.9), "eps": 1e-3, "maximize": True},
    ],
    "Adamax": [{}, {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3}, {"maximize": True, "weight_decay": 0.2}],
    "NAdam": [
        {},
        {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3, "momentum_decay": 0.1},
        {"lr": 0.05, "weight_decay": 0.2, "maximize": True},
        {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True},
    ],
    "RAdam": [
        {},
        {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3},
        {"lr": 0.05, "weight_decay": 0.2, "maximize": True},
        {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True},
    ],
    "ASGD": [
        {},
        {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 10},
        {"lr": 0.05, "t0": 0, "weight_decay": 0.2, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.2, "maximize": True},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.5, "eps": 1e-3}, {"weight_decay": 0.2, "maximize": True}],
    "RMSprop": [
        {},
        {"lr": 0.005, "alpha": 0.5, "eps": 1e-3},
        {"momentum": 0.9, "centered": True},
        {"centered": True, "weight_decay": 0.2},
        {"momentum": 0.5, "maximize": True},
    ],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.1)}, {"maximize": True, "lr": 0.05}],
}
CASES = [
    pytest.param(name, options, id=f"{name}-{'-'.join(options) or 'defaults'}")
    for name, variants in VARIANTS.items()
    for options in variants
]


def both(name: str, options: dict[str, Any], dtype: str = "float64") -> tuple[Any, Any, list[Any], list[Any]]:
    ours, theirs = start(rg, dtype), start(torch, dtype)
    return getattr(rg.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **options), ours, theirs


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_fifty_steps_agree_with_torch(name: str, options: dict[str, Any], dtype: str) -> None:
    optimizer, reference, ours, theirs = both(name, options, dtype)
    before = values(start(rg, dtype))
    train(optimizer, ours)
    train(reference, theirs)
    assert_same(ours, theirs, dtype)
    assert not any(np.array_equal(x, y) for x, y in zip(before, values(ours), strict=True))


def test_every_option_has_a_variant() -> None:
    implementation = {"foreach", "fused", "capturable", "differentiable", "params", "self"}
    for name, variants in VARIANTS.items():
        tried = {option for variant in variants for option in variant}
        options = set(inspect.signature(getattr(torch.optim, name)).parameters) - implementation
        assert tried == options, name


@pytest.mark.parametrize("name", [*VARIANTS, "LBFGS", "Optimizer"])
def test_optimizer_signatures_are_torchs(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(library.optim, name)).parameters for library in (rg, torch))
    described = [{key: (p.kind, p.default) for key, p in parameters.items()} for parameters in (ours, theirs)]
    assert described[0] == described[1]
    assert list(ours) == list(theirs)


def test_optimizer_defaults_and_repr_are_torchs() -> None:
    for name in (*VARIANTS, "LBFGS"):
        optimizer, reference, _, _ = both(name, {})
        assert optimizer.defaults == reference.defaults
        assert repr(optimizer) == repr(reference)


@pytest.mark.parametrize("name", VARIANTS)
def test_options_of_other_optimizers_are_ignored(name: str) -> None:
    """They occur when a program passes one list of groups to several optimizers."""
    others = {"weight_decay": 0.3, "decoupled_weight_decay": True, "momentum": 0.9, "amsgrad": True, "centered": True}

    def run(library: Any) -> Any:
        params = start(library)
        kind = getattr(library.optim, name)
        foreign = {key: value for key, value in others.items() if key not in kind(params).defaults}
        assert foreign
        train(kind([{"params": params, **foreign}], lr=0.01), params, 5)
        return params

    assert_same(run(rg), run(torch))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("layout", ["transposed", "sliced"])
def test_steps_of_parameters_in_any_layout(name: str, layout: str) -> None:
    """Parameters, gradients and state need not be contiguous."""
    rng = np.random.default_rng(1)
    array, grads = rng.standard_normal((6, 8)), rng.standard_normal((5, 8, 6))

    def run(library: Any) -> Any:
        if layout == "transposed":
            p = library.tensor(array).t().requires_grad_()
        else:
            p = library.tensor(np.repeat(array.T, 2, axis=0))[::2].detach().requires_grad_()
        optimizer = getattr(library.optim, name)([p])
        for grad in grads:
            p.grad = library.tensor(grad.T.copy()).t()
            optimizer.step()
        return p

    assert_same([run(rg)], [run(torch)])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [BLOCK + 5, 2 * LARGE + 77])
def test_steps_of_large_parameters(name: str, size: int) -> None:
    """Work in blocks and threads moves every element as it would move alone."""
    threads = rg.get_num_threads()
    rg.set_num_threads(2)
    rng = np.random.default_rng(2)
    few, count = rng.standard_normal((4, 7)), -(-size // 7)

    def run(parts: int) -> np.ndarray:
        p = rg.tensor(np.tile(few[0], parts)[: parts * 7 - (5 if parts > 1 else 0)], requires_grad=True)
        optimizer = getattr(rg.optim, name)([p])
        for row in few[1:]:
            p.grad = rg.tensor(np.tile(row, parts)[: p.numel()])
            optimizer.step()
        return p.detach().numpy()

    try:
        large = run(count)
    finally:
        rg.set_num_threads(threads)
    np.testing.assert_allclose(large, np.tile(run(1), count)[: large.size], rtol=1e-13)


@pytest.mark.parametrize("name", VARIANTS)
def test_steps_of_many_kinds_of_small_parameters(name: str) -> None:
    """Of two dtypes, transposed, beside a large one, and in two groups; some are updated together, some alone."""
    rng = np.random.default_rng(3)
    numbers = [rng.standard_normal((3, 4)) for _ in range(5)]

    def run(library: Any) -> list[Any]:
        single, double = library.float32, library.float64
        params = [
            library.tensor(numbers[0], dtype=double, requires_grad=True),
            library.tensor(numbers[1], dtype=single, requires_grad=True),
            library.tensor(numbers[2], dtype=double).t().requires_grad_(),
            library.tensor(numbers[3][:, ::2], dtype=double, requires_grad=True),
            library.tensor(np.resize(numbers[4], 5000), dtype=double, requires_grad=True),
        ]
        optimizer = getattr(library.optim, name)([{"params": params[:3]}, {"params": params[3:], "lr": 0.03}], lr=0.01)
        for step in range(1, 6):
            for p in params:
                p.grad = (p.detach() * 0.3 + 0.1 * step).to(p.dtype)
            optimizer.step()
        return params

    assert_same(run(rg), run(torch), "float32")


@pytest.mark.parametrize("name", VARIANTS)
def test_steps_of_parameters_that_share_memory(name: str) -> None:
    """Each updates the memory in turn."""

    def run(library: Any) -> Any:
        p = library.tensor([1.0, -2.0, 3.0], requires_grad=True)
        tied, part = p.detach().requires_grad_(), p.detach()[1:].requires_grad_()
        optimizer = getattr(library.optim, name)([p, tied, part], lr=0.1)
        for step in range(1, 5):
            for number, each in enumerate((p, tied, part)):
                each.grad = library.full_like(each.detach(), 0.2 * step - 0.3 * number)
            optimizer.step()
        return p

    assert_same([run(rg)], [run(torch)], "float32")


@pytest.mark.parametrize("name", VARIANTS)
def test_steps_in_float16(name: str) -> None:
    optimizer, reference, ours, theirs = both(name, {"eps": 1e-3} if name in ("Adam", "NAdam") else {}, "float16")
    train(optimizer, ours, 3)
    train(reference, theirs, 3)
    assert all(p.dtype == rg.float16 for p in ours)
    if name in ("SGD", "Adam", "NAdam", "Rprop"):  # the others use numbers too small or too large for float16
        for mine, torchs in zip(values(ours), values(theirs), strict=True):
            np.testing.assert_allclose(mine, torchs, rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("copies", [1, 4000])
def test_steps_with_gradients_that_are_not_finite(name: str, copies: int) -> None:
    """As in torch, there is no warning, and the same elements become NaN or infinite, in small and large parameters."""

    def run(library: Any) -> np.ndarray:
        p = library.tensor(np.ones(6 * copies, np.float32), requires_grad=True)
        optimizer = getattr(library.optim, name)([p], lr=1e-3)
        for sign in (1, 1, -1):
            grad = np.array([np.nan, np.inf, -np.inf, 1e18, 1e-30, 0], np.float32)
            p.grad = library.tensor(np.tile(sign * grad, copies))
            optimizer.step()
        return p.detach().numpy()

    np.testing.assert_array_equal(np.isfinite(run(rg)), np.isfinite(run(torch)))


def test_learning_rate_as_a_tensor() -> None:
    ours, theirs = start(rg), start(torch)
    for library, params in ((rg, ours), (torch, theirs)):
        optimizer = library.optim.Adam(params, lr=library.tensor(0.05))
        scheduler = library.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        for step in range(5):
            train(optimizer, params, 1, first=step)
            scheduler.step()
    assert_same(ours, theirs, "float32")


class TestLBFGS:
    VARIANTS = (
        {},
        {"lr": 0.3},
        {"max_iter": 3, "history_size": 2},
        {"max_iter": 0},
        {"line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "lr": 5.0, "max_iter": 7},
        {"line_search_fn": "strong_wolfe", "lr": 0.01, "max_eval": 5},
    )

    @staticmethod
    def closure(optimizer: Any, params: list[Any], counter: list[int], hard: bool) -> Any:
        def evaluate() -> Any:
            counter[0] += 1
            optimizer.zero_grad()
            loss = bowl(params)
            if hard:
                a, b = params[1][0], params[1][1]
                loss = loss + (1 - a) ** 2 + 10 * (b - a * a) ** 2
            loss.backward()
            return loss

        return evaluate

    @pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options) or "defaults")
    @pytest.mark.parametrize("hard", [False, True], ids=["easy", "hard"])
    def test_lbfgs_steps_agree_with_torch(self, options: dict[str, Any], hard: bool) -> None:
        if hard and "line_search_fn" not in options:
            options = {**options, "lr": 0.02}  # with a larger rate and no line search, torch's steps diverge, too
        optimizer, reference, ours, theirs = both("LBFGS", options)
        mine, torchs = [0], [0]
        for _ in range(4):
            optimizer.step(self.closure(optimizer, ours, mine, hard))
            reference.step(self.closure(reference, theirs, torchs, hard))
            assert mine == torchs
        for p, q in zip(values(ours), values(theirs), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-7, atol=1e-7)

    def test_lbfgs_with_complex_parameters(self) -> None:
        optimizer, reference, ours, theirs = both("LBFGS", {"line_search_fn": "strong_wolfe"}, "complex128")
        optimizer.step(self.closure(optimizer, ours, [0], False))
        reference.step(self.closure(reference, theirs, [0], False))
        assert_same(ours, theirs)

    def test_lbfgs_state_is_torchs(self) -> None:
        optimizer, reference, ours, theirs = both("LBFGS", {"max_iter": 3})
        optimizer.step(self.closure(optimizer, ours, [0], False))
        reference.step(self.closure(reference, theirs, [0], False))
        mine, torchs = optimizer.state_dict()["state"][0], reference.state_dict()["state"][0]
        assert set(torchs) - {"al"} == set(mine)  # torch's "al" is scratch memory
        for key, value in mine.items():
            pairs = zip(value, torchs[key], strict=True) if isinstance(value, list) else [(value, torchs[key])]
            for x, y in pairs:
                assert torch.as_tensor(y).tolist() == pytest.approx(rg.as_tensor(x).tolist(), rel=1e-6)

    @pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
    def test_lbfgs_keeps_full_precision_between_steps(self, line_search: str | None) -> None:
        options = {"lr": 0.1, "max_iter": 2, "line_search_fn": line_search}
        optimizer, reference, ours, theirs = both("LBFGS", options, "float64")
        for _ in range(8):
            optimizer.step(self.closure(optimizer, ours, [0], True))
            reference.step(self.closure(reference, theirs, [0], True))
        for p, q in zip(values(ours), values(theirs), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-13, atol=1e-13)

    @pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
    def test_lbfgs_leaves_the_parameters_alone_when_the_closure_raises(self, line_search: str | None) -> None:
        ours = start(rg)
        optimizer = rg.optim.LBFGS(ours, line_search_fn=line_search)
        counter = [0]
        evaluate = self.closure(optimizer, ours, counter, False)
        before = [p.detach().clone() for p in ours]

        def closure() -> Any:
            if counter[0] == 1:
                raise ArithmeticError("no more")
            return evaluate()

        with pytest.raises(ArithmeticError):
            optimizer.step(closure)
        assert all(bool((p == q).all()) for p, q in zip(ours, before, strict=True))

    def test_lbfgs_needs_a_closure(self) -> None:
        with pytest.raises(TypeError, match="needs a closure"):
            rg.optim.LBFGS(start(rg)).step()

    def test_lbfgs_refuses_unknown_line_searches(self) -> None:
        with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported, but line_search_fn is 'armijo'"):
            rg.optim.LBFGS(start(rg), line_search_fn="armijo").step(lambda: 0)

    def test_lbfgs_refuses_several_groups(self) -> None:
        with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
            rg.optim.LBFGS([{"params": [p]} for p in start(rg)])


def test_lbfgs_line_search_with_zero_learning_rate_does_not_move() -> None:
    x = rg.tensor([1.0, -2.0], requires_grad=True)
    optimizer = rg.optim.LBFGS([x], lr=0.0, line_search_fn="strong_wolfe")

    def closure() -> rg.Tensor:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.tolist() == [1, -2]
