"""The manifest says where a run came from, and nothing that must stay secret."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import course.artifacts.manifest as manifest_room
from course.artifacts.manifest import (
    command_facts,
    environment_facts,
    git_facts,
    manifest_bytes,
    names_of_run,
    new_run_id,
    seal_of,
)
from course.artifacts.run_folder import RunFolder
from course.core.records import Manifest, OutputFile

WriteRun = Callable[..., Path]
BuildManifest = Callable[[dict[str, OutputFile]], Manifest]
SECRET = "c0ffee-0123456789"


# ---- secrets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        (["--api-key", SECRET], ["--api-key", "[redacted]"]),
        (["--api-key", SECRET, "--json"], ["--api-key", "[redacted]", "--json"]),
        ([f"--api-key={SECRET}"], ["--api-key=[redacted]"]),
        ([f"--token={SECRET}=="], ["--token=[redacted]"]),
        (["--hf-token", SECRET], ["--hf-token", "[redacted]"]),
        (["--PASSWORD", SECRET], ["--PASSWORD", "[redacted]"]),
        (["--model", f"sk-{SECRET}"], ["--model", "[redacted]"]),
        (["--model", "hf_abcdefghijklmnop"], ["--model", "[redacted]"]),
        ([f"OPENAI_API_KEY=sk-proj-{SECRET}"], ["OPENAI_API_KEY=[redacted]"]),
        (["--header", "Authorization: Bearer ab+/cd012345=="], None),
        (["--base-url", f"https://me:{SECRET}@host/v1"], ["--base-url", "https://[redacted]@host/v1"]),
        ([f"--base-url=https://{SECRET}@host/v1"], ["--base-url=https://[redacted]@host/v1"]),
        (["--base-url", f"https://me:p@{SECRET}@host"], ["--base-url", "https://[redacted]@host"]),
        ([f"https://host/v1?a=b&api_key={SECRET}&c=d"], ["https://host/v1?a=b&api_key=[redacted]&c=d"]),
    ],
)  # fmt: skip
def test_a_secret_on_the_command_line_is_not_recorded(typed: list[str], recorded: list[str] | None):
    """Keys, tokens and passwords in flags, in values and in URLs."""
    shown = command_facts(typed, {}).argv
    assert SECRET not in " ".join(shown) and "ab+/cd" not in " ".join(shown)
    assert recorded is None or shown == recorded


@pytest.mark.parametrize(
    "typed",
    [
        ["--max-new-tokens", "12"],
        ["--max-new-tokens=12"],
        ["--dataset", "data/task-1234567890.jsonl"],
        ["--outdir", "runs/desk-lamp-experiment"],
        ["--scorer", "path/to/file.py:score"],
        ["--base-url", "http://localhost:8000/v1?model=x"],
        ["me@example.org"],
    ],
)
def test_what_is_no_secret_is_recorded_as_typed(typed: list[str]):
    """A manifest full of [redacted] could not be re-run."""
    assert command_facts(typed, {}).argv == typed


def test_parsed_arguments_are_redacted_too():
    """The same words stand in ``args``, by their parsed names, sorted; None says none was given."""
    parsed = {
        "token": None,
        "max_new_tokens": "12",
        "api_key": SECRET,
        "base_url": f"https://{SECRET}@host",
        "n": 3,
        "greedy": True,
    }
    assert list(command_facts([], parsed).args.items()) == [
        ("api_key", "[redacted]"),
        ("base_url", "https://[redacted]@host"),
        ("greedy", True),
        ("max_new_tokens", "12"),
        ("n", 3),
        ("token", None),
    ]


@given(st.lists(st.text()), st.dictionaries(st.text(), st.text()))
def test_any_command_line_can_be_written_as_json(argv: list[str], args: dict[str, str]):
    """Also words that are no valid Unicode, as file names may be (``caf\\xe9``)."""
    command = command_facts([*argv, "caf\udce9"], {**args, "outdir": "caf\udce9"})
    again = msgspec.json.decode(msgspec.json.encode(command))
    assert again["argv"][-1] == again["args"]["outdir"] == "caf\ufffd"


# ---- facts ---------------------------------------------------------------------------------


def test_run_ids_are_unique_and_sort_by_time():
    """Two runs of the same second differ; a later second sorts later."""
    early, late = (
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
    )
    ids = {new_run_id(early) for _ in range(10_000)}
    assert len(ids) == 10_000
    assert max(ids) < new_run_id(late) and min(ids).startswith("20260102T030405Z-")


def test_environment_facts_are_plain_json(monkeypatch: pytest.MonkeyPatch):
    """Even with torch, whose version is no plain str, and with a module that failed to load."""

    class TorchVersion(str):
        """As ``torch.__version__`` is."""

    torch = ModuleType("torch")
    torch.__version__ = TorchVersion("2.9.0+cpu")  # type: ignore[attr-defined]
    torch.get_num_threads = lambda: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", None)
    facts = environment_facts()
    assert json.loads(msgspec.json.encode(facts)) == facts
    assert facts["packages"]["torch"] == "2.9.0+cpu" and "transformers" not in facts["packages"]
    assert facts["python"] == sys.version.split()[0] and facts["threads"] == 3


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another repository root."""
    monkeypatch.setattr(manifest_room, "ROOT", tmp_path)
    return tmp_path


