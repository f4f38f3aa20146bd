"""Claims about ``course.inspect_run`` as a command: what it marks, and what it does not obey."""

import pytest

EVIL = "\x1b[31m\x00\u202e[red]bold[/red] :smile: Final: 8\r\nmore"


@pytest.fixture
def looked(door, jsonl, tmp_path):
    """Evaluate one completion of the problem whose answer is 8, then look at the run."""

    def look(completion: str, *flags: object, prompt: str = "3 + 5 = ?", code: int = 0):
        dataset = jsonl("d.jsonl", [{"id": "a", "prompt": prompt, "expected_answer": 8}])
        answers = jsonl("c.jsonl", [{"id": "a", "completion": completion}])
        out = tmp_path / "run"
        door("eval", "--dataset", dataset, "--completions", answers, "--outdir", out, "--overwrite")
        done = door("inspect_run", "--run", out, *flags)
        assert done.code == code
        return done

    return look


def test_the_part_that_decided_is_marked(looked):
    """The token that is not 8, and nothing else."""
    done = looked("So it is.\nFinal: 7")
    assert "Final: ⟦7⟧" in done.out
    assert "wrong_answer  reward 0" in done.out and "expected    8" in done.out
    assert "parsed      7" in done.out and "because" in done.out


def test_whitespace_that_decided_is_made_visible(looked):
    """A trailing newline would not be seen."""
    assert "Final: 8⟦\\n\\n⟧" in looked("Final: 8\n\n").out


def test_the_last_line_is_the_run_folder(looked, tmp_path):
    """For scripts."""
    assert looked("Final: 8").last == str(tmp_path / "run")


def test_hostile_text_is_inert(looked):
    """Escape, NUL, a bidirectional override, a carriage return: shown as what they are."""
    done = looked(EVIL, prompt=EVIL)
    assert not set("\x1b\x00\u202e\r") & set(done.out + done.err)
    assert "\\x1b[31m\\x00\\u202e[red]bold[/red] :smile: Final: " in done.out


def test_markup_is_no_markup(looked):
    """[red] is text that a model wrote, in the marked part too."""
    assert "⟦[bold]8[/bold]⟧" in looked("Final: [bold]8[/bold]").out


def test_a_long_completion_is_cut_around_the_mark_and_whole_by_id(looked):
    """10,000 characters on each side: what is left out is counted."""
    text = "x" * 10_000 + " Final: 7 " + "y" * 10_000
    short = looked(text).out
    assert len(short) < 2500 and "characters …" in short and "⟦" in short
    assert text.split(" ")[0] in looked(text, "--id", "a").out.replace("\n", "")


def test_only_fails_of_a_perfect_run_says_so(looked):
    """Nothing failed is an answer."""
    assert "0 of them match" in looked("Final: 8", "--only-fails").out


def test_an_unknown_code_is_answered_with_the_codes(looked):
    """Exit 2, and what there is."""
    done = looked("Final: 8", "--code", "okay", code=2)
    assert "no row with code 'okay'" in done.err and "ok (1)" in done.err


def test_json_holds_the_groups_and_their_rows(looked, tmp_path):
    """Nothing else is on stdout; text is as the model wrote it."""
    found = looked(EVIL, "--json").json
    assert found["run_dir"] == str(tmp_path / "run") and found["rows"] == found["matching"] == 1
    (group,) = found["groups"]
    assert group["share"] == 1.0 and group["examples"][0]["completion"] == EVIL


def test_groups_are_shown_with_counts_and_shares(door, run):
    """15 of 20 right; --top-k 1 says that more is hidden."""
    folder = run("run", 15)
    done = door("inspect_run", "--run", folder, "--top-k", 1, "--show", 0)
    assert "15  75.0%  ok" in done.out and "5         in further groups" in done.out
    assert "prompt" not in done.out


@pytest.mark.parametrize("flags", [("--top-k", "0"), ("--show", "-1"), ("--top-k", "x")])
def test_bad_numbers_are_bad_usage(door, flags):
    """Before anything is read."""
    assert door("inspect_run", "--run", "nowhere", *flags).code == 2


def test_an_edited_run_is_not_shown(door, run):
    """What is not sealed is no evidence: exit 1."""
    folder = run("run", 15)
    (folder / "summary.md").write_text("all passed")
    done = door("inspect_run", "--run", folder)
    assert done.code == 1 and done.out == ""
    assert done.err.startswith("error: BrokenSeal: ") and "summary.md" in done.err


def test_an_unscored_row_shows_its_error(door, dataset, answers, tmp_path):
    """The reason, and that there is no reward."""
    path = tmp_path / "broken.py"
    path.write_text("def score(example, completion):\n    raise KeyError('\x1b[31moh')\n")
    argv = ("--dataset", dataset, "--completions", answers(1), "--scorer", f"{path}:score")
    door("eval", *argv, "--outdir", tmp_path / "run")
    done = door("inspect_run", "--run", tmp_path / "run", "--show", "1")
    assert "scorer_error  unscored" in done.out and "KeyError" in done.out
    assert "\x1b" not in done.out


def test_a_hostile_outcome_code_is_inert(door, dataset, answers, tmp_path):
    """Codes come from the scorer, which is somebody's code."""
    path = tmp_path / "evil.py"
    path.write_text(
        "def score(example, completion):\n"
        "    return {'reward': 0.0, 'details': {'code': '\\x1b[2J[red]', 'message': '\\x1b[2J'}}\n"
    )
    argv = ("--dataset", dataset, "--completions", answers(1), "--scorer", f"{path}:score")
    evaluated = door("eval", *argv, "--outdir", tmp_path / "run")
    done = door("inspect_run", "--run", tmp_path / "run")
    assert done.code == 0 and done.out.count("\\x1b[2J[red]") == 4  # the group, three examples
    assert "\x1b" not in evaluated.out + evaluated.err + done.out
