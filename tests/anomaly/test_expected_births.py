"""Births that the program expects, and operations and modules that a watch allows."""

from __future__ import annotations

import re
from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, expect_nonfinite
from retrograd.core.registry import composites, operations
from tests.anomaly.steps import Logarithm, Model, bad_gradient, bad_loss, leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def test_births_within_expect_nonfinite_are_not_reported() -> None:
    with rg.anomaly.watch() as watch:
        with expect_nonfinite("the limit is wanted"):
            bad_loss(leaf(1.0))
            bad_gradient(leaf(1.0))
        with pytest.raises(AnomalyError):
            bad_loss(leaf(1.0))
    assert len(watch.events) == 1


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_expect_nonfinite_needs_a_reason(reason: Any) -> None:
    with pytest.raises(ValueError, match="needs a reason"), expect_nonfinite(reason):
        pass


def test_an_expected_birth_is_not_blamed_for_a_later_one() -> None:
    x = leaf(1.0, 2.0)
    with rg.anomaly.watch(policy="record") as watch:
        with expect_nonfinite("masked below"):
            mask = rg.log(rg.tensor([1.0, 0.0]))
        y = x * mask.clamp(min=-1e30)
        (y - x * 0 / (x * 0)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "div"


def test_an_allowed_operation_is_not_blamed() -> None:
    x = leaf(1.0, 0.0)
    with rg.anomaly.watch(policy="record", allow=["log"]) as watch:
        (rg.log(x) - rg.log(x)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "sub"


@pytest.mark.parametrize("allow", ["log", ["log"]])
def test_a_single_allowed_name_needs_no_list(allow: Any) -> None:
    watch = rg.anomaly.watch(allow=allow, allow_modules="inner.mask")
    assert watch.allow == {"log"}
    assert watch.allow_modules == {"inner.mask"}


@pytest.mark.parametrize("name", ["LogBackward0", "log_", "aten::log", "aten.log.default", "np.log"])
def test_an_operation_may_be_allowed_by_any_of_its_names(name: str) -> None:
    x = leaf(1.0, 0.0)
    with rg.anomaly.watch(policy="record", allow=[name]) as watch:
        (rg.log(x) - rg.log(x)).sum().backward()
    assert watch.event is not None
    assert watch.event.op == "sub"


def test_misspelt_names_of_operations_are_refused() -> None:
    """A misspelt name would allow nothing."""
    for name, meant in (("lgo", "log"), ("softmx", "softmax"), ("masked_fil", "masked_fill")):
        with pytest.raises(ValueError, match=f"there is no operation '{name}'; did you mean .*'{meant}"):
            rg.anomaly.watch(allow=[name])
    with pytest.raises(TypeError, match="such as 'log', but got 3"):
        rg.anomaly.watch(allow=[3])


def test_every_operation_may_be_allowed_by_name() -> None:
    assert operations.keys() <= rg.anomaly.watch(allow=[*operations, *composites]).allow
    nodes = {op.node_name for op in operations.values() if op.rules}
    watch = rg.anomaly.watch(allow=[*nodes, "true_divide", "relu_", "aten::_softmax", "np.exp"])
    assert {"exp", "softmax"} <= watch.allow


def test_custom_functions_may_be_allowed_by_name() -> None:
    class Logarithm(rg.autograd.Function):
        pass

    assert rg.anomaly.watch(allow=[Logarithm.__name__, f"{Logarithm.__name__}Backward"]).allow
    with pytest.warns(
        UserWarning, match="no operation 'MyExpBackward'.* if a Function of that name is defined later"
    ) as told:
        rg.anomaly.watch(allow=["MyExpBackward"])
    assert told[0].filename == __file__


def test_a_birth_in_an_allowed_module_is_not_blamed() -> None:
    model = Model()
    for allowed, expected in ((), "log"), (("inner",), "sub"):
        with rg.anomaly.watch(model, policy="record", allow_modules=allowed) as watch:
            model(leaf(1.0, 0.0)).sum().backward()
        assert watch.event is not None
        assert watch.event.op == expected


@pytest.mark.parametrize(
    ("options", "error", "advice"),
    [
        ({"allow_modules": ["iner"]}, ValueError, "no module 'iner'; the names are those of model.named_modules()"),
        ({"allow_modules": ["1"]}, ValueError, "did you mean 'inner.1'?"),
    ],
)
def test_names_of_no_module_are_refused(options: dict[str, Any], error: type[Exception], advice: str) -> None:
    """Such a name would allow nothing, without any sign of it."""
    model = Model()
    model.inner = rg.nn.Sequential(rg.nn.ReLU(), Logarithm())
    with pytest.raises(error, match=re.escape(advice)):
        rg.anomaly.watch(model, **options)


def test_an_allowed_birth_is_reported_if_nothing_else_explains_the_harm() -> None:
    with rg.anomaly.watch(policy="record", allow=["log"]) as watch:
        rg.log(leaf(1.0, 0.0)).sum().backward()
    assert watch.event is not None
    assert (watch.event.op, watch.event.index) == ("log", (1,))
    assert watch.event.note == "It was declared as expected, but it did harm."
