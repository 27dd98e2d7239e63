"""The logarithm of each operation's result, in terms of the logarithms of its operands."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from retrograd.anomaly.catalogue._definitions import Expression
from retrograd.anomaly.catalogue._expression import least
from retrograd.anomaly.catalogue._imports import imported
from retrograd.anomaly.catalogue._log_parts import DEPTH, Logarithm, Parts, Rule, all_gained
from retrograd.anomaly.catalogue._reductions import dims, without_keepdim
from retrograd.anomaly.catalogue._source_line import Site, Written, atom, bare, number_written
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.parsing import expression_of
from retrograd.anomaly.surroundings import Operand

_LOG_2 = 0.6931471805599453
_ROOT_2 = "1.4142135623730951"
_LEAST_FACTOR = "1e-30"

# --- functions of one argument ----------------------------------------------------------------------------------------


def _logsigmoid(x: str, spelling: Spelling) -> str:
    return spelling.functional("logsigmoid", x)


def _log_ndtr(x: str, spelling: Spelling) -> str:
    return spelling.tensor_call("special.log_ndtr", x)


def _log_i0(x: str, spelling: Spelling) -> str:
    return f"{spelling.call('log', spelling.tensor_call('special.i0e', x))} + {spelling.call('abs', x)}"


_Form = Callable[[str, Spelling], Logarithm]
_FORMS: Mapping[str, _Form] = {
    "exp": lambda x, _: Logarithm(_term(x)),
    "sigmoid": lambda x, spelling: Logarithm(_logsigmoid(x, spelling)),
    "cosh": lambda x, spelling: Logarithm(spelling.call("logaddexp", x, f"-{atom(x)}"), -_LOG_2),
    "ndtr": lambda x, spelling: Logarithm(_log_ndtr(x, spelling)),
    "erfc": lambda x, spelling: Logarithm(_log_ndtr(f"-{_ROOT_2} * {atom(x)}", spelling), _LOG_2),
    "i0": lambda x, spelling: Logarithm(_log_i0(x, spelling)),
    "det": lambda x, spelling: Logarithm(f"{spelling.module}.linalg.slogdet({x}).logabsdet"),
}
_OF_ONE_PLUS: Mapping[str, _Form] = {
    "exp": lambda x, spelling: Logarithm(spelling.functional("softplus", x)),
    "tanh": lambda x, spelling: Logarithm(_logsigmoid(f"2 * {atom(x)}", spelling), _LOG_2),
    "erf": lambda x, spelling: Logarithm(_log_ndtr(f"{_ROOT_2} * {atom(x)}", spelling), _LOG_2),
}
_OF_ONE_MINUS: Mapping[str, _Form] = {
    "sigmoid": lambda x, spelling: Logarithm(_logsigmoid(f"-{atom(x)}", spelling)),
    "tanh": lambda x, spelling: Logarithm(_logsigmoid(f"-2 * {atom(x)}", spelling), _LOG_2),
    "ndtr": lambda x, spelling: Logarithm(_log_ndtr(f"-{atom(x)}", spelling)),
    "erf": lambda x, spelling: Logarithm(_log_ndtr(f"-{_ROOT_2} * {atom(x)}", spelling), _LOG_2),
}


def _in_form(forms: Mapping[str, _Form], parts: Parts, written: Written) -> Logarithm | None:
    form, x = forms.get(written.op), written.text(0, "input", "A")
    return None if form is None or x is None else form(x, parts.spelling)


def _function(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    return _in_form(_FORMS, parts, written)


def _softmax(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    return Logarithm(written.renamed("log_softmax"))


def _softplus(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """Far below 0 it is ``exp(x)``, and its logarithm ``x``."""
    x = written.text(0, "input")
    if x is None or len(written.parts()) > 1:
        return None
    low, spelling = "-10" if parts.half else "-40", parts.spelling
    near = spelling.call("log", spelling.functional("softplus", replace(spelling, methods=False).clamp(x, low)))
    return Logarithm(spelling.where(f"{atom(x)} < {low}", x, near))


def _sinh(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    x = written.text(0, "input")
    return None if x is None else _minus(parts, x, f"-2 * {atom(x)}", -_LOG_2, is_zero=parts.is_zero(x))


def _expm1(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    x = written.text(0, "input")
    return None if x is None else _minus(parts, x, f"-{atom(x)}", is_zero=parts.is_zero(x))


# --- products ---------------------------------------------------------------------------------------------------------


def _mul(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    return _joined(*(parts.of(expression.at(each), depth) for each in written.arguments[:2]), sign="+")


def _div(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    above, below = (expression.at(each) for each in written.arguments[:2])
    if (log_softmax := _log_softmax(parts, above, below)) is not None:
        return log_softmax
    return _joined(parts.of(above, depth), parts.of(below, depth), sign="-")


def _log_softmax(parts: Parts, above: Expression, below: Expression) -> Logarithm | None:
    """The log of exponentials over their sum along one dimension; if the line indexes these, so is the result."""
    picked = bare(above.node)
    exp, total = parts.spelled_out(above.at(picked)), parts.spelled_out(below)
    if exp.op != "exp" or total.op != "sum" or not total.arguments:
        return None
    summed = parts.spelled_out(Expression(total.arguments[0], total.line, below.place))
    x = exp.text(0, "input")
    if x is None or summed.op != "exp" or summed.text(0, "input") != x:
        return None
    given = dims(Site(total.line, total.node, total, below.place), Operand(name="input", shape=parts.shape(x)))
    where = without_keepdim(given)
    if "(" in where or (picked is not above.node and where != given):
        return None
    return Logarithm(above.line.text(above.node, {picked: parts.spelling.tensor_call("log_softmax", x, where)}))


def _joined(one: Logarithm | None, other: Logarithm | None = None, *, sign: str) -> Logarithm | None:
    if one is None or other is None or (one.signed and other.signed):
        return None
    gained, is_number = one.gained or other.gained, one.is_number and other.is_number
    offset = one.offset + other.offset if sign == "+" else one.offset - other.offset
    if not other.text:
        text = one.text
    elif sign == "-":
        text = f"{one.text} - {atom(other.text)}" if one.text else f"-{atom(other.text)}"
    else:
        text = f"{one.text} + {other.text}" if one.text else other.text
    return Logarithm(text, offset, gained, is_number, one.signed or other.signed)


def _power(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    fixed = {"sqrt": "0.5", "square": "2", "reciprocal": "-1"}
    exponent = fixed.get(written.op) or written.text(1, "exponent")
    found = parts.of(expression.at(written.arguments[0]), depth) if written.arguments else None
    if found is None or exponent is None or found.signed or not (found.gained or found.is_number):
        return None
    power = number_written(expression_of(exponent))
    if found.is_number and power is not None and not found.text:
        return replace(found, offset=power * found.offset)
    return replace(found, text=f"{atom(exponent)} * {atom(found.whole)}", offset=0.0)


def _prod(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """The log of a product of many factors, which soon leaves the range of its type; none may be negative."""
    factor = expression.at(written.arguments[0]) if written.arguments else None
    found = None if factor is None else parts.of(factor, depth)
    if factor is None or (found is not None and found.signed):
        return None
    if found is None:
        if any((least(each) or 0.0) < 0 for each in parts.known(factor.text)):
            return None
        floor = parts.floor if parts.half else _LEAST_FACTOR
        found = Logarithm(parts.spelling.call("log", parts.spelling.clamp(factor.text, floor)))
    where = dims(Site(expression.line, written.node, written, expression.place), None, numpy=parts.spelling.numpy)
    total = "cumsum" if written.op == "cumprod" else "sum"
    return Logarithm(f"{atom(found.whole)}.{total}({where})")


# --- sums and differences ---------------------------------------------------------------------------------------------


def _add(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    left, right = (expression.at(each, summed=True) for each in written.arguments[:2])
    for one, other in ((left, right), (right, left)):
        if number_written(one.node) == 1 and (found := of_one_plus(parts, other, depth)) is not None:
            return found
    a, b = parts.of(left, depth), parts.of(right, depth)
    if a is None or b is None or (a.is_number and b.is_number) or a.signed or b.signed:
        return None
    if not a.is_number and not b.is_number:
        return Logarithm(parts.spelling.call("logaddexp", a.whole, b.whole), gained=a.gained or b.gained)
    known, large = (a, b) if a.is_number else (b, a)
    shifted = _joined(large, known, sign="-")
    if shifted is None or not large.gained:
        return None
    return _joined(Logarithm(parts.spelling.functional("softplus", shifted.whole)), known, sign="+")


def _sub(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    left, right = (expression.at(each) for each in written.arguments[:2])
    if number_written(left.node) == 1:
        return _of_one_minus(parts, right)
    one, less = parts.argument_of(left, "exp", "sigmoid"), number_written(right.node)
    if one is None:
        return None
    a, op = one
    if op == "exp" and less is not None:
        difference = f"-{atom(a)}" if less == 1 else f"{math.log(less)!r} - {atom(a)}" if less > 0 else None
        is_zero = less == 1 and parts.is_zero(a)
        return None if difference is None else _minus(parts, a, difference, is_zero=is_zero)
    other = parts.argument_of(right, op)
    if other is None:
        return None
    b = other[0]
    if op == "exp":
        return _minus(parts, a, f"{_term(b)} - {atom(a)}", is_zero=parts.are_equal(a, b))
    slope = _of_negative_expm1(parts, f"{_term(b)} - {atom(a)}", is_zero=parts.are_equal(a, b))
    both = (_logsigmoid(each, parts.spelling) for each in (a, f"-{atom(b)}"))
    return Logarithm(" + ".join((*both, slope)))


def _minus(parts: Parts, a: str, difference: str, offset: float = 0.0, *, is_zero: bool) -> Logarithm:
    """The logarithm of ``exp(a) - exp(b)``, given the difference ``b - a``."""
    slope = _of_negative_expm1(parts, difference, is_zero=is_zero)
    return Logarithm(f"{_term(a)} + {slope}", offset, signed=True)


def of_one_plus(parts: Parts, expression: Expression, depth: int = DEPTH) -> Logarithm | None:
    """The logarithm of one plus an expression; None if there is no special form."""
    if isinstance(expression.node, ast.UnaryOp) and isinstance(expression.node.op, ast.USub):
        return _of_one_minus(parts, expression.at(expression.node.operand))
    special = _in_form(_OF_ONE_PLUS, parts, parts.spelled_out(expression))
    found = parts.gained(expression, depth - 1) if special is None and depth > 0 else None
    return special if found is None else Logarithm(parts.spelling.functional("softplus", found.whole))


def _of_one_minus(parts: Parts, expression: Expression) -> Logarithm | None:
    """The logarithm of one minus an expression; None if there is no special form."""
    written = parts.spelled_out(expression)
    x = written.text(0, "input")
    if x is None:
        return None
    if written.op == "exp":
        if (rate := _log_of_rate(parts, expression, written)) is not None:
            return rate
        return Logarithm(_of_negative_expm1(parts, x, is_zero=parts.is_zero(x)), signed=True)
    if written.op == "sub" and number_written(written.arguments[0]) == 1:
        return parts.of(replace(expression, node=written.arguments[1], line=written.line))
    if (x := _squared_tanh(parts, expression, written)) is not None:
        softplus = parts.spelling.functional("softplus", f"-2 * {atom(x)}")
        return Logarithm(f"2 * ({_LOG_2} - {atom(x)} - {softplus})")
    if (x := _sigmoid_of_negative(parts, expression, written)) is not None:
        return Logarithm(_logsigmoid(x, parts.spelling))
    if written.op == "add":
        return _of_one_minus_mixture(parts, expression.at(written.node), written)
    if (half := _of_one_minus_half(parts, expression, written)) is not None:
        return half
    return _in_form(_OF_ONE_MINUS, parts, written)


def _of_one_minus_mixture(parts: Parts, expression: Expression, total: Written) -> Logarithm | None:
    """The log of ``1 - (c + (1 - c) * p)``, i.e. of ``(1 - c) * (1 - p)``, as for a test item that may be guessed."""
    place = replace(expression, line=total.line)
    for c, other in (total.arguments[:2], total.arguments[1::-1]):
        product = place.at(other).written
        if product.op != "mul":
            continue
        for rest, p in (product.arguments[:2], product.arguments[1::-1]):
            difference = place.at(rest).written
            ones = difference.arguments if difference.op == "sub" else ()
            if ones and number_written(ones[0]) == 1 and total.line.text(ones[1]) == total.line.text(c):
                return _joined(parts.of(place.at(rest)), _of_one_minus(parts, place.at(p)), sign="+")
    return None


def _of_one_minus_half(parts: Parts, expression: Expression, half: Written) -> Logarithm | None:
    """The log of ``1 - (1 + f(x)) / 2``, i.e. of ``(1 - f(x)) / 2``, as for a probability by ``erf`` or ``tanh``."""
    one, other = half.arguments if half.op in ("mul", "div") and len(half.arguments) == 2 else (None, None)
    if half.op == "mul" and number_written(one) == 0.5:
        one, other = other, one
    if one is None or number_written(other) != (0.5 if half.op == "mul" else 2):
        return None
    place = replace(expression, line=half.line)
    total = parts.spelled_out(place.at(one))
    rest = _beside_one(total)
    if len(rest) != 1 or len(total.arguments) != 2:
        return None
    less = _in_form(_OF_ONE_MINUS, parts, parts.spelled_out(Expression(rest[0], total.line, expression.place)))
    return _joined(less, Logarithm("", -_LOG_2, is_number=True), sign="+")


def _log_of_rate(parts: Parts, expression: Expression, exp: Written) -> Logarithm | None:
    """``log(1 - exp(-exp(x)))``, as for the probability of an event by its log rate: far below 0 it is ``x``."""
    negative = exp.line.operation_at(exp.argument(0, "input"))
    if negative.op != "neg":
        return None
    found = parts.argument_of(replace(expression, node=negative.arguments[0], line=exp.line), "exp")
    if found is None:
        return None
    x, spelling, low = found[0], parts.spelling, "-10" if parts.half else "-40"
    bounded = spelling.call("exp", replace(spelling, methods=False).clamp(x, low))
    near = spelling.call("log", f"-{spelling.call('expm1', f'-{bounded}')}")
    return Logarithm(spelling.where(f"{atom(x)} < {low}", x, near))


def _squared_tanh(parts: Parts, expression: Expression, square: Written) -> str | None:
    """The ``x`` in ``tanh(x) ** 2``."""
    sides = square.arguments
    is_square = square.op == "square" or (square.op == "pow" and number_written(square.argument(1, "exponent")) == 2)
    if not is_square and not (square.op == "mul" and len({square.line.text(each) for each in sides}) == 1):
        return None
    tanh = parts.spelled_out(Expression(sides[0], square.line, expression.place))
    return tanh.text(0, "input") if tanh.op == "tanh" else None


def _sigmoid_of_negative(parts: Parts, expression: Expression, quotient: Written) -> str | None:
    """The ``x`` in ``1 / (1 + exp(x))``."""
    below = quotient.arguments[-1]
    if quotient.op != "reciprocal" and not (quotient.op == "div" and number_written(quotient.arguments[0]) == 1):
        return None
    total = parts.spelled_out(Expression(below, quotient.line, expression.place))
    rest = _beside_one(total)
    if len(rest) != 1:
        return None
    exp = parts.spelled_out(Expression(rest[0], total.line, expression.place))
    return exp.text(0, "input") if exp.op == "exp" else None


def _beside_one(total: Written) -> list[ast.expr]:
    """The terms of a sum other than 1; none of anything else."""
    return [each for each in total.arguments if total.op == "add" and number_written(each) != 1]


def _of_negative_expm1(parts: Parts, x: str, *, is_zero: bool) -> str:
    """``log(1 - exp(x))``; where x is 0 it is infinite even so, unless ``is_zero`` adds a floor."""
    difference = f"-{parts.spelling.call('expm1', x)}"
    return parts.spelling.call("log", parts.spelling.clamp(difference, parts.floor) if is_zero else difference)


# --- reductions -------------------------------------------------------------------------------------------------------


def _sum(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    if isinstance(getattr(written.node, "func", None), ast.Name):
        return _sum_of_list(parts, expression, written, depth)
    found = _reduced(parts, expression, written, depth)
    return None if found is None else Logarithm(parts.spelling.tensor_call("logsumexp", *found))


def _mean(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    found = _reduced(parts, expression, written, depth)
    if found is None:
        return None
    total, where = found
    dim = re.match(r"dim=(-?\d+)", where)
    count = f"{atom(total)}.shape[{dim[1]}]" if dim is not None else f"{atom(total)}.numel()"
    module = next(iter((*imported("math"), *imported("numpy"))), None)
    if module is None or not (dim or written.argument(1, "dim", "axis") is None):
        log_count = parts.spelling.tensor_call("logsumexp", parts.spelling.tensor_call("zeros_like", total), where)
    else:
        log_count = f"{module}.log({count})"
    return Logarithm(f"{parts.spelling.tensor_call('logsumexp', total, where)} - {log_count}")


def _cumsum(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    found = _reduced(parts, expression, written, depth)
    return None if found is None else Logarithm(parts.spelling.tensor_call("logcumsumexp", *found))


def _reduced(parts: Parts, expression: Expression, written: Written, depth: int) -> tuple[str, str] | None:
    """The logarithm of the summands of a reduction, and the dimensions."""
    summed = expression.at(written.arguments[0], summed=True, reduced=True) if written.arguments else None
    found = None if summed is None else parts.gained(summed, depth)
    if summed is None or found is None:
        return None
    shape = parts.shape(summed)
    operand = None if shape is None else Operand(name="input", shape=shape)
    where = dims(Site(expression.line, written.node, written, expression.place), operand)
    return (found.whole, where) if where else (f"{atom(found.whole)}.flatten()", "dim=0")


def _matmul(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """The log of a matrix times a vector, or the reverse: a sum of products, each with its own logarithm."""
    sides = [expression.at(each, summed=True) for each in written.arguments[:2]]
    logs = all_gained(parts.of(each, depth) for each in sides)
    counts = [None if (shape := parts.shape(each)) is None else len(shape) for each in sides]
    if logs is None or len(logs) < 2 or None in counts:
        return None
    left, right = (each.whole for each in logs)
    if counts[1] == 1:
        where = "dim=-1"
    elif counts == [1, 2]:
        left, where = f"{atom(left)}.unsqueeze(-1)", "dim=0"
    else:
        return None
    return Logarithm(parts.spelling.tensor_call("logsumexp", f"{left} + {right}", where))


def _sum_of_list(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """The logarithm of the result of Python's own ``sum``."""
    summed = _list(parts, expression.at(written.arguments[0]), depth) if len(written.arguments) == 1 else None
    if summed is None:
        return None
    return Logarithm(parts.spelling.tensor_call("logsumexp", parts.spelling.tensor_call("stack", summed), "dim=0"))


