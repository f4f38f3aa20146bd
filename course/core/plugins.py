"""One plug for students and teachers: turn a string into the function it names.

    final_answer                     a built-in name
    path/to/file.py:name             a function in a file
    package.module:name              a function in an installed package

A file is compiled from the very bytes that are hashed, never from a cached ``.pyc``, and its module
is registered under a name made from its path, so dataclasses and pickling inside it work.
"""

import hashlib
import importlib.util
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from course.core.errors import CourseError, MachineError, PluginError
from course.core.extras import how_to_install
from course.core.paths import display
from course.core.sources import hash_file, hash_package, spec_of

PREFIX = "plugin_"


class Plugin(NamedTuple):
    """A function that a plug string named, and the evidence of which code it is."""

    plug: str
    """The string as it was given."""
    function: Callable[..., Any]
    module: ModuleType
    name: str
    """A built-in's name, or ``file.py:function`` / ``package.module:function``."""
    sources_sha256: str
    """Over the student's file, or every source of the package, and the helpers it imports."""
    builtin: bool
    """Also for a built-in that was given by its full spelling, ``package.module:name``."""


def load_plugin(
    plug: str, *, builtins: Mapping[str, str], default: str, parameters: int, what: str
) -> Plugin:
    """Find the function that a plug string names.

    Args:
        plug: a built-in name, ``path/to/file.py:name`` or ``package.module:name``.
        builtins: built-in names and the ``package.module:name`` behind each.
        default: the function's name where the string names only a file or module.
        parameters: how many positional arguments the function must take.
        what: the piece in words, for messages: "scorer", "selector".

    Raises: PluginError when the string leads nowhere or the code cannot be imported; MachineError
        when it imports a library that an extra would bring.
    """
    target, _, name = builtins.get(plug, plug).rpartition(":")
    if not target:
        target, name = name, default
    if target.endswith(".py"):
        module, sources = _load_file(Path(target), what)
    elif "/" in target or "\\" in target:
        raise PluginError(f"{plug!r} is no {what}: a file must end in .py, as in file.py:{default}")
    elif "." in target or ":" in plug or _exists(target):
        module, sources = _load_module(target, what, builtins)
    else:
        raise PluginError(_unknown(plug, builtins, what, default))
    function = _function_in(module, name, plug, what)
    _check_parameters(function, parameters, plug, what)
    spellings = {full: short for short, full in builtins.items()}
    builtin = spellings.get(f"{target}:{name}")
    return Plugin(
        plug,
        function,
        module,
        builtin or f"{Path(target).name}:{name}",
        sources,
        builtin is not None,
    )


def _load_file(path: Path, what: str) -> tuple[ModuleType, str]:
    shown = display(path)
    if not path.is_file():
        raise PluginError(f"The {what}'s file {shown} does not exist. Check the path, from here.")
    path = path.resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PluginError(f"The {what}'s file {shown} cannot be read: {error.strerror}.") from error
    key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    module = ModuleType(f"{PREFIX}{path.stem}_{key}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # foreign code: anything may come out of it
        del sys.modules[module.__name__]
        raise _import_failure(error, path, shown, what) from error
    return module, hash_file(path, source)


def _load_module(target: str, what: str, builtins: Mapping[str, str]) -> tuple[ModuleType, str]:
    try:
        module = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and (target == error.name or target.startswith(f"{error.name}.")):
            known = ", ".join(sorted(builtins))
            raise PluginError(
                f"No module {target!r} for the {what}. Give a built-in name ({known}), "
                "path/to/file.py:name or package.module:name."
            ) from error
        raise _import_failure(error, None, target, what) from error
    except (Exception, SystemExit) as error:  # foreign code: anything may come out of it
        raise _import_failure(error, None, target, what) from error
    return module, hash_package(module)


def _exists(module: str) -> bool:
    return module.isidentifier() and spec_of(module) is not None


def _unknown(plug: str, builtins: Mapping[str, str], what: str, default: str) -> str:
    import difflib

    close = difflib.get_close_matches(plug, builtins, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return (
        f"There is no {what} named {plug!r}.{guess} Built in: {', '.join(sorted(builtins))}. "
        f"For your own, give path/to/file.py:{default}"
    )


def _function_in(module: ModuleType, name: str, plug: str, what: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if function is None:
        defined = sorted(
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_") and not isinstance(value, type)
        )
        has = f"It defines: {', '.join(defined)}." if defined else "It defines no functions."
        raise PluginError(f"{plug!r}: the {what}'s module has no {name!r}. {has}")
    if not callable(function):
        raise PluginError(f"{plug!r}: {name!r} is not a function but {type(function).__name__}.")
    return function  # type: ignore[no-any-return]  # foreign code: callable is all we know


def _check_parameters(function: Callable[..., Any], parameters: int, plug: str, what: str) -> None:
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a callable that hides its signature is judged when it is called
    try:
        signature.bind(*[None] * parameters)
    except TypeError as error:
        raise PluginError(
            f"{plug!r}: a {what} is called with {parameters} arguments, and this one takes "
            f"{signature}: {error}."
        ) from error


def text_of(error: BaseException) -> str:
    """Return a foreign exception's message, even if its own ``__str__`` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  foreign code: anything may come out of it
        return "(its message cannot be shown)"


def _import_failure(error: BaseException, path: Path | None, shown: str, what: str) -> CourseError:
    line: int | None = None
    if isinstance(error, SyntaxError):
        line = error.lineno
    elif path:
        inside = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = inside[-1].lineno if inside else None
    where = f"{shown}:{line}" if line else shown
    text = f"{type(error).__name__}: {text_of(error)}".strip().rstrip(":")
    message = f"The {what} cannot be imported: {where}: {text}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        cure = how_to_install(error.name)
        if cure and not _exists(error.name.partition(".")[0]):
            return MachineError(f"{message}. {cure}")
        if path and (path.parent / f"{error.name}.py").is_file():
            folder = shlex.quote(display(path.parent))
            message += (
                f". {error.name}.py lies beside it; begin the command with PYTHONPATH={folder}"
            )
    return PluginError(message)
