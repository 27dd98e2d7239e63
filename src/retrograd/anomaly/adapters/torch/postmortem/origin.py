"""Tracing a harm back to its births: through non-finite values only, element by element where operations allow it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.elements.shapes import broadcasts
from retrograd.anomaly.adapters.torch.postmortem.element_sources import source_elements
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, bad, can_be_bad, has_nan, is_bad
from retrograd.anomaly.adapters.torch.records.partial_writes import Part
from retrograd.anomaly.operation_names import TRANSPARENT, canonical


@dataclass(eq=False)
class Origin:
    """Where a non-finite value came into being.

    Attributes
    ----------
    call
        The operation; for a value that came in from outside, the first one that took it.
    output
        Which of its results.
    where
        Its elements that were born bad; None if only the whole is known.
    leaf
        The argument that came in non-finite.
    path
        The calls from the operation to the harm.
    sure
        Whether all arguments are known to have been finite.
    also
        Further births that lead to the harm, each from finite arguments.
    """

    call: Call
    output: int = 0
    where: Tensor | None = None
    leaf: Argument | None = None
    path: tuple[Call, ...] = ()
    sure: bool = True
    also: tuple[Origin, ...] = ()


@dataclass(eq=False)
class _Visit:
    """Which of a call's results have been found to matter."""

    call: Call
    masks: dict[int, Tensor | None] = field(default_factory=dict)
    towards: Call | None = None


def met_at(frame: FrameType | None, argument: Argument) -> Origin:
    """The origin of a harm that no operation caused: an argument that came in bad, met where a frame is."""
    call = Call("leaf", [], [argument.value], 0)
    if frame is not None:
        call.code, call.at = frame.f_code, frame.f_lasti
    return Origin(call, leaf=argument)


def origin_of(
    harmed: Sequence[tuple[Call, int]],
    is_meant: Callable[[Call], bool],
    unsaved_data: Callable[[Call], Tensor | None] = lambda call: None,
) -> Origin | None:
    """The first cause of a non-finite result: the earliest birth, or argument that came in bad, that leads to it.

    An infinity that was written on purpose, such as a mask, is no cause; if nothing else is found, the operation
    that turned it into a NaN is.

    Parameters
    ----------
    harmed
        Results that are not finite.
    is_meant
        Tells whether the infinities of an operation are intended.
    unsaved_data
        Finds an argument of an operation that nothing has kept.
    """
    search = _Search(is_meant)
    for call, output in harmed:
        search.reach(call, output, bad(call.outputs[output]), None)
    search.run()
    certain = [each for each in search.leaves + search.births if not search.is_absorbed(each)]
    certain = certain or search.births
    came_in, masks = ([], []) if certain else search.lost(unsaved_data)
    # Each list says what is known of its operations, and what may be claimed of the earliest one. The order is that
    # of what has to be assumed for the claim, from nothing on.
    candidates = (
        certain,  # all operands are known: it was born here; or one was bad: it came in here
        came_in,  # an operand was not kept, but a variable still holds it, and it is bad: it came in here
        search.forced,  # an operand was not kept, but the divisor is 0: it was born here, whatever was divided
        search.overflowed(),  # neither was kept, but it gave plus infinity, which is no mask, and that became NaN
        search.turned(masks),  # infinities that may be masks became NaN: here, unless an unknown operand was NaN
        search.last_known(masks),  # an operand was not kept: it was born here or before
        search.only_lacking(),  # the same, the only such operand: all others pass on what they are given
        search.misplaced(),  # infinities that may be masks went into sums of products: they are the cause
        search.opaque(),  # a Function's results are unknown: it was born in there
        search.vague,  # neither an operand nor what made it was kept: it was born here or before
        search.placed,  # there are only infinities that may be masks: they are the cause
    )
    for found in candidates:
        first = min(found, key=lambda each: each.call.order, default=None)
        if first is not None:
            first.path = search.way(first.call)
            first.also = tuple(search.others(first)) if found is certain else ()
            return first
    return None


