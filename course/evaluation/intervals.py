"""Closed-form intervals and detectable differences of one run. Needs no library.

Everything is for alpha .05 and power .8; p-values and paired numbers are in ``paired.py``.
"""

import math
from typing import NamedTuple

from course.core.records import Detectable

ALPHA = 0.05
POWER = 0.8
Z_ALPHA = 1.959963984540054  # the normal quantile at 1 - ALPHA / 2
Z_POWER = 0.8416212335729143  # the normal quantile at POWER


class Interval(NamedTuple):
    """A rate and its 95 % interval, all in 0..1."""

    rate: float
    low: float
    high: float


class ClusterSums(NamedTuple):
    """What an interval over examples with several completions needs to know of the data."""

    examples: int
    """How many examples have at least one scored completion."""
    completions: int
    """How many scored completions there are."""
    rates: float
    """Sum over examples of the share of completions that pass."""
    squares: float
    """Sum over examples of that share squared."""


def wilson(rate: float, n: float) -> Interval:
    """Return Wilson's score interval for a rate seen on ``n`` independent draws.

    It stays inside [0, 1] and is not empty at 0 or 1.

    Args:
        rate: in 0..1.
        n: draws, > 0; an effective number need not be whole.

    Source: Wilson 1927; Brown, Cai and DasGupta 2001.
    """
    z2 = Z_ALPHA * Z_ALPHA
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_ALPHA / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    high = 1.0 if rate == 1 else min(1.0, centre + half)
    return Interval(rate, low, high)


def effective_draws(sums: ClusterSums) -> float:
    """Say how many independent draws the completions are worth, given that they come in examples.

    With one completion per example that is their number. Otherwise it is p(1 - p) over the squared
    standard error clustered by example, never more than the completions; at p = 0 or 1, where the
    data cannot tell, it is the number of examples. A standard error estimated from m examples needs
    Student's t in place of z, so the draws are scaled by (z / t)^2: 0.02 for two examples, 0.75 for
    ten, 0.99 for two hundred.

    Source: Miller 2024 (arXiv:2411.00640), clustered standard errors; Student 1908.
    """
    m, rate = sums.examples, sums.rates / sums.examples
    if sums.completions == m or rate in (0.0, 1.0) or m < 2:
        return float(m)
    variance = max(sums.squares - m * rate * rate, 0.0) / (m - 1)
    draws = float(sums.completions)  # also where the examples do not differ at all
    if variance > 0.0:
        draws = min(draws, rate * (1 - rate) * m / variance)
    return draws * (Z_ALPHA / t_quantile(m - 1)) ** 2


def t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t at 1 - ALPHA / 2: Z_ALPHA's place in a small sample.

    It is exact for 1 and 2 degrees of freedom. From 3 on it is an expansion around the normal
    quantile, 0.12 % too small at 3 and closer with every further degree.

    Args:
        freedom: degrees of freedom, >= 1.

    Source: Abramowitz and Stegun 1964, 26.7.5 (Cornish and Fisher).
    """
    if freedom == 1:
        return math.tan(math.pi / 2 * (1 - ALPHA))
    if freedom == 2:
        return math.sqrt(2 / (ALPHA * (2 - ALPHA)) - 2)
    z, n = Z_ALPHA, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / n + second / n**2 + third / n**3 + fourth / n**4


def pass_rate_interval(sums: ClusterSums) -> Interval | None:
    """Return the mean pass rate over examples with its interval; None over nothing.

    It is Wilson's for one completion per example, and for several on the effective draws.
    """
    if sums.examples == 0:
        return None
    rate = min(1.0, sums.rates / sums.examples)
    return wilson(rate, effective_draws(sums))


def detectable_unpaired(rate: float | None, n: float) -> Detectable:
    """Find the smallest improvement that two independent runs of ``n`` draws can show.

    It is the smallest d for which the two-sided test of ``rate`` against ``rate + d`` at ALPHA has
    POWER; None when even a rate of 1 would not be enough.

    Source: Fleiss, Levin and Paik 2003, chapter 4 (without continuity correction).
    """
    if rate is None or n <= 0 or _draws_needed(rate, 1.0 - rate) > n:
        return Detectable(value=None, alpha=ALPHA, power=POWER, paired=False)
    low, high = 0.0, 1.0 - rate
    for _ in range(60):
        middle = (low + high) / 2
        if _draws_needed(rate, middle) > n:
            low = middle
        else:
            high = middle
    return Detectable(value=high, alpha=ALPHA, power=POWER, paired=False)


def detectable_paired(square: float, size: float, n: int) -> Detectable:
    """Find the smallest mean difference that ``n`` pairs can show.

    It is None when it would be more than ``size``: pairs that differ so little cannot have it.

    Args:
        square: the observed mean squared difference of a pair, taken as given.
        size: the observed mean absolute difference of a pair. With one completion per example both
            are the share of discordant pairs.
        n: pairs.

    Source: Miettinen 1968, in its large-sample form: (z_alpha + z_power) * sqrt(square / n).
    """
    value = (Z_ALPHA + Z_POWER) * math.sqrt(square / n) if n else 0.0
    possible = 0.0 < value <= size
    return Detectable(value=value if possible else None, alpha=ALPHA, power=POWER, paired=True)


def _draws_needed(rate: float, difference: float) -> float:
    if difference <= 0.0:
        return math.inf
    other = min(1.0, rate + difference)
    mean = (rate + other) / 2
    null = Z_ALPHA * math.sqrt(2 * mean * (1 - mean))
    alternative = Z_POWER * math.sqrt(rate * (1 - rate) + other * (1 - other))
    return ((null + alternative) / difference) ** 2
