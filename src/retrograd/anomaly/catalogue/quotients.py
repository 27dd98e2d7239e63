"""Divisions by a norm, a spread or a count that turned out to be zero: rows 14 to 18."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import (
    denominator,
    euclidean,
    first,
    is_number,
    least,
    made_from,
    maker,
    named,
    root,
    same,
    second,
    squared,
    summed_square,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._reductions import dims, without_keepdim
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Site, atom
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.masks import is_chosen
from retrograd.anomaly.catalogue.roots import DISTANCES, in_wider_type, underflowed_squares
from retrograd.anomaly.surroundings import Operand, Operation


def _divided_by_zero(scene: Scene) -> Operand | None:
    """The denominator of the birth, if that is zero."""
    operand = denominator(scene.birth)
    if operand is None:
        return None
    known = value(operand)
    return operand if known == 0 or (known is None and scene.kind in ("divide", "invalid")) else None


@cause(None, "relative error where the data are zero")
def relative_error(scene: Scene) -> Finding | None:
    zero = _divided_by_zero(scene)
    if zero is None or zero.requires_grad or scene.op != "div" or scene.backward:
        return None
    within = list(_made_of(zero))
    data = next((each for each in within if _is_error(first(scene.birth), each, within)), None)
    if data is None:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)

    def endless(text: str) -> str:
        return spelling.where(f"{atom(text)} == 0", f"{spelling.module}.inf", text)

    name = scene.called(data, "target")
    return Finding(
        f"The error is divided by the size of {name}, which is 0 here, and a relative error has no meaning there. A "
        "small number in place of the 0 would make this one term larger than all the others together. Leave such "
        "elements out: divided by inf, they add nothing to the sum or to the gradient.",
        scene.replaced(site, 1, lambda text, _: endless(text), "other"),
        f"y = (prediction - {name}) / {endless(name)}",
    )


def _made_of(operand: Operand, depth: int = 5) -> Iterator[Operand]:
    """An operand and all operands from which it was computed."""
    yield operand
    for each in operand.producer.args if operand.producer is not None and depth else ():
        yield from _made_of(each, depth - 1)


def _is_error(operand: Operand, data: Operand, within: Sequence[Operand], depth: int = 5) -> bool:
    """Whether an operand is made from the difference between data and a prediction that does not use them.

    A prediction is not ``within`` what is divided by, as the ends of an interval are. A density of a difference is no
    error.
    """
    made = operand.producer
    if made is None or not depth or made.op in ("exp", "exp2", "sigmoid", "softmax"):
        return False
    pairs = (made.args[:2], made.args[1::-1]) if made.op == "sub" and len(made.args) > 1 else ()
    if any(
        same(one, data) and not is_number(other) and not _occurs(data, _made_of(other)) and not _occurs(other, within)
        for one, other in pairs
    ):
        return True
    return any(_is_error(each, data, within, depth - 1) for each in made.args[:1])


def _occurs(operand: Operand, among: Iterable[Operand]) -> bool:
    return any(same(each, operand) for each in among)


@cause(15, "cosine with a zero vector")
def cosine(scene: Scene) -> Finding | None:
    zero = _divided_by_zero(scene)
    if zero is None:
        return None
    product = maker(zero, "mul")
    norms = [euclidean(operand) for operand in product.args[:2]] if product else _norms_under_root(zero)
    quotient = next((operation for operation in scene.chain[:2] if operation.op in ("div", "mul")), scene.birth)
    dot = _dot(first(quotient)) or _dot(second(quotient))
    if dot is None or None in norms or not _is_scalar_product(quotient):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    vectors = [each for each in norms if each is not None]
    new, underflow = None, [found for each in vectors if (found := underflowed_squares(scene, each))]
    wide = bool(underflow) and not spelling.numpy
    if len(norms) == 2 and (place := scene.site(dot, site)) and place.can_be_moved:
        pair = place.written
        where = "dim=0"
        if pair.op == "sum":
            where = dims(place, None) or where
            inner = pair.line.operation_at(pair.argument(0, "input"))
            texts = (inner.text(0), inner.text(1)) if inner.op == "mul" else (None, None)
        elif all(len(each.shape or ()) < 2 for each in dot.args[:2]):  # not a product of several rows
            texts = (pair.text(0), pair.text(1, "other"))
        else:
            texts = (None, None)
        if texts[0] and texts[1]:
            similarity = _similarity(texts[0], texts[1], without_keepdim(where), scene, spelling, wide=wide)
            if pair.op == "sum" and pair.text(2, "keepdim") == "True":
                similarity = f"{similarity}.unsqueeze({pair.text(1, 'dim')})"
            new = site.replaced(similarity)
    a, b = (scene.called(operand, name) for operand, name in zip((*vectors, None, None), "ab", strict=False))
    if wide:
        return Finding(
            f"{underflow[0]}, so the cosine is 0/0. Compute it in a wider type.",
            new,
            f"y = {_similarity(a, b, 'dim=-1', scene, spelling, wide=True)}",
        )
    return Finding(
        "One of the two vectors is all zeros, so its norm is 0 and the cosine is 0/0. cosine_similarity keeps the "
        "norms above a small eps.",
        new or _clamped(scene, site),
        f"y = {spelling.functional('cosine_similarity', a, b, 'dim=-1')}",
    )


def _norms_under_root(zero: Operand) -> list[Operand | None]:
    """The vector of which an operand is the norm, or two if it is the product of two norms under one root."""
    product = maker(root(maker(zero, "sqrt", "pow")), "mul")
    if product is None:
        return [euclidean(zero)]
    return [None if (found := summed_square(each)) is None else found[1] for each in product.args[:2]]


def _similarity(a: str, b: str, where: str, scene: Scene, spelling: Spelling, *, wide: bool) -> str:
    if not wide:
        return spelling.functional("cosine_similarity", a, b, where)
    one, other = (f"{atom(each)}.{'float' if scene.half else 'double'}()" for each in (a, b))
    return f"{spelling.functional('cosine_similarity', one, other, where, 'eps=1e-30')}.to({atom(a)}.dtype)"


@cause(None, "correlation with constant values")
def constant_row(scene: Scene) -> Finding | None:
    line, call = scene.line, scene.line.only("corrcoef")
    is_called = bool(call) and (scene.called_there or "").rpartition(".")[2] == "corrcoef"
    if not is_called or _divided_by_zero(scene) is None:
        return None
    spelling = replace(scene.spelling(), methods=False)
    text = call.text(0, "input", "x") if len(call.parts()) == 1 and not spelling.numpy else None
    rewritten = None
    if text is not None and len(scene.event.output_shape or ()) == 2:
        centred = f"{atom(text)} - {atom(text)}.mean(-1, keepdim=True)"
        unit = spelling.functional("normalize", centred, "dim=-1", "eps=1e-6")
        rewritten = line.replaced({call.node: f"(unit := {unit}) @ unit.mT"})
    return Finding(
        "All values in one row are the same, so its standard deviation is 0 and its correlation with any other row is "
        "0/0. Leave such rows out, or compute the correlations as products of centred, normalised rows: they are then "
        "0 for such a row.",
        rewritten,
        "x = x[x.std(-1) > 0]",
    )


def _is_scalar_product(quotient: Operation) -> bool:
    """Whether a quotient may be a scalar product over norms: both sides have the same shape, as far as known."""
    shapes = [operand.shape for operand in quotient.args[:2] if operand.shape is not None]
    return len(shapes) < 2 or shapes[0] == shapes[1] or quotient.op != "div"


def _dot(operand: Operand | None) -> Operation | None:
    """The scalar product that made an operand, if any."""
    if product := maker(operand, "dot", "matmul"):
        return product
    total = maker(operand, "sum")
    product = maker(first(total), "mul")
    return total if product is not None and not same(first(product), second(product)) else None


def _clamped(scene: Scene, site: Site, low: str | None = None) -> str | None:
    """The line with the denominator kept above zero."""
    return scene.guarded(site, lambda text, spelling: spelling.clamp(text, low or scene.eps))


@cause(14, "division by a norm that is zero")
def zero_norm(scene: Scene) -> Finding | None:
    zero = _divided_by_zero(scene)
    x = euclidean(zero)
    if x is None:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    norm = maker(zero, "norm", "sqrt", "pow")
    if norm is not None and (underflow := underflowed_squares(scene, x, first(scene.birth))) is not None:
        own = scene.site(norm, site)
        rewritten, general = in_wider_type(scene, norm, x, own)
        place = norm.place if own.node is not own.written.node else scene.birth.place
        return Finding(f"{underflow}. Compute the norm in a wider type.", rewritten, general, place)
    built_in = maker(zero, "norm") is not None
    of_itself = same(first(scene.birth), x)
    eps = scene.usual_eps if of_itself else scene.eps
    rewritten, place = _clamped(scene, site, eps), scene.birth.place
    if has_gradient := of_itself and first(scene.birth).requires_grad:
        rewritten = scene.guarded(site, lambda text, spelling: spelling.where(f"{atom(text)} == 0", "1.0", text))
    instead = "Keep the norm above a small eps, as normalize does."
    if has_gradient and built_in:
        instead = (
            "Divide by 1 there: the vector stays 0. (Dividing by a small eps would do so too, but with a "
            "derivative of 1 / eps.)"
        )
    if not built_in:  # the root itself has no derivative at 0
        rewritten, place = scene.smoothed_root(zero, site, eps) or (None, place)
        if rewritten is not None:
            instead = "A small number under the root keeps the norm above 0 and the root's derivative finite."
    name = scene.called(x, "x")
    return Finding(
        f"The vector is all zeros, so its norm is 0 and {_what_happened(scene)}. {instead}",
        rewritten,
        f"y = {spelling.functional('normalize', name, 'dim=-1')}",
        place,
    )


def _what_happened(scene: Scene) -> str:
    if scene.backward:
        return "the derivative of the division is infinite; times a gradient of 0 it is NaN"
    return "the division gives inf" if scene.kind != "invalid" else "the division gives NaN (0/0)"


@cause(None, "division by the distance of equal points")
def zero_distance(scene: Scene) -> Finding | None:
    if maker(_divided_by_zero(scene), *DISTANCES) is None:
        return None
    site = scene.site(scene.birth)
    distances = scene.called(second(scene.birth), "d")
    return Finding(
        f"Two of the points coincide, so their distance is 0 and {_what_happened(scene)}. Keep the distances above a "
        "small eps, and leave out the distance of each point to itself.",
        _clamped(scene, site),
        f"d = {scene.spelling(site).clamp(distances, scene.eps)}",
    )


@cause(None, "arctangent of a quotient")
def angle_of_quotient(scene: Scene) -> Finding | None:
    zero = _divided_by_zero(scene)
    atan = next((each for each in scene.chain[1:2] if each.op == "atan"), None)
    if zero is None or atan is None or scene.op != "div" or (least(zero) or 0.0) < 0 or is_number(first(scene.birth)):
        return None
    outer = scene.site(atan)
    inner = scene.site(scene.birth, outer)
    above, below = inner.text(0), inner.text(1, "other")
    spelling = scene.spelling(outer)
    rewritten = outer.replaced(spelling.call("atan2", above, below)) if above and below else None
    names = [scene.called(each, name) for each, name in zip(scene.birth.args, "ab", strict=False)]
    return Finding(
        f"{scene.at(first(scene.birth), 'a')} / 0 is {scene.quotient}, although the angle is well defined: where b is "
        "never negative, atan(a / b) equals atan2(a, b), which does not divide.",
        rewritten,
        f"y = {spelling.call('atan2', *names)}",
        atan.place,
    )


@cause(16, "division by the standard deviation of constant values")
def zero_spread(scene: Scene) -> Finding | None:
    eps = "1e-3" if scene.half else "1e-5"
    if scene.op in ("std", "var"):
        spread, zero = scene.birth, None
        if not scene.backward or _single(scene):
            return None
    else:
        zero = _divided_by_zero(scene)
        made = _spread(zero)
        if made is None:
            return None
        spread = made
        if scene.op == "div" and not _is_deviation(first(scene.birth), spread):
            eps = scene.eps
    site = scene.site(scene.birth)
    found = site if zero is None else scene.site(spread, site)
    found = found or scene.site(spread)
    spelling = scene.spelling(found or site)
    rewritten, place = None, scene.birth.place
    if found:
        line, node = found.written.line, found.written.node
        new = f"{line.text(node)} + {eps}"
        if spread.op == "std":
            new = spelling.call("sqrt", f"{found.written.renamed('var')} + {eps}")
        rewritten = line.replaced({node: new})
        place = spread.place if line is not site.line else place
    name = scene.called(first(spread), "x")
    above = "0" if zero is None or scene.kind == "invalid" else scene.at(first(scene.birth), "x")
    return Finding(
        f"All the values are the same, so their standard deviation is 0 and the division is {above}/0. Add a small eps "
        "to the variance under the root, as normalisation layers do; it also keeps the derivative of the root finite.",
        rewritten,
        f"y = ({name} - {name}.mean()) / {spelling.call('sqrt', f'{name}.var() + {eps}')}",
        place,
    )


def _is_deviation(dividend: Operand, spread: Operation) -> bool:
    """Whether a dividend may be deviations from the mean, whose size is about one when divided by the spread."""
    made = unscaled(dividend)
    if made is None or made.producer is None:
        return True
    difference = maker(made, "sub")
    return difference is not None and same(first(difference), first(spread))


def _spread(operand: Operand | None) -> Operation | None:
    """The standard deviation (or variance under a root) that made an operand, or that is the zero factor in it."""
    product = maker(operand, "mul")
    if product is not None:
        return next((found for each in product.args[:2] if value(each) == 0 and (found := _spread(each))), None)
    return maker(operand, "std") or maker(root(maker(operand, "sqrt", "pow")), "var")


def _single(scene: Scene) -> bool:
    """Whether each standard deviation is that of a single element."""
    operand = first(scene.birth)
    dim = named(scene.birth, "dim", "axis")
    if operand.shape is None:
        return False
    axes = dim.value if dim is not None and dim.value is not None else tuple(range(len(operand.shape)))
    if isinstance(axes, bool) or not isinstance(axes, (int, tuple, list)):
        return False
    counted = axes if isinstance(axes, (tuple, list)) else (axes,)
    return math.prod(operand.shape[axis] for axis in counted) <= 1


@cause(17, "standard deviation of a single value")
def spread_of_one(scene: Scene) -> Finding | None:
    if (
        scene.op not in ("std", "var")
        or _is_empty(first(scene.birth))
        or not (_single(scene) or (first(scene.birth).shape is None and not scene.backward))
    ):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    eps = "1e-3" if scene.half else "1e-5"
    rewritten = None
    if site:
        written = site.written
        rest = [
            part
            for part in written.rest()
            if part.split("=")[0] not in ("unbiased", "correction", "ddof") and part not in ("True", "False")
        ]
        receiver = written.text(0, "input") or "x"
        option = "ddof=0" if spelling.numpy else "correction=0"
        arguments = ", ".join([*rest, option])
        has_eps = site.line.used_by(site.written.node, "add")
        is_safe = has_eps and not first(scene.birth).requires_grad  # also where the deviation is 0
        op = "std" if scene.op == "std" and is_safe else "var"
        if written.form == "method":
            new = f"{atom(receiver)}.{op}({arguments})"
        else:
            new = f"{written.prefix}{'.' if written.prefix else ''}{op}({receiver}, {arguments})"
        rewritten = site.replaced(new if op == scene.op else spelling.call("sqrt", f"{new} + {eps}"))
    name = scene.called(first(scene.birth), "x")
    return Finding(
        f"The {'standard deviation' if scene.op == 'std' else 'variance'} of one value divides by n - 1 = 0, and 0/0 "
        "is NaN. Often it is the last batch of an epoch that holds only one sample (drop_last=True drops it). Divide "
        "by n instead, or make sure that there are at least two values.",
        rewritten,
        f"y = {spelling.call('sqrt', f'{name}.var(correction=0) + {eps}')}",
    )


_EMPTY = (
    "Nothing was selected (an empty mask, an empty batch), and the mean of nothing is 0/0, which is NaN. Divide the "
    "sum by a count of at least 1: the result is then 0."
)


_NOTHING_SPREAD = (
    "Nothing was selected (an empty mask, an empty batch), and the standard deviation or variance of nothing is 0/0, "
    "which is NaN. Skip it when the selection is empty and use 0, the sum of nothing, instead. (A single value gives "
    "NaN too, unless correction=0.)"
)


@cause(18, "mean of an empty selection")
def empty_mean(scene: Scene) -> Finding | None:
    if scene.op == "mean":
        return _mean_of_nothing(scene)
    if scene.op in ("std", "var") and _is_empty(first(scene.birth)):
        return _spread_of_nothing(scene)
    if scene.op in _MEAN_LOSSES and _is_empty(first(scene.birth)) and scene.event.born == "NaN":
        return _loss_of_nothing(scene)
    zero = _divided_by_zero(scene)
    if zero is None or zero.requires_grad or scene.op != "div":
        return None
    counted = maker(zero, "sum", "count_nonzero", "numel") is not None or (zero.constant and zero.producer is None)
    if not counted or made_from(first(scene.birth), "sum") is None:
        return None
    total = maker(zero, "sum")
    if (total is not None and _are_no_ones(first(total), scene)) or value(first(scene.birth)) not in (0, None):
        return None  # no count, or the dividend is a sum of something
    site = scene.site(scene.birth)
    summed = made_from(first(scene.birth), "sum")
    is_weighted = summed is not None and maker(first(summed), "mul") is not None
    if is_weighted and total is not None and not is_chosen(first(total), first(total).text, total):
        spelling, weights = scene.spelling(site), scene.called(first(total), "weights")
        return Finding(
            f"Every element of {weights}{_of_the_total(total)} is 0, and a mean with a total weight of 0 is 0/0, which "
            "is NaN. Divide by 1 in that case: the mean is then 0. (Clamping the total to at least 1 would change the "
            "mean wherever the weights add up to less than 1.)",
            scene.guarded(site, lambda text, spelling: spelling.where(f"{atom(text)} == 0", "1.0", text)),
            f"y = (x * {weights}).sum() / {spelling.where('total == 0', '1.0', 'total')}",
        )
    rewritten = (
        scene.replaced(site, 1, lambda text, _: f"max({text}, 1)", "other")
        if zero.constant
        else _clamped(scene, site, "1")
    )
    return Finding(_EMPTY, rewritten, f"y = x.sum() / {scene.spelling(site).clamp('count', '1')}")


def _of_the_total(total: Operation) -> str:
    """Which elements a sum adds up, in words, if it adds up along some dimensions only."""
    dim, shape = named(total, "dim", "axis"), first(total).shape
    if (shape is not None and len(shape) < 2) or dim is None or dim.value is None:
        return ""
    return f" that this sum over dim {dim.value} adds up" if isinstance(dim.value, int) else " that this sum adds up"


_MEAN_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss", "mse_loss"),
    *("smooth_l1_loss", "soft_margin_loss"),
)


def _loss_of_nothing(scene: Scene) -> Finding:
    site = scene.site(scene.birth)
    text = site.written.text(0, "input")
    rewritten = None
    if text is not None and "reduction" not in site.written.keywords:
        summed = site.written.with_keyword("reduction", '"sum"')
        rewritten = site.replaced(f"{summed} / max({_count(text, scene.spelling(site))}, 1)")
    call = scene.spelling().functional(scene.op, "input", "target", 'reduction="sum"')
    return Finding(_EMPTY, rewritten, f"loss = {call} / max(input.numel(), 1)")


def _are_no_ones(summed: Operand, scene: Scene) -> bool:
    """Whether the sum is not a count: of squares, of weights that may be fractions, or of the dividend itself."""
    weights = maker(summed, *_WEIGHTS)
    return squared(summed) is not None or weights is not None or same(summed, first(scene.birth))


_WEIGHTS = ("abs", "exp", "relu", "sigmoid", "softmax", "softplus")


def _mean_of_nothing(scene: Scene) -> Finding | None:
    operand = first(scene.birth)
    if operand.shape is not None and 0 not in operand.shape:
        return None
    told = value(operand) is not None or scene.context.get("unkept")
    if operand.shape is None and (scene.kind != "invalid" or told):
        return None
    site = scene.site(scene.birth)
    rewritten = None
    if x := site.written.text(0, "input"):
        dim, spelling = site.written.text(1, "dim", "axis"), scene.spelling(site)
        count = f"{atom(x)}.shape[{dim}]" if dim else _count(x, spelling)
        rewritten = site.replaced(f"{site.written.renamed('sum')} / max({count}, 1)")
    name = scene.called(operand, "x")
    return Finding(_EMPTY, rewritten, f"y = {name}.sum() / max({name}.numel(), 1)")


def _count(x: str, spelling: Spelling) -> str:
    """Code for the number of elements of ``x``."""
    return f"{spelling.module}.size({x})" if spelling.numpy else f"{atom(x)}.numel()"


def _is_empty(operand: Operand) -> bool:
    return operand.shape is not None and 0 in operand.shape


def _spread_of_nothing(scene: Scene) -> Finding:
    site = scene.site(scene.birth)
    rewritten = None
    if (x := site.written.text(0, "input")) and not site.written.rest():
        count = _count(x, scene.spelling(site))
        nothing = site.written.renamed("sum")  # keeps a gradient, which is empty as well
        rewritten = site.replaced(f"{site.line.text(site.node)} if {count} else {nothing}")
    name = scene.called(first(scene.birth), "x")
    return Finding(_NOTHING_SPREAD, rewritten, f"y = {name}.{scene.op}() if {name}.numel() else {name}.sum()")


CAUSES = (
    constant_row,
    relative_error,
    angle_of_quotient,
    cosine,
    zero_norm,
    zero_distance,
    zero_spread,
    spread_of_one,
    empty_mean,
)
