"""Data types and torch's type promotion, on top of NumPy's dtypes.

The module ends by binding `bool`, `float` and `int` to data types, as torch does. Functions look their globals up
when they are called, so the code here spells Python's own types `builtins.bool` and so on throughout.
"""

from __future__ import annotations

import builtins
import functools
from typing import Any, NoReturn, TypeAlias, final

import numpy as np

__all__ = [
    "as_dtype",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "default_complex",
    "default_float",
    "double",
    "dtype",
    "finfo",
    "fits",
    "float",
    "float16",
    "float32",
    "float64",
    "from_numpy_dtype",
    "get_default_dtype",
    "half",
    "iinfo",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "promote_types",
    "result_dtype",
    "set_default_dtype",
    "short",
    "uint8",
]

_NumpyDType: TypeAlias = np.dtype[Any]

# The order of kinds in type promotion: bool < integers < floating point < complex.
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_FLOAT, _COMPLEX = _RANK["f"], _RANK["c"]


@final
class dtype:  # noqa: N801 (torch's name)
    """A tensor's data type. There is one object per type, and users make no new ones.

    Attributes
    ----------
    name : str
        The name without the package, as ``'float32'``.
    numpy : numpy.dtype
        The NumPy dtype of the same name.
    itemsize : int
        Bytes per element.
    kind, char : str
        NumPy's one-letter codes for the kind and the type.
    is_floating_point, is_complex : bool
        Whether the type is floating point (complex is not), whether it is complex.
    is_signed : bool
        Whether negative numbers can be represented; true of complex types.
    """

    __slots__ = ("char", "is_complex", "is_floating_point", "is_signed", "itemsize", "kind", "name", "numpy")

    name: str
    numpy: _NumpyDType
    itemsize: builtins.int
    kind: str
    char: str
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool

    def __new__(cls) -> _DType:
        raise TypeError("cannot create 'retrograd.dtype' instances")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute '{name}' of 'retrograd.dtype' objects is not writable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"attribute '{name}' of 'retrograd.dtype' objects is not writable")

    # NumPy reads `__numpy_dtype__` (since 2.4) or `dtype` when given a dtype of ours where it wants one of its own.
    @property
    def dtype(self) -> _NumpyDType:
        """The NumPy dtype of the same name."""
        return self.numpy

    @property
    def __numpy_dtype__(self) -> _NumpyDType:
        return self.numpy

    # SciPy's optimizers (since 1.18) convert the value of the user's function with its `dtype.type`.
    @property
    def type(self) -> builtins.type[np.generic]:
        """The class of NumPy's numbers of the same name."""
        return self.numpy.type

    def to_real(self) -> _DType:
        """Return the type of the real part; a type that is not complex is returned as it is."""
        return _BY_NUMPY[_real_of(self.numpy)]

    def to_complex(self) -> _DType:
        """Return the complex type whose parts have this type.

        torch answers complex32 for float16. There is no such type here, and the answer is complex64.
        """
        if not (self.is_complex or self.is_floating_point):
            raise RuntimeError(f"Unknown Complex ScalarType for {self.name}")
        return _BY_NUMPY[_complex_of(self.numpy)]

    def __repr__(self) -> str:
        return f"retrograd.{self.name}"

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, dtype):
            return self is other
        if isinstance(other, np.dtype):
            return self.numpy == other
        if isinstance(other, type) and issubclass(other, np.generic):
            return _BY_SCALAR_TYPE.get(other) is self
        return NotImplemented

    def __hash__(self) -> builtins.int:
        return hash(self.numpy)

    # A string tells pickle and copy that the object is this module's global of that name.
    def __reduce__(self) -> str:
        return self.name


# Inside the class the name `dtype` means the property, so annotations there use this one.
_DType: TypeAlias = dtype

_BY_NAME: dict[str, dtype] = {}
_BY_NUMPY: dict[_NumpyDType, dtype] = {}


