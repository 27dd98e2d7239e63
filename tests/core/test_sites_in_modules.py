"""Call sites of operations inside modules: the notes that modules make agree with the stack frames."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core import sites, state
from retrograd.nn import functional as F

_alive: list[nn.Module] = []  # nodes hold their modules by weak references


def kept(module: nn.Module) -> Any:
    _alive.append(module)
    return module


def noted(program: Callable[[], rg.Tensor]) -> list[tuple[Any, ...]]:
    """Return the name, call site and module class of every node in the graph of a program's result."""

    def nodes(root: Any) -> Iterator[Any]:
        seen, stack = set(), [root]
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            yield node
            stack.extend(target for target, _ in node.next_functions)

    with rg.anomaly.watch():
        result = program()
        found = sorted(nodes(result.grad_fn), key=lambda node: node.seq)
        sites.forget()
    return [
        (node.name(), sites.site_of(node), type(sites.module_of(node)).__name__) for node in found if not node.is_leaf
    ]


def entered_without_notes(module: Any) -> Any:
    """Replace ``enter_module`` so that every later question is answered from the frames."""
    outer = state.local.within
    state.local.within = sites.Within(sites.Trace(None, None, weakref.ref(module)))
    return outer


def by_hand(x: rg.Tensor) -> rg.Tensor:
    return F.softplus(x) + F.normalize(x, dim=-1)  # composed of several operations


class Mixed(nn.Module):
    """Uses layers, functions and operations, and one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.Tanh()))
        self.twice = nn.Linear(4, 4)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=by_hand, batch_first=True)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        x = self.twice(x)
        for _ in range(2):
            x = self.inner(x) + self.twice(x)
        x = self.encoder(x[None])[0]
        return F.cosine_similarity(x, by_hand(x).exp(), dim=-1)


class Own(nn.Linear):
    """A layer of the library with a user's forward around it."""

    def forward(self, input: rg.Tensor) -> rg.Tensor:
        return super().forward(input.sin()).cos()


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: rg.Tensor, depth: int = 2) -> rg.Tensor:
        x = F.gelu(self.layer(x))
        return self(x, depth - 1) if depth else x


def hooked() -> rg.Tensor:
    net = kept(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    net[0].register_forward_hook(lambda module, args, output: F.normalize(output.exp(), dim=-1))
    net.register_forward_pre_hook(lambda module, args: (by_hand(args[0]),))
    return net(rg.ones(2, 4, requires_grad=True))


def patched() -> rg.Tensor:
    layer = nn.Linear(4, 4)
    layer.forward = lambda x: by_hand(F.linear(x, layer.weight))  # type: ignore[method-assign]
    return kept(nn.Sequential(layer, nn.Softplus()))(rg.ones(2, 4))


def in_generators() -> rg.Tensor:
    net = kept(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    return sum((net(rg.ones(2, 4) * k).sum() for k in (1, 2)), rg.zeros(()))


def after_an_error() -> rg.Tensor:
    net = kept(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    with pytest.raises(RuntimeError):
        net(rg.ones(2, 3))
    return F.normalize(net(rg.ones(2, 4)), dim=-1)


PROGRAMS: dict[str, Callable[[], rg.Tensor]] = {
    "mixed": lambda: kept(Mixed())(rg.ones(3, 4)),
    "twice the same module": lambda: (lambda net: net(rg.ones(3, 4)) + net(rg.ones(3, 4)))(kept(Mixed())),
    "own forward": lambda: kept(nn.Sequential(Own(4, 4), nn.Linear(4, 4)))(rg.ones(3, 4)),
    "recursive": lambda: kept(Recursive())(rg.ones(3, 4)),
    "recurrent": lambda: kept(nn.LSTM(4, 4, num_layers=2))(rg.ones(3, 2, 4))[0],
    "attention": lambda: kept(nn.MultiheadAttention(4, 2))(*[rg.ones(3, 4)] * 3)[0],
    "hooks": hooked,
    "a forward of its own": patched,
    "generators": in_generators,
    "after an error": after_an_error,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sites_noted_by_modules_agree_with_the_frames(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> rg.Tensor:
        return PROGRAMS[name]().sum() + PROGRAMS[name]().sum()

    found = noted(twice)
    with monkeypatch.context() as patch:
        patch.setattr("retrograd.nn.modules.module.enter_module", entered_without_notes)
        expected = noted(twice)
    assert len(found) > 4
    assert any(module != "NoneType" for _, _, module in found)
    assert all(site is not None and site.filename == __file__ for _, site, _ in found)
    assert found == expected


def test_notes_of_a_module_are_dropped_with_it() -> None:
    net = Mixed()
    with rg.anomaly.watch():
        net(rg.ones(3, 4)).sum().backward()
        assert state.local.within is None
    known = set(sites._latest)
    assert id(net) in known
    identities = {id(module) for module in net.modules()}
    del net
    assert not identities & set(sites._latest)


def test_sites_of_one_module_called_in_several_threads() -> None:
    layer = nn.Linear(4, 4)
    lines: dict[int, set[Any]] = {}

    def first() -> rg.Tensor:
        return layer(rg.ones(2, 4))

    def second() -> rg.Tensor:
        return layer(rg.ones(2, 4))

    def work(function: Callable[[], rg.Tensor]) -> None:
        start = function.__code__.co_firstlineno
        lines[start] = {sites.site_of(function().grad_fn).lineno for _ in range(300)}  # type: ignore[union-attr]

    with rg.anomaly.watch():
        threads = [threading.Thread(target=work, args=(each,)) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert lines == {start: {start + 1} for start in lines}
    assert len(lines) == 2
