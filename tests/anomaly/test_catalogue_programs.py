"""Every row is recognised in a real run, seen by two kinds of adapters, and its remedy really mends the program."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace

import pytest
import torch

from retrograd.anomaly.catalogue import CAUSES, diagnose
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.surroundings import Operation
from tests.anomaly.healthy import KINDS, UNCHANGED, numbers
from tests.anomaly.programs import PROGRAMS, Program
from tests.anomaly.tracing import prepared, run

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")


def mended(program: Program, lineno: int | None, remedy: str) -> str:
    """Return the program with one line replaced."""
    lines = program.code.splitlines()
    old = lines[(lineno or 1) - 1]
    lines[(lineno or 1) - 1] = old[: len(old) - len(old.lstrip())] + remedy
    return "\n".join(lines)


def assert_finite(code: str, setup: str) -> None:
    namespace = prepared(setup)
    exec(code, namespace)
    y = namespace["y"]
    leaves = {name: value for name, value in namespace.items() if isinstance(value, torch.Tensor) and value.is_leaf}
    assert bool(y.isfinite().all()), f"value {y}"
    y.backward(torch.ones_like(y))
    for name, leaf in leaves.items():
        if leaf.requires_grad:
            assert leaf.grad is not None, f"no gradient of {name}"
            assert bool(leaf.grad.isfinite().all()), f"gradient of {name}: {leaf.grad}"


@pytest.mark.parametrize("dispatch", [False, True], ids=["functions", "dispatches"])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_is_recognised_and_its_remedy_gives_finite_numbers(program: Program, dispatch: bool) -> None:
    event = run(program.code, program.setup, dispatch=dispatch)
    found = diagnose(event)
    assert found.number == program.row, f"{event}: {found}"
    assert found.remedy is not None
    ast.parse(found.remedy)
    assert_finite(mended(program, found.lineno, found.remedy), program.setup)


def computed(code: str, program: Program, kind: str, size: int | None) -> torch.Tensor:
    """Return what a program gives for ordinary numbers of a kind, in vectors of some size."""
    namespace = prepared(program.setup)
    for value in list(namespace.values()):
        if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            shape = tuple(value.shape) if size is None else (size,)
            value.data = torch.tensor(numbers(shape, kind, program)).to(value.dtype)
    exec(code, namespace)
    return namespace["y"].detach()


def sizes(program: Program) -> list[int | None]:
    """Return the sizes that the leaf of a program may have; None stands for the size that it has."""
    tensors = [each for each in prepared(program.setup).values() if isinstance(each, torch.Tensor)]
    return [None, 7, 64] if len(tensors) == 1 and tensors[0].dim() == 1 else [None]


@pytest.mark.parametrize("program", UNCHANGED, ids=str)
def test_the_remedy_computes_the_same_where_all_is_well(program: Program) -> None:
    found = diagnose(run(program.code, program.setup))
    assert found.remedy is not None
    code = mended(program, found.lineno, found.remedy)
    for kind, size in itertools.product(KINDS, sizes(program)):
        expected = computed(program.code, program, kind, size)
        actual = computed(code, program, kind, size)
        well = expected.isfinite()  # a masked row stays what it was
        assert well.any()
        torch.testing.assert_close(actual[well], expected[well], rtol=5e-3, atol=5e-3, check_dtype=False)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_is_broken_without_its_remedy(program: Program) -> None:
    """Otherwise the tests of its remedy would prove nothing."""
    with pytest.raises(AssertionError, match=r"value|gradient of"):
        assert_finite(program.code, program.setup)


def forgotten(operation: Operation, depth: int, *, born: bool = False) -> Operation:
    """The operation as a graph remembers it that saves only what backward needs: no constants, no identities."""
    args = []
    for operand in operation.args:
        known = born or (operand.constant and not isinstance(operand.value, float | int))
        args.append(
            replace(
                operand,
                key=None,
                leaf_name=None,
                value=operand.value if known else None,
                producer=forgotten(operand.producer, depth - 1) if operand.producer and depth else None,
            )
        )
    return replace(operation, args=tuple(args))


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_line_replaces_what_a_graph_does_not_keep(program: Program) -> None:
    event = run(program.code, program.setup)
    seen = event.surroundings
    assert seen is not None
    assert seen.operation is not None
    consumers = tuple(forgotten(step, 1) for step in seen.consumers if isinstance(step, Operation))
    less = replace(seen, operation=forgotten(seen.operation, 3, born=True), consumers=consumers)
    found = diagnose(replace(event, surroundings=less))
    assert found.number == program.row, found
    assert found.remedy is not None
    assert_finite(mended(program, found.lineno, found.remedy), program.setup)


# More general rows that recognise the programs of a row as well: the log of a softmax is also the log of a zero.
LATE = "log taken too late, after an underflow or overflow"
MORE_GENERAL: dict[int, set[int | str]] = {
    3: {1},
    4: {1, LATE},
    5: {27},
    6: {27, LATE},
    7: {1, LATE},
    8: {1, LATE},
    9: {1, 27, LATE, "log of a density that underflowed"},
    11: {1, 10, 21},
    12: {11, 32},
    13: {10, 21},
    14: {32},
    15: {32},
    16: {32},
    18: {32},
    19: {31},
    20: {28, 53},
    25: {"argument outside the function's domain"},
    28: {53},
    29: {32},
    30: {1, 32},
    31: {27},
    32: {53},
    33: {"argument outside the function's domain"},
    34: {1, 32},
    35: {1, "relu where a number above zero is needed"},
    36: {"powers that overflow inside a reduction", 53},
    37: {10, 13, 21},
    38: {1},
    39: {1},
}


def answers_for(program: Program) -> list[int | str]:
    """Every row that recognises the program's event, by number or title, in the order in which they are tried."""
    scene = Scene(run(program.code, program.setup))
    return [row.number or row.title for row in CAUSES if row.recognise(scene) is not None]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_no_unrelated_row_recognises_a_program(program: Program) -> None:
    answers = answers_for(program)
    assert answers[0] == program.row
    assert program.row is not None
    assert set(answers[1:]) <= MORE_GENERAL.get(program.row, set())


@pytest.mark.parametrize("row", MORE_GENERAL)
def test_more_general_rows_recognise_the_programs_too(row: int) -> None:
    """Otherwise the list would say of rows that they overlap which no longer do."""
    answers = {each for program in PROGRAMS if program.row == row for each in answers_for(program)}
    assert answers - {row} == MORE_GENERAL[row]


def test_each_row_has_its_own_number() -> None:
    numbers = [row.number for row in CAUSES if row.number is not None]
    assert sorted(numbers) == list(range(1, 56))
