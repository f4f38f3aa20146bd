"""The base policy's card: what it can do, what it does, and why no cheap trick replaces learning.

    python -m course.pretrain --measure tiny

All rates are of ``final_answer`` on held-out problems. The tricks that a bright student would try
first (greedy decoding, a lower temperature, the likeliest of 16 samples) must all stay well below
what the policy could do if it only said what it knows: the forced answer and the majority.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course.core.records import Example, Sample
from course.evaluation.intervals import ClusterSums, Interval, pass_rate_interval, wilson
from course.policy.completer import How, Request
from course.policy.tiny import TinyPolicy
from course.policy.tokenizer import encode, encode_prompt
from course.scoring.final_answer import score
from course.scoring.parsing import parse_final

SAMPLES = 16
TEMPERATURES = (0.3, 0.5, 0.7)
FORCED = "Final: "
LIMIT = 12
COMMON = 0.01
"""An outcome counts as one of the policy's habits from this share on."""

Samples = list[list[Sample]]


@dataclass(frozen=True)
class Card:
    """What was measured; every rate with its 95 % interval."""

    examples: int
    seed: int
    pass_at_1: Interval
    """T = 1, 16 samples a problem, clustered by problem."""
    pass_at_16: Interval
    outcomes: dict[str, Interval]
    """The share of each outcome code at T = 1, commonest first, clustered by problem."""
    forced: Interval
    """After a forced ``Final: `` the likeliest token is the right value."""
    forced_by_operation: dict[str, Interval]
    greedy: Interval
    by_temperature: dict[float, Interval]
    likeliest_of_16: Interval
    """The sample with the highest log-probability is right."""
    majority_of_16: Interval
    """The commonest parsed answer is right; a tie goes to the likelier sample."""


