"""Claims about the tiny policy's sampler: fast, and yet what a plain forward pass would give."""

from itertools import chain

import pytest
import torch

from course.core.digests import sha256_file
from course.core.errors import DataError
from course.policy.completer import How, Request
from course.policy.sampling import Drawn, draw
from course.policy.tiny import TinyDecoder, TinyPolicy
from course.policy.tokenizer import EOS_ID, encode_prompt

PROMPTS = (
    "Sam has 15 shells and gives 7 to Ann. How many shells are left?",
    "What is 3 plus 5?",
    "Four.",
    "Ann buys 12 shells. Then Sam gives 9 more shells to Ann. How many shells has Ann?",
)
IDS = [f"e{number}" for number in range(len(PROMPTS))]
REQUESTS = [Request(*pair) for pair in zip(IDS, PROMPTS, strict=True)]
HOW = How(n=16, max_new_tokens=10, seed=2)


@pytest.fixture(scope="module")
def prompts(tiny):
    return [encode_prompt(tiny.tokenizer, prompt) for prompt in PROMPTS]


@pytest.fixture(scope="module")
def drawn(tiny, prompts) -> Drawn:
    return draw(TinyDecoder(tiny.model), prompts, IDS, HOW)


@pytest.fixture(scope="module")
def policy(tiny_folder) -> TinyPolicy:
    return TinyPolicy("toy", tiny_folder)


def rows(drawn: Drawn, n: int) -> list[list[tuple[list[int], list[float]]]]:
    """For each prompt, the tokens and log-probs of each of its samples."""
    each = [
        (tokens[:length], logprobs[:length])
        for tokens, logprobs, length in zip(*(x.tolist() for x in drawn[:3]), strict=True)
    ]
    return [each[start : start + n] for start in range(0, len(each), n)]


def same(one, other) -> bool:
    """The same tokens, and log-probs equal to 1e-5."""
    pairs = list(zip(one, other, strict=True))
    return all(a[0] == b[0] and a[1] == pytest.approx(b[1], abs=1e-5) for a, b in pairs)


def test_cached_log_probs_are_those_of_a_plain_forward_pass(tiny, prompts, drawn):
    """Each completion, alone and without a cache: ended ones, cut ones, of every prompt."""
    for prompt, group in zip(prompts, rows(drawn, HOW.n), strict=True):
        for tokens, logprobs in group:
            plain = tiny.model(torch.tensor([prompt + tokens]))[0, len(prompt) - 1 : -1]
            own = plain.log_softmax(-1)[range(len(tokens)), tokens]
            assert logprobs == pytest.approx(own.tolist(), abs=1e-5)
    assert 5 <= int(drawn.stopped.sum()) <= len(drawn.stopped) - 5  # of both kinds, several
    assert len(set(drawn.lengths.tolist())) > 4  # rows were dropped at many different steps


def test_samples_that_agree_share_a_branch_and_still_go_their_own_ways(tiny, prompts):
    """At a low temperature most of a group writes the same for a while, and then parts."""
    how = How(n=16, temperature=0.4, max_new_tokens=10)
    drawn = draw(TinyDecoder(tiny.model), prompts, IDS, how)
    for prompt, group in zip(prompts, rows(drawn, how.n), strict=True):
        for tokens, logprobs in group:
            plain = tiny.model(torch.tensor([prompt + tokens]))[0, len(prompt) - 1 : -1]
            own = plain.log_softmax(-1)[range(len(tokens)), tokens]
            assert logprobs == pytest.approx(own.tolist(), abs=1e-5)
    begun = {tuple(row[:2]) for row in drawn.tokens.tolist()}
    assert 4 < len(begun) < len(drawn.tokens) / 2 < len({*map(tuple, drawn.tokens.tolist())})


def test_the_order_of_the_requests_does_not_matter(tiny, prompts, drawn):
    """Each example keeps its samples."""
    order = [2, 0, 3, 1]
    mixed = draw(TinyDecoder(tiny.model), [prompts[i] for i in order], [IDS[i] for i in order], HOW)
    there = rows(drawn, HOW.n)
    for position, group in zip(order, rows(mixed, HOW.n), strict=True):
        assert same(group, there[position])


def test_a_batch_of_one_gives_what_a_large_one_gives(tiny, prompts, drawn):
    """The padding and the company of a batch leave no trace. One decoder serves them all."""
    decoder = TinyDecoder(tiny.model)
    for prompt, name, group in zip(prompts, IDS, rows(drawn, HOW.n), strict=True):
        assert same(rows(draw(decoder, [prompt], [name], HOW), HOW.n)[0], group)


