"""The small examples in the planner's docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["statistics", "value_groups", "rate_model", "stream_partition", "completeness"]
)
def test_docstring_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"watersmeet.plan.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
