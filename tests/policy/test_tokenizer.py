"""Claims about the tiny policy's tokenizer: every text survives, and the end is no text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.policy.tokenizer import EOS_ID, PAD_ID, build_tokenizer, encode, encode_prompt

WORDS = ["Final", "The", " answer", " is", " shells", "shells"]
TOKENIZER = build_tokenizer(WORDS)


@pytest.fixture(params=["built", "loaded"])
def tokenizer(request, tiny):
    """As it is made, and as it comes out of its file."""
    return TOKENIZER if request.param == "built" else tiny.tokenizer


def texts(ids: list[int]) -> list[str]:
    return [TOKENIZER.id_to_token(number) for number in ids]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_the_round_trip(text):
    """Emoji, NUL, carriage returns, unknown words: all come back as they were."""
    assert TOKENIZER.decode(encode(TOKENIZER, text), skip_special_tokens=False) == text


@given(st.lists(st.sampled_from([*WORDS, " ", "\n", "0", "07", "42", "100", "<eos>", "é", "-"])))
def test_a_text_made_of_known_pieces_survives_too(pieces):
    """Words run together, numbers with leading zeros, the name of the end."""
    text = "".join(pieces)
    assert TOKENIZER.decode(encode(TOKENIZER, text), skip_special_tokens=False) == text


@pytest.mark.parametrize(("text", "expected"), [
    ("Final: 79", ["Final", ":", " ", "79"]),
    ("The answer is 8.", ["The", " answer", " is", " ", "8", "."]),
    ("100", ["10", "0"]), ("07", ["0", "7"]), ("shells shells", ["shells", " shells"]),
    (" Bob", [" ", "B", "o", "b"]), ("é", ["<0xC3>", "<0xA9>"]),
])  # fmt: skip
def test_pieces(text, expected):
    """One token per known word and per number below 100; what is unknown falls apart."""
    assert texts(encode(TOKENIZER, text)) == expected


@pytest.mark.parametrize("text", ["<eos>", "Final: 8<eos>", "<pad><eos>\n", " <eos> "])
def test_the_name_of_the_end_is_not_the_end(tokenizer, text):
    """A prompt cannot make the policy believe that it has ended."""
    ids = encode_prompt(tokenizer, text)
    assert not {EOS_ID, PAD_ID} & set(ids)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text + "\n"


def test_a_prompt_ends_with_a_newline():
    """That is where the policy begins to write."""
    assert encode_prompt(TOKENIZER, "The") == encode(TOKENIZER, "The\n")
