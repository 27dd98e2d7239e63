"""Shared settings of the test suite."""

import importlib
import os
import pkgutil
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

import retrograd.ops

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")

# A slow machine fails no test. Where a change is judged, it is by what it does and not by the examples drawn this time.
settings.register_profile("default", deadline=None)
settings.register_profile("judge", deadline=None, derandomize=True)
settings.load_profile("judge" if os.environ.get("RETROGRAD_CI") else "default")

# Tables of all operations are complete: some families are imported when they are first asked for.
for module in pkgutil.walk_packages(retrograd.ops.__path__, "retrograd.ops."):
    importlib.import_module(module.name)


@pytest.fixture(autouse=True)
def torch_checks_distributions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where distributions are compared: importing Lightning, or compiling a model, turns torch's checks off."""
    if "distribution" not in request.path.name:
        yield
        return
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    torch.distributions.Distribution.set_default_validate_args(before)
