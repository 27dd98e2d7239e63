"""User-written operations with a derivative of their own, as ``torch.autograd.function`` has them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.autograd._function_node import FunctionNode
from retrograd.autograd._function_saving import save
from retrograd.core import state
from retrograd.core.errors import kind_name
from retrograd.core.in_place import check_writable, rebase
from retrograd.core.node import FREED, Node
from retrograd.core.observer import observed_function
from retrograd.core.signatures import signature_of
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Edge, Tensor, bump
from retrograd.core.views import alias_of, move_retained

_IN_FUNCTION = (
    "Output {nr} of {name} is a view and is being modified inplace. This view was created inside a custom Function (or "
    "because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom "
    "backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can "
    "fix this by cloning the output of the custom Function."
)

_NOT_AN_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)


class FunctionCtx:
    """What ``forward`` and ``backward`` of a :class:`Function` share. Users keep attributes of their own here."""

    to_save: tuple[Tensor | None, ...] = ()
    dirty_tensors: tuple[Tensor, ...] = ()
    non_differentiable: tuple[Tensor, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    saved_for_forward: tuple[Tensor | None, ...] | None = None

    def __init__(self, node: FunctionNode | None = None) -> None:
        self.__node = (lambda: None) if node is None else weakref.ref(node)  # which holds this

    def __getattr__(self, name: str) -> Any:
        node = self.__node()
        if node is not None and (name in _OF_THE_NODE or name in vars(node)):  # or what users keep on grad_fn
            return getattr(node, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...  # for type checkers: users may set any attribute

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``; they are checked for writes in between.

        Inputs and outputs of ``forward`` should be kept this way rather than as attributes, which would keep the graph
        alive.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which gets them as ``saved_tensors``; without a dual level they are dropped.

        Raises
        ------
        TypeError
            If one is neither a Tensor nor None; keep other things as attributes.
        """
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_forward expects all arguments to be tensors, but argument {position} is of type "
                    f"{type(tensor).__name__}; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What :meth:`save_for_backward` kept; in ``jvp``, what :meth:`save_for_forward` did.

        Raises
        ------
        RuntimeError
            If one of them was written to since, or if they were freed by an earlier ``backward``.
        """
        if self.saved_for_forward is not None:
            return self.saved_for_forward  # type: ignore[return-value]  # a None is there only where one was given
        node = self.__node()
        if node is None:
            raise RuntimeError(FREED)
        return node.saved_tensors_of_backward()

    @property
    def saved_variables(self) -> tuple[Tensor, ...]:
        """The old name of :attr:`saved_tensors`."""
        warn_user("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs ``forward`` wrote to. They must be returned.

        Raises
        ------
        RuntimeError
            If one is not a Tensor.
        """
        _check_marked("mark_dirty", tensors)
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient.

        Raises
        ------
        RuntimeError
            If one is not a Tensor.
        """
        _check_marked("mark_non_differentiable", tensors)
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for outputs that no gradient reached."""
        self.materialize_grads = value


# What torch has on the same object: to it, ``ctx`` is the node.
_OF_THE_NODE = frozenset(
    ("_raw_saved_tensors", "_sequence_nr", "metadata", "name", "next_functions", "register_hook", "register_prehook")
)

BackwardCFunction = FunctionNode


