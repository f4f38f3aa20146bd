"""A command that lacks a library says which install brings it."""

import subprocess
import sys
import tomllib
from pathlib import Path

from course.core.console import run_door
from course.core.extras import CORE, EXTRAS, how_to_install

ROOT = Path(__file__).parents[2]


def test_the_lists_are_those_of_the_project_file() -> None:
    """A library that moves to another extra takes its message along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {requirement.partition(">")[0].strip() for requirement in requirements}

    assert names(project["dependencies"]) == set(CORE)
    extras = project["optional-dependencies"]
    assert {extra: names(libraries) for extra, libraries in extras.items()} == {
        extra: set(libraries) for extra, libraries in EXTRAS.items()
    }


def test_a_missing_extra_names_the_command_that_installs_it(capsys) -> None:  # type: ignore[no-untyped-def]
    """Exit 3, and both ways to install."""

    def body(argv: object) -> int:
        raise ModuleNotFoundError("No module named 'torch'", name="torch.nn")

    assert run_door(body, []) == 3
    shown = capsys.readouterr().err
    assert "`make learn`" in shown and "`poetry install --extras learn`" in shown


def test_a_module_that_no_install_brings_is_a_bug_and_stays_one() -> None:
    """A typo of ours must not be explained away."""
    assert how_to_install("course.core.nothing") is None


def test_a_python_without_the_course_s_libraries_is_told_what_to_do() -> None:
    """`python -m course.eval` before any install: no traceback, exit 3."""
    command = [sys.executable, "-S", "-m", "course.eval", "--dataset", "d", "--completions", "c"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "make demo" in done.stderr and "Traceback" not in done.stderr
