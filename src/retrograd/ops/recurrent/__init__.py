"""Recurrent networks: one step, and whole layers over sequences in one operation each."""

from __future__ import annotations

from retrograd.ops.recurrent.layers import recurrent_layer
from retrograd.ops.recurrent.steps import GATES, STEPS, Operands, gates_of_input

__all__ = ["GATES", "STEPS", "Operands", "gates_of_input", "recurrent_layer"]
