"""NumPy scalars and 0-d tensors as number arguments count as Python numbers.

Python numbers do not change the dtype of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, run

PARAMETERS = [
    "F.leaky_relu(x, n)", "F.elu(x, n)", "F.celu(x, n)", "F.softplus(x, n)", "F.hardtanh(x, -n, n)",
    "F.hardshrink(x, n)", "F.softshrink(x, n)", "F.threshold(x, n, n)", "F.rrelu(x, n, n)", "m.logit(x, n)",
    "F.smooth_l1_loss(x, 2 * x, beta=n)", "F.huber_loss(x, 2 * x, delta=n)", "F.hinge_embedding_loss(x, x.sign(), n)",
    "F.triplet_margin_loss(x[None], x[None], 2 * x[None], n)", "F.normalize(x, n, 0)",
    "F.pairwise_distance(x, 2 * x, n)",
    "F.layer_norm(x, (3,), eps=n)", "F.local_response_norm(x[None, :, None], 2, n, n, n)",
    "F.dropout(x, 1 - n * 0)", "F.scaled_dot_product_attention(x[None], x[None], x[None], scale=n)",
    "F.pad(x, (1, 1), value=n)",
    "F.batch_norm(x[None].expand(2, 3), m.zeros(3), m.ones(3), training=True, momentum=n)",
    "m.norm(x, n)", "m.dist(x, 2 * x, n)", "m.linalg.vector_norm(x, n)", "m.renorm(x[None], n, 0, n)",
    "m.cdist(x[None], 2 * x[None], n)", "m.var(x, correction=n)", "m.quantile(x, n)", "m.nan_to_num(x, n, n, n)",
    "m.scatter(x, 0, m.tensor([1]), n)", "x.clone().scatter_(0, m.tensor([1]), n)", "m.cumulative_trapezoid(x, dx=n)",
    "m.scatter(x.detach(), 0, m.tensor([1]), n, reduce='add')", "m.sub(x, x.square(), alpha=n)",
    "x.index_fill(0, m.tensor([0]), n)",
]  # fmt: skip

OPERANDS = ["x * n", "n / x", "n ** x", "x ** n", "m.xlogy(x, n)", "m.special.xlog1py(x, n)", "m.clamp(x, n)"]


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "np.float64": lambda m: np.float64(0.5),
    "np.float32": lambda m: np.float32(0.5),
    "np.int64": lambda m: np.int64(1),
    "float64 tensor": lambda m: m.tensor(0.5, dtype=m.float64),
    "int64 tensor": lambda m: m.tensor(1),
}


@pytest.mark.parametrize("expression", PARAMETERS + OPERANDS)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_number_arguments_do_not_change_the_dtype(expression: str, number: str, dtype: str) -> None:
    def program(library: Any) -> Any:
        x = library.tensor([1.0, 2.0, 3.0], dtype=getattr(library, dtype), requires_grad=True)
        names = {"m": library, "F": library.nn.functional, "x": x, "n": NUMBERS[number](library)}
        result = attempt(lambda: eval(expression, names))
        if isinstance(result, str) or not result.requires_grad:
            return result
        result.sum().backward()
        return result, x.grad

    assert run(program, rg) == run(program, torch)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.float16(0.7) ** x,
        lambda x: rg.pow(np.float32(0.1), x),
        lambda x: rg.xlogy(x, np.float16(0.7)),
        lambda x: rg.logaddexp(x, np.float32(0.1)),
    ],
)
def test_gradient_with_a_number_argument_has_full_precision(function: Callable[[rg.Tensor], rg.Tensor]) -> None:
    x = rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64, requires_grad=True)
    assert rg.autograd.gradcheck(function, (x,), atol=1e-8, rtol=1e-8)


CONSTANT = [
    "F.leaky_relu(x, n)", "F.elu(x, n)", "F.celu(x, n)", "F.softplus(x, n)", "F.softplus(x, 1, n)",
    "F.hardtanh(x, -n, n)",
    "F.hardshrink(x, n)", "F.softshrink(x, n)", "F.threshold(x, n, 0)", "m.logit(x, n)", "m.linalg.vector_norm(x, n)",
    "F.smooth_l1_loss(x, x, beta=n)", "F.huber_loss(x, x, delta=n)", "F.layer_norm(x, (3,), eps=n)",
    "m.addmv(x, x.outer(x), x, alpha=n)", "m.add(x, x, alpha=n)", "x.sub_(x, alpha=n)", "m.addcmul(x, x, x, value=n)",
    "x.addcdiv_(x, x, value=n)", "m.pinverse(x.outer(x), n)",
    "F.dropout(x, n)", "F.dropout(x, n, training=False)", "F.dropout1d(x[None, :, None], n)", "F.alpha_dropout(x, n)",
    "F.feature_alpha_dropout(x[None], n)", "m.nn.Dropout(n)(x)",
    "F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=n)",
    "F.batch_norm(x[None].expand(2, 3), m.zeros(3), m.ones(3), training=True, momentum=n)",
    "F.instance_norm(x.expand(1, 2, 3), m.zeros(2), m.ones(2), momentum=n)",
    "F.avg_pool2d(x.expand(1, 1, 3, 3), 2, divisor_override=n)",
    "m.nn.init.trunc_normal_(x, n, 1.0)", "m.nn.init.trunc_normal_(x, 0.0, n)", "m.nn.init.normal_(x, n)",
    "m.nn.init.uniform_(x, 0.0, n)", "m.full((2,), n)", "m.arange(n)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CONSTANT)
def test_number_argument_that_requires_grad_is_refused(expression: str) -> None:
    """There is no derivative with respect to these arguments."""
    for library in (torch, rg):
        x, n = library.tensor([1.0, 2.0, 3.0]), library.tensor(0.5, requires_grad=True)
        with pytest.raises(TypeError, match=r"must be (Number|float|int|a number)"):
            eval(expression, {"m": library, "F": library.nn.functional, "x": x, "n": n})


@pytest.mark.parametrize(
    "expression",
    [
        "F.interpolate(x.expand(1, 1, 3), scale_factor=n, mode='linear')",
        "F.interpolate(x.expand(1, 1, 3), scale_factor=[n], mode='linear')",
        "m.linalg.pinv(x.outer(x), rtol=n)", "m.linalg.pinv(x.outer(x), atol=n.expand(1))",
        "m.linalg.pinv(x.outer(x), atol=n, rtol=0.5)",
    ],
)  # fmt: skip
def test_tolerances_and_scales_that_require_grad_are_refused(expression: str) -> None:
    for library in (torch, rg):
        x, n = library.tensor([1.0, 2.0, 3.0]), library.tensor(0.5, requires_grad=True)
        names = {"m": library, "F": library.nn.functional, "x": x, "n": n}
        with pytest.raises((TypeError, RuntimeError)):
            eval(expression, names)
