"""A run folder is there complete, or not there at all."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import course.artifacts.run_folder as run_folder
from course.artifacts.disk import take_lock
from course.artifacts.run_folder import RunFolder, next_free
from course.artifacts.seal import open_run, seal_problems
from course.core.errors import CourseError, MachineError, UsageError
from course.core.paths import ROOT

WriteRun = Callable[..., Path]
Contents = Callable[[Path], dict[str, bytes]]


class StoppedError(Exception):
    """What goes wrong in the middle of a run."""


def half_a_run(final: Path, error: type[BaseException], *, overwrite: bool = False) -> None:
    """Begin a run, and fail."""
    with RunFolder(final, overwrite=overwrite) as run:
        run.write("results.jsonl", b"x" * 100_000)
        raise error


@pytest.fixture(params=["exchange", "two renames"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a run by a swap, and as a system must that cannot swap."""
    if request.param == "two renames":
        monkeypatch.setattr(run_folder, "exchange", lambda one, other: False)


# ---- a new run -----------------------------------------------------------------------------


def test_a_run_is_published_whole_and_alone(tmp_path: Path, write_run: WriteRun):
    """The folder holds the outputs and the manifest; no staging folder and no lock stay behind."""
    run = write_run(tmp_path / "deep" / "run")
    names = sorted(path.name for path in run.iterdir())
    assert names == ["manifest.json", "results.jsonl", "summary.json"]
    assert os.listdir(run.parent) == ["run"]
    assert seal_problems(run) == []


def test_nothing_stands_under_the_final_name_before_publish(tmp_path: Path):
    """Until it is sealed, a run exists only as NAME.partial."""
    with RunFolder(tmp_path / "run") as run:
        run.write("results.jsonl", b"x\n")
        assert sorted(os.listdir(tmp_path)) == ["run.partial", "run.partial.lock"]


@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt, OSError])
def test_an_exception_leaves_nothing(tmp_path: Path, error: type[BaseException]):
    """No final folder, no .partial, no lock: as if the command had never run."""
    with pytest.raises((error, CourseError)):
        half_a_run(tmp_path / "run", error)
    assert os.listdir(tmp_path) == []


def test_leaving_without_publish_leaves_nothing(tmp_path: Path):
    """A run that was not sealed is not a run."""
    with RunFolder(tmp_path / "run") as run:
        run.write("results.jsonl", b"x\n")
    assert os.listdir(tmp_path) == []


def test_a_manifest_that_cannot_be_built_leaves_nothing(tmp_path: Path):
    """Whatever fails while sealing, nothing has been published yet."""

    def fails(_: object) -> None:
        raise StoppedError

    with RunFolder(tmp_path / "run") as run:
        run.write("results.jsonl", b"x\n")
        with pytest.raises(StoppedError):
            run.publish(fails)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_file_begun_anew_holds_only_what_came_after(
    tmp_path: Path, build_manifest: Callable[..., object]
):
    """Rows of the first, abandoned pass must not return at the end of a shorter second one."""
    with RunFolder(tmp_path / "run") as run:
        out = run.create("results.jsonl")
        out.write(b"a long first pass\n")
        out.restart()
        out.write(b"short\n")
        run.publish(build_manifest)  # type: ignore[arg-type]
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == b"short\n"
    assert seal_problems(tmp_path / "run") == []


# ---- the place is taken --------------------------------------------------------------------


