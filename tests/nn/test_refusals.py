"""Wrong arguments of modules raise exceptions of the same class as in torch."""

from __future__ import annotations

import pytest
import torch.nn.utils.prune  # noqa: F401 (torch does not import it automatically)

from tests.parity import Program, check_both_refuse

REFUSED: dict[str, Program] = {
    "bounds of hardtanh in the wrong order": lambda m: m.nn.functional.hardtanh(m.ones(2), 1.0, -1.0),
    "ratios of three dimensions in two": lambda m: m.nn.functional.fractional_max_pool2d(
        m.ones(1, 1, 6, 6), 2, output_ratio=(0.5, 0.5, 0.5)
    ),
    "channels of a tensor without dimensions": lambda m: m.nn.functional.dropout2d(m.ones(())),
    "the state of a cell with three dimensions": lambda m: m.nn.GRUCell(2, 3)(m.ones(1, 2), m.ones(1, 1, 3)),
    "a cell's nonlinearity": lambda m: m.nn.RNNCell(2, 3, nonlinearity="sin")(m.ones(1, 2)),
    "a layer added to a Sequential": lambda m: m.nn.Sequential(m.nn.ReLU()) + m.nn.ReLU(),
    "no groups of channels": lambda m: m.nn.Conv1d(1, 1, 1, groups=0),
    "sizes of more dimensions than there are": lambda m: m.nn.ConvTranspose1d(1, 1, 3)(
        m.ones(1, 1, 4), output_size=(1, 2, 3, 4)
    ),
    "a size that no padding gives": lambda m: m.nn.ConvTranspose1d(1, 1, 3)(m.ones(1, 1, 4), output_size=(9,)),
    "a length that is no int": lambda m: m.nn.Unflatten(1, (2, 2.5)),
    "weights of classes as a matrix": lambda m: m.nn.MultiMarginLoss(weight=m.ones(2, 2)),
    "no margin": lambda m: m.nn.TripletMarginWithDistanceLoss(margin=0.0),
    "a bias that is no bool": lambda m: m.nn.LSTM(2, 3, bias=1),
    "a recurrent layer of no kind": lambda m: m.nn.RNNBase("SIN", 2, 3),
    "a table of another size": lambda m: m.nn.Embedding(3, 2, _weight=m.ones(2, 2)),
    "extra state that nobody takes": lambda m: m.nn.Module().set_extra_state(1),
    "a tensor for a parameter": lambda m: setattr(m.nn.Linear(1, 1), "weight", m.ones(1)),
    "a parameter that was computed": lambda m: m.nn.Module().register_parameter("w", m.nn.Parameter(m.ones(1)) * 2),
    "pruning undone that was not done": lambda m: m.nn.utils.prune.remove(m.nn.Linear(2, 2), "weight"),
    "importance of other elements": lambda m: m.nn.utils.prune.l1_unstructured(
        m.nn.Linear(2, 2), "weight", 1, importance_scores=m.ones(3)
    ),
    "no classes for nothing": lambda m: m.nn.functional.one_hot(m.zeros(0, dtype=m.int64), 0),
    "an embedding that is no matrix": lambda m: m.nn.functional.embedding_bag(m.zeros(1, 1, dtype=m.int64), m.ones(3)),
    "one number for a bag": lambda m: m.nn.functional.embedding_bag(m.tensor(0), m.ones(3, 2)),
    "maxima without channels": lambda m: m.nn.functional.max_unpool2d(m.ones(2, 2), m.zeros(2, 2, dtype=m.int64), 2),
    "a mask of integers": lambda m: m.nn.MultiheadAttention(4, 2)(
        *[m.ones(2, 1, 4)] * 3, key_padding_mask=m.zeros(1, 2, dtype=m.int64)
    ),
    "a number among layers": lambda m: m.nn.Sequential(m.nn.ReLU()).insert(0, 3),
    "a layer added in place to a Sequential": lambda m: m.nn.Sequential().__iadd__(m.nn.ReLU()),
    "a size to unflatten that is no tuple": lambda m: m.nn.Unflatten(1, 2.5),
    "channels in too many dimensions": lambda m: m.nn.functional.dropout1d(m.ones(2, 3, 4, 5)),
    "no frames": lambda m: m.nn.functional.ctc_loss(m.zeros(0, 1, 3), m.zeros(1, 0, dtype=m.int64), (0,), (0,)),
    "no sequences": lambda m: m.nn.functional.ctc_loss(m.zeros(4, 0, 3), m.zeros(0, 2, dtype=m.int64), (), ()),
    "no parametrization": lambda m: m.nn.utils.parametrize.ParametrizationList([], m.ones(2)),
    "a model for its parameters": lambda m: m.optim.SGD(m.nn.Linear(1, 1)),
    "counts for the logarithms of probabilities": lambda m: m.nn.functional.kl_div(
        m.ones(2, dtype=m.int64), m.ones(2), reduction="sum"
    ),
    "counts for probabilities": lambda m: m.nn.functional.kl_div(m.ones(2), m.ones(2, dtype=m.int64), reduction="sum"),
    "complex probabilities": lambda m: m.nn.functional.kl_div(m.ones(2) + 0j, m.ones(2) + 0j, reduction="sum"),
    "a complex bound of squares": lambda m: m.nn.HuberLoss(delta=1j),
    "a bound of squares as text": lambda m: m.nn.HuberLoss(delta="1"),
    "images for circular padding of sequences": lambda m: m.nn.CircularPad1d(1)(m.ones(1, 1, 3, 3)),
    "a matrix for circular padding of images": lambda m: m.nn.CircularPad2d(1)(m.ones(3, 3)),
    "an image for circular padding of volumes": lambda m: m.nn.CircularPad3d(1)(m.ones(1, 3, 3)),
    "NaN for a tolerance": lambda m: m.isclose(m.ones(2), m.ones(2), atol=m.nan),
    "NaN for the order of a norm": lambda m: m.nn.functional.pdist(m.ones(2, 2), m.nan),
    "NaN for a bound that is no NaN": lambda m: m.nn.functional.softshrink(m.ones(2), m.nan),
    "NaN for the bound of squares": lambda m: m.nn.HuberLoss(delta=m.nan)(m.ones(2), m.zeros(2)),
    "NaN for where a loss becomes smooth": lambda m: m.nn.SmoothL1Loss(beta=m.nan)(m.ones(2), m.zeros(2)),
    "a negative length that stands in for zero": lambda m: m.nn.CosineSimilarity(eps=-1.0)(m.ones(2, 2), m.ones(2, 2)),
    "a method for what it gives": lambda m: m.optim.SGD(m.nn.Linear(1, 1).parameters),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_arguments_of_modules_are_refused_as_in_torch(what: str) -> None:
    check_both_refuse(REFUSED[what])
