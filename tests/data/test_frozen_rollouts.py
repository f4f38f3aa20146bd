"""The frozen rollouts are honest about their origin, complete, and worth looking at."""

import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from course.scoring.final_answer import score

DATA = Path(__file__).resolve().parents[2] / "data"
MODELS = {"base": "", "trained": "_trained"}
CASES = [(split, model) for split in ("dev", "test") for model in MODELS]


def rollouts(split: str, model: str) -> list[dict[str, Any]]:
    path = DATA / "rollouts" / f"frozen_rollouts_{split}{MODELS[model]}.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def codes(shipped: dict[str, list[dict[str, Any]]], split: str, model: str) -> list[str]:
    """The outcome code of every row, under the default scorer."""
    pairs = zip(shipped[split], rollouts(split, model), strict=True)
    return [score(example, row["completion"])["details"]["code"] for example, row in pairs]


@pytest.mark.parametrize(("split", "model"), CASES)
def test_every_example_has_one_completion_in_dataset_order(
    shipped: dict[str, list[dict[str, Any]]], split: str, model: str
) -> None:
    """Nothing missing, nothing twice."""
    assert [row["id"] for row in rollouts(split, model)] == [row["id"] for row in shipped[split]]


@pytest.mark.parametrize(("split", "model"), CASES)
def test_rows_say_that_no_language_model_wrote_them(split: str, model: str) -> None:
    """And they carry no log-probs and token counts, which would be invented."""
    for row in rollouts(split, model):
        assert sorted(row) == ["completion", "finish_reason", "id", "metadata"]
        assert row["metadata"] == {
            "origin": "seeded generator, not a language model",
            "model": model,
        }


@pytest.mark.parametrize(("split", "model"), CASES)
def test_a_few_completions_are_cut_off(split: str, model: str) -> None:
    """finish_reason is "length" for some, "stop" for most."""
    reasons = Counter(row["finish_reason"] for row in rollouts(split, model))
    assert reasons.keys() == {"stop", "length"}
    assert 0 < reasons["length"] < 0.1 * reasons.total()


@pytest.mark.parametrize(("model", "low", "high"), [("base", 0.25, 0.32), ("trained", 0.56, 0.64)])
def test_pass_rates_are_far_from_zero_and_from_one(
    shipped: dict[str, list[dict[str, Any]]], model: str, low: float, high: float
) -> None:
    """About .28 and about .60, on dev as on test."""
    for split in ("dev", "test"):
        found = codes(shipped, split, model)
        assert low <= found.count("ok") / len(found) <= high


def test_many_kinds_of_failure_occur(shipped: dict[str, list[dict[str, Any]]]) -> None:
    """A student who groups the failures has something to find."""
    common = {
        "ok", "wrong_answer", "missing_final", "multiple_finals", "misplaced_final",
        "bad_spacing", "not_an_integer", "trailing_text", "empty", "leading_zeros",
    }  # fmt: skip
    rare = {"missing_integer", "plus_sign", "non_ascii_digits"}
    assert common <= set(codes(shipped, "dev", "base"))
    assert common | rare <= set(codes(shipped, "test", "base"))


def test_the_trained_model_gains_much_and_loses_some(
    shipped: dict[str, list[dict[str, Any]]],
) -> None:
    """A comparison on dev shows flips both ways, and the difference is no accident."""
    pairs = Counter(
        (old == "ok", new == "ok")
        for old, new in zip(
            codes(shipped, "dev", "base"), codes(shipped, "dev", "trained"), strict=True
        )
    )
    gained, lost = pairs[False, True], pairs[True, False]
    assert lost >= 10
    # McNemar by the normal approximation: |z| > 4 is p < 1e-4.
    assert (gained - lost) / (gained + lost) ** 0.5 > 4


def test_a_wrong_value_is_a_plausible_slip(prepare: ModuleType) -> None:
    """7 * 4 + 2: off by one or ten, the last sign wrong (26), or the second step forgotten (28)."""
    problem = prepare.Problem("muladd", (7, 4, 2), "toy", "How many pens?")
    slips = {prepare.slip(problem, prepare.Random(seed)) for seed in range(200)}
    assert slips == {31, 29, 40, 20, 26, 28}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, "7 * 4 = 28, 28 + 2 = 30"),
        (26, "7 * 4 = 28, 28 + 2 = 26"),
        (28, "7 * 4 = 28"),  # the second step forgotten
    ],
)
def test_the_working_leads_to_the_value_claimed(
    prepare: ModuleType, value: int, expected: str
) -> None:
    """A wrong answer has a wrong step to find."""
    problem = prepare.Problem("muladd", (7, 4, 2), "toy", "How many pens?")
    assert prepare.working(problem, value) == expected
