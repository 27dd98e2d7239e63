"""Strides of results, which decide what can be viewed, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity import parity


@parity
def test_joined_tensors_are_contiguous(lib: Any) -> Any:
    x = lib.arange(6.0).reshape(2, 3).t()
    return [lib.cat([x, x]).view(-1), lib.stack([x, x], 1).view(-1), lib.hstack([x, x]).view(12)]


@parity
def test_conversions_of_expanded_tensors_can_be_viewed(lib: Any) -> Any:
    x = lib.arange(4).expand(3, 4)
    y = lib.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1).expand(5, 4, 2, 3)
    copies = [y.double(), y.clone(), y + 1, y * lib.ones(3, dtype=lib.float64)]
    return [x.float().view(-1), (x * 0.5).view(12), x.clone().view(12), [copy.stride() for copy in copies]]


@parity
def test_results_over_a_transposed_tensor_can_be_viewed(lib: Any) -> Any:
    x = lib.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    f = lib.nn.functional
    results = [x.sum(0), x.amax(1, keepdim=True), x.cumsum(0), x.softmax(-1), f.layer_norm(x, (3,)), x.roll(1, 0)]
    return [result.view(-1) for result in results]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1)], ids=str)
def test_indexed_elements_have_the_strides_of_torch(order: tuple[int, ...]) -> None:
    def program(lib: Any) -> Any:
        x = lib.arange(60.0).reshape([(3, 4, 5)[dim] for dim in order]).permute(order).requires_grad_()
        rows, columns = lib.tensor([0, 2, 2]), lib.tensor([[1], [0]])
        results = [x[:, rows], x[:, columns], x[..., rows], x[:, rows, columns], x[rows, :, columns], x[rows, columns]]
        results += [x[1, :, rows], x[:, x[0, :, 0] > 5], x[:, x[0] > 12], x[0, :, columns], x[None, rows], x[rows]]
        weights = [lib.arange(float(result.numel())).reshape(result.shape) for result in results]
        total = sum((result * weight).sum() for result, weight in zip(results, weights, strict=True))
        return [results, [result.stride() for result in results], lib.autograd.grad(total, x)]

    parity(program)()


@parity
def test_indexed_rows_of_a_matrix_can_be_viewed(lib: Any) -> Any:
    x = lib.arange(24.0).reshape(2, 3, 4)
    expanded = lib.arange(4.0).expand(2, 3, 4)
    return [x[:, [2, 0]].view(-1), x[..., [1, 3]].view(2, 6), x[:, x[0] > 3].view(-1), expanded[:, [0, 1]].view(16)]


@parity
def test_gradients_of_weights_can_be_viewed(lib: Any) -> Any:
    x = lib.arange(2 * 3 * 5 * 5.0).reshape(2, 3, 5, 5)
    weight = lib.linspace(0, 1, 4 * 3 * 3 * 3).reshape(4, 3, 3, 3).requires_grad_()
    (grad,) = lib.autograd.grad(lib.nn.functional.conv2d(x, weight).sum(), weight)
    return grad.view(-1)


@parity
def test_memory_format_of_a_clone(lib: Any) -> Any:
    x = lib.zeros(3, 4).t()
    formats = [lib.preserve_format, lib.contiguous_format]
    return [x.clone().stride(), *(x.clone(memory_format=each).stride() for each in formats), x.is_contiguous()]


@parity
def test_diff_of_order_zero_is_a_copy(lib: Any) -> Any:
    x = lib.arange(3.0)
    x.diff(n=0).zero_()
    return x
