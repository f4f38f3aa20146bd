"""Re-check what rests on a scorer or a seal: golden sets and whole run folders."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from course.artifacts.seal import inspect_seal
from course.core.console import one_line
from course.core.file_checks import Problem, Report, check_file
from course.core.paths import display
from course.core.records import EvalRow, EvalSummary, GoldenCase, Manifest
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
        plug: a scorer to score every row of an eval run with again, or None. It is asked without
            metadata, which results do not hold.

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
            report, found = _check_rows(folder, scorer, progress)
            notes += [f"scored again by {scorer.name} v{scorer.version}"] if scorer else []
        else:
            report, found = check_file(path, kind, progress=progress), []
        rows += report.rows
        problems += report.problems + found
    return Report(shown, f"{manifest.kind} run", rows, problems, notes)


def _check_rows(
    folder: Path, scorer: Scorer | None, progress: Progress
) -> tuple[Report, list[Problem]]:
    results, shown = folder / "results.jsonl", display(folder / "results.jsonl")
    codes: Counter[str] = Counter()
    score = checked(scorer) if scorer else None

    def recount(number: int, row: EvalRow) -> Iterator[Problem]:
        codes[row.outcome_code] += 1
        if score is None or row.completion is None:
            return
        example = {"id": row.id, "prompt": row.prompt, "expected_answer": row.expected_answer}
        got = score({**example, "metadata": {}}, row.completion)
        if (got.reward, got.code) != (row.reward, row.outcome_code):
            text = f"{row.id}: scored again it is {_got(got)}, not {row.reward} {row.outcome_code}"
            yield Problem(shown, number, text, gate=True)

    report = check_file(results, "eval_results", row_check=recount, progress=progress)
    summary_path = folder / "summary.json"
    problems = check_file(summary_path, "eval_summary", progress=progress).problems
    if not problems:
        summary = msgspec.json.decode(summary_path.read_bytes(), type=EvalSummary)
        if not report.problems and summary.outcomes != dict(codes):
            text = f"outcomes {summary.outcomes} are not those of the rows: {dict(codes)}"
            problems.append(Problem(display(summary_path), None, text, gate=True))
    return report, problems


def _changed_inputs(manifest: Manifest) -> list[str]:
    """Say which inputs are no longer what the run read: no fault of the run, but good to know."""
    from course.core.digests import sha256_file
    from course.core.paths import ROOT

    notes = []
    for role, file in manifest.inputs.items():
        path = ROOT / file.path
        if path.is_file() and sha256_file(path) != file.sha256:
            notes.append(f"its {role}, {file.path}, has changed since the run")
    return notes


def _got(score: Score) -> str:
    if score.reward is None:
        return f"unscored ({score.error})"
    return f"{score.reward:g} {score.code}"
