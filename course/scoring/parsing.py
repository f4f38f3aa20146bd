"""Read the one final answer out of a text, or name the first rule that the text breaks.

The rules stand in the order in which they are checked, and the first that fails names the outcome:

    1  there is a character that is not whitespace                      empty
    2  the marker `Final:` occurs                                       missing_final
    3  it occurs once, counted as a substring                           multiple_finals
    (single_line only: nothing stands before it                         extra_text)
    4  it stands at the start, or after a space or a newline            misplaced_final
    5  one final newline is ignored; exactly one space follows it       bad_spacing
    6  something follows that space                                     missing_integer
    7  the token up to the next whitespace is a canonical integer       plus_sign, leading_zeros,
                                                negative_zero, non_ascii_digits, not_an_integer
    8  nothing follows the token                                        trailing_text

Every step is linear in the text, and no digit is ever turned into a number: texts are compared.
"""

import re
from typing import Any

from msgspec import Struct

MARKER = "Final:"
LONGEST_SHOWN = 100  # characters of the token that details repeat; the span gives the whole

MESSAGES = {
    "ok": "The answer is right and written as asked.",
    "wrong_answer": "The format is right, the number is not.",
    "empty": "There is no text: only whitespace, or nothing at all.",
    "missing_final": "The marker `Final:` does not occur (capital F, colon, no space between).",
    "multiple_finals": "The marker `Final:` occurs more than once, so which answer counts?",
    "extra_text": "Something stands before `Final:`, and this scorer allows nothing else.",
    "misplaced_final": "`Final:` must start the text or follow a space or a newline.",
    "bad_spacing": "Exactly one space, and no other whitespace, must follow `Final:`.",
    "missing_integer": "Nothing follows `Final: `.",
    "plus_sign": "A plus sign is not part of a canonical integer: write 5, not +5.",
    "leading_zeros": "A canonical integer has no leading zeros: write 7, not 07.",
    "negative_zero": "Zero has no sign: write 0, not -0.",
    "non_ascii_digits": "Only the digits 0-9 count, not those of other scripts.",
    "not_an_integer": "What follows `Final: ` is not an integer (as in 1,234 or 8.5 or `8.`).",
    "trailing_text": "Something follows the integer, if only a space: it must end the text.",
}
"""Every outcome code of ``final_answer`` and ``single_line``, in one line each."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_ENDING = re.compile(rf" ({_INTEGER.pattern})\n?\Z")
_TOKEN = re.compile(r"\S*")
_PLUS = re.compile(r"\+[0-9]+")
_ZEROS = re.compile(r"-?0[0-9]+")


class Parsed(Struct, frozen=True, gc=False):
    """What was found in a completion."""

    code: str
    """``ok`` when there is one well-formed answer, or the code of the first broken rule."""
    answer: str | None
    """The token after the marker, well-formed or not; None when there is none."""
    start: int
    end: int
    """The part the code is about: characters ``start`` up to, not including, ``end``."""


def parse_final(text: str, *, alone: bool = False) -> Parsed:
    """Find the final answer of a completion, or the first rule it breaks.

    Args:
        text: any str at all.
        alone: also demand that nothing stands before the marker (``extra_text``).
    """
    marker = text.find(MARKER)
    if marker < 0:
        code = "empty" if not text or text.isspace() else "missing_final"
        return Parsed(code, None, 0, len(text))
    ending = _ENDING.match(text, marker + 6)
    if ending and (marker == 0 or (not alone and text[marker - 1] in " \n")):
        return Parsed("ok", ending[1], marker + 7, ending.end(1))
    return _first_broken_rule(text, marker, alone)


def _first_broken_rule(text: str, marker: int, alone: bool) -> Parsed:
    """Go through rules 3 to 8 for a text that has the marker and is not well-formed."""
    second = text.find(MARKER, marker + 6)
    if second >= 0:
        return Parsed("multiple_finals", None, second, second + 6)
    if marker:
        if alone:
            return Parsed("extra_text", None, 0, marker)
        if text[marker - 1] not in " \n":
            return Parsed("misplaced_final", None, marker - 1, marker + 6)

    gap, length = marker + 6, len(text)
    end = length - 1 if text[-1] == "\n" else length
    start = gap + 1
    if text[gap:start] != " ":
        return Parsed("bad_spacing", None, gap, _skip_space(text, gap, end))
    if start >= end:
        return Parsed("missing_integer", None, gap, start)
    if text[start].isspace():
        return Parsed("bad_spacing", None, gap, _skip_space(text, gap, end))

    stop = _TOKEN.match(text, start, end).end()  # type: ignore[union-attr]  # \S* always matches
    token = text[start:stop]
    if _INTEGER.fullmatch(token):
        return Parsed("trailing_text", token, stop, length)
    return Parsed(_why_not_integer(token), token, start, stop)


def score_parsed(parsed: Parsed, expected: str) -> dict[str, Any]:
    """Turn a parse into a score: 1.0 if its answer equals the expected text, else 0.0."""
    code, answer = parsed.code, parsed.answer
    reward = 0.0
    if code == "ok":
        if answer == expected:
            reward = 1.0
        else:
            code = "wrong_answer"
    if answer and len(answer) > LONGEST_SHOWN:
        answer = answer[:LONGEST_SHOWN]
    span = [parsed.start, parsed.end]
    details = {"code": code, "message": MESSAGES[code], "parsed": answer, "span": span}
    return {"reward": reward, "details": details}


def expected_text(example: dict[str, Any]) -> str:
    """Return an example's expected answer as canonical text.

    Raises: ValueError for an example that has none: its completions are unscored, not wrong.
    """
    expected = example.get("expected_answer")
    if type(expected) is int:
        return str(expected)
    if type(expected) is str and _INTEGER.fullmatch(expected):
        return expected
    raise ValueError(
        f"expected_answer is {str(expected)[:40]!r}, which is neither an integer nor its canonical "
        "decimal string; this example cannot be scored"
    )


def _skip_space(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start


def _why_not_integer(token: str) -> str:
    if _PLUS.fullmatch(token):
        return "plus_sign"
    if _ZEROS.fullmatch(token):
        return "leading_zeros"
    if token == "-0":
        return "negative_zero"
    digits = token[1:] if token[0] in "+-" else token
    if digits.isdigit() and not digits.isascii():
        return "non_ascii_digits"
    return "not_an_integer"
