"""Weights with uncertainty: a regression whose layers sample their weights, and a schedule of one's own."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence
from torch.optim.lr_scheduler import _LRScheduler


class BayesianLinear(nn.Module):
    def __init__(self, in_features, out_features, prior_scale=1.0):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.Tensor(out_features, in_features))
        self.weight_rho = nn.Parameter(torch.Tensor(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.register_buffer("prior_scale", torch.tensor(prior_scale))
        self.reset_parameters()

    def reset_parameters(self):
        fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight_mu)
        bound = 1 / math.sqrt(fan_in)
        self.weight_mu.data.uniform_(-bound, bound)
        nn.init.constant_(self.weight_rho, -4.0)

    @property
    def posterior(self):
        return Normal(self.weight_mu, F.softplus(self.weight_rho))

    def kl(self):
        prior = Normal(torch.zeros_like(self.weight_mu), self.prior_scale.expand_as(self.weight_mu))
        return kl_divergence(self.posterior, prior).sum()

    def forward(self, x):
        weight = self.posterior.rsample() if self.training else self.weight_mu
        return F.linear(x, weight, self.bias)


class WarmUpDecay(_LRScheduler):
    def __init__(self, optimizer, warmup, last_epoch=-1):
        self.warmup = warmup
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = self.last_epoch + 1
        return [base * min(step / self.warmup, math.sqrt(self.warmup / step)) for base in self.base_lrs]


torch.manual_seed(12)
x = torch.linspace(-2, 2, 64).unsqueeze(-1)
y = torch.sin(2 * x) + 0.1 * torch.randn(x.size())
model = nn.Sequential(BayesianLinear(1, 24), nn.Tanh(), BayesianLinear(24, 1))
log_noise = nn.Parameter(torch.tensor(-1.0))
optimizer = torch.optim.Adam([*model.parameters(), log_noise], lr=0.02)
scheduler = WarmUpDecay(optimizer, warmup=5)

for step in range(1, 41):
    likelihood = Independent(Normal(model(x), log_noise.exp()), 1)
    kl = sum(module.kl() for module in model.modules() if isinstance(module, BayesianLinear))
    loss = -likelihood.log_prob(y).mean() + kl / (len(x) * 20)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        print(
            f"step {step}: loss {loss:.5f} kl {kl:.4f} noise {log_noise.exp().item():.5f} lr {scheduler.get_last_lr()}"
        )

model.eval()
with torch.no_grad():
    print(f"error {F.mse_loss(model(x), y)} at most {(model(x) - y).abs().max()}")
residuals = (model(x) - y).detach()
features = torch.cat([residuals, residuals.roll(1, 0)], dim=1)
fitted = MultivariateNormal(features.mean(0), features.T.cov())
print(fitted.log_prob(features).mean().item(), fitted.entropy())
hidden = model[0].bias.new(2, 3).zero_()
print(hidden.shape, model.state_dict()["0.prior_scale"])
