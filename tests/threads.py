"""Work in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(*work: Callable[[], object]) -> list[BaseException]:
    """Run all functions at once, in threads named "worker 0" and so on; return what they raised."""
    errors: list[BaseException] = []

    def run(each: Callable[[], object]) -> None:
        try:
            each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,), name=f"worker {k}") for k, each in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
