"""Ask a policy for completions of a dataset, or look at one completion token by token.

python -m course.sample --dataset data/datasets/math_dev.jsonl --outdir runs/mine
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from course.core import console
from course.core.errors import UsageError
from course.core.flags import number, whole

if TYPE_CHECKING:
    from course.core.records import Manifest, SampleSummary
    from course.policy.completer import Completer, How, Request

A_QUESTION = (
    "Mia has 46 shells. She finds 33 more shells. How many shells does she have now?\n"
    "End with Final: <int>"
)
EXAMPLE = """  python -m course.sample --dataset data/datasets/math_dev.jsonl --outdir runs/mine
  python -m course.eval --dataset data/datasets/math_dev.jsonl \\
      --completions runs/mine/completions.jsonl

  sixteen samples of each problem, to choose from:
  python -m course.sample --dataset data/datasets/math_dev.jsonl --n 16 --pack --outdir runs/pack

  one completion, token by token:
  python -m course.sample --show

policies: tiny (the shipped base), tiny:FOLDER (one you made), hf:NAME or hf:FOLDER (any causal
language model of transformers), replay:FILE (completions that exist already).

exit codes: 0 done, 1 the policy gave no completion for some, 2 bad input, 3 this machine lacks
something."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course.sample`` and return its exit code."""
    return console.run_door(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    args = _parse(argv)
    _check_together(args)
    if args.show is not None:
        return _show_tokens(args)
    if args.dataset is None:
        raise UsageError(
            "course.sample needs --dataset FILE, the problems to answer (or --show, to look at one "
            "completion). The shipped ones: data/datasets/math_dev.jsonl, math_test.jsonl."
        )
    if args.resume and not args.outdir:
        raise UsageError("--resume needs --outdir: the run that is to be continued.")
    from course.artifacts.run_folder import RunFolder, next_free
    from course.core.paths import RUNS, display, recorded
    from course.evaluation.origin import origin_of
    from course.evaluation.sample_run import read_requests, resume_settings, write_sample_run
    from course.policy.opening import open_policy

    with redirect_stdout(sys.stderr):  # a model's code may print; stdout is the answer alone
        asked = read_requests(args.dataset, args.max)
        completer = open_policy(args.policy, dtype=args.dtype, device=args.device)
        how = _how(args, completer, asked.requests)
        completer.check(asked.requests, how)
        path = getattr(completer, "path", None)  # of a replay
        origin = origin_of(path) if path else None
        if path and args.pack:
            _check_complete(completer, asked.requests, how)
        outdir = args.outdir or next_free(RUNS, f"sample-{args.dataset.stem}")
        words = list(sys.argv[1:] if argv is None else argv)
        with (
            RunFolder(
                outdir,
                kind="sample",
                overwrite=args.overwrite,
                reads=(args.dataset,),
                settings=resume_settings(asked, completer, how, pack=args.pack),
                resume=args.resume,
            ) as folder,
            console.progress(
                "sampling", len(asked.requests) * how.n, unit="completions"
            ) as progress,
        ):
            summary, manifest = write_sample_run(
                asked,
                folder,
                completer,
                how,
                origin=origin,
                pack=args.pack,
                argv=["python", "-m", "course.sample", *words],
                args={k: recorded(v) if isinstance(v, Path) else v for k, v in vars(args).items()},
                progress=progress,
            )
    for note in [*asked.notes, *completer.notes]:
        console.say(f"note: {note}")
    run_dir = display(folder.final)
    if args.json:
        import msgspec

        plain = msgspec.to_builtins(summary)
        console.answer_json({"run_dir": run_dir, "run_id": manifest.run_id, **plain})
    else:
        _show_run(summary, manifest)
        console.answer(run_dir)
    return _gate(summary)


def _check_together(args: Namespace) -> None:
    """Refuse flags that would do nothing beside the others, rather than ignore them."""

    def given(*names: str) -> list[str]:
        flags = [name for name in names if getattr(args, name) not in (None, False)]
        return [f"--{name.replace('_', '-')}" for name in flags]

    drawing = given("temperature", "greedy", "top_p", "max_new_tokens", "seed")
    if args.show is not None:
        idle = given("dataset", "outdir", "pack", "max", "resume", "overwrite", "json")
        idle += ["--n"] if args.n > 1 else []
        if idle:
            raise UsageError(f"--show looks at one completion; {idle[0]} has no place beside it.")
    elif args.price:
        raise UsageError("--price goes with --show: it says what a text would cost there.")
    if args.policy.startswith("replay:") and drawing:
        raise UsageError(
            f"A replay is not sampled: its completions are what they are. Leave {drawing[0]} out."
        )
    if args.greedy and args.temperature not in (None, 0):
        raise UsageError("--greedy is temperature 0; leave one of --greedy and --temperature out.")
    if (args.greedy or args.temperature == 0) and args.n > 1:
        raise UsageError(
            f"Greedy decoding writes the same completion every time, so --n {args.n} would be "
            f"{args.n} copies. Use --n 1, or a temperature above 0."
        )


def _how(args: Namespace, completer: "Completer", requests: "Sequence[Request]") -> "How":
    """Put the sampling flags together, with defaults that fit the policy."""
    from course.policy.completer import How

    temperature = 0.0 if args.greedy else 1.0 if args.temperature is None else args.temperature
    # Greedy: the likeliest token is in every nucleus.
    top_p = 1.0 if temperature == 0 or args.top_p is None else args.top_p
    limit = args.max_new_tokens
    if limit is None and args.policy.startswith("hf:"):
        limit, policy = 256, cast(Any, completer)
        if policy.context:
            longest = max(len(policy.encode(request.prompt)) for request in requests)
            limit = max(1, min(limit, policy.context - longest))
    return How(args.n, temperature, top_p, limit or 12, args.seed or 0)


def _check_complete(completer: "Completer", requests: "Sequence[Request]", how: "How") -> None:
    """Refuse to pack a replay that lacks samples, before a run is begun."""
    for request, samples in zip(requests, completer.complete(requests, how), strict=True):
        if None in samples:
            raise UsageError(
                f"{request.id}: the file has no sample {samples.index(None)}, and a selection pack "
                "needs all of them. Leave --pack out, or ask for fewer."
            )


def _parse(argv: Sequence[str] | None) -> Namespace:
    parser = console.parser(
        "sample",
        "Ask a policy for completions and write a sealed run folder: completions.jsonl (or\n"
        "selection_pack.jsonl), summary.json and manifest.json.",
        EXAMPLE,
    )
    add = parser.add_argument
    add("--policy", default="tiny", metavar="P", help="who writes (default: tiny; see below)")
    add("--dataset", type=Path, metavar="FILE", help="JSONL: id, prompt, expected_answer")
    add(
        "--outdir",
        type=Path,
        metavar="DIR",
        help="the run folder to write (default: sample-NAME-001 ..., in the repository's runs/)",
    )
    add(
        "--n",
        type=whole(1, 100_000),
        default=1,
        metavar="N",
        help="samples per example (default: 1)",
    )
    add(
        "--pack",
        action="store_true",
        help="write a selection pack, all samples of an example in one row",
    )
    add(
        "--temperature",
        type=_temperature,
        metavar="T",
        help="below 1 sharpens the choice of each token, above 1 flattens it (default: 1)",
    )
    add("--greedy", action="store_true", help="always the likeliest token: temperature 0")
    add(
        "--top-p",
        type=number(1e-9, 1.0, "a share of the probability: above 0, at most 1"),
        metavar="P",
        help="choose among the likeliest tokens with this share of the probability (default: 1)",
    )
    add(
        "--max-new-tokens",
        type=whole(1),
        metavar="N",
        help="cut a completion after so many tokens (default: 12; for hf: 256, or what its context "
        "leaves)",
    )
    add("--seed", type=whole(0), metavar="N", help="another seed, other samples (default: 0)")
    add("--max", type=whole(1), metavar="N", help="only the first N examples: a quick look")
    add("--resume", action="store_true", help="go on with the unfinished run in --outdir")
    add(
        "--overwrite",
        action="store_true",
        help="replace the run in --outdir once the new one is sealed",
    )
    add("--dtype", metavar="D", help="for hf: float32, bfloat16, float16 or auto")
    add("--device", metavar="D", help="for hf: cpu, cuda, cuda:1, mps or auto")
    add("--json", action="store_true", help="print the summary as JSON, and nothing else")
    add(
        "--show",
        nargs="?",
        const=A_QUESTION,
        metavar="PROMPT",
        help="write no run: show how one prompt becomes tokens and how a completion is drawn",
    )
    add(
        "--price",
        action="append",
        metavar="TEXT",
        help="with --show: also say how likely the policy is to write TEXT; may be repeated",
    )
    return parser.parse_args(argv)


def _temperature(text: str) -> float:
    what = "a temperature: 0, or a number from 0.001 to 100"
    value = number(0.0, 100.0, what)(text)
    return value if value == 0 else number(0.001, 100.0, what)(text)


def _show_run(summary: "SampleSummary", manifest: "Manifest") -> None:
    def say(text: str = "") -> None:
        console.answer(console.fit(console.printable(text)))

    run, metrics = summary.run, summary.metrics
    say(f"{run.name}: {run.n_completions} completions of {run.n_examples} examples")
    say()
    settings = manifest.sampling
    if settings is None:
        say("  sampling         unknown: the policy does not say")
    elif settings.greedy:
        say(f"  sampling         greedy, at most {settings.max_new_tokens} tokens")
    else:
        say(
            f"  sampling         temperature {settings.temperature:g}, top-p {settings.top_p:g}, "
            f"at most {settings.max_new_tokens} tokens, seed {settings.seed}"
        )
    if metrics.mean_num_tokens is not None:
        say(f"  tokens           {metrics.mean_num_tokens:.2f} a completion, its end included")
    if metrics.mean_sum_logprob is not None:
        say(f"  log-probability  {metrics.mean_sum_logprob:.3f} a completion, in nats")
    if metrics.distinct_share is not None and run.n_completions > run.n_examples:
        say(f"  distinct         {metrics.distinct_share:.1%} of an example's samples")
    if run.n_truncated:
        share = run.n_truncated / run.n_completions
        say(f"  cut at limit     {run.n_truncated} ({share:.1%})")
    say()
    say(f"  sealed {manifest.seal[:12]}, {manifest.duration_s:.2f} s; the run folder:")


def _gate(summary: "SampleSummary") -> int:
    missing = summary.run.n_missing
    if missing:
        console.say(
            f"MISSING: the policy gave {missing} completions less than were asked for. The run is "
            "kept; course.eval will count what is missing as unscored."
        )
    return 1 if missing else 0


def _show_tokens(args: Namespace) -> int:
    """Print the token boundary of one prompt."""
    import math

    from course.policy.boundary import pieces, priced, sampled
    from course.policy.completer import Request
    from course.policy.opening import open_policy

    prompt, texts = args.show, args.price or []
    for text in (prompt, *texts):
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise UsageError(f"{console.printable(text)!r} is not text in UTF-8.")
    with redirect_stdout(sys.stderr):
        policy: Any = open_policy(args.policy, dtype=args.dtype, device=args.device)
        if not hasattr(policy, "decoder"):
            raise UsageError(
                f"{args.policy} does not compute tokens, so there is nothing to show. Use tiny, "
                "tiny:FOLDER or hf:NAME."
            )
        request = Request("--show", prompt)
        how = _how(args, policy, [request])
        policy.check([request], how)
        parts = pieces(policy, prompt)
        look = sampled(policy, prompt, how)
        texts = texts or _two_spacings(look.text)
        for text in texts:
            longest = len(policy.encode_text(text)) + 1
            policy.check([request], replace(how, max_new_tokens=longest))
    say = console.answer
    say(f"The policy is given {len(parts)} tokens (each between bars, \\n is a line end):")
    say()
    say(f"  |{'|'.join(_visible(part) for part in parts)}|")
    say()
    drawn = "greedily" if how.temperature == 0 else f"at temperature {how.temperature:g}"
    say(f"It writes, one token at a time ({drawn}, seed {how.seed}):")
    say()
    width = max(len(_visible(choice.piece)) for choice in look.choices)
    say(f"  {'token':<{width + 2}} {'prob.':>7} {'log':>8}   the likeliest instead")
    for choice in look.choices:
        others = "  ".join(f"|{_visible(piece)}| {p:.3f}" for piece, p in choice.alternatives)
        bars = f"|{_visible(choice.piece)}|"
        log = round(choice.logprob, 3) + 0.0  # never -0.000
        line = f"  {bars:<{width + 2}} {math.exp(choice.logprob):>7.4f} {log:>8.3f}   "
        say(console.fit(line + others))
    say(f"  {'sum':<{width + 2}} {math.exp(look.logprob):>7.4f} {look.logprob:>8.3f}")
    say()
    ending = "" if look.stopped else "  (cut at the token limit)"
    say(f"The scorer reads text, not tokens: {console.one_line(look.text, 200)!r}{ending}")
    if texts:
        say()
        say("What it would cost to write, end included:")
        say()
        wide = max(len(repr(console.one_line(text, 60))) for text in texts)
        for text in texts:
            other = priced(policy, prompt, text)
            unit = "token " if len(other.choices) == 1 else "tokens"
            say(
                f"  {console.one_line(text, 60)!r:<{wide}}  {len(other.choices):>3} {unit}  "
                f"log-prob {other.logprob:>8.3f}  probability {math.exp(other.logprob):.2g}"
            )
    return 0


def _two_spacings(text: str) -> list[str]:
    """Offer the same answer with one space and with two, where the text has a number."""
    import re

    numbers = re.findall(r"[0-9]+", text)
    return [f"Final: {numbers[-1]}", f"Final:  {numbers[-1]}"] if numbers else []


def _visible(piece: str) -> str:
    return console.printable(piece).replace("\n", "\\n").replace("\t", "\\t")


if __name__ == "__main__":
    sys.exit(main())
