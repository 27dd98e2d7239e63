"""Hooks of modules: what they see, what they may change, and in which order they run."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity


def layer(m: Any) -> Any:
    """Return a module that computes ``3 x + 1``."""
    net = m.nn.Linear(1, 1)
    with m.no_grad():
        net.weight.fill_(3.0)
        net.bias.fill_(1.0)
    return net


@parity
def test_forward_hooks(m: Any) -> Any:
    net, seen = layer(m), []
    x = m.ones(2, 1)
    handles = [
        net.register_forward_pre_hook(lambda module, args: seen.append(("pre", module is net, args))),
        net.register_forward_hook(lambda module, args, out: seen.append(("post", module is net, args, out.detach()))),
    ]
    y = net(x)
    for handle in handles:
        handle.remove()
    net(x)
    return [seen, y.detach()]


@parity
def test_forward_hooks_can_replace_arguments_and_results(m: Any) -> Any:
    net = layer(m)
    net.register_forward_pre_hook(lambda module, args: args[0] * 2)
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net.register_forward_hook(lambda module, args, out: out * 10)
    net.register_forward_hook(lambda module, args, out: out + 5)
    return net(m.ones(1, 1)).detach()


@parity
def test_order_of_hooks_and_prepend(m: Any) -> Any:
    net, order = layer(m), []

    def note(name: str) -> Any:
        return lambda *args: order.append(name)

    for register, prepended in [
        (net.register_forward_pre_hook, True),
        (net.register_forward_hook, True),
        (net.register_full_backward_pre_hook, True),
        (net.register_full_backward_hook, True),
    ]:
        name = register.__name__
        register(note(f"{name} 1"))
        register(note(f"{name} 2"))
        register(note(f"{name} 0"), prepend=prepended)
    net(m.ones(1, 1, requires_grad=True)).sum().backward()
    return order


@parity
def test_forward_hooks_with_kwargs(m: Any) -> Any:
    class Scale(m.nn.Module):
        def forward(self, x: Any, factor: float = 1.0) -> Any:
            return x * factor

    net, seen = Scale(), []
    net.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"factor": kwargs["factor"] + 1}), with_kwargs=True
    )
    net.register_forward_hook(lambda module, args, kwargs, out: seen.append((args, kwargs)), with_kwargs=True)
    y = net(m.ones(1), factor=2.0)
    net.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    return [y, seen, attempt(lambda: net(m.ones(1), factor=2.0))]


@parity
def test_always_call_hooks_run_after_an_error(m: Any) -> Any:
    class Fails(m.nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("broken")

    net, seen = Fails(), []
    net.register_forward_hook(lambda module, args, out: seen.append("not called"))
    net.register_forward_hook(lambda module, args, out: seen.append(("called", out)), always_call=True)
    net.register_forward_hook(lambda module, args, out: 1 / 0, always_call=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = attempt(lambda: net(m.ones(1)))
    return [outcome, seen, [str(w.message) for w in caught]]


@parity
def test_always_call_hook_that_has_run_is_not_called_again(m: Any) -> Any:
    net, seen = layer(m), []
    net.register_forward_hook(lambda module, args, out: seen.append(out.detach()), always_call=True)
    net.register_forward_hook(lambda module, args, out: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [attempt(lambda: net(m.ones(1, 1)) and None), seen]


@parity
def test_full_backward_hooks(m: Any) -> Any:
    net, seen = layer(m), []
    net.register_full_backward_pre_hook(lambda module, g: seen.append(("pre", g)))
    net.register_full_backward_hook(lambda module, gi, go: seen.append(("post", gi, go)))
    x = m.ones(2, 1, requires_grad=True)
    net(x).sum().backward()
    return [seen, x.grad, net.weight.grad]


@parity
def test_full_backward_hooks_can_replace_gradients(m: Any) -> Any:
    net = layer(m)
    net.register_full_backward_pre_hook(lambda module, g: (g[0] * 2,))
    net.register_full_backward_pre_hook(lambda module, g: (g[0] + 1,))
    net.register_full_backward_hook(lambda module, gi, go: (gi[0] * 100,))
    x = m.ones(2, 1, requires_grad=True)
    net(x).sum().backward()
    return [x.grad, net.weight.grad, net.bias.grad]


@parity
def test_full_backward_hooks_with_several_inputs_and_outputs(m: Any) -> Any:
    class Two(m.nn.Module):
        def forward(self, x: Any, number: Any, y: Any, z: Any) -> Any:
            return x * y * number, "text", y + z

    net, seen = Two(), []
    net.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    x, y = m.tensor([2.0], requires_grad=True), m.tensor([5.0], requires_grad=True)
    a, _, b = net(x, 3, y, m.ones(1))
    (a * 1 + b * 7).sum().backward()
    a, _, b = net(x, 3, y, m.ones(1))
    a.sum().backward()  # no gradient arrives at the second output
    return [seen, x.grad, y.grad]


@parity
def test_full_backward_hooks_if_no_input_requires_grad(m: Any) -> Any:
    net, seen = layer(m), []
    net.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    net(m.ones(2, 1)).sum().backward()
    report = [seen, net.weight.grad]
    net.register_full_backward_hook(lambda module, gi, go: (m.ones(2, 1),))
    return [*report, attempt(lambda: net(m.ones(2, 1)).sum().backward())]


@parity
def test_backward_hooks_that_return_the_wrong_number_of_gradients(m: Any) -> Any:
    report = []
    for register, hook in [
        ("register_full_backward_pre_hook", lambda module, g: (g[0], g[0])),
        ("register_full_backward_hook", lambda module, gi, go: (gi[0], gi[0])),
    ]:
        net = layer(m)
        getattr(net, register)(hook)
        report.append(attempt(lambda net=net: net(m.ones(1, 1, requires_grad=True)).sum().backward()))
    return report


@parity
def test_backward_hooks_with_nothing_to_differentiate(m: Any) -> Any:
    net, seen = layer(m), []
    net.register_full_backward_hook(lambda module, gi, go: seen.append("called"))
    with m.no_grad():
        y = net(m.ones(1, 1))
    return [y, y.requires_grad, seen, net.requires_grad_(False)(m.ones(1, 1)).requires_grad]


@parity
def test_backward_through_a_tensor_that_is_not_an_output(m: Any) -> Any:
    kept = []

    class Leaks(m.nn.Module):
        def forward(self, x: Any) -> Any:
            kept.append(x * 2)
            return x * 3

    net = Leaks()
    net.register_full_backward_hook(lambda module, gi, go: None)
    net(m.ones(1, requires_grad=True))
    return [attempt(lambda: kept[0].sum().backward()), len(kept)]


@parity
def test_writing_to_an_output_with_a_backward_hook_is_refused(m: Any) -> Any:
    net = layer(m)
    net.register_full_backward_hook(lambda module, gi, go: None)
    return [attempt(lambda: net(m.ones(1, 1, requires_grad=True)).add_(1)), 0]


@parity
def test_double_backward_through_a_hooked_module(m: Any) -> Any:
    class Cube(m.nn.Module):
        def forward(self, x: Any) -> Any:
            return x**3

    net, seen = Cube(), []
    net.register_full_backward_hook(lambda module, gi, go: seen.append(gi[0].detach()))
    x = m.tensor([2.0], requires_grad=True)
    (g,) = m.autograd.grad(net(x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return [g.detach(), h, seen[0]]


def test_backward_hook_on_a_dict_output_warns() -> None:
    class Dict(rg.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"y": x}

    net = Dict()
    net.register_full_backward_hook(lambda module, gi, go: None)
    with pytest.warns(UserWarning, match="Tensor or a tuple of Tensors"):
        net(rg.ones(1, requires_grad=True))


# --- hooks of all modules ---------------------------------------------------------------------------------------------


@contextmanager
def everywhere(m: Any, *registrations: tuple[str, Any]) -> Iterator[None]:
    handles = [getattr(m.nn.modules.module, name)(hook) for name, hook in registrations]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@parity
def test_global_hooks(m: Any) -> Any:
    net, order = m.nn.Sequential(layer(m), m.nn.ReLU()), []
    net[0].register_forward_hook(lambda module, args, out: order.append("own"))

    def note(what: str) -> Any:
        return lambda module, *rest: order.append((what, type(module).__name__))

    with everywhere(
        m,
        ("register_module_forward_pre_hook", note("pre")),
        ("register_module_forward_hook", note("post")),
        ("register_module_full_backward_pre_hook", note("backward pre")),
        ("register_module_full_backward_hook", note("backward")),
    ):
        net(m.ones(1, 1, requires_grad=True)).sum().backward()
    net(m.ones(1, 1))
    return order


@parity
def test_global_always_call_hooks_run_after_an_error(m: Any) -> Any:
    class Fails(m.nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("broken")

    seen: list[Any] = []
    handle = m.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: seen.append(type(module).__name__), always_call=True
    )
    try:
        return [attempt(lambda: Fails()(m.ones(1))), seen]
    finally:
        handle.remove()


@parity
def test_registration_hooks(m: Any) -> Any:
    seen: list[Any] = []

    def double(module: Any, name: str, value: Any) -> Any:
        seen.append(name)
        return m.nn.Parameter(value.detach() * 2)

    with everywhere(
        m,
        ("register_module_parameter_registration_hook", double),
        ("register_module_buffer_registration_hook", lambda module, name, value: seen.append(("buffer", name))),
        ("register_module_module_registration_hook", lambda module, name, value: seen.append(("module", name))),
    ):
        net = m.nn.Module()
        net.weight = m.nn.Parameter(m.ones(1))
        net.register_buffer("mean", m.ones(1))
        net.child = m.nn.ReLU()
    net.other = m.nn.ReLU()
    return [net.weight, seen]


def test_hook_handle_as_context_manager_and_removed_twice() -> None:
    net, seen = layer(rg), []
    with net.register_forward_hook(lambda *args: seen.append(1)) as handle:
        net(rg.ones(1, 1))
    handle.remove()
    net(rg.ones(1, 1))
    assert seen == [1]


def test_module_without_hooks_adds_no_nodes() -> None:
    y = layer(rg)(rg.ones(1, 1))
    assert y.grad_fn.name() == "LinearBackward0"


@pytest.mark.parametrize("lib", [torch, rg])
def test_backward_hook_gets_none_if_no_input_requires_grad(lib: Any) -> None:
    layer, seen = lib.nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs))
    with pytest.warns(UserWarning, match="no input"):
        layer(lib.ones(3, 2)).sum().backward()
    assert seen == [(None,)]
    layer(lib.ones(3, 2, requires_grad=True)).sum().backward()
    assert len(seen) == 2


@parity
def test_hooks_are_stored_as_registered(m: Any) -> Any:
    net = layer(m)

    def note(module: Any, *args: Any) -> None:
        args[0][0].sum()

    net.register_forward_pre_hook(note)
    net.register_forward_hook(note)
    net.register_full_backward_hook(note)
    return [list(found.values()) == [note] for found in (net._forward_pre_hooks, net._forward_hooks)]


@parity
def test_hooks_added_to_the_dictionary_directly(m: Any) -> Any:
    net, seen = layer(m), []
    net._forward_pre_hooks[10**9] = lambda module, args: seen.append(("pre", len(args)))
    net._forward_hooks[10**9] = lambda module, args, out: seen.append(("post", len(args), out.detach()))
    net(m.ones(1, 1))
    return seen


@parity
def test_hooks_reordered_in_the_dictionary_directly(m: Any) -> Any:
    net, seen = layer(m), []
    handles = [net.register_forward_hook(lambda *args, at=at: seen.append(at)) for at in range(3)]
    net._forward_hooks.move_to_end(handles[2].id, last=False)
    net._forward_hooks.move_to_end(handles[0].id)
    net(m.ones(1, 1))
    return [seen, attempt(lambda: net._forward_hooks.move_to_end(10**9))]


@parity
def test_replacing_the_dictionaries_of_hooks(m: Any) -> Any:
    net, seen = layer(m), []
    x = m.ones(1, 1, requires_grad=True)
    names = ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")
    for name in names:
        getattr(net, f"register_{name}")(lambda *args, name=name: seen.append(f"old {name}"))
    for attribute in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
        setattr(net, attribute, OrderedDict())
    net(x).sum().backward()
    for prepend in (False, True):
        handles = [
            getattr(net, f"register_{name}")(lambda *args, at=(name, prepend): seen.append(at), prepend=prepend)
            for name in names
        ]
    net(x).sum().backward()
    for handle in handles:
        handle.remove()
    net(x).sum().backward()
    return seen


class KeepsItsHandle:
    """A mixin for the Module of either library that keeps the handle of its own hook."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.handle = self.register_forward_hook(type(self).count)  # type: ignore[attr-defined]

    def count(self, args: Any, out: Any) -> None:
        self.calls += 1

    def forward(self, x: Any) -> Any:
        return x


