"""Every operation of the table inside vmap: values and gradients equal those of a loop over the samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.tree import flatten, unflatten
from tests.ops.harness import Make, Row, Sample, are_close, as_array, convert
from tests.ops.harness import flatten as flat_results
from tests.ops.table import ROWS

BATCH = 3
DIMS = (0, -1)  # along the last dimension, the elements of a sample are not adjacent in memory

# Operations that cannot be computed for all samples at once, because the shape of the result or the computation
# depends on values, and words from their refusals. Each refuses only if the argument in question is batched.
DEPENDS = "depends on the data"
UNSUPPORTED = {
    "allclose": "a condition differs between the samples",
    "argwhere": DEPENDS,
    "as_strided_scatter": "vmap",  # it writes
    "batch_norm": "vmapped over",  # running statistics
    "equal": "a condition differs between the samples",
    "index_put": DEPENDS,  # the gradient of values put where a mask is true
    "instance_norm": "vmapped over",  # running statistics
    "is_nonzero": "item",
    "masked_select": DEPENDS,
    "narrow": "item",  # of the start
    "nonzero": DEPENDS,
    "one_hot": "item",  # of the largest class
    "segment_reduce": "no memory of its own",  # the lengths
    "tensor_split": "item",
    "unique": DEPENDS,
    "unique_consecutive": DEPENDS,
    "where": DEPENDS,  # of a condition only
}
# These need samples of a certain memory layout; otherwise they are refused as outside vmap.
NEED_A_LAYOUT = ("as_strided", "as_strided_copy", "view", "view_as_complex", "view_as_complex_copy")
UNSUPPORTED.update(dict.fromkeys(NEED_A_LAYOUT, "contiguous"))
# Without samples, the result's shape is found with ones and zeros, which these refuse or would count.
NEED_VALUES = ("linalg.ldl_solve", "bincount", "repeat_interleave")

# The variant of some samples is outside the operation's domain: offsets and lengths in another order.
VARIANTS_MAY_FAIL = ("embedding_bag", "segment_reduce")

# Their results are not unique; they are normalised by NumPy code, which needs arrays and so runs outside vmap.
COMPARED_OUTSIDE = ("linalg.eig", "linalg.eigvals")

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


@dataclass
class Case:
    """A sample of a row as a function of its arrays, and which of these to differentiate and to batch."""

    function: Callable[..., list[rg.Tensor]]
    arrays: list[np.ndarray]
    differentiable: list[bool]
    batched: list[bool]

    def samples(self) -> list[list[np.ndarray]]:
        """Return the arrays of each sample of the batch."""
        return [
            [_variant(array, k) if wanted else array for array, wanted in zip(self.arrays, self.batched, strict=True)]
            for k in range(BATCH)
        ]

    def in_dims(self, dim: int) -> tuple[int | None, ...]:
        return tuple(dim if wanted else None for wanted in self.batched)

    def columns(self, dim: int) -> list[rg.Tensor]:
        """Return the arguments of the mapped function, with the samples along ``dim``."""
        return [
            rg.from_numpy(np.stack(column, dim) if wanted else column[0].copy())
            for column, wanted in zip(zip(*self.samples(), strict=True), self.batched, strict=True)
        ]


def _variant(array: np.ndarray, k: int) -> np.ndarray:
    """Return another array in the same domain: slightly larger numbers, or indices and masks in another order."""
    if array.dtype.kind in "fc":
        with np.errstate(invalid="ignore"):  # some rows have infinities
            return np.asarray(array * (1 + 0.01 * k), array.dtype)
    return np.flip(array).copy() if k == 1 and array.ndim else array


def cases(row: Row, sample: Sample) -> Iterator[Case]:
    leaves, structure = flatten((tuple(sample.args), dict(sample.kwargs)))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def function(*tensors: rg.Tensor) -> list[rg.Tensor]:
        filled = [convert(leaf, rg.from_numpy, rg) for leaf in leaves]
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = unflatten(structure, filled)
        results = flat_results(row.function(*args, **kwargs))
        if row.post is not None and row.name not in COMPARED_OUTSIDE:
            results = row.post(results)
        return [result for result in results if isinstance(result, rg.Tensor)]

    arrays = [leaves[place] for place in places]
    keys = (tuple(range(len(sample.args))), {key: key for key in sample.kwargs})
    wanted = [
        row.grad_args is None or key in row.grad_args
        for argument, key in zip((*sample.args, *sample.kwargs.values()), flatten(keys)[0], strict=True)
        for _ in flatten(argument)[0]
    ]
    differentiable = [wanted[place] and array.dtype.kind in "fc" for place, array in zip(places, arrays, strict=True)]
    floats = [array.dtype.kind in "fc" for array in arrays]
    first = [k == 0 for k in range(len(arrays))]
    choices = [[True] * len(arrays), floats, first, [not is_first for is_first in first]]
    seen: list[list[bool]] = []
    for batched in choices:
        if any(batched) and batched not in seen:
            seen.append(batched)
            yield Case(function, arrays, differentiable, batched)


def with_gradients(case: Case) -> Callable[..., list[rg.Tensor]]:
    """Return a function that gives the results of a case and the gradients of its arguments, for one sample."""

    def both(*tensors: rg.Tensor) -> list[rg.Tensor]:
        inputs = [
            x.detach().requires_grad_() if wanted else x for x, wanted in zip(tensors, case.differentiable, strict=True)
        ]
        leaves = [x for x in inputs if x.requires_grad]
        results = case.function(*inputs)
        outputs = [result for result in results if result.requires_grad]
        found: Any = ()
        if outputs and leaves:
            vectors = [result.detach() * 0.5 + 1 for result in outputs]
            found = rg.autograd.grad(outputs, leaves, vectors, allow_unused=True, materialize_grads=True)
        return [*(result.detach() for result in results), *found]

    return both


def dtype_of(row: Row) -> str:
    return next((name for name in ("float64", "complex128") if name in row.dtypes), row.dtypes[0])


def compare(row: Row, case: Case, function: Callable[..., list[rg.Tensor]]) -> None:
    try:
        expected = [function(*[rg.from_numpy(array.copy()) for array in arrays]) for arrays in case.samples()]
    except RuntimeError:
        if row.name in VARIANTS_MAY_FAIL:
            return
        raise
    check_without_samples(row, case, function, expected[0])
    for dim in DIMS:
        try:
            got = rg.vmap(function, in_dims=case.in_dims(dim))(*case.columns(dim))
        except RuntimeError as error:
            assert row.name in UNSUPPORTED, f"{row.name} fails, but UNSUPPORTED does not list it: {error}"
            assert UNSUPPORTED[row.name] in str(error)
            assert "vmap" in str(error) or row.name in NEED_A_LAYOUT
            continue
        for k, each in enumerate(expected):
            ours = [result[k] for result in got]
            if row.name in COMPARED_OUTSIDE:
                ours, each = row.post(ours), row.post(each)  # type: ignore[misc]
            for a, b in zip(ours, each, strict=True):
                assert a.dtype == b.dtype
                single = a.dtype in (rg.float32, rg.complex64)  # sums depend on the order in memory
                tolerance = (1e-6 if single else 1e-8) * row.tolerance
                if not are_close(as_array(a), as_array(b), tolerance):
                    np.testing.assert_allclose(as_array(a), as_array(b), tolerance, tolerance, err_msg=row.name)


def check_without_samples(row: Row, case: Case, function: Callable[..., list[rg.Tensor]], one: list[rg.Tensor]) -> None:
    """Check that a batch of no samples has the shapes and dtypes of ``one``, the result for one sample."""
    columns = [x[:0] if wanted else x for x, wanted in zip(case.columns(0), case.batched, strict=True)]
    try:
        got = rg.vmap(function, in_dims=case.in_dims(0))(*columns)
    except RuntimeError as error:
        assert row.name in (*UNSUPPORTED, *NEED_VALUES), str(error)
        return
    for a, b in zip(got, one, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, (0, *b.shape))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_vmap_of_every_operation(row: Row) -> None:
    for sample in row.samples(Make(dtype_of(row))):
        for case in cases(row, sample):
            compare(row, case, case.function)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name) for row in ROWS if row.gradients and row.name not in COMPARED_OUTSIDE]
)
def test_vmap_of_gradients_of_every_operation(row: Row) -> None:
    for sample in row.samples(Make(dtype_of(row))):
        for case in cases(row, sample):
            compare(row, case, with_gradients(case))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operations_are_still_refused(name: str) -> None:
    """Each is refused for some sample; if this fails, remove the entry from the list."""
    refused = 0
    for row in (row for row in ROWS if row.name == name):
        for case in (case for sample in row.samples(Make(dtype_of(row))) for case in cases(row, sample)):
            for function, dim in itertools.product((case.function, with_gradients(case)), DIMS):
                try:
                    rg.vmap(function, in_dims=case.in_dims(dim))(*case.columns(dim))
                except RuntimeError:
                    refused += 1
    assert refused


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name)
        for row in ROWS
        if row.gradients and "float64" in row.dtypes and row.name not in COMPARED_OUTSIDE
    ],
)
def test_vectorized_jacobian_of_every_operation(row: Row) -> None:
    """One batched backward gives the same Jacobian as one backward for each row."""
    for sample in row.samples(Make("float64")):
        case = next(cases(row, sample), None)
        if case is None or sum(array.size for array in case.arrays) > 60:
            continue
        tensors = [rg.from_numpy(array.copy()) for array in case.arrays]
        places = [k for k, wanted in enumerate(case.differentiable) if wanted]

        def function(*inputs: rg.Tensor, tensors: Any = tensors, places: Any = places, case: Case = case) -> Any:
            filled = list(tensors)
            for place, x in zip(places, inputs, strict=True):
                filled[place] = x
            return tuple(result for result in case.function(*filled) if result.dtype.is_floating_point)

        inputs = tuple(tensors[place] for place in places)
        expected = rg.autograd.functional.jacobian(function, inputs)
        got = rg.autograd.functional.jacobian(function, inputs, vectorize=True)
        for ours, theirs in zip(flatten(got)[0], flatten(expected)[0], strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(
                as_array(ours), as_array(theirs), rtol=1e-9 * row.tolerance, atol=1e-9 * row.tolerance
            )
