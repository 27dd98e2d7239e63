"""Data types and type promotion, with torch as the oracle."""

import copy
import ctypes
import enum
import itertools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from retrograd import dtypes

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
ALIASES = ["half", "float", "double", "short", "int", "long", "cfloat", "cdouble"]
FLOATS = [n for n in NAMES if getattr(torch, n).is_floating_point]
COMPLEX = [n for n in NAMES if getattr(torch, n).is_complex]
INTEGERS = [n for n in NAMES if n not in FLOATS + COMPLEX + ["bool"]]
UNSUPPORTED = ["uint16", "uint32", "uint64", "O", "U3", "S2", "M8[s]", "m8[s]", "V4", "i4,f4", "longdouble"]
if np.dtype("longdouble") == np.dtype("float64"):  # they are one type on Windows
    UNSUPPORTED.remove("longdouble")

# Values that equal no data type.
STRANGERS = [None, 1, 1.5, "float32", "retrograd.float32", "no such type", object(), float, str, np.floating]
STRANGERS += [np.generic, np.zeros, [], {}, np.dtype("O"), np.dtype("i4,f4"), np.uint16, np.dtype("uint16")]
STRANGERS += [torch.float32]

# Values that name no data type.
NO_DTYPES = [None, 1, 1.0, "f4", "float", "Float32", "", "retrograd.float32", str, object, list, [], {}, object()]
NO_DTYPES += [np.floating, np.generic, np.zeros(2), np.float32(1), np.dtype("float32").newbyteorder()]
NO_DTYPES += [ctypes.c_float, torch.float32]

# torch warns that its complex32 is experimental; here only the type is used.
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def ours(name):
    return getattr(dtypes, name)


def theirs(name):
    return getattr(torch, name)


def torch_name(dtype, half_complex="complex64"):
    """Return the name of a torch dtype, with the stand-in for complex32, which does not exist here."""
    name = str(dtype).removeprefix("torch.")
    return half_complex if name == "complex32" else name


@pytest.fixture(autouse=True)
def restore_default():
    saved = dtypes.get_default_dtype(), torch.get_default_dtype()
    yield
    dtypes.set_default_dtype(saved[0])
    torch.set_default_dtype(saved[1])


def set_defaults(name):
    dtypes.set_default_dtype(ours(name))
    torch.set_default_dtype(theirs(name))


