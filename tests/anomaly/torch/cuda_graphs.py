"""CUDA graphs without a GPU: what is launched while one is captured is written down, and carried out by a replay.

As on a GPU, nothing is computed in a capture: results are there, and hold anything. To read one is an error, after
which the capture is lost.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from retrograd.anomaly.adapters.torch.boundaries import cuda_graphs

_READING = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "item")
_READ_BY = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__")
_under_way: list[Graph] = []


class Graph:
    """Stands for ``torch.cuda.CUDAGraph``."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._launched: list[tuple[Any, Any, Any, list[Tensor]]] = []
        self.is_lost = False
        self._mode = _Capture(self)

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        self._launched.clear()
        self._mode.__enter__()
        _under_way.append(self)

    def capture_end(self) -> None:
        _under_way.remove(self)
        self._mode.__exit__(None, None, None)
        if self.is_lost:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, results in self._launched:
            found = func(*args, **kwargs)
            for result, now in zip(results, _tensors(found), strict=False):
                result.data.copy_(now)  # which no version tells

    def pool(self) -> None:
        return None

    def refuse(self) -> None:
        self.is_lost = True
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def launch(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func._schema.is_mutable:
            self._launched.append((func, args, kwargs, []))
            written = [
                args[number] if number < len(args) else kwargs[each.name]
                for number, each in enumerate(func._schema.arguments)
                if each.alias_info is not None and each.alias_info.is_write
            ]
            return None if not func._schema.returns else written[0] if len(func._schema.returns) == 1 else written
        results = func(*args, **kwargs)
        if not any(each.alias_info is not None for each in func._schema.returns):  # those of views share memory
            self._launched.append((func, args, kwargs, _tensors(results)))
            for each in _tensors(results):
                each.fill_(torch.nan if each.is_floating_point() else 1)
        return results


class _Capture(TorchDispatchMode):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in _READING:
            self._graph.refuse()
        return self._graph.launch(func, args, kwargs or {})


class graph:  # noqa: N801
    """Stands for ``torch.cuda.graph``."""

    def __init__(self, cuda_graph: Graph, *args: Any, **kwargs: Any) -> None:
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None:
        self.cuda_graph.capture_begin()

    def __exit__(self, *args: object) -> None:
        self.cuda_graph.capture_end()


def _tensors(results: Any) -> list[Tensor]:
    return [each for each in (results if isinstance(results, (tuple, list)) else [results]) if isinstance(each, Tensor)]


def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch behave as if the CPU were a GPU, as far as graphs are concerned; for watches that begin afterwards."""
    for owner in (torch.cuda, torch.cuda.graphs):
        monkeypatch.setattr(owner, "CUDAGraph", Graph)
        monkeypatch.setattr(owner, "graph", graph)
        monkeypatch.setattr(owner, "is_current_stream_capturing", lambda: bool(_under_way))
        monkeypatch.setattr(owner, "graph_pool_handle", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", _random_states)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda states: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(cuda_graphs, "_DEVICE", "cpu")
    for name in _READ_BY:
        monkeypatch.setattr(Tensor, name, _refusing(getattr(Tensor, name)), raising=False)


def _random_states() -> list[Tensor]:
    for each in _under_way:
        each.refuse()
    return []


def _refusing(read: Any) -> Any:
    def refusing(tensor: Tensor, *args: Any) -> Any:
        for each in _under_way:
            each.refuse()
        return read(tensor, *args)

    return refusing
