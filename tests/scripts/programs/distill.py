"""A small network learns from a large one."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(9)
torch.set_float32_matmul_precision("high")
if torch.cuda.is_available():
    torch.cuda.empty_cache()
device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")

x = torch.randn(160, 10)
w = torch.randn(10, 4)
y = (x @ w + 0.5 * (x[:, :4] ** 2)).argmax(dim=-1)
dataset = TensorDataset(x, y)
train_dl = DataLoader(Subset(dataset, range(128)), batch_size=32, shuffle=True)
test_dl = DataLoader(Subset(dataset, range(128, 160)), batch_size=32)

teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
student = nn.Sequential(nn.Linear(10, 8), nn.Hardswish(), nn.Linear(8, 4))


def evaluate(net):
    net.eval()
    correct = total = 0
    confusion = torch.zeros(4, 4, dtype=torch.int64)
    with torch.inference_mode():
        for xb, yb in test_dl:
            _, predicted = torch.max(net(xb.to(device)), 1)
            correct += (predicted == yb.to(device)).sum().item()
            total += yb.size(0)
            for t, p in zip(yb, predicted.cpu(), strict=True):
                confusion[t.long(), p.long()] += 1
    return 100.0 * correct / total, confusion


def fit(net, loss_fn, epochs, lr):
    opt = torch.optim.AdamW(net.parameters(), lr=lr, amsgrad=True)
    for epoch in range(epochs):
        net.train()
        for xb, yb in train_dl:
            loss = loss_fn(xb.to(device), yb.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        acc, _ = evaluate(net)
        print(f"epoch {epoch}: loss {loss.item():.5f} accuracy {acc:.2f}%")


def distillation(T=2.0, soft_weight=0.7):
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad = False

    def loss_fn(xb, yb):
        with torch.no_grad():
            teacher_logits = teacher(xb)
        student_logits = student(xb)
        soft = F.kl_div(
            F.log_softmax(student_logits / T, dim=-1), F.softmax(teacher_logits / T, dim=-1), reduction="batchmean"
        ) * (T**2)
        return soft_weight * soft + (1 - soft_weight) * F.cross_entropy(student_logits, yb)

    return loss_fn


teacher.to(device)
student.to(device)
fit(teacher, lambda xb, yb: F.cross_entropy(teacher(xb), yb), 4, 1e-2)
fit(student, distillation(), 4, 2e-2)
accuracy, confusion = evaluate(student)
print(confusion)
print(confusion.diag().float() / confusion.sum(1).clamp(min=1))
print(sum(p.grad is not None for p in teacher.parameters()))
