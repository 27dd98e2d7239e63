"""Variable and set_multithreading_enabled, compared with torch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, parity


@parity
def test_variable_is_an_alias(lib: Any) -> Any:
    variable = lib.autograd.Variable
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = variable(x * 2)
    z = variable(lib.ones(2), requires_grad=True)
    return [
        isinstance(x, variable),
        isinstance(x * 2, variable),
        isinstance(3.0, variable),
        type(z) is lib.Tensor,
        [y, y.requires_grad, y.grad_fn],
        [z, z.requires_grad, z.is_leaf],
        variable(data=x, requires_grad=False).requires_grad,
        variable(),
        attempt(lambda: variable([1.0])),
        attempt(lambda: variable(lib.tensor([1]), requires_grad=True)),
    ]


@parity
def test_variable_shares_storage_and_version(lib: Any) -> Any:
    x = lib.ones(2)
    y = lib.autograd.Variable(x, requires_grad=True)
    x.add_(1)
    return [y, y._version]


@pytest.mark.parametrize("library", ["torch", "retrograd"])
def test_volatile_is_gone(library: str) -> None:
    lib = __import__(library)
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        lib.autograd.Variable(lib.ones(2), volatile=True)


@parity
def test_multithreading_setting(lib: Any) -> Any:
    enabled = lib.autograd.is_multithreading_enabled
    report = [enabled()]
    with lib.autograd.set_multithreading_enabled(False):
        report.append(enabled())
    report.append(enabled())
    lib.autograd.set_multithreading_enabled(False)
    report.append(enabled())
    thread = threading.Thread(target=lambda: report.append(enabled()))
    thread.start()
    thread.join()
    lib.autograd.set_multithreading_enabled(True)
    return [*report, enabled(), attempt(lambda: lib.autograd.set_multithreading_enabled(3))]


def test_multithreading_as_a_decorator() -> None:
    """torch does not switch back."""

    @rg.autograd.set_multithreading_enabled(False)
    def inside() -> bool:
        return rg.autograd.is_multithreading_enabled()

    assert rg.autograd.is_multithreading_enabled()
    assert not inside()
    assert rg.autograd.is_multithreading_enabled()


@parity
def test_gradients_lie_in_memory_as_their_leaves(lib: Any) -> Any:
    report = []
    p = lib.empty(2, 3, 4).permute(2, 0, 1).requires_grad_()
    q = lib.ones(3, 4).requires_grad_()
    for leaf, loss in [
        (p, lambda: (p * 2).sum()),
        (p, lambda: (p * lib.ones(4, 2, 3)).sum()),
        (q, lambda: (q.t() @ lib.ones(3, 2)).sum()),
        (q, lambda: (q * lib.ones(4, 3).t()).sum()),
        (q, lambda: q.sum()),
    ]:
        leaf.grad = None
        loss().backward()
        report.append([leaf.stride(), leaf.grad.stride()])
    q.grad = None
    policy = lib.autograd.enforce_grad_layout_policy(False)
    with policy:
        (q * lib.ones(4, 3).t()).sum().backward()
    report += [q.grad.stride(), policy.prev, policy.mode]
    return report


@parity
def test_the_gradient_of_a_leaf_with_gaps_lies_in_index_order(lib: Any) -> Any:
    whole = lib.ones(4, 6, 2)
    leaves = [
        whole[:, :, 1].t(),
        whole[:, ::2, 0].t(),
        whole[:2].permute(2, 0, 1),
        whole[0, :3].t(),
        whole[:, :1, 0].t(),
        whole[:, :1].transpose(0, 1),
    ]
    report = []
    for part in leaves:
        for f in (lambda x: x.sum(), lambda x: x.exp().sum(), lambda x: (x.clone() * 2).sum()):
            leaf = part.detach().requires_grad_()
            f(leaf).backward()
            report.append([leaf.stride(), leaf.grad.stride() if leaf.shape[0] > 1 else leaf.grad.is_contiguous()])
    return report


def test_layout_policy_belongs_to_a_thread() -> None:
    seen = []
    with rg.autograd.enforce_grad_layout_policy(False):
        thread = threading.Thread(target=lambda: seen.append(rg.core.state.local.grad_layout))
        thread.start()
        thread.join()
        assert not rg.core.state.local.grad_layout
    assert seen == [True]
    assert rg.core.state.local.grad_layout
