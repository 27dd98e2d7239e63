"""The detector of layers works in the same way for models of either library."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections import OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.anomaly import AnomalyError, current, expect_nonfinite, watch
from tests.anomaly.detecting import found_in, layer_of, named, quiet, root_of_minus_one, same

NAN, INF = math.nan, math.inf
TREES = st.recursive(st.none(), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)

libraries = pytest.mark.parametrize("lib", [rg, torch], ids=["retrograd", "torch"])


@libraries
def test_a_bad_weight_is_reported_with_its_name(lib: Any) -> None:
    model = named(lib, a=same, fc=lib.nn.Linear(3, 2))
    with lib.no_grad():
        model.fc.weight[1, 2] = NAN
    event = found_in(model, lib.ones(2, 3))
    assert event is not None
    assert (event.kind, event.layer_name, event.index) == ("leaf", "fc", (1, 2))
    assert event.operands.keys() == {"fc.weight"}


@libraries
def test_an_overflow_in_the_output_of_the_model_is_reported(lib: Any) -> None:
    event = found_in(named(lib, a=same, b=lambda x: lib.exp(100 * x), c=same), lib.ones(2, 3))
    assert event is not None
    assert (event.layer_name, event.op, event.kind) == ("b", "exp", "overflow")
    assert event.harmed == "the output of the model"


@libraries
def test_an_infinity_that_becomes_nan_is_reported_where_it_was_born(lib: Any) -> None:
    event = found_in(named(lib, a=lambda x: lib.log(x * 0), b=lambda x: x - x, c=same), lib.ones(2, 3))
    assert event is not None
    assert (event.layer_name, event.op, event.born, event.harmed) == ("a", "log", "-Inf", "the output of b")


def grown(lib: Any, tree: Any, leaves: list[Any]) -> Any:
    """A model of that structure; its leaves are appended to the list."""
    if tree is None:
        leaves.append(layer_of(lib)(same))
        return leaves[-1]
    parts = {f"part{number}": grown(lib, each, leaves) for number, each in enumerate(tree)}
    return lib.nn.Sequential(OrderedDict(parts))


@libraries
@given(TREES.filter(lambda tree: tree is not None), st.data())
def test_the_guilty_layer_is_named_in_a_model_of_any_structure(lib: Any, tree: Any, data: Any) -> None:
    leaves: list[Any] = []
    model = grown(lib, tree, leaves)
    guilty = data.draw(st.sampled_from(leaves))
    guilty.function = root_of_minus_one
    with quiet(model, stop_on_first=False) as det:
        model(lib.ones(2, 3))
    (event,) = det.all_events
    assert model.get_submodule(event.layer_name) is guilty


def masked(x: Any) -> Any:
    x = x.clone()
    x[:, 1:] = -INF
    return x


@libraries
def test_a_mask_that_becomes_finite_again_is_not_reported(lib: Any) -> None:
    model = named(lib, scores=masked, weights=lib.nn.Softmax(-1), values=lib.nn.Linear(3, 1))
    with quiet(model) as det:
        model(lib.ones(2, 3)).sum().backward()
    assert not det.triggered


@libraries
def test_negative_infinities_in_the_output_are_reported_only_if_the_loss_is_bad(lib: Any) -> None:
    model = named(lib, fc=lib.nn.Linear(3, 3), mask=masked)
    with quiet(model) as det:
        lib.log_softmax(model(lib.ones(2, 3)), -1)[:, 0].sum().backward()
        assert not det.triggered
        lib.log_softmax(model(lib.ones(2, 3)), -1)[:, 1].sum().backward()
    assert det.event is not None
    assert det.event.harmed == "loss"


@libraries
def test_expected_births_are_not_reported(lib: Any) -> None:
    class Net(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.after = layer_of(lib)(root_of_minus_one), layer_of(lib)(same)

        def forward(self, x: Any) -> Any:
            with expect_nonfinite("padding gives the root of -1 and is dropped"):
                inner = self.inner(x)
            return lib.nan_to_num(self.after(inner))

    assert found_in(Net(), lib.ones(2, 3)) is None


@libraries
def test_check_backward_finds_bad_gradients_that_reach_no_parameter(lib: Any) -> None:
    model = named(lib, a=lambda x: x * 2, b=lambda x: lib.sqrt(x * 0), c=same)
    for check_backward in (False, True):
        x = lib.ones(2, 3).requires_grad_()
        x.register_hook(lib.nan_to_num)
        with quiet(model, check_backward=check_backward) as det:
            model(x).sum().backward()
        assert det.triggered == check_backward
    assert det.event is not None
    assert (det.event.is_backward, det.event.layer_name) == (True, "a")
    assert det.event.harmed == "the gradient of the output of a"


@libraries
def test_a_birth_that_reaches_the_loss_too_is_one_event(lib: Any) -> None:
    model = named(lib, fc=lib.nn.Linear(3, 3), bad=root_of_minus_one)
    with quiet(model, stop_on_first=False) as det:
        for batch in range(2):
            det.set_batch(batch)
            model(lib.ones(2, 3)).sum().backward()
    assert [event.batch_idx for event in det.all_events] == [0, 1]


@libraries
def test_the_step_of_an_event_is_that_of_the_loss_to_come(lib: Any) -> None:
    """A watch that reports the bad loss names the same step."""
    model = named(lib, a=lib.nn.Linear(3, 2))
    with quiet(model) as det:
        for number in range(3):
            loss = model(lib.full((2, 3), NAN if number == 2 else 1.0)).sum()
            if number < 2:
                loss.backward()
    assert det.event is not None
    assert (det.event.step, det.event.batch_idx) == (3, None)


@libraries
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_gradient_norms_neither_overflow_nor_underflow(lib: Any, size: float) -> None:
    model = lib.nn.Linear(3, 1, bias=False)
    with quiet(model, grad_norm_warn=size) as det:
        model.weight.grad = lib.full((1, 3), size)
        assert det.check_grad_norms()
    assert det.grad_events[0].grad_norm == pytest.approx(size * math.sqrt(3))


@libraries
def test_a_copy_of_the_model_is_not_watched(lib: Any) -> None:
    model = lib.nn.Sequential(lib.nn.Linear(3, 3))
    with quiet(model) as det:
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            copied(lib.full((2, 3), NAN))
        assert not det.triggered
        model(lib.full((2, 3), NAN))
        assert det.triggered


@libraries
def test_calls_in_several_threads_are_kept_apart(lib: Any) -> None:
    model = named(lib, a=same, b=lambda x: lib.sqrt(x), c=same)
    errors: list[BaseException] = []

    def work(sign: float) -> None:
        try:
            for _ in range(20):
                model(lib.full((2, 3), sign))
        except BaseException as error:
            errors.append(error)

    with quiet(model, stop_on_first=False) as det:
        threads = [threading.Thread(target=work, args=(sign,)) for sign in (1.0, -1.0, 1.0, -1.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert len(det.all_events) == 40
    assert {event.layer_name for event in det.all_events} == {"b"}


@libraries
def test_each_tensor_is_checked_once(lib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = named(lib, a=named(lib, b=same, c=same), d=same)
    det = quiet(model)
    looked = []
    look = det._adapter.look
    monkeypatch.setattr(det._adapter, "look", lambda tensor: looked.append(tensor) or look(tensor))
    with det:
        model(lib.ones(2, 3))
    assert len(looked) == 4  # the input and three outputs, though five layers take and put out ten


@libraries
def test_a_tensor_written_in_place_is_checked_again(lib: Any) -> None:
    def spoil(x: Any) -> Any:
        x[0, 0] = NAN
        return x

    event = found_in(named(lib, a=same, b=spoil, c=same), lib.ones(2, 3))
    assert event is not None
    assert event.layer_name == "b"


@libraries
def test_a_running_watch_keeps_its_policy(lib: Any) -> None:
    model = named(lib, fc=lib.nn.Linear(3, 3), bad=root_of_minus_one)
    with watch(model) as w, quiet(model) as det:
        assert current() is w
        loss = model(lib.ones(2, 3)).sum()
        assert det.triggered
        with pytest.raises(AnomalyError):
            loss.backward()
    assert det.event is not None
    assert w.event is not None
    assert (det.event.op, w.event.op) == ("sqrt", "sqrt")
    assert w.listeners == []
