"""One forward pass for a batch of groups: every prompt once, every distinct completion once.

A row holds a prompt and, one after the other, all the different completions of its group. Each of
their tokens sees the prompt and what its own completion has written before it, and nothing of the
others. Sixteen samples of which three differ cost three.

Shapes: P prompts, N = P x G completions of at most T tokens, L tokens in a packed row, V
vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course.policy.model import TinyModel


class Packed(NamedTuple):
    """A batch, ready for the network."""

    tokens: Tensor
    """(P, L) int64."""
    positions: Tensor
    """(P, L) int64: where each token stands in its own text."""
    sees: Tensor
    """(P, 1, L, L) bool: which tokens (last) each token (third) may attend to."""
    where: Tensor
    """(U, T) int64: the flat places in (P x L) whose logits predict each token of the U distinct
    completions; 0 under padding."""
    of: Tensor
    """(N,) int64: which distinct completion each completion is."""


def pack(prompts: Sequence[Sequence[int]], tokens: Tensor, lengths: Tensor) -> Packed:
    """Pack a batch.

    Args:
        prompts: P lists of tokens.
        tokens: (N, T) int64, G completions of each prompt, in order.
        lengths: (N,) int64, the tokens of each completion.
    """
    P, N, T = len(prompts), *tokens.shape
    G = N // P
    completions = [tuple(row[:n]) for row, n in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    rows: list[list[int]] = []  # the tokens of each packed row
    texts: list[list[int]] = []  # 0 for the prompt, k for its k-th distinct completion
    places: list[list[int]] = []
    where: list[list[int]] = []  # per distinct completion, (row, first predicting place, last)
    of: list[int] = []
    for number, prompt in enumerate(prompts):
        row, text, place = list(prompt), [0] * len(prompt), list(range(len(prompt)))
        seen: dict[tuple[int, ...], int] = {}
        for completion in completions[number * G : (number + 1) * G]:
            if completion not in seen:
                seen[completion] = len(where)
                start = len(row)
                where.append([number, len(prompt) - 1, start, len(completion)])
                row += completion[:-1]  # nothing is predicted from the last token
                text += [len(seen)] * (len(completion) - 1)
                place += range(len(prompt), len(prompt) + len(completion) - 1)
            of.append(seen[completion])
        rows.append(row)
        texts.append(text)
        places.append(place)
    L = max(map(len, rows))
    owner = _padded(texts, L, -1)  # (P, L)
    sees = (owner[:, :, None] == owner[:, None, :]) | (owner[:, None, :] == 0)
    return Packed(
        tokens=_padded(rows, L, 0),
        positions=_padded(places, L, 0),
        sees=sees.tril()[:, None],
        where=torch.tensor(
            [
                [
                    number * L + (end_of_prompt if t == 0 else start + t - 1) if t < length else 0
                    for t in range(T)
                ]
                for number, end_of_prompt, start, length in where
            ]
        ),
        of=torch.tensor(of),
    )


def completion_logits(model: TinyModel, packed: Packed) -> Tensor:
    """Return the logits that predicted each token: (U, T, V); meaningless under padding."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=packed.sees)

    hidden = model.hidden(packed.tokens, packed.positions, attend)  # (P, L, C)
    return model.logits(hidden.flatten(0, 1)[packed.where])


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> Tensor:
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
