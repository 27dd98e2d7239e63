"""The methods of pruning: what masks they compute, and how they apply them; see :mod:`retrograd.nn.utils.prune`."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from retrograd.core.tensor import Tensor
from retrograd.creation import ones_like, zeros_like
from retrograd.nn.modules.module import Module
from retrograd.nn.utils._weight_hooks import hook_for, parameter_of
from retrograd.ops.linalg_norms import vector_norm
from retrograd.ops.sorting import topk
from retrograd.random import rand, rand_like


class BasePruningMethod(ABC):
    """The hook that masks a parameter before every call of its module.

    A subclass defines :meth:`compute_mask` and says by ``PRUNING_TYPE`` what a mask that comes after others is computed
    from: ``"unstructured"``, the elements not pruned yet; ``"structured"``, the channels along its ``dim`` not pruned
    yet; ``"global"``, everything.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        assert self._tensor_name is not None
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask: ``default_mask``, with zeros where ``t`` is to be pruned."""

    def _pruned_name(self, module: Module) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        return self._tensor_name

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter of a module with its mask applied."""
        name = self._pruned_name(module)
        original, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter, further if it is pruned already.

        Parameters
        ----------
        module, name
            The module, and the name of its parameter.
        *args, **kwargs
            What the method is made with.
        importance_scores
            What the mask is computed from, of the parameter's shape; the parameter itself by default.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        found = hook_for(module, BasePruningMethod, name, "_tensor_name")
        current: Any = parameter_of(module, name)
        if importance_scores is not None and importance_scores.shape != current.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {current.shape}"
            )
        scores = (current if importance_scores is None else importance_scores).detach()
        if found is None:
            mask = method.compute_mask(scores, ones_like(current.detach()))
            module.register_parameter(f"{name}_orig", current)
            del module._parameters[name]
        else:
            number, earlier = found
            methods = earlier if isinstance(earlier, PruningContainer) else (earlier,)
            method = PruningContainer(*methods, method)
            mask = method.compute_mask(scores, getattr(module, f"{name}_mask").detach())
            del module._forward_pre_hooks[number]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor that belongs to no module, pruned."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}"
            )
        scores = (t if importance_scores is None else importance_scores).detach()
        return t * self.compute_mask(scores, ones_like(t.detach()) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned value the parameter, for good. The hook stays; the function :func:`remove` takes it away."""
        name = self._pruned_name(module)
        pruned = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        assert original is not None
        original.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter, one after the other."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, which prunes what the mask before it has left."""
        method = self._pruning_methods[-1]
        left = _what_is_left(method, t, default_mask)
        mask = default_mask.to(t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(t.dtype)
        return mask


def _what_is_left(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of what a method may prune."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return ...
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    _check_dim(t, method.dim)
    dim = method.dim % t.ndim
    others = [k for k in range(t.ndim) if k != dim]
    return (*(slice(None),) * dim, mask.sum(others) != 0)


# --- how much -----------------------------------------------------------------------------------------------------


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if not float(amount) >= 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: Any, size: int) -> int:
    """How many of ``size`` elements or channels are to be pruned."""
    count = int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)
    if count > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return count


def _check_dim(t: Tensor, dim: int) -> None:
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {list(t.shape)}")


# --- methods ------------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prune nothing, but make the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask as it is."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prune a number of elements with the lowest scores."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with the requested number of further zeros."""
        count = _count(self.amount, t.numel())
        flat = default_mask.flatten().clone()
        flat[topk(self._scores(t).flatten(), count, largest=False).indices] = 0
        return flat.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prune elements at random.

    Parameters
    ----------
    amount
        How many; a float is a fraction.
    """

    def _scores(self, t: Tensor) -> Tensor:
        return rand_like(t)


class L1Unstructured(_Unstructured):
    """Prune the smallest elements.

    Parameters
    ----------
    amount
        How many; a float is a fraction.
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(BasePruningMethod):
    """Prune a number of channels with the lowest scores."""

    PRUNING_TYPE = "structured"
    amount: float
    dim: int

    def _scores(self, t: Tensor) -> Tensor:
        """The score of each channel."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with the requested number of further channels zeroed."""
        if t.ndim < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{list(t.shape)} with {t.ndim} dims"
            )
        _check_dim(t, self.dim)
        dim = self.dim % t.ndim
        channels = t.shape[dim]
        count = _count(self.amount, channels)
        if count == 0:
            return default_mask
        mask = zeros_like(t)
        mask[(*(slice(None),) * dim, topk(self._scores(t), channels - count).indices)] = 1
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Prune channels at random.

    Parameters
    ----------
    amount
        How many; a float is a fraction.
    dim
        The dimension of the channels.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.shape[self.dim])


class LnStructured(_Structured):
    """Prune the channels of the smallest norms.

    Parameters
    ----------
    amount
        How many; a float is a fraction.
    n
        Which norm, as of :func:`retrograd.norm`.
    dim
        The dimension of the channels.
    """

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        others = [k for k in range(t.ndim) if k != self.dim % t.ndim]
        order: Any = 2 if self.n == "fro" else self.n
        return vector_norm(t, order, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prune where a mask is zero.

    Parameters
    ----------
    mask
        Of the parameter's shape.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with the zeros of both."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)
