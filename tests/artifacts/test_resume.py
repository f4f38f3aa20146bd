"""A run that commits can be stopped and continued; its work is never lost without being asked."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course.artifacts.run_folder import RunFolder, next_free
from course.artifacts.seal import open_run, seal_problems
from course.core.errors import CourseError, DataError, MachineError, UsageError
from course.core.paths import ROOT

WriteRun = Callable[..., Path]
Contents = Callable[[Path], dict[str, bytes]]
Build = Callable[..., Any]
SETTINGS = {"temperature": 1.0, "seed": 0}


class StoppedError(Exception):
    """What goes wrong in the middle of a run."""


def folder(final: Path, **given: Any) -> RunFolder:
    """A run that may be continued."""
    return RunFolder(final, **({"kind": "sample", "settings": SETTINGS} | given))


def stop(final: Path, error: BaseException | None = None, **given: Any) -> None:
    """Commit one row, one checkpoint and three bytes to carry; write more; and fail."""
    with folder(final, **given) as run:
        rows = run.append("rows.jsonl")
        rows.write(b"1\n")
        run.write("checkpoints/1.bin", b"one")
        run.commit({"rows": 1}, carry=b"abc")
        rows.write(b"half of the sec")
        run.write("checkpoints/2.bin", b"two")
        raise error or StoppedError


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The final place of a run that was stopped after its first commit."""
    with pytest.raises(StoppedError):
        stop(tmp_path / "run")
    return tmp_path / "run"


def finish(run: RunFolder, build: Build) -> None:
    """Add the second row, and publish."""
    run.append("rows.jsonl").write(b"2\n")
    run.publish(build)


# ---- going on ------------------------------------------------------------------------------


def test_a_stopped_run_leaves_its_work_and_no_run(stopped: Path):
    """The .partial and what it takes to go on; no lock, and nothing under the final name."""
    assert sorted(os.listdir(stopped.parent)) == ["run.partial", "run.partial.resume"]
    with pytest.raises(DataError, match="never finished"):
        open_run(stopped.with_name("run.partial"))


def test_a_resumed_run_is_as_the_last_commit_left_it(stopped: Path, contents: Contents):
    """What came after the commit is gone: half a row, a checkpoint, a seal that was not used."""
    (stopped.with_name("run.partial") / "manifest.json").write_bytes(b"{}")
    with folder(stopped, resume=True) as run:
        assert run.resumed and run.progress == {"rows": 1} and run.carried() == b"abc"
        assert contents(stopped.with_name("run.partial")) == {
            "rows.jsonl": b"1\n",
            "checkpoints/1.bin": b"one",
        }


def test_a_resumed_run_is_sealed_with_all_its_files(
    stopped: Path, build_manifest: Build, contents: Contents
):
    """Those of the first session too, and nothing of what was only carried."""
    with folder(stopped, resume=True) as run:
        finish(run, build_manifest)
    files = contents(stopped)
    assert sorted(files) == ["checkpoints/1.bin", "manifest.json", "rows.jsonl"]
    assert files["rows.jsonl"] == b"1\n2\n"
    assert seal_problems(stopped) == [] and os.listdir(stopped.parent) == ["run"]


def test_a_run_that_begins_has_no_progress(tmp_path: Path):
    """A script may always pass --resume: where nothing was committed, a run begins."""
    with folder(tmp_path / "run", resume=True) as run:
        assert not run.resumed and run.progress == {} and run.carried() is None
    assert os.listdir(tmp_path) == []


def test_a_run_may_be_stopped_again_and_again(stopped: Path, build_manifest: Build):
    """Also before its second session has committed anything: the first one's work stays."""
    for _ in range(3):
        with folder(stopped, resume=True) as run:
            run.append("rows.jsonl").write(b"lost")
    with folder(stopped, resume=True) as run:
        assert run.progress == {"rows": 1}
        finish(run, build_manifest)
    assert (stopped / "rows.jsonl").read_bytes() == b"1\n2\n"


def test_each_commit_replaces_the_one_before(tmp_path: Path):
    """Its progress, and what it carries; a commit that carries nothing gives nothing back."""
    for step in range(1, 4):
        with folder(tmp_path / "run", resume=True) as run:
            assert run.progress.get("step", 0) == step - 1
            assert run.carried() == (b"%d" % (step - 1) if step > 1 else None)
            run.append("rows.jsonl").write(b"%d\n" % step)
            run.commit({"step": step}, carry=b"%d" % step)
    assert len(os.listdir(tmp_path / "run.partial.resume")) == 2  # the journal, and one carry
    with folder(tmp_path / "run", resume=True) as run:
        run.commit({"step": 4})
        assert run.carried() is None
    assert os.listdir(tmp_path / "run.partial.resume") == ["journal.json"]
    assert (tmp_path / "run.partial" / "rows.jsonl").read_bytes() == b"1\n2\n3\n"


