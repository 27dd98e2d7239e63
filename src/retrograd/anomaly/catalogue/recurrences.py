"""Products of many factors, and lines that take their own result as input, step after step: row 51."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from retrograd.anomaly.catalogue._expression import (
    LOGS,
    first,
    maker,
    nearest,
    normal,
    number,
    same,
    size_of,
    source,
    unscaled,
    value,
)
from retrograd.anomaly.catalogue._learning_rates import with_rate
from retrograd.anomaly.catalogue._log_space import in_log_space, step_in_log_space
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Line, Site, is_name
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.overflow import have_cancelled
from retrograd.anomaly.parsing import indentation_of, names_in
from retrograd.anomaly.surroundings import Operand, Operation, Place

_PRODUCTS = frozenset(("matmul", "linear", "mul", "einsum"))
_STEPS = _PRODUCTS | frozenset(("pow", "square", "add"))
_LAYERS = frozenset(("rnn_relu", "rnn_tanh", "lstm", "gru"))
_DEPTH = 4  # operations between two runs of a line


def runs_of(operation: Operation) -> Iterator[tuple[Operation, Operand]]:
    """The run of a line, and those before it whose result it was given, each with the operand that carries it."""
    run: Operation | None = operation
    while run is not None:
        found = next(((operand, before) for operand in run.args if (before := _before(operand, operation))), None)
        yield run, first(run) if found is None else found[0]
        run = None if found is None else found[1]


def _before(operand: Operand, last: Operation) -> Operation | None:
    """The nearest run of the same line that an operand was computed from."""
    return nearest(operand, lambda made: _is_run(made, last), _DEPTH)


def _is_run(operation: Operation, last: Operation) -> bool:
    """Whether two operations are runs of one that is written once, as far as is known where in the line."""
    place, its = (last.op, last.place, last.code_line), (operation.op, operation.place, operation.code_line)
    if place != its or None in (last.col, operation.col):
        return place == its
    beginning = max(_beginning_there(last), 1)
    return last.col == operation.col and (_inside(operation) - _inside(last)) % beginning == 0


def _beginning_there(operation: Operation) -> int:
    """How many operations of the kind begin where this one does: two in ``a * b * c``, of which one is in the other.

    None does where it is one of a function that is called there.
    """
    text = operation.code_line or ""
    column = (operation.col or 0) - indentation_of(text)
    written = [each for each in Line.parse(text).operations if each.op == operation.op]
    return sum(getattr(each.node, "col_offset", None) == column for each in written)


def _inside(operation: Operation) -> int:
    """How many runs of operations that begin at the same place its first operand was computed by, one after another.

    Between them there may be others that begin there: the difference in ``a + b - c + d``.
    """
    made, runs = first(operation).producer, 0
    while made is not None and (made.place, made.col) == (operation.place, operation.col):
        runs += made.op == operation.op
        made = first(made).producer
    return runs


def is_loop(last: Operation, runs: int, before: Operation | None) -> bool:
    """Whether there are more runs than the line has such operations; for other lines, whether they share a weight."""
    written = sum(each.op == last.op for each in Line.parse(last.code_line).operations)
    if written and before is not None and None not in (last.col, before.col):
        written = 1
    if written:
        return runs > written
    tensors = [(operand, source(operand)) for operand in last.args if not operand.constant]
    weights = [operand for operand, behind in tensors if behind.producer is None or behind.key is not None]
    return before is not None and any(same(weight, other) for weight in weights for other in before.args)


@cause(51, "recurrence that explodes")
def recurrence(scene: Scene) -> Finding | None:
    if scene.op in _LAYERS:
        return _recurrent_layer(scene)
    if not (scene.kind == "overflow" or have_cancelled(scene)) or scene.birth.place is None:
        return None
    if scene.op not in _STEPS:
        return _by_its_runs(scene)
    if not scene.backward and any(op in LOGS for op in scene.later):
        return None  # a product of many factors, whose logarithm is wanted
    runs = list(runs_of(scene.birth))
    later = [
        step
        for step in map(normal, (each for each in scene.surroundings.consumers if isinstance(each, Operation)))
        if _is_run(step, scene.birth)
    ]
    neighbour = runs[1][0] if len(runs) > 1 else later[0] if later else None
    if not is_loop(scene.birth, len(runs) + len(later), neighbour):
        return _by_its_runs(scene)
    if scene.backward:
        return Finding(
            "This line takes its own result as input, step after step, and in backward the gradient was multiplied at "
            f"every step until {scene.op} overflowed {scene.dtype}. {_RADIUS}, or detach the state every few steps.",
            None,
            "h = h.detach()  # every few steps",
        )
    sizes = [size for _, operand in reversed(runs) if (size := size_of(operand)) is not None]
    if any(later < earlier for earlier, later in itertools.pairwise(sizes)):
        return None
    grown = f" ({', '.join(f'{size:.3g}' for size in sizes)} in its last steps)" if len(sizes) > 1 else ""
    happened = (
        f"This line takes its own result as input, step after step, and the numbers grew{grown} until {scene.op} "
        f"overflowed {scene.dtype}."
    )
    if scene.op in _PRODUCTS:
        return _repeated_product(scene, happened, runs)
    site = scene.site(scene.birth)
    return Finding(
        f"{happened} Take smaller steps, or clamp the state at every step.",
        scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, "-1e3", "1e3"), "input"),
        f"state = {scene.spelling(site).clamp('state', '-1e3', '1e3')}",
    )


def _by_its_runs(scene: Scene) -> Finding | None:
    """The finding for arithmetic that has run many times, each time on what came of the time before.

    What came in between, such as copies and writes in place, is not known.
    """
    runs = scene.context.get("earlier_runs", 0)
    if runs < _MANY_RUNS or scene.backward or scene.kind != "overflow" or scene.op not in _ARITHMETIC:
        return None
    return Finding(
        f"This line runs on what came of its own result, step after step ({runs} times before this one), and the "
        f"numbers grew until {scene.op} overflowed {scene.dtype}. {_STEP}",
    )


_MANY_RUNS = 8
_ARITHMETIC = _STEPS | frozenset(("sub", "div"))


def _repeated_product(scene: Scene, happened: str, runs: Sequence[tuple[Operation, Operand]]) -> Finding:
    """The finding for a line that multiplies its own result, run after run."""
    site, line = scene.site(scene.birth), scene.line
    spelling = scene.spelling(site)
    if line and (line.is_increment or not _is_own_factor(scene.op, line)):
        return Finding(f"{happened} {_STEP}")
    if _have_weights_of_their_own(runs):
        init = f"{spelling.library}.nn.init.kaiming_normal_"
        return Finding(
            f"{happened} Every layer has its own weights, and each multiplies by more than 1. Initialise them smaller: "
            "a standard deviation of (2 / fan_in) ** 0.5 before a relu, which is about what nn.Linear and "
            "kaiming_normal_ use. Or normalise between the layers.",
            None,
            f'{init}(w, mode="fan_out", nonlinearity="relu")  # for x @ w'
            if scene.op == "matmul"
            else f'{init}(w, nonlinearity="relu")',
        )
    name, whole = line.assignment or (None, None)
    if scene.op == "matmul" and name is not None and whole is site.node:
        return Finding(f"{happened} {_LINEAR}", site.replaced(_normalised(scene, runs[0][1], name, site, spelling)))
    step = step_in_log_space(scene, scene.birth)
    is_product = step is not None and not re.search(r"\b(?:softplus|logaddexp)\(", step)  # to which nothing is added
    if is_product or (scene.op == "mul" and whole is site.node):
        are_sums = any(each.op in _ADDING for each in line.operations)
        sums = f" (log_{name}, from the first step on; a sum becomes a logsumexp)" if are_sums else ""
        return Finding(
            f"{happened} It is a product of all the factors: if you need only its logarithm in the end, keep that "
            f"instead{sums}; otherwise divide by its size at every step.",
            None,
            step or _with_logarithm(str(name), f"log_{name}", "log", spelling, are_sums=are_sums),
        )
    rewritten = None
    if site and site.node is site.written.node:
        rewritten = site.replaced(spelling.call("tanh", site.line.text(site.node)))
    return Finding(
        f"{happened} {_RADIUS}, or squash (as below) or normalise the state at every step.",
        rewritten,
        f"h = {spelling.call('tanh', 'W @ h')}",
    )


@cause(None, "gradient descent within the graph that runs away")
def inner_descent(scene: Scene) -> Finding | None:
    rate = scene.context.get("rate") or {}
    name, known = str(rate.get("name")), number(rate.get("lr"))
    if not rate or scene.backward or scene.kind not in ("overflow", "invalid"):
        return None
    step = next((each for each in _nearby(scene) if each.op == "sub" and _reads(each.code_line, name)), None)
    runs = [] if step is None else list(runs_of(step))
    if step is None or len(runs) < 2:
        return None
    sizes = [size for _, operand in reversed(runs) if (size := size_of(operand)) is not None]
    growth = sizes[-1] / sizes[-2] if len(sizes) > 1 and sizes[-2] else 1e3
    if not growth > 1:
        return None
    smaller = f"{10.0 ** math.floor(math.log10(known / growth)):g}" if known and growth < math.inf else f"{name} / 10"
    rewritten = with_rate(rate, smaller) if known else None
    went = f" (the values went {', '.join(f'{size:.3g}' for size in sizes)})" if len(sizes) > 1 else ""
    line = (scene.line_of(step) or "this line").capitalize()
    return Finding(
        f"{line} descends a gradient, step after step, and each step overshot further than the one before{went}, until "
        f"{scene.op} left the range of {scene.dtype}. The learning rate of these steps, "
        f"{name}{f' = {known:g}' if known and name != f'{known:g}' else ''}, is too large; the optimizer's own has "
        "nothing to do with it.",
        rewritten,
        f"{name if is_name(name) else 'lr'} = {smaller if is_name(name) or known else 'lr / 10'}",
        Place.told(rate) if rewritten else step.place,
    )


def _nearby(scene: Scene) -> Iterator[Operation]:
    """The birth, what takes its result, and what its operands were computed by, the nearest first."""
    yield from scene.chain[:2]
    made = [scene.birth]
    for _ in range(_DEPTH):
        made = [each.producer for operation in made for each in operation.args if each.producer is not None]
        yield from made


def _reads(code_line: str | None, name: str) -> bool:
    """Whether a line has a name, or a number, in it."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", code_line or "") is not None


