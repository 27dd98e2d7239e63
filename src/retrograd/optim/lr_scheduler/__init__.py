"""Schedules of the learning rate, as in ``torch.optim.lr_scheduler``.

A schedule sets the learning rate when it is made, and again at each ``step()``, which is called after the optimizer's.
"""

from retrograd.core.renamed_functions import own_methods
from retrograd.optim.lr_scheduler._base import LRScheduler
from retrograd.optim.lr_scheduler._combined import ChainedScheduler, SequentialLR
from retrograd.optim.lr_scheduler._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from retrograd.optim.lr_scheduler._cyclic import CyclicLR, OneCycleLR
from retrograd.optim.lr_scheduler._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from retrograd.optim.lr_scheduler._plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # the older name, for schedules that users wrote

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

own_methods(globals(), "__init__")
