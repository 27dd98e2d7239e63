"""Every operation on the inputs of PyTorch's own test suite: values and derivatives agree with torch.

PyTorch ships a table of its operations with functions that make inputs for each: shapes, strides, options, empty and
0-dimensional tensors, extreme values, and inputs of former bugs. They are independent of this project's choices.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import retrograd as rg

torch.set_num_threads(1)

# importing these freezes global flags that other tests here set
with warnings.catch_warnings(), mock.patch("torch.backends.disable_global_flags"):
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

# dtype: how many samples of an operation are used, and how many derivatives
DTYPES = {torch.float64: (16, 2), torch.complex128: (8, 2), torch.int64: (8, 0), torch.bool: (8, 0)}
TOLERANCE = {torch.float64: 1e-7, torch.complex128: 1e-7, torch.float32: 1e-4, torch.complex64: 1e-4}
MATCHING = {
    getattr(torch, name): getattr(rg, name)
    for name in "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()  # noqa: SIM905
}

_RANDOM = """
    bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial
    new_empty new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.multi_head_attention_forward nn.functional.rrelu normal
    pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank uniform
"""
NOT_COMPARED = {
    **dict.fromkeys(_RANDOM.split(), "draws random numbers"),
    **dict.fromkeys(
        ("linalg.eig", "linalg.eigh", "linalg.svd", "svd"),
        "vectors are determined up to a factor, which the libraries choose differently",
    ),
    **dict.fromkeys(
        ("as_strided", "as_strided_scatter"), "reads the storage behind a view, which a copied sample does not have"
    ),
    **dict.fromkeys(("cholesky_inverse", "cholesky_solve"), "torch gives a gradient to the triangle that is not read"),
    **dict.fromkeys(
        ("special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1"),
        "torch's values are off by 1e-7; SciPy's are compared with in test_special.py",
    ),
    "broadcast_shapes": "takes no tensors",
    "sparse.mm": "takes SciPy's matrices; compared in test_sparse.py",
    "bfloat16": "NumPy has no such dtype",
    "histogramdd": "the edges of the bins are in no order",
    "nn.functional.batch_norm-without_cudnn": "every sample is empty",
    "nn.functional.linear_cross_entropy-chunked": "every sample holds options of torch's own class",
    "nn.functional.linear_cross_entropy-chunked_none": "every sample holds options of torch's own class",
    "nn.functional.triplet_margin_with_distance_loss": "every sample holds a function of torch",
    "zero_": "torch's entry is a function of its own that clones first",
}
# Known differences in some samples: where they are, and why they stay.
DIFFERENCES = {
    **dict.fromkeys(("kthvalue", "topk", "mode", "sort"), ("out[1]", "equal values: any of their indices")),
    "argsort": ("out", "equal values: any of their indices"),
    **dict.fromkeys(
        ("cholesky", "linalg.cholesky", "linalg.cholesky_ex"),
        (
            ("gradient", "second gradient"),
            "here that of a Hermitian matrix is Hermitian; torch's differs by an antihermitian part",
        ),
    ),
    "linalg.householder_product": ("out: which", "of no reflectors the product is a constant here"),
    "istft": ("gradient", "torch gives none to a complex window"),
    "linalg.norm-subgradients_at_zero": ("second gradient", "torch has NaN, here it is the subgradient 0"),
}
# Compared only for these dtypes: torch computes with the others, but here they are an error.
ONLY = {
    **dict.fromkeys(
        ("addmv", "addbmm", "baddbmm"),
        ((torch.float64, torch.complex128, torch.bool), "torch cuts off the fractions of factors of integers"),
    ),
    "__rpow__": ((torch.float64, torch.complex128), "torch takes integers to negative powers as 0"),
    "sum_to_size": ((torch.float64, torch.complex128), "torch adds up a single boolean to an int64"),
}
# Operations whose entry is not the public function but takes its arguments in another way.
CALLS: dict[str, Callable[..., Any]] = {
    "einsum": lambda tensors, equation: rg.einsum(equation, tensors),
    "where": lambda input, condition, other: rg.where(condition, input, other),
    "nn.functional.embedding": lambda weight, input, **options: rg.nn.functional.embedding(input, weight, **options),
    "nn.functional.embedding_bag": lambda weight, input, **options: rg.nn.functional.embedding_bag(
        input, weight, **options
    ),
    "linalg.pinv-singular": lambda a, b: rg.linalg.pinv(a @ b.mT),
    "linalg.lstsq-grad_oriented": lambda *arguments, **options: tuple(rg.linalg.lstsq(*arguments, **options)[:2]),
    **{name: operator.attrgetter(name) for name in ("T", "H", "mT", "mH")},
    "polygamma": lambda input, n: rg.polygamma(n, input),
    "special.polygamma": lambda input, n: rg.special.polygamma(n, input),
}


class NotHere(Exception):  # noqa: N818  # not an error, but a reason to skip a sample
    """Raised if a sample contains something that this library does not have."""


def ours(value: Any) -> Any:
    """Convert an argument of a sample to this library."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.dtype not in MATCHING:
            raise NotHere(f"{value.layout} {value.dtype}")
        array = np.array(value.detach().resolve_conj().resolve_neg().numpy())
        return rg.from_numpy(array).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        if value not in MATCHING:
            raise NotHere(value)
        return MATCHING[value]
    if isinstance(value, torch.memory_format):
        name = str(value).removeprefix("torch.")
        if not hasattr(rg, name):
            raise NotHere(name)
        return getattr(rg, name)
    if isinstance(value, torch.device):
        return rg.device(str(value))
    if isinstance(value, dict) and value.get("dropout_p"):
        raise NotHere("random numbers")
    if isinstance(value, (torch.Generator, torch.layout)) or callable(value):
        raise NotHere(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(ours, value))
    if isinstance(value, dict):
        return {key: ours(each) for key, each in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors of either library in nested lists, tuples and dictionaries."""
    if isinstance(value, (torch.Tensor, rg.Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def differing(expected: Any, got: Any, what: str) -> Iterator[str]:
    """Yield the differences between torch's result and ours."""
    if isinstance(expected, torch.Tensor):
        if not isinstance(got, rg.Tensor):
            yield f"{what}: a {type(got).__name__} for a tensor"
        elif MATCHING.get(expected.dtype) != got.dtype or tuple(expected.shape) != tuple(got.shape):
            yield f"{what}: {expected.dtype} {tuple(expected.shape)} is {got.dtype} {tuple(got.shape)} here"
        else:
            theirs = expected.detach().resolve_conj().resolve_neg().numpy(force=True)
            mine = got.detach().resolve_conj().numpy()
            tolerance = TOLERANCE.get(expected.dtype, 0)
            if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True):
                yield f"{what}: {theirs.ravel()[:4]}... is {mine.ravel()[:4]}... here"
    elif isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            yield f"{what}: {expected} is {got} here"
        else:
            for place, (one, other) in enumerate(zip(expected, got, strict=True)):
                yield from differing(one, other, f"{what}[{place}]")
    elif isinstance(expected, (torch.dtype, torch.device)):
        if str(expected).split(".")[-1] != str(got).split(".")[-1]:
            yield f"{what}: {expected} is {got} here"
    elif expected != got and not (expected != expected and got != got):
        yield f"{what}: {expected} is {got} here"


