"""What is known of the backward that is under way."""

from __future__ import annotations

import threading


class UnderWay(threading.local):
    """That of each thread, and what is left of it until the next one begins.

    Attributes
    ----------
    is_told
        Whether its loss, or a gradient within it, was told of: what comes of that is no news.
    is_withheld
        Whether the gradients that it returns belong to an update that may change nothing.
    is_scaled
        Whether a gradient scaler has multiplied the loss, and looks at the gradients until it is done.
    was_finite
        Whether it was finite before.
    of_number, value
        Of gradients that are asked for: whether what is differentiated is a single number, with vmap around one for
        each sample; and that number, if it is known.
    is_step
        Whether those that were returned last count as a step.
    """

    is_told = False
    is_withheld = False
    is_scaled = False
    was_finite = True
    of_number = False
    value: float | None = None
    is_step = False
