"""Errors of a device, which come to light where somebody waits for it: in the watch's looks, as a rule."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

import retrograd as rg
from retrograd.anomaly.adapters.torch.gradient_checks import device_check, gradients
from retrograd.anomaly.adapters.torch.gradient_checks.device_check import DeviceCheck
from retrograd.anomaly.adapters.torch.runtime.synchronization import waits
from retrograd.anomaly.report import Report
from retrograd.cli.again import Command
from retrograd.cli.session import run_watched
from tests.anomaly.torch.training import Net, batches, train

ERROR = torch.AcceleratorError if hasattr(torch, "AcceleratorError") else RuntimeError


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the device fail: what is read from now on is an error."""

    def read(*args: Any) -> Any:
        raise ERROR("CUDA error: device-side assert triggered")

    def fails() -> None:
        monkeypatch.setattr(Tensor, "item", read)
        monkeypatch.setattr(gradients, "item", read)
        monkeypatch.setattr(Tensor, "tolist", read)
        monkeypatch.setattr(Tensor, "__bool__", read)

    return fails


@pytest.mark.parametrize("lag", [0, 1])
def test_a_device_error_met_by_the_watch_gets_a_note(lag: int, fail: Callable[[], None]) -> None:
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    with pytest.raises(ERROR, match="device-side assert") as caught, rg.anomaly.watch(net, optimizer, lag=lag):
        train(net, optimizer, batches(2), fail)
    (note,) = caught.value.__notes__
    assert "An earlier operation failed on the device" in note
    assert "CUDA_LAUNCH_BLOCKING=1 " in note
    assert len(note.splitlines()) == 2
    assert rg.anomaly.current() is None


def test_a_device_error_gets_its_note_once(fail: Callable[[], None]) -> None:
    @waits
    def several(numbers: list[Tensor]) -> list[float]:
        return gradients.numbers_on(torch.device("cpu"), numbers)

    fail()
    with pytest.raises(ERROR) as caught:
        several([torch.ones(())])
    assert len(caught.value.__notes__) == 1


def test_other_errors_get_no_note() -> None:
    def fails(grad: Tensor) -> None:
        raise RuntimeError("CUDA is fine")

    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    net.first.weight.register_hook(fails)
    with pytest.raises(RuntimeError, match="CUDA is fine") as caught, rg.anomaly.watch(net, optimizer):
        train(net, optimizer, batches(1))
    assert not hasattr(caught.value, "__notes__")


def by_block(program: Callable[[], None], *args: Any) -> None:
    with rg.anomaly.watch(*args, lag=1):
        program()


def by_function(program: Callable[[], None], *args: Any) -> None:
    rg.anomaly.watch(*args, lag=1)(program)()


def by_generator(program: Callable[[], None], *args: Any) -> None:
    def steps() -> Iterator[None]:
        yield
        program()

    list(rg.anomaly.watch(*args, lag=1)(steps)())


def with_detector(program: Callable[[], None], *args: Any) -> None:
    with rg.anomaly.NaNDetector(args[0]):
        program()


@pytest.mark.parametrize("how", [by_block, by_function, by_generator, with_detector])
@pytest.mark.parametrize("raised", [ValueError, ERROR, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_program_comes_first(
    how: Callable[..., None], raised: type[BaseException], fail: Callable[[], None]
) -> None:
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)

    def program() -> None:
        train(net, optimizer, batches(1))
        fail()
        raise raised("CUDA error: the program's own")

    with pytest.raises(raised, match="the program's own"):
        how(program, net, optimizer)
    assert rg.anomaly.current() is None


def test_an_error_of_a_script_comes_first(fail: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.ones(2, requires_grad=True)

    def program() -> None:
        torch.autograd.grad(torch.sqrt(weight - 1).sum(), weight)  # of whose leaf it is seen at the end what it became
        fail()
        raise ValueError("the program's own")

    assert run_watched(program, "raise", Report(None), Command({}, 1, ["script.py"])) == 1
    assert "ValueError: the program's own" in capsys.readouterr().err


def test_memory_that_a_device_may_write_to_is_not_freed(fail: Callable[[], None]) -> None:
    """That would abort the process if the device has failed."""
    look = DeviceCheck([torch.ones(17)], [torch.ones(1)] * 17, []).sent()
    memory = weakref.ref(look._landing.here)
    fail()
    with pytest.raises(ERROR):
        look.read()
    del look
    gc.collect()
    assert memory() is not None
    assert all(each.here is not memory() for kept in device_check._free.values() for each in kept), (
        "the copy may be under way"
    )


def test_memory_of_a_check_is_reused() -> None:
    made = DeviceCheck([torch.ones(1)], [torch.ones(1)] * 23, [])
    look = made.sent()
    memory = look._landing.here
    assert made.sent()._landing.here is not memory
    look.read()
    assert made.sent()._landing.here is memory