class TestDtype:
    @pytest.mark.parametrize("name", NAMES)
    def test_attributes_match_torch(self, name):
        a, b = ours(name), theirs(name)
        assert isinstance(a, dtypes.dtype)
        assert a.name == torch_name(b)
        assert repr(a) == str(a) == str(b).replace("torch", "retrograd")
        for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
            assert getattr(a, attribute) == getattr(b, attribute), attribute
        assert a.to_real().name == torch_name(b.to_real())

    @pytest.mark.parametrize("name", NAMES)
    def test_attributes_match_numpy(self, name):
        a, b = ours(name), np.dtype(name)
        assert a.numpy is a.dtype is a.__numpy_dtype__
        assert a.numpy == b == torch.empty(0, dtype=theirs(name)).numpy().dtype
        assert (a.itemsize, a.kind, a.char, a.type) == (b.itemsize, b.kind, b.char, b.type)

    @pytest.mark.parametrize("name", NAMES)
    def test_to_complex(self, name):
        try:
            expected = torch_name(theirs(name).to_complex())
        except RuntimeError:
            with pytest.raises(RuntimeError, match="Unknown Complex ScalarType"):
                ours(name).to_complex()
        else:
            assert ours(name).to_complex() is ours(expected)

    @pytest.mark.parametrize("alias", ALIASES)
    def test_aliases(self, alias):
        assert ours(alias) is ours(torch_name(theirs(alias)))

    @pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "complex32", "chalf", "bfloat16"])
    def test_unsupported_dtypes_are_absent(self, name):
        assert not hasattr(dtypes, name)
        with pytest.raises(TypeError, match=name):
            dtypes.as_dtype(name)

    def test_all_lists_every_dtype(self):
        assert set(NAMES + ALIASES) < set(dtypes.__all__)
        assert all(hasattr(dtypes, n) for n in dtypes.__all__)

    @pytest.mark.parametrize("x", NAMES)
    @pytest.mark.parametrize("y", NAMES)
    def test_equality_and_hash(self, x, y):
        a, same = ours(x), x == y
        for b in (ours(y), np.dtype(y), np.dtype(y).type):
            assert (a == b) is same
            assert (b == a) is same
            assert (a != b) is not same
        assert (hash(a) == hash(np.dtype(y))) or not same
        assert ({np.dtype(x): "found"}.get(ours(y)) == "found") is same
        assert ({a: "found"}.get(np.dtype(y)) == "found") is same

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("other", STRANGERS)
    def test_unequal_to_anything_else(self, name, other):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (ours(name) == other) is False
            assert (ours(name) != other) is True

    def test_other_byte_order_is_another_dtype(self):
        swapped = np.dtype("float32").newbyteorder()
        assert ours("float32") != swapped
        assert ours("float32") == np.dtype("float32").newbyteorder("=")

    @pytest.mark.parametrize("code", "bBhHiIlLqQefdFD?")
    def test_equal_to_every_scalar_type_of_c(self, code):
        # On each platform two of C's integer types are the same dtype but have two scalar types.
        for name in NAMES:
            assert (ours(name) == np.dtype(code).type) is (np.dtype(name) == np.dtype(code))

    @pytest.mark.parametrize("name", NAMES + ALIASES)
    def test_pickle_and_copy_keep_the_object(self, name):
        a = ours(name)
        assert copy.copy(a) is a
        assert copy.deepcopy(a) is a
        assert copy.deepcopy([{"k": a}])[0]["k"] is a
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(a, protocol)) is a

    def test_immutable(self):
        a = ours("float32")
        for name in ("name", "numpy", "itemsize", "dtype", "brand_new"):
            with pytest.raises(AttributeError):
                setattr(a, name, 1)
        with pytest.raises(AttributeError):
            del a.name
        with pytest.raises(AttributeError):
            _ = a.__dict__
        with pytest.raises(TypeError, match="cannot create"):
            dtypes.dtype()

    @pytest.mark.parametrize("name", NAMES)
    def test_numpy_accepts_it_as_a_dtype(self, name):
        a, expected = ours(name), np.dtype(name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.dtype(a) == expected
            assert np.zeros(3, dtype=a).dtype == expected
            assert np.zeros(3, a).dtype == expected
            assert np.asarray([0, 1], dtype=a).dtype == expected
            assert np.ones(2, "int8").astype(a).dtype == expected
            assert np.ones(2).sum(dtype=a if expected.kind in "fc" else None).dtype.kind in "fc"
            assert np.promote_types(a, expected) == expected
            assert np.can_cast(a, expected)
            assert np.issubdtype(a, expected)
            assert np.frombuffer(bytes(expected.itemsize), a).dtype == expected
            assert (expected == a) is True


class TestAsDtype:
    @pytest.mark.parametrize("name", NAMES)
    def test_accepts(self, name):
        a = ours(name)
        with_metadata = np.dtype(name, metadata={"unit": "m"})
        for x in (a, np.dtype(name), np.dtype(name).type, name, with_metadata):
            assert dtypes.as_dtype(x) is a

    @pytest.mark.parametrize("x", [bool, int, float, complex])
    @pytest.mark.parametrize("default", FLOATS)
    def test_python_types_as_torch(self, x, default):
        set_defaults(default)
        assert dtypes.as_dtype(x) is ours(torch_name(torch.zeros(1, dtype=x).dtype))

    @pytest.mark.parametrize("code", "bBhiIlLqQefdFD?")
    def test_every_scalar_type_of_c(self, code):
        d = np.dtype(code)
        if d.name in NAMES:
            assert dtypes.as_dtype(d.type) is ours(d.name)
        else:
            with pytest.raises(TypeError):
                dtypes.as_dtype(d.type)

    @pytest.mark.parametrize("x", NO_DTYPES)
    def test_refuses(self, x):
        with pytest.raises(TypeError) as error:
            dtypes.as_dtype(x)
        assert repr(x) in str(error.value)
        for name in NAMES:
            assert name in str(error.value)

    @pytest.mark.parametrize("x", UNSUPPORTED)
    def test_refuses_unsupported(self, x):
        for y in (np.dtype(x), np.dtype(x).type, x):
            with pytest.raises(TypeError, match="only supported types"):
                dtypes.as_dtype(y)


class TestFromNumpyDtype:
    @pytest.mark.parametrize("code", "?bBhilqefdFD")
    def test_supported(self, code):
        d = np.dtype(code)
        expected = ours(torch_name(torch.from_numpy(np.zeros(1, d)).dtype))
        assert dtypes.from_numpy_dtype(d) is expected
        assert dtypes.from_numpy_dtype(np.dtype(d, metadata={"unit": "m"})) is expected

    @pytest.mark.parametrize("x", UNSUPPORTED)
    def test_unsupported(self, x):
        array = np.zeros(1, x)
        with pytest.raises(TypeError) as error:
            dtypes.from_numpy_dtype(array.dtype)
        if array.dtype.kind != "u":  # torch has the wider unsigned types
            with pytest.raises(TypeError) as expected:
                torch.from_numpy(array)
            # advice may follow
            said = str(error.value).partition(" and bool.")
            assert "".join(said[:2]) == str(expected.value).replace("uint64, uint32, uint16, ", "")

    @pytest.mark.parametrize("name", [n for n in NAMES if np.dtype(n).itemsize > 1])
    def test_other_byte_order(self, name):
        array = np.zeros(1, np.dtype(name).newbyteorder())
        with pytest.raises(ValueError) as expected:
            torch.from_numpy(array)
        with pytest.raises(ValueError) as error:
            dtypes.from_numpy_dtype(array.dtype)
        assert str(error.value) == f"{expected.value} Convert it first: array.astype(array.dtype.newbyteorder('='))"

    def test_other_unsupported_dtypes(self):
        for d in (np.dtypes.StringDType(), np.dtype("uint16").newbyteorder(), np.dtype([("x", ">f4")])):
            with pytest.raises(TypeError, match="can't convert"):
                dtypes.from_numpy_dtype(d)

    @pytest.mark.parametrize("x", [None, "float32", np.float32, float, [], {}, 1], ids=repr)
    def test_not_a_dtype(self, x):
        with pytest.raises(TypeError, match=r"expected a numpy\.dtype"):
            dtypes.from_numpy_dtype(x)


class TestDefault:
    def test_at_import(self):
        code = "from retrograd import dtypes; print(dtypes.get_default_dtype().name)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == torch_name(torch.get_default_dtype())

    @pytest.mark.parametrize("name", FLOATS)
    def test_set(self, name):
        set_defaults(name)
        assert dtypes.get_default_dtype() is ours(torch_name(torch.get_default_dtype()))
        assert dtypes.default_float() == np.dtype(torch_name(torch.tensor(1.0).dtype))
        assert isinstance(dtypes.default_float(), np.dtype)
        expected = torch_name(torch.result_type(1j, True))
        assert dtypes.default_complex() == np.dtype(expected)
        assert isinstance(dtypes.default_complex(), np.dtype)

    @pytest.mark.parametrize("name", [n for n in NAMES if n not in FLOATS])
    def test_refuses_other_types(self, name):
        self.check_refused(ours(name), theirs(name))

    @pytest.mark.parametrize("x", ["float32", np.float32, np.dtype("float32"), float, None, 1.0], ids=repr)
    def test_refuses_values_that_are_not_dtypes(self, x):
        self.check_refused(x, x)

    @staticmethod
    def check_refused(x, torch_x):
        before = dtypes.get_default_dtype()
        with pytest.raises(TypeError) as expected:
            torch.set_default_dtype(torch_x)
        with pytest.raises(TypeError) as error:
            dtypes.set_default_dtype(x)
        assert str(error.value) == str(expected.value)
        assert dtypes.get_default_dtype() is before


FINFO = ["bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"]
IINFO = ["bits", "max", "min", "dtype"]


class TestLimits:
    @pytest.mark.parametrize("name", FLOATS + COMPLEX)
    def test_finfo(self, name):
        a, b = dtypes.finfo(ours(name)), torch.finfo(theirs(name))
        for attribute in FINFO:
            assert getattr(a, attribute) == getattr(b, attribute), attribute
            assert type(getattr(a, attribute)) is type(getattr(b, attribute)), attribute
        assert repr(a) == str(a) == repr(b)

    @pytest.mark.parametrize("name", INTEGERS)
    def test_iinfo(self, name):
        a, b = dtypes.iinfo(ours(name)), torch.iinfo(theirs(name))
        for attribute in IINFO:
            assert getattr(a, attribute) == getattr(b, attribute), attribute
            assert type(getattr(a, attribute)) is type(getattr(b, attribute)), attribute
        # torch prints six digits of the limits; here all digits are printed.
        assert repr(a) == str(a) == f"iinfo(min={b.min}, max={b.max}, dtype={b.dtype})"

    @pytest.mark.parametrize("name", FLOATS)
    def test_finfo_of_the_default(self, name):
        set_defaults(name)
        assert repr(dtypes.finfo()) == repr(torch.finfo())
        assert dtypes.finfo() == dtypes.finfo(ours(name)) == dtypes.finfo(type=name)

    def test_python_type(self):
        assert repr(dtypes.finfo(float)) == repr(torch.finfo(float))

    @pytest.mark.parametrize("x", NAMES)
    def test_finfo_and_iinfo_refuse_the_wrong_kind_as_in_torch(self, x):
        for name in ("finfo", "iinfo"):
            try:
                getattr(torch, name)(theirs(x))
            except TypeError:
                with pytest.raises(TypeError, match=rf"retrograd\.{name}"):
                    getattr(dtypes, name)(ours(x))
            else:
                getattr(dtypes, name)(ours(x))

    def test_limits_refuse_other_types(self):
        for x in (None, 1, "nothing", object, np.uint16):
            with pytest.raises(TypeError):
                dtypes.finfo(x)
            with pytest.raises(TypeError):
                dtypes.iinfo(x)
        with pytest.raises(TypeError):
            dtypes.iinfo()

    def test_equality(self):
        for name, types in (("finfo", FLOATS), ("iinfo", INTEGERS)):
            a, b = getattr(dtypes, name), getattr(torch, name)
            for x, y in itertools.product(types, repeat=2):
                assert (a(ours(x)) == a(ours(y))) is (b(theirs(x)) == b(theirs(y)))
            assert a(ours(types[0])) != types[0]
            with pytest.raises(TypeError):
                hash(a(ours(types[0])))


class TestPairs:
    @pytest.mark.parametrize("x", NAMES)
    @pytest.mark.parametrize("y", NAMES)
    def test_promote_types(self, x, y):
        expected = ours(torch_name(torch.promote_types(type1=theirs(x), type2=theirs(y))))
        assert dtypes.promote_types(type1=ours(x), type2=ours(y)) is expected
        assert dtypes.promote_types(np.dtype(x), y) is expected

    @pytest.mark.parametrize("x", NAMES)
    @pytest.mark.parametrize("y", NAMES)
    def test_can_cast(self, x, y):
        assert dtypes.can_cast(ours(x), ours(y)) is torch.can_cast(theirs(x), theirs(y))
        assert dtypes.can_cast(x, np.dtype(y)) is torch.can_cast(theirs(x), theirs(y))

    def test_promotion_refuses_values_that_are_not_dtypes(self):
        for f in (dtypes.promote_types, dtypes.can_cast):
            for pair in ((None, "int8"), ("int8", None), (np.uint16, "int8"), ("int8", 3)):
                with pytest.raises(TypeError):
                    f(*pair)


SCALARS = [True, 3, 2.5, 1.5 + 2j]


def operand(spec, to_torch):
    """Build an operand from a Python number, or from the name of a dtype and a shape."""
    if not isinstance(spec, tuple):
        return spec
    name, shape = spec
    return torch.ones(shape, dtype=theirs(name)) if to_torch else np.ones(shape, name)


def check_result(a, b):
    expected = torch_name(torch.result_type(operand(a, True), operand(b, True)))
    got = dtypes.result_dtype(operand(a, False), operand(b, False))
    assert isinstance(got, np.dtype)
    assert got == np.dtype(expected), (a, b)


SHAPES = [(), (2,), (2, 2)]


class TestResultDtype:
    @pytest.mark.parametrize("default", FLOATS)
    @pytest.mark.parametrize("x", NAMES)
    def test_two_arrays(self, x, default):
        set_defaults(default)
        for y, sx, sy in itertools.product(NAMES, SHAPES, SHAPES):
            check_result((x, sx), (y, sy))

    @pytest.mark.parametrize("default", FLOATS)
    @pytest.mark.parametrize("x", NAMES)
    def test_array_and_python_number(self, x, default):
        set_defaults(default)
        for shape, number in itertools.product(SHAPES, SCALARS):
            check_result((x, shape), number)
            check_result(number, (x, shape))

    @pytest.mark.parametrize("default", FLOATS)
    def test_two_python_numbers(self, default):
        set_defaults(default)
        for a, b in itertools.product(SCALARS, repeat=2):
            check_result(a, b)

    @pytest.mark.parametrize("default", FLOATS)
    def test_one_operand(self, default):
        set_defaults(default)
        for name, shape in itertools.product(NAMES, SHAPES):
            assert dtypes.result_dtype(np.ones(shape, name)) == np.dtype(name)
        for number in SCALARS:
            expected = torch_name(torch.result_type(number, number))
            assert dtypes.result_dtype(number) == np.dtype(expected)

    @pytest.mark.parametrize("x", NAMES)
    def test_numpy_scalar_is_zero_dimensional(self, x):
        # np.float64 and np.complex128 are subclasses of Python's types but must not count as those.
        scalar = np.dtype(x).type(1)
        for y, shape in itertools.product(NAMES, SHAPES):
            other = np.ones(shape, y)
            expected = torch_name(torch.result_type(torch.tensor(1, dtype=theirs(x)), operand((y, shape), True)))
            assert dtypes.result_dtype(scalar, other) == np.dtype(expected)
            assert dtypes.result_dtype(other, scalar) == np.dtype(expected)
        assert dtypes.result_dtype(scalar) == np.dtype(x)

    def test_empty_arrays_have_dimensions(self):
        for x, y, shape in itertools.product(NAMES, NAMES, [(0,), (2, 0)]):
            check_result((x, shape), (y, ()))
            check_result((x, ()), (y, shape))

    @pytest.mark.parametrize("x", NAMES)
    @pytest.mark.parametrize("default", ["float32", "float64"])
    def test_three_arrays(self, x, default):
        # The meta device computes dtypes without kernels, so addcmul accepts bool there.
        set_defaults(default)
        for y, z in itertools.product(NAMES, repeat=2):
            for shapes in itertools.product([(), (2,)], repeat=3):
                specs = list(zip((x, y, z), shapes, strict=True))
                result = torch.addcmul(*[operand(spec, True).to("meta") for spec in specs])
                got = dtypes.result_dtype(*[operand(spec, False) for spec in specs])
                assert got == np.dtype(torch_name(result.dtype)), specs

    @pytest.mark.parametrize("default", FLOATS)
    def test_array_and_two_python_numbers(self, default):
        set_defaults(default)
        real = [s for s in SCALARS if not isinstance(s, complex)]
        for x, shape, low, high in itertools.product([n for n in NAMES if n not in COMPLEX], SHAPES, real, real):
            tensor = operand((x, shape), True).to("meta")
            expected = np.dtype(torch_name(torch.clamp(tensor, low, high).dtype))
            for order in itertools.permutations((operand((x, shape), False), low, high)):
                assert dtypes.result_dtype(*order) == expected, (x, shape, low, high)

    @pytest.mark.parametrize("default", FLOATS)
    def test_all_three_categories(self, default):
        # No operation takes all three, so the last two are first combined in a zero-dimensional tensor. That is the
        # rule itself, except that torch then knows the kind of the number only from the result.
        set_defaults(default)
        for x, y, number in itertools.product(NAMES, NAMES, SCALARS):
            zero_dim = torch.result_type(operand((y, ()), True), number)
            expected = torch.result_type(operand((x, (2,)), True), torch.empty((), dtype=zero_dim, device="meta"))
            specs = ((x, (2,)), (y, ()), number)
            for order in itertools.permutations(operand(spec, False) for spec in specs):
                assert dtypes.result_dtype(*order) == np.dtype(torch_name(expected)), specs

    def test_number_beyond_the_range_changes_nothing(self):
        for x, number in itertools.product(INTEGERS, [2**40, -1, 2**63 - 1]):
            check_result((x, (2,)), number)

    def test_huge_int(self):
        # NumPy's own rules look at the value; here an int is an int64 whatever its size.
        assert dtypes.result_dtype(np.ones(2, "int8"), 2**100) == np.dtype("int8")

    def test_subclasses_of_pythons_numbers(self):
        class Colour(enum.IntEnum):
            RED = 1

        class Metres(float):
            pass

        for spec in itertools.product(NAMES, SHAPES):
            array = operand(spec, False)
            assert dtypes.result_dtype(array, Colour.RED) == dtypes.result_dtype(array, 1)
            assert dtypes.result_dtype(array, Metres(1)) == dtypes.result_dtype(array, 1.0)

    def test_array_subclass(self):
        matrix = np.ones((2, 2), "float16").view(np.recarray)
        assert dtypes.result_dtype(matrix, np.ones((), "float64")) == np.dtype("float16")

    def test_foreign_array(self):
        class Array:
            def __init__(self, name, ndim):
                self.dtype, self.ndim = np.dtype(name), ndim

        for x, y, i, j in itertools.product(NAMES, NAMES, (0, 2), (0, 2)):
            expected = dtypes.result_dtype(np.ones((1,) * i, x), np.ones((1,) * j, y))
            assert dtypes.result_dtype(Array(x, i), Array(y, j)) == expected
            assert dtypes.result_dtype(Array(x, i), np.ones((1,) * j, y)) == expected

    def test_results_with_the_default_dtype_are_not_cached(self):
        array = np.ones(2, "int32")
        for name in FLOATS * 2:
            dtypes.set_default_dtype(ours(name))
            assert dtypes.result_dtype(array, 1.0) == np.dtype(name)

    def test_metadata_is_dropped(self):
        array = np.ones(2, np.dtype("float64", metadata={"unit": "m"}))
        for result in (dtypes.result_dtype(array), dtypes.result_dtype(array, array), dtypes.result_dtype(array, 1)):
            assert result == np.dtype("float64")
            assert result.metadata is None

    def test_result_dtype_refuses_other_types(self):
        with pytest.raises(TypeError, match="at least one"):
            dtypes.result_dtype()
        for x in (None, "1", [1.0], (1.0,), object(), np.float32, ours("float32")):
            with pytest.raises(TypeError, match="takes arrays and Python numbers"):
                dtypes.result_dtype(x)
            with pytest.raises(TypeError, match="takes arrays and Python numbers"):
                dtypes.result_dtype(np.ones(2), x)

    @pytest.mark.parametrize("name", UNSUPPORTED)
    def test_unsupported_dtype(self, name):
        array = np.zeros(2, name)
        for operands in ((array,), (array, array), (array, 1), (np.ones(2), array), (array[0:1].reshape(()), True)):
            for _ in range(2):  # an error must not be cached as a result
                with pytest.raises(TypeError, match="can't convert"):
                    dtypes.result_dtype(*operands)


def test_import_is_light():
    """The module needs only NumPy and works although it shadows Python's types."""
    code = "import sys, importlib.util as u; s = u.spec_from_file_location('m', sys.argv[1]);"
    code += "m = u.module_from_spec(s); s.loader.exec_module(m);"
    code += "print(*{n.partition('.')[0] for n in sys.modules if n.partition('.')[0] in {'scipy', 'cupy', 'torch'}})"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, dtypes.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("code", "?bBhHiIlLqQefdgFDG")
def test_scalar_types_of_c_mean_the_dtype_of_their_size(code: str) -> None:
    """Sizes differ between systems: on Windows, long double is double and long is int."""

    def meaning(x):
        try:
            return dtypes.as_dtype(x)
        except TypeError:
            return None

    assert meaning(np.dtype(code).type) is meaning(np.dtype(code))
