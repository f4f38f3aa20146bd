"""What the shipped math datasets promise: sums that are right, splits that do not leak."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from types import ModuleType
from typing import Any

import pytest

Row = dict[str, Any]
Shipped = dict[str, list[Row]]

NARROW = ("train", "dev", "test")
INSTRUCTION = "\nEnd with Final: <int>"

FORMULAS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "addsub": lambda a, b, c: a + b - c,
    "subsub": lambda a, b, c: a - b - c,
    "muladd": lambda a, b, c: a * b + c,
    "mulsub": lambda a, b, c: a * b - c,
    "divadd": lambda a, b, c: a // b + c,
    "divsub": lambda a, b, c: a // b - c,
}


def question(row: Row) -> str:
    return str(row["prompt"]).removesuffix(INSTRUCTION)


def operation(row: Row) -> str:
    return str(row["metadata"]["operation"])


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def rows_of(shipped: Shipped, splits: tuple[str, ...]) -> list[Row]:
    return [row for split in splits for row in shipped[split]]


def unordered(row: Row) -> tuple[str, tuple[int, ...]]:
    """The operation and its numbers, where numbers that may trade places are sorted."""
    a, b, *rest = row["metadata"]["operands"]
    match operation(row):
        case "add" | "mul" | "addsub" | "muladd" | "mulsub":
            return operation(row), (min(a, b), max(a, b), *rest)
        case "subsub":
            return operation(row), (a, *sorted((b, *rest)))
        case _:
            return operation(row), (a, b, *rest)


@pytest.mark.parametrize(
    ("split", "count", "first", "last"),
    [
        ("train", 6000, "math-train-00001", "math-train-06000"),
        ("dev", 200, "math-dev-0001", "math-dev-0200"),
        ("test", 1000, "math-test-0001", "math-test-1000"),
        ("wide_test", 500, "math-wide-0001", "math-wide-0500"),
    ],
)
def test_ids_count_the_rows_of_a_split(
    shipped: Shipped, split: str, count: int, first: str, last: str
) -> None:
    """An id says which split a row is from and where it stands; none occurs twice."""
    ids = [row["id"] for row in shipped[split]]
    assert len(ids) == len(set(ids)) == count
    assert (ids[0], ids[-1]) == (first, last)
    assert ids == sorted(ids)


def test_every_answer_follows_from_its_operands(shipped: Shipped) -> None:
    """The answer is what the named operation makes of the operands."""
    for row in rows_of(shipped, (*NARROW, "wide_test")):
        formula = FORMULAS[operation(row)]
        assert row["expected_answer"] == formula(*row["metadata"]["operands"]), row
        assert type(row["expected_answer"]) is int


def test_every_answer_follows_from_the_numbers_in_the_text(shipped: Shipped) -> None:
    """A reader who sees only the question gets the same answer: metadata is not needed."""
    for row in rows_of(shipped, (*NARROW, "wide_test")):
        numbers = numbers_in(question(row))
        if row["metadata"]["template"] == "sub-compare":  # names the smaller number first
            numbers.reverse()
        assert row["expected_answer"] == FORMULAS[operation(row)](*numbers), row


def test_divisions_leave_no_remainder(shipped: Shipped) -> None:
    """`div` problems have an integer answer."""
    rows = [row for row in shipped["wide_test"] if operation(row).startswith("div")]
    assert len(rows) == 110
    assert all(row["metadata"]["operands"][0] % row["metadata"]["operands"][1] == 0 for row in rows)


def test_narrow_problems_stay_between_0_and_99(shipped: Shipped) -> None:
    """The tiny policy has one token per number 0..99: in the text, on the way and at the end."""
    for row in rows_of(shipped, NARROW):
        a, b, *_ = row["metadata"]["operands"]
        first_step = FORMULAS[operation(row)[:3]](a, b)
        values = [*numbers_in(row["prompt"]), first_step, row["expected_answer"]]
        assert set(values) <= set(range(100)), row


def test_narrow_operands_stay_in_their_tables(shipped: Shipped) -> None:
    """Sums use 2..99; products use small tables."""
    for row in rows_of(shipped, NARROW):
        a, b, *rest = row["metadata"]["operands"]
        assert min(a, b, *rest) >= 2, row
        if operation(row).startswith("mul"):
            assert a <= 9, row
            assert max(b, *rest) <= 20 if rest else b <= 12, row


def test_wide_problems_reach_from_below_zero_to_thousands(shipped: Shipped) -> None:
    """-999..9999, with enough negative answers and large ones to measure both."""
    rows = shipped["wide_test"]
    for row in rows:
        a, b, *_ = row["metadata"]["operands"]
        first_step = FORMULAS[operation(row)[:3]](a, b)
        values = [*numbers_in(question(row)), first_step, row["expected_answer"]]
        assert min(values) >= -999, row
        assert max(values) <= 9999, row
    answers = [row["expected_answer"] for row in rows]
    assert sum(answer < 0 for answer in answers) >= 100
    assert sum(answer >= 1000 for answer in answers) >= 100


@pytest.mark.parametrize(("split", "rows"), [("train", 6000), ("dev", 200), ("test", 1000)])
def test_every_narrow_split_mixes_operations_in_the_same_proportions(
    shipped: Shipped, split: str, rows: int
) -> None:
    """Exact quotas, so a pass rate on dev means the same on test."""
    percent = {"add": 22, "sub": 22, "mul": 8, "addsub": 11, "subsub": 11, "muladd": 12,
               "mulsub": 14}  # fmt: skip
    found = Counter(operation(row) for row in shipped[split])
    assert found == {name: share * rows // 100 for name, share in percent.items()}


def test_a_third_of_every_operation_says_in_total(shipped: Shipped) -> None:
    """The phrase marks a group of questions that no operation gives away."""
    for split in NARROW:
        for name, rows in Counter(operation(row) for row in shipped[split]).items():
            phrase = sum(
                "in total" in row["prompt"] for row in shipped[split] if operation(row) == name
            )
            assert abs(phrase - 0.34 * rows) <= 0.5, (split, name)


def test_rows_are_shuffled(shipped: Shipped) -> None:
    """The first 50 rows (what --max 50 takes) already mix all operations."""
    for split in (*NARROW, "wide_test"):
        assert len({operation(row) for row in shipped[split][:50]}) >= 7


def test_no_question_occurs_twice(shipped: Shipped) -> None:
    """Neither within a split nor in two of them."""
    rows = rows_of(shipped, (*NARROW, "wide_test"))
    assert len({question(row) for row in rows}) == len(rows) == 7700


def test_no_numbers_are_shared_between_splits(shipped: Shipped) -> None:
    """Who learned 15 + 7 from train meets neither 15 + 7 nor 7 + 15 in dev or test.

    Nor in the wide split. `mul` is a finite table of 59 facts within 0..99, so between the narrow
    splits only its full text is new.
    """
    for first, second in combinations((*NARROW, "wide_test"), 2):
        shared = {unordered(row) for row in shipped[first]} & {
            unordered(r) for r in shipped[second]
        }
        if second in NARROW:
            shared = {fact for fact in shared if fact[0] != "mul"}
        assert not shared, (first, second)


def test_the_split_of_a_problem_can_be_recomputed(shipped: Shipped) -> None:
    """data/README.md states the rule; this is the rule, written a second time."""
    for split, rows in shipped.items():
        for row in rows:
            name, numbers = unordered(row)
            a, b, *_ = row["metadata"]["operands"]
            values = (*numbers, FORMULAS[name[:3]](a, b), row["expected_answer"])
            if min(values) < 0 or max(values) > 99:
                assert split == "wide_test", row
                continue
            key = f"{name} {' '.join(map(str, numbers))}" if name != "mul" else question(row)
            bucket = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 100
            assert split == ("train" if bucket < 80 else "dev" if bucket < 84 else "test"), row


def test_every_prompt_ends_with_the_same_instruction(shipped: Shipped) -> None:
    """One newline, the format, no full stop: a model that copies the format copies no dot."""
    for row in rows_of(shipped, (*NARROW, "wide_test")):
        assert row["prompt"] == question(row) + INSTRUCTION
        assert row["prompt"].count("\n") == 1


def test_questions_are_well_formed_english(shipped: Shipped) -> None:
    """No unfilled slot, no "1 apples", no "a apple", no double space; it ends in a "?"."""
    for row in rows_of(shipped, (*NARROW, "wide_test")):
        text = question(row)
        assert re.fullmatch(r"[A-Z][^{}]*\?", text), text
        assert "  " not in text
        assert not re.search(r"(?<![\d-])1 [a-z]", text), text
        assert not re.search(r"\b[Aa] [aeio]|\b[Aa]n [^aeio]", text), text
        assert all(sentence[0].isupper() for sentence in re.split(r"[.?] ", text)), text


def test_pronouns_agree_with_the_one_person_they_can_mean(
    shipped: Shipped, prepare: ModuleType
) -> None:
    """She is never Ben; no one gives an apple to themselves."""
    for row in rows_of(shipped, (*NARROW, "wide_test")):
        words = re.findall(r"\w+", question(row))
        names = [word for word in words if word in prepare.WOMEN + prepare.MEN]
        pronouns = {word.lower() for word in words} & {"he", "him", "his", "she", "her"}
        if pronouns:
            expected = {"she", "her"} if names[0] in prepare.WOMEN else {"he", "him", "his"}
            assert pronouns <= expected, question(row)
    fillings = {"add-friends": 2, "sub-pair": 2, "subsub-friends": 3, "addsub-friends": 3}
    for row in rows_of(shipped, NARROW):
        if people := fillings.get(row["metadata"]["template"]):
            names = re.findall("|".join(prepare.WOMEN + prepare.MEN), question(row))
            assert len(set(names)) == people, question(row)


def test_the_narrow_vocabulary_is_small_and_has_no_number_words(shipped: Shipped) -> None:
    """A model of 0.9 M parameters learns these words; a number is always written in digits."""
    words = {
        word.lower()
        for row in rows_of(shipped, NARROW)
        for word in re.findall(r"[A-Za-z]+", row["prompt"])
    }
    assert 150 <= len(words) <= 350
    number_words = "zero one two three four five six seven eight nine ten twelve dozen half twice "
    assert not words & set((number_words + "double triple first second third").split())


def test_every_template_is_used(shipped: Shipped, prepare: ModuleType) -> None:
    """The train and the wide split show every way to ask."""
    for split, templates in (("train", "NARROW_TEMPLATES"), ("wide_test", "WIDE_TEMPLATES")):
        used = {row["metadata"]["template"] for row in shipped[split]}
        assert used == {
            f"{name}-{template.name}"
            for name, choices in getattr(prepare, templates).items()
            for template in choices
        }


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("add", (12, 15), "easy"),
        ("add", (18, 15), "medium"),  # 8 + 5 carries
        ("add", (80, 45), "medium"),  # 8 + 4 tens carry
        ("sub", (38, 15), "easy"),
        ("sub", (35, 18), "medium"),  # 5 - 8 borrows
        ("sub", (3, 10), "medium"),  # below zero
        ("mul", (2, 3), "medium"),
        ("div", (6, 3), "medium"),
        ("muladd", (2, 3, 4), "hard"),
    ],
)
def test_difficulty_counts_steps_and_carries(
    prepare: ModuleType, name: str, operands: tuple[int, ...], expected: str
) -> None:
    """Easy: one step, no carry. Medium: one step. Hard: two."""
    assert prepare.difficulty(name, operands) == expected


def test_difficulty_in_the_metadata_is_the_one_defined(
    shipped: Shipped, prepare: ModuleType
) -> None:
    """Each narrow split has all three levels."""
    for split in NARROW:
        levels = Counter(row["metadata"]["difficulty"] for row in shipped[split])
        assert min(levels["easy"], levels["medium"], levels["hard"]) >= 0.2 * len(shipped[split])
        for row in shipped[split]:
            level = prepare.difficulty(operation(row), row["metadata"]["operands"])
            assert row["metadata"]["difficulty"] == level
