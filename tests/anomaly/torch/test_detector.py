"""The detector of layers on PyTorch modules: the layer, the batch, the operation and the line; and nothing else."""

from __future__ import annotations

import copy
import functools
import math
import re
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint

from retrograd.anomaly import (
    NaNDetector,
    current,
    train_with_nan_guard,
    watch,
    watch_for_nans,
)
from tests.anomaly import detecting
from tests.anomaly.detecting import found_in, hooks_on, layer_of, quiet, root_of_minus_one, same

Layer: Any = layer_of(torch)
named = functools.partial(detecting.named, torch)
NAN, INF = math.nan, math.inf
ONES = torch.ones(2, 3)


# --- who did it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_the_layer_that_makes_a_nan_is_named_with_its_operation_and_line(mode: Any) -> None:
    model = named(encoder=named(first=nn.Linear(3, 3), second=root_of_minus_one), head=nn.Linear(3, 1))
    with mode():
        event = found_in(model, ONES)
    assert event is not None
    assert (event.layer_name, event.module_type, event.op) == ("encoder.second", "Layer", "sqrt")
    assert event.code_line == "return (x * 0 - 1).sqrt()"
    assert (event.operands, event.index) == ({"input": -1.0}, (0, 0))
    assert (event.input_has_nan, event.output_has_nan, event.output_has_inf) == (False, True, False)
    assert (event.nan_count, event.size, event.output_shape, event.output_stats) == (6, 6, (2, 3), None)
    assert (event.harmed, event.is_backward, event.reproducible) == ("the output of encoder.second", False, True)
    assert "more than rounding" in (event.cause or "")
    assert event.remedy is None


