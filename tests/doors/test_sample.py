"""Claims about course.sample: what it writes, what it shows, and how it refuses."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from course.artifacts.seal import open_run
from course.core.paths import DATA, ROOT

DEV = DATA / "datasets" / "math_dev.jsonl"
FAST = ("--max", "6")


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_its_completions_go_straight_into_eval(door, tmp_path):
    """The run is sealed; eval takes sampling, policy and prompts from it."""
    done = door("sample", "--dataset", DEV, "--outdir", tmp_path / "s", "--seed", 3)
    assert done.code == 0 and done.last.endswith("s")
    scored = door("eval", "--dataset", DEV, "--completions", tmp_path / "s" / "completions.jsonl",
                  "--outdir", tmp_path / "e", "--json")  # fmt: skip
    assert scored.code == 0
    assert 0.15 < scored.json["metrics"]["pass_rate"] < 0.45
    sampled, measured = (open_run(tmp_path / name).manifest for name in "se")
    assert measured.sampling == sampled.sampling and sampled.sampling.seed == 3
    assert measured.policy == sampled.policy and sampled.policy["kind"] == "tiny"
    assert measured.prompts_sha256 == sampled.prompts_sha256


def test_several_samples_and_the_pack_hold_the_same_texts(door, tmp_path):
    """Two ways to write down one thing; the first of sixteen is the only one of one."""
    common = ("--dataset", DEV, *FAST)
    assert door("sample", *common, "--n", 4, "--outdir", tmp_path / "rows").code == 0
    assert door("sample", *common, "--n", 4, "--pack", "--outdir", tmp_path / "pack").code == 0
    assert door("sample", *common, "--outdir", tmp_path / "one").code == 0
    flat = rows(tmp_path / "rows" / "completions.jsonl")
    packs = rows(tmp_path / "pack" / "selection_pack.jsonl")
    texts = [sample["completion"] for pack in packs for sample in pack["samples"]]
    assert [row["completion"] for row in flat] == texts and len(texts) == 24
    assert [row["sample_index"] for row in flat] == [0, 1, 2, 3] * 6
    first = [row["completion"] for row in rows(tmp_path / "one" / "completions.jsonl")]
    assert first == texts[::4]


def test_the_summary_counts_what_was_written(door, tmp_path):
    """Tokens, log-probs and endings are those of the rows; the rows are the claim."""
    done = door("sample", "--dataset", DEV, "--n", 2, "--max-new-tokens", 4, *FAST,
                "--outdir", tmp_path / "s", "--json")  # fmt: skip
    written = rows(tmp_path / "s" / "completions.jsonl")
    run, metrics = done.json["run"], done.json["metrics"]
    assert run["n_completions"] == len(written) == 12 and run["n_examples"] == 6
    cut = sum(row["finish_reason"] == "length" for row in written)
    assert run["n_truncated"] == cut > 0
    assert metrics["mean_num_tokens"] == pytest.approx(sum(r["num_tokens"] for r in written) / 12)
    logprobs = [row["sum_logprob"] for row in written]
    assert metrics["mean_sum_logprob"] == pytest.approx(sum(logprobs) / 12)
    assert all(value < 0 for value in logprobs)


def test_greedy_is_temperature_zero(door, tmp_path):
    """One word for it in the Locked Room, whichever flag was given."""
    for name, flags in (("a", ["--greedy"]), ("b", ["--temperature", 0, "--top-p", 0.5])):
        assert (
            door("sample", "--dataset", DEV, *FAST, *flags, "--outdir", tmp_path / name).code == 0
        )
    one, other = (open_run(tmp_path / name).manifest for name in "ab")
    assert one.sampling == other.sampling and one.sampling.greedy
    assert one.outputs["completions.jsonl"] == other.outputs["completions.jsonl"]


def test_the_same_command_gives_the_same_bytes_and_another_seed_others(door, tmp_path):
    """Randomness is a function of the seed."""
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        door("sample", "--dataset", DEV, *FAST, "--seed", seed, "--outdir", tmp_path / name)
    a, b, c = ((tmp_path / name / "completions.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_replayed_completions_claim_no_sampling(door, tmp_path):
    """Nobody knows how a file was sampled, so the run does not say."""
    frozen = tmp_path / "frozen.jsonl"
    door("sample", "--dataset", DEV, *FAST, "--outdir", tmp_path / "s")
    frozen.write_bytes((tmp_path / "s" / "completions.jsonl").read_bytes())
    done = door("sample", "--dataset", DEV, *FAST, "--policy", f"replay:{frozen}",
                "--outdir", tmp_path / "r")  # fmt: skip
    assert done.code == 0
    assert open_run(tmp_path / "r").manifest.sampling is None
    assert (tmp_path / "r" / "completions.jsonl").read_bytes() == frozen.read_bytes()


def test_a_replay_of_sealed_samples_keeps_what_is_known_of_them(door, tmp_path):
    """The frozen pack's sampling and policy travel along, with fewer samples and all."""
    pack = DATA / "packs" / "selection_pack_dev_t0.3.jsonl"
    done = door("sample", "--dataset", DEV, "--policy", f"replay:{pack}", "--n", 4, "--pack",
                "--outdir", tmp_path / "r")  # fmt: skip
    manifest = open_run(tmp_path / "r").manifest
    assert done.code == 0
    assert (manifest.sampling.temperature, manifest.sampling.n) == (0.3, 4)
    assert manifest.policy["kind"] == "replay" and manifest.policy["of"]["kind"] == "tiny"


