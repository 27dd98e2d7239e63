"""How results lie in memory, where it decides what views they allow; compared with torch."""

from __future__ import annotations

from typing import Any

from tests.parity import parity


@parity
def test_joined_tensors_lie_row_by_row(lib: Any) -> Any:
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


@parity
def test_gradients_of_weights_can_be_viewed(lib: Any) -> Any:
    x = lib.arange(2 * 3 * 5 * 5.0).reshape(2, 3, 5, 5)
    weight = lib.linspace(0, 1, 4 * 3 * 3 * 3).reshape(4, 3, 3, 3).requires_grad_()
    (grad,) = lib.autograd.grad(lib.nn.functional.conv2d(x, weight).sum(), weight)
    return grad.view(-1)


@parity
def test_memory_format_of_a_copy(lib: Any) -> Any:
    x = lib.zeros(3, 4).t()
    formats = [lib.preserve_format, lib.contiguous_format]
    return [x.clone().stride(), *(x.clone(memory_format=each).stride() for each in formats), x.is_contiguous()]


@parity
def test_no_difference_is_a_copy(lib: Any) -> Any:
    x = lib.arange(3.0)
    x.diff(n=0).zero_()
    return x
