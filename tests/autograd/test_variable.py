"""Variable, the multithreading setting, engine callbacks and the layout of gradients, compared with torch."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity


@parity
def test_variable_is_an_alias_of_tensor(lib: Any) -> Any:
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
def test_volatile_warns_that_it_has_no_effect(library: str) -> None:
    lib = __import__(library)
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        lib.autograd.Variable(lib.ones(2), volatile=True)


@parity
def test_multithreading_setting_is_local_to_its_thread(lib: Any) -> Any:
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


def test_multithreading_decorator_restores_the_setting() -> None:
    """torch does not restore it."""

    @rg.autograd.set_multithreading_enabled(False)
    def inside() -> bool:
        return rg.autograd.is_multithreading_enabled()

    assert rg.autograd.is_multithreading_enabled()
    assert not inside()
    assert rg.autograd.is_multithreading_enabled()


# --- callbacks at the end of a backward ----------------------------------------------------------------------------


def queue(lib: Any, callback: Any) -> None:
    lib.autograd.Variable._execution_engine.queue_callback(callback)


@parity
def test_queued_callbacks_run_at_the_end_of_a_backward(lib: Any) -> Any:
    log: list[Any] = []
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x * x

    def first() -> None:
        log.append(("first", x.grad.clone(), lib.is_grad_enabled()))
        queue(lib, lambda: log.append("queued by the first"))

    def hook(grad: Any) -> None:
        log.append("hook")
        queue(lib, first)
        queue(lib, lambda: log.append("second"))

    y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    log.append("returned")
    y.sum().backward(retain_graph=True)
    lib.autograd.grad(y.sum(), x, create_graph=True)
    return [*log, attempt(lambda: queue(lib, first))]


@parity
def test_queued_callbacks_belong_to_the_innermost_backward(lib: Any) -> Any:
    log: list[str] = []

    class Inner(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            queue(lib, lambda: log.append("inner"))
            return grad

    class Outer(Inner):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            queue(lib, lambda: log.append("outer"))
            with lib.enable_grad():
                y = Inner.apply(grad.detach().requires_grad_()).sum()
            y.backward()
            log.append("back in the outer")
            return grad

    Outer.apply(lib.ones(2, requires_grad=True)).sum().backward()
    return log


@parity
def test_queued_callbacks_after_errors(lib: Any) -> Any:
    log: list[Any] = []
    x = lib.tensor([1.0], requires_grad=True)
    y = x.clone()

    def fails() -> None:
        raise ValueError("of a callback")

    def hook(grad: Any) -> None:
        queue(lib, fails)
        queue(lib, lambda: log.append("behind the one that fails"))

    handle = y.register_hook(hook)
    log += [attempt(lambda: (y * 1).backward()), x.grad]
    handle.remove()
    y = x.clone()
    y.register_hook(lambda grad: queue(lib, lambda: log.append("after an error in a hook")))
    x.register_hook(lambda grad: [][0])
    log.append(attempt(lambda: (y * 1).backward()))
    return [*log, attempt(lambda: queue(lib, fails))]  # and no backward is running any more


@parity
def test_gradients_have_the_layout_of_their_leaves(lib: Any) -> Any:
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
def test_gradient_of_a_leaf_with_gaps_is_contiguous(lib: Any) -> Any:
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


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@parity
def test_gradient_with_a_graph_has_the_layout_of_its_leaf(lib: Any) -> Any:
    report = []
    for leaf in (lib.ones(2, 3), lib.ones(3, 2).t(), lib.ones(2, 6)[:, ::2], lib.ones(3, 4, 2).permute(2, 0, 1)):
        x = leaf.detach().requires_grad_()
        (x.mT.contiguous() ** 3).sum().backward(create_graph=True)
        report.append([x.grad.stride(), lib.autograd.grad(x.grad.sum(), x)])
        x.grad = None  # breaks the reference cycle
    with lib.autograd.forward_ad.dual_level():
        x = lib.ones(2, 3, requires_grad=True)
        (lib.autograd.forward_ad.make_dual(x, lib.ones(2, 3)).mT.contiguous() ** 3).sum().backward()
        report.append([x.grad.stride(), lib.autograd.forward_ad.unpack_dual(x.grad).tangent])
    return report


@parity
def test_retained_gradient_is_contiguous(lib: Any) -> Any:
    report = []
    for create_graph in (False, True):
        y = (lib.ones(2, 3, requires_grad=True) * 1).mT
        y.retain_grad()
        (y * y).sum().backward(create_graph=create_graph)
        report.append([y.stride(), y.grad.stride(), y.grad.requires_grad])
        y.grad = None
        (y * 2).sin().sum().backward(inputs=[y])
        report.append([y.grad.stride(), y.grad])
        y.grad = None
    return report


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_leaf_reshaped_before_backward_is_refused(create_graph: bool) -> None:
    for lib in (torch, rg):
        for shape in ((0,), (3, 1), (4, 4)):
            x = lib.ones(3, 3, requires_grad=True)
            y = x.sum()
            x.data = lib.ones(shape)
            with pytest.raises(RuntimeError, match=r"shape|size") as raised:
                y.backward(create_graph=create_graph)
            if lib is rg:
                assert f"of shape [3, 3] arrived at a leaf of shape {list(shape)}" in str(raised.value)


def test_grad_layout_policy_is_local_to_its_thread() -> None:
    seen = []
    with rg.autograd.enforce_grad_layout_policy(False):
        thread = threading.Thread(target=lambda: seen.append(rg.core.state.local.grad_layout))
        thread.start()
        thread.join()
        assert not rg.core.state.local.grad_layout
    assert seen == [True]
    assert rg.core.state.local.grad_layout
