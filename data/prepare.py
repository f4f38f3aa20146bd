"""Make the course's data: problems, the base policy's samples; import GSM8K; keep checksums.

A problem is a template, some names and things, and two or three numbers. Every choice comes from
a generator seeded by sha256 of (split, seed, position), so the same command writes the same bytes
on every machine. A hash of its numbers says which split a problem may belong to (``split_of``).

It writes no golden sets (people wrote those) and no model (``course.pretrain`` builds it).

    python data/prepare.py generate --out runs/data_again
    python data/prepare.py rollouts --out runs/data_again
    python data/prepare.py checksums --check
    python data/prepare.py gsm8k FILE --out runs/gsm8k.jsonl
"""

import argparse
import contextlib
import hashlib
import json
import operator
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

# So that it also runs in a checkout where course is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from course.core.checksums import CHECKSUMS, compare_checksums, make_checksums
from course.core.errors import CourseError, DataError, GateError, MachineError, UsageError

DATA = Path(__file__).resolve().parent
ROOT = DATA.parent
SEED = 1
INSTRUCTION = "End with Final: <int>"  # no full stop: a model that copies it must not copy a "."
IN_TOTAL_SHARE = 0.34  # of every operation's questions contain the phrase "in total"


# ---------------------------------------------------------------------------------------------
# Words. The three splits for the tiny policy use fewer than 350 different words, names included.
# ---------------------------------------------------------------------------------------------

WOMEN = ["Aisha", "Anna", "Emma", "Ivy", "Lena", "Mei", "Mia", "Nora", "Priya", "Rosa", "Sara",
         "Zoe"]  # fmt: skip
MEN = ["Ben", "Hugo", "Ivan", "Juan", "Kofi", "Leo", "Luca", "Max", "Noah", "Omar", "Raj", "Tom"]
SHE = {"he": "she", "He": "She", "him": "her", "his": "her"}
HE = {"he": "he", "He": "He", "him": "him", "his": "his"}

# Each kind gives a template the slots {kind}, {kind2} and {kind3}: three different words.
NOUNS = {
    "small": ["beads", "buttons", "cards", "coins", "marbles", "shells", "stamps", "stickers",
              "stones"],
    "bright": ["beads", "buttons", "kites", "marbles", "stickers"],
    "fruit": ["apples", "lemons", "melons", "peaches", "pears", "plums"],
    "bake": ["cookies", "muffins", "pies", "rolls"],
    "school": ["books", "brushes", "crayons", "pencils", "pens", "rulers"],
    "flower": ["daisies", "roses", "tulips"],
    "animal": ["cows", "ducks", "goats", "hens", "horses", "sheep"],
    "color": ["blue", "green", "red", "white"],
    "product": ["bolts", "bottles", "chairs", "lamps", "tiles"],
}  # fmt: skip
BOXES = {"bag": "bags", "basket": "baskets", "box": "boxes"}  # the slots {box} and {boxes}


# ---------------------------------------------------------------------------------------------
# Operations: applied from left to right, so "addsub" means (a + b) - c.
# ---------------------------------------------------------------------------------------------

OPERATIONS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "addsub": "+-", "subsub": "--", "muladd": "*+", "mulsub": "*-", "divadd": "/+", "divsub": "/-",
}  # fmt: skip
STEPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}


def results(operation: str, operands: Sequence[int]) -> list[int]:
    """Return the value after each step; the last one is the answer.

    Raises: ArithmeticError when a division leaves a remainder.
    """
    value, values = operands[0], []
    for symbol, operand in zip(OPERATIONS[operation], operands[1:], strict=True):
        if symbol == "/" and value % operand:
            raise ArithmeticError(f"{value} / {operand} is not exact")
        value = STEPS[symbol](value, operand)
        values.append(value)
    return values


def canonical(operation: str, operands: Sequence[int]) -> tuple[int, ...]:
    """Order the operands that may trade places, so that 3 + 5 and 5 + 3 are the same problem."""
    symbols = OPERATIONS[operation]
    if symbols[0] in "+*":
        return (*sorted(operands[:2]), *operands[2:])
    if symbols == "--":
        return (operands[0], *sorted(operands[1:]))
    return tuple(operands)


def difficulty(operation: str, operands: Sequence[int]) -> str:
    """Say "easy" (add or subtract without a carry), "medium" (one step) or "hard" (two steps)."""
    if len(OPERATIONS[operation]) == 2:
        return "hard"
    numbers = (*operands, results(operation, operands)[-1])
    if operation not in ("add", "sub") or min(numbers) < 0:
        return "medium"
    first, second, answer = (sum(map(int, str(number))) for number in numbers)
    # Digit sums add up exactly when no column carries or borrows.
    carries = first + second != answer if operation == "add" else answer + second != first
    return "medium" if carries else "easy"


