"""The shipped base policy is an ordinary model: plain transformers opens it and writes the same."""

import json

import pytest
import torch

from course.core.paths import DATA
from course.policy.completer import How, Request
from course.policy.model_files import BASE, load_model
from course.policy.tiny import TinyPolicy
from course.policy.tokenizer import encode_prompt

ROWS = [
    json.loads(line)
    for line in (DATA / "datasets" / "math_dev.jsonl").read_text().splitlines()[:24]
]


@pytest.fixture(scope="module")
def plain():
    """What a user of transformers gets, with nothing of ours."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(BASE), AutoTokenizer.from_pretrained(BASE)


def test_its_logits_are_those_of_transformers(plain):
    """To 1e-5, on real prompts."""
    model, _ = plain
    ours, tokenizer = load_model(BASE)
    for row in ROWS[:8]:
        tokens = torch.tensor([encode_prompt(tokenizer, row["prompt"])])
        with torch.no_grad():
            torch.testing.assert_close(ours(tokens), model(tokens).logits, rtol=0, atol=1e-5)


def test_transformers_generates_the_same_greedy_text(plain):
    """Chat template, left padding, cache and end token are all theirs."""
    model, tokenizer = plain
    chats = [[{"role": "user", "content": row["prompt"]}] for row in ROWS]
    given = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    keys = {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}
    out = model.generate(**keys, do_sample=False, max_new_tokens=12)
    theirs = tokenizer.batch_decode(out[:, keys["input_ids"].shape[1] :], skip_special_tokens=True)
    policy = TinyPolicy("base", BASE)
    how = How(temperature=0, max_new_tokens=12)
    ours = policy.complete([Request(row["id"], row["prompt"]) for row in ROWS], how)
    assert [samples[0].completion for samples in ours] == theirs
    assert len(set(theirs)) > 12
