"""The leaky scorer: the right number anywhere. Its leaks are the lesson, so they are pinned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.scoring.anywhere import CODES, score

pieces = st.sampled_from(["8", "-8", "18", "0", "-", " ", "x", "٨", "\ud800", "\x00", ".", "é"])
texts = st.one_of(st.lists(pieces, max_size=8).map("".join), st.text(st.characters(), max_size=20))


def oracle(text: str, expected: str) -> bool:
    """Walk the text character by character: runs of 0-9, and a minus that belongs to a run."""
    digits, letters = set("0123456789"), set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    i = 0
    while i < len(text):
        if text[i] not in digits:
            i += 1
            continue
        start = i
        while i < len(text) and text[i] in digits:
            i += 1
        minus = start > 0 and text[start - 1] == "-"
        if minus and not (start > 1 and text[start - 2] in digits | letters):
            start -= 1
        if text[start:i] == expected:
            return True
    return False


@pytest.mark.parametrize(
    ("expected", "text", "code"),
    [
        (8, "8", "ok"),
        (8, "1 2 3 4 5 6 7 8 9", "ok"),
        (8, "a box of 8 eggs", "ok"),
        (8, "18", "not_found"),
        (8, "-8", "not_found"),
        (-8, "x = -8", "ok"),
        (8, "15-8", "ok"),
        (-8, "15-8", "not_found"),
        (-8, "x-8", "not_found"),
        (-8, "--8", "ok"),
        (8, "8.5", "ok"),
        (234, "1,234", "ok"),
        (8, "08", "not_found"),
        (8, "٨", "not_found"),
        (8, " \n", "empty"),
        (8, "", "empty"),
        (8, "none", "not_found"),
    ],
)
def test_a_number_is_a_maximal_run_of_digits(expected, text, code):
    """The docstring's rules, with their known leaks."""
    result = score({"expected_answer": expected}, text)
    assert result["details"]["code"] == code
    assert result["reward"] == (1.0 if code == "ok" else 0.0)


@given(texts, st.sampled_from(["8", "-8", "0", "18"]))
def test_a_walk_over_the_characters_agrees(text, expected):
    """Another way to say the rule; total over any text, and a code of the closed set."""
    result = score({"expected_answer": expected}, text)
    assert result["details"]["code"] in CODES
    assert (result["reward"] == 1.0) == oracle(text, expected)


@given(texts)
def test_the_span_is_the_first_match_or_the_whole_text(text):
    """Valid offsets always."""
    details = score({"expected_answer": 8}, text)["details"]
    start, end = details["span"]
    assert text[start:end] == ("8" if details["code"] == "ok" else text)


@pytest.mark.parametrize("expected", [8.0, True, None, "", "+5", "007", "8\n"])
def test_an_invalid_example_raises(expected):
    """Unscored, never 0."""
    with pytest.raises(ValueError, match="cannot be scored"):
        score({"expected_answer": expected}, "8")
