"""Shared settings of the test suite."""

import pytest

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")
