"""Where the repository is, and how a path is written down.

Default paths resolve from the repository root, never from the working directory. A path inside
the repository is written relative to it, so that artifacts name no machine and no user.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
RUNS = ROOT / "runs"


def display(path: Path) -> str:
    """Write a path as it stands in messages and manifests: relative to ROOT when inside it."""
    absolute = Path(os.path.abspath(path))
    if absolute.is_relative_to(ROOT):
        path = absolute.relative_to(ROOT)
    return os.fsencode(path.as_posix()).decode(errors="replace")  # a name need not be Unicode
