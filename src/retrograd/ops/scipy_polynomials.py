"""Orthogonal polynomials, by SciPy's names and by torch's; derivatives by the argument, DLMF 18.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._rules import conj, everywhere
from retrograd.ops._scipy import hidden_ufunc, sc
from retrograd.ops.conditional import where

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand


def polynomial(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A ufunc of a degree, real parameters and, last, an argument that may be complex.

    For integer degrees SciPy runs a recurrence, which is more accurate than its formula for real degrees. It takes them
    as C's long, into which 64 bits do not fit on Windows.
    """

    def compute(*operands: Any) -> Any:
        degree, *parameters, argument = operands
        if argument.dtype.kind != "c" and np.all(degree == np.floor(degree)):
            degree = degree.astype(np.long)
        result = getattr(sc, name)(np.real(degree), *map(np.real, parameters), argument)
        return result.astype(argument.dtype)

    return hidden_ufunc(name, compute=compute, **options)


@polynomial(
    "eval_jacobi",
    input=lambda g, n, alpha, beta, input: (
        g * conj((n + alpha + beta + 1) / 2 * sc.eval_jacobi(n - 1, alpha + 1, beta + 1, input))
    ),
)
def eval_jacobi(n, alpha, beta, input):
    """The Jacobi polynomials."""


@polynomial(
    "eval_sh_jacobi",
    input=lambda g, n, p, q, input: g * conj(n * sc.eval_sh_jacobi(np.maximum(n - 1, 0), p + 2, q + 1, input)),
)
def eval_sh_jacobi(n, p, q, input):
    """The shifted Jacobi polynomials."""


@polynomial(
    "eval_gegenbauer",
    input=lambda g, n, alpha, input: g * conj(2 * alpha * sc.eval_gegenbauer(n - 1, alpha + 1, input)),
)
def eval_gegenbauer(n, alpha, input):
    """The Gegenbauer polynomials."""


@polynomial("eval_legendre", input=lambda g, n, input: g * conj((n + 1) / 2 * sc.eval_jacobi(n - 1, 1.0, 1.0, input)))
def eval_legendre(n, input):
    """The Legendre polynomials."""


@polynomial(
    "eval_sh_legendre", input=lambda g, n, input: g * conj((n + 1) * sc.eval_jacobi(n - 1, 1.0, 1.0, 2 * input - 1))
)
def eval_sh_legendre(n, input):
    """The shifted Legendre polynomials."""


@polynomial("eval_chebyt", input=lambda g, n, input: g * conj(n * sc.eval_chebyu(n - 1, input)))
def eval_chebyt(n, input):
    """The Chebyshev polynomials of the first kind."""


@polynomial("eval_chebyu", input=lambda g, n, input: g * conj(2 * sc.eval_gegenbauer(n - 1, 2.0, input)))
def eval_chebyu(n, input):
    """The Chebyshev polynomials of the second kind."""


@polynomial("eval_chebyc", input=lambda g, n, input: g * conj(n * sc.eval_chebys(n - 1, input)))
def eval_chebyc(n, input):
    """The Chebyshev polynomials of the first kind on [-2, 2]."""


@polynomial("eval_chebys", input=lambda g, n, input: g * conj(sc.eval_gegenbauer(n - 1, 2.0, input / 2)))
def eval_chebys(n, input):
    """The Chebyshev polynomials of the second kind on [-2, 2]."""


@polynomial("eval_sh_chebyt", input=lambda g, n, input: g * conj(2 * n * sc.eval_sh_chebyu(n - 1, input)))
def eval_sh_chebyt(n, input):
    """The shifted Chebyshev polynomials of the first kind."""


@polynomial("eval_sh_chebyu", input=lambda g, n, input: g * conj(4 * sc.eval_gegenbauer(n - 1, 2.0, 2 * input - 1)))
def eval_sh_chebyu(n, input):
    """The shifted Chebyshev polynomials of the second kind."""


