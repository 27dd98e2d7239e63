"""Module: attributes, registration, traversal, modes and conversion."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, message, parity


def nested(m: Any) -> Any:
    """Return a module with shared parts, both kinds of buffers, and empty entries."""

    class Inner(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = m.nn.Parameter(m.ones(2))
            self.register_buffer("mean", m.zeros(2))
            self.register_buffer("scratch", m.ones(1, dtype=m.int64), persistent=False)
            self.register_parameter("nothing", None)

        def forward(self, x: Any) -> Any:
            return x * self.weight

    class Outer(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Inner()
            self.second = Inner()
            self.again = self.first
            self.absent = None
            self.scale = m.nn.Parameter(m.tensor(2.0))
            self.plain = 7
            self.tied = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x)) * self.scale

    return Outer()


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


@parity
def test_named_parameters_buffers_and_modules(m: Any) -> Any:
    net = nested(m)
    return [
        names(net.named_parameters()),
        names(net.named_parameters(remove_duplicate=False)),
        names(net.named_parameters(prefix="net", recurse=False)),
        names(net.named_buffers()),
        names(net.named_buffers(remove_duplicate=False)),
        names(net.named_modules()),
        names(net.named_modules(prefix="net", remove_duplicate=False)),
        names(net.named_children()),
        [type(child).__name__ for child in net.children()],
        [type(module).__name__ for module in net.modules()],
        [tuple(p.shape) for p in net.parameters()],
        [tuple(b.shape) for b in net.buffers()],
        list(net.state_dict()),
    ]


@parity
def test_get_submodule_parameter_and_buffer_by_dotted_name(m: Any) -> Any:
    net = nested(m)
    return [
        net.get_submodule("") is net,
        net.get_submodule("second") is net.second,
        net.get_parameter("first.weight") is net.first.weight,
        net.get_buffer("second.mean") is net.second.mean,
        [attempt(lambda name=name: net.get_submodule(name)) for name in ("third", "plain", "first.weight", "scale.x")],
        [attempt(lambda name=name: net.get_parameter(name)) for name in ("first.mean", "x", "plain")],
        [attempt(lambda name=name: net.get_buffer(name)) for name in ("first.weight", "x", "plain")],
    ]


@parity
def test_set_submodule(m: Any) -> Any:
    net = nested(m)
    relu = m.nn.ReLU()
    net.set_submodule("first.act", relu)
    net.set_submodule("second", relu, strict=True)
    return [
        names(net.named_modules()),
        attempt(lambda: net.set_submodule("", relu)),
        attempt(lambda: net.set_submodule("first.weight", relu)),
        attempt(lambda: net.set_submodule("missing", relu, strict=True)),
        attempt(lambda: net.set_submodule("second", 3)),
    ]


@parity
def test_assigning_and_deleting_attributes_of_a_module(m: Any) -> Any:
    net = nested(m)
    report: list[Any] = []
    net.second = None
    net.first.weight = None
    net.first.mean = m.ones(3)
    report += [names(net.named_parameters()), net.first.mean, net.second is None, net.first.weight is None]
    net.plain = m.nn.Parameter(m.ones(1))  # replaces an ordinary attribute
    net.scale = None
    report += [names(net.named_parameters()), "plain" in net.__dict__]
    net.plain = m.nn.Parameter(m.zeros(4))
    report.append(net.plain)
    del net.first.mean
    del net.plain
    report += [hasattr(net.first, "mean"), hasattr(net, "plain"), names(net.named_buffers())]
    net.extra = m.nn.Buffer(m.ones(2), persistent=False)
    report += [names(net.named_buffers()), list(net.state_dict())]
    net.extra = m.zeros(2)  # remains a non-persistent buffer
    report += [net.extra, names(net.named_buffers()), list(net.state_dict())]
    net.module = m.nn.ReLU()
    net.module = m.nn.Parameter(m.ones(1))  # replaces the module
    report += [names(net.named_modules()), names(net.named_parameters())]
    return report


@parity
def test_which_attributes_may_replace_which(m: Any) -> Any:
    values: list[Any] = [
        None,
        5,
        m.ones(1),
        m.nn.Parameter(m.ones(1)),
        m.nn.ReLU(),
    ]
    report: list[Any] = []
    for register in ("register_parameter", "register_buffer", "add_module"):
        for first in values:
            for then in [*values, m.nn.Buffer(m.ones(1))]:
                net = m.nn.Module()
                refused = attempt(lambda net=net, first=first, name=register: getattr(net, name)("x", first))
                if refused is not None:
                    continue
                outcome = attempt(lambda net=net, then=then: setattr(net, "x", then))
                kept = [kind for kind in ("_parameters", "_buffers", "_modules") if "x" in getattr(net, kind)]
                report.append([register, type(first).__name__ == "NoneType", outcome, kept, "x" in net.__dict__])
    return report


@parity
def test_refused_assignments(m: Any) -> Any:
    net = nested(m)
    mistakes = [
        lambda: setattr(net, "scale", m.ones(1)),
        lambda: setattr(net, "first", 3),
        lambda: setattr(net.first, "mean", "text"),
        lambda: net.register_parameter("plain", m.nn.Parameter(m.ones(1))),
        lambda: net.register_parameter("a.b", m.nn.Parameter(m.ones(1))),
        lambda: net.register_parameter("", None),
        lambda: net.register_parameter(3, None),
        lambda: net.register_parameter("x", m.ones(1)),
        lambda: net.register_buffer("plain", m.ones(1)),
        lambda: net.register_buffer("a.b", m.ones(1)),
        lambda: net.register_buffer("", m.ones(1)),
        lambda: net.register_buffer("x", 3),
        lambda: net.add_module("plain", m.nn.ReLU()),
        lambda: net.add_module("a.b", m.nn.ReLU()),
        lambda: net.add_module("", m.nn.ReLU()),
        lambda: net.add_module("x", 3),
        lambda: net.missing,
        lambda: delattr(net, "missing"),
    ]
    return [attempt(mistake) for mistake in mistakes]


@parity
def test_assigning_before_super_init_is_refused(m: Any) -> Any:
    class Early(m.nn.Module):
        def __init__(self, what: str) -> None:
            if what == "parameter":
                self.x = m.nn.Parameter(m.ones(1))
            elif what == "module":
                self.x = m.nn.ReLU()
            elif what == "buffer":
                self.register_buffer("x", m.ones(1))
            else:
                self.x = 3
            super().__init__()

    return [attempt(lambda what=what: Early(what).x) for what in ("parameter", "module", "buffer", "number")]


def test_error_about_a_missing_super_init_suggests_it() -> None:
    class Forgetful(rg.nn.Module):
        def __init__(self) -> None:
            pass

    assert "super().__init__()" in message(lambda: setattr(Forgetful(), "x", rg.nn.ReLU()))
    assert "super().__init__()" in message(lambda: Forgetful()(rg.ones(1)))


@parity
def test_non_leaf_parameters_are_refused(m: Any) -> Any:
    net = nested(m)
    return [attempt(lambda: net.register_parameter("x", m.nn.Parameter(m.ones(1)) * 2)), 0]


@parity
def test_training_mode_and_requires_grad_of_modules(m: Any) -> Any:
    net = nested(m)
    states = [net.training]
    assert net.eval() is net
    states += [module.training for module in net.modules()]
    net.first.train()
    states += [module.training for module in net.modules()]
    net.train(False)
    states += [net.first.training, attempt(lambda: net.train(3))]
    net.requires_grad_(False)
    states += [p.requires_grad for p in net.parameters()]
    net.first.requires_grad_()
    return states + [p.requires_grad for p in net.parameters()]


@parity
def test_module_zero_grad(m: Any) -> Any:
    net = nested(m)
    report = []
    for set_to_none in (True, False):
        net(m.ones(2)).sum().backward()
        report.append([p.grad for p in net.parameters()])
        net.zero_grad(set_to_none=set_to_none)
        report.append([p.grad for p in net.parameters()])
    loss = (net(m.ones(2)) ** 2).sum()
    loss.backward(create_graph=True)
    net.zero_grad(set_to_none=False)
    report.append([(p.grad, p.grad.requires_grad) for p in net.parameters()])
    return report


@parity
def test_apply_visits_modules_in_torchs_order(m: Any) -> Any:
    net = nested(m)
    order: list[str] = []
    assert net.apply(lambda module: order.append(type(module).__name__)) is net
    return order


def dtypes(net: Any) -> list[str]:
    return [str(t.dtype).split(".")[-1] for t in (*net.parameters(), *net.buffers())]


@parity
def test_converting_modules(m: Any) -> Any:
    net = nested(m)
    weight = net.first.weight
    net(m.ones(2)).sum().backward()
    report: list[Any] = [dtypes(net.double()), weight.grad.dtype, weight is net.first.weight]
    report += [dtypes(net.half()), dtypes(net.float()), dtypes(net.to(m.float64)), dtypes(net.to("cpu", m.float32))]
    report += [dtypes(net.to(m.ones(1, dtype=m.float64))), dtypes(net.to(dtype=m.float32)), dtypes(net.cpu())]
    report += [dtypes(net.type(m.float64)), attempt(lambda: net.to(m.int64)), attempt(lambda: net.to(1, 2, 3, 4))]
    report += [attempt(lambda: net.to("cpu", copy=True)), attempt(lambda: net.to("cpu", m.float64, False, True))]
    return report


@parity
def test_backward_after_converting_a_module(m: Any) -> Any:
    net = nested(m)
    y = net(m.ones(2)).sum()  # keeps its graph alive
    net.double()
    net.zero_grad()
    net(m.ones(2, dtype=m.float64)).sum().backward()
    return [p.grad for p in net.parameters()] + [y.detach()]


@parity
def test_to_empty(m: Any) -> Any:
    net = nested(m)
    return [net.to_empty(device="cpu") is net, [tuple(p.shape) for p in net.parameters()], dtypes(net)]


@parity
def test_missing_forward(m: Any) -> Any:
    return attempt(lambda: m.nn.Module()(3))


@parity
def test_repr_of_modules(m: Any) -> Any:
    class Shown(m.nn.Module):
        def __init__(self, lines: int, child: bool) -> None:
            super().__init__()
            self.lines = lines
            if child:
                self.child = m.nn.Linear(1, 2)
                self.none = None
                self.add_module("empty", None)

        def extra_repr(self) -> str:
            return "\n".join(f"line {k}" for k in range(self.lines))

    return [repr(Shown(lines, child)) for lines in (0, 1, 2) for child in (False, True)] + [repr(nested(m))]


@parity
def test_dir_of_modules(m: Any) -> Any:
    net = m.nn.Sequential(nested(m))
    found = dir(net[0])
    return ["scale" in found, "first" in found, "mean" in dir(net[0].first), "forward" in found, "0" in dir(net)]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_modules_with_hooks_pickle_in_every_protocol(protocol: int) -> None:
    layer = rg.nn.Linear(2, 2)
    layer.register_forward_pre_hook(_doubled)
    layer.register_state_dict_pre_hook(_unseen)
    again = pickle.loads(pickle.dumps(layer, protocol))
    x = rg.randn(3, 2)
    assert again(x).tolist() == layer(x).tolist() == rg.nn.functional.linear(2 * x, *layer.parameters()).tolist()
    assert again.state_dict().keys() == layer.state_dict().keys()


@parity
def test_module_with_its_own_getstate(m: Any) -> Any:
    class Cached(m.nn.Linear):
        def __getstate__(self) -> dict[str, Any]:
            return {name: value for name, value in self.__dict__.items() if name != "cache"}

        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)
            self.cache = "new"

    layer = Cached(2, 3)
    layer.cache = "old"
    twin = copy.deepcopy(layer)
    x = m.ones(1, 2)
    return [layer.cache, twin.cache, m.equal(twin(x), layer(x)), twin.weight is layer.weight, list(twin.state_dict())]


def test_hooks_unpickled_from_another_process_are_not_overwritten() -> None:
    layer = rg.nn.Identity()
    following = layer.register_forward_pre_hook(_doubled).id + 1
    layer._forward_pre_hooks[following] = _tenfold  # as if another process had used this number
    layer._forward_pre_hooks[following + 1] = _tenfold
    handle = layer.register_forward_pre_hook(_doubled)
    assert handle.id not in (following, following + 1)
    assert len(layer._forward_pre_hooks) == 4
    handle.remove()
    assert len(layer._forward_pre_hooks) == 3


def _tenfold(module: object, args: tuple[rg.Tensor]) -> rg.Tensor:
    return 10 * args[0]


def _doubled(module: object, args: tuple[rg.Tensor]) -> rg.Tensor:
    return 2 * args[0]


def _unseen(module: object, prefix: str, keep_vars: bool) -> None:
    pass


def test_pickle_and_deepcopy_keep_shared_parameters() -> None:
    net = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin[1].weight is twin[0].weight
        assert len(list(twin.parameters())) == 3
        x = rg.randn(3, 2)
        assert (twin(x) == net(x)).all()


def test_deepcopy_of_hooks_calls_them_with_the_copy() -> None:
    net = rg.nn.Linear(2, 2)
    seen: list[Any] = []
    net.register_forward_hook(lambda module, args, output: seen.append(module))
    net.register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module))
    twin = copy.deepcopy(net)
    twin(rg.ones(1, 2))
    twin.load_state_dict(net.state_dict())
    assert seen == [twin, twin]


def test_calling_a_module_without_hooks_takes_the_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    net = rg.nn.Identity()
    monkeypatch.setattr(rg.nn.Module, "_call_with_hooks", lambda *args: pytest.fail("there are no hooks"))
    x = rg.ones(1)
    assert net(x) is x


def test_modules_under_no_grad_and_inference_mode() -> None:
    net = rg.nn.Linear(2, 2)
    for mode in (rg.no_grad(), rg.inference_mode()):
        with mode:
            assert not net(rg.ones(1, 2)).requires_grad


def test_traversing_a_cycle_of_modules_ends() -> None:
    net = rg.nn.Module()
    net.child = rg.nn.Module()
    net.child.__dict__["_modules"]["up"] = net
    assert [name for name, _ in net.named_modules()] == ["", "child"]


@parity
def test_buffer_cannot_replace_a_module(lib: Any) -> Any:
    net = lib.nn.Sequential(lib.nn.ReLU())
    return [attempt(lambda: setattr(net, "0", lib.nn.Buffer(lib.ones(1)))), type(net[0]).__name__]
