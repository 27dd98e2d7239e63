"""Causes outside single operations: clipping, optimizers, learning rates: rows 44 to 47."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from retrograd.anomaly.catalogue._expression import ancestors, denominator, first, number, shown, size_of, value
from retrograd.anomaly.catalogue._learning_rates import smaller_rate, with_rate
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, is_name, number_written
from retrograd.anomaly.float16 import vanishes
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Place


@cause(45, "clipping by a norm that is not finite")
def poisoned_clipping(scene: Scene) -> Finding | None:
    clip = scene.context.get("clip_grad_norm")
    if canonical(scene.event.op) not in ("clip_grad_norm", "unknown") or not isinstance(clip, dict):
        return None
    line = Line.parse(clip.get("code_line") or scene.event.code_line)
    written = next((w for w in line.operations if w.op == "clip_grad_norm"), None)
    rewritten = line.replaced({written.node: written.with_keyword("error_if_nonfinite", "True")}) if written else None
    bound = shown(clip.get("max_norm", 1.0))
    return Finding(
        f"One gradient was not finite, so the total norm is {shown(clip.get('total_norm', math.inf))}; clipping "
        "divides every gradient by that norm, so one bad element spoils all of them. Let it raise, or skip the step, "
        "and fix the line where that gradient was born.",
        rewritten,
        f"{scene.spelling().library}.nn.utils.clip_grad_norm_({_parameters(scene)}, {bound}, error_if_nonfinite=True)",
    )


def _parameters(scene: Scene) -> str:
    """What the optimizer has been given: the parameters of the model, or the list in the line that has made it."""
    line = Line.parse(scene.optimizer.get("code_line"))
    kind = canonical(str(scene.optimizer.get("name")))
    given = next((each for each in line.operations if each.op == kind), NOTHING).argument(0, "params")
    is_list = isinstance(given, ast.List) and not any(isinstance(each, ast.Dict) for each in given.elts)
    if given is not None and is_list and not scene.context.get("model"):
        return line.text(given)
    return f"{scene.model}.parameters()"


@cause(46, "optimizer's eps is zero")
def zero_eps(scene: Scene) -> Finding | None:
    optimizer = scene.optimizer
    eps = number(optimizer.get("eps"))
    if not optimizer.get("updating") or eps is None or not vanishes(eps, scene.half) or scene.kind == "overflow":
        return None
    grad = number(scene.event.operands.get("grad"))
    is_seen = _divides_by(scene, eps)
    if not is_seen and not scene.squares_gradients and (grad != 0 or scene.kind != "invalid"):
        return None
    name = optimizer.get("name", "Adam")
    new = "1e-4" if scene.half else "1e-8"
    rewritten = _with_eps(Line.parse(optimizer.get("code_line")), str(name), eps, new)
    why = "eps is 0" if eps == 0 else f"an eps of {eps:g} rounds to 0 in float16"
    if grad:
        so_far = f"The square of this gradient, {grad:.3g}, is 0 in {scene.dtype}"
        quotient = "a division by 0, which is Inf"
    elif scene.kind != "invalid":
        so_far, quotient = "What it divides by is 0 here", "a division by 0, which is Inf"
    else:
        so_far, quotient = "This gradient has been 0 so far", "0/0, which is NaN"
    root = "the root of a mean or a sum of squared gradients"
    some = "what it computes from the gradients (a norm, or a root of squares)"
    divisor = root if scene.squares_gradients and not is_seen else some
    advice = (
        "In float16, eps must be 1e-4 or more; better, keep the weights and the optimizer state in float32."
        if scene.half
        else f"The usual eps is {new}."
    )
    return Finding(
        f"{name} divides by {divisor}, plus eps. {so_far}, and {why}: the step is {quotient}, and would spoil the "
        f"weight. {advice}",
        rewritten,
        f"optimizer = {'' if optimizer.get('own') else f'{scene.spelling().library}.optim.'}{name}"
        f"({_parameters(scene)}, lr={shown(optimizer.get('lr', 1e-3))}, eps={new})",
        Place.told(optimizer) if rewritten else None,
    )


def _divides_by(scene: Scene, eps: float) -> bool:
    """Whether the birth is a division by a 0 to which ``eps`` has been added, in a step that was recorded."""
    below = first(scene.birth) if scene.op == "rsqrt" else denominator(scene.birth)
    if value(below) != 0 or below is None or below.producer is None:
        return False
    sums = (each for each in ancestors(below.producer, 2) if each.op == "add")
    return any(each.constant and number(each.value) == eps for sum_ in sums for each in sum_.args)


def _with_eps(line: Line, name: str, eps: float, new: str) -> str | None:
    """The line that makes an optimizer, with another ``eps`` for the group that has this one, or for all of them."""
    written = next((w for w in line.operations if w.op == canonical(name)), None)
    if written is None:
        return None
    of_groups = [
        given
        for each in ast.walk(written.node)
        if isinstance(each, ast.Dict)
        for key, given in zip(each.keys, each.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "eps" and number_written(given) == eps
    ]
    if of_groups:
        return line.replaced(dict.fromkeys(of_groups, new))
    return line.replaced({written.node: written.with_keyword("eps", new)})


@cause(44, "infinite gradients of opposite sign meet")
def opposed_gradients(scene: Scene) -> Finding | None:
    gradients = [each for each in map(value, scene.birth.args) if each is not None]
    if scene.op != "accumulate_grad" or scene.kind != "invalid" or any(map(math.isfinite, gradients)):
        return None
    makers = [operand.producer for operand in scene.birth.args if operand.producer is not None]
    places = [f"{made.op} ({scene.line_of(made)})" if made.place else made.op for made in makers]
    born = f", in {' and '.join(dict.fromkeys(places))}" if places else ""
    return Finding(
        f"Two paths lead to {scene.event.harmed or 'this leaf'}: one brings an infinite gradient, the other the "
        f"opposite infinity, and their sum is NaN. The infinities were born earlier{born}; fix them there.",
        None,
        f"y = {scene.spelling().call('sqrt', 'x + ' + scene.eps)}",
        birth=makers[0] if makers else None,
    )


def _rising(history: object, factor: float) -> bool:
    """Whether the last values rise steadily, by a large factor in all, and to more than there has been.

    A loss near zero rises by large factors all the time, and nothing has run away. One rise tells less than two: where
    there have been but two steps, it is to be the larger.
    """
    if not isinstance(history, Sequence):
        return False
    known = [abs(value) for value in map(number, history) if value is not None and math.isfinite(value)]
    tail = known[-3:]
    if len(tail) < 2 or not all(before < after for before, after in itertools.pairwise(tail)):
        return False
    needed = factor if len(tail) == 3 else factor**2
    return tail[-1] >= max(known) and tail[-1] > needed * max(min(known[-8:]), 1e-30)


def _is_sudden(losses: Sequence[float | None]) -> bool:
    """Whether this step's loss is the first one to stand out after several, as that of an unusual batch does."""
    known = [abs(each) for each in map(number, losses[-3:]) if each is not None and math.isfinite(each)]
    return len(known) == 3 and known[1] < 2 * known[0] < known[2]


