"""The loop itself, on the shipped base: it learns, it stops and goes on, it leaves out failures."""

from dataclasses import replace

import pytest
import torch

from course.core.errors import DataError, DivergedError
from course.core.jsonl import JsonlReader
from course.core.paths import DATA
from course.core.records import Example
from course.learning.advantages import RunningMean
from course.learning.trainer import WATCHED, Parts, TrainConfig, Trainer
from course.policy.model_files import BASE
from course.policy.tiny import TinyPolicy
from course.scoring.contract import Score, checked, load_scorer

EXAMPLES = list(JsonlReader(DATA / "datasets" / "math_train.jsonl", Example))[:400]
SCORE = checked(load_scorer("final_answer"))
SMALL = TrainConfig(steps=4, prompts=10, group_size=4)


def trainer(config=SMALL, parts=None, score=SCORE, examples=EXAMPLES):
    return Trainer(TinyPolicy("base", BASE), examples, score, config, parts)


def test_twelve_steps_are_enough_to_see_it_learn():
    """From about .3 to above .6 on problems it has not met."""
    steps = list(trainer(TrainConfig(steps=12, prompts=32, group_size=8)).run())
    assert 0.2 < steps[0].metrics["pass_rate"] < 0.45
    assert steps[-1].metrics["pass_rate"] > 0.6
    assert steps[0].metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert steps[-1].metrics["kl"] > 0.1
    assert all(step.metrics["logprob_mismatch"] < 1e-4 for step in steps)
    assert all(step.metrics["eos_trained_share"] == 1 for step in steps)


def test_a_stopped_run_continues_exactly():
    """Weights and metrics, bit for bit, with a baseline that remembers."""
    unbroken = trainer(parts=Parts(advantage=RunningMean()))
    whole = [step.metrics for step in unbroken.run()]
    first = trainer(parts=Parts(advantage=RunningMean()))
    steps = first.run()
    begun = [next(steps).metrics for _ in range(2)]
    second = trainer(parts=Parts(advantage=RunningMean()))
    second.restore(first.state())
    assert begun + [step.metrics for step in second.run()] == whole
    for name, weight in unbroken.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name


def test_leaving_groups_without_signal_out_changes_no_gradient():
    """They have advantage zero; only the time they take is saved."""
    one = trainer()
    batch = one.sample(0)
    one.learn(batch, 0)
    everything = trainer(parts=Parts(advantage=lambda r, s: one.parts.advantage(r, s) + 1e-30))
    everything.learn(batch, 0)
    for a, b in zip(one.model.parameters(), everything.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_every_problem_is_met_once_before_any_comes_again():
    """In another order each time round, and with another seed."""
    config = replace(SMALL, prompts=10, steps=8)
    here = trainer(config, examples=EXAMPLES[:40])
    met = [here._indices(step) for step in range(8)]
    first, second = ([i for step in half for i in step] for half in (met[:4], met[4:]))
    assert sorted(first) == sorted(second) == list(range(40)) and first != second
    other = trainer(replace(config, seed=1), examples=EXAMPLES[:40])
    assert other._indices(0) != met[0]


def test_what_could_not_be_scored_teaches_nothing_and_is_counted():
    """A scorer that fails on every other text: rates are over the rest."""

    def failing(example, completion):
        if len(completion) % 2:
            return Score(None, "scorer_error", None, "odd")
        return SCORE(example, completion)

    step = next(trainer(score=failing).run())
    rewards = [score.reward for score in step.batch.scores]
    missing = sum(reward is None for reward in rewards)
    assert step.metrics["n_unscored"] == missing > 0
    known = [reward for reward in rewards if reward is not None]
    assert step.metrics["pass_rate"] == pytest.approx(sum(known) / len(known))


@pytest.mark.parametrize(("kind", "place"), [("k1", "reward"), ("k2", "loss")])
def test_a_dear_kl_keeps_the_policy_at_home(kind, place):
    """Twelve steps with beta 3 go a fraction of the way that twelve free ones go."""
    config = TrainConfig(steps=12, prompts=16, group_size=8)
    free = list(trainer(config).run())[-1].metrics
    held = list(trainer(replace(config, kl_coef=3.0, kl_kind=kind, kl_place=place)).run())[-1]
    assert held.metrics["kl"] < free["kl"] / 3


def test_the_first_of_several_epochs_is_the_plain_step():
    """All ratios are one, so the clipped loss has the policy gradient."""
    plain, clipped = trainer(), trainer(replace(SMALL, epochs=2))
    batch = plain.sample(0)
    mask = torch.arange(batch.drawn.tokens.shape[1]) < batch.drawn.lengths[:, None]
    used = torch.ones(10, dtype=torch.bool)
    advantages = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    for here in (plain, clipped):
        now = here._logprobs(here.model, batch, used)
        here._loss(now, batch, advantages, mask, used).backward()
    for a, b in zip(plain.model.parameters(), clipped.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)


def test_weights_that_diverged_are_noticed():
    """An infinite learning rate ends in words, not in a file full of NaN."""
    wild = trainer(replace(SMALL, learning_rate=float("inf"), warmup=1))
    with pytest.raises((DivergedError, DataError), match=r"diverged|not finite"):
        list(wild.run())


def test_enough_groups_are_watched_for_a_small_batch():
    """A batch of fewer groups than are watched is watched whole."""
    assert WATCHED > 4
    step = next(trainer(replace(SMALL, prompts=4)).run())
    assert step.metrics["entropy"] > 0
