"""Tensors from data, with torch as the oracle."""

from __future__ import annotations

import array
import collections
import fractions
import functools
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.outcomes import NAMES, cases, compare
from tests.parity import attempt, parity


@pytest.fixture(autouse=True)
def restore_default_dtype():
    yield
    rg.set_default_dtype(rg.float32)
    torch.set_default_dtype(torch.float32)


# --- from data ----------------------------------------------------------------------------------------------------


@cases(
    lambda lib: 1,
    lambda lib: 1.5,
    lambda lib: True,
    lambda lib: 1 + 2j,
    lambda lib: 1e300,
    lambda lib: -(2**63),
    lambda lib: [],
    lambda lib: (),
    lambda lib: [[]],
    lambda lib: [[], []],
    lambda lib: [[[], []]],
    lambda lib: [1, 2],
    lambda lib: (1, 2.0),
    lambda lib: [True, False],
    lambda lib: [True, 1],
    lambda lib: [True, 1.0],
    lambda lib: [1, 2j],
    lambda lib: [[1, 2], (3, 4)],
    lambda lib: [[[1.0], [2.0]], [[3.0], [4.0]]],
    lambda lib: range(3),
    lambda lib: collections.deque([1, 2]),
    lambda lib: bytearray(b"ab"),
    lambda lib: memoryview(b"ab"),
    lambda lib: array.array("d", [1, 2]),
    lambda lib: lib.Size([1, 2]),
    lambda lib: np.float32(1),
    lambda lib: np.float64(1),
    lambda lib: np.int32(1),
    lambda lib: np.bool_(True),
    lambda lib: np.complex64(1),
    lambda lib: [np.float16(1), 2],
    lambda lib: [np.float16(1), 2.0],
    lambda lib: [np.float64(1), 2],
    lambda lib: [np.float32(1), 2j],
    lambda lib: [np.uint8(1), 2],
    lambda lib: [np.int8(1), np.uint8(3)],
    lambda lib: np.array([1.0, 2.0]),
    lambda lib: np.array(1.0),
    lambda lib: np.array([1, 2], np.int16),
    lambda lib: np.array([1, 2], np.longlong),
    lambda lib: np.zeros((2, 0), np.float32),
    lambda lib: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    lambda lib: [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
    lambda lib: [np.array([1, 2], np.int8), np.array([3, 4], np.float32)],
    lambda lib: [np.array([1, 2]), [3, 4]],
    lambda lib: [np.array([[1, 2]])],
    lambda lib: [lib.tensor(1), lib.tensor(2)],
    lambda lib: [lib.tensor(1.0, dtype=lib.float64), 2],
    lambda lib: [1, lib.tensor(2.0)],
    lambda lib: [lib.tensor([1]), lib.tensor([2])],
    lambda lib: [lib.tensor(1.0, requires_grad=True), 2],
    lambda lib: lib.tensor([1, 2]),
    lambda lib: lib.tensor([1.0, 2.0], requires_grad=True),
    lambda lib: lib.tensor([1.0, 2.0], requires_grad=True) * 2,
    # errors
    lambda lib: 2**63,
    lambda lib: [2**64],
    lambda lib: [[1, 2], [3]],
    lambda lib: [[1, 2], [3, 4, 5]],
    lambda lib: [[[1], [2]], [[3], [4, 5]]],
    lambda lib: [1, [2]],
    lambda lib: [[1], 2],
    lambda lib: [[1, 2], None],
    lambda lib: [[1, 2], "ab"],
    lambda lib: [np.array([1, 2]), np.array([3])],
    lambda lib: "a",
    lambda lib: "",
    lambda lib: ["a"],
    lambda lib: [1.0, "a"],
    lambda lib: b"ab",
    lambda lib: [b"ab"],
    lambda lib: None,
    lambda lib: [None],
    lambda lib: [1, None],
    lambda lib: object(),
    lambda lib: {},
    lambda lib: [{}],
    lambda lib: {1, 2},
    lambda lib: (x for x in [1]),
    lambda lib: fractions.Fraction(1, 2),
    lambda lib: lib.float32,
    lambda lib: np.array(["a"]),
    lambda lib: np.array([1], object),
    lambda lib: np.array([1], ">i4"),
    lambda lib: np.datetime64("2020"),
    lambda lib: [lib.tensor([1, 2]), lib.tensor([2, 3])],
    lambda lib: [lib.tensor([1.0, 2]), lib.tensor([2.0, 3])],
    lambda lib: [lib.tensor([])],
)
@pytest.mark.parametrize("function", ["tensor", "as_tensor", "asarray"])
def test_tensor_from_data_matches_torch(function, call):
    if function == "asarray" and isinstance(call(rg), (bytes, bytearray, memoryview, array.array)):
        return  # bytes, not numbers: below
    compare(lambda lib: getattr(lib, function)(call(lib)))


@pytest.mark.parametrize("dtype", NAMES)
@cases(
    lambda lib: 2,
    lambda lib: [1, 0],
    lambda lib: [1.5, -1.5],
    lambda lib: [-1],
    lambda lib: [-255],
    lambda lib: [-256],
    lambda lib: [127],
    lambda lib: [128],
    lambda lib: [300.5],
    lambda lib: [1, 2.5],
    lambda lib: [70000.0],
    lambda lib: [1e30],
    lambda lib: [float("nan")],
    lambda lib: [float("inf")],
    lambda lib: [1j],
    lambda lib: [2**40],
    lambda lib: [2**63],
    lambda lib: [[]],
    lambda lib: [None],
    lambda lib: ["a"],
    lambda lib: object(),
    lambda lib: [lib.tensor(2)],
    lambda lib: [lib.tensor(2.5)],
    lambda lib: [lib.tensor(2.0, requires_grad=True)],
    lambda lib: np.array([1.5, -2.5]),
    lambda lib: np.array([300, -1]),
    lambda lib: np.array([1.5j, 2]),
    lambda lib: np.int64(300),
    lambda lib: lib.tensor([1.5, 2.5]),
    lambda lib: [[1, 2], [3]],
)
def test_tensor_from_data_with_a_dtype(dtype, call):
    compare(lambda lib: lib.tensor(call(lib), dtype=getattr(lib, dtype)))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("default", ["float16", "float32", "float64"])
def test_default_dtype_of_new_tensors(default):
    for call in (
        lambda lib: lib.tensor(1.5),
        lambda lib: lib.tensor([1j]),
        lambda lib: lib.tensor([1]),
        lambda lib: lib.tensor([]),
        lambda lib: lib.tensor([1.0, np.float32(2)]),
        lambda lib: lib.zeros(2),
        lambda lib: lib.full((2,), 1.5),
        lambda lib: lib.full((2,), 3),
        lambda lib: lib.arange(3.0),
        lambda lib: lib.linspace(0, 1, 3),
        lambda lib: lib.eye(2),
    ):
        try:
            torch.set_default_dtype(getattr(torch, default))
            rg.set_default_dtype(getattr(rg, default))
            if default != "float16" or call(torch).dtype != torch.complex32:  # no such type here
                compare(call, 1e-3)
        finally:
            torch.set_default_dtype(torch.float32)
            rg.set_default_dtype(rg.float32)


@cases(
    lambda lib: lib.tensor([1.0, 2], requires_grad=True),
    lambda lib: lib.tensor([1.0, 2], dtype=float),
    lambda lib: lib.tensor([1.0, 2], dtype=complex),
    lambda lib: lib.tensor([1.0, 2], device="cpu", pin_memory=False),
    lambda lib: lib.tensor(data=[1]),
    lambda lib: lib.tensor(lib.ones(2), requires_grad=True),
    lambda lib: lib.tensor([1, 2], requires_grad=True),
    lambda lib: lib.tensor(),
    lambda lib: lib.tensor([1.0], lib.float64),
    lambda lib: lib.tensor([1], foo=1),
    lambda lib: lib.tensor([1], device="foo"),
    lambda lib: lib.as_tensor([1.0], dtype=lib.float64),
    lambda lib: lib.as_tensor([1.0], requires_grad=True),
)
def test_arguments_of_tensor(call):
    compare(call)


def test_tensor_always_copies():
    source = np.arange(3.0)
    for data in (source, rg.from_numpy(source)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = rg.tensor(data)
        made.fill_(7)
        assert source.tolist() == [0, 1, 2]


def test_tensor_keeps_the_layout_of_an_array():
    assert rg.tensor(np.asfortranarray(np.ones((2, 3)))).stride() == (1, 2)
    assert rg.tensor(np.arange(6.0)[::-1]).tolist() == [5, 4, 3, 2, 1, 0]  # which torch does not take


def test_tensor_of_a_tensor_warns():
    with pytest.warns(UserWarning, match=r"sourceTensor\.detach\(\)\.clone\(\)") as caught:
        rg.tensor(rg.ones(2))
    assert caught[0].filename == __file__


def test_tensor_of_scalars_that_require_grad_warns():
    with pytest.warns(UserWarning, match="retrograd.stack") as caught:
        rg.tensor([rg.tensor(1.0, requires_grad=True)])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "bool", "complex64"])
