"""Python numbers that are not finite, in the line itself or in a variable: named, with either library."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, mended, only_event, run, runs

X = "import math\nimport numpy as np\nx = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)\n"

WRITTEN = {
    "where": "y = torch.where(x == 0, float('nan'), x)  # born here",
    "where, a method": "y = x.where(x != 0, math.nan)  # born here",
    "masked_fill": "y = (x * 2).masked_fill(x == 0, float('nan'))  # born here",
    "add": "y = x + float('nan')  # born here",
    "subtracted from": "y = np.nan - x  # born here",
    "in place": "y = x * 2\ny += math.nan  # born here",
    "all of it filled": "y = x * 2\ny.fill_(float('nan'))  # born here",
    "a part filled": "y = x * 2\ny[1:].fill_(float('nan'))  # born here",
    "an element": "y = x * 2\ny[1] = float('nan')  # born here",
    "under a mask": "y = x * 2\ny[x == 0] = torch.nan  # born here",
    "padding": "y = F.pad(x, (1, 1), value=float('nan'))  # born here",
    "in a tensor of data": "z = torch.full_like(x, float('nan'))  # born here\ny = x * z",
    "in one of its elements": "z = torch.ones(3)\nz[1] = float('nan')  # born here\ny = x * z",
}


@libraries
@runs
@pytest.mark.parametrize("program", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_nan_written_in_the_line_is_named_and_mended(library: str, steps: bool, program: str) -> None:
    text = f"{X}{program}\n((y + 1) ** 2).sum().backward()\n"
    event = only_event(run(library, text, steps))
    assert event.remedy_lineno == line(text)
    assert "itself" in (event.cause or "")
    assert any(f"({name})" in (event.cause or "") for name in ("float('nan')", "math.nan", "np.nan", "torch.nan"))
    assert not run(library, mended(text, event), steps).events


@libraries
@pytest.mark.parametrize("program", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_nan_written_in_a_function_that_has_returned_is_mended(library: str, program: str) -> None:
    body = "\n    ".join(f"{X}{program}\nreturn ((y + 1) ** 2).sum()".splitlines())
    text = f"def step():\n    {body}\n"
    event = only_event(run(library, text, function=True))
    assert event.remedy_lineno == line(text)
    assert not run(library, mended(text, event), function=True).events


@pytest.mark.parametrize("program", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_second_run_reports_the_same_as_the_first(program: str) -> None:
    text = f"{X}{program}\n((y + 1) ** 2).sum().backward()\n"
    known, recorded = (only_event(run("retrograd", text, steps)) for steps in (False, True))
    assert (recorded.kind, recorded.op, recorded.lineno) == (known.kind, known.op, known.lineno)
    assert recorded.reproducible
    assert recorded.note is None


def test_an_infinity_written_to_an_element_is_reported_as_data() -> None:
    text = f"{X}y = x * 2\ny[1] = torch.tensor(float('inf'))  # born here\ny.sum().backward()\n"
    event = only_event(run("retrograd", text, steps=True))
    assert (event.kind, event.lineno, event.born) == ("leaf", line(text), "Inf")


HELD = {
    "a product": "y = x * weight",
    "a quotient": "y = x / weight",
    "a sum": "y = x + weight",
    "a difference": "y = weight - x",
    "a power": "y = (x + 1) ** weight",
    "by name": "y = x.clamp(min=weight)",
    "an element": "y = x * 2\ny[1] = weight",
}


@libraries
@pytest.mark.parametrize("program", HELD.values(), ids=HELD.keys())
def test_a_variable_that_is_nan_is_named_with_its_line(library: str, program: str) -> None:
    text = f"{X}weight = 0 * float('inf')\n{program}  # born here\n((y + 1) ** 2).sum().backward()\n"
    event = only_event(run(library, text))
    assert event.lineno == line(text)
    assert "the number NaN (weight)" in (event.cause or "")
    assert "at line 4, `weight = 0 * float('inf')`" in (event.cause or "")
    assert event.remedy == "assert weight == weight, weight"


@libraries
@pytest.mark.parametrize("text", ["float('inf')", "-math.inf", "bound"])
def test_an_infinite_number_is_named(library: str, text: str) -> None:
    program = f"{X}bound = np.inf\ny = x + {text}  # born here\ny.sum().backward()\n"
    event = only_event(run(library, program))
    assert (event.op, event.lineno) == ("add", line(program))
    assert f"({text})" in (event.cause or "")
    assert ("assert abs(bound)" in (event.remedy or "")) == (text == "bound")


@libraries
def test_an_infinity_of_a_mask_is_explained_by_the_mask(library: str) -> None:
    text = f"{X}y = x.masked_fill(x == 0, -float('inf'))  # born here\ny.sum().backward()\n"
    event = only_event(run(library, text))
    assert event.lineno == line(text)
    assert "where the mask says so" in (event.cause or "")


@libraries
@pytest.mark.parametrize("masked", ["x.masked_fill(mask, -float('inf'))", "torch.where(mask, -math.inf, x)"])
def test_a_mask_before_softmax_is_no_event(library: str, masked: str) -> None:
    text = f"{X}mask = x == 0\np = torch.softmax({masked}, 0)\n(p * x).sum().backward()\n"
    assert not run(library, text).events


@pytest.mark.parametrize("function", [False, True])
def test_a_number_that_is_no_longer_known_is_called_an_inference(function: bool) -> None:
    text = f"""def step():
    {X.replace(chr(10), chr(10) + "    ")}
    weight = 0 * float("inf")
    y = x + weight  # born here
    return (y + 1).sum()
{"" if function else "step().backward()"}
"""
    event = only_event(run("retrograd", text, function=function))
    assert (event.op, event.lineno) == ("add", line(text))
    assert "(weight)" in (event.cause or "")
    assert "That weight was not finite is an inference" in (event.note or "")


def test_a_number_that_torch_did_not_keep_is_named() -> None:
    text = f"""def step():
    {X.replace(chr(10), chr(10) + "    ")}
    weight = 0 * float("inf")
    y = x + weight  # born here
    return (y + 1).sum()
"""
    event = only_event(run("torch", text, function=True))
    assert (event.op, event.lineno) == ("add", line(text))
    assert "weight was" in (event.cause or "")
