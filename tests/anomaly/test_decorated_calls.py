"""Generators, coroutines and asynchronous generators under ``expect_nonfinite`` and a watch, for either library."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, Watch, adapters, expect_nonfinite

Decorator = Callable[[Any], Any]
MEANT = "a test"


@pytest.fixture(params=[rg, torch], ids=["retrograd", "torch"])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return request.param  # type: ignore[no-any-return]


def step(lib: ModuleType) -> None:
    """One that has a bad loss."""
    lib.log(lib.tensor([1.0, 0.0], requires_grad=True)).sum().backward()


def kinds(lib: ModuleType, decorated: Decorator) -> dict[str, Callable[[Callable[[], None]], Any]]:
    """Functions of two bad steps each, and how they are run to the end; between the steps something else is called."""

    @decorated
    def plain(between: Callable[[], None]) -> str:
        step(lib)
        step(lib)
        return "done"

    @decorated
    def generator(name: str) -> Generator[str, str, str]:
        step(lib)
        given = yield name
        step(lib)
        return given

    @decorated
    async def coroutine(name: str) -> str:
        step(lib)
        await asyncio.sleep(0)
        step(lib)
        return name

    @decorated
    async def asynchronous(name: str) -> AsyncIterator[str]:
        step(lib)
        yield name
        await asyncio.sleep(0)
        step(lib)

    def run_generator(between: Callable[[], None]) -> str:
        running = generator("begun")
        assert next(running) == "begun"
        between()
        with pytest.raises(StopIteration, match="done"):
            running.send("done")
        return "done"

    async def run_coroutine(between: Callable[[], None]) -> str:
        async def other() -> None:
            between()

        done, _ = await asyncio.gather(coroutine("done"), other())
        return done  # type: ignore[no-any-return]

    async def run_asynchronous(between: Callable[[], None]) -> str:
        names = []
        async for name in asynchronous("done"):
            names.append(name)
            between()
        return names[-1]

    assert inspect.isgeneratorfunction(generator)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isasyncgenfunction(asynchronous)
    return {
        "plain": plain,
        "generator": run_generator,
        "coroutine": lambda between: asyncio.run(run_coroutine(between)),
        "asynchronous generator": lambda between: asyncio.run(run_asynchronous(between)),
    }


KINDS = ["plain", "generator", "coroutine", "asynchronous generator"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_decorated_function_of_each_kind_expects_its_births(lib: ModuleType, kind: str) -> None:
    run = kinds(lib, expect_nonfinite(MEANT))[kind]
    with rg.anomaly.watch(policy="record") as w:
        assert run(lambda: None) == "done"
    assert w.events == ()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_birth_outside_a_suspended_function_is_not_expected(lib: ModuleType, kind: str) -> None:
    run = kinds(lib, expect_nonfinite(MEANT))[kind]
    with rg.anomaly.watch(policy="record") as w:
        run(lambda: step(lib))
    assert [event.function for event in w.events] == ["step"]


def test_a_block_does_not_expect_births_of_another_task(lib: ModuleType) -> None:
    async def meant() -> None:
        with expect_nonfinite(MEANT):
            await asyncio.sleep(0)
            step(lib)

    async def other() -> None:
        step(lib)

    async def both() -> None:
        await asyncio.gather(meant(), other())

    with rg.anomaly.watch(policy="record") as w:
        asyncio.run(both())
    assert len(w.events) == 1


def test_a_block_closed_by_another_task_ends() -> None:
    """The event loop does this to an asynchronous generator that the program has not closed."""
    block = expect_nonfinite(MEANT)

    async def call(method: Callable[[], object]) -> None:
        method()

    asyncio.run(call(block.__enter__))
    asyncio.run(call(block.__exit__))
    with rg.anomaly.watch(policy="record") as w:
        asyncio.run(call(lambda: step(rg)))
        block.__exit__()
        step(rg)
    assert len(w.events) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_decorated_function_of_each_kind_is_watched_to_its_end(lib: ModuleType, kind: str) -> None:
    w = Watch(policy="record")
    run = kinds(lib, w)[kind]
    assert run(lambda: None) == "done"
    assert len(w.events) == w.step == 2
    assert rg.anomaly.current() is None


def test_overlapping_coroutines_share_one_watch(lib: ModuleType) -> None:
    w = Watch(policy="record")

    @w
    async def steps(count: int) -> None:
        for _ in range(count):
            step(lib)
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(steps(1), steps(4))

    asyncio.run(both())
    assert len(w.events) == 5
    assert rg.anomaly.current() is None


def test_threads_that_call_at_once_share_one_watch(lib: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    w = rg.anomaly.watch(policy="record")

    def adapters_for(watch: Watch) -> list[Any]:
        time.sleep(0.05)  # so that all are on their way before the first one is done
        return made(watch)

    made = adapters.adapters_for
    monkeypatch.setattr(adapters, "adapters_for", adapters_for)
    barrier = threading.Barrier(3)

    @w
    def call() -> None:
        step(lib)

    def run() -> None:
        barrier.wait(10)
        call()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(w.events) == 3
    assert rg.anomaly.current() is None


def test_an_error_in_a_generator_gets_a_note(lib: ModuleType) -> None:
    w = Watch()

    @w
    def steps() -> Iterator[int]:
        yield 1
        loss = lib.log(lib.tensor([0.0], requires_grad=True)).sum()
        raise FloatingPointError(f"the loss is {loss.item()}")

    with pytest.raises(FloatingPointError) as caught:
        list(steps())
    assert "log" in caught.value.__notes__[0]
    assert rg.anomaly.current() is None


def test_a_generator_closed_in_a_bad_step_raises(lib: ModuleType) -> None:
    w = Watch()

    @w
    def losses() -> Iterator[Any]:
        for x in w.steps([lib.tensor([1.0]), lib.tensor([0.0])]):
            loss = lib.log(x * lib.tensor([1.0], requires_grad=True)).sum()
            loss.backward()
            yield loss

    running = losses()
    next(running)
    next(running)
    with pytest.raises(AnomalyError, match="log"):
        running.close()


def test_a_watched_function_within_the_block_of_its_watch_does_not_stop_it(lib: ModuleType) -> None:
    with Watch(policy="record") as w:
        w(step)(lib)
        step(lib)
        assert rg.anomaly.current() is w
    assert len(w.events) == 2


def test_detect_anomaly_follows_a_generator() -> None:
    @rg.autograd.detect_anomaly(check_nan=True)
    def gradients() -> Iterator[rg.Tensor]:
        x = rg.tensor([4.0, 0.0], requires_grad=True)
        yield x
        rg.where(x > 0, rg.sqrt(x), 0.0).sum().backward()

    running = gradients()
    x = next(running)
    rg.where(x > 0, rg.sqrt(x), 0.0).sum().backward()  # not in the mode
    with pytest.warns(UserWarning, match="SqrtBackward0"), pytest.raises(RuntimeError, match="SqrtBackward0"):
        next(running)


def test_a_traceback_ends_with_the_programs_own_line(lib: ModuleType) -> None:
    def block() -> None:
        with rg.anomaly.watch():
            step(lib)

    for watched in (block, rg.anomaly.watch()(lambda: step(lib))):
        with pytest.raises(AnomalyError) as caught:
            watched()
        *_, last = caught.traceback
        assert (str(last.path), last.name) == (__file__, "step")
