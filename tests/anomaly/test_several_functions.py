"""Programs of several functions and files: a remedy's variables are those of its line, and its line has a file."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from types import ModuleType

import pytest

from retrograd.anomaly import NaNEvent, watch
from retrograd.anomaly.adapters import optimizer_context
from retrograd.anomaly.report import Entry, Run, format_event
from retrograd.anomaly.report.contents import contents_of
from retrograd.anomaly.report.html import format_html
from tests.anomaly.both import libraries, mended, only_event, run
from tests.anomaly.disguises import HERE

pytestmark = [libraries]

Write = Callable[..., ModuleType]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> Iterator[Write]:
    """Write a program's modules, whose names are those of the keywords, and import the last one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[str] = []

    def files(**modules: str) -> ModuleType:
        for name, text in modules.items():
            head = f"import {library} as torch\nfrom {library} import nn\n"
            (tmp_path / f"{name}.py").write_text(head + text.replace(HERE, ""))
            written.append(name)
        linecache.checkcache()
        return importlib.import_module(written[-1])

    yield files
    for name in written:
        sys.modules.pop(name, None)


def watched(module: ModuleType) -> NaNEvent:
    with watch(policy="record") as w:
        module.main()
    assert w.events
    return w.events[0]


PROBABILITIES = """\
def forward(x):
    p = torch.softmax({logits}, dim=0)
    return p

def nll(p, target):
    return -(torch.log(p) * target).sum()

x = torch.tensor([[0.0, -200.0], [0.0, 0.0]], requires_grad=True)
nll(forward(x), torch.tensor([[0.0, 0.0], [0.0, 1.0]])).backward()
"""


@pytest.mark.parametrize("logits", ["scores", "x", "3 * x"])
def test_the_remedy_uses_no_variable_of_another_function(library: str, logits: str) -> None:
    """``scores`` is not known where the logarithm is taken, and ``x`` is, but may be anything there."""
    text = PROBABILITIES.format(logits=logits).replace("(x):\n", f"(x):\n    scores = 2 * x; t = {logits}\n")
    event = only_event(run(library, text.replace("target)", "x)").replace("* target", "* x")))
    assert event.remedy == f"log_p = torch.log_softmax({logits}, dim=0)"
    assert event.remedy_lineno is None
    assert "made by   softmax, " in format_event(event)


def test_the_remedy_uses_variables_of_the_enclosing_function(library: str) -> None:
    text = f"""\
def forward(x):
    p = torch.softmax(x, dim=0)
    loss = lambda: -torch.log(p).sum()  {HERE}
    return loss()

forward(torch.tensor([0.0, -200.0], requires_grad=True)).backward()
"""
    event = only_event(run(library, text))
    assert (event.remedy or "").startswith("loss = lambda: -torch.log_softmax(x, dim=0).sum()")
    assert not run(library, mended(text, event)).events


QUOTIENT = """\
def total(x):
    return (x * 0.0).sum()

def ratio(x, of):
    return (x / of).sum()

x = torch.tensor([1.0, 2.0], requires_grad=True)
ratio(x, total(x)).backward()
"""


def test_the_report_names_the_operand_made_in_another_function(library: str) -> None:
    event = only_event(run(library, QUOTIENT))
    (made,) = contents_of(event).made
    assert made == "other: sum, line 2  return (x * 0.0).sum()"
    assert escape(made) in format_html(Run(entries=[Entry(event=event)]))


SHADOWED = """\
x = torch.tensor([0.0, -200.0], requires_grad=True)
p = torch.softmax(x, dim=0)
{given}
nll(p).backward()
"""


@pytest.mark.parametrize("given", ["nll = lambda p: -torch.log(p).sum()", "def nll(p): return -torch.log(p).sum()"])
def test_a_parameter_is_not_taken_for_an_outer_variable_of_that_name(library: str, given: str) -> None:
    event = only_event(run(library, SHADOWED.format(given=given)))
    assert (event.remedy, event.remedy_lineno) == ("log_p = torch.log_softmax(x, dim=0)", None)


MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return torch.softmax(1e4 * self.layer(x), dim=1)
"""
LOSSES = """
def likelihood(p):
    return -torch.log(p).mean()
"""
TRAIN = """
from {prefix}_model import Net
from {prefix}_losses import likelihood

def main():
    torch.manual_seed(0)
    likelihood(Net()(torch.ones(3, 2))).backward()
"""


def test_the_line_in_another_file_that_made_an_operand_is_shown(library: str, write: Write, tmp_path: Path) -> None:
    names = {"a_model": MODEL, "a_losses": LOSSES, "a_train": TRAIN.format(prefix="a")}
    event = watched(write(**names))
    assert event.filename == str(tmp_path / "a_losses.py")
    number = 1 + linecache.getlines(str(tmp_path / "a_model.py")).index(MODEL.splitlines(keepends=True)[-1])
    made = f"made by softmax, {tmp_path / 'a_model.py'}:{number} return torch.softmax(1e4 * self.layer(x), dim=1)"
    assert made in " ".join(format_event(event, width=400).split())
    assert (event.remedy, event.remedy_lineno) == ("log_p = torch.log_softmax(1e4 * self.layer(x), dim=1)", None)
    assert NaNEvent.from_json(event.to_json()) == event


RUNAWAY = """
from {prefix}_model import Net

