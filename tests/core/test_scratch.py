"""Scratch memory for the intermediate results of a thread: its reuse and its limit."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.core import blas, scratch


def test_scratch_vectors_are_reused_and_do_not_overlap() -> None:
    like = np.ones(100, np.float32)
    first, second = scratch.scratch_vectors(2, like)
    assert not np.may_share_memory(first, second)
    assert [vector.shape for vector in (first, second)] == [(100,), (100,)]
    assert scratch.scratch_vectors(2, like)[0] is first


def test_scratch_keeps_at_most_a_fixed_number_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MOST", 5)
    scratch._scratch.beginnings.clear()
    known = len(blas._known)
    for size in range(blas._SMALLEST, blas._SMALLEST + 23):
        like = np.ones(size, np.float32)
        (vector,) = scratch.scratch_vectors(1, like)
        assert vector.shape == like.shape
        assert len(scratch._scratch.beginnings) <= 5
    del vector
    assert len(blas._known) <= known + 5
