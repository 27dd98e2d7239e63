"""Intermediate results of a thread: where they lie, and how many places are remembered."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.core import blas, scratch


def test_vectors_of_one_length_are_the_same_again_and_apart() -> None:
    like = np.ones(100, np.float32)
    first, second = scratch.scratch_vectors(2, like)
    assert not np.may_share_memory(first, second)
    assert [vector.shape for vector in (first, second)] == [(100,), (100,)]
    assert scratch.scratch_vectors(2, like)[0] is first


def test_no_more_places_are_remembered_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
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
