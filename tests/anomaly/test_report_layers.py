"""The table of the outputs of layers in reports."""

from __future__ import annotations

import math
from typing import Any

from retrograd.anomaly import NaNEvent
from retrograd.anomaly.report.html import _layers
from retrograd.anomaly.report.layers import layers_of, table
from retrograd.anomaly.report.terminal import format_event
from retrograd.anomaly.surroundings import Surroundings


def row(layer: str, absmin: float, absmax: float, *before: float) -> dict[str, Any]:
    return {"layer": layer, "absmin": absmin, "absmax": absmax, "before": before}


def event(**context: Any) -> NaNEvent:
    return NaNEvent(kind="overflow", op="exp", surroundings=Surroundings(context=context))


ROWS = (row("fc1", 0.0, 2.5, 1.0, 2.0), row("", math.nan, math.nan, 3e30))


def test_each_layer_has_a_line() -> None:
    assert table(ROWS, 60) == [
        "layer      abs min  abs max  before",
        "fc1              0      2.5  1, 2",
        "the model               NaN  3e+30",
    ]


def test_a_column_without_numbers_is_left_out() -> None:
    assert table([row("fc", math.nan, 2.5)], 60) == ["layer  abs max", "fc         2.5"]
    assert table([], 60) == []


def test_long_names_lose_their_beginning_and_long_lines_their_end() -> None:
    _, line = table([row("encoder." * 6 + "fc", 1.0, 2.0, *range(100))], 70)
    assert line.startswith("...")
    assert "encoder.fc " in line
    assert len(line) <= 70


def test_no_number_loses_its_end() -> None:
    sizes = (1e3, 1e30, 1e300)
    for width in range(50, 90):
        _, line = table([row("encoder.layers.11.attention.self", 1e-5, 1e300, *sizes)], width)
        assert len(line) <= width
        assert "1e+03, 1e+30, 1e+300".startswith(line.split("1e+300", 1)[1].strip())
        assert line.endswith((",", "1e+03", "1e+30", "1e+300"))


def test_both_reports_show_the_table() -> None:
    shown = format_event(event(layers=ROWS), width=80)
    assert "layers    layer      abs min  abs max  before\n          fc1 " in shown
    assert "<td>fc1</td><td>0</td><td>2.5</td><td>1, 2</td>" in _layers(layers_of(event(layers=ROWS)))
    assert _layers(()) == ""
    assert "layers" not in format_event(event(), width=80)


def test_an_event_with_a_table_survives_json() -> None:
    assert NaNEvent.from_json(event(layers=ROWS).to_json()) == event(layers=ROWS)


def test_a_history_without_step_numbers_has_no_row_for_them() -> None:
    shown = format_event(event(loss_history=(1.0, 2.0)), width=80)
    assert "before    loss  1  2" in shown
    assert "step" not in shown
