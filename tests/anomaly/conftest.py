"""Fixtures of the tests of the watch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import state


def surroundings() -> list[Any]:
    """Return everything that a watch changes while it is on."""
    local = state.local
    return [
        np.geterr(),
        np.geterrcall(),
        state.monitor,
        local.mode,
        local.observer,
        local.within,
        local.grad_enabled,
        local.graph_task,
        list(sys.meta_path),
        rg.anomaly.current(),
        list(warnings.filters),
    ]


@pytest.fixture
def leaves_no_trace() -> Iterator[None]:
    """Check that a watch has restored everything that it changed."""
    before = surroundings()
    yield
    assert surroundings() == before
