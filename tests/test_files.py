"""Tensors in files come back unchanged, other libraries can read them, and loading never runs code."""

from __future__ import annotations

import argparse
import copy
import io
import json
import os
import pickle
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg

FORMATS = ["npz", "safetensors", "pt"]
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]


def model() -> Any:
    return rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.BatchNorm1d(4), rg.nn.Linear(4, 2))


def same(x: Any, y: Any) -> bool:
    if isinstance(x, rg.Tensor):
        return x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x.numpy(), y.numpy(), equal_nan=True)
    if type(x) is not type(y):
        return False
    if isinstance(x, argparse.Namespace):
        return same(vars(x), vars(y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[key], y[key]) for key in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    return x == y or (x != x and y != y)


@pytest.mark.parametrize("ending", FORMATS)
def test_save_and_load_every_dtype_and_shape(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    tensors = {}
    for name in [*DTYPES, *(["complex128"] if ending == "npz" else [])]:
        for shape in ((), (3,), (0, 2), (2, 3, 4)):
            tensors[f"{name}{len(shape)}"] = rg.tensor(np.asarray(rng.standard_normal(shape) * 3)).to(getattr(rg, name))
    tensors["transposed"] = rg.arange(6).reshape(2, 3).t()
    tensors["odd"] = rg.tensor([np.nan, np.inf, -0.0])
    rg.save(tensors, tmp_path / f"x.{ending}")
    loaded = rg.load(tmp_path / f"x.{ending}")
    assert set(loaded) == set(tensors)
    assert all(same(loaded[name], tensor) for name, tensor in tensors.items())
    loaded["float323"].add_(1)  # the memory is not shared


@pytest.mark.parametrize("ending", FORMATS)
def test_save_and_load_a_training_checkpoint(tmp_path: Path, ending: str) -> None:
    net = model()
    optimizer = rg.optim.Adam(net.parameters(), lr=0.01, amsgrad=True)
    scheduler = rg.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 4], gamma=0.5)

    def go(epochs: int) -> None:
        for _ in range(epochs):
            optimizer.zero_grad()
            (net(rg.ones(5, 3) * rg.arange(5.0).reshape(5, 1)) ** 2).sum().backward()
            optimizer.step()
            scheduler.step()

    go(3)
    everything = {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "notes": ("run 7", None, True, [1.5, float("inf"), 2 + 1j, -3], {}, ()),
        "run": [rg.device("cuda:1"), rg.float16, rg.ones(2, 3).shape, b"\x00a\xff"],
        "args": argparse.Namespace(lr=0.01, layers=(3, 4), device=rg.device("cpu"), std=rg.ones(2)),
    }
    saved = copy.deepcopy(everything)
    rg.save(everything, tmp_path / f"c.{ending}")
    go(3)
    expected = net.state_dict()["0.weight"].clone()

    loaded = rg.load(tmp_path / f"c.{ending}")
    assert same(loaded["optimizer"], saved["optimizer"])
    assert same(loaded["notes"], saved["notes"])
    assert same(loaded["run"], saved["run"])
    assert same(loaded["args"], saved["args"])
    net = model()
    optimizer = rg.optim.Adam(net.parameters())
    scheduler = rg.optim.lr_scheduler.MultiStepLR(optimizer, [])
    net.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    scheduler.load_state_dict(loaded["scheduler"])
    go(3)
    assert same(net.state_dict()["0.weight"], expected)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
TENSORS = st.lists(st.floats(width=32), max_size=3).map(rg.tensor)
NESTED = st.recursive(
    PLAIN | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES | st.integers(-3, 3), inner, max_size=3)
        | st.sets(NAMES | st.integers(-3, 3), max_size=3)
    ),
    max_leaves=8,
)


