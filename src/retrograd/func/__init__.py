"""Function transforms, as ``torch.func`` has them: functions in, functions out.

``grad(f)`` is the gradient function of ``f``, ``vmap(f)`` applies it to a batch, ``jacrev``, ``jacfwd`` and ``hessian``
are its derivatives as matrices. They compose to any depth: ``vmap(grad(f))`` gives a gradient for every sample,
``grad(grad(f))`` the second derivative, ``jacfwd(jacrev(f))`` the Hessian.

Tensors need no ``requires_grad``; NumPy arrays are taken as tensors. What a transform returns has a history only if
something outside asked for one: an input or a captured tensor that requires grad, or another transform around it.

>>> rg.func.grad(rg.func.grad(rg.sin))(rg.tensor(1.0))
tensor(-0.8415)
"""

from typing import TYPE_CHECKING

from retrograd.func.forward import hessian, jacfwd, jvp, linearize
from retrograd.func.rearrangement import rearrange
from retrograd.func.reverse import grad, grad_and_value, jacrev, value_and_grad, vjp
from retrograd.func.stateless import functional_call, replace_all_batch_norm_modules_, stack_module_state
from retrograd.missing_names import missing
from retrograd.vectorize import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:  # for type checkers

    def __getattr__(name):
        raise missing(__name__, name)
