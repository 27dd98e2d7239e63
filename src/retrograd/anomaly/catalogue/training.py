"""Causes outside single operations: data, weights, clipping, optimizers, learning rates: rows 44 to 50."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrograd.anomaly.catalogue._code import Line, is_name, with_rate
from retrograd.anomaly.catalogue._expression import denominator, first, named, normal, number, shown, size_of, value
from retrograd.anomaly.catalogue._reading import completed, logarithm_written
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import is_put_into_part
from retrograd.anomaly.half import vanishes
from retrograd.anomaly.names import canonical
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.surroundings import Operand, Operation, Place


def _leaf(scene: Scene) -> str | None:
    """What kind of leaf came in non-finite."""
    if scene.kind != "leaf":
        return None
    role = scene.context.get("leaf")
    return str(role) if role else "parameter" if scene.event.layer_name else "batch"


def _name(scene: Scene, default: str) -> str:
    return str(scene.context.get("name") or next(iter(scene.event.operands), None) or default)


def _bad(scene: Scene) -> str:
    counts = ((scene.event.nan_count, "NaN"), (scene.event.posinf_count, "Inf"), (scene.event.neginf_count, "-Inf"))
    parts = [f"{count} {what}" for count, what in counts if count]
    return " and ".join(parts) if parts else "non-finite values"


@cause(None, "argument of a function that is not finite")
def bad_argument(scene: Scene) -> Finding | None:
    if _leaf(scene) != "argument":
        return None
    name = scene.context.get("name") or "The argument"
    of = f" of {scene.event.size}" if scene.event.size else ""
    return Finding(
        f"{name} already held {_bad(scene)}{of} elements when the function was called that is differentiated; nothing "
        "in it made them. Look at where it got its value: a step of an optimizer or a sampler that went too far, a "
        "division by a zero spread, a log of zero, a missing value. NumPy warns where its own functions make such "
        "numbers of an array.",
    )


@cause(None, "infinity of a mask that was calculated with")
def bad_mask(scene: Scene) -> Finding | None:
    assigned, name = scene.context.get("assigned"), scene.context.get("name")
    is_mask = scene.event.neginf_count and not (scene.event.nan_count or scene.event.posinf_count)
    if _leaf(scene) != "batch" or not (name and assigned and is_mask and _INFINITY.search(assigned[0])):
        return None
    return Finding(
        f"{name} holds {_bad(scene)} of {scene.event.size} elements, as a mask does, written by line {assigned[1]}, "
        f"`{assigned[0]}`. That is legal where it is added to scores before a softmax. Elsewhere it does harm: 0 times "
        "inf and inf - inf are NaN. Let it come last, just before the softmax: scale, and add biases, before that.",
    )


_INFINITY = re.compile(r"\binf\b|\bINF\b|-inf|\bmasked_fill")


@cause(48, "non-finite values in the batch")
def bad_batch(scene: Scene) -> Finding | None:
    role = _leaf(scene)
    if role not in ("batch", "target"):
        return None
    context = scene.context
    name = str(context.get("name") or "")
    called, user = (name, None) if name else _taken(scene)
    data = "The targets" if role == "target" else "The data"
    if members := context.get("bad_members"):
        return _made_by_spoilt_module(scene, f"{data} held {_bad_elements(scene)} ({called})", members)
    if modules := context.get("computed_by"):
        return _made_by_modules(scene, f"{name} holds {_bad_elements(scene)}", modules)
    assigned, buffers = context.get("assigned"), None if name else context.get("bad_buffers")
    made = "no operation that was watched made them"
    if buffers:
        made = "they came in so, or were computed without a gradient, in this step or before"
    elif context.get("untraced"):
        made = "they came in so, or were computed without a gradient, of which nothing is kept"
    line = f" at line {assigned[1]}, `{assigned[0]}`, and" if assigned else ""
    if buffers:
        line = f" at the buffer {buffers[0]}, which holds such numbers too and so may have made them,{line or ' and'}"
    place = f", all of them in {context['slice']}," if context.get("slice") else ""
    is_part = is_put_into_part(name, scene.place)
    drops = not (buffers or user or is_part) and _may_drop(scene, name)
    only_minus = scene.event.neginf_count and not (scene.event.nan_count or scene.event.posinf_count)
    pole = logarithm_written(called, user) if user is not None and only_minus else None
    remedy, rest = _dropped(scene, name, role)
    held_by = context.get("held_by")
    quotient = _quotient(scene, *assigned) if assigned and scene.event.nan_count else None
    return Finding(
        f"{data} already held {_bad_elements(scene)}{place} when they came in ({called}); {made}. Look{line} at how "
        f"{'this sample was' if drops else 'samples are'} loaded and normalised (a division by a zero spread, a log of "
        "zero, a missing value)."
        f"{f' The line drops such samples{rest}.' if drops else ''}"
        f"{_OF_PART.format(name=name) if is_part else ''}"
        f"{f' Leave such samples out of what {held_by} is given.' if held_by else ''}"
        f"{' Every sample has one.' if context.get('every') else ''}"
        f"{' Where its denominator is 0, that line makes NaN of 0 / 0.' if quotient else ''}"
        f"{f' It is -inf where {first(pole).text} is 0.' if pole is not None else ''}",
        None,
        remedy if drops else None,
        birth=quotient or pole,
    )


_OF_PART = (
    " {name} is written to a part of another tensor, which has a place for each of its elements: choose a number for "
    "the bad ones, or leave these places out of what is computed of that tensor."
)


def _bad_elements(scene: Scene) -> str:
    return f"{_bad(scene)}{f' of {scene.event.size}' if scene.event.size else ''} elements"


def _made_by_spoilt_module(scene: Scene, what: str, members: Sequence[str]) -> Finding:
    """Data that was computed with a module whose parameters or buffers are not finite themselves."""
    assigned = scene.context.get("assigned")
    by = f" by line {assigned[1]}, `{assigned[0]}`" if assigned else ""
    return Finding(
        f"{what}. They were computed{by} without a gradient, with a module that holds such numbers itself, in "
        f"{_listed(members)}: no operation of this step need be to blame. Look at what was written there: an update or "
        "an average by hand, a load.",
    )


def _made_by_modules(scene: Scene, what: str, modules: Sequence[str]) -> Finding:
    """Data that was computed with modules which are fine."""
    assigned = scene.context.get("assigned")
    by = f" in line {assigned[1]}, `{assigned[0]}`," if assigned else ""
    return Finding(
        f"{what}. It was computed{by} without a gradient, with {_listed(modules)}, of which nothing is kept: such "
        "numbers were born in there, or came with what was given. Where every operation is recorded, the one is found.",
    )


def _may_drop(scene: Scene, name: str) -> bool:
    """Whether a line before the one that takes data can leave the bad samples out of it."""
    context, assigned = scene.context, scene.context.get("assigned")
    if scene.event.output_shape == () or _is_table(scene):
        return False
    if context.get("graphed") or context.get("every"):  # a graph's batch is always of one size
        return False
    if context.get("held_by") or context.get("taken", True) is None:
        return False
    if name and not name.isidentifier() and _entry(name) is None:  # an item or an attribute of what holds others
        return False
    return not (assigned and _is_computed(assigned[0]))


def _taken(scene: Scene) -> tuple[str, Operation | None]:
    """What data without a name is called: as the first operation that took it has it; and that operation."""
    called = str(scene.context.get("given") or _name(scene, "x"))
    user = next((each for each in scene.surroundings.consumers if isinstance(each, Operation)), None)
    if user is None or "given" in scene.context:
        return called, user
    given = named(completed(normal(user)), called)
    return (given.text if given is not None and given.text else f"{called} of {canonical(user.op)}"), user


def _dropped(scene: Scene, name: str, role: str) -> tuple[str, str]:
    """The line that drops the bad samples of a batch, and what becomes of what belongs to them."""
    entry = _entry(name)
    plain = name if name.isidentifier() or entry else "target" if role == "target" else "x"
    module = "np" if scene.context.get("plain_array") else scene.spelling().library
    keep = f"{module}.isfinite({plain}).reshape(len({plain}), -1).all(1)"
    if entry:
        kept = f"{entry} = {{key: each[{keep}] for key, each in {entry}.items()}}"
        return kept, f", with what belongs to them in {entry}"
    if partners := scene.context.get("partners"):
        together = ", ".join(partners)
        others = ", ".join(each for each in partners if each != plain)
        return f"{together} = (each[{keep}] for each in ({together}))", f" and what belongs to them ({others})"
    return f"{plain} = {plain}[{keep}]", "; drop their partners too"


_MAY_BE_ZERO = ("amax", "max", "norm", "std", "sum")


def _quotient(scene: Scene, text: str, lineno: int) -> Operation | None:
    """What a line divides where it assigns a quotient, as of 0 and 0, which is how that becomes NaN."""
    line = Line.parse(text)
    made = line.assignment[1] if line is not None and line.assignment is not None else None
    if line is None or not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Div):
        return None
    divisor = line.operation_at(made.right)
    if divisor is None or divisor.op not in _MAY_BE_ZERO:
        return None
    zeros = (Operand(name="input", value=0.0), Operand(name="other", value=0.0))
    return replace(scene.birth, op="div", args=zeros, col=None, code_line=text, lineno=lineno)


def _is_table(scene: Scene) -> bool:
    """Whether data is picked from by the line, as by the number of a step from a schedule: it holds no samples."""
    line = Line.parse(scene.event.code_line)
    return line is not None and any(
        each.id == scene.context.get("name") and line.is_picked(each) for each in line.names()
    )


def _listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def _entry(name: str) -> str | None:
    """The dictionary of a batch, where a name is one of its entries: ``batch`` of ``batch['x']``."""
    try:
        read = expression_of(name)
    except SyntaxError:
        return None
    if not isinstance(read, ast.Subscript) or not isinstance(read.value, ast.Name):
        return None
    of_text = isinstance(read.slice, ast.Constant) and isinstance(read.slice.value, str)
    return read.value.id if of_text else None


def _is_computed(assignment: str) -> bool:
    """Whether a line computes what it assigns: a formula, whose operands are to be mended and not its samples."""
    line = Line.parse(assignment)
    made = line.assignment if line is not None else None
    return made is not None and isinstance(made[1], (ast.BinOp, ast.UnaryOp))


@cause(None, "learning rate that is not finite")
def bad_rate(scene: Scene) -> Finding | None:
    if _leaf(scene) != "setting":
        return None
    name = _optimizer(scene).get("name", "the optimizer")
    return Finding(
        f"The learning rate of {name} is {number(scene.event.operands.get('lr'))}, so that every weight with a "
        "gradient would become infinite or NaN. Look at the schedule, or where the rate is set: a growth without an "
        "end, a division by a number of steps that is 0.",
    )


@cause(49, "uninitialised parameter")
def uninitialised(scene: Scene) -> Finding | None:
    if _leaf(scene) not in ("parameter", "buffer") or scene.context.get("updates", 0):
        return None
    stats = scene.event.output_stats or {}
    sizes = [
        abs(known)
        for known in (number(stats.get("min")), number(stats.get("max")))
        if known is not None and math.isfinite(known)
    ]
    if not any(size > 1e15 or 0 < size < 1e-30 for size in sizes):
        return None
    name = _name(scene, "weight")
    module = scene.spelling().library
    return Finding(
        f"{name} holds {_bad(scene)} beside numbers of no sensible size before the first update: memory that was "
        "allocated (empty, to_empty, a model built on the meta device, keys missing from a checkpoint) and never "
        "written. Initialise it; load_state_dict(strict=True) tells about missing keys.",
        None,
        f'{module}.nn.init.normal_({scene.model}.get_parameter("{name}"), std=0.02)',
    )


_TIMES = {1: "once", 2: "twice"}


@cause(50, "non-finite weight")
def bad_weight(scene: Scene) -> Finding | None:
    if _leaf(scene) not in ("parameter", "buffer"):
        return None
    name = _name(scene, "weight")
    returned = scene.context.get("returned")  # gradients, which are steps as well where nothing else is
    updates = scene.context.get("updates") or 0
    if updates or not returned:
        updates = max(updates, (scene.event.step or 1) - 1)  # those by hand ask nobody
    when = f"after {updates} step{'' if updates == 1 else 's'}" if updates else "when training began"
    if returned and not updates:
        when = f"after gradients were returned {_TIMES.get(returned, f'{returned} times')}"
    if name.endswith(("running_mean", "running_var")):
        return _poisoned_average(scene, name)
    written = "a load, an in-place change, an update with a non-finite gradient or learning rate"
    let_through = scene.context.get("let_through")
    # without a remedy: other numbers in their place would hide the reason, and train a weight that nobody has learned
    return Finding(
        f"{name} itself holds {_bad(scene)} {when}: every result is NaN from here on, and no operation of this step "
        "is to blame. "
        + (
            f"In step {let_through:,} the policy let the update go on with a bad gradient: mend what was found there, "
            "and go back to a checkpoint from before."
            if let_through
            else "What the numbers were is lost: go back to a checkpoint from before, and look at what was "
            f"written to it: {written}{_suspicion(scene)}."
        ),
    )


def _suspicion(scene: Scene) -> str:
    """What in the optimizer's settings may be to blame."""
    optimizer = _optimizer(scene)
    rate, eps = number(optimizer.get("lr")), number(optimizer.get("eps"))
    if rate is not None and not math.isfinite(rate):
        return f" (it is {rate:g} now)"
    name = str(optimizer.get("name", ""))
    if eps == 0 and scene.squares_gradients:
        return f", or by {name} with eps=0, whose step is 0/0 where all gradients have been 0"
    if optimizer.get("own"):
        return f", or the step of {name}, which is your own: look there for a division by a norm that can be 0"
    return ""


