"""Claims about the Locked Room: what is equal, different and unknown, and which of it violates."""

import pytest
from msgspec.structs import replace

from course.core.records import (
    Command,
    InputFile,
    Manifest,
    RunFacts,
    SamplingSettings,
    ScorerFacts,
)
from course.evaluation.locked_room import VARIABLE, Check, Status, room_checks, vary

SAMPLING = SamplingSettings(
    temperature=0.7, top_p=0.95, max_new_tokens=64, n=1, greedy=False, seed=1
)
RUN = Manifest(
    schema_version=1,
    kind="eval",
    run_id="r",
    created_utc="2026-01-01T00:00:00Z",
    duration_s=0.0,
    command=Command([], {}),
    inputs={"dataset": InputFile("d.jsonl", 1, "d" * 64, 100)},
    prompts_sha256="a" * 64,
    scorer=ScorerFacts("final_answer", "1", "final_answer", "5" * 64),
    policy=None,
    sampling=SAMPLING,
    environment={},
    git=None,
    outputs={},
    seal="0" * 64,
)
FACTS = RunFacts("eval", "n", "final_answer v1", 100, 100, 100, 0, 0, 0)
OTHER_DATA = {"dataset": InputFile("d.jsonl", 1, "e" * 64, 100)}


def room(one: Manifest = RUN, other: Manifest = RUN, facts=(FACTS, FACTS)) -> dict[str, Check]:
    return {check.name: check for check in room_checks(one, other, facts)}


def test_a_run_and_itself_are_locked_in():
    """Four respects, all equal, in this order."""
    checks = room()
    assert tuple(checks) == VARIABLE == ("dataset", "prompts", "scorer", "sampling")
    assert all(c.status is Status.EQUAL and not c.violates for c in checks.values())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dataset", {"inputs": OTHER_DATA}),
        ("prompts", {"prompts_sha256": "b" * 64}),
        ("scorer", {"scorer": replace(RUN.scorer, name="single_line")}),
        ("scorer", {"scorer": replace(RUN.scorer, version="2")}),
        ("scorer", {"scorer": replace(RUN.scorer, sources_sha256="6" * 64)}),
        ("scorer", {"scorer": replace(RUN.scorer, full_reward=10.0)}),
        ("sampling", {"sampling": replace(SAMPLING, temperature=1.0)}),
        ("sampling", {"sampling": replace(SAMPLING, top_p=1.0)}),
        ("sampling", {"sampling": replace(SAMPLING, max_new_tokens=12)}),
        ("sampling", {"sampling": replace(SAMPLING, n=4)}),
        ("sampling", {"sampling": replace(SAMPLING, greedy=True)}),
    ],
)
def test_each_difference_violates_alone(name, change):
    """One thing differs: that check is ``different`` and violates, the others stay equal."""
    checks = room(other=replace(RUN, **change))
    assert checks[name].status is Status.DIFFERENT and checks[name].violates
    assert all(c.status is Status.EQUAL for c in checks.values() if c.name != name)


def test_an_edited_scorer_of_the_same_name_and_version_is_called_out():
    """The version says what the author claims; the sources say what ran."""
    other = replace(RUN, scorer=replace(RUN.scorer, sources_sha256="6" * 64))
    assert "but other sources: 555555555555 against 666666666666" in room(RUN, other)["scorer"].text


def test_another_full_reward_is_another_scorer():
    """The same sources, but what counts as a pass is not the same."""
    other = replace(RUN, scorer=replace(RUN.scorer, full_reward=10.0))
    assert (
        room(RUN, other)["scorer"].text == "final_answer v1, but other full rewards: 1 against 10"
    )


def test_a_changed_temperature_is_shown_with_both_values():
    """The checklist is read by people."""
    text = room(other=replace(RUN, sampling=replace(SAMPLING, temperature=1.0)))["sampling"].text
    assert text == "temperature 0.7 against 1.0"


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": replace(SAMPLING, seed=2)},
        {"sampling": replace(SAMPLING, seed=None)},
        {"policy": {"name": "trained"}},
        {"run_id": "other"},
        {"scorer": replace(RUN.scorer, plug="./final_answer.py:score")},
    ],
)
def test_what_may_differ(change):
    """Seed and policy are what is compared; run id and the way to a scorer are no conditions."""
    assert all(c.status is Status.EQUAL for c in room(other=replace(RUN, **change)).values())


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("dataset", {"inputs": {}}),
        ("prompts", {"prompts_sha256": None}),
        ("scorer", {"scorer": None}),
        ("sampling", {"sampling": None}),
        ("sampling", {"sampling": SamplingSettings()}),
        ("sampling", {"sampling": SamplingSettings(seed=1)}),
    ],
)
def test_unknown_on_one_side_violates_and_on_both_is_a_caveat(name, gone):
    """What one run does not say cannot be held against what the other says."""
    silent = replace(RUN, **gone)
    for one, other in ((RUN, silent), (silent, RUN)):
        check = room(one, other)[name]
        assert check.status is Status.UNKNOWN and check.violates
        assert check.text.startswith(f"the {'baseline' if one is silent else 'candidate'} does not")
    check = room(silent, silent)[name]
    assert check.status is Status.UNKNOWN and not check.violates
    assert check.text.startswith("neither run says")


