"""Claims about ``--policy``: what each text opens, and what a wrong one is answered."""

import subprocess
import sys
from pathlib import Path

import pytest

from course.core.errors import CourseError, DataError, UsageError
from course.core.paths import ROOT
from course.policy.opening import open_policy


def test_each_kind_opens_its_policy(tiny_folder: Path, tmp_path: Path) -> None:
    """tiny: and hf: take a folder, replay: a file; the facts say which it was."""
    file = tmp_path / "frozen.jsonl"
    file.write_text('{"id": "a", "completion": "x"}\n')
    texts = (f"tiny:{tiny_folder}", f"hf:{tiny_folder}", f"replay:{file}")
    assert [open_policy(text).facts["kind"] for text in texts] == ["tiny", "hf", "replay"]


def test_dtype_and_device_reach_a_hugging_face_model(tiny_folder: Path) -> None:
    """What is asked for is what it computes in and on."""
    facts = open_policy(f"hf:{tiny_folder}", dtype="bfloat16", device="cpu").facts
    assert (facts["dtype"], facts["device"]) == ("bfloat16", "cpu")


def refused(text: str, match: str, error: type[CourseError] = UsageError, **choice: str) -> None:
    with pytest.raises(error, match=match):
        open_policy(text, **choice)


@pytest.mark.parametrize("text", ["openai:gpt-5", "best", "", "tiny:", "hf:", "replay", "replay:"])
def test_an_unknown_policy_is_answered_with_those_that_exist(text: str) -> None:
    """The message lists every kind, and one that can be copied."""
    refused(text, r"(?s)no policy.*tiny:FOLDER.*hf:NAME.*replay:FILE.*--policy tiny")


def test_a_slip_is_answered_with_what_was_meant(tmp_path: Path) -> None:
    """A bare path, a bare hub name and a misspelt kind all have a likely meaning."""
    file = tmp_path / "frozen.jsonl"
    file.touch()
    refused(str(tmp_path), rf"Did you mean tiny:{tmp_path} or hf:{tmp_path}\?")
    refused(str(file), rf"Did you mean replay:{file}\?")
    refused("Qwen/Qwen3-0.6B", r"Did you mean hf:Qwen/Qwen3-0\.6B\?")
    refused("replays:x.jsonl", r"Did you mean replay:x\.jsonl\?")
    refused("tinny", r"Did you mean tiny\?")


def test_dtype_and_device_are_for_models_that_have_the_choice(tiny_folder: Path) -> None:
    """A flag that would change nothing is refused, with the reason."""
    refused(f"tiny:{tiny_folder}", "--device is for hf: .* float32 on the CPU", device="cuda")
    refused("replay:x.jsonl", "--dtype is for hf: .* computes nothing", dtype="float32")


def test_what_is_not_there_is_refused_by_its_own_kind(tmp_path: Path) -> None:
    """The text is understood; the folder or file is what is wrong."""
    for text in (f"tiny:{tmp_path}", f"hf:{tmp_path}", f"replay:{tmp_path}"):
        refused(text, str(tmp_path), DataError)


def test_a_replay_needs_no_model_library(tmp_path: Path) -> None:
    """Frozen completions are served where torch is not installed."""
    file = tmp_path / "frozen.jsonl"
    file.write_text('{"id": "a", "completion": "x"}\n')
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from course.policy.opening import open_policy\n"
        f"print(open_policy({f'replay:{file}'!r}).facts['kind'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("replay\n", "")
