"""Recurrent networks: Elman's, LSTM and GRU, over whole sequences and step by step."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty, zeros
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._recurrence import GATES, STEPS, Weights, gates_of_input, over_time
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.ops.joining import cat, stack

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# --- over sequences ---------------------------------------------------------------------------------------------------


class RNNBase(Module):
    """What :class:`RNN`, :class:`LSTM` and :class:`GRU` share.

    Parameters
    ----------
    mode
        ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size
        As of :class:`LSTM`.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero, got {size}")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
                f"got {dropout}"
            )
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size should be a positive integer smaller than hidden_size, or zero to disable projections, "
                f"got {proj_size}"
            )
        if mode not in STEPS:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        gates = GATES[mode] * hidden_size
        output = self._output_size
        for layer in range(num_layers):
            incoming = input_size if layer == 0 else output * self._num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, incoming), "weight_hh": (gates, output)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in self._suffixes(layer):
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def _num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._num_directions]

    def _weights(self, suffix: str) -> Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return Weights(*(getattr(self, name + suffix, None) for name in names))

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, for every direction of every layer."""
        names = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * self.bias + ["weight_hr"] * bool(self.proj_size)
        return [
            [getattr(self, name + suffix) for name in names]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform on ``±1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: the layout in memory does not matter here."""

    def extra_repr(self) -> str:
        """Return the parameters that are not those by default."""
        unless_default = {
            "proj_size": (self.proj_size, 0),
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0),
            "bidirectional": (self.bidirectional, False),
        }
        text = f"{self.input_size}, {self.hidden_size}"
        return text + "".join(f", {name}={value}" for name, (value, usual) in unless_default.items() if value != usual)

    # --- forward --------------------------------------------------------------------------------------------------

    def _check_input(self, input: Tensor) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"{self!r}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{self!r}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]} in an input of shape {list(input.shape)}"
            )
        dtype = self.weight_ih_l0.dtype
        if input.dtype != dtype:
            raise ValueError(f"{self!r}: input must have the type {dtype}, got type {input.dtype}")

    def _initial(self, input: Tensor, given: Any, batched: bool, size: int, what: str) -> Tensor:
        """What a state begins with: zeros, or what the user gave."""
        shape = (self.num_layers * self._num_directions, input.shape[1], size)
        if given is None:
            return zeros(shape, dtype=input.dtype, device=input.device)
        if given.ndim != (3 if batched else 2):
            raise RuntimeError(
                f"{self!r}: For {'batched 3' if batched else 'unbatched 2'}-D input, {what} should also be "
                f"{3 if batched else 2}-D but got {given.ndim}-D tensor"
            )
        given = given if batched else given.unsqueeze(1)
        if tuple(given.shape) != shape:
            raise RuntimeError(f"{self!r}: Expected {what} size {shape}, got {list(given.shape)}")
        return given

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Return the hidden states of the last layer at all times, and the last state of every layer and direction.

        Parameters
        ----------
        input
            Of shape ``(L, N, input_size)``, ``(N, L, input_size)`` if ``batch_first``, or ``(L, input_size)``.
        hx
            The first states, of shape ``(num_layers * directions, N, hidden_size)``; a pair for an LSTM. Zero by
            default.
        """
        self._check_input(input)
        batched = input.ndim == 3
        if not batched:
            input = input.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        states = self._first_states(input, hx, batched)
        last: list[Any] = []
        for layer in range(self.num_layers):
            outputs = []
            for backwards, suffix in enumerate(self._suffixes(layer)):
                output, state = over_time(
                    self.mode, input, states[len(last)], self._weights(suffix), backwards=bool(backwards)
                )
                outputs.append(output)
                last.append(state)
            input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout)
        if not batched:
            input = input.squeeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        return input, self._last_states(last, batched)

    def _first_states(self, input: Tensor, hx: Any, batched: bool) -> list[Any]:
        """The first state of every direction of every layer."""
        return list(self._initial(input, hx, batched, self.hidden_size, "hidden").unbind(0))

    def _last_states(self, last: list[Any], batched: bool) -> Any:
        stacked = stack(last)
        return stacked if batched else stacked.squeeze(1)


class RNN(RNNBase):
    """Elman's network: ``h' = tanh(w_ih x + b_ih + w_hh h + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size, num_layers
        The sizes of input and state, and how many layers lie over each other.
    nonlinearity
        ``"tanh"`` or ``"relu"``.
    bias, batch_first, dropout, bidirectional
        As of :class:`LSTM`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014).

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As of :class:`LSTM`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter, Schmidhuber, 1997).

    Parameters
    ----------
    input_size, hidden_size, num_layers
        The sizes of input and state, and how many layers lie over each other.
    bias
        Whether there are biases.
    batch_first
        Whether input and output are ``(N, L, size)`` instead of ``(L, N, size)``.
    dropout
        The probability of dropout between layers.
    bidirectional
        Run over the sequence in both directions, and put both hidden states side by side.
    proj_size
        Project the hidden state to this size; 0 leaves it.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0
        And so on for every layer, with ``_reverse`` for the other direction. The gates input, forget, cell, output lie
        below each other.

    Examples
    --------
    >>> lstm = rg.nn.LSTM(10, 20, num_layers=2)
    >>> output, (h, c) = lstm(rg.randn(5, 3, 10))
    >>> output.shape, h.shape
    (retrograd.Size([5, 3, 20]), retrograd.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _first_states(self, input: Tensor, hx: Any, batched: bool) -> list[Any]:
        hidden, cell = (None, None) if hx is None else hx
        return list(
            zip(
                self._initial(input, hidden, batched, self._output_size, "hidden[0]").unbind(0),
                self._initial(input, cell, batched, self.hidden_size, "hidden[1]").unbind(0),
                strict=True,
            )
        )

    def _last_states(self, last: list[Any], batched: bool) -> Any:
        return tuple(super(LSTM, self)._last_states(list(part), batched) for part in zip(*last, strict=True))


# --- step by step -----------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: one step of one layer.

    Parameters
    ----------
    input_size, hidden_size
        The sizes of input and state.
    bias
        Whether there are biases.
    num_chunks
        How many gates there are.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(gates, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(gates, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(gates, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform on ``±1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes, and what is not as by default."""
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"

    def _step(self, mode: str, input: Tensor, *states: Tensor | None) -> Any:
        if input.ndim not in (1, 2):
            raise ValueError(f"{self!r}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{self!r}: input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        given = [zeros(shape, dtype=input.dtype, device=input.device) if state is None else state for state in states]
        for number, state in enumerate(given):
            name = f"hidden{number or ''}"
            if state.ndim not in (1, 2):
                raise ValueError(f"{self!r}: Expected {name} to be 1D or 2D, got {state.ndim}D instead")
            if tuple(state.shape) != shape:
                raise RuntimeError(f"{self!r}: Expected {name} of shape {list(shape)}, got {list(state.shape)}")
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return STEPS[mode](gates_of_input(mode, input, weights), tuple(given) if mode == "LSTM" else given[0], weights)


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`.

    Parameters
    ----------
    input_size, hidden_size, bias, nonlinearity
        As of :class:`RNN`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, hx)

    def extra_repr(self) -> str:
        """Return the sizes, and what is not as by default."""
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`.

    Parameters
    ----------
    input_size, hidden_size, bias
        As of :class:`LSTM`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden state and cell."""
        return self._step("LSTM", input, *((None, None) if hx is None else hx))


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`.

    Parameters
    ----------
    input_size, hidden_size, bias
        As of :class:`GRU`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._step("GRU", input, hx)
