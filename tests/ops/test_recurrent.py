"""Recurrent layers as operations: all kinds of derivatives, blocks and births, compared with a loop over steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent
from retrograd.ops.recurrent import Operands, recurrence, recurrent_layer
from retrograd.ops.recurrent.runs import Run, reversal, runs_of
from retrograd.ops.recurrent.steps import over_time

MODES = ["RNN_TANH", "RNN_RELU", "GRU", "LSTM"]
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
EVEN, UNEVEN = (2, 2, 2), (3, 3, 2, 1, 1)


def operands(
    mode: str, sizes: tuple[int, ...], *, bias: bool = True, projected: bool = False, dtype: Any = rg.float64
) -> Operands:
    """Return random operands: 3 features, hidden states of size 2, or of size 1 if projected."""
    rng = np.random.default_rng(0)

    def make(*shape: int) -> rg.Tensor:
        return rg.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=True)

    rows, output = GATES[mode] * 2, 1 if projected else 2
    return Operands(
        make(sum(sizes), 3),
        make(sizes[0], output),
        make(rows, 3),
        make(rows, output),
        make(rows) if bias else None,
        make(rows) if bias else None,
        make(sizes[0], 2) if mode == "LSTM" else None,
        make(1, 2) if projected else None,
    )


def as_function(
    mode: str, x: Operands, sizes: tuple[int, ...], reverse: bool = False
) -> tuple[Callable[..., Any], tuple[rg.Tensor, ...]]:
    """Return the layer as a function of its tensors."""
    names = [name for name, value in zip(x._fields, x, strict=True) if value is not None]

    def function(*tensors: rg.Tensor) -> tuple[rg.Tensor, ...]:
        return tuple(recurrent_layer(mode, Operands(**dict(zip(names, tensors, strict=True))), sizes, reverse))

    return function, tuple(value for value in x if value is not None)


CASES = [
    pytest.param(mode, sizes, reverse, options, id=f"{mode}-{len(set(sizes))}-{'back' if reverse else 'on'}-{number}")
    for mode in MODES
    for sizes, reverse in ((EVEN, False), (EVEN, True), (UNEVEN, False), (UNEVEN, True))
    for number, options in enumerate([{}, {"bias": False}] + [{"projected": True}] * (mode == "LSTM"))
]


@pytest.mark.parametrize(("mode", "sizes", "reverse", "options"), CASES)
def test_recurrent_results_and_gradients_agree_with_a_loop(
    mode: str, sizes: tuple[int, ...], reverse: bool, options: dict[str, Any]
) -> None:
    x = operands(mode, sizes, **options)
    got, expected = recurrent_layer(mode, x, sizes, reverse), over_time(mode, x, sizes, reverse)
    leaves = [each for each in x if each is not None]
    weights = [rg.randn(each.shape, dtype=rg.float64) for each in expected]
    grads = rg.autograd.grad(got, leaves, weights)
    expected_grads = rg.autograd.grad(expected, leaves, weights)
    for mine, other in zip((*got, *grads), (*expected, *expected_grads), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("mode", "sizes", "reverse", "options"), CASES)
def test_derivatives_of_recurrent_operations(
    mode: str, sizes: tuple[int, ...], reverse: bool, options: dict[str, Any]
) -> None:
    function, leaves = as_function(mode, operands(mode, sizes, **options), sizes, reverse)
    assert rg.autograd.gradcheck(function, leaves, fast_mode=True, check_forward_ad=True)
    assert rg.autograd.gradgradcheck(function, leaves, fast_mode=True)


@pytest.mark.parametrize("mode", MODES)
def test_every_entry_of_recurrent_jacobians(mode: str) -> None:
    function, leaves = as_function(mode, operands(mode, (1, 1)), (1, 1))
    assert rg.autograd.gradcheck(function, leaves)
    assert rg.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("mode", MODES)
def test_recurrent_operations_in_blocks_of_steps(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, leaves = as_function(mode, operands(mode, UNEVEN), UNEVEN)
    loss = sum(result.sin().sum() for result in function(*leaves))
    expected = rg.autograd.grad(loss, leaves, retain_graph=True)
    for block in (1, 50):
        monkeypatch.setattr(recurrence, "BLOCK", block)
        for mine, other in zip(rg.autograd.grad(loss, leaves, retain_graph=True), expected, strict=True):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_recurrent_gradients_of_some_operands(mode: str) -> None:
    x = operands(mode, UNEVEN, projected=mode == "LSTM")
    function, leaves = as_function(mode, x, UNEVEN)
    expected = rg.autograd.grad(sum(result.sum() for result in function(*leaves)), leaves)
    for position, whole in enumerate(expected):
        alone = [leaf if number == position else leaf.detach() for number, leaf in enumerate(leaves)]
        results = function(*alone)
        for result in results:  # and from one result only
            (grad,) = rg.autograd.grad(result.sum(), leaves[position], retain_graph=True)
            assert grad.shape == whole.shape
        (grad,) = rg.autograd.grad(sum(result.sum() for result in results), leaves[position])
        np.testing.assert_allclose(grad.numpy(), whole.numpy(), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_recurrent_gradients_and_results_share_no_memory(mode: str) -> None:
    function, leaves = as_function(mode, operands(mode, EVEN), EVEN)
    results = function(*leaves)
    incoming = [rg.ones_like(result) for result in results]
    rg.autograd.backward(results, incoming)
    arrays = [*(leaf.grad for leaf in leaves), *leaves, *results, *incoming]
    for number, mine in enumerate(arrays):
        for other in arrays[number + 1 :]:
            assert not np.shares_memory(mine.detach().numpy(), other.detach().numpy())


@pytest.mark.parametrize("mode", MODES)
def test_recurrent_results_may_be_overwritten_but_not_the_weights(mode: str) -> None:
    function, leaves = as_function(mode, operands(mode, EVEN), EVEN)
    expected = rg.autograd.grad(function(*leaves)[0].sum(), leaves, allow_unused=True)
    output = function(*leaves)[0]
    output.mul_(2.0)
    for mine, other in zip(rg.autograd.grad(output.sum(), leaves, allow_unused=True), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), 2 * other.numpy(), rtol=1e-12)
    output = function(*leaves)[0]
    with rg.no_grad():
        leaves[3].mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("mode", MODES)
def test_recurrent_half_precision_is_computed_in_single(mode: str) -> None:
    half = operands(mode, EVEN, dtype=rg.float16)
    single = Operands(*(None if each is None else each.detach().float().requires_grad_() for each in half))
    got, expected = recurrent_layer(mode, half, EVEN), recurrent_layer(mode, single, EVEN)
    assert {each.dtype for each in got} == {rg.float16}
    for mine, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().half().numpy())
    got[0].sum().backward()
    assert half.weight_hh.grad.dtype == rg.float16


@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_recurrent_operations(mode: str) -> None:
    """Over inputs, and over weights as in an ensemble."""
    function, leaves = as_function(mode, operands(mode, EVEN), EVEN)
    several = tuple(rg.stack([leaf.detach(), leaf.detach() * 0.5]) for leaf in leaves)
    for dims in [(0,) * len(leaves), (0, *(None,) * (len(leaves) - 1)), (None, None, *(0,) * (len(leaves) - 2))]:
        samples = [
            tuple(each[number] if dim == 0 else each[0] for each, dim in zip(several, dims, strict=True))
            for number in (0, 1)
        ]
        arguments = tuple(each if dim == 0 else each[0] for each, dim in zip(several, dims, strict=True))
        together = rg.func.vmap(function, in_dims=dims)(*arguments)
        grads = rg.func.vmap(rg.func.grad(lambda *args: function(*args)[0].sin().sum()), in_dims=dims)(*arguments)
        for number, sample in enumerate(samples):
            for mine, other in zip(together, function(*sample), strict=True):
                np.testing.assert_allclose(mine[number].numpy(), other.numpy(), rtol=1e-10)
            expected = rg.func.grad(lambda *args: function(*args)[0].sin().sum())(*sample)
            np.testing.assert_allclose(grads[number].numpy(), expected.numpy(), rtol=1e-10)


def test_saved_tensor_hooks_pack_recurrent_states() -> None:
    function, leaves = as_function("LSTM", operands("LSTM", EVEN), EVEN)
    expected = rg.autograd.grad(function(*leaves)[0].sum(), leaves, allow_unused=True)
    packed: list[np.ndarray] = []

    def pack(x: rg.Tensor) -> int:
        packed.append(x.detach().numpy().copy())
        return len(packed) - 1

    with rg.autograd.graph.saved_tensors_hooks(pack, lambda place: rg.from_numpy(packed[place])):
        output = function(*[leaf * 1 for leaf in leaves])[0]
    assert len(packed) > len(leaves)  # including states and gates
    for mine, other in zip(rg.autograd.grad(output.sum(), leaves, allow_unused=True), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("RNN_TANH", "RnnTanhBackward0"),
        ("RNN_RELU", "RnnReluBackward0"),
        ("GRU", "GruBackward0"),
        ("LSTM", "LstmBackward0"),
    ],
)
def test_recurrent_layer_is_one_node(mode: str, name: str) -> None:
    function, leaves = as_function(mode, operands(mode, EVEN), EVEN)
    results = function(*leaves)
    assert {result.grad_fn.name() for result in results} == {name}
    assert len({result.grad_fn for result in results}) == 1
    assert all(edge[0].name() == "AccumulateGrad" for edge in results[0].grad_fn.next_functions)


# --- packed rows ------------------------------------------------------------------------------------------------------


def test_runs_of_packed_rows() -> None:
    assert runs_of((3, 3, 2)) == [Run(0, 2, 3, 0), Run(6, 1, 2, 3)]
    rows = np.arange(8)[:, None]
    assert [run.rows(rows)[..., 0].tolist() for run in runs_of((3, 3, 2))] == [[[0, 1, 2], [3, 4, 5]], [[6, 7]]]


@pytest.mark.parametrize("sizes", [EVEN, UNEVEN, (1,), (4, 1), (0, 0)])
def test_reversal_of_packed_rows(sizes: tuple[int, ...]) -> None:
    """Every sequence is read from its end."""
    names = [(sequence, step) for step, size in enumerate(sizes) for sequence in range(size)]
    order = reversal(sizes)
    turned = [names[row] for row in order]
    for sequence in range(sizes[0]):
        steps = [step for which, step in turned if which == sequence]
        assert steps == sorted(steps, reverse=True)
    assert [turned[row] for row in order] == names
    assert [which for which, _ in turned] == [which for which, _ in names]


# --- births -----------------------------------------------------------------------------------------------------------


def event_of(program: Callable[[], object], steps: bool) -> NaNEvent:
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]) if steps else [0]:
            program()
    (event,) = watch.events
    return event


def line_of(program: Callable[[], object]) -> int:
    lines, first = inspect.getsourcelines(program)
    return next(number for number, line in enumerate(lines, first) if line.rstrip().endswith("# born"))


def explodes() -> None:
    net = rg.nn.RNN(1, 1, nonlinearity="relu")
    with rg.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1e10)
    output, _ = net(rg.ones(6, 1, 1))  # born
    output.sum().backward()


def explodes_backward() -> None:
    net = rg.nn.LSTM(1, 1)
    with rg.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        net.weight_hh_l0.fill_(1e20)
    output, _ = net(rg.zeros(6, 1, 1))  # born
    output.sum().backward()


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
def test_birth_in_a_recurrent_layer_names_layer_step_and_line(steps: bool) -> None:
    event = event_of(explodes, steps)
    assert (event.op, event.kind, event.is_backward) == ("rnn_relu", "overflow", False)
    assert (event.lineno, event.index, event.harmed) == (line_of(explodes), (3, 0, 0), "loss")


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
def test_birth_in_recurrent_backward_names_layer_and_line(steps: bool) -> None:
    event = event_of(explodes_backward, steps)
    assert (event.op, event.is_backward, event.lineno) == ("LstmBackward0", True, line_of(explodes_backward))


def test_bad_input_of_a_recurrent_layer_is_reported_as_such() -> None:
    def program() -> None:
        values = rg.ones(4, 2, 3)
        values[2, 1, 0] = float("nan")
        rg.nn.GRU(3, 5)(values)[0].sum().backward()

    event = event_of(program, False)
    assert (event.kind, event.index, event.operands) == (
        "leaf",
        (2, 1, 0),
        {"values": pytest.approx(np.nan, nan_ok=True)},
    )


def test_saturated_gates_are_not_births() -> None:
    for net in (rg.nn.LSTM(1, 1), rg.nn.GRU(1, 1), rg.nn.RNN(1, 1)):
        with rg.no_grad():
            net.weight_ih_l0.fill_(1e30)
        for value in (1e6, -1e6):
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                output = net(rg.full((3, 1, 1), value))[0]
                output.sum().backward()
            assert output.isfinite().all()
