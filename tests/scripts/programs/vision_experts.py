"""A vision transformer with a mixture of experts, attention maps, drop path and CutMix; a program with arguments."""

import argparse
import os
import tempfile
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import _assert
from torch.nn.init import trunc_normal_
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.utils import _pair

parser = argparse.ArgumentParser()
parser.add_argument("--depth", type=int, default=3)
parser.add_argument("--dim", type=int, default=16)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--drop-path", type=float, default=0.2)
args = parser.parse_args([])

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
rs = np.random.RandomState(0)


class StdConv2d(_ConvNd):
    """Convolution with standardised weights."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, bias=True):
        kernel_size, stride, padding, one = _pair(kernel_size), _pair(stride), _pair(padding), _pair(1)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, one, False, _pair(0), 1, bias, "zeros"
        )

    def forward(self, x):
        v, m = torch.var_mean(self.weight, dim=[1, 2, 3], keepdim=True, unbiased=False)
        w = (self.weight - m) / torch.sqrt(v + 1e-5)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


def drop_path(x, drop_prob: float = 0.0, training: bool = False):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob=None):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return drop_path(x, self.drop_prob, self.training)

    def extra_repr(self):
        return f"drop_prob={round(self.drop_prob, 3):0.3f}"


class PatchEmbed(nn.Module):
    def __init__(self, img_size=16, patch_size=4, in_chans=3, embed_dim=16):
        super().__init__()
        self.img_size = img_size
        self.num_patches = (img_size // patch_size) ** 2
        self.stem = StdConv2d(in_chans, 4, 3, padding=1)
        self.proj = nn.Conv2d(4, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x):
        _, _, h, w = x.shape
        _assert(h == self.img_size, f"Input image height ({h}) doesn't match model ({self.img_size}).")
        torch._assert(w == self.img_size, f"Input image width ({w}) doesn't match model ({self.img_size}).")
        return self.proj(F.relu(self.stem(x))).flatten(2).transpose(1, 2)


class MoE(nn.Module):
    def __init__(self, dim, hidden, n_experts=4, k=2):
        super().__init__()
        self.k, self.n = k, n_experts
        self.w_gate = nn.Parameter(torch.zeros(dim, n_experts))
        nn.init.normal_(self.w_gate, std=0.2)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(dim, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, dim))
                for _ in range(n_experts)
            ]
        )
        self.register_buffer("load", torch.zeros(n_experts), persistent=False)

    def cv_squared(self, x):
        return x.var() / (x.mean() ** 2 + 1e-10)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weights = F.softmax(x @ self.w_gate, dim=1, dtype=x.dtype)
        top, idx = torch.topk(weights, self.k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)
        gates = torch.zeros_like(weights).scatter(1, idx, top)
        self.load.copy_((gates > 0).sum(0))
        self.aux = self.cv_squared(gates.sum(0)) + self.cv_squared(self.load)
        final = torch.zeros_like(x)
        expert_mask = F.one_hot(idx, num_classes=self.n).permute(2, 1, 0)
        for e in range(self.n):
            sel, tok = torch.where(expert_mask[e])
            if tok.shape[0] == 0:
                continue
            cur = self.experts[e](x[None, tok].reshape(-1, shape[-1])) * top[tok, sel, None]
            final.index_add_(0, tok, cur.to(x.dtype))
        return final.reshape(shape)


class Block(nn.TransformerEncoderLayer):
    """torch's layer, with experts for its network, drop path for dropout, and attention maps to look at."""

    def __init__(self, dim, heads, dpr=0.0):
        super().__init__(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.moe = MoE(dim, 2 * dim)
        self.drop_path = DropPath(dpr) if dpr > 0.0 else nn.Identity()

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x, self.maps = self.self_attn(x, x, x, need_weights=True, average_attn_weights=False)
        return self.drop_path(x)

    def _ff_block(self, x):
        return self.drop_path(self.moe(x))


class ViT(nn.Module):
    def __init__(self, depth, dim, num_classes=5, drop_path_rate=0.0):
        super().__init__()
        norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.patch_embed = PatchEmbed(embed_dim=dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.patch_embed.num_patches + 1, dim))
        dpr = [x.item() for x in torch.linspace(0, drop_path_rate, depth)]
        self.blocks = nn.ModuleList([Block(dim, 4, dpr[i]) for i in range(depth)])
        self.norm = norm_layer(dim)
        self.head = nn.Linear(dim, num_classes)
        trunc_normal_(self.pos_embed, std=0.02)
        trunc_normal_(self.cls_token, std=0.02)

    def no_weight_decay(self):
        return {"pos_embed", "cls_token"}

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = x + self.pos_embed
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x)[:, 0])


def rand_bbox(size, lam):
    w, h = size[2], size[3]
    cut = np.sqrt(1.0 - lam)
    cw, ch = int(w * cut), int(h * cut)
    cx, cy = rs.randint(w), rs.randint(h)
    return [np.clip(c + s * d // 2, 0, n) for c, d, n in ((cx, cw, w), (cy, ch, h)) for s in (-1, 1)]


X = torch.from_numpy(rs.randn(40, 3, 16, 16))
Y = torch.from_numpy(rs.randint(0, 5, 40))
model = ViT(args.depth, args.dim, drop_path_rate=args.drop_path)
print(model)
skip = model.no_weight_decay()
decay = [p for n, p in model.named_parameters() if p.ndim > 1 and n not in skip]
no_decay = [p for n, p in model.named_parameters() if p.ndim <= 1 or n in skip]
optimizer = torch.optim.AdamW([{"params": no_decay, "weight_decay": 0.0}, {"params": decay}], lr=args.lr)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 5))
for step in range(10):
    i = torch.as_tensor(rs.permutation(40)[:8])
    x, y = X[i].clone(), Y[i]
    lam, perm = rs.beta(1, 1), torch.from_numpy(rs.permutation(8))
    x1, x2, y1, y2 = rand_bbox(x.size(), lam)
    x[:, :, x1:x2, y1:y2] = x[perm, :, x1:x2, y1:y2]
    lam = 1 - ((x2 - x1) * (y2 - y1) / (x.size()[-1] * x.size()[-2]))
    out = model(x)
    loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[perm])
    aux = sum(blk.moe.aux for blk in model.blocks)
    optimizer.zero_grad()
    (loss + 0.01 * aux).backward()
    optimizer.step()
    warmup.step()
    print(f"step {step} loss {loss.item():.10f} aux {aux.item():.10f} lr {warmup.get_last_lr()[0]:.6f}")

path = os.path.join(tempfile.mkdtemp(), "checkpoint.pth")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "args": args}, path)
checkpoint = torch.load(path, map_location="cpu", weights_only=False)
again = ViT(checkpoint["args"].depth, checkpoint["args"].dim)
again.load_state_dict(checkpoint["model"])
model.eval()
again.eval()
print(checkpoint["args"], torch.equal(model(X[:4]), again(X[:4])))
with torch.no_grad():
    maps = torch.stack([blk.maps.mean(1) for blk in again.blocks])
    rollout = torch.eye(17)
    for a in maps:
        a = a + torch.eye(17)
        rollout = (a / a.sum(-1, keepdim=True)) @ rollout
    print(maps.shape, rollout[:, 0, 1:].max(-1).values.numpy())
try:
    model(X[:, :, :8])
except AssertionError as e:
    print(e)