def test_a_whole_file_may_be_written_again_but_not_otherwise(stopped: Path):
    """A run's first steps are repeated by every session; what is sealed stays what it was."""
    with folder(stopped, resume=True) as run:
        run.write("checkpoints/1.bin", b"one")
        with pytest.raises(AssertionError, match="already written"):
            run.write("checkpoints/1.bin", b"other")
        assert run.staged("checkpoints/1.bin").read_bytes() == b"one"


def test_a_committed_row_can_be_read_while_the_run_is_written(tmp_path: Path):
    """A summary is counted from the file itself."""
    with folder(tmp_path / "run") as run:
        run.append("rows.jsonl").write(b"1\n")
        run.commit({})
        assert run.staged("rows.jsonl").read_bytes() == b"1\n"


def test_a_name_that_leads_elsewhere_is_never_written(tmp_path: Path):
    """Names of files come from our own code; this is its assertion."""
    for name in ("../x", "/x", "a//b", "./x", "a/../x", "", ".", "manifest.json"):
        with pytest.raises(AssertionError), folder(tmp_path / "run") as run:
            run.create(name)
    assert os.listdir(tmp_path) == []


# ---- what is kept, and what is not ---------------------------------------------------------


@pytest.mark.parametrize("error", [StoppedError(), KeyboardInterrupt(), UsageError("no"), None])
def test_what_was_committed_is_kept_whatever_stops_the_run(
    tmp_path: Path, error: BaseException | None
):
    """An error, Ctrl-C, or leaving without publish; the error says what is kept and what to do."""
    if error is None:
        with folder(tmp_path / "run") as run:
            run.commit({"rows": 1})
    else:
        with pytest.raises(type(error)) as raised:
            stop(tmp_path / "run", error)
        (note,) = raised.value.__notes__
        assert "run.partial keeps what was done; the same command with --resume" in note
    with folder(tmp_path / "run", resume=True) as run:
        assert run.progress == {"rows": 1}


