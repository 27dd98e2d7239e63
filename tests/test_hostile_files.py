"""Damaged or malicious files raise one ValueError, quickly and without using much memory."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd._archive import _MOST_DEFLATED


def archive(pickled: bytes, storage: bytes = bytes(8)) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as members:
        members.writestr("archive/data.pkl", pickled)
        members.writestr("archive/data/0", storage)
    return buffer


def text(value: str) -> bytes:
    return struct.pack("<cI", b"X", len(value)) + value.encode()


def persistent(count: int = 2, key: bytes | None = None, kind: str = "FloatStorage") -> bytes:
    key = text("0") if key is None else key
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + key + text("cpu") + struct.pack("<i", count).join(
        (b"J", b"tQ")
    )  # fmt: skip


def tensor(size: bytes, stride: bytes, offset: bytes = b"K\0", metadata: bytes = b"") -> bytes:
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + persistent()
        + offset
        + size
        + stride
        + b"\x89"
        + hooks
        + metadata
        + b"tR"
    )


def with_attribute(name: str, value: bytes) -> bytes:
    bare = tensor(b"K\2\x85", b"K\1\x85")
    args = bare.removeprefix(b"ctorch._utils\n_rebuild_tensor_v2\n").removesuffix(b"R")
    state = b"}" + text(name) + value + b"s"
    return (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n"
        + args + state + b"tR."
    )  # fmt: skip


def array_with(state: bytes) -> bytes:
    """Return the pickle of a NumPy array with the given state."""
    return b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85" + text("b") + b"tR" + state + b"b."


FLOATS = b"cnumpy\ndtype\n" + text("f4") + b"\x85R"
BYTES = b"c_codecs\nencode\n" + text("abcd") + text("latin1") + b"\x86R"
HUGE = b"\x8a\x0a" + bytes(9) + b"\1"  # 2**72
# each pair contains the previous one twice, in a few hundred bytes: its hash and its text take 2**200 steps
PAIRS = b")" + b"q\0h\0\x86" * 200
DEEP = b")" + b"\x85" * 200_000
REPEATED = (
    b"](" + text("x" * 50_000) + b"q\0" + text("latin1") + b"q\1" + b"c_codecs\nencode\nh\0h\1\x86R" * 20_000 + b"e."
)


@pytest.mark.parametrize(
    "pickled",
    [
        b"}" + PAIRS + b"Ns.",
        b"}(" + PAIRS + b"Nu.",
        b"}" + DEEP + b"Ns.",
        b"\x8f(" + PAIRS + b"\x90.",
        b"c__builtin__\nset\n](" + PAIRS + b"e\x85R.",
        b"cbuiltins\nfrozenset\n](" + DEEP + b"e\x85R.",
        b"cbuiltins\ndict\n](" + PAIRS + b"N\x86e\x85R.",
        b"ccollections\nCounter\n](" + PAIRS + b"N\x86e\x85R.",
        PAIRS + b"X\1\0\0\0a\x93.",
        PAIRS + b"Q.",
        persistent(key=PAIRS) + b".",
        tensor(PAIRS, b")") + b".",
        tensor(b"K\2\x85", PAIRS) + b".",
        tensor(b"K\2\x85", b"K\1\x85", offset=PAIRS) + b".",
        REPEATED,
    ],
    ids=lambda pickled: f"{len(pickled)} bytes",
)
def test_small_pickles_that_expand_hugely_raise(pickled: bytes) -> None:
    with pytest.raises(ValueError, match="the open file cannot be read") as caught:
        rg.load(archive(pickled))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "pickled",
    [
        tensor(HUGE + b"K\0\x86", b"K\1K\1\x86") + b".",
        tensor(b"K\1\x85", HUGE + b"\x85") + b".",
        tensor(b"(" + b"K\1" * 100 + b"t", b"(" + b"K\1" * 100 + b"t") + b".",
        tensor(b"](K\2e", b"](K\1e") + b".",
        b"c__builtin__\ncomplex\n" + b"\x8b\xe8\3\0\0" + b"\1" * 1000 + b"K\0\x86R.",
        b"ctorch\ndevice\n" + text("toaster") + b"\x85R.",
        b"K\1\x86.",
        b"(" + persistent() + persistent(3) + b"t.",
        b"(" + persistent() + persistent(2, kind="IntStorage") + b"t.",
        b"(" + text("storage") + b"cnumpy\ndtype\n" + text("u4") + b"\x85R" + text("0") + text("cpu") + b"K\2tQ.",
        b"cnumpy.core.multiarray\nscalar\ncargparse\nNamespace\n)\x81}b" + text("x") + b"\x86R.",
        *(array_with(state) for state in (b"N", b")", b"(K\1K\2cnumpy\ndtype\nNNt", b"(K\1K\2\x85NNNt")),
        array_with(b"(K\1K\2\x85" + FLOATS + b"\x89" + BYTES + b"t"),
        array_with(b"(K\1" + HUGE + b"\x85" + FLOATS + b"\x89" + BYTES + b"t"),
        array_with(b"(K\1J\xff\xff\xff\xff\x85" + FLOATS + b"\x89" + BYTES + b"t"),
        array_with(b"(K\1K\1\x85" + FLOATS + b"\x89" + BYTES + b"t")[:-1]
        + b"(K\1K\1\x85"
        + FLOATS
        + b"\x89"
        + BYTES
        + b"tb.",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(" * 5000 + b"tR" * 5000 + b".",
    ],
)
def test_unexpected_arguments_in_pickles_raise(pickled: bytes) -> None:
    with pytest.raises(ValueError, match="the open file cannot be read"):
        rg.load(archive(pickled))


def test_array_interface_attributes_in_files_are_refused() -> None:
    """NumPy would read memory at the address in an attribute of that name."""
    address = b"}" + text("data") + b"K\1\x88\x86s"
    for name in ("__array_interface__", "__array_struct__", "__array_priority__", "__dlpack__"):
        with pytest.raises(ValueError, match=f"it sets {name} of a tensor"):
            rg.load(archive(with_attribute(name, address)))
    assert rg.load(archive(with_attribute("note", b"K\5"))).note == 5
    x = rg.ones(2)
    x.__array_struct__ = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="the attribute __array_struct__, which would not be loaded"):
        rg.save(x, io.BytesIO())


def test_conjugate_and_negative_views_take_the_memory_of_their_storage_once() -> None:
    bits = b"}(" + text("conj") + b"\x88" + text("neg") + b"\x88u"
    complex_one = tensor(b"K\1\x85", b"K\1\x85", metadata=bits).replace(b"FloatStorage", b"ComplexFloatStorage")
    complex_one = complex_one.replace(b"J\2\0\0\0", b"J\1\0\0\0")
    first, second = rg.load(archive(b"](" + complex_one * 2 + b"e.", np.array([1 + 2j], np.complex64).tobytes()))
    assert first.tolist() == [-1 + 2j]
    first[0] = 5
    assert second.tolist() == [5]


# --- zip files --------------------------------------------------------------------------------------------------------


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def npy(array: Any = (1.0, 2.0), header: str | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    if header is None:
        return buffer.getvalue()
    content = header.encode() + b" " * (-len(header) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + len(content).to_bytes(2, "little") + content + bytes(16)


def described(shape: str, kind: str = "'<f8'") -> str:
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"


def with_flag(data: bytes, bit: int) -> bytes:
    """Return the same zip file with a flag set on its first member."""
    at = data.index(b"PK\1\2") + 8
    return data[:at] + bytes([data[at] | bit]) + data[at + 1 :]


def with_comment(data: bytes) -> bytes:
    """Return the same zip file with all of the directory after its first member turned into a comment."""
    at = data.index(b"PK\1\2")
    rest = data.index(b"PK\5\6") - data.index(b"PK\1\2", at + 1)
    return data[: at + 32] + rest.to_bytes(2, "little") + data[at + 34 :]


def overlapping() -> bytes:
    """Return a file of 1 MB whose overlapping members claim 100 MB."""
    data = npy(np.zeros(2**17))
    whole = zipped(("a.npy", data))
    start = whole.index(b"PK\1\2")
    entry = whole[start : whole.index(b"PK\5\6")]
    count = 100
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(entry) * count, start, 0)
    return whole[:start] + b"".join(entry.replace(b"a.npy", b"%c.npy" % (33 + n)) for n in range(count)) + end


ARCHIVES: dict[str, bytes] = {
    "two of one name": zipped(("x.npy", npy()), ("y.npy", npy())).replace(b"y.npy", b"x.npy"),
    "encrypted": with_flag(zipped(("x.npy", npy())), 1),
    "patched": with_flag(zipped(("x.npy", npy())), 0x20),
    "bz2": zipped(("x.npy", npy()), method=zipfile.ZIP_BZIP2),
    "lzma": zipped(("x.npy", npy()), method=zipfile.ZIP_LZMA),
    "no array": zipped(("x.npy", b"hello")),
    "text": zipped(("x.txt", b"hello, this is no array at all")),
    "objects": zipped(("x.npy", npy(header=described("(2,)", "'|O'")))),
    "objects in parts": zipped(("x.npy", npy(header=described("(2,)", "[('a', '|O')]")))),
    "code": zipped(("x.npy", npy(header="__import__('os').system('false')"))),
    "unclosed": zipped(("x.npy", npy(header="{'descr': ("))),
    "nested": zipped(("x.npy", npy(header="(" * 9000))),
    "signs": zipped(("x.npy", npy(header="-" * 9000 + "1"))),
    "too large": zipped(("x.npy", npy(header=described("(10**10,)".replace("10**10", "10000000000"))))),
    "too large, deflated": zipped(("x.npy", npy(header=described("(99999999999,)"))), method=zipfile.ZIP_DEFLATED),
    "immense": zipped(("x.npy", npy(header=described(f"({2**80}, 0)")))),
    "negative": zipped(("x.npy", npy(header=described("(-1, -2)")))),
    "too small": zipped(("x.npy", npy(header=described("(1,)")))),
    "overlapping": overlapping(),
    "structures": zipped(("x.npy", npy(np.zeros(2, [("a", "f4")])))),
    "strings": zipped(("x.npy", npy(["a", "b"]))),
    "counts": zipped(("x.npy", npy(np.ones(2, np.uint16)))),
    "damaged": (deflated := zipped(("x.npy", npy(np.arange(1e3))), method=zipfile.ZIP_DEFLATED))[:99] + deflated[100:],
    "members in a comment": with_comment(zipped(("x.npy", npy()), ("y.npy", npy()))),
    "description": zipped(("__structure__.npy", npy(np.array([255], np.uint8)))),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_malicious_zip_archives_raise(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(ARCHIVES[name])
    with pytest.raises(ValueError, match=r"x\.npz"):
        rg.load(path)


def test_small_zip_member_is_not_inflated_to_a_huge_one() -> None:
    bomb = zipped(("archive/data.pkl", bytes(10**8)), method=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="is compressed"):
        rg.load(io.BytesIO(bomb))


# --- safetensors ------------------------------------------------------------------------------------------------------

ENTRY = '{"dtype": "F32", "shape": [1], "data_offsets": [%d, %d]}'


@pytest.mark.parametrize(
    "header",
    [
        f'{{"x": {ENTRY % (0, 4)}, "y": {ENTRY % (0, 4)}, "z": {ENTRY % (4, 8)}}}',
        f'{{"x": {ENTRY % (0, 4)}, "y": {ENTRY % (2, 6)}}}',
        f'{{"x": {ENTRY % (0, 4)}}}',
        f'{{"x": {ENTRY % (4, 8)}}}',
        f'{{"x": {ENTRY % (0, 4)}, "x": {ENTRY % (4, 8)}}}',
        '{"x": {"dtype": "F32", "dtype": "I32", "shape": [2], "data_offsets": [0, 8]}}',
        '{"__metadata__": [], "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        '{"__metadata__": {"__structure__": 3}, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        '{"x": ' + "[" * 100_000,
        '{"x": {"dtype": "F32", "shape": [' + "9" * 5000 + '], "data_offsets": [0, 8]}}',
        '{"x": {"dtype": "F32", "shape": [' + f"{2**62}, " * 50_000 + '2], "data_offsets": [0, 8]}}',
        '{"x": {"dtype": "F32", "shape": [' + "1, " * 100 + '2], "data_offsets": [0, 8]}}',
        '{"x": {"dtype": "F32", "shape": [0, 1180591620717411303424], "data_offsets": [0, 0]}}',
        '{"x": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}',
        '{"x": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 8]}}',
    ],
    ids=lambda header: header[:70],
)
def test_malicious_safetensors_headers_raise(header: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(ValueError, match=r"x\.safetensors") as caught:
        rg.load(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "description",
    [
        ["tensor"], ["tensor", ["list"]], ["device"], ["device", "toaster"], ["device", 3], ["dtype"], ["dtype", "q"],
        ["bytes"], ["bytes", "\u1234"], ["complex", 10**400], ["dict", [1]], ["set", ["list"]], ["namespace", 3],
        ["namespace", ["dict", [1, 2]]], [], ["what"],
    ],
    ids=str,
)  # fmt: skip
def test_malicious_structure_descriptions_raise(description: Any, tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"__structure__": json.dumps(description)}})
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(ValueError, match=r"x\.safetensors: its record of how the tensors are nested is damaged"):
        rg.load(path)


# --- random damage ----------------------------------------------------------------------------------------------------


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 20])):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def shortened(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.choice([1, 2, 8, 100, len(data)]) :]


def repeated(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    stop = start + chance.choice([1, 2, 8, 100])
    return data[:stop] + data[start:stop] + data[stop:]


def things() -> dict[str, Any]:
    w = rg.arange(24.0).reshape(4, 6)
    plain = {"n": [1, 2.5, (None, "x")], "dtype": rg.float32, "shape": rg.Size([2, 3]), "bytes": b"\xff", "set": {1}}
    return {"w": w, "t": w.t(), "b": rg.tensor([True]), "e": rg.zeros(0, 3), "s": rg.tensor(3), "d": plain}


def members_changed(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a zip file with a changed member and valid checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = [(member, file.read(member)) for member in file.namelist()]
    return zipped((members[0][0], change(members[0][1])), *members[1:])


@pytest.mark.parametrize("change", [flipped, shortened, repeated])
@pytest.mark.parametrize("inside", [False, True], ids=["file", "member"])
@pytest.mark.parametrize("ending", ["pt", "npz", "safetensors"])
def test_randomly_damaged_files_load_unchanged_data_or_raise(
    ending: str, inside: bool, change: Callable[..., bytes], tmp_path: Path
) -> None:
    """Loading never returns data that differs from what was saved."""
    path = tmp_path / f"x.{ending}"
    rg.save(things(), path)
    whole = path.read_bytes()
    chance = random.Random(f"{ending} {inside} {change.__name__}")
    refused = 0
    for _ in range(60):
        if inside and ending == "safetensors":
            stop = 8 + int.from_bytes(whole[:8], "little")
            header = change(whole[8:stop], chance)
            data = len(header).to_bytes(8, "little") + header + whole[stop:]
        else:
            data = members_changed(whole, lambda part: change(part, chance)) if inside else change(whole, chance)
        path.write_bytes(data)
        try:
            found = rg.load(path)
        except ValueError as error:
            assert f"x.{ending}" in str(error)
            refused += 1
            continue
        if not inside and ending != "safetensors":  # the members have checksums
            assert repr(found) == repr(things())
    assert refused > 15


# --- unsupported values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["pt", "npz", "safetensors"])
def test_saving_cyclic_or_unsupported_values_raises(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(ValueError, match="save: the object contains itself, or is nested too deeply"):
        rg.save({"a": itself}, path)
    with pytest.raises(TypeError, match="save: a is of type longdouble"):
        rg.save({"a": np.longdouble(1)}, path)
    assert list(tmp_path.iterdir()) == []


def test_limit_on_compression_is_that_of_zlib() -> None:
    """The reader assumes the best ratio that deflate reaches, which is that of zeros."""
    assert 10**7 / len(zlib.compress(bytes(10**7), 9)) < _MOST_DEFLATED


def test_compressed_arrays_of_zeros_can_be_loaded(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1000, 1000)), y=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    found = rg.load(tmp_path / "x.npz")
    assert found["x"].shape == (1000, 1000)
    assert found["y"].tolist() == [[0, 1, 2], [3, 4, 5]]
    found["y"][0, 0] = 5
