"""Which files of a data folder are data, and whether they are the ones CHECKSUMS.json describes.

A checksum shows that a file is the one that was described, not who made it. ``course.validate``
and ``data/prepare.py`` compare with this; only the script writes. It needs the standard library
alone, so that the script runs where nothing is installed.

    python data/prepare.py checksums --check
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from course.core.errors import DataError
from course.core.paths import display

CHECKSUMS = "CHECKSUMS.json"


class Comparison(NamedTuple):
    """A data folder against its CHECKSUMS.json."""

    listed: int
    """How many files CHECKSUMS.json describes."""
    differences: list[str]
    """One text per changed, missing or unlisted file, by name."""


def data_files(folder: Path) -> list[str]:
    """Name every data file of a folder by its relative path, sorted.

    That is every file but documents (*.md), scripts (*.py), CHECKSUMS.json itself, Python's
    caches, and whatever is hidden: a file, or a folder it is in, whose name starts with a dot.
    """
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(name.as_posix() for name in found if _is_data(name))


def make_checksums(folder: Path) -> dict[str, Any]:
    """Describe every data file: its bytes, its rows (null unless JSONL) and its SHA-256.

    Returns: what belongs into CHECKSUMS.json.
    Raises: DataError for a file that cannot be read.
    """
    return {
        "schema_version": 1,
        "files": {name: _describe(folder / name) for name in data_files(folder)},
    }


def compare_checksums(folder: Path) -> Comparison:
    """Compare a data folder with its CHECKSUMS.json.

    Raises: DataError when CHECKSUMS.json or a data file cannot be read.
    """
    listed, found = _read(folder / CHECKSUMS), make_checksums(folder)["files"]
    differences = []
    for name in sorted(listed.keys() | found.keys()):
        if name not in found:
            differences.append(f"{name}: missing")
        elif name not in listed:
            differences.append(f"{name}: not listed")
        elif listed[name] != found[name]:
            differences.append(f"{name}: changed: {found[name]} instead of {listed[name]}")
    return Comparison(len(listed), differences)


def _is_data(name: Path) -> bool:
    if name.suffix in (".md", ".py") or name == Path(CHECKSUMS):
        return False
    return not any(part.startswith(".") or part == "__pycache__" for part in name.parts)


def _describe(path: Path) -> dict[str, Any]:
    digest, size, rows = hashlib.sha256(), 0, 0
    try:
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                size += len(line)
                rows += 1
    except OSError as error:
        raise DataError(f"{display(path)}: cannot be read ({error.strerror}).") from error
    return {
        "bytes": size,
        "rows": rows if path.suffix == ".jsonl" else None,
        "sha256": digest.hexdigest(),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return {**json.loads(path.read_bytes())["files"]}  # a TypeError unless it is an object
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{display(path)}: not a readable list of checksums ({error}). "
            "Write one with: python data/prepare.py checksums"
        ) from error