def test_a_replay_does_not_mend_a_broken_seal(door, tmp_path):
    """Edited samples stay edited samples."""
    door("sample", "--dataset", DEV, *FAST, "--outdir", tmp_path / "s")
    rows_file = tmp_path / "s" / "completions.jsonl"
    rows_file.write_bytes(rows_file.read_bytes().replace(b"The", b"the"))
    done = door("sample", "--dataset", DEV, *FAST, "--policy", f"replay:{rows_file}",
                "--outdir", tmp_path / "r")  # fmt: skip
    assert done.code == 1 and "BrokenSeal" in done.err and not (tmp_path / "r").exists()


def test_a_replay_is_not_sampled(door):
    """A temperature would be ignored, so it is refused."""
    frozen = DATA / "rollouts" / "frozen_rollouts_dev.jsonl"
    done = door("sample", "--dataset", DEV, "--policy", f"replay:{frozen}", "--temperature", 0.3)
    assert done.code == 2 and "--temperature" in done.err


def test_a_pack_needs_every_sample_and_says_so_before_it_begins(door, tmp_path):
    """The second example has none."""
    frozen = tmp_path / "frozen.jsonl"
    frozen.write_text(json.dumps({"id": rows(DEV)[0]["id"], "completion": "Final: 1"}) + "\n")
    done = door("sample", "--dataset", DEV, *FAST, "--policy", f"replay:{frozen}", "--pack",
                "--outdir", tmp_path / "r")  # fmt: skip
    assert done.code == 2 and rows(DEV)[1]["id"] in done.err
    assert list(tmp_path.iterdir()) == [frozen]


def test_what_a_replay_lacks_is_missing_and_never_an_empty_text(door, tmp_path):
    """Exit 1, and the row is not there."""
    frozen = tmp_path / "frozen.jsonl"
    first = rows(DEV)[0]["id"]
    frozen.write_text(json.dumps({"id": first, "completion": "Final: 1"}) + "\n")
    done = door("sample", "--dataset", DEV, *FAST, "--policy", f"replay:{frozen}",
                "--outdir", tmp_path / "r")  # fmt: skip
    assert done.code == 1 and "5 completions" in done.err
    assert [row["id"] for row in rows(tmp_path / "r" / "completions.jsonl")] == [first]


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on_and_ends_with_the_same_bytes(door, tmp_path, kill):
    """Killed or interrupted, no finished run is there; --resume makes the one that was meant."""
    argv = ["--dataset", DATA / "datasets" / "math_test.jsonl", "--n", "16", "--outdir"]
    command = [sys.executable, "-m", "course.sample", *argv, tmp_path / "broken"]
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    grown = tmp_path / "broken.partial" / "completions.jsonl"
    while running.poll() is None and not (grown.exists() and grown.stat().st_size > 500_000):
        time.sleep(0.01)
    running.send_signal(kill)
    said = running.communicate()[1]
    assert running.returncode == (130 if kill == signal.SIGINT else -kill)
    assert kill == signal.SIGKILL or "--resume" in said
    assert not (tmp_path / "broken").exists()
    kept = grown.read_bytes()
    assert door("sample", *argv, tmp_path / "broken").code == 2  # never silently anew
    assert door("sample", *argv, tmp_path / "broken", "--resume").code == 0
    assert door("sample", *argv, tmp_path / "whole").code == 0
    broken, whole = (tmp_path / name / "completions.jsonl" for name in ("broken", "whole"))
    assert broken.read_bytes() == whole.read_bytes()
    assert len(kept) > 500_000 and whole.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])


