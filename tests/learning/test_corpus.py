"""What the base policy learns from: training problems alone, in three channels."""

import importlib.util
import json
from collections import Counter
from random import Random

import pytest

from course.core.paths import DATA
from course.learning.corpus import (
    FORMS,
    INSTRUCTION,
    build_corpus,
    demonstration,
    equation,
    training_problems,
)
from course.learning.pretrain_run import course_tokenizer
from course.policy.tokenizer import EOS_ID, encode_prompt

TOKENIZER = course_tokenizer()


def held_out():
    """The questions of dev and test, without the instruction."""
    return {
        json.loads(line)["prompt"].split("\n")[0]
        for split in ("dev", "test")
        for line in (DATA / "datasets" / f"math_{split}.jsonl").read_text().splitlines()
    }


def test_no_held_out_problem_is_learned_from():
    """The card's numbers are about problems that the policy has never seen."""
    spec = importlib.util.spec_from_file_location("prepare_for_test", DATA / "prepare.py")
    assert spec and spec.loader
    prepare = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["prepare_for_test"] = prepare
    spec.loader.exec_module(prepare)
    problems = training_problems(2000, 7)
    assert not held_out() & {problem.question for problem in problems}
    splits = Counter(prepare.split_of(p.operation, p.operands, p.question) for p in problems)
    assert splits == {"train": 2000}


@pytest.mark.parametrize("phrase", ["total", "other"])
def test_how_each_annotator_begins(phrase):
    """Greedy is decided at the first token, so there all that begins with `Final` counts."""
    weight = {form.text: getattr(form, phrase) for form in FORMS}
    final = sum(value for text, value in weight.items() if text.startswith("Final"))
    the = weight["The answer is {v}."]
    assert sum(weight.values()) == pytest.approx(100)
    assert (final > the + 10) if phrase == "total" else (the > final + 15)


def test_a_demonstration_is_drawn_from_its_annotators_forms():
    """Frequencies follow the table: 31 % against 20 % `Final: 15`, within four standard errors."""
    for question, share in (("How many are there in total?", 0.31), ("How many are left?", 0.20)):
        rng = Random(3)
        texts = Counter(demonstration(question, 15, rng) for _ in range(4000))
        assert abs(texts["Final: 15"] / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5


def test_a_wrong_demonstration_is_wrong_and_in_range():
    """`Final: {w}` never holds the value by accident, and every number is one token."""
    for value in (0, 1, 50, 98, 99):
        rng = Random(value)
        for _ in range(300):
            text = demonstration("How many?", value, rng)
            numbers = [int(n) for n in "".join(c if c.isdigit() else " " for c in text).split()]
            assert all(0 <= number <= 99 for number in numbers)
            assert len(set(numbers)) == len(numbers) or text.startswith("So Final")


@pytest.mark.parametrize(
    ("operation", "operands", "text"),
    [("add", (7, 8), "7+8="), ("mulsub", (3, 4, 5), "3*4-5="), ("subsub", (9, 2, 3), "9-2-3=")],
)
def test_an_equation_is_written_left_to_right(operation, operands, text):
    """Operations apply from left to right, as in the datasets."""
    problem = type("P", (), {"operation": operation, "operands": operands})
    assert equation(problem) == text


def test_what_is_learned_is_what_is_asked():
    """A demonstration's prompt is, token for token, what the policy is given later."""
    corpus = build_corpus(TOKENIZER, (5, 5, 5), seed=0)
    questions = [problem.question for problem in training_problems(5, 3)]
    asked = [encode_prompt(TOKENIZER, question + INSTRUCTION) for question in questions]
    assert [item.prompt for item in corpus.demonstrations] == asked
    assert all(
        item.target[-1] == EOS_ID
        for channel in (corpus.equations, corpus.clean, corpus.demonstrations)
        for item in channel
    )


def test_the_vocabulary_holds_every_word_of_the_held_out_problems():
    """No question falls back to letters or bytes: 26 tokens on average, not a hundred."""
    for question in sorted(held_out()):
        tokens = [TOKENIZER.id_to_token(token) for token in encode_prompt(TOKENIZER, question)]
        spelled = [t for t in tokens if t.startswith("<0x") or (len(t) == 1 and t.isalpha())]
        assert set(spelled) <= {"A", "a"}, question


def test_another_seed_gives_another_corpus_and_the_same_seed_the_same():
    """The recipe's seed decides what is learned from."""
    one, same, other = (build_corpus(TOKENIZER, (5, 5, 5), seed) for seed in (1, 1, 2))
    assert one == same
    assert one.demonstrations != other.demonstrations and one.equations != other.equations
