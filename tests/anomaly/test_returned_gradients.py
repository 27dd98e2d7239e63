"""Gradients that the program has asked for, with own tensors: they are told at once, and what a library asks once."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning, NaNEvent, watch
from retrograd.anomaly.report import format_event


def told(program: object, *arguments: object) -> NaNEvent:
    with watch() as w, pytest.raises(AnomalyError):
        program(*arguments)  # type: ignore[operator]
    assert len(w.events) == 1
    return w.events[0]


def test_a_bad_returned_gradient_has_the_name_of_the_variable() -> None:
    point = rg.tensor([1.0, 0.0], requires_grad=True)
    event = told(lambda: rg.autograd.grad(rg.sqrt(point).sum(), point))
    assert (event.op, event.index, event.harmed) == ("SqrtBackward0", (1,), "the gradient of point")


def test_the_gradient_of_a_function_of_arrays_is_called_a_returned_gradient() -> None:
    event = told(rg.func.grad(lambda q: np.sqrt(q).sum()), np.array([1.0, 0.0]))
    assert (event.op, event.index, event.harmed) == ("SqrtBackward0", (1,), "a returned gradient")


def test_the_bad_one_of_several_returned_gradients_is_named() -> None:
    slope, offset = (rg.tensor([value], requires_grad=True) for value in (1.0, 0.0))
    event = told(lambda: rg.autograd.grad((slope * 2 + rg.sqrt(offset)).sum(), [slope, offset]))
    assert event.harmed == "the gradient of offset"


def test_the_gradient_of_an_intermediate_tensor_has_no_name() -> None:
    x = rg.tensor([0.0], requires_grad=True)
    middle = x * 2
    assert told(lambda: rg.autograd.grad(rg.sqrt(middle).sum(), middle)).harmed == "a returned gradient"


def test_the_report_advises_a_sampler_to_declare_rejected_points() -> None:
    def density(start: list[float]) -> object:
        q = rg.tensor(start, requires_grad=True)
        return rg.autograd.grad((2 * rg.log(q) - q).sum(), q)

    event = told(density, [-0.2, 1.0])
    assert "If the program rejects such points itself, as a sampler does" in format_event(event, width=200)
    with watch() as w, rg.anomaly.expect_nonfinite("a proposal out of the support is rejected"):
        density([-0.2, 1.0])
    assert not w.events


def test_the_report_on_a_bad_loss_gives_no_advice_on_rejected_points() -> None:
    w = rg.tensor([-1.0], requires_grad=True)
    event = told(lambda: rg.log(w).sum().backward())
    assert "by itself" not in format_event(event, width=200)


@pytest.mark.parametrize("policy", ["raise", "record"])
def test_a_line_search_of_scipy_recovers_from_a_bad_point(policy: str) -> None:
    """It goes to a negative scale once, and comes back."""
    minimize = pytest.importorskip("scipy.optimize").minimize
    seen = []

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        x = rg.tensor(point, requires_grad=True)
        value = (x - 2 * rg.log(x)).sum()
        (g,) = rg.autograd.grad(value, x)
        seen.append(value.item())
        return value.item(), g.numpy()

    plain = minimize(loss, [10.0], jac=True, method="TNC")
    assert np.isnan(seen).any()
    seen.clear()
    with watch(policy=policy) as w:
        if policy == "raise":
            with pytest.warns(AnomalyWarning, match="SciPy gets this value"):
                watched = minimize(loss, [10.0], jac=True, method="TNC")
        else:
            watched = minimize(loss, [10.0], jac=True, method="TNC")
    assert np.isnan(seen).any()
    assert watched.x == plain.x
    assert [event.op for event in w.events] == ["log"]
    assert "by itself" not in format_event(w.events[0], width=200)


def diverging(rate: float) -> None:
    """A functional program, whose parameters are new tensors in each step."""
    w = np.float32(1.0)
    for _ in range(20):
        w = w - np.float32(rate) * rg.func.grad(lambda w: (w**2 - 3.0) ** 2)(w).numpy()


def test_a_rate_that_is_too_high_is_recognised_in_a_functional_program() -> None:
    event = told(diverging, 3.0)
    cause = event.cause or ""
    assert "weights ran away" in cause
    assert "the gradient norm went" in cause
    assert event.step is not None
    assert event.step > 2
    assert event.remedy == "lr = lr / 10"
    with watch() as w:
        diverging(0.03)
    assert not w.events


def test_a_search_of_scipy_that_diverges_gets_no_advice_on_a_rate() -> None:
    minimize = pytest.importorskip("scipy.optimize").minimize

    def loss(x: np.ndarray) -> np.ndarray:
        return np.exp(x).sum()

    def search(*_: object, jac: object, **__: object) -> None:
        for exponent in (1.0, 10.0, 100.0, 1000.0):
            jac(np.array([exponent]))  # type: ignore[operator]

    with watch() as w, pytest.warns(AnomalyWarning, match="SciPy gets this value"):
        minimize(loss, [1.0], jac=rg.func.grad(loss), method=search)
    (event,) = w.events
    assert (event.op, event.step) == ("exp", 4)
    assert "ran away" not in (event.cause or "")
    assert "minimum" in (event.remedy or "")


BATCHES = ([1.0, 2.0], [0.0, 0.0], [2.0, 1.0])


def root_mean_square(x: rg.Tensor) -> rg.Tensor:
    return rg.sqrt((x**2).mean())


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("steps", [False, True], ids=["once", "steps"])
def test_a_skipped_update_by_hand_changes_nothing(where: str, steps: bool) -> None:
    weight = {"w": rg.ones(2)}

    def loss(weight: dict[str, rg.Tensor], x: rg.Tensor) -> rg.Tensor:
        product = weight["w"] * x
        return rg.log(product).sum() if where == "loss" else root_mean_square(product)

    seen = []
    with watch(policy="skip_step") as w:
        batches = [rg.tensor(each) for each in BATCHES]
        for x in w.steps(batches) if steps else batches:
            gradients = rg.func.grad(loss)(weight, x)
            weight = {name: each - 0.1 * gradients[name] for name, each in weight.items()}
            seen.append(weight["w"].tolist())
    (event,) = w.events
    assert (event.op, event.step) == ("log" if where == "loss" else "SqrtBackward0", 2)
    assert event.reproducible is (True if steps else None)
    assert seen[1] == seen[0]
    assert seen[-1] != seen[0]
    assert np.isfinite(seen).all()


def test_withheld_gradients_keep_their_graph_for_create_graph() -> None:
    x = rg.zeros(2, requires_grad=True)
    with watch(policy="skip_step") as w:
        (g,) = rg.autograd.grad(root_mean_square(x), x, create_graph=True)
        g.sum().backward()
    assert w.events[0].op == "SqrtBackward0"
    assert g.requires_grad
