"""Lines without a second run: noted in some steps, and known in the steps between."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import retrograd as rg
from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.torch.records.graph import nodes_behind
from retrograd.anomaly.adapters.torch.source_locations import sites
from retrograd.anomaly.adapters.torch.source_locations.instruction_events import InstructionNotes
from tests.anomaly.torch.training import Net, batches, line_of, train

NEW = sys.version_info >= (3, 12)


@pytest.fixture(
    autouse=True,
    params=["functions", pytest.param("instructions", marks=pytest.mark.skipif(not NEW, reason="from Python 3.12 on"))],
)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to note lines, where the interpreter has both."""
    if request.param == "functions":
        monkeypatch.setattr(InstructionNotes, "if_possible", lambda: None)
    return request.param


def log_of(w: Any) -> Any:
    monitor = w._adapters[-1]
    return getattr(monitor, "_monitor", monitor).sites


def noted(w: Any) -> bool:
    return log_of(w).on


def lines(depth: int, x: Tensor) -> None:
    h = x
    for _ in range(3 * depth):
        h = h * 2
    torch.log(h - (64 if depth == 2 else 1)).sum().backward()  # the birth in lines


def test_a_step_between_noted_ones_has_its_line() -> None:
    """It is found in the last one that was."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", budget=1e-9) as w:
        train(net, optimizer, batches(10))
        assert not noted(w)
        net.fault = lambda out: torch.log(out * 0)  # the birth in a step that was not noted
        train(net, optimizer, batches(1))
    assert w.event.op == "log"
    assert w.event.lineno == line_of(
        "# the birth in a step that was not noted", test_a_step_between_noted_ones_has_its_line
    )


def test_similar_steps_have_their_lines() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for offset in [0.5] * 10 + [1.0]:
            h = x * 1.0
            torch.log(h - offset).sum().backward()  # the birth in the eleventh
    assert (w.event.op, w.event.index) == ("log", (1,))
    assert w.event.lineno == line_of("# the birth in the eleventh", test_similar_steps_have_their_lines)


def test_a_step_that_ends_like_a_noted_one_has_its_line() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for depth in [1] * 10 + [2]:
            lines(depth, x if depth == 2 else x * 2)
    assert (w.event.op, w.event.lineno) == ("log", line_of("# the birth in lines", lines))


def test_a_line_that_begins_like_a_noted_one_is_not_taken_for_it() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for rare in [False] * 10 + [True]:
            h = torch.abs(torch.neg(torch.neg(x)))
            h = torch.log(h - 1).mean() if rare else h
            h = h if rare else torch.log(h - 0).sum()
            h.backward()
    assert (w.event.op, w.event.lineno) == ("log", None)


def logarithm(x: Tensor) -> Tensor:
    return torch.log(x).sum()


def other_logarithm(x: Tensor) -> Tensor:
    return torch.log(x).sum()  # the birth in the other function


def descend(loss: Any, steps: int, x: Tensor, offset: float = 0.0) -> None:
    for _ in range(steps):
        loss(x * 1.0 - offset).backward()


@pytest.mark.parametrize("steps_between", [0, 1, 20])
def test_a_second_loop_with_the_same_operations_gets_its_own_line_or_none(steps_between: int) -> None:
    """Of two loops, as in two cells of a notebook, neither has the lines of the other."""
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for _ in range(10):
            torch.log(x * 1.0).sum().backward()
        for factor in [1.0] * steps_between + [0.0]:
            torch.log(x * factor).sum().backward()  # the birth in the second loop
    mine = line_of(
        "# the birth in the second loop", test_a_second_loop_with_the_same_operations_gets_its_own_line_or_none
    )
    assert w.event.op == "log"
    assert w.event.lineno == (mine if steps_between else None)


@pytest.mark.parametrize("steps_between", [0, 1, 20])
def test_another_function_with_the_same_operations_gets_its_own_line_or_none(steps_between: int) -> None:
    """One loop that is given another function: what calls it tells the steps apart."""
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        descend(logarithm, 10, x)
        for offset, steps in ((0.0, steps_between), (1.0, 1)):
            descend(other_logarithm, steps, x, offset)
    assert w.event.op == "log"
    mine = line_of("# the birth in the other function", other_logarithm)
    assert w.event.lineno == (mine if steps_between else None)


def test_steps_from_new_places_are_not_noted_without_end() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    seen = []
    with rg.anomaly.watch(policy="record", budget=1e-9) as w:
        for number in range(200):
            exec(compile("\n" * number + "torch.log(x).sum().backward()", "written", "exec"), {"torch": torch, "x": x})
            seen.append(noted(w))
    assert not all(seen[-50:])


def test_nothing_is_noted_within_backward_and_update() -> None:
    seen = []
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer.register_step_pre_hook(lambda *args: seen.append(noted(w)))
    net.first.weight.register_hook(lambda grad: seen.append(noted(w)))  # type: ignore[arg-type, func-returns-value]
    with rg.anomaly.watch(net, optimizer, budget=1e9) as w:
        log = log_of(w)
        assert log.on
        train(net, optimizer, batches(6))
        assert log.on
    assert seen == [False] * 12
    assert not log.on


def sample(steps: int) -> list[bool]:
    """A sampler, which goes on by new tensors; whether calls were noted where it asked for gradients."""
    x, on = torch.ones(3), []
    for _ in range(steps):
        x = x.detach().requires_grad_()
        energy = (x * x).sum()
        on.append(bool(_get_current_function_mode_stack()))
        (g,) = torch.autograd.grad(energy, x)
        x = x - 0.1 * g
    return on


def test_autograd_grad_ends_a_noted_step(way: str) -> None:
    with rg.anomaly.watch(budget=1e-9) as w:
        on = sample(40)
        assert not noted(w)
    assert on[0] == (way == "functions")
    assert sum(on) < 10
    assert not _get_current_function_mode_stack()


def test_two_losses_with_the_same_operations_keep_their_lines() -> None:
    """Each has a step noted, so that neither is looked up in the other."""
    w0, w1 = (torch.ones(3, requires_grad=True) for _ in range(2))

    def update(parameter: Tensor, loss: Tensor) -> None:
        (g,) = torch.autograd.grad(loss, parameter)
        with torch.no_grad():
            parameter -= 0.01 * g

    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for step in range(30):
            scale = 0.0 if step == 29 else 1.0
            update(w0, torch.log(w0 * 1.0).sum())
            update(w1, torch.log(w1 * scale).sum())  # the birth in the second
    assert w.event.op == "log"
    test = test_two_losses_with_the_same_operations_keep_their_lines
    assert w.event.lineno == line_of("# the birth in the second", test)


@pytest.mark.parametrize("create_graph", [False, True])
def test_noting_continues_after_gradients_within_a_step(create_graph: bool) -> None:
    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(budget=1e9) as w:
        y = (x * 2).sin().sum()
        assert noted(w)
        torch.autograd.grad(y, x, create_graph=create_graph, retain_graph=True)
        assert noted(w)
        y.backward()


def test_a_step_without_an_end_is_noted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of a sampler count as no steps, so the notes of one step need a bound."""
    monkeypatch.setattr(sites, "MOST", 4)
    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(budget=1e9) as w:
        y = (x * 2).sin().cos().exp().sum()
        torch.autograd.grad(y, x, retain_graph=True)
        assert not noted(w)
        y.backward()


