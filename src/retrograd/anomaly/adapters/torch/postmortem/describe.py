"""Describing calls and origins for an event: the element, its operands, and the surrounding operations."""

from __future__ import annotations

import ast
import cmath
import linecache
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from retrograd.anomaly.adapters.elements.channels import channel_of
from retrograd.anomaly.adapters.elements.extent import extent
from retrograd.anomaly.adapters.elements.shapes import inner_index, selection_along
from retrograd.anomaly.adapters.program.attribute_writes import constructions, lines_that_keep, writes_to
from retrograd.anomaly.adapters.program.source_location import (
    assignment_of,
    is_in_branch,
    is_variable,
    only_argument_at,
    place_fields,
    written_at,
    written_where,
)
from retrograd.anomaly.adapters.program.variables import taken_of
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin
from retrograd.anomaly.adapters.torch.postmortem.recomputation import Made
from retrograd.anomaly.adapters.torch.postmortem.recomputed_lines import made_by_write, variables_of
from retrograd.anomaly.adapters.torch.records.calls import (
    Argument,
    Call,
    bad,
    has_inf,
    has_nan,
    is_bad,
    is_given_back,
    readable,
    shape_of,
)
from retrograd.anomaly.adapters.torch.records.number_arguments import assignment_of_number
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.composites import composed, known_values
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import is_between, is_own, package_of
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from retrograd.core import sites

DEPTH = 6  # how many operations back the surroundings reach
AROUND = 3  # the same for the operations between birth and harm
_AROUND_CASTS = 256  # operations among which the weights that autocast makes float16 are looked for

SOMEWHERE_INSIDE = "It happened somewhere in the {} of {} own function."
# An infinity from one of these is a pole; from any other operation it is overflow.
_POLES = {
    "log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0, "reciprocal": 0.0, "rsqrt": 0.0, "sqrt": 0.0,
    "digamma": None, "lgamma": None, "atanh": None, "logit": None, "erfinv": None, "acos": None, "asin": None,
    "acosh": None, "binary_cross_entropy": None, "tan": None, "entr": 0.0,
}  # fmt: skip

# For these the graph keeps the result instead of the operand; their elements correspond one to one.
_OF_ONE_SHAPE = frozenset(("exp", "log_softmax", "sigmoid", "softmax", "sqrt", "tanh"))

_MIXING = frozenset(
    (
        "addbmm",
        "addmv",
        "convolution",
        "dot",
        "einsum",
        "linear",
        "matmul",
        "permute",
        "scaled_dot_product_attention",
    )
)


def statistics(output: Tensor | None) -> dict[str, Any]:
    """The fields of an event that describe the output."""
    values = readable(output)
    if values is None or type(values) is not Tensor:
        return {}
    reals = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    finite = reals[torch.isfinite(reals)]
    stats = None
    if finite.numel():
        wide = finite.double() if finite.device.type != "mps" else finite.float()
        low, high = torch.aminmax(wide)
        stats = {"min": low.item(), "max": high.item(), "mean": wide.mean().item()}
    nan = int(torch.isnan(values).sum())
    positive, negative = int(torch.isposinf(reals).sum()), int(torch.isneginf(reals).sum())
    return {
        "nan_count": nan,
        "posinf_count": positive,
        "neginf_count": negative,
        "size": values.numel(),
        "output_shape": tuple(values.shape),
        "dtype": str(values.dtype).removeprefix("torch."),
        "output_stats": stats,
        "output_has_nan": nan > 0,
        "output_has_inf": positive + negative > 0,
    }


def first_of(output: Tensor | None, where: Tensor | None = None) -> tuple[int, ...] | None:
    """The first element that is not finite, or one of those in ``where``; NaNs before infinities."""
    where = bad(output) if where is None else where
    if where is None:
        return None
    values = readable(output)
    if values is not None and values.shape == where.shape:
        nan = torch.isnan(values) & where
        where = nan if bool(nan.any()) else where
    places = where.nonzero()
    return tuple(places[0].tolist()) if len(places) else None