def test_a_sampling_field_that_one_run_leaves_out_violates():
    """Equal in all that both say, but one says more."""
    check = room(other=replace(RUN, sampling=replace(SAMPLING, top_p=None)))["sampling"]
    assert (check.status, check.violates) == (Status.UNKNOWN, True)
    assert check.text == "only the baseline says: top_p"


def test_a_sampling_field_that_both_leave_out_is_a_caveat():
    """Nobody can tell, and nobody claims."""
    silent = replace(RUN, sampling=replace(SAMPLING, max_new_tokens=None))
    check = room(silent, silent)["sampling"]
    assert (check.status, check.violates) == (Status.UNKNOWN, False)
    assert check.text.endswith("neither run says: max_new_tokens")


def test_a_known_difference_outweighs_an_unknown_field():
    """Different temperature and a missing top_p: it is different, not just unknown."""
    other = replace(RUN, sampling=replace(SAMPLING, temperature=1.0, top_p=None))
    assert room(other=other)["sampling"].status is Status.DIFFERENT


@pytest.mark.parametrize("sampling", [None, SAMPLING])
def test_other_numbers_of_completions_are_another_sampling(sampling):
    """One against four per example is seen in the data, whatever the blocks say."""
    run = replace(RUN, sampling=sampling)
    four = replace(FACTS, n_completions=400)
    check = room(run, run, (FACTS, four))["sampling"]
    assert (check.status, check.violates) == (Status.DIFFERENT, True)
    assert check.text == "1 against 4 completions per example"


@pytest.mark.parametrize("sampling", [None, SAMPLING])
def test_equal_averages_of_completions_are_not_yet_equal_sampling(sampling):
    """1, 3, 1, 3 against 3, 1, 3, 1: two on average, and four examples sampled otherwise."""
    run = replace(RUN, sampling=sampling)
    check = room_checks(run, run, (FACTS, FACTS), uneven=4)[3]
    assert (check.status, check.violates) == (Status.DIFFERENT, True)
    assert check.text == "4 examples have another number of completions in the candidate"


@pytest.mark.parametrize("facts", [(None, FACTS), (FACTS, None), (None, None)])
def test_without_the_counts_of_a_broken_run_the_manifests_are_compared(facts):
    """What the counts would say is not held against either side."""
    assert all(c.status is Status.EQUAL for c in room(facts=facts).values())
    other = replace(RUN, sampling=replace(SAMPLING, temperature=1.0))
    assert room(other=other, facts=facts)["sampling"].status is Status.DIFFERENT


def test_missing_completions_are_no_other_sampling():
    """90 of 100 answered once is incomplete, which is said elsewhere; it is still once each."""
    short = replace(FACTS, n_completions=90, n_missing=10)
    assert room(facts=(FACTS, short))["sampling"].status is Status.EQUAL


ALL_DIFFERENT = replace(
    RUN,
    inputs=OTHER_DATA,
    prompts_sha256="b" * 64,
    scorer=replace(RUN.scorer, version="2"),
    sampling=None,
)


@pytest.mark.parametrize(
    ("name", "same_answers", "allowed"),
    [
        ("dataset", False, {"dataset", "prompts"}),
        ("prompts", True, {"dataset", "prompts"}),
        ("prompts", False, {"prompts"}),
        ("scorer", True, {"scorer"}),
        ("sampling", True, {"sampling"}),
    ],
)
def test_vary_allows_the_one_difference_and_what_follows_from_it(name, same_answers, allowed):
    """Everything differs; only what was declared is forgiven, and marked as varied."""
    checks = vary(room_checks(RUN, ALL_DIFFERENT, (FACTS, FACTS)), name, same_answers=same_answers)
    assert {c.name for c in checks if c.varied} == allowed
    assert {c.name for c in checks if c.violates} == {*room()} - allowed


def test_vary_leaves_equal_checks_alone():
    """What does not differ is not varied."""
    checks = vary(room_checks(RUN, RUN, (FACTS, FACTS)), "scorer", same_answers=True)
    assert not any(c.varied for c in checks)
