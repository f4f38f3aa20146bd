"""Claims about course.pretrain: a policy from a seed, its card, and going on after a stop."""

import json

import pytest

from course.artifacts.seal import open_run
from course.core.paths import DATA
from course.learning import pretrain_run, pretraining
from course.policy.model_files import BASE, load_model

TEST = DATA / "datasets" / "math_test.jsonl"


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A recipe of seconds, and a holdout of twenty problems."""
    fields = pretraining.Recipe.__dataclass_fields__
    for name in ("equations", "clean", "demonstrations"):
        monkeypatch.setattr(fields[name], "default", 200)
    recipe = pretraining.Recipe(equations=200, clean=200, demonstrations=200)
    monkeypatch.setattr(pretraining, "Recipe", lambda seed: pretraining.replace(recipe, seed=seed))
    monkeypatch.setattr(pretrain_run, "COMMIT_EVERY", 2)
    holdout = tmp_path / "holdout.jsonl"
    holdout.write_text("".join(TEST.read_text().splitlines(keepends=True)[:20]))
    return ("--steps", "5", "--holdout", holdout)


def test_it_leaves_a_sealed_run_that_is_a_policy(door, small, tmp_path):
    """The folder opens as tiny:FOLDER; metrics and the card stand beside the weights."""
    done = door("pretrain", *small, "--outdir", tmp_path / "p")
    assert done.code == 0 and done.last.endswith("p")
    run = open_run(tmp_path / "p")
    assert run.manifest.kind == "pretrain" and run.manifest.policy["recipe"]["seed"] == 0
    assert {"metrics.jsonl", "timings.jsonl", "model.safetensors", "README.md"} <= set(
        run.manifest.outputs
    )
    lines = (tmp_path / "p" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert [row["step"] for row in metrics] == [1, 2, 3, 4, 5]
    sampled = door("sample", "--policy", f"tiny:{tmp_path / 'p'}", "--dataset", TEST,
                   "--max", 3, "--outdir", tmp_path / "s")  # fmt: skip
    assert sampled.code == 0


def test_a_stopped_run_ends_with_the_same_weights(door, small, tmp_path, monkeypatch):
    """Stopped at step 3 of 5, it goes on from the last commit, step 2."""
    run = pretraining.Pretraining.run

    def interrupted(self):
        for report in run(self):
            yield report
            if report.step == 3:
                raise KeyboardInterrupt

    assert door("pretrain", *small, "--outdir", tmp_path / "whole").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(pretraining.Pretraining, "run", interrupted)
        stopped = door("pretrain", *small, "--outdir", tmp_path / "broken")
    assert stopped.code == 130 and "--resume" in stopped.err
    other = door("pretrain", *small, "--outdir", tmp_path / "broken", "--resume", "--seed", 1)
    assert other.code == 2 and "seed" in other.err
    assert door("pretrain", *small, "--outdir", tmp_path / "broken", "--resume").code == 0
    for name in ("model.safetensors", "metrics.jsonl", "README.md", "summary.json"):
        whole, broken = (tmp_path / run / name for run in ("whole", "broken"))
        assert whole.read_bytes() == broken.read_bytes(), name


def test_the_shipped_base_is_a_sealed_run_of_this_command(door):
    """Its manifest names the recipe; its weights are those that were sealed."""
    run = open_run(BASE)
    assert run.manifest.kind == "pretrain" and not run.manifest.git.dirty
    assert run.manifest.policy["recipe"]["seed"] == 0
    assert run.manifest.policy["recipe"]["equations"] == pretraining.Recipe().equations
    size = sum(file.stat().st_size for file in BASE.iterdir())
    assert size <= 3_000_000
    assert sum(weight.numel() for weight in load_model(BASE).model.parameters()) < 1_000_000


def test_a_slice_of_the_card_is_measured_again(door, tmp_path):
    """Fifty problems fall where the card says, within four standard errors."""
    holdout = tmp_path / "holdout.jsonl"
    holdout.write_text("".join(TEST.read_text().splitlines(keepends=True)[::20]))
    done = door("pretrain", "--measure", "tiny", "--holdout", holdout, "--json")
    card = json.loads((BASE / "summary.json").read_text())["metrics"]
    for name in ("pass_at_1", "pass_at_16", "greedy", "forced", "majority_of_16"):
        rate = card[name]["rate"]
        error = (rate * (1 - rate) / 50) ** 0.5
        assert abs(done.json[name]["rate"] - rate) <= 4 * error + 0.02, name


@pytest.mark.slow
def test_the_whole_card_is_measured_again(door):
    """The same command, the same machine-made numbers, within their own intervals."""
    done = door("pretrain", "--measure", "tiny", "--json")
    card = json.loads((BASE / "summary.json").read_text())["metrics"]
    assert done.code == 0
    for name in ("pass_at_1", "pass_at_16", "greedy", "forced", "likeliest_of_16"):
        assert card[name]["low"] <= done.json[name]["rate"] <= card[name]["high"], name


def test_a_short_run_is_not_praised(door, small, tmp_path):
    """Its card and its JSON say what it lacks."""
    done = door("pretrain", *small, "--outdir", tmp_path / "p", "--json")
    card = (tmp_path / "p" / "README.md").read_text()
    assert "not the base" in card and "--steps 5" in card and "of `holdout`" in card
    assert not done.json["claims"]["pass@16 is at least .98"]


def test_a_holdout_that_cannot_be_measured_is_refused_before_the_training(door, small, tmp_path):
    """A prompt beyond the context, or an id twice: exit 2 at once, nothing left."""
    row = {"id": "long", "prompt": "one " * 400, "expected_answer": 1}
    short = {**row, "prompt": "one"}
    for name, lines in (("long", [row]), ("twice", [short, short])):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for argv in (["--steps", 5, "--outdir", tmp_path / "p"], ["--measure", "tiny"]):
            done = door("pretrain", *argv, "--holdout", file)
            assert (done.code == 2 and file.name in done.err) or "long: the prompt" in done.err
    assert not (tmp_path / "p").exists() and not (tmp_path / "p.partial").exists()


@pytest.mark.parametrize("flags", [
    ["--steps", "1"], ["--measure", ""], ["--measure", "tiny", "--steps", "5"],
    ["--measure", "data/models/base"], ["--resume"],
])  # fmt: skip
def test_flags_that_make_no_sense_are_refused(door, flags):
    """Exit 2 in words; nothing is built for ten minutes instead."""
    done = door("pretrain", *flags)
    assert done.code == 2 and done.err.startswith("error: ")


def test_only_a_tiny_policy_has_such_a_card(door, tmp_path):
    """Exit 2: the forced answer is read from its own tokens."""
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": "a", "completion": "b"}\n')
    done = door("pretrain", "--measure", f"replay:{file}")
    assert done.code == 2 and "tiny" in done.err
