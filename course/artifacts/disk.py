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
from pathlib import Path

from course.core.errors import MachineError, UsageError
from course.core.paths import display

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


@contextlib.contextmanager
def in_words(final: Path) -> Iterator[None]:
    """Turn what the operating system says about a write into an error a person can act on."""
    try:
        yield
    except OSError as error:
        shown = display(final)
        if error.errno in NO_ROOM:
            raise MachineError(
                f"There is no room to write {shown}: {error.strerror}. Nothing was left behind and "
                "no earlier run was touched. Free some space, or give --outdir on another disk."
            ) from error
        raise UsageError(
            f"{shown} cannot be written: {error.strerror}. No earlier run was touched. Give an "
            "--outdir in a folder that you may write."
        ) from error
