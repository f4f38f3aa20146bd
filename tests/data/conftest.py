"""The script ``data/prepare.py`` as a module, and the shipped rows."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def prepare() -> ModuleType:
    """``data/`` is no package, so the script is loaded by its path."""
    spec = importlib.util.spec_from_file_location("prepare_data", DATA / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def shipped() -> dict[str, Rows]:
    """Every dataset's rows by split: train, dev, test, wide_test."""
    return {
        path.stem.removeprefix("math_"): [
            json.loads(line) for line in path.read_bytes().splitlines()
        ]
        for path in sorted((DATA / "datasets").glob("math_*.jsonl"))
    }
