"""Loop C, whole: sample, score, compare within the group, push the good ones up. Read it downwards.

One step takes P prompts and G completions of each from the policy as it is now (on-policy), scores
them, turns rewards into advantages, and moves the weights once along the policy gradient. A frozen
copy of the first weights is the reference, from which the KL is measured and, if asked, paid for.

It leaves out files, the terminal and the plots. A step is a function of (weights, optimiser, seed,
step number), so a run that was stopped continues exactly.

    trainer = Trainer(policy, examples, scorer, TrainConfig())
    for step in trainer.run(): print(step.metrics["reward"])

Shapes: P prompts, G samples each, N = P x G, T new tokens at most, U distinct completions.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course.core.errors import DivergedError
from course.core.records import Example
from course.learning import losses
from course.learning.advantages import Advantage, RunningMean, leave_one_out
from course.learning.kl import Kind, Place, exact_kl, kl_estimate
from course.learning.packing import Packed, completion_logits, pack
from course.policy.completer import How
from course.policy.sampling import Drawn, draw
from course.policy.tiny import TinyPolicy
from course.scoring.contract import Score

WATCHED = 8
"""Groups of a batch on which entropy and exact KL are measured at every step."""


@dataclass(frozen=True)
class TrainConfig:
    """All that decides what a run does, besides policy, data and scorer."""

    seed: int = 0
    steps: int = 150
    prompts: int = 32
    """P: problems in a batch."""
    group_size: int = 16
    """G: completions of each."""
    learning_rate: float = 1.5e-4
    final_share: float = 0.1
    """The learning rate falls linearly to this share of its peak."""
    warmup: int = 5
    epochs: int = 1
    """Optimiser steps on each batch; more than one uses clipped ratios."""
    ratio_clip: float = 0.2
    grad_clip: float = 1.0
    temperature: float = 1.0
    max_new_tokens: int = 12
    kl_coef: float = 0.0
    """beta: how much a nat of KL costs, in reward."""
    kl_kind: Kind = "k1"
    kl_place: Place = "reward"
    entropy_coef: float = 0.0


@dataclass(frozen=True)
class Parts:
    """What a student may replace; the defaults are the reference."""

    advantage: Advantage = leave_one_out
    loss: Callable[[Tensor, Tensor, Tensor], Tensor] = losses.policy_gradient_loss
    kl: Callable[[Tensor, Tensor, Tensor, Kind], Tensor] = kl_estimate


class Step(NamedTuple):
    """What one step did."""

    number: int
    """From 1."""
    metrics: dict[str, Any]
    batch: "Batch"


class Batch(NamedTuple):
    """What was sampled for one step, and what it earned."""

    examples: list[Example]
    """P."""
    prompts: list[list[int]]
    """P lists of tokens."""
    drawn: Drawn
    texts: list[str]
    """N."""
    scores: list[Score]
    """N."""


class Trainer:
    """A training run in progress."""

    def __init__(
        self,
        policy: TinyPolicy,
        examples: Sequence[Example],
        score: Callable[[dict[str, Any], str], Score],
        config: TrainConfig,
        parts: Parts | None = None,
        full_reward: float = 1.0,
    ) -> None:
        self.policy, self.config, self.parts = policy, config, parts or Parts()
        self.examples, self.score, self.full_reward = list(examples), score, full_reward
        self.model = policy.model.requires_grad_(True)
        self.reference = copy.deepcopy(policy.model).requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.done = 0

    def run(self) -> Iterator[Step]:
        """Train from where it stands to the end.

        Raises: DivergedError when the loss or the gradient is no longer a number.
        """
        while self.done < self.config.steps:
            batch = self.sample(self.done)
            metrics = self.learn(batch, self.done)
            self.done += 1
            yield Step(self.done, {"step": self.done, **metrics}, batch)

    # ---- sample ----------------------------------------------------------------------------

    def sample(self, step: int) -> Batch:
        """Draw the batch of a step from the policy as it is, and score it."""
        config = self.config
        examples = [self.examples[index] for index in self._indices(step)]
        prompts = [self.policy.encode(example.prompt) for example in examples]
        seed = config.seed * 1_000_003 + step  # other noise at every step
        how = How(config.group_size, config.temperature, 1.0, config.max_new_tokens, seed)
        drawn = draw(self.policy.decoder, prompts, [example.id for example in examples], how)
        texts, scores = self._score(examples, drawn)
        return Batch(examples, prompts, drawn, texts, scores)

    def _indices(self, step: int) -> list[int]:
        """Go through the examples in an order of its own each time, without a gap between."""
        size = len(self.examples)
        chosen: list[int] = []
        for number in range(step * self.config.prompts, (step + 1) * self.config.prompts):
            epoch, place = divmod(number, size)
            if not chosen or place == 0:
                generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
                order = torch.randperm(size, generator=generator).tolist()
            chosen.append(order[place])
        return chosen

    def _score(self, examples: Sequence[Example], drawn: Drawn) -> tuple[list[str], list[Score]]:
        """Score every completion; equal texts of one example are scored once."""
        texts, scores = [], []
        known: dict[tuple[int, str], Score] = {}
        rows = zip(
            drawn.tokens.tolist(), drawn.lengths.tolist(), drawn.stopped.tolist(), strict=True
        )
        for number, (tokens, length, stopped) in enumerate(rows):
            which = number // self.config.group_size
            text = self.policy.decode(tokens[: length - stopped])
            if (which, text) not in known:
                known[which, text] = self.score(_given(examples[which]), text)
            texts.append(text)
            scores.append(known[which, text])
        return texts, scores

    # ---- learn -----------------------------------------------------------------------------

    def learn(self, batch: Batch, step: int) -> dict[str, Any]:
        """Move the weights by one batch; return what was measured on the way."""
        config, drawn = self.config, batch.drawn
        P, G = config.prompts, config.group_size
        T = drawn.tokens.shape[1]
        mask = written(drawn.lengths, T)
        scored = torch.tensor([score.reward is not None for score in batch.scores])
        rewards = torch.tensor([score.reward or 0.0 for score in batch.scores])
        paid = rewards
        watched = torch.arange(P) < WATCHED
        if config.kl_coef and config.kl_place == "reward":
            with torch.no_grad():
                reference = self._logprobs(self.reference, batch, torch.ones(P, dtype=torch.bool))
            kl = self.parts.kl(drawn.logprobs, reference.logprobs, mask, config.kl_kind)
            paid = rewards - config.kl_coef * kl
        advantages = self.parts.advantage(paid.view(P, G), scored.view(P, G))  # (P, G)
        signal = (advantages != 0).any(-1)  # (P,): the others have nothing to say
        used = signal | watched
        if config.kl_place == "loss" and config.kl_coef:
            used = torch.ones(P, dtype=torch.bool)
        metrics = _metrics(batch, rewards, scored, advantages, signal, mask, self.full_reward)
        for epoch in range(config.epochs):
            now = self._logprobs(self.model, batch, used)
            loss = self._loss(now, batch, advantages, mask, used)
            if epoch == 0:
                metrics |= self._watch(now, batch, mask, used)
            metrics |= self._update(loss, step)
        return metrics

    def _loss(
        self, now: "LogProbs", batch: Batch, advantages: Tensor, mask: Tensor, used: Tensor
    ) -> Tensor:
        """The loss of the groups that were computed, as a mean over the whole batch."""
        config = self.config
        rows = used.repeat_interleave(config.group_size)
        share = float(rows.sum()) / len(rows)
        mine, weights = mask[rows], advantages.flatten()[rows]
        if config.epochs > 1:
            old = batch.drawn.logprobs[rows]
            loss = losses.clipped_loss(now.logprobs, old, weights, mine, config.ratio_clip)
        else:
            loss = self.parts.loss(now.logprobs, weights, mine)
        loss = loss * share
        if config.kl_coef and config.kl_place == "loss":
            with torch.no_grad():
                reference = self._logprobs(self.reference, batch, used).logprobs
            estimate = self.parts.kl(now.logprobs, reference, mine, config.kl_kind)
            loss = loss + config.kl_coef * estimate.mean() * share
        if config.entropy_coef:
            bonus = losses.entropy(now.logits[now.packed.of], mine)
            loss = loss - config.entropy_coef * bonus * share
        return loss

    def _update(self, loss: Tensor, step: int) -> dict[str, Any]:
        config = self.config
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch ships no type for it
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        if not math.isfinite(loss.item()) or not math.isfinite(norm.item()):
            raise DivergedError(
                f"The loss is {loss.item()} and the gradient's norm {norm.item()} at step "
                f"{step + 1}: the policy has diverged. Lower the learning rate."
            )
        rate = config.learning_rate * min(1.0, (step + 1) / config.warmup)
        rate *= 1 - (1 - config.final_share) * step / config.steps
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        return {"loss": loss.item(), "grad_norm": norm.item(), "learning_rate": rate}

    def _watch(self, now: "LogProbs", batch: Batch, mask: Tensor, used: Tensor) -> dict[str, Any]:
        """Measure what needs the network: mismatch, entropy and exact KL, before the update."""
        rows = used.repeat_interleave(self.config.group_size)
        mine = mask[rows]
        sampled = batch.drawn.logprobs[rows]
        mismatch = torch.where(mine, now.logprobs.detach() - sampled, 0.0).abs().max()
        few = torch.arange(len(used)) < WATCHED
        with torch.no_grad():
            reference = self._logprobs(self.reference, batch, few)
            policy = now.logits.detach()[now.packed.of]  # (rows, T, V); the watched come first
            count = len(reference.packed.of)
            logits, ref_logits = policy[:count], reference.logits[reference.packed.of]
            first = mask[:count]
            return {
                "logprob_mismatch": mismatch.item(),
                "entropy": losses.entropy(logits, first).item(),
                "kl": exact_kl(logits, ref_logits, first).mean().item(),
            }

    def _logprobs(self, model: Any, batch: Batch, groups: Tensor) -> "LogProbs":
        """Compute the completions of some groups, (P,) bool, under a model."""
        G = self.config.group_size
        rows = groups.repeat_interleave(G)
        prompts = [
            prompt for prompt, wanted in zip(batch.prompts, groups.tolist(), strict=True) if wanted
        ]
        tokens = batch.drawn.tokens[rows]
        packed = pack(prompts, tokens, batch.drawn.lengths[rows])
        logits = completion_logits(model, packed)  # (U, T, V)
        one_of = torch.zeros(len(packed.where), dtype=torch.int64)
        one_of[packed.of] = torch.arange(len(packed.of))
        distinct = losses.token_logprobs(logits, tokens[one_of])  # (U, T)
        return LogProbs(distinct[packed.of], logits, packed)

    # ---- stop and go on --------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to continue."""
        advantage = self.parts.advantage
        running = (advantage.mean, advantage.seen) if isinstance(advantage, RunningMean) else None
        return {
            "done": self.done,
            "model": self.model.state_dict(),
            "reference": self.reference.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "running_mean": running,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.done = state["done"]
        self.model.load_state_dict(state["model"])
        self.reference.load_state_dict(state["reference"])
        self.optimiser.load_state_dict(state["optimiser"])
        if isinstance(self.parts.advantage, RunningMean) and state["running_mean"]:
            self.parts.advantage.mean, self.parts.advantage.seen = state["running_mean"]


class LogProbs(NamedTuple):
    """A forward pass over some groups."""

    logprobs: Tensor
    """(rows, T), of the sampled tokens."""
    logits: Tensor
    """(U, T, V), of the distinct completions."""
    packed: Packed


def written(lengths: Tensor, width: int) -> Tensor:
    """Mask the tokens that the policy wrote, its end included: (N,) lengths to (N, width) bool."""
    return torch.arange(width) < lengths[:, None]


def _metrics(
    batch: Batch,
    rewards: Tensor,
    scored: Tensor,
    advantages: Tensor,
    signal: Tensor,
    mask: Tensor,
    full_reward: float,
) -> dict[str, Any]:
    """What a batch shows before anything is learned from it."""
    drawn, count = batch.drawn, max(1, int(scored.sum()))
    N = len(rewards)
    distinct = len({(n * len(batch.prompts) // N, text) for n, text in enumerate(batch.texts)})
    passed = (rewards >= full_reward) & scored
    return {
        "reward": float(rewards[scored].sum()) / count,
        "pass_rate": float(passed.sum()) / count,
        "n_unscored": N - int(scored.sum()),
        "advantage_mean": advantages.mean().item(),
        "advantage_std": advantages.std().item(),
        "no_signal_share": 1 - float(signal.sum()) / len(signal),
        "length_mean": drawn.lengths.double().mean().item(),
        "truncated_share": 1 - drawn.stopped.double().mean().item(),
        "trained_tokens_mean": mask.sum(-1).double().mean().item(),
        "eos_trained_share": (
            float(mask.gather(1, drawn.lengths[:, None] - 1)[drawn.stopped].sum())
            / max(1, int(drawn.stopped.sum()))
        ),
        "duplicate_share": 1 - distinct / N,
    }


def _given(example: Example) -> dict[str, Any]:
    """An example as a scorer gets it."""
    return {
        "id": example.id,
        "prompt": example.prompt,
        "expected_answer": example.expected_answer,
        "metadata": example.metadata or {},
    }
