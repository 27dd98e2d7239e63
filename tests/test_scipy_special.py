"""SciPy's special functions on Tensors are differentiable or raise; they never drop the graph silently."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import retrograd as rg
from retrograd.ops import scipy_polynomials
from retrograd.ops._scipy import answers

X = np.array([0.3, 0.7, 1.6])
UNIT = np.array([0.15, 0.5, 0.85])
SIGNED = np.array([-1.3, -0.2, 0.4, 2.1])
NEAR_ZERO = np.array([-0.4, -1e-7, 0.0, 1e-3, 0.9])

# The arguments of every differentiable function, and the positions of those that have a derivative.
DIFFERENTIABLE: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    # the gamma and beta families
    "gamma": ((SIGNED,), (0,)),
    "gammaln": ((SIGNED,), (0,)),
    "loggamma": ((X,), (0,)),
    "rgamma": ((SIGNED,), (0,)),
    "psi": ((SIGNED,), (0,)),
    "gammasgn": ((SIGNED,), (0,)),
    "poch": ((X, X[::-1]), (0, 1)),
    "binom": ((X + 3, X), (0, 1)),
    "beta": ((X, X[::-1]), (0, 1)),
    "betaln": ((X, X[::-1]), (0, 1)),
    "betainc": ((X, X[::-1], UNIT), (2,)),
    "betaincc": ((X, X[::-1], UNIT), (2,)),
    "betaincinv": ((X, X[::-1], UNIT), (2,)),
    "betainccinv": ((X, X[::-1], UNIT), (2,)),
    "gammainc": ((X, X[::-1]), (1,)),
    "gammaincc": ((X, X[::-1]), (1,)),
    "gammaincinv": ((X, UNIT), (1,)),
    "gammainccinv": ((X, UNIT), (1,)),
    # error functions
    "erf": ((SIGNED,), (0,)),
    "erfc": ((SIGNED,), (0,)),
    "erfcx": ((SIGNED,), (0,)),
    "erfi": ((SIGNED,), (0,)),
    "erfinv": ((UNIT,), (0,)),
    "erfcinv": ((UNIT,), (0,)),
    "dawsn": ((SIGNED,), (0,)),
    "ndtr": ((SIGNED,), (0,)),
    "ndtri": ((UNIT,), (0,)),
    "log_ndtr": ((SIGNED,), (0,)),
    "ndtri_exp": ((-X,), (0,)),
    "owens_t": ((SIGNED, SIGNED[::-1]), (0, 1)),
    "fresnel": ((SIGNED,), (0,)),
    # exponential, sine and cosine integrals
    "expi": ((SIGNED,), (0,)),
    "exp1": ((X,), (0,)),
    "expn": ((np.array([0.0, 1.0, 4.0]), X), (1,)),
    "sici": ((X,), (0,)),
    "shichi": ((X,), (0,)),
    "spence": ((np.array([0.3, 1.0, 2.7]),), (0,)),
    # logistic, exponential and logarithmic functions
    "expit": ((SIGNED,), (0,)),
    "logit": ((UNIT,), (0,)),
    "log_expit": ((SIGNED,), (0,)),
    "exp2": ((SIGNED,), (0,)),
    "exp10": ((SIGNED,), (0,)),
    "expm1": ((SIGNED,), (0,)),
    "log1p": ((X,), (0,)),
    "cbrt": ((X,), (0,)),
    "round": ((SIGNED,), (0,)),
    "exprel": ((NEAR_ZERO,), (0,)),
    "cosm1": ((SIGNED,), (0,)),
    "powm1": ((X, SIGNED[1:]), (0, 1)),
    "wrightomega": ((SIGNED,), (0,)),
    "xlogy": ((X, X[::-1]), (0, 1)),
    "xlog1py": ((X, X[::-1]), (0, 1)),
    # entropies, losses and transformations
    "entr": ((X,), (0,)),
    "rel_entr": ((X, X[::-1]), (0, 1)),
    "kl_div": ((X, X[::-1]), (0, 1)),
    "huber": ((X[1], SIGNED), (0, 1)),
    "pseudo_huber": ((X[1], SIGNED), (0, 1)),
    "boxcox": ((X, NEAR_ZERO[1:4]), (0, 1)),
    "boxcox1p": ((X, NEAR_ZERO[1:4]), (0, 1)),
    "inv_boxcox": ((X, NEAR_ZERO[1:4]), (0, 1)),
    "inv_boxcox1p": ((X, NEAR_ZERO[1:4]), (0, 1)),
    # angles
    "sindg": ((SIGNED * 40,), (0,)),
    "cosdg": ((SIGNED * 40,), (0,)),
    "tandg": ((SIGNED * 40,), (0,)),
    "cotdg": ((SIGNED * 40,), (0,)),
    "radian": ((X, X, X), (0, 1, 2)),
    # distributions
    "chdtr": ((X, X[::-1]), (1,)),
    "chdtrc": ((X, X[::-1]), (1,)),
    "gdtr": ((X, X[::-1], X), (0, 2)),
    "gdtrc": ((X, X[::-1], X), (0, 2)),
    "pdtr": ((np.array([0.0, 1.0, 3.0]), X), (1,)),
    "pdtrc": ((np.array([0.0, 1.0, 3.0]), X), (1,)),
    "stdtr": ((X + 1, SIGNED[1:]), (1,)),
    "stdtrit": ((X + 1, UNIT), (1,)),
    # Bessel functions
    "j0": ((NEAR_ZERO,), (0,)),
    "j1": ((NEAR_ZERO,), (0,)),
    "y0": ((X,), (0,)),
    "y1": ((X,), (0,)),
    "i0": ((NEAR_ZERO,), (0,)),
    "i1": ((NEAR_ZERO,), (0,)),
    "i0e": ((SIGNED,), (0,)),
    "i1e": ((SIGNED,), (0,)),
    "k0": ((X,), (0,)),
    "k1": ((X,), (0,)),
    "k0e": ((X,), (0,)),
    "k1e": ((X,), (0,)),
    "jv": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "yv": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "iv": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "kv": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "yn": ((np.array([0, 1, 3]), X), (1,)),
    "kn": ((np.array([0, 1, 3]), X), (1,)),
    "jve": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "yve": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "ive": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "kve": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "itj0y0": ((X,), (0,)),
    "iti0k0": ((X,), (0,)),
    "it2j0y0": ((X,), (0,)),
    "it2i0k0": ((X,), (0,)),
    "struve": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "modstruve": ((np.array([0.0, 1.0, 2.5]), X), (1,)),
    "itstruve0": ((X,), (0,)),
    "it2struve0": ((X,), (0,)),
    "itmodstruve0": ((X,), (0,)),
    # Airy, Kelvin and parabolic cylinder functions
    "airy": ((SIGNED,), (0,)),
    "itairy": ((X,), (0,)),
    "ber": ((X,), (0,)),
    "bei": ((X,), (0,)),
    "ker": ((X,), (0,)),
    "kei": ((X,), (0,)),
    "berp": ((X,), (0,)),
    "beip": ((X,), (0,)),
    "kerp": ((X,), (0,)),
    "keip": ((X,), (0,)),
    "pbdv": ((1.5, SIGNED), (1,)),
    "pbvv": ((1.5, SIGNED), (1,)),
    "pbwa": ((1.5, X), (1,)),
    # elliptic and hypergeometric functions
    "ellipk": ((NEAR_ZERO,), (0,)),
    "ellipkm1": ((UNIT,), (0,)),
    "ellipe": ((NEAR_ZERO,), (0,)),
    "ellipkinc": ((X, UNIT), (0,)),
    "ellipeinc": ((X, UNIT), (0,)),
    "ellipj": ((X, UNIT), (0,)),
    "hyp0f1": ((1.5, SIGNED), (1,)),
    "hyp1f1": ((0.5, 1.5, SIGNED), (2,)),
    "hyp2f1": ((0.5, 0.7, 1.5, SIGNED[:3]), (3,)),
    "hyperu": ((0.5, 1.5, X), (2,)),
    "wright_bessel": ((0.5, 1.5, X), (2,)),
    "log_wright_bessel": ((0.5, 1.5, X), (2,)),
    # orthogonal polynomials
    "eval_jacobi": ((np.array([0, 1, 4]), 0.5, 1.5, UNIT), (3,)),
    "eval_sh_jacobi": ((np.array([0, 1, 4]), 3.0, 2.0, UNIT), (3,)),
    "eval_gegenbauer": ((np.array([0, 1, 4]), 1.5, UNIT), (2,)),
    "eval_legendre": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_sh_legendre": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_chebyt": ((np.array([0.5, 1.5, 2.5]), UNIT), (1,)),
    "eval_chebyu": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_chebyc": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_chebys": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_sh_chebyt": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_sh_chebyu": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_laguerre": ((np.array([0, 1, 4]), UNIT), (1,)),
    "eval_genlaguerre": ((np.array([0, 1, 4]), 0.5, UNIT), (2,)),
    "eval_hermite": ((np.array([0, 1, 4]), SIGNED[1:]), (1,)),
    "eval_hermitenorm": ((np.array([0, 1, 4]), SIGNED[1:]), (1,)),
    # a function that wraps a ufunc with another name
    "zeta": ((X + 1.5, X), (1,)),
}

# Functions whose last argument is complex, and the arguments before it.
HOLOMORPHIC: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("erf", "erfc", "erfcx", "erfi", "dawsn", "wofz", "ndtr", "log_ndtr", "gamma", "loggamma"), ()),
    **dict.fromkeys(("rgamma", "expi", "exp1", "fresnel", "airy", "wrightomega", "lambertw", "expm1", "log1p"), ()),
    **dict.fromkeys(("jv", "yv", "iv", "kv", "kve", "hankel1", "hankel2", "hankel1e", "hankel2e"), (1.5,)),
    **dict.fromkeys(("hyp0f1", "eval_legendre", "eval_chebyt"), (1.5,)),
    "hyp1f1": (0.5, 1.5),
    "hyp2f1": (0.5, 0.7, 1.5),
    "eval_jacobi": (2.0, 0.5, 1.5),
}

UFUNCS = sorted(name for name, value in vars(sp).items() if isinstance(value, np.ufunc))


def tensor(array: Any, requires_grad: bool = False) -> rg.Tensor:
    made = rg.from_numpy(np.array(array))
    return made.requires_grad_() if requires_grad else made


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def bound(name: str, args: tuple[Any, ...], grad: tuple[int, ...]) -> list[Any]:
    return [tensor(value, position in grad) for position, value in enumerate(args)]


def slopes(function: Any, args: list[Any], position: int, step: float = 1e-6) -> list[np.ndarray]:
    """Return the derivatives of all results with respect to one argument by central differences."""
    high, low = ([np.asarray(value) for value in args] for _ in range(2))
    high[position] = high[position] + step
    low[position] = low[position] - step
    pairs = zip(listed(function(*high)), listed(function(*low)), strict=True)
    return [np.asarray(a - b) / (2 * step) for a, b in pairs]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_scipy_values_and_derivatives_match_differences(name: str) -> None:
    args, grad = DIFFERENTIABLE[name]
    function = getattr(sp, name)
    results = listed(function(*bound(name, args, grad)))
    expected = listed(function(*args))
    assert len(results) == len(expected)
    for nr, (result, value) in enumerate(zip(results, expected, strict=True)):
        assert isinstance(result, rg.Tensor)
        assert result.requires_grad
        np.testing.assert_allclose(result.detach().numpy(), value, rtol=1e-12)
        for position in grad:
            tensors = bound(name, args, (position,))
            (derivative,) = rg.autograd.grad(listed(function(*tensors))[nr].sum(), tensors[position])
            slope = slopes(function, list(args), position)[nr]
            summed = slope.sum() if np.ndim(args[position]) == 0 else slope
            rtol = 1e-5 if name == "itairy" else 2e-7  # SciPy's itairy is less accurate
            np.testing.assert_allclose(derivative.numpy(), summed, rtol=rtol, atol=1e-7, err_msg=f"{nr} by {position}")


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives_of_scipy_functions(name: str) -> None:
    args, grad = DIFFERENTIABLE[name]
    function = getattr(sp, name)

    def derivative(
        position: int, nr: int, values: list[Any], create_graph: bool = False
    ) -> tuple[rg.Tensor, rg.Tensor]:
        tensors = [tensor(value, k == position) for k, value in enumerate(values)]
        output = listed(function(*tensors))[nr].sum()
        return rg.autograd.grad(output, tensors[position], create_graph=create_graph)[0], tensors[position]

    for position in grad:
        if np.ndim(args[position]) == 0:
            continue
        for nr in range(getattr(function, "nout", 1)):
            first, leaf = derivative(position, nr, list(args), create_graph=True)
            if not first.requires_grad:
                continue
            (second,) = rg.autograd.grad(first.sum(), leaf)
            slope = slopes(lambda *values: derivative(position, nr, list(values))[0].numpy(), list(args), position)[0]  # noqa: B023
            np.testing.assert_allclose(second.numpy(), slope, rtol=1e-6, atol=1e-6, err_msg=f"{nr} by {position}")


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_scipy_functions_of_complex_arguments(name: str) -> None:
    function, order = getattr(sp, name), HOLOMORPHIC[name]
    z = np.array([0.4 + 0.3j, 1.1 - 0.6j, 0.2 - 0.8j])
    weight = np.array([1.0 - 0.5j, 0.3 + 0.2j, -0.7 + 1.1j])
    leaf = tensor(z, True)
    for nr, result in enumerate(listed(function(*order, leaf))):
        (gradient,) = rg.autograd.grad(result, leaf, tensor(weight), retain_graph=True)
        slope = slopes(function, [*order, z], len(order))[nr]
        np.testing.assert_allclose(gradient.numpy(), weight * np.conj(slope), rtol=1e-6, atol=1e-7)


def plausible(ufunc: np.ufunc) -> list[np.ndarray]:
    """Return arguments that every function accepts: whole numbers, because some orders and counts are integers."""
    return [np.array([1.0, 2.0]) for _ in range(ufunc.nin)]


@pytest.mark.parametrize("name", UFUNCS)
def test_every_scipy_ufunc_accepts_tensors(name: str) -> None:
    """Results are Tensors; a gradient is computed or raises, but never gets lost."""
    ufunc = getattr(sp, name)
    args = plausible(ufunc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns about orders and counts that are not of integer type
        results = listed(ufunc(*map(tensor, args)))
        assert len(results) == ufunc.nout
        for result in results:
            assert isinstance(result, rg.Tensor)
            assert not result.requires_grad
            assert result.numpy().dtype.kind in "fc"
        leaves = [tensor(array, True) for array in args]
        if name not in DIFFERENTIABLE and name not in HOLOMORPHIC and ufunc.__name__ not in DIFFERENTIABLE:
            with pytest.raises(TypeError, match=rf"scipy\.special\.{ufunc.__name__} has no derivative rule.*detach"):
                ufunc(*leaves)
            with rg.no_grad():
                assert all(isinstance(result, rg.Tensor) for result in listed(ufunc(*leaves)))
            return
        for result in listed(ufunc(*leaves)):
            assert result.requires_grad
            for leaf in leaves:
                try:
                    (gradient,) = rg.autograd.grad(result, leaf, rg.ones_like(result), retain_graph=True)
                except NotImplementedError as error:
                    assert name in str(error) or ufunc.__name__ in str(error) or "igamma" in str(error)
                else:
                    assert gradient.shape == leaf.shape


def test_every_answer_for_a_scipy_function_is_tested() -> None:
    """The tables above cover every operation that implements a SciPy function."""
    covered = {getattr(getattr(sp, name), "__name__", name) for name in (*DIFFERENTIABLE, *HOLOMORPHIC)}
    assert {name.lstrip("_") for name in answers} - covered - set(DIFFERENTIABLE) == set()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda v, x: sp.jv(v, x), "v"),
        (lambda a, x: sp.gammainc(a, x), "input"),
        (lambda a, x: sp.betainc(a, 2.0, x / 5), "a"),
        (lambda s, q: sp.zeta(s + 1.5, q), "input"),
        (lambda n, x: sp.eval_legendre(n, x), "n"),
    ],
)
def test_missing_derivatives_raise(call: Any, argument: str) -> None:
    first, x = tensor(X, True), tensor(X, True)
    result = call(first, x).sum()
    with pytest.raises(NotImplementedError, match=rf"{argument}' is not implemented; .*{argument}\.detach\(\)"):
        result.backward()
    call(first.detach(), x).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("name", ["psi", "jve", "yve", "ive"])
def test_missing_complex_derivatives_raise(name: str) -> None:
    z = tensor(np.array([0.4 + 0.3j]), True)
    result = sp.psi(z) if name == "psi" else getattr(sp, name)(1.5, z)
    with pytest.raises(NotImplementedError, match="complex"):
        rg.autograd.grad(result, z, rg.ones_like(result))


def test_ufunc_reductions_and_out_of_scipy_raise() -> None:
    with pytest.raises(TypeError, match="no derivative rule"):
        sp.xlogy.reduce(tensor(X))
    with pytest.raises(TypeError, match="ndarray"):
        sp.erf(tensor(X, True), out=np.empty(3))
    target = tensor(np.zeros(3))
    sp.erf(tensor(X), out=target)
    np.testing.assert_array_equal(target.numpy(), sp.erf(X))


def test_scipy_functions_mix_tensors_arrays_and_numbers() -> None:
    x = tensor(X, True)
    np.testing.assert_allclose(sp.xlogy(X, x).detach().numpy(), sp.xlogy(X, X))
    np.testing.assert_allclose(sp.jv(2, x).detach().numpy(), sp.jv(2, X))
    assert sp.jv(2, rg.from_numpy(X.astype(np.float32))).dtype == rg.float32
    assert sp.airy(rg.from_numpy(X.astype(np.float32)))[2].dtype == rg.float32
    assert sp.eval_legendre(3, rg.from_numpy(X.astype(np.float32))).dtype == rg.float32


def test_polynomials_of_integer_degree_use_the_recurrence() -> None:
    x = np.array([0.1, 0.97])
    for degrees in (60, np.array([60, 61])):
        exact = sp.eval_legendre(degrees, x)
        np.testing.assert_allclose(sp.eval_legendre(degrees, tensor(x)).numpy(), exact, rtol=1e-13)
        np.testing.assert_allclose(sp.eval_legendre(tensor(degrees), tensor(x)).numpy(), exact, rtol=1e-13)


def test_polynomial_degrees_fit_a_long_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, C's long has 32 bits, and SciPy's loops do not accept NumPy's int64."""

    def eval_hermite(degree: Any, x: Any) -> Any:
        assert np.can_cast(degree.dtype, np.int32)
        return sp.eval_hermite(degree, x)

    monkeypatch.setattr(np, "long", np.int32)
    monkeypatch.setattr(scipy_polynomials, "sc", SimpleNamespace(eval_hermite=eval_hermite))
    x = tensor(np.array([0.5, 2.0])).requires_grad_()
    for degree in (3, rg.tensor([3, 3])):
        x.grad = None
        rg.special.hermite_polynomial_h(x, degree).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad, 24 * x.detach() ** 2 - 12)


