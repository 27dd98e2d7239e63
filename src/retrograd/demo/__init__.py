"""Real data that is at hand: 1,797 images of handwritten digits, and a script that trains on them."""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np

_FILES = resources.files(__name__)  # which may lie in a zip archive
SCRIPT = _FILES / "train_digits.py"


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images as float32 of shape (1797, 64), scaled to 0..1, and labels as int64 of shape (1797,).

    E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits* (1998), UCI Machine Learning Repository,
    https://doi.org/10.24432/C50P49, CC BY 4.0.

    Examples
    --------
    >>> from retrograd.demo import load_digits
    >>> images, labels = load_digits()
    >>> images.shape, labels[:5].tolist()
    ((1797, 64), [0, 1, 2, 3, 4])
    """
    lines = gzip.decompress((_FILES / "digits.csv.gz").read_bytes()).decode("ascii").splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].copy()