class _Search:
    """Works backwards through the calls, the latest first, so that each is visited once, after all its consumers."""

    def __init__(self, is_meant: Callable[[Call], bool]) -> None:
        self._is_meant = is_meant
        self._visits: dict[Call, _Visit] = {}
        self._queue: list[tuple[float, int, Call]] = []
        self._ticket = itertools.count()
        self.leaves: list[Origin] = []
        self.births: list[Origin] = []
        self.forced: list[Origin] = []  # one operand alone makes the result bad; another was not kept
        self.vague: list[Origin] = []  # neither an operand was kept nor what made it
        self.placed: list[Origin] = []  # infinities that may be masks
        self._turns: list[Origin] = []  # NaN made of infinities
        self._doubtful: list[Origin] = []  # an operand was not kept
        self._lacking: list[tuple[Call, Argument]] = []
        self._without_masks: set[Call] = set()  # whose results went, as they are or rearranged, into a normalisation

    def reach(self, call: Call, output: int, mask: Tensor | None, towards: Call | None) -> None:
        visit = self._visits.get(call)
        if visit is None:
            visit = self._visits[call] = _Visit(call, towards=towards)
            heapq.heappush(self._queue, (-call.order, next(self._ticket), call))
        if output not in visit.masks:
            visit.masks[output] = mask
            return
        known = visit.masks[output]
        if known is None or mask is None or known.shape != mask.shape:  # one may be of a view, the other of its base
            visit.masks[output] = None
        else:
            visit.masks[output] = known | mask.to(known.device)

    def run(self) -> None:
        while self._queue:
            visit = self._visits[heapq.heappop(self._queue)[2]]
            for output, mask in visit.masks.items():
                self._explain(visit.call, output, mask)

    def way(self, call: Call) -> tuple[Call, ...]:
        found = [call]
        while (following := self._visits[found[-1]].towards) is not None:
            found.append(following)
        return tuple(found)

    def is_absorbed(self, origin: Origin) -> bool:
        """Whether it is only minus infinity, on its way into an operation that treats that as a mask."""
        made = origin.call.outputs[origin.output] if origin.leaf is None else None
        following = (each for each in self.way(origin.call)[1:] if not each.is_backward)
        if made is None or not any(canonical(each.name) in _ABSORBING for each in following):
            return False
        return _is_like_a_mask(made)

    def others(self, first: Origin) -> Iterator[Origin]:
        """The certain births besides the first one, in order; only the first one per operation in the program.

        One from a Python number that is not finite is left out: that may have been read from the result of another.
        """
        seen = {(first.call.code, first.call.at)}
        for birth in sorted(self.births, key=lambda each: each.call.order):
            call = birth.call
            if self.is_absorbed(birth) or any(each.is_bad_number for each in call.args):
                continue
            if call.code is not None and (call.code, call.at) not in seen:
                seen.add((call.code, call.at))
                birth.path = self.way(call)
                yield birth

    def _is_mixed(self, call: Call) -> bool:
        """Whether the result of an operation went straight into sums of products, where no mask belongs."""
        names = (canonical(each.name) for each in self.way(call)[1:])
        return next((each for each in names if each not in _HARMLESS and each not in TRANSPARENT), None) in _MIXING

    def opaque(self) -> list[Origin]:
        """The operations with finite arguments whose results cannot be computed again: those of Functions."""
        if not self._is_passed_on():
            return []
        unknown = [each for each in self.placed if each.leaf is None and each.call.outputs[each.output] is None]
        found = [each for each in unknown if (each.sure or each.call.is_unseen) and not each.call.places_infinity()]
        return [replace(each, sure=each.sure and len(found) == 1) for each in found]

    def lost(self, unsaved_data: Callable[[Call], Tensor | None]) -> tuple[list[Origin], list[Origin]]:
        """The arguments that nothing has kept but that were found anyway: those that are no masks, and masks."""
        lost: list[Origin] = []
        masks: list[Origin] = []
        for call, argument in self._lacking:
            known = replace(argument, value=unsaved_data(call))
            if known.value is not None:
                (masks if _may_be_a_mask(known) else lost).append(Origin(call, leaf=known))
        return lost, masks

    def overflowed(self) -> list[Origin]:
        """The operations with unknown operands that gave an infinity which is no mask and became NaN later."""
        made = [(each, each.call.outputs[each.output]) for each in self.vague if self._turns]
        return [each for each, result in made if result is not None and _is_infinite(result)]

    def turned(self, masks: list[Origin]) -> list[Origin]:
        """The operations that made NaN of infinities that were placed on purpose."""
        return [replace(turn, sure=not self._may_be_born_before(masks)) for turn in self._turns]

    def last_known(self, masks: list[Origin]) -> list[Origin]:
        """The operations with a bad result and an operand that was not kept; or the mask that this operand was."""
        return [next((each for each in masks if each.call is doubt.call), doubt) for doubt in self._doubtful]

    def misplaced(self) -> list[Origin]:
        """The infinities that may be masks but went straight into sums of products."""
        return [each for each in self.placed if self._is_mixed(each.call)]

    def _may_be_born_before(self, masks: list[Origin]) -> bool:
        """Whether an infinity came out of an operation with an argument that nothing has kept and that is no mask."""
        known = {each.call for each in masks}
        unsure = [
            each for each in (*self._doubtful, *self.placed) if not each.sure or each.call.outputs[each.output] is None
        ]
        return any(each.call not in known and canonical(each.call.name) not in _MASKS for each in unsure)

    def only_lacking(self) -> list[Origin]:
        """The operation with the only argument that nothing has kept, if there is just one and it is no mask."""
        if not self._is_passed_on() or len(self._lacking) != 1 or canonical(self._lacking[0][0].name) in _MASKS:
            return []
        return [Origin(self._lacking[0][0], sure=False)]

    def _is_passed_on(self) -> bool:
        """Whether all operations of which too little is known can only pass bad numbers on."""
        return all(canonical(each.call.name) in _PASSING_ON for each in self.vague)

    def _explain(self, call: Call, output: int, reached: Tensor | None) -> None:
        """Go on to the arguments of a call, some elements of one of whose results were reached."""
        made = call.outputs[output]
        if call.whole is not None and reached is not None and reached.shape == call.whole.value.shape:
            self._follow_whole(call, call.part.put(torch.zeros((), dtype=torch.bool), reached))
            reached = call.part.of(reached)
            if not bool(reached.any()):
                return
        if made is not None and (reached is None or made.shape != reached.shape):  # shapes differ if it wrote to a view
            reached = bad(made)
        elif made is not None and reached is not None:
            reached = reached.to(made.device)
        elif reached is None and call.shape is not None and output == 0:
            reached = torch.ones(call.shape, dtype=torch.bool)
        mask = None if made is None else reached  # which elements of an unknown result are bad is not known
        explained = False
        unknown: list[Argument] = []
        left = mask.clone() if mask is not None and call.pointwise else None
        for argument in call.tensors():
            if argument.value is None:
                unknown.append(argument)
                continue
            wrong = bad(argument.value)
            if wrong is None:
                continue
            chosen = _chosen(call, argument, wrong, output, reached)
            if chosen is not None and not bool(chosen.any()):
                continue
            if left is not None:
                left &= ~wrong.expand(left.shape) if broadcasts(wrong.shape, left.shape) else torch.zeros_like(left)
            explained = True
            self._follow(call, argument, chosen)
        if left is not None and bool(left.any()) and not unknown:
            self._born(call, output, left, sure=True)
        elif not explained:
            zeros = _divided_by_zero(call, reached)
            if zeros is not None and bool(zeros.any()) and not self._is_meant(call):
                self.forced.append(Origin(call, output, zeros))
            self._not_explained(call, output, mask, unknown, reached)
        elif has_nan(call.outputs[output]) and not any(has_nan(each.value) for each in call.tensors()):
            self._turns.append(Origin(call, output, torch.isnan(call.outputs[output])))

    def _not_explained(
        self, call: Call, output: int, mask: Tensor | None, unknown: list[Argument], reached: Tensor | None
    ) -> None:
        self._lacking += [(call, each) for each in unknown if each.made_by is None]
        suspects = [each for each in unknown if each.made_by is not None and not each.made_by.known]
        for argument in suspects:
            assert argument.made_by is not None
            shape = argument.made_by.shape if argument.output == 0 else None
            device = None if reached is None else reached.device
            whole = None if shape is None else torch.ones(shape, dtype=torch.bool, device=device)
            chosen = None if whole is None else _chosen(call, argument, whole, output, reached)
            self.reach(argument.made_by, argument.output, chosen, call)
        if not suspects:
            self._born(call, output, mask, sure=not unknown)
        elif mask is not None:
            self.vague.append(Origin(call, output, mask, sure=False))

    def _born(self, call: Call, output: int, where: Tensor | None, sure: bool) -> None:
        if self._is_meant(call):
            return
        made = call.outputs[output]
        placed = (made is None or call.places_infinity() or (not sure and _is_like_a_mask(made))) and not has_nan(made)
        found = self.placed if placed else self.births if sure else self._doubtful
        found.append(Origin(call, output, where, sure=sure))

    def _follow(self, call: Call, argument: Argument, wrong: Tensor | None) -> None:
        maker = argument.made_by
        name = canonical(call.name)
        passes_on = name in TRANSPARENT or name in _JOINING
        takes_no_mask = name in (*_NORMALISING, *_MIXING) or (call in self._without_masks and passes_on)
        if maker is not None:
            if takes_no_mask:
                self._without_masks.add(maker)
            made = maker.outputs[argument.output]
            if is_bad(made) or (made is None and maker.kept):
                self.reach(maker, argument.output, _in_whole(maker, argument, wrong), call)
                return
        found = self.placed if _may_be_a_mask(argument) and not takes_no_mask else self.leaves
        found.append(Origin(call, 0, wrong, leaf=argument))

    def _follow_whole(self, call: Call, rest: Tensor) -> None:
        """Go on to the call that made the rest of a tensor, to a part of which another call has written."""
        whole = call.whole
        maker = None if whole is None else whole.made_by
        if whole is not None and maker is not None and bool(rest.any()) and is_bad(maker.outputs[whole.output]):
            self.reach(maker, whole.output, _in_whole(maker, whole, rest), self._visits[call].towards)


