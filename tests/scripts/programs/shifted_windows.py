# ruff: noqa: N806
"""Attention in shifted windows, with relative positions; and a network for segmentation, with metrics."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)


def window_partition(x, w):
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, w, w, C)


def window_reverse(win, w, H, W):
    B = int(win.shape[0] / (H * W / w / w))
    return win.view(B, H // w, W // w, w, w, -1).permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, ws, heads):
        super().__init__()
        self.dim, self.window_size, self.num_heads = dim, ws, heads
        self.scale = (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * ws[0] - 1) * (2 * ws[1] - 1), heads))
        coords = torch.stack(torch.meshgrid([torch.arange(ws[0]), torch.arange(ws[1])], indexing="ij"))
        cf = torch.flatten(coords, 1)
        rc = (cf[:, :, None] - cf[:, None, :]).permute(1, 2, 0).contiguous()
        rc[:, :, 0] += ws[0] - 1
        rc[:, :, 1] += ws[1] - 1
        rc[:, :, 0] *= 2 * ws[1] - 1
        self.register_buffer("relative_position_index", rc.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        b = (
            self.relative_position_bias_table[self.relative_position_index.view(-1)]
            .view(N, N, -1)
            .permute(2, 0, 1)
            .contiguous()
        )
        attn = attn + b.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        return self.proj((self.softmax(attn) @ v).transpose(1, 2).reshape(B_, N, C))


class Swin(nn.Module):
    def __init__(self, d=8, ws=2, shift=1, res=4):
        super().__init__()
        self.pe = nn.Conv2d(3, d, 2, 2)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(4 * d)
        self.attn = WindowAttention(d, (ws, ws), 2)
        self.red = nn.Linear(4 * d, 2 * d, bias=False)
        self.ws, self.shift = ws, shift
        im = torch.zeros((1, res, res, 1))
        cnt = 0
        for h in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
            for w in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
                im[:, h, w, :] = cnt
                cnt += 1
        mw = window_partition(im, ws).view(-1, ws * ws)
        am = mw.unsqueeze(1) - mw.unsqueeze(2)
        self.register_buffer("attn_mask", am.masked_fill(am != 0, -100.0).masked_fill(am == 0, 0.0))
        self.head = nn.Linear(2 * d, 3)

    def forward(self, x):
        x = self.pe(x).permute(0, 2, 3, 1)
        B, H, W, C = x.shape
        s = x
        x = torch.roll(self.n1(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        x = window_reverse(
            self.attn(window_partition(x, self.ws).view(-1, self.ws**2, C), self.attn_mask).view(
                -1, self.ws, self.ws, C
            ),
            self.ws,
            H,
            W,
        )
        x = s + torch.roll(x, (self.shift, self.shift), (1, 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1).view(B, -1, 4 * C)
        return self.head(self.red(self.n2(x)).mean(1))


m = Swin()
o = torch.optim.AdamW(m.parameters(), 5e-3)
x, y = torch.randn(8, 3, 8, 8), torch.randint(3, (8,))
for _ in range(8):
    loss = F.cross_entropy(m(x), y)
    o.zero_grad()
    loss.backward()
    o.step()
    print(f"swin {loss.item():.12f}")


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(
            0, 3, 1, 2
        )


class Net(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 2, 2), LayerNorm2d(c))
        self.dw = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.pw1, self.pw2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(1e-1 * torch.ones(c))
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 2, 1), nn.ReLU6(), nn.Conv2d(2, c, 1), nn.Hardsigmoid()
        )
        self.sh = nn.ChannelShuffle(2)
        self.ps = nn.PixelShuffle(2)
        self.aspp = nn.ModuleList([nn.Conv2d(c, 4, 3, padding=d, dilation=d, bias=False) for d in (1, 2)])
        self.bn = nn.BatchNorm2d(8, momentum=0.01, eps=1e-3)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.out = nn.Conv2d(1, 3, 1)

    def forward(self, x):
        s = self.stem(x)
        h = self.pw2(F.gelu(self.pw1(self.dw(s).permute(0, 2, 3, 1))))
        s = s + (self.gamma * h).permute(0, 3, 1, 2)
        s = s * self.se(s)
        s = self.sh(s)
        s = self.bn(torch.cat([a(s) for a in self.aspp], 1))
        u = self.ps(self.up(s))
        return F.interpolate(
            self.out(u), size=x.shape[-2:], mode="bilinear", align_corners=False
        ), F.adaptive_max_pool2d(s, 1)


n = Net()
o = torch.optim.SGD(
    [
        {"params": [p for k, p in n.named_parameters() if "bn" not in k]},
        {"params": n.bn.parameters(), "weight_decay": 0},
    ],
    lr=0.05,
    momentum=0.9,
    weight_decay=1e-3,
    nesterov=True,
)
sch = torch.optim.lr_scheduler.PolynomialLR(o, 8, 0.9)
seg = torch.randint(-1, 3, (8, 8, 8)).masked_fill_(torch.rand(8, 8, 8) < 0.1, 255)
seg[seg < 0] = 255
for _ in range(8):
    a, b = n(x)
    loss = (
        F.cross_entropy(a, seg, ignore_index=255, weight=torch.tensor([1.0, 2.0, 0.5]))
        + 0.1 * F.l1_loss(b.flatten(1), torch.zeros(8, 8))
        + 0.01 * sum((t[..., 1:] - t[..., :-1]).abs().mean() for t in (a, a.transpose(2, 3)))
    )
    o.zero_grad()
    loss.backward()
    o.step()
    sch.step()
    pred = a.argmax(1)
    k = seg != 255
    cm = torch.bincount(3 * seg[k] + pred[k], minlength=9).reshape(3, 3)
    iou = torch.diag(cm) / (cm.sum(1) + cm.sum(0) - torch.diag(cm))
    print(f"seg {loss.item():.12f} {iou.nanmean().item():.9f} {o.param_groups[0]['lr']:.9f}")
