"""Checking derivatives against finite differences, as ``torch.autograd.gradcheck`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.autograd._gradcheck_deprecated import get_analytical_jacobian, get_numerical_jacobian

__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by :func:`gradcheck` and :func:`gradgradcheck` when derivatives are wrong."""


def gradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    check_sparse_nnz: bool = False,
) -> bool:
    """Check derivatives against central finite differences.

    For every differentiable input and output, the Jacobian that autograd computes is compared with
    ``(func(x + eps) - func(x - eps)) / (2 * eps)``. Complex inputs are moved along both axes; the real and the
    imaginary part of complex outputs are checked one after the other. Then backward must do the same when it runs
    again, give zeros for zeros, and accept undefined gradients.

    Parameters
    ----------
    func
        A function of ``inputs`` that returns a Tensor or a tuple of Tensors. Outputs that do not require grad, such as
        indices, are left out, unless there are no others: then the function must be constant.
    inputs
        Its arguments. The Tensors among them that require grad are checked; they should be float64 or complex128. They
        are moved in place (and put back), so ``func`` may also use them without looking at its arguments.
    eps
        The step of the differences.
    atol, rtol
        An entry of the Jacobian may differ by ``atol + rtol * abs(numerical)``.
    raise_exception
        Raise :exc:`GradcheckError` rather than return False. Exceptions of ``func`` itself are raised anyway.
    nondet_tol
        By how much the gradients of two backward passes over the same graph may differ.
    check_undefined_grad
        Check that gradients that do not arrive (and tangents that are not there) count as zeros.
    check_grad_dtypes
        Check that gradients have the dtype of their inputs.
    check_batched_grad
        Check that ``autograd.grad`` with ``is_grads_batched=True`` gives the gradients that one gets one by one.
    check_batched_forward_grad
        Check that :func:`retrograd.vmap` over forward mode gives the tangents that one gets one by one.
    check_forward_ad
        Check forward mode, too.
    check_backward_ad
        Check backward; only forward mode if False.
    fast_mode
        Compare one random projection ``v · J u`` of each Jacobian ``J``: two evaluations for every input and two
        backward passes for every output, whatever their size. It can miss an error in few entries of a large Jacobian.
        When it finds one, the whole Jacobian is computed to show where.
    masked, check_sparse_nnz
        Accepted for torch's sake. They concern sparse tensors, of which retrograd has none.

    Returns
    -------
    bool
        True if everything agrees.

    Raises
    ------
    GradcheckError
        If something does not agree. The message names output and input by their positions, shows both Jacobians (rows
        are elements of the input, columns elements of the output), the entry that differs most, and what that looks
        like: a factor, a missing conjugate, a kink, a function that is not deterministic.
    ValueError
        If no input requires grad.
    RuntimeError
        If elements of an input share memory, as in the result of ``expand``, or if an input cannot be written to.

    Warns
    -----
    UserWarning
        If an input that requires grad is not in double precision.

    Examples
    --------
    >>> x = rg.tensor([0.5, 1.5], dtype=rg.float64, requires_grad=True)
    >>> rg.autograd.gradcheck(lambda x: x.sin() * x, x)
    True

    A function of which a part escapes differentiation:

    >>> rg.autograd.gradcheck(lambda x: x.sin() * x.detach(), x)
    Traceback (most recent call last):
    retrograd.autograd.gradcheck.GradcheckError: Jacobian mismatch for output 0 with respect to input 0,
    numerical:tensor([[0.9182, 0.0000],
            [0.0000, 1.1036]], dtype=retrograd.float64)
    analytical:tensor([[0.4388, 0.0000],
            [0.0000, 0.1061]], dtype=retrograd.float64)
    <BLANKLINE>
    Largest difference: 0.997495 at [1, 1], d output 0[1] / d input 0[1]: numerical 1.1036, analytical 0.106106.
    2 of 4 entries differ by more than is allowed (0.00111 there, with atol=1e-05 and rtol=0.001).
    """
    # imported here because most programs never check gradients
    from retrograd.autograd._gradcheck_point import as_tuple, point_of
    from retrograd.autograd._gradcheck_properties import check_inputs
    from retrograd.autograd._gradcheck_report import Tolerance
    from retrograd.autograd._gradcheck_run import failures

    if not check_backward_ad:
        if not check_forward_ad:
            raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
        if check_batched_grad:
            raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    arguments = as_tuple(inputs)
    check_inputs(arguments)
    return _verdict(
        failures(
            point_of(func, arguments, eps),
            Tolerance(atol, rtol, nondet_tol),
            undefined=check_undefined_grad,
            dtypes=check_grad_dtypes,
            batched=check_batched_grad,
            batched_forward=check_batched_forward_grad,
            forward=check_forward_ad,
            backward=check_backward_ad,
            fast_mode=fast_mode,
        ),
        raise_exception,
    )


def gradgradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: that the gradients of ``func`` have the right gradients.

    The gradient of ``func``, as a function of its inputs and of the gradients of its outputs, is given to
    :func:`gradcheck`.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes
        As for :func:`gradcheck`.
    grad_outputs
        The gradients of the differentiable outputs; random by default, the same in every run.
    gen_non_contig_grad_outputs
        Make the random ones non-contiguous.
    check_batched_grad, fast_mode, masked
        As for :func:`gradcheck`.
    check_fwd_over_rev
        Check the tangents of the gradients, too (forward mode over backward).
    check_rev_over_rev
        Check the gradients of the gradients; only their tangents if False.

    Returns
    -------
    bool
        True if everything agrees.

    Raises
    ------
    GradcheckError
        If something does not agree. The message says which gradient, and with respect to what.
    ValueError
        If no input requires grad, or no output.

    Examples
    --------
    >>> x = rg.tensor([0.5, 1.5], dtype=rg.float64, requires_grad=True)
    >>> rg.autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    from retrograd.autograd._gradcheck_point import as_tuple, point_of
    from retrograd.autograd._gradcheck_properties import check_inputs
    from retrograd.autograd._gradcheck_report import Tolerance
    from retrograd.autograd._gradcheck_run import failures, gradient_of, random_gradients

    if not check_rev_over_rev:
        if not check_fwd_over_rev:
            raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
        for name, value in (
            ("check_undefined_grad", check_undefined_grad),
            ("check_batched_grad", check_batched_grad),
        ):
            if value:
                raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")
    arguments = as_tuple(inputs)
    outputs = [y for y in as_tuple(func(*arguments)) if isinstance(y, Tensor) and y.requires_grad]
    if grad_outputs is None:
        vectors: tuple[Any, ...] = random_gradients(outputs, contiguous=not gen_non_contig_grad_outputs)
    else:
        vectors = as_tuple(grad_outputs)
    everything = (*arguments, *vectors)
    check_inputs(everything)
    if not outputs:
        raise ValueError(
            "gradgradcheck expects at least one output of func to require grad, but none of them does: there is no "
            "gradient to check."
        )
    gradient, note = gradient_of(func, arguments)
    return _verdict(
        failures(
            point_of(gradient, everything, eps, note),
            Tolerance(atol, rtol, nondet_tol),
            undefined=check_undefined_grad,
            dtypes=check_grad_dtypes,
            batched=check_batched_grad,
            forward=check_fwd_over_rev,
            backward=check_rev_over_rev,
            fast_mode=fast_mode,
        ),
        raise_exception,
    )


def _verdict(found: Iterator[str], raise_exception: bool) -> bool:
    failure = next(found, None)
    if failure is not None and raise_exception:
        raise GradcheckError(failure)
    return failure is None


def __getattr__(name: str) -> Any:
    """The deprecated functions, imported on first use."""
    if name in __all__:
        from retrograd.autograd import _gradcheck_deprecated

        return getattr(_gradcheck_deprecated, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
