"""Claims about pairing: every example meets its own completions, in whatever order they come."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.artifacts.output import OutputStream
from course.core.errors import DataError
from course.core.jsonl import JsonlReader
from course.core.records import Completion, Example
from course.evaluation import pairing
from course.evaluation.evaluate import Request, evaluate
from course.evaluation.pairing import Examples, OutOfOrderError, by_index, in_order
from course.scoring.contract import load_scorer

EXAMPLES = [{"id": i, "prompt": f"{i}?", "expected_answer": 1} for i in "abcd"]


def answer(row_id: str, text: str = "", **more: object) -> dict[str, object]:
    return {"id": row_id, "completion": text or f"about {row_id}", **more}


def paired(jsonl, examples, completions, how):
    """What each example was given: [(id, [completion, ...]), ...]."""
    dataset = JsonlReader(jsonl("dataset.jsonl", examples), Example)
    answers = JsonlReader(jsonl("completions.jsonl", completions), Completion)
    return [
        (example.id, [row.completion for row in group])
        for example, group in how(Examples(dataset), answers)
    ]


@pytest.mark.parametrize("how", [in_order, by_index])
def test_completions_in_the_datasets_order_are_matched(jsonl, how):
    """The common case: line 1 answers line 1."""
    found = paired(jsonl, EXAMPLES, [answer(i) for i in "abcd"], how)
    assert found == [(i, [f"about {i}"]) for i in "abcd"]


@pytest.mark.parametrize("how", [in_order, by_index])
def test_examples_missing_at_the_end_get_an_empty_group(jsonl, how):
    """A killed sampler leaves a short file; what is there is still matched."""
    found = paired(jsonl, EXAMPLES, [answer("a"), answer("b")], how)
    assert found == [("a", ["about a"]), ("b", ["about b"]), ("c", []), ("d", [])]


def test_an_example_missing_in_the_middle_sends_us_to_the_index(jsonl):
    """In order, a gap cannot be told from a shuffle; the index can."""
    rows = [answer("a"), answer("c"), answer("d")]
    with pytest.raises(OutOfOrderError):
        paired(jsonl, EXAMPLES, rows, in_order)
    assert paired(jsonl, EXAMPLES, rows, by_index)[1] == ("b", [])


def test_sample_major_files_are_matched(jsonl):
    """All first samples, then all second samples: each example gets both of its own."""
    rows = [answer(i, f"{i}{k}", sample_index=k) for k in (0, 1) for i in "abcd"]
    with pytest.raises(OutOfOrderError):
        paired(jsonl, EXAMPLES, rows, in_order)
    assert paired(jsonl, EXAMPLES, rows, by_index) == [(i, [f"{i}0", f"{i}1"]) for i in "abcd"]


@pytest.mark.parametrize("how", [in_order, by_index])
def test_samples_are_sorted_by_their_index(jsonl, how):
    """Ten comes after two: the index is a number, and its order does not depend on the file."""
    rows = [answer("a", f"s{k}", sample_index=k) for k in (10, 2, 0)]
    assert paired(jsonl, EXAMPLES[:1], rows, how) == [("a", ["s0", "s2", "s10"])]


@pytest.mark.parametrize("small", [50_000, 0])
def test_a_duplicate_id_in_a_dataset_is_refused_with_both_lines(jsonl, monkeypatch, small):
    """The small-file path (a set) and the large-file path (numpy) say the same."""
    monkeypatch.setattr(pairing, "SMALL", small)
    with pytest.raises(DataError, match=r"dataset\.jsonl:5: the id 'b' .* in lines 2 and 5\."):
        paired(jsonl, [*EXAMPLES, EXAMPLES[1]], [answer("a")], in_order)


def test_a_duplicate_is_found_in_a_dataset_beyond_the_small_size(jsonl):
    """50,001 rows for real, and only the last is the repeated one."""
    rows = [b'{"id":"%d","prompt":"","expected_answer":0}' % i for i in range(pairing.SMALL)]
    reader = JsonlReader(jsonl("dataset.jsonl", [*rows, rows[7]]), Example)
    with pytest.raises(DataError, match=r":50001: the id '7' .* in lines 8 and 50001\."):
        list(Examples(reader))


def test_duplicate_ids_are_reported_where_they_stand_after_blank_lines(jsonl):
    """Blank lines are skipped, but they count as lines, as in an editor."""
    rows = [EXAMPLES[0], b"", EXAMPLES[1], b"  ", EXAMPLES[0]]
    with pytest.raises(DataError, match=r":5: the id 'a' .* in lines 1 and 5\."):
        paired(jsonl, rows, [answer("a"), answer("b")], in_order)


@pytest.mark.parametrize("how", [in_order, by_index])
def test_a_duplicate_sample_is_refused_with_its_own_two_lines(jsonl, how):
    """Of nine samples two claim index 7: their lines are named, not those of the other seven."""
    rows = [answer("a", sample_index=k) for k in (0, 1, 2, 3, 4, 5, 6, 7, 7)]
    with pytest.raises(DataError, match=r":9: the id 'a' .* in lines 8 and 9\. Both have sample_i"):
        paired(jsonl, EXAMPLES, rows, how)


def test_no_sample_index_means_index_zero(jsonl):
    """A row without an index and one with index 0 are the same sample twice."""
    rows = [answer("a"), answer("a", sample_index=0)]
    with pytest.raises(DataError, match=r"in lines 1 and 2\. Both have sample_index 0;"):
        paired(jsonl, EXAMPLES, rows, in_order)


def test_a_duplicate_is_reported_although_a_later_line_is_no_row(jsonl):
    """The search for the lines must not fail over lines it is not about."""
    long = [answer(i, "x" * 70_000) for i in "bbcd"]  # what follows is beyond the first chunks
    rows = [answer("a"), *long, b'{"nonsense": 1}', b"\xff", b"[]"]
    with pytest.raises(DataError, match=r":3: the id 'b' .* in lines 2 and 3\."):
        paired(jsonl, EXAMPLES, rows, in_order)


def test_bytes_in_an_ignored_key_do_not_hide_a_duplicate(jsonl):
    """A Latin-1 note beside the row is not read; the duplicate id still gets its message."""
    odd = b'{"id": "a", "prompt": "", "expected_answer": 1, "note": "caf\xe9"}'
    with pytest.raises(DataError, match="in lines 1 and 2"):
        paired(jsonl, [odd, EXAMPLES[0]], [answer("a")], in_order)


@pytest.mark.parametrize("index", [3, "three"])
def test_a_datasets_own_sample_index_is_an_ignored_key(jsonl, index):
    """Only completions have samples: the same id twice is a duplicate, whatever stands beside."""
    odd = {**EXAMPLES[0], "sample_index": index}
    with pytest.raises(DataError, match="in lines 1 and 2"):
        paired(jsonl, [EXAMPLES[0], odd], [answer("a")], in_order)


def test_unknown_ids_are_refused_with_line_and_id(jsonl):
    """A completion that no example asked for is a mistake somewhere, so it is never dropped."""
    rows = [answer("a"), answer("x"), answer("b"), answer("y")]
    message = (
        r"completions\.jsonl:2: 2 of 4 completions have an id that .*dataset\.jsonl does not "
        r"have: line 2 \('x'\), line 4 \('y'\)\.$"
    )
    with pytest.raises(DataError, match=message):
        paired(jsonl, EXAMPLES, rows, by_index)


def test_many_unknown_ids_are_counted_and_the_first_five_named(jsonl):
    """One screen, whatever the size of the mistake."""
    rows = [answer("a"), *[answer("x", sample_index=k) for k in range(8)]]
    with pytest.raises(DataError, match=r"8 of 9 .* line 6 \('x'\) and 3 more\.$"):
        paired(jsonl, EXAMPLES, rows, by_index)


def test_a_wholly_foreign_file_is_called_another_datasets(jsonl):
    """When nothing fits, the likely cause is said."""
    with pytest.raises(DataError, match=r"2 of 2 .* These completions are for another dataset\."):
        paired(jsonl, EXAMPLES, [answer("x"), answer("y")], by_index)


def test_a_byte_order_mark_and_crlf_do_not_shift_the_index(jsonl):
    """The index seeks by byte position; three bytes at the start must not move it."""
    rows = [json.dumps(answer(i)).encode() + b"\r" for i in "dbca"]
    rows[0] = b"\xef\xbb\xbf" + rows[0]
    assert paired(jsonl, EXAMPLES, rows, by_index) == [(i, [f"about {i}"]) for i in "abcd"]


def test_lines_are_counted_rightly_after_a_byte_order_mark_and_blank_lines(jsonl):
    """The message's line is the one an editor shows."""
    rows = [b"\xef\xbb\xbf" + json.dumps(answer("b")).encode(), b"", b"\t", answer("x")]
    with pytest.raises(DataError, match=r"completions\.jsonl:4: 1 of 2"):
        paired(jsonl, EXAMPLES, rows, by_index)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (b'{"id": "a", "sample_index": 1, "completion": 3}', "'completion' is 3"),
        (b'{"id": "a", "sample_index": 1, "completion": "caf\xe9"}', "not UTF-8"),
        (b'{"id": "a", "sample_index": 1, "completion": "\\ud800"}', "surrogate"),
        (b'{"id": "a", "sample_index": 1, "completion": "x"', "not valid JSON"),
        (b'{"completion": "x"}', "no 'id'"),
        (b'{"id": "", "completion": "x"}', "'id' is"),
        (b"\x0c", "not valid JSON"),
    ],
)
def test_a_bad_row_is_refused_by_the_index_with_its_own_line(jsonl, bad, problem):
    """The index reads ids first and rows later; the line is still the bad row's, not its id's."""
    rows = [answer("b"), answer("a", sample_index=0), bad, answer("c")]
    with pytest.raises(DataError, match=rf"completions\.jsonl:3: .*{problem}"):
        paired(jsonl, EXAMPLES, rows, by_index)


