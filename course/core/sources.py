"""Which code a plug is: one hash over a student's file, or a package, and the helpers it imports.

A file's helpers are every module that its ``import`` statements name, wherever they stand (inside
functions and branches too), and those that the helpers name in turn. They are read from the source,
so what else happens to be loaded changes nothing, and hashed under their module names, so a copied
folder keeps its hash. Python, installed packages and the course are no helpers.

What reading cannot see: a data file that the rule opens, a module found by a computed name
(``importlib.import_module(name)``) or run by ``exec``, and a folder that joins ``sys.path`` only
once a function runs. Helpers are imported by Python in its usual way, so one that was edited after
it was loaded, or within a second at equal size (a stale ``.pyc``), may run as it was before while
its new text is hashed.
"""

import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from course.core.errors import PluginError
from course.core.paths import display


def hash_file(path: Path, source: bytes) -> str:
    """Hash a student's file, whose bytes are given, and its helpers."""
    return _hash_sources({path.name: source, **_helpers(_imports(source, package=""))})


def hash_package(module: ModuleType) -> str:
    """Hash every source of a module's package, and its helpers.

    Raises: PluginError for a module without Python source.
    """
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
        spec = spec_of(name)
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


def spec_of(name: str) -> ModuleSpec | None:
    """Where a module was loaded from, or would be; nothing is imported to find out."""
    above = name.rpartition(".")[0]
    try:
        if not above:
            return importlib.util.find_spec(name)
        parent = spec_of(above)
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


def _hash_sources(files: Mapping[str, bytes]) -> str:
    """Hash names and contents, each with its length, so that no two sets of files collide."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
