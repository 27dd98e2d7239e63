"""Start and stop: torch is as before after every kind of exit, and costs nothing where it is not used."""

from __future__ import annotations

import functools
import gc
import itertools
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

import retrograd as rg
from retrograd.anomaly.adapters import adapters_for
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.retrograd import RetrogradMonitor
from retrograd.anomaly.adapters.torch.monitor import TorchMonitor
from retrograd.anomaly.adapters.torch.source_locations.sites import SiteLog
from retrograd.core import observer
from tests.anomaly.torch.training import Net, batches, log_of_zero, root_of_zero, train, watched
from tests.test_cli import forked
from tests.threads import in_threads

OPTIMIZER = sys.modules["torch.optim.optimizer"]


def surroundings() -> Any:
    """Return everything that a watch may change."""
    return (
        torch.autograd.backward,
        torch.Tensor.backward,
        torch.compile,
        torch.nn.utils.clip_grad._clip_grads_with_norm_,
        torch.amp.GradScaler.scale,
        torch.amp.GradScaler.update,
        torch.amp.GradScaler.unscale_,
        torch.optim.lr_scheduler.LRScheduler.step,
        torch.utils.data.DataLoader.__iter__,
        torch.jit._recursive.create_script_module,
        vars(torch.nn.Module).get("__reduce_ex__"),
        dict(OPTIMIZER._global_optimizer_pre_hooks),  # type: ignore[attr-defined]
        dict(OPTIMIZER._global_optimizer_post_hooks),  # type: ignore[attr-defined]
        _get_current_function_mode_stack(),
        _get_current_dispatch_mode_stack(),
        list(sys.meta_path),
    )


class StoppedError(Exception):
    pass


def interrupted(error: type[BaseException], second: bool) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    runs = []
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        for x in w.steps(batches(1)):
            runs.append(1)
            if len(runs) == 1 + second:
                raise error
            log_of_zero(net(x)).sum().backward()


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt, SystemExit])
def test_torch_is_restored_after_an_exception(error: type[BaseException], second: bool) -> None:
    before = surroundings()
    with pytest.raises(error):
        interrupted(error, second)
    assert surroundings() == before


@pytest.mark.parametrize("policy", ["record", "skip_step", "raise"])
@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
def test_torch_is_restored_under_each_policy(fault: Any, policy: str) -> None:
    before = surroundings()
    net = Net()
    try:
        watched(fault, policy, net=net)
    except rg.anomaly.AnomalyError:
        assert policy == "raise"
    assert surroundings() == before
    assert not [hook for module in net.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]


def test_hidden_gradients_are_shown_again_when_an_update_raises() -> None:
    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            raise StoppedError

    net = Net(root_of_zero)
    optimizer = Failing(net.parameters())
    with pytest.raises(StoppedError), rg.anomaly.watch(net, optimizer, "skip_step"):
        train(net, optimizer, batches(1))
    assert all(each.grad is not None for each in net.parameters())


def test_nested_watches_restore_torch() -> None:
    before = surroundings()
    x = torch.zeros(2, requires_grad=True)
    with rg.anomaly.watch(policy="record") as outer, rg.anomaly.watch(policy="record") as inner:
        torch.log(x).sum().backward()
    assert [event.op for event in (*outer.events, *inner.events)] == ["log"] * 2
    assert surroundings() == before


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_watches_may_stop_in_any_order(order: tuple[int, ...]) -> None:
    before = surroundings()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    watches = [rg.anomaly.watch(net, optimizer, "record").start() for _ in range(3)]
    net.fault = log_of_zero
    for number in order:
        watches[number].stop()
        train(net, optimizer, batches(1))
    assert surroundings() == before
    assert [len(watches[number].events) > 0 for number in order] == [False, True, True]


