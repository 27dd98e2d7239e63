"""Refusing what cannot be watched, before training begins."""

from __future__ import annotations

from typing import Any


def check_watchable(model: Any, optimizer: Any) -> None:
    """Refuse what cannot be watched, before training begins."""
    if model is None:
        return
    parameters = list(model.parameters())
    if not parameters:
        raise ValueError(f"{type(model).__name__} has no parameters, so there is nothing to watch")
    if any(each.device.type == "meta" for each in parameters):
        name = next(name for name, each in model.named_parameters() if each.device.type == "meta")
        raise ValueError(
            f"{name} is on the meta device and has no elements yet; materialise the model (to_empty and initialise, "
            "or load a checkpoint) before watching it"
        )
    if optimizer is not None:
        own = {id(each) for each in parameters}
        if not any(id(each) in own for group in optimizer.param_groups for each in group["params"]):
            raise ValueError(
                f"this {type(optimizer).__name__} updates none of the model's parameters; was it created for another "
                "model, or before the parameters were replaced?"
            )
