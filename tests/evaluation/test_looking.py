"""Claims about looking at a run: groups, filters, and every kind of run."""

import json

import pytest

from course.artifacts.seal import open_run
from course.core.errors import UsageError
from course.core.records import ScorerFacts
from course.evaluation.looking import Filter, look

SCORER = ScorerFacts("final_answer", "1", "final_answer", "5" * 64)
EXAMPLES = [{"id": f"e{k}", "prompt": f"{k}?", "expected_answer": k} for k in range(6)]
TEXTS = ["Final: 0", "Final: 1", "nothing", "no", "none", "Final: 7"]
COMPLETIONS = [{"id": f"e{k}", "completion": text} for k, text in enumerate(TEXTS)]


def lines(rows: list[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def run(eval_run):
    """2 ok, 3 missing_final, 1 wrong_answer."""
    return open_run(eval_run("run", EXAMPLES, COMPLETIONS))


def test_groups_are_commonest_first_with_shares(run):
    """3 of 6, 2 of 6, 1 of 6."""
    view = look(run, Filter(), top_k=5, show=2)
    assert (view.rows, view.matching) == (6, 6)
    assert [(g.code, g.rows, g.share, g.passed) for g in view.groups] == [
        ("missing_final", 3, 0.5, False),
        ("ok", 2, pytest.approx(1 / 3), True),
        ("wrong_answer", 1, pytest.approx(1 / 6), False),
    ]
    assert [row.id for row in view.groups[0].examples] == ["e2", "e3"]
    assert view.groups[0].meaning == view.groups[0].examples[0].details["message"]


def test_only_fails_leaves_out_what_passed(run):
    """Shares stay those of the whole run."""
    view = look(run, Filter(only_fails=True), top_k=5, show=1)
    assert [g.code for g in view.groups] == ["missing_final", "wrong_answer"]
    assert (view.matching, view.groups[0].share) == (4, 0.5)


def test_top_k_and_show_cut(run):
    """The counts are still of everything."""
    view = look(run, Filter(), top_k=1, show=0)
    assert [(g.code, g.rows, g.examples) for g in view.groups] == [("missing_final", 3, [])]
    assert view.matching == 6


def test_a_code_and_an_id_select(run):
    """Each alone, and both together."""
    assert look(run, Filter(code="ok"), top_k=5, show=9).matching == 2
    view = look(run, Filter(id="e5"), top_k=5, show=0)
    assert [row.completion for row in view.groups[0].examples] == ["Final: 7"]  # whatever --show
    assert look(run, Filter(id="e5", code="wrong_answer"), top_k=5, show=1).matching == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Filter(code="okay"), "no row with code 'okay'. .*missing_final \\(3\\), ok \\(2\\)"),
        (Filter(id="e9"), "no row with id 'e9'"),
        (Filter(id="e0", code="empty"), "id 'e0' and code 'empty'"),
        (Filter(code="ok", only_fails=True), "code 'ok' that failed"),
    ],
)
def test_a_filter_that_matches_nothing_says_what_there_is(run, wanted, said):
    """A typo in a code is answered with the codes."""
    with pytest.raises(UsageError, match=said):
        look(run, wanted, top_k=5, show=1)


def test_only_fails_of_a_perfect_run_shows_nothing(eval_run):
    """No failure is no mistake."""
    view = look(
        open_run(eval_run("run", EXAMPLES[:1], COMPLETIONS[:1])), Filter(True), top_k=5, show=3
    )
    assert (view.rows, view.matching, view.groups) == (1, 0, [])


def test_missing_completions_are_a_group_with_its_meaning(eval_run):
    """What could not be measured can be looked at."""
    found = open_run(eval_run("run", EXAMPLES, COMPLETIONS[:2]))
    (group,) = look(found, Filter(code="missing_completion"), top_k=5, show=1).groups
    assert (group.rows, group.passed, group.examples[0].completion) == (4, False, None)
    assert group.meaning.startswith("The example has no completion")


def test_all_samples_of_an_example_are_found_by_its_id(eval_run):
    """With their indices, in order."""
    rows = [{"id": "e0", "completion": f"Final: {k}", "sample_index": k} for k in (2, 0, 1)]
    view = look(open_run(eval_run("run", EXAMPLES[:1], rows)), Filter(id="e0"), top_k=5, show=1)
    found = [(r.sample_index, r.reward) for g in view.groups for r in g.examples]
    assert sorted(found) == [(0, 1.0), (1, 0.0), (2, 0.0)]


def test_a_selection_run_shows_what_was_chosen(sealed_run):
    """The chosen sample's text, and what there was without selection."""
    row = {
        "id": "a",
        "prompt": "?",
        "expected_answer": 8,
        "baseline": {"index": 0, "reward": 0.0, "outcome_code": "empty"},
        "selected": {"index": 1, "reward": 1.0, "outcome_code": "ok"},
        "samples": [
            {"completion": "", "reward": 0.0, "outcome_code": "empty"},
            {"completion": "Final: 8", "reward": 1.0, "outcome_code": "ok"},
        ],
    }
    folder = sealed_run("run", "selection", {"results.jsonl": lines([row])}, scorer=SCORER)
    (group,) = look(open_run(folder), Filter(), top_k=5, show=1).groups
    assert (group.code, group.passed, group.examples[0].completion) == ("ok", True, "Final: 8")
    assert group.examples[0].note == "chosen from 2 samples; without selection, sample 0: empty"


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("completions.jsonl", [{"id": "a", "completion": t, "sample_index": k} for k, t in
                               enumerate(["x", "y"])]),
        ("selection_pack.jsonl", [{"id": "a", "samples": ["x", {"completion": "y"}]}]),
    ],
)  # fmt: skip
def test_a_sample_run_shows_its_texts_unscored(sealed_run, file, rows):
    """Completions and packs look the same."""
    view = look(
        open_run(sealed_run("run", "sample", {file: lines(rows)})), Filter(), top_k=5, show=5
    )
    (group,) = view.groups
    assert (group.code, group.passed) == ("not_scored", False) and "course.eval" in group.meaning
    assert [(r.sample_index, r.completion, r.reward) for r in group.examples] == [
        (0, "x", None),
        (1, "y", None),
    ]


@pytest.mark.parametrize("kind", ["pretrain", "train"])
def test_a_run_without_completions_is_refused_by_its_kind(sealed_run, kind):
    """A training run that kept no completions has nothing to show here."""
    folder = sealed_run("run", kind, {"metrics.jsonl": b'{"step":1}\n'})
    with pytest.raises(UsageError, match=f"is a {kind} run without completions"):
        look(open_run(folder), Filter(), top_k=5, show=5)


def test_a_scorer_with_endless_codes_is_still_counted(eval_run, tmp_path):
    """300 codes: examples are kept for the first 200 only, all 300 are counted."""
    path = tmp_path / "chatty.py"
    path.write_text(
        "def score(example, completion):\n"
        "    return {'reward': 0.0, 'details': {'code': completion}}\n"
    )
    examples = [{"id": f"e{k}", "prompt": "", "expected_answer": k} for k in range(300)]
    rows = [{"id": f"e{k}", "completion": f"c{k}"} for k in range(300)]
    found = open_run(eval_run("run", examples, rows, scorer=f"{path}:score"))
    view = look(found, Filter(), top_k=1000, show=1)
    assert len(view.groups) == 300 and sum(len(g.examples) for g in view.groups) == 200