def value_at(value: Any, index: tuple[int, ...] | None, shape: Sequence[int], op: str = "") -> Any:
    """The number in an argument of ``op`` from which an element of its result was made; None if there is none."""
    if isinstance(value, (int, float, complex)):
        return value
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.device.type == "meta":
        return None
    if is_given_back(value) or not _is_at_hand(value):
        return None
    value = value.detach()
    if value.numel() == 1:
        return value.reshape(()).item()
    if index is None or len(index) != len(shape):
        return None
    channel = channel_of(op, index, shape, value.shape)
    if channel is not None:
        return value[channel].item()
    try:
        return value.expand(tuple(shape))[index].item()
    except RuntimeError:
        return None


def _is_at_hand(value: Tensor) -> bool:
    """Whether elements can be read; a subclass may refuse, and a tensor without memory has none."""
    known = (Tensor, torch.nn.Parameter)
    return type(value) in known or hasattr(value, "to_local") or type(readable(value)) is Tensor


def _is_mixed(op: str, name: str) -> bool:
    """Whether an element of the result depends on elements of this argument at other positions than its own.

    Square matrices do have an element at the same position, but that means nothing.
    """
    if canonical(op) not in _MIXING:
        return False
    added = ("input", "self") if "add" in op.lower() else ("bias",) if canonical(op) == "linear" else ()
    return name not in added


