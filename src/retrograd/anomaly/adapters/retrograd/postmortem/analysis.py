"""Which suspect caused the harm: from births, the graph and the harm to one event."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.retrograd.births import Birth, as_array, public_name, ran_by
from retrograd.anomaly.adapters.retrograd.elements import (
    first_not_finite,
    flat,
    holds_infinity,
    holds_nan,
    is_bad,
    named,
    same,
    statistics,
)
from retrograd.anomaly.adapters.retrograd.postmortem.describe import Describer, result_of
from retrograd.anomaly.adapters.retrograd.postmortem.further_births import (
    with_further_in_backward,
    with_further_in_forward,
)
from retrograd.anomaly.adapters.retrograd.postmortem.gradients import GradientSearch
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph, filled
from retrograd.anomaly.adapters.retrograd.postmortem.overflowed_variances import makes_zeros
from retrograd.anomaly.adapters.retrograd.postmortem.source import is_number_given, text_given
from retrograd.anomaly.adapters.retrograd.postmortem.unflagged_births import given_numbers, told_of_hooks, without_flag
from retrograd.anomaly.adapters.retrograd.postmortem.unrecorded_operations import (
    explains,
    is_equal,
    is_of_arrays,
    is_ruled_out,
    maker_of,
    same_places,
)
from retrograd.anomaly.adapters.retrograd.postmortem.unsaved_data import UnsavedData, unsaved_data
from retrograd.anomaly.adapters.retrograd.second_run.recording import birth_of_call
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent, with_context
from retrograd.anomaly.operation_names import is_normalisation
from retrograd.anomaly.surroundings import Surroundings
from retrograd.core import sites
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.tensor import Tensor


class Analysis:
    """Looks for the cause of one harm.

    Parameters
    ----------
    graph
        Behind the loss.
    births
        The suspects, in order.
    names, context
        See :class:`Describer`.
    excuses
        Tells whether a birth is intended.
    before
        Unrecorded births of earlier steps: data made from them may be used now.
    """

    def __init__(
        self,
        graph: Graph,
        births: Sequence[Birth],
        names: Names,
        context: dict[str, Any],
        excuses: Callable[[Birth], bool] = lambda birth: False,
        before: Sequence[Birth] = (),
    ) -> None:
        self.graph = graph
        self.before = before
        self.births = births
        self._excuses = excuses
        self.names = names
        self._trouble = ""
        self.describer = Describer(graph, names, context)
        for birth in (*births, *before):
            birth.restore_operands()

    # --- a loss ---------------------------------------------------------------------------------------------------

    def of_loss(self, loss: ndarray) -> NaNEvent:
        """Why a loss is not finite: a value that came in so, or else the first birth that came through to it."""

        def search() -> NaNEvent | None:
            event = self._parameter() or self._data(holds_nan, "loss")
            if event is None:
                suspects = self.likeliest_first(self.in_order())
                found = ((birth, self.came_through(birth)) for birth in suspects)
                event = next((self._after_another(birth, event) for birth, event in found if event), None)
            event = event or self._data(is_bad, "loss")
            event = event or (self._lost(holds_nan) if holds_nan(loss) else None) or self._lost(is_bad)
            event = event or self._placed() or self._suspected(loss)
            return event or self._only_lost(holds_nan if holds_nan(loss) else is_bad)

        event = self._found(search)
        if event is None:
            return self._unknown(loss, "loss")
        return self._with_further(event, lambda first: with_further_in_forward(self, first))

    @staticmethod
    def _with_further(event: NaNEvent, search: Callable[[NaNEvent], NaNEvent]) -> NaNEvent:
        """The event, with those of further births of the step as far as these can be determined."""
        with suppress(Exception), np.errstate(all="ignore"):  # an error of ours is no reason to report nothing
            return search(event)
        return event

    def _after_another(self, birth: Birth, event: NaNEvent) -> NaNEvent:
        """The event of a birth; if an operand was infinite, the event of its data, or with a note of its birth."""
        if not event.input_has_inf or event.kind == "leaf" or event.note:
            return event
        if any(map(holds_infinity, birth.operands)):
            of_data = self._lost(holds_infinity) or self._data(holds_infinity, "loss")
            of_data = of_data or self._data(is_bad, "loss") or self._only_lost(is_bad)
            if of_data is not None:
                return of_data
        earlier = itertools.takewhile(lambda each: each is not birth, self.births)
        first = next((each for each in earlier if each in self.unrecorded and is_bad(result_of(each))), None)
        place = {} if first is None else place_fields(first.code, first.at)
        if first is None or "filename" not in place:
            return event
        note = _AFTER_ANOTHER.format(first.name, place["filename"], place["lineno"])
        return replace(event, note=note)

    def _found(self, search: Callable[[], NaNEvent | None]) -> NaNEvent | None:
        """The result of a search. An error of ours is no reason to end a training run in the middle of a step."""
        try:
            return search()
        except Exception as error:
            self._trouble = f"The search for it failed ({type(error).__name__}: {error}). "
            return None

    @staticmethod
    def likeliest_first(births: Iterable[Birth]) -> Iterator[Birth]:
        """The births in order: those of this thread, then those of others, last those declared as intended.

        A birth in another thread may explain a lost value of this graph, but one in this thread is more likely.
        """
        this = threading.current_thread()
        elsewhere, meant = [], []
        for birth in births:
            if birth.excused:
                meant.append(birth)
            elif birth.thread is not this:
                elsewhere.append(birth)
            else:
                yield birth
        yield from elsewhere
        yield from meant

    def _parameter(self) -> NaNEvent | None:
        """A leaf that came in non-finite and came through."""
        for leaf in self.graph.leaves():
            data = as_array(leaf.variable)
            if is_bad(data):
                path = self.describer.through.path(leaf, [data])
                if path is not None:
                    written = self._written(data, path)
                    return written or self.describer.leaf(data, "parameter", None, path, harmed="loss")
        return None

    def _written(self, data: ndarray, path: list[Node]) -> NaNEvent | None:
        """The birth whose result an update by hand has written to a leaf since the last backward."""
        for birth in self.unrecorded:
            result = result_of(birth)
            if result is data or (result is not None and is_bad(result) and same_places(result, data)):
                event = self.describer.forward(birth, None, path, harmed="loss")
                if event is not None:
                    name = self.names.array(data) or nameless(data)
                    note = f"It was written to {name} by an update by hand."
                    return replace(with_context(event, spoilt=name), note=note)
        return self._born_in_update(data, path)

    def _born_in_update(self, data: ndarray, path: list[Node]) -> NaNEvent | None:
        """The birth from which an update by hand has made a leaf bad: a factor of a gradient, for example."""
        name = self.names.array(data) or nameless(data)
        first = min((node.seq for node in self.graph.nodes), default=0)
        births = [each for each in self.unrecorded if each.seq <= first and explains(each, data)]
        maker = maker_of(data, (None, 0), births, self.names)
        birth = next(self.likeliest_first(births), None) if maker is None else maker.birth
        event = None if birth is None else self.describer.forward(birth, None, path, harmed="loss")
        if event is None:
            return None
        note = f"It was born without a gradient between the last backward and this step, and {name} is bad since then."
        return replace(with_context(event, spoilt=name), note=note)

    @cached_property
    def unrecorded(self) -> list[Birth]:
        """The births in operations that nothing recorded."""
        return [each for each in self.births if not each.is_backward and each.made_node(self.graph.nodes) is None]

    def _data(self, condition: Any, harmed: str) -> NaNEvent | None:
        """An array without gradient that came in non-finite and came through, unless a birth made it."""
        given = ((node, "argument", data) for node, data in self.graph.given())
        for node, param, data in itertools.chain(given, self.graph.constants()):
            source = self.from_outside(data) if condition(data) else None
            if source is None:
                continue
            path = self.describer.through.path(node, self.graph.results(node))
            if path is None:
                continue
            if isinstance(source, Birth):
                return self.describer.forward(source, None, path, harmed=harmed)
            role = param if param in ("argument", "target") else "batch"
            return self.made_unrecorded(node, source, path, harmed) or self.describer.leaf(
                source, role, param, path, harmed=harmed
            )
        return None

    def made_unrecorded(self, user: Node | Birth, data: ndarray, path: list[Node], harmed: str) -> NaNEvent | None:
        """The birth without a gradient from which an array was made before an operation used it."""
        made = self._unrecorded_maker(user, data)
        if made is None:
            return None
        birth, note, spoilt = made
        event = self.describer.forward(birth, None, path, harmed=harmed)
        if event is not None and spoilt is not None:
            event = with_context(event, spoilt=spoilt)
        return None if event is None else replace(event, note=note)

    def _unrecorded_maker(self, user: Node | Birth, data: ndarray) -> tuple[Birth, str, str | None] | None:
        """That birth, with a note about it, and the name of the parameter that it was written to, if any."""
        place = (user.code, user.at) if isinstance(user, Birth) else sites.position_of(user)
        births, before = [], self.before
        if self.graph.recorder is None:
            until = itertools.takewhile(lambda each: each is not user, self.unrecorded)
            births = [birth for birth in until if birth.seq <= getattr(user, "seq", 0) and explains(birth, data)]
        else:  # it has seen every operation of this step, but no plain arrays
            before = [birth for birth in before if birth.is_of_arrays]
        if not births and not before:
            return None
        maker = maker_of(data, place, births, self.names, before)
        if maker is not None:
            return maker.birth, maker.note, maker.name if maker.is_written else None
        birth = None
        if holds_nan(data) and self.names.array(data) is None:
            birth = next((each for each in births if holds_nan(result_of(each))), None)
        return None if birth is None else (birth, _WITHOUT_GRADIENT, None)

    def of_held(self, name: str, data: ndarray, code: CodeType, at: int) -> NaNEvent:
        """Why a variable without a gradient is NaN, in a function that has reached an instruction."""

        def search() -> NaNEvent | None:
            births = [birth for birth in self.unrecorded if explains(birth, data)]
            maker = maker_of(data, (code, at), births, self.names, self.before)
            event = None if maker is None else self.describer.forward(maker.birth, None, [])
            if event is not None and maker is not None:
                return replace(event, note=maker.note)
            return replace(self.describer.leaf(data, "batch", name, []), **place_fields(code, at))

        return self._found(search) or self._unknown(data, "an argument")

    def _lost(self, condition: Any) -> NaNEvent | None:
        """A variable of the program that came in non-finite and came through, though no node has kept it."""
        for lost in unsaved_data(self.graph, self.names, condition):
            trial = self.graph.supposing(lost.node, lost.param, lost.argument)
            holder = trial.holder(lost.node)
            path = None if holder is None else trial.spreads(holder, trial.results(holder))
            if path is not None:
                event = self.made_unrecorded(lost.node, lost.data, path, "loss")
                if event is None and not self.was_made(lost.data):
                    describer = Describer(trial, self.names, self.describer.context)
                    event = self.leaf_of(lost, describer, path, "loss")
                if event is not None:
                    return event
        return None

    @staticmethod
    def leaf_of(lost: UnsavedData, describer: Describer, path: list[Node], harmed: str) -> NaNEvent:
        """The event of a variable that was a node's argument."""
        role = "target" if lost.param == "target" else "batch"
        note = {} if lost.is_read else {"note": _AMONG_VARIABLES}
        event = describer.leaf(lost.data, role, lost.name, path, harmed=harmed, **note)
        return event if lost.item is None else with_context(event, item=text_given(lost.node, lost.param))

    def _suspected(self, loss: ndarray) -> NaNEvent | None:
        """The birth without a gradient in a line whose operation had an argument that was not kept."""
        for node, _ in self.graph.lost():
            if self._unrecorded_maker(node, loss) is not None:
                event = self.made_unrecorded(node, loss, self.graph.path(node), "loss")
                if event is not None:
                    return event
        return None

    def _lost_to_blame(self, wanted: Callable[[Any], bool]) -> list[tuple[OpNode, str]]:
        """The arguments that were not kept and may have been bad in the way that ``wanted`` tests.

        Those of the first operation whose result is known to be bad, or else of all operations whose result may be
        non-finite.
        """
        lost = [(node, param) for node, param in self.graph.lost() if not is_number_given(node, param)]
        first = next((node for node in self.graph.nodes if any(map(wanted, self.graph.results(node)))), None)
        of_first = [(node, param) for node, param in lost if node is first]
        return of_first or [each for each in lost if is_bad(results := self.graph.results(each[0])) or not results]

    def _only_lost(self, wanted: Callable[[Any], bool]) -> NaNEvent | None:
        """The only argument that was not kept, if everything else is known to have been finite."""
        found = self._lost_to_blame(wanted)
        for node, param in found if len(found) == 1 else ():
            trial = self.graph.supposing(node, param, self._supposed(node, param, wanted))
            event = self.of_supposed(trial, node, param, trial.spreads(node, trial.results(node)), harmed="loss")
            if event is not None:
                return event
        return None

    def of_supposed(
        self, trial: Graph, node: OpNode, param: str, path: list[Node] | None, **fields: Any
    ) -> NaNEvent | None:
        """The event of an argument that was not kept, in a graph that supposes a number for it."""
        text = text_given(node, param)
        birth = next((birth for each, birth in given_numbers(trial) if each is node), None)
        if path is None or birth is None or text is None:
            return None
        event = Describer(trial, self.names, self.describer.context).forward(birth, node, path, **fields)
        return None if event is None else replace(with_context(event, inferred=True), note=_ONLY_LOST.format(text))

    def _supposed(self, node: OpNode, param: str, wanted: Callable[[Any], bool]) -> float:
        """The NaN or infinity that a lost argument held, judged by its effect."""
        made = next((each for each in self.graph.results(node) if wanted(each)), None)
        if wanted is holds_nan:
            return np.nan
        for number in (np.inf, -np.inf):
            arguments = {name: filled(value, 1.0) for name, value in self.graph.arguments(node).items()}
            supposed = self.graph.compute(node, {**arguments, param: number})
            if made is not None and supposed and bool((np.isinf(made) & (supposed[0] == made)).any()):
                return number
        return np.inf

    def _placed(self) -> NaNEvent | None:
        """An infinity that a mask or a number wrote on purpose, but that came through anyway."""
        for node, birth in given_numbers(self.graph):
            path = self.describer.through.path(node, self.graph.results(node))
            if path is not None:
                return self.describer.forward(birth, node, path, harmed="loss")
        return None

    def from_outside(self, data: ndarray) -> ndarray | Birth | None:
        """The outside value that made an array bad, often itself; None if an operation of this step made it bad.

        For a number passed to an operation, that operation's result.
        """
        wanted = holds_nan if holds_nan(data) else is_bad
        recorder = self.graph.recorder
        if recorder is None:
            return None if self.was_made(data) else data
        while (call := recorder.maker(data)) is not None:
            given = [each for each in flat(call.operands) if wanted(each)]  # NaN from infinities is a birth
            if not given:
                return None
            array = next((each for each in given if isinstance(each, ndarray)), None)
            if array is None:  # a number
                return birth_of_call(call, data)
            data = array
        return data

    def was_made(self, data: ndarray) -> bool:
        """Whether an operation of this step made an array."""
        recorder = self.graph.recorder
        if recorder is not None and recorder.maker(data) is not None:
            return True
        return any(same(result_of(birth), data) for birth in self.births if not birth.is_backward)

    def in_order(self) -> Iterator[Birth]:
        """The forward births, including those that raised no flag, in the order of creation."""
        births = [birth for birth in self.births if not birth.is_backward]
        flagged = {birth.made_node(self.graph.nodes) for birth in births}
        for node in self.graph.nodes if self.graph.recorder is None else ():
            if node in flagged:
                continue
            while births and births[0].seq < node.seq:
                yield births.pop(0)
            birth = without_flag(self.graph, node)
            if birth is not None:
                birth.excused = self._excuses(birth)
                yield birth
        yield from births

    def came_through(self, birth: Birth) -> NaNEvent | None:
        """The event of a forward birth, if it came through to a root."""
        node = birth.made_node(self.graph.nodes)
        holder = self.graph.holder(node)
        result = result_of(birth)
        if holder is not None:
            results = self.graph.results(holder) or ([] if result is None or holder is not node else [result])
            path = self.describer.through.path(holder, results) if not results or is_bad(results) else None
        else:
            path = None if result is None or not is_bad(result) else self._entered(birth, result)
        if path is None:
            return None
        for name, value in named(birth.op, birth.operands).items():
            if not (isinstance(value, ndarray) and np.isinf(value).any()):
                continue
            is_data = self._is_data(value) or self._is_of_arrays(value)
            may_mask = holder is not None and not np.isposinf(value.real).any()  # masks use minus infinity
            event = self.made_unrecorded(birth, value, path, "loss") if is_data or holder is None else None
            if event is not None and (not may_mask or self._is_in_another_line(event, birth)):
                return event
            if is_data and not may_mask and np.isposinf(value.real).any():
                return self.describer.leaf(value, "batch", name, path, harmed="loss")
        return self.describer.forward(birth, None if holder is None else node, path, harmed="loss")

    def _is_data(self, array: ndarray) -> bool:
        """Whether an array came in from outside, without a gradient."""
        return any(each is array for _, _, each in self.graph.constants()) and not self.was_made(array)

    @staticmethod
    def _is_in_another_line(event: NaNEvent, user: Birth) -> bool:
        """Whether it is about plain arrays elsewhere: what a line makes of its own infinities is explained together."""
        return is_of_arrays(event) and user.code is not None and event.lineno != sites.line_of(user.code, user.at)

    def _is_of_arrays(self, array: ndarray) -> bool:
        """Whether the program computed these very numbers from plain arrays."""
        return any(birth.is_of_arrays and is_equal(result_of(birth), array) for birth in self.before)

    def _entered(self, birth: Birth, result: ndarray) -> list[Node] | None:
        """The path of an unrecorded birth, from where it entered the graph."""
        for node in self._users(birth, result):
            path = self.describer.through.path(node, self.graph.results(node))
            if path is not None:
                return path
        return None

    def _users(self, birth: Birth, result: ndarray) -> Iterator[Node]:
        """The nodes that used an array which is no node's result."""
        if self.graph.recorder is not None and birth.call is not None:
            yield from self.graph.recorder.users(birth.call, self.graph.consumers)
            return
        for node, _, constant in self.graph.constants():
            if same(constant, result):
                yield node
        yield from (node for node, array in self.graph.given() if same(array, result))
        for node in self.graph.nodes:
            writer = ran_by(node)
            for name in self.graph.lost_by(writer) if writer.seq > birth.seq else ():
                trial = self.graph.supposing(writer, name, result)
                if trial.is_consistent_after(node) and not is_ruled_out(birth, sites.position_of(writer)):
                    self.graph = trial
                    self.describer = Describer(trial, self.names, self.describer.context)
                    yield node

    # --- gradients ------------------------------------------------------------------------------------------------

    def of_gradients(
        self, leaves: Sequence[AccumulateGrad], arrays: Sequence[ndarray], given: Iterable[ndarray]
    ) -> NaNEvent:
        """Why gradients are not finite although the loss is: the first birth that reached one of them.

        Parameters
        ----------
        leaves
            Whose gradients they are; empty, if they were returned.
        arrays
            The gradients.
        given
            The gradients that backward was started with.
        """
        search = GradientSearch(self, leaves)
        event = self._found(lambda: search.event(arrays, given))
        if event is None:
            return self._unknown(arrays[0], search.harmed(), leaves)
        return self._with_further(event, lambda first: with_further_in_backward(self, first, search, arrays))

    def of_update(self, leaves: Sequence[Tensor]) -> NaNEvent:
        """Why gradients are not finite although backward made them finite: they were changed by hand since."""
        arrays = [leaf._grad._data for leaf in leaves if leaf._grad is not None]
        harmed = f"the gradient of {self.names.array(leaves[0]._data) or nameless(leaves[0])}"

        def search() -> NaNEvent | None:
            births = [birth for birth in self.unrecorded if is_bad(result_of(birth))]
            last = [birth for birth in births if any(result_of(birth) is array for array in arrays)]
            for birth in [*births, *last] if not last or last[0].clipping is None else last:
                event = self.describer.forward(birth, None, [], harmed=harmed)
                if event is not None:
                    return event if birth.clipping is None else _of_clipping(event, birth.clipping)
            return None

        return self._found(search) or self.describer.leaf(arrays[0], "gradient", "gradient", [], harmed=harmed)

    # --- the rest -------------------------------------------------------------------------------------------------

    def of_passing(self, birth: Birth) -> NaNEvent | None:
        """The event of a birth that did no harm."""
        if birth.is_backward:
            return self.describer.backward(birth, [birth.node] if birth.node else [])
        node = birth.made_node(self.graph.nodes)
        swallowed = is_normalisation(birth.name)  # it divides by an infinite spread and returns zeros
        event = self.describer.forward(birth, node, [] if node is None else [node], swallowed=swallowed)
        if event is None or event.output_has_nan or event.output_has_inf or event.kind != "overflow":
            return event
        return replace(event, note="The infinity arose inside it; its result is finite.")

    def of_overflowed_variance(self, birth: Birth) -> NaNEvent | None:
        """The event of squares that overflow in a normalisation, which returns zeros."""
        event = self.of_passing(birth) if makes_zeros(birth, self.graph) else None
        if event is None or is_normalisation(birth.name):
            return event
        return replace(event, note=_IN_SILENCE)

    def _unknown(self, data: ndarray, harmed: str, leaves: Sequence[AccumulateGrad] = ()) -> NaNEvent:
        """The event when nothing was found: what is known, including the last place before the harm."""
        users = [node for leaf in leaves[:1] for node in self.graph.consumers[leaf]]
        blamed = self._lost_to_blame(holds_nan if holds_nan(data) else is_bad) if harmed == "loss" else []
        unkept, param = next(iter(blamed), (None, ""))
        last = users or ([edge[0] for edge in self.graph.roots] if unkept is None else [unkept])
        hint = (
            "" if unkept is None else _UNKEPT.format(public_name(unkept.op), text_given(unkept, param) or "something")
        )
        suspects = [name for name, data in self.names.data() if holds_nan(data)] if harmed != "loss" else []
        if suspects:
            hint = _WITH_NAN.format(" and ".join([*dict.fromkeys(suspects)][:3]))
        hint = hint if harmed == "loss" else told_of_hooks(self.graph) or hint
        return NaNEvent(
            kind="invalid" if np.isnan(data).any() else "overflow",
            op="unknown",
            is_backward=harmed != "loss",
            index=first_not_finite(data),
            harmed=harmed,
            path=tuple(node.name() for node in last[:1]),
            note=f"{self._trouble}{hint}No flag was raised, and the graph does not show where it was born.",
            surroundings=Surroundings(library="retrograd", context=dict(self.describer.context)),
            **(self.graph.place_of(last[0]) if last else {}),
            **statistics(data),
        )


_IN_SILENCE = (
    "Dividing by the root of an infinity gives 0 for any input, and no gradient flows back through it: training "
    "stalls without a NaN."
)
_UNKEPT = "{} got {}, which was not kept: if that is data, check it first. "
_ONLY_LOST = (
    "That {} was not finite is an inference: it was not kept, and it is the only unknown where the first such number "
    "appears."
)
_AMONG_VARIABLES = (
    "The operands of this operation were not kept; this is the only variable with such numbers that fits."
)
_WITHOUT_GRADIENT = (
    "It was computed without a gradient, so its path is unknown: it is the first NaN born in this step before a NaN "
    "entered the computation of the loss. "
)
_AFTER_ANOTHER = (
    "An infinity was born earlier, without a gradient, in {} at {}:{}; it may be the one that came in here."
)
_WITH_NAN = "NaN in {}: check that first, because a later mask does not keep a NaN out of the gradient. "


def _of_clipping(event: NaNEvent, clipping: dict[str, float]) -> NaNEvent:
    """The event of a gradient that became NaN when it was scaled by an infinite norm."""
    event = with_context(event, clip_grad_norm={**clipping, "code_line": event.code_line})
    return replace(event, op="clip_grad_norm_", operands=clipping)
