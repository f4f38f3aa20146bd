"""Claims about the paired numbers: flips, difference, interval, p."""

from array import array
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from course.evaluation.paired import (
    ENUMERATED,
    FLOOR,
    RESAMPLED,
    ExampleRate,
    Paired,
    _interval,
    compare_rows,
    example_rates,
    mcnemar,
    permutation,
)


def row(row_id: str, reward: float | None, expected: object = 1) -> dict[str, object]:
    return {"id": row_id, "reward": reward, "expected_answer": expected}


@pytest.fixture
def compared(jsonl):
    """Compare two lists of result rows."""

    def compare(baseline, candidate, *, full=(1.0, 1.0), alpha=0.05) -> Paired | None:
        one, other = jsonl("baseline.jsonl", baseline), jsonl("candidate.jsonl", candidate)
        return compare_rows(one, other, full_rewards=full, alpha=alpha)

    return compare


def flips(gained: int, lost: int, unchanged: int) -> tuple[list[object], list[object]]:
    """Two runs with so many flips; half of the unchanged ones pass in both."""
    outcomes = [(0, 1)] * gained + [(1, 0)] * lost
    outcomes += [(k % 2, k % 2) for k in range(unchanged)]
    numbered = list(enumerate(outcomes))
    return [row(f"e{k}", b) for k, (b, _) in numbered], [row(f"e{k}", c) for k, (_, c) in numbered]


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [
        (14, 6, 0.1153),  # 2 * P(X >= 14), X ~ Bin(20, 1/2) = 2 * 60460 / 2**20
        (8, 3, 0.2266),  # 2 * 232 / 2**11
        (5, 0, 0.0625),  # 2 / 2**5
        (6, 0, 0.03125),  # 2 / 2**6: the fewest flips that can be significant
        (0, 0, 1.0),
        (3, 3, 1.0),
    ],
)
def test_mcnemar_by_hand(gained, lost, p):
    """Exact: each flip is a fair coin under the null."""
    assert mcnemar(gained, lost) == (pytest.approx(p, abs=5e-5), "exact McNemar")
    assert mcnemar(lost, gained)[0] == mcnemar(gained, lost)[0]


def test_14_gained_and_6_lost_of_100(compared):
    """Difference 0.08; (Agresti and Min) 8/102 ± 1.96 * sqrt(21 - 64/102) / 102; p = .115."""
    found = compared(*flips(14, 6, 80))
    assert (found.pairs, found.gained, found.lost, found.left_out) == (100, 14, 6, 0)
    assert found.difference == pytest.approx(0.08)
    assert found.low == pytest.approx(-0.0083, abs=1e-4)
    assert found.high == pytest.approx(0.1652, abs=1e-4)
    assert found.p_value == pytest.approx(0.1153, abs=5e-5) and found.test == "exact McNemar"
    assert found.detectable.value == pytest.approx(2.8016 * 0.2**0.5 / 10, abs=1e-4)


def test_swapping_the_runs_mirrors_every_number(compared):
    """No side is favoured."""
    one, other = flips(9, 2, 30)
    there, back = compared(one, other), compared(other, one)
    assert (there.gained, there.lost) == (back.lost, back.gained) == (9, 2)
    assert (there.difference, there.low, there.high) == (-back.difference, -back.high, -back.low)
    assert there.p_value == back.p_value


def test_two_runs_without_a_flip_still_have_an_interval(compared):
    """10 equal pairs: ± 1.96 / 12, not [0, 0]; p is 1 and nothing is detectable."""
    found = compared(*flips(0, 0, 10))
    assert (found.low, found.high) == (pytest.approx(-0.1633, abs=1e-4), -found.low)
    assert found.p_value == 1.0 and found.detectable.value is None


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_an_interval_stays_inside_and_holds_the_difference(gained, lost, same):
    """Whatever the flips: -1 <= low < high <= 1, and the difference lies between."""
    pairs = gained + lost + same
    if pairs:
        low, high = _interval(gained - lost, gained + lost, pairs, 0.05)
        assert -1.0 <= low < high <= 1.0
        assert low <= (gained - lost) / pairs <= high


