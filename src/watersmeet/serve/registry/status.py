"""What a server says about itself beside its replies: that it runs, how far it has come, why it failed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from watersmeet.serve.registry.folder import RegistryFolder

STATUS = "status.json"


@dataclass(frozen=True)
class Status:
    """`status.json`. `failure` is why the last run ended, if it failed.

    `side_failures` are those of queries for dead letters, by name: the dataflow goes on without them.
    `beside` is the progress of each query that runs beside the dataflow, by name.
    """

    pid: int = field(default_factory=os.getpid)
    heartbeat: float = field(default_factory=time.time)
    progress: dict[str, Any] | None = None
    failure: str | None = None
    side_failures: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, folder: RegistryFolder) -> None:
        folder.write(STATUS, msgspec.json.encode(replace(self, heartbeat=time.time())).decode())


def read_status(folder: RegistryFolder) -> Status | None:
    """The last status; None if there is none or it cannot be read, since nothing depends on it."""
    try:
        return msgspec.json.decode(folder.read(STATUS) or "", type=Status)
    except (msgspec.MsgspecError, RecursionError):
        return None
