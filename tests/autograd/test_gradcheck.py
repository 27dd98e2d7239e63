"""gradcheck and gradgradcheck: the same verdicts, exceptions and opening words as torch's."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.autograd.wrong_functions import wrong_functions
from tests.parity import message, parity

Case = Callable[[Any, Any], Any]

x64 = [0.7, -1.3]
y64 = [2.0, 0.4]
z128 = [1 + 2j, 3 - 1j]


def real(lib: Any, values: Any = x64) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def cplx(lib: Any, values: Any = z128) -> Any:
    return lib.tensor(values, dtype=lib.complex128, requires_grad=True)


def verdict(case: Case, lib: Any, **options: Any) -> tuple[str, str, list[str]]:
    """Return a check's answer or exception class, the opening words of its message, and its warnings."""
    sentence = ""
    lib.manual_seed(0)  # in float32, the first mismatch that fast mode finds depends on its random vectors
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = str(case(lib, options))
        except Exception as error:
            answer, sentence = type(error).__name__, leading(str(error))
    return answer, sentence, [str(w.message).strip() for w in caught if "Input #" in str(w.message)]


def leading(text: str) -> str:
    """Return the opening words of a message, which both libraries share."""
    return re.split(r"[.,:\n(]", text)[0].strip()


def check(function: Callable[[Any, Any], Any], *inputs: Callable[[Any], Any], **fixed: Any) -> Case:
    """Return a gradcheck of ``function(lib, wrong_functions)``."""

    def case(lib: Any, options: dict[str, Any]) -> Any:
        made = function(lib, wrong_functions(lib))
        return lib.autograd.gradcheck(made, [make(lib) for make in inputs], **fixed, **options)

    return case


def check2(function: Callable[[Any, Any], Any], *inputs: Callable[[Any], Any], **fixed: Any) -> Case:
    """Return a gradgradcheck of ``function(lib, wrong_functions)``."""

    def case(lib: Any, options: dict[str, Any]) -> Any:
        made = function(lib, wrong_functions(lib))
        return lib.autograd.gradgradcheck(made, [make(lib) for make in inputs], **fixed, **options)

    return case


def y(lib: Any) -> Any:
    return real(lib, y64)


