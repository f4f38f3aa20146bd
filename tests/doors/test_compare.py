"""Claims about ``course.compare`` as a command: the checklist, the numbers, the verdict."""

import json
import re

import msgspec
import pytest

from course.artifacts.manifest import manifest_bytes
from course.core.records import Manifest


def test_a_better_run_is_promoted(door, run):
    """Checklist, paired numbers, verdict; the last line is the candidate's folder."""
    one, other = run("one", 8), run("other", 16)
    done = door("compare", "--baseline", one, "--candidate", other)
    assert (done.code, done.err, done.last) == (0, "", str(other))
    assert "8 gained, 0 lost, 12 unchanged" in done.out
    assert "+0.400" in done.out and "0.008  (two-sided, exact McNemar)" in done.out
    assert "caveat: sampling is unknown" in done.out
    assert "\nPROMOTE  the candidate is better, under equal conditions as far as" in done.out


def test_the_checklist_says_equal_different_or_unknown(door, run, dataset, answers, tmp_path):
    """One word for each of the four respects, and the seals."""
    one = run("one", 8)
    path = tmp_path / "candidate"
    argv = ("--dataset", dataset, "--completions", answers(16), "--scorer", "single_line")
    door("eval", *argv, "--outdir", path)
    done = door("compare", "--baseline", one, "--candidate", path)
    rows = re.findall(
        r"^  . (intact|broken|equal|different|unknown) +(seal of \w+|\w+)", done.out, re.M
    )
    assert rows == [
        ("intact", "seal of baseline"),
        ("intact", "seal of candidate"),
        ("equal", "dataset"),
        ("equal", "prompts"),
        ("different", "scorer"),
        ("unknown", "sampling"),
    ]
    assert done.code == 1 and "LockedRoomViolation: scorer is different" in done.out
    assert "for information only: the room is not locked" in done.out


def test_a_worse_run_is_rejected_with_every_reason(door, run):
    """3 lost: worse, and not even significantly so."""
    done = door("compare", "--baseline", run("one", 8), "--candidate", run("other", 5))
    assert done.code == 1
    assert "Worse: the difference is -0.1500" in done.out
    assert "DeltaTooSmall: the difference -0.1500 is not above 0" in done.out
    assert "NotSignificant: p = 0.250 is above alpha 0.05" in done.out
    assert "\nREJECT  the claim does not stand\n" in done.out


def test_a_tampered_dataset_is_rejected(door, run, dataset, answers, tmp_path):
    """Acceptance: one changed answer, LockedRoomViolation, exit 1."""
    one = run("one", 8)
    changed = tmp_path / "tampered.jsonl"
    changed.write_text(
        dataset.read_text().replace('"expected_answer": 19', '"expected_answer": 77')
    )
    argv = ("--dataset", changed, "--completions", answers(16), "--outdir", tmp_path / "other")
    assert door("eval", *argv).code == 0
    done = door("compare", "--baseline", one, "--candidate", tmp_path / "other")
    assert done.code == 1 and "LockedRoomViolation: dataset is different: sha256" in done.out
    assert "PROMOTE" not in done.out


def edit_result(folder):
    path = folder / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"wrong_answer"', b'"right_answer"', 1))


