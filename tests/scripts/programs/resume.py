"""Six optimizers with their schedules, stopped and resumed in the middle, by a script that knows several GPUs."""

import os
import shutil
import tempfile

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from torch.utils.data import DataLoader, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

torch.set_default_dtype(torch.float64)
torch.backends.cuda.enable_flash_sdp(True)
cudnn.benchmark = True
mp.set_sharing_strategy("file_system")
distributed = dist.is_available() and dist.is_initialized()
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
autocast = {"device_type": device.type, "dtype": torch.bfloat16, "enabled": False}
folder = tempfile.mkdtemp()


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / batch_size) for k in topk]


def save_checkpoint(state, is_best, filename):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, filename + "best")


def build():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16, momentum=None), nn.Mish(), nn.AlphaDropout(0.0), nn.Linear(16, 4)
    )
    opts = {
        "sgd": torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4),
        "adadelta": torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95),
        "asgd": torch.optim.ASGD(model.parameters(), lr=0.05, t0=5),
        "adamax": torch.optim.Adamax(model.parameters(), lr=0.01),
        "adafactor": torch.optim.Adafactor(model.parameters(), lr=0.05),
        "lbfgs": torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=5),
    }
    return model, opts


def schedulers(opt):
    return {
        "sgd": lambda: ChainedScheduler([ExponentialLR(opt, 0.95), MultiStepLR(opt, [3, 5], gamma=0.5)]),
        "adadelta": lambda: OneCycleLR(opt, 1.0, epochs=4, steps_per_epoch=4, cycle_momentum=False),
        "asgd": lambda: PolynomialLR(opt, 10, power=2.0),
        "adamax": lambda: SequentialLR(opt, [LinearLR(opt, 0.1, total_iters=3), CosineAnnealingLR(opt, 12)], [3]),
        "adafactor": lambda: CosineAnnealingWarmRestarts(opt, 3),
        "lbfgs": lambda: ReduceLROnPlateau(opt, patience=0, cooldown=1, min_lr=1e-3),
    }


rs = np.random.RandomState(0)
X = torch.from_numpy(rs.randn(48, 6))
Y = torch.from_numpy(rs.randint(0, 4, 48))
W = 1.0 / torch.bincount(Y).double()[Y]


def train(name, epochs, start=0, ck=None):
    model, opts = build()
    opt = opts[name]
    if distributed:
        model = nn.parallel.DistributedDataParallel(model)
    sch = schedulers(opt)[name]()
    g = torch.Generator()
    g.manual_seed(5)
    crit = nn.CrossEntropyLoss(weight=torch.bincount(Y).double().reciprocal())
    best = 0
    if ck:
        ck = torch.load(ck, map_location=device, weights_only=False)
        model.load_state_dict(ck["state_dict"])
        opt.load_state_dict(ck["optimizer"])
        sch.load_state_dict(ck["scheduler"])
        start = ck["epoch"]
        torch.set_rng_state(ck["rng"])
        g.set_state(ck["gen"])
        best = ck["best"]
    sampler = WeightedRandomSampler(W, len(W), generator=g)
    if distributed:
        sampler = DistributedSampler(X)
    loader = DataLoader(
        torch.utils.data.TensorDataset(X, Y),
        batch_size=12,
        sampler=sampler,
        num_workers=0,
        worker_init_fn=None,
        persistent_workers=False,
    )
    losses, top1 = AverageMeter("Loss", ":.4e"), AverageMeter("Acc@1", ":6.2f")
    for epoch in range(start, epochs):
        model.train()
        for images, target in loader:
            images = images + 0.1 * torch.randn_like(images)

            def closure(images=images, target=target):
                opt.zero_grad()
                with torch.autocast(**autocast):
                    loss = crit(model(images), target)
                loss.backward()
                return loss

            if name == "lbfgs":
                loss = opt.step(closure)
            else:
                loss = closure()
                opt.step()
            (acc1,) = accuracy(model(images), target)
            losses.update(loss.item(), images.size(0))
            top1.update(acc1[0].item(), images.size(0))
            if name == "adadelta":
                sch.step()
        if name == "lbfgs":
            sch.step(losses.avg)
        elif name != "adadelta":
            sch.step()
        print(name, epoch, losses, top1, f"{losses.avg:.12f}", opt.param_groups[0]["lr"])
        best = max(best, top1.avg)
        f = os.path.join(folder, f"{name}_{epoch}.pth.tar")
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "arch": "mlp",
                "state_dict": model.state_dict(),
                "best": best,
                "optimizer": opt.state_dict(),
                "scheduler": sch.state_dict(),
                "rng": torch.get_rng_state(),
                "gen": g.get_state(),
            },
            best == top1.avg,
            f,
        )
    return f, model, opt


for name in build()[1]:
    f, m, o = train(name, 4)
    f0 = f.replace("_3.", "_1.")
    f2, m2, o2 = train(name, 4, ck=f0)
    print(
        "the same:",
        all(torch.equal(value, m2.state_dict()[key]) for key, value in m.state_dict().items()),
        sorted(set(o.state_dict()["state"][0]) - {"al"}),  # kept by L-BFGS for the next step, to save an allocation
        {k: (type(v).__name__ if k != "params" else v) for k, v in sorted(o.state_dict()["param_groups"][0].items())},
    )
