"""Making the data again gives the same bytes; making more of it never leaks into the holdout."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"
FILES = [
    "datasets/math_dev.jsonl",
    "datasets/math_test.jsonl",
    "datasets/math_train.jsonl",
    "datasets/math_wide_test.jsonl",
]


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_generate_writes_the_shipped_bytes_again(tmp_path: Path, hash_seed: str) -> None:
    """In another process, folder, locale and PYTHONHASHSEED."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    command = [sys.executable, str(DATA / "prepare.py"), "generate", "--out", "made"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    made = tmp_path / "made"
    names = sorted(p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file())
    assert names == ["CHECKSUMS.json", *FILES]
    for name in FILES:
        assert (made / name).read_bytes() == (DATA / name).read_bytes(), name


def test_more_training_problems_never_meet_the_holdout(prepare: ModuleType) -> None:
    """A pretraining script may ask for far more problems than are shipped."""
    train = prepare.problems("train", 8_000, seed=7)
    assert len({problem.question for problem in train}) == 8_000
    assert Counter(p.operation for p in train)["mulsub"] == 1_120

    def numbers(problems: list[Any]) -> set[Any]:
        sums = [p for p in problems if p.operation != "mul"]
        return {(p.operation, prepare.canonical(p.operation, p.operands)) for p in sums}

    test = prepare.problems("test", 1_000)
    assert not numbers(train) & numbers(test)
    assert not {p.question for p in train} & {p.question for p in test}


def test_another_seed_gives_other_problems(prepare: ModuleType) -> None:
    """The seed is an argument: the same one repeats, another one does not."""
    first = prepare.problems("dev", 50, seed=3)
    assert first == prepare.problems("dev", 50, seed=3)
    assert first != prepare.problems("dev", 50, seed=4)


def test_problems_refuses_what_it_cannot_make(prepare: ModuleType) -> None:
    """An unknown split and a negative count are the caller's mistakes."""
    with pytest.raises(prepare.UsageError, match="the splits are train, dev, test, wide_test"):
        prepare.problems("validation", 10)
    with pytest.raises(prepare.UsageError, match="at least 0"):
        prepare.problems("dev", -1)
    assert prepare.problems("dev", 0) == []


def test_a_split_that_runs_out_of_problems_says_so(
    prepare: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two texts to tell, a third different one is an error, not an endless loop."""
    only = prepare.Template("only", "What is {a} + {b}?")
    in_total = prepare.Template("total", "What is {a} + {b} in total?")
    sums = {"add": ((200, 200), (3, 3))}
    band = prepare.Band({"add": (only, in_total)}, {"add": 1.0}, (0, 999), sums)
    monkeypatch.setitem(prepare.SPLITS, "wide_test", prepare.Split(band, 3, "toy-{}"))
    assert len(prepare.problems("wide_test", 2)) == 2
    with pytest.raises(prepare.UsageError, match="'wide_test' has no 3 different problems; 2 were"):
        prepare.problems("wide_test", 3)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("sub", (150, 60)),  # an operand
        ("mulsub", (12, 9, 40)),  # the first step: 108
        ("mul", (5, 20)),  # the answer: 100
        ("sub", (5, 9)),  # the answer: -4
    ],
)
def test_a_number_outside_the_narrow_band_makes_a_problem_wide(
    prepare: ModuleType, name: str, operands: tuple[int, ...]
) -> None:
    """One is enough, wherever it stands; and with none, a problem is never wide."""
    assert prepare.split_of(name, operands, "?") == "wide_test"
    assert prepare.split_of("mul", (9, 11), "?") != "wide_test"  # 99


def test_quotas_sum_exactly(prepare: ModuleType) -> None:
    """Largest remainder: 10 rows over thirds are 4, 3, 3."""
    assert prepare.quotas({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, 10) == {"a": 4, "b": 3, "c": 3}
    for count in range(200):
        assert sum(prepare.quotas(prepare.NARROW.shares, count).values()) == count


def test_operands_that_may_trade_places_are_one_problem(prepare: ModuleType) -> None:
    """3 + 5 is 5 + 3, and 9 - 2 - 4 is 9 - 4 - 2; but 9 - 2 is not 2 - 9."""
    assert prepare.canonical("add", (5, 3)) == prepare.canonical("add", (3, 5))
    assert prepare.canonical("addsub", (5, 3, 4)) == prepare.canonical("addsub", (3, 5, 4))
    assert prepare.canonical("addsub", (5, 3, 4)) != prepare.canonical("addsub", (5, 4, 3))
    assert prepare.canonical("subsub", (9, 2, 4)) == prepare.canonical("subsub", (9, 4, 2))
    assert prepare.canonical("mulsub", (5, 3, 4)) == prepare.canonical("mulsub", (3, 5, 4))
    assert prepare.canonical("sub", (9, 2)) != prepare.canonical("sub", (2, 9))


def test_a_failed_write_leaves_the_old_file(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is written whole or not at all, and no temporary file stays behind."""
    path = tmp_path / "rows.jsonl"
    path.write_text("old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(prepare.os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        prepare.write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_folder_that_cannot_be_made_is_the_users_mistake(
    prepare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 and one line, no traceback."""
    (tmp_path / "file").write_text("")
    assert prepare.main(["generate", "--out", str(tmp_path / "file")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "--out" in error


@pytest.mark.parametrize("command", ["generate", "checksums", "gsm8k"])
def test_help_shows_an_example(
    prepare: ModuleType, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every subcommand's --help ends with a line to copy."""
    with pytest.raises(SystemExit) as end:
        prepare.main([command, "--help"])
    assert end.value.code == 0
    assert f"example: python data/prepare.py {command}" in capsys.readouterr().out
