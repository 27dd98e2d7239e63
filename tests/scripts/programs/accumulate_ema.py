"""Large batches in small pieces, averaged weights, early stopping."""

import copy
import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class EMA:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model)
        self.module.eval()
        self.module.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            if ema_v.dtype.is_floating_point:
                ema_v.mul_(self.decay).add_(model_v.detach(), alpha=1.0 - self.decay)
            else:
                ema_v.copy_(model_v)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, width=12, depth=2):
        super().__init__()
        self.stem = nn.Linear(5, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.bn = nn.BatchNorm1d(width)
        self.heads = nn.ModuleDict({"mean": nn.Linear(width, 1), "logvar": nn.Linear(width, 1)})

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.bn(x)
        return {name: head(x).squeeze(-1) for name, head in self.heads.items()}


torch.manual_seed(21)
x = torch.randn(128, 5)
y = (x[:, 0] * x[:, 1]).tanh() + 0.1 * torch.randn(128)
train, valid = (x[:96], y[:96]), (x[96:], y[96:])

model = Model()
ema = EMA(model, decay=0.9)
optimizer = torch.optim.RAdam(model.parameters(), lr=0.02, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=24)
accumulation_steps, best, bad_epochs, best_weights = 3, float("inf"), 0, None

for epoch in range(12):
    model.train()
    order = torch.randperm(96)
    optimizer.zero_grad()
    for step, idx in enumerate(order.chunk(6), 1):
        out = model(train[0][idx])
        loss = F.gaussian_nll_loss(out["mean"], train[1][idx], out["logvar"].exp()) / accumulation_steps
        loss.backward()
        if step % accumulation_steps == 0:
            nn.utils.clip_grad_value_(model.parameters(), clip_value=0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            ema.update(model)
    with torch.inference_mode():
        out = ema.module(valid[0])
        val = F.mse_loss(out["mean"], valid[1]).item()
    print(f"epoch {epoch:2d} train {loss.item() * accumulation_steps:.5f} valid {val:.5f}")
    if val < best - 1e-4:
        best, bad_epochs, best_weights = val, 0, copy.deepcopy(ema.module.state_dict())
    else:
        bad_epochs += 1
        if bad_epochs >= 3:
            logger.info("stopping early")
            break

ema.module.load_state_dict(best_weights)
print(
    f"best {best:.5f}",
    best_weights["bn.num_batches_tracked"].item(),
    any(p.requires_grad for p in ema.module.parameters()),
)
