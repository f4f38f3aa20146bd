"""Claims about ``course.eval`` as a command: what it prints, writes and exits with."""

import json
from pathlib import Path

import pytest

from course.artifacts.manifest import UNSEALED
from course.artifacts.run_folder import RunFolder
from course.artifacts.seal import seal_problems
from course.core.records import Command, Manifest, SamplingSettings


def test_a_run_ends_with_its_folder_and_is_sealed(door, dataset, answers, tmp_path):
    """The last line of stdout is what a script wants."""
    done = door(
        "eval", "--dataset", dataset, "--completions", answers(15), "--outdir", tmp_path / "run"
    )
    assert (done.code, done.last, done.err) == (0, str(tmp_path / "run"), "")
    assert "pass rate            0.750  [0.531, 0.888]" in done.out
    assert "completions on dataset: 20 examples, scorer final_answer v1" in done.out
    assert seal_problems(tmp_path / "run") == []
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "manifest.json",
        "results.jsonl",
        "summary.json",
        "summary.md",
    ]


def test_json_is_the_summary_and_nothing_else(door, dataset, answers, tmp_path):
    """With run_dir, and the same numbers as the file."""
    files = ("--dataset", dataset, "--completions", answers(15))
    done = door("eval", *files, "--outdir", tmp_path / "run", "--json")
    assert done.json["run_dir"] == str(tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {key: done.json[key] for key in summary} == summary
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert done.json["run_id"] == manifest["run_id"]


def test_summary_md_tells_the_same_story(run):
    """For people who open the folder."""
    text = (run("run", 15) / "summary.md").read_text()
    assert "| pass rate, 95 % interval | 0.750  [0.531, 0.888] |" in text
    assert "| ok | 15 | 75.0% | The answer is right and written as asked. |" in text


def test_without_outdir_the_run_is_named_under_runs(door, dataset, answers, tmp_path, monkeypatch):
    """NAME-001, then NAME-002; the folder is made if need be."""
    monkeypatch.setattr("course.core.paths.RUNS", tmp_path / "runs")
    files = ("--dataset", dataset, "--completions", answers(3, "mine.jsonl"))
    names = [Path(door("eval", *files).last) for _ in range(2)]
    assert names == [tmp_path / "runs" / f"eval-mine-00{k}" for k in (1, 2)]
    assert all(seal_problems(folder) == [] for folder in names)


def test_an_earlier_run_is_kept_unless_overwrite_is_said(door, run, dataset, answers):
    """Refused with what to do; then replaced."""
    folder = run("run", 15)
    before = (folder / "manifest.json").read_bytes()
    argv = ("--dataset", dataset, "--completions", answers(3), "--outdir", folder)
    refused = door("eval", *argv)
    assert refused.code == 2 and "--overwrite" in refused.err
    assert (folder / "manifest.json").read_bytes() == before
    assert door("eval", *argv, "--overwrite").code == 0
    assert json.loads((folder / "summary.json").read_text())["metrics"]["n_pass"] == 3


def test_missing_completions_are_loud_and_exit_1_and_the_run_is_sealed(
    door, dataset, jsonl, tmp_path
):
    """What was measured is evidence; what was not is no zero."""
    rows = [{"id": f"e{k:02}", "completion": f"Final: {k}"} for k in range(18)]
    files = ("--dataset", dataset, "--completions", jsonl("short.jsonl", rows))
    done = door("eval", *files, "--outdir", tmp_path / "run")
    assert done.code == 1 and seal_problems(tmp_path / "run") == []
    assert "UNSCORED: 2 of 20 rows have no reward." in done.err
    assert "2 examples have no completion: e18, e19\n" in done.err
    assert f"course.inspect_run --run {tmp_path / 'run'} --code missing_completion" in done.err
    assert "1.000" in done.out and done.last == str(tmp_path / "run")
    allowed = door("eval", *files, "--outdir", tmp_path / "two", "--allow-unscored")
    assert allowed.code == 0 and "note: 2 of 20 rows have no reward" in allowed.err


def test_a_scorer_that_fails_exits_1_with_the_count(door, dataset, answers, tmp_path):
    """The rate is over what was measured."""
    path = tmp_path / "broken.py"
    path.write_text(
        "def score(example, completion):\n"
        "    if example['id'] == 'e03':\n"
        "        raise KeyError('oh')\n"
        "    return {'reward': 1.0, 'details': {'code': 'ok'}}\n"
    )
    argv = ("--dataset", dataset, "--completions", answers(20), "--scorer", f"{path}:score")
    done = door("eval", *argv, "--outdir", tmp_path / "run")
    assert done.code == 1 and "UNSCORED: 1 of 20 rows have no reward." in done.err
    assert "The scorer failed on 1. What went wrong, first:\n    KeyError: 'oh'" in done.err
    assert "19 of 19 passed" in done.out
    rows = [json.loads(x) for x in (tmp_path / "run" / "results.jsonl").read_bytes().splitlines()]
    assert (rows[3]["reward"], rows[3]["error"]) == (None, "KeyError: 'oh' (broken.py:3)")


def test_a_scorer_that_prints_does_not_reach_stdout(door, dataset, answers, tmp_path):
    """stdout is the answer alone, also while the scorer is imported."""
    path = tmp_path / "noisy.py"
    path.write_text(
        "print('importing')\n"
        "def score(example, completion):\n"
        "    print('scoring')\n"
        "    return {'reward': 1.0, 'details': {'code': 'ok'}}\n"
    )
    argv = ("--dataset", dataset, "--completions", answers(20), "--scorer", f"{path}:score")
    done = door("eval", *argv, "--outdir", tmp_path / "run", "--json")
    assert done.json["metrics"]["n_pass"] == 20
    assert "importing" in done.err and done.err.count("scoring") == 20


def test_ask_twice_catches_a_nondeterministic_scorer(door, dataset, answers, tmp_path):
    """It counts its calls: the second answer is another."""
    path = tmp_path / "moody.py"
    path.write_text(
        "calls = []\n"
        "def score(example, completion):\n"
        "    calls.append(1)\n"
        "    return {'reward': float(len(calls) % 2), 'details': {'code': 'ok'}}\n"
    )
    argv = ("--dataset", dataset, "--completions", answers(20), "--scorer", f"{path}:score")
    assert door("eval", *argv, "--outdir", tmp_path / "once").code == 0
    done = door("eval", *argv, "--outdir", tmp_path / "twice", "--ask-twice")
    assert done.code == 1 and "The scorer failed on 20." in done.err
    assert "nondeterministic: asked twice" in done.err


def test_the_input_is_never_overwritten_with_the_run(door, dataset, answers, tmp_path):
    """Samples that lie in the folder to be replaced would be gone for good."""
    first = door(
        "eval", "--dataset", dataset, "--completions", answers(20), "--outdir", tmp_path / "a"
    )
    assert first.code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    argv = ("--dataset", dataset, "--completions", tmp_path / "a" / "results.jsonl", "--overwrite")
    done = door("eval", *argv, "--outdir", tmp_path / "a")
    assert done.code == 2 and "which it would be overwritten with" in done.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before


def test_a_run_of_another_kind_is_not_replaced(door, dataset, answers, tmp_path):
    """Hours of sampling are not lost to a mistyped --outdir."""
    argv = ("--dataset", dataset, "--completions", answers(20), "--outdir", tmp_path / "a")
    assert door("eval", *argv).code == 0
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"kind": "eval"', '"kind": "sample"'))
    done = door("eval", *argv, "--overwrite")
    assert done.code == 2 and "holds a sample run" in done.err


def test_prompts_other_than_the_policy_was_given_are_no_equal_prompts(
    door, dataset, jsonl, tmp_path
):
    """The recorded prompts are those that the policy saw."""
    rows = [{"id": f"e{k:02}", "completion": f"Final: {k}"} for k in range(20)]
    plain = jsonl("completions.jsonl", rows)
    assert (
        door("eval", "--dataset", dataset, "--completions", plain, "--outdir", tmp_path / "a").code
        == 0
    )
    seen = manifest_of(tmp_path / "a")["prompts_sha256"]
    other = "0" * 64
    make_sample_run(tmp_path / "sample", plain.read_bytes(), prompts_sha256=other)
    argv = ("--dataset", dataset, "--completions", tmp_path / "sample" / "completions.jsonl")
    done = door("eval", *argv, "--outdir", tmp_path / "b")
    assert done.code == 0 and "the policy was given other prompts" in done.err
    assert manifest_of(tmp_path / "b")["prompts_sha256"] == other != seen


def manifest_of(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def test_a_sampling_file_is_recorded_with_its_hash(run, tmp_path):
    """The block for the Locked Room, the file among the inputs."""
    path = tmp_path / "sampling.json"
    path.write_text('{"temperature": 1.0, "top_p": 1.0, "n": 1, "greedy": false, "seed": 4}')
    manifest = manifest_of(run("run", 3, "--sampling", path))
    assert manifest["sampling"]["temperature"] == 1.0 and manifest["sampling"]["seed"] == 4
    assert manifest["inputs"]["sampling"]["path"] == str(path)


def make_sample_run(path, data, *, prompts_sha256=None):
    """A run folder with completions and a known sampling block."""
    sampling = SamplingSettings(temperature=0.5, top_p=1.0)
    with RunFolder(path, kind="sample") as folder:
        folder.write("completions.jsonl", data)
        folder.publish(
            lambda outputs: Manifest(
                1, "sample", "s", "2026-01-01T00:00:00Z", 0.0, Command([], {}), {}, prompts_sha256,
                None, {"name": "tiny"}, sampling, {}, None, outputs, UNSEALED,
            )
        )  # fmt: skip
    return path


@pytest.fixture
def sample_run(answers, tmp_path):
    return make_sample_run(tmp_path / "sample", answers(5).read_bytes())


def test_sampling_is_inherited_from_a_sample_run(door, dataset, sample_run, tmp_path):
    """And so is the policy."""
    files = ("--dataset", dataset, "--completions", sample_run / "completions.jsonl")
    assert door("eval", *files, "--outdir", tmp_path / "run").code == 0
    manifest = manifest_of(tmp_path / "run")
    assert manifest["sampling"]["temperature"] == 0.5 and manifest["policy"] == {"name": "tiny"}


def test_changed_completions_of_a_sample_run_are_refused(door, dataset, sample_run, tmp_path):
    """The seal says no: exit 1, and no run is left."""
    path = sample_run / "completions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Final: 77", b"Final: 19"))
    done = door("eval", "--dataset", dataset, "--completions", path, "--outdir", tmp_path / "run")
    assert done.code == 1 and "BrokenSeal" in done.err and "copy the completions out" in done.err
    assert not (tmp_path / "run").exists()


