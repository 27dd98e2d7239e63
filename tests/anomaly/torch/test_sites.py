"""Lines without a second run: noted in some steps, and known in the steps between."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, line_of, train


def noted() -> int:
    return len(_get_current_function_mode_stack())


def lines(depth: int, x: Tensor) -> None:
    h = x
    for _ in range(3 * depth):
        h = h * 2
    torch.log(h - (64 if depth == 2 else 1)).sum().backward()  # the birth in lines


def test_a_step_that_was_not_noted() -> None:
    """It is found in the last one that was."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", budget=1e-9) as w:
        train(net, optimizer, batches(10))
        assert noted() == 0
        net.fault = lambda out: torch.log(out * 0)  # the birth in a step that was not noted
        train(net, optimizer, batches(1))
    assert w.event.op == "log"
    assert w.event.lineno == line_of("# the birth in a step that was not noted", test_a_step_that_was_not_noted)


def test_steps_alike_have_their_lines() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for offset in [0.5] * 10 + [1.0]:
            h = x * 1.0
            torch.log(h - offset).sum().backward()  # the birth in the eleventh
    assert (w.event.op, w.event.index) == ("log", (1,))
    assert w.event.lineno == line_of("# the birth in the eleventh", test_steps_alike_have_their_lines)


def test_a_step_unlike_the_noted_one_gets_no_line_rather_than_a_wrong_one() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for depth in [1] * 10 + [2]:
            lines(depth, x if depth == 2 else x * 2)
    assert w.event.op == "log"
    assert w.event.lineno is None


def test_nothing_is_noted_within_backward_and_update() -> None:
    seen = []
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer.register_step_pre_hook(lambda *args: seen.append(noted()))
    net.first.weight.register_hook(lambda grad: seen.append(noted()))  # type: ignore[arg-type, func-returns-value]
    with rg.anomaly.watch(net, optimizer, budget=1e9):
        assert noted() == 1
        train(net, optimizer, batches(6))
        assert noted() == 1
    assert seen == [0] * 12
    assert noted() == 0


def test_a_mode_of_the_users_own_stays() -> None:
    class Mine(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(budget=1e-9), Mine() as mine:
        for _ in range(5):
            (x * 2).sum().backward()
        assert _get_current_function_mode_stack()[-1] is mine
    assert noted() == 0


@pytest.mark.parametrize("compiled_first", [False, True])
def test_nothing_is_noted_in_a_program_that_compiles(compiled_first: bool, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(torch._dynamo.reset)
    frames: list[object] = []

    def backend(graph, inputs):  # type: ignore[no-untyped-def]
        frames.append(graph)
        return graph.forward

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    model = torch.compile(net, backend=backend) if compiled_first else None
    with rg.anomaly.watch(net, optimizer):
        if model is None:
            model = torch.compile(net, backend=backend)
        train(model, optimizer, batches(8))
    assert len(frames) == 1, "compiled anew"
