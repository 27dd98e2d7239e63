"""SciPy's special functions, which SciPy itself looks for here where ``SCIPY_ARRAY_API=1`` is set.

They are its ufuncs, which come back to retrograd's operations for tensors; SciPy's own functions of the same names are
no ufuncs under that setting, and would take the numbers out of the graph. The few that never are ufuncs are those of
:mod:`retrograd.special`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd import special
from retrograd.ops._scipy import sc


def __getattr__(name: str) -> Any:
    function = getattr(sc, name)
    return function if isinstance(function, np.ufunc) else getattr(special, name)
