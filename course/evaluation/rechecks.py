"""Re-check what rests on a scorer or a seal: golden sets and whole run folders."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from course.artifacts.seal import inspect_seal
from course.core.console import one_line
from course.core.digests import sha256_file
from course.core.file_checks import Problem, Report, check_file
from course.core.jsonl import JsonlReader
from course.core.paths import ROOT, display
from course.core.records import EvalRow, EvalSummary, Example, GoldenCase, Manifest
from course.evaluation.tally import Tally
from course.scoring import BUILTIN_SCORERS
from course.scoring.contract import Score, Scorer, checked, load_scorer

Progress = Callable[[int], None]

ROWS_OF_RUNS: dict[str, dict[str, str]] = {
    "eval": {"results.jsonl": "eval_results"},
    "selection": {"results.jsonl": "selection_results"},
    "sample": {"completions.jsonl": "completions", "selection_pack.jsonl": "selection_pack"},
}
"""The files of each kind of run whose rows are checked, and what they are."""


def check_golden(path: Path, plug: str | None, progress: Progress) -> Report:
    """Check a golden set: its schema, and that a scorer gives every row what the row expects.

    Args:
        plug: the scorer; None takes the built-in one that the file's folder is named after.
    """
    name = plug or (path.parent.name if path.parent.name in BUILTIN_SCORERS else None)
    if name is None:
        report = check_file(path, "golden", progress=progress)
        report.notes.append("no --scorer was given, so no reward was checked")
        return report
    scorer = load_scorer(name)
    score = checked(scorer, ask_twice=True)
    shown = display(path)

    def agrees(number: int, row: GoldenCase) -> Iterator[Problem]:
        example = {"id": row.id, "prompt": row.prompt, "expected_answer": row.expected_answer}
        got = score({**example, "metadata": {}}, row.completion)
        if (got.reward, got.code) != (row.expected_reward, row.expected_code):
            text = (
                f"{row.id}: expected {row.expected_reward:g} {row.expected_code}, "
                f"got {_got(got)} for {one_line(row.completion, 60)!r} ({row.note})"
            )
            yield Problem(shown, number, text, gate=True)

    report = check_file(path, "golden", row_check=agrees, progress=progress)
    report.notes.append(f"scored by {scorer.name} v{scorer.version}")
    return report


def check_run(folder: Path, plug: str | None, progress: Progress) -> Report:
    """Check a run folder: its seal, its files' schemas, and that its summary follows from its rows.

    Args:
        plug: a scorer to score every row of an eval run with again, or None. It gets the metadata
            of the run's dataset, as long as that is still what the run read.

    Raises: DataError when the path is no run folder.
    """
    manifest, seal = inspect_seal(folder)
    shown = display(folder)
    problems = [Problem(shown, None, f"BrokenSeal: {text}", gate=True) for text in seal]
    if manifest is None:
        return Report(shown, "run", 0, problems, [])
    notes = _changed_inputs(manifest)
    rows = 0
    for name, kind in ROWS_OF_RUNS.get(manifest.kind, {}).items():
        path = folder / name
        if name not in manifest.outputs or not path.is_file():
            continue
        if kind == "eval_results":
            scorer = load_scorer(plug) if plug else None
            report, found = _check_rows(folder, manifest, scorer, progress)
            notes += _who_scored(scorer, manifest) if scorer else []
        else:
            report, found = check_file(path, kind, progress=progress), []
        rows += report.rows
        notes += report.notes
        problems += report.problems + found
    return Report(shown, f"{manifest.kind} run", rows, problems, notes)


def _check_rows(
    folder: Path, manifest: Manifest, scorer: Scorer | None, progress: Progress
) -> tuple[Report, list[Problem]]:
    """Check an eval run's rows, and count them again: the summary must follow from them."""
    shown = display(folder / "results.jsonl")
    tally = Tally(manifest.scorer.full_reward if manifest.scorer else 1.0)
    score = checked(scorer) if scorer else None
    metadata = _metadata(manifest) if scorer and not scorer.plugin.builtin else {}
    example: list[EvalRow] = []

    def recount(number: int, row: EvalRow) -> Iterator[Problem]:
        if example and example[-1].id != row.id:
            tally.add(example, 1)
            example.clear()
        example.append(row)
        if score is None or row.completion is None:
            return
        asked = {"id": row.id, "prompt": row.prompt, "expected_answer": row.expected_answer}
        got = score({**asked, "metadata": metadata.get(row.id, {})}, row.completion)
        if (got.reward, got.code) != (row.reward, row.outcome_code):
            was = "unscored" if row.reward is None else f"{row.reward:g} {row.outcome_code}"
            text = f"{row.id}: scored again it is {_got(got)}, not {was}"
            yield Problem(shown, number, text, gate=True)

    report = check_file(
        folder / "results.jsonl", "eval_results", row_check=recount, progress=progress
    )
    if example:
        tally.add(example, 1)
    summary_path = folder / "summary.json"
    problems = check_file(summary_path, "eval_summary", progress=progress).problems
    if not problems and not report.problems:
        summary = msgspec.json.decode(summary_path.read_bytes(), type=EvalSummary)
        counted = tally.summary(summary.run.name, summary.run.scorer)
        problems += [
            Problem(display(summary_path), None, text, gate=True)
            for text in _differences(msgspec.to_builtins(summary), msgspec.to_builtins(counted))
        ]
    return report, problems


def _differences(said: dict[str, Any], counted: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every number of a summary that does not follow from the rows."""
    for name in said | counted:
        value, other, where = said.get(name), counted.get(name), f"{path}{name}"
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _differences(value, other, f"{where}.")
        elif isinstance(value, float) and isinstance(other, float):
            if not math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12):
                yield f"{where} is {value}, but the rows give {other}"
        elif value != other:
            yield f"{where} is {value!r}, but the rows give {other!r}"


def _metadata(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """The metadata of the run's examples, if its dataset is still what the run read."""
    dataset = manifest.inputs.get("dataset")
    path = ROOT / dataset.path if dataset else None
    if dataset is None or path is None or not path.is_file():
        return {}
    if sha256_file(path) != dataset.sha256:
        return {}
    return {row.id: row.metadata or {} for row in JsonlReader(path, Example)}


def _changed_inputs(manifest: Manifest) -> list[str]:
    """Say which inputs are no longer what the run read: no fault of the run, but good to know."""
    notes = []
    for role, file in manifest.inputs.items():
        path = ROOT / file.path
        if path.is_file() and sha256_file(path) != file.sha256:
            notes.append(f"its {role}, {file.path}, has changed since the run")
    return notes


def _who_scored(scorer: Scorer, manifest: Manifest) -> list[str]:
    """Say which scorer was asked again, and whether it is the one that the run sealed."""
    sealed = manifest.scorer
    same = sealed is not None and sealed.sources_sha256 == scorer.plugin.sources_sha256
    other = "" if same else ", whose sources are not those that the run was scored with"
    return [f"scored again by {scorer.name} v{scorer.version}{other}"]


def _got(score: Score) -> str:
    if score.reward is None:
        return f"unscored ({score.error})"
    return f"{score.reward:g} {score.code}"
