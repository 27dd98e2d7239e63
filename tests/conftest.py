"""Shared settings of the test suite."""

import os

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")

# Where a change is judged, it is judged by what it does and not by the examples that were drawn this time.
settings.register_profile("judge", derandomize=True)
if os.environ.get("RETROGRAD_CI"):
    settings.load_profile("judge")
