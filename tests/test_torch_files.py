"""Files of ``torch.save`` are read without torch and without running code, and torch reads files written here."""

from __future__ import annotations

import argparse
import collections
import contextlib
import gzip
import io
import pickle
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from tests.test_files import DTYPES, PLAIN, Bomb, same


def from_torch(thing: Any, **options: Any) -> Any:
    """Save with torch and load with retrograd."""
    buffer = io.BytesIO()
    torch.save(thing, buffer, **options)
    buffer.seek(0)
    return rg.load(buffer)


def by_torch(thing: Any) -> Any:
    """Save with retrograd and load with torch in its restricted mode."""
    buffer = io.BytesIO()
    rg.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def alike(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return (
            str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
            and tuple(ours.shape) == tuple(theirs.shape)
            and ours.requires_grad == theirs.requires_grad
            and np.array_equal(ours.detach().numpy(), theirs.detach().resolve_conj().numpy(), equal_nan=True)
        )
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(alike(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, (list, tuple)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(alike, ours, theirs))
    return type(ours) is type(theirs) and (ours == theirs or ours != ours)


TENSORS = st.builds(
    lambda shape, dtype: torch.arange(np.prod(shape, dtype=int)).reshape(shape).to(getattr(torch, dtype)),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([*DTYPES, "complex128"]),
)
NESTED = st.recursive(
    PLAIN | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(-3, 3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(NESTED)
def test_files_are_exchanged_with_torch(thing: Any) -> None:
    ours = from_torch(thing)
    assert alike(ours, thing)
    assert alike(ours, by_torch(ours))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_files_of_torch_in_every_pickle_protocol(protocol: int) -> None:
    thing = {"weight": torch.ones(2, 3), "list": [1, -5, 2**70, 0.5, None, True], "set": {1, 2}, "long": "é" * 300}
    assert alike(from_torch(thing, pickle_protocol=protocol), thing)


@pytest.mark.parametrize(
    "options", [{"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}, {"pickle_module": pickle}]
)
def test_pickle_options_are_accepted(tmp_path: Path, options: dict[str, Any]) -> None:
    """Scripts pass them; the written format is always the same."""
    rg.save({"x": rg.ones(2)}, tmp_path / "x.pt", **options)
    assert torch.load(tmp_path / "x.pt")["x"].tolist() == [1.0, 1.0]
    assert rg.load(tmp_path / "x.pt", pickle_module=pickle, encoding="latin1")["x"].tolist() == [1.0, 1.0]


def test_training_continues_across_both_libraries(tmp_path: Path) -> None:
    """A run that starts in torch, continues here and ends in torch equals a run in torch alone."""

    def build(m: Any) -> Any:
        model = m.nn.Sequential(m.nn.BatchNorm1d(3), m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 1)).double()
        return model, m.optim.AdamW(model.parameters(), lr=0.05)

    def train(m: Any, model: Any, optimizer: Any) -> None:
        x = m.linspace(-1, 2, 24, dtype=m.float64).reshape(
            8, 3
        )  # no mean is 0, whose digits would all be rounding errors
        for _ in range(4):
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()

    def save(m: Any, model: Any, optimizer: Any) -> None:
        m.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "run.pt")

    def resume(m: Any) -> Any:
        model, optimizer = build(m)
        checkpoint = m.load(tmp_path / "run.pt", map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        return model, optimizer

    stayed = build(torch)
    save(torch, *stayed)
    for _ in range(3):
        train(torch, *stayed)

    for m in (torch, rg, torch):
        moved = resume(m)
        train(m, *moved)
        save(m, *moved)
    for name, value in stayed[0].state_dict().items():
        np.testing.assert_allclose(moved[0].state_dict()[name].numpy(), value.numpy(), rtol=1e-9)


def test_state_dicts_keep_module_versions() -> None:
    model = torch.nn.BatchNorm1d(2)
    ours = from_torch(model.state_dict())
    assert ours._metadata == model.state_dict()._metadata
    assert by_torch(ours)._metadata == ours._metadata
    assert type(ours) is collections.OrderedDict


@pytest.mark.parametrize("written", [torch, rg], ids=["torch", "retrograd"])
@pytest.mark.parametrize("read", [torch, rg], ids=["torch", "retrograd"])
def test_milestones_of_a_schedule_survive(written: Any, read: Any) -> None:
    def schedule(m: Any) -> Any:
        return m.optim.lr_scheduler.MultiStepLR(m.optim.SGD([m.nn.Parameter(m.ones(2))]), [2, 4, 4])

    stream = io.BytesIO()
    written.save(schedule(written).state_dict(), stream)
    stream.seek(0)
    state = read.load(stream)
    assert type(state["milestones"]) is collections.Counter
    resumed = schedule(read)
    resumed.load_state_dict(state)
    assert resumed.milestones == schedule(torch).milestones


@pytest.mark.filterwarnings("ignore:.*TypedStorage")
def test_torch_objects_without_a_numpy_equivalent() -> None:
    thing = {
        "bfloat16": torch.tensor([1.5, -2.0, float("inf")]).bfloat16(),
        "size": torch.Size([2, 3]),
        "device": torch.device("cuda:0"),
        "dtype": torch.float16,
        "scalar": np.float32(0.5),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "buffer": torch.nn.Buffer(torch.ones(2)),
        "default": collections.defaultdict(list, {1: 2}),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j]).conj().imag,
    }
    ours = from_torch(thing)
    assert ours["bfloat16"].dtype == rg.float32
    assert ours["bfloat16"].tolist() == thing["bfloat16"].tolist()
    assert ours["size"] == rg.Size([2, 3])
    assert ours["device"] == rg.device("cuda:0")
    assert ours["dtype"] is rg.float16
    assert ours["scalar"] == 0.5
    assert (ours["parameter"].requires_grad, ours["frozen"].requires_grad) == (True, False)
    assert ours["buffer"].tolist() == [1.0, 1.0]
    assert ours["default"] == {1: 2}
    assert ours["conjugate"].tolist() == [1 - 2j]
    assert ours["negative"].tolist() == [-2.0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128", "int64", "uint8", "uint32", "bool"])
def test_numpy_arrays_in_torch_files(dtype: str) -> None:
    """torch.load refuses them unless it may run code; here they are read as data."""
    array = np.arange(6).reshape(2, 3).astype(dtype)
    arrays = [array, array.T, array[:, ::2], array[:, :0], np.array(3, dtype), array]
    ours = from_torch({"arrays": arrays, "state": np.random.RandomState(3).get_state()})
    for mine, theirs in zip(ours["arrays"], arrays, strict=True):
        assert type(mine) is np.ndarray
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs)
        assert mine.flags.writeable
    assert ours["arrays"][0] is ours["arrays"][-1]
    np.random.RandomState().set_state(ours["state"])


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex128", "int64", "uint8", "uint32", "bool"])
def test_torch_reads_saved_numpy_arrays(dtype: str) -> None:
    """It must be allowed to run code, as with arrays that torch itself saved."""
    array = np.arange(6).reshape(2, 3).astype(dtype)
    arrays = [array, array.T, array[:, ::2], array[:, :0], np.array(3, dtype), array]
    buffer = io.BytesIO()
    rg.save({"arrays": arrays, "tensor": rg.ones(2), "state": np.random.RandomState(3).get_state()}, buffer)
    for found in (
        torch.load(io.BytesIO(buffer.getvalue()), weights_only=False),
        rg.load(io.BytesIO(buffer.getvalue())),
    ):
        assert same(found["arrays"], arrays)
        assert found["arrays"][0] is found["arrays"][-1]
        assert found["tensor"].tolist() == [1, 1]
        np.random.RandomState().set_state(found["state"])


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.zeros(2, ">f4"), np.ma.array([1.0])])
def test_numpy_arrays_of_objects_are_refused(array: Any) -> None:
    with pytest.raises(ValueError, match="No code in a file is run, so it may hold only tensors, arrays of numbers"):
        from_torch({"array": array})


def passed_on(thing: Any, written: Any, read: Any) -> Any:
    """Save with one library and load with the other."""
    buffer = io.BytesIO()
    written.save(thing, buffer)
    buffer.seek(0)
    return read.load(buffer)


BOTH = pytest.mark.parametrize(
    ("written", "read"),
    [(torch, rg), (rg, torch), (rg, rg)],
    ids=["torch to retrograd", "retrograd to torch", "retrograd to retrograd"],
)


@BOTH
def test_loaded_views_share_memory_as_before(written: Any, read: Any) -> None:
    base = written.arange(6.0)
    found = passed_on([base, base[2:4], base.reshape(2, 3).t(), base[::2], written.ones(1).expand(3)], written, read)
    found[0][2] = 7
    assert found[1].tolist() == [7, 3]
    assert found[2].tolist() == [[0, 3], [1, 4], [7, 5]]
    assert found[2].stride() == (1, 3)
    assert found[3].tolist() == [0, 7, 4]
    assert found[4].tolist() == [1, 1, 1]
    assert found[4].stride() == (0,)
    if read is rg:
        assert found[1]._version == 1


MOVES: dict[str, Any] = {
    "transpose": lambda x: x.transpose(0, -1) if x.ndim else x,
    "tail": lambda x: x[1:] if x.ndim and len(x) > 1 else x,
    "step": lambda x: x[::2] if x.ndim else x,
    "last": lambda x: x[-1] if x.ndim and len(x) else x,
    "diagonal": lambda x: x.diagonal() if x.ndim > 1 else x,
    "flat": lambda x: x.reshape(-1),
}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.lists(st.lists(st.sampled_from([*MOVES])), min_size=2))
def test_random_loaded_views_share_memory_as_before(shape: list[int], moves: list[list[str]]) -> None:
    """A write to one of them shows in the others, as in torch."""

    def views(library: Any) -> list[Any]:
        base = library.arange(float(np.prod(shape))).reshape(shape)
        found = []
        for names in moves:
            view = base
            for name in names:
                view = MOVES[name](view)
            found.append(view)
        return found

    def history(found: list[Any]) -> list[Any]:
        states = [[view.tolist() for view in found]]
        for view in found:
            view.add_(100)
            states.append([other.tolist() for other in found])
        return states

    expected = history(passed_on(views(torch), torch, torch))
    for written, read in ((torch, rg), (rg, torch), (rg, rg)):
        assert history(passed_on(views(written), written, read)) == expected


