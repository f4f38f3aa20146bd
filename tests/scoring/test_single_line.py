"""The stricter sibling: `Final: <integer>` and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.scoring import final_answer
from course.scoring.parsing import MESSAGES
from course.scoring.single_line import CODES, score

EXAMPLE_8 = {"expected_answer": 8}
pieces = st.sampled_from(
    ["Final:", "Final: 8", " ", "\n", "8", "-0", "07", "+", "٣", "\ud800", "x"]
)
texts = st.lists(pieces, max_size=7).map("".join)


def code_of(text: str) -> str:
    return score(EXAMPLE_8, text)["details"]["code"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Final: 8", "ok"),
        ("Final: 8\n", "ok"),
        ("Final: 7", "wrong_answer"),
        (" Final: 8", "extra_text"),
        ("\nFinal: 8", "extra_text"),
        ("xFinal: 8", "extra_text"),
        ("15 - 7 = 8. Final:8", "extra_text"),
        ("x Final: 7 Final: 8", "multiple_finals"),
        ("Final: 8 ", "trailing_text"),
        ("Final:", "bad_spacing"),
    ],
)
def test_anything_before_the_marker_is_extra_text(text, code):
    """Asked after rule 3, before the rules about the number."""
    assert code_of(text) == code


def test_the_span_is_the_extra_text():
    """From the start up to the marker."""
    assert score(EXAMPLE_8, "So: Final: 8")["details"]["span"] == [0, 4]


@given(texts)
def test_it_is_final_answer_where_nothing_stands_before_the_marker(text):
    """Alone they agree; otherwise the strict one has its own code, and it never gives more."""
    strict, loose = score(EXAMPLE_8, text), final_answer.score(EXAMPLE_8, text)
    assert strict["details"]["code"] in CODES
    assert strict["reward"] <= loose["reward"]
    if text.find("Final:") <= 0 or text.count("Final:") > 1:
        assert strict == loose
    else:
        assert strict["details"]["code"] == "extra_text"


@given(texts, st.integers(-20, 20))
def test_one_short_regex_says_what_is_right(text, number):
    """The whole language in a line."""
    for completion in (text, f"Final: {number}", f"Final: {number}{text}"):
        right = re.fullmatch(f"Final: {number}\n?", completion) is not None
        assert (score({"expected_answer": number}, completion)["reward"] == 1.0) == right


def test_its_codes_are_all_but_misplaced_final():
    """What stands before the marker is refused before one asks where it stands."""
    assert set(MESSAGES) - set(CODES) == {"misplaced_final"}


@pytest.mark.parametrize("expected", [8.0, True, None, "", "+5", "007", "8\n"])
def test_an_invalid_example_raises(expected):
    """Unscored, never 0."""
    with pytest.raises(ValueError, match="cannot be scored"):
        score({"expected_answer": expected}, "")