def _poisoned_average(scene: Scene, name: str) -> Finding:
    layer = name.rpartition(".")[0]
    owner = f'{scene.model}.get_submodule("{layer}")' if layer else scene.model
    return Finding(
        f"{name} itself holds {_bad(scene)}: a running average that has once met a NaN or an infinity never forgets "
        "it. A bad batch went through this layer in training mode before; look for that one. The line begins the "
        "averages anew; let some good batches pass in training mode before evaluating.",
        None,
        f"{owner}.reset_running_stats()",
    )


@cause(45, "clipping by a norm that is not finite")
def poisoned_clipping(scene: Scene) -> Finding | None:
    clip = scene.context.get("clip_grad_norm")
    if canonical(scene.event.op) not in ("clip_grad_norm", "unknown") or not isinstance(clip, dict):
        return None
    line = Line.parse(clip.get("code_line") or scene.event.code_line)
    written = next((w for w in line.operations if w.op == "clip_grad_norm"), None) if line else None
    rewritten = (
        line.replaced({written.node: written.with_keyword("error_if_nonfinite", "True")}) if line and written else None
    )
    bound = shown(clip.get("max_norm", 1.0))
    return Finding(
        f"One gradient was not finite, so the total norm is {shown(clip.get('total_norm', math.inf))}; clipping "
        "divides every gradient by it and one bad element becomes NaN in all of them. Let it raise, or skip the "
        "step, and mend the birth of that gradient.",
        rewritten,
        f"{scene.spelling().library}.nn.utils.clip_grad_norm_({_parameters(scene)}, {bound}, error_if_nonfinite=True)",
    )


