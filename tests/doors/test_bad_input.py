"""Claims about mistakes: exit 2, one screen, where it is, what to do; and nothing left behind."""

import pytest

ROW = b'{"id": "a", "prompt": "3+5?", "expected_answer": 8}'
ANSWER = b'{"id": "a", "completion": "Final: 8"}'
OTHERS = [b'{"id": "x%d", "prompt": "", "expected_answer": 1}' % k for k in range(6)]


def refused(done, *said: str) -> None:
    """Check that a command refused in words."""
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 12 and len(done.err) < 1200
    for words in said:
        assert words in done.err


@pytest.fixture
def evaluated(door, tmp_path):
    """Evaluate; check that no run folder is there, whole or in part."""

    def run(dataset, completions, *flags):
        argv = ("--dataset", dataset, "--completions", completions, *flags)
        done = door("eval", *argv, "--outdir", tmp_path / "out" / "run")
        left = list((tmp_path / "out").iterdir()) if (tmp_path / "out").exists() else []
        assert left == []
        return done

    return run


@pytest.fixture
def good(jsonl):
    return jsonl("good.jsonl", [ROW]), jsonl("answers.jsonl", [ANSWER])


@pytest.mark.parametrize("role", ["dataset", "completions"])
def test_a_missing_file(evaluated, good, tmp_path, role):
    """With the name that was probably meant."""
    files = dict(zip(("dataset", "completions"), good, strict=True))
    near = {"dataset": "god.jsonl", "completions": "answer.jsonl"}[role]
    files[role] = tmp_path / near
    name = {"dataset": "good.jsonl", "completions": "answers.jsonl"}[role]
    refused(evaluated(**files), f"{near} does not exist.", f"Did you mean {name}?")


def test_a_directory(evaluated, good, tmp_path):
    """With what it holds."""
    done = evaluated(tmp_path, good[1])
    refused(done, "is a directory, and a file was expected", "answers.jsonl, good.jsonl")


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("content", [[], [b"", b"  "]])
def test_an_empty_file(evaluated, good, jsonl, role, content):
    """Nothing in it, or blank lines only."""
    files = list(good)
    files[role] = jsonl("nothing.jsonl", content)
    refused(evaluated(*files), "nothing.jsonl is empty", "needs id")


BAD_ROWS = [
    (b'{"id": "b", "prompt": "?", "expected_answer": 8', "not valid JSON"),
    (b'{"id": "b", "prompt": "caf\xe9", "expected_answer": 8}', "not UTF-8"),
    (b'["b", "?", 8]', "a JSON list, and an object was expected"),
    (b'{"id": "b", "prompt": "?"}', "no 'expected_answer'; its keys are: id, prompt"),
    (b'{"id": "b", "prompt": "?", "expected_answer": 8.0}', "the number 8.0"),
    (b'{"id": "b", "prompt": "?", "expected_answer": 123456789012345678901234567890}', '"1234'),
    (b'{"id": "b", "prompt": "?", "expected_answer": NaN}', "NaN"),
    (b'{"id": "b", "prompt": "?", "expected_answer": "-0"}', "not a canonical integer"),
    (b'{"id": "", "prompt": "?", "expected_answer": 8}', "'id'"),
]


@pytest.mark.parametrize(("row", "said"), BAD_ROWS, ids=[said[:12] for _, said in BAD_ROWS])
def test_a_bad_row_on_line_7_of_a_dataset(evaluated, good, jsonl, row, said):
    """Invalid JSON, Latin-1, a list, a missing key, a float, 30 digits, NaN, -0, an empty id."""
    refused(evaluated(jsonl("bad.jsonl", [*OTHERS, row]), good[1]), "bad.jsonl:7: ", said)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b'{"id": "b", "completion": "x"', "not valid JSON"),
        (b'{"id": "b", "completion": "caf\xe9"}', "not UTF-8"),
        (b'"b"', "a JSON string, and an object was expected"),
        (b'{"id": "b", "text": "x"}', "no 'completion'; its keys are: id, text"),
        (b'{"id": "b", "completion": null}', "'completion' is null"),
        (b'{"id": "b", "completion": "x", "sample_index": -1}', "'sample_index' is -1"),
    ],
)
def test_a_bad_row_on_line_2_of_completions(evaluated, good, jsonl, row, said):
    """The same care on the other side."""
    done = evaluated(good[0], jsonl("bad.jsonl", [ANSWER, row]))
    refused(done, "bad.jsonl:2: ", said)


def test_duplicate_ids(evaluated, good, jsonl):
    """Both lines, and what an id is for."""
    twice = jsonl("twice.jsonl", [ROW, *OTHERS, ROW])
    refused(evaluated(twice, good[1]), "twice.jsonl:8: the id 'a'", "in lines 1 and 8")


