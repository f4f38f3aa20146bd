"""The seal holds for exactly one folder: the one that was sealed."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course.artifacts.manifest import manifest_bytes, manifest_json, seal_of
from course.artifacts.place import DESKTOP_LITTER
from course.artifacts.run_folder import RunFolder
from course.artifacts.seal import inspect_seal, open_run, seal_problems
from course.core.errors import BrokenSealError, DataError
from course.core.records import Manifest

WriteRun = Callable[..., Path]
Edit = Callable[[str], str]
FILES = ["manifest.json", "results.jsonl", "summary.json"]


@pytest.fixture
def run(tmp_path: Path, write_run: WriteRun) -> Path:
    """A sealed run."""
    return write_run(tmp_path / "run", '{"id": "a"}\n')


def assert_broken(run: Path, name: str) -> None:
    """The seal is broken, a problem names the file, and the run cannot be opened."""
    problems = seal_problems(run)
    assert any(name in problem for problem in problems), problems
    with pytest.raises(BrokenSealError, match=r"^BrokenSeal: "):
        open_run(run)


# ---- what the seal notices -----------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_breaks_the_seal(run: Path, name: str):
    """Every byte of every artifact, with one bit flipped and with another value."""
    path = run / name
    whole = path.read_bytes()
    other = random.Random(0)
    for position, byte in enumerate(whole):
        for value in (byte ^ 1, (byte + other.randrange(1, 256)) % 256):
            path.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
            problems = seal_problems(run)
            assert any(name in problem for problem in problems), (position, byte, value)
    path.write_bytes(whole)
    assert seal_problems(run) == []


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_other_bytes_break_the_seal(run: Path, data: st.DataObject):
    """Cut anything out of an artifact, put anything in: it is noticed, and nothing crashes."""
    path = run / data.draw(st.sampled_from(FILES))
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 40)))
    piece = data.draw(st.binary(max_size=20) | st.text(max_size=20).map(str.encode))
    edited = whole[:start] + piece + whole[stop:]
    path.write_bytes(edited)
    broken = any(path.name in problem for problem in seal_problems(run))
    path.write_bytes(whole)
    assert broken == (edited != whole)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("tail", [b"\n", b" ", b"\0", b"{}\n"])
def test_an_appended_byte_breaks_the_seal(run: Path, name: str, tail: bytes):
    """A line end more is a byte more."""
    with (run / name).open("ab") as file:
        file.write(tail)
    assert_broken(run, name)


@pytest.mark.parametrize("name", FILES)
def test_an_emptied_file_breaks_the_seal(run: Path, name: str):
    """As a full disk or a careless `>` leaves it."""
    (run / name).write_bytes(b"")
    assert_broken(run, name)


@pytest.mark.parametrize("name", FILES)
def test_a_deleted_file_breaks_the_seal(run: Path, name: str):
    """Also the manifest: artifacts that nothing vouches for are a broken run, no stray folder."""
    (run / name).unlink()
    assert_broken(run, name)


@pytest.mark.parametrize(
    "name", ["extra.txt", ".hidden", "sub/extra.txt", ".git/config", "results.jsonl.bak", "a\nb"]
)
def test_an_added_file_breaks_the_seal(run: Path, name: str):
    """Also a hidden one, also in a subfolder."""
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_bytes(b"")
    assert_broken(run, name)


@pytest.mark.parametrize("target", ["summary.json", "nowhere", "../run", "extra"])
def test_an_added_link_breaks_the_seal(run: Path, target: str):
    """A link to a file, to nothing, to a folder, to itself."""
    (run / "extra").symlink_to(target)
    assert_broken(run, "extra")


@pytest.mark.parametrize("name", FILES)
def test_a_link_to_an_identical_copy_breaks_the_seal(run: Path, name: str):
    """What a link leads to can change any day without this folder noticing."""
    (run / name).rename(run.parent / name)
    (run / name).symlink_to(run.parent / name)
    assert_broken(run, name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["folder", "fifo", "link to itself"])
def test_what_is_no_file_breaks_the_seal(run: Path, name: str, kind: str):
    """It is not opened either: a FIFO would make the reader wait for ever."""
    (run / name).unlink()
    make = {"folder": os.mkdir, "fifo": os.mkfifo, "link to itself": lambda p: os.symlink(p, p)}
    make[kind](run / name)
    assert_broken(run, name)


def test_the_results_of_another_run_break_the_seal(run: Path, write_run: WriteRun):
    """Both files are genuine, both folders were sealed; together they are no run."""
    better = write_run(run.parent / "better", '{"id": "b"}\n')  # as many bytes
    shutil.copy(better / "results.jsonl", run)
    assert_broken(run, "results.jsonl")


def test_two_swapped_artifacts_break_the_seal(run: Path):
    """A file's content is sealed together with its name."""
    (run / "results.jsonl").rename(run / "other")
    (run / "summary.json").rename(run / "results.jsonl")
    (run / "other").rename(run / "summary.json")
    assert_broken(run, "results.jsonl")
    assert_broken(run, "summary.json")


