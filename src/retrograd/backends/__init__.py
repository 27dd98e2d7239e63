"""Switches of the libraries that torch computes with. They can be set, and change nothing."""

from __future__ import annotations

from retrograd.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
