"""The state of the running backward."""

from __future__ import annotations

import threading


class ThreadState(threading.local):
    """The state of each thread's backward, kept until the next one begins.

    Attributes
    ----------
    is_told
        Whether its loss, or a gradient within it, was reported, so that consequences are not reported.
    is_withheld
        Whether the gradients that it returns belong to an update that may change nothing.
    is_scaled
        Whether a gradient scaler has multiplied the loss, and checks the gradients itself until it is done.
    was_finite
        Whether it was finite before.
    of_number, value
        For requested gradients: whether a single number is differentiated, under vmap one for each sample; and that
        number, if known.
    is_step
        Whether the gradients returned last count as a step.
    """

    is_told = False
    is_withheld = False
    is_scaled = False
    was_finite = True
    of_number = False
    value: float | None = None
    is_step = False
