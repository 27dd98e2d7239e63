"""Schedules that raise and lower the learning rate, and the momentum against it (Leslie Smith 2017 and 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from retrograd.optim.lr_scheduler._base import LRScheduler, check_optimizer, per_group, put, state_of_callable
from retrograd.optim.optimizer import Optimizer


class _WithMomentum(LRScheduler):
    """A schedule of the momentum as well: of ``momentum``, or of the first of ``betas``."""

    use_beta1: bool

    def _start_momentum(
        self, optimizer: Optimizer, last_epoch: int, base_momentum: Any, max_momentum: Any
    ) -> tuple[list[Any], list[Any]]:
        """Begin at the highest momentum; return the lowest and the highest, by group."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled, but "
                f"{type(optimizer).__name__} does not; set cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows = per_group("base_momentum", optimizer, base_momentum)
        highs = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, lowest, highest in zip(optimizer.param_groups, lows, highs, strict=True):
                self._set_momentum(group, highest)
                group["max_momentum"], group["base_momentum"] = highest, lowest
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


def _triangular(gamma: float, x: float) -> float:
    return 1.0


def _triangular2(gamma: float, x: float) -> float:
    return 1 / 2.0 ** (x - 1)


def _exp_range(gamma: float, x: float) -> float:
    return gamma**x


# mode: how the height of a cycle follows from x, and whether x counts cycles or iterations
_MODES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "triangular": (_triangular, "cycle"),
    "triangular2": (_triangular2, "cycle"),
    "exp_range": (_exp_range, "iterations"),
}


class CyclicLR(_WithMomentum):
    """Let the learning rate go up and down between two bounds; to be stepped after every batch.

    Smith 2017, "Cyclical Learning Rates for Training Neural Networks".

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    base_lr, max_lr
        The bounds, or lists of them for each group.
    step_size_up, step_size_down
        Number of steps of the way up, and of the way down (by default the same).
    mode
        ``"triangular"``: all cycles have the same height; ``"triangular2"``: each has half the height of the one
        before; ``"exp_range"``: the height is multiplied by ``gamma`` every step.
    gamma
        See ``mode``.
    scale_fn, scale_mode
        A function of one's own for the height: of the number of the cycle (``"cycle"``) or of the step
        (``"iterations"``).
    cycle_momentum
        Let the momentum go down and up meanwhile.
    base_momentum, max_momentum
        Its bounds.
    last_epoch
        The number of the last step of training that is resumed; -1 to begin.
    """

    _not_saved = ("optimizer", "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if mode not in _MODES and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None: mode {mode!r} is not one of {', '.join(_MODES)}")
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                put(group, "lr", lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode: str = scale_mode if scale_fn is not None else _MODES[mode][1]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            momentums = self._start_momentum(optimizer, last_epoch, base_momentum, max_momentum)
            self.base_momentums, self.max_momentums = momentums
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, as a fraction of the whole."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _MODES[self.mode][0](self.gamma, x)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for step ``self.last_epoch``, and set the momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, lowest, highest in bounds:
                self._set_momentum(group, highest - (highest - lowest) * height * scale)
        base_lrs = self.base_lrs
        return [low + (high - low) * height * scale for low, high in zip(base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` needs; of ``scale_fn`` only the attributes of a callable object."""
        return {**super().state_dict(), "_scale_fn_custom": state_of_callable(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called, with the ``scale_fn`` of this schedule."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


class OneCycleLR(_WithMomentum):
    """Raise the learning rate once, and let it fall far below where it began; to be stepped after every batch.

    Smith and Topin 2018, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates".

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    max_lr
        The highest learning rate, or a list of them for each group.
    total_steps
        Number of steps in all; or else ``epochs`` times ``steps_per_epoch``.
    epochs, steps_per_epoch
        See ``total_steps``.
    pct_start
        The fraction of steps in which it rises.
    anneal_strategy
        ``"cos"`` or ``"linear"``.
    cycle_momentum
        Let the momentum go down and up meanwhile.
    base_momentum, max_momentum
        Its bounds.
    div_factor
        It begins with ``max_lr / div_factor``.
    final_div_factor
        It ends with the first learning rate divided by this.
    three_phase
        Go down as long as up, and only then to the last learning rate.
    last_epoch
        The number of the last step of training that is resumed; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(pct_start * self.total_steps, self.total_steps, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for highest, group in zip(per_group("max_lr", optimizer, max_lr), optimizer.param_groups, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, last_epoch, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, fraction: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * fraction) + 1)
        return (end - start) * fraction + start

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for step ``self.last_epoch``, and set the momentum."""
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        phases = self._schedule_phases
        reached = (number for number, phase in enumerate(phases) if self.last_epoch <= phase["end_step"])
        number = next(reached, len(phases) - 1)
        phase, start = phases[number], phases[number - 1]["end_step"] if number else 0.0
        fraction = (self.last_epoch - start) / (phase["end_step"] - start)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal(*ends, fraction))
        return [
            self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], fraction)
            for group in self.optimizer.param_groups
        ]


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    product = 1
    for name, value in ({"total_steps": total_steps} if total_steps is not None else given).items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        product *= value
    return product


def _phases(rise: float, total: int, three_phase: bool) -> list[dict[str, Any]]:
    """The phases: for each its last step, and the names of the group options between which it interpolates."""

    def phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
        return {
            "end_step": end_step,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }

    up = phase(float(rise) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, phase(total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    down = phase(float(2 * rise) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
    return [up, down, phase(total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