def test_memory_that_no_tensor_needs_is_not_saved() -> None:
    def size(thing: Any) -> int:
        buffer = io.BytesIO()
        rg.save(thing, buffer)
        return len(buffer.getvalue())

    large = rg.zeros(100, 100)
    alone = size(rg.zeros(100))
    assert size(large[3]) == alone
    assert abs(size(large[:, 3]) - alone) < 10  # saved without gaps
    assert by_torch(large[:, 3]).is_contiguous()
    halves = size([large[:50], large[50:], large[50:]])
    assert 40_000 < halves < 42_000


@BOTH
def test_loaded_conjugate_views_share_memory_as_before(written: Any, read: Any) -> None:
    x = written.tensor([1 + 2j, 3 - 1j])
    negative = passed_on(x.conj().imag, written, read)
    assert negative.is_neg()
    assert negative.tolist() == [-2.0, 1.0]
    found = passed_on([x, x.conj(), x.conj()[1:]], written, read)
    assert [view.is_conj() for view in found] == [False, True, True]
    found[0][1] = 5 + 6j
    assert found[1].tolist() == [1 - 2j, 5 - 6j]
    assert found[2].tolist() == [5 - 6j]


@BOTH
def test_identical_objects_stay_identical(written: Any, read: Any) -> None:
    x, p, inner = written.ones(2), written.nn.Parameter(written.ones(2)), [1]
    found = passed_on({"x": [x, x], "p": (p, p), "inner": [inner, inner]}, written, read)
    assert found["x"][0] is found["x"][1]
    assert found["p"][0] is found["p"][1]
    assert isinstance(found["p"][0], read.nn.Parameter)
    assert found["inner"][0] is found["inner"][1]
    many = [written.full((1,), float(n)) for n in range(300)]
    found = passed_on([*many, *many], written, read)
    assert all(first is second for first, second in zip(found[:300], found[300:], strict=True))
    assert [float(tensor) for tensor in found[:300]] == list(range(300))


