"""The detector of layers: who made it, in which batch, by which operation; and nothing else."""

from __future__ import annotations

import functools
import io
import math
import sys
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly import (
    GradEvent,
    NaNDetector,
    current,
    expect_nonfinite,
    watch,
    watch_for_nans,
)
from retrograd.anomaly.layer_detector.nested_tensors import tensors_in
from tests.anomaly import detecting
from tests.anomaly.detecting import found_in, hooks_on, layer_of, quiet, root_of_minus_one, same

nn = rg.nn
Layer: Any = layer_of(rg)
named = functools.partial(detecting.named, rg)
NAN, INF = math.nan, math.inf


ONES = rg.ones(2, 3)

# --- who did it -------------------------------------------------------------------------------------------------------


def test_the_layer_that_makes_a_nan_is_named_with_its_operation_and_line() -> None:
    model = named(encoder=named(first=same, second=root_of_minus_one), head=nn.Linear(3, 1))
    event = found_in(model, ONES)
    assert event is not None
    assert (event.layer_name, event.module_type, event.op) == ("encoder.second", "Layer", "sqrt")
    assert event.code_line == "return (x * 0 - 1).sqrt()"
    assert event.operands == {"input": -1.0}
    assert event.index == (0, 0)
    assert (event.input_has_nan, event.output_has_nan, event.output_has_inf) == (False, True, False)
    assert (event.output_shape, event.output_stats, event.is_backward) == ((2, 3), None, False)
    assert event.harmed == "the output of encoder.second"
    assert "more than rounding" in (event.cause or "")
    assert event.remedy is None


def test_a_value_born_between_layers_is_not_blamed_on_the_layer_that_takes_it() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            hidden = self.fc1(x) * 0
            ratio = hidden / hidden
            return self.fc2(ratio)

    event = found_in(Net(), ONES)
    assert event is not None
    assert (event.op, event.code_line) == ("div", "ratio = hidden / hidden")
    assert (event.layer_name, event.module_type) == ("root", "Net")
    assert event.harmed == "the input of fc2"
    assert "after fc1 had ended and before fc2 was called" in str(event.note)


def test_a_layer_is_named_without_gradients_too() -> None:
    with rg.no_grad():
        event = found_in(named(a=same, b=root_of_minus_one, c=same), ONES)
    assert event is not None
    assert (event.layer_name, event.op, event.operands) == ("b", "sqrt", {"input": -1.0})


def test_bad_input_of_the_model_is_reported_as_input() -> None:
    images = rg.tensor([[1.0, NAN]])
    event = found_in(named(a=same, b=same), images)
    assert event is not None
    assert (event.kind, event.layer_name, event.harmed) == ("leaf", "root", "the input of the model")
    assert event.index == (0, 1)
    assert event.output_stats == {"min": 1.0, "max": 1.0, "mean": 1.0}


def test_a_birth_before_the_call_of_the_model_has_its_line() -> None:
    with quiet(named(a=same)) as det:
        data = rg.log(rg.tensor([-1.0, 1.0]))
        det.model(data)
    assert det.event is not None
    assert (det.event.op, det.event.code_line) == ("log", "data = rg.log(rg.tensor([-1.0, 1.0]))")
    assert "before the model was called" in str(det.event.note)


def test_a_birth_without_a_flag_or_a_node_is_found_at_the_layers() -> None:
    """The NumPy code raises no flag and leaves no node."""

    def secretly(x: rg.Tensor) -> rg.Tensor:
        values = x.numpy(force=True).copy()
        values[1, 2] = NAN
        return rg.tensor(values)

    event = found_in(named(a=same, b=secretly, c=same), ONES)
    assert event is not None
    assert (event.layer_name, event.module_type, event.kind, event.index) == ("b", "Layer", "invalid", (1, 2))
    assert (event.nan_count, event.size, event.output_shape) == (1, 6, (2, 3))
    assert event.output_stats == {"min": 1.0, "max": 1.0, "mean": 1.0}