def measure(
    policy: TinyPolicy,
    examples: Sequence[Example],
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Card:
    """Measure a policy on held-out problems.

    Args:
        examples: with ``metadata.operation``, by which the forced answers are told apart.
        progress: called with how many of the ``steps_of_measure`` batches are done.
    """
    requests = [Request(example.id, example.prompt) for example in examples]
    policy.check(requests, How(max_new_tokens=LIMIT))
    done = 0

    def sampled(how: How) -> Samples:
        nonlocal done
        made: Samples = []
        for start in range(0, len(examples), policy.chunk):
            answers = policy.complete(requests[start : start + policy.chunk], how)
            made += [[sample for sample in group if sample] for group in answers]
            done += 1
            progress(done)
        return made

    packs = sampled(How(SAMPLES, max_new_tokens=LIMIT, seed=seed))
    rewards = _rewards(examples, packs)
    forced = _forced(policy, examples)
    by_operation: dict[str, list[bool]] = defaultdict(list)
    for example, right in zip(examples, forced, strict=True):
        by_operation[str((example.metadata or {}).get("operation", "all"))].append(right)
    return Card(
        examples=len(examples),
        seed=seed,
        pass_at_1=_clustered(rewards),
        pass_at_16=_rate([max(group) == 1 for group in rewards]),
        outcomes=_outcomes(examples, packs),
        forced=_rate(forced),
        forced_by_operation={name: _rate(by_operation[name]) for name in sorted(by_operation)},
        greedy=_clustered(_rewards(examples, sampled(How(temperature=0.0, max_new_tokens=LIMIT)))),
        by_temperature={
            temperature: _clustered(
                _rewards(
                    examples,
                    sampled(How(SAMPLES, temperature, max_new_tokens=LIMIT, seed=seed)),
                )
            )
            for temperature in TEMPERATURES
        },
        likeliest_of_16=_rate(
            [group[_likeliest(pack)] == 1 for group, pack in zip(rewards, packs, strict=True)]
        ),
        majority_of_16=_rate(
            [
                _majority(pack) == str(e.expected_answer)
                for e, pack in zip(examples, packs, strict=True)
            ]
        ),
    )


def batches_of(policy: TinyPolicy, examples: int) -> int:
    """How many batches ``measure`` samples, for a progress bar."""
    return -(-examples // policy.chunk) * (2 + len(TEMPERATURES))


def claims(card: Card) -> list[tuple[str, bool]]:
    """Hold the card against what the course needs of its base policy."""
    best = max(
        card.pass_at_1.rate, card.greedy.rate, *(i.rate for i in card.by_temperature.values())
    )
    common = [code for code, share in card.outcomes.items() if share.rate > COMMON]
    weakest = min(interval.rate for interval in card.forced_by_operation.values())
    return [
        ("pass@1 is between .20 and .35", 0.20 <= card.pass_at_1.rate <= 0.35),
        ("pass@16 is at least .98", card.pass_at_16.rate >= 0.98),
        ("at least seven outcomes are above 1 %", len(common) >= 7),
        ("the forced answer is right on at least .97", card.forced.rate >= 0.97),
        ("and on at least .92 of each operation", weakest >= 0.92),
        ("greedy stays at or below .55", card.greedy.rate <= 0.55),
        ("no temperature gets beyond .60", best <= 0.60),
        ("the likeliest of 16 stays at or below .65", card.likeliest_of_16.rate <= 0.65),
        ("the majority of 16 reaches .80", card.majority_of_16.rate >= 0.80),
    ]


def table(card: Card) -> str:
    """Write the card's numbers as a Markdown table."""
    rows = [
        ("pass@1, T = 1", card.pass_at_1),
        ("pass@16, T = 1", card.pass_at_16),
        ("greedy (T = 0)", card.greedy),
        *((f"pass@1, T = {t:g}", interval) for t, interval in card.by_temperature.items()),
        ("the likeliest of 16 samples", card.likeliest_of_16),
        ("the majority of 16 samples", card.majority_of_16),
        (f"the likeliest value after a forced `{FORCED}`", card.forced),
        *((f"- {name}", interval) for name, interval in card.forced_by_operation.items()),
    ]
    lines = ["| what | rate | 95 % interval |", "|---|---|---|"]
    lines += [f"| {name} | {i.rate:.3f} | {i.low:.3f} to {i.high:.3f} |" for name, i in rows]
    lines += ["", "| outcome at T = 1 | share | 95 % interval |", "|---|---|---|"]
    lines += [
        f"| `{code}` | {i.rate:.3f} | {i.low:.3f} to {i.high:.3f} |"
        for code, i in card.outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def _rewards(examples: Sequence[Example], packs: Samples) -> list[list[float]]:
    return [
        [score({"expected_answer": example.expected_answer}, s.completion)["reward"] for s in pack]
        for example, pack in zip(examples, packs, strict=True)
    ]


def _outcomes(examples: Sequence[Example], packs: Samples) -> dict[str, Interval]:
    codes = [
        [
            score({"expected_answer": e.expected_answer}, s.completion)["details"]["code"]
            for s in pack
        ]
        for e, pack in zip(examples, packs, strict=True)
    ]
    shares = {
        code: _clustered([[float(one == code) for one in group] for group in codes])
        for code in sorted({code for group in codes for code in group})
    }
    return dict(sorted(shares.items(), key=lambda item: (-item[1].rate, item[0])))


def _likeliest(pack: Sequence[Sample]) -> int:
    return max(range(len(pack)), key=lambda index: _logprob(pack[index]))


def _majority(pack: Sequence[Sample]) -> str | None:
    votes: Counter[str] = Counter()
    best: dict[str, float] = {}
    for sample in pack:
        parsed = parse_final(sample.completion)
        if parsed.code == "ok" and parsed.answer is not None:
            votes[parsed.answer] += 1
            best[parsed.answer] = max(best.get(parsed.answer, -1e9), _logprob(sample))
    return max(votes, key=lambda answer: (votes[answer], best[answer])) if votes else None


def _logprob(sample: Sample) -> float:
    return sample.sum_logprob if sample.sum_logprob is not None else float("-inf")


@torch.no_grad()
def _forced(policy: TinyPolicy, examples: Sequence[Example]) -> list[bool]:
    right = []
    for start in range(0, len(examples), policy.chunk):
        batch = examples[start : start + policy.chunk]
        tail = encode(policy.tokenizer, FORCED)
        prompts = [[*encode_prompt(policy.tokenizer, e.prompt), *tail] for e in batch]
        likeliest = policy.decoder.start(prompts, 1).argmax(-1).tolist()
        right += [
            policy.tokenizer.id_to_token(token) == str(example.expected_answer)
            for token, example in zip(likeliest, batch, strict=True)
        ]
    return right


def _rate(passed: Sequence[bool]) -> Interval:
    return wilson(sum(passed) / len(passed), len(passed))


def _clustered(rewards: Sequence[Sequence[float]]) -> Interval:
    rates = [sum(group) / len(group) for group in rewards]
    sums = ClusterSums(len(rates), sum(map(len, rewards)), sum(rates), sum(r * r for r in rates))
    interval = pass_rate_interval(sums)
    assert interval is not None, "a card is about at least one problem"
    return interval


def facts(card: Card) -> dict[str, Any]:
    """Write the card as plain data, with what it claims of a base policy."""
    plain = {name: _plain(value) for name, value in vars(card).items()}
    return {**plain, "claims": dict(claims(card))}


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