def edit_manifest(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"version": "1"', '"version": "2"'))


def delete_manifest(folder):
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("side", ["one", "other"])
@pytest.mark.parametrize("tamper", [edit_result, edit_manifest, delete_manifest])
def test_a_broken_seal_is_rejected(door, run, side, tamper, tmp_path):
    """Acceptance: an edited result, an edited manifest, a deleted manifest: BrokenSeal, exit 1."""
    one, other = run("one", 8), run("other", 16)
    tamper(tmp_path / side)
    done = door("compare", "--baseline", one, "--candidate", other)
    assert done.code == 1 and f"BrokenSeal: {tmp_path / side}: " in done.out
    assert "x broken" in done.out and "REJECT" in done.out and "gained" not in done.out
    as_json = door("compare", "--baseline", one, "--candidate", other, "--json")
    assert as_json.code == 1 and as_json.json["reasons"][0]["reason"] == "BrokenSeal"
    inspected = door("inspect_run", "--run", tmp_path / side)
    assert inspected.code == 1 and inspected.err.startswith("error: BrokenSeal")


def test_json_has_the_verdict_the_room_and_the_numbers(door, run):
    """And nothing else is on stdout."""
    one, other = run("one", 8), run("other", 16)
    found = door("compare", "--baseline", one, "--candidate", other, "--json").json
    assert (found["verdict"], found["reasons"]) == ("PROMOTE", [])
    assert found["run_dir"] == str(other) and found["baseline"]["seal"] == "intact"
    assert [(c["name"], c["status"]) for c in found["room"]] == [
        ("dataset", "equal"),
        ("prompts", "equal"),
        ("scorer", "equal"),
        ("sampling", "unknown"),
    ]
    assert (found["paired"]["gained"], found["paired"]["lost"]) == (8, 0)
    assert found["paired"]["p_value"] == 2 / 256
    assert found["paired"]["detectable"]["paired"] is True
    assert found["rules"] == {"min_delta": 0.0, "alpha": 0.05, "vary": None}


def test_min_delta_and_alpha_are_thresholds(door, run):
    """+0.4 and p = .0078 against 0.5 and .001."""
    files = ("--baseline", run("one", 8), "--candidate", run("other", 16))
    done = door("compare", *files, "--min-delta", "0.5", "--alpha", "0.001")
    assert done.code == 1 and "DeltaTooSmall" in done.out and "NotSignificant" in done.out


@pytest.mark.parametrize(("alpha", "level"), [("0.05", "95"), ("0.001", "99.9"), ("0.1", "90")])
def test_the_interval_of_the_difference_says_its_level(door, run, alpha, level):
    """It follows --alpha, so a reader must not take it for 95 %."""
    files = ("--baseline", run("one", 8), "--candidate", run("other", 16))
    done = door("compare", *files, "--alpha", alpha)
    pattern = rf"^  difference +\+0\.400  \[.*\]  \({re.escape(level)} % interval\)$"
    assert re.search(pattern, done.out, re.M)


def test_a_promotion_with_sampling_varied_claims_no_equal_conditions(
    door, dataset, answers, tmp_path
):
    """The closing words name what differed, and a caveat shows how."""
    folders = []
    for name, right, temperature in (("one", 8, 1.0), ("other", 16, 0.5)):
        block = tmp_path / f"{name}.json"
        settings = {"top_p": 1.0, "max_new_tokens": 9, "n": 1, "greedy": False}
        block.write_text(json.dumps({"temperature": temperature, **settings}))
        files = ("--dataset", dataset, "--completions", answers(right, f"{name}.jsonl"))
        argv = (*files, "--sampling", block, "--outdir", tmp_path / name)
        assert door("eval", *argv).code == 0
        folders += [f"--{'baseline' if right == 8 else 'candidate'}", tmp_path / name]
    done = door("compare", *folders, "--vary", "sampling")
    assert done.code == 0 and "equal conditions" not in done.out
    assert "caveat: sampling was varied on purpose: temperature 1.0 against 0.5.\n" in done.out
    assert "\nPROMOTE  the candidate is better, with sampling varied on purpose\n" in done.out


def test_a_broken_run_still_shows_the_room(door, run, dataset, answers, tmp_path):
    """The checklist and its violations come from the manifests; numbers are not computed."""
    one = run("one", 8)
    argv = ("--dataset", dataset, "--completions", answers(16), "--scorer", "single_line")
    door("eval", *argv, "--outdir", tmp_path / "other")
    edit_result(tmp_path / "other")
    done = door("compare", "--baseline", one, "--candidate", tmp_path / "other")
    assert done.code == 1 and "x different  scorer" in done.out
    assert done.out.index("BrokenSeal: ") < done.out.index("LockedRoomViolation: scorer")
    assert "Paired" not in done.out and "gained" not in done.out


def test_vary_scorer_ends_in_compared_and_exit_0(door, run, dataset, answers, tmp_path):
    """Two rulers: side by side, never PROMOTE."""
    one = run("one", 8)
    argv = ("--dataset", dataset, "--completions", answers(16), "--scorer", "single_line")
    door("eval", *argv, "--outdir", tmp_path / "other")
    files = ("--baseline", one, "--candidate", tmp_path / "other")
    done = door("compare", *files, "--vary", "scorer")
    assert done.code == 0 and "\nCOMPARED  the numbers stand side by side" in done.out
    assert "(varied on purpose)" in done.out and "PROMOTE" not in done.out


def test_one_differing_example_with_several_samples_is_compared(door, dataset, jsonl, tmp_path):
    """The smallest change there is: one example of twenty, one sample of two."""
    folders = []
    for name, right in (("one", 0), ("other", 1)):
        rows = [
            {
                "id": f"e{k:02}",
                "completion": f"Final: {k if k + s < right else 77}",
                "sample_index": s,
            }
            for k in range(20)
            for s in range(2)
        ]
        files = ("--dataset", dataset, "--completions", jsonl(f"{name}.jsonl", rows))
        assert door("eval", *files, "--outdir", tmp_path / name).code == 0
        folders.append(tmp_path / name)
    found = door("compare", "--baseline", folders[0], "--candidate", folders[1], "--json").json
    assert (found["paired"]["gained"], found["paired"]["p_value"]) == (1, 1.0)
    assert found["verdict"] == "REJECT"


def test_an_incomplete_run_is_rejected(door, run, dataset, jsonl, tmp_path):
    """--allow-unscored lets it be written, not compared."""
    rows = [{"id": f"e{k:02}", "completion": f"Final: {k}"} for k in range(19)]
    files = ("--dataset", dataset, "--completions", jsonl("short.jsonl", rows))
    door("eval", *files, "--outdir", tmp_path / "short", "--allow-unscored")
    done = door("compare", "--baseline", run("one", 8), "--candidate", tmp_path / "short")
    assert done.code == 1 and "Incomplete" in done.out and "1 of 20 examples" in done.out


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan", "five"])
@pytest.mark.parametrize("flag", ["--alpha", "--min-delta"])
def test_a_threshold_outside_0_to_1_is_bad_usage(door, flag, value):
    """An alpha of 5 was meant to be 0.05."""
    done = door("compare", "--baseline", "a", "--candidate", "b", f"{flag}={value}")
    assert done.code == 2 and "is not a number from 0 to 1" in done.err


def test_comparing_writes_nothing(door, run):
    """Reading commands never write inside a run."""
    one, other = run("one", 8), run("other", 16)
    before = {
        path: path.stat().st_mtime_ns for path in [*one.iterdir(), *other.iterdir(), one, other]
    }
    door("compare", "--baseline", one, "--candidate", other)
    door("inspect_run", "--run", one)
    door("validate", one, other)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_hostile_names_in_a_sealed_run_stay_inert(door, run):
    """A scorer's version goes to the terminal; it must not command it."""
    one, other = run("one", 8), run("other", 16)
    path = other / "manifest.json"
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    evil = msgspec.structs.replace(manifest.scorer, version="\x1b[2J[red]\u202e")
    path.write_bytes(manifest_bytes(msgspec.structs.replace(manifest, scorer=evil))[0])
    done = door("compare", "--baseline", one, "--candidate", other)
    assert done.code == 1 and "\\x1b[2J[red]\\u202e" in done.out
    assert json.dumps("\x1b")[1:-1] not in done.out and "\x1b" not in done.out


def test_runs_about_other_examples_show_both_rates_and_pair_nothing(door, run, jsonl, tmp_path):
    """Declared on purpose, the rates stand side by side."""
    one = run("one", 8)
    examples = [{"id": f"x{k}", "prompt": "?", "expected_answer": k} for k in range(4)]
    rows = [{"id": f"x{k}", "completion": "Final: 0"} for k in range(4)]
    files = ("--dataset", jsonl("d2.jsonl", examples), "--completions", jsonl("c2.jsonl", rows))
    assert door("eval", *files, "--outdir", tmp_path / "other").code == 0
    argv = ("--baseline", one, "--candidate", tmp_path / "other", "--vary", "dataset")
    done = door("compare", *argv)
    assert done.code == 0 and "Not paired" in done.out and "COMPARED" in done.out
    assert re.search(r"baseline +0\.400 .*over all of its 20", done.out)
    assert re.search(r"candidate +0\.250 .*over all of its 4", done.out)
