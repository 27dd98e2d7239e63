"""Every short path of a call does what the general one does: results, nodes, version checks, hooks, reports.

``tests/ops/test_call_paths.py`` compares what they record over the whole table of operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import state
from retrograd.core.calls import arguments, operands
from retrograd.core.sites import site_of


@dataclass
class Case:
    """A call, the function in which its path is written, and the shapes of its operands."""

    name: str
    path: Callable[..., Any]
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((2, 3),)


MASK = rg.tensor([[True, False, True], [False, True, False]])

CASES = [
    Case("sin", operands.unary_caller, lambda x: rg.sin(x)),  # keeps its operand
    Case("sqrt", operands.unary_caller, lambda x: rg.sqrt(x)),  # keeps its result
    Case("mul", operands.binary_caller, lambda x, y: x * y, ((2, 3), (2, 3))),
    Case("mul", operands.binary_caller, lambda x: x * 2.5),
    Case("div", operands.binary_caller, lambda x, y: rg.div(x, y), ((2, 3), (3,))),
    Case("pow", operands.binary_caller, lambda x: x**3.0),  # its node is named by the exponent's class
    Case("matmul", operands.product_caller, lambda x, y: x @ y, ((2, 3), (3, 4))),
    Case("matmul", operands.product_caller, lambda x, y: rg.matmul(x, y), ((2, 2, 3), (3,))),
    Case("sum", arguments._short_caller, lambda x: x.sum(0)),
    Case("softmax", arguments._short_caller, lambda x: rg.softmax(x, 1)),
    Case("reshape", arguments._short_caller, lambda x: x.reshape(3, 2)),  # a view
    Case("clone", arguments._short_caller, lambda x: x.clone()),
    Case("masked_fill", arguments._short_caller, lambda x: x.masked_fill(MASK, 0.5)),  # named by the value's class
    Case("addmm", arguments._short_caller, lambda x, y, z: rg.addmm(x, y, z, beta=2), ((4,), (2, 3), (3, 4))),
    Case("index_add", arguments._short_caller, lambda x, y: x.index_add(0, MASK[0].long(), y), ((2, 3), (3, 3))),
    Case("linear", arguments._short_caller, rg.nn.functional.linear, ((2, 3), (4, 3), (4,))),
    Case("linear", arguments._short_caller, rg.nn.functional.linear, ((2, 3), (4, 3))),
    Case("layer_norm", arguments._short_caller, lambda x, y: rg.nn.functional.layer_norm(x, (3,), y), ((2, 3), (3,))),
    Case("conv2d", arguments._short_caller, rg.nn.functional.conv2d, ((1, 2, 5, 5), (3, 2, 3, 3), (3,))),
]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@contextmanager
def general_path() -> Iterator[None]:
    """Make every call in this thread take the general path, as if it were observed."""
    state.local.mode = state.WATCHED
    try:
        yield
    finally:
        state.refresh()


def operands_of(case: Case, needed: int = -1) -> list[Any]:
    """New operands, of which those in a bit mask require grad."""
    rng = np.random.default_rng(0)
    made = [rg.tensor(0.5 + rng.random(shape)) for shape in case.shapes]
    return [each.requires_grad_(bool(needed >> place & 1)) for place, each in enumerate(made)]


def on_both_paths(case: Case, run: Callable[[list[Any], Any], Any], needed: int = -1) -> tuple[Any, Any]:
    """What ``run`` returns for the operands and the result of the call, on the general path and on the short one."""
    found = []
    for path in (general_path, nullcontext):
        given = operands_of(case, needed)
        with path():
            result = case.function(*given)
        found.append(run(given, result))
    return found[0], found[1]


def numbers(value: Any) -> Any:
    """Tensors as lists, also inside tuples and lists; errors as their class and words."""
    if isinstance(value, (tuple, list)):
        return [numbers(each) for each in value]
    if isinstance(value, Exception):
        return type(value), str(value)
    return value.tolist() if isinstance(value, rg.Tensor) else value


def outcome(function: Callable[[], Any]) -> Any:
    """What a function returns, or the error that it raises."""
    try:
        return numbers(function())
    except RuntimeError as error:
        return numbers(error)


def gradients(given: list[Any], result: Any) -> list[Any]:
    result.backward(rg.ones_like(result))
    return [each.grad for each in given]


@every_case
def test_the_call_takes_the_path_that_it_is_listed_for(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("it took the general path")

    for module in (operands, arguments):
        monkeypatch.setattr(module, "apply", refuse)
    node = case.function(*operands_of(case)).grad_fn
    assert node.op.call.__code__ in case.path.__code__.co_consts


@every_case
@pytest.mark.parametrize("needed", [-1, 1, 2, 0], ids=["all", "first", "second", "none"])
def test_results_nodes_and_gradients_are_the_same(case: Case, needed: int) -> None:
    def run(given: list[Any], result: Any) -> Any:
        kept = [result.tolist(), result.dtype, result.stride(), result._is_view(), result._version]
        node = result.grad_fn
        if node is None:
            return kept
        leaves = [None if edge is None else edge[0].variable is given[k] for k, edge in enumerate(node.next)]
        kept += [type(node), node.name(), node.shape, node.dtype, leaves, node.extras]
        return kept, numbers(gradients(given, result))

    general, short = on_both_paths(case, run, needed)
    assert short == general


@every_case
def test_writes_to_what_was_saved_are_found_in_the_same_way(case: Case) -> None:
    for written in range(len(case.shapes) + 1):

        def run(given: list[Any], result: Any, written: int = written) -> Any:
            with rg.no_grad():
                [*given, result][written].mul_(1)
            return outcome(lambda: gradients(given, result))

        general, short = on_both_paths(case, run)
        assert short == general


@every_case
def test_hooks_see_the_same(case: Case) -> None:
    def run(given: list[Any], result: Any) -> Any:
        seen: list[Any] = []
        result.retain_grad()
        result.register_hook(lambda grad: seen.append(("tensor", grad)) or grad * 2)
        result.grad_fn.register_prehook(lambda grads: seen.append(("pre", *grads)))
        result.grad_fn.register_hook(lambda inputs, outputs: seen.append(("post", *inputs, *outputs)))
        return numbers([gradients(given, result), result.grad, seen])

    general, short = on_both_paths(case, run)
    assert short == general


@every_case
def test_anomaly_mode_reports_the_same(case: Case) -> None:
    found = []
    for path in (general_path, nullcontext):
        given = operands_of(case)
        with warnings.catch_warnings(record=True) as warned, rg.autograd.detect_anomaly():
            with path():
                result = case.function(*given)  # the line that both report
            said = outcome(lambda result=result: result.backward(rg.full_like(result, float("nan"))))
        found.append((said, [str(each.message) for each in warned], site_of(result.grad_fn)))
    general, short = found
    assert short == general
    assert issubclass(short[0][0], RuntimeError) and short[2].filename == __file__


@pytest.mark.parametrize("library", ["retrograd", "torch"])
def test_a_kernel_without_arguments_says_what_is_missing(library: str) -> None:
    module = pytest.importorskip(library)
    with pytest.raises(TypeError, match=r"missing|arguments"):
        module.gather()
