"""A language model of Hugging Face's ``transformers`` writes completions.

Any decoder-only model serves, from the hub or from a folder. The prompt goes through the model's
chat template when it has one, as a single message of the user; else it is given as it is. Code that
comes with a model is never run. It chooses no token (``sampling`` does) and touches no weight.

    python -m course.sample --policy hf:Qwen/Qwen2.5-0.5B-Instruct ...

Shapes: P prompts of at most S tokens, R rows, t tokens so far (padding included), V vocabulary.
"""

import inspect
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from course.core.errors import DataError, MachineError
from course.core.records import Sample, SamplingSettings
from course.policy.completer import How, Request
from course.policy.hf_files import open_model
from course.policy.sampling import answers, check_lengths, draw

LIMITS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")
"""What the configs of different models call their context."""


class HFDecoder:
    """Forward passes of a ``transformers`` model that remember what they have computed."""

    def __init__(self, model: Any, stops: frozenset[int]) -> None:
        self.model, self.stops = model, stops
        self._takes = frozenset(inspect.signature(model.forward).parameters)

    def start(self, prompts: Sequence[Sequence[int]], n: int) -> Tensor:
        """Read the prompts; see ``Decoder``. Padding stands on the left: rows end together."""
        S = max(map(len, prompts))
        tokens = torch.tensor([[0] * (S - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (S - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        self._mask = mask.to(self.model.device)  # (P, S)
        self._cache: Any = None
        # Where in the cache each row of the next `keep` stands: groups share one row until then.
        self._at = torch.arange(len(prompts), device=self.model.device).repeat_interleave(n)
        return self._forward(tokens.to(self.model.device))

    def step(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Go on by one token; see ``Decoder``."""
        at = self._at[keep.to(self._at.device)]  # (R,)
        here = torch.arange(len(at), device=at.device)
        if len(at) != len(self._mask) or not torch.equal(at, here):  # else spare copying it all
            self._cache.reorder_cache(at)  # drops rows, and repeats a prompt's for its group
            self._mask = self._mask[at]
        self._at = here
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(at), 1)], 1)  # (R, t)
        return self._forward(tokens[:, None].to(at.device))

    @torch.no_grad()
    def _forward(self, tokens: Tensor) -> Tensor:
        """Run the model over what is new, (R, S) or (R, 1); return the last logits, (R, V)."""
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        extras = {"position_ids": positions, "logits_to_keep": 1}
        out = self.model(
            input_ids=tokens,
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
            **{name: value for name, value in extras.items() if name in self._takes},
        )
        self._cache = getattr(out, "past_key_values", None)
        if not hasattr(self._cache, "reorder_cache"):
            raise DataError(
                f"A {type(self.model).__name__} cannot be sampled here: it keeps no cache of keys "
                "and values, as decoder-only models of transformers do. Choose one of those."
            )
        logits: Tensor = out.logits[:, -1].float()
        return logits.cpu() if logits.device.type == "mps" else logits  # draws need float64


class HFPolicy:
    """A ``Completer``: a model of ``transformers`` with its tokenizer."""

    chunk = 16

    def __init__(self, model: Any, tokenizer: Any, facts: dict[str, Any]) -> None:
        self.model, self.tokenizer, self.facts = model, tokenizer, facts
        self.decoder = HFDecoder(model, stop_tokens(model, tokenizer))
        self.notes: list[str] = []
        if not self.decoder.stops:
            self.notes.append(
                f"{facts['name']} names no end-of-sequence token: every completion will go on "
                "until --max-new-tokens cuts it."
            )

    @classmethod
    def open(cls, name: str, *, dtype: str = "auto", device: str = "auto") -> "HFPolicy":
        """Open a model by its folder or its name on the hub; see ``open_model``."""
        return cls(*open_model(name, dtype=dtype, device=device))

    @property
    def context(self) -> int | None:
        """The most tokens that prompt and completion may have together, where there is a limit."""
        config = self.model.config.get_text_config()
        return next((getattr(config, name) for name in LIMITS if hasattr(config, name)), None)

    def sampling(self, how: How) -> SamplingSettings:
        """Say how the completions were drawn: as was asked."""
        return how.settings()

    def check(self, requests: Sequence[Request], how: How) -> None:
        """Refuse a prompt without tokens, or one that leaves no room for the completion."""
        for request in requests:
            if not self.encode(request.prompt):
                raise DataError(
                    f"{request.id}: the prompt is empty, and {self.facts['name']} starts no text "
                    "by itself. Give it at least one character."
                )
        name = self.facts["name"]
        check_lengths(requests, how, encode=self.encode, context=self.context, name=name)

    def complete(self, requests: Sequence[Request], how: How) -> list[list[Sample | None]]:
        """Answer each request with ``how.n`` samples; see ``Completer``."""
        if not requests:
            return []
        prompts = [self.encode(request.prompt) for request in requests]
        try:
            drawn = draw(self.decoder, prompts, [request.id for request in requests], how)
        except torch.OutOfMemoryError as error:
            raise MachineError(
                f"{self.facts['device']} has too little memory for {self.chunk} prompts times "
                f"{how.n} samples. Lower --n or --max-new-tokens, or choose --dtype bfloat16."
            ) from error
        return answers(drawn, how.n, self.decode)

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens that the model is given for a prompt.

        A template writes the special tokens itself; without one the tokenizer adds its own, such as
        the beginning of a sequence. So they are there once, never twice.
        """
        if not self.tokenizer.chat_template:
            return list(self.tokenizer(prompt, verbose=False)["input_ids"])
        given = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True
        )
        return list(given["input_ids"])

    def encode_text(self, text: str) -> list[int]:
        """Return the tokens of a text that the model might write."""
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a completion, all of it.

        Special tokens stay: a scorer must see what the policy wrote, and leaving them out could
        turn a wrong text into a right one. Spaces are not tidied for the same reason.
        """
        text = self.tokenizer.decode(
            tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return cast(str, text)

    def piece(self, token: int) -> str:
        """Return a token as text, or its name when it is only a part of a character."""
        text = self.decode([token])
        return str(self.tokenizer.convert_ids_to_tokens(token)) if "\ufffd" in text else text


def stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Find the tokens that end a completion: the first of three places that names any."""
    for place in (model.generation_config, model.config.get_text_config(), tokenizer):
        named = getattr(place, "eos_token_id", None)
        if named is not None:
            return frozenset([named] if isinstance(named, int) else named)
    return frozenset()