def test_max_is_a_quick_look(door, dataset, answers, tmp_path):
    """Five examples, said and recorded."""
    files = ("--dataset", dataset, "--completions", answers(3))
    done = door("eval", *files, "--max", 5, "--outdir", tmp_path / "run", "--json")
    assert done.json["run"]["n_examples"] == 5 and done.json["metrics"]["pass_rate"] == 0.6


@pytest.mark.parametrize("value", ["0", "-3", "many", "1.5"])
def test_a_bad_max_is_bad_usage(door, value):
    """argparse's exit code, and what was expected."""
    done = door("eval", "--dataset", "d", "--completions", "c", "--max", value)
    assert done.code == 2 and "not a whole number of at least 1" in done.err


def test_several_samples_are_said_to_be_several(door, dataset, jsonl, tmp_path):
    """40 completions of 20 examples, half of them right."""
    rows = [
        {"id": f"e{k:02}", "completion": f"Final: {k + s}", "sample_index": s}
        for s in range(2)
        for k in range(20)
    ]
    files = ("--dataset", dataset, "--completions", jsonl("two.jsonl", rows))
    done = door("eval", *files, "--outdir", tmp_path / "run")
    assert done.code == 0 and "20 examples, 40 completions" in done.out
    assert "(95 % interval; 20 of 40 passed)" in done.out


