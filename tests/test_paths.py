"""Import lines of torch scripts: modules without a file of their own, and advice if a module is missing."""

from __future__ import annotations

import collections
import copy
import importlib
import inspect
import pkgutil
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

without_gpu = pytest.mark.skipif(rg.cuda.is_available(), reason="there is a GPU")

# Modules of torch that are not meant for users or concern unsupported features.
NOT_FOR_USERS = {
    "distributions": set(),
    "nn.modules": {"linear_cross_entropy_options"},
    "nn.utils": {"memory_format"},
    "optim": {"sparse_adam"},
    "utils.data": {"backward_compatibility", "datapipes", "graph", "graph_settings"},
}


def modules_of(package: str) -> list[str]:
    found = pkgutil.iter_modules(importlib.import_module(f"torch.{package}").__path__)
    return [module.name for module in found if not module.name.startswith("_")]


@pytest.mark.parametrize("package", NOT_FOR_USERS)
def test_every_module_of_torch_can_be_imported(package: str) -> None:
    missing = set()
    for module in modules_of(package):
        try:
            importlib.import_module(f"retrograd.{package}.{module}")
        except ModuleNotFoundError:
            missing.add(module)
    assert missing == NOT_FOR_USERS[package]


# Classes that build on others of their module and have their own files, and a deprecated one.
NOT_THERE = {
    "nn.modules.container": {"Container"},
    "nn.modules.batchnorm": {"LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "SyncBatchNorm"},
    "nn.modules.conv": {f"LazyConv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3)},
    "nn.modules.instancenorm": {f"LazyInstanceNorm{n}d" for n in (1, 2, 3)},
    "nn.modules.linear": {"LazyLinear"},
}


@pytest.mark.parametrize("package", ["distributions", "nn.modules"])
def test_modules_have_the_classes_of_torch(package: str) -> None:
    missing: dict[str, set[str]] = {}
    for module in modules_of(package):
        if module in NOT_FOR_USERS[package]:
            continue
        theirs, ours = (importlib.import_module(f"{library}.{package}.{module}") for library in ("torch", "retrograd"))
        classes = {name for name, value in vars(theirs).items() if inspect.isclass(value)}
        wanted = {name for name in getattr(theirs, "__all__", classes) if name in classes}
        lacking = {name for name in wanted if not hasattr(ours, name)}
        if lacking:
            missing[f"{package}.{module}"] = lacking
    assert missing == {name: value for name, value in NOT_THERE.items() if name.startswith(package)}


@parity
def test_mixed_precision_imported_from_submodules(m: Any) -> Any:
    parts = importlib.import_module(f"{m.__name__}.cuda.amp.grad_scaler"), m.amp.grad_scaler
    modes = importlib.import_module(f"{m.__name__}.amp.autocast_mode"), m.cuda.amp.autocast_mode
    same = parts[0].GradScaler is m.cuda.amp.GradScaler, modes[0].autocast is m.amp.autocast
    return [*same, parts[1].GradScaler is m.amp.GradScaler, modes[1].custom_fwd.__name__]


def test_names_in_submodules_are_the_same_objects() -> None:
    from retrograd.distributions.categorical import Categorical
    from retrograd.nn.modules.upsampling import Upsample
    from retrograd.optim.adamw import AdamW

    assert Categorical is rg.distributions.Categorical
    assert Upsample is rg.nn.Upsample
    assert AdamW is rg.optim.AdamW


@pytest.mark.parametrize(
    ("package", "name", "advice"),
    [
        (rg.optim, "SparseAdam", ": .*Adam"),
        (rg.nn, "quantized", ": .*torch"),
        (rg, "layer_norm", ": .*functional"),
        (rg, "_C", ": .*public names"),
        (rg.optim, "Admm", "$"),
        (rg.nn, "Linaer", "$"),
        (rg.nn.modules, "nothing", "$"),
    ],
)
def test_missing_names_of_packages_raise_with_advice(package: Any, name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{package.__name__}' has no attribute '{name}'{advice}"):
        getattr(package, name)


@parity
def test_submodules_are_attributes_without_an_import(m: Any) -> Any:
    normal, modules = m.distributions.normal, m.nn.modules
    return [
        normal.Normal is m.distributions.Normal,
        m.distributions.multivariate_normal.MultivariateNormal.__name__,
        isinstance(m.nn.InstanceNorm2d(3), modules.instancenorm._InstanceNorm),
        attempt(lambda: modules.nothing),
    ]


def test_importing_an_unknown_module_raises() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'retrograd\.nn\.nothing'$"):
        importlib.import_module("retrograd.nn.nothing")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from retrograd.utils.tensorboard import SummaryWriter", "retrograd.utils.tensorboard.*tensorboardX"),
        ("import retrograd.fx.passes", "retrograd.fx.*nothing is compiled"),
        ("from retrograd import nn, onnx", "retrograd.onnx.*export"),
        ("from retrograd.optim import Adam, SparseAdam", "retrograd.optim.SparseAdam.*use Adam"),
        ("import retrograd.numpy as jnp", "import numpy as np"),
    ],
)
def test_importing_missing_modules_raises_with_advice(line: str, words: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=words):
        exec(line, {})


def test_other_failing_imports_have_the_usual_errors() -> None:
    with pytest.raises(ImportError, match="cannot import name 'onx' from 'retrograd'"):
        exec("from retrograd import onx", {})
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'fx'$"):
        importlib.import_module("fx")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'retrograd\.nothing'$"):
        importlib.import_module("retrograd.nothing")


def test_submodules_are_attributes_in_a_fresh_process() -> None:
    code = """if True:
        import retrograd as torch
        print(torch.distributed.is_available(), torch.jit.is_scripting(), torch.multiprocessing.get_start_method())
        print(torch.nn.parallel.DataParallel.__name__, torch.GradScaler.__name__)
    """
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[:2] == ["False", "False"]
    assert out[3:] == ["DataParallel", "GradScaler"]


def test_collate_functions_are_where_they_were_private() -> None:
    from retrograd.utils.data._utils.collate import default_collate

    assert default_collate is rg.utils.data.default_collate is rg.utils.data._utils.collate.default_collate


@parity
def test_private_helpers_of_modules(m: Any) -> Any:
    indent = importlib.import_module(f"{m.__name__}.nn.modules.module")._addindent
    reverse = importlib.import_module(f"{m.__name__}.nn.modules.utils")._reverse_repeat_tuple
    return [indent("a\nb\n c", 4), indent("a", 2), reverse((1, 2, 3), 2)]


# --- a single process -------------------------------------------------------------------------------------------------


@parity
def test_distributed_reports_that_it_is_not_available(m: Any) -> Any:
    dist = m.distributed
    return [
        dist.get_rank() if dist.is_available() and dist.is_initialized() else 0,
        dist.is_torchelastic_launched(),
        attempt(lambda: m.nn.parallel.DistributedDataParallel(m.nn.Linear(2, 1))),
        sorted(m.multiprocessing.get_all_sharing_strategies()),
        m.multiprocessing.cpu_count() > 0,
    ]


def test_data_parallel_calls_its_module() -> None:
    add = rg.nn.Bilinear(2, 2, 1)
    x = rg.ones(3, 2)
    assert rg.nn.parallel.data_parallel(add, (x, x)).tolist() == add(x, x).tolist()
    assert rg.nn.parallel.data_parallel(rg.nn.Identity(), x) is x
    assert rg.nn.parallel.data_parallel(rg.nn.Identity(), None, module_kwargs={"input": x}) is x


def test_sharing_strategy_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.multiprocessing._strategy", "file_descriptor")
    rg.multiprocessing.set_sharing_strategy("file_system")
    assert rg.multiprocessing.get_sharing_strategy() == "file_system"
    with pytest.raises(ValueError, match="'file_descriptor', 'file_system'"):
        rg.multiprocessing.set_sharing_strategy("threads")


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        ("distributed", "fsdp", "one process"),
        ("jit", "trace", "state_dict"),
        ("multiprocessing", "spawn", "send arrays"),
        ("mps", "empty_cache", "through CuPy"),
        ("xpu", "synchronize", "is_available"),
    ],
)
def test_missing_names_about_processes_raise_with_advice(module: str, name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=f"'retrograd.{module}' has no attribute '{name}': .*{advice}"):
        getattr(getattr(rg, module), name)
    with pytest.raises(ModuleNotFoundError, match=f"No module or name 'retrograd.{module}.{name}': .*{advice}"):
        exec(f"from retrograd.{module} import {name}", {})
    with pytest.raises(ModuleNotFoundError, match=f"No module or name 'retrograd.{module}.inside': .*{advice}"):
        exec(f"from retrograd.{module}.inside.this import {name}", {})


