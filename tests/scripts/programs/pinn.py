"""A damped oscillator from its differential equation, x'' + 2 d x' + w^2 x = 0."""

import torch
import torch.nn as nn


class FCN(nn.Module):
    def __init__(self, n_input, n_output, n_hidden, n_layers):
        super().__init__()
        activation = nn.Tanh
        self.fcs = nn.Sequential(nn.Linear(n_input, n_hidden), activation())
        self.fch = nn.Sequential(
            *[nn.Sequential(nn.Linear(n_hidden, n_hidden), activation()) for _ in range(n_layers - 1)]
        )
        self.fce = nn.Linear(n_hidden, n_output)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))


torch.manual_seed(123)
pinn = FCN(1, 1, 16, 2).double()
t_boundary = torch.zeros(1, 1, dtype=torch.double).requires_grad_(True)
t_physics = torch.linspace(0, 1, 30, dtype=torch.double).view(-1, 1).requires_grad_(True)
d, w0 = 2, 10
mu, k = 2 * d, w0**2
optimiser = torch.optim.Adam(pinn.parameters(), lr=1e-3)
for i in range(30):
    optimiser.zero_grad()
    lambda1, lambda2 = 1e-1, 1e-4
    u = pinn(t_boundary)
    loss1 = (torch.squeeze(u) - 1) ** 2
    dudt = torch.autograd.grad(u, t_boundary, torch.ones_like(u), create_graph=True)[0]
    loss2 = (torch.squeeze(dudt) - 0) ** 2
    u = pinn(t_physics)
    dudt = torch.autograd.grad(u, t_physics, torch.ones_like(u), create_graph=True)[0]
    d2udt2 = torch.autograd.grad(dudt, t_physics, torch.ones_like(dudt), create_graph=True)[0]
    loss3 = torch.mean((d2udt2 + mu * dudt + k * u) ** 2)
    loss = loss1 + lambda1 * loss2 + lambda2 * loss3
    loss.backward()
    optimiser.step()
    if i % 6 == 0:
        u = pinn(t_physics).detach()
        print(i, loss.item(), loss3.item(), u[:, 0].max().item())
print([p.grad.norm().item() for p in pinn.parameters()])
