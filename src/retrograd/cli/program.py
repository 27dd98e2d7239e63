"""Run a program in this process as ``python`` itself would."""

from __future__ import annotations

import builtins
import importlib.util
import io
import linecache
import os
import re
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

import retrograd


class ProgramNotFoundError(Exception):
    """The program to be run does not exist."""


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a file (or a directory or archive with a ``__main__.py``, or bytecode) as ``python path arguments...`` does.

    ``-`` is the standard input.

    Raises
    ------
    ProgramNotFoundError
        If the file is not there or cannot be read, or the directory has nothing to run, or it is a notebook.
    """
    if path == "-":
        if sys.stdin is None:
            raise ProgramNotFoundError("cannot run -: there is no standard input")
        _run_text(sys.stdin.buffer.read(), "<stdin>", ["-", *arguments], __file__="<stdin>")
        return
    if path.endswith(".ipynb"):
        raise ProgramNotFoundError(
            f"cannot run {path}: it is a notebook. Put `with retrograd.anomaly.watch(model, optimizer):` around its "
            "training loop, or convert it to a script with `jupyter nbconvert --to script`."
        )
    holds_program = bool(path) and PathFinder.find_spec("__main__", [path]) is not None  # an archive may have any name
    if not holds_program and (os.path.isdir(path) or path.endswith((".zip", ".pyz"))):
        raise ProgramNotFoundError(f"cannot run {path}: there is no __main__.py in it")
    if holds_program or (path.endswith(".pyc") and os.path.isfile(path)):
        sys.argv[:] = [path, *arguments]
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise ProgramNotFoundError(f"cannot run {path or repr(path)}: {error.strerror}{_launcher(path)}") from None
    filename = os.path.abspath(path)
    code = compile(source, filename, "exec", dont_inherit=True)
    linecache.getlines(filename)  # a script may be edited while it runs, and a report is to have the lines that run
    loader = SourceFileLoader("__main__", filename)
    _run(code, [path, *arguments], os.path.dirname(os.path.realpath(path)), __file__=filename, __loader__=loader)


def run_command(text: str, arguments: Sequence[str]) -> None:
    """Run a text as ``python -c text arguments...`` does."""
    _run_text(text.encode(), "<string>", ["-c", *arguments])


def _run_text(source: bytes, filename: str, argv: list[str], **attributes: Any) -> None:
    """Run code that is in no file, so that a report can show its lines all the same."""
    code = compile(source, filename, "exec", dont_inherit=True)
    text = importlib.util.decode_source(source)
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    _run(code, argv, "", __loader__=BuiltinImporter, **attributes)


def _launcher(name: str) -> str:
    """A hint for the case that a launcher of other programs was given instead of a script."""
    if re.fullmatch(r"py(thon[\d.]*)?(\.exe)?", name):
        return f". Leave {name} out: the script runs in the Python that retrograd is installed in."
    if name in ("torchrun", "torchrun.exe"):
        return ". It goes in front: torchrun --no-python retrograd run SCRIPT."
    return ""


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module, or the ``__main__`` of a package, as ``python -m name arguments...`` does.

    Raises
    ------
    ProgramNotFoundError
        If there is no such module.
    """
    sys.argv[:] = ["-m", *arguments]
    first_path = os.getcwd()
    _set_first_path(first_path)
    spec = _find(name)
    if spec.submodule_search_locations is not None:
        main = importlib.util.find_spec(f"{name}.__main__")
        if main is None:
            raise ProgramNotFoundError(f"cannot run {name}: it is a package without a __main__.py")
        spec = main
    loader = spec.loader
    code = loader.get_code(spec.name) if loader is not None and hasattr(loader, "get_code") else None
    if code is None:
        raise ProgramNotFoundError(f"cannot run {name}: it has no Python code")
    _run(
        code,
        [spec.origin or name, *arguments],
        first_path,
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )


def _find(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # an import inside the parent package failed, which is the user's own error
        spec = None
    if spec is None:
        raise ProgramNotFoundError(f"cannot run {name}: there is no module of that name on sys.path")
    return spec


def _run(code: CodeType, argv: list[str], first_path: str, **attributes: Any) -> None:
    main = ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, "__cached__": None, **attributes})
    sys.argv[:] = argv
    _set_first_path(first_path)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _set_first_path(directory: str) -> None:
    """Set where the program's own modules are looked up first, unless the user asked Python not to (``-P``)."""
    if not sys.flags.safe_path:
        sys.path[0] = directory


def show_only_own_frames(error: BaseException) -> None:
    """Give an error, and its causes, the traceback that it would have without the watch."""
    known: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in known:
            continue
        known.add(id(each))
        each.__traceback__ = own_traceback(each.__traceback__)
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def own_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """The program's own part of a traceback: without the frames that started it, and without those of the watch between
    it and torch.
    """
    while traceback is not None and _is_starter(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    frames: list[TracebackType] = []
    between = False  # whether the last frame was one of the watch
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_OURS) and (traceback.tb_next is not None or code.co_name == _MODE):
            between = True
            if code.co_name == _MODE and frames and frames[-1].tb_frame.f_code.co_name == _DISPATCH:
                frames.pop()
        else:
            # torch calls a function mode from the function that the mode then calls
            if between and frames and frames[-1].tb_frame.f_code is code and _hands_over(frames[-1]):
                frames.pop()
            frames.append(traceback)
            between = False
        traceback = traceback.tb_next
    inner = None
    for each in reversed(frames):
        each.tb_next, inner = inner, each
    return inner


def _hands_over(traceback: TracebackType) -> bool:
    """Whether a function of torch was delegating its call."""
    after = traceback.tb_next
    return after is not None and after.tb_frame.f_code.co_name == _DISPATCH


def _is_starter(filename: str) -> bool:
    return filename == runpy.__file__ or filename == "<frozen runpy>" or Path(filename).parent == Path(__file__).parent


_OURS = tuple(str(Path(retrograd.__file__).parent / each) + os.sep for each in ("anomaly", "cli"))
_MODE = "__torch_function__"
_DISPATCH = "handle_torch_function"