@pytest.mark.parametrize(
    ("ours", "theirs", "x"),
    [
        ("bessel_j0", sp.j0, NEAR_ZERO),
        ("bessel_j1", sp.j1, NEAR_ZERO),
        ("bessel_y0", sp.y0, X),
        ("bessel_y1", sp.y1, X),
        ("modified_bessel_i0", sp.i0, NEAR_ZERO),
        ("modified_bessel_i1", sp.i1, NEAR_ZERO),
        ("modified_bessel_k0", sp.k0, X),
        ("modified_bessel_k1", sp.k1, X),
        ("scaled_modified_bessel_k0", sp.k0e, X),
        ("scaled_modified_bessel_k1", sp.k1e, X),
        ("airy_ai", lambda x: sp.airy(x)[0], SIGNED),
        ("spherical_bessel_j0", lambda x: sp.spherical_jn(0, x), NEAR_ZERO),
    ],
)
def test_derivatives_of_special_functions_that_torch_lacks(ours: str, theirs: Any, x: np.ndarray) -> None:
    function = getattr(rg.special, ours)
    leaf = tensor(x, True)
    (first,) = rg.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), slopes(theirs, [x], 0)[0], rtol=1e-6, atol=1e-8)
    (second,) = rg.autograd.grad(first.sum(), leaf)
    step = 1e-4
    curvature = (theirs(x + step) - 2 * theirs(x) + theirs(x - step)) / step**2
    np.testing.assert_allclose(second.numpy(), curvature, rtol=1e-5, atol=1e-6)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("x", [1e-100, 1e-30, 1e-12, 1e-8, 1e-4, 0.00999, 0.01001])
