"""Optimizers and schedules of one's own, as papers bring them: Lion, Lookahead, SAM, K-FAC, one step per parameter."""

from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, ParamsT

torch.set_default_dtype(torch.float64)
rs = np.random.RandomState(0)
X = torch.from_numpy(rs.randn(48, 1, 6, 6))
Y = torch.from_numpy(rs.randint(0, 4, 48))


class Lion(Optimizer):
    def __init__(self, params: ParamsT, lr: float = 1e-4, betas=(0.9, 0.99), weight_decay: float = 0.0):
        if lr <= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                lr, wd, (beta1, beta2), state = group["lr"], group["weight_decay"], group["betas"], self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                p.data.mul_(1.0 - lr * wd)
                update = exp_avg.clone().mul_(beta1).add(p.grad, alpha=1.0 - beta1).sign_()
                p.add_(update, alpha=-lr)
                exp_avg.mul_(beta2).add_(p.grad, alpha=1.0 - beta2)
        return loss


class Lookahead(Optimizer):
    def __init__(self, base_optimizer, alpha=0.5, k=6):
        self.base_optimizer = base_optimizer
        self.param_groups = self.base_optimizer.param_groups
        self.defaults = base_optimizer.defaults
        self.defaults.update(lookahead_alpha=alpha, lookahead_k=k, lookahead_step=0)
        self.state = defaultdict(dict)
        for group in self.param_groups:
            for name in ("lookahead_alpha", "lookahead_k", "lookahead_step"):
                group.setdefault(name, self.defaults[name])

    def zero_grad(self):
        self.base_optimizer.zero_grad()

    def step(self, closure=None):
        loss = self.base_optimizer.step(closure)
        for group in self.param_groups:
            group["lookahead_step"] += 1
            if group["lookahead_step"] % group["lookahead_k"] == 0:
                for fast in group["params"]:
                    if "slow_buffer" not in self.state[fast]:
                        self.state[fast]["slow_buffer"] = torch.empty_like(fast.data)
                        self.state[fast]["slow_buffer"].copy_(fast.data)
                    slow = self.state[fast]["slow_buffer"]
                    slow.add_(fast.data - slow, alpha=group["lookahead_alpha"])
                    fast.data.copy_(slow)
        return loss


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
        defaults = {"rho": rho, "adaptive": adaptive, **kwargs}
        super().__init__(params, defaults)
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def step(self, closure=None):
        assert closure is not None, "Sharpness Aware Minimization requires closure"
        closure = torch.enable_grad()(closure)
        grad_norm = torch.norm(
            torch.stack(
                [
                    ((torch.abs(p) if group["adaptive"] else 1.0) * p.grad).norm(p=2)
                    for group in self.param_groups
                    for p in group["params"]
                    if p.grad is not None
                ]
            ),
            p=2,
        )
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_((torch.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p))
        self.zero_grad()
        closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()