def _make(name: str) -> dtype:
    """Make the data type called `name` and enter it in the tables."""
    numpy_dtype = np.dtype(name)
    self: dtype = object.__new__(dtype)
    for attribute, value in (
        ("name", name),
        ("numpy", numpy_dtype),
        ("itemsize", numpy_dtype.itemsize),
        ("kind", numpy_dtype.kind),
        ("char", numpy_dtype.char),
        ("is_floating_point", numpy_dtype.kind == "f"),
        ("is_complex", numpy_dtype.kind == "c"),
        ("is_signed", numpy_dtype.kind in "ifc"),
    ):
        object.__setattr__(self, attribute, value)
    _BY_NAME[name] = self
    _BY_NUMPY[numpy_dtype] = self
    return self


uint8: dtype = _make("uint8")
int8: dtype = _make("int8")
int16: dtype = _make("int16")
int32: dtype = _make("int32")
int64: dtype = _make("int64")
float16: dtype = _make("float16")
float32: dtype = _make("float32")
float64: dtype = _make("float64")
complex64: dtype = _make("complex64")
complex128: dtype = _make("complex128")
_bool: dtype = _make("bool")

# Every C type has a scalar type of its own, and on each platform two of them are the same dtype
# (long and long long where both have 64 bits, say; double and long double on Windows), so the table is built from C's
# types.
_BY_SCALAR_TYPE: dict[type, dtype] = {
    np.dtype(code).type: _BY_NUMPY[np.dtype(code)] for code in "?bBhilqefdgFDG" if np.dtype(code) in _BY_NUMPY
}

# As in torch, Python's float and complex mean double precision here, whatever the default dtype.
_BY_PYTHON_TYPE: dict[type, dtype] = {
    builtins.bool: _bool,
    builtins.int: int64,
    builtins.float: float64,
    builtins.complex: complex128,
}

_SUPPORTED = (
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool"  # torch's order
)


def _real_of(numpy_dtype: _NumpyDType) -> _NumpyDType:
    """Return the dtype of the real part."""
    if numpy_dtype.kind != "c":
        return numpy_dtype
    return float32.numpy if numpy_dtype == complex64.numpy else float64.numpy


def _complex_of(numpy_dtype: _NumpyDType) -> _NumpyDType:
    """Return the complex dtype for a floating or complex dtype; complex64 stands in for torch's complex32."""
    return complex128.numpy if _real_of(numpy_dtype) == float64.numpy else complex64.numpy


def from_numpy_dtype(np_dtype: _NumpyDType) -> dtype:
    """Return the data type for a NumPy dtype.

    Raises
    ------
    TypeError
        If the dtype is not supported (unsigned beyond uint8, object, strings, datetimes, ...).
    ValueError
        If it is a supported type in the other byte order.
    """
    try:
        return _BY_NUMPY[np_dtype]
    except (KeyError, TypeError):  # TypeError: not a dtype, and not hashable either
        pass
    if not isinstance(np_dtype, np.dtype):
        raise TypeError(f"expected a numpy.dtype, not {np_dtype!r}")
    # The kind is looked at first because NumPy's newer dtypes, strings for one, refuse to change their byte order.
    if np_dtype.kind in _RANK and np_dtype.newbyteorder("=") in _BY_NUMPY:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported. "
            "Convert it first: array.astype(array.dtype.newbyteorder('='))"
        )
    advice = _ADVICE.get(np_dtype.kind) if np_dtype.kind != "V" or np_dtype.names else None
    raise TypeError(
        f"can't convert np.ndarray of type numpy.{np_dtype.type.__name__}. The only supported types are: {_SUPPORTED}."
        + (f" {advice}" if advice else "")
    )


