"""Measure Loop A: speed and memory over a floor, against rivals, at start-up, and how it scales.

Each subcommand prints one markdown table. Everything that is compared is measured in one run, in
turns, so that a busy machine slows both sides of a ratio; the tables of record, and how to read
them, are in benchmarks/README.md. It measures, it does not judge: no target makes it fail.

    python benchmarks/loop_a.py speed
    python benchmarks/loop_a.py rivals --python ../rivals-venv/bin/python
    python benchmarks/loop_a.py startup
    python benchmarks/loop_a.py linear

It runs under the project's environment. Exit codes: 2 when data is missing or wrong, 3 when the
rivals' environment is.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, cycle, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `course` is found whether or not it is installed

DEV = ROOT / "data/datasets/math_dev.jsonl"
DEV_ROLLOUTS = ROOT / "data/rollouts/frozen_rollouts_dev.jsonl"
TEST = ROOT / "data/datasets/math_test.jsonl"
TEST_PACK = ROOT / "data/packs/selection_pack_test.jsonl"
CYCLE = 1600  # made-up rows repeat after this many: 200 problems x 8 forms of completion
MB = 1e6

HELP = """examples:
  python benchmarks/loop_a.py speed --rows 100000 --repeats 1        a quick look
  python benchmarks/loop_a.py rivals --python ../rivals-venv/bin/python
  python benchmarks/loop_a.py startup
  python benchmarks/loop_a.py linear"""


class Run(NamedTuple):
    """What one finished process took."""

    seconds: float  # wall clock, interpreter start and fsync included
    cpu: float  # seconds of CPU, user and system
    peak: float  # highest resident memory (VmHWM), in MB of 10^6 bytes


def main() -> int:
    """Run one benchmark and print its table."""
    args = parse_args()
    load = os.getloadavg()[0]
    args.run(args)
    print(
        f"\nPython {platform.python_version()}, {os.cpu_count()} cores, load "
        f"{load:.2f} at the start and {os.getloadavg()[0]:.2f} at the end (one of it ours)."
    )
    return 0


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(description=__doc__, epilog=HELP, **style)
    add = parser.add_subparsers(required=True, metavar="BENCHMARK").add_parser

    speed_parser = add("speed", help="a large evaluation over the floor, and its memory")
    speed_parser.add_argument("--rows", type=at_least(CYCLE), default=1_000_000)
    speed_parser.add_argument("--repeats", type=at_least(1), default=3)
    speed_parser.set_defaults(run=speed)

    rivals_parser = add("rivals", help="the same completions, scored by math-verify and lm-eval")
    rivals_parser.add_argument(
        "--python", type=Path, required=True, help="the Python of an environment that has both"
    )
    rivals_parser.add_argument(
        "--rows-file",
        type=Path,
        help="JSONL: completion, expected_answer (default: the 2,000 frozen test completions)",
    )
    rivals_parser.add_argument("--repeats", type=at_least(1), default=3)
    rivals_parser.add_argument(
        "--loop-rows", type=at_least(1), default=1_000_000, help="repeat them so often for Loop A"
    )
    rivals_parser.set_defaults(run=rivals)

    startup_parser = add("startup", help="what a small command costs over bare Python")
    startup_parser.add_argument("--repeats", type=at_least(1), default=15)
    startup_parser.set_defaults(run=startup)

    linear_parser = add("linear", help="time of each scorer at n, 2n, 4n and 8n characters")
    linear_parser.add_argument("--chars", type=at_least(1000), default=1_000_000)
    linear_parser.set_defaults(run=linear)

    floor_parser = add("floor", help="one run of the floor alone, as `speed` starts it")
    floor_parser.add_argument("kind", choices=["lean", "carrying"])
    for name in ("dataset", "completions", "results", "out"):
        floor_parser.add_argument(name, type=Path)
    floor_parser.add_argument("chunk", type=int)
    floor_parser.add_argument("rows", type=int)
    floor_parser.set_defaults(run=lambda args: sys.exit(floor(args)))
    return parser.parse_args()


def at_least(least: int) -> Callable[[str], int]:
    """Make an argparse type: a whole number of at least `least`."""

    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return number


# ------------------------------------------------------------------------------------------ speed


def speed(args: argparse.Namespace) -> None:
    """Time the floor, an evaluation in order and one shuffled in turns; then twice the rows."""
    need(DEV)
    n = args.rows
    with tempfile.TemporaryDirectory(prefix="loop-a-") as name:
        folder = Path(name)
        small = make_inputs(folder / "small", max(CYCLE, n // 10))
        evaluate(small, "ordered", keep=True)  # warms the caches of bytecode and of files
        chunk = best_chunk(small)
        files = make_inputs(folder / "one", n)
        evaluate(files, "ordered", keep=True)  # leaves the results that the floor is held against
        kinds = ("lean", "carrying", "ordered", "shuffled")
        took: dict[str, list[Run]] = {kind: [] for kind in kinds}
        for turn in range(args.repeats):
            for kind in took if turn % 2 == 0 else reversed(took):
                is_floor = kind in ("lean", "carrying")
                once = run_floor(files, chunk, kind) if is_floor else evaluate(files, kind)
                took[kind].append(once)
        double = make_inputs(folder / "two", 2 * n)
        twice = {kind: evaluate(double, kind) for kind in ("ordered", "shuffled")}
    print_speed(n, chunk, took, twice)


def print_speed(n: int, chunk: int, took: dict[str, list[Run]], twice: dict[str, Run]) -> None:
    """Print the table of `speed`."""
    says = {
        "lean": f"lean floor ({chunk >> 10} KiB at a time)",
        "carrying": "carrying floor",
        "ordered": "`course.eval`, completions in the dataset's order",
        "shuffled": "`course.eval`, completions shuffled",
    }
    print(
        "| what | rows | seconds | rows/s | times the lean floor | in CPU time "
        "| times the carrying floor | in CPU time | peak MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, runs in took.items():
        seconds = [run.seconds for run in runs]
        cells = [says[kind], f"{n:,}", spread(seconds), f"{n / median(seconds):,.0f}"]
        for floor_runs in (took["lean"], took["carrying"]):
            pairs = list(zip(runs, floor_runs, strict=True))
            wall = [run.seconds / base.seconds for run, base in pairs]
            each = ", ".join(f"{ratio:.2f}" for ratio in wall)
            cells.append(f"{median(wall):.2f} ({each})")
            cells.append(f"{median(run.cpu / base.cpu for run, base in pairs):.2f}")
        print("| " + " | ".join([*cells, f"{max(run.peak for run in runs):.0f}"]) + " |")
    for kind, run in twice.items():
        growth = (run.peak - max(r.peak for r in took[kind])) / (n / 1e6)
        print(
            f"| {says[kind]} | {2 * n:,} | {run.seconds:.2f} | {2 * n / run.seconds:,.0f} | | | | "
            f"| {run.peak:.0f}: {growth:+.1f} MB per million rows |"
        )


class Inputs(NamedTuple):
    """The made-up files of one size."""

    folder: Path
    dataset: Path
    ordered: Path
    shuffled: Path
    rows: int
    right: int


def make_inputs(folder: Path, n: int) -> Inputs:
    """Write `n` examples in the words of math_dev, and `n` completions in two orders."""
    folder.mkdir()
    problems = read_jsonl(DEV)
    names = {kind: folder / f"{kind}.jsonl" for kind in ("dataset", "ordered", "shuffled")}
    (folder / "sampling.json").write_text('{"temperature": 1.0, "top_p": 1.0, "n": 1}')
    with names["dataset"].open("w") as dataset, names["ordered"].open("w") as ordered:
        right = 0
        for number in range(n):
            problem = problems[number % len(problems)]
            dataset.write(json.dumps({**problem, "id": f"bench-{number:08d}"}) + "\n")
            row, is_right = completion_row(number, int(problem["expected_answer"]))
            ordered.write(json.dumps(row) + "\n")
            right += is_right
    shuffle = "import random, sys; lines = open(sys.argv[1], 'rb').readlines(); "
    shuffle += "random.Random(1).shuffle(lines); open(sys.argv[2], 'wb').writelines(lines)"
    # In a process of its own: a child's peak memory starts at its parent's.
    run([sys.executable, "-c", shuffle, str(names["ordered"]), str(names["shuffled"])], folder)
    return Inputs(folder, *names.values(), n, right)


def completion_row(number: int, answer: int) -> tuple[dict[str, Any], bool]:
    """Make a completion with log-probs; every second one, in any run of 200, is right."""
    thought = f"First I read the problem again. The numbers give {answer}, so that is it."
    forms = [
        f"Final: {answer}",
        f"{thought}\nFinal: {answer}",
        f"So it is {answer}. Final: {answer}",
        f"Final: {answer}\n",
        f"Final: {answer + 1}",
        f"{thought}\nFinal: {answer + 10}",
        f"The answer is {answer}.",
        f"Final: {answer}. I am sure",
    ]
    form = (number + number // 200) % len(forms)
    own = -0.1 - random.Random(number).random() * 20
    row = {
        "id": f"bench-{number:08d}",
        "completion": forms[form],
        "sum_logprob": own,
        "sum_ref_logprob": own * 1.07,
        "num_tokens": 5 + len(forms[form]) // 4,
        "finish_reason": "length" if form == 7 else "stop",
        "metadata": {"model": "benchmark"},
    }
    return row, form < 4


def evaluate(files: Inputs, kind: str, *, keep: bool = False) -> Run:
    """Run `course.eval` on made-up files; check what it found, and remove the run folder."""
    outdir = files.folder / "run"
    remove(outdir)
    completions = files.ordered if kind == "ordered" else files.shuffled
    sampling = files.folder / "sampling.json"
    words = eval_words(files.dataset, completions, outdir, "--sampling", str(sampling))
    took = run(words, files.folder)
    found = json.loads((outdir / "summary.json").read_text())["metrics"]["n_pass"]
    if found != files.right:
        stop(2, f"course.eval counted {found} right completions; {files.right} were made")
    if keep:
        (outdir / "results.jsonl").rename(files.folder / "results.jsonl")
    remove(outdir)
    return took


def eval_words(dataset: Path, completions: Path, outdir: Path, *more: str) -> list[str]:
    """The command line of one evaluation."""
    flags = {"--dataset": dataset, "--completions": completions, "--outdir": outdir}
    words = [word for flag, path in flags.items() for word in (flag, str(path))]
    return [sys.executable, "-m", "course.eval", *words, *more]


def best_chunk(files: Inputs) -> int:
    """Find the chunk size that makes the floor fastest here: the best of three runs each."""
    sizes = [1 << power for power in (14, 15, 16, 17, 18, 20)]
    took: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(3):
        for size in sizes:
            took[size].append(run_floor(files, size, "lean").seconds)
    return min(sizes, key=lambda size: min(took[size]))


def run_floor(files: Inputs, chunk: int, kind: str) -> Run:
    """Run the floor in a fresh process, and hold what it wrote against the real results."""
    out, results = files.folder / "floor.jsonl", files.folder / "results.jsonl"
    paths = [str(path) for path in (files.dataset, files.ordered, results, out)]
    words = [sys.executable, __file__, "floor", kind, *paths, str(chunk), str(files.rows)]
    took = run(words, files.folder)
    share = out.stat().st_size / results.stat().st_size
    if not 0.99 < share < 1.01:
        stop(2, f"the floor wrote {share:.3f} times the bytes of results.jsonl")
    out.unlink()
    return took


def floor(args: argparse.Namespace) -> int:
    """Parse and hash both inputs and write as many bytes as the results have.

    lean: it encodes rows of the real results over and over, and builds none. carrying: it builds a
    row from each example and completion, as it must to write the same bytes; only the reward, the
    code and the details are made up. Neither checks a line or an id, scores, sums, hashes what it
    writes, or looks for garbage.
    """
    import gc

    import msgspec

    from course.core.records import Completion, EvalRow, Example

    gc.disable()
    with args.results.open("rb") as file:
        lines = b"".join(file.readline() for _ in range(CYCLE))
    real = msgspec.json.Decoder(EvalRow).decode_lines(lines)
    examples = decoded(args.dataset, Example, args.chunk)
    completions = decoded(args.completions, Completion, args.chunk)
    batches = [real[start : start + 100] for start in range(0, CYCLE, 100)]
    encode_lines, written = msgspec.json.Encoder().encode_lines, 0
    with args.out.open("wb") as file:
        if args.kind == "lean":
            for _ in chain(examples, completions):
                pass
            while written < args.rows:
                batch = batches[written // 100 % len(batches)][: args.rows - written]
                file.write(encode_lines(batch))
                written += len(batch)
        else:
            one = chain.from_iterable(examples)
            pairs = zip(one, chain.from_iterable(completions), cycle(real), strict=False)
            while rows := [
                EvalRow(
                    e.id,
                    0,
                    e.prompt,
                    e.expected_answer,
                    c.completion,
                    r.reward,
                    r.outcome_code,
                    r.details,
                    None,
                    c.sum_logprob,
                    c.sum_ref_logprob,
                    r.kl_est,
                    c.num_tokens,
                    c.finish_reason,
                )
                for e, c, r in islice(pairs, 100)
            ]:
                file.write(encode_lines(rows))
        file.flush()
        os.fsync(file.fileno())
    return 0


def decoded(path: Path, row_type: type, chunk: int) -> Iterator[list[Any]]:
    """Parse and hash a file the fastest way msgspec has."""
    import hashlib

    import msgspec

    decode_lines, digest = msgspec.json.Decoder(row_type).decode_lines, hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(chunk) + file.readline():
            digest.update(block)
            yield decode_lines(block)


# ----------------------------------------------------------------------------------------- rivals


class Reading(NamedTuple):
    """One way to read "what the rival does": a path of rivals.py."""

    tool: str
    path: str
    says: str


READINGS = [
    Reading("math-verify", "readme", "`verify(parse(gold), parse(completion))`, as its README"),
    Reading("math-verify", "fastest", "no LaTeX, no time limits, golds parsed beforehand"),
    Reading("lm-eval", "as_shipped", "gsm8k: filters and `process_results` (`exact_match`)"),
    Reading("lm-eval", "evaluate", "gsm8k: `lm_eval.evaluate`, end to end, nothing written"),
    Reading("lm-eval", "filter_and_metric", "filters and `exact_match` alone, per document"),
    Reading("lm-eval", "filter_only", "filters alone (regex, take first): nothing is compared"),
]


def rivals(args: argparse.Namespace) -> None:
    """Score the same completions with the rivals and with ours, in turns."""
    need(args.rows_file) if args.rows_file else need(TEST, TEST_PACK)
    check_rivals(args.python)
    with tempfile.TemporaryDirectory(prefix="loop-a-") as name:
        folder = Path(name)
        rows = read_jsonl(args.rows_file) if args.rows_file else frozen_rows()
        rows_file = folder / "rows.jsonl"
        write_jsonl(rows_file, rows)
        once = paired_files(folder / "once", rows, len(rows))
        many = paired_files(folder / "many", rows, args.loop_rows)
        ours: dict[str, list[float]] = {"scoring": [], "loop": [], "command": []}
        best: dict[tuple[str, str], float] = {}
        n_pass: dict[str, int] = {}
        for _ in range(args.repeats):
            per_pass, n_pass["ours"] = time_scoring(rows)
            ours["scoring"].append(len(rows) / per_pass)
            ours["loop"].append(args.loop_rows / time_eval(many, folder))
            ours["command"].append(len(rows) / time_eval(once, folder))
            for tool in ("math-verify", "lm-eval"):
                report = run_rival(args.python, rows_file, tool)
                n_pass[f"{tool} {report['version']}"] = report["n_pass"]
                for path, took in report["paths"].items():
                    key = tool, path
                    best[key] = max(best.get(key, 0.0), took["rows_per_s_max"])
    print_rivals(len(rows), args.loop_rows, ours, best)
    print(f"\nOf {len(rows):,} completions pass: ", end="")
    print("; ".join(f"{name} {count:,}" for name, count in n_pass.items()) + ".")


def print_rivals(
    n: int,
    loop_rows: int,
    ours: dict[str, list[float]],
    best: dict[tuple[str, str], float],
) -> None:
    """Print the table of `rivals`."""
    scoring, loop = median(ours["scoring"]), median(ours["loop"])
    print(
        "| what is timed | rows/s | our scoring is | our whole Loop A is "
        "|\n|---|---|---|---|\n"
        f"| **ours**: the scorer through the checked contract | {rates(ours['scoring'])} | | |\n"
        f"| **ours**: `course.eval`, these completions {loop_rows:,} rows long, read to sealed "
        f"| {rates(ours['loop'])} | | |\n"
        f"| **ours**: `course.eval` on the {n:,} rows, interpreter start included "
        f"| {rates(ours['command'])} | | |"
    )
    for reading in READINGS:
        rate = best[reading.tool, reading.path]
        print(
            f"| {reading.tool} `{reading.path}`: {reading.says} | {rate:,.0f} "
            f"| {times(scoring / rate)} | {times(loop / rate)} |"
        )


def frozen_rows() -> list[dict[str, Any]]:
    """Join two frozen completions of every test problem with it: 2,000 rows."""
    problems = {row["id"]: row for row in read_jsonl(TEST)}
    return [
        {
            "completion": sample["completion"],
            "expected_answer": str(problems[row["id"]]["expected_answer"]),
            "prompt": problems[row["id"]]["prompt"],
        }
        for row in read_jsonl(TEST_PACK)
        for sample in row["samples"][:2]
    ]


def paired_files(folder: Path, rows: Sequence[dict[str, Any]], n: int) -> tuple[Path, Path]:
    """Write a dataset and completions of `n` rows that go through `rows` again and again."""
    folder.mkdir()
    dataset, completions = folder / "dataset.jsonl", folder / "completions.jsonl"
    ids = [f"row-{number:08d}" for number in range(n)]
    picked = [rows[number % len(rows)] for number in range(n)]
    write_jsonl(
        dataset,
        (
            {"id": i, "prompt": r.get("prompt", ""), "expected_answer": r["expected_answer"]}
            for i, r in zip(ids, picked, strict=True)
        ),
    )
    found = zip(ids, picked, strict=True)
    write_jsonl(completions, ({"id": i, "completion": r["completion"]} for i, r in found))
    return dataset, completions


def time_scoring(rows: Sequence[dict[str, Any]], passes: int = 25) -> tuple[float, int]:
    """Time the default scorer over all rows: seconds of the median pass, and how many pass."""
    from course.scoring.contract import checked, load_scorer

    score = checked(load_scorer("final_answer"))
    pairs = [
        ({"id": "row", "prompt": "", "metadata": {}, **row}, row["completion"]) for row in rows
    ]
    seconds, n_pass = [], 0
    for _ in range(passes):
        start = time.perf_counter()
        n_pass = sum(score(example, completion).reward == 1.0 for example, completion in pairs)
        seconds.append(time.perf_counter() - start)
    return median(seconds), n_pass


def time_eval(files: tuple[Path, Path], folder: Path) -> float:
    """Run the whole command and say how long it took."""
    outdir = folder / "run"
    took = run(eval_words(*files, outdir), folder)
    remove(outdir)
    return took.seconds


def check_rivals(python: Path) -> None:
    """Stop, saying how to make it, where the rivals' environment is not one."""
    probe = [str(python), "-c", "import math_verify, lm_eval"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        problem = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        stop(
            3,
            f"{python} cannot run the rivals ({problem}). Make a scratch environment as "
            "benchmarks/README.md says, and give its Python.",
        )


def run_rival(python: Path, rows_file: Path, tool: str) -> dict[str, Any]:
    """Run rivals.py in the rivals' environment: every path, three passes each."""
    script = Path(__file__).with_name("rivals.py")
    words = [str(python), str(script), str(rows_file), "--tool", tool]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(3, f"rivals.py --tool {tool} failed:\n{done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return report


# ---------------------------------------------------------------------------------------- startup


def startup(args: argparse.Namespace) -> None:
    """Time bare Python, `--help` and a small evaluation in turns."""
    need(DEV, DEV_ROLLOUTS)
    with tempfile.TemporaryDirectory(prefix="loop-a-") as name:
        folder = Path(name)
        outdir = folder / "run"
        commands = {
            "`python -c pass`": [sys.executable, "-c", "pass"],
            "`python -m course.eval --help`": [sys.executable, "-m", "course.eval", "--help"],
            "`python -m course.eval` on math_dev, 200 rows": eval_words(DEV, DEV_ROLLOUTS, outdir),
        }
        took: dict[str, list[float]] = {says: [] for says in commands}
        for turn in range(args.repeats + 1):  # the first turn warms the caches
            for says, words in commands.items():
                seconds = run(words, folder).seconds * 1000
                if turn:
                    took[says].append(seconds)
                remove(outdir)
    bare = next(iter(took.values()))
    print("| command | ms | over bare Python, ms |\n|---|---|---|")
    for says, times_ms in took.items():
        over = [one - base for one, base in zip(times_ms, bare, strict=True)]
        shown = "" if times_ms is bare else f"{median(over):.0f}"
        print(f"| {says} | {spread(times_ms, digits=0)} | {shown} |")


# ----------------------------------------------------------------------------------------- linear


def shapes(n: int) -> Iterator[tuple[str, str, str]]:
    """Yield nasty texts of about `n` characters: what it is, the text, an expected answer."""
    arabic, surrogate = "\u0663", "\ud800"
    yield "`Final:` again and again", "Final:" * (n // 6), "8"
    yield "`Final` without a colon, then an answer", "Final" * (n // 5) + " Final: 8", "8"
    yield "spaces, then an answer", " " * n + "Final: 8", "8"
    yield "an answer, then spaces", "Final: 8" + " " * n, "8"
    yield "the marker, then spaces", "Final:" + " " * n, "8"
    yield "digits", "7" * n, "8"
    yield "the marker, then digits", "Final: " + "7" * n, "8"
    yield "the same, and those are expected", "Final: " + "7" * n, "7" * n
    yield "the marker, then zeros", "Final: " + "0" * n, "8"
    yield "dashes", "-" * n, "8"
    yield "the marker, then dashes", "Final: " + "-" * n, "8"
    yield "dashes and digits in turns", "-7" * (n // 2), "8"
    yield "the marker, then Arabic digits", "Final: " + arabic * n, "8"
    yield "mixed Unicode", f"é{arabic}\u2003\U0001f600{surrogate}-7\x00" * (n // 8), "8"
    yield "the marker, then mixed Unicode", "Final: " + f"7é{arabic}\U0001f600" * (n // 4), "8"


def linear(args: argparse.Namespace) -> None:
    """Time every scorer on every nasty shape at n, 2n, 4n and 8n characters."""
    from course.scoring import BUILTIN_SCORERS
    from course.scoring.contract import checked, load_scorer

    sizes = [args.chars << power for power in range(4)]
    names = [f"{size / 1e6:g}M" for size in sizes]
    doublings = ", ".join(f"{a} to {b}" for a, b in pairwise(names))
    print(f"| scorer | text | outcome | ms at {names[0]} | ms at {names[-1]} | {doublings} |")
    print("|---|---|---|---|---|---|")
    for name in BUILTIN_SCORERS:
        score = checked(load_scorer(name))
        took: dict[str, list[float]] = {}
        codes: dict[str, str] = {}
        for size in sizes:
            for says, text, expected in shapes(size):
                example = {"id": "x", "prompt": "", "expected_answer": expected, "metadata": {}}
                took.setdefault(says, []).append(best_ms(partial(score, example, text)))
                codes[says] = score(example, text).code
        for says, ms in took.items():
            ratios = [b / a for a, b in pairwise(ms)]
            shown = ", ".join(f"{r:.1f}" for r in ratios) if ms[-1] >= 0.05 else "stops early"
            cells = f"`{codes[says]}` | {ms[0]:.3g} | {ms[-1]:.3g} | {shown}"
            print(f"| `{name}` | {says} | {cells} |", flush=True)


def best_ms(call: Callable[[], object], *, at_most: float = 0.6) -> float:
    """Time a call: the best of 3 to 9, in milliseconds."""
    taken: list[float] = []
    while len(taken) < 3 or (len(taken) < 9 and sum(taken) < at_most):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken) * 1000


# ---------------------------------------------------------------------------------------- helpers


def run(words: Sequence[str], folder: Path) -> Run:
    """Run a command from the repository's root to its end; stop if it fails."""
    with (folder / "stderr").open("wb+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-2000:]
            stop(2, f"{' '.join(words)[:300]}: exit {process.returncode}\n{said}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes in which ru_maxrss counts
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / MB)


def remove(outdir: Path) -> None:
    """Delete a run folder, if it is there."""
    if outdir.exists():
        for path in outdir.iterdir():
            path.unlink()
        outdir.rmdir()


def need(*paths: Path) -> None:
    """Stop if a file of the project's data is missing."""
    for path in paths:
        if not path.is_file():
            inside = path.is_relative_to(ROOT / "data")
            shown = path.relative_to(ROOT) if inside else path
            remedy = " Make it: python data/prepare.py generate" if inside else ""
            stop(2, f"{shown} is missing.{remedy}")


def stop(code: int, message: str) -> None:
    """Say what is wrong and exit."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(code)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read a small JSONL file whole."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def write_jsonl(path: Path, rows: Any) -> None:
    """Write rows, one JSON object a line."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Write a median with the least and the greatest value."""
    middle, low, high = median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def rates(values: Sequence[float]) -> str:
    """Write rows per second: the median, the least and the greatest."""
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def times(ratio: float) -> str:
    """Write how many times faster we are: three figures below 1,000."""
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


if __name__ == "__main__":
    sys.exit(main())
