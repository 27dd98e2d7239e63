"""Calls of functions that a watch decorates: it observes from the start of the first to the end of the last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class DecoratedCalls:
    """Calls that may overlap, in several threads and in generators; a watch that was on before stays on."""

    def __init__(self) -> None:
        self._under_way: set[object] = set()
        self._lock = threading.RLock()  # several threads may call at once

    @contextmanager
    def observed_by(self, watch: AbstractContextManager[Any], is_on: Callable[[], bool]) -> Iterator[None]:
        """A context for one of the calls."""
        call, counts, raised = object(), False, None
        try:
            with self._lock:
                if self._under_way or not is_on():
                    counts = True
                    self._under_way.add(call)
                    if len(self._under_way) == 1:
                        watch.__enter__()
            yield
        except BaseException as error:
            raised = error
            raise
        finally:
            if counts:
                try:
                    self._end(call, watch, is_on, raised)
                except BaseException as error:
                    self._end(call, watch, is_on, error)  # does what an interrupt kept the first call from
                    raise

    def _end(
        self,
        call: object,
        watch: AbstractContextManager[Any],
        is_on: Callable[[], bool],
        error: BaseException | None,
    ) -> None:
        with self._lock:
            self._under_way.discard(call)
            if not self._under_way and is_on():
                watch.__exit__(None if error is None else type(error), error, None)
