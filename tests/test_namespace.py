"""The public names are complete, have torch's spelling, and expose no internals."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pickle
from types import BuiltinFunctionType, ModuleType
from typing import Any

import pytest
import torch

import retrograd as rg
import retrograd.nn
import retrograd.special
from retrograd.core.registry import composites, operations

# What torch's namespaces do not have.
ADDITIONS = {"autograd.graph": {"Picture", "draw"}, "func": {"value_and_grad"}, "utils.data": {"WorkerInfo"}}

# torch also has them at the top level, undocumented and mostly with other arguments, such as the reduction as a number.
FUNCTIONAL_ONLY = {
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "ctc_loss",
    "embedding",
    "embedding_bag",
    "group_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "layer_norm",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "rms_norm",
    "triplet_margin_loss",
}


# What torch has and this library does not, by namespace and reason.
LEFT_OUT: dict[str, dict[str, str]] = {
    "nn": {
        "deprecated; a Module does the same": "Container",
        "how linear_cross_entropy works in chunks": "LinearCrossEntropyOptions",
        "of use in torch's own constructors": "factory_kwargs",
    },
    "nn.functional": {
        "of use inside torch: dispatch, typing, texts for documentation": """
            GRID_SAMPLE_INTERPOLATION_MODES GRID_SAMPLE_PADDING_MODES assert_int_or_pair has_torch_function
            has_torch_function_unary has_torch_function_variadic
            TYPE_CHECKING reproducibility_notes sparse_support_notes tf32_notes""",
        "not documented: return_indices=True gives the same": """
            adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
            fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices max_pool1d_with_indices
            max_pool2d_with_indices max_pool3d_with_indices""",
        "not documented: conv1d and channel_shuffle do the same": "conv_tbc native_channel_shuffle",
        "products of numbers in 8 bits or less, for GPUs": """
            ScalingType SwizzleType grouped_mm scaled_grouped_mm scaled_mm""",
    },
    "nn.init": {},
    "nn.utils": {
        "there is one memory format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    },
    "optim": {
        "there are no sparse tensors": "SparseAdam",
        "for tracing by torch.compile": "swap_in_optimizer_params_and_state",
    },
    "utils.data": {
        "data pipes, which torch no longer develops": """
            DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe
            guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled""",
    },
    "func": {"nothing is traced here": "functionalize", "of use inside torch": "debug_unwrap"},
    "linalg": {"texts for documentation": "common_notes"},
    "fft": {"of use inside torch": "Tensor"},
    "special": {},
    "nn.parameter": {},
    "nn.utils.fusion": {},
    "nn.utils.parametrizations": {},
    "nn.utils.parametrize": {},
    "nn.utils.prune": {},
    "nn.utils.rnn": {},
    "nn.utils.stateless": {},
    "optim.lr_scheduler": {},
    "optim.swa_utils": {},
    "signal.windows": {},
}


def public_names(module: ModuleType) -> set[str]:
    """Return ``__all__`` of a module, or else the names that it defines."""

    def is_its_own(value: Any) -> bool:
        origin = getattr(value, "__module__", None)
        if isinstance(value, BuiltinFunctionType):
            return True
        return not isinstance(value, ModuleType) and (origin is None or origin.startswith(module.__name__))

    said = getattr(module, "__all__", None)
    names = [name for name, value in vars(module).items() if is_its_own(value)] if said is None else said
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("space", LEFT_OUT)
def test_names_of_torch_that_are_missing_here_are_listed(space: str) -> None:
    theirs, ours = (importlib.import_module(f"{library}.{space}") for library in ("torch", "retrograd"))
    left_out = {name for names in LEFT_OUT[space].values() for name in names.split()}
    assert {name for name in public_names(theirs) if not hasattr(ours, name)} == left_out


def test_every_name_in_all_exists() -> None:
    assert [name for name in rg.__all__ if not hasattr(rg, name)] == []
    assert len(rg.__all__) == len(set(rg.__all__))


def test_there_are_at_least_220_public_functions() -> None:
    functions = {name for name in rg.__all__ if callable(getattr(rg, name)) and not isinstance(getattr(rg, name), type)}
    of_operations = functions & (set(operations) | set(composites))
    assert len(of_operations) >= 220


@pytest.mark.parametrize("name", sorted({**operations, **composites}))
def test_every_operation_is_a_function_or_a_method(name: str) -> None:
    found: object = rg
    for part in name.split("."):
        found = getattr(found, part, None)
    assert found is not None or hasattr(rg.Tensor, name) or hasattr(rg.nn.functional, name)


@pytest.mark.parametrize("name", sorted(name for name in {**operations, **composites} if "." not in name))
def test_operations_are_functions_and_methods_where_torch_has_them(name: str) -> None:
    if hasattr(torch, name):
        assert hasattr(rg.nn.functional if name in FUNCTIONAL_ONLY else rg, name)
    if hasattr(torch.Tensor, name):
        assert hasattr(rg.Tensor, name)


@pytest.mark.parametrize(
    "module",
    [
        "linalg",
        "fft",
        "special",
        "nn.functional",
        "nn.grad",
        "autograd.graph",
        "autograd.function",
        "autograd.functional",
        "func",
        "autograd.variable",
        "utils.checkpoint",
        "utils.data",
        "nn",
        "nn.init",
        "nn.parameter",
        "nn.utils",
        "nn.utils.fusion",
        "nn.utils.parametrizations",
        "nn.utils.parametrize",
        "nn.utils.prune",
        "nn.utils.rnn",
        "nn.utils.stateless",
        "optim",
        "optim.lr_scheduler",
        "optim.swa_utils",
        "signal.windows",
    ],
)
def test_namespaces_have_only_names_of_torch(module: str) -> None:
    ours: ModuleType = importlib.import_module(f"retrograd.{module}")
    assert [name for name in ours.__all__ if not hasattr(ours, name)] == []
    theirs = importlib.import_module(f"torch.{module}")
    strangers = {name for name in ours.__all__ if not has(theirs, name)}
    assert strangers == ADDITIONS.get(module, set())


def has(package: ModuleType, name: str) -> bool:
    """Whether a package has a name, perhaps that of a module that is not imported yet."""
    if not hasattr(package, name):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{package.__name__}.{name}")
    return hasattr(package, name)


def test_in_place_methods_are_functions_where_torch_has_them() -> None:
    names = {name for name in dir(torch) if name.endswith("_") and not name.startswith("_")}
    both = {name for name in names if hasattr(rg.Tensor, name) and hasattr(torch.Tensor, name)}
    assert len(both) > 50
    assert {name for name in both if not hasattr(rg, name)} == set()
    x = rg.ones(2)
    assert rg.neg_(x) is x
    assert x.tolist() == [-1, -1]


@pytest.mark.parametrize("space", [rg, rg.Tensor, rg.linalg, rg.fft, rg.special, rg.nn.functional, rg.func])
def test_functions_and_methods_can_be_pickled(space: Any) -> None:
    """Worker processes and descriptions of models need this."""
    functions = [value for name in dir(space) if inspect.isroutine(value := getattr(space, name, None))]
    assert len(functions) >= 10
    strange = [
        each for each in functions if pickle.loads(pickle.dumps(each)) not in (each, getattr(each, "__func__", 0))
    ]
    assert not strange


def test_special_is_imported_on_first_use() -> None:
    assert rg.special is retrograd.special
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rg.nonsense  # noqa: B018


def kinds_in(library: Any) -> dict[str, type]:
    found = {}
    for name in ("nn", "optim", "optim.lr_scheduler", "utils.data", "distributions"):
        module = importlib.import_module(f"{library.__name__}.{name}")
        for key, member in vars(module).items():
            if isinstance(member, type) and not key.startswith("_") and member.__module__.startswith(library.__name__):
                found[f"{name}.{key}"] = member
    return found


# torch's answer differs for these.
OTHER_KINDS = {
    **{f"nn.Lazy{kind}{n}d": {f"nn.{kind}{n}d"} for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    "distributions.Gumbel": {"distributions.TransformedDistribution"},
    "distributions.InverseGamma": {"distributions.TransformedDistribution"},
    "nn.UninitializedParameter": {"nn.Parameter"},  # instances are recognized by a mark
}


def test_subclass_relations_match_torch() -> None:
    ours, theirs = kinds_in(rg), kinds_in(torch)
    names = sorted(ours.keys() & theirs.keys())
    assert len(names) > 250
    differences: dict[str, set[str]] = {}
    for name in names:
        for other in names:
            if issubclass(ours[name], ours[other]) != issubclass(theirs[name], theirs[other]):
                differences.setdefault(name, set()).add(other)
    assert differences == OTHER_KINDS


@pytest.mark.parametrize(
    "space",
    [
        *("", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "optim.swa_utils", "linalg"),
        *("fft", "special", "autograd", "autograd.functional", "autograd.graph", "autograd.forward_ad", "func"),
        *("utils.data", "utils.checkpoint", "random", "distributions", "testing", "anomaly"),
    ],
)
def test_signatures_are_readable(space: str) -> None:
    """They contain no address of an object, and no bare ``*args`` unless torch documents that too."""
    ours = importlib.import_module(f"retrograd.{space}".rstrip("."))
    theirs = None if space == "anomaly" else importlib.import_module(f"torch.{space}".rstrip("."))
    for name in ours.__all__:
        value = getattr(ours, name)
        if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
            continue
        text = str(inspect.signature(value))
        assert "<object object" not in text, name
        takes_many_kinds = name.endswith("Tensor")  # FloatTensor and similar classes
        if text.startswith("(*args") and not takes_many_kinds:
            assert str(inspect.signature(getattr(theirs, name))).startswith(("(*args", "(*modules")), name


@pytest.mark.parametrize("space", ["", "nn.functional", "nn.init", "linalg", "special", "fft", "autograd", "func"])
def test_functions_are_annotated(space: str) -> None:
    """In strict mode, mypy reports every call of a function without annotations."""
    module = importlib.import_module(f"retrograd.{space}".rstrip("."))
    written = {name: value for name in dir(module) if inspect.isfunction(value := getattr(module, name))}
    composed = {name: value for name, value in written.items() if name[0] != "_" and value.__name__ not in operations}
    bare = {
        name for name, value in composed.items() if inspect.signature(value).parameters and not value.__annotations__
    }
    assert bare == set()


SPACES_WITH_DEFAULTS = (
    "autograd", "distributions", "func", "nn", "nn.functional", "nn.init", "nn.utils", "optim",
    "optim.lr_scheduler", "utils.data",
)  # fmt: skip


def defaults_of(function: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some of torch's are compiled
        return {}
    found = {name: each.default for name, each in parameters.items() if each.default is not inspect.Parameter.empty}
    return {name: each for name, each in found.items() if isinstance(each, int | float | str | tuple | None)}


@pytest.mark.parametrize("space", SPACES_WITH_DEFAULTS)
def test_defaults_of_parameters_match_torch(space: str) -> None:
    theirs, ours = (importlib.import_module(f"{library}.{space}") for library in ("torch", "retrograd"))
    compared, differing = 0, []
    for name in sorted(set(dir(theirs)) & set(dir(ours))):
        one, other = defaults_of(getattr(theirs, name)), defaults_of(getattr(ours, name))
        compared += len(one.keys() & other.keys())
        differing += [
            (name, each, one[each], other[each]) for each in one.keys() & other.keys() if one[each] != other[each]
        ]
    assert compared
    assert differing == []
