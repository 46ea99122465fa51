"""The scripts under `benchmarks` fit the code as it is: each can be loaded."""

from __future__ import annotations

import importlib

import pytest

from tests.paths import ROOT

SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_finds_all_it_imports(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")
