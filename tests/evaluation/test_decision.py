"""Claims about the one decision rule: PROMOTE only if everything holds, and every reason alone."""

from pathlib import Path

import pytest

from course.core.errors import DataError, UsageError
from course.core.records import SamplingSettings
from course.evaluation.decision import Reason, Rules, Verdict, compare_runs, p_text

EXAMPLES = [{"id": f"e{k:02}", "prompt": f"{k}?", "expected_answer": k} for k in range(40)]
HOT = SamplingSettings(temperature=1.0, top_p=1.0, max_new_tokens=9, n=1, greedy=False)
COLD = SamplingSettings(temperature=0.5, top_p=1.0, max_new_tokens=9, n=1, greedy=False)
TWICE = SamplingSettings(temperature=1.0, top_p=1.0, max_new_tokens=9, n=2, greedy=False)


def answers(right: int, examples=EXAMPLES) -> list[dict[str, object]]:
    """Completions of which the first so many are right."""
    return [
        {"id": e["id"], "completion": f"Final: {e['expected_answer'] if k < right else 777}"}
        for k, e in enumerate(examples)
    ]


def sampled(rates: list[list[int]]) -> list[dict[str, object]]:
    """Several completions an example: 1 is right, 0 is wrong."""
    return [
        {"id": e["id"], "completion": f"Final: {e['expected_answer'] if right else 777}"}
        | {"sample_index": sample}
        for e, passes in zip(EXAMPLES, rates, strict=True)
        for sample, right in enumerate(passes)
    ]


def break_seal(path: Path) -> None:
    """Change one byte."""
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))


@pytest.fixture
def decided(eval_run):
    """Compare a run with 10 of 40 right to one with as many as asked for."""

    def decide(right: int, *, rules=None, base=None, completions=None, **candidate):
        one = eval_run("baseline", EXAMPLES, answers(10), **(base or {}))
        examples = candidate.pop("examples", EXAMPLES)
        rows = answers(right, examples) if completions is None else completions
        return compare_runs(
            one, eval_run("candidate", examples, rows, **candidate), rules or Rules()
        )

    return decide


def reasons(comparison) -> list[Reason]:
    return [finding.reason for finding in comparison.findings]


def test_a_better_candidate_under_equal_conditions_is_promoted(decided):
    """10 gained, none lost: p = 2 / 2**10."""
    found = decided(20)
    assert (found.verdict, found.findings) == (Verdict.PROMOTE, [])
    assert (found.paired.gained, found.paired.lost) == (10, 0)
    assert found.paired.p_value == pytest.approx(2 / 1024)
    assert found.caveats == [
        "sampling is unknown: neither run says how its completions were sampled. Whether it was "
        "the same, nobody can tell."
    ]


def test_known_equal_sampling_leaves_no_caveat(decided):
    """Everything is known, everything is equal."""
    found = decided(20, base={"sampling": HOT}, sampling=HOT)
    assert (found.verdict, found.caveats) == (Verdict.PROMOTE, [])


def test_worse_is_too_small_a_difference_as_well(decided):
    """10 lost, p = .002: worse and not above 0, but significantly so."""
    found = decided(0)
    assert found.verdict is Verdict.REJECT
    assert reasons(found) == [Reason.WORSE, Reason.DELTA_TOO_SMALL]
    assert [finding.text for finding in found.findings] == [
        "the difference is -0.2500",
        "the difference -0.2500 is not above 0",
    ]


def test_worse_is_below_min_delta_too(decided):
    """The bound that was asked for is named."""
    found = decided(0, rules=Rules(min_delta=0.1))
    assert found.findings[1].text == "the difference -0.2500 is below --min-delta 0.1"


def test_not_significant_alone(decided):
    """5 gained, none lost: p = .0625."""
    found = decided(15)
    assert reasons(found) == [Reason.NOT_SIGNIFICANT]
    assert found.findings[0].text == "p = 0.062 is above alpha 0.05"


def test_delta_too_small_alone(decided):
    """+0.25 with p = .002, but 0.3 was asked for."""
    found = decided(20, rules=Rules(min_delta=0.3))
    assert reasons(found) == [Reason.DELTA_TOO_SMALL]
    assert found.findings[0].text == "the difference +0.2500 is below --min-delta 0.3"


def test_min_delta_and_alpha_include_their_bounds(decided):
    """A difference of exactly min_delta and a p of exactly alpha will do."""
    rules = Rules(min_delta=0.25, alpha=2 / 1024)
    assert decided(20, rules=rules).verdict is Verdict.PROMOTE


