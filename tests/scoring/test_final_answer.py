"""The default scorer: one `Final: <integer>`, at the end; other texts name their broken rule."""

import copy
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.scoring.final_answer import CODES, REWARD_RANGE, score
from course.scoring.parsing import LONGEST_SHOWN, MARKER, MESSAGES

EXAMPLE_8 = {"id": "a", "prompt": "15 - 7?", "expected_answer": 8}

# Texts near the border: markers, digits of two scripts, signs, every kind of whitespace, NUL,
# a lone surrogate, an astral character.
PIECES = [MARKER, "Final: ", "Final: 8", "Final", "final: 8", ":", " ", "  ", "\n", "\r", "\t"]
PIECES += ["\x00", "\x0b", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "\u200b", "\ufeff"]
PIECES += ["0", "8", "07", "-", "-0", "+", "+5", "٣", "³", "½", ".", ",", "1,234", "8.5", "x"]
PIECES += ["\ud800", "😀", "é"]
texts = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(st.characters(), max_size=4)), max_size=8
).map("".join)


def code_of(text: str) -> str:
    return score(EXAMPLE_8, text)["details"]["code"]


def test_the_sentence_of_the_spec_earns_the_full_reward():
    """Reasoning on the same line is welcome."""
    result = score(EXAMPLE_8, "Let me calculate... 15 - 7 = 8. Final: 8")
    assert result == {
        "reward": 1.0,
        "details": {"code": "ok", "message": MESSAGES["ok"], "parsed": "8", "span": [39, 40]},
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Final: 8", "ok"),
        ("Final: 8\n", "ok"),
        ("so\nFinal: 8", "ok"),
        ("", "empty"),
        (" \t\n\u3000\x1c", "empty"),
        ("\u200b", "missing_final"),
        ("8", "missing_final"),
        ("final: 8", "missing_final"),
        ("Final : 8", "missing_final"),
        ("Final\uff1a 8", "missing_final"),
        ("Final: 7\nFinal: 8", "multiple_finals"),
        ("Semi-Final: 3. Final: 8", "multiple_finals"),
        ("Final:Final: 8", "multiple_finals"),
        ("Semi-Final: 8", "misplaced_final"),
        ("\tFinal: 8", "misplaced_final"),
        ("\rFinal: 8", "misplaced_final"),
        ("\xa0Final: 8", "misplaced_final"),
        ("**Final: 8**", "misplaced_final"),
        ("Final:8", "bad_spacing"),
        ("Final:", "bad_spacing"),
        ("Final:\n", "bad_spacing"),
        ("Final:\n8", "bad_spacing"),
        ("Final:  8", "bad_spacing"),
        ("Final: \n8", "bad_spacing"),
        ("Final: \n\n", "bad_spacing"),
        ("Final:\t8", "bad_spacing"),
        ("Final:\xa08", "bad_spacing"),
        ("Final: ", "missing_integer"),
        ("Final: \n", "missing_integer"),
        ("Final: +8", "plus_sign"),
        ("Final: +08", "plus_sign"),
        ("Final: 08", "leading_zeros"),
        ("Final: -08", "leading_zeros"),
        ("Final: 00", "leading_zeros"),
        ("Final: -0", "negative_zero"),
        ("Final: ٨", "non_ascii_digits"),
        ("Final: -٨", "non_ascii_digits"),
        ("Final: 8٨", "non_ascii_digits"),
        ("Final: ８", "non_ascii_digits"),
        ("Final: 8.", "not_an_integer"),
        ("Final: 8.0", "not_an_integer"),
        ("Final: 1,234", "not_an_integer"),
        ("Final: 8\x00", "not_an_integer"),
        ("Final: 8\u200b", "not_an_integer"),
        ("Final: −8", "not_an_integer"),
        ("Final: --8", "not_an_integer"),
        ("Final: -", "not_an_integer"),
        ("Final: +", "not_an_integer"),
        ("Final: ½", "not_an_integer"),
        ("Final: <8>", "not_an_integer"),
        ("Final: \ud800", "not_an_integer"),
        ("Final: eight", "not_an_integer"),
        ("Final: 8. ", "not_an_integer"),
        ("Final: 8 ", "trailing_text"),
        ("Final: 8\r", "trailing_text"),
        ("Final: 8\r\n", "trailing_text"),
        ("Final: 8\n\n", "trailing_text"),
        ("Final: 8\nDone.", "trailing_text"),
        ("Final: 8\u2028", "trailing_text"),
        ("Final: 7", "wrong_answer"),
        ("Final: -8", "wrong_answer"),
        ("Final: 88", "wrong_answer"),
    ],
)
def test_the_first_broken_rule_names_the_outcome(text, code):
    """The table of the spec, row by row, at its borders."""
    assert code_of(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("xFinal:9Final:", "multiple_finals"),  # 3 before 4 and 5
        ("xFinal:9", "misplaced_final"),  # 4 before 5
        ("Final:+5 x", "bad_spacing"),  # 5 before 7
        ("Final: 07 x", "leading_zeros"),  # 7 before 8
        ("Final: 7 x", "trailing_text"),  # 8 before 9
    ],
)
def test_the_rules_are_asked_in_their_order(text, code):
    """A text that breaks two rules is named after the first."""
    assert code_of(text) == code


