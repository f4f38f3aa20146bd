"""The golden sets: every row gets the score it names, and every code has its rows."""

import json
from typing import Any

import pytest

from course.core.jsonl import JsonlReader
from course.core.paths import DATA
from course.core.records import GoldenCase
from course.scoring import BUILTIN_SCORERS
from course.scoring.contract import load_scorer

GOLDEN = DATA / "golden"
NAMES = sorted(BUILTIN_SCORERS)


def cases(name: str) -> list[GoldenCase]:
    files = sorted((GOLDEN / name).glob("*.jsonl"))
    return [row for file in files for row in JsonlReader(file, GoldenCase)]


def test_there_is_a_golden_set_per_scorer():
    """Correct ones and exploits."""
    found = sorted(path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.jsonl"))
    assert found == [f"{name}/{kind}.jsonl" for name in NAMES for kind in ("correct", "exploits")]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_gets_the_score_it_names(name):
    """All differences at once, so that a changed rule shows its whole effect."""
    score = load_scorer(name).plugin.function
    wrong: list[Any] = []
    for case in cases(name):
        result = score({"expected_answer": case.expected_answer}, case.completion)
        got = (result["reward"], result["details"]["code"])
        if got != (case.expected_reward, case.expected_code):
            wrong.append((case.id, got, case.note))
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_reached_and_no_other(name):
    """The set of codes is closed: each has a golden row, and no row has another."""
    scorer = load_scorer(name)
    assert {case.expected_code for case in cases(name)} == set(scorer.codes)


def test_there_are_at_least_150_rows_for_the_default_scorer():
    """The acceptance of the issue; and each code of it at least three times."""
    codes = [case.expected_code for case in cases("final_answer")]
    assert len(codes) >= 150
    assert min(codes.count(code) for code in set(codes)) >= 3


def test_ids_are_unique_over_all_golden_sets():
    """A failing row is found by its id."""
    ids = [case.id for name in NAMES for case in cases(name)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", NAMES)
def test_both_rewards_occur_and_no_row_is_given_twice(name):
    """A case says something that no other says, and a note says what."""
    assert {case.expected_reward for case in cases(name)} == {0.0, 1.0}
    told = [json.dumps([str(case.expected_answer), case.completion]) for case in cases(name)]
    assert len(told) == len(set(told))
    assert all(case.note for case in cases(name))
