"""Library functions with a known edge: losses (rows 40, 41) and matrix decompositions (rows 42, 43)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from retrograd.anomaly.catalogue._expression import LOGS, first, made_from, named, number, shown
from retrograd.anomaly.catalogue._layer_definitions import layer_with
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._scopes import assignments_to
from retrograd.anomaly.catalogue._source_line import NOWHERE, Site, atom, dotted, is_name, number_written
from retrograd.anomaly.catalogue.safeguards import set_before, usual_eps
from retrograd.anomaly.event import was_given_bad
from retrograd.anomaly.float16 import vanishes
from retrograd.anomaly.operation_names import is_normalisation
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.stack_frames import package_of
from retrograd.anomaly.surroundings import Operand

_CTC = ("log_probs", "targets", "input_lengths", "target_lengths")
_SOLVERS = ("cholesky", "inv", "lu_factor", "solve", "logdet", "slogdet", "det")


@cause(40, "CTC target longer than its input")
def ctc(scene: Scene) -> Finding | None:
    if scene.op != "ctc_loss" or scene.event.input_has_nan:
        return None
    site = scene.site(scene.birth)
    inputs, targets = (named(scene.birth, name) for name in ("input_lengths", "target_lengths"))
    shortest, longest = _extreme(inputs, min), _extreme(targets, max)
    if shortest is not None and longest is not None and shortest > 2 * longest:
        return None  # even if every label is repeated, it fits
    option = "zero_infinity=True"
    rewritten = site.replaced(site.written.with_keyword(*option.split("="))) if site else None
    name = scene.called_there
    made = None if site or name is None else layer_with(name, "CTCLoss", option, scene.birth.place)
    lengths = (
        f" (target_lengths = {scene.at(targets, '?')}, input_lengths = {scene.at(inputs, '?')})"
        if targets and inputs
        else ""
    )
    return Finding(
        f"No alignment exists: the target needs more steps than the input has{lengths}, where a repeated label counts "
        "twice. Its probability is 0, so the loss is inf and the gradient NaN. zero_infinity=True leaves such samples "
        "out of the loss; it is better to leave them out of the data.",
        rewritten if made is None else made[0],
        _ctc_layer(scene) or f"loss = {scene.spelling().functional('ctc_loss', *_CTC, option)}",
        None if made is None else made[1],
    )


def _ctc_layer(scene: Scene) -> str | None:
    """The code that makes a new layer, if the line calls one."""
    name = scene.called_there
    if name is None or scene.event.module_type not in ("CTCLoss", None, ""):
        return None
    blank = named(scene.birth, "blank")
    given = f"blank={blank.value}, " if blank is not None and blank.value else ""
    return f"{name} = {scene.spelling().library}.nn.CTCLoss({given}zero_infinity=True)"


@cause(None, "logsumexp over nothing but -inf, in backward")
def empty_logsumexp(scene: Scene) -> Finding | None:
    if scene.op not in ("logsumexp", "logcumsumexp") or not scene.backward:
        return None
    if scene.event.operands.get("result") != -math.inf and first(scene.birth).max != -math.inf:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    floor = "-1e4" if scene.half else "-1e30"
    rewritten = scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, low=floor), "input")
    name = scene.called(first(scene.birth), "x")
    return Finding(
        f"Everything that {scene.op} adds up here is exp(-inf) = 0. Its value, -inf, is right, but in backward the "
        "weight of each term is exp(-inf - (-inf)), which is NaN, and times a gradient of 0 it stays NaN. Replace -inf "
        "by a number so negative that its exp is still 0.",
        rewritten,
        f"y = {spelling.tensor_call(scene.op, spelling.clamp(name, low=floor), 'dim')}",
    )


@cause(None, "normalisation without an eps")
def bare_normalisation(scene: Scene) -> Finding | None:
    inside, is_rms = _normalisation_around(scene)
    op = "rms_norm" if is_rms else scene.op
    if not is_normalisation(op) or scene.backward or was_given_bad(scene.event):
        return None
    eps = named(scene.birth, "eps")
    known = None if eps is None else number(eps.value)
    if scene.kind == "overflow" or (known is not None and not vanishes(known, scene.half)):
        return None
    usual = usual_eps(scene)
    given = f"eps={known:g}" if known is not None else "an eps of 0 (or one that rounds to 0)"
    site = inside or scene.site(scene.birth)
    zero = "all zeros, so its mean square is 0" if op == "rms_norm" else "constant here, so its variance is 0"
    return Finding(
        f"The input of {op} is {zero}, and with {given} it divides 0 by 0. Give it the usual eps; in float16 it must "
        "be 1e-4 or more.",
        _with_eps(site, usual) if site else _layer_with_eps(scene, usual),
        f"layer = {scene.spelling().library}.nn.LayerNorm(size, eps={usual})" if op == "layer_norm" else None,
    )


def _normalisation_around(scene: Scene) -> tuple[Site, bool]:
    """Where an rms_norm is written that ran the birth, if one did: the reciprocal root of a mean square that is 0."""
    if scene.op != "rsqrt" or scene.kind != "divide" or scene.site(scene.birth):
        return NOWHERE, False
    call = scene.line.only("rms_norm")
    return Site(call.line, call.node, call, scene.birth.place), bool(call) or scene.event.module_type == "RMSNorm"


_EPS_AT = {"layer_norm": 4, "group_norm": 4, "rms_norm": 3, "batch_norm": 7, "instance_norm": 7}


def _with_eps(site: Site, eps: str) -> str | None:
    """The line that calls a function for normalisation, with an eps."""
    node = site.written.argument(_EPS_AT[site.written.op])
    new = site.written.with_keyword("eps", eps) if node is None else site.line.text(site.node, {node: eps})
    return site.replaced(new)


def _layer_with_eps(scene: Scene, eps: str) -> str | None:
    """The line that calls a layer by its name, behind one that gives the layer an eps."""
    name = scene.called_there
    is_layer = name is not None and (scene.event.module_type or "").endswith("Norm")
    if not is_layer or not scene.line.is_simple:
        return None
    return set_before(scene, f"{name}.eps", eps, scene.birth.code_line or "")


@cause(None, "weight normalisation of a row of zeros")
def zero_direction(scene: Scene) -> Finding | None:
    direction = named(scene.birth, "v")
    if not scene.op.startswith("weight_norm") or direction is None or scene.kind == "overflow":
        return None
    if was_given_bad(scene.event):
        return None
    row = f" (row {scene.event.index[0]} here)" if scene.event.index and not scene.backward else ""
    name = direction.leaf_name or "parametrizations.weight.original1"
    return Finding(
        f"weight_norm builds a weight from its size g and its direction v / |v|. A row of v{row} is all zeros, so it "
        "has no direction: v / |v| is 0 / 0, which is NaN. Something wrote zeros there: an initialisation, pruning, a "
        "reset of single units. For a row that should be zero, set g = 0 and keep any direction; the line below gives "
        "such rows one.",
        None,
        f'{scene.model}.get_parameter("{name}").data.add_(1e-12)',
    )


def _extreme(operand: Operand | None, choose: Callable[[Iterable[float]], float]) -> float | None:
    """The smallest or largest of several lengths."""
    if operand is None:
        return None
    known = [each for each in map(number, (operand.value, operand.min, operand.max)) if each is not None]
    return choose(known) if known else None


@cause(41, "cross entropy with every target ignored")
def all_ignored(scene: Scene) -> Finding | None:
    if scene.op not in ("cross_entropy", "nll_loss") or scene.kind == "overflow" or scene.event.posinf_count:
        return None
    target = named(scene.birth, "target")
    ignored = named(scene.birth, "ignore_index")
    ignore = ignored.value if ignored is not None and ignored.value is not None else -100
    labels_known = [each for each in (target.value, target.min, target.max) if each is not None] if target else []
    if any(each != ignore for each in labels_known):
        return None
    if was_given_bad(scene.event):
        return None
    site = scene.site(scene.birth)
    rewritten = None
    if labels := site.written.text(1, "target"):
        text = site.written.text(9, "ignore_index") or str(ignore)
        count = f"({atom(labels)} != {text}).sum().clamp(min=1)"
        call = site.written.with_keyword("reduction", '"sum"')
        rewritten = site.replaced(f"{call} / {count}")
    spelling = scene.spelling()
    if not site:
        rewritten = _by_function(scene, str(ignore))
    call = spelling.functional("cross_entropy", "logits", "target", 'reduction="sum"')
    empty = target is not None and target.shape is not None and 0 in target.shape
    why = "The batch is empty" if empty else f"Every target in the batch is ignore_index ({ignore})"
    return Finding(
        f"{why}, so the mean loss is 0 divided by 0 targets, which is NaN. Divide the sum by a count of at least 1: "
        "such a batch then contributes 0.",
        rewritten,
        f"loss = {call} / (target != {ignore}).sum().clamp(min=1)",
    )


def _by_function(scene: Scene, ignore: str) -> str | None:
    """The line with the call of a loss layer replaced by that of the function; None if the layer has other options."""
    name, line = scene.called_there, scene.line
    calls = [node for called, node in line.calls() if called == name]
    made = [] if name is None else assignments_to(name, scene.birth.place)
    layer = made[0].value if len(made) == 1 else None
    if len(calls) != 1 or not isinstance(layer, ast.Call) or layer.args:
        return None
    known = (dotted(layer.func) or "").rpartition(".")[2] == "CrossEntropyLoss"
    if not known or any(each.arg != "ignore_index" for each in layer.keywords) or len(calls[0].args) != 2:
        return None
    scores, labels = (line.text(each) for each in calls[0].args)
    options = ['reduction="sum"', *(f"ignore_index={ignore}" for _ in layer.keywords)]
    loss = scene.spelling().functional("cross_entropy", scores, labels, *options)
    return line.replaced({calls[0]: f"{loss} / ({atom(labels)} != {ignore}).sum().clamp(min=1)"})


@cause(54, "cross entropy whose class weights add up to zero")
def weightless(scene: Scene) -> Finding | None:
    weight = named(scene.birth, "weight")
    if scene.op not in ("cross_entropy", "nll_loss") or scene.kind != "invalid" or scene.backward:
        return None
    if weight is None or weight.shape is None or was_given_bad(scene.event):
        return None
    if weight.min is not None and not weight.min <= 0:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    name = scene.called(weight, "weight")
    return Finding(
        "The mean divides by the sum of the targets' class weights, which is 0 in this batch: 0/0 is NaN. To leave a "
        "class out, use ignore_index; otherwise make sure that each batch contains another class as well.",
        scene.replaced(site, 2, lambda text, spelling: spelling.clamp(text, "1e-8"), "weight"),
        f"weight = {spelling.clamp(name, '1e-8')}",
    )


@cause(42, "matrix that is singular or not positive definite")
def singular(scene: Scene) -> Finding | None:
    if scene.op not in _SOLVERS or not _is_singular(scene) or _may_be_given_bad(scene):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    least = 1e-3 if scene.half else 1e-8 if scene.double else 1e-5

    def regular(a: str) -> str:
        known = _sum_in(a)
        kind = f", dtype={atom(known.matrix)}.dtype"
        eye = known.identity or spelling.call("eye", f"{atom(known.matrix)}.shape[-1]{kind}")
        jitter = f"{max(least, 100 * known.number):.0e}".replace("e-0", "e-")
        return f"{known.matrix} + {jitter} * {eye}"

    what = (
        "has no Cholesky factor, because it is not positive definite"
        if scene.op == "cholesky"
        else "is singular, or nearly so"
    )
    if scene.context.get("error") and scene.op == "cholesky" and _is_of_package(scene):
        return Finding(
            "The matrix has no Cholesky factor. The package builds it from its inputs: a covariance matrix has two "
            "equal or nearly equal rows where two inputs are that close, or where the length scale of its kernel is "
            "large compared with the distances between the inputs. Drop duplicate inputs, rescale the others, compute "
            "in float64 (.double() on model and data), or use more noise or jitter on the diagonal (a lower bound on "
            "the noise, such as 1e-4). If it worked for some updates, the last update was too large.",
        )
    said = scene.context.get("error")
    error = f" ({str(said).rstrip('.')})" if said and said not in (scene.event.note or "") else ""
    matrix = first(scene.birth).text
    everywhere = _EVERYWHERE if matrix and _sum_in(matrix).everywhere else ""
    unseen = _PERHAPS_NAN if said and scene.surroundings.library == "torch" and matrix and not is_name(matrix) else ""
    return Finding(
        f"The matrix given to {scene.op} {what}{error}. If only rounding makes it so, a small number added to the "
        "diagonal helps; if it is really indefinite, look at how it was made. Prefer solve to inv, and float64 for "
        f"ill-conditioned matrices.{everywhere}{unseen}",
        scene.replaced(site, 0, lambda text, _: regular(text), "A", "input", "a"),
        f"A = {regular(scene.called(first(scene.birth), 'A'))}",
    )


class _Sum(NamedTuple):
    """A matrix, and the small number that the program adds to it.

    Attributes
    ----------
    matrix
        The matrix alone.
    identity
        The call that makes the identity by which the number is multiplied, if it is.
    number
        The number, if that is known.
    everywhere
        Whether it is added to every element, which is no regularisation.
    """

    matrix: str
    identity: str | None = None
    number: float = 0.0
    everywhere: bool = False


def _sum_in(matrix: str) -> _Sum:
    try:
        whole = expression_of(matrix)
    except SyntaxError:
        return _Sum(matrix)
    match whole:
        case ast.BinOp(left=bare, op=ast.Add(), right=ast.Constant(value=float() as added)) if abs(added) < _SMALL:
            return _Sum(ast.unparse(bare), everywhere=True)
        case ast.BinOp(left=bare, op=ast.Add(), right=ast.BinOp(left=factor, op=ast.Mult(), right=eye)):
            factor, eye = (eye, factor) if _is_identity(factor) else (factor, eye)
            if _is_identity(eye):
                return _Sum(ast.unparse(bare), ast.unparse(eye), abs(number_written(factor) or 0.0))
    return _Sum(matrix)


_SMALL = 1e-2
_EVERYWHERE = (
    " The number that is added here goes to every element, which leaves the matrix as nearly singular as it is: only "
    "what is added to the diagonal helps."
)


def _is_identity(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] in ("eye", "identity")


_PERHAPS_NAN = (
    " (A matrix with a NaN in it gives the same error, and this one is not held by a variable, so it could "
    "not be checked.)"
)


def _is_of_package(scene: Scene) -> bool:
    """Whether the matrix is one of an installed package's own."""
    return package_of(scene.event.filename or "") is not None