class _FunctionMeta(type):
    """Gives every Function the classes of its node and of its ctx, named after it."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        ctx_class = type(f"{name}Backward", (FunctionCtx,), {})
        cls._backward_cls = type(f"{name}Backward", (FunctionNode,), {"function": cls, "ctx_class": ctx_class})


class Function(metaclass=_FunctionMeta):
    """An operation whose derivative the user writes.

    Subclass it with static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, or ``forward(*args)``,
    ``setup_context(ctx, inputs, output)`` and ``backward(ctx, *grads)``, and call it through :meth:`apply`. A method
    ``jvp`` is for forward mode, and ``vmap`` for batches; both may be left out. ``ctx`` is a :class:`FunctionCtx`.

    Attributes
    ----------
    generate_vmap_rule : bool
        torch's; not needed here, where ``forward`` is used for all samples at once unless there is a ``vmap``.
    clear_saved_tensors_on_access : bool
        Set it to True where ``backward`` reads ``ctx.saved_tensors`` once, so that the node lets go of them then.
    boxed_grads_call : bool
        Set it to True for a ``backward(ctx, grads)`` that gets the gradients in one list, and frees each by removing
        it.

    Examples
    --------
    >>> class Exp(rg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (result,) = ctx.saved_tensors
    ...         return grad * result
    >>> x = rg.tensor([0.0, 1.0], requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1.0000, 2.7183])
    """

    _backward_cls: type[FunctionCtx]
    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_user(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you "
            f"should invoke them on the class itself, with {type(self).__name__}.apply(...).",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            f"function with static forward method, and call it through {type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result, a tensor or a tuple of tensors and other things; nothing is recorded inside.

        Parameters
        ----------
        *args
            ``ctx`` and the arguments of :meth:`apply`; without ``ctx`` if there is a :meth:`setup_context`.
        **kwargs
            Never passed: :meth:`apply` turns keyword arguments into positional ones.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what ``backward`` needs, if ``forward`` takes no ``ctx``.

        Parameters
        ----------
        ctx
            Where to keep it: ``ctx.save_for_backward(...)`` for tensors, attributes for other things.
        inputs
            The arguments of ``forward``, as a tuple.
        output
            What ``forward`` returned.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the arguments from those of the outputs.

        Parameters
        ----------
        ctx
            As ``forward`` or ``setup_context`` left it; ``ctx.needs_input_grad`` says which gradients are wanted.
        *grad_outputs
            One for each output; zeros for outputs that nothing depends on (None after
            ``ctx.set_materialize_grads(False)``).
        **kwargs
            Never given: they let checkers accept whatever parameters a subclass has.

        Returns
        -------
        Tensor, None, or a tuple of them
            One for each argument of ``forward``; None for what has no gradient.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **kwargs: Any) -> Any:
        """Compute the tangents of the outputs from those of the arguments, for forward mode.

        Parameters
        ----------
        ctx
            As for :meth:`backward`; ``ctx.saved_tensors`` has what ``ctx.save_for_forward`` kept.
        *grad_inputs
            One for each argument of ``forward``: None for what is no tensor, zeros for tensors without a tangent (None
            after ``ctx.set_materialize_grads(False)``).

        Returns
        -------
        Tensor, None, or a tuple of them
            One for each output.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD. Reverse "
            "mode needs no jvp: use jacrev(grad(f), chunk_size=1) in place of hessian(f), and vjp in place of jvp."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """Compute the outputs for a batch, inside of :func:`retrograd.vmap`; only where that is better done by hand.

        Parameters
        ----------
        info
            Has ``batch_size`` and ``randomness``.
        in_dims
            For every argument, which dimension the samples lie along, or None if it is the same for all of them.

        Returns
        -------
        outputs, out_dims
            The outputs for the batch, and where the samples are in each of them.
        """
        raise NotImplementedError("vmap is not implemented; forward gets all samples at once.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__:
            if "backward" in cls.__dict__:
                raise RuntimeError(
                    f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed. {cls.__name__} "
                    "should only implement one of them."
                )
            cls.backward = cls.__dict__["vjp"]  # type: ignore[method-assign]

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record the operation.

        Raises
        ------
        RuntimeError
            If a tensor was marked dirty but not returned, or if a leaf that requires grad was written to.
        TypeError
            If an argument given by keyword has no position among those given.
        """
        observer = state.local.observer
        if observer is not None:
            return observed_function(observer, observer.function_begin(cls.__name__, args), cls._apply, *args, **kwargs)
        return cls._apply(*args, **kwargs)

    @classmethod
    def _apply(cls, *args: Any, **kwargs: Any) -> Any:
        separate = cls.setup_context is not Function.setup_context
        if separate and (kwargs or getattr(cls.forward, "__defaults__", None)):
            args = _by_position(cls, args, kwargs, True)
        elif kwargs:
            args = _by_position(cls, (None, *args), kwargs, False)[1:]
        if state.local.vmaps:
            from retrograd.vectorize import apply_batched, levels_of, lift_arguments

            if cls.vmap is not Function.vmap and levels_of(args):
                return apply_batched(cls, args)
            args = lift_arguments(args)
        node = cls._backward_cls(tuple(isinstance(arg, Tensor) for arg in args))
        ctx = node.ctx
        recording = state.local.grad_enabled
        edges = tuple(arg._resolve_edge() for arg in args if isinstance(arg, Tensor))
        ctx.needs_input_grad = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        executable = recording and any(edge is not None for edge in edges)
        before = state.local.forward_enabled, recording, state.local.mode
        try:
            state.local.forward_enabled = False
            state.set_grad_enabled(False)
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            state.local.forward_enabled, state.local.grad_enabled, state.local.mode = before
            state.refresh()
        if state.monitor is not None:
            state.monitor.look(args, output)
        node.next = edges
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        wrapped = _wrap_outputs(node, [arg for arg in args if isinstance(arg, Tensor)], outputs, executable)
        if state.local.tangents is not None:
            from retrograd.autograd._function_jvp import propagate  # only forward mode needs it

            propagate(node, args, outputs, wrapped, state.local.tangents)
        ctx.saved_for_forward = None
        if executable:
            node.entries = save(node, wrapped)
        ctx.to_save = ctx.dirty_tensors = ctx.non_differentiable = ()
        return wrapped[0] if single else tuple(wrapped)


def _check_marked(method: str, tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"{method} only accepts variable arguments, but got {type(tensor).__name__}")


def _by_position(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any], fill: bool) -> Any:
    """The arguments of a call of ``forward`` by position, as gradients are; ``fill`` for those left out."""
    try:
        bound = signature_of(cls.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.apply(): {error}") from None
    if fill:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"forward() got an unexpected keyword argument {next(iter(bound.kwargs))!r}: an argument before it in the "
            "signature is missing, or it is keyword-only"
        )
    return bound.args


def _contains(tensors: Sequence[Any], tensor: Any) -> bool:
    return any(item is tensor for item in tensors)


def _wrap_outputs(node: FunctionNode, inputs: list[Tensor], outputs: tuple[Any, ...], executable: bool) -> list[Any]:
    """Connect what ``forward`` returned to the node."""
    ctx = node.ctx
    for dirty in ctx.dirty_tensors:
        if not _contains(outputs, dirty):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function."
            )
        if executable and not _contains(inputs, dirty):
            if dirty._is_view():  # its base has no node that could represent the write
                raise RuntimeError(_NOT_AN_INPUT + " This one is a view; return a clone() of it, unmarked.")
            warn_user(_NOT_AN_INPUT)
        bump(dirty)  # once, and before returned views of it become results of this node
    node.outputs = max(len(outputs), 1)
    shapes = [output._data.shape if isinstance(output, Tensor) else None for output in outputs]
    dtypes = [output._data.dtype if isinstance(output, Tensor) else None for output in outputs]
    node.shape, node.dtype = (shapes[0], dtypes[0]) if len(outputs) == 1 else (shapes, dtypes)
    wrapped: list[Any] = []
    for nr, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            wrapped.append(output)
            continue
        is_input = _contains(inputs, output)
        is_dirty = _contains(ctx.dirty_tensors, output)
        differentiable = (
            executable and not _contains(ctx.non_differentiable, output) and output._data.dtype.kind in "fc"
        )
        wrapped.append(_wrap_output(node, nr, output, is_input, is_dirty, differentiable))
    if executable and not any(isinstance(output, Tensor) for output in outputs):
        _warn_of_arrays(node.function, outputs)
    return wrapped


def _warn_of_arrays(function: type[Function], outputs: tuple[Any, ...]) -> None:
    """Warn of a ``forward`` written in NumPy that returns an array, not a tensor: the gradient would end there."""
    for output in outputs:
        if isinstance(output, np.ndarray | np.inexact) and output.dtype.kind in "fc":
            warn_user(
                f"{function.__name__}.forward returned {kind_name(output)} and no tensor, so no output can have a "
                "gradient; convert it with retrograd.as_tensor()"
            )
            return


def _wrap_output(
    node: FunctionNode, nr: int, output: Tensor, is_input: bool, is_dirty: bool, differentiable: bool
) -> Tensor:
    if is_dirty:
        if differentiable:
            _check_written(output, node.name())
            _rebase_output(node, nr, output)
        if differentiable or not output.requires_grad:
            return output
    if not differentiable and output.requires_grad:
        return output.detach() if is_input else output.detach_()
    if is_input:
        if _contains(node.ctx.to_save, output) and node.function.setup_context is not Function.setup_context:
            raise RuntimeError(
                "An input that has been returned as-is as output is being saved for backward. This is not supported if "
                "you override setup_context. You should return and save a view of the input instead, e.g. with "
                "x.view_as(x), or setup ctx inside the forward function itself."
            )
        alias = alias_of(output, _IN_FUNCTION.format(nr=nr, name=node.name().removesuffix("Backward")))
        alias._meta.view.set_edge(alias, (node, nr) if differentiable else None)  # type: ignore[union-attr]
        return alias
    meta = output._meta
    if meta is not None and meta.view is not None:
        meta.view.forbidden = _IN_FUNCTION.format(nr=nr, name=node.name().removesuffix("Backward"))
        if differentiable:
            meta.view.set_edge(output, (node, nr))
    elif differentiable:
        if meta is not None:
            meta.requires_grad = False
        output._edge = (node, nr)
    return output


def _check_written(output: Tensor, name: str) -> None:
    if output.is_leaf and output.requires_grad:
        raise RuntimeError(
            f"a leaf Variable that requires grad has been used in an in-place operation. (by {name}, which has marked "
            "it dirty; give it a clone())"
        )
    if output._meta is not None and output._meta.view is not None:
        output._meta.view.check_inplace()  # even if its base has no gradient yet: now it gets one
    check_writable(output, name)


def _rebase_output(node: FunctionNode, nr: int, output: Tensor) -> None:
    if output._is_view():
        if node.outputs > 1:
            raise RuntimeError(
                "If your Function modifies an input that is a view in place, it must have exactly one output; "
                "clone the input before calling the Function"
            )
        rebase(output, node)
    else:
        move_retained(output, output._edge, (node, nr))
        output._edge = (node, nr)
        output._grad = None
        if output._meta is not None:
            output._meta.requires_grad = False


class DelayedError(Node):
    """Raises when a gradient arrives."""

    __slots__ = ("message",)

    def __init__(self, message: str, tensor: Tensor, edges: tuple[Edge | None, ...]) -> None:
        super().__init__(edges, tensor._data.shape, tensor._data.dtype)
        self.message = message

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> Any:
        raise RuntimeError(self.message)

    backward_recorded = backward


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that is not differentiable: differentiating it raises instead of giving nonsense.

    Parameters
    ----------
    function
        The ``backward``, under ``@staticmethod``. It runs with recording off.
    """

    @functools.wraps(function)
    def wrapper(ctx: FunctionCtx, *args: Any) -> Any:
        before = recording, _ = state.local.grad_enabled, state.local.mode
        try:
            state.set_grad_enabled(False)
            outputs = function(ctx, *args)
        finally:
            state.local.grad_enabled, state.local.mode = before
            state.refresh()
        edges = tuple(arg._resolve_edge() for arg in args if isinstance(arg, Tensor))
        if not recording or not any(edge is not None for edge in edges):
            return outputs
        single = not isinstance(outputs, (tuple, list))
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        guarded = []
        for output in (outputs,) if single else outputs:
            if isinstance(output, Tensor):
                output = output.detach()
                output._edge = (DelayedError(message, output, edges), 0)
            guarded.append(output)
        return guarded[0] if single else tuple(guarded)

    return wrapper


class InplaceFunction(Function):
    """A Function with a flag that says whether it works in place; kept for torch's older code."""


class NestedIOFunction(Function):
    """A Function of nested tuples, kept for torch's older code by name: like there, it can no longer be called.

    Give :class:`Function` the tensors one by one instead.
    """

    def forward_extended(self, *input: Any) -> None:
        """Compute the output."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> None:
        """Compute the gradients."""
        raise NotImplementedError


__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
