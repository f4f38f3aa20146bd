"""Hashes that bind artifacts together: SHA-256 of files, and one way to write JSON as bytes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def prompt_lines(prompts: Iterable[tuple[str, str]]) -> bytes:
    """Write (id, prompt) pairs as the bytes whose SHA-256 is a run's ``prompts_sha256``."""
    return msgspec.json.Encoder().encode_lines(list(prompts))


def sha256_bytes(data: bytes) -> str:
    """Return the hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Write plain data or a Struct as the one sequence of bytes that is hashed.

    Keys sorted, no spaces, UTF-8: equal values give equal bytes on every machine.
    """
    return msgspec.json.encode(value, order="sorted")


def pretty_json(value: Any) -> bytes:
    """Write plain data or a Struct for people: indented, keys in their declared order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