def test_a_bad_row_far_into_a_shuffled_file_is_refused_with_its_line(evaluated):
    """Past the first chunk only the index sees it; the outcome is the same."""
    examples = [{"id": f"e{k}", "prompt": "", "expected_answer": k} for k in range(2000)]
    rows: list[object] = [answer(f"e{k}", "x" * 50) for k in range(2000)][::-1]
    rows[1500] = b'{"id": "e499", "completion": "caf\xe9"}'
    with pytest.raises(DataError, match=r"completions\.jsonl:1501: .*not UTF-8"):
        evaluated(examples, rows)


def test_equal_hashes_are_no_equal_ids(jsonl, monkeypatch):
    """With every hash forced to be the same, ids alone decide: nothing is swapped or refused."""
    monkeypatch.setattr(pairing, "hash", lambda text: 7, raising=False)
    rows = [answer(i) for i in "dbca"]
    assert paired(jsonl, EXAMPLES, rows, by_index) == [(i, [f"about {i}"]) for i in "abcd"]
    with pytest.raises(DataError, match=r"line 2 \('x'\)"):
        paired(jsonl, EXAMPLES, [answer("b"), answer("x")], by_index)
    with pytest.raises(DataError, match="the id 'c' stands more than once"):
        paired(jsonl, [*EXAMPLES, EXAMPLES[2]], rows, by_index)


