"""Shared settings of the test suite."""

import gc
import importlib
import os
import pkgutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import given, settings
from hypothesis import strategies as st

# A thread without work is to sleep. By default it waits busily for its next piece, and takes a core from the other
# worker. The libraries read these variables when they are loaded, here and in the programs that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2 to the power of this, in cycles; the least possible

import retrograd.ops

try:
    import torch
except ModuleNotFoundError:
    if os.environ.get("RETROGRAD_CI"):
        raise  # in CI, torch must be there to compare with
    torch = None  # tests that need torch are skipped, so that the others run on a Python without it

if torch is not None and not torch.accelerator.is_available():
    # For each missing kind of device, torch.manual_seed() would record the stack, which is deep in a test.
    for module_with_seed in (torch.cuda.random, torch.xpu.random, torch.mtia):
        module_with_seed._lazy_call = lambda *arguments, **options: None

pytest.register_assert_rewrite("tests.parity", "tests.ops.harness", "tests.outcomes", "tests.distributions")

# Tests do not fail on slow machines. In CI, the examples are the same in every run.
settings.register_profile("default", deadline=None)
settings.register_profile("judge", deadline=None, derandomize=True)
settings.load_profile("judge" if os.environ.get("RETROGRAD_CI") else "default")


@settings(max_examples=1, derandomize=True, database=None)
@given(st.none())
def first_example(nothing: None) -> None:
    """Hypothesis asks once whether anything refers to its own generator of random numbers.

    Since Python 3.14, ``gc.get_referrers`` passes over what ``gc.freeze`` has taken out, so that it must ask before.
    """


# Some families of operations are imported on first use; import them now, so that tables of all operations are complete.
for module in pkgutil.walk_packages(retrograd.ops.__path__, "retrograd.ops."):
    importlib.import_module(module.name)


class ModuleOfTests(pytest.Module):
    """A file of tests, skipped if it needs torch (directly or through another import) and torch is not installed."""

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
    """Keep the garbage collector from traversing tens of thousands of collected tests every time."""
    gc.disable()
    try:
        return (yield)
    finally:
        first_example()
        keep_what_there_is()
        gc.enable()


def keep_what_there_is() -> None:
    """Take what is alive now out of what the garbage collector searches, and second runs of steps for iterators."""
    gc.collect()
    gc.freeze()


file_under_way: Path | None = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that share a long run of mypy first. At the end, both workers would take some and run it."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/typed/"))


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Make workers send one report per test, because for most tests the messages take longer than the test."""
    global file_under_way
    if item.path != file_under_way:
        file_under_way = item.path
        keep_what_there_is()  # tests of the file before have imported large packages
    config = item.config
    wanted = any(
        config.getoption(name, None) is not None for name in ("durations", "xmlpath")
    )  # needs the reports of all phases
    if wanted or not hasattr(config, "workerinput"):
        return None  # send all reports, the default
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            if report.passed:
                report.keywords = {}  # half of the message, and only reports of skipped tests need them
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture
def torch_checks_distributions() -> Iterator[None]:
    """Turn on torch's checks of distributions, which importing Lightning or compiling a model turns off."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    torch.distributions.Distribution.set_default_validate_args(before)
