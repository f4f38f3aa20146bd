"""JsonlReader: every row once, whatever the chunks, and the hash of exactly what was read."""

import gc
import hashlib
import json
import os
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core import jsonl
from course.core.errors import DataError
from course.core.jsonl import CHUNK, JsonlReader
from course.core.records import Completion, Example

GOOD = b'{"id":"a","prompt":"p","expected_answer":8}'


def read(path: Path, row_type: type = Example) -> tuple[list, JsonlReader]:
    reader = JsonlReader(path, row_type)
    return list(reader), reader


def test_rows_come_in_the_file_s_order(write):
    """One Struct per line, unknown keys ignored."""
    path = write(
        '{"id":"a","prompt":"2+6?","expected_answer":8,"source":"x"}\n'
        '{"id":"b","prompt":"7-9?","expected_answer":"-2","metadata":{"op":"-"}}\n'
    )
    rows, _ = read(path)
    assert rows == [Example("a", "2+6?", 8), Example("b", "7-9?", "-2", {"op": "-"})]


def test_a_row_larger_than_a_chunk_is_one_row(write):
    """A row of three chunks stands between two small ones and none is lost."""
    long = "x" * (3 * CHUNK)
    rows = [{"id": str(i), "completion": text} for i, text in enumerate(("a", long, "b"))]
    path = write("".join(json.dumps(row) + "\n" for row in rows))
    got, reader = read(path, Completion)
    assert [row.completion for row in got] == ["a", long, "b"]
    assert reader.facts().rows == 3


def test_a_file_without_a_final_newline_is_read_to_its_end(write):
    """The last row needs no newline, in a small file and in one that ends inside a chunk."""
    rows, _ = read(write(GOOD + b"\n" + GOOD))
    assert len(rows) == 2
    rows, reader = read(write((GOOD + b"\n") * 9_000 + GOOD))
    assert len(rows) == 9_001 == reader.facts().rows


def test_the_facts_are_those_of_the_whole_file(write):
    """Bytes, sha256 and rows agree with hashlib, byte-order mark and blank lines included."""
    data = b"\xef\xbb\xbf" + (GOOD + b"\r\n\r\n") * 8_000
    _, reader = read(write(data))
    facts = reader.facts()
    assert facts.bytes == len(data) == reader.size
    assert facts.sha256 == hashlib.sha256(data).hexdigest()
    assert facts.rows == 8_000


lines = st.lists(
    st.one_of(
        st.just(GOOD),
        st.builds(
            lambda text: json.dumps(
                {"id": "é", "prompt": text, "expected_answer": 1}, ensure_ascii=False
            ).encode(),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
        ),
        st.sampled_from([b"", b"  ", b"\t"]),
    ),
    min_size=1,
    max_size=8,
)


@given(
    lines,
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.booleans(),
    st.integers(3, 70),
)
def test_chunk_borders_never_matter(tmp_path_factory, lines, end, bom, final_newline, chunk):
    """Wherever a chunk ends (in a character, in CRLF, in a row) the rows and facts are the same."""
    data = bom + end.join(lines) + (end if final_newline else b"")
    expected = [json.loads(line)["prompt"] for line in lines if line.strip()]
    path = tmp_path_factory.mktemp("chunks") / "rows.jsonl"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "CHUNK", chunk)
        reader = JsonlReader(path, Example)
        if not expected:
            with pytest.raises(DataError, match="is empty"):
                list(reader)
            return
        assert [row.prompt for row in reader] == expected
    facts = reader.facts()
    assert (facts.bytes, facts.rows) == (len(data), len(expected))
    assert facts.sha256 == hashlib.sha256(data).hexdigest()


def test_a_byte_order_mark_and_crlf_are_read_and_noted_once(write):
    """What Windows tools write is no error, but is mentioned, once each."""
    rows, reader = read(write(b"\xef\xbb\xbf" + (GOOD + b"\r\n") * 9_000))
    assert len(rows) == 9_000
    mark, ends = reader.notes
    assert "byte-order mark" in mark and "CRLF" in ends


def test_a_plain_file_leaves_no_notes(write):
    """Nothing is mentioned where there is nothing to mention."""
    _, reader = read(write(GOOD + b"\n"))
    assert reader.notes == []


@pytest.mark.parametrize("start", [0, 20_000])
def test_the_line_of_a_bad_row_is_exact(write, start):
    """Line 7, blank lines counted, in the first chunk and far behind it."""
    good = GOOD + b"\n"
    data = good * start + good * 3 + b"\n" + good * 2 + b'{"id": oops}\n' + good * 5
    with pytest.raises(DataError, match=rf"rows\.jsonl:{start + 7}: this line is not valid JSON"):
        read(write(data))


