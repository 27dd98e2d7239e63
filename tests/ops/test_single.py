"""float32 functions on processors for which NumPy has no vector instructions, computed in another way."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.ops import _single
from retrograd.ops._single import expm1_to_zero, log1p_to_one

RANDOM = np.random.default_rng(0)
TO_ONE = np.concatenate([RANDOM.random(1 << 16), 10.0 ** RANDOM.uniform(-45, 0, 1 << 16), [0.0, 1.0, np.nan]])
TO_ZERO = -np.concatenate([RANDOM.random(1 << 16) * 120, 10.0 ** RANDOM.uniform(-37, 0, 1 << 16), [0, np.inf, np.nan]])
LENGTH = _single._MANY


@pytest.fixture(autouse=True)
def has_no_vectors(monkeypatch):
    monkeypatch.setattr(_single, "_has_vectors", lambda name: False)


def units_in_last_place(found, exact):
    """Return the distance of ``found`` from the float64 ``exact`` in float32 spacings; NaN must agree."""
    assert found.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return np.nanmax(np.abs(found - exact) / spacing)


def test_log1p_is_accurate_from_0_to_1():
    x = TO_ONE.astype(np.float32)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = log1p_to_one(x)
    assert units_in_last_place(found, np.log1p(x.astype(np.float64))) < 4


def test_expm1_is_accurate_up_to_0():
    x = TO_ZERO.astype(np.float32)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = expm1_to_zero(x)
    assert units_in_last_place(found, np.expm1(x.astype(np.float64))) < 4


@given(st.integers(0, 3 * LENGTH))
def test_small_arrays_and_other_dtypes_use_numpys_function(length):
    for dtype in (np.float16, np.float32, np.float64):
        x = np.linspace(0, 1, length).astype(dtype)
        for found, exact in ((log1p_to_one(x), np.log1p(x)), (expm1_to_zero(-x), np.expm1(-x))):
            assert found.dtype == exact.dtype
            assert found.shape == exact.shape
            if length < LENGTH or dtype != np.float32:
                np.testing.assert_array_equal(found, exact)
            else:
                np.testing.assert_allclose(found, exact, rtol=4e-7)


@pytest.mark.parametrize("name", ["softplus", "logsigmoid", "mish", "elu", "selu", "celu"])
def test_activations_without_vector_instructions_agree_with_torch(name):
    x = np.concatenate([RANDOM.normal(size=2 * LENGTH) * 5, [-np.inf, -120, -0.0, 0, 30, 120]]).astype(np.float32)
    ours, theirs = rg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    result, expected = getattr(rg.nn.functional, name)(ours), getattr(torch.nn.functional, name)(theirs)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=2e-6, atol=1e-30)
    result[:-6].sum().backward()
    expected[:-6].sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_binary_cross_entropy_without_vector_instructions_agrees_with_torch():
    x = (RANDOM.normal(size=2 * LENGTH) * 5).astype(np.float32)
    y = RANDOM.random(2 * LENGTH).astype(np.float32)
    options = {"reduction": "none"}
    found = rg.nn.functional.binary_cross_entropy_with_logits(rg.tensor(x), rg.tensor(y), **options)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor(x), torch.tensor(y), **options)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6, atol=1e-6)


def test_vector_instructions_are_detected_through_numpy(monkeypatch):
    monkeypatch.undo()
    introspect = pytest.importorskip("numpy.lib.introspect", reason="NumPy 2.0 does not report this")
    for target, has_vectors in (("baseline(X86_V2)", False), ("AVX512_SKX", True), ("X86_V4", True)):
        found = {"log1p": {"ff": {"current": target}}}
        monkeypatch.setattr(introspect, "opt_func_info", lambda func_name, found=found: found)
        assert _single._has_vectors.__wrapped__("log1p") is has_vectors
