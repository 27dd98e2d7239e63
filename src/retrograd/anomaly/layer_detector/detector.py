"""The detector of layers: which layer of a model made a NaN or an infinity, in which batch, and by which operation."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from retrograd.anomaly.adapters import adapter_of
from retrograd.anomaly.catalogue import explain
from retrograd.anomaly.event import GradEvent, NaNEvent, with_context, with_note
from retrograd.anomaly.expected import expected
from retrograd.anomaly.gradient_guard import GradientGuard
from retrograd.anomaly.layer_detector.adapter import Look, LooksLater, ModelAdapter
from retrograd.anomaly.layer_detector.deferred_forward_pass import DeferredForwardPass, first_of_compiled
from retrograd.anomaly.layer_detector.forward_pass import ForwardPass, Origin, Reach
from retrograd.anomaly.layer_detector.history import Frame, LayerHistory
from retrograd.anomaly.layer_detector.hooks import Hook
from retrograd.anomaly.layer_detector.nested_tensors import tensors_in
from retrograd.anomaly.messages import check_max_events
from retrograd.anomaly.monitor import AnomalyWarning, Watch, current
from retrograd.anomaly.stack_frames import depth_of_user


class NaNDetector:
    """Watches every layer of a model, and names the one that makes a NaN or an infinity, with the operation and line.

    Layers are checked while the model runs. A :func:`watch`, which is switched on as well if none is on yet, finds
    the operation, line, element and operands of the birth, even if it happened between two layers, in the
    loss or in backward. If a step's loss or gradients are not finite, its gradients are set to zero, so that
    the optimizer cannot spoil the weights (if a watch was on already, its policy applies instead).

    Not reported: infinities that become finite again before the model ends, and negative ones in its output, which
    are masks unless they reach the loss or a gradient; what happens in a block of :func:`expect_nonfinite`; the
    outputs of layers of ``skip_types``.

    Parameters
    ----------
    model : retrograd.nn.Module or torch.nn.Module
        The model.
    stop_on_first : bool
        Stop checking after the first finding.
    check_inputs : bool
        Check the inputs of layers, too, before they run. Otherwise they are checked only if the output is bad.
    check_backward : bool
        Check the gradients of layer outputs, too. Otherwise gradients are checked when they have reached the
        parameters.
    grad_norm_warn : float, "auto" or None
        The norm above which :meth:`check_grad_norms` reports the gradient of a parameter. "auto" learns what is usual,
        see :class:`GradientGuard`; None switches this off.
    skip_types : tuple of types
        Layers that are not checked; their outputs are taken to be meant.
    max_events : int
        How many events of each kind are kept; later ones are dropped.
    verbose : bool
        Print events to the standard error as they happen.

    Attributes
    ----------
    all_events : list of NaNEvent
        What was found.
    grad_events : list of GradEvent
        Gradients that were too large.
    grad_norm : float or None
        The norm of all gradients together at the last :meth:`check_grad_norms`.

    Examples
    --------
    >>> model = rg.nn.Sequential(rg.nn.ReLU(), rg.nn.Softplus())
    >>> with rg.anomaly.NaNDetector(model, verbose=False) as det:
    ...     for i, x in enumerate([rg.ones(1, 2), rg.full((1, 2), 1e38)]):
    ...         det.set_batch(i)
    ...         y = model(x @ rg.full((2, 2), 1e3))
    >>> det.triggered, det.event.op, det.event.batch_idx
    (True, 'matmul', 1)
    """

    def __init__(
        self,
        model: Any,
        stop_on_first: bool = True,
        check_inputs: bool = True,
        check_backward: bool = False,
        grad_norm_warn: float | str | None = 100.0,
        skip_types: tuple[type, ...] | type = (),
        max_events: int = 100,
        verbose: bool = True,
    ) -> None:
        check_max_events(max_events)
        self._adapter: ModelAdapter = adapter_of(model)
        self._later = self._adapter if isinstance(self._adapter, LooksLater) else None
        self.model = model
        self.stop_on_first = stop_on_first
        self.check_inputs = check_inputs
        self.check_backward = check_backward
        self.grad_norm_warn = grad_norm_warn
        self.skip_types = skip_types if isinstance(skip_types, type) else tuple(skip_types)
        self.max_events = max_events
        self.verbose = verbose
        self._guard = None if grad_norm_warn is None else GradientGuard(grad_norm_warn)
        self._lock = threading.RLock()
        self._handles: list[Any] = []
        self._watch: Watch | None = None
        self._own_watch: Watch | None = None
        self._forget()

    def _forget(self) -> None:
        self.all_events: list[NaNEvent] = []
        self.grad_events: list[GradEvent] = []
        self.grad_norm: float | None = None
        self._batch_idx: int | None = None
        self._step_is_bad = False
        self._bad_gradient: Origin | None = None
        self._history = LayerHistory()
        self._unread: deque[DeferredForwardPass] = deque()
        self._asked_gradients: list[tuple[Origin, Any]] = []
        self._passing = _Passing()
        self._seconds = 0.0
        self._passes = 0
        self._first_step = 0

    # --- life -----------------------------------------------------------------------------------------------------

    def attach(self) -> NaNDetector:
        """Start checking, with a clean slate, and return the detector. Does nothing if it is already attached."""
        if self._handles:
            return self
        try:
            with self._lock:
                if not self._handles:  # another thread may have been faster
                    self._forget()
                    self._listen()
                    self._hook_layers()
                    if self._later is not None:
                        self._handles.extend(self._later.follow(self._settle))
        except BaseException:
            self.detach()
            raise
        return self

    def detach(self) -> None:
        """Remove everything that :meth:`attach` put in place. The findings are kept."""
        with self._lock:
            try:
                self._settle()
                blind = bool(self._handles) and self._is_blind()
            finally:
                self._let_go()
        if blind:
            warnings.warn(_BLIND, AnomalyWarning, stacklevel=depth_of_user())

    def _let_go(self) -> None:
        """Release everything; a second call completes what an interrupt prevented the first from doing."""
        for handle in reversed(self._handles):
            handle.remove()
        if self._watch is not None and self._on_found in self._watch.listeners:
            self._watch.listeners.remove(self._on_found)
        if self._own_watch is not None:
            self._own_watch.stop()
        self._handles, self._watch, self._own_watch = [], None, None

    def __enter__(self) -> NaNDetector:
        return self.attach()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            with (
                contextlib.nullcontext() if error is None else contextlib.suppress(Exception)
            ):  # the program's own error takes precedence
                self.detach()
        finally:
            self._let_go()

    def _listen(self) -> None:
        """Subscribe to the watch that is on now; if there is none, switch one on."""
        with self._lock:
            watch = current()
            if watch is None:
                model = None if next(self.model.parameters(), None) is None else self.model
                watch = Watch(model, policy="skip_step", budget=self._adapter.budget)
                watch.every_backward = True  # so that its findings are known when check_grad_norms is called
                self._own_watch = watch.start()
            if self._watch is not None:
                self._watch.listeners.remove(self._on_found)
            self._watch = watch
            watch.listeners.append(self._on_found)
            self._first_step = watch.step

    def _hook_layers(self) -> None:
        for name, module in self._adapter.layers():
            if isinstance(module, self.skip_types):
                self._handles.extend(self._adapter.hook(module, None, Hook(self._skipped, name)))
            else:
                before, after = Hook(self._before, name), Hook(self._after, name)
                self._handles.extend(self._adapter.hook(module, before, after))

    # --- what users ask -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        state = "attached" if self._handles else "not attached"
        found = f"{len(self.all_events)} event{'' if len(self.all_events) == 1 else 's'}"
        return f"<{type(self).__name__}: {state}, {found}>"

    @property
    def triggered(self) -> bool:
        """Whether a NaN or an infinity was found."""
        self._settle()
        return bool(self.all_events)

    @property
    def event(self) -> NaNEvent | None:
        """What was found first."""
        self._settle()
        return self.all_events[0] if self.all_events else None

    @property
    def step_is_bad(self) -> bool:
        """Whether something was found since the last :meth:`set_batch` or call of the model; then skip the update."""
        self._settle()
        return self._step_is_bad

    @property
    def watch(self) -> Watch | None:
        """The watch that is on along with the detector; None while it is not attached."""
        return self._watch

    @property
    def history(self) -> dict[str, tuple[Frame, ...]]:
        """The range of each layer's output magnitudes in the last 32 calls of the model, oldest first.

        Examples
        --------
        >>> model = rg.nn.Sequential(rg.nn.ReLU(), rg.nn.Tanh())
        >>> with rg.anomaly.NaNDetector(model, verbose=False) as det:
        ...     for i in range(2):
        ...         det.set_batch(i)
        ...         y = model(rg.tensor([-1.0, 10.0**i]))
        >>> det.history["0"]
        (Frame(batch_idx=0, absmin=0.0, absmax=1.0), Frame(batch_idx=1, absmin=nan, absmax=10.0))
        """
        self._settle()
        return {layer or ROOT: frames for layer, frames in self._history.frames().items()}

    @property
    def overhead_ms(self) -> float:
        """The mean time spent on checks, in milliseconds per call of the model."""
        return 1e3 * self._seconds / self._passes if self._passes else 0.0

    def set_batch(self, idx: int) -> None:
        """Say which batch is coming; events carry it."""
        with self._lock:
            self._settle()
            self._batch_idx = idx
            self._step_is_bad = False
            if self._own_watch is not None:
                self._own_watch.set_batch(idx)

    def check_grad_norms(self) -> bool:
        """Check the norms of the gradients; to be called after each ``backward``.

        Returns
        -------
        bool
            Whether one is too large or not finite, or was not finite and has been set to zero.
        """
        with self._lock:
            self._settle()
            found = self._adapter.gradient_norms(self.model)
            norms = {f"{layer}.{name}" if layer else name: norm for (layer, name), norm in found.items()}
            self.grad_norm = math.hypot(*norms.values())
            names = {name: (layer or ROOT, own) for name, (layer, own) in zip(norms, found, strict=True)}
            spikes = [] if self._guard is None else self._guard.observe(norms)
            self._report_spikes([(*names.get(name, ("", name)), norm, bound) for name, norm, bound in spikes])
            bad = [name for name, norm in norms.items() if not math.isfinite(norm)]
            if bad and not self._step_is_bad:
                self._record(self._of_gradient(bad[0], names[bad[0]][0], norms[bad[0]]))
            return bool(spikes) or self._step_is_bad

    # --- hooks ----------------------------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        return self.stop_on_first and bool(self.all_events)

    def _before(self, name: str, module: Any, args: Any, kwargs: Any) -> None:
        is_whole = not name
        threads = self._passing
        if is_whole and threads.again is None:
            self._step_is_bad = False
        if self._is_done():
            return
        start = time.perf_counter()
        passing = threads.now
        if threads.again is None and (passing is None or is_whole):
            passing = threads.now = self._begin(args, kwargs)
        if passing is not None:
            taken = self._given(args, kwargs) if self.check_inputs else None
            passing.enter(name, module, taken, meant=expected.depth > 0)
        self._seconds += time.perf_counter() - start

    def _begin(self, args: Any, kwargs: Any) -> ForwardPass | DeferredForwardPass:
        """Begin a call of the model, or of a part of it by itself."""
        self._report_gradient()
        self._passing.reported = set()
        if current() is not self._watch:  # another one was started or stopped since
            self._listen()
        passing = self._new_pass(args, kwargs)
        passing.step = None if self._watch is None else self._watch.step + 1  # its backward is still to come
        return passing

    def _new_pass(self, args: Any, kwargs: Any) -> ForwardPass | DeferredForwardPass:
        if self._later is None:
            return ForwardPass(self._adapter, fully=self._history.wants_absmin)
        given = self._later.given(args, kwargs)
        if not self._later.must_wait():
            return ForwardPass(self._adapter, given, fully=self._history.wants_absmin)
        if len(self._unread) >= _MOST_UNREAD:
            self._settle()
        return DeferredForwardPass(self._adapter, self._later, given)

    def _after(self, name: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        passing = self._passing.now
        if passing is None:
            return
        start = time.perf_counter()
        adapter = self._adapter
        made = tensors_in(output, adapter.is_tensor)
        new = passing.leave(name, lambda: self._given(args, kwargs), made, meant=expected.depth > 0)
        rehearsed = self._passing.again is not None
        if self.check_backward and not rehearsed:
            for tensor in new:
                adapter.hook_gradient(tensor, Hook(self._on_gradient, name, type(module).__name__))
        self._seconds += time.perf_counter() - start
        if passing.is_over and not rehearsed:
            self._passing.now = None
            if isinstance(passing, DeferredForwardPass):
                self._unread.append(passing)
            else:
                self._judge(passing)

    def _given(self, args: Any, kwargs: Any) -> list[Any]:
        """The tensors among the arguments of a layer."""
        return tensors_in(args[0] if len(args) == 1 and not kwargs else (args, kwargs), self._adapter.is_tensor)

    def _skipped(self, name: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._passing.now is not None:
            self._passing.now.pass_by(tensors_in(output, self._adapter.is_tensor))

    def _on_gradient(self, name: str, module_type: str, gradient: Any) -> None:
        if self._bad_gradient is not None or self._is_done() or expected.depth:
            return
        if self._later is not None and self._later.must_wait():
            self._asked_gradients.append((Origin(name, module_type, None, Look()), self._later.ask(gradient)))
            return
        look = self._adapter.look(gradient)
        if look.bad:
            self._bad_gradient = Origin(name, module_type, gradient, look)

    # --- judgement ------------------------------------------------------------------------------------------------

    def _judge(self, passing: ForwardPass | DeferredForwardPass | None) -> None:
        """Report what a call of the model has shown; without a pass, what its compiled layers have shown."""
        called, looks = (None, []) if self._later is None else self._later.compiled()
        found = [] if passing is None else passing.found()
        reached = {layer: Reach(math.nan, look.absmax) for layer, look in looks}
        if passing is not None:
            reached |= passing.reached
        with self._lock:
            self._passes += passing is not None or bool(looks)
            self._history.note(self._batch_idx, reached)
        found = found or first_of_compiled(looks, self._type_of)
        if passing is None:
            self._report(found, called, None)
        else:
            self._report(found, passing.given, passing.step)

    def _report(self, found: list[tuple[Origin, Any]], given: Any, step: int | None) -> None:
        if not found or self._is_done():
            return
        with self._once_more(given) as second:
            again = [] if second is None else second.found()
            if second is not None and not again and second.met_nan:
                return  # it is intended
            for origin, tensor in again or found:
                event = replace(self._of_layer(origin, tensor), step=step)
                self._record(event if second is None else replace(event, reproducible=bool(again)))

    @contextlib.contextmanager
    def _once_more(self, given: Any) -> Iterator[ForwardPass | None]:
        """A context that gives the pass of a repeated call of the model; None if it cannot be repeated."""
        if self._later is None or given is None:
            yield None
            return
        threads = self._passing
        before = threads.now
        with self._later.once_more(given) as run:
            second = None
            if run is not None:
                second = threads.now = threads.again = ForwardPass(self._adapter, fully=True)
                try:
                    second = second if run() else None
                finally:
                    threads.now, threads.again = before, None
            if second is not None:
                self._history.amend(second.reached)
            yield second

    def _of_layer(self, origin: Origin, tensor: Any) -> NaNEvent:
        event = self._adapter.explain(tensor, origin.since, origin.came_in)
        if event is None:
            event = NaNEvent(
                kind=_kind(origin.look),
                op="unknown" if origin.is_input else origin.module_type,
                input_has_nan=origin.taken.nan,
                input_has_inf=origin.taken.inf,
                **self._described(origin),
            )
        if event.layer_name is None and event.module_type is None:
            event = replace(event, layer_name=origin.layer or ROOT, module_type=origin.module_type)
        harmed = origin.place if tensor is origin.tensor else "the output of the model"
        event = replace(event, layer_name=event.layer_name or ROOT, harmed=harmed)
        return event if event.kind == "leaf" else with_note(event, origin.remark)

    def _described(self, origin: Origin) -> dict[str, Any]:
        """The event fields that describe the value, or as much of it as is left."""
        if origin.tensor is None:
            return {"output_has_nan": origin.look.nan, "output_has_inf": origin.look.inf}
        return self._adapter.describe(origin.tensor)

    def _of_gradient(self, name: str, layer: str, norm: float) -> NaNEvent:
        """The event for a parameter's gradient that has not been reported yet."""
        look = Look(nan=math.isnan(norm), posinf=not math.isnan(norm))
        return NaNEvent(
            kind=_kind(look),
            op="unknown",
            is_backward=True,
            layer_name=layer,
            module_type=self._type_of("" if layer == ROOT else layer),
            output_has_nan=look.nan,
            output_has_inf=look.inf,
            harmed=f"the gradient of {name}",
        )

    def _type_of(self, layer: str) -> str:
        return next((type(module).__name__ for name, module in self._adapter.layers() if name == layer), "")

    def _settle(self) -> None:
        """Read the pending results of checks, and report them."""
        with self._lock:
            if self._later is not None and self._passing.again is None:
                while self._unread:
                    self._judge(self._unread.popleft())
                self._judge(None)
                asked, self._asked_gradients = self._asked_gradients, []
                answers = self._later.answers([each for _, each in asked])
                for (origin, _), look in zip(asked, answers, strict=True):
                    if look.bad and self._bad_gradient is None:
                        origin.look = look
                        self._bad_gradient = origin
            self._report_gradient()

    def _report_gradient(self) -> None:
        """Report a bad gradient of a layer's output, if the backward that produced it ended without a report."""
        with self._lock:
            origin, self._bad_gradient = self._bad_gradient, None
            if origin is None:
                return
            event = NaNEvent(
                kind=_kind(origin.look),
                op="unknown",
                is_backward=True,
                layer_name=origin.layer or ROOT,
                module_type=origin.module_type,
                harmed=f"the gradient of {origin.place}",
                note="This is the first non-finite gradient: the backward of an operation on this output made it.",
                **self._described(origin),
            )
            self._record(event)

    # --- reports --------------------------------------------------------------------------------------------------

    def _on_found(self, event: Any) -> None:
        """Take over what the watch has found."""
        if isinstance(event, NaNEvent) and event.kind in _HARMS:
            self._bad_gradient = None
            if event.layer_name is None and event.module_type is not None:
                event = replace(event, layer_name=ROOT)
            self._record(event)

    def _record(self, event: NaNEvent) -> None:
        with self._lock:
            self._step_is_bad = True
            birth = (event.op, event.filename, event.lineno, event.index)
            if self._is_done() or birth in self._passing.reported or len(self.all_events) >= self.max_events:
                return
            self._passing.reported.add(birth)
            event = replace(event, **self._when(event))
            if rows := self._history.rows():
                event = with_context(event, layers=rows)
            event = explain(event) if event.cause is None else event
            self.all_events.append(event)
        if self.verbose:
            from retrograd.anomaly.report import print_event  # only when there is something to print

            print_event(event)

    def _when(self, event: NaNEvent) -> dict[str, Any]:
        """The batch number set by the user, or else what the watch knows."""
        if self._batch_idx is not None:
            return {"batch_idx": self._batch_idx, "step": None}
        if self._watch is None:
            return {}
        step = self._watch.step if event.step is None else event.step
        return {"batch_idx": self._watch.batch_idx if event.batch_idx is None else event.batch_idx, "step": step}

    def _is_blind(self) -> bool:
        """Whether training went on without any layer being seen, as when the model was compiled beforehand."""
        if self._later is None or self._passes or self._watch is None:
            return False
        return self._watch.step > self._first_step and self._later.was_compiled_before()

    def _report_spikes(self, spikes: list[tuple[str, str, float, float]]) -> None:
        room = self.max_events - len(self.grad_events)
        for layer, name, norm, threshold in spikes[: max(room, 0)]:
            self.grad_events.append(
                GradEvent(
                    batch_idx=self._batch_idx, layer_name=layer, param_name=name, grad_norm=norm, threshold=threshold
                )
            )
        if self.verbose and spikes and room > 0:
            more = len(spikes) - 1
            others = f" (and {more} more parameter{'' if more == 1 else 's'})" if more else ""
            advice = "; lower the learning rate, or clip before the step" if math.isfinite(spikes[0][2]) else ""
            print(f"retrograd: {self.grad_events[-min(room, len(spikes))]}{others}{advice}", file=sys.stderr)


_MOST_UNREAD = 8  # calls of the model on a device, between two readings
_BLIND = (
    "the detector saw no layer run: the model was compiled and called before the detector was attached, and compiled "
    "code ignores hooks added later; attach the detector before the first call"
)

ROOT = "root"
"""The layer name of the model itself."""

_HARMS = ("invalid", "divide", "overflow", "leaf")


def _kind(look: Look) -> str:
    return "invalid" if look.nan else "overflow"


class _Passing(threading.local):
    """A thread's current forward pass, and the births reported since it, or the last one, began."""

    def __init__(self) -> None:
        self.now: ForwardPass | DeferredForwardPass | None = None
        self.again: ForwardPass | None = None  # a second call, in which each operation is recorded
        self.reported: set[Any] = set()


def watch_for_nans(model: Any, **kwargs: Any) -> NaNDetector:
    """Return a :class:`NaNDetector` for a model, to be used in a ``with`` statement; it takes the same parameters.

    Examples
    --------
    >>> model = rg.nn.Linear(2, 1)
    >>> with rg.anomaly.watch_for_nans(model, verbose=False) as det:
    ...     y = model(rg.ones(3, 2))
    >>> det.triggered
    False
    """
    return NaNDetector(model, **kwargs)
