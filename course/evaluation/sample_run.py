"""Make a sample run: ask a policy for completions, and leave them in a sealed run folder.

Requests go to the policy in chunks of a fixed size, and each chunk's rows are committed before the
next is asked for. So a run that was stopped goes on where it was, asks for nothing twice and ends
with the bytes of an unbroken one.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.artifacts.manifest import Record, environment_facts
from course.artifacts.run_folder import RunFolder
from course.core.digests import canonical_json, pretty_json, prompt_lines
from course.core.errors import DataError
from course.core.jsonl import JsonlReader
from course.core.paths import display
from course.core.records import (
    Completion,
    InputFile,
    Manifest,
    OutputFile,
    Problem,
    Sample,
    SampleFacts,
    SampleMetrics,
    SampleSummary,
    SelectionPack,
)
from course.evaluation.origin import Origin
from course.evaluation.pairing import Examples
from course.policy.completer import Completer, How, Request

ROWS = 1024
"""The most completions asked for at once, unless one example wants more."""

COMPLETIONS, PACK = "completions.jsonl", "selection_pack.jsonl"


class Asked(NamedTuple):
    """What a dataset asks of a policy."""

    requests: list[Request]
    dataset: InputFile
    prompts_sha256: str
    notes: list[str]


def read_requests(dataset: Path, limit: int | None) -> Asked:
    """Read a dataset's prompts.

    Args:
        limit: take only the first so many; the hashes are over the whole file, as in ``eval``.
    Raises: DataError for an unreadable or empty dataset, a bad row, or an id that comes twice.
    """
    reader = JsonlReader(dataset, Problem)
    requests = [Request(example.id, example.prompt) for example in Examples(reader)]
    prompts = hashlib.sha256(prompt_lines(requests)).hexdigest()
    return Asked(requests[:limit], reader.facts(), prompts, reader.notes)


def write_sample_run(
    asked: Asked,
    folder: RunFolder,
    completer: Completer,
    how: How,
    *,
    pack: bool,
    origin: Origin | None = None,
    argv: Sequence[str],
    args: dict[str, Any],
    progress: Callable[[int], None],
) -> tuple[SampleSummary, Manifest]:
    """Sample into an open run folder and publish it.

    Args:
        origin: for a replay, what is known of how its completions came about.
        pack: write a selection pack, one row an example, instead of completions.
        progress: called with how many completions are there by now.
    """
    record = Record("sample", argv, args)
    name = PACK if pack else COMPLETIONS
    out, done = folder.append(name), folder.progress.get("requests", 0)
    encode = msgspec.json.Encoder().encode_lines
    requests = iter(asked.requests[done:])
    progress(done * how.n)
    size = max(1, min(completer.chunk, ROWS // how.n))
    while batch := list(islice(requests, size)):
        answers = completer.complete(batch, how)
        rows = [_rows(one, samples, pack) for one, samples in zip(batch, answers, strict=True)]
        out.write(encode([row for group in rows for row in group]))
        done += len(batch)
        folder.commit({"requests": done})
        progress(done * how.n)
    summary = _summary(folder.staged(name), asked, completer, how)
    sampling = completer.sampling(how)
    if origin and origin.sampling:
        sampling = msgspec.structs.replace(origin.sampling, n=how.n)
    folder.write("summary.json", pretty_json(summary))

    def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
        return record.manifest(
            outputs,
            inputs={"dataset": asked.dataset},
            prompts_sha256=(origin and origin.prompts_sha256) or asked.prompts_sha256,
            policy=completer.facts | ({"of": origin.policy} if origin and origin.policy else {}),
            sampling=sampling,
        )

    return summary, folder.publish(manifest_of)


def resume_settings(asked: Asked, completer: Completer, how: How, *, pack: bool) -> dict[str, Any]:
    """Name all that must be equal for an unfinished run to be continued."""
    which = {key: value for key, value in completer.facts.items() if key not in ("name", "path")}
    return {
        "policy": hashlib.sha256(canonical_json(which)).hexdigest()[:12],
        "dataset": asked.dataset.sha256[:12],
        "examples": len(asked.requests),
        "file": PACK if pack else COMPLETIONS,
        "threads": environment_facts()["threads"],  # other numbers of threads round otherwise
        **{
            name: getattr(how, name)
            for name in ("n", "temperature", "top_p", "max_new_tokens", "seed")
        },
    }


def _rows(
    request: Request, samples: Sequence[Sample | None], pack: bool
) -> Iterator[Completion | SelectionPack]:
    if pack:
        missing = [index for index, sample in enumerate(samples) if sample is None]
        if missing:
            raise DataError(
                f"{request.id}: the policy gave no completion for sample {missing[0]}, and a "
                "selection pack needs all of them. Leave --pack out, or ask for fewer."
            )
        yield SelectionPack(request.id, [sample for sample in samples if sample])
        return
    for index, sample in enumerate(samples):
        if sample:
            yield Completion(
                request.id,
                sample.completion,
                sample_index=index,
                sum_logprob=sample.sum_logprob,
                num_tokens=sample.num_tokens,
                finish_reason=sample.finish_reason,
            )


def _summary(path: Path, asked: Asked, completer: Completer, how: How) -> SampleSummary:
    """Count what was written, from the file itself."""
    reasons: Counter[str] = Counter()
    lengths, sums, distinct = _Mean(), _Mean(), _Mean()
    for _, group in groupby(_samples(path), key=lambda row: row[0]):  # samples of one example
        samples = [sample for _, sample in group]
        distinct.add(len({sample.completion for sample in samples}) / len(samples))
        for sample in samples:
            reasons[sample.finish_reason or "unknown"] += 1
            lengths.add(sample.num_tokens)
            sums.add(sample.sum_logprob)
    written = reasons.total()
    policy = str(completer.facts.get("name", completer.facts["kind"]))
    run = SampleFacts(
        kind="sample",
        name=f"{policy} on {Path(asked.dataset.path).stem}",
        policy=policy,
        n_examples=len(asked.requests),
        n_completions=written,
        n_missing=len(asked.requests) * how.n - written,
        n_truncated=reasons["length"],
    )
    metrics = SampleMetrics(
        mean_num_tokens=lengths.value(),
        mean_sum_logprob=sums.value(),
        distinct_share=distinct.value(),
    )
    ordered = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    return SampleSummary(1, run, metrics, ordered)


def _samples(path: Path) -> Iterator[tuple[str, Sample]]:
    if path.name == PACK:
        for pack in JsonlReader(path, SelectionPack):
            for sample in pack.samples:
                yield pack.id, sample if isinstance(sample, Sample) else Sample(sample)
        return
    if not path.stat().st_size:
        raise DataError(f"The policy gave no completion at all: {display(path)} would be empty.")
    for row in JsonlReader(path, Completion):
        yield (
            row.id,
            Sample(row.completion, row.sum_logprob, row.num_tokens, row.finish_reason),
        )


class _Mean:
    """A running mean of the numbers that are known."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, number: float | None) -> None:
        if number is not None:
            self._sum += number
            self._count += 1

    def value(self) -> float | None:
        return self._sum / self._count if self._count else None
