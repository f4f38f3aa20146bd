"""Write a run folder so that it is there complete, or not there at all.

A run is staged in ``NAME.partial`` beside its final place, synced, sealed and renamed. Whatever
happens (``kill -9``, a full disk, a second writer) a folder under its final name is a finished run,
and an earlier run under that name is kept until the new one has been sealed.

    with RunFolder(outdir, overwrite=False) as run:
        run.create("results.jsonl").write(b"...")
        run.publish(manifest_of)          # seals and renames; without it everything is removed
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from course.artifacts.disk import exchange, in_words, sync_folder, take_lock
from course.artifacts.manifest import MANIFEST, kind_of_run, manifest_bytes, names_of_run
from course.core.errors import UsageError
from course.core.paths import display
from course.core.records import Manifest, OutputFile, RunKind

PARTIAL = ".partial"
LOCK = ".partial.lock"
PREVIOUS = ".partial.previous"

DESKTOP_LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that file managers drop into every folder they show."""


class OutputStream:
    """A file of the run being written: hashed and counted as it grows."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self.restart()

    def restart(self) -> None:
        """Begin the file anew."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)

    def close(self) -> OutputFile:
        """Sync the file to the disk and say what it holds."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return OutputFile(bytes=self._bytes, sha256=self._hash.hexdigest())

    def abandon(self) -> None:
        """Let go of the file; on a full disk what was not yet written is lost in silence."""
        with contextlib.suppress(OSError):
            self._file.close()


class RunFolder:
    """A run folder while it is being written. Use it as a context manager.

    Args:
        final: where the run shall stand.
        kind: the kind of run it is going to be.
        overwrite: replace a run of the same kind that stands there, once the new one is sealed.
        reads: the files that the run is made from; none of them may lie in the run it replaces.

    Raises: UsageError when the place is taken or cannot be written; MachineError for a full disk.
    """

    def __init__(
        self,
        final: Path,
        *,
        kind: RunKind = "eval",
        overwrite: bool = False,
        reads: Sequence[Path] = (),
    ) -> None:
        self.final = Path(os.path.abspath(final))
        if not self.final.name or self.final.name.endswith((PARTIAL, LOCK, PREVIOUS)):
            raise UsageError(
                f"{display(final)} cannot be a run folder's name. Give another --outdir."
            )
        self._partial = self.final.with_name(self.final.name + PARTIAL)
        self._previous = self.final.with_name(self.final.name + PREVIOUS)
        self._kind = kind
        self._overwrite = overwrite
        self._reads = reads
        self._streams: dict[str, OutputStream] = {}
        self._lock: int | None = None

    def __enter__(self) -> Self:
        with in_words(self.final):
            self._check_outside_runs()
            self.final.parent.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(self.final.with_name(self.final.name + LOCK), self.final)
            try:
                self._recover()
                self._check_free()
                _remove_run(self._partial)  # a killed writer left it; nobody holds its lock
                self._partial.mkdir()
            except BaseException:
                self._unlock()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            for stream in self._streams.values():
                stream.abandon()
            with contextlib.suppress(OSError):  # what failed first is what the user must hear
                self._recover()
                _remove_run(self._partial)  # unfinished, or the earlier run that was swapped out
        finally:
            self._unlock()
        if isinstance(error, OSError):
            with in_words(self.final):
                raise error

    def create(self, name: str) -> OutputStream:
        """Begin a file of the run."""
        stream = OutputStream(self._partial / name)
        self._streams[name] = stream
        return stream

    def write(self, name: str, data: bytes) -> None:
        """Write a small file of the run whole."""
        self.create(name).write(data)

    def publish(self, manifest_of: Callable[[dict[str, OutputFile]], Manifest]) -> Manifest:
        """Sync, seal and rename: from here on the run exists.

        Args:
            manifest_of: builds the manifest from the outputs by name; its seal is filled in here.
        """
        outputs = {name: self._streams[name].close() for name in sorted(self._streams)}
        data, manifest = manifest_bytes(manifest_of(outputs))
        self.write(MANIFEST, data)
        self._streams[MANIFEST].close()
        sync_folder(self._partial)
        self._move_into_place()
        sync_folder(self.final.parent)
        return manifest

    def _move_into_place(self) -> None:
        if not self.final.exists() or not any(self.final.iterdir()):
            os.rename(self._partial, self.final)
            return
        self._check_free()
        if not exchange(self._partial, self.final):
            os.rename(self.final, self._previous)
            os.rename(self._partial, self.final)

    def _recover(self) -> None:
        """Put an earlier run back that a stopped writer had moved aside."""
        if (self._previous / MANIFEST).exists() and not self.final.exists():
            os.rename(self._previous, self.final)
        else:
            _remove_run(self._previous)

    def _check_outside_runs(self) -> None:
        for path in self._reads:
            if path.resolve().is_relative_to(self.final.resolve()):
                raise UsageError(
                    f"{display(path)} lies in {display(self.final)}, which it would be overwritten "
                    "with. Give another --outdir."
                )
        for folder in self.final.parents:
            if names_of_run(folder) is not None:
                raise UsageError(
                    f"{display(self.final)} lies inside the run {display(folder)}, whose seal it "
                    "would break. Give another --outdir."
                )

    def _check_free(self) -> None:
        shown = display(self.final)
        if self.final.is_symlink():
            raise UsageError(f"{shown} is a symbolic link; --outdir must name the folder itself.")
        if not self.final.exists():
            return
        if not self.final.is_dir():
            raise UsageError(f"{shown} is a file; --outdir must name a folder.")
        names = {entry.name for entry in self.final.iterdir()}
        if not names:
            return
        written = names_of_run(self.final)
        if written is None:
            raise UsageError(
                f"{shown} holds files but is not a run, so it is left alone. Give another --outdir."
            )
        if not self._overwrite:
            raise UsageError(
                f"{shown} already holds a run. Give another --outdir, or --overwrite to replace it."
            )
        if kind_of_run(self.final) != self._kind:
            raise UsageError(
                f"{shown} holds a {kind_of_run(self.final)} run, which a {self._kind} run does not "
                "replace. Give another --outdir."
            )
        if others := sorted(names - written - DESKTOP_LITTER):
            raise UsageError(
                f"{shown} is not overwritten: besides its run it holds {', '.join(others[:5])}. "
                "Move that elsewhere, or give another --outdir."
            )

    def _unlock(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):  # a lock file that nobody holds is in nobody's way
                self.final.with_name(self.final.name + LOCK).unlink()
            os.close(self._lock)
            self._lock = None


def next_free(folder: Path, stem: str) -> Path:
    """Name a new run: ``folder/stem-001``, or the first number that is not taken.

    A number is taken when the run, its ``.partial`` or its lock exists.
    """
    number = 1
    while any(
        os.path.lexists(folder / f"{stem}-{number:03d}{end}")
        for end in ("", PARTIAL, LOCK, PREVIOUS)
    ):
        number += 1
    return folder / f"{stem}-{number:03d}"


def _remove_run(folder: Path) -> None:
    """Delete a staged or replaced run, its manifest first, so that it never looks finished."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        (folder / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder)
