"""Running the same program again: its command, and the random seed it starts with."""

from __future__ import annotations

import copy
import itertools
import os
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import retrograd
from retrograd.anomaly.adapters.import_hook import ImportHook
from retrograd.anomaly.from_step import Again
from retrograd.anomaly.shell import command_line

LARGEST_SEED = 2**32 - 1  # the largest that NumPy accepts


class Command:
    """The command that runs the program again.

    Parameters
    ----------
    options
        The options of ``retrograd run`` as given, with their values; those that are None are left out.
    seed
        The seed of this run.
    target
        The script with its arguments, or ``-m`` and the module with them.
    """

    def __init__(self, options: Mapping[str, Any], seed: int, target: Sequence[str]) -> None:
        self._options = {name: str(value) for name, value in options.items() if value is not None}
        self.seed = seed
        self._target = target
        self._called = called()
        self._is_seeded = True

    def __call__(self, step: int) -> Again:
        """The command that records every operation from a step on."""
        seed = ("--seed", str(self.seed)) if self._is_seeded and not _is_one_of_many() else ()
        kept = {name: value for name, value in self._options.items() if name not in ("--from-step", "--seed")}
        words = [*self._called, "run", "--from-step", str(step), *seed, *_words(kept), *self._target]
        return Again(
            command_line(words),
            f"The command above records every operation from step {step} on"
            + (
                ", with the same random numbers (of Python, NumPy and torch, but not of a default_rng())."
                if seed
                else ". Set seeds, so that the next run is the same."
            ),
        )

    def with_options_in_front(self, names: Sequence[str]) -> str | None:
        """The command with these options before the script, if some of them were given after it; None otherwise."""
        moved: list[str] = []
        left: list[str] = []
        words = list(self._target)
        while words:
            word = words.pop(0)
            (moved if word.partition("=")[0] in names else left).append(word)
            if word in names and words:
                moved.append(words.pop(0))
        return command_line((*self._called, "run", *_words(self._options), *moved, *left)) if moved else None

    def in_other_process(self) -> Command:
        """The same for a process that the program starts, which has its own random numbers."""
        other = copy.copy(self)
        other._is_seeded = False
        return other


def _words(options: Mapping[str, str]) -> list[str]:
    return [word for each in options.items() for word in each]


def called() -> tuple[str, ...]:
    """How this command was called, in words that can be copied: as a module, by its name, or by its path."""
    words = sys.orig_argv
    if ("-m", "retrograd") in itertools.pairwise(words):
        return words[0], "-m", "retrograd"
    path = next((word for word in words[1:] if Path(word).stem == "retrograd" and Path(word).is_file()), None)
    found = shutil.which("retrograd")
    on_path = path is None or (found is not None and os.path.samefile(found, path))
    return ("retrograd",) if on_path else (str(path),)


def _is_one_of_many() -> bool:
    """Whether this is one of several processes that must not all start with the same random numbers."""
    return "RANK" in os.environ


def new_seed() -> int:
    """A seed that no other run has, short enough to be typed."""
    return random.SystemRandom().randint(0, LARGEST_SEED)


def set_seeds(seed: int) -> None:
    """Seed the global generators of Python, NumPy, retrograd, and torch if it gets imported.

    A program that sets no seed gets numbers as random as without this, and the same ones for the same seed.
    """
    if _is_one_of_many():
        return
    random.seed(seed)
    np.random.seed(seed)
    retrograd.manual_seed(seed)

    def seed_torch(torch: ModuleType) -> None:
        torch.manual_seed(seed)
        hook.remove()

    hook = ImportHook("torch", seed_torch)
    if "torch" in sys.modules:
        seed_torch(sys.modules["torch"])
    else:
        hook.put()
