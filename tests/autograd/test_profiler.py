"""What a profile records, compared with torch's profile of the same program."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.autograd.profiler import profile, record_function
from retrograd.autograd.profiler_util import EventList, FunctionEvent
from retrograd.core.state import local
from tests.parity import message, parity


def module_of(lib: Any) -> Any:
    return torch.autograd.profiler if lib is torch else rg.autograd.profiler


# events inside torch's own functions and at the start of its backward
_INSIDE = frozenset(("aten::ones_like", "aten::to", "detach"))


def events_of(prof: Any) -> list[Any]:
    return [event for event in prof.function_events if event.name not in _INSIDE]


def parents(event: Any) -> Iterator[Any]:
    while (event := event.cpu_parent) is not None:
        yield event


def top_level(prof: Any) -> list[Any]:
    return [event for event in events_of(prof) if event.cpu_parent is None]


# --- names, scopes, numbers -------------------------------------------------------------------------------------------


@parity
def test_names_of_operations_and_nodes(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    with module_of(lib).profile() as prof:
        y = x.exp() * x
        y.sin_()
        y.sum().backward()
    return [(event.name, event.key, event.scope, event.count, event.is_async) for event in top_level(prof)]


@parity
def test_nodes_are_nested_in_their_evaluation(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    y = x.exp().sum()
    with module_of(lib).profile() as prof:
        y.backward()
    return [
        (event.cpu_parent.name, event.name, event.scope)
        for event in events_of(prof)
        if event.cpu_parent is not None and event.scope == 1
    ]


@parity
def test_sequence_numbers_link_operations_to_their_nodes(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    with module_of(lib).profile() as prof:
        (x.exp() * x).sin().sum().backward()
    forward = {event.sequence_nr: event.name for event in top_level(prof) if event.fwd_thread == 0}
    nodes = [event for event in events_of(prof) if event.scope == 1 and event.fwd_thread]
    return [(node.name, forward.get(node.sequence_nr)) for node in nodes]


@parity
def test_leaves_have_no_sequence_number(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    with module_of(lib).profile() as prof:
        (x * 2).sum().backward()
    return {event.name: event.sequence_nr for event in events_of(prof) if "AccumulateGrad" in event.name}


def test_operations_without_gradient_have_no_sequence_number() -> None:
    x = rg.ones(3, requires_grad=True)
    with profile() as prof, rg.no_grad():
        x.exp()
    assert [event.sequence_nr for event in prof.function_events] == [-1]


@parity
def test_events_of_a_custom_function(lib: Any) -> Any:
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.exp() + x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.sin()

    x = lib.ones(3, requires_grad=True)
    with module_of(lib).profile() as prof:
        Twice.apply(x).sum().backward()
    chains = [(event, [event.name, *(parent.name for parent in parents(event))]) for event in events_of(prof)]
    return [(event.scope, chain) for event, chain in chains if any("Twice" in name for name in chain)]


def test_double_backward_shows_operations_inside_nodes() -> None:
    x = rg.ones(3, requires_grad=True)
    y = x.exp().sum()
    with profile() as prof:
        (first,) = rg.autograd.grad(y, x, create_graph=True)
        first.sum().backward()
    inner = [event for event in prof.function_events if event.name == "aten::mul"]
    assert next(parents(inner[0])).name == "ExpBackward0"
    numbers = {event.sequence_nr for event in prof.function_events if event.name == "MulBackward0"}
    assert {event.sequence_nr for event in inner} & numbers


def test_writing_to_a_view_is_one_event() -> None:
    x = rg.ones(3, requires_grad=True)
    y = x * 2
    with profile() as prof:
        y[1:].mul_(3)
        y.sum().backward()
    assert [event.name for event in top_level(prof)][:3] == ["aten::slice", "aten::mul_", "aten::sum"]
    by_name = {event.name: event.sequence_nr for event in prof.function_events}
    assert by_name["aten::mul_"] == by_name["CopySlices"] > 0


def test_event_names_include_the_namespace() -> None:
    with profile() as prof:
        rg.linalg.inv(rg.eye(2))
        rg.fft.fft(rg.ones(4))
    names = {event.name for event in prof.function_events}
    assert {"aten::linalg_inv", "aten::fft_fft"} <= names


def test_composite_functions_contain_their_operations() -> None:
    x = rg.ones(2, 3)
    with profile() as prof:
        rg.nanmedian(x, axis=1)
        rg.trapezoid(x, rg.arange(3.0), dim=1)
    whole = next(event for event in prof.function_events if event.name == "aten::trapezoid")
    assert whole.cpu_parent is None
    assert whole.cpu_children
    # a function made of one operation of the same name is shown once
    assert sum(event.name == "aten::nanmedian" for event in prof.function_events) == 1


@parity
def test_record_shapes(lib: Any) -> Any:
    x, row = lib.ones(2, 3, requires_grad=True), lib.ones(3)
    with module_of(lib).profile(record_shapes=True) as prof:
        x.exp()
        x * row
        lib.cat([x, x])
        (x.sin().sum()).backward()
    nodes = [event for event in events_of(prof) if event.name == "SinBackward0"]
    return [(event.name, event.input_shapes) for event in [*top_level(prof)[:2], *nodes]]


def test_shapes_of_lists_and_values_of_plain_arguments() -> None:
    x = rg.ones(2, 3)
    with profile(record_shapes=True) as prof:
        rg.cat([x, x], dim=1)
    (event,) = prof.function_events
    assert event.input_shapes == [[], []]
    assert event.structured_input_shapes == [[[2, 3], [2, 3]], []]
    assert event.concrete_inputs == [None, 1]


def test_no_shapes_without_record_shapes() -> None:
    with profile() as prof:
        rg.ones(3).exp()
    assert prof.function_events[0].input_shapes == []


@parity
def test_flops_of_elementwise_operations_and_matrix_products(lib: Any) -> Any:
    a, b = lib.ones(4, 5), lib.ones(5, 6)
    with module_of(lib).profile(with_flops=True) as prof:
        lib.mm(a, b)
        a * a
        a + a
        a.exp()
    names = ("aten::mm", "aten::mul", "aten::add", "aten::exp")
    return [(event.name, event.flops or 0) for event in events_of(prof) if event.name in names]


def test_flops_of_batched_products() -> None:
    with profile(with_flops=True) as prof:
        rg.ones(7, 4, 5) @ rg.ones(5, 6)
        rg.ones(4, 5) @ rg.ones(5)
    assert [event.flops for event in prof.function_events] == [2 * 7 * 4 * 5 * 6, 2 * 4 * 5]
    assert "Total KFLOPs" in EventList(prof.function_events[:1], with_flops=True).table()


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.nn.functional.linear(lib.ones(2, 3, 4), lib.ones(5, 4), lib.ones(5)),
        lambda lib: lib.nn.functional.conv2d(lib.ones(2, 4, 8, 8), lib.ones(6, 2, 3, 3), stride=2, padding=1, groups=2),
        lambda lib: lib.einsum("bij,bkj->bik", lib.ones(2, 3, 4), lib.ones(2, 5, 4)),
        lambda lib: lib.tensordot(lib.ones(2, 3, 4), lib.ones(4, 5), 1),
        lambda lib: lib.ones(3, 4).addmm(lib.ones(3, 2), lib.ones(2, 4)),
        lambda lib: lib.nn.functional.scaled_dot_product_attention(
            lib.ones(2, 3, 5, 4), lib.ones(2, 3, 7, 4), lib.ones(2, 3, 7, 6)
        ),
    ],
    ids=["linear", "conv2d", "einsum", "tensordot", "addmm", "attention"],
)
def test_flops_of_products_are_torchs(call: Any) -> None:
    """Even where torch uses other names or composes the product differently."""

    def total(lib: Any) -> int:
        with module_of(lib).profile(with_flops=True) as prof:
            call(lib)
        return sum(event.flops or 0 for event in events_of(prof) if event.name != "aten::mul")  # attention's scaling

    assert total(rg) == total(torch) > 0


def test_flops_of_products_that_torch_does_not_count() -> None:
    with profile(with_flops=True) as prof:
        rg.nn.functional.conv_transpose1d(rg.ones(2, 4, 8), rg.ones(4, 6, 3), stride=2)
        rg.einsum("i,j->ij", rg.ones(3), rg.ones(4))
    by_name = {event.name: event.flops for event in prof.function_events if event.flops}
    # every element of the input is multiplied by the weights of its channel; an outer product is one term per element
    assert by_name == {"aten::convolution_input": 2 * (2 * 4 * 8) * (6 * 3), "aten::contract": 12}


# --- time -------------------------------------------------------------------------------------------------------------


def test_times_are_nested_and_add_up() -> None:
    x = rg.ones(3, requires_grad=True)
    with profile() as prof, record_function("outer"):
        x.exp().sum().backward()
    events = prof.function_events
    for event in events:
        assert 0 <= event.self_cpu_time_total <= event.cpu_time_total
        for child in event.cpu_children:
            assert event.time_range.start <= child.time_range.start <= child.time_range.end <= event.time_range.end
    (outer,) = (event for event in events if event.cpu_parent is None)
    assert prof.self_cpu_time_total == pytest.approx(outer.cpu_time_total)
    assert prof.total_average().self_cpu_time_total == pytest.approx(prof.self_cpu_time_total)
    assert sum(average.count for average in prof.key_averages()) == len(events)


# --- errors inside ----------------------------------------------------------------------------------------------------


def test_operation_that_raises_is_closed() -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError):
            rg.ones(3) @ rg.ones(4)
        rg.ones(3).exp()
    assert [event.name for event in top_level(prof)] == ["aten::matmul", "aten::exp"]


def test_backward_that_raises_is_closed() -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            grad.exp()
            raise KeyError("in backward")

    x = rg.ones(3, requires_grad=True)
    y = Fails.apply(x).sum()
    with profile() as prof:
        with record_function("step"), pytest.raises(KeyError):
            y.backward()
        x.sin()
    assert [event.name for event in top_level(prof)] == ["step", "aten::sin"]
    (exp,) = (event for event in prof.function_events if event.name == "aten::exp")
    expected = ["FailsBackward", "autograd::engine::evaluate_function: FailsBackward", "step"]
    assert [parent.name for parent in parents(exp)] == expected


def test_profiler_is_removed_when_its_block_raises() -> None:
    with pytest.raises(KeyError), profile() as prof:
        rg.ones(3).exp()
        raise KeyError
    assert local.observer is None
    assert [event.name for event in prof.function_events] == ["aten::exp"]


# --- several blocks, several threads ----------------------------------------------------------------------------------


def test_nested_profiles_record_independently() -> None:
    x = rg.ones(3)
    with profile() as outer:
        x.exp()
        with profile(record_shapes=True) as inner:
            x.sin()
        x.cos()
    assert [event.name for event in outer.function_events] == ["aten::exp", "aten::sin", "aten::cos"]
    assert [event.name for event in inner.function_events] == ["aten::sin"]
    assert local.observer is None


def test_profile_records_only_its_own_thread() -> None:
    x = rg.ones(3)
    inside: list[profile] = []

    def work() -> None:
        x.sin()
        with profile() as prof:
            x.cos()
        inside.append(prof)

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        x.exp()
    assert [event.name for event in prof.function_events] == ["aten::exp"]
    assert [event.name for event in inside[0].function_events] == ["aten::cos"]
    assert prof.function_events[0].thread != inside[0].function_events[0].thread


def test_leaving_a_profile_in_another_thread_is_an_error() -> None:
    prof = profile()
    with prof:
        texts: list[str] = []
        thread = threading.Thread(target=lambda: texts.append(message(lambda: prof.__exit__(None, None, None))))
        thread.start()
        thread.join()
        rg.ones(3).exp()
    assert "entered in another thread" in texts[0]
    assert [event.name for event in prof.function_events] == ["aten::exp"]


@parity
def test_profile_cannot_be_entered_twice(lib: Any) -> Any:
    prof = module_of(lib).profile()
    with prof:
        pass
    return message(prof.__enter__)


def test_disabled_profile_records_nothing() -> None:
    with profile(enabled=False) as prof:
        assert local.observer is None
        rg.ones(3).exp()
    assert prof.function_events == []
    assert prof.key_averages().table() == ""


def test_results_of_an_unfinished_profile_are_refused() -> None:
    prof = profile()
    assert repr(prof) == str(prof) == "<unfinished retrograd.autograd.profile>"
    with prof, pytest.raises(RuntimeError, match="leave its `with` block first"):
        prof.key_averages()
    assert repr(prof) == "[]"


def test_asking_for_gpu_times_warns() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        profile(use_device="cuda")
    with pytest.warns(UserWarning, match="The abacus is not a valid device option."):
        profile(use_device="abacus")
    with pytest.warns(FutureWarning, match="please use ``use_device = 'cuda'`` instead"), pytest.warns(UserWarning):
        profile(use_cuda=True)


def test_profiling_does_not_change_results() -> None:
    def program() -> list[Any]:
        x = rg.tensor([[0.5, -1.0], [2.0, 0.1]], requires_grad=True)
        y = (x @ x).relu().cos()
        y[0] *= 2
        y.exp().sum().backward()
        return [y.tolist(), x.grad.tolist()]

    plain = program()
    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        observed = program()
    assert observed == plain


# --- record_function --------------------------------------------------------------------------------------------------


@parity
def test_record_function_as_a_block(lib: Any) -> Any:
    profiler = module_of(lib)
    x = lib.ones(3)
    with profiler.profile(record_shapes=True) as prof, profiler.record_function("mine"):
        x.exp()
    return [
        (event.name, event.scope, event.is_user_annotation, event.input_shapes, [p.name for p in parents(event)])
        for event in events_of(prof)
    ]


def test_record_function_decorates_a_recursive_function() -> None:
    @record_function("countdown")
    def countdown(n: int) -> None:
        if n:
            rg.ones(n).exp()
            countdown(n - 1)

    with profile() as prof:
        countdown(2)
    names = [(event.name, len(list(parents(event)))) for event in prof.function_events]
    assert names == [("countdown", 0), ("aten::exp", 1), ("countdown", 1), ("aten::exp", 2), ("countdown", 2)]


def test_record_function_records_its_argument() -> None:
    with profile(record_shapes=True) as prof, record_function("layer", "hidden=3"):
        pass
    assert prof.function_events[0].concrete_inputs == ["hidden=3"]


def test_record_function_blocks_that_overlap_the_profile() -> None:
    before, after = record_function("before"), record_function("after")
    before.__enter__()
    with profile() as prof:
        rg.ones(3).exp()
        before.__exit__(None, None, None)
        after.__enter__()
    after.__exit__(None, None, None)
    assert [event.name for event in prof.function_events] == ["aten::exp", "after"]


# --- memory -----------------------------------------------------------------------------------------------------------


def memory_of(prof: profile) -> dict[str, int]:
    return {event.name: event.cpu_memory_usage for event in prof.function_events}


def test_memory_of_results_is_counted_and_released() -> None:
    x = rg.ones(100)
    with profile(profile_memory=True) as prof:
        y = x.exp()
        del y
    assert memory_of(prof) == {"aten::exp": 400, "[memory]": -400}


def test_views_and_in_place_writes_allocate_nothing() -> None:
    x = rg.ones(10, 10)
    with profile(profile_memory=True) as prof:
        x.t()
        x.reshape(100)
        x[2:5].exp_()
        x += 1
    assert sum(memory_of(prof).values()) == 0


def test_only_the_gradient_remains_allocated_after_backward() -> None:
    x = rg.ones(10, 10, requires_grad=True)
    with profile(profile_memory=True) as prof:
        (x.exp() @ x).sin().sum().backward()
    assert sum(event.cpu_memory_usage for event in prof.function_events if event.cpu_parent is None) == x.grad.nbytes
    assert prof.total_average().self_cpu_memory_usage == x.grad.nbytes


def test_memory_of_a_block_includes_its_operations() -> None:
    x = rg.ones(100)
    with profile(profile_memory=True) as prof, record_function("block"):
        y = x.exp()
        z = y.sin()
        del y
    block = prof.function_events[0]
    assert block.cpu_memory_usage == 400
    assert block.self_cpu_memory_usage == -400
    assert z.nbytes == 400


def test_memory_of_foreign_buffers_is_not_counted() -> None:
    buffer = bytearray(400)
    x = rg.from_numpy(np.frombuffer(buffer, np.float32))
    with profile(profile_memory=True) as prof:
        x.add_(1)
        del x
    assert memory_of(prof) == {"aten::add_": 0}


# --- call stacks ------------------------------------------------------------------------------------------------------


def call(x: Any) -> Any:
    return x.exp()


def test_stacks_start_at_the_call_and_nodes_share_the_stack_of_their_operation() -> None:
    x = rg.ones(3, requires_grad=True)
    with profile(with_stack=True) as prof:
        y = call(x)
        y.sum().backward()
    by_name = {event.name: event for event in prof.function_events}
    stack = by_name["aten::exp"].stack
    line = call.__code__.co_firstlineno + 1
    assert stack[0] == f"{__file__}({line}): call"
    assert stack[1].endswith("test_stacks_start_at_the_call_and_nodes_share_the_stack_of_their_operation")
    assert by_name["ExpBackward0"].stack == stack
    assert not any("retrograd/core" in place for event in prof.function_events for place in event.stack)


def test_averages_grouped_by_stack() -> None:
    x = rg.ones(3)
    with profile(with_stack=True) as prof:
        for _ in range(2):
            call(x)
        x.exp()
    assert [average.count for average in prof.key_averages()] == [3]
    assert [average.count for average in prof.key_averages(group_by_stack_n=1)] == [2, 1]
    assert "Source Location" in prof.key_averages(group_by_stack_n=1).table()
    assert "Source Location" not in prof.key_averages().table()


def test_export_stacks(tmp_path: Path) -> None:
    x = rg.ones(300, 300)
    with profile(with_stack=True) as prof:
        call(x)
    prof.export_stacks(tmp_path / "stacks", "self_cpu_time_total")
    (line,) = (tmp_path / "stacks").read_text().splitlines()
    places, cost = line.rsplit(" ", 1)
    assert places.split(";")[-1].endswith(":_call")
    assert int(cost) == int(prof.function_events[0].self_cpu_time_total) > 0


@parity
def test_export_stacks_needs_with_stack(lib: Any) -> Any:
    with module_of(lib).profile() as prof:
        lib.ones(3)
    return message(lambda: prof.export_stacks("nowhere", "self_cpu_time_total"))


def test_export_stacks_refuses_an_unknown_metric() -> None:
    with profile(with_stack=True) as prof:
        rg.ones(3).exp()
    with pytest.raises(ValueError, match=r"metric should be one of: .*self_cpu_time_total.*but got 'hours'"):
        prof.export_stacks("nowhere", "hours")


def test_attributes_of_events() -> None:
    with profile() as prof:
        rg.ones(3).exp()
    (event,) = prof.function_events
    assert isinstance(event, FunctionEvent)
    assert (event.id, event.name, event.key, event.trace_name) == (1, "aten::exp", "aten::exp", "aten::exp")
    assert event.thread == threading.get_native_id()
    assert "name=aten::exp" in repr(event)
    assert "key=aten::exp" in repr(prof.key_averages()[0])
    assert "key=Total" in repr(prof.total_average())


@pytest.mark.parametrize("option", ["use_kineto", "use_cpu", "acc_events", "with_modules"])
@pytest.mark.parametrize("library", ["torch", "retrograd"])
def test_options_without_effect_are_accepted(library: str, option: str) -> None:
    lib = importlib.import_module(library)
    with lib.autograd.profiler.profile(**{option: True}) as prof:
        lib.ones(2) * 2
    assert "aten::mul" in [event.name for event in prof.function_events]


def test_kineto_step_tracker_counts_as_in_torch() -> None:
    told = []
    for lib in (torch, rg):
        tracker = module_of(lib).KinetoStepTracker
        start = tracker.current_step()
        tracker.init_step_count("first")
        tracker.init_step_count("second")
        counts = [tracker.increment_step(name) - start for name in ("first", "second", "first")]
        known = [tracker.erase_step_count("first"), tracker.erase_step_count("first")]
        counts += [tracker.increment_step("second") - start, tracker.increment_step("late") - start]
        told.append((counts, known, [tracker.erase_step_count(name) for name in ("second", "late")]))
    assert told[0] == told[1]
