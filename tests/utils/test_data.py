"""Data sets, samplers and batches; compared with torch where nothing is random."""

from __future__ import annotations

import array
import collections
import importlib
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def data_of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.data")


def stream_of(t: Any, length: int | None = 7) -> Any:
    """Return an iterable data set of numbers."""

    class Stream(data_of(t).IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter(range(7))

    class SizedStream(Stream):
        def __len__(self) -> int:
            return 7

    return Stream() if length is None else SizedStream()


class Point(NamedTuple):
    x: Any
    y: Any


@parity
def test_datasets_agree_with_torch(t: Any) -> Any:
    d = data_of(t)
    tensors = d.TensorDataset(t.arange(6).reshape(3, 2), t.tensor([0.5, 1.5, 2.5]))
    both = tensors + d.Subset(tensors, [2, 0])
    stacked, named = d.StackDataset([1, 2], "ab"), d.StackDataset(x=[1, 2], y="ab")
    chain = stream_of(t) + stream_of(t)
    return [
        [len(x) for x in (tensors, both, stacked, named, chain)],
        [tensors[1], tensors[-1], both[0], both[3], both[-1], both[4], stacked[1], named[0], list(chain)],
        [d.Subset(range(10), [3, 1, 4])[i] for i in range(3)],
        d.Subset(tensors, [2, 0]).__getitems__([1, 0]),
        d.Subset(tensors, [2, 0])[[1, 0]],
        [
            attempt(call)
            for call in (
                lambda: both[5],
                lambda: both[-6],
                lambda: d.TensorDataset(t.ones(2), t.ones(3)),
                lambda: d.ConcatDataset([]),
                lambda: d.ConcatDataset([stream_of(t)]),
                lambda: d.StackDataset(),
                lambda: d.StackDataset([1], x=[1]),
                lambda: d.StackDataset([1], [1, 2]),
                lambda: d.Dataset()[0],
                lambda: list(d.ChainDataset([[1]])),
            )
        ],
    ]


@parity
def test_random_split(t: Any) -> Any:
    d = data_of(t)

    def sizes(length: int, lengths: Any) -> Any:
        parts = d.random_split(range(length), lengths)
        assert sorted(sample for part in parts for sample in part) == list(range(length))
        return [len(part) for part in parts]

    return [
        sizes(10, [7, 3]),
        sizes(10, [0.7, 0.3]),
        sizes(11, [0.5, 0.25, 0.25]),
        sizes(3, [0.1] * 10),
        attempt(lambda: sizes(10, [7, 2])),
        attempt(lambda: sizes(10, [1.5, -0.5])),
    ]


@parity
def test_loaders_that_keep_their_workers(t: Any) -> Any:
    """Two subclasses in many training scripts: the sampler is repeated for ever, and one iterator goes on with it."""
    data = t.utils.data

    class Repeated:
        def __init__(self, sampler: Any) -> None:
            self.sampler = sampler

        def __iter__(self) -> Any:
            while True:
                yield from self.sampler

    class Kept(data.DataLoader):  # type: ignore[misc]
        def __init__(self, *args: Any, quietly: bool, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if quietly:
                object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
            else:
                self._DataLoader__initialized = False
                self.batch_sampler = Repeated(self.batch_sampler)
                self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __iter__(self) -> Any:
            for _ in range(len(self.batch_sampler.sampler)):
                yield next(self.iterator)

    report = []
    for quietly in (True, False):
        loader = Kept(data.TensorDataset(t.arange(5)), batch_size=2, quietly=quietly)
        report.append([[x.tolist() for (x,) in loader] for _ in range(3)])
        report.append(attempt(lambda loader=loader: setattr(loader, "batch_size", 3)))
    return report


@parity
def test_samplers_agree_with_torch(t: Any) -> Any:
    d = data_of(t)
    generator = t.Generator().manual_seed(0)
    random = d.RandomSampler(range(5), generator=generator)
    first, second = list(random), list(random)
    longer = list(d.RandomSampler(range(5), num_samples=12))
    repeated = list(d.RandomSampler(range(5), replacement=True, num_samples=200))
    weighted = list(d.WeightedRandomSampler([0.0, 1.0, 3.0], 2000))
    unrepeated = list(d.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False))
    return [
        list(d.SequentialSampler("abc")),
        sorted(first) == sorted(second) == list(range(5)),
        [sorted(longer[:5]), sorted(longer[5:10]), len(longer), len(d.RandomSampler(range(5), num_samples=12))],
        [set(repeated) == set(range(5)), len(repeated)],
        [set(weighted), 0.6 < weighted.count(2) / 2000 < 0.9, sorted(unrepeated)],
        sorted(d.SubsetRandomSampler([4, 7, 9])),
        [list(d.BatchSampler(range(n), 3, drop)) for n in (0, 3, 7) for drop in (False, True)],
        [len(d.BatchSampler(range(n), 3, drop)) for n in (0, 3, 7) for drop in (False, True)],
        [
            attempt(call)
            for call in (
                lambda: d.RandomSampler([1], replacement=1),
                lambda: d.RandomSampler([1], num_samples=0),
                lambda: d.WeightedRandomSampler([1.0], 0),
                lambda: d.WeightedRandomSampler([1.0], 1, replacement=0),
                lambda: d.WeightedRandomSampler([[1.0]], 1),
                lambda: d.BatchSampler([1], 0, False),
                lambda: d.BatchSampler([1], True, False),
                lambda: d.BatchSampler([1], 1, 0),
            )
        ],
    ]


def test_seed_determines_the_order() -> None:
    def order(seed: int) -> list[int]:
        return list(rg.utils.data.RandomSampler(range(50), generator=rg.Generator().manual_seed(seed)))

    assert order(3) == order(3) != order(4)
    rg.manual_seed(0)
    first = [batch.tolist() for batch in rg.utils.data.DataLoader(range(20), 4, shuffle=True)]
    rg.manual_seed(0)
    assert [batch.tolist() for batch in rg.utils.data.DataLoader(range(20), 4, shuffle=True)] == first
    assert [batch.tolist() for batch in rg.utils.data.DataLoader(range(20), 4, shuffle=True)] != first


BATCHES: list[Any] = [
    lambda t: [t.ones(2), t.zeros(2)],
    lambda t: [1, 2, 3],
    lambda t: [True, False],
    lambda t: [1.5, 2.0],
    lambda t: [1, 2.5],
    lambda t: ["a", "b"],
    lambda t: [b"a", b"b"],
    lambda t: [np.arange(2), np.arange(2)],
    lambda t: [np.float32(1), np.float32(2)],
    lambda t: [np.float64(1), np.float64(2)],
    lambda t: [np.int16(1), np.int16(2)],
    lambda t: [np.array(1.5), np.array(2.5)],
    lambda t: [(t.ones(1), 1, "x"), (t.zeros(1), 2, "y")],
    lambda t: [[1, 2], [3, 4]],
    lambda t: [Point(1, t.ones(2)), Point(3, t.zeros(2))],
    lambda t: [{"x": 1, "y": [1.0, 2.0]}, {"x": 2, "y": [3.0, 4.0]}],
    lambda t: [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    lambda t: [range(2), range(2)],
    lambda t: [t.ones(2), t.ones(3)],
    lambda t: [[1], [1, 2]],
    lambda t: [np.array(["a"]), np.array(["b"])],
    lambda t: [{1}, {2}],
    lambda t: [None, None],
    lambda t: list(np.array(["a", "b"])),
    lambda t: [(word, 1) for word in np.array(["a", "b"])],
    lambda t: [np.datetime64("2024-01-01"), np.datetime64("2024-01-02")],
    lambda t: [np.float32(1.5), 2],
    lambda t: [np.int64(1), 2.5],
]


@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_collate(number: int) -> None:
    def program(t: Any) -> Any:
        batch = BATCHES[number](t)
        collated = attempt(lambda: data_of(t).default_collate(batch))
        converted = data_of(t).default_convert(batch) if number not in (20, 21, 25) else None
        kinds = [type(item).__name__ for item in (converted or ())]
        return [type(collated).__name__, collated, converted, kinds]

    parity(program)()


def test_error_about_samples_of_different_shapes() -> None:
    d = rg.utils.data
    text = message(lambda: d.default_collate([rg.ones(2), rg.ones(2), rg.ones(3)]))
    assert text == "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 2"
    assert "found <class 'set'>; pass the DataLoader your own collate_fn" in message(lambda: d.default_collate([{1}]))


@parity
def test_loaders_agree_with_torch(t: Any) -> Any:
    d = data_of(t)
    tensors = d.TensorDataset(t.arange(14.0).reshape(7, 2), t.arange(7))
    options: list[dict[str, Any]] = [
        {},
        {"batch_size": 3},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 2, "sampler": [4, 1, 5]},
        {"batch_sampler": [[0, 1, 2], [6]]},
        {"batch_size": 4, "collate_fn": len},
        {"batch_size": None, "sampler": [[1, 2], [3]]},
    ]
    report: list[Any] = []
    for chosen in options:
        loader = d.DataLoader(tensors, **chosen)
        report.append([len(loader), list(loader), list(loader)])
    for chosen in options[:4]:
        loader = d.DataLoader(stream_of(t), **chosen)
        report.append([len(loader), list(loader)])
    shuffled = d.DataLoader(tensors, batch_size=2, shuffle=True)
    report.append([len(shuffled), sorted(i for _, labels in shuffled for i in labels.tolist())])
    report.append(attempt(lambda: len(d.DataLoader(stream_of(t, None)))))
    return report


@parity
def test_loaders_refuse_wrong_arguments(t: Any) -> Any:
    def make(*args: Any, **options: Any) -> Any:
        return attempt(lambda: data_of(t).DataLoader(*args, **options) and None)

    return [
        make([1], shuffle=True, sampler=[0]),
        make([1], batch_sampler=[[0]], batch_size=2),
        make([1], batch_sampler=[[0]], shuffle=True),
        make([1], batch_sampler=[[0]], drop_last=True),
        make([1], batch_size=None, drop_last=True),
        make([1], batch_size=0),
        make([1], num_workers=-1),
        make([1], timeout=-1),
        make([1], prefetch_factor=2),
        make([1], num_workers=1, prefetch_factor=-1),
        make([1], persistent_workers=True),
        make([1], multiprocessing_context="fork"),
        make(stream_of(t), shuffle=True),
        make(stream_of(t), sampler=[1]),
        make(stream_of(t), batch_sampler=[[1]]),
        make([1], batch_size=2, shuffle=True),
        make([1], num_workers=1, multiprocessing_context="thread"),
        make([1], num_workers=1, multiprocessing_context=3),
    ]


@parity
def test_multiprocessing_context_of_a_loader(t: Any) -> Any:
    loader = data_of(t).DataLoader([1], num_workers=1, multiprocessing_context="spawn")
    report = [loader.multiprocessing_context.get_start_method()]
    loader.multiprocessing_context = "fork"
    report.append(loader.multiprocessing_context.get_start_method())
    report.append(attempt(lambda: setattr(loader, "multiprocessing_context", "thread")))
    loader.multiprocessing_context = None
    return [*report, loader.multiprocessing_context]


@parity
def test_loader_attributes_are_annotated(t: Any) -> Any:
    d = data_of(t)
    return [str(d.DataLoader[int]).split(".")[-1], str(d.Dataset[int]).split(".")[-1]]


@parity
def test_subset_takes_a_tensor_of_indices(t: Any) -> Any:
    d = data_of(t)
    data = d.TensorDataset(t.arange(10.0), t.arange(10))
    some = d.Subset(data, t.tensor([7, 2, 5]))
    return [some[1], list(d.DataLoader(some, batch_size=2)), list(d.DataLoader(data, sampler=t.tensor([3, 1])))]


def test_tensor_dataset_refuses_other_values() -> None:
    d = data_of(rg)
    with pytest.raises(TypeError, match=r"but argument 1 is a list: convert it to a tensor, or .* StackDataset"):
        d.TensorDataset(rg.ones(2), [1, 2])
    (batch,) = d.DataLoader(d.TensorDataset(np.arange(3), rg.arange(3)), batch_size=3)
    assert [part.tolist() for part in batch] == [[0, 1, 2], [0, 1, 2]]


@parity
def test_dataset_can_end_an_epoch(t: Any) -> Any:
    d = data_of(t)

    class Short(d.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> int:
            if index == 2:
                raise StopIteration
            return index

    return list(d.DataLoader(Short()))


@parity
def test_sampler_with_a_very_large_number_of_samples(t: Any) -> Any:
    d = data_of(t)
    endless = d.RandomSampler(range(3), replacement=True, num_samples=10**10)
    batches = iter(d.DataLoader(range(3), batch_size=500, sampler=endless))
    drawn = t.cat([next(batches) for _ in range(5)])
    exact = d.RandomSampler(range(3), replacement=True, num_samples=2001)
    return [drawn.shape, drawn.unique(), len(endless), len(list(exact))]


@parity
def test_numbers_drawn_during_an_epoch_do_not_change_the_order(t: Any) -> Any:
    d = data_of(t)

    def order(sampler: Any, disturb: bool) -> list[int]:
        t.manual_seed(0)
        seen = []
        for index in sampler:
            seen.append(index)
            if disturb:
                t.rand(3)
        return seen

    samplers = [d.RandomSampler(range(5), n > 12, num_samples=n) for n in (12, 3000)]
    return [order(sampler, False) == order(sampler, True) for sampler in samplers]


@parity
def test_sampler_draws_when_iteration_starts(t: Any) -> Any:
    d = data_of(t)
    report = []
    for sampler in (
        d.RandomSampler(range(50)),
        d.RandomSampler(range(50), replacement=True),
        d.WeightedRandomSampler([1.0, 2.0, 3.0], 50),
        d.SubsetRandomSampler(range(50)),
    ):
        t.manual_seed(0)
        first = list(sampler)
        late = iter(sampler)
        t.manual_seed(0)
        report.append(list(late) == first)
    return report


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_distributed_sampler_agrees_with_torch(count: int, drop_last: bool) -> None:
    @parity
    def shares(t: Any) -> Any:
        make = t.utils.data.DistributedSampler
        samplers = [make(range(count), 3, rank, shuffle=False, drop_last=drop_last) for rank in range(3)]
        return [[len(sampler), list(sampler)] for sampler in samplers]

    shares()


def test_random_distributed_shares_depend_on_the_epoch_and_cover_everything() -> None:
    def drawn(epoch: int) -> list[list[int]]:
        samplers = [rg.utils.data.DistributedSampler(range(10), 2, rank, seed=3) for rank in range(2)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [list(sampler) for sampler in samplers]

    assert drawn(0) == drawn(0) != drawn(1)
    assert sorted(index for share in drawn(1) for index in share) == list(range(10))


def test_distributed_sampler_of_one_process_gives_all_indices() -> None:
    assert list(rg.utils.data.DistributedSampler(range(4), shuffle=False)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1\]"):
        rg.utils.data.DistributedSampler(range(4), num_replicas=2, rank=2)


@parity
def test_reassigning_the_attributes_of_a_loader(t: Any) -> Any:
    loader = data_of(t).DataLoader(range(4), batch_size=2)
    loader.worker_init_fn = print
    names = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "num_workers")
    return [attempt(lambda name=name: setattr(loader, name, 3)) for name in names] + [loader.batch_size]


@parity
def test_batch_size_of_iterable_datasets(t: Any) -> Any:
    load = data_of(t).DataLoader
    report = [attempt(lambda size=size: load(stream_of(t), batch_size=size)) for size in (-1, 0, 2.5)]
    single, batched = load(stream_of(t), batch_size=None), load(stream_of(t), batch_size=3)
    kinds = [type(sampler).__name__ for sampler in (single.sampler, single.batch_sampler, batched.batch_sampler)]
    return [*report, kinds, list(single), list(batched)]


@parity
def test_stack_dataset_fetches_several_samples_at_once(t: Any) -> Any:
    d = data_of(t)
    asked = []

    class Bulk(d.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return 10 * index

        def __getitems__(self, indices: list[int]) -> list[int]:
            asked.append(indices)
            return [10 * index for index in indices if index < 2]

    both, named = d.StackDataset(Bulk(), range(3)), d.StackDataset(a=Bulk(), b=range(3))
    report = [both.__getitems__([1, 0]), named.__getitems__([1, 0]), attempt(lambda: both.__getitems__([0, 2]))]
    return [*report, list(d.DataLoader(both, batch_size=2, sampler=[0, 1])), asked]


@parity
def test_random_sampler_of_an_empty_dataset(t: Any) -> Any:
    d = data_of(t)
    return [
        attempt(lambda: d.RandomSampler([])),
        attempt(lambda: d.RandomSampler([], replacement=True)),
        attempt(lambda: d.DataLoader([], shuffle=True)),
    ]


@pytest.mark.parametrize("t", [torch, rg])
def test_empty_part_of_a_random_split_warns(t: Any) -> None:
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        parts = data_of(t).random_split(range(3), [0.9, 0.1])
    assert [len(part) for part in parts] == [3, 0]


@parity
def test_collating_strings_in_named_tuples(t: Any) -> Any:
    collate = data_of(t).default_collate
    return [type(collate([Point("a", 1), Point("b", 2)]).x).__name__, type(collate([("a", 1), ("b", 2)])[0]).__name__]


class Pair(tuple[int, int]):
    """A user-defined tuple without field names."""


@parity
def test_collating_unnamed_tuples_gives_lists(t: Any) -> Any:
    d, pairs = data_of(t), [Pair((1, 2)), Pair((3, 4))]
    return [type(made).__name__ for made in (d.default_collate(pairs), d.default_convert(pairs[0]))]


class Tokens(list[int]):
    """A list that cannot be constructed from its items alone."""

    def __init__(self, items: list[int], source: str) -> None:
        super().__init__(items)
        self.source = source


@parity
def test_collating_keeps_container_classes(t: Any) -> Any:
    d = data_of(t)
    report: list[Any] = []
    for samples in (
        [Tokens([1, 2], "first"), Tokens([3, 4], "second")],
        [types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})],
    ):
        for made in (d.default_collate(samples), d.default_convert(samples[0])):
            content = dict(made) if hasattr(made, "keys") else list(made)
            report.append([type(made).__name__, content, getattr(made, "source", "")])
        report.append(samples[0] if isinstance(samples[0], list) else dict(samples[0]))  # nobody writes to it
    return report


def test_collating_counters() -> None:
    made = rg.utils.data.default_collate([collections.Counter("aab"), collections.Counter("abb")])
    assert {key: value.tolist() for key, value in made.items()} == {"a": [2, 1], "b": [1, 2]}


def test_collating_python_arrays_pairs_their_items() -> None:
    made = rg.utils.data.default_collate([array.array("d", [1.5, 2.0])])
    assert [value.tolist() for value in made] == [[1.5], [2.0]]


@parity
def test_collating_tensors_with_other_values(t: Any) -> Any:
    collate = data_of(t).default_collate
    return [attempt(lambda: collate([t.tensor(3), 1.5])), attempt(lambda: collate([t.ones(2), "a"]))]


@pytest.mark.parametrize("given", [3, None, iter([1]), rg.nn.ReLU()])
def test_loader_refuses_what_is_not_a_dataset(given: Any) -> None:
    with pytest.raises(
        TypeError, match=r"dataset must be indexable by sample number, like a Dataset or a list, but got"
    ) as told:
        rg.utils.data.DataLoader(given)
    assert ("IterableDataset" in str(told.value)) == hasattr(given, "__iter__")