def test_more_examples_than_one_look_up_are_all_matched(jsonl, monkeypatch):
    """Batches of the index meet without a gap."""
    monkeypatch.setattr(pairing, "LOOKUP", 3)
    examples = [{"id": str(k), "prompt": "", "expected_answer": k} for k in range(10)]
    found = paired(jsonl, examples, [answer(str(k)) for k in reversed(range(10))], by_index)
    assert found == [(str(k), [f"about {k}"]) for k in range(10)]


IDS = ["a", "b", "c", "ä", "a b", "0", "00", "😀"]


@given(data=st.data())
def test_any_order_of_the_same_completions_gives_the_same_bytes(tmp_path_factory, data):
    """Results are in the dataset's order, so a shuffled file is no other experiment."""
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(IDS), max_size=len(IDS)))
    rows = [
        answer(row_id, f"Final: {k}", sample_index=k)
        for row_id, count in zip(IDS, counts, strict=True)
        for k in range(count)
    ] or [answer("a")]
    shuffled = data.draw(st.permutations(rows))
    folder = tmp_path_factory.mktemp("any_order")
    examples = [{"id": i, "prompt": f"{i}?", "expected_answer": 1} for i in IDS]
    (folder / "d.jsonl").write_text("\n".join(map(json.dumps, examples)))
    found = [results(folder, order) for order in (rows, shuffled)]
    assert found[0] == found[1]


def results(folder: Path, completions: list[dict[str, object]]) -> tuple[bytes, object, str]:
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, completions)))
    out = OutputStream(folder / "results.jsonl")
    request = Request(folder / "d.jsonl", folder / "c.jsonl", load_scorer("final_answer"))
    found = evaluate(request, out)
    out.close()
    return (folder / "results.jsonl").read_bytes(), found.summary, found.prompts_sha256