class TheirsWithHandle(KeepsItsHandle, torch.nn.Module):
    pass


class OursWithHandle(KeepsItsHandle, rg.nn.Module):
    pass


@pytest.mark.parametrize("protocol", [None, *range(pickle.HIGHEST_PROTOCOL + 1)])
def test_handle_of_a_copied_module_removes_the_hook_of_the_copy(protocol: int | None) -> None:
    seen = []
    for kind in (TheirsWithHandle, OursWithHandle):
        net: Any = kind()
        twin = copy.deepcopy(net) if protocol is None else pickle.loads(pickle.dumps(net, protocol))
        twin(1)
        twin.handle.remove()
        twin(1)
        net(1)
        seen.append((net.calls, twin.calls))
    assert seen[1] == seen[0] == (1, 1)


def test_handle_of_a_freed_module_can_be_pickled() -> None:
    handle = layer(rg).register_forward_hook(print)
    twin = pickle.loads(pickle.dumps(handle))
    assert twin.id == handle.id
    twin.remove()


@parity
def test_handle_refers_to_the_dictionary_of_hooks(m: Any) -> Any:
    net = layer(m)
    handle = net.register_forward_hook(lambda *args: None)
    return [handle.hooks_dict_ref() is net._forward_hooks, handle.id in handle.hooks_dict_ref()]


