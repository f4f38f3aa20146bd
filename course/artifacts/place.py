"""Whether a run may be written where the user wants it. Every refusal is made before any work."""

from collections.abc import Sequence
from pathlib import Path

from course.artifacts.disk import files_below
from course.artifacts.journal import Journal, Settings
from course.artifacts.manifest import kind_of_run, names_of_run
from course.core.errors import UsageError
from course.core.paths import display

DESKTOP_LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that file managers drop into every folder they show."""


def check_outside_runs(final: Path, reads: Sequence[Path]) -> None:
    """Refuse a place inside another run, or around a file that the new run is made from."""
    for path in reads:
        if path.resolve().is_relative_to(final.resolve()):
            raise UsageError(
                f"{display(path)} lies in {display(final)}, which it would be overwritten with. "
                "Give another --outdir."
            )
    for folder in final.parents:
        if names_of_run(folder) is not None:
            raise UsageError(
                f"{display(final)} lies inside the run {display(folder)}, whose seal it would "
                "break. Give another --outdir."
            )


def check_free(final: Path, *, kind: str, overwrite: bool, resume: bool = False) -> None:
    """Refuse a place where something stands that the new run must not replace.

    Args:
        final: where the run shall stand.
        kind: the kind of run it is going to be.
        overwrite: whether it may replace a run of its own kind.
        resume: whether an unfinished run was looked for here, and none was found.
    """
    shown = display(final)
    if final.is_symlink():
        raise UsageError(f"{shown} is a symbolic link; --outdir must name the folder itself.")
    if not final.exists():
        return
    if not final.is_dir():
        raise UsageError(f"{shown} is a file; --outdir must name a folder.")
    if not any(final.iterdir()):
        return
    written = names_of_run(final)
    if written is None:
        raise UsageError(
            f"{shown} holds files but is not a run, so it is left alone. Give another --outdir."
        )
    if not overwrite:
        finished = resume and kind_of_run(final) == kind
        what = "is finished: nothing is left to resume" if finished else "already holds a run"
        raise UsageError(f"{shown} {what}. Give another --outdir, or --overwrite to replace it.")
    if kind_of_run(final) != kind:
        raise UsageError(
            f"{shown} holds a {kind_of_run(final)} run, which a {kind} run does not replace. Give "
            "another --outdir."
        )
    others = files_below(final) - written
    if others := {name for name in others if Path(name).name not in DESKTOP_LITTER}:
        raise UsageError(
            f"{shown} is not overwritten: besides its run it holds "
            f"{', '.join(sorted(others)[:5])}. Move that elsewhere, or give another --outdir."
        )


def check_unfinished(
    partial: Path,
    journal: Journal,
    *,
    kind: str,
    settings: Settings | None,
    overwrite: bool,
    resume: bool,
) -> None:
    """Refuse to lose the work of a stopped command, or to go on with it as something else.

    Args:
        partial: where that work stands.
        journal: what it was.
        kind: the kind of run that is to be written now.
        settings: the settings that must be the same to go on; None for a run that cannot.
        overwrite: whether the work may be discarded.
        resume: whether it is to be continued.
    """
    shown = display(partial)
    if journal.kind != kind:
        raise UsageError(
            f"{shown} holds an unfinished {journal.kind} run, which a {kind} run neither continues "
            "nor replaces. Give another --outdir."
        )
    if not resume and not overwrite:
        raise UsageError(
            f"{shown} holds an unfinished run: --resume continues it, --overwrite discards it. Or "
            "give another --outdir."
        )
    if resume and (differences := journal.differences(settings or {})):
        raise UsageError(
            f"{shown} cannot be continued with other settings: {'; '.join(differences)}. Give the "
            "earlier ones, or leave --resume out and give --overwrite to begin anew."
        )
