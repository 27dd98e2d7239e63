"""The logarithm of a written expression, taken part by part, so that nothing of it underflows or overflows first.

Of ``exp(x)`` it is ``x``, of a product a sum, of a sum ``logaddexp`` or ``logsumexp``, of a sigmoid ``logsigmoid``.
"""

from __future__ import annotations

import ast

from retrograd.anomaly.catalogue._definitions import Expression
from retrograd.anomaly.catalogue._expression import first, maker, second
from retrograd.anomaly.catalogue._log_parts import Logarithm, Parts
from retrograd.anomaly.catalogue._log_rules import RULES, of_one_plus
from retrograd.anomaly.catalogue._repeated_faults import complements
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._scopes import names_read
from retrograd.anomaly.catalogue._source_line import Line, Site, bare
from retrograd.anomaly.surroundings import Operation


def in_log_space(scene: Scene, log: Operation) -> str | None:
    """The line of a logarithm with it taken part by part; None if no part gains by that."""
    site = scene.site(log)
    known = _of(scene, log, site)
    if known is None:
        return None
    found, parts = known
    edits = {site.node: found.whole}
    for other, argument in complements(site.line, site.written) if site.node is site.written.node else ():
        beside = parts.of(Expression(argument, site.line, site.place))
        if beside is not None and beside.gained:
            edits[other.node] = beside.whole
    return site.line.replaced(edits)


def asking_for_logits(scene: Scene, log: Operation) -> tuple[str, str] | None:
    """The same logarithm by what another function has made its parts of, as a form, and words that say what that is."""
    known = _of(scene, log, scene.site(log), asking=True)
    if known is None or not known[1].asked:
        return None
    found, parts = known
    said = (_said(scene, name, new, made) for name, (new, made) in parts.asked.items())
    return f"log_p = {found.whole}", " ".join(said)


def _said(scene: Scene, name: str, new: str, made: Operation) -> str:
    x, where = scene.called(first(made), "x"), scene.line_of(made)
    return f"{name} is {made.op}({x}), computed in {where}: pass {x} on from there as well, here under the name {new}."


def _of(scene: Scene, log: Operation, site: Site, *, asking: bool = False) -> tuple[Logarithm, Parts] | None:
    """The logarithm that is written at a site, if it gains by being taken part by part."""
    node = site.written.argument(0, "input")
    if node is None or log.op not in ("log", "log1p"):
        return None
    parts = Parts(scene, log, site, RULES, asking=asking)
    expression = Expression(node, site.line, site.place)
    found = of_one_plus(parts, expression) if log.op == "log1p" else parts.of(expression)
    return None if found is None or not found.gained else (found, parts)


def step_in_log_space(scene: Scene, step: Operation) -> str | None:
    """The line that runs on its own result, ``a = f(a)``, for the logarithm of that: ``log_a = log(f(exp(log_a)))``."""
    site = scene.site(step)
    name, whole = site.line.assignment or (None, None)
    if name is None or whole is None or name not in names_read(whole):
        return None
    parts = Parts(scene, step, site, RULES, carried=name)
    found = parts.gained(Expression(whole, site.line, site.place))
    line = Line.parse(None if found is None else found.whole)
    if found is None or not line or any(each.id == name for each in line.names()):
        return None
    return f"log_{name} = {found.whole}"


def scaling_in_log_space(scene: Scene, quotient: Operation) -> str | None:
    """The line ``u = a / (K @ v)`` for the logarithms of the two scalings ``u`` and ``v``."""
    site = scene.site(quotient)
    name, whole = site.line.assignment or (None, None)
    below, made = site.written.argument(1, "other"), maker(second(quotient), "matmul")
    product = site.line.operation_at(None if below is None else bare(below))
    if name is None or whole is None or made is None or product.op != "matmul":
        return None
    pairs = zip(product.arguments, made.args, strict=False)
    scalings = [each.id for each, known in pairs if isinstance(each, ast.Name) and maker(known, "exp") is None]
    if len(scalings) != 1:
        return None
    parts = Parts(scene, quotient, site, RULES, carried=scalings[0])
    found = parts.gained(Expression(whole, site.line, site.place))
    return None if found is None else f"log_{name} = {found.whole}"


def log_of_factors(scene: Scene, exp: Operation) -> str | None:
    """The logarithm of the whole product or quotient in which an exponential is written, factors and all."""
    site = scene.site(exp)
    if not site:
        return None
    node: ast.AST = site.node
    products = [each for each in site.line.operations if each.form == "operator" and each.op in ("mul", "div")]
    while (outer := next((w for w in products if any(bare(each) is node for each in w.arguments)), None)) is not None:
        node = outer.node
    found = Parts(scene, exp, site, RULES).of(Expression(node, site.line, site.place))
    return None if found is None else found.whole
