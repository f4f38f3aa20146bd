"""Paired numbers of two runs over the same examples: flips, difference, interval, p.

Only this module needs scipy, and it loads it where it is used.
"""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from course.core.jsonl import JsonlReader
from course.core.records import Answer, Detectable
from course.evaluation.intervals import detectable_paired

RESAMPLES = 9999
MANY = 20_000
"""Beyond so many differences the sum over random signs is normal to every digit that is shown."""
SEED = 20240229
ENUMERATED = "exact sign-flip permutation"
RESAMPLED = f"paired permutation, {RESAMPLES} resamples"
FLOOR = 2 / (RESAMPLES + 1)
"""The least p that a resampled test can say, two-sided."""


class ResultLine(msgspec.Struct, frozen=True):
    """As much of a result row as a comparison needs."""

    id: str
    reward: float | None
    expected_answer: Answer


class ExampleRate(NamedTuple):
    """One example of a run: the share of its scored completions that passed."""

    id: str
    expected: str
    rate: float | None
    """None when none of its completions was scored."""
    completions: int


class Paired(NamedTuple):
    """Two runs, example by example. Differences are candidate minus baseline."""

    pairs: int
    left_out: int
    """Examples that are unscored in either run."""
    gained: int
    """Pairs in which the candidate passes more often."""
    lost: int
    difference: float
    low: float
    high: float
    level: float
    """The level of the difference's interval, 1 - alpha."""
    p_value: float
    test: str
    detectable: Detectable
    same_answers: bool
    """Whether every pair has the same expected answer."""
    uneven: int
    """Pairs for which the two runs have different numbers of completions."""


class _Differences(NamedTuple):
    values: "array[float]"
    """The differences that are not zero."""
    pairs: int
    left_out: int
    single: bool
    """Whether every example has one completion in each run."""
    same_answers: bool
    uneven: int


def compare_rows(
    baseline: Path, candidate: Path, *, full_rewards: tuple[float, float], alpha: float
) -> Paired | None:
    """Pair the rows of two eval runs by example.

    Args:
        baseline, candidate: two ``results.jsonl``, both in their dataset's order.
        full_rewards: the reward that counts as a pass, in each run.
        alpha: the interval is at 1 - alpha.

    Returns: None when the runs are about different examples or share no scored one.
    """
    found = _differences(
        example_rates(baseline, full_rewards[0]), example_rates(candidate, full_rewards[1])
    )
    if found is None or found.pairs == 0:
        return None
    values, pairs = found.values, found.pairs
    gained = sum(value > 0 for value in values)
    lost = len(values) - gained
    total, squares = math.fsum(values), math.fsum(value * value for value in values)
    size = math.fsum(abs(value) for value in values) / pairs
    low, high = _interval(total, squares, pairs, alpha)
    p_value, test = mcnemar(gained, lost) if found.single else permutation(values)
    return Paired(
        pairs=pairs,
        left_out=found.left_out,
        gained=gained,
        lost=lost,
        difference=total / pairs,
        low=low,
        high=high,
        level=1 - alpha,
        p_value=p_value,
        test=test,
        detectable=detectable_paired(squares / pairs, size, pairs),
        same_answers=found.same_answers,
        uneven=found.uneven,
    )


def example_rates(results: Path, full_reward: float) -> Iterator[ExampleRate]:
    """Read an eval run's results, one ExampleRate per example."""
    current: ResultLine | None = None
    passed = scored = count = 0
    for row in JsonlReader(results, ResultLine):
        if current is None or row.id != current.id:
            if current is not None:
                yield _rate_of(current, passed, scored, count)
            current, passed, scored, count = row, 0, 0, 0
        count += 1
        if row.reward is not None:
            scored += 1
            passed += row.reward >= full_reward
    if current is not None:
        yield _rate_of(current, passed, scored, count)


def mcnemar(gained: int, lost: int) -> tuple[float, str]:
    """Return the two-sided p of the exact McNemar test, and the test's name.

    Under the null each of the flips is as likely to be gained as lost: a binomial test at 1/2.
    """
    from scipy.stats import binomtest

    flips = gained + lost
    p = binomtest(gained, flips, 0.5).pvalue if flips else 1.0
    return float(p), "exact McNemar"


def permutation(values: "array[float]") -> tuple[float, str]:
    """Return the two-sided p of a paired permutation test on the mean, and its name.

    Up to RESAMPLES sign flips are gone through one by one; of more, a seeded sample is drawn.

    Args:
        values: differences per example that are not zero (zeros do not change the test).
    """
    if len(values) > MANY:
        from scipy.stats import norm

        size = math.sqrt(math.fsum(value * value for value in values))
        p = 2 * norm.sf(abs(math.fsum(values)) / size)
        return float(p), "paired permutation, normal approximation"
    if len(values) < 2:  # a single difference is as far from 0 with either sign
        return 1.0, ENUMERATED
    import numpy as np
    from scipy.stats import permutation_test

    data = np.frombuffer(values, dtype=np.float64)
    result = permutation_test(
        (data,),
        lambda x, axis: np.sum(x, axis=axis),
        vectorized=True,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        batch=max(1, 4_000_000 // len(data)),
        rng=np.random.default_rng(SEED),
    )
    return float(result.pvalue), ENUMERATED if 2 ** len(data) <= RESAMPLES else RESAMPLED


def _differences(
    baseline: Iterator[ExampleRate], candidate: Iterator[ExampleRate]
) -> _Differences | None:
    values = array("d")
    pairs = left_out = uneven = 0
    single = same_answers = True
    while True:
        one, other = next(baseline, None), next(candidate, None)
        if one is None and other is None:
            return _Differences(values, pairs, left_out, single, same_answers, uneven)
        if one is None or other is None or one.id != other.id:
            return None
        same_answers = same_answers and one.expected == other.expected
        if one.rate is None or other.rate is None:
            left_out += 1
            continue
        pairs += 1
        uneven += one.completions != other.completions
        single = single and one.completions == 1 and other.completions == 1
        if one.rate != other.rate:
            values.append(other.rate - one.rate)


def _interval(total: float, squares: float, pairs: int, alpha: float) -> tuple[float, float]:
    """Agresti and Min's interval: a Wald interval after one more gained and lost half each.

    It is not empty when no pair flips. With several completions per example the same formula holds
    for their mean differences. Source: Agresti and Min 2005, Statistics in Medicine 24.
    """
    from scipy.stats import norm

    n = pairs + 2
    mean = total / n
    z = float(norm.ppf(1 - alpha / 2))
    half = z * math.sqrt(max(squares + 1 - total * total / n, 0.0)) / n
    return max(-1.0, mean - half), min(1.0, mean + half)


def _rate_of(row: ResultLine, passed: int, scored: int, count: int) -> ExampleRate:
    rate = passed / scored if scored else None
    return ExampleRate(row.id, str(row.expected_answer), rate, count)
