"""Wrong arguments of tensors, gradients and transforms raise exceptions of the same class as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import Program, check_both_refuse, check_message


def _leaf(m: Any) -> Any:
    return m.tensor([1.0, 2.0], requires_grad=True)


def _normal(m: Any, dimensions: int) -> Any:
    return m.distributions.MultivariateNormal(m.zeros(dimensions), m.eye(dimensions))


def _batched(m: Any, vectors: Any) -> Any:
    x = _leaf(m)
    return m.autograd.grad(x.sum() if vectors.ndim < 2 else x * 2, x, vectors, is_grads_batched=True)


# the call, and words that our message must contain
REFUSED: dict[str, tuple[Program, list[str]]] = {
    "the gradient of a number": (lambda m: m.autograd.grad(3.0, [_leaf(m)]), ["element 0", "float"]),
    "a complex gradient": (
        lambda m: m.autograd.grad(_leaf(m) * 2, [_leaf(m)], m.ones(2, dtype=m.complex64)),
        ["grad_output[0]", "complex64"],
    ),
    "a batch of vectors of another length": (lambda m: _batched(m, m.ones(4, 3)), ["grad_output[0]", "[4, 3]"]),
    "a batch without a dimension": (lambda m: _batched(m, m.tensor(1.0)), ["is_grads_batched", "first dimension"]),
    "a function without forward": (
        lambda m: type("F", (m.autograd.Function,), {}).apply(_leaf(m)),
        ["forward function"],
    ),
    "a jacobian by no strategy": (
        lambda m: m.autograd.functional.jacobian(lambda x: x, m.ones(2), strategy="sideways"),
        ["forward-mode", "reverse-mode"],
    ),
    "a hessian by no strategy": (
        lambda m: m.autograd.functional.hessian(lambda x: x.sum(), m.ones(2), outer_jacobian_strategy="sideways"),
        ["forward-mode", "reverse-mode"],
    ),
    "the size of a dimension that is not there": (lambda m: m.ones(2).size(5), ["[-1, 0]", "5"]),
    "an export that would lose the gradient": (lambda m: np.from_dlpack(_leaf(m)), ["detach()"]),
    "a text among numbers": (lambda m: "a" in m.ones(2), ["'str'"]),
    "an argument given twice": (lambda m: m.exp(m.ones(2), input=m.ones(2)), ["exp()", "'input'"]),
    "itself for a gradient": (lambda m: (lambda x: setattr(x, "grad", x))(_leaf(m)), ["own grad"]),
    "a hook on a constant": (
        lambda m: m.ones(2).register_post_accumulate_grad_hook(print),
        ["doesn't require gradient"],
    ),
    "a number for data": (lambda m: setattr(_leaf(m), "data", 3), ["int"]),
    "integers for data of a parameter": (lambda m: setattr(_leaf(m), "data", m.ones(2).long()), ["floating point"]),
    "a complex range": (lambda m: m.arange(1j), ["arange()", "real"]),
    "a transform of an argument by name": (
        lambda m: m.func.grad(lambda x: x.sum(), argnums="0")(m.ones(2)),
        ["argnums", "'0'"],
    ),
    "primals that are no tuple": (lambda m: m.func.jvp(lambda x: x, m.ones(2), m.ones(2)), ["tuple"]),
    "more tangents than primals": (
        lambda m: m.func.jvp(lambda x: x, (m.ones(2),), (m.ones(2), m.ones(2))),
        ["structure"],
    ),
    "vmap over nothing": (lambda m: m.func.vmap(lambda: 1)(), ["no inputs"]),
    "distributions of several dimensions": (
        lambda m: m.distributions.kl_divergence(_normal(m, 2), _normal(m, 3)),
        ["2 and 3"],
    ),
    "integers between equal bounds": (
        lambda m: m.testing.make_tensor((2,), dtype=m.int64, device="cpu", low=3, high=3),
        ["low", "3"],
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_arguments_are_refused_as_in_torch(what: str) -> None:
    program, words = REFUSED[what]
    check_both_refuse(program)
    check_message(lambda: program(rg), words)


def test_array_of_another_dtype_without_a_copy_is_refused() -> None:
    """As NumPy does; torch ignores ``copy`` and copies."""
    with pytest.raises(ValueError, match="convert float32 to float64, and copy=False"):
        np.array(rg.ones(2), dtype=np.float64, copy=False)
