"""State dicts: saving, loading, mismatches and hooks."""

from __future__ import annotations

import importlib
import re
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def model(m: Any) -> Any:
    class Net(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = m.nn.Linear(2, 1)
            self.register_buffer("mean", m.zeros(2))
            self.register_buffer("scratch", m.zeros(2), persistent=False)
            self.register_buffer("nothing", None)
            self.scale = m.nn.Parameter(m.tensor(1.0))

    return Net()


def ones(m: Any) -> Any:
    return {name: m.ones(value.shape) for name, value in model(m).state_dict().items()}


@parity
def test_state_dict_contents(m: Any) -> Any:
    net = model(m)
    state = net.state_dict()
    into: dict[str, Any] = {}
    same = net.state_dict(destination=into, prefix="net.")
    return [
        list(state),
        isinstance(state, OrderedDict),
        [(value.requires_grad, isinstance(value, m.nn.Parameter)) for value in state.values()],
        [(value.requires_grad, isinstance(value, m.nn.Parameter)) for value in net.state_dict(keep_vars=True).values()],
        same is into,
        list(into),
        {key: dict(value) for key, value in state._metadata.items()},
        [type(state).__name__, type(state._metadata).__name__],
        {key: dict(value) for key, value in m.nn.Sequential(m.nn.BatchNorm1d(2)).state_dict()._metadata.items()},
    ]


@parity
def test_state_dict_shares_memory(m: Any) -> Any:
    net = model(m)
    net.state_dict()["scale"].fill_(7)
    return net.scale


@parity
def test_load_state_dict(m: Any) -> Any:
    net = model(m)
    before = dict(net.named_parameters())
    result = net.load_state_dict(ones(m))
    same = [before[name] is value for name, value in net.named_parameters()]
    return [repr(result), str(result), list(result), [(n, t.detach()) for n, t in net.state_dict().items()], same]


@parity
def test_load_state_dict_with_mismatches_and_strict_false(m: Any) -> Any:
    net, state = model(m), ones(m)
    del state["mean"]
    state["extra"] = m.ones(1)
    state["layer.extra.deep"] = m.ones(1)
    state["scratch"] = m.ones(2)
    result = net.load_state_dict(state, strict=False)
    return [repr(result), result.missing_keys, result.unexpected_keys, net.scale, net.scratch]


def spoiled(m: Any, **changes: Any) -> dict[str, Any]:
    state = ones(m)
    for name, value in changes.items():
        name = name.replace("__", ".")
        if value is None:
            del state[name]
        else:
            state[name] = value
    return state


CASES: dict[str, Any] = {
    "missing": lambda m: spoiled(m, mean=None, scale=None),
    "unexpected": lambda m: spoiled(m, extra=m.ones(1), layer__other=m.ones(1)),
    "size": lambda m: spoiled(m, layer__weight=m.ones(3, 2)),
    "all": lambda m: spoiled(m, layer__weight=m.ones(3, 2), mean=None, extra=m.ones(1)),
    "no tensor": lambda m: spoiled(m, mean="text"),
}


def normalised(text: str) -> str:
    """Return a message without the libraries' names and torch's mention of its own class."""
    return re.sub(r"torch\.Tensor", "a Tensor", text).replace("torch.", "retrograd.")


@pytest.mark.parametrize("case", CASES)
def test_load_state_dict_errors_are_worded_as_in_torch(case: str) -> None:
    def load(m: Any) -> str:
        return message(lambda: model(m).load_state_dict(CASES[case](m)))

    assert normalised(load(rg)) == normalised(load(torch))


@parity
def test_load_state_dict_refuses_wrong_values(m: Any) -> Any:
    return [attempt(lambda case=case: model(m).load_state_dict(CASES[case](m))) for case in CASES] + [
        attempt(lambda: model(m).load_state_dict([1, 2])),
    ]


@parity
def test_load_state_dict_with_assign(m: Any) -> Any:
    net, state = model(m), {name: value.to(m.float64) for name, value in ones(m).items()}
    net.scale.requires_grad_(False)
    net.mean = m.nn.Buffer(net.mean)
    net.load_state_dict(state, assign=True)
    return [
        [
            (name, value.dtype, value.requires_grad, isinstance(value, m.nn.Parameter))
            for name, value in net.named_parameters()
        ],
        net.mean is state["mean"],
        isinstance(net.mean, m.nn.Buffer),
        attempt(lambda: net.load_state_dict({**state, "scale": m.ones(4, dtype=m.int64)}, assign=True)),
        net.scale,
        list(net.state_dict()),
    ]


@parity
def test_loading_one_element_into_a_scalar(m: Any) -> Any:
    net = model(m)
    net.load_state_dict({**ones(m), "scale": m.tensor([5.0])})
    return [net.scale, attempt(lambda: net.load_state_dict({**ones(m), "scale": m.ones(2)}) and 0)]


@parity
def test_load_state_dict_converts_dtypes(m: Any) -> Any:
    net = model(m)
    net.load_state_dict({name: value.to(m.float64) * 2 for name, value in ones(m).items()})
    return [net.scale, net.mean]


def test_load_state_dict_takes_arrays_and_torch_tensors() -> None:
    theirs = torch.nn.Linear(3, 2)
    ours = rg.nn.Linear(3, 2)
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    ours.load_state_dict({"weight": np.zeros((2, 3)), "bias": np.ones(2)})
    assert (ours.bias == 1).all()
    assert ours.weight.dtype == rg.float32
    theirs.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in ours.state_dict().items()})
    assert (theirs.weight == 0).all()


