"""Loop A: dataset + completions -> scores. Nothing changes.

    example + its completions  ->  score(example, completion)  ->  one row each, and a tally

Rows stream through: the files may be larger than memory. A failed measurement is a row without a
reward, never a zero.
"""

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.artifacts.output import OutputStream
from course.core.digests import prompt_lines
from course.core.jsonl import JsonlReader
from course.core.paths import display
from course.core.records import (
    Completion,
    EvalRow,
    EvalSummary,
    Example,
    InputFile,
    Problem,
    SamplingSettings,
)
from course.evaluation.pairing import Examples, OutOfOrderError, Pair, by_index, in_order
from course.evaluation.tally import Tally
from course.scoring.contract import MISSING_COMPLETION, Score, Scorer, checked

BATCH = 128  # examples scored, encoded and written at a time
NO_COMPLETION = "the completions file has no row for this example"


class Request(NamedTuple):
    """What to evaluate."""

    dataset: Path
    completions: Path
    scorer: Scorer
    sampling: SamplingSettings | None = None
    limit: int | None = None
    """Score only the first so many examples."""
    ask_twice: bool = False
    """Call the scorer twice on each completion, to catch one that is nondeterministic."""


class Evaluation(NamedTuple):
    """What an evaluation found, besides the rows it wrote."""

    summary: EvalSummary
    dataset: InputFile
    completions: InputFile
    prompts_sha256: str
    notes: list[str]
    """What the reader noticed about the files, to be mentioned."""


def evaluate(
    request: Request, out: OutputStream, progress: Callable[[int], None] = lambda done: None
) -> Evaluation:
    """Score every completion and write one EvalRow each, in the dataset's order.

    Args:
        out: where the rows go, as JSONL.
        progress: called with the bytes read so far.

    Raises: DataError for bad input.
    """
    with _rare_collections():
        try:
            return _run(request, out, progress, in_order)
        except OutOfOrderError:
            out.restart()
            return _run(request, out, progress, by_index)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage cycles less often: our rows make none, and a scorer's can wait a little."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def total_bytes(request: Request) -> int:
    """How much there is to read, for a progress bar."""
    paths = (request.dataset, request.completions)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _run(
    request: Request,
    out: OutputStream,
    progress: Callable[[int], None],
    pairing: Callable[[Examples, JsonlReader[Completion]], Iterator[Pair]],
) -> Evaluation:
    ours = request.scorer.plugin.builtin  # our own scorers do not read metadata
    dataset = JsonlReader[Problem](request.dataset, Problem if ours else Example)
    completions = JsonlReader(request.completions, Completion)
    tally = Tally(request.scorer.high)
    prompts = hashlib.sha256()
    encode_lines = msgspec.json.Encoder().encode_lines
    score = checked(request.scorer, ask_twice=request.ask_twice)
    with_kl = _on_policy(request.sampling)
    left = sys.maxsize if request.limit is None else request.limit
    pairs = pairing(Examples(dataset), completions)
    while batch := list(islice(pairs, BATCH)):
        wanted = batch[:left]
        left -= len(wanted)
        rows = [
            _scored(example, completion, score, with_kl) if completion else _missing(example)
            for example, group in wanted
            for completion in group or (None,)
        ]
        tally.add(rows, len(wanted))
        out.write(encode_lines(rows))
        prompts.update(prompt_lines((example.id, example.prompt) for example, _ in batch))
        progress(dataset.bytes_read + completions.bytes_read)
    return Evaluation(
        tally.summary(_name(request), f"{request.scorer.name} v{request.scorer.version}"),
        dataset.facts(),
        completions.facts(),
        prompts.hexdigest(),
        dataset.notes + completions.notes,
    )


def _name(request: Request) -> str:
    completions, dataset = (Path(display(p)).stem for p in (request.completions, request.dataset))
    return f"{completions} on {dataset}"


def _scored(
    example: Problem,
    completion: Completion,
    score: Callable[[dict[str, Any], str], Score],
    with_kl: bool,
) -> EvalRow:
    result = score(
        {
            "id": example.id,
            "prompt": example.prompt,
            "expected_answer": example.expected_answer,
            "metadata": example.metadata or {} if isinstance(example, Example) else {},
        },
        completion.completion,
    )
    return EvalRow(  # by position: this runs once a row
        example.id,
        completion.sample_index or 0,
        example.prompt,
        example.expected_answer,
        completion.completion,
        result.reward,
        result.code,
        result.details,
        result.error,
        completion.sum_logprob,
        completion.sum_ref_logprob,
        _kl_est(completion) if with_kl else None,
        completion.num_tokens,
        completion.finish_reason,
    )


def _missing(example: Problem) -> EvalRow:
    return EvalRow(
        id=example.id,
        sample_index=0,
        prompt=example.prompt,
        expected_answer=example.expected_answer,
        completion=None,
        reward=None,
        outcome_code=MISSING_COMPLETION,
        details=None,
        error=NO_COMPLETION,
    )


def _kl_est(completion: Completion) -> float | None:
    own, reference = completion.sum_logprob, completion.sum_ref_logprob
    return None if own is None or reference is None else own - reference


def _no_kl(completion: Completion) -> None:
    return None


def _on_policy(sampling: SamplingSettings | None) -> bool:
    """Only samples at temperature 1 and top-p 1 make a difference of log-probs estimate a KL."""
    return (
        sampling is not None
        and sampling.temperature == 1.0
        and sampling.top_p == 1.0
        and not sampling.greedy
    )
