"""A data file's problems are reported all at once, each with its line."""

import json
from pathlib import Path

import pytest

from course.core.checksums import make_checksums
from course.core.errors import DataError
from course.core.file_checks import (
    Problem,
    Report,
    check_checksums,
    check_file,
    kind_of,
    listed_files,
)
from course.core.records import Example

GOOD = '{"id":"a","prompt":"p","expected_answer":8}'


def check(path: Path, kind: str = "dataset", **kwargs) -> Report:
    return check_file(path, kind, progress=lambda done: None, **kwargs)


def found(path: Path, kind: str = "dataset") -> list[tuple[int | None, str]]:
    return [(problem.line, problem.text) for problem in check(path, kind).problems]


def test_a_good_file_has_rows_and_no_problems(write):
    """Blank lines are no rows."""
    report = check(write(f"{GOOD}\n\n" + GOOD.replace('"a"', '"b"')))
    assert (report.kind, report.rows, report.problems, report.notes) == ("dataset", 2, [], [])


def test_every_problem_is_reported_with_its_line(write):
    """Five bad rows, five lines, in one go."""
    rows = [
        GOOD,
        "[]",
        "",
        '{"id":"b","prompt":"p"}',
        GOOD.replace("8", "8.5"),
        "{",
        '{"id":"c","prompt":"\\ud800","expected_answer":1}',
    ]
    problems = found(write("\n".join(rows)))
    assert [line for line, _ in problems] == [2, 4, 5, 6, 7]


def test_all_problems_of_one_row_are_reported_once_each(write):
    """The reader stops at the first, the schema adds the others and repeats none."""
    problems = found(write('{"id":"","prompt":3,"expected_answer":null,"metadata":[]}'))
    starts = [text.split(": ")[0].split(" is ")[0] for _, text in problems]
    assert starts == ["'id'", "$.expected_answer", "$.metadata", "$.prompt"]


def test_two_missing_keys_are_two_problems(write):
    """Each named once."""
    problems = [text for _, text in found(write('{"id":"a"}'))]
    assert problems[0].startswith("this row has no 'prompt'; its keys are: id.")
    assert problems[1:] == ["$: 'expected_answer' is a required property"]


def test_a_row_that_is_no_object_is_one_problem(write):
    """Not once more in the words of the schema."""
    ((line, text),) = found(write("[1]"))
    assert line == 1 and text.startswith("this row is a JSON list")


def test_a_fault_the_schema_cannot_see_hides_none_that_it_can(write):
    """NaN is invalid JSON to the reader; the missing key is still reported."""
    problems = [text for _, text in found(write('{"id":"a","prompt":NaN}'))]
    assert "NaN and Infinity are not JSON numbers" in problems[0]
    assert "$: 'expected_answer' is a required property" in problems


def test_a_duplicate_id_names_both_lines(write):
    """Where it stands, and where it stood first."""
    path = write(f"{GOOD}\n\n{GOOD}\n{GOOD}\n")
    assert found(path) == [
        (3, "the id 'a' already stands in line 1"),
        (4, "the id 'a' already stands in line 1"),
    ]


def test_completions_may_share_an_id_but_not_a_sample_index(write):
    """No index means 0."""
    rows = [
        f'{{"id":"a","completion":""{end}}}'
        for end in ("", ',"sample_index":1', ',"sample_index":0')
    ]
    ((line, text),) = found(write("\n".join(rows)), "completions")
    assert (line, text) == (3, "the id 'a' with sample_index 0 already stands in line 1")


def test_a_key_that_stands_twice_in_one_object_is_reported(write):
    """JSON readers take the last one, silently: also inside metadata."""
    row = '{"id":"a","id":"b","prompt":"p","expected_answer":8,"metadata":{"k":1,"k":2,"j":3}}'
    assert [text for _, text in found(write(row))] == [
        "the key 'k' stands twice in one object",
        "the key 'id' stands twice in one object",
    ]


def test_an_object_of_a_hundred_thousand_keys_is_checked_in_linear_time(write):
    """Counting duplicates key by key would take ten thousand million steps."""
    metadata = json.dumps({str(i): i for i in range(100_000)})
    assert (
        found(write(f'{{"id":"a","prompt":"p","expected_answer":8,"metadata":{metadata}}}')) == []
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [(b'"\xff"', "not UTF-8"), (b"9" * 5000, "a number too long"), (b'"\\ud800"', "surrogate")],
)
def test_what_the_reader_ignores_is_still_checked(write, value, words):
    """A file is to be good JSON for everyone, also in the keys that we do not read."""
    row = b'{"id":"a","prompt":"p","expected_answer":8,"extra":' + value + b"}"
    ((_, text),) = found(write(row))
    assert words in text


def test_a_form_feed_is_a_problem_for_the_check_as_for_the_reader(write):
    """Nothing passes the check that a command would refuse."""
    assert [line for line, _ in found(write(f"{GOOD}\n\x0c\n"))] == [2]


