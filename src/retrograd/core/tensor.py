"""The tensor: an array, its place in the graph, and its version.

Only state lives here. Operations, creation and conversion functions that are also methods add themselves through
:func:`retrograd.core.registry.method`, so that each is written once, beside its derivative.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.constructor import constructed_array
from retrograd.core.hooks import Hooks, RemovableHandle
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.device import as_device
from retrograd.dtypes import default_float

if TYPE_CHECKING:
    from retrograd.core.methods import Methods  # a stub of the methods that operations add to the class
    from retrograd.core.node import Node
    from retrograd.core.views import Moves, View
else:
    from retrograd.core.array_interface import ArrayInterface as Methods

Edge = tuple["Node", int]


class Meta:
    """What few tensors have: a leaf's flag and accumulator, a view's origin, hooks."""

    requires_grad: bool = False  # of a leaf; other tensors have an edge instead
    accumulator: Callable[[], Node | None] | None = None  # weak, because the accumulator holds the leaf
    view: View | None = None
    moved: Moves | None = None  # of a base that has views and whose dimensions were changed in place
    hooks: Hooks | None = None  # of a leaf; those of other tensors live on the node
    post_accumulate_hooks: Hooks | None = None
    inference: bool = False
    name: str | None = None


class Tensor(Methods):
    """An array that remembers how it was computed.

    Tensors are made by :func:`retrograd.tensor` and its relatives. Calling this class is torch's older way: it gives a
    tensor of the default dtype, of the given sizes without values, or with a copy of a sequence of numbers.

    Parameters
    ----------
    *data
        Ints, or a shape: the sizes. A sequence of numbers or an array: the values. A tensor: another one on its memory.
    device
        Where the tensor is to be.
    """

    __module__ = "retrograd"  # where users find it
    __slots__ = ("__dict__", "__weakref__", "_cell", "_data", "_edge", "_grad", "_meta")

    _data: np.ndarray
    _edge: Edge | None  # the node that computed it and which of its outputs it is; None for leaves and views
    _cell: list[int] | None  # [version], shared by all tensors on the same storage; None is an unshared version 0
    _meta: Meta | None
    _grad: Tensor | None

    # NumPy must leave ``ndarray + tensor`` to __array_ufunc__
    __array_priority__ = 1000

    def __init__(self, *data: Any, device: Any = None, **others: Any) -> None:
        if hasattr(self, "_data"):
            return  # the __new__ of a subclass has made it, perhaps from other arguments
        if others:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument '{next(iter(others))}'")
        if len(data) == 1 and isinstance(data[0], Tensor):
            self._data = data[0]._data
        else:
            self._data = constructed_array("Tensor", data, default_float(), as_device(device))
        self._edge = None
        self._cell = None
        self._meta = None
        self._grad = None

    @staticmethod
    def _make_subclass(kind: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """Return a leaf of a subclass on the memory of ``data``, for ``__new__`` of parameters with more attributes."""
        leaf = Tensor.__new__(kind)
        Tensor.__init__(leaf, data)
        leaf._cell = cell_of(data)
        return leaf.requires_grad_(require_grad)

    # --- place in the graph ---------------------------------------------------------------------------------------

    def _resolve_edge(self) -> Edge | None:
        """Where a gradient of this tensor goes: the full answer, for leaves and views too."""
        if self._edge is not None:
            return self._edge
        meta = self._meta
        if meta is None:
            return None
        if meta.view is not None:
            edge = meta.view.current_edge(self)
            if edge is not None:
                return edge
        if meta.requires_grad:
            return accumulator_of(self), 0
        return None

    def _own_meta(self) -> Meta:
        meta = self._meta
        if meta is None:
            meta = self._meta = Meta()
        return meta

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        if self._edge is not None:
            return True
        meta = self._meta
        if meta is None:
            return False
        return meta.requires_grad or (meta.view is not None and meta.view.last_edge(self) is not None)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, not {value!r}")
        if value and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. This one was computed and requires grad."
            )
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Turn recording on or off for this leaf, in place.

        Raises
        ------
        RuntimeError
            If the dtype is neither floating point nor complex, if the tensor is not a leaf and ``requires_grad`` is
            False, or if it was made in inference mode and that has been left.
        TypeError
            If ``requires_grad`` is not a bool.
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(
                f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {requires_grad!r}"
            )
        if not self.is_leaf:
            if not requires_grad:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                    "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            return self
        if requires_grad:
            if self._data.dtype.kind not in "fc":
                raise RuntimeError(
                    "only Tensors of floating point dtype can require gradients, "
                    f"but this one has dtype {self.dtype}; convert it first, for example with .to(retrograd.float32)"
                )
            if self.is_inference() and not local.inference:
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. "
                    "Make a clone first: x.clone().requires_grad_()"
                )
        if requires_grad or self._meta is not None:
            self._own_meta().requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user rather than computed by a recorded operation."""
        if self._edge is not None:
            return False
        meta = self._meta
        return meta is None or meta.view is None or meta.view.last_edge(self) is None

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed this tensor, or None for a leaf."""
        if self._edge is not None:
            return self._edge[0]
        meta = self._meta
        if meta is not None and meta.view is not None:
            edge = meta.view.current_edge(self)
            return None if edge is None else edge[0]
        return None

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this tensor is."""
        edge = self._resolve_edge()
        return 0 if edge is None else edge[1]

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` accumulated, or None."""
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warn_user(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
                "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor "
                "by mistake, make sure you access the leaf Tensor instead. An update w = w - rate * w.grad makes a new "
                "tensor, which is no leaf: write w -= rate * w.grad inside `with retrograd.no_grad():`."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                    f"{_to_be_made(value)}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._data.shape != self._data.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                    f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
                )
            if value._data.dtype != self._data.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with dtype "
                    f"'{self.dtype}'. The gradient must match the tensor's dtype"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether :meth:`retain_grad` was called on this non-leaf tensor."""
        meta = self._meta
        edge = meta.view.last_edge(self) if meta is not None and meta.view is not None else self._edge
        if edge is None:
            return False
        extras = edge[0].extras
        return extras is not None and edge[1] in extras.retained

    def retain_grad(self) -> None:
        """Make ``backward`` store the gradient of this non-leaf tensor in ``.grad``. Does nothing for a leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf:
            return
        edge = self._resolve_edge()
        assert edge is not None
        edge[0].own_extras().retained[edge[1]] = weakref.ref(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` when the gradient of this tensor is computed; what it returns replaces the gradient.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.is_leaf:
            meta = self._own_meta()
            if meta.hooks is None:
                meta.hooks = Hooks()
            return meta.hooks.register(hook)
        edge = self._resolve_edge()
        assert edge is not None
        return edge[0].own_extras().tensor_hooks_of(edge[1]).register(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after the gradient of this leaf was accumulated into ``.grad``.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad or is not a leaf.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        meta = self._own_meta()
        if meta.post_accumulate_hooks is None:
            meta.post_accumulate_hooks = Hooks()
        return meta.post_accumulate_hooks.register(hook)

    @property
    def _backward_hooks(self) -> Hooks | None:
        return None if self._meta is None else self._meta.hooks

    # --- version and views ----------------------------------------------------------------------------------------

    @property
    def _version(self) -> int:
        return 0 if self._cell is None else self._cell[0]

    def _is_view(self) -> bool:
        """Whether it was made as a view of another tensor, whose writes it shares."""
        return self._meta is not None and self._meta.view is not None

    is_view = _is_view

    @property
    def _base(self) -> Tensor | None:
        if self._meta is None or self._meta.view is None:
            return None
        return self._meta.view.base

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return self._meta is not None and self._meta.inference

    def detach(self) -> Tensor:
        """Return a tensor on the same storage, with the same version counter, that no gradient flows through."""
        out = wrap(self._data, None, cell_of(self))
        if self._meta is not None and self._meta.inference:
            out._own_meta().inference = True
        return out

    def detach_(self) -> Tensor:
        """Cut this tensor off the graph that computed it, in place, making it a leaf.

        Raises
        ------
        RuntimeError
            If the tensor is a view: its history belongs to its base.
        """
        if self._is_view():
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
                "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
                "hence detach_() cannot be called on these gradients."
            )
        self._edge = None
        if self._meta is not None:
            self._meta.requires_grad = False
        if local.tangents is not None:
            local.tangents.drop(self)
        return self

    @property
    def data(self) -> Tensor:
        """The same storage without history and with a version counter of its own: writes go unseen by autograd."""
        return wrap(self._data)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}{_to_be_made(value)}")
        if self.requires_grad and value._data.dtype.kind not in "fc":
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        if self._meta is not None and (value._data.dtype, value._data.shape) != (self._data.dtype, self._data.shape):
            self._meta.accumulator = None  # it would make gradients fit the old data
        self._data = value._data

    @property
    def name(self) -> str | None:
        """A name for reports, or None."""
        return None if self._meta is None else self._meta.name

    @name.setter
    def name(self, value: str | None) -> None:
        self._own_meta().name = value

    __hash__ = object.__hash__  # by identity, though == is elementwise

    def __format__(self, spec: str) -> str:
        # formatted like a number, unless its repr says more, as for parameters
        if self._data.ndim == 0 and (spec or not (local.vmaps or "_is_param" in self.__dict__)):
            return format(self.item(), spec)
        if spec:
            raise TypeError(
                f"the format {spec!r} is for one number, but this tensor has shape {list(self._data.shape)}; format "
                "its elements, f'{x[0]:.3f}', or set how tensors are shown with retrograd.set_printoptions()"
            )
        return object.__format__(self, spec)

    def __repr__(self) -> str:
        from retrograd.core.tensor_repr import show_tensor

        return show_tensor(self)


