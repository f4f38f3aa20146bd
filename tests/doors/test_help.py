"""Claims about --help: it answers at once, explains every flag, and shows a command to copy."""

import re
import subprocess
import sys

import pytest

from course.core import console
from course.core.paths import ROOT

DOORS = ["eval", "compare", "inspect_run", "pretrain", "sample", "validate"]


@pytest.mark.parametrize("name", DOORS)
def test_help_shows_an_example_that_can_be_copied(door, name):
    """Exit 0, on stdout."""
    done = door(name, "--help")
    assert done.code == 0 and done.err == ""
    assert re.search(rf"^example:\n  python -m course\.{name}\b", done.out, re.M)


@pytest.mark.parametrize("name", DOORS)
def test_every_flag_has_a_help_text(door, name, monkeypatch):
    """A flag without a word about it is a riddle."""
    parsers = []
    make = console.parser
    monkeypatch.setattr(console, "parser", lambda *a: parsers.append(make(*a)) or parsers[-1])
    door(name, "--help")
    (parser,) = parsers
    assert len(parser._actions) > 3
    assert all(action.help and len(action.help) > 10 for action in parser._actions)


@pytest.mark.parametrize("name", DOORS)
def test_help_imports_nothing_heavy(name):
    """numpy, scipy, rich and jsonschema load where they are used, not before a help text."""
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        f"try: runpy.run_module('course.{name}', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'rich', 'jsonschema', 'matplotlib', 'pandas', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
