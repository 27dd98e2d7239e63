"""The operations of a step as records, whether read from a live graph or recorded in a second run."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.source_locations.autograd_threads import place_of
from retrograd.anomaly.stack_frames import Position


@dataclass(eq=False)
class Argument:
    """An argument of an operation.

    Attributes
    ----------
    name
        torch's name of the parameter.
    value
        A tensor or a plain value; None if it is not known.
    made_by, output
        The call that it is a result of, and the result's index; None for a value from outside.
    leaf
        The parameter itself, where ``value`` is one or a view of one.
    missing
        Whether there was a value, but nothing has kept it.
    original
        The tensor itself, if ``value`` is a copy of what it held before it was written to.
    edge
        The index of this argument's gradient among those that the operation's node passes on, if known.
    """

    name: str
    value: Any = None
    made_by: Call | None = None
    output: int = 0
    leaf: Tensor | None = None
    missing: bool = False
    original: Tensor | None = None
    edge: int | None = None

    @property
    def tensor(self) -> Tensor | None:
        return self.value if isinstance(self.value, Tensor) else None

    @property
    def is_bad_number(self) -> bool:
        """Whether it is a Python number that is not finite."""
        return isinstance(self.value, (float, complex)) and not cmath.isfinite(self.value)

    @property
    def itself(self) -> Tensor | None:
        """The program's tensor, by which the argument is identified."""
        return self.tensor if self.original is None else self.original


_AVERAGES = ("running_mean", "running_var")  # which a normalisation only writes to in training mode


@dataclass(eq=False)
class Call:
    """One operation.

    Attributes
    ----------
    name
        Of the dispatcher's entry (``"aten.log.default"``) or of the graph's node (``"LogBackward0"``).
    args, outputs
        The arguments and results; an unknown result is None.
    order
        The number of the call, in the order in which they happened.
    pointwise
        Whether an element of the output depends only on the arguments' elements at the same position.
    seq
        The sequence number of the autograd node that it made, if any.
    forward
        For a node's work in backward, the operation that made the node.
    code, at, modules
        The line that called it, and the modules around it, innermost first.
    callers
        The program's own instructions that led to that line, the innermost first; see :func:`.stack_frames.callers_of`.
    applied
        The line that called the user's autograd Function inside which it happened.
    inside
        In backward, the operation in a hook, or in the backward function of the user's own, that gave birth.
    variables
        The variables that the line of such an operation reads.
    bad
        Whether a result was not finite when it was made, if known.
    entry
        The dispatcher's entry, through which it can be called once more, if known.
    node
        Its node, if it was read from the graph; for work in backward, only that of a reentrant checkpoint.
    kept
        Whether its tensors are still held.
    overwritten
        The tensors that ``outputs`` holds copies of because they have been written to, and those detached from
        results; kept alive so that no other tensor is mistaken for one of them.
    shape
        The shape of the first result, if known although the result is not.
    part, whole
        If it has written to a part of a tensor: that part, and the tensor with the call that made it before.
    """

    name: str
    args: list[Argument]
    outputs: list[Any]
    order: float
    pointwise: bool = False
    seq: float | None = None
    forward: Call | None = None
    code: CodeType | None = None
    at: int = 0
    modules: tuple[Any, ...] = ()
    callers: tuple[Position, ...] = ()
    applied: tuple[CodeType, int] | None = None
    inside: Call | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    is_backward: bool = False
    thread: str | None = None
    bad: bool = False
    entry: Any = field(default=None, repr=False)
    node: Any = field(default=None, repr=False)
    kept: bool = field(default=True, repr=False)
    overwritten: list[Tensor] = field(default_factory=list, repr=False)
    shape: tuple[int, ...] | None = None
    part: Any = field(default=None, repr=False)
    whole: Argument | None = field(default=None, repr=False)

    @property
    def is_unseen(self) -> bool:
        """Whether it happened at an unknown place inside a user's Function."""
        if self.applied is None or self.inside is not None:
            return False
        return self.is_backward or self.applied == (self.code, self.at)

    @property
    def known(self) -> bool:
        return all(output is not None for output in self.outputs)

    def tensors(self) -> Iterator[Argument]:
        """The arguments that can contain a NaN and from which results are made."""
        trains = any(each.name == "training" and each.value is True for each in self.args)
        for argument in self.args:
            if trains and argument.name in _AVERAGES:
                continue
            tensor = argument.tensor
            if argument.made_by is not None or argument.missing or (tensor is not None and can_be_bad(tensor)):
                yield argument

    def places_infinity(self) -> bool:
        """Whether it writes an infinity that was passed as a number: a mask, an initial minimum."""
        return any(isinstance(each.value, float) and math.isinf(each.value) for each in self.args)

    def let_go(self) -> None:
        """Forget the tensors."""
        self.kept = False
        self.outputs = [None] * len(self.outputs)
        self.overwritten = []
        self.whole = None
        for argument in self.args:
            argument.original = None
            if isinstance(argument.value, Tensor):
                argument.value = None