@pytest.mark.parametrize("shares", [(0.15, 0.10), (0.05, 0.05), (0.30, 0.05)])
def test_the_interval_covers_the_truth_in_95_of_100(shares):
    """20,000 simulated comparisons of 100 pairs with the given shares gained and lost."""
    draws = np.random.default_rng(3)
    table = draws.multinomial(100, [*shares, 1 - sum(shares)], size=20_000)
    kinds, times = np.unique(table, axis=0, return_counts=True)
    found = [_interval(g - lost, g + lost, 100, 0.05) for g, lost, _ in kinds.tolist()]
    truth = shares[0] - shares[1]
    inside = [low <= truth <= high for low, high in found]
    assert 0.94 <= np.average(inside, weights=times) <= 0.975


def test_a_smaller_alpha_gives_a_wider_interval(compared):
    """The interval is at 1 - alpha: 99 % is 2.576 / 1.960 times as wide."""
    usual, strict = compared(*flips(14, 6, 80)), compared(*flips(14, 6, 80), alpha=0.01)
    ratio = (strict.high - strict.low) / (usual.high - usual.low)
    assert ratio == pytest.approx(norm.ppf(0.995) / norm.ppf(0.975))
    assert (usual.level, strict.level) == (0.95, 0.99)


def test_one_flip_of_ten_can_show_no_difference(compared):
    """The formula alone says 0.280, and the ten pairs differ by 0.1 at most."""
    assert compared(*flips(1, 0, 9)).detectable.value is None
    assert compared(*flips(8, 0, 2)).detectable.value == pytest.approx(0.792, abs=1e-3)


def enumerated(values: list[float]) -> float:
    """The paired permutation p by going through all 2**n sign flips."""
    total = abs(sum(values)) - 1e-9
    signs = list(product((1, -1), repeat=len(values)))
    hits = sum(
        abs(sum(s * v for s, v in zip(flip, values, strict=True))) >= total for flip in signs
    )
    return hits / len(signs)


@pytest.mark.parametrize(
    "values",
    [
        [0.5],
        [0.25, 0.5, -0.25],
        [1 / 3, 1 / 3, -1 / 3, 2 / 3, 1.0],
        [0.25, 0.25, 0.5, 0.75, -0.25, 0.5, 1.0, 0.25],
        [0.25] * 7 + [-0.5] * 3,
    ],
)
def test_small_permutation_tests_are_exact(values):
    """Up to 13 differences all sign flips fit into the resamples, so p is exact."""
    assert permutation(array("d", values)) == (pytest.approx(enumerated(values)), ENUMERATED)


@pytest.mark.parametrize(("n", "name"), [(0, ENUMERATED), (13, ENUMERATED), (14, RESAMPLED)])
def test_a_permutation_test_says_whether_it_resampled(n, name):
    """2**13 = 8,192 sign flips are gone through one by one; 2**14 are more than 9,999."""
    p, said = permutation(array("d", [1.0] * n))
    assert said == name
    if name == RESAMPLED:  # the exact 2 / 2**14 is below what resampling can say
        assert p >= FLOOR > 2 / 2**14


def test_a_sampled_permutation_p_is_within_monte_carlo_error():
    """16 differences: 65,536 flips are sampled; three standard errors of 9,999 draws."""
    values = [0.25, 0.5, -0.25, 0.75, 0.5, -0.5, 0.25, 0.25] * 2
    exact = enumerated(values)
    error = 3 * (exact * (1 - exact) / 9999) ** 0.5
    assert permutation(array("d", values))[0] == pytest.approx(exact, abs=error)


def test_a_permutation_p_is_the_same_every_time():
    """Seeded: two people comparing the same runs read the same p."""
    values = array("d", np.random.default_rng(1).normal(0.1, 1, 200).tolist())
    assert permutation(values) == permutation(values)
    assert permutation(values)[1] == "paired permutation, 9999 resamples"


def test_a_permutation_test_of_nothing_says_one():
    """No example differs: no evidence at all."""
    assert permutation(array("d"))[0] == 1.0


def test_a_sampled_p_is_never_zero():
    """1 / 10,000 is the least that 9,999 resamples can say, doubled for two sides."""
    assert permutation(array("d", [1.0] * 200))[0] == FLOOR == 2 / 10_000


