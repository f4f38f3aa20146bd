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

    def piece(self, token: int) -> str:
        """Return a token as text, or its name when it is only a part of a character."""


class Choice(NamedTuple):
    """One token of a completion, and what else it might have been."""

    piece: str
    """The token as text; the end of the sequence is written as its name."""
    logprob: float
    """Natural log of its probability under the policy: temperature 1, untruncated."""
    alternatives: list[tuple[str, float]]
    """The likeliest other tokens with their probabilities, likeliest first."""


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
    return [policy.piece(token) for token in policy.encode(prompt)]


def sampled(policy: TokenPolicy, prompt: str, how: How) -> Look:
    """Draw one completion and look at each of its choices."""
    drawn = draw(policy.decoder, [policy.encode(prompt)], ["show"], how)
    return _look(policy, prompt, drawn.tokens[0, : drawn.lengths[0]].tolist())


def priced(policy: TokenPolicy, prompt: str, text: str) -> Look:
    """Look at a completion that somebody else wrote, ended where the text ends.

    Of several tokens that end a completion the likeliest is taken.
    """
    return _look(policy, prompt, policy.encode_text(text), end=True)


@torch.no_grad()
def _look(policy: TokenPolicy, prompt: str, tokens: list[int], *, end: bool = False) -> Look:
    stops = sorted(policy.decoder.stops)
    row = torch.zeros(1, dtype=torch.int64)
    logits = policy.decoder.start([policy.encode(prompt)], 1)
    choices: list[Choice] = []
    stopped = False
    for number in range(len(tokens) + (end and bool(stops))):
        if number:
            logits = policy.decoder.step(row + tokens[number - 1], row)
        logprobs: Tensor = logits[0].double().log_softmax(-1)  # (V,)
        if number == len(tokens):
            token = max(stops, key=lambda stop: float(logprobs[stop]))
        else:
            token = tokens[number]
        stopped = token in stops
        best = logprobs.topk(min(ALTERNATIVES + 1, len(logprobs)))
        likeliest = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        others = [(policy.piece(other), p) for other, p in likeliest if other != token]
        choices.append(Choice(policy.piece(token), float(logprobs[token]), others[:ALTERNATIVES]))
    text = policy.decode(tokens[: len(tokens) - (stopped and not end)])
    return Look(text, choices, stopped)
