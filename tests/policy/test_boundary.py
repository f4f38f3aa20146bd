"""The token boundary: prices are the policy's own log-probs."""

import pytest
import torch

from course.policy.boundary import priced, sampled
from course.policy.completer import How, Request
from course.policy.model_files import BASE
from course.policy.tiny import TinyPolicy

PROMPT = "What is 3 plus 5?\nEnd with Final: <int>"


class TwoEnds:
    """A policy of six tokens, always with the same logits, and two ways to end."""

    stops = frozenset({1, 5})
    logits = torch.tensor([[0.5, -9.0, 1.0, 0.4, 0.3, 3.0]])
    decoder = property(lambda self: self)

    def start(self, prompts, n):
        return self.logits

    def step(self, tokens, keep):
        return self.logits

    def encode(self, prompt):
        return [0]

    def encode_text(self, text):
        return [int(char) for char in text]

    def decode(self, tokens):
        return "".join(map(str, tokens))

    def piece(self, token):
        return str(token)


def test_the_likeliest_of_several_ends_is_taken():
    """Chat models have two; charging the rare one would make every text look dear."""
    look = priced(TwoEnds(), "", "23")
    logprobs = TwoEnds.logits[0].double().log_softmax(-1)
    assert [choice.piece for choice in look.choices] == ["2", "3", "5"]
    assert look.logprob == pytest.approx(float(logprobs[2] + logprobs[3] + logprobs[5]))
    assert look.stopped and look.text == "23"


def test_an_alternative_is_never_the_token_itself():
    """Five others, likeliest first."""
    look = priced(TwoEnds(), "", "2")
    assert [piece for piece, _ in look.choices[0].alternatives] == ["5", "0", "3", "4", "1"]


def test_what_was_sampled_costs_what_it_is_priced_at():
    """The same text, once drawn and once given, has the same log-prob."""
    policy = TinyPolicy("base", BASE)
    look = sampled(policy, PROMPT, How(max_new_tokens=12, seed=3))
    again = priced(policy, PROMPT, look.text)
    assert look.stopped and again.logprob == pytest.approx(look.logprob, abs=1e-4)
    request = policy.complete([Request("show", PROMPT)], How(max_new_tokens=12, seed=3))
    assert request[0][0].sum_logprob == pytest.approx(look.logprob, abs=1e-4)