def test_no_difference_is_never_promoted(decided):
    """Not even with a threshold of 0 and an alpha of 1."""
    found = decided(10, rules=Rules(min_delta=0.0, alpha=1.0))
    assert (found.verdict, reasons(found)) == (Verdict.REJECT, [Reason.DELTA_TOO_SMALL])


def test_a_violation_alone(decided):
    """The numbers are good; the conditions were not equal."""
    found = decided(20, base={"sampling": HOT}, sampling=COLD)
    assert reasons(found) == [Reason.LOCKED_ROOM_VIOLATION]
    assert "temperature 1.0 against 0.5" in found.findings[0].text
    assert found.paired.difference == 0.25


def test_sampling_known_on_one_side_is_a_violation(decided):
    """Unknown is not equal."""
    assert reasons(decided(20, sampling=HOT)) == [Reason.LOCKED_ROOM_VIOLATION]


def test_one_changed_answer_is_a_violation(decided):
    """A tampered dataset: same prompts, one other answer."""
    tampered = [*EXAMPLES[:-1], {**EXAMPLES[-1], "expected_answer": 777}]
    found = decided(20, examples=tampered)
    assert reasons(found) == [Reason.LOCKED_ROOM_VIOLATION]
    assert [c.status.value for c in found.checks[:2]] == ["different", "equal"]


def test_incomplete_alone(decided):
    """One example of 40 was not answered."""
    found = decided(20, completions=answers(20)[:-1])
    assert reasons(found) == [Reason.INCOMPLETE]
    assert "1 of 40 examples have no completion" in found.findings[0].text


def test_fewer_examples_are_incomplete(decided):
    """--max on one side only."""
    assert reasons(decided(20, limit=39)) == [Reason.INCOMPLETE, Reason.INCOMPLETE]


def test_an_incomplete_baseline_is_no_easier_to_beat(eval_run):
    """The rule is about both runs."""
    one = eval_run("baseline", EXAMPLES, answers(10)[:-1])
    other = eval_run("candidate", EXAMPLES, answers(20))
    assert reasons(compare_runs(one, other, Rules())) == [Reason.INCOMPLETE]


def test_unscored_alone(decided, tmp_path):
    """The scorer failed on one completion of the candidate."""
    path = tmp_path / "picky.py"
    path.write_text(
        "from course.scoring.final_answer import score as inner\n"
        "def score(example, completion):\n"
        "    assert completion != 'Final: 778'\n"
        "    return inner(example, completion)\n"
    )
    rows = [*answers(20)[:-1], {"id": "e39", "completion": "Final: 778"}]
    plug = f"{path}:score"
    found = decided(20, base={"scorer": plug}, completions=rows, scorer=plug)
    assert reasons(found) == [Reason.UNSCORED]
    assert found.paired.left_out == 1


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize("file", ["results.jsonl", "summary.json", "summary.md"])
def test_a_broken_seal_alone(eval_run, side, file):
    """One changed byte on either side: the room is still shown, and no number is."""
    one = eval_run("baseline", EXAMPLES, answers(10))
    other = eval_run("candidate", EXAMPLES, answers(20))
    break_seal((one if side == "baseline" else other) / file)
    found = compare_runs(one, other, Rules())
    assert (found.verdict, reasons(found)) == (Verdict.REJECT, [Reason.BROKEN_SEAL])
    assert side in found.findings[0].text and file in found.findings[0].text
    statuses = [check.status.value for check in found.checks]
    assert found.paired is None and statuses == ["equal", "equal", "equal", "unknown"]


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_an_unreadable_manifest_leaves_nothing_to_compare(eval_run, side):
    """Without a manifest there are no conditions, known or unknown."""
    one = eval_run("baseline", EXAMPLES, answers(10))
    other = eval_run("candidate", EXAMPLES, answers(20))
    ((one if side == "baseline" else other) / "manifest.json").write_text("{}")
    found = compare_runs(one, other, Rules())
    assert reasons(found) == [Reason.BROKEN_SEAL] and "manifest.json" in found.findings[0].text
    assert found.paired is None and found.checks == []