def test_unsigned_arrays_are_accepted_with_an_explicit_dtype(kind, dtype):
    """Depth maps and tokens often have 16 bits, a dtype that tensors do not have."""
    array = np.array([[0, 7], [np.iinfo(kind).max, 3]], kind)[::-1].copy()
    givens = [array, array[:, 1], array[1:, 1:], kind(7), [kind(7), 1], [array[1], array[1]], [array[0, 1:]]]

    @parity
    def compare_all(lib: Any) -> Any:
        makers = [lib.tensor, lib.as_tensor, lib.asarray]
        return [make(given, dtype=getattr(lib, dtype)) for make in makers for given in givens]

    compare_all()
    with pytest.raises((TypeError, ValueError)):
        rg.asarray(array, dtype=getattr(rg, dtype), copy=False)


@pytest.mark.parametrize("kind", ["uint64", "uint16", "int64", "int16", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "int8", "uint8", "bool"])
def test_every_element_of_arrays_in_a_list_must_fit(kind: str, dtype: str) -> None:
    limits = np.iinfo(kind) if kind != "float64" else np.finfo(np.float64)
    values = [0, 7, 200, -1, -200, 256, 2.75, limits.max, limits.min]
    arrays = [np.array([3, value], kind) for value in values if limits.min <= value]

    @parity
    def compare_all(lib: Any) -> Any:
        wanted = getattr(lib, dtype)
        known = lib.ones(1, dtype=wanted)
        return [
            attempt(functools.partial(make, given, dtype=wanted))
            for make in (lib.tensor, lib.as_tensor, known.new_tensor)
            for array in arrays
            for given in ([array], (array, array[:1].repeat(2)), [[array], [array]])
        ]

    compare_all()


