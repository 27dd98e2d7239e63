"""Damaged or malicious files: what their readers raise, and zip files checked against their own directory."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import IO, Any, Self

__all__ = ["DAMAGE", "Archive"]

# What readers raise on unexpected contents; NumPy reads headers of arrays by tokenizing them
DAMAGE: tuple[type[Exception], ...] = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, EOFError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
_END = b"PK\5\6"  # with which the record at the end begins that says how many members there are
_LONGEST_END = 22 + 2**16
_MANY = 2**16 - 1  # or more, as another record says
_MOST_DEFLATED = 1032  # how many bytes one byte of a deflated member can stand for


class Archive:
    """A zip file whose members are distinct, lie apart from one another, and have the sizes stated for them.

    Parameters
    ----------
    file
        A path, or an open file that can be sought.
    methods
        How members may be compressed.

    Raises
    ------
    zipfile.BadZipFile
        Here and in all that is read: if it is damaged, or lies about its members.
    """

    def __init__(self, file: str | IO[bytes], methods: Collection[int]) -> None:
        with _damage_told():
            self._zip = zipfile.ZipFile(file)
            try:
                self._members = _checked(self._zip, methods)
            except BaseException:
                self._zip.close()
                raise

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return list(self._members)

    @property
    def start(self) -> int | None:
        """At which byte of the file the first member begins."""
        return min((member.header_offset for member in self._members.values()), default=None)

    def size(self, name: str) -> int:
        """How many bytes a member has."""
        return self._members[name].file_size

    def read(self, name: str) -> bytes:
        """Return what a member contains."""
        with _damage_told():
            return self._zip.read(self._members[name])

    def open(self, name: str) -> IO[bytes]:
        """Open a member, to be read."""
        with _damage_told():
            return self._zip.open(self._members[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._zip.close()


def _checked(archive: zipfile.ZipFile, methods: Collection[int]) -> dict[str, zipfile.ZipInfo]:
    """The members by name."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        if member.filename in members:
            raise ValueError(f"it has two members named {member.filename}")
        if member.compress_type not in methods or member.flag_bits & 1:
            raise ValueError(f"{member.filename} is {'encrypted' if member.flag_bits & 1 else 'compressed'}")
        ratio = 1 if member.compress_type == zipfile.ZIP_STORED else _MOST_DEFLATED
        if member.header_offset < 0 or member.file_size > ratio * member.compress_size:
            raise ValueError(f"{member.filename} cannot be {member.file_size} bytes at byte {member.header_offset}")
        members[member.filename] = member
    stream: Any = archive.fp
    size = stream.seek(0, os.SEEK_END)
    if sum(member.compress_size for member in members.values()) > size:
        raise ValueError("its members overlap, or it is cut off")
    stream.seek(max(0, size - _LONGEST_END))
    end = stream.read().rpartition(_END)[2]
    count = int.from_bytes(end[6:8], "little")
    if count != len(members) and count != _MANY:
        raise ValueError(f"it should have {count} members, but lists {len(members)}")
    return members


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, io.UnsupportedOperation):
        raise
    except DAMAGE as error:
        raise zipfile.BadZipFile(str(error)) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a position before the beginning
            raise
        raise zipfile.BadZipFile("a member would begin before the file") from None
