"""Check a run folder against its seal: every byte of every artifact, and nothing besides.

problems = seal_problems(folder)      # [] when the run is what it was when it was sealed
run = open_run(folder)                # raises BrokenSealError otherwise
"""

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.artifacts.disk import files_below, is_plain_name
from course.artifacts.manifest import MANIFEST, manifest_json, seal_of
from course.artifacts.place import DESKTOP_LITTER
from course.artifacts.run_folder import PARTIAL, PREVIOUS
from course.core.digests import sha256_file
from course.core.errors import BrokenSealError, DataError
from course.core.paths import display
from course.core.records import Manifest

TRACES = {"results.jsonl", "summary.json", "summary.md", "metrics.jsonl"}
"""Files that show that a folder was a run once, though its manifest is gone."""


class Run(NamedTuple):
    """A sealed run folder whose seal has been checked."""

    folder: Path
    manifest: Manifest


def open_run(folder: Path) -> Run:
    """Open a run folder.

    Raises: DataError when it is no run folder; BrokenSealError when anything in it changed.
    """
    manifest, problems = inspect_seal(folder)
    if problems or manifest is None:
        raise BrokenSealError(f"BrokenSeal: {display(folder)}: {'; '.join(problems)}.")
    return Run(folder, manifest)


def seal_problems(folder: Path) -> list[str]:
    """List everything in which a run folder differs from what was sealed."""
    return inspect_seal(folder)[1]


def inspect_seal(folder: Path) -> tuple[Manifest | None, list[str]]:
    """Read a manifest and check the whole folder against it.

    Returns: the manifest, or None when it cannot be read, and every problem found.

    Raises: DataError when the path is not a run folder at all.
    """
    names = _names_in(folder)
    if MANIFEST not in names:
        return None, [f"{MANIFEST} is missing, so nothing vouches for this folder"]
    manifest, problems = read_manifest(folder / MANIFEST)
    if manifest is None:
        return None, problems
    for name, output in sorted(manifest.outputs.items()):
        if problem := _output_problem(folder, name, output.bytes, output.sha256):
            problems.append(problem)
    added = sorted(names - {MANIFEST, *manifest.outputs})
    problems += [
        f"{name} was added: the seal does not know it"
        for name in added
        if Path(name).name not in DESKTOP_LITTER
    ]
    return manifest, problems


def read_manifest(path: Path) -> tuple[Manifest | None, list[str]]:
    """Read a manifest and check its own seal, without looking at the files it speaks of.

    Returns: the manifest, or None when it cannot be read, and what is wrong with it.
    """
    name = path.name
    try:
        if not _is_plain_file(path):
            return None, [f"{name} is not the plain file that was sealed"]
        data = path.read_bytes()
        written = msgspec.json.decode(data, type=dict[str, Any])
        manifest = msgspec.convert(written, Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
        return None, [f"{name} cannot be read: {error}"]
    if seal_of(written) != manifest.seal:
        return manifest, [f"{name} was edited: its seal does not match its content"]
    if manifest_json(written) != data:
        return manifest, [f"{name} was edited: its bytes are not those that were sealed"]
    return manifest, []


def _is_plain_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _output_problem(folder: Path, name: str, size: int, sha256: str) -> str | None:
    path = folder / name
    try:
        above = Path(os.path.realpath(folder)) / Path(name).parent
        if not is_plain_name(name) or os.path.realpath(path.parent) != str(above):
            return f"{name} is no plain name of a file in the run folder"
        if not os.path.lexists(path):
            return f"{name} is missing"
        if not _is_plain_file(path):
            return f"{name} is not the plain file that was sealed"
        actual = path.stat().st_size
        if actual != size:
            return f"{name} changed: {actual} bytes, sealed with {size}"
        if sha256_file(path) != sha256:
            return f"{name} changed: same size, other content"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        return f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
    return None


def _names_in(folder: Path) -> set[str]:
    try:
        return _walk(folder)
    except OSError as error:
        raise DataError(f"{display(folder)} cannot be read: {error.strerror}.") from error


def _walk(folder: Path) -> set[str]:
    """Every file in the folder and its subfolders, by relative name."""
    shown = display(folder)
    if not folder.exists():
        previous = folder.with_name(folder.name + PREVIOUS)
        kept = f" An earlier run was kept in {display(previous)}: rename it back."
        raise DataError(
            f"{shown} does not exist; runs are folders that the course's commands write."
            f"{kept if previous.exists() else ''}"
        )
    if not folder.is_dir():
        raise DataError(f"{shown} is a file; a run folder was expected.")
    if folder.resolve().name.endswith(PARTIAL):
        raise DataError(f"{shown} was never finished: it is what a stopped command left behind.")
    names = files_below(folder)
    if MANIFEST not in names and not names & TRACES:
        inside = sorted(e.name for e in folder.iterdir() if os.path.isfile(e / MANIFEST))[:5]
        hint = f" It holds these runs: {', '.join(inside)}." if inside else ""
        raise DataError(f"{shown} is not a run folder: it has no {MANIFEST}.{hint}")
    return names
