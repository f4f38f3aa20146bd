"""``python -m course`` is what many type first."""

import subprocess
import sys
from pathlib import Path

from course.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]


def test_it_lists_every_command() -> None:
    """A door that is not listed is a door that nobody finds."""
    doors = {path.stem for path in (ROOT / "course").glob("*.py")} - {"__init__", "__main__"}
    assert doors == set(COMMANDS)
    done = subprocess.run(
        [sys.executable, "-m", "course"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(f"python -m course.{name}" in done.stdout for name in doors)
