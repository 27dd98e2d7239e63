"""Births in the code of an installed package, which the user should not change, and an eps of zero."""

from __future__ import annotations

import importlib
import linecache
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, NaNEvent, diagnose, watch
from retrograd.anomaly.report import format_event
from retrograd.anomaly.stack_frames import is_own, package_of
from tests.anomaly.both import libraries, line, mended, only_event, run, runs
from tests.anomaly.disguises import HERE

PACKAGE = """\
import typing

{imports}

class Norm(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.variance_epsilon = eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(variance + self.variance_epsilon)


class Model(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.first = torch.nn.Linear(2, 2)
        self.norms = torch.nn.ModuleList([Norm(eps)])

    def forward(self, x):
        return self.norms[0](self.first(x) * 0.0)


class NotSafeError(Exception):
    pass


def shifted(layer, x):
    with torch.no_grad():
        y = x.flip(0) * 2.0 + 1.0
    return layer(y)


def line_search(loss_at):
    for scale in range(12):
        loss = loss_at(scale)
        if not torch.isfinite(loss):
            continue
        loss.backward()
        return loss


def reset(loss):
    if not torch.isfinite(loss):
        loss = torch.tensor(1e9)
    return loss


def infer(loss_at, *args):
    loss_at(*args).backward()


def fit_by_search(loss_at):
    for _ in range(3):
        try:
            check_no_nans(loss_at())
        except NotSafeError:
            continue
    raise NotSafeError("All attempts have come to no numbers.")


def check_no_nans(value):
    if torch.isnan(value).any():
        raise NotSafeError("Input data contains values that are no numbers.")


class Process:
    def __init__(self, inputs, targets):
        check_no_nans(inputs)
        check_no_nans(targets)


class Standardised:
    def __init__(self, inputs, targets):
        check_no_nans((targets - targets.mean()) / targets.std())


def traced(model, *args):
    try:
        return model(*args)
    except ValueError as error:
        raise ValueError("Error while computing the model.") from error


def score(distribution, observed):
    return list(scores(distribution, {{"value": observed}}))


def scores(distribution, site):
    try:
        yield distribution.log_prob(site["value"])
    except ValueError as error:
        raise ValueError("Error while computing the model.") from error


class Made(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Normal(torch.distributions.Normal, metaclass=Made):
    pass


def factorised(matrix):
    factor, info = torch.linalg.cholesky_ex(matrix)
    if torch.any(info):
        raise NotSafeError("Matrix not positive definite after repeatedly adding jitter up to 1.0e-04.")
    return factor


def entropy(p):
    return -(p * torch.log(p)).sum()


def square(x):
    return (x * 1e3).pow(2).mean()


def fit(model, batches):
    for Xi, yi in batches:
        loss = ((model(Xi) - yi) ** 2).mean()
        loss.backward()


class Sampled(typing.NamedTuple):
    now: torch.Tensor
    following: torch.Tensor


def train(data):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampled = Sampled(data[:1], data[1:])
    loss = (torch.nn.functional.linear(sampled.following, model.weight) - model(sampled.now)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
MODEL = """\
model = package.Model(0.0)
loss = model(torch.ones(3, 2)).sum()
loss.backward()
"""


@pytest.fixture(params=["retrograd", "torch"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def package(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package that lies where pip would put it."""
    name = f"installed_with_{library}"
    (tmp_path / "site-packages" / name).mkdir(parents=True)
    text = PACKAGE.format(imports="import torch" if library == "torch" else "import retrograd as torch")
    (tmp_path / "site-packages" / name / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


@runs
def test_a_birth_in_a_package_names_the_line_of_the_program_that_led_there(
    library: str, package: str, steps: bool
) -> None:
    text = f"import {package} as package\np = torch.tensor([0.5, 0.0], requires_grad=True)\n"
    text += "loss = package.entropy(p)\nloss.backward()"
    event = only_event(run(library, text, steps))
    assert (event.op, event.function, event.index) == ("log", "entropy", (1,))
    (led,) = event.callers
    assert (led["lineno"], led["code_line"]) == (3, "loss = package.entropy(p)")
    shown = format_event(event)
    assert "called    " in shown
    assert ":3  loss = package.entropy(p)" in shown
    advice = " ".join(shown.split())
    assert (
        f"belongs to {package}. Change what line 3 passes to it, or its options; otherwise change the line as above"
        in advice
    )
    assert NaNEvent.from_json(event.to_json()) == event


@runs
def test_the_remedy_sets_the_eps_of_a_packages_module_from_the_program(library: str, package: str, steps: bool) -> None:
    event = only_event(run(library, f"import {package} as package\n{MODEL}", steps))
    assert event.filename is not None
    assert package in event.filename
    assert event.op == "rsqrt"
    assert [each["lineno"] for each in event.callers] == [3]
    if library == "torch" and not steps:
        return  # the line of the package is computed once more, outside of the module
    assert event.layer_name == "norms.0"
    assert event.remedy == 'model.get_submodule("norms.0").variance_epsilon = 1e-5'
    assert "after the one that creates the model" in " ".join(format_event(event).split())
    again = MODEL.replace("\n", f"\n{event.remedy}\n", 1)
    assert not run(library, f"import {package} as package\n{again}", steps).events


def test_the_error_message_contains_the_line_of_the_program(library: str, package: str) -> None:
    text = f"import {package} as package\n{MODEL}"
    with pytest.raises(Exception, match=r"called from <program .*>:3\n    loss = model") as raised:
        run(library, text, True, policy="raise")
    assert raised.value.event.callers[0]["lineno"] == 3


@pytest.mark.parametrize("library", ["torch"])
def test_a_call_of_the_model_is_no_caller_of_a_later_call(package: str) -> None:
    module = importlib.import_module(package)
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, policy="record") as w:
        p = model(torch.zeros(2, 1))
        loss = module.entropy(p)
        loss.backward()
    event = only_event(w)
    assert (event.op, event.function) == ("log", "entropy")
    assert [each["code_line"] for each in event.callers] == ["loss = module.entropy(p)"]


