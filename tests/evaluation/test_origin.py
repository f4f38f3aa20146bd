"""Claims about where completions come from: a sample run's manifest, if it can be believed."""

import json

import pytest

from course.core.errors import BrokenSealError
from course.core.records import SamplingSettings
from course.evaluation.eval_run import Origin, origin_of

SAMPLING = SamplingSettings(temperature=0.5, top_p=1.0, n=1, seed=3)
ROWS = b'{"id":"a","completion":"Final: 1"}\n'
NOWHERE = Origin(None, None)


@pytest.fixture
def sample(sealed_run):
    policy = {"name": "tiny"}
    files = {"completions.jsonl": ROWS}
    return sealed_run("sample", "sample", files, sampling=SAMPLING, policy=policy)


def test_completions_in_a_sample_run_bring_sampling_and_policy(sample):
    """No flag needed."""
    assert origin_of(sample / "completions.jsonl") == Origin(SAMPLING, {"name": "tiny"})


def test_changed_completions_are_refused(sample):
    """They are not what the manifest's sampling block is about."""
    (sample / "completions.jsonl").write_bytes(ROWS.replace(b"1", b"2"))
    with pytest.raises(BrokenSealError, match=r"completions\.jsonl is not what the run sealed"):
        origin_of(sample / "completions.jsonl")


def test_an_edited_manifest_is_refused(sample):
    """A changed temperature must not travel into the Locked Room."""
    path = sample / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"temperature": 0.5', b'"temperature": 0.7'))
    with pytest.raises(BrokenSealError, match=r"manifest\.json was edited"):
        origin_of(sample / "completions.jsonl")


def test_a_manifest_with_a_missing_field_is_refused(sample):
    """It is ours and it is broken."""
    path = sample / "manifest.json"
    plain = json.loads(path.read_bytes())
    del plain["environment"]
    path.write_text(json.dumps(plain))
    with pytest.raises(BrokenSealError, match="cannot be read"):
        origin_of(sample / "completions.jsonl")


def test_completions_that_the_run_does_not_know_have_no_origin(sample):
    """A file dropped beside a run is not of the run."""
    (sample / "mine.jsonl").write_bytes(ROWS)
    assert origin_of(sample / "mine.jsonl") == NOWHERE


@pytest.mark.parametrize("text", [None, "{}", '{"manifest_version": 3}', "not JSON", "[]"])
def test_a_manifest_that_no_run_wrote_says_nothing(tmp_path, text):
    """A browser extension's manifest.json, for instance, is no reason to stop."""
    (tmp_path / "c.jsonl").write_bytes(ROWS)
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    assert origin_of(tmp_path / "c.jsonl") == NOWHERE


def test_a_missing_file_has_no_origin(tmp_path):
    """The reader says what is wrong with it."""
    assert origin_of(tmp_path / "none.jsonl") == NOWHERE