# One regular expression per outcome, over the whole text: another way to say the spec.
ANY = r"[\s\S]*"
NUMBER = r"(?:0|-?[1-9][0-9]*)"
ORACLE = [
    ("empty", r"\s*"),
    ("missing_final", rf"(?!{ANY}Final:){ANY}"),
    ("multiple_finals", f"{ANY}Final:{ANY}Final:{ANY}"),
    ("misplaced_final", rf"{ANY}[^ \n]Final:{ANY}"),
    ("bad_spacing", rf"{ANY}Final:(?: (?!\n?\Z)\s|(?! )){ANY}"),
    ("missing_integer", rf"{ANY}Final: \n?"),
    ("plus_sign", rf"{ANY}Final: \+[0-9]+(?:\s{ANY})?"),
    ("leading_zeros", rf"{ANY}Final: -?0[0-9]+(?:\s{ANY})?"),
    ("negative_zero", rf"{ANY}Final: -0(?:\s{ANY})?"),
    ("well_formed", rf"{ANY}Final: {NUMBER}\n?"),
    ("trailing_text", rf"{ANY}Final: {NUMBER}\s{ANY}"),
    ("no_number", ANY),
]
FAMILY = {"ok": "well_formed", "wrong_answer": "well_formed"}
FAMILY |= {"non_ascii_digits": "no_number", "not_an_integer": "no_number"}
OK = re.compile(rf"(?!{ANY}Final:{ANY}Final:)(?:{ANY}[ \n])?Final: (0|-?[1-9]\d*)\n?", re.ASCII)


@given(texts)
def test_an_independent_grammar_agrees_on_every_code(text):
    """Twelve regular expressions over the whole text, tried in order."""
    expected = next(code for code, rule in ORACLE if re.fullmatch(rule, text))
    code = code_of(text)
    assert FAMILY.get(code, code) == expected


@given(texts, st.sampled_from(["", " ", "\n", "x"]), st.integers(-9, 9), st.sampled_from(PIECES))
def test_an_independent_regex_agrees_on_what_is_right(head, gap, number, tail):
    """One regular expression says which texts end in one well-formed answer, and which answer."""
    for text in (head, f"{head}{gap}Final: {number}", f"{head}{gap}Final: {number}{tail}"):
        match = OK.fullmatch(text)
        answer = match[1] if match else "8"
        result = score({"expected_answer": answer}, text)
        assert (result["reward"] == 1.0) == bool(match)
        other = "7" if answer != "7" else "8"
        assert score({"expected_answer": other}, text)["reward"] == 0.0


@given(texts)
def test_any_text_gets_a_code_of_the_closed_set(text):
    """Total: no exception, one of CODES, its message, and 1.0 exactly for ok."""
    result = score(EXAMPLE_8, text)
    details = result["details"]
    assert type(result["reward"]) is float and result["reward"] in REWARD_RANGE
    assert (result["reward"] == 1.0) == (details["code"] == "ok")
    assert details["message"] == CODES[details["code"]]
    assert set(result) == {"reward", "details"}
    assert set(details) == {"code", "message", "parsed", "span"}