def test_a_replacement_by_another_library_stays() -> None:
    """It goes on working, over a watch that is over."""
    calls = []
    before = torch.autograd.backward
    w = rg.anomaly.watch(policy="record").start()
    watched_backward = torch.autograd.backward

    @functools.wraps(watched_backward)
    def theirs(*args: Any, **kwargs: Any) -> None:
        calls.append(1)
        watched_backward(*args, **kwargs)

    torch.autograd.backward = theirs
    try:
        w.stop()
        assert torch.autograd.backward is theirs
        torch.zeros(2, requires_grad=True).log().sum().backward()
        assert (len(calls), w.events) == (1, ())
    finally:
        torch.autograd.backward = before


def test_a_watch_can_be_started_again() -> None:
    x = torch.zeros(2, requires_grad=True)
    w = rg.anomaly.watch(policy="raise")
    for _ in range(2):
        with pytest.raises(rg.anomaly.AnomalyError), w:
            torch.log(x).sum().backward()
    with pytest.raises(RuntimeError, match="already running"), w:
        w.start()


@pytest.mark.parametrize("model", [True, False])
def test_a_failed_start_leaves_nothing_behind(model: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(log: SiteLog, patches: Patches) -> None:
        raise OSError("no more memory")

    before = surroundings()
    with monkeypatch.context() as patch:
        patch.setattr(SiteLog, "start", fail)
        with pytest.raises(OSError, match="no more memory"):
            rg.anomaly.watch(Net() if model else None).start()
    assert surroundings() == before
    assert rg.anomaly.current() is None


def test_using_a_stopped_watch_raises() -> None:
    w = rg.anomaly.watch(Net())
    with w:
        pass
    with pytest.raises(RuntimeError, match=r"this watch is not running: put the loop in `with w:`"):
        next(w.steps(batches(1)))
    w.stop()  # again, which does nothing


@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
@pytest.mark.parametrize("again", [True, False])
def test_a_policy_may_stop_its_watch(again: bool, fault: Any) -> None:
    """In the middle of a step, which goes on unwatched."""

    def stop(event: Any) -> str:
        w.stop()
        return "skip_step"

    before = surroundings()
    net = Net(fault)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    w = rg.anomaly.watch(net, optimizer, stop).start()
    train(net, optimizer, w.steps(batches(1)) if again else batches(1))
    assert len(w.events) == 1
    assert surroundings() == before


@pytest.mark.parametrize("from_step", [1, None])
@pytest.mark.parametrize("library", [torch, rg])
def test_a_hook_may_stop_the_watch_within_backward(library: Any, from_step: int | None) -> None:
    before = surroundings(), observer.active(), np.geterr()
    x = library.ones(2).requires_grad_()
    optimizer = library.optim.SGD([x], 0.1)
    w = rg.anomaly.watch(from_step=from_step).start()
    x.register_hook(lambda gradient: w.stop())
    x.sum().backward()
    optimizer.step()
    (x * 2).sum()
    assert (surroundings(), observer.active(), np.geterr()) == before


@pytest.mark.parametrize("from_step", [1, None])
def test_a_watch_stopped_in_another_thread_is_off_in_all_threads(from_step: int | None) -> None:
    """The other thread cannot remove the modes of this thread."""
    before = surroundings()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    w = rg.anomaly.watch(net, optimizer, from_step=from_step).start()
    train(net, optimizer, batches(1))
    try:
        assert not in_threads(w.stop)
        train(net, optimizer, batches(2))
        for left in _get_current_dispatch_mode_stack():
            assert not left.calls  # type: ignore[attr-defined]
        for left in _get_current_function_mode_stack():
            assert not left.noted  # type: ignore[attr-defined]
        with rg.anomaly.watch(net, optimizer):
            train(net, optimizer, batches(1))
        assert not _get_current_function_mode_stack()
    finally:
        while _get_current_dispatch_mode_stack():
            _pop_mode()
    assert surroundings() == before


def test_a_watch_starts_the_adapters_of_the_imported_libraries() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    assert [type(each) for each in adapters_for(rg.anomaly.watch(net))] == [TorchMonitor]
    assert [type(each) for each in adapters_for(rg.anomaly.watch(None, optimizer))] == [TorchMonitor]
    assert [type(each) for each in adapters_for(rg.anomaly.watch(rg.nn.Linear(1, 1)))] == [RetrogradMonitor]
    assert len(adapters_for(rg.anomaly.watch())) == 2


def run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that has not imported torch yet."""
    path = tmp_path / "train_torch.py"
    path.write_text(textwrap.dedent(script))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)


def test_a_watch_does_not_import_torch(tmp_path: Path) -> None:
    done = run(
        """
        import sys
        import retrograd as rg
        with rg.anomaly.watch():
            rg.ones(2).requires_grad_().sum().backward()
        assert "torch" not in sys.modules
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_torch_imported_under_the_watch_is_watched(tmp_path: Path) -> None:
    done = run(
        """
        import sys
        import retrograd as rg
        paths = list(sys.meta_path)
        with rg.anomaly.watch(policy="record") as w:
            import torch
            torch.log(torch.zeros(2, requires_grad=True)).sum().backward()
            assert sys.meta_path == paths
        print(w.event.op, w.event.lineno)
        """,
        tmp_path,
    )
    assert done.stdout.split() == ["log", "7"], done.stderr


SCRIPT = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(12, 3), torch.arange(12.0))
    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            error = ((model(x)[:, 0] - y) ** 2).sum()
            weight = torch.where(y == 7, 0.0, 1.0).prod()
            loss = error if epoch == 0 else torch.sqrt(error * weight)
            loss.backward()
            optimizer.step()
            print(len(x), flush=True)
