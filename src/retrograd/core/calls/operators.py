"""Operations as Python's operators: ``x * y``, with its reflected and in-place forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd.core.calls.in_place import apply_inplace, write_unrecorded
from retrograd.core.calls.operands import SCALARS, binary_caller, product_caller, unary_caller
from retrograd.core.foreign_operands import is_foreign, left_to
from retrograd.core.record import apply
from retrograd.core.registry import add_method
from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.core.op import Op

_REFLECTED = frozenset(
    ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
)


def add_operators(op: Op, operator: str, with_inplace: bool) -> None:
    """Make an operation a Python operator: ``__mul__``, ``__rmul__`` and ``__imul__`` for ``"mul"``."""
    if op.params == ("input",):
        add_method(f"__{operator}__", unary_caller(op))
        return
    forward = (
        binary_caller(op, f"__{operator}__") if op.kind == "elementwise" else product_caller(op, f"__{operator}__")
    )
    add_method(f"__{operator}__", forward)
    if operator in _REFLECTED:
        commutes = operator in ("add", "mul")

        def reflected(self: Tensor, other: Any) -> Any:
            if commutes and type(other) in SCALARS:
                return forward(self, other)
            if is_foreign(other):
                return left_to(other, self, f"__r{operator}__")
            return apply(op, [other, self])

        add_method(f"__r{operator}__", reflected)
        if with_inplace:
            short = op.ufunc is not None

            def augmented(self: Tensor, other: Any) -> Any:
                if short and write_unrecorded(op, self, other):
                    return self
                if is_foreign(other):
                    return left_to(other, self, f"__i{operator}__")
                return apply_inplace(op, f"__i{operator}__", [self, other])

            add_method(f"__i{operator}__", augmented)
