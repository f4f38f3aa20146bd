"""The frozen rollouts and packs are what the shipped base policy wrote, as their manifests say."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from course import sample
from course.artifacts.seal import read_manifest
from course.core.digests import sha256_file
from course.evaluation.origin import origin_of
from course.policy.model_files import BASE, WEIGHTS
from course.scoring.final_answer import score

DATA = Path(__file__).resolve().parents[2] / "data"
ROLLOUTS = ["frozen_rollouts_dev", "frozen_rollouts_test"]
SEEDS = [f"frozen_rollouts_dev_seed{seed}" for seed in range(1, 9)]
PACKS = {
    "selection_pack_dev": 1.0,
    "selection_pack_test": 1.0,
    "selection_pack_dev_t0.3": 0.3,
    "selection_pack_dev_t1.5": 1.5,
}


def path_of(name: str) -> Path:
    return DATA / ("packs" if name in PACKS else "rollouts") / f"{name}.jsonl"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path_of(name).read_bytes().splitlines()]


def split_of(name: str) -> str:
    return "test" if "_test" in name else "dev"


@pytest.mark.parametrize("name", [*ROLLOUTS, *SEEDS, *PACKS])
def test_every_example_is_answered_in_dataset_order(
    shipped: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Nothing missing, nothing twice; sixteen samples in a pack, each with its log-prob."""
    assert [row["id"] for row in rows(name)] == [row["id"] for row in shipped[split_of(name)]]
    for row in rows(name):
        samples = row["samples"] if name in PACKS else [row]
        assert len(samples) == (16 if name in PACKS else 1)
        for one in samples:
            assert one["sum_logprob"] < 0 and 1 <= one["num_tokens"] <= 12
            assert one["finish_reason"] in ("stop", "length")
            assert one["finish_reason"] == "stop" or one["num_tokens"] == 12


@pytest.mark.parametrize("name", [*ROLLOUTS, *SEEDS, *PACKS])
def test_the_manifest_says_which_model_seed_and_sampling_made_it(name: str) -> None:
    """And its seal holds, over these very rows."""
    origin = origin_of(path_of(name))
    assert origin.policy is not None and origin.sampling is not None
    assert origin.policy["model_sha256"] == sha256_file(BASE / WEIGHTS)
    assert origin.sampling.temperature == PACKS.get(name, 1.0)
    assert origin.sampling.seed == (int(name[-1]) if name in SEEDS else 0)
    assert origin.sampling.n == (16 if name in PACKS else 1)
    manifest, problems = read_manifest(path_of(name).with_suffix(".manifest.json"))
    assert manifest is not None and problems == []
    dataset = DATA / "datasets" / f"math_{split_of(name)}.jsonl"
    assert manifest.inputs["dataset"].sha256 == sha256_file(dataset)


def test_these_are_all_the_files_that_the_script_makes(prepare: ModuleType) -> None:
    """No frozen file without a recipe."""
    made = {frozen.name for frozen in prepare.FROZEN}
    there = {
        file.relative_to(DATA).as_posix()
        for folder in ("rollouts", "packs")
        for file in (DATA / folder).glob("*.jsonl")
    }
    assert made == there
    manifests = {frozen.manifest for frozen in prepare.FROZEN}
    assert all((DATA / name).is_file() for name in manifests)


@pytest.mark.parametrize("name", ["frozen_rollouts_dev", "frozen_rollouts_dev_seed5"])
def test_a_slice_made_again_is_the_same(name: str, tmp_path: Path) -> None:
    """The same texts, but for a near-tie that another processor's rounding may flip."""
    seed = name[-1] if name in SEEDS else "0"
    dataset = DATA / "datasets" / "math_dev.jsonl"
    argv = [
        "--dataset",
        str(dataset),
        "--max",
        "64",
        "--seed",
        seed,
        "--outdir",
        str(tmp_path / "s"),
    ]
    assert sample.main(argv) == 0
    again = [
        json.loads(line) for line in (tmp_path / "s" / "completions.jsonl").read_text().splitlines()
    ]
    pairs = list(zip(again, rows(name), strict=False))
    same = [new for new, old in pairs if new["completion"] == old["completion"]]
    assert len(pairs) == 64 and len(same) >= 63
    for new, old in pairs:
        if new["completion"] == old["completion"]:
            assert new["sum_logprob"] == pytest.approx(old["sum_logprob"], abs=1e-3)
            assert new["num_tokens"] == old["num_tokens"]


def test_the_first_sample_of_a_pack_is_the_frozen_rollout() -> None:
    """Both are sample 0 of seed 0, so selection starts from the very run that eval measured."""
    for split in ("dev", "test"):
        first = [row["samples"][0]["completion"] for row in rows(f"selection_pack_{split}")]
        frozen = [row["completion"] for row in rows(f"frozen_rollouts_{split}")]
        differ = sum(one != other for one, other in zip(first, frozen, strict=True))
        assert differ <= 1  # batches of other shapes may round a near-tie the other way


def passes(shipped: dict[str, list[dict[str, Any]]], name: str) -> list[bool]:
    pairs = zip(shipped[split_of(name)], rows(name), strict=True)
    return [score(example, row["completion"])["reward"] == 1.0 for example, row in pairs]


def test_other_seeds_are_other_samples_of_the_same_policy(
    shipped: dict[str, list[dict[str, Any]]],
) -> None:
    """No two of the nine dev files agree, and their pass rates differ as chance would have it."""
    names = ["frozen_rollouts_dev", *SEEDS]
    texts = {name: [row["completion"] for row in rows(name)] for name in names}
    for one, other in combinations(names, 2):
        equal = sum(a == b for a, b in zip(texts[one], texts[other], strict=True))
        assert equal < 100  # of 200
    counts = [sum(passes(shipped, name)) for name in names]
    mean = sum(counts) / len(counts)
    chance = (mean * (1 - mean / 200)) ** 0.5
    assert len(set(counts)) > 3 and all(abs(count - mean) < 3.5 * chance for count in counts)


def test_many_kinds_of_failure_occur(shipped: dict[str, list[dict[str, Any]]]) -> None:
    """A student who groups the failures has something to find: seven codes above one per cent."""
    pairs = zip(shipped["test"], rows("frozen_rollouts_test"), strict=True)
    codes = Counter(score(example, row["completion"])["details"]["code"] for example, row in pairs)
    assert sum(count > 10 for count in codes.values()) >= 7
    assert {"ok", "wrong_answer", "missing_final", "trailing_text"} <= set(codes)


def test_temperature_changes_what_a_pack_is_good_for() -> None:
    """Cold samples repeat themselves; hot ones are all different."""
    distinct = {
        name: sum(len({s["completion"] for s in row["samples"]}) for row in rows(name)) / 3200
        for name in ("selection_pack_dev_t0.3", "selection_pack_dev", "selection_pack_dev_t1.5")
    }
    cold, warm, hot = distinct.values()
    assert cold < 0.5 < hot and cold < warm < hot