def test_a_broken_seal_does_not_hide_the_violations(eval_run):
    """Every reason: mending the seal would not have been enough."""
    one = eval_run("baseline", EXAMPLES, answers(10), sampling=HOT)
    other = eval_run("candidate", EXAMPLES, answers(20), scorer="single_line", sampling=COLD)
    break_seal(other / "results.jsonl")
    found = compare_runs(one, other, Rules())
    violation = Reason.LOCKED_ROOM_VIOLATION
    assert reasons(found) == [Reason.BROKEN_SEAL, violation, violation]
    assert found.paired is None


def test_what_was_varied_on_purpose_is_no_violation_of_a_broken_run_either(eval_run):
    """Whether its answers are the same cannot be read, so that is not held against it."""
    one = eval_run("baseline", EXAMPLES, answers(10))
    other = eval_run("candidate", OTHER_PROMPTS, answers(20))
    break_seal(other / "results.jsonl")
    assert reasons(compare_runs(one, other, Rules(vary="prompts"))) == [Reason.BROKEN_SEAL]


def test_all_reasons_are_given_at_once(decided):
    """Nobody should have to fix one thing to hear of the next."""
    found = decided(
        9, base={"sampling": HOT}, sampling=COLD, completions=answers(9)[:-1], scorer="single_line"
    )
    assert reasons(found) == [
        Reason.LOCKED_ROOM_VIOLATION,
        Reason.LOCKED_ROOM_VIOLATION,
        Reason.INCOMPLETE,
        Reason.WORSE,
        Reason.DELTA_TOO_SMALL,
        Reason.NOT_SIGNIFICANT,
    ]


OTHER_PROMPTS = [{**e, "prompt": e["prompt"] + " Think."} for e in EXAMPLES]
OTHER_EXAMPLES = [{**e, "id": "x" + str(e["id"])} for e in EXAMPLES]


def test_vary_scorer_is_compared_not_promoted(decided):
    """Two rulers: the numbers stand side by side."""
    found = decided(20, rules=Rules(vary="scorer"), scorer="single_line")
    assert (found.verdict, found.findings) == (Verdict.COMPARED, [])
    assert found.paired.difference == 0.25


def test_vary_dataset_is_compared_without_pairs(decided):
    """Other examples: nothing to pair."""
    found = decided(20, rules=Rules(vary="dataset"), examples=OTHER_EXAMPLES)
    assert (found.verdict, found.paired) == (Verdict.COMPARED, None)


def test_vary_dataset_may_have_another_size(decided):
    """Another dataset is another length."""
    examples = OTHER_EXAMPLES[:20]
    found = decided(20, rules=Rules(vary="dataset"), examples=examples)
    assert found.verdict is Verdict.COMPARED


def test_vary_prompts_is_compared_over_the_same_answers(decided):
    """The same problems asked otherwise."""
    found = decided(20, rules=Rules(vary="prompts"), examples=OTHER_PROMPTS)
    assert (found.verdict, found.paired.gained) == (Verdict.COMPARED, 10)


def test_vary_prompts_with_a_changed_answer_is_still_a_violation(decided):
    """Prompts were declared, answers were not."""
    sly = [*OTHER_PROMPTS[:-1], {**OTHER_PROMPTS[-1], "expected_answer": 777}]
    found = decided(20, rules=Rules(vary="prompts"), examples=sly)
    assert (found.verdict, reasons(found)) == (Verdict.REJECT, [Reason.LOCKED_ROOM_VIOLATION])


def test_vary_prompts_on_other_examples_is_a_violation(decided):
    """Other ids are another dataset, not other prompts."""
    found = decided(20, rules=Rules(vary="prompts"), examples=OTHER_EXAMPLES)
    assert Reason.LOCKED_ROOM_VIOLATION in reasons(found)


def test_vary_sampling_may_promote(decided):
    """The pass rate still means the same, so the one rule applies."""
    rules = Rules(vary="sampling")
    found = decided(20, rules=rules, base={"sampling": HOT}, sampling=COLD)
    assert found.verdict is Verdict.PROMOTE
    assert [c.name for c in found.checks if c.varied] == ["sampling"]
    assert found.caveats == ["sampling was varied on purpose: temperature 1.0 against 0.5."]


def test_equal_averages_do_not_hide_unequal_sampling(eval_run):
    """1, 3, 1, 3 against 3, 1, 3, 1 completions: pass rates of unlike precision are compared."""
    one = eval_run("baseline", EXAMPLES, sampled([[0], [0, 0, 0]] * 20))
    other = eval_run("candidate", EXAMPLES, sampled([[1, 1, 1], [1]] * 20))
    found = compare_runs(one, other, Rules())
    assert reasons(found) == [Reason.LOCKED_ROOM_VIOLATION]
    assert "sampling is different: 40 examples have another number" in found.findings[0].text