def _in_whole(maker: Call, argument: Argument, mask: Tensor | None) -> Tensor | None:
    """Elements of an argument as elements of the whole tensor, if its maker has written to a part of that."""
    if maker.whole is None or mask is None:
        return mask
    whole = maker.whole.value
    part = Part.written(argument.itself, whole, whole.shape)
    return None if part is None else part.put(mask, torch.zeros(whole.shape, dtype=torch.bool, device=mask.device))


_HARMLESS = ("add", "mean", "mul", "neg", "rsub", "sub", "sum")  # which make bad values from masks only
_JOINING = ("cat", "split", "split_with_sizes", "stack", "unbind")
_PASSING_ON = (*_HARMLESS, *_JOINING, *(TRANSPARENT - {"to"}))
_MIXING = ("addmm", "baddbmm", "bmm", "cholesky_solve", "conv", "dot", "inv", "linear", "matmul", "mm", "mv", "solve")
_NORMALISING = ("batch_norm", "group_norm", "layer_norm", "rms_norm", "std", "var")  # which take no masks either
_ABSORBING = ("amax", "log_softmax", "logsumexp", "max", "softmax")
_MASKS = ("masked_fill", "where")  # which may have written a harmless infinity


def _chosen(call: Call, argument: Argument, wrong: Tensor, output: int, mask: Tensor | None) -> Tensor | None:
    """Which bad elements of an argument can have made the elements of the result that were reached."""
    if mask is None:
        return None
    mask = mask.to(wrong.device)
    if call.pointwise and broadcasts(wrong.shape, mask.shape):
        reached = wrong.expand(mask.shape) & mask
        if not call.is_backward:
            reached &= _selected(call, argument, mask.shape)
        return _narrowed(reached, wrong.shape)
    moved = source_elements(call, argument, wrong, output, mask)
    if moved is not None:
        return moved
    dim, given = _dim(call), argument.tensor
    if dim is None or (given is not None and given.layout is not torch.strided):  # a sparse one has them in one row
        return wrong
    if mask.shape == wrong.shape and mask.dim():
        return wrong & mask.any(dim, keepdim=True)
    if mask.dim() == wrong.dim() - 1:
        mask = mask.unsqueeze(dim)
    return wrong & mask if broadcasts(mask.shape, wrong.shape) else wrong


