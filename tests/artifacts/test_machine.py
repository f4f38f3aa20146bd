"""What the machine can do to a run: a full disk, a folder that may not be written, a stop."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from course.artifacts.run_folder import RunFolder
from course.artifacts.seal import open_run, seal_problems
from course.core.paths import ROOT

HERE = Path(__file__).parent
WriteRun = Callable[..., Path]
Contents = Callable[[Path], dict[str, bytes]]


# ---- stopped at any step -------------------------------------------------------------------


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ``crash_points.py`` found: one row per step before which a writer was stopped."""
    command = [sys.executable, str(HERE / "crash_points.py"), str(tmp_path_factory.mktemp("stops"))]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_every_step_of_a_writer_was_visited(stops: list[dict[str, Any]]):
    """Before and after the seal, with a swap and with two renames, at 10 steps or more each."""
    per_kind = Counter(row["case"].partition(" step=")[0] for row in stops)
    assert len(per_kind) == 8 and min(per_kind.values()) >= 10
    assert {row["left"] for row in stops} == {"nothing", "old", "old, set aside", "new"}


def test_a_stop_at_any_step_leaves_a_whole_run_or_none(stops: list[dict[str, Any]]):
    """With an earlier run: that one or the new one. Without: the new one or nothing."""
    allowed = {True: {"old", "old, set aside", "new"}, False: {"nothing", "new"}}
    assert [row for row in stops if row["left"] not in allowed[row["earlier"]]] == []


def test_what_is_left_beside_a_run_never_looks_finished_by_halves(stops: list[dict[str, Any]]):
    """A folder being removed loses its manifest first: renamed by hand, it would deceive nobody."""
    assert [row for row in stops if row["half"]] == []


def test_only_a_kill_can_leave_a_run_set_aside(stops: list[dict[str, Any]]):
    """A writer that can still act, after Ctrl-C or an error, puts the earlier run back itself."""
    assert {row["kill"] for row in stops if row["left"] == "old, set aside"} == {True}


def test_after_a_stop_the_next_command_keeps_what_is_there(stops: list[dict[str, Any]]):
    """A run that survived is refused without --overwrite, and set in its place again."""
    after = {"nothing": "next", "old": "old", "old, set aside": "old", "new": "new"}
    wrong = [
        row
        for row in stops
        if row["after"] != after[row["left"]] or row["refused"] == (row["left"] == "nothing")
    ]
    assert wrong == []


def test_after_a_stop_a_new_run_leaves_nothing_else(stops: list[dict[str, Any]]):
    """Whatever a stopped writer left beside the run is cleaned away by the next one."""
    assert [row for row in stops if not row["clean"]] == []


# ---- a full disk ---------------------------------------------------------------------------


@cache
def private_mounts() -> list[str] | None:
    """The command that gives a process mounts of its own, or None where there is none."""
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        probe = [*unshare, "mount", "-t", "tmpfs", "none", "/mnt"]
        try:
            if subprocess.run(probe, capture_output=True).returncode == 0:
                return unshare
        except OSError:
            return None
    return None


needs_mounts = pytest.mark.skipif(
    private_mounts() is None, reason="no private mounts here; the file size limit stands in"
)

FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from crash_points import write_run
from course.artifacts.manifest import MANIFEST
from course.artifacts.seal import seal_problems
from course.core.errors import MachineError

disk = Path(sys.argv[2])
LIMITS = [f"size={4 * n}k" for n in range(12, 40)] + [f"nr_inodes={n}" for n in range(6, 14)]
for limit in LIMITS:
    options = f"size=200k,nr_inodes=100,{limit}" if "nr" in limit else f"nr_inodes=100,{limit}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
    run = disk / "run"
    write_run(run, b"old" * 10_000, overwrite=False)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    try:
        write_run(run, b"new" * 20_000, overwrite=True)
        code = 0
        assert (run / "results.jsonl").read_bytes() == b"new" * 20_000, limit
    except MachineError as error:
        code = error.exit_code
        assert "no room" in str(error), error
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before, limit
    assert seal_problems(run) == [], limit
    assert os.listdir(disk) == ["run"], (limit, os.listdir(disk))
    print(code)
    subprocess.run(["umount", disk], check=True)