_new = Tensor.__new__


def _to_be_made(value: Any) -> str:
    """How to make a tensor of a value, for the end of an error message."""
    if isinstance(value, np.ndarray):
        return "; convert it with retrograd.from_numpy()"
    return "; convert it with retrograd.tensor()" if isinstance(value, (int, float, complex, list, tuple)) else ""


def wrap(data: Any, edge: Edge | None = None, cell: list[int] | None = None) -> Tensor:
    """Make a tensor around an array, without copying it."""
    out = _new(Tensor)
    out._data = data
    out._edge = edge
    out._cell = cell
    out._meta = None
    out._grad = None
    return out


def cell_of(tensor: Tensor) -> list[int]:
    """The version cell of a tensor, made now if it was not needed before."""
    cell = tensor._cell
    if cell is None:
        cell = tensor._cell = [0]
    return cell


def bump(tensor: Tensor) -> None:
    """Count a write to the storage of ``tensor``; inference tensors do not count."""
    meta = tensor._meta
    if meta is None or not meta.inference:
        cell = tensor._cell
        if cell is None:
            tensor._cell = [1]
        else:
            cell[0] += 1


leaf_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a forked child has none of the threads that may hold it
    os.register_at_fork(after_in_child=leaf_lock._at_fork_reinit)  # type: ignore[attr-defined]
_accumulate_grad: Any = None


def set_accumulator(node_class: type[Node]) -> None:
    """Set the class that accumulates gradients into leaves; for :mod:`retrograd.core.node`, which imports this."""
    global _accumulate_grad
    _accumulate_grad = node_class


def accumulator_of(leaf: Tensor) -> Node:
    """The node that adds gradients to ``leaf.grad``: the existing one, or a new one."""
    meta = leaf._meta or leaf._own_meta()
    ref = meta.accumulator
    node = None if ref is None else ref()
    if node is None:
        with leaf_lock:  # two threads may use a new leaf at the same moment
            ref = meta.accumulator
            node = None if ref is None else ref()
            if node is None:
                node = _accumulate_grad(leaf)
                meta.accumulator = weakref.ref(node)
    return node
