"""A plug string leads to one function, and its hash to exactly the code that ran."""

import os
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from course.core.errors import MachineError, PluginError
from course.core.plugins import Plugin, load_plugin

BUILTINS = {
    "final_answer": "course.scoring.final_answer:score",
    "anywhere": "course.scoring.anywhere:score",
}
ONE = "def score(example, completion):\n    return 1\n"
TWO = ONE.replace("1", "2")


def load(plug: str | Path) -> Plugin:
    return load_plugin(str(plug), builtins=BUILTINS, default="score", parameters=2, what="scorer")


def refusal(plug: str | Path) -> str:
    with pytest.raises(PluginError) as caught:
        load(plug)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    """What a test imports is forgotten after it."""
    before, path = dict(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., Path]:
    """Write Python source to a file and return its path."""

    def source(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return source


# ---- what a string leads to ----------------------------------------------------------------


def test_a_builtin_name_leads_to_its_function():
    """The name is kept as the plug and as the name shown."""
    plugin = load("final_answer")
    assert plugin.function.__module__ == "course.scoring.final_answer"
    assert (plugin.plug, plugin.name, plugin.builtin) == ("final_answer", "final_answer", True)


def test_a_file_and_a_name_lead_to_that_function(source):
    """``file.py:name``; the name shown has no folder, which would name a user."""
    path = source("def other(example, completion):\n    return 'other'\n")
    plugin = load(f"{path}:other")
    assert plugin.function({}, "") == "other"
    assert (plugin.name, plugin.builtin) == ("mine.py:other", False)


def test_a_file_alone_leads_to_the_default_name(source):
    """``file.py`` means ``file.py:score``."""
    plugin = load(source(ONE))
    assert plugin.function({}, "") == 1
    assert plugin.name == "mine.py:score"


def test_a_module_leads_to_its_function(source, monkeypatch):
    """``package.module:name``, ``package.module`` and a top-level module without a dot."""
    source("", "plugpack/__init__.py")
    source(ONE, "plugpack/rules.py")
    source(TWO, "plugtop.py")
    monkeypatch.syspath_prepend(source("", "x.py").parent)
    assert load("plugpack.rules:score").function({}, "") == 1
    assert load("plugpack.rules").name == "plugpack.rules:score"
    assert load("plugtop:score").function({}, "") == 2
    assert load("plugtop").function({}, "") == 2


def test_a_builtin_and_the_module_behind_it_are_the_same_code():
    """Three spellings of the default scorer, one identity; the plug stays as it was typed."""
    short = load("final_answer")
    for spelling in ("course.scoring.final_answer:score", "course.scoring.final_answer"):
        assert load(spelling) == short._replace(plug=spelling)


def test_another_function_of_a_builtin_s_module_is_not_the_builtin():
    """Only the one function that the built-in's name stands for."""
    other = load("course.scoring.final_answer:score_parsed")
    assert (other.name, other.builtin) == ("course.scoring.final_answer:score_parsed", False)


def test_dataclasses_and_pickle_work_in_a_student_s_file(source):
    """The module is registered under its own name, which both look up."""
    path = source("""
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import ClassVar

        @dataclass(frozen=True)
        class Found:
            limit: ClassVar[int] = 3
            value: int

        def score(example, completion):
            return Found(8)
        """)
    found = load(path).function({}, "")
    assert pickle.loads(pickle.dumps(found)) == found


def test_two_files_of_one_name_are_two_modules(source):
    """Alice's and Bob's ``scorer.py`` do not overwrite each other."""
    one, two = load(source(ONE, "alice/scorer.py")), load(source(TWO, "bob/scorer.py"))
    assert one.module.__name__ != two.module.__name__
    assert (one.function({}, ""), two.function({}, "")) == (1, 2)
    assert sys.modules[one.module.__name__] is one.module


def test_a_file_does_not_shadow_the_standard_library(source):
    """A student's ``json.py`` is loaded, and ``import json`` still means json."""
    import json

    assert load(source(ONE, "json.py")).function({}, "") == 1
    assert sys.modules["json"] is json


def test_a_class_with_a_call_and_defaults_fit(source):
    """Anything that can be called with two arguments is a function here."""
    path = source("""
        class Scorer:
            def __call__(self, example, completion, strict=True):
                return 3
        score = Scorer()
        def many(*args): return 4
        """)
    assert load(path).function({}, "") == 3
    assert load(f"{path}:many").function({}, "") == 4


# ---- the evidence ---------------------------------------------------------------------------


def test_an_edit_of_equal_size_in_the_same_second_is_seen(source):
    """No stale ``.pyc``: Python's own cache would compare size and whole seconds."""
    path = source(ONE)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    first = load(path)
    assert path.stat().st_size == len(TWO)
    source(TWO)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    second = load(path)
    assert (first.function({}, ""), second.function({}, "")) == (1, 2)
    assert first.sources_sha256 != second.sources_sha256
    assert not (path.parent / "__pycache__").exists()


def test_the_hash_is_of_the_content_and_not_of_the_place(source):
    """The same file in another folder is the same scorer; a changed comment is another."""
    here, there = load(source(ONE, "a/mine.py")), load(source(ONE, "b/mine.py"))
    assert here.sources_sha256 == there.sources_sha256
    changed = load(source(ONE + "# why\n", "c/mine.py"))
    assert changed.sources_sha256 != here.sources_sha256


def test_the_hash_covers_a_helper_beside_the_file(source):
    """A rule that moved into helper.py is still the scorer's."""
    path = source("""
        import sys
        from pathlib import Path
        sys.path.insert(0, str(Path(__file__).parent))
        try:
            from plughelper import VALUE
        finally:
            del sys.path[0]
        def score(example, completion): return VALUE
        """)
    helper = source("VALUE = 1\n", "plughelper.py")
    first = load(path)
    again = load(path)
    helper.write_text("VALUE = 1  # edited\n")
    del sys.modules["plughelper"]
    second = load(path)
    assert first.sources_sha256 == again.sources_sha256 != second.sources_sha256


def test_files_beside_that_were_not_imported_do_not_count(source):
    """A neighbour's homework in the same folder changes nothing, not even when it is a plug too."""
    path = source(ONE)
    first = load(path)
    load(source(TWO, "neighbour.py"))
    assert load(path).sources_sha256 == first.sources_sha256


def test_the_hash_covers_every_file_of_a_package(source, monkeypatch):
    """A changed helper, a new file in a sub-folder: another hash."""
    top = source("", "plugwhole/__init__.py").parent
    source(ONE, "plugwhole/rules.py")
    monkeypatch.syspath_prepend(top.parent)
    hashes = [load("plugwhole.rules:score").sources_sha256]
    source("x = 1\n", "plugwhole/deep/helper.py")
    hashes.append(load("plugwhole.rules:score").sources_sha256)
    source("x = 2\n", "plugwhole/deep/helper.py")
    hashes.append(load("plugwhole.rules:score").sources_sha256)
    assert len(set(hashes)) == 3
    assert load("plugwhole.rules:score").sources_sha256 == hashes[2]


@pytest.mark.parametrize(
    "other",
    [
        {"a.py": "1\n#b.py\n2\n"},
        {"a.py": "1\n#", "c.py": "\n2\n"},
        {"a.py": "1\n#\n2\n", "b.py": ""},
    ],
)
def test_no_two_sets_of_files_look_alike(source, monkeypatch, other):
    """Names and lengths are hashed too: text that moves into another file is another package."""
    hashes = []
    for name, files in (("plugone", {"a.py": "1\n#", "b.py": "\n2\n"}), ("plugtwo", other)):
        for file, text in {"__init__.py": "", "rules.py": ONE, **files}.items():
            path = source("", f"{name}/{file}")
            path.write_text(text)
        monkeypatch.syspath_prepend(path.parent.parent)
        hashes.append(load(f"{name}.rules:score").sources_sha256)
    assert hashes[0] != hashes[1]


# ---- refusals -------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_a_guess_and_the_choices():
    """The likeliest mistake is a typo in a built-in name."""
    text = refusal("final_anser")
    assert text == (
        "There is no scorer named 'final_anser'. Did you mean final_answer? Built in: anywhere, "
        "final_answer. For your own, give path/to/file.py:score"
    )


@pytest.mark.parametrize("plug", ["", "nonsense", "no such name"])
def test_a_name_that_resembles_nothing_lists_the_choices(plug):
    """No guess where none is near."""
    text = refusal(plug)
    assert "Did you mean" not in text and "Built in: anywhere, final_answer." in text


def test_a_missing_file_is_named(tmp_path):
    """The path as it was given."""
    assert "mine.py does not exist" in refusal(tmp_path / "mine.py")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    """A folder named like a file is no file."""
    (tmp_path / "odd.py").mkdir()
    assert "odd.py does not exist" in refusal(tmp_path / "odd.py")


def test_a_path_without_py_is_explained(tmp_path):
    """``homework/mine:score`` misses its ending."""
    assert "a file must end in .py, as in file.py:score" in refusal("homework/mine:score")


@pytest.mark.parametrize("plug", ["plugnowhere.rules:score", "plugnowhere:score", "course.nowhere"])
def test_an_unknown_module_is_named_with_the_three_forms(plug):
    """The module may be misspelled, or a file was meant."""
    text = refusal(plug)
    assert text.startswith(f"No module {plug.partition(':')[0]!r} for the scorer.")
    assert "path/to/file.py:name or package.module:name" in text


@pytest.mark.parametrize("plug", ["..", "..x:y", "a..b:c", ":score", "a:b:c"])
def test_nonsense_is_refused_and_nothing_else_happens(plug):
    """Whatever the string, the answer is a message."""
    assert refusal(plug)


def test_a_missing_function_is_answered_with_those_that_are_there(source):
    """Functions only: no classes, no private names."""
    path = source(
        "class Helper: ...\ndef _hidden(): ...\ndef grade(e, c): ...\ndef rate(e, c): ...\n"
    )
    text = refusal(f"{path}:score")
    assert text.endswith("the scorer's module has no 'score'. It defines: grade, rate.")


def test_an_empty_file_defines_nothing(source):
    """The stub was never filled in."""
    assert refusal(source("")).endswith("has no 'score'. It defines no functions.")


def test_a_value_in_place_of_a_function_is_named_by_its_type(source):
    """``score = 1.0`` is a common slip."""
    assert refusal(source("score = 1.0\n")).endswith("'score' is not a function but float.")


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ("score(completion)", "(completion): too many positional arguments."),
        ("score(a, b, c)", "(a, b, c): missing a required argument: 'c'."),
        ("score(a, b, *, strict)", "(a, b, *, strict): missing a required"),
    ],
)
def test_the_wrong_number_of_parameters_is_refused_before_the_first_row(source, head, shown):
    """Better now than as a thousand unscored rows."""
    text = refusal(source(f"def {head}: ...\n"))
    assert "a scorer is called with 2 arguments, and this one takes " in text
    assert shown.split(": missing")[0] in text and shown.split(": ")[1][:10] in text