@pytest.mark.parametrize("library", ["torch"])
def test_bad_data_has_the_line_that_passes_it_to_a_package(package: str) -> None:
    model = importlib.import_module(package).Model(1.0)
    data = [(torch.ones(3, 2), torch.ones(3))]
    data[0][0][1, 0] = torch.nan
    with watch(policy="record") as w:
        for a, b in w.steps(data):
            loss = (model(a).sum(1) - b).sum()
            loss.backward()
    event = only_event(w)
    assert (event.kind, event.code_line) == ("leaf", "loss = (model(a).sum(1) - b).sum()")
    assert (event.callers, event.layer_name) == ((), "first")
    assert event.remedy == "a, b = (each[torch.isfinite(a).reshape(len(a), -1).all(1)] for each in (a, b))"


SHIFTED = f"""\
layer = torch.nn.Linear(2, 1)
raw = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
x = raw / raw.sum(1, keepdim=True)
loss = package.shifted(layer, x).sum()  {HERE}
loss.backward()
"""


@pytest.mark.parametrize("library", ["torch"])
def test_data_changed_by_a_package_has_the_programs_name_and_line(package: str) -> None:
    text = f"import {package} as package\n{SHIFTED}"
    made = only_event(run("torch", text))
    assert (made.op, made.index, made.code_line) == ("div", (1, 0), "x = raw / raw.sum(1, keepdim=True)")
    assert not run("torch", mended(text, made)).events

    text = text.replace(
        "raw / raw.sum(1, keepdim=True)", "torch.from_numpy(raw.numpy() / [[3.0], [torch.nan]]).float()"
    )
    event = only_event(run("torch", text))
    assert (event.kind, [*event.operands], event.index) == ("leaf", ["x"], (1, 0))
    assert (event.lineno, event.callers) == (line(text), ())


