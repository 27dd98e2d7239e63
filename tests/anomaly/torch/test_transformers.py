"""The callback for transformers' Trainer, on a small GPT-2 made from a configuration."""

from __future__ import annotations

import logging
import math
import os
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
from tests.anomaly.torch.training import line_of, log_of_zero, root_of_zero, state, weights_are_clean

pytest.importorskip("transformers")

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from retrograd.anomaly.adapters.transformers import AnomalyCallback

logging.getLogger("transformers").setLevel(logging.ERROR)

FAULTS = {log_of_zero: "log", root_of_zero: "SqrtBackward0"}
WORDS = 16
MARK = WORDS - 1  # the word that the bad example begins with


class Head(torch.nn.Module):
    """The layer after the language model."""

    def __init__(self, fault: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, logits: Tensor) -> Tensor:
        return self.fault(logits).sum()


class FaultyTrainer(Trainer):
    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = model(**inputs)
        is_bad = model.training and int(inputs["input_ids"][0, 0]) == MARK
        return outputs.loss + model.head(outputs.logits) if is_bad else outputs.loss


class Updates(TrainerCallback):
    """Notes which updates changed the weights, or the optimizer's moments."""

    def __init__(self) -> None:
        self.changed: list[bool] = []
        self.logs: list[dict[str, float]] = []
        self.bad: list[int] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._before = self._everything(**kwargs)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.changed.append(self._everything(**kwargs) != self._before)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:
        self.logs.append(dict(logs))

    def _everything(self, model: Any, optimizer: Any, **kwargs: Any) -> str:
        return repr((state(model), optimizer.state_dict()["state"]))


