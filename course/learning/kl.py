"""How far the policy has gone from its reference: KL(policy || reference), in nats.

Estimated from the policy's own samples, with d = log p - log q of each sampled token:

    k1 = d                    unbiased; negative for some samples
    k2 = d^2 / 2              biased, never negative
    k3 = exp(-d) - 1 + d      unbiased, never negative

As *values* k1 and k3 both have the KL as their mean. As something to differentiate they are not
alike, and where the estimate is put decides what is optimised:

    k1 in the reward    the gradient of the reverse KL: right, and the default
    k2 in the loss      its gradient is d * grad log p: the same expected gradient, also right
    k1 in the loss      its gradient is grad log p, whose expectation is 0: it does nothing. Refused
    k3 in the loss      its gradient is (1 - exp(-d)) grad log p: the *forward* KL's. Allowed, said
    k2, k3 in the reward    neither KL's gradient. Refused

Sources: Schulman 2020, "Approximating KL divergence"; Tang and Munos 2025 (arXiv:2506.09477).
"""

from typing import Literal

import torch
from torch import Tensor

from course.core.errors import UsageError

Kind = Literal["k1", "k2", "k3"]
Place = Literal["reward", "loss"]

REFUSED = {
    ("k1", "loss"): "its expected gradient is zero, so it would hold nothing back",
    ("k2", "reward"): "the gradient of that is not the KL's",
    ("k3", "reward"): "the gradient of that is not the KL's",
}
NOTES = {
    ("k3", "loss"): (
        "k3 in the loss follows the gradient of the forward KL, not of the reverse KL that the "
        "metrics show; k1 in the reward (the default) or k2 in the loss do."
    )
}


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, kind: Kind) -> Tensor:
    """Estimate the KL of each completion from its tokens.

    Args:
        logprobs: (N, T) of the sampled tokens under the policy.
        ref_logprobs: (N, T) under the reference; no gradient goes through them.
        mask: (N, T) bool.
        kind: "k1", "k2" or "k3".
    Returns: (N,), nats, summed over tokens.
    Raises: ValueError for another kind.
    """
    d = torch.where(mask, logprobs - ref_logprobs.detach(), 0.0)  # (N, T)
    if kind == "k1":
        return d.sum(-1)
    if kind == "k2":
        return (d.square() / 2).sum(-1)
    if kind == "k3":
        return (torch.expm1(-d) + d).sum(-1)
    raise ValueError(f"{kind!r} is no KL estimate; there are k1, k2 and k3")


def exact_kl(logits: Tensor, ref_logits: Tensor, mask: Tensor) -> Tensor:
    """Sum the KL of the next-token distributions over each completion's tokens.

    Exact over the vocabulary at every position; what is sampled is only which positions are met.

    Args:
        logits: (N, T, V) of the policy.
        ref_logits: (N, T, V) of the reference.
        mask: (N, T) bool.
    Returns: (N,), nats.
    """
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    each = (log_p.exp() * (log_p - log_q)).sum(-1)  # (N, T)
    return torch.where(mask, each, 0.0).sum(-1)


def check_place(kind: str, place: str) -> str | None:
    """Say whether a KL estimate belongs where it is put.

    Returns: a note the user should read, or None.
    Raises: UsageError for a combination whose gradient is not a KL's, with the reason.
    """
    if reason := REFUSED.get((kind, place)):
        raise UsageError(
            f"{kind} in the {place}: {reason}. Use k1 in the reward (the default) or k2 in the "
            "loss."
        )
    return NOTES.get((kind, place))
