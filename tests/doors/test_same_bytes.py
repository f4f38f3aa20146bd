"""Claims about re-runs: the same inputs give the same bytes, wherever and whenever they are run."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from course.core.paths import ROOT

FILES = ("results.jsonl", "summary.json", "summary.md")
SCORER = """
def score(example, completion):
    (code,) = {completion[:6] or "nothing"}
    words = list({"zebra", "ant", code})
    return {"reward": 1.0, "details": {"code": code, "words": sorted(words)}}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """300 problems, two samples each, in many scripts."""
    texts = ["Final: 1", "Füße Final: 2", "Ω\u2028", "", "İi", "Final: 77"]
    examples = [{"id": f"é{k}", "prompt": f"{k}ß?", "expected_answer": k} for k in range(300)]
    rows = [
        {"id": e["id"], "sample_index": s, "completion": texts[(k + s) % 6], "sum_logprob": -k / 7}
        for s in range(2)
        for k, e in enumerate(examples)
    ]
    for name, content in (("d", examples), ("c", rows)):
        lines = (json.dumps(row, ensure_ascii=False) for row in content)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "d.jsonl", tmp_path / "c.jsonl"


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "2", "TZ": "America/New_York", "LANG": "tr_TR.UTF-8", "LC_ALL": ""},
        {"PYTHONHASHSEED": "3", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_seed_locale_zone_and_folder_do_not_change_a_byte(process, files, tmp_path, env):
    """Six outcomes tie. Hash seeds move sets, locales letters, zones dates; none moves a result."""
    (tmp_path / "scorer.py").write_text(SCORER, encoding="utf-8")
    argv = ("--dataset", files[0], "--completions", files[1])
    plug = ("--scorer", f"{tmp_path / 'scorer.py'}:score")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert process("eval", *argv, *plug, "--outdir", tmp_path / "one").code == 0
    done = process("eval", *argv, *plug, "--outdir", tmp_path / "two", cwd=elsewhere, env=env)
    assert done.code == 0, done.err
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_shuffled_completions_do_not_change_a_byte(process, files, tmp_path):
    """The same rows in another order, under another hash seed."""
    lines = files[1].read_text(encoding="utf-8").split("\n")
    random.Random(7).shuffle(lines)
    (tmp_path / "shuffled").mkdir()
    shuffled = tmp_path / "shuffled" / "c.jsonl"
    shuffled.write_text("\n".join(lines), encoding="utf-8")
    for name, path, seed in (("one", files[1], "1"), ("two", shuffled, "2")):
        argv = ("--dataset", files[0], "--completions", path, "--outdir", tmp_path / name)
        assert process("eval", *argv, env={"PYTHONHASHSEED": seed}).code == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_relative_paths_are_read_from_the_working_directory(process, files, tmp_path):
    """As every command line does; the run lands there too."""
    argv = ("--dataset", "d.jsonl", "--completions", "c.jsonl", "--outdir", "run")
    done = process("eval", *argv)
    assert (done.code, done.last) == (0, "run")
    assert (tmp_path / "run" / "manifest.json").is_file()


def test_a_closed_pipe_is_no_error(process, files, tmp_path):
    """``| head -1`` reads what it wants; no traceback follows."""
    argv = ("--dataset", "d.jsonl", "--completions", "c.jsonl", "--outdir", "run")
    assert process("eval", *argv).code == 0
    done = subprocess.run(
        f"{sys.executable} -m course.inspect_run --run {tmp_path / 'run'} --show 100 | head -1",
        shell=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.startswith("eval run ") and done.stderr == ""