class Describer:
    """Turns calls into operations and events.

    Parameters
    ----------
    names
        What the user calls tensors and modules.
    is_derived
        Tells whether an operation was called by a derivative, so that the line it is attributed to does not contain it.
    """

    def __init__(self, names: Names, is_derived: Callable[[Call], bool] = lambda call: False) -> None:
        self.names = names
        self._is_derived = is_derived

    def operation(
        self, call: Call, index: tuple[int, ...] | None = None, shape: Sequence[int] = (), depth: int = DEPTH
    ) -> Operation:
        """An operation with its operands at one element of its result, and those before it."""
        dim = next((each.value for each in call.args if each.name == "dim"), None)
        deep = [0 if self._hides(call, each) else depth for each in call.args]
        args = tuple(
            self.operand(each, call.name, index, shape, dim, far) for each, far in zip(call.args, deep, strict=True)
        )
        return Operation(op=call.name, args=args, **written_where(call.code, call.at))

    def _hides(self, call: Call, argument: Argument) -> bool:
        """Whether the argument of an operation in the program is a derivative, whose operations nobody wrote."""
        return argument.made_by is not None and self._is_derived(argument.made_by) and not self._is_derived(call)

    def operand(
        self, argument: Argument, op: str, index: tuple[int, ...] | None, shape: Sequence[int], dim: Any, depth: int
    ) -> Operand:
        """One argument of ``op``, with what made it."""
        value = argument.value
        if _is_mixed(op, argument.name):
            index = None
        if argument.made_by is None and not isinstance(value, Tensor):
            return Operand(name=argument.name, value=_plain(value), constant=not argument.missing)
        producer = None
        tensor, itself = argument.tensor, argument.itself
        is_cut = argument.made_by is not None and depth <= 0
        if argument.made_by is not None and not is_cut:
            at = inner_index(index, shape, None if tensor is None else tuple(tensor.shape))
            if tensor is None and canonical(op) in _OF_ONE_SHAPE:
                at = index
            inner = shape if tensor is None else tuple(tensor.shape)
            producer = self.operation(argument.made_by, at, inner, depth - 1)
        number = value_at(tensor, index, shape, op)
        low = high = None
        if tensor is not None and (number is None or dim is not None):
            low, high = _extremes(_feeding(tensor, index, shape, dim))
        return Operand(
            name=argument.name,
            value=number,
            min=low,
            max=high,
            shape=None if tensor is None else tuple(tensor.shape),
            dtype=None if tensor is None else str(tensor.dtype),
            requires_grad=(tensor is not None and tensor.requires_grad) or argument.leaf is not None or is_cut,
            producer=producer,
            leaf_name=self.names.tensor(itself) if itself is not None and argument.made_by is None else None,
            key=_key(argument),
        )

    def event(self, origin: Origin, **fields: Any) -> NaNEvent:
        """The event of an origin."""
        if origin.leaf is not None:
            return self._leaf(origin, origin.leaf, **fields)
        call = origin.call
        output = call.outputs[origin.output]
        index = first_of(output, origin.where)
        shown = origin.where if output is None else output
        shape = () if shown is None else tuple(shown.shape)
        own = call.forward or call
        operation = self.operation(own, index, shape)
        function = operation if call.is_backward else composed(operation)
        operands = _operands(own, index, shape) if function is operation else known_values(function)
        context = {**assignment_of_number(own), **self._distribution(own), **fields.pop("context", {})}
        if output is not None and output.dtype == torch.float16 and (device := _autocast_on(origin)) is not None:
            context = {**context, "autocast": device}
        kind = _kind(own, output, index, shape)
        if output is None and kind == "invalid" and _became_infinite(origin.path[1:]):
            kind = "divide"
        if call.inside is not None:
            kind, function, operands = self._inside(call.inside, operands)
            context = {**context, "called_in_backward": True}
        grad = next((value_at(each.value, index, shape) for each in call.args if each.name == "grad"), None)
        taken = [each.value for each in call.args]
        return NaNEvent(
            kind=kind,
            op=call.name if call.is_backward else canonical(function.op),
            is_backward=call.is_backward,
            index=index,
            operands=operands,
            input_has_nan=any(map(has_nan, taken)),
            input_has_inf=any(map(has_inf, taken)),
            thread=call.thread,
            path=_shown(origin.path),
            surroundings=Surroundings(
                operation=function,
                consumers=self._consumers(origin, index, shape) if call.inside is None else (),
                grad_value=grad if call.is_backward else None,
                library="torch",
                context=context,
            ),
            **(self.names.layer(call.modules) or self._layer_of_weights(own)),
            **place_fields(call.code, call.at, call.callers),
            **statistics(output),
            **self._note(call),
            **fields,
        )

    def _distribution(self, call: Call) -> dict[str, Any]:
        """The class of the distribution in whose ``log_prob`` a density was computed, if a variable holds it."""
        match written_at(call.code, call.at):
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="log_prob")):
                held = variables_of(self.names.frame, call.code).get(name)
                if isinstance(held, Distribution):
                    return {"distribution": type(held).__name__}
        return {}

    def written(self, origin: Origin, made: Made, user: Call, **fields: Any) -> NaNEvent:
        """The event of an operation that was found by computing its line again."""
        assert user.code is not None
        event = self.event(origin, **fields)
        seen = event.surroundings or Surroundings()
        col, end_col = (len(made.line.encode()[:place].decode()) for place in (made.start, made.end))
        operation = seen.operation or Operation(op=event.op)
        line: dict[str, Any] = {"code_line": made.line, "lineno": made.lineno, "col": col}
        here: dict[str, Any] = {"filename": user.code.co_filename, "function": user.code.co_qualname}
        code = made.code or user.code
        place: dict[str, Any] = {"filename": code.co_filename, "function": code.co_qualname}
        operation = replace(operation, **line, **place)
        return replace(
            event,
            **line,
            **place,
            end_col=end_col,
            callers=tuple({**here, **each} for each in made.callers) or event.callers,
            surroundings=replace(seen, operation=operation),
        )

    def _consumers(
        self, origin: Origin, index: tuple[int, ...] | None, shape: tuple[int, ...]
    ) -> tuple[Operation, ...]:
        """The operations from the birth to the harm, at the affected element; in backward, along the gradient."""
        if not origin.call.is_backward:
            way = [each for each in origin.path[1:] if not (each.is_backward or self._is_derived(each))]
            derived = next((each for each in origin.path[1:] if each.is_backward), None)
            kept = None if derived is None else derived.forward  # it had kept the value for its derivative
            if kept is not None and kept is not origin.call and kept not in way:
                way.append(kept)
            return self._along(way[:DEPTH], index, shape)
        found: list[Call] = []
        own = origin.call.forward
        call: Call | None = origin.call
        while call is not None and len(found) < DEPTH:
            call = next((each.made_by for each in call.args if each.name == "grad"), None)
            if call is not None and call.forward is not None:
                found.append(call.forward)
        keeps = own is not None and own.pointwise and shape_of(own) == shape
        return self._along(found, index if keeps else None, shape)

    def _along(
        self, calls: Sequence[Call], index: tuple[int, ...] | None, shape: tuple[int, ...]
    ) -> tuple[Operation, ...]:
        """Consecutive operations, at the affected element for as long as it keeps its position."""
        found = []
        for call in calls:
            made = shape_of(call)
            if not call.pointwise or made != shape:
                index = None
            shape = made or ()
            found.append(self.operation(call, index, shape, AROUND))
        return tuple(found)

    def _layer_of_weights(self, call: Call) -> dict[str, Any]:
        """The one module whose parameters an operation uses, if nothing else is known about the enclosing modules."""
        members = [self.names.member(each.leaf) for each in call.args if each.leaf is not None]
        layers = {name.rpartition(".")[0] for name in members if name is not None}
        return {"layer_name": layers.pop()} if len(layers) == 1 and "" not in layers else {}

    def _inside(self, call: Call, operands: dict[str, Any]) -> tuple[str, Operation, dict[str, Any]]:
        """The operation that the user's code called in backward, with the kind of birth and the variables' values."""
        output = call.outputs[0]
        index, shape = first_of(output), tuple(output.shape)
        known = {name: value_at(value, index, shape) for name, value in call.variables.items()}
        numbers = {name: value for name, value in known.items() if value is not None and not isinstance(value, bool)}
        return _kind(call, output, index, shape), self.operation(call, index, shape), numbers or operands

    @staticmethod
    def _note(call: Call) -> dict[str, Any]:
        if call.is_unseen and call.applied is not None and not is_between(call.applied[0]):
            whose = package_of(call.applied[0].co_filename)
            method = "backward" if call.is_backward else "forward"
            return {"note": SOMEWHERE_INSIDE.format(method, f"{whose}'s" if whose else "the user's")}
        if call.inside is None or call.inside.code is None:
            return {}
        if call.name == "gradient_hook":
            return {"note": "It happened in a hook called by backward."}
        inside = sites.site(call.inside.code, call.inside.at)
        return {"note": f"It happened inside its backward, at {inside.filename}:{inside.lineno}."}

    def _leaf(self, origin: Origin, argument: Argument, **fields: Any) -> NaNEvent:
        """A value that came in non-finite."""
        tensor = argument.leaf if argument.leaf is not None else argument.value
        itself = tensor if argument.original is None else argument.original
        name, member = self.names.tensor(itself), self.names.member(itself)
        if member is not None:
            role = "buffer" if self.names.is_buffer(member) else "parameter"
        else:
            learned = tensor.requires_grad and not self.names.is_left_by_optimizers(itself)
            role = "parameter" if learned else "target" if "target" in argument.name else "batch"
        is_data = role in ("batch", "target")
        call = origin.call
        holder = self.names.holder(itself) if is_data else None
        if holder is not None:
            name = _name_for_the_user(*holder, call)
        if (
            is_data
            and call.callers
            and call.code is not None
            and not is_own(call.code)
            and is_variable(call.callers[0][0], name)
        ):
            (code, at), *others = call.callers  # where the program passed it to the package that met it
            call = replace(call, code=code, at=at, callers=tuple(others))
        context = dict(fields.pop("context", {}))
        context |= {"leaf": role} | self._named(call, argument, name, bool(context.get("untraced")))
        if member is not None:
            context |= self._of_state(member, itself, is_parameter=role == "parameter")
        if is_data:
            made_at = context.get("assigned") if "source" in context else None
            context |= self._of_data(call, tensor, name, None if made_at is None else made_at[1])
            kept = [] if name is None or call.code is None else lines_that_keep(call.code, name)
            context |= {"kept": kept} if kept else {}
            context |= {} if holder is None else taken_of(holder, call.code, call.at)
        layer = {"layer_name": member.rpartition(".")[0]} if member is not None and "." in member else {}
        came_through = origin.where is not None and origin.where.shape == tensor.shape and bool(origin.where.any())
        index = first_of(tensor, origin.where if came_through else None)
        place = self.names.layer(call.modules) | layer
        return NaNEvent(
            kind="leaf",
            op="leaf",
            index=index,
            operands={name or argument.name: value_at(tensor, index, tuple(tensor.shape))},
            path=("leaf", *_shown(origin.path)),
            thread=call.thread,
            surroundings=Surroundings(
                consumers=tuple(self.operation(each, depth=AROUND) for each in origin.path[:DEPTH]),
                library="torch",
                context=context,
            ),
            **place,
            **place_fields(call.code, call.at, call.callers),
            **statistics(tensor),
            **fields,
        )

    def _named(self, call: Call, argument: Argument, name: str | None, is_untraced: bool) -> dict[str, Any]:
        """The program's name for a leaf, or else hints to where it comes from."""
        if name is None:
            given = only_argument_at(call.code, call.at)
            known = {} if given is None else {"given": given}
            return {"bad_buffers": self.names.bad_buffers()} | assignment_of_number(call, argument) | known
        assigned = assignment_of(call.code, call.at, name) if is_untraced else None
        if assigned is None:
            return {"name": name}
        return {"name": name, "assigned": assigned, "in_branch": is_in_branch(call.code, call.at, assigned[1])}

    def _of_state(self, name: str, tensor: Tensor, is_parameter: bool) -> dict[str, Any]:
        """The line in the program's own modules that writes to a parameter or buffer, and the birth in it, if it gives
        one again; of a buffer that nothing has written to, the line that made it.
        """
        holders = list(self.names.holders(name))
        write, made = made_by_write(holders, is_parameter)
        if write is None:
            untouched = not is_parameter and not tensor.is_inference() and tensor._version == 0
            made_in = [each for module, of in holders for each in constructions(type(module), of)] if untouched else []
            if len(made_in) != 1 or any(True for module, of in holders for _ in writes_to(type(module), of)):
                return {}
            code, statement = made_in[0]
            return {"constructed": (linecache.getline(code.co_filename, statement.lineno).strip(), statement.lineno)}
        text = linecache.getline(write.code.co_filename, write.statement.lineno).strip()
        context: dict[str, Any] = {"written": (text, write.statement.lineno)}
        if made is not None and made.code is None:
            output = made.call.outputs[0]
            index, shape = first_of(output), () if output is None else tuple(output.shape)
            col = len(made.line.encode()[: made.start].decode())
            context["born_in_write"] = replace(
                self.operation(made.call, index, shape),
                code_line=made.line,
                lineno=made.lineno,
                col=col,
                filename=write.code.co_filename,
                function=write.code.co_qualname,
            )
        return context

    def _of_data(self, call: Call, tensor: Tensor, name: str | None, lineno: int | None) -> dict[str, Any]:
        """Where the bad elements lie in data, what it was passed together with, and what may have made it.

        If NaN appears first in a variable that a line made, modules called before that line have made good numbers.
        """
        wrong = bad(tensor)
        if wrong is None:
            return {}
        context = extent(wrong.cpu().numpy())
        if name is not None and (members := self.names.bad_members_behind(call.code, name)):
            context["bad_members"] = members
        elif name is not None and (called := self.names.modules_called_for(call.code, name, lineno)):
            context["computed_by"] = called
        return context


