"""The values that the live graph recomputes equal the original ones, for every operation."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.adapters.retrograd.second_run.recording import Recorder
from retrograd.core import observer
from retrograd.core.node import OpNode
from tests.ops.harness import Bound, Make, Row, to_ours
from tests.ops.table import ROWS

DIFFERENTIABLE = [row for row in ROWS if row.gradients and "float64" in row.dtypes]

# Some of their nodes keep no operand from which the result could be computed again; others have no node.
KEEP_NOTHING = {"add", "sub", "copysign", "scatter", "segment_reduce"}
KEEP_NOTHING |= {"positive", "real", "conj", "conj_physical", "conjugate", "resolve_conj", "resolve_neg"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=[row.name for row in DIFFERENTIABLE])
def test_values_computed_again_are_those_of_the_call(row: Row) -> None:
    compared = 0
    for sample in row.samples(Make("float64")):
        recorder = Recorder(lambda birth: False)
        observer.push(recorder)
        try:
            results = Bound(row, sample, to_ours, rg, True).run(row.function)
        finally:
            observer.pop(recorder)
        edges = [each._resolve_edge() for each in results if isinstance(each, rg.Tensor)]
        graph = Graph([edge for edge in edges if edge is not None])
        for node in graph.nodes:
            call = recorder.by_node.get(node)
            if call is None or not isinstance(node, OpNode):
                continue
            for again, result in zip(graph.compute(node), call.results, strict=False):
                compared += 1
                if not np.array_equal(again, result, equal_nan=True):
                    np.testing.assert_allclose(again, result, err_msg=f"{node.name()} in {sample}")
    assert compared or row.name in KEEP_NOTHING


X = rg.tensor([[1.0, 2.0], [3.0, 4.0]])

PLAIN = {
    "round": lambda x: x.round(decimals=-1),
    "threshold": lambda x: rg.nn.functional.threshold(x, 2.0, float("inf")),
    "nan_to_num": lambda x: (x / rg.tensor([1.0, 0.0])).nan_to_num(posinf=float("inf")),
    "pad": lambda x: rg.nn.functional.pad(x, (1, 1), value=float("-inf")),
    "sort": lambda x: x.sort(descending=True).values,
    "topk": lambda x: x.topk(1, largest=False).values,
    "kthvalue": lambda x: x.kthvalue(2).values,
    "split": lambda x: x.split(1)[0],
    "eigh": lambda x: rg.linalg.eigh(x, UPLO="U").eigenvalues,
    "svd": lambda x: rg.linalg.svd(x, full_matrices=False).S,
    "fft": lambda x: rg.fft.fft(x, n=3).real,
    "reshape": lambda x: x.reshape(4),
    "expand": lambda x: x.expand(3, 2, 2),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unflatten": lambda x: x.unflatten(1, (2, 1)),
    "sum in float64": lambda x: x.sum(dtype=rg.float64),
    "conv2d": lambda x: rg.nn.functional.conv2d(x[None, None], X[None, None], x[0, :1], padding=1),
}


@pytest.mark.parametrize("name", PLAIN)
def test_results_of_calls_with_plain_arguments_are_recomputed(name: str) -> None:
    x = X.clone().requires_grad_()
    y = PLAIN[name](x)
    edge = y._resolve_edge()
    assert edge is not None
    graph = Graph([edge])
    known = graph.value(edge) if name in ("eigh", "svd") else graph.compute(edge[0])[edge[1]]
    np.testing.assert_array_equal(known, y.detach().numpy())


def test_random_numbers_are_not_drawn_again() -> None:
    x = rg.zeros(3, requires_grad=True)
    y = (x * 1).uniform_()
    z = y * x
    before = rg.get_rng_state()
    graph = Graph([z._resolve_edge()])
    assert rg.equal(before, rg.get_rng_state())
    values = [value for node in graph.nodes for value in graph.results(node)]
    assert values
    assert all(np.isfinite(value).all() for value in values)
