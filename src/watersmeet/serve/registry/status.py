"""What a server tells of itself beside its replies: that it lives, how far it is, why it failed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from watersmeet.serve.registry.folder import RegistryFolder

STATUS = "status.json"


@dataclass(frozen=True)
class Status:
    """`status.json`. `failure` is what made the last run end, if it failed."""

    pid: int = field(default_factory=os.getpid)
    jvm: int | None = None  # the process of Spark, which outlives a killed server for a moment
    heartbeat: float = field(default_factory=time.time)
    progress: Mapping[str, Any] | None = None
    failure: str | None = None

    def write(self, folder: RegistryFolder) -> None:
        folder.write(STATUS, json.dumps(asdict(replace(self, heartbeat=time.time()))))


def read_status(folder: RegistryFolder) -> Status | None:
    """What the server last told, or None: nothing depends on it, so what cannot be read is not there."""
    try:
        return Status(**json.loads(folder.read(STATUS) or ""))
    except (ValueError, TypeError):
        return None


def await_end_of_last(folder: RegistryFolder, patience_s: float = 15.0) -> None:
    """Waits for the Spark of a server that was killed to end: it must not meet the next one."""
    status = read_status(folder)
    deadline = time.monotonic() + patience_s
    while status and status.jvm and _lives(status.jvm) and time.monotonic() < deadline:
        time.sleep(0.1)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # gone, or another user's: the number was given again
        return False
    return True
