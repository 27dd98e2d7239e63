"""Recurrent networks one step at a time."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.creation import empty, zeros
from retrograd.nn import init
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import unless_default
from retrograd.nn.parameter import Parameter
from retrograd.ops.recurrent import STEPS, Operands, gates_of_input


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
        return f"{self.input_size}, {self.hidden_size}{unless_default({'bias': (self.bias, True)})}"

    def _step(self, mode: str, input: Tensor, *states: Tensor | None) -> tuple[Tensor, ...]:
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
        x = Operands(input, given[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return STEPS[mode](gates_of_input(mode, x, input), tuple(given), x)


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
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, hx)[0]

    def extra_repr(self) -> str:
        """Return the sizes, and what is not as by default."""
        return super().extra_repr() + unless_default({"nonlinearity": (self.nonlinearity, "tanh")})


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
        if isinstance(hx, Tensor):
            raise TypeError(f"{self!r}: argument 'hx' must be a tuple (h, c) of two Tensors, not Tensor")
        hidden, cell = self._step("LSTM", input, *((None, None) if hx is None else hx))
        return hidden, cell


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
        return self._step("GRU", input, hx)[0]