def _may_be_given_bad(scene: Scene) -> bool:
    """Whether nothing is known of an operand, whose numbers may be what is wrong, and no error has named the matrix."""
    unknown = any(each.value is None and each.shape is None and not each.constant for each in scene.birth.args[:2])
    return unknown and bool(scene.context.get("unkept")) and not scene.context.get("error")


def _is_singular(scene: Scene) -> bool:
    """Whether the operation failed because there is no inverse, not because a determinant is too large or negative."""
    if scene.context.get("error") or scene.backward:
        return True
    if scene.op == "det":
        return False
    if scene.op in ("logdet", "slogdet"):
        return scene.event.posinf_count == 0 and not (scene.op == "logdet" and scene.event.nan_count)
    return True


@cause(None, "logarithm of a negative determinant")
def negative_determinant(scene: Scene) -> Finding | None:
    operand = first(scene.birth)
    logdet = scene.op == "logdet"
    if logdet:
        known = number(each.value) if (each := named(scene.birth, "det")) is not None else None
        matrix = operand
    else:
        known, parts = number(operand.value), made_from(operand, "det", "slogdet", depth=2)
        if scene.op not in LOGS or parts is None:
            return None
        matrix = first(parts)
    if (
        scene.kind != "invalid"
        or scene.backward
        or (known is None and not logdet)
        or (known is not None and math.copysign(1.0, known) > 0)
    ):
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    name = scene.called(matrix, "A")
    if known == 0:
        known = None  # rounded to -0
    size = "" if known is None else f", {shown(known)}" if known != -1 or logdet else " (its sign is -1)"
    module = f"{spelling.library}.linalg"
    return Finding(
        f"The determinant of {name} is negative{size}, and the logarithm of a negative number is not real. A "
        "covariance or kernel matrix must be symmetric positive definite, and its determinant is then positive: make "
        f"it so, as in {name} = L @ L.T + 1e-6 * eye, and compute the log-determinant from its Cholesky factor. If "
        "only the size of the determinant matters, as in a change of variables, slogdet returns its logarithm and the "
        "sign separately.",
        scene.replaced_whole(site, lambda text: f"{module}.slogdet({text}).logabsdet") if logdet else None,
        f"sign, logabsdet = {module}.slogdet({name})",
    )


