"""Every way a row can be wrong has its own words: what, where, what was expected."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core.bad_rows import row_problem
from course.core.jsonl import JsonlReader
from course.core.records import Completion, Example, GoldenCase, SelectionPack


def problem(line: bytes | str, row_type: type = Example) -> str | None:
    data = line if isinstance(line, bytes) else line.encode()
    return row_problem(msgspec.json.Decoder(row_type), row_type, data)


def with_answer(answer: str) -> str:
    return f'{{"id":"a","prompt":"p","expected_answer":{answer}}}'


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("8", 8),
        ("-8", -8),
        ("-0", 0),  # JSON's number -0 is the integer 0; only the text "-0" is no canonical integer
        ('"0"', "0"),
        ('"-12"', "-12"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ('"' + "9" * 5000 + '"', "9" * 5000),
    ],
)
def test_a_good_answer_is_kept_as_it_is(write, answer, value):
    """An integer stays an integer, a decimal string of any length stays a string."""
    (row,) = JsonlReader(write(with_answer(answer)), Example)
    assert row.expected_answer == value and type(row.expected_answer) is type(value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("8.0", "is the number 8.0. Expected an integer such as 42"),
        ("1e2", "is the number 100.0. Expected an integer"),
        ("9" * 30, f'an integer beyond 64 bits. Write it as a string: "{"9" * 30}".'),
        ("9223372036854775808", 'Write it as a string: "9223372036854775808".'),
        ("-9223372036854775809", 'Write it as a string: "-9223372036854775809".'),
        ("9" * 5000, "an integer beyond 64 bits. Write it as a string"),
        ('"-0"', 'is "-0", which is not a canonical integer'),
        ('"+5"', 'is "+5", which is not a canonical integer'),
        ('"007"', "not a canonical integer"),
        ('"8\\n"', "not a canonical integer"),
        ('"1,234"', "not a canonical integer"),
        ('"٣"', "not a canonical integer"),
        ('""', "not a canonical integer"),
        ("true", "is true. Expected an integer"),
        ("null", "is null. Expected an integer"),
        ("[8]", "is [8]. Expected an integer"),
        ("+5", "this line is not valid JSON"),
        ("007", "this line is not valid JSON"),
        ("NaN", "NaN and Infinity are not JSON numbers, use null"),
        ("-Infinity", "NaN and Infinity are not JSON numbers, use null"),
    ],
)
def test_a_bad_answer_is_shown_with_what_was_expected(answer, words):
    """Each in its own words, and never longer than a screen."""
    text = problem(with_answer(answer))
    assert words in text
    assert len(text) < 400


def test_a_missing_key_is_named_beside_those_that_are_there():
    """The student sees both the wanted and the given."""
    assert problem('{"id":"a","prompt":"p","answer":8}') == (
        "this row has no 'expected_answer'; its keys are: answer, id, prompt. Every row of a "
        "dataset needs id, prompt and expected_answer."
    )


@pytest.mark.parametrize(
    ("row", "row_type", "kind"),
    [
        ({"id": "a", "completion": "x"}, Example, "a completions file"),
        ({"id": "a", "prompt": "p", "expected_answer": 1}, Completion, "a dataset"),
        ({"id": "a", "samples": []}, Completion, "a selection pack"),
        ({"question": "q", "answer": "#### 8"}, Example, "GSM8K's own format"),
        ({"expected_code": "ok", "completion": ""}, Example, "a golden set"),
        ({"id": "a", "prompt": "p"}, SelectionPack, "a dataset"),
    ],
)
def test_a_file_taken_for_another_is_recognised(row, row_type, kind):
    """Swapped flags are common, so the message says what the file looks like."""
    assert f"This looks like {kind}" in problem(json.dumps(row), row_type)


@pytest.mark.parametrize(
    ("row", "name"), [("[]", "list"), ("8", "number"), ('"x"', "string"), ("null", "null")]
)
def test_a_row_that_is_no_object_is_named(row, name):
    """A list of lists is JSONL too, but not ours."""
    assert problem(row).startswith(f"this row is a JSON {name}, and an object was expected.")


@pytest.mark.parametrize(
    ("row", "row_type", "words"),
    [
        ('{"id":3,"prompt":"p","expected_answer":1}', Example, "'id' is 3: expected `str`"),
        ('{"id":"","prompt":"p","expected_answer":1}', Example, "'id' is \"\""),
        ('{"id":"a","completion":null}', Completion, "'completion' is null: expected `str`"),
        ('{"id":"a","completion":"","num_tokens":-1}', Completion, "'num_tokens' is -1"),
        ('{"id":"a","completion":"","sample_index":1.5}', Completion, "the number 1.5"),
        ('{"id":"a","completion":"","sum_logprob":1e400}', Completion, "number out of range"),
        ('{"id":"a","samples":["x",{}]}', SelectionPack, "no 'completion' inside 'samples[1]'"),
        ('{"id":"a","samples":[3]}', SelectionPack, "'samples[0]' is [3]"),
        ('{"id":"a"}', GoldenCase, "this row has no 'prompt'"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_its_value(row, row_type, words):
    """Where in the row, what stands there, what was expected."""
    assert words in problem(row, row_type)


def test_a_count_beyond_64_bits_is_refused():
    """What cannot be written back as a 64-bit integer is not read as one."""
    row = '{"id":"a","completion":"","num_tokens":' + "9" * 25 + "}"
    assert "'num_tokens' is " + "9" * 25 in problem(row, Completion)


def test_latin_1_is_recognised_with_the_byte_and_a_cure():
    """`café` in Latin-1: byte 24 of the line is 0xe9."""
    line = '{"id":"a","prompt":"café","expected_answer":1}'.encode("latin-1")
    text = problem(line)
    assert text.startswith("byte 24 of this line (0xe9) is not UTF-8.")
    assert "iconv -f windows-1252" in text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_recognised(encoding):
    """What PowerShell's `>` writes."""
    mark = b"" if encoding == "utf-16" else b"\xfe\xff"
    text = problem(mark + with_answer("8").encode(encoding))
    assert text.startswith("this file is UTF-16") and "iconv -f utf-16" in text


