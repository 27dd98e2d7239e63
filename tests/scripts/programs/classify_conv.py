"""Tell stripes from checks and blobs; options, a schedule, and the best checkpoint, as in many a first project."""

import argparse
import os
import random
import tempfile

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class Patterns(torch.utils.data.Dataset):
    """Noisy 12 x 12 pictures of three kinds."""

    def __init__(self, count, seed, transform=None):
        rng = np.random.RandomState(seed)
        rows, columns = np.mgrid[:12, :12]
        kinds = [(rows // 2) % 2, (rows // 3 + columns // 3) % 2, (rows - 6) ** 2 + (columns - 6) ** 2 < 16]
        self.labels = rng.randint(0, 3, size=count)
        self.images = np.stack([kinds[label] for label in self.labels]) + 0.7 * rng.randn(count, 12, 12)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index]).float().unsqueeze(0)
        if self.transform is not None:
            image = self.transform(image)
        return image, int(self.labels[index])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(8 * 2 * 2, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(torch.flatten(x, 1))
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            done = batch_idx * len(data)
            print(f"epoch {epoch} [{done}/{len(train_loader.dataset)}] loss {loss.item():.6f}")


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    test_loss /= len(test_loader.dataset)
    print(f"test: average loss {test_loss:.6f}, accuracy {correct}/{len(test_loader.dataset)}")
    return correct / len(test_loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=3)
    args = parser.parse_args([])

    use_cuda = not args.no_cuda and torch.cuda.is_available()
    seed_everything(args.seed)
    device = torch.device("cuda" if use_cuda else "cpu")
    kwargs = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    normalize = lambda image: (image - 0.45) / 0.8  # noqa: E731
    train_loader = torch.utils.data.DataLoader(
        Patterns(192, 0, normalize), batch_size=args.batch_size, shuffle=True, **kwargs
    )
    test_loader = torch.utils.data.DataLoader(Patterns(60, 1, normalize), batch_size=30, shuffle=False, **kwargs)

    model = Net().to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    path = os.path.join(tempfile.mkdtemp(), "best.pt")

    best = 0.0
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        accuracy = test(model, device, test_loader)
        scheduler.step()
        if accuracy > best:
            best = accuracy
            state = {"epoch": epoch, "args": vars(args), "state_dict": model.state_dict(), "accuracy": accuracy}
            torch.save(state, path)

    checkpoint = torch.load(path, map_location=device, weights_only=True)
    restored = Net().to(device)
    print(restored.load_state_dict(checkpoint["state_dict"]))
    print("best", checkpoint["epoch"], checkpoint["args"]["lr"], test(restored, device, test_loader) == best)


if __name__ == "__main__":
    main()
