"""Kill ``course.eval`` with SIGKILL, many times and at random moments, and look at what is left.

    python tests/artifacts/kill_eval.py --kills 200

The claim: whatever the moment, a run folder under its final name is a whole, sealed run, and an
earlier run that was to be overwritten is never lost. A third of the kills fall anywhere in a run,
a third in its last 15 %, and a third are set off by the run itself: when its manifest appears, or
when its folder reaches its final place. Half of the runs overwrite an earlier one; some of those
take the longer way of a system that cannot swap two folders in one step. After every kill an
ordinary run into the same folder must succeed and leave nothing beside it.

Exits 1 when anything was torn, lost or in the way. The seed fixes the plan, not the machine's pace.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from course.artifacts.manifest import MANIFEST
from course.artifacts.run_folder import PARTIAL, PREVIOUS
from course.artifacts.seal import open_run
from course.core.errors import CourseError
from course.core.paths import ROOT

WITHOUT_EXCHANGE = """
import sys, course.artifacts.run_folder as run_folder
run_folder.exchange = lambda one, other: False
from course.eval import main
sys.exit(main())
"""
MOMENTS = ("anywhere", "last 15 %", "anywhere", "last 15 %", "manifest written", "folder renamed")


@dataclass(frozen=True)
class Plan:
    """One trial: when to kill, and what stands in the folder before."""

    moment: str
    share: float
    """Of a whole run's time, or of the few milliseconds after a moment that the run sets off."""
    overwrite: bool
    exchange: bool


def main() -> int:
    """Kill, look, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of a run (default 50000)")
    parser.add_argument("--seed", type=int, default=0, help="fixes the plan (default 0)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill_eval_") as folder:
        room = Room(Path(folder), args.rows)
        counts, failures = Counter[str](), []
        for plan in plans(args.seed):
            found, failure = trial(room, plan)
            if found == "too late":
                continue
            counts[found] += 1
            counts[f"  {plan.moment}"] += 1
            failures += [f"{plan}: {failure}"] if failure else []
            done = sum(count for name, count in counts.items() if not name.startswith(" "))
            if done % 20 == 0 or done == args.kills or failure:
                print(f"{done}/{args.kills} kills, {len(failures)} failures", file=sys.stderr)
            if done == args.kills:
                break
    return report(args.kills, room.usual, counts, failures)


def report(kills: int, usual: float, counts: Counter[str], failures: list[str]) -> int:
    """Print what was found; return the exit code."""
    print(f"{kills} kills of course.eval, whose whole run takes {usual:.2f} s here\n")
    print("what stood under the final name")
    for name in ("nothing", "the earlier run", "the earlier run, set aside", "the new run", "torn"):
        print(f"  {name:<28} {counts[name]:>4}")
    print("when the kill came")
    for name in dict.fromkeys(MOMENTS):
        print(f"  {name:<28} {counts[f'  {name}']:>4}")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"\ntorn, lost or in the way: {len(failures)}")
    return 1 if failures else 0


class Room:
    """A folder with inputs, and the one run folder that all trials write."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder / "runs"
        self.folder.mkdir()
        self.final = self.folder / "run"
        self.large, self.small = folder / "large", folder / "small"
        write_inputs(self.large, rows)
        write_inputs(self.small, 50)
        self.durations = deque([self.whole_run() for _ in range(3)], maxlen=5)

    @property
    def usual(self) -> float:
        """Seconds of a whole run, as it went lately."""
        return sorted(self.durations)[len(self.durations) // 2]

    def whole_run(self) -> float:
        """Time one run that nobody kills."""
        began = time.perf_counter()
        assert self.start(self.large, "--overwrite").wait() == 0
        return time.perf_counter() - began

    def start(self, inputs: Path, *flags: str, exchange: bool = True) -> subprocess.Popen[bytes]:
        """Start ``course.eval`` as a process of its own."""
        door = ["-m", "course.eval"] if exchange else ["-c", WITHOUT_EXCHANGE]
        files = [f"--dataset={inputs}.dataset.jsonl", f"--completions={inputs}.completions.jsonl"]
        command = [sys.executable, *door, *files, f"--outdir={self.final}", *flags]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)