@pytest.mark.parametrize("settings", [SETTINGS, None])
def test_a_run_without_a_commit_leaves_nothing(tmp_path: Path, settings: dict[str, Any] | None):
    """Nothing was promised yet: it is removed, and the error says no word of keeping."""

    def begin() -> None:
        with folder(tmp_path / "run", settings=settings) as run:
            run.append("rows.jsonl").write(b"1\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        begin()
    assert os.listdir(tmp_path) == [] and not hasattr(raised.value, "__notes__")


def test_a_full_disk_says_what_is_kept(tmp_path: Path):
    """And does not say that nothing was left behind."""
    with pytest.raises(MachineError, match=r"no room.*run\.partial keeps.*--resume") as raised:
        stop(tmp_path / "run", OSError(28, "No space left on device"))
    assert "Nothing was left behind" not in str(raised.value)
    with pytest.raises(UsageError, match=r"cannot be written.*run\.partial keeps.*--resume"):
        stop(tmp_path / "run", OSError(5, "Input/output error"), overwrite=True)


def test_a_manifest_that_cannot_be_built_costs_no_work(tmp_path: Path, build_manifest: Build):
    """Hours of work do not hang on their last second."""

    def fails(_: object) -> None:
        raise StoppedError

    with folder(tmp_path / "run") as run:
        run.append("rows.jsonl").write(b"1\n")
        run.commit({"rows": 1})
        with pytest.raises(StoppedError):
            run.publish(fails)  # type: ignore[arg-type]
    with folder(tmp_path / "run", resume=True) as run:
        finish(run, build_manifest)
    assert (tmp_path / "run" / "rows.jsonl").read_bytes() == b"1\n2\n"


def test_a_place_that_was_taken_meanwhile_costs_no_work(
    tmp_path: Path, write_run: WriteRun, build_manifest: Build
):
    """Somebody renamed a run to this name while ours was written; nothing of either is lost."""
    other = write_run(tmp_path / "other")
    with folder(tmp_path / "run") as run:
        run.append("rows.jsonl").write(b"1\n")
        run.commit({"rows": 1})
        other.rename(tmp_path / "run")
        with pytest.raises(UsageError, match="already holds a run"):
            run.publish(build_manifest)
    assert seal_problems(tmp_path / "run") == []
    assert "manifest.json" not in os.listdir(tmp_path / "run.partial")
    (tmp_path / "run").rename(other)
    with folder(tmp_path / "run", resume=True) as run:
        finish(run, build_manifest)
    assert (tmp_path / "run" / "rows.jsonl").read_bytes() == b"1\n2\n"


def test_a_commit_that_found_no_room_is_no_commit(tmp_path: Path):
    """The one before holds; and what it left half written is not taken for whole the next time."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with folder(tmp_path / "run") as run:
        run.commit({"steps": 1}, carry=b"one")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                run.commit({"steps": 2}, carry=b"2" * 5000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert run.progress == {"steps": 1} and run.carried() == b"one"
        run.commit({"steps": 2}, carry=b"2" * 5000)
        assert run.progress == {"steps": 2} and run.carried() == b"2" * 5000


# ---- refusals ------------------------------------------------------------------------------


def assert_refused(final: Path, match: str, contents: Contents, **given: Any) -> None:
    """The command is refused, and nothing has changed."""
    before = contents(final.parent)
    with pytest.raises(CourseError, match=match), folder(final, **given):
        pytest.fail("the run was begun")
    assert contents(final.parent) == before


def test_an_unfinished_run_is_not_lost_in_silence(stopped: Path, contents: Contents):
    """The same command again neither goes on unasked nor begins anew: it names both ways."""
    match = r"run\.partial holds an unfinished run: --resume continues it, --overwrite discards it"
    assert_refused(stopped, match, contents)


def test_overwrite_discards_an_unfinished_run(stopped: Path, build_manifest: Build):
    """Because it was asked for."""
    with folder(stopped, overwrite=True) as run:
        assert not run.resumed and run.carried() is None
        finish(run, build_manifest)
    assert (stopped / "rows.jsonl").read_bytes() == b"2\n"
    assert os.listdir(stopped.parent) == ["run"] and seal_problems(stopped) == []


def test_a_refusal_of_overwrite_discards_nothing(stopped: Path, contents: Contents):
    """The place is looked at first."""
    stopped.mkdir()
    (stopped / "thesis.tex").write_text("...")
    assert_refused(stopped, "is not a run, so it is left alone", contents, overwrite=True)
    (stopped / "thesis.tex").unlink()
    with folder(stopped, resume=True) as run:
        assert run.resumed


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"temperature": 0.7, "seed": 0}, "temperature was 1.0, is 0.7 now"),
        (
            {"temperature": 0.7, "seed": 1},
            "seed was 0, is 1 now; temperature was 1.0, is 0.7 now",
        ),
        ({"temperature": 1.0}, "seed was 0, is not set now"),
        ({**SETTINGS, "data": "x.jsonl"}, "data was not set, is x.jsonl now"),
        ({**SETTINGS, "seed": None}, "seed was 0, is null now"),
        ({**SETTINGS, "seed": ""}, 'seed was 0, is "" now'),
    ],
)
def test_other_settings_are_refused_by_name(
    stopped: Path, contents: Contents, now: dict[str, Any], said: str
):
    """Half a run at one temperature and half at another is no run."""
    assert_refused(
        stopped, f"with other settings: {said}. Give", contents, settings=now, resume=True
    )


def test_the_same_settings_may_be_written_otherwise(stopped: Path):
    """Their order, and 1 for 1.0, make no difference."""
    with folder(stopped, settings={"seed": 0.0, "temperature": 1}, resume=True) as run:
        assert run.resumed


@pytest.mark.parametrize("given", [{"resume": True}, {"overwrite": True}, {}])
def test_an_unfinished_run_of_another_kind_is_refused(
    stopped: Path, contents: Contents, given: dict[str, bool]
):
    """Also with --overwrite: an eval typed into the wrong folder must not cost a training run."""
    match = "holds an unfinished sample run, which a train run neither continues nor replaces"
    assert_refused(stopped, match, contents, kind="train", **given)
    before = contents(stopped.parent)
    with pytest.raises(UsageError, match="unfinished sample run"):
        RunFolder(stopped, kind="eval", overwrite=True).__enter__()
    assert contents(stopped.parent) == before


def test_a_finished_run_has_nothing_to_resume(
    stopped: Path, build_manifest: Build, contents: Contents
):
    """The second --resume after success says so; --overwrite makes the run anew."""
    with folder(stopped, resume=True) as run:
        finish(run, lambda outputs: build_sample(build_manifest, outputs))
    assert_refused(stopped, "run is finished: nothing is left to resume", contents, resume=True)
    assert_refused(stopped, "already holds a run", contents)
    assert_refused(stopped, "already holds a run", contents, kind="train", resume=True)
    with folder(stopped, resume=True, overwrite=True) as run:
        assert not run.resumed


def build_sample(build: Build, outputs: Any) -> Any:
    """The manifest of a sample run."""
    import msgspec

    return msgspec.structs.replace(build(outputs), kind="sample")


def test_a_run_that_replaces_another_is_continued_with_the_same_flags(
    tmp_path: Path, build_manifest: Build, contents: Contents
):
    """The earlier run stays until the new one is sealed, through any number of sessions."""
    final = tmp_path / "run"

    def sample_manifest(outputs: Any) -> Any:
        return build_sample(build_manifest, outputs)

    with folder(final) as run:
        run.write("rows.jsonl", b"old\n")
        run.publish(sample_manifest)
    with pytest.raises(StoppedError):
        stop(final, overwrite=True)
    assert (final / "rows.jsonl").read_bytes() == b"old\n" and seal_problems(final) == []
    assert_refused(final, "already holds a run", contents, resume=True)
    with folder(final, overwrite=True, resume=True) as run:
        assert run.resumed and (final / "rows.jsonl").read_bytes() == b"old\n"
        finish(run, sample_manifest)
    assert (final / "rows.jsonl").read_bytes() == b"1\n2\n" and os.listdir(tmp_path) == ["run"]


# ---- damage --------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b"", b"2\n", b"\n"])
@pytest.mark.parametrize("name", ["rows.jsonl", "checkpoints/1.bin"])
def test_a_file_that_lost_what_was_committed_is_said(
    stopped: Path, contents: Contents, name: str, data: bytes | None
):
    """Cut, edited or removed: the run cannot go on, says which file, and what to do."""
    path = stopped.with_name("run.partial") / name
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    match = rf"run\.partial/{name} is no longer what .*--overwrite to begin anew"
    assert_refused(stopped, match, contents, resume=True)


@pytest.mark.parametrize("data", [None, b"", b"abd"])
def test_a_carry_that_was_damaged_is_said(stopped: Path, data: bytes | None):
    """Weights that were cut would train on as something else."""
    (carry,) = stopped.with_name("run.partial.resume").glob("[!j]*")
    carry.unlink()
    if data is not None:
        carry.write_bytes(data)
    with folder(stopped, resume=True) as run, pytest.raises(DataError, match="no longer what"):
        run.carried()


JOURNALS = ["", "{", "[]", "{}", '{"kind": "sample"}', "\xff"]


@pytest.mark.parametrize("text", [None, *JOURNALS])
@pytest.mark.parametrize("resume", [True, False])
def test_a_journal_that_is_none_keeps_nothing(
    stopped: Path, build_manifest: Build, text: str | None, resume: bool
):
    """A journal is replaced in one step, so one that cannot be read is not ours."""
    journal = stopped.with_name("run.partial.resume") / "journal.json"
    journal.unlink()
    if text is not None:
        journal.write_bytes(text.encode("latin-1"))
    with folder(stopped, resume=resume) as run:
        assert not run.resumed
        finish(run, build_manifest)
    assert os.listdir(stopped.parent) == ["run"] and seal_problems(stopped) == []


def test_a_journal_cannot_lead_out_of_the_run(stopped: Path, contents: Contents):
    """It is a file that may come from anywhere: what it names outside is neither cut nor sealed."""
    journal = stopped.with_name("run.partial.resume") / "journal.json"
    fields = json.loads(journal.read_text())
    fields["files"]["../thesis"] = fields["files"].pop("rows.jsonl")
    journal.write_text(json.dumps(fields))
    (stopped.parent / "thesis").write_bytes(b"1\nand much more")
    with folder(stopped, resume=True) as run:
        assert not run.resumed
    assert contents(stopped.parent) == {"thesis": b"1\nand much more"}


@pytest.mark.parametrize("end", [".partial", ".partial.resume"])
def test_half_of_an_unfinished_run_is_cleaned_away(stopped: Path, build_manifest: Build, end: str):
    """One was removed by hand, or by a command that was killed while it discarded both."""
    for path in sorted(stopped.with_name(f"run{end}").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    stopped.with_name(f"run{end}").rmdir()
    with folder(stopped, resume=True) as run:
        assert not run.resumed
        finish(run, build_manifest)
    assert os.listdir(stopped.parent) == ["run"]


# ---- several writers -----------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from course.artifacts.run_folder import RunFolder
with RunFolder(Path(sys.argv[1]), kind="sample", settings={"seed": 0}, resume=True) as run:
    run.append("rows.jsonl").write(b"theirs\\n")
    run.commit({"rows": 1})
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_not_continued_while_its_writer_lives(tmp_path: Path, contents: Contents):
    """A batch job that was started twice: the second is refused, and touches nothing."""
    final, pipe = tmp_path / "run", subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(final)]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as first:
        assert first.stdout and first.stdout.readline() == b"writing\n"
        for given in ({"resume": True}, {"overwrite": True}, {}):
            assert_refused(final, "Another process is writing", contents, **given)
        first.kill()
    with folder(final, settings={"seed": 0}, resume=True) as run:
        assert run.progress == {"rows": 1}
        assert run.staged("rows.jsonl").read_bytes() == b"theirs\n"


def test_an_unfinished_run_keeps_its_number(tmp_path: Path):
    """A new run without --outdir does not meet it."""
    with pytest.raises(StoppedError):
        stop(tmp_path / "sample-x-001")
    assert next_free(tmp_path, "sample-x").name == "sample-x-002"
