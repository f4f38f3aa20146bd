"""Say in words what is wrong with a row of a JSONL file, and what was expected.

The readers know only that a row is bad; this finds out why, so it may be slow. Nothing here raises.
"""

import json
import re
from typing import Any, TypeVar

import msgspec

from course.core.records import Completion, Example, GoldenCase, Problem, SelectionPack

BLANK = b" \t\r\n"  # what JSON calls whitespace; a form feed is not blank
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MARK = b"\x1f\x8b"
T = TypeVar("T")

TOO_DEEP = "this row is nested too deeply to be read."
HINTS: dict[type, str] = {
    Example: "Every row of a dataset needs id, prompt and expected_answer",
    Problem: "Every row of a dataset needs id, prompt and expected_answer",
    Completion: "Every row of a completions file needs id and completion",
    SelectionPack: "Every row of a selection pack needs id and samples",
    GoldenCase: "Every golden row needs id, prompt, expected_answer, completion, "
    "expected_reward, expected_code and note",
}


def row_problem(decoder: "msgspec.json.Decoder[T]", row_type: type[T], line: bytes) -> str | None:
    """Say what is wrong with one line, or None when it is a good row."""
    try:
        decoder.decode(line)
    except UnicodeDecodeError:
        return _not_utf8(line)
    except msgspec.DecodeError as error:
        try:
            row = json.loads(line.decode(), parse_int=lambda digits: int(digits[:60]))
        except UnicodeDecodeError:
            return _not_utf8(line)
        except ValueError:
            return _invalid_json(line, _json_error(line))
        except RecursionError:
            return TOO_DEEP
        if isinstance(error, msgspec.ValidationError):
            return _wrong_row(row_type, row, str(error))
        return _invalid_json(line, str(error))
    except RecursionError:
        return TOO_DEEP
    return None


def hint(row_type: type) -> str:
    """Say what a row of this type needs."""
    return HINTS.get(row_type, f"A row of type {row_type.__name__} was expected")


def _wrong_row(row_type: type, row: Any, message: str) -> str:
    wanted = hint(row_type)
    if not isinstance(row, dict):
        return f"this row is a JSON {_json_type(row)}, and an object was expected. {wanted}."
    if match := re.match(r"Object missing required field `(.+?)`(?: - at `\$\.?(.*)`)?", message):
        inside = f" inside {match[2]!r}" if match[2] else ""
        keys = ", ".join(sorted(row)) or "none"
        kin = _kin(row, row_type)
        return f"this row has no {match[1]!r}{inside}; its keys are: {keys}. {wanted}.{kin}"
    field = message.rpartition("`$.")[2].rstrip("`") if "`$." in message else ""
    key = re.split(r"[.\[]", field)[0]
    if key == "expected_answer":
        return f"'expected_answer' is {_shown(row.get(key))}{_bad_answer(row.get(key))}"
    what = message.split(" - at ")[0]
    return (
        f"{field or 'the row'!r} is {_shown(row.get(key))}: {what[0].lower()}{what[1:]}. {wanted}."
    )


def _bad_answer(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f', an integer beyond 64 bits. Write it as a string: "{_cut(str(value), 60)}".'
    if isinstance(value, str):
        return (
            ", which is not a canonical integer. Expected an optional '-' and digits without "
            "leading zeros, as in \"42\"; '-0', '+5', '1,234' and spaces are invalid."
        )
    return '. Expected an integer such as 42, or its decimal string "42".'


def _invalid_json(line: bytes, message: str) -> str:
    text = line.decode().strip(BLANK.decode())
    if "surrogate" in message or _has_lone_surrogate(text):
        return (
            "the JSON holds half of a surrogate pair (an escape like \\ud800 alone), which is no "
            "character. Replace it, for instance by \\ufffd."
        )
    reason = message.removeprefix("JSON is malformed: ")
    if re.search(r"\b(NaN|-?Infinity)\b", text):
        reason += "; NaN and Infinity are not JSON numbers, use null"
    return f"this line is not valid JSON: {reason}. It begins {_shown(text)}."


def _json_error(line: bytes) -> str:
    """The parser's own words for text that is no JSON at all."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        return str(error)
    return "it holds what JSON does not allow"


def _has_lone_surrogate(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        pass
    return False


def _not_utf8(line: bytes) -> str:
    if line.startswith(UTF_16_MARKS):
        return "this file is UTF-16, and UTF-8 was expected: iconv -f utf-16 -t utf-8 OLD > NEW"
    if line.startswith(GZIP_MARK) or b"\0" in line:
        return "this file is compressed or binary, and JSON lines were expected; unpack it first."
    try:
        line.decode()
    except UnicodeDecodeError as error:
        byte = line[error.start]
        return (
            f"byte {error.start + 1} of this line (0x{byte:02x}) is not UTF-8. The file may be "
            "Latin-1 or Windows-1252; convert it: iconv -f windows-1252 -t utf-8 OLD > NEW"
        )
    return "this line is not UTF-8."


def _kin(row: dict[str, Any], expected: type) -> str:
    """Say what else the row looks like, for a file that was taken for another."""
    looks: tuple[tuple[set[str], type | None, str], ...] = (
        ({"samples"}, SelectionPack, "a selection pack"),
        ({"question", "answer"}, None, "GSM8K's own format: python data/prepare.py gsm8k FILE"),
        ({"expected_code"}, GoldenCase, "a golden set"),
        ({"completion"}, Completion, "a completions file"),
        ({"prompt"}, Example, "a dataset"),
    )
    for keys, row_type, name in looks:
        if keys <= set(row):
            return (
                "" if row_type and issubclass(row_type, expected) else f" This looks like {name}."
            )
    return ""


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", int: "number", float: "number", bool: "boolean"}
    return names.get(type(value), "null")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"the number {value!r}"
    return _cut(json.dumps(value), 60)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
