"""One plug for students and teachers: turn a string into the function it names.

    final_answer                     a built-in name
    path/to/file.py:name             a function in a file
    package.module:name              a function in an installed package

A file is compiled from the very bytes that are hashed, never from a cached ``.pyc``, and its module
is registered under a name made from its path, so dataclasses and pickling inside it work.
"""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from course.core.errors import PluginError
from course.core.paths import ROOT, display

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
    """Over the student's file and the modules beside it, or every source of the package."""
    builtin: bool


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

    Raises: PluginError when the string leads nowhere or the code cannot be imported.
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
    shown = plug if plug in builtins else f"{Path(target).name}:{name}"
    return Plugin(plug, function, module, shown, sources, plug in builtins)


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
        raise PluginError(_import_failure(error, path, shown, what)) from error
    return module, _hash_sources({path.name: source, **_modules_beside(path)})


def _modules_beside(path: Path) -> dict[str, bytes]:
    """The sources of modules that were imported from the file's own folder.

    The course, Python itself and what is installed are no helpers, even inside the folder: how
    many of their modules are loaded differs from command to command, and the hash must not.
    """
    beside = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or name.startswith(("__main__", PREFIX)):
            continue
        helper = Path(file).resolve()
        if helper == path or not helper.is_relative_to(path.parent):
            continue
        if not any(helper.is_relative_to(folder) for folder in _no_helpers()):
            beside[helper.relative_to(path.parent).as_posix()] = helper.read_bytes()
    return beside


@cache
def _no_helpers() -> list[Path]:
    """Where Python, installed packages and the course live."""
    import sysconfig

    installed = {sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")}
    return [ROOT / "course", *(Path(folder).resolve() for folder in installed)]


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
        raise PluginError(_import_failure(error, None, target, what)) from error
    except (Exception, SystemExit) as error:  # foreign code: anything may come out of it
        raise PluginError(_import_failure(error, None, target, what)) from error
    return module, _hash_package(module)


def _hash_package(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        raise PluginError(f"Module {module.__name__!r} has no Python source, so it has no hash.")
    path = Path(file)
    package = module.__name__ if path.name == "__init__.py" else module.__package__
    if not package:
        return _hash_sources({path.name: path.read_bytes()})
    folder = path.parent
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}
    return _hash_sources(files)


def _hash_sources(files: Mapping[str, bytes]) -> str:
    """Hash names and contents, each with its length, so that no two sets of files collide."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _exists(module: str) -> bool:
    return module.isidentifier() and importlib.util.find_spec(module) is not None


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


def _import_failure(error: BaseException, path: Path | None, shown: str, what: str) -> str:
    line: int | None = None
    if isinstance(error, SyntaxError):
        line = error.lineno
    elif path:
        inside = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = inside[-1].lineno if inside else None
    where = f"{shown}:{line}" if line else shown
    text = f"{type(error).__name__}: {text_of(error)}".strip().rstrip(":")
    return f"The {what} cannot be imported: {where}: {text}"
