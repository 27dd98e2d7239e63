"""Likelihoods as they stand in textbooks: densities, determinants and sigmoids, whose logarithms are taken too late."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import diagnose
from tests.anomaly.both import executed, libraries, line, mended, only_event, run, runs


@dataclass(frozen=True)
class Fault:
    """A program, what is found in it, and the gradient of ``x`` that is right."""

    op: str
    title: str
    remedy: str
    gradient: object
    code: str


PROGRAMS = {
    "density": Fault(
        "log",
        "log of a density that underflowed",
        "torch.log(a) + -a * d",
        59.9,
        """
x = torch.tensor(2.0, requires_grad=True, dtype=torch.float64)
a, d = x * 15, torch.tensor([0.0, 1.0, 59.0], dtype=torch.float64)
loss = -torch.log(a * torch.exp(-a * d)).sum() / 15  # born here
loss.backward()
""",
    ),
    "density of a normal distribution": Fault(
        "log",
        "log of a density that underflowed",
        "- torch.log(s)",
        -50.0,
        """
x, s = torch.tensor([0.0], requires_grad=True), torch.tensor(1.0)
d = torch.tensor([50.0])
loss = -torch.log(torch.exp(-0.5 * (d - x) ** 2) / s).sum()  # born here
loss.backward()
""",
    ),
    "two components": Fault(
        "log",
        "log of a density that underflowed",
        "torch.logaddexp(",
        None,
        """
x, d = torch.tensor([0.0], requires_grad=True), torch.tensor([50.0, 0.0])
near, far = torch.exp(-0.5 * (d - x) ** 2), torch.exp(-0.5 * (d - x) ** 2 / 4) / 2
likelihood = 0.9 * near + 0.1 * far
loss = -torch.log(likelihood).sum()  # born here
loss.backward()
""",
    ),
    "components in columns": Fault(
        "log",
        "log of a density that underflowed",
        "torch.logsumexp(-0.5 * (d[:, None] - x) ** 2 + torch.log(weights), dim=-1)",
        None,
        """
x, d = torch.tensor([0.0, 1.0], requires_grad=True), torch.tensor([50.0, 0.0])
weights = torch.tensor([0.5, 0.5])
likelihood = torch.exp(-0.5 * (d[:, None] - x) ** 2) @ weights
loss = -torch.log(likelihood).sum()  # born here
loss.backward()
""",
    ),
    "determinant": Fault(
        "log",
        "logarithm of a determinant out of range",
        "slogdet(K).logabsdet",
        30 / 1e-3,
        """
x = torch.tensor(1e-3, requires_grad=True)
K = x * torch.eye(30)
loss = torch.log(torch.linalg.det(K))  # born here
loss.backward()
""",
    ),
    "determinant with a factor": Fault(
        "log",
        "logarithm of a determinant out of range",
        "= 0.5 * (torch.linalg.slogdet(K).logabsdet + 3.6747399609602147)",
        None,
        """
x = torch.tensor(1e-3, requires_grad=True)
K = x * torch.eye(30)
loss = 0.5 * torch.log(6.28**2 * torch.linalg.det(K))  # born here
loss.backward()
""",
    ),
    "large determinant": Fault(
        "det",
        "logarithm of a determinant out of range",
        "slogdet(x * torch.eye(30)).logabsdet",
        30 / 1e3,
        """
x = torch.tensor(1e3, requires_grad=True)
loss = torch.log(torch.linalg.det(x * torch.eye(30)))  # born here
loss.backward()
""",
    ),
    "sigmoid": Fault(
        "log",
        "log of a sigmoid",
        "(-F.softplus(-x * w))",
        -2.0,
        """
x, w = torch.tensor([-100.0], requires_grad=True), 2.0
p = 1 / (1 + torch.exp(-x * w))
loss = -(1.0 * torch.log(p)).sum() + 0.0 * F.relu(x).sum()  # born here
loss.backward()
""",
    ),
    "complement of a sigmoid": Fault(
        "log",
        "log of 1 - sigmoid(x)",
        "F.logsigmoid(-x)",
        1.0,
        """
x = torch.tensor([100.0], requires_grad=True)
p = 1 / (1 + torch.exp(-x))
loss = -torch.log(1 - p).sum() + 0.0 * F.relu(x).sum()  # born here
loss.backward()
""",
    ),
    "quotient of exponentials": Fault(
        "exp",
        "sigmoid written as exp(x) / (1 + exp(x))",
        "torch.sigmoid(2 * x)",
        0.0,
        """
