"""Exit codes, errors in words, and text that cannot command a terminal."""

import argparse
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core import console
from course.core.errors import BrokenSealError, CourseError, DataError, GateError, MachineError
from course.core.paths import ROOT

any_text = st.text(st.characters(), max_size=60)  # lone surrogates included


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text", "plain text"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\rb\x00c\x08", "a\\x0db\\x00c\\x08"),
        ("\x9b31m", "\\x9b31m"),
        ("8\u202e5", "8\\u202e5"),
        ("a\u200bb\u2066c", "a\\u200bb\\u2066c"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("naïve 漢字 😀 −8", "naïve 漢字 😀 −8"),
    ],
)
def test_printable_shows_what_a_terminal_would_obey(raw, shown):
    """Escape sequences, bidirectional overrides, NUL, invisible tags, surrogates."""
    assert console.printable(raw) == shown


@given(any_text)
def test_printable_text_is_safe_and_stays_as_it_is(text):
    """Nothing a terminal obeys is left, it can be encoded, and doing it twice changes nothing."""
    safe = console.printable(text)
    safe.encode()
    assert not [c for c in safe if unicodedata.category(c)[0] == "C" and c not in "\n\t"]
    assert console.printable(safe) == safe


@given(any_text, st.integers(2, 30))
def test_one_line_is_one_line_of_at_most_its_width(text, width):
    """Whatever the text, a table keeps its shape."""
    line = console.one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line and "\t" not in line


def test_one_line_shows_line_ends_and_cuts_with_an_ellipsis():
    """By hand."""
    assert console.one_line("a\nb\tc", 20) == "a\\nb\\tc"
    assert console.one_line("abcdef", 6) == "abcdef"
    assert console.one_line("abcdefg", 6) == "abcde…"
    assert console.one_line("x" * 10_000_000, 4) == "xxx…"


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0, ""),
        (1, "████"),
        (0.5, "██"),
        (0.25, "█"),
        (0.28125, "█▏"),
        (1e-9, "▏"),
        (0.96875, "███▉"),
    ],
)
def test_a_bar_is_as_long_as_its_share(share, drawn):
    """Four blocks of eight eighths: 9/32 is one block and one eighth."""
    assert console.bar(share, 4) == drawn


@given(st.floats(0, 1))
def test_a_bar_never_leaves_its_column(share):
    """And is empty only for nothing."""
    drawn = console.bar(share, 12)
    assert len(drawn) <= 12
    assert bool(drawn) == (share > 0)


def test_styled_text_is_neither_markup_nor_commands(capsys):
    """A completion that says [red] or clears the screen is shown, not obeyed."""
    console.styled(("ok", "bold green"), " [red]x[/red] \x1b[2J ", ("\u202e", "red"))
    assert capsys.readouterr().out == "ok [red]x[/red] \\x1b[2J \\u202e\n"


def test_a_long_styled_line_is_not_wrapped(capsys):
    """A pipe gets one line for one line."""
    console.styled("x" * 500)
    assert capsys.readouterr().out == "x" * 500 + "\n"


def run_door(body) -> int:
    return console.run_door(lambda argv: body(), [])


def raising(error: BaseException):
    def body() -> int:
        raise error

    return body


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_door_s_own_code_is_passed_on(code):
    """The body decides."""
    assert run_door(lambda: code) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CourseError("no"), 2),
        (DataError("no"), 2),
        (GateError("no"), 1),
        (BrokenSealError("no"), 1),
        (MachineError("no"), 3),
    ],
)
def test_an_error_is_one_message_and_its_code(error, code, capsys):
    """stderr only, no traceback."""
    assert run_door(raising(error)) == code
    assert capsys.readouterr() == ("", "error: no\n")


def test_an_error_s_text_is_neutralised(capsys):
    """File names and ids are hostile text too."""
    run_door(raising(DataError("\x1b[31m\ud800")))
    assert capsys.readouterr().err == "error: \\x1b[31m\\ud800\n"


def test_ctrl_c_is_130_and_one_line(capsys):
    """What shells expect of an interrupted command."""
    assert run_door(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "interrupted; nothing unfinished was left behind\n"


def test_what_was_added_to_an_error_is_said_too(capsys):
    """As a run folder adds what it keeps of an unfinished run: after the error, in its own line."""
    error = DataError("no")
    error.add_note("run.partial keeps\x1b what was done.")
    assert run_door(raising(error)) == 2
    assert capsys.readouterr().err == "error: no\nnote: run.partial keeps\\x1b what was done.\n"


def test_ctrl_c_says_what_is_kept(capsys):
    """Then it is not true that nothing was left behind."""
    stop = KeyboardInterrupt()
    stop.add_note("run.partial keeps what was done.")
    assert run_door(raising(stop)) == 130
    assert capsys.readouterr().err == "interrupted; run.partial keeps what was done.\n"


def test_bad_usage_is_2_and_help_is_0(capsys):
    """argparse's own codes, returned instead of raised."""

    def body(argv):
        parser = console.parser("demo", "Show a demo.", "  python -m course.demo --n 3")
        parser.add_argument("--number", type=int)
        parser.parse_args(argv)
        return 0

    assert console.run_door(body, ["--help"]) == 0
    shown = capsys.readouterr().out
    assert "usage: python -m course.demo" in shown
    assert "example:\n  python -m course.demo --n 3" in shown
    assert console.run_door(body, ["--number", "x"]) == 2
    assert console.run_door(body, ["--num", "3"]) == 2  # no abbreviations: they break in scripts
    assert isinstance(console.parser("a", "b", "c"), argparse.ArgumentParser)


def test_a_bug_of_ours_is_not_hidden():
    """Anything but a CourseError keeps its traceback."""
    with pytest.raises(ZeroDivisionError):
        run_door(lambda: 1 // 0)


def door(code: str, **kwargs) -> subprocess.Popen:
    text = (
        f"import sys\nfrom course.core import console\n{code}\nsys.exit(console.run_door(body, []))"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", text], cwd=ROOT, stdout=pipe, stderr=pipe, **kwargs
    )


@pytest.mark.parametrize("writer", ["answer", "styled"])
def test_a_reader_that_has_enough_does_not_change_the_verdict(writer):
    """``| head`` closes the pipe: the door's own exit code, and not a word."""
    process = door(
        f"from course.core.console import {writer}\n"
        f"def body(argv):\n    [{writer}('x' * 100) for _ in range(3_000)]\n    return 1"
    )
    process.stdout.read(10)
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    assert (process.wait(), error) == (1, "")


def test_text_that_the_terminal_cannot_show_is_escaped():
    """An ASCII terminal gets escapes, not a UnicodeEncodeError."""
    process = door(
        "def body(argv):\n    print('ü \\ud800')\n    return 0",
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    out, error = process.communicate()
    assert (out, error, process.returncode) == (b"\\xfc \\ud800\n", b"", 0)


def test_progress_is_quiet_in_a_pipe(capsys):
    """stderr of a script stays free of bars."""
    with console.progress("reading", 10_000_000) as step:
        step(5_000_000)
    assert capsys.readouterr() == ("", "")
