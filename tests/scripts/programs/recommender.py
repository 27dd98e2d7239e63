"""Who likes what: embeddings of users and items, negative sampling, ranking; and a graph convolution."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(10)
n_users, n_items = 24, 18
affinity = torch.randn(n_users, 3) @ torch.randn(3, n_items)
likes = affinity > affinity.quantile(0.7, dim=1, keepdim=True)
pairs = likes.nonzero()
train_mask = torch.rand(pairs.shape[0]) < 0.8
train_pairs, test_pairs = pairs[train_mask], pairs[~train_mask]


class MatrixFactorization(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, dim), nn.Embedding(n_items, dim)
        self.bias = nn.Parameter(torch.zeros(n_items))
        for table in (self.users, self.items):
            nn.init.trunc_normal_(table.weight, std=0.1)

    def propagate(self, edges):
        """One round of averaging over the graph of users and items."""
        u, i = edges.t()
        degree = torch.bincount(u, minlength=n_users).clamp(min=1).to(torch.float32)
        summed = torch.zeros_like(self.users.weight).index_add_(0, u, self.items(i))
        return self.users.weight + summed / degree[:, None]

    def forward(self, user, item, edges):
        return (self.propagate(edges)[user] * self.items(item)).sum(-1) + self.bias[item]


model = MatrixFactorization()
optimizer = torch.optim.Adam(
    [{"params": [model.bias], "lr": 0.05}, {"params": [*model.users.parameters(), *model.items.parameters()]}], lr=0.02
)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3, 5], gamma=0.3)
for epoch in range(6):
    total = 0.0
    for batch in train_pairs[torch.randperm(len(train_pairs))].split(32):
        negatives = torch.randint(0, n_items, (len(batch),))
        users = torch.cat([batch[:, 0], batch[:, 0]])
        items = torch.cat([batch[:, 1], negatives])
        target = torch.cat([torch.ones(len(batch)), likes[batch[:, 0], negatives].float()])
        loss = F.binary_cross_entropy_with_logits(model(users, items, train_pairs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    scheduler.step()
    print(f"epoch {epoch} loss {total / len(train_pairs):.5f}", scheduler.get_last_lr())

with torch.no_grad():
    scores = model.propagate(train_pairs) @ model.items.weight.T + model.bias
    ranks = scores.argsort(dim=1, descending=True).argsort(dim=1)
    scores[train_pairs[:, 0], train_pairs[:, 1]] = -torch.inf
    top = scores.topk(5, dim=1).indices
    hits = (top[test_pairs[:, 0]] == test_pairs[:, 1:2]).any(dim=1)
    mrr = (1.0 / (1 + ranks.gather(1, likes.long().argmax(1, keepdim=True)))).mean()
print(f"hit rate {hits.float().mean().item():.4f} mrr {mrr.item():.4f}")
print(top[:3].tolist(), torch.unique(top).numel())
