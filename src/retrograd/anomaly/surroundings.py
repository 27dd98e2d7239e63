"""What an adapter reports about the neighbourhood of a birth.

The operation, its operands and where they came from, and who used its result.

No type of any tensor library appears here: the same records describe retrograd's own graph and PyTorch's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_CELL = re.compile(r"Cell In\[\d+\]$")  # as IPython shows their names


class Place(NamedTuple):
    """Where a line of the program stands: its number, its file, and the qualified name of its function."""

    lineno: int
    filename: str | None = None
    function: str | None = None

    @staticmethod
    def told(line: Mapping[str, Any]) -> Place | None:
        """The place of a line in the context of an event, which has ``"lineno"``, ``"filename"`` and ``"function"``."""
        number = line.get("lineno")
        return None if number is None else Place(number, line.get("filename"), line.get("function"))

    def is_in_file_of(self, other: Place) -> bool:
        """Whether both are in the same file, as far as that is known."""
        return None in (self.filename, other.filename) or self.filename == other.filename

    def follows(self, other: Place) -> bool:
        """Whether it stands below the other line; another cell of a notebook is taken to have been run before."""
        return other.lineno < self.lineno or not self.is_in_file_of(other)

    def sees(self, other: Place) -> bool:
        """Whether the variables of the other line are visible under their names in this one, as far as that is known.

        They are in the same function, and in lambdas and comprehensions inside it.
        """
        if not self.is_in_file_of(other):  # except cells of a notebook, which share their variables
            return all(_CELL.match(each.filename or "") and each.function == "<module>" for each in (self, other))
        if None in (self.function, other.function) or self.function == other.function:
            return True
        around = "" if other.function == "<module>" else f"{other.function}.<locals>."
        own = str(self.function)
        inside = own.removeprefix(around).split(".<locals>.")
        return own.startswith(around) and own != "<module>" and all(each.startswith("<") for each in inside)


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One argument of an operation, as it was at the element where the value was born.

    Parameters
    ----------
    name
        torch's name of the parameter: ``"input"``, ``"other"``, ``"dim"``.
    value
        The number at the element (after broadcasting), or the whole argument if it is a plain one; None if unknown.
    min, max
        The extremes of all the elements that feed the born one (the row of a softmax, everything that a sum adds up);
        None where that is one element only, or unknown.
    shape, dtype
        Of the tensor; None for a plain argument.
    requires_grad
        Whether a gradient flows to it.
    producer
        The operation that made it; None for a leaf, and beyond the depth that the adapter looked (six operations are
        enough).
    leaf_name
        The name of a leaf where one is known: a parameter's name, a variable's name.
    text
        How the user's line spells it. The catalogue reads it from ``code_line``; an adapter need not give it.
    constant
        Whether it is a plain argument (a Python number, an option) rather than a tensor.
    key
        The same number for the same tensor, such as ``id(tensor)``; None if unknown.
    """

    name: str
    value: Any = None
    min: Any = None
    max: Any = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    requires_grad: bool = False
    producer: Operation | None = None
    leaf_name: str | None = None
    text: str | None = None
    constant: bool = False
    key: int | None = None


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the program.

    ``op`` is its name in any library's spelling, ``args`` its operands in the order of torch's parameters,
    ``code_line`` the user's line (or whole statement), ``lineno`` its number, ``col`` where in it the operation is
    written, ``filename`` and ``function`` (its qualified name) where the line stands.
    """

    op: str
    args: tuple[Operand, ...] = ()
    code_line: str | None = None
    lineno: int | None = None
    col: int | None = None
    filename: str | None = None
    function: str | None = None

    @property
    def place(self) -> Place | None:
        """Where its line stands; None if that is not known."""
        return None if self.lineno is None else Place(self.lineno, self.filename, self.function)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The neighbourhood of a birth.

    Parameters
    ----------
    operation
        The operation that gave birth; for a birth in backward, the *forward* operation whose derivative did. None for
        a leaf.
    consumers
        The operations on the way from its result to the harm, nearest first, as records or just by name. (For a birth
        in backward, that is the way on which the gradient came.)
    grad_value
        For a birth in backward, the gradient that arrived at the element.
    library
        ``"torch"``, ``"retrograd"`` or ``"numpy"``: whose functions a remedy should name where the user's line does not
        tell.
    context
        What the monitor knows beyond operations. Keys, all optional:

        ``"leaf"``
            ``"batch"``, ``"target"``, ``"parameter"``, ``"buffer"``, ``"gradient"`` (one that was given, or changed by
            hand), ``"argument"`` (of a function that a transform differentiates), ``"setting"`` or
            ``"optimizer state"``: what a non-finite leaf is.
        ``"name"``
            The leaf's name: a variable such as ``"images"``, a parameter such as ``"encoder.0.weight"``.
        ``"untraced"``
            True if it is not known whether an operation made the leaf, one that no gradient goes through.
        ``"assigned"``
            The line that gave the leaf's variable its value, and its number, if they are known; the same of a number.
        ``"source"``
            The name again, if the leaf is not what the line of the event took, but what that was computed from.
        ``"in_branch"``
            True if that line runs on a condition only, so that it may not have run.
        ``"given"``
            What the line gives the layer that took a leaf without a name, as it is written: ``"x / scale"``.
        ``"inferred"``
            True if nothing has kept the number: it is the only thing of which nothing is known.
        ``"partners"``
            The variables that got their values together with the leaf's, itself among them, and that have as many
            samples: ``("x", "y")`` of ``for x, y in loader``.
        ``"entries_differ"``
            True if the leaf is an entry of a dictionary whose entries have not as many samples each.
        ``"taken"``
            Where to leave samples out, if the leaf's variable is of another function than the event's line: a dict with
            ``"filename"`` and ``"lineno"`` of the first line that has it; None if that is not known.
        ``"held_by"``
            The package that holds the leaf, where no variable of the program's own does: ``"skorch"``.
        ``"slice"``, ``"every"``
            Of a leaf: the indices that all its bad elements share, such as ``"[:, 2]"``; True if every sample has one.
        ``"graphed"``, ``"applied"``
            True if the step was one of a CUDA graph that was replayed; if its update was not held back.
        ``"bad_buffers"``
            The names of the buffers that are not finite, where a leaf has no name.
        ``"plain_array"``
            True if a leaf is a NumPy array, to which other functions apply than to tensors.
        ``"item"``
            How the line of a leaf's first use writes the item of it that it was given: ``"y"``, ``"series[k]"``.
        ``"earlier_runs"``
            Of an overflow: how many times its line has run before on what this run was computed from.
        ``"bad_members"``
            The names of the parameters and buffers that are not finite, of modules that may have made a leaf.
        ``"computed_by"``
            The modules that were called for a leaf's variable, as they are written, with their classes.
        ``"spoilt"``
            The name of a parameter that is not finite itself any more, where something else was to blame.
        ``"updates"``
            How many optimizer steps the leaf has seen since the watch began.
        ``"let_through"``
            The number of an earlier step whose update went on with a bad gradient, because the policy lets it.
        ``"distribution"``
            The class of the distribution in whose ``log_prob`` it was born, such as ``"Beta"``, if a variable holds it.
        ``"written"``
            The only line in the program's own modules that writes to a buffer which is not finite, or that replaces
            such a parameter: its text and number.
        ``"kept"``
            The lines outside of ``__init__`` that write to an attribute which is not finite: it is kept between steps.
        ``"constructed"``
            The line that makes a buffer which is not finite and which nothing has written to, and its number.
        ``"born_in_write"``
            The :class:`Operation` that would make such a value in that line from the numbers that it reads now.
        ``"returned"``
            How often gradients were returned instead, as by ``autograd.grad``.
        ``"asked"``
            True if the gradients were asked for, as by ``autograd.grad``: nothing is harmed by that alone.
        ``"searched_by"``
            The package whose optimizer wants the gradients, and chooses by itself where to go: ``"scipy"``.
        ``"clip_grad_norm"``
            A dict with ``"total_norm"`` and ``"max_norm"``, and ``"code_line"`` if known, of the clipping that met
            the non-finite gradient.
        ``"optimizer"``
            A dict with ``"name"`` (``"Adam"``) and its options (``"lr"``, ``"eps"``); given in every event of a
            training loop; ``"updating"`` True in it if the value was born inside its ``step``; ``"code_line"``,
            ``"lineno"`` and ``"filename"`` of its construction if known; ``"rate"``, a dict as the following one, of
            the learning rate that it is given (``"is_set"`` True in that where the program writes it into the groups);
            ``"own"`` True in it if its ``step`` is the program's own.
        ``"rate"``
            A dict about the one learning rate that the program writes into updates of its own: its ``"name"`` there (or
            the number), ``"lr"`` if it is a number, and, where that is known, the ``"code_line"``, ``"lineno"`` and
            ``"filename"``, and from ``"col"`` to ``"end_col"`` where in the line.
        ``"model"``
            The variable that holds the model, such as ``"net"``, if it is known.
        ``"update_ratio"``
            Norm of the last update of all parameters divided by the norm of the weights.
        ``"grown"``
            A dict about the leaf that has grown most since the first step, where it has by much: its ``"name"``, its
            norm ``"before"`` and ``"now"``, and after how many ``"updates"``.
        ``"loss_history"``, ``"grad_norm_history"``
            The last values, oldest first; None in steps in which nobody looked.
        ``"scale_history"``
            The last scales of a gradient scaler, oldest first; ``"scaled_on"``: the kind of device that the loss is on.
        ``"autocast"``
            The kind of device on which autocast made weights float16, around the birth or before it.
        ``"layers"``
            The layers of the last call of a model, as :class:`~retrograd.anomaly.NaNDetector` saw them: a dict for each
            with ``"layer"``, ``"absmin"`` and ``"absmax"`` of what it put out, and ``"before"``, the latter in earlier
            calls, oldest first.
        ``"called_in_backward"``
            True if a hook, or the backward of a Function of the user's, has called the operation: what it gave was
            born, and not its derivative.
        ``"unkept"``
            True if something that went into the operation was not kept, so that the birth may lie in what made that.
        ``"unseen"``
            True if it was born where nothing was looked at, as inside of a Function of the user's.
        ``"second_derivative"``
            True if a rule has called the operation while it was recorded for another derivative: ``code_line`` is that
            of the operation whose rule it is.
        ``"forward_mode"``
            True if it is a tangent, of forward mode, that was born.
        ``"derived"``
            True if a derivative, computed at the event's line, has called the operation, and it is not known whose
            derivative that was.
        ``"steps_before"``
            How many steps before this one the first of the operations was called that have led to the harm.
        ``"gathered"``
            How many backward passes the gradients of the coming update come from.
        ``"refused"``
            A dict about a finite number that a distribution has refused: ``"parameter"`` (``"scale"``), ``"by"``
            (``"Normal"``), ``"constraint"`` and, where it is one element, its ``"value"``; with ``"code_line"``,
            ``"lineno"`` and ``"text"`` of the call that made the distribution and of the argument in it, if known.
        ``"error"``
            The text of the exception, where an operation raised one instead of giving a value (``LinAlgError``).
    """

    operation: Operation | None = None
    consumers: tuple[Operation | str, ...] = ()
    grad_value: Any = None
    library: str = "torch"
    context: Mapping[str, Any] = field(default_factory=dict)