def test_duplicate_completions(evaluated, good, jsonl):
    """Both lines, and how several completions are written."""
    twice = jsonl("twice.jsonl", [ANSWER, ANSWER])
    refused(evaluated(good[0], twice), "twice.jsonl:2: the id 'a'", "lines 1 and 2", "sample_index")


def test_completions_for_another_dataset(evaluated, good, jsonl):
    """The first line, the first ids, and the likely cause."""
    other = jsonl("other.jsonl", [b'{"id": "q%d", "completion": ""}' % k for k in range(40)])
    done = evaluated(good[0], other)
    refused(done, "other.jsonl:1: 40 of 40", "line 1 ('q0')", "and 35 more", "another dataset")


def test_files_in_each_others_place(evaluated, good):
    """A common slip: the message says what the file looks like."""
    refused(evaluated(good[1], good[0]), "good.jsonl:1: ", "This looks like a dataset")


def test_hostile_text_in_a_bad_row_stays_inert(evaluated, good, jsonl):
    """The message quotes the row; the terminal must not obey it."""
    bad = jsonl("bad.jsonl", [b'{"id": "\x1b[2J\xe2\x80\xae", "completion": ']).rename
    path = bad(good[0].with_name("evil.jsonl"))
    done = evaluated(good[0], path)
    refused(done, "evil.jsonl:1: ")
    assert "\x1b" not in done.err and "\u202e" not in done.err


@pytest.mark.parametrize(
    ("plug", "said"),
    [
        ("nope", "There is no scorer named 'nope'"),
        ("final_anwser", "Did you mean final_answer?"),
        ("missing.py:score", "missing.py does not exist"),
        ("scorer.py:grade", "has no 'grade'. It defines: mark"),
        ("syntax.py:score", "syntax.py:2"),
        ("raises.py:score", "raises.py:1: RuntimeError: no luck"),
        ("no.such.module:score", "No module 'no.such.module'"),
        ("constant.py:score", "is not a function"),
        ("one.py:score", "called with 2 arguments"),
    ],
)
def test_a_scorer_that_cannot_be_loaded(evaluated, good, tmp_path, monkeypatch, plug, said):
    """No such file, no such name, or it fails at import: where, and what there is instead."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scorer.py").write_text("def mark(example, completion): ...\n")
    (tmp_path / "syntax.py").write_text("x = 1\ndef score(:\n")
    (tmp_path / "raises.py").write_text("raise RuntimeError('no luck')\n")
    (tmp_path / "constant.py").write_text("score = 3\n")
    (tmp_path / "one.py").write_text("def score(example): ...\n")
    refused(evaluated(*good, "--scorer", plug), said)


@pytest.mark.parametrize("text", ["{", "[]", '{"temp": 1}', '{"temperature": "hot"}', "{}"])
def test_a_bad_sampling_file(evaluated, good, tmp_path, text):
    """What a sampling block looks like."""
    (tmp_path / "sampling.json").write_text(text)
    refused(
        evaluated(*good, "--sampling", tmp_path / "sampling.json"), "sampling.json", "temperature"
    )


def test_a_missing_sampling_file(evaluated, good, tmp_path):
    """By its name."""
    refused(evaluated(*good, "--sampling", tmp_path / "none.json"), "none.json cannot be read")


@pytest.mark.parametrize("name", ["compare", "inspect_run"])
@pytest.mark.parametrize(
    ("path", "said"),
    [("nowhere", "does not exist"), ("good.jsonl", "is a file"), (".", "is not a run folder")],
)
def test_a_path_that_is_no_run(door, good, tmp_path, name, path, said):
    """Missing, a file, or a folder of something else."""
    target = tmp_path / path
    argv = (
        ("--run", target)
        if name == "inspect_run"
        else ("--baseline", target, "--candidate", target)
    )
    refused(door(name, *argv), said)


@pytest.mark.parametrize("name", ["eval", "compare", "inspect_run"])
def test_a_command_without_its_flags_shows_its_usage(door, name):
    """argparse's way, exit 2."""
    done = door(name)
    assert done.code == 2 and done.err.startswith(f"usage: python -m course.{name}")
    assert "the following arguments are required" in done.err


def test_an_abbreviated_flag_is_refused(door):
    """--allow-un today would be another flag tomorrow."""
    done = door("eval", "--dataset", "d", "--completions", "c", "--allow-un")
    assert done.code == 2 and "unrecognized arguments: --allow-un" in done.err


def test_a_bad_row_shows_no_traceback_in_a_process_of_its_own(process, good, jsonl):
    """As a student meets it, in a shuffled file too."""
    rows = [b'{"id": "x5", "completion": ""}', b'{"id": "a", "completion": "caf\xe9"}']
    dataset = jsonl("many.jsonl", [ROW, *OTHERS])
    argv = ("--dataset", dataset, "--completions", jsonl("bad.jsonl", rows), "--outdir", "run")
    refused(process("eval", *argv), "bad.jsonl:2: ", "not UTF-8")