def _operands(call: Call, index: tuple[int, ...] | None, shape: Sequence[int]) -> dict[str, Any]:
    """The numbers from which an operation computed one element of its result."""
    operands = {}
    for argument in filter(_is_operand, call.args):
        at = None if _is_mixed(call.name, argument.name) else index
        number = value_at(argument.value, at, shape, call.name)
        if number is not None and not isinstance(number, bool):
            operands[argument.name] = number
    return operands


def _name_for_the_user(frame: FrameType, name: str, call: Call) -> str | None:
    """The program's name for data: what its own line reads says more than a variable inside a package."""
    if is_own(frame.f_code) or call.code is None or not is_own(call.code):
        return name
    given = only_argument_at(call.code, call.at)
    return given if given is not None and given.isidentifier() else name


def _autocast_on(origin: Origin) -> str | None:
    """The kind of device on which autocast cast weights to float16, around or before a birth; None if unknown."""
    waiting = deque([origin.call, *origin.path])
    seen: set[int] = set()
    while waiting and len(seen) < _AROUND_CASTS:
        call = waiting.popleft()
        if id(call) in seen:
            continue
        seen.add(id(call))
        if canonical(call.name) == "to" and _is_cast_weight(call):
            return str(call.args[0].leaf.device.type)  # type: ignore[union-attr]
        waiting.extend(each.made_by for each in call.args if each.made_by is not None)
    return None