@cause(43, "gradient of eigenvectors or singular vectors that are not unique")
def degenerate(scene: Scene) -> Finding | None:
    if scene.op not in ("eigh", "eig", "svd") or not scene.backward:
        return None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)

    many = len(first(scene.birth).shape or ()) > 2
    eigh = scene.op == "eigh"
    step = "1e-8" if scene.double else "1e-4"

    def spread(text: str) -> str:
        a, once = (text, text) if is_name(text) else ("unperturbed", f"(unperturbed := {text})")
        kind = f"dtype={atom(a)}.dtype"
        steps = spelling.call("arange", f"{atom(a)}.shape[-1]", kind)
        parts = f"{step} * {spelling.call('eye', f'*{atom(a)}.shape[-2:]', kind)} * {steps}"
        if not many or scene.op == "eig":
            return f"{once} + {parts}"
        library = f"{spelling.library}.linalg.{'eigvalsh' if eigh else 'svdvals'}"
        gaps = f"{library}({atom(a)}.detach()).diff().abs().amin(-1)"
        return f"{once} + ({gaps} < {step})[..., None, None] * {parts}"

    values = "singular values" if scene.op == "svd" else "eigenvalues"
    return Finding(
        f"Two {values} are equal, so their vectors are not unique and the derivative contains 1 / (l_i - l_j) = 1/0. "
        f"If the loss needs only the {values}, compute only those; otherwise separate them by a small perturbation of "
        f"the matrix, as below, which moves the {values} by up to {step} times the number of "
        f"columns{' (only for matrices with equal ones)' if many and scene.op != 'eig' else ''}.",
        scene.replaced(site, 0, lambda text, _: spread(text), "A", "input", "a"),
        f"A = {spread('A')}",
    )


