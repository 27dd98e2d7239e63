"""Parameters and buffers, which are marked tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, parity


@parity
def test_parameter_agrees_with_torch(m: Any) -> Any:
    data = m.ones(2)
    p = m.nn.Parameter(data)
    data.mul_(3)
    q = m.nn.Parameter(p, requires_grad=False)
    return [
        repr(p).replace("torch", "retrograd"),
        p,
        p.requires_grad,
        p.is_leaf,
        isinstance(p, m.nn.Parameter),
        isinstance(p, m.Tensor),
        isinstance(p, m.nn.Buffer),
        [isinstance(t, m.nn.Parameter) for t in (data, p * 2, p.detach(), p.data, p.clone(), p.to(m.float32))],
        q.requires_grad,
        isinstance(q, m.nn.Parameter),
        m.nn.Parameter().shape,
    ]


@parity
def test_parameter_of_integers(m: Any) -> Any:
    return [attempt(lambda: m.nn.Parameter(m.ones(2, dtype=m.int64))), m.nn.Parameter(m.tensor(1), False)]


def test_parameter_refuses_a_list() -> None:
    with pytest.raises(TypeError, match=r"retrograd\.tensor"):
        rg.nn.Parameter([1.0])


@parity
def test_buffer_agrees_with_torch(m: Any) -> Any:
    b, c = m.nn.Buffer(m.ones(2)), m.nn.Buffer(m.ones(2), persistent=False)
    return [b, b.persistent, c.persistent, isinstance(b, m.nn.Buffer), isinstance(b, m.nn.Parameter), repr(b)]


@parity
def test_parameters_with_further_attributes(m: Any) -> Any:
    """As they are written for torch, whose own class was once made so."""

    class Scaled(m.nn.Parameter):  # type: ignore[misc]
        def __new__(cls, data: Any, scale: float, requires_grad: bool = True) -> Any:
            made = m.Tensor._make_subclass(cls, data, requires_grad)
            made.scale = scale
            return made

    data = m.ones(2)
    p, q = Scaled(data, 0.5), Scaled(data, 2.0, requires_grad=False)
    layer = m.nn.Module()
    layer.p = p
    (p * p.scale * data).sum().backward()
    with m.no_grad():
        p.add_(1)
    return [
        type(p).__name__,
        isinstance(p, m.nn.Parameter),
        p.is_leaf,
        [p.requires_grad, q.requires_grad],
        [q.scale, p._version, data._version],
        [name for name, _ in layer.named_parameters()],
        p.grad,
        data,
    ]


@parity
def test_tensors_of_subclasses_with_further_arguments(m: Any) -> Any:
    class Point(m.Tensor):  # type: ignore[misc]
        def __new__(cls, *data: Any, on: str, requires_grad: bool = False) -> Any:
            made = m.Tensor._make_subclass(cls, m.Tensor(*data), requires_grad)
            made.on = on
            return made

    class PointParameter(Point, m.nn.Parameter):  # type: ignore[misc]
        def __new__(cls, data: Any, on: str) -> Any:
            made = m.Tensor._make_subclass(cls, data, True)
            made.on = on
            return made

    p, q = Point([3.0, 4.0], on="plane"), PointParameter(m.ones(2), on="line")
    return [
        [type(p).__name__, p.on, p.tolist(), p.requires_grad],
        [type(q).__name__, q.on, q.tolist(), q.requires_grad, isinstance(q, m.nn.Parameter)],
        m.autograd._is_checkpoint_valid(),
        attempt(lambda: m.Tensor(2, on="plane")),
    ]


def test_copies_of_parameters_are_parameters() -> None:
    p = rg.nn.Parameter(rg.ones(2))
    p.grad = rg.ones(2)
    for twin in (copy.deepcopy(p), copy.copy(p), pickle.loads(pickle.dumps(p))):
        assert isinstance(twin, rg.nn.Parameter)
        assert twin.requires_grad


@parity
def test_deep_copies_of_parameters_have_no_gradient(m: Any) -> Any:
    class Named(m.nn.Parameter):
        pass

    def left(tensor: Any) -> Any:
        tensor.grad, tensor.note = m.ones(2), 3
        twin = copy.deepcopy(tensor)
        return [
            twin.grad,
            hasattr(twin, "note"),
            twin.requires_grad,
            isinstance(twin, m.nn.Parameter),
            type(twin) is type(tensor),
        ]

    layer = m.nn.Linear(2, 1)
    layer.weight.grad = m.ones(1, 2)
    return [
        left(m.nn.Parameter(m.ones(2))),
        left(Named(m.ones(2))),
        left(m.nn.Parameter(m.ones(2), requires_grad=False)),
        left(m.ones(2, requires_grad=True)),
        left(m.nn.Buffer(m.ones(2))),
        copy.deepcopy(layer).weight.grad,
    ]


def test_parameter_is_a_plain_tensor() -> None:
    assert type(rg.nn.Parameter(rg.ones(2))) is rg.Tensor


def test_subclasses_of_parameter() -> None:
    class Named(rg.nn.Parameter):
        pass

    class Scaled(rg.Tensor):
        pass

    p = Named(rg.ones(2))
    assert type(p) is Named
    assert isinstance(p, rg.nn.Parameter)
    assert not isinstance(rg.nn.Parameter(rg.ones(2)), Named)
    assert (p * 2 == 2).all()
    module = rg.nn.Module()
    module.p = p
    assert list(module.parameters()) == [p]
    assert type(rg.nn.Parameter(Scaled([1.0, 2.0]))) is Scaled