def _is_cast_weight(call: Call) -> bool:
    """Whether a call has cast a parameter of another type to float16."""
    leaf = call.args[0].leaf if call.args else None
    made = call.outputs[0] if call.outputs else None
    return leaf is not None and leaf.dtype != torch.float16 and (made is None or made.dtype == torch.float16)


def _key(argument: Argument) -> int | None:
    """A key by which two arguments are recognised as the same tensor although each was unpacked separately."""
    if argument.made_by is not None:
        return id(argument.made_by) + argument.output
    thing = argument.itself if argument.leaf is None else argument.leaf
    return None if thing is None else id(thing)


def _shown(path: Sequence[Call]) -> tuple[str, ...]:
    """The names of the operations along a path, without those that hooks on modules insert."""
    return tuple(_short(each) for each in path if canonical(each.name) != "backward_hook_function")


def _short(call: Call) -> str:
    return call.name if call.is_backward or call.name.endswith(tuple("0123456789")) else canonical(call.name)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(value) if all(isinstance(item, (int, float)) for item in value) else None
    return value if isinstance(value, (int, float, complex, str)) else None


_NUMBERS = ("input", "other", "exponent", "value", "min", "max")


def _is_operand(argument: Argument) -> bool:
    """Whether an argument is a number used in the computation, not an option, nor a factor that is 1 nearly always."""
    is_factor = argument.name in ("alpha", "beta") and argument.is_bad_number
    return isinstance(argument.value, Tensor) or argument.name in _NUMBERS or is_factor


