"""Names by which torch's programs ask for speed or for repeatability, where retrograd has only one way to compute.

Also ``_assert``, which torch has for programs that are traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from retrograd.core.sites import warn_user
from retrograd.core.tensor_types import CPU_TYPES, CUDA_TYPES, TensorType
from retrograd.creation import set_default_device
from retrograd.dtypes import set_default_dtype

__all__ = [
    "are_deterministic_algorithms_enabled",
    "bfloat16",
    "compile",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_deterministic = _warn_only = False
_warn_always = False
_precision = "highest"
_interop_threads = 1


class _DTypeByName:
    """A dtype that can be named, as for :class:`retrograd.autocast`, and compared; there are no tensors of it."""

    is_floating_point, is_complex, is_signed, itemsize = True, False, True, 2

    def __repr__(self) -> str:
        return "retrograd.bfloat16"

    def __reduce__(self) -> str:  # copies are the same object
        return "bfloat16"


bfloat16 = _DTypeByName()


@overload
def compile(model: None = None, **options: Any) -> Callable[[Any], Any]: ...
@overload
def compile(model: Any, **options: Any) -> Any: ...
def compile(model: Any = None, **options: Any) -> Any:
    """Return ``model``, a module or a function, as it is: nothing is compiled.

    Parameters
    ----------
    model
        Without it, a decorator is returned.
    **options
        ``fullgraph, dynamic, backend, mode, options, disable``; they change nothing.

    Examples
    --------
    >>> model = rg.nn.Linear(2, 1)
    >>> rg.compile(model, mode="max-autotune") is model
    True
    """
    unknown = set(options) - {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument '{unknown.pop()}'")
    if model is None:
        return lambda model: model
    if not callable(model):
        raise RuntimeError(f"compile: model must be a module or a function, not {type(model).__name__}")
    return model


def _assert(condition: Any, message: Any) -> None:
    """Raise an AssertionError unless ``condition`` holds, as ``assert`` does, also where Python leaves that out.

    Private in torch, but image models check the sizes of their inputs by it.
    """
    if not condition:
        raise AssertionError(message)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Record the request for reproducible results; they always are, with the same number of threads."""
    global _deterministic, _warn_only
    _deterministic, _warn_only = bool(mode), bool(mode and warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` was asked for."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` was asked for with ``warn_only``."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Do as :func:`use_deterministic_algorithms` does: 0 or ``"default"`` for no, 1 or ``"warn"``, 2 or ``"error"``."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"set_deterministic_debug_mode: debug_mode must be str or int, not {type(debug_mode).__name__}")
    modes = ("default", "warn", "error")
    mode = modes.index(debug_mode) if debug_mode in modes else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"set_deterministic_debug_mode: {debug_mode!r} is not one of 0 to 2, 'default', 'warn', 'error'"
        )
    use_deterministic_algorithms(mode != 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2, as in :func:`set_deterministic_debug_mode`."""
    return 0 if not _deterministic else 1 if _warn_only else 2


def set_warn_always(b: bool) -> None:
    """Record the request to see warnings more than once; Python's ``warnings.filterwarnings`` says which are."""
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always: expected a bool, not {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """Return the value set by :func:`set_warn_always`."""
    return _warn_always


def set_float32_matmul_precision(precision: str) -> None:
    """Record the precision asked for in products of float32 matrices; they always have full precision.

    Parameters
    ----------
    precision
        ``"highest"``, ``"high"`` or ``"medium"``; anything else is warned of and not noted.
    """
    global _precision
    if precision not in ("highest", "high", "medium"):
        warn_user(f"{precision!r} is not one of 'highest', 'high' and 'medium'")
        return
    _precision = precision


def get_float32_matmul_precision() -> str:
    """Return the value set by :func:`set_float32_matmul_precision`."""
    return _precision


def set_flush_denormal(mode: bool) -> bool:
    """Return False: subnormal numbers are computed with as they are."""
    return False


def set_num_interop_threads(num: int) -> None:
    """Record how many operations may run in parallel; they run one after the other."""
    global _interop_threads
    if num < 1:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number, got {num}")
    _interop_threads = num


def get_num_interop_threads() -> int:
    """Return the value set by :func:`set_num_interop_threads`; 1 by default."""
    return _interop_threads


def set_default_tensor_type(t: TensorType | str) -> None:
    """Set the default dtype, and the default device with a type of ``cuda``. Newer programs use those two functions.

    Parameters
    ----------
    t
        A floating-point tensor type such as ``rg.DoubleTensor``, or its name.
    """
    if isinstance(t, str):
        package, _, name = t.rpartition(".")
        found = (CUDA_TYPES if package.endswith("cuda") else CPU_TYPES).get(name)
        if found is None:
            raise TypeError(f"set_default_tensor_type: '{t}' is not a tensor type; use one of {', '.join(CPU_TYPES)}")
        t = found
    if not isinstance(t, TensorType):
        raise TypeError(f"set_default_tensor_type: expected a tensor type such as FloatTensor, not {t!r}")
    if not t.dtype.is_floating_point:
        raise TypeError(f"set_default_tensor_type: only floating-point types can be the default, not {t.__name__}")
    set_default_dtype(t.dtype)
    set_default_device(t.device)
