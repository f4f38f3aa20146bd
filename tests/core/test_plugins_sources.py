"""The hash of a student's file covers the code that can run for it, and nothing else."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from course.core import sources
from course.core.errors import PluginError
from course.core.plugins import load_plugin

Source = Callable[..., Path]
SCORE = "def score(example, completion): return 1\n"
FIRST = """
    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).resolve().parent{up}))
    """


@pytest.fixture(autouse=True)
def _python_as_before() -> Iterator[None]:
    """What a test imports, and where from, is forgotten after it."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    forget(modules)
    sys.path[:] = path


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Write Python source to a file below a fresh folder and return its path."""

    def source(name: str, text: str = "", *, up: str | None = None) -> Path:
        """With ``up``, the file first puts its own folder, or one above, on sys.path."""
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "" if up is None else textwrap.dedent(FIRST.format(up=up))
        path.write_text(head + textwrap.dedent(text))
        return path

    return source


def forget(modules: set[str]) -> None:
    """Make it a fresh process: what was imported since is imported again."""
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def digest(path: Path | str) -> str:
    """Load a scorer as a fresh process would, and return its hash."""
    modules, before = set(sys.modules), list(sys.path)
    plugin = load_plugin(str(path), builtins={}, default="score", parameters=2, what="scorer")
    forget(modules)
    sys.path[:] = before
    return plugin.sources_sha256


def by_hand(path: Path, **helpers: Path) -> str:
    """The hash that a file should have, with the helpers it should have."""
    named = {f"{name.replace('__', '.')}:": file.read_bytes() for name, file in helpers.items()}
    return sources._hash_sources({path.name: path.read_bytes(), **named})


# ---- what counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import plughelp\n",
        "from plughelp import RULE\n",
        "from plughelp import *\n",
        "def score(example, completion):\n    import plughelp\n    return plughelp.RULE\n",
        "def score(example, completion):\n    from plughelp import RULE\n    return RULE\n",
        "class Rule:\n    def inner(self):\n        import plughelp as p\n",
        "if False:\n    import plughelp\n",
        "try:\n    import plughelp, plugnowhere\nexcept ImportError: ...\n",
    ],
)
def test_a_helper_counts_wherever_it_is_imported(source, text):
    """At the top, inside ``score`` at its first call, in a branch that may run: it is the rule."""
    path = source("mine.py", SCORE + text, up="")
    helper = source("plughelp.py", "RULE = 1\n")
    before = digest(path)
    assert before == by_hand(path, plughelp=helper)
    source("plughelp.py", "RULE = 'other'\n")
    assert before != digest(path)


def test_a_helper_in_a_folder_beside_the_file_s_folder_counts(source):
    """``scorers/mine.py`` that uses ``common/plughelp.py``."""
    path = source("scorers/mine.py", SCORE + "from common import plughelp\n", up=".parent")
    helper = source("common/plughelp.py", "RULE = 1\n")
    before = digest(path)
    assert before == by_hand(path, common__plughelp=helper)
    source("common/plughelp.py", "RULE = 'other'\n")
    assert before != digest(path)


def test_a_helper_s_helper_counts_and_a_circle_ends(source):
    """Three modules, each of which imports the next inside a function; the last, the first."""
    path = source("mine.py", SCORE + "import plug1\n", up="")
    files = {
        "plug1": source("plug1.py", "def f(): import plug2\n"),
        "plug2": source("plug2.py", "def f(): import plug3\n"),
        "plug3": source("plug3.py", "def f(): import plug1\n"),
    }
    assert digest(path) == by_hand(path, **files)


def test_the_packages_above_a_helper_and_its_relative_imports_count(source):
    """``import a.b`` runs ``a/__init__.py`` first; dots are read from where they stand."""
    path = source("mine.py", SCORE + "import pluga.b.c\n", up="")
    source("pluga/unused.py", "x = 1\n")
    files = {
        "pluga": source("pluga/__init__.py", "from . import top\n"),
        "pluga__top": source("pluga/top.py"),
        "pluga__b": source("pluga/b/__init__.py"),
        "pluga__b__c": source(
            "pluga/b/c.py", "def f():\n    from .d import x\n    from ..e import y\n"
        ),
        "pluga__b__d": source("pluga/b/d.py", "x = 1\n"),
        "pluga__e": source("pluga/e.py", "y = 1\n"),
    }
    assert digest(path) == by_hand(path, **files)


def test_a_module_given_by_name_has_helpers_too(source, monkeypatch):
    """A module alone, and a package that reaches outside its folder."""
    top = source("plugmod.py", SCORE + "import plughelp\n").parent
    source("plugpack/__init__.py")
    source("plugpack/rules.py", SCORE + "def f(): import plughelp\n")
    source("plughelp.py", "RULE = 1\n")
    monkeypatch.syspath_prepend(top)
    before = digest("plugmod"), digest("plugpack.rules")
    source("plughelp.py", "RULE = 'other'\n")
    assert not set(before) & {digest("plugmod"), digest("plugpack.rules")}


# ---- what does not count ----------------------------------------------------------------------


def test_what_else_was_imported_from_the_folder_does_not_count(source, monkeypatch):
    """A conftest.py under pytest, a notebook's own module: identical code has one hash."""
    path = source("mine.py", SCORE)
    source("plugconftest.py", "x = 1\n")
    monkeypatch.syspath_prepend(path.parent)
    before = digest(path)
    __import__("plugconftest")
    assert digest(path) == before == by_hand(path)