def test_a_function_mode_of_the_program_stays_on_top() -> None:
    class Mine(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(budget=1e-9), Mine() as mine:
        for _ in range(5):
            (x * 2).sum().backward()
        assert _get_current_function_mode_stack()[-1] is mine
    assert not _get_current_function_mode_stack()


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


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight  # the last line of the module


def twice(x: Tensor) -> Tensor:
    return torch.mul(x, 2)


def columns(x: Tensor) -> Any:
    for each in torch.unbind(x.T):
        yield each.exp().sum()


def program(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    z = (torch.relu(y)
         + torch.sqrt(y * y))  # fmt: skip
    w = twice(x).sum() + twice(x).exp().sum()
    first, *_ = z
    z[0] = -first
    return w + sum(columns(z)) + (z @ z.mT)[:, 0].sum()


def written(w: Any, loss: Tensor) -> list[tuple[str, str]]:
    """Every node, and the text of the call that made it."""
    site_of = log_of(w).sites_behind([loss.grad_fn])
    found = []
    for node in nodes_behind([loss.grad_fn]):
        if not hasattr(node, "variable"):
            place = place_fields(*site_of(node._sequence_nr())[0])
            found.append((node.name(), place["code_line"][place["col"] : place["end_col"]]))
    return found


def test_each_node_has_the_call_that_created_it() -> None:
    """Several on a line, on several lines, in functions that return to the line, in generators, after a user's module
    within one of torch's."""
    model = nn.Sequential(Scaled(), nn.Tanh())
    with rg.anomaly.watch(model, policy="record") as w:
        loss = program(model, torch.ones(2, 3, requires_grad=True))
        found = written(w, loss)
    assert found == [
        ("MulBackward0", "x * self.weight"),
        ("TanhBackward0", "model(x)"),
        ("ReluBackward0", "torch.relu(y)"),
        ("MulBackward0", "y * y"),
        ("SqrtBackward0", "torch.sqrt(y * y)"),
        ("AddBackward0", "torch.relu(y) + torch.sqrt(y * y)"),
        ("MulBackward0", "torch.mul(x, 2)"),
        ("SumBackward0", "twice(x).sum()"),
        ("MulBackward0", "torch.mul(x, 2)"),
        ("ExpBackward0", "twice(x).exp()"),
        ("SumBackward0", "twice(x).exp().sum()"),
        ("AddBackward0", "twice(x).sum() + twice(x).exp().sum()"),
        ("UnbindBackward0", "first, *_"),
        ("NegBackward0", "-first"),
        ("torch::autograd::CopySlices", "z[0]"),
        ("PermuteBackward0", "x.T"),
        ("UnbindBackward0", "torch.unbind(x.T)"),
        *[("ExpBackward0", "each.exp()"), ("SumBackward0", "each.exp().sum()"), ("AddBackward0", "sum(columns(z))")]
        * 3,
        ("AddBackward0", "w + sum(columns(z))"),
        ("TransposeBackward0", "z.mT"),
        ("MmBackward0", "z @ z.mT"),
        ("SelectBackward0", "(z @ z.mT)[:, 0]"),
        ("SumBackward0", "(z @ z.mT)[:, 0].sum()"),
        ("AddBackward0", "w + sum(columns(z)) + (z @ z.mT)[:, 0].sum()"),
    ]


def test_an_import_during_a_call_does_not_shift_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch does this at many first calls. The code of the module has run when the call goes on."""
    (tmp_path / "imported_late.py").write_text('import collections\nPair = collections.namedtuple("Pair", "a b")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        y = x * 4
        calls = contextlib.ExitStack()
        calls.callback(y.sqrt_)
        calls.callback(importlib.import_module, "imported_late")
        calls.close()
        found = written(w, y.sum())
    assert found == [("MulBackward0", "x * 4"), ("SqrtBackward0", "calls.close()"), ("SumBackward0", "y.sum()")]


@pytest.mark.skipif(not NEW, reason="from Python 3.12 on")
def test_the_tools_of_sys_monitoring_are_restored(way: str) -> None:
    """Watches within each other take two ids, a third does without, and others keep theirs."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "somebody")
    x = torch.ones(2, requires_grad=True)
    try:
        before = [monitoring.get_tool(each) for each in range(6)]
        watches = [rg.anomaly.watch(policy="record").start() for _ in range(3)]
        assert [monitoring.get_tool(each) for each in (3, 4)] == ["retrograd" if way == "instructions" else None] * 2
        for w in watches:
            assert written(w, twice(x).sum())[0] == ("MulBackward0", "torch.mul(x, 2)")
        for w in reversed(watches):
            w.stop()
        assert [monitoring.get_tool(each) for each in range(6)] == before
    finally:
        monitoring.free_tool_id(monitoring.COVERAGE_ID)


def test_functions_that_ran_under_an_earlier_watch_have_their_lines() -> None:
    x = torch.ones(2, requires_grad=True)
    for _ in range(3):
        with rg.anomaly.watch(policy="record") as w:
            assert written(w, twice(x).sum())[0] == ("MulBackward0", "torch.mul(x, 2)")
            for _ in range(8):
                twice(x).sum().backward()


def test_another_thread_does_not_shift_the_lines() -> None:
    """Numbers of nodes are those of a thread, so that what another one does must not be taken for this one's."""
    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        y = twice(x)
        other = threading.Thread(target=lambda: [twice(x) for _ in range(50)])
        other.start()
        other.join()
        assert written(w, (y - 3).sum())[0] == ("MulBackward0", "torch.mul(x, 2)")


def test_much_work_without_torch_gathers_no_notes() -> None:
    """Many instructions, no nodes: nothing is gathered."""
    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="record", budget=1e9) as w:
        for _ in range(10_000):
            abs(1)
        assert len(log_of(w)._notes.noted) <= 1
        assert written(w, twice(x).sum())[0] == ("MulBackward0", "torch.mul(x, 2)")


def test_a_step_has_the_lines_of_the_last_noted_step_of_its_kind() -> None:
    """Each is found in the last one of its own kind that was noted, as in a program with two optimizers."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], 0.0)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for step in range(8):
            h = weight * (step != 7)
            if step % 2:
                h = torch.log(h)  # the birth in a step of the second kind
            optimizer.zero_grad()
            h.sum().backward()
            optimizer.step()
        assert not noted(w)
    assert w.event.lineno == line_of(
        "# the birth in a step of the second kind", test_a_step_has_the_lines_of_the_last_noted_step_of_its_kind
    )


def test_other_operations_of_the_same_number_give_no_line() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for other in [False] * 10 + [True]:
            if other:
                torch.log(torch.sub(x, 1)).sum().backward()
            else:
                torch.sqrt(torch.add(x, 1)).sum().backward()
    assert (w.event.op, w.event.lineno) == ("log", None)


def recurrent(x: Tensor, repeats: int, offset: float = 0.0, position: int = -1) -> Tensor:
    h = x
    for number in range(repeats):
        h = torch.tanh(h)
        h = torch.log(h + 2 - (offset if number == position else 0.0))  # the birth in a loop
        h = torch.abs(h)
    return h.sum()


@pytest.mark.parametrize("position", [0, 1, 14, 27, 28])
def test_a_loop_longer_than_any_noted_one_has_its_line(position: int) -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for repeats, offset in [(15, 0.0), (14, 0.0), (13, 0.0), (12, 0.0), (17, 0.0), (29, 3.0)]:
            assert repeats < 29 or not noted(w)
            recurrent(x, repeats, offset, position).backward()
    assert w.event.op == "log"
    assert w.event.lineno == line_of("# the birth in a loop", recurrent)


def test_two_similar_loops_give_no_line() -> None:
    def step(first: int, second: int, bad: bool) -> None:
        h = x
        for _ in range(first):
            h = torch.log(torch.exp(h))
        for number in range(second):
            h = torch.log(torch.exp(h - 200 if bad and number == 20 else h - 0))
        h.sum().backward()

    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for first in range(30, 40):
            step(first, 0, False)
        step(30, 41, True)
    assert (w.event.op, w.event.lineno) == ("log", None)


def test_operations_beside_the_loss_do_not_shift_the_lines() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", budget=1e-9) as w:
        for step in range(10):
            h = x * 1.0
            if step == 9:
                (h * 2).mean()  # something to be shown
            torch.log(h - float(step == 9)).sum().backward()  # the birth beside a metric
    assert w.event.op == "log"
    assert w.event.lineno == line_of(
        "# the birth beside a metric", test_operations_beside_the_loss_do_not_shift_the_lines
    )


def test_code_made_in_every_step_is_not_kept_alive() -> None:
    x = torch.ones(2, requires_grad=True)
    made = []
    with rg.anomaly.watch(budget=1.0):
        for step in range(40):
            code = compile(f"y = (x * {step}).sum()\ny.backward()", "<made>", "exec")
            made.append(weakref.ref(code))
            exec(code, {"x": x})
        gc.collect()
        assert sum(each() is not None for each in made) < 10