@given(NESTED, st.sampled_from(FORMATS))
def test_save_and_load_nested_containers(tmp_path_factory: pytest.TempPathFactory, thing: Any, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"nested.{ending}"
    rg.save(thing, path)
    assert same(rg.load(path), thing)


@pytest.mark.parametrize("ending", FORMATS)
def test_save_and_load_numpy_arrays(tmp_path: Path, ending: str) -> None:
    """Checkpoints contain arrays such as predictions and the states of random generators."""
    thing = {
        "model": {"weight": rg.ones(2)},
        "predictions": np.arange(6.0).reshape(2, 3).T,
        "numpy": np.random.RandomState(3).get_state(),
        "generator": np.random.default_rng(3).bit_generator.state,
        "rows": [np.zeros((0, 2), "uint16"), np.array(3, "uint64"), np.array([True, False]), np.array([np.nan], "f2")],
    }
    rg.save({**thing, "big-endian": np.array([1, 2], ">i4")}, tmp_path / f"x.{ending}")
    found = rg.load(tmp_path / f"x.{ending}")
    assert found.pop("big-endian").tolist() == [1, 2]
    assert same(found, thing)
    np.random.RandomState().set_state(found["numpy"])
    found["predictions"] += 1  # the memory is not shared
    rg.save({"a": np.ones(2), "b": np.zeros(1)}, tmp_path / f"x.{ending}")
    assert same(rg.load(tmp_path / f"x.{ending}"), {"a": np.ones(2), "b": np.zeros(1)})
    rg.save(np.ones(2), tmp_path / f"x.{ending}")
    assert same(rg.load(tmp_path / f"x.{ending}"), np.ones(2))


def test_keys_that_could_collide_in_a_file(tmp_path: Path) -> None:
    thing = {"a": {"b": rg.ones(1)}, "a.b": rg.zeros(1), "__structure__": rg.ones(2), "file": rg.ones(3)}
    for ending in FORMATS:
        rg.save(thing, tmp_path / f"x.{ending}")
        assert same(rg.load(tmp_path / f"x.{ending}"), thing)


def test_npz_files_are_readable_by_numpy(tmp_path: Path) -> None:
    net = model()
    rg.save(net.state_dict(), tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        arrays = dict(file)
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    theirs.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    assert theirs[0].weight.tolist() == net[0].weight.tolist()

    np.savez(tmp_path / "t.npz", **{name: value.numpy() for name, value in theirs.state_dict().items()})
    fresh = model()
    fresh.load_state_dict(rg.load(tmp_path / "t.npz"))
    assert same(fresh.state_dict()["2.bias"], net.state_dict()["2.bias"])


def test_safetensors_files_follow_the_format(tmp_path: Path) -> None:
    """Read the bytes as the description of the format says."""
    tensors = {"b": rg.arange(3, dtype=rg.int64), "a": rg.tensor([[1.5, 2.5]]), "flag": rg.tensor(True)}
    rg.save(tensors, tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    assert data[8:9] == b"{" and length % 8 == 0 and set(header) == set(tensors)
    torchs = {"I64": torch.int64, "F32": torch.float32, "BOOL": torch.bool}
    ends = []
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        ends.append((start, stop))
        read = torch.frombuffer(bytearray(body[start:stop]), dtype=torchs[entry["dtype"]]).reshape(entry["shape"])
        assert read.tolist() == tensors[name].tolist()
    ends.sort()
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])] and ends[-1][1] == len(body)


def test_safetensors_files_are_exchanged_with_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    theirs = {"x": torch.randn(3, 4), "n": torch.arange(3), "half": torch.randn(5).bfloat16()}
    library.save_file(theirs, tmp_path / "t.safetensors", metadata={"format": "pt"})
    loaded = rg.load(tmp_path / "t.safetensors")
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        name: tensor.tolist() for name, tensor in theirs.items()
    }
    ours = {"x": rg.randn(3, 4), "n": rg.arange(3), "none": rg.zeros(0, 2), "number": rg.tensor(2.5)}
    for thing in (ours, {"nested": ours, "epoch": 3}):
        rg.save(thing, tmp_path / "r.safetensors")
        read = library.load_file(tmp_path / "r.safetensors")
        assert sorted(tensor.tolist() for tensor in ours.values() if tensor.ndim == 2) == sorted(
            tensor.tolist() for tensor in read.values() if tensor.ndim == 2
        )


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    values = torch.tensor([1.5, -2.0, float("inf"), 3e38, 1e-40]).bfloat16()
    header = json.dumps({"x": {"dtype": "BF16", "shape": [5], "data_offsets": [0, 10]}}).encode()
    body = values.view(torch.int16).numpy().tobytes()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + body)
    loaded = rg.load(tmp_path / "x.safetensors")["x"]
    assert loaded.dtype == rg.float32 and loaded.tolist() == values.float().tolist()


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return print, ("it ran",)


