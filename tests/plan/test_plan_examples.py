"""The small examples in the planner's docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "statistics.statistics",
        "statistics.value_groups",
        "statistics.rate_model",
        "sites.stream_partition",
        "sizing.completeness",
    ],
)
def test_docstring_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"watersmeet.plan.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
