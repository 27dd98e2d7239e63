"""Several processes: the one whose data are bad says so, and the others do not wait for it in vain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

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
    with rg.anomaly.watch(model, optimizer) as w:
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
CASES = [(DDP, DATA, "range(4)"), (FSDP, DATA, "range(4)"), (FSDP, ROOT, "range(4)"), (FSDP, ROOT, AGAIN)]


@pytest.mark.parametrize(("wrap", "fault", "loop"), CASES, ids=["DDP", "FSDP", "FSDP in backward", "FSDP run again"])
def test_the_guilty_rank_is_named_and_none_hangs(wrap: str, fault: Sequence[str], loop: str, tmp_path: Path) -> None:
    bad, loss, kind = fault
    script = tmp_path / "train.py"
    text = SCRIPT.replace("WRAP", wrap).replace("LOOP", loop)
    script.write_text(text.replace("BAD", bad).replace("LOSS", loss))
    command = [sys.executable, str(script)]
    meeting = str(tmp_path / "meeting")
    ranks = [
        subprocess.Popen([*command, str(rank), meeting], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=90) for rank in ranks]
    finally:
        for each in ranks:
            each.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert [out.split()[:3] for out, _ in said] == [["0", "2", kind], ["1", "2", kind]], said
    assert all("It happened on rank 1 of 2." in out for out, _ in said), said
