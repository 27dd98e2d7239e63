"""The watch: keeps a training loop under observation, and stops a non-finite value before it reaches a weight."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from retrograd.anomaly.adapter import Adapter, ExplainsErrors, ReadsLater
from retrograd.anomaly.catalogue import explain
from retrograd.anomaly.decorated_calls import DecoratedCalls
from retrograd.anomaly.event import GradEvent, NaNEvent, is_birth, with_context, with_note
from retrograd.anomaly.expected import expected
from retrograd.anomaly.from_step import Again, could_tell_more, first_step_of, in_the_program, is_recorded
from retrograd.anomaly.gradient_guard import Growth
from retrograd.anomaly.messages import (
    ONCE,
    Warned,
    check_args,
    check_numbers,
    message_of,
    note_of,
    outcome_of,
)
from retrograd.anomaly.policies import ACTIONS, Action, LetThrough, names_allowed, operations_allowed, policies_of
from retrograd.anomaly.second_run import Batches, SecondRun, batches_of
from retrograd.anomaly.skipped_batches import IN_VAIN, CheckedLoss, SkippedBatches
from retrograd.anomaly.skipped_updates import SkippedUpdates
from retrograd.anomaly.stack_frames import cut_below_user, depth_of_user, is_in_backward, rendered_for_notebooks
from retrograd.context_decorators import from_begin_to_end

F = TypeVar("F", bound=Callable[..., Any])


class AnomalyError(RuntimeError):
    """A non-finite value was about to reach a weight; ``event`` says where it was born.

    Attributes
    ----------
    event : NaNEvent or GradEvent
        The birth; or what grew too large, if the policy for "spike" is "raise".
    """

    def __init__(self, event: NaNEvent | GradEvent, message: str) -> None:
        super().__init__(message)
        self.event = event

    _render_traceback_ = rendered_for_notebooks

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.event, self.args[0])


class AnomalyWarning(UserWarning):
    """The category of the warnings under the policy "warn"."""


# The watch decides how often each place is reported; Python would show a repeated text only once, even across watches.
# The filter is appended, so that the program's own filters take precedence.
warnings.simplefilter("always", AnomalyWarning, append=True)


_stack: list[Watch] = []


def current() -> Watch | None:
    """Return the watch that was started last and has not been stopped; None if there is none."""
    return _stack[-1] if _stack else None


class Watch:
    """Observes a training loop; made by :func:`watch`, which documents the parameters.

    Attributes
    ----------
    events : tuple of NaNEvent
        What was found, the latest ``max_events``.
    grad_events : tuple of GradEvent
        Gradients and updates that grew beyond what is usual, if there is a policy for "spike".
    step : int
        How many backward passes have ended since it was started, those under a watch within it included.
    derives : bool
        Whether a derivative of any kind has been requested since then.
    overhead : float
        The share of the time from then to now, or to its end, that went into checks at the boundaries.
    rerun_loaders : bool
        Whether loops over torch's ``DataLoader``, and closures of optimizers, are run as by :meth:`steps`; set before.
    tells_once : bool
        Whether the warning of :meth:`tell_once` is still to be given.
    from_step : int or None
        The first step of which every operation is recorded.
    again : callable
        Takes a step, and returns how to make the program record every operation from there on.
    left_out : SkippedBatches
        Batches that the program skipped by itself, because it saw that their loss is not finite.
    every_backward : bool
        Whether gradients are checked when each backward ends, and not only before an update, which a loop that is
        not ours may do after the step that can be run again; to be set before the start.
    """

    def __init__(
        self,
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
    ) -> None:
        check_args(model, optimizer, recorder)
        check_numbers(budget, lag, from_step, max_events)
        self.model, self.optimizer = model, optimizer
        self.policies = policies_of(policy)
        self.tells_once = not isinstance(policy, Mapping) or "overflow" not in policy
        self.allow = operations_allowed(allow)
        self.allow_modules = names_allowed("allow_modules", allow_modules, model)
        self.budget, self.lag, self.from_step = budget, lag, from_step
        self.again: Callable[[int], Again] = in_the_program
        self.recorder = recorder
        self.step = 0
        self.derives = False
        self.batch_idx: int | None = None
        self._around: list[int | None] = []  # the number in the loop around one that was left, until training resumes
        self.withheld = False
        self.loss_history: deque[float | None] = deque(maxlen=32)
        self.rerun_loaders = False
        self.every_backward = False
        self.grad_norm_history: deque[float | None] = deque(maxlen=32)  # step by step as the losses
        self.update_ratio: float | None = None
        self.listeners: list[Callable[[NaNEvent | GradEvent], None]] = []
        self._events: deque[NaNEvent] = deque(maxlen=max_events)
        self._grad_events: deque[GradEvent] = deque(maxlen=max_events)
        self._growth = Growth()
        self._adapters: list[Adapter] = []
        self._calls = DecoratedCalls()
        self._own_time = self._started = self._ended = 0.0
        self._replay: SecondRun | None = None
        self._unfinished: tuple[str, NaNEvent] | None = None  # finding of a step that was left before its second run
        self._let_through, self.left_out, self._skipped = LetThrough(), SkippedBatches(), SkippedUpdates()
        self._checked: tuple[str, NaNEvent] | None = None  # of a loss that may end the program's loop
        self._lock = threading.RLock()
        self._warned = Warned()

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Watch:
        """Start observing, in all threads.

        Raises
        ------
        RuntimeError
            If it observes already.
        """
        if self in _stack:
            raise RuntimeError("this watch is already running; stop() it first, or create another one with watch()")
        from retrograd.anomaly.adapters import adapters_for

        self._adapters = adapters_for(self)
        try:
            for adapter in self._adapters:
                adapter.start()
            self._started, self._own_time = time.perf_counter(), 0.0
            self.step, self.derives = 0, False
            self._let_through, self.left_out, self._skipped = LetThrough(), SkippedBatches(), SkippedUpdates()
            self.loss_history.clear()
            self.grad_norm_history.clear()
            _stack.append(self)
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stop observing and restore the previous state of everything. A watch may be started again."""
        if self not in _stack:
            return
        try:
            self.settle()
            unfinished, self._unfinished, self._checked = self._unfinished or self._checked, None, None
            if unfinished is not None:
                self._carry_out(*unfinished, told_as="explain")
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self._leave()
        finally:  # completes what an interrupt kept the first call from, or finds nothing left to do
            self._leave()

    def _leave(self) -> None:
        for adapter in reversed(self._adapters):
            adapter.stop()
        self._adapters = []  # which know the watch
        self._replay = self._unfinished = self._checked = None
        self.withheld = False
        if self not in _stack:
            return
        self._ended = time.perf_counter()
        _stack.remove(self)
        if _stack:
            _stack[-1].step += self.step  # the outer watch did not see these steps, but they count
            _stack[-1].derives |= self.derives

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._leave_step()
            if error is not None:
                self._left_by(error)
        finally:
            try:
                self.stop()
            finally:
                self._end()

    def _leave_step(self) -> None:
        """Take over what a step has tripped over whose loop is left but not closed: something holds its iterator."""
        if self._replay is not None:
            self._unfinished = self._replay.abandon() or self._unfinished

    def _left_by(self, error: BaseException) -> None:
        """End the watch because an error leaves what it watches; leaving a generator early is not an error."""
        if isinstance(error, GeneratorExit):
            return
        if isinstance(error, AnomalyError):
            cut_below_user(error)
        self.explain(error)
        self._unfinished = self._checked = None
        with suppress(Exception):  # findings are recorded; the error under way takes precedence
            self.settle()
        self._end()

    def __call__(self, function: F) -> F:
        """Observe every call of a function, also one within another; a generator or coroutine from begin to end."""
        return from_begin_to_end(function, lambda: self._calls.observed_by(self, lambda: self in _stack))

    # --- what users ask --------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        state = "observing" if self in _stack else "stopped" if self._started else "not started"
        found = f"{len(self._events)} event{'' if len(self._events) == 1 else 's'}"
        if self.left_out.total:
            found += f", {self.left_out.total} skipped by the program"
        return f"<{type(self).__name__}: {state}, step {self.step}, {found}, overhead {self.overhead:.2%}>"

    @property
    def events(self) -> tuple[NaNEvent, ...]:
        return tuple(self._events.copy())

    @property
    def grad_events(self) -> tuple[GradEvent, ...]:
        return tuple(self._grad_events.copy())

    @property
    def triggered(self) -> bool:
        """Whether a NaN or an infinity was found."""
        return bool(self._events)

    @property
    def event(self) -> NaNEvent | None:
        """The first of the findings that are kept."""
        return self._events[0] if self._events else None

    @property
    def overhead(self) -> float:
        elapsed = (time.perf_counter() if self in _stack else self._ended) - self._started
        return self._own_time / elapsed if elapsed > 0 else 0.0

    def settle(self) -> None:
        """Wait for the pending result under ``lag=1``, and carry out the policy; :meth:`stop` does so too."""
        for adapter in self._adapters:
            if isinstance(adapter, ReadsLater):
                adapter.settle()

    def set_batch(self, batch_idx: int) -> None:
        """Set the number of the current batch; events carry it. :meth:`steps` does this by itself."""
        self.batch_idx = batch_idx

    def steps(self, loader: Iterable[Any]) -> Batches:
        """Yield the batches of ``loader``, and one of them twice if something goes wrong with it.

        When a step trips, its update is withheld, weights, random states and buffers are put back as they were, and the
        *same batch is yielded once more*, to the same loop body, with every operation checked and every line recorded.
        After this second pass the policy is carried out: under "raise" the exact finding is raised.

        Returns
        -------
        Batches
            An iterator, as long as ``loader`` where that has a length.

        Raises
        ------
        RuntimeError
            If the watch has not been started, or has been stopped.
        TypeError
            If ``loader`` cannot be iterated over.

        Examples
        --------
        >>> w = rg.anomaly.watch()
        >>> x = rg.ones(2).requires_grad_()
        >>> with w:
        ...     for batch in w.steps([rg.tensor([1.0, 2.0]), rg.tensor([1.0, 0.0])]):
        ...         loss = rg.log(x * batch).sum()
        ...         loss.backward()
        Traceback (most recent call last):
        retrograd.anomaly.monitor.AnomalyError: ...
        """
        return Batches(loader, self._steps(loader))

    def _steps(self, loader: Iterable[Any]) -> Generator[Any, None, None]:
        if self not in _stack:
            raise RuntimeError("this watch is not running: put the loop in `with w:`, or call w.start() before it")
        around = self._around.pop() if self._around else self.batch_idx  # number in a loop around this one
        for number, batch in enumerate(batches_of(loader)):
            self.batch_idx, self.withheld, self._around = number, False, []
            self._replay = replay = SecondRun(self._adapters)
            try:
                yield batch
                if replay.tripped is not None:
                    yield from self._again(batch, replay)
            except GeneratorExit:  # the loop was left, perhaps because the program noticed the harm, too
                self._around = [around]
                left = replay.abandon()
                if replay.adapters is self._adapters:
                    self._unfinished = left or self._unfinished  # which may be from a loop inside this one
                elif left is not None:  # it has stopped the watch before
                    self._record(*left, "explain")
                raise
            finally:
                if self._replay is replay:  # else the loop was left by an exception, and another one is under way
                    self._replay = None
        self.batch_idx = around  # what comes now belongs to no batch of this loop

    def _again(self, batch: Any, replay: SecondRun) -> Iterator[Any]:
        if replay.adapters is self._adapters:
            self.withheld = False
            with replay.under_way(self):
                yield batch
        if replay.adapters is self._adapters:
            replay.put_back()
            self._carry_out(*replay.outcome(), twice=True)
        else:  # the watch was stopped in one of the runs
            unfinished = replay.abandon()
            if unfinished is not None:
                self._carry_out(*unfinished, told_as="explain")

    def explain(self, error: BaseException) -> None:
        """Add cause and remedy to an error that is leaving the watch, if it is about non-finite numbers.

        There are three kinds: ``LinAlgError``, for a matrix that is singular or not positive definite; the error of an
        operation that was given a NaN, whose birth is then named; and an error of the program's own, including
        ``sys.exit(1)``, while there is a loss that is not finite, since programs check it before ``backward``. The
        watched block or function calls this by itself.
        """
        stopped = isinstance(error, SystemExit) and error.code not in (None, 0)
        if isinstance(error, AnomalyError) or not (isinstance(error, Exception) or stopped):
            return  # an AnomalyError already says everything
        kind, unfinished = self._unfinished or self._checked or ("", None)
        if unfinished is not None and self.listens_to(kind):
            self._record(kind, unfinished, "explain")
            error.add_note(message_of(unfinished))
            return  # the step was about to be run again
        if self._events and self._events[-1].step == self.step:
            return  # the policy let it pass, and this is the consequence
        if not (is_in_backward(error) and self.loss_history):
            self.remember_loss(None)  # for the step that did not get to a loss
        replaced = self.left_out.behind(error, self.step + 1)
        for adapter in self._adapters:
            event, replaced = replaced, None
            with suppress(Exception):  # an error of ours must not replace the error under way
                event = event or (adapter.explain(error) if isinstance(adapter, ExplainsErrors) else None)
            if event is not None and self.listens_to("nan"):
                event = self._completed(event if event.step else replace(event, step=self.step + 1))
                self._record("nan", event, "explain")
                error.add_note(note_of(event))

    # --- what adapters report ---------------------------------------------------------------------------------------

    def spent(self, seconds: float) -> None:
        """Note time that the checks took."""
        self._own_time += seconds

    @property
    def replaying(self) -> bool:
        """Whether a step that is withheld now is going to be run again, or is the second run."""
        return self._replay is not None

    @property
    def present_step(self) -> object | None:
        """An object that identifies the current step of :meth:`steps`, the same in its second run."""
        return self._replay

    def listens_to(self, kind: str) -> bool:
        """Whether anything is to be done about a kind of harm."""
        return self.policies[kind] != "ignore"

    @property
    def must_not_pass(self) -> list[str]:
        """The kinds of numbers none of which may reach a weight."""
        return [kind for kind in ("nan", "inf") if self.policies[kind] not in ("ignore", "record", "warn")]

    def goes_on(self) -> None:
        """Note that a derivative is requested: if the program checked a bad loss before, it has dealt with that."""
        self.derives = True
        self._checked = None
        self.left_out.goes_on()
        if self._around:
            self.batch_idx = self._around.pop()

    @property
    def is_silent(self) -> bool:
        """Whether a loss that the program checks now needs no report, for example because there was one already."""
        told = bool(self._events) and self._events[-1].step in (self.step, self.step + 1)
        return self.is_quiet or self._checked is not None or told

    @property
    def is_quiet(self) -> bool:
        """Whether losses that the program checks now are to be ignored."""
        is_second_run = self._replay is not None and self._replay.first is not None
        return is_second_run or bool(expected.depth) or sys.is_finalizing()

    def checked(self, kind: str, event: NaNEvent, found: CheckedLoss, *, in_vain: bool = False) -> None:
        """Take over the event of a loss that the program checks, as the reason if it ends because of it; or report it,
        if the program has skipped too many batches in a row (``in_vain``).
        """
        if not self.listens_to(kind):
            return
        event = self._completed(replace(event, step=self.step + 1, batch_idx=self.batch_idx))
        self.left_out.explained(event, found)
        if in_vain:
            self.warned(kind, event, IN_VAIN)
        elif self.left_out.may_end(found):
            self._checked = kind, event

    def found(self, kind: str, event: NaNEvent, *, exact: bool = False) -> str:
        """Take over an event and return what is to be done; under "raise" it is raised.

        Parameters
        ----------
        kind
            Of the harm: "nan" or "inf" if a non-finite value reached the loss or a gradient, otherwise the kind of the
            birth, harmless so far.
        event
            The birth.
        exact
            Whether a second run of the step could reveal nothing more.

        Returns
        -------
        str
            "go on", or "withhold": no weight may be changed by this step.
        """
        event = self._completed(event)
        if self._replay is not None and not exact and kind in ("nan", "inf") and self.listens_to(kind):
            self._replay.trip(self, kind, event)
            return "withhold"
        return self._carry_out(kind, event)

    def tell_once(self, event: NaNEvent) -> None:
        """Warn once of an overflow that did no harm but makes training pointless, if overflows have no policy."""
        self.tells_once = False
        message = f"{message_of(self._completed(event))}\n{ONCE}"
        warnings.warn(message, AnomalyWarning, stacklevel=depth_of_user())

    def warned(self, kind: str, event: NaNEvent, remark: str | None = None) -> None:
        """Take over an event of which no policy needs to do more than warn, as no update is at stake.

        Parameters
        ----------
        kind
            As for :meth:`found`.
        event
            The birth.
        remark
            What has come of it.
        """
        event = with_note(self._completed(event), remark)
        action = self._action(kind, event)
        if action != "ignore":
            self._record(kind, event, "record" if action == "record" else "warn")
        if action not in ("ignore", "record"):
            warnings.warn(message_of(event), AnomalyWarning, stacklevel=depth_of_user())

    def histories(self) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """The losses and the gradient norms known so far.

        They are copied first, which is atomic: another thread may append to them during iteration.
        """
        return tuple(self.loss_history.copy()), tuple(self.grad_norm_history.copy())

    def remember_loss(self, value: float | None) -> None:
        """Begin a step in the histories; its gradient norm becomes known later."""
        self.loss_history.append(value)
        self.grad_norm_history.append(None)

    @contextmanager
    def with_loss(self, value: float | None) -> Iterator[None]:
        """A context in which the histories hold a loss on which ``backward`` may never be called."""
        self.remember_loss(value)
        try:
            yield
        finally:
            self.loss_history.pop()
            self.grad_norm_history.pop()

    def remember_grad_norm(self, value: float | None) -> None:
        """Set the gradient norm of the last step."""
        if self.grad_norm_history:
            self.grad_norm_history[-1] = value

    def measured(self, norms: Mapping[str, float], update_ratio: float | None = None) -> str:
        """Take over the gradient norms of a step; return what is to be done, as :meth:`found` does.

        Parameters
        ----------
        norms
            The norms of the gradients, by parameter; all finite.
        update_ratio
            The norm of the last update divided by the norm of the weights, if known.
        """
        self.update_ratio = update_ratio
        batch = self.step - 1 if self.batch_idx is None else self.batch_idx
        event = self._growth.event(norms, update_ratio, batch, by_module=self.model is not None)
        return "go on" if event is None else self._carry_out("spike", event)

    def _completed(self, event: NaNEvent) -> NaNEvent:
        if event.step is None:  # otherwise it is about an earlier one
            event = replace(event, step=self.step, batch_idx=self.batch_idx)
        let_through = self._let_through.before(event.step)
        if event.kind == "leaf" and let_through is not None:
            event = with_context(event, let_through=let_through)
        if event.cause is None:
            try:
                event = explain(event)
            except Exception as error:  # an error of ours is no reason to end a training run
                event = replace(event, cause=f"The search for the cause failed ({type(error).__name__}: {error}).")
        if event.rerun is None and not is_recorded(event, self.from_step) and could_tell_more(event):
            again = self.again(first_step_of(event))
            event = with_note(replace(event, rerun=again.command), again.remark)
        return event

    def _action(self, kind: str, event: NaNEvent | GradEvent) -> str:
        policy = self.policies[kind]
        if not callable(policy):
            return policy
        chosen = policy(event)
        if chosen is not None and chosen not in ACTIONS:
            raise ValueError(f"a policy must return one of {', '.join(ACTIONS)}, or None, but returned {chosen!r}")
        return chosen or "record"

    def _record(self, kind: str, event: NaNEvent | GradEvent, action: str, twice: bool = False) -> None:
        with self._lock:
            if isinstance(event, NaNEvent):
                self._events.append(event)
            else:
                self._grad_events.append(event)
            if self.recorder is not None:
                self.recorder.write(event, outcome=outcome_of(kind, event, action, twice))
        for listener in list(self.listeners):
            listener(event)

    def _carry_out(
        self, kind: str, event: NaNEvent | GradEvent, twice: bool = False, told_as: str | None = None
    ) -> str:
        action = self._action(kind, event)
        if action == "ignore":
            return "go on"
        self._record(kind, event, told_as or action, twice)
        if isinstance(event, NaNEvent) and kind in ("nan", "inf") and action in ("warn", "record") and not twice:
            self._let_through.note(event.step, is_birth(event))
        if isinstance(event, NaNEvent) and kind in ("nan", "inf") and action == "skip_step":
            remark = self._skipped.note(event)
            if remark is not None:
                warnings.warn(f"{event}\n{remark}", AnomalyWarning, stacklevel=depth_of_user())
        if action == "raise":
            raise AnomalyError(event, message_of(event))
        if action == "warn":
            text = self._warned.text(event)
            if text is not None:
                warnings.warn(text, AnomalyWarning, stacklevel=depth_of_user())
        return "withhold" if action == "skip_step" else "go on"
