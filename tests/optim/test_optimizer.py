"""What all optimizers share: groups, hooks, errors, and state dicts that can be exchanged with torch."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core import state
from retrograd.core.monitor import Monitor
from retrograd.optim import optimizer as base
from tests.optim.problems import assert_same, start, train, values
from tests.optim.test_algorithms import VARIANTS
from tests.parity import attempt, message, parity


def module_of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.optim.optimizer")


def to_torch(value: Any) -> Any:
    """Return a state dict with torch's tensors in place of ours."""
    if isinstance(value, rg.Tensor):
        return torch.tensor(value.numpy())
    if isinstance(value, dict):
        return {key: to_torch(item) for key, item in value.items()}
    return [to_torch(item) for item in value] if isinstance(value, list) else value


# For each optimizer, the variant with the most options.
RICHEST = {name: max(variants, key=len) for name, variants in VARIANTS.items()}


@pytest.mark.parametrize("name", VARIANTS)
class TestStateDicts:
    def test_state_dict_loads_from_torch(self, name: str) -> None:
        ours, theirs = start(rg), start(torch)
        reference = getattr(torch.optim, name)(theirs, **RICHEST[name])
        train(reference, theirs, 10)
        optimizer = getattr(rg.optim, name)(ours)
        optimizer.load_state_dict(reference.state_dict())
        with rg.no_grad():
            for p, q in zip(ours, theirs, strict=True):
                p.copy_(rg.tensor(q.detach().numpy()))
        train(optimizer, ours, 10, first=10)
        train(reference, theirs, 10, first=10)
        assert_same(ours, theirs)

    def test_state_dict_loads_into_torch(self, name: str) -> None:
        ours, theirs = start(rg), start(torch)
        optimizer = getattr(rg.optim, name)(ours, **RICHEST[name])
        train(optimizer, ours, 10)
        reference = getattr(torch.optim, name)(theirs)
        reference.load_state_dict(to_torch(optimizer.state_dict()))
        with torch.no_grad():
            for p, q in zip(ours, theirs, strict=True):
                q.copy_(torch.tensor(p.detach().numpy()))
        train(optimizer, ours, 10, first=10)
        train(reference, theirs, 10, first=10)
        assert_same(ours, theirs)

    def test_state_dict_has_torchs_structure(self, name: str) -> None:
        ours, theirs = start(rg), start(torch)
        states = []
        for library, params in ((rg, ours), (torch, theirs)):
            optimizer = getattr(library.optim, name)(params, **RICHEST[name])
            before = optimizer.state_dict()
            train(optimizer, params, 1)
            states.append([before, optimizer.state_dict()])
        for mine, torchs in zip(*states, strict=True):
            assert mine["param_groups"] == torchs["param_groups"]
            assert {number: list(kept) for number, kept in mine["state"].items()} == {
                number: list(kept) for number, kept in torchs["state"].items()
            }
            for number, kept in mine["state"].items():
                for key, value in kept.items():
                    assert str(value.dtype).split(".")[-1] == str(torchs["state"][number][key].dtype).split(".")[-1]

    def test_resumed_optimizer_continues_exactly(self, name: str) -> None:
        ours, whole = start(rg), start(rg)
        optimizer = getattr(rg.optim, name)(ours, **RICHEST[name])
        train(optimizer, ours, 5)
        fresh = getattr(rg.optim, name)(ours)
        fresh.load_state_dict(optimizer.state_dict())
        train(fresh, ours, 5, first=5)
        train(getattr(rg.optim, name)(whole, **RICHEST[name]), whole, 10)
        for p, q in zip(values(ours), values(whole), strict=True):
            np.testing.assert_array_equal(p, q)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_was_loaded_is_shared(name: str) -> None:
    """As in torch, a step after loading changes the tensors of the state dict; a copy keeps them."""

    @parity
    def compare(m: Any) -> Any:
        def stepped() -> tuple[Any, Any]:
            p = m.tensor([1.0, -2.0, 3.0], requires_grad=True)
            optimizer = getattr(m.optim, name)([p], **RICHEST[name])
            p.grad = m.tensor([0.5, 0.25, -1.0])
            optimizer.step(*closure(p))
            return p, optimizer

        def closure(p: Any) -> list[Any]:
            return [lambda: (p.grad * p).sum()] if name == "LBFGS" else []

        def tensors(state: Any) -> dict[str, Any]:
            return {key: value for key, value in state.items() if isinstance(value, m.Tensor)}

        (p, first), (q, second) = stepped(), stepped()
        saved = first.state_dict()
        second.load_state_dict(saved)
        shared = {key: value is second.state[q][key] for key, value in tensors(saved["state"][0]).items()}
        second.step(*closure(q))
        first.step(*closure(p))
        second.step(*closure(q))
        third_p, third = stepped()
        third.load_state_dict(copy.deepcopy(saved))
        third.step(*closure(third_p))
        return [shared, tensors(saved["state"][0]), tensors(third.state[third_p]), p, q, third_p]

    compare()


