"""The stricter sibling of ``final_answer``: `Final: <integer>` and nothing else."""

from typing import Any

from course.scoring.parsing import MESSAGES, expected_text, parse_final, score_parsed

NAME = "single_line"
VERSION = "1"
REWARD_RANGE = (0.0, 1.0)
CODES = {code: text for code, text in MESSAGES.items() if code != "misplaced_final"}


def score(example: dict[str, Any], completion: str) -> dict[str, Any]:
    """Give 1.0 to a completion that is the expected answer in the one allowed form, else 0.0.

    Arguments, result and errors are those of ``final_answer.score``; the one more code is
    ``extra_text``, for anything that stands before the marker.
    """
    return score_parsed(parse_final(completion, alone=True), expected_text(example))
