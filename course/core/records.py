"""Every row and record that is read or written, declared once.

The published JSON Schemas (``course/core/schemas/``) are generated from these types, and a test
fails when they drift: ``python -m course.core.schemas`` writes them anew. Nothing here reads a
file, scores or decides.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]*)(?!\n)$"  # `$` alone would also allow a final newline
SHA256 = r"^[0-9a-f]{64}(?!\n)$"

Id = Annotated[str, Meta(min_length=1)]
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Share = Annotated[float, Meta(ge=0, le=1)]
DecimalString = Annotated[str, Meta(pattern=CANONICAL_INTEGER)]
Digest = Annotated[str, Meta(pattern=SHA256)]
Answer = Int64 | DecimalString
RunKind = Literal["eval", "selection", "sample", "pretrain", "train"]


# ---- rows that come in ---------------------------------------------------------------------


class Problem(Struct, frozen=True, gc=False):
    """As much of an example as a verifier needs."""

    id: Id
    prompt: str
    expected_answer: Answer
    """An integer, or a canonical decimal string (``-0`` is invalid) of any length."""


class Example(Problem, frozen=True, gc=False):
    """One problem of a dataset, whole."""

    metadata: dict[str, Any] | None = None


class Completion(Struct, frozen=True, gc=False):
    """The text a policy wrote for one example."""

    id: Id
    completion: str
    sample_index: Count | None = None
    """Which sample of this example it is; no index means 0."""
    sum_logprob: float | None = None
    """Natural log of the policy's own probability of the tokens (temperature 1, untruncated)."""
    sum_ref_logprob: float | None = None
    """The same under the reference policy."""
    num_tokens: Count | None = None
    finish_reason: str | None = None
    """``stop``, or ``length`` when the token limit cut the text."""


class Sample(Struct, frozen=True):
    """One completion inside a selection pack."""

    completion: str
    sum_logprob: float | None = None
    num_tokens: Count | None = None
    finish_reason: str | None = None


class SelectionPack(Struct, frozen=True):
    """Several completions of one example, to choose from."""

    id: Id
    samples: list[str | Sample]


class GoldenCase(Struct, frozen=True):
    """One completion with the score a scorer must give it. Self-contained: needs no dataset."""

    id: Id
    prompt: str
    expected_answer: Answer
    completion: str
    expected_reward: float
    expected_code: str
    note: str


# ---- rows that go out ----------------------------------------------------------------------


class EvalRow(Struct, gc=False):
    """One scored completion: a line of an eval run's ``results.jsonl``."""

    id: Id
    sample_index: Count
    prompt: str
    expected_answer: Answer
    completion: str | None
    """null when the example has no completion."""
    reward: float | None
    """null when unscored: a measurement that failed is never a zero."""
    outcome_code: str
    details: dict[str, Any] | None
    error: str | None
    """Why the row is unscored; null on a scored row."""
    sum_logprob: float | None = None
    sum_ref_logprob: float | None = None
    kl_est: float | None = None
    num_tokens: Count | None = None
    finish_reason: str | None = None


class Pick(Struct, frozen=True):
    """Which sample of a pack was taken, and what it earned."""

    index: Count
    reward: float | None
    outcome_code: str


class ScoredSample(Struct, frozen=True):
    """One sample of a selection run, scored."""

    completion: str
    reward: float | None
    outcome_code: str
    sum_logprob: float | None = None
    num_tokens: Count | None = None
    finish_reason: str | None = None


class SelectionRow(Struct, frozen=True):
    """One example of a selection run's ``results.jsonl``."""

    id: Id
    prompt: str
    expected_answer: Answer
    baseline: Pick
    selected: Pick
    samples: list[ScoredSample]


# ---- summary.json --------------------------------------------------------------------------


class Detectable(Struct, frozen=True):
    """The smallest true difference that a test of this size finds with the stated power."""

    value: float | None
    """In units of the pass rate; null where no difference can be found."""
    alpha: float
    power: float
    paired: bool


