"""The token boundary: the policy acts in tokens, the scorer reads text.

Shows how a prompt becomes tokens, how a completion is drawn from them one choice at a time, and
what it would have cost to write something else instead.

    python -m course.sample --show
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from course.policy.completer import How
from course.policy.sampling import Decoder, draw

ALTERNATIVES = 5


class TokenPolicy(Protocol):
    """A policy whose tokens can be seen: one that runs on this machine."""

    @property
    def decoder(self) -> Decoder:
        """The model's forward passes."""

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens that the model is given for a prompt."""

    def encode_text(self, text: str) -> list[int]:
        """Return the tokens of a text that the policy might write."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a completion's tokens."""


class Choice(NamedTuple):
    """One token of a completion, and what else it might have been."""

    piece: str
    """The token as text; the end of the sequence is written as its name."""
    logprob: float
    """Natural log of its probability under the policy: temperature 1, untruncated."""
    alternatives: list[tuple[str, float]]
    """The likeliest tokens with their probabilities, likeliest first."""


class Look(NamedTuple):
    """A completion, choice by choice."""

    text: str
    choices: list[Choice]
    stopped: bool
    """Ended by itself; False where it was cut, or ends without an end-of-sequence token."""

    @property
    def logprob(self) -> float:
        """Natural log of the probability of the whole, its end included where it was written."""
        return sum(choice.logprob for choice in self.choices)


def pieces(policy: TokenPolicy, prompt: str) -> list[str]:
    """Split a prompt, as the model is given it, into its tokens."""
    return [policy.decode([token]) for token in policy.encode(prompt)]


def sampled(policy: TokenPolicy, prompt: str, how: How) -> Look:
    """Draw one completion and look at each of its choices."""
    drawn = draw(policy.decoder, [policy.encode(prompt)], ["show"], how)
    return _look(policy, prompt, drawn.tokens[0, : drawn.lengths[0]].tolist())


def priced(policy: TokenPolicy, prompt: str, text: str) -> Look:
    """Look at a completion that somebody else wrote, ended where the text ends."""
    tokens = policy.encode_text(text)
    end = sorted(policy.decoder.stops)[:1]
    return _look(policy, prompt, tokens + end)


@torch.no_grad()
def _look(policy: TokenPolicy, prompt: str, tokens: list[int]) -> Look:
    stops = policy.decoder.stops
    one = torch.zeros(1, dtype=torch.int64)
    logits = policy.decoder.start([policy.encode(prompt)], 1)
    choices: list[Choice] = []
    for number, token in enumerate(tokens):
        if number:
            logits = policy.decoder.step(one + tokens[number - 1], one)
        logprobs: Tensor = logits[0].double().log_softmax(-1)  # (V,)
        best = logprobs.topk(min(ALTERNATIVES, len(logprobs)))
        likeliest = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        choices.append(
            Choice(
                policy.decode([token]),
                float(logprobs[token]),
                [(policy.decode([other]), probability) for other, probability in likeliest],
            )
        )
    stopped = bool(tokens) and tokens[-1] in stops
    return Look(policy.decode(tokens[: len(tokens) - stopped]), choices, stopped)
