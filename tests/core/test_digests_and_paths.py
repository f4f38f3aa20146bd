"""Equal data gives equal bytes, and a path in an artifact names no machine."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core.digests import canonical_json, pretty_json, sha256_file
from course.core.paths import ROOT, display, recorded
from course.core.records import SamplingSettings

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def test_canonical_json_by_hand():
    """Sorted keys, no spaces, UTF-8 as it is."""
    value = {"b": [1, 2.5, None], "a": {"z": True, "é": "ü\n"}}
    assert canonical_json(value) == '{"a":{"z":true,"é":"ü\\n"},"b":[1,2.5,null]}'.encode()


@given(data)
def test_canonical_json_forgets_the_order_of_keys_and_nothing_else(value):
    """Any order in gives the same bytes out, and they decode to the value."""

    def backwards(value):
        if isinstance(value, dict):
            return {key: backwards(value[key]) for key in reversed(value)}
        return [backwards(item) for item in value] if isinstance(value, list) else value

    assert canonical_json(value) == canonical_json(backwards(value))
    assert json.loads(canonical_json(value)) == value


def test_a_struct_is_written_as_its_fields():
    """A record and the dict it was read from hash alike."""
    settings = SamplingSettings(temperature=1.0, seed=3)
    fields = {name: getattr(settings, name) for name in settings.__struct_fields__}
    assert canonical_json(settings) == canonical_json(fields)


def test_pretty_json_keeps_the_declared_order_and_ends_in_a_newline():
    """For people: the order in which the fields were thought of."""
    assert pretty_json({"b": 1, "a": [2]}) == b'{\n  "b": 1,\n  "a": [\n    2\n  ]\n}\n'


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_sha256_of_a_file_is_hashlib_s(write, size):
    """Read in pieces, hashed as one."""
    content = b"ab\n" * (size // 3 + 1)
    assert sha256_file(write(content)) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (ROOT / "data" / "x.jsonl", "data/x.jsonl"),
        (ROOT / "data" / ".." / "runs", "runs"),
        (ROOT, "."),
        (Path("/elsewhere/x.jsonl"), "/elsewhere/x.jsonl"),
        (ROOT.parent / f"{ROOT.name}-copy" / "x", f"{ROOT.parent.as_posix()}/{ROOT.name}-copy/x"),
    ],
)
def test_an_artifact_names_a_file_of_the_repository_from_its_root(path, shown, monkeypatch):
    """Artifacts of two machines name the same file alike, wherever the command was typed."""
    monkeypatch.chdir(ROOT / "tests")
    assert recorded(path) == shown


def test_a_message_names_a_path_that_can_be_typed_again(tmp_path, monkeypatch):
    """Relative to where the reader is, when it lies there; else as it was given."""
    monkeypatch.chdir(tmp_path)
    assert display(Path("golden")) == "golden" == display(tmp_path / "golden")
    assert display(Path("../other")) == "../other"
    assert display(ROOT / "data") == (ROOT / "data").as_posix()
    monkeypatch.chdir(ROOT)
    assert display(ROOT / "data") == "data" and display(ROOT) == "."
