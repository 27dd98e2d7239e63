"""Where processes are not available, as in WebAssembly, a loader with workers says what to do."""

from __future__ import annotations

import sys

import pytest

import retrograd as rg


def test_error_about_workers_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rg.utils.data.TensorDataset(rg.arange(4.0))
    monkeypatch.setitem(sys.modules, "_multiprocessing", None)
    for name in ("queues", "connection", "synchronize"):  # modules that import it
        monkeypatch.delitem(sys.modules, f"multiprocessing.{name}", raising=False)
    loader = rg.utils.data.DataLoader(data, batch_size=2, num_workers=2)
    with pytest.raises(RuntimeError, match=r"cannot start processes for num_workers=2 .*; use num_workers=0"):
        next(iter(loader))
    assert [batch.tolist() for (batch,) in rg.utils.data.DataLoader(data, batch_size=2)] == [[0.0, 1.0], [2.0, 3.0]]
