"""Advantages: numbers worked out by hand, and what each baseline promises."""

import pytest
import torch

from course.core.errors import UsageError
from course.learning.advantages import (
    BASELINES,
    GRPO_EPSILON,
    RunningMean,
    baseline_named,
    batch_mean,
    group_mean,
    grpo,
    leave_one_out,
    none,
)

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
ALL = torch.ones(2, 4, dtype=torch.bool)
GROUPED = [group_mean, leave_one_out, grpo]


def test_leave_one_out_by_hand():
    """[1,0,0,1]: the others' mean is 1/3 for a right one and 2/3 for a wrong one."""
    third = 2 / 3
    expected = [[third, -third, -third, third], [0.0, 0.0, 0.0, 0.0]]
    torch.testing.assert_close(leave_one_out(REWARDS, ALL), torch.tensor(expected))


def test_group_mean_is_leave_one_out_a_little_shorter():
    """By exactly (G-1)/G, whatever the rewards are."""
    rewards = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scored = torch.ones(5, 8, dtype=torch.bool)
    torch.testing.assert_close(group_mean(rewards, scored), leave_one_out(rewards, scored) * 7 / 8)


def test_grpo_divides_by_the_samples_standard_deviation():
    """[1,0,0,1]: mean 1/2, std sqrt(1/3) with G - 1 below."""
    value = 0.5 / ((1 / 3) ** 0.5 + GRPO_EPSILON)
    torch.testing.assert_close(grpo(REWARDS, ALL)[0], torch.tensor([value, -value, -value, value]))
    assert grpo(REWARDS, ALL)[1].tolist() == [0.0] * 4


def test_batch_mean_and_none_by_hand():
    """Six right of eight: 1 - 3/4 and 0 - 3/4; none leaves the rewards."""
    expected = [[0.25, -0.75, -0.75, 0.25], [0.25] * 4]
    torch.testing.assert_close(batch_mean(REWARDS, ALL), torch.tensor(expected))
    torch.testing.assert_close(none(REWARDS, ALL), REWARDS)


def test_the_running_mean_starts_at_zero_and_never_sees_its_own_batch():
    """Batch 1 as `none`; batch 2 minus batch 1's mean; then 0.9 of the old, 0.1 of the new."""
    running = RunningMean()
    one = torch.full((1, 2), 1.0)
    two = torch.tensor([[2.0, 4.0]])
    scored = torch.ones(1, 2, dtype=torch.bool)
    assert running(one, scored).tolist() == [[1.0, 1.0]]
    assert running(two, scored).tolist() == [[1.0, 3.0]]
    torch.testing.assert_close(running(one, scored), torch.full((1, 2), 1 - (0.9 * 1 + 0.1 * 3)))


@pytest.mark.parametrize("name", BASELINES)
def test_a_failed_measurement_is_no_zero(name):
    """Unscored: advantage 0, and the others are what they would be without it."""
    rewards = torch.tensor([[1.0, float("nan"), 0.0, 1.0]])
    scored = torch.tensor([[True, False, True, True]])
    found = baseline_named(name)(rewards, scored)
    alone = baseline_named(name)(rewards[:, [0, 2, 3]], scored[:, [0, 2, 3]])
    assert found[0, 1] == 0
    torch.testing.assert_close(found[:, [0, 2, 3]], alone)


@pytest.mark.parametrize("function", GROUPED)
def test_a_group_with_fewer_than_two_scores_teaches_nothing(function):
    """There is nothing to compare with."""
    scored = torch.tensor([[True, False, False], [False, False, False]])
    assert function(torch.ones(2, 3), scored).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("function", [group_mean, leave_one_out, batch_mean])
def test_an_offset_changes_nothing_and_a_scale_scales(function):
    """Rewards of 10 and 11 teach what 0 and 1 do."""
    torch.testing.assert_close(function(REWARDS + 10, ALL), function(REWARDS, ALL))
    torch.testing.assert_close(function(REWARDS * 2, ALL), function(REWARDS, ALL) * 2)


def test_leave_one_out_leaves_the_expected_gradient_as_it_is():
    """Over every pair of three actions, the mean of A * grad log p is the true gradient."""
    logits = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    values = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    p = logits.softmax(-1)
    scores = torch.eye(3, dtype=torch.float64) - p  # row a: grad of log p(a)
    true = (p[:, None] * values[:, None] * scores).sum(0)
    expected = torch.zeros(3, dtype=torch.float64)
    both = torch.ones(1, 2, dtype=torch.bool)
    for a in range(3):
        for b in range(3):
            advantage = leave_one_out(values[[a, b]][None], both)[0]
            gradient = (advantage[0] * scores[a] + advantage[1] * scores[b]) / 2
            expected += p[a] * p[b] * gradient
    torch.testing.assert_close(expected, true)


def test_an_unknown_baseline_is_named_with_those_there_are():
    """Exit 2 for a typo."""
    with pytest.raises(UsageError, match="leave_one_out"):
        baseline_named("leave-one-out")
