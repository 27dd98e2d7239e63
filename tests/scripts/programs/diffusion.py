# ruff: noqa: B007, B905, C417, RUF059
"""A small diffusion model: U-Net with linear attention, cosine schedule, averaged weights, sampling."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def extract(a, t, x_shape):
    out = a.gather(-1, t.cpu())
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1))).to(t.device)


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1)
    ac = torch.cos(((x / timesteps) + s) / (1 + s) * torch.pi * 0.5) ** 2
    ac = ac / ac[0]
    return torch.clip(1 - (ac[1:] / ac[:-1]), 0.0001, 0.9999)


T = 50
betas = cosine_beta_schedule(T)
alphas = 1.0 - betas
acp = torch.cumprod(alphas, axis=0)
acp_prev = F.pad(acp[:-1], (1, 0), value=1.0)
sq, sq1 = torch.sqrt(acp), torch.sqrt(1.0 - acp)
pv = betas * (1.0 - acp_prev) / (1.0 - acp)


class Sinu(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        h = self.dim // 2
        e = math.log(10000) / (h - 1)
        e = torch.exp(torch.arange(h, device=time.device) * -e)
        e = time[:, None] * e[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)


class WSConv2d(nn.Conv2d):
    def forward(self, x):
        eps = 1e-5 if x.dtype == torch.float32 else 1e-3
        w = self.weight
        mean = w.mean(dim=(1, 2, 3), keepdim=True)
        var = w.var(dim=(1, 2, 3), unbiased=False, keepdim=True)
        return F.conv2d(
            x, (w - mean) * (var + eps).rsqrt(), self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class Block(nn.Module):
    def __init__(self, i, o, groups=4):
        super().__init__()
        self.proj = WSConv2d(i, o, 3, padding=1)
        self.norm = nn.GroupNorm(groups, o)
        self.act = nn.SiLU()

    def forward(self, x, ss=None):
        x = self.norm(self.proj(x))
        if ss is not None:
            scale, shift = ss
            x = x * (scale + 1) + shift
        return self.act(x)


class Res(nn.Module):
    def __init__(self, i, o, td):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(td, o * 2))
        self.b1 = Block(i, o)
        self.b2 = Block(o, o)
        self.res = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        t = self.mlp(t)[..., None, None]
        return self.b2(self.b1(x, t.chunk(2, dim=1))) + self.res(x)


class LinAttn(nn.Module):
    def __init__(self, dim, heads=2, dh=8):
        super().__init__()
        self.scale = dh**-0.5
        self.h = heads
        self.qkv = nn.Conv2d(dim, heads * dh * 3, 1, bias=False)
        self.out = nn.Sequential(nn.Conv2d(heads * dh, dim, 1), nn.GroupNorm(1, dim))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = map(lambda t: t.reshape(b, self.h, -1, h * w), self.qkv(x).chunk(3, dim=1))
        q = q.softmax(dim=-2) * self.scale
        k = k.softmax(dim=-1)
        ctx = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        return self.out(torch.einsum("b h d e, b h d n -> b h e n", ctx, q).reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.t = nn.Sequential(Sinu(d), nn.Linear(d, 32), nn.GELU(), nn.Linear(32, 32))
        self.init = nn.Conv2d(1, d, 7, padding=3)
        self.d1 = Res(d, d, 32)
        self.a1 = LinAttn(d)
        self.down = nn.Conv2d(d, d * 2, 4, 2, 1)
        self.mid = Res(d * 2, d * 2, 32)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(d * 2, d, 3, padding=1))
        self.u1 = Res(2 * d, d, 32)
        self.fin = nn.Conv2d(d, 1, 1)

    def forward(self, x, time):
        t = self.t(time)
        x = self.init(x)
        x = self.d1(x, t)
        x = x + self.a1(x)
        r = x.clone()
        x = self.mid(self.down(x), t)
        x = self.up(x)
        return self.fin(self.u1(torch.cat((x, r), dim=1), t))


model = Unet()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
ema = copy.deepcopy(model).eval().requires_grad_(False)
data = torch.rand(64, 1, 16, 16) * 2 - 1
for step in range(8):
    x0 = data[torch.randperm(64)[:16]]
    t = torch.randint(0, T, (16,)).long()
    noise = torch.randn_like(x0)
    xn = extract(sq, t, x0.shape) * x0 + extract(sq1, t, x0.shape) * noise
    loss = F.smooth_l1_loss(noise, model(xn, t))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), model.parameters()):
            pe.lerp_(p, 0.1)
        for pe, p in zip(ema.buffers(), model.buffers()):
            pe.copy_(p)


@torch.no_grad()
def p_sample(model, x, t, ti):
    mean = extract(torch.sqrt(1.0 / alphas), t, x.shape) * (
        x - extract(betas, t, x.shape) * model(x, t) / extract(sq1, t, x.shape)
    )
    return mean if ti == 0 else mean + torch.sqrt(extract(pv, t, x.shape)) * torch.randn_like(x)


img = torch.randn(2, 1, 16, 16)
for i in reversed(range(10)):
    img = p_sample(ema, img, torch.full((2,), i, dtype=torch.long), i)
print(img.mean(), img.std(), img.clamp(-1, 1).add(1).mul(127.5).to(torch.uint8).float().mean(), img.numpy().dtype)
