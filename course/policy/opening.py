"""Open a policy by what ``--policy`` says. Each kind is imported only when it is asked for."""

from difflib import get_close_matches
from pathlib import Path

from course.core.errors import UsageError
from course.policy.completer import Completer

KINDS = {
    "tiny": "tiny                   the shipped policy; tiny:FOLDER for another of its kind",
    "hf": "hf:NAME                a model of the Hugging Face hub, or of a folder",
    "replay": "replay:FILE            completions, or a selection pack, that exist already",
}


def open_policy(text: str, *, dtype: str | None = None, device: str | None = None) -> Completer:
    """Open a policy.

    Args:
        text: ``tiny``, ``tiny:FOLDER``, ``hf:NAME``, ``hf:FOLDER`` or ``replay:FILE``.
        dtype: what an ``hf:`` policy computes in; None leaves it to the policy.
        device: what an ``hf:`` policy computes on; None leaves it to the policy.

    Raises: UsageError for a text that names no policy, and for a dtype or device where there is no
        choice; what the policy itself raises when it cannot be opened.
    """
    kind, colon, rest = text.partition(":")
    if kind not in KINDS or (not rest and (colon or kind != "tiny")):
        raise UsageError(
            f"--policy {text} is no policy.{_meant(text)} These exist:\n  "
            + "\n  ".join(KINDS.values())
            + "\nfor instance --policy tiny, or --policy hf:Qwen/Qwen2.5-0.5B-Instruct"
        )
    if kind != "hf" and (dtype or device):
        flag = "--dtype" if dtype else "--device"
        why = "runs in float32 on the CPU" if kind == "tiny" else "computes nothing"
        raise UsageError(f"{flag} is for hf: policies; {text} {why}. Leave {flag} out.")
    if kind == "hf":
        from course.policy.hf import HFPolicy

        return HFPolicy.open(rest, dtype=dtype or "auto", device=device or "auto")
    path = Path(rest).expanduser()
    if kind == "replay":
        from course.policy.replay import ReplayPolicy

        return ReplayPolicy(path)
    from course.policy.model_files import BASE
    from course.policy.tiny import TinyPolicy

    return TinyPolicy(text, path if rest else BASE)


def _meant(text: str) -> str:
    """Guess what was meant, from what lies at that path or reads alike."""
    kind, colon, rest = text.partition(":")
    if kind in KINDS and not rest:
        return f" {kind}: needs a name after the colon."
    path = Path(text).expanduser()
    if path.is_dir():
        return f" Did you mean tiny:{text} or hf:{text}?"
    if path.is_file():
        return f" Did you mean replay:{text}?"
    if close := get_close_matches(kind, KINDS, n=1):
        return f" Did you mean {close[0]}{colon or (':' if close[0] != 'tiny' else '')}{rest}?"
    return f" Did you mean hf:{text}?" if text.count("/") == 1 and not colon else ""