# ---------------------------------------------------------------------------------------------
# Templates. Slots: {a} {b} {c} are the operands; {P} {Q} {R} three people; {he} {He} {him} {his}
# speak of P; the kinds of NOUNS; {box} and {boxes}. Numbers are at least 2, so nouns are plural.
# ---------------------------------------------------------------------------------------------

Range = tuple[int, int]


@dataclass(frozen=True)
class Template:
    """One way to ask a question."""

    name: str  # unique within its operation
    text: str
    positive: bool = False  # the story needs an answer of at least 1
    ranges: tuple[Range, ...] = ()  # the operands' ranges, where the story needs its own


T = Template

NARROW_TEMPLATES: dict[str, tuple[Template, ...]] = {
    "add": (
        T("find", "{P} has {a} {small}. {He} finds {b} more {small}. "
          "How many {small} does {he} have now?"),
        T("gift", "{P} has {a} {school}. {Q} gives {him} {b} more. "
          "How many {school} does {P} have now?"),
        T("more", "{P} has {a} {small}. {Q} has {b} more {small} than {P}. "
          "How many {small} does {Q} have?"),
        T("train", "There are {a} people on a train. At the next stop {b} people get on. "
          "How many people are on the train now?"),
        T("plant", "There are {a} {flower} in a garden. {P} plants {b} more {flower}. "
          "How many {flower} are in the garden now?"),
        T("friends", "{P} has {a} {small} and {Q} has {b} {small}. "
          "How many {small} do they have in total?"),
        T("farm", "A farmer has {a} {animal} and {b} {animal2}. "
          "How many animals does the farmer have in total?"),
        T("pick", "{P} picks {a} {fruit} in the morning and {b} {fruit} in the afternoon. "
          "How many {fruit} does {he} pick in total?"),
    ),
    "sub": (
        T("give", "{P} has {a} {small}. {He} gives {b} of them to {Q}. "
          "How many {small} does {P} have left?", positive=True),
        T("sell", "A farmer has {a} {fruit} and sells {b} {fruit}. How many {fruit} are left?"),
        T("compare", "{P} has {b} {small} and {Q} has {a} {small}. "
          "How many more {small} does {Q} have than {P}?", positive=True),
        T("fewer", "{P} has {a} {small}. {Q} has {b} fewer {small} than {P}. "
          "How many {small} does {Q} have?", positive=True),
        T("train", "There are {a} people on a train. At the next stop {b} people get off. "
          "How many people are still on the train?"),
        T("price", "A kite costs {a} dollars. {P} has {b} dollars. "
          "How many more dollars does {he} need?", positive=True),
        T("pair", "{P} and {Q} have {a} {small} in total. {P} has {b} of them. "
          "How many {small} does {Q} have?", positive=True),
        T("book", "A book has {a} pages in total. {P} reads {b} pages. "
          "How many pages are left to read?"),
        T("farm", "A farm has {a} {animal} and {animal2} in total. If {b} of them are {animal}, "
          "how many {animal2} are there?", positive=True),
    ),
    "mul": (
        T("rows", "{P} plants {a} rows with {b} {flower} in each row. "
          "How many {flower} does {he} plant?"),
        T("buy", "{P} buys {a} {school} for {b} dollars each. How many dollars does {he} pay?"),
        T("read", "{P} reads {a} pages every day. How many pages does {he} read in {b} days?"),
        T("share", "{P} gives {a} {small} to each of {b} friends. "
          "How many {small} does {he} give away?"),
        T("boxes", "{P} has {a} {boxes} with {b} {fruit} in each {box}. "
          "How many {fruit} does {he} have in total?"),
        T("trays", "{P} fills {a} trays with {b} {bake} each. "
          "How many {bake} does {he} have in total?"),
    ),
    "addsub": (
        T("lose", "{P} has {a} {small}. {He} finds {b} more {small} and then loses {c} {small}. "
          "How many {small} does {he} have now?"),
        T("train", "There are {a} people on a train. At a stop {b} people get on. "
          "At the next stop {c} people get off. How many people are on the train now?"),
        T("farmer", "A farmer picks {a} {fruit} on Monday and {b} {fruit} on Tuesday. "
          "The farmer sells {c} {fruit}. How many {fruit} are left?"),
        T("baker", "A baker bakes {a} {bake} in the morning and {b} {bake} in the afternoon. "
          "The baker sells {c} {bake}. How many {bake} are left?"),
        T("spend", "{P} has {a} dollars and earns {b} more. {He} spends {c} dollars. "
          "How many dollars does {he} have left?"),
        T("colors", "{P} has {a} {color} {bright} and {b} {color2} {bright}. "
          "{He} gives {c} {bright} away. How many {bright} does {he} have left in total?"),
        T("friends", "{P} has {a} {small} and {Q} has {b} {small}. They give {c} {small} to {R}. "
          "How many {small} do {P} and {Q} have left in total?"),
        T("farm", "A farm has {a} {animal} and {b} {animal2}. The farmer sells {c} of the animals. "
          "How many animals are left in total?", positive=True),
    ),
    "subsub": (
        T("give", "{P} has {a} {small}. {He} gives {b} {small} to {Q} and {c} {small} to {R}. "
          "How many {small} does {P} have left?"),
        T("train", "There are {a} people on a train. At a stop {b} people get off. "
          "At the next stop {c} more people get off. How many people are still on the train?"),
        T("shop", "A shop has {a} {school}. It sells {b} {school} in the morning and "
          "{c} {school} in the afternoon. How many {school} are left?"),
        T("spend", "{P} has {a} dollars. {He} pays {b} dollars for a book and {c} dollars for "
          "a kite. How many dollars does {he} have left?"),
        T("friends", "{P}, {Q} and {R} have {a} {small} in total. {P} has {b} {small} and {Q} has "
          "{c} {small}. How many {small} does {R} have?", positive=True),
        T("book", "A book has {a} pages in total. {P} reads {b} pages on Monday and {c} pages on "
          "Tuesday. How many pages are left to read?"),
        T("farm", "A farm has {a} animals in total. There are {b} {animal} and {c} {animal2}. "
          "The other animals are {animal3}. How many {animal3} are there?", positive=True),
    ),
    "muladd": (
        T("rows", "A garden has {a} rows with {b} {flower} in each row. {P} plants {c} more "
          "{flower}. How many {flower} are in the garden now?"),
        T("read", "{P} reads {a} pages every day for {b} days. Then {he} reads {c} more pages. "
          "How many pages does {he} read?"),
        T("save", "{P} saves {a} dollars each week for {b} weeks. Then {Q} gives {him} {c} "
          "dollars. How many dollars does {P} have now?"),
        T("buy", "{P} buys {a} {school} for {b} dollars each and a kite for {c} dollars. "
          "How many dollars does {he} pay?"),
        T("boxes", "{P} has {a} {boxes} with {b} {fruit} in each {box} and {c} more {fruit} on "
          "the table. How many {fruit} does {he} have in total?"),
        T("trays", "A baker fills {a} trays with {b} {bake} each. Then the baker makes {c} more "
          "{bake}. How many {bake} are there in total?"),
        T("vans", "A school fills {a} vans with {b} children each, and {c} more children go by "
          "bus. How many children is that in total?"),
    ),
    "mulsub": (
        T("jars", "{P} fills {a} jars with {b} {small} each. Then {he} gives {c} {small} away. "
          "How many {small} does {he} have left?"),
        T("trays", "A baker fills {a} trays with {b} {bake} each and sells {c} {bake}. "
          "How many {bake} are left?"),
        T("earn", "{P} earns {a} dollars every day for {b} days. Then {he} spends {c} dollars. "
          "How many dollars does {he} have left?"),
        T("rows", "A garden has {a} rows with {b} {flower} in each row. {P} picks {c} {flower}. "
          "How many {flower} are still in the garden?"),
        T("good", "There are {a} {boxes} with {b} {fruit} in each {box}, but {c} of the {fruit} "
          "are bad. How many good {fruit} are there in total?", positive=True),
        T("school", "A school buys {a} boxes with {b} {school} in each box. The children take "
          "{c} {school}. How many {school} are left in total?"),
        T("seats", "A hall has {a} rows with {b} seats in each row. If {c} seats are taken, "
          "how many seats are free in total?"),
    ),
}  # fmt: skip