RIGHT: dict[str, Case] = {
    "one input": check(lambda lib, f: lambda x: x.sin() * x, real),
    "two inputs, two outputs": check(lambda lib, f: lambda x, y: (x * y, x.sum()), real, y),
    "a list of outputs": check(lambda lib, f: lambda x: [x * 2, x.exp()], real),
    "an unused input": check(lambda lib, f: lambda x, y: x * 2, real, y),
    "a constant": check(lambda lib, f: lambda x: lib.ones(2, dtype=lib.float64), real),
    "a constant beside others": check(lambda lib, f: lambda x: (x * 2, lib.ones(2)), real),
    "integer outputs beside others": check(lambda lib, f: lambda x: (x * 2, (x * 2).to(lib.int64)), real),
    "inputs that are no tensors": check(lambda lib, f: lambda x, n, s: x * n, real, lambda lib: 3, lambda lib: None),
    "an input without gradient": check(lambda lib, f: lambda x, y: x * y, real, lambda lib: y(lib).detach()),
    "writing to a clone": check(lambda lib, f: lambda x: x.clone().mul_(x), real),
    "the input itself": check(lambda lib, f: lambda x: x, real),
    "a view of the input": check(lambda lib, f: lambda x: x.reshape(2, 1), real),
    "the same input twice": check(lambda lib, f: lambda x: x * x, lambda lib: real(lib) * 2),
    "empty": check(lambda lib, f: lambda x: x * 2, lambda lib: lib.ones((0, 3), dtype=lib.float64, requires_grad=True)),
    "zero dimensions": check(lambda lib, f: lambda x: x.exp(), lambda lib: real(lib, 0.3)),
    "an intermediate result": check(lambda lib, f: lambda x: x * x, lambda lib: real(lib) * 2),
    "strides": check(lambda lib, f: lambda x: x * x, lambda lib: real(lib, [[1.0, 2.0], [3.0, 4.0]]).t()),
    "a step and tolerances": check(
        lambda lib, f: lambda x: x * x, lambda lib: lib.ones(2, requires_grad=True), eps=1e-2, atol=1e-2, rtol=1e-2
    ),
    "a kink that differences do not see": check(lambda lib, f: lambda x: x.abs(), lambda lib: real(lib, [0.0, 1.0])),
    "holomorphic": check(lambda lib, f: lambda z: z * z, cplx),
    "complex to real": check(lambda lib, f: lambda z: z.abs(), cplx),
    "real to complex": check(lambda lib, f: lambda x: x * (1 + 1j), real),
    "not holomorphic": check(lambda lib, f: lambda z: (z.conj() * z, z.real, z * z.conj().exp()), cplx),
    "mixed": check(lambda lib, f: lambda x, z: (x * 2, z * x, z.abs() * x), real, cplx),
    "forward": check(lambda lib, f: lambda x, y: (x * y.exp(), y.sum()), real, y, check_forward_ad=True),
    "forward only": check(lambda lib, f: f.Double.apply, real, check_forward_ad=True, check_backward_ad=False),
    "forward, complex": check(
        lambda lib, f: lambda z, x: (z * z.conj() * x, z.abs()), cplx, real, check_forward_ad=True
    ),
    "forward with missing tangents": check(lambda lib, f: f.Product.apply, real, y, check_forward_ad=True),
    "batched": check(lambda lib, f: lambda x: (x * x, x.sum()), real, check_batched_grad=True),
    "batched, forward": check(
        lambda lib, f: lambda x, y: (x * y.exp(), y.sum()),
        real,
        y,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    ),
    "masked": check(lambda lib, f: lambda x: x * x, real, masked=True),
    "dtypes": check(lambda lib, f: f.WrongDtype.apply, real, check_grad_dtypes=True),
    "noise that is allowed": check(lambda lib, f: f.Stateful.apply, real, nondet_tol=1e-3),
    "undefined gradients unchecked": check(
        lambda lib, f: f.NonzeroForUndefined.apply, real, check_undefined_grad=False
    ),
    "wrong in second order only": check(lambda lib, f: f.SecondOrder.apply, real),
    "second order": check2(lambda lib, f: lambda x, y: (x**3 * y, x.sin()), real, y),
    "second order of something linear": check2(lambda lib, f: lambda x: x * 2, real),
    "second order of something unused": check2(lambda lib, f: lambda x, y: x.sin(), real, y),
    "second order, integer outputs": check2(lambda lib, f: lambda x: (x.exp(), (x * 2).to(lib.int64)), real),
    "second order, given gradients": check2(lambda lib, f: lambda x: x**3, real, grad_outputs=None),
    "second order, non-contiguous": check2(
        lambda lib, f: lambda x: x**3, lambda lib: real(lib, [[1.0, 2.0]]), gen_non_contig_grad_outputs=True
    ),
    "second order, complex": check2(lambda lib, f: lambda z: z * z * z.conj(), cplx),
    "wrong in first order only": check2(lambda lib, f: f.NoConj.apply, cplx),
    "second order, forward over reverse": check2(lambda lib, f: lambda x: x**3, real, check_fwd_over_rev=True),
    "second order, only forward over reverse": check2(
        lambda lib, f: lambda x: x**3,
        real,
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
        check_undefined_grad=False,
    ),
    "second order, batched": check2(lambda lib, f: lambda x: x**3, real, check_batched_grad=True),
}

