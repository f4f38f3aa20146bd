"""The errors a person can cause or meet, each with the exit code its command ends with.

A message says what happened, where (``file:line``), what was expected and what to do next. The
doors print it without a traceback; anything that is not a ``CourseError`` is a bug of ours.
"""


class CourseError(Exception):
    """Something a person can understand and act on. Ends a command with ``exit_code``."""

    exit_code = 2


class UsageError(CourseError):
    """The command line asks for something that cannot be done."""


class DataError(CourseError):
    """A file is missing, unreadable, or not what it should be."""


class PluginError(CourseError):
    """A plug string does not lead to a usable function."""


class GateError(CourseError):
    """A gate, a check or a seal said no."""

    exit_code = 1


class BrokenSealError(GateError):
    """A run folder is not what it was when it was sealed."""


class DivergedError(GateError):
    """Training made numbers that are no longer finite."""


class MachineError(CourseError):
    """This machine lacks something: an extra, disk space, a GPU, a sandbox, a server."""

    exit_code = 3
