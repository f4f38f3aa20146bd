"""The policy-gradient loss: what is minimised so that the mean reward rises.

The gradient of the mean reward is E[A * grad log p(completion)]. An optimiser wants a loss to go
down, so the loss is minus that, with the advantage as a constant.

N completions, T tokens at most. Only tokens under the mask count: those the policy wrote, its end
included, and never the prompt or the padding.
"""

import torch
from torch import Tensor


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Pick the log-probability of each token that was written.

    Args:
        logits: (N, T, V); entry t is the prediction *of* token t, made before it was seen.
        tokens: (N, T) int64.
    Returns: (N, T), natural log, under temperature 1.
    """
    return logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(-1)


def policy_gradient_loss(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """REINFORCE: -(1/N) sum_i A_i sum_t m_it logp_it.

    Args:
        logprobs: (N, T) of the sampled tokens; carries the gradient.
        advantages: (N,), constants: no gradient goes through them.
        mask: (N, T) bool, the tokens the policy wrote.
    Returns: (), a mean over completions and a *sum* over tokens, because the log-probability of a
        text is the sum over its tokens. (A mean over tokens would favour long wrong answers.)
    Source: Williams 1992; Ahmadian et al. 2024 (arXiv:2402.14740), equation 6.
    """
    per_completion = torch.where(mask, logprobs, 0.0).sum(-1)  # (N,)
    return -(advantages.detach() * per_completion).mean()


def clipped_loss(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip: float
) -> Tensor:
    """PPO's clipped surrogate, for several optimiser steps on one batch.

    At the first step every ratio is 1, and its gradient is that of ``policy_gradient_loss``.

    Args:
        logprobs: (N, T) of the sampled tokens, now; carries the gradient.
        old_logprobs: (N, T), when they were sampled.
        advantages: (N,), constants.
        mask: (N, T) bool.
        clip: how far the ratio of probabilities may leave 1 before it earns nothing more.
    Returns: (), mean over completions, sum over tokens.
    Source: Schulman et al. 2017 (arXiv:1707.06347), equation 7, per token.
    """
    difference = torch.where(mask, logprobs - old_logprobs.detach(), 0.0)
    ratio = difference.exp()  # (N, T)
    weight = advantages.detach()[:, None]
    gain = torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight)
    return -torch.where(mask, gain, 0.0).sum(-1).mean()


def entropy(logits: Tensor, mask: Tensor) -> Tensor:
    """Mean entropy of the policy's next-token distributions, in nats.

    Args:
        logits: (N, T, V).
        mask: (N, T) bool.
    Returns: (), over the masked tokens.
    """
    logprobs = logits.log_softmax(-1)
    each = -(logprobs.exp() * logprobs).sum(-1)  # (N, T)
    return torch.where(mask, each, 0.0).sum() / mask.sum().clamp(min=1)
