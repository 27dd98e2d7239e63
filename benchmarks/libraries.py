"""The libraries compared, and what a workload is; `workloads.py` holds the workloads themselves.

A builder takes the imported library and the inputs (NumPy arrays, the same for every library) and returns a step: a
function without arguments that runs forward and backward once and returns its gradients. Everything that is not part of
a step, such as turning inputs into tensors, belongs in the builder.

To compare one more library, or a variant of one, append a `Library` to `LIBRARIES` and give the workloads that it takes
part in a builder of that name.
"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Inputs = dict[str, np.ndarray]
Step = Callable[[], Sequence[Any]]
Builder = Callable[[Any, Inputs], Step]

SUBJECT = "retrograd"


@dataclass(frozen=True)
class Library:
    name: str
    module: str
    prepare: Callable[[Any, int], None] = lambda module, threads: None

    def can_be_had(self) -> bool:
        """Whether a library is installed; raises if the library under test is not."""
        return self.name == SUBJECT or importlib.util.find_spec(self.module) is not None

    def load(self, threads: int) -> Any:
        module = importlib.import_module(self.module)
        self.prepare(module, threads)
        return module


@dataclass(frozen=True)
class Workload:
    name: str
    what: str
    threads: int
    make_inputs: Callable[[bool], Inputs]  # True: the same with tiny arrays, to warm up on
    builders: dict[str, Builder]
    targets: dict[str, float] = field(default_factory=dict)  # rival: the largest ratio aimed at


def _limit_threads(module, threads):
    module.set_num_threads(threads)


def _unguard_memory(module, threads):
    # MyGrad locks the arrays of a graph against writing unless told not to; its manual advises this for speed.
    module.turn_memory_guarding_off()


LIBRARIES = [
    Library(SUBJECT, "retrograd", _limit_threads),
    Library("torch", "torch", _limit_threads),
    Library("autograd", "autograd", lambda module, threads: importlib.import_module("autograd.numpy")),
    Library("mygrad", "mygrad", _unguard_memory),
    Library("numpy", "numpy"),
]


def from_forward(forward, by_hand: Builder) -> dict[str, Builder]:
    """Builders for `forward(ops, x, c) -> scalar`, a function that every library but NumPy can run as it stands."""

    def like_torch(t, given):
        x, c = t.tensor(given["x"], requires_grad=True), t.tensor(given["c"])

        def step():
            x.grad = None
            forward(t, x, c).backward()
            return [x.grad]

        return step

    def autograd(ag, given):
        x, c = given["x"], given["c"]
        gradient = ag.grad(lambda x: forward(ag.numpy, x, c))
        return lambda: [gradient(x)]

    def mygrad(mg, given):
        x, c = mg.tensor(given["x"], constant=False), given["c"]

        def step():
            x.null_grad()
            forward(mg, x, c).backward()
            return [x.grad]

        return step

    return {SUBJECT: like_torch, "torch": like_torch, "autograd": autograd, "mygrad": mygrad, "numpy": by_hand}