@pytest.mark.parametrize("unsupported", [np.uint16, np.uint32, np.uint64, np.longdouble])
def test_arrays_of_unsupported_dtypes_raise(unsupported):
    if np.dtype(unsupported) == np.float64:
        pytest.skip("long double is double here")
    for function in (rg.tensor, rg.as_tensor, rg.from_numpy):
        with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
            function(np.ones(2, unsupported))
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        rg.tensor([unsupported(1)])


@pytest.mark.parametrize(
    "given",
    [
        np.ones(2, ">f8"),
        np.ones(2, np.uint32),
        np.ones(2, np.longdouble),
        np.ones(2, np.clongdouble),
        np.array([1, 2.5], object),
        np.array(["cat", "dog", "cat"]),
        np.array([b"cat", b"dog"]),
        np.array(["2020-01-01", "2020-01-03"], "M8[s]"),
        np.array([1, 2], "m8[D]"),
        np.ones(2, "i4,f4"),
    ],
    ids=lambda array: array.dtype.str,
)
def test_message_about_an_unsupported_dtype_shows_a_conversion_that_works(given):
    """The code at the end of the message makes an array that is accepted."""
    if given.dtype in (np.float64, np.complex128):
        pytest.skip("long double is double here")
    with pytest.raises((TypeError, ValueError), match=r"numpy array|np\.ndarray") as error:
        rg.tensor(given)
    code = str(error.value).rpartition(": ")[2]
    assert rg.tensor(eval(code, {"np": np, "array": given})).shape == given.shape