def _optimizer(scene: Scene) -> dict[str, Any]:
    optimizer = scene.context.get("optimizer")
    return dict(optimizer) if isinstance(optimizer, dict) else {}


def _parameters(scene: Scene) -> str:
    """What the optimizer has been given: the parameters of the model, or the list in the line that has made it."""
    line = Line.parse(_optimizer(scene).get("code_line"))
    kind = canonical(str(_optimizer(scene).get("name")))
    made = next((each for each in line.operations if each.op == kind), None) if line is not None else None
    given = made.argument(0, "params") if made is not None else None
    is_list = isinstance(given, ast.List) and not any(isinstance(each, ast.Dict) for each in given.elts)
    if line is not None and given is not None and is_list and not scene.context.get("model"):
        return line.text(given)
    return f"{scene.model}.parameters()"


@cause(46, "optimizer's eps is zero")
def zero_eps(scene: Scene) -> Finding | None:
    optimizer = _optimizer(scene)
    eps = number(optimizer.get("eps"))
    if not optimizer.get("updating") or eps is None or not vanishes(eps, scene.half) or scene.kind == "overflow":
        return None
    grad = number(scene.event.operands.get("grad"))
    if not scene.squares_gradients and (grad != 0 or scene.kind != "invalid"):
        return None
    name = optimizer.get("name", "Adam")
    new = "1e-4" if scene.half else "1e-8"
    line = Line.parse(optimizer.get("code_line"))
    written = next((w for w in line.operations if w.op == canonical(str(name))), None) if line else None
    rewritten = line.replaced({written.node: written.with_keyword("eps", new)}) if line and written else None
    why = "is 0" if eps == 0 else f"of {eps:g} rounds to 0 in float16"
    if grad:
        so_far, quotient = f"The square of this gradient, {grad:.3g}, is 0 in {scene.dtype}", "its quotient by 0, Inf"
    else:
        so_far, quotient = "This gradient has been 0 so far", "0/0, NaN"
    root = "the root of the mean or the sum of the squared gradients"
    divisor = root if scene.squares_gradients else "what it has computed of the gradients, a norm or a root of squares"
    return Finding(
        f"{name} divides by {divisor}, plus eps. {so_far} and eps "
        f"{why}: the step is {quotient}, and would go into the weight. In float16 eps must be 1e-4 or more; better "
        "keep the weights and the state in float32.",
        rewritten,
        f"optimizer = {'' if optimizer.get('own') else f'{scene.spelling().library}.optim.'}{name}"
        f"({_parameters(scene)}, lr={shown(optimizer.get('lr', 1e-3))}, eps={new})",
        Place.told(optimizer) if rewritten else None,
    )


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
        f"opposite infinity, and their sum is NaN. The infinities were born earlier{born}; mend them there.",
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


