"""How operations are called, their in-place forms, and functions composed of them."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import GenericAlias, SimpleNamespace
from typing import Any, Literal

from numpy import ndarray

from retrograd.core import registry
from retrograd.core.annotations import DeviceLike, DTypeLike, Number, Operand, TensorOrArray
from retrograd.core.named_results import NamedResults
from retrograd.core.op import Op
from retrograd.core.parameter_aliases import OF_OPERANDS, synonyms
from retrograd.core.tensor import Tensor
from retrograd.creation.options import memory_format
from tools.stubs.annotations import hints

Signature = inspect.Signature
Parameter = inspect.Parameter
EMPTY = inspect.Parameter.empty

# the types of parameters of these names, whose annotations only say that they are not tensors
BY_NAME: dict[str, Any] = {
    "device": DeviceLike,
    "dtype": DTypeLike,
    "memory_format": memory_format,
    "alpha": Number,
    "beta": Number,
    "value": Number,
}

# the functions that make in-place forms, in core.calls.in_place and in ops.shape
IN_PLACE = ("inplace.<locals>.call", "_in_place.<locals>.call")

# flags that each add a tensor to what is returned
ADDING = ("return_indices", "return_inverse", "return_counts")

# types of parameters that operations treat as tensors, or whose functions accept all kinds of arguments
TAKEN: dict[str, Any] = {
    "broadcast_tensors.tensors": TensorOrArray | Sequence[TensorOrArray],
    "bucketize.input": Operand,
    "chain_matmul.matrices": TensorOrArray,
    "gaussian_nll_loss.var": Tensor | float,
    "heaviside.values": Operand,
    "histogram.bins": int | Tensor | ndarray | Sequence[Any],
    "index_fill.value": Operand,
    "index_put.indices": Sequence[TensorOrArray | None],
    "isclose.input": Operand,
    "isclose.other": Operand,
    "isin.elements": Operand,
    "isin.test_elements": Operand,
    "masked_fill.value": Operand,
    "multi_dot.tensors": Sequence[TensorOrArray],
    "resize_.size": int | Sequence[int],
    "searchsorted.input": Operand,
    "sum_to_size.sizes": int | Sequence[int],
    "view.shape": int | Sequence[int] | DTypeLike,
    "view.size": Sequence[int],
}


def signatures(function: Any) -> list[Signature]:
    """All ways to call a public function, with types as annotations.

    Raises
    ------
    TypeError
        If its annotations lack the result or a parameter.
    """
    op = getattr(function, "op", None)
    if op is not None:
        return with_synonyms(list(of_operation(op)))
    base = in_place_of(function)
    if base is not None:
        return [
            _changed(signature, leave_out=("out",), returns=Tensor)
            for signature in with_synonyms(list(of_operation(base)))
        ]
    plain = inspect.unwrap(function)
    found = [of_python(each) for each in _overloads(plain) or [plain]]
    if plain is not function and "out" in function.__code__.co_varnames[: _parameter_count(function)]:
        found = [_with_out(signature) for signature in found]  # what composite(out=True) adds
    found = [variant for signature in found for variant in by_flags(signature)]
    return with_synonyms(found) if is_composite(function) else found


def _overloads(function: Any) -> Sequence[Any]:
    """The overloads of a function, which may have been renamed as a method since."""
    written = SimpleNamespace(__module__=function.__globals__["__name__"], __qualname__=function.__code__.co_qualname)
    return typing.get_overloads(written)  # type: ignore[arg-type]  # it goes by the two names


def is_composite(function: Any) -> bool:
    """Whether the function was registered as composed of operations."""
    return any(function is each for each in registry.composites.values())


def in_place_of(function: Any) -> Op | None:
    """The operation whose in-place form a method is."""
    plain = inspect.unwrap(function)
    if getattr(plain, "__code__", None) is None or plain.__code__.co_qualname not in IN_PLACE:
        return None
    variables = inspect.getclosurevars(plain).nonlocals
    op = variables["op"] if "op" in variables else variables["function"].op
    assert isinstance(op, Op)
    return op


def of_operation(op: Op) -> Iterable[Signature]:
    """The signature of an operation, and the one with sizes given one by one."""
    plain = inspect.unwrap(op.function)
    known = hints(plain)
    parameters = list(inspect.signature(plain).parameters.values())
    plain_names = known.keys() | BY_NAME.keys() - op.differentiable
    tensors = [each.name for each in parameters if each.name not in plain_names or each.name == op.sequence]
    typed = [each.replace(annotation=_taken_by(op, each, known, tensors)) for each in parameters]
    several = isinstance(op.output_type, NamedResults)
    returns = op.output_type.type if several else tuple[Tensor, ...] if op.multi_view else Tensor  # type: ignore
    signature = Signature(typed, return_annotation=returns)
    yield signature if op.view or op.multi_view else _with_out(signature)
    if op.variadic is not None:
        assert parameters[-1].name == op.variadic
        one_by_one = Parameter(op.variadic, Parameter.VAR_POSITIONAL, annotation=int)
        yield signature.replace(parameters=[*typed[:-1], one_by_one])


def _taken_by(op: Op, parameter: Parameter, known: dict[str, Any], tensors: list[str]) -> Any:
    """The type of a parameter of an operation; tensors have no annotation."""
    name = parameter.name
    taken = TAKEN.get(f"{op.name}.{name}")
    if taken is None and name == op.sequence:
        taken = Sequence[TensorOrArray]
    if taken is None and known.get(name, Any) is Any:
        taken = BY_NAME.get(name)
    if taken is None and name in known:
        taken = known[name]
    if taken is None:
        operand = op.kind == "elementwise" and op.positions[name] in op.operand_positions
        taken = Tensor if len(tensors) == 1 else Operand if operand else TensorOrArray
    return taken | None if parameter.default is None and taken is not Any else taken


def of_python(function: Callable[..., Any]) -> Signature:
    """The signature of a Python function; parameters without an annotation are tensors."""
    known = hints(function)
    signature = inspect.signature(function)
    unknown = [each for each in signature.parameters.values() if each.name not in known]
    taken = Tensor if len(unknown) == 1 else TensorOrArray
    parameters = []
    for each in signature.parameters.values():
        if f"{function.__name__}.{each.name}" in TAKEN:
            annotation = TAKEN[f"{function.__name__}.{each.name}"]
            annotation = annotation | None if each.default is None else annotation
        elif each.name not in known:
            if each.default not in (EMPTY, None):
                raise TypeError(f"{_place(function)}: parameter {each.name} has no annotation and is no tensor")
            annotation = taken | None if each.default is None else taken
        else:
            annotation = known[each.name]
            if annotation is Any and each.name in BY_NAME:
                annotation = BY_NAME[each.name] | None if each.default is None else BY_NAME[each.name]
        parameters.append(each.replace(annotation=annotation))
    special = function.__name__ in ("array_ufunc", "array_function")
    if known.get("return", Any) is Any and not special and not any(flag in known for flag in ADDING):
        raise TypeError(f"{_place(function)} does not say what it returns")
    return signature.replace(parameters=parameters, return_annotation=known.get("return", Any))


def by_flags(signature: Signature) -> Iterable[Signature]:
    """The result for each combination of flags that add to it, and for flags of statically unknown value."""
    flags = [each for each in ADDING if each in signature.parameters]
    if not flags:
        yield signature
        return
    for values in itertools.product((False, True), repeat=len(flags)):
        taken = {flag: Literal[value] for flag, value in zip(flags, values, strict=True)}
        on = [flag for flag, value in zip(flags, values, strict=True) if value]
        if not on:
            yield _typed(signature, taken, Tensor)
            continue
        returns = GenericAlias(tuple, (Tensor,) * (1 + len(on)))
        yield _by_keyword(_typed(signature, taken, returns), on)
        yield _by_position(_typed(signature, taken, returns), on[-1])
    yield _by_keyword(_typed(signature, {}, Any), flags[:1])


def _typed(signature: Signature, taken: dict[str, Any], returns: Any) -> Signature:
    """The signature with other types for some parameters, and for the result."""
    parameters = [
        each.replace(annotation=taken.get(each.name, each.annotation)) for each in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters, return_annotation=returns)


def _by_position(signature: Signature, last: str) -> Signature:
    """The signature with everything up to a parameter required, so that it may be passed by position."""
    parameters = list(signature.parameters.values())
    given = [each.name for each in parameters].index(last) + 1
    return signature.replace(
        parameters=[*(each.replace(default=EMPTY) for each in parameters[:given]), *parameters[given:]]
    )


def _by_keyword(signature: Signature, required: Sequence[str], renamed: Mapping[str, str] | None = None) -> Signature:
    """The signature with some parameters required; they and all that follow are passed by keyword.

    Parameters
    ----------
    renamed
        Parameters that are also passed by keyword, under another name.
    """
    renamed = renamed or {}
    parameters: list[Parameter] = []
    for each in signature.parameters.values():
        after = bool(parameters) and parameters[-1].kind is Parameter.KEYWORD_ONLY
        by_keyword = after or each.name in required or each.name in renamed
        kind = Parameter.KEYWORD_ONLY if by_keyword else each.kind
        default = EMPTY if each.name in required else each.default
        parameters.append(each.replace(name=renamed.get(each.name, each.name), kind=kind, default=default))
    return signature.replace(parameters=parameters)


def with_synonyms(found: list[Signature]) -> list[Signature]:
    """The same signatures, and those with NumPy's names, ``axis=`` and ``keepdims=``."""
    return [variant for signature in found for variant in (signature, *_in_numpys_names(signature))]


