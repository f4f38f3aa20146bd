"""A tiny policy as files: ``config.json``, ``model.safetensors``, ``tokenizer.json`` and their kin.

The folder is what ``transformers`` writes and reads, so ``AutoModelForCausalLM`` and
``AutoTokenizer`` open it too. Weights rest in bfloat16 and are computed with in float32.

    model, tokenizer = load_model(MODELS / "base")
"""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from tokenizers import Tokenizer

from course.core.errors import DataError
from course.core.paths import DATA, display
from course.policy.model import ModelConfig, TinyModel
from course.policy.tokenizer import CHAT_TEMPLATE, EOS, EOS_ID, PAD, PAD_ID

BASE = DATA / "models" / "base"
"""The policy that the repository ships."""

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
FILES = (CONFIG, WEIGHTS, TOKENIZER)

_FIXED = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "tie_word_embeddings": True,
}
"""What makes a Llama ours: a folder that says otherwise is for ``hf:``."""


class Loaded(NamedTuple):
    """A tiny policy in memory."""

    model: TinyModel
    tokenizer: Tokenizer


def load_model(folder: Path) -> Loaded:
    """Read a tiny policy, in float32 and ready to sample.

    Raises: DataError that names the file and what is wrong with it.
    """
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        what = "there is no such folder" if not folder.is_dir() else f"it lacks {missing[0]}"
        raise DataError(
            f"{display(folder)} is not a tiny policy: {what}. A policy's folder holds "
            f"{', '.join(FILES)}; the shipped one is {display(BASE)}."
        )
    config = _read_config(folder / CONFIG)
    tokenizer = _read_tokenizer(folder / TOKENIZER)
    if tokenizer.get_vocab_size() > config.vocab_size:
        raise DataError(
            f"{display(folder / TOKENIZER)} has {tokenizer.get_vocab_size()} tokens, but the model "
            f"beside it knows {config.vocab_size}: they do not belong together."
        )
    for token, number in ((PAD, PAD_ID), (EOS, EOS_ID)):
        if tokenizer.token_to_id(token) != number:
            raise DataError(
                f"{display(folder / TOKENIZER)} is not a tiny policy's tokenizer: {token} must be "
                f"token {number}. A model with another tokenizer is sampled as hf:{folder}."
            )
    model = TinyModel(config)
    _read_weights(model, folder / WEIGHTS)
    return Loaded(model.eval().requires_grad_(False), tokenizer)


def model_files(model: TinyModel, tokenizer: Tokenizer) -> dict[str, bytes]:
    """Write a tiny policy as the bytes of each file of its folder."""
    weights = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in sorted(model.state_dict().items())
    }
    return {
        CONFIG: _json(_config_fields(model.config)),
        "generation_config.json": _json({"eos_token_id": EOS_ID, "pad_token_id": PAD_ID}),
        WEIGHTS: save(weights, metadata={"format": "pt"}),
        TOKENIZER: tokenizer.to_str(pretty=False).encode() + b"\n",
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": EOS,
                "pad_token": PAD,
                "clean_up_tokenization_spaces": False,
                "model_max_length": model.config.max_position_embeddings,
                "padding_side": "left",
                "chat_template": CHAT_TEMPLATE,
            }
        ),
    }


def _config_fields(config: ModelConfig) -> dict[str, Any]:
    return {
        **_FIXED,
        **asdict(config),
        "bos_token_id": None,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
        "num_key_value_heads": config.num_attention_heads,
        "head_dim": config.hidden_size // config.num_attention_heads,
        # Before version 5 transformers reads the plain field, from then on the block.
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "dtype": "float32",  # what to compute with; the file holds the weights in bfloat16
    }


def _read_config(path: Path) -> ModelConfig:
    """Read ``config.json``; raise DataError for a model that this module's network is not."""
    try:
        written = json.loads(path.read_bytes())
        rope = written.get("rope_parameters") or written.get("rope_scaling") or {}
        written.setdefault("rope_theta", rope.get("rope_theta"))
        written["rope_type"] = rope.get("rope_type", rope.get("type", "default"))
        shape = {field.name: field.type(written[field.name]) for field in fields(ModelConfig)}  # type: ignore[operator]  # int or float
        heads, width = shape["num_attention_heads"], shape["hidden_size"]
        ours = {
            **_FIXED,
            "num_key_value_heads": heads,
            "head_dim": width // heads,
            "rope_type": "default",
        }
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise DataError(
            f"{display(path)} is not the config of a Llama-shaped model: "
            f"{type(error).__name__}: {error}."
        ) from error
    for name, value in ours.items():
        if written.get(name, value) != value:
            raise DataError(
                f"{display(path)}: {name} is {written[name]!r}, but the tiny policy's network has "
                f"{value!r}. Sample such a model as hf:{path.parent}."
            )
    if min(shape.values()) <= 0 or width % heads or (width // heads) % 2:
        raise DataError(f"{display(path)}: a network of this shape cannot be built: {shape}.")
    return ModelConfig(**shape)


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for a bad file
        raise DataError(f"{display(path)} is not a tokenizer: {error}.") from error
    tokenizer.encode_special_tokens = True  # "<eos>" in a text is five characters, not the action
    return tokenizer


def _read_weights(model: TinyModel, path: Path) -> None:
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise DataError(f"{display(path)} is not a safetensors file: {error}.") from error
    weights.pop("lm_head.weight", None)  # some writers store the tied embedding twice
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != found:
        name = min(set(expected.items()) ^ set(found.items()))[0]
        raise DataError(
            f"{display(path)} does not fit {CONFIG} beside it: {name} is "
            f"{found.get(name, 'missing')}, expected {expected.get(name, 'no such tensor')}."
        )
    broken = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if broken:
        raise DataError(f"{display(path)}: {broken[0]} holds values that are not finite.")
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
