"""The watch on retrograd's own tensors."""

from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor

__all__ = ["RetrogradMonitor"]
