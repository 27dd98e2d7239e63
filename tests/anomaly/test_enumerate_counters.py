"""A batch that comes twice has the same number in both runs, whatever stands between the loop and the loader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import retrograd as rg


def generated(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


class Bar:
    """A progress bar: it takes the length of its batches, and counts."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        for count, each in enumerate(self.batches):
            self.count = count
            yield each


class Iterating:
    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = iter(batches)

    def __iter__(self) -> Iterating:
        return self

    def __next__(self) -> Any:
        return next(self.batches)


WRAPPED: dict[str, Callable[[Any], Iterable[Any]]] = {
    "itself": lambda batches: batches,
    "a generator": generated,
    "an iterator of the program's own": Iterating,
    "a progress bar": Bar,
    "several": lambda batches: generated(Bar(Iterating(batches))),
    "zip": lambda batches: (each for each, _ in zip(batches, itertools.count(), strict=False)),
    "islice": lambda batches: itertools.islice(batches, 5),
    "map": lambda batches: map(float, batches),
}


def step(x: float) -> None:
    leaf = rg.ones(1, requires_grad=True)
    (rg.log(leaf - 1) if x == 2 else leaf).sum().backward()


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("start", [0, 7, -1])
def test_a_batch_has_the_same_number_in_both_runs(wrapped: Callable[[Any], Iterable[Any]], start: int) -> None:
    seen = []
    with rg.anomaly.watch(policy="skip_step") as w:
        for number, x in enumerate(wrapped(w.steps([0, 1, 2, 3])), start):
            seen.append((number - start, x))
            step(x)
    assert seen == [(0, 0), (1, 1), (2, 2), (2, 2), (3, 3)]


def test_other_enumerations_are_not_set_back() -> None:
    """There are enumerations in loops around the step, and others that are not used at the moment."""
    waiting = enumerate([5, 6])
    assert next(waiting) == (0, 5)
    of_same = enumerate([7, 8])
    seen = []
    with rg.anomaly.watch(policy="skip_step") as w:
        for epoch, _ in enumerate(range(2)):
            for number, x in enumerate(w.steps([1, 2])):
                seen.append((epoch, number))
                step(x)
    assert seen == [(0, 0), (0, 1), (0, 1), (1, 0), (1, 1), (1, 1)]
    assert [*waiting, *of_same] == [(1, 6), (0, 7), (1, 8)]
