"""The short range of float16: rows 20, 28 and 29."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import LOGS, ancestors, denominator, first, is_number, maker, value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import NOTHING, NOWHERE, Line, Site, atom, number_written
from retrograd.anomaly.catalogue.safeguards import added_eps, set_before
from retrograd.anomaly.float16 import ROUNDS_TO_ZERO
from retrograd.anomaly.parsing import module_of
from retrograd.anomaly.surroundings import Operation

_LARGEST = 65504.0
_DEPTH = 5  # operations back to the one that has a number

_PRODUCTS = frozenset(
    (
        "mul",
        "pow",
        "square",
        "sum",
        "mean",
        "matmul",
        "linear",
        "dot",
        "norm",
        "var",
        "std",
        "mse_loss",
        "add",
        "sub",
        "cumsum",
        "einsum",
        "div",
        "prod",
    )
)

_OF_TWO = ("matmul", "linear", "dot")

_AUTOCAST = frozenset(
    ("matmul", "linear", "dot", "convolution", "einsum", "scaled_dot_product_attention", "baddbmm", "addbmm")
)  # which autocast gives float16
_LEFT_BY_AUTOCAST = frozenset(
    ("add", "sub", "mul", "div", "neg", "abs", "relu", "gelu", "silu", "tanh", "sigmoid", "clamp", "where", "cat")
)  # which keep the type that they are given


_WIDER = ("float", "double", "bfloat16")  # conversions to types with a range beyond that of float16


def _with_constant(operation: Operation, low: float, high: float) -> tuple[Operation, float] | None:
    """The nearest operation with a plain number of such a magnitude among its operands."""
    for ancestor in ancestors(operation, _DEPTH):
        for operand in ancestor.args:
            known = value(operand) if operand.constant or operand.producer is None else None
            if known is not None and low < abs(known) < high:
                return ancestor, known
    return None


def _constant_replaced(operation: Operation, constant: float, new: str) -> str | None:
    line = Line.parse(operation.code_line)
    nodes = [node for node, number in line.constants() if number == constant]
    return line.replaced(dict.fromkeys(nodes, new)) if nodes else None


@cause(20, "mask value beyond float16")
def mask_value(scene: Scene) -> Finding | None:
    if not scene.half or not ("softmax" in scene.later or scene.op == "softmax"):
        return None
    found = _with_constant(scene.birth, _LARGEST, float("inf"))
    if found is None:
        return None
    operation, constant = found
    spelling = scene.spelling()
    new = f"{spelling.module}.finfo({spelling.module}.float16).min / 2"
    return Finding(
        f"The largest float16 is 65504, so the mask value {constant:g} becomes -inf; a fully masked row is then all "
        "-inf, and its softmax computes -inf - (-inf) = NaN. Half of the most negative float16 masks just as well and "
        "leaves room to add scores; or compute the softmax in float32.",
        _constant_replaced(operation, constant, new),
        f"scores = scores.masked_fill(mask, {new})",
        operation.place,
    )


@cause(29, "eps that float16 rounds to zero")
def vanished_eps(scene: Scene) -> Finding | None:
    if not scene.half:
        return None
    below = denominator(scene.birth) if scene.op not in ("rsqrt", "log", "sqrt") else first(scene.birth)
    if below is None or not scene.zero(below):
        return None
    made = maker(below, "add", "clamp", "sqrt")
    found = _with_constant(made, 0.0, ROUNDS_TO_ZERO) if made else None
    if found is None:
        return None
    operation, constant = found
    is_small = scene.op in ("rsqrt", "sqrt") or maker(below, "sqrt") or maker(first(operation), "norm", "std")
    eps = scene.usual_eps if operation.op == "add" and is_small else scene.eps
    eps = scene.floor if scene.op in LOGS else eps
    rewritten, general = _constant_replaced(operation, constant, eps), f"y = x / (x.norm() + {eps})"
    site = scene.site(operation) if rewritten is None else NOWHERE
    name = next(added_eps(site.written.node), None)
    if name is not None:
        general = f"{name} = {eps}"
        if operation.code_line is not None and site.line.is_simple:
            rewritten = set_before(scene, name, eps, operation.code_line)
    return Finding(
        f"The smallest float16 is 6e-8, so the eps of {constant:g} rounds to 0 and protects nothing: {scene.op} gets a "
        "0. In float16, an eps must be 1e-4 or more; better, compute normalisations in float32.",
        rewritten,
        general,
        operation.place,
    )


def _where_it_meets(scene: Scene) -> str:
    """The line of the first operation that joins the result with another number of float16, in words; or nothing."""
    for operation in scene.chain[1:]:
        others = [each for each in operation.args if maker(each, scene.chain[0].op) is None and not each.constant]
        if operation.op in _OF_TWO and any("float16" in (each.dtype or "") for each in others):
            line = scene.line_of(operation)
            return "" if line is None or line == scene.line_of(scene.birth) else f", in {line}"
    return ""


@cause(28, "float16 overflow")
def overflow(scene: Scene) -> Finding | None:
    if not scene.half or scene.kind != "overflow" or scene.backward or scene.op not in _PRODUCTS:
        return _cast(scene) if scene.half and scene.kind == "overflow" and scene.op == "to" else None
    site = scene.site(scene.birth)
    spelling = scene.spelling(site)
    wider = f".astype({spelling.module}.float32)" if spelling.numpy else ".float()"
    rewritten = None
    if site:
        tensors = _tensors(scene, site)
        if site.written.op in ("einsum", "linear", "matmul"):
            tensors = _operands(site)
        if site.written.form != "operator" and not tensors:
            tensors = _operands(site)[:1]
        rewritten = (
            site.line.replaced({node: atom(site.line.text(node)) + wider for node in tensors}) if tensors else None
        )
    if scene.op in ("pow", "mul", "square"):
        general = f"y = {scene.called(first(scene.birth), 'x')}{wider} ** 2"
    elif scene.op in _OF_TWO:
        general = f"y = a{wider} @ b{wider}"
    else:
        general = f"y = x{wider}.{scene.op}()"
    back = f" Convert the result back to float16 (.half()) where it meets float16{_where_it_meets(scene)}."
    back = "" if spelling.numpy else back
    if _goes_back(scene):
        without = _without_autocast(scene)
        if rewritten is not None:
            rewritten = without + rewritten if _is_simple(rewritten) else None
        general = without + general
        back = " Autocast would undo that, so turn it off around the line; the operands must then be float32."
    values = ", ".join(f"{name}={shown}" for name, shown in _values(scene))
    return Finding(
        f"The largest float16 is 65504, and {scene.op} of finite numbers{f' ({values})' if values else ''} went beyond "
        "it. Squares overflow from 256 on, so variances, norms and squared errors are the usual places. Compute and "
        f"accumulate them in float32 (or bfloat16), or scale the values down first.{back}",
        rewritten,
        general,
    )


def _tensors(scene: Scene, site: Site) -> list[ast.expr]:
    """Those of the operands, as they are written, that are no numbers of Python's."""
    pairs = list(zip(_operands(site), scene.birth.args, strict=False))
    names = {operand.leaf_name for _, operand in pairs if not is_number(operand)} - {None}
    called = [node for node, _ in pairs if site.line.text(node) in names]
    if called and any(is_number(operand) for _, operand in pairs):  # which may stand in front of the tensor
        return called
    return [node for node, operand in pairs if not is_number(operand) and number_written(node) is None]


