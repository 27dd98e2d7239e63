"""The graph itself: nodes, edges, what is saved along them, and its picture; ``torch.autograd.graph`` and ``draw``."""

from retrograd.autograd.graph.drawing.picture import Picture, draw
from retrograd.autograd.graph.edges import GradientEdge, Node, get_gradient_edge, increment_version
from retrograd.autograd.graph.hooks import (
    disable_saved_tensors_hooks,
    region_activation_memory_budget,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
    set_override_stale_capture_stream,
    set_warn_on_accumulate_grad_stream_mismatch,
)
from retrograd.autograd.graph.mutation import allow_mutation_on_saved_tensors

__all__ = [
    "GradientEdge",
    "Node",
    "Picture",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "draw",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]