def test_several_samples_are_compared_by_example_means(compared):
    """Three examples, two samples each: means 0, 1/2, 1 become 1/2, 1, 1."""
    baseline = [row("a", 0), row("a", 0), row("b", 1), row("b", 0), row("c", 1), row("c", 1)]
    candidate = [row("a", 1), row("a", 0), row("b", 1), row("b", 1), row("c", 1), row("c", 1)]
    found = compared(baseline, candidate)
    assert (found.pairs, found.gained, found.lost) == (3, 2, 0)
    assert found.difference == pytest.approx(1 / 3)
    assert found.test == "exact sign-flip permutation"
    assert found.p_value == pytest.approx(0.5)  # 2 of the 4 sign flips are as far from 0
    assert found.detectable.value is None  # 2.80 * sqrt(0.5 / 9) = 0.66 is more than 1/3


def test_several_samples_have_a_detectable_difference_by_their_means(compared):
    """10 of 100 examples a quarter better: 2.80 * sqrt(0.1 / 16 / 100) = 0.0221, below 0.1 / 4."""
    baseline = [row(f"e{k}", 0) for k in range(100) for _ in range(4)]
    candidate = [row(f"e{k}", int(s == 0 and k < 10)) for k in range(100) for s in range(4)]
    assert compared(baseline, candidate).detectable.value == pytest.approx(0.0221, abs=1e-4)


def test_other_numbers_of_completions_are_counted_example_by_example(compared):
    """1, 3, 2 against 3, 1, 2: two on average in both, and uneven in two examples."""
    baseline = [row(i, 1) for i in "abbbcc"]
    candidate = [row(i, 1) for i in "aaabcc"]
    assert compared(baseline, candidate).uneven == 2
    assert compared(baseline, baseline).uneven == 0


def test_an_unscored_example_is_not_uneven(compared):
    """A missing completion leaves one row in place of four: that is Incomplete, said elsewhere."""
    baseline = [row(i, 1) for i in "aaaabbbb"]
    candidate = [*[row("a", 1)] * 4, row("b", None)]
    found = compared(baseline, candidate)
    assert (found.uneven, found.left_out) == (0, 1)


def test_unscored_examples_are_left_out_of_both_runs(compared):
    """A failed measurement is no zero, neither here nor there."""
    baseline = [row("a", None), row("b", 0), row("c", 1)]
    candidate = [row("a", 1), row("b", 1), row("c", None)]
    found = compared(baseline, candidate)
    assert (found.pairs, found.left_out, found.gained, found.lost) == (1, 2, 1, 0)


def test_an_unscored_sample_is_left_out_of_its_examples_mean(jsonl):
    """One of two samples scored: the rate is that one's."""
    path = jsonl("r.jsonl", [row("a", None), row("a", 1.0), row("b", None)])
    assert list(example_rates(path, 1.0)) == [
        ExampleRate("a", "1", 1.0, 2),
        ExampleRate("b", "1", None, 1),
    ]


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ([row("a", 1)], [row("b", 1)]),
        ([row("a", 1), row("b", 1)], [row("a", 1)]),
        ([row("a", 1), row("b", 1)], [row("b", 1), row("a", 1)]),
        ([row("a", None)], [row("a", 1)]),
    ],
)
def test_runs_that_share_no_pairs_are_not_paired(compared, baseline, candidate):
    """Other ids, fewer, another order, or nothing scored: None, not a number."""
    assert compared(baseline, candidate) is None


def test_a_pass_is_each_runs_own_full_reward(compared):
    """A scorer that declares rewards up to 10 passes at 10, not at 1."""
    found = compared([row("a", 1.0), row("b", 9.0)], [row("a", 10.0), row("b", 0.5)], full=(1, 10))
    assert (found.gained, found.lost) == (0, 1)


def test_changed_answers_are_noticed(compared):
    """8 and "8" are the same answer; 8 and 9 are not."""
    one = [row("a", 1, 8), row("b", 1, 5)]
    assert compared(one, [row("a", 1, "8"), row("b", 1, 5)]).same_answers
    assert not compared(one, [row("a", 1, 9), row("b", 1, 5)]).same_answers


def test_many_differences_are_tested_by_the_normal_limit_of_the_same_test() -> None:
    """10,200 gained against 9,900 lost: z = 300 / sqrt(20,100) = 2.116, so p = .0343."""
    values = array("d", [1.0] * 10_200 + [-1.0] * 9_900)
    p, name = permutation(values)
    assert p == pytest.approx(0.0343, abs=2e-4) and name.endswith("normal approximation")
    exact, _ = mcnemar(10_200, 9_900)
    assert p == pytest.approx(exact, rel=0.03)