class Trainer:
    def __init__(self, lr):
        self.model = Net()
        {construction}

    def fit(self):
        for _ in range(4):
            self.optimizer.zero_grad()
            self.model(torch.ones(3, 2)).backward()
            self.optimizer.step()

def main():
    torch.manual_seed(0)
    Trainer(1e20).fit()
"""
SQUARES = MODEL.replace("torch.softmax(1e4 * self.layer(x), dim=1)", "(self.layer(x) ** 2).sum()")

IN_ONE_LINE = "self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.5)"
IN_SEVERAL = """self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=lr,  # to be tuned
            weight_decay=0.1,
        )"""
BY_A_FUNCTION = """self.optimizer = self.made()

    def made(self):
        return torch.optim.SGD(self.model.parameters(), 1e20)"""
BY_ITS_NAME = 'self.optimizer = getattr(torch.optim, "Ad" + "am")(self.model.parameters(), lr)'


@pytest.mark.parametrize(
    ("construction", "wanted"),
    [
        (IN_ONE_LINE, "self.optimizer = torch.optim.SGD(self.model.parameters(), lr={}, momentum=0.5)"),
        (IN_SEVERAL, "lr={},  # to be tuned"),
        (BY_A_FUNCTION, "return torch.optim.SGD(self.model.parameters(), {})"),
    ],
    ids=["in one line", "in several", "by a function"],
)
def test_the_remedy_changes_the_line_that_gives_the_learning_rate(
    library: str, write: Write, tmp_path: Path, construction: str, wanted: str
) -> None:
    """The model lies in another file, whose lines have numbers, too."""
    text = RUNAWAY.format(prefix="b", construction=construction)
    event = watched(write(b_model=SQUARES, b_train=text))
    before, _, after = wanted.partition("{}")
    assert event.remedy is not None
    assert event.remedy.startswith(before)
    assert event.remedy.endswith(after)
    assert float(event.remedy.removeprefix(before).removesuffix(after)) < 1e16
    assert event.remedy_filename == str(tmp_path / "b_train.py")
    source = linecache.getline(event.remedy_filename, event.remedy_lineno or 0)
    assert source.strip().startswith(before)
    advice = " ".join(format_event(event, width=400).split())
    assert f"Change line {event.remedy_lineno} of {tmp_path / 'b_train.py'} as above" in advice
    assert event.filename == str(tmp_path / "b_model.py")


@pytest.mark.parametrize(
    "setting",
    [
        "settings = {'lr': 1e20}\n",
        "LEARNING_RATE = 1e20\n",
        "def defaults(epochs=1, learning_rate=1e20): pass\n",
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--learning-rate', default=1e20)\n",
        "arguments = dict(max_lr=1, lr=1e20)\n",
    ],
)
def test_the_only_number_with_the_value_of_the_rate_is_taken_for_it(
    library: str, write: Write, tmp_path: Path, setting: str
) -> None:
    """The number that is called a learning rate and has its value is it."""
    text = RUNAWAY.format(prefix="c", construction=BY_ITS_NAME).replace("1e20", "float('1e20')")
    event = watched(write(c_model=SQUARES, c_train=text))
    assert (event.remedy_lineno, event.remedy_filename) == (None, None)
    assert event.remedy is not None
    assert event.remedy.startswith("lr = ")
    assert "where your program sets the optimizer's" in " ".join(format_event(event).split())
    event = watched(write(d_model=SQUARES, d_train=setting + text.replace("c_model", "d_model")))
    source = linecache.getline(str(tmp_path / "d_train.py"), event.remedy_lineno or 0).strip()
    assert source in setting
    assert "1e20" in source
    before, _, after = source.partition("1e20")
    assert (event.remedy or "").startswith(before)
    assert (event.remedy or "").endswith(after)


def test_two_numbers_with_the_value_of_the_rate_give_no_line(library: str, write: Write) -> None:
    text = RUNAWAY.format(prefix="e", construction=BY_ITS_NAME).replace("1e20", "float('1e20')")
    event = watched(write(e_model=SQUARES, e_train="old_lr = 1e20\nnew_lr = 1e20\n" + text))
    assert event.remedy_lineno is None


def test_a_schedule_does_not_make_the_watch_read_the_program_in_every_step(
    library: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the policy lets a training go on, there may be an event in each."""
    asked: list[float] = []
    monkeypatch.setattr(optimizer_context, "rate_given", lambda frame, rate: asked.append(rate) or {})
    text = RUNAWAY.format(prefix="f", construction=BY_ITS_NAME).replace("range(4)", "range(40)")
    text = text.replace("self.optimizer.step()", "self.optimizer.step(); self.optimizer.param_groups[0]['lr'] *= 0.9")
    with watch(policy="record") as w:
        write(f_model=SQUARES, f_train=text).main()
    assert len(w.events) > 20
    assert 0 < len(asked) <= 8