def _operands(site: Site) -> list[ast.expr]:
    """What is written for tensors: not the equation of an einsum."""
    given = site.written.parts() if site.written.op in (*_OF_TWO, "einsum") else site.written.arguments
    tensors = [each for each in given if not (isinstance(each, ast.Constant) and _is_no_number(each))]
    listed = tensors[0] if len(tensors) == 1 else None
    return listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else tensors


def _is_no_number(constant: ast.Constant) -> bool:
    return constant.value is None or isinstance(constant.value, str)


def _goes_back(scene: Scene) -> bool:
    """Whether autocast would convert the birth's operands, or later its result, back to float16."""
    if not scene.context.get("autocast"):
        return False
    further = next((op for op in (scene.op, *scene.later) if op not in _LEFT_BY_AUTOCAST), None)
    return further in _AUTOCAST


def _without_autocast(scene: Scene) -> str:
    return f'with {scene.spelling().library}.autocast("{scene.context["autocast"]}", enabled=False): '


def _is_simple(code: str) -> bool:
    """Whether a statement can stand in the line of a ``with``."""
    try:
        module_of(f"with _: {code.strip()}")
    except SyntaxError:
        return False
    return True


def _values(scene: Scene) -> Iterator[tuple[str, str]]:
    for operand in scene.birth.args[:2]:
        if (known := value(operand)) is not None:
            yield operand.name, f"{known:g}"


def _conversion(scene: Scene) -> Site:
    """Where the line converts to float16; not where it converts the result of that to a wider type."""
    site = scene.site(scene.birth)
    if not _is_wider(site.node):
        return site
    inner = (each for each in site.line.operations if each.op == site.written.op and not _is_wider(each.node))
    written = next((each for each in inner if site.line.inside(each.node, site.node)), NOTHING)
    return replace(site, node=written.node, written=written) if written else NOWHERE


def _is_wider(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", None) in _WIDER


def _cast(scene: Scene) -> Finding:
    if scene.backward:
        size = "" if scene.grad is None else f", {scene.grad:.3g},"
        return Finding(
            f"The forward pass ran in float16, so the gradient{size} is converted to float16 as well, which overflows "
            "above 65504. If the loss is scaled, the scale is too large: scaler.step(optimizer) and scaler.update() "
            "skip such an update and lower the scale, a plain optimizer.step() does not. Otherwise make the loss "
            "smaller (a mean instead of a sum, a smaller factor), or compute in bfloat16 or float32.",
        )
    known = value(first(scene.birth))
    spelling = scene.spelling()
    site = _conversion(scene)
    line = (scene.birth.code_line or "").strip()
    if not site and scene.context.get("autocast"):  # nobody has written it
        layer = f", {scene.event.layer_name} ({scene.event.module_type})," if scene.event.layer_name else ""
        return Finding(
            f"Autocast converts the input of the layer or function called here{layer} to float16, and "
            f"{'a number in it' if known is None else f'{known:g}'} is beyond 65504, the largest float16. Turn "
            "autocast off around the line (the operands must then be float32), scale the numbers down first, or let "
            "autocast use bfloat16, which has the range of float32.",
            _without_autocast(scene) + line if line and _is_simple(line) else None,
            f"{_without_autocast(scene)}y = layer(x.float())",
        )
    return Finding(
        f"The largest float16 is 65504, and {'a number beyond it' if known is None else f'{known:g}'} is converted to "
        "float16 here. Leave it in float32 or bfloat16, scale it down first, or clamp it.",
        scene.replaced(site, 0, lambda text, spelling: spelling.clamp(text, "-65504", "65504"), "input"),
        f"y = {spelling.clamp(scene.called(first(scene.birth), 'x'), '-65504', '65504')}.half()",
    )


CAUSES = (mask_value, vanished_eps, overflow)
