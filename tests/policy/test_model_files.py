"""Claims about a policy's folder: what is wrong with it is said, with the file's name."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from course.core.errors import DataError
from course.policy.model_files import load_model


@pytest.fixture
def folder(tiny_folder, tmp_path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "spoiled"))


def change_config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))


def change_weights(folder: Path, **weights: torch.Tensor | None) -> None:
    """Replace tensors of the file by the ends of their names; None takes one away."""
    path = folder / "model.safetensors"
    every = load_file(path)
    for end, tensor in weights.items():
        name = next((name for name in every if name.endswith(end.replace("__", "."))), end)
        every.pop(name, None)
        if tensor is not None:
            every[name] = tensor
    save_file(every, path, metadata={"format": "pt"})


def refused(folder: Path, said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_model(folder)


def test_a_missing_folder(tmp_path):
    """It is named, and so is the shipped one."""
    refused(tmp_path / "nowhere", r"nowhere is not a tiny policy: .*no such folder.*models/base")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file(folder, name):
    """Each of the three is needed."""
    (folder / name).unlink()
    refused(folder, f"spoiled is not a tiny policy: it lacks {name}")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"vocab_size": "x"}'])
def test_a_config_that_is_none(folder, content):
    """Not JSON, not an object, not a model's."""
    (folder / "config.json").write_bytes(content)
    refused(folder, r"config\.json is not the config of a Llama-shaped model")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'.*has 'llama'.*hf:"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"num_key_value_heads": 1}, "num_key_value_heads is 1.*has 2"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"hidden_size": 0}, "cannot be built|head_dim"),
        ({"hidden_size": 34, "head_dim": 17}, "cannot be built"),
    ],
)
def test_another_architecture(folder, fields, said):
    """The network cannot compute it, and computing something else would be a lie."""
    change_config(folder, **fields)
    refused(folder, rf"config\.json: .*({said})")


def test_rotary_scaling_is_another_architecture(folder):
    """A Llama 3's rotary table is not ours; ignoring that would give wrong logits silently."""
    change_config(folder, rope_parameters={"rope_theta": 1e4, "rope_type": "linear", "factor": 2})
    refused(folder, r"config\.json")


@pytest.mark.parametrize("content", [b"", b"{}", b"no JSON"])
def test_a_tokenizer_that_is_none(folder, content):
    """The library's own words are passed on."""
    (folder / "tokenizer.json").write_bytes(content)
    refused(folder, r"tokenizer\.json is not a tokenizer")


def test_a_tokenizer_of_another_model(folder):
    """Its end is another token, so no completion would ever end."""
    Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[])).save(str(folder / "tokenizer.json"))
    refused(folder, r"tokenizer\.json is not a tiny policy's tokenizer: <pad> must be token 0")


def test_a_tokenizer_with_more_tokens_than_the_model(folder):
    """It would ask for embeddings that are not there."""
    change_config(folder, vocab_size=100)
    refused(folder, r"tokenizer\.json has \d+ tokens, but the model beside it knows 100")


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_truncated_weights(folder, kept):
    """A download that was cut."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, r"model\.safetensors is not a safetensors file")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite(folder, value):
    """A diverged policy was saved."""
    change_weights(folder, layers__1__mlp__up_proj__weight=torch.full((48, 32), value))
    refused(folder, r"model\.safetensors: model\.layers\.1\.mlp\.up_proj\.weight .* not finite")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"norm__weight": None}, "is missing, expected"),
        ({"layers__1__mlp__up_proj__weight": torch.zeros(48, 31)}, r"\(48, 31\), expected \(48, 3"),
        ({"another": torch.zeros(1)}, r"another is \(1,\), expected no such tensor"),
    ],
)
def test_weights_that_do_not_fit_the_config(folder, weights, said):
    """The first tensor that differs is named, with both shapes."""
    change_weights(folder, **weights)
    refused(folder, rf"model\.safetensors does not fit config\.json beside it: .*{said}")


def test_a_tied_head_may_be_stored_twice(folder, tiny):
    """Some writers do, and it changes nothing."""
    every = load_file(folder / "model.safetensors")
    change_weights(folder, **{"lm_head.weight": every["model.embed_tokens.weight"].clone()})
    row = torch.arange(9)[None]
    assert torch.equal(load_model(folder).model(row), tiny.model(row))
