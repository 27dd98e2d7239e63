"""One step of a recurrent network, and whole sequences step by step, in operations on Tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from retrograd.core.op import op
from retrograd.core.tensor import Tensor
from retrograd.ops._rules import conj
from retrograd.ops.joining import cat
from retrograd.ops.linear import linear
from retrograd.ops.recurrent.runs import reversal


def _split(gates: Any, parts: int) -> list[Any]:
    """The gates, which lie side by side in the last dimension."""
    size = gates.shape[-1] // parts
    return [gates[..., part * size : (part + 1) * size] for part in range(parts)]


def _gate(x: Any) -> Any:
    """The logistic function, which is a hyperbolic tangent: nothing overflows, and it takes three passes."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


# --- long short-term memory (Hochreiter, Schmidhuber, 1997; with forget gates: Gers et al., 2000) --------------------


def _lstm_parts(gates: Any) -> list[Any]:
    """The gates input, forget, cell and output after their nonlinearities, all with one hyperbolic tangent."""
    size = gates.shape[-1] // 4
    # as _gate for all but the candidate for the cell
    scale = np.full(4 * size, 0.5, gates.dtype)
    scale[2 * size : 3 * size] = 1
    return _split(np.tanh(gates * scale) * scale + (1 - scale), 4)


def _at_cell(g: Any, output: Any, cell: Any) -> Any:
    """The gradient at the new cell, which arrives there directly and through the hidden state."""
    to_hidden, to_cell = g
    squashed = np.tanh(cell)
    return to_cell + to_hidden * output * (1 - squashed * squashed)


def _lstm_gates(g: Any, gates: Any, cell: Any, new_cell: Any) -> Any:
    gates, cell, new_cell = map(conj, (gates, cell, new_cell))
    i, f, c, o = _lstm_parts(gates)
    at_cell = _at_cell(g, o, new_cell)
    return np.concatenate(
        [
            at_cell * c * i * (1 - i),
            at_cell * cell * f * (1 - f),
            at_cell * i * (1 - c * c),
            g[0] * np.tanh(new_cell) * o * (1 - o),
        ],
        axis=-1,
    )


def _lstm_cell(g: Any, gates: Any, new_cell: Any) -> Any:
    gates, new_cell = map(conj, (gates, new_cell))
    _, f, _, o = _split(gates, 4)
    return _at_cell(g, _gate(o), new_cell) * _gate(f)


@op(
    public=False,
    method=False,
    outputs=("hidden", "new_cell"),
    gates=_lstm_gates,
    cell=_lstm_cell,
)
def lstm_step(gates, cell):
    """Return the next hidden state and cell of an LSTM, from the gates before their nonlinearities.

    Shapes: ``(..., 4 * hidden), (..., hidden) -> (..., hidden), (..., hidden)``; the gates are input, forget, cell,
    output.
    """
    i, f, c, o = _lstm_parts(gates)
    new_cell = f * cell + i * c
    return o * np.tanh(new_cell), new_cell


# --- gated recurrent unit (Cho et al., 2014; with the reset gate after the product) ----------------------------------


