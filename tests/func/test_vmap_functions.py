"""Custom Functions with their own vmap rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, message, parity

A = np.random.default_rng(1).normal(size=(5, 3))


def test_custom_vmap_rule_gets_batches_and_in_dims() -> None:
    seen: list[Any] = []

    class Scale(rg.autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
            seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
            return (x * y).movedim(0, 1), 1

    made = rg.vmap(Scale.apply, in_dims=(1, None))(rg.tensor(A), rg.tensor(2.0))
    assert seen == [(3, "error", (0, None), (3, 5))]
    np.testing.assert_allclose(made.numpy(), 2 * A.T)


@parity
def test_function_with_both_vmap_and_generate_vmap_rule_is_refused(lib: Any) -> Any:
    class Both(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return x * 2, in_dims[0]

    return ["two rules", attempt(lambda: lib.vmap(Both.apply)(lib.ones(3, 2))), Both.apply(lib.ones(2))]


def test_custom_vmap_rule_when_only_tangents_are_batched() -> None:
    """All columns of the Jacobian share the argument, so its gradient is the sum over them."""

    class Square(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * t

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Square.apply(x), in_dims[0]

    x = rg.tensor(A[0])
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 2
    for jacobian in (rg.func.jacrev(rg.func.jacfwd(Square.apply)), rg.func.jacfwd(rg.func.jacrev(Square.apply))):
        np.testing.assert_allclose(jacobian(x).numpy(), expected)
    np.testing.assert_allclose(rg.vmap(Square.apply)(rg.tensor(A)).numpy(), A**2)


@parity
def test_custom_vmap_rule_with_nested_arguments(lib: Any) -> Any:
    seen: list[Any] = []

    class Nested(lib.autograd.Function):
        @staticmethod
        def forward(x: Any, pair: Any) -> Any:
            return x + pair[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, pair: Any) -> Any:
            seen.append([repr(in_dims), x.shape, pair[0].shape, pair[1]])
            return (x + pair[0], [pair[0] * 2]), (0, [0])

    batch, one = lib.tensor(A), lib.tensor(A[0])
    return [
        lib.vmap(lambda x, y: Nested.apply(x, [y, None]))(batch, batch),
        lib.vmap(lambda y: Nested.apply(one, [y, 3]))(batch),
        seen,
    ]


RETURNED: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda x: x,
    "four": lambda x: (x, x, 0, 0),
    "a list": lambda x: [x, 0],
    "too many dims": lambda x: (x, (0, 0)),
}


@pytest.mark.parametrize("name", RETURNED)
def test_wrong_results_of_a_custom_vmap_rule_are_refused(name: str) -> None:
    def program(lib: Any) -> Any:
        class Wrong(lib.autograd.Function):
            @staticmethod
            def forward(x: Any) -> Any:
                return x * 2

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any) -> Any:
                return RETURNED[name](x)

        error = message(lambda: lib.vmap(Wrong.apply)(lib.tensor(A)))
        assert lib is not rg or "Wrong.vmap returned" in error
        return attempt(lambda: lib.vmap(Wrong.apply)(lib.tensor(A)))

    parity(program)()


MISFITS: dict[str, tuple[Callable[[Any], Any], type[Exception], list[str]]] = {
    "too few samples": (lambda x: (x[:2], 0), RuntimeError, ["[2, 3]", "out_dim 0", "5 samples"]),
    "another dimension": (lambda x: (x, 1), RuntimeError, ["[5, 3]", "out_dim 1", "5 samples"]),
    "no such dimension": (lambda x: (x, 2), IndexError, ["[5, 3]", "out_dim 2"]),
    "no dimension": (lambda x: (x, "rows"), ValueError, ["'rows'", "int"]),
    "no tensor": (lambda x: ((x, 3), 0), ValueError, ["int", "out_dim 0", "None"]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_wrong_out_dims_of_a_custom_vmap_rule_are_refused(name: str) -> None:
    function, error, words = MISFITS[name]

    class Wrong(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return function(x)

    with pytest.raises(error) as raised:
        rg.vmap(Wrong.apply)(rg.tensor(A))
    assert [word for word in ["Wrong.vmap", *words] if word not in str(raised.value)] == []
