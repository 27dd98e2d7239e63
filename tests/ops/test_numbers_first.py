"""Numbers before the tensors that they multiply, ``x.add_(-rate, grad)``, as many older optimizers have them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

RNG = np.random.default_rng(0)
ARRAYS = {
    "x": RNG.normal(size=3),
    "y": RNG.normal(size=3),
    "z": RNG.normal(size=3) + 3,
    "s": np.asarray(1.5),
    "t": np.asarray(2.0),
    "u": np.asarray(4.0),
    "m": RNG.normal(size=(3, 3)),
    "n": RNG.normal(size=(3, 3)),
    "b": RNG.normal(size=(2, 3, 3)),
}
CALLS = [
    "x.add(0.5, y)",
    "x.add(2, 3)",
    "x.clone().add_(-0.5, y)",
    "x.sub(0.5, y)",
    "x.clone().sub_(0.5, y)",
    "lib.add(x, 0.5, y)",
    "lib.sub(x, 0.5, y)",
    "x.clone().add_(t, y)",
    "lib.addcmul(x, 0.5, y, z)",
    "x.addcmul(0.5, y, z)",
    "x.clone().addcmul_(0.5, y, z)",
    "x.addcdiv(0.5, y, z)",
    "x.clone().addcdiv_(-0.5, y, z)",
    # without dimensions, the last operand could be taken for a number
    "s.addcdiv(0.5, t, u)",
    "s.clone().addcdiv_(0.5, t, u)",
    "s.addcmul(0.5, t, u)",
    "lib.addmm(0.5, m, 0.25, n, m)",
    "lib.addmm(0.5, m, n, m)",
    "m.addmm(0.5, 0.25, n, m)",
    "m.clone().addmm_(0.5, n, m)",
    "lib.addmv(0.5, x, 0.25, n, y)",
    "x.addmv(0.5, n, y)",
    "lib.baddbmm(0.5, b, 0.25, b, b)",
    "b.clone().baddbmm_(0.5, b, b)",
    "lib.addbmm(0.5, m, b, b)",
    "lib.addr(0.5, m, 0.25, x, y)",
]


def run(lib: Any, code: str) -> tuple[Any, list[Any]]:
    """Return the result of some code, and the gradients of its sum."""
    tensors = {name: lib.tensor(array, requires_grad=True) for name, array in ARRAYS.items()}
    result = eval(code, {"lib": lib, **tensors, "t": lib.tensor(2.0) if "add_(t" in code else tensors["t"]})
    result.sum().backward()
    return result.detach().numpy(), [None if x.grad is None else x.grad.numpy() for x in tensors.values()]


@pytest.mark.filterwarnings("ignore:This overload of:UserWarning", "ignore:.*deprecated:UserWarning")
@pytest.mark.parametrize("code", CALLS)
def test_numbers_may_come_first(code: str) -> None:
    expected, expected_gradients = run(torch, code)
    result, gradients = run(rg, code)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        if theirs is None:
            assert ours is None
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_numbers_may_come_first_with_out() -> None:
    x, y, out = rg.ones(3), rg.full((3,), 2.0), rg.empty(3)
    assert rg.add(x, 0.5, y, out=out) is out
    assert rg.addcmul(x, 0.5, y, y, out=out) is out
    assert out.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_numbers_may_come_first_in_observed_calls() -> None:
    x = rg.tensor(1.5)
    with rg.profiler.profile():
        assert x.addcdiv(0.5, rg.tensor(2.0), rg.tensor(4.0)).item() == 1.75
        # the value goes to the observer as the last argument
        assert x.addcdiv(rg.tensor(2.0), rg.tensor(4.0), value=rg.tensor(0.5)).item() == 1.75


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("x.add_(-0.5, y)", r"add_\(\): .* is deprecated; .* as alpha=$"),
        ("lib.addcmul(x, 0.5, y, y)", r"addcmul\(\): .* is deprecated; .* as value=$"),
        ("lib.addmm(0.5, m, 0.25, m, m)", r"addmm\(\): .* is deprecated; .* as beta= and alpha=$"),
    ],
)
def test_the_warning_says_what_to_write(code: str, advice: str) -> None:
    names = {"lib": rg, "x": rg.ones(3), "y": rg.ones(3), "m": rg.ones(2, 2)}
    with pytest.warns(UserWarning, match=advice) as warned:
        eval(code, names)
    assert len(warned) == 1


def test_a_loop_warns_once() -> None:
    x = rg.ones(3)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for step in range(3):
            x.add_(-0.1 / (1 + step), x)
    assert len(warned) == 1


@pytest.mark.parametrize(
    "code",
    [
        "x.add(1, 2, 3)",
        "x.add(1, y, alpha=2)",
        "x.add_(y, 2)",
        "lib.add(x, y, y)",
        "x.sub(y, y)",
        "x.addcmul(1, 2, y)",
        "m.addmm(1, 2, 3, m, m)",
        "m.addmm(m, 2, 3)",
    ],
)
def test_what_torch_refuses_is_refused(code: str) -> None:
    for lib in (torch, rg):
        names = {"lib": lib, "x": lib.ones(3), "y": lib.ones(3), "m": lib.ones(2, 2)}
        with pytest.raises(TypeError):
            eval(code, names)