def test_a_helper_that_was_imported_before_changes_nothing(source, monkeypatch):
    """A notebook that looked at the helper first, and a command that did not, agree."""
    path = source("mine.py", SCORE + "def f(): import plughelp.deep\n")
    files = {
        "plughelp": source("plughelp/__init__.py"),
        "plughelp__deep": source("plughelp/deep.py", "x = 1\n"),
    }
    monkeypatch.syspath_prepend(path.parent)
    before = digest(path)
    __import__("plughelp.deep")
    assert digest(path) == before == by_hand(path, **files)


def test_nothing_is_imported_to_find_out(source):
    """A helper that only ``score`` imports runs when ``score`` does, and not for the hash."""
    path = source("mine.py", SCORE + "def f(): import plugloud.part\n", up="")
    files = {
        "plugloud": source("plugloud/__init__.py", "raise SystemExit('imported')\n"),
        "plugloud__part": source("plugloud/part.py"),
    }
    assert digest(path) == by_hand(path, **files)


def test_python_installed_packages_and_the_course_are_no_helpers(source, monkeypatch):
    """They are versions of this machine; the manifest names them elsewhere."""
    site = source("env/lib/site-packages/pluginstalled.py", "x = 1\n").parent
    monkeypatch.syspath_prepend(site)
    text = "import json, math, sys, pytest, msgspec.json, pluginstalled\n"
    text += "from course.core import digests\nfrom course.scoring.final_answer import score\n"
    path = source("mine.py", text)
    assert digest(path) == by_hand(path)


def test_a_copied_folder_keeps_the_hash(source, tmp_path):
    """Helpers are hashed under their module names, not their paths."""
    path = source("here/scorers/mine.py", SCORE + "import common.plughelp\n", up=".parent")
    source("here/common/plughelp.py", "RULE = 1\n")
    shutil.copytree(tmp_path / "here", tmp_path / "far" / "there")
    assert digest(path) == digest(tmp_path / "far" / "there" / "scorers" / "mine.py")


def test_two_helpers_that_swap_their_texts_are_another_rule(source):
    """Names are hashed with the contents."""
    path = source("mine.py", SCORE + "import plug1, plug2\n", up="")
    source("plug1.py", "x = 1\n"), source("plug2.py", "x = 2\n")
    before = digest(path)
    source("plug1.py", "x = 2\n"), source("plug2.py", "x = 1\n")
    assert digest(path) != before


# ---- odd helpers ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"def (", b"x = 1\x00", b"x = 'caf\xe9'"])
def test_a_helper_that_is_no_python_is_hashed_and_read_no_further(source, text):
    """It fails when it is imported, if ever; that is not the hash's affair."""
    path = source("mine.py", SCORE + "def f(): import plugodd\n", up="")
    helper = source("plugodd.py")
    helper.write_bytes(text)
    assert digest(path) == by_hand(path, plugodd=helper)


def test_a_helper_that_python_warns_about_is_read_on(source):
    """Also where warnings are errors, as in these tests."""
    path = source("mine.py", SCORE + "def f(): import plugwarn\n", up="")
    files = {
        "plugwarn": source("plugwarn.py", "x = '\\d'\nimport plughelp\n"),
        "plughelp": source("plughelp.py"),
    }
    assert digest(path) == by_hand(path, **files)


def test_a_name_in_a_helper_is_not_the_file_of_that_name(source):
    """``from plughelp import count`` takes plughelp's count; ``count.py`` beside it is idle."""
    path = source("mine.py", SCORE + "from plughelp import count\n", up="")
    helper = source("plughelp.py", "count = 1\n")
    source("count.py")
    assert digest(path) == by_hand(path, plughelp=helper)


def test_imports_that_lead_nowhere_are_passed_over(source, monkeypatch):
    """A relative import in a lone file, a missing part, a module that was made by hand."""
    monkeypatch.setitem(sys.modules, "plughand", ModuleType("plughand"))
    text = "def f():\n    from . import x\n    from .. import y\n    import json.nowhere.deep\n"
    path = source("mine.py", SCORE + text + "    import __main__, plughand, plugnowhere\n")
    assert digest(path) == by_hand(path)


def test_a_helper_that_cannot_be_read_is_named(source, monkeypatch):
    """Without its text there is no evidence, and so no hash."""
    path = source("mine.py", SCORE + "def f(): import plughelp\n", up="")
    helper = source("plughelp.py")
    read = Path.read_bytes

    def refuse(file: Path) -> bytes:
        if file.name == helper.name:
            raise PermissionError(13, "Permission denied")
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PluginError, match=r"helper .*plughelp.py cannot be read: Permission den"):
        digest(path)
