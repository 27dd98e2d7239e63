"""The examples of docs/profiler.md are correct."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "profiler.md"


def test_examples_of_the_profiler_page() -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failures, examples = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert examples > 5
    assert failures == 0
