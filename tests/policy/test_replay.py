"""Claims about frozen completions served as a policy: exactly what the file holds, or nothing."""

from hashlib import sha256
from pathlib import Path

import pytest

from course.core.errors import DataError, UsageError
from course.core.records import Sample
from course.policy.completer import How, Request
from course.policy.replay import ReplayPolicy

A, B = Request("a", "What is 3 plus 5?"), Request("b", "What is 2 plus 2?")


def replay(tmp_path: Path, *lines: str) -> ReplayPolicy:
    path = tmp_path / "frozen.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ReplayPolicy(path)


def test_completions_are_served_by_their_sample_index(tmp_path: Path) -> None:
    """Order in the file does not matter, the index does; what is known of a sample comes along."""
    policy = replay(
        tmp_path,
        '{"id": "b", "completion": "Final: 4"}',
        '{"id": "a", "completion": "Final: 9", "sample_index": 1}',
        '{"id": "a", "completion": "Final: 8", "sample_index": 0, "sum_logprob": -1.5,'
        ' "num_tokens": 4, "finish_reason": "stop"}',
    )
    how = How(n=2)
    policy.check([A, B], how)
    assert policy.complete([A, B], how) == [
        [Sample("Final: 8", -1.5, 4, "stop"), Sample("Final: 9")],
        [Sample("Final: 4"), None],
    ]


def test_a_pack_is_told_by_its_keys(tmp_path: Path) -> None:
    """Samples of a selection pack may be plain texts or records; both are served."""
    policy = replay(
        tmp_path, "", '{"id": "a", "samples": ["x", {"completion": "y", "num_tokens": 3}]}'
    )
    assert policy.complete([A], How(n=2)) == [[Sample("x"), Sample("y", num_tokens=3)]]


def test_what_the_file_lacks_is_missing(tmp_path: Path) -> None:
    """An example without rows and a gap between indices give None, not an empty text."""
    policy = replay(
        tmp_path,
        '{"id": "a", "completion": "x"}',
        '{"id": "a", "completion": "z", "sample_index": 2}',
    )
    policy.check([A, B], How(n=3))
    assert policy.complete([A, B], How(n=3)) == [[Sample("x"), None, Sample("z")], [None] * 3]


def test_rows_for_other_examples_are_ignored(tmp_path: Path) -> None:
    """A file for the whole dataset serves a part of it."""
    policy = replay(tmp_path, '{"id": "z", "completion": "z"}', '{"id": "a", "completion": "x"}')
    policy.check([A], How())
    assert policy.complete([A], How()) == [[Sample("x")]]


def test_more_samples_than_the_file_has_are_refused(tmp_path: Path) -> None:
    """The message names an example, how many it has, and what to ask for."""
    policy = replay(tmp_path, '{"id": "a", "samples": ["x", "y"]}', '{"id": "b", "samples": ["x"]}')
    policy.check([A, B], How(n=2))
    with pytest.raises(UsageError, match=r"fewer than 3 .*: 2 for a, at most 2. Ask for --n 2"):
        policy.check([A, B], How(n=3))


def test_a_file_for_another_dataset_is_refused(tmp_path: Path) -> None:
    """When no example has a completion the files do not belong together."""
    policy = replay(tmp_path, '{"id": "z", "completion": "x"}')
    with pytest.raises(DataError, match=r"for none of the 2 examples, a for one"):
        policy.check([A, B], How())


def test_how_the_file_was_sampled_is_not_claimed(tmp_path: Path) -> None:
    """Temperature and seed that are asked for did not make the file."""
    policy = replay(tmp_path, '{"id": "a", "completion": "x"}')
    assert policy.sampling(How(temperature=0.7)) is None


def test_the_facts_name_the_file_and_its_hash(tmp_path: Path) -> None:
    """Who replays the same bytes replays the same policy."""
    policy = replay(tmp_path, '{"id": "a", "completion": "x"}')
    content = (tmp_path / "frozen.jsonl").read_bytes()
    assert policy.facts == {
        "kind": "replay",
        "path": str(tmp_path / "frozen.jsonl"),
        "sha256": sha256(content).hexdigest(),
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"id": "a", "completion": "x"}', '{"id": "a"}'], r"frozen\.jsonl:2: .*no 'completion'"),
        (
            ['{"id": "a", "samples": []}', '{"id": "b", "samples": 3}'],
            r"frozen\.jsonl:2: 'samples'",
        ),
        (["not json"], r"frozen\.jsonl:1: this line is not valid JSON"),
        ([""], r"frozen\.jsonl is empty"),
        (
            ['{"id": "a", "completion": "x"}', '{"id": "a", "completion": "y"}'],
            "sample 0 of 'a' stands more than once",
        ),
        (['{"id": "a", "samples": []}'] * 2, "the id 'a' stands more than once"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    """A replay is read whole before anything is served."""
    with pytest.raises(DataError, match=message):
        replay(tmp_path, *lines)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that leads nowhere is said to."""
    with pytest.raises(DataError, match=r"nowhere\.jsonl does not exist"):
        ReplayPolicy(tmp_path / "nowhere.jsonl")
