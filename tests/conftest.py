"""Shared by all tests: the --long switch, and hypothesis profiles that follow it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run many more examples of the property tests")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def long_mode(request: pytest.FixtureRequest) -> bool:
    """Whether the run may take its time."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session")
def examples(long_mode: bool) -> Callable[[int], settings]:
    """Settings for a property test of this many examples, twenty times as many in long mode."""
    return lambda count: settings(max_examples=count * (20 if long_mode else 1))
