"""Real problems come in with one command, or not at all."""

import json
from pathlib import Path
from types import ModuleType

import pytest

SAMPLE = Path(__file__).with_name("gsm8k_format.jsonl")  # three rows, written for this test


def write(path: Path, *answers: str) -> Path:
    rows = [{"question": "How many?", "answer": answer} for answer in answers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_an_import_is_a_dataset_with_our_instruction(prepare: ModuleType, tmp_path: Path) -> None:
    """Ids from the file's name and the row; commas dropped; the worked solution kept."""
    out = tmp_path / "new" / "dataset.jsonl"
    assert prepare.main(["gsm8k", str(SAMPLE), "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [row["id"] for row in rows] == [f"gsm8k_format-000{n}" for n in (1, 2, 3)]
    assert [row["expected_answer"] for row in rows] == [60, 1234, -5]
    assert rows[0] == {
        "id": "gsm8k_format-0001",
        "prompt": "A small mill grinds 12 bags of flour every day. "
        "How many bags does it grind in 5 days?\nEnd with Final: <int>",
        "expected_answer": 60,
        "metadata": {"source": "gsm8k", "solution": "It grinds 12 x 5 = <<12*5=60>>60 bags."},
    }


def test_the_last_output_line_is_the_file_written(
    prepare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that a script can pick it up."""
    out = tmp_path / "dataset.jsonl"
    prepare.main(["gsm8k", str(SAMPLE), "--out", str(out)])
    assert capsys.readouterr().out.splitlines() == ["3 rows", str(out)]


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ("0", 0),
        ("12,345,678", 12345678),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),  # beyond int64: a decimal string
        ("-9223372036854775808", -(2**63)),
        ("-9,223,372,036,854,775,809", "-9223372036854775809"),
        ("9" * 5000, "9" * 5000),  # more digits than int() accepts
    ],
)
def test_answers_become_canonical_integers(
    prepare: ModuleType, tmp_path: Path, published: str, expected: int | str
) -> None:
    """An int where it fits 64 bits, otherwise its decimal text."""
    rows = prepare.gsm8k(write(tmp_path / "x.jsonl", f"So.\n#### {published}"))
    assert rows[0]["expected_answer"] == expected


@pytest.mark.parametrize(
    "answer",
    ["no marker 72", "#### ", "#### 7.5", "#### 1,23", "#### 007", "#### -0", "#### $5", "#### 5.",
     "#### ٣", "#### +5", "#### 5\n6", "#### 5 #### x"],
)  # fmt: skip
def test_an_answer_that_is_no_integer_is_refused(
    prepare: ModuleType, tmp_path: Path, answer: str
) -> None:
    """The importer does not guess."""
    with pytest.raises(prepare.DataError, match="must end in '#### '"):
        prepare.gsm8k(write(tmp_path / "x.jsonl", answer))


def test_all_bad_lines_are_reported_at_once_and_nothing_is_written(
    prepare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, file:line for each, and an earlier output stays as it was."""
    source, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    good = b'{"question": "How many?", "answer": "#### 3"}'
    bad = [
        b"not json",
        b"[]",
        b'{"answer": "#### 3"}',
        b'{"question": " ", "answer": "#### 3"}',
        b'{"question": "How many?", "answer": 3}',
        b'{"question": "How many?", "answer": "3"}',
        b'{"question": "Caf\xe9?", "answer": "#### 3"}',
        b'{"question": "\\ud800?", "answer": "#### 3"}',
        b"",
        b"[" * 100_000,
    ]
    source.write_bytes(b"\n".join([good, *bad, good]) + b"\n")
    out.write_text("earlier")
    assert prepare.main(["gsm8k", str(source), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    for line in range(2, 12):
        assert f"{source}:{line}: " in error
    assert f"{source}:1: " not in error
    assert f"{source}:12: " not in error
    assert "Traceback" not in error
    assert out.read_text() == "earlier"
    assert sorted(tmp_path.iterdir()) == [source, out]


def test_a_byte_order_mark_and_crlf_are_read(prepare: ModuleType, tmp_path: Path) -> None:
    """Files saved on Windows import, too."""
    source = tmp_path / "windows.jsonl"
    source.write_bytes(b'\xef\xbb\xbf{"question": "How many?", "answer": "So.\\n#### 3"}\r\n')
    assert prepare.gsm8k(source)[0]["expected_answer"] == 3


@pytest.mark.parametrize("kind", ["missing", "folder", "empty"])
def test_a_source_that_is_no_file_with_rows_is_refused(
    prepare: ModuleType, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 and the path."""
    source = tmp_path / "source.jsonl"
    if kind == "folder":
        source.mkdir()
    elif kind == "empty":
        source.write_text("")
    assert prepare.main(["gsm8k", str(source), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert f"error: {source}: " in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_the_input_is_never_overwritten(
    prepare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--out may not name the input, nor a folder."""
    source = write(tmp_path / "x.jsonl", "#### 3")
    before = source.read_bytes()
    assert prepare.main(["gsm8k", str(source), "--out", str(source)]) == 2
    assert prepare.main(["gsm8k", str(source), "--out", str(tmp_path)]) == 2
    assert source.read_bytes() == before
    assert "the input itself" in capsys.readouterr().err