def _age(history: Sequence[float | None]) -> int:
    """How many steps ago the last known finite number was recorded."""
    is_known = [value is not None and math.isfinite(value) for value in reversed(history)]
    return is_known.index(True) if True in is_known else len(is_known)


def _is_of_large_numbers(scene: Scene) -> bool:
    """Whether it was born of numbers that had grown, and not of a pole or outside of a domain."""
    if scene.kind == "overflow":
        below = value(denominator(scene.birth))
        return below is None or abs(below) > 1e-18
    sizes = [size for operand in scene.birth.args if (size := size_of(operand)) is not None]
    if scene.backward and (arrived := number(scene.grad)) is not None:
        sizes.append(abs(arrived))
    return scene.kind == "invalid" and max(sizes, default=0.0) > 1e15


@cause(47, "learning rate too high: the weights ran away")
def runaway(scene: Scene) -> Finding | None:
    if scene.half or not _is_of_large_numbers(scene) or not (evidence := _evidence(scene)):
        return None
    if scene.context.get("searched_by"):  # a line search goes too far on purpose
        return None
    optimizer = scene.optimizer
    settings = optimizer or dict(scene.context.get("rate") or {})  # of an update by hand
    written = settings.get("rate") or {} if optimizer else settings
    rate, start = number(settings.get("lr")), number(settings.get("initial_lr"))
    peak = number(settings.get("max_lr"))
    smaller = "lr / 10"
    if rate:
        known = peak or start or rate
        smaller = f"{smaller_rate(known, rate, scene.context, is_scaled=scene.squares_gradients):g}"
    bounded = f"min({written['name']}, {smaller})" if written.get("is_set") and "lr" not in written else smaller
    rewritten = with_rate(written, bounded) if rate else None
    raised = f" (the schedule began with {start:g})" if start and rate and rate > 2 * start else ""
    happened = "overflowed" if scene.kind == "overflow" else "gave NaN"
    where = "in the gradients" if scene.backward else "in the forward pass"
    if optimizer.get("updating"):
        where = "in the update"
    name = "lr" if optimizer or not is_name(str(written.get("name", ""))) else str(written["name"])
    hides = "; bounding its argument would only hide it" if scene.op == "exp" else ""
    return Finding(
        f"The weights ran away before {scene.op} {happened} {where}: {evidence}. The operation is only where it became "
        f"visible, not the cause{hides}. Use a smaller learning rate{f' than {rate:g}{raised}' if rate else ''}, warm "
        f"it up, or clip the gradient norm before the step.{_of_large_data(scene)}",
        rewritten,
        f"lr = {smaller if rate else '1e-4'}" if optimizer else f"{name} = {name} / 10",
        Place.told(written) if rewritten else None,
    )


