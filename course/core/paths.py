"""Where the repository is, and how a path is written down.

Default paths resolve from the repository root, never from the working directory.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
RUNS = ROOT / "runs"


def display(path: Path) -> str:
    """Write a path for a person to use again: relative to where they are, when it lies there."""
    absolute = Path(os.path.abspath(path))
    try:
        here = Path.cwd()
    except OSError:  # the working directory was deleted
        return _text(absolute)
    return _text(absolute.relative_to(here) if absolute.is_relative_to(here) else path)


def recorded(path: Path) -> str:
    """Write a path for an artifact: relative to the repository when inside it, else absolute."""
    absolute = Path(os.path.abspath(path))
    return _text(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


def _text(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode(errors="replace")  # a name need not be Unicode