def test_a_syntax_error_is_shown_with_its_line(source):
    """File and line, no traceback."""
    text = refusal(source("x = 1\ny = 2\ndef score(a, b)\n    return 1\n"))
    assert "mine.py:3: SyntaxError:" in text
    assert text.startswith("The scorer cannot be imported: ")


def test_an_error_at_import_is_shown_with_the_line_of_the_file(source):
    """The line in the student's file, not one deep in a library."""
    text = refusal(source("import json\nx = 1\njson.loads('{')\n"))
    assert "mine.py:3: JSONDecodeError:" in text


def test_sys_exit_at_import_ends_nothing(source):
    """``exit()`` at the end of a script must not end the run silently."""
    assert "mine.py:2: SystemExit: 0" in refusal(source("import sys\nsys.exit(0)\n"))


def test_an_import_error_whose_text_fails_is_still_a_message(source):
    """Even an exception that cannot be shown."""
    path = source("""
        class Odd(Exception):
            def __str__(self): raise RuntimeError
        raise Odd
        """)
    assert "Odd: (its message cannot be shown)" in refusal(path)


def test_a_missing_import_inside_the_file_is_named(source):
    """The file exists; what it imports does not."""
    text = refusal(source("import plugnowhere\n"))
    assert "mine.py:1: ModuleNotFoundError: No module named 'plugnowhere'" in text


