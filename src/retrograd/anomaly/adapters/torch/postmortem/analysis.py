"""From a bad loss or gradient to one event, using the record of a second run, the live graph, or a rerun model."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import Any

from torch import Tensor

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.program.attribute_writes import lines_that_write
from retrograd.anomaly.adapters.program.branches import lines_with, same_in_other_branches
from retrograd.anomaly.adapters.program.source_location import place_fields, place_of
from retrograd.anomaly.adapters.program.variables import under_way
from retrograd.anomaly.adapters.torch.gradient_checks.lagged_steps import LateStep
from retrograd.anomaly.adapters.torch.postmortem.backward_poles import births_to_come
from retrograd.anomaly.adapters.torch.postmortem.bad_sources import first_with_nan
from retrograd.anomaly.adapters.torch.postmortem.describe import Describer, first_of, statistics
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin, met_at, origin_of
from retrograd.anomaly.adapters.torch.postmortem.recomputation import Made
from retrograd.anomaly.adapters.torch.postmortem.recomputed_lines import made_again, made_in_line, made_of_operand
from retrograd.anomaly.adapters.torch.postmortem.returned_functions import made_inside
from retrograd.anomaly.adapters.torch.postmortem.unsaved_data import converted, given, unsaved_data
from retrograd.anomaly.adapters.torch.records import checkpoint_reruns
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad, seq_of
from retrograd.anomaly.adapters.torch.records.graph import is_checkpoint, leaves_behind, nodes_behind, read
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCalls
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.second_run.loaded_samples import LoadedSamples
from retrograd.anomaly.adapters.torch.source_locations.sites import SiteLog
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.event import MOST_ALSO, NaNEvent, with_context, with_note
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Surroundings
from retrograd.core.sites import line_of, site

GONE = "The values that this step computed are gone."
GRAPHED = "The step was replayed as a CUDA graph, whose operations cannot be observed."
SAME_BATCH = "Its batch is still in the graph's inputs: run it once more, without the graph and under the watch."
NEXT_BATCH = (
    "Weights or inputs have changed by now: run the program without the graph, or with `skip_step` and `lag=0`."
)
BY_HAND = (
    "The gradient is finite, but the value written to the weight is not: it was born in the update, or in something "
    "kept between updates, such as a momentum that took in an earlier non-finite gradient."
)
NOT_SURE = "An operand of this operation was not kept, so the birth may be in the operation that made it."

_FEW = 3  # lines that are worth looking at, if the right one is not known
_LONGEST = 160  # characters of an error message that are reported
_LOADED = "It was born when sample {} of the data set was loaded, which was done once more to find the operation."
_IN_DERIVATIVE = (
    "No variable holds this number. It was made without a gradient, while the derivative was computed that this line "
    "asks for or in the function that is differentiated, and nothing is recorded of it. Look in that function for a "
    "division by 0, such as by a standard deviation of equal numbers, or a log or root of 0."
)
_ONE_OF_SEVERAL = (
    "This line was recorded in an earlier step with the same operations. It is in a branch: if this step took another "
    "branch, it happened at line {}."
)


class Analysis:
    """Explains one harm.

    Parameters
    ----------
    names
        What the user calls tensors and modules.
    recorder
        The record of the second run, if this is one.
    sites
        Where the operations of the step were called.
    calls
        How models were called in this step.
    samples
        Loads a bad sample of a batch once more.
    is_meant
        Tells whether the infinities of an operation are intended.
    context
        What is known about the training besides its operations.
    tail
        What the operations at the end of the step did in backward.
    note
        A further remark to report.
    went_back
        Whether there was a backward since the last update.
    is_changed
        Whether gradients have been changed since then.
    """

    def __init__(
        self,
        names: Names,
        recorder: Recorder | None,
        sites: SiteLog,
        calls: ModelCalls,
        samples: LoadedSamples,
        is_meant: Callable[[Call], bool],
        context: dict[str, Any],
        tail: Tail | None = None,
        note: str | None = None,
        went_back: bool = True,
        is_changed: bool = False,
    ) -> None:
        names.learn(() if recorder is None else recorder.named)
        self.names = names
        self._recorder = recorder
        self._sites, self._calls, self._samples = sites, calls, samples
        self._is_meant = is_meant
        self._context = context
        self._tail, self._note = tail, note
        self._went_back, self._is_changed = went_back, is_changed
        self._trouble: str | None = None
        # whether a derivative called an operation; a method would make a cycle that keeps the user's frame
        self._is_called_by_derivative = sites.is_derived if recorder is None else _never
        self._describer = Describer(names, self._is_called_by_derivative)
        self._leaves: list[Tensor] = []  # whose gradients the step computes
        self._roots: Sequence[Tensor] = ()  # and where backward starts, if known
        self._unfinished = self._is_rerun = self._is_gone = False  # gone: weights or inputs have changed since

    def in_forward(self, roots: Sequence[Tensor], unfinished: bool = False) -> NaNEvent:
        """Why a loss, or any other result of an ``unfinished`` step, is not finite."""
        self._unfinished = unfinished
        self._leaves = leaves_behind(roots)
        return self._found(lambda: self._of_loss(roots)) or self._unknown(roots[0], "loss")

    def _of_loss(self, roots: Sequence[Tensor]) -> NaNEvent | None:
        self._look_back(roots, 1)
        origin = self._origin(self._recorded(roots))
        if origin is None:
            origin = self._bad_member() or self._origin(self._read(roots))
        nameless = origin is not None and self._is_nameless_data(origin)
        unsure = origin is None or not origin.sure or origin.call.code is None or self._is_derived(origin)
        if unsure or nameless or (origin is not None and origin.call.is_unseen):
            again = self._origin(self._run_model_again(backward=False))
            is_worse = again is None or (nameless and self._is_nameless_data(again))
            if not is_worse and (origin is None or not self._was_computed(again)):
                origin = again
        return None if origin is None else self._with_births_to_come(self._event(origin, "loss"), roots)

    def _with_births_to_come(self, event: NaNEvent, roots: Sequence[Tensor]) -> NaNEvent:
        """The event of a bad loss, with the further births that its backward would cause."""
        if self._unfinished or event.kind == "leaf":
            return event
        also = list(event.also)
        with suppress(Exception):  # an error of ours is no reason to report nothing
            for origin, leaf in births_to_come(roots, self._call_of(roots)):
                found = self._told(origin, self._gradient_name([leaf]), undone=True)
                if found.kind != "overflow":
                    also.append(with_context(found, to_come=True))
        return replace(event, also=tuple(also[:MOST_ALSO]))

    def _call_of(self, roots: Sequence[Tensor]) -> Callable[[Any], Call | None]:
        """A function that returns the operation that made a node."""
        if self._recorder is not None:
            return self._recorder.call_of
        calls: dict[float | None, Call] = {}
        queue = [call for call, _ in self._read(roots)]
        for call in queue:
            if call.seq not in calls:
                calls[call.seq] = call
                queue += [each.made_by for each in call.args if each.made_by is not None]
        return lambda node: calls.get(seq_of(node))

    def made(self, value: Tensor) -> tuple[Call, int] | None:
        """The operation that made a number of an unfinished step, and which of its results it is."""
        self._unfinished = True
        return next(iter(self._recorded([value]) or self._read([value])), None)

    def described(self, origin: Origin, is_rerun: bool = False) -> NaNEvent:
        """The event of an origin that was found by other means; each line of a rerun is known."""
        self._is_rerun = is_rerun
        return self._event(origin, "an argument")

    def of_argument(self, call: Call) -> NaNEvent:
        """The event of an operation's argument about which only its not being finite is known."""
        return self._event(Origin(call, leaf=call.args[0]), "an argument")

    def in_backward(self, wrong: Sequence[tuple[Tensor, Tensor | None]], losses: Sequence[Tensor] = ()) -> NaNEvent:
        """Why gradients, which may be gone by now, are not finite; ``losses`` have not been looked at yet."""
        lost = [loss for loss in losses if is_bad(loss)]
        parameters = [parameter for parameter, _ in wrong]
        self._leaves = [*parameters, *leaves_behind([] if self._tail is None else self._tail.roots)]
        harmed = "loss" if lost else self._gradient_name(parameters)
        event = self._found(lambda: self._of_gradients(wrong, lost, harmed))
        return event or self._unknown(lost[0] if lost else wrong[0][1], harmed, parameters)

    def _of_gradients(
        self, wrong: Sequence[tuple[Tensor, Tensor | None]], lost: Sequence[Tensor], harmed: str
    ) -> NaNEvent | None:
        self._look_back([] if self._tail is None else self._tail.roots, self._context.get("gathered", 1))
        origin = self._of_recorded(wrong)
        if origin is not None and not lost:
            harmed = self._gradient_name(self._reached_by(origin) or [parameter for parameter, _ in wrong])
        origin = origin or self._bad_member() or self._of_unrecorded(lost)
        return None if origin is None else self._event(origin, harmed)

    def _of_recorded(self, wrong: Sequence[tuple[Tensor, Tensor | None]]) -> Origin | None:
        """The origin, by the record of the step, of gradients that arrived at leaves or were computed by hand."""
        if self._recorder is None:
            return None
        given = [gradient for _, gradient in wrong if gradient is not None]
        return self._origin(self._recorder.harmed_leaves() or self._recorded(given))

    def _reached_by(self, origin: Origin) -> list[Tensor]:
        """The leaves that a harm has reached."""
        arrived = [] if self._recorder is None else self._recorder.leaves
        return [leaf for leaf, argument in arrived if argument.made_by in origin.path]

    def _of_unrecorded(self, lost: Sequence[Tensor]) -> Origin | None:
        """The origin, by rerunning the model and from its tail's work in backward; ``lost`` are bad losses."""
        origin = self._origin(self._run_model_again(backward=False)) if lost else None
        if origin is None and self._tail is not None:
            around = self._sites.sites_behind, self.names.frame
            births = iter([self._tail.losses(*around)]) if lost else self._tail.births(*around)
            origin = self._origin(next(births, []))
            if origin is not None and origin.sure and origin.leaf is None:
                others = filter(None, map(self._origin, itertools.islice(births, MOST_ALSO)))
                origin.also += tuple(other for other in others if other.sure and other.leaf is None)
            if self._is_gone and origin is not None and origin.leaf is not None:
                origin = None  # it came from the model, about which nothing is known
        return origin or self._origin(self._run_model_again(backward=True))

    def in_replay(
        self, step: LateStep, wrong: Sequence[tuple[Tensor, Tensor | None]], losses: Sequence[Tensor]
    ) -> NaNEvent:
        """The same for a step that was replayed as a CUDA graph."""
        self._context |= {"graphed": True} | ({"applied": True} if step.is_applied else {})
        self._is_gone = step.is_gone
        event = self.in_backward(wrong, losses)
        if event.op != "unknown":
            return event
        return replace(event, note=f"{GRAPHED} {NEXT_BATCH if step.is_gone else SAME_BATCH}")

    def in_transform(
        self, points: Sequence[Tensor], loss: Tensor, run_again: Callable[[], list[tuple[Call, int]]]
    ) -> NaNEvent:
        """Why the result of a ``torch.func`` transform, whose function can be run again, is not finite."""
        harmed = "loss" if is_bad(loss) else self._gradient_name(points)

        def search() -> NaNEvent | None:
            origin = self._origin(run_again())
            return None if origin is None else self._event(origin, harmed)

        return self._found(search) or self._unknown(loss if harmed == "loss" else None, harmed)

    def in_update(self, param: Tensor) -> NaNEvent | None:
        """Why an optimizer made a finite weight non-finite, if its operations were recorded."""
        self._context["optimizer"] = self._context.get("optimizer", {}) | {"updating": True}
        return self._of_update(param)

    def in_update_by_hand(self, param: Tensor) -> NaNEvent:
        """The same for an update by hand with finite gradients."""
        event = self._of_update(param) or self._unknown(param, self._update_name(param))
        return event if event.op != "unknown" else replace(event, is_backward=False, cause=BY_HAND)

    def _update_name(self, param: Tensor) -> str:
        return f"the update of {self.names.tensor(param) or nameless(param)}"

    def _of_update(self, param: Tensor) -> NaNEvent | None:
        harmed = self._update_name(param)

        def search() -> NaNEvent | None:
            origin = self._origin(self._recorded([param]))
            return None if origin is None else self._event(origin, harmed, undone=True)

        return self._found(search)

    def _found(self, search: Callable[[], NaNEvent | None]) -> NaNEvent | None:
        """The result of a search. An error of ours is no reason to end a training run in the middle of a step."""
        try:
            return search()
        except Exception as error:
            said = shorten(str(error).partition("\n")[0], _LONGEST)  # torch may append a long list
            self._trouble = f"The search for the birth failed ({type(error).__name__}: {said})."
            return None

    def _look_back(self, roots: Sequence[Tensor], gathered: int) -> None:
        """Note how many steps ago the first of the operations that led to the harm was called.

        Parameters
        ----------
        roots
            What this step's backward started from, if known.
        gathered
            How many backward passes the gradients come from.
        """
        self._roots = roots
        made = [seq_of(node) for node in nodes_behind(root.grad_fn for root in roots) if not hasattr(node, "variable")]
        reach = self._sites.steps_since(min(made)) - self._sites.steps_since(max(made)) if made else 0
        self._context["steps_before"] = max(reach, gathered - 1)

    # --- ways to find an origin ---------------------------------------------------------------------------------------

    def _origin(self, harmed: Sequence[tuple[Call, int]]) -> Origin | None:
        origin = origin_of(harmed, self._is_meant, partial(unsaved_data, self.names)) if harmed else None
        origin = origin if origin is None else converted(self.names, origin)
        if origin is None or origin.leaf is not None or self._is_gone or not is_checkpoint(origin.call.node):
            return origin
        models = [] if self.names.model is None else [self.names.model]
        inside = self._origin(checkpoint_reruns.run_again(origin.call, models))
        return origin if inside is None else replace(inside, path=(*inside.path, *origin.path), also=origin.also)

    def _recorded(self, roots: Sequence[Tensor]) -> list[tuple[Call, int]]:
        if self._recorder is None:
            return []
        return [made for root in roots if (made := self._recorder.made_by(root)) is not None]

    def _read(self, roots: Sequence[Tensor]) -> list[tuple[Call, int]]:
        """The operations that made some tensors, read from the live graph."""
        roots = [root for root in roots if root.grad_fn is not None]
        sites = self._sites.sites_behind([root.grad_fn for root in roots], self._unfinished)
        return read(roots, sites, self.names.results(), self.names.frame)

    def _run_model_again(self, backward: bool) -> list[tuple[Call, int]]:
        if self._recorder is not None or self._is_gone:
            return []
        return self._calls.run_again(backward)

    def _is_derived(self, origin: Origin) -> bool:
        """Whether a derivative called the operation: then its line does not contain it, but computes the derivative."""
        return origin.leaf is None and self._is_called_by_derivative(origin.call.forward or origin.call)

    def _is_made_by_derivative(self, origin: Origin) -> bool:
        """Whether the origin is data that no variable holds and that a derivative took: it has made them itself."""
        return self._is_nameless_data(origin) and self._is_called_by_derivative(origin.call.forward or origin.call)

    def _is_nameless_data(self, origin: Origin) -> bool:
        """Whether the origin is data that no variable holds: the model may have computed it without a gradient."""
        data = origin.leaf.itself if origin.leaf is not None else None
        return data is not None and not data.requires_grad and self.names.tensor(data) is None

    def _was_computed(self, origin: Origin | None) -> bool:
        """Whether the origin is what a model that ran again had been given, the result of operations before it."""
        given = None if origin is None or origin.leaf is None else origin.leaf.itself
        return given is not None and given.requires_grad and self.names.tensor(given) is None

    def _bad_parameter(self) -> tuple[str, Tensor] | None:
        """A parameter of the model that is not finite, with its name."""
        members = () if self.names.model is None else self.names.model.named_parameters()
        return next(((name, parameter) for name, parameter in members if is_bad(parameter)), None)

    def _spoilt(self) -> tuple[str, Tensor] | None:
        """The same, or a leaf of the step outside any model, such as one that the program updates by hand."""
        leaf = next(filter(is_bad, self._leaves), None)
        name = None if leaf is None else self.names.tensor(leaf) or nameless(leaf)
        return self._bad_parameter() or (None if leaf is None or name is None else (name, leaf))

    def _bad_member(self) -> Origin | None:
        """The same as an origin: then no operation of the step is to blame."""
        found = self._bad_parameter()
        if found is None or self._is_gone:
            return None
        return met_at(self.names.frame, Argument("weight", found[1].detach(), leaf=found[1]))

    # --- wording ------------------------------------------------------------------------------------------------------

    def _event(self, origin: Origin, harmed: str, undone: bool = False) -> NaNEvent:
        """The report about an origin and further births; a weight that was harmed may be put back, then it is clean."""
        origin, loaded = self._loaded(origin)
        event = self._told(origin, harmed, undone)
        event = with_note(event, loaded or self._samples.met_by_numpy(event, origin.leaf))
        also = (self._told(each, harmed, undone) for each in origin.also[:MOST_ALSO])
        return replace(event, also=tuple(also)) if origin.also else event

    def _loaded(self, origin: Origin) -> tuple[Origin, str | None]:
        """The birth in the loading of a sample that came in bad, and a remark that says which sample it is."""
        data = origin.leaf.itself if origin.leaf is not None and origin.leaf.leaf is None else None
        if data is None or data.requires_grad or (again := self._samples.load_again(data)) is None:
            return origin, None
        found = self._origin([] if again.made is None else [again.made])
        if found is None or found.leaf is not None:
            return origin, again.told()
        return replace(found, path=(*found.path, *origin.path)), _LOADED.format(again.index)

    def _told(self, origin: Origin, harmed: str, undone: bool) -> NaNEvent:
        made, origin = self._made_again(origin)
        call = origin.call
        source = first_with_nan(self.names.frame, origin) if made is None and self._recorder is None else None
        if made is not None:
            known = Origin(made.call, path=(made.call, *origin.path))
            return self._describer.written(known, made, call, harmed=harmed, context=self._settled_context())
        context = self._settled_context()
        if source is not None:
            origin = replace(origin, where=None, leaf=Argument(source[0], source[1].detach(), original=source[1]))
            context["source"] = source[0]
        gaps = {"unkept": not origin.sure, "unseen": call.is_unseen, "derived": self._is_derived(origin)}
        context |= {key: True for key, holds in gaps.items() if holds}
        if origin.leaf is not None and (self._recorder is None or self._is_state(origin.leaf)):
            context["untraced"] = True
        spoilt = None if undone else self._spoilt()
        if spoilt is not None and (origin.leaf is None or origin.leaf.leaf is not spoilt[1]):
            context["spoilt"] = spoilt[0]
        event = self._describer.event(origin, harmed=harmed, context=context)
        if self._is_made_by_derivative(origin):
            kind = "invalid" if event.nan_count else "overflow"
            event = replace(event, op="unknown", kind=kind, operands={}, path=event.path[1:], cause=_IN_DERIVATIVE)
        where = self._where_instead(event, call.forward or call) or self._where_else(call.forward or call)
        return with_note(event, None if origin.sure else NOT_SURE, where, self._note)

    def _is_state(self, argument: Argument) -> bool:
        """Whether it is a parameter or a buffer: what wrote to it in an earlier step was not recorded."""
        tensor = argument.value if argument.leaf is None else argument.leaf
        return self.names.member(tensor if argument.original is None else argument.original) is not None

    def _made_again(self, origin: Origin) -> tuple[Made | None, Origin]:
        """The operation that made the data in which an origin lies, if the line that did can be computed again.

        Otherwise the origin; if the data has no name, at the variable that was already bad when the line read it.
        """
        leaf, call = origin.leaf, origin.call
        if self._recorder is not None or (leaf is None and origin.sure):
            return None, origin
        if leaf is None:
            running = under_way(self.names.frame, call.code)
            made, held = made_of_operand(running, call)
            if made is None and held is None and running is None:
                made = made_inside(self.names.frame, call)
            if held is not None:
                origin = replace(origin, where=None, leaf=Argument("other", held.detach(), original=held), sure=True)
            return made, origin
        if leaf.leaf is not None:  # a tensor of the program, unchanged since
            frame, name = under_way(self.names.frame, call.code), self.names.tensor(leaf.leaf)
            lineno = None if frame is None else line_of(frame.f_code, call.at)
            return (None if lineno is None or name is None else made_again(frame, name, leaf.leaf, lineno)), origin
        data = leaf.itself
        if data is None or data.requires_grad:
            return None, origin
        frame, name = under_way(self.names.frame, call.code), self.names.tensor(data)
        if name is None and frame is None and (found := given(self.names.frame, call, data)) is not None:
            frame, call, data = found
            origin = replace(origin, call=call, where=None, leaf=Argument(leaf.name, data.detach(), original=data))
            name = self.names.tensor(data)
        if frame is None:  # the function has returned, but perhaps not those that called it
            return self._given_to(call, data) or made_inside(self.names.frame, call, data), origin
        if name is not None:
            return made_again(frame, name, data, line_of(frame.f_code, call.at)), origin
        made, held = made_in_line(frame, frame.f_code, call.at, data)
        if made is None and held is not None:
            origin = replace(origin, leaf=Argument(leaf.name, held.detach(), original=held))
        return made, origin

    def _given_to(self, call: Call, data: Tensor) -> Made | None:
        """The operation that made data which one of the callers of an operation's function gave to it."""
        if (holder := self.names.holder(data)) is not None:
            frame, name = holder
            at = next((at for code, at in call.callers if code is frame.f_code), frame.f_lasti)
            return made_again(frame, name, data, line_of(frame.f_code, at))
        around = ((under_way(self.names.frame, code), at) for code, at in call.callers)
        made = (made_in_line(frame, frame.f_code, at, data)[0] for frame, at in around if frame is not None)
        return next(filter(None, made), None)

    def _where_instead(self, event: NaNEvent, call: Call) -> str | None:
        """Where backward or the optimizer was called, and between which operations, if the line of the operation
        is not known.
        """
        if event.lineno is not None or self.names.frame is None:
            return None
        place, hint = place_of(self.names.frame), self._between(call) or self._written(call)
        return (
            "The line of this operation was not recorded. That happens in threads other than the watch's, in compiled "
            "programs, and in a step whose operations differ from those of earlier steps. The step was at "
            f"{place['filename']}:{place['lineno']}, in {place['function']}.{hint}"
        )

    def _between(self, call: Call) -> str:
        """The nearest known lines of operations before and after a given one, as one more sentence.

        Operations that may also have been called in another branch do not count.
        """
        if call.seq is None or self._recorder is not None:
            return ""
        around = self._sites.noted_around([root.grad_fn for root in self._roots], call.seq)
        sure = [[at for name, at in each if not same_in_other_branches(*at, name)] for each in around]
        places = [site(*each[0]) for each in sure if each]
        if len(places) < len(sure):
            return ""
        before, after = (f"{each.filename}:{each.lineno}" for each in places)
        return f" It was called between the operations at {before} and {after}."

    def _written(self, call: Call) -> str:
        """Where the program's file calls the operation, as one more sentence; empty if in too many lines.

        Lines that no noted step has run count first: an operation without a line is often in the branch of a rare case.
        """
        code, op = getattr(self.names.frame, "f_code", None), canonical(call.name)
        if code is None or self._recorder is not None:
            return ""
        maker = next((each.made_by for each in call.tensors()), None)
        lines = lines_with(code, op, None if maker is None else maker.name)
        new = [each for each in lines if each not in self._sites.lines_noted(op, code.co_filename)]
        if not 0 < len(new or lines) <= _FEW:
            return ""
        said = ", which no recorded step had run" if new else ""
        return f" This file has {op} at line {' or '.join(map(str, new or lines))}{said}."

    def _where_else(self, call: Call) -> str | None:
        """The other possible lines, if the line of the operation was taken from another step."""
        if self._recorder is not None or self._is_rerun or not self._sites.is_looked_up(call):
            return None
        others = same_in_other_branches(call.code, call.at, call.name)
        return _ONE_OF_SEVERAL.format(" or ".join(map(str, others))) if others else None

    def _unknown(self, tensor: Tensor | None, harmed: str, leaves: Sequence[Tensor] = ()) -> NaNEvent:
        """The event when no origin was found: what is known."""
        clipping = "clip_grad_norm" in self._context
        return NaNEvent(
            kind="overflow" if tensor is not None and not has_nan(tensor) else "invalid",
            op="unknown",
            is_backward=harmed != "loss",
            index=first_of(tensor),
            harmed=harmed,
            cause=None if clipping else self._what_is_known(harmed, leaves),
            note=" ".join(filter(None, (self._trouble or GONE, self._note))),
            surroundings=Surroundings(library="torch", context=self._settled_context() | {"unseen": True}),
            **place_of(self.names.frame),
            **statistics(tensor),
        )

    def _what_is_known(self, harmed: str, leaves: Sequence[Tensor]) -> str:
        if harmed == "loss":
            return "The loss is not finite, and there is no record of how it was computed."
        if self._calls.outputs_got_bad_gradients:
            return (
                "The loss is finite, but the gradient of the model's output is not: it was born in the backward of the "
                "loss function."
            )
        if not self._went_back:
            return (
                "This gradient is not finite, and there has been no backward pass since the last update: it was "
                "computed another way (func.grad, autograd.grad, by hand), or is left over from an earlier step."
            )
        if self._is_changed:
            return (
                "The loss is finite, but this gradient is not, and gradients have been changed since backward made "
                f"them, by clipping, by scaling or by the program itself{self._writes_to_gradients()}. If it was born "
                f"there, look for a division by a norm that is 0.{_hooks_of(leaves)}"
            )
        return (
            "The loss is finite, but this gradient is not: it was born in backward, or in a later change to it "
            f"(clipping, scaling by hand).{_hooks_of(leaves)}"
        )

    def _writes_to_gradients(self) -> str:
        """The lines of the program's file that write to gradients, for an explanation; empty if there are many."""
        if self.names.frame is None:
            return ""
        code = self.names.frame.f_code
        lines = lines_that_write(code, "grad")
        written = [f"line {each}, `{linecache.getline(code.co_filename, each).strip()}`" for each in lines]
        return f" ({'; '.join(written)})" if 0 < len(written) <= _FEW else ""

    def _settled_context(self) -> dict[str, Any]:
        context = dict(self._context)
        if (name := self.names.model_name()) is not None:
            context["model"] = name
        clipping = dict(context.get("clip_grad_norm", {}))
        place = clipping.pop("place", None)
        if clipping:
            code_line = place_fields(*place).get("code_line") if place is not None else None
            context["clip_grad_norm"] = clipping | ({"code_line": code_line} if code_line else {})
        return context

    def _gradient_name(self, leaves: Sequence[Tensor]) -> str:
        for leaf in leaves:
            name = self.names.tensor(leaf)
            if name is not None:
                return f"the gradient of {name}"
        return f"the gradient of {nameless(leaves[0])}" if leaves else "a gradient"


def _never(call: Call) -> bool:
    """Of a second run, each operation is recorded with its own line."""
    return False


def _hooks_of(leaves: Sequence[Tensor]) -> str:
    """The functions that are called with the gradients of leaves, as one more sentence; empty if there are none."""
    hooks = [hook for leaf in leaves for hook in (leaf._backward_hooks or {}).values()]
    codes = dict.fromkeys(code for hook in hooks if (code := getattr(hook, "__code__", None)) is not None)
    places = [f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})" for code in codes]
    return f" Hooks also change it: {', '.join(places[:3])}." if places else ""