def test_errors_of_constructors_name_the_function_and_the_argument():
    for call, text in (
        (lambda: rg.tensor([[1, 2], [3]]), r"expected sequence of length 2 at dim 1 \(got 1\)"),
        (lambda: rg.tensor("a"), r"tensor\(\): invalid data type 'str'"),
        (lambda: rg.tensor([None]), r"tensor\(\): Could not infer dtype of NoneType"),
        (lambda: rg.tensor([300], dtype=rg.uint8), "uint8 without overflow"),
        (lambda: rg.zeros(2.0), r"zeros\(\): argument 'size' must be tuple of ints.*float"),
        (lambda: rg.zeros(2, -3), r"negative dimension -3: \[2, -3\]"),
        (lambda: rg.zeros(2, foo=1), r"zeros\(\) got an unexpected keyword argument 'foo'"),
        (lambda: rg.full((2,), 300, dtype=rg.uint8), r"full\(\): value 300 .* uint8"),
        (lambda: rg.arange(5, 1), r"arange\(\).*step sign: from 5 to 1 by 1"),
        (lambda: rg.linspace(0, 1, -2), r"linspace\(\): number of steps must be non-negative, got -2"),
        (lambda: rg.from_numpy([1]), r"from_numpy\(\): expected np.ndarray \(got list\)"),
        (lambda: rg.zeros(2, device="cuda"), "cupy|CuPy"),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError), match=text):
            call()


