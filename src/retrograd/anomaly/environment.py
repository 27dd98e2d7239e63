"""The watch that is on from the start, because the environment says so: ``RETROGRAD_WATCH=1 python train.py``.

With ``RETROGRAD_FROM_STEP=53`` in addition, every operation is recorded from step 53 on.
"""

from __future__ import annotations

import os
import sys

from retrograd.anomaly.from_step import Again
from retrograd.anomaly.policies import ACTIONS
from retrograd.anomaly.shell import with_environment
from retrograd.anomaly.watching import watch

VARIABLE = "RETROGRAD_WATCH"
FROM_STEP = "RETROGRAD_FROM_STEP"


def start() -> None:
    """Start a watch with the policy that the variable names; 1 means "raise", 0 or an empty value no watch.

    A second variable may give the step from which on everything is recorded.

    Raises
    ------
    ValueError
        If either has any other value.
    """
    said = os.environ.get(VARIABLE, "").strip()
    policy = {"1": "raise", "0": "ignore", "": "ignore"}.get(said, said)
    if policy not in ACTIONS:
        raise ValueError(f"{VARIABLE}={said}: set it to 1, or to a policy: {', '.join(ACTIONS)}")
    step = os.environ.get(FROM_STEP, "").strip()
    if step and not (step.isdecimal() and int(step)):
        raise ValueError(f"{FROM_STEP}={step}: set it to a step number, counted from 1")
    if policy != "ignore":
        observer = watch(policy=policy, from_step=int(step) if step else None)
        observer.again = _again
        observer.start()


def _again(step: int) -> Again:
    """How to run the program again so that every operation is recorded from a step on."""
    settings = {FROM_STEP: str(step), VARIABLE: os.environ[VARIABLE].strip()}
    return Again(
        with_environment(settings, sys.orig_argv),
        f"The command above records every operation from step {step} on. Set seeds, so that the next run is the same.",
    )