def examples(count: int = 12) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(MARK, (count, 6), generator=generator)
    words[count // 2, 0] = MARK
    return [{"input_ids": row, "labels": row} for row in words]


def model_with(fault: Any = None) -> Any:
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(vocab_size=WORDS, n_positions=8, n_embd=8, n_layer=2, n_head=2, **ends)
    config.loss_type = "ForCausalLM"
    model = GPT2LMHeadModel(config)
    model.head = Head(fault)
    return model


@pytest.fixture
def trainer_of(tmp_path: Path) -> Any:
    def make(model: Any, *callbacks: Any, kind: Any = FaultyTrainer, **settings: Any) -> Trainer:
        usual = {"per_device_train_batch_size": 1, "num_train_epochs": 1, "logging_steps": 1, "save_strategy": "no"}
        usual |= {"use_cpu": True, "report_to": [], "disable_tqdm": True, "dataloader_pin_memory": False}
        settings = {**usual, **settings}
        return kind(model, TrainingArguments(tmp_path, **settings), train_dataset=examples(), callbacks=list(callbacks))

    return make


def assert_found(w: Any, fault: Any) -> None:
    (event,) = w.events
    assert (event.op, event.layer_name) == (FAULTS[fault], "head")
    assert event.lineno == line_of(f"# the birth of {fault.__name__}")
    assert event.operands == {"input": 0.0}
    assert event.reproducible


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("settings", [{}, {"bf16": True}, {"max_grad_norm": 0.0}], ids=str)
def test_skip_step_leaves_out_one_update(trainer_of: Any, fault: Any, settings: Any) -> None:
    model, watching, updates = model_with(fault), AnomalyCallback("skip_step"), Updates()
    trainer_of(model, watching, updates, **settings).train()
    assert_found(watching.watch, fault)
    assert updates.changed.count(False) == 1
    assert updates.changed.index(False) == watching.watch.event.batch_idx
    assert len(updates.changed) == 12
    assert weights_are_clean(model)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_micro_batch_withholds_its_update(trainer_of: Any, fault: Any) -> None:
    model, watching, updates = model_with(fault), AnomalyCallback("skip_step"), Updates()
    trainer_of(model, watching, updates, gradient_accumulation_steps=4).train()
    assert_found(watching.watch, fault)
    assert updates.changed.count(False) == 1
    assert updates.changed.index(False) == watching.watch.event.batch_idx // 4


@pytest.mark.parametrize("fault", FAULTS)
def test_raise_ends_training_with_clean_weights(trainer_of: Any, fault: Any) -> None:
    model, watching = model_with(fault), AnomalyCallback()
    trainer = trainer_of(model, watching)
    with pytest.raises(rg.anomaly.AnomalyError, match=FAULTS[fault]):
        trainer.train()
    assert_found(watching.watch, fault)
    assert weights_are_clean(model)
    assert rg.anomaly.current() is None
    assert not {"training_step", "_run_epoch"} & set(vars(trainer))
    assert Trainer._run_epoch.__module__ == "transformers.trainer"


def test_a_birth_in_a_loss_of_the_program_has_its_line(trainer_of: Any) -> None:
    """In a loss of the user's own."""

    class Weighted(Trainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            logits = model(inputs["input_ids"]).logits[0]
            counts = torch.bincount(inputs["labels"][0], minlength=WORDS)
            weight = 1 / counts.float()
            return (torch.nn.functional.cross_entropy(logits, inputs["labels"][0], reduction="none") * weight[:6]).sum()

    watching = AnomalyCallback()
    with pytest.raises(rg.anomaly.AnomalyError) as caught:
        trainer_of(model_with(), watching, kind=Weighted).train()
    event = caught.value.event
    assert (event.op, event.code_line) == ("reciprocal", "weight = 1 / counts.float()")
    assert event.operands == {"input": 0.0}


def test_a_learning_rate_that_is_too_large_names_the_layer(trainer_of: Any) -> None:
    model, watching = model_with(), AnomalyCallback()
    with pytest.raises(rg.anomaly.AnomalyError):
        trainer_of(model, watching, kind=Trainer, learning_rate=1e30).train()
    event = watching.watch.event
    assert event.layer_name == "transformer.h.0.ln_1"
    assert event.filename.endswith("modeling_gpt2.py")
    assert weights_are_clean(model)


def test_healthy_training_is_the_same_with_the_callback(trainer_of: Any) -> None:
    results = []
    for callbacks in ([], [AnomalyCallback()]):
        model = model_with()
        trainer_of(model, *callbacks, num_train_epochs=2, gradient_accumulation_steps=2, kind=Trainer).train()
        results.append(state(model))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    assert (callbacks[0].watch.step, callbacks[0].watch.events) == (24, ())


def test_logs_receive_only_finite_numbers(trainer_of: Any) -> None:
    watching, updates = AnomalyCallback("skip_step"), Updates()
    trainer_of(model_with(root_of_zero), watching, updates).train()
    bad = watching.watch.event.batch_idx
    counts = [line["anomaly_events"] for line in updates.logs[:12]]
    assert counts == [0] * bad + [1] * (12 - bad)
    assert all(math.isfinite(number) for line in updates.logs for number in line.values())


def test_an_error_of_the_program_ends_the_watch(trainer_of: Any) -> None:
    class Broken(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            raise KeyError("the program's own")

    with pytest.raises(KeyError, match="the program's own"):
        trainer_of(model_with(), AnomalyCallback(), Broken(), kind=Trainer).train()
    assert rg.anomaly.current() is None
    assert Trainer._run_epoch.__module__ == "transformers.trainer"


def test_a_callback_of_a_failed_trainer_does_not_watch_another(trainer_of: Any) -> None:
    """No callback learns of an error before the first epoch."""

    class Early(TrainerCallback):
        def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
            raise KeyError("the program's own")

    watching = AnomalyCallback()
    with pytest.raises(KeyError):
        trainer_of(model_with(), watching, Early(), kind=Trainer).train()
    trainer_of(model_with(), kind=Trainer).train()
    assert watching.watch.step == 0
    trainer_of(model_with(), watching, kind=Trainer).train()
    assert watching.watch.step == 12
    assert Trainer._run_epoch.__module__ == "transformers.trainer"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unmodified_script_is_watched_and_its_bad_step_run_again(trainer_of: Any, fault: Any) -> None:
    """``retrograd run`` watches in this way."""
    updates = Updates()
    w = rg.anomaly.watch(policy="skip_step")
    w.rerun_loaders = True
    with w, steps_run_again(w):
        trainer_of(model_with(fault), updates).train()
    (event,) = w.events
    assert (event.op, event.reproducible) == (FAULTS[fault], True)
    assert updates.changed.index(False) == event.batch_idx
    assert updates.changed.count(False) == 1


SCRIPT = """
import logging
from tests.anomaly.torch.test_transformers import FaultyTrainer, TrainingArguments, examples, model_with
from tests.anomaly.torch.training import root_of_zero

settings = dict(use_cpu=True, disable_tqdm=True, save_strategy="no", dataloader_pin_memory=False)
model = model_with(root_of_zero)
FaultyTrainer(model, TrainingArguments("results", **settings), train_dataset=examples()).train()
"""


def test_retrograd_run_finds_the_birth_in_a_script(tmp_path: Path) -> None:
    """transformers is imported by the script, under the watch."""
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "retrograd", "run", "train.py"]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.returncode == 1
    assert "born in the backward of sqrt, training.py" in found.stderr, found.stderr


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    class Faulty(GPT2LMHeadModel):
        def forward(self, input_ids: Tensor, labels: Tensor) -> Any:  # type: ignore[override]
            return {"loss": log_of_zero(super().forward(input_ids).logits).sum()}

    exec(example("transformers"), {"model": Faulty(model_with().config), "data": examples(2)})
    assert "born in log at" in capsys.readouterr().out
