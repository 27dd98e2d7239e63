"""Runs programs that need torch, each in its own process forked from one that has already imported torch.

Importing torch takes many times as long as what such programs do. What matters for how a program *begins* (which of the
libraries is imported first, options of the interpreter) is for tests that start it with :mod:`subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

_RUNPY = runpy.run_module.__code__.co_filename
_servers: list[subprocess.Popen[str]] = []


def python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python arguments...`` in a directory with an environment and return its output and exit code.

    The arguments are those of a script, or of a module behind ``-m``. Where torch is not installed, the test is
    skipped.
    """
    return side_by_side((arguments, environment), cwd=cwd)[0]


def side_by_side(
    *programs: tuple[Sequence[str], Mapping[str, str]], cwd: Path
) -> list[subprocess.CompletedProcess[str]]:
    """Do the same with several programs at once, each with its arguments and environment."""
    import pytest  # not in the processes that this file runs as well

    pytest.importorskip("torch", reason="torch is not installed")
    commands = [[sys.executable, *arguments] for arguments, _ in programs]
    environments = [{"PYTHONIOENCODING": "utf-8", **environment} for _, environment in programs]
    if not hasattr(os, "fork"):
        return _started(commands, environments, cwd)
    if not _servers:
        begin = [sys.executable, "-c", "from tests.forking import serve; serve()"]
        paths = os.pathsep.join([str(Path(__file__).parent.parent), environments[0].get("PYTHONPATH", "")])
        started = {**environments[0], "PYTHONPATH": paths}
        _servers.append(subprocess.Popen(begin, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=started))
        atexit.register(_servers[0].communicate)  # which closes its input: it ends
    server = _servers[0]
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        told = [
            {"command": command, "cwd": str(cwd), "environment": environment, "output": f"{folder}/{number}"}
            for number, (command, environment) in enumerate(zip(commands, environments, strict=True))
        ]
        server.stdin.write(json.dumps(told) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the process from which programs are forked has ended"
        said = [
            [Path(f"{each['output']}.{stream}").read_text(encoding="utf-8") for stream in ("out", "err")]
            for each in told
        ]
    codes = json.loads(answer)
    return [
        subprocess.CompletedProcess(command, code, *each)
        for command, code, each in zip(commands, codes, said, strict=True)
    ]


def _started(
    commands: list[list[str]], environments: list[dict[str, str]], cwd: Path
) -> list[subprocess.CompletedProcess[str]]:
    """Do the same without forks."""
    running = [
        subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        for command, environment in zip(commands, environments, strict=True)
    ]
    try:
        said = [each.communicate(timeout=100) for each in running]
    finally:
        for each in running:
            each.kill()
    return [
        subprocess.CompletedProcess(command, each.returncode, *outputs)
        for command, each, outputs in zip(commands, running, said, strict=True)
    ]


def serve() -> None:
    """Fork processes for every line of the input and answer with their exit codes."""
    import torch._dynamo  # noqa: F401  # which torch imports for its first optimizer

    gc.freeze()
    for line in sys.stdin:
        children = []
        for told in json.loads(line):
            child = os.fork()
            if child == 0:
                _become(**told)
            children.append(child)
        print(json.dumps([_code_of(child) for child in children]), flush=True)


def _code_of(child: int) -> int:
    until = time.monotonic() + 100
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(command: list[str], cwd: str, environment: dict[str, str], output: str) -> NoReturn:
    """Become the process of a command."""
    for number, name in enumerate((os.devnull, f"{output}.out", f"{output}.err")):
        file = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent.parent)]
    del sys.modules["tests.forking"], sys.modules["tests"]
    sys.orig_argv[:] = command
    code = 1
    try:
        if command[1] == "-m":
            sys.argv[:] = command[2:]
            sys.path[0] = cwd
            runpy.run_module(command[2], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = command[1:]
            path = Path(cwd, command[1])
            sys.path[0] = str(path.parent)
            sys.modules["__main__"] = main = ModuleType("__main__")
            main.__file__ = str(path)
            exec(compile(path.read_bytes(), path, "exec"), vars(main))
        code = 0
    except SystemExit as asked:
        if asked.code is None or isinstance(asked.code, int):
            code = asked.code or 0
        else:
            print(asked.code, file=sys.stderr)
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, _RUNPY):
            frames = frames.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
    # What the interpreter does at exit, except for tearing down the libraries, which takes a second.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