def _gru_parts(input_gates: Any, hidden_gates: Any) -> tuple[Any, Any, Any, Any]:
    """Reset gate, update gate, candidate, and the hidden state's part in the candidate before it is reset."""
    both = 2 * (input_gates.shape[-1] // 3)
    r, z = _split(_gate(input_gates[..., :both] + hidden_gates[..., :both]), 2)
    hidden_n = hidden_gates[..., both:]
    return r, z, np.tanh(input_gates[..., both:] + r * hidden_n), hidden_n


def _gru_gates(g: Any, input_gates: Any, hidden_gates: Any, hidden: Any) -> tuple[Any, Any, Any, Any]:
    """The gradients at both gates and at the candidate before their nonlinearities, and the reset gate."""
    input_gates, hidden_gates, hidden = map(conj, (input_gates, hidden_gates, hidden))
    r, z, n, hidden_n = _gru_parts(input_gates, hidden_gates)
    at_n = g * (1 - z) * (1 - n * n)
    return at_n * hidden_n * r * (1 - r), g * (hidden - n) * z * (1 - z), at_n, r


def _gru_input(g: Any, input_gates: Any, hidden_gates: Any, hidden: Any) -> Any:
    at_r, at_z, at_n, _ = _gru_gates(g, input_gates, hidden_gates, hidden)
    return np.concatenate([at_r, at_z, at_n], axis=-1)


def _gru_hidden_gates(g: Any, input_gates: Any, hidden_gates: Any, hidden: Any) -> Any:
    at_r, at_z, at_n, r = _gru_gates(g, input_gates, hidden_gates, hidden)
    return np.concatenate([at_r, at_z, at_n * r], axis=-1)


def _gru_hidden(g: Any, input_gates: Any, hidden_gates: Any) -> Any:
    _, input_z, _ = _split(input_gates, 3)
    _, hidden_z, _ = _split(hidden_gates, 3)
    return g * conj(_gate(input_z + hidden_z))


@op(
    public=False,
    method=False,
    input_gates=_gru_input,
    hidden_gates=_gru_hidden_gates,
    hidden=_gru_hidden,
)
def gru_step(input_gates, hidden_gates, hidden):
    """Return the next hidden state of a GRU, from what input and hidden state contribute to the gates.

    Shapes: ``(..., 3 * hidden), (..., 3 * hidden), (..., hidden) -> (..., hidden)``; the gates are reset, update, new.
    """
    _, z, n, _ = _gru_parts(input_gates, hidden_gates)
    return n + z * (hidden - n)


# --- one step of every kind of network --------------------------------------------------------------------------------


class Operands(NamedTuple):
    """What one direction of one layer is computed from: the input, the first states, the weights.

    Attributes
    ----------
    input
        Of shape (steps, batch, features), or packed, (rows, features).
    hidden, cell
        Of shape (batch, size); only an LSTM has a cell.
    weight_ih, weight_hh, bias_ih, bias_hh
        Gates below each other; there may be no biases.
    weight_hr
        The projection of the hidden state of an LSTM, or None.
    """

    input: Any
    hidden: Any
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any = None
    bias_hh: Any = None
    cell: Any = None
    weight_hr: Any = None


def gates_of_input(mode: str, x: Operands, input: Tensor) -> Tensor:
    """What the input contributes to the gates, and what does not depend on anything."""
    # the biases of a GRU stay apart: one of them is reset, the other is not
    bias = x.bias_ih if mode == "GRU" or x.bias_ih is None else x.bias_ih + x.bias_hh
    return linear(input, x.weight_ih, bias)


def _tanh_step(gates: Tensor, state: Any, x: Operands) -> Any:
    return ((gates + linear(state[0], x.weight_hh)).tanh(),)


def _relu_step(gates: Tensor, state: Any, x: Operands) -> Any:
    return ((gates + linear(state[0], x.weight_hh)).relu(),)


def _lstm_step(gates: Tensor, state: Any, x: Operands) -> Any:
    hidden, cell = state
    hidden, cell = lstm_step(gates + linear(hidden, x.weight_hh), cell)
    return (hidden if x.weight_hr is None else linear(hidden, x.weight_hr)), cell


def _gru_step(gates: Tensor, state: Any, x: Operands) -> Any:
    return (gru_step(gates, linear(state[0], x.weight_hh, x.bias_hh), state[0]),)


# The next state from what the input contributes to the gates and the state before: a tuple, of the hidden state and,
# for an LSTM, the cell.
STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step}

# How many gates lie below each other in the weights.
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def over_time(mode: str, x: Operands, batch_sizes: tuple[int, ...], reverse: bool) -> list[Tensor]:
    """All hidden states, and the last states of every sequence, step by step."""
    step = STEPS[mode]
    rows = x.input.reshape(-1, x.input.shape[-1])
    order = reversal(batch_sizes) if reverse else None
    if order is not None:
        rows = rows[order]
    state = (x.hidden,) if x.cell is None else (x.hidden, x.cell)
    hidden, ended = [], []
    for gates in gates_of_input(mode, x, rows).split(batch_sizes):
        batch = len(gates)
        if batch < len(state[0]):
            ended.append([part[batch:] for part in state])
            state = tuple([part[:batch] for part in state])
        state = step(gates, state, x)
        hidden.append(state[0])
    ended.append(list(state))
    output = cat(hidden)
    if order is not None:
        output = output[order]
    last = [parts[0] if len(parts) == 1 else cat(parts) for parts in zip(*reversed(ended), strict=True)]
    return [output.reshape((*x.input.shape[:-1], output.shape[-1])), *last]
