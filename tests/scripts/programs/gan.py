# ruff: noqa: N816, UP031
"""Two networks against each other: samples of a ring."""

import math

import torch
import torch.nn as nn
import torch.optim as optim

manualSeed = 999
torch.manual_seed(manualSeed)
torch.use_deterministic_algorithms(True)

nz, ngf, ndf = 6, 24, 24
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.1)
        m.bias.data.fill_(0)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(nn.Linear(nz, ngf), nn.BatchNorm1d(ngf), nn.LeakyReLU(0.2, True), nn.Linear(ngf, 2), nn.Tanh()).to(
    device
)
netD = nn.Sequential(nn.Linear(2, ndf), nn.LeakyReLU(0.2, inplace=True), nn.Linear(ndf, 1), nn.Sigmoid()).to(device)
netG.apply(weights_init)
netD.apply(weights_init)

criterion = nn.BCELoss()
fixed_noise = torch.randn(16, nz, device=device)
real_label, fake_label = 1.0, 0.0
optimizerD = optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))

for i in range(40):
    angle = torch.rand(32, device=device) * 2 * math.pi
    real = 0.8 * torch.stack([angle.cos(), angle.sin()], 1)

    # discriminator: log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    label = torch.full((32,), real_label, dtype=torch.float, device=device)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()

    noise = torch.randn(32, nz, device=device)
    fake = netG(noise)
    label.fill_(fake_label)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    # generator: log(D(G(z)))
    netG.zero_grad()
    label.fill_(real_label)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    D_G_z = output.mean().item()
    optimizerG.step()

    if i % 8 == 0:
        print("[%d] Loss_D: %.5f Loss_G: %.5f D(x): %.5f D(G(z)): %.5f" % (i, errD.item(), errG.item(), D_x, D_G_z))

with torch.no_grad():
    fake = netG(fixed_noise).detach().cpu()
print(fake.norm(dim=1).mean().item(), fake.std(0))