WRONG: dict[str, Case] = {
    "factor": check(lambda lib, f: f.Factor.apply, real),
    "factor in one of many": check(lambda lib, f: lambda x, y: (x * y, y + f.Factor.apply(y)), real, y),
    "missing": check(lambda lib, f: lambda x: f.Missing.apply(x), real),
    "state in backward": check(lambda lib, f: f.Stateful.apply, real),
    "state, too much for the tolerance": check(lambda lib, f: f.Stateful.apply, real, nondet_tol=1e-9),
    "shape": check(lambda lib, f: f.WrongShape.apply, real),
    "grad_output ignored": check(lambda lib, f: f.IgnoresGrad.apply, real),
    "not zero for zeros": check(lambda lib, f: f.NonzeroForZeros.apply, real),
    "not zero for undefined": check(lambda lib, f: f.NonzeroForUndefined.apply, real),
    "raises for undefined": check(lambda lib, f: f.RaisesForUndefined.apply, real),
    "not zero for one undefined": check(lambda lib, f: f.OneUndefined.apply, real),
    "raises": check(lambda lib, f: f.Raises.apply, real),
    "detached": check(lambda lib, f: lambda x: x.detach() * 2, real),
    "detached, forward": check(lambda lib, f: lambda x: x.detach() * 2, real, check_forward_ad=True),
    "kink": check(lambda lib, f: lambda x: x.relu(), lambda lib: real(lib, [0.0, 1.0])),
    "not finite": check(lambda lib, f: lambda x: (x - 5).log(), real),
    "float32": check(lambda lib, f: lambda x: x * x, lambda lib: lib.ones(2, requires_grad=True)),
    "complex64": check(
        lambda lib, f: lambda z: z * z, lambda lib: cplx(lib).detach().to(lib.complex64).requires_grad_()
    ),
    "no conj": check(lambda lib, f: f.NoConj.apply, cplx),
    "imaginary part": check(lambda lib, f: lambda z: lib.complex(z.real * 2, f.Factor.apply(z.imag)), cplx),
    "real to complex": check(lambda lib, f: lambda x: f.Factor.apply(x) * (1 + 1j), real),
    "jvp": check(lambda lib, f: f.WrongJvp.apply, real, check_forward_ad=True),
    "only jvp": check(lambda lib, f: f.WrongJvp.apply, real, check_forward_ad=True, check_backward_ad=False),
    "jvp, complex": check(lambda lib, f: f.WrongJvp.apply, cplx, check_forward_ad=True),
    "no jvp": check(lambda lib, f: f.NoJvp.apply, real, check_forward_ad=True),
    "batched, and wrong": check(lambda lib, f: f.Factor.apply, real, check_batched_grad=True),
    "stride 0": check(lambda lib, f: lambda x: x * 2, lambda lib: real(lib, [1.0]).expand(3)),
    "no gradient": check(lambda lib, f: lambda x: x * 2, lambda lib: real(lib).detach()),
    "in place on a leaf": check(lambda lib, f: lambda x: x.mul_(2), real),
    "nothing to check": check(lambda lib, f: lambda x: x * 2, real, check_backward_ad=False),
    "batched without backward": check(
        lambda lib, f: lambda x: x * 2, real, check_backward_ad=False, check_forward_ad=True, check_batched_grad=True
    ),
    "batched forward without forward": check(lambda lib, f: lambda x: x, real, check_batched_forward_grad=True),
    "second order": check2(lambda lib, f: f.SecondOrder.apply, real),
    "second order, complex": check2(lambda lib, f: f.SecondOrder.apply, cplx),
    "second order, float32": check2(lambda lib, f: lambda x: x**3, lambda lib: lib.ones(2, requires_grad=True)),
    "second order, nothing to check": check2(lambda lib, f: lambda x: x**3, real, check_rev_over_rev=False),
    "second order, undefined without backward": check2(
        lambda lib, f: lambda x: x**3, real, check_rev_over_rev=False, check_fwd_over_rev=True
    ),
    "second order, batched without backward": check2(
        lambda lib, f: lambda x: x**3,
        real,
        check_rev_over_rev=False,
        check_fwd_over_rev=True,
        check_undefined_grad=False,
        check_batched_grad=True,
    ),
    "second order, no gradient": check2(lambda lib, f: lambda x: x**3, lambda lib: real(lib).detach()),
    "second order, no jvp": check2(lambda lib, f: f.NoJvp.apply, real, check_fwd_over_rev=True),
}


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_correct_derivatives_pass(name: str, fast_mode: bool) -> None:
    expected = verdict(RIGHT[name], torch, fast_mode=fast_mode)
    assert expected[0] == "True"
    assert verdict(RIGHT[name], rg, fast_mode=fast_mode) == expected


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_derivatives_raise_as_in_torch(name: str, fast_mode: bool) -> None:
    expected = verdict(WRONG[name], torch, fast_mode=fast_mode)
    assert expected[0] not in ("True", "False")
    assert verdict(WRONG[name], rg, fast_mode=fast_mode) == expected


