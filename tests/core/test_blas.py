"""``y = a*x + b*y`` by BLAS and by ufuncs."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import retrograd as rg
from retrograd.core import blas, blocks

LENGTHS = [0, 1, 100, blas._SMALLEST - 1, blas._SMALLEST, blas._SMALLEST + 7, 50_000]


@pytest.fixture(params=["blas", "ufuncs"])
def route(request, monkeypatch):
    """Run the test with the routine of NumPy's BLAS, if there is one, and with ufuncs."""
    if request.param == "ufuncs":
        monkeypatch.setattr(blas, "_kind", lambda char, size: None)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
@pytest.mark.parametrize(("a", "b"), [(0.1, 0.9), (-1e-3, 1), (0, 0.5), (2.0, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("length", LENGTHS)
def test_scale_and_add_computes_its_formula(route, dtype, a, b, length):
    rng = np.random.default_rng(length)
    x, y = rng.standard_normal((2, length)).astype(dtype)
    expected = a * x.astype("longdouble") + b * y.astype("longdouble")
    blas.scale_and_add(y, x, a, b, np.empty_like(x))
    tolerance = 8 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(y.astype("longdouble"), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("a", [1.0, 0.0])
@pytest.mark.parametrize("length", LENGTHS[2:])
def test_scale_and_add_propagates_nan_and_inf(route, a, length):
    x, y = np.ones(length), np.ones(length)
    x[3], y[5] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        blas.scale_and_add(y, x, a, 1.0, np.empty_like(x))
    assert np.isnan(y[3])
    assert y[5] == np.inf
    assert np.isfinite(np.delete(y, [3, 5])).all()


def test_scale_and_add_of_remembered_vectors(route):
    """With each other and with vectors that are not remembered, whole arrays and parts, of several lengths."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((4, 10_000)).astype(np.float32)
    vectors = [whole[0], whole[1, :5000], whole[2, 5000:], whole[3].astype(np.float64)]
    for vector in (*vectors, whole[0, ::2], whole[0, :10]):
        blas.remember(vector)
    vectors += [rng.standard_normal(length).astype(dtype) for length in (5000, 10_000) for dtype in ("f", "d")]
    for y in vectors:
        for x in vectors:
            if x is not y and x.size == y.size:
                expected = 2.0 * x.astype(np.float64) - 0.5 * y
                blas.scale_and_add(y, x, 2.0, -0.5, np.empty_like(y))
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="broadcast"):
        blas.scale_and_add(vectors[0], vectors[1], 1.0, 1.0, np.empty(10_000))


def test_remembered_vectors_are_forgotten_when_freed():
    before = len(blas._known)
    vectors = [np.ones(5000) for _ in range(20)]
    for vector in vectors:
        blas.remember(vector)
        blas.remember(vector)
    del vector
    found = 20 if blas._routine("d") else 0
    assert len(blas._known) == before + found
    del vectors
    assert len(blas._known) == before


def test_read_only_vectors_are_not_remembered(route):
    y = np.ones(10_000)
    y.flags.writeable = False
    blas.remember(y)
    with pytest.raises(ValueError, match="read-only"):
        blas.scale_and_add(y, np.ones(10_000), 1.0, 1.0, np.empty(10_000))


def test_scale_and_add_writes_only_to_its_vector(route):
    whole = np.zeros(40_000, np.float32)
    blas.scale_and_add(whole[10_000:20_000], np.ones(10_000, np.float32), 1.0, 1.0, np.empty(10_000, np.float32))
    assert np.flatnonzero(whole).tolist() == list(range(10_000, 20_000))


@pytest.mark.parametrize("make", [lambda: np.ones(20_000)[::2], lambda: np.broadcast_to(np.ones(1), 10_000)])
def test_scale_and_add_of_strided_vectors(route, make):
    x, y = make(), np.ones(10_000)
    blas.scale_and_add(y, x, 2.0, 3.0, np.empty(10_000))
    assert (y == 5).all()
    y = np.ones(20_000)[::2]
    blas.scale_and_add(y, np.ones(10_000), 2.0, 3.0, np.empty(10_000))
    assert (y == 5).all()


def test_numpy_has_the_blas_routine():
    """On Linux it does; otherwise the tests above would compare ufuncs with themselves."""
    config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if "openblas" not in config or sys.platform == "win32":
        pytest.skip(f"NumPy is built with {config} on {sys.platform}")
    assert blas._routine("f") is not None
    assert blas._routine("d") is not None


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def setting():
    """Set BLAS to 2 threads for a test and return the setting."""
    threads = blas.threads()
    if threads is None:
        pytest.skip("the number of threads of this NumPy's BLAS cannot be set")
    before = threads.get()
    threads.set(2)
    yield threads
    threads.set(before)


def test_on_one_thread_restores_the_setting(setting):
    with blas.on_one_thread():
        assert setting.get() == 1
        with blas.on_one_thread():
            assert setting.get() == 1
        assert setting.get() == 1
    assert setting.get() == 2


def test_on_one_thread_restores_the_setting_after_an_error(setting):
    with pytest.raises(KeyError), blas.on_one_thread():
        raise KeyError
    assert setting.get() == 2


def test_on_one_thread_restores_the_setting_when_the_last_thread_leaves(setting):
    first_left, second_in = threading.Event(), threading.Event()

    def second():
        with blas.on_one_thread():
            second_in.set()
            first_left.wait(10)

    thread = threading.Thread(target=second)
    with blas.on_one_thread():
        thread.start()
        assert second_in.wait(10)
    assert setting.get() == 1
    first_left.set()
    thread.join()
    assert setting.get() == 2


def test_products_in_shared_work_use_one_blas_thread(setting):
    seen = []
    blocks.share_out(lambda: seen.append(setting.get()), [()] * 4, products=True)
    assert seen == [1] * 4 if blocks.get_num_threads() > 1 else seen == [2] * 4
    assert setting.get() == 2


def test_set_num_threads_sets_the_blas_threads(setting, monkeypatch):
    monkeypatch.setattr(blocks, "_threads", blocks.get_num_threads())
    rg.set_num_threads(1)
    assert setting.get() == 1
    with blas.on_one_thread():
        rg.set_num_threads(2)
        assert setting.get() == 1
    assert setting.get() == 2