@BOTH
def test_namespace_of_program_arguments_is_saved(written: Any, read: Any) -> None:
    """Many scripts save ``args`` in checkpoints; torch reads it only with ``weights_only=False``."""
    args = argparse.Namespace(lr=0.1, layers=[2, 3], name="run 7", inner=argparse.Namespace(), mean=written.ones(2))
    stream = io.BytesIO()
    written.save({"args": args, "again": args}, stream)
    stream.seek(0)
    found = read.load(stream, weights_only=False)
    assert type(found["args"]) is type(found["args"].inner) is argparse.Namespace
    assert found["args"] is found["again"]
    assert isinstance(found["args"].mean, read.Tensor)
    assert (found["args"].lr, found["args"].layers, found["args"].name) == (0.1, [2, 3], "run 7")
    assert list(vars(found["args"])) == list(vars(args))


@BOTH
def test_attributes_of_tensors_are_saved(written: Any, read: Any) -> None:
    def named(tensor: Any, name: Any) -> Any:
        tensor.label = name
        return tensor

    things = [
        named(written.ones(2), "plain"),
        named(written.nn.Parameter(written.ones(2)), {"of": "a parameter", "with": written.zeros(3)}),
        named(written.ones(2, requires_grad=True), None),
        written.nn.Buffer(written.ones(2), persistent=False),
    ]
    plain, parameter, leaf, buffer = passed_on(things, written, read)
    assert plain.label == "plain" and not isinstance(plain, read.nn.Parameter)
    assert parameter.label["of"] == "a parameter" and parameter.label["with"].tolist() == [0, 0, 0]
    assert isinstance(parameter, read.nn.Parameter) and parameter.requires_grad
    assert leaf.label is None and leaf.requires_grad
    assert isinstance(buffer, read.nn.Buffer) and buffer.persistent is False