class Table:
    """Has ``__array__``, like pandas' objects."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


def test_objects_with_an_array_method_are_data():
    for function in (rg.tensor, rg.as_tensor, rg.asarray):
        assert function(Table()).tolist() == [0, 1, 2]
    assert rg.tensor(torch.ones(2)).tolist() == [1, 1]
    assert rg.tensor([fractions.Fraction(1, 2)], dtype=rg.float32).tolist() == [0.5]


# --- shared memory --------------------------------------------------------------------------------------------------


def leaf(lib):
    return lib.tensor([1.0, 2.0], requires_grad=True)


@cases(
    lambda lib, x: lib.as_tensor(x) is x,
    lambda lib, x: lib.as_tensor(x, dtype=lib.float32, device="cpu") is x,
    lambda lib, x: lib.as_tensor(x, dtype=lib.float64).grad_fn is None,
    lambda lib, x: lib.as_tensor(x, dtype=lib.float64),
    lambda lib, x: lib.asarray(x) is x,
    lambda lib, x: lib.asarray(x * 2).is_leaf,
    lambda lib, x: lib.asarray(x, copy=False) is x,
    lambda lib, x: lib.asarray(x, copy=True),
    lambda lib, x: lib.asarray(x, copy=True).is_leaf,
    lambda lib, x: lib.asarray(x, copy=True).data_ptr() == x.data_ptr(),
    lambda lib, x: lib.asarray(x, copy=True, dtype=lib.float64),
    lambda lib, x: lib.asarray(x, dtype=lib.float64),
    lambda lib, x: lib.asarray(x, dtype=lib.float64, requires_grad=True).is_leaf,
    lambda lib, x: lib.asarray(x * 2, requires_grad=True).is_leaf,
    lambda lib, x: lib.asarray(x, requires_grad=False),
    lambda lib, x: lib.asarray(x, requires_grad=False).data_ptr() == x.data_ptr(),
    lambda lib, x: lib.asarray(x.detach(), requires_grad=True),
    lambda lib, x: lib.asarray(x.detach(), requires_grad=True).data_ptr() == x.data_ptr(),
    lambda lib, x: lib.asarray(x, copy=False, dtype=lib.float64),
    lambda lib, x: lib.asarray(x, dtype=lib.int64),
    lambda lib, x: lib.from_dlpack(x.detach()).data_ptr() == x.data_ptr(),
    lambda lib, x: lib.from_dlpack(x.detach()),
    lambda lib, x: lib.from_dlpack(x),
    lambda lib, x: lib.from_numpy(x),
)
def test_conversion_of_a_tensor_matches_torch(call):
    compare(lambda lib: call(lib, leaf(lib)))


def capsules(lib, values):
    """Return tensors that share memory through capsules."""
    x = lib.tensor(values)
    y = lib.from_dlpack(lib.to_dlpack(x))
    z = lib.utils.dlpack.from_dlpack(lib.utils.dlpack.to_dlpack(y.reshape(2, 3).T))
    z[0, 1] = 9
    z.mul_(2)
    return x.tolist(), y.tolist(), z.tolist(), str(z.dtype).split(".")[-1]


@cases(
    lambda lib: capsules(lib, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    lambda lib: capsules(lib, [0, 1, 2, 3, 4, 5]),
    lambda lib: lib.from_dlpack(lib.to_dlpack(lib.empty(0, 3))),
    lambda lib: lib.from_dlpack(lib.to_dlpack(lib.ones(2, requires_grad=True))).requires_grad,
    lambda lib: lib.to_dlpack([1.0]),
)
def test_dlpack_capsules_match_torch(call):
    compare(call)


def test_dlpack_capsules_are_exchanged_with_torch():
    theirs = torch.arange(4.0)
    capsule = torch.utils.dlpack.to_dlpack(theirs)
    ours = rg.from_dlpack(capsule)
    ours.mul_(2)
    assert theirs.tolist() == [0, 2, 4, 6]
    with pytest.raises(RuntimeError, match="can be used only once"):
        rg.from_dlpack(capsule)
    again = torch.utils.dlpack.from_dlpack(rg.to_dlpack(ours))
    assert again.data_ptr() == theirs.data_ptr()
    del theirs, again
    assert ours.tolist() == [0, 2, 4, 6]


def test_capsule_of_a_read_only_array():
    array = np.arange(3.0)
    array.flags.writeable = False
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        pytest.skip("this version of NumPy has older capsules only")
    x = rg.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="read-only"):
        x.mul_(2)


def test_asarray_and_as_tensor_are_differentiable():
    x = leaf(rg)
    (rg.asarray(x, copy=True) * rg.as_tensor(x, dtype=rg.float64)).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.grad.dtype is rg.float32


def test_asarray_does_not_change_its_argument():
    x, y = leaf(rg), rg.ones(2)
    assert not rg.asarray(x, requires_grad=False).requires_grad
    assert x.requires_grad
    assert rg.asarray(y, requires_grad=True).requires_grad
    assert not y.requires_grad


@cases(
    lambda lib, a: lib.as_tensor(a).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.as_tensor(a, dtype=lib.float32),
    lambda lib, a: lib.asarray(a).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.asarray(a, copy=False),
    lambda lib, a: lib.asarray(a, copy=True).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.asarray(a, dtype=lib.float32),
    lambda lib, a: lib.asarray(a, requires_grad=True),
    lambda lib, a: lib.from_numpy(a).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.from_numpy(a[1:]),
    lambda lib, a: lib.from_numpy(a[::2]),
    lambda lib, a: lib.from_numpy(np.array(1.0)),
    lambda lib, a: lib.from_dlpack(a).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.from_dlpack(a, device="cpu"),
    lambda lib, a: lib.from_dlpack(a, copy=True).data_ptr() == a.ctypes.data,
    lambda lib, a: lib.asarray(a, copy=False, dtype=lib.float32),
    lambda lib, a: lib.asarray([1], copy=False),
    lambda lib, a: lib.asarray(1, copy=False),
    lambda lib, a: lib.asarray(a.astype(int), requires_grad=True),
    lambda lib, a: lib.from_numpy(),
    lambda lib, a: lib.from_numpy(a, a),
    lambda lib, a: lib.from_numpy([1]),
    lambda lib, a: lib.from_numpy(np.float32(1)),
    lambda lib, a: lib.from_numpy(np.array(["a"])),
    lambda lib, a: lib.from_numpy(np.array([1], object)),
    lambda lib, a: lib.from_numpy(np.array([1], ">i4")),
    lambda lib, a: lib.from_dlpack([1]),
)
def test_conversion_of_an_array_matches_torch(call):
    source = np.arange(3.0)
    compare(lambda lib: call(lib, source))


def test_writes_are_seen_on_both_sides():
    source = np.arange(4.0)
    for made in (rg.from_numpy(source), rg.as_tensor(source), rg.asarray(source), rg.from_dlpack(source)):
        made.add_(1)
        source[0] += 1
        assert made.tolist() == source.tolist()


def test_read_only_arrays_give_read_only_tensors():
    source = np.broadcast_to(np.float32(1), (3,))
    made = rg.from_numpy(source)
    assert (made + 1).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="read-only"):
        made.add_(1)


def test_dtype_objects_are_numpys_own():
    """Operations compare dtypes by identity."""
    for code in (np.longlong, np.int64):
        made = rg.from_numpy(np.arange(3).astype(code))
        assert made._data.dtype is np.dtype("int64")
    assert type(rg.from_numpy(np.ones(2).view(Recorded))._data) is np.ndarray


class Recorded(np.ndarray):
    """A subclass of ndarray."""


@cases(
    lambda lib: lib.frombuffer(bytearray(b"abcdefgh"), dtype=lib.int16),
    lambda lib: lib.frombuffer(bytearray(b"abcdefgh"), dtype=lib.int16, count=2, offset=2),
    lambda lib: lib.frombuffer(bytearray(b"abcdefgh"), dtype=lib.float32, requires_grad=True),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, offset=1),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, count=2),
    lambda lib: lib.frombuffer(b"abcd", dtype=lib.uint8),
    lambda lib: lib.frombuffer(np.arange(3.0), dtype=lib.float64),
    lambda lib: lib.asarray(bytearray(b"abcd")),
    lambda lib: lib.asarray(bytearray(b"abcd"), dtype=lib.int16),
    lambda lib: lib.asarray(memoryview(b"abcd"), dtype=lib.int16),
    lambda lib: lib.asarray(array.array("d", [1, 2]), dtype=lib.float64),
    lambda lib: lib.frombuffer(bytearray(b"abcdefgh")),
    lambda lib: lib.frombuffer(bytearray(b"abcdefgh"), dtype=lib.int16, requires_grad=True),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, offset=7),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, offset=6),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, offset=-1),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, count=0),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, count=-2),
    lambda lib: lib.frombuffer(bytearray(b"abcdefg"), dtype=lib.int16, count=10),
    lambda lib: lib.frombuffer(bytearray(b""), dtype=lib.int16),
    lambda lib: lib.frombuffer([1], dtype=lib.int16),
)
def test_frombuffer_matches_torch(call):
    compare(call)


def test_frombuffer_shares_memory():
    buffer = bytearray(4)
    rg.frombuffer(buffer, dtype=rg.uint8).fill_(1)
    assert buffer == b"\1\1\1\1"


@parity
def test_formatting_a_scalar_tensor(m: Any) -> Any:
    """``f"{loss}"`` is the number, as scripts print it."""
    x = m.tensor(1.5, requires_grad=True)
    return [
        f"{x.detach()} {x.detach():.3f} {x.detach():>8} {m.tensor(3)} {m.tensor(True)} {m.tensor(1 + 2j)}",
        f"{x * 2} {x:.2f}",
        f"{m.ones(2)} {m.nn.Parameter(m.tensor(2.0))}",
        attempt(lambda: f"{m.ones(2):.3f}"),
    ]


@pytest.mark.parametrize("convert", [lambda x: x.numpy(), np.asarray, float, complex, lambda x: x.__array__().sum()])
def test_array_of_a_tensor_that_requires_grad_without_recording(convert: Any) -> None:
    """The ``forward`` of a custom function may compute with NumPy, for example; NumPy's warnings are ignored."""
    for library in (torch, rg):
        x = library.ones(1, requires_grad=True)
        for mode in (library.no_grad, library.inference_mode):
            with mode():
                assert convert(x) == 1
    x = rg.ones(1, requires_grad=True)
    if convert not in (float, complex):
        with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
            convert(x)


def test_custom_function_may_compute_with_numpy() -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, input: rg.Tensor) -> rg.Tensor:
            ctx.save_for_backward(input)
            return rg.from_numpy(input.numpy() ** 3)

        @staticmethod
        def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
            (input,) = ctx.saved_tensors
            return g * 3 * input**2

    x = rg.randn(3, dtype=rg.float64, requires_grad=True)
    assert rg.autograd.gradcheck(Cube.apply, x)
    assert rg.autograd.gradgradcheck(Cube.apply, x)
