"""Every command in a document runs, and prints what the document shows.

A command stands in a ```console block, in a line that begins with `$ `; the lines under it are its
output. Each document's commands run in order, in a fresh copy of the repository. `# exit 1` after a
command says that it exits so. `<!-- slow -->` before a block moves it to `make slow`, and
`make test` itself is exempt. A line `...` in an output stands for lines that are not shown. A
```python block after the words "Save this as `PATH`" is saved there first.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "data/*.md", "runs/*.md", "benchmarks/*.md", "levels/**/*.md")
    for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"(<!-- slow -->\n+)?```console\n(.*?)```", re.DOTALL)
SAVED = re.compile(r"Save this as `([^`]+)`:\n\n```python\n(.*?)```", re.DOTALL)
VARIES = re.compile(r"\b[0-9a-f]{12,64}\b|\b\d{8}T\d{6}Z-[0-9a-f]+\b|\b\d+\.\d+ s\b")
EXEMPT = {"make test", "make slow"}


class Command(NamedTuple):
    """One command of a document."""

    words: str
    exit_code: int
    output: list[str]
    slow: bool


def commands_in(document: str) -> list[Command]:
    """Find a document's commands, in order."""
    found: list[Command] = []
    for slow, body in BLOCK.findall((ROOT / document).read_text(encoding="utf-8")):
        for line in body.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                words, _, comment = line[2:].partition(" #")
                code = re.search(r"exit (\d+)", comment)
                words = re.sub(r"\s+", " ", words).strip()
                found.append(Command(words, int(code[1]) if code else 0, [], bool(slow)))
            elif found:
                found[-1].output.append(line)
    return [command for command in found if command.words not in EXEMPT]


def run_all(document: str, commands: list[Command], folder: Path) -> None:
    """Run a document's commands in a copy of the repository and compare what they print."""
    copy = folder / "course"
    shutil.copytree(ROOT, copy, ignore=_not_of_the_repository)
    for name, body in SAVED.findall((ROOT / document).read_text(encoding="utf-8")):
        (copy / name).write_text(body, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    for command in commands:
        done = subprocess.run(
            command.words, shell=True, cwd=copy, env=environment, capture_output=True, text=True
        )
        shown = f"$ {command.words}\n{done.stdout}{done.stderr}"
        assert done.returncode == command.exit_code, shown
        _assert_printed(command, done.stdout, shown)


def _not_of_the_repository(folder: str, names: list[str]) -> set[str]:
    """Environments, caches and your own runs: a clone has none of them."""
    ours = {"README.md", "reference"} if Path(folder) == ROOT / "runs" else set(names)
    made = {name for name in names if name in {".git", ".venv", ".poetry"} or "cache" in name}
    return made | (set(names) - ours)


def _assert_printed(command: Command, stdout: str, shown: str) -> None:
    """Every line the document shows is printed, in this order."""
    printed = iter([_plain(line) for line in stdout.splitlines()])
    for line in command.output:
        if line.strip() not in ("", "..."):
            assert _plain(line) in printed, f"not printed here: {line!r}\n{shown}"


def _plain(line: str) -> str:
    return re.sub(r"\s+", " ", VARIES.sub("#", line)).strip()


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if any(not c.slow for c in commands_in(d))]
)
def test_the_commands_of_a_document_run(document: str, tmp_path: Path) -> None:
    """A reader who copies a command gets what the document promises."""
    run_all(document, [command for command in commands_in(document) if not command.slow], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if any(c.slow for c in commands_in(d))])
def test_the_slow_commands_of_a_document_run(document: str, tmp_path: Path) -> None:
    """The same for commands that take long: installs and benchmarks."""
    run_all(document, [command for command in commands_in(document) if command.slow], tmp_path)


def test_there_are_commands_to_run() -> None:
    """This test would be empty if documents stopped using ```console blocks."""
    assert len(commands_in("README.md")) >= 5 and len(commands_in("data/README.md")) >= 3


def test_no_document_hides_a_command_in_another_kind_of_block() -> None:
    """Only ```console blocks are run, so no other block may show a command to type."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for language, body in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
            if language != "console":
                assert not re.search(r"^\$ ", body, re.MULTILINE), document
