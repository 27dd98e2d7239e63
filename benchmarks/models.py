"""Training steps of models, for `compare.py`: blocks of larger networks, and small ones whose calls cost more than
their arithmetic.

The same code for retrograd and torch: the layers have the same names, and take the same weights.
"""

import numpy as np

# --- blocks of larger networks ----------------------------------------------------------------------------------------


def with_squares(t, block):
    """A block to be trained by mean squared errors and SGD."""
    return block, t.nn.functional.mse_loss, t.optim.SGD(block.parameters(), lr=0.01)


def residual_block(t):
    """Two 3 x 3 convolutions of 64 channels with batch norm, added to their input (He et al. 2016)."""
    nn, relu = t.nn, t.nn.functional.relu

    class ResidualBlock(nn.Module):
        def __init__(self, channels=64):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(channels)

        def forward(self, x):
            y = relu(self.norm1(self.conv1(x)))
            return relu(x + self.norm2(self.conv2(y)))

    return with_squares(t, ResidualBlock())


def transformer_block(t):
    """An encoder layer of width 256 with four heads, without dropout (Vaswani et al. 2017)."""
    return with_squares(t, t.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True))


# --- small models -----------------------------------------------------------------------------------------------------


def small_perceptron(t):
    """Three layers of width 64, 32 samples, cross entropy, Adam."""
    nn = t.nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, t.nn.functional.cross_entropy, t.optim.Adam(model.parameters())


def small_convolutions(t):
    """Two convolutions with batch norm and pooling on 16 images of 8 x 8, cross entropy, SGD with momentum."""
    nn = t.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return model, t.nn.functional.cross_entropy, t.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def small_transformer(t):
    """An encoder layer of width 32 with four heads, 8 sequences of 16, mean squared error, Adam."""
    model = t.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return model, t.nn.functional.mse_loss, t.optim.Adam(model.parameters())


def small_equation(t):
    """A network of width 32 for u'' + u = target at 64 points: second derivatives inside of the loss, Adam."""
    nn, grad = t.nn, t.autograd.grad
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = model

        def forward(self, x):
            x = x.detach().requires_grad_()
            u = self.u(x)
            (du,) = grad(u.sum(), x, create_graph=True)
            (ddu,) = grad(du.sum(), x, create_graph=True)
            return ddu + u

    return Residual(), t.nn.functional.mse_loss, t.optim.Adam(model.parameters())


# --- their inputs and steps -------------------------------------------------------------------------------------------


def inputs_of(shape, classes=None):
    """Normally distributed input; as target a class for each sample, or numbers of the same shape."""

    def make(tiny=False):
        rng = np.random.default_rng(1)
        size = (1, *shape[1:]) if tiny else shape
        x = rng.standard_normal(size, np.float32)
        return {
            "x": x,
            "target": rng.integers(0, classes, size[0]) if classes else rng.standard_normal(size, np.float32),
        }

    return make


def step_of(make):
    """A builder of training steps of a model, whose weights are the same for every library."""

    def build(t, given):
        model, loss, optimizer = make(t)
        rng = np.random.default_rng(0)
        with t.no_grad():
            for name, parameter in model.named_parameters():
                fan_in = max(1, parameter.numel() // len(parameter))
                values = rng.standard_normal(tuple(parameter.shape), np.float32) / fan_in**0.5
                parameter.copy_(t.tensor(values if "norm" not in name else 1 + 0.1 * values))
        x, target = t.tensor(given["x"]), t.tensor(given["target"])

        def step():
            optimizer.zero_grad()
            loss(model(x), target).backward()
            optimizer.step()
            return [parameter.grad for parameter in model.parameters()]

        return step

    return build
