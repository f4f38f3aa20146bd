"""The published JSON Schemas (draft 2020-12), generated from the types in ``records.py``.

    python -m course.core.schemas          writes course/core/schemas/*.json anew

A test fails when a file differs from what its type generates.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from course.core.records import (
    Completion,
    EvalRow,
    EvalSummary,
    Example,
    GoldenCase,
    Manifest,
    SampleSummary,
    SamplingSettings,
    SelectionPack,
    SelectionRow,
)

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

FOLDER = Path(__file__).parent / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

ROWS: dict[str, type] = {
    "dataset": Example,
    "completions": Completion,
    "selection_pack": SelectionPack,
    "golden": GoldenCase,
    "eval_results": EvalRow,
    "selection_results": SelectionRow,
}
"""Kinds of JSONL files, and the type of their rows."""

OBJECTS: dict[str, type] = {
    "eval_summary": EvalSummary,
    "manifest": Manifest,
    "sample_summary": SampleSummary,
    "sampling": SamplingSettings,
}
"""Kinds of JSON files that hold one object."""


def schema_of(kind: str) -> dict[str, Any]:
    """Generate the JSON Schema of a kind of file (of one row, for JSONL)."""
    (reference,), definitions = msgspec.json.schema_components([(ROWS | OBJECTS)[kind]])
    return {"$schema": DRAFT, "title": kind, **reference, "$defs": definitions}


def schema_text(kind: str) -> str:
    """Write a schema as its file holds it."""
    return json.dumps(schema_of(kind), indent=2, sort_keys=True) + "\n"


@cache
def validator(kind: str) -> "Validator":
    """Return a validator for a kind's published schema.

    Unlike JSON Schema's own, its integers are not floats: ``3.0`` is no integer here.
    """
    import jsonschema
    from jsonschema.validators import extend

    base = jsonschema.Draft202012Validator
    checker = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    schema = json.loads((FOLDER / f"{kind}.schema.json").read_text(encoding="utf-8"))
    made: Validator = extend(base, type_checker=checker)(schema)  # type: ignore[no-untyped-call]
    return made


def write_all() -> None:
    """Write every schema file."""
    FOLDER.mkdir(exist_ok=True)
    for kind in ROWS | OBJECTS:
        path = FOLDER / f"{kind}.schema.json"
        path.write_text(schema_text(kind), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_all()
