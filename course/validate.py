"""Check data files, golden sets and run folders: schema, ids, checksums, rewards, seals.

python -m course.validate                  everything under data/
python -m course.validate runs/demo/base   a run folder
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.core import console

if TYPE_CHECKING:
    from course.core.file_checks import Problem, Report

EXAMPLE = """  python -m course.validate
  python -m course.validate my_dataset.jsonl my_completions.jsonl
  python -m course.validate data/golden/final_answer/exploits.jsonl --scorer final_answer
  python -m course.validate runs/demo/base --scorer final_answer

Exits 0 when all is well, 2 for bad data, 1 when only a golden row or a seal said no."""

FAST = 1_000_000  # bytes that are checked before a progress bar could be read
SHOWN = 50  # problems printed per file; --json has them all


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.validate`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    from course.core.paths import DATA

    with redirect_stdout(sys.stderr):  # a plugged scorer may print; stdout is the answer alone
        reports = [report for path in args.paths or [DATA] for report in _check(path, args)]
    problems = [problem for report in reports for problem in report.problems]
    if args.json:
        console.answer_json(_as_json(reports))
    else:
        for report in reports:
            _show(report)
        files, count = len(reports), len(problems)
        console.answer(f"{files} checked, {count or 'no'} problem{'s' if count != 1 else ''}")
    if not problems:
        return 0
    return 1 if all(problem.gate for problem in problems) else 2


def _parse(argv: Sequence[str] | None) -> Namespace:
    from course.core.schemas import OBJECTS, ROWS

    parser = console.parser(
        "validate",
        "Check files and run folders of every kind that is read or written here, and report all\n"
        "problems at once with file:line. Never writes anything.",
        EXAMPLE,
    )
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files, run folders, or a data folder with "
        "CHECKSUMS.json (default: the course's data)",
    )
    add(
        "--kind",
        choices=[*ROWS, *OBJECTS],
        help="what the files are (default: told from their keys)",
    )
    add(
        "--scorer",
        metavar="S",
        help="score golden sets, or a run's rows, with this scorer; golden sets "
        "in a folder named after a built-in scorer need none",
    )
    add("--json", action="store_true", help="print the reports as JSON, and nothing else")
    return parser.parse_args(argv)


def _check(path: Path, args: Namespace) -> list["Report"]:
    from course.core.checksums import CHECKSUMS
    from course.core.errors import DataError
    from course.core.file_checks import Report, check_checksums, listed_files
    from course.core.paths import display
    from course.evaluation.rechecks import check_run

    if path.is_dir() and (path / CHECKSUMS).is_file():
        rest = [report for file in listed_files(path) for report in _check(file, args)]
        return [check_checksums(path), *rest]
    try:
        if not path.is_dir():
            return [_check_file(path, args)]
        with console.progress(
            display(path), _size(path / "results.jsonl"), quiet_below=FAST
        ) as progress:
            return [check_run(path, args.scorer, progress)]
    except DataError as error:  # an unreadable file is a problem like any other: go on
        return [Report(display(path), "unreadable", 0, [_as_problem(path, str(error))], [])]


def _check_file(path: Path, args: Namespace) -> "Report":
    from course.core.file_checks import check_file, kind_of
    from course.core.paths import display
    from course.evaluation.rechecks import check_golden

    kind = args.kind or kind_of(path)
    with console.progress(display(path), _size(path), quiet_below=FAST) as progress:
        if kind == "golden":
            return check_golden(path, args.scorer, progress)
        return check_file(path, kind, progress=progress)


def _as_problem(path: Path, text: str) -> "Problem":
    from course.core.file_checks import Problem
    from course.core.paths import display

    shown = display(path)
    return Problem(shown, None, text.removeprefix(shown).lstrip(": "))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _as_json(reports: list["Report"]) -> dict[str, Any]:
    return {
        "valid": not any(report.problems for report in reports),
        "reports": [
            {**report._asdict(), "problems": [problem._asdict() for problem in report.problems]}
            for report in reports
        ],
    }


def _show(report: "Report") -> None:
    mark = ("ok    ", "green") if not report.problems else ("FAILED", "bold red")
    unit = "file" if report.kind == "checksums" else "row"
    rows = f", {report.rows} {unit}{'s' if report.rows != 1 else ''}" if report.rows else ""
    notes = f" ({'; '.join(report.notes)})" if report.notes else ""
    console.styled(mark, f"  {report.path}  {report.kind}{rows}{notes}")
    for problem in report.problems[:SHOWN]:
        console.answer(f"        {console.printable(str(problem))}")
    if len(report.problems) > SHOWN:
        console.answer(f"        and {len(report.problems) - SHOWN} more; --json lists them all")


if __name__ == "__main__":
    sys.exit(main())
