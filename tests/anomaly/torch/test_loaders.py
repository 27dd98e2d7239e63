"""Loops over a DataLoader run a tripped batch again without being asked to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import retrograd as rg


def watch(policy: str = "skip_step") -> Any:
    w = rg.anomaly.watch(policy=policy)
    w.rerun_loaders = True
    return w


def fail_at(number: int, x: Tensor, seen: list[Any]) -> None:
    leaf = torch.ones(1, requires_grad=True)
    (torch.log(leaf - 1) if int(x[0]) == number else leaf).sum().backward()


DATA = torch.arange(4).unsqueeze(1)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_batch_of_a_loader_comes_twice(workers: int) -> None:
    loader = DataLoader(DATA, num_workers=workers)
    seen = []
    with watch() as w:
        for x in loader:
            seen.append(int(x))
            fail_at(2, x[0], seen)
    assert seen == [0, 1, 2, 2, 3]
    assert w.event.reproducible
    assert w.event.batch_idx == 2
    assert [int(x) for x in loader] == [0, 1, 2, 3]


def one_ahead(batches: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield batches as a loader does that copies the next one to a GPU during the step."""
    present = None
    for following in batches:
        if present is not None:
            yield present
        present = following.clone()
    assert present is not None
    yield present


def test_no_step_is_run_again_if_batches_are_fetched_ahead() -> None:
    """The batch that would come twice is another one than that of the step."""
    seen = []
    with watch() as w:
        for _ in range(2):
            for x in one_ahead(DataLoader(DATA)):
                seen.append(int(x))
                fail_at(2, x[0], seen)
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [(event.op, event.step, event.reproducible) for event in w.events] == [("log", 3, None), ("log", 7, None)]


def test_two_loaders_side_by_side_are_repeated_together() -> None:
    seen = []
    with watch():
        for x, y in zip(DataLoader(DATA), DataLoader(DATA + 10), strict=True):
            seen.append((int(x), int(y)))
            fail_at(1, x[0], seen)
    assert seen == [(0, 10), (1, 11), (1, 11), (2, 12), (3, 13)]


def test_a_loader_within_the_step_of_another_starts_again() -> None:
    seen = []
    with watch():
        for x in DataLoader(DATA[:2]):
            for y in DataLoader(DATA[2:]):
                seen.append((int(x), int(y)))
            fail_at(0, x[0], seen)
    assert seen == [(0, 2), (0, 3), (0, 2), (0, 3), (1, 2), (1, 3)]


def test_the_iterator_has_the_attributes_of_the_loaders_own() -> None:
    with watch():
        iterator = iter(DataLoader(DATA))
        assert len(iterator) == 4
        assert int(next(iterator)) == 0
        assert iterator._num_yielded == 1  # type: ignore[attr-defined]


def test_loops_without_gradients_are_not_repeated() -> None:
    loader = DataLoader(DATA)
    with watch(), torch.no_grad():
        assert type(iter(loader)).__module__ == "torch.utils.data.dataloader"


def test_a_plain_watch_does_not_repeat_batches_of_loaders() -> None:
    with rg.anomaly.watch():
        assert type(iter(DataLoader(DATA))).__module__ == "torch.utils.data.dataloader"