def test_an_existing_run_is_refused_and_untouched(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """Without --overwrite a run stays what it is, byte for byte."""
    run = write_run(tmp_path / "run")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"already holds a run.*--overwrite"):
        write_run(run, "new\n")
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("both_ways")
def test_overwrite_replaces_the_run(tmp_path: Path, write_run: WriteRun):
    """The new run stands there alone: nothing of the old one is left, in it or beside it."""
    run = write_run(tmp_path / "run")
    write_run(run, "new\n", overwrite=True)
    assert (run / "results.jsonl").read_text() == "new\n"
    assert seal_problems(run) == []
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.usefixtures("both_ways")
def test_overwrite_keeps_the_old_run_when_the_new_one_fails(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """The old run goes when the new one has been sealed, not before."""
    run = write_run(tmp_path / "run")
    before = contents(tmp_path)
    with pytest.raises(StoppedError):
        half_a_run(run, StoppedError, overwrite=True)
    assert contents(tmp_path) == before


def test_the_old_run_returns_when_the_second_rename_fails(
    tmp_path: Path, write_run: WriteRun, contents: Contents, monkeypatch: pytest.MonkeyPatch
):
    """Where folders cannot be swapped, a failure between the two renames is undone."""
    run = write_run(tmp_path / "run")
    before = contents(tmp_path)
    rename = os.rename

    def no_room_for_the_new(source: Path, target: Path) -> None:
        if Path(source).name == "run.partial":
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(run_folder, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", no_room_for_the_new)
    with pytest.raises(MachineError, match="no earlier run was touched"):
        write_run(run, "new\n", overwrite=True)
    assert contents(tmp_path) == before


def test_a_folder_that_is_no_run_is_never_touched(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """--overwrite replaces runs. It must not cost anyone their thesis."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("...")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="not a run, so it is left alone"):
        write_run(tmp_path / "thesis", overwrite=True)
    assert contents(tmp_path) == before


def test_a_foreign_manifest_json_does_not_make_a_run(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """Web pages and browser extensions have a manifest.json too."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "manifest.json").write_text('{"name": "My page", "version": "1"}')
    (tmp_path / "page" / "index.html").write_text("<p>")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="not a run, so it is left alone"):
        write_run(tmp_path / "page", overwrite=True)
    assert contents(tmp_path) == before


def test_what_was_put_into_a_run_is_not_overwritten(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """Notes in a run folder, or another run in it, are not the old run's to lose."""
    run = write_run(tmp_path / "run")
    (run / "notes.md").write_text("what I learned")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"besides its run it holds notes\.md"):
        write_run(run, "new\n", overwrite=True)
    assert contents(tmp_path) == before
    (run / "notes.md").unlink()
    (run / ".DS_Store").write_text("litter")
    write_run(run, "new\n", overwrite=True)
    assert seal_problems(run) == []


def test_what_was_put_into_a_subfolder_of_a_run_is_not_overwritten(
    tmp_path: Path, build_manifest: Callable[..., object], contents: Contents
):
    """A run's own files there are replaced with it; notes among them are somebody's."""

    def write(data: bytes) -> None:
        with RunFolder(tmp_path / "run", overwrite=True) as run:
            run.write("checkpoints/1.bin", data)
            run.publish(build_manifest)  # type: ignore[arg-type]

    write(b"old")
    notes = tmp_path / "run" / "checkpoints" / "notes.md"
    notes.write_text("what I learned")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"besides its run it holds checkpoints/notes\.md"):
        write(b"new")
    assert contents(tmp_path) == before
    notes.rename(notes.with_name("Thumbs.db"))
    write(b"new")
    assert contents(tmp_path / "run")["checkpoints/1.bin"] == b"new"


def test_a_run_inside_a_run_is_refused(tmp_path: Path, write_run: WriteRun, contents: Contents):
    """A file more would break the outer run's seal."""
    run = write_run(tmp_path / "run")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="lies inside the run"):
        write_run(run / "second" / "third")
    assert contents(tmp_path) == before and seal_problems(run) == []
    assert sorted(os.listdir(run)) == ["manifest.json", "results.jsonl", "summary.json"]


def test_an_empty_folder_is_accepted(tmp_path: Path, write_run: WriteRun):
    """`mkdir out` before the command is a habit, not a run."""
    (tmp_path / "run").mkdir()
    assert seal_problems(write_run(tmp_path / "run")) == []


def test_a_file_in_the_way_is_refused(tmp_path: Path, write_run: WriteRun):
    """--outdir names a folder; a file of that name, or as a parent, is somebody's data."""
    (tmp_path / "run").write_text("data")
    with pytest.raises(UsageError, match="is a file"):
        write_run(tmp_path / "run", overwrite=True)
    with pytest.raises(UsageError, match="cannot be written"):
        write_run(tmp_path / "run" / "inner")
    assert os.listdir(tmp_path) == ["run"] and (tmp_path / "run").read_text() == "data"


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_symbolic_link_is_refused_at_once(tmp_path: Path, write_run: WriteRun, target: str):
    """It is said before the work, not after it; and the link and its target stay."""
    write_run(tmp_path / "elsewhere")
    (tmp_path / "run").symlink_to(target)
    with pytest.raises(UsageError, match="symbolic link"), RunFolder(tmp_path / "run"):
        pytest.fail("the run was begun")
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "run"]
    assert seal_problems(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    "name",
    ["/", "run.partial", "run.partial.lock", "run.partial.previous", "run.partial.resume"],
)
def test_a_name_that_could_never_be_opened_is_refused(tmp_path: Path, name: str):
    """A finished run must not look like an unfinished one."""
    with pytest.raises(UsageError, match="cannot be a run folder's name"):
        RunFolder(tmp_path / name)


def test_a_run_that_a_student_called_previous_is_left_alone(
    tmp_path: Path, write_run: WriteRun, contents: Contents
):
    """What a command keeps aside has a name that nobody gives to a run of their own."""
    write_run(tmp_path / "run.previous", "mine\n")
    before = contents(tmp_path / "run.previous")
    write_run(tmp_path / "run")
    write_run(tmp_path / "run", overwrite=True)
    assert contents(tmp_path / "run.previous") == before


# ---- several writers -----------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from course.artifacts.run_folder import RunFolder
with RunFolder(Path(sys.argv[1]), overwrite=True) as run:
    run.write("results.jsonl", b"theirs")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["leaves", "is killed"])
