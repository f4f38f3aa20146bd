"""Claims about re-checking: golden sets against a scorer, runs against their seal and rows."""

import json

import pytest

from course.core.errors import PluginError
from course.evaluation.rechecks import check_golden, check_run

CASE = {
    "id": "g1",
    "prompt": "3+5?",
    "expected_answer": 8,
    "completion": "Final: 8",
    "expected_reward": 1.0,
    "expected_code": "ok",
    "note": "right",
}
EXAMPLES = [{"id": "a", "prompt": "?", "expected_answer": 1}]


def quiet(done: int) -> None:
    """Report to nobody."""


def texts(report) -> list[str]:
    return [str(problem) for problem in report.problems]


def test_a_golden_set_that_the_scorer_agrees_with_has_no_problem(jsonl):
    """And the report says which scorer looked at it."""
    report = check_golden(jsonl("golden.jsonl", [CASE]), "final_answer", quiet)
    assert (report.rows, report.problems) == (1, [])
    assert report.notes == ["scored by final_answer v1"]


@pytest.mark.parametrize("change", [{"expected_reward": 0.0}, {"expected_code": "wrong_answer"}])
def test_a_golden_row_that_the_scorer_contradicts_is_a_gate(jsonl, change):
    """Reward and code must both be as written; the line and both sides are shown."""
    path = jsonl("golden.jsonl", [CASE, {**CASE, "id": "g2", **change}])
    report = check_golden(path, "final_answer", quiet)
    assert [p.gate for p in report.problems] == [True]
    assert f"{path}:2: g2: expected " in texts(report)[0] and "got 1 ok" in texts(report)[0]


def test_a_golden_set_is_scored_by_the_scorer_its_folder_is_named_after(jsonl, tmp_path):
    """data/golden/single_line/... needs no flag."""
    (tmp_path / "single_line").mkdir()
    row = {**CASE, "completion": "So. Final: 8"}
    report = check_golden(jsonl("single_line/golden.jsonl", [row]), None, quiet)
    assert "expected 1 ok, got 0 extra_text" in texts(report)[0]


def test_a_golden_set_without_a_scorer_says_that_no_reward_was_checked(jsonl):
    """Silence would be taken for agreement."""
    report = check_golden(jsonl("golden.jsonl", [CASE]), None, quiet)
    assert (report.problems, report.notes) == (
        [],
        ["no --scorer was given, so no reward was checked"],
    )


def test_a_scorer_that_fails_on_a_golden_row_is_a_problem(jsonl, tmp_path):
    """Unscored is not what any golden row expects."""
    (tmp_path / "s.py").write_text("def score(example, completion):\n    return 1\n")
    report = check_golden(jsonl("golden.jsonl", [CASE]), f"{tmp_path / 's.py'}:score", quiet)
    assert "got unscored (the scorer returned int" in texts(report)[0]


def test_a_nondeterministic_scorer_is_caught_on_golden_rows(jsonl, tmp_path):
    """Each row is scored twice."""
    (tmp_path / "s.py").write_text(
        "calls = []\n"
        "def score(example, completion):\n"
        "    calls.append(1)\n"
        "    return {'reward': float(len(calls) % 2), 'details': {'code': 'ok'}}\n"
    )
    report = check_golden(jsonl("golden.jsonl", [CASE]), f"{tmp_path / 's.py'}:score", quiet)
    assert "nondeterministic" in texts(report)[0]


@pytest.fixture
def run(eval_run):
    return eval_run("run", EXAMPLES, [{"id": "a", "completion": "So. Final: 1"}])


def test_an_intact_run_has_no_problem(run):
    """Also when it is scored again."""
    assert check_run(run, None, quiet).problems == []
    report = check_run(run, "final_answer", quiet)
    assert (report.kind, report.rows, report.problems) == ("eval run", 1, [])


def test_a_run_scored_again_by_another_scorer_disagrees(run):
    """single_line wants nothing before the marker."""
    report = check_run(run, "single_line", quiet)
    assert "results.jsonl:1: a: scored again it is 0 extra_text, not 1 ok" in texts(report)[0]
    assert report.problems[0].gate


def test_missing_and_failed_rows_are_what_they_were_when_scored_again(eval_run):
    """A row without a completion has nothing to score."""
    run = eval_run("run", [*EXAMPLES, {**EXAMPLES[0], "id": "b"}], [{"id": "a", "completion": "x"}])
    assert check_run(run, "final_answer", quiet).problems == []


def test_a_changed_byte_is_a_broken_seal(run):
    """And the rows, which no longer fit the summary, are reported too."""
    path = run / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"ok"', b'"no"'))
    found = texts(check_run(run, None, quiet))
    assert any("BrokenSeal: results.jsonl changed: same size, other content" in t for t in found)
    assert any("outcomes.ok is 1, but the rows give None" in t for t in found)


