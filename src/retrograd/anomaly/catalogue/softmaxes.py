"""Softmax written out, and softmax of rows that are masked or infinite: rows 5 and 19."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

from retrograd.anomaly.catalogue._expression import (
    addends,
    first,
    is_masked,
    is_number,
    maker,
    named,
    plus_one,
    second,
    value,
)
from retrograd.anomaly.catalogue._reductions import dims, without_keepdim
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._softmax import Quotient, are_of_same, largest
from retrograd.anomaly.catalogue._source_line import Line, Site, atom, is_name
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.surroundings import Operand, Operation, Place

_LINEAR = ("add", "dot", "matmul", "mean", "mul", "neg")


@cause(5, "softmax written out, without subtracting the largest value")
def written_out_softmax(scene: Scene) -> Finding | None:
    if (scene.op, scene.kind) in (("div", "divide"), ("exp", "invalid")):
        return None
    for quotient in scene.roots("div", through=("exp", "sum", *_LINEAR)):
        written_out = Quotient.of(quotient) or Quotient.weighted(quotient)
        if written_out is None or not written_out.is_softmax:
            continue
        if quotient is not scene.birth and scene.kind != "overflow":
            continue  # it was NaN or infinite before
        x = first(written_out.above)
        known = scene.at(first(scene.birth) if scene.op == "exp" else x, "x")
        happened = (
            "Every exponential underflows to 0, and 0 / 0 is NaN"
            if scene.op == "div" and value(second(quotient)) == 0
            else f"exp({known}) overflows {scene.dtype} to inf, and inf / inf is NaN"
        )
        rewritten, place = _as_softmax(scene, written_out)
        spelling = scene.spelling(scene.site(quotient))
        return Finding(
            f"{happened}. Subtracting the largest x first does not change the quotient and keeps every exponential at "
            "or below 1; softmax does just that.",
            rewritten,
            f"y = {spelling.tensor_call('softmax', scene.called(x, 'x'), 'dim=-1')}",
            place,
        )
    return None


def _as_softmax(scene: Scene, written_out: Quotient) -> tuple[str | None, Place | None]:
    """The line with a softmax for the quotient, or else with the largest value taken out; and where it stands."""
    quotient, exp, total = written_out.quotient, written_out.above, written_out.total
    site = scene.site(quotient)
    above = scene.site(exp, site) or scene.site(exp)
    summed = scene.site(total, site) or scene.site(total)
    below = scene.site(written_out.below, summed) or scene.site(written_out.below)
    text = above.written.text(0, "input")
    if text is None or not (site and summed and below):
        return None, quotient.place
    x = first(written_out.below)
    many = x.shape is not None and len(x.shape) > 1
    whole = summed.written.argument(1, "dim", "axis") is None and many
    spelling, is_spelled_out = scene.spelling(site), above.node is above.written.node
    softmax = None if whole or spelling.numpy else written_out.picked(scene, site, "softmax")
    if is_spelled_out and softmax is not None:
        return site.replaced(softmax), quotient.place
    line, spelling = above.written.line, scene.spelling(above)
    where = "" if whole else dims(summed, None, numpy=spelling.numpy)
    if below.written.line is not line or not written_out.cancels(scene, site, where):
        return None, quotient.place
    taken_out = f"{atom(text)} - {largest(text, where, spelling)}"
    place = above.place if is_spelled_out else exp.place
    return line.replaced(dict.fromkeys(_exponents(line, text), taken_out)), place


def _exponents(line: Line, text: str) -> list[ast.expr]:
    """The arguments of the exponentials in a line that are written so."""
    given = (w.argument(0, "input") for w in line.operations if w.op == "exp" and w.text(0, "input") == text)
    return [node for node in given if node is not None]


@cause(None, "softmax over groups, without subtracting the largest value of each")
def softmax_over_groups(scene: Scene) -> Finding | None:
    if scene.backward or (scene.op, scene.kind) not in (("exp", "overflow"), ("div", "invalid")):
        return None
    for quotient in scene.roots("div", through=("exp",)):
        exp, total = maker(first(quotient), "exp"), _total_of_groups(second(quotient))
        added = None if total is None else maker(named(total, "source", "src"), "exp")
        if exp is None or added is None or not are_of_same(exp, added):
            continue
        site = scene.site(quotient)
        above = scene.site(exp, site) or scene.site(exp)
        x, node = first(exp), above.written.argument(0, "input")
        text = scene.called(x, "x") if node is None else above.written.line.text(node)
        index = _group_of_each(site) or "index"
        largest_ones = _largest_of_groups(text, index, len(x.shape or (0,)))
        spelled_out = above.node is above.written.node
        rewritten = None
        if node is not None and is_name(text) and index != "index":
            rewritten = above.written.line.replaced({node: f"{text} - {largest_ones}"})
        return Finding(
            f"exp({scene.at(x, 'x')}) leaves the range of {scene.dtype}, and the quotient is inf / inf or 0 / 0. It is "
            "a softmax over the elements of each group. Subtract the largest x of the group first: this does not "
            "change the quotient and keeps every exponential at or below 1. A bound would make large ones equal.",
            rewritten,
            f"e = {scene.spelling(site).call('exp', f'{text} - {largest_ones}')}",
            above.place if spelled_out else exp.place,
        )
    return None


def _total_of_groups(below: Operand | None) -> Operation | None:
    """What adds up a denominator by groups; a small number may be added to the sums."""
    terms = (below,) if (pair := addends(below)) is None else tuple(each for each in pair if not is_number(each))
    return maker(terms[0], "index_add", "scatter_add", "scatter_reduce") if len(terms) == 1 else None


def _group_of_each(quotient: Site) -> str | None:
    """How a line writes the groups of the elements by which it looks up their sums."""
    below, line = quotient.written.argument(1, "other"), quotient.line
    for part in ast.walk(below) if below is not None else ():
        if isinstance(part, ast.Subscript):
            return line.text(part.slice)
        call = line.operation_at(part)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "index_select":
            return call.text(2, "index")
    return None


def _largest_of_groups(text: str, index: str, dims: int) -> str:
    """The largest value of each element's group, by ``index``, as code."""
    x = atom(text)
    groups = f"{atom(index)}.reshape({', '.join(['-1', *['1'] * (dims - 1)])}).expand_as({text})"
    shape = ", ".join([f"int({index}.max()) + 1", f"*{x}.shape[1:]"][: min(dims, 2)])
    top = f'{x}.new_zeros({shape}).scatter_reduce(0, {groups}, {x}.detach(), "amax", include_self=False)'
    return f"{top}[{index}]"


