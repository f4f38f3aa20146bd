"""Sample token by token: the one loop behind every policy that runs on this machine.

A token is chosen by the inverse of the cumulative distribution, with a number that belongs to the
sample alone (see ``noise``). It knows no model and no text: a ``Decoder`` gives logits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from course.core.errors import DataError
from course.core.records import Sample
from course.policy.completer import How, Request
from course.policy.noise import uniforms


class Decoder(Protocol):
    """A model's forward passes over a batch of prompts, each shared by its group of samples.

    Rows are samples in order (prompt 0 sample 0, prompt 0 sample 1, ...): N = P x n at the start.
    """

    stops: frozenset[int]
    """The tokens that end a completion."""

    def start(self, prompts: Sequence[Sequence[int]], n: int) -> Tensor:
        """Read the prompts, once each, and forget what was read before.

        Returns: logits of the first new token, (P, V) float32.
        """

    def step(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Go on by one token.

        Args:
            tokens: (R,) int64, the token just chosen for each row that goes on.
            keep: (R,) int64, ascending: where those rows stood among the rows of the last step (of
                all N rows at the first call). The others have ended and are dropped.
        Returns: logits of the next token, (R, V) float32.
        """


class Drawn(NamedTuple):
    """What was sampled: N = P x n rows, T the longest completion."""

    tokens: Tensor
    """(N, T) int64, the end-of-sequence token included; 0 beyond a row's length."""
    logprobs: Tensor
    """(N, T) float32: the policy's own log-probs (temperature 1, untruncated); 0 beyond."""
    lengths: Tensor
    """(N,) int64: tokens of each completion, its end-of-sequence token included."""
    stopped: Tensor
    """(N,) bool: ended by itself; False where the token limit cut it."""


def draw(decoder: Decoder, prompts: Sequence[Sequence[int]], ids: Sequence[str], how: How) -> Drawn:
    """Sample ``how.n`` completions of every prompt.

    The randomness of a sample depends on (seed, example id, sample index) alone.

    Args:
        decoder: the model's forward passes.
        prompts: the tokens of each prompt.
        ids: the example id of each prompt.
        how: how to sample, and how many.
    Returns: ordinary tensors, on the decoder's device; a trainer may go on with them.
    Raises: DataError when the logits are not numbers, as those of a policy that diverged.
    """
    rows, limit = len(prompts) * how.n, how.max_new_tokens
    with torch.no_grad():  # not inference_mode: autograd could not save what it makes
        logits = decoder.start(prompts, how.n).repeat_interleave(how.n, 0)  # (N, V)
        device = logits.device
        stops = torch.tensor(sorted(decoder.stops), device=device)
        noise = torch.from_numpy(uniforms(how.seed, ids, how.n, limit)).to(device)  # (N, limit)
        tokens = torch.zeros(rows, limit, dtype=torch.int64, device=device)
        logprobs = torch.zeros(rows, limit, device=device)
        lengths = torch.zeros(rows, dtype=torch.int64, device=device)
        stopped = torch.zeros(rows, dtype=torch.bool, device=device)
        live = torch.arange(rows, device=device)  # (R,) the rows that go on
        for step in range(limit):
            total = logits.logsumexp(-1)  # (R,)
            if not total.isfinite().all():
                row = int(live[~total.isfinite()][0])
                raise DataError(
                    f"The policy's logits are not finite at token {step + 1} of sample "
                    f"{row % how.n} of {ids[row // how.n]}: its weights have diverged."
                )
            chosen = choose(logits, noise[live, step], how)  # (R,)
            tokens[live, step] = chosen
            logprobs[live, step] = logits.gather(-1, chosen[:, None])[:, 0] - total
            lengths[live] = step + 1
            ended = torch.isin(chosen, stops)
            stopped[live] = ended
            keep = (~ended).nonzero()[:, 0]
            live = live[keep]
            if len(live) == 0 or step + 1 == limit:
                break
            logits = decoder.step(chosen[keep], keep)
    longest = int(lengths.max()) if rows else 0
    return Drawn(tokens[:, :longest], logprobs[:, :longest], lengths, stopped)


def check_lengths(
    requests: Sequence[Request],
    how: How,
    *,
    encode: Callable[[str], list[int]],
    context: int | None,
    name: str,
) -> None:
    """Refuse a prompt that leaves no room for its completion.

    Args:
        encode: turns a prompt into tokens.
        context: the most tokens that prompt and completion may have together; None for no limit.
    Raises: DataError naming the example.
    """
    for request in requests:
        length = len(encode(request.prompt))
        if context and length + how.max_new_tokens > context:
            raise DataError(
                f"{request.id}: the prompt has {length} tokens and the completion may have "
                f"{how.max_new_tokens}, but {name} can hold {context} together. Shorten the "
                "prompt, or lower --max-new-tokens."
            )


def answers(drawn: Drawn, n: int, decode: Callable[[list[int]], str]) -> list[list[Sample | None]]:
    """Turn what was drawn into samples, n to a prompt, as a ``Completer`` gives them."""
    sums = drawn.logprobs.double().sum(-1).tolist()
    rows = zip(
        drawn.tokens.tolist(), sums, drawn.lengths.tolist(), drawn.stopped.tolist(), strict=True
    )
    samples: list[Sample | None] = [
        Sample(
            decode(tokens[: length - stopped]),  # the end is an action and no text
            round(total, 6),
            length,
            "stop" if stopped else "length",
        )
        for tokens, total, length, stopped in rows
    ]
    return [samples[start : start + n] for start in range(0, len(samples), n)]


def choose(logits: Tensor, noise: Tensor, how: How) -> Tensor:
    """Choose a token for each row: the first whose cumulative probability exceeds the noise.

    Args:
        logits: (R, V); minus infinity is a token that cannot be chosen.
        noise: (R,) float64 in [0, 1).
    Returns: (R,) int64; greedy, the lowest of the most likely tokens.
    """
    if how.temperature == 0:
        return logits.argmax(-1)
    # Less its greatest, a logit divided by a tiny temperature cannot overflow.
    probs = ((logits - logits.amax(-1, keepdim=True)) / how.temperature).softmax(-1)  # (R, V)
    if how.top_p < 1:
        probs = _nucleus(probs, how.top_p)
    mass = probs.cumsum(-1, dtype=torch.float64)  # (R, V)
    # Strictly beyond: a token without probability adds no mass, so it is never the first.
    return torch.searchsorted(mass, noise[:, None] * mass[:, -1:], right=True)[:, 0]


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most likely tokens whose mass reaches top_p, at least one; others get 0.

    Source: Holtzman et al. 2020 (arXiv:1904.09751).
    """
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    ranked[:, 1:][ranked.cumsum(-1, dtype=torch.float64)[:, :-1] >= top_p] = 0
    return torch.zeros_like(probs).scatter(-1, order, ranked)