def test_the_first_bad_row_is_the_one_reported(write):
    """Two bad rows: the reader stops at the earlier one."""
    with pytest.raises(DataError, match=r":2: "):
        read(write(GOOD + b"\n[]\n" + GOOD + b"\n[]\n"))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (GOOD + b" " + GOOD, 1),
        (GOOD + b"\n" + GOOD + GOOD, 2),
        (GOOD.replace(b",", b",\n"), 1),
        (GOOD + b"\r" + GOOD, 1),
        (GOOD + b",\n" + GOOD, 1),
        (b"[\n" + GOOD + b"\n]", 1),
    ],
)
def test_one_line_is_one_row(write, data, line):
    """Two rows in a line, or one row over two, would make every line number a lie."""
    with pytest.raises(DataError, match=rf"rows\.jsonl:{line}: this line is not valid JSON"):
        read(write(data + b"\n"))


def test_a_form_feed_is_no_blank_line(write):
    """JSON's whitespace is space, tab and line ends; anything else is reported, not skipped."""
    with pytest.raises(DataError, match=r":2: this line is not valid JSON"):
        read(write(GOOD + b"\n\x0c\n" + GOOD))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b" \r\n\t\n"])
def test_an_empty_file_is_an_error(write, data):
    """A rate over nothing is no rate, so an empty file is refused in words."""
    with pytest.raises(DataError, match=r"rows\.jsonl is empty\. Every row of a dataset needs id"):
        read(write(data))


def test_a_missing_file_is_named_with_its_likely_neighbour(write):
    """A typo in a file's name is the commonest mistake."""
    path = write(GOOD, "math_dev.jsonl")
    with pytest.raises(DataError, match=r"does not exist\. Did you mean math_dev\.jsonl\?"):
        JsonlReader(path.with_name("mathdev.jsonl"), Example)


def test_a_missing_folder_is_named(tmp_path):
    """The folder is the mistake, so it is what the message names."""
    with pytest.raises(DataError, match=r"Its folder .*nowhere does not exist either"):
        JsonlReader(tmp_path / "nowhere" / "rows.jsonl", Example)


def test_a_folder_is_not_a_file_but_may_hold_one(write):
    """The message lists what could have been meant."""
    folder = write(GOOD, "set/one.jsonl").parent
    with pytest.raises(DataError, match=r"is a directory.* It holds: one\.jsonl\."):
        JsonlReader(folder, Example)


def test_a_file_in_place_of_a_folder_is_a_missing_file(write):
    """``rows.jsonl/x`` leads nowhere; no traceback."""
    with pytest.raises(DataError, match="does not exist"):
        JsonlReader(write(GOOD) / "x", Example)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    """Opening a FIFO would hang until someone writes; its hash could never be checked again."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is not a regular file"):
        JsonlReader(tmp_path / "pipe", Example)


def test_a_name_that_no_system_allows_is_a_message(tmp_path):
    """What the operating system refuses is told, never a traceback."""
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        JsonlReader(tmp_path / ("x" * 300), Example)


def test_a_loop_of_links_is_a_message(tmp_path):
    """A link to itself leads to no file."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DataError, match="cannot be read: Too many levels"):
        JsonlReader(tmp_path / "loop", Example)


def test_a_file_that_grows_while_it_is_read_is_refused(write):
    """Its hash would be that of no file that ever stood there."""
    path = write((GOOD + b"\n") * 20_000)
    batches = JsonlReader(path, Example).batches()
    next(batches)
    with path.open("ab") as file:
        file.write(GOOD + b"\n")
    with pytest.raises(DataError, match="changed while it was read"):
        list(batches)


def test_a_file_that_is_edited_in_place_while_it_is_read_is_refused(write):
    """Equal size is no alibi: the time of the change counts."""
    path = write((GOOD + b"\n") * 20_000)
    batches = JsonlReader(path, Example).batches()
    next(batches)
    with path.open("r+b") as file:
        file.write(b'{"id":"z"')
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match="changed while it was read"):
        list(batches)


def test_a_file_that_is_replaced_before_it_is_read_is_refused(write):
    """The file that was looked at first is the one that must be read."""
    path = write(GOOD + b"\n")
    times = path.stat()
    reader = JsonlReader(path, Example)
    other = write(GOOD + b"\n", "other")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(path)
    with pytest.raises(DataError, match="changed while it was read"):
        list(reader)


def test_a_reader_that_is_never_used_leaves_no_open_file(write):
    """Opening one file and failing on the next must not leak the first."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        JsonlReader(write(GOOD), Example)
        gc.collect()
    assert not [w for w in caught if issubclass(w.category, ResourceWarning)]
