"""A file of a run while it is written: hashed and counted as it grows."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from course.core.errors import DataError
from course.core.paths import display
from course.core.records import OutputFile

BLOCK = 1 << 20


class OutputStream:
    """A file that is appended to.

    Args:
        path: where; the folders above it are made.
        keep: go on with a file that holds this, and drop whatever was written after it. None begins
            a new file.

    Raises: DataError when what is to be kept is not there any more.
    """

    def __init__(self, path: Path, keep: OutputFile | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if keep is not None and not path.is_file():
            raise _changed(path)
        self._file: BinaryIO = path.open("wb" if keep is None else "r+b")
        self._hash = hashlib.sha256()
        self._bytes = 0
        if keep is not None:
            self._take_up(path, keep)

    def restart(self) -> None:
        """Begin the file anew; never after a commit, which counts on what it holds."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._count(data)

    def sync(self) -> OutputFile:
        """Bring everything to the disk and say what the file holds so far."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._so_far()

    def close(self) -> OutputFile:
        """Sync the file, let go of it, and say what it holds."""
        file = self.sync()
        self._file.close()
        return file

    def abandon(self) -> None:
        """Let go of the file; on a full disk what was not yet written is lost in silence."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _take_up(self, path: Path, keep: OutputFile) -> None:
        while block := self._file.read(min(BLOCK, keep.bytes - self._bytes)):
            self._count(block)
        if self._so_far() != keep:
            self.abandon()
            raise _changed(path)
        self._file.truncate(keep.bytes)
        self._file.seek(keep.bytes)

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self._bytes += len(data)

    def _so_far(self) -> OutputFile:
        return OutputFile(bytes=self._bytes, sha256=self._hash.hexdigest())


def _changed(path: Path) -> DataError:
    return DataError(
        f"{display(path)} is no longer what the stopped command had saved, so the run cannot be "
        "continued. Leave --resume out and give --overwrite to begin anew."
    )
