"""Stop a run that commits, go on with it, and compare with a run that nobody stopped.

    python tests/artifacts/stop_and_resume.py steps FOLDER      before every single step it takes
    python tests/artifacts/stop_and_resume.py kills FOLDER 100  by SIGKILL, at random moments

The run is of all that a run can be made of: a file that grows, files in a subfolder, bytes that are
carried from commit to commit and are no part of it. Prints one JSON list of what was found.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from course.artifacts.manifest import MANIFEST, UNSEALED
from course.artifacts.run_folder import PREVIOUS, RunFolder
from course.artifacts.seal import seal_problems
from course.core.errors import UsageError
from course.core.records import Command, Manifest, OutputFile

FINISHED = 7
WATCHED = ("open", "os.", "shutil.", "fcntl.", "ctypes.")
SETTINGS = {"seed": 0}
SMALL: dict[str, int] = {"steps": 3, "rows": 2}
LARGE: dict[str, int] = {"steps": 12, "rows": 2000, "size": 500_000}
Tell = Callable[[int], object]

os.fsync = lambda fd: None  # a power cut is not tried here, and a kill loses nothing written


def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
    """The same manifest for the same outputs."""
    facts: dict[str, Any] = dict.fromkeys(Manifest.__struct_fields__)
    facts |= {"schema_version": 1, "kind": "train", "run_id": "r", "created_utc": "t"}
    facts |= {"duration_s": 0.0, "command": Command([], {}), "inputs": {}, "environment": {}}
    return msgspec.convert(facts | {"outputs": outputs, "seal": UNSEALED}, Manifest)


def carry_of(step: int, size: int) -> bytes:
    """What is carried after a step: different bytes each time."""
    return hashlib.shake_256(b"%d" % step).digest(size)


def write_run(
    final: Path,
    *,
    steps: int,
    rows: int,
    size: int = 100,
    overwrite: bool = False,
    resume: bool = False,
    tell: Tell = lambda step: None,
) -> None:
    """Write a run of some steps, with a commit after each.

    Args:
        rows: how many rows a step appends; those of a step depend on what the step before carried.
        size: bytes of a checkpoint, and of what is carried.
        tell: called with the step where the run begins or goes on, and after every commit.
    """
    with RunFolder(
        final, kind="train", overwrite=overwrite, settings=SETTINGS, resume=resume
    ) as run:
        metrics = run.append("metrics.jsonl")
        step = run.progress.get("steps", 0)
        carried = run.carried() or carry_of(0, size)
        tell(step)
        while step < steps:
            for row in range(rows):
                metrics.write(b"%d %d %s\n" % (step, row, carried[:8].hex().encode()))
            run.write(f"checkpoints/{step}.bin", carried)
            step, carried = step + 1, carry_of(step + 1, size)
            run.commit({"steps": step}, carry=carried)
            tell(step)
        run.write("summary.json", b"%d\n" % step)
        run.publish(manifest_of)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class Stopped:
    """A writer in a process of its own; it says over a pipe how far it came."""

    def __init__(self, body: Callable[[Tell], None]) -> None:
        self.told: list[int] = []
        self._pipe, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(theirs)
            return
        try:
            body(lambda step: os.write(theirs, bytes([step])))
            os._exit(FINISHED)
        finally:
            os._exit(0)

    def listen(self, words: int) -> None:
        """Wait until it has spoken of so many steps, or has ended."""
        while len(self.told) < words and (said := os.read(self._pipe, 1)):
            self.told += said

    def wait(self) -> tuple[bool, list[int]]:
        """Wait for its end: whether it finished, and the steps it spoke of."""
        self.listen(sys.maxsize)
        os.close(self._pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return code == FINISHED, self.told


def look(final: Path, finished: dict[str, bytes]) -> str:
    """Say what stands under the final name."""
    if not final.exists():
        previous = final.with_name(final.name + PREVIOUS)
        return "old, set aside" if (previous / MANIFEST).exists() else "nothing"
    if seal_problems(final):
        return "torn"
    return "new" if contents(final) == finished else "old"


def every_step(folder: Path) -> list[dict[str, Any]]:
    """Stop before each step of a run that has been stopped once before, and go on.

    The second session goes on with the first one's work, beside an earlier run or not; or it
    discards that work.
    """
    write_run(folder / "whole", **SMALL)
    finished = contents(folder / "whole")
    found = []
    for kind, kill in product(("alone", "earlier run", "discard"), (True, False)):
        earlier, discard = kind == "earlier run", kind == "discard"
        for number in count():
            final = folder / f"{kind}-{kill:d}-{number}" / "run"
            final.parent.mkdir()
            if earlier:
                write_run(final, steps=1, rows=1)
            Stopped(partial(begin, final, earlier)).wait()
            done, told = Stopped(partial(go_on, final, earlier, discard, number, kill)).wait()
            if done:
                break
            left = look(final, finished)
            seen: list[int] = []
            again = True
            try:
                write_run(final, **SMALL, overwrite=earlier, resume=True, tell=seen.append)
            except UsageError as error:
                again = "is finished" not in str(error)
            found.append(
                {
                    "case": f"{kind} kill={kill} step={number}",
                    "earlier": earlier,
                    "left": left,
                    "lost": left != "new" and not discard and seen[0] < max([1, *told]),
                    "again": again,
                    "same": contents(final) == finished,
                    "beside": sorted(set(os.listdir(final.parent)) - {"run"}),
                }
            )
            shutil.rmtree(final.parent)
    return found


def begin(final: Path, overwrite: bool, tell: Tell) -> None:
    """Write a run that is killed when its first commit is done."""

    def told(step: int) -> None:
        tell(step)
        if step:
            os.kill(os.getpid(), signal.SIGKILL)

    write_run(final, **SMALL, overwrite=overwrite, tell=told)


def go_on(final: Path, earlier: bool, discard: bool, number: int, kill: bool, tell: Tell) -> None:
    """Go on with a run, or begin it anew, until it is stopped before its n-th step."""
    numbers = count()

    def hook(event: str, _: object) -> None:
        if event.startswith(WATCHED) and next(numbers) == number:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt

    sys.addaudithook(hook)
    write_run(final, **SMALL, overwrite=earlier or discard, resume=not discard, tell=tell)


def random_kills(folder: Path, kills: int) -> list[dict[str, Any]]:
    """Kill runs until there were enough kills, each run again and again until it finishes."""
    began = time.perf_counter()
    write_run(folder / "whole", **LARGE)
    usual = time.perf_counter() - began
    finished = contents(folder / "whole")
    draw, found = random.Random(0), []
    for number in count():
        final = folder / f"run-{number}"
        reached, done = 0, False
        while not done:
            writer = Stopped(partial(resumed, final))
            if len(found) < kills:
                writer.listen(draw.randrange(4))
                time.sleep(draw.random() * usual / LARGE["steps"])
                os.kill(writer.pid, signal.SIGKILL)
            done, told = writer.wait()
            left = look(final, finished)
            lost = bool(told) and told[0] < reached
            reached = max([reached, *told])
            found.append({"run": number, "left": left, "lost": lost, "reached": reached})
            done = done or left == "new"
        shutil.rmtree(final)
        if len(found) >= kills:
            return found
    raise AssertionError


def resumed(final: Path, tell: Tell) -> None:
    """Go on with a run, or begin it."""
    write_run(final, **LARGE, resume=True, tell=tell)


def main() -> int:
    """Do what was asked."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    found = every_step(folder) if what == "steps" else random_kills(folder, int(sys.argv[3]))
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