_DIVISORS = {"addcdiv": "tensor2", "div": "other", "fmod": "other", "remainder": "other"}


def _divided_by_zero(call: Call, reached: Tensor | None) -> Tensor | None:
    """The elements of a quotient that cannot be finite, whatever was divided, as they were divided by 0."""
    name = None if call.is_backward else _DIVISORS.get(canonical(call.name))
    divisor = next((each.tensor for each in call.args if each.name == name), None)
    if name is None or divisor is None or reached is None:
        return None
    return (divisor == 0).expand(reached.shape) & reached if broadcasts(divisor.shape, reached.shape) else None


def _selected(call: Call, argument: Argument, shape: torch.Size) -> Tensor | bool:
    """The elements that come from an argument of a ``where`` or ``masked_fill``; all for any other operation."""
    by = {"where": "condition", "masked_fill": "mask"}.get(canonical(call.name))
    condition = next((each.tensor for each in call.args if each.name == by), None)
    if condition is None or not broadcasts(condition.shape, shape):
        return True
    takes_where_true = argument.name == ("input" if by == "condition" else "value")
    return condition.expand(shape) if takes_where_true else ~condition.expand(shape)


def _dim(call: Call) -> int | None:
    """The one dimension along which an operation works, if it has a parameter ``dim``."""
    value = next((each.value for each in call.args if each.name == "dim"), None)
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, int) else None


def _narrowed(tensor: Tensor, shape: torch.Size) -> Tensor:
    """The reverse of broadcasting, for boolean tensors."""
    while tensor.dim() > len(shape):
        tensor = tensor.any(0)
    for dim, size in enumerate(shape):
        if size == 1 and tensor.shape[dim] != 1:
            tensor = tensor.any(dim, keepdim=True)
    return tensor


def _may_be_a_mask(argument: Argument) -> bool:
    """Whether an outside value has infinities as masks do: only -Inf, or one number; parameters are excluded."""
    tensor: Any = argument.tensor
    if tensor is None or tensor.requires_grad or argument.leaf is not None or not can_be_bad(tensor):
        return False
    return _is_like_a_mask(tensor) or (tensor.numel() == 1 and not tensor.is_complex() and not has_nan(tensor))


def _is_infinite(tensor: Tensor) -> bool:
    """Whether its only non-finite values are infinities, and they are no mask."""
    return not has_nan(tensor) and not _is_like_a_mask(tensor)


def _is_like_a_mask(tensor: Tensor) -> bool:
    """Whether its only non-finite values are -Inf."""
    return not (tensor.is_complex() or has_nan(tensor) or bool(torch.isposinf(tensor).any()))
