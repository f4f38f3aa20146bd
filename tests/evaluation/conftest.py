"""What the claims about evaluation share: toy files, and evaluations of them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from course.artifacts.manifest import UNSEALED
from course.artifacts.output import OutputStream
from course.artifacts.run_folder import RunFolder
from course.core.records import Command, Manifest, OutputFile, RunKind, SamplingSettings
from course.evaluation.eval_run import Origin, write_eval_run
from course.evaluation.evaluate import Evaluation, Request, evaluate
from course.scoring.contract import load_scorer


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (dicts, or lines as bytes) to a file of the test's folder."""

    def write(name: str, rows: Iterable[Any]) -> Path:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


@pytest.fixture
def evaluated(tmp_path: Path, jsonl: Callable[..., Path]) -> Callable[..., Any]:
    """Evaluate rows in memory; returns the evaluation and its result rows."""

    def run(
        examples: Iterable[Any], completions: Iterable[Any], *, scorer: str = "final_answer", **more
    ) -> tuple[Evaluation, list[dict[str, Any]]]:
        dataset = jsonl("dataset.jsonl", examples)
        answers = jsonl("completions.jsonl", completions)
        out = OutputStream(tmp_path / "results.jsonl")
        try:
            found = evaluate(Request(dataset, answers, load_scorer(scorer), **more), out)
        finally:
            out.close()
        lines = (tmp_path / "results.jsonl").read_bytes().splitlines()
        return found, [json.loads(line) for line in lines]

    return run


@pytest.fixture
def eval_run(tmp_path: Path, jsonl: Callable[..., Path]) -> Callable[..., Path]:
    """Write a sealed eval run and return its folder."""

    def make(
        name: str,
        examples: Iterable[Any],
        completions: Iterable[Any],
        *,
        scorer: str = "final_answer",
        sampling: SamplingSettings | None = None,
        **more: Any,
    ) -> Path:
        request = Request(
            jsonl(f"{name}-dataset.jsonl", examples),
            jsonl(f"{name}-completions.jsonl", completions),
            load_scorer(scorer),
            sampling,
            **more,
        )
        with RunFolder(tmp_path / name) as folder:
            write_eval_run(
                request,
                folder,
                origin=Origin(sampling, None),
                sampling_file=None,
                argv=[],
                args={},
                progress=lambda done: None,
            )
        return tmp_path / name

    return make


@pytest.fixture
def sealed_run(tmp_path: Path) -> Callable[..., Path]:
    """Seal given files as a run of any kind and return its folder."""

    def make(name: str, kind: RunKind, files: dict[str, bytes], **facts: Any) -> Path:
        def manifest_of(outputs: dict[str, OutputFile]) -> Manifest:
            plain: dict[str, Any] = {
                "inputs": {},
                "prompts_sha256": None,
                "scorer": None,
                "policy": None,
                "sampling": None,
            }
            return Manifest(
                schema_version=1,
                kind=kind,
                run_id=name,
                created_utc="2026-01-01T00:00:00Z",
                duration_s=0.0,
                command=Command([], {}),
                environment={},
                git=None,
                outputs=outputs,
                seal=UNSEALED,
                **(plain | facts),
            )

        with RunFolder(tmp_path / name) as folder:
            for file, data in files.items():
                folder.write(file, data)
            folder.publish(manifest_of)
        return tmp_path / name

    return make