@parity
def test_step_counts_saved_as_numbers_are_loaded(m: Any) -> Any:
    """Older programs saved them so. The state of a user's own optimizer is not converted."""

    class Own(m.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

    report: dict[str, Any] = {}
    o = m.optim
    others = o.SGD, o.Adam, o.Adagrad, o.Adadelta, o.RMSprop, o.Rprop, o.ASGD, o.RAdam, o.NAdam, o.Adamax, o.Adafactor
    for kind in (Own, o.AdamW, o.LBFGS, *others):
        optimizer = kind([m.ones(1, requires_grad=True)])
        saved = optimizer.state_dict()
        saved["state"] = {0: {"step": 5, "mu": 1.0, "eta": 0.25, "mu_product": 0.5, "other": 3}}
        optimizer.load_state_dict(saved)
        report[kind.__name__] = list(optimizer.state.values())
    return report


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    ("saved_as", "loaded_as", "default"),
    [
        ("float64", "float64", "float32"),
        ("float32", "float64", "float32"),
        ("float64", "float32", "float32"),
        ("float32", "float32", "float64"),
        ("complex128", "complex128", "float32"),
        ("float32", "float32", "float16"),
        ("float16", "float16", "float32"),
    ],
)
def test_training_resumed_in_another_dtype(name: str, saved_as: str, loaded_as: str, default: str) -> None:
    """Loaded state has torch's dtypes, except for single numbers, and training continues as in torch."""

    def run(library: Any) -> tuple[list[Any], list[dict[str, str]]]:
        library.set_default_dtype(getattr(library, default))
        try:
            params = start(library, saved_as)
            options = VARIANTS[name][-1]
            optimizer = getattr(library.optim, name)(params, **options)
            train(optimizer, params, 5)
            again = [p.detach().to(getattr(library, loaded_as)).clone().requires_grad_() for p in params]
            resumed = getattr(library.optim, name)(again, **options)
            resumed.load_state_dict(optimizer.state_dict())
            train(resumed, again, 50 if "16" not in saved_as else 1, first=5)
        finally:
            library.set_default_dtype(library.float32)
        dtypes = [
            {
                key: str(value.dtype).rpartition(".")[2]
                for key, value in kept.items()
                if key not in ("eta", "mu", "mu_product")
            }
            for kept in resumed.state_dict()["state"].values()
        ]
        return again, dtypes

    (ours, dtypes), (theirs, torchs) = run(rg), run(torch)
    assert dtypes == torchs
    if "16" not in saved_as:
        assert_same(ours, theirs, loaded_as if saved_as == loaded_as else "float32")


def test_loading_another_object_than_a_dict_says_so() -> None:
    optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(TypeError, match=r"Expected state_dict to be dict-like, got <class 'list'>\.$"):
        optimizer.load_state_dict([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"dict-like, got <class '[\w.]+SGD'>; pass its state_dict\(\)\."):
        optimizer.load_state_dict(optimizer)  # type: ignore[arg-type]


def test_loaded_options_and_loaded_arrays_are_copies() -> None:
    ours = start(rg)
    optimizer = rg.optim.Adam(ours)
    train(optimizer, ours, 3)
    saved = optimizer.state_dict()
    kept = saved["state"][0]["exp_avg"].numpy().copy()
    kept.flags.writeable = False
    saved["state"][0]["exp_avg"] = kept
    fresh = rg.optim.Adam(ours)
    fresh.load_state_dict(saved)
    train(fresh, ours, 3)
    assert not np.array_equal(fresh.state[ours[0]]["exp_avg"].numpy(), kept)
    fresh.param_groups[0]["lr"] = 7.0
    assert saved["param_groups"][0]["lr"] == 1e-3


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))], ids=["copy", "pickle"]
)
def test_optimizer_copied_with_its_parameters(how: Any) -> None:
    ours = start(rg)
    optimizer = rg.optim.Adam(ours, lr=0.05)
    train(optimizer, ours, 3)
    again, params = how((optimizer, ours))
    assert again.param_groups[0]["params"][0] is params[0]
    train(again, params, 3, first=3)
    train(optimizer, ours, 3, first=3)
    for p, q in zip(values(ours), values(params), strict=True):
        np.testing.assert_array_equal(p, q)


