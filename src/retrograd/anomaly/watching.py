"""How a watch is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.policies import Action


def watch(
    model: Any = None,
    optimizer: Any = None,
    policy: str | Mapping[str, Action] | Callable[[Any], str | None] = "raise",
    *,
    allow: Iterable[str] = (),
    allow_modules: Iterable[str] = (),
    max_events: int = 100,
    recorder: Any = None,
    budget: float = 0.01,
    lag: int = 0,
    from_step: int | None = None,
) -> Watch:
    """Keep a training loop under observation: find where a NaN or an infinity is born, before it reaches a weight.

    Use the result as a context manager, as a decorator, or through its ``start()`` and ``stop()``. A birth is an
    operation that makes a NaN or an infinity from ordinary numbers; the processor's floating-point flags report it, so
    watching costs little. Whether it does harm is decided at the boundaries: when ``backward`` starts (the loss), when
    it ends (the gradients), and when an optimizer steps.

    Parameters
    ----------
    model : Module, optional
        For the names of parameters and modules in reports, and for its buffers in a replay.
    optimizer : Optimizer, optional
        For its settings in reports.
    policy : str, callable, or dict of them
        What to do: ``"ignore"``, ``"record"`` (only in ``events``), ``"warn"``, ``"raise"``, ``"skip_step"`` (the step
        changes no weight, training goes on), or a function of the event that returns one of these. A dictionary gives
        one for each kind: ``"nan"`` and ``"inf"`` for values that reached the loss or a gradient (by default both
        "raise"), ``"overflow"`` and ``"underflow"`` for births that did no harm, ``"spike"`` for gradients that grow
        beyond what is usual (by default all "ignore"; but unless "overflow" is given, one warning reports a
        normalisation whose variance overflowed: it gives zeros, and training stalls without any NaN).
    allow : str or iterable of str
        Operations whose infinities are meant, such as ``"log"``: they are not suspects.
    allow_modules : str or iterable of str
        Modules of ``model``, by name, whose infinities are meant.
    max_events : int
        How many events are kept; the oldest are dropped.
    recorder : object with a method ``write(event, *, outcome)``, optional
        Gets every event as it happens, and what becomes of the step; for example a
        :class:`retrograd.anomaly.report.Report`.
    budget : float
        The share of the running time for work that the protection of the weights does not need: noting the lines of
        operations (PyTorch), and checks of gradients that neither a flag nor the policy asks for. ``overhead`` is the
        share taken.
    lag : int
        1 to read the result of a check one step later, for PyTorch models on a GPU: the program then never waits for
        the device, which holds a bad update back all the same. See "Without waiting for a GPU" in docs/pytorch-gpu.md.
    from_step : int, optional
        The step, counted from 1, from which on every operation of this thread is recorded as in a second run, so that a
        birth is found with line, element and operands when it happens. Earlier steps run as usual; from there on the
        program is far slower. An event that needs this names the step.

    Returns
    -------
    Watch

    Raises
    ------
    TypeError
        If ``model`` is no module, ``optimizer`` has no ``step``, or one string is given in place of a list of names.
    ValueError
        For an unknown kind, policy, operation or module, a budget that is not above 0, a ``lag`` other than 0 and 1, or
        a ``from_step`` that is not a step number.

    Examples
    --------
    >>> x = rg.tensor([1.0, 0.0], requires_grad=True)
    >>> with rg.anomaly.watch() as w:
    ...     loss = (x / x).sum()
    ...     loss.backward()
    Traceback (most recent call last):
    retrograd.anomaly.monitor.AnomalyError: ...
    >>> w.event.op, w.event.index, w.event.operands
    ('div', (1,), {'input': 0.0, 'other': 0.0})
    """
    return Watch(
        model,
        optimizer,
        policy,
        allow=allow,
        allow_modules=allow_modules,
        max_events=max_events,
        recorder=recorder,
        budget=budget,
        lag=lag,
        from_step=from_step,
    )