x = torch.tensor([100.0], requires_grad=True)
p = torch.exp(2 * x) / (1 + torch.exp(2 * x))  # born here
loss = p.sum()
loss.backward()
""",
    ),
}


@libraries
@runs
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_logarithm_of_a_likelihood_gets_its_exact_form(name: str, library: str, steps: bool) -> None:
    fault = PROGRAMS[name]
    event = only_event(run(library, fault.code, steps))
    assert (event.op.removeprefix("linalg_"), event.lineno) == (fault.op, line(fault.code))
    assert diagnose(event).title == fault.title
    remedy = (event.remedy or "").replace("rg.nn.functional", "F").replace("torch.nn.functional", "F")
    assert fault.remedy in remedy.replace("rg.", "torch."), remedy


@pytest.mark.parametrize("name", [name for name in PROGRAMS if PROGRAMS[name].gradient is not None])
def test_the_remedy_gives_the_exact_gradient(name: str) -> None:
    fault = PROGRAMS[name]
    event = only_event(run("retrograd", fault.code))
    program = mended(fault.code, event).replace("torch.nn.functional", "F")
    namespace = {"torch": rg, "F": rg.nn.functional}
    exec(program, namespace)
    np.testing.assert_allclose(namespace["x"].grad.item(), fault.gradient, rtol=1e-5)


def test_the_remedy_uses_numpys_names_if_the_program_does() -> None:
    program = (
        "import numpy as np\nx = torch.tensor(1e-3, requires_grad=True)\n"
        "loss = 0.5 * np.log(np.linalg.det(x * np.eye(200)))  # born here\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert event.remedy == "loss = 0.5 * np.linalg.slogdet(x * np.eye(200)).logabsdet  # born here"
    namespace = {"torch": rg}
    exec(mended(program, event), namespace)
    assert math.isclose(namespace["loss"].item(), 100 * math.log(1e-3), rel_tol=1e-5)


@pytest.mark.parametrize(
    "code",
    [
        "loss = torch.log(x * torch.tensor([1.0, 0.0])).sum()",  # no density
        "loss = torch.log(torch.exp(x) - torch.exp(x)).sum()",  # a difference
        "loss = torch.log((torch.exp(x) * torch.tensor([[1.0, 0.0], [0.0, 0.0]])).sum(1)).sum()",  # weights of 0
        "loss = torch.log(torch.linalg.det(torch.outer(x, x)) + 0 * x).sum()",  # not the determinant by itself
    ],
)
def test_other_logarithms_of_zero_are_not_taken_for_likelihoods(code: str) -> None:
    event = only_event(run("retrograd", f"x = torch.tensor([1.0, 2.0], requires_grad=True)\n{code}\nloss.backward()"))
    assert diagnose(event).title not in {fault.title for fault in PROGRAMS.values()} - {"log of a sigmoid"}


def test_the_gradient_of_xlog1py_at_the_end_of_its_domain_is_mended() -> None:
    program = (
        "x = torch.tensor([1.0, 0.5], requires_grad=True)\nn = torch.tensor([0.0, 3.0])\n"
        "loss = torch.special.xlog1py(n, -x).sum()  # born here\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert event.op == "SpecialXlog1PyBackward0"
    assert diagnose(event).number == 3
    namespace = {"torch": rg}
    exec(mended(program, event), namespace)
    np.testing.assert_allclose(namespace["x"].grad.numpy(), [0.0, -6.0])


def test_a_difference_of_logarithms_of_zero_is_mended() -> None:
    """A power law that is fitted in double logarithms, to data that begin at 0."""
    program = (
        "import numpy as np\nx, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0])\n"
        "p = torch.tensor(1.0, requires_grad=True, dtype=torch.float64)\n"
        "loss = np.sum((np.log(y) - p * np.log(x)) ** 2)  # born here\nloss.backward()"
    )
    with np.errstate(divide="ignore"):
        event = only_event(run("retrograd", program))
    assert (event.op, event.lineno) == ("sub", line(program))
    assert "both sides are logarithms of 0" in (event.cause or "")
    namespace = {"torch": rg}
    exec(mended(program, event), namespace)
    assert namespace["p"].grad.isfinite()


def test_bad_data_in_a_numpy_array_is_dropped_from_the_array() -> None:
    program = (
        "import numpy as np\ndata = np.array([[1.0, np.nan], [2.0, 3.0]])\n"
        "m = torch.tensor(0.0, requires_grad=True, dtype=torch.float64)\n"
        "loss = ((data - m) ** 2).mean()\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert event.kind == "leaf"
    namespace = {"np": np, "data": np.array([[1.0, np.nan], [2.0, 3.0]])}
    exec(event.remedy or "", namespace)
    assert namespace["data"].tolist() == [[2.0, 3.0]]


def test_a_large_argument_of_a_transformed_function_is_named() -> None:
    """The argument did not grow in an operation of the function."""
    w = rg.anomaly.watch(policy="record")
    with w:
        rg.func.grad(lambda q: -0.5 * np.sum(q**4))(np.array([1e100, 1.0]))
    cause = only_event(w).cause or ""
    assert "q is 1e+100" in cause
    assert "grew in argument" not in cause


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("function", [lambda x: np.sum(x**2), lambda x: np.sum(x * 2), lambda p: np.sum(np.sin(p) + p)])
def test_an_argument_that_is_not_finite_is_named(function: object, bad: float) -> None:
    """An optimizer that has gone too far passes such an argument. Some operations save it, and some do not."""
    parameters = np.array([1.0, bad])
    w = rg.anomaly.watch(policy="record")
    with w, np.errstate(invalid="ignore"):
        rg.func.grad(function)(parameters)
    event = w.events[0]
    if event.kind == "leaf":
        assert event.index == (1,)
        assert diagnose(event).title == "argument of a function that is not finite"
        assert "parameters already held 1" in (event.cause or "")
    else:  # sin(inf)
        assert (event.op, bad) == ("sin", np.inf)


def test_an_argument_that_an_operation_spoilt_is_blamed_on_it() -> None:
    w = rg.anomaly.watch(policy="record")
    with w:
        start = rg.tensor([0.0, 1.0]).log()
        rg.func.grad(lambda x: (x**2).sum())(start)
    assert (w.events[0].op, w.events[0].index) == ("log", (0,))


GAMMA = {
    "betaln(x, 1.0)": ([0.0, 1.0], "pole of the gamma function", "betaln(np.maximum(x, 1e-6), 1.0)"),
    "betaln(1.0, x)": ([0.0, 1.0], "pole of the gamma function", "betaln(1.0, np.maximum(x, 1e-6))"),
    "gamma(x)": ([200.0, 1.0], "gamma function out of range", "rg.lgamma(x)"),
    "gammaln(x)": ([-1.0, 1.0], "pole of the gamma function", "gammaln(np.maximum(x, 1e-6))"),
}


@pytest.mark.parametrize("call", GAMMA)
def test_scipys_gamma_functions_are_explained_and_mended(call: str) -> None:
    values, title, remedy = GAMMA[call]
    program = (
        "import numpy as np\nfrom scipy.special import betaln, gamma, gammaln\n"
        f"x = torch.tensor({values}, requires_grad=True, dtype=torch.float64)\n"
        f"loss = np.sum({call})  # born here\nloss.backward()"
    )
    event = only_event(run("retrograd", program))
    assert (event.lineno, event.index, diagnose(event).title) == (line(program), (0,), title)
    assert remedy in (event.remedy or "")


@libraries
@pytest.mark.parametrize(
    ("made", "data", "kept"),
    [
        ("Beta(x.exp(), 2 * x.exp())", "[0.2, 1.0, 0.7]", "min=1e-6, max=1 - 1e-6"),
        ("Beta(x.exp(), 2 * x.exp())", "[0.2, 0.0, 0.7]", "min=1e-6, max=1 - 1e-6"),
        ("Gamma(x.exp(), torch.tensor(1.5))", "[0.2, 0.0, 7.0]", "min=1e-12"),
        ("Dirichlet(x.exp() * torch.ones(3))", "[0.2, 0.0, 0.8]", "min=1e-12"),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_data_on_the_border_of_the_support_is_clamped(
    library: str, made: str, data: str, kept: str, before: bool
) -> None:
    """Made in the line that calls it, or in one before."""
    distribution = f"torch.distributions.{made}"
    program = (
        f"data, x = torch.tensor({data}), torch.tensor(0.3, requires_grad=True)\n"
        f"d = {distribution}\n"
        f"loss = -{'d' if before else distribution}.log_prob(data).mean()  # born here\nloss.backward()"
    )
    event = only_event(run(library, program))
    assert (event.op, event.lineno) == ("xlogy", line(program))
    assert "data reaches the boundary of the distribution's support" in (event.cause or "")
    assert f"clamp(data, {kept})" in (event.remedy or "")
    namespace = executed(library, mended(program, event))
    assert math.isfinite(namespace["x"].grad.item())


@libraries
def test_xlogy_of_a_count_and_zero_is_explained(library: str) -> None:
    program = (
        "n, x = torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.5, 0.3, 0.0], requires_grad=True)\n"
        "loss = -torch.special.xlogy(n, x).sum()  # born here\nloss.backward()"
    )
    event = only_event(run(library, program))
    assert (event.op, event.index) == ("xlogy", (2,))
    assert "here it is 3 * log(0)" in (event.cause or "")
    assert "xlogy(n, " in (event.remedy or "")
    assert "clamp(x, min=1e-12)" in (event.remedy or "")


@pytest.mark.parametrize("kind", ["Beta", "Gamma"])
def test_a_distribution_made_by_a_function_is_known_by_its_class(kind: str) -> None:
    program = (
        "def distribution(x):\n"
        f"    return torch.distributions.{kind}(x.exp(), 2 * x.exp(), validate_args=False)\n\n\n"
        f"data, x = torch.tensor([0.2, {1.0 if kind == 'Beta' else 0.0}]), torch.tensor(0.3, requires_grad=True)\n"
        "d = distribution(x)\nloss = -d.log_prob(data).mean()  # born here\nloss.backward()"
    )
    event = only_event(run("torch", program))
    assert (event.op, event.lineno) == ("xlogy", line(program))
    assert f"clamp(data, min={'1e-6, max=1 - 1e-6' if kind == 'Beta' else '1e-12'})" in (event.remedy or "")
    assert math.isfinite(executed("torch", mended(program, event))["x"].grad.item())
