"""Generators: seeds, states, threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.random import default_generator, in_place
from tests.outcomes import cases, compare_but_values
from tests.test_sampling import METHODS


@pytest.fixture(autouse=True)
def seeded():
    rg.manual_seed(1234)
    torch.manual_seed(1234)


DRAWS = [
    lambda g: rg.rand(3, generator=g),
    lambda g: rg.randn(3, generator=g),
    lambda g: rg.rand_like(rg.zeros(3), generator=g),
    lambda g: rg.randn_like(rg.zeros(3), generator=g),
    lambda g: rg.randint(1000, (3,), generator=g),
    lambda g: rg.randint_like(rg.zeros(3), 1000, generator=g),
    lambda g: rg.randperm(100, generator=g),
    lambda g: rg.normal(0.0, 1.0, (3,), generator=g),
    lambda g: rg.normal(rg.zeros(3), 1.0, generator=g),
    lambda g: rg.bernoulli(rg.full((100,), 0.5), generator=g),
    lambda g: rg.poisson(rg.full((100,), 5.0), g),
    lambda g: rg.binomial(rg.full((100,), 9.0), rg.full((100,), 0.5), g),
    lambda g: rg.multinomial(rg.ones(100), 5, generator=g),
    lambda g: rg.multinomial(rg.ones(100), 5, True, generator=g),
    *(
        lambda g, name=name, arguments=arguments: getattr(rg.zeros(100), name)(*arguments, generator=g)
        for name, arguments in METHODS.items()
    ),
]


@pytest.mark.parametrize("draw", DRAWS, ids=[str(k) for k in range(len(DRAWS))])
def test_same_seed_gives_the_same_numbers(draw):
    one, two = rg.Generator().manual_seed(7), rg.Generator().manual_seed(7)
    state = rg.get_rng_state().tolist()
    first, second = draw(one).tolist(), draw(one).tolist()
    assert draw(two).tolist() == first != second
    assert rg.get_rng_state().tolist() == state  # the default generator does not change
    rg.manual_seed(7)
    assert draw(None).tolist() == first
    assert draw(None).tolist() == second


def test_seeding_a_generator():
    g = rg.Generator()
    assert g.initial_seed() == torch.Generator().initial_seed()
    assert rg.rand(3, generator=g).tolist() == rg.rand(3, generator=rg.Generator()).tolist()
    assert g.manual_seed(3) is g
    assert g.initial_seed() == 3
    for given in (-3, -(2**63), 2**64 - 1, np.int64(5)):
        assert g.manual_seed(given).initial_seed() == torch.Generator().manual_seed(int(given)).initial_seed()
    assert g.seed() == g.initial_seed() != g.seed()
    assert rg.manual_seed(3.7) is rg.default_generator
    assert rg.initial_seed() == 3
    assert rg.seed() == rg.initial_seed()
    assert rg.manual_seed(rg.tensor(4)).initial_seed() == 4


@cases(
    lambda lib: lib.Generator().manual_seed(2**64),
    lambda lib: lib.Generator().manual_seed(-(2**63) - 1),
    lambda lib: lib.Generator().manual_seed(3.5),
    lambda lib: lib.Generator().manual_seed("a"),
    lambda lib: lib.manual_seed("a"),
    lambda lib: lib.manual_seed(None),
    lambda lib: lib.Generator("cuda"),
    lambda lib: lib.Generator("foo"),
    lambda lib: lib.Generator().set_state(lib.zeros(3)),
    lambda lib: lib.Generator().set_state(lib.zeros(3, dtype=lib.uint8)),
    lambda lib: lib.Generator().set_state([1]),
    lambda lib: str(lib.Generator().device),
    lambda lib: str(lib.Generator(device=None).device),
    lambda lib: str(lib.Generator(lib.device("cpu")).device),
    lambda lib: lib.set_rng_state(lib.get_rng_state().float()),
    lambda lib: lib.set_rng_state(lib.get_rng_state()),
    lambda lib: str(lib.get_rng_state().dtype)[-5:],
)
def test_invalid_generator_arguments_raise(call):
    compare_but_values(call)


def test_state_of_a_generator():
    g = rg.Generator().manual_seed(1)
    rg.rand(3, generator=g)  # three numbers of 32 bits: half of a 64-bit one is kept
    state, copy = g.get_state(), g.clone_state()
    expected = rg.rand(5, generator=g).tolist()
    assert rg.rand(5, generator=g).tolist() != expected
    assert rg.rand(5, generator=copy).tolist() == expected
    assert g.set_state(state) is g
    assert rg.rand(5, generator=g).tolist() == expected
    assert g.initial_seed() == copy.initial_seed() == 1
    before = g.get_state().tolist()
    state.fill_(0)  # a copy, not the state of the generator
    assert g.get_state().tolist() == before
    assert rg.Generator().set_state(rg.Generator().get_state()).initial_seed() == rg.Generator().initial_seed()


def test_fork_rng():
    expected = rg.rand(3, generator=rg.default_generator.clone_state()).tolist()
    with rg.random.fork_rng():
        rg.manual_seed(99)
        rg.rand(10)
    assert rg.rand(3).tolist() == expected
    with pytest.raises(KeyError), rg.random.fork_rng(devices=[]):
        rg.rand(10)
        state = rg.get_rng_state()
        raise KeyError
    assert rg.get_rng_state().tolist() != state.tolist()
    before = rg.get_rng_state().tolist()
    with rg.random.fork_rng(enabled=False):
        rg.rand(10)
    assert rg.get_rng_state().tolist() != before


def test_generators_are_independent():
    a, b = (rg.rand(20000, generator=rg.Generator().manual_seed(k), dtype=rg.float64).numpy() for k in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03
    assert not np.isin(a, b).any()


def test_threads_get_different_numbers():
    rg.manual_seed(5)
    drawn: list[np.ndarray] = []

    def work():
        drawn.extend(rg.rand(200, dtype=rg.float64).numpy() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(drawn)
    assert len(np.unique(together)) == len(together) == 8 * 50 * 200
    rg.manual_seed(5)
    assert np.array_equal(np.sort(together), np.sort(rg.rand(8 * 50 * 200, dtype=rg.float64).numpy()))


def test_state_is_consistent_while_threads_draw():
    stop = threading.Event()

    def work():
        while not stop.is_set():
            rg.rand(1000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(200):
            state = rg.get_rng_state()
            assert rg.Generator().set_state(state).get_state().tolist() == state.tolist()
            rg.manual_seed(3)
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_child_can_draw_while_its_parent_draws():
    rg.rand(1)  # makes NumPy's generator
    holding, ended = threading.Event(), threading.Event()

    def hold():
        with default_generator._lock, default_generator._numpy.bit_generator.lock:
            holding.set()
            ended.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        rg.manual_seed(0)
        rg.rand(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.set()
    thread.join()
    assert code == 0


def test_numbers_are_drawn_on_the_cpu_and_copied_to_other_devices(monkeypatch):
    """So the numbers are the same on every device."""
    rg.manual_seed(11)
    expected = [rg.zeros(4).normal_().tolist(), rg.zeros(4).bernoulli_(0.5).tolist()]
    copies = []

    def asarray(values):
        copies.append(values)
        return values

    monkeypatch.setattr(in_place, "module_of", lambda array: types.SimpleNamespace(asarray=asarray))
    rg.manual_seed(11)
    assert [rg.zeros(4).normal_().tolist(), rg.zeros(4).bernoulli_(0.5).tolist()] == expected
    assert len(copies) == 1  # functions that fill an array write into it directly


def test_import_does_not_load_numpy_random():
    import subprocess

    code = (
        "import sys, numpy; before = set(sys.modules); import retrograd.random; "
        "print('numpy.random' in set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
