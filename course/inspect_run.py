"""Look at a run: outcomes by count, and examples with the offending part marked.

python -m course.inspect_run --run runs/demo/base --only-fails
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.core import console

if TYPE_CHECKING:
    from course.artifacts.seal import Run
    from course.evaluation.looking import Row, View

EXAMPLE = """  python -m course.inspect_run --run runs/demo/base --only-fails
  python -m course.inspect_run --run runs/demo/base --code trailing_text --show 10
  python -m course.inspect_run --run runs/demo/base --id math-dev-0007"""

AROUND = 280  # characters shown on each side of the marked part
OPEN, CLOSE = "⟦", "⟧"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.inspect_run`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    from course.artifacts.seal import open_run
    from course.core.paths import display
    from course.evaluation.looking import Filter, look

    run = open_run(args.run)
    view = look(run, Filter(args.only_fails, args.code, args.id), top_k=args.top_k, show=args.show)
    if args.json:
        console.answer_json(_as_json(run, view))
        return 0
    _show(run, view, args)
    console.answer(display(run.folder))
    return 0


def _parse(argv: Sequence[str] | None) -> Namespace:
    parser = console.parser(
        "inspect_run",
        "Look at a run: its rows grouped by outcome, and examples of each with the part that\n"
        f"decided the outcome marked like {OPEN}this{CLOSE}. Never writes anything.",
        EXAMPLE,
    )
    add = parser.add_argument
    add("--run", type=Path, required=True, metavar="RUN", help="the run folder")
    add("--only-fails", action="store_true", help="leave out the completions that passed")
    add("--top-k", type=int, default=5, metavar="K", help="outcome groups to show (default 5)")
    add("--show", type=int, default=3, metavar="N", help="examples of each group (default 3)")
    add("--id", metavar="ID", help="only this example, whole, with all of its completions")
    add("--code", metavar="CODE", help="only this outcome code")
    add("--json", action="store_true", help="print what was found as JSON, and nothing else")
    args = parser.parse_args(argv)
    if args.top_k < 1 or args.show < 0:
        parser.error("--top-k must be at least 1 and --show at least 0")
    return args


def _as_json(run: "Run", view: "View") -> dict[str, Any]:
    from course.core.paths import display

    return {
        "run_dir": display(run.folder),
        "kind": run.manifest.kind,
        "rows": view.rows,
        "matching": view.matching,
        "groups": [
            {**group._asdict(), "examples": [row._asdict() for row in group.examples]}
            for group in view.groups
        ],
    }


def _show(run: "Run", view: "View", args: Namespace) -> None:
    scorer = run.manifest.scorer
    by = f", scored by {scorer.name} v{scorer.version}" if scorer else ""
    line = console.styled
    line(f"{run.manifest.kind} run {run.manifest.run_id}: {view.rows} rows{by}")
    if view.matching < view.rows:
        line(f"{view.matching} of them match what you asked for")
    line()
    for group in view.groups:
        share = f"{group.rows:>7} {group.share:>6.1%}"
        style = "green" if group.passed else "bold"
        code = console.one_line(group.code, 40)
        left = f"{share}  {code:<18}"
        meaning = console.fit(console.one_line(group.meaning, 100), indent=len(left) + 1)
        line(share, "  ", (f"{code:<18}", style), f" {meaning}")
    hidden = view.matching - sum(group.rows for group in view.groups)
    if hidden:
        line(f"{hidden:>7}         in further groups; --top-k shows more of them")
    rows = [row for group in view.groups for row in group.examples]
    if args.id:
        rows.sort(key=lambda row: row.sample_index)
    for row in rows:
        line()
        _show_row(row, whole=bool(args.id))
    line()


def _show_row(row: "Row", *, whole: bool) -> None:
    line = console.styled
    sample = f"  sample {row.sample_index}" if row.sample_index or whole else ""
    reward = "unscored" if row.reward is None else f"reward {row.reward:g}"
    line((console.one_line(row.id, 80), "bold cyan"), f"{sample}  {row.outcome_code}  {reward}")
    if row.prompt is not None:
        console.labelled("prompt", [console.printable(row.prompt[: None if whole else 600])])
    if row.expected_answer is not None:
        console.labelled("expected", [console.one_line(row.expected_answer, 100)])
    if row.completion is not None:
        console.labelled(
            "completion", _marked(row.completion, row.details.get("span"), whole=whole)
        )
    if row.details.get("parsed") is not None:
        console.labelled("parsed", [console.one_line(str(row.details["parsed"]), 100)])
    if message := row.details.get("message"):
        console.labelled("because", [console.printable(str(message))])
    if row.error:
        console.labelled("error", [console.printable(row.error)])
    if row.note:
        console.labelled("note", [console.printable(row.note)])


def _marked(text: str, span: Any, *, whole: bool) -> list[str | tuple[str, str]]:
    """A completion with the part that decided its outcome in brackets, cut to what is around it."""
    start, end = _valid_span(text, span)
    if (start, end) == (0, len(text)):  # the code is about the text as a whole
        if whole or len(text) <= 2 * AROUND:
            return [console.printable(text) or "(nothing)"]
        head, tail = text[:AROUND], text[-AROUND:]
        middle_left_out = _left_out(len(text) - 2 * AROUND)
        return [console.printable(head), middle_left_out, console.printable(tail)]
    first = 0 if whole else max(0, start - AROUND)
    last = len(text) if whole else min(len(text), end + AROUND)
    middle = text[start:end]
    if not whole and len(middle) > 2 * AROUND:
        middle, last = middle[: 2 * AROUND], start + 2 * AROUND
    parts: list[str | tuple[str, str]] = [_left_out(first)] if first else []
    parts += [console.printable(text[first:start]), (OPEN + _visible(middle) + CLOSE, "bold red")]
    parts.append(console.printable(text[end:last]) if end <= last else "")
    if last < len(text):
        parts.append(_left_out(len(text) - last))
    return parts


def _valid_span(text: str, span: Any) -> tuple[int, int]:
    """A scorer's span if it makes sense for this text, else the whole text."""
    if isinstance(span, list) and len(span) == 2 and all(type(x) is int for x in span):
        start, end = span
        if 0 <= start <= end <= len(text):
            return start, end
    return 0, len(text)


def _visible(text: str) -> str:
    """Show whitespace that would otherwise not be seen inside the marks."""
    return console.printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _left_out(count: int) -> tuple[str, str]:
    return f" … {count} characters … ", "dim"


if __name__ == "__main__":
    sys.exit(main())
