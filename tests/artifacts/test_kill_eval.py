"""``kill -9`` at any moment leaves no torn run. The script that shows it, small and large."""

import subprocess
import sys
from pathlib import Path

import pytest

KILL_EVAL = Path(__file__).with_name("kill_eval.py")


def kill_eval(*flags: str) -> str:
    """Run the script; give what it printed."""
    done = subprocess.run(
        [sys.executable, str(KILL_EVAL), *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_six_kills_tear_nothing():
    """One at each of the planned moments: a quick look that the long proof still works."""
    out = kill_eval("--kills", "6", "--rows", "20000")
    assert out.startswith("6 kills of course.eval") and "torn, lost or in the way: 0" in out


@pytest.mark.slow
def test_two_hundred_kills_tear_nothing():
    """Acceptance: 200 kills of real runs, 0 torn, and no earlier run lost."""
    out = kill_eval("--kills", "200")
    assert out.startswith("200 kills of course.eval") and "torn, lost or in the way: 0" in out
