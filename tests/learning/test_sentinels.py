"""Each sentinel is proved by planting its bug in a real run; a healthy run is silent."""

from dataclasses import replace

import pytest
import torch

from course.core.jsonl import JsonlReader
from course.core.paths import DATA
from course.core.records import Example
from course.learning import trainer as loop
from course.learning.losses import policy_gradient_loss
from course.learning.sentinels import alarms
from course.learning.trainer import Parts, TrainConfig, Trainer
from course.policy.model_files import BASE
from course.policy.sampling import draw
from course.policy.tiny import TinyDecoder, TinyPolicy
from course.scoring.contract import Score, checked, load_scorer

EXAMPLES = list(JsonlReader(DATA / "datasets" / "math_train.jsonl", Example))[:2000]
SCORE = checked(load_scorer("final_answer"))
SHORT = TrainConfig(steps=3, prompts=12, group_size=8)


def watch(config=SHORT, *, parts=None, score=SCORE, prepare=lambda trainer: None):
    """Run and collect the alarms by name, with the step each first rang at; stop at a stop."""
    trainer = Trainer(TinyPolicy("base", BASE), EXAMPLES, score, config, parts)
    prepare(trainer)
    rows, rung = [], {}
    for step in trainer.run():
        rows.append(step.metrics)
        for alarm in alarms(rows):
            rung.setdefault(alarm.name, alarm)
        if any(alarm.stop for alarm in rung.values()):
            break
    return rung


def test_a_healthy_start_is_silent():
    """Twenty-five steps, past .9."""
    assert watch(TrainConfig(steps=25, prompts=16, group_size=16)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_healthy_run_is_silent_to_its_end(seed):
    """The whole default run, when most groups agree because all are right."""
    assert watch(TrainConfig(seed=seed)) == {}


def test_a_shift_by_one(monkeypatch):
    """The learner scores the token after the one that was drawn."""
    right = loop.completion_logits
    monkeypatch.setattr(loop, "completion_logits", lambda m, p: right(m, p).roll(1, dims=1))
    (alarm,) = watch().values()
    assert alarm.name == "logprob_mismatch" and alarm.stop and "shift by one" in alarm.message


def test_samples_of_older_weights(monkeypatch):
    """The sampler keeps the first weights: small and growing, and found at the second step."""

    def stale(trainer):
        trainer.policy.decoder = TinyDecoder(trainer.reference)

    rung = watch(prepare=stale)
    assert (
        rung["logprob_mismatch"].step == 2 and "older weights" in rung["logprob_mismatch"].message
    )


def test_padding_in_the_mask(monkeypatch):
    """Every row is trained to the width of the batch."""
    monkeypatch.setattr(
        loop, "written", lambda lengths, width: torch.ones(len(lengths), width, dtype=torch.bool)
    )
    assert "mask_too_wide" in watch()


def test_the_end_left_out_of_the_mask(monkeypatch):
    """Everything else looks healthy."""
    right = loop.written
    monkeypatch.setattr(loop, "written", lambda lengths, width: right(lengths - 1, width))
    (alarm,) = watch().values()
    assert alarm.name == "end_not_trained" and "0%" in alarm.message


def test_one_seed_for_the_whole_group(monkeypatch):
    """Eight copies of one sample: no group has anything to compare."""

    def copies(decoder, prompts, ids, how):
        one = draw(decoder, prompts, ids, replace(how, n=1))
        return type(one)(*(field.repeat_interleave(how.n, 0) for field in one))

    monkeypatch.setattr(loop, "draw", copies)
    alarm = watch()["equal_samples"]
    assert alarm.stop and "copies" in alarm.message


def test_a_scorer_that_does_not_look():
    """All the same reward, though the samples differ: a warning, for it may have a reason."""
    alarm = watch(score=lambda example, text: Score(1.0, "ok", {}, None))["equal_samples"]
    assert not alarm.stop and "does it read" in alarm.message


def test_a_loss_without_a_gradient():
    """Multiplied by zero, it looks like a loss and moves nothing."""
    parts = Parts(loss=lambda *arguments: policy_gradient_loss(*arguments) * 0)
    assert watch(parts=parts)["nothing_moves"].step == 1


def test_a_flipped_sign():
    """Good completions are pushed down."""
    parts = Parts(loss=lambda *arguments: -policy_gradient_loss(*arguments))
    config = TrainConfig(steps=40, prompts=16, group_size=8, learning_rate=3e-4)
    rung = watch(config, parts=parts)
    assert {"reward_falls", "kl_explodes"} & set(rung)


def test_a_kl_that_is_paid_for_and_not_paid():
    """With beta below zero the policy runs away from its reference."""
    config = TrainConfig(steps=60, prompts=16, group_size=8, kl_coef=-1.0)
    assert "kl_explodes" in watch(config)


def row(step, **fields):
    healthy = {
        "reward": 0.5, "pass_rate": 0.5, "no_signal_share": 0.2, "entropy": 0.3, "grad_norm": 1.0,
        "duplicate_share": 0.4, "length_mean": 6.0, "trained_tokens_mean": 6.0, "kl": 0.5,
        "eos_trained_share": 1.0, "truncated_share": 0.0, "logprob_mismatch": 1e-6,
    }  # fmt: skip
    return {"step": step, **healthy, **fields}


def test_reward_up_while_the_audit_falls():
    """Only where an audit was made, and only if it fell from its best."""
    rows = [row(1, reward=0.5, audit_pass_rate=0.3), row(2, reward=0.6, audit_pass_rate=0.4)]
    assert alarms(rows) == []
    rows.append(row(3, reward=0.8))
    assert alarms(rows) == []
    rows.append(row(4, reward=0.9, audit_pass_rate=0.2))
    (alarm,) = alarms(rows)
    assert alarm.name == "reward_hacked" and "leak" in alarm.message and not alarm.stop


@pytest.mark.parametrize(("fields", "name"), [
    ({"truncated_share": 0.6, "length_mean": 12.0, "trained_tokens_mean": 12.0}, "does_not_end"),
    ({"entropy": 0.001, "pass_rate": 0.1}, "sure_and_wrong"),
    ({"kl": 11.0}, "kl_explodes"),
])  # fmt: skip
def test_one_row_is_enough(fields, name):
    """What is wrong at a step is said at that step."""
    assert [alarm.name for alarm in alarms([row(1), row(2, **fields)])] == [name]


@pytest.mark.slow
def test_a_leaky_reward_is_hacked_and_the_sentinels_say_so():
    """`anywhere` at twice the usual rate: ten nats from home, though its reward only rises."""
    leaky = checked(load_scorer("anywhere"))
    rung = watch(TrainConfig(steps=120, learning_rate=3e-4), score=leaky)
    assert "kl_explodes" in rung and "reward_falls" not in rung
