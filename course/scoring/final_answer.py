"""The default scorer: exactly one `Final: <integer>`, at the end of the completion.

Reasoning may stand before it. `Let me calculate... 15 - 7 = 8. Final: 8` earns 1.0 for the answer
8. The rules and their order are in ``parsing.py``.
"""

from typing import Any

from course.scoring.parsing import MESSAGES, expected_text, parse_final, score_parsed

NAME = "final_answer"
VERSION = "1"
REWARD_RANGE = (0.0, 1.0)
CODES = {code: text for code, text in MESSAGES.items() if code != "extra_text"}


def score(example: dict[str, Any], completion: str) -> dict[str, Any]:
    """Give 1.0 to a completion whose one final answer equals the expected one, else 0.0.

    Args:
        example: needs ``expected_answer``, an int or a canonical decimal string.
        completion: any str at all.

    Returns: ``{"reward", "details"}``; details carry ``code`` (a key of CODES), its ``message``,
        ``parsed`` (the token after the marker, or None) and ``span`` ([start, end) in characters:
        the part of the completion that the code is about).

    Raises: ValueError for an invalid example; that is unscored, not 0.
    """
    return score_parsed(parse_final(completion), expected_text(example))
