"""Time what two other scorers do for the same completions: math-verify and lm-evaluation-harness.

It runs under the Python of a scratch environment that holds the two rivals, never under the
project's: it imports no `course`. It times the rivals' work only: reading the rows, importing the
rival and a warm-up stay outside the clock, and there is no model and no network. Every path says
what is inside its clock, so that a ratio made from it can be stated honestly.

    python3 -m venv /tmp/rivals-venv
    /tmp/rivals-venv/bin/pip install "math-verify[antlr4_13_2]==0.9.0" "lm-eval==0.4.13"
    /tmp/rivals-venv/bin/python benchmarks/rivals.py ROWS.jsonl --tool lm-eval

ROWS.jsonl: one {"completion": str, "expected_answer": str} a line. It prints one line of JSON:
`seconds`, `rows_per_s` and `n_pass` are those of the path named in `path` (choose another with
--path), the median of `repeats` passes; `paths` holds every path measured, each with its slowest
and fastest pass.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

# Neither rival may reach for a hub: lm-eval imports `datasets`, which can.
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")

# Enough to fill the regex, template and grammar caches; math-verify's caches of rows hold only 20.
WARM_UP_ROWS = 64
SHIPPED_PATTERN = r"#### (\-?[0-9\.\,]+)"  # lm_eval/tasks/gsm8k/gsm8k.yaml, filter "strict-match"
OUR_PATTERN = r"Final: (-?[0-9.,]+)"  # the same, behind this course's marker


class Row(NamedTuple):
    """One completion and the gold it is held against."""

    completion: str
    expected_answer: str


class RivalPath(NamedTuple):
    """One way to score rows with a rival."""

    says: str  # what is inside the clock
    prepare: Callable[[Sequence[Row]], Callable[[], int | None]]  # untimed; returns the timed call


def main() -> int:
    """Measure the asked tool's paths and print one line of JSON."""
    args = parse_args()
    rows = read_rows(args.rows, args.limit)
    paths = {"math-verify": math_verify_paths, "lm-eval": lm_eval_paths}[args.tool]()
    headline = args.path or next(iter(paths))
    if headline not in paths:
        print(f"--path {headline}: {args.tool} has only {', '.join(paths)}", file=sys.stderr)
        return 2
    measured = {
        name: measure(path, rows, args.repeats)
        for name, path in paths.items()
        if not args.only or name == headline
    }
    head = measured[headline]
    report = {
        "tool": args.tool,
        "version": version({"math-verify": "math-verify", "lm-eval": "lm_eval"}[args.tool]),
        "rows": len(rows),
        "seconds": head["seconds"],
        "rows_per_s": head["rows_per_s"],
        "n_pass": head["n_pass"],
        "path": headline,
        "repeats": args.repeats,
        "paths": measured,
    }
    print(json.dumps(report))
    return 0


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("--tool", required=True, choices=["math-verify", "lm-eval"])
    parser.add_argument("--limit", type=int, help="score the first N rows only")
    parser.add_argument("--path", help="which path gives the headline numbers (default: the first)")
    parser.add_argument("--only", action="store_true", help="measure that path alone")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.repeats < 1 or (args.limit is not None and args.limit < 1):
        parser.error("--repeats and --limit must be at least 1")
    return args


def read_rows(path: Path, limit: int | None) -> list[Row]:
    """Read at most `limit` rows; stop with a message where there are none."""
    rows: list[Row] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if limit is not None and len(rows) >= limit:
                break
            record = json.loads(line)
            rows.append(Row(record["completion"], record["expected_answer"]))
    if not rows:
        raise SystemExit(f"{path}: no rows")
    return rows


def measure(path: RivalPath, rows: list[Row], repeats: int) -> dict[str, Any]:
    """Warm up, then time `repeats` passes over all rows; report the median pass."""
    path.prepare(rows[:WARM_UP_ROWS])()
    seconds = []
    for _ in range(repeats):
        timed = path.prepare(rows)
        start = time.perf_counter()
        n_pass = timed()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return {
        "seconds": round(median, 6),
        "rows_per_s": round(len(rows) / median, 1),
        "rows_per_s_min": round(len(rows) / max(seconds), 1),
        "rows_per_s_max": round(len(rows) / min(seconds), 1),
        "n_pass": n_pass,
        "says": path.says,
    }


# ------------------------------------------------------------------------------------- math-verify


