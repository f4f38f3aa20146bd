"""Loop A: measure completions of a dataset and leave a sealed run folder.

python -m course.eval --dataset DATASET.jsonl --completions COMPLETIONS.jsonl
"""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from course.core import console
from course.core.flags import whole

if TYPE_CHECKING:
    from course.core.records import EvalSummary, Manifest
    from course.evaluation.evaluate import Evaluation
    from course.scoring.contract import Scorer

FAST = 3_000_000  # bytes that are scored before a progress bar could be read
MOST_OUTCOMES = 20  # outcome codes that are printed; summary.json has all
EXAMPLE = """  python -m course.eval --dataset data/datasets/math_dev.jsonl \\
      --completions data/rollouts/frozen_rollouts_dev.jsonl --outdir runs/first

  then look at why it failed:
  python -m course.inspect_run --run runs/first --only-fails

a scorer is a function score(example, completion) -> {"reward": 1.0, "details": {"code": "ok"}};
a sampling file looks like {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 12, "n": 1,
"greedy": false, "seed": 0}.

exit codes: 0 done, 1 some rows are unscored, 2 bad input, 3 this machine lacks something."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.eval`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    from course.artifacts.run_folder import RunFolder, next_free
    from course.core.paths import RUNS, display
    from course.evaluation.eval_run import write_eval_run
    from course.evaluation.evaluate import Request, total_bytes
    from course.evaluation.origin import origin_of, with_declared
    from course.scoring.contract import load_scorer

    with redirect_stdout(sys.stderr):  # a plugged scorer may print; stdout is the answer alone
        scorer = load_scorer(args.scorer)
        origin = origin_of(args.completions)
        if args.sampling:
            origin = with_declared(origin, args.sampling)
        request = Request(
            args.dataset, args.completions, scorer, origin.sampling, args.max, args.ask_twice
        )
        outdir = args.outdir or next_free(RUNS, f"eval-{args.completions.stem}")
        words = list(sys.argv[1:] if argv is None else argv)
        reads = (args.dataset, args.completions)
        with (
            RunFolder(outdir, kind="eval", overwrite=args.overwrite, reads=reads) as folder,
            console.progress("scoring", total_bytes(request), quiet_below=FAST) as progress,
        ):
            evaluation, manifest = write_eval_run(
                request,
                folder,
                origin=origin,
                sampling_file=args.sampling,
                argv=["python", "-m", "course.eval", *words],
                args={k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()},
                progress=progress,
            )
    for note in evaluation.notes:
        console.say(f"note: {note}")
    run_dir = display(folder.final)
    if args.json:
        console.answer_json(_as_json(evaluation.summary, manifest, run_dir))
    else:
        _show(evaluation, scorer, manifest)
        console.answer(run_dir)
    return _gate(evaluation.summary, run_dir, allow_unscored=args.allow_unscored)


def _parse(argv: Sequence[str] | None) -> Namespace:
    parser = console.parser(
        "eval",
        "Score the completions of a dataset and write a sealed run folder: results.jsonl,\n"
        "summary.json, summary.md and manifest.json.",
        EXAMPLE,
    )
    add = parser.add_argument
    add("--dataset", type=Path, required=True, metavar="FILE", help="JSONL: id, prompt, answer")
    add(
        "--completions",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSONL: id, completion; with a sample_index where an example has several",
    )
    add(
        "--outdir",
        type=Path,
        metavar="DIR",
        help="the run folder to write (default: eval-NAME-001 ..., in the repository's runs/)",
    )
    add(
        "--scorer",
        default="final_answer",
        metavar="S",
        help="final_answer (default), single_line, anywhere, path/to/file.py:score or "
        "package.module:score",
    )
    add(
        "--sampling",
        type=Path,
        metavar="FILE",
        help="JSON that says how the completions were sampled: temperature, top_p, max_new_tokens, "
        "n, greedy, seed (completions inside a sample run bring it along)",
    )
    add("--max", type=whole(1), metavar="N", help="score only the first N examples: a quick look")
    add(
        "--ask-twice",
        action="store_true",
        help="call the scorer twice on each completion, to catch a nondeterministic one",
    )
    add("--allow-unscored", action="store_true", help="exit 0 even if some rows have no reward")
    add(
        "--overwrite",
        action="store_true",
        help="replace the run in --outdir once the new one is sealed",
    )
    add("--json", action="store_true", help="print the summary as JSON, and nothing else")
    return parser.parse_args(argv)


def _as_json(summary: "EvalSummary", manifest: "Manifest", run_dir: str) -> dict[str, object]:
    import msgspec

    return {"run_dir": run_dir, "run_id": manifest.run_id, **msgspec.to_builtins(summary)}


def _show(evaluation: "Evaluation", scorer: "Scorer", manifest: "Manifest") -> None:
    from course.evaluation.eval_run import detectable_text, rate_text
    from course.scoring.contract import UNSCORED_CODES

    def say(text: str = "") -> None:
        console.answer(console.fit(console.printable(text)))  # names may be hostile

    run, metrics = evaluation.summary.run, evaluation.summary.metrics
    outcomes = evaluation.summary.outcomes
    explained = {**scorer.codes, **UNSCORED_CODES}
    rate = rate_text(metrics.pass_rate, metrics.pass_rate_low, metrics.pass_rate_high)
    several = f", {run.n_completions} completions" if run.n_completions > run.n_examples else ""
    of_all = f" of {evaluation.dataset.rows}" if evaluation.dataset.rows != run.n_examples else ""
    say(f"{run.name}: {run.n_examples}{of_all} examples{several}, scorer {run.scorer}")
    say()
    say(
        f"  pass rate            {rate}  (95 % interval; {metrics.n_pass} of {run.n_scored} passed)"
    )
    if metrics.mean_reward is not None and metrics.mean_reward != metrics.pass_rate:
        say(f"  mean reward          {metrics.mean_reward:.3f}")
    say(f"  detectable increase  {detectable_text(metrics.detectable_difference)}")
    if run.n_truncated:
        say(f"  cut at token limit   {run.n_truncated}")
    say()
    rows = sum(outcomes.values())
    shown = dict(list(outcomes.items())[:MOST_OUTCOMES])
    width = max(len(console.one_line(code, 30)) for code in shown)
    for code, count in shown.items():
        share = count / rows
        meaning = explained.get(code, "")
        say(
            f"  {console.one_line(code, 30):<{width}} {count:>8} {share:>7.1%}  "
            f"{console.bar(share, 12):<12}  {console.one_line(meaning, 90)}".rstrip()
        )
    if len(outcomes) > len(shown):
        say(f"  and {len(outcomes) - len(shown)} more outcome codes; a code is best a short name")
    say()
    say(f"  sealed {manifest.seal[:12]}, {manifest.duration_s:.2f} s; the run folder:")


def _gate(summary: "EvalSummary", run_dir: str, *, allow_unscored: bool) -> int:
    """Say loudly that rows are unscored. They are no zeros, so the rate is not about them."""
    run = summary.run
    if not run.n_unscored:
        return 0
    failed = run.n_unscored - run.n_missing
    rows = sum(summary.outcomes.values())
    level = "note" if allow_unscored else "UNSCORED"
    console.say(
        f"{level}: {run.n_unscored} of {rows} rows have no reward. They count neither as passed "
        "nor as failed: the pass rate leaves them out."
    )
    if failed:
        console.say(f"  The scorer failed on {failed}. What went wrong, first:")
        for error in run.first_errors:
            console.say(f"    {console.one_line(error, 300)}")
    if run.n_missing:
        shown = ", ".join(console.one_line(name, 60) for name in run.first_missing)
        more = ", ..." if run.n_missing > len(run.first_missing) else ""
        console.say(f"  {run.n_missing} examples have no completion: {shown}{more}")
    code = "scorer_error" if failed else "missing_completion"
    run_dir = shlex.quote(run_dir)
    console.say(f"  See them: python -m course.inspect_run --run {run_dir} --code {code}")
    return 0 if allow_unscored else 1


if __name__ == "__main__":
    sys.exit(main())
