"""Recurrent networks, compared with torch: outputs, states, gradients and second gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, twins
from tests.parity import attempt, parity


def x(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


KINDS = ["RNN({})", "RNN({}, nonlinearity='relu')", "GRU({})", "LSTM({})"]
FORMS = [
    "3, 4",
    "3, 4, bias=False",
    "3, 4, num_layers=2",
    "3, 4, bidirectional=True",
    "3, 4, num_layers=2, bidirectional=True, batch_first=True",
]


def build(text: str) -> Any:
    return lambda nn: eval(f"nn.{text}", {"nn": nn})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_agree_with_torch(kind: str, form: str) -> None:
    # torch's fused recurrent layers have no second derivative, but on the CPU it composes them of operations
    assert_alike(build(kind.format(form)), x(5, 2, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_with_given_states_and_without_batch(kind: str) -> None:
    def states(*shape: int) -> Any:
        return (x(*shape, seed=1), x(*shape, seed=2)) if "LSTM" in kind else x(*shape, seed=1)

    text = kind.format("3, 4, num_layers=2, bidirectional=True")
    assert_alike(build(text), x(5, 2, 3), states(4, 2, 4), second=False)
    assert_alike(build(text), x(5, 3), second=False)
    assert_alike(build(text), x(5, 3), states(4, 4), second=False)


@pytest.mark.parametrize("form", ["3, 4, proj_size=2", "3, 4, 2, proj_size=2, bidirectional=True"])
def test_lstm_with_projections(form: str) -> None:
    assert_alike(build(f"LSTM({form})"), x(5, 2, 3), second=False)


@pytest.mark.parametrize(
    "cell", ["RNNCell(3, 4)", "RNNCell(3, 4, nonlinearity='relu')", "GRUCell(3, 4)", "GRUCell(3, 4, False)"]
)
def test_recurrent_cells_agree_with_torch(cell: str) -> None:
    assert_alike(build(cell), x(2, 3))
    assert_alike(build(cell), x(2, 3), x(2, 4, seed=1))
    assert_alike(build(cell), x(3), x(4, seed=1))


@pytest.mark.parametrize("cell", ["LSTMCell(3, 4)", "LSTMCell(3, 4, bias=False)"])
def test_lstm_cell_agrees_with_torch(cell: str) -> None:
    assert_alike(build(cell), x(2, 3))
    assert_alike(build(cell), x(2, 3), (x(2, 4, seed=1), x(2, 4, seed=2)))


@pytest.mark.parametrize("which", [0, 1])
def test_lstm_cell_when_only_one_output_has_a_gradient(which: int) -> None:
    theirs, ours = twins(build("LSTMCell(3, 4)"))
    expected = torch.tensor(x(2, 3), requires_grad=True)
    got = rg.tensor(x(2, 3), requires_grad=True)
    theirs(expected)[which].sin().sum().backward()
    ours(got)[which].sin().sum().backward()
    np.testing.assert_allclose(got.grad.numpy(), expected.grad.numpy(), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_with_an_empty_batch(kind: str) -> None:
    assert_alike(build(kind.format("3, 4, 2, bidirectional=True")), x(5, 0, 3), second=False)


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_with_a_single_step(kind: str) -> None:
    assert_alike(build(kind.format("3, 4, bidirectional=True")), x(1, 2, 3))


@pytest.mark.parametrize("kind", ["RNN(3, 4)", "GRU(3, 4, 2, bidirectional=True)", "LSTM(3, 4)", "LSTMCell(3, 4)"])
def test_complex_recurrent_layers(kind: str) -> None:
    theirs, ours = (eval(f"m.nn.{kind[:-1]}, dtype=m.complex128)", {"m": m}) for m in (torch, rg))
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    values = (x(5, 2, 3) + 1j * x(5, 2, 3, seed=1))[0 if "Cell" in kind else slice(None)]
    grads = []
    for library, net in ((torch, theirs), (rg, ours)):
        inputs = library.tensor(values, requires_grad=True)
        output = net(inputs)[0]
        (output * (1 + 2j)).abs().sum().backward()
        grads.append([output.detach(), inputs.grad, *(parameter.grad for parameter in net.parameters())])
    for expected, got in zip(*grads, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["RNN(3, 4)", "GRU(3, 4)", "LSTM(3, 4)"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_recurrent_layers_in_lower_precision(kind: str, dtype: str) -> None:
    theirs, ours = (eval(f"m.nn.{kind[:-1]}, dtype=m.{dtype})", {"m": m}) for m in (torch, rg))
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    values = x(5, 2, 3).astype(dtype)
    expected, got = theirs(torch.tensor(values))[0], ours(rg.tensor(values))[0]
    expected.sum().backward()
    got.sum().backward()
    tolerance = 5e-3 if dtype == "float16" else 1e-5
    pairs = [(got, expected)]
    pairs += [(a.grad, b.grad) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True)]
    for mine, other in pairs:
        assert mine.detach().numpy().dtype == dtype
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_pair_of_states_is_refused_by_rnn_and_gru(kind: str) -> None:
    state = rg.zeros(1, 2, 4)
    with pytest.raises(AttributeError, match=rf"{kind}\(3, 4\): hx must be a tensor, the hidden state, got tuple"):
        getattr(rg.nn, kind)(3, 4)(rg.ones(5, 2, 3), (state, state))


def test_recurrent_states_of_another_dtype_are_refused() -> None:
    for library in (torch, rg):
        net = library.nn.GRU(3, 4)
        with pytest.raises(RuntimeError, match=r"dtype|float64"):
            net(library.ones(5, 2, 3), library.ones(1, 2, 4, dtype=library.float64))


def test_dropout_in_a_single_recurrent_layer_warns() -> None:
    for library in (torch, rg):
        with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1") as warned:
            library.nn.LSTM(3, 4, dropout=0.5)
    assert warned[0].filename == __file__


def test_recurrent_layers_with_computed_weights() -> None:
    """The layer uses a parametrized weight and the weights of functional_call."""
    net = rg.nn.LSTM(3, 4)
    inputs = rg.randn(5, 2, 3)
    weights = {name: rg.randn_like(value) for name, value in net.named_parameters()}
    other = rg.func.functional_call(net, weights, (inputs,))[0]
    net.load_state_dict(weights)
    np.testing.assert_array_equal(other.detach().numpy(), net(inputs)[0].detach().numpy())
    rg.nn.utils.parametrizations.weight_norm(net, "weight_hh_l0")
    net(inputs)[0].sum().backward()
    assert net.parametrizations.weight_hh_l0.original0.grad is not None


def test_saturated_gates_do_not_overflow() -> None:
    torch.manual_seed(0)
    theirs, ours = twins(build("LSTMCell(1, 1)"))
    for value in (1e6, -1e6):
        with np.errstate(over="raise", invalid="raise"):
            got = ours(rg.tensor([[value]], dtype=rg.float64))
        for mine, other in zip(got, theirs(torch.tensor([[value]], dtype=torch.float64)), strict=True):
            np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9)


def test_recurrent_dropout_only_in_training() -> None:
    rg.manual_seed(0)
    net = rg.nn.GRU(3, 50, num_layers=2, dropout=0.5)
    values = rg.tensor(x(5, 2, 3), dtype=rg.float32)
    assert (net(values)[0] != net(values)[0]).any()
    net.eval()
    assert (net(values)[0] == net(values)[0]).all()


@parity
def test_attributes_of_recurrent_layers(m: Any) -> Any:
    net = m.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    net.flatten_parameters()
    single = m.nn.RNN(3, 4)
    return [
        [[tuple(w.shape) for w in group] for group in net.all_weights],
        [name for name, _ in net.named_parameters()],
        [net._all_weights, net._flat_weights_names, [tuple(w.shape) for w in net._flat_weights]],
        [single.mode, single.nonlinearity, single.input_size, single.num_layers, single.batch_first],
        len(net(m.ones(5, 1, 3))[1]),
    ]


@parity
def test_recurrent_layers_refuse_wrong_inputs(m: Any) -> Any:
    net, lstm, cell = m.nn.GRU(3, 4), m.nn.LSTM(3, 4), m.nn.GRUCell(3, 4)
    ones = m.ones
    return [
        attempt(lambda: net(ones(5, 2, 4))),
        attempt(lambda: net(ones(5))),
        attempt(lambda: net(ones(5, 2, 3, 1))),
        attempt(lambda: net(ones(5, 2, 3), ones(2, 2, 4))),
        attempt(lambda: net(ones(5, 2, 3), ones(2, 4))),
        attempt(lambda: net(ones(5, 3), ones(1, 2, 4))),
        attempt(lambda: net(ones(5, 2, 3, dtype=m.float64))),
        attempt(lambda: net(ones(0, 2, 3))),
        attempt(lambda: net(ones(5, 2, 3), ones(1, 3, 4))),
        attempt(lambda: lstm(ones(5, 2, 3), (ones(2, 4), ones(2, 4)))),
        attempt(lambda: lstm(ones(5, 3), (ones(1, 1, 4), ones(1, 1, 4)))),
        attempt(lambda: lstm(ones(5, 2, 3), (ones(1, 2, 4), ones(1, 2, 5)))),
        attempt(lambda: cell(ones(2, 4))),
        attempt(lambda: cell(ones(2, 3, 1))),
        attempt(lambda: cell(ones(2, 3), ones(2, 5))),
        attempt(lambda: cell(ones(2, 3), ones(3, 4))),
    ]


def test_training_a_recurrent_network_reaches_torchs_weights() -> None:
    theirs, ours = twins(build("LSTM(2, 3)"))
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, target = rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 2, 3))
        for library, net in ((torch, theirs), (rg, ours)):
            net.zero_grad()
            ((net(library.tensor(values))[0] - library.tensor(target)) ** 2).mean().backward()
            with library.no_grad():
                for weight in net.parameters():
                    weight -= 0.1 * weight.grad
    for got, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), atol=1e-9)


def test_recurrent_base_class_cannot_be_called() -> None:
    for m in (torch, rg):
        with pytest.raises(NotImplementedError, match="RNNBase"):
            m.nn.RNNBase("LSTM", 1, 1)(m.ones(1, 1, 1))
