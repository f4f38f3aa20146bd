"""The Locked Room: same dataset, same prompts, same scorer, same sampling, or no comparison.

Each check ends in ``equal``, ``different`` or ``unknown``. Unknown is not equal: what one run does
not say cannot be held against what the other says, so unknown on one side is a violation. Unknown
on both sides is a caveat. Policy and seed may differ: they are what is being compared.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from course.core.records import Manifest, RunFacts

SETTINGS = ("temperature", "top_p", "max_new_tokens", "n", "greedy")
"""The sampling fields that are compared; the seed is not one."""

VARIABLE = ("dataset", "prompts", "scorer", "sampling")
"""The four respects, in the order of the checklist; ``--vary`` takes any one of them."""

HOW = {"sampling": " how its completions were sampled", "scorer": " what scored it"}


class Status(StrEnum):
    """How two runs stand to each other in one respect."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Check(NamedTuple):
    """One line of the checklist."""

    name: str
    """One of VARIABLE."""
    status: Status
    violates: bool
    """Whether this alone makes the comparison refused."""
    text: str
    """What was compared, in words."""
    varied: bool = False
    """Declared by ``--vary`` as the one thing that differs on purpose."""


def room_checks(
    baseline: Manifest,
    candidate: Manifest,
    facts: tuple[RunFacts | None, RunFacts | None],
    *,
    uneven: int = 0,
) -> list[Check]:
    """Compare two runs in the four respects that must be equal.

    Args:
        facts: the ``run`` blocks of the two summaries, baseline first; None where the seal is
            broken, so that nothing but the manifests can be compared.
        uneven: examples for which the runs have different numbers of completions.
    """
    return [
        _hash_check("dataset", _dataset_hash(baseline), _dataset_hash(candidate)),
        _hash_check("prompts", baseline.prompts_sha256, candidate.prompts_sha256),
        _scorer_check(baseline, candidate),
        _sampling_check(baseline, candidate, _counts_differ(facts, uneven)),
    ]


def vary(checks: list[Check], name: str, *, same_answers: bool) -> list[Check]:
    """Allow the one difference that was declared, and what follows from it.

    Another dataset brings other prompts. Other prompts bring another dataset hash, which is allowed
    only if ids and expected answers are the same (``same_answers``).
    """
    allowed = {name}
    if name == "dataset":
        allowed.add("prompts")
    if name == "prompts" and same_answers:
        allowed.add("dataset")
    return [
        check._replace(violates=False, varied=True)
        if check.name in allowed and check.status is not Status.EQUAL
        else check
        for check in checks
    ]


def _dataset_hash(manifest: Manifest) -> str | None:
    dataset = manifest.inputs.get("dataset")
    return dataset.sha256 if dataset else None


def _hash_check(name: str, one: str | None, other: str | None) -> Check:
    if one is None or other is None:
        return _unknown(name, one is None, other is None)
    if one == other:
        return Check(name, Status.EQUAL, False, f"sha256 {one[:12]}")
    return Check(name, Status.DIFFERENT, True, f"sha256 {one[:12]} against {other[:12]}")


def _scorer_check(baseline: Manifest, candidate: Manifest) -> Check:
    one, other = baseline.scorer, candidate.scorer
    if one is None or other is None:
        return _unknown("scorer", one is None, other is None)
    if (one.name, one.version) != (other.name, other.version):
        text = f"{one.name} v{one.version} against {other.name} v{other.version}"
        return Check("scorer", Status.DIFFERENT, True, text)
    text = f"{one.name} v{one.version}"
    if one.sources_sha256 != other.sources_sha256:
        sources = f"{one.sources_sha256[:12]} against {other.sources_sha256[:12]}"
        return Check("scorer", Status.DIFFERENT, True, f"{text}, but other sources: {sources}")
    if one.full_reward != other.full_reward:
        passes = f"{one.full_reward:g} against {other.full_reward:g}"
        return Check("scorer", Status.DIFFERENT, True, f"{text}, but other full rewards: {passes}")
    return Check("scorer", Status.EQUAL, False, f"{text}, sources {one.sources_sha256[:12]}")


def _counts_differ(facts: tuple[RunFacts | None, RunFacts | None], uneven: int) -> str:
    """Say how the numbers of completions differ, on average or example by example; "" if not."""
    counts = [run.n_completions / max(run.n_examples - run.n_missing, 1) for run in facts if run]
    if len(counts) == 2 and counts[0] != counts[1]:
        return f"{counts[0]:g} against {counts[1]:g} completions per example"
    if uneven:
        return f"{uneven} examples have another number of completions in the candidate"
    return ""


def _sampling_check(baseline: Manifest, candidate: Manifest, counts_differ: str) -> Check:
    one, other = _settings(baseline), _settings(candidate)
    if counts_differ:
        return Check("sampling", Status.DIFFERENT, True, counts_differ)
    if not one or not other:
        return _unknown("sampling", not one, not other)
    differs = [
        f"{name} {one[name]} against {other[name]}"
        for name in SETTINGS
        if name in one and name in other and one[name] != other[name]
    ]
    if differs:
        return Check("sampling", Status.DIFFERENT, True, ", ".join(differs))
    if set(one) != set(other):
        sides = (("baseline", set(one) - set(other)), ("candidate", set(other) - set(one)))
        text = "; ".join(f"only the {s} says: {', '.join(sorted(f))}" for s, f in sides if f)
        return Check("sampling", Status.UNKNOWN, True, text)
    missing = [name for name in SETTINGS if name not in one]
    shown = ", ".join(f"{name} {one[name]}" for name in SETTINGS if name in one)
    if missing:
        text = f"{shown}; neither run says: {', '.join(missing)}"
        return Check("sampling", Status.UNKNOWN, False, text)
    return Check("sampling", Status.EQUAL, False, shown)


def _settings(manifest: Manifest) -> dict[str, Any]:
    if manifest.sampling is None:
        return {}
    fields = msgspec.structs.asdict(manifest.sampling)
    return {name: fields[name] for name in SETTINGS if fields[name] is not None}


def _unknown(name: str, one: bool, other: bool) -> Check:
    """A check that cannot be made because one run, or both, lack the fact."""
    who = (
        "neither run says"
        if one and other
        else f"the {'baseline' if one else 'candidate'} does not say"
    )
    return Check(name, Status.UNKNOWN, one != other, f"{who}{HOW.get(name, '')}")