@parity
def test_full_backward_hooks_may_return_lists(m: Any) -> Any:
    net, x = layer(m), m.ones(1, 1, requires_grad=True)
    net.register_full_backward_pre_hook(lambda module, grads: [grads[0] * 2])
    net.register_full_backward_hook(lambda module, inputs, outputs: [inputs[0] * 10])
    net(x).sum().backward()
    return [x.grad, net.weight.grad]


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (lambda grads: (5,), TypeError, "hook 'mistaken' returned 'int'"),
        (lambda grads: (rg.ones(3, 3),), RuntimeError, r"'mistaken' has changed the size .* \[1, 1\] to \[3, 3\]"),
        (lambda grads: (grads[0].double(),), RuntimeError, "'mistaken' has changed the type"),
    ],
)
@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_wrong_results_of_full_backward_hooks_are_refused(
    kind: str, returned: Any, error: type[Exception], text: str
) -> None:
    def mistaken(module: Any, grads: Any, *outputs: Any) -> Any:
        return returned(grads)

    net = layer(rg)
    getattr(net, kind)(mistaken)
    with pytest.raises(error, match=text):
        net(rg.ones(1, 1, requires_grad=True)).sum().backward()


def old_backward_hook(m: Any, function: Any, *args: Any, hook: Any = None) -> list[Any]:
    """Return what an old-style backward hook of a module around ``function`` sees, warnings, and the gradients."""
    seen: list[Any] = []

    class Computes(m.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any) -> Any:
            return function(*args)

    def note(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append([type(module).__name__, grad_input, grad_output])
        return None if hook is None else hook(grad_input, grad_output)

    module = Computes()
    module.register_backward_hook(note)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = module(*args)
    inputs = [arg for arg in args if isinstance(arg, m.Tensor) and arg.requires_grad]
    flat = result.values() if isinstance(result, dict) else [result] if isinstance(result, m.Tensor) else result
    total = sum((k + 2) * value.sum() for k, value in enumerate(flat) if isinstance(value, m.Tensor))
    gradients = m.autograd.grad(total, inputs) if inputs else ()
    return [seen, [warning.category.__name__ for warning in caught], gradients]


@parity
def test_old_backward_hooks_see_the_last_node(m: Any) -> Any:
    def leaf(*numbers: float) -> Any:
        return m.tensor(numbers, requires_grad=True)

    x, y = leaf(1.0, 2.0), leaf(3.0, -4.0)
    return {
        "one node": old_backward_hook(m, m.relu, x * 1),
        "of a leaf": old_backward_hook(m, m.relu, x),
        "of two": old_backward_hook(m, lambda a, b: a * b, x * 1, y * 2),
        "the last of several": old_backward_hook(m, lambda a: (a * 3).square(), x),
        "two that make outputs": old_backward_hook(m, lambda a: (a * 3, a.square()), x),
        "the node of the first": old_backward_hook(m, lambda a, b: (a, b), x * 1, y * 2),
        "a dictionary": old_backward_hook(m, lambda a: {"what": None, "first": a.square(), "second": a * 3}, x),
        "a list": old_backward_hook(m, lambda a: [a.square()], x),
        "a number among the inputs": old_backward_hook(m, lambda a, number: a * number, x, 3.0),
        "without a gradient": old_backward_hook(m, m.relu, m.ones(2)),
        "one that replaces": old_backward_hook(m, m.relu, x * 1, hook=lambda gi, go: (gi[0] * 10,)),
        "one that replaces some": old_backward_hook(
            m, lambda a, b: a * b, x * 1, y, hook=lambda gi, go: (gi[0] * 10, gi[1])
        ),
    }


@parity
def test_guided_backpropagation_with_old_backward_hooks(m: Any) -> Any:
    """Every ReLU stops negative gradients, as in older tutorials."""
    net = m.nn.Sequential(m.nn.ReLU(), m.nn.Tanh(), m.nn.ReLU())
    for module in net:
        if isinstance(module, m.nn.ReLU):
            module.register_backward_hook(lambda module, grad_input, grad_output: (grad_input[0].clamp(min=0),))
    x = m.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    (net(x) * m.tensor([1.0, -2.0, 3.0])).sum().backward()
    return x.grad


@parity
def test_wrong_results_of_old_backward_hooks_are_refused(m: Any) -> Any:
    def returned(what: Any) -> Any:
        return lambda: old_backward_hook(m, m.relu, m.ones(2, requires_grad=True), hook=lambda gi, go: what)

    return [attempt(returned(what)) for what in (3, (m.ones(2), m.ones(2)), (m.ones(3),), ())]


def test_old_backward_hooks_warn_about_what_they_miss() -> None:
    layer = rg.nn.Linear(2, 2)
    layer.register_backward_hook(lambda *args: None)
    with pytest.warns(FutureWarning, match="register_backward_hook of Linear: .* grad_input.*_full_backward_hook"):
        layer(rg.ones(1, 2))
    # here a layer is one node, whose gradients are those of its input and its parameters
    seen: list[Any] = []
    with pytest.warns(FutureWarning):
        layer.register_backward_hook(lambda module, gi, go: seen.append([tuple(grad.shape) for grad in gi]))
        layer(rg.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == [[(1, 2), (2, 2), (2,)]]


@parity
def test_old_backward_hooks_of_all_modules(m: Any) -> Any:
    net, seen = m.nn.Sequential(m.nn.ReLU(), m.nn.Tanh()), []
    modules = m.nn.modules.module
    for module in net:
        module.register_backward_hook(lambda module, gi, go: seen.append(("own", type(module).__name__, gi, go)))
    with (
        mock.patch.object(torch.nn.modules.module, "_global_is_full_backward_hook", None),  # torch never resets it
        modules.register_module_backward_hook(lambda module, *grads: seen.append((type(module).__name__, *grads))),
    ):
        net(m.tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    return seen


@parity
def test_old_and_full_backward_hooks_cannot_be_mixed(m: Any) -> Any:
    def ignore(*args: Any) -> None:
        pass

    report = []
    for first, second in (("full_backward", "backward"), ("backward", "full_backward"), ("backward", "backward")):
        module = m.nn.Linear(2, 2)
        getattr(module, f"register_{first}_hook")(ignore)
        report.append(attempt(lambda: getattr(module, f"register_{second}_hook")(ignore) and "taken"))  # noqa: B023
        copied = copy.deepcopy(module)
        report.append(attempt(lambda: getattr(copied, f"register_{second}_hook")(ignore) and "taken"))  # noqa: B023
        report.append(attempt(lambda: module.register_full_backward_pre_hook(ignore) and "taken"))  # noqa: B023
    return report


def test_old_and_full_global_backward_hooks_cannot_be_mixed() -> None:
    """In torch, the first kind registered counts even after its hook is removed."""
    modules = rg.nn.modules.module
    with modules.register_module_backward_hook(print):
        with pytest.raises(RuntimeError, match="regular backward hooks and full backward hooks as a global"):
            modules.register_module_full_backward_hook(print)
        with modules.register_module_backward_hook(print):
            pass
    with (
        modules.register_module_full_backward_hook(print),
        pytest.raises(RuntimeError, match="regular backward hooks and full backward hooks as a global"),
    ):
        modules.register_module_backward_hook(print)