CALLED = f"""\
class Batch:
    __module__ = "program"
    def __init__(self, x):
        self._store = {{"x": x}}
    def __getattr__(self, name):
        return self.__dict__["_store"][name]
norm = package.Norm(1.0)
head = torch.nn.Linear(2, 1)
def model(d):
    return head(norm(GIVEN))  {HERE}
for batch in w.steps([Batch(torch.tensor([[1.0, 2.0], [3.0, float("nan")]]))]):
    model(batch).sum().backward()
"""


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize(("given", "name"), [("d.x", "d.x"), ("x := d.x", "x")])
def test_data_has_its_name_in_a_function_that_has_returned(package: str, given: str, name: str) -> None:
    text = f"import {package} as package\n{CALLED.replace('GIVEN', given)}"
    event = only_event(run("torch", text))
    assert (event.kind, [*event.operands], event.index) == ("leaf", [name], (1, 1))
    assert event.lineno == line(text)


FITTED = """\
head = torch.nn.Linear(2, 1)
def model(inputs):
    return head(inputs)
data = [(torch.tensor([[1.0, 2.0], [3.0, float("nan")]]), torch.ones(2, 1))]
package.fit(model, data)
"""


def test_without_a_batch_in_the_program_the_remedy_drops_no_samples(library: str, package: str) -> None:
    event = only_event(run(library, f"import {package} as package\n{FITTED}"))
    assert (event.kind, event.index, event.remedy) == ("leaf", (1, 1), None)
    assert f"Leave such samples out of the data given to {package}." in (event.cause or "")
    if library == "torch":
        assert event.operands.keys() == {"inputs"}  # as the program's line has it


RUNAWAY = """\
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e22)  HERE
for step in range(3):
    optimizer.zero_grad()
    loss = package.square(layer(torch.ones(3, 2)))
    loss.backward()
    optimizer.step()
"""


def test_the_remedy_changes_the_programs_line_that_makes_the_optimizer(library: str, package: str) -> None:
    text = f"import {package} as package\n{RUNAWAY.replace('HERE', HERE)}"
    event = run(library, text, policy="skip_step").events[0]
    assert event.filename is not None
    assert package in event.filename
    assert event.remedy_lineno == line(text)
    advice = " ".join(format_event(event).split())
    assert f"Change line {line(text)} of {event.remedy_filename} as above" in advice


@pytest.mark.parametrize("library", ["torch"])
def test_bad_data_in_the_loop_of_a_package_has_no_remedy(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AnomalyError), watch() as w:
        module.train(torch.tensor([[1.0, 2.0], [torch.nan, 3.0]]))
    event = only_event(w)
    assert (event.kind, event.op, event.function) == ("leaf", "leaf", "train")
    assert event.operands.keys() == {"sampled.following"}  # and not sampled[1]
    assert event.remedy is None  # a package's lines are not the user's to change
    assert f"belongs to {package}" in format_event(event)


OWN = """\
class Norm(nn.Module):
    eps = 0.0
    def forward(self, x):
        spread = (x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True)
        {line}
model = Norm()
x = torch.ones(2, 3, requires_grad=True)
y = model(x)
y.sum().backward()
"""
LINES = {
    "in the line": "return x / torch.sqrt(spread + self.eps)",
    "as a root": "return x * (spread + self.eps).rsqrt()",
    "a line before": "below = torch.sqrt(spread + self.eps)\n        return x / below",
    "a logarithm": "return (self.eps + spread).log()",
}


@libraries
@pytest.mark.parametrize("name", LINES)
def test_the_remedy_sets_an_eps_of_zero_in_the_line_that_adds_it(library: str, name: str) -> None:
    text = OWN.format(line=LINES[name])
    event = only_event(run(library, text, True))
    found = diagnose(event)
    assert found.title == "eps that is zero"
    assert "self.eps is there to keep" in found.cause
    assert event.remedy is not None
    assert event.remedy.startswith("self.eps = 1e-5; ")
    assert event.callers == ()
    assert not run(library, mended(text, event), True).events