@parity
def test_functions_for_several_processes_can_be_imported_but_not_called(m: Any) -> Any:
    """Training scripts import them first, as in ``from torch.distributed import init_process_group``."""
    dist, x = m.distributed, m.ones(1)
    calls = [dist.get_rank, dist.get_world_size, dist.barrier, dist.new_group, dist.get_backend]
    calls += [partial(dist.all_reduce, x), partial(dist.broadcast, x, src=0), partial(dist.all_gather, [x], x)]
    return [callable(dist.init_process_group), hasattr(dist, "fsdp_"), *map(attempt, calls)]


@parity
def test_annotations_and_defaults_about_processes(m: Any) -> Any:
    """Functions that would join numbers of several processes are defined whether they are called or not."""
    dist = m.distributed

    def joined(x: Any, op: Any = dist.ReduceOp.SUM, group: dist.ProcessGroup | None = dist.group.WORLD) -> Any:
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(x, op=op, group=group)
        return x

    operations = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"]
    return [joined(m.ones(2)), dist.group.WORLD is None, *[hasattr(dist.ReduceOp, name) for name in operations]]


# --- torch.jit --------------------------------------------------------------------------------------------------------


@parity
def test_jit_script_and_trace_do_not_change_programs(m: Any) -> Any:
    @m.jit.script_if_tracing
    def double(x):
        return x * 2

    class Model(m.nn.Module):
        @m.jit.ignore
        def kept(self, x):
            return x

        @m.jit.ignore(drop=True)
        def dropped(self, x):
            return x

        @m.jit.unused
        def without(self, x):
            return x

        @m.jit.export
        def forward(self, x):
            return x if m.jit.is_scripting() or m.jit.is_tracing() else self.without(self.dropped(self.kept(double(x))))

    return [Model()(m.ones(2)), attempt(lambda: m.jit.script(3))]