def test_unsupported_attributes_raise_when_saved() -> None:
    weight = rg.nn.Parameter(rg.ones(2))
    weight.rule = abs  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"attribute of a tensor of shape \[2\] cannot be stored.*rule.*detach"):
        rg.save({"weight": weight}, io.BytesIO())
    assert by_torch(weight.detach()).tolist() == [1, 1]


def test_attributes_in_a_file_cannot_replace_methods() -> None:
    x = torch.ones(2)
    x.backward = 3  # type: ignore[assignment,method-assign]
    with pytest.raises(ValueError, match="it sets backward of a tensor"):
        from_torch(x)


class Stream:
    """A file object with only the methods that torch needs."""

    def __init__(self, *methods: str, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)
        for name in methods:
            setattr(self, name, getattr(self.buffer, name))


def test_save_and_load_minimal_file_objects(tmp_path: Path) -> None:
    thing = {"x": rg.arange(5.0)}
    stream = Stream("write")
    rg.save(thing, stream)  # type: ignore[arg-type]
    data = stream.buffer.getvalue()
    assert torch.load(io.BytesIO(data))["x"].tolist() == [0, 1, 2, 3, 4]
    for methods in (("read",), ("read", "readline", "seek", "tell")):
        assert same(rg.load(Stream(*methods, data=data)), thing)  # type: ignore[arg-type]
    with gzip.open(tmp_path / "x.pt.gz", "wb") as packed:
        rg.save(thing, packed)  # type: ignore[arg-type]
    for library in (rg, torch):
        with gzip.open(tmp_path / "x.pt.gz", "rb") as packed:
            assert library.load(packed)["x"].tolist() == [0, 1, 2, 3, 4]


@BOTH
def test_load_after_other_data_in_the_same_file(written: Any, read: Any) -> None:
    buffer = io.BytesIO()
    pickle.dump("first", buffer)
    written.save(written.ones(2), buffer)
    buffer.seek(0)
    assert pickle.load(buffer) == "first"
    assert read.load(buffer).tolist() == [1, 1]


def test_loading_the_first_of_two_saves_in_one_file_raises() -> None:
    buffer = io.BytesIO()
    rg.save(rg.ones(2), buffer)
    second = buffer.tell()
    rg.save(rg.zeros(200), buffer)
    buffer.seek(0)
    with pytest.raises(
        ValueError, match=f"read from byte 0 on, but the object that was saved last begins at byte {second}"
    ):
        rg.load(buffer)
    buffer.seek(second)
    assert rg.load(buffer).shape == (200,)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "float8_e5m2"])
def test_dtypes_missing_in_numpy_are_named(dtype: str) -> None:
    with pytest.raises(ValueError, match=rf"cannot be read: it contains torch\.{dtype}"):
        from_torch(torch.ones(2).to(getattr(torch, dtype)))


