"""One direction of one recurrent layer over whole sequences, on arrays.

The input's part in the gates of all steps is one matrix product, and so are the gradients of the weights. In between
goes a loop that does nothing but what depends on the step before: forward, a product with the hidden state and the
nonlinearities; backward, whose coefficients are computed for many steps at once, a few multiplications and a product.
The gates of a step lie apart, each a matrix with a row for every sequence, so that all of this is contiguous.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrograd.core.reductions import reduce
from retrograd.ops.norm_layers import in_single
from retrograd.ops.recurrent.runs import reversal, runs_of
from retrograd.ops.recurrent.steps import Operands

# Numbers that are worked on at a time, for several steps at once; they fit the second-level cache.
BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of an operation besides tensors.

    Attributes
    ----------
    names
        Which of the :class:`Operands` they are.
    batch_sizes
        How many sequences take every step.
    reverse
        Whether the sequences run backwards.
    """

    names: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    reverse: bool


class Recurrence:
    """What all kinds of networks share; they say what happens in a run of steps, forward and backward.

    Attributes
    ----------
    scale
        For every gate, what its argument is multiplied with before the nonlinearity: 1/2 makes a hyperbolic tangent a
        logistic function.
    slots
        How many matrices are kept of every step: those of the gates, and perhaps another one.
    """

    scale: tuple[float, ...]
    slots: int

    def __init__(self, x: Operands, options: Options) -> None:
        self.x = x = Operands(*in_single(*x))
        self.count = len(self.scale)
        self.size = len(x.weight_hh) // self.count
        self.runs = runs_of(options.batch_sizes)
        self.order = reversal(options.batch_sizes) if options.reverse else None
        self.input = self._ordered(x.input.reshape(-1, x.input.shape[-1]))

    def _ordered(self, rows: Any) -> Any:
        """Rows of the sequences, in the order in which they run; or back from there."""
        return rows if self.order is None else rows[self.order]

    def _by_gate(self, weight: Any) -> Any:
        return weight.reshape(self.count, self.size, weight.shape[-1])

    # --- forward --------------------------------------------------------------------------------------------------

    def forward(self) -> tuple[list[Any], list[Any], Any]:
        """The results: hidden states and last states; and what backward needs: all states, and the gates."""
        x, count, size = self.x, self.count, self.size
        first = [x.hidden] if x.cell is None else [x.hidden, x.cell]
        last = [np.empty_like(each) for each in first]
        dtype, rows = self.input.dtype, len(self.input) + sum(run.batch for run in self.runs)
        states = [np.empty((rows, each.shape[1]), dtype, like=each) for each in first]
        gates = np.empty((len(self.input) * self.slots, size), dtype, like=self.input)
        scale = np.array(self.scale, dtype)[:, None, None]
        weight = np.multiply(self._by_gate(x.weight_hh), scale).swapaxes(1, 2).copy()
        of_input = self._part_of_input(scale)
        before = first
        for run in self.runs:
            within = [run.states(each) for each in states]
            for own, given in zip(within, before, strict=True):
                own[0] = given[: run.batch]
            own_gates, arriving = run.gates(gates, self.slots), run.rows(self.input)
            for start, stop in _blocks(run.steps, count * run.batch * size):
                of_input(arriving[start:stop], own_gates[start:stop, :count])
            self.advance(own_gates, within, weight)
            before = [own[-1] for own in within]
            for result, own in zip(last, before, strict=True):
                result[: run.batch] = own
        hidden = [run.states(states[0])[1:].reshape(-1, x.hidden.shape[1]) for run in self.runs]
        output = self._ordered(np.concatenate(hidden))
        return [output.reshape((*x.input.shape[:-1], output.shape[-1])), *last], states, gates

    def _part_of_input(self, scale: Any) -> Callable[[Any, Any], None]:
        """A function of some steps of the input that writes its part in the gates, scaled."""
        weight = (self._by_gate(self.x.weight_ih) * scale).reshape(self.x.weight_ih.shape).T
        bias = self._input_bias()
        if bias is not None:
            bias = (bias.reshape(self.count, self.size) * scale[:, 0]).reshape(-1)

        def write(input: Any, gates: Any) -> None:
            steps, batch, features = input.shape
            rows = input.reshape(-1, features) @ weight
            if bias is not None:
                rows += bias
            gates[...] = rows.reshape(steps, batch, self.count, self.size).swapaxes(1, 2)

        return write

    def _input_bias(self) -> Any:
        """What is added to the gates at every step."""
        x = self.x
        return None if x.bias_ih is None else x.bias_ih + x.bias_hh

    def advance(self, gates: Any, states: list[Any], weight: Any) -> None:
        """Fill in the states after every step of a run.

        Parameters
        ----------
        gates
            (steps, slots, batch, size): the input's part in the gates; becomes what backward needs of them.
        states
            (steps + 1, batch, size) each, of which the first is known.
        weight
            (gates, hidden, size): what the hidden state is multiplied with; scaled.
        """
        raise NotImplementedError

    # --- backward -------------------------------------------------------------------------------------------------

    def backward(self, g: list[Any], states: list[Any], gates: Any, wanted: Collection[str]) -> dict[str, Any]:
        """The gradients of the operands that are wanted, for those of the hidden states and of the last states."""
        x = self.x
        output, *last = in_single(*g)
        incoming = self._ordered(output.reshape(-1, output.shape[-1]))
        at_input, at_hidden = self._gradients_of_gates(len(self.input))
        carried, later = [each[:0] for each in last], 0
        for run in reversed(self.runs):
            # here sequences end
            carried = [np.concatenate([old, new[later : run.batch]]) for old, new in zip(carried, last, strict=True)]
            later = run.batch
            rows = [run.rows(each) for each in (incoming, at_input, at_hidden)]
            within = [run.states(each) for each in states]
            own_gates = None if gates is None else run.gates(gates, self.slots)
            for start, stop in reversed(_blocks(run.steps, self.slots * run.batch * self.size)):
                some = [each[start:stop] for each in rows]
                kept = None if own_gates is None else own_gates[start:stop]
                carried = self.retreat(kept, [each[start : stop + 1] for each in within], carried, some)
        found = dict(zip(("hidden", "cell"), carried, strict=False))
        if "input" in wanted:
            found["input"] = self._ordered(at_input @ x.weight_ih).reshape(x.input.shape)
        if "weight_ih" in wanted:
            found["weight_ih"] = at_input.T @ self.input
        if "weight_hh" in wanted:
            products = [_products(run.rows(at_hidden), run.states(states[0])[:-1]) for run in self.runs]
            found["weight_hh"] = functools.reduce(operator.iadd, products)
        for name, at in (("bias_ih", at_input), ("bias_hh", at_hidden)):
            if name in wanted:
                found[name] = reduce(np.add, at, 0)
        return found

    def _gradients_of_gates(self, rows: int) -> tuple[Any, Any]:
        """Room for the gradients of the gates before their nonlinearities, as far as they come from input and state."""
        both = np.empty((rows, self.count * self.size), self.input.dtype, like=self.input)
        return both, both

    def retreat(self, gates: Any, states: list[Any], carried: list[Any], rows: list[Any]) -> list[Any]:
        """Go back through some steps.

        Parameters
        ----------
        gates, states
            What :meth:`advance` made of them; no gates, where the states tell enough.
        carried
            The gradients of the states after these steps, as far as they come from later steps; may be written over.
        rows
            (steps, batch, ...) each: the gradients of the hidden states as far as they come from outside, and room for
            those of the gates.

        Returns
        -------
        list
            The gradients of the states before these steps.
        """
        raise NotImplementedError


def _blocks(steps: int, length: int) -> list[tuple[int, int]]:
    """Where blocks of steps start and stop, if ``length`` numbers belong to a step."""
    size = max(BLOCK // max(length, 1), 1)
    return [(start, min(start + size, steps)) for start in range(0, steps, size)]


def _products(g: Any, x: Any) -> Any:
    """The gradient of a matrix that all rows of ``x`` are multiplied with."""
    return g.reshape(-1, g.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def by_row(gradients: Any, rows: Any) -> None:
    """Write gradients, (steps, gates, batch, size), where those of a row are wanted side by side."""
    steps, count, batch, size = gradients.shape
    rows.reshape(steps, batch, count, size)[...] = gradients.swapaxes(1, 2)