"""


def test_retrograd_run_watches_an_unmodified_script(tmp_path: Path) -> None:
    (tmp_path / "train_torch.py").write_text(textwrap.dedent(SCRIPT))
    done = forked("-m", "retrograd", "run", "train_torch.py", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "SqrtBackward0" in done.stderr
    assert "loss = error if epoch == 0 else torch.sqrt(error * weight)" in done.stderr
    assert "train_torch.py" in done.stderr


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "retrograd", "run", str(tmp_path / "nowhere.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr.startswith("retrograd: cannot run ")
    assert "Traceback" not in done.stderr


def test_an_error_of_linear_algebra_in_a_script_is_explained(tmp_path: Path) -> None:
    script = "import torch\nkernel = torch.ones(3, 3)\nroot = torch.linalg.cholesky(kernel)\n"
    (tmp_path / "train.py").write_text(script)
    done = forked("-m", "retrograd", "run", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "LinAlgError: linalg.cholesky: " in done.stderr
    assert "root = torch.linalg.cholesky(kernel + 1e-5 * torch.eye(" in done.stderr


def test_an_error_of_the_script_is_shown_as_its_own(tmp_path: Path) -> None:
    script = "import torch\nraise ValueError('its own')\n"
    (tmp_path / "train.py").write_text(script)
    watched_run = forked("-m", "retrograd", "run", "train.py", cwd=tmp_path)
    plain = forked("train.py", cwd=tmp_path)
    assert watched_run.returncode == plain.returncode == 1
    assert watched_run.stderr == plain.stderr


@pytest.mark.parametrize("options", [{}, {"lag": 1}, {"policy": {"spike": "record"}}, {"from_step": 2}], ids=str)
def test_a_stopped_watch_is_freed_without_the_collector_of_cycles(options: dict[str, Any]) -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    gone = weakref.ref(net), weakref.ref(net.first.weight)
    gc.collect()  # the first optimizer of a process leaves cycles, which are torch's
    gc.disable()
    try:
        with rg.anomaly.watch(net, optimizer, **options) as w:
            train(net, optimizer, w.steps(batches()))
        del net, optimizer, w
        assert [each() for each in gone] == [None, None], "a reference cycle keeps them alive"
    finally:
        gc.enable()
