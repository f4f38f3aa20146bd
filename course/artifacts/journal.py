"""The journal of an unfinished run: how far it came, and what it needs to go on.

It stands in ``NAME.partial.resume`` beside the run's ``NAME.partial``, so nothing has to be taken
out of a run before it is published. Each commit replaces it in one step: a writer that is killed
leaves the journal of its last commit or of the one before, never half of one. It says nothing about
what a run does; that is for the command that makes the run.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from course.artifacts.disk import is_plain_name, replace_file, sync_folder
from course.core.digests import canonical_json, sha256_bytes
from course.core.errors import DataError
from course.core.paths import display
from course.core.records import Digest, OutputFile

JOURNAL = "journal.json"

Settings = Mapping[str, str | int | float | bool | None]
"""What must be the same for a run to be continued, by the name that the user knows it by."""


class Journal(msgspec.Struct, frozen=True):
    """What one commit put on record."""

    kind: str
    settings: dict[str, Any]
    files: dict[str, OutputFile]
    """How far each file of the run had been written."""
    progress: dict[str, Any]
    """What the command wants to know when it goes on, as plain JSON values."""
    carried: Digest | None
    """The hash of the bytes it wants to have again, which is also the name of their file."""

    def differences(self, now: Settings) -> list[str]:
        """Say in which settings a run would go on otherwise than it began."""
        before, after = self.settings, msgspec.json.decode(canonical_json(now))
        return [
            f"{name} was {_shown(before, name)}, is {_shown(after, name)} now"
            for name in sorted({*before, *after})
            if (name in before, before.get(name)) != (name in after, after.get(name))
        ]


def read_journal(folder: Path) -> Journal | None:
    """Read the journal; None when there is none, or none of ours."""
    with contextlib.suppress(
        FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, UnicodeDecodeError
    ):
        journal = msgspec.json.decode((folder / JOURNAL).read_bytes(), type=Journal)
        if all(is_plain_name(name) for name in journal.files):
            return journal
    return None


def write_journal(folder: Path, journal: Journal, carry: bytes | None) -> None:
    """Put a commit on record: after a power cut it holds, or the one before it does."""
    if not folder.exists():
        folder.mkdir()
        sync_folder(folder.parent)
    if carry is not None and journal.carried and not (folder / journal.carried).exists():
        replace_file(folder / journal.carried, carry)
    replace_file(folder / JOURNAL, canonical_json(journal))
    for path in folder.iterdir():
        if path.name not in (JOURNAL, journal.carried):
            path.unlink()  # what an earlier commit carried


def read_carried(folder: Path, journal: Journal) -> bytes | None:
    """Read what the last commit carried; None when it carried nothing.

    Raises: DataError when it is not what it was.
    """
    if journal.carried is None:
        return None
    path = folder / journal.carried
    data = path.read_bytes() if path.is_file() else b""
    if sha256_bytes(data) != journal.carried:
        raise DataError(
            f"{display(path)} is no longer what the stopped command had saved, so the run cannot "
            "be continued. Leave --resume out and give --overwrite to begin anew."
        )
    return data


def _shown(settings: Mapping[str, Any], name: str) -> str:
    if name not in settings:
        return "not set"
    value = settings[name]
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