@pytest.mark.parametrize("name", WRONG)
def test_raise_exception_false(name: str) -> None:
    """GradcheckError becomes False; other errors are still raised."""
    expected = verdict(WRONG[name], torch, raise_exception=False)
    assert verdict(WRONG[name], rg, raise_exception=False) == expected


def test_jvp_that_is_wrong_when_a_tangent_is_missing() -> None:
    """torch's message is the text of a tuple."""
    case = check(lambda lib, f: f.WrongWithoutTangent.apply, real, y, check_forward_ad=True)
    assert verdict(case, torch)[0] == verdict(case, rg)[0] == "GradcheckError"
    assert verdict(case, rg)[1] == "Mismatch in tangent values for output with index"


@parity
def test_gradcheck_signatures(lib: Any) -> Any:
    """Names, kinds and defaults are torch's; check_sparse_nnz is accepted for older programs."""
    report = []
    for function in (lib.autograd.gradcheck, lib.autograd.gradgradcheck):
        parameters = inspect.signature(function).parameters.values()
        report.append(
            [
                (p.name, str(p.kind), p.default if p.default is not inspect.Parameter.empty else "required")
                for p in parameters
                if p.name != "check_sparse_nnz"
            ]
        )
    return report


def test_check_sparse_nnz_is_accepted() -> None:
    assert rg.autograd.gradcheck(lambda x: x * x, real(rg), check_sparse_nnz=True)


@parity
def test_gradcheck_is_both_a_function_and_a_module(lib: Any) -> Any:
    module = sys.modules[f"{lib.__name__}.autograd.gradcheck"]
    names = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "gradcheck", "gradgradcheck"]
    return [
        callable(lib.autograd.gradcheck),
        lib.autograd.gradcheck is module.gradcheck,
        lib.autograd.gradgradcheck is module.gradgradcheck,
        issubclass(module.GradcheckError, RuntimeError),
        [hasattr(module, name) for name in names],
    ]


def jacobian_reports(lib: Any) -> Any:
    """Call the deprecated functions with real and complex inputs, several outputs, and targets."""
    module = sys.modules[f"{lib.__name__}.autograd.gradcheck"]
    numerical, analytical = module.get_numerical_jacobian, module.get_analytical_jacobian
    a, b, z = real(lib), y(lib), cplx(lib)
    return [
        numerical(lambda i: (i[0] * i[1], i[0].sum()), (a, b)),
        numerical(lambda i: (i[0] * i[1], i[0].sum()), (a, b), b, eps=1e-6),
        numerical(lambda i: (i[0] * i[0]).real, (z,)),
        numerical(lambda i: i[0] * 2, a),
        analytical((a, b), a * b.exp()),
        analytical((a, b), a * 2),
        analytical((a, b.detach()), a * 2),
        analytical((z,), (z * z).real),
    ]


@parity
def test_deprecated_jacobian_functions(lib: Any) -> Any:
    return jacobian_reports(lib)


