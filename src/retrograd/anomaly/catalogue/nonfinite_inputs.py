"""Values that came in non-finite, not made by an operation: data, weights, arguments, rates: rows 48 to 50."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import first, named, normal, number, shown
from retrograd.anomaly.catalogue._imports import name_of
from retrograd.anomaly.catalogue._line_inference import completed, logarithm_written
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import is_put_into_part
from retrograd.anomaly.catalogue._source_line import NOTHING, Line
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.surroundings import Operand, Operation


def _leaf(scene: Scene) -> str | None:
    """The role of the leaf that came in non-finite; None if the event is not about a leaf."""
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
    return Finding(
        f"{name} already held {_bad_elements(scene)} when the differentiated function was called; nothing in it made "
        "them. Look at where it got its value: an optimizer or sampler step that went too far, a division by a "
        "standard deviation of 0, a log of 0, a missing value. NumPy warns where its own functions produce such "
        "numbers.",
    )


@cause(None, "mask of -inf used in arithmetic")
def bad_mask(scene: Scene) -> Finding | None:
    assigned, name = scene.context.get("assigned"), scene.context.get("name")
    is_mask = scene.event.neginf_count and not (scene.event.nan_count or scene.event.posinf_count)
    if _leaf(scene) != "batch" or not (name and assigned and is_mask and _INFINITY.search(assigned[0])):
        return None
    return Finding(
        f"{name} holds {_bad_elements(scene)}, as a mask does, written by line {assigned[1]}, `{assigned[0]}`. -inf is "
        "fine where it is added to scores right before a softmax, but harmful elsewhere: 0 * inf and inf - inf are "
        "NaN. Apply the mask last, just before the softmax, after any scaling and biases.",
    )


_INFINITY = re.compile(r"\binf\b|\bINF\b|-inf|\bmasked_fill")


@cause(None, "NaN in the batch, masked only after use")
def masked_too_late(scene: Scene) -> Finding | None:
    """The loss is finite, so that something in the program leaves these elements out of it."""
    event, context = scene.event, scene.context
    only_gradient = "gradient" in (event.harmed or "") and event.nan_count
    if _leaf(scene) not in ("batch", "target") or not only_gradient or context.get("bad_members"):
        return None
    text, line = str(context.get("item") or context.get("name")), Line.parse(event.code_line)
    used = next((each for each in line.operations if line.column(each.node) == event.col), NOTHING)
    operands = [each for each in used.arguments if line.text(each) == text]
    if len(operands) != 1:
        return None
    spelling = scene.spelling()
    if context.get("plain_array"):
        spelling = replace(spelling, module=name_of("numpy", "np"))
    safe = spelling.where(spelling.call("isfinite", text), text, "0.0")
    return Finding(
        f"{context.get('name') or 'The data'} held {_bad_elements(scene)} when they came in. The loss is finite, so a "
        f"mask leaves them out, but only after line {event.lineno} has used them: backward multiplies them by a "
        "gradient of 0, and 0 * NaN is NaN. Put a number in their place before they are used; as they are left out, "
        "any number will do.",
        line.replaced({operands[0]: safe}),
        place=scene.place,
    )


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
    if (spread := _spread_of_one(scene, name)) is not None:
        lineno = spread.lineno
        return Finding(
            f"{name} holds {_bad_elements(scene)}. Line {lineno}, `{spread.code_line}`, takes the spread of a single "
            "number, which divides by n - 1 = 0: 0/0 is NaN. Divide by n instead, or leave such samples out.",
            birth=spread,
        )
    if modules := context.get("computed_by"):
        return _made_by_modules(scene, f"{name} holds {_bad_elements(scene)}", modules)
    if (kept := context.get("kept")) and not context.get("untraced"):
        return _kept_from_before(scene, name, kept)
    assigned, buffers = context.get("assigned"), None if name else context.get("bad_buffers")
    in_branch = context.get("in_branch", False)
    line = f" at line {assigned[1]}, `{assigned[0]}`,{' if it has run,' if in_branch else ''} and" if assigned else ""
    if buffers:
        line = f" at the buffer {buffers[0]}, which holds such numbers too and may have made them,{line or ' and'}"
    place = f", all of them in {context['slice']}," if context.get("slice") else ""
    is_part = is_put_into_part(name, scene.place)
    drops = not (buffers or user or is_part) and _may_drop(scene, name)
    only_minus = scene.event.neginf_count and not (scene.event.nan_count or scene.event.posinf_count)
    pole = logarithm_written(called, user) if user is not None and only_minus else None
    remedy, rest = _dropped(scene, name, role)
    held_by = context.get("held_by")
    quotient = _quotient(scene, *assigned) if assigned and scene.event.nan_count and not in_branch else None
    return Finding(
        f"{data} already held {_bad_elements(scene)}{place} when they came in ({called}); "
        f"{_how_made(scene, may_be_of_buffer=bool(buffers))}. Look{line} at how "
        f"{'this sample was' if drops else 'samples are'} loaded and normalised (a division by a standard deviation of "
        "0, a log of 0, a missing value)."
        f"{f' The line below drops such samples{rest}.' if drops else ''}"
        f"{_OF_PART.format(name=name) if is_part else ''}"
        f"{f' Leave such samples out of the data given to {held_by}.' if held_by else ''}"
        f"{' Every sample is affected.' if context.get('every') else ''}"
        f"{' Where its denominator is 0, that line computes 0 / 0, which is NaN.' if quotient else ''}"
        f"{f' It is -inf where {first(pole).text} is 0.' if pole is not None else ''}",
        None,
        remedy if drops else None,
        birth=quotient or pole,
    )


def _kept_from_before(scene: Scene, name: str, lines: Sequence[int]) -> Finding:
    """What to say of an attribute that the program's own lines write to, in steps before those that are known."""
    written = f"line {lines[0]} writes" if len(lines) == 1 else f"lines {', '.join(map(str, lines))} write"
    return Finding(
        f"{name} held {_bad_elements(scene)} when this step began. It is kept from step to step ({written} to it): an "
        "earlier step has computed them, before operations were recorded, and they have come back in each step since.",
    )


