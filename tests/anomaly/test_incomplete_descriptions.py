"""Whatever an adapter describes, the explanation of an event raises no error."""

from __future__ import annotations

import ast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from retrograd.anomaly.catalogue import CAUSES, diagnose
from retrograd.anomaly.event import KINDS, NaNEvent
from retrograd.anomaly.operation_names import KNOWN
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from tests.anomaly.programs import PROGRAMS

NUMBERS = st.one_of(st.none(), st.floats(), st.integers(-3, 3), st.booleans(), st.complex_numbers(), st.just("text"))
OPS = st.sampled_from([*sorted(KNOWN), "AccumulateGrad", "clip_grad_norm_", "__rtruediv__", "something"])
LINES = st.sampled_from([None, "", "y = (", *(program.code for program in PROGRAMS[::7])])


def operands(producers: st.SearchStrategy[Operation | None]) -> st.SearchStrategy[Operand]:
    return st.builds(
        Operand,
        name=st.sampled_from(["input", "self", "other", "exponent", "condition", "dim", "mask", "target"]),
        value=NUMBERS,
        min=NUMBERS,
        max=NUMBERS,
        shape=st.one_of(st.none(), st.tuples(), st.tuples(st.integers(0, 3), st.integers(0, 3))),
        dtype=st.sampled_from([None, "float16", "torch.float32"]),
        requires_grad=st.booleans(),
        producer=producers,
        constant=st.booleans(),
    )


def operations(inner: st.SearchStrategy[Operation]) -> st.SearchStrategy[Operation]:
    args = st.lists(operands(st.one_of(st.none(), inner)), max_size=3).map(tuple)
    return st.builds(Operation, op=OPS, args=args, code_line=LINES)


TREES = st.recursive(st.builds(Operation, op=OPS, code_line=LINES), operations, max_leaves=6)


@given(
    event=st.builds(
        NaNEvent,
        kind=st.sampled_from(KINDS),
        op=OPS,
        is_backward=st.booleans(),
        code_line=LINES,
        surroundings=st.builds(
            Surroundings,
            operation=st.one_of(st.none(), TREES),
            consumers=st.lists(st.one_of(TREES, OPS), max_size=3).map(tuple),
            grad_value=NUMBERS,
        ),
    )
)
@example(NaNEvent(kind="overflow", op="pdist"))
@settings(max_examples=300, deadline=None)
def test_diagnose_accepts_incomplete_descriptions(event: NaNEvent) -> None:
    found = diagnose(event)
    assert found.cause
    assert found.number in {row.number for row in CAUSES}
    if found.remedy and event.code_line is None and not event.surroundings:
        ast.parse(found.remedy)