def test_a_library_that_an_extra_brings_is_named_with_its_install(source, monkeypatch):
    """``import torch`` without torch is the machine's lack (exit 3), not a wrong plug."""
    monkeypatch.setitem(sys.modules, "torch", None)  # Python's own way to say: not there
    monkeypatch.syspath_prepend(source("import torch.nn\n", "plugtorch.py").parent)
    file = source("x = 1\nimport torch.nn\n")
    for plug, where in ((file, "mine.py:2"), ("plugtorch", "plugtorch")):
        with pytest.raises(MachineError) as caught:
            load(plug)
        text = str(caught.value)
        assert f"{where}: ModuleNotFoundError: " in text
        assert "extra 'learn'. Type `make learn`" in text


def test_a_slip_in_the_name_of_a_part_of_a_library_is_no_missing_install(source):
    """msgspec is here; installing it again would not bring ``msgspec.nowhere``."""
    assert "No module named 'msgspec.nowhere'" in refusal(source("import msgspec.nowhere\n"))


def test_a_missing_import_inside_a_module_is_not_the_module_missing(source, monkeypatch):
    """``No module`` names what is missing, not what was asked for."""
    path = source("import plugnowhere\n", "plugbroken.py")
    monkeypatch.syspath_prepend(path.parent)
    text = refusal("plugbroken:score")
    assert text.startswith("The scorer cannot be imported: plugbroken: ModuleNotFoundError")


def test_null_bytes_and_latin_1_are_messages(source):
    """A file that is no Python at all."""
    path = source("")
    for content in (b"x = 1\x00\n", b"x = 'caf\xe9'\n"):
        path.write_bytes(content)
        assert "The scorer cannot be imported" in refusal(path)


def test_a_module_without_source_has_no_hash():
    """Compiled code cannot be shown to be the same."""
    assert "has no Python source" in refusal("math:gcd")


def test_a_failed_import_leaves_no_module_behind(source):
    """The next try starts clean."""
    before = set(sys.modules)
    refusal(source("raise ValueError\n"))
    assert set(sys.modules) == before


def test_a_helper_beside_the_file_that_python_does_not_find_is_pointed_at(source):
    """The commonest reason of all why an import fails, and its cure."""
    source("x = 1\n", "plugneighbour.py")
    text = refusal(source("import plugneighbour\ndef score(e, c): ...\n"))
    assert "plugneighbour.py lies beside it; begin the command with PYTHONPATH=" in text