_OF_PART = (
    " {name} is written to a part of another tensor, which has a place for each of its elements: replace the bad ones "
    "by a number, or leave those places out of whatever is computed from that tensor."
)


def _how_made(scene: Scene, *, may_be_of_buffer: bool) -> str:
    """What is known of how data came to be, in words."""
    if may_be_of_buffer:
        return "they arrived like this, or were computed without a gradient, in this step or earlier"
    if not scene.context.get("untraced"):
        return "no operation that was watched made them"
    is_cast = scene.half and not scene.event.nan_count
    cast = ", or autocast converted them to float16, which overflows above 65504" if is_cast else ""
    return f"they arrived like this, or were computed without a gradient, of which nothing is recorded{cast}"


def _bad_elements(scene: Scene) -> str:
    return f"{_bad(scene)}{f' of {scene.event.size} elements' if scene.event.size else ''}"


def _made_by_spoilt_module(scene: Scene, what: str, members: Sequence[str]) -> Finding:
    """Data computed with a module whose parameters or buffers are non-finite themselves."""
    assigned = scene.context.get("assigned")
    by = f" by line {assigned[1]}, `{assigned[0]}`" if assigned else ""
    return Finding(
        f"{what}. They were computed{by} without a gradient, with a module that itself holds such numbers, in "
        f"{_listed(members)}: there may be no operation of this step to blame. Look at what wrote them there: an "
        "update or an average computed by hand, a loaded checkpoint.",
    )


def _made_by_modules(scene: Scene, what: str, modules: Sequence[str]) -> Finding:
    """Data computed with modules whose parameters and buffers are finite."""
    assigned = scene.context.get("assigned")
    by = f" in line {assigned[1]}, `{assigned[0]}`," if assigned else ""
    return Finding(
        f"{what}. It was computed{by} without a gradient, with {_listed(modules)}, whose intermediate values are not "
        "kept: such numbers were born in there, or came in with its input. Recording every operation shows which.",
    )


