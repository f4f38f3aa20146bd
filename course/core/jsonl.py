"""Stream JSONL files as typed rows, and say exactly where a bad row stands.

A reader hashes and counts the file while it parses it, piece by piece: no file is ever held whole.
A byte-order mark and CRLF line ends are read and noted; blank lines are skipped.

    reader = JsonlReader(path, Example)
    for example in reader: ...
    reader.facts()          # bytes, sha256 and rows of what was read
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import msgspec

from course.core.bad_rows import BLANK, hint, row_problem
from course.core.errors import DataError
from course.core.paths import display, recorded
from course.core.records import InputFile

CHUNK = 1 << 16  # bytes: a few hundred rows are Python objects at any time, and fit the cache
BOM = b"\xef\xbb\xbf"
T = TypeVar("T")


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises: DataError, in words, for whatever stands in the way.
    """
    shown = display(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise DataError(
                f"{shown} is a directory, and a file was expected.{_jsonl_inside(path)}"
            )
        if not stat.S_ISREG(mode):  # opening a pipe would wait for someone to write it
            raise DataError(f"{shown} is not a regular file; save its content to a file first.")
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{shown} does not exist.{_similar_names(path)}") from error
    except OSError as error:
        raise DataError(f"{shown} cannot be read: {error.strerror}.") from error


class JsonlReader(Generic[T]):
    """Iterate over a JSONL file as rows of one type.

    Args:
        path: a regular file.
        row_type: a msgspec Struct; unknown keys are ignored.

    Raises: DataError with ``file:line`` at the first bad row, for an unreadable file, and for a
        file that changes while it is read.
    """

    def __init__(self, path: Path, row_type: type[T]) -> None:
        self.path = path
        self.notes: list[str] = []
        self.bytes_read = 0
        self._type = row_type
        self._decoder = msgspec.json.Decoder(row_type)
        self._hash = hashlib.sha256()
        self._rows = 0
        with open_file(path) as file:  # a bad path is refused here, before any work is done
            self._stat = os.fstat(file.fileno())
        self.size = self._stat.st_size

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[T]]:
        """Yield the rows in lists of a few hundred: the fast way through a large file."""
        decode = self._decoder.decode
        lines_before = 0
        for block in self.blocks():
            lines = block.split(b"\n")
            ends = len(lines) - 1
            if not lines[-1]:
                del lines[-1]
            try:  # not `decode_lines`: it would take rows that share a line or stretch over several
                rows = list(map(decode, lines))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                rows = self._line_by_line(lines, lines_before)
            lines_before += ends
            self._rows += len(rows)
            yield rows
        if self._rows == 0:
            raise DataError(f"{display(self.path)} is empty. {hint(self._type)}.")

    def blocks(self) -> Iterator[bytes]:
        """Yield the file's bytes in blocks of whole lines, hashing and counting them."""
        crlf = False
        with open_file(self.path) as file:
            while block := file.read(CHUNK) + file.readline():
                self._hash.update(block)
                self.bytes_read += len(block)
                if self.bytes_read == len(block):
                    block = self._without_bom(block)
                if b"\r" in block and not crlf and b"\r\n" in block:
                    crlf = True
                    self.notes.append(f"{display(self.path)} has CRLF line ends; they were read.")
                yield block
            self._check_unchanged(os.fstat(file.fileno()))

    def count(self, rows: int) -> None:
        """Count rows that were taken from ``blocks`` and decoded elsewhere."""
        self._rows += rows

    def facts(self) -> InputFile:
        """What was read, once it was read to the end."""
        return InputFile(
            path=recorded(self.path),
            bytes=self.bytes_read,
            sha256=self._hash.hexdigest(),
            rows=self._rows,
        )

    def _without_bom(self, chunk: bytes) -> bytes:
        if not chunk.startswith(BOM):
            return chunk
        self.notes.append(f"{display(self.path)} starts with a byte-order mark; it was skipped.")
        return chunk[len(BOM) :]

    def _check_unchanged(self, now: os.stat_result) -> None:
        then = self._stat
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (
            then.st_ino,
            then.st_size,
            then.st_mtime_ns,
        ):
            raise DataError(
                f"{display(self.path)} changed while it was read. Wait until nothing writes it, "
                "then run the command again."
            )

    def _line_by_line(self, lines: list[bytes], lines_before: int) -> list[T]:
        """Decode lines of which some are blank or bad, and raise for the first bad one."""
        rows = []
        for number, line in enumerate(lines, start=lines_before + 1):
            if line.strip(BLANK):
                if problem := row_problem(self._decoder, self._type, line):
                    raise DataError(f"{display(self.path)}:{number}: {problem}")
                rows.append(self._decoder.decode(line))
        return rows


def _similar_names(path: Path) -> str:
    import difflib

    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        there = path.parent.is_dir()
        return "" if there else f" Its folder {display(path.parent)} does not exist either."
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.8)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def _jsonl_inside(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.glob("*.jsonl"))[:5]
    return f" It holds: {', '.join(names)}." if names else ""
