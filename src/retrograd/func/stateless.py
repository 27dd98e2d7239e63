"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.ops.joining import stack

Tensors = Mapping[str, Tensor]

_ABSENT: Any = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Parameters
    ----------
    module : Module
        It has its own tensors again afterwards.
    parameter_and_buffer_dicts : dict, or sequence of dicts
        Names, as ``named_parameters`` gives them, and tensors; also names of other attributes that are tensors. What is
        not named stays as it is. Where the module assigns another tensor to such a name, that is in the dict
        afterwards; several dicts are only read.
    args, kwargs
        What to call it with; anything but a tuple is the only argument.
    tie_weights : bool
        Whether a tensor for one name of a shared parameter stands for all of its names.
    strict : bool
        Whether all parameters and buffers must be given.

    Raises
    ------
    RuntimeError
        With ``strict``, for missing and unexpected names. If a parametrized tensor is given instead of what it is
        computed from.
    TypeError
        If something that is not a tensor is given, or the name of something that is none.
    ValueError
        If two dicts give the same name, or two names of one shared parameter different tensors; if something else than
        dicts is given.

    Examples
    --------
    >>> layer = rg.nn.Linear(2, 1)
    >>> weights = {"weight": rg.ones(1, 2), "bias": rg.zeros(1)}
    >>> rg.func.functional_call(layer, weights, (rg.tensor([2.0, 3.0]),))
    tensor([5.])
    >>> rg.func.grad(lambda w: rg.func.functional_call(layer, w, rg.ones(2)).sum())(weights)["weight"]
    tensor([[1., 1.]])
    """
    dicts = (
        [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, Mapping) else parameter_and_buffer_dicts
    )
    if not isinstance(dicts, (list, tuple)) or not all(isinstance(each, Mapping) for each in dicts):
        raise ValueError(
            "functional_call: parameter_and_buffer_dicts must be a dict, or a list or tuple of dicts, but got "
            f"{type(dicts).__name__}: {str(dicts)[:100]}"
        )
    only = parameter_and_buffer_dicts
    given: MutableMapping[str, Any] = {}
    for each in dicts:
        for name, value in each.items():
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"functional_call: the value for '{name}' must be a Tensor, but is {value!r}")
        twice = given.keys() & each.keys()
        if twice:
            raise ValueError(
                f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        given.update(each)
    if isinstance(only, MutableMapping):
        given = only
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and the buffers of equal modules, for :func:`functional_call` under :func:`vmap`.

    Returns
    -------
    tuple of dict
        Parameters and buffers by name, each with a new first dimension over the models; the parameters are leaves that
        require grad as the models' do.

    Raises
    ------
    RuntimeError
        If there are no models, of several classes, or partly in training mode.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    return parameters, _stacked([dict(model.named_buffers()) for model in models])


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let every batch normalisation in a module normalise by the batch alone, without running statistics.

    In training mode it writes these statistics, which are the same for all samples, so that :func:`vmap` refuses it.

    Parameters
    ----------
    root : Module
        It is changed, itself and all modules in it.

    Returns
    -------
    Module
        ``root``.

    Examples
    --------
    >>> model = rg.func.replace_all_batch_norm_modules_(rg.nn.Sequential(rg.nn.BatchNorm1d(2)))
    >>> rg.vmap(model)(rg.tensor([[[1.0, 2.0], [3.0, 4.0]]])).detach()
    tensor([[[-1.0000, -1.0000],
             [ 1.0000,  1.0000]]])
    """
    for module in root.modules():
        if hasattr(module, "_stop_tracking"):
            module._stop_tracking()
    return root


def _stacked(states: Sequence[Tensors]) -> dict[str, Tensor]:
    found = {}
    for name, first in states[0].items():
        wants = {state[name].requires_grad for state in states}
        if len(wants) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        found[name] = stack([state[name].detach() for state in states]).requires_grad_(first.requires_grad)
    return found


@contextmanager
def _replaced(module: Any, given: MutableMapping[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    """The module with other tensors, for a while; what it assigns to their names goes into ``given``."""
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    own = dict(named)
    wanted = {name: tensor for name, tensor in given.items() if name in own}
    if tie_weights:
        for name, tensor in list(wanted.items()):
            for other in (other for other, member in named if member is own[name] and other != name):
                if wanted.setdefault(other, tensor) is not tensor:
                    raise ValueError(
                        f"functional_call got multiple values for keys {sorted((name, other))}, which are tied."
                    )
    if strict and (unexpected := given.keys() - own.keys()):
        raise RuntimeError(f"Unexpected key(s): {', '.join(sorted(unexpected))}.")
    if strict and (missing := own.keys() - wanted.keys()):
        raise RuntimeError(f"Missing key(s): {', '.join(sorted(missing))}.")
    places = {name: (*_place_of(module, name), tensor) for name, tensor in {**given, **wanted}.items()}
    kept = [(place, last, place.get(last, _ABSENT)) for place, last, _ in places.values()]
    try:
        for place, last, tensor in places.values():
            place[last] = tensor
        yield
    finally:
        for name, (place, last, tensor) in places.items():
            now = place.get(last, _ABSENT)
            if name in given and now is not tensor and isinstance(now, Tensor):
                given[name] = now
        for place, last, tensor in kept:
            if tensor is _ABSENT:
                del place[last]
            else:
                place[last] = tensor


def _place_of(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """Where a tensor of that name is in a module, or would be as a plain attribute, and its name there."""
    path, _, last = name.rpartition(".")
    if not last:
        raise KeyError('tensor name can\'t be empty string ""')
    owner = module.get_submodule(path)
    for members in (owner._parameters, owner._buffers):
        if last in members:
            return members, last
    if isinstance(getattr(type(owner), last, None), property):  # it would go before the attribute
        start = f"parametrizations.{last}."
        sources = [name.removesuffix(last) + part for part, _ in owner.named_parameters() if part.startswith(start)]
        raise RuntimeError(
            f"functional_call: '{name}' is a property of {type(owner).__name__}, recomputed at every access; pass "
            f"{' and '.join(sources) or 'what it is computed from'} instead"
        )
    found = getattr(owner, last, None)
    if found is not None and not isinstance(found, Tensor):
        raise TypeError(f"functional_call: attribute `{name}`: {found!r} is not an instance of Tensor")
    return owner.__dict__, last
