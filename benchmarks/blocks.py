"""The blocks of larger networks that `compare.py` measures, written with layers.

One text for retrograd and torch: the layers have the same names, and take the same weights.
"""

import numpy as np

RATE = 0.01


def residual_block(nn, functional):
    """Two 3 x 3 convolutions of 64 channels with batch norm, added to what they were given (He et al. 2016)."""

    class ResidualBlock(nn.Module):
        def __init__(self, channels=64):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(channels)

        def forward(self, x):
            y = functional.relu(self.norm1(self.conv1(x)))
            return functional.relu(x + self.norm2(self.conv2(y)))

    return ResidualBlock()


def transformer_block(nn, functional):
    """An encoder layer of width 256 with four heads, without dropout (Vaswani et al. 2017)."""
    return nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)


def step_of(make):
    """A builder of training steps of a block: forward, mean squared error, backward, SGD."""

    def build(t, given):
        block = make(t.nn, t.nn.functional)
        rng = np.random.default_rng(0)
        with t.no_grad():
            for name, parameter in block.named_parameters():
                fan_in = max(1, parameter.numel() // len(parameter))
                values = rng.standard_normal(tuple(parameter.shape), np.float32) / fan_in**0.5
                parameter.copy_(t.tensor(values if "norm" not in name else 1 + 0.1 * values))
        x, target = t.tensor(given["x"]), t.tensor(given["target"])
        optimizer = t.optim.SGD(block.parameters(), lr=RATE)

        def step():
            optimizer.zero_grad()
            t.nn.functional.mse_loss(block(x), target).backward()
            optimizer.step()
            return [parameter.grad for parameter in block.parameters()]

        return step

    return build


def batch_of(*shape):
    """Normally distributed input, and a target of the same shape."""

    def make(tiny=False):
        rng = np.random.default_rng(1)
        sizes = (1, *shape[1:]) if tiny else shape
        return {name: rng.standard_normal(sizes, np.float32) for name in ("x", "target")}

    return make
