"""Claims about the network: it is a Llama, number for number, and its files prove it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from course.policy.model import ModelConfig, TinyModel
from course.policy.model_files import load_model, model_files
from course.policy.tokenizer import EOS_ID, encode_prompt

TEXTS = ("Sam has 15 shells.\nEnd with Final: <int>", "What is 3 plus 5?", "")


@pytest.fixture(scope="module")
def llama(tiny_folder: Path) -> Any:
    """The same folder, opened by transformers."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(tiny_folder).eval()


def tokens(model: TinyModel, rows: int = 3) -> torch.Tensor:
    """Any tokens at all, to the last position."""
    config = model.config
    shape = rows, config.max_position_embeddings
    return torch.randint(config.vocab_size, shape, generator=torch.Generator().manual_seed(1))


def test_its_logits_are_those_of_transformers_llama(tiny, llama):
    """Through the whole context, to 1e-5."""
    rows = tokens(tiny.model)
    assert type(llama).__name__ == "LlamaForCausalLM" and llama.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(tiny.model(rows), llama(rows).logits, atol=1e-5, rtol=0)


def test_what_transformers_writes_can_be_loaded(tiny, llama, tiny_folder, tmp_path):
    """Its own config.json and weights, with our tokenizer beside them."""
    llama.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((tiny_folder / "tokenizer.json").read_bytes())
    again = load_model(tmp_path).model
    assert again.config == tiny.model.config
    for (name, weight), other in zip(
        tiny.model.state_dict().items(), again.state_dict().values(), strict=True
    ):
        assert torch.equal(weight, other), name


def test_a_policy_survives_its_files(tiny, tiny_folder):
    """Written again, every byte is the same: bfloat16 loses nothing the second time."""
    for name, content in model_files(tiny.model, tiny.tokenizer).items():
        assert (tiny_folder / name).read_bytes() == content, name


def test_a_loaded_policy_is_ready_to_sample(tiny):
    """Float32, no gradients, nothing random."""
    assert {p.dtype for p in tiny.model.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in tiny.model.parameters()) and not tiny.model.training


def test_transformers_tokenizer_asks_alike(tiny, tiny_folder):
    """AutoTokenizer's chat template gives the tokens that the policy is given here."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(tiny_folder)
    assert theirs.eos_token_id == EOS_ID
    for text in TEXTS:
        chat = [{"role": "user", "content": text}]
        asked = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert asked == encode_prompt(tiny.tokenizer, text)
        assert theirs.decode(asked) == text + "\n"


def test_padding_on_the_right_changes_nothing(tiny):
    """What stands after a token cannot be seen from it."""
    rows = tokens(tiny.model)
    other = rows.clone()
    other[:, 20:] = 0
    torch.testing.assert_close(tiny.model(rows)[:, :20], tiny.model(other)[:, :20])


def test_positions_say_where_tokens_stand(tiny):
    """Rows may begin anywhere, one by one; counted from 0 they are what no positions give."""
    rows = tokens(tiny.model)[:, :9]
    plain = tiny.model.hidden(rows)
    torch.testing.assert_close(tiny.model.hidden(rows, torch.arange(9).expand(3, 9)), plain)
    torch.testing.assert_close(tiny.model.hidden(rows, torch.arange(9)), plain)
    # Rotary positions are relative: a row moved as a whole computes the same.
    torch.testing.assert_close(
        tiny.model.hidden(rows, torch.arange(9) + 30), plain, atol=1e-5, rtol=1e-5
    )


def test_a_seed_makes_the_weights():
    """The same generator, the same model; another seed, another."""
    config = ModelConfig(64, 16, 24, 1, 2, 8)
    one, same, other = (TinyModel(config) for _ in range(3))
    for model, seed in ((one, 0), (same, 0), (other, 1)):
        model.initialise(torch.Generator().manual_seed(seed))
    row = torch.arange(8)[None]
    assert torch.equal(one(row), same(row)) and not torch.equal(one(row), other(row))
