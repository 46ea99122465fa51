"""Shared by all tests: the --long switch, and hypothesis profiles that follow it."""

from __future__ import annotations

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