@cause(None, "sigmoid written as exp(x) / (1 + exp(x))")
def written_out_sigmoid(scene: Scene) -> Finding | None:
    if scene.op != "exp" or scene.backward:
        return None
    for quotient in scene.roots("div", through=("exp", "add")):
        exp, below = maker(first(quotient), "exp"), maker(plus_one(second(quotient)), "exp")
        if exp is None or below is None:
            continue
        if not are_of_same(exp, below):
            continue
        site = scene.site(quotient)
        spelling = scene.spelling(site)
        text = scene.site(exp, site).text(0, "input")
        return Finding(
            f"exp({scene.at(first(exp), 'x')}) overflows {scene.dtype} to inf, and inf / inf is NaN. sigmoid is the "
            "same function, 1 / (1 + exp(-x)), computed so that nothing overflows; its logarithm is logsigmoid.",
            site.replaced(spelling.tensor_call("sigmoid", text)) if text else None,
            f"p = {spelling.tensor_call('sigmoid', scene.called(first(exp), 'x'))}",
            quotient.place,
        )
    return None


@cause(19, "softmax of a fully masked row")
def masked_row(scene: Scene) -> Finding | None:
    if scene.op == "div":
        return _masked_row_of_exponentials(scene)
    if scene.op == "sub" and maker(second(scene.birth), "logsumexp") and scene.kind == "invalid" and not scene.backward:
        return _masked_logits(scene)
    if scene.op == "sub":
        return _masked_row_by_hand(scene, scene.birth) if "exp" in scene.later[:1] else None
    if scene.op == "exp" and scene.kind == "invalid" and not scene.backward:
        difference = maker(first(scene.birth), "sub")  # what it gave is not known, but exp makes no NaN
        return None if difference is None else _masked_row_by_hand(scene, difference)
    if scene.op == "scaled_dot_product_attention":
        return _masked_row_of_attention(scene)
    operand = first(scene.birth)
    if scene.op in ("softmax", "log_softmax"):
        return _masked_row_of_softmax(scene, operand.max if operand.max is not None else operand.value)
    if scene.op == "cross_entropy" and scene.backward and scene.event.born == "NaN":  # of an ignored row
        return _masked_row_of_softmax(scene, scene.event.operands.get("input"))  # its extremes are those of all rows
    return None


