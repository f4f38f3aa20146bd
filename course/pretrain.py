"""Build the base policy anew from a seed, or measure a policy as its card does.

python -m course.pretrain --outdir runs/base
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course.core import console
from course.core.errors import DataError, UsageError
from course.core.flags import whole

if TYPE_CHECKING:
    from course.core.records import Example
    from course.learning.card import Card

EXAMPLE = """  python -m course.pretrain --outdir runs/base
  python -m course.sample --policy tiny:runs/base --dataset data/datasets/math_dev.jsonl

  the card's numbers, measured again on the policy that the repository ships:
  python -m course.pretrain --measure tiny

  a look at how it goes, in a minute:
  python -m course.pretrain --steps 100 --outdir runs/short

Set OMP_NUM_THREADS before the command to choose how many cores it uses.
exit codes: 0 done, 1 a measured policy is not what the card claims of a base, 2 bad input,
3 this machine lacks something."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.pretrain`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    if args.measure is None:
        return _build(args, argv)
    idle = [name for name in ("outdir", "steps", "resume", "overwrite") if getattr(args, name)]
    if idle:
        raise UsageError(f"--measure builds nothing, so --{idle[0]} has no place beside it.")
    return _measure(args)


def _build(args: Namespace, argv: Sequence[str] | None) -> int:
    if args.resume and not args.outdir:
        raise UsageError("--resume needs --outdir: the run that is to be continued.")
    from course.artifacts.run_folder import RunFolder, next_free
    from course.core.paths import RUNS, display, recorded
    from course.learning.pretrain_run import resume_settings, write_pretrain_run
    from course.learning.pretraining import Recipe

    recipe = Recipe(seed=args.seed)
    if args.steps and args.steps < len(recipe.stages):
        raise UsageError(f"--steps must be at least {len(recipe.stages)}: one for each stage.")
    if args.steps:
        recipe = recipe.shortened(args.steps)
    holdout = _holdout(args)
    outdir = args.outdir or next_free(RUNS, "pretrain")
    words = list(sys.argv[1:] if argv is None else argv)
    with (
        RunFolder(
            outdir,
            kind="pretrain",
            overwrite=args.overwrite,
            reads=(args.holdout,),
            settings=resume_settings(recipe, args.holdout),
            resume=args.resume,
        ) as folder,
        console.progress("pretraining", recipe.steps, unit="steps") as progress,
    ):
        card, manifest = write_pretrain_run(
            recipe,
            folder,
            holdout,
            holdout_file=args.holdout,
            argv=["python", "-m", "course.pretrain", *words],
            args={k: recorded(v) if isinstance(v, Path) else v for k, v in vars(args).items()},
            progress=progress,
            say=console.say,
        )
    run_dir = display(folder.final)
    if args.json:
        from course.learning.card import facts

        console.answer_json({"run_dir": run_dir, "run_id": manifest.run_id, **facts(card)})
        return 0
    _show(card)
    console.answer(f"\nsealed {manifest.seal[:12]}, {manifest.duration_s:.0f} s; the run folder:")
    console.answer(run_dir)
    return 0


def _measure(args: Namespace) -> int:
    """Measure a policy; exit 1 when it is not what the card claims."""
    from course.learning.card import batches_of, claims, facts, measure
    from course.policy.opening import open_policy
    from course.policy.tiny import TinyPolicy

    if args.measure.partition(":")[0] != "tiny":
        raise UsageError(f"--measure takes tiny or tiny:FOLDER, not {args.measure!r}.")
    holdout = _holdout(args)
    policy = open_policy(args.measure)
    assert isinstance(policy, TinyPolicy)
    with console.progress("measuring", batches_of(policy, len(holdout))) as progress:
        card = measure(policy, holdout, args.seed, progress)
    if args.json:
        console.answer_json(facts(card))
    else:
        _show(card)
    return 0 if all(holds for _, holds in claims(card)) else 1


def _holdout(args: Namespace) -> "list[Example]":
    from course.core.jsonl import JsonlReader
    from course.core.paths import display
    from course.core.records import Example

    rows = list(JsonlReader(args.holdout, Example))
    if len({row.id for row in rows}) < len(rows):
        shown = display(args.holdout)
        raise DataError(
            f"{shown}: an id stands more than once. `python -m course.validate {shown}` names the "
            "lines."
        )
    return rows


def _show(card: "Card") -> None:
    from course.learning.card import claims, table

    console.answer(f"{card.examples} held-out problems, 12 new tokens, seed {card.seed}\n")
    console.answer(table(card))
    for claim, holds in claims(card):
        console.styled(("yes  ", "bold green") if holds else ("NO   ", "bold red"), claim)


def _parse(argv: Sequence[str] | None) -> Namespace:
    from course.core.paths import DATA

    parser = console.parser(
        "pretrain",
        "Build the base policy from a seed: a run folder that is a policy's folder too, with\n"
        "its card, metrics.jsonl and a sealed manifest.",
        EXAMPLE,
    )
    add = parser.add_argument
    add(
        "--outdir",
        type=Path,
        metavar="DIR",
        help="the run folder to write (default: pretrain-001 ..., in the repository's runs/)",
    )
    add("--seed", type=whole(0), default=0, metavar="N", help="another seed, another policy")
    add("--steps", type=whole(1), metavar="N", help="train so many steps only: a quick look")
    add("--resume", action="store_true", help="go on with the unfinished run in --outdir")
    add(
        "--overwrite",
        action="store_true",
        help="replace the run in --outdir once the new one is sealed",
    )
    add(
        "--measure",
        metavar="P",
        help="build nothing: measure this policy (tiny, tiny:FOLDER) and print its card's numbers",
    )
    add(
        "--holdout",
        type=Path,
        default=DATA / "datasets" / "math_test.jsonl",
        metavar="FILE",
        help="the problems that the card is measured on (default: the shipped math_test)",
    )
    add("--json", action="store_true", help="print the card as JSON, and nothing else")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
