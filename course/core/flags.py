"""Types of flags: what argparse calls with a flag's text, and what refuses it in words.

add("--n", type=whole(1, 100_000))
"""

from argparse import ArgumentTypeError
from collections.abc import Callable


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """Make the type of a flag that takes a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            above = f", at most {most:,}" if value > most else ""
            raise ArgumentTypeError(f"{text!r} is not a whole number of at least {least}{above}")
        return value

    return read


def number(low: float, high: float, what: str) -> Callable[[str], float]:
    """Make the type of a flag that takes a number from ``low`` to ``high``.

    Args:
        what: names it in the refusal: "a share of the probability: above 0, at most 1".
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read
