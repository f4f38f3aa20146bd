"""Text to tokens and back, for the tiny policy: one token per word and one per number 0 to 99.

Every text survives the round trip. A word takes the space before it along (`` shells``), as in
large models' tokenizers; a number never does, so `` 79`` is two tokens and ``Final: 79`` is four.
What is no known word or number falls back to characters, and then to bytes.

It is a plain ``tokenizers`` BPE without merges: ``transformers.AutoTokenizer`` reads it as it is.
"""

import string
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

PAD, EOS = "<pad>", "<eos>"
PAD_ID, EOS_ID = 0, 1
NUMBERS = 100  # 0 .. 99 are one token each
PIECES = r" ?[A-Za-z]+|[1-9][0-9]?|[\s\S]"
"""What can become one token: a word with its space, a number up to 99, any single character."""

PROMPT_END = "\n"
"""Stands between the prompt and what the policy writes."""

CHAT_TEMPLATE = "{{ messages[-1]['content'] + '\\n' }}"
"""The same for transformers: so the model is asked alike through either door."""


def build_tokenizer(words: Iterable[str]) -> Tokenizer:
    """Make the tokenizer whose vocabulary holds these words.

    Args:
        words: letters only, with or without one space in front; both may be given.
    """
    tokens = [PAD, EOS, *map(str, range(NUMBERS)), "\n", " "]
    tokens += [*string.punctuation, *string.ascii_letters, *sorted(words)]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]  # the names that byte_fallback looks for
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([PAD, EOS])
    tokenizer.encode_special_tokens = True  # "<eos>" in a text is five characters, not the action
    return tokenizer


def encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the tokens that the policy is given for a prompt."""
    return encode(tokenizer, prompt + PROMPT_END)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return a text's tokens; what reads like ``<eos>`` in a text is text, never the action."""
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