@polynomial("eval_laguerre", input=lambda g, n, input: g * conj(-sc.eval_genlaguerre(n - 1, 1.0, input)))
def eval_laguerre(n, input):
    """The Laguerre polynomials."""


@polynomial(
    "eval_genlaguerre", input=lambda g, n, alpha, input: g * conj(-sc.eval_genlaguerre(n - 1, alpha + 1, input))
)
def eval_genlaguerre(n, alpha, input):
    """The generalised Laguerre polynomials."""


def _lower(n: Any) -> Any:
    """The degree of the derivative of a Hermite polynomial; SciPy wants integers."""
    return np.maximum(n - 1, 0).astype(np.long)


@polynomial("eval_hermite", input=lambda g, n, input: g * (2 * n * sc.eval_hermite(_lower(n), input)))
def eval_hermite(n, input):
    """The physicists' Hermite polynomials."""


@polynomial("eval_hermitenorm", input=lambda g, n, input: g * (n * sc.eval_hermitenorm(_lower(n), input)))
def eval_hermitenorm(n, input):
    """The probabilists' Hermite polynomials."""


# --- torch.special's names --------------------------------------------------------------------------------------------


def _torch_name(name: str, what: str, evaluate: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The polynomial under torch's name; the degree, a number or a tensor, comes last.

    As in torch, only the whole part of a degree counts, and a polynomial of negative degree is zero.
    """

    def function(input: Operand, n: Operand) -> Tensor:
        degree: Any = n.detach() if isinstance(n, Tensor) else wrap(np.asarray(n))
        if degree.dtype.kind == "f":
            degree = np.trunc(degree)
        if everywhere(degree >= 0):
            return evaluate(degree, input)
        return where(degree < 0, 0.0, evaluate(np.maximum(degree, 0), input))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {what} of degree ``n`` at ``input``."
    return composite(name=f"special.{name}", method=False, out=True)(function)


def _chebyv(n: Any, x: Any) -> Any:
    return eval_chebyu(n, x) - eval_chebyu(n - 1, x)


def _chebyw(n: Any, x: Any) -> Any:
    return eval_chebyu(n, x) + eval_chebyu(n - 1, x)


chebyshev_polynomial_t = _torch_name("chebyshev_polynomial_t", "Chebyshev polynomial of the first kind", eval_chebyt)
chebyshev_polynomial_u = _torch_name("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind", eval_chebyu)
chebyshev_polynomial_v = _torch_name("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind", _chebyv)
chebyshev_polynomial_w = _torch_name("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind", _chebyw)
shifted_chebyshev_polynomial_t = _torch_name(
    "shifted_chebyshev_polynomial_t", "first Chebyshev polynomial of ``2 * input - 1``", eval_sh_chebyt
)
shifted_chebyshev_polynomial_u = _torch_name(
    "shifted_chebyshev_polynomial_u", "second Chebyshev polynomial of ``2 * input - 1``", eval_sh_chebyu
)
shifted_chebyshev_polynomial_v = _torch_name(
    "shifted_chebyshev_polynomial_v",
    "third Chebyshev polynomial of ``2 * input - 1``",
    lambda n, x: _chebyv(n, 2 * x - 1),
)
shifted_chebyshev_polynomial_w = _torch_name(
    "shifted_chebyshev_polynomial_w",
    "fourth Chebyshev polynomial of ``2 * input - 1``",
    lambda n, x: _chebyw(n, 2 * x - 1),
)
hermite_polynomial_h = _torch_name("hermite_polynomial_h", "physicists' Hermite polynomial", eval_hermite)
hermite_polynomial_he = _torch_name("hermite_polynomial_he", "probabilists' Hermite polynomial", eval_hermitenorm)
laguerre_polynomial_l = _torch_name("laguerre_polynomial_l", "Laguerre polynomial", eval_laguerre)
legendre_polynomial_p = _torch_name("legendre_polynomial_p", "Legendre polynomial", eval_legendre)
