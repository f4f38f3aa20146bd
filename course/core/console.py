"""What the commands share at the terminal: exit codes, errors, progress, safe text.

stdout is the answer, stderr is commentary. Nothing here knows what a command does.
"""

import os
import shutil
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from course.core.errors import CourseError, MachineError
from course.core.extras import how_to_install

INTERRUPTED = 130
LABEL = 14  # columns of a label, with its indent


def parser(command: str, purpose: str, example: str) -> ArgumentParser:
    """Make a door's argument parser: what it does, its flags, and a command to copy."""
    return ArgumentParser(
        prog=f"python -m course.{command}",
        description=purpose,
        epilog=f"example:\n{example}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def run_door(body: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None) -> int:
    """Run a door's body and turn what it raises into a message and an exit code.

    Returns: the body's code, also when nobody reads its answer to the end; a CourseError's own; 3
        for a library that is not installed; 130 for Ctrl-C; argparse's code for bad usage.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = body(argv)
        with _to_the_reader():
            sys.stdout.flush()
    except CourseError as error:
        say(f"error: {error}")
        for note in _notes(error):
            say(f"note: {note}")
        return error.exit_code
    except ModuleNotFoundError as error:
        cure = how_to_install(error.name or "")
        if cure is None:
            raise
        say(f"error: {cure}")
        return MachineError.exit_code
    except BrokenPipeError:  # argparse's own printing of --help
        _discard_stdout()
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        say(f"error: {error.filename}: {error.strerror}.")
        return CourseError.exit_code
    except KeyboardInterrupt as stop:
        kept = " ".join(_notes(stop)) or "nothing unfinished was left behind"
        say(f"interrupted; {kept}")
        return INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    return code


def _notes(error: BaseException) -> list[str]:
    """What was added to an error on its way, such as what is kept of an unfinished run."""
    return getattr(error, "__notes__", [])


def styled(*parts: str | tuple[str, str]) -> None:
    """Write one line of the answer to stdout, in colour on a terminal.

    Args:
        parts: text, or (text, style) with a rich style such as ``"bold green"``. Text is never read
            as markup, and what a terminal would obey is neutralised.
    """
    from rich.console import Console
    from rich.text import Text

    safe = [printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts]
    console = Console(soft_wrap=True, highlight=False)
    with console.capture() as captured:
        console.print(Text.assemble(*safe), end="")
    answer(captured.get())


def labelled(label: str, parts: Sequence[str | tuple[str, str]]) -> None:
    """Write a label and a block of text beside it to stdout, its further lines indented.

    On a terminal long lines are wrapped inside the block; a pipe gets them whole.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not sys.stdout.isatty():
        indent = "\n" + " " * LABEL
        plain = "".join(part if isinstance(part, str) else part[0] for part in parts)
        answer(f"  {label:<{LABEL - 2}}{printable(plain)}".replace("\n", indent).rstrip())
        return
    grid = Table.grid()
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    safe = [printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts]
    grid.add_row(Text(f"  {label}", "dim"), Text.assemble(*safe))
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(grid)
    answer(captured.get().rstrip("\n"))


def say(message: str) -> None:
    """Write one line of commentary to stderr."""
    print(printable(message), file=sys.stderr)


def answer(text: str = "") -> None:
    """Write one line of the answer to stdout."""
    with _to_the_reader():
        print(text)


def answer_json(value: Any) -> None:
    """Write the whole answer as JSON."""
    from course.core.digests import pretty_json

    with _to_the_reader():
        sys.stdout.write(pretty_json(value).decode())


def fit(text: str, indent: int = 0) -> str:
    """Cut one line to the width of the terminal; a pipe or a file gets it whole."""
    if not sys.stdout.isatty():
        return text
    width = max(20, shutil.get_terminal_size().columns - indent)
    return text if len(text) <= width else f"{text[: width - 1]}…"


@contextmanager
def _to_the_reader() -> Iterator[None]:
    """Write to stdout; a reader that left early, `head` for instance, has what it wanted."""
    try:
        yield
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        raise MachineError(f"The answer cannot be written to stdout: {error.strerror}.") from error


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Make hostile text safe to show: what a terminal would obey is shown as what it is.

    Newlines and tabs stay; other control, bidirectional and surrogate characters become escapes.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def one_line(text: str, width: int) -> str:
    r"""Show a text in one line of at most ``width`` characters, line ends written as ``\\n``."""
    flat = printable(text[: 4 * width]).replace("\n", "\\n").replace("\t", "\\t")
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def bar(share: float, width: int = 24) -> str:
    """Draw a share in 0..1 as a bar of blocks, at least a sliver when it is not zero."""
    if "utf" not in (sys.stdout.encoding or "").lower():
        return "#" * max(round(share * width), 1 if share > 0 else 0)
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


@contextmanager
def progress(
    label: str, total: int, *, quiet_below: int = 0, unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr while a long piece of work runs; stay quiet in a pipe.

    Args:
        label: what is being done.
        total: how many units there are.
        quiet_below: work of fewer units is over too soon to be shown.
        unit: what is counted; then its rate is shown too, as in ``850 completions/s``.

    Yields: a function to call with how many units of ``total`` are done by now.
    """
    if not sys.stderr.isatty() or total < quiet_below:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    remaining = TimeRemainingColumn(elapsed_when_finished=True)
    with Progress(*columns, remaining, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(label, total=total)
        began: list[float] = []  # the first call's time and count: a resumed run does not count

        def show(done: int) -> None:
            if unit and not began:
                began.extend((time.perf_counter(), done))
            elif unit and done > began[1]:
                rate = (done - began[1]) / max(time.perf_counter() - began[0], 1e-9)
                display.update(task, description=f"{label}  {_rate(rate)} {unit}/s")
            display.update(task, completed=done)

        yield show


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