@cause(None, "product of many factors")
def many_factors(scene: Scene) -> Finding | None:
    if scene.op not in ("prod", "cumprod") or scene.kind != "overflow" or scene.backward or scene.half:
        return None
    x, site = first(scene.birth), scene.site(scene.birth)
    spelling = scene.spelling(site)
    most = number(x.max)
    size = f" of numbers up to {most:.3g}" if most is not None else ""
    total = "cumsum" if scene.op == "cumprod" else "sum"
    log = next(iter(scene.roots("log", through=("prod", "cumprod", "mul"))), None)
    rewritten = None if log is None else in_log_space(scene, log)
    where = "dim=-1" if total == "cumsum" else ""
    return Finding(
        f"A product{size} is beyond the largest {scene.dtype}: it grows with the number of factors. Its logarithm, the "
        "sum of the factors' logarithms, stays in range; in log space, products become sums and quotients become "
        "differences.",
        rewritten,
        f"log_p = {spelling.call('log', scene.called(x, 'x'))}.{total}({where})",
        None if log is None else log.place,
    )


@cause(None, "log of a likelihood that left its range factor by factor")
def log_of_many_factors(scene: Scene) -> Finding | None:
    for log in scene.roots(*LOGS, through=(*_STEPS, "div", "sum", "mean")):
        total = maker(unscaled(first(log)), "sum", "mean")
        product = maker(first(log) if total is None else first(total), "mul", "div", "matmul")
        if log is not scene.birth and scene.kind == "overflow" and _is_repeated(scene.birth):
            product = scene.birth
        elif product is None or not (_is_nearly_lost(scene, log, product) or _is_lost(scene, log, product)):
            continue
        spelling = scene.spelling(scene.site(log))
        name, _ = Line.parse(product.code_line).assignment or ("state", None)
        place = "" if product.place is None else f" in {scene.line_of(product)}"
        summed = total is not None or any(each.shape for each in product.args[:2])
        happened = _what_many_factors_did(scene, log)
        step = step_in_log_space(scene, product)
        if step is not None:
            return Finding(
                f"{name} is multiplied{place} {happened}. Keep its logarithm, log_{name}, instead, from the first step "
                f"on: a factor of {name} becomes a term added to log_{name}, and a sum becomes a logsumexp, also the "
                f"final sum of {name}. Clamping the product would only zero its gradient.",
                None,
                step,
                product.place,
            )
        return Finding(
            f"{name} is multiplied{place} {happened}. Add up the logarithms of the factors instead of multiplying "
            "them; where sums come in between (a forward algorithm, a tree), divide by the sum at every step and add "
            "up the logarithms of these sums. Clamping the product would only zero its gradient.",
            None,
            _with_logarithm(name, "log_p", log.op, spelling, are_sums=summed),
            product.place,
        )
    return None


