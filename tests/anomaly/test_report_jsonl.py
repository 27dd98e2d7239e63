"""Events on disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.anomaly.report import Recorder, Report, ReportError, read_latest, read_runs
from tests.anomaly.samples import BACKWARD, EVENT, HISTORY, SPIKE, event


def recorded(path: Path) -> bytes:
    with Recorder(path) as recorder:
        recorder.write(EVENT, outcome="update withheld", history=HISTORY)
        recorder.write(SPIKE)
        recorder.write(BACKWARD)
    return path.read_bytes()


def test_a_recording_is_read_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.jsonl"
    recorded(path)
    [run] = read_runs(path)
    assert run.events == [EVENT, SPIKE, BACKWARD]
    first = run.entries[0]
    assert first.outcome == "update withheld"
    assert repr([dict(row) for row in first.history]) == repr(HISTORY), "nan and inf included"
    assert [line.text for line in first.lines] == [EVENT.code_line]
    assert not run.remarks


@pytest.mark.parametrize(
    ("steps", "outcome", "said"),
    [
        (range(2, 81), "update skipped, weights are clean", "every update from step 2 to step 80 was skipped"),
        ([5, *range(40, 52)], "update skipped", "every update from step 40 to step 51 was skipped"),
        (range(2, 8), "update skipped, weights are clean", None),
        (range(2, 80, 2), "update skipped, weights are clean", None),
        (range(2, 81), "warned only, training went on", None),
    ],
)
def test_a_long_row_of_skipped_updates_is_remarked_on(steps: Any, outcome: str, said: str | None) -> None:
    recorder = Recorder()
    for step in steps:
        recorder.write(event(step=step), outcome=outcome)
    assert [remark.partition(":")[0] for remark in recorder.run.remarks] == ([] if said is None else [said])


def test_each_event_is_written_at_once_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    recorder = Recorder(path)
    for count in range(1, 4):
        recorder.write(event(cause="two\nlines"))
        assert len(path.read_bytes().splitlines()) == 1 + count
        assert path.read_bytes().endswith(b"\n")
    recorder.close()
    recorder.close()


@given(st.data())
def test_a_file_cut_off_anywhere_gives_its_complete_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "events.jsonl"
    whole = recorded(path)
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(ends[0], len(whole)))
    path.write_bytes(whole[:cut])
    [run] = read_runs(path)
    complete = sum(end <= cut + 1 for end in ends[1:])  # the newline itself may be missing
    assert run.events == [EVENT, SPIKE, BACKWARD][:complete]
    assert bool(run.remarks) == (cut not in ends and cut + 1 not in ends)


def test_a_file_with_a_torn_line_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = recorded(path)
    path.write_bytes(whole[:-20])
    recorded(path)
    first, second = read_runs(path)
    assert first.events == [EVENT, SPIKE]
    assert first.torn == 1
    assert second.events == [EVENT, SPIKE, BACKWARD]
    assert any("1 earlier run" in remark for remark in read_latest(path).remarks)


def test_a_recording_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = (
        "import sys, os, signal; sys.path[:0] = sys.argv[2:]\n"
        "from retrograd.anomaly.report import Recorder\n"
        "from tests.anomaly.samples import EVENT\n"
        "recorder = Recorder(sys.argv[1])\n"
        "for _ in range(5): recorder.write(EVENT)\n"
        "os.kill(os.getpid(), getattr(signal, 'SIGKILL', signal.SIGTERM))\n"
    )
    roots = [str(Path(rg.__file__).parent.parent), str(Path(__file__).parent.parent.parent)]
    done = subprocess.run([sys.executable, "-c", code, str(path), *roots], capture_output=True, timeout=100)
    assert done.returncode != 0
    assert not done.stderr
    assert read_runs(path)[0].events == [EVENT] * 5


def test_max_events_bounds_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Recorder(path, max_events=3) as recorder:
        for step in range(10):
            recorder.write(event(step=step))
    assert [e.step for e in read_runs(path)[0].events] == [0, 1, 2]  # type: ignore[union-attr]
    assert read_runs(path)[0].remarks == ["only the first 3 events were kept; 7 later events were not"]
    assert recorder.run.remarks == read_runs(path)[0].remarks
    with pytest.raises(ValueError, match="max_events"):
        Recorder(path, max_events=0)


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Recorder(path) as recorder:
        threads = [threading.Thread(target=lambda: [recorder.write(EVENT) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [run] = read_runs(path)
    assert len(run.entries) == 80
    assert not run.torn


def test_a_full_disk_is_remarked_on_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, is_full = os.write, False

    def write_a_little(file: int, data: Any) -> int:
        if is_full and len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) // 2] if is_full else data)

    monkeypatch.setattr(os, "write", write_a_little)
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    with Report(tmp_path) as report, rg.anomaly.watch(policy="record", recorder=report):
        for step in range(4):
            is_full = step in (1, 2)
            if step == 1:
                with pytest.warns(RuntimeWarning, match="events.jsonl could not be written .No space left on device"):
                    rg.log(x).sum().backward()
            else:
                rg.log(x).sum().backward()  # the warning comes once
            assert len(report.run.entries) == step + 1
    assert report.run.remarks == [f"not everything could be written to {report.files[0]}: No space left on device"]
    [run] = read_runs(report.files[0])
    assert [e.step for e in run.events] == [1, 4]  # type: ignore[union-attr]
    assert run.torn == 2
    assert "No space left" in report.files[1].read_text()


def test_the_page_lies_beside_the_recording_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outputs").mkdir()
    monkeypatch.chdir(tmp_path)
    with Report("runs/7") as report:
        report.write(EVENT)
        monkeypatch.chdir(tmp_path / "outputs")
    assert sorted(each.name for each in (tmp_path / "runs" / "7").iterdir()) == ["events.jsonl", "report.html"]
    assert report.files == (Path("runs/7/events.jsonl"), Path("runs/7/report.html"))


def test_a_page_that_cannot_be_written_does_not_hide_an_error(tmp_path: Path) -> None:
    with (
        pytest.warns(RuntimeWarning, match=r"report\.html could not be written"),
        pytest.raises(KeyError),
        Report(tmp_path) as report,
    ):
        report.files[1].mkdir()
        raise KeyError


@pytest.mark.parametrize("policy", ["warn", "record"])
@pytest.mark.parametrize("library", ["torch", "retrograd"])
@pytest.mark.filterwarnings("ignore::retrograd.anomaly.AnomalyWarning")
def test_the_outcome_says_whether_the_update_happened(library: str, policy: str) -> None:
    """A step that was run again has updated nothing, whatever the policy; one that was not has."""
    module = pytest.importorskip(library)
    for steps in (False, True):
        weight = module.tensor([0.0, 1.0], requires_grad=True)
        optimizer = module.optim.SGD([weight], lr=0.1)
        with Report() as report, rg.anomaly.watch(optimizer=optimizer, policy=policy, recorder=report, budget=1.0) as w:
            for _ in w.steps([0]) if steps else [0]:
                optimizer.zero_grad()
                module.sqrt(weight).sum().backward()
                optimizer.step()
        assert bool(module.isfinite(weight).all()) == steps
        assert ("skipped the update" in report.run.entries[0].outcome) == steps
        assert ("training went on" in report.run.entries[0].outcome) != steps


def test_a_report_without_a_directory_writes_no_file() -> None:
    with Report() as report:
        report.write(EVENT, outcome="skipped")
    assert report.run.events == [EVENT]
    assert report.files == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b'{"a": 1}\n', "not a retrograd recording"), (b"\xff\xfe\n[1]\nnull\n", "not a retrograd")],
)
def test_files_that_are_no_recording_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=said):
        read_runs(path)
    with pytest.raises(ReportError, match="nowhere"):
        read_runs(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"event": {"$record": "NaNEvent"', b'"event": {"$record": "EventOfALaterVersion"'),
        (b'"event": {"$record": "NaNEvent"', b'"event": {"$record": "NaNEvent", "operands": ' + b"[" * 100_000),
        (b'"$record": "SourceLine"', b'"$record": "LineOfALaterVersion"'),
        (b'"lines": [', b'"lines": 3, "others": ['),
        (b'"outcome": "update withheld"', b'"outcome": {"$complex": [1' + b"0" * 400 + b", 0]}"),
    ],
    ids=["event", "depth", "line", "lines", "number"],
)
def test_records_that_cannot_be_read_count_as_torn(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "events.jsonl"
    whole = recorded(path)
    assert old in whole
    path.write_bytes(whole.replace(old, new, 1))
    run = read_latest(path)
    assert run.torn == 1
    assert run.events == [SPIKE, BACKWARD]


def test_a_command_of_a_wrong_type_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = recorded(path)
    assert b'"command": [' in whole
    path.write_bytes(whole.replace(b'"command": [', b'"command": 3, "other": [', 1))
    run = read_latest(path)
    assert run.start is None
    assert run.events == [EVENT, SPIKE, BACKWARD]
