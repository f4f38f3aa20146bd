"""The supervised loop: packing changes nothing, and a stopped run continues exactly."""

from dataclasses import replace
from random import Random

import pytest
import torch
import torch.nn.functional as F

from course.core.errors import DivergedError
from course.learning.corpus import Corpus, Item
from course.learning.pretrain_run import course_tokenizer
from course.learning.pretraining import (
    WIDTH,
    Pretraining,
    Recipe,
    Stage,
    loss_of_batch,
    make_batch,
    schedule,
)
from course.policy.model import ModelConfig, TinyModel

SMALL = Recipe(
    equations=50,
    clean=50,
    demonstrations=50,
    stages=(
        Stage("equations", 2, 4, 1e-3, (1.0, 0.0, 0.0)),
        Stage("words", 3, 4, 1e-3, (0.2, 0.4, 0.4)),
    ),
    warmup=2,
)
CORPUS = Corpus(
    equations=[Item([5, 6, 7], [8, 1]), Item([5, 9], [10, 1])],
    clean=[Item(list(range(20, 45)), [11, 1])],
    demonstrations=[Item(list(range(50, 80)), [12, 13, 14, 1])],
)
STAGE = Stage("words", 1, 6, 1e-3, (0.3, 0.3, 0.4))


def model():
    """A small network with fixed random weights."""
    made = TinyModel(ModelConfig(100, hidden_size=32, intermediate_size=48, num_hidden_layers=2))
    made.initialise(torch.Generator().manual_seed(0))
    return made


def test_packed_texts_do_not_see_each_other():
    """The loss of packed rows is the mean over the same texts taken one by one."""
    network = model()
    batch = make_batch(CORPUS, STAGE, Random(1))
    losses, at = [], 0
    for row in range(STAGE.rows):
        for text in range(1, int(batch.texts[row].max()) + 1):
            tokens = batch.tokens[row][batch.texts[row] == text]
            where = [
                place - row * WIDTH - int((batch.texts[row] == text).nonzero()[0])
                for place in batch.where.tolist()
                if row * WIDTH <= place < (row + 1) * WIDTH
                and batch.texts[row][place % WIDTH] == text
            ]
            targets = batch.targets[at : at + len(where)]
            at += len(where)
            logits = network(tokens[None])[0, where]
            losses += F.cross_entropy(logits, targets, reduction="none").tolist()
    assert at == len(batch.targets)
    assert sum(losses) / len(losses) == pytest.approx(
        loss_of_batch(network, batch).item(), abs=1e-5
    )


def test_the_loss_is_on_the_targets_alone():
    """Nobody needs a policy that writes questions."""
    batch = make_batch(CORPUS, STAGE, Random(2))
    learned = {8, 10, 11, 12, 13, 14, 1}
    assert set(batch.targets.tolist()) == learned


def test_rows_are_filled():
    """What room a row has left goes to equations: less than one equation stays empty."""
    batch = make_batch(CORPUS, STAGE, Random(3))
    assert int((batch.texts == 0).sum(1).max()) < 4


def test_a_stopped_run_continues_exactly():
    """State carried over the break gives the weights of an unbroken run, bit for bit."""
    tokenizer = course_tokenizer()
    unbroken = Pretraining(SMALL, tokenizer)
    reports = list(unbroken.run())
    first = Pretraining(SMALL, tokenizer)
    steps = first.run()
    for _ in range(3):
        next(steps)
    second = Pretraining(SMALL, tokenizer)
    second.restore(first.state())
    rest = list(second.run())
    assert rest == reports[3:]
    for name, weight in unbroken.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name


def test_another_seed_gives_another_policy():
    """The seed decides the first weights and all that follows."""
    losses = [
        next(Pretraining(replace(SMALL, seed=seed), course_tokenizer()).run()) for seed in (0, 1)
    ]
    assert losses[0].loss != losses[1].loss


def test_the_loss_falls():
    """Sixty steps on two equations are enough to know them."""
    recipe = replace(SMALL, stages=(Stage("equations", 60, 4, 4e-3, (1.0, 0.0, 0.0)),), warmup=5)
    training = Pretraining(recipe, course_tokenizer())
    training.corpus = CORPUS
    reports = list(training.run())
    assert reports[0].loss > 4 and reports[-1].loss < 0.05


def test_a_loss_that_is_no_number_stops_the_run():
    """Diverged weights are noticed at once, not after ten minutes."""
    training = Pretraining(SMALL, course_tokenizer())
    with torch.no_grad():
        training.model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(DivergedError, match="step 1"):
        next(training.run())


def test_the_rate_warms_up_and_falls_to_its_share():
    """Linear up over the warm-up, linear down to 3 % at the end."""
    recipe = Recipe()
    assert schedule(0, 1000, recipe) == pytest.approx(1 / 60)
    assert schedule(60, 1000, recipe) == pytest.approx(1.0)
    assert schedule(1000, 1000, recipe) == pytest.approx(0.03)


@pytest.mark.parametrize("steps", [2, 10, 1000])
def test_a_shortened_recipe_has_as_many_steps_as_asked(steps):
    """Shared out over the stages as before."""
    short = Recipe().shortened(steps)
    assert short.steps == steps and all(stage.steps >= 1 for stage in short.stages)