def leaves(t: Any) -> tuple[Any, Any]:
    return t.ones(2, requires_grad=True), t.zeros(3, requires_grad=True)


@parity
def test_parameter_groups(t: Any) -> Any:
    a, b = leaves(t)
    optimizer = t.optim.SGD([{"params": [a], "lr": 0.5}, {"params": b, "momentum": 0.9}], lr=0.1)
    c = t.full((1,), 2.0, requires_grad=True)
    optimizer.add_param_group({"params": c, "weight_decay": 1.0})
    for _ in range(2):
        optimizer.zero_grad()
        (a.sum() + b.sum() + c.sum()).backward()
        optimizer.step()
    return [a, b, c, str(optimizer), optimizer.state_dict()["state"], optimizer.state_dict()["param_groups"]]


@parity
def test_named_parameters(t: Any) -> Any:
    a, b = leaves(t)
    optimizer = t.optim.Adam([("a", a), ("b", b)])
    saved = optimizer.state_dict()
    unnamed = t.optim.Adam([a, b])
    unnamed.load_state_dict(saved)
    named = t.optim.Adam([("x", a), ("y", b)])
    named.load_state_dict(t.optim.Adam([a, b]).state_dict())
    return [saved["param_groups"], unnamed.param_groups[0]["param_names"], named.param_groups[0]["param_names"]]


@parity
def test_wrong_uses_of_optimizers_are_refused_as_in_torch(t: Any) -> Any:
    a, b = leaves(t)
    sgd = t.optim.SGD

    def load(groups: Any) -> Any:
        other = sgd(groups)
        return sgd([a, b]).load_state_dict(other.state_dict())

    return [
        attempt(call)
        for call in (
            lambda: sgd(a),
            lambda: sgd([]),
            lambda: sgd([1.0]),
            lambda: sgd({"params": [a]}),
            lambda: sgd([a * 2]),
            lambda: sgd([{"params": {a, b}}]),
            lambda: sgd([{"params": [a]}, {"params": [a, b]}]),
            lambda: sgd([("a", a), b]),
            lambda: sgd([a]).add_param_group([b]),
            lambda: sgd([a]).add_param_group({"params": [("b", b)]}),
            lambda: sgd([a], lr=-1),
            lambda: sgd([a], lr=t.ones(2)),
            lambda: sgd([a], momentum=-1),
            lambda: sgd([a], weight_decay=-1),
            lambda: sgd([a], nesterov=True),
            lambda: sgd([a], fused=True, foreach=True),
            lambda: t.optim.Adam([a], betas=(1.0, 0.9)),
            lambda: t.optim.Adam([a], betas=(0.9, -0.1)),
            lambda: t.optim.Adam([a], eps=-1),
            lambda: t.optim.Adam([a], betas=(0.9, t.tensor(0.9))),
            lambda: t.optim.Rprop([a], etas=(1.5, 1.2)),
            lambda: t.optim.Adadelta([a], rho=2),
            lambda: t.optim.RMSprop([a], alpha=-1),
            lambda: t.optim.NAdam([a], momentum_decay=-1),
            lambda: t.optim.Adagrad([a], lr_decay=-1),
            lambda: t.optim.Adagrad([a], initial_accumulator_value=-1),
            lambda: load([{"params": [a]}, {"params": [b]}]),
            lambda: load([a]),
        )
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1.0}),
        ("SGD", {"momentum": -0.5}),
        ("Adam", {"betas": (0.9, 1.0)}),
        ("Adam", {"eps": -1.0}),
        ("AdamW", {"weight_decay": -1.0}),
        ("NAdam", {"momentum_decay": -1.0}),
        ("Adadelta", {"rho": 1.5}),
        ("RMSprop", {"alpha": -0.1}),
        ("Adagrad", {"lr_decay": -0.1}),
        ("Adagrad", {"initial_accumulator_value": -0.1}),
        ("Rprop", {"etas": (0.5, 0.6)}),
        ("Adafactor", {"lr": -1.0}),
        ("Adafactor", {"beta2_decay": 1.0}),
        ("Adafactor", {"eps": (-1.0, 1e-3)}),
        ("Adafactor", {"eps": (None, -1e-3)}),
        ("Adafactor", {"d": 0.5}),
        ("Adafactor", {"weight_decay": -1.0}),
        ("Muon", {"lr": -1.0}),
        ("Muon", {"momentum": -1.0}),
        ("Muon", {"weight_decay": -1.0}),
    ],
)
def test_errors_about_options_are_worded_as_in_torch(name: str, options: dict[str, Any]) -> None:
    texts = [
        message(lambda t=t: getattr(t.optim, name)([t.ones(1, requires_grad=True)], **options)) for t in (rg, torch)
    ]
    assert texts[0] == texts[1]