def test_all_problems_are_reported_at_once(run: Path):
    """One look tells everything: what changed, what is missing, what was added."""
    (run / "results.jsonl").write_bytes(b'{"id": "b"}\n')
    (run / "summary.json").unlink()
    (run / "extra").write_bytes(b"")
    assert seal_problems(run) == [
        "results.jsonl changed: same size, other content",
        "summary.json is missing",
        "extra was added: the seal does not know it",
    ]


# ---- edits of the manifest -----------------------------------------------------------------


def reordered(text: str) -> str:
    """The same object with its keys turned around."""
    fields = json.loads(text)
    return json.dumps(dict(reversed(fields.items())), indent=2) + "\n"


def inner_reordered(text: str) -> str:
    """The same object with only the keys of ``outputs`` and ``environment`` turned around."""
    fields = json.loads(text)
    for name in ("outputs", "environment"):
        fields[name] = dict(reversed(fields[name].items()))
    return json.dumps(fields, indent=2) + "\n"


EDITS: dict[str, Edit] = {
    "run id": lambda text: text.replace('"run_id": "2026', '"run_id": "2025'),
    "input hash": lambda text: text.replace("a" * 64, "b" * 64),
    "input path": lambda text: text.replace("data.jsonl", "test.jsonl"),
    "time": lambda text: text.replace("2026-01-01T", "2025-01-01T"),
    "seal": lambda text: text[:-10] + "00000" + text[-5:],
    "output name": lambda text: text.replace('"summary.json"', '"other.json"'),
    "output outside": lambda text: text.replace('"summary.json"', '"../x"'),
    "indentation": lambda text: json.dumps(json.loads(text), indent=4) + "\n",
    "no spaces": lambda text: json.dumps(json.loads(text)),
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "key order": reordered,
    "inner key order": inner_reordered,
    "duplicate key": lambda text: text.replace("{", '{\n  "kind": "eval",', 1),
    "duplicate key, other value": lambda text: text.replace("{", '{\n  "kind": "train",', 1),
    "added key": lambda text: text.replace("{", '{\n  "verdict": "PROMOTE",', 1),
    "added inner key": lambda text: text.replace('"argv"', '"user": 1, "argv"'),
    "escaped letter": lambda text: text.replace('"eval"', '"\\u0065val"'),
    "number written otherwise": lambda text: text.replace("0.25", "2.5e-1"),
    "huge number": lambda text: text.replace('"cpus": ', '"cpus": ' + "9" * 400),
    "deep nesting": lambda text: text.replace('"policy": null', f'"policy": {"[" * 100_000}'),
    "not an object": lambda text: f"[{text}]",
    "other schema version": lambda text: text.replace('_version": 1', '_version": 2'),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_manifest_breaks_the_seal(run: Path, edit: Edit):
    """In what it says or only in how it is written; the problem names the file."""
    path = run / "manifest.json"
    text = path.read_bytes().decode()
    assert edit(text) != text
    path.write_bytes(edit(text).encode())
    assert_broken(run, "manifest.json")


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "..", "", ".", "sub/../../x", "x\0y", "x\0/y", "x" * 300, "link/x"],
)
def test_a_sealed_name_outside_the_folder_is_refused(run: Path, name: str):
    """Anyone can seal a manifest anew. Even then a run vouches only for what lies in its folder."""
    (run.parent / "x").write_bytes(b"{}\n")
    (run / "link").symlink_to("..")
    manifest, _ = inspect_seal(run)
    assert manifest
    outputs = {**manifest.outputs, name: manifest.outputs["summary.json"]}
    data, _ = manifest_bytes(msgspec.structs.replace(manifest, outputs=outputs))
    (run / "manifest.json").write_bytes(data)
    problems = seal_problems(run)
    assert any(problem.startswith(name) for problem in problems)
    assert not any("manifest.json" in problem for problem in problems)


