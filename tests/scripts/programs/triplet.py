# ruff: noqa: UP008, UP031
"""Embeddings from triplets and from pairs, with the older spellings that are still around."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader

torch.manual_seed(5)


class TripletDataset(Dataset):
    def __init__(self, n_per_class=20, seed=0):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(3, 6)) * 2
        self.data = np.concatenate([mean + rng.normal(size=(n_per_class, 6)) for mean in means]).astype("float32")
        self.labels = torch.LongTensor(np.repeat(np.arange(3), n_per_class).tolist())
        self.rng = np.random.RandomState(seed)

    def __getitem__(self, index):
        label = self.labels[index].item()
        positive = self.rng.choice(np.where(self.labels.numpy() == label)[0])
        negative = self.rng.choice(np.where(self.labels.numpy() != label)[0])
        return tuple(torch.FloatTensor(self.data[i]) for i in (index, positive, negative))

    def __len__(self):
        return len(self.labels)


class EmbeddingNet(nn.Module):
    def __init__(self):
        super(EmbeddingNet, self).__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.PReLU(), nn.Linear(16, 3))
        self.scale = nn.Parameter(torch.Tensor(1))
        self.reset_parameters()

    def reset_parameters(self):
        self.scale.data.fill_(1.5)

    def forward(self, x):
        return self.scale * F.normalize(self.net(x), p=2, dim=1)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin
        self.eps = 1e-9

    def forward(self, output1, output2, target):
        distances = (output2 - output1).pow(2).sum(1)
        losses = 0.5 * (
            target.float() * distances
            + (1 + -1 * target).float() * F.relu(self.margin - (distances + self.eps).sqrt()).pow(2)
        )
        return losses.mean()


model = EmbeddingNet()
triplet = nn.TripletMarginLoss(margin=0.5, p=2)
contrastive = ContrastiveLoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
loader = DataLoader(TripletDataset(), batch_size=20, shuffle=True)

for epoch in range(4):
    losses = []
    for anchor, positive, negative in loader:
        anchor, positive, negative = Variable(anchor), Variable(positive), Variable(negative)
        a, p, n = model(anchor), model(positive), model(negative)
        same = torch.ones(len(a)).type(torch.LongTensor)
        loss = triplet(a, p, n) + 0.1 * (contrastive(a, p, same) + contrastive(a, n, same * 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.data.item())
    print("epoch %d: %.5f" % (epoch, np.mean(losses)))

embeddings = model(torch.from_numpy(loader.dataset.data)).data
print(F.pairwise_distance(embeddings[0:1], embeddings[25:26]).numpy(), torch.cdist(embeddings[:2], embeddings[:2]))
print(F.cosine_similarity(embeddings[:3], embeddings[20:23]))
print(isinstance(embeddings, torch.FloatTensor), embeddings.type(), torch.Tensor(2, 3).size())
print(torch.eq(torch.IntTensor([1, 2]), torch.IntTensor([1, 3])).sum())