_ROWS = "Rows of unequal lengths, or Python objects: pad the rows and stack them, or, if all values are numbers,"
_WORDS = "Numbers written as text: array.astype(np.float64). Words:"
_ADVICE = {  # by the kind of a NumPy dtype; code follows the last colon
    "f": "Convert it first: array.astype(np.float64)",
    "c": "Convert it first: array.astype(np.complex128)",
    "u": "Convert it first: array.astype(np.int64)",
    "O": f"{_ROWS} convert it first: array.astype(np.float64)",
    "M": "Take differences in a unit first: (array - array[0]) / np.timedelta64(1, 'D')",
    "m": "Divide by a unit first: array / np.timedelta64(1, 's')",
    "V": "Give its fields one by one, such as: array[array.dtype.names[0]]",
    **dict.fromkeys("UST", f"{_WORDS} np.unique(array, return_inverse=True)[1]"),
}


def as_dtype(x: Any) -> dtype:
    """Return the data type that `x` names.

    Parameters
    ----------
    x : dtype, numpy.dtype, type or str
        A type is one of NumPy's scalar types or Python's bool, int, float and complex, which mean bool, int64,
        float64 and complex128. A string is the plain name, ``'float32'``.

    Raises
    ------
    TypeError
        If it names none, or one that tensors do not have.
    """
    if isinstance(x, dtype):
        return x
    found: dtype | None = None
    if isinstance(x, np.dtype):
        found = _BY_NUMPY.get(x)
    elif isinstance(x, type):
        found = _BY_PYTHON_TYPE.get(x) or _BY_SCALAR_TYPE.get(x)
    elif isinstance(x, str):
        found = _BY_NAME.get(x)
    if found is None:
        advice = "; use float32 in place of bfloat16" if str(x).endswith("bfloat16") else ""
        raise TypeError(f"{x!r} is not a supported dtype. The only supported types are: {_SUPPORTED}{advice}.")
    return found


def from_numpys_name(x: Any) -> dtype:
    """Return the data type that `x` names in a call of NumPy's, where a string may be a code, ``'f8'`` or ``'int'``."""
    return as_dtype(np.dtype(x) if isinstance(x, str) else x)


# ----------------------------------------------------------------------------------------------------------------
# The default dtype
# ----------------------------------------------------------------------------------------------------------------

_default = float32


def get_default_dtype() -> dtype:
    """Return the floating type given to Python floats; float32 unless changed."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the floating type given to Python floats; complex numbers follow it.

    As in torch, `d` must be a `retrograd.dtype` itself, and floating point.
    """
    global _default, _number_dtypes
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default = d
    _number_dtypes = _make_number_dtypes()


def default_float() -> _NumpyDType:
    """Return the default dtype as a NumPy dtype."""
    return _default.numpy


def default_complex() -> _NumpyDType:
    """Return the NumPy dtype given to Python's complex numbers: complex128 if the default is float64, or complex64."""
    return _complex_of(_default.numpy)


def _make_number_dtypes() -> dict[type, _NumpyDType]:
    """Return the table of what Python's numbers bring into type promotion."""
    return {
        builtins.bool: _bool.numpy,
        builtins.int: int64.numpy,
        builtins.float: default_float(),
        builtins.complex: default_complex(),
    }


_number_dtypes = _make_number_dtypes()


# ----------------------------------------------------------------------------------------------------------------
# Limits
# ----------------------------------------------------------------------------------------------------------------

NOT_GIVEN: Any = type("not given", (), {"__repr__": lambda self: "<not given>"})()  # a default, in signatures too


