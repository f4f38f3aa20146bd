"""Claims about where completions come from: a sample run's manifest, if it can be believed."""

import json

import pytest

from course.core.errors import BrokenSealError, DataError, UsageError
from course.core.records import RunFacts, SamplingSettings
from course.evaluation.origin import Origin, check_count, origin_of, with_declared

SAMPLING = SamplingSettings(temperature=0.5, top_p=1.0, n=1, seed=3)
ROWS = b'{"id":"a","completion":"Final: 1"}\n'
NOWHERE = Origin()
PROMPTS = "a" * 64


@pytest.fixture
def sample(sealed_run):
    policy = {"name": "tiny"}
    files = {"completions.jsonl": ROWS}
    facts = {"sampling": SAMPLING, "policy": policy, "prompts_sha256": PROMPTS}
    return sealed_run("sample", "sample", files, **facts)


def test_completions_in_a_sample_run_bring_sampling_and_policy(sample):
    """No flag needed; the prompts the policy was given come along too."""
    expected = Origin(SAMPLING, {"name": "tiny"}, PROMPTS)
    assert origin_of(sample / "completions.jsonl") == expected


def beside(sample, folder, rows=ROWS):
    """A sample run's rows and its manifest, taken out under another name."""
    (folder / "frozen.jsonl").write_bytes(rows)
    (folder / "frozen.manifest.json").write_bytes((sample / "manifest.json").read_bytes())
    return folder / "frozen.jsonl"


def test_a_manifest_beside_a_file_speaks_for_it(sample, tmp_path):
    """Frozen files keep what is known of them without their run folder."""
    assert origin_of(beside(sample, tmp_path)) == origin_of(sample / "completions.jsonl")


def test_a_manifest_beside_a_changed_file_is_refused(sample, tmp_path):
    """Else an edited frozen file would pass for what the policy wrote."""
    with pytest.raises(BrokenSealError, match=r"frozen\.jsonl is not what the run sealed"):
        origin_of(beside(sample, tmp_path, ROWS.replace(b"1", b"2")))


def test_an_edited_manifest_beside_a_file_is_refused(sample, tmp_path):
    """Its seal covers the sampling block wherever it stands."""
    file = beside(sample, tmp_path)
    path = tmp_path / "frozen.manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"temperature": 0.5', b'"temperature": 0.7'))
    with pytest.raises(BrokenSealError, match=r"frozen\.manifest\.json was edited"):
        origin_of(file)


def test_a_link_into_a_sample_run_has_the_same_origin(sample, tmp_path):
    """Unknown would be a caveat where there is a violation."""
    (tmp_path / "link.jsonl").symlink_to(sample / "completions.jsonl")
    assert origin_of(tmp_path / "link.jsonl") == origin_of(sample / "completions.jsonl")


def test_a_sampling_file_fills_in_what_is_unknown(sample, tmp_path):
    """The run did not say max_new_tokens; the file may."""
    file = tmp_path / "sampling.json"
    file.write_text('{"temperature": 0.5, "max_new_tokens": 12}')
    block = with_declared(origin_of(sample / "completions.jsonl"), file).sampling
    assert block == SamplingSettings(temperature=0.5, top_p=1.0, max_new_tokens=12, n=1, seed=3)
    assert with_declared(NOWHERE, file).sampling == SamplingSettings(
        temperature=0.5, max_new_tokens=12
    )


def test_a_sampling_file_never_overrules_a_seal(sample, tmp_path):
    """Samples drawn at 0.5 do not become samples drawn at 1 because a file says so."""
    file = tmp_path / "sampling.json"
    file.write_text('{"temperature": 1.0}')
    with pytest.raises(UsageError, match=r"temperature is 0\.5, and the file says 1\.0"):
        with_declared(origin_of(sample / "completions.jsonl"), file)


@pytest.mark.parametrize(("n", "completions", "missing", "fits"), [
    (1, 10, 0, True), (4, 40, 0, True), (4, 36, 1, True), (None, 7, 0, True),
    (16, 10, 0, False), (1, 20, 0, False),
])  # fmt: skip
def test_the_declared_number_of_samples_must_be_there(n, completions, missing, fits):
    """A block that says 16 over one completion each would describe other data."""
    facts = RunFacts("eval", "r", "s v1", 10, completions, completions, missing, missing, 0)
    if fits:
        check_count(SamplingSettings(n=n), facts)
    else:
        with pytest.raises(DataError, match=f"says n = {n}"):
            check_count(SamplingSettings(n=n), facts)


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
