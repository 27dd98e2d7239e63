"""One step of gated recurrent networks: everything after the matrix products, in one operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.op import op


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
    if to_hidden is None:
        return to_cell
    squashed = np.tanh(cell)
    through = to_hidden * output * (1 - squashed * squashed)
    return through if to_cell is None else to_cell + through


def _lstm_gates(g: Any, gates: Any, cell: Any, new_cell: Any) -> Any:
    i, f, c, o = _lstm_parts(gates)
    at_cell = _at_cell(g, o, new_cell)
    to_hidden = np.zeros_like(at_cell) if g[0] is None else g[0]
    return np.concatenate(
        [
            at_cell * c * i * (1 - i),
            at_cell * cell * f * (1 - f),
            at_cell * i * (1 - c * c),
            to_hidden * np.tanh(new_cell) * o * (1 - o),
        ],
        axis=-1,
    )


def _lstm_cell(g: Any, gates: Any, new_cell: Any) -> Any:
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
    return g * _gate(input_z + hidden_z)


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
