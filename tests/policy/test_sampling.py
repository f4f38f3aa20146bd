"""Claims about the one sampling loop, on toy decoders whose probabilities are written down here."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from course.core.errors import DataError
from course.policy.completer import How
from course.policy.sampling import choose, draw

LAST = 1 - 2**-53  # the greatest number that the noise can be


class Toy:
    """The same probabilities at every step; a prompt's first token says which."""

    def __init__(self, *probs: Sequence[float], stops: Sequence[int] = ()) -> None:
        self.table = torch.tensor(probs).log()  # (kinds, V)
        self.stops = frozenset(stops)

    def start(self, prompts: Sequence[Sequence[int]], n: int) -> Tensor:
        kinds = torch.tensor([prompt[0] for prompt in prompts])
        self.rows = kinds.repeat_interleave(n)
        return self.table[kinds]

    def step(self, tokens: Tensor, keep: Tensor) -> Tensor:
        assert len(tokens) == len(keep) and not self.stops & set(tokens.tolist())
        self.rows = self.rows[keep]
        return self.table[self.rows]


def logits(*probs: float) -> Tensor:
    return torch.tensor([probs]).log()


def pick(probs: Sequence[float], noise: float, how: How) -> int:
    """The token chosen with this noise."""
    return int(choose(logits(*probs), torch.tensor([noise], dtype=torch.float64), how))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (How(), [0.4, 0.3, 0.2, 0.1]),
        (How(temperature=0.5), [16 / 30, 9 / 30, 4 / 30, 1 / 30]),  # squares, made to sum to 1
        (How(top_p=0.7), [4 / 7, 3 / 7]),  # .4 is short of .7, .4 + .3 reaches it
        (How(temperature=0.5, top_p=0.7), [16 / 25, 9 / 25]),  # the nucleus of what is sampled
    ],
)
def test_tokens_come_as_often_as_their_probability_says(how, expected):
    """Chi-square over 8,000 draws; the seed is fixed, so the p-value is too."""
    how = How(8000, how.temperature, how.top_p, max_new_tokens=1, seed=11)
    tokens = draw(Toy([0.4, 0.3, 0.2, 0.1]), [[0]], ["a"], how).tokens
    counts = np.bincount(tokens.flatten().numpy(), minlength=4)
    assert counts[len(expected) :].sum() == 0
    expected_counts = 8000 * np.array(expected)
    assert chisquare(counts[: len(expected)], expected_counts).pvalue > 1e-4


def test_steps_are_independent():
    """Pairs of tokens come as often as the product says."""
    tokens = draw(Toy([0.5, 0.3, 0.2]), [[0]], ["a"], How(8000, max_new_tokens=2)).tokens
    pairs = np.bincount((tokens[:, 0] * 3 + tokens[:, 1]).numpy(), minlength=9)
    p = np.array([0.5, 0.3, 0.2])
    assert chisquare(pairs, 8000 * np.outer(p, p).ravel()).pvalue > 1e-4


@pytest.mark.parametrize(("noise", "token"), [
    (0.0, 0), (0.2499, 0), (0.25, 1), (0.7499, 1), (0.75, 2), (LAST, 2),
])  # fmt: skip
def test_the_first_token_whose_cumulative_probability_exceeds_the_noise(noise, token):
    """By hand: .25, .75, 1."""
    assert pick([0.25, 0.5, 0.25], noise, How()) == token


@pytest.mark.parametrize("how", [How(), How(temperature=0.01), How(temperature=9), How(top_p=0.9)])
@pytest.mark.parametrize("noise", [0.0, 0.5, LAST])
def test_a_token_without_probability_is_never_drawn(how, noise):
    """Not even at the ends, where it would be first or last."""
    assert pick([0, 0, 0.6, 0, 0.4, 0, 0], noise, how) in (2, 4)


def test_the_last_noise_stays_in_the_vocabulary():
    """Whatever the sum of many rounded probabilities is, the total is not reached."""
    many = torch.randn(200, 1001, generator=torch.Generator().manual_seed(0))
    noise = torch.full((200,), LAST, dtype=torch.float64)
    assert choose(many, noise, How()).tolist() == [1000] * 200


def test_a_token_too_rare_for_a_float32_sum_has_its_turn():
    """Beside .5 a float32 cannot add 1e-9, so the noise that is this token's would skip it."""
    rare = logits(0.5, 1e-9, 0.5)
    mass = rare.softmax(-1).double().cumsum(-1)[0]
    noise = (mass[:1] + 0.5e-9) / mass[-1]
    assert choose(rare, noise, How()).tolist() == [1]


def test_greedy_takes_the_lowest_of_the_most_likely():
    """Ties have one answer."""
    assert pick([0.1, 0.4, 0.4, 0.1], LAST, How(temperature=0)) == 1


def test_a_tiny_top_p_is_greedy():
    """At least one token is kept, and of two equals the lower."""
    for top_p in (1e-12, 0.3):
        assert pick([0.1, 0.4, 0.4, 0.1], LAST, How(top_p=top_p)) == 1


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p():
    """Reaching it exactly is enough: .5 + .25 = .75; a hair more needs the next."""
    probs = [0.125, 0.5, 0.125, 0.25]
    assert pick(probs, LAST, How(top_p=0.75)) == 3 and pick(probs, 0.0, How(top_p=0.75)) == 1
    assert pick(probs, 0.0, How(top_p=0.76)) == 0 and pick(probs, 0.2, How(top_p=0.76)) == 1


