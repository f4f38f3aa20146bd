"""Measure Loop C: how fast the tiny policy samples, against transformers and against the machine.

Each subcommand prints one markdown table. Everything that is compared is measured in one process,
in turns, so that a busy machine slows both sides of a ratio. It measures, it does not judge: no
target makes it fail.

    python benchmarks/learning.py sampling
    python benchmarks/learning.py sampling --policy FOLDER --repeats 31

It runs under the project's environment with the extra `learn`. To keep two threads on two cores
when other work runs, set OMP_NUM_THREADS=2 OMP_PROC_BIND=true OMP_PLACES=cores before it starts.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `course` is found whether or not it is installed

import torch  # noqa: E402  # as the next ones: only now is `course` found
from torch import Tensor  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from course.policy.completer import How  # noqa: E402
from course.policy.model_files import BASE, load_model  # noqa: E402
from course.policy.sampling import draw  # noqa: E402
from course.policy.tiny import TinyDecoder  # noqa: E402
from course.policy.tokenizer import EOS_ID, PAD_ID, encode_prompt  # noqa: E402

TRAIN = ROOT / "data/datasets/math_train.jsonl"
SIDE = 1024  # of the square matrices whose product sets the limit


def main() -> int:
    """Run one benchmark and print its table."""
    args = parse_args()
    load = os.getloadavg()[0]
    args.run(args)
    print(
        f"\nPython {platform.python_version()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads on {os.cpu_count()} cores, load {load:.2f} at the "
        f"start and {os.getloadavg()[0]:.2f} at the end (at most {torch.get_num_threads()} ours)."
    )
    return 0


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(description=__doc__, **style)
    add = parser.add_subparsers(required=True, metavar="BENCHMARK").add_parser

    sampling_parser = add("sampling", help="completions of one training batch, against generate")
    sampling_parser.add_argument("--policy", type=Path, default=BASE, help="a tiny policy's folder")
    sampling_parser.add_argument("--prompts", type=int, default=32)
    sampling_parser.add_argument("--n", type=int, default=16, help="completions of each prompt")
    sampling_parser.add_argument("--max-new-tokens", type=int, default=12)
    sampling_parser.add_argument("--repeats", type=int, default=15)
    sampling_parser.set_defaults(run=sampling)
    return parser.parse_args()


# --------------------------------------------------------------------------------------- sampling


class Turn(NamedTuple):
    """One batch of completions."""

    seconds: float
    tokens: float  # mean length of a completion, its end included


Sampler = Callable[[int], Tensor]
"""Samples the batch with a seed and returns the length of each completion, (N,)."""


def sampling(args: argparse.Namespace) -> None:
    """Sample the same batch with the course and with transformers, in turns."""
    prompts, ids, course, transformers = samplers(args)
    sides = {"course": course, "transformers": transformers}
    flops = {}  # of the matrix products that are really computed, counted outside the clock
    for name, side in sides.items():
        side(-1)  # warms up
        with FlopCounterMode(display=False) as counter:
            side(-1)
        flops[name] = counter.get_total_flops()
    took: dict[str, list[Turn]] = {name: [] for name in sides}
    limits = []
    for turn in range(args.repeats):
        limits.append(gemm_limit())
        for name in sides if turn % 2 == 0 else reversed(sides):
            start = time.perf_counter()
            lengths = sides[name](turn)
            took[name].append(Turn(time.perf_counter() - start, float(lengths.double().mean())))
    print_sampling(len(ids) * args.n, took, flops, max(limits))
    print(
        f"\n{len(ids)} prompts of math_train ({mean(map(len, prompts)):.1f} tokens on average) x "
        f"{args.n}, temperature 1, at most {args.max_new_tokens} new tokens. The limit is the best "
        f"of {args.repeats} products of {SIDE} x {SIDE} matrices in float32: "
        f"{max(limits) / 1e9:.0f} GFLOP/s."
    )


def samplers(args: argparse.Namespace) -> tuple[list[list[int]], list[str], Sampler, Sampler]:
    """Load the policy twice and make both samplers."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, tokenizer = load_model(args.policy)
    with TRAIN.open() as file:
        rows = [json.loads(line) for line in islice(file, args.prompts)]
    prompts, ids = (
        [encode_prompt(tokenizer, row["prompt"]) for row in rows],
        [r["id"] for r in rows],
    )
    decoder = TinyDecoder(model)
    how = {"n": args.n, "max_new_tokens": args.max_new_tokens}

    def course(seed: int) -> Tensor:
        return draw(decoder, prompts, ids, How(**how, seed=seed)).lengths

    theirs = AutoModelForCausalLM.from_pretrained(args.policy, dtype=torch.float32).eval()
    padded, mask = left_padded(prompts)  # (P, S) both

    def transformers(seed: int) -> Tensor:
        torch.manual_seed(seed)
        written = theirs.generate(
            padded,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=args.max_new_tokens,
            num_return_sequences=args.n,
            eos_token_id=EOS_ID,
            pad_token_id=PAD_ID,
            use_cache=True,
        )[:, padded.shape[1] :]  # (N, T)
        ended = written == EOS_ID
        return torch.where(ended.any(1), ended.int().argmax(1) + 1, written.shape[1])

    return prompts, ids, course, transformers


def left_padded(prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the prompts' tokens and their attention mask, (P, S) each."""
    longest = max(map(len, prompts))
    missing = [longest - len(prompt) for prompt in prompts]
    tokens = [[PAD_ID] * m + list(p) for m, p in zip(missing, prompts, strict=True)]
    return torch.tensor(tokens), torch.tensor([[0] * m + [1] * (longest - m) for m in missing])


def gemm_limit() -> float:
    """Multiply two matrices, three times; return the best FLOP/s."""
    a = torch.ones(SIDE, SIDE)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * SIDE**3 / best


def print_sampling(
    completions: int, took: dict[str, list[Turn]], flops: dict[str, int], limit: float
) -> None:
    """Print the table of `sampling`."""
    says = {"course": "`course.policy.sampling.draw`", "transformers": "transformers `generate`"}
    print(
        "| sampler | ms (least to greatest) | completions/s | mean tokens | GFLOP "
        "| share of the limit | times as fast as transformers |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, turns in took.items():
        ms = [turn.seconds * 1e3 for turn in turns]
        pairs = zip(took["transformers"], turns, strict=True)
        ratios = [base.seconds / turn.seconds for base, turn in pairs]
        cells = [
            says[name],
            f"{median(ms):.1f} ({min(ms):.1f} to {max(ms):.1f})",
            f"{completions / median(ms) * 1e3:,.0f}",
            f"{mean(turn.tokens for turn in turns):.2f}",
            f"{flops[name] / 1e9:.2f}",
            f"{flops[name] / (median(ms) / 1e3) / limit:.0%}",
            f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})",
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