@given(texts)
def test_the_span_is_a_part_of_the_text_and_holds_the_token(text):
    """Offsets that inspect can mark: 0 <= start <= end <= length."""
    details = score(EXAMPLE_8, text)["details"]
    start, end = details["span"]
    assert 0 <= start <= end <= len(text)
    if details["parsed"] is not None and details["code"] != "trailing_text":
        assert text[start:end] == details["parsed"]
    if details["code"] == "trailing_text":
        assert text[:start].endswith(details["parsed"]) and end == len(text)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("so Final: 8", "8"),
        ("Final: 1,234 apples", "1,234"),
        ("Final: 8 apples", " apples"),
        ("Final: 7 Final: 8", "Final:"),
        ("**Final: 8", "*Final:"),
        ("Final: \t 8", " \t "),
        ("Final: ", " "),
        ("no idea", "no idea"),
    ],
)
def test_the_span_marks_the_offending_part(text, marked):
    """What a student must look at."""
    start, end = score(EXAMPLE_8, text)["details"]["span"]
    assert text[start:end] == marked


@given(texts, st.one_of(st.integers(), st.integers().map(str)))
def test_a_scorer_changes_nothing_and_says_the_same_twice(text, expected):
    """Deterministic, and the example is only read."""
    example = {"expected_answer": expected, "metadata": {"x": [1]}}
    before = copy.deepcopy(example)
    first = score(example, text)
    assert score(example, text) == first
    assert example == before and type(example["expected_answer"]) is type(expected)


@pytest.mark.parametrize("digits", [1, 19, 20, 30, 4_300, 4_301, 100_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_answers_of_any_length_are_compared_as_text(digits, sign):
    """Beyond 64 bits, and beyond the 4,300 digits that Python turns into an int."""
    answer = sign + "9" * digits
    result = score({"expected_answer": answer}, f"Final: {answer}")
    assert result["reward"] == 1.0
    assert result["details"]["parsed"] == answer[:LONGEST_SHOWN]
    assert result["details"]["span"] == [7, 7 + len(answer)]
    other = answer[:-1] + "8"
    assert (
        score({"expected_answer": other}, f"Final: {answer}")["details"]["code"] == "wrong_answer"
    )


def test_an_integer_and_its_text_are_the_same_answer():
    """Both forms of expected_answer mean one thing."""
    for value in (0, 8, -12, 2**63):
        assert score({"expected_answer": value}, f"Final: {value}")["reward"] == 1.0
        assert score({"expected_answer": str(value)}, f"Final: {value}")["reward"] == 1.0


INVALID = [8.0, True, None, "", "+5", "007", "8\n", "-0", " 8", "8 ", "1,234", "٣", [8], "eight"]


@pytest.mark.parametrize("expected", INVALID)
def test_an_invalid_example_raises_whatever_the_completion(expected):
    """It cannot be scored, and that is no zero."""
    for text in ("Final: 8", ""):
        with pytest.raises(ValueError, match="this example cannot be scored"):
            score({"expected_answer": expected}, text)


def test_an_example_without_an_answer_raises():
    """A missing key is an invalid example too."""
    with pytest.raises(ValueError, match="cannot be scored"):
        score({"id": "a"}, "Final: 8")


def test_an_int_of_more_digits_than_python_writes_raises_a_value_error():
    """Such a number cannot come from a file; written as a string it can."""
    with pytest.raises(ValueError):
        score({"expected_answer": 10**5_000}, "Final: 8")


def test_re_and_str_agree_on_what_whitespace_is():
    r"""The parser uses ``\S`` and ``isspace`` side by side; over all of Unicode they are one."""
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    by_re = set(re.findall(r"\s", everything))
    assert by_re == {char for char in everything if char.isspace()}
    assert not [char for char in by_re if char.isdigit()]


def test_every_code_is_explained_in_one_line():
    """For students: short, one line, and none of another scorer's."""
    assert set(MESSAGES) - set(CODES) == {"extra_text"}
    for text in MESSAGES.values():
        assert text and "\n" not in text and len(text) <= 90 and text.endswith((".", "?"))