def test_higher_derivatives_of_i1e_near_zero(x: float) -> None:
    """They are those of ``exp(-x) (x / 2 + x^3 / 16 + x^5 / 384)``; dividing it by ``x`` subtracts huge numbers."""
    series = np.polynomial.Polynomial([0, 1 / 2, 0, 1 / 16, 0, 1 / 384])
    point = rg.tensor(x, dtype=rg.float64, requires_grad=True)
    y = rg.special.i1e(point)
    for _ in range(3):
        (y,) = rg.autograd.grad(y, point, create_graph=True)
        series = series.deriv() - series
        assert y.item() == pytest.approx(series(x) * math.exp(-x), rel=1e-9)


def test_importing_retrograd_does_not_import_scipy() -> None:
    run("import sys, retrograd; assert not any(name.startswith('scipy') for name in sys.modules)")


def test_kl_div_and_xlogy_need_no_scipy() -> None:
    """Knowledge distillation uses ``kl_div`` and needs only NumPy."""
    torch = pytest.importorskip("torch")
    out = run(
        "import sys; sys.modules['scipy'] = None\n"
        "import numpy as np, retrograd as rg\n"
        "p = rg.from_numpy(np.array([0.0, 0.25, 0.75])).requires_grad_()\n"
        "terms = [rg.nn.functional.kl_div(p.detach() - 1, p, reduction='sum'), rg.xlogy(p, p + 1).sum()]\n"
        "terms += [rg.special.xlog1py(p, p).sum(), rg.special.entr(p).sum()]\n"
        "for term in terms:\n"
        "    (g,) = rg.autograd.grad(term, p)\n    print(term.item(), *g.tolist())\n"
    )
    p = torch.tensor([0.0, 0.25, 0.75], dtype=torch.float64, requires_grad=True)
    terms = [torch.nn.functional.kl_div(p.detach() - 1, p, reduction="sum"), torch.xlogy(p, p + 1).sum()]
    terms += [torch.special.xlog1py(p, p).sum(), torch.special.entr(p).sum()]
    expected = [[term.item(), *torch.autograd.grad(term, p)[0].tolist()] for term in terms]
    got = [[float(value) for value in line.split()] for line in out.splitlines()]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_entropy_of_zero_is_positive_zero() -> None:
    assert not np.signbit(rg.special.entr(tensor([0.0, -0.0])).numpy()).any()