def test_an_unfinished_run_is_not_continued_with_other_settings(door, tmp_path, monkeypatch):
    """Half a run at one temperature and half at another would be a measurement of nothing."""
    from course.policy.tiny import TinyPolicy

    complete = TinyPolicy.complete
    calls = []

    def interrupted(self, requests, how):
        calls.append(len(requests))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return complete(self, requests, how)

    monkeypatch.setattr(TinyPolicy, "complete", interrupted)
    argv = ("--dataset", DEV, "--outdir", tmp_path / "s")
    assert door("sample", *argv).code == 130
    done = door("sample", *argv, "--resume", "--temperature", 0.7)
    assert done.code == 2 and "temperature" in done.err and "0.7" in done.err
    assert door("sample", *argv, "--resume").code == 0
    assert sum(calls) == 200 + calls[2]  # only the interrupted chunk was asked for again


def test_show_prints_the_token_boundary(door):
    """Tokens of the prompt, each choice with its probability, and what a space costs."""
    done = door("sample", "--show", "--greedy")
    assert done.code == 0
    assert "|Mia| has| |46| shells|" in done.out
    assert re.search(r"\|<eos>\| +[01]\.\d{4}", done.out)
    prices = {
        text: float(value)
        for text, value in re.findall(r"'(Final: +\d+)' +\d+ tokens +log-prob +(-[\d.]+)", done.out)
    }
    one, two = prices["Final: 79"], prices["Final:  79"]
    assert one > two + 2  # at least seven times less likely


def test_show_prices_any_text(door):
    """A student's own guess, through the same tokens."""
    done = door("sample", "--show", "--price", "The answer is 79.", "--price", "<eos>é")
    assert "'The answer is 79.'" in done.out and "'<eos>é'" in done.out


def test_a_price_beyond_the_context_is_refused(door):
    """The model has no position for it, so there is no number to show."""
    done = door("sample", "--show", "--price", "one " * 200)
    assert done.code == 2 and "256" in done.err


def test_a_part_of_a_character_is_shown_by_its_name(door):
    """Three bytes, three tokens, none of which is text by itself."""
    assert "|<0xE6>|<0x97>|<0xA5>|" in door("sample", "--show", "日").out


@pytest.mark.parametrize(("flags", "words"), [
    (["--policy", "tiny:no/such/folder"], "not a tiny policy"),
    (["--policy", "gpt-9"], "is no policy"),
    (["--n", "0"], "at least 1"),
    (["--n", "4", "--greedy"], "copies"),
    (["--greedy", "--temperature", "0.5"], "leave one"),
    (["--temperature", "-1"], "temperature"),
    (["--top-p", "0"], "share"),
    (["--seed", "-1"], "at least 0"),
    (["--max-new-tokens", "500"], "can hold 256"),
    (["--resume"], "--outdir"),
    (["--device", "cuda"], "hf:"),
    (["--n", "100001"], "at most 100,000"),
    (["--temperature", "1e-40"], "0.001"),
    (["--show", "--json"], "no place beside"),
    (["--price", "Final: 1"], "--price goes with --show"),
])  # fmt: skip
def test_what_cannot_be_done_is_said_in_words(door, tmp_path, flags, words):
    """Exit 2, no traceback, and nothing is left behind."""
    place = [] if "--resume" in flags else ["--outdir", tmp_path / "s"]
    done = door("sample", "--dataset", DEV, *place, *flags)
    assert done.code == 2 and words in done.err and "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_an_empty_dataset_a_missing_one_and_none_are_refused(door, tmp_path):
    """Exit 2 with what was expected."""
    (tmp_path / "empty.jsonl").write_text("")
    for argv in (["--dataset", tmp_path / "empty.jsonl"], ["--dataset", "nowhere.jsonl"], []):
        done = door("sample", *argv)
        assert done.code == 2 and done.err.startswith(("error:", "usage:"))


def test_a_prompt_longer_than_the_context_is_refused_before_any_work(door, tmp_path):
    """With the example's id and both numbers."""
    row = {"id": "long", "prompt": "one " * 400, "expected_answer": 1}
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    done = door("sample", "--dataset", tmp_path / "d.jsonl", "--outdir", tmp_path / "s")
    assert done.code == 2 and "long: the prompt has" in done.err and "256" in done.err
    assert list(tmp_path.iterdir()) == [tmp_path / "d.jsonl"]


def test_without_torch_it_says_how_to_get_it(process, tmp_path):
    """Exit 3 and the command that installs it."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = process("sample", "--dataset", DEV, env={"PYTHONPATH": path})
    assert done.code == 3 and "make learn" in done.err
