"""The watch on PyTorch models.

Importing this package does not import torch; :mod:`~retrograd.anomaly.adapters.torch.monitor` does.
"""
