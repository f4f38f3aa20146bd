"""A deliberately leaky scorer, for lessons: the expected integer appears anywhere as a number.

Never train on it, unless you want to see what an optimiser does with a leak: a list of guesses
earns the full reward without an answer. A number is a maximal run of the digits 0-9; a `-` directly
before it belongs to it unless a letter or digit stands directly before that, so `15-8` holds 15 and
8, and `x = -8` holds -8. Decimal points and thousands separators are not understood.
"""

import re
from typing import Any

from course.scoring.parsing import expected_text

NAME = "anywhere"
VERSION = "1"
REWARD_RANGE = (0.0, 1.0)
CODES = {
    "ok": "The expected integer appears somewhere in the text.",
    "empty": "There is no text: only whitespace, or nothing at all.",
    "not_found": "The expected integer does not appear as a number in the text.",
}

_NUMBER = re.compile(r"(?:(?<![A-Za-z0-9])-)?[0-9]+")


def score(example: dict[str, Any], completion: str) -> dict[str, Any]:
    """Give 1.0 if any number in the completion equals the expected answer as text, else 0.0.

    Args and Raises: as ``final_answer.score``.

    Returns: as ``final_answer.score``; ``span`` is the first match, or the whole text.
    """
    expected = expected_text(example)
    code, parsed, span = "not_found", None, [0, len(completion)]
    for match in _NUMBER.finditer(completion):
        if match.end() - match.start() == len(expected) and match.group() == expected:
            code, parsed, span = "ok", expected, [match.start(), match.end()]
            break
    if code != "ok" and (not completion or completion.isspace()):
        code = "empty"
    return {
        "reward": 1.0 if code == "ok" else 0.0,
        "details": {"code": code, "message": CODES[code], "parsed": parsed, "span": span},
    }