WIDE_TEMPLATES: dict[str, tuple[Template, ...]] = {
    "add": (
        T("library", "A library owns {a} books and buys {b} more. How many books does it own now?",
          ranges=((500, 9000), (20, 900))),
        T("dawn", "At dawn the temperature is {a} degrees. By noon it rises by {b} degrees. "
          "What is the temperature at noon, in degrees?", ranges=((-50, -2), (2, 40))),
        T("submarine", "Sea level counts as zero meters. A submarine is at {a} meters and rises by "
          "{b} meters. At what height is it now, in meters?", ranges=((-999, -130), (15, 125))),
        T("debt", "A negative balance is a debt. {P} has a balance of {a} dollars and pays in {b} "
          "dollars. What is {his} balance now, in dollars?", ranges=((-999, -20), (20, 900))),
        T("factory", "A factory makes {a} {product} in March and {b} {product} in April. "
          "How many {product} does it make in total?", ranges=((100, 7000), (100, 7000))),
        T("villages", "There are {a} people in a village and {b} people in the next village. "
          "How many people is that in total?", ranges=((200, 4900), (200, 4900))),
    ),
    "sub": (
        T("warehouse", "A warehouse holds {a} {product}. A truck takes away {b} of them. "
          "How many {product} are left?", ranges=((1000, 9999), (100, 990))),
        T("built", "In the year {a} a tower is {b} years old. In which year was it built?",
          ranges=((1900, 2024), (12, 899))),
        T("midnight", "At noon the temperature is {a} degrees. By midnight it falls by {b} "
          "degrees. What is the temperature at midnight, in degrees?", ranges=((2, 30), (2, 60))),
        T("lift", "The ground floor of a tower is floor zero, and floors below it are negative. "
          "A lift on floor {a} goes down {b} floors. On which floor is it now?",
          ranges=((2, 12), (2, 17))),
        T("bill", "A debt counts as a negative balance. {P} has {a} dollars in the bank and pays a "
          "bill of {b} dollars. What is {his} balance now, in dollars?",
          ranges=((20, 900), (100, 1500))),
        T("cave", "Sea level counts as zero meters. A hut stands at {a} meters, and the floor of a "
          "cave is at {b} meters. How many meters higher is the hut?",
          ranges=((20, 4000), (-999, -2))),
        T("stadium", "A stadium has {a} seats in total. For a game {b} of them are taken. "
          "How many seats are free?", ranges=((2000, 9999), (500, 1999))),
    ),
    "mul": (
        T("printer", "A printer prints {a} pages each minute. "
          "How many pages does it print in {b} minutes?", ranges=((12, 90), (12, 110))),
        T("loss", "A loss counts as a negative profit. The profit of a shop is {a} dollars a day. "
          "What is its profit over {b} days, in dollars?", ranges=((-99, -11), (2, 30))),
        T("dive", "The height of a submarine changes by {a} meters each minute. "
          "By how many meters does its height change in {b} minutes?",
          ranges=((-40, -3), (3, 24))),
        T("stadium", "A stadium has {a} rows with {b} seats in each row. "
          "How many seats does it have in total?", ranges=((12, 99), (12, 101))),
        T("boxes", "A shop orders {a} boxes with {b} {product} in each box. "
          "How many {product} does it order in total?", ranges=((3, 90), (10, 120))),
    ),
    "div": (
        T("prize", "A prize of {a} dollars is shared equally by {b} people. "
          "How many dollars does each person get?", ranges=((100, 9999), (2, 60))),
        T("printer", "A printer prints {a} pages in {b} minutes, the same number each minute. "
          "How many pages does it print each minute?", ranges=((100, 3000), (2, 60))),
        T("club", "A club has a balance of {a} dollars, which is a debt. Its {b} members share it "
          "equally. What is the balance of each member, in dollars?",
          ranges=((-999, -20), (2, 40))),
        T("cold", "The temperature changes by {a} degrees in {b} hours, by the same amount every "
          "hour. By how many degrees does it change each hour?", ranges=((-48, -4), (2, 12))),
        T("bakery", "A bakery makes {a} rolls in total and packs them into bags of {b}. "
          "How many bags does it fill?", ranges=((100, 6000), (4, 48))),
    ),
    "addsub": (
        T("library", "A library owns {a} books. It buys {b} more and then gives {c} away. "
          "How many books does it own now?", ranges=((500, 9000), (20, 900), (20, 400))),
        T("account", "A debt counts as a negative balance. {P} has {a} dollars in the bank, earns "
          "{b} dollars and pays a bill of {c} dollars. What is {his} balance now, in dollars?",
          ranges=((20, 500), (20, 900), (200, 2000))),
        T("day", "At dawn the temperature is {a} degrees. It rises by {b} degrees until noon and "
          "then falls by {c} degrees until midnight. What is the temperature at midnight, "
          "in degrees?", ranges=((-40, -2), (3, 25), (3, 30))),
        T("ship", "A ship carries {a} bags of rice and {b} bags of corn. In a port {c} bags are "
          "taken off. How many bags are left in total?",
          ranges=((200, 4900), (200, 4900), (100, 900))),
    ),
    "subsub": (
        T("warehouse", "A warehouse holds {a} {product}. A truck takes away {b} {product}, and "
          "the next truck takes away {c} {product}. How many {product} are left?",
          ranges=((2000, 9999), (100, 990), (100, 990))),
        T("bills", "A debt counts as a negative balance. {P} has {a} dollars in the bank. {He} "
          "pays a bill of {b} dollars and a bill of {c} dollars. What is {his} balance now, "
          "in dollars?", ranges=((50, 999), (50, 900), (50, 900))),
        T("lift", "The ground floor of a tower is floor zero, and floors below it are negative. "
          "A lift on floor {a} goes down {b} floors and then {c} more. On which floor is it now?",
          ranges=((4, 15), (2, 9), (2, 9))),
        T("school", "A school orders {a} books in total. In May {b} of them arrive, and in June "
          "{c} more arrive. How many books are still missing?",
          ranges=((500, 3000), (50, 900), (50, 900))),
    ),
    "muladd": (
        T("printer", "A printer prints {a} pages each minute for {b} minutes. Then it prints {c} "
          "more pages. How many pages does it print?", ranges=((12, 90), (12, 90), (12, 900))),
        T("loss", "A loss counts as a negative profit. The profit of a shop is {a} dollars a day "
          "for {b} days, and then {c} dollars on the next day. What is its profit over all these "
          "days, in dollars?", ranges=((-99, -11), (2, 20), (20, 900))),
        T("hall", "A hall has {a} rows with {b} chairs in each row, and {c} more chairs by the "
          "wall. How many chairs are there in total?", ranges=((8, 60), (8, 60), (11, 99))),
    ),
    "mulsub": (
        T("car", "A debt counts as a negative balance. {P} has no money and earns {a} dollars a "
          "week for {b} weeks. Then {he} pays {c} dollars for a car. What is {his} balance now, "
          "in dollars?", ranges=((80, 400), (2, 12), (500, 4000))),
        T("tiles", "A builder has {a} boxes with {b} tiles in each box and uses {c} tiles. "
          "How many tiles are left?", ranges=((8, 80), (20, 110), (50, 900))),
        T("stadium", "A stadium has {a} rows with {b} seats in each row. If {c} seats are taken, "
          "how many seats are free in total?", ranges=((20, 99), (20, 101), (100, 990))),
    ),
    "divadd": (
        T("prize", "A prize of {a} dollars is shared equally by {b} people. {P} is in this group "
          "and already has {c} dollars. How many dollars does {he} have now?",
          ranges=((100, 9999), (2, 40), (20, 900))),
        T("groups", "A school puts {a} children into {b} equal groups. Then {c} more children "
          "join the red group. How many children are in the red group in total?",
          ranges=((60, 2000), (4, 40), (3, 19))),
    ),
    "divsub": (
        T("prize", "A debt counts as a negative balance. {P} has no money and gets an equal share "
          "of a prize of {a} dollars for {b} people. Then {he} pays a bill of {c} dollars. "
          "What is {his} balance now, in dollars?", ranges=((100, 9999), (2, 40), (100, 900))),
        T("shops", "A factory makes {a} {product} in total and sends the same number to each of "
          "{b} shops. The shop in the harbor sells {c} of its {product}. "
          "How many {product} does this shop have left?",
          ranges=((400, 9999), (2, 40), (12, 400)), positive=True),
    ),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Splits
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Band:
    """What the numbers of a split look like, and in which proportions it mixes operations."""

    templates: Mapping[str, tuple[Template, ...]]
    shares: Mapping[str, float]  # of each operation; they sum to 1
    bounds: Range  # every number in the text, every intermediate value and every answer
    ranges: Mapping[str, tuple[Range, ...]]  # of the operands, unless the template has its own


HUNDRED = (2, 99)
PRODUCT = ((2, 9), (2, 20), (2, 20))
NARROW = Band(
    templates=NARROW_TEMPLATES,
    shares={"add": 0.22, "sub": 0.22, "mul": 0.08, "addsub": 0.11, "subsub": 0.11,
            "muladd": 0.12, "mulsub": 0.14},
    bounds=(0, 99),
    ranges={"add": (HUNDRED,) * 2, "sub": (HUNDRED,) * 2, "mul": ((2, 9), (2, 12)),
            "addsub": (HUNDRED,) * 3, "subsub": (HUNDRED,) * 3,
            "muladd": PRODUCT, "mulsub": PRODUCT},
)  # fmt: skip
WIDE = Band(
    templates=WIDE_TEMPLATES,
    shares={"add": 0.14, "sub": 0.16, "mul": 0.12, "div": 0.12, "addsub": 0.10, "subsub": 0.10,
            "muladd": 0.08, "mulsub": 0.08, "divadd": 0.05, "divsub": 0.05},
    bounds=(-999, 9999),
    ranges={},
)  # fmt: skip


class Split(NamedTuple):
    """One shipped dataset."""

    band: Band
    rows: int
    id_format: str


SPLITS = {
    "train": Split(NARROW, 6000, "math-train-{:05d}"),
    "dev": Split(NARROW, 200, "math-dev-{:04d}"),
    "test": Split(NARROW, 1000, "math-test-{:04d}"),
    "wide_test": Split(WIDE, 500, "math-wide-{:04d}"),
}


def digest(text: str) -> int:
    """Turn text into a number that is the same on every machine (``hash()`` is not)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def split_of(operation: str, operands: Sequence[int], question: str) -> str:
    """Say which split a problem may belong to, so that none holds the answer to another's sum.

    With a number outside 0..99, as operand, between the steps or as answer, it is wide_test.
    Otherwise its operation and operands decide: train (80 %), dev (4 %) or test (16 %). The
    multiplication facts are too few to divide (59): there the question's full text decides.
    """
    low, high = NARROW.bounds
    if not all(low <= number <= high for number in (*operands, *results(operation, operands))):
        return "wide_test"
    numbers = " ".join(map(str, canonical(operation, operands)))
    bucket = digest(question if operation == "mul" else f"{operation} {numbers}") % 100
    return "train" if bucket < 80 else "dev" if bucket < 84 else "test"


# ---------------------------------------------------------------------------------------------
# Problems
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One word problem."""

    operation: str  # a key of OPERATIONS
    operands: tuple[int, ...]  # in the order of the formula, not always that of the text
    template: str  # for example "add-find"
    question: str  # without the format instruction

    @property
    def answer(self) -> int:
        """The number that a scorer compares with."""
        return results(self.operation, self.operands)[-1]

    def row(self, example_id: str) -> dict[str, Any]:
        """Return the dataset row: the prompt is the question, a newline and the instruction."""
        return {
            "id": example_id,
            "prompt": f"{self.question}\n{INSTRUCTION}",
            "expected_answer": self.answer,
            "metadata": {
                "operation": self.operation,
                "difficulty": difficulty(self.operation, self.operands),
                "operands": list(self.operands),
                "template": self.template,
            },
        }


def problems(split: str, count: int, seed: int = SEED) -> list[Problem]:
    """Make `count` different problems of a split, in shuffled order.

    Operations, and the phrase "in total" within each, have exact quotas. Ask for as many as you
    like (100,000 of "train" is fine): but for the multiplication facts, its numbers never meet
    those of another split.

    Args:
        split: a key of SPLITS.
        count: how many problems; no two have the same text.
        seed: another seed gives other problems of the same split.
    Raises: UsageError for an unknown split, a negative count, or more problems than there are.
    """
    if split not in SPLITS or count < 0:
        raise UsageError(
            f"cannot make {count} problems of split {split!r}; "
            f"the splits are {', '.join(SPLITS)} and the count is at least 0."
        )
    band = SPLITS[split].band
    made: dict[str, Problem] = {}  # by question, in order
    for index, (operation, in_total) in enumerate(shuffled_cells(band, count, split, seed)):
        rng = Random(digest(f"problem {split} {seed} {index}"))
        templates = [t for t in band.templates[operation] if ("in total" in t.text) == in_total]
        for _ in range(10_000):
            problem = draw(band, operation, rng.choice(templates), rng)
            here = split_of(operation, problem.operands, problem.question)
            if here == split and problem.question not in made:
                made[problem.question] = problem
                break
        else:
            raise UsageError(f"{split!r} has no {count} different problems; {len(made)} were made.")
    return list(made.values())


def shuffled_cells(band: Band, count: int, split: str, seed: int) -> list[tuple[str, bool]]:
    """Give each position its operation and whether its question says "in total"."""
    cells = []
    for operation, rows in quotas(band.shares, count).items():
        with_phrase = round(IN_TOTAL_SHARE * rows)
        cells += [(operation, position < with_phrase) for position in range(rows)]
    Random(digest(f"order {split} {seed}")).shuffle(cells)
    return cells


def quotas(shares: Mapping[str, float], count: int) -> dict[str, int]:
    """Share out `count` rows by largest remainder, so that they sum to `count` exactly."""
    exact = {name: share * count for name, share in shares.items()}
    rows = {name: int(value + 1e-9) for name, value in exact.items()}
    by_remainder = sorted(rows, key=lambda name: (rows[name] - exact[name], name))
    for name in by_remainder[: count - sum(rows.values())]:
        rows[name] += 1
    return rows


def draw(band: Band, operation: str, template: Template, rng: Random) -> Problem:
    """Draw operands until the sum stays within the band, then tell the story."""
    ranges = template.ranges or band.ranges[operation]
    operands = tuple(rng.randint(low, high) for low, high in ranges)
    while not sensible(band, operation, template, operands):
        operands = tuple(rng.randint(low, high) for low, high in ranges)
    question = template.text.format_map(slots(operands, rng))
    return Problem(operation, operands, f"{operation}-{template.name}", question)


def sensible(band: Band, operation: str, template: Template, operands: Sequence[int]) -> bool:
    """Say whether every value on the way exists, is in bounds and suits the story."""
    try:
        values = results(operation, operands)
    except ArithmeticError:
        return False
    low, high = band.bounds
    return low <= min(values) and max(values) <= high and (values[-1] > 0 or not template.positive)


def slots(operands: Sequence[int], rng: Random) -> dict[str, str | int]:
    """Draw a value for every slot that any template may use."""
    people = rng.sample(WOMEN + MEN, 3)
    box = rng.choice(list(BOXES))
    words: dict[str, str | int] = {
        **dict(zip("PQR", people, strict=True)),
        **(SHE if people[0] in WOMEN else HE),
        **dict(zip("abc", operands, strict=False)),
        "box": box,
        "boxes": BOXES[box],
    }
    for kind, nouns in NOUNS.items():
        words[kind], words[f"{kind}2"], words[f"{kind}3"] = rng.sample(nouns, 3)
    return words


# ---------------------------------------------------------------------------------------------
# Frozen rollouts and selection packs: what the shipped base policy wrote, by `course.sample`.
# ---------------------------------------------------------------------------------------------


class Frozen(NamedTuple):
    """One file of the base policy's samples; its run's manifest stands beside it."""

    name: str
    split: str
    flags: str = ""  # of course.sample; at temperature 1 and seed 0 unless they say otherwise

    @property
    def manifest(self) -> str:
        """The name of the manifest."""
        return self.name.removesuffix(".jsonl") + ".manifest.json"


FROZEN = (
    Frozen("rollouts/frozen_rollouts_dev.jsonl", "dev"),
    Frozen("rollouts/frozen_rollouts_test.jsonl", "test"),
    # Other seeds and nothing else: any difference between two of these is chance.
    *(
        Frozen(f"rollouts/frozen_rollouts_dev_seed{seed}.jsonl", "dev", f"--seed {seed}")
        for seed in range(1, 9)
    ),
    Frozen("packs/selection_pack_dev.jsonl", "dev", "--n 16 --pack"),
    Frozen("packs/selection_pack_test.jsonl", "test", "--n 16 --pack"),
    Frozen("packs/selection_pack_dev_t0.3.jsonl", "dev", "--n 16 --pack --temperature 0.3"),
    Frozen("packs/selection_pack_dev_t1.5.jsonl", "dev", "--n 16 --pack --temperature 1.5"),
)


def rollouts(out: Path) -> list[Path]:
    """Sample every frozen file anew from the shipped base policy; return the files.

    Raises: CourseError when course.sample fails, for instance where torch is not installed.
    """
    from course import sample

    out = out.resolve()
    made: list[tuple[Path, str]] = []  # what to copy, and where to
    for frozen in FROZEN:
        run = Path("runs", "frozen", Path(frozen.name).stem)
        argv = ["--dataset", f"data/datasets/math_{frozen.split}.jsonl", "--outdir", str(run)]
        argv += [*frozen.flags.split(), "--overwrite"]
        # From the root, so that the manifest's command is one that anybody can repeat.
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(sys.stderr):
            if code := sample.main(argv):
                kind = MachineError if code == MachineError.exit_code else UsageError
                raise kind(f"course.sample {' '.join(argv)} said why, and ended with {code}.")
        rows = "selection_pack.jsonl" if "--pack" in argv else "completions.jsonl"
        made += [(ROOT / run / rows, frozen.name), (ROOT / run / "manifest.json", frozen.manifest)]
    for source, name in made:  # only now: a changed data file would make the next run's git dirty
        write_whole(out / name, source.read_text(encoding="utf-8"))
    return [out / name for _, name in made]


# ---------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------


def generate(out: Path) -> list[Path]:
    """Write every dataset under `out`; return the files."""
    written = []
    for split, (_, count, id_format) in SPLITS.items():
        made = problems(split, count)
        rows = [problem.row(id_format.format(n)) for n, problem in enumerate(made, start=1)]
        written.append(out / "datasets" / f"math_{split}.jsonl")
        write_whole(written[-1], jsonl(rows))
    return written


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one JSON object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: a temporary file beside it, then a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_checksums(data: Path) -> Path:
    """Write CHECKSUMS.json over the data files that are there now."""
    path = data / CHECKSUMS
    write_whole(path, json.dumps(make_checksums(data), indent=2) + "\n")
    return path


def check_checksums(data: Path) -> int:
    """Return how many files were verified.

    Raises: DataError without a readable CHECKSUMS.json; GateError naming every file that differs.
    """
    listed, differences = compare_checksums(data)
    if differences:
        raise GateError(
            "\n  ".join([f"{data / CHECKSUMS} does not describe its folder:", *differences])
            + "\nRestore them (git checkout -- data), or, if the change is meant, "
            "run: python data/prepare.py checksums"
        )
    return listed


# ---------------------------------------------------------------------------------------------
# GSM8K (Cobbe et al. 2021, arXiv:2110.14168): {"question": ..., "answer": "...\n#### 1,234"}
# ---------------------------------------------------------------------------------------------

GSM8K_ANSWER = re.compile(r"0|-?[1-9][0-9]*|-?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


def gsm8k(source: Path) -> list[dict[str, Any]]:
    """Read a file in GSM8K's published format as dataset rows.

    Raises: DataError that names every bad line at once.
    """
    try:
        lines = source.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror}).") from error
    if lines[-1] == b"":  # what follows the last newline is not a line
        lines.pop()
    width = max(4, len(str(len(lines))))
    rows, bad = [], []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(gsm8k_row(line, f"{source.stem}-{number:0{width}d}"))
        except DataError as error:
            bad.append(f"{source}:{number}: {error}")
    if bad or not rows:
        raise DataError("\n".join(bad) or f"{source}: the file is empty; a GSM8K file has rows.")
    return rows