def write_inputs(stem: Path, rows: int) -> None:
    """Write a dataset of additions and completions of it, every third one wrong."""
    with (
        Path(f"{stem}.dataset.jsonl").open("w") as dataset,
        Path(f"{stem}.completions.jsonl").open("w") as completions,
    ):
        for n in range(rows):
            example = {"id": f"a-{n}", "prompt": f"{n} + 1 = ?", "expected_answer": n + 1}
            completion = {"id": f"a-{n}", "completion": f"Final: {n + (n % 3 > 0)}"}
            dataset.write(json.dumps(example) + "\n")
            completions.write(json.dumps(completion) + "\n")


def plans(seed: int) -> Iterator[Plan]:
    """Draw trials without end: each moment equally often, in groups that cover all of them."""
    draw = random.Random(seed)
    while True:
        moments = [*MOMENTS]
        draw.shuffle(moments)
        for moment in moments:
            overwrite = draw.random() < 0.5
            yield Plan(moment, draw.random(), overwrite, not overwrite or draw.random() < 0.6)


def trial(room: Room, plan: Plan) -> tuple[str, str | None]:
    """Kill one run.

    Returns: what stood under the final name, or "too late"; and what is wrong with that, if
    anything is.
    """
    earlier = run_id(room.final) if plan.overwrite else None
    if not plan.overwrite:
        shutil.rmtree(room.final)
    if not kill_one(room, plan):
        return "too late", None
    try:
        return judge(room, plan, earlier)
    finally:
        if sorted(room.folder.iterdir()) != [room.final]:  # a failure, which has been reported
            shutil.rmtree(room.folder)
            room.folder.mkdir()
            assert room.start(room.small).wait() == 0


def kill_one(room: Room, plan: Plan) -> bool:
    """Start a run and kill it as planned; False when it ended first."""
    flags = ["--overwrite"] if plan.overwrite else []
    before = inode(room.final)
    began = time.perf_counter()
    process = room.start(room.large, *flags, exchange=plan.exchange)
    if plan.moment == "anywhere":
        wait(process, plan.share * room.usual)
    elif plan.moment == "last 15 %":
        wait(process, (0.85 + 0.15 * plan.share) * room.usual)
    else:
        manifest = room.final.with_name(room.final.name + PARTIAL) / MANIFEST
        while process.poll() is None:
            if plan.moment == "manifest written" and manifest.exists():
                break
            if plan.moment == "folder renamed" and inode(room.final) != before:
                break
        wait(process, max(0.0, plan.share - 0.5) * 0.008)  # half of them at once
    process.kill()
    if process.wait() == -signal.SIGKILL:
        return True
    assert process.returncode == 0, f"course.eval ended with {process.returncode} by itself"
    room.durations.append(time.perf_counter() - began)
    return False


def judge(room: Room, plan: Plan, earlier: str | None) -> tuple[str, str | None]:
    """Say what the kill left, and whether an ordinary run can follow."""
    aside = room.final.with_name(room.final.name + PREVIOUS)
    if room.final.exists():
        try:
            found = "the earlier run" if run_id(room.final) == earlier else "the new run"
        except CourseError as error:
            shutil.rmtree(room.final)
            return "torn", str(error)
    elif earlier is None:
        found = "nothing"
    elif not plan.exchange and run_id(aside) == earlier:
        found = "the earlier run, set aside"
    else:
        return "torn", "the earlier run is lost"

    kept = None if found == "nothing" else run_id(aside if "aside" in found else room.final)
    code = room.start(room.small).wait()  # without --overwrite: it must not touch what is there
    if code != (0 if kept is None else 2):
        return found, f"the next run ended with {code}"
    if kept is not None and run_id(room.final) != kept:
        return found, "the next run touched the one that was there"
    if room.start(room.small, "--overwrite").wait() != 0:
        return found, "a run with --overwrite did not succeed"
    run_id(room.final)
    left = sorted(path.name for path in room.folder.iterdir())
    return found, None if left == [room.final.name] else f"left beside the run: {left}"


def run_id(folder: Path) -> str:
    """Open a run, which checks its seal, and say which one it is."""
    return open_run(folder).manifest.run_id


def inode(folder: Path) -> int | None:
    """Tell one folder under a name from another."""
    with suppress(FileNotFoundError):
        return folder.stat().st_ino
    return None


def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait, but no longer than the process lives."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


if __name__ == "__main__":
    sys.exit(main())