def _age(history: Sequence[float | None]) -> int:
    """How many steps ago the last number is from that is known and finite."""
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
    if scene.context.get("searched_by"):  # which goes far to find out that it is too far
        return None
    optimizer = _optimizer(scene)
    settings = optimizer or dict(scene.context.get("rate") or {})  # of an update by hand
    written = settings.get("rate") or {} if optimizer else settings
    rate, start = number(settings.get("lr")), number(settings.get("initial_lr"))
    smaller = f"{_smaller(start or rate, scene.context.get('grown')):g}" if rate else "lr / 10"
    bounded = f"min({written['name']}, {smaller})" if written.get("is_set") and "lr" not in written else smaller
    rewritten = with_rate(written, bounded) if rate else None
    raised = f" (the schedule began with {start:g})" if start and rate and rate > 2 * start else ""
    happened = "overflowed" if scene.kind == "overflow" else "gave NaN"
    where = "in the gradients" if scene.backward else "in the forward pass"
    if optimizer.get("updating"):
        where = "in the update"
    name = "lr" if optimizer or not is_name(str(written.get("name", ""))) else str(written["name"])
    hides = "; to bound what goes in there would only hide it" if scene.op == "exp" else ""
    return Finding(
        f"The weights ran away before {scene.op} {happened} {where}: {evidence}. The operation is where it became "
        f"visible, not the reason{hides}. Use a smaller learning rate{f' than {rate:g}{raised}' if rate else ''}, warm "
        "it up, or clip the gradient norm before the step.",
        rewritten,
        f"lr = {smaller if rate else '1e-4'}" if optimizer else f"{name} = {name} / 10",
        Place.told(written) if rewritten else None,
    )


