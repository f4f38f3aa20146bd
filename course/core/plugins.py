"""One plug for students and teachers: turn a string into the function it names.

    final_answer                     a built-in name
    path/to/file.py:name             a function in a file
    package.module:name              a function in an installed package

A file is compiled from the very bytes that are hashed, never from a cached ``.pyc``, and its module
is registered under a name made from its path, so dataclasses and pickling inside it work.

The hash also covers the file's helpers: every module that its ``import`` statements name, wherever
they stand (inside functions and branches too), and those that the helpers name in turn. They are
read from the source, so what else happens to be loaded changes nothing, and hashed under their
module names, so a copied folder keeps its hash. Python, installed packages and the course are no
helpers. What reading cannot see: a data file that the rule opens, a module found by a computed
name (``importlib.import_module(name)``) or run by ``exec``, and a folder that joins ``sys.path``
only once a function runs. Helpers are imported by Python in its usual way, so one that was edited
after it was loaded, or within a second at equal size (a stale ``.pyc``), may run as it was before
while its new text is hashed.
"""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from course.core.errors import CourseError, MachineError, PluginError
from course.core.extras import how_to_install
from course.core.paths import display

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
    return module, _hash_sources({path.name: source, **_helpers(_imports(source, package=""))})


def _helpers(names: Iterable[str]) -> dict[str, bytes]:
    """The sources of the helpers among the named modules, and of the helpers that those import.

    Each is kept as ``name:``, which no file in the same hash is called.
    """
    sources: dict[str, bytes] = {}
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None or not spec.origin or not _is_helper(name, Path(spec.origin)):
            continue
        try:
            source = Path(spec.origin).read_bytes()
        except OSError as error:
            where = display(Path(spec.origin))
            raise PluginError(f"The helper {where} cannot be read: {error.strerror}.") from error
        sources[f"{name}:"] = source
        todo += _imports(source, package=spec.parent or "")
    return sources


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Every module that an ``import`` statement anywhere in the source may load.

    ``from a.b import c`` loads a and a.b, and a.b.c if that is a module.
    """
    import ast
    import warnings

    try:
        with warnings.catch_warnings(action="ignore"):  # Python gives them once, when it compiles
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # nothing that could be imported
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            try:
                base = importlib.util.resolve_name(relative, package)
            except ImportError:
                continue  # beyond the top package
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            yield from _with_parents(name)


def _with_parents(name: str) -> list[str]:
    """``a.b.c`` is loaded after a and a.b."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _spec(name: str) -> ModuleSpec | None:
    """Where a module was loaded from, or would be; nothing is imported to find out."""
    above = name.rpartition(".")[0]
    try:
        if not above:
            return importlib.util.find_spec(name)
        parent = _spec(above)
        folders = parent and parent.submodule_search_locations
        return PathFinder.find_spec(name, folders) if folders else None
    except (ImportError, ValueError):  # ValueError: a module made by hand, such as __main__
        return None


def _is_helper(name: str, file: Path) -> bool:
    """Whether a module is the student's own: not the course, not Python, not installed."""
    if name.partition(".")[0] == "course" or not file.is_file():
        return False
    if not {"site-packages", "dist-packages"}.isdisjoint(file.parts):
        return False
    return not any(file.resolve().is_relative_to(folder) for folder in _installed())


@cache
def _installed() -> list[Path]:
    """Where Python and installed packages live."""
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")}
    return [Path(folder).resolve() for folder in folders]


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
    return module, _hash_package(module)


def _hash_package(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        raise PluginError(f"Module {module.__name__!r} has no Python source, so it has no hash.")
    path = Path(file)
    helpers = _helpers(_with_parents(module.__name__))
    package = module.__name__ if path.name == "__init__.py" else module.__package__
    if not package:
        return _hash_sources({path.name: path.read_bytes(), **helpers})
    folder = path.parent
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}
    return _hash_sources({**files, **helpers})


def _hash_sources(files: Mapping[str, bytes]) -> str:
    """Hash names and contents, each with its length, so that no two sets of files collide."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _exists(module: str) -> bool:
    return module.isidentifier() and _spec(module) is not None


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
    return PluginError(message)
