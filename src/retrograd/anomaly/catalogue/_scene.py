"""The input and output of a recogniser: the scene and the finding."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retrograd.anomaly.catalogue._expression import (
    DIVISIONS,
    first,
    maker,
    normal,
    number,
    root,
    same,
    second,
    shown,
    value,
)
from retrograd.anomaly.catalogue._line_inference import completed, enclosing, producers, reunited
from retrograd.anomaly.catalogue._operation_site import WRITTEN_AS, find
from retrograd.anomaly.catalogue._range_limits import allowed
from retrograd.anomaly.catalogue._repeated_faults import alike, decisive
from retrograd.anomaly.catalogue._scopes import may_stand_at
from retrograd.anomaly.catalogue._source_line import NOTHING, NOWHERE, Line, Site, is_name
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.operation_names import TRANSPARENT
from retrograd.anomaly.parsing import indentation_of
from retrograd.anomaly.surroundings import Operand, Operation, Place, Surroundings

# Operations that map an infinity to a finite number with derivative 0; and those that keep it and drop nothing.
_BOUNDED = frozenset(("reciprocal", "rsqrt", "exp", "exp2", "expm1", "sigmoid", "softplus", "tanh", "atan", "erf"))
_GROWING = frozenset(("exp", "exp2", "expm1", "softplus"))
_STILL_INFINITE = frozenset(
    ("mul", "add", "sub", "neg", "div", "sqrt", "pow", "square", "abs", "log", "sum", "mean", "matmul", "dot", "to")
)
_INFINITIES = (math.inf, -math.inf)

# Elementwise operations: a guard on the input also guards the output at the same position.
_NOT_ELEMENTWISE = frozenset(
    ("sum", "mean", "prod", "matmul", "linear", "norm", "softmax", "log_softmax", "std", "var", "dot", "einsum")
)

_HALF = ("float16", "half")
_DOUBLE = ("float64", "double", "complex128")
_LARGEST_EXPONENTS = (11.09, 88.72, 709.78)  # in half, single and double precision
_MARGIN = 3.0  # of a gradient over its loss
_ADAPTIVE = frozenset(("adam", "adamw", "nadam", "radam", "adamax", "sparseadam", "rmsprop", "adagrad", "adadelta"))


@dataclass(frozen=True)
class Finding:
    """A recognised cause: the explanation, the user's line rewritten, and the remedy's general form, if there is one.

    ``place`` is that of the line, if it differs from the birth's. ``birth`` names an earlier operation whose backward
    gave birth and whose remedy is the one to show.
    """

    cause: str
    rewritten: str | None = None
    general: str | None = None
    place: Place | None = None
    birth: Operation | None = None

    @property
    def remedy(self) -> str | None:
        return self.rewritten or self.general


@dataclass(frozen=True)
class Cause:
    """A row of the catalogue: its number, if it has one, its title, and how it is recognised."""

    number: int | None
    title: str
    recognise: Callable[[Scene], Finding | None]


def cause(number: int | None, title: str) -> Callable[[Callable[[Scene], Finding | None]], Cause]:
    """Make a row of the catalogue from its recogniser."""
    return lambda recognise: Cause(number, title, recognise)


class Scene:
    """An event with its surroundings, under canonical names."""

    def __init__(self, event: NaNEvent) -> None:
        self.event = event
        self.surroundings = event.surroundings or Surroundings()
        self.context: Mapping[str, Any] = self.surroundings.context
        self.kind = event.kind
        self.backward = event.is_backward and not self.context.get("called_in_backward")
        self.grad = number(self.surroundings.grad_value)
        birth = normal(self.surroundings.operation or self._from_event())
        if self.context.get("unseen") and event.op != "unknown":
            birth = replace(birth, op="function")  # of the user's own, who may call it Log whatever it computes
        if birth.code_line is None:
            birth = replace(birth, code_line=event.code_line, lineno=event.lineno)
        if birth.filename is None:
            birth = replace(birth, filename=event.filename, function=event.function)
        if birth.col is None and birth.code_line == event.code_line:
            birth = replace(birth, col=event.col)
        self.birth = completed(birth)
        self.op = self.birth.op

    def _from_event(self) -> Operation:
        operands = [
            Operand(name=name, value=value, dtype=self.event.dtype, constant=False)
            for name, value in self.event.operands.items()
        ]
        return Operation(op=self.event.op, args=tuple(operands))

    @cached_property
    def chain(self) -> tuple[Operation, ...]:
        """The birth and the operations between it and the harm, each linked to the one before it.

        Those that merely pass on values are left out.
        """
        consumers = [
            normal(consumer if isinstance(consumer, Operation) else Operation(op=consumer))
            for consumer in self.surroundings.consumers
        ]
        chain = [self.birth]
        for consumer in consumers or enclosing(find(self.birth), self.birth):
            if consumer.op not in TRANSPARENT:
                chain.append(_linked(completed(consumer), chain[-1]))
        known = producers(chain)
        return (self.birth, *(reunited(operation, known) for operation in chain[1:]))

    @property
    def place(self) -> Place | None:
        """Where the line of the event stands."""
        event = self.event
        return None if event.lineno is None else Place(event.lineno, event.filename, event.function)

    def line_of(self, operation: Operation) -> str | None:
        """Where an operation is written, in words: ``"line 12"``, ``"line 12 of model.py"``; None if unknown."""
        place = operation.place
        if place is None:
            return None
        here = self.place is None or self.place.is_in_file_of(place)
        return f"line {place.lineno}" + ("" if here else f" of {os.path.basename(place.filename or '')}")

    def operations(self) -> Iterator[Operation]:
        """The birth, the operations after it, and those that made what went in."""
        waiting = list(self.chain)
        for operation in waiting:
            yield operation
            waiting += [operand.producer for operand in operation.args if operand.producer is not None]

    def roots(self, *ops: str, through: Collection[str] = ()) -> Iterator[Operation]:
        """The operations of these kinds at or after the birth that are reached through those others only."""
        for operation in self.chain:
            if operation.op in ops:
                yield operation
            if operation.op not in through and operation.op not in ops:
                return

    def gave(self, op: str, *more: str) -> str:
        """What an operation gave for which numbers, the event's and more: ``"log gave -Inf for input=0.0"``."""
        given = ", ".join((*(f"{name}={value}" for name, value in self.event.operands.items()), *more))
        return f"{op} gave {self.event.born}{f' for {given}' if given else ''}"

    @property
    def quotient(self) -> str:
        """What a division by 0 was, if the birth is one: in backward only its derivative is NaN."""
        return "NaN" if self.event.born == "NaN" and not self.backward else "infinite"

    @cached_property
    def later(self) -> tuple[str, ...]:
        """The names of the operations after the birth."""
        return tuple(operation.op for operation in self.chain[1:])

    def elementwise(self) -> Iterator[Operation]:
        """The operations after the birth as long as elements keep their places."""
        for operation in self.chain[1:]:
            if operation.op in _NOT_ELEMENTWISE:
                return
            yield operation

    @cached_property
    def bounded_by(self) -> str | None:
        """The operation that turns the infinity into a finite number later; None if none is known to do so.

        The infinity may still reach the loss on another way.
        """
        event, quotient, made = self.event, None, self.birth
        counts = (event.neginf_count or 0, event.posinf_count or 0)
        is_negative = bool(counts[0]) and not counts[1]
        if not any(counts) and self.op == "div":
            is_negative = (value(first(self.birth)) or 0.0) < 0
        for operation in self.chain[1:]:
            exponent = value(second(operation)) if operation.op == "pow" else None
            divides = operation.op == "div" and maker(second(operation), made.op) == made
            divides |= operation.op == "div" and value(second(operation)) in _INFINITIES
            grows = operation.op in _GROWING and not (is_negative or self.backward)
            if (operation.op in _BOUNDED and not grows) or divides or (exponent or 0.0) < 0:
                return operation.op
            if operation.op not in _STILL_INFINITE:
                return None
            if operation.op == "div" and value(second(operation)) is None:
                quotient = "div"
            if operation.op == "neg" or (operation.op == "sub" and maker(second(operation), made.op) == made):
                is_negative = not is_negative
            if operation.op in ("square", "abs") or exponent in (2, 4):
                is_negative = False
            made = operation
        return quotient if self.backward else None  # as nothing else can have made the loss finite

    @cached_property
    def dtype(self) -> str:
        """The type in which the value was born: ``"float16"``."""
        types = [self.event.dtype, *(operand.dtype for operand in self.birth.args)]
        return next((str(name).split(".")[-1] for name in types if name), "float32")

    @property
    def half(self) -> bool:
        return self.dtype in _HALF

    @property
    def double(self) -> bool:
        return self.dtype in _DOUBLE

    @property
    def precision(self) -> int:
        """Half, single or double: 0, 1 or 2. The range of a type goes by it, also of a complex one."""
        return 0 if self.half else 2 if self.double else 1

    @property
    def complex(self) -> bool:
        """Whether it was born from a complex number, which can be neither negative nor outside an interval."""
        return isinstance(first(self.birth).value, complex) or "complex" in (first(self.birth).dtype or self.dtype)

    @cached_property
    def largest(self) -> float:
        """The natural logarithm of the largest number of the type."""
        return _LARGEST_EXPONENTS[self.precision]

    @property
    def optimizer(self) -> Mapping[str, Any]:
        """What is known of the optimizer."""
        optimizer = self.context.get("optimizer")
        return optimizer if isinstance(optimizer, dict) else {}

    @property
    def squares_gradients(self) -> bool:
        """Whether the optimizer is one that divides by the size of past gradients, whose squares it adds up."""
        return str(self.optimizer.get("name", "")).lower() in _ADAPTIVE

    @cached_property
    def allowed(self) -> float:
        """The natural logarithm of the largest result of the birth that what follows can take.

        This includes the square of the gradient, which is about as large as the loss or somewhat larger.
        """
        most = allowed(self.chain, self.largest)
        return min(most, most / 2 - _MARGIN) if self.squares_gradients and not self.half else most

    @property
    def model(self) -> str:
        """What the user calls the model."""
        return str(self.context.get("model") or "model")

    @property
    def usual_eps(self) -> str:
        """A small number to divide by where the quotient stays small all the same, as that of a vector by its norm."""
        return "1e-3" if self.half else "1e-12"

    @property
    def eps(self) -> str:
        """A small number to divide by or to take the root of, whose derivative there the type can hold."""
        usual = -3 if self.half else -12
        if self.allowed > 0.4 * self.largest or self.backward:
            return f"1e{usual}"
        # y and its derivative, y / eps, are to stay in range after what follows has raised them to a power
        decades = self.allowed * self.largest / (self.allowed + self.largest) / math.log(10)
        return f"1e{max(usual, -max(math.floor(decades), 1))}"

    @property
    def floor(self) -> str:
        """The smallest number worth taking the logarithm of."""
        return "1e-4" if self.half else "1e-12"

    @property
    def called_there(self) -> str | None:
        """The name of the layer or function that the line calls where the event is, if that is known."""
        text = self.event.code_line
        if self.event.col is None or text is None:
            return None
        return self.line.called_at(self.event.col - indentation_of(text))

    @property
    def line(self) -> Line:
        """The line of the birth."""
        return Line.parse(self.birth.code_line)

    def site(self, operation: Operation, inside: Site | None = None) -> Site:
        """Where an operation is written."""
        consumer = self.later[0] if operation is self.birth and self.later else None
        return find(operation, inside, consumer)

    def spelling(self, site: Site = NOWHERE) -> Spelling:
        """The spelling of the user's line."""
        return replace(Spelling.of(self.surroundings.library, site.line or self.line, site), complex=self.complex)

    def called(self, operand: Operand | None, default: str) -> str:
        """What the user calls an operand, where its name is a name."""
        names = (operand.text, operand.leaf_name) if operand is not None else ()
        return next((name for name in names if name and is_name(name)), default)

    def taken(self, operation: Operation, default: str) -> str:
        """What the user calls the first operand of an operation, where its line does not call something else so."""
        name = self.called(first(operation), default)
        return default if name in Line.parse(operation.code_line).written else name

    def at(self, operand: Operand | None, default: Any) -> str:
        """The value of an operand, for an explanation."""
        known = operand.value if operand is not None and operand.value is not None else default
        return shown(known)

    def zero(self, operand: Operand | None) -> bool:
        """Whether an operand is zero at the element; where its value is unknown, whether the kind of birth says so."""
        known = operand.value if operand is not None and isinstance(operand.value, complex) else value(operand)
        return self.kind == "divide" if known is None else known == 0

    def may_stand(self, rewritten: str, place: Place | None) -> bool:
        """Whether a line names only what has a value where another one stands.

        What is read there or before it has one, and so has the model, an option of which is set from outside.
        """
        if place is None:
            return True
        others = dict.fromkeys((each.place, each.code_line) for each in self.operations())
        known = [(other, text) for other, text in others if other and text and place.sees(other)]
        read = [text for other, text in known if other == place or place.follows(other)]
        return may_stand_at(rewritten, (*read, self.model), place)

    def replaced(
        self,
        site: Site,
        position: int,
        change: Callable[[str, Spelling], str],
        *names: str,
        complements: bool = False,
        within: Site = NOWHERE,
        alone: bool = False,
    ) -> str | None:
        """The user's line with one argument of an operation changed, and all that have the same fault there.

        With ``complements``, in logarithms of ``p`` and ``1 - p`` both; those ``within`` another operation only, if one
        is given that stands in the same line. With ``alone``, no other operation is changed.
        """
        node = site.written.argument(position, *names) if site.node is site.written.node else None
        if node is None:
            return None
        nodes = [node]
        if decisive(site.written) is node and not alone:
            others = alike(site.line, site.written, complements=complements)
            is_apart = within.line is not site.line
            nodes += [each for each in others if is_apart or site.line.inside(each, within.node)]
        spelling = self.spelling(site)
        return site.line.replaced({each: change(site.line.text(each), spelling) for each in nodes})

    def smoothed_root(
        self, operand: Operand | None, site: Site, eps: str | None = None
    ) -> tuple[str | None, Place | None] | None:
        """A line with a small number under the root that an operand at ``site`` is, and its place; None if it is none.

        The root itself has no derivative at 0.
        """
        outer = maker(operand, "sqrt", "pow")
        found = self.site(outer, site) if outer is not None and root(outer) is not None else NOWHERE
        node = found.written.argument(0, "input")
        if outer is None or node is None:
            return None
        line = found.written.line
        place = self.birth.place if line is found.line else outer.place
        return line.replaced({node: f"{line.text(node)} + {eps or self.eps}"}), place

    def replaced_whole(self, site: Site, change: Callable[[str], str]) -> str | None:
        """The user's line with an operation changed to another one of its first argument."""
        text = site.written.text(0, "input")
        return None if text is None else site.replaced(change(text))

    def guarded(
        self,
        site: Site,
        change: Callable[[str, Spelling], str],
        within: Site = NOWHERE,
        *,
        alone: bool = False,
    ) -> str | None:
        """The user's line with the argument changed that decides: a quotient's denominator, else the first.

        Of a denominator that is a root, what the root is taken of: its derivative at 0 is infinite as well.
        """
        if site.written.op not in DIVISIONS:
            return self.replaced(site, 0, change, "input", within=within, alone=alone)
        below = site.written.argument(1, "other", "divisor", "x2")
        root = site.line.operation_at(below) if site.node is site.written.node else NOTHING
        inner = root.argument(0, "input")
        if root.op == "sqrt" and inner is not None:
            return site.line.replaced({inner: change(site.line.text(inner), self.spelling(site))})
        return self.replaced(site, 1, change, "other", "divisor", "x2", within=within, alone=alone)