def _what_many_factors_did(scene: Scene, log: Operation) -> str:
    if log is not scene.birth:
        return f"by a factor above 1, step after step, until it overflows {scene.dtype}, before the log is taken"
    below = "by a factor below 1, step after step, until it"
    if scene.backward:
        return f"{below} has nearly underflowed in {scene.dtype}, and the derivative of its log, 1/x, overflows"
    return f"{below} underflows to 0 in {scene.dtype}, and the log of 0 is -inf"


_ADDING = ("sum", "matmul", "einsum", "mean")


def _with_logarithm(name: str, kept: str, log: str, spelling: Spelling, *, are_sums: bool) -> str:
    """A step of a product that is carried on, beside its logarithm: by the sum, where sums come in between."""
    if not are_sums:
        return f"{kept} = {kept} + {spelling.call(log, 'factor')}"
    return f"scale = {name}.sum(); {name}, {kept} = {name} / scale, {kept} + {spelling.call(log, 'scale')}"


def _is_repeated(product: Operation) -> bool:
    """Whether an operation has multiplied its own result."""
    is_written = product.col is None or _beginning_there(product) > 0
    runs = list(runs_of(product)) if product.op in ("mul", "div", "matmul") and is_written else []
    return len(runs) > 1 and is_loop(product, len(runs), runs[1][0])