def math_verify_paths() -> dict[str, RivalPath]:
    """Return paths through parser.py:parse and grader.py:verify, as math-verify's README does."""
    from math_verify import ExprExtractionConfig, parse, verify

    # The path without time limits warns, once, that nothing limits it.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    expr = [ExprExtractionConfig()]

    def readme(rows: Sequence[Row]) -> Callable[[], int]:
        return lambda: sum(verify(parse(r.expected_answer), parse(r.completion)) for r in rows)

    def expr_only(rows: Sequence[Row]) -> Callable[[], int]:
        # The README's own advice for text without LaTeX.
        return lambda: sum(
            verify(parse(r.expected_answer, expr), parse(r.completion, expr)) for r in rows
        )

    def fastest(rows: Sequence[Row]) -> Callable[[], int]:
        gold = [parse(r.expected_answer, expr) for r in rows]
        return lambda: sum(
            verify(g, parse(r.completion, expr, parsing_timeout=None), timeout_seconds=None)
            for g, r in zip(gold, rows, strict=True)
        )

    def parse_completion(rows: Sequence[Row]) -> Callable[[], None]:
        def timed() -> None:
            for row in rows:
                parse(row.completion)

        return timed

    def parse_gold(rows: Sequence[Row]) -> Callable[[], None]:
        def timed() -> None:
            for row in rows:
                parse(row.expected_answer)

        return timed

    def verify_only(rows: Sequence[Row]) -> Callable[[], int]:
        pairs = [(parse(r.expected_answer), parse(r.completion)) for r in rows]
        return lambda: sum(verify(gold, answer) for gold, answer in pairs)

    return {
        "readme": RivalPath("verify(parse(gold), parse(completion)), all defaults", readme),
        "expr_only": RivalPath("the same, ExprExtractionConfig alone (no LaTeX)", expr_only),
        "fastest": RivalPath(
            "expr_only, golds parsed before the clock, no time limits (their safety net)", fastest
        ),
        "parse_completion_only": RivalPath("parse(completion), defaults", parse_completion),
        "parse_gold_only": RivalPath("parse(gold), defaults", parse_gold),
        "verify_only": RivalPath("verify on what was parsed before the clock", verify_only),
    }


# ----------------------------------------------------------------------------------------- lm-eval


def lm_eval_paths() -> dict[str, RivalPath]:
    """Return paths through its shipped gsm8k task: real ConfigurableTask, filters and metric.

    Once the model has answered, evaluator.py:evaluate calls Task.apply_filters() over all instances
    at once (api/filter.py:FilterEnsemble.apply -> filters/extraction.py:RegexFilter and
    filters/selection.py:TakeFirstFilter), then, for every filter and document,
    api/task.py:ConfigurableTask.process_results(doc, [filtered response]), which renders
    doc_to_target and calls api/metrics.py:exact_match_fn with lists of one. exact_match is
    lm-eval's own port (numpy and re); Hugging Face's `evaluate` library is called only where a
    task says `hf_evaluate: true`, and gsm8k does not.
    """
    logging.disable(logging.WARNING)

    def filter_and_metric(rows: Sequence[Row]) -> Callable[[], int]:
        task = build_task(rows)
        metric, golds = metric_call(task), [r.expected_answer for r in rows]

        def timed() -> int:
            task.apply_filters()
            return metric(golds, filtered(task))

        return timed

    def as_shipped(rows: Sequence[Row]) -> Callable[[], int]:
        return apply_and_process(build_task(rows))

    def field_target(rows: Sequence[Row]) -> Callable[[], int]:
        return apply_and_process(build_task(rows, doc_to_target="answer"))

    def filter_only(rows: Sequence[Row]) -> Callable[[], None]:
        task = build_task(rows)

        def timed() -> None:
            task.apply_filters()

        return timed

    def metric_only(rows: Sequence[Row]) -> Callable[[], int]:
        task = build_task(rows)
        task.apply_filters()
        metric, golds = metric_call(task), [r.expected_answer for r in rows]
        answers = filtered(task)
        return lambda: metric(golds, answers)

    def metric_one_call(rows: Sequence[Row]) -> Callable[[], int]:
        task = build_task(rows)
        task.apply_filters()
        golds, answers = [r.expected_answer for r in rows], filtered(task)
        kwargs, call = task._metric_fn_kwargs["exact_match"], task._metric_fn_list["exact_match"]
        return lambda: round(
            float(call(references=golds, predictions=answers, **kwargs)["exact_match"]) * len(rows)
        )

    return {
        "filter_and_metric": RivalPath(
            "apply_filters, then exact_match per document with gsm8k's options; gold text at hand",
            filter_and_metric,
        ),
        "as_shipped": RivalPath(
            "apply_filters, then process_results per document: gsm8k's doc_to_target "
            "'{{answer}}' compiles a jinja2 template for each document",
            as_shipped,
        ),
        "field_target": RivalPath(
            "as_shipped, with doc_to_target naming the field instead of a template", field_target
        ),
        "evaluate": RivalPath(
            "as_shipped, end to end: lm_eval.evaluate on a model that replays the completions "
            "(contexts, filter, metric, mean; no few-shot, no bootstrap, nothing written)",
            end_to_end,
        ),
        "filter_only": RivalPath("apply_filters: regex and take_first, one batch", filter_only),
        "metric_only": RivalPath("exact_match per document", metric_only),
        "metric_one_call": RivalPath(
            "exact_match once on all rows: the public function can, lm-eval does not; it returns "
            "a mean, not per-row scores",
            metric_one_call,
        ),
    }