def test_differentiable_steps_are_refused_with_advice() -> None:
    for name in VARIANTS:
        with pytest.raises(NotImplementedError, match=r"w = w - lr \* grad"):
            getattr(rg.optim, name)([rg.ones(1, requires_grad=True)], differentiable=True)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lr": "1e-3"}, TypeError, r"learning rate: '1e-3' is of type str, not a number; convert it with float\(\)"),
        ({"lr": None}, TypeError, "learning rate: None is of type NoneType, not a number$"),
        ({"eps": "1e-8"}, TypeError, "epsilon value: '1e-8'"),
        ({"weight_decay": "0.1"}, TypeError, "weight_decay value: '0.1'"),
        ({"betas": 0.9}, TypeError, r"betas must be a pair of numbers, .* got 0\.9"),
        ({"betas": (0.9,)}, TypeError, r"betas must be a pair of numbers, .* got \(0\.9,\)"),
        ({"betas": np.float64(0.9)}, TypeError, r"betas must be a pair of numbers, .* got np.float64\(0\.9\)"),
        ({"betas": rg.tensor(0.5)}, TypeError, r"betas must be a pair of numbers, .* got tensor\(0\.5000\)"),
        ({"betas": ("0.9", 0.9)}, TypeError, "beta parameter at index 0: '0.9' is of type str"),
        ({"lr": -1.0}, ValueError, r"learning rate: -1\.0"),
    ],
)
def test_options_must_be_numbers(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rg.optim.AdamW([rg.ones(1, requires_grad=True)], **options)


@pytest.mark.parametrize(
    ("name", "option", "error", "words"),
    [
        ("Adafactor", {"lr": "1e-3"}, TypeError, "Learning rate: '1e-3' is of type str, not a number"),
        ("Adafactor", {"d": None}, TypeError, "Clipping threshold d: None is of type NoneType"),
        ("Muon", {"momentum": "0.9"}, TypeError, "momentum: '0.9' is of type str"),
        ("Muon", {"ns_steps": "5"}, TypeError, "number of steps: '5' is of type str"),
        ("Muon", {"ns_coefficients": 3.0}, ValueError, r"exactly 3 values, but are: 3\.0"),
    ],
)
def test_options_of_optimizers_of_matrices_must_be_numbers(
    name: str, option: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        getattr(rg.optim, name)([rg.ones(2, 2, requires_grad=True)], **option)


@pytest.mark.parametrize("name", [*VARIANTS, "LBFGS"])
def test_learning_rate_may_be_any_kind_of_number(name: str) -> None:
    def trained(lr: Any) -> list[float]:
        w = rg.ones(1, requires_grad=True)
        optimizer = getattr(rg.optim, name)([w], lr=lr)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return w.tolist()

    for lr in (1, True, np.float32(0.125), np.array(0.125), rg.tensor(0.125), rg.tensor([0.125])):
        assert trained(lr) == pytest.approx(trained(float(lr)), rel=1e-6)
        assert lr in (1, 0.125), "the learning rate passed in was changed"


def test_errors_about_missing_parameters_give_the_reason() -> None:
    with pytest.raises(ValueError, match=r"empty parameter list: the generator is exhausted, .* use a ModuleList"):
        rg.optim.SGD(rg.nn.Module().parameters())
    with pytest.raises(
        TypeError, match=r"retrograd.nn.modules.linear.Linear; pass the module's parameters\(\) instead"
    ):
        rg.optim.SGD(rg.nn.Sequential(rg.nn.Linear(2, 1)), lr=0.1)
    with pytest.raises(ValueError, match=r"empty parameter list$"):
        rg.optim.SGD([])
    with pytest.raises(KeyError, match=r"must have the key 'params', but its keys are \['weights'\]"):
        rg.optim.SGD([{"weights": [rg.ones(1, requires_grad=True)]}])


def test_error_about_a_non_leaf_names_the_parameter() -> None:
    w = rg.ones(2, 3, requires_grad=True)
    with pytest.raises(ValueError, match=r"can't optimize a non-leaf Tensor: parameter number 1, of shape \[2, 3\]"):
        rg.optim.SGD([rg.ones(1, requires_grad=True), w * 2])
    with pytest.raises(ValueError, match=r"make it a leaf with detach\(\)\.requires_grad_\(\)$"):
        rg.optim.SGD([w * 2])


def test_duplicate_parameters_warn() -> None:
    w = rg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        rg.optim.SGD([w, w])


@parity
def test_zero_grad(t: Any) -> Any:
    report: list[Any] = []
    for set_to_none in (True, False):
        a, b = leaves(t)
        optimizer = t.optim.SGD([a, b])
        (a * a).sum().backward(create_graph=not set_to_none)
        grad = a.grad
        optimizer.zero_grad(set_to_none=set_to_none)
        report += [
            a.grad is None,
            a.grad is grad,
            a.grad is not None and (a.grad.requires_grad, a.grad),
            b.grad is None,
        ]
    return report


@parity
def test_zero_grad_writes_zeros_like_an_in_place_operation(t: Any) -> Any:
    """Even to an expanded gradient without repeated elements; and a graph that saved the gradient notices the write."""
    a, b = leaves(t)
    optimizer = t.optim.SGD([a, b])
    a.grad = t.ones_like(a).expand(1, *a.shape)[0]
    optimizer.zero_grad(set_to_none=False)
    report = [a.grad]
    a.grad = t.ones_like(a)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        product = (b[0] * a.grad).sum()
        optimizer.zero_grad(set_to_none=False)
        product.backward()
    return [*report, a.grad, b.grad]


@parity
def test_step_with_a_closure(t: Any) -> Any:
    a, _ = leaves(t)
    optimizer = t.optim.SGD([a], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with t.no_grad():
        loss = optimizer.step(closure)
    return [loss.detach(), loss.requires_grad, a.detach(), optimizer.step()]


@parity
def test_optimizer_hooks(t: Any) -> Any:
    a, _ = leaves(t)
    optimizer = t.optim.SGD([a], lr=0.1)
    seen: list[Any] = []

    def note(name: str) -> Any:
        return lambda *args: seen.append((name, len(args), [type(arg).__name__ for arg in args]))

    from_module = module_of(t)
    handles = [
        from_module.register_optimizer_step_pre_hook(note("global before")),
        from_module.register_optimizer_step_post_hook(note("global after")),
        optimizer.register_step_pre_hook(note("before")),
        optimizer.register_step_post_hook(note("after")),
        optimizer.register_state_dict_pre_hook(note("before saving")),
        optimizer.register_state_dict_post_hook(note("after saving")),
        optimizer.register_state_dict_pre_hook(note("first before saving"), prepend=True),
        optimizer.register_load_state_dict_pre_hook(note("before loading")),
        optimizer.register_load_state_dict_post_hook(note("after loading")),
    ]
    a.grad = t.ones(2)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    for handle in handles:
        handle.remove()
    count = len(seen)
    optimizer.step()
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: ((*args, lambda: 5.0), kwargs))
    replaced = optimizer.step()
    optimizer.register_state_dict_post_hook(lambda optimizer, saved: {"wrapped": saved})
    optimizer.register_step_pre_hook(lambda *args: 3)
    return [seen, count == len(seen), replaced, list(optimizer.state_dict()), attempt(optimizer.step)]


@parity
def test_user_defined_optimizer(t: Any) -> Any:
    class Half(t.optim.Optimizer):  # type: ignore[misc,name-defined]
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"rate": module_of(t).required})

        def step(self) -> Any:
            with t.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p -= group["rate"] * p.grad
                        self.state[p]["seen"] = self.state[p].get("seen", 0) + 1

    a, _ = leaves(t)
    optimizer = Half([{"params": [a], "rate": 0.5}])
    calls: list[int] = []
    optimizer.register_step_post_hook(lambda *args: calls.append(1))
    a.grad = t.ones(2)
    optimizer.step()
    missing = attempt(lambda: Half([a]))
    return [
        a.detach(),
        calls,
        optimizer.state_dict(),
        missing,
        repr(optimizer),
        attempt(t.optim.Optimizer([a], {}).step),
    ]