"""


@needs_mounts
def test_a_full_disk_never_costs_the_earlier_run(tmp_path: Path):
    """Disks of 36 sizes, so that each file in turn finds no room: exit 3, nothing left, old kept.

    The small ones lack bytes, or names, for the results, the summary or the manifest; on the large
    ones the new run fits.
    """
    command = [sys.executable, "-c", FULL_DISK, str(HERE), str(tmp_path)]
    done = subprocess.run(
        [*(private_mounts() or []), *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == ""  # no late complaint about bytes that could not be flushed
    codes = done.stdout.split()
    assert len(codes) == 36 and set(codes) == {"0", "3"}


FULL_DISK_TWICE = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from stop_and_resume import contents, write_run
from course.core.errors import MachineError

disk, plan = Path(sys.argv[2]), {"steps": 6, "rows": 100, "size": 8000}
write_run(disk / "whole", **plan)
whole = contents(disk / "whole")
LIMITS = [f"size={4 * n}k" for n in range(3, 45, 2)] + [f"nr_inodes={n}" for n in range(4, 18)]
for limit in LIMITS:
    subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "none", disk], check=True)
    run, reached = disk / "run", []
    try:
        write_run(run, **plan, tell=reached.append)
        print("finished")
    except MachineError as error:
        kept = (disk / "run.partial").exists()
        assert kept == any(reached), limit
        assert kept == ("run.partial keeps what was done" in str(error)), error
        assert kept != ("Nothing was left behind" in str(error)), error
        assert sorted(os.listdir(disk)) == ["run.partial", "run.partial.resume"] * kept
        subprocess.run(["mount", "-o", "remount,size=1m,nr_inodes=100", disk], check=True)
        again = []
        write_run(run, **plan, resume=True, tell=again.append)
        assert again[0] == max([0, *reached]), limit
        print("continued" if kept else "begun anew")
    assert contents(run) == whole and os.listdir(disk) == ["run"], limit
    subprocess.run(["umount", disk], check=True)
"""


