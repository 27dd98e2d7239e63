"""The callback for Lightning's Trainer."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly.adapters.framework_loops import steps_run_again
from tests.anomaly.torch.pages import example
from tests.anomaly.torch.training import Net, batches, line_of, log_of_zero, root_of_zero, state, weights_are_clean

pl = pytest.importorskip("lightning.pytorch")

from retrograd.anomaly.adapters.lightning import AnomalyCallback  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*The number of training batches"),
]
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

BAD = 3  # the batch in which the fault is on
FAULTS = {log_of_zero: "log", root_of_zero: "SqrtBackward0"}


class Module(pl.LightningModule):
    """Notes what its weights and its optimizer hold before and after every batch."""

    def __init__(self, fault: Callable[[Tensor], Tensor] | None = None, manual: bool = False) -> None:
        super().__init__()
        self.net = Net()
        self.fault = fault
        self.automatic_optimization = not manual
        self.seen: list[int] = []
        self.before: list[Any] = []
        self.after: list[Any] = []

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.seen.append(batch_idx)
        self.net.fault = self.fault if batch_idx == BAD else None
        loss = (self.net(batch) ** 2).mean()
        self.log("loss", loss, batch_size=1)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.net.parameters(), 1e-2)

    def everything(self) -> Any:
        return copy.deepcopy((state(self), self.trainer.optimizers[0].state_dict()))

    def on_train_batch_start(self, batch: Tensor, batch_idx: int) -> None:
        self.before.append(self.everything())

    def on_train_batch_end(self, outputs: Any, batch: Tensor, batch_idx: int) -> None:
        self.after.append(self.everything())

    def changed(self) -> list[bool]:
        """In which batches the weights, or the optimizer's moments, were changed."""
        return [repr(before) != repr(after) for before, after in zip(self.before, self.after, strict=True)]


def fit(module: Any, callbacks: Any = (), trainer: Any = pl.Trainer, count: int = 6, **kwargs: Any) -> Any:
    settings: dict[str, Any] = {"logger": False, "max_epochs": 1, "accelerator": "cpu"}
    for each in ("enable_checkpointing", "enable_progress_bar", "enable_model_summary"):
        settings[each] = False
    trainer = trainer(callbacks=list(callbacks), **settings | kwargs)
    trainer.fit(module, torch.utils.data.DataLoader(batches(count), batch_size=None))
    return trainer


def assert_found(w: Any, fault: Any) -> None:
    (event,) = w.events
    assert (event.op, event.batch_idx, event.layer_name) == (FAULTS[fault], BAD, "net")
    assert event.lineno == line_of(f"# the birth of {fault.__name__}")
    assert event.operands == {"input": 0.0}
    assert event.reproducible
    assert rg.anomaly.current() is None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_skip_step_leaves_out_one_update(fault: Any, manual: bool, precision: Any) -> None:
    module, watching = Module(fault, manual), AnomalyCallback("skip_step")
    trainer = fit(module, [watching], precision=precision)
    assert_found(watching.watch, fault)
    assert module.changed() == [number != BAD for number in range(6)]
    assert module.seen == [0, 1, 2, BAD, BAD, 4, 5]
    assert trainer.global_step == 6, "the second run counts"
    assert weights_are_clean(module)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("manual", [False, True])
def test_raise_ends_fit_with_clean_weights(fault: Any, manual: bool) -> None:
    module, watching = Module(fault, manual), AnomalyCallback()
    with pytest.raises(rg.anomaly.AnomalyError, match=FAULTS[fault]) as caught:
        fit(module, [watching])
    assert caught.value.event is watching.watch.event
    assert_found(watching.watch, fault)
    assert weights_are_clean(module)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_bad_micro_batch_withholds_its_update(fault: Any, clip: float | None) -> None:
    module, watching = Module(fault), AnomalyCallback("skip_step")
    fit(module, [watching], count=9, accumulate_grad_batches=3, gradient_clip_val=clip)
    assert_found(watching.watch, fault)
    assert [number for number, changed in enumerate(module.changed()) if changed] == [2, 8]


def test_healthy_training_is_the_same_with_the_callback() -> None:
    def train(callbacks: Any) -> Any:
        torch.manual_seed(0)
        module = Module()
        fit(module, callbacks, count=20, gradient_clip_val=0.1)
        return module.everything()

    watching = AnomalyCallback()
    torch.testing.assert_close(train([watching]), train([]), rtol=0, atol=0)
    assert (watching.watch.step, watching.watch.events) == (20, ())


def test_updates_that_a_scaler_skips_are_no_event() -> None:
    from lightning.pytorch.plugins import MixedPrecision

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    module, watching = Module(), AnomalyCallback()
    fit(module, [watching], plugins=MixedPrecision("16-mixed", "cpu", scaler), precision=None)
    assert scaler.get_scale() < 2.0**24, "nothing was skipped"
    assert not watching.watch.events


