"""Compare two runs: the Locked Room, the paired numbers, and the one decision rule.

PROMOTE if and only if both seals hold, both runs are complete, the room is locked, the difference
is above zero and at least ``min_delta``, and the two-sided paired p is at most ``alpha``. Otherwise
REJECT, with every reason; but no number is computed from a run whose seal is broken. Where a
declared difference makes the pass rates mean different things the verdict is COMPARED, never
PROMOTE.
"""

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from course.artifacts.seal import inspect_seal
from course.core.errors import UsageError
from course.core.paths import display
from course.core.records import EvalSummary, Manifest
from course.evaluation.locked_room import Check, Status, room_checks, vary
from course.evaluation.paired import FLOOR, RESAMPLED, RESAMPLES, Paired, compare_rows

OTHER_MEANING = ("dataset", "prompts", "scorer")
"""What changes the meaning of a pass rate when it is varied."""


class Verdict(StrEnum):
    """What a comparison ends in."""

    PROMOTE = "PROMOTE"
    REJECT = "REJECT"
    COMPARED = "COMPARED"


class Reason(StrEnum):
    """Why a candidate is rejected."""

    LOCKED_ROOM_VIOLATION = "LockedRoomViolation"
    BROKEN_SEAL = "BrokenSeal"
    INCOMPLETE = "Incomplete"
    UNSCORED = "Unscored"
    DELTA_TOO_SMALL = "DeltaTooSmall"
    NOT_SIGNIFICANT = "NotSignificant"
    WORSE = "Worse"


class Finding(NamedTuple):
    """A reason, and the evidence for it in words."""

    reason: Reason
    text: str


class Rules(NamedTuple):
    """The thresholds of the decision."""

    min_delta: float = 0.0
    alpha: float = 0.05
    vary: str | None = None


class Side(NamedTuple):
    """One run of a comparison, as far as it could be read."""

    folder: Path
    manifest: Manifest | None
    summary: EvalSummary | None
    problems: list[str]
    """What the seal says; [] when it holds."""


class Comparison(NamedTuple):
    """Everything a comparison found."""

    baseline: Side
    candidate: Side
    checks: list[Check]
    paired: Paired | None
    verdict: Verdict
    findings: list[Finding]
    caveats: list[str]


def compare_runs(baseline: Path, candidate: Path, rules: Rules) -> Comparison:
    """Compare two eval runs.

    Raises: DataError when a path is no run folder; UsageError for a run of another kind.
    """
    one, other = _open(baseline), _open(candidate)
    broken = [
        Finding(Reason.BROKEN_SEAL, f"{display(side.folder)}: {'; '.join(side.problems)}")
        for side in (one, other)
        if side.problems
    ]
    if one.manifest is None or other.manifest is None:
        return Comparison(one, other, [], None, Verdict.REJECT, broken, [])
    if broken:
        checks = _room(one, other, None, rules)
        findings = [*broken, *_violations(checks)]
        return Comparison(one, other, checks, None, Verdict.REJECT, findings, [])

    paired = compare_rows(
        baseline / "results.jsonl",
        candidate / "results.jsonl",
        full_rewards=(_full_reward(one.manifest), _full_reward(other.manifest)),
        alpha=rules.alpha,
    )
    checks = _room(one, other, paired, rules)
    gate = [*_violations(checks), *_incomplete(one, other, rules.vary)]
    caveats = [*_caveats(one, other, checks, rules), *_resolution(paired, rules)]
    if rules.vary in OTHER_MEANING and any(check.varied for check in checks):
        verdict = Verdict.REJECT if gate else Verdict.COMPARED
        return Comparison(one, other, checks, paired, verdict, gate, caveats)
    findings = [*gate, *_not_better(paired, rules)]
    verdict = Verdict.REJECT if findings else Verdict.PROMOTE
    return Comparison(one, other, checks, paired, verdict, findings, caveats)


def _open(folder: Path) -> Side:
    manifest, problems = inspect_seal(folder)
    if problems or manifest is None:
        return Side(folder, manifest, None, problems)
    if manifest.kind != "eval":
        raise UsageError(
            f"{display(folder)} is a {manifest.kind} run; two eval runs are needed. Score its "
            "completions with python -m course.eval first."
        )
    try:
        data = (folder / "summary.json").read_bytes()
        return Side(folder, manifest, msgspec.json.decode(data, type=EvalSummary), [])
    except (msgspec.DecodeError, OSError) as error:
        return Side(folder, manifest, None, [f"summary.json cannot be read: {error}"])


