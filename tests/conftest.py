"""Shared by all tests: the --long switch and what follows it (hypothesis profiles, variants), no Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from watersmeet import errors

pytest_plugins = ["tests.spark.fixtures"]

_SLOW_IS_FINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same cases every time: a change is judged by what it changes, not by a case that chance brought up.
settings.register_profile("repeated", _SLOW_IS_FINE, derandomize=True)
settings.register_profile("searching", _SLOW_IS_FINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run many more, and random, examples; slow variants")
    parser.addoption("--schedule-seed", type=int, help="run this schedule of the fault machine")
    parser.addoption("--case-seed", type=int, help="run this one of the random cases in process")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("searching" if config.getoption("--long") else "repeated")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Further variants of what another test shows are left to long mode; files of slow tests come first.

    A file runs in one process: one that takes a minute and comes last keeps all others waiting.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("variant"):
                item.add_marker(pytest.mark.skip(reason="a further variant: --long"))


@pytest.fixture(scope="session")
def long_mode(request: pytest.FixtureRequest) -> bool:
    """Whether the run may take its time."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session")
def examples(long_mode: bool) -> Callable[[int], settings]:
    """Settings for a property test of this many examples, forty times as many in long mode."""
    return lambda count: settings(max_examples=count * (40 if long_mode else 1))


@pytest.fixture(autouse=True)
def _secrets_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test conceals, another may show."""
    monkeypatch.setattr(errors, "_concealed", set(errors._concealed))


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may start a JVM, and relative paths are of this test alone."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.chdir(tmp_path)
