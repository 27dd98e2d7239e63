"""Several processes: the one whose data are bad says so, and the others do not wait for it in vain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forking

pytest.importorskip("torch", reason="torch is not installed")  # the programs below import it

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
import retrograd as rg

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
model = WRAP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    with rg.anomaly.watch(GIVEN) as w:
        for step in LOOP:
            x = torch.randn(5, 3)
            if step == 2 and rank == 1:
                x[3, 0] = BAD
            optimizer.zero_grad()
            out = model(x)
            loss = (LOSS).mean()
            loss.backward()
            optimizer.step()
except rg.anomaly.AnomalyError as error:
    event = error.event
    print(rank, step, event.kind, event.note, flush=True)
for each in model.parameters():
    each = each.to_local() if hasattr(each, "to_local") else each
    assert each.isfinite().all()
dist.destroy_process_group()
"""
DDP = "nn.parallel.DistributedDataParallel"
FSDP = "(lambda model: __import__('torch.distributed.fsdp').distributed.fsdp.fully_shard(model))"


DATA = 'float("nan")', "out ** 2", "leaf"
ROOT = "1.0", "torch.sqrt(out ** 2 * (step != 2 or rank != 1))", "divide"  # after which FSDP has let go of its weights


AGAIN = "w.steps(range(4))"
GIVEN = "model, optimizer"
CASES = {
    "DDP": (DDP, DATA, "range(4)", GIVEN),
    "DDP of which the watch was not told": (DDP, DATA, "range(4)", ""),
    "FSDP in backward": (FSDP, ROOT, "range(4)", GIVEN),
    "FSDP run again": (FSDP, ROOT, AGAIN, GIVEN),
}


def in_two_processes(script: Path, meeting: Path, *before: str) -> list[tuple[int, str, str]]:
    """The exit code, the output and the error output of both."""
    arguments = (*before, str(script))
    done = forking.side_by_side(
        *(((*arguments, str(rank), str(meeting)), {**os.environ, "RANK": str(rank)}) for rank in range(2)),
        cwd=script.parent,
    )
    return [(each.returncode, each.stdout, each.stderr) for each in done]


@pytest.mark.parametrize("case", CASES)
def test_the_guilty_rank_is_named_and_none_hangs(case: str, tmp_path: Path) -> None:
    wrap, (bad, loss, kind), loop, given = CASES[case]
    script = tmp_path / "train.py"
    text = SCRIPT.replace("WRAP", wrap).replace("LOOP", loop).replace("GIVEN", given)
    script.write_text(text.replace("BAD", bad).replace("LOSS", loss))
    said = in_two_processes(script, tmp_path / "meeting")
    assert [code for code, _, _ in said] == [0, 0], said
    assert [out.split()[:3] for _, out, _ in said] == [["0", "2", kind], ["1", "2", kind]], said
    assert all("It happened on rank 1 of 2." in out for _, out, _ in said), said


RUN = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
x = torch.randn(24, 8)
if rank == 1:
    x[BAD] = 0
class Trainer:
    def __init__(self):
        MODEL
    def fit(self):
        for step, (a,) in enumerate(LOOP):
            self.optimizer.zero_grad()
            LOSS
            loss.backward()
            self.optimizer.step()