def test_a_second_writer_is_refused_until_the_first_is_gone(
    tmp_path: Path, write_run: WriteRun, contents: Contents, end: str
):
    """Two writers never mix their files; a lock dies with its process, so it never gets stale."""
    run = write_run(tmp_path / "run")
    before = contents(run)
    command = [sys.executable, "-c", HOLD, str(run)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as first:
        assert first.stdin and first.stdout
        assert first.stdout.readline() == b"writing\n"
        with pytest.raises(UsageError, match="Another process is writing"):
            write_run(run, "mine\n", overwrite=True)
        assert (tmp_path / "run.partial" / "results.jsonl").exists()  # theirs was not removed
        if end == "is killed":
            first.kill()
        first.communicate()
    assert contents(run) == before
    assert (tmp_path / "run.partial").exists() == (end == "is killed")
    write_run(run, "mine\n", overwrite=True)
    assert (run / "results.jsonl").read_text() == "mine\n"
    assert os.listdir(tmp_path) == ["run"]


def test_a_lock_on_a_file_that_is_gone_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A writer that ends may remove the lock file after we opened it and before we locked it.

    Whoever came next would lock a new file of that name, and both would write.
    """
    path, flock = tmp_path / "run.partial.lock", fcntl.flock
    endings = [path.unlink, lambda: (path.unlink(), path.touch())]

    def flock_after_an_ending(fd: int, operation: int) -> None:
        if endings:
            endings.pop()()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_an_ending)
    fd = take_lock(path, tmp_path / "run")
    assert endings == [] and os.path.samestat(os.fstat(fd), os.stat(path))
    with pytest.raises(UsageError, match="Another process"):
        take_lock(path, tmp_path / "run")
    os.close(fd)


RACE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from crash_points import write_run
from course.core.errors import UsageError
print("ready", flush=True)
sys.stdin.readline()
try:
    write_run(Path(sys.argv[2]), sys.argv[3].encode(), overwrite=False)
    print("won")
except UsageError:
    print("refused")
"""


def test_of_many_writers_exactly_one_wins(tmp_path: Path):
    """Whoever comes first gets the name; the others are told so, and the run is the winner's."""
    command = [sys.executable, "-c", RACE, str(Path(__file__).parent), str(tmp_path / "run")]
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen([*command, str(n)], cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        for n in range(6)
    ]
    for writer in writers:
        assert writer.stdout and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.flush()
    ends = [writer.communicate()[0].strip() for writer in writers]
    assert sorted(ends) == ["refused"] * 5 + ["won"]
    assert (tmp_path / "run" / "results.jsonl").read_text() == str(ends.index("won"))
    assert os.listdir(tmp_path) == ["run"] and seal_problems(tmp_path / "run") == []


# ---- what a killed writer left -------------------------------------------------------------


def test_a_stale_partial_is_cleaned_away(tmp_path: Path, write_run: WriteRun):
    """A killed writer's files are not mixed into the next run."""
    (tmp_path / "run.partial" / "deep").mkdir(parents=True)
    (tmp_path / "run.partial" / "deep" / "stale.txt").write_text("stale")
    (tmp_path / "run.partial.lock").write_text("")
    run = write_run(tmp_path / "run")
    assert os.listdir(tmp_path) == ["run"] and seal_problems(run) == []


def test_a_run_set_aside_comes_back(tmp_path: Path, write_run: WriteRun, contents: Contents):
    """Killed between the two renames: the next command puts the earlier run back, and keeps it."""
    run = write_run(tmp_path / "run")
    before = contents(run)
    run.rename(tmp_path / "run.partial.previous")
    with pytest.raises(UsageError, match="already holds a run"):
        write_run(run, "new\n")
    assert contents(run) == before and os.listdir(tmp_path) == ["run"]


def test_a_run_set_aside_goes_when_its_successor_stands(tmp_path: Path, write_run: WriteRun):
    """Killed while the old run was being removed: the new one stays."""
    run = write_run(tmp_path / "run", "new\n")
    write_run(tmp_path / "old").rename(tmp_path / "run.partial.previous")
    with pytest.raises(UsageError, match="already holds a run"):
        write_run(run, "third\n")
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "results.jsonl").read_text() == "new\n"


def test_half_removed_remains_do_not_come_back(tmp_path: Path, write_run: WriteRun):
    """What has lost its manifest is being deleted; it is no earlier run to restore."""
    aside = write_run(tmp_path / "run").rename(tmp_path / "run.partial.previous")
    (aside / "manifest.json").unlink()
    run = write_run(tmp_path / "run", "new\n")
    assert os.listdir(tmp_path) == ["run"]
    assert open_run(run).folder == run


# ---- names for new runs --------------------------------------------------------------------


def test_new_runs_are_numbered_from_001(tmp_path: Path, write_run: WriteRun):
    """The first free number, also when the folder does not exist yet."""
    assert next_free(tmp_path / "runs", "eval-x") == tmp_path / "runs" / "eval-x-001"
    write_run(tmp_path / "eval-x-001")
    write_run(tmp_path / "eval-x-003")
    assert next_free(tmp_path, "eval-x").name == "eval-x-002"


@pytest.mark.parametrize("end", ["", ".partial", ".partial.lock", ".partial.previous"])
def test_a_number_is_taken_by_whatever_bears_its_name(tmp_path: Path, end: str):
    """A run that is being written, or was stopped, keeps its number; so does a broken link."""
    (tmp_path / f"eval-x-001{end}").symlink_to("nowhere")
    assert next_free(tmp_path, "eval-x").name == "eval-x-002"