@needs_mounts
def test_a_run_that_filled_the_disk_goes_on_when_there_is_room(tmp_path: Path):
    """35 disks, full at another step each: no commit is lost, and the words say what is kept."""
    command = [sys.executable, "-c", FULL_DISK_TWICE, str(HERE), str(tmp_path)]
    done = subprocess.run(
        [*(private_mounts() or []), *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == ""
    ends = Counter(done.stdout.split("\n"))
    assert ends["continued"] >= 10 and ends["begun anew"] >= 3 and ends["finished"] >= 3


def write_inputs(folder: Path, rows: int) -> list[str]:
    """Write a dataset and its completions; say them as flags."""
    dataset, completions = folder / "d.jsonl", folder / "c.jsonl"
    with dataset.open("w") as examples, completions.open("w") as texts:
        for n in range(rows):
            print(json.dumps({"id": f"a{n}", "prompt": "?", "expected_answer": n}), file=examples)
            print(json.dumps({"id": f"a{n}", "completion": f"Final: {n}"}), file=texts)
    return [f"--dataset={dataset}", f"--completions={completions}"]


SMALL_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from course.eval import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("limit", [100, 1000, 20_000])
def test_no_room_for_a_file_ends_eval_with_3(
    tmp_path: Path, write_run: WriteRun, contents: Contents, limit: int
):
    """A quota on file size stands for a full disk where nothing may be mounted.

    100 and 1,000 bytes are too few for results.jsonl when it is closed, 20,000 while it grows.
    """
    flags = write_inputs(tmp_path, 300)
    run = write_run(tmp_path / "runs" / "run")
    before = contents(tmp_path)
    for outdir, more in (("runs/run", ["--overwrite"]), ("runs/other", [])):
        arguments = [str(limit), *flags, f"--outdir={tmp_path / outdir}", *more]
        command = [sys.executable, "-B", "-c", SMALL_FILES, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 3 and done.stdout == ""
        assert done.stderr.startswith("error: There is no room to write")
        assert len(done.stderr.splitlines()) == 1
    assert contents(tmp_path) == before and os.listdir(run.parent) == ["run"]


# ---- folders that may not be written, or read ----------------------------------------------

AS_NOBODY = """
import os, sys
from pathlib import Path
from course.core import console
import course.eval, course.inspect_run
folder = Path(sys.argv[1])
flags = [f"--dataset={folder}/d.jsonl", f"--completions={folder}/c.jsonl"]
# What root may read and nobody else: loaded before the privileges go.
assert course.eval.main([*flags, f"--outdir={folder}/first"]) == 0
assert course.inspect_run.main([f"--run={folder}/first"]) == 0
(folder / "closed").mkdir()
(folder / "first").rename(folder / "closed" / "run")
for name in ("closed/run", "closed"):
    (folder / name).chmod(0o555)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print("---", flush=True)
sys.stderr = sys.stdout
for outdir in ("closed/new", "closed/run", "closed/a/b"):
    print(course.eval.main([*flags, f"--outdir={folder}/{outdir}", "--overwrite"]))
print(sorted(os.listdir(folder / "closed")))
print(course.inspect_run.main([f"--run={folder}/closed/run"]))
print("---")
(folder / "dark").mkdir(0o000)
(folder / "holds").mkdir()
(folder / "holds" / "dark").mkdir(0o000)
for run in ("dark", "dark/run", "holds"):
    print(course.inspect_run.main([f"--run={folder}/{run}"]))
"""


@pytest.fixture(scope="module")
def as_an_ordinary_user() -> Iterator[list[list[str]]]:
    """The lines that ``AS_NOBODY`` printed after each ``---``: what root would not be refused."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to other users
        folder = Path(name)
        folder.chmod(0o777)
        write_inputs(folder, 3)
        command = [sys.executable, "-c", AS_NOBODY, name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        for base, _, _ in os.walk(folder, topdown=True):
            os.chmod(base, 0o755)  # or it could not be cleared away
        assert done.returncode == 0, done.stderr + done.stdout
        assert seal_problems(folder / "closed" / "run") == []
        yield [part.splitlines() for part in done.stdout.split("---\n")[1:]]


def test_a_folder_that_may_not_be_written_is_said_in_words(as_an_ordinary_user: list[list[str]]):
    """Exit 2 and one line, before any work; the run in there still holds."""
    lines = as_an_ordinary_user[0]
    for message, code in (lines[0:2], lines[2:4], lines[4:6]):
        assert "cannot be written: Permission denied" in message and code == "2"
    assert lines[6] == "['run']" and lines[-1] == "0"


def test_a_folder_that_may_not_be_read_is_said_in_words(as_an_ordinary_user: list[list[str]]):
    """Asked to open what it may not list, a command says so and shows no traceback."""
    lines = as_an_ordinary_user[1]
    for message, code in (lines[0:2], lines[2:4], lines[4:6]):
        assert "Permission denied" in message and code == "2"


READ_ONLY = """
import subprocess, sys
disk, flags = sys.argv[1], sys.argv[2:]
subprocess.run(["mount", "--bind", disk, disk], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
from course.eval import main
sys.exit(main(flags))
"""


@needs_mounts
def test_a_read_only_disk_is_said_in_words(tmp_path: Path, write_run: WriteRun, contents: Contents):
    """As a mounted archive is, for root too: exit 2, nothing changed."""
    flags = write_inputs(tmp_path, 3)
    write_run(tmp_path / "disk" / "run")
    before = contents(tmp_path)
    outdir = [f"--outdir={tmp_path / 'disk' / 'run'}", "--overwrite"]
    command = [sys.executable, "-c", READ_ONLY, str(tmp_path / "disk"), *flags, *outdir]
    done = subprocess.run(
        [*(private_mounts() or []), *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "cannot be written: Read-only file system" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert contents(tmp_path) == before


def test_remains_that_cannot_be_removed_do_not_undo_the_new_run(
    tmp_path: Path, write_run: WriteRun, build_manifest: Any, monkeypatch: pytest.MonkeyPatch
):
    """On a network disk a file that someone has open cannot go: the new run stands all the same."""
    write_run(tmp_path / "run")
    rmdir = os.rmdir

    def busy(path: Any, **where: Any) -> None:
        if str(path).endswith("run.partial"):
            raise OSError(16, "Device or resource busy")
        rmdir(path, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", busy)
        write_run(tmp_path / "run", "new\n", overwrite=True)
    run = open_run(tmp_path / "run")
    assert (run.folder / "results.jsonl").read_text() == "new\n"
    with RunFolder(tmp_path / "run", overwrite=True) as again:  # and the remains go the next time
        again.publish(build_manifest)
    assert os.listdir(tmp_path) == ["run"]
