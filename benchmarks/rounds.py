"""Taking turns: samples of several libraries, each in a process of its own, one after the other.

Only one of the processes works at a time; the others wait for their turn.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

MEASURE = Path(__file__).resolve().parent / "measure.py"
# Before a sample on several threads, this long is spent on untimed steps: the idle workers of the process before go on
# spinning for a while (OpenBLAS's for 2**26 cycles), and those woken now may first need a processor of their own.
WARM_UP = 0.1
# A round is quiet while other processes use less than so many cores. Noisy rounds are done again, within limits.
QUIET = 0.15
MOST_ROUNDS = 4  # times the number asked for
# Of the norm of a gradient; single elements may differ by more, where a ReLU rounds to the other side of zero.
TOLERANCE = 1e-3


class Player:
    """A process that runs steps of one library when it is asked to.

    Parameters
    ----------
    workload, library
        What it runs.
    environment
        Of the process.
    file
        Where it writes the gradients of the first step.
    """

    def __init__(self, workload, library, environment, file):
        self.warm_up = WARM_UP if workload.threads > 1 else 0
        command = [sys.executable, str(MEASURE), "times", workload.name, library.name, str(file)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.failed = self._read().get("failed")

    def _read(self):
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        complaint = self._process.stderr.read().strip().splitlines()
        return {"failed": complaint[-1] if complaint else f"status {self._process.wait()}"}

    def sample(self, repeats):
        """Seconds per step, and the processor time that the process has used since the last sample."""
        self._process.stdin.write(f"{self.warm_up} {repeats}\n")
        self._process.stdin.flush()
        answer = self._read()
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer["seconds"], answer["used"]

    def repeats_for(self, least_seconds):
        """How many steps it takes to fill a sample."""
        repeats = 1
        while (seconds := self.sample(repeats)[0] * repeats) < least_seconds / 4:
            repeats *= 4
        return max(1, math.ceil(repeats * least_seconds / seconds))

    def close(self):
        self._process.communicate()


def take_turns(workload, libraries, environment, rounds, least_seconds):
    """Samples of every library from a number of quiet rounds, or from all rounds where too few of them were quiet.

    Returns
    -------
    samples : dict
        By library, a list of seconds per step with one entry per round.
    failures : dict
        By library, why it has no samples.
    disturbed : bool
        Whether other processes kept the machine busy.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {library.name: Path(folder, f"{library.name}.npz") for library in libraries}
        players = {each.name: Player(workload, each, environment, files[each.name]) for each in libraries}
        # One library that cannot do a workload must not keep the others from being measured.
        failures = {name: player.failed for name, player in players.items() if player.failed}
        failures |= wrong_gradients({name: file for name, file in files.items() if name not in failures})
    try:
        able = {name: player for name, player in players.items() if name not in failures}
        repeats = {name: player.repeats_for(least_seconds) for name, player in able.items()}
        quiet, noisy = [], []
        for i in range(rounds * MOST_ROUNDS):
            times, others = play_round(i, able, repeats)
            (quiet if others < QUIET else noisy).append(times)
            if len(quiet) == rounds:
                break
    finally:
        for player in players.values():
            player.close()
    disturbed = len(quiet) < rounds / 2
    used = quiet + noisy if disturbed else quiet
    return {name: [times[name] for times in used] for name in able}, failures, disturbed


def wrong_gradients(files):
    """The errors in the gradients of libraries, compared with NumPy's by hand, or else torch's."""
    reference = "numpy" if "numpy" in files else "torch"
    if reference not in files:
        return {}
    expected = list(np.load(files[reference]).values())
    found = {name: difference(list(np.load(file).values()), expected) for name, file in files.items()}
    return {name: wrong for name, wrong in found.items() if wrong}


def difference(gradients, expected):
    """How gradients differ from the right ones; None if they agree."""
    if len(gradients) != len(expected):
        return f"{len(gradients)} gradients instead of {len(expected)}"
    for i, (got, right) in enumerate(zip(gradients, expected, strict=True)):
        if got.shape != right.shape or got.dtype != right.dtype:
            return f"gradient {i} is {got.dtype}{got.shape}, not {right.dtype}{right.shape}"
        error = np.linalg.norm(got - right) / np.linalg.norm(right)
        if not error <= TOLERANCE:
            return f"gradient {i} is off by {error:.1e}"
    return None


def play_round(i, players, repeats):
    """One sample of every library, and the number of cores that other processes used meanwhile.

    The order rotates from round to round, and every other round is reversed.
    """
    names = list(players)
    order = names[i % len(names) :] + names[: i % len(names)]
    busy, used, start = busy_seconds(), time.process_time(), time.perf_counter()
    times = {}
    for name in reversed(order) if i % 2 else order:
        times[name], spent = players[name].sample(repeats[name])
        used -= spent
    others = (busy_seconds() - busy) - (time.process_time() - used)
    return times, others / (time.perf_counter() - start)


def busy_seconds():
    """Processor time spent so far by anything, other virtual machines included; 0 where it is not known."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, stat.read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