def _of_large_data(scene: Scene) -> str:
    """What to say about data that are far larger than 1 where a layer takes them; empty if none are known to be."""
    taken = [each for made in scene.operations() if made.op in _OF_LAYERS for each in made.args]
    data = [each for each in taken if each.producer is None and not each.requires_grad and not each.constant]
    sizes = {each: size for each in data if (size := size_of(each)) is not None and math.isfinite(size)}
    largest = max(sizes, key=lambda each: sizes[each], default=None)
    if largest is None or sizes[largest] < _LARGE:
        return _of_large_weights(scene)
    return (
        f" The numbers that go in ({scene.called(largest, 'the data')}) are as large as {sizes[largest]:.3g}, and the "
        "gradient with them: brought to about 1 first (less their mean, divided by their spread), they let it learn at "
        "the usual rates."
    )


def _of_large_weights(scene: Scene) -> str:
    """What to say if the loss was enormous before any update; empty if it was not, or if that is not known."""
    losses = [number(each) for each in scene.context.get("loss_history") or ()]
    first_loss = losses[0] if losses and len(losses) == scene.event.step else None
    if first_loss is None or not _ENORMOUS < abs(first_loss) < math.inf:
        return ""
    return (
        f" The loss was {first_loss:.3g} before the first update: look at how the weights are initialised, and at the "
        "size of the targets."
    )


_ENORMOUS = 1e6
_OF_LAYERS = ("convolution", "linear", "matmul")
_LARGE = 50.0