@parity
def test_wrapping_optimizer_that_does_not_call_super_init(t: Any) -> Any:
    class Lookahead(t.optim.Optimizer):  # type: ignore[misc,name-defined]
        def __init__(self, optimizer: Any) -> None:
            self.optimizer = optimizer
            self.param_groups = optimizer.param_groups
            self.defaults = optimizer.defaults
            self.slow = {p: p.detach().clone() for group in self.param_groups for p in group["params"]}

        def step(self, closure: Any = None) -> Any:
            loss = self.optimizer.step(closure)
            for p, slow in self.slow.items():
                slow += 0.5 * (p.data - slow)
                p.data.copy_(slow)
            return loss

    a, _ = leaves(t)
    optimizer = Lookahead(t.optim.SGD([a], lr=0.1))
    scheduler = t.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    rates = []
    for _ in range(3):
        optimizer.zero_grad()
        a.square().sum().backward()
        optimizer.step()
        scheduler.step()
        rates += scheduler.get_last_lr()
    return a.detach(), rates


def test_step_hooks_run_once_when_a_subclass_calls_super() -> None:
    class Mine(rg.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    w = rg.ones(1, requires_grad=True)
    optimizer = Mine([w])
    calls: list[int] = []
    optimizer.register_step_pre_hook(lambda *args: calls.append(1))
    optimizer.step()
    optimizer.step()
    assert calls == [1, 1]


def test_profile_shows_optimizer_steps() -> None:
    w = rg.ones(1, requires_grad=True)
    with rg.autograd.profiler.profile() as prof:
        rg.optim.SGD([w]).step()
    assert "Optimizer.step#SGD.step" in [event.name for event in prof.function_events]


def test_step_increases_the_version_of_parameters() -> None:
    w = rg.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    rg.optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("name", [*VARIANTS, "LBFGS"])
def test_monitor_can_withhold_a_step(name: str) -> None:
    """Parameters and state stay unchanged, whether the step is refused at once or after the closure has run."""

    class Refusing(Monitor):
        def before_step(self, optimizer: Any) -> bool:
            asked.append(optimizer)
            return len(asked) <= allowed

    ours = start(rg)
    optimizer = getattr(rg.optim, name)(ours)
    asked: list[Any] = []

    def closure() -> Any:
        for p in ours:
            p.grad = rg.ones_like(p)
        return 5.0

    closure()
    before = values([p.clone() for p in ours])
    for allowed in (0, 1) if name == "LBFGS" else (0,):
        asked.clear()
        saved = str(optimizer.state_dict()["state"])
        previous = state.set_monitor(Refusing())
        try:
            assert optimizer.step(closure) == 5.0
        finally:
            state.set_monitor(previous)
        assert asked == [optimizer] * (allowed + 1)
        assert all(np.array_equal(x, y) for x, y in zip(before, values(ours), strict=True))
        assert str(optimizer.state_dict()["state"]) == saved
    optimizer.step(closure)
    assert not np.array_equal(before[0], values(ours)[0])


def test_step_refuses_read_only_parameters() -> None:
    array = np.ones(3, np.float32)
    w = rg.from_numpy(array).requires_grad_()
    array.flags.writeable = False
    w.grad = rg.ones(3)
    with pytest.raises(RuntimeError, match=r"SGD\.step"):
        rg.optim.SGD([w]).step()


def test_public_names_of_optim_exist_in_torch() -> None:
    assert set(base.__all__) <= set(dir(module_of(torch)))
    assert set(rg.optim.__all__) <= set(torch.optim.__all__) | {"lr_scheduler"}


@parity
def test_state_dict_groups_list_params_last(m: Any) -> Any:
    optimizer = m.optim.SGD([m.zeros(1)], lr=0.1)
    return [list(group) for group in optimizer.state_dict()["param_groups"]]


@parity
def test_lbfgs_refuses_a_group_added_later(lib: Any) -> Any:
    x, y = (lib.ones(2, requires_grad=True) for _ in range(2))
    optimizer = lib.optim.LBFGS([x])
    optimizer.add_param_group({"params": [y]})
    return [attempt(lambda: optimizer.step(lambda: (x + y).sum()))]


@pytest.mark.parametrize("shape", [(3, 4), (300, 400)])
def test_state_tensors_have_their_own_storage(shape: tuple[int, ...]) -> None:
    def layout(lib: Any) -> Any:
        param = lib.ones(shape, requires_grad=True)
        optimizer = lib.optim.Adam([param])
        param.sum().backward()
        optimizer.step()
        kept = [optimizer.state[param][name] for name in ("exp_avg", "exp_avg_sq")]
        return [(each.storage_offset(), each.untyped_storage().nbytes(), each.stride()) for each in kept]

    assert layout(rg) == layout(torch)
