"""Functions with planted errors, for either library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def wrong_functions(lib: Any) -> Any:
    """Return functions whose derivatives are each wrong in one way, which is their name."""

    class Double(lib.autograd.Function):
        """Twice the input; the base of most of the others."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 2

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

    class Factor(Square):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.1

    class NoConj(Square):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    class Missing(Square):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 0

    class SecondOrder(Square):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x.detach() * 2

    class Stateful(Double):
        calls = 0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            Stateful.calls += 1
            return grad * (2 + 1e-7 * Stateful.calls)

    class WrongDtype(Double):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return (grad * 2).to(lib.float32)

    class WrongShape(Double):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return lib.cat([grad, grad])

    class IgnoresGrad(Double):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return lib.ones_like(grad) * 2

    class NonzeroForZeros(Double):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 + (grad.abs().sum() == 0) * 1.0

    class NonzeroForUndefined(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return lib.ones(2, dtype=lib.float64) if grad is None else grad * 2

    class RaisesForUndefined(NonzeroForUndefined):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if grad is None:
                raise RuntimeError("no gradient came")
            return grad * 2

    class OneUndefined(lib.autograd.Function):
        """Two outputs; wrong if only the second one receives a gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            if first is None:
                return None if second is None else second * 3 + (second.abs().sum() == 0) * 1.0
            return first * 2 if second is None else first * 2 + second * 3

    class Raises(Double):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ValueError("cannot")

    class WrongJvp(Double):
        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 3

    class NoJvp(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.set_materialize_grads(False)
            ctx.save_for_forward(x, y)
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            return (None, None) if grad is None else (grad * y, grad * x)

        @staticmethod
        def jvp(ctx: Any, tx: Any, ty: Any) -> Any:
            x, y = ctx.saved_tensors
            return (0 if tx is None else tx * y) + (0 if ty is None else x * ty)

    class WrongWithoutTangent(Product):
        @staticmethod
        def jvp(ctx: Any, tx: Any, ty: Any) -> Any:
            x, y = ctx.saved_tensors
            return x * 5 if tx is None or ty is None else tx * y + x * ty

    return SimpleNamespace(**{name: thing for name, thing in locals().items() if isinstance(thing, type)})
