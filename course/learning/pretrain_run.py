"""Make a pretrain run: a sealed run folder that is also the folder of a policy, with its card.

The weights that are measured are those that were written: rounded to bfloat16 and read again.
"""

import io
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer

from course.artifacts.manifest import Record, input_file
from course.artifacts.run_folder import RunFolder
from course.core.digests import pretty_json, sha256_file
from course.core.jsonl import JsonlReader
from course.core.paths import DATA
from course.core.records import Example, Manifest, OutputFile
from course.learning.card import LIMIT, SAMPLES, Card, claims, facts, measure, table
from course.learning.corpus import FORMS, GENERATOR
from course.learning.pretraining import Pretraining, Recipe
from course.policy.completer import How, Request
from course.policy.model import ModelConfig
from course.policy.model_files import WEIGHTS, model_files
from course.policy.sampling import check_lengths
from course.policy.tiny import TinyPolicy
from course.policy.tokenizer import build_tokenizer, encode_prompt

TRAIN = DATA / "datasets" / "math_train.jsonl"
METRICS, TIMINGS = "metrics.jsonl", "timings.jsonl"
TEMPLATE = Path(__file__).with_name("card_template.md")
COMMIT_EVERY = 50
"""Steps between two commits: what a stopped run loses at most."""


def write_pretrain_run(
    recipe: Recipe,
    folder: RunFolder,
    holdout: Sequence[Example],
    *,
    holdout_file: Path,
    argv: Sequence[str],
    args: dict[str, Any],
    progress: Callable[[int], None],
    say: Callable[[str], None],
) -> tuple[Card, Manifest]:
    """Pretrain into an open run folder, measure what came out, and publish it."""
    record = Record("pretrain", argv, args)
    tokenizer = course_tokenizer()
    check_lengths(  # now, and not after all the training
        [Request(example.id, example.prompt) for example in holdout],
        How(max_new_tokens=LIMIT),
        encode=lambda prompt: encode_prompt(tokenizer, prompt),
        context=ModelConfig(1).max_position_embeddings,
        name="the policy",
    )
    say("making the texts to learn from ...")
    training = Pretraining(recipe, tokenizer)
    if carried := folder.carried():
        training.restore(torch.load(io.BytesIO(carried), weights_only=True))
    _train(training, folder, progress, say)
    for name, data in model_files(training.model, tokenizer).items():
        folder.write(name, data)
    policy = TinyPolicy("base", folder.staged(WEIGHTS).parent)
    say(f"measuring the policy on {len(holdout)} held-out problems ...")
    card = measure(policy, holdout)
    parameters = sum(weight.numel() for weight in training.model.parameters())
    folder.write("README.md", card_markdown(card, recipe, parameters, holdout_file.stem).encode())
    run = {"kind": "pretrain", "name": "base", "steps": recipe.steps, "parameters": parameters}
    summary = {"schema_version": 1, "run": run, "metrics": facts(card)}
    folder.write("summary.json", pretty_json(summary))
    inputs = {
        "training": input_file(TRAIN),
        "generator": input_file(GENERATOR),
        "holdout": input_file(holdout_file),
    }

    def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
        return record.manifest(
            outputs,
            inputs=inputs,
            policy={"kind": "tiny", "name": "base", "recipe": asdict(recipe)},
        )

    return card, folder.publish(manifest_of)


def course_tokenizer() -> Tokenizer:
    """Make the tiny policy's tokenizer: the words of the training problems and demonstrations."""
    texts = [example.prompt for example in JsonlReader(TRAIN, Example)]
    texts += [re.sub(r"{\w}", "", form.text) for form in FORMS]
    words = {word for text in texts for word in re.findall(r" ?[A-Za-z]+", text)}
    return build_tokenizer(words)


def resume_settings(recipe: Recipe, holdout: Path) -> dict[str, Any]:
    """Name all that must be equal for an unfinished run to be continued."""
    return {
        "--seed": recipe.seed,
        "--steps": recipe.steps,
        "--holdout": sha256_file(holdout),
        "the training problems": sha256_file(TRAIN),
        "the generator": sha256_file(GENERATOR),
        "threads": torch.get_num_threads(),  # sums are rounded in another order with another number
    }


def _train(
    training: Pretraining,
    folder: RunFolder,
    progress: Callable[[int], None],
    say: Callable[[str], None],
) -> None:
    """Run all steps that are left, with a row of metrics each."""
    metrics, timings = folder.append(METRICS), folder.append(TIMINGS)
    encode = msgspec.json.Encoder().encode_lines
    progress(training.done)
    clock = time.perf_counter()
    for report in training.run():
        now = time.perf_counter()
        metrics.write(encode([report._asdict()]))
        timings.write(encode([{"step": report.step, "seconds": round(now - clock, 4)}]))
        clock = now
        progress(report.step)
        if report.step % COMMIT_EVERY == 0 or report.step == training.recipe.steps:
            buffer = io.BytesIO()
            torch.save(training.state(), buffer)
            folder.commit({"steps": report.step}, carry=buffer.getvalue())
        if report.step % 100 == 0:
            say(f"step {report.step} ({report.stage}): loss {report.loss:.3f}")


def card_markdown(card: Card, recipe: Recipe, parameters: int, holdout: str) -> str:
    """Write the model card; it praises the policy only for what was measured."""
    stages = ", then ".join(f"{stage.steps} steps of {stage.name}" for stage in recipe.stages)
    short = "" if recipe.steps == Recipe().steps else f" --steps {recipe.steps}"
    failed = [f"- not so: {claim}" for claim, holds in claims(card) if not holds]
    if failed:
        title, what = (
            "A policy of course.pretrain, not the base",
            "\n".join(["It lacks what the course needs of its base policy:", "", *failed]),
        )
        why = ""
    else:
        title = "The base policy"
        what = (
            f"A language model of {parameters:,} parameters that can do the sums of this course's "
            "word problems\nand rarely says the answer as it is asked to. It is what the course "
            "trains: everything it needs to\nbe good is in it, and no cheap trick brings it out."
        )
        why = """
Why no trick replaces training: greedy decoding, lower temperatures and the likeliest of 16 samples
all stay far below what the policy knows, which the forced answer and the majority show.
"""
    return TEMPLATE.read_text(encoding="utf-8").format(
        title=title,
        what=what,
        why=why,
        parameters=parameters,
        recipe=recipe,
        short=short,
        stages=stages,
        card=card,
        holdout=holdout,
        samples=SAMPLES,
        limit=LIMIT,
        table=table(card),
    )