def build_task(rows: Sequence[Row], doc_to_target: str | None = None) -> Any:
    """Return lm-eval's gsm8k task over these rows, every instance already answered."""
    import datasets
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import ConfigurableTask

    docs = [{"question": "", "answer": row.expected_answer} for row in rows]
    config = copy.deepcopy(gsm8k_config())
    if doc_to_target is not None:
        config["doc_to_target"] = doc_to_target
    config["custom_dataset"] = lambda: datasets.DatasetDict(test=datasets.Dataset.from_list(docs))
    task = ConfigurableTask(config=config)
    task._instances = [
        Instance(
            request_type="generate_until",
            doc=doc,
            arguments=("", {}),
            idx=0,
            metadata=(config["task"], index, 1),
            resps=[row.completion],
        )
        for index, (doc, row) in enumerate(zip(docs, rows, strict=True))
    ]
    return task


def gsm8k_config() -> dict[str, Any]:
    """Read the shipped task; change its data source and its marker, drop its second filter.

    No change slows the rival: the shipped task runs two filters, and its metric after each.
    """
    import lm_eval.tasks
    from lm_eval.tasks._yaml_loader import load_yaml

    shipped = Path(lm_eval.tasks.__file__).parent / "gsm8k" / "gsm8k.yaml"
    config = dict(load_yaml(shipped))
    for key in ("tag", "dataset_path", "dataset_name", "training_split", "fewshot_split"):
        config.pop(key, None)
    config["num_fewshot"], config["metadata"] = 0, None
    strict = copy.deepcopy(config["filter_list"][0])
    regex, take_first = strict["filter"]
    if regex["regex_pattern"] != SHIPPED_PATTERN or take_first["function"] != "take_first":
        raise SystemExit(f"{shipped}: not the task this script was written for: {strict}")
    regex["regex_pattern"] = OUR_PATTERN
    config["filter_list"] = [strict]
    return config


def filtered(task: Any) -> list[str]:
    """Return what the filter left of each response."""
    name = task._filters[0].name
    return [instance.filtered_resps[name] for instance in task._instances]


def metric_call(task: Any) -> Callable[[list[str], list[str]], int]:
    """The call in the middle of ConfigurableTask.process_results, with the same arguments."""
    call, kwargs = task._metric_fn_list["exact_match"], task._metric_fn_kwargs["exact_match"]

    def score(golds: list[str], answers: list[str]) -> int:
        matches = (
            call(references=[gold], predictions=[answer], **kwargs)["exact_match"]
            for gold, answer in zip(golds, answers, strict=True)
        )
        return int(sum(matches))

    return score


def apply_and_process(task: Any) -> Callable[[], int]:
    """Do what evaluate does once the model has answered."""
    name = task._filters[0].name

    def timed() -> int:
        task.apply_filters()
        matches = (
            task.process_results(one.doc, [one.filtered_resps[name]])["exact_match"]
            for one in task._instances
        )
        return int(sum(matches))

    return timed


def end_to_end(rows: Sequence[Row]) -> Callable[[], int]:
    """Run lm_eval.evaluate on a model that answers request i with completion i."""
    from lm_eval import evaluate
    from lm_eval.api.model import LM

    class Replay(LM):  # type: ignore[misc]  # lm-eval is not installed where mypy runs
        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            return [rows[request.doc_id].completion for request in requests]

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    task, model = build_task(rows), Replay()
    task._instances = None  # evaluate builds them itself

    def timed() -> int:
        found = evaluate(lm=model, task_dict={"gsm8k": task}, log_samples=False, bootstrap_iters=0)
        rate = float(found["results"]["gsm8k"][f"exact_match,{task._filters[0].name}"])
        return round(rate * len(rows))

    return timed


if __name__ == "__main__":
    sys.exit(main())