class RunFacts(Struct, frozen=True):
    """What was measured, and how much of it."""

    kind: RunKind
    name: str
    scorer: str
    """Name and version, as in ``final_answer v1``."""
    n_examples: Count
    n_completions: Count
    n_scored: Count
    n_missing: Count
    """Examples without a completion."""
    n_unscored: Count
    """Rows without a reward, the missing ones included."""
    n_truncated: Count
    """Completions that the token limit cut (they are scored as they are)."""
    first_missing: list[str] = []
    """The first ids without a completion, at most ten."""
    first_errors: list[str] = []
    """The first different reasons why the scorer failed, at most three."""


class EvalMetrics(Struct, frozen=True):
    """The numbers of an eval run; each rate is null when nothing was scored."""

    pass_rate: Share | None
    """Mean over examples of the share of its completions that earned the full reward."""
    pass_rate_low: Share | None
    pass_rate_high: Share | None
    """95 % interval: Wilson, or clustered by example when examples have several completions."""
    mean_reward: float | None
    n_pass: Count
    n_fail: Count
    mean_kl_est: float | None
    detectable_difference: Detectable


class EvalSummary(Struct, frozen=True):
    """``summary.json`` of an eval run."""

    schema_version: Literal[1]
    run: RunFacts
    metrics: EvalMetrics
    outcomes: dict[str, int]
    """Rows per outcome code, commonest first."""


class SampleFacts(Struct, frozen=True):
    """What was sampled, and how much of it."""

    kind: RunKind
    name: str
    policy: str
    n_examples: Count
    n_completions: Count
    n_missing: Count
    """Completions that the policy was asked for and did not give."""
    n_truncated: Count
    """Completions that the token limit cut."""


class SampleMetrics(Struct, frozen=True):
    """The numbers of a sample run; null where the policy does not tell."""

    mean_num_tokens: float | None
    mean_sum_logprob: float | None
    distinct_share: Share | None
    """Mean over examples of the share of its completions that differ from each other."""


class SampleSummary(Struct, frozen=True):
    """``summary.json`` of a sample run."""

    schema_version: Literal[1]
    run: SampleFacts
    metrics: SampleMetrics
    finish_reasons: dict[str, int]
    """Completions per finish reason, commonest first."""


# ---- manifest.json -------------------------------------------------------------------------


class InputFile(Struct, frozen=True):
    """A file a run read."""

    path: str
    bytes: Count
    sha256: Digest
    rows: Count | None = None


class OutputFile(Struct, frozen=True):
    """A file a run wrote."""

    bytes: Count
    sha256: Digest


class ScorerFacts(Struct, frozen=True):
    """Which scorer measured: the Locked Room compares name, version and sources."""

    name: str
    version: str
    plug: str
    sources_sha256: Digest
    full_reward: float = 1.0
    """A completion passes when it earns this, the top of the scorer's declared range."""


class SamplingSettings(Struct, frozen=True):
    """How completions were drawn. The Locked Room compares all of it but the seed."""

    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_new_tokens: Count | None = None
    n: Count | None = None
    greedy: bool | None = None
    seed: Int64 | None = None


class Command(Struct, frozen=True):
    """The command that made a run: as typed, and as parsed."""

    argv: list[str]
    args: dict[str, Any]


class GitState(Struct, frozen=True):
    """Which sources ran."""

    commit: str
    dirty: bool


class Manifest(Struct, frozen=True):
    """``manifest.json``: where a run came from, and the seal over all of it."""

    schema_version: Literal[1]
    kind: RunKind
    run_id: str
    created_utc: str
    duration_s: float
    command: Command
    inputs: dict[str, InputFile]
    prompts_sha256: Digest | None
    scorer: ScorerFacts | None
    policy: dict[str, Any] | None
    sampling: SamplingSettings | None
    environment: dict[str, Any]
    git: GitState | None
    outputs: dict[str, OutputFile]
    seal: Digest
