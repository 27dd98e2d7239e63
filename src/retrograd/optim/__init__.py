"""Optimizers and learning-rate schedules, as in ``torch.optim``.

>>> model = rg.nn.Linear(3, 1)
>>> optimizer = rg.optim.Adam(model.parameters(), lr=0.01)
>>> scheduler = rg.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
"""

from typing import TYPE_CHECKING

from retrograd._module_aliases import add_paths
from retrograd.core.renamed_functions import own_methods
from retrograd.missing_names import missing
from retrograd.optim import lr_scheduler, swa_utils
from retrograd.optim.adadelta import Adadelta
from retrograd.optim.adafactor import Adafactor
from retrograd.optim.adagrad import Adagrad
from retrograd.optim.adam import Adam, AdamW
from retrograd.optim.adamax import Adamax
from retrograd.optim.asgd import ASGD
from retrograd.optim.lbfgs import LBFGS
from retrograd.optim.muon import Muon
from retrograd.optim.nadam import NAdam
from retrograd.optim.optimizer import Optimizer
from retrograd.optim.radam import RAdam
from retrograd.optim.rmsprop import RMSprop
from retrograd.optim.rprop import Rprop
from retrograd.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

own_methods(globals(), "step")

add_paths(__name__, {"adamw": f"{__name__}.adam"})

if not TYPE_CHECKING:  # for type checkers

    def __getattr__(name):
        raise missing(__name__, name)
