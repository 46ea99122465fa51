"""The small examples in docstrings of the planner, the query model and the oracle are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.paths import ROOT

SOURCE = ROOT / "src"
PACKAGES = ("oracle", "plan", "query", "sql")
FILES = [path for name in PACKAGES for path in sorted((SOURCE / "watersmeet" / name).rglob("*.py"))]


@pytest.mark.parametrize(
    "path", [path for path in FILES if ">>>" in path.read_text()], ids=lambda path: path.stem
)
def test_docstring_examples_hold(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
