"""Statistical tests of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def follows(samples: Any, distribution: Any) -> bool:
    """Whether samples pass a Kolmogorov-Smirnov test that one in ten thousand true ones would fail."""
    return stats.kstest(np.asarray(samples, dtype=np.float64).ravel(), distribution.cdf).pvalue > 1e-4


def counts_follow(samples: Any, probabilities: Any) -> bool:
    """Whether integers 0, 1, ... appear as often as they should, by a chi-squared test."""
    observed = np.bincount(np.asarray(samples, dtype=np.int64).ravel(), minlength=len(probabilities))
    assert observed[np.asarray(probabilities) == 0].sum() == 0
    likely = np.asarray(probabilities) > 0
    expected = np.asarray(probabilities)[likely] / np.sum(probabilities) * observed.sum()
    return stats.chisquare(observed[likely], expected).pvalue > 1e-4