def _masked_row_of_softmax(scene: Scene, largest: Any) -> Finding | None:
    """The finding for a softmax, or the one in a cross entropy, by the largest score of the row if that is known."""
    unsure = scene.event.input_has_inf or (scene.kind == "invalid" and scene.context.get("unkept"))
    if largest != -math.inf and not (largest is None and unsure):
        return None
    if largest is not None:
        explanation = _MASKED
    else:
        explanation = _ALL_NAN if 1 < scene.event.size == scene.event.nan_count else _PERHAPS_MASKED
    site = scene.site(scene.birth)
    if not site and (padding := _padding_unmasked(scene)):
        return Finding(f"{explanation} {_PADDING}", padding)
    dim = _along(scene, site)
    rewritten = scene.replaced(site, 0, lambda x, spelling: _unmasked(x, dim, spelling), "input")
    if largest is None and not any(_OF_MASKS.search(each.code_line or "") for each in scene.operations()):
        return Finding(explanation)  # no mask is in sight: the line would only guess at one
    name = scene.called(first(scene.birth), "scores")
    return Finding(explanation, rewritten, f"{name} = {_unmasked(name, '-1', scene.spelling(site))}")


def _along(scene: Scene, site: Site) -> str:
    """The dimension of a softmax as the line has it; that of a cross entropy is the one of the classes."""
    if site.written.op == "cross_entropy":
        return "1" if len(scene.event.output_shape or ()) > 2 else "-1"
    return site.written.text(1, "dim", "axis") or "-1"


def _unmasked(scores: str, where: str, spelling: Spelling) -> str:
    """Scores with zeros for a row that is masked completely; ``where`` says along which dimension rows are."""
    given, name = (scores, scores) if is_name(scores) else (f"scores := {scores}", "scores")
    condition = f"{spelling.library}.isneginf({given}).all({where}, keepdim=True)"
    return f"{spelling.library}.where({condition}, 0.0, {name})"


def _masked_row_of_attention(scene: Scene) -> Finding | None:
    if scene.kind != "invalid" or _has_no_mask(scene):
        return None
    site = scene.site(scene.birth)
    rewritten = None
    if (node := site.written.keywords.get("attn_mask")) is not None:
        mask = atom(site.line.text(node))
        rewritten = site.line.replaced({node: f"{mask} | ~{mask}.any(-1, keepdim=True)"})
    return Finding(_MASKED, rewritten, "mask = mask | ~mask.any(-1, keepdim=True)")


@cause(None, "softmax of an infinite score")
def infinite_score(scene: Scene) -> Finding | None:
    if scene.op not in ("softmax", "log_softmax") or scene.backward or first(scene.birth).max != math.inf:
        return None
    return Finding(
        f"A score in this row is inf, and {scene.op} computes inf - inf, which is NaN. A mask of -inf is fine, +inf "
        "never is: find where the scores overflowed, or where a log of 0 was subtracted or a division by 0 was added.",
    )


@cause(None, "log_softmax of scores that lie too far apart")
def distant_scores(scene: Scene) -> Finding | None:
    """Distant scores, but not one of -inf, for which the mask that wrote it is reported."""
    event = scene.event
    if scene.op != "log_softmax" or scene.backward or event.nan_count or not event.neginf_count:
        return None
    return Finding(
        f"The scores of this row are further apart than the largest {scene.dtype}, so their difference, the logarithm "
        "of the smallest probability, is -inf. Find out why they are so large: scale them down, normalise what they "
        "are computed from, or keep the weights of the last layer small.",
    )


def _has_no_mask(scene: Scene) -> bool:
    """Whether an attention is known to be without a mask."""
    mask = named(scene.birth, "attn_mask", "mask", "attn_bias")
    return mask is not None and mask.shape is None and mask.value is None and mask.constant


_OF_MASKS = re.compile(r"mask|\binf|triu|tril|\bpad|valid|legal|where|keep|\badj|bias", re.IGNORECASE)
_MASKED = (
    "Every score in this row is -inf: nothing is left to attend to, and softmax computes -inf - (-inf), which is NaN. "
    "A mask is fine, a fully masked row is not. Unmask one key in such rows (padding rows are discarded later anyway), "
    "or set their scores to 0 before the softmax."
)


_NOTHING_SUMMED = (
    "Every number in this row is -inf, the largest included, and -inf - (-inf) is NaN. The row itself is valid (the "
    "sum of their exponentials is 0, and its log is -inf), but it has no finite maximum to subtract: use 0 for the "
    "difference in such a row."
)