def test_four_samples_are_the_first_four_of_sixteen(tiny, prompts, drawn):
    """Asking for more changes none."""
    few = draw(TinyDecoder(tiny.model), prompts, IDS, How(4, max_new_tokens=10, seed=2))
    for group, large in zip(rows(few, 4), rows(drawn, HOW.n), strict=True):
        assert same(group, large[:4])


def test_a_longer_limit_goes_on_where_a_shorter_one_cut(tiny, prompts, drawn):
    """The first tokens stay."""
    short = draw(TinyDecoder(tiny.model), prompts, IDS, How(16, max_new_tokens=4, seed=2))
    assert torch.equal(short.tokens, drawn.tokens[:, :4])


def test_another_seed_writes_something_else(tiny, prompts, drawn):
    """And so does another id."""
    decoder = TinyDecoder(tiny.model)
    seeded = draw(decoder, prompts, IDS, How(16, max_new_tokens=10, seed=3))
    renamed = draw(decoder, prompts, [f"{name}x" for name in IDS], HOW)
    for other in (seeded, renamed):
        assert rows(other, 16) != rows(drawn, 16)


def test_greedy_is_the_argmax_of_a_plain_forward_pass(tiny, prompts):
    """Token by token, without a cache."""
    drawn = draw(TinyDecoder(tiny.model), prompts, IDS, How(2, temperature=0, max_new_tokens=8))
    for prompt, group in zip(prompts, rows(drawn, 2), strict=True):
        written: list[int] = []
        while len(written) < 8 and EOS_ID not in written:
            written.append(int(tiny.model(torch.tensor([prompt + written]))[0, -1].argmax()))
        assert [tokens for tokens, _ in group] == [written] * 2


def test_a_completion_may_fill_the_context(tiny):
    """Prompt and completion together hold exactly as many tokens as there are positions."""
    context = tiny.model.config.max_position_embeddings
    prompt = [5 + k % 90 for k in range(context - 6)]
    drawn = draw(TinyDecoder(tiny.model), [prompt], ["a"], How(1, max_new_tokens=6, seed=1))
    assert drawn.lengths.tolist() == [6]


# ------------------------------------------------------------------------------- as a completer


def test_a_sample_says_what_was_drawn(policy, tiny, drawn):
    """Text without its end, the summed log-prob, the tokens with their end, and why it ended."""
    answers = policy.complete(REQUESTS, HOW)
    flat = [sample for group in answers for sample in group]
    assert [len(group) for group in answers] == [16] * 4
    for sample, (tokens, logprobs) in zip(flat, chain(*rows(drawn, 16)), strict=True):
        stopped = tokens[-1] == EOS_ID
        assert sample.finish_reason == ("stop" if stopped else "length")
        assert sample.num_tokens == len(tokens)
        assert sample.sum_logprob == pytest.approx(sum(logprobs), abs=1e-5)
        assert sample.sum_logprob == round(sample.sum_logprob, 6)
        text = tiny.tokenizer.decode(tokens[:-1] if stopped else tokens, skip_special_tokens=False)
        assert sample.completion == text


def test_padding_that_the_policy_writes_is_text(policy):
    """<pad> is a token like any other: hidden, it would earn rewards for a text nobody wrote."""
    answers = policy.complete(REQUESTS, How(n=64, temperature=4, max_new_tokens=10))
    assert any("<pad>" in sample.completion for group in answers for sample in group)


def test_a_prompt_that_leaves_no_room_is_refused_by_name(policy):
    """Before any work, with the numbers that say by how much."""
    long = Request("e9", "1 " * 30)  # 60 tokens and the newline
    policy.check([*REQUESTS, long], How(max_new_tokens=3))
    with pytest.raises(
        DataError, match=r"e9: the prompt has 61 tokens and .* 4, but toy can hold 64"
    ):
        policy.check([*REQUESTS, long], How(max_new_tokens=4))


def test_the_facts_identify_the_policy(policy, tiny_folder):
    """Weights, tokenizer and config, each by its hash."""
    assert policy.facts == {
        "kind": "tiny",
        "name": "toy",
        "path": tiny_folder.as_posix(),
        "model_sha256": sha256_file(tiny_folder / "model.safetensors"),
        "tokenizer_sha256": sha256_file(tiny_folder / "tokenizer.json"),
        "config_sha256": sha256_file(tiny_folder / "config.json"),
    }


def test_no_requests_no_samples(policy):
    """An empty chunk is answered with nothing."""
    assert policy.complete([], HOW) == []
