"""Dtypes: conversion, kinds, and promotion, in which a tensor without dimensions counts like any other."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from retrograd import dtypes
from retrograd.core.tensor import Tensor
from retrograd.dtypes import dtype as dtype_class
from retrograd.dtypes import promote_types, result_dtype

__all__ = ["KINDS", "astype", "can_cast", "isdtype", "result_type"]

KINDS: dict[str, tuple[dtype_class, ...]] = {
    "bool": (dtypes.bool,),
    "signed integer": (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
    "unsigned integer": (dtypes.uint8,),
    "real floating": (dtypes.float16, dtypes.float32, dtypes.float64),
    "complex floating": (dtypes.complex64, dtypes.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return ``x`` in a dtype; a copy, unless ``copy`` is False and nothing changes."""
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, of a kind such as ``"real floating"``, or any of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}")
        return dtype in KINDS[kind]
    return bool(dtype == kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion leads from one dtype to another."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    return bool(promote_types(from_, to) == to)


def result_type(*arrays_and_dtypes: Any) -> dtype_class:
    """Return the dtype to which tensors, dtypes and Python's numbers are promoted together.

    Numbers decide on no more than the kind: real numbers beside integers make the default dtype of real numbers.
    """
    given = [each.dtype if isinstance(each, Tensor) else each for each in arrays_and_dtypes]
    numbers = [each for each in given if isinstance(each, (bool, int, float, complex))]
    known = [each for each in given if not isinstance(each, (bool, int, float, complex))]
    if not known:
        raise ValueError("result_type: give it at least one tensor or dtype")
    return dtypes.from_numpy_dtype(result_dtype(np.empty(1, reduce(promote_types, known).numpy), *numbers))