def _is_lost(scene: Scene, log: Operation, product: Operation) -> bool:
    """Whether a product, of which a log is taken, has become 0 factor by factor."""
    return scene.zero(first(log)) and _has_underflowed(product)


def _is_nearly_lost(scene: Scene, log: Operation, product: Operation) -> bool:
    """Whether a product has become so small, factor by factor, that the derivative of its log overflows."""
    return scene.backward and log is scene.birth and not scene.zero(first(log)) and _is_repeated(product)


def _has_underflowed(product: Operation) -> bool:
    """Whether an operation has multiplied its own result by factors that are not 0, time and again, and it is 0."""
    carried = next(runs_of(product))[1]
    others = [each for each in product.args[:2] if each is not carried]
    if not _is_repeated(product) or any(size_of(each) == 0 for each in others):
        return False
    factors = list(_factors(product))
    if size_of(carried) != 0:  # so that it is the last factor that has made it 0
        return all(value(each) not in (0, None) for each in factors)
    return not any(maker(each, "exp") is not None and value(each) == 0 for each in factors)


def _factors(product: Operation) -> Iterator[Operand]:
    """The factors of a product, as far back as is known."""
    for operand in product.args[:2]:
        inner = maker(operand, "mul", "div", "matmul")
        yield from (operand,) if inner is None else _factors(inner)


def _have_weights_of_their_own(runs: Sequence[tuple[Operation, Operand]]) -> bool:
    """Whether each run of a line multiplies by another tensor, as far as tensors can be told apart."""
    others = [next((each for each in run.args[:2] if each is not carried), None) for run, carried in runs]
    keys = [each.key for each in others if each is not None and each.key is not None and each.producer is None]
    return len(keys) == len(runs) > 1 and len(set(keys)) == len(keys)


def _is_own_factor(op: str, line: Line) -> bool:
    """Whether a product with a number for each element is one of what the line assigns to: ``h = h * w``."""
    name, assigned = line.assignment or (None, None)
    return op != "mul" or assigned is None or name in names_in(assigned)


def _normalised(scene: Scene, carried: Operand, name: str, site: Site, spelling: Spelling) -> str:
    """The product over its norm; over that of each row, where rows are multiplied from the right."""
    product, sides = site.line.text(site.node), scene.birth.args[:2]
    by_rows = carried is sides[0] and len(carried.shape or ()) > 1 and not same(*sides)
    options = ("axis=-1", "keepdims=True") if spelling.numpy else ("dim=-1", "keepdim=True")
    where = ", ".join(options) if by_rows else ""
    norm = spelling.call("linalg.norm", name, where) if spelling.numpy else f"{name}.norm({where})"
    return f"({name} := {product}) / {norm}"


_LINEAR = (
    "Each step only multiplies, so the result is a power of the matrix, and only its direction stays in range. Divide "
    "by the norm at every step, as power iteration does; if you need the size, add up the logarithms of these norms. "
    "In a layer, instead keep the weight's largest singular value at 1 or below (orthogonal initialisation, spectral "
    "norm)."
)
_STEP = (
    "In a time integration, take smaller steps: an explicit scheme is unstable beyond a bound (Euler's method for "
    "diffusion at dt > dx**2 / (2 * D)), an implicit one is not. In a layer, keep the weight small, or normalise the "
    "state at every step."
)
_RADIUS = (
    "A step that multiplies by more than 1 explodes eventually: keep the weight's largest singular value at 1 or below "
    "(orthogonal initialisation, spectral norm)"
)


def _recurrent_layer(scene: Scene) -> Finding | None:
    if scene.kind != "overflow" or (not scene.backward and scene.op != "rnn_relu"):
        return None  # the states of the others are bounded
    grew = "gradient" if scene.backward else "state"
    module = "RNN" if scene.op.startswith("rnn") else scene.op.upper()
    remedy, bounded = "h = h.detach()  # every few steps", ""
    if scene.op == "rnn_relu":
        remedy = f'rnn = {scene.spelling().library}.nn.RNN(input_size, hidden_size, nonlinearity="tanh")'
        bounded = "use tanh, which bounds the state, "
    return Finding(
        f"The {grew} of the {module} grew from step to step until it overflowed {scene.dtype}: the same weight "
        "multiplies it at every step. Keep weight_hh's largest singular value at 1 or below (orthogonal "
        f"initialisation), {bounded}or use shorter sequences.",
        None,
        remedy,
    )


CAUSES = (many_factors, log_of_many_factors, inner_descent, recurrence)
