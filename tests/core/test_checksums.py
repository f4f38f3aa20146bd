"""One definition of a data file, and a comparison that notices any change of one."""

import hashlib
import json

import pytest

from course.core.checksums import compare_checksums, data_files, make_checksums
from course.core.errors import DataError


@pytest.fixture
def folder(tmp_path, write):
    """A data folder with two files and their checksums."""
    write(b"{}\n{}\n", "a.jsonl")
    write(b"\x00\n\x01", "sub/model.bin")
    write(json.dumps(make_checksums(tmp_path)), "CHECKSUMS.json")
    return tmp_path


def test_every_file_is_data_but_documents_scripts_and_what_is_hidden(folder, write):
    """In any folder, of any type: an extra file is noticed wherever it lies."""
    for name in ("mine.txt", "deep/er/x", "sub/CHECKSUMS.json", "not.md.csv"):
        write(b"", name)
    for name in ("README.md", "make.py", ".hidden", ".cache/x.jsonl", "__pycache__/make.pyc"):
        write(b"", name)
    assert data_files(folder) == [
        "a.jsonl", "deep/er/x", "mine.txt", "not.md.csv", "sub/CHECKSUMS.json", "sub/model.bin",
    ]  # fmt: skip


def test_a_hidden_folder_above_the_data_hides_nothing(tmp_path, write):
    """Only names inside the data folder count: a checkout may lie in ~/.work."""
    write(b"", ".work/__pycache__/a.jsonl")
    assert data_files(tmp_path / ".work" / "__pycache__") == ["a.jsonl"]


def test_a_file_is_described_by_bytes_rows_and_sha256(folder):
    """Rows are lines, the last one with or without its newline; null for what is not JSONL."""
    (folder / "a.jsonl").write_bytes(b"{}\n{}")
    assert make_checksums(folder) == {
        "schema_version": 1,
        "files": {
            "a.jsonl": {"bytes": 5, "rows": 2, "sha256": hashlib.sha256(b"{}\n{}").hexdigest()},
            "sub/model.bin": {
                "bytes": 3,
                "rows": None,
                "sha256": hashlib.sha256(b"\x00\n\x01").hexdigest(),
            },
        },
    }


def test_a_folder_that_is_as_listed_has_no_differences(folder):
    """Two files, both as they were."""
    assert compare_checksums(folder) == (2, [])


def test_changed_missing_and_unlisted_files_are_all_named(folder, write):
    """One of each, in one go; a changed file with what it is and what it was."""
    write(b"{}\n[]\n", "a.jsonl")
    (folder / "sub" / "model.bin").unlink()
    write(b"", "sub/c.jsonl")
    listed, (changed, *others) = compare_checksums(folder)
    assert listed == 2
    assert changed.startswith("a.jsonl: changed: {'bytes': 6, 'rows': 2, 'sha256': '")
    assert others == ["sub/c.jsonl: not listed", "sub/model.bin: missing"]


@pytest.mark.parametrize("key", ["bytes", "rows", "sha256"])
def test_a_wrong_number_in_the_list_is_a_difference(folder, key):
    """The list is a statement about the file: all of it is checked, not the hash alone."""
    path = folder / "CHECKSUMS.json"
    listed = json.loads(path.read_text())
    listed["files"]["a.jsonl"][key] = "7"
    path.write_text(json.dumps(listed))
    ((text),) = compare_checksums(folder).differences
    assert text.startswith("a.jsonl: changed: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b'{"schema_version":1}', b'{"files":[["a", "b"]]}', b"[" * 100_000],
)
def test_a_list_that_cannot_be_read_says_how_to_write_one(folder, content):
    """Never a traceback."""
    (folder / "CHECKSUMS.json").write_bytes(content)
    with pytest.raises(DataError, match=r"not a readable list.*python data/prepare\.py checksums"):
        compare_checksums(folder)