def test_tied_weights_are_stored_once() -> None:
    model = rg.nn.Sequential(rg.nn.Embedding(50, 20), rg.nn.Linear(20, 50, bias=False))
    model[1].weight = model[0].weight
    theirs = by_torch(model.state_dict())
    assert theirs["0.weight"].data_ptr() == theirs["1.weight"].data_ptr()


@pytest.mark.parametrize("location", ["cpu", rg.device("cpu"), None, {"cuda:0": "cpu"}, lambda storage, where: storage])
def test_map_location_is_accepted(location: Any, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pth")
    assert rg.load(tmp_path / "x.pth", map_location=location, weights_only=False)["x"].device == rg.device("cpu")


# --- malicious files --------------------------------------------------------------------------------------------------


def archive(pickled: bytes, *, storage: bytes = bytes(8), names: tuple[str, ...] = ()) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as members:
        members.writestr("archive/data.pkl", pickled)
        members.writestr("archive/data/0", storage)
        for name in names:
            members.writestr(name, b"")
    buffer.seek(0)
    return buffer


def tensor_pickle(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """Return the pickle of a float32 tensor with the given numbers, which may be invalid."""
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    with zipfile.ZipFile(buffer) as members:
        template = members.read("archive/data.pkl")
    integers = {2: iter((count,)), 0: iter((offset,))}
    out, operations = b"", list(pickletools.genops(template))
    ends = [position for _, _, position in operations[1:]] + [len(template)]
    seen_offset = False
    for (opcode, arg, position), end in zip(operations, ends, strict=True):
        piece = template[position:end]
        if opcode.name == "BININT1" and not seen_offset:
            piece = struct.pack("<ci", b"J", next(integers[arg]))
            seen_offset = arg == 0
        elif opcode.name == "BININT1":
            continue
        elif opcode.name == "TUPLE1":
            numbers, size, stride = size, stride, ()
            piece = b"(" + b"".join(struct.pack("<ci", b"J", n) for n in numbers) + b"t"
        out += piece
    return out


def test_handmade_tensor_pickle_is_valid() -> None:
    assert rg.load(archive(tensor_pickle(2, 0, (2,), (1,)))).tolist() == [0.0, 0.0]
    assert rg.load(archive(tensor_pickle(2, 1, (1, 1), (1, 1)))).shape == (1, 1)


@pytest.mark.parametrize(
    "forged",
    [
        tensor_pickle(2, 0, (3,), (1,)),
        tensor_pickle(2, 0, (2,), (2,)),
        tensor_pickle(2, 1, (2,), (1,)),
        tensor_pickle(2, 0, (2,), (-1,)),
        tensor_pickle(2, -1, (1,), (1,)),
        tensor_pickle(3, 0, (2,), (1,)),
        tensor_pickle(1, 0, (1,), (1,)),
        tensor_pickle(-2, 0, (1,), (1,)),
        tensor_pickle(2, 0, (2, 1), (1,)),
        tensor_pickle(2, 0, (-2, -1), (1, 1)),
    ],
)
def test_tensors_that_exceed_their_storage_raise(forged: bytes) -> None:
    with pytest.raises(ValueError, match="the open file cannot be read"):
        rg.load(archive(forged))


class Attribute:
    """Sets attributes of a harmless object."""

    def __reduce__(self) -> Any:
        return collections.OrderedDict, (), {"__class__": 1}


@pytest.mark.parametrize(
    "thing", [Bomb(), Attribute(), np.array([None]), Path("x"), io.BytesIO, print, rg.nn.Linear(1, 1), bytearray(2)]
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_loading_a_pickle_runs_no_code(thing: Any, protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="No code in a file is run"):
        rg.load(archive(pickle.dumps([thing], protocol)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b".",
        b"N",
        b"\x80\x02",
        b"(.",
        b"t.",
        b"K\x01e.",
        b"K\x01K\x02K\x03s.",
        b"}(K\x01u.",
        b"h\x05.",
        b"K\x01K\x02R.",
        b"NQ.",
        b"(K\x01K\x02K\x03K\x04K\x05tQ.",
        b"c__builtin__\nset\n]]a\x85R.",
        b"cos\nsystem\n(X\x02\x00\x00\x00lsR.",
        b"ios\nsystem\n.",
        b"c__builtin__\neval\n.",
        b"ccollections\nOrderedDict\n)R}X\x03\x00\x00\x00popK\x01sb.",
        b"ctorch\nSize\n}b.",
        b"cargparse\nNamespace\n)\x81]b.",
        b"cargparse\nNamespace\n}\x81.",
        b"ctorch._utils\n_rebuild_parameter\n(NNNtR.",
        b"cnumpy\ndtype\nX\x02\x00\x00\x00|O\x85R.",
        b"cnumpy\ndtype\nX\x05\x00\x00\x00i8,|O\x85R.",
        b"\xff",
    ],
)
def test_damaged_pickles_raise(pickled: bytes) -> None:
    with pytest.raises(ValueError, match="the open file cannot be read"):
        rg.load(archive(pickled))


@given(st.binary(max_size=40))
def test_random_bytes_load_or_raise_value_error(data: bytes) -> None:
    for stream in (io.BytesIO(data), archive(data)):
        with contextlib.suppress(ValueError):
            rg.load(stream)


def test_unsupported_files_are_described(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"x": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"x\.pt is in torch's format from before 1\.6; load it in torch"):
        rg.load(path)
    torch.save(torch.nn.Linear(1, 1), path)
    with pytest.raises(ValueError, match=r"contains torch\.nn\.modules\.linear\.Linear.*save its state_dict"):
        rg.load(path)
    np.savez(tmp_path / "x.npz", x=np.ones(2))
    (tmp_path / "x.npz").rename(path)
    with pytest.raises(ValueError, match=r"a zip file, but torch\.save did not write it"):
        rg.load(path)
    path.write_bytes(archive(b"N.", names=("archive/constants.pkl",)).getvalue())
    with pytest.raises(ValueError, match=r"torch\.jit program"):
        rg.load(path)


def test_dtypes_sizes_and_devices_are_exchanged_with_torch() -> None:
    """Checkpoints may describe the run: each library loads what the other has saved."""

    def notes(m: Any) -> dict[str, Any]:
        return {
            "device": m.device("cpu"),
            "second": m.device("cuda", 1),
            "dtype": [m.float16, m.int64, m.bool, m.complex128],
            "shape": m.ones(2, 3).shape,
            "none": m.Size([]),
            "bytes": [b"", bytes(range(256))],
            ("a", m.float32): 1,
            "set": {("a", 1)},
        }

    assert repr(by_torch(notes(rg))) == repr(notes(torch))
    read = from_torch(notes(torch))
    assert same(read, notes(rg))
    assert [type(value) for value in read.values()] == [type(value) for value in notes(rg).values()]


def test_parameters_stay_parameters() -> None:
    def things(m: Any) -> list[Any]:
        free, fixed = m.nn.Parameter(m.ones(2)), m.nn.Parameter(m.ones(2), requires_grad=False)
        return [free, fixed, m.ones(2), m.ones(2, requires_grad=True), m.nn.Linear(1, 1).state_dict(keep_vars=True)]

    def kinds(m: Any, found: list[Any]) -> Any:
        *first, state = found
        return [(isinstance(x, m.nn.Parameter), x.requires_grad) for x in (*first, *state.values())]

    expected = kinds(torch, things(torch))
    assert kinds(torch, by_torch(things(rg))) == expected
    assert kinds(rg, from_torch(things(torch))) == expected
    buffer = io.BytesIO()
    rg.save(things(rg), buffer)
    assert kinds(rg, rg.load(buffer)) == expected
    layer = rg.nn.Linear(1, 2)
    layer.bias = from_torch(torch.nn.Parameter(torch.ones(2)))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_saving_unsupported_objects_raises() -> None:
    for thing in (rg.nn.Linear(1, 1), {"x": range(2)}, [np.array(["a"])]):
        with pytest.raises(TypeError, match=r"save: .* is of type"):
            rg.save(thing, io.BytesIO())


def test_big_integers_and_long_strings_survive() -> None:
    thing = {"n": [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 255, 2**63, -(2**1000)], "s": "\0é\U0001f600" * 200}
    assert by_torch(thing) == thing
    assert same(from_torch(thing), thing)