def test_a_sealed_lie_is_found_by_counting(run, sealed_run):
    """Anyone can seal a folder; a summary that does not follow from its rows is still wrong."""
    summary = json.loads((run / "summary.json").read_bytes())
    summary["outcomes"] = {"ok": 2}
    files = {"results.jsonl": (run / "results.jsonl").read_bytes()}
    files["summary.json"] = json.dumps(summary).encode()
    found = texts(check_run(sealed_run("lie", "eval", files), None, quiet))
    assert len(found) == 1 and "outcomes.ok is 2, but the rows give 1" in found[0]


def test_rewards_that_were_forged_and_sealed_again_are_found_by_counting(eval_run, sealed_run):
    """The rate in the summary is not the rate of the rows."""
    rows = [{"id": "a", "completion": "Final: 1"}, {"id": "b", "completion": "Final: 7"}]
    run = eval_run("honest", [*EXAMPLES, {"id": "b", "prompt": "?", "expected_answer": 2}], rows)
    assert check_run(run, None, quiet).problems == []
    forged = (run / "results.jsonl").read_bytes().replace(b'"reward":0.0', b'"reward":1.0')
    files = {"results.jsonl": forged, "summary.json": (run / "summary.json").read_bytes()}
    found = "\n".join(texts(check_run(sealed_run("forged", "eval", files), None, quiet)))
    assert "metrics.pass_rate is 0.5, but the rows give 1.0" in found
    assert "metrics.n_pass is 1, but the rows give 2" in found


def test_a_scorer_that_reads_metadata_is_asked_with_the_metadata_of_the_dataset(eval_run, tmp_path):
    """An honest run is not called forged; with another scorer the report says so."""
    path = tmp_path / "by_operation.py"
    path.write_text(
        "def score(example, completion):\n"
        "    code = example['metadata']['operation']\n"
        "    return {'reward': 1.0, 'details': {'code': code}}\n"
    )
    examples = [{**EXAMPLES[0], "metadata": {"operation": "add"}}]
    run = eval_run("run", examples, [{"id": "a", "completion": "x"}], scorer=f"{path}:score")
    report = check_run(run, f"{path}:score", quiet)
    assert report.problems == [] and report.notes == [
        "scored again by by_operation.py:score vunversioned"
    ]
    path.write_text(path.read_text().replace("1.0", "0.5"))
    report = check_run(run, f"{path}:score", quiet)
    assert report.problems and "whose sources are not those" in report.notes[0]


def test_an_input_that_changed_since_is_a_note(eval_run, tmp_path):
    """The run is what it was; its dataset is not."""
    run = eval_run("run", EXAMPLES, [{"id": "a", "completion": "x"}])
    (tmp_path / "run-dataset.jsonl").write_text("other\n")
    report = check_run(run, None, quiet)
    assert report.problems == []
    assert len(report.notes) == 1 and "dataset.jsonl, has changed since" in report.notes[0]


@pytest.mark.parametrize("kind", ["pretrain", "train"])
def test_a_run_of_another_kind_is_checked_by_its_seal(sealed_run, kind):
    """A training run's files are bytes here, those in its subfolders too."""
    files = {"metrics.jsonl": b'{"step":1}\n', "checkpoints/1.bin": b"weights"}
    run = sealed_run("run", kind, files)
    assert check_run(run, None, quiet).problems == []
    (run / "checkpoints" / "extra.txt").write_text("x")
    assert "checkpoints/extra.txt was added" in texts(check_run(run, None, quiet))[0]
    (run / "checkpoints" / "1.bin").write_bytes(b"Weights")
    assert "checkpoints/1.bin changed" in texts(check_run(run, None, quiet))[0]


@pytest.mark.parametrize(
    ("kind", "name", "good", "bad"),
    [
        ("sample", "completions.jsonl", '{"id":"a","completion":"x"}', '{"id":"a"}'),
        ("sample", "selection_pack.jsonl", '{"id":"a","samples":["x"]}', '{"id":"a"}'),
        (
            "selection",
            "results.jsonl",
            '{"id":"a","prompt":"p","expected_answer":1,"baseline":{"index":0,"reward":0.0,'
            '"outcome_code":"empty"},"selected":{"index":0,"reward":0.0,"outcome_code":"empty"},'
            '"samples":[{"completion":"","reward":0.0,"outcome_code":"empty"}]}',
            '{"id":"a","samples":[]}',
        ),
    ],
)
def test_the_rows_of_a_run_of_another_kind_are_checked_too(sealed_run, kind, name, good, bad):
    """A seal over bad rows is intact, and the rows are bad all the same."""
    assert check_run(sealed_run("good", kind, {name: good.encode()}), None, quiet).problems == []
    report = check_run(sealed_run("bad", kind, {name: bad.encode()}), None, quiet)
    assert report.problems and all(problem.line == 1 for problem in report.problems)


def test_a_scorer_that_does_not_exist_is_an_error(run):
    """Not a problem of the run."""
    with pytest.raises(PluginError):
        check_run(run, "nope", quiet)
