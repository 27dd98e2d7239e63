"""Which NumPy function in an optimizer's formula made an element bad, if no flag was raised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.elements import is_bad, is_born, is_pole
from retrograd.core.tensor import Tensor, wrap
from retrograd.optim._elementwise import ElementwiseOptimizer


def flags_of_formula(
    optimizer: Any, group: Mapping[str, Any], param: ndarray, grad: ndarray, state: Mapping[str, Any], index: Any
) -> list[tuple[str, str]]:
    """The flags, and the functions that would have raised them, when the step is repeated for one element.

    Parameters
    ----------
    optimizer
        The optimizer, which is not changed.
    group
        The options of the parameter's group.
    param, grad, state
        A parameter, its gradient and its optimizer state as they were before the step.
    index
        The element.
    """
    if not isinstance(optimizer, ElementwiseOptimizer):
        return []
    told: list[tuple[str, str]] = []

    def element(array: ndarray) -> Tensor:
        one = array[index].reshape(1).view(_Told)
        one.told = told
        return wrap(one)

    alone = object.__new__(type(optimizer))
    vars(alone).update(vars(optimizer), _plan=None, _is_withheld=lambda: False)
    leaf = element(param)
    leaf._grad = element(grad)
    alone.param_groups = [{**group, "params": [leaf]}]
    alone.state = defaultdict(dict)
    for key, value in state.items():
        is_whole = isinstance(value, Tensor) and value._data.shape == param.shape and param.ndim
        alone.state[leaf][key] = (
            element(value._data) if is_whole else value.clone() if isinstance(value, Tensor) else value
        )
    with suppress(Exception), np.errstate(all="ignore"):
        type(alone).step.__wrapped__(alone)  # type: ignore[attr-defined]
    return told


class _Told(ndarray):
    """An array whose births are found by checking the results of NumPy's functions."""

    told: list[tuple[str, str]]

    def __array_finalize__(self, other: Any) -> None:
        self.told = getattr(other, "told", [])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = [each.view(ndarray).copy() if isinstance(each, ndarray) else each for each in inputs]
        out = kwargs.pop("out", None)
        made = np.asarray(getattr(ufunc, method)(*operands, **kwargs))
        if is_bad(made) and is_born(None, made, operands, ["invalid"]):
            nan = np.isnan(made).any()
            at_pole = not nan and is_pole(lambda values: ufunc(*values), operands, (0,))
            self.told.append(("invalid" if nan else "divide" if at_pole else "overflow", ufunc.__name__))
        if out is not None:
            np.copyto(out[0].view(ndarray), made, casting="unsafe")
            return out[0]
        result = made.view(_Told)
        result.told = self.told
        return result
