"""Switches of the libraries that torch computes with. They can be set, and change nothing."""

from __future__ import annotations

from types import SimpleNamespace

from retrograd.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


def _unused() -> SimpleNamespace:
    return SimpleNamespace(enabled=False, is_available=lambda: False)


mkl, mkldnn, openmp, opt_einsum = _unused(), _unused(), _unused(), _unused()
