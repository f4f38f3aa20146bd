"""Write a run folder so that it is there complete, or not there at all.

A run is staged in ``NAME.partial`` beside its final place, synced, sealed and renamed. Whatever
happens (``kill -9``, a full disk, a second writer) a folder under its final name is a finished run,
and an earlier run under that name is kept until the new one has been sealed.

    with RunFolder(outdir, overwrite=False) as run:
        run.create("results.jsonl").write(b"...")
        run.publish(manifest_of)          # seals and renames; without it everything is removed

A run that takes hours commits as it goes. What it had committed when it was stopped is kept, and
the same command with ``--resume`` goes on from there: every file is as that commit left it.

    with RunFolder(outdir, kind="train", settings={"seed": 0}, resume=args.resume) as run:
        metrics = run.append("metrics.jsonl")
        for step in range(run.progress.get("steps", 0), 1000):
            metrics.write(...)
            run.commit({"steps": step + 1}, carry=weights)      # run.carried() gives them back
        run.publish(manifest_of)
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from course.artifacts.disk import (
    exchange,
    files_below,
    in_words,
    is_plain_name,
    sync_folder,
    sync_folders,
    take_lock,
    write_synced,
)
from course.artifacts.journal import (
    JOURNAL,
    Journal,
    Settings,
    read_carried,
    read_journal,
    write_journal,
)
from course.artifacts.manifest import MANIFEST, manifest_bytes
from course.artifacts.output import OutputStream
from course.artifacts.place import check_free, check_outside_runs, check_unfinished
from course.core.digests import sha256_bytes
from course.core.errors import UsageError
from course.core.paths import display
from course.core.records import Manifest, OutputFile, RunKind

PARTIAL = ".partial"
LOCK = ".partial.lock"
PREVIOUS = ".partial.previous"
RESUME = ".partial.resume"


class RunFolder:
    """A run folder while it is being written. Use it as a context manager.

    Args:
        final: where the run shall stand.
        kind: the kind of run it is going to be.
        overwrite: replace a run of the same kind that stands there, once the new one is sealed;
            without ``resume`` also discard what a stopped command had committed there.
        reads: the files that the run is made from; none of them may lie in the run it replaces.
        settings: makes the run one that can be continued: what must be the same for that, under
            the names that the user knows.
        resume: go on with what a stopped command had committed; where nothing was, begin anew.

    Raises: UsageError when the place is taken or cannot be written, or when the settings differ;
        DataError when what was committed is damaged; MachineError for a full disk.
    """

    def __init__(
        self,
        final: Path,
        *,
        kind: RunKind = "eval",
        overwrite: bool = False,
        reads: Sequence[Path] = (),
        settings: Settings | None = None,
        resume: bool = False,
    ) -> None:
        assert settings is not None or not resume, "only a run with settings can be continued"
        self.final = Path(os.path.abspath(final))
        if not self.final.name or self.final.name.endswith((PARTIAL, LOCK, PREVIOUS, RESUME)):
            raise UsageError(
                f"{display(final)} cannot be a run folder's name. Give another --outdir."
            )
        self._partial = self._beside(PARTIAL)
        self._kind = kind
        self._overwrite = overwrite
        self._reads = reads
        self._settings = settings
        self._resume = resume
        self._streams: dict[str, OutputStream] = {}  # files that still grow
        self._outputs: dict[str, OutputFile] = {}  # files that are whole
        self._journal: Journal | None = None
        self._lock: int | None = None

    @property
    def resumed(self) -> bool:
        """Whether this run goes on with what a stopped command had committed."""
        return self._journal is not None

    @property
    def progress(self) -> dict[str, Any]:
        """What the last commit said; empty for a run that begins."""
        return self._journal.progress if self._journal else {}

    def carried(self) -> bytes | None:
        """Read what the last commit carried; None when there is nothing.

        Raises: DataError when it was damaged.
        """
        return read_carried(self._beside(RESUME), self._journal) if self._journal else None

    def __enter__(self) -> Self:
        with in_words(self.final):
            check_outside_runs(self.final, self._reads)
            self.final.parent.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(self._beside(LOCK), self.final)
            try:
                self._recover()
                self._begin()
            except BaseException:
                self._unlock()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        kept = None
        try:
            for stream in self._streams.values():
                stream.abandon()
            with contextlib.suppress(OSError):  # what failed first is what the user must hear
                self._recover()
                if self._unfinished():
                    kept = (
                        f"{display(self._partial)} keeps what was done; the same command with "
                        "--resume goes on from there."
                    )
                    (self._partial / MANIFEST).unlink(missing_ok=True)
                else:
                    self._clear()
        finally:
            self._unlock()
        if isinstance(error, OSError):
            with in_words(self.final, kept):
                raise error
        if error is not None and kept is not None:
            error.add_note(kept)

    def create(self, name: str) -> OutputStream:
        """Begin a file of the run; its name may have folders, as in ``checkpoints/1.safetensors``.

        A file that a commit covers is never begun again, only continued.
        """
        assert is_plain_name(name) and name != MANIFEST, name
        assert name not in self._outputs, f"{name} is already written"
        self._streams[name] = OutputStream(self._partial / name)
        return self._streams[name]

    def append(self, name: str) -> OutputStream:
        """Go on with a file where the last commit left it, or begin it."""
        if name not in self._outputs:
            return self.create(name)
        self._streams[name] = OutputStream(self._partial / name, keep=self._outputs[name])
        del self._outputs[name]
        return self._streams[name]

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run whole. A resumed run may write again what it has already."""
        if self._outputs.get(name) == OutputFile(len(data), sha256_bytes(data)):
            return
        stream = self.create(name)
        stream.write(data)
        self._outputs[name] = stream.close()
        del self._streams[name]

    def staged(self, name: str) -> Path:
        """Where a file of the run stands for now: whole once ``write`` or a commit is done."""
        assert name in self._outputs or name in self._streams, f"{name} is no file of this run"
        return self._partial / name

    def commit(self, progress: Mapping[str, Any], carry: bytes | None = None) -> None:
        """Make sure that all that was written so far is never lost, nor anything twice.

        Costs a sync of the disk for every file that grows, some milliseconds each.

        Args:
            progress: what to know when going on, as plain JSON values; see ``progress``.
            carry: what else it takes to go on (weights, an optimizer's state), no part of the
                finished run; see ``carried``.
        """
        assert self._settings is not None, "only a run with settings can be continued"
        files = self._outputs | {name: stream.sync() for name, stream in self._streams.items()}
        sync_folders(self._partial)
        carried = None if carry is None else sha256_bytes(carry)
        journal = Journal(self._kind, dict(self._settings), files, dict(progress), carried)
        write_journal(self._beside(RESUME), journal, carry)
        self._journal = journal

    def publish(self, manifest_of: Callable[[dict[str, OutputFile]], Manifest]) -> Manifest:
        """Sync, seal and rename: from here on the run exists.

        Args:
            manifest_of: builds the manifest from the outputs by name; its seal is filled in here.
        """
        outputs = self._outputs | {name: stream.close() for name, stream in self._streams.items()}
        data, manifest = manifest_bytes(manifest_of(dict(sorted(outputs.items()))))
        write_synced(self._partial / MANIFEST, data)
        sync_folders(self._partial)
        self._move_into_place()
        sync_folder(self.final.parent)
        return manifest

    def _begin(self) -> None:
        journal = self._unfinished()
        if journal is None:
            _remove(self._beside(RESUME), first=JOURNAL)  # of a run that was published
        else:
            check_unfinished(
                self._partial,
                journal,
                kind=self._kind,
                settings=self._settings,
                overwrite=self._overwrite,
                resume=self._resume,
            )
        self._check_free(resume=self._resume and journal is None)
        if journal is not None and self._resume:
            self._go_on(journal)
        else:
            self._clear()  # a killed writer left it; nobody holds its lock
            self._partial.mkdir()

    def _unfinished(self) -> Journal | None:
        """Read what a stopped command, or this one, has committed and not published."""
        if self._partial.is_symlink() or not self._partial.is_dir():
            return None
        return read_journal(self._beside(RESUME))

    def _go_on(self, journal: Journal) -> None:
        """Put every file back to where the last commit left it."""
        for name, file in journal.files.items():
            self._outputs[name] = OutputStream(self._partial / name, keep=file).close()
        for name in files_below(self._partial) - set(journal.files):
            (self._partial / name).unlink()
        self._journal = journal

    def _move_into_place(self) -> None:
        if not self.final.exists() or not any(self.final.iterdir()):
            os.rename(self._partial, self.final)
            return
        self._check_free()
        # Swapped, `.partial` would for a moment hold the earlier run beside the journal of this
        # one, and after a kill in that moment --resume would take the one for the other.
        if self._settings is not None or not exchange(self._partial, self.final):
            os.rename(self.final, self._beside(PREVIOUS))
            os.rename(self._partial, self.final)

    def _check_free(self, *, resume: bool = False) -> None:
        check_free(self.final, kind=self._kind, overwrite=self._overwrite, resume=resume)

    def _recover(self) -> None:
        """Put an earlier run back that a stopped writer had moved aside."""
        previous = self._beside(PREVIOUS)
        if (previous / MANIFEST).exists() and not self.final.exists():
            os.rename(previous, self.final)
        else:
            _remove(previous, first=MANIFEST)

    def _clear(self) -> None:
        """Remove what is left beside the run, in an order that never makes it look like more."""
        _remove(self._beside(RESUME), first=JOURNAL)
        _remove(self._partial, first=MANIFEST)

    def _beside(self, end: str) -> Path:
        return self.final.with_name(self.final.name + end)

    def _unlock(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):  # a lock file that nobody holds is in nobody's way
                self._beside(LOCK).unlink()
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


def _remove(folder: Path, *, first: str) -> None:
    """Delete a folder, beginning with the file that says that it is whole."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        (folder / first).unlink(missing_ok=True)
        shutil.rmtree(folder)
