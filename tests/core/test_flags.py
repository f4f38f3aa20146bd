"""The types of flags: what they take, and how they refuse the rest."""

from argparse import ArgumentTypeError

import pytest

from course.core.flags import number, whole


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("100", 100), (" 7 ", 7)])
def test_a_whole_number_in_its_range_is_taken(text, value):
    """Both ends are in."""
    assert whole(1, 100)(text) == value


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "", "x", "nan"])
def test_anything_below_or_else_is_refused(text):
    """With what was expected."""
    with pytest.raises(ArgumentTypeError, match="whole number of at least 1"):
        whole(1, 100)(text)


def test_too_much_is_refused_with_the_most():
    """The limit is named only where it matters."""
    with pytest.raises(ArgumentTypeError, match="at most 1,000"):
        whole(1, 1000)("1001")


@pytest.mark.parametrize("text", ["nan", "-0.1", "1.1", "inf", "x", ""])
def test_a_number_outside_its_range_is_refused(text):
    """NaN too, which is neither below nor above."""
    with pytest.raises(ArgumentTypeError, match="is not a share"):
        number(0, 1, "a share")(text)


def test_a_number_in_its_range_is_taken():
    """Both ends are in."""
    assert [number(0, 1, "a share")(text) for text in ("0", "0.25", "1")] == [0, 0.25, 1]
