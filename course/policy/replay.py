"""Frozen completions as a policy: what a file holds is served as if it were written now.

It turns a completions file into a sample run or a selection pack, and lets a course run without a
model. A replay has no sampling settings: those that are asked for did not make the file.

    python -m course.sample --policy replay:data/rollouts/frozen_rollouts_dev.jsonl ...
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from course.core.bad_rows import BLANK
from course.core.errors import DataError, UsageError
from course.core.jsonl import BOM, JsonlReader, open_file
from course.core.paths import display
from course.core.records import Completion, Sample, SelectionPack
from course.policy.completer import How, Request

Samples = dict[str, dict[int, Sample]]
"""By example id, then by sample index."""


class ReplayPolicy:
    """A ``Completer``: the completions of a file, or the samples of a selection pack."""

    chunk = 1024

    def __init__(self, path: Path) -> None:
        """Read the file; raise DataError, with its line, for a bad row."""
        self.path = path
        reader: JsonlReader[SelectionPack] | JsonlReader[Completion]
        if _is_pack(path):
            reader = JsonlReader(path, SelectionPack)
            self._samples = _from_packs(reader)
        else:
            reader = JsonlReader(path, Completion)
            self._samples = _from_completions(reader)
        self.notes = reader.notes
        read = reader.facts()
        self.facts: dict[str, Any] = {"kind": "replay", "path": read.path, "sha256": read.sha256}

    def sampling(self, how: How) -> None:
        """Say how the completions were drawn: nobody here knows."""

    def check(self, requests: Sequence[Request], how: How) -> None:
        """Refuse a file for other examples, and more samples than it has for any example."""
        shown = display(self.path)
        counts = [max(self._samples.get(request.id, {}), default=-1) + 1 for request in requests]
        most = max(counts, default=how.n)
        if most == 0:
            raise DataError(
                f"{shown} has a completion for none of the {len(requests)} examples, "
                f"{requests[0].id} for one: it is for another dataset."
            )
        if most < how.n:
            raise UsageError(
                f"{shown} has fewer than {how.n} samples per example: {counts[0]} for "
                f"{requests[0].id}, at most {most}. Ask for --n {most}."
            )

    def complete(self, requests: Sequence[Request], how: How) -> list[list[Sample | None]]:
        """Answer each request with samples 0 .. n-1; None for one that the file lacks."""
        found = (self._samples.get(request.id, {}) for request in requests)
        return [[samples.get(index) for index in range(how.n)] for samples in found]


def _is_pack(path: Path) -> bool:
    """Tell a selection pack by the keys of its first row; a bad row is the reader's to explain."""
    with open_file(path) as file:
        first = next((line for line in file if line.strip(BLANK)), b"")
    try:
        keys = msgspec.json.decode(first.removeprefix(BOM), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return "samples" in keys


def _from_packs(reader: JsonlReader[SelectionPack]) -> Samples:
    packs: Samples = {}
    for pack in reader:
        if pack.id in packs:
            _refuse_twice(reader.path, f"the id {pack.id!r}")
        packs[pack.id] = {
            index: Sample(sample) if isinstance(sample, str) else sample
            for index, sample in enumerate(pack.samples)
        }
    return packs


def _from_completions(reader: JsonlReader[Completion]) -> Samples:
    groups: Samples = {}
    for row in reader:
        group, index = groups.setdefault(row.id, {}), row.sample_index or 0
        if index in group:
            _refuse_twice(reader.path, f"sample {index} of {row.id!r}")
        group[index] = Sample(row.completion, row.sum_logprob, row.num_tokens, row.finish_reason)
    return groups


def _refuse_twice(path: Path, what: str) -> None:
    shown = display(path)
    raise DataError(
        f"{shown}: {what} stands more than once. `python -m course.validate {shown}` names the "
        "lines."
    )
