"""The base class of all neural network modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from retrograd.autograd.grad_mode import no_grad
from retrograd.core import state
from retrograd.core.hooks import Hooks
from retrograd.core.sites import enter_module
from retrograd.core.tensor import Tensor
from retrograd.device import as_device
from retrograd.dtypes import float16, float32, float64
from retrograd.nn.modules._hooks import (
    Hooked,
    backward,
    backward_pre,
    forward,
    forward_pre,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from retrograd.nn.modules._members import Members
from retrograd.nn.modules._state import Stateful, _IncompatibleKeys
from retrograd.ops.copying import parse_to

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class _Callable(Protocol[P, R]):
        """The type of a module's call: it takes what ``forward`` takes, and returns what that returns."""

        _forward_hooks: Any
        _forward_pre_hooks: Any
        _backward_hooks: Any
        _backward_pre_hooks: Any

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        def _call_with_hooks(self, args: Any, kwargs: Any) -> Any: ...


__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class Module(Members, Stateful, Hooked):
    """A part of a neural network: parameters, buffers and other modules, and what is computed from them.

    Subclasses call ``super().__init__()``, assign parameters and modules to attributes, and define ``forward``. Calling
    the module calls ``forward``, with the hooks around it.

    Attributes
    ----------
    training
        True in training mode, False in evaluation mode; see :meth:`train`.

    Examples
    --------
    >>> class Net(rg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = rg.nn.Linear(4, 8)
    ...         self.out = rg.nn.Linear(8, 2)
    ...
    ...     def forward(self, x):
    ...         return self.out(rg.relu(self.hidden(x)))
    >>> net = Net()
    >>> net
    Net(
      (hidden): Linear(in_features=4, out_features=8, bias=True)
      (out): Linear(in_features=8, out_features=2, bias=True)
    )
    >>> net(rg.ones(3, 4)).shape
    retrograd.Size([3, 2])
    """

    training: bool
    _instead_of_forward = ""  # said where a class without ``forward`` is called
    call_super_init = False  # True in a class with further bases after this one, to whose constructor arguments go on

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            wrong = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {wrong}")
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
            _forward_pre_hooks=Hooks(),
            _forward_hooks=Hooks(),
            _backward_pre_hooks=Hooks(),
            _backward_hooks=Hooks(),
            _state_dict_pre_hooks=Hooks(),
            _state_dict_hooks=Hooks(),
            _load_state_dict_pre_hooks=Hooks(),
            _load_state_dict_post_hooks=Hooks(),
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a pickled or copied module; a class that keeps some out of pickles extends this."""
        self.__dict__.update(state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # any arguments, so that type checkers accept every override
        """Compute the output. Subclasses define it; call the module itself, which runs the hooks, too."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function{self._instead_of_forward}'
        )

    def __call__(self: _Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        hooked = (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or forward
            or forward_pre
            or backward
            or backward_pre
        )
        if state.monitor is None:
            return self._call_with_hooks(args, kwargs) if hooked else self.forward(*args, **kwargs)
        outer = enter_module(self)
        try:
            return self._call_with_hooks(args, kwargs) if hooked else self.forward(*args, **kwargs)
        finally:
            state.local.within = outer

    # --- modes ----------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Switch this module and those in it to training mode, or to evaluation mode; it matters to some layers only.

        Dropout drops, and batch normalisation uses the statistics of the batch, in training mode only.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether all parameters require grad: False freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero.

        Parameters
        ----------
        set_to_none
            Set ``.grad`` to None, which saves memory and an addition, instead of zero.
        """
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if parameter.grad.grad_fn is not None:
                    parameter.grad.detach_()
                else:
                    parameter.grad.requires_grad_(False)
                parameter.grad.zero_()

    # --- dtype and device -----------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn`` with every module in this one, children first, and with this one; for example to initialise.

        Examples
        --------
        >>> def init_weights(module):
        ...     if isinstance(module, rg.nn.Linear):
        ...         rg.nn.init.ones_(module.weight)
        >>> net = rg.nn.Sequential(rg.nn.Linear(2, 1), rg.nn.ReLU()).apply(init_weights)
        >>> net[0].weight
        Parameter containing:
        tensor([[1., 1.]], requires_grad=True)
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of all parameters, their gradients, and all buffers by the results of ``fn``."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            grad = parameter.grad
            with no_grad():
                parameter.data = fn(parameter)
                if grad is not None:
                    grad.data = fn(grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert parameters and buffers, in place, to another dtype or device.

        The forms are ``to(dtype)``, ``to(device, dtype)`` and ``to(tensor)``. Integer buffers keep their dtype.

        Raises
        ------
        TypeError
            If the dtype is neither floating point nor complex.
        RuntimeError
            If a copy is asked for.
        """
        dtype, device, copied = parse_to(
            args, kwargs.pop("dtype", None), kwargs.pop("device", None), kwargs.pop("copy", False), kwargs
        )
        if copied:
            raise RuntimeError(
                ".to() does not accept copy argument: modules are converted in place; convert copy.deepcopy(module)"
            )
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            takes_dtype = tensor.is_floating_point() or tensor.is_complex()
            return tensor.to(device=device, dtype=dtype if takes_dtype else None)

        return self._apply(convert)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, in place, to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _floating_to(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers, in place, to float32."""
        return self._floating_to(float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers, in place, to float64."""
        return self._floating_to(float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers, in place, to float16."""
        return self._floating_to(float16)

    def cpu(self) -> Self:
        """Move parameters and buffers, in place, to the CPU."""
        return self._apply(lambda tensor: tensor.to("cpu"))

    def cuda(self, device: Any = None) -> Self:
        """Move parameters and buffers, in place, to a GPU."""
        target = as_device("cuda" if device is None else device)
        return self._apply(lambda tensor: tensor.to(target))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without copying their values."""
        return self._apply(lambda tensor: tensor.new_empty(tensor.shape, device=device), recurse=recurse)

    def bfloat16(self) -> Self:
        """Raise: there are no tensors of bfloat16."""
        raise NotImplementedError("bfloat16: NumPy has no such dtype; use float() or half()")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: see :func:`retrograd.compile`."""

    def share_memory(self) -> Self:
        """Raise: tensors lie in the memory of one process."""
        raise NotImplementedError("share_memory: tensors cannot be moved to memory shared between processes")

    # --- text -----------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """Return what stands between the parentheses of ``repr``. For subclasses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + indented(repr(child)) for name, child in self._modules.items()]
        if not children and len(lines) < 2:
            return f"{self._get_name()}({extra})"
        body = "".join(f"\n  {line}" for line in lines + children)
        return f"{self._get_name()}({body}\n)"


def _addindent(text: str, count: int) -> str:
    """A text whose lines, except for the first, begin with more spaces; summaries of models import it."""
    return text.replace("\n", "\n" + " " * count)


def indented(text: str) -> str:
    """A text whose lines, except for the first, begin with two more spaces."""
    return _addindent(text, 2)
