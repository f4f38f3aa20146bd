"""The tiny policy writes completions: fast, because nothing is computed twice.

A prompt is read once, and its keys and values serve its whole group. Samples that have written the
same tokens so far are one branch: the network sees it once, however many they are. Samples that
ended are dropped. It chooses no token (``sampling`` does) and touches no weight.

    python -m course.sample --policy tiny:data/models/base ...

Shapes: P prompts of at most S tokens, R rows, U branches, G branches of one prompt at most; H, D, C
and V as in ``model``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course.core.digests import sha256_file
from course.core.paths import recorded
from course.core.records import Sample, SamplingSettings
from course.policy.completer import How, Request
from course.policy.model import TinyModel, causal
from course.policy.model_files import CONFIG, TOKENIZER, WEIGHTS, load_model
from course.policy.sampling import answers, check_lengths, draw
from course.policy.tokenizer import EOS_ID, encode, encode_prompt


class TinyDecoder:
    """Forward passes of a TinyModel that remember what they have computed."""

    stops = frozenset({EOS_ID})

    def __init__(self, model: TinyModel) -> None:
        self.model = model

    def start(self, prompts: Sequence[Sequence[int]], n: int) -> Tensor:
        """Read the prompts; see ``Decoder``."""
        lengths = torch.tensor([len(prompt) for prompt in prompts])  # (P,)
        P, S = len(prompts), int(lengths.max())
        read = torch.arange(S) < lengths[:, None]  # (P, S) the tokens; the others are padding
        prompt, place = read.nonzero(as_tuple=True)  # (all,) both
        grid = Grid(prompt, place, P, S)
        self._read: list[tuple[Tensor, Tensor]] = []  # per layer, keys (P, H, D, S), values

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (grid.spread(x) for x in (q, k, v))  # (P, H, S, D)
            self._read.append((k.transpose(-1, -2).contiguous(), v))
            return grid.collect(causal(layer, q, k, v))

        # Without padding: one long column of tokens, each with its place.
        tokens = torch.tensor([token for prompt in prompts for token in prompt])
        hidden = self.model.hidden(tokens[:, None], place[:, None], attend)  # (all, 1, C)
        self._hide = torch.where(read, 0.0, -torch.inf)[:, None, None]  # (P, 1, 1, S)
        self._lengths = lengths
        self._written = [(v[:, :, :0], v[:, :, :0]) for _, v in self._read]  # (U, H, t, D)
        self._prompt = torch.arange(P)  # (U,) of each branch
        self._branch = self._prompt.repeat_interleave(n)  # (R,) of each row
        return self.model.logits(hidden[lengths.cumsum(0) - 1, 0])

    def step(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Go on by one token; see ``Decoder``."""
        V = self.model.config.vocab_size
        # Ascending, so the branches of one prompt stand together.
        branches, self._branch = torch.unique(self._branch[keep] * V + tokens, return_inverse=True)
        parent, token = branches // V, branches % V  # (U,)
        prompt = self._prompt = self._prompt[parent]
        counts = prompt.bincount(minlength=len(self._lengths))  # (P,)
        place = torch.arange(len(prompt)) - (counts.cumsum(0) - counts)[prompt]  # 0 .. G - 1
        grid = Grid(prompt, place, len(counts), int(counts.max()))

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            """Attend to the prompt, as a group, and to what the branch has written."""
            keys, values = (
                torch.cat([old[parent], new], 2)  # (U, H, t, D)
                for old, new in zip(self._written[layer], (k, v), strict=True)
            )
            self._written[layer] = keys, values
            prompt_keys, prompt_values = self._read[layer]
            q = q * q.shape[-1] ** -0.5
            scores = grid.collect(grid.spread(q) @ prompt_keys + self._hide)  # (U, H, 1, S)
            weights = torch.cat([scores, q @ keys.transpose(-1, -2)], -1).softmax(-1)
            S = scores.shape[-1]
            mixed = grid.collect(grid.spread(weights[..., :S]) @ prompt_values)
            return mixed + weights[..., S:] @ values  # (U, H, 1, D)

        at = self._lengths[prompt] + self._written[0][0].shape[2]  # (U,)
        hidden = self.model.hidden(token[:, None], at[:, None], attend)  # (U, 1, C)
        return self.model.logits(hidden[:, 0])[self._branch]


class Grid(NamedTuple):
    """Tokens of P prompts side by side: which token stands in which cell of a P x G grid."""

    prompt: Tensor
    """(U,) int64: the row."""
    place: Tensor
    """(U,) int64: the column, below G."""
    P: int
    G: int

    def spread(self, x: Tensor) -> Tensor:
        """Set out (U, H, 1, X) as (P, H, G, X); empty cells are 0."""
        grid = x.new_zeros(self.P, x.shape[1], self.G, x.shape[3])
        grid[self.prompt, :, self.place] = x[:, :, 0]
        return grid

    def collect(self, grid: Tensor) -> Tensor:
        """Gather (P, H, G, X) as (U, H, 1, X)."""
        return grid[self.prompt, :, self.place][:, :, None]


class TinyPolicy:
    """A ``Completer``: the tiny policy in a folder."""

    chunk = 64

    def __init__(self, name: str, folder: Path) -> None:
        self.model, self.tokenizer = load_model(folder)
        self.decoder = TinyDecoder(self.model)
        self.notes: list[str] = []
        self.facts: dict[str, Any] = {
            "kind": "tiny",
            "name": name,
            "path": recorded(folder),
            "model_sha256": sha256_file(folder / WEIGHTS),
            "tokenizer_sha256": sha256_file(folder / TOKENIZER),
            "config_sha256": sha256_file(folder / CONFIG),
        }

    @property
    def context(self) -> int:
        """The most tokens that prompt and completion may have together."""
        return self.model.config.max_position_embeddings

    def sampling(self, how: How) -> SamplingSettings:
        """Say how the completions are drawn: as was asked."""
        return how.settings()

    def check(self, requests: Sequence[Request], how: How) -> None:
        """Refuse a prompt that leaves no room for the completion."""
        name = self.facts["name"]
        check_lengths(requests, how, encode=self.encode, context=self.context, name=name)

    def complete(self, requests: Sequence[Request], how: How) -> list[list[Sample | None]]:
        """Answer each request with ``how.n`` samples; see ``Completer``."""
        if not requests:
            return []
        prompts = [self.encode(request.prompt) for request in requests]
        drawn = draw(self.decoder, prompts, [request.id for request in requests], how)
        return answers(drawn, how.n, self.decode)

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens that the model is given for a prompt."""
        return encode_prompt(self.tokenizer, prompt)

    def encode_text(self, text: str) -> list[int]:
        """Return the tokens of a text that the model might write."""
        return encode(self.tokenizer, text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a completion, all of it."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def piece(self, token: int) -> str:
        """Return a token as text, or its name when it is only a part of a character."""
        text = self.decode([token])
        return self.tokenizer.id_to_token(token) or text if "\ufffd" in text else text
