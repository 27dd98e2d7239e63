"""Errors are part of the interface: torch's class, the operation's name, the values and advice."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import _family

# Mistakes, and words that the message must contain.
MISTAKES: list[tuple[str, Callable[[Any], Any], tuple[str, ...]]] = [
    ("shapes", lambda m: m.ones(3) + m.ones(4), ("add", "3", "4")),
    ("shapes in place", lambda m: m.ones(3).mul_(m.ones(2, 3)), ("mul_", "[3]", "[2, 3]")),
    ("matmul", lambda m: m.ones(2, 3) @ m.ones(2, 3), ("matmul", "[2, 3]")),
    ("mm", lambda m: m.mm(m.ones(2, 3), m.ones(3)), ("mm", "[2, 3] and [3]", "matmul")),
    ("cat", lambda m: m.cat([m.ones(2, 3), m.ones(3, 2)]), ("cat",)),
    ("dtypes", lambda m: m.inner(m.ones(2), m.ones(2, dtype=m.float64)), ("float32", "float64", ".to()")),
    ("cat without a list", lambda m: m.cat(m.ones(2), m.ones(3)), ("cat([a, b])",)),
    ("stack", lambda m: m.stack([m.ones(2), m.ones(3)]), ("stack", "[2]", "[3]")),
    ("reshape", lambda m: m.ones(6).reshape(4, 2), ("reshape", "[4, 2]", "6")),
    ("view", lambda m: m.ones(2, 3).t().view(6), ("view", "reshape")),
    ("expand", lambda m: m.ones(3).expand(2, 4), ("expand",)),
    ("dimension", lambda m: m.ones(2, 3).sum(5), ("sum", "[-2, 1]", "5")),
    ("dimension of softmax", lambda m: m.softmax(m.ones(2), 3), ("softmax", "3")),
    ("index", lambda m: m.ones(3)[5], ("5", "3")),
    ("too many indices", lambda m: m.ones(3)[0, 0], ("indices",)),
    ("gather", lambda m: m.ones(3).gather(0, m.tensor([7])), ("gather", "7")),
    ("stack of numbers", lambda m: m.stack([1.0, 2.0]), ("stack", "tuple of Tensors, not of floats", "as_tensor")),
    ("cat of lists", lambda m: m.cat([[1.0], [2.0]]), ("cat", "tuple of Tensors, not of lists", "as_tensor")),
    ("meshgrid", lambda m: m.meshgrid(3, indexing="ij"), ("meshgrid(): argument 1 must be Tensor, not int",)),
    ("vstack without a list", lambda m: m.vstack(m.ones(2, 3)), ("vstack([a, b])",)),
    ("dimension of text", lambda m: m.ones(3).sum(dim="x"), ("sum", "must be int, not str")),
    ("repeats of text", lambda m: m.ones(3).repeat("x"), ("repeat", "'x'")),
    ("block_diag", lambda m: m.block_diag(3), ("block_diag", "int")),
    ("save", lambda m: m.save({}, "no_such_directory/file.pt"), ("no_such_directory",)),
    ("dtype of bitwise", lambda m: m.ones(3) & m.ones(3), ("bitwise_and", "int64")),
    ("array of tensors", lambda m: np.array([m.ones((), requires_grad=True)]), ("detach()", "np.stack")),
    ("result dtype in place", lambda m: m.ones(3, dtype=m.int64).add_(0.5), ("can't be cast",)),
    ("bool minus bool", lambda m: m.tensor([True]) - m.tensor([True]), ("sub", "logical_xor")),
    ("string operand", lambda m: m.add(m.ones(2), "a"), ("add", "str")),
    ("list operand", lambda m: m.ones(2) + [1, 2], ("list",)),  # noqa: RUF005
    ("not a tensor", lambda m: m.exp([1.0]), ("exp", "Tensor", "list")),
    ("unknown keyword", lambda m: m.ones(2).sum(dims=0), ("sum", "dims")),
    ("ragged list", lambda m: m.tensor([[1, 2], [3]]), ("2", "1")),
    ("text", lambda m: m.tensor("abc"), ("str",)),
    ("object", lambda m: m.tensor([object()]), ("object",)),
    ("None", lambda m: m.tensor(None), ("None",)),
    ("unsupported array", lambda m: m.from_numpy(np.array(["a"])), ("supported",)),
    ("integers that require grad", lambda m: m.tensor([1, 2], requires_grad=True), ("floating point",)),
    ("dtype as a text", lambda m: m.ones(2).to("float64"), ("'float64'", "retrograd.float64")),
    ("short dtype as a text", lambda m: m.ones(2).to("half"), ("retrograd.half",)),
    ("unknown device", lambda m: m.ones(2, device="tpu7"), ("device",)),
    ("backward of a vector", lambda m: (m.ones(2, requires_grad=True) * 2).backward(), ("scalar", "[2]")),
    ("backward without a graph", lambda m: m.ones(2).sum().backward(), ("does not require grad",)),
    ("no gradient", lambda m: m.autograd.grad(m.ones(1).sum(), m.ones(1)), ("require grad",)),
    ("write to a leaf", lambda m: m.ones(2, requires_grad=True).mul_(2), ("leaf", "no_grad")),
    ("numpy of a leaf", lambda m: m.ones(2, requires_grad=True).numpy(), ("detach()",)),
    ("item of many", lambda m: m.ones(2).item(), ("2",)),
    ("truth of many", lambda m: bool(m.ones(2)), ("ambiguous",)),
    ("length of a scalar", lambda m: len(m.tensor(1.0)), ("0-d",)),
    ("singular matrix", lambda m: m.linalg.inv(m.zeros(2, 2)), ("inv", "singular")),
    ("not positive definite", lambda m: m.linalg.cholesky(-m.eye(2)), ("cholesky", "positive")),
    ("not square", lambda m: m.linalg.det(m.ones(2, 3)), ("det", "square")),
    ("einsum", lambda m: m.einsum("ij,jk->ik", m.ones(2, 3), m.ones(2, 3)), ("einsum",)),
    ("empty maximum", lambda m: m.ones(0).max(), ("max",)),
    ("module for parameters", lambda m: m.optim.SGD(m.nn.Linear(1, 1)), ("Linear", "parameters()")),
    ("parameters not called", lambda m: m.optim.SGD(m.nn.Linear(1, 1).parameters), ("call it",)),
    ("index of an embedding", lambda m: m.nn.Embedding(5, 2)(m.tensor([7])), ("0 to 4", "any shape, got [1]", "7")),
    ("negative size", lambda m: m.ones(-1), ("-1",)),
]


@pytest.mark.parametrize(("mistake", "words"), [pytest.param(m, w, id=name) for name, m, w in MISTAKES])
def test_error_has_the_class_of_torch_and_says_what_is_wrong(
    mistake: Callable[[Any], Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(Exception) as expected:
        mistake(torch)
    with pytest.raises(Exception) as got:
        mistake(rg)
    assert _family(got.value) == _family(expected.value), f"{got.value!r}, torch has {expected.value!r}"
    text = str(got.value)
    for word in words:
        assert word in text, f"'{word}' is not in: {text}"


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: rg.nn.Linear(2, 3)(x),
        lambda x: rg.ones(2, 2).matmul(x),
        lambda x: rg.nn.functional.linear(rg.ones(2), x),
        lambda x: rg.exp(x),
    ],
)
def test_error_about_a_torch_tensor_says_that_it_is_one(mistake: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"must be Tensor, not torch\.Tensor; convert it first"):
        mistake(torch.ones(2, 2))


# Calls with wrong arguments, and the name of the method in the error.
MISCALLED: list[tuple[str, Callable[[Any], Any]]] = [
    ("Conv2d.__init__()", lambda m: m.nn.Conv2d(3, 4)),
    ("Conv2d.forward()", lambda m: m.nn.Conv2d(3, 4, 2)()),
    ("ConvTranspose1d.__init__()", lambda m: m.nn.ConvTranspose1d(3, 4)),
    ("ConvTranspose1d.__init__()", lambda m: m.nn.ConvTranspose1d(3, 4, 2, strides=2)),
    ("MaxPool2d.forward()", lambda m: m.nn.MaxPool2d(2)()),
    ("AvgPool3d.__init__()", lambda m: m.nn.AvgPool3d()),
    ("ReflectionPad2d.__init__()", lambda m: m.nn.ReflectionPad2d()),
    ("ReLU.__init__()", lambda m: m.nn.ReLU(True, False)),
    ("CELU.__init__()", lambda m: m.nn.CELU(beta=1)),
    ("Hardshrink.__init__()", lambda m: m.nn.Hardshrink(1, 2)),
    ("LogSoftmax.__init__()", lambda m: m.nn.LogSoftmax(axis=1)),
    ("Tanh.__init__()", lambda m: m.nn.Tanh(1)),
    ("Sigmoid.__init__()", lambda m: m.nn.Sigmoid(inplace=True)),
    ("MarginRankingLoss.__init__()", lambda m: m.nn.MarginRankingLoss(1, 2, 3, 4, 5)),
    ("LazyConv2d.__init__()", lambda m: m.nn.LazyConv2d(4)),
    ("LambdaLR.__init__()", lambda m: m.optim.lr_scheduler.LambdaLR(None)),
    ("Normal.__init__()", lambda m: m.distributions.Normal(1)),
    ("OneHotCategorical.__init__()", lambda m: m.distributions.OneHotCategorical(probabilities=1)),
    ("_Interval.__init__()", lambda m: m.distributions.constraints.interval(1)),
    ("set_multithreading_enabled.__init__()", lambda m: m.autograd.set_multithreading_enabled()),
]


@pytest.mark.parametrize(("name", "call"), MISCALLED, ids=[f"{k}-{row[0]}" for k, row in enumerate(MISCALLED)])
def test_type_error_of_a_method_begins_with_the_name_that_torch_gives(name: str, call: Callable[[Any], Any]) -> None:
    for library in (torch, rg):
        with pytest.raises(TypeError) as raised:
            call(library)
        assert str(raised.value).startswith(name)


PUBLIC = [
    "autograd",
    "autograd.profiler",
    "nn",
    "nn.parameter",
    "nn.utils.prune",
    "optim",
    "optim.lr_scheduler",
    "distributions",
    "utils.data",
]


def test_errors_of_constructors_name_public_classes() -> None:
    """An error about arguments names a class that users know, wherever the constructor is defined."""
    classes = {
        member
        for name in PUBLIC
        for key, member in vars(importlib.import_module(f"retrograd.{name}")).items()
        if isinstance(member, type) and not key.startswith("_") and member.__module__.startswith("retrograd")
    }
    assert len(classes) > 250
    constructors = {member: member.__init__ for member in classes if inspect.isfunction(member.__init__)}
    known = {f"{member.__qualname__}.__init__" for member in classes}
    wrong = {member.__name__: f.__qualname__ for member, f in constructors.items() if f.__qualname__ not in known}
    assert wrong == {}


@pytest.mark.parametrize("name", ["Conv2d", "MaxPool2d", "ConstantPad1d", "LazyBatchNorm1d", "Softmax", "ReLU", "ELU"])
def test_signatures_of_layers_match_torch(name: str) -> None:
    ours, theirs = inspect.signature(getattr(rg.nn, name)), inspect.signature(getattr(torch.nn, name))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [p.default for p in ours.parameters.values()] == [p.default for p in theirs.parameters.values()]


def test_errors_of_in_place_methods_name_the_method() -> None:
    names = [name for name in dir(rg.ones(2)) if name.endswith("_") and not name.endswith("__")]
    assert len(names) > 150
    for name in names:
        for args, kwargs in [([None] * 12, {}), ([], {"no_such_argument": 1}), ([], {})]:
            try:
                getattr(rg.ones(3), name)(*args, **kwargs)
            except TypeError as error:
                about_arguments = "argument" in str(error)
                assert f"{name}()" in str(error) or not about_arguments, f"{name}: {error}"
            except (RuntimeError, NotImplementedError, ValueError, IndexError):
                pass  # the number of arguments is right, but their types are not
    for method, args in [
        ("exp_", (3,)),
        ("add_", (1, 2, 3)),
        ("subtract_", ()),
        ("swapaxes_", (0,)),
        ("uniform_", (1, 2, 3, 4)),
    ]:
        with pytest.raises(TypeError, match=rf"^{method}\(\)"):
            getattr(rg.ones(3), method)(*args)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Rprop", "Adafactor", "Muon"])
def test_type_error_of_an_optimizer_step_matches_torch(name: str) -> None:
    for call in (lambda optimizer: optimizer.step(1, 2), lambda optimizer: optimizer.step(unknown=1)):
        said = []
        for m in (torch, rg):
            optimizer = getattr(m.optim, name)([m.ones(2, 2, requires_grad=True)])
            with pytest.raises(TypeError) as info:
                call(optimizer)
            said.append(str(info.value))
        assert said[0] == said[1]


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_type_error_of_a_recurrent_forward_matches_torch(name: str) -> None:
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"unknown": 1})):
        said = []
        for m in (torch, rg):
            with pytest.raises(TypeError) as info:
                getattr(m.nn, name)(1, 1)(*args, **kwargs)
            said.append(str(info.value))
        assert said[0] == said[1]


class Greeting:
    def __init__(self, word: str = "") -> None:
        self.word = word


def test_module_calls_the_next_constructor_only_with_call_super_init() -> None:
    for m in (torch, rg):

        class Alone(m.nn.Module, Greeting):  # type: ignore[misc, name-defined]
            pass

        class Both(m.nn.Module, Greeting):  # type: ignore[misc, name-defined]
            call_super_init = True

        assert not hasattr(Alone(), "word")
        assert Both("hello").word == Both(word="hello").word == "hello"
        with pytest.raises(TypeError, match=r"^Alone.__init__\(\) takes 1 positional argument but 2 were given"):
            Alone("hello")
        with pytest.raises(TypeError, match=r"^Alone.__init__\(\) got an unexpected keyword argument 'word'"):
            Alone(word="hello")


def test_error_about_a_freed_graph_names_the_fix() -> None:
    x = rg.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert (x.grad == 2).all(), "the failed backward changed the gradient"


def test_failed_backward_does_not_change_gradients() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert x.grad is None
    assert rg.is_grad_enabled()


def test_modes_are_restored_after_an_error_in_backward() -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("in backward")

    x = rg.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="in backward"):
        Fails.apply(x).sum().backward()
    assert rg.is_grad_enabled()
    assert x.grad is None
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        np.sqrt(np.array(-1.0))


def test_operations_do_not_warn_about_nan_but_numpy_still_does() -> None:
    x = rg.tensor([0.0, -1.0, 1000.0], requires_grad=True)
    y = x.log().sum() + x.exp().sum() + (1 / x).sum() + (x / 0).sum()
    y.backward()
    assert not np.isfinite(x.grad.numpy()).all()
    x.detach().log_().div_(0)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.array([0.0]))


def test_error_is_raised_without_a_chain_of_earlier_ones():
    """A failed call is tried again to explain the error; the user still sees one traceback."""
    for call in (
        lambda: rg.ones(2, 3) + rg.ones(2, 4),
        lambda: rg.ones(2, 3) @ rg.ones(2, 3),
        lambda: rg.ones(2, 3).sum(7),
        lambda: rg.linalg.inv(rg.zeros(2, 2)),
        lambda: rg.vmap(lambda x: x[x > 0])(rg.ones(2, 3)),
        lambda: rg.ones(3)[5],
        lambda: rg.ones(3)[0, 0],
        lambda: rg.tensor(1.0)[0],
        lambda: rg.ones(3).add_(rg.ones(2, 3)),
        lambda: rg.ones(3).cuda(),
        lambda: rg.nn.Sequential(rg.nn.Linear(2, 3))(rg.ones(5)),
        lambda: rg.nn.Conv2d(3, 4, 3)(rg.ones(2, 1, 8, 8)),
        lambda: rg.nn.Embedding(10, 3)(rg.tensor([10])),
        lambda: rg.nn.LayerNorm(4)(rg.ones(2, 3)),
    ):
        with pytest.raises((RuntimeError, IndexError)) as info:
            call()
        assert str(info.getrepr(style="native")).count("Traceback (most recent call last)") == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + rg.ones(4),
        lambda x: x.mul_(rg.ones(4)),
        lambda x: x @ rg.ones(2, 3),
        lambda x: x[5],
        lambda x: rg.linalg.inv(x[:, :2] * 0),
        lambda x: rg.vmap(lambda row: row @ rg.ones(7))(x),
        lambda x: rg.vmap(lambda row: rg.linalg.lu_factor(row.expand(3, 3))[0])(x),  # succeeds at the second attempt
    ],
)
def test_failed_call_does_not_keep_its_operands_alive(call: Callable[[Any], Any]) -> None:
    gc.collect()
    gc.disable()
    try:
        x = rg.ones(2, 3)
        operand = weakref.ref(x)
        with contextlib.suppress(RuntimeError, IndexError):
            call(x)
        del x
        assert operand() is None, "a cycle keeps the operand"
    finally:
        gc.enable()


NO_TENSORS = (3.0, [1.0, 2.0], None, "x", (1, 2), {})
SPACES = ("", "linalg", "fft", "special", "nn.functional")
SWITCHES = (
    "set_",
    "use_",
    "manual_seed",
    "seed",
    "save",
    "load",
    "compile",
)  # these take no tensor and change global state


def functions_of(space: str) -> list[str]:
    """Return the names of functions that both libraries have."""
    mine, theirs = _in(rg, space), _in(torch, space)
    names = [name for name in dir(mine) if not name.startswith(("_", *SWITCHES)) and hasattr(theirs, name)]
    return [name for name in names if callable(getattr(mine, name)) and not inspect.isclass(getattr(mine, name))]


def _in(library: Any, space: str) -> Any:
    return importlib.import_module(f"{library.__name__}.{space}") if space else library


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("space", "name"), [(space, name) for space in SPACES for name in functions_of(space)])
def test_wrong_argument_types_never_raise_attribute_error(space: str, name: str) -> None:
    """An AttributeError from deep inside would say nothing about the argument."""
    for wrong in NO_TENSORS:
        for args in ((wrong,), (rg.ones(2), wrong), (wrong, wrong), (wrong, wrong, wrong)):
            try:
                getattr(_in(rg, space), name)(*args)
            except AttributeError as error:
                raise AssertionError(f"{space}.{name}{args}: {error}") from error
            except Exception:  # other tests compare the class with torch's
                continue


def test_type_error_names_the_called_function_and_the_argument() -> None:
    for call, text in (
        (lambda: rg.linalg.norm(3.0), r"linalg_norm\(\): argument 'A' \(position 1\) must be Tensor, not float"),
        (lambda: rg.diff(rg.arange(4.0), prepend=1), r"diff\(\): argument 'prepend' must be Tensor, not int"),
        (
            lambda: rg.hstack([rg.ones(2), 3]),
            r"hstack\(\): .*'tensors' \(position 1\) must be tuple of Tensors, not of int",
        ),
        (lambda: rg.complex(rg.ones(2), 3.0), r"complex\(\): argument 'imag' must be Tensor, not float"),
        (lambda: rg.flatten([1.0]), r"flatten\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (lambda: rg.flatten(None), r"flatten\(\): argument 'input' \(position 1\) must be Tensor, not NoneType$"),
        (lambda: rg.ones(2).is_set_to(3.0), r"is_set_to\(\): argument 'tensor' .* must be Tensor, not float"),
        (lambda: rg.ones(2, 3).chunk(2, 1.0), r"chunk\(\): argument 'dim' .* must be int, not float \(1\.0\)"),
        (lambda: rg.ones(2, 3).diff(1, 1.0), r"diff\(\): argument 'dim' .* must be int, not float"),
        (lambda: rg.ones(2, 3).unsqueeze(1.0), r"unsqueeze\(\): argument 'dim' .* must be int, not float"),
        (lambda: rg.ones(2, 3).flip(1.0), r"flip\(\): argument 'dims' .* must be int, not float"),
        (lambda: rg.nn.functional.dropout([1.0]), r"dropout\(\): argument 'input' \(position 1\) must be Tensor"),
    ):
        with pytest.raises(TypeError, match=text) as info:
            call()
        assert str(info.getrepr(style="native")).count("Traceback (most recent call last)") == 1


@pytest.mark.parametrize("method", ["backward", "copy", "split", "type", "where"])
def test_aliased_methods_raise_under_their_own_name(method: str) -> None:
    with pytest.raises(TypeError, match=rf"^Tensor\.{method}\(\) got an unexpected keyword argument"):
        getattr(rg.ones(2), method)(nothing=1)


def test_errors_in_training_loops_say_what_to_write() -> None:
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    state = w * w
    state.sum().backward()
    with pytest.raises(RuntimeError, match=r"In a loop, .* carried over from the step before with detach\(\)"):
        state.sum().backward()
    with pytest.raises(RuntimeError, match=r"make the tensors .* with requires_grad=True"):
        rg.tensor([1.0, 2.0]).sum().backward()
    w = w - 0.1 * w
    with pytest.warns(UserWarning, match=r"write w -= rate \* w\.grad inside `with retrograd\.no_grad\(\):`"):
        assert w.grad is None


def test_errors_about_values_of_other_kinds_say_how_to_convert_them() -> None:
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"got ndarray; convert it with retrograd\.from_numpy\(\)"):
        w.data = np.ones(2)  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"of type list; convert it with retrograd\.tensor\(\)"):
        w.grad = [1.0, 2.0]  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"call NumPy's function, np\.sqrt, not that of math"):
        math.sqrt(w.detach())
    with pytest.raises(TypeError, match=r"format '\.3f' is for one number, .* shape \[2\]"):
        f"{w:.3f}"
    assert f"{w.detach()}" == "tensor([1., 2.])"
