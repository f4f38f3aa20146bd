"""CHECKSUMS.json describes every data file, and its check notices any change."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from course import validate

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def toy(tmp_path: Path, prepare: ModuleType) -> Path:
    """A data folder with one file in each of two folders, checksummed."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    (tmp_path / "datasets" / "a.jsonl").write_bytes(b'{"id": 1}\n{"id": 2}\n')
    (tmp_path / "models" / "tiny" / "model.safetensors").write_bytes(b"\x00\n\x01")
    (tmp_path / "README.md").write_text("not data")
    assert prepare.main(["checksums", "--data", str(tmp_path)]) == 0
    return tmp_path


def test_the_shipped_data_matches_its_checksums(prepare: ModuleType) -> None:
    """What you cloned is what we measured."""
    assert prepare.check_checksums(DATA) >= 8


def test_checksums_hold_bytes_rows_and_sha256_by_sorted_path(toy: Path) -> None:
    """A document is not data; only JSONL files have rows."""
    checksums = json.loads((toy / "CHECKSUMS.json").read_text())
    rows = b'{"id": 1}\n{"id": 2}\n'
    assert checksums == {
        "schema_version": 1,
        "files": {
            "datasets/a.jsonl": {
                "bytes": 20,
                "rows": 2,
                "sha256": hashlib.sha256(rows).hexdigest(),
            },
            "models/tiny/model.safetensors": {
                "bytes": 3,
                "rows": None,
                "sha256": hashlib.sha256(b"\x00\n\x01").hexdigest(),
            },
        },
    }
    assert list(checksums["files"]) == sorted(checksums["files"])


def test_check_says_so_when_all_is_well(
    toy: Path, prepare: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0, a count, and nothing is written."""
    before = (toy / "CHECKSUMS.json").stat().st_mtime_ns
    assert prepare.main(["checksums", "--check", "--data", str(toy)]) == 0
    assert "2 files match" in capsys.readouterr().out
    assert (toy / "CHECKSUMS.json").stat().st_mtime_ns == before


def test_check_reports_changed_missing_and_new_files_at_once(
    toy: Path, prepare: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """One changed byte is enough; exit 1, because a check said no."""
    (toy / "datasets" / "a.jsonl").write_bytes(b'{"id": 1}\n{"id": 3}\n')
    (toy / "models" / "tiny" / "model.safetensors").unlink()
    (toy / "datasets" / "b.jsonl").write_bytes(b"{}\n")
    assert prepare.main(["checksums", "--check", "--data", str(toy)]) == 1
    error = capsys.readouterr().err
    assert "datasets/a.jsonl: changed" in error
    assert "models/tiny/model.safetensors: missing" in error
    assert "datasets/b.jsonl: not listed" in error


def extra(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}\n")

    return write


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (extra("mine.jsonl"), "mine.jsonl: not listed"),
        (extra("golden/notes.txt"), "golden/notes.txt: not listed"),
        (extra("rollouts/extra.bin"), "rollouts/extra.bin: not listed"),
        (extra("datasets/a.jsonl"), "datasets/a.jsonl: changed"),
        (extra("models/tiny/model.safetensors"), "models/tiny/model.safetensors: changed"),
        (lambda folder: (folder / "datasets" / "a.jsonl").unlink(), "datasets/a.jsonl: missing"),
    ],
)
def test_both_commands_find_the_same_difference(
    toy: Path,
    prepare: ModuleType,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    complaint: str,
) -> None:
    """One definition of a data file: exit 1 from the script, 2 from the door, the same words."""
    spoil(toy)
    assert prepare.main(["checksums", "--check", "--data", str(toy)]) == 1
    script = capsys.readouterr().err
    assert validate.main([str(toy)]) == 2
    door = capsys.readouterr().out
    assert complaint in script and complaint in door


@pytest.mark.parametrize("content", [None, "", "[]", '{"schema_version": 1}', '{"files": 3}'])
def test_a_checksum_file_that_cannot_be_read_is_bad_input(
    toy: Path, prepare: ModuleType, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    """Exit 2, and the command that writes a new one."""
    path = toy / "CHECKSUMS.json"
    path.unlink() if content is None else path.write_text(content)
    assert prepare.main(["checksums", "--check", "--data", str(toy)]) == 2
    assert "python data/prepare.py checksums" in capsys.readouterr().err
