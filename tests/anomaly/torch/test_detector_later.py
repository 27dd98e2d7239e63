"""The detector of layers where it cannot look at once: on a device, and in compiled models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from retrograd.anomaly import AnomalyWarning, NaNDetector, expect_nonfinite
from tests.anomaly.torch.test_detector import INF, NAN, ONES, Between, Layer, Output, named, quiet, root_of_minus_one

# Of torch's own compiler.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]


class Reads(TorchDispatchMode):
    """Counts what makes the program wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the detector treat tensors as those of a device."""
    from retrograd.anomaly.adapters.torch.layers import TorchLayers

    monkeypatch.setattr(TorchLayers, "must_wait", lambda self: True)


@pytest.mark.usefixtures("on_device")
class TestOnADevice:
    def test_nothing_is_read_while_the_model_runs(self) -> None:
        model = named(fc=nn.Linear(3, 3), act=nn.ReLU(), head=nn.Linear(3, 1))
        with quiet(model, check_backward=True) as det:
            with Reads() as reads:
                loss = model(ONES).sum()
            assert reads.count == 0
            loss.backward()
            assert not det.triggered
        assert det.history["act"][0].absmax == pytest.approx(torch.relu(model.fc(ONES)).max().item(), 1e-6)

    def test_the_birth_is_named_before_the_weights_change(self) -> None:
        model = named(fc=nn.Linear(3, 3), bad=root_of_minus_one, head=nn.Linear(3, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with quiet(model) as det:
            det.set_batch(5)
            model(ONES)
            assert not det.all_events, "not read yet"
            optimizer.step()
            (event,) = det.all_events
        assert (event.layer_name, event.op, event.operands) == ("bad", "sqrt", {"input": -1.0})
        assert (event.batch_idx, event.harmed, event.reproducible) == (5, "the output of bad", True)

    def test_a_birth_between_layers_is_reported_as_one(self) -> None:
        with quiet(Between()) as det:
            det.model(ONES)
        assert det.event is not None
        assert (det.event.op, det.event.layer_name, det.event.harmed) == ("div", "root", "the input of fc2")

    def test_the_layer_is_named_if_the_model_cannot_be_called_again(self) -> None:
        class Box:
            value = ONES * NAN

        def put(x: Tensor, box: Box) -> Tensor:
            return x + box.value

        model = Layer(lambda x, box: inner(x, box))
        model.inner = inner = Layer(put)
        with quiet(model) as det:
            model(ONES, Box())
        assert det.event is not None
        assert (det.event.layer_name, det.event.op, det.event.output_has_nan) == ("inner", "Layer", True)
        assert det.event.harmed == "the output of inner"

    def test_every_call_between_two_updates_is_read(self) -> None:
        model = named(a=lambda x: torch.sqrt(x), b=nn.ReLU())
        with quiet(model, stop_on_first=False) as det:
            for sign in (1.0, -1.0, 1.0, 1.0):
                model(ONES * sign)
            assert [event.layer_name for event in det.all_events] == []
            assert det.step_is_bad
            assert [event.layer_name for event in det.all_events] == ["a"]

    def test_calls_without_updates_are_read_in_time(self) -> None:
        model = named(a=lambda x: torch.sqrt(x))
        with quiet(model) as det:
            for _ in range(10):
                model(-ONES)
            assert det.all_events

    def test_infinities_are_reported_only_if_they_do_harm(self) -> None:
        model = named(mask=lambda x: x - INF, weights=nn.Softplus(), end=lambda x: x.exp())
        with quiet(model) as det:
            model(ONES)
            assert not det.triggered
            model(ONES * INF)
            assert det.triggered

    def test_expected_births_are_not_reported(self) -> None:
        def forward(x: Tensor) -> Tensor:
            with expect_nonfinite("it is dropped"):
                y = model.inner(x)
            return model.after(y)

        model = Layer(forward)
        model.inner, model.after = Layer(root_of_minus_one), Layer(lambda y: y * 1)
        with quiet(model) as det:
            model(ONES)
        assert not det.triggered

    def test_bad_gradients_of_layers_are_read_later(self) -> None:
        model = named(a=lambda x: x * 2, b=lambda x: torch.sqrt(x * 0), c=nn.Identity())
        x = ONES.clone().requires_grad_()
        x.register_hook(torch.nan_to_num)
        with quiet(model, check_backward=True) as det:
            model(x).sum().backward()
        assert det.event is not None
        assert (det.event.is_backward, det.event.layer_name) == (True, "a")


# --- compiled ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def compile_anew() -> Iterator[None]:
    """Each test compiles, and the program is none that compiles afterwards."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def backends() -> list[Any]:
    return [
        "eager",
        "aot_eager",
        pytest.param("inductor", marks=pytest.mark.skipif(not has_compiler(), reason="no C++")),
    ]