def _full_reward(manifest: Manifest) -> float:
    return manifest.scorer.full_reward if manifest.scorer else 1.0


def _room(one: Side, other: Side, paired: Paired | None, rules: Rules) -> list[Check]:
    assert one.manifest is not None and other.manifest is not None
    facts = (one.summary.run if one.summary else None, other.summary.run if other.summary else None)
    uneven = paired.uneven if paired else 0
    checks = room_checks(one.manifest, other.manifest, facts, uneven=uneven)
    if rules.vary is None:
        return checks
    # The answers of a broken run are not read, so nothing is held against them.
    same_answers = paired.same_answers if paired else None in facts
    return vary(checks, rules.vary, same_answers=same_answers)


def _violations(checks: list[Check]) -> list[Finding]:
    return [
        Finding(
            Reason.LOCKED_ROOM_VIOLATION,
            f"{check.name} is {check.status.value}: {check.text}",
        )
        for check in checks
        if check.violates
    ]


def _incomplete(one: Side, other: Side, varied: str | None) -> list[Finding]:
    findings = []
    for side in (one, other):
        assert side.summary is not None
        run, shown = side.summary.run, display(side.folder)
        if run.n_missing:
            text = f"{shown}: {run.n_missing} of {run.n_examples} examples have no completion"
            findings.append(Finding(Reason.INCOMPLETE, text))
        if failed := run.n_unscored - run.n_missing:
            text = f"{shown}: the scorer failed on {failed} completions"
            findings.append(Finding(Reason.UNSCORED, text))
    assert one.summary is not None and other.summary is not None
    counts = one.summary.run.n_examples, other.summary.run.n_examples
    if counts[0] != counts[1] and varied != "dataset":
        text = f"the baseline is about {counts[0]} examples, the candidate about {counts[1]}"
        findings.append(Finding(Reason.INCOMPLETE, text))
    return findings


def _not_better(paired: Paired | None, rules: Rules) -> list[Finding]:
    if paired is None:
        return [
            Finding(
                Reason.INCOMPLETE,
                "the two runs are about different examples, or share no scored one",
            )
        ]
    findings = []
    if paired.difference < 0:
        text = f"the difference is {paired.difference:+.4f}"
        findings.append(Finding(Reason.WORSE, text))
    if paired.difference <= 0 or paired.difference < rules.min_delta:
        bound = f"below --min-delta {rules.min_delta}" if rules.min_delta else "not above 0"
        text = f"the difference {paired.difference:+.4f} is {bound}"
        findings.append(Finding(Reason.DELTA_TOO_SMALL, text))
    if paired.p_value > rules.alpha:
        text = f"p = {p_text(paired.p_value)} is above alpha {rules.alpha}"
        findings.append(Finding(Reason.NOT_SIGNIFICANT, text))
    return findings


def _caveats(one: Side, other: Side, checks: list[Check], rules: Rules) -> list[str]:
    assert one.manifest is not None and other.manifest is not None and one.summary is not None
    caveats = []
    for check in checks:
        if check.varied:
            caveats.append(f"{check.name} was varied on purpose: {check.text}.")
        elif check.status is Status.UNKNOWN and not check.violates:
            caveats.append(
                f"{check.name} is unknown: {check.text}. Whether it was the same, nobody can tell."
            )
    if rules.vary and not any(check.varied for check in checks):
        caveats.append(f"--vary {rules.vary} was declared, but {rules.vary} does not differ.")
    if one.manifest.run_id == other.manifest.run_id:
        caveats.append("baseline and candidate are the same run.")
    dataset = one.manifest.inputs.get("dataset")
    examples = one.summary.run.n_examples
    if dataset and dataset.rows and examples < dataset.rows:
        caveats.append(f"only {examples} of the dataset's {dataset.rows} examples were evaluated.")
    return caveats


def _resolution(paired: Paired | None, rules: Rules) -> list[str]:
    """Say so when p is above alpha only because resampling cannot say less."""
    if not paired or paired.test != RESAMPLED or not rules.alpha < paired.p_value <= FLOOR:
        return []
    return [
        f"{p_text(FLOOR)} is the least p that {RESAMPLES} resamples can say: whether the true p "
        f"is above alpha {rules.alpha}, this test cannot tell."
    ]


def p_text(p: float) -> str:
    """Write a p-value: three digits, or the power of ten it stays below."""
    if p < 1e-300:
        return "below 1e-300"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