def shape_of(call: Call) -> tuple[int, ...] | None:
    """The shape of a call's first result, if known."""
    made = call.outputs[0] if call.outputs else None
    return tuple(made.shape) if isinstance(made, Tensor) else call.shape


_PLAIN = (Tensor, torch.nn.Parameter)
_FOUR_BITS = getattr(torch, "float4_e2m1fn_x2", None)  # two elements per byte; torch cannot compute with it
_is_batched = torch._C._functorch.is_batchedtensor


def can_be_bad(tensor: Tensor) -> bool:
    """Whether its type has NaN and its elements can be read."""
    if is_lazy(tensor) or type(tensor).__name__ == "FakeTensor" or _is_batched(tensor):  # hides samples
        return False
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.dtype is _FOUR_BITS or tensor.is_meta:
        return False
    if tensor._is_zerotensor():  # zeros without memory, in double backward: reading them in a mode crashes
        return False
    return not is_given_back(tensor)


def is_given_back(tensor: Tensor) -> bool:
    """Whether its memory was freed, as FSDP does with weights that it has gathered; reading it crashes."""
    if not tensor.numel() or tensor.layout is not torch.strided or hasattr(tensor, "to_local"):
        return False
    return torch._C._has_storage(tensor) and not tensor.untyped_storage().nbytes()


def roots_of(given: Any) -> list[Tensor] | None:
    """The tensors passed to backward, one or several; None if it is passed edges of the graph."""
    if isinstance(given, Tensor):
        return [given]
    several = isinstance(given, (list, tuple)) and all(isinstance(each, Tensor) for each in given)
    return list(given) if several else None


def bytes_of(tensor: Tensor) -> int:
    """The size of its elements; ``tensor.nbytes`` takes ten microseconds."""
    return tensor.numel() * tensor.element_size()


def dense(tensor: Tensor) -> Tensor:
    """The elements of a tensor in this process: the values of a sparse one, the local part of a distributed one.

    Eight-bit types are converted to one that can be computed with; rows of nested tensors are padded with zeros.
    """
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    tensor = tensor.detach()
    if tensor.is_nested and tensor.layout is torch.strided:
        tensor = tensor.to_padded_tensor(0.0)
    if tensor.dtype.itemsize == 1 and tensor.is_floating_point():
        tensor = tensor.float()
    local = getattr(tensor, "to_local", None)
    if local is not None:
        tensor = local()
    if tensor.layout is torch.strided:
        return tensor
    if tensor.layout is torch.sparse_coo:
        return tensor._values()
    return tensor.values()


def readable(tensor: Any) -> Tensor | None:
    """The elements of a tensor in this process, in a type that can be computed with; None if they cannot be read.

    For a subclass, they are a plain tensor if it has memory of its own.
    """
    if not isinstance(tensor, Tensor) or not can_be_bad(tensor):
        return None
    if type(tensor) in _PLAIN:
        return dense(tensor)
    try:
        return dense(tensor).as_subclass(Tensor)
    except Exception:  # subclasses may refuse anything
        return None


def _holds(test: Callable[[Tensor], Tensor], tensor: Any) -> bool:
    """Whether a test is true for any element of a tensor, as far as these can be read."""
    values = None if capturing() else readable(tensor)
    if values is None or type(values) is Tensor:
        return values is not None and bool(test(values).any())
    try:
        return bool(test(values).any())
    except Exception:
        return False


def _not_finite(values: Tensor) -> Tensor:
    return ~torch.isfinite(values)


def bad(tensor: Any) -> Tensor | None:
    """Where a tensor is not finite; None if it is finite everywhere or cannot be read."""
    values = None if capturing() else readable(tensor)
    wrong = _not_finite(values) if type(values) is Tensor else None
    return wrong if wrong is not None and bool(wrong.any()) else None


def is_bad(tensor: Any) -> bool:
    """Whether a tensor holds a NaN or an infinity."""
    return _holds(_not_finite, tensor)


def has_nan(tensor: Any) -> bool:
    return _holds(torch.isnan, tensor)


def has_inf(tensor: Any) -> bool:
    return _holds(torch.isinf, tensor)


def node_of(tensor: Tensor) -> Any:
    """The node that made a tensor; None if torch does not tell, as for a view of a parameter, made without gradients,
    that has been written to.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


next_seq = torch.autograd._get_sequence_nr  # of the node that this thread will make next


def seq_of(node: Any) -> float:
    """When a node was made; -1 for the accumulation into a leaf, which is older than every operation."""
    number = node._sequence_nr()
    if number >= 1 << 63:
        return -1
    place = place_of(node)
    return number if place is None else place
