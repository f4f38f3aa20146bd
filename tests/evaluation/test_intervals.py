"""Claims about the intervals and detectable differences of one run."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm, t

from course.evaluation import intervals
from course.evaluation.intervals import (
    ClusterSums,
    detectable_paired,
    detectable_unpaired,
    effective_draws,
    pass_rate_interval,
    t_quantile,
    wilson,
)

counts = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def sums(rates: list[float], samples: int) -> ClusterSums:
    """What the tally of so many equal-sized examples adds up to."""
    return ClusterSums(len(rates), len(rates) * samples, sum(rates), sum(r * r for r in rates))


def test_wilson_by_hand():
    """8 of 10: centre (0.8 + z²/20) / (1 + z²/10) = 0.7168, half 0.2266."""
    interval = wilson(0.8, 10)
    assert interval.low == pytest.approx(0.4902, abs=1e-4)
    assert interval.high == pytest.approx(0.9433, abs=1e-4)


@given(counts)
def test_wilson_is_scipys(counts):
    """The closed form saves loading scipy; it must not differ from it."""
    k, n = counts
    theirs = binomtest(k, n).proportion_ci(0.95, method="wilson")
    ours = wilson(k / n, n)
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)


@given(counts)
def test_wilson_stays_inside_and_holds_the_rate(counts):
    """An interval below 0 or above 1, or empty at 0 or 1, claims what cannot be."""
    k, n = counts
    rate, low, high = wilson(k / n, n)
    assert 0.0 <= low <= rate <= high <= 1.0 and low < high
    assert (low == 0.0) == (k == 0) and (high == 1.0) == (k == n)


def test_no_failures_in_a_hundred_is_no_certainty():
    """100 of 100 passes leaves a true rate of 0.963 possible: n / (n + z²)."""
    assert wilson(1.0, 100) == (1.0, pytest.approx(100 / (100 + norm.ppf(0.975) ** 2)), 1.0)
    assert wilson(0.0, 100).high == pytest.approx(0.0370, abs=1e-4)


def test_a_rate_over_nothing_has_no_interval():
    """Nothing measured is null, not 0."""
    assert pass_rate_interval(ClusterSums(0, 0, 0.0, 0.0)) is None


@given(counts)
def test_one_sample_per_example_is_wilson(counts):
    """The clustered interval is a generalisation: with one sample nothing changes."""
    k, n = counts
    assert pass_rate_interval(ClusterSums(n, n, float(k), float(k))) == wilson(k / n, n)


def test_samples_that_agree_are_worth_one_draw():
    """100 examples, 4 samples each, all four alike: 400 completions say as much as 100."""
    alike = sums([1.0] * 50 + [0.0] * 50, samples=4)
    draws = 99 * (1.960 / 1.984) ** 2  # p(1 - p) m / s² with m - 1 in s², by (z / t)²
    assert effective_draws(alike) == pytest.approx(draws, rel=1e-3)
    one, four = wilson(0.5, 100), pass_rate_interval(alike)
    assert four is not None and four.low == pytest.approx(one.low, abs=2e-3)
    independent = wilson(0.5, 400)
    assert four.high - four.low > 1.9 * (independent.high - independent.low)


@pytest.mark.parametrize(("examples", "draws"), [(2, 0.19), (3, 2.49), (10, 30.0), (100, 390.3)])
def test_examples_that_do_not_differ_are_worth_less_the_fewer_they_are(examples, draws):
    """Each passes 2 of 4, so the variance seen is 0; from two examples that says next to nothing.

    8 * (1.960 / 12.706)², 12 * (1.960 / 4.303)², 40 * (1.960 / 2.262)², 400 * (1.960 / 1.984)².
    """
    alike = sums([0.5] * examples, samples=4)
    assert effective_draws(alike) == pytest.approx(draws, rel=0.01)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60))
def test_completions_are_never_worth_more_than_their_number(passes):
    """However little the examples differ."""
    assert effective_draws(sums([k / 4 for k in passes], samples=4)) <= 4 * len(passes)


@pytest.mark.parametrize("freedom", [*range(1, 31), 49, 99, 199, 10_000])
def test_the_t_quantile_is_scipys(freedom):
    """Exact for 1 and 2 degrees of freedom; the expansion is within 0.13 % from 3 on."""
    theirs = t.ppf(0.975, freedom)
    assert t_quantile(freedom) == pytest.approx(theirs, rel=1e-12 if freedom < 3 else 1.3e-3)
    if freedom >= 10:
        assert t_quantile(freedom) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_at_zero_and_one_a_clustered_interval_counts_examples(rate):
    """All samples alike: the data cannot tell samples from copies, so the wider interval."""
    assert pass_rate_interval(sums([rate] * 20, samples=8)) == wilson(rate, 20)


def test_one_example_with_many_samples_is_one_draw():
    """One cluster says nothing about the variance between clusters."""
    assert effective_draws(ClusterSums(1, 8, 0.5, 0.25)) == 1.0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_a_clustered_interval_stays_inside_and_is_never_empty(passes):
    """For any passes of 4 samples each."""
    interval = pass_rate_interval(sums([k / 4 for k in passes], samples=4))
    assert interval is not None and interval.low < interval.high
    assert 0.0 <= interval.low <= interval.rate <= interval.high <= 1.0


@pytest.mark.parametrize(("a", "b"), [(2.0, 2.0), (0.5, 0.5), (4.0, 1.0)])
def test_a_clustered_interval_covers_the_truth_in_95_of_100(a, b):
    """4,000 simulated evals of 100 examples whose difficulty is Beta(a, b), 4 samples each."""
    draws = np.random.default_rng(5)
    difficulty = draws.beta(a, b, size=(4000, 100))
    rates = draws.binomial(4, difficulty) / 4  # (4000, 100)
    found = [pass_rate_interval(sums(row.tolist(), samples=4)) for row in rates]
    share = np.mean([i.low <= a / (a + b) <= i.high for i in found if i])
    assert 0.93 <= share <= 0.97


@pytest.mark.parametrize("examples", [2, 3, 5, 10, 50, 200])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 2.0), (0.5, 0.5), (4.0, 1.0)])
def test_a_clustered_interval_covers_the_truth_with_few_examples_too(examples, a, b):
    """2,000 simulated evals with 16 samples each. With z in place of t, three uniform ones: 0.83.

    No upper bound: from two examples only a far too wide interval is an honest one.
    """
    draws = np.random.default_rng(5)
    rates = draws.binomial(16, draws.beta(a, b, size=(2000, examples))) / 16  # (2000, examples)
    found = [pass_rate_interval(sums(row.tolist(), samples=16)) for row in rates]
    assert np.mean([i.low <= a / (a + b) <= i.high for i in found if i]) >= 0.93


def test_an_unclustered_interval_would_not_cover():
    """Why it is clustered: taking 400 completions for 400 draws covers far less than promised."""
    draws = np.random.default_rng(5)
    rates = draws.binomial(4, draws.beta(0.5, 0.5, size=(2000, 100))).mean(axis=1) / 4
    naive = [wilson(rate, 400) for rate in rates.tolist()]
    assert np.mean([i.low <= 0.5 <= i.high for i in naive]) < 0.80


def test_the_quantiles_are_those_of_the_normal():
    """The two constants stand for alpha .05 two-sided and power .8."""
    assert norm.ppf(0.975) == pytest.approx(intervals.Z_ALPHA, abs=1e-14)
    assert norm.ppf(0.8) == pytest.approx(intervals.Z_POWER, abs=1e-14)


def power_of_two_runs(rate: float, other: float, n: int) -> float:
    """The exact power of the pooled two-sided z-test, summed over both binomials."""
    k = np.arange(n + 1)
    pooled = (k[:, None] + k[None, :]) / (2 * n)
    error = np.sqrt(2 * pooled * (1 - pooled) / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(error > 0, (k[None, :] - k[:, None]) / n / error, 0.0)
    weights = binom.pmf(k, n, rate)[:, None] * binom.pmf(k, n, other)[None, :]
    return float(weights[np.abs(z) >= norm.ppf(0.975)].sum())


@pytest.mark.parametrize(("rate", "n"), [(0.5, 200), (0.3, 200), (0.6, 500), (0.1, 400)])
def test_an_unpaired_detectable_difference_is_found_four_times_in_five(rate, n):
    """At the stated size the exact power is 0.8, within the normal approximation."""
    found = detectable_unpaired(rate, n)
    assert (found.alpha, found.power, found.paired) == (0.05, 0.8, False)
    assert found.value is not None
    assert power_of_two_runs(rate, rate + found.value, n) == pytest.approx(0.8, abs=0.03)


def test_detectable_at_one_half_and_200_by_hand():
    """About (1.96 + 0.84) * sqrt(2 * 0.25 / 200) = 0.140, a little less off the middle."""
    value = detectable_unpaired(0.5, 200).value
    assert value == pytest.approx(0.138, abs=0.001)


def test_four_times_the_draws_about_halve_the_detectable_difference():
    """Square-root law."""
    small, large = detectable_unpaired(0.5, 500).value, detectable_unpaired(0.5, 2000).value
    assert small is not None and large is not None
    assert small / large == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(("rate", "n"), [(None, 0.0), (0.5, 0.0), (1.0, 1000), (0.9, 20)])
def test_no_detectable_difference_is_null(rate, n):
    """Nothing scored, no room above the rate, or too few draws even for a rate of 1."""
    assert detectable_unpaired(rate, n).value is None


@given(st.floats(0, 0.99), st.integers(2, 100_000))
def test_a_detectable_difference_fits_below_one(rate, n):
    """rate + difference is a rate."""
    value = detectable_unpaired(rate, n).value
    assert value is None or 0 < value <= 1 - rate


def test_three_points_with_a_fifth_discordant_need_1750_pairs():
    """(1.960 + 0.842)² * 0.2 / 0.03² = 1,744 pairs: the size math_test is planned by."""
    value = detectable_paired(0.2, 0.2, 1750).value
    assert value == pytest.approx(0.0299, abs=1e-4)
    assert math.ceil((intervals.Z_ALPHA + intervals.Z_POWER) ** 2 * 0.2 / 0.03**2) == 1745


def test_a_paired_detectable_difference_is_found_four_times_in_five():
    """Exact power of the score test on 1,750 pairs with a fifth discordant, by simulation."""
    draws = np.random.default_rng(11)
    found = detectable_paired(0.2, 0.2, 1750)
    assert found.value is not None and (found.alpha, found.power, found.paired) == (0.05, 0.8, True)
    shares = [0.1 + found.value / 2, 0.1 - found.value / 2, 0.8]
    gained, lost, _ = draws.multinomial(1750, shares, size=20_000).T
    z = (gained - lost) / np.sqrt(gained + lost)
    assert np.mean(np.abs(z) >= norm.ppf(0.975)) == pytest.approx(0.8, abs=0.015)


def test_without_discordant_pairs_no_difference_is_detectable():
    """Nothing flips, nothing is known about flips."""
    assert detectable_paired(0.0, 0.0, 100).value is None
    assert detectable_paired(0.2, 0.2, 0).value is None


def test_an_impossible_difference_is_not_detectable():
    """One flip of ten: 2.80 * sqrt(0.1 / 10) = 0.280, but the pairs that flip are only 0.1.

    Eight flips are the first that reach: 2.80 * sqrt(0.8 / 10) = 0.792.
    """
    assert detectable_paired(0.1, 0.1, 10).value is None
    assert detectable_paired(0.7, 0.7, 10).value is None  # 0.741
    assert detectable_paired(0.8, 0.8, 10).value == pytest.approx(0.792, abs=1e-3)
    assert detectable_paired(1.0, 1.0, 2).value is None


def test_with_several_completions_the_mean_size_bounds_the_difference():
    """40 of 100 pairs half a pass apart: 2.80 * sqrt(0.1 / 100) = 0.089, and up to 0.2 is there."""
    assert detectable_paired(0.1, 0.2, 100).value == pytest.approx(0.0886, abs=1e-4)
    assert detectable_paired(0.1, 0.05, 100).value is None
