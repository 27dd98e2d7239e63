"""Besides autograd: recomputing instead of keeping, loading data, and memory shared with other libraries."""

from typing import TYPE_CHECKING

from retrograd._module_aliases import add_paths
from retrograd.missing_names import missing
from retrograd.utils import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]

add_paths(__name__, {"hooks": "retrograd.core.hooks"})

if not TYPE_CHECKING:  # for type checkers

    def __getattr__(name):
        raise missing(__name__, name)