def test_a_byte_order_mark_and_crlf_are_mentioned(door, dataset, answers, tmp_path):
    """Read, and said once each."""
    path = answers(15)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    done = door("eval", "--dataset", dataset, "--completions", path, "--outdir", tmp_path / "run")
    assert done.code == 0 and "15 of 20 passed" in done.out
    assert done.err.count("byte-order mark") == done.err.count("CRLF") == 1


def test_odd_file_names_are_no_obstacle_and_no_weapon(door, dataset, answers, tmp_path):
    """A name that is not UTF-8 is read; a name with an escape sequence stays inert."""
    bad = Path(f"{tmp_path}/c\udcff\x1b[31m.jsonl")
    answers(15).rename(bad)
    done = door("eval", "--dataset", dataset, "--completions", bad, "--outdir", tmp_path / "run")
    assert done.code == 0 and "\x1b" not in done.out + done.err
    assert "\x1b" not in (tmp_path / "run" / "summary.md").read_text()
    assert seal_problems(tmp_path / "run") == []


def test_the_manifest_names_no_secret(door, dataset, answers, tmp_path):
    """A key on the command line does not reach the artifact, even where it makes no sense."""
    out = tmp_path / "sk-abcdefgh12345678"
    argv = ("--dataset", dataset, "--completions", answers(3), "--outdir", out)
    assert door("eval", *argv).code == 0
    command = manifest_of(out)["command"]
    assert "abcdefgh" not in json.dumps(command) and command["argv"][:3] == [
        "python",
        "-m",
        "course.eval",
    ]
