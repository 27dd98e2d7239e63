"""The outputs of a custom Function for everything that forward may return, mark and save; compared with torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.parity import attempt, parity

# what forward may make of its input
RETURNED: dict[str, Callable[[Any], Any]] = {
    "the input": lambda x: x,
    "the input, written to": lambda x: x,
    "a view of the input": lambda x: x[1:],
    "the input detached": lambda x: x.detach(),
    "a new tensor": lambda x: x * 3,
    "integers": lambda x: (x > 2).long(),
    "a number": lambda x: 7,
}
WHERE: dict[str, Callable[[Any], Any]] = {
    "a leaf": lambda leaf: leaf,
    "a result": lambda leaf: leaf * 1,
    "a view": lambda leaf: (leaf * 1)[:],
    "a constant": lambda leaf: leaf.detach(),
}


def _function(lib: Any, returned: tuple[str, ...], separate: bool, saves: bool, constant: int | None) -> Any:
    """Return a Function with the outputs named in ``returned``; number ``constant`` is marked non-differentiable."""

    def outputs(x: Any) -> Any:
        if "the input, written to" in returned:
            x.mul_(2)
        return tuple(RETURNED[name](x) for name in returned)

    def mark(ctx: Any, inputs: Any, outputs: Any) -> None:
        if "the input, written to" in returned:
            ctx.mark_dirty(*inputs)
        if constant is not None and not isinstance(outputs[constant], int):
            ctx.mark_non_differentiable(outputs[constant])
        if saves:
            ctx.save_for_backward(*inputs)

    def forward(ctx: Any, x: Any) -> Any:
        results = outputs(x)
        mark(ctx, (x,), results)
        return results

    def backward(ctx: Any, *grads: Any) -> Any:
        total = sum(g.sum() * (k + 2) for k, g in enumerate(grads) if g is not None)
        return (total * sum(x.sum() for x in ctx.saved_tensors) if saves else total).expand(3)

    members = {"backward": staticmethod(backward), "forward": staticmethod(outputs if separate else forward)}
    if separate:
        members["setup_context"] = staticmethod(mark)
    return type("Many", (lib.autograd.Function,), members)


def _state(x: Any) -> Any:
    if isinstance(x, int):
        return x
    node = None if x.grad_fn is None else x.grad_fn.name() == "ManyBackward"
    return [x.detach().clone(), x.requires_grad, x.is_leaf, x.output_nr, x._version, x._is_view(), node]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("returned", list(itertools.product(RETURNED, repeat=2)), ids=", ".join)
def test_outputs_of_custom_functions(returned: tuple[str, str], where: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        report: list[Any] = []
        for separate, saves, constant in itertools.product((False, True), (False, True), (None, 0, 1)):
            if constant is not None and "view" in returned[constant]:
                continue  # torch makes it a leaf that requires grad and is out of reach
            leaf = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
            x = WHERE[where](leaf)
            function = _function(lib, returned, separate, saves, constant)
            results = attempt(lambda function=function, x=x: function.apply(x))
            report.append(results if isinstance(results, str) else [_state(result) for result in results])
            if isinstance(results, str):
                continue
            used = [result for result in results if not isinstance(result, int) and result.requires_grad]
            report.append([result is x for result in results])
            report.append(attempt(lambda used=used: sum((result * result).sum() for result in used).backward()))
            report.append(0 if leaf.grad is None else leaf.grad)
        return report

    program()


@parity
def test_saved_output_that_is_returned_twice(lib: Any) -> Any:
    arrived: list[list[bool]] = []

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result = x * 2
            ctx.save_for_backward(result)
            ctx.set_materialize_grads(False)
            return result, result

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            arrived.append([g is None for g in grads])
            (result,) = ctx.saved_tensors
            return sum(g for g in grads if g is not None) * result * 2

    x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    first, second = Twice.apply(x)
    (g,) = lib.autograd.grad((first * second).sum(), x, create_graph=True)
    return [g, lib.autograd.grad(g.sum(), x), arrived, first is second, first.output_nr]
