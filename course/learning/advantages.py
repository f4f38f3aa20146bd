"""Advantages: how much better a completion was than what was expected of it.

Six baselines, each defined once. P prompts, G completions of each. A completion whose measurement
failed is unscored: it gets advantage 0 and takes part in no baseline.

    none           A = r                                              Williams 1992
    running_mean   A = r - m, m the running mean of earlier batches   Williams 1992
    batch_mean     A = r - mean of the batch                          Williams 1992
    group_mean     A = r - mean of the group                          Shao et al. 2024, without /std
    leave_one_out  A = r - mean of the other ones of the group        Kool et al. 2019
    grpo           A = (r - mean of the group) / (std + 1e-4)         Shao et al. 2024

A baseline may be anything that does not look at the completion it is subtracted for: then it
leaves the expected gradient as it is. ``leave_one_out`` keeps to that. ``group_mean`` does not, and
no harm is done: it is exactly (G-1)/G times ``leave_one_out``, so only the step is a little
shorter. ``batch_mean`` is off by 1/(P G) in the same way. ``grpo`` divides besides, and no longer
follows the gradient of the mean reward: groups that are nearly unanimous count for more.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from course.core.errors import UsageError

Baseline = Literal["none", "running_mean", "batch_mean", "group_mean", "leave_one_out", "grpo"]
BASELINES: tuple[str, ...] = get_args(Baseline)

GRPO_EPSILON = 1e-4
"""Added to the standard deviation (of the sample: G - 1), as TRL does."""

RUNNING_DECAY = 0.9
"""Weight of the past in the running mean; a batch's own mean enters after it has been used."""

Advantage = Callable[[Tensor, Tensor], Tensor]
"""f(rewards (P, G), scored (P, G) bool) -> advantages (P, G)."""


def none(rewards: Tensor, scored: Tensor) -> Tensor:
    """Subtract nothing: a reward of 0 then teaches nothing.

    Args:
        rewards: (P, G), in reward units; what stands under an unscored entry is ignored.
        scored: (P, G) bool.
    Returns: (P, G), same units.
    Source: Williams 1992, "Simple statistical gradient-following algorithms".
    """
    return _known(rewards, scored)


def batch_mean(rewards: Tensor, scored: Tensor) -> Tensor:
    """Subtract the mean of all scored rewards of the batch; arguments as for ``none``."""
    known = _known(rewards, scored)
    mean = known.sum() / scored.sum().clamp(min=1)
    return (known - mean) * scored


def group_mean(rewards: Tensor, scored: Tensor) -> Tensor:
    """Subtract the mean of the group's scored rewards; arguments as for ``none``.

    A group with fewer than two scored rewards gives zeros: nothing can be compared in it.
    """
    known = _known(rewards, scored)
    count = scored.sum(-1, keepdim=True)  # (P, 1)
    mean = known.sum(-1, keepdim=True) / count.clamp(min=1)
    return (known - mean) * scored * (count > 1)


def leave_one_out(rewards: Tensor, scored: Tensor) -> Tensor:
    """Subtract the mean of the group's *other* scored rewards; arguments as for ``none``.

    [1, 0, 0, 1] gives [+2/3, -2/3, -2/3, +2/3]. A group with fewer than two scored rewards gives
    zeros, and so does one of equal rewards.

    Source: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!"; Ahmadian et al.
        2024 (arXiv:2402.14740).
    """
    count = scored.sum(-1, keepdim=True)  # (P, 1)
    return group_mean(rewards, scored) * count / (count - 1).clamp(min=1)


def grpo(rewards: Tensor, scored: Tensor) -> Tensor:
    """Subtract the group's mean and divide by its standard deviation; arguments as for ``none``.

    Source: Shao et al. 2024 (arXiv:2402.03300), equation 3 with outcome rewards.
    """
    centred = group_mean(rewards, scored)
    count = scored.sum(-1, keepdim=True)  # (P, 1)
    std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    return centred / (std + GRPO_EPSILON)


class RunningMean:
    """Subtract an exponential mean of the earlier batches' mean rewards.

    It starts at 0, so the first batch is as with ``none``, and it never looks at the rewards it is
    subtracted from.

    Source: Williams 1992, "reinforcement comparison".
    """

    def __init__(self, mean: float = 0.0, seen: bool = False) -> None:
        self.mean, self.seen = mean, seen

    def __call__(self, rewards: Tensor, scored: Tensor) -> Tensor:
        """Return the advantages, then take the batch in; arguments as for ``none``."""
        known = _known(rewards, scored)
        advantages = (known - self.mean) * scored
        if scored.any():
            mean = float(known.sum() / scored.sum())
            decay = RUNNING_DECAY if self.seen else 0.0
            self.mean, self.seen = decay * self.mean + (1 - decay) * mean, True
        return advantages


def baseline_named(name: str) -> Advantage:
    """Return the advantage function of a baseline.

    Raises: UsageError for a name that is none.
    """
    functions: dict[str, Advantage] = {
        "none": none,
        "running_mean": RunningMean(),
        "batch_mean": batch_mean,
        "group_mean": group_mean,
        "leave_one_out": leave_one_out,
        "grpo": grpo,
    }
    if name not in functions:
        raise UsageError(f"{name!r} is no baseline; there are {', '.join(BASELINES)}.")
    return functions[name]


def _known(rewards: Tensor, scored: Tensor) -> Tensor:
    """The rewards with 0 under every unscored entry, whatever stood there (a NaN, say)."""
    return torch.where(scored, rewards, torch.zeros_like(rewards))