@pytest.mark.parametrize(
    "name",
    ["./results.jsonl", "sub/../results.jsonl", "sub//x", "here/results.jsonl", "results.jsonl/"],
)
def test_a_sealed_file_has_one_name(run: Path, name: str):
    """A second way to write it, or a link inside the folder, could be led elsewhere any day."""
    (run / "sub").mkdir()
    (run / "sub" / "x").write_bytes(b"{}\n")
    (run / "here").symlink_to(".")
    manifest, _ = inspect_seal(run)
    assert manifest
    outputs = {**manifest.outputs, name: manifest.outputs["results.jsonl"]}
    data, _ = manifest_bytes(msgspec.structs.replace(manifest, outputs=outputs))
    (run / "manifest.json").write_bytes(data)
    assert f"{name} is no plain name of a file in the run folder" in seal_problems(run)


# ---- files in subfolders -------------------------------------------------------------------


@pytest.fixture
def deep(tmp_path: Path, build_manifest: Callable[..., Manifest]) -> Path:
    """A sealed run with checkpoints."""
    with RunFolder(tmp_path / "deep") as folder:
        folder.write("metrics.jsonl", b"{}\n")
        folder.write("checkpoints/1.bin", b"one")
        folder.write("checkpoints/last/2.bin", b"two")
        folder.publish(build_manifest)
    return tmp_path / "deep"


def test_a_run_with_subfolders_opens(deep: Path):
    """Their files are sealed by relative name, with slashes."""
    names = ["checkpoints/1.bin", "checkpoints/last/2.bin", "metrics.jsonl"]
    assert list(open_run(deep).manifest.outputs) == names


def test_any_change_in_a_subfolder_breaks_the_seal(deep: Path):
    """Changed, removed, added, swapped."""
    one, two = deep / "checkpoints" / "1.bin", deep / "checkpoints" / "last" / "2.bin"
    one.write_bytes(b"One")
    assert seal_problems(deep) == ["checkpoints/1.bin changed: same size, other content"]
    one.unlink()
    assert seal_problems(deep) == ["checkpoints/1.bin is missing"]
    two.rename(one)
    assert_broken(deep, "checkpoints/1.bin changed")
    assert_broken(deep, "checkpoints/last/2.bin is missing")
    one.rename(two)
    one.write_bytes(b"one")
    assert seal_problems(deep) == []
    (deep / "checkpoints" / "3.bin").write_bytes(b"")
    assert_broken(deep, "checkpoints/3.bin was added")


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_subfolder_behind_a_link_breaks_the_seal(deep: Path, where: str):
    """Its files are what was sealed today; tomorrow the link may lead to others."""
    target = deep.parent / "moved" if where == "outside" else deep / "moved"
    (deep / "checkpoints").rename(target)
    (deep / "checkpoints").symlink_to(target)
    assert_broken(deep, "checkpoints/1.bin is no plain name")
    assert_broken(deep, "checkpoints was added")


