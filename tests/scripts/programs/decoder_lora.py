"""A decoder with rotary positions, shared keys and a cache; adapters of low rank; sampling from the nucleus."""

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float() if x.dtype == torch.float16 else x).type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].double() / dim))
    t = torch.arange(end, device=freqs.device, dtype=torch.float64)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def reshape_for_broadcast(freqs_cis, x):
    ndim = x.ndim
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    return freqs_cis.view(*[d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)])


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.reshape(*xk.shape[:-1], -1, 2))
    f = reshape_for_broadcast(freqs_cis, xq_)
    xq_out, xk_out = torch.view_as_real(xq_ * f).flatten(3), torch.view_as_real(xk_ * f).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x, n):
    bs, s, h, d = x.shape
    return x if n == 1 else x[:, :, :, None, :].expand(bs, s, h, n, d).reshape(bs, s, h * n, d)


@dataclass
class Args:
    dim: int = 16
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int | None = 2
    vocab_size: int = 24
    multiple_of: int = 4
    norm_eps: float = 1e-5
    max_batch_size: int = 4
    max_seq_len: int = 16


class Attention(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.n_kv = a.n_heads if a.n_kv_heads is None else a.n_kv_heads
        self.h = a.n_heads
        self.rep = self.h // self.n_kv
        self.hd = a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, a.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(a.n_heads * self.hd, a.dim, bias=False)
        self.cache_k = torch.zeros((a.max_batch_size, a.max_seq_len, self.n_kv, self.hd))
        self.cache_v = torch.zeros((a.max_batch_size, a.max_seq_len, self.n_kv, self.hd))

    def forward(self, x, start_pos, freqs_cis, mask, use_cache=False):
        b, s, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(b, s, self.h, self.hd)
        xk = xk.view(b, s, self.n_kv, self.hd)
        xv = xv.view(b, s, self.n_kv, self.hd)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        if use_cache:
            self.cache_k = self.cache_k.to(xq)
            self.cache_v = self.cache_v.to(xq)
            self.cache_k[:b, start_pos : start_pos + s] = xk
            self.cache_v[:b, start_pos : start_pos + s] = xv
            xk, xv = self.cache_k[:b, : start_pos + s], self.cache_v[:b, : start_pos + s]
        k, v = repeat_kv(xk, self.rep), repeat_kv(xv, self.rep)
        q, k, v = xq.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        sc = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.hd)
        if mask is not None:
            sc = sc + mask
        o = torch.matmul(F.softmax(sc, dim=-1).type_as(q), v)
        o2 = F.scaled_dot_product_attention(q, xk.transpose(1, 2), xv.transpose(1, 2), attn_mask=mask, enable_gqa=True)
        assert torch.allclose(o, o2)
        return self.wo(o.transpose(1, 2).contiguous().view(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, mult):
        super().__init__()
        hidden = mult * ((int(2 * hidden / 3) + mult - 1) // mult)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, i, a):
        super().__init__()
        self.attention = Attention(a)
        self.feed_forward = FeedForward(a.dim, 4 * a.dim, a.multiple_of)
        self.layer_id = i
        self.attention_norm = RMSNorm(a.dim, eps=a.norm_eps)
        self.ffn_norm = RMSNorm(a.dim, eps=a.norm_eps)

    def forward(self, x, *a):
        h = x + self.attention(self.attention_norm(x), *a)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, p: Args):
        super().__init__()
        self.params = p
        self.tok_embeddings = nn.Embedding(p.vocab_size, p.dim)
        self.layers = torch.nn.ModuleList()
        for i in range(p.n_layers):
            self.layers.append(Block(i, p))
        self.norm = RMSNorm(p.dim, eps=p.norm_eps)
        self.output = nn.Linear(p.dim, p.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(p.dim // p.n_heads, p.max_seq_len * 2)

    def forward(self, tokens, start_pos=0, use_cache=False):
        _b, s = tokens.shape
        h = self.tok_embeddings(tokens)
        self.freqs_cis = self.freqs_cis.to(h.device)
        f = self.freqs_cis[start_pos : start_pos + s]
        mask = None
        if s > 1:
            mask = torch.full((s, s), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
            mask = torch.hstack([torch.zeros((s, start_pos), device=tokens.device), mask]).type_as(h)
        for layer in self.layers:
            h = layer(h, start_pos, f, mask, use_cache)
        return self.output(self.norm(h))


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=4, p=0.0):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r
        self.drop = nn.Dropout(p) if p > 0.0 else nn.Identity()
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        base.weight.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + (self.drop(x) @ self.lora_A.T @ self.lora_B.T) * self.scaling

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.lora_B @ self.lora_A * self.scaling
        return self.base


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield torch.arange(i, i + 13).pow(2) % 24


m = Transformer(Args())
opt = torch.optim.AdamW(m.parameters(), lr=5e-3, betas=(0.9, 0.95), fused=False)
loader = DataLoader(Stream(24), batch_size=4)
for epoch in range(4):
    for i, b in enumerate(loader):
        x, y = b[:, :-1].contiguous(), b[:, 1:].contiguous()
        logits = m(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.reshape(-1)) + 1e-4 * torch.logsumexp(logits, -1).square().mean()
        loss.backward()
        if (i + 1) % 2 == 0:
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
    print(epoch, f"{loss.item():.12f}")
for name, mod in list(m.named_modules()):
    if isinstance(mod, nn.Linear) and name.split(".")[-1] in ("wq", "wv"):
        parent = functools.reduce(getattr, name.split(".")[:-1], m)
        setattr(parent, name.split(".")[-1], LoRALinear(mod))
for n, p in m.named_parameters():
    p.requires_grad_("lora_" in n)
print(
    sum(p.numel() for p in m.parameters() if p.requires_grad),
    [n for n, p in m.named_parameters() if p.requires_grad][:2],
)
opt = torch.optim.AdamW((p for p in m.parameters() if p.requires_grad), lr=1e-2)
for b in loader:
    loss = F.cross_entropy(m(b[:, :-1]).transpose(1, 2), b[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"lora {loss.item():.12f}")
ref = m(x).detach()
for name, mod in list(m.named_modules()):
    if isinstance(mod, LoRALinear):
        parent = m.get_submodule(name.rpartition(".")[0])
        setattr(parent, name.rpartition(".")[2], mod.merge())
print(torch.allclose(ref, m(x)))
m.eval()
prompt = torch.tensor([[1, 4, 9]])
with torch.inference_mode():
    lo = m(prompt, 0, True)
    toks = prompt
    pos = 3
    for _ in range(6):
        probs = torch.softmax(lo[:, -1] / 0.8, dim=-1)
        ps, pi = torch.sort(probs, dim=-1, descending=True)
        cs = torch.cumsum(ps, dim=-1)
        mask = cs - ps > 0.9
        ps[mask] = 0.0
        ps.div_(ps.sum(dim=-1, keepdim=True))
        nt = torch.multinomial(ps, num_samples=1)
        nt = torch.gather(pi, -1, nt)
        toks = torch.cat([toks, nt], 1)
        lo = m(nt, pos, True)
        pos += 1
    print(toks.tolist(), torch.allclose(lo[:, -1], m(toks)[:, -1]))
