"""A run that commits survives a stop at any moment, and ends with the bytes of an unbroken one."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("stop_and_resume.py")


def stop_and_resume(*arguments: object) -> list[dict[str, Any]]:
    """Run the script; give the rows that it found."""
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


# ---- stopped at any step -------------------------------------------------------------------


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """One row per step before which a resumed run was stopped once more."""
    return stop_and_resume("steps", tmp_path_factory.mktemp("stops"))


def test_every_step_of_a_resumed_run_was_visited(stops: list[dict[str, Any]]):
    """By a kill and by Ctrl-C; with an earlier run to replace, without, and to begin anew."""
    per_kind = Counter(row["case"].partition(" step=")[0] for row in stops)
    assert len(per_kind) == 6 and min(per_kind.values()) >= 50
    assert {row["left"] for row in stops} == {"nothing", "old", "old, set aside", "new"}


def test_the_final_folder_never_holds_an_unfinished_run(stops: list[dict[str, Any]]):
    """With an earlier run: that one or the finished one. Without: the finished one or nothing."""
    allowed = {True: {"old", "old, set aside", "new"}, False: {"nothing", "new"}}
    assert [row for row in stops if row["left"] not in allowed[row["earlier"]]] == []


def test_what_was_committed_is_never_lost(stops: list[dict[str, Any]]):
    """Not one step that a commit had returned from is done again, at whatever step it stopped."""
    assert [row for row in stops if row["lost"]] == []


def test_a_resumed_run_ends_with_the_bytes_of_an_unbroken_one(stops: list[dict[str, Any]]):
    """Stopped twice: rows, checkpoints, summary and manifest are all the same."""
    assert [row for row in stops if not row["same"]] == []


def test_a_resumed_run_leaves_nothing_beside_it(stops: list[dict[str, Any]]):
    """Neither what it carried nor its journal."""
    assert [row for row in stops if row["beside"]] == []


def test_only_a_finished_run_is_said_to_be_finished(stops: list[dict[str, Any]]):
    """`--resume` once more is refused exactly where nothing is left to do."""
    alone = [row for row in stops if not row["earlier"]]
    assert [row for row in alone if row["again"] == (row["left"] == "new")] == []


# ---- killed at any moment ------------------------------------------------------------------


def kill_and_check(folder: Path, kills: int) -> None:
    """Kill runs so many times; each is finished in the end, and none was ever torn."""
    rows = stop_and_resume("kills", folder, kills)
    assert len(rows) >= kills
    assert {row["left"] for row in rows} <= {"nothing", "new"}
    assert [row for row in rows if row["lost"]] == []
    last = {row["run"]: row for row in rows}
    assert {(row["left"], row["reached"]) for row in last.values()} == {("new", 12)}
    assert max(Counter(row["run"] for row in rows).values()) > 3  # one was killed thrice at least


def test_twenty_kills_of_resumed_runs_tear_nothing(tmp_path: Path):
    """At moments that fall anywhere, within a write too."""
    kill_and_check(tmp_path, 20)


@pytest.mark.slow
def test_two_thousand_kills_of_resumed_runs_tear_nothing(tmp_path: Path):
    """The same, until the rare moments have come too."""
    kill_and_check(tmp_path, 2000)
