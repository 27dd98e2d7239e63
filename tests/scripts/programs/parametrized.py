"""Weights that are symmetric, orthogonal, positive or masked; hooks of every kind; pruning."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils import parametrizations, prune, spectral_norm

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class Skew(nn.Module):
    def forward(self, X):
        return X.triu(1) - X.triu(1).transpose(-1, -2)


class CayleyMap(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("Id", torch.eye(n))

    def forward(self, X):
        return torch.linalg.solve(self.Id + X, self.Id - X)


class Positive(nn.Module):
    def forward(self, x):
        return F.softplus(x)

    def right_inverse(self, y):
        return y.abs().expm1().log()


class Pruner(nn.Module):
    def __init__(self, X, p_drop=0.2):
        super().__init__()
        mask = torch.full_like(X, 1.0 - p_drop)
        self.register_buffer("mask", torch.bernoulli(mask))

    def forward(self, X):
        return X * self.mask


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.out = nn.Linear(24, 3)
        self.rec = nn.LSTM(6, 4, batch_first=True)
        self.head = nn.Linear(4, 3)
        parametrize.register_parametrization(self.a, "weight", Symmetric())
        parametrize.register_parametrization(self.b, "weight", Skew())
        parametrize.register_parametrization(self.b, "weight", CayleyMap(6))
        parametrizations.weight_norm(self.c, dim=0)
        parametrizations.spectral_norm(self.conv, n_power_iterations=2)
        parametrizations.orthogonal(self.head, orthogonal_map="cayley")
        parametrize.register_parametrization(self.head, "bias", Positive())
        parametrize.register_parametrization(self.out, "weight", Pruner(self.out.weight))

    def forward(self, x):
        with parametrize.cached():
            h = torch.tanh(self.a(x)) + self.c(self.b(x))
        o, _ = self.rec(h.unsqueeze(1))
        return self.out(F.relu(self.conv(h.unsqueeze(1))).flatten(1)) + self.head(o[:, -1])


m = M()
print(m)
print({k: tuple(v.shape) for k, v in m.state_dict().items()})
feats, grads = {}, {}


def get_activation(name):
    def hook(model, input, output):
        feats[name] = output.detach() if not isinstance(output, tuple) else output[0].detach()

    return hook


handles = [mod.register_forward_hook(get_activation(n)) for n, mod in m.named_children()]
handles += [
    m.out.register_full_backward_hook(
        lambda mod, gi, go: grads.__setitem__("out", (gi[0].norm().item(), go[0].norm().item()))
    ),
    m.a.register_forward_pre_hook(lambda mod, args: (args[0] * 1.01,)),
    m.conv.register_full_backward_pre_hook(lambda mod, go: (go[0] * 0.5,)),
    m.register_forward_hook(lambda mod, a, kw, out: out * 1.0, with_kwargs=True),
]
for p in m.out.parameters():
    p.register_hook(lambda g: torch.clamp(g, -0.05, 0.05))
post = [
    p.register_post_accumulate_grad_hook(lambda p: grads.setdefault("post", []).append(tuple(p.shape)))
    for p in m.c.parameters()
]
opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.8, dampening=0.1, weight_decay=1e-3)
sch = torch.optim.lr_scheduler.CyclicLR(
    opt, base_lr=0.02, max_lr=0.1, step_size_up=4, mode="exp_range", gamma=0.99, cycle_momentum=True
)
opt.register_step_pre_hook(lambda o, a, k: grads.__setitem__("pre", len(o.param_groups[0]["params"])))
x = torch.randn(20, 6)
y = torch.randint(0, 3, (20,))
for step in range(20):
    loss = F.multi_margin_loss(m(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sch.step()
    print(f"{step} {loss.item():.11f} {sch.get_last_lr()[0]:.9f} {opt.param_groups[0]['momentum']:.9f}", end=" ")
    print(f"{feats['conv'].norm().item():.9f}", *grads["out"], grads["pre"], len(grads["post"]))
for h in handles + post:
    h.remove()
print(
    torch.dist(m.b.weight @ m.b.weight.T, torch.eye(6)).item() < 1e-9,
    torch.linalg.matrix_norm(m.conv.weight.flatten(1), 2).item(),
    parametrize.is_parametrized(m.b, "weight"),
)
parametrize.remove_parametrizations(m.b, "weight")
parametrize.remove_parametrizations(m.out, "weight", leave_parametrized=True)
print(m.b, list(m.b.state_dict()), m.out)
m2 = copy.deepcopy(m)
print(torch.equal(m2(x), m(x)))
o = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), spectral_norm(nn.Linear(5, 5)), nn.Linear(5, 2))
print(o, list(o.state_dict()))
prune.l1_unstructured(o[3], name="weight", amount=0.3)
prune.global_unstructured([(o[3], "weight"), (o[3], "bias")], pruning_method=prune.L1Unstructured, amount=0.2)
print(list(o[3].named_buffers()), o[3]._forward_pre_hooks.__len__(), prune.is_pruned(o))
so = torch.optim.Rprop(o.parameters(), lr=0.01)
for _ in range(10):
    loss = o(x[:, :4]).pow(2).mean() - o(x[:, :4])[:, 0].mean()
    so.zero_grad()
    loss.backward()
    so.step()
    print(f"{loss.item():.12f}")
prune.remove(o[3], "weight")
prune.remove(o[3], "bias")
print(list(o.state_dict()), o.eval()(x[:2, :4]).tolist(), float((o[3].weight == 0).sum()) / o[3].weight.nelement())