@parity
def test_deprecated_jacobian_functions_refuse_complex_outputs_and_grad_out(lib: Any) -> Any:
    module = sys.modules[f"{lib.__name__}.autograd.gradcheck"]
    a, z = real(lib), cplx(lib)
    report = []
    for call in (
        lambda: module.get_numerical_jacobian(lambda i: i[0], (a,), grad_out=2.0),
        lambda: module.get_numerical_jacobian(lambda i: i[0] * 2, (z,)),
        lambda: module.get_analytical_jacobian((a,), a * 2, grad_out=2.0),
        lambda: module.get_analytical_jacobian((z,), z * 2),
    ):
        with pytest.raises(ValueError) as error:
            call()
        report.append(str(error.value))
    return report


def test_jacobian_functions_warn_of_their_deprecation() -> None:
    module = sys.modules["retrograd.autograd.gradcheck"]
    with pytest.warns(FutureWarning, match="get_numerical_jacobian"):
        module.get_numerical_jacobian(lambda i: i[0], (real(rg),))
    with pytest.warns(FutureWarning, match="get_analytical_jacobian"):
        module.get_analytical_jacobian((real(rg),), real(rg) * 2)


def test_analytical_jacobian_notices_a_nondeterministic_backward() -> None:
    module = sys.modules["retrograd.autograd.gradcheck"]
    a = real(rg)
    with pytest.warns(FutureWarning):
        assert not module.get_analytical_jacobian((a,), wrong_functions(rg).Stateful.apply(a))[1]
    with pytest.warns(FutureWarning):
        assert module.get_analytical_jacobian((a,), wrong_functions(rg).Stateful.apply(a), nondet_tol=1e-3)[1]


# --- inputs and outputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_leaves_inputs_unchanged(fast_mode: bool) -> None:
    a, z = real(rg), cplx(rg)
    before = a.tolist(), z.tolist()
    assert rg.autograd.gradcheck(lambda a, z: (a * z, z.abs()), (a, z), fast_mode=fast_mode)
    assert (a.tolist(), z.tolist()) == before
    assert a.grad is None and z.grad is None
    assert a._version == z._version == 0


def test_gradcheck_restores_inputs_after_an_exception() -> None:
    a = real(rg)
    before = a.tolist()

    def fails_when_moved(x: rg.Tensor) -> rg.Tensor:
        if x.tolist() != before:
            raise KeyError("moved")
        return x * 2

    with pytest.raises(KeyError):
        rg.autograd.gradcheck(fails_when_moved, a)
    assert a.tolist() == before


def test_gradcheck_of_a_closure_over_its_inputs() -> None:
    """As when the inputs are a module's parameters."""
    a, b = real(rg), y(rg)
    assert rg.autograd.gradcheck(lambda *_: a * b, (a, b))


def test_input_with_overlapping_elements_is_refused() -> None:
    with pytest.raises(RuntimeError, match="The 1th input has elements that share memory"):
        rg.autograd.gradcheck(lambda n, x: x * n, (2, real(rg, [1.0, 2.0, 3.0]).unfold(0, 2, 1)))


def test_input_in_read_only_memory_is_refused() -> None:
    array = np.ones(2)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = rg.from_numpy(array).requires_grad_()
    with pytest.raises(RuntimeError, match="The 0th input is in read-only memory"):
        rg.autograd.gradcheck(lambda x: x * 2, a)


@pytest.mark.parametrize("result", [3.0, None, {"a": 1}])
def test_outputs_must_be_tensors(result: Any) -> None:
    with pytest.raises(TypeError, match=f"output 1 is of type {type(result).__name__}"):
        rg.autograd.gradcheck(lambda x: (x, result), real(rg))


