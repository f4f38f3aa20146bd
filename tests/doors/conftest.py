"""What the claims about doors share: toy files, and a way to go through a door and look."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from course.core.paths import ROOT


class Outcome(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of stdout."""
        return self.out.splitlines()[-1]

    @property
    def json(self) -> Any:
        """The whole of stdout, read as JSON."""
        return json.loads(self.out)


@pytest.fixture
def door(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Go through a door in this process: ``door("eval", "--dataset", path, ...)``."""

    def enter(name: str, *argv: object) -> Outcome:
        main = importlib.import_module(f"course.{name}").main
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return Outcome(code, *capsys.readouterr())

    return enter


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Outcome]:
    """Go through a door in a process of its own, with its own environment and folder."""

    def enter(
        name: str, *argv: object, cwd: Path = tmp_path, env: dict[str, str] | None = None
    ) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", f"course.{name}", *map(str, argv)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            capture_output=True,
            timeout=120,
            encoding="utf-8",
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return enter


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (dicts, or lines as bytes) to a file of the test's folder."""

    def write(name: str, rows: Iterable[Any]) -> Path:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


@pytest.fixture
def dataset(jsonl: Callable[..., Path]) -> Path:
    """Twenty problems whose answers are 0 to 19."""
    rows = [{"id": f"e{k:02}", "prompt": f"{k} + 0 = ?", "expected_answer": k} for k in range(20)]
    return jsonl("dataset.jsonl", rows)


@pytest.fixture
def answers(jsonl: Callable[..., Path]) -> Callable[..., Path]:
    """Write completions of which the first so many are right."""

    def write(right: int, name: str = "completions.jsonl", **more: object) -> Path:
        texts = [f"Final: {k if k < right else 77}" for k in range(20)]
        rows = [{"id": f"e{k:02}", "completion": t, **more} for k, t in enumerate(texts)]
        return jsonl(name, rows)

    return write


@pytest.fixture
def run(door: Callable[..., Outcome], dataset: Path, answers: Callable[..., Path], tmp_path: Path):
    """Make a run with so many of 20 right; returns its folder."""

    def make(name: str, right: int, *flags: object) -> Path:
        completions = answers(right, f"{name}.jsonl")
        files = ("--dataset", dataset, "--completions", completions)
        assert door("eval", *files, "--outdir", tmp_path / name, *flags).code == 0
        return tmp_path / name

    return make
