"""Loop A: dataset + completions -> scores. Nothing changes.

    example + its completions  ->  score(example, completion)  ->  one row each, and a tally

Rows stream through: the files may be larger than memory. A failed measurement is a row without a
reward, never a zero.
"""

import gc
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course.artifacts.run_folder import OutputStream
from course.core.errors import DataError
from course.core.jsonl import JsonlReader
from course.core.paths import display
from course.core.records import (
    Completion,
    EvalMetrics,
    EvalRow,
    EvalSummary,
    Example,
    InputFile,
    RunFacts,
    SamplingSettings,
)
from course.evaluation.intervals import (
    ClusterSums,
    detectable_unpaired,
    effective_draws,
    pass_rate_interval,
)
from course.evaluation.pairing import Examples, OutOfOrderError, Pair, by_index, in_order
from course.scoring.contract import MISSING_COMPLETION, Score, Scorer, checked

FLUSH = 128  # rows encoded and written at a time
NO_COMPLETION = "the completions file has no row for this example"
FIRST_MISSING = 10


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
    dataset = JsonlReader(request.dataset, Example)
    completions = JsonlReader(request.completions, Completion)
    tally = _Tally(request.scorer.high)
    prompts = hashlib.sha256()
    encode_lines = msgspec.json.Encoder().encode_lines
    score = checked(request.scorer, ask_twice=request.ask_twice)
    kl_of = _kl_est if _on_policy(request.sampling) else _no_kl
    rows: list[EvalRow] = []
    asked: list[tuple[str, str]] = []
    limit = sys.maxsize if request.limit is None else request.limit
    scored = 0  # examples, of those in `asked`

    for number, (example, group) in enumerate(pairing(Examples(dataset), completions)):
        asked.append((example.id, example.prompt))
        if number < limit:
            scored += 1
            if not group:
                rows.append(_missing(example))
            for completion in group:
                rows.append(_scored(example, completion, score, kl_of))
        if len(rows) >= FLUSH or len(asked) >= FLUSH:
            tally.add(rows, scored)
            out.write(encode_lines(rows))
            prompts.update(encode_lines(asked))
            progress(dataset.bytes_read + completions.bytes_read)
            rows, asked, scored = [], [], 0
    tally.add(rows, scored)
    out.write(encode_lines(rows))
    prompts.update(encode_lines(asked))
    return Evaluation(
        tally.summary(_name(request), request.scorer),
        dataset.facts(),
        completions.facts(),
        prompts.hexdigest(),
        dataset.notes + completions.notes,
    )


def _name(request: Request) -> str:
    completions, dataset = (Path(display(p)).stem for p in (request.completions, request.dataset))
    return f"{completions} on {dataset}"


def _scored(
    example: Example,
    completion: Completion,
    score: Callable[[dict[str, Any], str], Score],
    kl_of: Callable[[Completion], float | None],
) -> EvalRow:
    result = score(
        {
            "id": example.id,
            "prompt": example.prompt,
            "expected_answer": example.expected_answer,
            "metadata": example.metadata or {},
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
        kl_of(completion),
        completion.num_tokens,
        completion.finish_reason,
    )


def _missing(example: Example) -> EvalRow:
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
    """Only at temperature 1 and top-p 1 does a difference of log-probs estimate a KL."""
    return sampling is not None and sampling.temperature == 1.0 and sampling.top_p == 1.0


class _Tally:
    """Counts and sums over the rows as they pass."""

    def __init__(self, full_reward: float) -> None:
        self.full = full_reward
        self.codes: Counter[str] = Counter()
        self.n_examples = self.n_completions = self.n_truncated = 0
        self.n_missing = self.n_unscored = self.n_pass = self.n_scored = 0
        self.reward_sum = self.kl_sum = 0.0
        self.n_kl = 0
        self.clusters = 0
        self.rate_sum = self.square_sum = self.mean_sum = 0.0
        self.first_missing: list[str] = []

    def add(self, rows: list[EvalRow], examples: int) -> None:
        """Count the rows of so many whole examples."""
        self.n_examples += examples
        self.codes.update([row.outcome_code for row in rows])
        self.n_truncated += [row.finish_reason for row in rows].count("length")
        estimates = [row.kl_est for row in rows if row.kl_est is not None]
        self.kl_sum += sum(estimates)
        self.n_kl += len(estimates)
        rewards = [row.reward for row in rows]
        if len(rows) == examples and None not in rewards:  # one scored completion for each
            passed = sum(reward >= self.full for reward in rewards)  # type: ignore[operator]
            self.n_completions += examples
            self._count(examples, examples, passed, float(passed), float(passed), sum(rewards))  # type: ignore[arg-type]
            return
        for _, group in groupby(rows, key=attrgetter("id")):
            self._example(list(group))

    def _example(self, rows: list[EvalRow]) -> None:
        if rows[0].completion is None:
            self.n_missing += 1
            self.n_unscored += 1
            if len(self.first_missing) < FIRST_MISSING:
                self.first_missing.append(rows[0].id)
            return
        scored = [row.reward for row in rows if row.reward is not None]
        self.n_completions += len(rows)
        self.n_unscored += len(rows) - len(scored)
        if scored:
            passed = sum(reward >= self.full for reward in scored)
            rate = passed / len(scored)
            self._count(1, len(scored), passed, rate, rate * rate, sum(scored) / len(scored))

    def _count(
        self, examples: int, scored: int, passed: int, rates: float, squares: float, means: float
    ) -> None:
        self.clusters += examples
        self.n_scored += scored
        self.n_pass += passed
        self.rate_sum += rates
        self.square_sum += squares
        self.mean_sum += means

    def summary(self, name: str, scorer: Scorer) -> EvalSummary:
        sums = ClusterSums(self.clusters, self.n_scored, self.rate_sum, self.square_sum)
        interval = pass_rate_interval(sums)
        draws = effective_draws(sums) if interval else 0.0
        return EvalSummary(
            schema_version=1,
            run=RunFacts(
                kind="eval",
                name=name,
                scorer=f"{scorer.name} v{scorer.version}",
                n_examples=self.n_examples,
                n_completions=self.n_completions,
                n_scored=self.n_scored,
                n_missing=self.n_missing,
                n_unscored=self.n_unscored,
                n_truncated=self.n_truncated,
                first_missing=self.first_missing,
            ),
            metrics=EvalMetrics(
                pass_rate=interval.rate if interval else None,
                pass_rate_low=interval.low if interval else None,
                pass_rate_high=interval.high if interval else None,
                mean_reward=self.mean_sum / self.clusters if self.clusters else None,
                n_pass=self.n_pass,
                n_fail=self.n_scored - self.n_pass,
                mean_kl_est=self.kl_sum / self.n_kl if self.n_kl else None,
                detectable_difference=detectable_unpaired(
                    interval.rate if interval else None, draws
                ),
            ),
            outcomes=dict(sorted(self.codes.items(), key=lambda item: (-item[1], item[0]))),
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
            f"{shown} is not a sampling block: {error}. Expected a JSON object such as "
            '{"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 12, "n": 1, "greedy": false}.'
        ) from error