def gradients(library: Any, outputs: list[Any], inputs: list[Any], given: list[Any], again: bool) -> list[Any]:
    """Return the gradients with respect to the inputs, zeros for inputs that do not matter."""
    found = library.autograd.grad(outputs, inputs, given, create_graph=again, allow_unused=True)
    return [library.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def check(entry: Any, call: Callable[..., Any], sample: Any, derivatives: int) -> Iterator[str]:
    """Run a sample in both libraries with the given number of derivatives and yield the differences."""
    arguments, options = (sample.input, *sample.args), sample.kwargs
    if entry.name == "nn.functional.batch_norm" and sample.input.ndim == 1:
        raise NotHere("an empty vector, which torch takes for a batch without channels")
    mine, my_options = ours(arguments), ours(options)
    try:
        expected = entry.op(*arguments, **options)
    except Exception:
        with pytest.raises(Exception):  # noqa: B017  # an error in both; messages are compared elsewhere
            call(*mine, **my_options)
        return
    got = call(*mine, **my_options)
    yield from differing(expected, got, "out")
    inputs = [x for x in tensors_in([*arguments, options]) if x.requires_grad]
    my_inputs = [x for x in tensors_in([*mine, my_options]) if x.requires_grad]
    outputs, my_outputs = list(tensors_in(expected)), list(tensors_in(got))
    if [x.requires_grad for x in outputs if x.numel()] != [y.requires_grad for y in my_outputs if y.numel()]:
        yield "out: which require a gradient"
    generator = torch.Generator().manual_seed(0)
    for order in range(1, derivatives + 1):
        # empty tensors and gradients that are all zero may be constants in one of the libraries
        pairs = [(x, y) for x, y in zip(outputs, my_outputs, strict=True) if x.requires_grad and y.requires_grad]
        if not pairs:
            return
        given = [torch.randn(x.shape, dtype=x.dtype, generator=generator) for x, _ in pairs]
        again = order < derivatives
        try:
            outputs = gradients(torch, [x for x, _ in pairs], inputs, given, again)
        except (RuntimeError, NotImplementedError):  # strange layout, or not implemented
            return
        my_outputs = gradients(rg, [y for _, y in pairs], my_inputs, ours(given), again)
        yield from differing(outputs, my_outputs, "gradient" if order == 1 else "second gradient")


def name_of(entry: Any) -> str:
    return entry.name + (f"-{entry.variant_test_name}" if entry.variant_test_name else "")


def listed(table: dict[str, Any], entry: Any) -> Any:
    """Look up an entry in one of the tables above, by its name with or without the variant."""
    return table.get(name_of(entry), table.get(entry.name))


def call_of(entry: Any) -> Callable[..., Any] | None:
    """Return our function for an entry, else our method, else None."""
    call: Any = listed(CALLS, entry)
    if call is None:
        call = rg
        for part in entry.name.split("."):
            call = getattr(call, part, None)
        if not callable(call):
            call = getattr(rg.Tensor, entry.name, None)
    return call  # type: ignore[no-any-return]


def derivatives_of(entry: Any, dtype: torch.dtype, most: int) -> int:
    if not entry.supports_autograd or dtype not in entry.supported_backward_dtypes("cpu"):
        return 0
    return min(most, 2 if entry.supports_gradgrad else 1)


@pytest.mark.filterwarnings("ignore")  # warnings of samples are not compared
@pytest.mark.parametrize(
    "entry",
    [entry for entry in op_db if call_of(entry) is not None and listed(NOT_COMPARED, entry) is None],
    ids=name_of,
)
def test_samples_of_torchs_test_suite_agree_with_torch(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # it would search the stack, with its source code, for one of torch's own tests
    for module in (common_utils, core):
        monkeypatch.setattr(module, "extract_test_fn", lambda: None)
    call = call_of(entry)
    assert call is not None
    ignored, _ = listed(DIFFERENCES, entry) or ("nothing", "")
    only, _ = listed(ONLY, entry) or (DTYPES, "")
    compared, wrong = 0, []
    for dtype, (most, derivatives) in DTYPES.items():
        if dtype not in only or dtype not in entry.supported_dtypes("cpu"):
            continue
        orders = derivatives_of(entry, dtype, derivatives)
        for sample in itertools.islice(entry.sample_inputs("cpu", dtype, orders > 0), most):
            try:
                found = list(check(entry, call, sample, orders))
            except NotHere:
                continue
            compared += 1
            wrong += [f"{dtype} {sample}: {each}" for each in found if not each.startswith(ignored)]
    assert wrong == []
    assert compared > 0
