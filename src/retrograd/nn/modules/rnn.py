"""Recurrent networks: Elman's, LSTM and GRU, over whole sequences."""

from __future__ import annotations

import math
from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import empty, zeros
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn._packed_sequence import PackedSequence
from retrograd.nn.modules._rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.utils import unless_default
from retrograd.nn.parameter import Parameter
from retrograd.ops.joining import cat, stack
from retrograd.ops.recurrent import GATES, Operands, recurrent_layer

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]


def _check(
    mode: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    batch_first: bool,
    dropout: float,
    bidirectional: bool,
    proj_size: int,
) -> None:
    """Raise, in torch's words, if a layer cannot be made of these options."""
    for name, flag in (("bias", bias), ("batch_first", batch_first), ("bidirectional", bidirectional)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
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
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    if dropout and num_layers == 1:
        warn_user(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        )


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
        self.dropout = float(dropout)
        _check(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                for name, shape in self._shapes(layer).items():
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

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of either direction, by name."""
        gates, output = GATES[self.mode] * self.hidden_size, self._output_size
        incoming = self.input_size if layer == 0 else output * self._num_directions
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, incoming), "weight_hh": (gates, output)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def _weights(self, suffix: str) -> dict[str, Any]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return {name: getattr(self, name + suffix, None) for name in names}

    @property
    def _all_weights(self) -> list[list[str]]:
        """The names of the parameters, for every direction of every layer."""
        return [
            [name + suffix for name in self._shapes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, for every direction of every layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        """The names of all parameters, by which programs initialize or drop weights."""
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform on ``±1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: the layout in memory does not matter here."""

    def extra_repr(self) -> str:
        """Return the parameters that are not those by default."""
        options = {
            "proj_size": (self.proj_size, 0),
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0),
            "bidirectional": (self.bidirectional, False),
        }
        return f"{self.input_size}, {self.hidden_size}{unless_default(options)}"


class _Network(RNNBase):
    """The layers of an RNN as they run over sequences. As in torch, :class:`RNNBase` itself cannot be called."""

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Return the hidden states of the last layer at all times, and the last state of every layer and direction.

        Parameters
        ----------
        input
            Of shape ``(L, N, input_size)``, ``(N, L, input_size)`` if ``batch_first``, or ``(L, input_size)``; or
            sequences of different lengths, as :func:`~retrograd.nn.utils.rnn.pack_padded_sequence` packs them.
        hx
            The first states, of shape ``(num_layers * directions, N, hidden_size)``; a pair for an LSTM. Zero by
            default.

        Returns
        -------
        output
            In the form of the input, packed if that is, with the states of both directions side by side.
        last states
            In the form of ``hx``.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(f"{self!r}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        self._check_input(input)
        batched = input.ndim == 3
        by_step: Tensor = input
        if not batched:
            by_step = input.unsqueeze(1)
        elif self.batch_first:
            by_step = input.transpose(0, 1)
        if not len(by_step):
            raise RuntimeError(f"{self!r}: Expected sequence length to be larger than 0 in RNN")
        if hx is not None and not batched:
            hx = self._each_state(self._checked(hx, 2), lambda state: state.unsqueeze(1))
        output, last = self._run_layers(by_step, (by_step.shape[1],) * len(by_step), hx)
        if not batched:
            return output.squeeze(1), self._each_state(last, lambda state: state.squeeze(1))
        return output.transpose(0, 1) if self.batch_first else output, last

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        self._check_input(data)
        sizes = tuple(batch_sizes.tolist())
        if data.ndim != 2 or not sizes or sum(sizes) != len(data) or list(sizes) != sorted(sizes, reverse=True):
            raise RuntimeError(
                f"{self!r}: a packed sequence must have data of shape [rows, {self.input_size}] and batch_sizes that "
                f"do not increase and sum up to the number of rows, got {list(data.shape)} and {list(sizes)}; make it "
                "with pack_padded_sequence or pack_sequence"
            )
        output, last = self._run_layers(data, sizes, hx, order)
        if back is not None:
            last = self._each_state(last, lambda state: state.index_select(1, back))
        return PackedSequence(output, batch_sizes, order, back), last

    def _run_layers(
        self, input: Tensor, batch_sizes: tuple[int, ...], hx: Any, order: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The output of the last layer and the last states; ``order`` is how the sequences were sorted."""
        states = self._first_states(input, hx, batch_sizes[0], order)
        last: list[tuple[Tensor, ...]] = []
        for number in range(self.num_layers):
            outputs = []
            for backwards, suffix in enumerate(self._suffixes(number)):
                x = Operands(input, **states[len(last)], **self._weights(suffix))
                output, *state = recurrent_layer(self.mode, x, batch_sizes, bool(backwards))
                outputs.append(output)
                last.append(tuple(state))
            input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
            if self.dropout and self.training and number < self.num_layers - 1:
                input = F.dropout(input, self.dropout)
        joined = [parts[0].unsqueeze(0) if len(parts) == 1 else stack(parts) for parts in zip(*last, strict=True)]
        return input, self._as_given(joined)

    def _check_input(self, input: Tensor) -> None:
        if input.shape[-1:] != (self.input_size,):
            raise RuntimeError(
                f"{self!r}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1] if input.ndim else 'none'} in an input of shape {list(input.shape)}"
            )
        dtype = self.weight_ih_l0.dtype
        if input.dtype != dtype:
            raise ValueError(
                f"{self!r}: RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )

    # A state is the hidden state, or for an LSTM a pair of that and the cell.

    _state_names: tuple[str, ...] = ("hidden",)

    def _state_size(self, name: str) -> int:
        return self.hidden_size if name == "cell" else self._output_size

    def _parts(self, hx: Any) -> tuple[Tensor, ...]:
        if not isinstance(hx, Tensor):
            raise AttributeError(f"{self!r}: hx must be a tensor, the hidden state, got {type(hx).__name__}")
        return (hx,)

    def _as_given(self, parts: list[Tensor]) -> Any:
        """A state from its parts, in the form in which users give it."""
        return parts[0]

    def _each_state(self, hx: Any, function: Any) -> Any:
        return self._as_given([function(part) for part in self._parts(hx)])

    def _checked(self, hx: Any, ndim: int) -> Any:
        """The states, after checking that their number of dimensions matches the input."""
        for part in self._parts(hx):
            if part.ndim != ndim:
                input = "unbatched 2-D" if ndim == 2 else "batched 3-D"
                raise RuntimeError(
                    f"{self!r}: For {input} input, hx should also be {ndim}-D but got {part.ndim}-D tensor"
                )
        return hx

    def _first_states(self, input: Tensor, hx: Any, batch: int, order: Tensor | None) -> list[dict[str, Tensor]]:
        """The first state of every direction of every layer: zeros, or what the user gave."""
        count = self.num_layers * self._num_directions
        if hx is None:
            sizes = [self._state_size(name) for name in self._state_names]
            made = {size: zeros((batch, size), dtype=input.dtype, device=input.device) for size in set(sizes)}
            return [dict(zip(self._state_names, [made[size] for size in sizes], strict=True))] * count
        parts = self._parts(self._checked(hx, 3))
        for position, (name, part) in enumerate(zip(self._state_names, parts, strict=True)):
            expected = (count, batch, self._state_size(name))
            what = "hidden" if len(parts) == 1 else f"hidden[{position}]"
            if tuple(part.shape) != expected:
                raise RuntimeError(f"{self!r}: Expected {what} size {expected}, got {list(part.shape)}")
            if part.dtype != input.dtype:
                raise RuntimeError(f"{self!r}: Expected {what} of {input.dtype}, as the input, got {part.dtype}")
        unbound = [(part if order is None else part.index_select(1, order)).unbind(0) for part in parts]
        return [dict(zip(self._state_names, each, strict=True)) for each in zip(*unbound, strict=True)]


def _check_not_projected(proj_size: Any) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(_Network):
    """Elman's network: ``h' = tanh(w_ih x + b_ih + w_hh h + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size, num_layers
        The sizes of input and state, and how many layers lie over each other.
    nonlinearity
        ``"tanh"`` or ``"relu"``.
    bias, batch_first, dropout, bidirectional
        As of :class:`LSTM`.
    proj_size
        Not to be given: only an LSTM projects.
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
        proj_size: None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        _check_not_projected(proj_size)
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


class GRU(_Network):
    """Gated recurrent units (Cho et al., 2014).

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As of :class:`LSTM`.
    proj_size
        Not to be given: only an LSTM projects.
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
        proj_size: None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _check_not_projected(proj_size)
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


class LSTM(_Network):
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

    _state_names = ("hidden", "cell")

    def _parts(self, hx: Any) -> tuple[Tensor, ...]:
        if not isinstance(hx, (tuple, list)) or len(hx) != 2:
            raise RuntimeError(
                f"{self!r}: hx must be a pair of tensors, the hidden state and the cell, got "
                f"{f'{len(hx)} of them' if isinstance(hx, (tuple, list)) else type(hx).__name__}"
            )
        return tuple(hx)

    def _as_given(self, parts: list[Tensor]) -> Any:
        return tuple(parts)
