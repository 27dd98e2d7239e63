"""A remedy names only variables that have a value where it is pasted, and is right where the mask is not the reason."""

from __future__ import annotations

import linecache

import pytest

from retrograd.anomaly.catalogue._scopes import may_stand_at
from retrograd.anomaly.surroundings import Place
from tests.anomaly.both import libraries, line, mended, only_event, run, runs

MARGIN = """
x = torch.tensor([[1.0, 0.5], [0.25, 0.5]], requires_grad=True)
sine = torch.sqrt(1.0 - x**2)  # born here
phi = x * 0.8 - sine * 0.5
phi = torch.where(x > -0.9, phi, x - 0.2)
one_hot = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
logits = one_hot * phi + (1.0 - one_hot) * x
loss = logits.sum()
loss.backward()
"""


@libraries
@runs
def test_a_where_that_keeps_the_element_is_not_blamed(library: str, steps: bool) -> None:
    """The gradient is 0 because of a factor further on; a double where would change nothing."""
    event = only_event(run(library, MARGIN, steps))
    assert (event.op, event.index, event.lineno) == ("SqrtBackward0", (0, 0), line(MARGIN))
    assert "where discards" not in (event.cause or "")
    assert "sqrt gives NaN" not in (event.cause or "")
    assert event.remedy_lineno == event.lineno
    assert not run(library, mended(MARGIN, event), steps).events


ROOT = """
x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
square = x[:, 0] * x[:, 0] + x[:, 1] * x[:, 1]
size = torch.sqrt(square)  # born here
ratio = 3.0 / torch.where(size == 0, 1e-12, size)
loss = torch.where(square > 0, ratio, 2.0).sum()
loss.backward()
"""


@libraries
@runs
def test_the_remedy_of_a_line_does_not_read_the_variable_that_it_makes(library: str, steps: bool) -> None:
    event = only_event(run(library, ROOT, steps))
    assert (event.op, event.index) == ("SqrtBackward0", (1,))
    assert not run(library, mended(ROOT, event), steps).events


HELPER = """
def logarithm(p):
    return torch.log(p)  # born here

def entropy(p, weights):
    return -(weights * logarithm(p)).sum()

p = torch.tensor([0.5, 0.0], requires_grad=True)
loss = entropy(p, torch.tensor([1.0, 0.0]))
loss.backward()
"""


@libraries
@runs
def test_the_remedy_names_no_factor_of_another_function(library: str, steps: bool) -> None:
    event = only_event(run(library, HELPER, steps))
    assert (event.op, event.lineno) == ("log", line(HELPER))
    assert "weights" not in (event.remedy or "")
    assert not run(library, mended(HELPER, event), steps).events


CHOSEN_LATER = """
def logarithm(p):
    return torch.log(p)  # born here

def surprise(p, keep):
    return torch.where(keep, logarithm(p), 0.0)

p = torch.tensor([0.5, 0.0], requires_grad=True)
loss = surprise(p, torch.tensor([True, False])).sum()
loss.backward()
"""


@libraries
@runs
def test_the_remedy_names_no_condition_of_another_function(library: str, steps: bool) -> None:
    event = only_event(run(library, CHOSEN_LATER, steps))
    assert event.lineno == line(CHOSEN_LATER)
    assert "keep" not in (event.remedy or "")
    assert not run(library, mended(CHOSEN_LATER, event), steps).events


FILE = """
import math
LIMIT = 1e-3

def outer(a, *, b=1):
    c = a + b
    def inner(d):
        e = d + later
        for f in range(3):
            g = e
        return e
    later = 2
    h = [k for k in range(3)]
    return inner(c)

class Model:
    def forward(self, x):
        y = x
        z = y
        return z
"""


@pytest.mark.parametrize(
    ("text", "lineno", "expected"),
    [
        ("e = d + c + later + LIMIT + b", 8, True),  # of the functions around, whenever they got their value
        ("e = d + g", 8, False),
        ("e = e + d", 8, False),
        ("g = e + f", 10, True),
        ("h = k", 13, False),
        ("h = [m for m in range(c)]", 13, True),
        ("h = max(c, 1) + torch.pi + len(h)", 13, False),
        ("h = max(c, 1) + torch.pi + math.pi", 13, True),
        ("y = self.scale * x", 18, True),
        ("y = x + z", 18, False),
        ("z = forward(y)", 19, False),
        ("c = a + nowhere", 6, False),
        ("for a in nowhere:", 6, True),  # no statement by itself: nothing is known
    ],
)
def test_may_stand_at_says_whether_all_names_have_a_value_there(text: str, lineno: int, expected: bool) -> None:
    linecache.cache["<scopes>"] = (len(FILE), None, FILE.splitlines(keepends=True), "<scopes>")
    assert may_stand_at(text, [FILE.splitlines()[lineno - 1]], Place(lineno, "<scopes>")) == expected


def test_without_a_file_every_name_may_stand_anywhere() -> None:
    assert may_stand_at("y = x + z", ["y = x"], Place(1, None))
    assert may_stand_at("y = x + z", ["y = x"], Place(1, "<no such file>"))


LAYERS = """
layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2))
layer[0].weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
x = torch.tensor([[200.0, -300.0]] * 8, requires_grad=True)
{made}
y = {taken}  # born here
y.sum().backward()
"""


@libraries
@pytest.mark.parametrize(
    ("made", "taken", "named"),
    [
        ("p = torch.softmax(layer(x), dim=-1)", "torch.log(p)", "torch.log_softmax(z, dim=-1)"),
        ("p = torch.sigmoid(-layer(x))", "-torch.log(p)", "F.logsigmoid(-z)"),
        ("p = torch.exp(-(layer(x) ** 2)) * 2", "torch.log(p)", "-(z ** 2)"),
    ],
)
def test_the_remedy_calls_no_layer_a_second_time(library: str, made: str, taken: str, named: str) -> None:
    """Its dropout would be another one; what it returned gets a name where it is called."""
    text = LAYERS.format(made=made, taken=taken)
    event = only_event(run(library, text, True))
    assert event.remedy is not None
    remedy = event.remedy.replace("rg.", "torch.").replace("torch.nn.functional", "F")
    assert named in remedy
    assert event.remedy_lineno is None
    assert "z = layer(x)" in (event.cause or "")
    instead = made.replace("layer(x)", "z")
    assert not run(
        library, LAYERS.format(made=f"z = layer(x); {instead}", taken=remedy.removeprefix("y = ")), True
    ).events


@libraries
def test_the_remedy_keeps_a_layer_that_the_line_itself_calls(library: str) -> None:
    text = LAYERS.format(made="", taken="-torch.log(torch.sigmoid(-layer(x)))")
    event = only_event(run(library, text, True))
    assert "logsigmoid(-layer(x))" in (event.remedy or "")
    assert event.remedy_lineno is not None