def test_a_layer_that_only_passes_a_nan_on_is_not_reported() -> None:
    with quiet(named(a=root_of_minus_one, b=same, c=same), stop_on_first=False) as det:
        det.model(ONES)
    assert [event.layer_name for event in det.all_events] == ["a"]


def test_two_births_in_one_call_are_two_events() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = Layer(root_of_minus_one), Layer(lambda x: rg.log(-x))

        def forward(self, x: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
            return self.left(x), self.right(x)

    with quiet(Net(), stop_on_first=False) as det:
        det.model(ONES)
    assert [(event.layer_name, event.op) for event in det.all_events] == [("left", "sqrt"), ("right", "log")]


def test_a_birth_in_the_own_code_of_a_container_is_blamed_on_the_container() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Layer(same)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return rg.sqrt(self.inner(x) - 2)

    event = found_in(named(block=Block(), head=same), ONES)
    assert event is not None
    assert (event.layer_name, event.module_type, event.op) == ("block", "Block", "sqrt")


def test_a_layer_may_have_the_name_of_the_root() -> None:
    model = named(a=same, root=named(b=same, c=lambda x: x[:, 1:]), d=same)
    with quiet(model) as det:
        model.a.function = root_of_minus_one
        model(ONES)
    assert det.event is not None
    assert det.event.layer_name == "a"
    assert hooks_on(model) == 0
    with quiet(model, grad_norm_warn=None) as det:
        model.a.function = same
        model.root.c.function = root_of_minus_one
        model(ONES)
    assert det.event is not None
    assert (det.event.layer_name, det.event.harmed) == ("root.c", "the output of root.c")


def test_a_shared_layer_is_not_blamed_for_its_bad_input() -> None:
    shared = Layer(same)
    event = found_in(named(first=shared, bad=root_of_minus_one, again=shared), ONES)
    assert event is not None
    assert event.layer_name == "bad"


# --- whatever the structure -------------------------------------------------------------------------------------------


@dataclass
class Output:
    logits: Any
    extra: Any = None


Pair = namedtuple("Pair", "first second")

STRUCTURES = [
    lambda x: {"logits": x},
    lambda x: {"logits": {"deep": [None, (x,)]}},
    lambda x: Output(logits=x),
    lambda x: Output(logits=None, extra=[Output(logits=x)]),
    lambda x: Pair(1, x),
    lambda x: SimpleNamespace(value=x, name="x"),
    lambda x: OrderedDict(value=x),
]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_outputs_of_any_structure_are_searched(structure: Any) -> None:
    model = named(a=lambda x: structure(root_of_minus_one(x)), b=lambda y: rg.ones(1))
    event = found_in(model, ONES)
    assert event is not None
    assert (event.layer_name, event.op) == ("a", "sqrt")


def test_keyword_arguments_are_searched() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Layer(lambda *, scale: scale * 0)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return self.inner(scale=root_of_minus_one(x))

    event = found_in(Net(), ONES)
    assert event is not None
    assert (event.layer_name, event.harmed) == ("root", "the input of inner")


def test_a_structure_that_contains_itself_is_searched_once() -> None:
    endless: list[Any] = [ONES]
    endless.append(endless)
    assert tensors_in(endless, lambda value: isinstance(value, rg.Tensor)) == [ONES]


def test_values_without_floating_point_numbers_are_ignored() -> None:
    model = named(a=lambda x: (x, None, "text", rg.arange(3), rg.zeros(0), 1.5, NAN))
    assert found_in(model, ONES) is None


# --- no false alarms --------------------------------------------------------------------------------------------------


def masked(x: rg.Tensor) -> rg.Tensor:
    return x.masked_fill(rg.tensor([[False, True, True]]), -INF)


def test_an_infinite_mask_given_to_the_model_is_not_reported() -> None:
    class Attention(nn.Module):
        def forward(self, x: rg.Tensor, mask: rg.Tensor) -> rg.Tensor:
            return rg.softmax(x + mask, -1)

    assert found_in(Attention(), ONES, rg.tensor([0.0, -INF, -INF])) is None
    assert found_in(Attention(), ONES, mask=rg.tensor([0.0, -INF, -INF])) is None


def test_a_row_that_is_masked_completely_is_reported() -> None:
    event = found_in(named(mask=lambda x: x * 0 - INF, weights=lambda x: rg.softmax(x, -1)), ONES)
    assert event is not None
    assert (event.layer_name, event.op) == ("weights", "softmax")
    assert (event.input_has_inf, event.output_has_nan) == (True, True)


def test_skipped_layers_and_their_outputs_are_not_reported() -> None:
    class Skipped(Layer):
        pass

    model = named(a=same, skipped=Skipped(root_of_minus_one), b=same)
    with quiet(model, skip_types=(Skipped,)) as det:
        model(ONES)
    assert not det.triggered
    with quiet(named(skipped=Skipped(same), b=root_of_minus_one), skip_types=Skipped) as det:
        det.model(ONES)
    assert det.event is not None
    assert det.event.layer_name == "b"


def test_an_expected_infinity_that_becomes_nan_is_reported() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.after = Layer(lambda x: rg.log(x * 0)), Layer(lambda x: x - x)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            with expect_nonfinite("a mask"):
                inner = self.inner(x)
            return self.after(inner)

    event = found_in(Net(), ONES)
    assert event is not None
    assert event.harmed == "the output of after"


# --- backward, loss and gradient norms --------------------------------------------------------------------------------


@pytest.mark.parametrize("check_backward", [False, True])
def test_a_birth_in_backward_is_named_and_the_gradients_are_withheld(check_backward: bool) -> None:
    model = named(fc=nn.Linear(3, 2), root=lambda x: rg.sqrt(x * 0), head=same)
    with quiet(model, check_backward=check_backward, stop_on_first=False) as det:
        det.set_batch(7)
        model(ONES).sum().backward()
        assert det.check_grad_norms()
    (event,) = det.all_events
    assert (event.op, event.layer_name, event.is_backward, event.batch_idx) == ("SqrtBackward0", "root", True, 7)
    assert event.harmed is not None
    assert event.harmed.startswith("the gradient of fc.")
    assert float(model.fc.weight.grad.abs().sum()) == 0.0


def test_a_birth_in_a_loss_outside_the_model_is_reported() -> None:
    model = nn.Linear(3, 1)
    with quiet(model) as det:
        loss = rg.log(model(ONES) * 0 - 1).sum()
        loss.backward()
        assert det.check_grad_norms()
    assert det.event is not None
    assert (det.event.op, det.event.harmed) == ("log", "loss")
    assert float(model.weight.grad.abs().sum()) == 0.0


def test_gradient_norms_above_the_threshold_are_reported() -> None:
    model = named(fc=nn.Linear(3, 1, bias=False), free=Layer(same))
    with quiet(model, grad_norm_warn=5.0) as det:
        det.set_batch(3)
        model(ONES).sum().backward()
        assert not det.check_grad_norms()
        model.zero_grad()
        (100 * model(ONES).sum()).backward()
        assert det.check_grad_norms()
    norm = pytest.approx(100 * 2 * math.sqrt(3))
    assert det.grad_events == [
        GradEvent(
            batch_idx=3, layer_name="fc", param_name="weight", grad_norm=det.grad_events[0].grad_norm, threshold=5.0
        )
    ]
    assert det.grad_events[0].grad_norm == norm
    assert not det.triggered


def test_an_automatic_threshold_reports_an_unusual_gradient_norm() -> None:
    model = nn.Linear(3, 1, bias=False)
    with quiet(model, grad_norm_warn="auto") as det:
        heard = []
        for batch in range(60):
            det.set_batch(batch)
            model.zero_grad()
            ((1e5 if batch == 50 else 1.0) * model(ONES).sum()).backward()
            if det.check_grad_norms():
                heard.append(batch)
    assert heard == [50]
    assert (det.grad_events[0].layer_name, det.grad_events[0].param_name) == ("root", "weight")


def test_without_a_threshold_no_gradient_norm_is_reported() -> None:
    model = nn.Linear(3, 1)
    with quiet(model, grad_norm_warn=None) as det:
        (1e9 * model(ONES).sum()).backward()
        assert not det.check_grad_norms()
    assert det.grad_events == []


def test_a_bad_gradient_written_by_hand_is_found_by_its_norm() -> None:
    model = named(fc=nn.Linear(3, 1, bias=False))
    with quiet(model) as det:
        model.fc.weight.grad = rg.tensor([[1.0, NAN, 1.0]])
        assert det.check_grad_norms()
    assert det.event is not None
    assert (det.event.layer_name, det.event.harmed) == ("fc", "the gradient of fc.weight")
    assert math.isnan(det.grad_events[0].grad_norm)


# --- life -------------------------------------------------------------------------------------------------------------


def test_hooks_exist_only_while_the_detector_is_attached() -> None:
    model = named(a=nn.Linear(3, 3), b=named(c=same))
    det = quiet(model)
    assert hooks_on(model) == 0
    assert det.attach() is det
    assert hooks_on(model) == 8
    det.attach()
    with det:
        assert hooks_on(model) == 8
    assert hooks_on(model) == 0
    assert current() is None
    det.detach()


def test_hooks_are_removed_after_an_error_in_forward() -> None:
    def fail(x: rg.Tensor) -> rg.Tensor:
        raise ArithmeticError("in forward")

    model = named(a=root_of_minus_one, b=fail)
    det = quiet(model)
    with pytest.raises(ArithmeticError), det:
        model(ONES)
    assert hooks_on(model) == 0
    assert current() is None
    assert det.event is not None, "what was found before the error is not lost"
    assert det.event.layer_name == "a"


def test_hooks_are_removed_if_attaching_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = named(a=same, b=same)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(model.b, "register_forward_hook", fail)
    with pytest.raises(MemoryError):
        quiet(model).attach()
    assert hooks_on(model) == 0
    assert current() is None


def test_the_detector_still_works_after_an_interrupt() -> None:
    def interrupt(x: rg.Tensor) -> rg.Tensor:
        if interrupted:
            raise KeyboardInterrupt
        return x * 1

    model = named(a=same, b=interrupt)
    with quiet(model) as det:
        interrupted = True
        with pytest.raises(KeyboardInterrupt):
            model(ONES)
        interrupted = False
        model(ONES)
        assert not det.triggered
        model(ONES * NAN)
    assert det.event is not None
    assert det.event.layer_name == "root"


def test_attaching_again_forgets_earlier_events() -> None:
    model = named(a=root_of_minus_one)
    det = quiet(model)
    with det:
        model(ONES)
    assert det.triggered
    with det:
        model.a.function = same
        model(ONES)
    assert not det.triggered
    assert det.event is None


def test_stop_on_first_decides_whether_later_events_are_kept() -> None:
    model = named(a=lambda x: rg.sqrt(x))
    for stop_on_first, expected in ((True, [0]), (False, [0, 2])):
        with quiet(model, stop_on_first=stop_on_first) as det:
            for batch, value in enumerate((-1.0, 1.0, -1.0)):
                det.set_batch(batch)
                model(ONES * value)
        assert [event.batch_idx for event in det.all_events] == expected


def test_max_events_bounds_both_lists_of_events() -> None:
    model = named(a=lambda x: rg.sqrt(x), fc=nn.Linear(3, 1))
    with quiet(model, stop_on_first=False, max_events=3, grad_norm_warn=1e-6) as det:
        for batch in range(6):
            det.set_batch(batch)
            model.zero_grad()
            model(ONES).sum().backward()
            det.check_grad_norms()
            model(-ONES)
    assert [event.batch_idx for event in det.all_events] == [0, 1, 2]
    assert len(det.grad_events) == 3


def test_hooks_are_removed_even_if_the_last_report_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")  # as in "train.py 2>&1 | head"

    model = named(a=nn.Linear(3, 3))
    with watch(policy="ignore") as w:
        det = NaNDetector(model, check_backward=True).attach()
        model(ONES).backward(rg.full_like(ONES, NAN))
        monkeypatch.setattr(sys, "stderr", Closed())
        with pytest.raises(BrokenPipeError):
            det.detach()
        assert hooks_on(model) == 0
        assert w.listeners == []


def test_attaching_from_several_threads_registers_each_hook_once() -> None:
    model = named(a=same, b=same)
    det = quiet(model)
    threads = [threading.Thread(target=det.attach) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hooks_on(model) == 6
    det.detach()
    assert hooks_on(model) == 0


def test_a_part_of_the_model_may_be_called_alone() -> None:
    model = named(a=same, b=named(c=root_of_minus_one))
    with quiet(model) as det:
        model.b(ONES)
    assert det.event is not None
    assert det.event.layer_name == "b.c"


def test_without_check_inputs_only_bad_outputs_start_the_search() -> None:
    model = named(a=same, b=lambda x: x[:, :2])
    with quiet(model, check_inputs=False) as det:
        x = ONES.clone()
        x[:, 2] = NAN
        model.b(x)
        assert not det.triggered
        model(x)
    assert det.event is not None
    assert det.event.harmed == "the input of a", "it is looked at once something bad is put out"


def test_the_overhead_is_measured() -> None:
    model = named(a=same)
    det = quiet(model)
    assert det.overhead_ms == 0.0
    with det:
        model(ONES)
    assert 0.0 < det.overhead_ms < 1000.0


def test_only_models_are_accepted() -> None:
    with pytest.raises(TypeError, match=r"must be a retrograd\.nn\.Module.*list"):
        NaNDetector([nn.Linear(1, 1)])
    with pytest.raises(ValueError, match="positive number"):
        NaNDetector(nn.Linear(1, 1), grad_norm_warn=-1.0)


def test_watch_for_nans_is_a_detector() -> None:
    det = watch_for_nans(nn.Linear(3, 1), max_events=5, verbose=False)
    assert isinstance(det, NaNDetector)
    assert det.max_events == 5


def test_events_are_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    model = named(fc=nn.Linear(3, 3), bad=root_of_minus_one)
    with NaNDetector(model, grad_norm_warn=1.0) as det:
        det.set_batch(12)
        model.fc(ONES).sum().backward()
        det.check_grad_norms()
        model(ONES)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "NaN born in sqrt" in shown.err
    assert "batch 12" in shown.err
    assert "bad (Layer)" in shown.err
    assert "gradient norm of fc.weight is 6, above the threshold 1, at batch 12 (and 1 more parameter)" in shown.err


# --- along with a watch -----------------------------------------------------------------------------------------------


def test_events_of_a_watch_started_later_reach_the_detector() -> None:
    model = nn.Linear(3, 1)
    with quiet(model) as det:
        with watch(model, policy="record") as w:
            rg.log(model(ONES) * 0 - 1).sum().backward()
        assert det.triggered
        model(ONES)
    assert w.listeners == []
    assert current() is None


def test_two_detectors_do_not_disturb_each_other() -> None:
    model = nn.Linear(3, 1)
    first, second = quiet(model).attach(), quiet(model).attach()
    first.detach()
    rg.log(model(ONES) * 0 - 1).sum().backward()
    second.detach()
    assert (first.triggered, second.triggered) == (False, True)
    assert current() is None
    assert hooks_on(model) == 0


def test_the_watch_counts_the_batches_if_set_batch_is_not_called() -> None:
    model = named(a=lambda x: rg.sqrt(x))
    with watch(model, policy="record") as w, quiet(model) as det:
        for batch in w.steps([ONES, -ONES]):
            model(batch)
    assert det.event is not None
    assert det.event.batch_idx == 1


def test_the_repr_shows_state_and_events() -> None:
    det = NaNDetector(rg.nn.ReLU(), verbose=False)
    assert repr(det) == "<NaNDetector: not attached, 0 events>"
    with det:
        det.model(rg.tensor([1.0]) / 0 * 0)
        assert repr(det) == "<NaNDetector: attached, 1 event>"