def _linked(operation: Operation, previous: Operation) -> Operation:
    """A consumer with the operation before it, and all that is known of that one, as the producer of an operand."""
    args = list(operation.args) or [Operand(name="input")]
    made = [_behind(operand.producer) for operand in args]
    places = [place for place, op in enumerate(made) if op == previous.op]
    if not places:  # as the line has it, which says div where the engine ran a reciprocal
        places = [place for place, op in enumerate(made) if op in WRITTEN_AS.get(previous.op, ())]
    if not places:
        unmade = [place for place, operand in enumerate(args) if operand.producer is None and not operand.constant]
        places = [place for place in unmade if args[place].name not in ("condition", "mask")]
        wrong = [place for place in places if (known := value(args[place])) is not None and not math.isfinite(known)]
        places = (wrong or places)[:1]
    elif len(places) > 1:  # the same operation on both sides: the one that is not finite, or else the first
        places = [place for place in places if _twin(args[place].producer, previous)] or places[:1]
    for place in places:
        args[place] = replace(args[place], producer=previous)
    return replace(operation, args=tuple(args))


def _twin(producer: Operation | None, operation: Operation) -> bool:
    """Whether a producer is the very operation, as far as its operands tell."""
    if producer is None:
        return False
    known = [(a, b) for a, b in zip(producer.args, operation.args, strict=False) if not a.constant and not b.constant]
    return bool(known) and all(same(a, b) for a, b in known)


def _behind(producer: Operation | None) -> str | None:
    """The name of the operation behind such as hand values on."""
    while producer is not None and producer.op in TRANSPARENT:
        producer = first(producer).producer
    return producer.op if producer is not None else None