def _evidence(scene: Scene) -> str:
    """What shows that the weights ran away: the size of the last update, or a history that rises; empty if neither."""
    found = []
    updating = _optimizer(scene).get("updating")  # of what this update has done, nothing is evidence
    if not updating and (grown := scene.context.get("grown")) is not None:
        found.append(_grown(grown))
    ratio = number(scene.context.get("update_ratio"))
    if ratio is not None and ratio >= 1.0:
        found.append(f"the last update was {ratio:.3g} times as large as the weights (1e-3 is healthy)")
    histories = {"gradient norm": "grad_norm_history", "loss": "loss_history"}
    rising = [
        name
        for name, key in histories.items()
        if (history := scene.context.get(key)) and (_rising(history[:-1], 1e6) if updating else _rising(history, 100.0))
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
    """What is to be said of the learning rate besides a cause in a single operation; empty if there is nothing."""
    grown = scene.context.get("grown")
    if grown is None or scene.backward or scene.event.kind == "leaf" or _grown(grown) in found.cause:
        return ""
    rate = number((_optimizer(scene) or scene.context.get("rate") or {}).get("lr"))
    of = f" of {rate:g}" if rate else ""
    return f" Look at the learning rate{of} as well: {_grown(grown)}, and what this operation was given with it."


def _smaller(rate: float, grown: Mapping[str, Any] | None) -> float:
    """A rate to try next: a power of ten by which an update would change the weights by a hundredth, at the most."""
    if grown is None:
        return rate / 10
    growth = (grown["now"] / grown["before"]) ** (1 / grown["updates"])  # in each of them
    least = 0.0 if grown["updates"] == 1 else 1e-3  # later ones had the gradients of weights that had run away
    wanted = rate * max(min(0.1, 0.01 / growth), least)
    return 10.0 ** math.floor(math.log10(wanted)) if wanted > 0 else rate / 10


@cause(None, "an update beyond the type's range")
def overflowing_update(scene: Scene) -> Finding | None:
    optimizer = _optimizer(scene)
    grad = number(scene.event.operands.get("grad"))
    if not optimizer.get("updating") or scene.kind not in ("overflow", "invalid") or grad is None:
        return None
    name, harmed = optimizer.get("name", "the optimizer"), scene.event.harmed or "the update"
    clip = f"{scene.spelling().library}.nn.utils.clip_grad_norm_({_parameters(scene)}, 1.0)"
    lr = number(optimizer.get("lr")) or 0.0
    rate = f" with lr={lr:g}" if lr else ""
    lasting = "" if harmed.startswith("the update") else "; it would stay infinite in all steps to come"
    return Finding(
        f"The gradient of {grad:.3g} is finite, but what {name} computes of it{rate} is beyond the range of "
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
        "An Inf gradient under a gradient scaler is normal now and then; here the scale fell again and again, to "
        f"{scales[-1]:g}, so no scale helps: some operation gives Inf or NaN whatever the scale. Look for the "
        "operation named above, and run it in float32.",
        None,
        f'with {scene.spelling().library}.autocast("{scene.context.get("scaled_on", "cuda")}", enabled=False): '
        "y = layer(x.float())",
    )


LEAVES = (bad_rate, bad_argument, bad_mask, bad_batch, uninitialised, bad_weight)
CAUSES = (*LEAVES, poisoned_clipping, zero_eps, opposed_gradients, runaway, overflowing_update)
FALLBACK = (falling_scale,)
