"""The layout of the package: who may import whom, and what may be imported where."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "course"
TIERS = [
    {"core"},
    {"scoring", "artifacts", "policy"},
    {"judging"},
    {"envs"},
    {"evaluation"},
    {"selection", "learning"},
    {"reporting"},
    {"autograde"},
]
TIER = {room: number for number, rooms in enumerate(TIERS) for room in rooms}
HEAVY = {
    "jsonschema", "matplotlib", "numpy", "pandas", "rich", "scipy", "torch", "transformers",
}  # fmt: skip
TORCH_ROOMS = {"policy", "learning", "autograde"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """The full names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _run_at_import(tree) if only_at_import else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative imports hide the room"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run_at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: not in functions, not for type checkers."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        yield node
        waiting += list(ast.iter_child_nodes(node))


def room_of(path: Path) -> str | None:
    """The room a file lies in; None for a door."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def rooms_imported(path: Path) -> set[str]:
    """The rooms and doors a file imports, by name."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("course.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_a_room_imports_only_rooms_of_an_earlier_tier(path: Path) -> None:
    """core < scoring, artifacts, policy < ... < doors; one tier's rooms never meet."""
    room = room_of(path)
    if room is None:
        return
    later = {
        other
        for other in rooms_imported(path) - {room, "__version__"}
        if TIER.get(other, 99) >= TIER[room]
    }
    assert not later, f"{path.relative_to(PACKAGE)} imports {sorted(later)}"


def test_doors_never_import_doors() -> None:
    """A door parses flags and calls rooms; what two doors share belongs to a room."""
    doors = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    for path in PACKAGE.glob("*.py"):
        assert not rooms_imported(path) & doors, path.name


def test_every_room_has_a_tier() -> None:
    """A new room is placed in the order before it is built."""
    rooms = {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert rooms <= set(TIER)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_heavy_libraries_load_where_they_are_used(path: Path) -> None:
    """`--help` answers at once because nothing heavy is imported at the top of a module."""
    top = {name.partition(".")[0] for name in imports(path, only_at_import=True)}
    allowed = HEAVY if room_of(path) in {"policy", "learning"} else set()
    assert not top & (HEAVY - allowed)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_torch_stays_in_the_rooms_that_learn(path: Path) -> None:
    """torch and transformers belong to policy, learning and autograde."""
    used = {name.partition(".")[0] for name in imports(path)}
    assert not used & {"torch", "transformers"} or room_of(path) in TORCH_ROOMS


def test_no_module_has_a_name_that_says_nothing_or_shadows_the_standard_library() -> None:
    """A file beside a door named `select` would break whoever runs Python in that folder."""
    for path in MODULES:
        assert path.stem not in {"utils", "common", "helpers"}, path
        if room_of(path) is None and path.stem != "__init__":
            assert path.stem not in sys.stdlib_module_names, path