def has_compiler() -> bool:
    import shutil

    return shutil.which("g++") is not None or shutil.which("clang++") is not None


class Net(nn.Module):
    """Takes a root of what may be negative."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.inner = named(root=lambda x: torch.sqrt(x), act=nn.ReLU())
        with torch.no_grad():
            self.fc.weight.fill_(1.0)
            self.fc.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.fc(x))


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_watched(backend: str, in_place: bool) -> None:
    model = Net()
    with quiet(model) as det:
        run = compiled(model, backend, in_place)
        det.set_batch(0)
        run(ONES).sum().backward()
        assert not det.triggered
        assert det.history["fc"][0].absmax == 3.0
        stats = dict(torch._dynamo.utils.counters["stats"])
        det.set_batch(1)
        run(-ONES)
        assert torch._dynamo.utils.counters["stats"] == stats, "nothing is compiled twice"
    assert det.event is not None
    assert (det.event.layer_name, det.event.op, det.event.batch_idx) == ("inner.root", "sqrt", 1)
    assert (det.event.operands, det.event.index) == ({"input": -3.0}, (0, 0))


def compiled(model: nn.Module, backend: str, in_place: bool) -> Callable[..., Any]:
    if in_place:
        model.compile(backend=backend, fullgraph=True)
        return model
    return torch.compile(model, backend=backend, fullgraph=True)


@pytest.mark.parametrize("structure", [lambda x: {"a": [x, None]}, lambda x: Output(logits=x)])
def test_outputs_of_any_structure_are_searched_in_compiled_code(structure: Any) -> None:
    model = named(a=lambda x: structure(torch.sqrt(x)), b=lambda y: torch.ones(1))
    with quiet(model) as det:
        torch.compile(model, backend="eager", fullgraph=True)(-ONES)
    assert det.event is not None
    assert det.event.layer_name == "a"


def test_compiled_parts_of_a_model_are_watched() -> None:
    model = named(a=nn.Linear(3, 3), part=named(b=lambda x: torch.log(x * 0 - 1), c=lambda x: torch.nan_to_num(x)))
    with quiet(model) as det:
        model.part.compile(backend="eager")
        model(ONES)
    assert det.event is not None
    assert (det.event.layer_name, det.event.op) == ("part.b", "log")


def test_a_compiled_model_may_be_given() -> None:
    model = named(fc=nn.Linear(3, 3), bad=root_of_minus_one)
    run = torch.compile(model, backend="eager")
    with quiet(run) as det:
        run(ONES)
    assert det.event is not None
    assert det.event.layer_name == "bad"


def test_legal_infinities_in_compiled_code_are_not_reported() -> None:
    model = named(mask=lambda x: x.masked_fill(x > 0, -INF), weights=nn.Softplus())
    with quiet(model) as det:
        torch.compile(model, backend="eager")(ONES)
        assert not det.triggered


def test_a_detector_attached_after_compilation_warns() -> None:
    model = named(fc=nn.Linear(3, 1))
    run = torch.compile(model, backend="eager")
    run(ONES)
    det = NaNDetector(model, verbose=False).attach()
    run(ONES).sum().backward()
    with pytest.warns(AnomalyWarning, match="attach the detector before the first call"):
        det.detach()