class Between(nn.Module):
    """Divides zero by zero between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc1(x) * 0
        ratio = hidden / hidden
        return self.fc2(ratio)


def test_a_value_born_between_layers_is_not_blamed_on_the_layer_that_takes_it() -> None:
    event = found_in(Between(), ONES)
    assert event is not None
    assert (event.op, event.code_line) == ("div", "ratio = hidden / hidden")
    assert (event.layer_name, event.module_type, event.harmed) == ("root", "Between", "the input of fc2")
    assert "after fc1 had ended and before fc2 was called" in str(event.note)


def test_bad_input_of_the_model_is_reported_as_input() -> None:
    images = torch.tensor([[1.0, NAN]])
    with quiet(named(a=same, b=same)) as det:
        det.model(images)
    event = det.event
    assert event is not None
    assert (event.kind, event.layer_name, event.harmed) == ("leaf", "root", "the input of the model")
    assert (event.index, event.output_stats) == ((0, 1), {"min": 1.0, "max": 1.0, "mean": 1.0})
    assert list(event.operands) == ["images"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_the_largest_finite_number_is_not_infinite(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    model = named(a=same, b=same)
    with quiet(model) as det:
        model(torch.full((70, 50), largest, dtype=dtype))
        model(torch.full((70, 50), -largest, dtype=dtype))
    assert not det.triggered
    assert found_in(model, torch.tensor([largest, INF], dtype=dtype)) is not None


def test_a_birth_that_a_second_call_does_not_repeat_is_found_at_the_layers() -> None:
    """A model that remembers how often it was called."""
    calls = []

    def once(x: Tensor) -> Tensor:
        calls.append(1)
        return x / (len(calls) - 1) * (len(calls) - 1)

    event = found_in(named(a=same, b=once, c=same), ONES)
    assert event is not None
    assert (event.layer_name, event.reproducible) == ("b", False)
    assert event.output_has_nan


def test_without_a_second_call_the_layer_of_the_first_infinity_is_named() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = named(a=same, b=lambda x: x * 1e38 * 1e38, c=same, d=lambda x: x - x)

        def forward(self, x: Tensor, cache: SimpleNamespace) -> Tensor:
            cache.used += 1
            return self.layers(x)

    with torch.no_grad():
        event = found_in(Cached(), ONES, SimpleNamespace(used=0))
    assert event is not None
    assert (event.layer_name, event.input_has_inf, event.output_has_nan) == ("layers.d", True, True)
    assert "An infinity had come in, and layers.b was the first layer to output one" in str(event.cause)
    assert "not in the catalogue" not in str(event.cause)


def test_a_layer_with_a_cache_as_argument_is_not_called_again() -> None:
    class Cache:
        def __init__(self) -> None:
            self.used = 0

    def grow(x: Tensor, cache: Cache) -> Tensor:
        cache.used += 1
        return torch.log(x * weight - 5)

    weight = torch.ones(3, requires_grad=True)
    cache = Cache()
    event = found_in(Layer(grow), ONES, cache)
    assert cache.used == 1
    assert event is not None
    assert (event.op, event.operands, event.reproducible) == ("log", {"input": -4.0}, None), "the graph has it"


def test_a_layer_that_writes_to_its_argument_is_not_called_again() -> None:
    def spoil(x: Tensor) -> Tensor:
        x.sub_(2)
        return torch.log(x)

    event = found_in(Layer(spoil), ONES.clone())
    assert event is not None
    assert (event.layer_name, event.reproducible) == ("root", None)


def test_the_second_call_changes_no_state_and_no_random_numbers() -> None:
    model = named(norm=nn.BatchNorm1d(3), drop=nn.Dropout(0.5), bad=root_of_minus_one)
    other = copy.deepcopy(model)
    states = []
    for each, context in ((other, watch(other, policy="record")), (model, quiet(model))):
        torch.manual_seed(0)
        with context:
            each(torch.randn(8, 3))
        states.append((torch.rand(1), *each.state_dict().values()))
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


# --- whatever is put out ----------------------------------------------------------------------------------------------


@dataclass
class Output:
    logits: Any
    extra: Any = None


Pair = namedtuple("Pair", "first second")


def model_output(x: Tensor) -> Any:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    return outputs.BaseModelOutput(last_hidden_state=x)


STRUCTURES = [
    lambda x: {"logits": {"deep": [None, (x,)]}},
    lambda x: Output(logits=None, extra=[Output(logits=x)]),
    lambda x: Pair(1, x),
    lambda x: SimpleNamespace(value=x, name="x"),
    lambda x: rnn.pack_padded_sequence(x, torch.tensor([3, 3]), batch_first=True),
    lambda x: x.to_sparse(),
    lambda x: torch.nested.as_nested_tensor([x], layout=torch.jagged),
    model_output,
]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_outputs_of_any_structure_are_searched(structure: Any) -> None:
    model = named(a=lambda x: structure(root_of_minus_one(x)), b=lambda y: torch.ones(1))
    event = found_in(model, ONES)
    assert event is not None
    assert (event.layer_name, event.op) == ("a", "sqrt")


def test_values_without_numbers_are_ignored() -> None:
    model = named(a=lambda x: (x, None, "text", torch.arange(3), torch.zeros(0), torch.zeros(2, device="meta"), NAN))
    assert found_in(model, ONES) is None


def test_packed_sequences_are_searched() -> None:
    model = nn.LSTM(3, 4, batch_first=True)
    packed = rnn.pack_padded_sequence(torch.randn(2, 5, 3), torch.tensor([5, 2]), batch_first=True)
    with quiet(model) as det:
        output, _ = model(packed)
        output.data.sum().backward()
        assert not det.triggered
        model(rnn.PackedSequence(packed.data * NAN, packed.batch_sizes))
    assert det.event is not None
    assert det.event.harmed == "the input of the model"


def test_vmap_and_export_of_a_watched_model_work() -> None:
    model = named(fc=nn.Linear(3, 3), act=nn.Tanh())
    with quiet(model) as det:
        one_by_one = torch.func.vmap(model)(ONES)
        exported = torch.export.export(model, (ONES,)).module()(ONES)
        assert torch.allclose(one_by_one, exported)
    assert not det.triggered


# --- no false alarms --------------------------------------------------------------------------------------------------


def masked(x: Tensor) -> Tensor:
    return x.masked_fill(torch.tensor([[False, True, True]]), -INF)


def test_a_transformer_with_masks_is_not_reported() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    padding = torch.tensor([[0.0, 0.0, -INF, -INF], [0.0] * 4])
    with quiet(model, check_backward=True, stop_on_first=False) as det:
        for training in (True, False):
            model.train(training)
            mask = nn.Transformer.generate_square_subsequent_mask(4)
            model(torch.randn(2, 4, 8), mask=mask, src_key_padding_mask=padding).sum().backward()
    assert not det.triggered


def test_skipped_layers_and_their_outputs_are_not_reported() -> None:
    class Skipped(Layer):
        pass

    with quiet(named(a=same, skipped=Skipped(root_of_minus_one), b=same), skip_types=(Skipped,)) as det:
        det.model(ONES)
    assert not det.triggered


def test_operations_that_the_watch_allows_are_not_blamed() -> None:
    model = named(a=lambda x: torch.log(x * 0), b=lambda x: x - x)
    with watch(policy="record", allow=("log",)), quiet(model) as det:
        model(ONES)
    assert det.event is not None
    assert det.event.op == "sub"


# --- backward, loss and gradient norms --------------------------------------------------------------------------------


@pytest.mark.parametrize("check_backward", [False, True])
@pytest.mark.parametrize("stepped", [False, True])
def test_a_birth_in_backward_is_named_before_the_optimizer_steps(check_backward: bool, stepped: bool) -> None:
    model = named(fc=nn.Linear(3, 2), root=lambda x: torch.sqrt(x * 0), head=same)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if stepped:
        optimizer.step()
    with quiet(model, check_backward=check_backward, stop_on_first=False) as det:
        det.set_batch(7)
        model(ONES).sum().backward()
        assert det.check_grad_norms()
        optimizer.step()
    (event,) = det.all_events
    assert (event.op, event.layer_name, event.is_backward, event.batch_idx) == ("SqrtBackward0", "root", True, 7)
    assert str(event.harmed).startswith("the gradient of fc.")
    assert all(bool(each.isfinite().all()) for each in model.parameters())


def test_a_checkpointed_layer_is_watched() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = named(fc=nn.Linear(3, 3), last=nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)

    model = Net()
    with quiet(model, check_backward=True) as det:
        for _ in range(3):
            model(ONES).sum().backward()
        assert not det.triggered
        model(ONES * NAN)
    assert det.triggered


def test_gradient_norms_above_the_threshold_are_reported() -> None:
    model = named(fc=nn.Linear(3, 1, bias=False), free=Layer(same))
    with quiet(model, grad_norm_warn=5.0) as det:
        det.set_batch(3)
        model(ONES).sum().backward()
        assert not det.check_grad_norms()
        model.zero_grad()
        (100 * model(ONES).sum()).backward()
        assert det.check_grad_norms()
    (event,) = det.grad_events
    assert (event.batch_idx, event.layer_name, event.param_name, event.threshold) == (3, "fc", "weight", 5.0)
    assert event.grad_norm == pytest.approx(100 * 2 * math.sqrt(3))


def test_sparse_gradients_have_norms_too() -> None:
    model = nn.Embedding(5, 2, sparse=True)
    with quiet(model, grad_norm_warn=1.0) as det:
        model(torch.tensor([1, 1])).sum().backward()
        assert det.check_grad_norms()
    assert det.grad_events[0].grad_norm == pytest.approx(math.sqrt(8))


@pytest.mark.parametrize("policy", ["record", "skip_step"])
def test_a_spike_is_reported_once_beside_a_watch_for_spikes(policy: str) -> None:
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), 0.0)
    with watch(model, optimizer, policy={"spike": policy}) as w, quiet(model, grad_norm_warn=None) as det:
        for batch in range(60):
            optimizer.zero_grad()
            ((1e5 if batch == 50 else 1.0) * model(ONES).sum()).backward()
            assert not det.check_grad_norms()
            optimizer.step()
    assert len(w.grad_events) == 1
    if policy == "skip_step":
        assert optimizer.state[model.weight]["step"] == 59


# --- gradient scalers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_backward", [False, True])
def test_infinite_gradients_under_a_scale_are_not_reported(check_backward: bool) -> None:
    model = named(fc=nn.Linear(3, 1), spike=lambda out: out * 1e17)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    with quiet(model, grad_norm_warn=None, check_backward=check_backward) as det:
        for _ in range(4):
            optimizer.zero_grad()
            scaler.scale((model(ONES) ** 2).mean()).backward()
            assert not det.check_grad_norms()
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() < 2.0**20, "nothing was skipped"
    assert not det.triggered


@pytest.mark.parametrize("unscale", [False, True])
def test_gradient_norms_are_divided_by_the_scale(unscale: bool) -> None:
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    scaler = torch.amp.GradScaler("cpu")
    with quiet(model, grad_norm_warn=1.0) as det:
        scaler.scale(model(ONES).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
        assert det.check_grad_norms()
    assert det.grad_events[0].grad_norm == pytest.approx(2 * math.sqrt(3))


def test_a_nan_in_forward_is_reported_under_a_scale() -> None:
    model = named(fc=nn.Linear(3, 1), bad=root_of_minus_one)
    scaler = torch.amp.GradScaler("cpu")
    with quiet(model) as det:
        scaler.scale(model(ONES).sum()).backward()
    assert det.event is not None
    assert (det.event.layer_name, det.event.op) == ("bad", "sqrt")


# --- history ----------------------------------------------------------------------------------------------------------


def test_the_history_holds_the_last_calls_of_each_layer() -> None:
    model = named(scale=lambda x: 2 * x, shift=lambda x: x - 1)
    with quiet(model) as det:
        for batch in range(40):
            det.set_batch(batch)
            model(torch.tensor([1.0, -float(batch)]))
    frames = det.history["scale"]
    assert [frame.batch_idx for frame in frames] == list(range(8, 40))
    assert [frame.absmax for frame in frames] == [2.0 * batch for batch in range(8, 40)]
    assert {frame.batch_idx: frame.absmin for frame in frames if not math.isnan(frame.absmin)} == {16: 2.0, 32: 2.0}
    assert list(det.history) == ["scale", "shift", "root"]
    assert det.history["root"] == det.history["shift"]


def test_the_report_shows_the_growth_before_the_birth(capsys: pytest.CaptureFixture[str]) -> None:
    model = named(up=torch.exp, over=lambda x: x * x - x * x)
    with NaNDetector(model) as det:
        for batch in range(4):
            det.set_batch(batch)
            model(torch.tensor([20.0 * batch]))
    shown = capsys.readouterr().err
    assert det.event is not None
    up, over = det.event.surroundings.context["layers"]
    assert (up["layer"], over["layer"]) == ("up", "over")
    assert up["before"] == pytest.approx([1.0, math.exp(20), math.exp(40)])
    assert math.isnan(over["absmax"])
    assert re.search(r"layers +layer +abs min +abs max +before\n +up .* 1, 4.85e\+08, 2.35e\+17\n +over +NaN", shown)


# --- life -------------------------------------------------------------------------------------------------------------


def test_hooks_are_removed_after_an_error_in_forward() -> None:
    def fail(x: Tensor) -> Tensor:
        raise ArithmeticError("in forward")

    patched = torch.amp.GradScaler.scale
    model = named(a=root_of_minus_one, b=fail, c=nn.Linear(3, 1))
    det = quiet(model)
    with pytest.raises(ArithmeticError), det:
        assert hooks_on(model) > 0
        model(ONES)
    assert (hooks_on(model), current()) == (0, None)
    assert torch.amp.GradScaler.scale is patched
    assert det.event is not None, "what was found before the error is not lost"
    assert det.event.layer_name == "a"


def test_the_layer_is_named_within_a_wrapper() -> None:
    inner = named(fc=nn.Linear(3, 1), bad=root_of_minus_one)
    event = found_in(nn.DataParallel(inner), ONES)
    assert event is not None
    assert event.layer_name == "bad"


def test_the_watch_counts_the_batches_if_set_batch_is_not_called() -> None:
    model = named(fc=nn.Linear(3, 1), a=lambda x: torch.sqrt(x.abs() * x.sign().detach() * 0 - 1))
    with watch(model, policy="record") as w, quiet(model) as det:
        for batch in w.steps([ONES, ONES]):
            model(batch).sum().backward()
    assert det.event is not None
    assert det.event.batch_idx == 0
    assert len(det.all_events) == 1


def test_only_models_are_accepted() -> None:
    with pytest.raises(TypeError, match=r"must be a retrograd\.nn\.Module or a torch\.nn\.Module, but got list"):
        NaNDetector([nn.Linear(1, 1)])


# --- the training loop ------------------------------------------------------------------------------------------------

GOOD = (ONES, torch.zeros(2, 1))
BAD = (ONES * NAN, torch.zeros(2, 1))
BAD_TARGET = (ONES, torch.full((2, 1), NAN))


def training(batches: list[Any], **kwargs: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    criterion = nn.functional.mse_loss
    losses, event = train_with_nan_guard(model, batches, criterion, optimizer, verbose=False, **kwargs)
    assert all(bool(each.isfinite().all()) for each in model.parameters())
    return losses, event, int(optimizer.state[model.weight]["step"])


@pytest.mark.parametrize("bad", [BAD, BAD_TARGET])
def test_training_ends_before_the_weights_are_spoilt(bad: Any) -> None:
    losses, event, steps = training([GOOD, GOOD, bad, GOOD])
    assert (event.batch_idx, len(losses), steps) == (2, 3, 2)
    assert math.isnan(losses[-1])


def test_training_may_go_on_without_the_bad_batches() -> None:
    losses, event, steps = training([GOOD, BAD, GOOD, BAD, GOOD], stop_on_first=False)
    assert (event.batch_idx, len(losses), steps) == (1, 5, 3)
    assert [math.isnan(loss) for loss in losses] == [False, True, False, True, False]


def test_watch_for_nans_is_a_detector() -> None:
    det = watch_for_nans(nn.Linear(3, 1), max_events=5, verbose=False)
    assert isinstance(det, NaNDetector)
    with det:
        det.model(ONES)
    assert 0.0 < det.overhead_ms < 1000.0
