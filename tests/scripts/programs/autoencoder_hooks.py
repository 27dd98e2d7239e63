"""A denoising autoencoder; hooks collect activations and gradients, and training is stopped and resumed."""

import io
from collections import OrderedDict, defaultdict

import torch
from torch import nn

torch.manual_seed(4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

basis = torch.randn(3, 12)
clean = torch.tanh(torch.randn(96, 3) @ basis)


def build():
    return nn.Sequential(
        OrderedDict(
            [
                ("enc1", nn.Linear(12, 8)),
                ("act1", nn.SiLU()),
                ("code", nn.Linear(8, 3)),
                ("act2", nn.Softplus()),
                ("dec", nn.Linear(3, 12)),
                ("out", nn.Tanh()),
            ]
        )
    )


model = build().to(device)
activations, grad_norms = {}, defaultdict(list)


def save_activation(name):
    def hook(module, inputs, output):
        activations[name] = output.detach()

    return hook


handles = [layer.register_forward_hook(save_activation(name)) for name, layer in model.named_children()]
model.dec.register_full_backward_hook(lambda module, gin, gout: grad_norms["dec"].append(gout[0].norm().item()))
model.code.weight.register_hook(lambda grad: grad.clamp(-0.05, 0.05))

optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
criterion = nn.SmoothL1Loss(beta=0.1)


def run(model, optimizer, scheduler, epochs):
    for _ in range(epochs):
        noisy = clean + 0.1 * torch.randn_like(clean)
        for x, target in zip(noisy.split(32), clean.split(32), strict=True):
            loss = criterion(model(x.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(f"loss {loss.item():.6f} lr {scheduler.get_last_lr()[0]:.6f}")


run(model, optimizer, scheduler, 3)
for name, value in activations.items():
    print(name, tuple(value.shape), f"{value.mean().item():.5f} {value.std().item():.5f}")
print([round(norm, 5) for norm in grad_norms["dec"][-3:]])
for handle in handles:
    handle.remove()
activations.clear()

buffer = io.BytesIO()
torch.save(
    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 3},
    buffer,
)
buffer.seek(0)
checkpoint = torch.load(buffer)
resumed = build().to(device)
resumed.load_state_dict(checkpoint["model"])
optimizer2 = torch.optim.NAdam(resumed.parameters())
optimizer2.load_state_dict(checkpoint["optimizer"])
scheduler2 = torch.optim.lr_scheduler.ExponentialLR(optimizer2, gamma=0.5)
scheduler2.load_state_dict(checkpoint["scheduler"])
run(resumed, optimizer2, scheduler2, 2)
print(activations, checkpoint["epoch"], list(checkpoint["model"])[:2], type(checkpoint["model"]).__name__)