def test_top_p_one_cuts_nothing():
    """Not even a token whose probability vanishes beside the others' rounded sum."""
    probs = torch.rand(500, 300, generator=torch.Generator().manual_seed(0)) ** 9
    noise = torch.rand(500, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mass = (probs.log().softmax(-1)).cumsum(-1, dtype=torch.float64)
    plain = (mass <= noise[:, None] * mass[:, -1:]).sum(-1)
    assert torch.equal(choose(probs.log(), noise, How(top_p=1.0)), plain)
    assert pick([1e-9, 1.0], 0.0, How(top_p=1.0)) == 0
    assert pick([1e-9, 1.0], 0.0, How(top_p=1 - 1e-6)) == 1


def test_the_log_probs_are_the_policys_own_whatever_the_sampling():
    """Temperature and top-p choose other tokens; what a token is worth stays log p."""
    toy = Toy([0.5, 0.3, 0.2], stops=[2])
    for how in (How(64), How(64, temperature=0.5), How(64, temperature=3, top_p=0.8), How(4, 0)):
        drawn = draw(toy, [[0]], ["a"], how)
        own = toy.table[0][drawn.tokens]
        there = torch.arange(drawn.tokens.shape[1]) < drawn.lengths[:, None]
        torch.testing.assert_close(drawn.logprobs, torch.where(there, own, 0))


def test_a_completion_is_counted_with_its_end():
    """The stop token is one of its tokens, and beyond a length there is nothing."""
    toy = Toy([0.5, 0.2, 0.3], stops=[1, 2])
    drawn = draw(toy, [[0]], ["a"], How(200, max_new_tokens=4, seed=1))
    for tokens, logprobs, length, stopped in zip(*(x.tolist() for x in drawn), strict=True):
        assert (tokens[length - 1] in (1, 2)) == stopped and all(t == 0 for t in tokens[length:])
        assert all(t == 0 for t in tokens[: length - 1]) and all(p == 0 for p in logprobs[length:])
        assert stopped or length == 4
        log = {0: np.log(0.5), 1: np.log(0.2), 2: np.log(0.3)}
        assert sum(logprobs) == pytest.approx(sum(log[t] for t in tokens[:length]), abs=1e-5)
    assert 0 < int(drawn.stopped.sum()) < 200  # both kinds were seen


def test_the_result_is_as_wide_as_the_longest_completion():
    """Where all end at once, nothing is left blank."""
    drawn = draw(Toy([0.0, 1.0], stops=[1]), [[0], [0]], ["a", "b"], How(3, max_new_tokens=9))
    assert drawn.tokens.tolist() == [[1]] * 6 and drawn.lengths.tolist() == [1] * 6


def test_each_prompt_has_its_own_rows_in_order():
    """Prompt 0's samples first."""
    toy = Toy([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    drawn = draw(toy, [[1], [0]], ["a", "b"], How(2, max_new_tokens=2))
    assert drawn.tokens.tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]


def test_a_row_that_ends_does_not_disturb_the_others():
    """With a stop, each row is what it was without one, cut after its first stop."""
    how = How(50, max_new_tokens=6, seed=4)
    free, cut = (
        draw(Toy([0.6, 0.2, 0.2], stops=stops), [[0]], ["a"], how).tokens.tolist()
        for stops in ([], [2])
    )
    for whole, part in zip(free, cut, strict=True):
        end = whole.index(2) + 1 if 2 in whole else 6
        assert part == whole[:end] + [0] * (len(part) - end)


def test_the_draw_can_be_trained_on():
    """Its tensors are ordinary ones: autograd may save them."""
    drawn = draw(Toy([0.5, 0.5]), [[0]], ["a"], How(4))
    weights = torch.ones_like(drawn.logprobs, requires_grad=True)
    (weights * drawn.logprobs).sum().backward()
    assert torch.equal(weights.grad, drawn.logprobs) and not drawn.tokens.is_inference()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(bad, temperature):
    """A policy that diverged is noticed at once, and the message says at which sample."""

    class Broken(Toy):
        def step(self, tokens: Tensor, keep: Tensor) -> Tensor:
            logits = super().step(tokens, keep).clone()
            logits[5, 1] = bad
            return logits

    with pytest.raises(DataError, match=r"not finite at token 2 of sample 1 of b: .* diverged"):
        draw(Broken([0.5, 0.5]), [[0], [0]], ["a", "b"], How(4, temperature))


def test_nothing_to_draw_is_nothing():
    """A limit of no tokens."""
    drawn = draw(Toy([0.5, 0.5]), [[0]], ["a"], How(2, max_new_tokens=0))
    assert drawn.tokens.shape == (2, 0) and drawn.lengths.tolist() == [0, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-40])
def test_a_tiny_temperature_is_almost_greedy(temperature):
    """Dividing by it overflows nothing."""
    logits = torch.tensor([[1.0, 5.0, 4.9], [900.0, -900.0, 0.0]])
    noise = torch.full((2,), 1 - 2**-53, dtype=torch.float64)
    assert choose(logits, noise, How(temperature=temperature)).tolist() == [1, 0]
