# ruff: noqa: UP032
"""A variational autoencoder on soft two-dimensional bumps."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"

grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij"), dim=-1)
centers = torch.rand(128, 1, 1, 2) * 1.2 - 0.6
images = torch.exp(-8 * ((grid - centers) ** 2).sum(-1)).clamp(0, 1).unsqueeze(1)
loader = torch.utils.data.DataLoader(images, batch_size=32, shuffle=True)


class VAE(nn.Module):
    def __init__(self, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ELU())
        self.mu = nn.Linear(32, latent)
        self.logvar = nn.Linear(32, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, 32), nn.ELU(), nn.Linear(32, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8))
        )

    def reparameterize(self, mu, logvar):
        if self.training:
            std = logvar.mul(0.5).exp_()
            eps = torch.randn_like(std)
            return eps.mul(std).add_(mu)
        return mu

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(1, 5):
    model.train()
    train_loss = 0
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad(set_to_none=True)
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print("====> epoch: {} average loss: {:.5f}".format(epoch, train_loss / len(loader.dataset)))

model.eval()
with torch.no_grad():
    recon, mu, _ = model(images[:4].to(device))
    sample = model.decoder(torch.randn(2, 2).to(device)).cpu()
print(F.mse_loss(recon.cpu(), images[:4]).item(), mu.tolist())
print(sample.shape, sample.mean().item())
