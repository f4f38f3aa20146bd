"""Claims about ``course.validate`` as a command: all problems at once, and the right exit code."""

GOLDEN = {
    "id": "g1",
    "prompt": "3+5?",
    "expected_answer": 8,
    "completion": "Final: 8",
    "expected_reward": 1.0,
    "expected_code": "ok",
    "note": "right",
}


def test_good_files_and_runs_pass(door, dataset, answers, run):
    """A dataset, completions and a run: exit 0, one line each."""
    done = door("validate", dataset, answers(3), run("run", 15))
    assert done.code == 0 and done.last == "3 checked, no problems"
    assert done.out.count("ok    ") == 3 and "eval run, 20 rows" in done.out


def test_all_problems_of_a_file_are_reported_with_their_lines(door, jsonl):
    """Not only the first."""
    row = {"id": "a", "prompt": "?", "expected_answer": 1}
    path = jsonl("bad.jsonl", [row, {**row, "expected_answer": 1.5}, b"{", row])
    done = door("validate", path)
    assert done.code == 2 and done.last == "1 checked, 3 problems"
    for line in (2, 3, 4):
        assert f"{path}:{line}: " in done.out


def test_a_golden_row_that_the_scorer_contradicts_exits_1(door, jsonl):
    """A gate, not bad data; bad data beside it is 2."""
    gate = jsonl("golden.jsonl", [{**GOLDEN, "expected_reward": 0.0}])
    assert door("validate", gate, "--scorer", "final_answer").code == 1
    bad = jsonl("bad.jsonl", [{**GOLDEN, "expected_answer": "-0"}])
    assert door("validate", gate, bad, "--scorer", "final_answer").code == 2


def test_an_edited_run_exits_1(door, run):
    """The seal said no."""
    folder = run("run", 15)
    (folder / "summary.md").write_text("all passed")
    done = door("validate", folder)
    assert done.code == 1 and "BrokenSeal: summary.md changed" in done.out


def test_a_missing_path_is_a_problem_like_any_other(door, dataset, tmp_path):
    """The rest is still checked."""
    done = door("validate", tmp_path / "nowhere.jsonl", dataset)
    assert done.code == 2 and done.last == "2 checked, 1 problem"
    assert "nowhere.jsonl: does not exist" in done.out


def test_json_lists_every_problem(door, jsonl, dataset):
    """Valid or not, and why."""
    found = door(
        "validate", dataset, jsonl("bad.jsonl", [b'{"id": "a", "completion": 3}']), "--json"
    ).json
    assert found["valid"] is False
    assert [len(report["problems"]) for report in found["reports"]] == [0, 1]
    assert found["reports"][1]["problems"][0]["line"] == 1


def test_a_scorer_that_prints_does_not_reach_stdout(door, jsonl, tmp_path):
    """--json is JSON whatever a plugged scorer does."""
    path = tmp_path / "noisy.py"
    path.write_text(
        "print('importing')\n"
        "def score(example, completion):\n"
        "    print('scoring')\n"
        "    return {'reward': 1.0, 'details': {'code': 'ok'}}\n"
    )
    golden = jsonl("golden.jsonl", [GOLDEN])
    done = door("validate", golden, "--scorer", f"{path}:score", "--json")
    assert done.code == 0 and done.json["valid"] is True and "importing" in done.err


def test_hostile_text_in_a_bad_row_stays_inert(door, jsonl):
    """The report quotes; it does not obey."""
    path = jsonl("bad.jsonl", [{"id": "a", "prompt": "?", "expected_answer": "\x1b[2J\u202e"}])
    done = door("validate", path)
    assert done.code == 2 and not set("\x1b\u202e") & set(done.out)
