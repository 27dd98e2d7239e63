"""The command line as a user's shell sees it."""

from __future__ import annotations

import os
import py_compile
import shlex
import signal
import subprocess
import sys
import textwrap
import zipapp
import zipfile
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import read_runs
from retrograd.cli.session import NOTHING_WATCHED
from tests import forking

SOURCE = Path(rg.__file__).parent.parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("RANK", "FORCE_COLOR", "COLUMNS")}
FAILING = """\
import retrograd as rg
x = rg.zeros(3).requires_grad_()
(rg.log(x) * 0).sum().backward()
print("survived")
"""


def python(*arguments: str, cwd: Path, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python arguments...`` in a directory, with ``text`` as its standard input."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        env={**ENVIRONMENT, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **environment},
    )


def retrograd(*arguments: str, cwd: Path, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "retrograd", *arguments, cwd=cwd, text=text, **environment)


def forked(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Like :func:`python`, in a forked process that has already imported torch."""
    return forking.python(*arguments, cwd=cwd, **{**ENVIRONMENT, "PYTHONPATH": str(SOURCE), **environment})


def write(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(code), encoding="utf-8")


# --- a watched program behaves as if it were not watched ------------------------------------------------------------


def without_note(done: subprocess.CompletedProcess[str]) -> tuple[str, str, int]:
    """Return the output and the exit code, without the note that nothing was watched."""
    return done.stdout, done.stderr.replace(f"{NOTHING_WATCHED}\n", ""), done.returncode


PROGRAMS = {
    "arguments": "import sys; print(sys.argv)",
    "attributes": """
        import sys, __main__
        value = 3
        print(__name__, __file__, __package__, __spec__, __doc__, type(__loader__).__name__)
        print(__main__.value, sys.modules["__main__"].value, sys.path[0])
        """,
    "imports from its directory": "import helper; print(helper.answer)",
    "standard input": "import sys; print(sys.stdin.read().upper())",
    "pickles its own classes": """
        import pickle
        class Thing: pass
        print(type(pickle.loads(pickle.dumps(Thing()))).__name__)
        """,
    "exits with a number": "import sys; print('half'); sys.exit(7)",
    "exits with a message": "raise SystemExit('not today')",
    "exits with nothing": "raise SystemExit",
    "fails": """
        def divide(a, b):
            return a / b
        try:
            divide(1, 0)
        except ZeroDivisionError as error:
            raise ValueError("no such ratio") from error
        """,
    "does not parse": "def f(:\n    pass\n",
    "has a hook for exceptions": """
        import sys
        sys.excepthook = lambda kind, error, trace: print("hooked", kind.__name__, trace.tb_lineno)
        raise KeyError("x")
        """,
    "says goodbye": "import atexit; atexit.register(print, 'goodbye'); 1 / 0",
    "interrupted": "raise KeyboardInterrupt",
    "closes its output": "import sys; sys.stdout.close()",
    "closes its errors": "import sys; print('quiet'); sys.stderr.close()",
    "another encoding": "# -*- coding: utf-8 -*-\nprint('größer')\n",
}


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    write(tmp_path / "code" / "script.py", PROGRAMS[request.param])
    write(tmp_path / "code" / "helper.py", "answer = 42")
    return tmp_path


@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
def test_watched_script_behaves_as_under_python(program: Path) -> None:
    script = ("code/script.py", "--policy", "x", "-m", "b c")
    plain = python(*script, cwd=program, text="typed")
    watched = retrograd("run", "--policy", "warn", *script, cwd=program, text="typed")
    assert without_note(watched) == (plain.stdout, plain.stderr, plain.returncode)


TORCH_PROGRAM = """\
import torch
from torch import nn
x = torch.ones(3, requires_grad=True)

def main():
    loss = nn.functional.cross_entropy(x.expand(2, 3), torch.tensor([0, 1]))
    {}

main()
"""
TORCH_ERRORS = {
    "in a function of torch": "nn.functional.cross_entropy(x.expand(2, 3), torch.tensor([0, 7]))",
    "in a layer": "nn.Linear(2, 2)(x)",
    "in an operator": "x @ torch.ones(4)",
    "in backward": "loss.backward(); loss.backward()",
    "in a hook": "x.register_hook(lambda gradient: 1 / 0); loss.backward()",
    "in an update": "torch.optim.SGD([x], 0.1).step(lambda: 1 / 0)",
    "in a schedule": (
        "torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([x], 0.1), lambda epoch: 1 / (1 - epoch)).step()"
    ),
    "raised from another": """loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        raise ValueError("the program's own") from error""",
}


@pytest.mark.parametrize("failing", TORCH_ERRORS)
def test_traceback_of_an_error_is_that_of_python(tmp_path: Path, failing: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(TORCH_PROGRAM.format(TORCH_ERRORS[failing]), encoding="utf-8")
    expected = forked("script.py", cwd=tmp_path)
    assert "Traceback" in expected.stderr
    assert without_note(forked("-m", "retrograd", "run", "script.py", cwd=tmp_path)) == without_note(expected)


@pytest.mark.parametrize("name", ["package", "package.module"])
def test_watched_module_behaves_as_under_python(tmp_path: Path, name: str) -> None:
    report = "import sys; print(__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0])"
    write(tmp_path / "package" / "__init__.py", "print('package', __name__)")
    write(tmp_path / "package" / "__main__.py", f"from . import other; {report}")
    write(tmp_path / "package" / "module.py", f"from .other import answer; {report}; raise SystemExit(answer)")
    write(tmp_path / "package" / "other.py", "answer = 5")
    plain = python("-m", name, "-x", "--report", "1", cwd=tmp_path)
    watched = retrograd("run", "-m", name, "-x", "--report", "1", cwd=tmp_path)
    assert without_note(watched) == (plain.stdout, plain.stderr, plain.returncode)


IN_NO_FILE = """\
import sys, helper, __main__
value = 3
print(__name__, "__file__" in globals(), __package__, __spec__, __loader__, sys.argv, sys.path[0], __main__.value)
{}
"""


@pytest.mark.parametrize("ending", ["raise SystemExit(helper.answer)", "def f(:", "'größer'"])
@pytest.mark.parametrize("form", ["-", "-c"])
def test_program_from_c_option_or_stdin_behaves_as_under_python(tmp_path: Path, form: str, ending: str) -> None:
    write(tmp_path / "helper.py", "answer = 5")
    program = IN_NO_FILE.format(ending)
    given, text = ((form, "-x", "1"), program) if form == "-" else ((form, program, "-x", "1"), "")
    plain = python(*given, cwd=tmp_path, text=text)
    watched = retrograd("run", "--policy", "warn", *given, cwd=tmp_path, text=text)
    assert without_note(watched) == (plain.stdout, plain.stderr, plain.returncode)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that can close a stream")
def test_runs_without_a_standard_error(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "print('mine')")
    command = shlex.join([sys.executable, "-m", "retrograd", "run", "script.py"]) + " 2>&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("mine\n", 0)


def test_double_dash_is_passed_to_the_script(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "import sys; print(sys.argv[1:])")
    for program in (("script.py",), ("-m", "script"), ("--", "script.py")):
        assert retrograd("run", *program, "a", "--", "-b", cwd=tmp_path).stdout == "['a', '--', '-b']\n"


def test_directory_with_a_main_module_runs(tmp_path: Path) -> None:
    write(tmp_path / "app" / "__main__.py", "import sys, helper; print(helper.answer, sys.argv)")
    write(tmp_path / "app" / "helper.py", "answer = 42")
    assert retrograd("run", "app", "y", cwd=tmp_path).stdout == python("app", "y", cwd=tmp_path).stdout


@pytest.mark.parametrize("name", ["app.pyz", "app", "app.py"])
def test_zip_archive_with_a_main_module_runs_whatever_its_name(tmp_path: Path, name: str) -> None:
    """``python -m zipapp -o app`` makes one without an extension."""
    write(tmp_path / "source" / "__main__.py", "import sys; print(__name__, sys.argv); sys.exit(3)")
    zipapp.create_archive(tmp_path / "source", tmp_path / name, interpreter="/usr/bin/env python3")
    done = retrograd("run", name, "y", cwd=tmp_path)
    plain = python(name, "y", cwd=tmp_path)
    assert without_note(done) == (plain.stdout, plain.stderr, plain.returncode)


def test_bytecode_file_runs(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "import sys; print(__name__, sys.argv); sys.exit(3)")
    py_compile.compile(str(tmp_path / "script.py"), cfile=str(tmp_path / "script.pyc"))
    done = retrograd("run", "script.pyc", "y", cwd=tmp_path)
    plain = python("script.pyc", "y", cwd=tmp_path)
    assert without_note(done) == (plain.stdout, plain.stderr, plain.returncode)


def test_reported_lines_are_those_that_ran_if_the_script_is_edited_meanwhile(tmp_path: Path) -> None:
    edited = "from pathlib import Path\nPath(__file__).write_text('# nothing as before\\n' * 9)\n"
    write(tmp_path / "script.py", edited + FAILING)
    assert "> 5 | (rg.log(x) * 0).sum().backward()" in retrograd("run", "script.py", cwd=tmp_path).stderr


@pytest.mark.skipif(os.name != "posix", reason="the directory is in use")
def test_program_that_removes_its_working_directory(tmp_path: Path) -> None:
    gone = "import os, tempfile\nos.chdir(folder := tempfile.mkdtemp())\nos.rmdir(folder)\n"
    write(tmp_path / "script.py", gone + FAILING)
    done = retrograd("run", "script.py", cwd=tmp_path)
    assert f"{tmp_path / 'script.py'}:6" in done.stderr
    assert "-Inf born in log, script.py:6, step 1 - update withheld" in done.stderr


def test_findings_that_cannot_be_printed_leave_the_exit_code_alone(tmp_path: Path) -> None:
    write(tmp_path / "script.py", f"import sys\nsys.stderr.close()\n{FAILING}sys.exit(3)\n")
    assert retrograd("run", "--policy", "record", "script.py", cwd=tmp_path).returncode == 3


@pytest.mark.skipif(os.name != "posix", reason="a shell is asked")
def test_interrupted_script_exits_with_130(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "raise KeyboardInterrupt")
    command = f'"{sys.executable}" -m retrograd run script.py; echo $?'
    environment = {**ENVIRONMENT, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "130"
    assert "cli" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.py",), "nowhere.py: No such file"),
        (
            ("python3.11", "script.py"),
            "No such file or directory. Leave python3.11 out: the script runs in the Python",
        ),
        (("python.exe", "script.py"), "Leave python.exe out"),
        (("py", "script.py"), "Leave py out"),
        (("torchrun", "script.py"), "It goes in front: torchrun --no-python retrograd run"),
        (("-m", "no_such_module"), "no_such_module"),
        (("-m", "json.no_such_part"), "json.no_such_part"),
        (("-m", "email"), "email: it is a package without a __main__.py"),
        (("no_such_archive.zip",), "no_such_archive.zip: there is no __main__.py"),
        ((".",), "cannot run .: there is no __main__.py"),
        ((), "nothing to run"),
        (("-m",), "nothing to run"),
        (("-c",), "nothing to run: give a script, a module after -m, or code after -c"),
        (
            ("--report", "script.py"),
            "nothing to run: give a script, a module after -m, or code after -c; script.py was taken for the DIR",
        ),
        (("--lr", "1", "script.py"), "unrecognized arguments: --lr; put the script's own options after the script"),
        (("--polcy", "warn", "script.py"), "retrograd run: error: unrecognized arguments: --polcy"),
        (("--policy", "pray", "script.py"), "pray"),
        (("--from-step", "0", "script.py"), "must be a step number, counted from 1, but got '0'"),
        (("--seed", "-1", "script.py"), "must be a number from 0 to 4294967295, but got '-1'"),
        (("--seed", "4294967296", "script.py"), "must be a number from 0 to 4294967295, but got '4294967296'"),
        (("--seed", "x", "script.py"), "must be a number from 0 to 4294967295, but got 'x'"),
        (("no_such_bytecode.pyc",), "no_such_bytecode.pyc: No such file"),
        (("--from-step", "soon", "script.py"), "must be a step number, counted from 1, but got 'soon'"),
        (("--report", "script.py", "script.py"), "script.py"),
    ],
)
def test_run_names_what_it_cannot_run(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    write(tmp_path / "script.py", "print('ran')")
    done = retrograd("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_frames_of_installed_packages_are_shown_as_one_line(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "looping"
    package.mkdir(parents=True)
    write(package / "__init__.py", "def fit(step):\n    run(step)\n\n\ndef run(step):\n    step()\n")
    lines = ["import sys", "sys.path.insert(0, 'site-packages')", "import looping, retrograd as rg", "def step():"]
    lines += ["    rg.log(rg.zeros(1, requires_grad=True)).sum().backward()", "looping.fit(step)"]
    write(tmp_path / "script.py", "\n".join(lines))
    trace = retrograd("run", "script.py", cwd=tmp_path).stderr.partition("AnomalyError")[0]
    assert [line.strip() for line in trace.splitlines()] == [
        "Traceback (most recent call last):",
        f'File "{tmp_path / "script.py"}", line 6, in <module>',
        "looping.fit(step)",
        "... in looping",
        f'File "{tmp_path / "script.py"}", line 5, in step',
        "rg.log(rg.zeros(1, requires_grad=True)).sum().backward()",
    ]


def test_script_without_a_command_suggests_run(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "print('ran')")
    done = retrograd("script.py", "--lr", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("-m retrograd run script.py --lr 1")
    assert not done.stdout


# --- findings -------------------------------------------------------------------------------------------------------


def test_finding_is_shown_after_the_traceback(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    done = retrograd("run", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert not done.stdout
    trace, _, report = done.stderr.partition("-- retrograd --")
    assert trace.startswith("Traceback (most recent call last):")
    assert 'script.py", line 3, in <module>' in trace
    assert "AnomalyError" in trace
    assert str(SOURCE) not in trace, "only the user's own frames"
    assert "born in log, script.py:3" in report
    assert "input = 0.0" in report
    assert done.stderr.isascii()
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(("form", "name"), [("-", "<stdin>"), ("-c", "<string>")])
def test_finding_in_a_program_without_a_file_shows_its_line(tmp_path: Path, form: str, name: str) -> None:
    given, text = ((form,), FAILING) if form == "-" else ((form, FAILING), "")
    done = retrograd("run", *given, cwd=tmp_path, text=text)
    assert done.returncode == 1
    assert f"born in log, {name}:3" in done.stderr
    assert "> 3 | (rg.log(x) * 0).sum().backward()" in done.stderr


def test_finding_of_a_watch_inside_the_script_is_reported(tmp_path: Path) -> None:
    write(
        tmp_path / "script.py",
        """\
        import retrograd as rg
        with rg.anomaly.watch():
            rg.log(rg.zeros(3).requires_grad_()).sum().backward()
        """,
    )
    done = retrograd("run", "--report", "found", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("-- retrograd --") == 1
    assert "why       log(0) is -inf" in done.stderr
    (run,) = read_runs(tmp_path / "found" / "events.jsonl")
    assert [event.op for event in run.events] == ["log"]


def test_diverging_weights_without_an_optimizer(tmp_path: Path) -> None:
    """The report does not mention an optimizer if the program has none."""
    write(
        tmp_path / "script.py",
        """\
        import retrograd as rg
        w, lr = rg.ones(2, requires_grad=True), 1e3
        for _ in range(100):
            loss = (w * w).sum()
            loss.backward()
            with rg.no_grad():
                w -= lr * w.grad
            w.grad = None
        """,
    )
    report = retrograd("run", "script.py", cwd=tmp_path).stderr
    assert "The weights ran away" in report
    assert "optim" not in report
    assert "instead   lr = lr / 10\n" in report


STOPPING = """\
import torch
from torch.utils.data import DataLoader
x = torch.ones(1, requires_grad=True)
def main():
    for k in DataLoader(torch.arange(3)):
        loss = torch.log(x - k).sum()
        if WHEN == "before" and loss.isinf():
            return
        loss.backward()
        if WHEN == "after" and loss.isinf():
            return
main()
print("done")
"""

ANOTHER_LOOP = """\
import retrograd as rg
x = rg.ones(1, requires_grad=True)
def main():
    for k in range(3):
        loss = rg.log(x - k).sum()
        if loss.isinf():
            break
        loss.backward()
main()
print("done")
"""


@pytest.mark.parametrize(
    ("script", "place"),
    [
        (f"WHEN = 'before'\n{STOPPING}", "script.py:7, step 2"),
        (f"WHEN = 'after'\n{STOPPING}", "script.py:7, step 2"),
        (ANOTHER_LOOP, "script.py:5, step 2"),
    ],
    ids=["before backward", "after backward", "another loop"],
)
@pytest.mark.parametrize("policy", ["raise", "record"])
def test_script_that_leaves_its_loop_at_a_nan_loss_is_reported(
    tmp_path: Path, script: str, place: str, policy: str
) -> None:
    write(tmp_path / "script.py", script)
    run = forked if script is not ANOTHER_LOOP else python
    done = run("-m", "retrograd", "run", "--policy", policy, "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (int(policy == "raise"), "done\n")
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[1].startswith(f"-Inf born in log, {place}")


LEAVING_OUT = """\
import retrograd as rg
x = rg.tensor([1.0, 2.0], requires_grad=True)
for factor in (1.0, 0.0, 1.0, 0.0, 0.0, 1.0):
    loss = rg.log(x * factor).mean()
    if rg.isfinite(loss):
        loss.backward()
print("done")
"""


def test_skipped_batches_are_counted_at_the_end(tmp_path: Path) -> None:
    write(tmp_path / "script.py", LEAVING_OUT)
    done = retrograd("run", "--report", "kept", "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "-Inf born in log, script.py:4, step 2 - the program skipped 3 such batches" in done.stderr
    assert "the program skipped 3 such batches" in retrograd("report", "kept", cwd=tmp_path).stdout


@pytest.mark.parametrize("policy", ["warn", "record", "skip_step"])
def test_policies_other_than_raise_let_the_script_finish(tmp_path: Path, policy: str) -> None:
    write(tmp_path / "script.py", FAILING)
    done = retrograd("run", "--policy", policy, "script.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "survived\n"
    assert "born in log, script.py:3" in done.stderr


def test_healthy_run_prints_nothing_unless_nothing_was_watched(tmp_path: Path) -> None:
    write(tmp_path / "healthy.py", "import retrograd as rg\nrg.ones(3).requires_grad_().sum().backward()\n")
    write(tmp_path / "idle.py", "print('no training here')")
    assert not retrograd("run", "healthy.py", cwd=tmp_path).stderr
    write(tmp_path / "asking.py", "import retrograd as rg\nrg.func.grad(lambda x: x.sum())(rg.ones(3))\n")
    assert not retrograd("run", "asking.py", cwd=tmp_path).stderr
    assert retrograd("run", "idle.py", cwd=tmp_path).stderr == f"{NOTHING_WATCHED}\n"
    own = "import retrograd as rg\nx = rg.ones(2).requires_grad_()\nwith rg.anomaly.watch():\n    x.sum().backward()\n"
    write(tmp_path / "own.py", own)
    assert retrograd("run", "own.py", cwd=tmp_path).stderr == ""


DERIVATIVES = {
    "jacrev": "rg.func.jacrev(rg.sin)(x)",
    "jacfwd": "rg.func.jacfwd(rg.sin)(x)",
    "jvp": "rg.func.jvp(rg.sin, (x,), (x,))",
    "vjp": "rg.func.vjp(rg.sin, x)[1](x)",
    "hessian": "rg.func.hessian(lambda x: rg.sin(x).sum())(x)",
    "grad of many": "rg.autograd.grad(rg.sin(y := x.clone().requires_grad_()), y, x)",
    "dual": "from retrograd.autograd.forward_ad import *\nwith dual_level(): unpack_dual(rg.sin(make_dual(x, x)))",
    "inner watch": "with rg.anomaly.watch(): rg.func.jvp(rg.sin, (x,), (x,))",
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_every_kind_of_derivative_counts_as_watched(tmp_path: Path, name: str) -> None:
    (tmp_path / "script.py").write_text(f"import retrograd as rg\nx = rg.tensor([1.0, 2.0])\n{DERIVATIVES[name]}\n")
    done = retrograd("run", "script.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


ARGPARSE = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--seed", type=int)
print(parser.parse_args())
"""


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines that retrograd itself printed."""
    return [line for line in done.stderr.splitlines() if line.startswith("retrograd:")]


@pytest.mark.parametrize("given", [["--report", "runs/7"], ["--report=runs/7"]])
def test_option_of_retrograd_after_the_script_name_is_explained(tmp_path: Path, given: list[str]) -> None:
    write(tmp_path / "script.py", ARGPARSE)
    done = retrograd("run", "--seed", "3", "script.py", *given, "--epochs", "2", cwd=tmp_path)
    assert done.returncode == 2
    [line] = said(done)
    command = shlex.split(line.partition("before the script: ")[2])
    assert command[-6 - len(given) :] == ["run", "--seed", "3", *given, "script.py", "--epochs", "2"]
    ends = subprocess.run(command, cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": str(SOURCE)}, check=False)
    assert ends.returncode == 0
    assert (tmp_path / "runs" / "7").is_dir()


def test_option_after_the_script_name_is_explained_if_the_script_raises(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "import sys\nraise ValueError(f'unknown: {sys.argv[1]}')")
    assert "run --policy warn script.py" in said(retrograd("run", "script.py", "--policy", "warn", cwd=tmp_path))[0]


def test_missing_package_is_explained(tmp_path: Path) -> None:
    """This goes wrong first if retrograd is installed in an environment of its own."""
    write(tmp_path / "script.py", "import not_installed.anywhere")
    done = retrograd("run", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    [line] = said(done)
    assert os.path.normpath(sys.executable) in line
    assert "'not_installed'" in line
    write(tmp_path / "script.py", "import json.not_a_part")
    assert not said(retrograd("run", "script.py", cwd=tmp_path))


@pytest.mark.parametrize("given", [["--seed", "3"], ["--seed", "3", "--help"], ["--epochs", "many"]])
def test_options_of_the_script_are_not_commented_on(tmp_path: Path, given: list[str]) -> None:
    write(tmp_path / "script.py", ARGPARSE)
    assert said(retrograd("run", "script.py", *given, cwd=tmp_path)) == [NOTHING_WATCHED]
    write(tmp_path / "script.py", "raise FileNotFoundError('data.csv')")
    assert not said(retrograd("run", "script.py", *given, cwd=tmp_path))


def test_finding_that_the_script_catches_keeps_its_exit_code(tmp_path: Path) -> None:
    code = FAILING.replace("(rg.log", "try: (rg.log").replace("print", "finally: raise SystemExit(5)\nprint")
    write(tmp_path / "script.py", code)
    done = retrograd("run", "script.py", cwd=tmp_path)
    assert done.returncode == 5
    assert "born in log" in done.stderr


def test_report_option_and_report_command(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    retrograd("run", "--report", "runs/7", "script.py", "--lr", "3", cwd=tmp_path)
    directory = tmp_path / "runs" / "7"
    assert sorted(path.name for path in directory.iterdir()) == ["events.jsonl", "report.html"]
    [run] = read_runs(directory / "events.jsonl")
    assert run.start is not None
    assert run.start.command[-3:] == ("script.py", "--lr", "3")
    (tmp_path / "script.py").unlink()  # the source was kept with the event
    for path in ("runs/7", "runs/7/events.jsonl"):
        shown = retrograd("report", path, cwd=tmp_path)
        assert shown.returncode == 0
        assert "> 3 | (rg.log(x) * 0).sum().backward()" in shown.stdout
        assert "report.html" in shown.stdout
        assert not shown.stderr


def test_every_rank_writes_its_own_report_file(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    for rank in ("0", "1"):
        retrograd("run", "--report", "out", "script.py", cwd=tmp_path, RANK=rank)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["events-rank0.jsonl", "events-rank1.jsonl", "report-rank0.html", "report-rank1.html"]
    assert retrograd("report", "out", cwd=tmp_path).stdout.count("born in log") == 2


def test_report_command_writes_the_page_of_a_killed_run(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING + "import os; os._exit(9)\n")
    done = retrograd("run", "--policy", "record", "--report", "out", "script.py", cwd=tmp_path)
    assert done.returncode == 9
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["events.jsonl"]
    retrograd("report", "--html", "out", cwd=tmp_path)
    assert "born in log" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.jsonl", "missing.jsonl"),
        ("empty.jsonl", "is empty"),
        ("other.jsonl", "not a retrograd recording"),
        ("directory", "no recording"),
    ],
)
def test_report_command_refuses_what_is_not_a_report(tmp_path: Path, path: str, said: str) -> None:
    write(tmp_path / "empty.jsonl", "")
    write(tmp_path / "other.jsonl", '{"a": 1}\nwords\n')
    (tmp_path / "directory").mkdir()
    done = retrograd("report", path, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell is asked")
def test_report_into_a_closed_pipe(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    retrograd("run", "--report", "out", "script.py", cwd=tmp_path)
    command = f'"{sys.executable}" -m retrograd report out | true'
    environment = {**ENVIRONMENT, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
    )
    assert not done.stderr


def test_report_into_a_closed_pipe_on_windows(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    retrograd("run", "--report", "out", "script.py", cwd=tmp_path)
    code = """
        import errno, os, sys
        from retrograd.cli import main
        class Closed:  # Windows knows no EPIPE
            encoding = "utf-8"
            isatty = staticmethod(lambda: False)
            fileno = staticmethod(lambda: 1)
            def write(self, text):
                raise OSError(errno.EINVAL, "Invalid argument")
        sys.stdout = Closed()
        status = main(["report", "out"])
        sys.stdout = sys.__stdout__
        sys.exit(status)
    """
    done = python("-c", textwrap.dedent(code), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_unwritable_report_page_is_named(tmp_path: Path) -> None:
    write(tmp_path / "script.py", FAILING)
    retrograd("run", "--report", "out", "script.py", cwd=tmp_path)
    (tmp_path / "out" / "report.html").unlink()
    (tmp_path / "out" / "report.html").mkdir()  # open in another program, on Windows
    done = retrograd("report", "--html", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "retrograd: cannot write " in done.stderr
    assert "Traceback" not in done.stderr


# --- the rest -------------------------------------------------------------------------------------------------------


def test_demo_finds_the_fault_and_the_suggested_fix_repairs_it(tmp_path: Path) -> None:
    done = retrograd("demo", "--report", "out", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0
    assert "epoch  1" in done.stdout
    assert f"$ {sys.executable} -m retrograd run {tmp_path}" in done.stderr
    assert "born in log, train_digits.py:" in done.stderr
    shown = done.stderr[done.stderr.index("-Inf born in log, train_digits.py") :]
    kept = shown[shown.index("\n\nsaved") : shown.rindex("\n---")]  # what --report adds
    assert len(shown.replace(kept, "").splitlines()) < 24, "it fits a screen, with the prompt below"
    in_the_readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").split("```\n")[1]
    for line in in_the_readme.splitlines()[1:]:
        assert " ".join(line.removesuffix("[...]").split()) in " ".join(done.stderr.split()), "shown in README.md"
    event = read_runs(tmp_path / "out" / "events.jsonl")[0].events[0]
    assert isinstance(event, NaNEvent)
    assert event.filename is not None
    assert event.code_line is not None
    assert event.remedy is not None
    code = Path(event.filename).read_text()
    assert code.count(event.code_line) == 1
    write(tmp_path / "repaired.py", code.replace(event.code_line, event.remedy))
    repaired = retrograd("run", "repaired.py", cwd=tmp_path)
    assert repaired.returncode == 0
    assert not repaired.stderr
    assert "nan" not in repaired.stdout


def test_package_imported_from_a_zip_archive(tmp_path: Path) -> None:
    """The package runs from a wheel or zipapp on the path."""
    with zipfile.ZipFile(tmp_path / "retrograd.zip", "w") as archive:
        for path in (SOURCE / "retrograd").rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, path.relative_to(SOURCE))
    done = retrograd(
        "demo", "--report", "out", cwd=tmp_path, TMPDIR=str(tmp_path), PYTHONPATH=str(tmp_path / "retrograd.zip")
    )
    assert done.returncode == 0, done.stderr
    assert "born in log, train_digits.py:" in done.stderr
    assert "/retrograd.zip/" not in done.stderr  # no frame of the package is shown
    assert (tmp_path / "out" / "report.html").exists()


def test_version_and_help(tmp_path: Path) -> None:
    assert retrograd("--version", cwd=tmp_path).stdout == f"retrograd {rg.__version__}\n"
    helped = retrograd("--help", cwd=tmp_path)
    assert helped.returncode == 0
    assert "retrograd run train.py" in helped.stdout
    bare = retrograd(cwd=tmp_path)
    assert bare.returncode == 2
    assert bare.stderr == helped.stdout


@pytest.mark.skipif(os.name != "posix", reason="signals as of POSIX")
def test_ctrl_c_ends_a_watched_script(tmp_path: Path) -> None:
    write(tmp_path / "script.py", "import time\nprint('ready', flush=True)\ntime.sleep(100)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "retrograd", "run", "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": str(SOURCE)},
        # a shell starts background jobs with the signal ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert error.endswith("KeyboardInterrupt\n")
    assert "retrograd" not in error


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_does_not_depend_on_the_system_encoding(tmp_path: Path, encoding: str) -> None:
    strict = {
        "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": encoding,
        "PYTHONWARNDEFAULTENCODING": "1", "PYTHONWARNINGS": "error::EncodingWarning", "TMPDIR": str(tmp_path),
    }  # fmt: skip
    done = retrograd("demo", "--report", "out", cwd=tmp_path, **strict)
    assert (done.returncode, "EncodingWarning" in done.stderr) == (0, False)
    shown = retrograd("report", "--html", "out", cwd=tmp_path, **strict)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "-Inf born in log" in shown.stdout
