# ruff: noqa: UP008
"""Fit a noisy surface with a small network."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

x = torch.rand(240, 4) * 4 - 2
y = torch.sin(x[:, 0:1]) * x[:, 1:2] + 0.5 * x[:, 2:3] ** 2 + 0.05 * torch.randn(240, 1)
train_set, val_set = random_split(TensorDataset(x, y), [200, 40], generator=torch.Generator().manual_seed(1))
train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=0, pin_memory=False, drop_last=True)
val_loader = DataLoader(val_set, batch_size=40)


class Net(nn.Module):
    def __init__(self, n_in, n_hidden, n_out):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.fc2 = nn.Linear(n_hidden, n_hidden)
        self.out = nn.Linear(n_hidden, n_out)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.act(self.fc1(x))
        x = self.act(self.fc2(x))
        return self.out(x)


model = Net(4, 32, 1).to(device)
print(model)
print("parameters:", sum(p.numel() for p in model.parameters() if p.requires_grad))

criterion = nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)

for epoch in range(8):
    model.train()
    running_loss = 0.0
    for inputs, targets in train_loader:
        inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * inputs.size(0)

    model.eval()
    with torch.no_grad():
        val_loss = sum(criterion(model(a.to(device)), b.to(device)).item() for a, b in val_loader)
    scheduler.step(val_loss)
    print(f"epoch {epoch + 1}: train {running_loss / len(train_set):.6f} val {val_loss:.6f}", scheduler.get_last_lr())

predictions = model(x[:5].to(device)).detach().cpu().numpy()
print(predictions.shape, predictions.dtype, predictions.ravel())
