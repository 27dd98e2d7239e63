"""Learning to learn by second derivatives, in three ways; ensembles, gradients of single samples, and kernels."""

import copy
from collections import OrderedDict
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(1, 10)
        self.l2 = nn.Linear(10, 10)
        self.l3 = nn.Linear(10, 1)
        self.act = nn.Tanh()

    def forward(self, x):
        return self.l3(self.act(self.l2(self.act(self.l1(x)))))


net = MLP()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def tasks(n, k=5):
    amplitude = torch.rand(n, 1, 1) * 4.9 + 0.1
    ph = torch.rand(n, 1, 1) * torch.pi
    x = torch.rand(n, 2 * k, 1) * 10 - 5
    y = amplitude * torch.sin(x + ph)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


def inner_loss(p, x, y):
    return F.mse_loss(functional_call(net, p, (x,)), y)


def maml_loss(p, x1, y1, x2, y2, lr=0.01):
    for _ in range(2):
        g = grad(inner_loss)(p, x1, y1)
        p = {k: p[k] - g[k] * lr for k in p}
    return inner_loss(p, x2, y2)


for it in range(10):
    batch = tasks(4)
    p = dict(net.named_parameters())
    loss = vmap(partial(maml_loss, p))(*batch).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"vmap {it} {loss.item():.12f}")
for it in range(10):  # by autograd.grad, first order and second
    opt.zero_grad()
    x1, y1, x2, y2 = tasks(3)
    total = 0.0
    for i in range(3):
        fast = OrderedDict(net.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(torch.func.functional_call(net, fast, x1[i]), y1[i])
            gs = torch.autograd.grad(loss, fast.values(), create_graph=it % 2 == 0)
            fast = OrderedDict((n, p - 0.01 * g) for (n, p), g in zip(fast.items(), gs, strict=True))
        total = total + F.mse_loss(functional_call(net, fast, (x2[i],)), y2[i])
    total.div(3).backward()
    opt.step()
    print(f"ho {it} {total.item():.12f}")
# reptile
old = copy.deepcopy(net.state_dict())
o = torch.optim.SGD(net.parameters(), lr=0.02)
for _ in range(3):
    o.zero_grad()
    F.mse_loss(net(x1[0]), y1[0]).backward()
    o.step()
net.load_state_dict({n: old[n] + (net.state_dict()[n] - old[n]) * 0.1 for n in old})
print(sum(p.sum() for p in net.parameters()).item())
# ensembles and per-sample gradients
models = [MLP() for _ in range(3)]
ps, bs = stack_module_state(models)
base = copy.deepcopy(models[0])


def fm(p, b, x):
    return functional_call(base, (p, b), (x,))


out = vmap(fm, in_dims=(0, 0, None))(ps, bs, x1[0])
print(out.shape, out.sum().item())


def compute_loss(params, buffers, sample, target):
    return F.mse_loss(functional_call(net, (params, buffers), (sample.unsqueeze(0),)), target.unsqueeze(0))


pd = {k: v.detach() for k, v in net.named_parameters()}
ft = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))
g = ft(pd, dict(net.named_buffers()), x1[0], y1[0])
print({k: (tuple(v.shape), round(v.norm().item(), 9)) for k, v in g.items()})
norms = torch.stack([v.flatten(1).norm(dim=1) for v in g.values()]).norm(dim=0)
clip = (1.0 / (norms + 1e-6)).clamp(max=1.0)
dp = {k: torch.einsum("i,i...->...", clip, v) for k, v in g.items()}
print(norms.tolist(), dp["l1.weight"].norm())
gv, val = grad_and_value(inner_loss)(pd, x1[0], y1[0])
print(val, gv["l3.bias"])


def fnet(p, x):
    return functional_call(net, p, (x.unsqueeze(0),)).squeeze(0)


def ntk(p, xa, xb):
    ja = vmap(jacrev(fnet), (None, 0))(p, xa)
    jb = vmap(jacrev(fnet), (None, 0))(p, xb)
    return sum(torch.einsum("Naf,Mbf->NMab", ja[name].flatten(2), jb[name].flatten(2)) for name in ja)


print(ntk(pd, x1[0], x2[0]).squeeze())
print(hessian(lambda x: fnet(pd, x).sum())(x1[0][0]), jacfwd(lambda x: fnet(pd, x))(x1[0][0]))
_, hv = jvp(grad(lambda x: fnet(pd, x).sum()), (x1[0][0],), (torch.ones(1),))
print(hv)
o, f = vjp(lambda x: fnet(pd, x), x1[0][0])
print(o, f(torch.ones(1)))
print(
    vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3)),
    torch.vmap(lambda x: x.sort().values, in_dims=1, out_dims=1)(torch.tensor([[3.0, 1.0], [2.0, 5.0]])),
)
v = parameters_to_vector(net.parameters())
vector_to_parameters(v * 0.5, net.parameters())
print(v.shape, net.l1.weight.grad is None, sum(p.sum() for p in net.parameters()).item())
