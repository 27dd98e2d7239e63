"""torch and retrograd in one program: torch's data sets, and weights exchanged without files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg


class Images(torch.utils.data.Dataset):
    """Like torchvision's data sets with ``transform=ToTensor()``."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((1, 4, 4), float(index)), index % 3

    def __len__(self) -> int:
        return 10


def test_data_loader_takes_torch_data_sets() -> None:
    images, labels = next(iter(rg.utils.data.DataLoader(Images(), batch_size=4)))
    assert isinstance(images, rg.Tensor)
    assert images.dtype == rg.float32
    assert images[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert labels.tolist() == [0, 1, 2, 0]
    batches = rg.utils.data.DataLoader(Images(), batch_size=5, num_workers=1)
    assert [images.shape for images, _ in batches] == [rg.Size([5, 1, 4, 4])] * 2
    (single, label) = next(iter(rg.utils.data.DataLoader(Images(), batch_size=None)))
    assert isinstance(single, rg.Tensor)
    assert label == 0


def test_state_dicts_are_exchanged_without_files() -> None:
    theirs, ours = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True), rg.nn.LSTM(3, 4, 2, bidirectional=True)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(ours(rg.tensor(x))[0].detach(), theirs(torch.tensor(x))[0].detach(), atol=1e-6)

    back = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    back.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in ours.state_dict().items()})
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in back.state_dict().items())


def test_optimizer_state_is_exchanged_without_files() -> None:
    def build(m: Any) -> Any:
        model = m.nn.Linear(2, 1)
        return model, m.optim.Adam(model.parameters(), lr=0.1)

    def step(m: Any, model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        model(m.ones(3, 2)).square().sum().backward()
        optimizer.step()

    theirs, ours = build(torch), build(rg)
    step(torch, *theirs)
    ours[0].load_state_dict(theirs[0].state_dict())
    ours[1].load_state_dict(theirs[1].state_dict())
    step(torch, *theirs)
    step(rg, *ours)
    assert ours[0].weight.tolist() == [pytest.approx(row) for row in theirs[0].weight.tolist()]


def test_tensors_of_both_libraries_share_memory_through_numpy() -> None:
    theirs = torch.arange(3.0)
    ours = rg.from_dlpack(theirs)
    ours[0] = 7
    assert theirs.tolist() == [7, 1, 2]
    assert torch.from_numpy(ours.numpy()).data_ptr() == theirs.data_ptr()
    assert torch.from_dlpack(ours).data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: rg.relu(torch.ones(2)),
        lambda: rg.cat([torch.ones(2), rg.ones(1)]),
        lambda: rg.nn.functional.cross_entropy(rg.ones(1, 2), torch.tensor([0])),
        lambda: rg.nn.functional.conv1d(torch.ones(1, 1, 3), rg.ones(1, 1, 2)),
    ],
)
def test_errors_distinguish_torch_tensors_from_ours(mistake: Any) -> None:
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        mistake()
