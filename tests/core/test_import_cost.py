"""What a command does not need, it does not load: the first screen comes at once."""

import subprocess
import sys

import pytest

from course.core.paths import ROOT

HEAVY = {"numpy", "scipy", "rich", "jsonschema", "jinja2", "matplotlib", "pandas", "torch"}
HEAVY |= {"transformers", "hypothesis", "msgspec"}


def loaded_by(code: str) -> set[str]:
    """Run code in a fresh interpreter and return the heavy packages it loaded."""
    report = f"import sys\n{code}\nprint('LOADED', *sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def loaded_by_command(*words: str) -> set[str]:
    return loaded_by(
        "import runpy\n"
        f"sys.argv = {['x', *words[1:]]!r}\n"
        "try:\n"
        f"    runpy.run_module({words[0]!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
    )


def test_importing_the_course_loads_nothing_heavy():
    """``import course`` costs what an empty file costs."""
    assert loaded_by("import course") == set()


@pytest.mark.parametrize("door", ["course.eval", "course.inspect_run"])
def test_help_loads_nothing_heavy(door):
    """Flags are text; msgspec alone would cost as much as Python's own start."""
    assert loaded_by_command(door, "--help") == set()


@pytest.mark.parametrize("door", ["course.validate", "course.compare"])
def test_a_help_that_lists_choices_loads_the_types_and_no_more(door):
    """Its --kind lists the kinds of files, which come from the types."""
    assert loaded_by_command(door, "--help") <= {"msgspec"}


@pytest.mark.parametrize("scorer", ["final_answer", "single_line", "anywhere"])
def test_a_scorer_is_light(scorer):
    """Scoring a text needs no numbers and no schemas."""
    code = f"import course.scoring.{scorer} as s; s.score({{'expected_answer': 8}}, 'Final: 8')"
    assert loaded_by(code) <= {"msgspec"}