@final
class finfo:  # noqa: N801 (torch's name)
    """Limits of a floating type, as Python numbers; those of its parts for a complex type.

    Parameters
    ----------
    type : dtype, optional
        Anything `as_dtype` accepts; the default dtype if not given.
    """

    bits: builtins.int
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    tiny: builtins.float
    smallest_normal: builtins.float
    resolution: builtins.float
    dtype: str

    def __init__(self, type: Any = NOT_GIVEN) -> None:
        described = _default if type is NOT_GIVEN else as_dtype(type)
        if _RANK[described.kind] < _FLOAT:
            raise TypeError(
                "retrograd.finfo() requires a floating point input type. Use retrograd.iinfo for the others"
            )
        real = described.to_real()
        info = np.finfo(real.numpy)
        self.bits = info.bits
        self.eps = builtins.float(info.eps)
        self.max = builtins.float(info.max)
        self.min = builtins.float(info.min)
        self.tiny = self.smallest_normal = builtins.float(info.smallest_normal)
        # NumPy's own `resolution` is rounded to the type; torch's is the power of ten in double precision.
        self.resolution = 10.0**-info.precision
        self.dtype = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> builtins.bool:
        return self.dtype == other.dtype if isinstance(other, finfo) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


@final
class iinfo:  # noqa: N801 (torch's name)
    """Limits of an integer type, as Python ints.

    Parameters
    ----------
    type : dtype
        Anything `as_dtype` accepts.
    """

    bits: builtins.int
    max: builtins.int
    min: builtins.int
    dtype: str

    def __init__(self, type: Any) -> None:
        described = as_dtype(type)
        if described is _bool:
            raise TypeError("retrograd.bool is not supported by retrograd.iinfo")
        if _RANK[described.kind] >= _FLOAT:
            raise TypeError("retrograd.iinfo() requires an integer input type. Use retrograd.finfo for the others")
        info = np.iinfo(described.numpy)
        self.bits = info.bits
        self.max = builtins.int(info.max)
        self.min = builtins.int(info.min)
        self.dtype = described.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> builtins.bool:
        return self.dtype == other.dtype if isinstance(other, iinfo) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


# ----------------------------------------------------------------------------------------------------------------
# Promotion
# ----------------------------------------------------------------------------------------------------------------


def _promote(a: _NumpyDType, b: _NumpyDType) -> _NumpyDType:
    """Return the dtype that two supported dtypes promote to."""
    low, high = (a, b) if _RANK[a.kind] <= _RANK[b.kind] else (b, a)
    # Where torch and NumPy differ: an integer never widens a floating type (int64 with float32 is float32).
    if _RANK[low.kind] < _FLOAT <= _RANK[high.kind]:
        return high
    return np.promote_types(low, high)


def promote_types(type1: Any, type2: Any) -> dtype:
    """Return the smallest type that `type1` and `type2` promote to, by torch's rules.

    The kinds are ordered bool, integer, floating point, complex. A type of a higher kind wins over integers and
    bool whatever its size; otherwise the result is the smallest type that holds both.
    """
    return _BY_NUMPY[_promote(as_dtype(type1).numpy, as_dtype(type2).numpy)]


def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Return whether a result of type `from_` may be stored in type `to`: never to a lower kind, at any size."""
    return _RANK[as_dtype(from_).kind] <= _RANK[as_dtype(to).kind]


def fits(value: Any, d: _NumpyDType) -> builtins.bool:
    """Return whether a Python number can be stored in dtype `d`, as torch has it.

    Fractions are cut off, infinities are no overflow, and negative integers wrap around in unsigned types.
    """
    if d.kind == "b":
        return True
    if d.kind == "c":
        return _fits_float(value.real, d) and _fits_float(value.imag, d)
    if isinstance(value, builtins.complex):
        return False
    if d.kind == "f":
        return _fits_float(value, d)
    limits = np.iinfo(d)
    low = -limits.max if d.kind == "u" and isinstance(value, builtins.int) else limits.min
    return low <= value <= limits.max


def _fits_float(value: builtins.float, d: _NumpyDType) -> builtins.bool:
    return not builtins.float(np.finfo(d).max) < abs(value) < np.inf


# The three categories of operands, by falling priority.
_DIMENSIONED, _ZERO_DIM, _WRAPPED = 0, 1, 2


def _combine(higher: _NumpyDType | None, lower: _NumpyDType | None) -> _NumpyDType | None:
    """Combine the types of two categories; None stands for a category without operands."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    high_rank, low_rank = _RANK[higher.kind], _RANK[lower.kind]
    if low_rank <= high_rank:
        return higher
    # A complex number joining floating-point numbers makes them complex at their own precision.
    if high_rank == _FLOAT and low_rank == _COMPLEX:
        return _complex_of(higher)
    return lower


