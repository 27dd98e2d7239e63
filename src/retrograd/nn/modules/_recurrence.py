"""Recurrences: one step of every kind of network, and one direction of one layer over a whole sequence."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.ops.joining import stack
from retrograd.ops.recurrent import gru_step, lstm_step

# A direction of a layer: how much the input contributes to the gates of every step, computed at once; then a step, from
# that and the state. The state is the hidden state, or for an LSTM a pair of that and the cell.


class Weights:
    """The weights of one direction of one layer."""

    def __init__(self, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any = None) -> None:
        self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.w_hr = w_ih, w_hh, b_ih, b_hh, w_hr
        self.w_hh_t = w_hh.t()


def _both_biases(weights: Weights) -> Any:
    return None if weights.b_ih is None else weights.b_ih + weights.b_hh


def gates_of_input(mode: str, input: Tensor, weights: Weights) -> Tensor:
    # the biases of a GRU stay apart: one of them is reset, the other is not
    bias = weights.b_ih if mode == "GRU" else _both_biases(weights)
    return F.linear(input, weights.w_ih, bias)


def _step_tanh(gates: Tensor, state: Any, weights: Weights) -> Any:
    return (gates + state @ weights.w_hh_t).tanh()


def _step_relu(gates: Tensor, state: Any, weights: Weights) -> Any:
    return (gates + state @ weights.w_hh_t).relu()


def _step_lstm(gates: Tensor, state: Any, weights: Weights) -> Any:
    hidden, cell = state
    hidden, cell = lstm_step(gates + hidden @ weights.w_hh_t, cell)
    return (hidden if weights.w_hr is None else F.linear(hidden, weights.w_hr)), cell


def _step_gru(gates: Tensor, state: Any, weights: Weights) -> Any:
    of_hidden = state @ weights.w_hh_t
    return gru_step(gates, of_hidden if weights.b_hh is None else of_hidden + weights.b_hh, state)


STEPS = {"RNN_TANH": _step_tanh, "RNN_RELU": _step_relu, "LSTM": _step_lstm, "GRU": _step_gru}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def over_time(mode: str, input: Tensor, state: Any, weights: Weights, backwards: bool) -> tuple[Tensor, Any]:
    """Run one direction of one layer: all hidden states, and the last state."""
    step, has_cell = STEPS[mode], mode == "LSTM"
    gates = gates_of_input(mode, input, weights).unbind(0)
    hidden = []
    for gates_now in reversed(gates) if backwards else gates:
        state = step(gates_now, state, weights)
        hidden.append(state[0] if has_cell else state)
    if backwards:
        hidden.reverse()
    return stack(hidden), state
