"""Check a data file row by row and report every problem, each with its line.

Two engines look: at every row the types that the commands read with, and at the first rows and
every bad one the published JSON Schema.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.core.bad_rows import BLANK, row_problem
from course.core.checksums import CHECKSUMS, compare_checksums, data_files
from course.core.errors import DataError
from course.core.jsonl import BOM, open_file
from course.core.paths import display
from course.core.schemas import OBJECTS, ROWS, validator

BY_SCHEMA = 10_000
"""So many rows of a file are held against its JSON Schema, which takes fifty times as long as its
type; later ones only if their type is wrong. Tests show that the two refuse the same rows.
"""


class Problem(NamedTuple):
    """Something that is wrong in a file."""

    path: str
    line: int | None
    text: str
    gate: bool = False
    """A golden row or a seal said no; anything else is bad input."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.text}"


class Report(NamedTuple):
    """What was found in one file or folder."""

    path: str
    kind: str
    rows: int
    problems: list[Problem]
    notes: list[str]


RowCheck = Callable[[int, Any], Iterator[Problem]]


def kind_of(path: Path) -> str:
    """Tell a file's kind from the keys of its first readable rows.

    Raises: DataError when they fit no kind.
    """
    with open_file(path) as file:
        if path.suffix == ".json":
            candidates = [file.read()]
        else:
            candidates = [line for _, line in zip(range(50), file, strict=False)]
    if not any(text.strip() for text in candidates):
        raise DataError(f"{display(path)} is empty.")
    for text in candidates:
        try:
            keys = set(msgspec.json.decode(text.removeprefix(BOM), type=dict[str, msgspec.Raw]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if kind := _kind_by_keys(keys):
            return kind
    raise DataError(
        f"{display(path)} is of no kind that is known here. Name it with --kind: "
        f"{', '.join(ROWS | OBJECTS)}."
    )


def check_file(
    path: Path, kind: str, *, row_check: RowCheck | None = None, progress: Callable[[int], None]
) -> Report:
    """Check a file of a known kind.

    Args:
        path: a regular file.
        kind: a key of ROWS or OBJECTS.
        row_check: one more check of each good row, by line number.
        progress: called with the bytes read so far.
    """
    if kind in OBJECTS:
        return _check_object(path, kind)
    shown = display(path)
    row_type = ROWS[kind]
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(row_type)
    problems: list[Problem] = []
    notes: list[str] = []
    first_lines: dict[tuple[str, int], int] = {}
    rows = done = 0
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if number == 1 and line.startswith(BOM):
                line = line[len(BOM) :]
                notes.append("starts with a byte-order mark")
            if line.endswith(b"\r\n") and "has CRLF line ends" not in notes:
                notes.append("has CRLF line ends")
            if not line.strip(BLANK):
                continue
            rows += 1
            if rows % 1000 == 0:
                progress(done)
            by_schema = rows <= BY_SCHEMA
            texts = _row_problems(kind, decoder, line, by_schema=by_schema)
            found = [Problem(shown, number, text) for text in texts]
            if not found:
                row = decoder.decode(line)
                found = list(_duplicates(shown, number, row, first_lines))
                if row_check:
                    found += row_check(number, row)
            problems += found
    if rows == 0:
        problems.append(Problem(shown, None, "the file is empty"))
    if rows > BY_SCHEMA:
        notes.append(f"by its schema: the first {BY_SCHEMA} rows and every bad one; by type: all")
    return Report(shown, kind, rows, problems, notes)


def check_checksums(folder: Path) -> Report:
    """Compare a data folder with its CHECKSUMS.json: changed, missing and unlisted files."""
    shown = display(folder / CHECKSUMS)
    try:
        listed, differences = compare_checksums(folder)
    except DataError as error:
        listed, differences = 0, [str(error).removeprefix(f"{shown}: ")]
    problems = [Problem(shown, None, text) for text in differences]
    return Report(shown, "checksums", listed, problems, [])


def listed_files(folder: Path) -> list[Path]:
    """The JSONL files of a data folder, in order."""
    return [folder / name for name in data_files(folder) if name.endswith(".jsonl")]


def _kind_by_keys(keys: set[str]) -> str | None:
    rules = (
        ("seal", "manifest"),
        ("outcomes", "eval_summary"),
        ("finish_reasons", "sample_summary"),
        ("temperature", "sampling"),
        ("selected", "selection_results"),
        ("samples", "selection_pack"),
        ("expected_code", "golden"),
        ("outcome_code", "eval_results"),
        ("completion", "completions"),
        ("prompt", "dataset"),
    )
    return next((kind for key, kind in rules if key in keys), None)


def _check_object(path: Path, kind: str) -> Report:
    shown = display(path)
    with open_file(path) as file:
        data = file.read().removeprefix(BOM)
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(OBJECTS[kind])
    problems = [Problem(shown, None, text) for text in _row_problems(kind, decoder, data)]
    return Report(shown, kind, 1, problems, [])


def _row_problems(
    kind: str, decoder: "msgspec.json.Decoder[Any]", line: bytes, *, by_schema: bool = True
) -> list[str]:
    """Every problem of one row: the first in the words of the reader, then what the schema adds.

    Args:
        kind: a key of ROWS or OBJECTS.
        decoder: of the kind's type.
        line: the row.
        by_schema: let the schema look even if the reader finds nothing wrong.
    """
    first = row_problem(decoder, decoder.type, line)
    try:
        value, repeated = _plain(line)
    except UnicodeDecodeError:  # in the text of a key that the reader ignores
        return [first or "this row holds bytes that are not UTF-8"]
    except (ValueError, RecursionError):
        return [first or "this row holds a number too long, or is nested too deeply"]
    problems = [first] if first else []
    found = validator(kind).iter_errors(value) if by_schema or first else ()
    errors = sorted(found, key=lambda error: list(map(str, error.path)))
    told = next((error for error in errors if first and _tells(first, error)), None)
    problems += [f"{e.json_path}: {e.message:.200}" for e in errors if e is not told]
    problems += [f"the key {key!r} stands twice in one object" for key in repeated]
    return problems


def _tells(first: str, error: Any) -> bool:
    """Whether the reader's words for a row already tell this error of the schema."""
    if error.validator == "required":  # its message begins with the key, in quotes
        return first.startswith(f"this row has no {error.message.split(' is a required')[0]}")
    if error.json_path == "$":
        return first.startswith("this row is a JSON")
    place = re.escape(error.json_path.removeprefix("$."))  # where the reader was, or around it
    return bool(re.match(rf"(this row has no '\w+' inside )?'{place}['.\[]", first))


def _plain(line: bytes) -> tuple[Any, list[str]]:
    """Decode JSON as plain data, and collect keys that stand twice in one object."""
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in items)
        repeated.extend(sorted(key for key, count in counts.items() if count > 1))
        return dict(items)

    return json.loads(line.decode(), object_pairs_hook=pairs), repeated


def _duplicates(
    shown: str, number: int, row: Any, first_lines: dict[tuple[str, int], int]
) -> Iterator[Problem]:
    key = (row.id, getattr(row, "sample_index", None) or 0)
    first = first_lines.setdefault(key, number)
    if first != number:
        sample = f" with sample_index {key[1]}" if hasattr(row, "sample_index") else ""
        yield Problem(shown, number, f"the id {row.id!r}{sample} already stands in line {first}")