def _evidence(scene: Scene) -> str:
    """What shows that the weights ran away: the size of the last update, or a history that rises; empty if neither."""
    found = []
    updating = scene.optimizer.get("updating")  # of what this update has done, nothing is evidence
    if not updating and (grown := scene.context.get("grown")) is not None:
        found.append(_grown(grown))
    ratio = number(scene.context.get("update_ratio"))
    if ratio is not None and ratio >= 1.0:
        found.append(f"the last update was {ratio:.3g} times as large as the weights (1e-3 is healthy)")
    histories = {"gradient norm": "grad_norm_history", "loss": "loss_history"}
    rising = [
        name
        for name, key in histories.items()
        if (history := scene.context.get(key))
        and (_rising(history[:-1], 1e6) if updating else _rising(history, 100.0))
        and not (name == "loss" and not updating and _is_sudden(history))
    ]
    if rising:
        grown = min(rising, key=lambda name: _age(scene.context[histories[name]]))
        history = [each for each in map(number, scene.context[histories[grown]]) if each is not None]
        found.append(f"the {grown} went {', '.join(f'{value:.3g}' for value in history[-4:])}")
    return "; ".join(found)


def _grown(grown: Mapping[str, Any]) -> str:
    """A leaf that has grown by much, in words."""
    updates = grown["updates"]
    times = "in one update" if updates == 1 else f"in {updates} updates"
    return f"the norm of {grown['name']} went from {grown['before']:.3g} to {grown['now']:.3g} {times}"


def aside(scene: Scene, found: Finding) -> str:
    """What to say about the learning rate in addition to a cause in a single operation; empty if nothing."""
    grown = scene.context.get("grown")
    if grown is None or scene.backward or scene.event.kind == "leaf" or _grown(grown) in found.cause:
        return ""
    rate = number((scene.optimizer or scene.context.get("rate") or {}).get("lr"))
    of = f" of {rate:g}" if rate else ""
    return f" Look at the learning rate{of} as well: {_grown(grown)}, and with it the input of this operation."


@cause(None, "an update beyond the type's range")
def overflowing_update(scene: Scene) -> Finding | None:
    optimizer = scene.optimizer
    grad = number(scene.event.operands.get("grad"))
    if not optimizer.get("updating") or scene.kind not in ("overflow", "invalid") or grad is None:
        return None
    name, harmed = optimizer.get("name", "the optimizer"), scene.event.harmed or "the update"
    clip = f"{scene.spelling().library}.nn.utils.clip_grad_norm_({_parameters(scene)}, 1.0)"
    lr = number(optimizer.get("lr")) or 0.0
    rate = f" with lr={lr:g}" if lr else ""
    lasting = "" if harmed.startswith("the update") else "; it would stay infinite in all later steps"
    return Finding(
        f"The gradient, {grad:.3g}, is finite, but what {name} computes from it{rate} is beyond the range of "
        f"{scene.dtype}, and so is {harmed}{lasting}. Find out why {'the gradient' if abs(grad) > lr else 'lr'} is so "
        "large, and clip the gradient norm before the step.",
        _put_before(scene, clip),
        clip,
    )


def _put_before(scene: Scene, statement: str) -> str | None:
    """The line with another statement before the one in it that calls ``step``."""
    line, col = scene.event.code_line or "", scene.event.col or 0
    if line[:col].rstrip().endswith(";"):
        return f"{line[:col]}{statement}; {line[col:]}"
    return f"{statement}\n{line}" if line.endswith(".step()") and ";" not in line else None


@cause(None, "loss scale that keeps falling")
def falling_scale(scene: Scene) -> Finding | None:
    history = scene.context.get("scale_history")
    if not isinstance(history, Sequence):
        return None
    scales = [value for value in map(number, history) if value is not None]
    falling = len(scales) >= 5 and all(later < earlier for earlier, later in itertools.pairwise(scales[-5:]))
    if not falling and not (scales and scales[-1] < 1):
        return None
    return Finding(
        "An occasional Inf gradient under a gradient scaler is normal, but here the scale kept falling, to "
        f"{scales[-1]:g}, so no scale helps: some operation gives Inf or NaN whatever the scale. Run the operation "
        "named above in float32.",
        None,
        f'with {scene.spelling().library}.autocast("{scene.context.get("scaled_on", "cuda")}", enabled=False): '
        "y = layer(x.float())",
    )


CAUSES = (poisoned_clipping, zero_eps, opposed_gradients, runaway, overflowing_update)
FALLBACK = (falling_scale,)
