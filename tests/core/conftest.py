"""What the tests of this room share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("rooms", deadline=None, derandomize=True, database=None)
settings.load_profile("rooms")  # the same cases on every machine, and no test of wall-clock time

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write bytes or text to a file and return its path."""

    def write(content: bytes | str, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
