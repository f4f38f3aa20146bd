"""The manifest: where a run came from, and the seal that binds all of it together.

The seal is the SHA-256 of the manifest's own canonical JSON without the seal, so it covers the run
id, every input's hash and every output's hash. It proves integrity: nothing changed since. It does
not prove who made the run, for anyone can seal a folder.
"""

import contextlib
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from course import __version__
from course.core.digests import canonical_json, sha256_file
from course.core.paths import ROOT, recorded
from course.core.records import (
    Command,
    GitState,
    InputFile,
    Manifest,
    OutputFile,
    RunKind,
    SamplingSettings,
    ScorerFacts,
)

MANIFEST = "manifest.json"
UNSEALED = "0" * 64
REDACTED = "[redacted]"

_SECRET_FLAG = re.compile(
    r"(?i)(?:^|[-_])(?:key|apikey|token|secret|password|passwd|credentials?|auth)(?:$|[-_])"
)
_SECRET_VALUE = re.compile(r"\b(sk-|hf_|ghp_|xox[bp]-|Bearer )[\w.+/=-]{8,}")
_SECRET_IN_URL = re.compile(r"(?i)([?&][\w-]*(?:key|token|secret|password|auth)[\w-]*=)[^&#\s]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_USER_IN_URL = re.compile(r"(?<=://)[^/\s]+@")


def seal_of(manifest: Manifest | dict[str, Any]) -> str:
    """Compute the seal of a manifest, whatever seal it carries.

    Args:
        manifest: the record, or a manifest as it stands in its file. A file is judged by its own
            fields, so a run of an older version keeps its seal when the record grows.
    """
    import hashlib

    fields = msgspec.to_builtins(manifest)
    fields.pop("seal", None)
    return hashlib.sha256(canonical_json(fields)).hexdigest()


def manifest_bytes(manifest: Manifest) -> tuple[bytes, Manifest]:
    """Seal a manifest and write it as the bytes of ``manifest.json``."""
    sealed = msgspec.structs.replace(manifest, seal=seal_of(manifest))
    return manifest_json(sealed), sealed


def manifest_json(manifest: Manifest | dict[str, Any]) -> bytes:
    """Write a manifest in its one form: keys sorted, indented."""
    return msgspec.json.format(canonical_json(manifest), indent=2) + b"\n"


class _Written(msgspec.Struct):
    """What shows that a ``manifest.json`` is ours, of whatever version."""

    kind: str
    run_id: str
    seal: str
    outputs: dict[str, Any]


def names_of_run(folder: Path) -> set[str] | None:
    """List the files that a run put into its folder; None when the folder is no run.

    The seal is not checked: this tells a run that may be replaced from a folder of the user's own.
    """
    written = _written(folder)
    return {MANIFEST, *written.outputs} if written else None


def kind_of_run(folder: Path) -> str | None:
    """Tell the kind of the run in a folder, unchecked; None when the folder is no run."""
    written = _written(folder)
    return written.kind if written else None


def _written(folder: Path) -> _Written | None:
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Written)
    return None


class Record:
    """What a run knows of itself from its first moment; it becomes the manifest at its last."""

    def __init__(self, kind: RunKind, argv: Sequence[str], args: dict[str, Any]) -> None:
        self._kind, self._command = kind, command_facts(argv, args)
        self._started, self._clock = utc_now(), time.perf_counter()

    def manifest(
        self,
        outputs: dict[str, OutputFile],
        *,
        inputs: dict[str, InputFile],
        prompts_sha256: str | None = None,
        scorer: ScorerFacts | None = None,
        policy: dict[str, Any] | None = None,
        sampling: SamplingSettings | None = None,
    ) -> Manifest:
        """Say where the run came from; the seal is still to be filled in."""
        return Manifest(
            schema_version=1,
            kind=self._kind,
            run_id=new_run_id(self._started),
            created_utc=f"{self._started:%Y-%m-%dT%H:%M:%SZ}",
            duration_s=round(time.perf_counter() - self._clock, 3),
            command=self._command,
            inputs=inputs,
            prompts_sha256=prompts_sha256,
            scorer=scorer,
            policy=policy,
            sampling=sampling,
            environment=environment_facts(),
            git=git_facts(),
            outputs=outputs,
            seal=UNSEALED,
        )


def input_file(path: Path) -> InputFile:
    """Describe a file that a run read, from the file as it is now."""
    return InputFile(recorded(path), path.stat().st_size, sha256_file(path))


def new_run_id(now: datetime) -> str:
    """Name a run for good: its time and 48 random bits."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def utc_now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def command_facts(argv: Sequence[str], args: dict[str, Any]) -> Command:
    """Record a command as typed and as parsed, without secrets."""
    shown, hide_next = [], False
    for word in argv:
        flag, equals, _ = word.partition("=")
        secret = _is_secret(flag)
        if hide_next:
            shown.append(REDACTED)
        elif secret and equals:
            shown.append(f"{flag}={REDACTED}")
        else:
            shown.append(_without_secrets(word))
        hide_next = secret and not equals
    return Command(shown, {name: _redacted(name, value) for name, value in sorted(args.items())})


def environment_facts() -> dict[str, Any]:
    """Describe the machine and the libraries that this process has loaded."""
    names = ("msgspec", "numpy", "scipy", "torch", "transformers")
    modules = {name: sys.modules.get(name) for name in names}
    loaded = {name: str(module.__version__) for name, module in modules.items() if module}
    system = os.uname()
    return {
        "course": __version__,
        "python": sys.version.split()[0],
        "packages": loaded,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "host": system.nodename,
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads() if (torch := sys.modules.get("torch")) else None,
    }


def git_facts() -> GitState | None:
    """Say which commit of the course ran and whether its files were changed; None outside git."""
    if not (ROOT / ".git").exists():
        return None
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return GitState(commit=commit, dirty=bool(changed))


def _git(*args: str) -> str:
    command = ("git", "-C", str(ROOT), "--no-optional-locks", *args)
    done = subprocess.run(command, capture_output=True, check=True, timeout=10, text=True)
    return done.stdout.strip()


def _is_secret(flag: str) -> bool:
    return flag.startswith("-") and bool(_SECRET_FLAG.search(flag))


def _redacted(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if _is_secret(f"--{name.replace('_', '-')}"):
        return REDACTED
    return _without_secrets(str(value))


def _without_secrets(text: str) -> str:
    text = _SURROGATE.sub("\ufffd", text)  # a file name need not be valid Unicode, JSON must be
    text = _SECRET_IN_URL.sub(rf"\1{REDACTED}", _SECRET_VALUE.sub(REDACTED, text))
    return _USER_IN_URL.sub(f"{REDACTED}@", text)
