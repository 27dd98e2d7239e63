"""The command line: ``retrograd run``, ``retrograd report``, ``retrograd demo``."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from retrograd import __version__
from retrograd.anomaly.report import Report, ReportError, print_run, read_latest
from retrograd.anomaly.report.html import write_html
from retrograd.anomaly.report.jsonl import page_of, recordings
from retrograd.anomaly.shell import command_line
from retrograd.cli.again import LARGEST_SEED, Command, called, new_seed
from retrograd.cli.program import run_command, run_module, run_script
from retrograd.cli.session import run_watched

POLICIES = ("raise", "warn", "record", "skip_step")

_NOBODY_READS = errno.EPIPE, errno.EINVAL  # EINVAL: a pipe on Windows whose reader has gone

EPILOG = """\
examples:
  retrograd run train.py --epochs 3          watch an unmodified script
  retrograd run -m mypackage.train           the same for a module
  retrograd run --policy skip_step train.py  leave bad updates out and go on
  retrograd run --report runs/7 train.py     keep events.jsonl and report.html
  retrograd report runs/7                    show what was kept
  retrograd demo                             a finding on real data, in seconds
"""

RUN_EPILOG = """\
Options of retrograd come before the script; all that follows is the script's
own. The script runs as under plain python: its arguments, its directory first
on sys.path, its standard streams, its tracebacks and its exit code are its own.
A finding is shown on standard error.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    parser = _parser()
    given = sys.argv[1:] if argv is None else list(argv)
    if given and given[0].endswith(".py"):
        parser.error(f"to run a script, write: {command_line((*called(), 'run', *given))}")
    arguments, unknown = parser.parse_known_args(given)
    if unknown:  # argparse itself would show the usage of retrograd, not that of its command
        advice = "; put the script's own options after the script" if arguments.command is _run else ""
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return 2
    return arguments.command(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="retrograd",
        description="Find where NaN and Inf are born: operation, line, element, cause and remedy.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"retrograd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(command=None, parser=parser)
    _add_run(commands)
    _add_report(commands)
    _add_demo(commands)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a script or a module under the watch",
        description="Run an unmodified script or module under the watch.",
        usage="retrograd run [--policy POLICY] [--report DIR] [--from-step N]\n"
        "                     [--seed SEED] (SCRIPT | - | -m MODULE | -c CODE) [ARGUMENT ...]",
        epilog=RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    run.add_argument(
        "--policy",
        choices=POLICIES,
        default="raise",
        help="what to do when NaN or Inf reaches the loss, a gradient or a weight: raise an error before the update "
        "(default), warn, only record, or skip the update and go on",
    )
    run.add_argument(
        "--report", metavar="DIR", type=Path, help="keep the findings in DIR: events.jsonl and report.html"
    )
    run.add_argument(
        "--from-step",
        metavar="N",
        type=_step,
        help=(
            "record every operation from step N on (a backward pass, counted from 1), to find a birth where it "
            "happens; a finding that needs this names the step"
        ),
    )
    run.add_argument(
        "--seed",
        metavar="SEED",
        type=_seed,
        help=(
            "start with the random state of the run whose report names this seed; seeds that the program sets itself "
            "still apply"
        ),
    )
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)  # SCRIPT speaks for them
    run.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.add_argument(
        "script",
        metavar="SCRIPT | - | -m MODULE | -c CODE",
        nargs=argparse.REMAINDER,
        help="the program to run, followed by its own arguments",
    )
    run.set_defaults(command=_run, parser=run)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="show a saved recording",
        description="Show what 'retrograd run --report' saved: the first birth in full, then a list.",
        allow_abbrev=False,
    )
    report.add_argument("path", metavar="PATH", type=Path, help="the directory, or an events.jsonl in it")
    report.add_argument("--all", action="store_true", help="list all births, and show each in full")
    report.add_argument(
        "--html", action="store_true", help=("also write report.html, for a browser, next to the recording")
    )
    report.set_defaults(command=_report, parser=report)


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train on handwritten digits with a planted fault, and find it",
        description="Train a small network on real images of handwritten digits under the watch. Its loss fails after "
        "a while, and the finding is shown.",
        allow_abbrev=False,
    )
    demo.add_argument("--report", metavar="DIR", type=Path, help="also keep the findings in DIR")
    demo.set_defaults(command=_demo, parser=demo)


def _run(arguments: argparse.Namespace) -> int:
    flag = "-m" if arguments.module is not None else "-c" if arguments.code is not None else None
    if flag is None:
        target = arguments.script[arguments.script[:1] == ["--"] :]  # "--" may end retrograd's own options
    else:
        words = arguments.code if arguments.module is None else arguments.module
        target = words + arguments.script  # argparse splits the program's arguments at a "--"
    if not target:
        taken = arguments.report is not None and arguments.report.suffix == ".py"
        advice = f"; {arguments.report} was taken for the DIR of --report" if taken else ""
        arguments.parser.error(f"nothing to run: give a script, a module after -m, or code after -c{advice}")
    name, *rest = target
    start = {None: run_script, "-m": run_module, "-c": run_command}[flag]
    seed = new_seed() if arguments.seed is None else arguments.seed
    policy = None if arguments.policy == "raise" else arguments.policy
    options = {
        "--policy": policy, "--report": arguments.report, "--from-step": arguments.from_step, "--seed": arguments.seed
    }  # fmt: skip
    again = Command(options, seed, target if flag is None else [flag, *target])
    return _watch(lambda: start(name, rest), arguments.policy, arguments.report, again, arguments.from_step)


def _watch(
    program: Callable[[], None], policy: str, directory: Path | None, again: Command, from_step: int | None = None
) -> int:
    try:
        report = Report(directory)
    except OSError as error:
        return _complain(f"cannot keep a report in {directory}: {error.strerror}")
    return run_watched(program, policy, report, again, from_step)


def _step(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a step number, counted from 1, but got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {LARGEST_SEED}, but got {text!r}")
    return int(text)


def _report(arguments: argparse.Namespace) -> int:
    try:
        paths = recordings(arguments.path) if arguments.path.is_dir() else [arguments.path]
        latest = {path: read_latest(path) for path in paths}
    except ReportError as error:
        return _complain(str(error))
    for path, run in latest.items():
        page = page_of(path)
        if arguments.html:
            try:
                write_html(page, run)
            except OSError as error:
                return _complain(f"cannot write {page}: {error.strerror}")
        try:
            print_run(run, files=[path, page] if page.exists() else [path], everything=arguments.all, file=sys.stdout)
        except OSError as error:  # the reader has seen enough, as in "retrograd report runs/7 | head"
            if error.errno not in _NOBODY_READS:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            break
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from retrograd.demo import SCRIPT

    # A copy, because it is meant to be edited, and because code inside the package does not count as a user's program.
    script = os.path.join(tempfile.mkdtemp(prefix="retrograd-demo-"), SCRIPT.name)
    Path(script).write_bytes(SCRIPT.read_bytes())
    print("This script is yours to edit: paste the remedy into it and run it again.", file=sys.stderr)
    print(f"$ {command_line((*called(), 'run', script))}", file=sys.stderr, flush=True)
    again = Command({}, new_seed(), [script])
    status = _watch(lambda: run_script(script, []), "raise", arguments.report, again)
    if status != 1:
        return status or _complain("the demo ended without the error that it should show")
    return 0


def _complain(message: str) -> int:
    print(f"retrograd: {message}", file=sys.stderr)
    return 2
