"""Shared settings of the test suite."""

import gc
import importlib
import os
import pkgutil
from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

import retrograd.ops

try:
    import torch
except ModuleNotFoundError:
    if os.environ.get("RETROGRAD_CI"):
        raise  # a change is not judged without the oracle
    torch = None  # what compares with it is skipped, so that the rest runs on a Python that torch is not there for

if torch is not None and not torch.accelerator.is_available():
    # For each kind of device that is not here, torch.manual_seed() would write down the stack, which is deep in a test.
    for module_with_seed in (torch.cuda.random, torch.xpu.random, torch.mtia):
        module_with_seed._lazy_call = lambda *arguments, **options: None

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")

# A slow machine fails no test. Where a change is judged, it is by what it does and not by the examples drawn this time.
settings.register_profile("default", deadline=None)
settings.register_profile("judge", deadline=None, derandomize=True)
settings.load_profile("judge" if os.environ.get("RETROGRAD_CI") else "default")

# Tables of all operations are complete: some families are imported when they are first asked for.
for module in pkgutil.walk_packages(retrograd.ops.__path__, "retrograd.ops."):
    importlib.import_module(module.name)


class ModuleOfTests(pytest.Module):
    """A file of tests; one that imports torch, itself or through what it imports, is skipped where torch is not."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            if torch is None and getattr(error.__cause__, "name", None) == "torch":
                pytest.skip("torch is not installed", allow_module_level=True)
            raise


_OF_DISTRIBUTIONS = ("distribution", "refused", "probabilistic", "packages")  # files with one of these in their names


def pytest_pycollect_makemodule(module_path, parent):
    module = ModuleOfTests.from_parent(parent, path=module_path)
    if torch is not None and any(subject in module_path.name for subject in _OF_DISTRIBUTIONS):
        module.add_marker(pytest.mark.usefixtures("torch_checks_distributions"))
    return module


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tens of thousands of tests stay to the end: collecting garbage need not go through them every time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells of a test only what it found, once: most tests take less time than the messages about them."""
    config = item.config
    wanted = any(config.getoption(name, None) is not None for name in ("durations", "xmlpath"))  # of the other phases
    if wanted or not hasattr(config, "workerinput"):
        return None  # all is told, as by default
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture
def torch_checks_distributions() -> Iterator[None]:
    """Where distributions are compared: importing Lightning, or compiling a model, turns torch's checks off."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    torch.distributions.Distribution.set_default_validate_args(before)
