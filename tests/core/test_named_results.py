"""Named results: operations with several results return named tuples that can be pickled."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

X = [[4.0, 1.0], [1.0, 3.0]]
CALLS = {
    "max": lambda lib, x: x.max(0),
    "sort": lambda lib, x: lib.sort(x),
    "median": lambda lib, x: x.median(1),
    "svd": lambda lib, x: lib.svd(x),
    "linalg_svd": lambda lib, x: lib.linalg.svd(x),
    "linalg_lu": lambda lib, x: lib.linalg.lu(x),
    "linalg_slogdet": lambda lib, x: lib.linalg.slogdet(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_named_results_have_torchs_class_names_and_text(name: str) -> None:
    ours, theirs = CALLS[name](rg, rg.tensor(X)), CALLS[name](torch, torch.tensor(X))
    assert type(ours) is getattr(rg.return_types, name)
    assert type(theirs) is getattr(torch.return_types, name)
    heading, *fields = repr(theirs).splitlines()
    assert repr(ours).splitlines()[0] == heading.replace("torch", "retrograd")
    assert [field.partition("=")[0] for field in fields if "=" in field] == list(ours._fields)


@pytest.mark.parametrize("name", CALLS)
def test_named_results_can_be_copied_and_pickled(name: str) -> None:
    result = CALLS[name](rg, rg.tensor(X))
    for again in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert type(again) is type(result)
        assert all(rg.equal(one, other) for one, other in zip(again, result, strict=True))


def test_named_results_are_unpickled_in_a_fresh_process() -> None:
    text = pickle.dumps(rg.tensor(X).max(0)).hex()
    program = f"import pickle; print(pickle.loads(bytes.fromhex({text!r})).indices)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "tensor([0, 1])\n"


def test_operator_errors_name_the_class_of_named_results() -> None:
    with pytest.raises(TypeError, match=r"'Tensor' and 'retrograd\.return_types\.min'"):
        operator.isub(rg.tensor(X), rg.tensor(X).min(0))


def test_unknown_name_in_return_types_raises() -> None:
    with pytest.raises(AttributeError, match="return_types"):
        rg.return_types.exp  # noqa: B018


@parity
def test_attributes_of_named_result_classes(lib: Any) -> Any:
    kind = lib.return_types.max
    return kind.__name__, kind.__qualname__, kind.n_fields, kind.n_sequence_fields, kind.n_unnamed_fields


@parity
def test_named_results_are_made_from_a_sequence(lib: Any) -> Any:
    kind = lib.return_types.max
    made = kind([lib.tensor(2.0), lib.tensor(1)])
    return made.values, made.indices, kind(x for x in (1, 2)).indices, attempt(lambda: kind([1, 2, 3]))


def test_named_results_behave_as_named_tuples() -> None:
    kind = rg.return_types.max
    assert kind(1, 2) == kind([1, 2]) == kind._make([1, 2]) == kind([3, 2])._replace(values=1) == (1, 2)
    with pytest.raises(
        TypeError, match=r"return_types\.max\(\) takes a 2-sequence \(3-sequence given\): values, indices"
    ):
        kind(1, 2, 3)
