"""The published schemas are those of the types, and both judge a row alike."""

import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core.schemas import FOLDER, OBJECTS, ROWS, schema_of, schema_text, validator

KINDS = sorted(ROWS | OBJECTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_file_is_what_the_type_generates(kind):
    """A changed type without `python -m course.core.schemas` is caught here."""
    assert (FOLDER / f"{kind}.schema.json").read_bytes().decode() == schema_text(kind)


def test_no_schema_file_is_left_over():
    """Every published file belongs to a kind."""
    assert sorted(path.name for path in FOLDER.iterdir()) == [f"{k}.schema.json" for k in KINDS]


@pytest.mark.parametrize("kind", KINDS)
def test_each_schema_is_valid_draft_2020_12(kind):
    """Anyone's validator can use it."""
    schema = schema_of(kind)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30]),
    st.sampled_from([0.0, 1.0, -2.5, 0.5, 1e300]),
    st.sampled_from(["", "a", "8", "-0", "+5", "007", "8\n", "٣", "eval", "length", "0" * 64]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["completion", "index", "x"]), inner, max_size=2),
    ),
    max_leaves=4,
)
GOOD: dict[str, dict[str, Any]] = {
    "dataset": {"id": "a", "prompt": "p", "expected_answer": 8, "metadata": {}},
    "completions": {
        "id": "a",
        "completion": "x",
        "sample_index": 0,
        "sum_logprob": -1.5,
        "sum_ref_logprob": None,
        "num_tokens": 3,
        "finish_reason": "stop",
    },
    "selection_pack": {"id": "a", "samples": ["x", {"completion": "y", "num_tokens": 1}]},
    "golden": {
        "id": "a",
        "prompt": "p",
        "expected_answer": "8",
        "completion": "Final: 8",
        "expected_reward": 1.0,
        "expected_code": "ok",
        "note": "",
    },
    "eval_results": {
        "id": "a",
        "sample_index": 0,
        "prompt": "p",
        "expected_answer": 8,
        "completion": None,
        "reward": None,
        "outcome_code": "ok",
        "details": None,
        "error": None,
        "kl_est": 0.5,
    },
    "selection_results": {
        "id": "a",
        "prompt": "p",
        "expected_answer": 8,
        "baseline": {"index": 0, "reward": 1.0, "outcome_code": "ok"},
        "selected": {"index": 1, "reward": None, "outcome_code": "ok"},
        "samples": [{"completion": "", "reward": 0.0, "outcome_code": "empty"}],
    },
    "sampling": {"temperature": 1.0, "top_p": 1, "n": 4, "greedy": False, "seed": -1},
}


def both(kind: str, row: object) -> tuple[bool, bool]:
    """Whether the type and the schema accept a row."""
    line = msgspec.json.encode(row)
    try:
        msgspec.json.decode(line, type=(ROWS | OBJECTS)[kind])
        typed = True
    except msgspec.DecodeError:
        typed = False
    return typed, validator(kind).is_valid(json.loads(line))


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_a_good_row_is_good_for_both(kind):
    """The reader and the published schema agree on what is right."""
    assert both(kind, GOOD[kind]) == (True, True)


@pytest.mark.parametrize("kind", sorted(GOOD))
@given(data=st.data())
def test_what_the_types_refuse_the_schema_refuses_and_vice_versa(kind, data):
    """Rows with keys taken out and values replaced: one judgement, from two engines."""
    row = dict(GOOD[kind])
    for key in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=3, unique=True)):
        if data.draw(st.booleans()):
            del row[key]
        else:
            row[key] = data.draw(values)
    typed, valid = both(kind, row)
    assert typed == valid, row


@pytest.mark.parametrize("row", [[], 3, "x", None, True])
def test_both_refuse_what_is_no_object(row):
    """A row is an object."""
    assert both("dataset", row) == (False, False)


def test_three_point_zero_is_no_integer_for_either():
    """JSON Schema's own integers include 3.0; ours, like the reader's, do not."""
    row = {**GOOD["dataset"], "expected_answer": 3.0}
    assert both("dataset", row) == (False, False)
    assert math.isclose(row["expected_answer"], 3)


def test_integers_of_the_formats_fit_in_64_bits():
    """What we write, any reader of JSON can hold."""
    row = {**GOOD["completions"], "num_tokens": 2**63}
    assert both("completions", row) == (False, False)
    assert both("sampling", {"seed": 2**63}) == (False, False)
