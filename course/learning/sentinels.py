"""Sentinels: they watch a run's metrics and say what looks wrong, and what the likely cause is.

Each looks at the rows of ``metrics.jsonl`` up to now and needs nothing else. A *stop* means that
what is trained is not what was meant, so going on is a waste; a *warning* may have a good reason. A
healthy run from the shipped base to .95 is silent: that is tested, as is every alarm, by planting
its bug.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]
"""One step's metrics."""

MISMATCH = 0.01
"""Nats by which learner and sampler may differ on a token: rounding is 1e-5."""

SHIFTED = 1.0
"""Nats from which a mismatch is no longer a temperature, but another token."""

KL_LIMIT = 10.0
"""Nats a completion: an honest run of this course spends about two."""

SURE = 0.02
"""Nats of entropy a token below which a policy has made up its mind."""

LIVELY = 0.2
"""Nats of entropy a token from which samples of one group should differ."""


class Alarm(NamedTuple):
    """What a sentinel says."""

    name: str
    step: int
    message: str
    """What was seen, and the likely cause."""
    stop: bool


Sentinel = Callable[[Sequence[Row]], Alarm | None]


def alarms(rows: Sequence[Row]) -> list[Alarm]:
    """Let every sentinel look at the rows so far; the last row is now.

    Args:
        rows: the metrics of steps 1 to now, in order.
    Returns: the alarms of this step, stops first.
    """
    raised = [alarm for sentinel in SENTINELS if (alarm := sentinel(rows))]
    return sorted(raised, key=lambda alarm: not alarm.stop)


def log_probs_differ(rows: Sequence[Row]) -> Alarm | None:
    """The learner must see the very log-probs that the sampler drew from."""
    now = rows[-1]
    value = now["logprob_mismatch"]
    if value <= MISMATCH:
        return None
    cause = (
        "The log-probs are of other tokens: a shift by one between logits and tokens, most likely."
        if value > SHIFTED
        else "Small and systematic: was it sampled at another temperature, or by older weights?"
    )
    message = f"learner and sampler differ by {value:.3g} nats on a token. {cause}"
    return Alarm("logprob_mismatch", now["step"], message, True)


def mask_too_wide(rows: Sequence[Row]) -> Alarm | None:
    """Only tokens that the policy wrote may be trained."""
    now = rows[-1]
    trained, written = now["trained_tokens_mean"], now["length_mean"]
    if trained <= written + 1e-6:
        return None
    message = (
        f"{trained:.2f} tokens of a completion are trained, and it has {written:.2f}. The mask "
        "holds padding or the prompt."
    )
    return Alarm("mask_too_wide", now["step"], message, True)


def end_not_trained(rows: Sequence[Row]) -> Alarm | None:
    """Ending is an action; a policy that is never rewarded for it forgets to."""
    now = rows[-1]
    share = now["eos_trained_share"]
    if share > 0.999 or now["truncated_share"] == 1:
        return None
    message = (
        f"the end-of-sequence token is trained in {share:.0%} of the completions that have one. "
        "The mask leaves it out."
    )
    return Alarm("end_not_trained", now["step"], message, True)


def equal_samples(rows: Sequence[Row]) -> Alarm | None:
    """Samples of an undecided policy differ."""
    now = rows[-1]
    if now["no_signal_share"] < 0.9 or now["entropy"] < LIVELY:
        return None
    if now["duplicate_share"] > 0.85:
        cause = "The samples of a group are copies: one seed for all of them, most likely."
    else:
        cause = "The scorer gives all of them the same: does it read the completion?"
    message = (
        f"{now['no_signal_share']:.0%} of the groups teach nothing, though the policy is undecided "
        f"(entropy {now['entropy']:.2f} nats a token). {cause}"
    )
    return Alarm("equal_samples", now["step"], message, now["duplicate_share"] > 0.85)


def kl_explodes(rows: Sequence[Row]) -> Alarm | None:
    """Far from the reference nothing that it knew is left."""
    now = rows[-1]
    if now["kl"] <= KL_LIMIT:
        return None
    message = (
        f"the policy is {now['kl']:.1f} nats a completion away from its reference. The learning "
        "rate is too high, or the sign of the KL is wrong."
    )
    return Alarm("kl_explodes", now["step"], message, True)


def sure_and_wrong(rows: Sequence[Row]) -> Alarm | None:
    """A policy that has made up its mind while it fails has nothing left to try."""
    now = rows[-1]
    if now["entropy"] >= SURE or now["pass_rate"] > 0.5:
        return None
    message = (
        f"entropy is down to {now['entropy']:.3f} nats a token at a pass rate of "
        f"{now['pass_rate']:.2f}: there is nothing left to choose from. The learning rate is too "
        "high, or the sign of the loss is wrong."
    )
    return Alarm("sure_and_wrong", now["step"], message, False)


def does_not_end(rows: Sequence[Row]) -> Alarm | None:
    """Completions that the limit cuts are measured on what they never finished."""
    now = rows[-1]
    if now["truncated_share"] <= 0.5:
        return None
    grown = now["length_mean"] / rows[0]["length_mean"]
    message = (
        f"{now['truncated_share']:.0%} of the completions are cut at the limit; their mean length "
        f"is {grown:.1f} times that of the first step. Does the scorer reward lists of guesses?"
    )
    return Alarm("does_not_end", now["step"], message, False)


def falls(rows: Sequence[Row]) -> Alarm | None:
    """Training makes rewards rise; over twenty steps they should not fall by half."""
    if len(rows) < 20:
        return None
    first = sum(row["reward"] for row in rows[:5]) / 5
    last = sum(row["reward"] for row in rows[-5:]) / 5
    if first <= 0.05 or last >= first / 2:
        return None
    message = (
        f"the mean reward fell from {first:.2f} to {last:.2f}. The sign of the loss is wrong, or "
        "the learning rate destroys what the policy knew."
    )
    return Alarm("reward_falls", rows[-1]["step"], message, True)


def nothing_moves(rows: Sequence[Row]) -> Alarm | None:
    """Advantages without a gradient mean that the loss is cut off from the weights."""
    now = rows[-1]
    if now["grad_norm"] > 0 or now["no_signal_share"] == 1:
        return None
    message = (
        "there are advantages and the gradient is exactly 0: the loss is detached from the weights."
    )
    return Alarm("nothing_moves", now["step"], message, True)


def hacked(rows: Sequence[Row]) -> Alarm | None:
    """What is rewarded rises, and what was meant falls (needs ``audit_pass_rate`` in some rows)."""
    audited = [row for row in rows if row.get("audit_pass_rate") is not None]
    if len(audited) < 2 or audited[-1] is not rows[-1]:
        return None
    best, now = max(row["audit_pass_rate"] for row in audited), audited[-1]
    if now["reward"] <= audited[0]["reward"] + 0.02 or now["audit_pass_rate"] >= best - 0.05:
        return None
    message = (
        f"the reward rose to {now['reward']:.2f} while the audit fell from {best:.2f} to "
        f"{now['audit_pass_rate']:.2f}. The scorer that trains has a leak: read the rollouts."
    )
    return Alarm("reward_hacked", now["step"], message, False)


SENTINELS: tuple[Sentinel, ...] = (
    log_probs_differ,
    mask_too_wide,
    end_not_trained,
    nothing_moves,
    equal_samples,
    kl_explodes,
    falls,
    sure_and_wrong,
    does_not_end,
    hacked,
)
"""Every sentinel, the most certain first."""
