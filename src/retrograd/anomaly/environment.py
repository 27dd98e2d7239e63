"""The watch that is on from the start, because the environment says so: ``RETROGRAD_WATCH=1 python train.py``."""

from __future__ import annotations

import os

from retrograd.anomaly.monitor import watch
from retrograd.anomaly.policies import ACTIONS

VARIABLE = "RETROGRAD_WATCH"


def start() -> None:
    """Start a watch with the policy that the variable names; 1 stands for "raise", 0 and nothing for no watch.

    Raises
    ------
    ValueError
        If it says something else.
    """
    said = os.environ.get(VARIABLE, "").strip()
    policy = {"1": "raise", "0": "ignore", "": "ignore"}.get(said, said)
    if policy not in ACTIONS:
        raise ValueError(f"{VARIABLE}={said}: set it to 1, or to a policy: {', '.join(ACTIONS)}")
    if policy != "ignore":
        watch(policy=policy).start()
