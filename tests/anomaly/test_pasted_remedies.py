"""What a report says to write instead, pasted: it mends the step, and elsewhere keeps the function and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.anomaly.both import libraries, mended, only_event, run
from tests.anomaly.programs import PROGRAMS, Program

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

# Where nothing goes wrong: larger numbers than elsewhere, for programs that select these, have a logarithm of them, or
# have a softplus now where there was a relu.
BEYOND = {2: 1.0, 18: 10.0, 35: 10.0}
NEVER_WELL = (40, 41)  # whose setup is wrong whatever the numbers
OTHER_DENOMINATOR = (17,)


def values_and_gradients(library: str, setup: str, code: str, ordinary: float | None) -> list[np.ndarray]:
    """The result of a program and the gradients of its leaves, which may be given ``ordinary`` numbers and larger."""
    module: Any = rg if library == "retrograd" else torch
    namespace: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    exec(setup, namespace)
    tensors = [each for each in namespace.values() if isinstance(each, module.Tensor)]
    leaves = [each for each in tensors if each.is_leaf and each.requires_grad]
    for leaf in leaves if ordinary is not None else ():
        numbers = np.linspace(0.25, 0.75, leaf.numel()).reshape(tuple(leaf.shape)) + ordinary
        if numbers.shape[-2:] == (3, 3):  # no matrix with equal eigenvalues
            numbers = numbers + 0.1 * np.eye(3)
        leaf.data = module.tensor(numbers).to(leaf.dtype)
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
    assert all(np.isfinite(each).all() for each in values_and_gradients(library, program.setup, code, None)), code
    if program.row in (*NEVER_WELL, *OTHER_DENOMINATOR):
        return
    ordinary = BEYOND.get(program.row or 0, 0.0)
    expected = values_and_gradients(library, program.setup, program.code, ordinary)
    actual = values_and_gradients(library, program.setup, code, ordinary)
    for one, other in zip(actual, expected, strict=True):
        well = np.isfinite(other)  # a row that is masked stays what it was
        np.testing.assert_allclose(one[well], other[well], rtol=1e-2, atol=1e-2, err_msg=code)
