"""Megabytes of anything get their code. A quadratic step would take hours here, not seconds."""

import pytest

from course.scoring import anywhere, final_answer, single_line

MILLION = 1_000_000
DIGITS = "9" * (10 * MILLION)
BAD_SPACING, NO_INTEGER = "bad_spacing", "not_an_integer"

# text, code of final_answer, code of single_line, code of anywhere (the expected answer is 8)
CASES = {
    "10 MB of digits": (f"Final: {DIGITS}", "wrong_answer", "wrong_answer", "not_found"),
    "10 MB of digits and a letter": (f"Final: {DIGITS}x", NO_INTEGER, NO_INTEGER, "not_found"),
    "10 MB of digits without a marker": (DIGITS, *["missing_final"] * 2, "not_found"),
    "10 MB of zeros": ("Final: " + "0" * 10 * MILLION, *["leading_zeros"] * 2, "not_found"),
    "5 M Arabic digits": ("Final: " + "٣" * 5 * MILLION, *["non_ascii_digits"] * 2, "not_found"),
    "a million markers": ("Final:" * MILLION, *["multiple_finals"] * 2, "not_found"),
    "a million answers": ("Final: 8\n" * MILLION, *["multiple_finals"] * 2, "ok"),
    "a million near-markers": ("Final; " * MILLION, *["missing_final"] * 2, "not_found"),
    "a million spaces": (" " * MILLION, "empty", "empty", "empty"),
    "a million spaces before": (" " * MILLION + "Final: 8", "ok", "extra_text", "ok"),
    "a million spaces after": ("Final: 8" + " " * MILLION, *["trailing_text"] * 2, "ok"),
    "a million spaces inside": ("Final:" + " " * MILLION + "8", *[BAD_SPACING] * 2, "ok"),
    "a million newlines inside": ("Final: " + "\n" * MILLION + "8", *[BAD_SPACING] * 2, "ok"),
    "a million signs": ("Final: " + "-" * MILLION, NO_INTEGER, NO_INTEGER, "not_found"),
    "a million signs, no marker": ("-" * MILLION, *["missing_final"] * 2, "not_found"),
    "a million pluses": ("Final: " + "+" * MILLION + "8", NO_INTEGER, NO_INTEGER, "ok"),
    "a million numbers": ("7 -" * MILLION, *["missing_final"] * 2, "not_found"),
    "10 MB of NUL": ("\x00" * 10 * MILLION, *["missing_final"] * 2, "not_found"),
    "a million half surrogates": ("Final: 8" + "\ud800" * MILLION, NO_INTEGER, NO_INTEGER, "ok"),
}


@pytest.mark.parametrize("name", CASES)
def test_large_texts_get_their_code(name):
    """Each scorer, on texts made to be slow for a careless one."""
    text, *codes = CASES[name]
    for scorer, code in zip((final_answer, single_line, anywhere), codes, strict=True):
        details = scorer.score({"expected_answer": 8}, text)["details"]
        assert details["code"] == code
        assert details["parsed"] is None or len(details["parsed"]) <= 100


def test_a_right_answer_of_ten_million_digits_earns_its_reward():
    """Text is compared, so no digit limit applies and nothing is converted."""
    for scorer in (final_answer, single_line, anywhere):
        assert scorer.score({"expected_answer": DIGITS}, f"Final: {DIGITS}")["reward"] == 1.0
