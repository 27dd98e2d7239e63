"""Whole recurrent layers as operations, one for each kind of network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.op import op
from retrograd.core.tensor import Tensor
from retrograd.ops._fused import gradients_of, sample_by_sample
from retrograd.ops.recurrent.kinds import Gru, Lstm, Relu, Tanh
from retrograd.ops.recurrent.recurrence import Options, Recurrence
from retrograd.ops.recurrent.steps import Operands, over_time

_KINDS: dict[str, type[Recurrence]] = {"RNN_TANH": Tanh, "RNN_RELU": Relu, "LSTM": Lstm, "GRU": Gru}


def _operands(tensors: Any, options: Options) -> Operands:
    return Operands(**dict(zip(options.names, tensors, strict=True)))


def _forward(mode: str, tensors: Any, options: Options) -> tuple[Any, ...]:
    operands = _operands(tensors, options)
    results, states, gates = _KINDS[mode](operands, options).forward()
    dtype = operands.input.dtype
    return tuple([each.astype(dtype, copy=False) for each in results]), *states, gates


@sample_by_sample
def _backward(mode: str, g: Any, tensors: Any, options: Options, states: Any, gates: Any, needs: Any) -> list[Any]:
    wanted = [name for name, needed in zip(options.names, needs, strict=True) if needed]
    found = _KINDS[mode](_operands(tensors, options), options).backward(g, states, gates, wanted)
    return [found[name] if name in wanted else None for name in options.names]


def _gradients(mode: str, g: Any, tensors: Any, options: Options, states: Any, gates: Any, needs: Any) -> list[Any]:
    """The gradients of all tensors; where they have a history, from the same step by step."""
    if states[0] is not None:
        return _backward(mode, g, tensors, options, states, gates, needs)

    def composed(*operands: Tensor) -> list[Tensor]:
        return over_time(mode, _operands(operands, options), options.batch_sizes, options.reverse)

    positions = tuple(position for position, needed in enumerate(needs) if needed)
    found = gradients_of(composed, g, tensors, positions)
    return [found[positions.index(position)] if needed else None for position, needed in enumerate(needs)]


def _rnn_tanh_gradients(g, tensors, options, hidden_states, needs):
    return _gradients("RNN_TANH", g, tensors, options, [hidden_states], None, needs)


@op(
    public=False,
    method=False,
    sequence="tensors",
    outputs=("output", "hidden"),
    byproducts=("hidden_states", "gates"),
    tensors=_rnn_tanh_gradients,
)
def rnn_tanh(tensors, options: Options):
    """Return the hidden states of Elman's network with a hyperbolic tangent, and the last one of every sequence."""
    return _forward("RNN_TANH", tensors, options)


def _rnn_relu_gradients(g, tensors, options, hidden_states, needs):
    return _gradients("RNN_RELU", g, tensors, options, [hidden_states], None, needs)


@op(
    public=False,
    method=False,
    sequence="tensors",
    outputs=("output", "hidden"),
    byproducts=("hidden_states", "gates"),
    tensors=_rnn_relu_gradients,
)
def rnn_relu(tensors, options: Options):
    """Return the hidden states of Elman's network with a rectifier, and the last one of every sequence."""
    return _forward("RNN_RELU", tensors, options)


def _lstm_gradients(g, tensors, options, hidden_states, cell_states, gates, needs):
    return _gradients("LSTM", g, tensors, options, [hidden_states, cell_states], gates, needs)


@op(
    public=False,
    method=False,
    sequence="tensors",
    outputs=("output", "hidden", "cell"),
    byproducts=("hidden_states", "cell_states", "gates"),
    tensors=_lstm_gradients,
)
def lstm(tensors, options: Options):
    """Return the hidden states of an LSTM, and the last one and the last cell of every sequence."""
    return _forward("LSTM", tensors, options)


def _gru_gradients(g, tensors, options, hidden_states, gates, needs):
    return _gradients("GRU", g, tensors, options, [hidden_states], gates, needs)


@op(
    public=False,
    method=False,
    sequence="tensors",
    outputs=("output", "hidden"),
    byproducts=("hidden_states", "gates"),
    tensors=_gru_gradients,
)
def gru(tensors, options: Options):
    """Return the hidden states of a GRU, and the last one of every sequence."""
    return _forward("GRU", tensors, options)


_LAYERS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "RNN_TANH": rnn_tanh,
    "RNN_RELU": rnn_relu,
    "LSTM": lstm,
    "GRU": gru,
}


def recurrent_layer(mode: str, x: Operands, batch_sizes: tuple[int, ...], reverse: bool = False) -> tuple[Tensor, ...]:
    """Run one direction of one layer over sequences.

    Parameters
    ----------
    mode
        ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
    x
        The input, the first states and the weights.
    batch_sizes
        How many sequences take every step.
    reverse
        Run from the last step to the first.

    Returns
    -------
    tuple of Tensor
        The hidden states at all steps, in the form of the input; the last hidden state of every sequence; for an LSTM,
        the last cells.
    """
    given = {name: value for name, value in zip(x._fields, x, strict=True) if value is not None}
    if not all(type(each._data) is np.ndarray and each._data.dtype.kind == "f" for each in given.values()):
        # complex numbers, batches of vmap and arrays of other libraries
        return tuple(over_time(mode, x, batch_sizes, reverse))
    return _LAYERS[mode](list(given.values()), Options(tuple(given), batch_sizes, reverse))