@functools.lru_cache(maxsize=4096)
def _result_of(*flat: Any) -> _NumpyDType:
    """Return the result type for alternating dtypes and categories: ``_result_of(dtype, category, ...)``."""
    by_category: list[_NumpyDType | None] = [None, None, None]
    for given, category in zip(flat[::2], flat[1::2], strict=True):
        # This also replaces the dtype by the canonical one, without metadata.
        current = from_numpy_dtype(given).numpy
        seen = by_category[category]
        by_category[category] = current if seen is None else _promote(seen, current)
    result = _combine(by_category[_DIMENSIONED], _combine(by_category[_ZERO_DIM], by_category[_WRAPPED]))
    assert result is not None
    return result


def _describe(x: Any) -> tuple[_NumpyDType, builtins.int]:
    """Return the dtype that `x` brings into type promotion, and its category."""
    number = _number_dtypes.get(type(x))
    if number is not None:
        return number, _WRAPPED
    # Arrays of other libraries that have NumPy's dtypes (CuPy's) count as well. NumPy's scalars come before Python's,
    # because np.float64 is a float and np.complex128 a complex.
    if hasattr(x, "ndim") and isinstance(getattr(x, "dtype", None), np.dtype):
        return x.dtype, _DIMENSIONED if x.ndim else _ZERO_DIM
    for python_type, number in _number_dtypes.items():  # bool before int, which it is a subclass of
        if isinstance(x, python_type):
            return number, _WRAPPED
    raise TypeError(f"result_dtype() takes arrays and Python numbers, not {type(x).__name__}")


def result_dtype(*operands: Any) -> _NumpyDType:
    """Return the NumPy dtype that an operation on `operands` computes in, by torch's rules.

    Parameters
    ----------
    *operands : ndarray, NumPy scalar, bool, int, float or complex
        Arrays with dimensions, zero-dimensional arrays (a NumPy scalar is one) and Python numbers are three
        categories of falling priority.

    Notes
    -----
    Types are promoted within each category first. A category of lower priority then changes the result only if it
    is of a higher kind (bool < integer < floating point < complex), and even then complex takes its precision from
    floating-point numbers of higher priority. Python's floats have the default dtype, ints int64. Where torch's
    result is complex32, it is complex64 here.
    """
    # The shortcuts are for arithmetic, which asks this of nearly every pair of operands.
    if len(operands) == 2:
        a, b = operands
        if isinstance(a, np.ndarray):
            a_dtype = a.dtype
            if isinstance(b, np.ndarray):
                b_dtype = b.dtype
                if a_dtype is b_dtype and (found := _BY_NUMPY.get(a_dtype)) is not None:
                    return found.numpy
                return _result_of(
                    a_dtype, _DIMENSIONED if a.ndim else _ZERO_DIM, b_dtype, _DIMENSIONED if b.ndim else _ZERO_DIM
                )
            number = _number_dtypes.get(type(b))
            if number is not None:
                return _result_of(a_dtype, _DIMENSIONED if a.ndim else _ZERO_DIM, number, _WRAPPED)
    if not operands:
        raise TypeError("result_dtype() needs at least one operand")
    flat: list[Any] = []
    for x in operands:
        flat += _describe(x)
    return _result_of(*flat)


# ----------------------------------------------------------------------------------------------------------------
# torch's other names. The last ones shadow Python's types: below them, nothing may follow.
# ----------------------------------------------------------------------------------------------------------------

half = float16
double = float64
short = int16
long = int64
cfloat = complex64
cdouble = complex128
bool = _bool
int = int32
float = float32
