"""The seam between who writes completions and who asks for them.

A ``Completer`` is anything that answers prompts with text: the tiny policy, a Hugging Face model,
a file of frozen completions, later a served model. Whoever asks knows only what stands here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from course.core.records import Sample, SamplingSettings

FinishReason = Literal["stop", "length"]


class Request(NamedTuple):
    """One prompt, and how many completions of it are wanted (sample indices 0 .. n-1)."""

    id: str
    prompt: str


@dataclass(frozen=True)
class How:
    """How to sample. Greedy is temperature 0."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 16
    seed: int = 0

    def settings(self) -> SamplingSettings:
        """Say it as the manifest does, for the Locked Room."""
        return SamplingSettings(
            temperature=self.temperature,
            top_p=self.top_p,
            max_new_tokens=self.max_new_tokens,
            n=self.n,
            greedy=self.temperature == 0,
            seed=self.seed,
        )


class Completer(Protocol):
    """Who writes completions."""

    @property
    def facts(self) -> dict[str, Any]:
        """Name the policy for the manifest: kind, name, and hashes that identify it. No secrets."""

    @property
    def notes(self) -> list[str]:
        """What the user should know about this policy, one sentence each."""

    @property
    def chunk(self) -> int:
        """How many requests to pass at once: fixed, so that a resumed run computes alike."""

    def sampling(self, how: How) -> SamplingSettings | None:
        """Say for the manifest how completions are drawn; None when that is not known."""

    def check(self, requests: Sequence[Request], how: How) -> None:
        """Raise UsageError or DataError for what cannot be answered, before any work is done."""

    def complete(self, requests: Sequence[Request], how: How) -> list[list[Sample | None]]:
        """Answer each request with ``how.n`` samples; None where the policy has none to give.

        A sample's ``sum_logprob`` is the policy's own: natural log, temperature 1, untruncated,
        over all its tokens, the end-of-sequence token included where it was written;
        ``num_tokens`` counts the same. ``finish_reason`` is ``stop`` or ``length``.
        """