def test_loading_a_file_runs_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([Bomb()], dtype=object))
    (tmp_path / "y.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("x.npz", "y.npz"):
        with pytest.raises(ValueError, match=r"not an \.npz file of plain arrays"):
            rg.load(tmp_path / name)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("ending", FORMATS)
def test_damaged_files_raise(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    rg.save({"x": rg.arange(100.0), "y": {"z": rg.ones(50)}}, path)
    whole = path.read_bytes()
    for size in (0, 5, 9, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"x\.(npz|safetensors|pt)"):
            rg.load(path)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"x": 3}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}',
        b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}',
        b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}}',
        b'{"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}',
        b'{"__metadata__": {"__structure__": "[\\"tensor\\", \\"y\\"]"}}',
    ],
)
def test_inconsistent_safetensors_headers_raise(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match=r"x\.safetensors"):
        rg.load(tmp_path / "x.safetensors")


def test_misuse_of_save_and_load_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.npy: \.npy is not supported; use \.npz, \.safetensors, or"):
        rg.save({}, tmp_path / "x.npy")
    with pytest.raises(TypeError, match=r"save: a\.1 is of type range"):
        rg.save({"a": [rg.ones(1), range(3)]}, tmp_path / "x.npz")
    with pytest.raises(TypeError, match=r"save: a is of type ndarray.*; save its tolist\(\)"):
        rg.save({"a": np.array(["cat"])}, tmp_path / "x.pt")
    with pytest.raises(TypeError, match=r"save: the object is of type Linear.*; save its state_dict\(\)"):
        rg.save(rg.nn.Linear(1, 1), tmp_path / "x.pt")
    with pytest.raises(TypeError, match="keys cannot contain tensors"):
        rg.save({rg.ones(1): 1}, tmp_path / "x.npz")
    with pytest.raises(TypeError, match="safetensors has no dtype for x, which is complex128"):
        rg.save({"x": rg.ones(1, dtype=rg.complex128)}, tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError):
        rg.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError, match=re.escape(f"{str(tmp_path)!r}")):
        rg.save({}, tmp_path)
    with pytest.raises(AttributeError, match="save: expected 'f' to be a path or an open file, not dict; the path is"):
        rg.save(str(tmp_path / "x.pt"), {})  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="load: expected 'f' to be a path or an open file, not NoneType"):
        rg.load(None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_save_and_load_accept_paths_of_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "x.pt")
    rg.save({"x": rg.ones(2)}, path)  # type: ignore[arg-type]
    assert same(rg.load(path), {"x": rg.ones(2)})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="opened as text"), open(path, encoding="latin1") as file:
        rg.load(file)  # type: ignore[arg-type]


def test_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    rg.save({"x": rg.ones(2)}, path)
    with pytest.raises(TypeError):
        rg.save({"x": rg.ones(2), "y": rg.ones(1, dtype=rg.complex128)}, path)
    assert same(rg.load(path), {"x": rg.ones(2)})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", FORMATS)
def test_threads_saving_to_one_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"

    def save(number: int) -> None:
        for _ in range(20):
            rg.save({"x": rg.full((5000,), float(number))}, path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))  # raises the error of a thread
    x = rg.load(path)["x"]
    assert bool((x == x[0]).all())
    assert list(tmp_path.iterdir()) == [path]


def test_npz_members_are_named_after_the_keys(tmp_path: Path) -> None:
    rg.save({"x": rg.ones(2)}, tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz") as file:
        assert file.namelist() == ["x.npy"]
        assert np.load(io.BytesIO(file.read("x.npy"))).tolist() == [1.0, 1.0]