def test_jit_script_returns_its_argument() -> None:
    model = rg.nn.Linear(2, 1)
    assert rg.jit.script(model) is model
    assert rg.jit.script(rg.relu) is rg.relu
    assert rg.nn.Module.compile(model, mode="max-autotune") is None


def test_compiler_functions_do_nothing() -> None:
    def double(x: Any) -> Any:
        return x * 2

    compiler = rg.compiler
    assert compiler.disable(double) is compiler.disable(recursive=False)(double) is double
    assert compiler.compile(double) is compiler.allow_in_graph(double) is compiler.assume_constant_result(double)
    assert not (compiler.is_compiling() or compiler.is_dynamo_compiling() or compiler.is_exporting())
    assert compiler.reset() is compiler.cudagraph_mark_step_begin() is None


# --- devices and versions ---------------------------------------------------------------------------------------------


@without_gpu
@parity
def test_accelerator_functions_without_an_accelerator(m: Any) -> Any:
    accelerator = m.accelerator
    device = accelerator.current_accelerator() if accelerator.is_available() else m.device("cpu")
    m.cuda.set_rng_state_all(m.cuda.get_rng_state_all())
    return [str(device), accelerator.device_count(), m.cuda.get_rng_state_all()]


@without_gpu
def test_accelerator_setters_do_nothing_without_an_accelerator() -> None:
    rg.accelerator.synchronize()
    rg.accelerator.set_device_index(0)
    rg.accelerator.empty_cache()
    assert rg.accelerator.current_accelerator() is None
    assert rg.version.__version__ == rg.__version__
    assert rg.version.cuda is rg.version.hip is None  # torch gives the version that it was built with


def test_utils_dlpack_shares_memory() -> None:
    x = rg.arange(3.0)
    assert rg.utils.dlpack.from_dlpack(x)[0] == 0
    torch.utils.dlpack.from_dlpack(rg.utils.dlpack.to_dlpack(x))[0] = 7
    assert x.tolist() == [7, 1, 2]


# --- bfloat16 is only a name ------------------------------------------------------------------------------------------