class KFAC(Optimizer):
    def __init__(self, net, lr=0.1, eps=1e-2, alpha=0.9):
        self.eps, self.alpha, self.iteration = eps, alpha, 0
        groups = []
        for mod in net.modules():
            if mod.__class__.__name__ in ["Linear", "Conv2d"]:
                mod.register_forward_pre_hook(self._save_input)
                mod.register_full_backward_hook(self._save_grad_output)
                groups.append({"params": [mod.weight, mod.bias], "mod": mod, "conv": isinstance(mod, nn.Conv2d)})
        super().__init__(groups, {"lr": lr})

    def _save_input(self, mod, i):
        if mod.training:
            self.state[mod]["x"] = i[0]

    def _save_grad_output(self, mod, grad_input, grad_output):
        if mod.training:
            self.state[mod]["gy"] = grad_output[0] * grad_output[0].size(0)

    def step(self):
        for group in self.param_groups:
            mod, (weight, bias) = group["mod"], group["params"]
            x, gy, st = self.state[mod]["x"], self.state[mod]["gy"], self.state[weight]
            if group["conv"]:
                x = F.unfold(x, mod.kernel_size, padding=mod.padding, stride=mod.stride)
                x = x.data.permute(1, 0, 2).contiguous().view(x.shape[1], -1)
                gy = gy.data.permute(1, 0, 2, 3).contiguous().view(gy.shape[1], -1)
            else:
                x, gy = x.data.t(), gy.data.t()
            x = torch.cat([x, torch.ones_like(x[:1])])
            if self.iteration == 0:
                st["xxt"] = torch.mm(x, x.t()) / float(x.shape[1])
                st["ggt"] = torch.mm(gy, gy.t()) / float(gy.shape[1])
            else:
                st["xxt"].addmm_(x, x.t(), beta=self.alpha, alpha=(1.0 - self.alpha) / float(x.shape[1]))
                st["ggt"].addmm_(gy, gy.t(), beta=self.alpha, alpha=(1.0 - self.alpha) / float(gy.shape[1]))
            tx, tg = torch.trace(st["xxt"]) * st["ggt"].shape[0], torch.trace(st["ggt"]) * st["xxt"].shape[0]
            pi = tx / tg
            diag_xxt = st["xxt"].new(st["xxt"].shape[0]).fill_((self.eps * pi) ** 0.5)
            diag_ggt = st["ggt"].new(st["ggt"].shape[0]).fill_((self.eps / pi) ** 0.5)
            ixxt = (st["xxt"] + torch.diag(diag_xxt)).inverse()
            iggt = (st["ggt"] + torch.diag(diag_ggt)).inverse()
            g = weight.grad.data
            s = g.shape
            g = torch.cat([g.contiguous().view(s[0], -1), bias.grad.view(-1, 1).data], dim=1)
            g = torch.mm(torch.mm(iggt, g), ixxt)
            bias.grad.data = g[:, -1].contiguous().view(*bias.shape)
            weight.grad.data = g[:, :-1].contiguous().view(*s)
            for p in group["params"]:
                p.data.sub_(p.grad.data, alpha=group["lr"])
        self.iteration += 1


class NoamLR(LRScheduler):
    def __init__(self, optimizer, warmup_steps):
        self.warmup_steps = warmup_steps
        super().__init__(optimizer)

    def get_lr(self):
        step = max(1, self.last_epoch)
        scale = self.warmup_steps**0.5 * min(step ** (-0.5), step * self.warmup_steps ** (-1.5))
        return [base_lr * scale for base_lr in self.base_lrs]


def net():
    torch.manual_seed(3)
    features = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*features, nn.Linear(27, 10), nn.Tanh(), nn.Linear(10, 4))


makes = {
    "lion": lambda m: Lion(m.named_parameters(), lr=1e-3, weight_decay=0.1),
    "lookahead": lambda m: Lookahead(torch.optim.RAdam(m.parameters(), lr=1e-2), k=3),
    "sam": lambda m: SAM(m.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9, rho=0.1, adaptive=True),
    "kfac": lambda m: KFAC(m, lr=0.02),
}
for name, make in makes.items():
    model = net()
    optimizer = make(model)
    scheduler = NoamLR(optimizer, 4) if name == "lion" else None
    for step in range(12):
        rows = slice((step * 12) % 48, (step * 12) % 48 + 12)

        def closure(model=model, rows=rows):
            loss = F.cross_entropy(model(X[rows].requires_grad_()), Y[rows])
            loss.backward()
            return loss

        optimizer.zero_grad()
        loss = closure()
        optimizer.step(closure) if name == "sam" else optimizer.step()
        if scheduler:
            scheduler.step()
        if step % 3 == 2:
            print(f"{name} {step} {loss.item():.10f} {sum(p.abs().sum() for p in model.parameters()):.10f}")
    if name != "kfac":
        print(optimizer)

model = net()
optimizers = {p: torch.optim.Adam([p], foreach=False, lr=1e-2) for p in model.parameters()}


def step_in_backward(parameter) -> None:
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step_in_backward)
for step in range(5):
    loss = F.cross_entropy(model(X), Y)
    loss.backward()
    print(f"in backward {step} {loss.item():.10f}", all(p.grad is None for p in model.parameters()))
