"""Optimizers that began as copies of torch's, with what they import from ``torch.optim.optimizer``."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

import retrograd as rg
from tests.optim.problems import start, train
from tests.parity import attempt, parity

NAMES = [
    "_capturable_doc",
    "_default_to_fused_or_foreach",
    "_differentiable_doc",
    "_disable_dynamo_if_unsupported",
    "_foreach_doc",
    "_get_value",
    "_maximize_doc",
    "_stack_if_compiling",
    "_use_grad_for_differentiable",
    "_view_as_real",
    "required",
]


def copied(lib: Any) -> Any:
    """Return a sign-of-momentum optimizer, written as torch writes its own."""
    base = importlib.import_module(f"{lib.__name__}.optim.optimizer")

    class Copied(base.Optimizer):  # type: ignore[misc]
        __doc__ = f"An optimizer.\n{base._foreach_doc}\n{base._maximize_doc}\n{base._differentiable_doc}"

        def __init__(self, params: Any, lr: Any = 0.01, differentiable: bool = False, listed: bool = False) -> None:
            super().__init__(params, {"lr": lr, "differentiable": differentiable, "foreach": listed})
            self._patch_step_function()

        @base._use_grad_for_differentiable
        def step(self, closure: Any = None) -> None:
            self._cuda_graph_capture_health_check()
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                for p in params:
                    if not self.state[p]:
                        self.state[p]["step"] = lib.zeros((), dtype=base._get_scalar_dtype())
                        self.state[p]["momentum"] = lib.zeros_like(p)
                momenta = [self.state[p]["momentum"] for p in params]
                steps = [self.state[p]["step"] for p in params]
                update = listed if group["foreach"] else one_by_one
                update(params, [p.grad for p in params], momenta, steps, base._get_value(group["lr"]))

    @base._disable_dynamo_if_unsupported(single_tensor_fn=None)
    def one_by_one(params: Any, grads: Any, momenta: Any, steps: Any, lr: float) -> None:
        base._view_as_real(params, grads, momenta)
        for p, g, m, step in zip(params, grads, momenta, steps, strict=True):
            step += 1
            m.lerp_(g, 0.1)
            p.add_(m.sign(), alpha=-lr / math.sqrt(base._get_value(step)))

    def listed(params: Any, grads: Any, momenta: Any, steps: Any, lr: float) -> None:
        groups = base.Optimizer._group_tensors_by_device_and_dtype([params, grads, momenta, steps])
        for (some, their_grads, their_momenta, their_steps), _ in groups.values():
            lib._foreach_add_(their_steps, 1)
            lib._foreach_lerp_(their_momenta, their_grads, 0.1)
            rates = base._stack_if_compiling([-lr / math.sqrt(base._get_value(step)) for step in their_steps])
            lib._foreach_add_(some, lib._foreach_mul([m.sign() for m in their_momenta], rates))

    return Copied


@pytest.mark.parametrize("listed", [False, True])
def test_copied_optimizers_step_as_in_torch(listed: bool) -> None:
    @parity
    def check(lib: Any) -> Any:
        params = start(lib)
        optimizer = copied(lib)(params, lr=lib.tensor(0.05), listed=listed)
        train(optimizer, params, 5)
        return [p.detach() for p in params]

    check()


@parity
def test_steps_are_recorded_where_they_are_differentiable(lib: Any) -> Any:
    def after_a_step(differentiable: bool) -> Any:
        leaf = lib.tensor([1.0, -2.0], requires_grad=True)
        weight = leaf.clone()
        weight.grad = lib.ones(2)
        optimizer = copied(lib)([leaf], differentiable=differentiable)
        optimizer.param_groups[0]["params"] = [weight]
        if not differentiable:
            return attempt(optimizer.step)
        optimizer.step()
        weight.sum().backward()
        return leaf.grad

    return [after_a_step(True), lib.is_grad_enabled()]


@parity
def test_complex_parameters_as_real_ones(lib: Any) -> Any:
    base = importlib.import_module(f"{lib.__name__}.optim.optimizer")
    params, grads = [lib.tensor([1 + 2j]), lib.ones(2)], [lib.tensor([3j]), lib.zeros(2)]
    base._view_as_real(params, grads)
    return [*params, *grads]


@parity
def test_tensors_in_groups_of_one_dtype(lib: Any) -> Any:
    utils = importlib.import_module(f"{lib.__name__}.utils._foreach_utils")
    params = [lib.ones(1), lib.ones(2, dtype=lib.float64), lib.ones(3)]
    lists = [params, [None, params[1], params[2]]]
    report = []
    for with_indices in (False, True):
        groups = utils._group_tensors_by_device_and_dtype(lists, with_indices)
        for dtype in (lib.float32, lib.float64):
            (some, others), positions = groups[lib.device("cpu"), dtype]
            report.append([*some, len(others), others[0] is None, list(positions)])
    return report


@parity
def test_their_small_helpers(lib: Any) -> Any:
    base = importlib.import_module(f"{lib.__name__}.optim.optimizer")
    return [
        [hasattr(base, name) for name in NAMES],
        base._get_value(lib.tensor(2.0)),
        base._get_value(3),
        base._to_scalar(lib.tensor([2.0])),
        base._to_scalar(0.1),
        base._default_to_fused_or_foreach([lib.ones(2)], False),
        str(base._get_scalar_dtype()).split(".")[-1],
        str(base._get_scalar_dtype(is_fused=True)).split(".")[-1],
    ]


def test_fused_steps_are_refused() -> None:
    base = importlib.import_module("retrograd.optim.optimizer")
    with pytest.raises(RuntimeError, match="leave fused= out"):
        base._device_dtype_check_for_fused(rg.ones(2))