def test_a_byte_order_mark_and_crlf_are_notes_and_no_problems(write):
    """They are read, and mentioned once."""
    other = GOOD.replace('"a"', '"b"')
    report = check(write(f"\ufeff{GOOD}\r\n{other}\r\n"))
    assert report.problems == []
    assert report.notes == ["starts with a byte-order mark", "has CRLF line ends"]


def test_an_empty_file_is_a_problem(write):
    """No rows, no data."""
    assert found(write("\n\n")) == [(None, "the file is empty")]


def test_one_more_check_sees_only_good_rows(write):
    """A golden check needs a row that can be read."""
    seen = []

    def look(number: int, row: Example):
        seen.append((number, row.id))
        yield Problem("x", number, "no", gate=True)

    report = check(write(f"{GOOD}\n[]\n"), row_check=look)
    assert seen == [(1, "a")]
    assert [(p.line, p.gate) for p in report.problems] == [(1, True), (2, False)]


def test_a_problem_is_shown_as_file_and_line():
    """What an editor can jump to."""
    assert str(Problem("a.jsonl", 7, "no")) == "a.jsonl:7: no"
    assert str(Problem("a.jsonl", None, "no")) == "a.jsonl: no"


def test_progress_counts_bytes(write):
    """A thousand rows of 44 bytes each."""
    rows = "".join(f'{{"id":"{i:04}","completion":""}}\n' for i in range(1_000))
    steps = []
    check_file(write(rows), "completions", progress=steps.append)
    assert steps == [len(rows)]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (GOOD, "dataset"),
        ('{"id":"a","completion":""}', "completions"),
        ('{"id":"a","samples":[]}', "selection_pack"),
        ('{"expected_code":"ok","completion":"","prompt":""}', "golden"),
        ('{"outcome_code":"ok","completion":"","prompt":""}', "eval_results"),
        ('{"selected":{},"samples":[],"prompt":""}', "selection_results"),
    ],
)
def test_the_kind_is_told_from_the_keys(write, row, kind):
    """Also behind a bad first line and a byte-order mark."""
    assert kind_of(write(row)) == kind
    assert kind_of(write(f"\ufeff{row}\n")) == kind
    assert kind_of(write(f"{{oops\n[]\n{row}\n")) == kind


@pytest.mark.parametrize(
    ("key", "kind"),
    [("seal", "manifest"), ("outcomes", "eval_summary"), ("temperature", "sampling")],
)
def test_the_kind_of_an_object_is_told_from_its_keys(write, key, kind):
    """A .json file is one object over many lines."""
    assert kind_of(write(json.dumps({key: 1}, indent=2), "x.json")) == kind


def test_a_file_of_no_kind_is_refused_with_the_choices(write):
    """And an empty one as empty."""
    with pytest.raises(DataError, match=r"is of no kind that is known here.*dataset, completions"):
        kind_of(write('{"x":1}\n'))
    with pytest.raises(DataError, match="is empty"):
        kind_of(write("\n"))


def test_an_object_is_checked_as_a_whole(write):
    """All of a sampling file's problems, without line numbers."""
    path = write('{"temperature":"hot","n":-1}', "sampling.json")
    problems = found(path, "sampling")
    assert [line for line, _ in problems] == [None, None]
    assert "temperature" in problems[0][1] and "$.n" in problems[1][1]
    assert found(write('\ufeff{"temperature":1.0}', "good.json"), "sampling") == []


# ---- checksums: test_checksums.py has the rules -----------------------------------------------


def test_a_data_folder_is_reported_as_one_list_of_checksums(write):
    """How many files it lists, and a problem for each that differs; then the rest by name."""
    folder = write(b"{}\n", "a.jsonl").parent
    write(json.dumps(make_checksums(folder)), "CHECKSUMS.json")
    assert check_checksums(folder)[1:] == ("checksums", 1, [], [])
    write(b"1", "b.bin")
    report = check_checksums(folder)
    assert report.rows == 1 and report.path.endswith("CHECKSUMS.json")
    assert report.problems == [Problem(report.path, None, "b.bin: not listed")]
    assert listed_files(folder) == [folder / "a.jsonl"]


def test_checksums_that_cannot_be_read_are_a_problem(write):
    """Never a traceback: the rest of the folder is still checked. Its path stands there once."""
    report = check_checksums(write("[]", "CHECKSUMS.json").parent)
    ((path, line, text, gate),) = report.problems
    assert (path, line, gate) == (report.path, None, False)
    assert text.startswith("not a readable list of checksums (")


def test_a_long_file_s_later_rows_are_held_against_their_type_and_bad_ones_against_both(
    write, monkeypatch
):
    """Speed costs no problem: the bad row in line 3 is reported whole, as in line 1."""
    bad = '{"id":"","prompt":7,"expected_answer":"x"}'
    whole = [text for _, text in found(write(bad))]
    assert len(whole) == 3
    monkeypatch.setattr("course.core.file_checks.BY_SCHEMA", 1)
    report = check(write(f"{GOOD}\n" + GOOD.replace('"a"', '"b"') + f"\n{bad}"))
    assert [(p.line, p.text) for p in report.problems] == [(3, text) for text in whole]
    assert report.notes == ["by its schema: the first 1 rows and every bad one; by type: all"]
