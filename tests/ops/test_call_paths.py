"""The short paths of calls record the same as the general path, which is the reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import state
from retrograd.core.node import OpNode
from retrograd.core.saved import SavedList
from tests.ops.harness import Bound, Make, Row, to_ours
from tests.ops.table import ROWS

CASES = [
    pytest.param(row, next(dtype for dtype in row.dtypes if np.dtype(dtype).kind in "fc"), id=row.name)
    for row in ROWS
    if row.gradients and any(np.dtype(dtype).kind in "fc" for dtype in row.dtypes)
]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@contextmanager
def general_path() -> Iterator[None]:
    """Make every call in this thread take the general path, as if it were observed."""
    state.local.mode = state.WATCHED
    try:
        yield
    finally:
        state.refresh()


def content(entry: Any) -> Any:
    """Return the content of a saved entry, in whatever form it is kept."""
    if isinstance(entry, (SavedList, list)):
        return [content(item) for item in entry]
    if isinstance(entry, tuple) and entry and isinstance(entry[0], (rg.Tensor, np.ndarray)):
        entry = entry[0]  # (value, version)
    return entry._data if isinstance(entry, rg.Tensor) else entry


def is_plainly_equal(mine: Any, theirs: Any) -> bool:
    """Whether :func:`numpy.testing.assert_equal` would pass; it formats everything it compares, which is slow."""
    if isinstance(mine, np.ndarray):
        return np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc")
    plain = all(isinstance(each, int) for each in mine) if isinstance(mine, tuple) else isinstance(mine, (int, str))
    return mine is theirs or (plain and mine == theirs)


def assert_same_record(short: Any, general: Any) -> None:
    assert type(short) is type(general)
    if not isinstance(short, OpNode):
        return
    assert isinstance(general, OpNode)
    assert short.shape == general.shape and short.dtype == general.dtype
    assert [edge is None for edge in short.next] == [edge is None for edge in general.next]
    # the short paths leave out the last slot if it is empty
    for mine, theirs in itertools.zip_longest(short.saved or (), general.saved or ()):
        mine, theirs = content(mine), content(theirs)
        assert type(mine) is type(theirs)
        if not is_plainly_equal(mine, theirs):
            np.testing.assert_equal(mine, theirs)


@pytest.mark.parametrize("grad", [True, False], ids=["recorded", "plain"])
@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_short_paths_record_the_same_as_the_general_path(row: Row, dtype: str, grad: bool) -> None:
    for sample in row.samples(Make(dtype)):
        results = []
        for path in (general_path, None):
            bound = Bound(row, sample, to_ours, rg, grad)
            rg.manual_seed(0)
            if path is None:
                results.append(bound.run(row.function))
            else:
                with path():
                    results.append(bound.run(row.function))
        general, short = results
        assert len(short) == len(general)
        for mine, theirs in zip(short, general, strict=True):
            if isinstance(mine, rg.Tensor):
                assert mine.dtype == theirs.dtype and mine.stride() == theirs.stride()
                np.testing.assert_array_equal(mine.numpy(force=True), theirs.numpy(force=True))
                assert mine.requires_grad == theirs.requires_grad and mine._is_view() == theirs._is_view()
                assert_same_record(mine.grad_fn, theirs.grad_fn)