@parity
def test_extra_state(m: Any) -> Any:
    class Counting(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    first, second = m.nn.Sequential(Counting()), m.nn.Sequential(Counting())
    first[0].count = 3
    second.load_state_dict(first.state_dict())
    plain = m.nn.Sequential(m.nn.ReLU())
    return [
        dict(first.state_dict()),
        second[0].count,
        attempt(lambda: second.load_state_dict({})),
        attempt(lambda: plain.load_state_dict(first.state_dict())),
        attempt(lambda: m.nn.Module().get_extra_state()),
    ]


@parity
def test_state_dict_hooks(m: Any) -> Any:
    net, seen = model(m), []
    net.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append(("pre", module is net, prefix, keep)))

    def rename(module: Any, state: Any, prefix: str, metadata: Any) -> None:
        seen.append(("post", module is net, prefix, dict(metadata)))
        state[prefix + "renamed"] = state.pop(prefix + "scale")

    net.register_state_dict_post_hook(rename)
    state = net.state_dict(prefix="p.")

    def back(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        seen.append(("load pre", module is net, prefix))
        state["scale"] = state.pop("renamed")

    net.register_load_state_dict_pre_hook(back)

    def forgive(module: Any, keys: Any) -> None:
        seen.append(("load post", module is net, list(keys.missing_keys)))
        keys.missing_keys.clear()

    net.register_load_state_dict_post_hook(forgive)
    loaded = net.state_dict()
    del loaded["mean"]
    result = net.load_state_dict(loaded)
    return [list(state), seen, repr(result)]


@parity
def test_wrong_state_dict_hooks_are_refused(m: Any) -> Any:
    first, second, third = model(m), model(m), model(m)
    first.register_state_dict_post_hook(lambda *args: 3)
    second.register_load_state_dict_post_hook(lambda *args: 3)
    third._register_state_dict_hook(lambda module, state, prefix, metadata: {"replaced": 1})
    third._register_load_state_dict_pre_hook(lambda state, *rest: state.update(ones(m)))
    report = [attempt(first.state_dict), third.state_dict()]
    try:
        second.load_state_dict(ones(m))
    except AssertionError as error:
        report.append(str(error))
    return [*report, repr(third.load_state_dict({}))]


@parity
def test_state_dict_hook_may_return_an_empty_state(m: Any) -> Any:
    inner, outer = m.nn.Sequential(m.nn.ReLU()), m.nn.Sequential(m.nn.Linear(1, 1))
    outer._register_state_dict_hook(lambda *args: OrderedDict())
    inner._register_state_dict_hook(lambda *args: {"kept": 1})
    return [len(outer.state_dict()), dict(inner.state_dict())]


def test_state_dict_with_positional_arguments() -> None:
    def older(m: Any) -> list[str]:
        class Older(m.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = m.nn.Linear(1, 1)

            def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
                return super().state_dict(destination, prefix, keep_vars)

        into: dict[str, Any] = {}
        with pytest.warns(FutureWarning, match="osition"):
            kept = Older().state_dict(into, "a.", True)
            assert kept is into and all(value.requires_grad for value in kept.values())
        with pytest.warns(FutureWarning, match="osition"):
            return [*kept, *m.nn.Sequential(Older()).state_dict()]

    assert older(rg) == older(torch)


@parity
def test_overridden_save_to_and_load_from_state_dict(m: Any) -> Any:
    class Upper(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = m.nn.Parameter(m.ones(2))

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "W"] = destination.pop(prefix + "w")

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            state_dict[prefix + "w"] = state_dict.pop(prefix + "W")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    net = m.nn.Sequential(Upper())
    return [list(net.state_dict()), repr(net.load_state_dict({"0.W": m.zeros(2)})), net[0].w]


@parity
def test_loading_batch_norm_states_of_older_versions(m: Any) -> Any:
    net = m.nn.BatchNorm1d(2)
    state = net.state_dict()
    del state["num_batches_tracked"]
    del state._metadata
    found = [repr(net.load_state_dict(state)), net.num_batches_tracked]
    net(m.ones(3, 2))
    return [*found, repr(net.load_state_dict(dict(state))), net.num_batches_tracked]


@parity
def test_consume_prefix_in_state_dict(m: Any) -> Any:
    consume = importlib.import_module(f"{m.__name__}.nn.modules.utils").consume_prefix_in_state_dict_if_present
    inner = m.nn.Sequential(m.nn.Linear(2, 1), m.nn.BatchNorm1d(1))
    state = m.nn.Sequential(OrderedDict(module=inner)).state_dict()
    consume(state, "module.")
    plain = {"module.a": 1, "b": 2}
    consume(plain, "module.")
    return [list(state), dict(state._metadata), plain, str(inner.load_state_dict(state))]


def test_error_about_prefixed_names_suggests_a_remedy() -> None:
    """DataParallel and compiled models add such prefixes."""
    model = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.Linear(3, 1))
    wrapped = rg.nn.Sequential(OrderedDict(module=model))
    for module, state_dict in ((model, wrapped.state_dict()), (wrapped, model.state_dict())):
        with pytest.raises(RuntimeError, match=r"'module\.', those") as caught:
            module.load_state_dict(state_dict)
        advice = str(caught.value).rpartition(": load ")[2].removesuffix(".")
        module.load_state_dict(eval(advice, {"state_dict": state_dict}))
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict({"other.bias": rg.ones(3), **dict(list(model.state_dict().items())[1:])})
    assert "load {" not in str(caught.value)
