"""Where completions came from, as far as it is known: how they were sampled, by whom, from what.

Completions inside a sealed sample run bring it along, and so do those that stand beside a copy of
its manifest: ``NAME.jsonl`` beside ``NAME.manifest.json``. For others a file may say how they were
sampled (``--sampling``); it can fill in what is unknown, and never contradict a seal.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.artifacts.manifest import MANIFEST, names_of_run
from course.artifacts.seal import read_manifest
from course.core.digests import sha256_file
from course.core.errors import BrokenSealError, DataError, UsageError
from course.core.paths import display
from course.core.records import RunFacts, SamplingSettings

EXAMPLE = (
    '{"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 12, "n": 1, "greedy": false, "seed": 0}'
)


class Origin(NamedTuple):
    """Where completions came from; None for what nobody says."""

    sampling: SamplingSettings | None = None
    policy: dict[str, Any] | None = None
    prompts_sha256: str | None = None
    """Over the prompts that the policy was given."""


def origin_of(completions: Path) -> Origin:
    """Find out where completions came from, by the manifest of the run that wrote them.

    A ``manifest.json`` that no run wrote says nothing.

    Raises: BrokenSealError when the manifest was edited, or the file is not what it sealed.
    """
    completions = completions.resolve()
    path = manifest_of(completions)
    if path is None:
        return Origin()
    manifest, problems = read_manifest(path)
    if manifest:
        output = manifest.outputs.get(completions.name)
        if output is None and path.name == MANIFEST:
            return Origin()
        sealed = {output.sha256} if output else {o.sha256 for o in manifest.outputs.values()}
        if sha256_file(completions) not in sealed:
            problems.append(f"{completions.name} is not what the run sealed")
    if problems or manifest is None:
        raise BrokenSealError(
            f"BrokenSeal: {display(path.parent)}: {'; '.join(problems)}. Take the original, or "
            "copy the completions out, without the manifest, if the change is meant."
        )
    return Origin(manifest.sampling, manifest.policy, manifest.prompts_sha256)


def manifest_of(completions: Path) -> Path | None:
    """Find the manifest that speaks of a file: its own copy beside it, or its run's."""
    if not completions.is_file():
        return None
    beside = completions.with_suffix(".manifest.json")
    if beside.exists():
        return beside
    return None if names_of_run(completions.parent) is None else completions.parent / MANIFEST


def with_declared(origin: Origin, file: Path) -> Origin:
    """Fill in what a sampling file declares.

    Raises: DataError for a file that is no sampling block; UsageError where it contradicts what the
        completions' own run sealed.
    """
    declared = read_sampling(file)
    if origin.sampling is None:
        return origin._replace(sampling=declared)
    known, said = (msgspec.structs.asdict(block) for block in (origin.sampling, declared))
    against = [
        f"{name} is {known[name]}, and the file says {said[name]}"
        for name in known
        if known[name] is not None and said[name] is not None and known[name] != said[name]
    ]
    if against:
        raise UsageError(
            f"{display(file)} contradicts the run that the completions come from: "
            f"{'; '.join(against)}. What a run has sealed is not overruled; leave --sampling out."
        )
    filled = {name: said[name] if known[name] is None else known[name] for name in known}
    return origin._replace(sampling=SamplingSettings(**filled))


def check_count(sampling: SamplingSettings | None, run: RunFacts) -> None:
    """Hold the declared number of samples per example against what was found.

    Raises: DataError when they differ.
    """
    examples = run.n_examples - run.n_missing
    if sampling and sampling.n and run.n_completions != sampling.n * examples:
        raise DataError(
            f"The sampling block says n = {sampling.n} completions per example, but there are "
            f"{run.n_completions} for {examples} examples. Correct n, or bring all completions."
        )


def read_sampling(path: Path) -> SamplingSettings:
    """Read a sampling block: temperature, top_p, max_new_tokens, n, greedy, seed.

    Raises: DataError when the file is not such an object.
    """
    shown = display(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{shown} cannot be read: {error.strerror}.") from error
    try:
        plain = msgspec.json.decode(data, type=dict[str, Any])
        unknown = sorted(set(plain) - set(SamplingSettings.__struct_fields__))
        if unknown or not plain:
            raise DataError(
                f"{shown}: {'unknown keys ' + ', '.join(unknown) if unknown else 'no keys'}; a "
                f"sampling block has {', '.join(SamplingSettings.__struct_fields__)}."
            )
        return msgspec.convert(plain, SamplingSettings)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(
            f"{shown} is not a sampling block: {error}. Expected a JSON object such as {EXAMPLE}."
        ) from error