def _kind(own: Call, output: Tensor | None, index: tuple[int, ...] | None, shape: Sequence[int]) -> str:
    """Which of the IEEE 754 exceptions the birth is."""
    made = value_at(output, index, shape)
    if made is None or cmath.isnan(made):
        return "invalid"
    op = canonical(own.name)
    values = {each.name: value_at(each.value, index, shape) for each in own.args}
    if op in ("div", "rdiv"):
        divisor = values.get("other")
        return "divide" if divisor == 0 else "overflow"
    if op == "pow":
        return "divide" if values.get("input") == 0 else "overflow"
    if op not in _POLES:
        return "overflow"
    pole = _POLES[op]
    return "divide" if pole is None or values.get("input") in (pole, None) else "overflow"


def _became_infinite(calls: Sequence[Call]) -> bool:
    """Whether the first result that is kept of the operations after a birth holds infinities, but no NaN.

    Then the birth was no NaN either: that would not have become an infinity.
    """
    kept = (each for call in calls for each in call.outputs if isinstance(each, Tensor))
    first = next(kept, None)
    return first is not None and is_bad(first) and not has_nan(first)


def _feeding(tensor: Tensor, index: tuple[int, ...] | None, shape: Sequence[int], dim: Any) -> Tensor:
    """The elements along ``dim`` that an element of a reduction, or of a softmax, was made from."""
    tensor = tensor.detach()
    if dim is None or tensor.layout is not torch.strided:
        return tensor
    return tensor[selection_along(dim, index, shape, tensor.shape)]


def _extremes(values: Tensor) -> tuple[Any, Any]:
    if values.numel() < 2 or values.is_complex() or values.dtype == torch.bool or values.layout is not torch.strided:
        return None, None
    if is_given_back(values):
        return None, None
    ordinary = values[~torch.isnan(values)] if values.is_floating_point() else values
    if not ordinary.numel():
        return None, None
    low, high = torch.aminmax(ordinary)
    return low.item(), high.item()
