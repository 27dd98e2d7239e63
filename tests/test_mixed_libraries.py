"""Tensors of one library passed to the other raise errors that name both, and are never used by accident."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
import retrograd.autograd.forward_ad as fwAD
from retrograd import distributions, func

MAKE_IT_OURS = r"convert it first with retrograd\.as_tensor"
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.ge]


@pytest.mark.parametrize("compute", [*OPERATORS, *COMPARISONS])
@pytest.mark.parametrize("theirs", [torch.ones(2), torch.nn.Parameter(torch.ones(2))])
def test_operators_on_tensors_of_two_libraries_raise(compute: Callable[[Any, Any], Any], theirs: Any) -> None:
    """Otherwise a comparison would be a plain False."""
    for operands in ((rg.ones(2), theirs), (theirs, rg.ones(2))):
        with pytest.raises(TypeError, match=r"(?s)retrograd.*torch|torch.*retrograd"):
            compute(*operands)


@pytest.mark.parametrize("compute", [operator.iadd, operator.imul])
def test_writing_a_tensor_of_another_library_raises(compute: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"retrograd.*torch"):
        compute(rg.ones(2), torch.ones(2))
    ours = rg.ones(2)
    with pytest.raises(TypeError, match=r"can't assign a torch\.Tensor"):
        ours[0] = torch.ones(())


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda t: rg.ones(2).add(t), "argument 'other'"),
        (lambda t: np.add(rg.ones(2), t), "argument 'other'"),
        (lambda t: rg.maximum(rg.ones(2), t), "argument 'other'"),
        (lambda t: rg.clamp(rg.ones(2), t), "argument 'min'"),
        (lambda t: rg.ones(2).mul_(t), "argument 'other'"),
        (lambda t: rg.exp(t), "argument 'input'"),
        (lambda t: rg.linalg.solve(rg.eye(2), t), "argument 'B'"),
        (lambda t: rg.outer(rg.ones(2), t), "argument 'vec2'"),
        (lambda t: rg.nn.functional.l1_loss(rg.ones(2), t), "argument 'target'"),
        (lambda t: rg.nn.functional.l1_loss(rg.ones(2), target=t), "argument 'target'"),
    ],
)
def test_functions_name_the_argument_that_is_a_torch_tensor(call: Callable[[Any], Any], argument: str) -> None:
    with pytest.raises(TypeError, match=rf"{argument}.* must be Tensor, not torch\.Tensor; {MAKE_IT_OURS}"):
        call(torch.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        torch.exp,
        lambda x: torch.ones(2).add(x),
        lambda x: torch.stack([x, x]),
        torch.nn.Linear(2, 1),
        lambda x: torch.nn.functional.mse_loss(x, torch.ones(2)),
        lambda x: func.grad(torch.sum)(x),
    ],
)
def test_torch_functions_say_that_the_tensor_is_of_retrograd(call: Callable[[Any], Any]) -> None:
    """On its own, torch says that an argument must be Tensor, not Tensor."""
    with pytest.raises(TypeError, match=r"torch's \w+\(\) was given a retrograd tensor"):
        call(rg.ones(2))


def test_conversions_between_the_libraries_work() -> None:
    x = rg.tensor([1.0, 2.0])
    for made in (torch.as_tensor(x), torch.tensor(x), torch.asarray(x), torch.from_dlpack(x)):
        assert made.tolist() == [1.0, 2.0]
    assert not torch.is_tensor(x)
    assert rg.as_tensor(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("index", [[1], [0, 1], [[1]], [True, False]])
def test_torch_tensor_as_an_index(index: Any) -> None:
    """An index with one element must not count as an int."""
    index = torch.tensor(index)
    expected = torch.arange(6.0).reshape(2, 3)
    result = rg.arange(6.0).reshape(2, 3)
    assert result[index].shape == expected[index].shape
    assert result[index].tolist() == expected[index].tolist()
    result[index], expected[index] = -1.0, -1.0
    assert result.tolist() == expected.tolist()


VALUES = [[0.5, 0.5], np.array([0.5, 0.5]), torch.tensor([0.5, 0.5])]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "make",
    [
        lambda v: distributions.Normal(v, 1.0),
        lambda v: distributions.Categorical(v),
        lambda v: distributions.OneHotCategorical(logits=v),
        lambda v: distributions.Multinomial(2, v),
        lambda v: distributions.Dirichlet(v),
        lambda v: distributions.MultivariateNormal(v, rg.eye(2)),
        lambda v: distributions.MultivariateNormal(rg.zeros(2), scale_tril=v),
        lambda v: distributions.LowRankMultivariateNormal(rg.zeros(2), rg.ones(2, 1), v),
        lambda v: distributions.Normal(0.0, 1.0).log_prob(v),
    ],
)
def test_distributions_say_how_to_convert_a_foreign_parameter(make: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=MAKE_IT_OURS):
        make(value)


@pytest.mark.parametrize(
    "distribution",
    [
        distributions.Normal(0.0, 1.0),
        distributions.Categorical(rg.ones(2)),
        distributions.OneHotCategorical(rg.ones(2)),
        distributions.MultivariateNormal(rg.zeros(2), rg.eye(2)),
    ],
)
def test_sample_shape_as_an_int_raises_with_advice(distribution: Any) -> None:
    with pytest.raises(TypeError, match=r"sample_shape must be a tuple of ints, but got 3; for 3 samples write \(3,\)"):
        distribution.sample(3)


@pytest.mark.parametrize("value", [1.0, *VALUES])
def test_gradients_that_are_not_tensors_raise(value: Any) -> None:
    x = rg.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=f"gradients can be either Tensors or None.*{MAKE_IT_OURS}"):
        (x * 2).backward(value)
    with pytest.raises(TypeError, match=f"gradients can be either Tensors or None.*{MAKE_IT_OURS}"):
        rg.autograd.grad(x * 2, x, value)


@pytest.mark.parametrize(("value", "kind"), [(np.ones(2), "ndarray"), (torch.ones(2), r"torch\.Tensor")])
def test_inputs_that_are_not_tensors_raise(value: Any, kind: str) -> None:
    x = rg.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=f"inputs have to be Tensors or GradientEdges, but got {kind}"):
        rg.autograd.grad(x.sum(), value)
    with pytest.raises(ValueError, match=rf"The first is a {kind}: convert it with"):
        rg.autograd.gradcheck(rg.exp, value)
    with fwAD.dual_level(), pytest.raises(TypeError, match=rf"must be a Tensor, not {kind}; {MAKE_IT_OURS}"):
        fwAD.make_dual(value, rg.ones(2))


@pytest.mark.parametrize("transform", [func.grad, func.jacrev, func.jacfwd, func.hessian])
def test_transforms_refuse_arguments_that_are_not_tensors(transform: Any) -> None:
    with pytest.raises((ValueError, RuntimeError), match=MAKE_IT_OURS):
        transform(lambda x: (x**2).sum())(torch.ones(2))
    with pytest.raises((ValueError, RuntimeError), match=r"or a list of them, np\.array\(\[1\.0, 2\.0\]\)"):
        transform(lambda x: (x[0] ** 2).sum())([1.0, 2.0])


def test_transform_of_a_function_returning_a_pair_suggests_has_aux() -> None:
    with pytest.raises(RuntimeError, match=r"tuple'>; with has_aux=True"):
        func.grad(lambda x: (x.sum(), 3))(rg.ones(2))


def test_error_about_writing_into_a_transformed_argument_suggests_clone() -> None:
    """The usual advice for a leaf, no_grad, would give a different gradient."""

    def in_place(x: Any) -> Any:
        x.mul_(2)
        return x.sum()

    def in_part(x: Any) -> Any:
        x[0] = 5.0
        return x.sum()

    for write in (in_place, in_part):
        with pytest.raises(
            RuntimeError, match=r"an argument of the function that is differentiated.*x = x\.clone"
        ) as info:
            func.grad(write)(rg.ones(3))
        assert "no_grad" not in str(info.value)
    assert func.grad(lambda x: in_part(x.clone()))(rg.ones(3)).tolist() == [0.0, 1.0, 1.0]


def test_custom_backward_that_returns_an_array_raises() -> None:
    class Doubled(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.numpy() * 2

    with pytest.raises(RuntimeError, match=rf"got ndarray\) from DoubledBackward; {MAKE_IT_OURS}"):
        Doubled.apply(rg.ones(2, requires_grad=True)).sum().backward()
