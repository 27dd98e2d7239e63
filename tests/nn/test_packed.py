"""Packed sequences, and recurrent layers that take them, compared with torch."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.nn.utils import rnn
from tests.nn.twins import close, flat, twins
from tests.parity import attempt, parity

LENGTHS = [[4, 2, 2, 1], [3, 3], [5], [1, 3, 2, 3]]  # the last list is not sorted


def utils(m: Any) -> Any:
    return importlib.import_module(f"{m.__name__}.nn.utils.rnn")


def x(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# --- packing ----------------------------------------------------------------------------------------------------------


@parity
def test_packing_and_padding_agree_with_torch(m: Any) -> Any:
    u, report = utils(m), []
    for lengths in LENGTHS:
        for batch_first in (False, True):
            count, longest = len(lengths), max(lengths)
            shape = (count, longest, 2) if batch_first else (longest, count, 2)
            padded = m.arange(float(np.prod(shape))).reshape(shape)
            packed = u.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
            report += [packed, u.pad_packed_sequence(packed, batch_first), u.unpack_sequence(packed)]
            report.append(u.pad_packed_sequence(packed, not batch_first, padding_value=-1.5, total_length=longest + 2))
    return report


@parity
def test_packing_sorted_sequences_keeps_their_order(m: Any) -> Any:
    u = utils(m)
    sequences = [m.arange(3), m.arange(3) + 10, m.arange(1) + 20]
    packed = u.pack_sequence(sequences)
    two = u.pack_padded_sequence(m.ones(2, 3), m.tensor([2, 2, 1], dtype=m.int32))
    return [packed, u.unpack_sequence(packed), two, u.pack_sequence(sequences[::-1], enforce_sorted=False)]


@parity
def test_gradients_through_packing(m: Any) -> Any:
    u = utils(m)
    padded = m.arange(18.0).reshape(3, 3, 2).requires_grad_()
    packed = u.pack_padded_sequence(padded, [2, 3, 1], enforce_sorted=False)
    (packed.data * m.arange(12.0).reshape(6, 2)).sum().backward()
    again, _ = u.pad_packed_sequence(packed._replace(data=packed.data.detach().requires_grad_()), padding_value=7.0)
    sequences = [m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)]
    again_apart = u.unpack_sequence(u.pack_sequence(sequences, enforce_sorted=False))
    (again_apart[0].sum() * 2 + again_apart[1].sum() * 3).backward()
    return [padded.grad, again.requires_grad, again, [sequence.grad for sequence in sequences]]


@parity
def test_attributes_and_conversions_of_packed_sequences(m: Any) -> Any:
    u = utils(m)
    packed = u.pack_padded_sequence(m.arange(12.0).reshape(3, 2, 2), [2, 3], enforce_sorted=False)
    pair = u.PackedSequence((packed.data, packed.batch_sizes), sorted_indices=packed.sorted_indices)
    half = packed.to(m.float16)
    return [
        repr(packed).replace("\n ", "\n"),
        list(pair),
        [half.data, half.sorted_indices, half.batch_sizes],
        packed.to(m.float32) is packed,
        packed.cpu() is packed,
        packed.is_cuda,
        [getattr(packed, name)().data for name in ("double", "float", "half", "long", "int", "short", "char", "byte")],
        [u.invert_permutation(m.tensor([2, 0, 1])), u.invert_permutation(None)],
        len(packed),
    ]


def test_packed_sequence_has_all_of_torchs_methods() -> None:
    ours, theirs = (library.nn.utils.rnn.PackedSequence for library in (rg, torch))
    assert {name for name in dir(theirs) if not name.startswith("_")} - set(dir(ours)) == set()
    packed = rnn.pack_sequence([rg.ones(2, 1), rg.ones(1, 1)])
    assert packed.pin_memory() is packed and not packed.is_pinned()


def test_pickling_packed_sequences() -> None:
    packed = rnn.pack_sequence([rg.tensor([1.0]), rg.tensor([2.0, 3.0])], enforce_sorted=False)
    again = pickle.loads(pickle.dumps(packed))
    assert isinstance(again, rnn.PackedSequence)
    assert [part.tolist() for part in again] == [part.tolist() for part in packed]


@parity
def test_packing_refuses_wrong_arguments(m: Any) -> Any:
    u = utils(m)
    pack, ones = u.pack_padded_sequence, m.ones(4, 3, 2)
    packed = pack(ones, [4, 2, 1])
    return [
        attempt(lambda: pack(ones, [1, 2, 4])),
        attempt(lambda: pack(ones, [4, 2])),
        attempt(lambda: pack(ones, [4, 2, 0])),
        attempt(lambda: pack(ones, [4, 2, -1])),
        attempt(lambda: pack(ones, m.tensor([[4, 2, 1]]))),
        attempt(lambda: pack(ones, 4)),
        attempt(lambda: pack(ones, [4, 2, 1], batch_first=True)),
        attempt(lambda: pack(ones[:, :0], [])),
        attempt(lambda: pack(m.ones(3), [1])),
        attempt(lambda: u.pad_packed_sequence(packed, total_length=3)),
        attempt(lambda: u.pack_sequence([])),
        attempt(lambda: u.pack_sequence([m.ones(2), m.ones(3)])),
        attempt(lambda: u.pad_sequence(5)),
        attempt(lambda: u.pad_sequence([1, 2])),
        attempt(lambda: u.pad_sequence([m.ones(2), m.ones(2, 2)])),
        attempt(lambda: u.pad_sequence([m.tensor(1.0)])),
        attempt(lambda: u.unpad_sequence(m.ones(3, 2), m.tensor([3]))),
        attempt(lambda: u.PackedSequence(m.ones(2))) == "raises AssertionError",
    ]


def test_packing_refuses_lengths_beyond_the_input() -> None:
    """torch silently packs batch sizes that do not match the data."""
    with pytest.raises(RuntimeError, match=r"\[4, 3, 2\] has 3 steps, fewer than .* 4; are the first two dimensions"):
        rnn.pack_padded_sequence(rg.ones(4, 3, 2), [4, 3, 1, 1], batch_first=True)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.booleans())
def test_unpacking_undoes_packing(lengths: list[int], batch_first: bool) -> None:
    sequences = [rg.tensor(x(length, 2, seed=length + number)) for number, length in enumerate(lengths)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert len(packed.data) == sum(lengths)
    padded, counts = rnn.pad_packed_sequence(packed, batch_first)
    assert counts.tolist() == lengths
    for sequence, again in zip(sequences, rnn.unpad_sequence(padded, counts, batch_first), strict=True):
        np.testing.assert_array_equal(again.numpy(), sequence.numpy())


# --- recurrent layers -------------------------------------------------------------------------------------------------

LAYERS = [
    "RNN(3, 4)",
    "RNN(3, 4, 2, nonlinearity='relu', bias=False, bidirectional=True)",
    "GRU(3, 4)",
    "GRU(3, 4, 2, bias=False)",
    "GRU(3, 4, 2, bidirectional=True, batch_first=True)",
    "LSTM(3, 4)",
    "LSTM(3, 4, 2, bias=False, bidirectional=True)",
    "LSTM(3, 4, 2, bidirectional=True, proj_size=2)",
]


def run(m: Any, net: Any, lengths: list[int], with_states: bool) -> tuple[list[Any], list[Any], list[str]]:
    """Return outputs, states, and the gradients of a loss that weights each of their elements differently."""
    u = utils(m)
    inputs = m.tensor(x(max(lengths), len(lengths), 3), requires_grad=True)
    states: Any = None
    leaves = [inputs]
    if with_states:
        count = net.num_layers * (2 if net.bidirectional else 1)
        sizes = (net.proj_size or net.hidden_size, net.hidden_size)[: 2 if net.mode == "LSTM" else 1]
        states = [m.tensor(x(count, len(lengths), size, seed=size), requires_grad=True) for size in sizes]
        leaves += states
        states = tuple(states) if len(states) == 2 else states[0]
    packed = u.pack_padded_sequence(inputs, lengths, enforce_sorted=False)
    output, last = net(packed, states)
    assert isinstance(output, u.PackedSequence)
    results = [u.pad_packed_sequence(output)[0], *flat(last)]
    leaves += net.parameters()
    loss = sum((result * result.detach().cos() + result.sin()).sum() for result in results)
    first = m.autograd.grad(loss, leaves, create_graph=True)
    second = m.autograd.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True)
    names = ["input", *["state"] * (len(leaves) - 1 - len(list(net.parameters()))), *dict(net.named_parameters())]
    return results, [*first, *second], names + [f"second of {name}" for name in names]


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("layer", LAYERS)
def test_recurrent_layers_take_packed_sequences(layer: str, lengths: list[int], with_states: bool) -> None:
    theirs, ours = twins(lambda nn: eval(f"nn.{layer}", {"nn": nn}))
    expected, expected_grads, _ = run(torch, theirs, lengths, with_states)
    got, grads, names = run(rg, ours, lengths, with_states)
    for number, (mine, other) in enumerate(zip(got, expected, strict=True)):
        close(mine, other, f"result {number}")
    for name, mine, other in zip(names, grads, expected_grads, strict=True):
        if mine is None or other is None:
            rest = other if mine is None else mine
            assert rest is None or abs(rest).max() < 1e-12, name
        else:
            close(mine, other, name, 1e-8)


def test_packed_batch_equals_its_sequences_one_by_one() -> None:
    net = rg.nn.LSTM(3, 4, 2, bidirectional=True)
    sequences = [rg.randn(length, 3) for length in (2, 5, 1, 4)]
    output, (hidden, cell) = net(rnn.pack_sequence(sequences, enforce_sorted=False))
    for number, (sequence, together) in enumerate(zip(sequences, rnn.unpack_sequence(output), strict=True)):
        alone, (own_hidden, own_cell) = net(sequence)
        for got, expected in ((together, alone), (hidden[:, number], own_hidden), (cell[:, number], own_cell)):
            np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-6)


@parity
def test_recurrent_layers_refuse_wrong_packed_input(m: Any) -> Any:
    u, net = utils(m), m.nn.GRU(3, 4)
    packed = u.pack_sequence([m.ones(3, 3), m.ones(2, 3)])
    other = u.pack_sequence([m.ones(3, 2), m.ones(2, 2)])
    return [
        attempt(lambda: net(packed, m.ones(1, 4))),
        attempt(lambda: net(packed, m.ones(1, 3, 4))),
        attempt(lambda: net(packed.to(m.float64))),
        attempt(lambda: net(other)),
        attempt(lambda: net(u.PackedSequence(m.ones(5, 3), m.tensor([2, 3])))),
    ]


@parity
def test_states_that_do_not_match_packed_input(m: Any) -> Any:
    lstm, packed = m.nn.LSTM(3, 4), utils(m).pack_sequence([m.ones(3, 3), m.ones(2, 3)])
    return [
        attempt(lambda: lstm(packed, (m.ones(1, 2, 4), m.ones(1, 2, 5)))),
        attempt(lambda: lstm(packed, (m.ones(1, 3, 4), m.ones(1, 3, 4)))),
    ]


def test_states_for_more_sequences_than_packed_are_refused() -> None:
    """torch uses the first states if the sequences were not sorted."""
    packed = rnn.pack_sequence([rg.ones(2, 3), rg.ones(3, 3)], enforce_sorted=False)
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]"):
        rg.nn.GRU(3, 4)(packed, rg.ones(1, 3, 4))


def test_error_names_batch_sizes_that_do_not_match_the_data() -> None:
    """torch silently drops the surplus rows."""
    with pytest.raises(RuntimeError, match=r"GRU\(3, 4\).*batch_sizes.*\[5, 3\] and \[3, 1\].*pack_padded_sequence"):
        rg.nn.GRU(3, 4)(rnn.PackedSequence(rg.ones(5, 3), rg.tensor([3, 1])))
