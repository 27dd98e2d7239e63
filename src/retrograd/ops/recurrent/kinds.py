"""The kinds of recurrent networks: a step forward, its coefficients, a step backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.ops.recurrent.recurrence import Options, Recurrence, by_row
from retrograd.ops.recurrent.steps import Operands


class Lstm(Recurrence):
    """Long short-term memory: ``c' = f c + i g``, ``h' = o tanh(c')``; the gates are i, f, g, o."""

    scale = (0.5, 0.5, 1.0, 0.5)
    slots = 4

    def __init__(self, x: Operands, options: Options) -> None:
        super().__init__(x, options)
        self.of_projection: Any = 0

    def advance(self, gates: Any, states: list[Any], weight: Any) -> None:
        hidden, cell = states
        shape = gates.shape[1:]
        scale = np.empty(shape, gates.dtype, like=gates)
        scale[...] = np.array(self.scale)[:, None, None]
        shift = 1 - scale
        of_hidden, other = np.empty_like(scale), np.empty_like(scale[0])
        projection = None if self.x.weight_hr is None else self.x.weight_hr.T
        # bound to names of their own, because a step of a small network takes a few microseconds
        matmul, multiply, tanh = np.matmul, np.multiply, np.tanh
        for own, i, f, g, o, h, c, next_h, next_c in zip(
            gates, *gates.swapaxes(0, 1), hidden, cell, hidden[1:], cell[1:], strict=False
        ):
            matmul(h, weight, of_hidden)
            own += of_hidden
            tanh(own, own)
            own *= scale
            own += shift
            multiply(f, c, next_c)
            multiply(i, g, other)
            next_c += other
            tanh(next_c, other)
            if projection is None:
                multiply(o, other, next_h)
            else:
                other *= o
                matmul(other, projection, next_h)

    def retreat(self, gates: Any, states: list[Any], carried: list[Any], rows: list[Any]) -> list[Any]:
        incoming, at_gates, _ = rows
        cell = states[1]
        i, f, g, o = gates.swapaxes(0, 1)
        squashed = np.tanh(cell[1:])
        # the derivatives of the new hidden state by the cell, and of cell and hidden state by the gates
        by_cell = o * (1 - squashed * squashed)
        by_gates = 1 - gates
        by_gates *= gates
        by_gates[:, 0] *= g
        by_gates[:, 1] *= cell[:-1]
        np.multiply(i, 1 - g * g, by_gates[:, 2])
        by_gates[:, 3] *= squashed
        weight, projection = self._by_gate(self.x.weight_hh), self.x.weight_hr
        at_hidden, at_cell = carried
        passed = np.empty((self.count, *at_hidden.shape), gates.dtype, like=gates)
        at_output = np.empty_like(incoming) if projection is not None else incoming
        matmul, multiply, reduce = np.matmul, np.multiply, np.add.reduce
        last_first = [
            each[::-1] for each in (by_gates, by_gates[:, :3], by_gates[:, 3], by_cell, f, incoming, at_output)
        ]
        for own, first_three, by_o, through, forgotten, arriving, here in zip(*last_first, strict=True):
            at_hidden += arriving
            if projection is not None:
                here[...] = at_hidden
                at_hidden = at_hidden @ projection
            through *= at_hidden
            at_cell += through
            multiply(first_three, at_cell, first_three)
            by_o *= at_hidden
            at_cell *= forgotten
            at_hidden = reduce(matmul(own, weight, passed), 0)
        by_row(by_gates, at_gates)
        if projection is not None:
            self.of_projection += np.tensordot(at_output, o * squashed, ([0, 1], [0, 1]))
        return [at_hidden, at_cell]

    def backward(self, *args: Any) -> dict[str, Any]:
        return {**super().backward(*args), "weight_hr": self.of_projection}


class Gru(Recurrence):
    """Gated recurrent units: ``n = tanh(x + r s)``, ``h' = n + z (h - n)``; the gates are r, z, n.

    Here x is the input's part in the candidate n and s the hidden state's, which is kept in the fourth slot.
    """

    scale = (0.5, 0.5, 1.0)
    slots = 4

    def _input_bias(self) -> Any:
        if self.x.bias_ih is None:
            return None
        bias = self.x.bias_ih + self.x.bias_hh
        bias[2 * self.size :] = self.x.bias_ih[2 * self.size :]
        return bias

    def advance(self, gates: Any, states: list[Any], weight: Any) -> None:
        (hidden,) = states
        of_hidden = np.empty((3, *gates.shape[2:]), gates.dtype, like=gates)
        of_both, of_candidate = of_hidden[:2], of_hidden[2]
        bias = np.zeros_like(of_candidate)
        if self.x.bias_hh is not None:
            bias += self.x.bias_hh[2 * self.size :]
        matmul, add, multiply, tanh = np.matmul, np.add, np.multiply, np.tanh
        for both, r, z, n, s, h, next_h in zip(gates[:, :2], *gates.swapaxes(0, 1), hidden, hidden[1:], strict=False):
            matmul(h, weight, of_hidden)
            both += of_both
            tanh(both, both)
            both *= 0.5
            both += 0.5
            add(of_candidate, bias, s)
            multiply(r, s, of_candidate)
            n += of_candidate
            tanh(n, n)
            np.subtract(h, n, next_h)
            next_h *= z
            next_h += n

    def _gradients_of_gates(self, rows: int) -> tuple[Any, Any]:
        first, second = np.empty((2, rows, self.count * self.size), self.input.dtype, like=self.input)
        return first, second

    def retreat(self, gates: Any, states: list[Any], carried: list[Any], rows: list[Any]) -> list[Any]:
        incoming, at_input, at_hidden_gates = rows
        (hidden,) = states
        r, z, n, s = gates.swapaxes(0, 1)
        # the derivatives of the new hidden state by the arguments of r and z, by s, and by the argument of n
        by_gates = np.empty_like(gates)
        by_r, by_z, by_s, by_n = by_gates.swapaxes(0, 1)
        np.multiply(1 - z, 1 - n * n, by_n)
        np.multiply(by_n, r, by_s)
        np.multiply(by_s, (1 - r) * s, by_r)
        np.multiply(hidden[:-1] - n, z * (1 - z), by_z)
        weight = self._by_gate(self.x.weight_hh)
        (at_hidden,) = carried
        passed = np.empty((4, *at_hidden.shape), gates.dtype, like=gates)
        products, kept = passed[:3], passed[3]
        matmul, multiply, reduce = np.matmul, np.multiply, np.add.reduce
        last_first = [each[::-1] for each in (by_gates, by_gates[:, :3], z, incoming)]
        for own, first_three, unchanged, arriving in zip(*last_first, strict=True):
            at_hidden += arriving
            multiply(own, at_hidden, own)
            matmul(first_three, weight, products)
            multiply(at_hidden, unchanged, kept)
            at_hidden = reduce(passed, 0)
        by_row(by_gates[:, :3], at_hidden_gates)
        by_gates[:, 2] = by_n
        by_row(by_gates[:, :3], at_input)
        return [at_hidden]


class Elman(Recurrence):
    """Elman's network, whose hidden state is a nonlinear function of the only gate."""

    scale = (1.0,)
    slots = 1

    @staticmethod
    def _activate(x: Any, out: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def _derivative(result: Any) -> Any:
        """The derivative of the nonlinearity, from its result."""
        raise NotImplementedError

    def advance(self, gates: Any, states: list[Any], weight: Any) -> None:
        (hidden,) = states
        (matrix,) = weight
        matmul, activate = np.matmul, self._activate
        for own, h, next_h in zip(gates[:, 0], hidden, hidden[1:], strict=False):
            matmul(h, matrix, next_h)
            own += next_h
            activate(own, next_h)

    def retreat(self, gates: Any, states: list[Any], carried: list[Any], rows: list[Any]) -> list[Any]:
        incoming, at_gates, _ = rows
        (hidden,) = states
        by_gates = self._derivative(hidden[1:])
        (at_hidden,) = carried
        matmul, weight = np.matmul, self.x.weight_hh
        for own, arriving in zip(by_gates[::-1], incoming[::-1], strict=True):
            at_hidden += arriving
            own *= at_hidden
            matmul(own, weight, at_hidden)
        at_gates[...] = by_gates
        return [at_hidden]


class Tanh(Elman):
    """Elman's network with a hyperbolic tangent."""

    @staticmethod
    def _activate(x: Any, out: Any) -> None:
        np.tanh(x, out)

    @staticmethod
    def _derivative(result: Any) -> Any:
        return 1 - result * result


class Relu(Elman):
    """Elman's network with a rectifier."""

    @staticmethod
    def _activate(x: Any, out: Any) -> None:
        np.maximum(x, 0, out=out)

    @staticmethod
    def _derivative(result: Any) -> Any:
        return (result > 0).astype(result.dtype)