def gsm8k_row(line: bytes, example_id: str) -> dict[str, Any]:
    """Turn one line into a dataset row. Raises DataError saying what was expected."""
    try:
        item = json.loads(line.decode())  # a UnicodeDecodeError is a ValueError, too
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON in UTF-8 ({error}).") from error
    if not isinstance(item, dict):
        raise DataError("expected an object with 'question' and 'answer'.")
    for key in ("question", "answer"):
        if not isinstance(item.get(key), str) or not item[key].strip():
            raise DataError(f"{key!r} must be a text that is not empty; keys: {sorted(item)}.")
        if re.search("[\ud800-\udfff]", item[key]):
            raise DataError(f"{key!r} contains a lone surrogate, which no UTF-8 file can hold.")
    solution, marker, number = item["answer"].rpartition("####")
    if not marker or not GSM8K_ANSWER.fullmatch(number.strip()):
        raise DataError(
            f"the answer must end in '#### ' and an integer such as 72 or 1,234; "
            f"it ends in {item['answer'][-40:]!r}."
        )
    return {
        "id": example_id,
        "prompt": f"{item['question'].strip()}\n{INSTRUCTION}",
        "expected_answer": integer_or_text(number.strip().replace(",", "")),
        "metadata": {"source": "gsm8k", "solution": solution.strip()},
    }


