"""The operations of a step as records, whether read from a live graph or written down in a second run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.places.elsewhere import place_of
from retrograd.anomaly.adapters.torch.runtime.capturing import capturing
from retrograd.anomaly.libraries import Position


@dataclass(eq=False)
class Argument:
    """What went into an operation.

    Attributes
    ----------
    name
        torch's name of the parameter.
    value
        A tensor or a plain value; None if it is not known.
    made_by, output
        The call that it is a result of, and which one; None for what came in from outside.
    leaf
        The parameter itself, where ``value`` is one or a view of one.
    missing
        Whether there was a value that nothing has kept.
    original
        The tensor itself, where ``value`` is a copy of what it held before it was written to.
    edge
        Which of the gradients that the operation's node passes on is that of this argument, where that is known.
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
    def itself(self) -> Tensor | None:
        """The tensor that the program has, by which it is known."""
        return self.tensor if self.original is None else self.original


_AVERAGES = ("running_mean", "running_var")  # to which a normalisation only writes while it trains


@dataclass(eq=False)
class Call:
    """One operation.

    Attributes
    ----------
    name
        Of the dispatcher's entry (``"aten.log.default"``) or of the graph's node (``"LogBackward0"``).
    args, outputs
        What went in and came out; an output that is not known is None.
    order
        Calls are numbered as they happened.
    pointwise
        Whether an element of the output depends only on the elements of the arguments at its place.
    seq
        The sequence number of the autograd node that it made, if it made one.
    forward
        For the work of a node in backward, the operation that made the node.
    code, at, modules
        The line that called it, and the modules around it, innermost first.
    callers
        The program's own instructions that led to that line, the innermost first; see :func:`.libraries.callers_of`.
    applied
        The line that called the user's autograd Function inside which it happened.
    inside
        In backward, the operation in a hook, or in the backward function of the user's own, that gave birth.
    variables
        What the line of such an operation reads.
    bad
        Whether a result was not finite when it was made, where that is known.
    entry
        That of the dispatcher, by which it can be called once more, where that is known.
    node
        What it has left in the graph, where it is read from that; of work in backward a reentrant checkpoint's.
    kept
        Whether its tensors are still here.
    overwritten
        The tensors in place of which ``outputs`` has copies, since they have been written to, and those that were
        detached from results: kept, so that no other tensor is taken for one of them.
    shape
        Of the first result, where that is known though the result is not.
    part, whole
        Where it has written to a part of a tensor: which one, and the tensor with what made it before.
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
        """Whether it happened somewhere inside of a Function of the user's, of which nothing was noted."""
        if self.applied is None or self.inside is not None:
            return False
        return self.is_backward or self.applied == (self.code, self.at)

    @property
    def known(self) -> bool:
        return all(output is not None for output in self.outputs)

    def tensors(self) -> Iterator[Argument]:
        """The arguments in which a NaN can be, as far as results are made of them."""
        trains = any(each.name == "training" and each.value is True for each in self.args)
        for argument in self.args:
            if trains and argument.name in _AVERAGES:
                continue
            tensor = argument.tensor
            if argument.made_by is not None or argument.missing or (tensor is not None and can_be_bad(tensor)):
                yield argument

    def places_infinity(self) -> bool:
        """Whether it writes an infinity that it was given as a number: a mask, an initial minimum."""
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
    """The shape of a call's first result, as far as it is known."""
    made = call.outputs[0] if call.outputs else None
    return tuple(made.shape) if isinstance(made, Tensor) else call.shape


_PLAIN = (Tensor, torch.nn.Parameter)
_FOUR_BITS = getattr(torch, "float4_e2m1fn_x2", None)  # two elements in a byte, with which nothing can be done
_is_batched = torch._C._functorch.is_batchedtensor


def can_be_bad(tensor: Tensor) -> bool:
    """Whether its type has a NaN and its elements are at hand."""
    if type(tensor).__name__ == "FakeTensor" or _is_batched(tensor):  # whose class is imported late; has samples inside
        return False
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.dtype is _FOUR_BITS or tensor.is_meta:
        return False
    if tensor._is_zerotensor():  # zeros without memory, in double backward: to read them in a mode is a crash
        return False
    return not is_given_back(tensor)


def is_given_back(tensor: Tensor) -> bool:
    """Whether its memory has been given back, as FSDP does with weights that it has gathered; to read it is a crash."""
    if not tensor.numel() or tensor.layout is not torch.strided or hasattr(tensor, "to_local"):
        return False
    return torch._C._has_storage(tensor) and not tensor.untyped_storage().nbytes()


def roots_of(given: Any) -> list[Tensor] | None:
    """The tensors that backward is given, one or several; None if it is given edges of the graph."""
    if isinstance(given, Tensor):
        return [given]
    several = isinstance(given, (list, tuple)) and all(isinstance(each, Tensor) for each in given)
    return list(given) if several else None


def bytes_of(tensor: Tensor) -> int:
    """The size of its elements; ``tensor.nbytes`` takes ten microseconds."""
    return tensor.numel() * tensor.element_size()


def dense(tensor: Tensor) -> Tensor:
    """The elements that a tensor has here: of a sparse one its values, of a distributed one this process's part.

    Those of eight bits in a type with which one can calculate; of a nested one all rows, made equally long by zeros.
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
    """The elements that a tensor has here, in a type with which one can calculate; None where they are not at hand.

    Of a subclass, they are a plain tensor if it has the memory for one.
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
    """Whether something is true of an element of a tensor, as far as that can be read."""
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
    """Where a tensor is not finite; None if it is finite everywhere, or if that cannot be read."""
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
    """The node that made a tensor; None where torch does not say, as of a view of a parameter, made without gradients,
    that has been written to.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


next_seq = torch.autograd._get_sequence_nr  # the number of the node that this thread will make next


def seq_of(node: Any) -> float:
    """When a node was made; -1 for the accumulation into a leaf, which is older than every operation."""
    number = node._sequence_nr()
    if number >= 1 << 63:
        return -1
    place = place_of(node)
    return number if place is None else place
