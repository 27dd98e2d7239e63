"""Calls of reductions, cumulative sums, differences and sorting."""

from __future__ import annotations

import numpy as np

from tests.numpy_calls.arrays import HOLES, MASK, SCALAR, TALL, UP, B, K, M, N, V, W, X, Z
from tests.numpy_calls.call import Fixed, constant, differentiable, undetached

# --- reductions -------------------------------------------------------------------------------------------------------

for _more in ({}, {"axis": 1}, {"axis": (0, -1), "keepdims": True}):
    differentiable("sum prod mean max min amax amin ptp std var median", X, **_more)
    differentiable("nansum nanprod nanmean nanmax nanmin nanstd nanvar nanmedian", HOLES, **_more)
    differentiable("quantile percentile", X, 0.4, **_more)
    differentiable("nanquantile nanpercentile", HOLES, Fixed(np.array([0.2, 0.9])), **_more)
    differentiable("quantile percentile nanquantile nanpercentile", X, np.array([0.3, 0.45]), **_more)
    constant("all any count_nonzero", X > -2, **_more)
differentiable("sum prod mean", M, axis=0, where=MASK)
differentiable("sum prod", Z, axis=0)
differentiable("mean std var", Z, axis=1)
differentiable("std var", M, axis=0, ddof=1)
differentiable("average", X)
differentiable("average", M, axis=0, weights=W[:3])
differentiable("average", V, weights=W, returned=True)
differentiable("cov corrcoef", M)
differentiable("cov corrcoef", V, W)
differentiable("cov", M, rowvar=False, bias=True)
constant("argmax argmin", X)
constant("argmax argmin", X, axis=1, keepdims=True)
constant("nanargmax nanargmin", HOLES, axis=0)
constant("count_nonzero", M)
constant("sum prod max min ptp", N, axis=0)
constant("any all", M)

# --- running sums, differences, interpolation, sorting ----------------------------------------------------------------

differentiable("cumsum cumprod cumulative_sum cumulative_prod", V)
differentiable("cumsum cumprod cumulative_sum cumulative_prod", X, axis=1)
differentiable("nancumsum nancumprod", HOLES, axis=-1)
differentiable("cumulative_sum", X, axis=0, include_initial=True)
differentiable("diff", X)
differentiable("diff", M, 2, 0, prepend=M[:1].copy())
differentiable("diff", V, append=SCALAR)
differentiable("ediff1d", M)
differentiable("ediff1d", V, W[:2], SCALAR)
differentiable("trapezoid", X, axis=1)
differentiable("trapezoid", V, UP)
differentiable("trapezoid", V, dx=0.3)
differentiable("gradient", X)
differentiable("gradient", V, UP, edge_order=2)
differentiable("gradient", M, 0.5, axis=1)
differentiable("interp", np.array([-5.0, 0.2, 3.0, 9.0]), UP, V)
differentiable("interp", SCALAR, UP, V)
differentiable("interp", np.array([-5.0, 0.2, 9.0]), UP, V, left=-1.0, right=7.0)
differentiable("interp", np.array([-5.0, 0.2, 9.0]), UP, V, via=lambda f, x, *a: f(x, *a, right=x[0] * 2))
differentiable("sort", X)
differentiable("sort", X, None)
differentiable("partition", X, 1, axis=0)
differentiable("sort_complex", V)
constant("argsort", X, axis=0)
constant("argpartition", V, 2)
constant("searchsorted", UP, V, side="right")
constant("digitize", V, UP)
constant("packbits", B, axis=1)
constant("unpackbits", N[:1].astype(np.uint8))
constant("lexsort", (N[0], K[0]))
constant("isin in1d", N, K)
constant("bincount", N[0])
differentiable("bincount", Fixed(N[0]), W[:3])
undetached("unique unique_values", V)
undetached("unique_all unique_counts unique_inverse", M)
undetached("union1d setdiff1d setxor1d intersect1d", V, UP)
undetached("histogram histogram_bin_edges", V, 3)
undetached("histogram", V, bins=UP, weights=W)
undetached("histogram2d", V, W, 2)
undetached("histogramdd", TALL, 2)
constant("unique", N)
constant("union1d intersect1d", N, K)