def integer_or_text(digits: str) -> int | str:
    """Return an int where it fits 64 bits, and the decimal text where it does not."""
    if len(digits) > 20:  # never int() of unbounded digits: its time is quadratic
        return digits
    value = int(digits)
    return value if -(2**63) <= value < 2**63 else digits


# ---------------------------------------------------------------------------------------------
# The command line
# ---------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit code (0 done, 1 a check said no, 2 bad usage or input)."""
    args = parse(argv)
    try:
        if args.command in ("generate", "rollouts"):
            run_generate(args.out, generate if args.command == "generate" else rollouts)
        elif args.command == "checksums":
            run_checksums(args.data, check=args.check)
        else:
            run_gsm8k(args.file, args.out)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}. Choose another --out.", file=sys.stderr)
        return UsageError.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def run_generate(out: Path, write: Callable[[Path], list[Path]]) -> None:
    """Write the data, then its checksums."""
    for path in write(out):
        print(path)
    print(write_checksums(out))


def run_checksums(data: Path, *, check: bool) -> None:
    """Verify the checksums, or write them."""
    if check:
        print(f"{check_checksums(data)} files match")
    print(data / CHECKSUMS if check else write_checksums(data))


def run_gsm8k(source: Path, out: Path | None) -> None:
    """Import a GSM8K file."""
    out = out or ROOT / "runs" / f"{source.stem}.jsonl"
    if out.exists() and (out.is_dir() or (source.exists() and out.samefile(source))):
        raise UsageError(f"{out}: is a folder or the input itself. Name another file with --out.")
    rows = gsm8k(source)
    write_whole(out, jsonl(rows))
    print(f"{len(rows)} rows")
    print(out)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python data/prepare.py", description=__doc__, formatter_class=raw
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser(
        "generate",
        help="write the math datasets and their checksums",
        epilog="example: python data/prepare.py generate --out runs/data_again",
    )
    made.add_argument("--out", type=Path, default=DATA, help="the folder to write (default: data/)")
    sampled = commands.add_parser(
        "rollouts",
        help="sample the frozen rollouts and packs from the shipped base policy (needs torch)",
        epilog="example: python data/prepare.py rollouts --out runs/data_again",
    )
    sampled.add_argument(
        "--out", type=Path, default=DATA, help="the folder to write (default: data/)"
    )
    sums = commands.add_parser(
        "checksums",
        help="write CHECKSUMS.json, or verify it",
        epilog="example: python data/prepare.py checksums --check",
    )
    sums.add_argument("--check", action="store_true", help="verify; exit 1 if any file differs")
    sums.add_argument("--data", type=Path, default=DATA, help="the data folder (default: data/)")
    imported = commands.add_parser(
        "gsm8k",
        help="import a file in the format GSM8K is published in",
        epilog="example: python data/prepare.py gsm8k train.jsonl --out runs/gsm8k_train.jsonl",
    )
    imported.add_argument("file", type=Path, help='rows {"question", "answer": "... #### 72"}')
    imported.add_argument(
        "--out", type=Path, help="the dataset to write (default: runs/<name of FILE>)"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
