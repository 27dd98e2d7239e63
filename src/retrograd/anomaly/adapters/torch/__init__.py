"""The watch on PyTorch models.

Importing this package does not import torch; :mod:`~retrograd.anomaly.adapters.torch.monitor` does.
"""

from retrograd.anomaly.adapters.torch.importing import WhenImported, attach_on_import

__all__ = ["WhenImported", "attach_on_import"]
