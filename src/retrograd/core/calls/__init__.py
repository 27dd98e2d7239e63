"""Calling an operation: one general path, which is the reference, and four short ones.

* ``record.apply`` serves every call: it promotes and checks operands, observes, records, and explains errors.
* ``operands.unary_caller`` makes the path of elementwise operations of one operand, such as ``exp``.
* ``operands.binary_caller``: elementwise operations of two operands, of which one may be a number, such as ``mul``.
* ``operands.product_caller``: products of two tensors, which are neither promoted nor broadcast, such as ``matmul``.
* ``arguments.argument_caller``: all others, such as ``sum``, ``reshape`` and ``linear``.

A short path serves plain tensors of one dtype while nothing observes the thread; whatever else it meets, it leaves to
``record.apply``. All of them do the same: call the function on arrays, wrap the result, find the edges of the operands,
and, if there is one, make a node with these edges, the result's shape and dtype, a sequence number, the position of the
caller, and what its rules name. This is written out in each, because on small tensors it is the calls of Python
functions that take the time (measured): with a common function for the node, the sine of ten numbers takes 2 % longer;
with ``argument_caller`` in place of ``product_caller``, a product of small matrices takes a quarter longer.

Who changes one of them changes all; ``tests/core/test_call_paths.py`` holds them to the same results, nodes, version
checks, hooks and reports, and ``tests/ops/test_call_paths.py`` to the same records over the whole table of operations.

A watch reads the operation and its arguments from the frames of these functions when the processor has raised a flag,
by the names that they have here; ``tests/anomaly/test_frames.py`` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrograd.core.calls.arguments import argument_caller
from retrograd.core.calls.in_place import apply_inplace, inplace
from retrograd.core.calls.operands import binary_caller, is_product, product_caller, unary_caller
from retrograd.core.calls.operators import add_operators

if TYPE_CHECKING:
    from retrograd.core.op import Op


def caller(op: Op) -> Callable[..., Any]:
    """The public function of an operation."""
    if op.kind == "elementwise" and op.outputs is None:
        if op.params == ("input",) and op.naming is None:
            return unary_caller(op)
        if op.params == ("input", "other"):
            return binary_caller(op, operator="")
    if is_product(op):
        return product_caller(op, operator="")
    return argument_caller(op)


__all__ = ["add_operators", "apply_inplace", "caller", "inplace"]