_PERHAPS_MASKED = (
    "The scores of this row were not kept. If a mask covers the whole row, all of them are -inf, and softmax computes "
    "-inf - (-inf), which is NaN: unmask one key in such rows, or set their scores to 0 before the softmax. If there "
    "is no mask, one of the scores is inf or NaN: look at how they are computed."
)
_ALL_NAN = (
    "Every row of this softmax is NaN, and its scores were not kept. Either every score is -inf: unmask one key per "
    "row, or set the scores of such rows to 0. Or a NaN was added to them: a mask made by multiplying, as in (1 - "
    "keep) * -inf, is 0 * inf = NaN where nothing is masked; make it with where or masked_fill."
)


_PADDING = "The line below unmasks every key of a sample that is nothing but padding."


def _padding_unmasked(scene: Scene) -> str | None:
    """The line with the padding mask of a layer changed, so that no sample is masked as a whole."""
    given = [each for each in scene.line.keywords() if (each.arg or "").endswith("key_padding_mask")]
    if len(given) != 1:
        return None
    mask = atom(scene.line.text(given[0].value))
    return scene.line.replaced({given[0].value: f"{mask} & ~{mask}.all(-1, keepdim=True)"})


def _masked_row_of_exponentials(scene: Scene) -> Finding | None:
    quotient = scene.birth
    written_out = Quotient.of(quotient)
    if written_out is None or not written_out.is_softmax or scene.backward or value(second(quotient)) != 0:
        return None
    exp, total = written_out.above, written_out.total
    if not is_masked(first(exp)):
        return None
    site = scene.site(quotient)
    above, summed = scene.site(exp, site), scene.site(total, site)
    spelling = scene.spelling(site)
    text = above.written.text(0, "input")
    where = (without_keepdim(dims(summed, first(exp))) if summed else "") or "dim=-1"
    rewritten, place = None, exp.place
    if text and is_name(text) and not spelling.numpy:
        line = above.written.line
        rewritten = line.replaced(dict.fromkeys(_exponents(line, text), _unmasked(text, where, spelling)))
        place = above.place if above.node is above.written.node else exp.place
    scores = _unmasked(scene.called(first(exp), "scores"), where, spelling)
    return Finding(
        "Every score in this row is -inf: every exponential is 0, so is their sum, and 0 / 0 is NaN. A mask is fine, a "
        "fully masked row is not. Set the scores of such rows to 0 (padding rows are discarded later anyway), or "
        "unmask one key.",
        rewritten,
        f"y = {spelling.tensor_call('softmax', scores, 'dim=-1')}",
        place,
    )


def _masked_row_by_hand(scene: Scene, difference: Operation) -> Finding | None:
    left, right = first(difference), second(difference)
    if maker(right, "amax", "max", "logsumexp") is None:
        return None
    if value(left) not in (-math.inf, None) or value(right) not in (-math.inf, None):
        return None
    site = scene.site(difference)
    spelling = scene.spelling(site)
    rewritten = None
    if site.written.text(0) and (largest_one := site.written.text(1, "other")):
        written = site.line.text(site.node)
        rewritten = site.replaced(spelling.where(f"{spelling.module}.isneginf({largest_one})", "0.0", written))
    return Finding(
        _NOTHING_SUMMED if "log" in scene.later else _MASKED,
        rewritten,
        f"z = {spelling.where(f'{spelling.module}.isneginf(largest)', '0.0', 'scores - largest')}",
        difference.place,
    )


def _masked_logits(scene: Scene) -> Finding | None:
    """The same for logits less their logsumexp, as distributions of classes compute it of what they are given."""
    if value(first(scene.birth)) not in (-math.inf, None):
        return None
    if scene.site(scene.birth):
        return _masked_row_by_hand(scene, scene.birth)
    line, spelling = scene.line, scene.spelling()
    given: list[ast.AST] = [each.value for each in line.keywords() if each.arg == "logits"]
    edits = {each: _unmasked(line.text(each), "-1", spelling) for each in given}
    return Finding(
        "All logits of this row are -inf: a mask has left nothing to choose from, and subtracting their logsumexp "
        "gives -inf - (-inf), which is NaN. Leave such rows out, or unmask one class in them; with logits of 0, all "
        "classes are equally likely.",
        line.replaced(edits) if len(edits) == 1 else None,
        f"logits = {_unmasked('logits', '-1', spelling)}",
    )


CAUSES = (masked_row, written_out_softmax, softmax_over_groups, written_out_sigmoid, infinite_score, distant_scores)
