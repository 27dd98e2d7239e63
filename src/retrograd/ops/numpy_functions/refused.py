"""NumPy's functions that do not take Tensors, and what to use instead."""

from __future__ import annotations

import numpy as np
from numpy._core import umath

from retrograd.core.numpy_protocols import refuse

refuse(
    "there are no tensors of dates; use x.numpy()",
    np.busday_count,
    np.busday_offset,
    np.is_busday,
    np.datetime_as_string,
)
refuse("there are no structured tensors; use x.detach().numpy()", "numpy.lib.recfunctions")
refuse(
    "several variables are not supported; use numpy.einsum with numpy.vander(x, increasing=True) for each variable",
    "numpy.polynomial.polynomial",
)
refuse(
    "there are no tensors of text; use x.detach().numpy().astype(str)",
    "numpy.strings",
    "numpy.char",
    *(
        value
        for value in vars(umath).values()
        if isinstance(value, np.ufunc) and not any(kind in "fdFDilqbh?" for types in value.types for kind in types[:1])
    ),
)
