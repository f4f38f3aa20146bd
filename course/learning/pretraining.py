"""Build the base policy: supervised learning of arithmetic, words and bad habits.

Two stages of one loop. First equations alone, then equations, clean answers and demonstrations
together (words first and sums later forgets the sums). Texts are packed into rows and cannot see
each other; the loss is on the targets alone. Muon (Jordan et al. 2024) moves the blocks' matrices,
AdamW (arXiv:1711.05101) the embedding and the norms.

Every batch is a function of (seed, stage, step), so a run that was stopped continues exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from course.core.errors import DivergedError
from course.learning.corpus import Corpus, Item, build_corpus
from course.policy.model import ModelConfig, TinyModel

WIDTH = 96
"""Tokens in a row of packed texts."""


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own mixture and learning rate."""

    name: str
    steps: int
    rows: int
    """Packed rows in a batch, of ``WIDTH`` tokens."""
    learning_rate: float
    mixture: tuple[float, float, float]
    """How often equations, clean items and demonstrations are drawn."""


@dataclass(frozen=True)
class Recipe:
    """All that decides what the base policy becomes, besides the code."""

    seed: int = 0
    equations: int = 40_000
    clean: int = 50_000
    demonstrations: int = 50_000
    stages: tuple[Stage, ...] = (
        Stage("equations", 450, 32, 4e-3, (1.0, 0.0, 0.0)),
        Stage("words", 1050, 64, 3e-3, (0.30, 0.32, 0.38)),
    )
    weight_decay: float = 0.1
    warmup: int = 60
    final_share: float = 0.03
    """The learning rate falls linearly to this share of its peak, in each stage."""
    clip: float = 1.0

    @property
    def steps(self) -> int:
        """Steps of all stages together."""
        return sum(stage.steps for stage in self.stages)

    def shortened(self, steps: int) -> "Recipe":
        """The same recipe with so many steps in all, shared out as before, at least one a stage."""
        share = steps / self.steps
        first = [
            replace(stage, steps=max(1, round(stage.steps * share))) for stage in self.stages[:-1]
        ]
        rest = max(1, steps - sum(stage.steps for stage in first))
        return replace(self, stages=(*first, replace(self.stages[-1], steps=rest)))


class Batch(NamedTuple):
    """R packed rows of T tokens."""

    tokens: Tensor
    """(R, T) int64."""
    positions: Tensor
    """(R, T) int64: each text counts from 0."""
    texts: Tensor
    """(R, T) int64: which text of its row a token belongs to."""
    where: Tensor
    """(K,) int64: the flat places in (R x T) whose next token is learned."""
    targets: Tensor
    """(K,) int64: those next tokens."""


class StepReport(NamedTuple):
    """What one step measured."""

    step: int
    stage: str
    loss: float
    """Mean cross-entropy over the target tokens, in nats."""
    grad_norm: float
    learning_rate: float


class Pretraining:
    """The run in progress: a model, its optimisers, and how far it has come."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe = recipe
        self.done = 0
        sizes = (recipe.equations, recipe.clean, recipe.demonstrations)
        self.corpus = build_corpus(tokenizer, sizes, recipe.seed)
        self.model = TinyModel(ModelConfig(tokenizer.get_vocab_size()))
        self.model.initialise(torch.Generator().manual_seed(recipe.seed))
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for name, weight in self.model.named_parameters():
            (matrices if weight.dim() == 2 and "embed" not in name else others).append(weight)
        self.optimisers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices,
                momentum=0.95,
                weight_decay=recipe.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def run(self) -> Iterator[StepReport]:
        """Train from where it stands to the end, one report a step.

        Raises: DivergedError when the loss is no longer a number.
        """
        while self.done < self.recipe.steps:
            stage, within = self._stage_at(self.done)
            rate = stage.learning_rate * schedule(within, stage.steps, self.recipe)
            batch = make_batch(self.corpus, stage, Random(f"{self.recipe.seed} {self.done}"))
            self.model.zero_grad(set_to_none=True)
            loss = loss_of_batch(self.model, batch)
            loss.backward()  # type: ignore[no-untyped-call]  # torch ships no type for it
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
            if not math.isfinite(loss.item()):
                raise DivergedError(
                    f"The loss is {loss.item()} at step {self.done + 1}: the weights diverged. "
                    "Begin anew, with another --seed."
                )
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = rate
                optimiser.step()
            self.done += 1
            yield StepReport(self.done, stage.name, loss.item(), norm.item(), rate)

    def state(self) -> dict[str, Any]:
        """Return all that is needed to continue."""
        return {
            "done": self.done,
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.done = state["done"]
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)

    def _stage_at(self, step: int) -> tuple[Stage, int]:
        for stage in self.recipe.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        raise IndexError(step)


def loss_of_batch(model: TinyModel, batch: Batch) -> Tensor:
    """Mean cross-entropy of the targets, in nats."""
    same_text = batch.texts[:, None, :, None] == batch.texts[:, None, None, :]  # (R, 1, T, T)
    mask = same_text.tril()

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    hidden = model.hidden(batch.tokens, batch.positions, attend)  # (R, T, C)
    return F.cross_entropy(model.logits(hidden.flatten(0, 1)[batch.where]), batch.targets)


def make_batch(corpus: Corpus, stage: Stage, rng: Random) -> Batch:
    """Pack drawn texts into rows; what room a row has left is filled with equations."""
    channels = (corpus.equations, corpus.clean, corpus.demonstrations)
    tokens, positions, texts = (torch.zeros(stage.rows, WIDTH, dtype=torch.int64) for _ in range(3))
    where: list[int] = []
    targets: list[int] = []
    for number in range(stage.rows):
        row: list[int] = []
        places: list[int] = []
        owners: list[int] = []
        for count, item in enumerate(_fill(channels, stage.mixture, rng), start=1):
            start = number * WIDTH + len(row) + len(item.prompt) - 1
            where += range(start, start + len(item.target))
            targets += item.target
            text = [*item.prompt, *item.target[:-1]]  # the last token has nothing to predict
            row += text
            places += range(len(text))
            owners += [count] * len(text)
        tokens[number, : len(row)] = torch.tensor(row)
        positions[number, : len(row)] = torch.tensor(places)
        texts[number, : len(row)] = torch.tensor(owners)
    return Batch(tokens, positions, texts, torch.tensor(where), torch.tensor(targets))


def _fill(channels: Sequence[list[Item]], mixture: Sequence[float], rng: Random) -> Iterator[Item]:
    """Draw the texts of one row."""
    room = WIDTH
    while True:
        item = rng.choice(rng.choices(channels, mixture)[0])
        if _length(item) > room:
            break
        room -= _length(item)
        yield item
    while True:
        item = rng.choice(channels[0])
        if _length(item) > room:
            return
        room -= _length(item)
        yield item


def _length(item: Item) -> int:
    return len(item.prompt) + len(item.target) - 1


def schedule(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate's share of its peak: linear warm-up, then linear decay."""
    warm = min(1.0, (step + 1) / recipe.warmup)
    past = max(0, step - recipe.warmup) / max(1, steps - recipe.warmup)
    return warm * (1 - (1 - recipe.final_share) * past)
