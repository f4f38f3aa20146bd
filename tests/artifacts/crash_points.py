"""Stop a writer before every single step it takes, and print what each stop leaves.

    python tests/artifacts/crash_points.py FOLDER

A step is what Python audits: opening, renaming, removing, listing, locking. The writer is a fork
that stops itself before its n-th step, for n = 0, 1, 2, ... until it reaches its end. It stops by
SIGKILL, or by an exception (Ctrl-C may come anywhere). Prints one JSON list of what was found.
"""

import json
import os
import shutil
import signal
import sys
from itertools import count, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import course.artifacts.run_folder as run_folder
from course.artifacts.manifest import MANIFEST, UNSEALED, environment_facts, new_run_id, utc_now
from course.artifacts.run_folder import PARTIAL, PREVIOUS, RunFolder
from course.artifacts.seal import seal_problems
from course.core.errors import UsageError
from course.core.records import Command, Manifest, OutputFile

FINISHED = 7
WATCHED = ("open", "os.", "shutil.", "fcntl.", "ctypes.")


def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
    """Build the least manifest there is."""
    return Manifest(
        schema_version=1,
        kind="eval",
        run_id=new_run_id(utc_now()),
        created_utc="2026-01-01T00:00:00Z",
        duration_s=0.0,
        command=Command([], {}),
        inputs={},
        prompts_sha256=None,
        scorer=None,
        policy=None,
        sampling=None,
        environment=environment_facts(),
        git=None,
        outputs=outputs,
        seal=UNSEALED,
    )


def write_run(final: Path, text: bytes, *, overwrite: bool) -> None:
    """Write a run of two files."""
    with RunFolder(final, overwrite=overwrite) as run:
        run.create("results.jsonl").write(text)
        run.write("summary.json", b"{}\n")
        run.publish(manifest_of)


def stopped_at(step: int, final: Path, *, overwrite: bool, kill: bool) -> bool:
    """Write a run in a fork that stops before a step; True when it was stopped."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != FINISHED
    steps = count()

    def hook(event: str, _: object) -> None:
        if event.startswith(WATCHED) and next(steps) == step:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt

    try:
        sys.addaudithook(hook)
        write_run(final, b"new\n", overwrite=overwrite)
        os._exit(FINISHED if next(steps) <= step else 0)
    finally:
        os._exit(0)


def look(final: Path) -> str:
    """Say what stands under the final name: nothing, old, new, or torn."""
    if not final.exists():
        aside = final.with_name(final.name + PREVIOUS)
        intact = aside.exists() and not seal_problems(aside)
        return "old, set aside" if intact else "nothing"
    if seal_problems(final):
        return "torn"
    return (final / "results.jsonl").read_text().strip()


def half_beside(final: Path) -> list[str]:
    """Name what stands beside the run with a manifest, and yet is not a whole run."""
    half = []
    for end in (PARTIAL, PREVIOUS):
        beside, copy = final.with_name(final.name + end), final.parent / "copy"
        if (beside / MANIFEST).exists():
            shutil.copytree(beside, copy)  # under a name that would be opened
            half += [beside.name] if seal_problems(copy) else []
            shutil.rmtree(copy)
    return half


def try_all(folder: Path, *, earlier: bool, exchange: bool, kill: bool) -> list[dict[str, object]]:
    """Stop at every step of one kind of write; say what each stop and the next writer left."""
    found: list[dict[str, object]] = []
    for step in count():
        final = folder / f"{earlier:d}{exchange:d}{kill:d}-{step}" / "run"
        final.parent.mkdir(parents=True)
        if earlier:
            write_run(final, b"old\n", overwrite=False)
        if not stopped_at(step, final, overwrite=earlier, kill=kill):
            return found
        left = look(final)
        half = half_beside(final)
        try:
            write_run(final, b"next\n", overwrite=False)
            refused = False
        except UsageError:
            refused = True
        after = look(final)
        write_run(final, b"next\n", overwrite=True)
        clean = [path.name for path in final.parent.iterdir()] == [final.name]
        found.append(
            {
                "case": f"earlier={earlier} exchange={exchange} kill={kill} step={step}",
                "earlier": earlier,
                "kill": kill,
                "left": left,
                "half": half,
                "refused": refused,
                "after": after,
                "clean": clean and look(final) == "next",
            }
        )
    return found


def main() -> int:
    """Try every kind of write."""
    swap, results = run_folder.exchange, []
    for earlier, exchange, kill in product((False, True), (True, False), (True, False)):
        run_folder.exchange = swap if exchange else lambda one, other: False
        results += try_all(Path(sys.argv[1]), earlier=earlier, exchange=exchange, kill=kill)
    json.dump(results, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
