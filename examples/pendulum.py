"""Solve the equation of a pendulum with a network that knows no data, only the equation (a physics-informed network).

A pendulum let go at an angle obeys theta'' = -sin(theta), with time in units of sqrt(length / gravity). For large
angles no elementary function does. Here a small network stands for theta(t), and is trained until its own second
derivative obeys the equation at many times at once (Raissi, Perdikaris and Karniadakis, 2019). So every step of the
training takes three derivatives of the network: two in time, and one of the result in its weights.

    python examples/pendulum.py
    python examples/pendulum.py --angle 150 --rounds 50
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import numpy as np

import retrograd as rg
from _progress import Progress
from retrograd import nn


class Swing(nn.Module):
    """The angle as a function of time, which starts at ``angle`` and at rest whatever the weights are."""

    def __init__(self, angle: float, duration: float, width: int) -> None:
        super().__init__()
        self.angle = angle
        self.duration = duration
        self.network = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        ).to(rg.float64)

    def forward(self, t: rg.Tensor) -> rg.Tensor:
        return self.angle + t**2 * self.network(2 * t / self.duration - 1)


def residual(swing: Swing, t: rg.Tensor) -> rg.Tensor:
    """What theta'' + sin(theta) should be zero of, at each time."""
    theta = swing(t)
    # Each angle depends on its own time only, so the gradient of the sum holds the derivative at every time.
    (velocity,) = rg.autograd.grad(theta.sum(), t, create_graph=True)
    (acceleration,) = rg.autograd.grad(velocity.sum(), t, create_graph=True)
    return acceleration + rg.sin(theta)


def train(swing: Swing, args: argparse.Namespace) -> None:
    """Make the mean square of the residual small; the optimizer estimates curvature from gradients (L-BFGS)."""
    t = rg.linspace(0, swing.duration, args.points, dtype=rg.float64).reshape(-1, 1).requires_grad_()
    optimizer = rg.optim.LBFGS(
        swing.parameters(), max_iter=20, history_size=50, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def closure() -> rg.Tensor:
        optimizer.zero_grad()
        loss = residual(swing, t).square().mean()
        loss.backward(inputs=list(swing.parameters()))  # and not the times, which require gradients as well
        return loss

    with rg.anomaly.watch(swing, optimizer), Progress(args.rounds, interval=1.0) as progress:
        for done in range(1, args.rounds + 1):
            loss = optimizer.step(closure)
            progress.update(done, f"mean square residual {loss.item():.2e}")


def reference(angle: float, duration: float, steps: int) -> np.ndarray:
    """The angle at ``steps + 1`` times, by the classical Runge-Kutta method."""

    def derivative(state: np.ndarray) -> np.ndarray:
        return np.array([state[1], -math.sin(state[0])])

    h = duration / steps
    states = [np.array([angle, 0.0])]
    for _ in range(steps):
        state = states[-1]
        k1 = derivative(state)
        k2 = derivative(state + h / 2 * k1)
        k3 = derivative(state + h / 2 * k2)
        k4 = derivative(state + h * k3)
        states.append(state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.array(states)[:, 0]


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Let a network find the motion of a pendulum from its equation.")
    parser.add_argument("--angle", type=float, default=120, help="where it is let go, in degrees; 180 is upright")
    parser.add_argument(
        "--duration",
        type=float,
        default=5.0,
        help="in sqrt(length / gravity); beyond 6 such networks tend to go astray",
    )
    parser.add_argument("--points", type=int, default=100, help="times at which the equation is asked for")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=30, help="each of 20 iterations of L-BFGS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-error", type=float, default=1e-3, help="exit with status 1 when it is further off (rad)")
    args = parser.parse_args(argv)
    if min(args.points, args.width, args.rounds) < 1:
        parser.error("--points, --width and --rounds must be at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    rg.manual_seed(args.seed)
    swing = Swing(math.radians(args.angle), args.duration, args.width)
    start = time.perf_counter()
    train(swing, args)
    seconds = time.perf_counter() - start

    times = np.linspace(0, args.duration, 1001)
    exact = reference(swing.angle, args.duration, 1000)
    with rg.no_grad():
        found = swing(rg.from_numpy(times).reshape(-1, 1)).numpy().ravel()
    print("   time   network  reference")
    for i in range(0, 1001, 100):
        print(f"{times[i]:7.2f} {found[i]:9.5f} {exact[i]:10.5f}")
    error = np.abs(found - exact).max()
    print(f"largest error {error:.1e} rad after {seconds:.1f} s")
    if not error <= args.max_error:
        print(f"the error is above the allowed {args.max_error} rad; more --rounds may help", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