def git(root: Path, *args: str) -> None:
    """Run git as somebody, whatever the machine's own settings are."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *who, *args], check=True, capture_output=True)


def test_outside_git_there_are_no_git_facts(root: Path):
    """A downloaded archive has no commit to name; nor has a repository before its first one."""
    assert git_facts() is None
    git(root, "init")
    assert git_facts() is None
    (root / ".git" / "HEAD").write_text("nonsense")
    assert git_facts() is None


def test_git_facts_name_the_commit_and_tell_changed_sources(root: Path):
    """Dirty means that a file of the commit was changed; files beside it do not count."""
    git(root, "init")
    (root / "a.py").write_text("1\n")
    git(root, "add", "a.py")
    git(root, "commit", "-m", "first")
    (root / "untracked").write_text("x")
    facts = git_facts()
    assert facts and len(facts.commit) == 40 and not facts.dirty
    (root / "a.py").write_text("2\n")
    changed = git_facts()
    assert changed and changed.commit == facts.commit and changed.dirty


# ---- the seal ------------------------------------------------------------------------------


def test_the_seal_does_not_depend_on_the_seal(build_manifest: BuildManifest):
    """It can be computed before and after it was filled in, and sealing again changes nothing."""
    bare = build_manifest({})
    data, sealed = manifest_bytes(bare)
    assert sealed.seal == seal_of(bare) == seal_of(sealed) != bare.seal
    assert manifest_bytes(sealed) == (data, sealed)


def test_equal_manifests_have_equal_bytes(build_manifest: BuildManifest):
    """The order in which outputs were named leaves no trace."""
    one, two = OutputFile(1, "1" * 64), OutputFile(2, "2" * 64)
    forth, back = {"a": one, "b": two}, {"b": two, "a": one}
    assert manifest_bytes(build_manifest(forth))[0] == manifest_bytes(build_manifest(back))[0]


@pytest.mark.parametrize(
    "text",
    [None, "", "{}", "[]", "\xff", '{"name": "x"}', '{"run_id": 1, "seal": "", "outputs": {}}'],
)
def test_a_folder_without_our_manifest_is_no_run(tmp_path: Path, text: str | None):
    """What is asked before a folder is replaced: none of these may be."""
    if text is not None:
        (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    assert names_of_run(tmp_path) is None


def test_a_run_with_a_broken_seal_is_still_a_run(tmp_path: Path, write_run: WriteRun):
    """Its owner may replace it: an edited run is worth less than an intact one, not more."""
    run = write_run(tmp_path / "run")
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"eval"', '"kind of a later course"'))
    assert names_of_run(run) == {"manifest.json", "results.jsonl", "summary.json"}


def test_the_files_of_a_run_are_named_with_their_folders(
    tmp_path: Path, build_manifest: BuildManifest
):
    """So that what somebody put beside a checkpoint is told from the checkpoint."""
    with RunFolder(tmp_path / "run") as folder:
        folder.write("checkpoints/1.bin", b"one")
        folder.publish(build_manifest)
    assert names_of_run(tmp_path / "run") == {"manifest.json", "checkpoints/1.bin"}