trainer = Trainer()
trainer.fit()
print([getattr(each, "_local_tensor", each).flatten().tolist() for each in trainer.model.parameters()])
dist.destroy_process_group()
"""
LOADER = "DataLoader(TensorDataset(x), batch_size=8)"
MODEL = """inner = nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(inner.parameters(), 0.1)
        self.model = nn.parallel.DistributedDataParallel(inner)"""
SHARDED = """from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
        self.model = WRAP
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)"""
LOSS = "loss = self.model(a / a.norm(dim=-1, keepdim=True)).square().mean()"


def watched(tmp_path: Path, policy: str, **parts: str) -> list[tuple[int, str, str]]:
    text = RUN
    for name, part in {"MODEL": MODEL, "BAD": "12", "LOOP": LOADER, "LOSS": LOSS, **parts}.items():
        text = text.replace(name, part)
    script = tmp_path / "train.py"
    script.write_text(text)
    return in_two_processes(script, tmp_path / "meeting", "-m", "retrograd", "run", "--policy", policy)


@pytest.mark.parametrize("loop", [LOADER, "zip(x.split(8))"], ids=["run again", "not run again"])
@pytest.mark.parametrize("bad", ["4", "12"])  # before an optimizer has stepped, and after
def test_all_processes_leave_out_the_bad_step_without_a_given_model(loop: str, bad: str, tmp_path: Path) -> None:
    said = watched(tmp_path, "skip_step", LOOP=loop, BAD=bad)
    assert [code for code, _, _ in said] == [0, 0], said
    (_, weights, other), (_, same, guilty) = said
    assert weights == same
    assert "nan" not in weights
    assert "NaN born in div" in guilty
    assert "update skipped" in guilty
    assert "It happened on rank 1 of 2." in guilty
    assert "it happened on rank 1, whose report says more" in other
    assert len(other.strip().splitlines()) == 1, other


def test_one_error_ends_all_processes_and_the_one_with_the_birth_reports_it(tmp_path: Path) -> None:
    (code, _, other), (same, _, guilty) = watched(tmp_path, "raise")
    assert (code, same) == (1, 1)
    assert "update withheld" in guilty
    assert "It happened on rank 1 of 2." in guilty
    assert len(other.strip().splitlines()) == 1, other
    assert "it happened on rank 1, whose report says more" in other


WRAPPED = {
    "fully_shard": ("fully_shard(nn.Linear(8, 1))", "self.model(a / a.norm(dim=-1, keepdim=True)).square().mean()"),
    "one weight, which the other process has": (
        "FullyShardedDataParallel(nn.Linear(1, 1, bias=False), device_id=torch.device('cpu'), use_orig_params=True)",
        "self.model((a / a.norm(dim=-1, keepdim=True)).mean(-1, keepdim=True)).square().mean()",
    ),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_processes_with_sharded_weights_leave_out_a_bad_first_step(wrapped: str, tmp_path: Path) -> None:
    """They agree from the moment when the optimizer is made."""
    wrap, loss = WRAPPED[wrapped]
    model = SHARDED.replace("WRAP", wrap)
    said = watched(tmp_path, "skip_step", MODEL=model, BAD="4", LOOP="zip(x.split(8))", LOSS=f"loss = {loss}")
    assert [code for code, _, _ in said] == [0, 0], said
    (_, weights, other), (_, same, guilty) = said
    assert "nan" not in weights + same
    assert "NaN born in div" in guilty
    assert "update skipped" in guilty
    assert "it happened on rank 1, whose report says more" in other


@pytest.mark.parametrize("policy", ["warn", "record"])
def test_a_bad_step_that_may_pass_goes_on_in_all_processes(policy: str, tmp_path: Path) -> None:
    (code, weights, _), (same, others, _) = watched(tmp_path, policy, BAD="20")
    assert (code, same) == (0, 0)
    assert weights == others


def test_a_bad_loss_without_a_bad_gradient_is_skipped_in_no_other_process(tmp_path: Path) -> None:
    """Nobody else knows of it, and would neither answer nor run the step again."""
    loss = 'loss = self.model(a).square().mean() + torch.tensor(float("nan") if rank and step == 1 else 0.0)'
    (code, weights, _), (same, others, guilty) = watched(tmp_path, "skip_step", LOSS=loss)
    assert (code, same) == (0, 0), guilty
    assert weights == others
    assert "the update was applied, as in the others" in " ".join(guilty.split())
    assert "update skipped" not in guilty


def test_a_model_of_one_process_is_skipped_in_that_process_only(tmp_path: Path) -> None:
    """The others would not answer; its own update is left out."""
    loss = (
        "loss = self.model(a).square().mean()\n"
        "            if rank:\n"
        "                own = torch.ones(1, requires_grad=True)\n"
        "                beside = torch.optim.SGD([own], 0.1)\n"
        '                (own * (float("nan") if step == 1 else 1.0)).sum().backward()\n'
        "                beside.step()\n"
        "                assert own.isfinite().all()"
    )
    (code, weights, _), (same, others, guilty) = watched(tmp_path, "skip_step", LOSS=loss)
    assert (code, same) == (0, 0), guilty
    assert weights == others
    assert "update skipped" in guilty
