"""Small runs to write, break and check."""

from collections.abc import Callable
from pathlib import Path

import pytest

from course.artifacts.manifest import UNSEALED, command_facts, environment_facts
from course.artifacts.run_folder import RunFolder
from course.core.records import InputFile, Manifest, OutputFile

WriteRun = Callable[..., Path]
RUN_ID = "20260101T000000Z-000000000000"


def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
    """A manifest with one input and an argument of every JSON type."""
    return Manifest(
        schema_version=1,
        kind="eval",
        run_id=RUN_ID,
        created_utc="2026-01-01T00:00:00Z",
        duration_s=0.25,
        command=command_facts(["python"], {"max": 3, "outdir": "run", "json": False}),
        inputs={"dataset": InputFile("data.jsonl", 10, "a" * 64, 2)},
        prompts_sha256=None,
        scorer=None,
        policy=None,
        sampling=None,
        environment=environment_facts(),
        git=None,
        outputs=outputs,
        seal=UNSEALED,
    )


@pytest.fixture
def build_manifest() -> Callable[[dict[str, OutputFile]], Manifest]:
    """What ``RunFolder.publish`` asks for."""
    return manifest_of


@pytest.fixture
def write_run() -> WriteRun:
    """Write a sealed run of two files, the first of which holds ``text``."""

    def write(final: Path, text: str = "old\n", *, overwrite: bool = False) -> Path:
        with RunFolder(final, overwrite=overwrite) as run:
            run.create("results.jsonl").write(text.encode())
            run.write("summary.json", b"{}\n")
            run.publish(manifest_of)
        return final

    return write


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, by relative name: two folders are equal when these are."""

    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return read
