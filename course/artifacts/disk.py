"""What run folders ask of the operating system: one writer at a time, swaps, and bytes that stay.

Nothing here knows what a run is. Linux and macOS; where a system cannot swap two folders in one
step, ``exchange`` says so and the caller goes the longer way.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from course.core.errors import MachineError, UsageError
from course.core.paths import display

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOTHING_KEPT = (
    "Nothing was left behind and no earlier run was touched. Free some space, or give --outdir on "
    "another disk."
)


def take_lock(path: Path, final: Path) -> int:
    """Take the writer's lock; the kernel lets go of it when the process ends, however it ends.

    Returns: a file descriptor to close when done, after the file has been removed.

    Raises: UsageError when another process holds it.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise UsageError(
                f"Another process is writing {display(final)} right now. Wait for it, or give "
                "another --outdir."
            ) from None
        except OSError:  # a file system without locks
            os.close(fd)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(fd)):
                return fd
        os.close(fd)  # the file was removed by a writer that had just finished: take a new one


def exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return library.renamex_np(*paths, 2) == 0  # type: ignore[no-any-return]  # RENAME_SWAP
    if hasattr(library, "renameat2"):
        here = -100  # AT_FDCWD
        done = library.renameat2(here, paths[0], here, paths[1], 2)  # RENAME_EXCHANGE
        return done == 0  # type: ignore[no-any-return]
    return False


def sync_folder(folder: Path) -> None:
    """Make a folder's list of names survive a power cut, where the file system can."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(fd)


def sync_folders(folder: Path) -> None:
    """Sync a folder and all folders in it; their files are synced as they are written."""
    for base, _, _ in os.walk(folder, topdown=False, onerror=_refuse):
        sync_folder(Path(base))


def write_synced(path: Path, data: bytes) -> None:
    """Write a file whole and bring it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step: whatever happens, it is whole, as it was or as it shall be."""
    new = path.with_name(path.name + ".new")
    write_synced(new, data)
    os.replace(new, path)
    sync_folder(path.parent)


def files_below(folder: Path) -> set[str]:
    """Every file in a folder and its subfolders, and every link, by relative name.

    Raises: OSError when a folder cannot be listed: nobody can vouch for what is in it.
    """
    return {
        (Path(base) / name).relative_to(folder).as_posix()
        for base, folders, files in os.walk(folder, onerror=_refuse)
        for name in (*files, *(f for f in folders if (Path(base) / f).is_symlink()))
    }


def is_plain_name(name: str) -> bool:
    """Whether a name leads to a place in its folder, in the one way to write it."""
    path = PurePosixPath(name)
    return name == path.as_posix() != "." and not path.is_absolute() and ".." not in path.parts


def _refuse(error: OSError) -> None:
    raise error


@contextlib.contextmanager
def in_words(final: Path, kept: str | None = None) -> Iterator[None]:
    """Turn what the operating system says about a write into an error a person can act on.

    Args:
        final: the run that is being written.
        kept: what is kept of it, in a sentence; None when nothing is.
    """
    try:
        yield
    except OSError as error:
        shown = display(final)
        if error.errno in NO_ROOM:
            raise MachineError(
                f"There is no room to write {shown}: {error.strerror}. "
                + (f"Free some space. {kept}" if kept else NOTHING_KEPT)
            ) from error
        raise UsageError(
            f"{shown} cannot be written: {error.strerror}. No earlier run was touched. "
            + (kept or "Give an --outdir in a folder that you may write.")
        ) from error
