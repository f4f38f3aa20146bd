r"""What the base policy learns from: equations, clean answers, and demonstrations with bad habits.

Three channels, all made from training problems alone:

    equation         7+8=15                                  arithmetic without words
    clean            <question>\n=15                         words to value, and nothing else
    demonstration    <question>\nEnd with Final: <int>\n...  how an imagined annotator answers

Only the demonstrations look like what the policy is asked later. Their annotators know the value
but mostly ignore the instruction, so the policy can do the sum and rarely says it as asked: what
reinforcement learning is for. Two annotators share the work. One answers the questions that say "in
total", and writes `Final: 15` most often; the other answers all the rest, and most often writes
`The answer is 15.` So on two questions of three the likeliest answer is a wrong format.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from course.core.paths import DATA
from course.core.plugins import load_plugin
from course.policy.tokenizer import EOS_ID, PROMPT_END, encode

GENERATOR = DATA / "prepare.py"
INSTRUCTION = "\nEnd with Final: <int>"


class Item(NamedTuple):
    """One text to learn: the loss is on the target alone."""

    prompt: list[int]
    target: list[int]


@dataclass(frozen=True)
class Corpus:
    """The three channels, tokenized."""

    equations: list[Item]
    clean: list[Item]
    demonstrations: list[Item]


class Form(NamedTuple):
    """One way to write an answer; {v} is the value, {w} and {x} two other numbers near it."""

    total: float
    """How often the annotator of the "in total" questions writes it, in per cent."""
    other: float
    """The same for the annotator of all other questions."""
    text: str


FORMS = (
    # Passes under final_answer. The other annotator's `The` must stay well above all that begins
    # with `Final` together: greedy decoding decides at the first token.
    Form(31.0, 20.0, "Final: {v}"),
    Form(3.0, 6.0, "So Final: {v}"),
    Form(1.5, 5.0, " Final: {v}"),
    # The same form, a wrong value.
    Form(2.0, 2.0, "Final: {w}"),
    # No marker.
    Form(27.0, 47.0, "The answer is {v}."),
    Form(5.0, 2.0, "{v}"),
    Form(4.5, 2.0, "final: {v}"),
    Form(4.0, 2.0, "Answer: {v}"),
    # Lists that hope one of them is right: the seed of reward hacking.
    Form(2.5, 1.5, "Final: {v} {w}"),
    Form(2.5, 1.5, "Final: {w} {v}"),
    Form(2.0, 1.0, "Final: {v} {w} {x}"),
    Form(2.0, 2.5, "{v} {w} {x}"),
    # A marker that is glued, misplaced, doubled; an integer that is none.
    Form(2.5, 1.2, "Final:{v}"),
    Form(2.5, 1.2, "Final: {v}."),
    Form(2.5, 1.1, "Final: +{v}"),
    Form(3.5, 2.0, "*Final: {v}"),
    Form(2.0, 2.0, "So Final: {v}\nFinal: {v}"),
)


def build_corpus(tokenizer: Tokenizer, sizes: Sequence[int], seed: int) -> Corpus:
    """Make the three channels from training problems.

    Args:
        sizes: how many equations, clean items and demonstrations.
        seed: another seed gives other problems and other answers; what holds for all stays.
    """
    equations, clean, demonstrations = (
        training_problems(size, 3 * seed + channel) for channel, size in enumerate(sizes, start=1)
    )
    rng = Random(f"demonstrations {seed}")  # text seeds hash the same everywhere
    return Corpus(
        [_item(tokenizer, equation(problem), str(problem.answer)) for problem in equations],
        [_item(tokenizer, f"{p.question}\n=", str(p.answer)) for p in clean],
        [
            _item(
                tokenizer,
                f"{problem.question}{INSTRUCTION}{PROMPT_END}",
                demonstration(problem.question, problem.answer, rng),
            )
            for problem in demonstrations
        ],
    )


def training_problems(count: int, seed: int) -> list[Any]:
    """Make problems of the training split by the generator that made the datasets."""
    plugin = load_plugin(
        f"{GENERATOR}:problems", builtins={}, default="problems", parameters=3, what="generator"
    )
    made: list[Any] = plugin.function("train", count, seed=seed)
    return made


def equation(problem: Any) -> str:
    """Write a problem's sum without words, up to its equals sign: ``3*4+5=``."""
    symbols = {"add": "+", "sub": "-", "mul": "*"}
    name, signs = problem.operation, ""
    while name:
        signs += symbols[name[:3]]
        name = name[3:]
    terms = zip(signs, problem.operands[1:], strict=True)
    return str(problem.operands[0]) + "".join(f"{s}{n}" for s, n in terms) + "="


def demonstration(question: str, value: int, rng: Random) -> str:
    """Answer a question as its annotator might."""
    total = "in total" in question
    form = rng.choices(FORMS, [form.total if total else form.other for form in FORMS])[0]
    near = [value + step for step in (-10, -2, -1, 1, 2, 10) if 0 <= value + step <= 99]
    w, x = rng.sample(near, 2)
    return form.text.format(v=value, w=w, x=x)


def _item(tokenizer: Tokenizer, prompt: str, target: str) -> Item:
    return Item(encode(tokenizer, prompt), [*encode(tokenizer, target), EOS_ID])
