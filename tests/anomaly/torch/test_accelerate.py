"""Training loops that are written with Accelerate."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly.adapters.framework_loops import steps_run_again
from tests.anomaly.torch.pages import example
from tests.anomaly.torch.training import Net, batches, line_of, log_of_zero, root_of_zero, state, weights_are_clean

pytest.importorskip("accelerate")

from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

from retrograd.anomaly.adapters.accelerate import watch

BAD = 3
FAULTS = {log_of_zero: "log", root_of_zero: "SqrtBackward0"}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Accelerate keeps its settings for the life of the process."""
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


class Training:
    """A model with everything around it, prepared."""

    def __init__(self, count: int = 6, **kwargs: Any) -> None:
        torch.manual_seed(0)
        self.accelerator = Accelerator(cpu=True, **kwargs)
        self.net = Net()
        self.bad = batches(count)[BAD]
        optimizer = torch.optim.Adam(self.net.parameters(), 1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        loader = torch.utils.data.DataLoader(batches(count), batch_size=None)
        prepared = self.accelerator.prepare(self.net, optimizer, loader, schedule)
        self.model, self.optimizer, self.loader, self.schedule = prepared
        self.updated: list[int] = []

    def everything(self) -> str:
        return repr((state(self.net), self.optimizer.state_dict()["state"]))

    def run(self, data: Iterable[Tensor], fault: Callable[[Tensor], Tensor] | None = None) -> None:
        for x in data:
            self.net.fault = fault if torch.equal(x, self.bad) else None
            before = self.everything()
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward((self.model(x) ** 2).mean())
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
            if self.everything() != before:
                self.updated.append(self.accelerator.step)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        return watch(self.accelerator, self.model, self.optimizer, *args, **kwargs)


def assert_found(w: Any, fault: Any) -> None:
    (event,) = w.events
    assert (event.op, event.batch_idx, event.reproducible) == (FAULTS[fault], BAD, True)
    assert event.lineno == line_of(f"# the birth of {fault.__name__}")
    assert event.operands == {"input": 0.0}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_skip_step_leaves_out_one_update(fault: Any, precision: str) -> None:
    training = Training(mixed_precision=precision)
    with training.watch("skip_step") as w:
        training.run(w.steps(training.loader), fault)
    assert_found(w, fault)
    assert training.updated == [1, 2, 3, 5, 0], "the step of the end of the data is 0"
    assert training.schedule.get_last_lr() == [1e-2 * 0.5**6]
    assert weights_are_clean(training.net)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_micro_batch_withholds_its_update(fault: Any) -> None:
    training = Training(9, gradient_accumulation_steps=3)
    with training.watch("skip_step") as w:
        training.run(w.steps(training.loader), fault)
    assert_found(w, fault)
    assert training.updated == [3, 0]


@pytest.mark.parametrize("fault", FAULTS)
def test_raise_leaves_the_weights_clean(fault: Any) -> None:
    training = Training()
    with pytest.raises(rg.anomaly.AnomalyError, match=FAULTS[fault]), training.watch() as w:
        training.run(w.steps(training.loader), fault)
    assert_found(w, fault)
    assert weights_are_clean(training.net)
    assert "log" not in vars(training.accelerator)


def test_healthy_training_is_the_same_with_the_watch() -> None:
    results = []
    for watching in (False, True):
        training = Training(12, gradient_accumulation_steps=2)
        if watching:
            with training.watch() as w:
                training.run(w.steps(training.loader))
            assert not w.events
        else:
            training.run(training.loader)
        results.append(training.everything())
    assert results[0] == results[1]


def test_the_wrapped_optimizer_has_its_own_name() -> None:
    training = Training()
    with training.watch("record") as w:
        training.run(w.steps(training.loader), log_of_zero)
    assert w.event.surroundings.context["optimizer"]["name"] == "Adam"


def test_trackers_receive_only_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(training.accelerator, "log", lambda values, **kwargs: written.append(values))
    with training.watch("skip_step") as w:
        for number, x in enumerate(w.steps(training.loader)):
            training.run([x], log_of_zero)
            training.accelerator.log({"loss": math.nan if number == BAD else 1.0, "phase": "training"}, step=number)
    good = {"loss": 1.0, "phase": "training"}
    assert written[BAD - 1 : BAD + 2] == [
        {**good, "anomaly/events": 0.0},
        {"phase": "training", "anomaly/events": 0.0},
        {"phase": "training", "anomaly/events": 0.0},  # the second run
    ]
    assert written[-1] == {**good, "anomaly/events": 1.0}


def test_only_the_main_process_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    with pytest.warns(rg.anomaly.AnomalyWarning), training.watch({"inf": "warn", "nan": "warn"}) as w:
        training.run(w.steps(training.loader), log_of_zero)
    monkeypatch.setattr(Accelerator, "is_main_process", False)
    training = Training()
    with training.watch({"inf": "warn", "nan": "warn"}, recorder=object()) as w:
        training.run(w.steps(training.loader), log_of_zero)
    assert w.events[0].op == "log"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unmodified_script_is_watched_and_its_bad_step_run_again(fault: Any) -> None:
    """``retrograd run`` does this: the program does not call ``steps``."""
    w = rg.anomaly.watch(policy="skip_step")
    w.rerun_loaders = True
    with w, steps_run_again(w):
        training = Training(9, gradient_accumulation_steps=3)
        training.run(training.loader, fault)
    assert_found(w, fault)
    assert training.updated == [3, 0]


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net(log_of_zero)
    names = {"model": net, "optimizer": torch.optim.SGD(net.parameters(), 0.1), "criterion": lambda out, y: out.sum()}
    exec(example("accelerate"), {**names, "loader": [(x, None) for x in batches(4)]})
    assert "born in log at" in capsys.readouterr().out


SCRIPT = """
import os
import torch
from accelerate import Accelerator
from retrograd.anomaly.adapters.accelerate import watch
from tests.anomaly.torch.training import Net, root_of_zero, weights_are_clean

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
net = Net()
model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
with watch(accelerator, model, optimizer, "skip_step") as w:
    for x in w.steps(torch.ones(8, 5, 4)):
        with accelerator.accumulate(model):
            net.fault = root_of_zero if w.batch_idx in (3, 4) and accelerator.process_index == 1 else None
            accelerator.backward((model(x) ** 2).mean())
            optimizer.step()
            optimizer.zero_grad()
assert weights_are_clean(net)
print([(event.op, event.batch_idx, "rank 1 of 2" in event.note) for event in w.events], flush=True)
torch.distributed.destroy_process_group()
os._exit(0)  # threads of gloo may otherwise end the process by SIGABRT, under load
"""


def test_two_processes_leave_out_the_same_step(tmp_path: Path) -> None:
    """The guilty one is named where gradients are exchanged; where they are not, nobody waits for the other."""
    (tmp_path / "train.py").write_text(SCRIPT)
    root = Path(__file__).parents[3]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    settings |= {"PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "train.py")],
            env={**os.environ, **{name: str(value) for name, value in settings.items()}, "RANK": n, "LOCAL_RANK": n},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in "01"
    ]
    try:
        said = [rank.communicate(timeout=90) for rank in ranks]
    finally:
        for each in ranks:
            each.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert {out.splitlines()[-1] for out, _ in said} == {"[('SqrtBackward0', 3, True), ('unknown', 5, False)]"}, said
