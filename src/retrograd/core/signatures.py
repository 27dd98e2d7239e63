"""Signatures of the user's functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """A function's signature; its annotations may name things that exist only for type checkers (PEP 649)."""
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
else:
    signature_of = inspect.signature
