"""Losses and KL estimates: by hand, by finite differences, and by enumeration."""

import itertools
import math

import pytest
import torch

from course.core.errors import UsageError
from course.learning.kl import check_place, exact_kl, kl_estimate
from course.learning.losses import clipped_loss, entropy, policy_gradient_loss, token_logprobs

LOGPROBS = torch.tensor([[-1.0, -2.0, -4.0], [-0.5, -3.0, -9.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, True], [True, True, False]])
ADVANTAGES = torch.tensor([2.0, -1.0], dtype=torch.float64)


def gradient_of(loss, *others):
    logprobs = LOGPROBS.clone().requires_grad_()
    loss(logprobs, *others).backward()
    return logprobs.grad


def test_the_loss_by_hand():
    """-(1/2) (2 * (-7) + (-1) * (-3.5)) = 5.25; its gradient is -A/N where the mask is."""
    assert policy_gradient_loss(LOGPROBS, ADVANTAGES, MASK).item() == pytest.approx(5.25)
    expected = torch.tensor([[-1.0, -1.0, -1.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert torch.equal(gradient_of(policy_gradient_loss, ADVANTAGES, MASK), expected)


def test_no_gradient_goes_through_the_advantages():
    """They are constants: else the loss could fall by calling good completions bad."""
    advantages = ADVANTAGES.clone().requires_grad_()
    policy_gradient_loss(LOGPROBS.clone().requires_grad_(), advantages, MASK).backward()
    assert advantages.grad is None


@pytest.mark.parametrize("filler", [0.0, -1e9, float("-inf"), float("nan")])
def test_what_stands_under_the_mask_is_never_read(filler):
    """Padding may hold anything, and gets a gradient of exactly 0."""
    logprobs = LOGPROBS.clone()
    logprobs[1, 2] = filler
    logprobs.requires_grad_()
    loss = policy_gradient_loss(logprobs, ADVANTAGES, MASK)
    loss.backward()
    assert loss.item() == pytest.approx(5.25) and logprobs.grad[1, 2] == 0


@pytest.mark.parametrize("steps", [0, 1])
def test_the_clipped_gradient_by_finite_differences(steps):
    """At the first step it is the policy gradient; later it stops where the ratio was clipped."""
    old = LOGPROBS - steps * torch.tensor([[0.5, 0.05, -0.5], [0.5, 0.05, 0.0]])

    def loss(logprobs):
        return clipped_loss(logprobs, old, ADVANTAGES, MASK, 0.2)

    assert torch.autograd.gradcheck(loss, (LOGPROBS.clone().requires_grad_(),))
    found = gradient_of(loss)
    if steps == 0:
        torch.testing.assert_close(found, gradient_of(policy_gradient_loss, ADVANTAGES, MASK))
    else:
        assert found[0, 0] == 0  # a good token, already 1.65 times as likely: no more to gain
        assert found[0, 2] != 0 and found[1, 0] != 0  # what must come back still pulls


def test_a_shift_by_one_is_another_loss():
    """token_logprobs reads the prediction of each token, not the one after it."""
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tokens = torch.tensor([[0, 4, 2], [1, 1, 3]])
    found = token_logprobs(logits, tokens)
    for n, t in itertools.product(range(2), range(3)):
        row = logits[n, t].tolist()
        by_hand = row[int(tokens[n, t])] - math.log(sum(math.exp(x) for x in row))
        assert found[n, t].item() == pytest.approx(by_hand)


def test_a_step_moves_three_actions_as_the_formula_says():
    """p = (.5, .3, .2), R = (1, 0, .2): the gradient of E[R] is p_a (R_a - E[R])."""
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    values = torch.tensor([1.0, 0.0, 0.2], dtype=torch.float64)
    logits = p.log().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for action in range(3):
        logprobs = logits.log_softmax(-1)[action][None, None]
        mask = torch.ones(1, 1, dtype=torch.bool)
        total = total + p[action] * policy_gradient_loss(logprobs, values[action][None], mask)
    total.backward()
    torch.testing.assert_close(-logits.grad, p * (values - (p * values).sum()))


def test_entropy_of_a_uniform_policy_is_log_v():
    """And padding does not count."""
    logits = torch.zeros(2, 3, 7)
    logits[1, 2] = torch.tensor([100.0] + [0.0] * 6)
    assert entropy(logits, MASK).item() == pytest.approx(math.log(7))


def every_text(policy, reference):
    """All texts of two tokens from a vocabulary of three, with both policies' log-probs."""
    for a, b in itertools.product(range(3), repeat=2):
        yield (
            torch.stack([policy[0, 0, a], policy[0, 1, b]])[None],
            torch.stack([reference[0, 0, a], reference[0, 1, b]])[None],
        )


def test_k1_and_k3_have_the_exact_kl_as_their_mean():
    """Weighted over all nine texts of two tokens, both equal the sum over the vocabulary."""
    generator = torch.Generator().manual_seed(2)
    logits, ref_logits = (torch.randn(1, 2, 3, generator=generator).double() for _ in range(2))
    policy, reference = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    mask = torch.ones(1, 2, dtype=torch.bool)
    exact = exact_kl(logits, ref_logits, mask).item()
    for kind in ("k1", "k3"):
        mean = sum(
            (p.sum().exp() * kl_estimate(p, q, mask, kind)).item()
            for p, q in every_text(policy, reference)
        )
        assert mean == pytest.approx(exact) and exact > 0.1


@pytest.mark.parametrize(("kind", "follows"), [("k1", "nothing"), ("k2", "kl"), ("k3", "other")])
def test_what_each_estimate_follows_when_it_stands_in_the_loss(kind, follows):
    """k1: an expected gradient of zero. k2: the reverse KL's. k3: another one."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(1, 1, 4, generator=generator).double().requires_grad_()
    reference = torch.randn(1, 1, 4, generator=generator).double().log_softmax(-1)
    mask = torch.ones(1, 1, dtype=torch.bool)
    policy = logits.log_softmax(-1)
    weights = policy.detach().exp()
    loss = sum(
        weights[0, 0, a] * kl_estimate(policy[:, :, a], reference[:, :, a], mask, kind).sum()
        for a in range(4)
    )
    (found,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (true,) = torch.autograd.grad(exact_kl(logits, reference, mask).sum(), logits)
    if follows == "nothing":
        torch.testing.assert_close(found, torch.zeros_like(found))
    elif follows == "kl":
        torch.testing.assert_close(found, true)
    else:
        assert (found - true).abs().max() > 0.01 and found.abs().max() > 0.01


@pytest.mark.parametrize(("kind", "place"), [("k1", "loss"), ("k2", "reward"), ("k3", "reward")])
def test_a_kl_in_the_wrong_place_is_refused_with_the_reason(kind, place):
    """It would run, and hold back nothing, or the wrong thing."""
    with pytest.raises(UsageError, match="gradient"):
        check_place(kind, place)


def test_k3_in_the_loss_is_allowed_and_said():
    """What TRL does by default; the user should know what it follows."""
    assert "forward KL" in check_place("k3", "loss")
    assert check_place("k1", "reward") is None and check_place("k2", "loss") is None