def _stack(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    tensors = _list(parts, expression.at(written.arguments[0]), depth) if written.arguments else None
    if tensors is None:
        return None
    return Logarithm(expression.line.text(expression.node, {written.arguments[0]: tensors}))


def _cat(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """The logarithm of joined tensors, which may include tensors of ones."""
    joined = written.argument(0, "tensors")
    items = list(joined.elts) if isinstance(joined, (ast.List, ast.Tuple)) else []
    edits: dict[ast.AST, str] = {}
    for item in items:
        each = expression.at(item)
        if parts.all_alike(each) == 1:
            edits[item] = parts.spelling.tensor_call("zeros_like", each.text)
        elif (found := parts.of(each, depth)) is not None and not found.signed:
            edits[item] = found.whole
    return Logarithm(expression.line.text(expression.node, edits)) if items and len(edits) == len(items) else None


def _list(parts: Parts, expression: Expression, depth: int) -> str | None:
    """A list of the logarithms of a list's items, as code."""
    node = expression.node
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        found = parts.gained(expression.at(node.elt, summed=True), depth)
        return None if found is None else f"[{found.whole}{''.join(ast.unparse(each) for each in node.generators)}]"
    if not isinstance(node, (ast.List, ast.Tuple)):
        return None
    items = all_gained(parts.of(expression.at(each, summed=True), depth) for each in node.elts)
    return None if items is None else f"[{', '.join(each.whole for each in items)}]"


def _where(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    if written.form == "method" or len(written.arguments) != 3:
        return None
    one, other = (parts.of(expression.at(each), depth) for each in written.arguments[1:])
    if one is None or other is None or not (one.gained or other.gained):
        return None
    condition = expression.line.text(written.arguments[0])
    chosen = parts.spelling.where(condition, one.whole, other.whole)
    return Logarithm(chosen, signed=one.signed or other.signed)


def _masked_fill(parts: Parts, expression: Expression, written: Written, depth: int) -> Logarithm | None:
    """The logarithm of what has zeros in some places, as a term of a sum may."""
    fill = number_written(written.argument(2, "value"))
    found = parts.gained(expression.at(written.arguments[0]), depth) if written.arguments else None
    mask = written.text(1, "mask")
    if found is None or mask is None or fill != 0 or not expression.summed:
        return None
    return Logarithm(f'{atom(found.whole)}.masked_fill({mask}, float("-inf"))')


def _term(text: str) -> str:
    """The expression, in parentheses unless it can be a summand."""
    try:
        node = expression_of(text)
    except SyntaxError:
        return f"({text})"
    arithmetic = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult, ast.FloorDiv, ast.Mod)
    is_term = isinstance(node, ast.BinOp) and isinstance(node.op, arithmetic)
    return text if is_term or isinstance(node, ast.UnaryOp) else atom(text)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_FORMS, _function),
    "softmax": _softmax,
    "softplus": _softplus,
    "sinh": _sinh,
    "expm1": _expm1,
    "mul": _mul,
    "div": _div,
    **dict.fromkeys(("sqrt", "square", "pow", "reciprocal"), _power),
    **dict.fromkeys(("prod", "cumprod"), _prod),
    "add": _add,
    "sub": _sub,
    "sum": _sum,
    "mean": _mean,
    "cumsum": _cumsum,
    **dict.fromkeys(("matmul", "dot"), _matmul),
    "stack": _stack,
    "cat": _cat,
    "where": _where,
    "masked_fill": _masked_fill,
}
"""By the operation; the logarithm of any other is taken of the whole."""