def test_special_functions_without_scipy() -> None:
    """The error says how to install SciPy; erf, and therefore gelu, work without it."""
    out = run(
        "import sys, traceback; sys.modules['scipy'] = None\n"
        "import numpy as np, retrograd as rg\n"
        "x = rg.from_numpy(np.array([-1.5, 0.5])).requires_grad_()\n"
        "try:\n    rg.lgamma(x)\n"
        "except ModuleNotFoundError as error:\n    print(error, traceback.format_exc().count('Traceback'))\n"
        "y = rg.nn.functional.gelu(x)\n"
        "(g,) = rg.autograd.grad(y.sum(), x, create_graph=True)\n"
        "(h,) = rg.autograd.grad(g.sum(), x)\n"
        "print(*y.tolist(), *g.tolist(), *h.tolist())\n"
        "print(rg.erf(x.detach().to(rg.float16)).dtype, rg.erf(rg.from_numpy(np.array([1]))).tolist())\n"
    )
    message, values, dtypes = out.splitlines()
    assert message == 'this needs scipy.special.gammaln, and SciPy is not installed: pip install "retrograd[scipy]" 1'
    x = tensor([-1.5, 0.5], True)
    (g,) = rg.autograd.grad(rg.nn.functional.gelu(x).sum(), x, create_graph=True)
    (h,) = rg.autograd.grad(g.sum(), x)
    expected = [*rg.nn.functional.gelu(x).tolist(), *g.tolist(), *h.tolist()]
    np.testing.assert_allclose([float(value) for value in values.split()], expected, rtol=1e-14)
    assert dtypes == "retrograd.float16 [0.8427007794380188]"


def test_airy_ai_vanishes_far_from_zero() -> None:
    x = rg.tensor([2.0, 100.0, 1e6, 1e10, 1e300, float("inf")], dtype=rg.float64, requires_grad=True)
    result = rg.special.airy_ai(x)
    result.sum().backward()
    assert result.tolist()[2:] == [0.0] * 4
    assert [abs(slope) for slope in x.grad.tolist()[2:]] == [0.0] * 4
    assert result[0].item() == sp.airy(2.0)[0]