@parity
def test_bfloat16_can_be_named(m: Any) -> Any:
    half = {"bfloat16": m.bfloat16, "float16": m.float16}["float16"]
    with m.autocast("cpu", dtype=m.bfloat16, enabled=False):
        x = m.ones(2)
    kinds = [m.bfloat16.is_floating_point, m.bfloat16.is_complex, m.bfloat16.is_signed, m.bfloat16.itemsize]
    return [
        half,
        x,
        x.dtype == m.bfloat16,
        str(m.bfloat16).split(".")[1],
        kinds,
        copy.deepcopy(m.bfloat16) is m.bfloat16,
    ]


@pytest.mark.parametrize(
    "use",
    [
        lambda: rg.ones(2, dtype=rg.bfloat16),
        lambda: rg.ones(2).to(rg.bfloat16),
        lambda: rg.nn.Linear(2, 1).to(rg.bfloat16),
        lambda: rg.finfo(rg.bfloat16),
    ],
)
def test_tensors_of_bfloat16_raise(use: Any) -> None:
    with pytest.raises(TypeError, match=r"retrograd\.bfloat16 is not a supported dtype\. The only supported types are"):
        use()
    with pytest.raises(NotImplementedError, match="use float"):
        rg.nn.Linear(2, 1).bfloat16()


# --- older names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in vars(torch.nn.init) if f"{name}_" in vars(torch.nn.init)])
def test_deprecated_names_in_nn_init(name: str) -> None:
    arguments = {"constant": (0.5,), "sparse": (0.5,)}.get(name, ())
    weight = rg.empty(3, 3, 1) if name == "dirac" else rg.empty(3, 3)
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."):
        old = getattr(rg.nn.init, name)(weight, *arguments, **({"gain": 1.0} if name == "xavier_normal" else {}))
    assert old is weight


def test_deprecated_clip_grad_norm() -> None:
    def clipped(m: Any) -> list[float]:
        w = m.tensor([3.0, 4.0], requires_grad=True)
        (w * w).sum().backward()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            norm = m.nn.utils.clip_grad_norm([w], 1.0)
        assert [warning.category for warning in caught] == [FutureWarning]
        return [norm.item(), *w.grad.tolist()]

    assert clipped(rg) == pytest.approx(clipped(torch), rel=1e-6)


@parity
def test_pytree_functions_match_torch(m: Any) -> Any:
    tree = importlib.import_module(f"{m.__name__}.utils._pytree")
    nested = {"b": [1, (2, None)], "a": (), "c": collections.OrderedDict(x=m.ones(2), y=4)}
    leaves, spec = tree.tree_flatten(nested)
    report = [leaves, tree.tree_unflatten(leaves, spec) == nested, tree.tree_structure(nested) == spec]
    report += [tree.tree_map(lambda x, y: (x, y), [1, (2,)], [3, (4,)]), tree.tree_leaves(3)]
    report += [tree.tree_map_only(int, lambda x: -x, nested), tree.tree_map_only((int, m.Tensor), str, [1, "a", None])]
    report += [tree.tree_any(lambda x: x == 4, [1, [4]]), tree.tree_all(lambda x: x == 4, [1, [4]])]
    report += [tree.tree_map(lambda x, y: (x, y), {"a": 1, "b": [2]}, {"b": [(3, 4)], "a": [5]})]
    for other in ([1], [1, 2, 3], (1, 2), 1, {"a": 1, "b": 2}):
        report.append(attempt(lambda: tree.tree_map(lambda x, y: x, [1, 2], other)))  # noqa: B023
    report += [attempt(lambda: tree.tree_map(lambda x, y: x, {"a": 1}, {"b": 1}))]
    return report


def test_private_and_typing_names_that_scripts_import() -> None:
    from retrograd.functional import einsum, norm
    from retrograd.nn.modules.transformer import _get_activation_fn, _get_clones
    from retrograd.types import Device, Number, _dtype

    assert einsum is rg.einsum and norm is rg.norm
    assert isinstance(2.5, Number) and isinstance("cpu", Device) and isinstance(rg.float32, _dtype)
    assert set(torch.functional.__all__) - set(rg.functional.__all__) <= {"lu"}
    assert set(torch.types.__all__) <= set(rg.types.__all__)
    layers = _get_clones(rg.nn.Linear(2, 2), 3)
    assert len({id(layer.weight) for layer in layers}) == 3
    assert _get_activation_fn("gelu") is rg.nn.functional.gelu
