"""Scenarios to watch by name: small rings on which a protocol runs message by message."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.errors import ConfigurationError
from watersmeet.lab.watch.dhtjoin import record_dhtjoin
from watersmeet.lab.watch.recording import Recording
from watersmeet.lab.watch.rjoin import record_rjoin

SCENARIOS: dict[str, Callable[[], Recording]] = {"rjoin": record_rjoin, "dhtjoin": record_dhtjoin}


def record(name: str) -> Recording:
    """Runs a scenario and records it."""
    if name not in SCENARIOS:
        raise ConfigurationError(f"there is no scenario {name!r} to watch; there are {', '.join(SCENARIOS)}")
    return SCENARIOS[name]()