def test_an_alpha_below_the_resolution_of_the_test_is_a_caveat(eval_run):
    """All 40 better, so the exact p is 2 / 2**40; 9,999 resamples cannot say less than 2e-4."""
    one = eval_run("baseline", EXAMPLES, sampled([[0, 0]] * 40), sampling=TWICE)
    other = eval_run("candidate", EXAMPLES, sampled([[1, 0]] * 40), sampling=TWICE)
    found = compare_runs(one, other, Rules(alpha=1e-4))
    assert reasons(found) == [Reason.NOT_SIGNIFICANT]
    assert found.caveats == [
        "2.0e-04 is the least p that 9999 resamples can say: whether the true p is above alpha "
        "0.0001, this test cannot tell."
    ]
    found = compare_runs(one, other, Rules(alpha=2e-4))
    assert (found.verdict, found.caveats) == (Verdict.PROMOTE, [])


def test_a_p_far_above_alpha_is_not_blamed_on_the_resolution(eval_run):
    """20 better, 20 worse: no number of resamples would help."""
    one = eval_run("baseline", EXAMPLES, sampled([[1, 0]] * 40), sampling=TWICE)
    other = eval_run("candidate", EXAMPLES, sampled([[1, 1], [0, 0]] * 20), sampling=TWICE)
    found = compare_runs(one, other, Rules(alpha=1e-4))
    assert Reason.NOT_SIGNIFICANT in reasons(found) and found.caveats == []


def test_vary_forgives_only_what_it_names(decided):
    """Two differences, one declared."""
    found = decided(20, rules=Rules(vary="scorer"), scorer="single_line", sampling=HOT)
    assert (found.verdict, reasons(found)) == (Verdict.REJECT, [Reason.LOCKED_ROOM_VIOLATION])


def test_varied_runs_must_be_complete_too(decided):
    """COMPARED is no way around missing rows."""
    found = decided(
        20, rules=Rules(vary="scorer"), scorer="single_line", completions=answers(20)[:-1]
    )
    assert (found.verdict, reasons(found)) == (Verdict.REJECT, [Reason.INCOMPLETE])


@pytest.mark.parametrize("name", ["dataset", "prompts", "scorer"])
def test_a_declared_difference_that_is_none_changes_nothing(decided, name):
    """The rule applies as ever, and a caveat says so."""
    found = decided(20, rules=Rules(vary=name), base={"sampling": HOT}, sampling=HOT)
    assert found.verdict is Verdict.PROMOTE
    assert found.caveats == [f"--vary {name} was declared, but {name} does not differ."]


def test_a_run_against_itself_is_rejected_with_a_caveat(eval_run):
    """A slip of the shell history."""
    run = eval_run("baseline", EXAMPLES, answers(10))
    found = compare_runs(run, run, Rules())
    assert reasons(found) == [Reason.DELTA_TOO_SMALL, Reason.NOT_SIGNIFICANT]
    assert "baseline and candidate are the same run." in found.caveats


def test_a_part_of_the_dataset_on_both_sides_is_a_caveat(decided):
    """Both looked at the first 30 only."""
    found = decided(20, base={"limit": 30}, limit=30)
    assert found.verdict is Verdict.PROMOTE
    assert "only 30 of the dataset's 40 examples were evaluated." in found.caveats


def test_runs_of_another_kind_are_a_mistake_not_a_verdict(eval_run, sealed_run):
    """A sample run has no scores; the message says what to do."""
    one = eval_run("baseline", EXAMPLES, answers(10))
    other = sealed_run("sample", "sample", {"completions.jsonl": b'{"id":"a","completion":"x"}\n'})
    with pytest.raises(UsageError, match=r"is a sample run.*course\.eval first"):
        compare_runs(one, other, Rules())


def test_a_path_that_is_no_run_is_a_mistake_not_a_verdict(eval_run, tmp_path):
    """Nothing was tampered with: nothing is there."""
    one = eval_run("baseline", EXAMPLES, answers(10))
    with pytest.raises(DataError, match="does not exist"):
        compare_runs(one, tmp_path / "nowhere", Rules())


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1.000"), (0.0626, "0.063"), (0.001, "0.001"), (0.00042, "4.2e-04")]
)
def test_a_small_p_is_never_written_as_zero(p, text):
    """p = 0.000 would claim the impossible."""
    assert p_text(p) == text
