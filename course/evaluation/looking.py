"""Look at a run: its rows grouped by outcome, a few of each kept to be shown.

Reads eval, selection and sample runs, row by row, so a large run costs no memory.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from course.artifacts.seal import Run
from course.core.errors import UsageError
from course.core.jsonl import JsonlReader
from course.core.paths import display
from course.core.records import Completion, EvalRow, Sample, SelectionPack, SelectionRow
from course.scoring.contract import UNSCORED_CODES

NOT_SCORED = "not_scored"
CODES_WITH_EXAMPLES = 200
"""Examples are kept for so many codes; a scorer that invents more is still counted."""


class Row(NamedTuple):
    """One completion of a run of any kind, as it is shown."""

    id: str
    sample_index: int
    prompt: str | None
    expected_answer: str | None
    completion: str | None
    reward: float | None
    outcome_code: str
    details: dict[str, Any]
    error: str | None
    note: str
    """What else there is to say: which sample was chosen, how the text ended."""


class Group(NamedTuple):
    """The rows that share an outcome."""

    code: str
    rows: int
    share: float
    """Of all rows of the run, in 0..1."""
    passed: bool
    meaning: str
    examples: list[Row]


class Filter(NamedTuple):
    """Which rows to look at."""

    only_fails: bool = False
    code: str | None = None
    id: str | None = None


class View(NamedTuple):
    """What was found."""

    rows: int
    matching: int
    groups: list[Group]
    """Commonest first."""


def look(run: Run, wanted: Filter, *, top_k: int, show: int) -> View:
    """Group a run's rows by outcome and keep the first ``show`` of each.

    Raises: UsageError when the filter matches nothing, saying what there is.
    """
    full = run.manifest.scorer.full_reward if run.manifest.scorer else None
    counts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    kept: dict[str, list[Row]] = {}
    passed: dict[str, bool] = {}
    for row in rows_of(run):
        seen[row.outcome_code] += 1
        passes = full is not None and row.reward is not None and row.reward >= full
        if wanted.only_fails and passes:
            continue
        if wanted.code not in (None, row.outcome_code) or wanted.id not in (None, row.id):
            continue
        counts[row.outcome_code] += 1
        passed[row.outcome_code] = passes
        if row.outcome_code in kept or len(kept) < CODES_WITH_EXAMPLES:
            examples = kept.setdefault(row.outcome_code, [])
            if len(examples) < show or wanted.id:
                examples.append(row)
    if not counts and (wanted.code or wanted.id):
        raise UsageError(_nothing(run, wanted, seen))
    rows = seen.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    groups = [
        Group(
            code,
            count,
            count / rows,
            passed[code],
            _meaning(code, kept.get(code)),
            kept.get(code, []),
        )
        for code, count in ordered[:top_k]
    ]
    return View(rows, counts.total(), groups)


def rows_of(run: Run) -> Iterator[Row]:
    """Read the rows of a run of any kind in one shape.

    Raises: UsageError for a kind that has no rows to look at.
    """
    if run.manifest.kind == "eval":
        return _eval_rows(run.folder / "results.jsonl")
    if run.manifest.kind == "selection":
        return _selection_rows(run.folder / "results.jsonl")
    if (run.folder / "completions.jsonl").is_file():
        return _completion_rows(run.folder / "completions.jsonl")
    if (run.folder / "selection_pack.jsonl").is_file():
        return _pack_rows(run.folder / "selection_pack.jsonl")
    raise UsageError(f"{display(run.folder)} is a {run.manifest.kind} run without completions.")


def _eval_rows(path: Path) -> Iterator[Row]:
    for row in JsonlReader(path, EvalRow):
        yield Row(
            row.id,
            row.sample_index,
            row.prompt,
            str(row.expected_answer),
            row.completion,
            row.reward,
            row.outcome_code,
            row.details or {},
            row.error,
            _ending(row.finish_reason),
        )


def _selection_rows(path: Path) -> Iterator[Row]:
    for row in JsonlReader(path, SelectionRow):
        index = row.selected.index
        chosen = row.samples[index].completion if index < len(row.samples) else None
        before = f"sample {row.baseline.index}: {row.baseline.outcome_code}"
        yield Row(
            row.id,
            index,
            row.prompt,
            str(row.expected_answer),
            chosen,
            row.selected.reward,
            row.selected.outcome_code,
            {},
            None,
            f"chosen from {len(row.samples)} samples; without selection, {before}",
        )


def _completion_rows(path: Path) -> Iterator[Row]:
    for row in JsonlReader(path, Completion):
        yield _unscored_row(row.id, row.sample_index or 0, row.completion, row.finish_reason)


def _pack_rows(path: Path) -> Iterator[Row]:
    for pack in JsonlReader(path, SelectionPack):
        for index, sample in enumerate(pack.samples):
            text = sample.completion if isinstance(sample, Sample) else sample
            reason = sample.finish_reason if isinstance(sample, Sample) else None
            yield _unscored_row(pack.id, index, text, reason)


def _unscored_row(row_id: str, index: int, text: str, reason: str | None) -> Row:
    return Row(row_id, index, None, None, text, None, NOT_SCORED, {}, None, _ending(reason))


def _ending(reason: str | None) -> str:
    """Say how a text ended, if it did not end by itself."""
    return "" if reason in (None, "stop") else f"ended by finish_reason {reason!r}"


def _meaning(code: str, examples: list[Row] | None) -> str:
    if code == NOT_SCORED:
        return "These completions have not been scored; python -m course.eval does that."
    if code in UNSCORED_CODES:
        return UNSCORED_CODES[code]
    message = examples[0].details.get("message") if examples else None
    return message if isinstance(message, str) else ""


def _nothing(run: Run, wanted: Filter, seen: Counter[str]) -> str:
    first = next(row.id for row in rows_of(run))
    what = " and ".join(
        f"{name} {value!r}" for name, value in (("id", wanted.id), ("code", wanted.code)) if value
    )
    if wanted.id and not wanted.code:
        return f"{display(run.folder)} has no row with {what}. Its first id is {first!r}."
    codes = ", ".join(f"{code} ({count})" for code, count in seen.most_common(20))
    also = " that failed" if wanted.only_fails else ""
    return f"{display(run.folder)} has no row with {what}{also}. Its outcome codes are: {codes}."
