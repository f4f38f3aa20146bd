"""What the claims about policies share: a small random model, in memory and as a folder."""

import re
from pathlib import Path

import pytest
import torch

from course.policy.model import ModelConfig, TinyModel
from course.policy.model_files import Loaded, load_model, model_files
from course.policy.tokenizer import EOS_ID, build_tokenizer

PROMPTS = (
    "Sam has 15 shells and gives 7 to Ann. How many shells are left?",
    "What is 3 plus 5?",
    "Four.",
    "Ann buys 12 shells. Then Sam gives 9 more shells to Ann. How many shells has Ann?",
)
"""Four questions of different lengths."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy as files: two layers, random weights, and an end that comes now and then."""
    words = {word for prompt in PROMPTS for word in re.findall(r" ?[A-Za-z]+", prompt)}
    tokenizer = build_tokenizer(words | {"Final"})
    config = ModelConfig(
        vocab_size=-(-tokenizer.get_vocab_size() // 8) * 8,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    model = TinyModel(config)
    model.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(16)  # choices as clear as a trained model's
        model.model.embed_tokens.weight[EOS_ID].mul_(3)
    folder = tmp_path_factory.mktemp("policies") / "tiny"
    folder.mkdir()
    for name, content in model_files(model, tokenizer).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Loaded:
    """The same policy, loaded. Its weights are shared by all tests: leave them as they are."""
    return load_model(tiny_folder)
