"""The softmax over very many classes, of which few are frequent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules.container import ModuleList, Sequential
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module
from retrograd.ops.indexing import index_put
from retrograd.ops.joining import cat

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log probabilities of the targets, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log softmax over clusters of classes, and the loss of targets (Grave et al., 2017).

    The head tells frequent classes from each other and from the clusters of the others. Only the clusters that contain
    a target are computed, and from fewer features the rarer their classes are.

    Parameters
    ----------
    in_features
        The number of features.
    n_classes
        The number of classes, the most frequent ones first.
    cutoffs
        Where the clusters begin.
    div_value
        How many times fewer features each cluster has than the one before.
    head_bias
        Whether the head has a bias.

    Raises
    ------
    ValueError
        If ``cutoffs`` are not ascending integers between 1 and ``n_classes - 1``.

    Examples
    --------
    >>> criterion = rg.nn.AdaptiveLogSoftmaxWithLoss(64, 1000, cutoffs=[10, 100])
    >>> output, loss = criterion(rg.randn(3, 64), rg.tensor([5, 42, 999]))
    >>> output.shape
    retrograd.Size([3])
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        ascending = given == sorted(set(given)) and all(int(cutoff) == cutoff for cutoff in given)
        if not ascending or given[0] <= 0 or given[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1, but got {given} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = given[0]
        self.n_clusters = len(given)
        self.head_size = self.shortlist_size + self.n_clusters
        factory = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (number + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **factory),
                    Linear(hidden, high - low, bias=False, **factory),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.head, *itertools.chain.from_iterable(self.tail)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probability of every target, and the loss.

        Shapes: ``(N, in_features), (N,) -> (N,), ()`` or ``(in_features,), () -> (), ()``.

        Raises
        ------
        RuntimeError
            If shapes do not fit, or if a target is not a class.
        """
        self._check(input_, target_)
        batched = target_.ndim == 1
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        head = F.log_softmax(self.head(input), dim=1)
        column = target.clone()  # index in the head: the class itself, or its cluster
        output = input.new_zeros(target.shape)
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel():
                column[rows] = self.shortlist_size + number
                within = F.log_softmax(self.tail[number](input[rows]), dim=1)
                picked = within.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
                output = index_put(output, (rows,), picked)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        name = type(self).__name__
        if target.ndim > 1:
            raise RuntimeError(f"{name}: 0D or 1D target tensor expected, got {list(target.shape)}")
        if input.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{name}: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with "
                f"size {list(input.shape)}"
            )
        if target.ndim and input.shape[0] != target.shape[0]:
            raise RuntimeError(
                f"{name}: Input and target should have the same size in the batch dimension, got {input.shape[0]} and "
                f"{target.shape[0]}"
            )
        if input.shape[-1] != self.in_features:
            raise RuntimeError(f"{name}: expects {self.in_features} features, got inputs with {list(input.shape)}")
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"{name}: Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found."
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes: ``(N, in_features) -> (N, n_classes)``."""
        head = F.log_softmax(self.head(input), dim=1)
        clusters = [
            F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + number].unsqueeze(1)
            for number, cluster in enumerate(self.tail)
        ]
        return cat([head[:, : self.shortlist_size], *clusters], 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of every row; clusters are computed only where the head prefers one."""
        best = self.head(input).argmax(1)
        rare = best >= self.shortlist_size
        if rare.any():
            best[rare] = self.log_prob(input[rare]).argmax(1)
        return best