def _may_drop(scene: Scene, name: str) -> bool:
    """Whether a line inserted before the one that takes the data can drop the bad samples."""
    context, assigned = scene.context, scene.context.get("assigned")
    if scene.event.output_shape == () or _is_table(scene):
        return False
    if context.get("graphed") or context.get("every"):  # a captured graph needs batches of a fixed size
        return False
    if context.get("held_by") or context.get("entries_differ") or context.get("taken", True) is None:
        return False
    if name and not name.isidentifier() and _entry(name) is None:  # an item or attribute of an object that holds others
        return False
    return not (assigned and _is_computed(assigned[0])) or context.get("in_branch", False)


def _taken(scene: Scene) -> tuple[str, Operation | None]:
    """A name for nameless data, as the first operation that took it writes it, and that operation."""
    called = str(scene.context.get("given") or _name(scene, "x"))
    user = next((each for each in scene.surroundings.consumers if isinstance(each, Operation)), None)
    if user is None or "given" in scene.context:
        return called, user
    given = named(completed(normal(user)), called)
    return (given.text if given is not None and given.text else f"{called} of {canonical(user.op)}"), user


def _dropped(scene: Scene, name: str, role: str) -> tuple[str, str]:
    """The line that drops the bad samples of a batch, and words on what is to be dropped along with them."""
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
    return f"{plain} = {plain}[{keep}]", "; drop their counterparts too"


def _spread_of_one(scene: Scene, name: str) -> Operation | None:
    """The standard deviation of a single number in the line that assigned the data from an earlier value of it."""
    text, lineno = scene.context.get("assigned") or (None, None)
    if scene.event.size != 1 or not scene.event.nan_count:
        return None
    for written in Line.parse(text).operations:
        is_biased = any(each in (*written.rest(),) for each in ("False", "unbiased=False", "correction=0"))
        if written.op in ("std", "var") and written.text(0, "input") == name and not is_biased:
            taken = Operand(name="input", shape=(1,))
            return replace(
                scene.birth, op=written.op, args=(taken,), col=None, code_line=text, lineno=lineno or scene.birth.lineno
            )
    return None


_MAY_BE_ZERO = ("amax", "max", "norm", "std", "sum")


def _quotient(scene: Scene, text: str, lineno: int) -> Operation | None:
    """The division in a line that assigns a quotient, taken as 0 / 0, which is how it becomes NaN."""
    line = Line.parse(text)
    _, made = line.assignment or (None, None)
    if not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Div):
        return None
    if line.operation_at(made.right).op not in _MAY_BE_ZERO:
        return None
    zeros = (Operand(name="input", value=0.0), Operand(name="other", value=0.0))
    return replace(scene.birth, op="div", args=zeros, col=None, code_line=text, lineno=lineno)


def _is_table(scene: Scene) -> bool:
    """Whether the line indexes the data, as a schedule by the step number: then it holds no samples."""
    line = Line.parse(scene.event.code_line)
    return any(each.id == scene.context.get("name") and line.is_picked(each) for each in line.names())


def _listed(names: Sequence[str]) -> str:
    """The first name, and the number of further ones."""
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def _entry(name: str) -> str | None:
    """The dictionary whose entry a name denotes: ``batch`` for ``batch['x']``; None for other names."""
    try:
        read = expression_of(name)
    except SyntaxError:
        return None
    if not isinstance(read, ast.Subscript) or not isinstance(read.value, ast.Name):
        return None
    of_text = isinstance(read.slice, ast.Constant) and isinstance(read.slice.value, str)
    return read.value.id if of_text else None


def _is_computed(assignment: str) -> bool:
    """Whether a line assigns a formula: then its operands are to be mended, rather than samples dropped."""
    _, made = Line.parse(assignment).assignment or (None, None)
    return isinstance(made, (ast.BinOp, ast.UnaryOp))


@cause(None, "learning rate that is not finite")
def bad_rate(scene: Scene) -> Finding | None:
    if _leaf(scene) != "setting":
        return None
    name = scene.optimizer.get("name", "the optimizer")
    return Finding(
        f"The learning rate of {name} is {number(scene.event.operands.get('lr'))}, so every weight with a gradient "
        "would become infinite or NaN. Look at the schedule, or at where the rate is set: it may have grown without "
        "bound, or been divided by a number of steps that is 0.",
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
        f"{name} holds {_bad(scene)} and numbers of absurd size before the first update: its memory was allocated "
        "(empty, to_empty, a model built on the meta device, keys missing from a checkpoint) and never written. "
        "Initialise it; load_state_dict(strict=True) reports missing keys.",
        None,
        f'{module}.nn.init.normal_({scene.model}.get_parameter("{name}"), std=0.02)',
    )