@libraries
@pytest.mark.parametrize(
    "line", ["return x / (spread - self.eps + self.small_eps)", "return x / (spread.sub(self.eps) + self.small_eps)"]
)
def test_an_eps_that_is_not_zero_is_not_blamed(library: str, line: str) -> None:
    text = OWN.format(line=line).replace("eps = 0.0", "eps = small_eps = 0.5")
    event = only_event(run(library, text, True))
    assert event.op == "div"
    assert diagnose(event).title != "eps that is zero"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/lib/python3.11/site-packages/timm/layers/norm.py", "timm"),
        ("/usr/lib/python3/dist-packages/six.py", "six"),
        ("C:\\venv\\Lib\\site-packages\\timm\\layers\\norm.py", "timm"),
        ("/home/me/site-packages-of-mine/train.py", None),
        ("/home/me/train.py", None),
        ("<ipython-input-3>", None),
    ],
)
def test_package_of_gives_the_package_of_a_file(path: str, name: str | None) -> None:
    assert package_of(path) == name


def test_only_code_of_the_program_is_own_code() -> None:
    def own() -> None: ...

    assert is_own(own.__code__)
    module: ModuleType
    for module in (importlib, pytest, sys.modules["retrograd"]):
        function = next(each for each in vars(module).values() if hasattr(each, "__code__"))
        assert not is_own(function.__code__)


def test_a_point_that_a_packages_line_search_rejects_is_no_event(library: str, package: str) -> None:
    """A line search that comes upon a loss which is not finite tries another point; that is no training in vain."""
    text = (
        f"import {package} as package\nx = torch.tensor([1.0], requires_grad=True)\n"
        "package.line_search(lambda scale: torch.log((scale - 11) * x).sum())\n(x * 1).sum().backward()"
    )
    w = run(library, text)
    assert (w.events, w.left_out.total) == ((), 0)


def test_a_loss_that_a_package_replaces_is_named_in_the_error(library: str, package: str) -> None:
    text = (
        f"import {package} as package\nx = torch.tensor([1.0, 0.0], requires_grad=True)\nfor shift in (1.0, 0.0):\n"
        "    package.reset(torch.log(x + shift).mean()).backward()"
    )
    with pytest.raises(RuntimeError, match="does not require grad") as raised:
        run(library, text)
    (note,) = raised.value.__notes__
    assert "Inf born in log" in note
    assert "package.reset(torch.log(x + shift).mean()).backward()" in note


def test_data_has_the_programs_name_before_that_of_a_package(library: str, package: str) -> None:
    """The package calls it ``args[0]``."""
    text = (
        f"import {package} as package\nx = torch.tensor([1.0, float('nan')])\nw = torch.ones(2, requires_grad=True)\n"
        "package.infer(lambda values: (values * w).sum(), x)"
    )
    assert [*only_event(run(library, text)).operands] == ["x"]


TORCH = pytest.mark.parametrize("library", ["torch"], indirect=True)


def left_by(library: str, text: str) -> NaNEvent:
    """The event of an error that a package raises."""
    linecache.cache["<program>"] = (len(text), None, text.splitlines(keepends=True), "<program>")
    with (
        pytest.raises(Exception, match=r"no numbers|computing the model|not positive definite") as raised,
        watch() as w,
    ):
        exec(compile(text, "<program>", "exec"), {"torch": rg if library == "retrograd" else torch})
    assert w.event is not None
    assert raised.value.__notes__
    format_event(w.event)
    return w.event


@TORCH
def test_data_that_a_package_refuses_is_named_as_the_program_names_it(library: str, package: str) -> None:
    text = (
        f"import {package} as package\nx = torch.ones(2)\ny = torch.tensor([1.0, -1.0]).log_()\npackage.Process(x, y)"
    )
    event = left_by(library, text)
    assert (event.kind, [*event.operands], event.index) == ("leaf", ["y"], (1,))
    assert event.harmed == "an argument of the call that raised NotSafeError"
    assert event.filename == "<program>"