def test_outputs_must_keep_their_shape() -> None:
    calls: list[int] = []

    def grows(x: rg.Tensor) -> rg.Tensor:
        calls.append(1)
        return rg.ones(len(calls), dtype=rg.float64) * x.sum()

    with pytest.raises(AssertionError, match=r"on index \(0,\) by 1e-06, but got: shapes \(2,\) and \(3,\)"):
        rg.autograd.gradcheck(grows, real(rg))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_outputs_must_keep_their_dtype(fast_mode: bool) -> None:
    """If the dtype changed, rounding would look like a wrong derivative."""

    @parity
    def checked(lib: Any) -> Any:
        x = lib.ones(1, dtype=lib.float64, requires_grad=True)
        text = message(
            lambda: lib.autograd.gradcheck(lambda x: x.float() if (x >= 1).all() else x, x, fast_mode=fast_mode)
        )
        return ["return outputs with the same dtype when inputs are perturbed" in text]

    checked()
    with pytest.raises(AssertionError, match=r"dtypes retrograd.float32 and retrograd.float64"):
        rg.autograd.gradcheck(
            lambda x: x.float() if (x >= 1).all() else x, rg.ones(1, dtype=rg.float64).requires_grad_()
        )


@pytest.mark.parametrize("eps", [0.0, -1e-6, float("nan")])
def test_eps_must_be_positive(eps: float) -> None:
    with pytest.raises(ValueError, match="eps, the step of the finite differences"):
        rg.autograd.gradcheck(lambda x: x * 2, real(rg), eps=eps)


def test_gradgradcheck_needs_an_output_that_requires_grad() -> None:
    with pytest.raises(ValueError, match="at least one output of func to require grad"):
        rg.autograd.gradgradcheck(lambda x: x.detach(), real(rg))


@pytest.mark.parametrize("non_contiguous", [False, True])
def test_gen_non_contig_grad_outputs(non_contiguous: bool) -> None:
    layouts = set()

    class Noted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: rg.Tensor) -> rg.Tensor:
            if grad.any():
                layouts.add(grad.is_contiguous())
            return grad * 2

    a = rg.ones((2, 3), dtype=rg.float64, requires_grad=True)
    assert rg.autograd.gradgradcheck(Noted.apply, a, gen_non_contig_grad_outputs=non_contiguous)
    assert layouts == {not non_contiguous}


def test_gradcheck_warnings_point_to_the_caller() -> None:
    a = rg.ones(2, requires_grad=True)
    for function in (rg.autograd.gradcheck, rg.autograd.gradgradcheck):
        with pytest.warns(UserWarning, match="Input #") as caught:
            function(lambda x: x * x, a, raise_exception=False)
        assert caught[0].filename == __file__


# --- the cost of fast mode ----------------------------------------------------------------------------------------


class Counted:
    """A function that counts how often it and its backward run."""

    def __init__(self) -> None:
        self.forward = self.backward = 0
        counted = self

        class Cube(rg.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
                counted.forward += 1
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx: Any, grad: rg.Tensor) -> rg.Tensor:
                counted.backward += 1
                (x,) = ctx.saved_tensors
                return grad * 3 * x**2

        self.function = Cube.apply


def cost(size: int, fast_mode: bool) -> tuple[int, int]:
    counted = Counted()
    a = rg.tensor(np.linspace(-1, 1, size), requires_grad=True)
    assert rg.autograd.gradcheck(counted.function, a, fast_mode=fast_mode)
    return counted.forward, counted.backward


def test_fast_mode_runs_the_function_equally_often_for_any_size() -> None:
    assert cost(3, True) == cost(300, True)
    forward, backward = cost(300, True)
    assert forward == 3  # once for the graph, twice for the difference
    assert backward <= 5
    assert cost(30, False)[0] == 1 + 2 * 30


def test_fast_mode_finds_an_error_in_a_large_jacobian() -> None:
    a = rg.tensor(np.linspace(-1, 1, 300), requires_grad=True)
    assert not rg.autograd.gradcheck(wrong_functions(rg).Factor.apply, a, fast_mode=True, raise_exception=False)


@parity
def test_fast_mode_adds_up_the_tolerances_of_the_entries(lib: Any) -> Any:
    """The projection may differ by the sum of what its entries may differ by, here less than atol each."""
    a = lib.tensor([1e-6 * k for k in range(200)], dtype=lib.float64, requires_grad=True)
    wrong = wrong_functions(lib).Factor.apply
    return [lib.autograd.gradcheck(wrong, a, raise_exception=False, fast_mode=mode) for mode in (False, True)]
