"""Containers: lists, dictionaries and sequences of modules and parameters."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, parity


def kinds(modules: Any) -> list[str]:
    return [type(module).__name__ for module in modules]


@parity
def test_sequential(m: Any) -> Any:
    nn = m.nn
    net = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Tanh())
    named = nn.Sequential(OrderedDict([("first", nn.ReLU()), ("second", nn.Tanh())]))
    report: list[Any] = [len(net), kinds(net), list(named._modules), kinds(net[1:]), type(net[-1]).__name__]
    report += [named.first is named[0], attempt(lambda: net[3]), attempt(lambda: net["0"])]
    net[1] = nn.Sigmoid()
    net.append(nn.GELU())
    net.insert(0, nn.Identity())
    net.extend([nn.ELU(), nn.CELU()])
    report += [kinds(net), list(net._modules), type(net.pop(1)).__name__, list(net._modules)]
    del net[0]
    del net[1:3]
    report += [kinds(net), list(net._modules), net(m.ones(1, 2))]
    joined = net + named
    net += named
    report += [kinds(joined), kinds(net), kinds(named * 2), kinds(2 * named)]
    net *= 2
    report += [kinds(net), attempt(lambda: net + 3), attempt(lambda: net * 0), attempt(lambda: net * 1.5)]
    return report


@parity
def test_module_list(m: Any) -> Any:
    nn = m.nn
    items = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    items.append(nn.GELU())
    items.insert(1, nn.ELU())
    items.extend([nn.CELU()])
    items += [nn.SiLU()]
    report: list[Any] = [kinds(items), len(items), kinds(items[1:3]), kinds(items[::-1]), type(items[-1]).__name__]
    items[0] = nn.Sigmoid()
    popped = items.pop(-1)
    del items[1]
    report += [kinds(items), list(items._modules), type(popped).__name__, kinds(items + nn.ModuleList([nn.Identity()]))]
    report += [attempt(lambda: items[9]), attempt(lambda: items[-9]), attempt(lambda: items.extend(3))]
    return [*report, attempt(lambda: items(m.ones(1))), nn.ReLU() in items, items[0] in items]


@parity
def test_module_dict(m: Any) -> Any:
    nn = m.nn
    items = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    items["c"] = nn.GELU()
    items.update([("d", nn.ELU()), ("a", nn.SiLU())])
    items.update(nn.ModuleDict({"e": nn.CELU()}))
    report: list[Any] = [list(items), list(items.keys()), kinds(items.values()), [k for k, _ in items.items()]]
    report += [
        len(items),
        "a" in items,
        "z" in items,
        type(items.pop("b")).__name__,
        list(items),
        items.c is items["c"],
    ]
    del items["a"]
    report += [list(items), attempt(lambda: items["z"]), attempt(lambda: items.update(3))]
    report += [attempt(lambda: items.update([3])), attempt(lambda: items.update([("a", 1, 2)]))]
    items.clear()
    return [*report, len(items)]


@parity
def test_parameter_list(m: Any) -> Any:
    nn = m.nn
    items = nn.ParameterList([m.ones(2), nn.Parameter(m.zeros(3))])
    items.append(m.ones(1))
    items += [m.ones(4)]
    items.extend(iter([m.ones(5)]))
    items[0] = m.zeros(7)
    report: list[Any] = [len(items), [tuple(p.shape) for p in items], list(items.state_dict())]
    report += [[isinstance(p, nn.Parameter) for p in items], [tuple(p.shape) for p in items[1:3]]]
    report += [attempt(lambda: items[9]), attempt(lambda: items.extend(m.ones(2))), attempt(lambda: items(1))]
    items.append("anything")
    return [*report, items[-1], len(list(items.parameters()))]


@parity
def test_parameter_dict(m: Any) -> Any:
    nn = m.nn
    items = nn.ParameterDict({"a": m.ones(1), "b": nn.Parameter(m.ones(2))})
    items["c"] = m.ones(3)
    items.update({"d": m.ones(4)})
    report: list[Any] = [list(items), list(items.keys()), [tuple(p.shape) for p in items.values()]]
    report += [[k for k, _ in items.items()], list(items.state_dict()), len(items), "a" in items, "z" in items]
    report += [items.get("z"), items.get("a"), items.setdefault("e", m.ones(5)), list(reversed(items))]
    report += [items.pop("b"), items.popitem()[0], list(items), attempt(lambda: items["z"]), attempt(lambda: items[3])]
    union = items | nn.ParameterDict({"u": m.ones(1)})
    items |= nn.ParameterDict({"v": m.ones(1)})
    report += [list(union), list(items), list(items.copy()), list(items.fromkeys(["x", "y"], m.ones(1)))]
    items.clear()
    return [*report, len(items), attempt(lambda: items(1)), attempt(lambda: items.update(3))]


@parity
def test_parameters_in_containers_are_found(m: Any) -> Any:
    class Net(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items = m.nn.ParameterList([m.ones(2)])
            self.named = m.nn.ParameterDict({"a": m.ones(3)})
            self.layers = m.nn.ModuleList([m.nn.Linear(1, 1)])

    return [name for name, _ in Net().named_parameters()]


@parity
def test_repr_of_parameter_containers(m: Any) -> Any:
    """As in torch, single lines are inline, and several lines are indented twice inside a module."""
    nn = m.nn

    class Net(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.items = nn.ParameterList([m.ones(2, 3), 3, nn.Parameter(m.zeros((), dtype=m.float64))])
            self.named = nn.ParameterDict({"a": m.ones(2, dtype=m.float64), "b": "text"})
            self.one = nn.ParameterList([m.ones(2)])
            self.nested = nn.ParameterList([nn.ParameterDict({"a": m.ones(2)})])

    net = Net()
    texts = [repr(net), *map(repr, net.children()), repr(nn.ParameterList()), repr(nn.ParameterDict())]
    return [text.replace(f"{m.__name__}.", "") for text in texts]


@parity
def test_container_methods_take_keyword_arguments(m: Any) -> Any:
    listed = m.nn.ModuleList([m.nn.ReLU(), m.nn.Tanh()])
    in_order = m.nn.Sequential(m.nn.ReLU()).extend(sequential=[m.nn.Tanh()])
    by_name = m.nn.ModuleDict()
    by_name.update(modules={"a": m.nn.ReLU()})
    return [str(listed.pop(key=0)), str(in_order.pop(key=-1)), str(in_order), str(by_name)]


def test_error_about_an_index_names_the_length_of_the_container() -> None:
    with pytest.raises(IndexError, match="index 3 is out of range for a container of 2"):
        rg.nn.Sequential(rg.nn.ReLU(), rg.nn.ReLU())[3]


@parity
def test_data_parallel_calls_the_module(m: Any) -> Any:
    class Scaled(m.nn.Module):
        def forward(self, x: Any, *, by: float = 1.0) -> Any:
            return x * by

    model = m.nn.DataParallel(Scaled(), device_ids=[0], dim=1)
    return [model(m.ones(2), by=3.0), model.device_ids, isinstance(model.module, Scaled)]


@parity
def test_insert_refuses_positions_out_of_range(m: Any) -> Any:
    net = m.nn.Sequential(m.nn.ReLU(), m.nn.Tanh())
    report = [attempt(lambda place=place: net.insert(place, m.nn.ELU())) for place in (3, -3)]
    return [*report, kinds(net.insert(2, m.nn.ELU())), kinds(net.insert(-3, m.nn.CELU()))]


@parity
def test_sequential_with_none_cannot_be_called(m: Any) -> Any:
    return [attempt(lambda: m.nn.Sequential(m.nn.ReLU(), None)(m.ones(2)))]


def test_refused_key_is_not_added() -> None:
    values = rg.nn.ParameterDict({"a": rg.ones(1)})
    with pytest.raises(KeyError):
        values["a.b"] = rg.ones(1)
    assert list(values) == ["a"]
    assert "a.b" not in repr(values)


@parity
def test_order_of_parameter_dicts(m: Any) -> Any:
    make, one = m.nn.ParameterDict, m.ones(1)
    pairs = [("b", one), ("c", one), ("a", one)]
    updated = make(OrderedDict(z=one))
    updated.update({"y": one, "x": one})
    updated.update(make(OrderedDict(w=one, v=one)))
    return [
        list(make(dict(pairs))),
        list(make(OrderedDict(pairs))),
        list(make(pairs)),
        [name for name, _ in make(dict(pairs)).named_parameters()],
        list(updated),
        list(m.nn.ModuleDict({"b": m.nn.ReLU(), "a": m.nn.ReLU()})),
    ]


@parity
def test_union_of_dictionaries_and_parameter_dicts(m: Any) -> Any:
    named = m.nn.ParameterDict({"a": m.ones(1)})
    before = {"z": 1}
    union = before | named
    return [
        list(union),
        type(union) is dict,
        list(before),
        list(named | before),
        attempt(lambda: 3 | named),
        attempt(lambda: m.nn.ParameterDict().popitem()),
    ]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (
            rg.nn.ReLU,
            r"nn\.modules\.activation\.ReLU is not a Module subclass: it is a class; create a module .* ReLU\(\)$",
        ),
        ([rg.nn.ReLU()], r"list is not a Module subclass; pass the modules one by one, as in Sequential\(\*modules\)$"),
        ({"a": rg.nn.ReLU()}, "dict is not a Module subclass; to name them, use an OrderedDict or add_module"),
        (rg.log_softmax, r"call a function in forward\(\), or use the module nn\.LogSoftmax\(\)$"),
        (lambda x: x, r"call a function in forward\(\)$"),
        (3, "int is not a Module subclass$"),
    ],
)
def test_error_about_what_is_not_a_module_suggests_a_remedy(given: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        rg.nn.Sequential(given)


@pytest.mark.parametrize(("kind", "advice"), [("ModuleList", "Sequential"), ("ModuleDict", r"modules\['name'\]")])
def test_error_about_calling_a_container_suggests_a_remedy(kind: str, advice: str) -> None:
    with pytest.raises(NotImplementedError, match=rf'{kind}\] is missing the required "forward" function: .*{advice}'):
        getattr(rg.nn, kind)()(rg.ones(2))