@TORCH
def test_an_infinity_behind_data_that_a_package_refuses_is_the_birth(library: str, package: str) -> None:
    text = (
        f"import {package} as package\nx = torch.full((2,), float('-inf'))\nr = torch.tensor([1.0, 0.0, 2.0])\n"
        "y = torch.log(r)\npackage.Standardised(x, y)"
    )
    event = left_by(library, text)
    assert (event.kind, event.op, event.index, event.lineno) == ("divide", "log", (1,), 4)


def test_an_error_that_a_package_raises_again_names_the_birth(library: str, package: str) -> None:
    text = (
        f"import {package} as package\ndef model(x):\n    return torch.distributions.Normal(x, 1.0)\n"
        "w = torch.ones(2, requires_grad=True)\nx = torch.tensor([0.0, 2.0])\n"
        "package.traced(lambda x: model(torch.log(w - x)), x)"
    )
    event = left_by(library, text)
    assert (event.op, event.index, event.lineno) == ("log", (1,), 6)


@TORCH
def test_data_is_named_in_an_error_that_a_package_raises_again(library: str, package: str) -> None:
    """The first error was caught within a generator of the package's, and knows nothing of who has called that."""
    text = (
        f"import {package} as package\nnormal = torch.distributions.Normal(0.0, 1.0)\n"
        "y = torch.tensor([0.0, float('nan')])\npackage.score(normal, y)"
    )
    event = left_by(library, text)
    assert (event.kind, [*event.operands], event.index) == ("leaf", ["y"], (1,))
    assert (event.filename, event.lineno) == ("<program>", 4)


def test_a_refused_parameter_has_the_programs_line_if_a_package_makes_the_distribution(
    library: str, package: str
) -> None:
    """The line is the one that names it, and so is what it is given there."""
    text = (
        f"import {package} as package\ns = torch.tensor(-0.5, requires_grad=True)\n"
        "package.traced(lambda scale: package.Normal(0.0, scale), s)"
    )
    event = left_by(library, text)
    assert (event.filename, event.lineno) == ("<program>", 3)
    assert "clamp" in (event.remedy or "")


@TORCH
def test_a_matrix_that_a_package_factorises_has_the_programs_line_among_the_callers(library: str, package: str) -> None:
    text = (
        f"import {package} as package\nx = torch.tensor([[1.0], [1.0]], requires_grad=True)\n"
        "package.factorised(x @ x.T - 0.5 * torch.eye(2))"
    )
    event = left_by(library, text)
    assert (event.kind, event.op, event.function) == ("error", "cholesky", "factorised")
    assert [each["lineno"] for each in event.callers] == [3]
    assert "duplicate inputs" in (event.cause or "")


@TORCH
def test_the_birth_is_named_if_a_package_gives_up_after_bad_losses(library: str, package: str) -> None:
    text = (
        f"import {package} as package\nx = torch.tensor([0.5], requires_grad=True)\n"
        "package.fit_by_search(lambda: torch.log(x - 1).sum())"
    )
    event = left_by(library, text)
    assert (event.op, event.lineno, event.filename) == ("log", 3, "<program>")


def test_generated_files_in_the_folder_for_temporary_files_are_not_own_code(tmp_path: Path) -> None:
    for folder, own in ((Path(tempfile.gettempdir()), False), (tmp_path, True)):
        assert is_own(compile("x = 1", str(folder / "layer_propagate_07mdl72x.py"), "exec")) is own


def test_a_program_in_the_folder_for_temporary_files_is_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tempfile.gettempdir())
    assert is_own(compile("x = 1", str(Path(tempfile.gettempdir()) / "models_of_the_programs_own.py"), "exec"))
