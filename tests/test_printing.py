"""``printing.format_tensor`` equals torch's repr byte for byte."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch._tensor_str import get_printoptions as torch_get_printoptions
from torch._tensor_str import printoptions as torch_printoptions

import retrograd as rg
from retrograd import printing

torch.set_num_threads(1)

NAN, INF = math.nan, math.inf
INTS = ["int8", "int16", "int32", "int64", "uint8"]
UNSIGNED = ["uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTS, *FLOATS, *COMPLEX]
SHAPES = [(), (1,), (3,), (40,), (0,), (0, 3), (3, 0), (2, 0, 2), (1, 1), (2, 3), (5, 30), (2, 3, 4), (2, 1, 3, 2)]


@pytest.fixture(autouse=True)
def _restore_options():
    mine, theirs = printing.get_printoptions(), torch_get_printoptions()
    yield
    printing.set_printoptions(**mine)
    torch.set_printoptions(**theirs)


def mine(data, **kwargs):
    defaults = {"default_float": np.dtype("float32"), "default_complex": np.dtype("complex64")}
    return printing.format_tensor(data, **{**defaults, "dtype_prefix": "torch.", **kwargs})


def theirs(data):
    # Copy first: torch accepts neither negative strides nor read-only memory.
    return torch.from_numpy(np.array(data, order="C", copy=True))


def check(data, **options):
    data = np.asarray(data)
    with printing.printoptions(**options), torch_printoptions(**options):
        assert mine(data) == repr(theirs(data))


def random_array(shape, dtype, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTS + UNSIGNED:
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(max(info.min, -1000 * scale), min(info.max, 1000 * scale), shape)).astype(dtype)
    values = np.asarray(rng.standard_normal(shape) * scale)
    if dtype in COMPLEX:
        values = values + 1j * np.asarray(rng.standard_normal(shape))
    return np.asarray(values).astype(dtype)


def lists(*values):
    return [pytest.param(v, id=str(v).replace(" ", "")) for v in values]


# Values


@pytest.mark.parametrize("dtype", DTYPES + UNSIGNED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_printing_shapes_and_dtypes(shape, dtype):
    if dtype in UNSIGNED and 0 in shape:
        check(np.zeros(shape, dtype))
    for seed in range(3):
        check(random_array(shape, dtype, seed))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "values",
    lists(
        [1.0, 2.0],
        [1.0, -2.0],
        [0.0],
        [-0.0],
        [0.0, -0.0, 1.0],
        [0.0, -0.0, 1.5],
        [NAN],
        [INF],
        [-INF],
        [0.0, NAN, -INF, -0.0],
        [1.0, NAN],
        [1.0, -INF, NAN, INF],
        [1.5, NAN, INF],
        [1.5, -INF],
        [-1.5, NAN],
        [1000.0, NAN, 1.0],
        [1001.0, NAN, 1.0],
        [1000.5, 1.0],
        [1000.0, 1.0],
        [1000.0, 0.999],
        [1e-4, 1e-3],
        [9.9e-5],
        [1e-5, 1.0],
        [6e-8, 6e-5],
        [6e-8],
        [0.1, 0.2, 100.0],
        [0.1, 0.2, 101.0],
        [65504.0],
        [65504.0, -1.0],
        [0.99999],
        [9.99999, 1.0],
        [9.99996, -9.99996],
        [0.00015, 0.00025],
        [2.5, 0.5, 1.5],
    ),
)
def test_printing_special_floats(values, dtype):
    data = np.array(values, dtype)
    check(data)
    check(data.reshape(-1, 1))
    check(data[0])
    for sci_mode in (True, False):
        check(data, sci_mode=sci_mode)
        check(data[-1], sci_mode=sci_mode)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "values",
    lists([1e8], [1e8, 2.0], [100000001.0], [1.1e8], [1e9], [1e10, -1e-10], [1e30, 1e29], [3e38], [-1e20, 0.0, NAN]),
)
def test_printing_large_floats(values, dtype):
    check(np.array(values, dtype))
    check(np.array(values, dtype), sci_mode=False)


def test_printing_extreme_doubles():
    tiny = np.nextafter(0.0, 1.0)
    check(np.array([tiny]))
    check(np.array([tiny, np.finfo("float64").max]))
    check(np.array([np.finfo("float64").max, -1.0]), sci_mode=False)
    check(np.array([tiny, 1000 * tiny, 0.0]))
    check(np.array([tiny, 1001 * tiny, 0.0]))


def test_printing_at_the_boundaries_of_notations():
    for dtype in ("float32", "float64"):
        one = np.ones(1, dtype)[0]
        for base in (1000, 1e8, 1e-4, 1e-5, 0.1, 3, 7e-4):
            for x in (np.nextafter(one * base, -one), one * base, np.nextafter(one * base, one * np.inf)):
                for y in (1, 0.1, 0.001, 3, 7, 0.0, NAN):
                    check(np.array([x, y], dtype))
                    check(np.array([x, x * np.array(1000, dtype)], dtype))


@pytest.mark.parametrize("dtype", INTS + UNSIGNED)
def test_printing_extreme_integers(dtype):
    info = np.iinfo(dtype)
    check(np.array([info.min, info.max], dtype))
    check(np.array([info.max], dtype))
    check(np.array(info.min, dtype))
    check(np.array([info.min, 0, 1] * 20, dtype))


def test_printing_bools():
    for values in ([True], [False], [True, False], [True, True] * 30, [False, True] * 30):
        check(np.array(values))
        check(np.array(values).reshape(1, -1))
    check(np.array(True))
    check(np.array(False))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_printing_special_complex_numbers(dtype):
    parts = [0.0, -0.0, 1.0, -2.0, 0.5, -1.25, 1e-5, 1e10, NAN, INF, -INF]
    with np.errstate(all="ignore"):
        for re, im in itertools.product(parts, parts):
            one = np.array(complex(re, im), dtype)
            check(one)
            check(np.array([one]))
            check(np.array([one, 1 + 2j], dtype))
            check(np.array([one, 0.5 - 100j], dtype))
            check(np.array([one, one, -3.5j], dtype), sci_mode=True)
            check(np.array([one, one, -3.5j], dtype), sci_mode=False)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e5, 1e9, 1e20])
@pytest.mark.parametrize("dtype", ["float32", "float64", *COMPLEX])
def test_printing_every_magnitude(dtype, scale):
    for seed, shape in enumerate([(), (7,), (30,), (3, 20), (2, 2, 5)]):
        data = random_array(shape, dtype, seed, scale)
        check(data)
        check(np.round(data))


@pytest.mark.parametrize("dtype", FLOATS)
def test_printing_at_the_ratio_that_switches_the_notation(dtype):
    # If the quotient rounds to 1000, which switches the notation, one unit in the last place decides.
    for low in random_array((60,), dtype, scale=0.05):
        high = abs(low) * np.array(1000, dtype)
        for other in (high, np.nextafter(high, np.array(0, dtype)), np.nextafter(high, np.array(np.inf, dtype))):
            check(np.array([low, other], dtype))


# Layout


def views():
    base = np.arange(120.0, dtype="float32").reshape(4, 5, 6) / 7
    yield base.T
    yield base[::2, ::-1, 1:4]
    yield base[:, 1]
    yield np.broadcast_to(base[0, 0], (3, 6))
    yield np.asfortranarray(base)
    yield np.arange(3000)[::-2]
    yield np.arange(3600.0).reshape(60, 60).T
    yield (np.arange(6) + 1j).astype("complex64").reshape(2, 3).T
    yield base[:0]
    yield base[1, 2, 3]


@pytest.mark.parametrize("data", list(views()))
def test_printing_views(data):
    check(data)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1000,), (1001,), (7, 143), (1, 1001), (1001, 1), (6, 167), (7, 7, 21), (6, 6, 28), (3, 1, 400), (8, 2, 7, 9)],
    ids=str,
)
def test_printing_summaries_of_large_tensors(shape, dtype):
    check(random_array(shape, dtype))


def test_summary_is_formatted_for_the_shown_elements():
    data = np.ones(2000, "float32")
    data[1000] = 1e-20
    check(data)
    data[-1] = 1e-20
    check(data)
    data = np.ones((50, 50))
    data[25, 1] = data[1, 25] = 0.5
    check(data)
    data[0, -1] = 0.5
    check(data)


@pytest.mark.parametrize("edgeitems", [0, 1, 2, 5])
@pytest.mark.parametrize("threshold", [0, 5, 6, 100, INF])
def test_printing_with_edgeitems_and_threshold(threshold, edgeitems):
    for shape in [*SHAPES, (10,), (11,), (2, 5), (1, 1, 10), (3, 4, 5), (4, 4, 4, 4), (11, 11)]:
        for dtype in ("int64", "float32", "float64", "complex64"):
            check(random_array(shape, dtype), threshold=threshold, edgeitems=edgeitems)


@pytest.mark.parametrize("dtype", DTYPES)
def test_printing_every_row_length_and_linewidth(dtype):
    data = random_array((90,), dtype)
    for n in range(1, 90):
        check(data[:n])
    for linewidth in range(120):
        check(data[:23], linewidth=linewidth)
        check(data[:24].reshape(2, 12), linewidth=linewidth)
        check(data[:24].reshape(2, 1, 2, 6), linewidth=linewidth)


def test_nan_does_not_affect_the_printed_width():
    check(np.array([NAN, 0.0] * 40, "float32"))
    check(np.array([NAN, 0.0, 1.0] * 40, "float32"))
    check(np.array([NAN, 0.0, -1.5] * 40, "float32"))
    check(np.array([-INF, 0.0, 1 + 1j] * 40, "complex64"))


@pytest.mark.parametrize("precision", [0, 1, 2, 3, 8, 20])
@pytest.mark.parametrize("sci_mode", [None, True, False])
def test_printing_with_a_precision(precision, sci_mode):
    for dtype in FLOATS + COMPLEX:
        for scale in (1e-4, 1.0, 100.0):
            data = random_array((4, 5), dtype, scale=scale)
            check(data, precision=precision, sci_mode=sci_mode)
            check(np.round(data), precision=precision, sci_mode=sci_mode)


# Suffixes


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_printing_requires_grad_and_grad_fn(dtype):
    for n in range(40):
        for data in (np.arange(n).astype(dtype), (np.arange(n) / 3).astype(dtype), np.ones((2, n), dtype)):
            leaf = theirs(data).requires_grad_()
            made = leaf * 1
            assert mine(data, requires_grad=True) == repr(leaf)
            assert mine(data, requires_grad=True, grad_fn_name="MulBackward0") == repr(made)


def test_printed_suffixes_break_at_every_linewidth():
    data = np.arange(6, dtype="float64").reshape(2, 3)
    for width, edge in itertools.product(range(130), (0, 3)):
        options = {"linewidth": width, "edgeitems": edge}
        with printing.printoptions(**options), torch_printoptions(**options):
            made = theirs(data).requires_grad_().sigmoid().exp()
            assert mine(made.detach().numpy(), grad_fn_name="ExpBackward0") == repr(made)


def test_printing_the_grad_fn_of_a_scalar():
    made = torch.tensor(2.0, requires_grad=True).square()
    assert mine(made.detach().numpy(), grad_fn_name="PowBackward0") == repr(made)


@pytest.mark.parametrize("default", ["float16", "float32", "float64"])
def test_default_dtype_is_not_printed(default):
    complex_default = "complex128" if default == "float64" else "complex64"
    torch.set_default_dtype(getattr(torch, default))
    try:
        for dtype, shape in itertools.product(DTYPES + UNSIGNED, [(), (2,), (0,), (0, 2)]):
            data = np.ones(shape, dtype)
            want = repr(theirs(data))
            assert mine(data, default_float=np.dtype(default), default_complex=np.dtype(complex_default)) == want
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("linewidth", [*range(130)])
def test_printed_device_comes_first(linewidth):
    # Torch prints "..." for the values of a meta tensor: as wide as the "[1]" that 1.4 gives without decimals.
    meta = torch.empty((1,), dtype=torch.float64, device="meta", requires_grad=True)
    options = {"linewidth": linewidth, "edgeitems": 0, "precision": 0}
    with printing.printoptions(**options), torch_printoptions(**options):
        text = mine(np.array([1.4]), device="meta", requires_grad=True)
        assert text.replace("[1]", "...") == repr(meta)


def test_printed_dtype_prefix():
    data = np.array([1, 2], "int32")
    kwargs = {"default_float": np.dtype("float32"), "default_complex": np.dtype("complex64")}
    want = repr(theirs(data)).replace("torch.", "retrograd.")
    assert printing.format_tensor(data, **kwargs) == want
    assert printing.format_tensor(data, dtype_prefix="", **kwargs) == want.replace("retrograd.", "")


# Options


def same_options():
    return printing.get_printoptions() == torch_get_printoptions()


OPTION_CALLS = [
    {},
    {"precision": 2},
    {"threshold": 7},
    {"edgeitems": 1},
    {"linewidth": 50},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "default"},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "SHORT"},
    {"profile": "unknown"},
    {"profile": "short", "precision": 7, "sci_mode": True},
    {"profile": "full", "threshold": 3, "edgeitems": 1, "linewidth": 33},
]


@pytest.mark.parametrize("calls", list(itertools.product(range(len(OPTION_CALLS)), repeat=2)), ids=str)
def test_set_printoptions(calls):
    assert same_options()
    data = random_array((30, 40), "float32")
    for i in calls:
        printing.set_printoptions(**OPTION_CALLS[i])
        torch.set_printoptions(**OPTION_CALLS[i])
        assert same_options()
    assert mine(data) == repr(theirs(data))


def test_set_printoptions_takes_positions():
    printing.set_printoptions(2, 10, 1, 40, "full", True)
    torch.set_printoptions(2, 10, 1, 40, "full", True)
    assert same_options()


def test_printoptions_restores_the_options():
    before = printing.get_printoptions()
    printing.set_printoptions(sci_mode=True, precision=3)
    changed = printing.get_printoptions()
    with pytest.raises(RuntimeError, match="inside"), printing.printoptions(profile="short"):
        assert printing.get_printoptions()["precision"] == 2
        assert printing.get_printoptions()["sci_mode"] is None
        raise RuntimeError("inside")
    assert printing.get_printoptions() == changed
    with pytest.raises(TypeError), printing.printoptions(unknown=1):
        pass
    assert printing.get_printoptions() == changed
    printing.set_printoptions(**before)


def test_get_printoptions_is_a_copy():
    printing.get_printoptions()["precision"] = 9
    assert same_options()


# Random arrays and options


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.one_of(st.integers(0, 40), st.just(INF)),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(1, 130),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    },
)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7))
    if dtype.kind not in "fc":
        return draw(hnp.arrays(dtype, shape))
    width = {2: 16, 4: 32, 8: 64}[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
    part = st.one_of(
        st.floats(width=width),
        st.floats(-100, 100, width=width),
        st.integers(-2000, 2000).map(float),
        st.sampled_from([0.0, -0.0, 1.0, NAN, INF, -INF]),
    )
    elements = part if dtype.kind == "f" else st.builds(complex, part, part)
    return draw(hnp.arrays(dtype, shape, elements=elements))


@settings(max_examples=600, deadline=None)
@given(arrays(), OPTIONS)
def test_printing_random_arrays_with_random_options(data, options):
    check(data, **options)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(FLOATS + COMPLEX),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=40),
    st.floats(-12, 12),
    st.floats(0, 6),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_printing_random_magnitudes(dtype, shape, magnitude, spread, holes, whole, seed):
    rng = np.random.default_rng(seed)
    if math.prod(shape) > 20000:
        shape = shape[:2]

    def part():
        values = rng.standard_normal(shape) * 10.0 ** (magnitude + spread * rng.random(shape))
        if whole:
            values = np.round(values)
        return np.where(rng.random(shape) < holes, rng.choice([NAN, INF, -INF, 0.0, -0.0], shape), values)

    with np.errstate(all="ignore"):
        data = np.asarray(part() if dtype in FLOATS else part() + 1j * part()).astype(dtype)
    check(data)


@settings(max_examples=300, deadline=None)
@given(arrays(), OPTIONS, st.sampled_from(["leaf", "MulBackward0", "CloneBackward0"]))
def test_printing_random_suffixes(data, options, kind):
    if data.dtype.kind not in "fc":
        return
    leaf = theirs(data).requires_grad_()
    made = {"leaf": lambda: leaf, "MulBackward0": lambda: leaf * 1, "CloneBackward0": lambda: leaf.clone()}[kind]()
    values = made.detach().numpy()
    with printing.printoptions(**options), torch_printoptions(**options):
        assert mine(values, requires_grad=True, grad_fn_name=None if kind == "leaf" else kind) == repr(made)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (40,)])
def test_printing_subclasses_shows_their_name(shape):
    class Measured(torch.Tensor):
        pass

    theirs = torch.linspace(0, 1, math.prod(shape)).reshape(shape)
    expected = repr(Measured(theirs))

    class Measured(rg.Tensor):
        pass

    assert repr(Measured(rg.tensor(theirs.numpy()))) == expected