@cause(None, "running variance that is negative")
def negative_variance(scene: Scene) -> Finding | None:
    variance = named(scene.birth, "running_var", "var")
    if scene.op not in ("batch_norm", "instance_norm") or scene.event.input_has_nan or variance is None:
        return None
    known = next((each for each in map(number, (variance.value, variance.min)) if each is not None), None)
    eps = named(scene.birth, "eps")
    if known is None or known + (number(eps.value if eps else None) or 0.0) > 0:
        return None
    name = variance.leaf_name or "running_var"
    index = scene.event.index
    channel = f"[{index[1]}]" if index is not None and len(index) > 1 else ""
    layer = scene.event.layer_name
    reset = f'{scene.model}.get_submodule("{layer}").reset_running_stats()' if layer else "layer.reset_running_stats()"
    then = "The line below resets the running statistics; run some batches in training mode before evaluating."
    if layer is None and variance.leaf_name and not name.endswith("running_var"):
        reset = f"{name} = {scene.spelling().clamp(name, '0')}"
        then = "The line below raises such values to 0."
    return Finding(
        f"{name}{channel} is {shown(known)}, and a variance cannot be negative: in evaluation mode the layer divides "
        f"by sqrt(variance + eps), which gives {'NaN' if known < 0 else 'inf'}. Something wrote it there: look at what "
        "was loaded into it (another layer's state, differences or averages of state dicts) or at what changes it in "
        f"place. {then}",
        None,
        reset,
    )


CAUSES = (
    negative_variance,
    ctc,
    empty_logsumexp,
    bare_normalisation,
    zero_direction,
    all_ignored,
    weightless,
    singular,
    negative_determinant,
    degenerate,
)
