"""The arrays used in the calls."""

from __future__ import annotations

import numpy as np

_rng = np.random.default_rng(0)

X = _rng.permutation(24).reshape(2, 3, 4) * 0.37 - 3.1  # no ties, no zeros
M = _rng.permutation(12).reshape(3, 4) * 0.41 - 2.17
V = np.array([0.5, -1.2, 3.1, 2.2, -2.7])
W = np.array([0.13, 2.1, 0.7, 1.3, 0.95])
UNIT = np.array([[0.15, -0.5, 0.85], [0.35, 0.65, -0.25]])
POSITIVE = np.array([[0.3, 1.7, 0.8], [2.9, 1.2, 0.45]])
SCALAR = np.array(1.7)
SQUARE = _rng.normal(size=(3, 3)) + 3 * np.eye(3)
SQUARES = _rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
SYMMETRIC = SQUARE + SQUARE.T
SPD = SQUARE @ SQUARE.T
TALL = _rng.normal(size=(4, 3))
Z = _rng.normal(size=(2, 3)) + 1j * _rng.normal(size=(2, 3))
ZSQUARE = _rng.normal(size=(3, 3)) + 1j * _rng.normal(size=(3, 3))
HOLES = X.copy()
HOLES[0, 1, 2] = HOLES[0, 0, 0] = HOLES[1, 2, 0] = HOLES[1, 0, 3] = np.nan
MASK = M > -0.9
ROW = MASK[0]
N = np.array([[3, 1, 2], [5, 7, 4]])
K = np.array([[2, 6, 4], [1, 3, 8]])
B = np.array([[True, False, True], [False, False, True]])
UP = np.array([-3.0, -1.0, 0.4, 1.5, 4.2])