# ---- what the seal allows ------------------------------------------------------------------


def test_an_untouched_run_opens(run: Path):
    """Opening gives the manifest that was sealed, and reading changes nothing."""
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    opened = open_run(run)
    assert opened.folder == run and isinstance(opened.manifest, Manifest)
    assert sorted(opened.manifest.outputs) == ["results.jsonl", "summary.json"]
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before


def test_a_run_may_be_moved_renamed_and_copied(run: Path):
    """The seal covers what is in the folder, not where it stands or when it was written."""
    copy = shutil.copytree(run, run.parent / "elsewhere" / "copy", copy_function=shutil.copyfile)
    assert seal_problems(copy) == []
    moved = run.rename(run.parent / "renamed")
    assert seal_problems(moved) == []
    (run.parent / "latest").symlink_to("renamed")
    assert seal_problems(run.parent / "latest") == []


@pytest.mark.parametrize("folder", [".", "sub"])
@pytest.mark.parametrize("name", sorted(DESKTOP_LITTER))
def test_the_litter_of_file_managers_is_ignored(run: Path, name: str, folder: str):
    """Looking at a run in Finder must not break its seal."""
    (run / folder).mkdir(exist_ok=True)
    (run / folder / name).write_bytes(b"litter")
    assert seal_problems(run) == []


# ---- what is no run ------------------------------------------------------------------------


def test_an_unfinished_run_is_refused_by_its_name(run: Path):
    """A .partial folder may be complete by chance; it was never published."""
    partial = run.rename(run.parent / "run.partial")
    with pytest.raises(DataError, match="never finished"):
        open_run(partial)
    (run.parent / "link").symlink_to("run.partial")
    with pytest.raises(DataError, match="never finished"):
        open_run(run.parent / "link")


def test_a_missing_folder_is_said(tmp_path: Path):
    """And when an earlier run was set aside there, where to find it."""
    with pytest.raises(DataError, match="does not exist") as error:
        open_run(tmp_path / "run")
    assert "earlier run" not in str(error.value)
    (tmp_path / "run.partial.previous").mkdir()
    with pytest.raises(DataError, match=r"kept in .*run\.partial\.previous: rename it back"):
        open_run(tmp_path / "run")


def test_a_file_is_no_run(tmp_path: Path):
    """--run FILE is a common slip: results.jsonl instead of its folder."""
    (tmp_path / "results.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match="is a file; a run folder was expected"):
        open_run(tmp_path / "results.jsonl")


def test_a_folder_of_runs_names_them(run: Path):
    """--run runs/ is another: the message lists what could have been meant."""
    with pytest.raises(DataError, match=r"not a run folder.*It holds these runs: run\."):
        open_run(run.parent)


def test_an_empty_folder_is_no_run(tmp_path: Path):
    """It is not a broken one either: nothing was ever sealed here."""
    with pytest.raises(DataError, match="is not a run folder: it has no manifest"):
        open_run(tmp_path)


def test_an_impossible_name_is_said(tmp_path: Path):
    """What the system will not even look up is an error in words."""
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        open_run(tmp_path / ("x" * 300))


def test_a_run_of_an_older_version_keeps_its_seal(run: Path) -> None:
    """The seal is over the manifest's own fields, so the record may grow and still vouch for it."""
    path = run / "manifest.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["a_field_of_another_version"] = {"kept": True}
    fields["seal"] = seal_of(fields)
    path.write_bytes(manifest_json(fields))
    assert seal_problems(run) == []
    path.write_bytes(path.read_bytes().replace(b"true", b"false"))
    assert seal_problems(run) != []


def test_a_folder_of_data_is_no_broken_run(tmp_path: Path) -> None:
    """Completions and packs lie in many folders; only what a run leaves behind tells of a run."""
    for name in ("completions.jsonl", "selection_pack.jsonl", "dataset.jsonl"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    with pytest.raises(DataError, match="is not a run folder"):
        inspect_seal(tmp_path)
