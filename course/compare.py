"""Compare two runs: is the candidate better, and may that be said at all?

python -m course.compare --baseline runs/demo/base --candidate runs/demo/trained
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.core import console
from course.core.flags import number

if TYPE_CHECKING:
    from course.evaluation.decision import Comparison, Side
    from course.evaluation.paired import Paired

EXAMPLE = """  python -m course.compare --baseline runs/demo/base --candidate runs/demo/trained

PROMOTE needs intact seals, complete runs, a locked room (same dataset, prompts, scorer and
sampling), a difference above 0 and at least --min-delta, and a paired p of at most --alpha."""

MARKS = {"equal": ("=", "green"), "different": ("x", "bold red"), "unknown": ("?", "yellow")}
VERDICTS = {"PROMOTE": "bold green", "REJECT": "bold red", "COMPARED": "bold yellow"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.compare`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    from course.evaluation.decision import Rules, Verdict, compare_runs

    rules = Rules(args.min_delta, args.alpha, args.vary)
    comparison = compare_runs(args.baseline, args.candidate, rules)
    if args.json:
        console.answer_json(_as_json(comparison, args))
    else:
        _show(comparison)
    return 1 if comparison.verdict is Verdict.REJECT else 0


def _parse(argv: Sequence[str] | None) -> Namespace:
    from course.evaluation.locked_room import VARIABLE

    parser = console.parser(
        "compare",
        "Compare two runs: the Locked Room as a checklist, the paired numbers, the verdict.\n"
        "Exits 0 on PROMOTE and COMPARED, 1 on REJECT.",
        EXAMPLE,
    )
    add = parser.add_argument
    add("--baseline", type=Path, required=True, metavar="RUN", help="the run to beat")
    add(
        "--candidate",
        type=Path,
        required=True,
        metavar="RUN",
        help="the run that claims to be better",
    )
    add(
        "--min-delta",
        type=number(0, 1, "a number from 0 to 1"),
        default=0.0,
        metavar="D",
        help="the least difference in pass rate that is worth having, 0 to 1 (default 0.0)",
    )
    add(
        "--alpha",
        type=number(0, 1, "a number from 0 to 1"),
        default=0.05,
        metavar="A",
        help="the largest p that counts as evidence (default 0.05)",
    )
    add(
        "--vary",
        choices=VARIABLE,
        help="the one thing that differs "
        "on purpose; if pass rates then mean different things the verdict is COMPARED",
    )
    add("--json", action="store_true", help="print the comparison as JSON, and nothing else")
    return parser.parse_args(argv)


def _as_json(comparison: "Comparison", args: Namespace) -> dict[str, Any]:
    from course.core.paths import display

    paired = comparison.paired
    return {
        "verdict": comparison.verdict.value,
        "reasons": [{"reason": f.reason.value, "text": f.text} for f in comparison.findings],
        "caveats": comparison.caveats,
        "room": [
            {
                "name": c.name,
                "status": c.status.value,
                "violates": c.violates,
                "varied": c.varied,
                "text": c.text,
            }
            for c in comparison.checks
        ],
        "baseline": _side_json(comparison.baseline),
        "candidate": _side_json(comparison.candidate),
        "paired": _paired_json(paired) if paired else None,
        "rules": {"min_delta": args.min_delta, "alpha": args.alpha, "vary": args.vary},
        "run_dir": display(args.candidate),
    }


def _side_json(side: "Side") -> dict[str, Any]:
    import msgspec

    from course.core.paths import display

    metrics = msgspec.to_builtins(side.summary.metrics) if side.summary else None
    run_id = side.manifest.run_id if side.manifest else None
    return {
        "run_dir": display(side.folder),
        "run_id": run_id,
        "seal": "broken" if side.problems else "intact",
        "problems": side.problems,
        "metrics": metrics,
    }


def _paired_json(paired: "Paired") -> dict[str, Any]:
    import msgspec

    plain = paired._asdict()
    plain["detectable"] = msgspec.to_builtins(paired.detectable)
    return plain


def _show(comparison: "Comparison") -> None:
    from course.core.paths import display

    line = console.styled
    line(("Locked Room", "bold"))
    for name, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        mark, style = ("x", "bold red") if side.problems else ("=", "green")
        state = "broken" if side.problems else "intact"
        line("  ", (f"{mark} {state:<9}", style), f"  seal of {name:<10} {display(side.folder)}")
    for check in comparison.checks:
        mark, style = MARKS[check.status.value]
        tail = ("   (varied on purpose)", "yellow") if check.varied else ""
        words = console.one_line(check.text, 100)
        line("  ", (f"{mark} {check.status.value:<9}", style), f"  {check.name:<18} {words}", tail)
    if comparison.paired:
        line()
        _show_paired(comparison, comparison.paired)
    elif comparison.baseline.summary and comparison.candidate.summary:
        line()
        line(("Not paired: the runs share no scored example in the same order", "bold"))
        _show_rates(comparison, 0)
    line()
    for caveat in comparison.caveats:
        line(("caveat: ", "yellow"), console.printable(caveat))
    for finding in comparison.findings:
        line((f"{finding.reason.value}: ", "bold red"), console.printable(finding.text))
    line((comparison.verdict.value, VERDICTS[comparison.verdict.value]), _closing(comparison))
    line(display(comparison.candidate.folder))


def _show_rates(comparison: "Comparison", pairs: int) -> None:
    """Each run's own pass rate, and what it is over when that is not what was paired."""
    from course.evaluation.eval_run import rate_text

    for name, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        if side.summary:
            run, m = side.summary.run, side.summary.metrics
            over = f"  (over all of its {run.n_examples})" if run.n_examples != pairs else ""
            rate = rate_text(m.pass_rate, m.pass_rate_low, m.pass_rate_high)
            console.styled(f"  {name:<12} {rate}{over}")


def _show_paired(comparison: "Comparison", paired: "Paired") -> None:
    from course.evaluation.decision import p_text
    from course.evaluation.eval_run import detectable_text

    line = console.styled
    locked = not any(check.violates for check in comparison.checks)
    about = "" if locked else " (for information only: the room is not locked)"
    line((f"Paired over {paired.pairs} examples", "bold"), about)
    _show_rates(comparison, paired.pairs)
    same = paired.pairs - paired.gained - paired.lost
    line(
        f"  {'flips':<12} {paired.gained} gained, {paired.lost} lost, {same} unchanged"
        + (f", {paired.left_out} left out (unscored)" if paired.left_out else "")
    )
    line(
        f"  {'difference':<12} {paired.difference:+.3f}  [{paired.low:+.3f}, {paired.high:+.3f}]"
        f"  ({100 * paired.level:.10g} % interval)"
    )
    line(f"  {'p':<12} {p_text(paired.p_value)}  (two-sided, {paired.test})")
    line(f"  {'detectable':<12} {detectable_text(paired.detectable)}")


def _closing(comparison: "Comparison") -> str:
    varied = [check.name for check in comparison.checks if check.varied]  # one caveat each
    known = " as far as the runs tell" if len(comparison.caveats) > len(varied) else ""
    how = f"with {' and '.join(varied)} varied on purpose" if varied else "under equal conditions"
    closings = {
        "PROMOTE": f"  the candidate is better, {how}{known}",
        "REJECT": "  the claim does not stand",
        "COMPARED": "  the numbers stand side by side; they do not mean the same thing",
    }
    return closings[comparison.verdict.value]


if __name__ == "__main__":
    sys.exit(main())
