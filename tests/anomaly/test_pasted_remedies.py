"""A pasted remedy mends the step, and keeps the function and its gradient where all is well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.anomaly.both import libraries, mended, only_event, run
from tests.anomaly.healthy import KINDS, UNCHANGED, numbers
from tests.anomaly.programs import PROGRAMS, Program

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")


def values_and_gradients(library: str, program: Program, code: str, kind: str | None = None) -> list[np.ndarray]:
    """Return the result and the gradients of the leaves, which may get ordinary numbers of a kind."""
    module: Any = rg if library == "retrograd" else torch
    namespace: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    exec(program.setup, namespace)
    tensors = [each for each in namespace.values() if isinstance(each, module.Tensor)]
    leaves = [each for each in tensors if each.is_leaf and each.requires_grad]
    if kind is not None:
        for leaf in leaves:
            leaf.data = module.tensor(numbers(tuple(leaf.shape), kind, program)).to(leaf.dtype)
    exec(code, namespace)
    namespace["y"].float().sum().backward()
    found = [namespace["y"].detach(), *(leaf.grad for leaf in leaves)]
    return [np.asarray(each.double().numpy()) for each in found]


@libraries
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_remedy_mends_the_step_and_keeps_the_function(program: Program, library: str) -> None:
    text = f"{program.setup}\n{program.code}\ny.float().sum().backward()"
    instead = mended(text, only_event(run(library, text, steps=True))).splitlines()
    code = "\n".join(instead[program.setup.count("\n") + 1 : -1])
    assert all(np.isfinite(each).all() for each in values_and_gradients(library, program, code)), code
    for kind in KINDS if program in UNCHANGED else ():
        expected = values_and_gradients(library, program, program.code, kind)
        actual = values_and_gradients(library, program, code, kind)
        assert np.isfinite(expected[0]).any()
        for one, other in zip(actual, expected, strict=True):
            well = np.isfinite(other)  # a row that is masked stays what it was
            np.testing.assert_allclose(one[well], other[well], rtol=1e-2, atol=1e-2, err_msg=code)
