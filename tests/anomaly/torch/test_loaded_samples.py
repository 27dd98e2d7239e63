"""A bad sample of a batch is loaded once more, to find the operation of the data set that spoilt it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

import retrograd as rg
from retrograd.anomaly.event import NaNEvent

BLANK = 5  # the sample whose numbers are all the same


class Standardised(Dataset[Tensor]):
    """Samples that are standardised when they are loaded."""

    def __init__(self) -> None:
        self.x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
        self.x[BLANK] = 2.0
        self.loads = 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Tensor:
        self.loads += 1
        return self.load(self.x[index])

    def load(self, x: Tensor) -> Tensor:
        return (x - x.mean()) / x.std()


class InNumpy(Standardised):
    def load(self, x: Tensor) -> Tensor:
        array = x.numpy()
        array = (array - array.mean()) / array.std()
        return torch.from_numpy(array)


class BadOnce(Standardised):
    """As after a random augmentation, the sample is fine when it is loaded again."""

    def load(self, x: Tensor) -> Tensor:
        return torch.full((3,), torch.nan) if self.loads == BLANK + 1 else x


class Noisy(Standardised):
    def load(self, x: Tensor) -> Tensor:
        random.random()
        np.random.rand()
        return super().load(x) + 0.01 * torch.randn(3)


class Failing(Standardised):
    def load(self, x: Tensor) -> Tensor:
        if self.loads > len(self):
            raise OSError("the file has been closed")
        return super().load(x)


def found(data: Any, policy: str = "skip_step", **options: Any) -> list[NaNEvent]:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with rg.anomaly.watch(policy=policy) as w:
        w.rerun_loaders = True
        for batch in DataLoader(data, **options):
            (inputs,) = batch if isinstance(batch, list) else (batch,)
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
    return list(w.events)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_operation_of_the_data_set_is_found(workers: int, shuffle: bool) -> None:
    (event,) = found(Standardised(), batch_size=4, shuffle=shuffle, num_workers=workers)
    assert (event.op, event.code_line) == ("div", "return (x - x.mean()) / x.std()")
    assert event.operands == {"input": 0.0, "other": 0.0}
    assert "standard deviation is 0" in str(event.cause)
    assert f"sample {BLANK} of the data set" in str(event.note)


def test_samples_that_are_not_put_into_batches() -> None:
    (event,) = found(Standardised(), batch_size=None)
    assert event.op == "div"
    assert f"sample {BLANK} of the data set" in str(event.note)


def test_steps_of_a_watch_find_it_too() -> None:
    weight = torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        for batch in w.steps(DataLoader(Standardised(), batch_size=4)):
            (batch * weight).sum().backward()
    assert w.event is not None
    assert w.event.op == "div"


def test_a_sample_that_is_bad_in_the_data_itself_is_named() -> None:
    x = torch.ones(8, 3)
    x[6, 1] = torch.inf
    (event,) = found(TensorDataset(x), batch_size=4)
    assert event.kind == "leaf"
    assert "It is sample 6 of the data set" in str(event.note)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_the_line_where_numpy_made_it_is_named() -> None:
    (event,) = found(InNumpy(), batch_size=4)
    assert event.kind == "leaf"
    assert "NumPy met an invalid operation" in str(event.note)
    assert "`array = (array - array.mean()) / array.std()`" in str(event.note)


@pytest.mark.parametrize("data", [BadOnce(), Failing()], ids=["good again", "an error"])
def test_nothing_is_said_if_it_cannot_be_seen_again(data: Any) -> None:
    (event,) = found(data, batch_size=4)
    assert event.kind == "leaf"
    assert "of the data set" not in str(event.note)


def test_a_sample_is_loaded_once_more_and_good_ones_are_not() -> None:
    good, bad = Standardised(), Standardised()
    good.x[BLANK, 0] = 1.0
    assert found(good, batch_size=4) == []
    assert good.loads == len(good)
    assert len(found(bad, batch_size=4)) == 1
    assert bad.loads == len(bad) + 1


def test_random_numbers_are_given_back() -> None:
    drawn = []
    for policy in ("skip_step", "ignore"):
        random.seed(3)
        np.random.seed(3)
        found(Noisy(), policy, batch_size=4)
        drawn.append((random.random(), np.random.rand(), float(torch.rand(()))))
    assert drawn[0] == drawn[1]


def test_a_second_epoch_is_numbered_anew() -> None:
    data, weight = Standardised(), torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        w.rerun_loaders = True
        loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)
        for _ in range(2):
            for batch in loader:
                (batch * weight).sum().backward()
    assert [event.op for event in w.events] == ["div", "div"]


class Sequences(Standardised):
    """Samples of different lengths, the longest last."""

    def __getitem__(self, index: int) -> Tensor:
        return super().__getitem__(index).expand(index + 1, 3)


def longest_first(samples: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(sorted(samples, key=len, reverse=True), batch_first=True)


def test_a_sample_is_found_in_a_batch_that_was_sorted_and_padded() -> None:
    (event,) = found(Sequences(), batch_size=4, collate_fn=longest_first)
    assert (event.op, event.code_line) == ("div", "return (x - x.mean()) / x.std()")
    assert f"sample {BLANK} of the data set" in str(event.note)


def test_only_the_sample_of_its_row_is_loaded_where_torch_makes_the_batches() -> None:
    data = BadOnce()
    found(data, batch_size=8)
    assert data.loads == len(data) + 1


def rows_summed_to_one(x: np.ndarray) -> np.ndarray:
    return x / x.sum(1, keepdims=True)


@pytest.mark.parametrize("is_bad", [False, True])
def test_data_that_numpy_spoilt_before_the_training_are_traced_by_its_warning(is_bad: bool) -> None:
    numbers = np.ones((4, 3), dtype=np.float32)
    numbers[2] = 0
    weight = torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        with pytest.warns(RuntimeWarning, match="invalid value"):
            spoilt = torch.from_numpy(rows_summed_to_one(numbers))
        products = (spoilt if is_bad else torch.zeros(4, 3)) @ weight
        (products if is_bad else products.log()).sum().backward()
    (event,) = w.events
    assert event.kind == ("leaf" if is_bad else "divide")
    assert ("`return x / x.sum(1, keepdims=True)`" in str(event.note)) == is_bad