def test_the_trainer_is_restored() -> None:
    trainer = fit(Module(log_of_zero), [AnomalyCallback("skip_step")])
    loop = trainer.fit_loop.epoch_loop
    assert not {"run"} & {*vars(loop.automatic_optimization), *vars(loop.manual_optimization)}
    assert "log" not in vars(trainer.lightning_module)


def test_an_error_of_the_program_ends_the_watch() -> None:
    class Broken(Module):
        def on_train_batch_end(self, outputs: Any, batch: Tensor, batch_idx: int) -> None:
            raise KeyError("the program's own")

    with pytest.raises(KeyError, match="the program's own"):
        fit(Broken(), [AnomalyCallback()])
    assert rg.anomaly.current() is None


def test_a_callback_can_be_used_again() -> None:
    watching = AnomalyCallback("skip_step")
    fit(Module(), [watching])
    fit(Module(log_of_zero), [watching])
    assert_found(watching.watch, log_of_zero)


def test_a_callback_can_be_pickled() -> None:
    watching = pickle.loads(pickle.dumps(AnomalyCallback("skip_step", max_events=3)))
    fit(Module(log_of_zero), [watching])
    assert_found(watching.watch, log_of_zero)


def test_validation_is_not_watched() -> None:
    class Validated(Module):
        def validation_step(self, batch: Tensor, batch_idx: int) -> None:
            with torch.inference_mode(False), torch.enable_grad():
                x = torch.zeros(2, requires_grad=True)
                torch.log(x).sum().backward()

        def val_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(batches(2), batch_size=None)

    watching = AnomalyCallback()
    fit(Validated(), [watching], val_check_interval=2, num_sanity_val_steps=2)
    assert not watching.watch.events


def test_loggers_receive_only_finite_numbers() -> None:
    from lightning.pytorch.loggers.logger import DummyLogger

    class Kept(DummyLogger):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[dict[str, float]] = []

        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            self.written.append(metrics)

    logger = Kept()
    fit(Module(log_of_zero), [AnomalyCallback("skip_step")], logger=logger, log_every_n_steps=1)
    assert [line["anomaly/events"] for line in logger.written] == [0, 0, 0, 1, 1, 1]
    assert ["loss" in line for line in logger.written] == [True] * BAD + [False] + [True] * 2
    assert all(math.isfinite(number) for line in logger.written for number in line.values())


def test_the_second_run_is_not_logged() -> None:
    class Counted(Module):
        def on_train_epoch_end(self) -> None:
            self.mean = self.trainer.callback_metrics["calls"]

        def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
            self.log("calls", 1.0, on_epoch=True, reduce_fx="sum")
            return super().training_step(batch, batch_idx)

    module = Counted(root_of_zero)
    fit(module, [AnomalyCallback("skip_step")])
    assert module.mean == 6


@pytest.mark.filterwarnings("ignore:(You are using|Found) (the )?`dataloader_iter`")
def test_a_step_that_takes_the_iterator_is_not_run_again() -> None:
    class Iterates(Module):
        def training_step(self, dataloader_iter: Any) -> Tensor:  # type: ignore[override]
            batch, batch_idx, _ = next(dataloader_iter)
            return super().training_step(batch, batch_idx)

    module, watching = Iterates(log_of_zero), AnomalyCallback("skip_step")
    fit(module, [watching])
    assert module.seen == list(range(6))
    assert [event.op for event in watching.watch.events] == ["log"]


def test_the_older_package_is_supported() -> None:
    """The older name of the package has classes of its own."""
    old = pytest.importorskip("pytorch_lightning")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Old(old.LightningModule):
        __init__ = Module.__init__
        training_step = Module.training_step
        configure_optimizers = Module.configure_optimizers

    Old.__init__ = lambda self: (old.LightningModule.__init__(self), setattr(self, "net", Net()))[0]
    module = Old()
    module.seen, module.fault = [], log_of_zero
    watching = AnomalyCallback("skip_step")
    fit(module, [watching], old.Trainer)
    assert_found(watching.watch, log_of_zero)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unmodified_script_is_watched_and_its_bad_step_run_again(fault: Any) -> None:
    """``retrograd run`` watches in this way."""
    module = Module(fault)
    w = rg.anomaly.watch(policy="skip_step")
    w.rerun_loaders = True
    with w, steps_run_again(w):
        trainer = fit(module)
    (event,) = w.events
    assert (event.op, event.batch_idx, event.reproducible) == (FAULTS[fault], BAD, True)
    assert module.changed() == [number != BAD for number in range(6)]
    assert trainer.global_step == 6


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    loader = torch.utils.data.DataLoader(batches(6), batch_size=None)
    exec(example("lightning"), {"model": Module(log_of_zero), "loader": loader})
    assert "born in log at" in capsys.readouterr().out


def test_without_lightning_the_import_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules.update({'lightning': None, 'pytorch_lightning': None});"
        "import retrograd.anomaly.adapters.lightning"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install lightning" in found.stderr.splitlines()[-1]