@pytest.mark.parametrize("key", ["prompt", "ignored"])
def test_half_a_surrogate_pair_is_refused(key):
    """``\\ud800`` alone is no character; it could never be written back as UTF-8."""
    line = f'{{"id":"a","prompt":"p","expected_answer":1,"{key}":"\\ud800 x"}}'
    assert "half of a surrogate pair" in problem(line)


def test_a_whole_surrogate_pair_is_a_character(write):
    """An escaped emoji is read as one character."""
    (row,) = JsonlReader(write('{"id":"a","completion":"\\ud83d\\ude00"}'), Completion)
    assert row.completion == "😀"


@pytest.mark.parametrize("depth", [1_500, 100_000])
@pytest.mark.parametrize("row_id", ['"a"', "3"])
def test_deep_nesting_is_a_message(depth, row_id):
    """A row of brackets must not end the command with a RecursionError.

    How deep is too deep differs between Pythons: 3.13 still reads 1,500 brackets, and says what
    else is wrong with the row.
    """
    line = f'{{"id":{row_id},"metadata":{{"x":{"[" * depth}{"]" * depth}}}}}'
    too_deep, shallow = "this row is nested too deeply to be read.", ("no 'prompt'", "'id' is 3")
    said = problem(line)
    assert said == too_deep or (depth == 1_500 and any(words in said for words in shallow))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id":3,"prompt":oops', "this line is not valid JSON"),
        (b'{"id":3,"prompt":"\xff"}', "is not UTF-8"),
        (b'{"id":3,"prompt":NaN}', "'id' is 3"),
        (b'{"id":3', "this line is not valid JSON"),
    ],
)
def test_two_faults_in_one_row_are_still_a_message(line, words):
    """The decoder stops at the first fault; looking further must not raise."""
    assert words in problem(line)


def test_a_number_of_thousands_of_digits_in_metadata_is_a_message():
    """Python refuses to read 5,000 digits as an int; the row says so and nothing is raised."""
    row = '{"id":"a","prompt":"p","expected_answer":1,"metadata":{"n":%s}}' % ("9" * 5000)
    assert "integer value out of range" in problem(row)


pieces = st.sampled_from(
    [
        *(b'{"id":', b',"prompt":', b',"completion":', b',"samples":', b',"expected_answer":'),
        *(b'"a"', b"3", b"1.5", b"null", b"NaN", b'"\\ud800"', b"\xff"),
        *(b"[", b"]", b"{", b"}", b" ", b"\x0c"),
    ]
)


@given(
    st.one_of(st.binary(max_size=40), st.lists(pieces, max_size=14).map(b"".join)),
    st.sampled_from([Example, Completion, SelectionPack, GoldenCase]),
)
def test_any_bytes_are_a_row_or_a_message(line, row_type):
    """Total: whatever stands in a line, the answer is a sentence or None, and never a raise."""
    text = problem(line, row_type)
    assert text is None or (text and len(text) < 1_000)


@pytest.mark.parametrize("line", [b"\x1f\x8b\x08\x00abc", b"\x7fELF\x02\x00\xff\x00"])
def test_a_packed_or_binary_file_is_called_that(line):
    """Advice to convert it from Latin-1 would lead nowhere."""
    problem = row_problem(msgspec.json.Decoder(Example), Example, line)
    assert problem is not None and "compressed or binary" in problem