def _in_numpys_names(signature: Signature) -> Iterable[Signature]:
    parameters = list(signature.parameters.values())
    if any(each.kind is Parameter.VAR_POSITIONAL for each in parameters):
        return
    renamed = {
        ours: theirs
        for theirs, ours in synonyms([each.name for each in parameters], None).items()
        if theirs not in OF_OPERANDS and theirs in ("axis", "axes", "keepdims")
    }
    axes = [ours for ours in renamed if ours != "keepdim"]
    if "keepdim" in renamed:
        yield _by_keyword(signature, ["keepdim"], {"keepdim": "keepdims"})
    if axes:
        yield _by_keyword(signature, axes[:1], renamed)


def as_method(signature: Signature) -> Signature:
    """The signature of a method: the first parameter is ``self``, and there is no ``out``."""
    first, *rest = signature.parameters.values()
    me = Parameter("self", first.kind)
    return _changed(signature.replace(parameters=[me, *rest]), leave_out=("out",))


def _changed(signature: Signature, leave_out: tuple[str, ...], returns: Any = None) -> Signature:
    kept = [each for each in signature.parameters.values() if each.name not in leave_out]
    return signature.replace(
        parameters=kept, return_annotation=signature.return_annotation if returns is None else returns
    )


def _with_out(signature: Signature) -> Signature:
    """The signature with ``out``: a tensor, or one for each result."""
    several = signature.return_annotation is not Tensor
    taken = tuple[Tensor, ...] | list[Tensor] if several else Tensor
    out = Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation=taken | None)
    parameters = list(signature.parameters.values())
    if any(each.name == "out" for each in parameters):
        return signature
    return signature.replace(parameters=[*parameters, out])


def _parameter_count(function: Any) -> int:
    return function.__code__.co_argcount + function.__code__.co_kwonlyargcount


def _place(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"
