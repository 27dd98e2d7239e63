"""Fit a sum of decaying oscillations in double precision with a quasi-Newton method."""

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)

t = torch.linspace(0, 6, 120)
signal = 1.5 * torch.exp(-0.4 * t) * torch.cos(2.0 * t + 0.3) + 0.02 * torch.tensor(np.sin(37 * t.numpy()))


class Oscillation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.amplitude = torch.nn.Parameter(torch.tensor(1.0))
        self.decay = torch.nn.Parameter(torch.tensor(0.1))
        self.omega = torch.nn.Parameter(torch.tensor(1.8))
        self.phase = torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, t):
        return self.amplitude * torch.exp(-self.decay * t) * torch.cos(self.omega * t + self.phase)


model = Oscillation()
optimizer = torch.optim.LBFGS(model.parameters(), lr=1, max_iter=10, history_size=8, line_search_fn="strong_wolfe")
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(t), signal)
    if loss.requires_grad:
        loss.backward()
    return loss


for i in range(4):
    loss = optimizer.step(closure)
    print("step", i, "loss", loss.item(), "calls", calls)
for name, param in model.named_parameters():
    print(name, param.item(), param.grad.item())

# how well the parameters are known
vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def residual(p):
    return p[0] * torch.exp(-p[1] * t) * torch.cos(p[2] * t + p[3]) - signal


jacobian = torch.autograd.functional.jacobian(residual, vector)
covariance = torch.linalg.inv(jacobian.T @ jacobian) * residual(vector).var(unbiased=True)
print(torch.sqrt(torch.diag(covariance)).tolist())
hessian = torch.func.hessian(lambda p: residual(p).square().mean())(vector)
print(torch.linalg.eigvalsh(hessian).tolist())
