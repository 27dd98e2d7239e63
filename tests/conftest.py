"""Shared settings of the test suite."""

import os

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")

# A slow machine fails no test. Where a change is judged, it is by what it does and not by the examples drawn this time.
settings.register_profile("default", deadline=None)
settings.register_profile("judge", deadline=None, derandomize=True)
settings.load_profile("judge" if os.environ.get("RETROGRAD_CI") else "default")
