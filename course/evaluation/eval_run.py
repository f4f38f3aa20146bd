"""Make an eval run: evaluate, and leave the evidence in a sealed run folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course.artifacts.manifest import Record, input_file
from course.artifacts.run_folder import RunFolder
from course.core.console import one_line
from course.core.digests import pretty_json
from course.core.records import (
    Detectable,
    EvalSummary,
    Manifest,
    OutputFile,
    ScorerFacts,
)
from course.evaluation.evaluate import Evaluation, Request, evaluate
from course.evaluation.origin import Origin, check_count
from course.scoring.contract import UNSCORED_CODES, Scorer


def write_eval_run(
    request: Request,
    folder: RunFolder,
    *,
    origin: Origin,
    sampling_file: Path | None,
    argv: Sequence[str],
    args: dict[str, Any],
    progress: Callable[[int], None],
) -> tuple[Evaluation, Manifest]:
    """Evaluate into an open run folder and publish it."""
    record = Record("eval", argv, args)
    out = folder.create("results.jsonl")
    evaluation = evaluate(request, out, progress)
    check_count(request.sampling, evaluation.summary.run)
    given = origin.prompts_sha256
    if given not in (None, evaluation.prompts_sha256):
        evaluation.notes.append(
            "the policy was given other prompts than this dataset has; the run records those it "
            "was given, so that no comparison takes them for equal"
        )
    folder.write("summary.json", pretty_json(evaluation.summary))
    folder.write("summary.md", summary_markdown(evaluation.summary, request.scorer).encode())
    inputs = {"dataset": evaluation.dataset, "completions": evaluation.completions}
    if sampling_file:
        inputs["sampling"] = input_file(sampling_file)

    def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
        return record.manifest(
            outputs,
            inputs=inputs,
            prompts_sha256=given or evaluation.prompts_sha256,
            scorer=scorer_facts(request.scorer),
            policy=origin.policy,
            sampling=request.sampling,
        )

    return evaluation, folder.publish(manifest_of)


def scorer_facts(scorer: Scorer) -> ScorerFacts:
    """Say which scorer measured, as the manifest records it."""
    return ScorerFacts(
        name=scorer.name,
        version=scorer.version,
        plug=scorer.plugin.plug,
        sources_sha256=scorer.plugin.sources_sha256,
        full_reward=scorer.high,
    )


def rate_text(rate: float | None, low: float | None, high: float | None) -> str:
    """Write a rate with its interval, in three digits."""
    if rate is None or low is None or high is None:
        return "none: nothing was scored"
    return f"{rate:.3f}  [{low:.3f}, {high:.3f}]"


def detectable_text(detectable: Detectable) -> str:
    """Write a detectable difference with its alpha, its power and whether it is paired."""
    setting = f"alpha {detectable.alpha:.2f}, power {detectable.power:.1f}"
    kind = "paired" if detectable.paired else "unpaired"
    if detectable.value is None:
        return f"none at this size ({setting}, {kind})"
    return f"{detectable.value:.3f} ({setting}, {kind})"


def summary_markdown(summary: EvalSummary, scorer: Scorer) -> str:
    """Write a summary for people: the numbers, what they rest on, and the outcomes."""
    run, metrics = summary.run, summary.metrics
    explained = {**scorer.codes, **UNSCORED_CODES}
    rate = rate_text(metrics.pass_rate, metrics.pass_rate_low, metrics.pass_rate_high)
    rows = sum(summary.outcomes.values())
    lines = [
        f"# {one_line(run.name, 200)}",
        "",
        f"Scorer: {run.scorer}",
        "",
        "| what | number |",
        "|---|---|",
        f"| pass rate, 95 % interval | {rate} |",
        f"| passed of scored completions | {metrics.n_pass} of {run.n_scored} |",
        f"| examples | {run.n_examples} |",
        f"| unscored rows | {run.n_unscored} (missing completions: {run.n_missing}) |",
        f"| cut at the token limit | {run.n_truncated} |",
        f"| detectable difference | {detectable_text(metrics.detectable_difference)} |",
        "",
        "| outcome | rows | share | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {_cell(code)} | {count} | {count / rows:.1%} | {_cell(explained.get(code, ''))} |"
        for code, count in summary.outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return one_line(text, 120).replace("|", "\\|")
