"""Packing a batch of groups changes no logit and computes nothing twice."""

import pytest
import torch

from course.learning.losses import token_logprobs
from course.learning.packing import completion_logits, pack
from course.policy.completer import How
from course.policy.model import ModelConfig, TinyModel
from course.policy.sampling import draw
from course.policy.tiny import TinyDecoder

PROMPTS = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]


@pytest.fixture(scope="module")
def model():
    made = TinyModel(ModelConfig(24, hidden_size=32, intermediate_size=48, num_hidden_layers=2))
    made.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        made.model.embed_tokens.weight.mul_(20)
    return made


@pytest.fixture(scope="module")
def drawn(model):
    return draw(TinyDecoder(model), PROMPTS, ["a", "b", "c"], How(8, max_new_tokens=5, seed=4))


def test_the_learner_sees_the_log_probs_that_the_sampler_saw(model, drawn):
    """To 1e-5: else the gradient is that of another policy."""
    packed = pack(PROMPTS, drawn.tokens, drawn.lengths)
    logits = completion_logits(model, packed)[packed.of]
    mask = torch.arange(drawn.tokens.shape[1]) < drawn.lengths[:, None]
    found = torch.where(mask, token_logprobs(logits, drawn.tokens), 0.0)
    torch.testing.assert_close(found, drawn.logprobs, rtol=0, atol=1e-5)


def test_equal_completions_of_a_prompt_are_computed_once(model, drawn):
    """And those of different prompts are not mixed up."""
    packed = pack(PROMPTS, drawn.tokens, drawn.lengths)
    texts = [
        (number // 8, *row[:length])
        for number, (row, length) in enumerate(
            zip(drawn.tokens.tolist(), drawn.lengths.tolist(), strict=True)
        )
    ]
    assert len(packed.where) == len(set(texts)) < len(texts)
    same = {(texts[i], int(packed.of[i])) for i in range(len(texts))}
    assert len(same) == len(set(texts))


def test_the_gradient_is_that_of_one_plain_forward_pass_a_completion(model, drawn):
    """The sum of all log-probs, differentiated both ways."""
    packed = pack(PROMPTS, drawn.tokens, drawn.lengths)
    mask = torch.arange(drawn.tokens.shape[1]) < drawn.lengths[:, None]
    logprobs = token_logprobs(completion_logits(model, packed)[packed.of], drawn.tokens)
    weights = torch.linspace(-1, 1, len(mask))  # a different advantage each
    (weights * torch.where(mask, logprobs, 0.0).sum(-1)).sum().backward()
    found = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    for number, (row, length) in enumerate(zip(drawn.tokens, drawn.lengths.tolist(), strict=True)):
        prompt = PROMPTS[number // 8]
        text = torch.tensor([*prompt, *row[:length].tolist()])[None]
        logits = model(text)[0, len(prompt) - 1 : -1]
        (weights[number] * token_logprobs(logits[None], row[None, :length]).sum()).backward()
    for one, weight in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(one, weight.grad, rtol=1e-3, atol=1e-4)
    model.zero_grad()