_TIMES = {1: "once", 2: "twice"}


@cause(50, "non-finite weight")
def bad_weight(scene: Scene) -> Finding | None:
    if _leaf(scene) not in ("parameter", "buffer"):
        return None
    name = _name(scene, "weight")
    returned = scene.context.get("returned")  # times gradients were returned: steps, if there are no updates
    updates = scene.context.get("updates") or 0
    if updates or not returned:
        updates = max(updates, (scene.event.step or 1) - 1)  # updates by hand go unnoticed
    when = f"after {updates} step{'' if updates == 1 else 's'}" if updates else "when training began"
    if returned and not updates:
        when = f"after gradients were returned {_TIMES.get(returned, f'{returned} times')}"
    if name.endswith(("running_mean", "running_var")):
        return _poisoned_average(scene, name)
    written = "a load, an in-place change, an update with a non-finite gradient or learning rate"
    let_through = scene.context.get("let_through")
    line, born = scene.context.get("written"), scene.context.get("born_in_write")
    if line is not None and not let_through:
        again = f" With the numbers that it reads now, {_of(born)}." if isinstance(born, Operation) else ""
        writes = "is the only one that writes to it" if _leaf(scene) == "buffer" else "replaces it"
        return Finding(
            f"{name} itself holds {_bad(scene)} {when}: every result is NaN from here on. Line {line[1]}, `{line[0]}`, "
            f"{writes}.{again} What was there before is lost: mend that line, and go back to "
            "a checkpoint from before.",
            birth=born if isinstance(born, Operation) else None,
        )
    if (line := scene.context.get("constructed")) is not None:
        return Finding(
            f"{name} holds {_bad(scene)}, most likely since it was made in line {line[1]}, `{line[0]}`: nothing else "
            "writes to it. Look at the numbers that this line is given, such as those at the ends of a schedule, for "
            "a division by 0 or a log or root of 0.",
        )
    # no remedy: replacing the numbers would hide the reason, and go on training from arbitrary weights
    return Finding(
        f"{name} itself holds {_bad(scene)} {when}: every result is NaN from here on, and no operation of this step "
        "is to blame. "
        + (
            f"In step {let_through:,} the policy let the update go ahead with a bad gradient: fix what was found "
            "there, and go back to a checkpoint from before that step."
            if let_through
            else (
                "The original numbers are lost: go back to a checkpoint from before. Look at what was written there: "
                f"{written}{_suspicion(scene)}."
            )
        ),
    )


def _of(operation: Operation) -> str:
    """What an operation gives, in words."""
    given = ", ".join(f"{each.name}={shown(each.value)}" for each in operation.args if each.value is not None)
    return f"{canonical(operation.op)} in it gives a number that is not finite{f' for {given}' if given else ''}"


def _suspicion(scene: Scene) -> str:
    """The optimizer's setting that may be to blame, in words."""
    optimizer = scene.optimizer
    rate, eps = number(optimizer.get("lr")), number(optimizer.get("eps"))
    if rate is not None and not math.isfinite(rate):
        return f" (it is {rate:g} now)"
    name = str(optimizer.get("name", ""))
    if eps == 0 and scene.squares_gradients:
        return f", or a step of {name} with eps=0, which is 0/0 where all gradients so far were 0"
    if optimizer.get("own"):
        return f", or the step of {name}, your own optimizer: look there for a division by a norm that can be 0"
    return ""


def _poisoned_average(scene: Scene, name: str) -> Finding:
    layer = name.rpartition(".")[0]
    owner = f'{scene.model}.get_submodule("{layer}")' if layer else scene.model
    return Finding(
        f"{name} itself holds {_bad(scene)}: once a running average has taken in a NaN or an infinity, it never "
        "recovers. A bad batch went through this layer in training mode earlier; look for that batch. The line below "
        "resets the running statistics; run some good batches in training mode before evaluating.",
        None,
        f"{owner}.reset_running_stats()",
    )


CAUSES = (bad_rate, bad_argument, bad_mask, masked_too_late, bad_batch, uninitialised, bad_weight)
